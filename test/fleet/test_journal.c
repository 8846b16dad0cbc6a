// SPDX-License-Identifier: Apache-2.0
/*
 * test_journal.c - what was spent while the store was away, and what of it a store that had been charged all along would still count.
 */
#include "fleet/journal.h"
#include "support/random.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define SECOND WEIR_SECOND
#define WALL UINT64_C(1700000000000000000) /* a whole multiple of 10 s and no more of a minute than 20 s */

static const uint8_t secret[16] = "sixteen bytes ..";
static struct journal *journal;

static int open_journal(void **state)
{
    (void)state;
    return journal_new(&journal, secret);
}

static int close_journal(void **state)
{
    (void)state;
    journal_free(journal);
    return 0;
}

/* Two tokens in three seconds, at most 10 and 5 more. */
static const struct weir_shared_size bucket = {
    .tick = WEIR_MICROSECOND, .capacity = 10, .debt = 5, .count = 2, .period = 3000000
};
static const struct weir_shared_size minute = { .tick = WEIR_MILLISECOND, .capacity = 10, .period = 60000 };
static const struct weir_shared_size calendar = { .tick = WEIR_MICROSECOND, .capacity = 10 };

static bool spend(const char *name, enum weir_algorithm algorithm, const struct weir_shared_size *size,
                  uint64_t cost, weir_ns now)
{
    const struct journal_spent spent = { slice_of(name), 3, algorithm, *size, cost, false };
    return journal_spend(journal, &spent, now, WALL + now);
}

static uint64_t take(weir_ns now)
{
    struct journal_entry *entry = journal_take(journal, now);
    uint64_t cost = entry == NULL ? 0 : entry->cost;
    journal_entry_free(entry);
    return cost;
}

static void what_is_left_of_it(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        enum weir_algorithm algorithm;
        const struct weir_shared_size *size;
        struct {
            weir_ns at;
            uint64_t cost;
        } spent[3];
        weir_ns taken_at;
        uint64_t left;
    } rows[] = {
        { "at once: all of it", WEIR_TOKEN_BUCKET, &bucket, { { 0, 4 } }, 0, 4 },
        { "it adds up", WEIR_TOKEN_BUCKET, &bucket, { { 0, 4 }, { 0, 3 } }, 0, 7 },
        { "one comes back in 1.5 s: not yet", WEIR_TOKEN_BUCKET, &bucket, { { 0, 4 } }, 1499 * MS, 4 },
        { "now", WEIR_TOKEN_BUCKET, &bucket, { { 0, 4 } }, 1500 * MS, 3 },
        { "what is carried is not lost",
          WEIR_TOKEN_BUCKET,
          &bucket,
          { { 0, 4 }, { 1000 * MS, 1 }, { 1400 * MS, 1 } },
          1500 * MS,
          5 },
        { "an empty one drains nothing ahead",
          WEIR_TOKEN_BUCKET,
          &bucket,
          { { 0, 1 }, { 60 * SECOND, 4 } },
          61 * SECOND,
          4 },
        { "up to capacity and debt, as a settlement",
          WEIR_LEAKY_BUCKET,
          &bucket,
          { { 0, 9 }, { 0, 9 } },
          0,
          15 },
        { "more than that at once as well", WEIR_LEAKY_BUCKET, &bucket, { { 0, 1000 } }, 0, 15 },
        { "and all is back in time", WEIR_TOKEN_BUCKET, &bucket, { { 0, 10 } }, 15 * SECOND, 0 },
        { "a window keeps it to its end, which is 40 s away",
          WEIR_FIXED_WINDOW,
          &minute,
          { { 0, 4 }, { 20 * SECOND, 2 } },
          40 * SECOND - 1,
          6 },
        { "and not longer", WEIR_FIXED_WINDOW, &minute, { { 0, 4 }, { 20 * SECOND, 2 } }, 40 * SECOND, 0 },
        { "only what is of this window",
          WEIR_FIXED_WINDOW,
          &minute,
          { { 0, 4 }, { 41 * SECOND, 2 } },
          50 * SECOND,
          2 },
        { "a log keeps it beyond a multiple of the minute",
          WEIR_SLIDING_LOG,
          &minute,
          { { 0, 4 } },
          50 * SECOND,
          4 },
        { "for a minute", WEIR_SLIDING_LOG, &minute, { { 0, 4 } }, 60 * SECOND - 1, 4 },
        { "and not longer", WEIR_SLIDING_LOG, &minute, { { 0, 4 } }, 60 * SECOND, 0 },
        { "a minute from the newest",
          WEIR_SLIDING_LOG,
          &minute,
          { { 0, 4 }, { 41 * SECOND, 2 } },
          101 * SECOND - 1,
          6 },
        { "and then nothing", WEIR_SLIDING_LOG, &minute, { { 0, 4 }, { 41 * SECOND, 2 } }, 101 * SECOND, 0 },
        { "a sliding window's weighs on the next one, to 100 s",
          WEIR_SLIDING_WINDOW,
          &minute,
          { { 0, 4 } },
          100 * SECOND - 1,
          4 },
        { "and not on the one after", WEIR_SLIDING_WINDOW, &minute, { { 0, 4 } }, 100 * SECOND, 0 },
        { "a calendar's is kept",
          WEIR_FIXED_WINDOW,
          &calendar,
          { { 0, 4 }, { 100 * SECOND, 2 } },
          200 * SECOND,
          6 },
        { "an older reading changes nothing",
          WEIR_TOKEN_BUCKET,
          &bucket,
          { { 1500 * MS, 4 }, { 0, 1 } },
          1500 * MS,
          5 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(open_journal(NULL), 0);
        for (size_t j = 0; j < 3 && rows[i].spent[j].cost > 0; j++)
            expect_row(
                spend("key", rows[i].algorithm, rows[i].size, rows[i].spent[j].cost, rows[i].spent[j].at),
                rows[i].why);
        expect_row(journal_count(journal) == 1, rows[i].why);
        expect_row(take(rows[i].taken_at) == rows[i].left, rows[i].why);
        expect_row(journal_count(journal) == 0, rows[i].why);
        (void)close_journal(NULL);
    }
}

