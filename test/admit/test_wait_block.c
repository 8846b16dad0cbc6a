// SPDX-License-Identifier: Apache-2.0
/*
 * test_wait_block.c - threads that block for a turn: with a permit at its end, under a contract, after another ended it. And
 * who is told, by `wake`, that the next instant came forward.
 *
 * LABELS: threads
 */
#include "admit/waiting.h"

#include <pthread.h>
#include <sched.h>

#include "weir_contract.h"

static const struct weir_limit jobs = {
    .name = "jobs", .algorithm = WEIR_CONCURRENCY, .at_most = 1, .hold = WEIR_HOUR, .wait = { WEIR_HOUR, 10 }
};

static struct weir_permit taken(struct weir *weir, weir_limit_id limit)
{
    struct weir_permit permit;
    struct weir_decision decision;
    struct weir_ask ask = ask_of(limit, "k", 1);
    assert_int_equal(weir_acquire(weir, &ask, 1, weir_now(), NULL, &decision, &permit), 0);
    assert_int_equal(decision.outcome, WEIR_ALLOW);
    return permit;
}

static bool gives_back(struct weir *weir, const struct weir_permit *permit)
{
    bool was_held;
    assert_int_equal(weir_release(weir, permit->bytes, permit->len, weir_now(), &was_held), 0);
    return was_held;
}

/* Gives the permit back when somebody waits for it. */
struct holder {
    struct weir *weir;
    struct weir_permit permit;
};

static void *hold_until_wanted(void *argument)
{
    struct holder *holder = argument;
    while (waiting(holder->weir) == 0)
        sched_yield();
    assert_true(gives_back(holder->weir, &holder->permit));
    return NULL;
}

/* ---- A permit -------------------------------------------------------------------------------------------------- */

static void a_blocked_thread_is_given_its_permit(void **state)
{
    (void)state;
    struct weir *weir = limiter();
    struct holder holder = { .weir = weir };
    struct weir_ask ask = ask_of(limit_of(weir, jobs), "k", 1);
    struct weir_decision decision, each[1];
    struct weir_permit permit, other;
    pthread_t thread;
    holder.permit = taken(weir, ask.limit);
    assert_int_equal(pthread_create(&thread, NULL, hold_until_wanted, &holder), 0);
    assert_int_equal(weir_acquire_waiting(weir, &ask, 1, WEIR_HOUR, each, &decision, &permit), 0);
    pthread_join(thread, NULL);
    assert_int_equal(decision.outcome, WEIR_ALLOW);
    assert_int_equal(each[0].limit, ask.limit);
    assert_true(permit.fence > holder.permit.fence);

    assert_int_equal(weir_acquire(weir, &ask, 1, weir_now(), NULL, &decision, &other), 0);
    assert_int_equal(decision.outcome, WEIR_DENY); /* it is held indeed */
    assert_true(gives_back(weir, &permit));
    weir_free(weir);
}

static void a_permit_without_a_wait(void **state)
{
    (void)state;
    struct weir *weir = limiter();
    struct weir_ask ask = ask_of(limit_of(weir, jobs), "k", 1);
    struct weir_decision decision;
    struct weir_permit permit, none = { .len = 1 };
    assert_int_equal(weir_acquire_waiting(weir, &ask, 1, 0, NULL, &decision, &permit), 0);
    assert_int_equal(decision.outcome, WEIR_ALLOW);
    assert_int_equal(weir_acquire_waiting(weir, &ask, 1, 0, NULL, &decision, &none), 0);
    assert_int_equal(decision.outcome, WEIR_DENY);
    assert_int_equal(none.len, 0);
    assert_int_equal(weir_acquire_waiting(weir, &ask, 1, MS, NULL, &decision, &none), 0); /* in vain */
    assert_int_equal(decision.outcome, WEIR_DENY);
    assert_int_equal(none.len, 0);
    ask.limit = 7;
    none.len = 1;
    assert_int_equal(weir_acquire_waiting(weir, &ask, 1, S, NULL, &decision, &none), WEIR_ERR_LIMIT);
    assert_int_equal(none.len, 1); /* untouched */
    assert_true(gives_back(weir, &permit));
    weir_free(weir);
}

/* ---- One that was started before --------------------------------------------------------------------------------- */

static void one_that_has_ended_is_not_waited_for(void **state)
{
    (void)state;
    struct weir *weir = limiter();
    struct weir_ask ask = ask_of(limit_of(weir, jobs), "k", 1);
    struct weir_permit permit = taken(weir, ask.limit);
    struct weir_waiter_part part;
    struct weir_waiter waiter = { .parts = &part, .part_room = 1, .acquires = true };
    struct weir_decision decision;
    assert_int_equal(weir_wait_start(weir, &waiter, &ask, 1, WEIR_HOUR, weir_now(), &decision), 0);
    assert_int_equal(decision.outcome, WEIR_WAIT);
    assert_true(gives_back(weir, &permit));
    assert_int_equal(weir_wait_tick(weir, weir_now(), 1), 1);
    weir_wait_block(weir, &waiter);
    assert_int_equal(waiter.decision.outcome, WEIR_ALLOW);
    weir_waiter_permit(weir, &waiter, &permit);
    assert_true(gives_back(weir, &permit));

    assert_int_equal(weir_wait_start(weir, &waiter, &ask, 1, WEIR_HOUR, weir_now(), &decision), 0);
    assert_int_equal(decision.outcome, WEIR_ALLOW);
    weir_wait_block(weir, &waiter); /* nor one that did not wait at all */
    weir_free(weir);
}

