// SPDX-License-Identifier: Apache-2.0
/*
 * share.h - this process's share of limits with `when-store-fails: { local: N/M }`, counted while their store is away.
 *
 * Idea: a limiter of their own, with the same algorithms and N/M of every number. A bucket starts empty with each outage, or a
 * store that comes and goes would mint a burst every time: its key is the request's and the outage's number, and what is absent
 * had nothing left when that outage began. So over any outages together the share admits at most what flowed in while they
 * lasted (P39). Windows and logs have no such start: they begin whole once and keep their counts from one outage to the next.
 *
 * Keys of buckets being new with each outage, an override of a bucket is a limit here, found by its size; those of windows and
 * logs are overrides here too.
 *
 * Words:    keeper.lost_number, raised by whoever sees a newer outage first.
 * Ordering: release and acquire: who reads a number finds weir_lost_at_set() of that outage done, so no bucket of it begins whole.
 * Progress: wait-free.
 * Reuse:    none. The set is of rules->shares; it ends with the rules.
 */
#ifndef WEIR_RULE_SHARE_H
#define WEIR_RULE_SHARE_H

#include "rule/shared.h"

/* A size of overrides of a bucket, and the limit that counts its share. */
struct share_size {
    struct weir_size size; /* the whole */
    weir_limit_id share;
};

/* What lives as long as the contract. */
struct share_keeper {
    struct weir *_Atomic limiter; /* NULL: no limit had a share so far. Release and acquire: it is whole. */
    struct weir_options options;  /* its allocator is the contract's */
    uint8_t secret[16];
    weir_ns began_at; /* the instant from which those who ask without a store count an outage */
    _Atomic uint64_t lost_number;
    _Atomic int64_t wall_offset; /* for a limiter that is made later */
};

/* Remember with what to make the limiter. */
void share_init(struct share_keeper *keeper, const struct weir_options *options);
void share_deinit(struct share_keeper *keeper);

static inline struct weir *share_limiter(const struct share_keeper *keeper)
{
    return atomic_load_explicit(&((struct share_keeper *)(uintptr_t)keeper)->limiter, memory_order_acquire);
}

/* With the contract's limiter. */
void share_quiesce(struct share_keeper *keeper, weir_ns now);
void share_retire(struct share_keeper *keeper);

/*
 * The shares of load->rules, to be put in force with share_commit(); NULL: there are none. Between contract_add_limits() and
 * rules_finish(). 0 or WEIR_ERR_MEMORY, WEIR_ERR_BUSY; what does not fit is reported.
 */
int share_prepare(struct load *load, struct share_keeper *keeper, struct weir_change **out);

/* Put them in force, which can still fail: then `local` is `closed` under these rules, and a warning says so. */
void share_commit(struct load *load, struct share_keeper *keeper, struct weir_change *change, weir_ns now);

/* Decide what is asked of limits with a share. `answered` are the bits of shared->asks that are meant; each is written for them. */
void share_decide(const struct weir_contract *contract, const struct weir_shared *shared, uint64_t answered,
                  const struct weir_outage *outages, bool is_peek, weir_ns now, struct weir_decision *each);

/* Forget what a key of a limit with a share has used. */
void share_reset(const struct rules *rules, const struct rule *rule, const unsigned char *key, size_t key_len);

#endif
