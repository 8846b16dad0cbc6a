// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_fleet_keys.c - `weir fleet keys`: what the store counts under a limit, and forgetting it.
 *
 * Idea: the store's names can be read back (fleet/name.h), so the keys of a limit are found by walking over all names in steps
 * (SCAN), which a store survives at any size.
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

/* Names that the store looks at in one step, and keys whose numbers are asked for together. */
#define SCAN_COUNT "500"
#define CHUNK_MAX 64

static void progress(const struct keys *keys, bool is_end)
{
    if (!keys->shows_progress)
        return;
    if (is_end)
        (void)fprintf(stderr, "\r\033[K"); /* a progress that is not seen harms nobody */
    else
        (void)fprintf(stderr, "\r\033[K%llu names seen, %llu keys found", (unsigned long long)keys->seen,
                      (unsigned long long)keys->found);
    (void)fflush(stderr);
}

static int away(struct keys *keys)
{
    complain("fleet keys", "%s: %s", keys->session.shown, fleet_session_why(&keys->session));
    return EXIT_UNDECIDED;
}

/* The store's own words, where a command was answered with an error. */
static int refused(const struct keys *keys, const struct resp_value *error)
{
    complain("fleet keys", "%s: %.*s", keys->session.shown, (int)error->text.len, error->text.at);
    return EXIT_UNDECIDED;
}

/* ---- Keys are shown, or forgotten ----------------------------------------------------------------------------------------- */

static int forget(struct keys *keys, struct look *look)
{
    char room[COMMAND_MAX];
    struct text text = text_of(room, sizeof room);
    struct fleet_ask ask;
    struct resp_value value;
    struct slice name = { look->name, look->name_len };
    struct script_item item = { .name = name, .limit = keys->limit->spec, .size = look->size };
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
        status = is_answer ? EXIT_YES : refused(keys, &value);
    } else {
        status = away(keys);
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
            status = away(keys);
        if (status == EXIT_YES && keys->is_reset)
            status = forget(keys, look);
        if (status != EXIT_YES)
            continue;
        progress(keys, true);
        if (keys->is_json)
            look_print_json(keys, look);
        else
            look_print_text(look);
    }
    for (size_t i = 0; i < begun; i++)
        look_end(keys, &looks[i]);
    return begun == count ? status : EXIT_UNDECIDED;
}

/* The names of one step of the walk. */
static int take_names(struct keys *keys, struct resp_reader *reader, uint32_t count, bool *is_first)
{
    static struct look looks[CHUNK_MAX]; /* large for the stack */
    struct resp_value name;
    size_t ready = 0;
    int status = EXIT_YES;
    for (uint32_t i = 0; i < count && status == EXIT_YES; i++) {
        if (!resp_next(reader, &name) || !resp_is_text(&name))
            return EXIT_UNDECIDED;
        keys->seen++;
        ready += look_init(keys, &looks[ready], name.text);
        if (ready == (*is_first ? 1 : CHUNK_MAX) || (i + 1 == count && ready > 0)) {
            keys->found += ready;
            status = finish_chunk(keys, looks, ready, *is_first ? SCRIPT_WHOLE : SCRIPT_BY_HASH);
            *is_first = *is_first && !look_asks_script(&looks[0]); /* else the node knows the script now */
            ready = 0;
        }
    }
    if (ready > 0 && status == EXIT_YES) {
        keys->found += ready;
        status = finish_chunk(keys, looks, ready, SCRIPT_BY_HASH);
    }
    return status;
}

