// SPDX-License-Identifier: Apache-2.0
/*
 * Windows and logs against a list of everything that was admitted (P6, P9, P10, P15-P18, P20).
 *
 * The model keeps (effective stamp, cost) of every admission and counts by definition: what lies in this window, in
 * the one before, in the last period. Instants that are reported are judged by asking again at them and a nanosecond
 * before, so no formula of the code under test is repeated.
 */
#include "support/unit.h"

#include "limit/log.h"
#include "support/random.h"

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

#define OPERATIONS 4000000
#define SEQUENCE 40
#define RING 64 /* a power of two above SEQUENCE * the largest count of a log below */
#define LOG_MOST 32

enum kind { FIXED, FIRST, SLIDING, LOG, KIND_COUNT };

struct entry {
    weir_ns at; /* effective stamp */
    uint64_t cost;
};

/* What the code under test holds, and what the model remembers. */
struct world {
    enum kind kind;
    weir_ns period, phase;
    uint64_t count;
    struct shape shape;
    uint64_t word;
    struct log_view log;
    weir_ns stamps[RING];
    struct entry entries[SEQUENCE];
    unsigned entry_count;
    weir_ns newest;  /* effective, of an admission */
    weir_ns started; /* FIRST: the stored window, rounded up */
    weir_ns unit;    /* FIRST: to a multiple of this */
};

struct answer {
    struct step step;
    struct report report;
};

static uint64_t index_of(const struct world *world, weir_ns at)
{
    return (at + world->phase) / world->period;
}

static weir_ns start_of(const struct world *world, uint64_t index)
{
    weir_ns start = index * world->period;
    return start > world->phase ? start - world->phase : 0;
}

/* ---- The model -------------------------------------------------------------------------------------------- */

/* The stamp a decision at `now` holds for. */
static weir_ns effective(const struct world *world, weir_ns now)
{
    weir_ns earliest = 0;
    if (world->entry_count == 0)
        return now;
    if (world->kind == LOG)
        earliest = world->newest;
    else if (world->kind == FIRST)
        earliest = now < world->started + world->period ? world->started : 0;
    else if (index_of(world, now) < index_of(world, world->newest))
        earliest = start_of(world, index_of(world, world->newest));
    return now > earliest ? now : earliest;
}

static uint64_t sum_between(const struct world *world, i128 from, i128 to)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < world->entry_count; i++)
        if (from <= (i128)world->entries[i].at && (i128)world->entries[i].at <= to)
            sum += world->entries[i].cost;
    return sum;
}

static uint64_t sum_in_window(const struct world *world, uint64_t index)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < world->entry_count; i++)
        if (index_of(world, world->entries[i].at) == index)
            sum += world->entries[i].cost;
    return sum;
}

/* count * P - the weighted count, in 1/P of a request: negative when more than the limit weighs. */
static i128 room(const struct world *world, weir_ns now)
{
    weir_ns at = effective(world, now);
    i128 full = (i128)world->count * world->period;
    uint64_t index = index_of(world, at);
    switch (world->kind) {
    case FIXED:
        return full - (i128)sum_in_window(world, index) * world->period;
    case SLIDING: {
        uint64_t previous = index > 0 ? sum_in_window(world, index - 1) : 0;
        weir_ns elapsed = at + world->phase - index * world->period;
        return full - (i128)sum_in_window(world, index) * world->period
               - (i128)previous * (world->period - elapsed);
    }
    case LOG:
        return full - (i128)sum_between(world, (i128)at - (i128)world->period + 1, at) * world->period;
    default:
        break;
    }
    bool is_open = world->entry_count > 0 && at < world->started + world->period;
    uint64_t used = is_open ? sum_between(world, world->started, (i128)world->started + world->period - 1) : 0;
    return full - (i128)used * world->period;
}

static bool admits(const struct world *world, weir_ns now, uint64_t cost)
{
    return (i128)cost * world->period <= room(world, now);
}

static bool is_whole(const struct world *world, weir_ns now)
{
    weir_ns at = effective(world, now);
    if (world->kind != SLIDING)
        return room(world, now) == (i128)world->count * world->period;
    uint64_t index = index_of(world, at);
    return sum_in_window(world, index) == 0 && (index == 0 || sum_in_window(world, index - 1) == 0);
}

