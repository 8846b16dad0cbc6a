// SPDX-License-Identifier: Apache-2.0
/*
 * test_fleet_local.c - shares that processes spend while the store is away, and how the store learns of it.
 *
 * Windows of a share start full, so they say exactly what was taken of them; buckets start empty at each outage.
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
#define LIMIT(name, key, more) "  - { name: " name ", key: " key ", scope: fleet, " more " }\n"
#define DAY_OF_12 "algorithm: fixed-window, rate: 12/1d"
static const char quarter[] =
    CONTRACT LIMIT("daily", "[tenant]", DAY_OF_12 ", when-store-fails: { local: 1/4 }");

static struct fleet_counters counters(size_t process)
{
    struct fleet_counters out;
    process_count_up(&world.processes[process], &out);
    return out;
}

static uint64_t left(const char *tenant, weir_limit_id limit)
{
    for (size_t i = 0; i < world.process_count; i++)
        fleet_common_changed(world.processes[i].common);
    return asked_met(world_decide_as(&world, 0, tenant, 1, &(struct fleet_decision){ .is_peek = true }), limit)
        ->remaining;
}

static void take_all_of(size_t process, const char *tenant, unsigned passes)
{
    for (unsigned i = 0; i < passes + 3; i++) {
        struct asked *asked = world_decide(&world, process, tenant, 1);
        assert_int_equal(asked->decision.passes, i < passes);
        assert_int_equal(asked_met(asked, 0)->policy, WEIR_POLICY_LOCAL);
        assert_int_equal(asked_met(asked, 0)->reason, WEIR_REASON_STORE);
    }
}

static void what_was_spent_is_told_once(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, quarter, 2, 2);
    assert_true(world_decide(&world, 0, "acme", 2)->decision.passes);
    world_faults_set(&world, &(struct world_faults){ .is_down = true });
    take_all_of(0, "acme", 3);
    take_all_of(1, "acme", 3);
    take_all_of(1, "zeta", 3);
    assert_true(counters(0).spent_kept == 3 && counters(1).spent_kept == 6);
    world_heal(&world);
    world_run_for(&world, 6 * WEIR_SECOND); /* nobody asks: the probes find it */
    assert_true(counters(0).spent_kept == 0 && counters(0).spent_told == 3 && counters(0).spent_lost == 0);
    assert_true(counters(1).spent_kept == 0 && counters(1).spent_told == 6 && counters(1).spent_lost == 0);
    assert_int_equal(left("acme", 0), 12 - 2 - 6);
    assert_int_equal(left("zeta", 0), 12 - 3);
    world_close(&world);
}

static void many_keys_are_told_in_small_batches_between_decisions(void **state)
{
    (void)state;
    for (int is_cluster = 0; is_cluster < 2; is_cluster++) {
        (is_cluster ? world_open_cluster : world_open)(&world, &redis, 1, quarter, 1, 1);
        world.checks_expiry = false;
        assert_true(world_decide(&world, 0, "warm", 1)->decision.passes);
        world_faults_set(&world, &(struct world_faults){ .is_down = true });
        char name[16];
        for (int i = 0; i < 100; i++) {
            (void)snprintf(name, sizeof name, "t%d", i);
            assert_true(world_decide(&world, 0, name, 2)->decision.passes);
        }
        assert_int_equal(counters(0).spent_kept, 200);
        world_heal(&world);
        world_run_for(&world, 6 * WEIR_SECOND);
        uint64_t before = counters(0).commands;
        for (int i = 0; i < 100; i++) {
            struct asked *asked = world_decide(&world, 0, "other", 0);
            assert_true(asked->done_at - asked->asked_at <= 2 * world.way); /* never delayed */
        }
        assert_true(counters(0).commands - before <= 200);
        assert_true(counters(0).spent_kept == 0 && counters(0).spent_told == 200);
        for (int i = 0; i < 100; i += 33) {
            (void)snprintf(name, sizeof name, "t%d", i);
            assert_int_equal(left(name, 0), 10);
        }
        assert_string_equal(redis_immortals(&redis), "");
        world_close(&world);
    }
}