/* The same as a bucket that is charged all along and drains at the same rate, in exact parts of a token. */
static void a_bucket_drains_as_the_stores_would(void **state)
{
    (void)state;
    struct random random = { random_seed(5) };
    for (int run = 0; run < 200; run++) {
        struct weir_shared_size size = { .tick = random_below(&random, 2) ? WEIR_MICROSECOND : WEIR_MILLISECOND,
                                         .capacity = 1 + random_below(&random, 50),
                                         .debt = random_below(&random, 5),
                                         .count = 1 + random_below(&random, 7),
                                         .period = 1 + random_below(&random, 1000) };
        uint64_t level = 0,
                 most = (size.capacity + size.debt) * size.period; /* in parts of a token, `period` to one */
        weir_ns now = 0, at = 0;
        assert_int_equal(open_journal(NULL), 0);
        for (int i = 0; i < 50; i++) {
            now += random_below(&random, 300) * size.tick;
            uint64_t drained = (now - at) / size.tick * size.count;
            level -= drained < level ? drained : level;
            at = now;
            uint64_t cost = 1 + random_below(&random, 5);
            level += cost * size.period;
            uint64_t whole =
                (level + size.period - 1) / size.period; /* what is used, rounded up, is what is kept */
            if (whole > size.capacity + size.debt)
                level -= (whole - size.capacity - size.debt) * size.period;
            assert_true(level <= most);
            assert_true(spend("key", WEIR_TOKEN_BUCKET, &size, cost, now));
        }
        assert_int_equal(journal_tokens(journal), (level + size.period - 1) / size.period);
        (void)close_journal(NULL);
    }
}

static void the_oldest_is_told_first_and_comes_back_last(void **state)
{
    (void)state;
    assert_true(spend("a", WEIR_FIXED_WINDOW, &calendar, 1, 0)
                && spend("b", WEIR_FIXED_WINDOW, &calendar, 2, 1));
    assert_true(spend("a", WEIR_FIXED_WINDOW, &calendar, 4, 2)
                && spend("c", WEIR_FIXED_WINDOW, &calendar, 8, 3));
    struct journal_entry *entry = journal_take(journal, 4);
    assert_true(entry->cost == 5 && entry->name_len == 1 && entry->name[0] == 'a' && entry->limit == 3);
    assert_true(spend("a", WEIR_FIXED_WINDOW, &calendar, 1, 4)); /* spent while the other was on its way */
    assert_int_equal(journal_count(journal), 3);
    assert_true(journal_put_back(journal, entry, 5));
    assert_int_equal(journal_count(journal), 3);
    assert_int_equal(journal_tokens(journal), 2 + 8 + 6);
    assert_true(take(6) == 2 && take(6) == 8 && take(6) == 6 && take(6) == 0);
}

