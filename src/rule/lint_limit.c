// SPDX-License-Identifier: Apache-2.0
/* lint_limit.c - what looks wrong in one limit alone: its shape for its purpose, its key, its cost. */
#include <stdio.h>

#include "rule/lint.h"

/* ---- Windows where somebody counts on their edges -------------------------------------------------------------------- */

/* Parts of paths behind which guessing pays. */
static const char *const sensitive[] = { "login",   "log-in",   "logon",  "signin", "sign-in", "signup",
                                         "sign-up", "password", "passwd", "token",  "reset",   "otp",
                                         "mfa",     "2fa",      "verify", "recover" };

static bool holds_word(struct slice text, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; len <= text.len && i <= text.len - len; i++)
        if (slice_equals_fold((struct slice){ text.at + i, len }, (struct slice){ word, len }))
            return true;
    return false;
}

/* Why somebody may want to break through the limit, or NULL: "/login" or the key ip. */
static const char *temptation(const struct rules *rules, const struct rule *rule, struct shown *into)
{
    for (size_t i = 0; i < rule->condition_count; i++) {
        const struct condition *condition = &rule->conditions[i];
        bool is_path = rules->attributes.slots[condition->attribute].spelling == SPELLING_PATH;
        for (size_t p = 0; is_path && !condition->is_negated && p < condition->pattern_count; p++)
            for (size_t w = 0; w < sizeof sensitive / sizeof *sensitive; w++)
                if (holds_word(condition->patterns[p], sensitive[w]))
                    return shown(condition->patterns[p], into);
    }
    for (size_t i = 0; i < rule->key_count; i++)
        if (rules->attributes.slots[rule->key[i]].spelling == SPELLING_IP)
            return "addresses";
    return NULL;
}

static bool has_no_edge(const struct rule *other, const struct rule *rule)
{
    (void)rule;
    return other->limit.algorithm != WEIR_FIXED_WINDOW && other->limit.algorithm != WEIR_CONCURRENCY;
}

static void lint_window(struct lint *lint, const struct binds *binds, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    struct shown what;
    const char *why = temptation(lint->rules, rule, &what);
    if (rule->limit.algorithm != WEIR_FIXED_WINDOW || rule->limit.align == WEIR_ALIGN_FIRST_REQUEST
        || why == NULL || rule->rate.count == 0 || binds_find(lint, binds, index, has_no_edge) != NULL)
        return;
    lint_warn(
        lint, index, "algorithm",
        "write `algorithm: sliding-window`, or a token-bucket, or add a small one beside it",
        "guards %s with a fixed window: whoever knows its edge gets %llu through at once, twice its count", why,
        (unsigned long long)bound_times(rule->rate.count, 2));
}

/* ---- Keys that anybody can write ---------------------------------------------------------------------------------------- */

/* Headers in which addresses are handed on. */
static bool is_address_header(struct slice name)
{
    static const char *const names[] = { "x-forwarded-for", "x-real-ip",          "x-client-ip",
                                         "client-ip",       "true-client-ip",     "cf-connecting-ip",
                                         "fly-client-ip",   "x-cluster-client-ip" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_equals_fold(name, slice_of(names[i])))
            return true;
    return false;
}

static const struct identity_source *source_of(const struct rules *rules, unsigned attribute)
{
    for (size_t i = 0; i < rules->source_count; i++)
        if (slice_equals(slice_of(rules->sources[i].attribute), rules->attributes.slots[attribute].name))
            return &rules->sources[i];
    return NULL;
}

static void lint_source(struct lint *lint, size_t index, const struct identity_source *source)
{
    static const char *const words[] = {
        [IDENTITY_HEADER] = "header", [IDENTITY_COOKIE] = "cookie", [IDENTITY_QUERY] = "query"
    };
    char cure[200];
    bool is_written =
        source->kind == IDENTITY_HEADER || source->kind == IDENTITY_COOKIE || source->kind == IDENTITY_QUERY;
    if (!is_written || source->only_authenticated || strcmp(source->attribute, "ip") == 0)
        return;
    if (source->kind == IDENTITY_HEADER && is_address_header(source->name)) {
        lint_warn(lint, index, "key",
                  "use the attribute ip, with `identity: { ip: { from: x-forwarded-for } }` and "
                  "`proxies`: it is grouped, and believed from proxies only",
                  "counts by '%s', an address as text: IPv6 is not grouped, so one client has 2^64 budgets, "
                  "and clients "
                  "without a proxy write it themselves",
                  source->attribute);
        return;
    }
    if (source->is_digest) /* of a secret: nobody can write another's */
        return;
    (void)snprintf(cure, sizeof cure, "write `%s: { from: \"%s:%.60s\", only: authenticated }` in identity",
                   source->attribute, words[source->kind], source->name.at == NULL ? "" : source->name.at);
    lint_warn(
        lint, index, "key", cure,
        "counts by '%s', which every client can write: it can spend another's budget, or take a new name for a "
        "fresh one",
        source->attribute);
}

static void lint_key(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    for (size_t i = 0; i < rule->key_count; i++) {
        const struct identity_source *source = source_of(lint->rules, rule->key[i]);
        if (source != NULL)
            lint_source(lint, index, source);
    }
}

/* ---- Costs -------------------------------------------------------------------------------------------------------------- */

/* What holds the costs, and how it can be made to hold more. */
static const char *holder(const struct rule *rule, const char **cure)
{
    *cure = "raise the burst to the largest cost, or lower the cost";
    if (rule->limit.algorithm == WEIR_LEAKY_QUEUE)
        *cure = "write `algorithm: leaky-bucket` with a burst of the largest cost; `wait` may stay";
    else if (rule->limit.algorithm == WEIR_CONCURRENCY)
        *cure = "raise at-most to the largest cost, or lower the cost";
    else if (!rule_is_bucket(rule))
        *cure = "raise the count of the rate to the largest cost, or lower the cost";
    return rule->limit.algorithm == WEIR_CONCURRENCY ? "at-most" : rule_is_bucket(rule) ? "burst" : "count";
}

static void lint_cost(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    uint64_t capacity = rule_capacity(rule);
    const char *cure, *what = holder(rule, &cure);
    if (capacity == 0)
        return;
    if (rule->has_cost_from && rule->cost_default > capacity)
        lint_warn(lint, index, "cost", cure,
                  "charges %llu where the request does not say, takes costs up to %llu, and its %s is %llu: a "
                  "request that does not say never passes, nor does one above the %s",
                  (unsigned long long)rule->cost_default, (unsigned long long)rule->cost_max, what,
                  (unsigned long long)capacity, what);
    else if (rule->has_cost_from && rule->cost_max > capacity)
        lint_warn(lint, index, "cost", cure,
                  "takes costs up to %llu, and its %s is %llu: a request above that never passes, however long "
                  "it waits",
                  (unsigned long long)rule->cost_max, what, (unsigned long long)capacity);
    else if (rule->cost > capacity)
        lint_warn(lint, index, "cost", cure,
                  "charges %llu for each request, and its %s is %llu: no request ever passes",
                  (unsigned long long)rule->cost, what, (unsigned long long)capacity);
}

void lint_limit(struct lint *lint, const struct binds *binds, size_t index)
{
    lint_window(lint, binds, index);
    lint_key(lint, index);
    lint_cost(lint, index);
    if (lint->rules->list[index].enforce == WEIR_ENFORCE_OFF)
        lint_warn(lint, index, "enforce",
                  "remove the limit, or write `enforce: shadow` to see what it would refuse",
                  "is off: it is neither counted nor enforced");
}
