// SPDX-License-Identifier: Apache-2.0
/*
 * lint_fleet.c - budgets of a fleet that do not do what they look like: shares that add up to more than the whole or to nothing,
 * an outage without a bound, and requests that take two scripts in a Cluster.
 */
#include <stdio.h>

#include "rule/lint.h"
#include "rule/size.h"

/* Pairs of limits are looked at among so many shared ones. */
#define PAIRS_MAX 1000

/* After a few the point is made. */
#define SLOT_NOTES_MAX 8

/* ---- While the store is away ---------------------------------------------------------------------------------------------- */

/* What all replicas may spend together. */
static void lint_sum(struct lint *lint, size_t index)
{
    const struct store_policy *policy = &lint->rules->list[index].store_fails;
    char cure[160];
    if (lint->replicas == 0) {
        lint_warn(
            lint, index, "when-store-fails",
            "write `replicas: N`, the most that may run at once, or give --replicas N",
            "gives each replica %u/%u while the store is away, and nobody says how many replicas there are",
            policy->share, policy->share_of);
        return;
    }
    if (bound_times(policy->share, lint->replicas) <= policy->share_of)
        return;
    (void)snprintf(cure, sizeof cure, "write `when-store-fails: { local: 1/%llu }`",
                   (unsigned long long)lint->replicas);
    lint_warn(lint, index, "when-store-fails", cure,
              "gives each of %llu replicas %u/%u while the store is away: together more than the budget",
              (unsigned long long)lint->replicas, policy->share, policy->share_of);
}

/* A share that admits nothing is `closed` by another name. */
static void lint_nothing(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    struct weir_size whole = size_of(rule), part;
    if (rule_capacity(rule) == 0 || !size_share(rule, &whole, &part)
        || (rule_is_bucket(rule) ? part.burst : part.rate.count) > 0)
        return;
    lint_warn(lint, index, "when-store-fails",
              rule_is_bucket(rule) ? "give a larger share, raise the burst, or write `closed`"
                                   : "give a larger share, raise the count, or write `closed`",
              "lets nothing through while the store is away: %u/%u of %s %llu is less than one",
              rule->store_fails.share, rule->store_fails.share_of,
              rule_is_bucket(rule) ? "a burst of" : "a count of", (unsigned long long)rule_capacity(rule));
}

static bool is_in_process(const struct rule *other, const struct rule *rule)
{
    (void)rule;
    return !rule_is_shared(other);
}

static bool mentions_shedding(const char *about)
{
    for (; about != NULL && *about != '\0'; about++)
        if (ascii_lower(about[0]) == 's' && ascii_lower(about[1]) == 'h' && ascii_lower(about[2]) == 'e'
            && ascii_lower(about[3]) == 'd')
            return true;
    return false;
}

/* Open for as long as it lasts: fine where something else sheds the load. A limit of the process is such a thing. */
static void lint_open(struct lint *lint, const struct binds *binds, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    if (rule->store_fails.open_for > 0 || mentions_shedding(rule->about)
        || binds_find(lint, binds, index, is_in_process) != NULL)
        return;
    lint_warn(lint, index, "when-store-fails",
              "write `{ open: 30s }` or `{ local: 1/N }`, add a limit with `scope: process` beside it, or say "
              "in `about` "
              "what sheds load then",
              "lets everything through uncounted while the store is away, however long that is");
}

/* ---- Two scripts ------------------------------------------------------------------------------------------------------------- */

static bool is_counted(const struct rule *rule)
{
    return rule_is_shared(rule) && rule->enforce != WEIR_ENFORCE_OFF;
}

/* A leased limit takes a script only where it finds too little in hand. Keys of one slot: the same first attribute; without a key it is the limit's name. */
static bool same_slot(const struct rule *x, const struct rule *y)
{
    return x->key_count > 0 && y->key_count > 0 && x->key[0] == y->key[0];
}

/* What keys of a limit begin with, for a message. */
static const char *first_part(const struct rules *rules, const struct rule *rule)
{
    return rule->key_count == 0 ? "no key" : rules->attributes.slots[rule->key[0]].name.at;
}

/* Whether the contract says that the store is a Cluster, or does not say what it is. */
static bool may_be_cluster(const struct lint *lint)
{
    const char *url = lint->load->store->url;
    return url == NULL || strstr(url, "+cluster://") != NULL;
}

static void lint_slots(struct lint *lint, size_t index)
{
    const struct rules *rules = lint->rules;
    const struct rule *rule = &rules->list[index];
    size_t seen = 0;
    for (size_t i = 0; i < index && seen < PAIRS_MAX; i++) {
        const struct rule *other = &rules->list[i];
        if (!is_counted(other))
            continue;
        seen++;
        if (rule_is_leased(other) || same_slot(other, rule)
            || (!bind_asks_no_more(other, rule) && !bind_asks_no_more(rule, other)))
            continue;
        lint->slot_notes++;
        lint_note(
            lint, index, "key",
            "let both keys begin with the same attribute, lease one of them, or leave it: it is all or nothing "
            "all the same",
            "is met together with '%s', whose keys begin with %s and its own with %s: in a Cluster such a "
            "request takes two scripts, one after the other",
            other->limit.name, first_part(rules, other), first_part(rules, rule));
        return;
    }
}

void lint_fleet(struct lint *lint, const struct binds *binds, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    if (!is_counted(rule))
        return;
    if (rule->store_fails.word == WEIR_STORE_LOCAL) {
        lint_sum(lint, index);
        lint_nothing(lint, index);
    }
    if (rule->store_fails.word == WEIR_STORE_OPEN)
        lint_open(lint, binds, index);
    if (rule_is_leased(rule))
        lint_lease(lint, index);
    else if (may_be_cluster(lint) && lint->slot_notes < SLOT_NOTES_MAX)
        lint_slots(lint, index);
}

void lint_store(struct lint *lint)
{
    const struct load *load = lint->load;
    if (load->storing != NULL && !lint->rules->has_shared)
        diagnostics_add(lint->diagnostics, WEIR_SEVERITY_WARNING, load->storing->place,
                        "write `scope: fleet` at a limit, or remove it", "no limit is counted in the store");
}
