// SPDX-License-Identifier: Apache-2.0
/*
 * permits.h - random schedules of acquires, renewals, releases and undos on a few cells and a small pool.
 *
 * Counted is from the outside: what a caller was given and has not begun to give back is held (P28), and what may be held is
 * that, what is being given and what is being given back. A refusal is explained by what may have been held while it was
 * asked. With moving time a lease lasts from the instant that its answer names.
 */
#ifndef WEIR_TEST_PERMITS_H
#define WEIR_TEST_PERMITS_H

#include "threads/schedule.h"

#define PERMIT_KEYS 3
#define PERMIT_POOL 4
#define PERMIT_HOLDERS 3 /* permits in one fiber's hands */
#define LEASES_MAX 64

struct lease {
    unsigned key;
    weir_ns from, until;
    uint64_t cost;
};

static struct permit_run {
    struct kit kit;
    const struct shape *shape[3]; /* by at_most - 1 */
    const struct shape *now;
    struct random random;
    unsigned keys, ops_each;
    bool is_moving; /* permits are left to expire; else time stands still and all are given back */
    weir_ns clock;
    uint64_t held[PERMIT_KEYS], may_be_held[PERMIT_KEYS];
    struct {
        bool asks;
        unsigned key;
        uint64_t most; /* may have been held while it asks */
    } fibers[FIBERS_MAX];
    struct lease leases[LEASES_MAX];
    unsigned lease_count;
    const char *violation;
    uint64_t allowed, denied, full; /* what was covered */
} permits;

static uint64_t permit_hash(unsigned key)
{
    return hash_at(&permits.kit, key & 1, 2001 + key);
}

static void may_hold(unsigned key, uint64_t cost)
{
    permits.may_be_held[key] += cost;
    for (unsigned i = 0; i < FIBERS_MAX; i++)
        if (permits.fibers[i].asks && permits.fibers[i].key == key
            && permits.fibers[i].most < permits.may_be_held[key])
            permits.fibers[i].most = permits.may_be_held[key];
}

static weir_ns permit_stamp(void)
{
    if (!permits.is_moving)
        return permits.clock;
    permits.clock += random_below(&permits.random, 3) * S / 2;
    return permits.clock - random_below(&permits.random, 6) * S / 2;
}

/* What was given, or nothing. */
struct given {
    struct store_answer answer;
    unsigned key;
    uint64_t cost;
};

static bool acquire_some(unsigned fiber, struct given *given)
{
    uint64_t most = permits.now->capacity;
    given->key = (unsigned)random_below(&permits.random, permits.keys);
    given->cost = 1 + random_below(&permits.random, most);
    weir_ns stamp = permit_stamp();
    permits.fibers[fiber].asks = true;
    permits.fibers[fiber].key = given->key;
    permits.fibers[fiber].most = permits.may_be_held[given->key];
    uint64_t others = permits.may_be_held[given->key];
    may_hold(given->key, given->cost);
    permits.fibers[fiber].most = others;
    store_decide(permits.kit.store, permits.now, permit_hash(given->key), stamp, given->cost, STORE_ACQUIRE,
                 &given->answer);
    permits.fibers[fiber].asks = false;
    if (given->answer.outcome == WEIR_ALLOW) {
        permits.allowed++;
        permits.held[given->key] += given->cost;
        if (!permits.is_moving && permits.held[given->key] > most)
            permits.violation = "more than at_most are held";
        return true;
    }
    permits.may_be_held[given->key] -= given->cost;
    permits.denied += given->answer.outcome == WEIR_DENY;
    permits.full += given->answer.outcome == WEIR_REFUSED;
    /* Its own cost was counted in what others raised meanwhile: `most` is too large by that, never too small. */
    if (given->answer.outcome == WEIR_DENY && !permits.is_moving
        && permits.fibers[fiber].most + given->cost <= most)
        permits.violation = "a refusal that nothing explains";
    return false;
}

static void give_back_some(struct given *given)
{
    struct store_permit permit = { permit_hash(given->key), given->answer.fence, given->answer.permit };
    permits.held[given->key] -= given->cost;
    if (random_below(&permits.random, 3) == 0)
        store_undo(permits.kit.store, permits.now, permit.hash, &given->answer, permits.clock, given->cost);
    else if (!store_permit_release(permits.kit.store, permits.now, &permit, permits.clock))
        permits.violation = "a permit was lost";
    permits.may_be_held[given->key] -= given->cost;
    if (store_permit_release(permits.kit.store, permits.now, &permit, permits.clock))
        permits.violation = "a permit was given back twice";
}

