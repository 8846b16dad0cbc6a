// SPDX-License-Identifier: Apache-2.0
/*
 * test_wait_held.c - who waits while others hold something: a key that another thread has was not decided, and is tried again;
 * a waiter is its owner's again when nobody can touch it any more.
 */
#include "support/unit.h"

#include "set.h"
#include "store/record.h"

#define MS WEIR_MILLISECOND
#define S WEIR_SECOND

/* Somebody who only looks holds the record for longer than it is waited for: as a thread that is stopped meanwhile. */
static void who_waits_outlasts_who_holds_the_record(void **state)
{
    (void)state;
    struct weir_waiter_part part;
    struct weir_decision decision;
    struct weir_permit permit;
    struct weir *weir;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 100, .permits = 1 }), 0);
    weir_limit_id limit;
    struct weir_limit jobs = { .name = "jobs",
                               .algorithm = WEIR_CONCURRENCY,
                               .at_most = 1,
                               .hold = 60 * S,
                               .when_full = WEIR_FULL_CLOSED,
                               .wait = { 60 * S, 10 } };
    assert_int_equal(weir_limit_add(weir, &jobs, &limit), 0);
    struct weir_ask ask = { .limit = limit, .key = "k", .key_len = 1, .cost = 1 };
    uint16_t *lock = &record_of(weir->store, 0)->lock;
    assert_int_equal(weir_acquire(weir, &ask, 1, 0, NULL, &decision, &permit), 0);
    struct weir_waiter waiter = { .parts = &part, .part_room = 1, .acquires = true };
    assert_int_equal(weir_wait_start(weir, &waiter, &ask, 1, 60 * S, 0, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_WAIT);
    assert_int_equal(weir_release(weir, permit.bytes, permit.len, S, NULL), 0);
    assert_true(word_lock(lock, 1));
    assert_int_equal(weir_wait_tick(weir, S, 10), 0);
    assert_int_equal(weir_wait_next(weir), S + MS);
    word_unlock(lock);
    assert_int_equal(weir_wait_tick(weir, S + MS, 10), 1);
    assert_int_equal(waiter.decision.outcome, WEIR_ALLOW);
    weir_free(weir);
}

/* The waiter without a done(), in the hands of the other's. */
static void take_back(struct weir_waiter *waiter)
{
    struct weir_waiter *other = waiter->owner;
    assert_false(weir_wait_cancel(other[1].owner, other, waiter->waited));
    assert_int_equal(other->decision.outcome, WEIR_ALLOW);
    memset(other, 0xff, sizeof *other); /* it has ended, and nobody is told: it is ours again */
    waiter->owner = NULL;
}

static void who_has_no_done_is_its_owners_at_once(void **state)
{
    (void)state;
    struct weir *weir;
    weir_limit_id limit;
    struct weir_limit pace = {
        .name = "pace", .algorithm = WEIR_LEAKY_QUEUE, .rate = { 1, S }, .wait = { 60 * S, 10 }
    };
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 100 }), 0);
    assert_int_equal(weir_limit_add(weir, &pace, &limit), 0);
    struct weir_decision decision;
    struct weir_waiter_part parts[2];
    struct weir_waiter others[2] = { { .parts = &parts[0], .part_room = 1 }, { .owner = weir } };
    struct weir_waiter first = { .parts = &parts[1], .part_room = 1, .done = take_back, .owner = others };
    struct weir_ask ask = { .limit = limit, .key = "one", .key_len = 3, .cost = 1 };
    assert_int_equal(weir_admit(weir, &ask, 1, 0, NULL, &decision), 0);
    assert_int_equal(weir_wait_start(weir, &first, &ask, 1, 60 * S, 0, &decision), 0);
    ask.key = "two";
    assert_int_equal(weir_admit(weir, &ask, 1, 0, NULL, &decision), 0);
    assert_int_equal(weir_wait_start(weir, &others[0], &ask, 1, 60 * S, 0, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_WAIT);
    assert_int_equal(weir_wait_tick(weir, S, 10), 2);
    assert_null(first.owner);
    weir_free(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_outlasts_who_holds_the_record),
        cmocka_unit_test(who_has_no_done_is_its_owners_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
