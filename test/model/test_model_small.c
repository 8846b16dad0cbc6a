// SPDX-License-Identifier: Apache-2.0
/*
 * Every rate, burst, state, stamp and cost of a world so small that all of them can be tried (P1-P10, P46).
 *
 * The same header, compiled with a horizon of some sixty nanoseconds and time and level parts of eight bits, must choose ticks by
 * the same rules: rates like 5 per 7 ns become inexact there as 999/s does in the large. The states are those of the
 * rational bucket, in units of 1/p' of a token, with the word that P2 says must stand for each: ceil(E * m / p').
 * Taking every request from every state to such a state again is the induction step of P1, P2 and P6, whole.
 */
#define WEIR_HORIZON UINT64_C(60)
#define WEIR_WORD_BITS 8
#include "weir_bucket.h"

#include "support/unit.h"

#define RATE_MOST 11
#define BURST_MOST 6

struct world {
    weir_rate rate;
    uint64_t n, p; /* in lowest terms */
    uint64_t burst;
};

struct tally {
    uint64_t rates, inexact, states, steps, late;
};

static uint64_t gcd(uint64_t x, uint64_t y)
{
    return y == 0 ? x : gcd(y, x % y);
}

/* floor(t * n * m / p), by definition. */
static uint64_t ticks_at(const struct world *world, weir_ns now)
{
    return now * world->n * world->rate.ticks / world->p;
}

/* The word that stands for the exact state E: the first tick at or after it. */
static uint64_t word_of(const struct world *world, uint64_t exact)
{
    return (exact * world->rate.ticks + world->p - 1) / world->p;
}

static bool exact_admits(const struct world *world, uint64_t exact, weir_ns now, uint64_t cost)
{
    uint64_t clock = now * world->n, used = exact > clock ? exact - clock : 0;
    return used + cost * world->p <= world->burst * world->p;
}

static enum weir_outcome ask(const struct world *world, uint64_t word, weir_ns now, uint64_t cost,
                             uint64_t *next)
{
    return weir_rate_decide(&world->rate, word, now, cost, next);
}

static void check_retry(const struct world *world, uint64_t word, weir_ns now, uint64_t cost)
{
    weir_ns retry_at = weir_rate_retry_at(&world->rate, word, now, cost);
    uint64_t next;
    weir_ns first = now;
    while (first <= WEIR_HORIZON && ask(world, word, first, cost, &next) != WEIR_ALLOW)
        first++;
    assert_true(retry_at == (first <= WEIR_HORIZON ? first : WEIR_NO_TIME)); /* P7, by trying every instant */
}

static void check_report(const struct world *world, uint64_t exact, uint64_t word, weir_ns now)
{
    uint64_t clock = now * world->n, full = world->burst * world->p, next;
    uint64_t used = exact > clock ? exact - clock : 0;
    uint64_t floor = used >= full ? 0 : (full - used) / world->p;
    uint64_t remaining = weir_rate_remaining(&world->rate, word, now);
    assert_true(remaining == floor || (world->rate.b != 1 && remaining + 1 == floor)); /* P8 */
    assert_int_equal(ask(world, word, now, remaining, &next), WEIR_ALLOW);
    weir_ns first = now;
    while (first <= WEIR_HORIZON && ticks_at(world, first) < word)
        first++;
    assert_true(weir_rate_full_at(&world->rate, word, now) == (first <= WEIR_HORIZON ? first : WEIR_NO_TIME));
}

static void one_step(const struct world *world, uint64_t exact, weir_ns now, uint64_t cost, struct tally *tally)
{
    uint64_t word = word_of(world, exact), next;
    enum weir_outcome outcome = ask(world, word, now, cost, &next);
    uint64_t clock = now * world->n;
    tally->steps++;
    if (cost > world->burst || cost == 0) {
        assert_int_equal(outcome, cost > world->burst ? WEIR_NEVER : WEIR_ALLOW); /* P9 */
        assert_true(next == word);                                                /* P10 */
        return;
    }
    bool admits = exact_admits(world, exact, now, cost);
    if (outcome == WEIR_ALLOW) {
        assert_true(admits); /* P1 */
        uint64_t after = (exact > clock ? exact : clock) + cost * world->p;
        assert_true(next == word_of(world, after));        /* P2 */
        assert_true(next < UINT64_C(2) << WEIR_WORD_BITS); /* P5: time part and level part fit together */
        return;
    }
    assert_int_equal(outcome, WEIR_DENY);
    assert_true(next == word);
    check_retry(world, word, now, cost);
    if (admits) { /* P3, P4 */
        weir_ns later = now + (world->rate.b + world->rate.per_b - 1) / world->rate.per_b;
        assert_true(world->rate.b != 1);
        tally->late++;
        if (later <= WEIR_HORIZON)
            assert_int_equal(ask(world, word, later, cost, &next), WEIR_ALLOW);
    }
}

