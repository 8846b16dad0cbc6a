// SPDX-License-Identifier: Apache-2.0
/*
 * ask.h - what a request asks of the limiter: a key, a cost and perhaps a retry's name for each limit that it meets.
 *
 * Limits that do not enforce here (shadow, or a share of keys that this key is not in) are watched: they take no part
 * in the decision and are asked apart.
 */
#ifndef WEIR_RULE_ASK_H
#define WEIR_RULE_ASK_H

#include "rule/key.h"
#include "rule/request.h"

/* Some 40 KB; lives on the stack of a decision. */
struct questions {
    uint32_t met[WEIR_ASKS_MAX];
    struct weir_ask
        asks[WEIR_ASKS_MAX]; /* in contract order; keys point into `keys`, retry ids into the request */
    unsigned char keys[WEIR_ASKS_MAX][KEY_PLAIN_MAX];
    uint64_t lacking; /* bit i: the request lacks the key of asks[i], whose limit refuses such requests */
    uint64_t watched; /* bit i: asks[i] is of a limit that does not enforce here */
    size_t count;
};
_Static_assert(WEIR_ASKS_MAX <= 64, "questions have a bit each");

static inline uint64_t question_bit(size_t index)
{
    return UINT64_C(1) << index;
}

/* Write the questions of a request that was read. 0, or WEIR_ERR_ASKS. */
int questions_write(const struct rules *rules, const struct request_values *values, uint64_t request_cost,
                    struct questions *out);

/* Whether the limit is enforced for this key: the same answer for one key in every process, at any time. */
bool rule_enforces(const struct rule *rule, const unsigned char *key, size_t key_len);

#endif
