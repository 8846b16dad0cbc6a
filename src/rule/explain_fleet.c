// SPDX-License-Identifier: Apache-2.0
/*
 * explain_fleet.c - a budget that a fleet shares, in plain English: where it is counted, what that costs and when it is late, and
 * what more can pass while the store is away or after it has lost something (algorithms 4.3 and 5, with this limit's numbers).
 */
#include "rule/explain.h"

#include <inttypes.h>

#include "rule/size.h"

/* ---- Worst cases -------------------------------------------------------------------------------------------------------- */

/* One process's share, as a limit whose bounds can be asked. */
static struct rule share_rule(const struct rule *rule)
{
    struct rule share = *rule;
    struct weir_size size = size_of(rule), part;
    if (size_share(rule, &size, &part)) {
        share.rate.count = part.rate.count;
        share.rate.period = rule->is_calendar ? rule->rate.period : part.rate.period;
        share.burst = part.burst;
    }
    return share;
}

uint64_t explain_share_in(const struct rule *rule, weir_ns length, uint64_t replicas)
{
    struct rule share = share_rule(rule);
    if (rule_capacity(&share) == 0)
        return 0;
    return bound_times(bound_in(&share, length), replicas);
}

uint64_t explain_failover_adds(const struct rule *rule)
{
    return rule->limit.algorithm == WEIR_CONCURRENCY ? rule->limit.at_most : bound_in(rule, WEIR_SECOND);
}

static const char *of_each_key(const struct rule *rule)
{
    return rule->key_count == 0 ? "" : " for each key";
}

/* ---- Rows ---------------------------------------------------------------------------------------------------------------- */

/* Of the refusals that a process may keep: others change something in the store. */
static const char *remembered(const struct rule *rule)
{
    const struct weir_limit *limit = &rule->limit;
    if (limit->algorithm == WEIR_CONCURRENCY || limit->refused == WEIR_REFUSAL_CHARGED
        || limit->retries_free_within > 0)
        return "every refusal asks the store, too";
    return "a refusal is remembered here until the time that it named, for at most five seconds, so what is "
           "given "
           "back elsewhere may be noticed that late";
}

static void add_counted(struct text *text, const struct explanation *explanation, const struct rule *rule)
{
    char deadline[48];
    duration_format(explanation->store->deadline, deadline);
    text_format(
        text,
        "    shared        one budget for all replicas, in the store: %s asks it once, for at most %s%s; its "
        "times are exact to %s\n",
        rule_is_leased(rule) ? "a request that finds too little in hand" : "each request", deadline,
        explanation->store->has_deadline ? "" : " (default)",
        rule->shared.tick == WEIR_MICROSECOND ? "a microsecond" : "a millisecond");
    text_format(
        text,
        "    late          an answer that comes too late counts as consumed, and is not asked for again; %s\n",
        remembered(rule));
}

/* What the share is made of. */
static void add_share_size(struct text *text, const struct rule *rule, const struct rule *share)
{
    char period[48];
    duration_format(share->rate.period, period);
    if (rule_is_bucket(rule)) {
        explain_grouped(text, share->burst);
        text_put(text, " at once and ");
        explain_grouped(text, share->rate.count);
        text_format(text, " every %s, beginning with nothing at each outage", period);
        return;
    }
    explain_grouped(text, share->rate.count);
    text_put(text, rule->is_calendar ? " in a window" : " in ");
    text_format(text, "%s, whole at the first outage and kept from one to the next",
                rule->is_calendar ? "" : period);
}

/* N_act * (B_f + r_f X) for an X of one minute. */
static void add_local(struct text *text, const struct explanation *explanation, const struct rule *rule)
{
    struct rule share = share_rule(rule);
    text_format(text, "each replica lets through %u/%u by itself: ", (unsigned)rule->store_fails.share,
                (unsigned)rule->store_fails.share_of);
    add_share_size(text, rule, &share);
    text_put(text, "; ");
    explain_grouped(text, explanation->replicas);
    text_put(text, explanation->replicas == 1 ? " replica adds" : " replicas add");
    if (explanation->is_replicas_default)
        text_put(text, " (default)");
    text_put(text, " at most ");
    explain_grouped(text, explain_share_in(rule, WEIR_MINUTE, explanation->replicas));
    text_put(text, of_each_key(rule));
    text_put(text, " in an outage of a minute, beside what others may still get from the store; it is "
                   "charged to the store when that is back\n");
}

