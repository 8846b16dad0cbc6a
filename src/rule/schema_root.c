// SPDX-License-Identifier: Apache-2.0
/* schema_root.c - the top level of a contract, `server` and `memory`. */
#include <stdio.h>

#include "rule/contract.h"

/* ---- server ---------------------------------------------------------------------------------------------------- */

/* More listeners than a program has any use for; bounds what one line of YAML can open. */
#define ADDRESSES_MAX 64
#define UIDS_MAX 1024

struct server_reading {
    struct weir_contract_server *server;
    const char *admin, *tokens;
    bool auth_wait, rls_refunds;
    int log_format;
    unsigned proxy_doors, socket_mode;
    uint64_t connections_per_peer;
    struct address_list {
        const char *const *at;
        size_t count;
    } http, resp, grpc;
    struct tls_reading {
        const char *cert, *key, *client_ca;
    } tls;
};

static const char *const address_forms =
    "write an address such as 8080, \"127.0.0.1:8080\" or unix:/run/weir.sock";

/* One address or a list of them. */
static void parse_addresses(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct address_list *list = (struct address_list *)((char *)into + field->offset);
    size_t count = value->kind == NODE_LIST ? value->count : 1;
    if (count > ADDRESSES_MAX) {
        schema_error(load, field->name, value, "list fewer", "has more than %d addresses", ADDRESSES_MAX);
        return;
    }
    const char **addresses = REGION_NEW(load->region, const char *, count + 1);
    if (addresses == NULL)
        return;
    const struct node *node = value->kind == NODE_LIST ? value->first : value;
    for (size_t i = 0; i < count; i++, node = node->next) {
        const char *problem = node_scalar_problem(node);
        if (problem == NULL && (node->text.len == 0 || node->text.len > 255))
            problem = "is no address";
        if (problem == NULL)
            addresses[list->count++] = region_copy(load->region, node->text).at;
        else if (node->kind != NODE_BAD)
            schema_error(load, field->name, node, address_forms, "%s", problem);
    }
    list->at = addresses;
}

static void parse_uids(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct weir_contract_server *server = ((struct server_reading *)into)->server;
    if (!schema_is_list(load, field->name, value, "write a list of numbers such as [0, 33]"))
        return;
    if (value->count > UIDS_MAX) {
        schema_error(load, field->name, value, "list fewer", "has more than %d members", UIDS_MAX);
        return;
    }
    uint32_t *uids = REGION_NEW(load->region, uint32_t, value->count + 1);
    for (const struct node *node = value->first; uids != NULL && node != NULL; node = node->next) {
        const struct field member = { .name = field->name, .max = UINT32_MAX - 1 };
        uint64_t uid = UINT64_MAX;
        parse_integer(load, &member, node, &uid);
        if (uid != UINT64_MAX)
            uids[server->uid_count++] = (uint32_t)uid;
    }
    server->uids = uids;
    server->has_uids = true;
}

#define TLS(member) offsetof(struct tls_reading, member)

static const struct field tls_fields[] = {
    { "cert", parse_text, "path", TLS(cert), .is_required = true,
      .sentence = "write the path of the certificate, with those between it and its authority, as PEM" },
    { "key", parse_text, "path", TLS(key), .is_required = true,
      .sentence = "write the path of its key, as PEM" },
    { "client-ca", parse_text, "path", TLS(client_ca),
      .sentence = "write the path of the authorities whose clients are served" },
};
#define TLS_FIELDS (sizeof tls_fields / sizeof *tls_fields)

static void parse_tls(struct load *load, const struct field *field, const struct node *value, void *into)
{
    const struct node *given[TLS_FIELDS];
    struct owner owner = load->owner;
    load->owner.what = "the tls of server";
    (void)schema_read(load, value, field->name, tls_fields, TLS_FIELDS, (char *)into + field->offset, given);
    load->owner = owner;
}

static const struct word log_words[] = {
    { "logfmt", WEIR_LOG_LOGFMT, NULL },
    { "json", WEIR_LOG_JSON, NULL },
    { NULL, 0, NULL },
};

#define SERVER(member) offsetof(struct server_reading, member)