static void a_first_request_window_is_kept_for_a_period(void **state)
{
    (void)state;
    const struct journal_spent spent = { SLICE("a"), 3, WEIR_FIXED_WINDOW, minute, 4, true };
    assert_true(journal_spend(journal, &spent, 39 * SECOND, WALL + 39 * SECOND)); /* a minute ends at 40 s */
    struct journal_entry *entry = journal_take(journal, 41 * SECOND);
    assert_true(entry != NULL && entry->cost == 4);
    /* Back in, twice: merging makes it no younger. */
    assert_true(journal_put_back(journal, entry, 41 * SECOND));
    entry = journal_take(journal, 50 * SECOND);
    assert_true(journal_spend(journal, &spent, 45 * SECOND, WALL + 45 * SECOND));
    assert_true(journal_put_back(journal, entry, 50 * SECOND));
    entry = journal_take(journal, 105 * SECOND - 1);
    assert_true(entry != NULL && entry->cost == 8);
    assert_true(journal_put_back(journal, entry, 105 * SECOND - 1));
    assert_true(take(105 * SECOND) == 0);
}

static void a_changed_size_goes_on_with_what_there_is(void **state)
{
    (void)state;
    struct weir_shared_size faster = bucket;
    faster.period = 300000;                                    /* ten times as fast */
    assert_true(spend("a", WEIR_TOKEN_BUCKET, &bucket, 9, 0)); /* one comes back in 1.5 s */
    assert_true(
        spend("a", WEIR_LEAKY_BUCKET, &faster, 1, 1500 * MS)); /* 9 - 1 + 1, from here on one in 150 ms */
    struct journal_entry *entry = journal_take(journal, 1800 * MS);
    assert_true(entry->cost == 7 && entry->algorithm == WEIR_LEAKY_BUCKET && entry->size.period == 300000);
    /* Back in, where something was spent under a third size meanwhile. */
    struct weir_shared_size smaller = faster;
    smaller.capacity = 4;
    smaller.debt = 0;
    assert_true(spend("a", WEIR_TOKEN_BUCKET, &smaller, 1, 1800 * MS));
    assert_true(journal_put_back(journal, entry, 1800 * MS));
    assert_int_equal(journal_count(journal), 1);
    assert_int_equal(journal_tokens(journal), 4); /* no more than the key holds now */
}

static void it_is_bounded(void **state)
{
    (void)state;
    char name[64];
    for (int i = 0; i < JOURNAL_ENTRIES; i++) {
        (void)snprintf(name, sizeof name, "key-%d", i);
        assert_true(spend(name, WEIR_FIXED_WINDOW, &calendar, 1, 0));
    }
    assert_false(spend("one more", WEIR_FIXED_WINDOW, &calendar, 1, 0));
    assert_true(spend("key-7", WEIR_FIXED_WINDOW, &calendar, 1, 0)); /* those that are there go on */
    struct journal_entry *entry = journal_take(journal, 0);
    assert_true(spend("one more", WEIR_FIXED_WINDOW, &calendar, 1, 0));
    assert_false(journal_put_back(journal, entry, 0)); /* no room any more: freed */
    assert_int_equal(journal_count(journal), JOURNAL_ENTRIES);
}

static void names_are_bounded_in_bytes(void **state)
{
    (void)state;
    static char name[2600];
    unsigned kept = 0;
    memset(name, 'n', sizeof name - 1);
    for (unsigned i = 0; i < 8000; i++) {
        (void)snprintf(name, 12, "%010u", i);
        name[10] = 'n';
        name[11] = 'n';
        kept += spend(name, WEIR_FIXED_WINDOW, &calendar, 1, 0);
    }
    assert_true(kept < 8000 && kept * (sizeof name - 1) <= JOURNAL_BYTES_MAX
                && (kept + 1) * (sizeof name - 1) > JOURNAL_BYTES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_of_it),
        cmocka_unit_test(a_bucket_drains_as_the_stores_would),
        cmocka_unit_test_setup_teardown(the_oldest_is_told_first_and_comes_back_last, open_journal,
                                        close_journal),
        cmocka_unit_test_setup_teardown(a_first_request_window_is_kept_for_a_period, open_journal,
                                        close_journal),
        cmocka_unit_test_setup_teardown(a_changed_size_goes_on_with_what_there_is, open_journal, close_journal),
        cmocka_unit_test_setup_teardown(it_is_bounded, open_journal, close_journal),
        cmocka_unit_test_setup_teardown(names_are_bounded_in_bytes, open_journal, close_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
