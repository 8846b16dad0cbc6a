// SPDX-License-Identifier: Apache-2.0
/* schema_limit.c - the fields of a limit. schema_shape.c says what they mean together. */
#include <stdio.h>
#include <stdlib.h>

#include "rule/throttle.h"

/* ---- Fields with a form of their own ----------------------------------------------------------------------------- */

static bool limit_name_is_valid(struct slice name)
{
    if (name.len == 0 || name.len > WEIR_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!is_letter && (i == 0 || (c != '.' && c != '_' && c != '-')))
            return false;
    }
    return true;
}

static void parse_name(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rule *rule = into;
    const char *problem = node_scalar_problem(value);
    if (problem == NULL && !limit_name_is_valid(value->text))
        problem = "is not a limit's name";
    if (problem == NULL && slice_equals(value->text, SLICE(THROTTLE_NAME)))
        problem = "is the name of what CL.THROTTLE counts";
    if (problem == NULL && value->text.len >= sizeof OWN_PREFIX - 1
        && memcmp(value->text.at, OWN_PREFIX, sizeof OWN_PREFIX - 1) == 0)
        problem = "begins as what counts limits of Envoy's descriptors";
    if (problem == NULL)
        rule->limit.name = region_copy(load->region, value->text).at;
    else if (value->kind != NODE_BAD)
        diagnostics_add(load->diagnostics, WEIR_SEVERITY_ERROR, value->place,
                        "a name is 1 to 63 of a-z, 0-9, '.', '_' and '-', and begins with a letter or digit",
                        "%s '%.*s' %s", field->name, (int)(value->text.len > 64 ? 64 : value->text.len),
                        value->text.at == NULL ? "" : value->text.at, problem);
}

static void parse_key(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rule *rule = into;
    if (!schema_is_list(load, field->name, value,
                        "write a list such as `key: [tenant]`, or `key: []` for one budget"))
        return;
    if (value->count > WEIR_ATTRIBUTES_MAX) {
        schema_error(load, field->name, value, "a request has no more", "has more than %d attributes",
                     WEIR_ATTRIBUTES_MAX);
        return;
    }
    uint16_t *key = REGION_NEW(load->region, uint16_t, value->count + 1);
    for (const struct node *name = value->first; key != NULL && name != NULL; name = name->next) {
        unsigned number = schema_attribute(load, field->name, name);
        bool is_twice = false;
        for (size_t i = 0; i < rule->key_count; i++)
            is_twice = is_twice || key[i] == number;
        if (number == ATTRIBUTE_NONE)
            continue;
        if (is_twice)
            schema_error(load, field->name, name, "name it once", "is in the list twice");
        else
            key[rule->key_count++] = (uint16_t)number;
    }
    rule->key = key;
}

static const char *align_forms =
    "write epoch, first-request, or calendar ZONE with a zone such as UTC or Europe/Berlin";

static void parse_align(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rule *rule = into;
    const struct slice calendar = SLICE("calendar");
    const char *problem = node_scalar_problem(value);
    struct slice text = value->text;
    if (problem == NULL && slice_equals(text, SLICE("epoch")))
        rule->limit.align = WEIR_ALIGN_EPOCH;
    else if (problem == NULL && slice_equals(text, SLICE("first-request")))
        rule->limit.align = WEIR_ALIGN_FIRST_REQUEST;
    else if (problem == NULL && slice_equals(text, calendar))
        problem = "has no time zone";
    else if (problem == NULL && text.len > calendar.len + 1
             && memcmp(text.at, "calendar ", calendar.len + 1) == 0) {
        rule->limit.align = WEIR_ALIGN_CALENDAR;
        rule->limit.zone = region_copy(load->region, (struct slice){ text.at + 9, text.len - 9 }).at;
        rule->is_calendar = true;
    } else if (problem == NULL)
        problem = "is no alignment";
    if (problem != NULL && value->kind != NODE_BAD)
        schema_error(load, field->name, value, align_forms, "%s", problem);
}

