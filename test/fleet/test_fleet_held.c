// SPDX-License-Identifier: Apache-2.0
/*
 * test_fleet_held.c - what is settled, renewed, returned, refunded or reset afterwards, at whichever process.
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

static uint64_t left(size_t process, const char *tenant, weir_limit_id limit)
{
    fleet_common_changed(world.processes[process].common); /* of what is known to be refused */
    return asked_met(world_decide_as(&world, process, tenant, 1, &(struct fleet_decision){ .is_peek = true }),
                     limit)
        ->remaining;
}

#define TWO \
    CONTRACT LIMIT("tenants", OF_TENANT, "rate: 10/1s, burst: 5") \
        LIMIT("paths", OF_PATH, "rate: 1/1s, burst: 3")

static void a_reservation_is_settled_at_any_process(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        enum fleet_verb verb;
        uint64_t cost;
        uint64_t charged, returned, left_after;
    } rows[] = {
        { "less than estimated comes back", FLEET_SETTLE, 1, 0, 2, 4 },
        { "as estimated", FLEET_SETTLE, 3, 0, 0, 2 },
        { "more is charged", FLEET_SETTLE, 4, 1, 0, 1 },
        { "a cancel gives all of it back", FLEET_CANCEL, 0, 0, 3, 5 },
    };
    static const char text[] = CONTRACT LIMIT("tokens", OF_TENANT, "rate: 1/1h, burst: 5");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_at_once(text, 2);
        struct asked *asked = world_decide_as(
            &world, 0, "acme", 3, &(struct fleet_decision){ .kind = FLEET_RESERVE, .hold = WEIR_MINUTE });
        expect_row(asked->decision.passes && asked->decision.handle != NULL, rows[i].why);
        expect_row(asked->decision.expires_at == world.now + WEIR_MINUTE, rows[i].why);
        expect_row(left(1, "acme", 0) == 2, rows[i].why);
        for (int again = 0; again < 2; again++) {
            struct fleet_operation operation = { .verb = rows[i].verb,
                                                 .cost = rows[i].cost,
                                                 .handle = asked->decision.handle,
                                                 .handle_len = asked->decision.handle_len };
            world_operate(&world, 1, &operation);
            expect_row(operation.fault == FLEET_OK, rows[i].why);
            expect_row(operation.settlement.is_repeated == (again == 1), rows[i].why);
            expect_row(strcmp(operation.limit, "tokens") == 0, rows[i].why);
            if (again == 0) {
                expect_row(operation.settlement.charged == rows[i].charged, rows[i].why);
                expect_row(operation.settlement.returned == rows[i].returned, rows[i].why);
                expect_row(operation.settlement.remaining == rows[i].left_after, rows[i].why);
            }
            expect_row(left(0, "acme", 0) == rows[i].left_after, rows[i].why);
        }
        world_close(&world);
    }
}

static void a_reservation_in_several_hash_tags_is_one(void **state)
{
    (void)state;
    open_cluster_at_once(TWO, 2);
    struct asked *asked = world_decide_as(
        &world, 0, "acme", 3, &(struct fleet_decision){ .kind = FLEET_RESERVE, .hold = WEIR_MINUTE });
    assert_true(asked->decision.passes);
    struct fleet_operation cancel = { .verb = FLEET_CANCEL,
                                      .handle = asked->decision.handle,
                                      .handle_len = asked->decision.handle_len };
    world_operate(&world, 1, &cancel);
    assert_int_equal(cancel.fault, FLEET_OK);
    assert_int_equal(cancel.settlement.returned, 3);
    assert_int_equal(cancel.settlement.remaining, 3);
    assert_string_equal(cancel.limit, "paths");
    assert_int_equal(left(0, "acme", 0), 5);
    assert_int_equal(left(0, "acme", 1), 3);
    world_close(&world);
}

#define PERMITS CONTRACT LIMIT("runs", OF_TENANT, "algorithm: concurrency, at-most: 2, hold: 30s")

static struct asked *acquire(size_t process)
{
    return world_decide_as(&world, process, "acme", 1, &(struct fleet_decision){ .kind = FLEET_ACQUIRE });
}

