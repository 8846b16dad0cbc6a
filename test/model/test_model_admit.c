// SPDX-License-Identifier: Apache-2.0
/*
 * weir.h from outside against one exact account per limit and key: single checks, looks, batches and composites of all
 * algorithms, two million of them, stale stamps included (G2, G3, P10, P27 without a race).
 *
 * What is reported is judged by the account (what is left) and by asking again (retry instants: passes there, and not
 * a nanosecond before). One thread and a table that never fills, so nothing is reclaimed and each answer is decided.
 */
#include "support/unit.h"

#include "model/account.h"
#include "support/random.h"

#define OPERATIONS 2000000
#define KEYS 5
#define ASKS 4

static const struct weir_limit limits[] = {
    { .name = "token", .rate = { 5, WEIR_SECOND }, .burst = 20 },
    { .name = "sevenths", .rate = { 7, WEIR_SECOND }, .burst = 10 },
    { .name = "leaky", .algorithm = WEIR_LEAKY_BUCKET, .rate = { 3, WEIR_SECOND }, .burst = 4 },
    { .name = "still", .rate = { 0, WEIR_SECOND }, .burst = 1000 },
    { .name = "fixed", .algorithm = WEIR_FIXED_WINDOW, .rate = { 9, 2 * WEIR_SECOND } },
    { .name = "first",
      .algorithm = WEIR_FIXED_WINDOW,
      .align = WEIR_ALIGN_FIRST_REQUEST,
      .rate = { 7, 3 * WEIR_SECOND } },
    { .name = "sliding", .algorithm = WEIR_SLIDING_WINDOW, .rate = { 12, 2 * WEIR_SECOND } },
    { .name = "log", .algorithm = WEIR_SLIDING_LOG, .rate = { 8, 2 * WEIR_SECOND } },
};
#define LIMITS COUNT_OF(limits)

struct world {
    struct weir *weir;
    struct account accounts[LIMITS][KEYS];
    struct random random;
    weir_ns newest;
};

static struct account *account_of(struct world *world, const struct weir_ask *ask)
{
    return &world->accounts[ask->limit][((const char *)ask->key)[0] - 'a'];
}

static void world_init(struct world *world, uint64_t seed)
{
    static const uint8_t secret[16] = { 1, 2, 3 };
    memset(world, 0, sizeof *world);
    world->random.state = seed;
    assert_int_equal(weir_new(&world->weir, &(struct weir_options){ .keys = 10000, .secret = secret }), 0);
    for (size_t i = 0; i < LIMITS; i++) {
        weir_limit_id id;
        assert_int_equal(weir_limit_add(world->weir, &limits[i], &id), 0);
        assert_int_equal(id, (int)i);
        for (size_t key = 0; key < KEYS; key++)
            world->accounts[i][key].limit = &limits[i];
    }
}

/* One to four asks of different (limit, key). */
static size_t draw_asks(struct world *world, struct weir_ask *asks)
{
    static const char *const keys[KEYS] = { "a", "b", "c", "d", "e" };
    static const uint64_t costs[] = { 0, 1, 1, 1, 1, 2, 3, 4, 5, 9 };
    size_t count = random_below(&world->random, 2) == 0 ? 1 : 1 + random_below(&world->random, ASKS);
    size_t first = random_below(&world->random, LIMITS);
    for (size_t i = 0; i < count; i++) {
        uint64_t cost = costs[random_below(&world->random, COUNT_OF(costs))];
        if (random_below(&world->random, 64) == 0)
            cost = random_u64(&world->random);
        asks[i] = (struct weir_ask){ (weir_limit_id)((first + i) % LIMITS),
                                     keys[random_below(&world->random, KEYS)], 1, cost };
    }
    return count;
}

static weir_ns draw_stamp(struct world *world, const struct weir_ask *asks, size_t count)
{
    struct weir_decision decision;
    switch (random_below(&world->random, 8)) {
    case 0: {
        weir_ns back = random_below(&world->random, 4 * WEIR_SECOND);
        return world->newest > back ? world->newest - back : 0;
    }
    case 1:
    case 2:
        assert_int_equal(weir_admit_peek(world->weir, asks, count, world->newest, NULL, &decision), 0);
        if (decision.retry_at == WEIR_NO_TIME || decision.retry_at == 0)
            return world->newest;
        return decision.retry_at - random_below(&world->random, 2);
    case 3:
        return world->newest;
    default:
        return world->newest
               + random_below(&world->random, WEIR_SECOND / (1 + random_below(&world->random, 20)));
    }
}

static enum weir_outcome expected_of(struct world *world, const struct weir_ask *ask, weir_ns now)
{
    const struct account *account = account_of(world, ask);
    if (ask->cost > account_capacity(account))
        return WEIR_NEVER;
    return account_admits(account, now, ask->cost) ? WEIR_ALLOW : WEIR_DENY;
}

static enum weir_outcome worst_of(struct world *world, const struct weir_ask *asks, size_t count, weir_ns now)
{
    enum weir_outcome worst = WEIR_ALLOW;
    for (size_t i = 0; i < count; i++) {
        enum weir_outcome one = expected_of(world, &asks[i], now);
        if (one == WEIR_NEVER || (one == WEIR_DENY && worst == WEIR_ALLOW))
            worst = one;
    }
    return worst;
}