static void what_may_have_been_executed_is_not_told_as_well(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        struct world_faults faults;
        unsigned kept, left;
    } rows[] = {
        { "it was executed, the reply was lost: the store has it", { .lose_reply = 1000 }, 0, 11 },
        { "the connection broke behind it", { .break_after = 1000 }, 0, 11 },
        { "it was lost on its way: nobody knows, so it counts as consumed", { .lose_command = 1000 }, 0, 12 },
        { "it was refused: told later", { .is_down = true }, 1, 11 },
        { "a node that cannot serve: told later", { .is_read_only = true }, 1, 11 },
        { "a script is running: told later", { .is_busy = true }, 1, 11 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        world_open(&world, &redis, 1, quarter, 1, 1);
        assert_true(world_decide_as(&world, 0, "warm", 1, &(struct fleet_decision){ .is_peek = true })
                        ->decision.passes);
        world_faults_set(&world, &rows[i].faults);
        struct asked *asked = world_decide(&world, 0, "acme", 1);
        expect_row(asked_met(asked, 0)->policy == WEIR_POLICY_LOCAL && asked->decision.passes, rows[i].why);
        expect_row(counters(0).spent_kept == rows[i].kept, rows[i].why);
        world_heal(&world);
        world_run_for(&world, 6 * WEIR_SECOND);
        expect_row(left("acme", 0) == rows[i].left, rows[i].why);
        world_close(&world);
    }
}

static void a_batch_of_unknown_fate_counts_as_told(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        struct world_faults faults;
        unsigned left;
    } rows[] = {
        { "it was executed: not again", { .lose_reply = 1000 }, 9 },
        { "it was not: within the stated overshoot", { .lose_command = 1000 }, 12 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        world_open(&world, &redis, 1, quarter, 1, 1);
        struct fleet *fleet = world.processes[0].workers[0].fleet;
        (void)world_decide_as(&world, 0, "warm", 1, &(struct fleet_decision){ .is_peek = true });
        (void)redis_say(&redis, "SCRIPT", "FLUSH",
                        NULL); /* so that telling takes two commands: the second is lost */
        world_faults_set(&world, &(struct world_faults){ .is_down = true });
        take_all_of(0, "acme", 3);
        world_heal(&world);
        /* One answer, and the batch is on its way; then the network goes. */
        while (counters(0).spent_kept > 0)
            world_run_for(&world, world.way / 2);
        world_faults_set(&world, &rows[i].faults);
        world_run_for(&world, 2 * WEIR_SECOND);
        world_heal(&world);
        world_run_for(&world, 6 * WEIR_SECOND);
        expect_row(counters(0).spent_told == 3 && counters(0).spent_kept == 0, rows[i].why);
        expect_row(left("acme", 0) == rows[i].left, rows[i].why);
        expect_row(fleet_next(fleet) == WEIR_NO_TIME, rows[i].why);
        world_close(&world);
    }
}

static void reload(const char *text)
{
    struct weir_reload done;
    struct process *process = &world.processes[0];
    assert_int_equal(
        weir_contract_reload(process->contract, text, strlen(text), "test", world.now, &done, NULL), 0);
    weir_contract_quiesce(process->contract, world.now);
    fleet_common_changed(process->common);
}

static void a_reload_while_the_store_is_away_loses_nothing(void **state)
{
    (void)state;
    static const char other[] = CONTRACT LIMIT("new", "[path]", "rate: 1/1s, burst: 1, when-store-fails: open")
        LIMIT("daily", "[tenant]", "algorithm: fixed-window, rate: 24/1d, when-store-fails: closed");
    static const char without[] =
        CONTRACT LIMIT("new", "[tenant]", "rate: 1/1s, burst: 1, when-store-fails: open");
    world_open(&world, &redis, 1, quarter, 1, 1);
    world_faults_set(&world, &(struct world_faults){ .is_down = true });
    take_all_of(0, "acme", 3);
    reload(other); /* another place, another size, another policy: the same limit and key */
    world_heal(&world);
    world_run_for(&world, 6 * WEIR_SECOND);
    assert_true(counters(0).spent_kept == 0 && counters(0).spent_told == 3 && counters(0).spent_lost == 0);
    assert_int_equal(left("acme", 1), 24 - 3);

    reload(quarter);
    world_faults_set(&world, &(struct world_faults){ .is_down = true });
    take_all_of(0, "zeta", 3);
    reload(without); /* nobody counts it any more */
    world_heal(&world);
    world_run_for(&world, 6 * WEIR_SECOND);
    assert_true(counters(0).spent_kept == 0 && counters(0).spent_told == 3 && counters(0).spent_lost == 3);
    world_close(&world);
}

