// SPDX-License-Identifier: Apache-2.0
/*
 * test_fleet_lease.c - leased limits in virtual time: what is answered out of the hand, what is asked of the store, what is left.
 *
 * The expected numbers come from the definitions: whatever is in whose hands, of a bucket of B no more than B + r t pass in t (P34),
 * and one replica alone is let have all of B.
 *
 * LABELS: e2e
 */
#include "fleet/lease_rig.h"

/* ---- The budget ------------------------------------------------------------------------------------------------------ */

static void P34_one_replica_alone_has_the_whole_burst(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        const char *text;
        uint64_t cost, passes;
    } rows[] = {
        { "one by one", slow, 1, 100 },
        { "threes: one token is no three", slow, 3, 99 },
        { "more than a portion holds", slow, 11, 99 },
        { "half of it", slow, 50, 100 },
        { "all of it at once", slow, 100, 100 },
        { "more than all of it never", slow, 101, 0 },
        { "a window",
          CONTRACT LEASED("rate", OF_TENANT,
                          "algorithm: fixed-window, rate: 100/1d, lease: { most: 50, chunk: 10, for: 2s }"),
          1, 100 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        world_open(&world, &redis, 1, rows[i].text, 2, 1);
        expect_row(spend(0, "acme", rows[i].cost, 150) == rows[i].passes, rows[i].why);
        expect_row(rows[i].cost > 10 || counters(0).lease_decisions > 10, rows[i].why);
        world_run_for(&world, 5 * WEIR_SECOND); /* idle: what is in hand goes back */
        expect_row(held(0) == 0, rows[i].why);
        expect_row(spend(1, "acme", 1, 20) == 100 - rows[i].passes || rows[i].passes == 0, rows[i].why);
        world_close(&world);
    }
}

/* One after the other, as fast as they are answered, at one loop or another: whatever is under way meanwhile, all that there is
   passes before anything is refused. */
static void B61_a_token_that_is_under_way_is_no_refusal(void **state)
{
    (void)state;
    static const char *const texts[] = {
        CONTRACT LEASED("rate", OF_TENANT, "rate: 10/52w, burst: 10, lease: { most: 10, chunk: 1, for: 60s }"),
        CONTRACT LEASED("rate", OF_TENANT, "rate: 10/52w, burst: 10, lease: { most: 10, chunk: 3, for: 60s }"),
        CONTRACT LEASED("rate", OF_TENANT, "rate: 10/52w, burst: 10, lease: { most: 10, chunk: 10, for: 60s }"),
        CONTRACT LEASED("rate", OF_TENANT,
                        "algorithm: fixed-window, rate: 10/52w, lease: { most: 10, chunk: 2, for: 60s }"),
    };
    for (size_t i = 0; i < 64 * COUNT_OF(texts); i++) {
        world_open(&world, &redis, i, texts[i / 64], 2, 2);
        world.faults[0].slow =
            i % 4 * 100 * WEIR_MICROSECOND; /* ways of different length, so that messages meet */
        uint64_t before = i % 11, passed = 0;
        if (before > 0)
            assert_true(passes(1, "acme", before));
        for (size_t j = 0; j < 12; j++) {
            struct asked *asked =
                world_ask(&world, 0, i % 8 < 4 ? 0 : random_below(&world.random, 2), "acme", 1);
            for (int wait = 0; wait < 10000 && asked->done == 0; wait++)
                world_run_for(&world, WEIR_MICROSECOND);
            assert_int_equal(asked->decision.passes, passed < 10 - before);
            passed += asked->decision.passes;
        }
        world_close(&world);
    }
}

/* What passed, drained at the limit's rate: never above its burst. In parts of 1/10^9 of a token. */
static struct meter {
    weir_ns at;
    uint64_t level, rate, most, tokens;
} meter;

static void measure(struct world *of, struct asked *asked)
{
    (void)of;
    uint64_t drained = (asked->done_at - meter.at) * meter.rate;
    meter.level = meter.level > drained ? meter.level - drained : 0;
    meter.at = asked->done_at;
    if (!asked->decision.passes)
        return;
    meter.level += asked->met[0].cost * WEIR_SECOND;
    meter.tokens += asked->met[0].cost;
    assert_true(meter.level <= meter.most);
}

