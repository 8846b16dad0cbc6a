// SPDX-License-Identifier: Apache-2.0
/* explain_json.c - the same facts as one JSON object on one line. */
#include "rule/explain.h"

static void add_most(struct text *text, const char *name, const struct rule *rule, uint64_t replicas)
{
    text_format(text, ",\"%s\":{", name);
    for (int i = 0; i < SPAN_COUNT; i++) {
        text_format(text, "%s\"%s\":", i == 0 ? "" : ",", spans[i].field);
        if (rule->limit.algorithm == WEIR_CONCURRENCY && i != SPAN_ONCE)
            text_put(text, "null");
        else
            text_number(text, bound_times(bound_in(rule, spans[i].length), replicas));
    }
    text_put(text, "}");
}

/* Fields whose answer is a default, under their names in the object. */
static void add_defaults(struct text *text, const struct rule *rule)
{
    static const struct {
        enum limit_field field;
        const char *name;
    } rows[] = {
        { LIMIT_WHEN, "when" },           { LIMIT_MISSING_KEY, "missing_key" },
        { LIMIT_ALGORITHM, "algorithm" }, { LIMIT_ALIGN, "align" },
        { LIMIT_COST, "cost" },           { LIMIT_DEBT, "debt" },
        { LIMIT_REFUSED, "refused" },     { LIMIT_RETRIES, "retries" },
        { LIMIT_WAIT, "wait" },           { LIMIT_SCOPE, "scope" },
        { LIMIT_LEASE, "lease" },         { LIMIT_WHEN_FULL, "when_full" },
        { LIMIT_ENFORCE, "enforce" },     { LIMIT_WHEN_STATE_LOST, "when_state_lost" },
        { LIMIT_REPLY, "reply" },         { LIMIT_OVERRIDES, "overrides" },
    };
    bool is_first = true;
    text_put(text, ",\"defaults\":[");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool is_meaningless = (rows[i].field == LIMIT_ALIGN && rule->limit.algorithm != WEIR_FIXED_WINDOW)
                              || (rows[i].field == LIMIT_WHEN_FULL && rule_is_shared(rule))
                              || (rows[i].field == LIMIT_LEASE && !rule_is_shared(rule))
                              || (rows[i].field == LIMIT_DEBT && !rule_is_bucket(rule));
        if (!is_default(rule, rows[i].field) || is_meaningless)
            continue;
        text_format(text, "%s\"%s\"", is_first ? "" : ",", rows[i].name);
        is_first = false;
    }
    text_put(text, "]");
}

/* What passes beside the budget while the store is away for a minute (null: no bound), and after a failover that loses a second. */
static void add_adds(struct text *text, const struct explanation *explanation, const struct rule *rule)
{
    text_put(text, ",\"store_away_adds\":");
    if (rule_is_shared(rule) && rule->store_fails.word == WEIR_STORE_OPEN)
        text_put(text, "null");
    else if (!rule_has_share(rule)) /* what is in hand of a lease is out of the budget already */
        text_put(text, "0");
    else
        text_number(text, explain_share_in(rule, WEIR_MINUTE, explanation->replicas));
    text_put(text, ",\"failover_adds\":");
    text_number(text, rule_is_shared(rule) ? explain_failover_adds(rule) : 0);
}

static void add_store(struct text *text, const struct explanation *explanation)
{
    struct slice parts[2];
    struct text url = { .region = text->region };
    text_put(text, ",\"store\":");
    if (!explanation->rules->has_shared) {
        text_put(text, "null");
        return;
    }
    text_put(text, "{\"url\":");
    if (explanation->store->url != NULL) {
        explain_store_url(explanation->store->url, parts);
        text_add(&url, parts[0]);
        text_add(&url, parts[1]);
        text_add_json(text, (struct slice){ url.at, url.len });
    } else {
        text_put(text, "null");
    }
    text_put(text, ",\"deadline\":");
    text_add_seconds(text, explanation->store->deadline);
    text_put(text, "}");
}

