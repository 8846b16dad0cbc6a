// SPDX-License-Identifier: Apache-2.0
/*
 * One bucket, several threads (G1, P21-P23's share that needs no table). LABELS: threads
 *
 * Frozen time grants the burst exactly. With time moving, what all threads were admitted by their own stamps stays
 * within burst + rate * x over the whole run, whatever the order in which their exchanges landed.
 */
#include "support/unit.h"

#include <pthread.h>

#include "weir_bucket.h"

#define THREADS 4
#define ROUNDS 400
#define ASKS 300 /* per thread and round; together more than the burst */
#define BURST 1000

static const weir_rate exact = WEIR_RATE(1000000, WEIR_SECOND, BURST);
static const weir_rate inexact = WEIR_RATE(999999937, WEIR_SECOND, BURST);

struct worker {
    weir_bucket *bucket;
    const weir_rate *rate;
    weir_ns from, step; /* its own stamps */
    uint64_t admitted;
    pthread_barrier_t *start;
};

static void *take_all(void *argument)
{
    struct worker *worker = (struct worker *)argument;
    (void)pthread_barrier_wait(worker->start);
    for (unsigned i = 0; i < ASKS; i++)
        worker->admitted +=
            weir_bucket_take_shared(worker->bucket, worker->rate, worker->from + i * worker->step, 1 + i % 2)
                        .outcome
                    == WEIR_ALLOW
                ? 1 + i % 2
                : 0;
    return NULL;
}

static uint64_t one_round(weir_bucket *bucket, const weir_rate *rate, weir_ns from, weir_ns step)
{
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    pthread_barrier_t start;
    uint64_t admitted = 0;
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ bucket, rate, from + i * step / 2, step, 0, &start };
        assert_int_equal(pthread_create(&threads[i], NULL, take_all, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        admitted += workers[i].admitted;
    }
    (void)pthread_barrier_destroy(&start);
    return admitted;
}

static void frozen_time_grants_the_burst_exactly(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const weir_rate *rate = round % 2 == 0 ? &exact : &inexact;
        weir_bucket bucket = WEIR_BUCKET_FULL;
        weir_ns now = (5 + round) * WEIR_SECOND; /* a whole tick of both: else the last token is a tick late */
        assert_int_equal(one_round(&bucket, rate, now, 0), BURST);
        assert_int_equal(weir_bucket_peek(&bucket, rate, now, 1).outcome, WEIR_DENY);
    }
}

/* A bucket with one token left: exactly one of the threads gets it, every round. */
static void the_last_token_goes_to_one(void **state)
{
    (void)state;
    static const weir_rate one = WEIR_RATE(1, WEIR_DAY, 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        weir_bucket bucket = WEIR_BUCKET_FULL;
        assert_int_equal(one_round(&bucket, &one, round, 0), 1);
    }
}

static void moving_time_stays_within_the_curve(void **state)
{
    (void)state;
    weir_bucket bucket = WEIR_BUCKET_FULL;
    weir_ns step = 40, first = WEIR_SECOND, last = first;
    uint64_t admitted = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        admitted += one_round(&bucket, &inexact, first + round * ASKS * step, step);
        last = first + (round + 1) * ASKS * step + THREADS * step;
        assert_true(admitted <= BURST + (last - first) * 999999937 / WEIR_SECOND);
    }
    assert_true(admitted > BURST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_time_grants_the_burst_exactly),
        cmocka_unit_test(the_last_token_goes_to_one),
        cmocka_unit_test(moving_time_stays_within_the_curve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
