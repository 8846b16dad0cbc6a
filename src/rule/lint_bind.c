// SPDX-License-Identifier: Apache-2.0
/*
 * lint_bind.c - limits that can never refuse, because another refuses first.
 *
 * Limit A is idle when another, B, counts at least what A counts (its `when` asks for no more, its key is no finer, costs
 * are the same), and whatever B lets through in any interval A would let through as well. Then A's state is never below
 * B's. The curves are those of bound.h; windows on one grid are compared exactly.
 */
#include <stdlib.h>

#include "rule/lint.h"

/* ---- Who counts at least as much ------------------------------------------------------------------------------------------ */

static bool same_patterns(const struct condition *x, const struct condition *y)
{
    if (x->pattern_count != y->pattern_count || x->network_count != y->network_count)
        return false;
    for (size_t i = 0; i < x->pattern_count; i++)
        if (!slice_equals(x->patterns[i], y->patterns[i]))
            return false;
    for (size_t i = 0; i < x->network_count; i++)
        if (x->networks[i].length != y->networks[i].length
            || memcmp(&x->networks[i].address, &y->networks[i].address, sizeof x->networks[i].address) != 0)
            return false;
    return true;
}

static bool same_condition(const struct condition *x, const struct condition *y)
{
    return x->attribute == y->attribute && x->kind == y->kind && x->is_negated == y->is_negated
           && same_patterns(x, y);
}

bool bind_asks_no_more(const struct rule *other, const struct rule *rule)
{
    for (size_t i = 0; i < other->condition_count; i++) {
        bool is_shared = false;
        for (size_t j = 0; !is_shared && j < rule->condition_count; j++)
            is_shared = same_condition(&other->conditions[i], &rule->conditions[j]);
        if (!is_shared)
            return false;
    }
    return true;
}

static bool is_coarser(const struct rule *other, const struct rule *rule)
{
    for (size_t i = 0; i < other->key_count; i++) {
        bool is_shared = false;
        for (size_t j = 0; j < rule->key_count; j++)
            is_shared = is_shared || other->key[i] == rule->key[j];
        if (!is_shared)
            return false;
    }
    return other->missing_key == rule->missing_key || rule->missing_key == MISSING_SKIP
           || other->key_count == 0;
}

static bool same_cost(const struct rule *x, const struct rule *y)
{
    return x->cost == y->cost && x->has_cost_from == y->has_cost_from
           && (!x->has_cost_from
               || (x->cost_from == y->cost_from && x->cost_default == y->cost_default
                   && x->cost_max == y->cost_max));
}

/* Sizes of their own, debts and free retries make a limit more or less than its numbers. */
static bool is_plain(const struct rule *rule)
{
    return rule->overrides.count == 0 && rule->debt == 0 && rule->limit.retries_free_within == 0
           && rule->limit.when_full != WEIR_FULL_OPEN && rule->limit.when_full != WEIR_FULL_EVICT_LEAST;
}

static bool covers(const struct rule *other, const struct rule *rule)
{
    return other != rule && other->enforce == WEIR_ENFORCE_ALWAYS && is_plain(other) && is_coarser(other, rule)
           && bind_asks_no_more(other, rule);
}

/* ---- An index ---------------------------------------------------------------------------------------------------------------- */

/* Limits by their first condition: one that covers another has its first condition among the other's. */
struct bind {
    uint64_t hash; /* 0: without conditions */
    uint32_t rule;
};

struct binds {
    struct bind *sorted;
    size_t count;
};

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_condition(const struct condition *condition)
{
    uint64_t hash =
        hash_bytes(UINT64_C(0xcbf29ce484222325), &condition->attribute, sizeof condition->attribute);
    hash = hash * 8 + (uint64_t)condition->kind * 2 + condition->is_negated;
    for (size_t i = 0; i < condition->pattern_count; i++)
        hash = hash_bytes(hash, condition->patterns[i].at, condition->patterns[i].len);
    for (size_t i = 0; i < condition->network_count; i++)
        hash = hash_bytes(hash, &condition->networks[i].address, sizeof condition->networks[i].address);
    return hash | 1;
}

static int compare_binds(const void *x, const void *y)
{
    const struct bind *a = x, *b = y;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return (a->rule > b->rule) - (a->rule < b->rule);
}

struct binds *binds_new(struct lint *lint)
{
    size_t count = lint->rules->limit_count;
    struct binds *binds = REGION_NEW(lint->load->scratch, struct binds, 1);
    struct bind *sorted = REGION_NEW(lint->load->scratch, struct bind, count + 1);
    if (binds == NULL || sorted == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const struct rule *rule = &lint->rules->list[i];
        sorted[i] =
            (struct bind){ rule->condition_count == 0 ? 0 : hash_condition(&rule->conditions[0]), (uint32_t)i };
    }
    qsort(sorted, count, sizeof *sorted, compare_binds);
    *binds = (struct binds){ sorted, count };
    return binds;
}

