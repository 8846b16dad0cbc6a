// SPDX-License-Identifier: Apache-2.0
/* Charging without asking, giving back in full, forgetting (P11, P13); refusals that are charged; keys that start empty. */
#include "store/kit.h"
#include "support/random.h"

static const struct weir_limit limits[] = {
    { .name = "bucket", .rate = { 1, S }, .burst = 10, .debt = 20 },
    { .name = "leaky", .algorithm = WEIR_LEAKY_BUCKET, .rate = { 1, S }, .burst = 10, .debt = 20 },
    { .name = "window", .algorithm = WEIR_FIXED_WINDOW, .rate = { 10, 10 * S } },
    { .name = "first",
      .algorithm = WEIR_FIXED_WINDOW,
      .align = WEIR_ALIGN_FIRST_REQUEST,
      .rate = { 10, 10 * S } },
    { .name = "sliding", .algorithm = WEIR_SLIDING_WINDOW, .rate = { 10, 10 * S } },
    { .name = "log", .algorithm = WEIR_SLIDING_LOG, .rate = { 10, 10 * S } },
};

static struct settled charge_key(struct kit *kit, const struct shape *shape, uint64_t hash, weir_ns now,
                                 uint64_t amount)
{
    struct settled settled;
    assert_true(store_charge(kit->store, shape, hash, now, amount, &settled));
    return settled;
}

static struct settled refund_key(struct kit *kit, const struct shape *shape, uint64_t hash, weir_ns charged_at,
                                 weir_ns now, uint64_t amount)
{
    struct settled settled;
    assert_true(store_refund(kit->store, shape, hash, charged_at, now, amount, &settled));
    return settled;
}

/* Of a capacity of ten, with `used` taken before: a bucket goes twenty into debt, the others as far as they count. */
static void a_charge_asks_nobody(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        uint64_t used, amount, in_bucket, elsewhere; /* what is charged */
        uint64_t left;
    } rows[] = {
        { "an absent key gets a cell", 0, 4, 4, 4, 6 },
        { "all of it", 0, 10, 10, 10, 0 },
        { "a known key", 3, 4, 4, 4, 3 },
        { "more than is left", 8, 5, 5, 2, 0 },
        { "more than the capacity", 0, 25, 25, 10, 0 },
        { "more than the debt", 8, 40, 22, 2, 0 },
        { "nothing", 3, 0, 0, 0, 7 },
        { "nothing on an absent key", 0, 0, 0, 0, 10 },
    };
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        for (size_t j = 0; j < COUNT_OF(rows); j++) {
            const struct row *row = &rows[j];
            char why[128];
            (void)snprintf(why, sizeof why, "%s: %s", limits[i].name, row->why);
            struct kit kit;
            kit_open(&kit, 9, 64);
            const struct shape *shape = kit_shape(&kit, limits[i]);
            uint64_t key = hash_at(&kit, 0, 1), charged = limits[i].debt > 0 ? row->in_bucket : row->elsewhere;
            if (row->used > 0)
                expect_row(take(&kit, shape, key, 10 * S, row->used).outcome == WEIR_ALLOW, why);
            struct settled settled = charge_key(&kit, shape, key, 10 * S, row->amount);
            expect_row(settled.done == charged && settled.dropped == row->amount - charged, why);
            expect_row(peek(&kit, shape, key, 10 * S, 1).report.remaining == row->left, why);
            expect_row(cells_of(&kit, 1) == (row->used + row->amount > 0), why);
            uint64_t level = row->used + charged;
            if (limits[i].debt > 0 && level >= 10) /* one token is there when all above nine are paid back */
                expect_row(peek(&kit, shape, key, 10 * S, 1).report.retry_at == 10 * S + (level - 9) * S, why);

            /* An old reading charges a key in use no less, and lowers nothing. */
            settled = charge_key(&kit, shape, key, 9 * S, 1);
            expect_row(settled.done + settled.dropped == 1, why);
            if (level > 0)
                expect_row(peek(&kit, shape, key, 10 * S, 1).report.remaining == row->left - (row->left > 0),
                           why);

            struct snapshot shot = kit_snapshot(&kit);
            settled = charge_key(&kit, shape, key, WEIR_HORIZON + 1, 3);
            expect_row(settled.done == 0 && settled.dropped == 3 && kit_is_unchanged(&kit, shot), why);
            kit_close(&kit);
        }
    }
}

