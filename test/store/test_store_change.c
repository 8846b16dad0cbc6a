// SPDX-License-Identifier: Apache-2.0
/*
 * A limit changes under its keys: what was used stays used, once and for all threads (P14).
 *
 * Shapes of one lineage and rising generations are the same limit in sets that follow each other.
 */
#include "store/kit.h"
#include "support/random.h"

static struct weir_limit bucket(uint64_t count, weir_ns period, uint64_t burst)
{
    return (struct weir_limit){ .rate = { count, period }, .burst = burst, .when_full = WEIR_FULL_CLOSED };
}

static const struct shape *generation(struct kit *kit, struct weir_limit limit, uint32_t number, weir_ns since)
{
    return kit_shape_at(kit, limit, (struct kit_place){ .lineage = 7, .generation = number, .since = since });
}

/* Put `next` in the place of `old` as a commit does. */
static void supersede(struct kit *kit, const struct shape *old, const struct shape *next)
{
    store_succeed_overflow(kit->store, old, next);
    store_shape_over(kit->store, old, next->since);
}

/* The end of a change: the table holds no cell of `old`. */
static void finish(struct kit *kit, const struct shape *old, const struct shape *next)
{
    static const struct shape *successor[WEIR_LIMITS_MAX + 1];
    static bool is_gone[WEIR_LIMITS_MAX + 1];
    successor[old->number] = next;
    is_gone[old->number] = next == NULL;
    store_succeed(kit->store, successor, is_gone, 0);
    successor[old->number] = NULL;
    is_gone[old->number] = false;
}

/* 5/s and 20 at once become 10/s at 1 s, with all used at 0: 15 are still used then. */
static void the_worked_example(void **state)
{
    (void)state;
    static const struct row {
        weir_ns at;
        uint64_t left;
    } rows[] = { { 1 * S, 5 }, { 1500 * MS, 10 }, { 2 * S, 15 }, { 2500 * MS, 20 }, { 10 * S, 20 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 0);
        const struct shape *old = generation(&kit, bucket(5, S, 20), 1, 0);
        const struct shape *next = generation(&kit, bucket(10, S, 20), 2, 1 * S);
        uint64_t key = hash_at(&kit, 0, 1);
        assert_int_equal(take(&kit, old, key, 0, 20).outcome, WEIR_ALLOW);
        assert_int_equal(peek(&kit, next, key, rows[i].at, 1).report.remaining, rows[i].left);
        assert_int_equal(take(&kit, next, key, rows[i].at, rows[i].left).outcome, WEIR_ALLOW);
        assert_int_equal(take(&kit, next, key, rows[i].at, 1).outcome, WEIR_DENY);
        assert_int_equal(cells_of(&kit, 1), 1);
        kit_close(&kit);
    }
}

