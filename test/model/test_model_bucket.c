// SPDX-License-Identifier: Apache-2.0
/*
 * The bucket against the exact rational GCRA, ten million operations (P1-P4, P6-P10, P46).
 *
 * The model counts in units of 1/p' of a token, p' being the reduced period: then a nanosecond is n' units, a token
 * is p' units, and the rational bucket is plain 128-bit integers. Nothing of the tick scale is shared with the code
 * under test. Stamps are drawn towards retry instants, token intervals and stale ones; half of the rates are such
 * that no tick divides a nanosecond.
 */
#include "support/unit.h"

#include "limit/shape.h"
#include "support/random.h"

__extension__ typedef unsigned __int128 u128;

#define OPERATIONS 10000000
#define SEQUENCE 50 /* operations on one bucket before it is forgotten */

/* The rate in lowest terms, and the ticks that the code under test chose. */
struct model {
    uint64_t n, p, burst;
    uint64_t a, b; /* ticks per ns in lowest terms, from n, p and m */
    u128 full_at;  /* E, in 1/p of a token */
};

struct tally {
    uint64_t operations, binary, near, allowed, denied, late, saturated;
};

struct op {
    weir_ns now;
    uint64_t cost;
};

static uint64_t gcd(uint64_t x, uint64_t y)
{
    return y == 0 ? x : gcd(y, x % y);
}

static struct model model_new(uint64_t count, uint64_t period, uint64_t burst, uint64_t ticks)
{
    uint64_t g = gcd(count, period);
    struct model model = { .n = count / g, .p = period / g, .burst = burst };
    uint64_t h = gcd(ticks, model.p);
    model.a = model.n * (ticks / h);
    model.b = model.p / h;
    return model;
}

static u128 clock_of(const struct model *model, weir_ns now)
{
    return (u128)now * model->n;
}

static u128 used_of(const struct model *model, weir_ns now)
{
    return model->full_at > clock_of(model, now) ? model->full_at - clock_of(model, now) : 0;
}

static bool model_admits(const struct model *model, weir_ns now, uint64_t cost)
{
    return cost <= model->burst && used_of(model, now) <= (u128)(model->burst - cost) * model->p;
}

static uint64_t model_remaining(const struct model *model, weir_ns now)
{
    u128 full = (u128)model->burst * model->p, used = used_of(model, now);
    return used >= full ? 0 : (uint64_t)((full - used) / model->p);
}

static void model_charge(struct model *model, weir_ns now, uint64_t cost)
{
    u128 clock = clock_of(model, now);
    model->full_at = (model->full_at > clock ? model->full_at : clock) + (u128)cost * model->p;
}

static enum weir_outcome decide(const weir_rate *rate, uint64_t word, weir_ns now, uint64_t cost)
{
    uint64_t next;
    return weir_rate_decide(rate, word, now, cost, &next);
}

/* P46: the clock is the floor of the exact one, and says whether something was cut off. */
static void check_clock(const weir_rate *rate, const struct model *model, weir_ns now)
{
    unsigned inexact;
    u128 scaled = (u128)now * model->a;
    uint64_t clock = weir_rate_clock(rate, now, &inexact);
    assert_true(clock == (uint64_t)(scaled / model->b));
    assert_true(inexact == (scaled % model->b != 0));
    assert_true(clock < UINT64_C(1) << WEIR_WORD_BITS);
}

/* P2: 0 <= word - E < 1 tick. Modulo 2^128, where a wrong word cannot hide but by a miracle. */
static void check_refines(const weir_rate *rate, const struct model *model, uint64_t word)
{
    u128 lead = (u128)word * model->p - model->full_at * rate->ticks;
    assert_true(lead < model->p);
    if (rate->b == 1)
        assert_true(lead == 0);
    assert_true(word >> 63 == 0);
}