/* The choice of m, with this world's budgets. */
static uint64_t ticks_by_the_book(const struct world *world)
{
    uint64_t limit = UINT64_C(1) << WEIR_WORD_BITS;
    uint64_t by_time = limit * world->p / (world->n * WEIR_HORIZON);
    uint64_t by_level = (limit - 1) / (world->burst == 0 ? 1 : world->burst);
    uint64_t cap = by_time < by_level ? by_time : by_level, m = 1;
    if (world->p <= cap)
        return world->p;
    while (2 * m <= cap)
        m *= 2;
    return cap == 0 ? 0 : m;
}

static void one_rate(uint64_t count, weir_ns period, uint64_t burst, struct tally *tally)
{
    uint64_t g = gcd(count, period);
    struct world world = { .n = count / g, .p = period / g, .burst = burst };
    uint64_t book = ticks_by_the_book(&world);
    bool is_made = weir_rate_init(&world.rate, count, period, burst);
    assert_true(is_made == (book > 0));
    if (!is_made)
        return;
    assert_true(world.rate.ticks == book);
    assert_true(world.rate.per_b * world.p == world.n * book * world.rate.b
                && gcd(world.rate.per_b, world.rate.b) == 1);
    tally->rates++;
    tally->inexact += world.rate.b != 1;

    for (weir_ns now = 0; now <= WEIR_HORIZON; now++) { /* P46 */
        unsigned inexact;
        assert_true(weir_rate_clock(&world.rate, now, &inexact) == ticks_at(&world, now));
        assert_true(inexact == (now * world.n * book % world.p != 0));
    }
    /* Exact states a bucket can have: up to a burst above the clock at the horizon. */
    uint64_t most = WEIR_HORIZON * world.n + burst * world.p, next;
    for (uint64_t exact = 0; exact <= most; exact++) {
        tally->states++;
        for (weir_ns now = 0; now <= WEIR_HORIZON; now++) {
            check_report(&world, exact, word_of(&world, exact), now);
            for (uint64_t cost = 0; cost <= burst + 1; cost++)
                one_step(&world, exact, now, cost, tally);
        }
        assert_int_equal(ask(&world, word_of(&world, exact), WEIR_HORIZON + 1, burst > 0, &next), WEIR_REFUSED);
        assert_true(next == word_of(&world, exact));
    }
}

static void every_state_of_every_small_rate(void **state)
{
    (void)state;
    struct tally tally = { 0 };
    for (uint64_t count = 1; count <= RATE_MOST; count++)
        for (weir_ns period = 1; period <= RATE_MOST; period++)
            for (uint64_t burst = 0; burst <= BURST_MOST; burst++)
                one_rate(count, period, burst, &tally);
    printf("%llu rates (%llu inexact), %llu states, %llu steps, %llu of them late by less than a tick\n",
           (unsigned long long)tally.rates, (unsigned long long)tally.inexact, (unsigned long long)tally.states,
           (unsigned long long)tally.steps, (unsigned long long)tally.late);
    assert_true(tally.inexact > 100 && tally.late > 100);
}

/* Rate 0: one tick a token, the burst once, nothing ever returns. */
static void nothing_refills_at_rate_zero(void **state)
{
    (void)state;
    weir_rate rate;
    uint64_t next;
    for (uint64_t burst = 0; burst <= BURST_MOST; burst++) {
        assert_true(weir_rate_init(&rate, 0, 5, burst));
        for (uint64_t word = 0; word <= burst; word++) {
            for (weir_ns now = 0; now <= WEIR_HORIZON; now++) {
                assert_true(weir_rate_remaining(&rate, word, now) == burst - word);
                assert_true(weir_rate_full_at(&rate, word, now) == (word == 0 ? now : WEIR_NO_TIME));
                for (uint64_t cost = 1; cost <= burst; cost++) {
                    bool passes = cost <= burst - word;
                    assert_int_equal(weir_rate_decide(&rate, word, now, cost, &next),
                                     passes ? WEIR_ALLOW : WEIR_DENY);
                    assert_true(next == (passes ? word + cost : word));
                    assert_true(weir_rate_retry_at(&rate, word, now, cost) == (passes ? now : WEIR_NO_TIME));
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_state_of_every_small_rate),
                                        cmocka_unit_test(nothing_refills_at_rate_zero) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
