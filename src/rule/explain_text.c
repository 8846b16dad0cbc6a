// SPDX-License-Identifier: Apache-2.0
/* explain_text.c - each limit as a paragraph of plain English, its worst case in numbers, and the answers to what is asked
   least often: a row each, `(default)` where the contract says nothing. */
#include "rule/explain.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- The paragraph ------------------------------------------------------------------------------------------------- */

static void add_whose(struct text *text, const struct rules *rules, const struct rule *rule)
{
    text_put(text, rule->key_count == 0 ? "Everybody together" : "Each ");
    for (size_t i = 0; i < rule->key_count; i++) {
        text_put(text, i == 0 ? "" : i + 1 == rule->key_count ? " and " : ", ");
        text_add(text, rules->attributes.slots[rule->key[i]].name);
        if (rules->attributes.slots[rule->key[i]].spelling == SPELLING_IP)
            text_format(text, " (/%u of IPv4, /%u of IPv6)", rules->grouping.ipv4, rules->grouping.ipv6);
    }
}

static void add_which(struct text *text, const struct rules *rules, const struct rule *rule)
{
    text_put(text, rule->condition_count == 0 ? ", for every request" : ", for requests whose ");
    for (size_t i = 0; i < rule->condition_count; i++) {
        text_put(text, i == 0 ? "" : " and whose ");
        condition_words(text, rules, &rule->conditions[i]);
    }
    text_put(text, rule->condition_count == 0 ? explain_mark(rule, LIMIT_WHEN) : "");
}

static void add_bucket(struct text *text, const struct rule *rule)
{
    char period[48];
    duration_format(rule->rate.period, period);
    if (rule->burst == 0) {
        text_put(text, "is never admitted: a burst of 0 blocks");
        return;
    }
    text_put(text, "may ask for ");
    explain_grouped(text, rule->burst);
    text_put(text, " at once; ");
    if (rule->rate.count == 0) {
        text_put(text, "nothing comes back");
        return;
    }
    explain_grouped(text, rule->rate.count);
    text_format(text, " more come back every %s", period);
}

static void add_fixed(struct text *text, const struct rule *rule)
{
    char period[48];
    enum weir_calendar unused;
    duration_format(rule->rate.period, period);
    if (rule->is_calendar)
        text_format(text, " in each calendar %s of the time zone %s", unit_calendar(rule->rate.unit, &unused),
                    rule->limit.zone);
    else if (rule->limit.align == WEIR_ALIGN_FIRST_REQUEST)
        text_format(text, " in each window of %s that begins with a first request", period);
    else
        text_format(text, " in each window of %s, counted from 1970-01-01T00:00Z%s", period,
                    explain_mark(rule, LIMIT_ALIGN));
}

static void add_windows(struct text *text, const struct rule *rule)
{
    char period[48];
    duration_format(rule->rate.period, period);
    text_put(text, "may ask for ");
    explain_grouped(text, rule->rate.count);
    if (rule->limit.algorithm == WEIR_FIXED_WINDOW)
        add_fixed(text, rule);
    else if (rule->limit.algorithm == WEIR_SLIDING_LOG)
        text_format(text, " in any %s, counted exactly", period);
    else
        text_format(text, " in the last %s, estimated from two windows' counts", period);
}

static void add_paragraph(struct text *text, const struct rules *rules, const struct rule *rule)
{
    text_put(text, "  ");
    add_whose(text, rules, rule);
    text_put(text, " ");
    if (rule->limit.algorithm == WEIR_LEAKY_QUEUE)
        explain_pace(text, rule);
    else if (rule->limit.algorithm == WEIR_CONCURRENCY)
        explain_permits(text, rule);
    else
        (rule_is_bucket(rule) ? add_bucket : add_windows)(text, rule);
    add_which(text, rules, rule);
    text_format(text, ". (%s%s)\n", weir_algorithm_name(rule->limit.algorithm),
                is_default(rule, LIMIT_ALGORITHM) ? ", default" : "");
}

/* ---- Numbers --------------------------------------------------------------------------------------------------------- */

