// SPDX-License-Identifier: Apache-2.0
/* lua_reply.c - as Redis converts them. */
#include "support/lua_reply.h"

#include <lauxlib.h>

#include "support/unit.h"
#include "wire/resp.h"

/* The value on top of the stack, as Redis makes a reply of it; it is taken off. Tables in tables: no script of ours. */
static void put_value(lua_State *lua, struct text *out, bool is_inside)
{
    size_t len;
    luaL_checkstack(lua, 4, "no room");
    switch (lua_type(lua, -1)) {
    case LUA_TNUMBER:
        resp_put_integer(out, (int64_t)lua_tonumber(lua, -1));
        break;
    case LUA_TSTRING: {
        const char *at = lua_tolstring(lua, -1, &len);
        resp_put_bulk(out, (struct slice){ at, len });
        break;
    }
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1))
            resp_put_integer(out, 1);
        else
            resp_put_null(out, RESP2);
        break;
    case LUA_TTABLE: {
        static const char *const told[] = { "err", "ok" };
        for (size_t i = 0; i < COUNT_OF(told); i++) {
            lua_getfield(lua, -1, told[i]);
            const char *text = lua_tostring(lua, -1);
            if (text != NULL) {
                text_string(out, i == 0 ? "-" : "+");
                text_string(out, text);
                text_string(out, "\r\n");
                lua_pop(lua, 2);
                return;
            }
            lua_pop(lua, 1);
        }
        assert_false(is_inside);
        uint32_t count = 0;
        for (;; count++) {
            lua_rawgeti(lua, -1, (int)count + 1);
            bool is_end = lua_isnil(lua, -1);
            lua_pop(lua, 1);
            if (is_end)
                break;
        }
        resp_put_array(out, count);
        for (uint32_t i = 0; i < count; i++) {
            lua_rawgeti(lua, -1, (int)i + 1);
            put_value(lua, out, true);
        }
        break;
    }
    default:
        resp_put_null(out, RESP2);
    }
    lua_pop(lua, 1);
}

void reply_value(lua_State *lua, struct text *out)
{
    put_value(lua, out, false);
}

/* ---- Of commands ------------------------------------------------------------------------------------------------- */

static struct text *text_in(struct sink *sink)
{
    return ((struct text_sink *)sink)->out;
}

static void text_sink_integer(struct sink *sink, int64_t value)
{
    resp_put_integer(text_in(sink), value);
}

static void text_sink_bulk(struct sink *sink, struct slice text)
{
    resp_put_bulk(text_in(sink), text);
}

static void text_sink_null(struct sink *sink)
{
    resp_put_null(text_in(sink), RESP2);
}

static void text_sink_status(struct sink *sink, const char *text)
{
    text_string(text_in(sink), "+");
    text_string(text_in(sink), text);
    text_string(text_in(sink), "\r\n");
}

static void text_sink_error(struct sink *sink, const char *text)
{
    text_string(text_in(sink), "-");
    text_string(text_in(sink), text);
    text_string(text_in(sink), "\r\n");
}

static void text_sink_array(struct sink *sink, size_t count)
{
    resp_put_array(text_in(sink), (uint32_t)count);
}

struct text_sink text_sink_of(struct text *out)
{
    return (struct text_sink){ .sink = { text_sink_integer, text_sink_bulk, text_sink_null, text_sink_status,
                                         text_sink_error, text_sink_array },
                               .out = out };
}
