// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_glob.c - a trie of patterns finds exactly what each pattern alone matches, and that is what a plain table says.
 *
 * Input: one byte for the dialect, the value up to the first newline, then one pattern a line (at most 64).
 */
#include <stdlib.h>

#include "rule/glob.h"
#include "rule/trie.h"

enum { PATTERNS_MAX = 64, VALUE_MAX = 1024 };

/* The textbook table over the tokens: row by row, nothing clever. */
static bool plain_match(const struct trie_pattern *pattern, struct slice value)
{
    static bool row[2][GLOB_MAX + 2];
    const glob_token *tokens = pattern->tokens;
    for (size_t i = 0; i <= value.len; i++) { /* row i: which token prefixes match the first i bytes */
        bool *now = row[i % 2], *before = row[(i + 1) % 2];
        unsigned char c = i > 0 ? (unsigned char)value.at[i - 1] : 0;
        now[0] = i == 0;
        for (size_t j = 1; j <= pattern->count; j++) {
            glob_token token = tokens[j - 1];
            if (token < GLOB_SEGMENT)
                now[j] = i > 0 && before[j - 1] && token == c;
            else if (token == GLOB_TREE) /* nothing, or a slash now, or a slash before */
                now[j] = now[j - 1] || (i > 0 && ((before[j - 1] && c == '/') || before[GLOB_MAX + 1]));
            else
                now[j] = now[j - 1] || (i > 0 && before[j] && (token == GLOB_ANY || c != '/'));
        }
        bool has_tree = pattern->count > 0 && tokens[pattern->count - 1] == GLOB_TREE;
        now[GLOB_MAX + 1] =
            has_tree && i > 0 && (before[GLOB_MAX + 1] || (before[pattern->count - 1] && c == '/'));
        if (i == value.len)
            return now[pattern->count];
    }
    return false;
}

static bool note(void *context, uint32_t number)
{
    ((unsigned char *)context)[number]++;
    return true;
}

static int compare(const void *x, const void *y)
{
    return trie_compare(x, y);
}

static struct slice cut_line(struct slice *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->at, '\n', rest->len) : NULL;
    struct slice line = { rest->at, end == NULL ? rest->len : (size_t)(end - rest->at) };
    size_t used = end == NULL ? line.len : line.len + 1;
    rest->at += used;
    rest->len -= used;
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static glob_token tokens[PATTERNS_MAX][GLOB_MAX];
    struct trie_pattern patterns[PATTERNS_MAX];
    unsigned char hits[PATTERNS_MAX] = { 0 };
    struct trie trie;
    uint32_t count = 0, kept = 0;
    if (size == 0)
        return 0;
    enum glob_dialect dialect = data[0] % 2 == 0 ? GLOB_TEXT : GLOB_PATH;
    struct slice rest = { (const char *)data + 1, size - 1 };
    struct slice value = cut_line(&rest);
    if (value.len > VALUE_MAX)
        return 0;
    while (rest.len > 0 && count < PATTERNS_MAX) {
        struct slice pattern = cut_line(&rest);
        if (glob_check(pattern) != NULL)
            continue;
        patterns[count] = (struct trie_pattern){ tokens[count], 0, 0 };
        patterns[count].count = (uint32_t)glob_compile(pattern, dialect, tokens[count]);
        if (glob_match(pattern, value, dialect) != plain_match(patterns + count, value))
            abort();
        count++;
    }
    qsort(patterns, count, sizeof *patterns, compare);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || trie_compare(patterns + kept - 1, patterns + i) != 0)
            patterns[kept++] = patterns[i];
    for (uint32_t i = 0; i < kept; i++)
        patterns[i].number = i;
    if (!trie_init(&trie, patterns, kept) || !trie_find(&trie, value, note, hits))
        abort();
    for (uint32_t i = 0; i < kept; i++)
        if (hits[i] != plain_match(patterns + i, value))
            abort();
    trie_deinit(&trie);
    return 0;
}
