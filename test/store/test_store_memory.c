// SPDX-License-Identifier: Apache-2.0
/* Whether something was done, and who is doing it: held once, known for a while, forgotten like every key (P31). */
#include "store/kit.h"

static enum store_memory begin(struct kit *kit, uint64_t hash, weir_ns now, weir_ns until, uint32_t *nonce)
{
    return store_recall_begin(kit->store, hash, now, until, nonce);
}

/* One key through its life; each row acts, then a look and a second begin say where it stands. */
static void a_key_is_held_known_and_forgotten(void **state)
{
    (void)state;
    enum act { BEGIN, END, NOTHING };
    static const struct row {
        const char *why;
        enum act act;
        weir_ns now, until;
        enum store_memory begun; /* what BEGIN is answered */
        bool is_known;           /* at `now`, afterwards */
    } rows[] = {
        { "nobody has", BEGIN, 10 * S, 11 * S, STORE_NEW, false },
        { "somebody holds it", BEGIN, 10 * S, 12 * S, STORE_PENDING, false },
        { "until its last nanosecond", BEGIN, 11 * S - 1, 12 * S, STORE_PENDING, false },
        { "an old reading, too", BEGIN, 2 * S, 12 * S, STORE_PENDING, false },
        { "done: known", END, 10500 * MS, 20 * S, STORE_NEW, true },
        { "known", BEGIN, 10500 * MS, 12 * S, STORE_KNOWN, true },
        { "known until its last nanosecond", BEGIN, 20 * S - 1, 30 * S, STORE_KNOWN, true },
        { "then it may be done again", NOTHING, 20 * S, 0, STORE_NEW, false },
        { "by whoever comes", BEGIN, 20 * S, 21 * S, STORE_NEW, false },
        { "not done: forgotten", END, 20 * S, 0, STORE_NEW, false },
        { "and new at once", BEGIN, 20 * S, 21 * S, STORE_NEW, false },
        { "a hold that ran out is anybody's", BEGIN, 21 * S, 22 * S, STORE_NEW, false },
        { "what is over when it is done is forgotten", END, 21 * S, 21 * S, STORE_NEW, false },
        { "so it is new", BEGIN, 21 * S, 22 * S, STORE_NEW, false },
        { "a hold that ends before it begins is none", BEGIN, 22 * S, 22 * S, STORE_FULL, false },
    };
    struct kit kit;
    uint64_t hash;
    uint32_t nonce = 0;
    kit_open(&kit, 9, 0);
    hash = hash_at(&kit, 0, 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint32_t held;
        if (rows[i].act == BEGIN) {
            enum store_memory begun = begin(&kit, hash, rows[i].now, rows[i].until, &held);
            expect_row(begun == rows[i].begun, rows[i].why);
            if (begun == STORE_NEW)
                nonce = held;
        } else if (rows[i].act == END) {
            store_recall_end(kit.store, hash, nonce, rows[i].now, rows[i].until);
        }
        struct snapshot before = kit_snapshot(&kit);
        expect_row(store_recall(kit.store, hash, rows[i].now) == rows[i].is_known, rows[i].why);
        expect_row(kit_is_unchanged(&kit, before), rows[i].why);
        expect_row(cells_of(&kit, 1) <= 1, rows[i].why);
    }
    kit_close(&kit);
}

/* The first holder comes back late: whoever took over is not disturbed, and it is known only once it is done. */
static void a_late_end_changes_nothing(void **state)
{
    (void)state;
    struct kit kit;
    uint32_t first, second;
    kit_open(&kit, 9, 0);
    uint64_t hash = hash_at(&kit, 0, 1);
    assert_int_equal(begin(&kit, hash, 0, 1 * S, &first), STORE_NEW);
    assert_int_equal(begin(&kit, hash, 1 * S, 2 * S, &second), STORE_NEW);
    assert_int_not_equal(first, second);
    struct snapshot before = kit_snapshot(&kit);
    store_recall_end(kit.store, hash, first, 1 * S, 100 * S);
    store_recall_end(kit.store, hash, first, 1 * S, 0);
    store_recall_end(kit.store, hash_at(&kit, 0, 2), first, 1 * S, 100 * S); /* nobody's */
    assert_true(kit_is_unchanged(&kit, before));
    store_recall_end(kit.store, hash, second, 5 * S, 100 * S); /* it ran out, but nobody else came */
    assert_true(store_recall(kit.store, hash, 99 * S));

    /* Known is known: neither a second end nor an old hold undoes it. */
    before = kit_snapshot(&kit);
    store_recall_end(kit.store, hash, second, 5 * S, 0);
    assert_true(kit_is_unchanged(&kit, before));
    kit_close(&kit);
}

static void times_are_rounded_up_and_end_at_the_horizon(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        weir_ns until, known, forgotten;
    } rows[] = {
        { "a whole millisecond", 5 * MS, 5 * MS - 1, 5 * MS },
        { "a nanosecond more is a millisecond more", 5 * MS + 1, 6 * MS - 1, 6 * MS },
        { "for ever is until the horizon", WEIR_NO_TIME, WEIR_HORIZON - 1, WEIR_HORIZON },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        uint32_t nonce;
        kit_open(&kit, 9, 0);
        uint64_t hash = hash_at(&kit, 0, 1);
        expect_row(begin(&kit, hash, 0, rows[i].until, &nonce) == STORE_NEW, rows[i].why);
        store_recall_end(kit.store, hash, nonce, 0, rows[i].until);
        expect_row(store_recall(kit.store, hash, rows[i].known), rows[i].why);
        expect_row(!store_recall(kit.store, hash, rows[i].forgotten), rows[i].why);
        expect_row(begin(&kit, hash, WEIR_HORIZON + 1, WEIR_NO_TIME, &nonce) == STORE_FULL, rows[i].why);
        kit_close(&kit);
    }
}

