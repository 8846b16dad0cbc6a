// SPDX-License-Identifier: Apache-2.0
/*
 * test_fleet_lease_away.c - leased limits in virtual time: outages, what is lost on the way, the end of loops, other contracts.
 *
 * LABELS: e2e
 */
#include "fleet/lease_rig.h"

/* ---- What breaks ---------------------------------------------------------------------------------------------------------- */

static void a_store_that_lost_the_script_is_brought_it(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, slow, 1, 1);
    uint64_t passed = spend(0, "acme", 1, 30);
    (void)redis_say(&redis, "SCRIPT", "FLUSH", NULL);
    uint64_t scripts = counters(0).scripts, messages = counters(0).lease_messages;
    passed += spend(0, "acme", 1, 100);
    assert_int_equal(passed, 100);
    assert_true(counters(0).scripts > scripts && counters(0).lease_messages > messages);
    world_close(&world);
}

static void a_message_whose_answer_is_lost_goes_again_as_it_was(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        struct world_faults faults;
    } rows[] = {
        { "the answer is lost", { .lose_reply = 1000 } },
        { "the message is lost", { .lose_command = 1000 } },
        { "the connection breaks behind it", { .break_after = 1000 } },
        { "the answer comes when nobody waits any more", { .slow = 600 * MS } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        world_open(&world, &redis, 1 + i, slow, 2, 1);
        uint64_t passed = warm_up(0, "acme");
        /* From here on all is in hand, or not at all: a strict answer that is lost has charged, and nobody knows. */
        for (uint64_t in_hand = held(0); in_hand > 0; in_hand--)
            passed += world_ask(&world, 0, 0, "acme", 1)->decision.passes;
        world_faults_set(&world, &rows[i].faults);
        world_run_for(&world, 300 * MS);
        world_heal(&world);
        world_run_for(&world, 2 * WEIR_SECOND);
        passed += spend(0, "acme", 1, 150);
        expect_row(passed == 100, rows[i].why);
        world_run_for(&world, 5 * WEIR_SECOND);
        expect_row(held(0) == 0 && left(1, "acme", 0) == 0, rows[i].why);
        world_close(&world);
    }
}

static void a_suspended_machine_spends_nothing_of_before(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, slow, 1, 1);
    uint64_t spent = warm_up(0, "acme"), in_hand = held(0);
    assert_true(in_hand > 0);
    world.processes[0].asleep += 3 * WEIR_SECOND; /* its clock stood still, and the store's went on */
    world_run_for(&world, 1);
    uint64_t decided = counters(0).lease_decisions;
    world_faults_set(&world, &(struct world_faults){ .is_down = true });
    assert_false(passes(0, "acme", 1));
    assert_int_equal(counters(0).lease_decisions, decided);
    assert_int_equal(held(0), 0);
    (void)spent;
    world_close(&world);
}

#define FAILS(policy) CONTRACT LIMIT("rate", OF_TENANT, "when-store-fails: " policy ", " SLOW_LEASE)

static void what_is_in_hand_is_spent_in_an_outage_and_then_the_policy_answers(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *text;
        enum weir_outcome outcome;
        enum weir_policy in_hand, behind;
    } rows[] = {
        { "leased: and then nothing", FAILS("leased"), WEIR_REFUSED, WEIR_POLICY_LEASED, WEIR_POLICY_LEASED },
        { "closed", FAILS("closed"), WEIR_REFUSED, WEIR_POLICY_NONE, WEIR_POLICY_CLOSED },
        { "open", FAILS("open"), WEIR_UNMETERED, WEIR_POLICY_NONE, WEIR_POLICY_OPEN },
        { "local: a share, which begins empty", FAILS("{ local: 1/2 }"), WEIR_DENY, WEIR_POLICY_NONE,
          WEIR_POLICY_LOCAL },
    };
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        const struct row *row = &rows[i / 2];
        if (i % 2 == 0)
            world_open(&world, &redis, 1, row->text, 1, 1);
        else
            world_open_cluster(&world, &redis, 1, row->text, 1, 1);
        (void)warm_up(0, "acme");
        world_faults_set(&world, &(struct world_faults){ .is_down = true });
        (void)world_decide(&world, 0, "other", 1); /* the outage begins, at all nodes */
        for (unsigned node = 0; node < 40; node++) {
            char tenant[16];
            (void)snprintf(tenant, sizeof tenant, "n%u", node);
            (void)world_ask(&world, 0, 0, tenant, 1);
        }
        uint64_t in_hand = held(0);
        expect_row(in_hand > 0, row->why);
        for (; in_hand > 0; in_hand--) {
            struct asked *asked = world_ask(&world, 0, 0, "acme", 1);
            expect_row(asked->done == 1 && asked_met(asked, 0)->outcome == WEIR_ALLOW, row->why);
            expect_row(asked_met(asked, 0)->policy == row->in_hand, row->why);
            expect_row((asked_met(asked, 0)->reason == WEIR_REASON_STORE) == (row->in_hand != WEIR_POLICY_NONE),
                       row->why);
        }
        struct asked *behind = world_ask(&world, 0, 0, "acme", 1);
        expect_row(behind->done == 1 && asked_met(behind, 0)->outcome == row->outcome, row->why);
        expect_row(asked_met(behind, 0)->policy == row->behind, row->why);
        expect_row(asked_met(behind, 0)->reason == WEIR_REASON_STORE, row->why);
        world_heal(&world);
        world_run_for(&world, 20 * WEIR_SECOND);
        /* The outage is over, and so are its marks. */
        for (int j = 0; j < 5; j++)
            (void)world_decide(&world, 0, "acme", 1);
        struct asked *after = world_decide(&world, 0, "acme", 1);
        expect_row(after->decision.passes && asked_met(after, 0)->policy == WEIR_POLICY_NONE, row->why);
        world_close(&world);
    }
}