/* Every algorithm: seven used of the old size, then as many as the new size has left. */
static void what_was_used_stays_used(void **state)
{
    (void)state;
    static const struct weir_limit kinds[] = {
        { .name = "bucket", .rate = { 1, WEIR_HOUR }, .burst = 10 },
        { .name = "leaky", .algorithm = WEIR_LEAKY_BUCKET, .rate = { 1, WEIR_HOUR }, .burst = 10 },
        { .name = "window", .algorithm = WEIR_FIXED_WINDOW, .rate = { 10, WEIR_HOUR } },
        { .name = "first",
          .algorithm = WEIR_FIXED_WINDOW,
          .align = WEIR_ALIGN_FIRST_REQUEST,
          .rate = { 10, WEIR_HOUR } },
        { .name = "calendar", .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_CALENDAR, .rate = { 10, 0 } },
        { .name = "sliding", .algorithm = WEIR_SLIDING_WINDOW, .rate = { 10, WEIR_HOUR } },
        { .name = "log", .algorithm = WEIR_SLIDING_LOG, .rate = { 10, WEIR_HOUR } },
    };
    static const struct row {
        const char *why;
        uint64_t size, left;
    } rows[] = {
        { "the same size", 10, 3 },
        { "five more", 15, 8 },
        { "many more: a ring of another size", 100, 93 },
        { "fewer, and some left", 8, 1 },
        { "fewer than were used", 5, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        for (size_t j = 0; j < 2 * COUNT_OF(rows); j++) {
            const struct row *row = &rows[j / 2];
            bool sweeps = j % 2 != 0; /* converted by the walk, or by the taking */
            char why[128];
            (void)snprintf(why, sizeof why, "%s, %s%s", kinds[i].name, row->why, sweeps ? ", swept" : "");
            struct kit kit;
            kit_open(&kit, 9, 4096);
            struct weir_limit limit = kinds[i];
            const struct shape *old = generation(&kit, limit, 1, 0);
            bool is_bucketed = limit.burst > 0;
            *(is_bucketed ? &limit.burst : &limit.rate.count) = row->size;
            const struct shape *next = generation(&kit, limit, 2, 11 * S);
            uint64_t key = hash_at(&kit, 0, 1);
            expect_row(take(&kit, old, key, 10 * S, 7).outcome == WEIR_ALLOW, why);
            supersede(&kit, old, next);
            if (sweeps)
                finish(&kit, old, next);
            expect_row(peek(&kit, next, key, 11 * S, 1).report.remaining == row->left, why);
            if (row->left > 0)
                expect_row(take(&kit, next, key, 11 * S, row->left).outcome == WEIR_ALLOW, why);
            expect_row(take(&kit, next, key, 11 * S, 1).outcome == WEIR_DENY, why);
            struct store_answer answer;
            expect_row(row->left == 0 && !sweeps ? true : !store_take(kit.store, old, key, 11 * S, 1, &answer),
                       why);
            finish(&kit, old, next);
            store_shape_remove(kit.store, old);
            expect_row(take(&kit, next, key, 11 * S, 1).outcome == WEIR_DENY, why);
            expect_row(take(&kit, next, key, 15 * WEIR_DAY, row->size).outcome == WEIR_ALLOW, why);
            kit_close(&kit);
        }
    }
}

/* Looks and refusals convert nothing: another set's thread may still charge the old shape. */
static void only_a_charge_converts(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_TOKEN_BUCKET, WEIR_SLIDING_WINDOW,
                                                      WEIR_SLIDING_LOG };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct kit kit;
        kit_open(&kit, 9, 256);
        struct weir_limit limit = { .algorithm = algorithms[i], .rate = { 10, WEIR_HOUR } };
        limit.burst = algorithms[i] == WEIR_TOKEN_BUCKET ? 10 : 0;
        const struct shape *old = generation(&kit, limit, 1, 0);
        *(limit.burst > 0 ? &limit.burst : &limit.rate.count) = 12;
        const struct shape *next = generation(&kit, limit, 2, 5 * S);
        uint64_t key = hash_at(&kit, 0, 1);
        assert_int_equal(take(&kit, old, key, 4 * S, 10).outcome, WEIR_ALLOW);

        struct snapshot before = kit_snapshot(&kit);
        assert_int_equal(peek(&kit, next, key, 5 * S, 2).outcome, WEIR_ALLOW);
        assert_int_equal(take(&kit, next, key, 5 * S, 3).outcome, WEIR_DENY);
        assert_int_equal(take(&kit, next, key, 5 * S, 0).outcome, WEIR_ALLOW);
        assert_int_equal(take(&kit, next, key, 5 * S, 13).outcome, WEIR_NEVER);
        assert_true(kit_is_unchanged(&kit, before));

        assert_int_equal(take(&kit, next, key, 5 * S, 1).outcome, WEIR_ALLOW);
        before = kit_snapshot(&kit);
        struct store_answer answer;
        struct settled settled;
        assert_false(store_take(kit.store, old, key, 5 * S, 1, &answer));
        assert_false(store_peek(kit.store, old, key, 5 * S, 1, &answer));
        assert_false(store_take(kit.store, old, key, 5 * S, 0, &answer));
        assert_false(store_charge(kit.store, old, key, 5 * S, 1, &settled));
        assert_false(store_refund(kit.store, old, key, 5 * S, 5 * S, 1, &settled));
        assert_false(store_reset(kit.store, old, key));
        store_convert(kit.store, old, key, 5 * S);
        assert_true(kit_is_unchanged(&kit, before));
        kit_close(&kit);
    }
}

