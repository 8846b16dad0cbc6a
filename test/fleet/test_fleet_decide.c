// SPDX-License-Identifier: Apache-2.0
/*
 * test_fleet_decide.c - one request's way through a store that is well: what is asked, what is answered, what is left behind.
 *
 * The expected numbers come from the definitions: a bucket of 5 that gets 10 back in a second has one token more every 100 ms.
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
#define CONTRACT "weir: 1\nlimits:\n"
#define LIMIT(name, key, more) \
    "  - { name: " name ", key: " key ", scope: fleet, when-store-fails: closed, " more " }\n"
#define OF_TENANT "[tenant]"
#define OF_PATH "[path]"
static const char bucket[] = CONTRACT LIMIT("rate", OF_TENANT, "rate: 10/1s, burst: 5");

/* Replies come in the instant of asking, so that numbers are exact. */
static void open_at_once(const char *text, size_t processes)
{
    world_open(&world, &redis, 1, text, processes, 1);
    world.way = 0;
}

static void open_cluster_at_once(const char *text, size_t processes)
{
    world_open_cluster(&world, &redis, 1, text, processes, 1);
    world.way = 0;
}

/* Every process and the store know the script by its hash. */
static void warm_up(void)
{
    for (size_t i = 0; i < world.process_count; i++)
        (void)world_decide_as(&world, i, "warm", 1, &(struct fleet_decision){ .is_peek = true });
}

static struct fleet_counters counters(size_t process)
{
    struct fleet_counters out;
    process_count_up(&world.processes[process], &out);
    return out;
}

static uint64_t left(size_t process, const char *tenant, weir_limit_id limit)
{
    fleet_common_changed(world.processes[process].common); /* of what is known to be refused */
    return asked_met(world_decide_as(&world, process, tenant, 1, &(struct fleet_decision){ .is_peek = true }),
                     limit)
        ->remaining;
}

/* ---- One limit ------------------------------------------------------------------------------------------------------ */

static void a_bucket_is_one_for_all_processes(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        weir_ns later;
        size_t process;
        uint64_t cost;
        enum weir_outcome outcome;
        uint64_t remaining;
        weir_ns retry, reset;
    } rows[] = {
        { "a new key is full", 0, 0, 3, WEIR_ALLOW, 2, 0, 300 * MS },
        { "another process finds what is left", 0, 1, 2, WEIR_ALLOW, 0, 0, 500 * MS },
        { "and nothing more", 0, 2, 1, WEIR_DENY, 0, 100 * MS, 500 * MS },
        { "one token comes back in 100 ms", 100 * MS, 0, 1, WEIR_ALLOW, 0, 0, 500 * MS },
        { "more than the burst never", 0, 1, 6, WEIR_NEVER, 0, WEIR_NO_TIME, 500 * MS },
        { "a look of nothing passes, and says when one token will be there", 0, 2, 0, WEIR_ALLOW, 0, 100 * MS,
          500 * MS },
        { "after half a second it is full", 500 * MS, 2, 5, WEIR_ALLOW, 0, 0, 500 * MS },
    };
    open_at_once(bucket, 3);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        world_run_for(&world, row->later);
        const struct asked *asked = world_decide(&world, row->process, "acme", row->cost);
        const struct weir_decision *decision = asked_met(asked, 0);
        expect_row(decision->outcome == row->outcome && decision->policy == WEIR_POLICY_NONE, row->why);
        expect_row(asked->decision.passes == (row->outcome == WEIR_ALLOW), row->why);
        expect_row(decision->remaining == row->remaining && decision->capacity == 5, row->why);
        expect_row(decision->decided_at == world.now, row->why);
        expect_row(decision->retry_at == (row->retry == WEIR_NO_TIME ? WEIR_NO_TIME : world.now + row->retry),
                   row->why);
        expect_row(decision->reset_at == world.now + row->reset, row->why);
        expect_row(asked->decision.handle == NULL && asked->decision.count == 1, row->why);
    }
    world_close(&world);
}

