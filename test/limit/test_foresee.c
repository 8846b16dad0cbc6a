// SPDX-License-Identifier: Apache-2.0
/*
 * test_foresee.c - shape_foresee() against those ahead going one by one, each as the retry time of the one before says.
 *
 * The retry times are trusted here (test_bucket_table.c, test_window_table.c and the models try them); what is tried is that
 * the closed forms pass over everybody ahead and arrive at the same nanosecond.
 */
#include "base/memory.h"
#include "limit/log.h"
#include "limit/shape.h"
#include "support/random.h"
#include "support/unit.h"

#define RUNS 60000

/* Let one request go at the first instant it can, from `now` on. */
static weir_ns go(const struct shape *shape, uint64_t *word, weir_ns now, uint64_t cost)
{
    struct step step = shape_look(shape, *word, now, cost);
    weir_ns at = shape_report(shape, &step, cost).retry_at;
    if (step.outcome == WEIR_ALLOW)
        at = now;
    if (at == WEIR_NO_TIME)
        return at;
    step = shape_decide(shape, *word, at, cost);
    assert_int_equal(step.outcome, WEIR_ALLOW);
    *word = step.word;
    return at;
}

static weir_ns one_by_one(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead, uint64_t cost)
{
    for (uint64_t i = 0; i < ahead && now != WEIR_NO_TIME; i++)
        now = go(shape, &word, now, 1);
    return now == WEIR_NO_TIME ? now : go(shape, &word, now, cost);
}

static const struct kind {
    const char *why;
    struct weir_limit limit;
} kinds[] = {
    { "a token bucket", { .algorithm = WEIR_TOKEN_BUCKET } },
    { "a pace", { .algorithm = WEIR_LEAKY_QUEUE, .wait = { 1, 1 } } },
    { "windows of the epoch", { .algorithm = WEIR_FIXED_WINDOW } },
    { "windows from the first request", { .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_FIRST_REQUEST } },
    { "a sliding window", { .algorithm = WEIR_SLIDING_WINDOW } },
};

static struct weir_limit draw(struct random *random, struct weir_limit limit)
{
    static const weir_ns periods[] = { 1, 2, 3, 7, 10, 60, 1000, 999983, WEIR_SECOND, 60 * WEIR_SECOND };
    limit.name = "x";
    limit.rate.period = periods[random_below(random, COUNT_OF(periods))];
    limit.rate.count = 1 + random_below(random, random_below(random, 2) == 0 ? 4 : 40);
    if (limit.algorithm == WEIR_TOKEN_BUCKET)
        limit.burst = 1 + random_below(random, 12);
    return limit;
}

/* Some history, so that the word is not that of a new key. */
static uint64_t wander(struct random *random, const struct shape *shape, weir_ns *now, weir_ns period)
{
    uint64_t word = 0, times = random_below(random, 12);
    *now = random_below(random, 3 * period);
    for (uint64_t i = 0; i < times; i++) {
        word = shape_decide(shape, word, *now, 1 + random_below(random, shape->capacity)).word;
        *now += random_below(random, 1 + period / (1 + random_below(random, 8)));
    }
    return word;
}

/* Costs of one are exact; so is any cost of a bucket behind others, unless it waits for a full bucket. */
static void words(void **state)
{
    (void)state;
    struct random random = { random_seed(7001) };
    for (unsigned run = 0; run < RUNS; run++) {
        const struct kind *kind = &kinds[run % COUNT_OF(kinds)];
        struct weir_limit limit = draw(&random, kind->limit);
        struct shape shape;
        weir_ns now;
        if (shape_init(&shape, &limit, (int64_t)random_below(&random, 1000), &memory_default) != 0)
            continue;
        uint64_t word = wander(&random, &shape, &now, limit.rate.period);
        uint64_t ahead = random_below(&random, random_below(&random, 4) == 0 ? 300 : 9);
        uint64_t cost = 1 + random_below(&random, shape.capacity);
        weir_ns expected = one_by_one(&shape, word, now, ahead, cost);
        weir_ns found = shape_foresee(&shape, word, now, ahead, cost);
        /* More than refills a bucket in a nanosecond: what would not fit it is lost, so it is later. */
        bool is_flooded = limit.burst > 1 && limit.rate.count > limit.rate.period * (limit.burst - 1);
        if (found != expected && !(is_flooded && found < expected))
            fail_msg("%s: %llu per %llu, capacity %llu, %llu ahead, cost %llu at %llu: %llu, not %llu (run %u)",
                     kind->why, (unsigned long long)limit.rate.count, (unsigned long long)limit.rate.period,
                     (unsigned long long)shape.capacity, (unsigned long long)ahead, (unsigned long long)cost,
                     (unsigned long long)now, (unsigned long long)found, (unsigned long long)expected, run);
    }
}

