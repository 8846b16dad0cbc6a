// SPDX-License-Identifier: Apache-2.0
/*
 * store.h - where words live: one table of 16-byte cells for all keys of all limits, and the rings of sliding
 * logs.
 *
 * Reserved whole at the start; nothing here allocates, locks or makes a system call while deciding, but for the
 * rings, which have a lock word each. Stamps are ns since the limiter's origin. A key is its 64-bit hash under
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
    struct weir_quota new_keys; /* count 0: no bound */
};

/* One answer; instants are stamps. */
struct store_answer {
    enum weir_outcome outcome;
    enum weir_policy policy;
    enum weir_reason reason;
    weir_ns at;
    struct report report;
};

/* 0, or WEIR_ERR_MEMORY, _OPTION, _MACHINE. The allocator is kept by reference until store_free(). */
int store_new(struct store **out, const struct store_options *options, const struct weir_allocator *allocator);
void store_free(struct store *store);

/* Make a shape known under its number, which must be unused; the store borrows it until store_free(). A sliding log
   reserves the ring of its overflow cell. 0, or WEIR_ERR_LOG_MEMORY. Not while others decide. */
int store_shape_add(struct store *store, const struct shape *shape);

/* Take `cost` from the key, or answer why not. `now` may be any stamp; beyond the horizon is REFUSED, TIME. */
void store_take(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t cost,
                struct store_answer *out);

/* What store_take() would answer; writes nothing. */
void store_peek(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t cost,
                struct store_answer *out);

/* Give back what a store_take() that answered `taken` charged (strictly, shape_undo). A key that is gone by now keeps
   nothing back. */
void store_undo(struct store *store, const struct shape *shape, uint64_t hash, const struct store_answer *taken,
                weir_ns now, uint64_t cost);

/* Bring a key's first candidate group into the cache. */
void store_prefetch(const struct store *store, uint64_t hash);

/* As weir_sweep() and weir_stats(). */
void store_sweep(struct store *store, weir_ns now, size_t groups);
void store_stats(struct store *store, weir_ns now, struct weir_stats *out);
uint64_t store_overflows(const struct store *store, const struct shape *shape);

#endif
