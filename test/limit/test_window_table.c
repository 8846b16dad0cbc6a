// SPDX-License-Identifier: Apache-2.0
/* Windows and the log by example: the worked examples of algorithms 1.4-1.6 and 8.1, and the sizes of 2.8. */
#include "support/unit.h"

#include "limit/log.h"

#define S WEIR_SECOND
#define MINUTE WEIR_MINUTE

/* ---- What fits a word ---------------------------------------------------------------------------------------- */

static const struct size {
    const char *why;
    enum weir_algorithm algorithm;
    weir_ns period;
    unsigned count_bits; /* 63 - I, or half of it; I is the least with 2^I * P >= 2 H */
} sizes[] = {
    { "1 s: I = 30", WEIR_FIXED_WINDOW, S, 33 },
    { "1 s: two counts of 16 bits", WEIR_SLIDING_WINDOW, S, 16 },
    { "60 s: I = 24", WEIR_FIXED_WINDOW, MINUTE, 39 },
    { "60 s: two of 19 bits", WEIR_SLIDING_WINDOW, MINUTE, 19 },
    { "1 h: I = 18", WEIR_FIXED_WINDOW, WEIR_HOUR, 45 },
    { "1 h: two of 22 bits, 4.1 million", WEIR_SLIDING_WINDOW, WEIR_HOUR, 22 },
    { "1 d: I = 13", WEIR_FIXED_WINDOW, WEIR_DAY, 50 },
    { "1 d: two of 25 bits", WEIR_SLIDING_WINDOW, WEIR_DAY, 25 },
    { "1 ms: I = 40", WEIR_FIXED_WINDOW, WEIR_MILLISECOND, 23 },
    { "1 ms: two of 11 bits", WEIR_SLIDING_WINDOW, WEIR_MILLISECOND, 11 },
};

static void counts_fit_what_the_index_leaves_and_no_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const struct size *row = &sizes[i];
        uint64_t most = (UINT64_C(1) << row->count_bits) - 1;
        struct weir_limit limit = { .name = "w", .algorithm = row->algorithm, .rate = { most, row->period } };
        struct shape shape;
        expect_row(shape_init(&shape, &limit, 0, NULL) == 0, row->why);
        expect_row(shape.window.count_bits == row->count_bits && shape.capacity == most, row->why);
        limit.rate.count = most + 1;
        expect_row(shape_init(&shape, &limit, 0, NULL) == WEIR_ERR_COUNT, row->why);
    }
}

static void a_full_count_at_the_last_instant_survives_its_word(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const struct size *row = &sizes[i];
        uint64_t most = (UINT64_C(1) << row->count_bits) - 1;
        struct weir_limit limit = { .name = "w", .algorithm = row->algorithm, .rate = { most, row->period } };
        struct shape shape;
        assert_int_equal(shape_init(&shape, &limit, (int64_t)row->period - 1, NULL), 0);
        struct step step = shape_decide(&shape, 0, WEIR_HORIZON, most);
        expect_row(step.outcome == WEIR_ALLOW && step.word >> 63 == 0, row->why);
        expect_row(shape_report(&shape, &step, most).remaining == 0, row->why);
        expect_row(shape_decide(&shape, step.word, WEIR_HORIZON, 1).outcome == WEIR_DENY, row->why);
        expect_row(shape_decide(&shape, step.word, WEIR_HORIZON + 1, 1).outcome == WEIR_REFUSED, row->why);
    }
}

