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

/* Where to go on after a mismatch: behind the wildcard, at its next token, with the value from `at`. */
struct restart {
    size_t token, at;
    bool is_set;
};

struct greedy {
    const glob_token *tokens;
    size_t count;
    struct slice value;
    size_t token, at; /* the next of each */
    struct restart segment, any;
};

enum verdict { NO, YES, UNKNOWN };

/* From `at`, the first place where `token` can begin; past the end where there is none. */
static size_t seek(const struct greedy *greedy, size_t token, size_t at)
{
    if (token == greedy->count || greedy->tokens[token] >= GLOB_SEGMENT || at >= greedy->value.len)
        return at;
    const char *place = memchr(greedy->value.at + at, greedy->tokens[token], greedy->value.len - at);
    return place == NULL ? greedy->value.len + 1 : (size_t)(place - greedy->value.at);
}

/* Let the wildcard before `token` take what it must, from `at` on. False: there is no place behind it. */
static bool enter_any(struct greedy *greedy, size_t token, size_t at)
{
    at = seek(greedy, token, at);
    greedy->any = (struct restart){ token, at, true };
    greedy->segment.is_set = false;
    greedy->token = token;
    greedy->at = at;
    return at <= greedy->value.len;
}

/* After a mismatch: let a wildcard take more. */
static bool take_more(struct greedy *greedy)
{
    struct restart *segment = &greedy->segment;
    if (segment->is_set && segment->at < greedy->value.len && greedy->value.at[segment->at] != '/') {
        greedy->token = segment->token;
        greedy->at = ++segment->at;
        return true;
    }
    return greedy->any.is_set && greedy->any.at < greedy->value.len
           && enter_any(greedy, greedy->any.token, greedy->any.at + 1);
}

static enum verdict run_greedy(const glob_token *tokens, size_t count, struct slice value)
{
    struct greedy greedy = { .tokens = tokens, .count = count, .value = value };
    for (size_t budget = 8 * (count + value.len) + 64; budget > 0; budget--) {
        size_t token = greedy.token, at = greedy.at;
        if (token == count) {
            if (at == value.len)
                return YES;
        } else if (tokens[token] < GLOB_SEGMENT) {
            if (at < value.len && tokens[token] == (unsigned char)value.at[at]) {
                greedy.token++;
                greedy.at++;
                continue;
            }
        } else if (tokens[token] == GLOB_SEGMENT) {
            greedy.segment = (struct restart){ ++greedy.token, at, true };
            continue;
        } else if (tokens[token] == GLOB_ANY) {
            if (token + 1 == count)
                return YES;
            if (!enter_any(&greedy, token + 1, at))
                return NO;
            continue;
        } else if (at == value.len || value.at[at] == '/') { /* GLOB_TREE */
            return YES;
        }
        if (!take_more(&greedy))
            return NO;
    }
    return UNKNOWN;
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