/* A key that gets no cell: its overflow cell where it has one, else nobody is charged and that is told. */
static void a_charge_without_a_cell_goes_where_a_decision_would(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        enum weir_when_full when_full;
        uint64_t done;
    } rows[] = { { "overflow", WEIR_FULL_OVERFLOW, 7 },
                 { "closed", WEIR_FULL_CLOSED, 0 },
                 { "open", WEIR_FULL_OPEN, 0 } };
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        for (size_t j = 0; j < COUNT_OF(rows); j++) {
            struct kit kit;
            kit_open(&kit, 9, 64);
            const struct shape *lasting =
                kit_shape(&kit, (struct weir_limit){ .rate = { 1, WEIR_DAY }, .burst = 1 });
            struct weir_limit limit = limits[i];
            limit.when_full = rows[j].when_full;
            const struct shape *shape = kit_shape(&kit, limit);
            for (uint64_t tag = 1; tag <= 16; tag++)
                (void)take(&kit, lasting, hash_at(&kit, 0, tag), 10 * S, 1);
            struct settled settled = charge_key(&kit, shape, hash_at(&kit, 0, 99), 10 * S, 7);
            expect_row(settled.done == rows[j].done && settled.dropped == 7 - rows[j].done, rows[j].why);
            struct store_answer other = peek(&kit, shape, hash_at(&kit, 0, 98), 10 * S, 1);
            if (rows[j].when_full == WEIR_FULL_OVERFLOW)
                expect_row(other.report.remaining == 3, rows[j].why);
            expect_row(kit_stats(&kit, 10 * S).cells_live == 16, rows[j].why);
            kit_close(&kit);
        }
    }
}

static void a_refund_restores_in_full(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        weir_ns now;
        uint64_t amount, done, left; /* ten were taken at 10 s, at one per second or ten per ten */
    } rows[] = {
        { "at once", 10 * S, 4, 4, 4 },
        { "all", 10 * S, 10, 10, 10 },
        { "more than was taken", 10 * S, 15, 10, 10 },
        { "nothing", 10 * S, 0, 0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        for (size_t j = 0; j < COUNT_OF(rows); j++) {
            char why[128];
            (void)snprintf(why, sizeof why, "%s: %s", limits[i].name, rows[j].why);
            struct kit kit;
            kit_open(&kit, 9, 64);
            const struct shape *shape = kit_shape(&kit, limits[i]);
            uint64_t key = hash_at(&kit, 0, 1);
            struct store_answer taken = take(&kit, shape, key, 10 * S, 10);
            struct settled settled = refund_key(&kit, shape, key, taken.at, rows[j].now, rows[j].amount);
            expect_row(settled.done == rows[j].done && settled.dropped == 0, why);
            expect_row(peek(&kit, shape, key, rows[j].now, 1).report.remaining == rows[j].left, why);

            struct snapshot before = kit_snapshot(&kit);
            settled = refund_key(&kit, shape, hash_at(&kit, 0, 2), 10 * S, 10 * S, 5); /* whole: no cell */
            expect_row(settled.done == 0 && kit_is_unchanged(&kit, before), why);
            before = kit_snapshot(&kit);
            settled = refund_key(&kit, shape, key, 10 * S, WEIR_HORIZON + 1, 5);
            expect_row(settled.done == 0 && kit_is_unchanged(&kit, before), why);
            kit_close(&kit);
        }
    }
}

