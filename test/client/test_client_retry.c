// SPDX-License-Identifier: Apache-2.0
/*
 * test_client_retry.c - one request's retries by hand: what each kind of reply leads to, and when.
 *
 * Random bits are chosen at their ends and in the middle, so the expected instants are the ends and the middle of the stated
 * range.
 */
#include <assert.h>

#include "support/unit.h"
#include "weir_retry.h"

#define MS WEIR_MILLISECOND
#define S WEIR_SECOND
#define NONE WEIR_NO_TIME

#define LOWEST UINT64_C(0)
#define MIDDLE (UINT64_C(1) << 63)
#define HIGHEST UINT64_MAX

/* ---- What an attempt leads to ------------------------------------------------------------------------------ */

/* The first attempt comes back at 1000 s; full jitter, base 100 ms, cap 1 s, 3 attempts. */
static const struct row {
    const char *why;
    enum weir_reply reply;
    weir_ns retry_after, deadline;
    uint64_t random;
    enum weir_retry_verdict verdict;
    weir_ns after; /* from now; with WEIR_RETRY_AT */
} rows[] = {
    { "what passed is done", WEIR_REPLY_ALLOWED, 0, NONE, LOWEST, WEIR_RETRY_DONE, 0 },
    { "never is never, whatever Retry-After says", WEIR_REPLY_NEVER, S, NONE, LOWEST, WEIR_GIVE_UP_NEVER, 0 },
    { "an answer is not asked for again", WEIR_REPLY_FINAL, S, NONE, LOWEST, WEIR_GIVE_UP_FINAL, 0 },
    { "a lost request may have been done", WEIR_REPLY_LOST, NONE, NONE, LOWEST, WEIR_GIVE_UP_LOST, 0 },
    { "denied without a time: a backoff, at least 0", WEIR_REPLY_DENIED, NONE, NONE, LOWEST, WEIR_RETRY_AT, 0 },
    { "at most the base", WEIR_REPLY_DENIED, NONE, NONE, HIGHEST, WEIR_RETRY_AT, 100 * MS },
    { "and half of it in the middle", WEIR_REPLY_DENIED, NONE, NONE, MIDDLE, WEIR_RETRY_AT, 50 * MS },
    { "undecided is like denied", WEIR_REPLY_UNDECIDED, NONE, NONE, HIGHEST, WEIR_RETRY_AT, 100 * MS },
    { "never before Retry-After", WEIR_REPLY_DENIED, 200 * MS, NONE, LOWEST, WEIR_RETRY_AT, 200 * MS },
    { "jitter on top: the backoff where it is the larger", WEIR_REPLY_DENIED, 200 * MS, NONE, HIGHEST,
      WEIR_RETRY_AT, 300 * MS },
    { "or a quarter of Retry-After", WEIR_REPLY_DENIED, 8 * S, NONE, HIGHEST, WEIR_RETRY_AT, 10 * S },
    { "the cap does not shorten Retry-After", WEIR_REPLY_DENIED, 3600 * S, NONE, LOWEST, WEIR_RETRY_AT,
      3600 * S },
    { "Retry-After 0 is now", WEIR_REPLY_DENIED, 0, NONE, LOWEST, WEIR_RETRY_AT, 0 },
    { "and even then they are spread", WEIR_REPLY_DENIED, 0, NONE, HIGHEST, WEIR_RETRY_AT, 100 * MS },
    { "503 may say how long, too", WEIR_REPLY_UNDECIDED, 2 * S, NONE, LOWEST, WEIR_RETRY_AT, 2 * S },
    { "beyond the deadline: at once", WEIR_REPLY_DENIED, 2 * S, 1002 * S - 1, LOWEST, WEIR_GIVE_UP_DEADLINE,
      0 },
    { "at the deadline: just so", WEIR_REPLY_DENIED, 2 * S, 1002 * S, HIGHEST, WEIR_RETRY_AT, 2 * S },
    { "the deadline shortens the jitter only", WEIR_REPLY_DENIED, 2 * S, 1002 * S + 40 * MS, HIGHEST,
      WEIR_RETRY_AT, 2040 * MS },
    { "and what is left is still drawn from", WEIR_REPLY_DENIED, 2 * S, 1002 * S + 40 * MS, MIDDLE,
      WEIR_RETRY_AT, 2020 * MS },
    { "a backoff too", WEIR_REPLY_DENIED, NONE, 1000 * S + 40 * MS, HIGHEST, WEIR_RETRY_AT, 40 * MS },
    { "a deadline that is now", WEIR_REPLY_DENIED, NONE, 1000 * S, HIGHEST, WEIR_RETRY_AT, 0 },
    { "a deadline that is over", WEIR_REPLY_DENIED, NONE, 1000 * S - 1, LOWEST, WEIR_GIVE_UP_DEADLINE, 0 },
    { "a Retry-After beyond all time", WEIR_REPLY_DENIED, NONE - 1, NONE, LOWEST, WEIR_GIVE_UP_DEADLINE, 0 },
    { "one that just fits, and its jitter does not", WEIR_REPLY_DENIED, NONE - 1001 * S, NONE, HIGHEST,
      WEIR_RETRY_AT, NONE - 1 - 1000 * S },
};