static void permits_are_given_and_returned_at_any_process(void **state)
{
    (void)state;
    open_at_once(PERMITS, 3);
    struct asked *first = acquire(0), *second = acquire(1), *third = acquire(2);
    assert_true(first->decision.passes && second->decision.passes && !third->decision.passes);
    assert_true(first->decision.fence < second->decision.fence);
    assert_int_equal(first->decision.expires_at, world.now + 30 * WEIR_SECOND);
    assert_true(third->decision.handle == NULL
                && asked_met(third, 0)->retry_at == world.now + 30 * WEIR_SECOND);
    assert_true(
        !world_decide(&world, 0, "acme", 1)->decision.passes); /* the others only look, and it is full */

    world_run_for(&world, 20 * WEIR_SECOND);
    struct fleet_operation renew = { .verb = FLEET_RENEW,
                                     .handle = first->decision.handle,
                                     .handle_len = first->decision.handle_len };
    world_operate(&world, 2, &renew);
    assert_true(renew.fault == FLEET_OK && renew.was_held && renew.expires_at == world.now + 30 * WEIR_SECOND);
    world_run_for(&world, 11 * WEIR_SECOND); /* the second one's is over */
    struct fleet_operation late = { .verb = FLEET_RENEW,
                                    .handle = second->decision.handle,
                                    .handle_len = second->decision.handle_len };
    world_operate(&world, 0, &late);
    assert_true(late.fault == FLEET_UNKNOWN && !late.was_held && late.expires_at == WEIR_NO_TIME);
    struct fleet_operation release = { .verb = FLEET_RELEASE,
                                       .handle = first->decision.handle,
                                       .handle_len = first->decision.handle_len };
    world_operate(&world, 1, &release);
    assert_true(release.fault == FLEET_OK && release.was_held);
    world_operate(&world, 1, &release);
    assert_true(release.fault == FLEET_UNKNOWN && !release.was_held);
    assert_int_equal(left(0, "acme", 0), 2);
    world_close(&world);
}

static void a_permit_in_several_hash_tags_is_lost_with_any_part(void **state)
{
    (void)state;
    static const char text[] = CONTRACT LIMIT("brief", OF_PATH, "algorithm: concurrency, at-most: 2, hold: 10s")
        LIMIT("long", OF_TENANT, "algorithm: concurrency, at-most: 2, hold: 60s");
    open_cluster_at_once(text, 2);
    struct asked *asked = acquire(0);
    assert_true(asked->decision.passes && asked->decision.expires_at == world.now + 10 * WEIR_SECOND);
    struct fleet_operation renew = { .verb = FLEET_RENEW,
                                     .handle = asked->decision.handle,
                                     .handle_len = asked->decision.handle_len };
    world_operate(&world, 1, &renew);
    assert_true(renew.fault == FLEET_OK && renew.was_held && renew.expires_at == world.now + 10 * WEIR_SECOND);
    world_run_for(&world, 11 * WEIR_SECOND); /* one part is over, the other is not */
    world_operate(&world, 1, &renew);
    assert_true(renew.fault == FLEET_UNKNOWN && !renew.was_held && renew.expires_at == WEIR_NO_TIME);
    struct fleet_operation release = { .verb = FLEET_RELEASE,
                                       .handle = asked->decision.handle,
                                       .handle_len = asked->decision.handle_len };
    world_operate(&world, 1, &release);
    assert_int_equal(left(0, "acme", 1), 2); /* what was held of it came back */
    world_close(&world);
}

static void permits_that_nobody_heard_of_are_returned(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        struct world_faults faults;
        weir_ns way;
        bool forgets;
    } rows[] = {
        { "the reply comes too late", { .slow = 0 }, 3 * MS, false },
        { "the caller has gone", { .slow = 0 }, MS, true },
        { "the store froze, and gives it when it thaws", { .is_frozen = true }, 0, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        world_open(&world, &redis, 1, PERMITS, 1, 1);
        warm_up();
        world.way = rows[i].way;
        world_faults_set(&world, &rows[i].faults);
        struct asked *asked =
            world_ask_as(&world, 0, 0, "acme", 1, &(struct fleet_decision){ .kind = FLEET_ACQUIRE });
        if (rows[i].forgets) {
            fleet_forget(world.processes[0].workers[0].fleet, &asked->decision);
            asked->done = 1;
        }
        world_run_for(&world, 20 * MS);
        expect_row(asked->decision.handle == NULL && asked->done == 1, rows[i].why);
        world_heal(&world);
        world.way = 0;
        world_run_for(&world, 500 * MS);
        expect_row(left(0, "acme", 0) == 2, rows[i].why);
        world_close(&world);
    }
}

static void what_a_forgotten_request_took_stays_charged(void **state)
{
    (void)state;
    world_open(&world, &redis, 1, bucket, 1, 1);
    warm_up();
    struct asked *asked = world_ask(&world, 0, 0, "acme", 3);
    assert_int_equal(fleet_under_way(world.processes[0].workers[0].fleet), 1);
    fleet_forget(world.processes[0].workers[0].fleet, &asked->decision);
    memset(&asked->decision, 0xa5, sizeof asked->decision); /* its memory is the caller's again */
    asked->decision.handle = NULL;
    asked->done = 1;
    assert_int_equal(fleet_under_way(world.processes[0].workers[0].fleet), 0);
    world_run_for(&world, 10 * MS);
    assert_int_equal(left(0, "acme", 0), 2);
    world_close(&world);
}

