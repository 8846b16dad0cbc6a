// SPDX-License-Identifier: Apache-2.0
/*
 * explain_lease.c - a budget that is handed out in portions, in plain English: what the fleet is admitted, what lies unused, and what
 * each thing that can go wrong costs or adds (algorithms 4.4 and 4.5, with this limit's numbers).
 */
#include "rule/explain.h"

#include <inttypes.h>

/* After a portion's end the store counts it as out for so long: SCRIPT_LEASE_GRACE_NS of the fleet. */
#define GRACE(duration) ((duration) / 50 + WEIR_MILLISECOND)

/* A portion ends at its replica a hundredth of its time early, counted from before it was asked for. */
#define MARGIN(duration) ((duration) / 100)

/* ---- Worst cases -------------------------------------------------------------------------------------------------------- */

/* From a grant until the store takes the portion for lost. */
static weir_ns outlives(const struct rule *rule)
{
    return rule->lease.duration + GRACE(rule->lease.duration);
}

/* What comes back in a time; of a window nothing does. */
static uint64_t comes_back(const struct rule *rule, weir_ns length, bool is_rounded_up)
{
    if (!rule_is_bucket(rule) || rule->rate.count == 0)
        return 0;
    weir_u128_ whole = (weir_u128_)rule->rate.count * length;
    whole = (whole + (is_rounded_up ? rule->rate.period - 1 : 0)) / rule->rate.period;
    return whole < rule->burst ? (uint64_t)whole : rule->burst;
}

/* O + min(B, r sigma): portions are forgotten while they are held, and time is credited that has not passed. */
uint64_t explain_step_adds(const struct rule *rule, weir_ns step)
{
    return rule->lease.most + comes_back(rule, step, true);
}

/* A step back by more than a window ends it sooner than its portions know: they are spent in the next. */
uint64_t explain_step_back_adds(const struct rule *rule)
{
    return rule_is_bucket(rule) ? 0 : rule->lease.most;
}

/* Of what was taken since, and what is out, at most what the limit lets through in the time. */
uint64_t explain_rollback_adds(const struct rule *rule, weir_ns lost)
{
    return rule_is_bucket(rule) ? bound_in(rule, lost) : rule->rate.count;
}

/* r (ttl + grace): until portions of before are over nothing comes back. */
uint64_t explain_lost_costs(const struct rule *rule)
{
    return rule->state_lost == WEIR_LOST_EMPTY ? comes_back(rule, outlives(rule), true) : 0;
}

weir_ns explain_whole(const struct rule *rule)
{
    weir_ns whole = rule_window(rule);
    bool is_later = rule_is_leased(rule) && rule_is_bucket(rule);
    return is_later && whole < WEIR_NO_TIME - outlives(rule) ? whole + outlives(rule) : whole;
}

weir_ns explain_slack(const struct rule *rule)
{
    return MARGIN(rule->lease.duration) + GRACE(rule->lease.duration);
}

weir_ns explain_refresh(const struct rule *rule)
{
    return rule->lease.duration / 2;
}

/* ---- Rows ---------------------------------------------------------------------------------------------------------------- */

static const char *of_each_key(const struct rule *rule)
{
    return rule->key_count == 0 ? "" : " for each key";
}

static void add_leased(struct text *text, const struct rule *rule)
{
    char time[48];
    duration_format(rule->lease.duration, time);
    text_put(text, "    leased        portions of at most ");
    explain_grouped(text, rule->lease.chunk);
    text_put(text, " at one replica and ");
    explain_grouped(text, rule->lease.most);
    text_format(text, " at all together%s, each for at most %s%s, smaller where less is left\n",
                of_each_key(rule), time, rule->has_lease_for ? "" : " (default)");
}

static void add_bound(struct text *text, const struct rule *rule)
{
    char time[48];
    text_put(text, "    bound         a portion is out of the budget from its granting on: ");
    if (rule_is_bucket(rule)) {
        duration_format(rule->rate.period, time);
        text_put(text, "in any time the fleet is admitted at most ");
        explain_grouped(text, rule->burst);
        text_put(text, " and what comes back in it, ");
        explain_grouped(text, rule->rate.count);
        text_format(text, " every %s", time);
    } else {
        text_put(text, "what is in hand, spent and lost is together never above ");
        explain_grouped(text, rule->rate.count);
        text_put(text, " in a window");
    }
    text_put(text, ", whatever becomes of replicas and messages; from idle one replica alone is admitted all ");
    explain_grouped(text, rule_capacity(rule));
    text_put(text, "\n");
}

static void add_stranded(struct text *text, const struct rule *rule)
{
    char time[48];
    text_put(text, "    stranded      at most ");
    explain_grouped(text, rule->lease.most);
    text_format(text, " at a time%s lie in hands that do not need them (", of_each_key(rule));
    explain_grouped(text, rule->lease.chunk);
    text_put(text, " in one), so that much less may pass\n");
    duration_format(outlives(rule), time);
    text_put(text, "    crash         a replica that dies wastes what it held, at most ");
    explain_grouped(text, rule->lease.chunk);
    text_format(text,
                rule_is_bucket(rule) ? ", once; that begins to come back after %s at the latest\n"
                                     : ", once in the window; it is known to be lost after %s at the latest\n",
                time);
}

