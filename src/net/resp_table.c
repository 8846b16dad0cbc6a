// SPDX-License-Identifier: Apache-2.0
/*
 * resp_table.c - the commands of the door, and COMMAND, by which clients ask for them.
 *
 * A command is one row. COMMAND says of each what Redis says: its words, its flag, and which of them is a key (of WEIR. ones none:
 * whose budget is meant stands in attributes).
 */
#include "net/resp.h"
#include "net/worker.h"

/* clang-format off */
#define NAME(name) name, sizeof name - 1
const struct resp_row resp_rows[] = {
    { NAME("weir.check"),   -4, ROLE_CHECK, resp_weir, RESP_CALL_CHECK,   DOOR_RESP_CHECK,   "Whether a request passes, which takes what it costs" },
    { NAME("weir.peek"),    -4, ROLE_CHECK, resp_weir, RESP_CALL_PEEK,    DOOR_RESP_CHECK,   "Whether a request would pass" },
    { NAME("weir.reserve"), -4, ROLE_CHECK, resp_weir, RESP_CALL_RESERVE, DOOR_RESP_RESERVE, "Take an estimate, to be settled at what it cost" },
    { NAME("weir.settle"),   3, ROLE_CHECK, resp_weir, RESP_CALL_SETTLE,  DOOR_RESP_SETTLE,  "What a reservation cost in the end" },
    { NAME("weir.cancel"),   2, ROLE_CHECK, resp_weir, RESP_CALL_CANCEL,  DOOR_RESP_CANCEL,  "Give a reservation back" },
    { NAME("weir.acquire"), -4, ROLE_CHECK, resp_weir, RESP_CALL_ACQUIRE, DOOR_RESP_ACQUIRE, "Take a permit" },
    { NAME("weir.renew"),    2, ROLE_CHECK, resp_weir, RESP_CALL_RENEW,   DOOR_RESP_RENEW,   "Hold a permit for another while" },
    { NAME("weir.release"), -2, ROLE_CHECK, resp_weir, RESP_CALL_RELEASE, DOOR_RESP_RELEASE, "Give a permit back" },
    { NAME("weir.refund"),  -4, ROLE_CHECK, resp_weir, RESP_CALL_REFUND,  DOOR_RESP_REFUND,  "Give back what a request took" },
    { NAME("weir.reset"),   -2, ROLE_ADMIN, resp_weir, RESP_CALL_RESET,   DOOR_RESP_RESET,   "Forget what a key used" },
    { NAME("cl.throttle"),  -1, ROLE_CHECK, resp_throttle, 0, DOOR_RESP_THROTTLE, "Whether a request passes a limit that it brings along" },
#ifdef WEIR_TEST_HOOKS
    { NAME("weir.now"),      2, ROLE_CHECK, resp_now,      0, DOOR_RESP, "At which instant the commands behind it are, in virtual time" },
#endif
    { NAME("ping"),         -1, ROLE_CHECK, resp_ping,     0, DOOR_RESP, "Whether the server is there" },
    { NAME("echo"),          2, ROLE_CHECK, resp_echo,     0, DOOR_RESP, "The same again" },
    { NAME("hello"),        -1, ROLE_NONE,  resp_hello,    0, DOOR_RESP, "Which protocol, and who asks" },
    { NAME("auth"),         -2, ROLE_NONE,  resp_auth,     0, DOOR_RESP, "Who asks: a token of the tokens file" },
    { NAME("client"),       -2, ROLE_CHECK, resp_client,   0, DOOR_RESP, "About this connection" },
    { NAME("select"),        2, ROLE_CHECK, resp_select,   0, DOOR_RESP, "Database 0, the only one" },
    { NAME("info"),         -1, ROLE_CHECK, resp_info,     0, DOOR_RESP, "About the server" },
    { NAME("command"),      -1, ROLE_CHECK, resp_commands, 0, DOOR_RESP, "About these commands" },
    { NAME("config"),       -2, ROLE_CHECK, resp_config,   0, DOOR_RESP, "Nothing is configured here" },
    { NAME("quit"),         -1, ROLE_NONE,  resp_quit,     0, DOOR_RESP, "End the connection" },
    { NAME("reset"),         1, ROLE_NONE,  resp_reset,    0, DOOR_RESP, "Begin the connection anew" },
};
/* clang-format on */
const size_t resp_row_count = sizeof resp_rows / sizeof *resp_rows;