static void add_limit(struct text *text, const struct explanation *explanation, size_t index)
{
    const struct rule *rule = &explanation->rules->list[index];
    struct slice object = slice_of(explanation->rules->limits[index].json);
    text_add(text, (struct slice){ object.at, object.len - 1 }); /* its closing brace comes last */
    add_most(text, "most", rule, 1);
    add_most(text, "most_of_replicas", rule, rule_is_shared(rule) ? 1 : explanation->replicas);
    text_format(text, ",\"most_waiting\":%llu,\"longest_wait\":",
                rule_waits(rule) ? (unsigned long long)bound_waiting(rule) : 0);
    text_add_seconds(text, rule_waits(rule) ? bound_longest_wait(rule) : 0);
    text_format(text, ",\"returned_adds\":%s,\"state_lost_adds\":",
                rule->limit.algorithm == WEIR_CONCURRENCY ? "false" : "true");
    text_number(text, rule->state_lost == WEIR_LOST_EMPTY ? 0 : explanation->rules->limits[index].capacity);
    add_adds(text, explanation, rule);
    explain_leased_json(text, explanation, rule);
    add_defaults(text, rule);
    text_put(text, "}");
}

struct list {
    struct text *text;
    bool is_empty;
};

static void add_field(void *context, const char *prefix, struct slice name)
{
    struct list *list = context;
    text_put(list->text, list->is_empty ? "" : ",");
    if (prefix[0] == '\0')
        text_add_json(list->text, name);
    else
        text_add_json(list->text, SLICE("Cookie"));
    list->is_empty = false;
}

static void add_proxies(struct text *text, const struct rules *rules)
{
    static const char *const always[] = { "X-Forwarded-Method", "X-Forwarded-Host", "X-Forwarded-Uri",
                                          "X-Original-Method",  "X-Original-URI",   "Prefer" };
    struct list list = { text, true };
    text_put(text, ",\"proxies_must_overwrite\":[");
    if (rules->identity.proxy_count > 0) {
        explain_proxy_fields(rules, add_field, &list);
        for (size_t i = 0; i < sizeof always / sizeof *always; i++)
            add_field(&list, "", slice_of(always[i]));
    }
    text_put(text, "]");
}

static void add_request(struct text *text, const struct explanation *explanation)
{
    const struct rules *rules = explanation->rules;
    text_put(text, ",\"request\":[");
    for (size_t i = 0; i < rules->limit_count; i++) {
        const struct rule *rule = &rules->list[i];
        struct reason reason = explain_why(rule, explanation->request);
        struct text words = { .region = text->region };
        explain_reason(&words, rules, rule, explanation->request, &reason);
        if (reason.why == WHY_MEETS)
            explain_enforcement(&words, rules, rule, explanation->request);
        text_format(text, "%s{\"limit\":", i == 0 ? "" : ",");
        text_json_or_null(text, rule->limit.name);
        text_format(text, ",\"meets\":%s,\"because\":", reason.why == WHY_MEETS ? "true" : "false");
        text_add_json(text, (struct slice){ words.at, words.len });
        text_put(text, "}");
    }
    text_put(text, "]");
}

void explain_json(struct text *text, const struct explanation *explanation)
{
    const struct rules *rules = explanation->rules;
    const struct weir_stats *stats = &explanation->stats;
    text_format(text, "{\"version\":\"%s\",\"replicas\":%llu,\"limits\":[", rules->version,
                (unsigned long long)explanation->replicas);
    for (size_t i = 0; i < rules->limit_count; i++) {
        text_put(text, i == 0 ? "" : ",");
        add_limit(text, explanation, i);
    }
    text_format(text,
                "],\"memory\":{\"cells\":%llu,\"table_bytes\":%llu,\"log_stamps\":%llu,\"log_bytes\":%llu,",
                (unsigned long long)stats->cells, (unsigned long long)stats->cells * 16,
                (unsigned long long)stats->log_stamps, (unsigned long long)stats->log_stamps * 8);
    text_format(text,
                "\"permits\":%llu,\"permit_bytes\":%llu,\"share_bytes\":%llu,\"bytes\":%llu},\"auth_wait\":%s",
                (unsigned long long)stats->permits, (unsigned long long)stats->permits * EXPLAIN_PERMIT_BYTES,
                (unsigned long long)explanation->share_bytes,
                (unsigned long long)stats->bytes + explanation->share_bytes,
                explanation->server->auth_wait ? "true" : "false");
    add_store(text, explanation);
    add_proxies(text, rules);
    if (explanation->request != NULL)
        add_request(text, explanation);
    text_put(text, "}\n");
}