static const struct refusal {
    const char *why;
    struct weir_limit limit;
    int code;
} refusals[] = {
    { "no period", { .algorithm = WEIR_FIXED_WINDOW, .rate = { 1, 0 } }, WEIR_ERR_PERIOD },
    { "a bucket without a period", { .rate = { 1, 0 }, .burst = 1 }, WEIR_ERR_PERIOD },
    { "a period past the horizon", { .rate = { 1, WEIR_HORIZON + 1 }, .burst = 1 }, WEIR_ERR_PERIOD },
    { "B09 (d): 2 TiB/s",
      { .rate = { UINT64_C(2199023255552), S }, .burst = UINT64_C(34359738368) },
      WEIR_ERR_RATE },
    { "a burst without room for a tick", { .rate = { 1, S }, .burst = UINT64_C(1) << 62 }, WEIR_ERR_BURST },
    { "a log of 65,537", { .algorithm = WEIR_SLIDING_LOG, .rate = { 65537, S } }, WEIR_ERR_LOG_COUNT },
    { "B09 (e): 2^32 a day is too much for a sliding window",
      { .algorithm = WEIR_SLIDING_WINDOW, .rate = { UINT64_C(4294967296), WEIR_DAY } },
      WEIR_ERR_COUNT },
    { "no such algorithm", { .algorithm = (enum weir_algorithm)99, .rate = { 1, S } }, WEIR_ERR_ALGORITHM },
    { "a bucket has no windows to align",
      { .rate = { 1, S }, .burst = 1, .align = WEIR_ALIGN_FIRST_REQUEST },
      WEIR_ERR_ALIGN },
    { "nor has a sliding window a choice",
      { .algorithm = WEIR_SLIDING_WINDOW, .rate = { 1, S }, .align = WEIR_ALIGN_CALENDAR },
      WEIR_ERR_ALIGN },
    { "no such alignment",
      { .algorithm = WEIR_FIXED_WINDOW, .rate = { 1, S }, .align = (enum weir_align)9 },
      WEIR_ERR_ALIGN },
    { "no such policy",
      { .rate = { 1, S }, .burst = 1, .when_full = (enum weir_when_full)9 },
      WEIR_ERR_OPTION },
};

static void what_does_not_fit_is_refused_by_its_own_code(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        struct shape shape;
        expect_row(shape_init(&shape, &refusals[i].limit, 0, NULL) == refusals[i].code, refusals[i].why);
    }
    struct weir_limit log = { .algorithm = WEIR_SLIDING_LOG, .rate = { 65536, S } };
    struct weir_limit daily = { .algorithm = WEIR_FIXED_WINDOW, .rate = { UINT64_C(4294967296), WEIR_DAY } };
    struct shape shape;
    assert_int_equal(shape_init(&shape, &log, 0, NULL), 0);
    assert_int_equal(shape_init(&shape, &daily, 0, NULL), 0);
    assert_true(shape.capacity == UINT64_C(4294967296));
}

/* ---- The counters by example --------------------------------------------------------------------------------- */

struct row {
    const char *why;
    weir_ns at;
    uint64_t cost;
    enum weir_outcome outcome;
    uint64_t remaining;
    weir_ns decided_at, retry_at, reset_at;
};

static void play(const struct weir_limit *limit, int64_t wall, const struct row *rows, size_t count)
{
    struct shape shape;
    uint64_t word = 0;
    assert_int_equal(shape_init(&shape, limit, wall, NULL), 0);
    for (size_t i = 0; i < count; i++) {
        struct step step = shape_decide(&shape, word, rows[i].at, rows[i].cost);
        struct report report = shape_report(&shape, &step, rows[i].cost);
        expect_row(step.outcome == rows[i].outcome, rows[i].why);
        if (step.outcome != WEIR_ALLOW || rows[i].cost == 0)
            expect_row(step.word == word, rows[i].why);
        expect_row(report.remaining == rows[i].remaining, rows[i].why);
        expect_row(step.at == rows[i].decided_at, rows[i].why);
        expect_row(report.retry_at == rows[i].retry_at, rows[i].why);
        expect_row(report.reset_at == rows[i].reset_at, rows[i].why);
        word = step.word;
    }
}

/* The worked example of 1.6, in seconds: what was rounded to whole units there is exact here. */
static const struct row sliding[] = {
    { "86 in the first minute", 30 * S, 86, WEIR_ALLOW, 14, 30 * S, 30 * S, 120 * S },
    { "12 in the second: the estimate is 76.5", 75 * S, 12, WEIR_ALLOW, 23, 75 * S, 75 * S, 180 * S },
    { "24 do not fit", 75 * S, 24, WEIR_DENY, 23, 75 * S, 60 * S + UINT64_C(15348837210), 180 * S },
    { "30 must wait longer", 75 * S, 30, WEIR_DENY, 23, 75 * S, 60 * S + UINT64_C(19534883721), 180 * S },
    { "89 need the next minute: 11 of 12 may still weigh", 75 * S, 89, WEIR_DENY, 23, 75 * S, 125 * S,
      180 * S },
    { "an older window's stamp counts at the start of the stored one", 59 * S, 1, WEIR_ALLOW, 1, 60 * S, 60 * S,
      180 * S },
    { "23 fit, less the one", 75 * S, 22, WEIR_ALLOW, 0, 75 * S, 75 * S, 180 * S },
    { "above the limit", 75 * S, 101, WEIR_NEVER, 0, 75 * S, WEIR_NO_TIME, 180 * S },
    { "two windows on, all is forgotten", 200 * S, 0, WEIR_ALLOW, 100, 200 * S, 200 * S, 200 * S },
};