/* In moving time a permit is left to expire, perhaps after a renewal. */
static void leave_some(const struct given *given)
{
    struct store_permit permit = { permit_hash(given->key), given->answer.fence, given->answer.permit };
    struct lease *lease = &permits.leases[permits.lease_count++];
    *lease = (struct lease){ given->key, given->answer.at, given->answer.at + S, given->cost };
    if (random_below(&permits.random, 3) != 0)
        return;
    weir_ns until = store_permit_renew(permits.kit.store, permits.now, &permit, given->answer.at + S / 2);
    lease->until = until != WEIR_NO_TIME ? until : lease->until;
}

static void permit_fiber(unsigned fiber)
{
    struct given given[PERMIT_HOLDERS];
    unsigned count = 0;
    for (unsigned i = 0; i < permits.ops_each; i++) {
        if (count < PERMIT_HOLDERS && acquire_some(fiber, &given[count]))
            count++;
        if (permits.is_moving && count > 0)
            leave_some(&given[--count]);
        else if (count > 0 && random_below(&permits.random, 2) == 0)
            give_back_some(&given[--count]);
        if (random_below(&permits.random, 8) == 0)
            store_sweep(permits.kit.store, permits.clock, 1);
    }
    while (count > 0)
        give_back_some(&given[--count]);
}

static void check_leases(void)
{
    for (unsigned i = 0; i < permits.lease_count; i++) {
        uint64_t held = 0;
        for (unsigned k = 0; k < permits.lease_count; k++)
            if (permits.leases[k].key == permits.leases[i].key
                && permits.leases[k].from <= permits.leases[i].from
                && permits.leases[k].until > permits.leases[i].from)
                held += permits.leases[k].cost;
        if (held > permits.now->capacity)
            permits.violation = "an instant at which more than at_most are held";
    }
}

static void permit_open(void)
{
    permits.kit = (struct kit){ 0 };
    assert_int_equal(kit_try_open(&permits.kit, &(struct store_options){ .keys = 9, .permits = PERMIT_POOL }),
                     0);
    for (unsigned i = 0; i < 3; i++)
        permits.shape[i] = kit_shape(&permits.kit, (struct weir_limit){ .algorithm = WEIR_CONCURRENCY,
                                                                        .at_most = i + 1,
                                                                        .hold = S,
                                                                        .when_full = WEIR_FULL_CLOSED });
    schedule.watch = NULL;
}

static void permit_close(void)
{
    kit_close(&permits.kit);
    schedule_free();
}

/* All that was given back is there again, and so is what expired. */
static void check_pool(void)
{
    for (unsigned key = 0; key < permits.keys; key++)
        if (!permits.is_moving && (permits.held[key] != 0 || permits.may_be_held[key] != 0))
            permits.violation = "something is held in the end";
    store_sweep(permits.kit.store, permits.clock + 100 * S, SIZE_MAX);
    struct store *store = permits.kit.store;
    if (pool_available(&store->permits) != PERMIT_POOL || pool_available(&store->records) != PERMIT_POOL)
        permits.violation = "an entry or a record was lost";
}

/* One random run; NULL or what was violated. */
static const char *permit_once(uint64_t seed)
{
    permits.random = (struct random){ seed };
    schedule.random = (struct random){ ~seed };
    schedule.stay = UINT64_C(1) << (1 + random_below(&permits.random, 4));
    unsigned fibers = 2 + (unsigned)random_below(&permits.random, 3);
    for (unsigned i = 0; i < FIBERS_MAX; i++)
        schedule.fibers[i].stops_at = UINT64_MAX;
    permits.now = permits.shape[random_below(&permits.random, 3)];
    permits.keys = 1 + (unsigned)random_below(&permits.random, PERMIT_KEYS);
    permits.ops_each = 1 + (unsigned)random_below(&permits.random, LEASES_MAX / FIBERS_MAX);
    permits.is_moving = random_below(&permits.random, 2) == 0;
    permits.clock = 1000 * S;
    permits.lease_count = 0;
    permits.violation = NULL;
    memset(permits.held, 0, sizeof permits.held);
    memset(permits.may_be_held, 0, sizeof permits.may_be_held);
    memset(permits.fibers, 0, sizeof permits.fibers);
    permits.kit.store->floor_ns = 0;
    schedule_run(fibers, permit_fiber);
    check_leases();
    check_pool();
    return permits.violation;
}

/* Runs until one is violated; its number, or `runs`. */
static unsigned permit_violation(unsigned runs, uint64_t seed)
{
    for (unsigned i = 0; i < runs; i++)
        if (permit_once(seed + i) != NULL)
            return i;
    return runs;
}

/* A mutant's whole test: some run must show it. */
static inline void expect_permits_caught(const char *mutant, unsigned runs)
{
    uint64_t seed = random_seed(1);
    permit_open();
    unsigned at = permit_violation(runs, seed);
    const char *violation = permits.violation;
    permit_close();
    if (at == runs)
        fail_msg("%u runs did not notice: %s", runs, mutant);
    print_message("%s: caught in run %u: %s\n", mutant, at, violation);
}

#endif
