// SPDX-License-Identifier: Apache-2.0
/*
 * test_wait_several.c - waiting under several limits, and under limits that change meanwhile, in virtual time.
 */
#include "admit/waiting.h"

static struct weir_limit window(const char *name, uint64_t count, weir_ns period)
{
    return (struct weir_limit){
        .name = name, .algorithm = WEIR_FIXED_WINDOW, .rate = { count, period }, .wait = { 1000 * S, 100 }
    };
}

static struct weir_decision look(struct weir *weir, weir_limit_id limit, weir_ns now)
{
    struct weir_decision decision;
    assert_int_equal(weir_peek(weir, limit, "k", 1, 0, now, &decision), 0);
    return decision;
}

/* ---- All or nothing ---------------------------------------------------------------------------------------------- */

static void a_composite_is_charged_nowhere_before_its_turn(void **state)
{
    (void)state;
    struct guest first, both, behind;
    struct weir *weir = limiter();
    weir_limit_id x = limit_of(weir, window("x", 1, S)), y = limit_of(weir, window("y", 2, 10 * S));
    struct weir_ask asks[2] = { ask_of(x, "k", 1), ask_of(y, "k", 2) };
    guest_enters(weir, &first, x, "k", 1, 60 * S, 0);
    struct weir_decision decision = guest_asks(weir, &both, asks, 2, 60 * S, 0);
    assert_int_equal(decision.outcome, WEIR_WAIT);
    assert_int_equal(decision.retry_at, S);
    assert_int_equal(decision.limit, x);
    /* Its place in y is held, so who comes for y alone goes behind it though y has two left. */
    assert_int_equal(guest_enters(weir, &behind, y, "k", 1, 60 * S, 0).retry_at, 10 * S);
    drive(weir, S - 1);
    assert_int_equal(guests_ended, 0);
    drive(weir, 20 * S);
    assert_int_equal(both.ended_at, S);
    assert_int_equal(both.parts[0].decision.remaining, 0);
    assert_int_equal(both.parts[1].decision.limit, y);
    assert_int_equal(behind.ended_at, 10 * S);
    weir_free(weir);
}

static void each_queue_tells_how_many_stand_in_it(void **state)
{
    (void)state;
    struct guest guests[6];
    uint64_t counts[4] = { 9, 9, 9, 9 };
    struct weir *weir = limiter();
    weir_limit_id x = limit_of(weir, window("x", 1, S)), y = limit_of(weir, window("y", 1, 10 * S));
    weir_limit_id z = limit_of(weir, window("z", 1, S));
    struct weir_ask asks[2] = { ask_of(x, "k", 1), ask_of(y, "k", 1) };
    weir_set_waiting(weir_set_current(weir), counts, 3);
    assert_true(counts[x] == 0 && counts[y] == 0 && counts[z] == 0 && counts[3] == 9);
    guest_asks(weir, &guests[0], asks, 2, 60 * S, 0);
    guest_asks(weir, &guests[1], asks, 2, 60 * S, 0);
    guest_enters(weir, &guests[2], x, "k", 1, 60 * S, 0);
    guest_enters(weir, &guests[3], x, "other", 1, 60 * S, 0); /* passes */
    guest_enters(weir, &guests[4], x, "other", 1, 60 * S, 0);
    weir_set_waiting(weir_set_current(weir), counts, 3);
    assert_int_equal(counts[x], 3);
    assert_int_equal(counts[y], 1);
    assert_int_equal(counts[z], 0);
    weir_set_waiting(weir_set_current(weir), counts, 1); /* no more than there is room for */
    assert_int_equal(counts[1], 1);
    drive(weir, 60 * S);
    weir_set_waiting(weir_set_current(weir), counts, 3);
    assert_true(counts[x] == 0 && counts[y] == 0 && counts[z] == 0 && counts[3] == 9);
    weir_free(weir);
}

