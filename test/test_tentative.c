// SPDX-License-Identifier: Apache-2.0
/*
 * What passed here and is refused elsewhere leaves nothing behind: weir_waiter_undo() against a twin limiter that never saw the
 * request (G2, P12); and what passes there too counts as ever: weir_waiter_keep().
 */
#include "support/random.h"
#include "support/unit.h"
#include "weir.h"

#define COUNT 10
#define PERIOD (10 * WEIR_SECOND)

static const enum weir_algorithm algorithms[] = { WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW, WEIR_SLIDING_WINDOW,
                                                  WEIR_SLIDING_LOG, WEIR_CONCURRENCY };
#define ALGORITHMS (sizeof algorithms / sizeof *algorithms)

static struct weir_limit spec_of(enum weir_algorithm algorithm, const char *name)
{
    struct weir_limit spec = { .name = name, .algorithm = algorithm };
    if (algorithm == WEIR_CONCURRENCY) {
        spec.at_most = COUNT;
        spec.hold = PERIOD;
        return spec;
    }
    spec.rate = (struct weir_quota){ COUNT, PERIOD };
    spec.burst = algorithm == WEIR_TOKEN_BUCKET ? COUNT : 0;
    spec.retries_free_within = PERIOD;
    return spec;
}

struct world {
    struct weir *weir;
    struct weir_waiter_part parts[4];
    struct weir_waiter waiter;
};

static void world_open(struct world *world, const struct weir_limit *limits, size_t count)
{
    static const uint8_t secret[16] = "the same for all";
    weir_limit_id id;
    memset(world, 0, sizeof *world);
    assert_int_equal(
        weir_new(&world->weir,
                 &(struct weir_options){
                     .keys = 100, .log_stamps = 4096, .permits = 64, .secret = secret, .fence = 1 }),
        0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(weir_limit_add(world->weir, &limits[i], &id), 0);
    world->waiter =
        (struct weir_waiter){ .parts = world->parts, .part_room = 4, .acquires = true, .is_tentative = true };
}

static struct weir_ask ask_of(weir_limit_id limit, uint64_t cost)
{
    return (struct weir_ask){ .limit = limit, .key = "k", .key_len = 1, .cost = cost };
}

static enum weir_outcome start(struct world *world, const struct weir_ask *asks, size_t count, weir_ns now)
{
    struct weir_decision decision;
    assert_int_equal(weir_wait_start(world->weir, &world->waiter, asks, count, 0, now, &decision), 0);
    return decision.outcome;
}

static uint64_t left(struct world *world, weir_limit_id limit, weir_ns now)
{
    struct weir_decision decision;
    assert_int_equal(weir_check(world->weir, limit, "k", 1, 0, now, &decision), 0);
    return decision.remaining;
}

static void undone_at_once_it_never_was(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALGORITHMS; i++) {
        struct world world;
        struct weir_limit spec = spec_of(algorithms[i], "l");
        struct weir_ask ask = ask_of(0, 3);
        struct weir_permit permit;
        struct weir_reservation ticket;
        world_open(&world, &spec, 1);
        assert_int_equal(start(&world, &ask, 1, 5 * WEIR_SECOND), WEIR_ALLOW);
        assert_int_equal(left(&world, 0, 5 * WEIR_SECOND), COUNT - 3);
        weir_waiter_undo(world.weir, &world.waiter, 5 * WEIR_SECOND);
        assert_int_equal(left(&world, 0, 5 * WEIR_SECOND), COUNT);
        assert_int_equal(world.waiter.decision.remaining, COUNT); /* its numbers are those without it */
        weir_waiter_permit(world.weir, &world.waiter, &permit);
        weir_waiter_reservation(world.weir, &world.waiter, WEIR_SECOND, &ticket);
        assert_int_equal(permit.len, 0);
        assert_int_equal(ticket.len, 0);
        weir_waiter_undo(world.weir, &world.waiter, 5 * WEIR_SECOND); /* once */
        assert_int_equal(left(&world, 0, 5 * WEIR_SECOND), COUNT);
        weir_free(world.weir);
    }
}

static void kept_it_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALGORITHMS; i++) {
        struct world world;
        struct weir_limit spec = spec_of(algorithms[i], "l");
        struct weir_ask ask = ask_of(0, 3);
        world_open(&world, &spec, 1);
        assert_int_equal(start(&world, &ask, 1, 5 * WEIR_SECOND), WEIR_ALLOW);
        weir_waiter_keep(world.weir, &world.waiter, 5 * WEIR_SECOND);
        assert_int_equal(left(&world, 0, 5 * WEIR_SECOND), COUNT - 3);
        weir_waiter_keep(world.weir, &world.waiter, 6 * WEIR_SECOND); /* says nothing new */
        weir_free(world.weir);
    }
}

