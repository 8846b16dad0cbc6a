// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_fleet.c - `weir fleet`: its commands, and the session that they share.
 */
#include "cli/cmd_fleet.h"

#include <signal.h>
#include <stdlib.h>

#include "base/entropy.h"
#include "fleet/url.h"
#include "io/tls.h"
#include "wire/resp.h"

/* ---- The store that is meant ------------------------------------------------------------------------------------- */

/* Arguments are seen by everybody on the machine. */
static bool is_from_arguments(const char *store_url)
{
    return store_url != NULL && store_url != getenv("WEIR_STORE");
}

static const char *url_of(const char *store_url, const struct weir_contract *contract, const char **where)
{
    *where = !is_from_arguments(store_url) ? "WEIR_STORE" : "--store";
    if (store_url != NULL || contract == NULL)
        return store_url;
    *where = "store.url";
    return weir_contract_store(contract)->url;
}

static int find_store(struct fleet_session *session, const char *store_url,
                      const struct weir_contract *contract)
{
    const char *where, *why;
    char room[512];
    const char *text = url_of(store_url, contract, &where);
    if (text == NULL) {
        complain(session->command,
                 "no store is named: give --store URL, or set WEIR_STORE, or write store: { url: ... } "
                 "into the contract");
        return EXIT_WRONG;
    }
    if (!url_parse(text, &session->url, &why)) {
        complain(session->command, "%s: %s", where, why);
        return EXIT_WRONG;
    }
    if (is_from_arguments(store_url) && session->url.password != NULL) {
        complain(session->command,
                 "--store has a password, which every process of the machine can read: set WEIR_STORE "
                 "instead, or store.url of the contract");
        return EXIT_WRONG;
    }
    if (!url_tls_context(&session->url, &session->tls, room, sizeof room)) {
        complain(session->command, "%s: %s", where, room);
        return EXIT_WRONG;
    }
    (void)url_show(&session->url, session->shown, sizeof session->shown); /* a longer one is cut */
    return EXIT_YES;
}

/* ---- The session --------------------------------------------------------------------------------------------------- */

static void on_closed(void *context)
{
    ((struct fleet_session *)context)->is_closed = true;
}

/* The value of a field of a line; quotes around it are left out. Empty: it has none. */
static struct slice field_of(const char *line, const char *name)
{
    const char *at = strstr(line, name);
    at = at == NULL ? "" : at + strlen(name);
    bool is_quoted = *at == '"';
    at += is_quoted;
    return (struct slice){ at, strcspn(at, is_quoted ? "\"" : " ") };
}

/* An event of the log as a sentence: whose, and why or what helps. */
static void keep_news(struct fleet_session *session, const char *line)
{
    struct slice node = field_of(line, " node="), why = field_of(line, " why=");
    why = why.len > 0 ? why : field_of(line, " cure=");
    if (node.len > 0 && why.len > 0)
        (void)snprintf(session->news, sizeof session->news, "%.*s: %.*s", (int)node.len, node.at, (int)why.len,
                       why.at); /* cut where longer */
    else
        (void)snprintf(session->news, sizeof session->news, "%s", line + strcspn(line, "=") + 1);
}

/* What is told of single nodes is shown with them. A single server that is not there is not waited for. */
static void on_line(void *context, const char *line)
{
    struct fleet_session *session = context;
    bool is_down = strncmp(line, "event=store-down", 16) == 0;
    bool is_up = strncmp(line, "event=store-up", 14) == 0;
    session->is_hopeless = session->url.kind == URL_ONE && is_down;
    if (!is_up && !is_down)
        keep_news(session, line);
    session->is_of_cluster = session->is_of_cluster || strncmp(line, "event=store-is-cluster", 22) == 0;
}

static int start(struct fleet_session *session)
{
    uint64_t seed;
    if (!entropy_fill(&seed, sizeof seed))
        seed = weir_now(); /* only pauses are drawn from it */
    struct store_client_options options = { .loop = &session->loop,
                                            .url = &session->url,
                                            .tls = session->tls,
                                            .outages = session->outages,
                                            .seed = seed,
                                            .only_looks = true,
                                            .log = on_line,
                                            .closed = on_closed,
                                            .context = session };
    return store_client_new(&session->carrier, &options);
}

int fleet_session_open(struct fleet_session *session, const char *command, const char *store_url,
                       const struct weir_contract *contract)
{
    session->command = command;
    int status = find_store(session, store_url, contract);
    if (status != EXIT_YES)
        return status;
    (void)signal(SIGPIPE, SIG_IGN); /* a node that closes while we write is news, not our end */
    if (uv_loop_init(&session->loop) != 0 || uv_timer_init(&session->loop, &session->timer) != 0
        || outages_new(&session->outages, 1) != 0 || start(session) != 0) {
        complain(command, "out of memory");
        return EXIT_UNDECIDED; /* the process ends: nothing is given back one by one */
    }
    session->timer.data = session;
    return EXIT_YES;
}

void fleet_session_close(struct fleet_session *session)
{
    if (session->carrier != NULL) {
        session->carrier->close(session->carrier);
        while (!session->is_closed)
            (void)uv_run(&session->loop, UV_RUN_ONCE);
        uv_close((uv_handle_t *)&session->timer, NULL);
        (void)uv_run(&session->loop, UV_RUN_DEFAULT); /* closes what is closing */
        (void)uv_loop_close(&session->loop);
    }
    outages_free(session->outages);
    tls_context_free(session->tls);
}

static void on_timer(uv_timer_t *timer)
{
    ((struct fleet_session *)timer->data)->is_late = true;
}