static void add_most(struct text *text, const struct rule *rule, uint64_t replicas)
{
    if (rule->limit.algorithm == WEIR_CONCURRENCY) {
        explain_grouped(text, bound_times(rule->limit.at_most, replicas));
        text_put(text, replicas == 1
                           ? " permits unexpired at any instant; how many begin in a time is not bounded here\n"
                           : " permits together: each process gives its own\n");
        return;
    }
    for (int i = 0; i < SPAN_COUNT; i++) {
        text_put(text, i == 0 ? "" : ", ");
        explain_grouped(text, bound_times(bound_in(rule, spans[i].length), replicas));
        text_format(text, " %s", spans[i].name);
        if (i == SPAN_ONCE && rule->limit.algorithm == WEIR_FIXED_WINDOW)
            text_put(text, " (around an edge)");
    }
    text_put(text, "\n");
}

static void add_numbers(struct text *text, const struct explanation *explanation, const struct rule *rule)
{
    text_put(text, rule->key_count == 0 ? "    at most       " : "    each key      at most ");
    add_most(text, rule, 1);
    if (explanation->replicas == 1 || rule_is_shared(rule)) /* one budget, however many they are */
        return;
    char label[32];
    (void)snprintf(label, sizeof label, "%" PRIu64 " replicas", explanation->replicas);
    text_format(text, "    %-13s %s ", label, rule->limit.algorithm == WEIR_CONCURRENCY ? "give" : "admit");
    add_most(text, rule, explanation->replicas);
}

/* ---- The other answers ------------------------------------------------------------------------------------------------- */

static void add_cost(struct text *text, const struct rules *rules, const struct rule *rule)
{
    if (rule->has_cost_from) {
        text_put(text, "    cost          the attribute ");
        text_add(text, rules->attributes.slots[rule->cost_from].name);
        text_put(text, ", where it is absent ");
        explain_grouped(text, rule->cost_default);
        if (rule->cost_max != INT64_MAX) {
            text_put(text, "; above ");
            explain_grouped(text, rule->cost_max);
            text_put(text, " the request is refused for good");
        }
        text_put(text, "\n");
    } else if (rule->cost == 0) {
        text_put(text, "    cost          what the request says, else 1 (default)\n");
    } else {
        text_format(text, "    cost          %" PRIu64 ", whatever the request says\n", rule->cost);
    }
    text_put(text, "    too large     a cost above ");
    explain_grouped(text, rule_capacity(rule));
    text_put(text, " is refused for good: no wait can help\n");
}

/* P11 and P13: what comes back may be spent again, and what is charged afterwards is bounded by the debt. */
static void add_settled(struct text *text, const struct rule *rule)
{
    char time[48];
    if (rule->limit.algorithm == WEIR_CONCURRENCY) {
        explain_returned(text, rule);
        return;
    }
    text_put(text,
             "    given back    what settlements, cancels and refunds return within a time adds to the most of "
             "that time\n");
    if (!rule_is_bucket(rule))
        return;
    text_put(text, "    debt          ");
    if (rule->debt == 0) {
        text_format(text, "none: what a settlement charges beyond an empty budget is dropped%s\n",
                    explain_mark(rule, LIMIT_DEBT));
        return;
    }
    text_put(text, "a settlement may overdraw by ");
    explain_grouped(text, rule->debt);
    text_put(text, ", and what is beyond is dropped; nothing passes until it is paid back");
    if (rule->rate.count > 0) {
        weir_u128_ whole = (weir_u128_)rule->debt * rule->rate.period + (rule->rate.count - 1);
        duration_format((weir_ns)(whole / rule->rate.count), time);
        text_format(text, ", which takes up to %s", time);
    }
    text_put(text, "\n");
}

static void add_repeated(struct text *text, const struct rules *rules, const struct rule *rule)
{
    char time[48];
    if (rule->limit.algorithm == WEIR_CONCURRENCY) {
        text_put(text, "    repeated      a retry needs a permit of its own\n");
        return;
    }
    if (rule->limit.retries_free_within == 0) {
        text_format(text, "    repeated      a retry counts again%s\n", explain_mark(rule, LIMIT_RETRIES));
        return;
    }
    duration_format(rule->limit.retries_free_within, time);
    text_put(text, "    repeated      a request with the same ");
    text_add(text, rules->attributes.slots[rule->retry_by].name);
    text_format(text, " within %s of one that passed is not charged again\n", time);
}