/* Read behind the others, whose values it needs. */
static void parse_behind(struct load *load, const struct field *field, const struct node *value, void *into)
{
    (void)load;
    (void)field;
    (void)value;
    (void)into;
}

/* ---- The table ------------------------------------------------------------------------------------------------------ */

static const struct word algorithms[] = {
    { "token-bucket", WEIR_TOKEN_BUCKET, NULL }, { "leaky-bucket", WEIR_LEAKY_BUCKET, NULL },
    { "fixed-window", WEIR_FIXED_WINDOW, NULL }, { "sliding-window", WEIR_SLIDING_WINDOW, NULL },
    { "sliding-log", WEIR_SLIDING_LOG, NULL },   { "leaky-queue", WEIR_LEAKY_QUEUE, NULL },
    { "concurrency", WEIR_CONCURRENCY, NULL },   { NULL, 0, NULL },
};
static const struct word missing_keys[] = {
    { "skip", MISSING_SKIP, NULL },
    { "share", MISSING_SHARE, NULL },
    { "refuse", MISSING_REFUSE, NULL },
    { NULL, 0, NULL },
};
static const struct word when_fulls[] = {
    { "overflow", WEIR_FULL_OVERFLOW, NULL },
    { "closed", WEIR_FULL_CLOSED, NULL },
    { "evict-least", WEIR_FULL_EVICT_LEAST, NULL },
    { "open", WEIR_FULL_OPEN, NULL },
    { NULL, 0, NULL },
};
static const struct word refuseds[] = { { "free", WEIR_REFUSAL_FREE, NULL },
                                        { "charged", WEIR_REFUSAL_CHARGED, NULL },
                                        { NULL, 0, NULL } };
static const struct word retrieses[] = { { "counted", 0, NULL }, { NULL, 0, NULL } };
static const struct word waits[] = { { "never", 0, NULL }, { NULL, 0, NULL } };
static const struct word scopes[] = {
    { "process", SCOPE_PROCESS, NULL },
    { "fleet", SCOPE_FLEET, NULL },
    { "host", 0, "a budget shared by a host" },
    { NULL, 0, NULL },
};
static const struct word store_fails[] = { { "closed", WEIR_STORE_CLOSED, NULL },
                                           { "open", WEIR_STORE_OPEN, NULL },
                                           { "leased", WEIR_STORE_LEASED, NULL },
                                           { NULL, 0, NULL } };
static const struct word states_lost[] = { { "full", WEIR_LOST_FULL, NULL },
                                           { "empty", WEIR_LOST_EMPTY, NULL },
                                           { NULL, 0, NULL } };
static const struct word enforces[] = {
    { "always", WEIR_ENFORCE_ALWAYS, NULL },
    { "shadow", WEIR_ENFORCE_SHADOW, NULL },
    { "off", WEIR_ENFORCE_OFF, NULL },
    { NULL, 0, NULL },
};

#define RULE(member) offsetof(struct rule, member)
#define COST_MAX INT64_MAX

