// SPDX-License-Identifier: Apache-2.0
/*
 * store.h - where words live: one table of 16-byte cells for all keys of all limits, the rings of sliding logs and the
 * records of permits.
 *
 * Reserved whole at the start; nothing here allocates, locks or makes a system call while deciding, but for rings and
 * records, which have a lock word each. Giving a permit back may give the processor up. Stamps are ns since the limiter's origin. A key is its 64-bit hash under
 * the store's secret (the limit's name is part of what was hashed).
 *
 * Keeps G4 (P21, P24), G5 (P25, P26). See store/README.md for the access rules, table.c for the protocol.
 */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "limit/shape.h"

struct store;

struct store_options {
    size_t keys; /* live keys at 60 % fill; the table has the next power of two of cells */
    size_t log_stamps;
    size_t permits;
    uint64_t fence;             /* see weir_options.fence */
    struct weir_quota new_keys; /* count 0: no bound */
};

/* One answer; instants are stamps. */
struct store_answer {
    enum weir_outcome outcome;
    enum weir_policy policy;
    enum weir_reason reason;
    weir_ns at;
    struct report report;
    /* By store_decide() only: */
    bool is_queued;  /* DENY because others wait for this key: the numbers are as if it were free */
    uint32_t permit; /* STORE_ACQUIRE that took: its place in the pool, */
    uint64_t fence;  /* and its fence */
};

/* 0, or WEIR_ERR_MEMORY, _OPTION, _MACHINE. The allocator is kept by reference until store_free(). */
int store_new(struct store **out, const struct store_options *options, const struct weir_allocator *allocator);
void store_free(struct store *store);

/*
 * Make a shape known under its number, which must be unused; the store borrows it until store_shape_remove() or store_free().
 * A sliding log reserves the ring of its overflow cell, if need be from keys that are dead at shape->since, and a concurrency
 * limit the permits of its. 0, or WEIR_ERR_LOG_MEMORY, _PERMIT_MEMORY. While others decide: before the set that has the shape
 * can be seen. All shapes of a lineage in one set are of one generation.
 */
int store_shape_add(struct store *store, const struct shape *shape);

/*
 * The calls that decide. Each returns false, and has written nothing, when the key is already counted under a shape of a
 * later generation: the caller's set is old. A cell of an earlier generation and the same lineage is converted in the
 * exchange that charges it; a look converts nothing.
 */

/* Take `cost` from the key, or answer why not. `now` may be any stamp; beyond the horizon is REFUSED, TIME. */
bool store_take(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t cost,
                struct store_answer *out);

/* What store_take() would answer; writes nothing. */
bool store_peek(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t cost,
                struct store_answer *out);

/* How store_decide() stands to the key. */
enum store_stance {
    STORE_TAKE,
    STORE_LOOK = 1, /* write nothing */
    STORE_ACQUIRE =
        2, /* of a concurrency limit: take a permit; without it such a limit is looked at, which holds nothing */
    STORE_TURN = 4, /* the caller is first in the key's queue, so that others wait behind it does not bar it */
};

/*
 * store_take() and store_peek() in one, with regard to permits and to those who wait: a key with waiters denies everybody but
 * its first. store_take() and store_peek() meet queued keys the same way and say so in out->is_queued as well.
 */
bool store_decide(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t cost,
                  unsigned stance, struct store_answer *out);

/* ---- Keys that are waited for (store/queue.c) -------------------------------------------------------------------- */

enum store_queued {
    STORE_QUEUED,     /* done */
    STORE_QUEUE_OLD,  /* the caller's set is old: nothing was done */
    STORE_QUEUE_FULL, /* the key has no cell and gets none, so it cannot be waited for */
};

/*
 * Say that somebody waits for the key: from the exchange that does it on, everybody else is denied, and the cell is not
 * forgotten. A key without a cell gets one. For logs and permits it is done under their record's lock.
 */
enum store_queued store_queue(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now);

/* Nobody waits any more. Also where the key was converted since; a key without a cell: nothing. */
void store_unqueue(struct store *store, const struct shape *shape, uint64_t hash);

/*
 * When a request of `cost` behind others of `ahead` in all would be let through if each went at its instant and nobody gave
 * back: exact for costs of one, else never later than it turns out. WEIR_NO_TIME: never. Permits may return sooner. Writes
 * nothing. False: the caller's set is old.
 */
bool store_foresee(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t ahead,
                   uint64_t cost, weir_ns *out);