/* An insertion that the new set began tells the old one too; one of the old set is promoted by the new. */
static void an_insertion_names_its_generation(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 0);
    const struct shape *old = generation(&kit, bucket(1, S, 5), 1, 0);
    const struct shape *next = generation(&kit, bucket(1, S, 5), 2, 0);
    struct cell *cell = &kit.store->groups[0].cells[3];
    struct store_answer answer;
    *cell = (struct cell){ (uint64_t)next->number << CELL_TAG_BITS | 1, CELL_TENT | 9 };
    assert_false(store_take(kit.store, old, hash_at(&kit, 0, 1), 0, 1, &answer));
    assert_true(cell_is_tent(*cell));

    *cell = (struct cell){ (uint64_t)old->number << CELL_TAG_BITS | 2, CELL_TENT | 9 };
    assert_int_equal(take(&kit, next, hash_at(&kit, 0, 2), 0, 1).outcome, WEIR_ALLOW);
    assert_int_equal(cell_shape_number(*cell), next->number);
    assert_int_equal(cells_of(&kit, 2), 1);
    kit_close(&kit);
}

static void a_shape_decides_no_earlier_than_it_came_into_force(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        weir_ns now, at;
    } rows[] = { { "an old reading", 3 * S, 10 * S },
                 { "at once", 10 * S, 10 * S },
                 { "later", 12 * S, 12 * S } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (unsigned known = 0; known < 2; known++) {
            struct kit kit;
            kit_open(&kit, 9, 64);
            const struct shape *one = generation(&kit, bucket(1, S, 5), 2, 10 * S);
            const struct shape *log =
                kit_shape_at(&kit, (struct weir_limit){ .algorithm = WEIR_SLIDING_LOG, .rate = { 5, S } },
                             (struct kit_place){ .lineage = 8, .generation = 2, .since = 10 * S });
            if (known) {
                (void)take(&kit, one, hash_at(&kit, 0, 1), 10 * S, 1);
                (void)take(&kit, log, hash_at(&kit, 0, 2), 10 * S, 1);
            }
            expect_row(peek(&kit, one, hash_at(&kit, 0, 1), rows[i].now, 1).at == rows[i].at, rows[i].why);
            expect_row(take(&kit, one, hash_at(&kit, 0, 1), rows[i].now, 1).at == rows[i].at, rows[i].why);
            expect_row(peek(&kit, log, hash_at(&kit, 0, 2), rows[i].now, 1).at == rows[i].at, rows[i].why);
            expect_row(take(&kit, log, hash_at(&kit, 0, 2), rows[i].now, 1).at == rows[i].at, rows[i].why);
            kit_close(&kit);
        }
    }
}

