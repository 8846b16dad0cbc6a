// SPDX-License-Identifier: Apache-2.0
/*
 * identify.c - the public door to identity.c, and the answer to requests that it refuses.
 */
#include "rule/client.h"
#include "rule/identity.h"

void weir_contract_identify(const struct weir_contract *contract, const struct weir_head *head,
                            struct weir_identity *out)
{
    identity_read(contract_identity(contract), head, out);
}

bool weir_contract_trusts_peer(const struct weir_contract *contract, const struct weir_peer *peer)
{
    return client_peer_is_proxy(contract_identity(contract), peer);
}

void weir_answer_refused(weir_ns now, struct weir_answer *out)
{
    /* Only what `count` covers is ever read of `each`. */
    out->limits = NULL;
    out->watched = 0;
    out->count = 0;
    out->decision = (struct weir_decision){
        .outcome = WEIR_NEVER,
        .reason = WEIR_REASON_ATTRIBUTE,
        .limit = WEIR_NO_LIMIT,
        .decided_at = now,
        .retry_at = WEIR_NO_TIME,
        .reset_at = WEIR_NO_TIME,
    };
}
