// SPDX-License-Identifier: Apache-2.0
/* lint.c - read the contract's text once more, as its loader does, and look at each limit. */
#include "rule/lint.h"

#include <stdarg.h>
#include <stdio.h>

/* Ten thousand limits with one fault need not be told ten thousand times. */
#define REPLICA_WARNINGS_MAX 8

void lint_warn(struct lint *lint, size_t index, const char *field, const char *cure, const char *format, ...)
{
    char message[400];
    const struct node *value = node_value(lint->limits[index], field);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments); /* cut where names are absurdly long */
    va_end(arguments);
    diagnostics_add(lint->diagnostics, WEIR_SEVERITY_WARNING,
                    value == NULL ? lint->limits[index]->place : value->place, cure, "limit '%s' %s",
                    lint->rules->list[index].limit.name, message);
}

/* Each process counts for itself. */
static void lint_replicas(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    char together[80], rate[64];
    struct text text = { .region = lint->load->scratch };
    if (lint->replicas < 2 || rule->enforce == WEIR_ENFORCE_OFF
        || ++lint->replica_warnings > REPLICA_WARNINGS_MAX)
        return;
    rate_format(&rule->rate, &text);
    (void)snprintf(rate, sizeof rate, "%.*s", (int)text.len, text.at == NULL ? "" : text.at);
    const char *slash = strchr(rate, '/');
    (void)snprintf(together, sizeof together, "%llu%s",
                   (unsigned long long)bound_times(rule->rate.count, lint->replicas),
                   slash == NULL ? "" : slash);
    lint_warn(lint, index, node_value(lint->limits[index], "scope") != NULL ? "scope" : "rate",
              "divide the rate and the burst by the number of replicas, or send each key to one replica always",
              "counts in each process by itself (scope process): %llu replicas of %s admit %s%s",
              (unsigned long long)lint->replicas, rate, together,
              lint->replica_warnings == REPLICA_WARNINGS_MAX ? "; others are not listed any more" : "");
}

/* IPv6 hosts have 2^64 addresses each. */
static void lint_grouping(struct lint *lint, const struct node *root)
{
    const struct node *ip = node_value(node_value(root, "identity"), "ip");
    const struct node *ipv6 = node_value(node_value(ip, "group"), "ipv6");
    unsigned attribute = attribute_find(&lint->rules->attributes, SLICE("ip"));
    bool is_key = false;
    for (size_t i = 0; i < lint->rules->limit_count; i++)
        for (size_t k = 0; k < lint->rules->list[i].key_count; k++)
            is_key = is_key || lint->rules->list[i].key[k] == attribute;
    if (is_key && lint->rules->grouping.ipv6 > 64 && ipv6 != NULL)
        diagnostics_add(
            lint->diagnostics, WEIR_SEVERITY_WARNING, ipv6->place,
            "write `group: { ipv4: 32, ipv6: 64 }`, or 56 where customers get a /56",
            "IPv6 addresses are counted by %u bits: one customer has a /64 at least, and so 2^%u budgets",
            lint->rules->grouping.ipv6, lint->rules->grouping.ipv6 - 64);
}

static void lint_enforced(struct lint *lint, const struct node *limits)
{
    size_t enforced = 0;
    for (size_t i = 0; i < lint->rules->limit_count; i++)
        enforced += lint->rules->list[i].enforce == WEIR_ENFORCE_ALWAYS
                    || lint->rules->list[i].enforce == WEIR_ENFORCE_SHARE;
    if (enforced == 0 && lint->rules->limit_count > 0)
        diagnostics_add(lint->diagnostics, WEIR_SEVERITY_WARNING, limits->place,
                        "write `enforce: always`, or leave it out, where a limit is meant to hold",
                        "no limit is enforced: every request is allowed");
}

static void look(struct lint *lint, const struct node *root)
{
    const struct node *node = lint->load->limits->first;
    for (size_t i = 0; i < lint->rules->limit_count; i++, node = node->next)
        lint->limits[i] = node;
    struct binds *binds = binds_new(lint);
    for (size_t i = 0; binds != NULL && i < lint->rules->limit_count; i++) {
        lint_limit(lint, binds, i);
        lint_when(lint, i);
        lint_bind(lint, binds, i);
        lint_replicas(lint, i);
    }
    lint_grouping(lint, root);
    lint_enforced(lint, lint->load->limits);
}

/* Read the text again, with the loader's warnings, and look. */
static int review(const struct rules *loaded, uint64_t replicas, struct weir_diagnostics *found)
{
    struct region scratch, home;
    struct weir_contract_server server = { 0 };
    struct node *root = NULL;
    struct rules *rules = rules_new(NULL);
    if (rules == NULL)
        return WEIR_ERR_MEMORY;
    region_init(&scratch, NULL);
    region_init(&home, NULL);
    struct load load = { .region = &rules->region,
                         .scratch = &scratch,
                         .home = &home,
                         .diagnostics = found,
                         .server = &server,
                         .rules = rules };
    int error = rules_read(&load, loaded->text);
    if (error == 0)
        error = rules_finish(&load);
    if (error == 0)
        error = yaml_read(&scratch, loaded->text, found, &root); /* without findings: it was read before */
    struct lint lint = { .load = &load, .rules = rules, .diagnostics = found };
    lint.replicas = replicas != 0 ? replicas : rules->replicas;
    lint.limits = REGION_NEW(&scratch, const struct node *, rules->limit_count + 1);
    if (error == 0 && lint.limits != NULL && load.limits != NULL)
        look(&lint, root);
    if (error == 0 && (scratch.has_failed || rules->region.has_failed))
        error = WEIR_ERR_MEMORY;
    region_deinit(&home);
    region_deinit(&scratch);
    rules_free(rules);
    return error;
}

int weir_contract_lint(const struct weir_contract *contract, unsigned replicas,
                       struct weir_diagnostics **diagnostics)
{
    const struct rules *rules = contract_rules(contract);
    struct weir_diagnostics *found = diagnostics_new(rules->name, NULL);
    *diagnostics = NULL;
    if (found == NULL)
        return WEIR_ERR_MEMORY;
    int error = review(rules, replicas, found);
    if (!diagnostics_finish(found, rules->text))
        error = WEIR_ERR_MEMORY;
    if (error != 0) {
        weir_diagnostics_free(found);
        found = NULL;
    }
    contract_give(diagnostics, found);
    return error;
}
