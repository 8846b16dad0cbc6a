// SPDX-License-Identifier: Apache-2.0
/*
 * test_fleet_field.c - field cases about shared budgets, in virtual time: B37, B59, B61, B63.
 *
 * LABELS: e2e
 */
#include "support/fleet_world.h"

static struct redis_server redis;
static struct world world;

static int start(void **state)
{
    (void)state;
    return redis_server_start(&redis);
}

static int stop(void **state)
{
    (void)state;
    return redis_server_stop(&redis);
}

#define MS WEIR_MILLISECOND

static const char *contract(const char *shape, const char *fails)
{
    static char text[512];
    (void)snprintf(
        text, sizeof text,
        "weir: 1\nlimits:\n  - { name: shared, key: [tenant], scope: fleet, when-store-fails: %s, %s }\n",
        fails, shape);
    return text;
}

static struct fleet_counters counters(size_t process)
{
    struct fleet_counters out;
    process_count_up(&world.processes[process], &out);
    return out;
}

/* ---- B37 ------------------------------------------------------------------------------------------------------------ */

#define TEN "algorithm: fixed-window, rate: 10/1m"

static const struct weir_decision *check(void)
{
    return asked_met(world_decide(&world, 0, "acme", 1), 0);
}

static void B37_script_cache_lost_and_blind_replays(void **state)
{
    (void)state;
    world_open(&world, &redis, 37, contract(TEN, "open"), 1, 1);
    for (uint64_t i = 1; i <= 4; i++)
        assert_int_equal(check()->remaining, 10 - i);
    (void)redis_say(&redis, "SCRIPT", "FLUSH", NULL);
    assert_int_equal(check()->remaining, 5); /* 5 */
    assert_int_equal(counters(0).scripts, 2);

    (void)redis_say(&redis, "SCRIPT", "FLUSH", NULL); /* a promoted replica */
    world_faults_set(&world, &(struct world_faults){ .is_read_only = true });
    const struct weir_decision *between = check();
    assert_true(between->outcome == WEIR_UNMETERED && between->reason == WEIR_REASON_STORE);
    world_run_for(&world, WEIR_SECOND);
    world_heal(&world);
    assert_int_equal(check()->remaining, 4); /* 6: READONLY debited nothing */

    world_faults_set(&world, &(struct world_faults){ .lose_reply = 1000 });
    size_t sent = world.sent;
    struct asked *seventh = world_decide(&world, 0, "acme", 1);
    assert_int_equal(asked_met(seventh, 0)->outcome, WEIR_UNMETERED);
    assert_int_equal(seventh->done_at - seventh->asked_at, world.deadline);
    assert_int_equal(world.sent, sent + 1); /* nothing is sent again */
    world_heal(&world);
    assert_int_equal(check()->remaining, 2); /* 8 */

    world_faults_set(&world,
                     &(struct world_faults){ .forbids_hash = true }); /* a proxy that does not know EVALSHA */
    assert_int_equal(check()->remaining, 1);                          /* 9 */
    sent = world.sent;
    assert_int_equal(check()->remaining, 0);
    assert_int_equal(world.sent, sent + 1); /* it is remembered */
    assert_int_equal(process_lines(&world.processes[0], "event=script-sent-whole error=\"NOPERM"), 1);

    /* Not for ever: it is tried again once a minute, and said once. */
    size_t wholes = world.wholes;
    world_run_for(&world, WEIR_MINUTE);
    for (int i = 0; i < 5; i++)
        assert_int_equal(check()->policy, WEIR_POLICY_NONE);
    assert_int_equal(world.wholes, wholes + 5);
    world_heal(&world); /* it is allowed again */
    assert_int_equal(check()->policy, WEIR_POLICY_NONE);
    assert_int_equal(world.wholes, wholes + 6);
    world_run_for(&world, WEIR_MINUTE);
    for (int i = 0; i < 5; i++)
        assert_int_equal(check()->policy, WEIR_POLICY_NONE);
    assert_int_equal(world.wholes, wholes + 6);
    assert_int_equal(process_lines(&world.processes[0], "event=script-sent-whole"), 1);
    world_close(&world);
}

