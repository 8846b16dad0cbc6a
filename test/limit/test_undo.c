// SPDX-License-Identifier: Apache-2.0
/*
 * Giving back (P12) and forgetting (3.5): an undo never leaves more than if the request had not been made, and a word
 * is dead only when nobody with a stamp of the last second can tell it from none.
 */
#include "support/unit.h"

#include "limit/log.h"
#include "support/random.h"

#define S WEIR_SECOND

static struct shape shape_of(struct weir_limit limit)
{
    struct shape shape;
    limit.name = "w";
    assert_int_equal(shape_init(&shape, &limit, 0, NULL), 0);
    return shape;
}

static uint64_t remaining(const struct shape *shape, uint64_t word, weir_ns now)
{
    struct step look = { WEIR_DENY, word, now };
    return shape_report(shape, &look, 1).remaining;
}

/* 1/s, burst 10, and a request of 10 at 0 that is given back later. */
static const struct row {
    const char *why;
    weir_ns at;
    uint64_t left; /* tokens after the undo */
} refunds[] = {
    { "at once: all of it", 0, 10 },
    { "8.1: after four seconds the bucket is full, as if never reserved", 4 * S, 10 },
    { "after ten the bucket had refilled by itself", 10 * S, 10 },
};

static void a_strict_refund_returns_what_refill_has_not(void **state)
{
    (void)state;
    struct shape shape = shape_of((struct weir_limit){ .rate = { 1, S }, .burst = 10 });
    for (size_t i = 0; i < COUNT_OF(refunds); i++) {
        const struct row *row = &refunds[i];
        struct step step = shape_decide(&shape, 0, 0, 10);
        uint64_t word = shape_undo(&shape, step.word, step.at, row->at, 10);
        expect_row(remaining(&shape, word, row->at) == row->left, row->why);
    }
    struct step step = shape_decide(&shape, 0, 0, 10);
    assert_true(shape_undo(&shape, step.word, 0, 4 * S, 10) == 4 * S); /* the word of the vector: TAT = F */
}

/* 1.13's counterexample: after the refill somebody else took all; the late refund must give nothing. */
static void a_late_refund_mints_nothing(void **state)
{
    (void)state;
    struct shape shape = shape_of((struct weir_limit){ .rate = { 1, S }, .burst = 10 });
    uint64_t word = shape_decide(&shape, 0, 0, 10).word;
    word = shape_decide(&shape, word, 10 * S, 10).word;
    assert_true(shape_undo(&shape, word, 0, 10 * S, 10) == word);
    assert_int_equal(shape_decide(&shape, word, 10 * S, 1).outcome, WEIR_DENY);
}

/* Random histories with and without the request that is undone: never more left, and nothing lost when at once. */
static void no_undo_leaves_more_than_never_having_asked(void **state)
{
    (void)state;
    struct random random = { random_seed(12) };
    static const struct weir_quota rates[] = { { 5, S }, { 7, S }, { 999, S }, { 1000003, WEIR_HOUR } };
    for (unsigned turn = 0; turn < 200000; turn++) {
        struct weir_limit limit = { .rate = rates[turn % COUNT_OF(rates)],
                                    .burst = 1 + random_below(&random, 30) };
        struct shape shape = shape_of(limit);
        uint64_t with = 0, without = 0;
        weir_ns now = random_below(&random, 100 * S), step_ns = limit.rate.period / limit.rate.count;
        for (unsigned i = random_below(&random, 4); i > 0; i--) {
            struct step step = shape_decide(&shape, with, now, 1 + random_below(&random, limit.burst));
            with = without = step.word;
            now += random_below(&random, 3 * step_ns);
        }
        weir_ns charged_at = now;
        uint64_t cost = 1 + random_below(&random, limit.burst);
        struct step asked = shape_decide(&shape, with, now, cost);
        if (asked.outcome != WEIR_ALLOW)
            continue;
        with = asked.word;
        for (unsigned i = random_below(&random, 4); i > 0;
             i--) { /* others are admitted meanwhile, in both worlds */
            now += random_below(&random, 3 * step_ns);
            uint64_t other = 1 + random_below(&random, limit.burst);
            struct step step = shape_decide(&shape, with, now, other);
            if (step.outcome == WEIR_ALLOW) {
                with = step.word;
                without = shape_decide(&shape, without, now, other).word;
            }
        }
        uint64_t word = shape_undo(&shape, with, charged_at, now, cost);
        unsigned inexact;
        uint64_t clock = weir_rate_clock(&shape.rate, now, &inexact);
        uint64_t lead = without > clock ? without : clock;
        assert_true((word > clock ? word : clock) >= lead);
        assert_true(word <= with);
        if (now == charged_at && with == asked.word) /* at once: all but the ticks that rounding keeps */
            assert_true((word > clock ? word : clock) - lead <= UINT64_C(2) * inexact);
    }
}

/* ---- Windows: only in the window it was charged to ------------------------------------------------------------- */

/*
 * The limit changes between charge and undo. A twin that never made the request takes whatever the other takes: it must
 * never have less. (A window that begins with a request begins elsewhere for who did not make it: not compared.) And where no time passed, all of it comes back, but for the ticks that rounding keeps.
 */