static void add_adds(struct text *text, const struct explanation *explanation, const struct rule *rule)
{
    char time[48];
    text_put(text, "    suspended     a replica that stands still between check and work acts late: at most ");
    explain_grouped(text, rule->lease.chunk);
    text_put(text, " more for each such, ");
    explain_grouped(text, bound_times(rule->lease.chunk, explanation->replicas));
    text_format(text, " for %" PRIu64 "%s", explanation->replicas,
                explanation->is_replicas_default ? " (default)" : "");
    if (explanation->store->deadline > explain_slack(rule)) {
        duration_format(explain_slack(rule), time);
        text_format(text, "; and so may one whose request asks the store for a part and waits more than %s",
                    time);
    }
    text_put(text, "\n");
    text_put(text, "    clock step    ");
    if (rule_is_bucket(rule)) {
        text_put(text, "a store's clock that steps forward by a second adds at most ");
        explain_grouped(text, explain_step_adds(rule, WEIR_SECOND));
        text_put(text, ", by an hour ");
        explain_grouped(text, explain_step_adds(rule, WEIR_HOUR));
        text_put(
            text,
            ": portions that it forgets, and what it lets come back early; one that steps back, nothing\n");
        return;
    }
    text_put(text,
             "a store's clock that steps forward over an edge begins the next window early, beside at most ");
    explain_grouped(text, rule->lease.most);
    text_put(text, " still in hand; one that steps back by more than a window adds at most ");
    explain_grouped(text, explain_step_back_adds(rule));
    text_put(text, ", which are out and spent in the window that begins then\n");
}

/* What one replica carries by itself, if it is told nothing but what the contract says: it speaks earlier when half is spent. */
static void add_refills(struct text *text, const struct rule *rule)
{
    char time[48];
    duration_format(explain_refresh(rule), time);
    text_format(text,
                "    refills       a replica reports and takes more when half is spent, after %s at the latest",
                time);
    if (rule_is_bucket(rule))
        text_put(text, "; what is out and not reported does not come back");
    text_put(text, "; between two refills it spends at most ");
    explain_grouped(text, rule->lease.chunk);
    text_put(text, " by itself, and asks the store for more\n");
}

void explain_leased(struct text *text, const struct explanation *explanation, const struct rule *rule)
{
    add_leased(text, rule);
    add_bound(text, rule);
    add_stranded(text, rule);
    add_adds(text, explanation, rule);
    add_refills(text, rule);
}

/* ---- Where other rows speak of leases, too ------------------------------------------------------------------------------- */

void explain_leased_away(struct text *text, const struct rule *rule)
{
    char time[48];
    duration_format(rule->lease.duration, time);
    text_put(text, "what is in hand is spent, at most ");
    explain_grouped(text, rule->lease.most);
    text_format(text, "%s in total and within %s, out of the budget; then ", of_each_key(rule), time);
}

void explain_leased_lost(struct text *text, const struct rule *rule)
{
    char time[48];
    duration_format(outlives(rule), time);
    if (!rule_is_bucket(rule)) {
        text_put(text, "; portions of before are part of what passed before");
        return;
    }
    text_format(text,
                "; nothing comes back for the first %s, till portions of before are over: that is at most ",
                time);
    explain_grouped(text, explain_lost_costs(rule));
    text_put(text, " less, once");
}

void explain_leased_reload(struct text *text, const struct rule *rule)
{
    char time[48];
    duration_format(rule->lease.duration, time);
    text_put(text, "; portions that are out end under the old terms: at most ");
    explain_grouped(text, rule->lease.most);
    text_format(text, ", within %s", time);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------------- */

void explain_leased_json(struct text *text, const struct explanation *explanation, const struct rule *rule)
{
    text_put(text, ",\"leased\":");
    if (!rule_is_leased(rule)) {
        text_put(text, "null");
        return;
    }
    const struct weir_lease *lease = &rule->lease;
    const struct {
        const char *name;
        uint64_t number;
    } rows[] = {
        { "stranded_most", lease->most },
        { "stranded_of_replica", lease->chunk },
        { "crash_wastes", lease->chunk },
        { "suspended_adds", lease->chunk },
        { "suspended_adds_of_replicas", bound_times(lease->chunk, explanation->replicas) },
        { "deadline_adds", explanation->store->deadline > explain_slack(rule) ? lease->chunk : 0 },
        { "step_of_second_adds", explain_step_adds(rule, WEIR_SECOND) },
        { "step_of_hour_adds", explain_step_adds(rule, WEIR_HOUR) },
        { "step_back_adds", explain_step_back_adds(rule) },
        { "rollback_of_hour_adds", explain_rollback_adds(rule, WEIR_HOUR) },
        { "state_lost_costs", explain_lost_costs(rule) },
        { "store_away_spends", lease->most },
        { "refresh_spends", lease->chunk },
    };
    text_put(text, "{");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text_format(text, "\"%s\":", rows[i].name);
        text_number(text, rows[i].number);
        text_put(text, ",");
    }
    text_put(text, "\"refresh\":");
    text_add_seconds(text, explain_refresh(rule));
    text_put(text, ",\"out_at_most\":");
    text_add_seconds(text, outlives(rule));
    text_put(text, "}");
}
