// SPDX-License-Identifier: Apache-2.0
/*
 * decide.c - from a request's attributes to one answer: read, match, make keys, have weir.h decide all or nothing.
 *
 * A request that lacks a key attribute: under `skip` the matcher does not find the limit; `share` counts the absence
 * as a value like any other; `refuse` answers never, and then nothing is charged anywhere (G2).
 *
 * Nothing here allocates. The stack holds some 40 KB: values, keys and asks of at most 64 limits.
 */
#include "rule/key.h"
#include "rule/request.h"

struct questions {
    uint32_t met[WEIR_ASKS_MAX];
    struct weir_ask asks[WEIR_ASKS_MAX];
    unsigned char keys[WEIR_ASKS_MAX][KEY_PLAIN_MAX];
    bool lacks_key[WEIR_ASKS_MAX]; /* and the limit refuses such requests */
    size_t count, lacking;
};

static void ask(const struct rules *rules, const struct request_values *values, uint64_t request_cost,
                size_t index, struct questions *questions)
{
    const struct rule *rule = &rules->list[questions->met[index]];
    struct slice parts[WEIR_ATTRIBUTES_MAX];
    bool is_whole = true;
    for (size_t i = 0; i < rule->key_count; i++) {
        bool is_ip = rules->attributes.slots[rule->key[i]].spelling == SPELLING_IP;
        parts[i] = is_ip ? values->ip_group : values->values[rule->key[i]];
        is_whole = is_whole && parts[i].len > 0;
    }
    unsigned char *key = questions->keys[index];
    questions->asks[index] = (struct weir_ask){ .limit = (weir_limit_id)questions->met[index],
                                                .key = key,
                                                .key_len = key_encode(parts, rule->key_count, key),
                                                .cost = rule->cost > 0 ? rule->cost : request_cost };
    questions->lacks_key[index] = !is_whole && rule->missing_key == MISSING_REFUSE;
    questions->lacking += questions->lacks_key[index];
}

static struct weir_decision no_limit(weir_ns now)
{
    return (struct weir_decision){ .outcome = WEIR_ALLOW,
                                   .limit = WEIR_NO_LIMIT,
                                   .decided_at = now,
                                   .retry_at = now,
                                   .reset_at = WEIR_NO_TIME };
}

static struct weir_decision missing_key(const struct rules *rules, weir_limit_id limit, weir_ns now)
{
    return (struct weir_decision){ .outcome = WEIR_NEVER,
                                   .reason = WEIR_REASON_MISSING_KEY,
                                   .limit = limit,
                                   .capacity = rules->limits[limit].capacity,
                                   .decided_at = now,
                                   .retry_at = WEIR_NO_TIME,
                                   .reset_at = WEIR_NO_TIME };
}

/* A limit refuses requests without its key: the answer is its own; the other limits say what they would. */
static int answer_missing_key(const struct rules *rules, struct weir *limiter, struct questions *questions,
                              weir_ns now, struct weir_answer *out)
{
    struct weir_ask others[WEIR_ASKS_MAX];
    struct weir_decision each[WEIR_ASKS_MAX], binding;
    size_t count = 0;
    for (size_t i = 0; i < questions->count; i++)
        if (!questions->lacks_key[i])
            others[count++] = questions->asks[i];
    int error = count == 0 ? 0 : weir_admit_peek(limiter, others, count, now, each, &binding);
    if (error != 0)
        return error;

    size_t other = 0;
    out->decision.limit = WEIR_NO_LIMIT;
    for (size_t i = 0; i < questions->count; i++) {
        weir_limit_id limit = questions->asks[i].limit;
        out->each[i] = questions->lacks_key[i] ? missing_key(rules, limit, now) : each[other++];
        if (questions->lacks_key[i] && out->decision.limit == WEIR_NO_LIMIT)
            out->decision = out->each[i];
    }
    out->count = questions->count;
    return 0;
}

int weir_contract_decide(const struct weir_contract *contract, const struct weir_request *request, weir_ns now,
                         struct weir_answer *out)
{
    const struct rules *rules = contract_rules(contract);
    struct request_values values;
    struct questions questions;
    int error = request_read(rules, request, &values, NULL);
    if (error != 0)
        return error;
    out->limits = rules->limits;
    out->watched = 0;
    questions.lacking = 0;
    questions.count = request_match(rules, &values, questions.met);
    if (questions.count > WEIR_ASKS_MAX)
        return WEIR_ERR_ASKS;
    if (questions.count == 0) {
        out->decision = no_limit(now);
        out->count = 0;
        return 0;
    }
    for (size_t i = 0; i < questions.count; i++)
        ask(rules, &values, request->cost, i, &questions);
    if (questions.lacking > 0)
        return answer_missing_key(rules, contract->limiter, &questions, now, out);

    error = request->is_peek ? weir_admit_peek(contract->limiter, questions.asks, questions.count, now,
                                               out->each, &out->decision)
                             : weir_admit(contract->limiter, questions.asks, questions.count, now, out->each,
                                          &out->decision);
    if (error == 0)
        out->count = questions.count;
    return error;
}

int weir_contract_admit(const struct weir_contract *contract, const struct weir_attribute *attributes,
                        size_t count, weir_ns now, struct weir_decision *out)
{
    struct weir_answer answer;
    struct weir_request request = { .attributes = attributes, .attribute_count = count, .cost = 1 };
    int error = weir_contract_decide(contract, &request, now, &answer);
    if (error == 0)
        *out = answer.decision;
    return error;
}