/* The newest stamps not later than the charge go, and only those that still count. */
static void a_log_gives_back_its_newest_stamps(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        weir_ns charged_at, now;
        uint64_t amount, done;
        weir_ns full_again; /* three at 10 s, three at 12 s, three at 14 s: when the last one left leaves */
        uint64_t left;
    } rows[] = {
        { "the last three", 14 * S, 14 * S, 3, 3, 22 * S, 4 },
        { "later ones are somebody else's", 12 * S, 14 * S, 3, 3, 24 * S, 4 },
        { "before the charge there were others", 12 * S, 14 * S, 5, 5, 24 * S, 6 },
        { "all that there were", 14 * S, 14 * S, 100, 9, 14 * S, 10 },
        { "what has left its period is back already", 10 * S, 20 * S, 3, 0, 24 * S, 4 },
        { "of four charged one still counts", 12 * S, 20 * S, 4, 3, 24 * S, 7 },
        { "a charge that nobody made", 9 * S, 14 * S, 3, 0, 24 * S, 1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 64);
        const struct shape *shape = kit_shape(&kit, limits[5]);
        uint64_t key = hash_at(&kit, 0, 1);
        for (weir_ns at = 10 * S; at <= 14 * S; at += 2 * S)
            expect_row(take(&kit, shape, key, at, 3).outcome == WEIR_ALLOW, rows[i].why);
        struct settled settled = refund_key(&kit, shape, key, rows[i].charged_at, rows[i].now, rows[i].amount);
        struct store_answer seen = peek(&kit, shape, key, rows[i].now, 1);
        expect_row(settled.done == rows[i].done, rows[i].why);
        expect_row(seen.report.remaining == rows[i].left, rows[i].why);
        expect_row(seen.report.reset_at == rows[i].full_again, rows[i].why);
        kit_close(&kit);
    }
}

/* P11: a bucket's admissions in any interval are within its bound and what was refunded in it. */
static void refunds_add_no_more_than_themselves(void **state)
{
    (void)state;
    struct random random = { random_seed(11) };
    for (unsigned run = 0; run < 300; run++) {
        struct kit kit;
        kit_open(&kit, 9, 0);
        const struct shape *shape = kit_shape(&kit, limits[0]);
        uint64_t key = hash_at(&kit, 0, 1), sums[200], refunds[200];
        weir_ns stamps[200], now = 0;
        struct store_answer held = { 0 };
        uint64_t held_cost = 0;
        for (unsigned n = 0; n < 200; n++) {
            now += random_below(&random, 3) == 0 ? random_below(&random, 4 * S) : 0;
            uint64_t cost = 1 + random_below(&random, 10);
            stamps[n] = now;
            sums[n] = refunds[n] = 0;
            if (held_cost > 0 && random_below(&random, 3) == 0) {
                (void)refund_key(&kit, shape, key, held.at, now, held_cost);
                refunds[n] = held_cost; /* what is told is whole tokens, what came back may be a part more */
                held_cost = 0;
                continue;
            }
            struct store_answer answer = take(&kit, shape, key, now, cost);
            if (answer.outcome != WEIR_ALLOW)
                continue;
            sums[n] = cost;
            held = answer;
            held_cost = cost;
        }
        for (unsigned i = 0; i < 200; i++) {
            uint64_t admitted = 0, refunded = 0;
            for (unsigned j = i; j < 200; j++) {
                admitted += sums[j];
                refunded += refunds[j];
                assert_true(admitted * S <= (10 + refunded) * S + (stamps[j] - stamps[i]));
            }
        }
        kit_close(&kit);
    }
}