/* Commands that one COMMAND describes: a reply is bounded. */
#define NAMES_MAX 128

const struct resp_row *resp_find(struct slice name)
{
    if (name.len == 0)
        return NULL;
    char last = ascii_lower(name.at[name.len - 1]); /* with the length it leaves one or two */
    for (const struct resp_row *row = resp_rows; row < resp_rows + resp_row_count; row++)
        if (row->name_len == name.len && row->name[name.len - 1] == last
            && slice_equals_fold(name, (struct slice){ row->name, row->name_len }))
            return row;
    return NULL;
}

/* ---- COMMAND ------------------------------------------------------------------------------------------------------------ */

static void put_row(struct text *out, enum resp_version version, const struct resp_row *row)
{
    resp_put_array(out, 10);
    resp_put_bulk(out, slice_of(row->name));
    resp_put_integer(out, row->arity);
    bool has_key = row->door == DOOR_RESP_THROTTLE;
    resp_put_set(out, version, 1);
    resp_put_simple(out, has_key ? SLICE("write") : SLICE("fast"));
    for (int i = 0; i < 3; i++) /* the first key, the last, the step between them */
        resp_put_integer(out, has_key ? 1 : 0);
    for (int i = 0; i < 4; i++) { /* ACL categories, tips, key specifications, subcommands */
        if (i == 0 || i == 1)
            resp_put_set(out, version, 0);
        else
            resp_put_array(out, 0);
    }
}

static void put_docs(struct text *out, enum resp_version version, const struct resp_row *row)
{
    resp_put_bulk(out, slice_of(row->name));
    resp_put_map(out, version, 2);
    resp_put_bulk(out, SLICE("summary"));
    resp_put_bulk(out, slice_of(row->summary));
    resp_put_bulk(out, SLICE("group"));
    resp_put_bulk(out, SLICE("server"));
}

static void put_all(struct text *out, enum resp_version version)
{
    resp_put_array(out, (uint32_t)resp_row_count);
    for (size_t i = 0; i < resp_row_count; i++)
        put_row(out, version, &resp_rows[i]);
}

static void put_infos(struct text *out, enum resp_version version, const struct slice *names, size_t count)
{
    resp_put_array(out, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        const struct resp_row *row = resp_find(names[i]);
        if (row == NULL)
            resp_put_null_array(out, version);
        else
            put_row(out, version, row);
    }
}

/* Of all, or of those named that there are; a name that comes twice is described twice. */
static void put_all_docs(struct text *out, enum resp_version version, const struct slice *names, size_t count)
{
    uint32_t known = 0;
    for (size_t i = 0; i < count; i++)
        known += resp_find(names[i]) != NULL;
    resp_put_map(out, version, count == 0 ? (uint32_t)resp_row_count : known);
    for (size_t i = 0; i < (count == 0 ? resp_row_count : count); i++) {
        const struct resp_row *row = count == 0 ? &resp_rows[i] : resp_find(names[i]);
        if (row != NULL)
            put_docs(out, version, row);
    }
}

void resp_commands(struct resp_request *request)
{
    enum resp_version version = resp_version_of(request->turn);
    const struct slice *names = request->words + 2;
    size_t count = request->count < 2 ? 0 : request->count - 2;
    struct slice word = request->count < 2 ? SLICE("") : request->words[1];
    bool is_docs = slice_equals_fold(word, SLICE("docs")), is_info = slice_equals_fold(word, SLICE("info"));
    bool is_count = slice_equals_fold(word, SLICE("count"));
    if (request->count >= 2 && !is_docs && !is_info && !is_count) {
        resp_fail(request, "ERR unknown subcommand '%.*s'. Try COMMAND HELP.",
                  (int)(word.len < 128 ? word.len : 128), word.at);
        return;
    }
    if (count > NAMES_MAX) {
        resp_fail(request, "ERR weir: at most %d commands are described at once", NAMES_MAX);
        return;
    }
    struct text *out = resp_begin(request);
    if (is_count)
        resp_put_integer(out, (int64_t)resp_row_count);
    else if (is_docs)
        put_all_docs(out, version, names, count);
    else if (is_info && count > 0)
        put_infos(out, version, names, count);
    else
        put_all(out, version);
    resp_end(request, out);
}
