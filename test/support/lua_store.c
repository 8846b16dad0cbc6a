// SPDX-License-Identifier: Apache-2.0
/*
 * lua_store.c - EVAL and EVALSHA: a script found or compiled, its arguments, its value as a reply.
 *
 * Elsewhere: what redis.call does (lua_command.h), the state (lua_data.h), the bytes of replies (lua_reply.h).
 */
#include "support/lua_store.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <strings.h>

#include "base/sha1.h"
#include "support/lua_reply.h"
#include "support/unit.h"
#include "wire/resp.h"

#define WORDS_MAX 8192 /* of one command of a script: what unpack() gives at most */
#define SCRIPTS_MAX 16 /* different texts */
#define MUTANTS_MAX 8
#define REPLY_MAX ((size_t)4 << 20)
#define INSTRUCTIONS_MAX 20000000 /* of one script: more is a loop without end */

struct script {
    struct slice text; /* as it came; ours */
    char hash[SHA1_HEX_LEN];
    int function;  /* where Lua keeps it */
    bool is_known; /* to EVALSHA */
};

struct lua_store {
    lua_State *lua;
    struct data data;
    struct script scripts[SCRIPTS_MAX];
    size_t script_count;
    const struct lua_mutant *mutants;
    size_t mutant_count;
    bool was_found[MUTANTS_MAX];
    uint64_t ran;
    /* Of the script that runs. */
    const struct slice *keys;
    size_t key_count;
    char undeclared[128];
    char *reply;
    struct slice words[WORDS_MAX];
    char numbers[WORDS_MAX][32];
};

static struct lua_store *store_of(lua_State *lua)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, "store");
    struct lua_store *store = lua_touserdata(lua, -1);
    lua_pop(lua, 1);
    return store;
}

/* ---- struct: the formats that the scripts use, "<" and then B or d -------------------------------------------- */

static int struct_pack(lua_State *lua)
{
    const char *format = luaL_checkstring(lua, 1);
    luaL_Buffer buffer;
    luaL_argcheck(lua, *format == '<', 1, "only '<' here");
    luaL_buffinit(lua, &buffer);
    int argument = 2;
    for (const char *at = format + 1; *at != '\0'; at++) {
        double value = luaL_checknumber(lua, argument++);
        if (*at == 'B')
            luaL_addchar(&buffer, (char)(unsigned char)(int)value);
        else if (*at == 'd')
            luaL_addlstring(&buffer, (const char *)&value, sizeof value);
        else
            return luaL_argerror(lua, 1, "only B and d here");
    }
    luaL_pushresult(&buffer);
    return 1;
}

static int struct_unpack(lua_State *lua)
{
    size_t len;
    const char *format = luaL_checkstring(lua, 1), *bytes = luaL_checklstring(lua, 2, &len);
    size_t at = (size_t)luaL_optinteger(lua, 3, 1) - 1;
    luaL_argcheck(lua, *format == '<', 1, "only '<' here");
    int count = 0;
    for (const char *f = format + 1; *f != '\0'; f++) {
        size_t size = *f == 'B' ? 1 : 8;
        double value;
        luaL_argcheck(lua, *f == 'B' || *f == 'd', 1, "only B and d here");
        luaL_argcheck(lua, size <= len && at <= len - size, 2, "data string too short");
        luaL_checkstack(lua, 2, "too many results");
        memcpy(&value, bytes + at, size == 8 ? 8 : 0);
        lua_pushnumber(lua, *f == 'B' ? (double)(unsigned char)bytes[at] : value);
        at += size;
        count++;
    }
    lua_pushinteger(lua, (lua_Integer)at + 1);
    return count + 1;
}

/* ---- redis.call: a command's reply as values of Lua ------------------------------------------------------------- */

struct lua_sink {
    struct sink sink;
    lua_State *lua;
    int place, count; /* in the array that is on the stack */
    bool is_error;
};

static lua_State *lua_of(struct sink *sink)
{
    return ((struct lua_sink *)sink)->lua;
}

static void pushed(struct sink *sink)
{
    struct lua_sink *to = (struct lua_sink *)sink;
    if (to->place < to->count)
        lua_rawseti(to->lua, -2, ++to->place);
}

static void lua_sink_integer(struct sink *sink, int64_t value)
{
    lua_pushnumber(lua_of(sink), (lua_Number)value);
    pushed(sink);
}

static void lua_sink_bulk(struct sink *sink, struct slice text)
{
    lua_pushlstring(lua_of(sink), text.at, text.len);
    pushed(sink);
}

static void lua_sink_null(struct sink *sink)
{
    lua_pushboolean(lua_of(sink), 0);
    pushed(sink);
}

static void push_told(lua_State *lua, const char *field, const char *text)
{
    lua_createtable(lua, 0, 1);
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, field);
}

