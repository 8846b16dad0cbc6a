// SPDX-License-Identifier: Apache-2.0
/* explain.c - gather what there is to say about a contract, and have it said as prose or as JSON. */
#include "rule/explain.h"

int weir_contract_explain(const struct weir_contract *contract, const struct weir_explain_options *options,
                          FILE *out)
{
    const struct rules *rules = contract_rules(contract);
    static const struct weir_explain_options none;
    const struct weir_explain_options *wanted = options == NULL ? &none : options;
    struct request_values values;
    struct explanation explanation = { .rules = rules, .memory = &contract->memory };
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
