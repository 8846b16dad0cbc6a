// SPDX-License-Identifier: Apache-2.0
/* weir_acquire(), weir_renew(), weir_release(): permits as values, over several limits, through changes, and forged. */
#include "support/unit.h"

#include "permit.h"

#define S WEIR_SECOND

static struct weir *weir;

static weir_limit_id add(const char *name, uint64_t at_most, weir_ns hold)
{
    weir_limit_id id;
    struct weir_limit limit = { .name = name,
                                .algorithm = WEIR_CONCURRENCY,
                                .at_most = at_most,
                                .hold = hold,
                                .when_full = WEIR_FULL_CLOSED };
    assert_int_equal(weir_limit_add(weir, &limit, &id), 0);
    return id;
}

static weir_limit_id add_bucket(const char *name, uint64_t burst)
{
    weir_limit_id id;
    struct weir_limit limit = { .name = name, .rate = { 1, S }, .burst = burst };
    assert_int_equal(weir_limit_add(weir, &limit, &id), 0);
    return id;
}

static struct weir_ask ask_of(weir_limit_id limit, const char *key, uint64_t cost)
{
    return (struct weir_ask){ .limit = limit, .key = key, .key_len = strlen(key), .cost = cost };
}

static struct weir_decision acquire(const struct weir_ask *asks, size_t count, weir_ns now,
                                    struct weir_permit *permit)
{
    struct weir_decision decision;
    memset(permit, 0xee, sizeof *permit);
    assert_int_equal(weir_acquire(weir, asks, count, now, NULL, &decision, permit), 0);
    return decision;
}

static uint64_t left_of(weir_limit_id limit, const char *key, weir_ns now)
{
    struct weir_decision decision;
    assert_int_equal(weir_peek(weir, limit, key, strlen(key), 0, now, &decision), 0);
    return decision.remaining;
}

static weir_ns renew(const struct weir_permit *permit, weir_ns now)
{
    weir_ns expires_at;
    assert_int_equal(weir_renew(weir, permit->bytes, permit->len, now, &expires_at), 0);
    return expires_at;
}

static bool release(const struct weir_permit *permit, weir_ns now)
{
    bool was_held;
    assert_int_equal(weir_release(weir, permit->bytes, permit->len, now, &was_held), 0);
    return was_held;
}

/* ---- Several limits -------------------------------------------------------------------------------------------------- */

static void a_permit_covers_every_concurrency_limit_and_no_rate(void **state)
{
    (void)state;
    const weir_ns origin = 7 * WEIR_HOUR, now = origin + 100 * S;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64, .origin = origin }), 0);
    weir_limit_id bucket = add_bucket("bucket", 5), host = add("host", 2, 20 * S),
                  user = add("user", 3, 10 * S);
    const struct weir_ask asks[] = { ask_of(bucket, "b", 1), ask_of(user, "u", 1), ask_of(host, "h", 2),
                                     ask_of(user, "u", 1) };
    struct weir_permit permit, other;
    struct weir_decision each[4], out;
    assert_int_equal(weir_acquire(weir, asks, 4, now, each, &out, &permit), 0);
    assert_int_equal(out.outcome, WEIR_ALLOW);
    assert_true(permit.len > 0 && permit.expires_at == now + 10 * S);
    assert_true(each[1].remaining == 1 && each[2].remaining == 0 && each[3].remaining == 1);
    struct weir_ask one = ask_of(user, "u", 1);
    assert_int_equal(acquire(&one, 1, now, &other).outcome, WEIR_ALLOW);
    assert_true(other.fence > permit.fence);
    assert_true(other.fence - permit.fence <= 2);         /* the one of "u", which was asked first */
    assert_true(permit.fence > UINT64_C(1600000000) * S); /* the wall clock's ns, unless it is told otherwise */

    /* Denied by one limit: nothing is taken of any, and there is nothing to release. */
    struct weir_permit none;
    assert_int_equal(acquire(asks, 4, now, &none).outcome, WEIR_DENY);
    assert_true(none.len == 0 && none.fence == 0);
    assert_true(left_of(bucket, "b", now) == 4 && left_of(user, "u", now) == 0);
    assert_int_equal(weir_release(weir, none.bytes, none.len, now, NULL), WEIR_ERR_PERMIT);

    assert_int_equal(renew(&permit, now + 5 * S), now + 15 * S); /* the part that ends first */
    assert_int_equal(left_of(host, "h", now + 25 * S - 1), 0);
    assert_int_equal(left_of(host, "h", now + 25 * S), 2);
    assert_true(release(&permit, now + 6 * S));
    assert_false(release(&permit, now + 6 * S));
    assert_int_equal(left_of(host, "h", now + 6 * S), 2);
    assert_int_equal(left_of(user, "u", now + 6 * S), 2);
    assert_int_equal(left_of(bucket, "b", now + S), 5); /* by refill; a release gives rates nothing back */
    weir_free(weir);
}