static const struct field fields[LIMIT_FIELD_COUNT] = {
    [LIMIT_NAME] = { "name", parse_name, "name", 0, .is_required = true,
                     .sentence = "give the limit a name of its own: answers, logs and metrics call it so" },
    [LIMIT_ABOUT] = { "about", parse_text, "text", RULE(about),
                      .sentence = "say in a sentence what the limit is for" },
    [LIMIT_WHEN] = { "when", parse_when, "map", 0, .fallback = "every request",
                     .sentence = "say which requests the limit is for" },
    [LIMIT_KEY] = { "key", parse_key, "list of attributes", 0, .is_required = true,
                    .sentence =
                        "say whose budget it is: `key: [tenant]`, or `key: []` for one budget for everybody" },
    [LIMIT_MISSING_KEY] = { "missing-key", parse_word, "word", RULE(missing_key), .words = missing_keys,
                            .fallback = "skip",
                            .sentence = "what happens to a request that lacks a key attribute" },
    [LIMIT_ALGORITHM] = { "algorithm", parse_word, "word", RULE(algorithm), .words = algorithms,
                          .fallback = "token-bucket", .sentence = "the shape of the limit" },
    [LIMIT_RATE] = { "rate", parse_rate, "COUNT/[N]UNIT", RULE(rate), .sentence = "say how fast: `rate: 5/s`" },
    [LIMIT_BURST] = { "burst", parse_integer, "integer", RULE(burst), .max = COST_MAX,
                      .sentence = "say how many may pass at once: `burst: 20`" },
    [LIMIT_AT_MOST] = { "at-most", parse_integer, "integer", RULE(limit.at_most), .min = 1,
                        .max = WEIR_AT_MOST_MAX, .sentence = "say how many may run at once: `at-most: 4`" },
    [LIMIT_HOLD] = { "hold", parse_duration, "duration", RULE(limit.hold), .min = WEIR_MILLISECOND,
                     .max = WEIR_HORIZON,
                     .sentence = "say when a permit that nobody renews returns by itself: `hold: 30s`" },
    [LIMIT_ALIGN] = { "align", parse_align, "epoch, first-request or calendar ZONE", 0, .fallback = "epoch",
                      .sentence = "where windows start" },
    [LIMIT_COST] = { "cost", parse_cost, "integer or map", RULE(cost), .min = 1, .max = COST_MAX,
                     .fallback = "1", .sentence = "what one request costs" },
    [LIMIT_DEBT] = { "debt", parse_integer, "integer", RULE(debt), .max = COST_MAX, .fallback = "0",
                     .sentence = "how far a settlement may overdraw" },
    [LIMIT_REFUSED] = { "refused", parse_word, "word", RULE(refused), .words = refuseds, .fallback = "free",
                        .sentence = "whether a refused request consumes" },
    [LIMIT_RETRIES] = { "retries", parse_retries, "word or map", 0, .words = retrieses, .fallback = "counted",
                        .sentence = "whether a retry counts again" },
    [LIMIT_WAIT] = { "wait", parse_wait, "word or map", 0, .words = waits, .fallback = "never",
                     .sentence = "say how long and how many may wait: `wait: { up-to: 2s, queue: 100 }`" },
    [LIMIT_SCOPE] = { "scope", parse_word, "word", RULE(scope), .words = scopes, .fallback = "process",
                      .sentence = "whether the budget is shared" },
    [LIMIT_LEASE] = { "lease", parse_lease, "map", 0, .fallback = "each request asks the store",
                      .sentence = "say how much replicas may hold: `lease: { most: 50, chunk: 10, for: 2s }`" },
    [LIMIT_WHEN_STORE_FAILS] = { "when-store-fails", parse_store_fails, "word or map", 0, .words = store_fails,
                                 .sentence = "say what happens while the store cannot be had: `closed`, "
                                             "`open`, `{ open: 30s }`, `{ local: 1/4 }` or, with a lease, "
                                             "`leased`" },
    [LIMIT_WHEN_FULL] = { "when-full", parse_word, "word", RULE(when_full), .words = when_fulls,
                          .fallback = "overflow", .sentence = "what a new key gets when the table is full" },
    [LIMIT_WHEN_STATE_LOST] = { "when-state-lost", parse_word, "word", RULE(state_lost), .words = states_lost,
                                .fallback = "full", .sentence = "how budgets begin after a restart" },
    [LIMIT_ENFORCE] = { "enforce", parse_enforce, "word or share", RULE(enforce), .words = enforces,
                        .fallback = "always", .sentence = "how hard the limit is" },
    [LIMIT_REPLY] = { "reply", parse_reply, "map", 0, .fallback = "429",
                      .sentence = "what a refusal by this limit looks like" },
    [LIMIT_OVERRIDES] = { "overrides", parse_behind, "list", 0, .fallback = "none",
                          .sentence = "which keys have numbers of their own" },
};

/* ---- One limit ------------------------------------------------------------------------------------------------------ */