static void a_cost_that_is_in_hand_in_part_is_refused_whole_while_the_store_is_away(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, slow, 1, 1);
    (void)warm_up(0, "acme");
    uint64_t in_hand = held(0);
    world_faults_set(&world, &(struct world_faults){ .is_down = true });
    struct asked *asked = world_decide(&world, 0, "acme", in_hand + 1);
    assert_int_equal(asked_met(asked, 0)->outcome, WEIR_REFUSED);
    assert_int_equal(asked_met(asked, 0)->policy, WEIR_POLICY_LEASED);
    assert_int_equal(held(0), in_hand);
    struct asked *look =
        world_decide_as(&world, 0, "acme", in_hand, &(struct fleet_decision){ .is_peek = true });
    assert_true(look->decision.passes);
    assert_int_equal(asked_met(look, 0)->policy, WEIR_POLICY_LEASED);
    assert_int_equal(asked_met(look, 0)->remaining, in_hand);
    asked = world_decide_as(&world, 0, "acme", in_hand, &(struct fleet_decision){ .by_policy = true });
    assert_true(asked->decision.passes);
    assert_int_equal(held(0), 0);
    world_close(&world);
}

static void the_share_is_asked_for_what_is_not_in_hand(void **state)
{
    (void)state;
    static const char text[] = CONTRACT LIMIT(
        "rate", OF_TENANT,
        "when-store-fails: { local: 1/10 }, algorithm: fixed-window, rate: 100/1d, lease: { most: "
        "50, chunk: 10, for: 2s }");
    world_open(&world, &redis, 1, text, 2, 1);
    uint64_t spent = warm_up(0, "acme"), in_hand = held(0);
    world_faults_set(&world, &(struct world_faults){ .is_down = true });
    assert_false(passes(0, "acme", in_hand + 11));
    assert_int_equal(held(0), in_hand);
    assert_true(passes(0, "acme", in_hand + 10)); /* a tenth of the limit, and what is in hand */
    assert_int_equal(held(0), 0);
    assert_int_equal(counters(0).spent_kept, 10);
    assert_false(passes(0, "acme", 1));
    world_heal(&world);
    world_run_for(&world, 10 * WEIR_SECOND);
    assert_int_equal(counters(0).spent_told, 10);
    assert_int_equal(left(1, "acme", 0), 100 - spent - in_hand - 10);
    world_close(&world);
}

static void a_portion_ends_in_an_outage(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, slow, 2, 1);
    uint64_t spent = warm_up(0, "acme"), in_hand = held(0);
    world_faults_set(&world, &(struct world_faults){ .is_down = true });
    world_run_for(&world, 2 * WEIR_SECOND);
    assert_int_equal(held(0), 0);
    assert_false(passes(0, "acme", 1));
    world_heal(&world);
    world_run_for(&world, 10 * WEIR_SECOND);
    /* Wasted, and once: what was in hand does not come back by itself, and nothing else is missing. */
    assert_int_equal(left(1, "acme", 0), 100 - spent - in_hand);
    world_close(&world);
}

/* ---- The end ----------------------------------------------------------------------------------------------------------------- */