static void a_reset_forgets_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct kit kit;
        kit_open(&kit, 9, 64);
        const struct shape *shape = kit_shape(&kit, limits[i]);
        uint64_t rings = kit_stats(&kit, 0).log_stamps_free;
        uint64_t key = hash_at(&kit, 0, 1);
        (void)take(&kit, shape, hash_at(&kit, 0, 2), 10 * S, 10);
        (void)take(&kit, shape, key, 10 * S, 10);
        assert_true(store_reset(kit.store, shape, key));
        assert_int_equal(cells_of(&kit, 1), 0);
        assert_int_equal(take(&kit, shape, key, 10 * S, 10).outcome, WEIR_ALLOW);
        assert_int_equal(take(&kit, shape, key, 10 * S, 1).outcome, WEIR_DENY);
        assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 2), 10 * S, 1).outcome, WEIR_DENY);
        assert_true(store_reset(kit.store, shape, key));
        assert_true(store_reset(kit.store, shape, key)); /* nothing to forget */
        assert_true(store_reset(kit.store, shape, hash_at(&kit, 0, 2)));
        assert_int_equal(kit_stats(&kit, 0).log_stamps_free, rings);
        kit_close(&kit);
    }
}

/* ---- Refusals that are charged ---------------------------------------------------------------------------------- */

/* Ten per ten seconds, all taken at 10 s; then one refusal after the other, up to ten more. */
static void refusals_are_charged_up_to_one_capacity_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        const char *why = limits[i].name;
        struct kit kit;
        kit_open(&kit, 9, 64);
        struct weir_limit limit = limits[i];
        limit.refused = WEIR_REFUSAL_CHARGED;
        limit.debt = 0;
        const struct shape *shape = kit_shape(&kit, limit);
        uint64_t key = hash_at(&kit, 0, 1);
        expect_row(take(&kit, shape, key, 10 * S, 10).outcome == WEIR_ALLOW, why);
        weir_ns retry_at = peek(&kit, shape, key, 10 * S, 1).report.retry_at;
        struct snapshot before = kit_snapshot(&kit);
        expect_row(peek(&kit, shape, key, 10 * S, 3).outcome == WEIR_DENY, why);
        expect_row(take(&kit, shape, key, 10 * S, 0).outcome == WEIR_ALLOW, why);
        expect_row(take(&kit, shape, key, 10 * S, 11).outcome == WEIR_NEVER, why);
        expect_row(kit_is_unchanged(&kit, before), why);

        for (unsigned n = 0; n < 10; n++) {
            before = kit_snapshot(&kit);
            expect_row(take(&kit, shape, key, 10 * S, 1).outcome == WEIR_DENY, why);
            expect_row(!kit_is_unchanged(&kit, before), why);
        }
        before = kit_snapshot(&kit);
        expect_row(take(&kit, shape, key, 10 * S, 1).outcome == WEIR_DENY, why);
        expect_row(take(&kit, shape, key, 10 * S, 7).outcome == WEIR_DENY, why);
        expect_row(kit_is_unchanged(&kit, before), why);
        if (limit.algorithm <= WEIR_LEAKY_BUCKET) /* ten below nothing: eleven seconds for one */
            expect_row(peek(&kit, shape, key, 10 * S, 1).report.retry_at == 21 * S, why);
        else
            expect_row(peek(&kit, shape, key, 10 * S, 1).report.retry_at >= retry_at, why);
        /* All forgiven in time. */
        expect_row(take(&kit, shape, key, 40 * S, 10).outcome == WEIR_ALLOW, why);
        kit_close(&kit);
    }
}

/* The same client, slow enough, gets through; hammering, it does not. */
static void who_hammers_a_log_stays_out(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        weir_ns every;
        bool gets_through; /* a second time, within two periods */
    } rows[] = { { "ten a second", 100 * MS, false }, { "one every eleven seconds", 11 * S, true } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 64);
        struct weir_limit limit = { .algorithm = WEIR_SLIDING_LOG,
                                    .rate = { 3, 10 * S },
                                    .refused = WEIR_REFUSAL_CHARGED };
        const struct shape *shape = kit_shape(&kit, limit);
        uint64_t key = hash_at(&kit, 0, 1);
        unsigned got = 0;
        expect_row(take(&kit, shape, key, 0, 3).outcome == WEIR_ALLOW, rows[i].why);
        /* Six stamps in all are kept, of which three may be live: a refusal every 100 ms keeps six of them so. */
        for (weir_ns now = rows[i].every; now < 12 * S; now += rows[i].every)
            got += take(&kit, shape, key, now, 1).outcome == WEIR_ALLOW;
        expect_row((got > 0) == rows[i].gets_through || got <= 3, rows[i].why);
        kit_close(&kit);
    }
}

