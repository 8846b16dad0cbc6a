// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_fleet_status.c - `weir fleet status`: every node of the store, asked on a connection of its own.
 *
 * The carrier finds the nodes (also replicas and Sentinels, which it does not use); then each is greeted, pinged a few times
 * and asked for its version and for our script. A store that has no record of its incarnation gets one, as of any client.
 * A node that answers may still take no write (no memory left, a disk that failed, a Cluster that is down), so one is tried that
 * changes nothing.
 */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "cli/cmd_fleet.h"
#include "cli/options.h"
#include "fleet/link.h"
#include "fleet/name.h"
#include "fleet/script.h"

static const char about[] = "Show the nodes of the store that limits of scope: fleet are counted in: role,\n"
                            "slots, round trips, version, and whether our script is loaded. Needs no CONTRACT\n"
                            "where --store or WEIR_STORE names the store. Exit status 0 when all are\n"
                            "reachable and serve, 2 for wrong use, else 3.\n";

#define PINGS 5
#define WHY_MAX 200
#define WORD_MAX 40

/* One node, and what it said. */
struct probe {
    struct fleet_session *session;
    struct store_node node;
    char address[300], host[300], why[WHY_MAX];
    char said[WHY_MAX]; /* by the carrier: why it does not serve */
    struct link_target target;
    struct link *link;
    bool is_up, is_down, is_closed;
    bool refuses; /* it was reached, and cannot serve: `said` */

    struct link_command command;
    bool is_done, is_good;
    char *reply;
    size_t reply_len;

    uint64_t pings[PINGS]; /* ns, ascending */
    char server[WORD_MAX], version[WORD_MAX];
    int is_loaded; /* 1, 0, or -1: it does not tell */
};

struct status {
    struct probe *probes;
    size_t count;
    unsigned slots;  /* of a Cluster that are served */
    bool is_serving; /* every node that decides is ready, all slots are served */
    bool is_good;    /* and every node was reached */
};

/* ---- A connection to a node --------------------------------------------------------------------------------------- */

static void on_up(struct link *link)
{
    ((struct probe *)link_owner(link))->is_up = true;
}

static void on_down(struct link *link, const char *why)
{
    struct probe *probe = link_owner(link);
    probe->is_up = false;
    probe->is_down = true;
    (void)snprintf(probe->why, sizeof probe->why, "%s", why); /* a longer one is cut */
}

static void on_closed(struct link *link)
{
    ((struct probe *)link_owner(link))->is_closed = true;
}

static const struct link_events events = { .up = on_up, .down = on_down, .closed = on_closed };

/* "host:port", "[host]:port", or a path. */
static void read_address(struct probe *probe)
{
    const char *colon = strrchr(probe->address, ':');
    bool is_path = probe->address[0] == '/' || colon == NULL;
    const char *from = probe->address + (probe->address[0] == '[');
    size_t len = is_path ? strlen(probe->address) : (size_t)(colon - from) - (probe->address[0] == '[');
    memcpy(probe->host, from, len);
    probe->host[len] = '\0';
    probe->target.host = probe->host;
    probe->target.port = is_path ? 0 : (uint16_t)strtoul(colon + 1, NULL, 10);
}

static bool open_probe(struct probe *probe, bool uses_auth)
{
    struct fleet_session *session = probe->session;
    const struct url *url = &session->url;
    bool is_sentinel = strcmp(probe->node.role, "sentinel") == 0;
    read_address(probe);
    probe->target.tls = session->tls;
    probe->target.user = uses_auth ? url->user : NULL;
    probe->target.password = uses_auth ? url->password : NULL;
    probe->target.db = is_sentinel ? 0 : url->db;
    probe->target.dial_ms = FLEET_PATIENCE_MS - 500; /* so that it is the reason that is shown */
    probe->is_up = probe->is_down = probe->is_closed = false;
    return link_open(&probe->link, &session->loop, &probe->target, &events, probe, 1) == 0;
}

