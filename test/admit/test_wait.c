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

/* ---- Bounds ---------------------------------------------------------------------------------------------------- */

static void a_turn_that_comes_too_late_is_refused_on_arrival(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        weir_ns patience;
        enum weir_outcome outcome;
        weir_ns retry_at;
    } rows[] = {
        { "the first goes at once", 0, WEIR_ALLOW, 0 },
        { "who does not wait is told when it could pass", 0, WEIR_DENY, 500 * MS },
        { "a turn at the very deadline is in time", 500 * MS, WEIR_WAIT, 500 * MS },
        { "one nanosecond less is not", 1000 * MS - 1, WEIR_DENY, 1000 * MS },
        { "patience beyond the limit's own is cut to it", 60 * S, WEIR_WAIT, 1000 * MS },
        { "so the fourth is refused", 60 * S, WEIR_DENY, 1500 * MS },
        { "and who does not wait is told of all before it", 0, WEIR_DENY, 1500 * MS },
    };
    struct guest guests[COUNT_OF(rows)];
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, pace(2, S, 10));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_decision decision = guest_enters(weir, &guests[i], limit, "k", 1, rows[i].patience, 0);
        expect_row(decision.outcome == rows[i].outcome, rows[i].why);
        expect_row(decision.retry_at == rows[i].retry_at, rows[i].why);
    }
    assert_int_equal(waiting(weir), 2);
    drive(weir, 10 * S);
    assert_int_equal(guests_ended, 2);
    assert_int_equal(waiting(weir), 0);
    assert_int_equal(weir_wait_next(weir), WEIR_NO_TIME);
    weir_free(weir);
}

static void a_full_queue_refuses(void **state)
{
    (void)state;
    struct guest guests[5];
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, pace(1, 60 * S, 2));
    for (unsigned i = 0; i < 3; i++)
        guest_enters(weir, &guests[i], limit, "k", 1, 60 * S, 0);
    struct weir_decision decision = guest_enters(weir, &guests[3], limit, "k", 1, 60 * S, 0);
    assert_int_equal(decision.outcome, WEIR_DENY);
    assert_int_equal(decision.retry_at, 3 * S);
    assert_int_equal(decision.remaining, 0);
    assert_int_equal(guest_enters(weir, &guests[4], limit, "other", 1, 60 * S, 0).outcome, WEIR_ALLOW);
    weir_wait_cancel(weir, &guests[1].waiter, 0);
    assert_int_equal(guest_enters(weir, &guests[3], limit, "k", 1, 60 * S, 0).outcome, WEIR_WAIT);
    drive(weir, 60 * S);
    assert_int_equal(guests[3].ended_at, 2 * S);
    weir_free(weir);
}

