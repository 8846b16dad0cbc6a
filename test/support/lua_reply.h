// SPDX-License-Identifier: Apache-2.0
/* lua_reply.h - replies of the in-process store as bytes (RESP2): of a script's value, and of a command of a client's. */
#ifndef WEIR_TEST_LUA_REPLY_H
#define WEIR_TEST_LUA_REPLY_H

#include <lua.h>

#include "support/lua_command.h"
#include "wire/text.h"

/* The value on top of the stack, which is taken off. */
void reply_value(lua_State *lua, struct text *out);

struct text_sink {
    struct sink sink;
    struct text *out;
};
struct text_sink text_sink_of(struct text *out);

#endif