/* Two loops each, demand twice the limit, nine tenths of it at the first. */
static void P34_two_replicas_never_have_more_than_the_limit(void **state)
{
    (void)state;
    static const char text[] = CONTRACT LEASED(
        "rate", OF_TENANT, "rate: 50/1s, burst: 20, lease: { most: 20, chunk: 10, for: 200ms }");
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct random random = { seed };
        world_open(&world, &redis, seed, text, 2, 2);
        world.told = measure;
        /* The store charges on the way there, and the answer is seen a way later. */
        meter = (struct meter){ world.now, 0, 50, 20 * WEIR_SECOND + 50 * 2 * world.way, 0 };
        const weir_ns end = world.now + 20 * WEIR_SECOND;
        while (world.now < end) {
            uint64_t cost = random_below(&random, 10) == 0 ? 3 : 1;
            size_t process = random_below(&random, 10) == 0;
            (void)world_ask(&world, process, random_below(&random, 2), "acme", cost);
            world_run_for(&world, random_below(&random, 21) * MS);
        }
        world_settle(&world);
        const uint64_t most = 20 + 50 * 20;
        assert_true(meter.tokens <= most);
        assert_true(meter.tokens >= most * 95 / 100);
        const struct fleet_counters counted = counters(0);
        assert_true(counted.lease_decisions > 20 && counted.lease_lost == 0);
        world_close(&world);
    }
}

/* ---- All or nothing -------------------------------------------------------------------------------------------------- */

#define MIXED \
    CONTRACT LEASED("a", OF_TENANT, SLOW_LEASE) \
        LIMIT("b", OF_PATH, "when-store-fails: closed, rate: 1/1h, burst: 6")

static void what_a_strict_limit_refuses_lies_in_the_hand_as_before(void **state)
{
    (void)state;
    for (int is_cluster = 0; is_cluster < 2; is_cluster++) {
        if (is_cluster)
            world_open_cluster(&world, &redis, 1, MIXED, 2, 1);
        else
            world_open(&world, &redis, 1, MIXED, 2, 1);
        uint64_t spent = warm_up(0, "acme");
        assert_true(spent < 5);
        uint64_t had = held(0), commands = counters(0).commands;
        struct asked *asked = world_decide(&world, 0, "acme", 1);
        assert_true(asked->decision.passes);
        assert_int_equal(held(0), had - 1);
        assert_int_equal(asked_met(asked, 0)->remaining, had - 1);
        assert_int_equal(counters(0).commands, commands + 1); /* of the strict one */
        assert_int_equal(counters(0).lease_decisions, 0);
        had = held(0);
        asked = world_decide(&world, 0, "acme",
                             6); /* b has less; of a some is in hand and the store has the rest */
        assert_false(asked->decision.passes);
        assert_int_equal(asked_met(asked, 1)->outcome, WEIR_DENY);
        world_run_for(&world, 5 * MS);
        assert_true(held(0) >= had); /* and it may have got a portion for want of six */
        while (left(0, "acme", 1) > 0 && held(0) > 0)
            spent += spend(0, "acme", 1, 1);
        had = held(0);
        asked = world_decide(&world, 0, "acme", 1); /* all that it needs of a is in hand */
        assert_false(asked->decision.passes);
        assert_true(held(0) >= had && had > 0);
        assert_int_equal(asked_met(asked, 0)->outcome, WEIR_ALLOW);
        assert_int_equal(asked_met(asked, 0)->remaining, had); /* as a look: it lies there */
        world_run_for(&world, 5 * WEIR_SECOND);                /* all goes back */
        assert_int_equal(held(0), 0);
        assert_int_equal(left(1, "acme", 0), 100 - spent - 1);
        assert_int_equal(left(1, "acme", 1), 6 - spent - 1);
        world_close(&world);
    }
}

static void what_is_undone_from_within_done_goes_back_where_it_came_from(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        uint64_t cost;
        bool is_in_hand;
    } rows[] = {
        { "all of it in hand", 1, true },
        { "some of it the store's", 15, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        world_open(&world, &redis, 1, slow, 2, 1);
        uint64_t spent = warm_up(0, "acme"), had = held(0), decided = counters(0).lease_decisions;
        struct asked *asked =
            world_decide_as(&world, 0, "acme", rows[i].cost, &(struct fleet_decision){ .owner = &world });
        expect_row(asked->decision.passes && asked->undoes, rows[i].why);
        expect_row((counters(0).lease_decisions > decided) == rows[i].is_in_hand, rows[i].why);
        world_run_for(&world, 5 * MS);
        expect_row(held(0) >= had, rows[i].why);
        world_run_for(&world, 5 * WEIR_SECOND);
        expect_row(held(0) == 0 && left(1, "acme", 0) == 100 - spent, rows[i].why);
        world_close(&world);
    }
}

