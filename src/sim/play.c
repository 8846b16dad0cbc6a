// SPDX-License-Identifier: Apache-2.0
/*
 * play.c - steps one by one: do, compare, and on a difference tell the story.
 *
 * The story of a failed step has the state before it. It is not looked at before each step, since a look that had
 * an effect would then hide itself; the timeline is played again up to there instead, which costs only failures.
 */
#include "sim/play.h"

#include <inttypes.h>
#include <string.h>

/* Decisions between two calls of on_progress. */
#define PROGRESS_EVERY 4096

/* ---- Text ------------------------------------------------------------------------------------------------ */

#define FACT_TEXT_MAX 96

/* What is not a limit's. */
struct facts {
    weir_ns decided_at;
    struct effect effect;
};

/* Of one limit among those that were met nothing else is asked. */
static const struct facts no_facts = { .decided_at = WEIR_NO_TIME };

static struct facts expected_facts(const struct timeline_step *step)
{
    struct facts facts = { step->last.decided_at, step->last.effect };
    facts.effect.known = ~0u;
    return facts;
}

static struct facts facts_of(const struct verdict *verdict)
{
    return (struct facts){ verdict->decided_at, verdict->effect };
}

/* One fact as text: "800ms" is printed as 0.8s on both sides, so that they can be compared by eye. */
static const char *fact_text(enum fact fact, const struct verdict_limit *value, const struct facts *more,
                             char out[FACT_TEXT_MAX])
{
    char time[VERDICT_TIME_MAX];
    const char *text = NULL;
    uint64_t number = 0;
    bool is_number = false;
    if (fact >= FACT_EFFECT) {
        is_number = (more->effect.known >> (fact - FACT_EFFECT) & 1) != 0;
        number = more->effect.number[fact - FACT_EFFECT];
    }
    switch (fact) {
    case FACT_DECISION:
        text = weir_outcome_name(value->outcome);
        break;
    case FACT_LIMIT:
        text = value->name[0] == '\0' ? NULL : value->name;
        break;
    case FACT_POLICY:
        text = weir_policy_name(value->policy);
        break;
    case FACT_REASON:
        text = weir_reason_name(value->reason);
        break;
    case FACT_CAPACITY:
        is_number = value->has_capacity;
        number = value->capacity;
        break;
    case FACT_REMAINING:
        is_number = value->has_remaining;
        number = value->remaining;
        break;
    case FACT_RETRY_AFTER:
        text = value->retry_after == WEIR_NO_TIME ? NULL : verdict_time(value->retry_after, 1, time);
        break;
    case FACT_RESET_AFTER:
        text = value->reset_after == WEIR_NO_TIME ? NULL : verdict_time(value->reset_after, 1, time);
        break;
    case FACT_DECIDED_AT:
        text = more->decided_at == WEIR_NO_TIME ? NULL : verdict_time(more->decided_at, 1, time);
        break;
    case FACT_ENFORCED:
        text = value->is_watched ? "false" : "true";
        break;
    case FACT_ERROR:
        text = more->effect.error;
        break;
    case FACT_REPEATED:
        text = more->effect.is_repeated ? "true" : "false";
        break;
    default:
        break;
    }
    if (is_number)
        (void)snprintf(out, FACT_TEXT_MAX, "%s=%" PRIu64, fact_name(fact), number);
    else
        (void)snprintf(out, FACT_TEXT_MAX, "%s=%s", fact_name(fact), text == NULL ? "null" : text);
    return out;
}

static bool fact_differs(enum fact fact, const struct expectation *expected, const struct verdict_limit *came,
                         const struct facts *more)
{
    const struct verdict_limit *value = &expected->value;
    if (fact >= FACT_EFFECT) /* a door tells less than the library */
        return more->effect.error != NULL
               || ((more->effect.known >> (fact - FACT_EFFECT) & 1) != 0
                   && expected->effect.number[fact - FACT_EFFECT] != more->effect.number[fact - FACT_EFFECT]);
    switch (fact) {
    case FACT_DECISION:
        return value->outcome != came->outcome;
    case FACT_LIMIT:
        return strcmp(value->name, came->name) != 0;
    case FACT_POLICY:
        return value->policy != came->policy;
    case FACT_REASON:
        return value->reason != came->reason;
    case FACT_CAPACITY:
        return value->has_capacity != came->has_capacity
               || (came->has_capacity && value->capacity != came->capacity);
    case FACT_REMAINING:
        return value->has_remaining != came->has_remaining
               || (came->has_remaining && value->remaining != came->remaining);
    case FACT_RETRY_AFTER:
        return value->retry_after != came->retry_after;
    case FACT_RESET_AFTER:
        return value->reset_after != came->reset_after;
    case FACT_DECIDED_AT: /* a door does not tell it */
        return more->decided_at != WEIR_NO_TIME && expected->decided_at != more->decided_at;
    case FACT_ENFORCED:
        return value->is_watched != came->is_watched;
    case FACT_ERROR:
        return expected->effect.error != more->effect.error;
    case FACT_REPEATED:
        return more->effect.knows_repeated && expected->effect.is_repeated != more->effect.is_repeated;
    default:
        break;
    }
    return true;
}

