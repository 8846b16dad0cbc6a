// SPDX-License-Identifier: Apache-2.0
/*
 * LABELS: threads
 *
 * P31 over several limits: two composites with one retry id name the same limits in opposite order. One is charged, the other
 * is its duplicate; they are never both refused because each holds what the other waits for.
 */
#include "support/unit.h"

#include <pthread.h>

#include "weir.h"

#define ROUNDS 3000
#define S WEIR_SECOND

static struct weir *weir;
static weir_limit_id limits[2];
static pthread_barrier_t barrier;
static enum weir_outcome outcomes[2];

static void *ask(void *argument)
{
    unsigned me = argument != NULL;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct weir_ask asks[2];
        for (unsigned i = 0; i < 2; i++)
            asks[i] = (struct weir_ask){ .limit = limits[i ^ me],
                                         .key = "k",
                                         .key_len = 1,
                                         .cost = 1,
                                         .retry_id = &round,
                                         .retry_id_len = sizeof round };
        struct weir_decision decision;
        pthread_barrier_wait(&barrier);
        outcomes[me] =
            weir_admit(weir, asks, 2, round * S, NULL, &decision) == 0 ? decision.outcome : WEIR_WAIT;
        pthread_barrier_wait(&barrier);
        /* Both allowed: charged twice. Both refused: each held what the other wanted. One may be, if the other is stopped. */
        if (me == 0 && (outcomes[0] == outcomes[1] || outcomes[0] == WEIR_WAIT || outcomes[1] == WEIR_WAIT))
            fail_msg("round %u: %s and %s", round, weir_outcome_name(outcomes[0]),
                     weir_outcome_name(outcomes[1]));
    }
    return NULL;
}

static void open_weir(void)
{
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 4096 }), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(weir_limit_add(weir,
                                        &(struct weir_limit){ .name = i == 0 ? "a" : "b",
                                                              .rate = { 10, S },
                                                              .burst = 100,
                                                              .retries_free_within = S / 2 },
                                        &limits[i]),
                         0);
}

static void opposite_orders_do_not_wait_for_each_other(void **state)
{
    (void)state;
    pthread_t other;
    open_weir();
    pthread_barrier_init(&barrier, NULL, 2);
    assert_int_equal(pthread_create(&other, NULL, ask, &weir), 0);
    (void)ask(NULL);
    pthread_join(other, NULL);
    weir_free(weir);
}

static void beyond_the_horizon_nothing_is_remembered(void **state)
{
    (void)state;
    static const weir_ns stamps[] = { WEIR_HORIZON + 1, UINT64_MAX - 1, UINT64_MAX };
    open_weir();
    for (size_t i = 0; i < COUNT_OF(stamps); i++) {
        struct weir_ask one = {
            .limit = limits[0], .key = "k", .key_len = 1, .cost = 1, .retry_id = "r", .retry_id_len = 1
        };
        struct weir_decision decision;
        assert_int_equal(weir_admit(weir, &one, 1, stamps[i], NULL, &decision), 0);
        assert_int_equal(decision.outcome, WEIR_REFUSED);
        assert_int_equal(decision.reason, WEIR_REASON_TIME);
    }
    weir_free(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(opposite_orders_do_not_wait_for_each_other),
                                        cmocka_unit_test(beyond_the_horizon_nothing_is_remembered) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
