// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_serve.c - `weir serve`: reads the arguments; net/server.c serves.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/ratelimit.h"
#include "fleet/url.h"
#include "net/server.h"

static const char about[] = "Answer requests by CONTRACT (default ./weir.yaml, then /etc/weir/weir.yaml; -\n"
                            "reads standard input) until SIGTERM. ADDR is HOST:PORT, [V6]:PORT, PORT (on\n"
                            "loopback), unix:PATH or fd:N. Without any door: --http 8080. URL is\n"
                            "redis://HOST:PORT[/DB], redis+unix:///PATH, redis+sentinel://HOSTS/NAME or\n"
                            "redis+cluster://HOSTS; rediss for TLS. A password only in WEIR_STORE.\n";

static bool fill_addresses(const char *door, const struct option_list *list, const char **out, size_t *count)
{
    if (list->count > SERVER_ADDRESSES_MAX) {
        complain("serve", "--%s: %zu addresses; at most %d", door, list->count, SERVER_ADDRESSES_MAX);
        return false;
    }
    for (size_t i = 0; i < list->count; i++)
        out[i] = list->at[i];
    *count = list->count;
    return true;
}

static bool is_log_format(const char *word)
{
    if (word == NULL || strcmp(word, "logfmt") == 0 || strcmp(word, "json") == 0)
        return true;
    complain("serve", "--log-format '%.200s': write logfmt or json", word);
    return false;
}

static bool read_access(const struct option_list *proxies, const char *socket_mode, struct server_options *out)
{
    static const char *const doors[] = { "http", "resp", "grpc" }; /* in the order of their bits */
    for (size_t i = 0; i < proxies->count; i++) {
        size_t door = 0;
        while (door < sizeof doors / sizeof *doors && strcmp(doors[door], proxies->at[i]) != 0)
            door++;
        if (door == sizeof doors / sizeof *doors) {
            complain("serve", "--proxy-protocol: there is no door '%.200s'; write http, resp or grpc",
                     proxies->at[i]);
            return false;
        }
        out->proxy_doors |= 1u << door;
    }
    if (socket_mode != NULL && !slice_to_mode(slice_of(socket_mode), &out->socket_mode)) {
        complain("serve", "--socket-mode: '%.200s' is no mode; write octal digits such as 0660", socket_mode);
        return false;
    }
    return true;
}

/* Arguments are seen by everybody on the machine. True also where the URL is no URL: that is told better later. */
static bool is_free_of_secrets(const char *store_url)
{
    static struct url url; /* large for the stack */
    const char *why;
    if (store_url == NULL || store_url == getenv("WEIR_STORE") || !url_parse(store_url, &url, &why)
        || url.password == NULL)
        return true;
    complain("serve",
             "--store has a password, which every process of the machine can read: set WEIR_STORE instead, or "
             "store.url of the contract");
    return false;
}

/* One of the two says what is served. */
static bool fill_contract(const char *path, const char *folder, bool is_compatible,
                          struct server_options *server)
{
    if (folder == NULL && is_compatible) {
        complain("serve", "--ratelimit-compatible is about --ratelimit-config: give that as well");
        return false;
    }
    if (folder == NULL) {
        server->contract_path = path != NULL ? path : contract_default("serve");
        return server->contract_path != NULL;
    }
    if (path != NULL) {
        complain("serve",
                 "'%.200s' stands beside --ratelimit-config, and either says which limits there are: make one "
                 "contract "
                 "of both with `weir import ratelimit`, or leave one out",
                 path);
        return false;
    }
    return ratelimit_take_environment(folder, is_compatible, server);
}

int cmd_serve(int argc, char **argv)
{
    struct server_options server = { .contract_path = NULL };
    struct option_list http = { .count = 0 }, resp = { .count = 0 }, grpc = { .count = 0 };
    const char *folder = NULL;
    bool is_compatible = false;
    uint64_t workers = 0;
    uint64_t keys = 0, per_peer = 0;
    struct option_list proxies = { .count = 0 };
    const char *socket_mode = NULL;
    const struct option options[] = {
        { OPTION_LIST, "http", "ADDR", "listen for HTTP", &http, 0, 0 },
        { OPTION_LIST, "resp", "ADDR", "listen for Redis clients", &resp, 0, 0 },
        { OPTION_LIST, "grpc", "ADDR", "listen for Envoy", &grpc, 0, 0 },
        { OPTION_TEXT, "admin", "ADDR", "listen for admin calls", &server.admin, 0, 0 },
        { OPTION_TEXT, "store", "URL", "count limits of scope: fleet here", &server.store_url, 0, 0 },
        { OPTION_NUMBER, "workers", "N", "threads; default: one per core", &workers, 1, SERVER_WORKERS_MAX },
        { OPTION_NUMBER, "keys", "N", "keys that are live at once", &keys, 1, UINT64_C(1) << 32 },
        { OPTION_LIST, "proxy-protocol", "DOOR", "proxies begin with a PROXY header", &proxies, 0, 0 },
        { OPTION_NUMBER, "connections-per-peer", "N", "most of one address", &per_peer, 1, 1000000 },
        { OPTION_TEXT, "socket-mode", "MODE", "of Unix sockets; default: 0660", &socket_mode, 0, 0 },
        { OPTION_TEXT, "tokens", "FILE", "who may call", &server.tokens_path, 0, 0 },
        { OPTION_TEXT, "tls-cert", "FILE", "TLS: what to show, as PEM", &server.tls_cert, 0, 0 },
        { OPTION_TEXT, "tls-key", "FILE", "and its key", &server.tls_key, 0, 0 },
        { OPTION_TEXT, "tls-client-ca", "FILE", "whose clients are served", &server.tls_client_ca, 0, 0 },
        { OPTION_TEXT, "log-format", "FORM", "logfmt or json", &server.log_format, 0, 0 },
        { OPTION_FLAG, "insecure", NULL, "listen beyond loopback without tokens", &server.is_insecure, 0, 0 },
        { OPTION_MAYBE, "ratelimit-config", "[DIR]", "rules of envoyproxy/ratelimit", &folder, 0, 0 },
        { OPTION_FLAG, "ratelimit-compatible", NULL, "decide as it does", &is_compatible, 0, 0 },
    };
    const struct usage usage = { "serve", "[CONTRACT]", about, options, sizeof options / sizeof *options };
    int status;
    int operands = options_parse(&usage, argc, argv, &status);
    if (operands < 0)
        return status;
    if (operands > 1) {
        complain("serve", "'%.200s' is a second contract beside '%.200s'; give one", argv[2], argv[1]);
        return EXIT_WRONG;
    }
    if (!fill_addresses("http", &http, server.http, &server.http_count)
        || !fill_addresses("resp", &resp, server.resp, &server.resp_count)
        || !fill_addresses("grpc", &grpc, server.grpc, &server.grpc_count) || !is_log_format(server.log_format)
        || !read_access(&proxies, socket_mode, &server) || !is_free_of_secrets(server.store_url))
        return EXIT_WRONG;
    server.workers = (unsigned)workers;
    server.keys = (size_t)keys;
    server.connections_per_peer = (size_t)per_peer;
    if (!fill_contract(operands == 1 ? argv[1] : NULL, folder, is_compatible, &server))
        return EXIT_WRONG;
    return server.contract_path == NULL ? EXIT_WRONG : server_run(&server);
}
