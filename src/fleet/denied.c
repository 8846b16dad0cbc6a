// SPDX-License-Identifier: Apache-2.0
/*
 * denied.c - the table: sets of four entries, each under the lock of its shard.
 *
 * A dropped key leaves a mark in its place: an answer that was asked for before the drop may still be on its way, on another
 * connection, and must not be learned. The mark lasts as long as a refusal would be trusted, which is far beyond any deadline;
 * evicted earlier it lets such an answer in, which is then wrong for DENIED_TRUST_NS at most.
 */
#include "fleet/denied.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/siphash.h"

#define WAYS 4
#define SETS (DENIED_ENTRIES / WAYS)
#define SHARDS 64

struct entry {
    uint64_t hash;
    weir_ns until;   /* 0: none */
    weir_ns sent_at; /* a mark: when it was dropped */
    uint64_t cost;   /* a mark: UINT64_MAX */
    struct denied_answer answer;
    uint32_t generation, set;
};
static_assert(sizeof(struct entry) == 64, "a cache line");

struct denied {
    uint8_t secret[16];
    _Atomic uint32_t generation; /* relaxed: whoever changes the contract also quiesces the workers */
    pthread_mutex_t locks[SHARDS];
    struct entry sets[SETS][WAYS];
};

int denied_new(struct denied **out, const uint8_t secret[16])
{
    struct denied *denied = calloc(1, sizeof *denied);
    if (denied == NULL)
        return WEIR_ERR_MEMORY;
    memcpy(denied->secret, secret, sizeof denied->secret);
    for (size_t i = 0; i < SHARDS; i++)
        (void)pthread_mutex_init(&denied->locks[i], NULL); /* with default attributes it does not fail */
    *out = denied;
    return 0;
}

void denied_free(struct denied *denied)
{
    if (denied == NULL)
        return;
    for (size_t i = 0; i < SHARDS; i++)
        (void)pthread_mutex_destroy(&denied->locks[i]);
    free(denied);
}

void denied_changed(struct denied *denied)
{
    (void)atomic_fetch_add_explicit(&denied->generation, 1, memory_order_relaxed);
}

uint32_t denied_generation(const struct denied *denied)
{
    return atomic_load_explicit(&denied->generation, memory_order_relaxed);
}

bool denied_may_keep(const struct weir_limit *limit)
{
    return limit->refused == WEIR_REFUSAL_FREE && limit->retries_free_within == 0
           && limit->algorithm != WEIR_CONCURRENCY;
}

uint64_t denied_hash(const struct denied *denied, struct slice name, const struct weir_shared_size *size)
{
    const uint64_t numbers[] = { size->tick, size->capacity, size->debt, size->count, size->period };
    struct siphash state = siphash_begin(denied->secret);
    siphash_absorb(&state, numbers, sizeof numbers);
    return siphash_end(state, name.at, name.len);
}

static struct entry *lock_set(struct denied *denied, uint64_t hash)
{
    size_t set = hash % SETS;
    (void)pthread_mutex_lock(&denied->locks[set % SHARDS]);
    return denied->sets[set];
}

static void unlock_set(struct denied *denied, uint64_t hash)
{
    (void)pthread_mutex_unlock(&denied->locks[hash % SETS % SHARDS]);
}

/* The entry of the hash in its set, or NULL. */
static struct entry *find(struct entry *set, uint64_t hash)
{
    for (size_t i = 0; i < WAYS; i++)
        if (set[i].hash == hash && set[i].until > 0)
            return &set[i];
    return NULL;
}

static struct entry *claim(struct entry *set, uint64_t hash)
{
    struct entry *found = find(set, hash);
    if (found != NULL)
        return found;
    found = &set[0];
    for (size_t i = 1; i < WAYS; i++)
        if (set[i].until < found->until)
            found = &set[i];
    *found = (struct entry){ .hash = hash };
    return found;
}

/* Of a bucket the next token is there so long before the last one that is needed. Rounded to the early side, by a tick. */
static weir_ns until_next_token(const struct weir_shared_size *size, uint64_t tokens_behind,
                                weir_ns retry_after)
{
    if (size->count == 0)
        return 0;
    weir_u128_ ticks = ((weir_u128_)tokens_behind * size->period + size->count - 1) / size->count + 1;
    weir_u128_ ns = ticks * size->tick;
    return ns < retry_after ? retry_after - (weir_ns)ns : 0;
}

weir_ns denied_holds(const struct weir_limit *limit, const struct weir_shared_size *size, uint64_t cost,
                     uint64_t remaining, weir_ns retry_after)
{
    if (remaining >= cost)
        return 0;
    if (remaining + 1 == cost) /* one more, and it would pass */
        return retry_after;
    switch (limit->algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return until_next_token(size, cost - 1 - remaining, retry_after);
    case WEIR_FIXED_WINDOW:
        return retry_after; /* nothing comes back before the window ends */
    default:
        return 0;
    }
}

bool denied_find(struct denied *denied, uint64_t hash, uint32_t set, uint64_t cost, weir_ns now,
                 struct denied_answer *out, bool *is_there)
{
    struct entry seen = { .until = 0 };
    struct entry *entry = find(lock_set(denied, hash), hash);
    if (entry != NULL)
        seen = *entry;
    unlock_set(denied, hash);
    *is_there = now >= seen.sent_at && now < seen.until && seen.cost != UINT64_MAX;
    if (!*is_there || seen.generation != denied_generation(denied) || cost != seen.cost || set != seen.set)
        return false;
    *out = seen.answer;
    return true;
}

void denied_learn(struct denied *denied, uint64_t hash, const struct denied_seen *seen)
{
    weir_ns trusted = seen->holds < DENIED_TRUST_NS ? seen->holds : DENIED_TRUST_NS;
    if (seen->generation != denied_generation(denied) || seen->cost == UINT64_MAX || trusted == 0)
        return;
    struct entry *entry = claim(lock_set(denied, hash), hash);
    /* An answer that was asked for before the key was dropped, or before a newer answer, says nothing. */
    if (entry->until <= seen->sent_at || seen->sent_at > entry->sent_at)
        *entry = (struct entry){ hash,         seen->sent_at + trusted, seen->sent_at, seen->cost,
                                 seen->answer, seen->generation,        seen->set };
    unlock_set(denied, hash);
}

void denied_drop(struct denied *denied, uint64_t hash, weir_ns now)
{
    struct entry *entry = claim(lock_set(denied, hash), hash);
    *entry = (struct entry){ .hash = hash,
                             .until = now + DENIED_TRUST_NS,
                             .sent_at = now,
                             .cost = UINT64_MAX,
                             .generation = denied_generation(denied) };
    unlock_set(denied, hash);
}