/* By its name, or by its number where it has none yet. */
static struct owner owner_of(const struct node *limit, size_t index)
{
    struct owner owner = { .what = "limit", .number = index + 1 };
    if (limit->kind == NODE_MAP)
        for (const struct node *key = limit->first; key != NULL; key = key->next->next)
            if (slice_equals(key->text, SLICE("name")) && node_scalar_problem(key->next) == NULL)
                owner.name = key->next->text;
    return owner;
}

/* What keys are made of, so that a limit starts afresh when they are made of something else. */
static const char *key_form(struct load *load, const struct rule *rule)
{
    struct text form = { .region = load->scratch };
    const struct grouping *group = &load->rules->grouping;
    for (size_t i = 0; i < rule->key_count; i++) {
        const struct attribute_slot *slot = &load->rules->attributes.slots[rule->key[i]];
        text_put(&form, i == 0 ? "" : ",");
        text_add(&form, slot->name);
        if (slot->spelling == SPELLING_IP)
            text_format(&form, "/%u/%u", group->ipv4, group->ipv6);
    }
    return form.len == 0 ? "" : region_copy(load->region, (struct slice){ form.at, form.len }).at;
}

static void read_limit(struct load *load, const struct node *node, size_t index, struct rule *out)
{
    const struct node *given[LIMIT_FIELD_COUNT];
    struct rule reading = { .algorithm = -1, .burst = UINT64_MAX, .share_limit = WEIR_NO_LIMIT };
    struct rule *rule = &reading;

    load->owner = owner_of(node, index);
    bool is_read = schema_read(load, node, "a member of limits", fields, LIMIT_FIELD_COUNT, &reading, given);
    for (size_t i = 0; i < LIMIT_FIELD_COUNT; i++)
        rule->given |= given[i] == NULL ? 0 : UINT32_C(1) << i;
    if (rule->algorithm < 0 && given[LIMIT_ALGORITHM] == NULL)
        rule->algorithm = WEIR_TOKEN_BUCKET;
    if (rule->algorithm == WEIR_LEAKY_QUEUE && given[LIMIT_BURST] == NULL)
        rule->burst = 1;
    if (is_read && rule->algorithm >= 0) {
        rule->is_countable = schema_check_shape(load, rule, node, given, fields) && rule->limit.name != NULL;
        rule->limit.algorithm = (enum weir_algorithm)rule->algorithm;
        rule->limit.rate = (struct weir_quota){ rule->rate.count, rule->rate.period };
        rule->limit.burst = rule_is_bucket(rule) ? rule->burst : 0;
        rule->limit.when_full = (enum weir_when_full)rule->when_full;
        rule->limit.debt = rule->debt;
        rule->limit.refused = (enum weir_refusal)rule->refused;
        rule->limit.state_lost = (enum weir_state_lost)rule->state_lost;
        rule->limit.key_form = key_form(load, rule);
        rule->is_countable = schema_check_scope(load, rule, node, given, fields) && rule->is_countable;
        if (given[LIMIT_OVERRIDES] != NULL)
            schema_read_overrides(load, rule, given[LIMIT_OVERRIDES]);
    }
    load->owner = (struct owner){ 0 };
    *out = *rule;
}

/* ---- The list ------------------------------------------------------------------------------------------------------- */

void parse_limits(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rules *rules = into;
    if (!schema_is_list(load, field->name, value,
                        "write a list: `limits:` and below it `- name: ...` for each"))
        return;
    if (value->count > WEIR_LIMITS_MAX) {
        schema_error(load, field->name, value, "split the contract", "has more than %d members",
                     WEIR_LIMITS_MAX);
        return;
    }
    rules->list = REGION_NEW(load->region, struct rule, value->count + 1);
    if (rules->list == NULL)
        return;
    for (const struct node *node = value->first; node != NULL; node = node->next) {
        read_limit(load, node, rules->limit_count, &rules->list[rules->limit_count]);
        rules->limit_count++;
    }
}
