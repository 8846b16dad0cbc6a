// SPDX-License-Identifier: Apache-2.0
/*
 * Buckets as pure functions: taking, charging, giving back, charged refusals, changes of size and keys that begin spent,
 * against the exact ledger, and every interval of each schedule against P11, P13 and P14. A million and a quarter of
 * operations.
 *
 * The word may stand a few ticks above the exact level: one for the clock, one where a charge began at an inexact instant,
 * one for each change (P2, P14). So answers may differ where the exact room is within those, and nowhere else.
 */
#include "support/unit.h"

#include "limit/shape.h"
#include "model/ledger.h"
#include "support/random.h"

#define SCHEDULES 36000
#define STEPS 36

static const struct size sizes[] = {
    { { 5, WEIR_SECOND }, 20, 0 },   { { 10, WEIR_SECOND }, 20, 30 },   { { 7, WEIR_SECOND }, 6, 5 },
    { { 10, WEIR_MINUTE }, 10, 40 }, { { 1000, WEIR_SECOND }, 10, 3 },  { { 10, 24 * WEIR_HOUR }, 10, 0 },
    { { 999, WEIR_SECOND }, 12, 8 }, { { 1000003, WEIR_HOUR }, 40, 4 }, { { 1, WEIR_SECOND }, 1, 1 },
    { { 0, WEIR_SECOND }, 9, 9 },    { { 3, WEIR_MINUTE }, 8, 100 },
};

struct world {
    struct random random;
    struct shape shapes[2]; /* by turns: the one in force, and the next */
    unsigned current;
    struct ledger ledger;
    struct book book;
    uint64_t word;
    weir_ns newest;
    /* How far the word may stand above the ledger, in units; and below it: what is cut, at a cap or at the brim, is cut as of
       the clock rounded down (1.13), which a stale stamp can see. */
    i128 slack, below;
    bool is_charged;
};

static const struct shape *shape_of(const struct world *world)
{
    return &world->shapes[world->current];
}

static i128 tick_units(const struct shape *shape)
{
    return LEDGER_TOKEN / (i128)shape->rate.ticks + 1;
}

static void make_shape(struct world *world, struct shape *shape, const struct size *size, weir_ns since)
{
    const struct weir_limit limit = { .name = "b",
                                      .rate = size->rate,
                                      .burst = size->burst,
                                      .debt = size->debt,
                                      .refused = world->is_charged ? WEIR_REFUSAL_CHARGED : WEIR_REFUSAL_FREE,
                                      .state_lost = WEIR_LOST_EMPTY };
    assert_int_equal(shape_init(shape, &limit, 0, NULL), 0);
    shape->since = since;
}

/* The exact level of what the word says, compared. */
static void check_level(const struct world *world, weir_ns now)
{
    const struct shape *shape = shape_of(world);
    unsigned inexact;
    uint64_t clock = weir_rate_clock(&shape->rate, now, &inexact);
    uint64_t used_ticks = world->word > clock ? world->word - clock : 0;
    i128 used = ledger_used(&world->ledger, now), ticks = (i128)shape->rate.ticks;
    assert_true((i128)used_ticks * LEDGER_TOKEN >= (used - world->below) * ticks);
    assert_true((i128)used_ticks * LEDGER_TOKEN <= (used + world->slack) * ticks);
}

static weir_ns draw_stamp(struct world *world, bool may_be_stale)
{
    struct random *random = &world->random;
    static const weir_ns steps[] = { 0, 1, WEIR_MILLISECOND, WEIR_SECOND, 10 * WEIR_SECOND, WEIR_HOUR };
    if (may_be_stale && random_below(random, 6) == 0) {
        weir_ns back = random_below(random, 3 * WEIR_SECOND);
        return world->newest > back ? world->newest - back : 0;
    }
    world->newest += random_below(random, steps[random_below(random, COUNT_OF(steps))] + 1);
    return world->newest;
}