/* The same tag under a limit that is not the same one: its word means nothing here, now as before. */
static void another_lineage_is_a_stranger(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 0);
    const struct shape *one = generation(&kit, bucket(1, S, 5), 1, 0);
    const struct shape *same_set = generation(&kit, bucket(1, S, 5), 1, 0);
    const struct shape *other =
        kit_shape_at(&kit, bucket(1, S, 5), (struct kit_place){ .lineage = 9, .generation = 2 });
    assert_int_equal(take(&kit, one, hash_at(&kit, 0, 1), 0, 5).outcome, WEIR_ALLOW);
    struct snapshot before = kit_snapshot(&kit);
    assert_int_equal(peek(&kit, other, hash_at(&kit, 0, 1), 0, 1).reason, WEIR_REASON_FULL);
    assert_int_equal(peek(&kit, same_set, hash_at(&kit, 0, 1), 0, 1).reason, WEIR_REASON_FULL);
    assert_true(store_reset(kit.store, other, hash_at(&kit, 0, 1)));
    store_convert(kit.store, other, hash_at(&kit, 0, 1), 0);
    assert_true(kit_is_unchanged(&kit, before));
    assert_int_equal(take(&kit, other, hash_at(&kit, 0, 1), 6 * S, 1).outcome, WEIR_ALLOW); /* it has died */
    kit_close(&kit);
}

/* ---- The end of a change ---------------------------------------------------------------------------------------- */

static void the_walk_leaves_no_cell_of_an_old_number(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 600, 2048); /* 128 groups */
    struct weir_limit log = { .algorithm = WEIR_SLIDING_LOG, .rate = { 8, WEIR_HOUR } };
    const struct shape *old[4] = {
        generation(&kit, bucket(1, WEIR_HOUR, 5), 1, 0),
        kit_shape_at(&kit, log, (struct kit_place){ .lineage = 8, .generation = 1 }),
        kit_shape_at(&kit, bucket(1, WEIR_HOUR, 5), (struct kit_place){ .lineage = 9, .generation = 1 }),
        kit_shape_at(&kit, log, (struct kit_place){ .lineage = 10, .generation = 1 }),
    };
    const struct shape *stays = kit_shape(&kit, bucket(1, WEIR_HOUR, 5));
    log.rate.count = 16;
    const struct shape *next[2] = {
        generation(&kit, bucket(1, WEIR_HOUR, 9), 2, S),
        kit_shape_at(&kit, log, (struct kit_place){ .lineage = 8, .generation = 2, .since = S }),
    };
    uint64_t rings = kit_stats(&kit, 0).log_stamps_free;
    for (uint64_t i = 0; i < 40; i++) {
        for (unsigned j = 0; j < 4; j++)
            assert_int_equal(take(&kit, old[j], hash_at(&kit, (7 * i + j) % 128, 4 * i + j + 1), 0, 4).outcome,
                             WEIR_ALLOW);
        assert_int_equal(take(&kit, stays, hash_at(&kit, i, 1000 + i), 0, 5).outcome, WEIR_ALLOW);
    }
    uint32_t nonce;
    assert_int_equal(store_recall_begin(kit.store, hash_at(&kit, 3, 5000), 0, WEIR_HOUR, &nonce), STORE_NEW);
    kit.store->groups[9].cells[7] =
        (struct cell){ (uint64_t)old[0]->number << CELL_TAG_BITS | 6000, CELL_TENT };
    kit.store->groups[9].cells[6] =
        (struct cell){ (uint64_t)old[2]->number << CELL_TAG_BITS | 6001, CELL_TENT };

    const struct shape *successor[WEIR_LIMITS_MAX + 1] = { NULL };
    bool is_gone[WEIR_LIMITS_MAX + 1] = { false };
    for (unsigned j = 0; j < 4; j++) {
        successor[old[j]->number] = j < 2 ? next[j] : NULL;
        is_gone[old[j]->number] = j >= 2;
    }
    store_succeed(kit.store, successor, is_gone, S);
    for (size_t i = 0; i < 128; i++)
        for (unsigned j = 0; j < GROUP_CELLS; j++) {
            uint16_t number = cell_shape_number(kit.store->groups[i].cells[j]);
            assert_true(number == 0 || number == MEMORY_NUMBER
                        || (successor[number] == NULL && !is_gone[number]));
        }
    assert_int_equal(kit_stats(&kit, S).cells_live, 40 * 3 + 1);
    /* Forty logs of sixteen; those of the limit that is gone gave theirs back. */
    assert_int_equal(rings - kit_stats(&kit, S).log_stamps_free, 40 * 16);
    for (unsigned j = 0; j < 4; j++)
        store_shape_remove(kit.store, old[j]);
    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(peek(&kit, next[0], hash_at(&kit, (7 * i) % 128, 4 * i + 1), S, 1).report.remaining,
                         5);
        assert_int_equal(
            peek(&kit, next[1], hash_at(&kit, (7 * i + 1) % 128, 4 * i + 2), S, 1).report.remaining, 12);
        assert_int_equal(peek(&kit, stays, hash_at(&kit, i, 1000 + i), 0, 1).report.remaining, 0);
    }
    assert_int_equal(store_recall_begin(kit.store, hash_at(&kit, 3, 5000), 0, WEIR_HOUR, &nonce),
                     STORE_PENDING);

    /* The number may be used again. */
    struct shape *again = &kit.shapes[kit.shape_count++];
    struct weir_limit limit = bucket(1, S, 3);
    limit.name = "again";
    assert_int_equal(shape_init(again, &limit, 0, &kit.allocator), 0);
    again->number = old[0]->number;
    again->lineage = 77;
    assert_int_equal(store_shape_add(kit.store, again), 0);
    assert_int_equal(take(&kit, again, hash_at(&kit, 5, 9999), 2 * S, 3).outcome, WEIR_ALLOW);
    kit_close(&kit);
}