static void charge(struct world *world, weir_ns now, uint64_t cost)
{
    weir_ns at = effective(world, now);
    if (world->kind == FIRST && (world->entry_count == 0 || at >= world->started + world->period)) {
        world->started = (now + world->unit - 1) / world->unit * world->unit;
        at = world->started;
    }
    world->entries[world->entry_count++] = (struct entry){ at, cost };
    world->newest = at > world->newest ? at : world->newest;
}

/* ---- The code under test ----------------------------------------------------------------------------------- */

static struct answer ask(struct world *world, weir_ns now, uint64_t cost, bool is_peek)
{
    struct answer answer;
    if (world->kind == LOG) {
        answer.step = log_decide(&world->shape, &world->log, now, cost, is_peek, &answer.report);
        return answer;
    }
    answer.step = shape_decide(&world->shape, world->word, now, cost);
    if (is_peek)
        answer.step.word = world->word; /* a look reports what is there */
    world->word = answer.step.word;
    answer.report = shape_report(&world->shape, &answer.step, cost);
    return answer;
}

static bool world_init(struct world *world, enum kind kind, uint64_t count, weir_ns period, weir_ns phase)
{
    static const enum weir_algorithm algorithms[] = { [FIXED] = WEIR_FIXED_WINDOW,
                                                      [FIRST] = WEIR_FIXED_WINDOW,
                                                      [SLIDING] = WEIR_SLIDING_WINDOW,
                                                      [LOG] = WEIR_SLIDING_LOG };
    struct weir_limit limit = { .name = "w", .algorithm = algorithms[kind], .rate = { count, period } };
    limit.align = kind == FIRST ? WEIR_ALIGN_FIRST_REQUEST : WEIR_ALIGN_EPOCH;
    memset(world, 0, sizeof *world);
    world->kind = kind;
    world->count = count;
    world->period = period;
    world->phase = kind == FIXED || kind == SLIDING ? phase : 0;
    world->log = (struct log_view){ world->stamps, RING - 1, 0, 0 };

    /* 2.8: the smallest power of two such that 2^I units cover the horizon twice, I what the count leaves. */
    unsigned start_bits = 63;
    for (uint64_t rest = count; rest != 0; rest >>= 1)
        start_bits--;
    for (world->unit = 1; ((u128)world->unit << start_bits) < (u128)2 * WEIR_HORIZON;)
        world->unit *= 2;
    return shape_init(&world->shape, &limit, (int64_t)world->phase, NULL) == 0;
}

/* ---- Comparing --------------------------------------------------------------------------------------------- */

/* An instant is the first at which something holds: it holds there and not a nanosecond before. */
static void check_first(bool there, bool before, weir_ns instant, weir_ns at)
{
    assert_true(there);
    if (instant > at)
        assert_true(!before);
}

static void check_report(struct world *world, const struct answer *answer, weir_ns now, uint64_t cost)
{
    const struct report *report = &answer->report;
    i128 left = room(world, now) / (i128)world->period;
    assert_true(report->remaining == (left > 0 ? (uint64_t)left : 0));
    if (report->reset_at != WEIR_NO_TIME)
        check_first(is_whole(world, report->reset_at), is_whole(world, report->reset_at - 1), report->reset_at,
                    answer->step.at);
    if (answer->step.outcome == WEIR_ALLOW && cost > 0) {
        assert_true(report->retry_at == answer->step.at);
    } else if (answer->step.outcome == WEIR_DENY && report->retry_at != WEIR_NO_TIME) {
        assert_true(report->retry_at > now);
        check_first(admits(world, report->retry_at, cost), admits(world, report->retry_at - 1, cost),
                    report->retry_at, answer->step.at);
        assert_int_equal(ask(world, report->retry_at, cost, true).step.outcome, WEIR_ALLOW);
        assert_int_equal(ask(world, report->retry_at - 1, cost, true).step.outcome, WEIR_DENY);
    } else if (answer->step.outcome == WEIR_NEVER) {
        assert_true(report->retry_at == WEIR_NO_TIME);
    }
}