static void B37_where_no_script_may_be_sent_the_policy_answers(void **state)
{
    (void)state;
    world_open(&world, &redis, 37, contract(TEN, "closed"), 1, 1);
    world_faults_set(&world, &(struct world_faults){ .forbids_hash = true, .forbids_whole = true });
    for (int i = 0; i < 50; i++) {
        const struct weir_decision *decision = check();
        assert_true(decision->outcome == WEIR_REFUSED && decision->policy == WEIR_POLICY_CLOSED);
    }
    /* Said with its cause, and not for every request. */
    assert_int_equal(process_lines(&world.processes[0], "event=store-error error=\"NOPERM"), 0);
    assert_int_equal(process_lines(&world.processes[0], "event=script-sent-whole error=\"NOPERM"), 1);
    assert_int_equal(process_lines(&world.processes[0], "event=store-away node=node0 why=error"), 1);
    assert_int_equal(counters(0).errors, 50);
    world_heal(&world);
    assert_int_equal(check()->outcome, WEIR_ALLOW); /* errors do not open the breaker: they cost no waiting */
    world_close(&world);
}

/* ---- B59 ------------------------------------------------------------------------------------------------------------ */

struct tally {
    unsigned allowed, metered, refused, denied;
    unsigned local_of[3];
};

static void count_answer(struct tally *tally, size_t process, const struct asked *asked)
{
    const struct weir_decision *decision = asked_met(asked, 0);
    tally->allowed += asked->decision.passes;
    tally->metered += decision->outcome == WEIR_ALLOW && decision->policy == WEIR_POLICY_NONE;
    tally->refused += decision->outcome == WEIR_REFUSED;
    tally->denied += decision->outcome == WEIR_DENY;
    tally->local_of[process] += decision->outcome == WEIR_ALLOW && decision->policy == WEIR_POLICY_LOCAL;
}

/* Requests first..last of 60, round robin, a second apart. */
static struct tally ask_round(unsigned first, unsigned last)
{
    struct tally tally = { 0 };
    for (unsigned i = first; i <= last; i++) {
        world_run(&world, WORLD_START + 200 * MS * i);
        count_answer(&tally, i % 3, world_decide(&world, i % 3, "acme", 1));
    }
    return tally;
}

/* WORLD_START is 20 s past a minute of Unix time: 60 requests 200 ms apart stay within it. */
static void B59_one_quota_for_three_nodes(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *fails;
        unsigned used; /* before the store goes */
        unsigned allowed_away, refused_away;
        unsigned most_local;
        unsigned allowed_after; /* at most */
    } rows[] = {
        { "deny: none", "closed", 4, 0, 27, 0, 6 },
        { "allow: all, marked", "open", 4, 27, 0, 0, 6 },
        { "local share: a third of 10 each, whole tokens", "{ local: 1/3 }", 4, 9, 0, 3, 0 },
        { "local share, nothing spent before: what was spent locally is told", "{ local: 1/3 }", 0, 9, 0, 3,
          1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        world_open(&world, &redis, 59, contract(TEN, row->fails), 3, 1);
        struct tally before = ask_round(1, row->used);
        expect_row(before.allowed == row->used && before.metered == row->used, row->why);
        world_faults_set(&world, &(struct world_faults){ .is_down = true });
        struct tally away = ask_round(13, 39);
        expect_row(away.allowed == row->allowed_away && away.refused == row->refused_away && away.metered == 0,
                   row->why);
        for (size_t j = 0; j < 3; j++)
            expect_row(away.local_of[j] == row->most_local, row->why);
        world_heal(&world);
        world_run_for(&world, 6 * WEIR_SECOND); /* the probes come through, and what was spent is told */
        for (size_t j = 0; j < 3; j++) {
            expect_row(counters(j).spent_kept == 0 && counters(j).spent_told == row->most_local, row->why);
            expect_row(process_lines(&world.processes[j], "event=store-away") == 1, row->why);
            expect_row(process_lines(&world.processes[j], "event=store-back") == 1, row->why);
        }
        struct tally after = { 0 };
        for (unsigned n = 40; n <= 60; n++)
            count_answer(&after, n % 3, world_decide(&world, n % 3, "acme", 1));
        expect_row(after.allowed == row->allowed_after && after.refused == 0, row->why); /* no fresh 10 */
        world_close(&world);
    }
}

