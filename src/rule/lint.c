// SPDX-License-Identifier: Apache-2.0
/* lint.c - read the contract's text once more, as its loader does, and look at each limit. */
#include "rule/lint.h"

#include <stdarg.h>
#include <stdio.h>

/* Ten thousand limits with one fault need not be told ten thousand times. */
#define REPLICA_WARNINGS_MAX 8

static void tell(struct lint *lint, enum weir_severity severity, size_t index, const char *field,
                 const char *cure, const char *message)
{
    const struct node *value = node_value(lint->limits[index], field);
    diagnostics_add(lint->diagnostics, severity, value == NULL ? lint->limits[index]->place : value->place,
                    cure, "limit '%s' %s", lint->rules->list[index].limit.name, message);
}

void lint_warn(struct lint *lint, size_t index, const char *field, const char *cure, const char *format, ...)
{
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments); /* cut where names are absurdly long */
    va_end(arguments);
    tell(lint, WEIR_SEVERITY_WARNING, index, field, cure, message);
}

void lint_note(struct lint *lint, size_t index, const char *field, const char *cure, const char *format, ...)
{
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    tell(lint, WEIR_SEVERITY_NOTE, index, field, cure, message);
}

/* "3 replicas of 5/s admit 15/s". */
static void together(const struct lint *lint, const struct rule *rule, char *out, size_t size)
{
    struct text text = { .region = lint->load->scratch };
    unsigned long long replicas = lint->replicas;
    if (rule->limit.algorithm == WEIR_CONCURRENCY) {
        (void)snprintf(out, size, "%llu replicas of %llu permits give %llu", replicas,
                       (unsigned long long)rule->limit.at_most,
                       (unsigned long long)bound_times(rule->limit.at_most, lint->replicas));
        return;
    }
    rate_format(&rule->rate, &text);
    const char *rate = text.at == NULL ? "" : text.at, *slash = strchr(rate, '/');
    (void)snprintf(out, size, "%llu replicas of %s admit %llu%s", replicas, rate,
                   (unsigned long long)bound_times(rule->rate.count, lint->replicas),
                   slash == NULL ? "" : slash);
}

/* Each process counts for itself. Who shares other limits, and says of this one that it is a process's, knows. */
static void lint_replicas(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    bool is_concurrency = rule->limit.algorithm == WEIR_CONCURRENCY;
    bool is_stated = node_value(lint->limits[index], "scope") != NULL;
    char all[160];
    if (lint->replicas < 2 || rule_is_shared(rule) || rule->enforce == WEIR_ENFORCE_OFF
        || (is_stated && lint->rules->has_shared) || ++lint->replica_warnings > REPLICA_WARNINGS_MAX)
        return;
    together(lint, rule, all, sizeof all);
    lint_warn(lint, index,
              is_stated        ? "scope"
              : is_concurrency ? "at-most"
                               : "rate",
              is_concurrency ? "share it (scope: fleet), divide at-most by the number of replicas, or send "
                               "each key to one replica always"
                             : "share it (scope: fleet), divide the rate and the burst by the number of "
                               "replicas, or send each key to one replica "
                               "always",
              "counts in each process by itself (scope process): %s%s", all,
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
        lint_wait(lint, i);
        lint_fleet(lint, binds, i);
        lint_bind(lint, binds, i);
        lint_replicas(lint, i);
    }
    lint_store(lint);
    lint_doors(lint, root);
    lint_grouping(lint, root);
    lint_enforced(lint, lint->load->limits);
}

/* Read the text again, with the loader's warnings, and look. */
static int review(const struct weir_contract *contract, uint64_t replicas, uint64_t permits,
                  struct weir_diagnostics *found)
{
    const struct rules *loaded = contract_rules(contract);
    struct region scratch, home;
    struct weir_contract_server server = { 0 };
    struct weir_contract_store store = { .deadline = STORE_DEADLINE };
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
                         .store = &store,
                         .fleet = WEIR_FLEET_ALONE, /* who counts was judged at loading */
                         .is_exposed = contract->is_exposed,
                         .rules = rules };
    int error = rules_read(&load, loaded->text);
    if (error == 0)
        error = rules_finish(&load);
    if (error == 0)
        error = yaml_read(&scratch, loaded->text, found, &root); /* without findings: it was read before */
    struct lint lint = { .load = &load, .rules = rules, .diagnostics = found, .permits = permits };
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
    struct weir_stats stats;
    *diagnostics = NULL;
    if (found == NULL)
        return WEIR_ERR_MEMORY;
    weir_stats(contract->limiter, 0, &stats);
    int error = review(contract, replicas, stats.permits_free, found);
    if (!diagnostics_finish(found, rules->text))
        error = WEIR_ERR_MEMORY;
    if (error != 0) {
        weir_diagnostics_free(found);
        found = NULL;
    }
    contract_give(diagnostics, found);
    return error;
}