static void a_limit_without_wait_denies_at_the_turn(void **state)
{
    (void)state;
    struct guest guest;
    struct weir_decision decision;
    struct weir *weir = limiter();
    weir_limit_id x = limit_of(weir, window("x", 1, S));
    weir_limit_id still = limit_of(weir, (struct weir_limit){ .name = "still", .rate = { 0, S }, .burst = 1 });
    struct weir_ask asks[2] = { ask_of(x, "k", 1), ask_of(still, "k", 1) };
    assert_int_equal(weir_check(weir, x, "k", 1, 1, 0, &decision), 0);
    assert_int_equal(guest_asks(weir, &guest, asks, 2, 60 * S, 0).outcome, WEIR_WAIT);
    assert_int_equal(weir_check(weir, still, "k", 1, 1, 0, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_ALLOW); /* who waits holds nothing of it */
    drive(weir, 60 * S);
    assert_int_equal(guest.ended_at, S);
    assert_int_equal(guest.waiter.decision.outcome, WEIR_DENY);
    assert_int_equal(guest.waiter.decision.limit, still);
    assert_int_equal(look(weir, x, S).remaining, 1); /* and x was not charged */
    assert_int_equal(guest_asks(weir, &guest, asks, 2, 60 * S, S).outcome, WEIR_DENY); /* nor on arrival */
    weir_free(weir);
}

/* A watched limit makes nobody wait, counts who passes, and says what it would have said. */
static void a_watched_limit_only_watches(void **state)
{
    (void)state;
    struct guest guests[3];
    struct weir_decision decision, each[2];
    struct weir *weir = limiter();
    weir_limit_id x = limit_of(weir, window("x", 1, S)), y = limit_of(weir, window("y", 1, 100 * S));
    struct weir_ask asks[2] = { ask_of(y, "k", 1), ask_of(x, "k", 1) };
    asks[0].is_watched = true;
    assert_int_equal(guest_asks(weir, &guests[0], asks, 2, 60 * S, 0).outcome, WEIR_ALLOW);
    assert_int_equal(look(weir, y, 0).remaining, 0);
    for (unsigned i = 1; i < 3; i++) {
        assert_int_equal(guest_asks(weir, &guests[i], asks, 2, 60 * S, 0).outcome, WEIR_WAIT);
        assert_int_equal(guests[i].waiter.watched, 1);
    }
    drive(weir, 60 * S);
    for (unsigned i = 1; i < 3; i++) {
        weir_waiter_answer(weir_set_current(weir), &guests[i].waiter, each, &decision);
        assert_int_equal(decision.outcome, WEIR_ALLOW);
        assert_int_equal(decision.limit, x);
        assert_int_equal(each[0].outcome, WEIR_DENY);
        assert_int_equal(each[0].limit, y);
        assert_int_equal(guests[i].ended_at, i * S);
    }
    asks[1].is_watched = true; /* and nothing but watched limits */
    assert_int_equal(guest_asks(weir, &guests[0], asks, 2, 60 * S, 2 * S).outcome, WEIR_ALLOW);
    assert_int_equal(guests[0].first.limit, WEIR_NO_LIMIT);
    assert_int_equal(guests[0].parts[0].decision.outcome, WEIR_DENY);
    weir_free(weir);
}

static void asks_for_the_same_key_wait_as_one(void **state)
{
    (void)state;
    struct guest guest;
    struct weir *weir = limiter();
    weir_limit_id limit = limit_of(weir, window("x", 3, S));
    struct weir_ask asks[3] = { ask_of(limit, "k", 2), ask_of(limit, "other", 1), ask_of(limit, "k", 1) };
    struct weir_decision decision;
    assert_int_equal(weir_check(weir, limit, "k", 1, 1, 0, &decision), 0);
    assert_int_equal(guest_asks(weir, &guest, asks, 3, 60 * S, 0).outcome, WEIR_WAIT);
    drive(weir, 60 * S);
    assert_int_equal(guest.ended_at, S);
    assert_int_equal(guest.parts[0].decision.remaining, 0);
    assert_int_equal(guest.parts[1].decision.remaining, 2);
    assert_int_equal(guest.parts[2].decision.remaining, 0);
    weir_free(weir);
}

/* A retry that comes while the first is waiting waits too, and is known when its turn comes. */
static void a_retry_id_is_held_at_the_turn(void **state)
{
    (void)state;
    struct guest first, again, third;
    struct weir_decision decision;
    struct weir *weir = limiter();
    struct weir_limit limit = window("x", 1, S);
    limit.retries_free_within = 100 * S;
    weir_limit_id x = limit_of(weir, limit);
    struct weir_ask ask = ask_of(x, "k", 1);
    ask.retry_id = "id";
    ask.retry_id_len = 2;
    assert_int_equal(weir_check(weir, x, "k", 1, 1, 0, &decision), 0);
    guest_asks(weir, &first, &ask, 1, 60 * S, 0);
    guest_asks(weir, &again, &ask, 1, 60 * S, 0);
    guest_enters(weir, &third, x, "k", 1, 60 * S, 0);
    drive(weir, 60 * S);
    assert_int_equal(first.waiter.decision.outcome, WEIR_ALLOW);
    assert_int_equal(again.waiter.decision.outcome, WEIR_DUPLICATE);
    assert_int_equal(third.waiter.decision.outcome, WEIR_ALLOW);
    assert_int_equal(again.ended_at, 2 * S);
    assert_int_equal(third.ended_at, 2 * S); /* a duplicate takes nothing */
    assert_int_equal(guest_asks(weir, &again, &ask, 1, 60 * S, 3 * S).outcome, WEIR_DUPLICATE);
    weir_free(weir);
}

/* ---- Every way in which few can wait under few limits -------------------------------------------------------------- */

#define LIMITS 3
#define CROWD 4
#define SETS (1u << LIMITS)

static size_t asks_of(const weir_limit_id *limits, unsigned set, struct weir_ask *asks)
{
    size_t count = 0;
    for (unsigned i = 0; i < LIMITS; i++)
        if ((set & 1u << i) != 0)
            asks[count++] = ask_of(limits[i], "k", 1);
    return count;
}

static bool is_waiting(const struct guest *guest)
{
    return guest->first.outcome == WEIR_WAIT && guest->calls == 0;
}

/*
 * Whoever waits under each set of limits in each order, one of them leaving: all others are served, nobody is passed by who
 * came later for one of its limits, and at every instant at which somebody can be served the oldest is.
 */
static void crowd(const unsigned sets[CROWD], unsigned leaves)
{
    struct guest guests[CROWD] = { 0 };
    struct weir *weir = limiter();
    weir_limit_id limits[LIMITS];
    static const char *const names[LIMITS] = { "x", "y", "z" };
    struct weir_ask asks[LIMITS];
    struct weir_decision decision;
    for (unsigned i = 0; i < LIMITS; i++) {
        limits[i] = limit_of(weir, window(names[i], 1, (i + 1) * S));
        assert_int_equal(weir_check(weir, limits[i], "k", 1, 1, 0, &decision), 0);
    }
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(
            guest_asks(weir, &guests[i], asks, asks_of(limits, sets[i], asks), 1000 * S, 0).outcome, WEIR_WAIT);
    drive(weir, S);
    bool left = leaves < CROWD && is_waiting(&guests[leaves]);
    if (left)
        assert_true(weir_wait_cancel(weir, &guests[leaves].waiter, S));
    for (weir_ns at; (at = weir_wait_next(weir)) != WEIR_NO_TIME;) {
        unsigned oldest = 0;
        while (!is_waiting(&guests[oldest]) || (left && oldest == leaves))
            oldest++;
        assert_true(at <= 1000 * S);
        drive(weir, at);
        if (is_waiting(&guests[oldest])) /* it is first everywhere, so only its limits' windows hold it */
            assert_true(weir_wait_next(weir) > at);
    }
    for (unsigned i = 0; i < CROWD; i++)
        for (unsigned k = 0; k < i; k++) {
            if (left && (i == leaves || k == leaves))
                continue;
            assert_int_equal(guests[i].waiter.decision.outcome, WEIR_ALLOW);
            if ((sets[i] & sets[k]) != 0)
                assert_true(guests[k].order < guests[i].order);
        }
    weir_free(weir);
}

static void every_small_crowd_is_served(void **state)
{
    (void)state;
    for (unsigned run = 0; run < SETS * SETS * SETS * SETS; run++) {
        unsigned sets[CROWD] = { run % SETS, run / SETS % SETS, run / SETS / SETS % SETS,
                                 run / SETS / SETS / SETS };
        if (sets[0] != 0 && sets[1] != 0 && sets[2] != 0 && sets[3] != 0)
            crowd(sets, run % (CROWD + 1));
    }
}

/* ---- Limits that change -------------------------------------------------------------------------------------------- */

static void change(struct weir *weir, const struct weir_limit *limits, size_t count, weir_ns now)
{
    struct weir_change *change;
    weir_limit_id id;
    assert_int_equal(weir_change_new(&change, weir), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(weir_change_limit(change, &limits[i], &id), 0);
    assert_int_equal(weir_change_commit(change, now, NULL, NULL), 0);
    weir_quiesce(weir, now);
}

static void B54_waiters_keep_their_place_across_a_reload(void **state)
{
    (void)state;
    static struct guest guests[6], late;
    struct weir *weir = limiter();
    struct weir_limit limits[2] = { window("other", 1, S), window("x", 1, S) };
    weir_limit_id x = limit_of(weir, limits[1]);
    for (unsigned i = 0; i < 6; i++)
        guest_enters(weir, &guests[i], x, "k", 1, 60 * S, 0);
    for (unsigned i = 0; i < 3; i++) { /* unchanged, but for another limit and so for its number */
        change(weir, limits + (i + 1) % 2, 2 - (i + 1) % 2, i * S + 500 * MS);
        drive(weir, (i + 1) * S);
        assert_int_equal(guests_ended, i + 1);
    }
    limits[1].rate.count = 2; /* resized: two a second from now on */
    change(weir, limits, 2, 3 * S + 500 * MS);
    assert_int_equal(weir_wait_next(weir), 3 * S + 500 * MS); /* one more at once: the window has room for it */
    x = weir_limit_find(weir, "x");
    assert_int_equal(guest_enters(weir, &late, x, "k", 1, 60 * S, 3 * S + 500 * MS).retry_at, 4 * S);
    drive(weir, 60 * S);
    assert_int_equal(guests[4].ended_at, 3 * S + 500 * MS);
    assert_int_equal(guests[5].ended_at, 4 * S);
    assert_int_equal(late.ended_at, 4 * S);
    assert_int_equal(late.waiter.decision.limit, x);
    for (unsigned i = 1; i < 6; i++)
        assert_int_equal(guests[i].calls, 1);
    weir_free(weir);
}

static void a_removed_limit_asks_nothing_any_more(void **state)
{
    (void)state;
    struct guest first, both, alone;
    struct weir_decision decision, each[2];
    struct weir *weir = limiter();
    struct weir_limit limits[2] = { window("x", 1, S), window("y", 1, 100 * S) };
    weir_limit_id x = limit_of(weir, limits[0]), y = limit_of(weir, limits[1]);
    struct weir_ask asks[2] = { ask_of(x, "k", 1), ask_of(y, "k", 1) };
    assert_int_equal(guest_asks(weir, &first, asks, 2, 60 * S, 0).outcome, WEIR_ALLOW);
    assert_int_equal(guest_asks(weir, &both, asks, 2, 1000 * S, 0).retry_at, 100 * S);
    assert_int_equal(guest_enters(weir, &alone, y, "k", 1, 1000 * S, 0).retry_at, 200 * S);
    change(weir, limits, 1, S / 2);
    drive(weir, 10 * S);
    assert_int_equal(alone.ended_at, S / 2);
    assert_int_equal(alone.waiter.decision.outcome, WEIR_ALLOW);
    assert_int_equal(alone.waiter.decision.limit, WEIR_NO_LIMIT);
    assert_int_equal(both.ended_at, S);
    weir_waiter_answer(weir_set_current(weir), &both.waiter, each, &decision);
    assert_int_equal(decision.limit, weir_limit_find(weir, "x"));
    assert_int_equal(each[1].limit, WEIR_NO_LIMIT);
    weir_free(weir);
}

static void who_waits_for_a_restarted_limit_is_refused(void **state)
{
    (void)state;
    struct guest first, second, other;
    struct weir *weir = limiter();
    struct weir_limit limits[2] = { window("x", 1, 100 * S), window("y", 1, 100 * S) };
    weir_limit_id x = limit_of(weir, limits[0]), y = limit_of(weir, limits[1]);
    struct weir_ask asks[2] = { ask_of(x, "k", 1), ask_of(y, "k", 1) };
    guest_asks(weir, &first, asks, 2, 60 * S, 0);
    guest_asks(weir, &second, asks, 2, 1000 * S, 0);
    guest_enters(weir, &other, y, "k", 1, 1000 * S, 0);
    limits[0].key_form = "another";
    change(weir, limits, 2, S);
    drive(weir, S);
    assert_int_equal(second.ended_at, S);
    assert_int_equal(second.waiter.decision.outcome, WEIR_REFUSED);
    assert_int_equal(second.waiter.decision.policy, WEIR_POLICY_CLOSED);
    assert_int_equal(second.waiter.decision.reason, WEIR_REASON_CONTENDED);
    drive(weir, 1000 * S);
    assert_int_equal(other.ended_at, 100 * S); /* its place, and that of nobody before it now */
    weir_free(weir);
}

static void who_waits_stays_though_nobody_else_may(void **state)
{
    (void)state;
    struct guest first, second, newcomer;
    struct weir_decision decision;
    struct weir *weir = limiter();
    struct weir_limit limit = window("x", 1, S);
    weir_limit_id x = limit_of(weir, limit);
    guest_enters(weir, &first, x, "k", 1, 60 * S, 0);
    guest_enters(weir, &second, x, "k", 1, 60 * S, 0);
    limit.wait = (struct weir_wait){ 0, 0 };
    change(weir, &limit, 1, S / 2);
    assert_int_equal(guest_enters(weir, &newcomer, x, "k", 1, 60 * S, S / 2).outcome, WEIR_DENY);
    assert_int_equal(newcomer.first.retry_at, 2 * S);
    drive(weir, 60 * S);
    assert_int_equal(second.ended_at, S);
    assert_int_equal(weir_check(weir, x, "k", 1, 1, 2 * S, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_ALLOW);
    weir_free(weir);
}

static void what_can_never_pass_any_more_is_told_at_once(void **state)
{
    (void)state;
    struct guest large, small;
    struct weir *weir = limiter();
    struct weir_limit limit = window("x", 5, 100 * S);
    weir_limit_id x = limit_of(weir, limit);
    struct weir_decision decision;
    assert_int_equal(weir_check(weir, x, "k", 1, 1, 0, &decision), 0);
    guest_enters(weir, &large, x, "k", 5, 1000 * S, 0);
    guest_enters(weir, &small, x, "k", 1, 1000 * S, 0);
    limit.rate.count = 2;
    change(weir, &limit, 1, S);
    drive(weir, S);
    assert_int_equal(large.ended_at, S);
    assert_int_equal(large.waiter.decision.outcome, WEIR_NEVER);
    assert_int_equal(small.ended_at, S);
    assert_int_equal(small.waiter.decision.outcome, WEIR_ALLOW);
    weir_free(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_composite_is_charged_nowhere_before_its_turn),
        cmocka_unit_test(each_queue_tells_how_many_stand_in_it),
        cmocka_unit_test(a_limit_without_wait_denies_at_the_turn),
        cmocka_unit_test(a_watched_limit_only_watches),
        cmocka_unit_test(asks_for_the_same_key_wait_as_one),
        cmocka_unit_test(a_retry_id_is_held_at_the_turn),
        cmocka_unit_test(every_small_crowd_is_served),
        cmocka_unit_test(B54_waiters_keep_their_place_across_a_reload),
        cmocka_unit_test(a_removed_limit_asks_nothing_any_more),
        cmocka_unit_test(who_waits_for_a_restarted_limit_is_refused),
        cmocka_unit_test(who_waits_stays_though_nobody_else_may),
        cmocka_unit_test(what_can_never_pass_any_more_is_told_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