static unsigned differing_facts(const struct expectation *expected, const struct verdict_limit *came,
                                const struct facts *more)
{
    unsigned differing = 0;
    for (int fact = 0; fact < FACT_COUNT; fact++)
        if ((expected->given >> fact & 1) != 0 && fact_differs((enum fact)fact, expected, came, more))
            differing |= 1u << fact;
    return differing;
}

/* ---- One step -------------------------------------------------------------------------------------------- */

struct outcome {
    uint64_t counts[WEIR_OUTCOME_COUNT];
    struct verdict last;
};

static enum player_result run_step(struct play *play, const struct timeline_step *step, struct outcome *out)
{
    memset(out, 0, sizeof *out);
    for (uint64_t i = 0; i < step->times; i++) {
        enum player_result result = play->player->perform(play->player, step, &out->last);
        if (result != PLAYER_OK)
            return result;
        if (step->kind > STEP_RESERVE)
            continue;
        out->counts[out->last.bound.outcome]++;
        if (++play->decisions % PROGRESS_EVERY == 0 && play->on_progress != NULL)
            play->on_progress(play);
    }
    return PLAYER_OK;
}

static bool counts_differ(const struct timeline_step *step, const struct outcome *came)
{
    return step->has_counts && memcmp(step->counts, came->counts, sizeof came->counts) != 0;
}

static bool limits_differ(const struct timeline_step *step, const struct verdict *came)
{
    if (!step->has_limits)
        return false;
    if (step->limit_count != came->count)
        return true;
    for (size_t i = 0; i < came->count; i++)
        if (differing_facts(&step->limits[i], &came->each[i], &no_facts) != 0)
            return true;
    return false;
}

/* An error that nobody expected is a difference even where nothing is expected. */
static bool is_surprised(const struct timeline_step *step, const struct outcome *came)
{
    return came->last.effect.error != NULL && step->last.effect.error == NULL;
}

static bool step_differs(const struct timeline_step *step, const struct outcome *came)
{
    struct facts facts = facts_of(&came->last);
    return counts_differ(step, came) || is_surprised(step, came)
           || differing_facts(&step->last, &came->last.bound, &facts) != 0 || limits_differ(step, &came->last);
}

/* ---- The story of a failure ------------------------------------------------------------------------------ */

static void print_counts(FILE *out, const uint64_t counts[WEIR_OUTCOME_COUNT])
{
    const char *comma = "";
    for (int i = 0; i < WEIR_OUTCOME_COUNT; i++)
        if (counts[i] > 0) {
            fprintf(out, "%s%s=%" PRIu64, comma, weir_outcome_name((enum weir_outcome)i), counts[i]);
            comma = " ";
        }
}

static void print_facts(FILE *out, unsigned given, const struct verdict_limit *value, const struct facts *more)
{
    char text[FACT_TEXT_MAX];
    const char *comma = "";
    for (int fact = 0; fact < FACT_COUNT; fact++)
        if ((given >> fact & 1) != 0) {
            fprintf(out, "%s%s", comma, fact_text((enum fact)fact, value, more, text));
            comma = " ";
        }
}

static void print_attributes(FILE *out, const struct weir_request *request)
{
    for (size_t i = 0; i < request->attribute_count; i++) {
        const struct weir_attribute *attribute = &request->attributes[i];
        fprintf(out, "%s=", attribute->name);
        for (size_t j = 0; j < attribute->len; j++) {
            unsigned char c = (unsigned char)attribute->value[j];
            fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
        }
        fputc(' ', out);
    }
}