static void B59_three_nodes_share_ten(void **state)
{
    (void)state;
    world_open(&world, &redis, 59, contract(TEN, "closed"), 3, 1);
    uint64_t before = 10;
    unsigned allowed = 0;
    for (unsigned i = 0; i < 60; i++) {
        struct asked *asked = world_decide(&world, i % 3, "acme", 1);
        allowed += asked->decision.passes;
        assert_true(asked_met(asked, 0)->remaining <= before);
        before = asked_met(asked, 0)->remaining;
    }
    assert_int_equal(allowed, 10);
    world_close(&world);
}

/* ---- B61 ------------------------------------------------------------------------------------------------------------ */

static const char *const shapes[] = {
    TEN,
    "algorithm: sliding-window, rate: 10/1m",
    "algorithm: sliding-log, rate: 10/1m",
    "rate: 10/1m, burst: 10",
};

static bool same(const struct weir_decision *x, const struct weir_decision *y)
{
    return x->outcome == y->outcome && x->remaining == y->remaining && x->retry_at == y->retry_at
           && x->reset_at == y->reset_at;
}

/* Process 0 asks one key and keeps what it knows; process 1 asks a twin of it with the same history, and knows nothing. */
static void compare(const char *shape, uint64_t count, unsigned costs)
{
    char name[32], twin[32];
    (void)snprintf(name, sizeof name, "a-%u-%u", (unsigned)count, costs);
    (void)snprintf(twin, sizeof twin, "z-%u-%u", (unsigned)count, costs);
    if (count > 0) {
        (void)world_decide(&world, 1, name, count);
        (void)world_decide(&world, 1, twin, count);
    }
    for (unsigned request = 0; request < 9; request++) {
        static const unsigned powers[] = { 1, 3, 9 };
        uint64_t cost = 1 + costs / powers[request % 3] % 3;
        const struct fleet_decision how = { .is_peek = request == 4 };
        fleet_common_changed(world.processes[1].common);
        const struct weir_decision *with = asked_met(world_decide_as(&world, 0, name, cost, &how), 0);
        const struct weir_decision *without = asked_met(world_decide_as(&world, 1, twin, cost, &how), 0);
        if (!same(with, without))
            fail_msg("%s, count %u, costs %u, request %u: %d %u instead of %d %u", shape, (unsigned)count,
                     costs, request, with->outcome, (unsigned)with->remaining, without->outcome,
                     (unsigned)without->remaining);
        world_run_for(&world, MS);
    }
}

static void B61_what_is_known_decides_like_the_store(void **state)
{
    (void)state;
    for (size_t shape = 0; shape < COUNT_OF(shapes); shape++) {
        world_open(&world, &redis, 61, contract(shapes[shape], "closed"), 2, 1);
        world.way = 0;
        world.checks_expiry = false;
        for (uint64_t count = 0; count <= 10; count++)
            for (unsigned costs = 0; costs < 27; costs++)
                compare(shapes[shape], count, costs);
        assert_true(counters(0).known > 100); /* both ways were gone */
        world_close(&world);
    }
}

