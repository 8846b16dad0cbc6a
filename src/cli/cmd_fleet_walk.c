// SPDX-License-Identifier: Apache-2.0
/* cmd_fleet_walk.c - names in steps, and what the commands about keys share; see cmd_fleet_walk.h. */
#include "cli/cmd_fleet_walk.h"

#include "fleet/name.h"

/* Names that the store looks at in one step. */
#define SCAN_COUNT "500"

/* ---- What is said on the way ----------------------------------------------------------------------------------------------- */

void keys_progress(const struct keys *keys, bool is_end)
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

int keys_away(struct keys *keys)
{
    complain(keys->command, "%s: %s", keys->session.shown, fleet_session_why(&keys->session));
    return EXIT_UNDECIDED;
}

/* The store's own words, where a command was answered with an error. */
int keys_refused(const struct keys *keys, const struct resp_value *error)
{
    complain(keys->command, "%s: %.*s", keys->session.shown, (int)error->text.len, error->text.at);
    return EXIT_UNDECIDED;
}

/* ---- Walking --------------------------------------------------------------------------------------------------------------- */

/* The names of one step of the walk. */
static int take_names(struct keys *keys, struct resp_reader *reader, uint32_t count)
{
    struct resp_value name;
    int status = EXIT_YES;
    for (uint32_t i = 0; i < count && status == EXIT_YES; i++) {
        if (!resp_next(reader, &name) || !resp_is_text(&name))
            return EXIT_UNDECIDED;
        keys->seen++;
        status = keys->take(keys, name.text);
    }
    return status == EXIT_YES ? keys->flush(keys) : status;
}

/* One step: the cursor of the next one is written, "0" at the end. */
static int scan_step(struct keys *keys, char cursor[24])
{
    char room[NAME_MAX_LEN + 256], pattern[NAME_MAX_LEN];
    struct text text = text_of(room, sizeof room);
    size_t pattern_len = name_pattern(keys->limit_name, pattern);
    size_t suffix_len = strlen(keys->suffix);
    memcpy(pattern + pattern_len, keys->suffix, suffix_len); /* there is room: names of limits are short */
    struct slice match = { pattern, pattern_len + suffix_len };
    const struct slice words[] = { SLICE("SCAN"), slice_of(cursor), SLICE("MATCH"),
                                   match,         SLICE("COUNT"),   SLICE(SCAN_COUNT) };
    struct resp_value value, next, names;
    struct fleet_ask ask;
    int status = EXIT_UNDECIDED;
    resp_put_array(&text, 6);
    for (size_t i = 0; i < 6; i++)
        resp_put_bulk(&text, words[i]);
    fleet_ask_begin(&keys->session, &ask, keys->node, 0, text_slice(&text));
    if (!fleet_ask_wait(&keys->session, &ask, 1)) {
        fleet_ask_end(&keys->session, &ask);
        return keys_away(keys);
    }
    struct resp_reader reader = resp_reader_of(ask.reply, ask.reply_len);
    if (resp_next(&reader, &value) && value.type == RESP_ERROR) {
        status = keys_refused(keys, &value);
    } else if (value.type == RESP_ARRAY && value.count == 2 && resp_next(&reader, &next) && resp_is_text(&next)
               && next.text.len > 0 && next.text.len < 24 && resp_next(&reader, &names)
               && names.type == RESP_ARRAY) {
        memcpy(cursor, next.text.at, next.text.len);
        cursor[next.text.len] = '\0';
        status = take_names(keys, &reader, names.count);
    }
    fleet_ask_end(&keys->session, &ask);
    keys_progress(keys, false);
    return status;
}

static int walk_node(struct keys *keys)
{
    char cursor[24] = "0";
    int status;
    do
        status = scan_step(keys, cursor);
    while (status == EXIT_YES && strcmp(cursor, "0") != 0);
    return status;
}

/* Not where some slot is nobody's: a part of the keys is not all of them. */
int keys_walk(struct keys *keys)
{
    static struct store_node nodes[FLEET_NODES_MAX]; /* large for the stack */
    size_t count = store_client_nodes(keys->session.carrier, nodes, FLEET_NODES_MAX);
    int status = EXIT_YES;
    unsigned slots = 0;
    for (size_t i = 0; i < count; i++)
        slots += nodes[i].is_up ? nodes[i].slots : 0;
    if (slots != SLOT_COUNT)
        return keys_away(keys);
    for (size_t i = 0; i < count && status == EXIT_YES; i++) {
        keys->node = i;
        if (nodes[i].is_up && nodes[i].slots > 0)
            status = walk_node(keys);
    }
    keys_progress(keys, true);
    return status;
}

/* ---- What is meant --------------------------------------------------------------------------------------------------------- */

bool keys_find_limit(struct keys *keys)
{
    for (size_t i = 0; i < weir_contract_limit_count(keys->contract); i++) {
        const struct weir_contract_limit *limit = weir_contract_limit(keys->contract, (weir_limit_id)i);
        if (strcmp(limit->name, keys->limit_name) == 0 && limit->is_shared) {
            keys->limit = limit;
            return true;
        }
        if (strcmp(limit->name, keys->limit_name) == 0) {
            complain(keys->command,
                     "limit '%s' is not of scope: fleet: each server keeps its keys; POST /v1/reset there",
                     limit->name);
            return false;
        }
    }
    complain(keys->command, "the contract has no limit '%.80s'", keys->limit_name);
    return false;
}

/* An attribute that is no part of the limit's key chooses nothing: a slip. */
static bool is_key_attribute(const struct keys *keys, const char *name)
{
    const char *at = keys->limit->spec->key_form == NULL ? "" : keys->limit->spec->key_form;
    for (size_t len = strlen(name); *at != '\0'; at += strcspn(at, ",") + (strchr(at, ',') != NULL))
        if (strncmp(at, name, len) == 0 && strcspn(at, ",/") == len)
            return true;
    complain(keys->command, "'%.80s' is no part of the key of '%s', which is [%s]", name, keys->limit_name,
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

bool keys_are_chosen_well(const struct keys *keys)
{
    for (size_t i = 0; i < keys->chosen.count; i++)
        if (!is_key_attribute(keys, keys->chosen.attributes[i].name))
            return false;
    return true;
}

bool keys_are_one(const struct keys *keys)
{
    return keys->chosen.count == key_parts(keys);
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

int keys_open(struct keys *keys)
{
    int status = fleet_session_open(&keys->session, keys->command, keys->store_url, keys->contract);
    if (status != EXIT_YES)
        return status;
    (void)fleet_session_ready(&keys->session); /* a node that is away is told of where it matters */
    if (keys->session.url.kind == URL_ONE && !keys->session.is_hopeless)
        find_cluster(&keys->session);
    return keys->session.is_of_cluster ? keys_away(keys) : EXIT_YES;
}