/* 60 a minute around an edge, and what a stale stamp means. */
static const struct row fixed[] = {
    { "sixty just before the edge", MINUTE - 1, 60, WEIR_ALLOW, 0, MINUTE - 1, MINUTE - 1, MINUTE },
    { "one more waits for the edge", MINUTE - 1, 1, WEIR_DENY, 0, MINUTE - 1, MINUTE, MINUTE },
    { "sixty just after: 120 within a nanosecond", MINUTE, 60, WEIR_ALLOW, 0, MINUTE, MINUTE, 2 * MINUTE },
    { "a stale stamp holds for the stored window", MINUTE - 1, 1, WEIR_DENY, 0, MINUTE, 2 * MINUTE,
      2 * MINUTE },
    { "sixty-one never", 2 * MINUTE, 61, WEIR_NEVER, 60, 2 * MINUTE, WEIR_NO_TIME, 2 * MINUTE },
};

/* Three a 10 s from the first request. */
static const struct row first[] = {
    { "the window begins here", 7 * S + 3, 1, WEIR_ALLOW, 2, 7 * S + 3, 7 * S + 3, 17 * S + 3 },
    { "two more", 9 * S, 2, WEIR_ALLOW, 0, 9 * S, 9 * S, 17 * S + 3 },
    { "a stale stamp holds for the window's start", S, 1, WEIR_DENY, 0, 7 * S + 3, 17 * S + 3, 17 * S + 3 },
    { "the last nanosecond", 17 * S + 2, 1, WEIR_DENY, 0, 17 * S + 2, 17 * S + 3, 17 * S + 3 },
    { "over: the next begins", 17 * S + 3, 3, WEIR_ALLOW, 0, 17 * S + 3, 17 * S + 3, 27 * S + 3 },
};

/* Unix time 40 s past the minute at the origin. */
static const struct row phased[] = {
    { "20 s are left of the wall's minute", 0, 60, WEIR_ALLOW, 0, 0, 0, 20 * S },
    { "the last nanosecond of them", 20 * S - 1, 1, WEIR_DENY, 0, 20 * S - 1, 20 * S, 20 * S },
    { "the wall's next minute", 20 * S, 1, WEIR_ALLOW, 59, 20 * S, 20 * S, 80 * S },
};

static void windows_by_example(void **state)
{
    (void)state;
    struct weir_limit limit = { .name = "w", .algorithm = WEIR_SLIDING_WINDOW, .rate = { 100, MINUTE } };
    play(&limit, 0, sliding, COUNT_OF(sliding));
    limit = (struct weir_limit){ .name = "w", .algorithm = WEIR_FIXED_WINDOW, .rate = { 60, MINUTE } };
    play(&limit, 0, fixed, COUNT_OF(fixed));
    play(&limit, (int64_t)(100 * S), phased, COUNT_OF(phased));
    play(&limit, -(int64_t)(20 * S), phased, COUNT_OF(phased)); /* a wall before 1970 */
    limit.rate = (struct weir_quota){ 3, 10 * S };
    limit.align = WEIR_ALIGN_FIRST_REQUEST;
    play(&limit, 0, first, COUNT_OF(first));
}

/* The same example in whole units, as the text has it: P = 60 units, at e = 15. */
static void the_worked_example_in_whole_units(void **state)
{
    (void)state;
    enum { UNIT = 1000000 };
    struct weir_limit limit = { .name = "w", .algorithm = WEIR_SLIDING_WINDOW, .rate = { 100, 60 * UNIT } };
    struct shape shape;
    assert_int_equal(shape_init(&shape, &limit, 0, NULL), 0);
    uint64_t word = shape_decide(&shape, 0, 0, 86).word;
    word = shape_decide(&shape, word, 75 * UNIT, 12).word;
    assert_int_equal(shape_decide(&shape, word, 75 * UNIT, 23).outcome, WEIR_ALLOW);
    assert_int_equal(shape_decide(&shape, word, 75 * UNIT, 24).outcome, WEIR_DENY);
    assert_int_equal(shape_decide(&shape, word, 76 * UNIT, 24).outcome, WEIR_ALLOW);
    assert_int_equal(shape_decide(&shape, word, 79 * UNIT, 30).outcome, WEIR_DENY);
    assert_int_equal(shape_decide(&shape, word, 80 * UNIT, 30).outcome, WEIR_ALLOW);
}