/* A ring for twice the count, and an absent key's refusal makes no cell. */
static void a_log_that_charges_has_room_for_twice_its_count(void **state)
{
    (void)state;
    static const struct row {
        uint64_t count, stamps;
    } rows[] = { { 4, 8 }, { 5, 16 }, { 8, 16 }, { 9, 32 }, { 40000, 65536 }, { 65536, 65536 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 131072);
        const struct shape *shape = kit_shape(&kit, (struct weir_limit){ .algorithm = WEIR_SLIDING_LOG,
                                                                         .rate = { rows[i].count, S },
                                                                         .when_full = WEIR_FULL_CLOSED,
                                                                         .refused = WEIR_REFUSAL_CHARGED });
        uint64_t key = hash_at(&kit, 0, 1);
        assert_int_equal(take(&kit, shape, key, 0, rows[i].count).outcome, WEIR_ALLOW);
        assert_int_equal(131072 - kit_stats(&kit, 0).log_stamps_free, rows[i].stamps);
        for (unsigned n = 0; n < 3; n++)
            assert_int_equal(take(&kit, shape, key, 1, rows[i].count).outcome, WEIR_DENY);
        /* At 1 s the first leave; the charged ones are there for a nanosecond more. */
        bool all_charged = 2 * rows[i].count <= WEIR_LOG_MAX;
        uint64_t left = all_charged ? 0 : rows[i].count - (WEIR_LOG_MAX - rows[i].count);
        assert_int_equal(peek(&kit, shape, key, S, 1).report.remaining, left);
        assert_int_equal(peek(&kit, shape, key, S + 1, 1).report.remaining, rows[i].count);
        kit_close(&kit);
    }
}

/* ---- Keys that start empty ---------------------------------------------------------------------------------------- */

/* State was lost at 100 s, of ten per ten seconds: an absent key has what came since. */
static void an_absent_key_starts_empty(void **state)
{
    (void)state;
    static const struct row {
        weir_ns at;
        uint64_t bucket, fixed, log; /* left */
    } rows[] = { { 100 * S, 0, 0, 0 },     { 101 * S, 1, 0, 0 },    { 105 * S, 5, 0, 0 },
                 { 110 * S - 1, 9, 0, 0 }, { 110 * S, 10, 10, 10 }, { 500 * S, 10, 10, 10 } };
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        for (size_t j = 0; j < 2 * COUNT_OF(rows); j++) {
            const struct row *row = &rows[j / 2];
            bool is_overflowing = j % 2 != 0;
            struct weir_limit limit = limits[i];
            if (limit.algorithm == WEIR_SLIDING_WINDOW)
                continue; /* below */
            struct kit kit;
            kit_open(&kit, 9, 64);
            limit.state_lost = WEIR_LOST_EMPTY;
            const struct shape *shape =
                kit_shape_at(&kit, limit, (struct kit_place){ .lineage = 3, .lost_at = 100 * S });
            const struct shape *lasting =
                kit_shape(&kit, (struct weir_limit){ .rate = { 1, WEIR_DAY }, .burst = 1 });
            for (uint64_t tag = 1; is_overflowing && tag <= 16; tag++)
                (void)take(&kit, lasting, hash_at(&kit, 0, 100 + tag), 10 * S, 1);
            uint64_t left = limit.burst > 0                       ? row->bucket
                            : limit.algorithm == WEIR_SLIDING_LOG ? row->log
                            : row->at < 110 * S                   ? row->fixed
                                                                  : 10;
            uint64_t key = hash_at(&kit, 0, 1);
            struct snapshot before = kit_snapshot(&kit);
            struct store_answer seen = peek(&kit, shape, key, row->at, 1);
            expect_row(seen.report.remaining == left, limit.name);
            expect_row((seen.outcome == WEIR_ALLOW) == (left > 0), limit.name);
            if (left == 0)
                expect_row(seen.report.retry_at == (limit.burst > 0 ? 101 * S : 110 * S), limit.name);
            if (left < 10 && !is_overflowing)
                expect_row(take(&kit, shape, key, row->at, left + 1).outcome == WEIR_DENY, limit.name);
            expect_row(kit_is_unchanged(&kit, before), limit.name); /* no cell for a refusal */
            expect_row(take(&kit, shape, key, row->at, 11).outcome == WEIR_NEVER, limit.name);
            if (left > 0)
                expect_row(take(&kit, shape, key, row->at, left).outcome == WEIR_ALLOW, limit.name);
            expect_row(take(&kit, shape, key, row->at, 1).outcome == WEIR_DENY, limit.name);
            kit_close(&kit);
        }
    }
}