/* P7: passes at the instant named, fails a nanosecond before. */
static void check_retry(const weir_rate *rate, uint64_t word, struct op op, struct tally *tally)
{
    weir_ns retry_at = weir_rate_retry_at(rate, word, op.now, op.cost);
    if (retry_at == WEIR_NO_TIME) {
        tally->saturated++;
        assert_int_not_equal(decide(rate, word, WEIR_HORIZON, op.cost), WEIR_ALLOW);
        return;
    }
    assert_true(retry_at > op.now && retry_at <= WEIR_HORIZON);
    assert_int_equal(decide(rate, word, retry_at, op.cost), WEIR_ALLOW);
    assert_int_equal(decide(rate, word, retry_at - 1, op.cost), WEIR_DENY);
}

/* P8, and what full_at promises: the first instant at which the clock has reached the word. */
static void check_report(const weir_rate *rate, const struct model *model, uint64_t word, weir_ns now)
{
    uint64_t exact = model_remaining(model, now);
    uint64_t remaining = weir_rate_remaining(rate, word, now);
    assert_true(remaining == exact || (rate->b != 1 && remaining + 1 == exact));
    assert_int_equal(decide(rate, word, now, remaining), WEIR_ALLOW);

    weir_ns full_at = weir_rate_full_at(rate, word, now);
    weir_ns last = full_at == WEIR_NO_TIME ? WEIR_HORIZON + 1 : full_at;
    if (full_at != WEIR_NO_TIME)
        assert_true((u128)full_at * model->a / model->b >= word);
    if (last > now)
        assert_true((u128)(last - 1) * model->a / model->b < word);
}

/* Over all pairs of stamps: admitted * p <= B * p + n * x (P1, P6). */
static void check_bound(const struct model *model, const struct op *admitted, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        for (unsigned j = 0; j < count; j++) {
            weir_ns from = admitted[i].now, to = admitted[j].now;
            u128 sum = 0;
            for (unsigned k = 0; from <= to && k < count; k++)
                if (from <= admitted[k].now && admitted[k].now <= to)
                    sum += admitted[k].cost;
            if (from <= to)
                assert_true(sum * model->p <= (u128)model->burst * model->p + (u128)(to - from) * model->n);
        }
    }
}

static weir_ns clamp(u128 instant)
{
    return instant > WEIR_HORIZON ? WEIR_HORIZON : (weir_ns)instant;
}

static uint64_t draw_cost(struct random *random, uint64_t burst)
{
    switch (random_below(random, 8)) {
    case 0:
        return 0;
    case 1:
        return burst;
    case 2:
        return burst + 1;
    case 3:
        return 1 + random_below(random, burst + 1);
    case 4:
        return 1 + random_below(random, burst < 4 ? burst + 1 : 4);
    default:
        return 1;
    }
}

/* The next stamp: near a retry, k token intervals on, stale, a step of any size, or far. */
static struct op draw(struct random *random, const weir_rate *rate, const struct model *model, uint64_t word,
                      weir_ns newest, struct tally *tally)
{
    struct op op = { newest, draw_cost(random, model->burst) };
    switch (random_below(random, 10)) {
    case 0:
    case 1:
    case 2: {
        weir_ns retry_at = weir_rate_retry_at(rate, word, newest, op.cost);
        tally->near += retry_at != WEIR_NO_TIME;
        if (retry_at != WEIR_NO_TIME)
            op.now = clamp((u128)retry_at + random_below(random, 3)) - (retry_at > 0);
        return op;
    }
    case 3:
        tally->near++;
        op.now = newest - random_below(random, newest + 1) / (1 + random_below(random, 1000));
        return op;
    case 4: {
        u128 interval = ((u128)model->p * (1 + random_below(random, 5)) + model->n - 1) / model->n;
        op.now = clamp((u128)newest + interval + random_below(random, 3) - 1);
        return op;
    }
    case 5:
        return op;
    default:
        op.now = clamp((u128)newest + (random_u64(random) >> (6 + random_below(random, 58))));
        return op;
    }
}

static void one_operation(const struct shape *shape, struct model *model, uint64_t *word, struct op op,
                          struct tally *tally)
{
    const weir_rate *rate = &shape->rate;
    uint64_t next;
    enum weir_outcome outcome = weir_rate_decide(rate, *word, op.now, op.cost, &next);
    struct step step = shape_decide(shape, *word, op.now, op.cost);
    assert_int_equal(step.outcome, outcome);
    assert_true(step.word == next && step.at == op.now);