static void nobody_overtakes_who_waits(void **state)
{
    (void)state;
    struct guest first, second;
    struct weir_decision decision;
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, bucket(1, 5, 60 * S, 10));
    assert_int_equal(weir_check(weir, limit, "k", 1, 3, 0, &decision), 0);
    guest_enters(weir, &first, limit, "k", 4, 60 * S, 0); /* two are there: it wants two more */
    assert_int_equal(weir_check(weir, limit, "k", 1, 1, 0, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_DENY);
    assert_int_equal(decision.remaining, 0);
    assert_int_equal(decision.retry_at, 3 * S);
    assert_int_equal(weir_peek(weir, limit, "k", 1, 1, S, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_DENY);
    assert_int_equal(weir_check(weir, limit, "k", 1, 0, 0, &decision), 0); /* a look costs nothing */
    assert_int_equal(decision.outcome, WEIR_ALLOW);
    assert_int_equal(decision.remaining, 0);
    assert_int_equal(decision.retry_at, 3 * S);
    assert_int_equal(weir_check(weir, limit, "k", 1, 6, 0, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_NEVER);
    struct weir_ask asks[2] = { ask_of(limit, "k", 1), ask_of(limit, "free", 1) };
    assert_int_equal(weir_check_batch(weir, asks, 1, 0, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_DENY);
    assert_int_equal(weir_admit(weir, asks, 2, 0, NULL, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_DENY);
    assert_int_equal(decision.retry_at, 3 * S);
    guest_enters(weir, &second, limit, "k", 1, 60 * S, 0);
    drive(weir, 60 * S);
    assert_int_equal(first.ended_at, 2 * S);
    assert_int_equal(second.ended_at, 3 * S);
    assert_int_equal(weir_check(weir, limit, "k", 1, 1, 60 * S, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_ALLOW); /* nobody waits any more */
    weir_free(weir);
}

/* ---- Late drivers ------------------------------------------------------------------------------------------------- */

static void a_turn_that_came_in_time_is_served_late(void **state)
{
    (void)state;
    struct guest guests[6];
    struct weir_decision decision;
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(
        weir, (struct weir_limit){
                  .name = "window", .algorithm = WEIR_FIXED_WINDOW, .rate = { 3, S }, .wait = { 60 * S, 10 } });
    assert_int_equal(weir_check(weir, limit, "k", 1, 3, 0, &decision), 0);
    for (unsigned i = 0; i < 5; i++) /* three turns at 1 s, two at 2 s */
        guest_enters(weir, &guests[i], limit, "k", 1, i < 3 ? S : 2 * S, 0);
    assert_int_equal(guest_enters(weir, &guests[5], limit, "k", 1, S, 0).outcome, WEIR_DENY);
    drive_late(weir, 1500 * MS);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(guests[i].waiter.decision.outcome, WEIR_ALLOW);
        assert_int_equal(guests[i].waiter.decision.decided_at, 1490 * MS); /* ten ms late are none */
        assert_int_equal(guests[i].waiter.waited, 1490 * MS);
    }
    assert_int_equal(guests[3].ended_at, WEIR_NO_TIME);
    drive_late(weir, 10 * S);
    assert_int_equal(guests[3].waiter.decision.outcome, WEIR_ALLOW);
    assert_int_equal(guests[4].waiter.decision.outcome, WEIR_ALLOW);
    weir_free(weir);
}

static void change_to(struct weir *weir, struct weir_limit limit, weir_ns now)
{
    struct weir_change *change;
    weir_limit_id id;
    assert_int_equal(weir_change_new(&change, weir), 0);
    assert_int_equal(weir_change_limit(change, &limit, &id), 0);
    assert_int_equal(weir_change_commit(change, now, NULL, NULL), 0);
}

/* The turn was at 1 s and the deadline at 1.3 s: what happens between them and the tick must not date the turn anew. */
static void a_turn_that_came_stays_in_time(void **state)
{
    (void)state;
    static const struct {
        bool refunds, changes;
        const char *why;
    } rows[] = {
        { false, false, "nothing happens" },
        { true, false, "something comes back" },
        { false, true, "the limits are changed" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct guest guest;
        struct weir_decision decision;
        struct weir_settlement settlement;
        struct weir *weir = limiter();
        weir_limit_id limit = limit_of(weir, bucket(1, 5, 60 * S, 10));
        struct weir_ask ask = ask_of(limit, "k", 1);
        assert_int_equal(weir_check(weir, limit, "k", 1, 5, 0, &decision), 0);
        guest_enters(weir, &guest, limit, "k", 1, 1300 * MS, 0);
        if (rows[i].refunds)
            assert_int_equal(weir_refund(weir, &ask, 1, 1500 * MS, &settlement), 0);
        if (rows[i].changes)
            change_to(weir, bucket(2, 5, 60 * S, 10), 1500 * MS);
        drive_late(weir, 1600 * MS);
        if (guest.waiter.decision.outcome != WEIR_ALLOW)
            fail_msg("%s: %s", rows[i].why, weir_outcome_name(guest.waiter.decision.outcome));
        weir_free(weir);
    }
}

/* Who comes with a stamp of before the last answer's is told instants that lie behind it. */
static void a_stale_stamp_is_not_told_the_past(void **state)
{
    (void)state;
    struct guest guests[2];
    struct weir_decision decision;
    struct weir_permit permit;
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, (struct weir_limit){ .name = "jobs",
                                                              .algorithm = WEIR_CONCURRENCY,
                                                              .at_most = 2,
                                                              .hold = 10 * S,
                                                              .wait = { 60 * S, 1 } });
    struct weir_ask small = ask_of(limit, "k", 1), large = ask_of(limit, "k", 2);
    assert_int_equal(weir_acquire(weir, &large, 1, 5 * S, NULL, &decision, &permit), 0);
    guests[0].waiter = (struct weir_waiter){
        .parts = guests[0].parts, .part_room = PARTS, .done = guest_done, .owner = &guests[0], .acquires = true
    };
    assert_int_equal(weir_wait_start(weir, &guests[0].waiter, &small, 1, 60 * S, 5 * S, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_WAIT);
    assert_int_equal(weir_release(weir, permit.bytes, permit.len, 5 * S, NULL), 0);
    assert_int_equal(weir_peek(weir, limit, "k", 1, 1, 4 * S, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_DENY);
    assert_int_equal(decision.decided_at, 5 * S);
    assert_true(decision.retry_at >= 5 * S);
    guest_enters(weir, &guests[1], limit, "k", 1, 60 * S, 4 * S);
    assert_int_equal(guests[1].first.outcome, WEIR_DENY);
    assert_true(guests[1].first.retry_at >= guests[1].first.decided_at);
    drive(weir, 60 * S);
    weir_free(weir);
}

/* A driver that is a little late now and then: the pace is kept, by the instants of the agenda. */
static void lateness_does_not_add_up(void **state)
{
    (void)state;
    static struct guest guests[100];
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, pace(1000, 60 * S, 100));
    for (unsigned i = 0; i < 100; i++)
        guest_enters(weir, &guests[i], limit, "k", 1, 60 * S, 0);
    for (weir_ns now = 7 * MS; now < 200 * MS; now += 7 * MS)
        drive_late(weir, now);
    for (unsigned i = 1; i < 100; i++) {
        assert_int_equal(guests[i].waiter.decision.decided_at, i * MS);
        assert_int_equal(guests[i].ended_at, (i + 6) / 7 * 7 * MS);
    }
    weir_free(weir);
}

static void a_very_late_driver_does_not_bunch(void **state)
{
    (void)state;
    struct guest guests[6];
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, pace(1, 60 * S, 10));
    for (unsigned i = 0; i < 6; i++)
        guest_enters(weir, &guests[i], limit, "k", 1, i == 2 ? 3 * S : 60 * S, 0);
    drive_late(weir, 4500 * MS); /* due at 1, 2, 3, ...: one goes, the pace begins anew, one is out of time */
    assert_int_equal(guests[1].ended_at, 4500 * MS);
    assert_int_equal(guests[1].waiter.decision.decided_at, 4490 * MS);
    assert_int_equal(guests[2].waiter.decision.outcome, WEIR_DENY);
    assert_int_equal(guests[2].waiter.decision.retry_at, 8490 * MS); /* behind the three others */
    drive(weir, 60 * S);
    for (unsigned i = 3; i < 6; i++)
        assert_int_equal(guests[i].ended_at, (i + 2) * S + 490 * MS);
    weir_free(weir);
}

/* ---- What comes back ------------------------------------------------------------------------------------------------- */

struct wakes {
    unsigned count;
};

static void woken(void *context)
{
    ((struct wakes *)context)->count++;
}

static void what_comes_back_wakes_the_first(void **state)
{
    (void)state;
    struct guest guests[3];
    struct wakes wakes = { 0 };
    struct weir_settlement settlement;
    struct weir_reservation ticket;
    struct weir_decision decision;
    struct weir *weir;
    assert_int_equal(
        weir_new(&weir, &(struct weir_options){ .keys = 100, .wake = woken, .wake_context = &wakes }), 0);
    weir_limit_id limit = limit_of(weir, bucket(1, 10, 60 * S, 10));
    struct weir_ask ask = ask_of(limit, "k", 8);
    assert_int_equal(weir_reserve(weir, &ask, 1, 0, 60 * S, NULL, &decision, &ticket), 0);
    guest_enters(weir, &guests[0], limit, "k", 5, 60 * S, 0);
    assert_int_equal(weir_wait_next(weir), 3 * S);
    assert_int_equal(wakes.count, 1);
    guest_enters(weir, &guests[1], limit, "k", 5, 60 * S, 0);
    guest_enters(weir, &guests[2], limit, "k", 1, 60 * S, 0);
    assert_int_equal(wakes.count, 1); /* not before the first */
    assert_int_equal(weir_settle(weir, ticket.bytes, ticket.len, 6, S, &settlement), 0);
    assert_int_equal(settlement.returned, 2);
    assert_int_equal(weir_wait_next(weir), S);
    assert_int_equal(wakes.count, 2);
    drive(weir, S);
    assert_int_equal(guests[0].ended_at, S);
    assert_int_equal(guests[1].ended_at, WEIR_NO_TIME);
    assert_int_equal(weir_reset(weir, limit, "k", 1), 0);
    assert_int_equal(wakes.count, 3);
    drive(weir, S);
    assert_int_equal(guests[1].waiter.decision.outcome, WEIR_ALLOW);
    assert_int_equal(guests[2].waiter.decision.outcome, WEIR_ALLOW);
    assert_int_equal(guests[2].waiter.decision.remaining, 4);
    weir_free(weir);
}

static void permits_are_waited_for_by_who_acquires(void **state)
{
    (void)state;
    struct guest guests[3] = { 0 }, looker;
    struct weir_permit permits[2], served;
    struct weir_decision decision;
    struct weir *weir = limiter();
    bool was_held;
    weir_limit_id limit = limit_of(weir, (struct weir_limit){ .name = "jobs",
                                                              .algorithm = WEIR_CONCURRENCY,
                                                              .at_most = 2,
                                                              .hold = 60 * S,
                                                              .wait = { 10 * S, 5 } });
    struct weir_ask ask = ask_of(limit, "k", 1);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(weir_acquire(weir, &ask, 1, 0, NULL, &decision, &permits[i]), 0);
    assert_int_equal(guest_enters(weir, &looker, limit, "k", 1, 10 * S, 0).outcome, WEIR_DENY);
    for (unsigned i = 0; i < 3; i++) {
        guests[i].waiter = (struct weir_waiter){ .parts = guests[i].parts,
                                                 .part_room = PARTS,
                                                 .acquires = true,
                                                 .done = guest_done,
                                                 .owner = &guests[i] };
        assert_int_equal(weir_wait_start(weir, &guests[i].waiter, &ask, 1, 10 * S, i * S, &decision), 0);
        assert_int_equal(decision.outcome, WEIR_WAIT); /* though none expires before a minute */
    }
    assert_int_equal(weir_release(weir, permits[0].bytes, permits[0].len, 5 * S, &was_held), 0);
    assert_int_equal(weir_acquire(weir, &ask, 1, 5 * S, NULL, &decision, &permits[0]), 0);
    assert_int_equal(decision.outcome, WEIR_DENY); /* it is theirs */
    drive(weir, 5 * S);
    assert_int_equal(guests[0].waiter.decision.outcome, WEIR_ALLOW);
    weir_waiter_permit(weir, &guests[0].waiter, &served);
    assert_int_not_equal(served.len, 0);
    assert_int_equal(served.expires_at, 65 * S);
    assert_int_equal(weir_release(weir, served.bytes, served.len, 6 * S, &was_held), 0);
    assert_true(was_held);
    drive(weir, 60 * S);
    assert_int_equal(guests[1].waiter.decision.outcome, WEIR_ALLOW);
    assert_int_equal(guests[1].waiter.decision.decided_at, 6 * S);
    assert_int_equal(guests[2].waiter.decision.outcome, WEIR_DENY);
    assert_int_equal(guests[2].waiter.waited, 10 * S);
    weir_waiter_permit(weir, &guests[2].waiter, &served);
    assert_int_equal(served.len, 0);
    weir_free(weir);
}

/* A holder that died: its permit expires, and the first in the queue has it then. */
static void an_expired_permit_goes_to_the_first(void **state)
{
    (void)state;
    struct guest guest = { 0 };
    struct weir_permit permit;
    struct weir_decision decision;
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, (struct weir_limit){ .name = "jobs",
                                                              .algorithm = WEIR_CONCURRENCY,
                                                              .at_most = 1,
                                                              .hold = 3 * S,
                                                              .wait = { 10 * S, 5 } });
    struct weir_ask ask = ask_of(limit, "k", 1);
    assert_int_equal(weir_acquire(weir, &ask, 1, 0, NULL, &decision, &permit), 0);
    guest.waiter = (struct weir_waiter){
        .parts = guest.parts, .part_room = PARTS, .acquires = true, .done = guest_done, .owner = &guest
    };
    assert_int_equal(weir_wait_start(weir, &guest.waiter, &ask, 1, 10 * S, S, &decision), 0);
    assert_int_equal(decision.retry_at, 3 * S);
    drive(weir, 10 * S);
    assert_int_equal(guest.ended_at, 3 * S);
    assert_int_equal(guest.waiter.decision.outcome, WEIR_ALLOW);
    weir_free(weir);
}

/* ---- Answers ----------------------------------------------------------------------------------------------------------- */

static void a_reservation_after_the_wait_can_be_settled(void **state)
{
    (void)state;
    struct guest guest;
    struct weir_decision decision;
    struct weir_reservation ticket;
    struct weir_settlement settlement;
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, bucket(1, 10, 60 * S, 10));
    assert_int_equal(weir_check(weir, limit, "k", 1, 10, 0, &decision), 0);
    guest_enters(weir, &guest, limit, "k", 5, 60 * S, 0);
    weir_waiter_reservation(weir, &guest.waiter, S, &ticket);
    drive(weir, 5 * S);
    weir_waiter_reservation(weir, &guest.waiter, 2 * S, &ticket);
    assert_int_equal(weir_settle(weir, ticket.bytes, ticket.len, 1, 7 * S, &settlement), WEIR_ERR_RESERVATION);
    assert_int_equal(weir_settle(weir, ticket.bytes, ticket.len, 1, 6 * S, &settlement), 0);
    assert_int_equal(settlement.returned, 4);
    assert_int_equal(settlement.remaining, 5); /* 6 s of refill less one */
    weir_free(weir);
}

static void errors_leave_nothing_waiting(void **state)
{
    (void)state;
    struct guest guest;
    struct weir_decision decision;
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, pace(1, 60 * S, 10));
    struct weir_ask asks[PARTS + 1];
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        asks[i] = ask_of(limit, "k", 1);
    guest_enters(weir, &guest, limit, "k", 1, 60 * S, 0);
    assert_int_equal(weir_wait_start(weir, &guest.waiter, asks, PARTS + 1, S, 0, &decision), WEIR_ERR_WAITER);
    assert_int_equal(weir_wait_start(weir, &guest.waiter, asks, 0, S, 0, &decision), WEIR_ERR_ASKS);
    asks[0].limit = 7;
    assert_int_equal(weir_wait_start(weir, &guest.waiter, asks, 1, S, 0, &decision), WEIR_ERR_LIMIT);
    asks[0].is_watched = true;
    assert_int_equal(weir_wait_start(weir, &guest.waiter, asks, 2, S, 0, &decision), WEIR_ERR_LIMIT);
    assert_int_equal(waiting(weir), 0);
    guest_enters(weir, &guest, limit, "k", 1, 60 * S, 0);
    assert_int_equal(waiting(weir), 1);
    asks[1].limit = limit;
    assert_int_equal(weir_wait_start(weir, &guest.waiter, &asks[1], 1, S, 0, &decision), WEIR_ERR_WAITER);
    assert_true(weir_wait_cancel(weir, &guest.waiter, 0));
    weir_free(weir);
}

/* The table has no cell for it: the key cannot say that it is waited for, so nobody waits. */
static void what_has_no_cell_is_not_waited_for(void **state)
{
    (void)state;
    static const uint8_t secret[16] = "waiting";
    struct guest guest;
    struct weir_decision decision;
    struct weir *weir;
    unsigned denied = 0;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 1, .secret = secret }), 0);
    weir_limit_id limit = limit_of(weir, bucket(1, 1, 60 * S, 10));
    for (char key = '0'; key < '0' + 70; key++)
        assert_int_equal(weir_check(weir, limit, &key, 1, 1, 0, &decision), 0);
    for (char key = '0'; key < '0' + 70; key++) {
        char text[2] = { key, 0 };
        bool is_shared = guest_enters(weir, &guest, limit, text, 1, 60 * S, 0).policy == WEIR_POLICY_OVERFLOW;
        assert_int_equal(guest.first.outcome, is_shared ? WEIR_DENY : WEIR_WAIT);
        denied += is_shared;
        if (!is_shared)
            assert_true(weir_wait_cancel(weir, &guest.waiter, 0));
    }
    assert_true(denied > 20 && denied < 70);
    weir_free(weir);
}

