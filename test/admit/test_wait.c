// SPDX-License-Identifier: Apache-2.0
/*
 * test_wait.c - waiting for one limit, in virtual time: who leaves when, who is refused, who is told what.
 */
#include "admit/waiting.h"

static struct weir_limit pace(uint64_t count, weir_ns up_to, uint32_t queue)
{
    return (struct weir_limit){
        .name = "pace", .algorithm = WEIR_LEAKY_QUEUE, .rate = { count, S }, .wait = { up_to, queue }
    };
}

static struct weir_limit bucket(uint64_t count, uint64_t burst, weir_ns up_to, uint32_t queue)
{
    return (struct weir_limit){ .name = "bucket",
                                .algorithm = WEIR_TOKEN_BUCKET,
                                .rate = { count, S },
                                .burst = burst,
                                .wait = { up_to, queue } };
}

/* ---- The field cases -------------------------------------------------------------------------------------------- */

static void B29_each_waiter_leaves_at_its_own_instant(void **state)
{
    (void)state;
    static struct guest guests[100];
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, pace(5, 30 * S, 1000));
    for (unsigned i = 0; i < 100; i++) {
        struct weir_decision decision = guest_enters(weir, &guests[i], limit, "k", 1, 30 * S, 0);
        assert_int_equal(decision.outcome, i == 0 ? WEIR_ALLOW : WEIR_WAIT);
        assert_int_equal(decision.retry_at, i * 200 * MS);
    }
    drive(weir, 30 * S);
    for (unsigned i = 1; i < 100; i++) {
        assert_int_equal(guests[i].waiter.decision.outcome, WEIR_ALLOW);
        assert_int_equal(guests[i].ended_at, i * 200 * MS);
        assert_int_equal(guests[i].waiter.waited, i * 200 * MS);
        assert_int_equal(guests[i].order, i);
    }
    weir_free(weir);
}

static void B29_a_large_request_is_not_overtaken(void **state)
{
    (void)state;
    static struct guest guests[20];
    struct weir *weir = limiter();
    struct weir_decision decision;
    weir_limit_id limit = limit_of(weir, bucket(1, 5, 60 * S, 100));
    assert_int_equal(weir_check(weir, limit, "k", 1, 5, 0, &decision), 0);
    for (unsigned i = 0; i < 20; i++)
        guest_enters(weir, &guests[i], limit, "k", i == 0 ? 5 : 1, 60 * S, (i + 1) * 100 * MS);
    drive(weir, 60 * S);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(guests[i].ended_at, (5 + i) * S);
    weir_free(weir);
}

static void B29_a_cancel_moves_those_behind_up(void **state)
{
    (void)state;
    static struct guest guests[100];
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, pace(5, 30 * S, 1000));
    for (unsigned i = 0; i < 100; i++)
        guest_enters(weir, &guests[i], limit, "k", 1, 30 * S, 0);
    drive(weir, 3 * S);
    assert_true(weir_wait_cancel(weir, &guests[49].waiter, 3 * S));
    drive(weir, 30 * S);
    for (unsigned i = 1; i < 100; i++)
        assert_int_equal(guests[i].ended_at, i < 49    ? i * 200 * MS
                                             : i == 49 ? WEIR_NO_TIME
                                                       : (i - 1) * 200 * MS);
    weir_free(weir);
}

static void B27_a_cancelled_wait_gives_all_of_it_back(void **state)
{
    (void)state;
    struct guest first, cancelled, next, last;
    struct weir *weir = limiter();
    struct weir_decision decision;
    weir_limit_id limit = limit_of(weir, bucket(10, 20, 60 * S, 100));
    assert_int_equal(guest_enters(weir, &first, limit, "k", 15, 60 * S, 0).outcome, WEIR_ALLOW);
    decision = guest_enters(weir, &cancelled, limit, "k", 10, 60 * S, 100 * MS);
    assert_int_equal(decision.outcome, WEIR_WAIT);
    assert_int_equal(decision.retry_at, 500 * MS);
    decision = guest_enters(weir, &next, limit, "k", 2, 60 * S, 200 * MS);
    assert_int_equal(decision.outcome, WEIR_WAIT);
    assert_int_equal(decision.retry_at, 700 * MS);
    assert_true(weir_wait_cancel(weir, &cancelled.waiter, 250 * MS));
    assert_int_equal(weir_wait_next(weir), 250 * MS);
    drive(weir, 250 * MS);
    assert_int_equal(next.waiter.decision.outcome, WEIR_ALLOW);
    assert_int_equal(next.waiter.decision.remaining, 5);
    assert_int_equal(guest_enters(weir, &last, limit, "k", 1, 60 * S, 250 * MS).outcome, WEIR_ALLOW);
    assert_int_equal(last.first.remaining, 4); /* 5.5 less one */
    weir_free(weir);
}

static void B27_all_cancelled_leaves_all(void **state)
{
    (void)state;
    static const uint64_t rates[] = { 7, 30, 60, 100 };
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        struct guest guests[3], last;
        struct weir *weir = limiter();
        weir_limit_id limit = limit_of(weir, bucket(rates[i], 1, 60 * S, 100));
        struct weir_reservation ticket;
        struct weir_settlement settlement;
        weir_ns now = 12345;
        for (unsigned k = 0; k < 3; k++)
            guest_enters(weir, &guests[k], limit, "k", 1, 60 * S, now);
        assert_true(weir_wait_cancel(weir, &guests[2].waiter, now));
        assert_true(weir_wait_cancel(weir, &guests[1].waiter, now));
        weir_waiter_reservation(weir, &guests[0].waiter, S, &ticket);
        assert_int_equal(weir_cancel(weir, ticket.bytes, ticket.len, now, &settlement), 0);
        assert_int_equal(settlement.returned, 1);
        assert_int_equal(guest_enters(weir, &last, limit, "k", 1, 60 * S, now).outcome, WEIR_ALLOW);
        weir_free(weir);
    }
}

static void B27_a_late_or_second_cancel_gives_nothing(void **state)
{
    (void)state;
    struct guest first, second;
    struct weir *weir = limiter();
    struct weir_decision decision;
    weir_limit_id limit = limit_of(weir, bucket(1, 1, 60 * S, 100));
    guest_enters(weir, &first, limit, "k", 1, 60 * S, 0);
    guest_enters(weir, &second, limit, "k", 1, 60 * S, 0);
    assert_true(weir_wait_cancel(weir, &second.waiter, 0));
    assert_false(weir_wait_cancel(weir, &second.waiter, 0));
    assert_false(weir_wait_cancel(weir, &first.waiter, 0));
    guest_enters(weir, &second, limit, "k", 1, 60 * S, 0);
    drive(weir, S);
    assert_int_equal(second.ended_at, S);
    assert_false(weir_wait_cancel(weir, &second.waiter, 2 * S));
    assert_int_equal(weir_peek(weir, limit, "k", 1, 1, S, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_DENY);
    assert_int_equal(decision.retry_at, 2 * S);
    weir_free(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B29_each_waiter_leaves_at_its_own_instant),
        cmocka_unit_test(B29_a_large_request_is_not_overtaken),
        cmocka_unit_test(B29_a_cancel_moves_those_behind_up),
        cmocka_unit_test(B27_a_cancelled_wait_gives_all_of_it_back),
        cmocka_unit_test(B27_all_cancelled_leaves_all),
        cmocka_unit_test(B27_a_late_or_second_cancel_gives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