static void take(struct world *world)
{
    const struct shape *shape = shape_of(world);
    weir_ns drawn = draw_stamp(world, true), now = drawn > shape->since ? drawn : shape->since;
    uint64_t cost = random_below(&world->random, 4) == 0 ? random_below(&world->random, shape->capacity + 2)
                                                         : 1 + random_below(&world->random, 3);
    struct step step = shape_decide(shape, world->word, now, cost);
    i128 room = ledger_room(&world->ledger, now, cost);
    if (cost > shape->capacity) {
        assert_int_equal(step.outcome, WEIR_NEVER);
        assert_true(step.word == world->word);
        return;
    }
    if (room < -world->below && cost > 0)
        assert_int_equal(step.outcome, WEIR_DENY); /* never more than the exact bucket (P1) */
    if (room >= world->slack || cost == 0)
        assert_int_equal(step.outcome, WEIR_ALLOW);
    if (step.outcome == WEIR_ALLOW && cost > 0) {
        ledger_raise(&world->ledger, now, cost, UINT64_MAX / 2);
        book_add(&world->book, now, cost, 0, 0);
    } else if (step.outcome == WEIR_DENY && world->is_charged) {
        ledger_raise(&world->ledger, now, cost, 2 * shape->capacity);
    } else {
        assert_true(step.word == world->word); /* P10 */
    }
    world->word = step.word;
    check_level(world, now);
}

static void settle_more(struct world *world)
{
    const struct shape *shape = shape_of(world);
    weir_ns drawn = draw_stamp(world, true), now = drawn > shape->since ? drawn : shape->since;
    uint64_t amount = random_below(&world->random, 40);
    struct settled settled = shape_charge(shape, world->word, now, amount);
    assert_true(settled.done + settled.dropped == amount);
    assert_true(settled.word >= world->word); /* P13: never lower */
    ledger_raise(&world->ledger, now, amount, shape->capacity + shape->debt);
    world->word = settled.word;
    book_add(&world->book, now, 0, settled.done, 0);
    check_level(world, now);
}

static void give_back(struct world *world)
{
    const struct shape *shape = shape_of(world);
    weir_ns now = draw_stamp(world, false);
    uint64_t amount = random_below(&world->random, 12);
    struct settled settled = shape_refund(shape, world->word, now, now, amount);
    assert_true(settled.done <= amount);
    assert_true(settled.word <= world->word);
    ledger_give_back(&world->ledger, now, amount);
    world->word = settled.word;
    /* What came back includes a part of a token that is not told. */
    book_add(&world->book, now, 0, 0, settled.done + (settled.done < amount ? 1 : 0));
    check_level(world, now);
}

static void change(struct world *world)
{
    weir_ns at = draw_stamp(world, false);
    const struct size *size = &sizes[random_below(&world->random, COUNT_OF(sizes))];
    struct shape *next = &world->shapes[!world->current];
    make_shape(world, next, size, at);
    world->word = shape_convert(shape_of(world), next, world->word);
    ledger_change(&world->ledger, size, at);
    book_change(&world->book, size, at);
    world->current = !world->current;
    world->slack += 3 * tick_units(next);
    world->below += tick_units(next);
    check_level(world, at);
}

static void begin(struct world *world)
{
    const struct size *size = &sizes[random_below(&world->random, COUNT_OF(sizes))];
    struct shape *shape = &world->shapes[0];
    world->current = 0;
    world->is_charged = random_below(&world->random, 3) == 0;
    world->newest = random_below(&world->random, 2) == 0 ? 0 : random_below(&world->random, WEIR_HOUR);
    make_shape(world, shape, size, 0);
    shape->lost_at = world->newest;
    world->ledger = (struct ledger){ .size = size };
    book_init(&world->book, size);
    world->slack = 3 * tick_units(shape);
    world->below = tick_units(shape);
    world->word = 0;
    if (random_below(&world->random, 3) == 0) { /* nobody remembers the key: it had nothing left */
        world->word = shape_lost(shape);
        ledger_set(&world->ledger, shape->lost_at, (i128)size->burst * LEDGER_TOKEN);
    }
}