static void lua_sink_status(struct sink *sink, const char *text)
{
    push_told(lua_of(sink), "ok", text);
}

static void lua_sink_error(struct sink *sink, const char *text)
{
    push_told(lua_of(sink), "err", text);
    ((struct lua_sink *)sink)->is_error = true;
}

static void lua_sink_array(struct sink *sink, size_t count)
{
    struct lua_sink *to = (struct lua_sink *)sink;
    lua_createtable(to->lua, (int)count, 0);
    to->count = (int)count;
}

static void check_declared(void *context, struct slice key)
{
    struct lua_store *store = context;
    for (size_t i = 0; i < store->key_count; i++)
        if (slice_equals(store->keys[i], key))
            return;
    (void)snprintf(store->undeclared, sizeof store->undeclared, "%.*s", (int)key.len, key.at);
}

/* The words of a command, out of the arguments of Lua. */
static size_t words_of(lua_State *lua, struct lua_store *store)
{
    int count = lua_gettop(lua);
    if (count < 1 || count > WORDS_MAX)
        return (size_t)luaL_error(lua, "a command of %d words", count);
    for (int i = 0; i < count; i++) {
        size_t len;
        if (lua_type(lua, i + 1) == LUA_TNUMBER) {
            int digits =
                snprintf(store->numbers[i], sizeof store->numbers[i], "%.17g", lua_tonumber(lua, i + 1));
            store->words[i] = (struct slice){ store->numbers[i], (size_t)digits };
        } else if (lua_type(lua, i + 1) == LUA_TSTRING) {
            const char *at = lua_tolstring(lua, i + 1, &len);
            store->words[i] = (struct slice){ at, len };
        } else {
            return (size_t)luaL_error(lua, "Lua redis lib command arguments must be strings or integers");
        }
    }
    return (size_t)count;
}

static int run_command(lua_State *lua, bool raises)
{
    struct lua_store *store = store_of(lua);
    size_t count = words_of(lua, store);
    struct lua_sink to = {
        .sink = { lua_sink_integer, lua_sink_bulk, lua_sink_null, lua_sink_status, lua_sink_error,
                  lua_sink_array },
        .lua = lua,
    };
    luaL_checkstack(lua, 8, "no room");
    command_keys(store->words, count, check_declared, store);
    if (!command_run(&store->data, store->words, count, &to.sink))
        lua_sink_error(&to.sink, "ERR Unknown Redis command called from script");
    return raises && to.is_error ? lua_error(lua) : 1;
}

static int redis_call(lua_State *lua)
{
    return run_command(lua, true);
}

static int redis_pcall(lua_State *lua)
{
    return run_command(lua, false);
}

/* ---- The interpreter ------------------------------------------------------------------------------------------------ */

static int no_such_global(lua_State *lua)
{
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'", lua_tostring(lua, 2));
}

static int no_new_global(lua_State *lua)
{
    return luaL_error(lua, "Attempt to modify a readonly table");
}

static void too_long(lua_State *lua, lua_Debug *debug)
{
    (void)debug;
    (void)luaL_error(lua, "the script does not end");
}

/* What was thrown becomes a text: the message, and where. */
static int describe_error(lua_State *lua)
{
    lua_Debug debug = { .currentline = -1 };
    if (lua_getstack(lua, 1, &debug)) {
        (void)lua_getinfo(lua, "nSl", &debug);
        if (strcmp(debug.what, "C") == 0 && lua_getstack(lua, 2, &debug))
            (void)lua_getinfo(lua, "nSl", &debug);
    }
    if (lua_istable(lua, 1))
        lua_getfield(lua, 1, "err");
    else
        lua_pushfstring(lua, "ERR %s", lua_tostring(lua, 1));
    lua_createtable(lua, 0, 2);
    lua_insert(lua, -2);
    lua_setfield(lua, -2, "err");
    lua_pushinteger(lua, debug.currentline);
    lua_setfield(lua, -2, "line");
    return 1;
}

static void open_libraries(lua_State *lua)
{
    static const struct {
        const char *name;
        lua_CFunction open;
    } libraries[] = { { "", luaopen_base },
                      { LUA_TABLIBNAME, luaopen_table },
                      { LUA_STRLIBNAME, luaopen_string },
                      { LUA_MATHLIBNAME, luaopen_math } };
    static const luaL_Reg redis_functions[] = { { "call", redis_call },
                                                { "pcall", redis_pcall },
                                                { NULL, NULL } };
    static const luaL_Reg struct_functions[] = { { "pack", struct_pack },
                                                 { "unpack", struct_unpack },
                                                 { NULL, NULL } };
    for (size_t i = 0; i < COUNT_OF(libraries); i++) {
        lua_pushcfunction(lua, libraries[i].open);
        lua_pushstring(lua, libraries[i].name);
        lua_call(lua, 1, 0);
    }
    luaL_register(lua, "redis", redis_functions);
    luaL_register(lua, "struct", struct_functions);
    lua_settop(lua, 0);
    lua_createtable(lua, 0, 2);
    lua_pushcfunction(lua, no_such_global);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, no_new_global);
    lua_setfield(lua, -2, "__newindex");
    (void)lua_setmetatable(lua, LUA_GLOBALSINDEX);
}