static void add_refused(struct text *text, const struct rule *rule)
{
    if (rule->refused == WEIR_REFUSAL_FREE) {
        text_format(text, "    refused       a refused request consumes nothing%s\n",
                    explain_mark(rule, LIMIT_REFUSED));
        return;
    }
    text_put(text, "    refused       a refused request is charged too, up to ");
    explain_grouped(text, rule_capacity(rule));
    text_put(text, " more: who hammers stays out until slowing down\n");
}

static void add_missing_key(struct text *text, const struct rules *rules, const struct rule *rule)
{
    static const char *const words[] = {
        [MISSING_SKIP] = "is not counted here: the limit does not apply",
        [MISSING_SHARE] = "shares one budget with all that lack the same",
        [MISSING_REFUSE] = "is refused for good, without charging any limit",
    };
    if (rule->key_count == 0)
        return;
    text_put(text, "    unidentified  a request without ");
    for (size_t i = 0; i < rule->key_count; i++) {
        text_put(text, i == 0 ? "" : i + 1 == rule->key_count ? " or " : ", ");
        text_add(text, rules->attributes.slots[rule->key[i]].name);
    }
    text_format(text, " %s%s\n", words[rule->missing_key], explain_mark(rule, LIMIT_MISSING_KEY));
}

static void add_when_full(struct text *text, const struct rule *rule)
{
    static const char *const words[] = {
        [WEIR_FULL_OVERFLOW] = "new keys share one more budget of the same size",
        [WEIR_FULL_CLOSED] = "new keys are refused until another dies",
        [WEIR_FULL_EVICT_LEAST] = "a new key takes the place of the one that would be whole soonest",
        [WEIR_FULL_OPEN] = "new keys pass uncounted",
    };
    text_format(text, "    table full    %s%s\n", words[rule->limit.when_full],
                explain_mark(rule, LIMIT_WHEN_FULL));
}

static void add_state_lost(struct text *text, const struct rule *rule)
{
    char time[48];
    weir_ns whole = explain_whole(rule);
    if (rule->limit.algorithm == WEIR_CONCURRENCY) {
        explain_permits_lost(text, rule);
        return;
    }
    if (rule->state_lost == WEIR_LOST_FULL) {
        text_format(text, "    state lost    %s forgets what was counted: each key may ask for ",
                    rule_is_shared(rule) ? "a store that comes back empty" : "a restart");
        explain_grouped(text, rule_capacity(rule));
        text_format(text, " again at once%s\n", explain_mark(rule, LIMIT_WHEN_STATE_LOST));
        return;
    }
    text_format(text,
                "    state lost    after %s every key begins with nothing left, so that nothing more passes",
                rule_is_shared(rule) ? "a store came back empty" : "a restart");
    if (whole != WEIR_NO_TIME) {
        duration_format(whole, time);
        text_format(text, "; it is whole within %s%s", rule->is_calendar ? "a window, at most " : "", time);
    }
    if (rule_is_leased(rule))
        explain_leased_lost(text, rule);
    text_put(text, "\n");
}

static void add_overrides(struct text *text, const struct rule *rule)
{
    const struct override_facts *facts = &rule->overrides;
    size_t sized = facts->count - facts->unlimited;
    if (rule->key_count == 0)
        return;
    text_put(text, "    overrides     ");
    if (facts->count == 0) {
        text_format(text, "none: every key has this size%s\n", explain_mark(rule, LIMIT_OVERRIDES));
        return;
    }
    if (sized > 0) {
        explain_grouped(text, sized);
        text_put(text,
                 sized == 1 ? " key has a size of its own, " : " keys have a size of their own, the largest ");
        explain_grouped(text, facts->most);
        if (rule->limit.algorithm == WEIR_CONCURRENCY) {
            text_put(text, " permits");
        } else {
            text_put(text, rule_is_bucket(rule) ? " at once and " : ": ");
            rate_format(&facts->most_rate, text);
        }
    }
    if (facts->unlimited > 0) {
        text_put(text, sized > 0 ? "; " : "");
        explain_grouped(text, facts->unlimited);
        text_put(text, facts->unlimited == 1 ? " key is not counted at all" : " keys are not counted at all");
    }
    text_put(text, "\n");
}

