// SPDX-License-Identifier: Apache-2.0
/*
 * Globs: a table, then every small pattern against every small value, judged by an oracle that follows the text of
 * glob.h by recursion and knows nothing of restarts, tables or tries.
 */

#include "support/unit.h"

#include "rule/glob.h"
#include "rule/trie.h"
#include "support/random.h"

static const struct row {
    const char *why, *pattern, *value;
    bool in_path, in_text;
} rows[] = {
    { "a literal", "/v1/items", "/v1/items", true, true },
    { "the whole value must match", "/v1", "/v1/items", false, false },
    { "from its start", "items", "/v1/items", false, false },
    { "case matters", "/V1", "/v1", false, false },
    { "a star is a segment's rest", "/v1/*", "/v1/items", true, true },
    { "and stops at a slash, in paths", "/v1/*", "/v1/items/7", false, true },
    { "a star may be nothing", "/v1/*", "/v1/", true, true },
    { "but its slash must be there", "/v1/*", "/v1", false, false },
    { "a star in the middle", "/v1/*/items", "/v1/acme/items", true, true },
    { "takes one segment", "/v1/*/items", "/v1/a/b/items", false, true },
    { "part of a segment", "/v1/a*c/d", "/v1/abbc/d", true, true },
    { "two stars cross slashes", "/v1/**/items", "/v1/a/b/items", true, true },
    { "between slashes they need both", "/v1/**/items", "/v1/items", false, false },
    { "a final tree has everything below", "/v1/**", "/v1/a/b", true, true },
    { "and the slash", "/v1/**", "/v1/", true, true },
    { "and the path without it", "/v1/**", "/v1", true, false },
    { "but no longer name", "/v1/**", "/v10", false, false },
    { "three stars are two", "/v1/***", "/v1", true, false },
    { "a tree needs a slash before it", "/v1**", "/v1", true, true },
    { "and otherwise crosses", "/v1**", "/v1x/y", true, true },
    { "the tree of the root", "/**", "/a/b", true, true },
    { "a tree behind a star", "/v1/*/**", "/v1/acme", true, false },
    { "only a final one", "/**/x", "/x", false, false },
    { "a tree behind an escaped slash", "/v1\\/**", "/v1", true, false },
    { "one star alone in a path", "*", "a/b", false, true },
    { "two stars alone", "**", "a/b", true, true },
    { "an escaped star is a star", "/v1/\\*", "/v1/*", true, true },
    { "and nothing else", "/v1/\\*", "/v1/x", false, false },
    { "an escaped backslash", "a\\\\b", "a\\b", true, true },
    { "an escaped letter is the letter", "\\a", "a", true, true },
    { "a question mark is one", "a?c", "abc", false, false },
    { "brackets are brackets", "[ab]", "a", false, false },
    { "brackets match themselves", "[ab]", "[ab]", true, true },
    { "an empty pattern", "", "", true, true },
    { "has nothing else", "", "a", false, false },
    { "a star after a failed start", "*ab", "aab", true, true },
    { "the last of several", "a*b*c", "abcbc", true, true },
    { "a star between two trees", "**/a*c/**", "x/y/abc/z", true, true },
    { "the second place fits", "**/a*d/**", "x/abc/abd/z", true, true },
    { "bytes above 127", "caf\xc3\xa9*", "caf\xc3\xa9s", true, true },
};

static void table(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct slice pattern = slice_of(rows[i].pattern), value = slice_of(rows[i].value);
        expect_row(glob_check(pattern) == NULL, rows[i].why);
        expect_row(glob_match(pattern, value, GLOB_PATH) == rows[i].in_path, rows[i].why);
        expect_row(glob_match(pattern, value, GLOB_TEXT) == rows[i].in_text, rows[i].why);
    }
    assert_true(glob_match((struct slice){ "a*\0b", 4 }, (struct slice){ "a\0x\0b", 5 }, GLOB_TEXT));
    assert_false(glob_match((struct slice){ "a\0b", 3 }, (struct slice){ "a\0c", 3 }, GLOB_TEXT));
}

static void bad_patterns(void **state)
{
    (void)state;
    char longest[GLOB_MAX + 1];
    memset(longest, '*', sizeof longest);
    assert_null(glob_check((struct slice){ longest, GLOB_MAX }));
    assert_non_null(glob_check((struct slice){ longest, GLOB_MAX + 1 }));
    assert_non_null(glob_check(SLICE("a\\")));
    assert_non_null(glob_check(SLICE("\\\\\\")));
    assert_null(glob_check(SLICE("\\\\")));
    assert_null(glob_check(SLICE("")));
}

static void exact_patterns(void **state)
{
    (void)state;
    assert_true(glob_is_exact(SLICE("acme")));
    assert_true(glob_is_exact(SLICE("a\\*b")));
    assert_true(glob_is_exact(SLICE("")));
    assert_false(glob_is_exact(SLICE("a*")));
    assert_false(glob_is_exact(SLICE("a\\\\*")));
}