static void B61_a_known_denial_ends_in_time_and_with_what_is_given_back(void **state)
{
    (void)state;
    static struct weir_shared shared;
    world_open(&world, &redis, 61, contract("rate: 10/1s, burst: 10", "closed"), 1, 2);
    world.way = 0;
    assert_true(world_decide(&world, 0, "acme", 9)->decision.passes);
    assert_false(world_decide(&world, 0, "acme", 2)->decision.passes); /* one is missing: 100 ms */
    size_t sent = world.sent;
    assert_false(world_decide(&world, 0, "acme", 2)->decision.passes);
    assert_int_equal(world.sent, sent); /* known */
    struct asked *other = world_ask(&world, 0, 1, "acme", 2);
    assert_true(other->done == 1 && world.sent == sent
                && !other->decision.passes); /* at the other worker as well */
    assert_true(
        world_decide(&world, 0, "acme", 1)->decision.passes); /* never covers a smaller cost that would fit */
    assert_int_equal(world.sent, sent + 1);
    world_run_for(&world, MS);
    assert_false(
        world_decide(&world, 0, "acme", 2)->decision.passes); /* asked anew: the smaller made it later */
    assert_int_equal(world.sent, sent + 2);
    world_run_for(&world, 90 * MS);
    assert_false(
        world_decide(&world, 0, "acme", 2)->decision.passes); /* known until there is one token again */
    assert_int_equal(world.sent, sent + 2);
    world_run_for(&world, 9 * MS);
    assert_int_equal(asked_met(world_decide(&world, 0, "acme", 2), 0)->remaining, 1);
    assert_int_equal(world.sent, sent + 3);
    world_run_for(&world, 100 * MS - 1);
    assert_false(world_decide(&world, 0, "acme", 2)->decision.passes);
    assert_int_equal(world.sent, sent + 3);
    world_run_for(&world, 1);
    assert_true(world_decide(&world, 0, "acme", 2)->decision.passes); /* and not longer */

    static const enum fleet_verb verbs[] = { FLEET_REFUND, FLEET_RESET };
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        assert_false(world_decide(&world, 0, "acme", 5)->decision.passes);
        world_questions(&world, 0, "acme", 1, &shared);
        struct fleet_operation operation = { .verb = verbs[i], .cost = 10, .shared = &shared };
        world_operate(&world, 0, &operation);
        assert_true(world_decide(&world, 0, "acme", 5)->decision.passes);
        (void)world_decide(&world, 0, "acme", 5);
    }
    assert_false(world_decide(&world, 0, "acme", 5)->decision.passes);
    sent = world.sent;
    fleet_common_changed(world.processes[0].common); /* another contract */
    assert_false(world_decide(&world, 0, "acme", 5)->decision.passes);
    assert_int_equal(world.sent, sent + 1);
    world_close(&world);
}

static void B61_limits_that_must_see_every_request_are_asked(void **state)
{
    (void)state;
    static const char *const more[] = {
        "rate: 1/1m, burst: 1, refused: charged",
        "rate: 1/1m, burst: 1, retries: { free-within: 10s, by: request }",
        "algorithm: concurrency, at-most: 1, hold: 30s",
    };
    for (size_t i = 0; i < COUNT_OF(more); i++) {
        world_open(&world, &redis, 61, contract(more[i], "closed"), 1, 1);
        const struct fleet_decision how = { .kind = FLEET_ACQUIRE };
        (void)world_decide_as(&world, 0, "acme", 1, &how);
        (void)world_decide_as(&world, 0, "acme", 1, &how);
        size_t sent = world.sent;
        (void)world_decide_as(&world, 0, "acme", 1, &how);
        assert_int_equal(world.sent, sent + 1);
        assert_int_equal(counters(0).known, 0);
        world_close(&world);
    }
}

/* ---- B63 ------------------------------------------------------------------------------------------------------------ */

/* 50 requests a second from `from` to `to` (seconds), each within its bound. */
struct load {
    unsigned asked, passed, metered, unmetered, refused;
    weir_ns longest;
};

static struct load load(unsigned from, unsigned to)
{
    struct load load = { 0 };
    for (unsigned i = 0; i < 50 * (to - from); i++) {
        world_run(&world, WORLD_START + from * WEIR_SECOND + i * 20 * MS);
        struct asked *asked = world_ask(&world, 0, 0, "acme", 1);
        world_run_for(&world, 19 * MS);
        if (asked->done == 0)
            world_run_for(&world, world.deadline);
        const struct weir_decision *decision = asked_met(asked, 0);
        load.asked++;
        load.passed += asked->decision.passes;
        load.metered += decision->outcome == WEIR_ALLOW;
        load.unmetered += decision->outcome == WEIR_UNMETERED;
        load.refused += decision->outcome == WEIR_REFUSED;
        assert_true(decision->outcome != WEIR_DENY); /* not "over limit" */
        assert_true((decision->reason == WEIR_REASON_STORE) == (decision->outcome != WEIR_ALLOW));
        weir_ns took = asked->done_at - asked->asked_at;
        load.longest = took > load.longest ? took : load.longest;
    }
    return load;
}

