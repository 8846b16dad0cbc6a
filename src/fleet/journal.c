// SPDX-License-Identifier: Apache-2.0
/*
 * journal.c - a chained table of a fixed number of chains, its entries also in a list by age.
 *
 * Draining is the local bucket's arithmetic in whole numbers: count tokens in period ticks, the rest carried on.
 */
#include "fleet/journal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/siphash.h"

#define CHAINS 16384

struct journal {
    pthread_mutex_t lock;
    _Atomic size_t count; /* relaxed: a hint for who asks without the lock */
    size_t bytes;
    uint8_t secret[16];
    struct journal_entry *oldest, *newest;
    struct journal_entry *chains[CHAINS];
};

int journal_new(struct journal **out, const uint8_t secret[16])
{
    struct journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL)
        return WEIR_ERR_MEMORY;
    if (pthread_mutex_init(&journal->lock, NULL) != 0) {
        free(journal);
        return WEIR_ERR_MEMORY;
    }
    memcpy(journal->secret, secret, sizeof journal->secret);
    *out = journal;
    return 0;
}

void journal_free(struct journal *journal)
{
    if (journal == NULL)
        return;
    for (struct journal_entry *entry = journal->oldest, *next; entry != NULL; entry = next) {
        next = entry->newer;
        free(entry);
    }
    (void)pthread_mutex_destroy(&journal->lock);
    free(journal);
}

size_t journal_count(const struct journal *journal)
{
    return atomic_load_explicit(&journal->count, memory_order_relaxed);
}

void journal_entry_free(struct journal_entry *entry)
{
    free(entry);
}

/* ---- What is left of an entry --------------------------------------------------------------------------------- */

static bool is_bucket(enum weir_algorithm algorithm)
{
    return algorithm == WEIR_TOKEN_BUCKET || algorithm == WEIR_LEAKY_BUCKET;
}

/* Until when a store counts what is spent now. By our clock from then on: a wall clock that is set changes nothing of it. */
static weir_ns until(const struct journal_spent *spent, weir_ns now, uint64_t wall_ns)
{
    weir_u128_ length = (weir_u128_)spent->size.period * spent->size.tick;
    weir_u128_ left = length;
    if (length == 0)
        return WEIR_NO_TIME; /* a calendar's */
    if (spent->algorithm == WEIR_FIXED_WINDOW && !spent->is_first_request)
        left = length - wall_ns % length;
    else if (spent->algorithm
             == WEIR_SLIDING_WINDOW) /* what is of the window before has a weight to the end of this one */
        left = 2 * length - wall_ns % length;
    return left < WEIR_NO_TIME - now ? now + (weir_ns)left : WEIR_NO_TIME;
}

static void drain_bucket(struct journal_entry *entry, weir_ns now)
{
    const struct weir_shared_size *size = &entry->size;
    if (now <= entry->at)
        return;
    uint64_t ticks = (now - entry->at) / size->tick;
    entry->at += ticks * size->tick;
    if (size->count == 0)
        return;
    weir_u128_ parts = (weir_u128_)ticks * size->count + entry->carry;
    weir_u128_ tokens = parts / size->period;
    entry->carry = (uint64_t)(parts % size->period);
    entry->cost -= tokens < entry->cost ? (uint64_t)tokens : entry->cost;
}

