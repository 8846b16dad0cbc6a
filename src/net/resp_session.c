// SPDX-License-Identifier: Apache-2.0
/*
 * resp_session.c - what clients say to a server before and beside their calls: who they are, which protocol, what is it.
 *
 * Answers are Redis 7's, word for word where clients look at them. There is one database, 0; nothing is configured; the user's name
 * is not looked at, for a token says all.
 */
#include <stdio.h>
#include <stdlib.h>

#include "net/resp.h"
#include "net/worker.h"

#define REPORTED_VERSION "7.0.0" /* of Redis, for clients that ask what a server can do */

/* Bytes that are sent back as they came; a reply is bounded. */
#define ECHO_MAX 32768

static bool is_word(struct slice word, const char *name)
{
    return slice_equals_fold(word, slice_of(name));
}

/* ---- Small ones --------------------------------------------------------------------------------------------------- */

void resp_ping(struct resp_request *request)
{
    if (request->count > 2) {
        resp_fail(request, "ERR wrong number of arguments for 'ping' command");
        return;
    }
    if (request->count == 2 && request->words[1].len > ECHO_MAX) {
        resp_fail(request, "ERR weir: at most %d bytes come back", ECHO_MAX);
        return;
    }
    struct text *out = resp_begin(request);
    if (request->count == 2)
        resp_put_bulk(out, request->words[1]);
    else
        resp_put_simple(out, SLICE("PONG"));
    resp_end(request, out);
}

void resp_echo(struct resp_request *request)
{
    if (request->words[1].len > ECHO_MAX) {
        resp_fail(request, "ERR weir: at most %d bytes come back", ECHO_MAX);
        return;
    }
    struct text *out = resp_begin(request);
    resp_put_bulk(out, request->words[1]);
    resp_end(request, out);
}

#ifdef WEIR_TEST_HOOKS
void resp_now(struct resp_request *request)
{
    uint64_t now;
    if (!slice_to_u64(request->words[1], UINT64_MAX, &now)) {
        resp_fail(request, "ERR value is not an integer or out of range");
        return;
    }
    request->turn->conn->resp_now = now;
    resp_ok(request);
}
#endif

void resp_select(struct resp_request *request)
{
    int64_t number;
    if (!resp_to_i64(request->words[1], &number))
        resp_fail(request, "ERR value is not an integer or out of range");
    else if (number != 0)
        resp_fail(request, "ERR DB index is out of range");
    else
        resp_ok(request);
}

void resp_config(struct resp_request *request)
{
    if (!is_word(request->words[1], "get")) {
        resp_fail(request, "ERR weir: nothing is configured here; see the contract");
        return;
    }
    /* What redis-benchmark asks for, and is content with. */
    static const struct {
        const char *name, *value;
    } known[] = { { "save", "" }, { "appendonly", "no" } };
    size_t found = 0, count = sizeof known / sizeof *known;
    while (found < count && (request->count != 3 || !is_word(request->words[2], known[found].name)))
        found++;
    struct text *out = resp_begin(request);
    resp_put_map(out, resp_version_of(request->turn), found < count);
    if (found < count) {
        resp_put_bulk(out, slice_of(known[found].name));
        resp_put_bulk(out, slice_of(known[found].value));
    }
    resp_end(request, out);
}

void resp_quit(struct resp_request *request)
{
    request->turn->keeps_alive = false;
    request->turn->conn->phase = PHASE_LINGER;
    resp_ok(request);
}

/* As it was accepted: RESP2, and who it is by its address alone. */
void resp_reset(struct resp_request *request)
{
    struct conn *conn = request->turn->conn;
    conn->resp_version = RESP2;
    conn->role = conn->first_role;
    conn->name_len = 0;
    struct text *out = resp_begin(request);
    resp_put_simple(out, SLICE("RESET"));
    resp_end(request, out);
}

/* ---- Who asks ------------------------------------------------------------------------------------------------------- */