/* One key by its hash: an override that was added, and one that fell away. */
static void one_key_is_converted_by_its_hash(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 64);
    const struct shape *base = generation(&kit, bucket(1, WEIR_HOUR, 10), 1, 0);
    const struct shape *large = generation(&kit, bucket(1, WEIR_HOUR, 100), 1, 0);
    const struct shape *next_base = generation(&kit, bucket(1, WEIR_HOUR, 10), 2, S);
    const struct shape *next_large = generation(&kit, bucket(1, WEIR_HOUR, 100), 2, S);
    (void)take(&kit, base, hash_at(&kit, 0, 1), 0, 9);
    (void)take(&kit, large, hash_at(&kit, 0, 2), 0, 50);
    store_convert(kit.store, next_large, hash_at(&kit, 0, 1), S);
    store_convert(kit.store, next_base, hash_at(&kit, 0, 2), S);
    store_convert(kit.store, next_base, hash_at(&kit, 0, 3), S); /* nobody */
    assert_int_equal(cells_of(&kit, 3), 0);
    assert_int_equal(take(&kit, next_large, hash_at(&kit, 0, 1), S, 91).outcome, WEIR_ALLOW);
    assert_int_equal(take(&kit, next_large, hash_at(&kit, 0, 1), S, 1).outcome, WEIR_DENY);
    /* Forty below nothing: the first token is there after 41 hours. */
    assert_int_equal(take(&kit, next_base, hash_at(&kit, 0, 2), S, 1).outcome, WEIR_DENY);
    assert_int_equal(peek(&kit, next_base, hash_at(&kit, 0, 2), S, 1).report.retry_at, 41 * WEIR_HOUR);
    kit_close(&kit);
}