static void test_what_each_reply_leads_to(void **unused)
{
    (void)unused;
    static const struct weir_retry_options options = { .base = 100 * MS, .cap = S };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        struct weir_retry retry;
        weir_ns at = 12345;
        weir_retry_init(&retry, &options, row->deadline);
        enum weir_retry_verdict verdict =
            weir_retry_next(&retry, row->reply, row->retry_after, 1000 * S, row->random, &at);
        expect_row(verdict == row->verdict, row->why);
        expect_row(at == (row->verdict == WEIR_RETRY_AT ? 1000 * S + row->after : 12345), row->why);
    }
}

static void test_lost_is_tried_again_only_where_that_is_safe(void **unused)
{
    (void)unused;
    static const struct weir_retry_options options = { .is_repeatable = true };
    struct weir_retry retry;
    weir_ns at;
    weir_retry_init(&retry, &options, NONE);
    assert_int_equal(weir_retry_next(&retry, WEIR_REPLY_LOST, NONE, S, HIGHEST, &at), WEIR_RETRY_AT);
    assert_int_equal(at, S + 100 * MS);
}

/* ---- Many attempts ------------------------------------------------------------------------------------------ */

static void test_defaults_are_three_attempts_and_doubling_from_100_ms(void **unused)
{
    (void)unused;
    static const struct weir_retry_options options = { .attempts = 0 };
    struct weir_retry retry;
    weir_ns at = 0;
    weir_retry_init(&retry, &options, NONE);
    assert_int_equal(weir_retry_next(&retry, WEIR_REPLY_DENIED, NONE, 0, HIGHEST, &at), WEIR_RETRY_AT);
    assert_int_equal(at, 100 * MS);
    assert_int_equal(weir_retry_next(&retry, WEIR_REPLY_DENIED, NONE, 0, HIGHEST, &at), WEIR_RETRY_AT);
    assert_int_equal(at, 200 * MS);
    assert_int_equal(weir_retry_next(&retry, WEIR_REPLY_DENIED, NONE, 0, HIGHEST, &at), WEIR_GIVE_UP_ATTEMPTS);
    assert_int_equal(weir_retry_next(&retry, WEIR_REPLY_DENIED, NONE, 0, HIGHEST, &at), WEIR_GIVE_UP_ATTEMPTS);
    assert_int_equal(weir_retry_next(&retry, WEIR_REPLY_ALLOWED, NONE, 0, HIGHEST, &at), WEIR_RETRY_DONE);
}

static void test_one_attempt_means_no_retry(void **unused)
{
    (void)unused;
    static const struct weir_retry_options options = { .attempts = 1 };
    struct weir_retry retry;
    weir_ns at;
    weir_retry_init(&retry, &options, NONE);
    assert_int_equal(weir_retry_next(&retry, WEIR_REPLY_DENIED, 0, 0, 0, &at), WEIR_GIVE_UP_ATTEMPTS);
}

/* The most that each wait can be, with base 100 ms and cap 10 s. */
static void test_envelopes(void **unused)
{
    (void)unused;
    static const weir_ns full[] = { 100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000 };
    static const weir_ns decorrelated[] = { 300, 900, 2700, 8100, 10000, 10000 };
    static const struct {
        enum weir_jitter jitter;
        const weir_ns *most;
        size_t count;
    } modes[] = { { WEIR_JITTER_FULL, full, COUNT_OF(full) },
                  { WEIR_JITTER_DECORRELATED, decorrelated, COUNT_OF(decorrelated) } };
    for (size_t mode = 0; mode < COUNT_OF(modes); mode++) {
        struct weir_retry_options options = { .attempts = 1000, .jitter = modes[mode].jitter };
        struct weir_retry retry;
        weir_retry_init(&retry, &options, NONE);
        for (size_t i = 0; i < modes[mode].count; i++) {
            weir_ns at = 0;
            assert_int_equal(weir_retry_next(&retry, WEIR_REPLY_UNDECIDED, NONE, S, HIGHEST, &at),
                             WEIR_RETRY_AT);
            assert_int_equal(at - S, modes[mode].most[i] * MS);
        }
    }
}