static void drain(struct journal_entry *entry, weir_ns now)
{
    if (is_bucket(entry->algorithm))
        drain_bucket(entry, now);
    else if (now >= entry->until)
        entry->cost = 0;
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static bool same_size(const struct weir_shared_size *x, const struct weir_shared_size *y)
{
    return x->tick == y->tick && x->capacity == y->capacity && x->debt == y->debt && x->count == y->count
           && x->period == y->period;
}

static struct journal_entry *find(const struct journal *journal, uint64_t hash, struct slice name)
{
    struct journal_entry *entry = journal->chains[hash % CHAINS];
    while (entry != NULL
           && !(entry->hash == hash && slice_equals((struct slice){ entry->name, entry->name_len }, name)))
        entry = entry->next;
    return entry;
}

static bool has_room(const struct journal *journal, size_t name_len)
{
    return journal_count(journal) < JOURNAL_ENTRIES && name_len <= JOURNAL_BYTES_MAX - journal->bytes;
}

static void link_newest(struct journal *journal, struct journal_entry *entry)
{
    struct journal_entry **chain = &journal->chains[entry->hash % CHAINS];
    entry->next = *chain;
    *chain = entry;
    entry->newer = NULL;
    if (journal->newest != NULL)
        journal->newest->newer = entry;
    else
        journal->oldest = entry;
    journal->newest = entry;
    journal->bytes += entry->name_len;
    atomic_store_explicit(&journal->count, journal_count(journal) + 1, memory_order_relaxed);
}

static struct journal_entry *unlink_oldest(struct journal *journal)
{
    struct journal_entry *entry = journal->oldest;
    if (entry == NULL)
        return NULL;
    struct journal_entry **at = &journal->chains[entry->hash % CHAINS];
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    journal->oldest = entry->newer;
    if (journal->oldest == NULL)
        journal->newest = NULL;
    journal->bytes -= entry->name_len;
    atomic_store_explicit(&journal->count, journal_count(journal) - 1, memory_order_relaxed);
    return entry;
}

/* The key has another size now: what it counts goes on. What had drained of the next token is dropped, to the safe side. */
static void resize(struct journal_entry *entry, const struct journal_spent *spent, weir_ns ends)
{
    entry->limit = spent->limit;
    entry->algorithm = spent->algorithm;
    if (same_size(&entry->size, &spent->size))
        return;
    entry->size = spent->size;
    entry->carry = 0;
    entry->until = ends;
}

/* `ends`: of what was spent. */
static void add(struct journal_entry *entry, const struct journal_spent *spent, weir_ns now, weir_ns ends)
{
    drain(entry, now);
    resize(entry, spent, ends);
    if (entry->cost == 0 || ends > entry->until)
        entry->until = ends;
    if (entry->cost == 0) { /* an empty bucket has nothing to drain */
        entry->carry = 0;
        entry->at = now;
    }
    /* As a settlement: what is beyond capacity and debt is charged to nobody. Both are below 2^52. */
    uint64_t most = spent->size.capacity + spent->size.debt;
    entry->cost =
        spent->cost < most - (entry->cost < most ? entry->cost : most) ? entry->cost + spent->cost : most;
}

static struct journal_entry *make(const struct journal *journal, const struct journal_spent *spent,
                                  uint64_t hash)
{
    if (!has_room(journal, spent->name.len))
        return NULL;
    struct journal_entry *entry = calloc(1, sizeof *entry + spent->name.len);
    if (entry == NULL)
        return NULL;
    memcpy(entry->name, spent->name.at, spent->name.len);
    entry->name_len = spent->name.len;
    entry->hash = hash;
    entry->limit = spent->limit;
    entry->algorithm = spent->algorithm;
    entry->size = spent->size;
    return entry;
}

bool journal_spend(struct journal *journal, const struct journal_spent *spent, weir_ns now, uint64_t wall_ns)
{
    uint64_t hash = siphash_end(siphash_begin(journal->secret), spent->name.at, spent->name.len);
    (void)pthread_mutex_lock(&journal->lock);
    struct journal_entry *entry = find(journal, hash, spent->name);
    if (entry == NULL) {
        entry = make(journal, spent, hash);
        if (entry != NULL)
            link_newest(journal, entry);
    }
    if (entry != NULL)
        add(entry, spent, now, until(spent, now, wall_ns));
    (void)pthread_mutex_unlock(&journal->lock);
    return entry != NULL;
}

struct journal_entry *journal_take(struct journal *journal, weir_ns now)
{
    struct journal_entry *entry;
    (void)pthread_mutex_lock(&journal->lock);
    while ((entry = unlink_oldest(journal)) != NULL) {
        drain(entry, now);
        if (entry->cost > 0)
            break;
        free(entry);
    }
    (void)pthread_mutex_unlock(&journal->lock);
    return entry;
}

bool journal_put_back(struct journal *journal, struct journal_entry *entry, weir_ns now)
{
    const struct slice name = { entry->name, entry->name_len };
    (void)pthread_mutex_lock(&journal->lock);
    struct journal_entry *there = find(journal, entry->hash, name);
    bool is_new = there == NULL && has_room(journal, entry->name_len);
    if (is_new) {
        link_newest(journal, entry);
    } else if (there != NULL) { /* spent meanwhile, perhaps under another size: that is the newer one */
        drain(entry, now);
        drain(there, now);
        const struct journal_spent spent = { name,        there->limit, there->algorithm,
                                             there->size, entry->cost,  false };
        add(there, &spent, now, same_size(&entry->size, &there->size) ? entry->until : there->until);
    }
    (void)pthread_mutex_unlock(&journal->lock);
    if (!is_new)
        free(entry);
    return is_new || there != NULL;
}

uint64_t journal_tokens(struct journal *journal)
{
    uint64_t tokens = 0;
    (void)pthread_mutex_lock(&journal->lock);
    for (const struct journal_entry *entry = journal->oldest; entry != NULL; entry = entry->newer)
        if (__builtin_add_overflow(tokens, entry->cost, &tokens))
            tokens = UINT64_MAX;
    (void)pthread_mutex_unlock(&journal->lock);
    return tokens;
}
