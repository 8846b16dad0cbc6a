// SPDX-License-Identifier: Apache-2.0
/* ask.c - key, cost and retry id for each limit that a request meets. */
#include "rule/ask.h"

#include "base/siphash.h"

/* A cost above `max`: more than any limit holds, so that the limiter itself answers never, and charges nobody. */
#define COST_ABOVE_ALL UINT64_MAX

/*
 * The share must not depend on the limiter's secret: every process that holds the contract, also after a restart, has to
 * choose the same keys. Neither does it depend on the limit, so the same callers are in the share of each limit; and a
 * larger share holds all of a smaller one.
 */
bool rule_enforces(const struct rule *rule, const unsigned char *key, size_t key_len)
{
    static const uint8_t fixed[16] = "weir: enforce N%";
    if (rule->enforce != WEIR_ENFORCE_SHARE)
        return rule->enforce == WEIR_ENFORCE_ALWAYS;
    uint64_t hash = siphash_end(siphash_begin(fixed), key, key_len);
    return ((hash >> 32) * 100) >> 32 < rule->enforce_percent;
}

static uint64_t cost_of(const struct rule *rule, const struct request_values *values, uint64_t request_cost)
{
    uint64_t cost = 0;
    if (rule->cost > 0)
        return rule->cost;
    if (!rule->has_cost_from)
        return request_cost;
    struct slice text = values->values[rule->cost_from];
    if (text.len == 0)
        return rule->cost_default;
    (void)slice_to_u64(text, INT64_MAX, &cost); /* request_read() has refused what is none */
    return cost > rule->cost_max ? COST_ABOVE_ALL : cost;
}

static void write_question(const struct rules *rules, const struct request_values *values,
                           uint64_t request_cost, size_t index, struct questions *questions)
{
    const struct rule *rule = &rules->list[questions->met[index]];
    unsigned char *key = questions->keys[index];
    bool is_whole;
    size_t key_len = request_key(rules, rule, values, key, &is_whole);
    struct weir_ask *ask = &questions->asks[index];
    *ask = (struct weir_ask){ .limit = (weir_limit_id)questions->met[index],
                              .key = key,
                              .key_len = key_len,
                              .cost = cost_of(rule, values, request_cost) };
    if (rule->limit.retries_free_within > 0 && values->values[rule->retry_by].len > 0) {
        ask->retry_id = values->values[rule->retry_by].at;
        ask->retry_id_len = values->values[rule->retry_by].len;
    }
    if (!is_whole && rule->missing_key == MISSING_REFUSE)
        questions->lacking |= question_bit(index);
    if (!rule_enforces(rule, key, key_len))
        questions->watched |= question_bit(index);
}

/*
 * A settlement changes limits whose cost is an attribute's, or where none such was met, those without a cost of their
 * own. Permits are returned, not settled.
 */
static void mark_estimates(const struct rules *rules, struct questions *questions)
{
    bool has_measured = false;
    for (size_t i = 0; i < questions->count; i++) {
        const struct rule *rule = &rules->list[questions->met[i]];
        has_measured = has_measured || (rule->has_cost_from && rule->algorithm != WEIR_CONCURRENCY);
    }
    for (size_t i = 0; i < questions->count; i++) {
        const struct rule *rule = &rules->list[questions->met[i]];
        bool is_settled = has_measured ? rule->has_cost_from : rule->cost == 0;
        questions->asks[i].is_estimate = is_settled && rule->algorithm != WEIR_CONCURRENCY;
        questions->asks[i].is_fixed = !questions->asks[i].is_estimate;
    }
}

int questions_write(const struct rules *rules, const struct request_values *values, uint64_t request_cost,
                    struct questions *out)
{
    out->lacking = out->watched = 0;
    out->count = request_match(rules, values, out->met);
    if (out->count > WEIR_ASKS_MAX)
        return WEIR_ERR_ASKS;
    for (size_t i = 0; i < out->count; i++)
        write_question(rules, values, request_cost, i, out);
    mark_estimates(rules, out);
    return 0;
}