static bool one_operation(struct world *world, weir_ns now, uint64_t cost)
{
    weir_ns at = effective(world, now);
    bool expected = cost <= world->count && (cost == 0 || admits(world, now, cost));
    uint64_t word = world->word;
    struct log_view log = world->log;

    struct answer peek = ask(world, now, cost, true);
    assert_true(world->word == word && memcmp(&log, &world->log, sizeof log) == 0); /* P10 */
    check_report(world, &peek, now, cost);
    struct answer answer = ask(world, now, cost, false);
    assert_int_equal(peek.step.outcome, answer.step.outcome);
    assert_int_equal(answer.step.outcome, cost > world->count ? WEIR_NEVER : expected ? WEIR_ALLOW : WEIR_DENY);

    bool charged = answer.step.outcome == WEIR_ALLOW && cost > 0;
    if (charged)
        charge(world, now, cost);
    else
        assert_true(world->word == word && memcmp(&log, &world->log, sizeof log) == 0); /* P10 */
    if (charged)
        assert_true(answer.step.at == world->entries[world->entry_count - 1].at); /* decided_at */
    else
        assert_true(answer.step.at == at);
    assert_true(world->word >> 63 == 0); /* P20 */
    check_report(world, &answer, now, cost);
    return charged;
}

/* P15-P17 over every pair of effective stamps. */
static void check_bound(const struct world *world)
{
    for (unsigned i = 0; i < world->entry_count; i++) {
        for (unsigned j = 0; j < world->entry_count; j++) {
            weir_ns from = world->entries[i].at, to = world->entries[j].at, span = to - from;
            if (from > to)
                continue;
            u128 sum = sum_between(world, (i128)from, (i128)to), count = world->count;
            if (world->kind == LOG)
                assert_true(sum <= count * (1 + span / world->period));
            else if (world->kind != SLIDING)
                assert_true(sum <= count * (1 + ((u128)span + world->period - 1) / world->period));
            else if (span < world->period)
                assert_true(sum <= count + (span == 0 ? 0 : count * (span - 1) / world->period));
        }
    }
}

static weir_ns next_stamp(struct random *random, struct world *world, weir_ns newest, uint64_t cost,
                          uint64_t *near)
{
    uint64_t kind = random_below(random, 8);
    weir_ns period = world->period;
    *near += kind == 0 || kind == 3;
    if (kind == 0) /* around a window's edge */
        return start_of(world, index_of(world, newest) + random_below(random, 3)) + 1 - random_below(random, 2);
    if (kind <= 2) { /* around a retry */
        weir_ns retry_at = ask(world, newest, cost, true).report.retry_at;
        weir_ns near_it = retry_at + random_below(random, 3);
        bool is_known = retry_at != WEIR_NO_TIME && near_it > 0;
        *near += is_known;
        return is_known ? near_it - 1 : newest;
    }
    if (kind == 3) { /* stale */
        weir_ns back = random_below(random, 2 * period);
        return newest > back ? newest - back : 0;
    }
    if (kind == 4)
        return newest;
    if (kind == 5)
        return newest + random_below(random, 3 * period);
    return newest + random_below(random, period / 4 + 2);
}

static bool random_world(struct random *random, struct world *world)
{
    static const weir_ns periods[] = { WEIR_SECOND, WEIR_MINUTE,      WEIR_HOUR,     WEIR_DAY,
                                       7,           WEIR_MILLISECOND, 10 * WEIR_DAY, 333333333 };
    enum kind kind = (enum kind)random_below(random, KIND_COUNT);
    weir_ns period = periods[random_below(random, COUNT_OF(periods))];
    uint64_t count = 1 + random_below(random, 9);
    if (kind == LOG)
        count = 1 + random_below(random, LOG_MOST);
    else if (random_below(random, 3) == 0)
        count = random_u64(random) >> (random_below(random, 50) + 14);
    return world_init(world, kind, count, period, random_below(random, period));
}

static uint64_t draw_cost(struct random *random, uint64_t count)
{
    static const unsigned small[] = { 0, 1, 1, 1, 2, 3 };
    uint64_t kind = random_below(random, 10);
    if (kind < COUNT_OF(small))
        return small[kind];
    return kind == 6 ? count : kind == 7 ? count + 1 : random_below(random, count + 1);
}