static const struct field server_fields[] = {
    { "http", parse_addresses, "address or list of addresses", SERVER(http), .fallback = "8080 on loopback",
      .sentence = "where HTTP is served" },
    { "resp", parse_addresses, "address or list of addresses", SERVER(resp),
      .sentence = "where Redis clients are served" },
    { "grpc", parse_addresses, "address or list of addresses", SERVER(grpc), .sentence = "where Envoy asks" },
    { "admin", parse_text, "path or address", SERVER(admin), .fallback = "/run/weir/admin.sock",
      .sentence = "write the path of the admin socket" },
    { "tokens", parse_text, "path", SERVER(tokens), .sentence = "write the path of the tokens file" },
    { "uids", parse_uids, "list of integers", 0, .fallback = "own uid and 0",
      .sentence = "which peers of Unix sockets are trusted" },
    { "proxy-protocol", parse_proxy_doors, "list of doors", SERVER(proxy_doors), .fallback = "none",
      .sentence = "at which doors connections of `identity.proxies` begin with a PROXY header" },
    { "connections-per-peer", parse_integer, "integer", SERVER(connections_per_peer), .min = 1, .max = 1000000,
      .fallback = "half of all", .sentence = "how many connections one address may have" },
    { "socket-mode", parse_socket_mode, "octal digits in quotes", SERVER(socket_mode), .fallback = "\"0660\"",
      .sentence = "who may connect to Unix sockets, as chmod writes it" },
    { "auth-wait", parse_boolean, "boolean", SERVER(auth_wait), .fallback = "false",
      .sentence = "whether clients of the auth doors may ask to wait" },
    { "rls-refunds", parse_boolean, "boolean", SERVER(rls_refunds), .fallback = "false",
      .sentence = "whether calls of Envoy's rate limit service may give hits back" },
    { "log-format", parse_word, "word", SERVER(log_format), .words = log_words, .fallback = "logfmt",
      .sentence = "how lines of the log are written" },
    { "tls", parse_tls, "map", SERVER(tls),
      .sentence = "write the paths of PEM files: `tls: { cert: server.pem, key: server.key }`" },
};
#define SERVER_FIELDS (sizeof server_fields / sizeof *server_fields)