static void all_goes_back_before_the_end(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, slow, 2, 2);
    uint64_t spent = 0;
    static const char *const tenants[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    for (size_t i = 0; i < COUNT_OF(tenants); i++)
        for (int j = 0; j < 4; j++) {
            struct asked *asked = world_ask(&world, 0, j % 2, tenants[i], 1);
            world_run_for(&world, MS);
            spent += asked->decision.passes;
        }
    assert_int_equal(spent, 4 * COUNT_OF(tenants));
    assert_true(held(0) > 0 && fleet_holds(world.processes[0].common));
    fleet_hand_back(world.processes[0].workers[1].fleet, world.now);
    fleet_hand_back(world.processes[0].workers[0].fleet, world.now);
    world_run_for(&world, MS); /* though the other loop has no beat by then */
    assert_false(fleet_holds(world.processes[0].common));
    for (size_t i = 0; i < COUNT_OF(tenants); i++)
        assert_int_equal(left(1, tenants[i], 0), 100 - 4);
    /* From now on strictly. */
    uint64_t decided = counters(0).lease_decisions, messages = counters(0).lease_messages;
    assert_int_equal(spend(0, "a", 1, 10), 10);
    assert_int_equal(counters(0).lease_decisions, decided);
    assert_int_equal(counters(0).lease_messages, messages);
    assert_int_equal(left(1, "a", 0), 100 - 14);
    world_close(&world);
}

static void a_loop_that_goes_leaves_its_keys_to_the_others(void **state)
{
    (void)state;
    for (size_t stops = 0; stops < 2; stops++) {
        world_open(&world, &redis, 1, slow, 2, 2);
        for (int j = 0; j < 40; j++) {
            char tenant[16];
            (void)snprintf(tenant, sizeof tenant, "t%d", j / 4);
            (void)world_ask(&world, 0, (size_t)j % 2, tenant, 1);
            world_run_for(&world, MS);
        }
        assert_true(held(0) > 0);
        world_stop_worker(&world, 0, stops);
        world_run_for(&world, 8 * WEIR_SECOND);
        assert_false(fleet_holds(world.processes[0].common));
        assert_int_equal(counters(0).lease_lost, 0);
        for (int j = 0; j < 10; j++) {
            char tenant[16];
            (void)snprintf(tenant, sizeof tenant, "t%d", j);
            assert_int_equal(left(1, tenant, 0), 100 - 4);
        }
        world_close(&world);
    }
}

static void a_message_of_a_loop_that_goes_is_sent_by_another(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, slow, 2, 2);
    uint64_t spent = warm_up(0, "acme");
    (void)world_ask(&world, 0, 1, "b", 1);
    world_run_for(&world, MS);
    (void)world_ask(&world, 0, 1, "b", 1); /* the other loop has a beat, too */
    world_run_for(&world, MS);
    uint64_t messages = counters(0).lease_messages;
    for (uint64_t in_hand = left(0, "acme", 0) - left(1, "acme", 0); in_hand > 0; in_hand--)
        spent += world_ask(&world, 0, 0, "acme", 1)->decision.passes;
    world_run_for(&world, 0); /* the turn is over: it leaves */
    assert_true(counters(0).lease_messages > messages);
    world_stop_worker(&world, 0, 0);
    assert_true(fleet_holds(world.processes[0].common));
    world_run_for(&world, 8 * WEIR_SECOND);
    assert_false(fleet_holds(world.processes[0].common));
    assert_int_equal(left(1, "acme", 0), 100 - spent);
    world_close(&world);
}

/* ---- Other contracts ------------------------------------------------------------------------------------------------------- */

static void a_reload_changes_the_terms(void **state)
{
    (void)state;
    static const char strict[] = CONTRACT LIMIT("rate", OF_TENANT, "when-store-fails: closed, " SLOW);
    static const char other[] =
        CONTRACT LEASED("rate", OF_TENANT, "rate: 1/1h, burst: 60, lease: { most: 20, chunk: 5, for: 1s }");
    world_open(&world, &redis, 1, strict, 2, 1);
    assert_int_equal(spend(0, "acme", 1, 10), 10);
    assert_int_equal(counters(0).lease_messages, 0);
    world_reload(&world, 0, slow);
    world_reload(&world, 1, slow);
    assert_int_equal(spend(0, "acme", 1, 10), 10);
    assert_true(counters(0).lease_decisions > 0 && held(0) > 0);
    /* Once strictly, so that no message goes on with what a limit was before. */
    world_reload(&world, 0, slow);
    uint64_t decided = counters(0).lease_decisions;
    assert_int_equal(spend(0, "acme", 1, 1), 1);
    assert_int_equal(counters(0).lease_decisions, decided);
    assert_int_equal(spend(0, "acme", 1, 1), 1);
    assert_int_equal(counters(0).lease_decisions, decided + 1);
    decided = counters(0).lease_decisions;
    world_reload(&world, 0, strict); /* one replica first */
    assert_int_equal(spend(0, "acme", 1, 10), 10);
    assert_int_equal(counters(0).lease_decisions, decided);
    world_reload(&world, 1, strict);
    world_run_for(&world, 5 * WEIR_SECOND);
    assert_int_equal(held(0), 0);
    uint64_t remains = left(1, "acme", 0);
    assert_true(remains <= 68 && remains >= 58); /* at most a portion was wasted */
    world_reload(&world, 0, other);
    world_reload(&world, 1, other);
    /* What is used stays used: of 60 so much less. */
    assert_int_equal(left(1, "acme", 0), 60 - (100 - remains));
    uint64_t passed = spend(0, "acme", 1, 100) + spend(1, "acme", 1, 100);
    assert_int_equal(passed, 60 - (100 - remains));
    assert_true(counters(0).lease_decisions > decided);
    world_close(&world);
}