/* Whether the secret is known; then the connection is its. */
static bool take_secret(struct conn *conn, struct slice secret)
{
    const struct tokens *tokens = conn->worker->server->tokens;
    enum role role = tokens == NULL ? ROLE_NONE : tokens_role(tokens, secret);
    if (role == ROLE_NONE)
        return false;
    conn->role = role > conn->first_role ? role : conn->first_role;
    return true;
}

void resp_auth(struct resp_request *request)
{
    struct conn *conn = request->turn->conn;
    if (request->count > 3)
        resp_fail(request, "ERR syntax error");
    else if (conn->worker->server->tokens == NULL && request->count == 2)
        resp_fail(request,
                  "ERR AUTH <password> called without any password configured for the default user. Are you "
                  "sure your configuration is correct?");
    else if (!take_secret(conn, request->words[request->count - 1]))
        resp_fail(request, "WRONGPASS invalid username-password pair or user is disabled.");
    else
        resp_ok(request);
}

/* Redis's rule: printable, without blanks. */
static bool is_fit_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] < '!' || name.at[i] > '~')
            return false;
    return name.len <= CONN_NAME_MAX;
}

static bool take_name(struct resp_request *request, struct slice name)
{
    struct conn *conn = request->turn->conn;
    if (!is_fit_name(name)) {
        resp_fail(request, name.len > CONN_NAME_MAX
                               ? "ERR weir: a client's name has at most 64 bytes"
                               : "ERR Client names cannot contain spaces, newlines or special characters.");
        return false;
    }
    if (conn->name == NULL)
        conn->name = malloc(CONN_NAME_MAX);
    if (conn->name == NULL) {
        resp_fail(request, "ERR weir: out of memory");
        return false;
    }
    if (name.len > 0)
        memcpy(conn->name, name.at, name.len);
    conn->name_len = (uint8_t)name.len;
    return true;
}

/* ---- HELLO ------------------------------------------------------------------------------------------------------------ */

struct hello {
    enum resp_version version;
    struct slice secret, name;
    bool has_secret, has_name;
};

/* Nothing is done before all of it is understood. */
static bool read_hello(struct resp_request *request, struct hello *out)
{
    const struct slice *words = request->words;
    int64_t version = request->turn->conn->resp_version;
    *out = (struct hello){ .has_secret = false };
    if (request->count > 1 && !resp_to_i64(words[1], &version)) {
        resp_fail(request, "ERR Protocol version is not an integer or out of range");
        return false;
    }
    if (version != RESP2 && version != RESP3) {
        resp_fail(request, "NOPROTO unsupported protocol version");
        return false;
    }
    out->version = (enum resp_version)version;
    for (size_t i = 2; i < request->count;) {
        size_t left = request->count - i - 1;
        if (is_word(words[i], "auth") && left >= 2) {
            out->secret = words[i + 2];
            out->has_secret = true;
            i += 3;
        } else if (is_word(words[i], "setname") && left >= 1) {
            out->name = words[i + 1];
            out->has_name = true;
            i += 2;
        } else {
            resp_fail(request, "ERR Syntax error in HELLO option '%.*s'",
                      (int)(words[i].len < 128 ? words[i].len : 128), words[i].at);
            return false;
        }
    }
    return true;
}

static void put_pair(struct text *out, const char *name, struct slice value)
{
    resp_put_bulk(out, slice_of(name));
    resp_put_bulk(out, value);
}

void resp_hello(struct resp_request *request)
{
    struct conn *conn = request->turn->conn;
    struct hello hello;
    if (!read_hello(request, &hello))
        return;
    if (hello.has_secret && !take_secret(conn, hello.secret)) {
        resp_fail(request, "WRONGPASS invalid username-password pair or user is disabled.");
        return;
    }
    if (conn->role == ROLE_NONE) {
        resp_fail(request,
                  "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH "
                  "<user> <pass> option can be used to authenticate the client and select the RESP protocol "
                  "version at the same time");
        return;
    }
    if (hello.has_name && !take_name(request, hello.name))
        return;
    conn->resp_version = hello.version;
    request->turn->minor = hello.version == RESP3 ? 3 : 2;
    struct text *out = resp_begin(request);
    resp_put_map(out, hello.version, 7);
    put_pair(out, "server", SLICE("weir"));
    put_pair(out, "version", SLICE(WEIR_VERSION));
    resp_put_bulk(out, SLICE("proto"));
    resp_put_integer(out, hello.version);
    resp_put_bulk(out, SLICE("id"));
    resp_put_integer(out, (int64_t)conn->id);
    put_pair(out, "mode", SLICE("standalone"));
    put_pair(out, "role", SLICE("master"));
    resp_put_bulk(out, SLICE("modules"));
    resp_put_array(out, 0);
    resp_end(request, out);
}