/* One part has expired: the permit is lost, and what is left of it is neither held for longer nor forgotten. */
static void a_permit_of_which_a_part_is_lost_is_lost(void **state)
{
    (void)state;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64 }), 0);
    weir_limit_id brief = add("brief", 1, 5 * S), longer = add("longer", 1, 20 * S);
    const struct weir_ask orders[2][2] = { { ask_of(brief, "k", 1), ask_of(longer, "k", 1) },
                                           { ask_of(longer, "k", 1), ask_of(brief, "k", 1) } };
    for (unsigned i = 0; i < 2; i++) {
        weir_ns now = (i + 1) * 100 * S;
        struct weir_permit permit;
        assert_int_equal(acquire(orders[i], 2, now, &permit).outcome, WEIR_ALLOW);
        assert_int_equal(renew(&permit, now + 5 * S), WEIR_NO_TIME);
        assert_int_equal(left_of(longer, "k", now + 20 * S - 1), 0);
        assert_int_equal(left_of(longer, "k", now + 20 * S), 1);
        assert_true(release(&permit, now + 6 * S)); /* one part was */
        assert_int_equal(left_of(longer, "k", now + 6 * S), 1);
    }
    weir_free(weir);
}

/* Every other call looks: refused while it is full, holding nothing. */
static void who_cannot_release_only_looks(void **state)
{
    (void)state;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64 }), 0);
    weir_limit_id bucket = add_bucket("bucket", 9), permits = add("permits", 1, 10 * S);
    const struct weir_ask asks[] = { ask_of(permits, "k", 1), ask_of(bucket, "k", 1) };
    struct weir_decision out, each[2];
    struct weir_permit permit;
    struct weir_reservation ticket;
    struct weir_settlement settlement;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(weir_admit(weir, asks, 2, 0, each, &out), 0);
        assert_true(out.outcome == WEIR_ALLOW && each[0].remaining == 1);
        assert_int_equal(weir_check(weir, permits, "k", 1, 1, 0, &out), 0);
        assert_int_equal(out.outcome, WEIR_ALLOW);
        assert_int_equal(weir_check_batch(weir, asks, 2, 0, each), 0);
        assert_true(each[0].outcome == WEIR_ALLOW && each[0].remaining == 1);
    }
    assert_int_equal(weir_reserve(weir, asks, 2, 0, S, NULL, &out, &ticket), 0);
    assert_int_equal(left_of(bucket, "k", 0), 4);
    assert_int_equal(weir_settle(weir, ticket.bytes, ticket.len, 3, 0, &settlement), 0);
    assert_true(settlement.charged == 2 && settlement.limit == bucket);
    assert_int_equal(acquire(asks, 1, 0, &permit).outcome, WEIR_ALLOW);
    assert_int_equal(weir_admit(weir, asks, 2, S / 2, NULL, &out), 0);
    assert_true(out.outcome == WEIR_DENY && out.limit == permits && out.retry_at == 10 * S);
    assert_int_equal(left_of(bucket, "k", 0), 2);
    assert_int_equal(weir_refund(weir, asks, 1, 0, &settlement), 0);
    assert_int_equal(settlement.returned, 0);
    assert_int_equal(left_of(permits, "k", 0), 0);
    weir_free(weir);
}

/* ---- As bytes ---------------------------------------------------------------------------------------------------------- */