static void a_watched_limit_is_met_in_hand_where_the_others_pass(void **state)
{
    (void)state;
    static const char text[] = CONTRACT LEASED("a", OF_PATH, SLOW_LEASE ", enforce: shadow")
        LIMIT("b", OF_TENANT, "when-store-fails: closed, rate: 1/1h, burst: 3");
    world_open(&world, &redis, 1, text, 2, 1);
    assert_int_equal(spend(0, "x", 1, 3), 3);
    assert_int_equal(spend(0, "y", 1, 2), 2);
    assert_true(held(0) > 0);
    uint64_t had = held(0);
    assert_false(passes(0, "x", 1)); /* x has no more */
    assert_int_equal(held(0), had);
    assert_true(passes(0, "y", 1));
    assert_int_equal(held(0), had - 1);
    world_run_for(&world, 5 * WEIR_SECOND);
    assert_int_equal(left(1, "z", 0), 100 - 6);
    world_close(&world);
    /* What is in hand does not do, and the store has no more: it is not charged, and the hand keeps what it has. */
    static const char shadow[] = CONTRACT LEASED("a", OF_PATH, SLOW_LEASE ", enforce: shadow")
        LIMIT("b", OF_TENANT, "when-store-fails: closed, rate: 1000/1s, burst: 1000");
    world_open(&world, &redis, 1, shadow, 2, 1);
    uint64_t spent = warm_up(0, "x");
    had = held(0);
    struct asked *asked = world_decide(&world, 0, "x", 100 - spent + 1);
    assert_true(asked->decision.passes);
    assert_int_equal(asked_met(asked, 0)->outcome, WEIR_DENY);
    assert_true(held(0) >= had);
    world_run_for(&world, 5 * WEIR_SECOND);
    assert_int_equal(left(1, "x", 0), 100 - spent);
    world_close(&world);
}

static void what_is_in_hand_is_not_refilled(void **state)
{
    (void)state;
    static const char text[] = CONTRACT LEASED(
        "rate", OF_TENANT, "rate: 1000/1s, burst: 100, lease: { most: 50, chunk: 50, for: 2s }");
    for (int more = 0; more < 2; more++) {
        world_open(&world, &redis, 1, text, 2, 1);
        (void)warm_up(0, "acme");
        world_run_for(&world, 200 * MS); /* what was spent has come back */
        uint64_t in_hand = held(0);
        assert_true(in_hand > 0);
        assert_int_equal(passes(1, "acme", 100 - in_hand + (uint64_t)more), !more);
        world_close(&world);
    }
}

static void looks_add_what_is_in_hand(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, slow, 2, 1);
    uint64_t spent = warm_up(0, "acme"), in_hand = held(0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(left(0, "acme", 0), 100 - spent);
    assert_int_equal(left(1, "acme", 0), 100 - spent - in_hand);
    assert_int_equal(held(0), in_hand);
    /* More than the pool has, but not more than the pool and the hand. */
    struct asked *look =
        world_decide_as(&world, 0, "acme", 100 - spent, &(struct fleet_decision){ .is_peek = true });
    assert_true(look->decision.passes);
    look = world_decide_as(&world, 0, "acme", 100 - spent + 1, &(struct fleet_decision){ .is_peek = true });
    assert_false(look->decision.passes);
    look = world_decide_as(&world, 0, "acme", 101, &(struct fleet_decision){ .is_peek = true });
    assert_int_equal(asked_met(look, 0)->outcome, WEIR_NEVER);
    world_close(&world);
}

static void a_reservation_is_made_and_settled_in_the_store(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        enum fleet_verb verb;
        uint64_t cost, charged;
    } rows[] = {
        { "less than estimated", FLEET_SETTLE, 5, 5 },
        { "more", FLEET_SETTLE, 30, 30 },
        { "cancelled", FLEET_CANCEL, 0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        world_open(&world, &redis, 1, slow, 2, 1);
        uint64_t spent = warm_up(0, "acme"), in_hand = held(0);
        struct asked *asked = world_decide_as(
            &world, 0, "acme", 20, &(struct fleet_decision){ .kind = FLEET_RESERVE, .hold = WEIR_MINUTE });
        expect_row(asked->decision.passes && asked->decision.handle != NULL, rows[i].why);
        expect_row(held(0) == in_hand, rows[i].why);
        struct fleet_operation operation = { .verb = rows[i].verb,
                                             .cost = rows[i].cost,
                                             .handle = asked->decision.handle,
                                             .handle_len = asked->decision.handle_len };
        world_operate(&world, 1, &operation);
        expect_row(operation.fault == FLEET_OK && strcmp(operation.limit, "rate") == 0, rows[i].why);
        world_run_for(&world, 5 * WEIR_SECOND);
        expect_row(left(1, "acme", 0) == 100 - spent - rows[i].charged, rows[i].why);
        world_close(&world);
    }
}

