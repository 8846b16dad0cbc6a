// SPDX-License-Identifier: Apache-2.0
/*
 * holdings.h - every portion that this process holds: by key, for all its workers.
 *
 * Idea: one hand for the process, not one for each worker: a key that is hot is hot at all of them, and what one has left another
 * can spend. A key comes in when a second request for it found nothing in hand within half of its lease, so keys that are seen once
 * cost what a strict decision costs, and no memory. It goes when it holds nothing and nobody asks.
 *
 * Who sends is whoever is there: a worker whose request left the hand low claims the message and sends it; whatever is due without
 * a request (a portion that ends, an idle key) is collected by the workers on a beat, each of them a stripe of the shards. There
 * is one message of a key under way in the process.
 *
 * Keys are compared by a keyed 64-bit hash, as in the local table (G4). Memory is bounded: HOLDINGS_MAX keys and HOLDINGS_BYTES_MAX
 * bytes of all that is kept of them; a key that finds no room is decided strictly.
 *
 * Words:     holdings under the lock of their shard, one of HOLDINGS_SHARDS; the sequence, the generation, how many there are and
 *            whether all is to go back are atomic, and order nothing: what they guard is read under the locks.
 * Progress:  blocking, for a few instructions.
 * Reuse:     an entry with a claimed message, or with pending tokens, stays where it is.
 */
#ifndef WEIR_FLEET_HOLDINGS_H
#define WEIR_FLEET_HOLDINGS_H

#include "fleet/lease.h"

#define HOLDINGS_MAX 65536
#define HOLDINGS_BYTES_MAX ((size_t)64 << 20)
#define HOLDINGS_SHARDS 64

struct holdings;

/* 0, WEIR_ERR_MEMORY. `secret` is copied. */
int holdings_new(struct holdings **out, const uint8_t secret[16]);
void holdings_free(struct holdings *holdings);

/* Which key, of which limit (by name, so it is the same after a reload). */
uint64_t holdings_hash(const struct holdings *holdings, const char *limit, const unsigned char *key,
                       size_t len);

/* What one request has of one key, until it is kept or undone. */
struct hand {
    uint64_t hash;
    uint64_t taken;
    uint32_t life;
    uint64_t have;   /* left in hand behind it */
    weir_ns ends_at; /* as holding.ends_at */
    bool is_known;   /* there is a holding of this key */
    bool is_urgent;  /* speak now: holdings_claim() */
    bool is_awaited; /* more was wanted of the store, and it has not answered yet */
    bool is_kept;    /* by holdings_spend(): nothing is to be kept or undone */
};

/* Take up to `cost` out of the hand: all, or what is there where `is_partial`; else nothing. `lease` and `size` are those in
   force, and from now on the messages'. */
void holdings_take(struct holdings *holdings, uint64_t hash, const struct weir_lease *lease,
                   const struct weir_shared_size *size, uint64_t cost, bool is_partial, weir_ns now,
                   struct hand *out);
/* The same in part or in full, and what is there in full is kept at once: of who cannot be refused elsewhere. */
void holdings_spend(struct holdings *holdings, uint64_t hash, const struct weir_lease *lease,
                    const struct weir_shared_size *size, uint64_t cost, weir_ns now, struct hand *out);
/* Once for each hand; of a portion that ended meanwhile it changes nothing. */
void holdings_keep(struct holdings *holdings, const struct hand *hand);
void holdings_undo(struct holdings *holdings, const struct hand *hand);
/* What is in hand of a key. Takes nothing, and counts as no demand. */
uint64_t holdings_look(struct holdings *holdings, uint64_t hash, weir_ns now);

/* A key as messages need it; all of it is copied. */
struct holdings_key {
    uint64_t hash;
    struct slice name; /* name.h */
    const struct weir_limit *limit;
    struct weir_shared_size size;
    struct weir_lease lease;
};
/* Behind holdings_take(): a request for `cost` found too little in hand. Remember the key, or that it was asked for again. Gives
   whether a message is to be claimed now. Where there is no room: false. */
bool holdings_miss(struct holdings *holdings, const struct holdings_key *key, uint64_t cost, weir_ns now);

/* A claimed message. message.name and .limit are the entry's, and stay until it is answered, unanswered or dropped. */
struct holdings_message {
    uint64_t hash;
    void *entry;
    struct script_lease message;
};
/* Of one key: due by now, or urgent. False: nothing to say, or somebody else has claimed it. */
bool holdings_claim(struct holdings *holdings, uint64_t hash, weir_ns now, struct holdings_message *out);
/* Of what is due by now in the shards of one stripe of `stripes`, at most `max`; gives how many. Goes on where it stopped.
   Forgets idle keys on the way. */
size_t holdings_collect(struct holdings *holdings, unsigned stripe, unsigned stripes, weir_ns now,
                        struct holdings_message *out, size_t max);

void holdings_answer(struct holdings *holdings, const struct holdings_message *message,
                     const struct script_lease_answer *answer, weir_ns now);
void holdings_unanswered(struct holdings *holdings, const struct holdings_message *message, weir_ns pause,
                         weir_ns now);

/* Another contract is in force. What is in hand of a key is spent again when holdings_miss() has brought the key as it is now; of
   one that is not asked for any more it is given back. */
void holdings_changed(struct holdings *holdings);

/* Give back everything from now on: take() finds nothing, and what is collected hands back. */
void holdings_hand_back(struct holdings *holdings);

/* Keys in the table, without a lock: 0 means that no beat is needed. */
size_t holdings_count(const struct holdings *holdings);

struct holdings_counts {
    uint64_t granted, returned, spent, lost; /* since the start */
    uint64_t held, keys;                     /* now: tokens in hand, keys of which there are any */
    uint64_t untold;                         /* spent or ended, and the store has not been told */
    size_t under_way;                        /* messages not answered yet */
};
/* Those since the start alone; the others are 0. Cheap. */
void holdings_totals(struct holdings *holdings, struct holdings_counts *out);
/* Walks the table. */
void holdings_sum(struct holdings *holdings, weir_ns now, struct holdings_counts *out);

#endif
