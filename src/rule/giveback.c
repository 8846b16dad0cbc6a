// SPDX-License-Identifier: Apache-2.0
/* giveback.c - refund what a request was charged, and forget what a key has used. */
#include <stdarg.h>
#include <stdio.h>

#include "rule/share.h"
#include "rule/throttle.h"

/* ---- Refund ------------------------------------------------------------------------------------------------------------ */

static const struct weir_settlement nothing_settled = { .limit = WEIR_NO_LIMIT };

static int refund_once(const struct rules *rules, const struct weir_request *request, weir_ns now,
                       struct weir_settlement *out)
{
    struct questions questions;
    struct weir_ask asks[WEIR_ASKS_MAX];
    struct weir_settlement unseen;
    size_t count = 0;
    int error = questions_write_refund(rules, request, &questions);
    for (size_t i = 0; error == 0 && i < questions.count; i++) {
        const struct weir_ask ask = questions.asks[i];
        bool is_elsewhere =
            rules->is_apart && !is_hidden(rules, ask.limit) && rule_is_shared(&rules->list[ask.limit]);
        if (!ask.is_estimate || is_elsewhere || (questions.lacking & question_bit(i)) != 0)
            continue;
        if ((questions.watched & question_bit(i)) == 0)
            asks[count++] = ask;
        else if (weir_set_refund(rules->set, &ask, 1, now, &unseen) != 0)
            continue; /* it takes no part in the answer */
    }
    if (error == 0 && count == 0)
        *out = nothing_settled;
    return error == 0 && count > 0 ? weir_set_refund(rules->set, asks, count, now, out) : error;
}

int weir_contract_refund(const struct weir_contract *contract, const struct weir_request *request, weir_ns now,
                         struct weir_settlement *out)
{
    int error;
    do
        error = refund_once(contract_rules(contract), request, now, out);
    while (error == WEIR_ERR_CHANGED);
    return error;
}

/* ---- Reset -------------------------------------------------------------------------------------------------------------- */

/* What does not fit, for a caller who wants to know. */
__attribute__((format(printf, 4, 5))) static int refuse(struct weir_fault *fault, size_t attribute, int error,
                                                        const char *format, ...)
{
    if (fault != NULL) {
        va_list arguments;
        va_start(arguments, format);
        fault->attribute = attribute;
        fault->request = 0;
        (void)vsnprintf(fault->message, sizeof fault->message, format, arguments); /* names are short */
        va_end(arguments);
    }
    return error;
}

static const struct rule *find_rule(const struct rules *rules, const char *name)
{
    for (size_t i = 0; i < rules->limit_count; i++)
        if (strcmp(rules->list[i].limit.name, name) == 0)
            return &rules->list[i];
    return NULL;
}

/* Whether the attributes name what the limit's key names; a value may be missing where such requests share a budget. */
static int check_key(const struct rules *rules, const struct rule *rule, const struct weir_attribute *key,
                     size_t count, const struct request_values *values, struct weir_fault *fault)
{
    const struct attribute_slot *slots = rules->attributes.slots;
    for (size_t i = 0; i < count; i++) {
        bool is_part = false;
        for (size_t k = 0; k < rule->key_count; k++)
            is_part = is_part || strcmp(key[i].name, slots[rule->key[k]].name.at) == 0;
        if (!is_part)
            return refuse(fault, i, WEIR_ERR_ATTRIBUTE, "'%.32s' is no attribute of the key of limit '%s'",
                          key[i].name, rule->limit.name);
    }
    for (size_t k = 0; k < rule->key_count; k++) {
        const char *name = slots[rule->key[k]].name.at;
        size_t i = 0;
        while (i < count && strcmp(key[i].name, name) != 0)
            i++;
        if (i == count)
            return refuse(fault, count, WEIR_ERR_ATTRIBUTE, "the key of limit '%s' needs '%s'",
                          rule->limit.name, name);
        if (values->values[rule->key[k]].len == 0 && rule->missing_key != MISSING_SHARE)
            return refuse(fault, i, WEIR_ERR_ATTRIBUTE, "'%s' has no value", name);
    }
    return 0;
}

/* The limit, and its key's bytes as a request would have them. */
static int read_named(const struct rules *rules, const char *limit, const struct weir_attribute *attributes,
                      size_t count, struct weir_fault *fault, const struct rule **rule, unsigned char *key,
                      size_t *key_len)
{
    struct weir_request request = { .attributes = attributes, .attribute_count = count, .cost = 1 };
    struct request_values values;
    bool is_whole;
    *rule = find_rule(rules, limit);
    if (*rule == NULL)
        return refuse(fault, count, WEIR_ERR_LIMIT, "there is no limit '%.63s'", limit);
    int error = request_read(rules, &request, &values, fault);
    if (error == 0)
        error = check_key(rules, *rule, attributes, count, &values, fault);
    if (error != 0)
        return error == WEIR_ERR_COST ? WEIR_ERR_ATTRIBUTE : error;
    *key_len = request_key(rules, *rule, &values, key, &is_whole);
    return 0;
}

static int reset_once(const struct rules *rules, const char *limit, const struct weir_attribute *attributes,
                      size_t count, struct weir_fault *fault)
{
    unsigned char key[KEY_PLAIN_MAX];
    const struct rule *rule;
    size_t key_len = 0;
    int error = read_named(rules, limit, attributes, count, fault, &rule, key, &key_len);
    if (error != 0)
        return error;
    share_reset(rules, rule, key, key_len);
    return weir_set_reset(rules->set, (weir_limit_id)(rule - rules->list), key, key_len);
}

int weir_contract_reset(const struct weir_contract *contract, const char *limit,
                        const struct weir_attribute *key, size_t count, struct weir_fault *fault)
{
    int error;
    do
        error = reset_once(contract_rules(contract), limit, key, count, fault);
    while (error == WEIR_ERR_CHANGED);
    return error;
}

int weir_contract_shared_key(const struct weir_contract *contract, const char *limit,
                             const struct weir_attribute *key, size_t count, struct weir_shared *out,
                             struct weir_fault *fault)
{
    const struct rules *rules = contract_rules(contract);
    struct weir_ask ask = { .key = out->keys[0] };
    const struct rule *rule;
    int error = read_named(rules, limit, key, count, fault, &rule, out->keys[0], &ask.key_len);
    if (error != 0)
        return error;
    out->rules = rules;
    out->limits = rules->limits;
    out->count = rules->is_apart && rule_is_shared(rule) ? 1 : 0;
    ask.limit = (weir_limit_id)(rule - rules->list);
    struct weir_shared_size size = shared_size_of_key(rules, rule, &ask);
    out->asks[0] = (struct weir_shared_ask){ .limit = ask.limit,
                                             .key = out->keys[0],
                                             .key_len = ask.key_len,
                                             .size = size,
                                             .lease = lease_of_size(rule, &size) };
    return 0;
}