static void add_away(struct text *text, const struct explanation *explanation, const struct rule *rule)
{
    char time[48];
    const struct store_policy *policy = &rule->store_fails;
    text_put(text, "    store away    ");
    if (rule_is_leased(rule))
        explain_leased_away(text, rule);
    if (policy->word == WEIR_STORE_LOCAL) {
        add_local(text, explanation, rule);
    } else if (policy->word != WEIR_STORE_OPEN) {
        text_put(text, "refused until it is back (503): nothing more passes\n");
    } else if (policy->open_for == 0) {
        text_put(text, "everything passes uncounted, as long as it lasts: there is no bound\n");
    } else {
        duration_format(policy->open_for, time);
        text_format(
            text,
            "everything passes uncounted for %s from the beginning of an outage, without a bound; after "
            "that it is refused (503)\n",
            time);
    }
    text_put(text, "    store full    a store that has no memory left counts as away; keys leave it when they "
                   "are whole\n");
}

/* min(B + r Delta, what was granted in Delta, and of a lease what was out before). */
static void add_failover(struct text *text, const struct rule *rule)
{
    if (rule->limit.algorithm == WEIR_CONCURRENCY) {
        text_put(text,
                 "    failover      permits that the new master had not heard of are given once more: up to ");
        explain_grouped(text, rule->limit.at_most);
        text_put(text, " more while their holders still work\n");
        return;
    }
    text_put(text,
             "    failover      what passed and the new master had not heard of can pass once more: at most ");
    text_put(text, "what was admitted in that time");
    if (rule_is_leased(rule)) {
        text_put(text, " and the ");
        explain_grouped(text, rule->lease.most);
        text_put(text, " that may be out");
    }
    text_put(text, ", with a lag of a second at most ");
    explain_grouped(text, explain_failover_adds(rule));
    if (rule_is_leased(rule) && rule_is_bucket(rule)) {
        text_put(text, ", of an hour (a copy that is restored) ");
        explain_grouped(text, explain_rollback_adds(rule, WEIR_HOUR));
    }
    text_put(text, of_each_key(rule));
    text_put(text, "\n");
}

void explain_shared(struct text *text, const struct explanation *explanation, const struct rule *rule)
{
    add_counted(text, explanation, rule);
    if (rule_is_leased(rule))
        explain_leased(text, explanation, rule);
    add_away(text, explanation, rule);
    add_failover(text, rule);
}

/* ---- The store -------------------------------------------------------------------------------------------------------------- */

/* Without user and password: what stands before the last '@' of the hosts. */
void explain_store_url(const char *url, struct slice parts[2])
{
    const char *hosts = strstr(url, "://");
    hosts = hosts == NULL ? url : hosts + 3;
    size_t len = strcspn(hosts, "/");
    const char *at = hosts;
    for (size_t i = 0; i < len; i++)
        if (hosts[i] == '@')
            at = hosts + i + 1;
    parts[0] = (struct slice){ url, (size_t)(hosts - url) };
    parts[1] = slice_of(at);
}

void explain_store(struct text *text, const struct explanation *explanation)
{
    char deadline[48];
    struct slice parts[2];
    const struct weir_contract_store *store = explanation->store;
    if (!explanation->rules->has_shared)
        return;
    duration_format(store->deadline, deadline);
    text_put(text, "\nstore\n  where         ");
    if (store->url == NULL) {
        text_put(text, "as `weir serve --store URL` says");
    } else {
        explain_store_url(store->url, parts);
        text_add(text, parts[0]);
        text_add(text, parts[1]);
    }
    text_format(text, "\n  deadline      %s of one decision%s\n", deadline,
                store->has_deadline ? "" : " (default)");
    text_put(text, "  noticed       a store that comes back empty is noticed with the next connection, one "
                   "that was flushed "
                   "within ten seconds; till then its keys begin whole\n");
}

/* As the fleet side has them: DENIED_ENTRIES of 64 bytes, JOURNAL_BYTES_MAX. */
#define DENIED_BYTES (UINT64_C(1) << 20)
#define JOURNAL_BYTES (UINT64_C(16) << 20)

void explain_store_memory(struct text *text, const struct explanation *explanation)
{
    if (!explanation->rules->has_shared)
        return;
    text_put(text, "  for the store `weir serve` takes beside that ");
    explain_grouped(text, DENIED_BYTES);
    text_put(text, " bytes for refusals that it remembers, and what requests under way need");
    if (explanation->share_bytes > 0) {
        text_put(text, "; in an outage up to ");
        explain_grouped(text, JOURNAL_BYTES);
        text_put(text, " bytes for what is still to be charged");
    }
    text_put(text, "\n");
}