bool fleet_session_wait(struct fleet_session *session, bool (*holds)(void *context), void *context)
{
    session->is_late = false;
    uv_update_time(&session->loop);
    (void)uv_timer_start(&session->timer, on_timer, FLEET_PATIENCE_MS, 0); /* fails for NULL only */
    while (!holds(context) && !session->is_late)
        (void)uv_run(&session->loop, UV_RUN_ONCE);
    (void)uv_timer_stop(&session->timer);
    return holds(context);
}

static bool is_ready(void *context)
{
    static struct store_node nodes[FLEET_NODES_MAX]; /* large for the stack */
    struct fleet_session *session = context;
    size_t count = store_client_nodes(session->carrier, nodes, FLEET_NODES_MAX), up = 0;
    for (size_t i = 0; i < count; i++)
        up += nodes[i].is_up && (nodes[i].slots > 0 || session->url.kind != URL_CLUSTER);
    return session->is_hopeless || (count > 0 && up == count);
}

bool fleet_session_ready(struct fleet_session *session)
{
    return fleet_session_wait(session, is_ready, session) && !session->is_hopeless;
}

const char fleet_is_of_cluster[] = "it is a node of a Cluster: write redis+cluster://HOST:PORT";

const char *fleet_session_why(struct fleet_session *session)
{
    static struct store_node nodes[FLEET_NODES_MAX]; /* large for the stack */
    if (session->is_of_cluster)
        return fleet_is_of_cluster;
    if (session->refusal[0] != '\0')
        return session->refusal;
    size_t count = store_client_nodes(session->carrier, nodes, FLEET_NODES_MAX);
    for (size_t i = 0; i < count; i++)
        if (!nodes[i].is_up && nodes[i].why[0] != '\0') {
            (void)snprintf(session->refusal, sizeof session->refusal, "%.80s: %.110s", nodes[i].address,
                           nodes[i].why);
            return session->refusal;
        }
    return session->news[0] != '\0' ? session->news : "it does not answer";
}

/* ---- Questions ------------------------------------------------------------------------------------------------------ */

/* A node's words of why it cannot serve this. */
static void keep_refusal(struct fleet_session *session, struct slice reply)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    if (!resp_next(&reader, &value) || value.type != RESP_ERROR)
        return;
    size_t len = value.text.len < sizeof session->refusal ? value.text.len : sizeof session->refusal - 1;
    memcpy(session->refusal, value.text.at, len);
    session->refusal[len] = '\0';
}

static void ask_done(struct carrier_call *call, enum carrier_result result, struct slice reply)
{
    struct fleet_ask *ask = call->owner;
    ask->is_done = true;
    ask->result = result;
    if (result == CARRIER_REFUSED && reply.len > 0)
        keep_refusal(ask->session, reply);
    ask->reply = result == CARRIER_REPLY ? malloc(reply.len + 1) : NULL;
    if (ask->reply == NULL) {
        ask->result = result == CARRIER_REPLY ? CARRIER_REFUSED : result;
        return;
    }
    memcpy(ask->reply, reply.at, reply.len);
    ask->reply_len = reply.len;
}

void fleet_ask_begin(struct fleet_session *session, struct fleet_ask *ask, size_t node, unsigned slot,
                     struct slice command)
{
    session->refusal[0] = '\0';
    *ask = (struct fleet_ask){ .session = session,
                               .call = { .command = command, .slot = slot, .done = ask_done, .owner = ask } };
    if (node == SIZE_MAX)
        session->carrier->send(session->carrier, &ask->call);
    else
        store_client_send_to(session->carrier, node, &ask->call);
}

struct asks {
    struct fleet_ask *at;
    size_t count;
};

static bool are_done(void *context)
{
    const struct asks *asks = context;
    for (size_t i = 0; i < asks->count; i++)
        if (!asks->at[i].is_done)
            return false;
    return true;
}

bool fleet_ask_wait(struct fleet_session *session, struct fleet_ask *asks, size_t count)
{
    struct asks all = { asks, count };
    bool is_good = fleet_session_wait(session, are_done, &all);
    for (size_t i = 0; i < count; i++)
        is_good = is_good && asks[i].result == CARRIER_REPLY;
    return is_good;
}

void fleet_ask_end(struct fleet_session *session, struct fleet_ask *ask)
{
    if (!ask->is_done)
        session->carrier->abandon(session->carrier, &ask->call);
    free(ask->reply);
    ask->reply = NULL;
    ask->is_done = true;
}

/* ---- The commands ------------------------------------------------------------------------------------------------------ */

static const struct command commands[] = {
    { "status", cmd_fleet_status, "is every node of the store there, and does it know the scripts" },
    { "keys", cmd_fleet_keys, "what is counted under a limit; forget it" },
    { "leases", cmd_fleet_leases, "who holds portions of leased limits, and until when" },
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static int print_usage(void)
{
    printf("usage: weir fleet COMMAND [ARGUMENTS]\n\n"
           "Look at the store that limits of scope: fleet are counted in: that of --store\n"
           "URL, else of the variable WEIR_STORE, else of store: { url } in the contract.\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    printf("\n'weir fleet COMMAND -h' tells a command's options.\n"
           "Exit status: 0 the store serves, keys or leases were shown, keys were\n"
           "forgotten, 1 you said no, 2 wrong use or a bad contract, 3 the store, or a\n"
           "part of it, could not be had.\n");
    return EXIT_YES;
}

int cmd_fleet(int argc, char **argv)
{
    if (argc < 2) {
        complain("fleet", "no command; give status, keys or leases");
        return EXIT_WRONG;
    }
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
        return print_usage();
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, argv[1]) == 0)
            return commands[i].run(argc - 1, argv + 1);
    complain("fleet", "%.80s: there is no such command; give status, keys or leases", argv[1]);
    return EXIT_WRONG;
}