static void numbers_count_from_the_replys_arrival(void **state)
{
    (void)state;
    world.has_clocks = true;
    world_open(&world, &redis, 1, bucket, 1, 1);
    world.has_clocks = false; /* for the next ones */
    world.way = 0;
    warm_up();
    const struct fleet_counters before = counters(0);
    world.way = 700 * WEIR_MICROSECOND;
    for (int i = 0; i < 5; i++)
        assert_true(world_decide(&world, 0, "acme", 1)->decision.passes);
    struct asked *asked = world_decide(&world, 0, "acme", 1);
    const struct weir_decision *decision = asked_met(asked, 0);
    assert_int_equal(decision->outcome, WEIR_DENY);
    assert_int_equal(decision->decided_at, asked->asked_at + 1400 * WEIR_MICROSECOND);
    assert_true(decision->retry_at > decision->decided_at
                && decision->retry_at <= decision->decided_at + 100 * MS);
    assert_true(decision->reset_at > decision->retry_at
                && decision->reset_at <= decision->decided_at + 500 * MS);
    const struct fleet_counters after = counters(0);
    assert_int_equal(after.seconds_count - before.seconds_count, 6);
    assert_int_equal(after.seconds_sum_ns - before.seconds_sum_ns, 6 * 1400 * WEIR_MICROSECOND);
    assert_int_equal(after.seconds_le[5] - before.seconds_le[5], 6); /* 2 ms */
    assert_int_equal(after.seconds_le[4] - before.seconds_le[4], 0); /* 1 ms */
    world_close(&world);
}

static void looks_take_nothing(void **state)
{
    (void)state;
    open_at_once(bucket, 2);
    for (int i = 0; i < 20; i++)
        assert_int_equal(left(i % 2, "acme", 0), 5);
    assert_true(world_decide(&world, 0, "acme", 5)->decision.passes);
    assert_int_equal(left(1, "acme", 0), 0);
    world_close(&world);
}

static void unlimited_keys_are_not_asked_about(void **state)
{
    (void)state;
    static const char text[] = CONTRACT
        "  - name: rate\n    key: [tenant]\n    rate: 10/1s\n    burst: 5\n    scope: fleet\n    "
        "when-store-fails: closed\n"
        "    overrides: [{ key: { tenant: root }, unlimited: true }, { key: { tenant: big }, burst: 7 }]\n";
    open_at_once(text, 1);
    const struct weir_decision *decision = asked_met(world_decide(&world, 0, "root", 1000), 0);
    assert_int_equal(decision->outcome, WEIR_ALLOW);
    assert_true(decision->capacity == WEIR_UNLIMITED && decision->remaining == WEIR_UNLIMITED);
    assert_int_equal(world.sent, 0);
    assert_int_equal(asked_met(world_decide(&world, 0, "big", 7), 0)->capacity, 7);
    assert_int_equal(asked_met(world_decide(&world, 0, "small", 5), 0)->capacity, 5);
    world_close(&world);
}

static void retries_are_not_charged_twice(void **state)
{
    (void)state;
    static const char text[] =
        CONTRACT LIMIT("rate", OF_TENANT, "rate: 10/1s, burst: 5, retries: { free-within: 10s, by: request }");
    open_at_once(text, 2);
    assert_int_equal(asked_met(world_decide(&world, 0, "acme", 2), 0)->outcome, WEIR_ALLOW);
    struct asked *again = world_decide(&world, 1, "acme", 2);
    assert_true(again->decision.passes);
    assert_int_equal(asked_met(again, 0)->outcome, WEIR_DUPLICATE);
    assert_int_equal(asked_met(again, 0)->remaining, 3);
    world_close(&world);
}

/* ---- Several limits --------------------------------------------------------------------------------------------------- */

#define TWO \
    CONTRACT LIMIT("tenants", OF_TENANT, "rate: 10/1s, burst: 5") \
        LIMIT("paths", OF_PATH, "rate: 1/1s, burst: 3")

static void all_or_nothing_in_one_command(void **state)
{
    (void)state;
    open_at_once(TWO, 1);
    assert_true(world_decide(&world, 0, "acme", 3)->decision.passes);
    size_t sent = world.sent;
    struct asked *asked = world_decide(&world, 0, "zeta", 1);
    assert_false(asked->decision.passes);
    assert_int_equal(world.sent, sent + 1);
    assert_int_equal(asked_met(asked, 0)->outcome, WEIR_ALLOW);
    assert_int_equal(asked_met(asked, 0)->remaining, 5); /* as a look: it is not charged */
    assert_int_equal(asked_met(asked, 1)->outcome, WEIR_DENY);
    assert_int_equal(asked_met(asked, 1)->retry_at, world.now + WEIR_SECOND);
    world_close(&world);
}

/* A name of a tenant whose key lies on the given node of three. */
static const char *tenant_on(unsigned node)
{
    static char name[WORLD_NODES][16];
    for (int i = 0; i < 1000; i++) {
        char key[64];
        (void)snprintf(name[node], sizeof name[node], "t%d", i);
        int len = snprintf(key, sizeof key, "weir:1:{tenant=%s}:tenants:b", name[node]);
        if (name_slot((struct slice){ key, (size_t)len }) * WORLD_NODES / SLOT_COUNT == node)
            return name[node];
    }
    fail();
    return NULL;
}

