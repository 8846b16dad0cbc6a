// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_fleet_walk.h - all that a store has under one limit: found by its names, in steps.
 *
 * Idea: the store's names can be read back (fleet/name.h), so what belongs to a limit is found by walking over all names in steps
 * (SCAN), which a store survives at any size. What is done with a name is the command's.
 */
#ifndef WEIR_CLI_CMD_FLEET_WALK_H
#define WEIR_CLI_CMD_FLEET_WALK_H

#include "cli/cmd_fleet.h"
#include "cli/request.h"
#include "fleet/script.h"

/* Keys whose numbers are asked for together. */
#define CHUNK_MAX 64

/* One command about the keys of a limit. */
struct keys {
    const char *command;
    struct fleet_session session;
    const struct weir_contract *contract;
    const struct weir_contract_limit *limit;
    struct cli_request chosen;
    const char *contract_path, *store_url, *limit_name;
    bool is_reset, is_all, is_yes, is_json;
    bool shows_progress;
    uint64_t seen, found, forgotten;

    const char *suffix; /* of the names that are walked over; "": any */
    size_t node;        /* whose names they are */
    /* A name. It lives as long as the call. Gives an exit status; one other than EXIT_YES ends the walk. */
    int (*take)(struct keys *keys, struct slice name);
    int (*flush)(struct keys *keys); /* behind each step */
};

/* The store could not be had, or it answered a command with an error: complain. Both give the exit status. */
int keys_away(struct keys *keys);
int keys_refused(const struct keys *keys, const struct resp_value *error);

/* How far it is, where somebody looks on; at the end, and before a line of the output, nothing. */
void keys_progress(const struct keys *keys, bool is_end);

/* keys->limit_name of the contract becomes keys->limit. False after complaining. */
bool keys_find_limit(struct keys *keys);

/* Whether all that was chosen is part of the limit's key; false after complaining. */
bool keys_are_chosen_well(const struct keys *keys);

/* Whether all attributes of the limit's key are given. */
bool keys_are_one(const struct keys *keys);

/* Connect. Gives EXIT_YES, or the exit status of what was complained about. */
int keys_open(struct keys *keys);

/* Walk over every node that keeps keys. Gives an exit status. */
int keys_walk(struct keys *keys);

#endif
