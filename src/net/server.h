// SPDX-License-Identifier: Apache-2.0
/*
 * server.h - `weir serve`: a contract behind its doors, from start-up to drained.
 *
 * The one call of this layer that the command line uses. Options win over the contract's `server` field; an absent
 * option (NULL, 0, count 0) leaves the word to the contract, and then to the default.
 */
#ifndef WEIR_NET_SERVER_H
#define WEIR_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>

/* Most addresses of one door: each takes a file descriptor and a line of the log. */
#define SERVER_ADDRESSES_MAX 32

/* Most workers: beyond the cores of any machine one of them would sleep for ever. */
#define SERVER_WORKERS_MAX 256

struct server_ratelimit;

/* What `weir serve` was told. Strings are borrowed during server_run(). */
struct server_options {
    /* NULL, or what takes the contract's place: ratelimit.h. contract_path is then its folder. */
    const struct server_ratelimit *ratelimit;
    const char *contract_path;              /* "-": standard input */
    const char *http[SERVER_ADDRESSES_MAX]; /* HOST:PORT, [V6]:PORT, PORT, unix:PATH, fd:N */
    const char *resp[SERVER_ADDRESSES_MAX]; /* the same, for the Redis protocol */
    size_t resp_count;                      /* 0: server.resp of the contract, or none */
    const char *grpc[SERVER_ADDRESSES_MAX]; /* the same, for Envoy's rate limit service */
    size_t grpc_count;                      /* 0: server.grpc of the contract, or none */
    size_t http_count; /* 0: server.http of the contract; that absent too: 8080 on loopback */
    const char *
        admin; /* an address; NULL: server.admin, else /run/weir/admin.sock or $XDG_RUNTIME_DIR/weir-admin.sock */
    const char *tls_cert, *tls_key,
        *tls_client_ca;      /* PEM files; all NULL: server.tls of the contract, or plain */
    const char *tokens_path; /* NULL: server.tokens of the contract, or none */
    const char *
        store_url; /* where limits of `scope: fleet` are counted; NULL: store.url of the contract, or nowhere */
    size_t keys;   /* 0: memory.keys of the contract */
    unsigned workers;       /* 0: one per core this process may use */
    const char *log_format; /* "logfmt", "json"; NULL: server.log-format of the contract */
    unsigned proxy_doors; /* those with the PROXY protocol, enum weir_door; 0: server.proxy-protocol, or none */
    size_t connections_per_peer; /* 0: server.connections-per-peer of the contract, or half of all */
    unsigned socket_mode;        /* of Unix sockets; 0: server.socket-mode of the contract, or 0660 */
    bool is_insecure;            /* --insecure: listen beyond loopback without tokens */
};

/*
 * Serve until SIGTERM or SIGINT, then stop accepting, finish what is pending and return.
 *
 * Says on standard error `listening DOOR ADDR` for each listener once it accepts (ADDR names the port that 0
 * picked), and one log line per event. Blocks SIGPIPE's default action for the whole process.
 *
 * Returns the exit status: 0 drained, 2 a bad contract, option, address or tokens file (said on standard error),
 * 3 a listener or thread could not be made.
 */
int server_run(const struct server_options *options);

#endif