/* "settle    a (cost 30)". */
static void print_doing(FILE *out, const struct timeline_step *step)
{
    fprintf(out, "    %-9s ", step_kind_name(step->kind));
    if (step->kind == STEP_RESET)
        fprintf(out, "%s ", step->limit);
    if (step->kind == STEP_SETTLE || step->kind == STEP_CANCEL)
        fprintf(out, "%.*s ", (int)step->handle_name.len, step->handle_name.at);
    if (step->kind == STEP_RELOAD)
        fprintf(out, "%s", step->contract.path == NULL ? "the contract in the step" : step->contract.path);
    print_attributes(out, &step->request);
    if (step->kind <= STEP_SETTLE || step->kind == STEP_REFUND)
        fprintf(out, "(cost %" PRIu64 "%s", step->request.cost, step->request.is_peek ? ", peek" : "");
    if (step->times > 1)
        fprintf(out, ", %" PRIu64 " times", step->times);
    fprintf(out, "%s\n", step->kind <= STEP_SETTLE || step->kind == STEP_REFUND ? ")" : "");
}

/* "expected" or "came": counts, then the facts that were asked for. */
static void print_side(FILE *out, const char *title, const struct timeline_step *step, const uint64_t *counts,
                       const struct verdict_limit *value, const struct facts *more)
{
    fprintf(out, "    %-9s ", title);
    if (step->has_counts)
        print_counts(out, counts);
    if (step->has_counts && step->last.given != 0)
        fprintf(out, "; %s", step->times > 1 ? "last: " : "");
    print_facts(out, step->last.given, value, more);
    fputc('\n', out);
}

/* The limits of a decision, one a line; the first under a title. */
static void print_state(FILE *out, const char *title, const struct verdict *verdict)
{
    char text[VERDICT_TEXT_MAX];
    fprintf(out, "    %-9s ", title);
    if (verdict->count == 0)
        fprintf(out, "%s; it meets no limit\n", verdict_text(&verdict->bound, 1, text));
    for (size_t i = 0; i < verdict->count; i++)
        fprintf(out, "%s%s\n", i == 0 ? "" : "              ", verdict_text(&verdict->each[i], 1, text));
}

static void print_limits(FILE *out, const struct timeline_step *step)
{
    fprintf(out, "    limits    ");
    if (step->limit_count == 0)
        fprintf(out, "none expected\n");
    for (size_t i = 0; i < step->limit_count; i++) {
        fprintf(out, "%s", i == 0 ? "" : "              ");
        print_facts(out, step->limits[i].given, &step->limits[i].value, &no_facts);
        fprintf(out, " expected\n");
    }
}

/* What differs, fact by fact: "remaining=5 expected, remaining=4 came". */
static void print_differences(FILE *out, const struct timeline_step *step, const struct outcome *came)
{
    char expected_text[FACT_TEXT_MAX];
    char came_text[FACT_TEXT_MAX];
    const char *comma = "";
    struct facts wanted = expected_facts(step), found = facts_of(&came->last);
    unsigned facts = differing_facts(&step->last, &came->last.bound, &found)
                     | (is_surprised(step, came) ? 1u << FACT_ERROR : 0);
    fprintf(out, "    differs   ");
    for (int i = 0; i < WEIR_OUTCOME_COUNT && step->has_counts; i++)
        if (step->counts[i] != came->counts[i]) {
            fprintf(out, "%s%s: %" PRIu64 " expected, %" PRIu64 " came", comma,
                    weir_outcome_name((enum weir_outcome)i), step->counts[i], came->counts[i]);
            comma = "; ";
        }
    for (int i = 0; i < FACT_COUNT; i++)
        if ((facts >> i & 1) != 0) {
            enum fact fact = (enum fact)i;
            size_t name_len = strlen(fact_name(fact)) + 1;
            fact_text(fact, &step->last.value, &wanted, expected_text);
            fact_text(fact, &came->last.bound, &found, came_text);
            fprintf(out, "%s%s: %s expected, %s came", comma, fact_name(fact), expected_text + name_len,
                    came_text + name_len);
            comma = "; ";
        }
    if (limits_differ(step, &came->last))
        fprintf(out, "%slimits", comma);
    fputc('\n', out);
}