static const struct rule *find_among(const struct lint *lint, const struct binds *binds, uint64_t hash,
                                     const struct rule *rule, bind_fits *fits)
{
    size_t low = 0, high = binds->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (binds->sorted[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < binds->count && binds->sorted[low].hash == hash; low++) {
        const struct rule *other = &lint->rules->list[binds->sorted[low].rule];
        if (fits(other, rule) && covers(other, rule))
            return other;
    }
    return NULL;
}

const struct rule *binds_find(const struct lint *lint, const struct binds *binds, size_t index, bind_fits *fits)
{
    const struct rule *rule = &lint->rules->list[index];
    const struct rule *found = find_among(lint, binds, 0, rule, fits);
    for (size_t i = 0; found == NULL && i < rule->condition_count; i++)
        found = find_among(lint, binds, hash_condition(&rule->conditions[i]), rule, fits);
    return found;
}

/* ---- Whose curve lies below --------------------------------------------------------------------------------------------------- */

/* A calendar's windows count as their shortest in what is admitted, as their longest in what is allowed. */
static weir_ns shortest(const struct rule *rule)
{
    static const weir_ns calendar[] = { [WEIR_CALENDAR_DAY] = 22 * WEIR_HOUR,
                                        [WEIR_CALENDAR_WEEK] = 166 * WEIR_HOUR,
                                        [WEIR_CALENDAR_MONTH] = 670 * WEIR_HOUR,
                                        [WEIR_CALENDAR_YEAR] = 8758 * WEIR_HOUR };
    return rule->is_calendar ? calendar[rule->limit.calendar] : rule->rate.period;
}

static bool is_slower(const struct rule *other, const struct rule *rule)
{
    return (weir_u128_)other->rate.count * rule->rate.period <= (weir_u128_)rule->rate.count * shortest(other);
}

/* Whether windows of `inner` never straddle an edge of `outer`'s. */
static bool is_nested(const struct rule *inner, const struct rule *outer)
{
    bool is_grid = inner->limit.algorithm == WEIR_FIXED_WINDOW && outer->limit.algorithm == WEIR_FIXED_WINDOW
                   && inner->limit.align == WEIR_ALIGN_EPOCH;
    if (!is_grid)
        return false;
    if (outer->limit.align == WEIR_ALIGN_EPOCH)
        return outer->rate.period % inner->rate.period == 0;
    return outer->is_calendar && strcmp(outer->limit.zone, "UTC") == 0 && WEIR_DAY % inner->rate.period == 0;
}

/* Whether `rule` has a permit whenever `other` has one: permits are given, renewed and returned together. */
static bool holds_longer(const struct rule *other, const struct rule *rule)
{
    return other->limit.algorithm == rule->limit.algorithm && other->limit.at_most <= rule->limit.at_most
           && other->limit.hold >= rule->limit.hold;
}

/* Whether `rule` would admit all that `other` lets through. */
static bool is_within(const struct rule *other, const struct rule *rule)
{
    if (other->limit.algorithm == WEIR_CONCURRENCY || rule->limit.algorithm == WEIR_CONCURRENCY)
        return holds_longer(other, rule);
    if (rule_capacity(other) == 0)
        return true;
    if (rule_capacity(other) > rule_capacity(rule))
        return false;
    if (rule_is_bucket(rule)) {
        bool is_doubled = other->limit.algorithm == WEIR_FIXED_WINDOW;
        return is_slower(other, rule) && bound_times(rule_capacity(other), is_doubled ? 2 : 1) <= rule->burst;
    }
    if (is_nested(rule, other))
        return true; /* each of its windows lies in one of the other's */
    if (is_nested(other, rule))
        return bound_times(other->rate.count, rule->rate.period / other->rate.period) <= rule->rate.count;
    bool is_alike = other->limit.algorithm == rule->limit.algorithm && other->limit.align == WEIR_ALIGN_EPOCH
                    && rule->limit.align == WEIR_ALIGN_EPOCH && other->is_calendar == rule->is_calendar
                    && !rule->is_calendar && other->rate.period == rule->rate.period;
    if (is_alike)
        return true; /* the same windows, with a smaller count */
    weir_ns length = rule_window(rule);
    bool is_weighted = rule->limit.algorithm == WEIR_SLIDING_WINDOW; /* looks back two windows */
    return bound_in(other, (is_weighted ? 2 * length : length) - 1) <= rule->rate.count;
}

/* One replica's count says nothing of the fleet's, nor the other way round while the store is away. */
static bool same_scope(const struct rule *x, const struct rule *y)
{
    const struct store_policy *a = &x->store_fails, *b = &y->store_fails;
    bool is_leased =
        rule_is_leased(x) || rule_is_leased(y); /* what is in other hands refuses, and outlives the store */
    return !is_leased && x->scope == y->scope && a->word == b->word && a->open_for == b->open_for
           && (uint64_t)a->share * b->share_of == (uint64_t)b->share * a->share_of;
}

static bool makes_idle(const struct rule *other, const struct rule *rule)
{
    if (!same_scope(other, rule) || !same_cost(other, rule) || !is_within(other, rule))
        return false;
    bool is_mutual = same_cost(rule, other) && is_within(rule, other) && covers(rule, other);
    return !is_mutual || other < rule; /* of two alike the first holds */
}

void lint_bind(struct lint *lint, const struct binds *binds, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    if (!is_plain(rule) || rule->enforce == WEIR_ENFORCE_OFF || rule_capacity(rule) == 0)
        return;
    const struct rule *other = binds_find(lint, binds, index, makes_idle);
    if (other == NULL)
        return;
    if (rule->limit.algorithm == WEIR_CONCURRENCY)
        lint_warn(
            lint, index, "at-most", "remove one of the two, or correct its numbers",
            "can never refuse: '%s' counts the same requests, gives no more permits than this one and holds "
            "them no shorter",
            other->limit.name);
    else
        lint_warn(
            lint, index, "rate", "remove one of the two, or correct its numbers",
            "can never refuse: '%s' counts the same requests and admits no more than this one in any time",
            other->limit.name);
}
