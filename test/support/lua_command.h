// SPDX-License-Identifier: Apache-2.0
/*
 * lua_command.h - the commands of Redis that our scripts use, on lua_data.h.
 *
 * Idea: a command is words, and its reply goes to whoever listens: a script, as values of Lua, or a client, as bytes. Just so much of
 * each command is here as the scripts of src/fleet use; an option that is not known is an error, so that nothing is answered that a
 * real store would answer otherwise.
 */
#ifndef WEIR_TEST_LUA_COMMAND_H
#define WEIR_TEST_LUA_COMMAND_H

#include "support/lua_data.h"

/* Who listens. Arrays are flat: their values come next. */
struct sink {
    void (*integer)(struct sink *sink, int64_t value);
    void (*bulk)(struct sink *sink, struct slice text);
    void (*null)(struct sink *sink);
    void (*status)(struct sink *sink, const char *text);
    void (*error)(struct sink *sink, const char *text); /* with its code */
    void (*array)(struct sink *sink, size_t count);
};

/* False: there is no such command here. */
bool command_run(struct data *data, const struct slice *words, size_t count, struct sink *sink);

/* Calls `each` with every word that names a key. */
void command_keys(const struct slice *words, size_t count, void (*each)(void *context, struct slice key),
                  void *context);

#endif