static void test_decorrelated_waits_follow_the_one_before(void **unused)
{
    (void)unused;
    static const struct weir_retry_options options = { .attempts = 9, .jitter = WEIR_JITTER_DECORRELATED };
    static const struct {
        const char *why;
        weir_ns retry_after;
        uint64_t random;
        weir_ns after;
    } steps[] = {
        { "from 100 to 300 ms", NONE, MIDDLE, 200 },
        { "from 100 to 600 ms", NONE, MIDDLE, 350 },
        { "never below the base", NONE, LOWEST, 100 },
        { "and so from 100 to 300 ms again", NONE, HIGHEST, 300 },
        { "with Retry-After: up to 900 ms on top", 1000, HIGHEST, 1900 },
        { "the backoff grew meanwhile: to 900 ms, so up to 2700", NONE, HIGHEST, 2700 },
    };
    struct weir_retry retry;
    weir_retry_init(&retry, &options, NONE);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        weir_ns at = 0;
        weir_ns retry_after = steps[i].retry_after == NONE ? NONE : steps[i].retry_after * MS;
        expect_row(weir_retry_next(&retry, WEIR_REPLY_DENIED, retry_after, S, steps[i].random, &at)
                       == WEIR_RETRY_AT,
                   steps[i].why);
        expect_row(at - S == steps[i].after * MS, steps[i].why);
    }
}

static void test_extreme_options_saturate(void **unused)
{
    (void)unused;
    static const struct {
        const char *why;
        struct weir_retry_options options;
        weir_ns most; /* of the second wait, from 0 */
    } extremes[] = {
        { "a base above the cap is the cap", { .attempts = 9, .base = 5 * S, .cap = S }, S },
        { "a base that cannot be doubled", { .attempts = 9, .base = NONE, .cap = NONE }, NONE - 1 },
        { "nor tripled",
          { .attempts = 9, .jitter = WEIR_JITTER_DECORRELATED, .base = NONE - 5, .cap = NONE },
          NONE - 1 },
    };
    for (size_t i = 0; i < COUNT_OF(extremes); i++) {
        struct weir_retry retry;
        weir_ns at = 0;
        weir_retry_init(&retry, &extremes[i].options, NONE);
        expect_row(weir_retry_next(&retry, WEIR_REPLY_DENIED, NONE, 0, HIGHEST, &at) == WEIR_RETRY_AT,
                   extremes[i].why);
        expect_row(weir_retry_next(&retry, WEIR_REPLY_DENIED, NONE, 0, HIGHEST, &at) == WEIR_RETRY_AT,
                   extremes[i].why);
        expect_row(at == extremes[i].most, extremes[i].why);
    }
    /* Doublings without end. */
    struct weir_retry_options options = { .attempts = UINT32_MAX, .base = 1, .cap = NONE };
    struct weir_retry retry = { .options = &options, .deadline = NONE };
    for (int i = 0; i < 200; i++) {
        weir_ns at = 0;
        assert_int_equal(weir_retry_next(&retry, WEIR_REPLY_DENIED, NONE, 0, HIGHEST, &at), WEIR_RETRY_AT);
        assert_int_equal(at, i < 64 ? UINT64_C(1) << i : NONE - 1);
    }
}

static void test_spread_is_what_the_options_say(void **unused)
{
    (void)unused;
    static const struct weir_retry_options options = { .spread = 7 };
    struct weir_retry retry;
    weir_ns at = 0;
    weir_retry_init(&retry, &options, NONE);
    assert_int_equal(weir_retry_next(&retry, WEIR_REPLY_DENIED, 8 * S, 0, HIGHEST, &at), WEIR_RETRY_AT);
    assert_int_equal(at, 8 * S + 7);
}

/* ---- Small parts --------------------------------------------------------------------------------------------- */

static void test_draws_reach_both_ends_and_nothing_beyond(void **unused)
{
    (void)unused;
    static const struct {
        uint64_t low, high, random, drawn;
    } draws[] = {
        { 0, 0, HIGHEST, 0 },
        { 5, 4, HIGHEST, 5 },
        { 3, 4, MIDDLE - 1, 3 },
        { 3, 4, MIDDLE, 4 },
        { 0, HIGHEST, 77, 77 },
        { 0, HIGHEST, HIGHEST, HIGHEST },
        { HIGHEST, HIGHEST, 9, HIGHEST },
        { 10, 12, HIGHEST / 3, 10 },
        { 10, 12, HIGHEST / 3 + 1, 11 },
    };
    for (size_t i = 0; i < COUNT_OF(draws); i++)
        assert_int_equal(weir_retry_draw(draws[i].low, draws[i].high, draws[i].random), draws[i].drawn);
}

