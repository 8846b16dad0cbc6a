// SPDX-License-Identifier: Apache-2.0
/* json_out.c - one limit as a JSON object: every field of its table with the value in force. */
#include "rule/contract.h"
#include "rule/text.h"

static const char *const missing_key_words[] = {
    [MISSING_SKIP] = "skip", [MISSING_SHARE] = "share", [MISSING_REFUSE] = "refuse"
};
static const char *const when_full_words[] = { [WEIR_FULL_OVERFLOW] = "overflow",
                                               [WEIR_FULL_CLOSED] = "closed",
                                               [WEIR_FULL_EVICT_LEAST] = "evict-least",
                                               [WEIR_FULL_OPEN] = "open" };

static const char *const store_fails_words[] = { [WEIR_STORE_CLOSED] = "closed",
                                                 [WEIR_STORE_OPEN] = "open",
                                                 [WEIR_STORE_LOCAL] = "local",
                                                 [WEIR_STORE_LEASED] = "leased" };

const char *rule_missing_key(const struct rule *rule)
{
    return missing_key_words[rule->missing_key];
}

const char *rule_when_full(const struct rule *rule)
{
    return when_full_words[rule->limit.when_full];
}

void rule_align(struct text *text, const struct rule *rule)
{
    if (rule->limit.align == WEIR_ALIGN_CALENDAR)
        text_format(text, "calendar %s", rule->limit.zone);
    else
        text_put(text, rule->limit.align == WEIR_ALIGN_EPOCH ? "epoch" : "first-request");
}

void rule_enforce(struct text *text, const struct rule *rule)
{
    static const char *const words[] = {
        [WEIR_ENFORCE_ALWAYS] = "always", [WEIR_ENFORCE_SHADOW] = "shadow", [WEIR_ENFORCE_OFF] = "off"
    };
    if (rule->enforce == WEIR_ENFORCE_SHARE)
        text_format(text, "%u%%", rule->enforce_percent);
    else
        text_put(text, words[rule->enforce]);
}

void rule_store_fails(struct text *text, const struct rule *rule)
{
    char time[48];
    const struct store_policy *policy = &rule->store_fails;
    if (policy->word == WEIR_STORE_LOCAL) {
        text_format(text, "{ local: %u/%u }", (unsigned)policy->share, (unsigned)policy->share_of);
    } else if (policy->word == WEIR_STORE_OPEN && policy->open_for > 0) {
        duration_format(policy->open_for, time);
        text_format(text, "open for %s, then closed", time);
    } else {
        text_put(text, store_fails_words[policy->word]);
    }
}

weir_ns rule_window(const struct rule *rule)
{
    /* The longest that such a window can be: a promise about it must not be too short. */
    static const weir_ns calendar[] = { [WEIR_CALENDAR_DAY] = 25 * WEIR_HOUR,
                                        [WEIR_CALENDAR_WEEK] = WEIR_WEEK + WEIR_HOUR,
                                        [WEIR_CALENDAR_MONTH] = 31 * WEIR_DAY + WEIR_HOUR,
                                        [WEIR_CALENDAR_YEAR] = 366 * WEIR_DAY };
    if (rule->algorithm == WEIR_CONCURRENCY)
        return WEIR_NO_TIME; /* nothing comes back by time alone */
    if (rule->is_calendar)
        return calendar[rule->limit.calendar];
    if (!rule_is_bucket(rule))
        return rule->rate.period;
    if (rule->rate.count == 0)
        return WEIR_NO_TIME;
    weir_u128_ whole = (weir_u128_)rule->burst * rule->rate.period + (rule->rate.count - 1);
    whole /= rule->rate.count;
    return whole < WEIR_NO_TIME ? (weir_ns)whole : WEIR_NO_TIME;
}

/* ---- when ------------------------------------------------------------------------------------------------------ */

static void add_pattern(struct text *text, struct slice pattern)
{
    bool is_word = slice_equals(pattern, SLICE("present")) || slice_equals(pattern, SLICE("absent"));
    text_put(text, is_word ? "{\"is\":" : "");
    text_add_json(text, pattern);
    text_put(text, is_word ? "}" : "");
}

static void add_patterns(struct text *text, const struct condition *condition)
{
    bool is_networks = condition->kind == CONDITION_NETWORKS;
    size_t count = is_networks ? condition->network_count : condition->pattern_count;
    text_put(text, count == 1 ? "" : "[");
    for (size_t i = 0; i < count; i++) {
        char network[ADDRESS_TEXT_MAX];
        text_put(text, i == 0 ? "" : ",");
        if (is_networks) {
            size_t len = network_format(&condition->networks[i], network);
            text_add_json(text, (struct slice){ network, len });
        } else {
            add_pattern(text, condition->patterns[i]);
        }
    }
    text_put(text, count == 1 ? "" : "]");
}

