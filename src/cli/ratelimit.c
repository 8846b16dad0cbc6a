// SPDX-License-Identifier: Apache-2.0
/* ratelimit.c - variables of envoyproxy/ratelimit, each taken or told why not; see ratelimit.h. */
#include "cli/ratelimit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "cli/cli.h"
#include "sim/instant.h"
#include "wire/text.h"

/* Longest address or path that is put together, and URL: paths of three files and a password. */
#define TEXT_MAX 4096

/* ---- What is ignored ----------------------------------------------------------------------------------------- */

static const struct ratelimit_note unused[] = {
    { "NEAR_LIMIT_RATIO", "it is of statistics alone: no answer depends on it" },
    { "LOG_LEVEL", "every line of the log is an event; see LOG of weir-serve(1)" },
    { "LOG_FORMAT", "use --log-format" },
    { "RUNTIME_IGNOREDOTFILES", "files whose names begin with a dot are never read" },
    { "RUNTIME_WATCH_ROOT", "the link and the folder that it leads to are both watched" },
    { "MERGE_DOMAIN_CONFIG", "the rules of a domain stand in one file" },
    { "FORCE_START_WITHOUT_INITIAL_CONFIG", "a bad configuration at the start ends the process" },
    { "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "it never runs without a configuration" },
    { "REDIS_PERSECOND", "limits per second are in the same store: one command decides about all" },
    { "REDIS_PERSECOND_URL", "as REDIS_PERSECOND" },
    { "REDIS_PERSECOND_SOCKET_TYPE", "as REDIS_PERSECOND" },
    { "REDIS_PERSECOND_TYPE", "as REDIS_PERSECOND" },
    { "REDIS_PERSECOND_AUTH", "as REDIS_PERSECOND" },
    { "REDIS_PERSECOND_TLS", "as REDIS_PERSECOND" },
    { "REDIS_PERSECOND_POOL_SIZE", "as REDIS_PERSECOND" },
    { "REDIS_POOL_SIZE", "a worker has one connection, and commands are pipelined on it" },
    { "REDIS_PIPELINE_WINDOW", "commands are sent with each turn of the loop" },
    { "REDIS_PIPELINE_LIMIT", "commands are sent with each turn of the loop" },
    { "REDIS_SENTINEL_AUTH", "Sentinels are greeted with REDIS_AUTH, as the nodes that they name" },
    { "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "certificates are always verified: give REDIS_TLS_CACERT" },
    { "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "a store that is away makes nobody unhealthy; see /readyz" },
    { "LOCAL_CACHE_SIZE_IN_BYTES", "keys that are known to be refused are remembered anyway" },
    { "EXPIRATION_JITTER_MAX_SECONDS", "keys in the store end with their window" },
    { "MEMCACHE_HOST_PORT", "there is no memcached store: without REDIS_URL this process counts" },
    { "MEMCACHE_SRV", "as MEMCACHE_HOST_PORT" },
    { "USE_STATSD", "metrics are at /metrics, for Prometheus" },
    { "STATSD_HOST", "metrics are at /metrics, for Prometheus" },
    { "STATSD_PORT", "metrics are at /metrics, for Prometheus" },
    { "USE_DOG_STATSD", "metrics are at /metrics, for Prometheus" },
    { "USE_PROMETHEUS", "metrics are at /metrics of the HTTP door anyway" },
    { "PROMETHEUS_ADDR", "metrics are at /metrics of the HTTP door" },
    { "PROMETHEUS_PATH", "metrics are at /metrics of the HTTP door" },
    { "EXTRA_TAGS", "labels are added by whoever scrapes /metrics" },
    { "DISABLE_STATS", "metrics cost nothing until they are read" },
    { "DEBUG_HOST", "there is no door for debugging: see /v1/limits and /metrics" },
    { "DEBUG_PORT", "there is no door for debugging: see /v1/limits and /metrics" },
    { "TRACING_ENABLED", "there are no traces" },
    { "GRPC_MAX_CONNECTION_AGE", "connections end when the server does" },
    { "GRPC_MAX_CONNECTION_AGE_GRACE", "connections end when the server does" },
};
#define UNUSED_COUNT (sizeof unused / sizeof *unused)

static void note(struct server_ratelimit *ratelimit, const char *variable, const char *reason)
{
    if (ratelimit->note_count < RATELIMIT_NOTES_MAX)
        ratelimit->notes[ratelimit->note_count++] = (struct ratelimit_note){ variable, reason };
}

/* ---- Values ---------------------------------------------------------------------------------------------------- */

/* NULL where it is not set, or empty. */
static const char *given(const char *variable)
{
    const char *value = getenv(variable);
    return value == NULL || value[0] == '\0' ? NULL : value;
}

static const char *given_or(const char *variable, const char *otherwise)
{
    const char *value = given(variable);
    return value == NULL ? otherwise : value;
}

/* The words that the original takes. */
static bool take_flag(const char *variable, bool *out)
{
    static const char *const yes[] = { "1", "t", "T", "true", "TRUE", "True" };
    static const char *const no[] = { "0", "f", "F", "false", "FALSE", "False" };
    const char *value = given(variable);
    *out = false;
    for (size_t i = 0; value != NULL && i < sizeof yes / sizeof *yes; i++) {
        *out = *out || strcmp(value, yes[i]) == 0;
        if (*out || strcmp(value, no[i]) == 0)
            return true;
    }
    if (value != NULL)
        complain("serve", "%s: '%.100s' is neither true nor false", variable, value);
    return value == NULL;
}

static bool complain_long(const char *what)
{
    complain("serve", "%s is longer than %d bytes", what, TEXT_MAX - 1);
    return false;
}

static bool is_cut(int len)
{
    return len < 0 || len >= TEXT_MAX;
}

/* ---- Folder and doors -------------------------------------------------------------------------------------------- */

static bool take_folder(const char *folder, struct server_ratelimit *ratelimit)
{
    static char path[TEXT_MAX];
    const char *below = given("RUNTIME_SUBDIRECTORY");
    ratelimit->folder = folder;
    if (folder[0] != '\0')
        return true;
    int len = snprintf(path, sizeof path, "%s%s%s/%s", given_or("RUNTIME_ROOT", "/srv/runtime_data/current"),
                       below == NULL ? "" : "/", below == NULL ? "" : below,
                       given_or("RUNTIME_APPDIRECTORY", "config"));
    ratelimit->folder = path;
    return is_cut(len) ? complain_long("RUNTIME_ROOT with what is below it") : true;
}

/* HOST:PORT; without a host, loopback. */
static bool join(const char *host, const char *port, char out[TEXT_MAX])
{
    const char *name = host == NULL ? "127.0.0.1" : host;
    bool is_v6 = strchr(name, ':') != NULL && name[0] != '[';
    return !is_cut(snprintf(out, TEXT_MAX, is_v6 ? "[%s]:%s" : "%s:%s", name, port));
}

static bool take_doors(struct server_ratelimit *ratelimit, struct server_options *server)
{
    static char http[TEXT_MAX], grpc[TEXT_MAX];
    static const char by_option[] = "an option says which doors there are";
    static const char *const variables[] = { "HOST", "PORT", "GRPC_HOST", "GRPC_PORT", "GRPC_UDS" };
    bool has_doors = server->http_count + server->grpc_count + server->resp_count > 0;
    for (size_t i = 0; has_doors && i < sizeof variables / sizeof *variables; i++)
        if (given(variables[i]) != NULL)
            note(ratelimit, variables[i], by_option);
    if (has_doors)
        return true;
    const char *socket = given("GRPC_UDS");
    if (!join(given("HOST"), given_or("PORT", "8080"), http)
        || (socket == NULL && !join(given("GRPC_HOST"), given_or("GRPC_PORT", "8081"), grpc))
        || (socket != NULL && is_cut(snprintf(grpc, sizeof grpc, "unix:%s", socket))))
        return complain_long("HOST with PORT");
    server->http[server->http_count++] = http;
    server->grpc[server->grpc_count++] = grpc;
    if (given("HOST") == NULL || (socket == NULL && given("GRPC_HOST") == NULL))
        note(ratelimit, given("HOST") == NULL ? "HOST" : "GRPC_HOST",
             "it is not set, so only this machine is served: set HOST and GRPC_HOST to 0.0.0.0, with "
             "--tokens, --tls-client-ca or --insecure");
    return true;
}

static bool take_tls(struct server_ratelimit *ratelimit, struct server_options *server)
{
    bool is_on;
    if (!take_flag("GRPC_SERVER_USE_TLS", &is_on))
        return false;
    if (is_on && given("GRPC_CLIENT_TLS_SAN") != NULL) {
        complain("serve",
                 "GRPC_CLIENT_TLS_SAN: which names a client's certificate may have cannot be said: let the "
                 "authority of GRPC_CLIENT_TLS_CACERT be one of your clients alone, and remove it");
        return false;
    }
    if (!is_on || server->tls_cert != NULL)
        return true;
    server->tls_cert = given("GRPC_SERVER_TLS_CERT");
    server->tls_key = given("GRPC_SERVER_TLS_KEY");
    server->tls_client_ca = given("GRPC_CLIENT_TLS_CACERT");
    if (server->tls_cert == NULL || server->tls_key == NULL) {
        complain("serve", "GRPC_SERVER_USE_TLS: set GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY as well");
        return false;
    }
    note(ratelimit, "GRPC_SERVER_USE_TLS", "it holds for every TCP door, HTTP as well");
    return true;
}

/* ---- The store ------------------------------------------------------------------------------------------------------ */

/* `plain`: what may stand there as it is, beside letters and digits. */
static void add_escaped(struct text *out, const char *text, const char *plain)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
                        || strchr(plain, c) != NULL;
        char escaped[4];
        (void)snprintf(escaped, sizeof escaped, is_plain ? "%c" : "%%%02X", c);
        text_string(out, escaped);
    }
}

/* "password" or "user:password". */
static void add_auth(struct text *out)
{
    static char user[TEXT_MAX];
    const char *auth = given("REDIS_AUTH");
    if (auth == NULL)
        return;
    const char *colon = strchr(auth, ':');
    (void)snprintf(user, sizeof user, "%.*s", colon == NULL ? 0 : (int)(colon - auth), auth);
    add_escaped(out, user, "-._~");
    text_string(out, ":");
    add_escaped(out, colon == NULL ? auth : colon + 1, "-._~");
    text_string(out, "@");
}

static void add_files(struct text *out, bool has_tls)
{
    static const struct {
        const char *variable, *name;
    } files[] = { { "REDIS_TLS_CACERT", "ca" },
                  { "REDIS_TLS_CLIENT_CERT", "cert" },
                  { "REDIS_TLS_CLIENT_KEY", "key" } };
    const char *before = "?";
    for (size_t i = 0; has_tls && i < sizeof files / sizeof *files; i++) {
        const char *path = given(files[i].variable);
        if (path == NULL)
            continue;
        text_string(out, before);
        text_string(out, files[i].name);
        text_string(out, "=");
        add_escaped(out, path, "-._~/");
        before = "&";
    }
}

/* MASTER,HOST:PORT,... as hosts with the name behind them. */
static bool add_sentinels(struct text *out, const char *url)
{
    static char name[TEXT_MAX];
    const char *comma = strchr(url, ',');
    if (comma == NULL || comma == url) {
        complain("serve", "REDIS_URL: write MASTER,HOST:PORT,HOST:PORT with REDIS_TYPE=SENTINEL");
        return false;
    }
    (void)snprintf(name, sizeof name, "/%.*s", (int)(comma - url), url);
    text_string(out, comma + 1);
    text_string(out, name);
    return true;
}

static bool add_store(struct text *out, const char *url, bool has_tls)
{
    const char *type = given_or("REDIS_TYPE", "SINGLE"), *socket = given("REDIS_SOCKET_TYPE");
    bool is_sentinel = strcasecmp(type, "SENTINEL") == 0, is_cluster = strcasecmp(type, "CLUSTER") == 0;
    bool is_unix = socket == NULL ? url[0] == '/' : strcmp(socket, "unix") == 0;
    if (!is_sentinel && !is_cluster && strcasecmp(type, "SINGLE") != 0) {
        complain("serve", "REDIS_TYPE: '%.100s' is none of SINGLE, SENTINEL and CLUSTER", type);
        return false;
    }
    if (strncmp(url, "redis://", 8) == 0 || strncmp(url, "rediss://", 9) == 0) {
        has_tls = has_tls || url[5] == 's';
        url = strstr(url, "//") + 2;
        is_unix = false;
    }
    text_string(out, has_tls ? "rediss" : "redis");
    text_string(out, is_sentinel ? "+sentinel" : is_cluster ? "+cluster" : is_unix ? "+unix" : "");
    text_string(out, "://");
    if (strchr(url, '@') == NULL)
        add_auth(out);
    if (is_sentinel)
        return add_sentinels(out, url);
    text_string(out, url);
    return true;
}

static bool take_deadline(struct server_ratelimit *ratelimit)
{
    const char *timeout = given("REDIS_TIMEOUT");
    if (timeout == NULL)
        return true;
    if (!duration_parse(slice_of(timeout), &ratelimit->deadline) || ratelimit->deadline < WEIR_MILLISECOND) {
        complain("serve", "REDIS_TIMEOUT: '%.100s' is not a duration such as 250ms or 5s", timeout);
        return false;
    }
    ratelimit->deadline -= ratelimit->deadline % WEIR_MILLISECOND;
    if (ratelimit->deadline > 10 * WEIR_SECOND)
        ratelimit->deadline = 10 * WEIR_SECOND;
    return true;
}

static bool take_store(struct server_ratelimit *ratelimit, struct server_options *server)
{
    static char url[TEXT_MAX];
    const char *backend = given_or("BACKEND_TYPE", "redis"), *where = given("REDIS_URL");
    bool has_tls;
    if (!take_flag("REDIS_TLS", &has_tls) || !take_deadline(ratelimit))
        return false;
    ratelimit->prefix = given("CACHE_KEY_PREFIX");
    ratelimit->is_shared = true;
    if (server->store_url != NULL) {
        if (where != NULL)
            note(ratelimit, "REDIS_URL", "--store says where limits are counted");
        return true;
    }
    if (strcmp(backend, "redis") != 0)
        note(ratelimit, "BACKEND_TYPE", "the store is a Redis or Valkey, or this process");
    ratelimit->is_shared = where != NULL && strcmp(backend, "redis") == 0;
    if (!ratelimit->is_shared)
        return true;
    struct text out = text_of(url, sizeof url);
    if (!add_store(&out, where, has_tls))
        return false;
    add_files(&out, has_tls);
    text_bytes(&out, "", 1);
    server->store_url = url;
    return out.is_cut ? complain_long("REDIS_URL with what belongs to it") : true;
}

/* ---- Answers ---------------------------------------------------------------------------------------------------------- */

static bool take_answers(struct server_ratelimit *ratelimit)
{
    bool has_headers;
    if (!take_flag("SHADOW_MODE", &ratelimit->is_shadow)
        || !take_flag("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", &ratelimit->stops)
        || !take_flag("LIMIT_RESPONSE_HEADERS_ENABLED", &has_headers))
        return false;
    if (ratelimit->stops && !ratelimit->is_compatible)
        note(ratelimit, "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
             "without --ratelimit-compatible a call that is refused is charged nowhere");
    if (!has_headers)
        return true;
    ratelimit->headers[0] = given_or("LIMIT_LIMIT_HEADER", "RateLimit-Limit");
    ratelimit->headers[1] = given_or("LIMIT_REMAINING_HEADER", "RateLimit-Remaining");
    ratelimit->headers[2] = given_or("LIMIT_RESET_HEADER", "RateLimit-Reset");
    return true;
}

static bool takes_files(void)
{
    const char *type = given_or("CONFIG_TYPE", "FILE");
    if (strcmp(type, "FILE") == 0)
        return true;
    complain("serve", "CONFIG_TYPE: '%.100s' is not served: rules come from files, remove it", type);
    return false;
}

bool ratelimit_take_environment(const char *folder, bool is_compatible, struct server_options *server)
{
    static struct server_ratelimit ratelimit;
    ratelimit = (struct server_ratelimit){ .is_compatible = is_compatible };
    server->ratelimit = &ratelimit;
    for (size_t i = 0; i < UNUSED_COUNT; i++)
        if (given(unused[i].variable) != NULL)
            note(&ratelimit, unused[i].variable, unused[i].reason);
    if (!takes_files() || !take_folder(folder, &ratelimit) || !take_doors(&ratelimit, server)
        || !take_tls(&ratelimit, server) || !take_store(&ratelimit, server) || !take_answers(&ratelimit))
        return false;
    server->contract_path = ratelimit.folder;
    return true;
}