    bool exact = model_admits(model, op.now, op.cost);
    check_clock(rate, model, op.now);
    if (op.cost > model->burst) {
        assert_int_equal(outcome, WEIR_NEVER); /* P9 */
    } else if (op.cost == 0) {
        assert_int_equal(outcome, WEIR_ALLOW);
    } else if (outcome == WEIR_ALLOW) {
        assert_true(exact); /* P1 */
        model_charge(model, op.now, op.cost);
        tally->allowed++;
    } else {
        assert_int_equal(outcome, WEIR_DENY);
        weir_ns late = rate->b == 1 ? 0 : (model->b + model->a - 1) / model->a;
        assert_true(!(exact && rate->b == 1)); /* P3 */
        if (exact && op.now + late <= WEIR_HORIZON)
            assert_int_equal(decide(rate, *word, op.now + late, op.cost), WEIR_ALLOW); /* P4 */
        tally->late += exact;
        tally->denied++;
        check_retry(rate, *word, op, tally);
    }
    if (outcome != WEIR_ALLOW || op.cost == 0)
        assert_true(next == *word); /* P10 */
    check_refines(rate, model, next);
    check_report(rate, model, next, op.now);

    struct report report = shape_report(shape, &step, op.cost);
    assert_true(report.remaining == weir_rate_remaining(rate, next, op.now));
    assert_true(report.reset_at == weir_rate_full_at(rate, next, op.now));
    if (outcome == WEIR_ALLOW && op.cost > 0)
        assert_true(report.retry_at == op.now);
    else
        assert_true(report.retry_at == weir_rate_retry_at(rate, next, op.now, op.cost));
    *word = next;
    tally->operations++;
    tally->binary += rate->b != 1;
}

static void one_bucket(struct random *random, uint64_t count, weir_ns period, uint64_t burst,
                       struct tally *tally)
{
    struct weir_limit limit = { .name = "b", .rate = { count, period }, .burst = burst };
    struct shape shape;
    if (shape_init(&shape, &limit, 0, NULL) != 0)
        return;
    struct model model = model_new(count, period, burst, shape.rate.ticks);
    struct op admitted[SEQUENCE];
    unsigned admitted_count = 0;
    uint64_t word = 0;
    weir_ns newest = clamp(random_u64(random) >> (random_below(random, 60) + 4));
    for (unsigned i = 0; i < SEQUENCE; i++) {
        struct op op = draw(random, &shape.rate, &model, word, newest, tally);
        u128 before = model.full_at;
        one_operation(&shape, &model, &word, op, tally);
        if (model.full_at != before)
            admitted[admitted_count++] = op;
        newest = op.now > newest || random_below(random, 8) == 0 ? op.now : newest;
    }
    if (random_below(random, 8) == 0)
        check_bound(&model, admitted, admitted_count);
}

/* The extremes of the specification: each with its m, a and b. */
static const struct extreme {
    uint64_t count;
    weir_ns period;
    uint64_t burst;
} extremes[] = {
    { 5, WEIR_SECOND, 20 },
    { 60, WEIR_MINUTE, 60 },
    { 7, WEIR_SECOND, 10 },
    { 3, WEIR_SECOND, 5 },
    { 1, 3 * WEIR_DAY, 3 },
    { 1, 31556952 * WEIR_SECOND, 1 },
    { 1, 31556952 * WEIR_SECOND, UINT64_C(1) << 31 },
    { 300000000, WEIR_SECOND, 1 },
    { 1000000000, WEIR_SECOND, UINT64_C(1) << 31 },
    { 1, WEIR_SECOND, UINT64_C(1) << 31 },
    { 999, WEIR_SECOND, 100 },
    { 999, WEIR_SECOND, 1 },
    { 1000003, WEIR_HOUR, 1000 },
    { 999999937, WEIR_SECOND, 1000 },
};