/* One step: the cursor of the next one is written, "0" at the end. */
static int scan_step(struct keys *keys, size_t node, char cursor[24], bool *is_first)
{
    char room[NAME_MAX_LEN + 256], pattern[NAME_MAX_LEN];
    struct text text = text_of(room, sizeof room);
    struct slice match = { pattern, name_pattern(keys->limit_name, pattern) };
    const struct slice words[] = { SLICE("SCAN"), slice_of(cursor), SLICE("MATCH"),
                                   match,         SLICE("COUNT"),   SLICE(SCAN_COUNT) };
    struct resp_value value, next, names;
    struct fleet_ask ask;
    int status = EXIT_UNDECIDED;
    resp_put_array(&text, 6);
    for (size_t i = 0; i < 6; i++)
        resp_put_bulk(&text, words[i]);
    fleet_ask_begin(&keys->session, &ask, node, 0, text_slice(&text));
    if (!fleet_ask_wait(&keys->session, &ask, 1)) {
        fleet_ask_end(&keys->session, &ask);
        return away(keys);
    }
    struct resp_reader reader = resp_reader_of(ask.reply, ask.reply_len);
    if (resp_next(&reader, &value) && value.type == RESP_ERROR) {
        status = refused(keys, &value);
    } else if (value.type == RESP_ARRAY && value.count == 2 && resp_next(&reader, &next) && resp_is_text(&next)
               && next.text.len > 0 && next.text.len < 24 && resp_next(&reader, &names)
               && names.type == RESP_ARRAY) {
        memcpy(cursor, next.text.at, next.text.len);
        cursor[next.text.len] = '\0';
        status = take_names(keys, &reader, names.count, is_first);
    }
    fleet_ask_end(&keys->session, &ask);
    progress(keys, false);
    return status;
}

static int walk_node(struct keys *keys, size_t node)
{
    char cursor[24] = "0";
    bool is_first = true;
    int status;
    do
        status = scan_step(keys, node, cursor, &is_first);
    while (status == EXIT_YES && strcmp(cursor, "0") != 0);
    return status;
}

/* Walk over every node that keeps keys, unless some slot is nobody's: a part of the keys is not all of them. */
static int walk(struct keys *keys)
{
    static struct store_node nodes[FLEET_NODES_MAX]; /* large for the stack */
    size_t count = store_client_nodes(keys->session.carrier, nodes, FLEET_NODES_MAX);
    int status = EXIT_YES;
    unsigned slots = 0;
    for (size_t i = 0; i < count; i++)
        slots += nodes[i].is_up ? nodes[i].slots : 0;
    if (slots != SLOT_COUNT)
        return away(keys);
    for (size_t i = 0; i < count && status == EXIT_YES; i++)
        if (nodes[i].is_up && nodes[i].slots > 0)
            status = walk_node(keys, i);
    progress(keys, true);
    return status;
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
    keys->found = 1;
    return is_key ? finish_chunk(keys, &look, 1, SCRIPT_WHOLE) : EXIT_UNDECIDED;
}

/* ---- What is meant ------------------------------------------------------------------------------------------------------------ */

static const struct weir_contract_limit *find_limit(const struct keys *keys)
{
    for (size_t i = 0; i < weir_contract_limit_count(keys->contract); i++) {
        const struct weir_contract_limit *limit = weir_contract_limit(keys->contract, (weir_limit_id)i);
        if (strcmp(limit->name, keys->limit_name) == 0 && limit->is_shared)
            return limit;
        if (strcmp(limit->name, keys->limit_name) == 0) {
            complain("fleet keys",
                     "limit '%s' is not of scope: fleet: each server keeps its keys; POST /v1/reset there",
                     limit->name);
            return NULL;
        }
    }
    complain("fleet keys", "the contract has no limit '%.80s'", keys->limit_name);
    return NULL;
}

