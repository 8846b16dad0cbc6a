// SPDX-License-Identifier: Apache-2.0
/*
 * memory.c - keys that say whether something was done, and who is doing it now.
 *
 * Idea: a memory is a cell like every other, under a number of the store's own. So at most one thread holds a key for
 * the reason that at most one FINAL cell is a key's (P21), and it holds it from the exchange that wrote its nonce (P31).
 * A hold has an end: a holder that died leaves one that anybody may take over once it ran out, and the late end of the
 * first holder finds another nonce and changes nothing.
 *
 *     [0][status:2][expiry_ms:40][nonce:21]
 *
 * Forgotten is "not done". A thread whose stamp is so old that its key may have been forgotten since (floor_ns, place.c)
 * begins at that floor; a hold that would be over there is refused, so what is settled until `hold_until` is not
 * settled twice by being forgotten.
 *
 * Words:    cells.
 * Ordering, progress, reuse: as table.c. Ending is lock-free, and gives up as soon as the nonce is gone.
 */
#include "store/table.h"

#define NONCE_BITS 21
#define EXPIRY_BITS 40
#define NONCE_MASK ((UINT64_C(1) << NONCE_BITS) - 1)
#define EXPIRY_MASK ((UINT64_C(1) << EXPIRY_BITS) - 1)

_Static_assert(WEIR_HORIZON / WEIR_MILLISECOND < EXPIRY_MASK, "an expiry must fit up to the horizon");

/* Never 0, so that no memory looks like a word that says nothing. */
enum status { STATUS_PENDING = 1, STATUS_KNOWN = 2 };

/* Rounded up to a millisecond: kept at least as long as was asked. */
static uint64_t word_of(enum status status, weir_ns until, uint32_t nonce)
{
    weir_ns end = until < WEIR_HORIZON ? until : WEIR_HORIZON;
    uint64_t ms = (end + WEIR_MILLISECOND - 1) / WEIR_MILLISECOND;
    return (uint64_t)status << (EXPIRY_BITS + NONCE_BITS) | ms << NONCE_BITS | nonce;
}

static enum status status_of(uint64_t word)
{
    return (enum status)(word >> (EXPIRY_BITS + NONCE_BITS));
}

static weir_ns expiry_of(uint64_t word)
{
    return (word >> NONCE_BITS & EXPIRY_MASK) * WEIR_MILLISECOND;
}

bool memory_is_dead(uint64_t word, weir_ns now)
{
    return expiry_of(word) + SHAPE_GRACE_NS <= now;
}

/* The verb of store_recall_begin(): take the key if it is free at `now`. */
struct step memory_hold(struct ask *ask, uint64_t word, weir_ns now)
{
    if (now < expiry_of(word)) {
        ask->memory = status_of(word) == STATUS_KNOWN ? STORE_KNOWN : STORE_PENDING;
        return (struct step){ WEIR_DENY, word, now };
    }
    if (ask->hold_until <= now) {
        ask->memory = STORE_FULL;
        return (struct step){ WEIR_DENY, word, now };
    }
    ask->memory = STORE_NEW;
    return (struct step){ WEIR_ALLOW, word_of(STATUS_PENDING, ask->hold_until, ask->nonce), now };
}

enum store_memory store_recall_begin(struct store *store, uint64_t hash, weir_ns now, weir_ns hold_until,
                                     uint32_t *nonce)
{
    struct store_answer answer;
    struct ask ask = ask_of(store, &store->memory_shape, hash, now, 1, &answer);
    if (now > WEIR_HORIZON)
        return STORE_FULL;
    ask.verb = ASK_HOLD;
    ask.hold_until = hold_until;
    ask.nonce = *nonce = (uint32_t)(__atomic_fetch_add(&store->nonce, 1, __ATOMIC_RELAXED) & NONCE_MASK);
    ask_slowly(&ask);
    return answer.outcome == WEIR_REFUSED ? STORE_FULL : ask.memory;
}

/* The memory's cell and its content, or NULL. */
static struct cell *find_memory(struct store *store, uint64_t hash, struct cell *seen)
{
    struct key key = key_of(&store->memory_shape, hash);
    struct look look;
    look_at(store, &key, &look);
    if (look.final == LOOK_NONE || look.seen[look.final].tag != key.word)
        return NULL;
    *seen = look.seen[look.final];
    return look_cell(&look, look.final);
}

void store_recall_end(struct store *store, uint64_t hash, uint32_t nonce, weir_ns now, weir_ns until)
{
    struct cell seen, *cell;
    while ((cell = find_memory(store, hash, &seen)) != NULL) {
        if (status_of(seen.state) != STATUS_PENDING || (seen.state & NONCE_MASK) != nonce)
            return;
        struct cell next = { seen.tag, word_of(STATUS_KNOWN, until, nonce) };
        if (until <= now)
            next = (struct cell){ 0, 0 };
        if (cell_exchange(cell, seen, next))
            return;
    }
}

bool store_recall(struct store *store, uint64_t hash, weir_ns now)
{
    struct cell seen;
    return find_memory(store, hash, &seen) != NULL && status_of(seen.state) == STATUS_KNOWN
           && now < expiry_of(seen.state);
}