/* The start of a first-request window is rounded up to what 63 bits leave beside the count (2.8). */
static const struct unit {
    const char *why;
    uint64_t count;
    weir_ns period;
    unsigned unit_bits;
    int code;
} units[] = {
    { "two bits of count: every nanosecond", 3, S, 0, 0 },
    { "three bits leave 60", 7, S, 0, 0 },
    { "four bits leave 59, one too few", 8, S, 1, 0 },
    { "100: 16 ns", 100, S, 4, 0 },
    { "1000: 128 ns", 1000, S, 7, 0 },
    { "a million a day: 131 us", 1000000, WEIR_DAY, 17, 0 },
    { "so many in a second that the start would be seconds off", UINT64_C(1) << 40, S, 38, WEIR_ERR_COUNT },
};

static void first_request_starts_round_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        const struct unit *row = &units[i];
        struct weir_limit limit = { .name = "w",
                                    .algorithm = WEIR_FIXED_WINDOW,
                                    .align = WEIR_ALIGN_FIRST_REQUEST,
                                    .rate = { row->count, row->period } };
        struct shape shape;
        expect_row(shape_init(&shape, &limit, 0, NULL) == row->code, row->why);
        if (row->code != 0)
            continue;
        expect_row(shape.first.unit_bits == row->unit_bits, row->why);
        struct step step = shape_decide(&shape, 0, 12345 * S + 1, 1);
        weir_ns unit = UINT64_C(1) << row->unit_bits, start = (12345 * S + 1 + unit - 1) / unit * unit;
        expect_row(shape_report(&shape, &step, 1).reset_at == start + row->period, row->why);
        expect_row(shape_decide(&shape, step.word, start + row->period - 1, row->count).outcome == WEIR_DENY,
                   row->why);
        expect_row(shape_decide(&shape, step.word, start + row->period, row->count).outcome == WEIR_ALLOW,
                   row->why);
    }
}

/* ---- The log --------------------------------------------------------------------------------------------------- */

static const struct row log_rows[] = {
    /* B19: two a minute */
    { "the first", 0, 1, WEIR_ALLOW, 1, 0, 0, MINUTE },
    { "the second", 10 * S, 1, WEIR_ALLOW, 0, 10 * S, 10 * S, 70 * S },
    { "the third waits for the oldest, not for a whole window", 20 * S, 1, WEIR_DENY, 0, 20 * S, MINUTE,
      70 * S },
    { "two wait for both", 20 * S, 2, WEIR_DENY, 0, 20 * S, 70 * S, 70 * S },
    { "a nanosecond early", MINUTE - 1, 1, WEIR_DENY, 0, MINUTE - 1, MINUTE, 70 * S },
    { "exactly a period old no longer counts", MINUTE, 1, WEIR_ALLOW, 0, MINUTE, MINUTE, 120 * S },
    { "a stale stamp holds for the newest", 30 * S, 1, WEIR_DENY, 0, MINUTE, 70 * S, 120 * S },
    { "a look", MINUTE, 0, WEIR_ALLOW, 0, MINUTE, 70 * S, 120 * S },
    { "three never", MINUTE, 3, WEIR_NEVER, 0, MINUTE, WEIR_NO_TIME, 120 * S },
    { "all gone", 120 * S, 0, WEIR_ALLOW, 2, 120 * S, 120 * S, 120 * S },
};

static void B19_the_log_by_example(void **state)
{
    (void)state;
    struct weir_limit limit = { .name = "w", .algorithm = WEIR_SLIDING_LOG, .rate = { 2, MINUTE } };
    struct shape shape;
    weir_ns stamps[2];
    struct log_view log = { stamps, 1, 0, 0 };
    struct report report;
    assert_int_equal(shape_init(&shape, &limit, 0, NULL), 0);
    for (size_t i = 0; i < COUNT_OF(log_rows); i++) {
        const struct row *row = &log_rows[i];
        struct step step = log_decide(&shape, &log, row->at, row->cost, false, &report);
        expect_row(step.outcome == row->outcome && step.at == row->decided_at, row->why);
        expect_row(report.remaining == row->remaining, row->why);
        expect_row(report.retry_at == row->retry_at && report.reset_at == row->reset_at, row->why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_fit_what_the_index_leaves_and_no_more),
        cmocka_unit_test(a_full_count_at_the_last_instant_survives_its_word),
        cmocka_unit_test(what_does_not_fit_is_refused_by_its_own_code),
        cmocka_unit_test(windows_by_example),
        cmocka_unit_test(the_worked_example_in_whole_units),
        cmocka_unit_test(first_request_starts_round_up),
        cmocka_unit_test(B19_the_log_by_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
