// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_fleet_keys.c - `weir fleet keys`: what the store counts under a limit, and forgetting it.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cli/cmd_fleet_look.h"
#include "cli/options.h"

static const char about[] = "Show what the store counts under a limit of scope: fleet, one line per key:\n"
                            "NAME=VALUE choose among them. --reset forgets the one key whose attributes are\n"
                            "all given, or with --all every one that is chosen. The store is that of\n"
                            "--store, else of WEIR_STORE, else the contract's. Exit status 0 when keys were\n"
                            "shown or forgotten, 1 when you said no, 2 for wrong use, 3 when the store could\n"
                            "not be had.\n";

/* Keys of one node whose numbers are asked for together. */
struct chunk {
    struct look looks[CHUNK_MAX];
    size_t ready;
    size_t node;
    bool knows_script; /* the node does: it was brought along once */
};
static struct chunk chunk; /* large for the stack */

/* ---- Keys are shown, or forgotten ----------------------------------------------------------------------------------------- */

static int forget(struct keys *keys, struct look *look)
{
    char room[COMMAND_MAX];
    struct text text = text_of(room, sizeof room);
    struct fleet_ask ask;
    struct resp_value value;
    struct slice name = { look->name, look->name_len };
    struct script_item item = {
        .name = name, .limit = keys->limit->spec, .size = look->size, .lease = look->lease
    };
    const struct script_call call = { .items = &item, .count = 1 };
    int status = EXIT_YES;
    if (!script_put_reset(&text, &call))
        return EXIT_UNDECIDED;
    fleet_ask_begin(&keys->session, &ask, SIZE_MAX, name_slot(name), text_slice(&text));
    if (fleet_ask_wait(&keys->session, &ask, 1)) {
        struct resp_reader reader = resp_reader_of(ask.reply, ask.reply_len);
        bool is_answer = resp_next(&reader, &value) && value.type == RESP_INTEGER;
        look->is_forgotten = is_answer && value.integer > 0;
        keys->forgotten += look->is_forgotten;
        status = is_answer ? EXIT_YES : keys_refused(keys, &value);
    } else {
        status = keys_away(keys);
    }
    fleet_ask_end(&keys->session, &ask);
    return status;
}

/* A chunk of looks: their numbers, and what is to be done with them. */
static int finish_chunk(struct keys *keys, struct look *looks, size_t count, enum script_form form)
{
    int status = EXIT_YES;
    size_t begun = 0;
    while (begun < count && look_begin(keys, &looks[begun], form))
        begun++;
    for (size_t i = 0; i < begun; i++) {
        struct look *look = &looks[i];
        if (status == EXIT_YES && !look_wait(keys, look))
            status = keys_away(keys);
        if (status == EXIT_YES && keys->is_reset)
            status = forget(keys, look);
        if (status != EXIT_YES)
            continue;
        keys_progress(keys, true);
        if (keys->is_json)
            look_print_json(keys, look);
        else
            look_print_text(look);
    }
    for (size_t i = 0; i < begun; i++)
        look_end(keys, &looks[i]);
    return begun == count ? status : EXIT_UNDECIDED;
}

/* The first question to a node goes alone, and brings the script along. */
static int flush(struct keys *keys)
{
    size_t count = chunk.ready;
    if (count == 0)
        return EXIT_YES;
    keys->found += count;
    chunk.ready = 0;
    int status = finish_chunk(keys, chunk.looks, count, chunk.knows_script ? SCRIPT_BY_HASH : SCRIPT_WHOLE);
    chunk.knows_script = chunk.knows_script || look_asks_script(&chunk.looks[0]);
    return status;
}

static int take(struct keys *keys, struct slice name)
{
    if (chunk.node != keys->node)
        chunk.knows_script = false;
    chunk.node = keys->node;
    chunk.ready += look_init(keys, &chunk.looks[chunk.ready], name);
    return chunk.ready == (chunk.knows_script ? CHUNK_MAX : 1) ? flush(keys) : EXIT_YES;
}

/* The one key whose attributes are all given. */
static int one_key(struct keys *keys, const struct weir_shared_ask *ask)
{
    static struct look look; /* large for the stack */
    char name[NAME_MAX_LEN];
    struct slice written = { name, name_write(keys->limit, ask->key, ask->key_len, name) };
    struct cli_request chosen = keys->chosen;
    keys->chosen.count = 0; /* a long key does not show them */
    bool is_key = look_init(keys, &look, written);
    keys->chosen = chosen;
    look.has_size = true;
    look.size = ask->size;
    look.lease = ask->lease;
    keys->found = 1;
    return is_key ? finish_chunk(keys, &look, 1, SCRIPT_WHOLE) : EXIT_UNDECIDED;
}