/* ---- Numbers ------------------------------------------------------------------------------------------------------------ */

static void an_answer_out_of_the_hand_has_its_numbers(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *text;
        weir_ns token; /* 0: a window, of a day */
    } rows[] = {
        { "a bucket is full when what is not in hand came back",
          CONTRACT LEASED("rate", OF_TENANT,
                          "rate: 10/1m, burst: 100, lease: { most: 50, chunk: 10, for: 2s }"),
          6 * WEIR_SECOND },
        { "a window at its end",
          CONTRACT LEASED("rate", OF_TENANT,
                          "algorithm: fixed-window, rate: 100/1d, lease: { most: 50, chunk: 10, for: 2s }"),
          0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        world_open(&world, &redis, 1, rows[i].text, 1, 1);
        world.processes[0].asleep = WEIR_HOUR; /* in no number of an answer */
        (void)warm_up(0, "acme");
        uint64_t in_hand = held(0), commands = counters(0).commands;
        struct asked *asked = world_ask(&world, 0, 0, "acme", 1);
        const struct weir_decision *decision = asked_met(asked, 0);
        expect_row(asked->done == 1 && asked->decision.passes, rows[i].why); /* within the call */
        expect_row(counters(0).commands == commands && counters(0).lease_decisions > 0, rows[i].why);
        expect_row(decision->outcome == WEIR_ALLOW && decision->policy == WEIR_POLICY_NONE, rows[i].why);
        expect_row(decision->capacity == 100 && decision->remaining == in_hand - 1, rows[i].why);
        expect_row(decision->decided_at == world.now && decision->retry_at == world.now, rows[i].why);
        weir_ns wall = (weir_ns)WORLD_WALL + world.now;
        weir_ns reset = rows[i].token > 0 ? (100 - (in_hand - 1)) * rows[i].token : WEIR_DAY - wall % WEIR_DAY;
        expect_row(decision->reset_at >= world.now + reset && decision->reset_at <= world.now + reset + 5 * MS,
                   rows[i].why);
        expect_row(asked->decision.handle == NULL && asked->decision.expires_at == WEIR_NO_TIME, rows[i].why);
        world_close(&world);
    }
}

static void who_cannot_be_refused_elsewhere_is_counted_alike(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *text;
    } rows[] = {
        { "one limit: kept as it is taken", slow },
        { "another limit may refuse: only when both have passed",
          CONTRACT LEASED("a", OF_TENANT, SLOW_LEASE)
              LIMIT("b", OF_PATH, "when-store-fails: closed, rate: 1/1h, burst: 1000") },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        world_open(&world, &redis, 1, rows[i].text, 2, 1);
        uint64_t spent = 0;
        for (int j = 0; j < 150; j++) {
            spent += world_decide_as(&world, 0, "acme", 1, &(struct fleet_decision){ .is_final = true })
                         ->decision.passes;
            world_run_for(&world, MS);
            if (j == 30)
                expect_row(held(0) > 0, rows[i].why);
            if (j == 50) {
                world_run_for(&world, 5 * WEIR_SECOND);
                expect_row(spent == 51 && left(1, "acme", 0) == 100 - 51, rows[i].why);
            }
        }
        expect_row(spent == 100, rows[i].why);
        world_close(&world);
    }
}

static void one_hand_is_all_workers(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, slow, 1, 2);
    uint64_t spent = warm_up(0, "acme"), in_hand = held(0);
    for (uint64_t i = 0; i < in_hand; i++) {
        struct asked *asked = world_ask(&world, 0, 1, "acme", 1);
        assert_true(asked->done == 1 && asked->decision.passes);
    }
    world_run_for(&world, 5 * WEIR_SECOND);
    assert_int_equal(left(0, "acme", 0), 100 - spent - in_hand);
    world_close(&world);
}