static void a_refusal_that_is_known_does_not_hide_a_portion(void **state)
{
    (void)state;
    static const char text[] =
        CONTRACT LEASED("rate", OF_TENANT, "rate: 10/1s, burst: 10, lease: { most: 10, chunk: 10, for: 2s }");
    world_open(&world, &redis, 1, text, 2, 1);
    weir_ns began = world.now;
    uint64_t passed = 0;
    while (world.now < began + 10 * WEIR_SECOND) {
        passed += spend(0, "acme", 1, 1);
        if (held(0) > 0) { /* what is in hand passes, whatever is known */
            assert_true(world_ask(&world, 0, 0, "acme", 1)->decision.passes);
            passed++;
        }
    }
    assert_true(passed <= 110 && passed >= 100);
    assert_true(counters(0).known > 1000); /* and the rest cost nothing */
    world_close(&world);
}

static void what_is_given_back_is_not_refused_out_of_what_was_known(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, slow, 1, 1);
    (void)warm_up(0, "acme");
    uint64_t in_hand = held(0), pool = left(0, "acme", 0) - in_hand;
    assert_true(in_hand >= 2);
    /* What the hand has and all of the pool; then one more than both, of which the store is asked for the rest. */
    struct asked *reserved = world_decide_as(
        &world, 0, "acme", pool, &(struct fleet_decision){ .kind = FLEET_RESERVE, .hold = WEIR_HOUR });
    assert_true(reserved->decision.passes);
    assert_false(passes(0, "acme", in_hand + 2));
    assert_false(passes(0, "acme", in_hand + 2));
    assert_int_equal(counters(0).known, 1);
    while (held(0) > 0)
        world_run_for(&world, 10 * MS);
    assert_true(world.now < WORLD_START + 5 * WEIR_SECOND); /* of the refusal it would still be trusted */
    assert_true(passes(0, "acme", 2));
    world_close(&world);
}

static void a_reset_forgets_what_is_leased(void **state)
{
    (void)state;
    static struct weir_shared shared;
    world_open(&world, &redis, 1, slow, 2, 1);
    (void)warm_up(0, "acme");
    world_questions(&world, 1, "acme", 1, &shared);
    struct fleet_operation reset = { .verb = FLEET_RESET, .shared = &shared };
    world_operate(&world, 1, &reset);
    assert_int_equal(reset.fault, FLEET_OK);
    assert_int_equal(left(1, "acme", 0), 100);
    assert_int_equal(redis_number(redis_say(&redis, "DBSIZE", NULL)), 0);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_that_lost_the_script_is_brought_it),
        cmocka_unit_test(a_message_whose_answer_is_lost_goes_again_as_it_was),
        cmocka_unit_test(a_suspended_machine_spends_nothing_of_before),
        cmocka_unit_test(what_is_in_hand_is_spent_in_an_outage_and_then_the_policy_answers),
        cmocka_unit_test(a_cost_that_is_in_hand_in_part_is_refused_whole_while_the_store_is_away),
        cmocka_unit_test(the_share_is_asked_for_what_is_not_in_hand),
        cmocka_unit_test(a_portion_ends_in_an_outage),
        cmocka_unit_test(all_goes_back_before_the_end),
        cmocka_unit_test(a_loop_that_goes_leaves_its_keys_to_the_others),
        cmocka_unit_test(a_message_of_a_loop_that_goes_is_sent_by_another),
        cmocka_unit_test(a_reload_changes_the_terms),
        cmocka_unit_test(a_refusal_that_is_known_does_not_hide_a_portion),
        cmocka_unit_test(what_is_given_back_is_not_refused_out_of_what_was_known),
        cmocka_unit_test(a_reset_forgets_what_is_leased),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
