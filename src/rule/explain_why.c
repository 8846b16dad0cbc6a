// SPDX-License-Identifier: Apache-2.0
/* explain_why.c - why a request meets a limit, or which condition it fails. */
#include "rule/explain.h"

struct reason explain_why(const struct rule *rule, const struct request_values *values)
{
    const struct address *ip = values->has_ip ? &values->ip : NULL;
    struct reason reason = { .why = WHY_MEETS };
    if (rule->enforce == WEIR_ENFORCE_OFF)
        return (struct reason){ .why = WHY_OFF };
    for (size_t i = 0; i < rule->condition_count; i++)
        if (!condition_holds(&rule->conditions[i], values->values, ip))
            return (struct reason){ WHY_CONDITION, i, rule->conditions[i].attribute, false };
    for (size_t i = 0; i < rule->key_count; i++) {
        if (values->values[rule->key[i]].len > 0)
            continue;
        if (rule->missing_key == MISSING_SKIP)
            return (struct reason){ WHY_MISSING_KEY, 0, rule->key[i], true };
        reason.lacks_key = true;
        reason.attribute = rule->key[i];
    }
    return reason;
}

/* One pattern, or several with `or` between them; a dozen say enough. */
static void pattern_words(struct text *text, const struct condition *condition)
{
    bool is_networks = condition->kind == CONDITION_NETWORKS;
    size_t count = is_networks ? condition->network_count : condition->pattern_count;
    for (size_t i = 0; i < count && i < 12; i++) {
        char network[ADDRESS_TEXT_MAX];
        text_put(text, i == 0 ? "" : i + 1 == count ? " or " : ", ");
        if (is_networks) {
            network_format(&condition->networks[i], network);
            text_put(text, network);
        } else {
            text_add(text, condition->patterns[i]);
        }
    }
    if (count > 12)
        text_format(text, " or one of %zu more", count - 12);
}

void condition_words(struct text *text, const struct rules *rules, const struct condition *condition)
{
    text_add(text, rules->attributes.slots[condition->attribute].name);
    if (condition->kind == CONDITION_PRESENT || condition->kind == CONDITION_ABSENT) {
        text_put(text, condition->kind == CONDITION_PRESENT ? " is present" : " is absent");
        return;
    }
    if (condition->kind == CONDITION_NETWORKS)
        text_put(text, condition->is_negated ? " is not in " : " is in ");
    else if (condition->pattern_count == 1 && glob_is_exact(condition->patterns[0]))
        text_put(text, condition->is_negated ? " is not " : " is ");
    else
        text_put(text, condition->is_negated ? " does not match " : " matches ");
    pattern_words(text, condition);
}

void explain_enforcement(struct text *text, const struct rules *rules, const struct rule *rule,
                         const struct request_values *values)
{
    unsigned char key[KEY_PLAIN_MAX];
    bool is_whole;
    if (rule->enforce == WEIR_ENFORCE_SHADOW)
        text_put(text, "; it is a shadow: it only says what it would answer");
    if (rule->enforce != WEIR_ENFORCE_SHARE)
        return;
    size_t key_len = request_key(rules, rule, values, key, &is_whole);
    text_format(
        text,
        rule_enforces(rule, key, key_len)
            ? "; this key is among the %u%% that it is enforced for"
            : "; this key is not among the %u%% that it is enforced for: it only says what it would answer",
        rule->enforce_percent);
}

void explain_reason(struct text *text, const struct rules *rules, const struct rule *rule,
                    const struct request_values *values, const struct reason *reason)
{
    struct slice value = values->values[reason->attribute];
    const struct attribute_slot *slots = rules->attributes.slots;
    if (reason->why == WHY_CONDITION) {
        text_put(text, "it is for requests whose ");
        condition_words(text, rules, &rule->conditions[reason->condition]);
        text_put(text, ", and this one ");
        text_put(text, value.len == 0 ? "has none" : "has ");
        text_add(text, value);
        return;
    }
    if (reason->why == WHY_OFF) {
        text_put(text, "it is off");
        return;
    }
    if (reason->lacks_key) {
        text_put(text, "its key needs ");
        text_add(text, slots[reason->attribute].name);
        text_put(text, ", which this request lacks");
        text_put(text, reason->why == WHY_MISSING_KEY        ? ": skipped"
                       : rule->missing_key == MISSING_REFUSE ? ": refused"
                                                             : ": counted with all that lack it");
        return;
    }
    text_put(text, rule->key_count == 0 ? "counted in the one budget for everybody" : "counted under ");
    for (size_t i = 0; i < rule->key_count; i++) {
        bool is_ip = slots[rule->key[i]].spelling == SPELLING_IP;
        text_put(text, i == 0 ? "" : ", ");
        text_add(text, slots[rule->key[i]].name);
        text_put(text, " = ");
        text_add(text, is_ip ? values->ip_group : values->values[rule->key[i]]);
    }
}