/* A memory is a key like others: swept when dead with grace, counted, pushed out by nobody while it lives. */
static void a_memory_is_a_key_like_others(void **state)
{
    (void)state;
    struct kit kit;
    uint32_t nonce;
    kit_open(&kit, 9, 0);
    const struct shape *evicts = kit_shape(
        &kit, (struct weir_limit){ .rate = { 1, S }, .burst = 1, .when_full = WEIR_FULL_EVICT_LEAST });
    for (uint64_t tag = 1; tag <= 16; tag++) {
        assert_int_equal(begin(&kit, hash_at(&kit, 0, tag), 0, 5 * S, &nonce), STORE_NEW);
        store_recall_end(kit.store, hash_at(&kit, 0, tag), nonce, 0, 10 * S);
    }
    assert_int_equal(kit_stats(&kit, 9 * S).cells_live, 16);
    assert_int_equal(kit_stats(&kit, 11 * S - 1).cells_live, 16);
    assert_int_equal(kit_stats(&kit, 11 * S).cells_dead, 16);
    assert_int_equal(begin(&kit, hash_at(&kit, 0, 17), 9 * S, 10 * S, &nonce), STORE_FULL);
    assert_int_equal(take(&kit, evicts, hash_at(&kit, 0, 99), 9 * S, 1).outcome, WEIR_REFUSED);
    store_sweep(kit.store, 11 * S - 1, 2);
    assert_int_equal(kit_stats(&kit, 0).cells_live, 16);
    assert_int_equal(begin(&kit, hash_at(&kit, 0, 17), 11 * S, 12 * S, &nonce), STORE_NEW);
    store_sweep(kit.store, 11 * S, 2);
    assert_int_equal(kit_stats(&kit, 11 * S).cells_live, 1);
    assert_int_equal(kit_stats(&kit, 11 * S).reclaims, 16);
    assert_int_equal(take(&kit, evicts, hash_at(&kit, 0, 99), 11 * S, 1).outcome, WEIR_ALLOW);
    kit_close(&kit);
}

/* What was forgotten by the clock of others is not new to somebody whose own clock stands before. */
static void a_late_caller_does_not_find_a_forgotten_key_new(void **state)
{
    (void)state;
    struct kit kit;
    uint32_t nonce;
    kit_open(&kit, 9, 0);
    uint64_t hash = hash_at(&kit, 0, 1);
    assert_int_equal(begin(&kit, hash, 0, 10 * S, &nonce), STORE_NEW);
    store_recall_end(kit.store, hash, nonce, 0, 10 * S);
    store_sweep(kit.store, 11 * S, 2);
    assert_int_equal(cells_of(&kit, 1), 0);
    assert_int_equal(begin(&kit, hash, 9 * S, 10 * S, &nonce), STORE_FULL);
    assert_int_equal(begin(&kit, hash, 9 * S, 12 * S, &nonce), STORE_NEW); /* for whom it may be done again */
    kit_close(&kit);
}

static void limits_and_memories_of_one_tag_are_strangers(void **state)
{
    (void)state;
    struct kit kit;
    uint32_t nonce;
    kit_open(&kit, 9, 0);
    const struct shape *shape = kit_shape(&kit, (struct weir_limit){ .rate = { 1, S }, .burst = 1 });
    uint64_t theirs = hash_at(&kit, 0, 1), ours = hash_at(&kit, 0, 2);
    assert_int_equal(take(&kit, shape, theirs, 10 * S, 1).outcome, WEIR_ALLOW);
    assert_int_equal(begin(&kit, theirs, 10 * S, 20 * S, &nonce), STORE_FULL);
    assert_false(store_recall(kit.store, theirs, 10 * S));
    assert_int_equal(begin(&kit, ours, 10 * S, 20 * S, &nonce), STORE_NEW);
    assert_int_equal(take(&kit, shape, ours, 10 * S, 1).policy, WEIR_POLICY_OVERFLOW);
    assert_true(store_reset(kit.store, shape, ours));
    assert_int_equal(begin(&kit, ours, 10 * S, 20 * S, &nonce), STORE_PENDING);
    assert_int_equal(begin(&kit, theirs, 13 * S, 20 * S, &nonce), STORE_NEW); /* it has died */
    kit_close(&kit);
}

/* The bound on new keys is theirs too: an invented request id costs what an invented key does. */
static void new_memories_are_bounded_as_new_keys_are(void **state)
{
    (void)state;
    struct kit kit = { 0 };
    uint32_t nonce;
    assert_int_equal(kit_try_open(&kit, &(struct store_options){ .keys = 9, .new_keys = { 3, S } }), 0);
    for (uint64_t tag = 1; tag <= 5; tag++)
        assert_int_equal(begin(&kit, hash_at(&kit, 0, tag), 0, 10 * S, &nonce),
                         tag <= 3 ? STORE_NEW : STORE_FULL);
    assert_int_equal(begin(&kit, hash_at(&kit, 0, 1), 0, 10 * S, &nonce), STORE_PENDING);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_held_known_and_forgotten),
        cmocka_unit_test(a_late_end_changes_nothing),
        cmocka_unit_test(times_are_rounded_up_and_end_at_the_horizon),
        cmocka_unit_test(a_memory_is_a_key_like_others),
        cmocka_unit_test(a_late_caller_does_not_find_a_forgotten_key_new),
        cmocka_unit_test(limits_and_memories_of_one_tag_are_strangers),
        cmocka_unit_test(new_memories_are_bounded_as_new_keys_are),
    };
    return cmocka_run_group_tests_name("store/memory", tests, NULL, NULL);
}