static void ten_thousand_drain_in_order(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    struct guest *guests = calloc(MANY, sizeof *guests);
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, pace(1000, 60 * S, MANY));
    for (unsigned i = 0; i < MANY; i++)
        guest_enters(weir, &guests[i], limit, "k", 1, 60 * S, 0);
    assert_int_equal(waiting(weir), MANY - 1);
    drive(weir, 60 * S);
    for (unsigned i = 1; i < MANY; i++) {
        assert_int_equal(guests[i].order, i);
        assert_int_equal(guests[i].ended_at, i * MS);
        assert_int_equal(guests[i].calls, 1);
    }
    assert_true(sizeof(struct weir_waiter) + 4 * sizeof(struct weir_waiter_part) < 1200);
    weir_free(weir);
    free(guests);
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
        cmocka_unit_test(a_turn_that_comes_too_late_is_refused_on_arrival),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(nobody_overtakes_who_waits),
        cmocka_unit_test(a_turn_that_came_in_time_is_served_late),
        cmocka_unit_test(a_turn_that_came_stays_in_time),
        cmocka_unit_test(a_stale_stamp_is_not_told_the_past),
        cmocka_unit_test(lateness_does_not_add_up),
        cmocka_unit_test(a_very_late_driver_does_not_bunch),
        cmocka_unit_test(what_comes_back_wakes_the_first),
        cmocka_unit_test(permits_are_waited_for_by_who_acquires),
        cmocka_unit_test(an_expired_permit_goes_to_the_first),
        cmocka_unit_test(a_reservation_after_the_wait_can_be_settled),
        cmocka_unit_test(errors_leave_nothing_waiting),
        cmocka_unit_test(what_has_no_cell_is_not_waited_for),
        cmocka_unit_test(ten_thousand_drain_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