static unsigned node_of_paths(void)
{
    return name_slot(SLICE("weir:1:{path=/}:paths:b")) * WORLD_NODES / SLOT_COUNT;
}

static void a_later_hash_tag_that_refuses_undoes_the_earlier_one(void **state)
{
    (void)state;
    open_cluster_at_once(TWO, 2);
    const char *x = tenant_on((node_of_paths() + 1) % 3);
    assert_true(world_decide(&world, 0, x, 3)->decision.passes); /* uses up the path */
    assert_int_equal(left(1, x, 0), 2);
    world_run_for(&world, 300 * MS); /* three tokens for the tenant, none for the path */
    struct asked *asked = world_decide(&world, 0, x, 2);
    assert_false(asked->decision.passes);
    /* "paths" comes before "tenants" in the order: the second one is not asked at all, and is left out. */
    assert_int_equal(asked->decision.count, 1);
    assert_int_equal(asked_met(asked, 1)->outcome, WEIR_DENY);
    assert_int_equal(left(1, x, 0), 5);
    world_run_for(&world, 3 * WEIR_SECOND); /* all is full */
    assert_true(world_decide(&world, 0, x, 3)->decision.passes);
    world_run_for(&world, 100 * MS); /* tenants has 3, paths none */
    world_close(&world);

    open_cluster_at_once(CONTRACT LIMIT("a-paths", OF_PATH, "rate: 1/1s, burst: 9")
                             LIMIT("tenants", OF_TENANT, "rate: 10/1s, burst: 5"),
                         2);
    assert_true(world_decide(&world, 0, x, 5)->decision.passes);
    asked = world_decide(&world, 0, x, 1);
    assert_false(asked->decision.passes);
    assert_int_equal(asked_met(asked, 1)->outcome, WEIR_DENY);
    assert_int_equal(asked_met(asked, 0)->outcome, WEIR_ALLOW);
    assert_int_equal(asked_met(asked, 0)->remaining, 3); /* as the charging step saw it: at least */
    assert_int_equal(left(1, x, 0), 4);
    world_close(&world);
}

static void looks_at_several_hash_tags_go_at_once(void **state)
{
    (void)state;
    world_open_cluster(&world, &redis, 1, TWO, 1, 1);
    warm_up();
    world.way = MS;
    struct asked *look = world_decide_as(&world, 0, "acme", 1, &(struct fleet_decision){ .is_peek = true });
    assert_int_equal(look->done_at - look->asked_at, 2 * MS);
    assert_int_equal(look->decision.count, 2);
    struct asked *taken = world_decide(&world, 0, "acme", 1);
    assert_int_equal(taken->done_at - taken->asked_at, 4 * MS);
    world_close(&world);
}

static void watched_limits_never_bind(void **state)
{
    (void)state;
    static const char text[] = CONTRACT LIMIT("a-watched", OF_PATH, "rate: 1/1s, burst: 1, enforce: shadow")
        LIMIT("tenants", OF_TENANT, "rate: 10/1s, burst: 5");
    for (int is_cluster = 0; is_cluster < 2; is_cluster++) {
        if (is_cluster)
            open_cluster_at_once(text, 1);
        else
            open_at_once(text, 1);
        for (int i = 0; i < 3; i++) {
            struct asked *asked = world_decide(&world, 0, "acme", 1);
            assert_true(asked->decision.passes);
            assert_int_equal(asked_met(asked, 0)->outcome, i == 0 ? WEIR_ALLOW : WEIR_DENY);
            assert_true(asked->met[0].is_watched && !asked->met[1].is_watched);
        }
        world_run_for(&world, WEIR_SECOND); /* the watched one is full again */
        assert_true(world_decide(&world, 0, "acme", 1)->decision.passes);
        world_run_for(&world, WEIR_SECOND);
        /* A request that is refused does not take from it: the node of it is not even asked in a Cluster. */
        for (int i = 0; i < 5; i++)
            assert_true(world_decide(&world, 0, "zeta", 1)->decision.passes);
        world_run_for(&world,
                      WEIR_SECOND
                          - 1); /* zeta has got ten back but for a moment, the watched one is full but for it */
        assert_true(world_decide(&world, 0, "zeta", 5)->decision.passes);
        struct asked *refused = world_decide(&world, 0, "zeta", 1);
        assert_false(refused->decision.passes);
        assert_int_equal(refused->decision.count, is_cluster ? 1 : 2);
        world_close(&world);
    }
}