static void no_undo_across_a_change_leaves_more_either(void **state)
{
    (void)state;
    static const struct weir_limit kinds[] = {
        { .algorithm = WEIR_TOKEN_BUCKET },
        { .algorithm = WEIR_FIXED_WINDOW },
        { .algorithm = WEIR_SLIDING_WINDOW },
    };
    struct random random = { .state = random_seed(7) };
    for (unsigned run = 0; run < 20000; run++) {
        struct weir_limit before = kinds[run % COUNT_OF(kinds)], after = before;
        bool is_bucket = before.algorithm == WEIR_TOKEN_BUCKET;
        before.rate = (struct weir_quota){ 1 + random_below(&random, 20), (1 + random_below(&random, 3)) * S };
        after.rate = (struct weir_quota){ 1 + random_below(&random, 20), (1 + random_below(&random, 3)) * S };
        before.burst = is_bucket ? 1 + random_below(&random, 20) : 0;
        after.burst = is_bucket ? 1 + random_below(&random, 20) : 0;
        struct shape old = shape_of(before), next = shape_of(after);
        weir_ns charged_at = random_below(&random, 4 * S), change = charged_at, undone_at;
        bool is_still = random_below(&random, 4) == 0;
        if (!is_still)
            change += random_below(&random, 2 * S);
        undone_at = is_still ? change : change + random_below(&random, 2 * S);
        next.since = change;

        uint64_t twin = 0, word = 0, cost = 1 + random_below(&random, 5), others = random_below(&random, 4);
        word = twin = shape_decide(&old, 0, random_below(&random, charged_at + 1), 1).word;
        struct step step = shape_decide(&old, word, charged_at, cost);
        if (step.outcome != WEIR_ALLOW || step.at > change)
            continue;
        word = shape_convert(&old, &next, step.word);
        twin = shape_convert(&old, &next, twin);
        for (uint64_t i = 0; i < others; i++) {
            weir_ns at = change + (undone_at - change) / 4 * i;
            struct step taken = shape_decide(&next, word, at, 1);
            if (taken.outcome != WEIR_ALLOW)
                continue;
            word = taken.word;
            twin = shape_decide(&next, twin, at, 1).word;
        }
        word = shape_undo_converted(&old, &next, word, step.at, undone_at, cost);
        uint64_t left = remaining(&next, word, undone_at), twins = remaining(&next, twin, undone_at);
        if (left > twins || (is_still && twins - left > (is_bucket ? 1 : 0)))
            fail_msg("run %u, kind %u: %llu left, %llu for who never asked", run, run % 3,
                     (unsigned long long)left, (unsigned long long)twins);
    }
}

static void windows_give_back_in_their_own_window(void **state)
{
    (void)state;
    struct shape fixed =
        shape_of((struct weir_limit){ .algorithm = WEIR_FIXED_WINDOW, .rate = { 10, 60 * S } });
    uint64_t word = shape_decide(&fixed, 0, 5 * S, 4).word;
    assert_int_equal(remaining(&fixed, shape_undo(&fixed, word, 5 * S, 6 * S, 3), 6 * S), 9);
    word = shape_decide(&fixed, word, 61 * S, 2).word;
    assert_true(shape_undo(&fixed, word, 5 * S, 61 * S, 4) == word);

    struct shape sliding =
        shape_of((struct weir_limit){ .algorithm = WEIR_SLIDING_WINDOW, .rate = { 10, 60 * S } });
    word = shape_decide(&sliding, 0, 5 * S, 4).word;
    assert_int_equal(remaining(&sliding, shape_undo(&sliding, word, 5 * S, 6 * S, 4), 6 * S), 10);
    word = shape_decide(&sliding, word, 60 * S, 1).word; /* the four are the last window's now */
    assert_int_equal(remaining(&sliding, word, 60 * S), 5);
    assert_int_equal(remaining(&sliding, shape_undo(&sliding, word, 5 * S, 60 * S, 4), 60 * S), 9);
    word = shape_decide(&sliding, word, 130 * S, 1).word; /* two windows on: forgotten */
    assert_true(shape_undo(&sliding, word, 5 * S, 130 * S, 4) == word);
}

static void a_first_request_window_emptied_again_is_absent(void **state)
{
    (void)state;
    struct shape shape = shape_of((struct weir_limit){
        .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_FIRST_REQUEST, .rate = { 5, 10 * S } });
    struct step step = shape_decide(&shape, 0, 3 * S, 2);
    uint64_t word = shape_undo(&shape, step.word, step.at, 3 * S, 2);
    struct step next = shape_decide(&shape, word, 9 * S, 1);
    assert_true(shape_report(&shape, &next, 1).reset_at == 19 * S); /* a window of its own, from 9 s */
    assert_false(shape_is_dead(&shape, word, 3 * S));               /* it keeps how late it was, for a grace */
    assert_true(shape_is_dead(&shape, word, 3 * S + SHAPE_GRACE_NS));
    step = shape_decide(&shape, 0, 3 * S, 2);
    next = shape_decide(&shape, step.word, 20 * S, 1);
    assert_true(shape_undo(&shape, next.word, step.at, 20 * S, 2) == next.word); /* another window by now */

    step = shape_decide(&shape, 0, 61 * S, 1);
    word = shape_undo(&shape, step.word, step.at, 61 * S, 1);
    assert_true(shape_decide(&shape, word, 5 * S, 1).at
                >= 61 * S); /* a stale stamp begins no window beside one forgotten */
}

