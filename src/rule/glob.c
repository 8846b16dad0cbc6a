// SPDX-License-Identifier: Apache-2.0
/*
 * glob.c - one pattern against one value.
 *
 * Greedy first: a wildcard takes as little as it can, and on a mismatch only the last one takes more (in paths: the
 * last within its segment, else the last that crosses segments). That is right because the earliest place where a
 * later wildcard begins leaves it the most room, and linear on ordinary patterns. Patterns with wildcards of both
 * kinds can make it cubic; after a budget of steps a table takes over, which costs pattern times value, always.
 *
 * Nothing recurses, nothing allocates.
 */
#include "rule/glob.h"

const char *glob_check(struct slice pattern)
{
    if (pattern.len > GLOB_MAX)
        return "is longer than 1024 bytes, the longest value there is";
    for (size_t i = 0; i < pattern.len; i++) {
        if (pattern.at[i] != '\\')
            continue;
        if (i + 1 == pattern.len)
            return "ends in a lone '\\'";
        i++;
    }
    return NULL;
}

bool glob_is_exact(struct slice pattern)
{
    for (size_t i = 0; i < pattern.len; i++) {
        if (pattern.at[i] == '*')
            return false;
        if (pattern.at[i] == '\\')
            i++;
    }
    return true;
}

size_t glob_compile(struct slice pattern, enum glob_dialect dialect, glob_token *out)
{
    size_t count = 0;
    for (size_t i = 0; i < pattern.len; i++) {
        char c = pattern.at[i];
        if (c == '\\' && i + 1 < pattern.len) {
            out[count++] = (unsigned char)pattern.at[++i];
            continue;
        }
        if (c != '*') {
            out[count++] = (unsigned char)c;
            continue;
        }
        size_t stars = 1;
        while (i + 1 < pattern.len && pattern.at[i + 1] == '*') {
            stars++;
            i++;
        }
        /* A final `/` and `**`, the slash not escaped: an escaped one is a slash all the same, so it counts, too. */
        bool is_last = i + 1 == pattern.len;
        if (dialect == GLOB_PATH && is_last && stars >= 2 && count > 0 && out[count - 1] == '/')
            out[count - 1] = GLOB_TREE;
        else
            out[count++] = dialect == GLOB_TEXT || stars >= 2 ? GLOB_ANY : GLOB_SEGMENT;
    }
    return count;
}

/* ---- The table: which prefixes of the tokens match the value so far ----------------------------------------- */

/* Wildcards match nothing, too: whoever stands before one also stands behind it. */
static void close_over(const glob_token *tokens, size_t count, bool *reached)
{
    for (size_t j = 0; j < count; j++)
        if (reached[j] && tokens[j] >= GLOB_SEGMENT)
            reached[j + 1] = true;
}

/* One byte of the value. From the right, so that each place still sees the row before it. */
static void advance(const glob_token *tokens, size_t count, bool *reached, unsigned char c)
{
    for (size_t j = count + 1; j-- > 0;) {
        bool stays =
            j < count && reached[j] && (tokens[j] == GLOB_ANY || (tokens[j] == GLOB_SEGMENT && c != '/'));
        bool comes = j > 0 && reached[j - 1] && tokens[j - 1] == c;
        reached[j] = stays || comes;
    }
}

static bool run_table(const glob_token *tokens, size_t count, struct slice value)
{
    bool reached[GLOB_MAX + 1] = { true };
    bool has_tree = count > 0 && tokens[count - 1] == GLOB_TREE;
    close_over(tokens, count, reached);
    for (size_t i = 0; i < value.len; i++) {
        if (has_tree && reached[count - 1] && value.at[i] == '/')
            return true;
        advance(tokens, count, reached, (unsigned char)value.at[i]);
        close_over(tokens, count, reached);
    }
    return reached[count];
}

/* ---- Greedy, with a budget ---------------------------------------------------------------------------------- */

/* Where to go on after a mismatch: behind the wildcard `token`, with the value from `at`. */
struct restart {
    size_t token, at;
    bool is_set;
};

enum verdict { NO, YES, UNKNOWN };

/* After a mismatch at *at: let a wildcard take one byte more. */
static bool take_more(struct restart *segment, struct restart *any, struct slice value, size_t *token,
                      size_t *at)
{
    if (segment->is_set && segment->at < value.len && value.at[segment->at] != '/') {
        *token = segment->token;
        *at = ++segment->at;
        return true;
    }
    segment->is_set = false;
    if (any->is_set && any->at < value.len) {
        *token = any->token;
        *at = ++any->at;
        return true;
    }
    return false;
}

static enum verdict run_greedy(const glob_token *tokens, size_t count, struct slice value)
{
    struct restart segment = { 0 }, any = { 0 };
    size_t budget = 8 * (count + value.len) + 64;
    size_t token = 0, at = 0;
    for (;;) {
        if (budget-- == 0)
            return UNKNOWN;
        if (token == count && at == value.len)
            return YES;
        if (token < count && tokens[token] == GLOB_TREE && (at == value.len || value.at[at] == '/'))
            return YES;
        if (token < count && tokens[token] == GLOB_SEGMENT) {
            segment = (struct restart){ ++token, at, true };
        } else if (token < count && tokens[token] == GLOB_ANY) {
            any = (struct restart){ ++token, at, true };
            segment.is_set = false;
            if (token == count)
                return YES;
        } else if (token < count && at < value.len && tokens[token] == (unsigned char)value.at[at]) {
            token++;
            at++;
        } else if (!take_more(&segment, &any, value, &token, &at)) {
            return NO;
        }
    }
}

bool glob_run(const glob_token *tokens, size_t count, struct slice value)
{
    enum verdict verdict = run_greedy(tokens, count, value);
    return verdict == UNKNOWN ? run_table(tokens, count, value) : verdict == YES;
}

bool glob_match(struct slice pattern, struct slice value, enum glob_dialect dialect)
{
    glob_token tokens[GLOB_MAX];
    if (pattern.len > GLOB_MAX)
        return false;
    return glob_run(tokens, glob_compile(pattern, dialect, tokens), value);
}