/* ---- The oracle -------------------------------------------------------------------------------------------------- */

/* By the text of glob.h: p and v are what is left of pattern and value. No escapes. */
static bool oracle(const char *p, const char *v, bool is_path)
{
    if (*p == '\0')
        return *v == '\0';
    if (is_path && strncmp(p, "/**", 3) == 0 && strspn(p + 1, "*") == strlen(p + 1)
        && (*v == '\0' || *v == '/'))
        return true;
    if (*p != '*')
        return *p == *v && oracle(p + 1, v + 1, is_path);

    size_t stars = strspn(p, "*");
    bool crosses = !is_path || stars >= 2;
    for (;; v++) {
        if (oracle(p + stars, v, is_path))
            return true;
        if (*v == '\0' || (*v == '/' && !crosses))
            return false;
    }
}

/* Write the number in the base of the alphabet; false once it has more digits than `len_max`. */
static bool spell(unsigned number, const char *alphabet, size_t len_max, char *out)
{
    unsigned base = (unsigned)strlen(alphabet);
    size_t len = 0;
    while (number > 0 && len <= len_max) {
        out[len++] = alphabet[(number - 1) % base];
        number = (number - 1) / base;
    }
    out[len] = '\0';
    return len <= len_max;
}

static void every_small_pattern(void **state)
{
    (void)state;
    static const struct {
        const char *pattern_letters, *value_letters;
        size_t pattern_len, value_len;
    } sets[] = { { "a/*", "a/", 6, 6 }, { "ab*", "ab", 6, 6 }, { "ab/*", "ab/", 5, 5 } };
    char pattern[16], value[16];
    for (size_t s = 0; s < COUNT_OF(sets); s++)
        for (unsigned p = 0; spell(p, sets[s].pattern_letters, sets[s].pattern_len, pattern); p++)
            for (unsigned v = 0; spell(v, sets[s].value_letters, sets[s].value_len, value); v++)
                for (int is_path = 0; is_path < 2; is_path++) {
                    bool is_met =
                        glob_match(slice_of(pattern), slice_of(value), is_path ? GLOB_PATH : GLOB_TEXT);
                    if (is_met != oracle(pattern, value, is_path))
                        fail_msg("'%s' against '%s', path %d: %d", pattern, value, is_path, is_met);
                }
}

/* ---- Many at once: the trie finds what each pattern alone matches --------------------------------------------------- */

enum { MANY = 800, PAIRS = 400 };

struct hits {
    unsigned char of[MANY];
};

static bool note(void *context, uint32_t pattern)
{
    ((struct hits *)context)->of[pattern]++;
    return true;
}

/* Sort, drop duplicates, and return how many are left. */
static size_t by_order(struct trie_pattern *patterns, size_t count)
{
    for (size_t i = 1; i < count; i++) /* insertion: small, and not the sort that the code uses */
        for (size_t j = i; j > 0 && trie_compare(patterns + j - 1, patterns + j) > 0; j--) {
            struct trie_pattern swap = patterns[j];
            patterns[j] = patterns[j - 1];
            patterns[j - 1] = swap;
        }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || trie_compare(patterns + kept - 1, patterns + i) != 0)
            patterns[kept++] = patterns[i];
    for (size_t i = 0; i < kept; i++)
        patterns[i].number = (uint32_t)i;
    return kept;
}

static void random_text(struct random *random, const char *letters, size_t len_max, char *out)
{
    size_t len = random_below(random, len_max + 1);
    for (size_t i = 0; i < len; i++)
        out[i] = letters[random_below(random, strlen(letters))];
    out[len] = '\0';
}

static void a_trie_finds_what_each_pattern_matches(void **state)
{
    (void)state;
    struct random random = { random_seed(1960) };
    unsigned long long found = 0;
    for (unsigned round = 0; round < 600; round++) {
        static char texts[MANY][24];
        static glob_token tokens[MANY][24];
        struct trie_pattern patterns[MANY];
        enum glob_dialect dialect = round % 2 == 0 ? GLOB_PATH : GLOB_TEXT;
        const char *letters = round % 3 == 0 ? "a*/" : round % 3 == 1 ? "ab/**" : "abc/*";
        size_t count = 1 + random_below(&random, round % 10 == 0 ? 400 : 40);
        struct trie trie;
        for (size_t i = 0; i < count; i++) {
            random_text(&random, letters, 14, texts[i]);
            patterns[i] =
                (struct trie_pattern){ tokens[i],
                                       (uint32_t)glob_compile(slice_of(texts[i]), dialect, tokens[i]), 0 };
        }
        count = by_order(patterns, count);
        assert_true(trie_init(&trie, patterns, count));
        for (unsigned i = 0; i < 60; i++) {
            char value[64];
            struct hits hits = { { 0 } };
            random_text(&random, round % 3 == 2 ? "abc/" : "ab/", i % 6 == 0 ? 60 : 9, value);
            assert_true(trie_find(&trie, slice_of(value), note, &hits));
            for (size_t n = 0; n < count; n++) {
                bool is_met = glob_run(patterns[n].tokens, patterns[n].count, slice_of(value));
                if (hits.of[n] != is_met)
                    fail_msg("round %u, '%s', pattern %zu: trie %u, alone %d", round, value, n, hits.of[n],
                             is_met);
                found += is_met;
            }
        }
        trie_deinit(&trie);
    }
    assert_true(found > 10000);
}