static void test_statuses_and_outcomes(void **unused)
{
    (void)unused;
    static const struct {
        unsigned status;
        enum weir_reply reply;
    } statuses[] = {
        { 200, WEIR_REPLY_ALLOWED }, { 204, WEIR_REPLY_ALLOWED },   { 304, WEIR_REPLY_ALLOWED },
        { 429, WEIR_REPLY_DENIED },  { 503, WEIR_REPLY_UNDECIDED }, { 0, WEIR_REPLY_LOST },
        { 408, WEIR_REPLY_LOST },    { 502, WEIR_REPLY_LOST },      { 504, WEIR_REPLY_LOST },
        { 400, WEIR_REPLY_FINAL },   { 401, WEIR_REPLY_FINAL },     { 403, WEIR_REPLY_FINAL },
        { 404, WEIR_REPLY_FINAL },   { 500, WEIR_REPLY_FINAL },     { 501, WEIR_REPLY_FINAL },
        { 100, WEIR_REPLY_FINAL },
    };
    static const enum weir_reply outcomes[] = {
        [WEIR_ALLOW] = WEIR_REPLY_ALLOWED,     [WEIR_WAIT] = WEIR_REPLY_ALLOWED,
        [WEIR_DENY] = WEIR_REPLY_DENIED,       [WEIR_NEVER] = WEIR_REPLY_NEVER,
        [WEIR_DUPLICATE] = WEIR_REPLY_ALLOWED, [WEIR_UNMETERED] = WEIR_REPLY_ALLOWED,
        [WEIR_REFUSED] = WEIR_REPLY_UNDECIDED,
    };
    static_assert(COUNT_OF(outcomes) == WEIR_OUTCOME_COUNT, "every outcome is some reply");
    for (size_t i = 0; i < COUNT_OF(statuses); i++)
        assert_int_equal(weir_reply_from_status(statuses[i].status), statuses[i].reply);
    for (int i = 0; i < WEIR_OUTCOME_COUNT; i++)
        assert_int_equal(weir_reply_from_outcome((enum weir_outcome)i), outcomes[i]);
}

static void test_every_verdict_has_a_word_of_its_own(void **unused)
{
    (void)unused;
    for (int i = 0; i < WEIR_RETRY_VERDICT_COUNT; i++) {
        assert_non_null(weir_retry_verdict_name((enum weir_retry_verdict)i));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(weir_retry_verdict_name((enum weir_retry_verdict)i),
                                    weir_retry_verdict_name((enum weir_retry_verdict)j));
    }
    assert_null(weir_retry_verdict_name(WEIR_RETRY_VERDICT_COUNT));
}

static void test_pace_only_slows_down(void **unused)
{
    (void)unused;
    static const struct {
        const char *why;
        weir_ns interval;
        uint64_t remaining;
        weir_ns after, paced;
    } paces[] = {
        { "50 left for 10 s: one each 200 ms", 0, 50, 10 * S, 200 * MS },
        { "who is slower stays so", S, 50, 10 * S, S },
        { "10,000 for 10 s is no invitation", 100 * MS, 10000, 10 * S, 100 * MS },
        { "nothing left: one when there is more", 100 * MS, 0, 10 * S, 10 * S },
        { "no time is no advice", 100 * MS, 0, NONE, 100 * MS },
        { "rounded up", 0, 3, 10, 4 },
    };
    for (size_t i = 0; i < COUNT_OF(paces); i++)
        expect_row(weir_retry_pace(paces[i].interval, paces[i].remaining, paces[i].after) == paces[i].paced,
                   paces[i].why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_each_reply_leads_to),
        cmocka_unit_test(test_lost_is_tried_again_only_where_that_is_safe),
        cmocka_unit_test(test_defaults_are_three_attempts_and_doubling_from_100_ms),
        cmocka_unit_test(test_one_attempt_means_no_retry),
        cmocka_unit_test(test_envelopes),
        cmocka_unit_test(test_decorrelated_waits_follow_the_one_before),
        cmocka_unit_test(test_extreme_options_saturate),
        cmocka_unit_test(test_spread_is_what_the_options_say),
        cmocka_unit_test(test_draws_reach_both_ends_and_nothing_beyond),
        cmocka_unit_test(test_statuses_and_outcomes),
        cmocka_unit_test(test_every_verdict_has_a_word_of_its_own),
        cmocka_unit_test(test_pace_only_slows_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
