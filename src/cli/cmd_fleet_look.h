// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_fleet_look.h - one key in the store: its name read back, what is left of it, how that is said.
 *
 * Idea: what is left is asked of the same script that decides, as a look that takes nothing; so it is what a request would meet.
 */
#ifndef WEIR_CLI_CMD_FLEET_LOOK_H
#define WEIR_CLI_CMD_FLEET_LOOK_H

#include "cli/cmd_fleet_walk.h"
#include "fleet/name.h"

/* Longest command about one key, without the text of a script. */
#define COMMAND_MAX (2 * NAME_MAX_LEN + 1024)

/* One key in the store, and what is asked about it. */
struct look {
    char name[NAME_MAX_LEN];
    size_t name_len;
    struct cli_request attributes; /* names of the key's attributes; values below */
    char values[NAME_MAX_LEN];
    bool is_readable; /* the attributes are known: a long key has only its digest */
    bool has_size;
    bool is_forgotten; /* it was there, and was removed */
    struct weir_shared_size size;
    struct weir_lease lease;
    struct script_item item;
    struct script_call call;
    char *commands;           /* all, one behind the other */
    struct fleet_ask asks[3]; /* PTTL, and a look, and who holds it */
    size_t ask_count;
    size_t peek, holders; /* which of them; 0: it is not asked */
};

/* A name as the store gives it becomes a look. False: it is not one of the limit's keys that were chosen. */
bool look_init(const struct keys *keys, struct look *look, struct slice name);

/* Whether it is one whose numbers the script tells. */
bool look_asks_script(const struct look *look);

/* Ask when the key goes, and what is left of it. Whole: the store may not know the script. False: memory is out. */
bool look_begin(struct keys *keys, struct look *look, enum script_form form);
/* Wait for the answers. False: the store could not be had. */
bool look_wait(struct keys *keys, struct look *look);
void look_end(struct keys *keys, struct look *look);

/* Parts of what is said: the key as it stands in its name, and as members of JSON. */
void look_print_parts(const struct look *look);
void look_put_key(struct text *text, const struct keys *keys, const struct look *look);

void look_print_text(const struct look *look);
void look_print_json(const struct keys *keys, const struct look *look);

#endif
