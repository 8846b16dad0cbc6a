// SPDX-License-Identifier: Apache-2.0
/*
 * lint_when.c - a `when` that no request meets.
 *
 * Whether one pattern lies within another is shown by samples: its wildcards are filled with bytes that only a wildcard
 * can match, in as many forms as a wildcard tells apart. What a sample cannot show is not reported.
 */
#include "rule/lint.h"

/* Fillings for `*`, and for `**` of a path. The byte 1 is in no pattern: a contract's text cannot hold it. */
static const struct filling {
    const char *star, *stars;
} fillings[] = { { "", "" }, { "\1", "\1" }, { "\1", "\1/\1" }, { "\1\1", "/\1/\1/\1/" } };

/* The pattern with its wildcards filled; false when it does not fit. */
static bool fill(struct slice pattern, enum glob_dialect dialect, const struct filling *filling, char *out,
                 size_t size, size_t *len)
{
    *len = 0;
    for (size_t i = 0; i < pattern.len; i++) {
        size_t stars = 0;
        while (i + stars < pattern.len && pattern.at[i + stars] == '*')
            stars++;
        bool is_any = stars > 1 || (stars == 1 && dialect == GLOB_TEXT);
        const char *put = is_any ? filling->stars : filling->star;
        if (stars == 0) {
            i += pattern.at[i] == '\\' && i + 1 < pattern.len;
            put = NULL;
        } else {
            i += stars - 1;
        }
        size_t more = put == NULL ? 1 : strlen(put);
        if (*len + more > size)
            return false;
        memcpy(out + *len, put == NULL ? pattern.at + i : put, more);
        *len += more;
    }
    return true;
}

/* Whether all that `inner` matches is matched by `outer`. */
static bool is_inside(struct slice inner, struct slice outer, enum glob_dialect dialect)
{
    char sample[2 * GLOB_MAX];
    for (size_t i = 0; i < sizeof fillings / sizeof *fillings; i++) {
        size_t len;
        if (!fill(inner, dialect, &fillings[i], sample, sizeof sample, &len)
            || !glob_match(outer, (struct slice){ sample, len }, dialect))
            return false;
    }
    return true;
}

static bool networks_cover(const struct condition *outer, const struct network *inner)
{
    for (size_t i = 0; i < outer->network_count; i++)
        if (network_contains(&outer->networks[i], &inner->address)
            && outer->networks[i].length <= inner->length)
            return true;
    return false;
}

static bool patterns_cover(const struct condition *outer, struct slice inner)
{
    for (size_t i = 0; i < outer->pattern_count; i++)
        if (is_inside(inner, outer->patterns[i], outer->dialect))
            return true;
    return false;
}

/* Whether a negated condition excludes all that the other asks for. */
static bool excludes_all(const struct condition * not, const struct condition *in)
{
    size_t left = 0;
    if (not ->kind == CONDITION_ABSENT) /* `not: absent` is read as present */
        return in->kind == CONDITION_ABSENT;
    if (in->kind == CONDITION_ABSENT || in->kind != not ->kind)
        return false;
    for (size_t i = 0; i < in->network_count; i++)
        left += !networks_cover(not, &in->networks[i]);
    for (size_t i = 0; i < in->pattern_count; i++)
        left += !patterns_cover(not, in->patterns[i]);
    return left == 0;
}

/* `{ not: "*" }`: what remains are requests without the attribute. */
static bool excludes_everything(const struct condition *condition)
{
    static const struct network everything[] = { { { { [10] = 0xff, [11] = 0xff } }, 96 }, { { { 0 } }, 0 } };
    struct slice every = condition->dialect == GLOB_PATH ? SLICE("/**") : SLICE("*");
    if (!condition->is_negated)
        return false;
    if (condition->kind == CONDITION_GLOBS)
        return patterns_cover(condition, every);
    return condition->kind == CONDITION_NETWORKS && networks_cover(condition, &everything[0])
           && networks_cover(condition, &everything[1]);
}

static bool is_in_key(const struct rule *rule, unsigned attribute)
{
    for (size_t i = 0; i < rule->key_count; i++)
        if (rule->key[i] == attribute)
            return true;
    return false;
}

/* Methods are compared as they are sent, in capitals. */
static bool is_lower_method(const struct lint *lint, const struct condition *condition)
{
    if (!slice_equals(lint->rules->attributes.slots[condition->attribute].name, SLICE("method"))
        || condition->kind != CONDITION_GLOBS || condition->is_negated)
        return false;
    for (size_t p = 0; p < condition->pattern_count; p++)
        for (size_t i = 0; i < condition->patterns[p].len; i++)
            if (condition->patterns[p].at[i] >= 'A' && condition->patterns[p].at[i] <= 'Z')
                return false;
            else if (condition->patterns[p].at[i] >= 'a' && condition->patterns[p].at[i] <= 'z')
                return true;
    return false;
}

static void lint_condition(struct lint *lint, size_t index, size_t number)
{
    const struct rule *rule = &lint->rules->list[index];
    const struct condition *condition = &rule->conditions[number];
    const char *name = lint->rules->attributes.slots[condition->attribute].name.at;
    bool is_pair = number > 0 && rule->conditions[number - 1].attribute == condition->attribute;
    if (is_pair
        && (condition->is_negated || condition->kind == CONDITION_ABSENT
                ? excludes_all(condition, condition - 1)
                : (condition - 1)->kind == CONDITION_ABSENT))
        lint_warn(lint, index, "when", "leave out of `not` what the limit is meant for",
                  "never applies: what `in` asks of '%s', `not` excludes", name);
    else if (!is_pair && excludes_everything(condition))
        lint_warn(lint, index, "when", "write `absent`, or exclude less",
                  is_in_key(rule, condition->attribute) && rule->missing_key == MISSING_SKIP
                      ? "never applies: every value of '%s' is excluded, and a request without one is skipped"
                      : "excludes every value of '%s': it applies to requests without one only",
                  name);
    else if (is_lower_method(lint, condition))
        lint_warn(lint, index, "when", "write the method in capitals, such as POST",
                  "never applies: methods are compared as they are sent, in capitals");
}

void lint_when(struct lint *lint, size_t index)
{
    for (size_t i = 0; i < lint->rules->list[index].condition_count; i++)
        lint_condition(lint, index, i);
}
