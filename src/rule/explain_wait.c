// SPDX-License-Identifier: Apache-2.0
/*
 * explain_wait.c - turns and permits in plain English: who waits and how long at worst, who holds a permit and when it
 * returns, and what neither promises.
 */
#include "rule/explain.h"

/* ---- Paragraphs ------------------------------------------------------------------------------------------------------ */

void explain_pace(struct text *text, const struct rule *rule)
{
    char time[48];
    uint64_t count = rule->rate.count;
    if (count == 0) {
        text_put(text, "may ask once; nothing comes back");
        return;
    }
    bool is_whole = rule->rate.period % count == 0;
    duration_format(is_whole ? rule->rate.period / count : rule->rate.period, time);
    if (is_whole) {
        text_format(text, "leaves one every %s, nobody ahead of turn", time);
        return;
    }
    text_put(text, "leaves ");
    explain_grouped(text, count);
    text_format(text, " every %s, evenly spaced, nobody ahead of turn", time);
}

void explain_permits(struct text *text, const struct rule *rule)
{
    char time[48];
    duration_format(rule->limit.hold, time);
    text_put(text, "holds ");
    explain_grouped(text, rule->limit.at_most);
    text_format(text, " permit%s at most; one that is not renewed within %s returns by itself",
                rule->limit.at_most == 1 ? "" : "s", time);
}

/* ---- Permits ----------------------------------------------------------------------------------------------------------- */

void explain_returned(struct text *text, const struct rule *rule)
{
    char hold[48], third[48];
    if (rule->enforce == WEIR_ENFORCE_SHADOW) {
        text_put(text, "    permits       none: a shadow gives none, so it never finds any held\n");
        return;
    }
    duration_format(rule->limit.hold, hold);
    duration_format(rule->limit.hold / 3 < WEIR_SECOND ? rule->limit.hold / 3
                                                       : rule->limit.hold / 3 / WEIR_SECOND * WEIR_SECOND,
                    third);
    text_put(
        text,
        "    permits       only calls that can return them get one (POST /v1/acquire, weir_acquire); every "
        "other door only looks: it refuses while all are held, and holds nothing\n");
    text_format(text, "    dead holder   its permit returns %s after it was given or last renewed\n", hold);
    text_put(text, "    beyond        more than ");
    explain_grouped(text, rule->limit.at_most);
    text_format(
        text,
        " can run where a holder works on past its permit: renew every %s, stop when that is refused, and "
        "have the resource refuse an older fence\n",
        third);
}

void explain_permits_lost(struct text *text, const struct rule *rule)
{
    char hold[48];
    duration_format(rule->limit.hold, hold);
    bool is_shared = rule_is_shared(rule);
    if (rule->state_lost == WEIR_LOST_EMPTY) {
        text_format(text,
                    "    state lost    after %s nobody gets a permit for %s: by then those of before "
                    "have expired\n",
                    is_shared ? "a store came back empty" : "a restart", hold);
        return;
    }
    text_format(text, "    state lost    %s forgets the permits: each key may be given ",
                is_shared ? "a store that comes back empty" : "a restart");
    explain_grouped(text, rule->limit.at_most);
    text_format(text, " more while holders of before still work; their next renewal is refused%s\n",
                explain_mark(rule, LIMIT_WHEN_STATE_LOST));
}

/* ---- Waiting ----------------------------------------------------------------------------------------------------------- */

/* "101st". */
static void add_ordinal(struct text *text, uint64_t number)
{
    static const char *const endings[] = { "th", "st", "nd", "rd" };
    bool is_teen = number % 100 >= 11 && number % 100 <= 13;
    explain_grouped(text, number);
    text_put(text, number % 10 > 3 || is_teen ? "th" : endings[number % 10]);
}

/* Which of the two bounds ends a wait. */
static void add_longest(struct text *text, const struct rule *rule)
{
    char longest[48], up_to[48];
    uint64_t turns = bound_turns(rule), queue = rule->limit.wait.queue;
    duration_format(bound_longest_wait(rule), longest);
    duration_format(rule->limit.wait.up_to, up_to);
    text_put(text, "    longest wait  ");
    if (rule->limit.algorithm == WEIR_CONCURRENCY) {
        text_format(text, "%s, when up-to ends it: how soon permits return depends on the work\n", up_to);
    } else if (turns == 0) {
        text_put(text, "none: nothing comes back, so no turn ever comes\n");
    } else if (turns < queue) {
        text_format(text, "%s, when up-to ends it: with costs of 1 that is %s", up_to,
                    turns == 1 ? "one turn" : "");
        if (turns > 1) {
            explain_grouped(text, turns);
            text_put(text, " turns");
        }
        text_put(text, ", so the queue is never full\n");
    } else if (bound_longest_wait(rule) < rule->limit.wait.up_to) {
        text_format(text, "%s with costs of 1, when the last of a full queue leaves: up-to is never reached\n",
                    longest);
    } else {
        text_format(text, "%s, when up-to ends it; with costs of 1 a full queue leaves in that time\n", up_to);
    }
}

void explain_waiting(struct text *text, const struct rule *rule)
{
    char up_to[48];
    if (!rule_waits(rule)) {
        text_format(text, "    waiting       nobody waits: what does not fit is refused at once%s\n",
                    explain_mark(rule, LIMIT_WAIT));
        return;
    }
    if (rule->enforce == WEIR_ENFORCE_SHADOW) {
        text_put(text, "    waiting       nobody waits for a shadow\n");
        return;
    }
    duration_format(rule->limit.wait.up_to, up_to);
    text_put(text, "    waiting       up to ");
    explain_grouped(text, rule->limit.wait.queue);
    text_format(text, " wait%s, at most %s, first come first served; the ",
                rule->key_count == 0 ? "" : " for each key", up_to);
    add_ordinal(text, (uint64_t)rule->limit.wait.queue + 1);
    text_put(text, " is refused at once, and so is who cannot be served in time\n");
    add_longest(text, rule);
    text_put(text,
             "    not waiting   who does not say how long it can wait is refused at once, with a Retry-After "
             "behind those who wait\n");
}

/* ---- Doors --------------------------------------------------------------------------------------------------------------- */

void explain_doors(struct text *text, const struct explanation *explanation)
{
    const struct rules *rules = explanation->rules;
    bool waits = false;
    for (size_t i = 0; i < rules->limit_count; i++)
        waits = waits || rule_waits(&rules->list[i]);
    if (!waits)
        return;
    text_put(
        text,
        "\nwaiting\n"
        "  asked for     by the member wait of a body, or weir_wait_start(); the smaller of that and up-to "
        "holds\n");
    text_format(text, "  at /v1/auth*  %s\n",
                explanation->server->auth_wait
                    ? "by the field Prefer: wait=SECONDS (server: { auth-wait: true })"
                    : "nobody waits (server: { auth-wait: false })");
}
