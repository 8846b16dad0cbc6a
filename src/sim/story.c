// SPDX-License-Identifier: Apache-2.0
/*
 * story.c - a difference as a reader needs it: what was done, expected, and came, and the states around it.
 *
 * The state before a step is not looked at while playing, since a look that had an effect would then hide itself; the
 * timeline is played again up to there instead, which costs only failures.
 */
#include "sim/story.h"

#include <inttypes.h>
#include <string.h>

/* ---- Text ------------------------------------------------------------------------------------------------ */

/* "allow", "left"; who was never ended counts as "wait". */
static const char *count_name(int count)
{
    return count == COUNT_LEFT ? "left" : weir_outcome_name((enum weir_outcome)count);
}

static void print_counts(FILE *out, const uint64_t counts[STEP_COUNTS])
{
    const char *comma = "";
    for (int i = 0; i < STEP_COUNTS; i++)
        if (counts[i] > 0) {
            fprintf(out, "%s%s=%" PRIu64, comma, count_name(i), counts[i]);
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

/* Whether what is asked or settled has a cost that says something. */
static bool has_cost(enum step_kind kind)
{
    return step_decides(kind) || kind == STEP_SETTLE || kind == STEP_REFUND;
}

/* "settle    a (cost 30)". */
static void print_doing(FILE *out, const struct timeline_step *step, struct slice replica)
{
    char time[VERDICT_TIME_MAX];
    fprintf(out, "    %-9s ", step_kind_name(step->kind));
    if (step->kind == STEP_RESET)
        fprintf(out, "%s ", step->limit);
    if (step->kind == STEP_STORE)
        fprintf(out, "%s ", store_event_name(step->store));
    if (!step_decides(step->kind) && step->handle != TIMELINE_NO_HANDLE)
        fprintf(out, "%.*s ", (int)step->handle_name.len, step->handle_name.at);
    if (step->kind == STEP_RELOAD)
        fprintf(out, "%s", step->contract.path == NULL ? "the contract in the step" : step->contract.path);
    print_attributes(out, &step->request);
    if (has_cost(step->kind))
        fprintf(out, "(cost %" PRIu64 "%s", step->request.cost, step->request.is_peek ? ", peek" : "");
    if (step->times > 1)
        fprintf(out, ", %" PRIu64 " times", step->times);
    if (step->may_wait)
        fprintf(out, ", waits for up to %s", verdict_time(step->request.wait, 1, time));
    fprintf(out, "%s", has_cost(step->kind) ? ")" : "");
    if (replica.len > 0)
        fprintf(out, " at replica %.*s", (int)replica.len, replica.at);
    fputc('\n', out);
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

/* What a reader of a decision by the store has to know of it. */
static void print_store(FILE *out, const struct verdict *verdict)
{
    if (verdict->tick == 0)
        return;
    if (verdict->is_store_away)
        fprintf(out, "    store     it is away: shared limits say what then\n");
    else
        fprintf(out, "    store     exact here; a real one counts in ticks of %s, and may answer one later\n",
                verdict->tick == WEIR_MILLISECOND ? "1ms" : "1us");
}

static void print_limits(FILE *out, const struct timeline_step *step)
{
    const struct facts none = facts_none();
    fprintf(out, "    limits    ");
    if (step->limit_count == 0)
        fprintf(out, "none expected\n");
    for (size_t i = 0; i < step->limit_count; i++) {
        fprintf(out, "%s", i == 0 ? "" : "              ");
        print_facts(out, step->limits[i].given, &step->limits[i].value, &none);
        fprintf(out, " expected\n");
    }
}

/* What differs, fact by fact: "remaining=5 expected, remaining=4 came". */
static void print_differences(FILE *out, const struct timeline_step *step, const struct outcome *came)
{
    char expected_text[FACT_TEXT_MAX];
    char came_text[FACT_TEXT_MAX];
    const char *comma = "";
    struct facts wanted = facts_expected(step), found = facts_of_outcome(came);
    unsigned facts = facts_differing(&step->last, &came->last.bound, &found)
                     | (outcome_is_surprise(step, came) ? 1u << FACT_ERROR : 0);
    fprintf(out, "    differs   ");
    for (int i = 0; i < STEP_COUNTS; i++)
        if ((step->has_counts || i == WEIR_WAIT) && step->counts[i] != came->counts[i]) {
            fprintf(out, "%s%s: %" PRIu64 " expected, %" PRIu64 " came", comma, count_name(i), step->counts[i],
                    came->counts[i]);
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
    if (outcome_limits_differ(step, came))
        fprintf(out, "%slimits", comma);
    fputc('\n', out);
}

/* ---- The state that explains it -------------------------------------------------------------------------- */

/* The step that made a handle. */
static const struct timeline_step *maker_of(const struct timeline *timeline, size_t handle)
{
    for (size_t i = 0; i < timeline->named_count; i++)
        if (handle - timeline->named[i]->handle < timeline->named[i]->times)
            return timeline->named[i];
    return NULL;
}

/* The request that shows the state which a step changes: its own, or that of what it ends. NULL: none does. */
static const struct weir_request *telling_request(const struct timeline *timeline,
                                                  const struct timeline_step *step)
{
    if (step_decides(step->kind) || step->kind == STEP_REFUND)
        return &step->request;
    const struct timeline_step *maker =
        step->handle == TIMELINE_NO_HANDLE ? NULL : maker_of(timeline, step->handle);
    return maker == NULL ? NULL : &maker->request;
}

/* Do a step of which nothing is asked any more. */
static enum player_result repeat_step(struct player *player, const struct timeline_step *step)
{
    struct verdict ignored;
    size_t handle;
    enum player_result result = player->advance(player, step->at);
    for (uint64_t turn = 0; turn < step->times && result == PLAYER_OK; turn++)
        result = player->perform(player, step, turn, &ignored);
    while (player->collect(player, &handle, &ignored))
        ;
    return result;
}

static enum player_result print_look(struct play *play, const struct timeline_step *step,
                                     const struct weir_request *request, const char *title)
{
    struct timeline_step look = {
        .kind = STEP_REQUEST,
        .at = step->at,
        .request = *request,
        .times = 1,
        .handle = TIMELINE_NO_HANDLE,
        .replica = step->replica,
    };
    struct verdict verdict;
    look.request.is_peek = true;
    look.request.cost = 1;
    look.request.wait = 0;
    enum player_result result = play->player->perform(play->player, &look, 0, &verdict);
    if (result == PLAYER_OK)
        print_state(play->out, title, &verdict);
    return result;
}

/* Play again up to before `index`, and look at what its request meets then, and behind it. */
static enum player_result print_states(struct play *play, const struct timeline *timeline, size_t index,
                                       const struct outcome *came)
{
    struct player *player = play->player;
    const struct timeline_step *step = &timeline->steps[index];
    const struct weir_request *request = telling_request(timeline, step);
    if (player->has_store) { /* it is not as it was at the beginning */
        if (step_decides(step->kind))
            print_state(play->out, "after", &came->last);
        return PLAYER_OK;
    }
    enum player_result result = player->open(player, timeline, NULL);
    for (size_t i = 0; i < index && result == PLAYER_OK; i++)
        result = repeat_step(player, &timeline->steps[i]);
    if (result == PLAYER_OK)
        result = player->advance(player, step->at);
    if (result == PLAYER_OK && request != NULL)
        result = print_look(play, step, request, "before");
    if (step_decides(step->kind)) {
        print_state(play->out, "after", &came->last);
        print_store(play->out, &came->last);
    } else if (result == PLAYER_OK && request != NULL) {
        result = repeat_step(player, step);
        if (result == PLAYER_OK)
            result = print_look(play, step, request, "after");
    }
    player->close(player);
    return result;
}

enum player_result story_tell(struct play *play, const struct timeline *timeline, size_t index,
                              const struct outcome *came)
{
    const struct timeline_step *step = &timeline->steps[index];
    struct facts wanted = facts_expected(step), found = facts_of_outcome(came);
    char at[VERDICT_TIME_MAX];
    FILE *out = play->out;
    fprintf(out, "%s%s:%u:%u: step %zu at %s failed%s\n", play->is_coloured ? "\033[1;31m" : "", timeline->name,
            step->node->line, step->node->column, index + 1, verdict_time(step->at, 1, at),
            play->is_coloured ? "\033[0m" : "");
    print_doing(out, step, timeline->replicas[step->replica]);
    print_side(out, "expected", step, step->counts, &step->last.value, &wanted);
    print_side(out, "came", step, came->counts, &came->last.bound, &found);
    print_differences(out, step, came);
    if (outcome_is_surprise(step, came) && came->error[0] != '\0')
        fprintf(out, "    error     %s\n", came->error);
    if (step->has_limits)
        print_limits(out, step);
    return print_states(play, timeline, index, came);
}