static void overflowing_keys_keep_what_they_used(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW, WEIR_SLIDING_WINDOW,
                                                      WEIR_SLIDING_LOG };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct kit kit;
        kit_open(&kit, 9, 64);
        const struct shape *lasting = kit_shape(&kit, bucket(1, WEIR_DAY, 1));
        for (uint64_t tag = 1; tag <= 16; tag++)
            (void)take(&kit, lasting, hash_at(&kit, 0, 100 + tag), 0, 1);
        struct weir_limit limit = { .algorithm = algorithms[i], .rate = { 10, WEIR_HOUR } };
        limit.burst = algorithms[i] == WEIR_TOKEN_BUCKET ? 10 : 0;
        const struct shape *old = generation(&kit, limit, 1, 0);
        *(limit.burst > 0 ? &limit.burst : &limit.rate.count) = 12;
        const struct shape *next = generation(&kit, limit, 2, S);
        assert_int_equal(take(&kit, old, hash_at(&kit, 0, 1), 0, 10).policy, WEIR_POLICY_OVERFLOW);
        supersede(&kit, old, next);
        assert_int_equal(take(&kit, next, hash_at(&kit, 0, 2), S, 2).outcome, WEIR_ALLOW);
        assert_int_equal(take(&kit, next, hash_at(&kit, 0, 3), S, 1).outcome, WEIR_DENY);
        finish(&kit, old, next);
        assert_int_equal(store_overflows(kit.store, next), 3);
        store_shape_remove(kit.store, old);
        assert_int_equal(kit_stats(&kit, S).overflows, 3);
        kit_close(&kit);
    }
}

/* ---- P14 ---------------------------------------------------------------------------------------------------------- */

/* The old rate would have paid everything back two seconds after the change; the new one has not. */
static void a_shape_that_is_over_forgets_nobody(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        enum weir_algorithm algorithm;
        struct weir_quota old_rate, next_rate;
        uint64_t old_burst, next_burst;
    } rows[] = {
        { "a bucket", WEIR_TOKEN_BUCKET, { 1000, S }, { 10, WEIR_DAY }, 1000, 10 },
        { "a window", WEIR_FIXED_WINDOW, { 10, S }, { 10, WEIR_DAY }, 0, 0 },
        { "a sliding window", WEIR_SLIDING_WINDOW, { 10, S }, { 10, WEIR_DAY }, 0, 0 },
        { "a log", WEIR_SLIDING_LOG, { 10, S }, { 10, WEIR_DAY }, 0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 64);
        const struct shape *old = generation(&kit,
                                             (struct weir_limit){ .algorithm = rows[i].algorithm,
                                                                  .rate = rows[i].old_rate,
                                                                  .burst = rows[i].old_burst },
                                             1, 0);
        const struct shape *next = generation(&kit,
                                              (struct weir_limit){ .algorithm = rows[i].algorithm,
                                                                   .rate = rows[i].next_rate,
                                                                   .burst = rows[i].next_burst },
                                              2, 100 * S);
        uint64_t key = hash_at(&kit, 0, 1);
        expect_row(take(&kit, old, key, 100 * S, old->capacity).outcome == WEIR_ALLOW, rows[i].why);
        supersede(&kit, old, next);
        store_sweep(kit.store, 110 * S, 2);
        expect_row(cells_of(&kit, 1) == 1, rows[i].why);
        for (uint64_t tag = 2; tag < 40; tag++)
            (void)take(&kit, next, hash_at(&kit, 0, tag), 110 * S, 1);
        expect_row(cells_of(&kit, 1) == 1, rows[i].why);
        expect_row(take(&kit, next, key, 110 * S, 1).outcome == WEIR_DENY, rows[i].why);
        finish(&kit, old, next);
        store_sweep(kit.store, 110 * S, 2);
        expect_row(take(&kit, next, key, 110 * S, 1).outcome == WEIR_DENY, rows[i].why);

        /* What was whole at the change may go. */
        struct kit whole;
        kit_open(&whole, 9, 64);
        old = generation(&whole,
                         (struct weir_limit){ .algorithm = rows[i].algorithm,
                                              .rate = rows[i].old_rate,
                                              .burst = rows[i].old_burst },
                         1, 0);
        (void)take(&whole, old, key, 90 * S, 1);
        store_shape_over(whole.store, old, 100 * S);
        store_sweep(whole.store, 110 * S, 2);
        expect_row(cells_of(&whole, 1) == 0, rows[i].why);
        kit_close(&whole);
        kit_close(&kit);
    }
}

