// SPDX-License-Identifier: Apache-2.0
/*
 * record.h - who holds how much of one key until when: entries in a list ordered by expiry, and what they say.
 *
 * The oldest are dropped in front, and with one `hold` for all a new entry goes to the end, so everything but the answer to a
 * cost of several is a few steps. Every call here runs under the record's lock, or before anybody else can know the record.
 *
 * Words, ordering, progress, reuse: permit.c, which locks.
 */
#ifndef WEIR_STORE_RECORD_H
#define WEIR_STORE_RECORD_H

#include "store/table.h"

/* A switch for a mutant that test/threads must catch: seeing that there is room and taking it is one step. */
#ifndef PERMIT_TAKES_AT_ONCE
#define PERMIT_TAKES_AT_ONCE 1
#endif

struct entry {
    uint32_t next; /* the pool's while it is free */
    uint32_t previous, record;
    uint16_t cost;
    uint64_t fence; /* 0: free */
    weir_ns expires_at;
};

struct record {
    uint32_t first, last; /* entries, the one that expires first in front */
    uint32_t gen;         /* of its life, 31 bits; the cell says the same or no longer owns it */
    uint16_t lock;
    uint16_t held; /* cost of all entries: at_most bounds it to 16 bits */
    union {
        uint64_t hash; /* of its key */
        struct {       /* shared by overflowing keys: max(reserved, entries) are not available to others */
            uint32_t reserved, entries;
        };
    };
    uint64_t latest : 62; /* no acquire or renewal before this stamp */
    uint64_t is_shared : 1;
    uint64_t has_dropped : 1; /* an entry that had expired: `latest` must not be forgotten at once */
};

_Static_assert(sizeof(struct entry) == POOL_ITEM_BYTES && sizeof(struct record) == POOL_ITEM_BYTES,
               "64 bytes a permit, as weir_options.permits says");
_Static_assert(WEIR_AT_MOST_MAX <= UINT16_MAX, "cost and held have 16 bits");

static inline struct record *record_of(const struct store *store, uint32_t record)
{
    return pool_item(&store->records, record);
}

static inline struct entry *entry_of(const struct store *store, uint32_t entry)
{
    return pool_item(&store->permits, entry);
}

/* Make it hold nothing. */
void record_begin(struct record *record, bool is_shared);

/* A new permit, from an entry that nobody else has. Its fence: one step of the store's counter. */
uint64_t record_add(struct store *store, uint32_t record, uint32_t entry, uint64_t cost, weir_ns expires_at);

/* Hold an entry until another instant. */
void record_move(const struct store *store, struct record *record, uint32_t entry, weir_ns expires_at);

/* Give an entry back to the pool; and to others, unless the record's reservation needs it. */
void record_drop(struct store *store, struct record *record, uint32_t entry);
void record_drop_expired(struct store *store, struct record *record, weir_ns at);

/* What is held at an instant, expired entries left aside; it steps over those, which the next acquire drops. */
struct record_view {
    weir_ns at, last_at; /* last_at: when nothing of it is held any more */
    uint32_t first;      /* that has not expired, or POOL_NONE */
    uint64_t held;
};

/* At max(now, record->latest). NULL is a key without a record. */
struct record_view record_view(const struct store *store, const struct record *record, weir_ns now);

/* What an acquire of `cost` is answered, with the numbers before it. Reads an entry for each one that has to expire. */
enum weir_outcome record_answer(const struct store *store, const struct shape *shape,
                                const struct record_view *view, uint64_t cost, struct report *report);

/*
 * When an acquire of `cost` behind others of `ahead` in all would be given if each went at its instant, held until it expires
 * and nobody gave back: of at_most places the j-th in turn is free again one `hold` after it was last taken. WEIR_NO_TIME:
 * beyond the horizon.
 */
weir_ns record_foresee(const struct store *store, const struct shape *shape, const struct record_view *view,
                       uint64_t ahead, uint64_t cost);

static inline weir_ns record_within_horizon(weir_ns instant)
{
    return instant > WEIR_HORIZON ? WEIR_NO_TIME : instant;
}

#endif