static void a_forged_permit_is_refused(void **state)
{
    (void)state;
    const uint8_t secret[16] = { 1 }, another[16] = { 2 };
    struct weir *others;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64, .secret = secret, .fence = 41 }), 0);
    assert_int_equal(weir_new(&others, &(struct weir_options){ .keys = 64, .secret = another }), 0);
    weir_limit_id id = add("l", 3, 10 * S), bucket = add_bucket("bucket", 9);
    struct weir_ask asks[] = { ask_of(id, "k", 1), ask_of(bucket, "k", 1) };
    struct weir_permit permit, changed;
    struct weir_reservation ticket;
    struct weir_decision out;
    weir_ns expires_at = 7;
    bool was_held = true;
    assert_int_equal(acquire(asks, 1, 0, &permit).outcome, WEIR_ALLOW);
    assert_int_equal(permit.fence, 42);
    for (size_t bit = 0; bit < 8 * permit.len; bit++) {
        changed = permit;
        changed.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(weir_renew(weir, changed.bytes, changed.len, 0, &expires_at), WEIR_ERR_PERMIT);
        assert_int_equal(weir_release(weir, changed.bytes, changed.len, 0, &was_held), WEIR_ERR_PERMIT);
    }
    for (size_t len = 0; len < permit.len; len++)
        assert_int_equal(weir_release(weir, permit.bytes, len, 0, &was_held), WEIR_ERR_PERMIT);
    assert_int_equal(weir_release(weir, permit.bytes, WEIR_PERMIT_MAX + 1, 0, &was_held), WEIR_ERR_PERMIT);
    assert_int_equal(weir_release(others, permit.bytes, permit.len, 0, &was_held), WEIR_ERR_PERMIT);
    /* A reservation is no permit, nor a permit a reservation. */
    struct weir_settlement settlement;
    assert_int_equal(weir_reserve(weir, &asks[1], 1, 0, S, NULL, &out, &ticket), 0);
    assert_int_equal(weir_release(weir, ticket.bytes, ticket.len, 0, &was_held), WEIR_ERR_PERMIT);
    assert_int_equal(weir_cancel(weir, permit.bytes, permit.len, 0, &settlement), WEIR_ERR_RESERVATION);
    assert_true(was_held && expires_at == 7); /* untouched */
    assert_true(release(&permit, 0));
    weir_free(others);
    weir_free(weir);
}

static void the_longest_permit_fits(void **state)
{
    (void)state;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 200 }), 0);
    weir_limit_id id = add("l", 1, 10 * S);
    struct weir_ask asks[WEIR_ASKS_MAX];
    char keys[WEIR_ASKS_MAX][4];
    for (unsigned i = 0; i < WEIR_ASKS_MAX; i++) {
        snprintf(keys[i], sizeof keys[i], "k%u", i);
        asks[i] = ask_of(id, keys[i], 1);
    }
    struct weir_permit permit;
    assert_int_equal(acquire(asks, WEIR_ASKS_MAX, 0, &permit).outcome, WEIR_ALLOW);
    assert_true(permit.len > 0 && permit.len <= WEIR_PERMIT_MAX);
    assert_int_equal(renew(&permit, S), 11 * S);
    assert_true(release(&permit, S));
    struct weir_stats stats;
    weir_stats(weir, 0, &stats);
    assert_true(stats.permits == 65536 && stats.permits_free == 65536);
    weir_free(weir);
}

/* ---- Limits and their changes -------------------------------------------------------------------------------------------- */

static void limits_say_what_does_not_fit(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        struct weir_limit limit;
        int code;
    } rows[] = {
        { "none at once", { .at_most = 0, .hold = S }, WEIR_ERR_AT_MOST },
        { "too many", { .at_most = 65536, .hold = S }, WEIR_ERR_AT_MOST },
        { "too brief", { .at_most = 1, .hold = WEIR_MILLISECOND - 1 }, WEIR_ERR_HOLD },
        { "too long", { .at_most = 1, .hold = WEIR_HORIZON + 1 }, WEIR_ERR_HOLD },
        { "no debt", { .at_most = 1, .hold = S, .debt = 1 }, WEIR_ERR_DEBT },
        { "nothing to charge", { .at_most = 1, .hold = S, .refused = WEIR_REFUSAL_CHARGED }, WEIR_ERR_OPTION },
        { "a duplicate has no permit", { .at_most = 1, .hold = S, .retries_free_within = S }, WEIR_ERR_OPTION },
        { "more than the pool, shared", { .at_most = 101, .hold = S }, WEIR_ERR_PERMIT_MEMORY },
        { "all of the pool, shared", { .at_most = 100, .hold = S }, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weir_limit_id id;
        struct weir_limit limit = rows[i].limit;
        limit.name = "l";
        limit.algorithm = WEIR_CONCURRENCY;
        assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64, .permits = 100 }), 0);
        expect_row(weir_limit_add(weir, &limit, &id) == rows[i].code, rows[i].why);
        weir_free(weir);
    }
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64, .permits = SIZE_MAX }),
                     WEIR_ERR_OPTION);
}