static void a_node_that_is_away_is_answered_for_by_policy(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *policy;
        bool passes;
    } rows[] = {
        { "closed: the request is refused, and what the other node was charged is undone", "closed", false },
        { "open: it passes, and the other node keeps it", "open", true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[512];
        (void)snprintf(
            text, sizeof text,
            CONTRACT LIMIT("a-paths", OF_PATH,
                           "rate: 1/1s, burst: 9") "  - { name: tenants, key: [tenant], scope: fleet, "
                                                   "when-store-fails: %s, rate: 10/1s, burst: 5 }\n",
            rows[i].policy);
        open_cluster_at_once(text, 1);
        unsigned other = (node_of_paths() + 1) % 3;
        const char *x = tenant_on(other);
        world.faults[other].is_down = true;
        struct asked *asked = world_decide(&world, 0, x, 4);
        expect_row(asked->decision.passes == rows[i].passes, rows[i].why);
        expect_row(asked_met(asked, 1)->reason == WEIR_REASON_STORE, rows[i].why);
        expect_row(asked_met(asked, 0)->policy == WEIR_POLICY_NONE, rows[i].why);
        expect_row(asked_met(asked, 0)->remaining == 5, rows[i].why);
        world_heal(&world);
        expect_row(left(0, tenant_on(0), 0) == (rows[i].passes ? 5 : 9), rows[i].why);
        world_close(&world);
    }
}

static void a_request_that_closed_refuses_anyway_charges_nothing_more(void **state)
{
    (void)state;
    open_cluster_at_once(CONTRACT LIMIT("a-paths", OF_PATH, "rate: 1/1s, burst: 9")
                             LIMIT("tenants", OF_TENANT, "rate: 10/1s, burst: 5"),
                         1);
    world.faults[node_of_paths()].is_down = true;
    size_t sent = world.sent;
    struct asked *asked = world_decide(&world, 0, tenant_on((node_of_paths() + 1) % 3), 1);
    assert_false(asked->decision.passes);
    assert_int_equal(world.sent, sent); /* the second group was not asked */
    assert_int_equal(asked->decision.count, 1);
    assert_int_equal(asked_met(asked, 0)->outcome, WEIR_REFUSED);
    world_heal(&world);
    world_close(&world);
}

static void the_deadline_covers_the_sum_of_the_hash_tags(void **state)
{
    (void)state;
    world_open_cluster(&world, &redis, 1, TWO, 1, 1);
    warm_up();
    world.way = 1800 * WEIR_MICROSECOND; /* 3.6 ms each: the second one comes too late for 5 ms */
    struct asked *asked = world_decide(&world, 0, "acme", 1);
    assert_false(asked->decision.passes);
    assert_int_equal(asked->done_at - asked->asked_at, world.deadline);
    assert_int_equal(asked_met(asked, 0)->outcome, WEIR_REFUSED);
    assert_int_equal(counters(0).late, 1);
    world.way = 0;
    world_run_for(&world, WEIR_SECOND);
    /* The first was undone. The second counts as consumed: the store has it, for the command was executed. */
    assert_int_equal(left(0, "acme", 1), 3);
    world_close(&world);
}

static void what_is_refused_elsewhere_is_undone_from_within_done(void **state)
{
    (void)state;
    for (int is_cluster = 0; is_cluster < 2; is_cluster++) {
        if (is_cluster)
            open_cluster_at_once(TWO, 1);
        else
            open_at_once(TWO, 1);
        int undoes;
        assert_true(world_decide_as(&world, 0, "acme", 2, &(struct fleet_decision){ .owner = &undoes })
                        ->decision.passes);
        assert_true(world_decide_as(&world, 0, "acme", 2, &(struct fleet_decision){ .owner = &undoes })
                        ->decision.passes);
        assert_int_equal(left(0, "acme", 0), 5);
        assert_int_equal(left(0, "acme", 1), 3);
        world_close(&world);
    }
}

static void one_of_many_carries_the_script(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, CONTRACT LIMIT("rate", OF_TENANT, "rate: 1/1h, burst: 500"), 1, 1);
    for (int i = 0; i < 320; i++)
        (void)world_ask(&world, 0, 0, "acme", 1);
    world_settle(&world);
    assert_int_equal(counters(0).scripts, 1);
    assert_int_equal(world.sent, 320 + 320);
    assert_int_equal(left(0, "acme", 0), 180);
    world_close(&world);
}