/* What one attribute must be, as it could stand behind `in`. */
static void add_half(struct text *text, const struct condition *condition)
{
    if (condition->kind == CONDITION_PRESENT || condition->kind == CONDITION_ABSENT) {
        text_put(text, condition->kind == CONDITION_PRESENT ? "\"present\"" : "\"absent\"");
        return;
    }
    add_patterns(text, condition);
}

size_t condition_json(struct text *text, const struct condition *conditions, size_t count)
{
    bool is_pair = count > 1 && conditions[1].attribute == conditions[0].attribute;
    text_put(text, is_pair ? "{\"in\":" : conditions[0].is_negated ? "{\"not\":" : "");
    add_half(text, &conditions[0]);
    if (is_pair) {
        text_put(text, ",\"not\":");
        add_half(text, &conditions[1]);
    }
    text_put(text, is_pair || conditions[0].is_negated ? "}" : "");
    return is_pair ? 2 : 1;
}

/* ---- The object -------------------------------------------------------------------------------------------------- */

static void add_matching(struct text *text, const struct rules *rules, const struct rule *rule)
{
    const struct attribute_slot *slots = rules->attributes.slots;
    text_put(text, ",\"when\":{");
    for (size_t i = 0; i < rule->condition_count;) {
        text_put(text, i == 0 ? "" : ",");
        text_add_json(text, slots[rule->conditions[i].attribute].name);
        text_put(text, ":");
        i += condition_json(text, &rule->conditions[i], rule->condition_count - i);
    }
    text_put(text, "},\"key\":[");
    for (size_t i = 0; i < rule->key_count; i++) {
        text_put(text, i == 0 ? "" : ",");
        text_add_json(text, slots[rule->key[i]].name);
    }
    text_put(text, "],\"missing_key\":\"");
    text_put(text, rule_missing_key(rule));
}

static void add_number_or_null(struct text *text, uint64_t number, bool is_known)
{
    if (is_known)
        text_number(text, number);
    else
        text_put(text, "null");
}

static void add_shape(struct text *text, const struct rule *rule)
{
    text_put(text, "\",\"algorithm\":\"");
    text_put(text, weir_algorithm_name(rule->limit.algorithm));
    bool is_concurrency = rule->algorithm == WEIR_CONCURRENCY;
    text_put(text, is_concurrency ? "\",\"rate\":null" : "\",\"rate\":\"");
    if (!is_concurrency) {
        rate_format(&rule->rate, text);
        text_put(text, "\"");
    }
    text_put(text, ",\"period\":");
    text_add_seconds(text, rule->is_calendar || is_concurrency ? WEIR_NO_TIME : rule->rate.period);
    text_put(text, ",\"burst\":");
    add_number_or_null(text, rule->burst, rule_is_bucket(rule));
    text_put(text, ",\"at_most\":");
    add_number_or_null(text, rule->limit.at_most, is_concurrency);
    text_put(text, ",\"hold\":");
    text_add_seconds(text, is_concurrency ? rule->limit.hold : WEIR_NO_TIME);
    text_put(text, ",\"align\":");
    if (rule->limit.algorithm == WEIR_FIXED_WINDOW) {
        text_put(text, "\"");
        rule_align(text, rule); /* a zone that loaded has no character that JSON would escape */
        text_put(text, "\"");
    } else {
        text_put(text, "null");
    }
}

static void add_cost(struct text *text, const struct rules *rules, const struct rule *rule)
{
    text_put(text, ",\"cost\":");
    if (rule->has_cost_from) {
        text_put(text, "{\"from\":");
        text_add_json(text, rules->attributes.slots[rule->cost_from].name);
        text_put(text, ",\"default\":");
        text_number(text, rule->cost_default);
        text_put(text, ",\"max\":");
        add_number_or_null(text, rule->cost_max, rule->cost_max != INT64_MAX);
        text_put(text, "}");
    } else {
        add_number_or_null(text, rule->cost, rule->cost > 0); /* null: what the request says */
    }
    text_put(text, ",\"debt\":");
    add_number_or_null(text, rule->debt, rule_is_bucket(rule));
}