/* A change of the other limits, of the size, of nothing; and one that takes the limit away or starts it afresh. */
/* A fence of 0 says that nothing is held. */
static void fences_do_not_come_round(void **state)
{
    (void)state;
    static const struct {
        uint64_t fence;
        int code;
        const char *why;
    } rows[] = {
        { 1, 0, "the least" },
        { INT64_MAX, 0, "the most: as many again may follow" },
        { (uint64_t)INT64_MAX + 1, WEIR_ERR_OPTION, "one more" },
        { UINT64_MAX, WEIR_ERR_OPTION, "the next would be 0" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int code = weir_new(&weir, &(struct weir_options){ .keys = 10, .permits = 10, .fence = rows[i].fence });
        expect_row(code == rows[i].code, rows[i].why);
        weir_free(code == 0 ? weir : NULL);
    }
}

static void permits_outlive_a_change_of_their_limit(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        const char *key_form;
        uint64_t at_most, override, left; /* left: of the 3 that were held 2; UINT64_MAX: unlimited */
        weir_ns hold;
        bool is_there, is_kept;
    } rows[] = {
        { "nothing changed", NULL, 3, 0, 1, 10 * S, true, true },
        { "more at once", NULL, 9, 0, 7, 10 * S, true, true },
        { "fewer than are held", NULL, 1, 0, 0, 10 * S, true, true },
        { "for longer", NULL, 3, 0, 1, 60 * S, true, true },
        { "another size for this key", NULL, 3, 5, 3, 10 * S, true, true },
        { "no limit for this key", NULL, 3, UINT64_MAX, UINT64_MAX, 10 * S, true, true },
        { "another key form", "tenant", 3, 0, 3, 10 * S, true, false },
        { "removed", NULL, 0, 0, 0, 0, false, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows) * 2; i++) {
        const struct row *row = &rows[i / 2];
        struct weir_permit permit;
        struct weir_change *change;
        weir_limit_id id = WEIR_NO_LIMIT, other;
        assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64 }), 0);
        struct weir_ask ask = ask_of(add("l", 3, 10 * S), "k", 2);
        assert_int_equal(acquire(&ask, 1, 0, &permit).outcome, WEIR_ALLOW);

        struct weir_limit limit = { .name = "l",
                                    .algorithm = WEIR_CONCURRENCY,
                                    .at_most = row->at_most,
                                    .hold = row->hold,
                                    .key_form = row->key_form,
                                    .when_full = WEIR_FULL_CLOSED };
        struct weir_limit beside = { .name = "beside", .rate = { 1, S }, .burst = 1 };
        struct weir_size size = { .at_most = row->override, .is_unlimited = row->override == UINT64_MAX };
        assert_int_equal(weir_change_new(&change, weir), 0);
        assert_int_equal(weir_change_limit(change, &beside, &other), 0);
        if (row->is_there)
            assert_int_equal(weir_change_limit(change, &limit, &id), 0);
        if (row->override != 0)
            assert_int_equal(weir_change_override(change, id, "k", 1, &size), 0);
        assert_int_equal(weir_change_commit(change, S, NULL, NULL), 0);
        if (i % 2 == 0)
            weir_quiesce(weir, S); /* else its record is converted when somebody takes */

        if (row->is_there)
            expect_row(left_of(id, "k", 2 * S) == row->left, row->why);
        expect_row(renew(&permit, 2 * S) == (row->is_kept ? 2 * S + row->hold : WEIR_NO_TIME), row->why);
        expect_row(release(&permit, 3 * S) == row->is_kept, row->why);
        weir_quiesce(weir, 4 * S);
        weir_retire(weir);
        struct weir_stats stats;
        weir_stats(weir, 4 * S, &stats);
        expect_row(stats.permits_free == 65536, row->why);
        if (row->is_there && row->override == 0)
            expect_row(left_of(id, "k", 4 * S) == row->at_most, row->why);
        weir_free(weir);
    }
}

