// SPDX-License-Identifier: Apache-2.0
/*
 * identity.h - what of an HTTP request is believed, and which attributes follow from it.
 *
 * Nothing is believed but what the contract names. Forwarding headers count only from a peer in `proxies` (or a
 * Unix peer whose uid is listed: it has no address to list, and stands for a proxy of this host). Where a value
 * cannot be trusted to mean one thing (two lines, too long, control bytes) the request is refused instead of
 * passing without the attribute, since "absent" would be a way out of a limit. Rules: weir-contract(5), identity.
 *
 * `ip` is given whole: the decision groups it, after `when` has looked at it.
 */
#ifndef WEIR_RULE_IDENTITY_H
#define WEIR_RULE_IDENTITY_H

#include "rule/address.h"
#include "weir_contract.h"

enum identity_kind {
    IDENTITY_PEER,
    IDENTITY_X_FORWARDED_FOR,
    IDENTITY_FORWARDED,
    IDENTITY_HEADER, /* for `ip`: an address, believed from proxies only */
    IDENTITY_COOKIE,
    IDENTITY_QUERY,
    IDENTITY_CERTIFICATE, /* the subject of the peer's own: of a proxy's connection it is the proxy's */
};

struct identity_source {
    const char *attribute; /* its name, zero-terminated */
    enum identity_kind kind;
    struct slice name; /* of the header (any case), cookie or query parameter (exact); else empty */
    bool only_authenticated, is_digest;
};

/* Filled by the contract's loader; everything is borrowed and lives as long as the contract. */
struct identity_config {
    const struct network *proxies;
    size_t proxy_count;
    /*
     * Attributes that some limit reads, `ip` and `request-id` included: give { "request-id", HEADER, "x-request-id" }
     * where a limit reads it and the contract says nothing; without a source called `ip` the peer is given. Names of
     * the other built-ins (method, host, path, query) are not allowed here. At most WEIR_ATTRIBUTES_MAX - 6.
     */
    const struct identity_source *sources;
    size_t source_count;
    bool reads_query; /* some limit reads the attribute `query`; else a long one refuses nobody */
    const uint32_t *uids;
    size_t uid_count;
    bool has_uids; /* else: own uid (`own_uid`) and 0 */
    uint32_t own_uid;
};

/* The config of a contract; in contract.c. */
const struct identity_config *contract_identity(const struct weir_contract *contract);

/* weir_contract_identify() on a config. */
void identity_read(const struct identity_config *config, const struct weir_head *head,
                   struct weir_identity *out);

/* Whether `only: authenticated` attributes of this peer count. Loopback alone does not. */
bool identity_is_authenticated(const struct identity_config *config, const struct weir_peer *peer);

#endif
