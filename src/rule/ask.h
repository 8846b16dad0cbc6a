// SPDX-License-Identifier: Apache-2.0
/*
 * ask.h - what a request asks of the limiter: a key, a cost and perhaps a retry's name for each limit that it meets.
 *
 * Limits that do not enforce here (shadow, or a share of keys that this key is not in) are watched: they take no part
 * in the decision and are asked apart.
 */
#ifndef WEIR_RULE_ASK_H
#define WEIR_RULE_ASK_H

#include "base/sha256.h"
#include "rule/key.h"
#include "rule/request.h"

/* Some 40 KB; lives on the stack of a decision. */
struct questions {
    /* In contract order, no (limit, key) twice. Keys point into `keys`, retry ids into the request or `retries`; tag: a bit for
       each of weir_request.also that asks. */
    struct weir_ask asks[WEIR_ASKS_MAX];
    unsigned char keys[WEIR_ASKS_MAX][KEY_PLAIN_MAX];
    uint64_t lacking; /* bit i: the request lacks the key of asks[i], whose limit refuses such requests */
    uint64_t watched; /* bit i: asks[i] is of a limit that does not enforce here */
    unsigned char retries[WEIR_ASKS_MAX][SHA256_LEN]; /* of chains: hashes of ids that are spelled */
    size_t count;
    size_t answers; /* as many as there will be: each question for each who asks it */
    bool is_chain;
};
_Static_assert(WEIR_ASKS_MAX <= 64, "questions have a bit each");

static inline uint64_t question_bit(size_t index)
{
    return UINT64_C(1) << index;
}

/* Read a request, and those that follow it, and write what they ask. 0, or as weir_contract_decide(); `fault` as for
   request_read(). */
int questions_write(const struct rules *rules, const struct weir_request *request, struct questions *out,
                    struct weir_fault *fault);

/* What they give back: costs are the requests' own, and no question is put together with another. */
int questions_write_refund(const struct rules *rules, const struct weir_request *request,
                           struct questions *out);

/* weir_request_is_peek(), nearly always of one request. */
static inline bool asks_are_peek(const struct weir_request *request)
{
    return request->also == NULL ? request->is_peek : weir_request_is_peek(request);
}

/* Whether values of the attribute may be written anew, among the request's values. */
static inline bool attribute_is_rewritten(const struct rules *rules, unsigned number)
{
    enum spelling spelling = rules->attributes.slots[number].spelling;
    return spelling == SPELLING_PATH || spelling == SPELLING_HOST;
}

/* Whether the limit is enforced for this key: the same answer for one key in every process, at any time. */
bool rule_enforces(const struct rule *rule, const unsigned char *key, size_t key_len);

#endif
