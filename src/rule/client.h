// SPDX-License-Identifier: Apache-2.0
/*
 * client.h - the client's address: the connection's peer, or what trusted proxies say about it.
 *
 * Each proxy adds the address it was contacted from at the right end of the list, so the list is read from there,
 * for as long as the one who wrote the next entry is trusted. An entry that is no address ends the reading at the
 * last good one. Entries to the left of the first untrusted hop are its inventions and are never looked at.
 */
#ifndef WEIR_RULE_CLIENT_H
#define WEIR_RULE_CLIENT_H

#include "rule/identity.h"

/* Most entries that are read, from the right. More proxies in a row than this are a loop. */
#define CLIENT_ENTRIES_MAX 32

/*
 * The address of the client by `kind` (PEER, X_FORWARDED_FOR or FORWARDED). False where there is none: a Unix peer
 * without a usable entry.
 */
bool client_address(const struct identity_config *config, const struct weir_head *head, enum identity_kind kind,
                    struct address *out);

/*
 * Whether the peer's forwarding headers are believed: its address is in `proxies`, or its uid is listed. A balancer that passes
 * on what it gets without a word about its client writes no headers, so those that come from it are the client's.
 */
bool client_peer_is_proxy(const struct identity_config *config, const struct weir_peer *peer);

/* Without blanks and tabs at both ends. */
static inline struct slice trim_blanks(struct slice text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

#endif