static void one_that_was_refused_has_nothing_to_undo(void **state)
{
    struct world world;
    struct weir_limit spec = spec_of(WEIR_TOKEN_BUCKET, "l");
    struct weir_ask ask = ask_of(0, COUNT);
    (void)state;
    world_open(&world, &spec, 1);
    assert_int_equal(start(&world, &ask, 1, 0), WEIR_ALLOW);
    weir_waiter_keep(world.weir, &world.waiter, 0);
    assert_int_equal(start(&world, &ask, 1, 0), WEIR_DENY);
    weir_waiter_undo(world.weir, &world.waiter, 0);
    assert_int_equal(left(&world, 0, 0), 0);
    weir_free(world.weir);
}

/* All limits together, one of them watched: nothing is left of it anywhere. */
static void a_composite_is_undone_whole(void **state)
{
    struct world world;
    struct weir_limit specs[4];
    struct weir_ask asks[4];
    (void)state;
    static const char *const names[] = { "a", "b", "c", "d" };
    for (unsigned i = 0; i < 4; i++) {
        specs[i] = spec_of(algorithms[i == 3 ? 4 : i], names[i]);
        asks[i] = ask_of((weir_limit_id)i, i + 1);
    }
    asks[1].is_watched = true;
    world_open(&world, specs, 4);
    assert_int_equal(start(&world, asks, 4, 0), WEIR_ALLOW);
    assert_int_equal(left(&world, 1, 0), COUNT - 2);
    weir_waiter_undo(world.weir, &world.waiter, 0);
    for (weir_limit_id i = 0; i < 4; i++)
        assert_int_equal(left(&world, i, 0), COUNT);
    weir_free(world.weir);
}

/* ---- Retries ------------------------------------------------------------------------------------------------------------- */

static void a_retry_of_what_was_undone_is_charged(void **state)
{
    struct world world;
    struct weir_limit spec = spec_of(WEIR_TOKEN_BUCKET, "l");
    struct weir_ask ask = ask_of(0, 1);
    struct weir_decision twin;
    (void)state;
    ask.retry_id = "id";
    ask.retry_id_len = 2;
    world_open(&world, &spec, 1);
    assert_int_equal(start(&world, &ask, 1, 0), WEIR_ALLOW);
    assert_int_equal(weir_admit(world.weir, &ask, 1, 0, NULL, &twin), 0);
    assert_int_equal(twin.outcome, WEIR_REFUSED); /* it cannot be known yet whether that passes */
    assert_int_equal(twin.reason, WEIR_REASON_CONTENDED);
    weir_waiter_undo(world.weir, &world.waiter, 0);
    assert_int_equal(left(&world, 0, 0), COUNT);
    assert_int_equal(weir_admit(world.weir, &ask, 1, 0, NULL, &twin), 0);
    assert_int_equal(twin.outcome, WEIR_ALLOW);
    assert_int_equal(twin.remaining, COUNT - 1);
    weir_free(world.weir);
}

static void a_retry_of_what_was_kept_is_free(void **state)
{
    struct world world;
    struct weir_limit spec = spec_of(WEIR_TOKEN_BUCKET, "l");
    struct weir_ask ask = ask_of(0, 1);
    struct weir_decision twin;
    (void)state;
    ask.retry_id = "id";
    ask.retry_id_len = 2;
    world_open(&world, &spec, 1);
    assert_int_equal(start(&world, &ask, 1, 0), WEIR_ALLOW);
    weir_waiter_keep(world.weir, &world.waiter, 0);
    assert_int_equal(weir_admit(world.weir, &ask, 1, WEIR_SECOND, NULL, &twin), 0);
    assert_int_equal(twin.outcome, WEIR_DUPLICATE);
    assert_int_equal(start(&world, &ask, 1, WEIR_SECOND),
                     WEIR_DUPLICATE); /* was not charged: nothing to undo */
    weir_waiter_undo(world.weir, &world.waiter, WEIR_SECOND);
    assert_int_equal(left(&world, 0, WEIR_SECOND), COUNT); /* one came back by the rate */
    assert_int_equal(weir_admit(world.weir, &ask, 1, WEIR_SECOND, NULL, &twin), 0);
    assert_int_equal(twin.outcome, WEIR_DUPLICATE);
    weir_free(world.weir);
}