/* ---- CLIENT -------------------------------------------------------------------------------------------------------------- */

static void describe(const struct conn *conn, struct text *out)
{
    char line[256];
    int len = snprintf(line, sizeof line, "id=%llu name=%.*s db=0 resp=%d user=default lib-name= lib-ver=\n",
                       (unsigned long long)conn->id, (int)conn->name_len, conn->name == NULL ? "" : conn->name,
                       (int)conn->resp_version);
    text_bytes(out, line, (size_t)len);
}

static void client_info(struct resp_request *request)
{
    char line[320];
    struct text text = text_of(line, sizeof line);
    describe(request->turn->conn, &text);
    struct text *out = resp_begin(request);
    resp_put_verbatim(out, resp_version_of(request->turn), "txt", text_slice(&text));
    resp_end(request, out);
}

static void client_getname(struct resp_request *request)
{
    const struct conn *conn = request->turn->conn;
    struct text *out = resp_begin(request);
    if (conn->name_len == 0)
        resp_put_null(out, resp_version_of(request->turn));
    else
        resp_put_bulk(out, (struct slice){ conn->name, conn->name_len });
    resp_end(request, out);
}

static void client_id(struct resp_request *request)
{
    struct text *out = resp_begin(request);
    resp_put_integer(out, (int64_t)request->turn->conn->id);
    resp_end(request, out);
}

static void client_setname(struct resp_request *request)
{
    if (take_name(request, request->words[2]))
        resp_ok(request);
}

static const struct {
    const char *name;
    size_t count; /* of words */
    void (*handle)(struct resp_request *request);
} client_words[] = {
    { "setname", 3, client_setname }, { "getname", 2, client_getname }, { "setinfo", 4, resp_ok },
    { "id", 2, client_id },           { "info", 2, client_info },       { "list", 2, client_info },
    { "no-evict", 3, resp_ok },       { "no-touch", 3, resp_ok },
};

void resp_client(struct resp_request *request)
{
    struct slice word = request->words[1];
    for (size_t i = 0; i < sizeof client_words / sizeof *client_words; i++) {
        if (!is_word(word, client_words[i].name))
            continue;
        if (request->count != client_words[i].count)
            resp_fail(request, "ERR wrong number of arguments for 'client|%s' command", client_words[i].name);
        else
            client_words[i].handle(request);
        return;
    }
    resp_fail(request, "ERR unknown subcommand '%.*s'. Try CLIENT HELP.",
              (int)(word.len < 128 ? word.len : 128), word.at);
}

/* ---- INFO ---------------------------------------------------------------------------------------------------------------- */

void resp_info(struct resp_request *request)
{
    char text[512];
    const struct worker *worker = request->turn->conn->worker;
    int len =
        snprintf(text, sizeof text,
                 "# Server\r\nredis_version:" REPORTED_VERSION "\r\nserver_name:weir\r\nweir_version:%s\r\n"
                 "redis_mode:standalone\r\n"
                 "\r\n# Persistence\r\nloading:0\r\n"
                 "\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
                 "\r\n# Contract\r\ncontract_version:%s\r\n",
                 WEIR_VERSION, weir_contract_version(worker->server->contract));
    struct text *out = resp_begin(request);
    resp_put_verbatim(out, resp_version_of(request->turn), "txt", (struct slice){ text, (size_t)len });
    resp_end(request, out);
}