/* ---- Hostile patterns and values: right, and in bounded time ---------------------------------------------------------- */

/* The budget runs out on these, so the table answers; the expected answer is plain from the construction. */
static void wildcards_of_both_kinds_stay_polynomial(void **state)
{
    (void)state;
    char pattern[GLOB_MAX + 1] = "", value[GLOB_MAX + 1];
    for (unsigned i = 0; i < 128; i++)
        strcat(pattern, i % 2 == 0 ? "a*a*" : "a**a");
    memset(value, 'a', sizeof value);
    strcat(pattern, "b");
    assert_false(glob_match(slice_of(pattern), (struct slice){ value, GLOB_MAX }, GLOB_PATH));
    value[GLOB_MAX - 1] = 'b';
    assert_true(glob_match(slice_of(pattern), (struct slice){ value, GLOB_MAX }, GLOB_PATH));
    for (size_t i = 0; i < GLOB_MAX; i += 2)
        value[i] = '/';
    assert_false(glob_match(slice_of(pattern), (struct slice){ value, GLOB_MAX }, GLOB_PATH));
}

static void the_table_knows_trees(void **state)
{
    (void)state;
    char pattern[GLOB_MAX + 1] = "", value[GLOB_MAX];
    for (unsigned i = 0; i < 100; i++)
        strcat(pattern, "**a*a");
    strcat(pattern, "c/**");
    memset(value, 'a', sizeof value);
    assert_false(glob_match(slice_of(pattern), (struct slice){ value, sizeof value }, GLOB_PATH));
    value[1000] = 'c';
    assert_false(glob_match(slice_of(pattern), (struct slice){ value, sizeof value }, GLOB_PATH));
    value[1001] = '/';
    assert_true(glob_match(slice_of(pattern), (struct slice){ value, sizeof value }, GLOB_PATH));
    assert_true(glob_match(slice_of(pattern), (struct slice){ value, 1001 }, GLOB_PATH));
}

/* Patterns that follow the given texts, each `copies` times with an ending of its own, against one value. */
static size_t count_matches(char (*texts)[12], size_t text_count, size_t copies, struct slice value)
{
    static glob_token tokens[MANY][16];
    struct trie_pattern patterns[MANY];
    struct trie trie;
    struct hits hits = { { 0 } };
    size_t matches = 0, count = 0;
    for (size_t i = 0; i < text_count; i++)
        for (size_t copy = 0; copy < copies; copy++, count++) {
            char text[16];
            snprintf(text, sizeof text, "%.11s%s", texts[i], copy == 0 ? "" : "q");
            patterns[count] =
                (struct trie_pattern){ tokens[count],
                                       (uint32_t)glob_compile(slice_of(text), GLOB_TEXT, tokens[count]), 0 };
        }
    count = by_order(patterns, count);
    assert_true(trie_init(&trie, patterns, count));
    assert_true(trie_find(&trie, value, note, &hits));
    for (size_t n = 0; n < count; n++) {
        assert_int_equal(hits.of[n], glob_run(patterns[n].tokens, patterns[n].count, value));
        matches += hits.of[n];
    }
    trie_deinit(&trie);
    return matches;
}

/*
 * More nodes active and more matches than the walk keeps: `*ab*Y` for each pair of letters, and a value that holds
 * all pairs. Then two patterns behind each pair, so that no leaf cuts a branch short.
 */
static void a_walk_that_gives_up_is_right(void **state)
{
    (void)state;
    static const char letters[] = "abcdefghijklmnopqrst";
    static char texts[PAIRS][12];
    char value[GLOB_MAX];
    size_t count = 0, len = 0;
    for (size_t i = 0; i < 20; i++)
        for (size_t j = 0; j < 20; j++) {
            snprintf(texts[count++], sizeof *texts, "*%c%c*%c", letters[i], letters[j], j % 2 == 0 ? 'Y' : 'Z');
            value[len++] = letters[i];
            value[len++] = letters[j];
        }
    value[len++] = 'Y';
    assert_int_equal(count_matches(texts, PAIRS, 1, (struct slice){ value, len }), PAIRS / 2);
    assert_int_equal(count_matches(texts, PAIRS, 2, (struct slice){ value, len }), PAIRS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(bad_patterns),
        cmocka_unit_test(exact_patterns),
        cmocka_unit_test(every_small_pattern),
        cmocka_unit_test(a_trie_finds_what_each_pattern_matches),
        cmocka_unit_test(wildcards_of_both_kinds_stay_polynomial),
        cmocka_unit_test(the_table_knows_trees),
        cmocka_unit_test(a_walk_that_gives_up_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