static void B63_the_store_is_down_for_a_minute(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *fails;
        bool is_open, is_bounded;
    } rows[] = {
        { "open: allowed, and marked", "open", true, false },
        { "closed: refused, and not as over the limit", "closed", false, false },
        { "open for 30 s, then closed", "{ open: 30s }", true, true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        world.wanted_deadline = 50 * MS;
        world_open(&world, &redis, 63, contract("rate: 100/1s, burst: 100", row->fails), 1, 1);
        world.wanted_deadline = 0; /* for the next ones */
        struct load well = load(0, 10);
        expect_row(well.metered == 500, row->why);
        world_faults_set(&world, &(struct world_faults){ .lose_command = 1000 }); /* packets are dropped */
        struct load first = load(10, 11);
        expect_row(first.longest == world.deadline, row->why); /* within 60 ms at first */
        expect_row(counters(0).late >= 5 && counters(0).late <= 5 + 3 + 5,
                   row->why); /* 5, those under way, and some probes */
        struct load known = load(11, 39);
        expect_row(known.longest == 0, row->why); /* within 5 ms once the breaker is open */
        expect_row((row->is_open ? known.unmetered : known.refused) == known.asked, row->why);
        struct load later = load(41, 70); /* from the first failure at 10.05 on */
        expect_row((row->is_open && !row->is_bounded ? later.unmetered : later.refused) == later.asked,
                   row->why);
        world_heal(&world);
        size_t executed = world.executed;
        struct load back = load(70, 76);
        expect_row(back.longest <= world.deadline, row->why);
        expect_row(world.executed - executed <= back.metered + 3, row->why); /* no burst of saved-up work */
        expect_row(load(76, 77).metered == 50, row->why);
        world_close(&world);
    }
}

static void B63_a_flapping_store(void **state)
{
    (void)state;
    unsigned metered = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        world_open(&world, &redis, seed, contract("rate: 100/1s, burst: 100", "open"), 1, 1);
        assert_int_equal(load(0, 5).metered, 250);
        world_faults_set(&world, &(struct world_faults){ .answer_one_in = 10 });
        struct load flapping = load(5, 65);
        assert_true(flapping.longest <= world.deadline);
        assert_int_equal(flapping.metered + flapping.unmetered, flapping.asked);
        metered += flapping.metered;
        /* Told of now and then, not with every request. */
        size_t told = process_lines(&world.processes[0], "event=store-away");
        assert_true(told >= 1 && told <= 7);
        world_heal(&world);
        world_run_for(&world, 6 * WEIR_SECOND);
        assert_int_equal(load(72, 73).metered, 50);
        world_close(&world);
    }
    assert_true(metered > 0);
}

static void B63_a_store_that_is_always_too_slow_is_an_outage_that_lasts(void **state)
{
    (void)state;
    world_open(&world, &redis, 63, contract("rate: 100/1s, burst: 100", "{ open: 30s }"), 1, 1);
    world.way = 4 * MS; /* 8 ms there and back, for a deadline of 5 */
    struct load early = load(0, 29), late = load(31, 60);
    assert_int_equal(early.unmetered, early.asked);
    assert_int_equal(late.refused, late.asked);
    assert_true(world.late_answers > 5);
    world.way = 20 * WEIR_MICROSECOND;
    world_run_for(&world, 6 * WEIR_SECOND);
    assert_int_equal(load(70, 71).metered, 50);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B37_script_cache_lost_and_blind_replays),
        cmocka_unit_test(B37_where_no_script_may_be_sent_the_policy_answers),
        cmocka_unit_test(B59_three_nodes_share_ten),
        cmocka_unit_test(B59_one_quota_for_three_nodes),
        cmocka_unit_test(B61_what_is_known_decides_like_the_store),
        cmocka_unit_test(B61_a_known_denial_ends_in_time_and_with_what_is_given_back),
        cmocka_unit_test(B61_limits_that_must_see_every_request_are_asked),
        cmocka_unit_test(B63_the_store_is_down_for_a_minute),
        cmocka_unit_test(B63_a_flapping_store),
        cmocka_unit_test(B63_a_store_that_is_always_too_slow_is_an_outage_that_lasts),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
