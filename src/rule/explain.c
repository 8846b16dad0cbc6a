// SPDX-License-Identifier: Apache-2.0
/* explain.c - gather what there is to say about a contract, and have it said as prose or as JSON. */
#include "rule/explain.h"

#include "rule/share.h"

/* Shares are counted in a limiter that is made as the contract's is; only who asks a store has it. */
static uint64_t share_bytes(const struct weir_contract *contract, const struct weir_stats *stats)
{
    const struct rules *rules = contract_rules(contract);
    struct weir *limiter = share_limiter(contract->shares);
    struct weir_stats shares = *stats;
    bool has_share = false;
    for (size_t i = 0; i < rules->limit_count; i++)
        has_share = has_share || rule_has_share(&rules->list[i]);
    if (limiter != NULL)
        weir_stats(limiter, 0, &shares);
    return has_share || limiter != NULL ? shares.bytes : 0;
}

int weir_contract_explain(const struct weir_contract *contract, const struct weir_explain_options *options,
                          FILE *out)
{
    const struct rules *rules = contract_rules(contract);
    static const struct weir_explain_options none;
    const struct weir_explain_options *wanted = options == NULL ? &none : options;
    struct request_values values;
    struct explanation explanation = {
        .rules = rules, .memory = &contract->memory, .server = &contract->servers[0], .store = &contract->store
    };
    if (wanted->request != NULL) {
        int error = request_read(rules, wanted->request, &values, NULL);
        if (error != 0)
            return error;
        explanation.request = &values;
    }
    explanation.is_replicas_default = wanted->replicas == 0 && rules->replicas == 0;
    explanation.replicas = wanted->replicas != 0  ? wanted->replicas
                           : rules->replicas != 0 ? rules->replicas
                                                  : 1;
    weir_stats(contract->limiter, 0, &explanation.stats);
    explanation.share_bytes = share_bytes(contract, &explanation.stats);

    struct region region;
    region_init(&region, NULL);
    struct text text = { .region = &region };
    (wanted->is_json ? explain_json : explain_text)(&text, &explanation);
    int error = region.has_failed ? WEIR_ERR_MEMORY : 0;
    if (error == 0 && fwrite(text.at, 1, text.len, out) != text.len)
        error = WEIR_ERR_FILE;
    region_deinit(&region);
    return error;
}

const char *explain_mark(const struct rule *rule, enum limit_field field)
{
    return is_default(rule, field) ? " (default)" : "";
}

void explain_grouped(struct text *text, uint64_t number)
{
    char digits[32];
    size_t at = sizeof digits, written = 0;
    if (number == UINT64_MAX) {
        text_put(text, "2^64 or more");
        return;
    }
    do {
        if (written > 0 && written % 3 == 0)
            digits[--at] = ',';
        digits[--at] = (char)('0' + number % 10);
        written++;
    } while ((number /= 10) != 0);
    text_add(text, (struct slice){ digits + at, sizeof digits - at });
}

void explain_proxy_fields(const struct rules *rules, void (*add)(void *, const char *, struct slice),
                          void *context)
{
    for (size_t i = 0; i < rules->source_count; i++) {
        const struct identity_source *source = &rules->sources[i];
        bool is_twice = false;
        for (size_t j = 0; j < i; j++)
            is_twice = is_twice
                       || (rules->sources[j].kind == source->kind
                           && slice_equals_fold(rules->sources[j].name, source->name));
        if (is_twice)
            continue;
        if (source->kind == IDENTITY_HEADER)
            add(context, "", source->name);
        else if (source->kind == IDENTITY_X_FORWARDED_FOR)
            add(context, "", SLICE("X-Forwarded-For"));
        else if (source->kind == IDENTITY_FORWARDED)
            add(context, "", SLICE("Forwarded"));
        else if (source->kind == IDENTITY_COOKIE)
            add(context, "Cookie: ", source->name);
    }
}