/* ---- Scripts -------------------------------------------------------------------------------------------------------- */

/* The text with the mutants that are in it. Gives memory of ours. */
static char *mutated(struct lua_store *store, struct slice text)
{
    char *now = strndup(text.at, text.len);
    assert_non_null(now);
    for (size_t i = 0; i < store->mutant_count; i++) {
        const struct lua_mutant *mutant = &store->mutants[i];
        char *at = strstr(now, mutant->find);
        if (at == NULL)
            continue;
        if (strstr(at + 1, mutant->find) != NULL)
            fail_msg("a script has '%s' more than once", mutant->find);
        store->was_found[i] = true;
        char *next;
        assert_true(
            asprintf(&next, "%.*s%s%s", (int)(at - now), now, mutant->replace, at + strlen(mutant->find)) >= 0);
        free(now);
        now = next;
    }
    return now;
}

/* Of a text: compiled, if it was not seen before. NULL: it cannot be compiled. */
static struct script *script_of_text(struct lua_store *store, struct slice text)
{
    for (size_t i = 0; i < store->script_count; i++)
        if (slice_equals(store->scripts[i].text, text))
            return &store->scripts[i];
    assert_true(store->script_count < SCRIPTS_MAX);
    struct script *script = &store->scripts[store->script_count];
    char *changed = mutated(store, text);
    int code = luaL_loadbuffer(store->lua, changed, strlen(changed), "@user_script");
    free(changed);
    if (code != 0)
        return NULL;
    *script = (struct script){ .text = { strndup(text.at, text.len), text.len } };
    script->function = luaL_ref(store->lua, LUA_REGISTRYINDEX);
    sha1_hex(text.at, text.len, script->hash);
    store->script_count++;
    return script;
}

static struct script *script_of_hash(struct lua_store *store, struct slice hash)
{
    for (size_t i = 0; i < store->script_count; i++)
        if (store->scripts[i].is_known && hash.len == SHA1_HEX_LEN
            && strncasecmp(store->scripts[i].hash, hash.at, hash.len) == 0)
            return &store->scripts[i];
    return NULL;
}

static void set_list(lua_State *lua, const char *name, const struct slice *words, size_t count)
{
    lua_pushstring(lua, name);
    lua_createtable(lua, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, words[i].at, words[i].len);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

static void check_ended(struct lua_store *store)
{
    if (store->undeclared[0] != '\0')
        fail_msg("a script used the key '%s', which is not among its KEYS", store->undeclared);
    for (size_t i = 0; i < store->data.count; i++)
        if (store->data.keys[i].expires_at_ms < 0)
            fail_msg("a script left the key '%.*s' without expiry", (int)store->data.keys[i].name.len,
                     store->data.keys[i].name.at);
}

static void put_error(lua_State *lua, struct text *out, const struct script *script)
{
    char line[512];
    lua_getfield(lua, -1, "err");
    lua_getfield(lua, -2, "line");
    int len = snprintf(line, sizeof line, "-%s script: %.*s, on @user_script:%d.\r\n", lua_tostring(lua, -2),
                       SHA1_HEX_LEN, script->hash, (int)lua_tointeger(lua, -1));
    text_bytes(out, line, len < (int)sizeof line ? (size_t)len : sizeof line - 1);
}

/* words: EVAL or EVALSHA, what, how many keys, keys, arguments. */
static void run_script(struct lua_store *store, const struct script *script, const struct slice *words,
                       size_t count, struct text *out)
{
    lua_State *lua = store->lua;
    uint64_t keys;
    assert_true(slice_to_u64(words[2], count - 3, &keys));
    store->keys = words + 3;
    store->key_count = (size_t)keys;
    store->ran++;
    lua_settop(lua, 0);
    set_list(lua, "KEYS", words + 3, (size_t)keys);
    set_list(lua, "ARGV", words + 3 + keys, count - 3 - (size_t)keys);
    lua_pushcfunction(lua, describe_error);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, script->function);
    (void)lua_sethook(lua, too_long, LUA_MASKCOUNT, INSTRUCTIONS_MAX);
    if (lua_pcall(lua, 0, 1, 1) == 0)
        reply_value(lua, out);
    else
        put_error(lua, out, script);
    check_ended(store);
}