/* A date says nothing new to whoever comes later, and stops whoever comes earlier. */
static void dated_words_mean_the_same(void **state)
{
    (void)state;
    struct random random = { random_seed(7002) };
    for (unsigned run = 0; run < RUNS; run++) {
        const struct kind *kind = &kinds[run % COUNT_OF(kinds)];
        struct weir_limit limit = draw(&random, kind->limit);
        struct shape shape;
        weir_ns now;
        if (shape_init(&shape, &limit, (int64_t)random_below(&random, 1000), &memory_default) != 0)
            continue;
        uint64_t word = wander(&random, &shape, &now, limit.rate.period);
        uint64_t dated = shape_dated(&shape, word, now), cost = 1 + random_below(&random, shape.capacity);
        weir_ns later = now + random_below(&random, 3 * limit.rate.period);
        struct step plain = shape_decide(&shape, word, later, cost),
                    step = shape_decide(&shape, dated, later, cost);
        expect_row(plain.outcome == step.outcome && plain.at == step.at
                       && (plain.outcome != WEIR_ALLOW || plain.word == step.word),
                   kind->why);

        weir_ns before = random_below(&random, now + 1);
        plain = shape_decide(&shape, dated, now, cost);
        step = shape_decide(&shape, dated, before, cost);
        expect_row(step.outcome != WEIR_ALLOW || plain.outcome == WEIR_ALLOW, kind->why);
    }
}

static void calendar_days_are_not_stepped_on(void **state)
{
    (void)state;
    struct weir_limit daily = {
        .name = "x", .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_CALENDAR, .rate = { 3, 0 }
    };
    struct shape shape;
    weir_ns day = 86400 * WEIR_SECOND;
    assert_int_equal(shape_init(&shape, &daily, 0, &memory_default), 0);
    uint64_t word = shape_decide(&shape, 0, WEIR_SECOND, 2).word;
    assert_int_equal(shape_foresee(&shape, word, WEIR_SECOND, 0, 1), WEIR_SECOND);
    assert_int_equal(shape_foresee(&shape, word, WEIR_SECOND, 1, 1), day);
    assert_int_equal(shape_foresee(&shape, word, WEIR_SECOND, 1, 3), day);
    assert_int_equal(shape_foresee(&shape, word, WEIR_SECOND, 2, 3), 2 * day);
    assert_int_equal(shape_foresee(&shape, word, WEIR_SECOND, 3 * 4, 3), 5 * day);
    assert_int_equal(shape_foresee(&shape, word, WEIR_SECOND, UINT64_MAX - 5, 3), WEIR_NO_TIME);
    /* Today's window is still open: the last of its three can be taken. */
    assert_int_equal(shape_decide(&shape, word, 2 * WEIR_SECOND, 1).outcome, WEIR_ALLOW);
    shape_deinit(&shape, &memory_default);
}

/* ---- Logs ------------------------------------------------------------------------------------------------------- */

#define LOG_MASK 4095

static weir_ns go_log(const struct shape *shape, struct log_view *log, weir_ns now, uint64_t cost)
{
    struct report report;
    struct step step = log_decide(shape, log, now, cost, false, &report);
    if (step.outcome == WEIR_ALLOW)
        return now;
    step = log_decide(shape, log, report.retry_at, cost, false, &report);
    assert_int_equal(step.outcome, WEIR_ALLOW);
    return step.at;
}

static void logs(void **state)
{
    (void)state;
    struct random random = { random_seed(7003) };
    for (unsigned run = 0; run < RUNS / 4; run++) {
        weir_ns stamps[LOG_MASK + 1], now = 0, period = 1 + random_below(&random, 1000);
        struct shape shape = { .algorithm = WEIR_SLIDING_LOG,
                               .capacity = 1 + random_below(&random, 9),
                               .period = period };
        struct log_view log = { stamps, LOG_MASK, (uint32_t)random_below(&random, LOG_MASK), 0, 0 };
        struct report report;
        for (uint64_t i = random_below(&random, 20); i > 0; i--) {
            (void)log_decide(&shape, &log, now, 1 + random_below(&random, shape.capacity), false, &report);
            now += random_below(&random, 1 + period / 2);
        }
        if (random_below(&random, 3) == 0 && shape.capacity > 1) /* lowered since */
            shape.capacity -= 1;
        uint64_t ahead = random_below(&random, 40), cost = 1 + random_below(&random, shape.capacity);
        weir_ns found = log_foresee(&shape, &log, now, ahead, cost), at = now;
        for (uint64_t i = 0; i < ahead; i++)
            at = go_log(&shape, &log, at, 1);
        assert_int_equal(found, go_log(&shape, &log, at, cost));
    }
    struct log_view none = { .stamps = NULL };
    struct shape shape = { .algorithm = WEIR_SLIDING_LOG, .capacity = 3, .period = 10 };
    assert_int_equal(log_foresee(&shape, &none, 5, 2, 1), 5);
    assert_int_equal(log_foresee(&shape, &none, 5, 3, 1), 15);
    assert_int_equal(log_foresee(&shape, &none, 5, 3, 4), WEIR_NO_TIME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(dated_words_mean_the_same),
        cmocka_unit_test(calendar_days_are_not_stepped_on),
        cmocka_unit_test(logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