static void keys_are_refunded_and_reset(void **state)
{
    (void)state;
    static struct weir_shared shared;
    static const char text[] = CONTRACT LIMIT("tokens", OF_TENANT, "rate: 1/1h, burst: 5")
        LIMIT("paths", OF_PATH, "rate: 1/1h, burst: 9");
    for (int is_cluster = 0; is_cluster < 2; is_cluster++) {
        if (is_cluster)
            open_cluster_at_once(text, 2);
        else
            open_at_once(text, 2);
        assert_true(world_decide(&world, 0, "acme", 4)->decision.passes);
        world_questions(&world, 1, "acme", 2, &shared);
        struct fleet_operation refund = { .verb = FLEET_REFUND, .cost = 2, .shared = &shared };
        world_operate(&world, 1, &refund);
        assert_int_equal(refund.fault, FLEET_OK);
        assert_true(refund.settlement.returned == 2 && refund.settlement.remaining == 3
                    && !refund.settlement.is_repeated);
        assert_string_equal(refund.limit, "tokens");
        struct fleet_operation reset = { .verb = FLEET_RESET, .shared = &shared };
        world_operate(&world, 0, &reset);
        assert_int_equal(reset.fault, FLEET_OK);
        assert_int_equal(left(0, "acme", 0), 5);
        assert_int_equal(left(0, "acme", 1), 9);
        world_close(&world);
    }
}

static void bad_handles_are_none_of_ours(void **state)
{
    (void)state;
    open_at_once(PERMITS, 1);
    struct asked *asked = acquire(0);
    struct fleet_operation wrong = { .verb = FLEET_SETTLE,
                                     .handle = asked->decision.handle,
                                     .handle_len = asked->decision.handle_len };
    world_operate(&world, 0, &wrong);
    assert_int_equal(wrong.fault, FLEET_BAD); /* a permit is no reservation */
    struct fleet_operation cut = { .verb = FLEET_RENEW,
                                   .handle = asked->decision.handle,
                                   .handle_len = asked->decision.handle_len - 1 };
    world_operate(&world, 0, &cut);
    assert_int_equal(cut.fault, FLEET_BAD);
    world_close(&world);
}

/* Every bit of it, at another process: nothing is given back, nothing is held for longer. */
static void an_altered_handle_changes_nothing(void **state)
{
    (void)state;
    static const char text[] = CONTRACT LIMIT("aa", OF_TENANT, "rate: 1/1h, burst: 100")
        LIMIT("bb", OF_TENANT, "rate: 1/1h, burst: 100")
            LIMIT("runs", OF_TENANT, "algorithm: concurrency, at-most: 2, hold: 2s");
    static const struct row {
        const char *why;
        enum fleet_kind kind;
        enum fleet_verb verb;
    } rows[] = {
        { "a reservation", FLEET_RESERVE, FLEET_CANCEL },
        { "a permit", FLEET_ACQUIRE, FLEET_RENEW },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_at_once(text, 2);
        world.checks_expiry = false;
        struct asked *asked = world_decide_as(
            &world, 0, "acme", 1, &(struct fleet_decision){ .kind = rows[i].kind, .hold = WEIR_HOUR });
        unsigned char *handle = asked->decision.handle;
        size_t len = asked->decision.handle_len;
        assert_true(asked->decision.passes && handle != NULL);
        for (size_t bit = 0; bit < 8 * len; bit++) {
            struct fleet_operation operation = { .verb = rows[i].verb, .handle = handle, .handle_len = len };
            handle[bit / 8] ^= (unsigned char)(1 << bit % 8);
            world_operate(&world, 1, &operation);
            handle[bit / 8] ^= (unsigned char)(1 << bit % 8);
            expect_row(operation.fault == FLEET_BAD || operation.fault == FLEET_UNKNOWN, rows[i].why);
            expect_row(!operation.was_held || rows[i].verb == FLEET_CANCEL, rows[i].why);
            expect_row(operation.settlement.returned == 0, rows[i].why);
        }
        expect_row(left(0, "acme", 0) == 99 && left(0, "acme", 1) == 99, rows[i].why);
        struct fleet_operation genuine = { .verb = rows[i].verb, .handle = handle, .handle_len = len };
        world_operate(&world, 1, &genuine);
        expect_row(genuine.fault == FLEET_OK, rows[i].why);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reservation_is_settled_at_any_process),
        cmocka_unit_test(a_reservation_in_several_hash_tags_is_one),
        cmocka_unit_test(permits_are_given_and_returned_at_any_process),
        cmocka_unit_test(a_permit_in_several_hash_tags_is_lost_with_any_part),
        cmocka_unit_test(permits_that_nobody_heard_of_are_returned),
        cmocka_unit_test(what_a_forgotten_request_took_stays_charged),
        cmocka_unit_test(keys_are_refunded_and_reset),
        cmocka_unit_test(bad_handles_are_none_of_ours),
        cmocka_unit_test(an_altered_handle_changes_nothing),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