static void add_enforced(struct text *text, const struct rule *rule)
{
    text_put(text, "    enforced      ");
    switch ((enum weir_enforce)rule->enforce) {
    case WEIR_ENFORCE_ALWAYS:
        text_format(text, "always%s\n", explain_mark(rule, LIMIT_ENFORCE));
        break;
    case WEIR_ENFORCE_SHADOW:
        text_put(text, "never: it is a shadow, and only says what it would answer\n");
        break;
    case WEIR_ENFORCE_OFF:
        text_put(text, "never: it is off, and not even asked\n");
        break;
    case WEIR_ENFORCE_SHARE:
        text_format(text, "for %u%% of the keys, always the same ones; for the others it is a shadow\n",
                    rule->enforce_percent);
        break;
    }
}

static void add_reply(struct text *text, const struct rule *rule)
{
    text_format(text, "    reply         status %u%s", rule->reply_status == 0 ? 429 : rule->reply_status,
                explain_mark(rule, LIMIT_REPLY));
    if (rule->reply_title != NULL) {
        text_put(text, ", ");
        text_put(text, rule->reply_title);
    }
    if (rule->reply_detail != NULL) {
        text_put(text, ": ");
        text_put(text, rule->reply_detail);
    }
    text_put(text, "\n");
}

/* What a reload keeps. */
static void add_reload(struct text *text, const struct rule *rule)
{
    text_put(text, "    on reload     ");
    if (rule_is_shared(rule)) {
        text_put(
            text,
            rule->limit.algorithm == WEIR_CONCURRENCY
                ? "permits stay held in the store; a changed at-most holds at once, a changed hold from the "
                  "next "
                  "renewal; another name, key, algorithm or scope starts afresh"
                : "counters stay in the store, and a changed size holds at once; another name, key, algorithm, "
                  "align or scope starts afresh");
        if (rule_is_leased(rule))
            explain_leased_reload(text, rule);
        text_put(text, "\n");
    } else {
        text_put(
            text,
            rule->limit.algorithm == WEIR_CONCURRENCY
                ? "permits stay held and who waits keeps its place; a changed at-most holds at once, a changed "
                  "hold from the next renewal; another name, key or algorithm starts afresh\n"
                : "counters go on, and a changed size holds at once; another name, key, algorithm or "
                  "align starts afresh\n");
    }
}

static void add_answers(struct text *text, const struct explanation *explanation, const struct rule *rule)
{
    const struct rules *rules = explanation->rules;
    add_cost(text, rules, rule);
    add_settled(text, rule);
    add_refused(text, rule);
    add_repeated(text, rules, rule);
    explain_waiting(text, rule);
    add_missing_key(text, rules, rule);
    add_overrides(text, rule);
    if (rule_is_shared(rule)) {
        explain_shared(text, explanation, rule);
    } else {
        text_format(text, "    shared        each process counts by itself%s\n",
                    explain_mark(rule, LIMIT_SCOPE));
        add_when_full(text, rule);
    }
    add_state_lost(text, rule);
    add_reload(text, rule);
    add_enforced(text, rule);
    add_reply(text, rule);
}

static void add_limit(struct text *text, const struct explanation *explanation, const struct rule *rule)
{
    text_format(text, "\n%s", rule->limit.name);
    if (rule->enforce != WEIR_ENFORCE_ALWAYS) {
        text_put(text, " (enforced: ");
        rule_enforce(text, rule);
        text_put(text, ")");
    }
    if (rule->about != NULL) {
        text_put(text, ": ");
        text_put(text, rule->about);
    }
    text_put(text, "\n");
    add_paragraph(text, explanation->rules, rule);
    add_numbers(text, explanation, rule);
    add_answers(text, explanation, rule);
}

/* ---- The contract -------------------------------------------------------------------------------------------------------- */

