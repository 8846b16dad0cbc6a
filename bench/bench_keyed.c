// SPDX-License-Identifier: Apache-2.0
/*
 * bench_keyed.c - what weir_check() costs beside the bare loop of floor.h: one hot key, and a million random ones.
 *
 * The caller's clock is a counter, as it is for a server that reads the clock once per batch.
 */
#include <stdio.h>

#include "floor.h"
#include "measure.h"
#include "weir.h"

#define KEYS ((size_t)1000000)
#define BATCH 16

/* The million: 16 to 24 bytes each, in the order in which they are asked for. */
struct key {
    char bytes[24];
    uint64_t len;
};

struct place {
    struct weir *weir;
    weir_limit_id limit;
    weir_ns now;
    weir_ns step;
    struct floor_table table;
    struct floor_cell *hot;
    const struct key *keys;
    size_t next;
};

static const char hot_key[16] = "user:0123456789a";

static uint64_t hot(void *context, uint64_t count)
{
    struct place *place = context;
    struct weir_decision decision;
    uint64_t passed = 0;
    for (uint64_t i = 0; i < count; i++) {
        place->now += place->step;
        if (weir_check(place->weir, place->limit, hot_key, sizeof hot_key, 1, place->now, &decision) == 0)
            passed += decision.outcome == WEIR_ALLOW;
    }
    return passed;
}

static uint64_t bare_hot(void *context, uint64_t count)
{
    struct place *place = context;
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t hash = floor_hash(&place->table, hot_key, sizeof hot_key);
        struct floor_cell *cell = floor_scan(floor_group(&place->table, hash), hash & FLOOR_TAG_MASK);
        if (cell != NULL) {
            floor_exchange(cell);
            found += 1;
        }
    }
    return found;
}

static uint64_t bare_look(void *context, uint64_t count)
{
    struct place *place = context;
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t hash = floor_hash(&place->table, hot_key, sizeof hot_key);
        struct floor_cell *cell = floor_scan(floor_group(&place->table, hash), hash & FLOOR_TAG_MASK);
        if (cell != NULL)
            found += __atomic_load_n(&cell->state, __ATOMIC_RELAXED) > i;
    }
    return found;
}

static const struct key *next_key(struct place *place)
{
    const struct key *key = &place->keys[place->next];
    place->next = place->next + 1 == KEYS ? 0 : place->next + 1;
    return key;
}

static uint64_t random_keys(void *context, uint64_t count)
{
    struct place *place = context;
    struct weir_decision decision;
    uint64_t passed = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct key *key = next_key(place);
        place->now += place->step;
        if (weir_check(place->weir, place->limit, key->bytes, key->len, 1, place->now, &decision) == 0)
            passed += decision.outcome == WEIR_ALLOW;
    }
    return passed;
}

static uint64_t random_batches(void *context, uint64_t count)
{
    struct place *place = context;
    struct weir_decision decisions[BATCH];
    struct weir_ask asks[BATCH];
    uint64_t passed = 0;
    for (uint64_t i = 0; i < count; i += BATCH) {
        place->now += BATCH * place->step;
        for (int k = 0; k < BATCH; k++) {
            const struct key *key = next_key(place);
            asks[k] = (struct weir_ask){ place->limit, key->bytes, key->len, 1 };
        }
        if (weir_check_batch(place->weir, asks, BATCH, place->now, decisions) == 0)
            for (int k = 0; k < BATCH; k++)
                passed += decisions[k].outcome == WEIR_ALLOW;
    }
    return passed;
}

/* Hash, touch one random group, exchange one of its cells: no search, since a floor needs none. */
static uint64_t bare_random(void *context, uint64_t count)
{
    struct place *place = context;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct key *key = next_key(place);
        uint64_t hash = floor_hash(&place->table, key->bytes, key->len);
        struct floor_cell *cell = &floor_group(&place->table, hash)->cells[hash & 7];
        floor_exchange(cell);
        sum += hash;
    }
    return sum;
}

static bool place_init(struct place *place, size_t keys, unsigned group_bits, const struct weir_limit *limit)
{
    if (weir_new(&place->weir, &(struct weir_options){ .keys = keys }) != 0
        || weir_limit_add(place->weir, limit, &place->limit) != 0)
        return false;
    place->now = WEIR_SECOND;
    return floor_table_init(&place->table, group_bits);
}

static bool bench_hot(void)
{
    static struct place place;
    static const struct weir_limit limit = { .name = "per-user",
                                             .rate = { 1000000, WEIR_SECOND },
                                             .burst = 100 };
    if (!place_init(&place, 65536, 14, &limit))
        return false;
    place.hot = floor_place(&place.table, floor_hash(&place.table, hot_key, sizeof hot_key));

    place.step = WEIR_SECOND / 1000000;
    measure_row(&(struct row){ "keyed, one hot key: allow / hash, scan, exchange",
                               1.5,
                               { "weir_check", hot, &place },
                               { "bare", bare_hot, &place },
                               500000 });
    place.step = 0;
    (void)hot(&place, 1000); /* spend the burst: from here on all are refused */
    measure_row(&(struct row){ "keyed, one hot key: deny / hash, scan",
                               1.3,
                               { "weir_check", hot, &place },
                               { "bare", bare_look, &place },
                               500000 });
    weir_free(place.weir);
    free(place.table.groups);
    return true;
}

static struct key *random_key_list(uint64_t seed)
{
    struct key *keys = calloc(KEYS, sizeof *keys);
    if (keys == NULL)
        return NULL;
    for (size_t i = 0; i < KEYS; i++) {
        uint64_t words[3] = { measure_random(&seed), measure_random(&seed), measure_random(&seed) };
        memcpy(keys[i].bytes, words, sizeof words);
        keys[i].len = 16 + measure_random(&seed) % 9;
    }
    return keys;
}

static bool bench_million(void)
{
    static struct place place, batched;
    /* Each key comes again once a second and passes; it stays live between, by its level and the grace. */
    static const struct weir_limit limit = { .name = "per-user", .rate = { 4, WEIR_SECOND }, .burst = 10 };
    struct key *keys = random_key_list(20261130);
    if (keys == NULL || !place_init(&place, KEYS, 18, &limit))
        return false;
    place.keys = keys;
    place.step = WEIR_SECOND / KEYS;
    (void)random_keys(&place, KEYS); /* place them all */
    batched = place;

    measure_row(&(struct row){ "a million random keys / hash, one group, one exchange",
                               1.5,
                               { "weir_check", random_keys, &place },
                               { "bare", bare_random, &place },
                               200000 });
    /* Both sides share one table and one clock: the later stamp of the two goes on. */
    batched.now = place.now + WEIR_SECOND;
    place.now = batched.now;
    measure_row(&(struct row){ "a million random keys: batches of 16 / single calls",
                               0.5,
                               { "weir_check_batch", random_batches, &batched },
                               { "weir_check", random_keys, &place },
                               200000 });

    struct weir_stats stats;
    weir_stats(place.weir, place.now, &stats);
    fprintf(stderr, "a million keys: %llu cells, %llu live, %llu overflows\n", (unsigned long long)stats.cells,
            (unsigned long long)stats.cells_live, (unsigned long long)stats.overflows);
    weir_free(place.weir);
    free(place.table.groups);
    free(keys);
    return true;
}

int main(void)
{
    return bench_hot() && bench_million() ? 0 : 1;
}
