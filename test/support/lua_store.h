// SPDX-License-Identifier: Apache-2.0
/*
 * lua_store.h - a store in this process: it runs the scripts of src/fleet, in the Lua that Redis has, by a clock that the test sets.
 *
 * Idea: a simulator that judges the scripts must run the very scripts, and a hundred thousand runs leave no time for a server. So a
 * command comes as the bytes that the fleet sends, its script runs in Lua 5.1 on a handful of commands of Redis (lua_command.h), and
 * its reply goes as the bytes that a server sends. test_lua_store.c compares it with a server, byte for byte.
 *
 * What a real store may do to its clients is one call here: lose everything, go back to what it was, forget the scripts, have its
 * clock stepped. And a script may be changed before it runs, in one place: a mutant, which the tests must catch.
 *
 * A script that uses a key that was not declared, or leaves one without expiry, ends the test: in a Cluster it would fail, and an
 * abandoned key stay for ever.
 */
#ifndef WEIR_TEST_LUA_STORE_H
#define WEIR_TEST_LUA_STORE_H

#include "support/lua_data.h"

struct lua_store;

/* `find` stands once in each script that has it, and in one at least; `replace` stands there instead. */
struct lua_mutant {
    const char *find, *replace;
};

/* `mutants` is kept. The clock begins at 0. */
struct lua_store *lua_store_new(const struct lua_mutant *mutants, size_t count);
void lua_store_free(struct lua_store *store);

/* Unix time in us; any. */
void lua_store_now_set(struct lua_store *store, int64_t us);

/* One command; its reply is borrowed until the next one. */
struct slice lua_store_ask(struct lua_store *store, struct slice command);

/* What it has: to look at, to copy, and to put back a copy (data_copy(), which leaves the clock). */
struct data *lua_store_data(struct lua_store *store);
/* It was restarted, and has nothing. */
void lua_store_wipe(struct lua_store *store);
/* It knows no script any more. */
void lua_store_forget_scripts(struct lua_store *store);

/* How many scripts ran so far. */
uint64_t lua_store_ran(const struct lua_store *store);
/* Ends the test if a mutant was not found in any script that ran. */
void lua_store_check_mutants(const struct lua_store *store);

#endif