static void add_memory(struct text *text, const struct explanation *explanation)
{
    const struct weir_stats *stats = &explanation->stats;
    const struct memory_config *memory = explanation->memory;
    text_put(text, "\nmemory\n  keys          ");
    explain_grouped(text, memory->keys == 0 ? 65536 : memory->keys);
    text_format(text, " live at once%s: a table of ", memory->keys == 0 ? " (default)" : "");
    explain_grouped(text, stats->cells * 16);
    text_put(text, " bytes\n  log rings     ");
    explain_grouped(text, stats->log_stamps);
    text_format(text, " stamps%s: ", memory->log_stamps == 0 ? " (default)" : "");
    explain_grouped(text, stats->log_stamps * 8);
    text_put(text, " bytes\n  permits       ");
    explain_grouped(text, stats->permits);
    text_format(text, " at once%s: ", memory->permits == 0 ? " (default)" : "");
    explain_grouped(text, stats->permits * EXPLAIN_PERMIT_BYTES);
    if (explanation->share_bytes > 0) {
        text_put(text,
                 " bytes\n  shares        in `weir serve` as much again, for what `local` lets through: ");
        explain_grouped(text, explanation->share_bytes);
    }
    text_put(text, " bytes\n  in all        ");
    explain_grouped(text, stats->bytes + explanation->share_bytes);
    text_put(text, " bytes, reserved at the start\n");
    explain_store_memory(text, explanation);
    text_put(text, "  new keys      ");
    if (memory->new_keys.multiple == 0)
        text_put(text, "as many as come (default)");
    else
        rate_format(&memory->new_keys, text);
    text_put(text, memory->new_keys.multiple == 0 ? "\n" : ", beyond it as when the table is full\n");
}

static void add_field(void *context, const char *prefix, struct slice name)
{
    text_format(context, "  %s%.*s\n", prefix, (int)name.len, name.at);
}

static void add_proxies(struct text *text, const struct explanation *explanation)
{
    const struct rules *rules = explanation->rules;
    if (rules->identity.proxy_count == 0)
        return;
    text_put(text,
             "\na proxy in identity.proxies must overwrite or delete these, or its clients choose them\n");
    explain_proxy_fields(rules, add_field, text);
    text_put(text, "  X-Forwarded-Method, X-Forwarded-Host, X-Forwarded-Uri (in front of /v1/auth)\n"
                   "  X-Original-Method, X-Original-URI (in front of /v1/auth-nginx and /v1/auth-accel)\n");
    if (explanation->server->auth_wait) /* else nobody listens to it */
        text_put(text, "  Prefer\n");
}

static void add_request(struct text *text, const struct explanation *explanation)
{
    const struct rules *rules = explanation->rules;
    bool meets_any = false;
    text_put(text, "\nthis request meets\n");
    for (int is_meeting = 1; is_meeting >= 0; is_meeting--) {
        for (size_t i = 0; i < rules->limit_count; i++) {
            const struct rule *rule = &rules->list[i];
            struct reason reason = explain_why(rule, explanation->request);
            if ((reason.why == WHY_MEETS) != (is_meeting == 1))
                continue;
            meets_any = meets_any || is_meeting == 1;
            text_format(text, "  %s: ", rule->limit.name);
            explain_reason(text, rules, rule, explanation->request, &reason);
            if (is_meeting == 1)
                explain_enforcement(text, rules, rule, explanation->request);
            text_put(text, "\n");
        }
        if (is_meeting == 1 && !meets_any)
            text_put(text, "  no limit: it is allowed\n");
        text_put(text, is_meeting == 1 ? "it does not meet\n" : "");
    }
}

void explain_text(struct text *text, const struct explanation *explanation)
{
    const struct rules *rules = explanation->rules;
    text_format(text, "contract %s, %zu limit%s, %" PRIu64 " replica%s%s\n", rules->version, rules->limit_count,
                rules->limit_count == 1 ? "" : "s", explanation->replicas,
                explanation->replicas == 1 ? "" : "s", explanation->is_replicas_default ? " (default)" : "");
    for (size_t i = 0; i < rules->limit_count; i++)
        add_limit(text, explanation, &rules->list[i]);
    explain_doors(text, explanation);
    explain_store(text, explanation);
    add_memory(text, explanation);
    add_proxies(text, explanation);
    if (explanation->request != NULL)
        add_request(text, explanation);
}