/* 10/1m -> 1000/s -> 10/1d -> 10/1m: no change grants a fresh burst, and a virtual year later there is an answer. */
static void no_ratio_of_rates_grants_a_fresh_burst(void **state)
{
    (void)state;
    static const struct step_of {
        uint64_t count;
        weir_ns period;
        uint64_t burst;
        weir_ns since;
        uint64_t gets; /* of what it asks one by one at `since` */
    } steps[] = {
        { 10, WEIR_MINUTE, 10, 0, 10 },
        { 1000, S, 1000, 60 * MS, 990 },  /* ten of a thousand are used: 60 ms paid back a hundredth of one */
        { 10, WEIR_DAY, 10, 70 * MS, 0 }, /* ten came back at 1000/s: 990 used, of ten */
        { 10, WEIR_MINUTE, 10, 80 * MS, 0 },
    };
    struct kit kit;
    kit_open(&kit, 60, 0);
    const struct shape *shapes[4];
    uint64_t key = hash_at(&kit, 3, 1);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        shapes[i] = generation(&kit, bucket(steps[i].count, steps[i].period, steps[i].burst), (uint32_t)i + 1,
                               steps[i].since);
        if (i > 0)
            supersede(&kit, shapes[i - 1], shapes[i]);
        uint64_t got = 0;
        for (unsigned n = 0; n < 1100; n++)
            got += take(&kit, shapes[i], key, steps[i].since - (n % 7 == 0 ? steps[i].since / 2 : 0), 1).outcome
                   == WEIR_ALLOW;
        /* A conversion rounds a used part of a tick up: one token of many may be late. */
        assert_true(got == steps[i].gets || got + 1 == steps[i].gets);
        if (i > 0) {
            finish(&kit, shapes[i - 1], shapes[i]);
            store_sweep(kit.store, steps[i].since, 32);
            store_shape_remove(kit.store, shapes[i - 1]);
        }
    }
    assert_int_equal(take(&kit, shapes[3], key, WEIR_DAY * 365, 10).outcome, WEIR_ALLOW);
    assert_int_equal(take(&kit, shapes[3], key, WEIR_DAY * 365, 1).outcome, WEIR_DENY);
    kit_close(&kit);
}

/*
 * P14 by random schedules: changes, sweeps, finishes late or early, stale stamps, keys that push each other out. For any
 * two stamps: what one key was admitted between them is at most the largest burst in force then, and what the rates in
 * force made in between.
 */
#define P14_GRANTS 400
#define P14_SHAPES 4

static struct p14 {
    struct {
        weir_ns at;
        uint64_t cost;
    } grants[P14_GRANTS];
    unsigned count;
    uint64_t rates[P14_SHAPES], bursts[P14_SHAPES]; /* tokens per second */
    weir_ns since[P14_SHAPES];
    unsigned shapes;
} p14;

static bool p14_holds(void)
{
    for (unsigned i = 0; i < p14.count; i++) {
        for (unsigned j = 0; j < p14.count; j++) {
            weir_ns from = p14.grants[i].at, to = p14.grants[j].at;
            uint64_t admitted = 0, burst = 0, made = 0; /* made: in tokens times ns per second */
            if (from > to)
                continue;
            for (unsigned k = 0; k < p14.count; k++)
                if (p14.grants[k].at >= from && p14.grants[k].at <= to)
                    admitted += p14.grants[k].cost;
            for (unsigned k = 0; k < p14.shapes; k++) {
                weir_ns begin = p14.since[k], end = k + 1 < p14.shapes ? p14.since[k + 1] : WEIR_HORIZON;
                begin = begin > from ? begin : from;
                end = end < to ? end : to;
                if (begin > end)
                    continue;
                burst = p14.bursts[k] > burst ? p14.bursts[k] : burst;
                made += (end - begin) * p14.rates[k];
            }
            if (admitted * S > burst * S + made)
                return false;
        }
    }
    return true;
}