static void four_million_operations_agree_with_the_lists(void **state)
{
    (void)state;
    struct random random = { random_seed(1516) };
    uint64_t operations = 0, near = 0, charged = 0, of_kind[KIND_COUNT] = { 0 };
    while (operations < OPERATIONS) {
        struct world world;
        if (!random_world(&random, &world))
            continue;
        weir_ns newest =
            random_below(&random, 2) ? random_below(&random, WEIR_HORIZON / 2) : random_below(&random, 99);
        for (unsigned i = 0; i < SEQUENCE; i++) {
            uint64_t cost = draw_cost(&random, world.count);
            weir_ns now = next_stamp(&random, &world, newest, cost, &near);
            charged += one_operation(&world, now, cost);
            newest = now > newest || random_below(&random, 8) == 0 ? now : newest;
        }
        check_bound(&world);
        operations += SEQUENCE;
        of_kind[world.kind] += SEQUENCE;
    }
    printf("%llu operations: fixed %llu, first-request %llu, sliding %llu, log %llu; %llu near an edge, %llu "
           "charged\n",
           (unsigned long long)operations, (unsigned long long)of_kind[FIXED],
           (unsigned long long)of_kind[FIRST], (unsigned long long)of_kind[SLIDING],
           (unsigned long long)of_kind[LOG], (unsigned long long)near, (unsigned long long)charged);
    assert_true(near * 20 >= operations && charged * 5 >= operations);
    for (unsigned kind = 0; kind < KIND_COUNT; kind++)
        assert_true(of_kind[kind] * 8 >= operations);
}

/* ---- Small worlds, whole ------------------------------------------------------------------------------------ */

#define DEPTH 4
#define SMALL_PERIOD 5
#define SMALL_STAMPS 12 /* two windows and two edges */

/* Try every request after this history; the histories are all sequences of up to DEPTH requests, in any order of
   stamps. */
static void every_continuation(const struct world *before, unsigned depth, uint64_t *steps)
{
    for (weir_ns now = 0; now < SMALL_STAMPS; now++) {
        for (uint64_t cost = 1; cost <= 2; cost++) {
            struct world world = *before;
            world.log.stamps = world.stamps;
            bool charged = one_operation(&world, now, cost);
            *steps += 1;
            check_bound(&world);
            if (charged && depth + 1 < DEPTH) /* a refusal changed nothing: its continuations are before's */
                every_continuation(&world, depth + 1, steps);
        }
    }
}

static void every_short_sequence_agrees_with_the_lists(void **state)
{
    (void)state;
    uint64_t steps = 0;
    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        for (uint64_t count = 1; count <= 4; count++) {
            for (weir_ns phase = 0; phase < SMALL_PERIOD; phase += 3) {
                struct world world;
                bool has_phase = kind == FIXED || kind == SLIDING;
                if ((phase > 0 && !has_phase)
                    || !world_init(&world, (enum kind)kind, count, SMALL_PERIOD, phase))
                    continue;
                every_continuation(&world, 0, &steps);
            }
        }
    }
    printf("%llu steps\n", (unsigned long long)steps);
    assert_true(steps > 500000);
}

/* The worst cases, found by trying every way to spend: a span of d holds exactly that many. */
static const struct worst {
    uint64_t count;
    unsigned ticks, span;
    uint64_t most;
} worst_cases[] = { { 4, 4, 3, 6 }, { 3, 8, 7, 5 }, { 3, 4, 3, 4 }, { 2, 5, 4, 3 } };

#define GRAIN 1000 /* ns of a tick */

static uint64_t most_in_span(const struct shape *shape, uint64_t word, unsigned tick, unsigned from,
                             unsigned to)
{
    if (tick > to)
        return 0;
    uint64_t best = most_in_span(shape, word, tick + 1, from, to), taken = 0;
    struct step step = shape_decide(shape, word, tick * (weir_ns)GRAIN, 1);
    while (step.outcome == WEIR_ALLOW) {
        taken++;
        uint64_t rest = most_in_span(shape, step.word, tick + 1, from, to) + (tick >= from ? taken : 0);
        best = rest > best ? rest : best;
        step = shape_decide(shape, step.word, tick * (weir_ns)GRAIN, 1);
    }
    return best;
}

static void the_worst_case_of_the_sliding_window_is_attained(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(worst_cases); i++) {
        const struct worst *row = &worst_cases[i];
        struct world world;
        uint64_t most = 0;
        assert_true(world_init(&world, SLIDING, row->count, row->ticks * (weir_ns)GRAIN, 0));
        for (unsigned from = 0; from < row->ticks; from++) {
            uint64_t found = most_in_span(&world.shape, 0, 0, from, from + row->span);
            most = found > most ? found : most;
        }
        assert_true(most == row->most && most <= row->count + row->count * (row->span - 1) / row->ticks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(four_million_operations_agree_with_the_lists),
                                        cmocka_unit_test(every_short_sequence_agrees_with_the_lists),
                                        cmocka_unit_test(the_worst_case_of_the_sliding_window_is_attained) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