/* The request that shows the state which a step changes: its own, or that of the reservation it ends. NULL: none does. */
static const struct weir_request *telling_request(const struct timeline *timeline,
                                                  const struct timeline_step *step)
{
    if (step->kind == STEP_SETTLE || step->kind == STEP_CANCEL)
        return &timeline->reserved[step->handle]->request;
    return step->kind <= STEP_RESERVE || step->kind == STEP_REFUND ? &step->request : NULL;
}

static enum player_result print_look(struct play *play, const struct timeline_step *step,
                                     const struct weir_request *request, const char *title)
{
    struct play again = { .player = play->player };
    struct timeline_step look = { .kind = STEP_REQUEST, .at = step->at, .request = *request, .times = 1 };
    struct outcome outcome;
    look.request.is_peek = true;
    look.request.cost = 1;
    enum player_result result = run_step(&again, &look, &outcome);
    if (result == PLAYER_OK)
        print_state(play->out, title, &outcome.last);
    return result;
}

/* Play again up to before `index`, look at what its request would meet, and play it, so that the play can go on. */
static enum player_result print_states(struct play *play, const struct timeline *timeline, size_t index,
                                       const struct outcome *came)
{
    struct play again = { .player = play->player };
    const struct timeline_step *step = &timeline->steps[index];
    const struct weir_request *request = telling_request(timeline, step);
    struct outcome outcome;
    play->player->close(play->player);
    enum player_result result = play->player->open(play->player, timeline, NULL);
    for (size_t i = 0; i < index && result == PLAYER_OK; i++)
        result = run_step(&again, &timeline->steps[i], &outcome);
    if (result == PLAYER_OK && request != NULL)
        result = print_look(play, step, request, "before");
    if (result == PLAYER_OK)
        result = run_step(&again, step, &outcome);
    if (step->kind <= STEP_RESERVE)
        print_state(play->out, "after", &came->last);
    else if (result == PLAYER_OK && request != NULL)
        result = print_look(play, step, request, "after");
    return result;
}

static enum player_result print_failure(struct play *play, const struct timeline *timeline, size_t index,
                                        const struct outcome *came)
{
    const struct timeline_step *step = &timeline->steps[index];
    struct facts wanted = expected_facts(step), found = facts_of(&came->last);
    char at[VERDICT_TIME_MAX];
    FILE *out = play->out;
    fprintf(out, "%s%s:%u:%u: step %zu at %s failed%s\n", play->is_coloured ? "\033[1;31m" : "", timeline->name,
            step->node->line, step->node->column, index + 1, verdict_time(step->at, 1, at),
            play->is_coloured ? "\033[0m" : "");
    print_doing(out, step);
    print_side(out, "expected", step, step->counts, &step->last.value, &wanted);
    print_side(out, "came", step, came->counts, &came->last.bound, &found);
    print_differences(out, step, came);
    if (is_surprised(step, came) && play->player->error[0] != '\0')
        fprintf(out, "    error     %s\n", play->player->error);
    if (step->has_limits)
        print_limits(out, step);
    return print_states(play, timeline, index, came);
}

/* ---- The whole ------------------------------------------------------------------------------------------- */

static void tell_fault(struct play *play, const struct timeline *timeline, const struct timeline_step *step)
{
    if (play->player->error[0] == '\0' || play->err == NULL)
        return;
    fprintf(play->err, "%s:", timeline->name);
    if (step != NULL)
        fprintf(play->err, "%u:%u:", step->node->line, step->node->column);
    fprintf(play->err, " error: %s\n", play->player->error);
}

enum player_result play_timeline(struct play *play, const struct timeline *timeline)
{
    uint64_t failures = 0;
    enum player_result result = play->player->open(play->player, timeline, play->err);
    if (result != PLAYER_OK)
        tell_fault(play, timeline, NULL);
    for (size_t i = 0; i < timeline->step_count && result == PLAYER_OK; i++) {
        const struct timeline_step *step = &timeline->steps[i];
        struct outcome came;
        result = run_step(play, step, &came);
        if (result == PLAYER_OK) {
            play->steps++;
            if (step_differs(step, &came) && failures++ < PLAY_FAILURES_SHOWN)
                result = print_failure(play, timeline, i, &came);
        }
        if (result != PLAYER_OK)
            tell_fault(play, timeline, step);
    }
    if (failures > PLAY_FAILURES_SHOWN)
        fprintf(play->out, "%s: %" PRIu64 " more steps failed\n", timeline->name,
                failures - PLAY_FAILURES_SHOWN);
    play->failed_steps += failures;
    play->player->close(play->player);
    return result;
}