/* ---- Commands of clients ---------------------------------------------------------------------------------------------- */

static bool says(struct slice word, const char *name)
{
    return word.len == strlen(name) && strncasecmp(word.at, name, word.len) == 0;
}

static void put_compile_error(struct lua_store *store, struct text *out)
{
    text_string(out, "-ERR Error compiling script (new function): ");
    text_string(out, lua_tostring(store->lua, -1));
    text_string(out, "\r\n");
}

static void ask_script(struct lua_store *store, const struct slice *words, size_t count, struct text *out)
{
    bool is_whole = says(words[0], "EVAL");
    struct script *script = is_whole ? script_of_text(store, words[1]) : script_of_hash(store, words[1]);
    if (script == NULL && is_whole) {
        put_compile_error(store, out);
    } else if (script == NULL) {
        text_string(out, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    } else {
        script->is_known = true;
        run_script(store, script, words, count, out);
    }
}

static void ask_about_scripts(struct lua_store *store, const struct slice *words, size_t count,
                              struct text *out)
{
    struct text_sink to = text_sink_of(out);
    if (count == 3 && says(words[1], "LOAD")) {
        struct script *script = script_of_text(store, words[2]);
        if (script == NULL) {
            put_compile_error(store, out);
            return;
        }
        script->is_known = true;
        resp_put_bulk(out, (struct slice){ script->hash, SHA1_HEX_LEN });
    } else if (count == 2 && says(words[1], "FLUSH")) {
        lua_store_forget_scripts(store);
        to.sink.status(&to.sink, "OK");
    } else {
        to.sink.error(&to.sink, "ERR unknown subcommand");
    }
}

struct slice lua_store_ask(struct lua_store *store, struct slice command)
{
    static struct slice words[WORDS_MAX];
    struct text out = text_of(store->reply, REPLY_MAX);
    struct text_sink to = text_sink_of(&out);
    struct resp_reader reader = resp_reader_of(command.at, command.len);
    struct resp_value value;
    size_t count = 0;
    assert_true(resp_next(&reader, &value) && value.type == RESP_ARRAY && value.count <= WORDS_MAX);
    for (uint32_t left = value.count; left > 0; left--) {
        struct resp_value word;
        assert_true(resp_next(&reader, &word) && word.type == RESP_BULK);
        words[count++] = word.text;
    }
    assert_true(count > 0);
    if (count >= 3 && (says(words[0], "EVAL") || says(words[0], "EVALSHA")))
        ask_script(store, words, count, &out);
    else if (count >= 2 && says(words[0], "SCRIPT"))
        ask_about_scripts(store, words, count, &out);
    else if (!command_run(&store->data, words, count, &to.sink))
        fail_msg("there is no '%.*s' in this store", (int)words[0].len, words[0].at);
    assert_false(out.is_cut);
    return text_slice(&out);
}

/* ---- The store -------------------------------------------------------------------------------------------------------- */

struct lua_store *lua_store_new(const struct lua_mutant *mutants, size_t count)
{
    struct lua_store *store = calloc(1, sizeof *store);
    assert_non_null(store);
    assert_true(count <= MUTANTS_MAX);
    store->mutants = mutants;
    store->mutant_count = count;
    store->reply = malloc(REPLY_MAX);
    store->lua = luaL_newstate();
    assert_non_null(store->reply);
    assert_non_null(store->lua);
    lua_pushlightuserdata(store->lua, store);
    lua_setfield(store->lua, LUA_REGISTRYINDEX, "store");
    open_libraries(store->lua);
    (void)lua_gc(store->lua, LUA_GCSETPAUSE, 1000); /* little is alive, and much is made: memory for time */
    return store;
}

void lua_store_free(struct lua_store *store)
{
    if (store == NULL)
        return;
    lua_close(store->lua);
    data_clear(&store->data);
    for (size_t i = 0; i < store->script_count; i++)
        free((void *)(uintptr_t)store->scripts[i].text.at);
    free(store->reply);
    free(store);
}

void lua_store_now_set(struct lua_store *store, int64_t us)
{
    store->data.now_us = us;
}

struct data *lua_store_data(struct lua_store *store)
{
    return &store->data;
}

void lua_store_wipe(struct lua_store *store)
{
    data_clear(&store->data);
    lua_store_forget_scripts(store);
}

void lua_store_forget_scripts(struct lua_store *store)
{
    for (size_t i = 0; i < store->script_count; i++)
        store->scripts[i].is_known = false;
}

uint64_t lua_store_ran(const struct lua_store *store)
{
    return store->ran;
}

void lua_store_check_mutants(const struct lua_store *store)
{
    for (size_t i = 0; i < store->mutant_count; i++)
        if (!store->was_found[i])
            fail_msg("no script has '%s'", store->mutants[i].find);
}