static bool confirm(const struct keys *keys)
{
    char line[16] = "";
    if (keys->is_yes)
        return true;
    (void)fprintf(stderr, "forget the keys of '%s' in %s? [y/N] ", keys->limit_name, keys->session.shown);
    return fgets(line, sizeof line, stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
}

/* An attribute that is no part of the limit's key chooses nothing: a slip. */
static bool is_key_attribute(const struct keys *keys, const char *name)
{
    const char *at = keys->limit->spec->key_form == NULL ? "" : keys->limit->spec->key_form;
    for (size_t len = strlen(name); *at != '\0'; at += strcspn(at, ",") + (strchr(at, ',') != NULL))
        if (strncmp(at, name, len) == 0 && strcspn(at, ",/") == len)
            return true;
    complain("fleet keys", "'%.80s' is no part of the key of '%s', which is [%s]", name, keys->limit_name,
             keys->limit->spec->key_form == NULL ? "" : keys->limit->spec->key_form);
    return false;
}

/* How many attributes the limit's key has. */
static size_t key_parts(const struct keys *keys)
{
    const char *form = keys->limit->spec->key_form == NULL ? "" : keys->limit->spec->key_form;
    size_t count = form[0] != '\0';
    for (; *form != '\0'; form++)
        count += *form == ',';
    return count;
}

/* One node of a Cluster has a part of the keys, and that is not told from all of them. */
static void find_cluster(struct fleet_session *session)
{
    static const struct slice info = { "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n", 26 };
    struct fleet_ask ask;
    fleet_ask_begin(session, &ask, SIZE_MAX, 0, info);
    if (fleet_ask_wait(session, &ask, 1)) /* one who may not ask is not told */
        session->is_of_cluster =
            session->is_of_cluster || memmem(ask.reply, ask.reply_len, "_mode:cluster\r", 14) != NULL;
    fleet_ask_end(session, &ask);
}

static int act(struct keys *keys)
{
    static struct weir_shared shared; /* large for the stack */
    struct weir_fault fault = { 0 };
    bool is_one = keys->chosen.count == key_parts(keys) && !keys->is_all;
    for (size_t i = 0; i < keys->chosen.count; i++)
        if (!is_key_attribute(keys, keys->chosen.attributes[i].name))
            return EXIT_WRONG;
    if (keys->is_reset && !is_one && !keys->is_all) {
        complain("fleet keys", "--reset: give every attribute of the key [%s], or --all",
                 keys->limit->spec->key_form);
        return EXIT_WRONG;
    }
    if (is_one
        && weir_contract_shared_key(keys->contract, keys->limit_name, keys->chosen.attributes,
                                    keys->chosen.count, &shared, &fault)
               != 0) {
        complain("fleet keys", "%s", fault.message);
        return EXIT_WRONG;
    }
    int status = fleet_session_open(&keys->session, "fleet keys", keys->store_url, keys->contract);
    if (status != EXIT_YES)
        return status;
    (void)fleet_session_ready(&keys->session); /* a node that is away is told of where it matters */
    if (keys->session.url.kind == URL_ONE && !keys->session.is_hopeless)
        find_cluster(&keys->session);
    if (keys->session.is_of_cluster)
        return away(keys);
    if (is_one)
        return one_key(keys, &shared.asks[0]);
    if (keys->is_reset && !confirm(keys)) {
        complain("fleet keys", "nothing was forgotten");
        return EXIT_NO;
    }
    return walk(keys);
}

static int look_into(struct keys *keys)
{
    struct weir_contract *contract = contract_open_shared("fleet keys", keys->contract_path);
    if (contract == NULL)
        return EXIT_WRONG;
    keys->contract = contract;
    keys->limit = find_limit(keys);
    int status = keys->limit == NULL ? EXIT_WRONG : act(keys);
    if (status == EXIT_YES && keys->is_reset && !keys->is_json)
        tell("%llu forgotten", (unsigned long long)keys->forgotten);
    fleet_session_close(&keys->session);
    weir_contract_free(contract);
    return status;
}

int cmd_fleet_keys(int argc, char **argv)
{
    static struct keys keys; /* large for the stack */
    const struct option options[] = {
        { OPTION_TEXT, "store", "URL", "the store, in place of the contract's", &keys.store_url, 0, 0 },
        { OPTION_TEXT, "limit", "NAME", "whose keys", &keys.limit_name, 0, 0 },
        { OPTION_ACT, "reset", NULL, "forget what is counted", &keys.is_reset, 0, 0 },
        { OPTION_ACT, "all", NULL, "--reset every key that is chosen", &keys.is_all, 0, 0 },
        { OPTION_ACT, "yes", NULL, "do not ask before", &keys.is_yes, 0, 0 },
        { OPTION_FLAG, "json", NULL, "one JSON object per key", &keys.is_json, 0, 0 },
    };
    const struct usage usage = { "fleet keys", "[CONTRACT] [NAME=VALUE...]", about, options,
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
