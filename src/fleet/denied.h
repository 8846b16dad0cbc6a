// SPDX-License-Identifier: Apache-2.0
/*
 * denied.h - keys that the store has just refused, and until when asking again is useless.
 *
 * Idea: who hammers a budget that is used up asks the same question again and again; the first answer already said when it will
 * be another. Until then the process answers by itself, at whichever worker, and says exactly what the store would (B61): for
 * the same cost only, and only for as long as what is left stays the same number. For a cost of one that is until it passes. Of a
 * request that meets several limits the one that bound the answer is kept, for the same request: with another key beside it
 * another limit may free later.
 *
 * The time counts from the sending of the command, so it never reaches beyond the instant that the store meant, and is trusted for
 * DENIED_TRUST_NS at most. Given back tokens (refund, settlement, cancel, reset, an undone charge) make a refusal untrue: those
 * made by this process drop the key, and an answer that was asked for before is not learned after. Those made elsewhere are
 * seen DENIED_TRUST_NS late at the latest. Another contract drops everything.
 *
 * One table for the process rather than one for each worker: a key that is hammered comes at all of them, and what is given back
 * at one must be known to all. 16,384 entries of 64 bytes in sets of four, 1 MiB; in a full set the entry that ends soonest goes.
 * Keys are compared by a keyed 64-bit hash, as in the local table (G4).
 *
 * Words:     entries under the lock of their shard, one of 64; the generation is atomic.
 * Progress:  blocking, for a few instructions.
 */
#ifndef WEIR_FLEET_DENIED_H
#define WEIR_FLEET_DENIED_H

#include <stdbool.h>

#include "base/bytes.h"
#include "weir_contract.h"

#define DENIED_TRUST_NS (5 * WEIR_SECOND)
#define DENIED_ENTRIES 16384

struct denied;

/* 0, WEIR_ERR_MEMORY. `secret` is copied. */
int denied_new(struct denied **out, const uint8_t secret[16]);
void denied_free(struct denied *denied);

/* Another contract: nothing is known any more, and answers to questions of before are not learned. */
void denied_changed(struct denied *denied);
uint32_t denied_generation(const struct denied *denied);

/* Whether refusals of this limit may be kept: those that are free, of limits without retries and permits. */
bool denied_may_keep(const struct weir_limit *limit);

/* Which key, of which size. */
uint64_t denied_hash(const struct denied *denied, struct slice name, const struct weir_shared_size *size);

struct denied_answer {
    uint64_t remaining;
    weir_ns retry_at, reset_at;
};

/* Whether `cost` is known to be refused at `now`, beside the other questions of `set` (any number that tells requests apart). *is_there: something is known of the key, which a request that passes makes
   out of date: denied_drop(). */
bool denied_find(struct denied *denied, uint64_t hash, uint32_t set, uint64_t cost, weir_ns now,
                 struct denied_answer *out, bool *is_there);

/* For how long after its sending an answer holds, that refused `cost` for `retry_after` with `remaining` left: until what is left
   may be another number. 0: it is not known. */
weir_ns denied_holds(const struct weir_limit *limit, const struct weir_shared_size *size, uint64_t cost,
                     uint64_t remaining, weir_ns retry_after);

/* The store refused: asked at `sent_at`, under `generation`; it holds for so long. */
struct denied_seen {
    uint64_t cost;
    weir_ns sent_at, holds;
    uint32_t generation, set;
    struct denied_answer answer; /* as it was given */
};
void denied_learn(struct denied *denied, uint64_t hash, const struct denied_seen *seen);

/* Something was given back, or taken, at `now`. */
void denied_drop(struct denied *denied, uint64_t hash, weir_ns now);

#endif