static bool is_closed(void *context)
{
    return ((struct probe *)context)->is_closed;
}

static void close_probe(struct probe *probe)
{
    if (probe->link == NULL)
        return;
    link_close(probe->link);
    probe->link = NULL;
    (void)fleet_session_wait(probe->session, is_closed, probe); /* comes with the next turns */
    free(probe->reply);
    probe->reply = NULL;
}

/* ---- A question to it ------------------------------------------------------------------------------------------------ */

static void probe_done(struct link_command *command, enum carrier_result result, struct slice reply)
{
    struct probe *probe = command->owner;
    probe->is_done = true;
    probe->is_good = false;
    if (result != CARRIER_REPLY)
        return;
    free(probe->reply);
    probe->reply = malloc(reply.len + 1);
    if (probe->reply == NULL)
        return;
    memcpy(probe->reply, reply.at, reply.len);
    probe->reply_len = reply.len;
    probe->is_good = true;
}

static bool is_done(void *context)
{
    const struct probe *probe = context;
    return probe->is_done;
}

/* Whether a reply came that is no error; the first value of it is given. */
static bool ask(struct probe *probe, uint32_t count, const struct slice *words, struct resp_reader *reader,
                struct resp_value *value)
{
    char room[256];
    struct text text = text_of(room, sizeof room);
    resp_put_array(&text, count);
    for (uint32_t i = 0; i < count; i++)
        resp_put_bulk(&text, words[i]);
    probe->command = (struct link_command){ .done = probe_done, .owner = probe };
    probe->is_done = false;
    if (text.is_cut || !link_send(probe->link, text_slice(&text), 1, &probe->command))
        return false;
    if (!fleet_session_wait(probe->session, is_done, probe)) {
        link_abandon(probe->link, &probe->command);
        (void)snprintf(probe->why, sizeof probe->why, "it does not answer");
        return false;
    }
    if (!probe->is_good)
        return false;
    *reader = resp_reader_of(probe->reply, probe->reply_len);
    return resp_next(reader, value) && value->type != RESP_ERROR;
}