/* One window counts as spent, and the one after it fades: of ten, at 20 s and 25 s, none and five. */
static void a_sliding_window_starts_empty_and_fades(void **state)
{
    (void)state;
    static const struct row {
        weir_ns at;
        uint64_t left;
    } rows[] = { { 100 * S, 0 }, { 110 * S, 0 }, { 115 * S, 5 }, { 119 * S, 9 }, { 120 * S, 10 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 0);
        struct weir_limit limit = limits[4];
        limit.state_lost = WEIR_LOST_EMPTY;
        const struct shape *shape =
            kit_shape_at(&kit, limit, (struct kit_place){ .lineage = 3, .lost_at = 100 * S });
        assert_int_equal(peek(&kit, shape, hash_at(&kit, 0, 1), rows[i].at, 1).report.remaining, rows[i].left);
        if (rows[i].left > 0)
            assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 1), rows[i].at, rows[i].left).outcome,
                             WEIR_ALLOW);
        assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 1), rows[i].at, 1).outcome, WEIR_DENY);
        kit_close(&kit);
    }
}

/* A settlement cannot buy a key a cell, and with it what it may have lost. */
static void a_charge_does_not_end_an_empty_start(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct kit kit;
        kit_open(&kit, 9, 64);
        struct weir_limit limit = limits[i];
        limit.state_lost = WEIR_LOST_EMPTY;
        limit.debt = 0;
        const struct shape *shape =
            kit_shape_at(&kit, limit, (struct kit_place){ .lineage = 3, .lost_at = 100 * S });
        (void)charge_key(&kit, shape, hash_at(&kit, 0, 1), 100 * S, 3);
        expect_row(take(&kit, shape, hash_at(&kit, 0, 1), 100 * S, 1).outcome == WEIR_DENY, limit.name);
        kit_close(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_charge_asks_nobody),
        cmocka_unit_test(a_charge_without_a_cell_goes_where_a_decision_would),
        cmocka_unit_test(a_refund_restores_in_full),
        cmocka_unit_test(a_log_gives_back_its_newest_stamps),
        cmocka_unit_test(refunds_add_no_more_than_themselves),
        cmocka_unit_test(a_reset_forgets_at_once),
        cmocka_unit_test(refusals_are_charged_up_to_one_capacity_more),
        cmocka_unit_test(who_hammers_a_log_stays_out),
        cmocka_unit_test(a_log_that_charges_has_room_for_twice_its_count),
        cmocka_unit_test(an_absent_key_starts_empty),
        cmocka_unit_test(a_sliding_window_starts_empty_and_fades),
        cmocka_unit_test(a_charge_does_not_end_an_empty_start),
    };
    return cmocka_run_group_tests_name("store/settle", tests, NULL, NULL);
}