/* ---- A contract ------------------------------------------------------------------------------------------------------ */

static const char contract_text[] = "weir: 1\n"
                                    "limits:\n"
                                    "  - name: jobs\n"
                                    "    key: [tenant]\n"
                                    "    algorithm: concurrency\n"
                                    "    at-most: 1\n"
                                    "    hold: 10m\n"
                                    "    wait: { up-to: 5m, queue: 10 }\n";

static void count_call(void *context)
{
    ++*(unsigned *)context;
}

static struct weir_contract *contract_of(const struct weir_contract_options *options)
{
    struct weir_contract *contract;
    struct weir_diagnostics *diagnostics;
    int code =
        weir_contract_parse(&contract, contract_text, strlen(contract_text), "jobs", options, &diagnostics);
    if (code != 0)
        weir_diagnostics_print(diagnostics, stderr, false);
    assert_int_equal(code, 0);
    weir_diagnostics_free(diagnostics);
    return contract;
}

static const struct weir_attribute acme[] = { { "tenant", "acme", 0 } };
static const struct weir_request job = {
    .attributes = acme, .attribute_count = 1, .cost = 1, .wait = 60 * WEIR_SECOND
};

static void a_thread_blocks_under_a_contract(void **state)
{
    (void)state;
    struct weir_contract *contract = contract_of(NULL);
    struct weir *weir = weir_contract_limiter(contract);
    struct holder holder = { .weir = weir };
    struct weir_waiter_part parts[WEIR_ASKS_MAX];
    struct weir_waiter waiter = { .parts = parts, .part_room = WEIR_ASKS_MAX, .acquires = true };
    struct weir_answer answer;
    struct weir_permit permit;
    pthread_t thread;
    assert_int_equal(weir_contract_acquire(contract, &job, weir_now(), &answer, &holder.permit), 0);
    assert_int_equal(pthread_create(&thread, NULL, hold_until_wanted, &holder), 0);
    assert_int_equal(weir_contract_wait(contract, &job, weir_now(), &waiter, &answer), 0);
    assert_int_equal(answer.decision.outcome, WEIR_WAIT);
    weir_wait_block(weir, &waiter);
    weir_contract_waited(contract, &waiter, &answer);
    pthread_join(thread, NULL);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_string_equal(answer.limits[answer.decision.limit].name, "jobs");
    weir_waiter_permit(weir, &waiter, &permit);
    assert_true(gives_back(weir, &permit));
    weir_contract_free(contract);
}

/* ---- Who is woken ---------------------------------------------------------------------------------------------------- */

/* In virtual time: a driver that slept for what weir_wait_next() said would come ten minutes late. */
static void a_contract_wakes_its_driver(void **state)
{
    (void)state;
    unsigned calls = 0;
    struct weir_contract *contract = contract_of(
        &(struct weir_contract_options){ .wake = count_call, .wake_context = &calls, .has_wall_offset = true });
    struct weir *weir = weir_contract_limiter(contract);
    struct weir_waiter_part part;
    struct weir_waiter waiter = { .parts = &part, .part_room = 1, .acquires = true };
    struct weir_answer answer;
    struct weir_permit permit;
    assert_int_equal(weir_contract_acquire(contract, &job, S, &answer, &permit), 0);
    assert_int_equal(calls, 0);
    assert_int_equal(weir_contract_wait(contract, &job, S, &waiter, &answer), 0);
    assert_int_equal(answer.decision.outcome, WEIR_WAIT);
    assert_int_equal(calls, 1); /* nobody waited before */
    assert_int_equal(weir_wait_next(weir), 61 * S);
    assert_int_equal(weir_release(weir, permit.bytes, permit.len, 2 * S, NULL), 0);
    assert_int_equal(calls, 2);
    assert_true(weir_wait_next(weir) <= 2 * S);
    assert_int_equal(weir_wait_tick(weir, 2 * S, 10), 1);
    assert_int_equal(waiter.decision.outcome, WEIR_ALLOW);
    assert_int_equal(calls, 2); /* the driver knows what it did */
    weir_contract_free(contract);
}

/* A driver that comes long after: the turn came in time, so it is no refusal. */
static void a_late_driver_serves_whose_turn_came_in_time(void **state)
{
    (void)state;
    struct weir *weir = limiter();
    struct guest first, second;
    struct weir_limit pace = {
        .name = "pace", .algorithm = WEIR_LEAKY_QUEUE, .rate = { 50, S }, .wait = { S, 10 }
    };
    weir_limit_id limit = limit_of(weir, pace);
    guest_enters(weir, &first, limit, "k", 1, S, 0);
    guest_enters(weir, &second, limit, "k", 1, S, 0);
    drive_late(weir, 3 * S);
    assert_int_equal(second.waiter.decision.outcome, WEIR_ALLOW);
    assert_true(second.waiter.waited > S);
    weir_free(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_blocked_thread_is_given_its_permit),
        cmocka_unit_test(a_permit_without_a_wait),
        cmocka_unit_test(one_that_has_ended_is_not_waited_for),
        cmocka_unit_test(a_thread_blocks_under_a_contract),
        cmocka_unit_test(a_contract_wakes_its_driver),
        cmocka_unit_test(a_late_driver_serves_whose_turn_came_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