/* Keys that overflow keep what they hold through one change after another, and the pool misses nothing in the end. */
static void overflowing_permits_outlive_changes(void **state)
{
    (void)state;
    weir_limit_id id, filler;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 9, .permits = 60 }), 0);
    struct weir_limit limit = { .name = "l", .algorithm = WEIR_CONCURRENCY, .at_most = 8, .hold = 100 * S };
    struct weir_limit bucket = { .name = "f", .rate = { 0, S }, .burst = 1 };
    assert_int_equal(weir_limit_add(weir, &limit, &id), 0);
    assert_int_equal(weir_limit_add(weir, &bucket, &filler), 0);
    for (uint64_t i = 0; i < 100; i++) {
        struct weir_decision decision;
        assert_int_equal(weir_check(weir, filler, &i, sizeof i, 1, 0, &decision), 0);
    }
    struct weir_permit held[8];
    struct weir_ask ask = ask_of(id, "k", 1);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(acquire(&ask, 1, 0, &held[i]).policy, WEIR_POLICY_OVERFLOW);
    static const uint64_t sizes[] = { 3, 9, 2, 12, 5 };
    struct weir_permit none;
    for (unsigned i = 0; i < COUNT_OF(sizes); i++) {
        struct weir_change *change;
        limit.at_most = sizes[i];
        assert_int_equal(weir_change_new(&change, weir), 0);
        assert_int_equal(weir_change_limit(change, &limit, &id), 0);
        assert_int_equal(weir_change_limit(change, &bucket, &filler), 0);
        assert_int_equal(weir_change_commit(change, (i + 1) * S, NULL, NULL), 0);
        uint64_t left = sizes[i] > 8 ? sizes[i] - 8 : 0;
        assert_int_equal(left_of(id, "k", (i + 1) * S), left);
        ask.cost = left + 1;
        assert_int_not_equal(acquire(&ask, 1, (i + 1) * S, &none).outcome, WEIR_ALLOW);
        for (unsigned k = 0; k < 8; k++)
            assert_int_equal(renew(&held[k], (i + 1) * S), (i + 101) * S);
        weir_quiesce(weir, (i + 1) * S);
        if (i % 2 == 0)
            weir_retire(weir);
    }
    for (unsigned i = 0; i < 8; i++)
        assert_true(release(&held[i], 6 * S));
    weir_retire(weir);
    struct weir_stats stats;
    weir_stats(weir, 6 * S, &stats);
    assert_int_equal(stats.permits_held, 0); /* five are kept for who shares, nobody holds them */
    assert_int_equal(stats.permits_free, 60 - 5);
    assert_int_equal(left_of(id, "k", 6 * S), 5);
    weir_free(weir);
}

/* Another limit's answer may be no decision; what was taken is the caller's to release all the same. */
static void what_was_taken_is_told_whatever_the_others_say(void **state)
{
    (void)state;
    weir_limit_id open, id;
    assert_int_equal(
        weir_new(&weir, &(struct weir_options){ .keys = 64, .permits = 10, .new_keys = { 1, WEIR_HOUR } }), 0);
    struct weir_limit bucket = { .name = "open", .rate = { 1, S }, .burst = 5, .when_full = WEIR_FULL_OPEN };
    assert_int_equal(weir_limit_add(weir, &bucket, &open), 0);
    id = add("l", 3, 10 * S);
    struct weir_ask asks[] = { ask_of(id, "k", 1), ask_of(open, "o", 1) };
    struct weir_permit first, second;
    assert_int_equal(acquire(asks, 1, 0, &first).outcome, WEIR_ALLOW); /* the one new key of the hour */
    assert_int_equal(acquire(asks, 2, 0, &second).outcome, WEIR_UNMETERED);
    assert_true(second.len > 0);
    assert_int_equal(left_of(id, "k", 0), 1);
    assert_true(release(&second, 0) && release(&first, 0));
    weir_free(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_permit_covers_every_concurrency_limit_and_no_rate),
        cmocka_unit_test(a_permit_of_which_a_part_is_lost_is_lost),
        cmocka_unit_test(who_cannot_release_only_looks),
        cmocka_unit_test(a_forged_permit_is_refused),
        cmocka_unit_test(the_longest_permit_fits),
        cmocka_unit_test(limits_say_what_does_not_fit),
        cmocka_unit_test(fences_do_not_come_round),
        cmocka_unit_test(permits_outlive_a_change_of_their_limit),
        cmocka_unit_test(overflowing_permits_outlive_changes),
        cmocka_unit_test(what_was_taken_is_told_whatever_the_others_say),
    };
    return cmocka_run_group_tests_name("admit/permit_calls", tests, NULL, NULL);
}