static bool p14_run(uint64_t seed, bool tells_over)
{
    struct random random = { seed };
    struct kit kit;
    weir_ns clock = 50 * S;
    bool is_pending = false;
    const struct shape *shapes[P14_SHAPES];
    kit_open(&kit, 9, 0);
    p14 = (struct p14){ 0 };
    for (unsigned n = 0; n < 120; n++) {
        if (p14.shapes == 0 || (p14.shapes < P14_SHAPES && !is_pending && random_below(&random, 25) == 0)) {
            static const uint64_t rates[] = { 1, 2, 5, 50 }, bursts[] = { 1, 2, 6, 8, 20 };
            unsigned i = p14.shapes++;
            p14.rates[i] = rates[random_below(&random, COUNT_OF(rates))];
            p14.bursts[i] = bursts[random_below(&random, COUNT_OF(bursts))];
            p14.since[i] = i == 0 ? 0 : clock;
            shapes[i] = generation(&kit, bucket(p14.rates[i], S, p14.bursts[i]), i + 1, p14.since[i]);
            is_pending = i > 0;
            if (is_pending && tells_over)
                supersede(&kit, shapes[i - 1], shapes[i]);
        }
        unsigned last = p14.shapes - 1;
        clock += random_below(&random, 3) == 0 ? random_below(&random, 3 * S) : 0;
        weir_ns now = clock - (random_below(&random, 4) == 0 ? random_below(&random, 6 * S) : 0);
        uint64_t dice = random_below(&random, 10);
        if (dice == 0) {
            store_sweep(kit.store, now, 2);
        } else if (dice == 1 && is_pending) {
            finish(&kit, shapes[last - 1], shapes[last]);
            is_pending = false;
        } else if (dice <= 3) { /* others, that want a cell */
            (void)take(&kit, shapes[last], hash_at(&kit, 0, 10 + random_below(&random, 20)), now, 1);
        } else {
            uint64_t cost = 1 + random_below(&random, p14.bursts[last]);
            struct store_answer answer = take(&kit, shapes[last], hash_at(&kit, 1, 1), now, cost);
            if (answer.outcome == WEIR_ALLOW && answer.policy == WEIR_POLICY_NONE) {
                p14.grants[p14.count].at = answer.at;
                p14.grants[p14.count++].cost = cost;
            }
        }
    }
    kit_close(&kit);
    return p14_holds();
}

static void random_changes_stay_within_the_bound(void **state)
{
    (void)state;
    uint64_t seed = random_seed(14);
    for (uint64_t i = 0; i < 5000; i++)
        if (!p14_run(seed + i, true))
            fail_msg("run %u (WEIR_SEED=%llu alone shows it)", (unsigned)i, (unsigned long long)(seed + i));
    /* That this can fail: cells of an old shape that die by its own rate are more than the bound. */
    unsigned violations = 0;
    for (uint64_t i = 0; i < 5000; i++)
        violations += !p14_run(seed + i, false);
    print_message("without store_shape_over(): %u of 5000 runs admit too much\n", violations);
    assert_true(violations > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example),
        cmocka_unit_test(what_was_used_stays_used),
        cmocka_unit_test(only_a_charge_converts),
        cmocka_unit_test(an_insertion_names_its_generation),
        cmocka_unit_test(a_shape_decides_no_earlier_than_it_came_into_force),
        cmocka_unit_test(another_lineage_is_a_stranger),
        cmocka_unit_test(the_walk_leaves_no_cell_of_an_old_number),
        cmocka_unit_test(one_key_is_converted_by_its_hash),
        cmocka_unit_test(overflowing_keys_keep_what_they_used),
        cmocka_unit_test(a_shape_that_is_over_forgets_nobody),
        cmocka_unit_test(no_ratio_of_rates_grants_a_fresh_burst),
        cmocka_unit_test(random_changes_stay_within_the_bound),
    };
    return cmocka_run_group_tests_name("store/change", tests, NULL, NULL);
}