static int compare(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

static bool ping(struct probe *probe)
{
    struct resp_reader reader;
    struct resp_value value;
    for (size_t i = 0; i < PINGS; i++) {
        uint64_t from = clock_monotonic();
        if (!ask(probe, 1, (struct slice[]){ SLICE("PING") }, &reader, &value) && !probe->is_good)
            return false; /* an error is an answer as well */
        probe->pings[i] = clock_monotonic() - from;
    }
    qsort(probe->pings, PINGS, sizeof *probe->pings, compare);
    return true;
}

/* The value of a field of INFO, as a word. False: it is not there. */
static bool info_field(struct slice info, const char *field, char out[WORD_MAX])
{
    size_t len = strlen(field);
    const char *at = memmem(info.at, info.len, field, len);
    if (at == NULL || (at != info.at && at[-1] != '\n'))
        return false;
    at += len;
    size_t count = 0;
    for (; at + count < info.at + info.len && count < WORD_MAX - 1 && at[count] > ' ' && at[count] < 0x7f;
         count++)
        out[count] = at[count] == '"' ? '\'' : at[count];
    out[count] = '\0';
    return true;
}

static void cannot_serve(struct probe *probe, struct slice why)
{
    if (probe->refuses)
        return;
    probe->refuses = true;
    (void)snprintf(probe->said, sizeof probe->said, "%.*s", (int)why.len, why.at); /* a longer one is cut */
    for (char *at = probe->said; *at != '\0'; at++)
        *at = *at >= ' ' && *at <= '~' && *at != '"' ? *at : '\'';
}

static void ask_version(struct probe *probe)
{
    struct resp_reader reader;
    struct resp_value value;
    if (!ask(probe, 2, (struct slice[]){ SLICE("INFO"), SLICE("server") }, &reader, &value)
        || !resp_is_text(&value))
        return;
    if (info_field(value.text,
                   "valkey_version:", probe->version)) /* these also have redis_version, as which they pass */
        (void)snprintf(probe->server, sizeof probe->server, "valkey");
    else if (info_field(value.text, "redis_version:", probe->version))
        (void)snprintf(probe->server, sizeof probe->server, "redis");
    char mode[WORD_MAX] = "";
    bool is_told = info_field(value.text, "redis_mode:", mode) || info_field(value.text, "server_mode:", mode);
    if (probe->session->url.kind == URL_ONE && is_told && strcmp(mode, "cluster") == 0)
        cannot_serve(probe, slice_of(fleet_is_of_cluster));
}

/* Numbers tried for a key in a slot of the node: of one with a single slot one in 16,384 fits. */
#define KEYS_TRIED 300000
#define KEY_ROOM 40

/* A key that nobody has, in a slot of the node. */
static bool find_key(const struct probe *probe, char key[KEY_ROOM])
{
    struct carrier *carrier = probe->session->carrier;
    bool is_found = false;
    for (unsigned n = 0; n < KEYS_TRIED && !is_found; n++) {
        (void)snprintf(key, KEY_ROOM, "weir:1:{%u}:status", n);
        is_found = carrier->is_whole(carrier)
                   || carrier->outage(carrier, name_slot(slice_of(key))) == probe->node.outage;
    }
    return is_found;
}

/* Write what is only written where it is there already, which it is not: refused as any write would be, else without effect. */
static void try_write(struct probe *probe)
{
    char key[KEY_ROOM];
    struct resp_reader reader;
    struct resp_value value;
    if (!find_key(probe, key))
        return;
    const struct slice words[] = {
        SLICE("SET"), slice_of(key), SLICE("0"), SLICE("XX"), SLICE("PX"), SLICE("1")
    };
    if (ask(probe, 6, words, &reader, &value) || !probe->is_good)
        return;
    struct slice code = resp_error_code(value.text);
    bool is_moved = slice_equals(code, SLICE("MOVED"));
    if (is_moved && probe->session->url.kind == URL_ONE)
        cannot_serve(probe, slice_of(fleet_is_of_cluster));
    else if (!is_moved && !slice_equals(code, SLICE("ASK")) && !slice_equals(code, SLICE("NOPERM")))
        cannot_serve(probe, value.text); /* a user who may not write here cannot tell */
}

static void ask_script(struct probe *probe)
{
    struct resp_reader reader;
    struct resp_value list, known;
    probe->is_loaded = -1;
    if (ask(probe, 3, (struct slice[]){ SLICE("SCRIPT"), SLICE("EXISTS"), script_hash() }, &reader, &list)
        && list.type == RESP_ARRAY && resp_next(&reader, &known) && known.type == RESP_INTEGER)
        probe->is_loaded = known.integer == 1;
}

/* ---- All of them -------------------------------------------------------------------------------------------------------- */

static bool are_settled(void *context)
{
    const struct status *status = context;
    for (size_t i = 0; i < status->count; i++)
        if (!status->probes[i].is_up && !status->probes[i].is_down && status->probes[i].link != NULL)
            return false;
    return true;
}

static bool list_nodes(struct fleet_session *session, struct status *status)
{
    static struct store_node nodes[FLEET_NODES_MAX]; /* large for the stack */
    size_t count = store_client_nodes(session->carrier, nodes, FLEET_NODES_MAX);
    status->is_serving = count > 0;
    for (size_t i = 0; i < count; i++) {
        status->is_serving = status->is_serving && nodes[i].is_up;
        status->slots += nodes[i].slots;
    }
    if (session->url.kind == URL_CLUSTER)
        status->is_serving = status->is_serving && status->slots == SLOT_COUNT;
    count += store_client_others(session->carrier, nodes + count, FLEET_NODES_MAX - count);
    status->probes = calloc(count + 1, sizeof *status->probes);
    if (status->probes == NULL)
        return false;
    status->count = count;
    for (size_t i = 0; i < count; i++) {
        struct probe *probe = &status->probes[i];
        probe->session = session;
        probe->node = nodes[i];
        (void)snprintf(probe->address, sizeof probe->address, "%s", nodes[i].address);
        (void)snprintf(probe->said, sizeof probe->said, "%s", nodes[i].why);
        (void)snprintf(probe->why, sizeof probe->why, "%s", "it has not answered yet");
    }
    return true;
}

/* Sentinels want a password of their own, or ours, or none. */
static void open_all(struct status *status)
{
    for (size_t i = 0; i < status->count; i++)
        if (!open_probe(&status->probes[i], strcmp(status->probes[i].node.role, "sentinel") != 0))
            status->probes[i].link = NULL;
    (void)fleet_session_wait(status->probes->session, are_settled, status);
    for (size_t i = 0; i < status->count; i++) {
        struct probe *probe = &status->probes[i];
        if (probe->is_up || strncmp(probe->why, "NOAUTH", 6) != 0 || strcmp(probe->node.role, "sentinel") != 0)
            continue;
        close_probe(probe);
        if (!open_probe(probe, true))
            probe->link = NULL;
    }
    (void)fleet_session_wait(status->probes->session, are_settled, status);
}

static bool gather(struct fleet_session *session, struct status *status)
{
    (void)fleet_session_ready(session); /* what is not is shown */
    if (!list_nodes(session, status))
        return false;
    if (status->count > 0)
        open_all(status);
    status->is_good = status->is_serving;
    for (size_t i = 0; i < status->count; i++) {
        struct probe *probe = &status->probes[i];
        probe->is_up = probe->is_up && ping(probe);
        if (probe->is_up && strcmp(probe->node.role, "sentinel") != 0)
            ask_script(probe);
        if (probe->is_up)
            ask_version(probe);
        if (probe->is_up && probe->node.is_up && probe->node.outage != NULL)
            try_write(probe);
        status->is_good = status->is_good && probe->is_up && !probe->refuses;
    }
    for (size_t i = 0; i < status->count; i++)
        close_probe(&status->probes[i]);
    return true;
}

/* ---- Saying it ----------------------------------------------------------------------------------------------------------- */

static void put_seconds(struct text *text, const char *name, uint64_t ns)
{
    text_string(text, name);
    text_seconds(text, ns);
}

static void put_member(struct text *text, const char *name, const char *value)
{
    text_literal(text, ", \"");
    text_string(text, name);
    text_literal(text, "\": ");
    if (value == NULL || value[0] == '\0')
        text_literal(text, "null");
    else
        text_json(text, slice_of(value));
}

static void put_incarnation(struct text *text, struct incarnation incarnation)
{
    char id[17];
    if (incarnation.id == 0) {
        text_literal(text, ", \"incarnation\": null");
        return;
    }
    (void)snprintf(id, sizeof id, "%016llx", (unsigned long long)incarnation.id);
    text_literal(text, ", \"incarnation\": {\"id\": ");
    text_json(text, slice_of(id));
    put_seconds(text, ", \"began_at\": ", incarnation.began_at_us * 1000);
    text_literal(text, "}");
}

static void put_node(struct text *text, const struct probe *probe, bool is_cluster)
{
    static const char *const loaded[] = { "null", "false", "true" };
    text_literal(text, "{\"address\": ");
    text_json(text, slice_of(probe->address));
    put_member(text, "role", probe->node.role);
    text_string(text, probe->is_up ? ", \"reachable\": true" : ", \"reachable\": false");
    put_member(text, "why", probe->is_up ? probe->said : probe->why);
    if (is_cluster) {
        text_literal(text, ", \"slots\": ");
        text_u64(text, probe->node.slots);
    }
    if (probe->is_up) {
        put_seconds(text, ", \"ping_min\": ", probe->pings[0]);
        put_seconds(text, ", \"ping_median\": ", probe->pings[PINGS / 2]);
        put_member(text, "server", probe->server);
        put_member(text, "version", probe->version);
        text_literal(text, ", \"script_loaded\": ");
        text_string(text, strcmp(probe->node.role, "sentinel") == 0 ? "null" : loaded[probe->is_loaded + 1]);
    }
    put_incarnation(text, probe->node.incarnation);
    text_literal(text, "}");
}

static void print_json(const struct fleet_session *session, const struct status *status)
{
    static const char *const kinds[] = {
        [URL_ONE] = "one", [URL_SENTINEL] = "sentinel", [URL_CLUSTER] = "cluster"
    };
    char room[2 * URL_MAX + 2048];
    struct text text = text_of(room, sizeof room);
    bool is_cluster = session->url.kind == URL_CLUSTER;
    text_literal(&text, "{\"store\": ");
    text_json(&text, slice_of(session->shown));
    put_member(&text, "kind", kinds[session->url.kind]);
    put_member(&text, "script", script_version());
    text_string(&text, status->is_good ? ", \"reachable\": true" : ", \"reachable\": false");
    if (is_cluster) {
        text_literal(&text, ", \"slots\": ");
        text_u64(&text, status->slots);
    }
    text_literal(&text, ", \"nodes\": [");
    (void)fwrite(text.at, 1, text.len, stdout); /* main() asks whether all arrived */
    for (size_t i = 0; i < status->count; i++) {
        text.len = 0;
        text_string(&text, i == 0 ? "" : ", ");
        put_node(&text, &status->probes[i], is_cluster);
        (void)fwrite(text.at, 1, text.len, stdout);
    }
    printf("]}\n");
}

/* Milliseconds with three places: what people compare round trips in. */
static void print_ms(const char *name, uint64_t ns)
{
    uint64_t us = (ns + 999) / 1000;
    printf(" %s=%llu.%03llums", name, (unsigned long long)(us / 1000), (unsigned long long)(us % 1000));
}

static void print_began(struct incarnation incarnation)
{
    time_t began = (time_t)(incarnation.began_at_us / 1000000);
    struct tm parts;
    char text[40];
    if (incarnation.id == 0 || gmtime_r(&began, &parts) == NULL
        || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        return;
    printf(" state-since=%s", text);
}

static void print_node(const struct probe *probe, bool is_cluster)
{
    static const char *const loaded[] = { "unknown", "not-loaded", "loaded" };
    const struct store_node *node = &probe->node;
    printf("%s %s", probe->address, node->role[0] == '\0' ? "unknown" : node->role);
    if (is_cluster && strcmp(node->role, "master") == 0)
        printf(" slots=%u", node->slots);
    if (!probe->is_up) {
        printf(" unreachable why=\"%s\"\n", probe->why);
        return;
    }
    print_ms("ping", probe->pings[PINGS / 2]);
    print_ms("min", probe->pings[0]);
    if (probe->version[0] != '\0')
        printf(" server=%s/%s", probe->server, probe->version);
    if (strcmp(node->role, "sentinel") != 0)
        printf(" script=%s", loaded[probe->is_loaded + 1]);
    print_began(node->incarnation);
    if (probe->refuses)
        printf(" refuses=\"%s\"", probe->said);
    putchar('\n');
}

static void print_text(const struct fleet_session *session, const struct status *status)
{
    bool is_cluster = session->url.kind == URL_CLUSTER;
    printf("store %s script=%s\n", session->shown, script_version());
    for (size_t i = 0; i < status->count; i++)
        print_node(&status->probes[i], is_cluster);
}

/* What helps, where a node's own words do not say it; NULL: nothing is known. */
static const char *cure_of(const struct fleet_session *session, const char *why)
{
    if (strncmp(why, "NOAUTH", 6) == 0)
        return "it wants a password: write redis://:PASSWORD@HOST:PORT into WEIR_STORE, or into store.url of "
               "the "
               "contract";
    if (strstr(why, "unknown node or service") != NULL)
        return "its name cannot be resolved";
    if (session->tls == NULL && strstr(why, "connection reset") != NULL)
        return "if it speaks TLS, write rediss://";
    return NULL;
}

/* What is wrong with one node. Gives whether it was said. */
static bool complain_node(const struct fleet_session *session, const struct probe *probe)
{
    bool is_sentinel = strcmp(probe->node.role, "sentinel") == 0;
    bool decides = !is_sentinel && probe->node.outage != NULL;
    const char *cure = probe->is_up ? NULL : cure_of(session, probe->why);
    if (cure != NULL)
        complain(session->command, "%s: %s", probe->address, cure);
    if (probe->is_up && decides && (!probe->node.is_up || probe->refuses))
        complain(session->command, "%s does not serve: %s", probe->address, probe->said);
    return !is_sentinel && (cure != NULL || !probe->is_up);
}

/* What is wrong as a whole, beside the nodes that could not be reached. */
static void complain_whole(const struct fleet_session *session, const struct status *status)
{
    if (session->url.kind == URL_CLUSTER && status->slots > 0 && status->slots < SLOT_COUNT)
        complain(session->command, "%u slots are served by nobody", SLOT_COUNT - status->slots);
    else if (session->url.kind == URL_CLUSTER && status->slots == 0)
        complain(session->command, "no node gives a map of the Cluster");
    bool is_said = false;
    for (size_t i = 0; i < status->count; i++)
        is_said |= complain_node(session, &status->probes[i]);
    if (session->url.kind == URL_SENTINEL && !status->is_serving)
        complain(session->command, "no master '%s' is known and serves", session->url.master);
    if (!status->is_serving && !is_said && session->news[0] != '\0')
        complain(session->command, "%s", session->news);
}

static int show(struct fleet_session *session, bool is_json)
{
    struct status status = { 0 };
    if (!gather(session, &status)) {
        complain(session->command, "out of memory");
        return EXIT_UNDECIDED;
    }
    if (is_json)
        print_json(session, &status);
    else
        print_text(session, &status);
    complain_whole(session, &status);
    free(status.probes);
    return status.is_good ? EXIT_YES : EXIT_UNDECIDED;
}

int cmd_fleet_status(int argc, char **argv)
{
    static struct fleet_session session; /* large for the stack */
    const char *store_url = NULL;
    bool is_json = false;
    const struct option options[] = {
        { OPTION_TEXT, "store", "URL", "the store, in place of the contract's", &store_url, 0, 0 },
        { OPTION_FLAG, "json", NULL, "one JSON object", &is_json, 0, 0 },
    };
    const struct usage usage = { "fleet status", "[CONTRACT]", about, options,
                                 sizeof options / sizeof *options };
    int status;
    int operands = options_parse(&usage, argc, argv, &status);
    if (operands < 0)
        return status;
    if (operands > 1) {
        complain(usage.command, "%.80s: one contract at a time", argv[2]);
        return EXIT_WRONG;
    }
    struct weir_contract *contract = NULL;
    if (operands == 0 && store_url == NULL && !contract_is_there()) {
        complain(usage.command,
                 "which store? give --store URL or set WEIR_STORE; or name a contract with store: { url }, as "
                 "there is no ./weir.yaml and no /etc/weir/weir.yaml");
        return EXIT_WRONG;
    }
    if (operands == 1 || store_url == NULL) {
        contract = contract_open_shared(usage.command, operands == 1 ? argv[1] : NULL);
        if (contract == NULL)
            return EXIT_WRONG;
    }
    status = fleet_session_open(&session, usage.command, store_url, contract);
    if (status == EXIT_YES)
        status = show(&session, is_json);
    fleet_session_close(&session);
    weir_contract_free(contract);
    return status;
}