static unsigned node_of(const char *tag)
{
    char name[64];
    int len = snprintf(name, sizeof name, "weir:1:{%s}:x:f", tag);
    return name_slot((struct slice){ name, (size_t)len }) * WORLD_NODES / SLOT_COUNT;
}

/* A name whose keys as a tenant and as a request lie on other nodes than this one. */
static const char *away_from(unsigned node)
{
    static char name[16];
    char tenant[32], request[32];
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        (void)snprintf(tenant, sizeof tenant, "tenant=%s", name);
        (void)snprintf(request, sizeof request, "request=%s", name);
        if (node_of(tenant) != node && node_of(request) != node)
            return name;
    }
    fail();
    return NULL;
}

static void a_share_is_taken_once_and_only_by_who_passes(void **state)
{
    (void)state;
    static const char text[] =
        CONTRACT LIMIT("a-daily", "[tenant]", DAY_OF_12 ", when-store-fails: { local: 1/4 }")
            LIMIT("b-paths", "[path]", "algorithm: fixed-window, rate: 2/1d, when-store-fails: closed")
                LIMIT("c-requests", "[request, tenant]", DAY_OF_12 ", when-store-fails: { local: 1/4 }");
    world_open_cluster(&world, &redis, 1, text, 1, 1);
    /* Only the node of the paths is there. */
    unsigned paths = name_slot(SLICE("weir:1:{path=/}:b-paths:f")) * WORLD_NODES / SLOT_COUNT;
    for (unsigned i = 0; i < WORLD_NODES; i++)
        world.faults[i].is_down = i != paths;
    const char *tenant = away_from(paths);
    unsigned passed = 0;
    struct asked *last = NULL;
    for (int i = 0; i < 12; i++) {
        last = world_decide(&world, 0, tenant, 1);
        passed += last->decision.passes;
    }
    assert_int_equal(passed, 2); /* by the store's limit */
    assert_false(last->decision.passes);
    assert_int_equal(counters(0).spent_kept, 4);
    world_close(&world);
}

static void a_bucket_of_a_share_starts_empty_at_each_outage(void **state)
{
    (void)state;
    static const char text[] =
        CONTRACT LIMIT("rate", "[tenant]", "rate: 40/1s, burst: 40, when-store-fails: { local: 1/4 }");
    world_open(&world, &redis, 1, text, 1, 1);
    uint64_t local = 0;
    for (int flap = 0; flap < 50; flap++) {
        assert_int_equal(asked_met(world_decide(&world, 0, "acme", 1), 0)->policy, WEIR_POLICY_NONE);
        world_faults_set(&world, &(struct world_faults){ .is_topology = true });
        for (int i = 0; i < 10; i++)
            local += world_decide(&world, 0, "acme", 1)->decision.passes;
        world_heal(&world);
        world_run_for(&world, 50 * MS);
    }
    assert_int_equal(local, 0); /* ten tokens a second, and no outage lasted long enough for one */
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_spent_is_told_once),
        cmocka_unit_test(many_keys_are_told_in_small_batches_between_decisions),
        cmocka_unit_test(what_may_have_been_executed_is_not_told_as_well),
        cmocka_unit_test(a_batch_of_unknown_fate_counts_as_told),
        cmocka_unit_test(a_reload_while_the_store_is_away_loses_nothing),
        cmocka_unit_test(a_share_is_taken_once_and_only_by_who_passes),
        cmocka_unit_test(a_bucket_of_a_share_starts_empty_at_each_outage),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