/* 1.11: on a refusal the one that frees last, on an allowance the one with the fewest such requests left. */
static void check_binding(const struct weir_ask *asks, size_t count, const struct weir_decision *each,
                          const struct weir_decision *out)
{
    size_t bound = count;
    for (size_t i = 0; i < count; i++)
        bound = asks[i].limit == out->limit ? i : bound;
    assert_true(bound < count);
    assert_memory_equal(&each[bound], out, sizeof *out);
    for (size_t i = 0; i < count; i++) {
        if (out->outcome == WEIR_DENY && each[i].outcome == WEIR_DENY)
            assert_true(each[i].retry_at <= out->retry_at);
        if (out->outcome != WEIR_ALLOW || asks[i].cost == 0)
            continue;
        assert_true(asks[bound].cost > 0);
        assert_true(out->remaining / asks[bound].cost <= each[i].remaining / asks[i].cost);
    }
}

static void check_each(struct world *world, const struct weir_ask *asks, size_t count, weir_ns now,
                       const struct weir_decision *each)
{
    for (size_t i = 0; i < count; i++) {
        const struct account *account = account_of(world, &asks[i]);
        assert_int_equal(each[i].limit, asks[i].limit);
        assert_true(each[i].capacity == account_capacity(account));
        assert_true(each[i].remaining == account_remaining(account, now));
        assert_true(each[i].decided_at == account_effective(account, now));
        assert_true(each[i].reset_at >= each[i].decided_at);
    }
}

/* G3 for the whole request. */
static void check_retry(struct world *world, const struct weir_ask *asks, size_t count, weir_ns now,
                        weir_ns retry_at)
{
    struct weir_decision decision;
    if (retry_at == WEIR_NO_TIME)
        return;
    assert_true(retry_at > now);
    assert_int_equal(weir_admit_peek(world->weir, asks, count, retry_at, NULL, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_ALLOW);
    assert_int_equal(weir_admit_peek(world->weir, asks, count, retry_at - 1, NULL, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_DENY);
}

static void one_operation(struct world *world)
{
    struct weir_ask asks[ASKS];
    struct weir_decision each[ASKS], out;
    size_t count = draw_asks(world, asks);
    weir_ns now = draw_stamp(world, asks, count);
    enum weir_outcome expected = worst_of(world, asks, count, now);

    memset(each, 0, sizeof each);
    assert_int_equal(weir_admit_peek(world->weir, asks, count, now, each, &out), 0);
    assert_int_equal(out.outcome, expected);
    check_each(world, asks, count, now, each); /* a look reports what is there */

    if (count == 1 && random_below(&world->random, 2) == 0) {
        bool in_batch = random_below(&world->random, 2) == 0;
        if (in_batch)
            assert_int_equal(weir_check_batch(world->weir, asks, 1, now, &out), 0);
        else
            assert_int_equal(weir_check(world->weir, asks[0].limit, asks[0].key, 1, asks[0].cost, now, &out),
                             0);
        each[0] = out;
    } else {
        assert_int_equal(weir_admit(world->weir, asks, count, now, each, &out), 0);
    }
    assert_int_equal(out.outcome, expected);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(each[i].outcome, expected_of(world, &asks[i], now));
    for (size_t i = 0; expected == WEIR_ALLOW && i < count; i++)
        account_charge(account_of(world, &asks[i]), now, asks[i].cost);
    check_each(world, asks, count, now, each);
    check_binding(asks, count, each, &out);
    if (expected == WEIR_DENY)
        check_retry(world, asks, count, now, out.retry_at);
    if (expected == WEIR_NEVER)
        assert_true(out.retry_at == WEIR_NO_TIME);
    world->newest = now > world->newest ? now : world->newest;
}

static void two_million_requests_agree_with_their_accounts(void **state)
{
    (void)state;
    static struct world world;
    uint64_t seed = random_seed(11);
    for (unsigned turn = 0; turn < OPERATIONS / 20000; turn++) {
        world_init(&world, seed + turn);
        for (unsigned i = 0; i < 20000; i++)
            one_operation(&world);
        struct weir_stats stats;
        weir_stats(world.weir, world.newest, &stats);
        assert_true(stats.reclaims == 0 && stats.overflows == 0 && stats.contended == 0);
        weir_free(world.weir);
    }
}

/* Asks for one limit and key are added up, whatever stands between them. */
static void asks_for_one_key_are_added_up(void **state)
{
    (void)state;
    static struct world world;
    struct weir_decision each[3], out;
    struct weir_ask asks[] = { { 0, "a", 1, 11 }, { 4, "a", 1, 9 }, { 0, "a", 1, 9 } };
    world_init(&world, 1);
    assert_int_equal(weir_admit(world.weir, asks, 3, 0, each, &out), 0);
    assert_int_equal(out.outcome, WEIR_ALLOW);
    assert_int_equal(each[0].remaining, 0);
    assert_memory_equal(&each[0], &each[2], sizeof each[0]);
    asks[2].cost = 10; /* 21 of 20 */
    assert_int_equal(weir_admit(world.weir, asks, 3, 100 * WEIR_SECOND, each, &out), 0);
    assert_int_equal(out.outcome, WEIR_NEVER);
    asks[0].cost = asks[2].cost = UINT64_MAX; /* a sum that does not fit is still above every capacity */
    assert_int_equal(weir_admit(world.weir, asks, 3, 100 * WEIR_SECOND, each, &out), 0);
    assert_int_equal(out.outcome, WEIR_NEVER);
    assert_int_equal(weir_peek(world.weir, 4, "a", 1, 9, 100 * WEIR_SECOND, &out), 0);
    assert_int_equal(out.outcome, WEIR_ALLOW); /* and nobody was charged */
    weir_free(world.weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(two_million_requests_agree_with_their_accounts),
                                        cmocka_unit_test(asks_for_one_key_are_added_up) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