/* ---- What is meant ------------------------------------------------------------------------------------------------------------ */

static bool confirm(const struct keys *keys)
{
    char line[16] = "";
    if (keys->is_yes)
        return true;
    (void)fprintf(stderr, "forget the keys of '%s' in %s? [y/N] ", keys->limit_name, keys->session.shown);
    return fgets(line, sizeof line, stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
}

static int act(struct keys *keys)
{
    static struct weir_shared shared; /* large for the stack */
    struct weir_fault fault = { 0 };
    bool is_one = keys_are_one(keys) && !keys->is_all;
    if (!keys_are_chosen_well(keys))
        return EXIT_WRONG;
    if (keys->is_reset && !is_one && !keys->is_all) {
        complain(keys->command, "--reset: give every attribute of the key [%s], or --all",
                 keys->limit->spec->key_form);
        return EXIT_WRONG;
    }
    if (is_one
        && weir_contract_shared_key(keys->contract, keys->limit_name, keys->chosen.attributes,
                                    keys->chosen.count, &shared, &fault)
               != 0) {
        complain(keys->command, "%s", fault.message);
        return EXIT_WRONG;
    }
    int status = keys_open(keys);
    if (status != EXIT_YES)
        return status;
    if (is_one)
        return one_key(keys, &shared.asks[0]);
    if (keys->is_reset && !confirm(keys)) {
        complain(keys->command, "nothing was forgotten");
        return EXIT_NO;
    }
    return keys_walk(keys);
}

static int look_into(struct keys *keys)
{
    struct weir_contract *contract = contract_open_shared(keys->command, keys->contract_path);
    if (contract == NULL)
        return EXIT_WRONG;
    keys->contract = contract;
    int status = keys_find_limit(keys) ? act(keys) : EXIT_WRONG;
    if (status == EXIT_YES && keys->is_reset && !keys->is_json)
        tell("%llu forgotten", (unsigned long long)keys->forgotten);
    fleet_session_close(&keys->session);
    weir_contract_free(contract);
    return status;
}

int cmd_fleet_keys(int argc, char **argv)
{
    static struct keys keys = { /* large for the stack */
                                .command = "fleet keys",
                                .suffix = "",
                                .take = take,
                                .flush = flush
    };
    const struct option options[] = {
        { OPTION_TEXT, "store", "URL", "the store, in place of the contract's", &keys.store_url, 0, 0 },
        { OPTION_TEXT, "limit", "NAME", "whose keys", &keys.limit_name, 0, 0 },
        { OPTION_ACT, "reset", NULL, "forget what is counted", &keys.is_reset, 0, 0 },
        { OPTION_ACT, "all", NULL, "--reset every key that is chosen", &keys.is_all, 0, 0 },
        { OPTION_ACT, "yes", NULL, "do not ask before", &keys.is_yes, 0, 0 },
        { OPTION_FLAG, "json", NULL, "one JSON object per key", &keys.is_json, 0, 0 },
    };
    const struct usage usage = { keys.command, "[CONTRACT] [NAME=VALUE...]", about, options,
                                 sizeof options / sizeof *options };
    int status;
    int operands = options_parse(&usage, argc, argv, &status);
    if (operands < 0)
        return status;
    cli_request_init(&keys.chosen);
    if (!cli_request_read_operands(&keys.chosen, usage.command, argv + 1, operands, &keys.contract_path))
        return EXIT_WRONG;
    if (keys.limit_name == NULL) {
        complain(usage.command, "--limit NAME is needed: whose keys");
        return EXIT_WRONG;
    }
    if (keys.is_all && !keys.is_reset) {
        complain(usage.command, "--all goes with --reset; without, every key is shown anyway");
        return EXIT_WRONG;
    }
    if (keys.is_reset && keys.limit_name == getenv("WEIR_LIMIT")) {
        complain(usage.command,
                 "--reset: whose keys is said by --limit NAME; WEIR_LIMIT, which may have been left over, does "
                 "not count");
        return EXIT_WRONG;
    }
    if (keys.is_all && !keys.is_yes && !isatty(STDIN_FILENO)) {
        complain(usage.command,
                 "--reset --all forgets many keys, and there is no terminal to ask at: add --yes");
        return EXIT_WRONG;
    }
    keys.shows_progress = wants_colour(stderr);
    return look_into(&keys);
}