static void a_million_operations_agree_with_the_ledger(void **state)
{
    (void)state;
    static struct world world;
    uint64_t seed = random_seed(1301);
    for (unsigned schedule = 0; schedule < SCHEDULES; schedule++) {
        world.random.state = seed + schedule;
        begin(&world);
        for (unsigned i = 0; i < STEPS; i++) {
            uint64_t kind = random_below(&world.random, 20);
            if (kind < 11)
                take(&world);
            else if (kind < 14)
                settle_more(&world);
            else if (kind < 17)
                give_back(&world);
            else if (kind < 19)
                change(&world);
            else
                world.newest += WEIR_MINUTE;
        }
        book_check(&world.book);
    }
}

/* 1.13's table: a reservation of 8 that became 30, and the rest of its worked examples. */
static void the_worked_examples_of_a_debt(void **state)
{
    static const struct size ten = { { 10, WEIR_SECOND }, 10, 20 };
    static struct world world;
    (void)state;
    make_shape(&world, &world.shapes[0], &ten, 0);
    const struct shape *shape = &world.shapes[0];
    uint64_t m = shape->rate.ticks;
    assert_true(m == 100000000);
    uint64_t word = shape_decide(shape, 0, 0, 8).word;
    assert_true(word == 8 * m);
    struct settled settled = shape_charge(shape, word, WEIR_SECOND / 10, 22);
    assert_true(settled.word == 30 * m && settled.done == 22 && settled.dropped == 0);
    assert_int_equal(shape_decide(shape, settled.word, 2100 * WEIR_MILLISECOND - 1, 1).outcome, WEIR_DENY);
    assert_int_equal(shape_decide(shape, settled.word, 2100 * WEIR_MILLISECOND, 1).outcome, WEIR_ALLOW);
    settled = shape_charge(shape, 8 * m, 2 * WEIR_SECOND, 7); /* 8.1: settle 15 at 2 s */
    assert_true(settled.word == 27 * m);
}

/* 1.17's example, and its test: no fresh burst whatever the ratio. */
static void the_worked_examples_of_a_change(void **state)
{
    static const struct size before = { { 5, WEIR_SECOND }, 20, 0 }, after = { { 10, WEIR_SECOND }, 20, 0 };
    static const struct size ratios[] = { { { 10, WEIR_MINUTE }, 10, 0 },
                                          { { 1000, WEIR_SECOND }, 10, 0 },
                                          { { 10, 24 * WEIR_HOUR }, 10, 0 },
                                          { { 10, WEIR_MINUTE }, 10, 0 } };
    static struct world world;
    (void)state;
    make_shape(&world, &world.shapes[0], &before, 0);
    make_shape(&world, &world.shapes[1], &after, WEIR_SECOND);
    uint64_t word = shape_decide(&world.shapes[0], 0, 0, 20).word;
    assert_true(word == UINT64_C(4000000000));
    assert_true(shape_convert(&world.shapes[0], &world.shapes[1], word) == UINT64_C(2500000000));

    make_shape(&world, &world.shapes[0], &ratios[0], 0);
    world.current = 0;
    word = shape_decide(&world.shapes[0], 0, 0, 10).word;
    for (unsigned i = 1; i < COUNT_OF(ratios); i++) { /* all of it at one instant: nothing comes back */
        make_shape(&world, &world.shapes[i % 2], &ratios[i], 0);
        word = shape_convert(&world.shapes[(i + 1) % 2], &world.shapes[i % 2], word);
        assert_int_equal(shape_decide(&world.shapes[i % 2], word, 0, 1).outcome, WEIR_DENY);
    }
    weir_ns year = 365 * 24 * WEIR_HOUR;
    assert_int_equal(shape_decide(&world.shapes[1], word, 6 * WEIR_SECOND + 1, 1).outcome, WEIR_ALLOW);
    assert_int_equal(shape_decide(&world.shapes[1], word, year, 10).outcome, WEIR_ALLOW);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_million_operations_agree_with_the_ledger),
                                        cmocka_unit_test(the_worked_examples_of_a_debt),
                                        cmocka_unit_test(the_worked_examples_of_a_change) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