static void a_cost_that_never_passes_is_said_although_another_limit_is_known_to_refuse(void **state)
{
    (void)state;
    open_at_once(CONTRACT LIMIT("tenants", OF_TENANT, "rate: 10/1s, burst: 5")
                     LIMIT("paths", OF_PATH, "rate: 1/1s, burst: 9"),
                 1);
    assert_true(world_decide(&world, 0, "a", 5)->decision.passes);
    assert_true(world_decide(&world, 0, "b", 4)->decision.passes);
    assert_false(world_decide(&world, 0, "c", 6)->decision.passes); /* of paths nothing is left */
    struct asked *asked = world_decide(&world, 0, "c", 6);
    assert_int_equal(asked_met(asked, 0)->outcome, WEIR_NEVER);
    world_close(&world);
}

static void what_is_known_of_several_limits_is_what_bound_the_answer(void **state)
{
    (void)state;
    open_at_once(CONTRACT LIMIT("tenants", OF_TENANT, "rate: 10/1s, burst: 5")
                     LIMIT("paths", OF_PATH, "rate: 1/1s, burst: 5"),
                 1);
    assert_true(world_decide(&world, 0, "a", 5)->decision.passes);
    assert_int_equal(asked_met(world_decide(&world, 0, "a", 1), 0)->outcome,
                     WEIR_DENY); /* both refuse; the path for longer */
    size_t sent = world.sent;
    struct asked *again = world_decide(&world, 0, "a", 1);
    assert_int_equal(world.sent, sent);
    assert_int_equal(again->decision.count, 1);
    assert_int_equal(asked_met(again, 1)->retry_at, world.now + WEIR_SECOND);
    assert_false(world_decide(&world, 0, "b", 1)->decision.passes); /* another tenant's may free later: asked */
    assert_int_equal(world.sent, sent + 1);
    world_close(&world);
}

/* ---- Ends --------------------------------------------------------------------------------------------------------------- */

static void without_room_the_policy_answers_at_once(void **state)
{
    (void)state;
    open_at_once(
        CONTRACT
        "  - { name: rate, key: [tenant], scope: fleet, when-store-fails: open, rate: 10/1s, burst: 5 }\n",
        1);
    struct asked *asked = world_ask_as(&world, 0, 0, "acme", 1, &(struct fleet_decision){ .by_policy = true });
    assert_int_equal(asked->done, 1);
    assert_int_equal(asked_met(asked, 0)->outcome, WEIR_UNMETERED);
    assert_int_equal(world.sent, 0);
    assert_int_equal(counters(0).avoided, 1);
    world_run_for(&world, 500 * MS); /* a probe ends that outage */
    assert_int_equal(outage_now(outage_of(fleet_common_outages(world.processes[0].common), "node0")).began_at,
                     WEIR_NO_TIME);
    assert_int_equal(asked_met(world_decide(&world, 0, "acme", 1), 0)->outcome, WEIR_ALLOW);
    world_close(&world);
}

static void a_drain_answers_everybody(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, TWO, 1, 1);
    struct fleet *fleet = world.processes[0].workers[0].fleet;
    struct asked *asked[300];
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        asked[i] = world_ask(&world, 0, 0, "acme", 1);
    assert_int_equal(fleet_under_way(fleet), COUNT_OF(asked));
    fleet_drain(fleet, world.now);
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        assert_int_equal(asked[i]->done, 1);
        assert_int_equal(asked_met(asked[i], 0)->outcome, WEIR_REFUSED);
    }
    assert_int_equal(fleet_under_way(fleet), 0);
    assert_true(fleet_next(fleet) == WEIR_NO_TIME);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_is_one_for_all_processes),
        cmocka_unit_test(numbers_count_from_the_replys_arrival),
        cmocka_unit_test(looks_take_nothing),
        cmocka_unit_test(unlimited_keys_are_not_asked_about),
        cmocka_unit_test(retries_are_not_charged_twice),
        cmocka_unit_test(all_or_nothing_in_one_command),
        cmocka_unit_test(a_later_hash_tag_that_refuses_undoes_the_earlier_one),
        cmocka_unit_test(looks_at_several_hash_tags_go_at_once),
        cmocka_unit_test(watched_limits_never_bind),
        cmocka_unit_test(a_node_that_is_away_is_answered_for_by_policy),
        cmocka_unit_test(a_request_that_closed_refuses_anyway_charges_nothing_more),
        cmocka_unit_test(the_deadline_covers_the_sum_of_the_hash_tags),
        cmocka_unit_test(what_is_refused_elsewhere_is_undone_from_within_done),
        cmocka_unit_test(one_of_many_carries_the_script),
        cmocka_unit_test(a_cost_that_never_passes_is_said_although_another_limit_is_known_to_refuse),
        cmocka_unit_test(what_is_known_of_several_limits_is_what_bound_the_answer),
        cmocka_unit_test(without_room_the_policy_answers_at_once),
        cmocka_unit_test(a_drain_answers_everybody),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