/* ---- Permits (store/permit.c) ------------------------------------------------------------------------------------- */

/* One permit: which key's, where in the pool, and its fence, which no other permit has. */
struct store_permit {
    uint64_t hash, fence;
    uint32_t place;
};

/* Hold it until now + hold of the shape. WEIR_NO_TIME: it is lost. */
weir_ns store_permit_renew(struct store *store, const struct shape *shape, const struct store_permit *permit,
                           weir_ns now);

/* Whether it is held; writes nothing. */
bool store_permit_is_held(struct store *store, const struct shape *shape, const struct store_permit *permit,
                          weir_ns now);

/* Whether it was held until now. */
bool store_permit_release(struct store *store, const struct shape *shape, const struct store_permit *permit,
                          weir_ns now);

/* Give back what a store_take() that answered `taken` charged (strictly, shape_undo), also where the key was converted
   since. A key that is gone by now keeps nothing back. */
void store_undo(struct store *store, const struct shape *shape, uint64_t hash, const struct store_answer *taken,
                weir_ns now, uint64_t cost);

/* shape_charge() on the key's cell, or on its overflow cell when it has none and gets none. *out->word is unused. */
bool store_charge(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t amount,
                  struct settled *out);

/* shape_refund() on the key's cell; a key without one gets nothing back, because it is whole. For logs the newest
   `amount` stamps not later than charged_at go. */
bool store_refund(struct store *store, const struct shape *shape, uint64_t hash, weir_ns charged_at,
                  weir_ns now, uint64_t amount, struct settled *out);

/* Forget the key at once: its cell becomes EMPTY. */
bool store_reset(struct store *store, const struct shape *shape, uint64_t hash);

/* ---- Remembering once ------------------------------------------------------------------------------------------ */

/*
 * A key of its own kind, in the same table: whether something was done already. Used for retries (was this request
 * allowed?) and reservations (was this one settled?). Bounded like every key: a forgotten one means "not done".
 */
enum store_memory {
    STORE_NEW,     /* nobody has: the caller holds it, and must call store_recall_end() */
    STORE_PENDING, /* somebody holds it now */
    STORE_KNOWN,   /* it was done */
    STORE_FULL,    /* no room to remember */
};

/* Hold `hash` until `hold_until`, unless it is held or known at `now`. *nonce names the hold. FULL also when the key may
   have been forgotten since `hold_until`: `now` is that old, or beyond the horizon. */
enum store_memory store_recall_begin(struct store *store, uint64_t hash, weir_ns now, weir_ns hold_until,
                                     uint32_t *nonce);

/* Done: known until `until`, rounded up to a millisecond. Not done (until 0), or over by `now`: forgotten. A hold that was
   taken over changes nothing. */
void store_recall_end(struct store *store, uint64_t hash, uint32_t nonce, weir_ns now, weir_ns until);

/* Whether it is known at `now`; writes nothing. */
bool store_recall(struct store *store, uint64_t hash, weir_ns now);

/* ---- Changing shapes --------------------------------------------------------------------------------------------- */

/* A shape has a successor since `since`: from then on its cells are not forgotten for what its own rate gives back. For every
   shape of the old set that does not go on, within SHAPE_GRACE_NS of the set that follows. */
void store_shape_over(struct store *store, const struct shape *shape, weir_ns since);

/* Convert one key's cell, if it has one of an earlier generation of this lineage. Only while nobody decides under the
   old set. */
void store_convert(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now);

/*
 * Walk the table once: cells of a number whose successor is given are converted to it, and become EMPTY where `is_gone`
 * says so. Arrays by number, WEIR_LIMITS_MAX + 1 long. Only while nobody decides under the old set.
 */
void store_succeed(struct store *store, const struct shape *const *successor, const bool *is_gone, weir_ns now);

/* What overflowing keys have used goes on under the new shape, of the same lineage; before that shape is in force. */
void store_succeed_overflow(struct store *store, const struct shape *old, const struct shape *next);

/* Forget a shape: no cell names it any more, and no call is running that read one which did. Its number may be used
   again. */
void store_shape_remove(struct store *store, const struct shape *shape);

/* Bring a key's first candidate group into the cache. */
void store_prefetch(const struct store *store, uint64_t hash);

/* As weir_sweep() and weir_stats(). */
void store_sweep(struct store *store, weir_ns now, size_t groups);
void store_stats(struct store *store, weir_ns now, struct weir_stats *out);
uint64_t store_overflows(const struct store *store, const struct shape *shape);

#endif