/* A rate of any size; odd counts above 14 of a period with many digits are the inexact ones. */
static void random_rate(struct random *random, uint64_t *count, weir_ns *period, uint64_t *burst)
{
    static const weir_ns units[] = {
        WEIR_MILLISECOND, WEIR_SECOND, WEIR_MINUTE, WEIR_HOUR, WEIR_DAY, WEIR_WEEK
    };
    *period = random_below(random, 4) == 0 ? 1 + (random_u64(random) >> (7 + random_below(random, 56)))
                                           : units[random_below(random, COUNT_OF(units))];
    *count = 1 + (random_u64(random) >> (random_below(random, 50) + 13));
    *burst = random_u64(random) >> (random_below(random, 62) + 2);
    if (random_below(random, 2) == 0)
        *burst = 1 + random_below(random, 30);
}

static void ten_million_operations_agree_with_the_rational_bucket(void **state)
{
    (void)state;
    struct random random = { random_seed(20261130) };
    struct tally tally = { 0 };
    for (uint64_t turn = 0; tally.operations < OPERATIONS; turn++) {
        uint64_t count, burst;
        weir_ns period;
        if (turn % 3 == 0) {
            const struct extreme *row = &extremes[turn / 3 % COUNT_OF(extremes)];
            one_bucket(&random, row->count, row->period, row->burst, &tally);
            continue;
        }
        random_rate(&random, &count, &period, &burst);
        one_bucket(&random, count, period, burst, &tally);
    }
    printf("%llu operations: %llu inexact, %llu near a retry or stale, %llu allowed, %llu denied (%llu late, "
           "%llu past "
           "the horizon)\n",
           (unsigned long long)tally.operations, (unsigned long long)tally.binary,
           (unsigned long long)tally.near, (unsigned long long)tally.allowed, (unsigned long long)tally.denied,
           (unsigned long long)tally.late, (unsigned long long)tally.saturated);
    assert_true(tally.binary * 2 >= tally.operations);
    assert_true(tally.near * 20 >= tally.operations);
    assert_true(tally.allowed * 10 >= tally.operations && tally.denied * 10 >= tally.operations);
}

/* P46 alone, over constants of every size: whatever weir_rate_init() accepts, its clock is exact. */
static void every_accepted_rate_has_an_exact_clock(void **state)
{
    (void)state;
    struct random random = { random_seed(46) };
    unsigned accepted = 0;
    for (unsigned i = 0; i < 300000; i++) {
        uint64_t count = 1 + (random_u64(&random) >> random_below(&random, 64)) / 2;
        weir_ns period = 1 + (random_u64(&random) >> (1 + random_below(&random, 62))) / 2;
        uint64_t burst = random_u64(&random) >> random_below(&random, 64);
        weir_rate rate;
        if (i % 16 == 0) { /* both enormous, and the rate still small */
            period = WEIR_HORIZON - random_below(&random, 1000);
            count = period + random_below(&random, 14 * period) + 1;
        }
        if (!weir_rate_init(&rate, count, period, burst))
            continue;
        accepted++;
        uint64_t g = gcd(count, period), h = gcd(rate.ticks, period / g);
        u128 a = (u128)(count / g) * (rate.ticks / h);
        uint64_t b = period / g / h;
        assert_true(a >> 64 == 0 && rate.per_b == (uint64_t)a && rate.b == b);
        struct model model = { .n = count / g, .p = period / g, .burst = burst, .a = (uint64_t)a, .b = b };
        for (unsigned k = 0; k < 4; k++)
            check_clock(&rate, &model, random_below(&random, WEIR_HORIZON + 1));
        check_clock(&rate, &model, WEIR_HORIZON);
        check_clock(&rate, &model, WEIR_HORIZON - 1);
        assert_true(burst == 0 || rate.ticks < (UINT64_C(1) << 62) / burst + 1);
    }
    assert_true(accepted > 50000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_million_operations_agree_with_the_rational_bucket),
        cmocka_unit_test(every_accepted_rate_has_an_exact_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
