// SPDX-License-Identifier: Apache-2.0
/*
 * LABELS: threads
 *
 * Several limits, all or nothing, by real threads at one instant (P27, G2).
 */
#include "store/kit.h"
#include "support/random.h"
#include "threads/crew.h"

#if CELL_SANITIZED
#define ROUNDS 300
#else
#define ROUNDS 2000
#endif

#define LIMITS 4

static struct {
    struct weir *weir;
    weir_limit_id limits[LIMITS];
    uint64_t round, seed;
    weir_ns now;
    uint64_t passed, odd;
    uint64_t charged[LIMITS];
} at;

static void open_weir(const enum weir_algorithm algorithms[LIMITS], uint64_t count)
{
    static const char *const names[LIMITS] = { "a", "b", "c", "d" };
    assert_int_equal(weir_new(&at.weir, &(struct weir_options){ .keys = 40 }), 0);
    for (unsigned i = 0; i < LIMITS; i++) {
        struct weir_limit limit = { .name = names[i],
                                    .algorithm = algorithms[i],
                                    .rate = { count, WEIR_MINUTE },
                                    .burst = algorithms[i] <= WEIR_LEAKY_BUCKET ? count : 0,
                                    .when_full = WEIR_FULL_CLOSED };
        assert_int_equal(weir_limit_add(at.weir, &limit, &at.limits[i]), 0);
    }
}

/* ---- One token left in each of two ---------------------------------------------------------------------- */

static void want_both(unsigned member)
{
    struct weir_ask asks[2] = { { at.limits[member & 1], &at.round, sizeof at.round, 1 },
                                { at.limits[~member & 1], &at.round, sizeof at.round, 1 } };
    struct weir_decision decision;
    int code = weir_admit(at.weir, asks, 2, at.now, NULL, &decision);
    if (code != 0 || (decision.outcome != WEIR_ALLOW && decision.outcome != WEIR_DENY))
        __atomic_fetch_add(&at.odd, 1, __ATOMIC_RELAXED);
    else if (decision.outcome == WEIR_ALLOW)
        __atomic_fetch_add(&at.passed, 1, __ATOMIC_RELAXED);
}

/* Sixteen threads, half of them asking in the other order: exactly one passes, every round. */
static void one_token_left_in_each_of_two_limits(void **state)
{
    (void)state;
    static const enum weir_algorithm pairs[][LIMITS] = {
        { WEIR_TOKEN_BUCKET, WEIR_TOKEN_BUCKET },
        { WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW },
        { WEIR_SLIDING_WINDOW, WEIR_LEAKY_BUCKET },
        { WEIR_FIXED_WINDOW, WEIR_SLIDING_WINDOW },
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        struct crew crew;
        open_weir(pairs[i], 1);
        at.odd = 0;
        crew_open(&crew, 16, want_both);
        for (at.round = 0; at.round < ROUNDS; at.round++) {
            at.now = (at.round + 1) * 5 * WEIR_MINUTE;
            at.passed = 0;
            crew_round(&crew);
            assert_int_equal(at.passed, 1);
        }
        crew_close(&crew);
        assert_int_equal(at.odd, 0);
        weir_free(at.weir);
    }
}

/* ---- Any subset of four --------------------------------------------------------------------------------- */

static void want_some(unsigned member)
{
    struct random random = { at.seed * 64 + member };
    for (unsigned n = 0; n < 8; n++) {
        struct weir_ask asks[LIMITS];
        struct weir_decision decision;
        unsigned which = 1 + (unsigned)random_below(&random, (1 << LIMITS) - 1), count = 0;
        uint64_t cost[LIMITS] = { 0 };
        for (unsigned i = 0; i < LIMITS; i++) {
            if ((which >> i & 1) == 0)
                continue;
            cost[i] = 1 + random_below(&random, 3);
            asks[count++] = (struct weir_ask){ at.limits[i], &at.round, sizeof at.round, cost[i] };
        }
        int code = weir_admit(at.weir, asks, count, at.now, NULL, &decision);
        if (code != 0 || (decision.outcome != WEIR_ALLOW && decision.outcome != WEIR_DENY))
            __atomic_fetch_add(&at.odd, 1, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < LIMITS && code == 0 && decision.outcome == WEIR_ALLOW; i++)
            __atomic_fetch_add(&at.charged[i], cost[i], __ATOMIC_RELAXED);
    }
}

/*
 * What is left in each limit is what the admitted requests did not take: a refusal charged nothing in windows, and in a
 * bucket at most what refilled between charge and undo (P27), here far less than a token.
 */
static void refusals_leave_nothing_behind(void **state)
{
    (void)state;
    static const enum weir_algorithm four[LIMITS] = { WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW, WEIR_SLIDING_WINDOW,
                                                      WEIR_LEAKY_BUCKET };
    struct crew crew;
    open_weir(four, 20);
    at.odd = 0;
    crew_open(&crew, 8, want_some);
    for (at.round = 0; at.round < ROUNDS; at.round++) {
        at.now = (at.round + 1) * 5 * WEIR_MINUTE;
        at.seed = at.round;
        memset(at.charged, 0, sizeof at.charged);
        crew_round(&crew);
        for (unsigned i = 0; i < LIMITS; i++) {
            struct weir_decision decision;
            assert_int_equal(weir_peek(at.weir, at.limits[i], &at.round, sizeof at.round, 0, at.now, &decision),
                             0);
            assert_true(at.charged[i] <= 20);
            uint64_t left = 20 - at.charged[i];
            bool is_bucket = four[i] == WEIR_TOKEN_BUCKET || four[i] == WEIR_LEAKY_BUCKET;
            assert_true(decision.remaining == left || (is_bucket && decision.remaining + 1 == left));
        }
    }
    crew_close(&crew);
    assert_int_equal(at.odd, 0);
    weir_free(at.weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_token_left_in_each_of_two_limits),
        cmocka_unit_test(refusals_leave_nothing_behind),
    };
    return cmocka_run_group_tests_name("threads/admit", tests, NULL, NULL);
}