void parse_server(struct load *load, const struct field *field, const struct node *value, void *into)
{
    const struct node *given[SERVER_FIELDS];
    struct server_reading reading = { .server = load->server };
    struct region *region = load->region;
    (void)into;
    load->owner = (struct owner){ .what = "server" };
    load->region = load->home;
    (void)schema_read(load, value, field->name, server_fields, SERVER_FIELDS, &reading, given);
    load->region = region;
    load->owner = (struct owner){ 0 };
    load->server->http = reading.http.at;
    load->server->http_count = reading.http.count;
    load->server->resp = reading.resp.at;
    load->server->resp_count = reading.resp.count;
    load->server->grpc = reading.grpc.at;
    load->server->grpc_count = reading.grpc.count;
    load->server->tls_cert = reading.tls.cert;
    load->server->tls_key = reading.tls.key;
    load->server->tls_client_ca = reading.tls.client_ca;
    load->server->admin = reading.admin;
    load->server->tokens = reading.tokens;
    load->server->auth_wait = reading.auth_wait;
    load->server->rls_refunds = reading.rls_refunds;
    load->server->log_format = (enum weir_log_format)reading.log_format;
    load->server->proxy_doors = reading.proxy_doors;
    load->server->socket_mode = reading.socket_mode;
    load->server->connections_per_peer = (size_t)reading.connections_per_peer;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

#define MEMORY(member) offsetof(struct memory_config, member)

/* weir_options.keys goes so far. */
#define KEYS_MAX (UINT64_C(1) << 32)

static const struct field memory_fields[] = {
    { "keys", parse_integer, "integer", MEMORY(keys), .min = 1, .max = KEYS_MAX, .fallback = "65536",
      .sentence = "how many keys are live at once" },
    { "log-stamps", parse_integer, "integer", MEMORY(log_stamps), .min = 1, .max = KEYS_MAX,
      .fallback = "1048576", .sentence = "how many requests all sliding logs remember together" },
    { "new-keys", parse_rate, "COUNT/[N]UNIT", MEMORY(new_keys), .fallback = "no bound",
      .sentence = "how fast new keys may come; beyond it `when-full` answers" },
    { "permits", parse_integer, "integer", MEMORY(permits), .min = 1, .max = KEYS_MAX, .fallback = "65536",
      .sentence = "how many permits all concurrency limits give together" },
};
#define MEMORY_FIELDS (sizeof memory_fields / sizeof *memory_fields)

void parse_memory(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct memory_config *memory = &((struct rules *)into)->memory;
    const struct node *given[MEMORY_FIELDS];
    load->owner = (struct owner){ .what = "memory" };
    (void)schema_read(load, value, field->name, memory_fields, MEMORY_FIELDS, memory, given);
    if (memory->new_keys.multiple != 0 && (memory->new_keys.period == 0 || memory->new_keys.count == 0))
        schema_error(load, "new-keys", given[2], "write a rate such as 10000/s, or leave it out for no bound",
                     memory->new_keys.period == 0 ? "has a unit whose length varies"
                                                  : "would admit no key at all");
    weir_rate rate;
    const struct rate *bound = &memory->new_keys;
    if (bound->count > 0 && bound->period > 0
        && !weir_rate_init(&rate, bound->count, bound->period, bound->count))
        schema_error(load, "new-keys", given[2],
                     "lower the count, or leave it out for no bound: a table takes some 10^7 new keys a second",
                     "is too fast to be represented");
    load->owner = (struct owner){ 0 };
}

/* ---- The top level ------------------------------------------------------------------------------------------------ */

struct root_reading {
    struct rules *rules;
    uint64_t version, replicas;
    int headers;
};

/* The parts write into the rules themselves. */
static void parse_part(struct load *load, const struct field *field, const struct node *value, void *into)
{
    static const struct {
        const char *name;
        field_parse *parse;
    } parts[] = {
        { "identity", parse_identity }, { "server", parse_server }, { "memory", parse_memory },
        { "store", parse_store },       { "limits", parse_limits },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(field->name, parts[i].name) == 0)
            parts[i].parse(load, field, value, ((struct root_reading *)into)->rules);
}

static const struct word headers_words[] = {
    { "trio", WEIR_HEADERS_TRIO, NULL },
    { "draft", WEIR_HEADERS_DRAFT, NULL },
    { "x-ratelimit", WEIR_HEADERS_X_RATELIMIT, NULL },
    { "none", WEIR_HEADERS_NONE, NULL },
    { NULL, 0, NULL },
};

#define ROOT(member) offsetof(struct root_reading, member)

static const struct field root_fields[] = {
    { "weir", parse_integer, "integer", ROOT(version), .min = 1, .max = 1, .is_required = true,
      .sentence = "begin the contract with `weir: 1`, the version of its language" },
    { "identity", parse_part, "map", 0, .fallback = "ip from the peer",
      .sentence = "where attributes come from" },
    { "limits", parse_part, "list", 0, .is_required = true,
      .sentence = "add `limits:` and below it `- name: ...` for each limit" },
    { "server", parse_part, "map", 0, .sentence = "where the program listens" },
    { "memory", parse_part, "map", 0, .sentence = "how much is reserved at the start" },
    { "headers", parse_word, "word", ROOT(headers), .words = headers_words, .fallback = "trio",
      .sentence = "which reply fields carry the numbers" },
    { "replicas", parse_integer, "integer", ROOT(replicas), .min = 1, .max = 1000000, .fallback = "1",
      .sentence = "how many processes hold this contract" },
    { "store", parse_part, "map", 0, .sentence = "where limits with `scope: fleet` are counted" },
};
#define ROOT_FIELDS (sizeof root_fields / sizeof *root_fields)

/* Then no connection is looked at for a header, and those that begin with one are taken for nonsense. */
static void warn_headers_of_nobody(struct load *load)
{
    if (load->server->proxy_doors != 0 && load->rules->identity.proxy_count == 0)
        diagnostics_add(load->diagnostics, WEIR_SEVERITY_WARNING, load->serving->place,
                        "list the balancers: `identity: { proxies: [10.0.0.0/8] }`",
                        "proxy-protocol is given, but `identity.proxies` names nobody who would send a header");
}

void schema_read_contract(struct load *load, const struct node *root)
{
    struct rules *rules = load->rules;
    const struct node *given[ROOT_FIELDS];
    struct root_reading reading = { .rules = rules };
    load->owner = (struct owner){ 0 };
    if (!schema_read(load, root, "the contract", root_fields, ROOT_FIELDS, &reading, given))
        return;
    rules->replicas = reading.replicas;
    rules->headers = (enum weir_headers)reading.headers;
    load->limits = given[2];
    load->serving = given[3];
    load->memory = given[4];
    warn_headers_of_nobody(load);
    load->storing = given[7];
    for (size_t i = 0; i < rules->limit_count; i++)
        rules->has_shared = rules->has_shared || rule_is_shared(&rules->list[i]);
    rules->is_apart = rules->has_shared && load->fleet == WEIR_FLEET_SHARED;
    schema_check_fleet(load);
}