/* ---- Later, and beside others ------------------------------------------------------------------------------------------------ */

/*
 * Strictly: a key that took part in a request which was undone never has more than the same key that did not, at any time after
 * (nothing is minted), and where nobody came in between never less than by the rate times the time between.
 */
static void undone_later_it_mints_nothing(void **state)
{
    struct random random = { random_seed(11) };
    (void)state;
    for (unsigned round = 0; round < 4000; round++) {
        struct world world, twin;
        enum weir_algorithm algorithm = algorithms[random_below(&random, 4)];
        struct weir_limit spec = spec_of(algorithm, "l");
        struct weir_decision decision;
        weir_ns now = random_below(&random, 3 * PERIOD);
        spec.retries_free_within = 0;
        world_open(&world, &spec, 1);
        world_open(&twin, &spec, 1);
        for (unsigned i = 0; i < 4; i++) {
            uint64_t cost = random_below(&random, 5);
            assert_int_equal(weir_check(world.weir, 0, "k", 1, cost, now, &decision), 0);
            assert_int_equal(weir_check(twin.weir, 0, "k", 1, cost, now, &decision), 0);
            now += random_below(&random, PERIOD / 4);
        }
        struct weir_ask ask = ask_of(0, 1 + random_below(&random, 5));
        bool passes = start(&world, &ask, 1, now) == WEIR_ALLOW;
        now += random_below(&random, 2) == 0 ? 0 : random_below(&random, PERIOD);
        weir_waiter_undo(world.weir, &world.waiter, now);
        uint64_t with = left(&world, 0, now), without = left(&twin, 0, now);
        assert_true(with <= without);
        if (passes)
            assert_true(with + ask.cost >= without);
        weir_free(world.weir);
        weir_free(twin.weir);
    }
}

/* A change comes in between: what was charged before it stays charged, and nothing is minted. */
static void a_change_in_between_mints_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct world world;
        struct weir_limit spec = spec_of(algorithms[i], "l");
        struct weir_ask ask = ask_of(0, 3);
        struct weir_change *change;
        weir_limit_id id;
        world_open(&world, &spec, 1);
        assert_int_equal(start(&world, &ask, 1, 0), WEIR_ALLOW);
        spec.rate.count = 2 * COUNT;
        spec.burst *= 2;
        assert_int_equal(weir_change_new(&change, world.weir), 0);
        assert_int_equal(weir_change_limit(change, &spec, &id), 0);
        assert_int_equal(weir_change_commit(change, 1, NULL, NULL), 0);
        weir_quiesce(world.weir, 1);
        weir_waiter_undo(world.weir, &world.waiter, 2);
        assert_true(left(&world, 0, 2) <= 2 * COUNT - 3);
        weir_free(world.weir);
    }
}

/* One who waited for its turn is undone like any other, and whoever stands behind it moves up. */
static void one_that_waited_is_undone(void **state)
{
    struct world world;
    struct weir_limit spec = spec_of(WEIR_TOKEN_BUCKET, "l");
    struct weir_ask ask = ask_of(0, COUNT), one = ask_of(0, 1);
    struct weir_decision decision;
    (void)state;
    spec.wait = (struct weir_wait){ PERIOD, 5 };
    world_open(&world, &spec, 1);
    assert_int_equal(weir_admit(world.weir, &ask, 1, 0, NULL, &decision), 0);
    assert_int_equal(weir_wait_start(world.weir, &world.waiter, &one, 1, PERIOD, 0, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_WAIT);
    assert_int_equal(weir_wait_tick(world.weir, WEIR_SECOND, 1), 1);
    assert_int_equal(world.waiter.decision.outcome, WEIR_ALLOW);
    assert_int_equal(left(&world, 0, WEIR_SECOND), 0);
    weir_waiter_undo(world.weir, &world.waiter, WEIR_SECOND);
    assert_int_equal(left(&world, 0, WEIR_SECOND), 1);
    weir_free(world.weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undone_at_once_it_never_was),
        cmocka_unit_test(kept_it_counts),
        cmocka_unit_test(one_that_was_refused_has_nothing_to_undo),
        cmocka_unit_test(a_composite_is_undone_whole),
        cmocka_unit_test(a_retry_of_what_was_undone_is_charged),
        cmocka_unit_test(a_retry_of_what_was_kept_is_free),
        cmocka_unit_test(undone_later_it_mints_nothing),
        cmocka_unit_test(a_change_in_between_mints_nothing),
        cmocka_unit_test(one_that_waited_is_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