static void a_log_loses_entries_of_that_stamp(void **state)
{
    (void)state;
    struct shape shape = shape_of((struct weir_limit){ .algorithm = WEIR_SLIDING_LOG, .rate = { 6, 60 * S } });
    weir_ns stamps[8];
    struct log_view log = { stamps, 7, 5, 0 }; /* around the ring's end */
    struct report report;
    static const weir_ns at[] = { 1, 2, 2, 2, 3 };
    for (size_t i = 0; i < COUNT_OF(at); i++)
        assert_int_equal(log_decide(&shape, &log, at[i], 1, false, &report).outcome, WEIR_ALLOW);
    log_undo(&log, 2, 2);
    static const weir_ns kept[] = { 1, 2, 3 };
    assert_int_equal(log.count, COUNT_OF(kept));
    for (unsigned i = 0; i < log.count; i++)
        assert_true(log.stamps[(log.head + i) & log.mask] == kept[i]);
    log_undo(&log, 9, 1); /* nobody's stamp */
    assert_int_equal(log.count, COUNT_OF(kept));
    log_undo(&log, 1, 5); /* no more than there are */
    assert_int_equal(log.count, 2);
}

/* ---- Dead with grace ------------------------------------------------------------------------------------------- */

static const struct death {
    const char *why;
    struct weir_limit limit;
    weir_ns charged_at, dead_at; /* the first instant at which the word may be forgotten */
} deaths[] = {
    { "a bucket: full for a second", { .rate = { 1, S }, .burst = 10 }, 5 * S, 8 * S + SHAPE_GRACE_NS },
    { "an inexact one: the first clock at or past its word",
      { .rate = { 999, S }, .burst = 10 },
      5 * S,
      5 * S + 3003004 + SHAPE_GRACE_NS },
    { "a fixed window: over for a second",
      { .algorithm = WEIR_FIXED_WINDOW, .rate = { 10, 60 * S } },
      5 * S,
      60 * S + SHAPE_GRACE_NS },
    { "a sliding window: also its successor",
      { .algorithm = WEIR_SLIDING_WINDOW, .rate = { 10, 60 * S } },
      5 * S,
      120 * S + SHAPE_GRACE_NS },
    { "from the first request",
      { .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_FIRST_REQUEST, .rate = { 5, 10 * S } },
      5 * S,
      15 * S + SHAPE_GRACE_NS },
};

static void a_word_dies_a_second_after_it_says_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(deaths); i++) {
        const struct death *row = &deaths[i];
        struct shape shape = shape_of(row->limit);
        uint64_t word = shape_decide(&shape, 0, row->charged_at, 3).word;
        expect_row(!shape_is_dead(&shape, word, row->charged_at), row->why);
        expect_row(!shape_is_dead(&shape, word, row->dead_at - 1), row->why);
        expect_row(shape_is_dead(&shape, word, row->dead_at), row->why);
    }
    struct shape still = shape_of((struct weir_limit){ .rate = { 0, S }, .burst = 10 });
    assert_false(shape_is_dead(&still, shape_decide(&still, 0, 0, 1).word, WEIR_HORIZON));
}

static void a_log_dies_a_second_after_its_newest_left(void **state)
{
    (void)state;
    struct shape shape = shape_of((struct weir_limit){ .algorithm = WEIR_SLIDING_LOG, .rate = { 4, 60 * S } });
    weir_ns stamps[4];
    struct log_view log = { stamps, 3, 0, 0 };
    struct report report;
    assert_true(log_is_dead(&shape, &log, 0));
    (void)log_decide(&shape, &log, 5 * S, 1, false, &report);
    (void)log_decide(&shape, &log, 9 * S, 1, false, &report);
    assert_false(log_is_dead(&shape, &log, 69 * S + SHAPE_GRACE_NS - 1));
    assert_true(log_is_dead(&shape, &log, 69 * S + SHAPE_GRACE_NS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_strict_refund_returns_what_refill_has_not),
        cmocka_unit_test(a_late_refund_mints_nothing),
        cmocka_unit_test(no_undo_leaves_more_than_never_having_asked),
        cmocka_unit_test(no_undo_across_a_change_leaves_more_either),
        cmocka_unit_test(windows_give_back_in_their_own_window),
        cmocka_unit_test(a_first_request_window_emptied_again_is_absent),
        cmocka_unit_test(a_log_loses_entries_of_that_stamp),
        cmocka_unit_test(a_word_dies_a_second_after_it_says_nothing),
        cmocka_unit_test(a_log_dies_a_second_after_its_newest_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