static void add_retries(struct text *text, const struct rules *rules, const struct rule *rule)
{
    text_put(text, ",\"retries\":");
    if (rule->limit.retries_free_within == 0) {
        text_put(text, "\"counted\"");
        return;
    }
    text_put(text, "{\"free_within\":");
    text_add_seconds(text, rule->limit.retries_free_within);
    text_put(text, ",\"by\":");
    text_add_json(text, rules->attributes.slots[rule->retry_by].name);
    text_put(text, "}");
}

static void add_wait(struct text *text, const struct rule *rule)
{
    text_put(text, ",\"wait\":");
    if (!rule_waits(rule)) {
        text_put(text, "\"never\"");
        return;
    }
    text_put(text, "{\"up_to\":");
    text_add_seconds(text, rule->limit.wait.up_to);
    text_format(text, ",\"queue\":%u}", (unsigned)rule->limit.wait.queue);
}

static void add_reply(struct text *text, const struct rule *rule)
{
    text_put(text, ",\"reply\":{\"status\":");
    text_number(text, rule->reply_status == 0 ? 429 : rule->reply_status);
    text_put(text, ",\"title\":");
    text_json_or_null(text, rule->reply_title);
    text_put(text, ",\"detail\":");
    text_json_or_null(text, rule->reply_detail);
    text_put(text, "}");
}

/* A hundred thousand of them would be no answer. */
static void add_overrides(struct text *text, const struct rule *rule)
{
    const struct override_facts *facts = &rule->overrides;
    bool has_sizes = facts->count > facts->unlimited;
    text_put(text, ",\"overrides\":{\"count\":");
    text_number(text, facts->count);
    text_put(text, ",\"unlimited\":");
    text_number(text, facts->unlimited);
    text_put(text, ",\"least\":");
    add_number_or_null(text, facts->least, has_sizes);
    text_put(text, ",\"most\":");
    add_number_or_null(text, facts->most, has_sizes);
    text_put(text, "}}");
}

static void add_lease(struct text *text, const struct rule *rule)
{
    if (!rule_is_leased(rule)) {
        text_put(text, ",\"lease\":null");
        return;
    }
    text_put(text, ",\"lease\":{\"most\":");
    text_number(text, rule->lease.most);
    text_put(text, ",\"chunk\":");
    text_number(text, rule->lease.chunk);
    text_put(text, ",\"for\":");
    text_add_seconds(text, rule->lease.duration);
    text_put(text, "}");
}

/* Who shares it; and of a fleet, what happens without the store, and the tick that the store counts in. */
static void add_scope(struct text *text, const struct rule *rule)
{
    const struct store_policy *policy = &rule->store_fails;
    if (!rule_is_shared(rule)) {
        text_put(text, ",\"scope\":\"process\",\"when_store_fails\":null,\"lease\":null,\"store_tick\":null");
        return;
    }
    text_put(text, ",\"scope\":\"fleet\",\"when_store_fails\":");
    if (policy->word == WEIR_STORE_LOCAL) {
        text_format(text, "{\"local\":\"%u/%u\"}", (unsigned)policy->share, (unsigned)policy->share_of);
    } else if (policy->word == WEIR_STORE_OPEN && policy->open_for > 0) {
        text_put(text, "{\"open\":");
        text_add_seconds(text, policy->open_for);
        text_put(text, "}");
    } else {
        text_format(text, "\"%s\"", store_fails_words[policy->word]);
    }
    add_lease(text, rule);
    text_put(text, ",\"store_tick\":");
    text_add_seconds(text, rule->shared.tick);
}

void rule_json(struct text *text, const struct rules *rules, const struct rule *rule)
{
    text_put(text, "{\"name\":");
    text_json_or_null(text, rule->limit.name);
    text_put(text, ",\"about\":");
    text_json_or_null(text, rule->about);
    add_matching(text, rules, rule);
    add_shape(text, rule);
    add_cost(text, rules, rule);
    text_put(text, ",\"refused\":\"");
    text_put(text, rule->refused == WEIR_REFUSAL_CHARGED ? "charged" : "free");
    text_put(text, "\"");
    add_retries(text, rules, rule);
    add_wait(text, rule);
    add_scope(text, rule);
    text_put(text, ",\"when_full\":\"");
    text_put(text, rule_when_full(rule));
    text_put(text, "\",\"when_state_lost\":\"");
    text_put(text, rule->state_lost == WEIR_LOST_EMPTY ? "empty" : "full");
    text_put(text, "\",\"enforce\":\"");
    rule_enforce(text, rule);
    text_put(text, "\"");
    add_reply(text, rule);
    add_overrides(text, rule);
}