/* ---- What it costs -------------------------------------------------------------------------------------------------------- */

static void store_commands_per_decision(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *text;
        weir_ns every;
        size_t decisions, commands; /* most of them, for all decisions together */
    } rows[] = {
        { "five a second on one key: a message for a second or so",
          CONTRACT LEASED("rate", OF_TENANT,
                          "rate: 100/1s, burst: 100, lease: { most: 50, chunk: 50, for: 2s }"),
          200 * MS, 500, 150 },
        { "a thousand a second: next to none",
          CONTRACT LEASED("rate", OF_TENANT,
                          "rate: 2000/1s, burst: 4000, lease: { most: 4000, chunk: 4000, for: 2s }"),
          MS, 20000, 100 },
        { "twice the limit: what is refused costs no more",
          CONTRACT LEASED("rate", OF_TENANT,
                          "rate: 500/1s, burst: 500, lease: { most: 500, chunk: 500, for: 2s }"),
          MS, 20000, 20000 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        world_open(&world, &redis, 1, rows[i].text, 1, 1);
        for (size_t j = 0; j < rows[i].decisions; j++) {
            (void)world_ask(&world, 0, 0, "acme", 1);
            world_run_for(&world, rows[i].every);
        }
        const struct fleet_counters counted = counters(0);
        expect_row(counted.commands <= rows[i].commands, rows[i].why);
        world_close(&world);
    }
}

static void a_key_that_comes_once_costs_what_it_costs_strictly(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, slow, 1, 1);
    for (int i = 0; i < 100; i++) {
        char tenant[16];
        (void)snprintf(tenant, sizeof tenant, "t%d", i);
        assert_true(passes(0, tenant, 1));
    }
    world_run_for(&world, 10 * WEIR_SECOND);
    assert_int_equal(counters(0).lease_commands, 0);
    assert_int_equal(counters(0).commands, 100 + 1); /* one heard that the script is not there */
    assert_true(fleet_next(world.processes[0].workers[0].fleet) == WEIR_NO_TIME);
    world_close(&world);
}

static void messages_of_a_turn_leave_together(void **state)
{
    (void)state;
    static const char text[] = CONTRACT LEASED("a", OF_TENANT, SLOW_LEASE) LEASED("b", OF_TENANT, SLOW_LEASE);
    for (int is_cluster = 0; is_cluster < 2; is_cluster++) {
        if (is_cluster)
            world_open_cluster(&world, &redis, 1, text, 1, 1);
        else
            world_open(&world, &redis, 1, text, 1, 1);
        for (int turn = 0; turn < 3; turn++) {
            for (int i = 0; i < 8; i++) {
                char tenant[16];
                (void)snprintf(tenant, sizeof tenant, "t%d", i);
                (void)world_ask(&world, 0, 0, tenant, 1);
            }
            world_run_for(&world, 2 * MS);
        }
        const struct fleet_counters counted = counters(0);
        /* Eight keys of two limits each, and a slot for each tenant. Each command went twice: the script was not there. */
        assert_int_equal(counted.lease_messages, 2 * 16);
        assert_int_equal(counted.lease_commands, 2 * (is_cluster ? 8 : 1));
        assert_true(held(0) >= 16);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(P34_one_replica_alone_has_the_whole_burst),
        cmocka_unit_test(B61_a_token_that_is_under_way_is_no_refusal),
        cmocka_unit_test(P34_two_replicas_never_have_more_than_the_limit),
        cmocka_unit_test(what_a_strict_limit_refuses_lies_in_the_hand_as_before),
        cmocka_unit_test(what_is_undone_from_within_done_goes_back_where_it_came_from),
        cmocka_unit_test(a_watched_limit_is_met_in_hand_where_the_others_pass),
        cmocka_unit_test(what_is_in_hand_is_not_refilled),
        cmocka_unit_test(looks_add_what_is_in_hand),
        cmocka_unit_test(a_reservation_is_made_and_settled_in_the_store),
        cmocka_unit_test(an_answer_out_of_the_hand_has_its_numbers),
        cmocka_unit_test(who_cannot_be_refused_elsewhere_is_counted_alike),
        cmocka_unit_test(one_hand_is_all_workers),
        cmocka_unit_test(store_commands_per_decision),
        cmocka_unit_test(a_key_that_comes_once_costs_what_it_costs_strictly),
        cmocka_unit_test(messages_of_a_turn_leave_together),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
