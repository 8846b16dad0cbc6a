// SPDX-License-Identifier: Apache-2.0
/*
 * play.c - steps one by one: let time pass, do, compare.
 *
 * A step whose requests wait is compared when the last of them has ended, in a later step or at the end of the file. So what
 * failed is kept, and told when all is played, in the order of the file.
 */
#include "sim/play.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/outcome.h"
#include "sim/story.h"

/* Decisions between two calls of on_progress. */
#define PROGRESS_EVERY 4096

struct failure {
    size_t index; /* of its step */
    struct outcome *came;
};

/* What a handle is waited for by. */
enum handle_state { HANDLE_IDLE, HANDLE_WAITS };

/* A permit that was given. */
struct given {
    weir_ns at;
    uint64_t fence;
    const struct timeline_step *step; /* that asked for it */
};

/* One timeline while it is played. */
struct run {
    struct play *play;
    const struct timeline *timeline;
    struct outcome **open; /* by step: some of its requests still wait; NULL: none does */
    size_t *step_of;       /* by handle: the step that makes it */
    unsigned char *states; /* by handle: enum handle_state */
    struct given *given;
    size_t given_count;
    struct failure failures[PLAY_FAILURES_SHOWN];
    uint64_t failure_count;
};

static enum player_result run_fail(struct run *run, const char *message)
{
    struct player *player = run->play->player;
    (void)snprintf(player->error, sizeof player->error, "%s", message);
    return PLAYER_FAULTY;
}

static enum player_result run_init(struct run *run, struct play *play, const struct timeline *timeline)
{
    *run = (struct run){ .play = play, .timeline = timeline };
    run->open = calloc(timeline->step_count + 1, sizeof *run->open);
    run->step_of = calloc(timeline->handle_count + 1, sizeof *run->step_of);
    run->states = calloc(timeline->handle_count + 1, sizeof *run->states);
    run->given = calloc(timeline->handle_count + 1, sizeof *run->given);
    if (run->open == NULL || run->step_of == NULL || run->states == NULL || run->given == NULL)
        return run_fail(run, "out of memory");
    for (size_t i = 0; i < timeline->step_count; i++) {
        const struct timeline_step *step = &timeline->steps[i];
        if (step_decides(step->kind) && step->handle != TIMELINE_NO_HANDLE)
            for (uint64_t turn = 0; turn < step->times; turn++)
                run->step_of[step->handle + turn] = i;
    }
    return PLAYER_OK;
}

static void run_deinit(struct run *run)
{
    for (size_t i = 0; run->open != NULL && i < run->timeline->step_count; i++)
        free(run->open[i]);
    for (size_t i = 0; i < run->failure_count && i < PLAY_FAILURES_SHOWN; i++)
        free(run->failures[i].came);
    free(run->open);
    free(run->step_of);
    free(run->states);
    free(run->given);
}

/* ---- What came ------------------------------------------------------------------------------------------- */

static struct outcome *keep(const struct outcome *came)
{
    struct outcome *kept = malloc(sizeof *kept);
    if (kept != NULL)
        *kept = *came;
    return kept;
}

/* All of a step's decisions are there. */
static enum player_result judge(struct run *run, size_t index, const struct outcome *came)
{
    if (!outcome_differs(&run->timeline->steps[index], came))
        return PLAYER_OK;
    if (run->failure_count < PLAY_FAILURES_SHOWN) {
        struct failure *failure = &run->failures[run->failure_count];
        *failure = (struct failure){ index, keep(came) };
        if (failure->came == NULL)
            return run_fail(run, "out of memory");
    }
    run->failure_count++;
    return PLAYER_OK;
}

/* One decision, made at `at` (WEIR_NO_TIME: nobody says when). */
static void count_decision(struct run *run, const struct timeline_step *step, uint64_t turn,
                           const struct verdict *verdict, weir_ns at, struct outcome *came)
{
    struct play *play = run->play;
    came->counts[verdict->bound.outcome]++;
    if (turn == step->times - 1) {
        came->last = *verdict;
        came->ended_at = at;
    }
    if (verdict->fence != 0 && step->handle != TIMELINE_NO_HANDLE && at != WEIR_NO_TIME)
        run->given[run->given_count++] = (struct given){ at, verdict->fence, step };
    if (++play->decisions % PROGRESS_EVERY == 0 && play->on_progress != NULL)
        play->on_progress(play);
}

/* One of a step's requests waits no more. */
static enum player_result settle_open(struct run *run, size_t handle)
{
    size_t index = run->step_of[handle];
    struct outcome *came = run->open[index];
    run->states[handle] = HANDLE_IDLE;
    if (--came->open > 0)
        return PLAYER_OK;
    run->open[index] = NULL;
    enum player_result result = judge(run, index, came);
    free(came);
    return result;
}

static enum player_result end_wait(struct run *run, size_t handle, const struct verdict *verdict)
{
    const struct timeline_step *step = &run->timeline->steps[run->step_of[handle]];
    if (run->states[handle] != HANDLE_WAITS)
        return PLAYER_OK;
    count_decision(run, step, handle - step->handle, verdict,
                   verdict->waited == WEIR_NO_TIME ? WEIR_NO_TIME : step->at + verdict->waited,
                   run->open[run->step_of[handle]]);
    return settle_open(run, handle);
}

/* `count`: COUNT_LEFT, or WEIR_WAIT where nobody ended it. */
static enum player_result end_undecided(struct run *run, size_t handle, int count)
{
    run->open[run->step_of[handle]]->counts[count]++;
    return settle_open(run, handle);
}

/* All that wait, or those of one replica. */
static enum player_result end_all_undecided(struct run *run, int count, const size_t *replica)
{
    enum player_result result = PLAYER_OK;
    for (size_t handle = 0; handle < run->timeline->handle_count && result == PLAYER_OK; handle++)
        if (run->states[handle] == HANDLE_WAITS
            && (replica == NULL || run->timeline->steps[run->step_of[handle]].replica == *replica))
            result = end_undecided(run, handle, count);
    return result;
}

/* ---- Steps ----------------------------------------------------------------------------------------------- */

static enum player_result let_time_pass(struct run *run, weir_ns now)
{
    struct player *player = run->play->player;
    struct verdict verdict;
    size_t handle;
    enum player_result result = player->advance(player, now);
    while (result == PLAYER_OK && player->collect(player, &handle, &verdict))
        result = end_wait(run, handle, &verdict);
    return result;
}

static enum player_result perform(struct run *run, const struct timeline_step *step, struct outcome *came)
{
    struct player *player = run->play->player;
    struct verdict verdict;
    *came = (struct outcome){ .ended_at = WEIR_NO_TIME };
    for (uint64_t turn = 0; turn < step->times; turn++) {
        enum player_result result = player->perform(player, step, turn, &verdict);
        if (result != PLAYER_OK)
            return result;
        if (!step_decides(step->kind)) {
            came->last = verdict;
        } else if (verdict.bound.outcome == WEIR_WAIT) {
            came->open++;
            came->last = verdict; /* until it ends */
            run->states[step->handle + turn] = HANDLE_WAITS;
        } else {
            count_decision(run, step, turn, &verdict, step->at, came);
        }
    }
    (void)snprintf(came->error, sizeof came->error, "%s", player->error);
    return PLAYER_OK;
}

static enum player_result run_step(struct run *run, size_t index)
{
    const struct timeline_step *step = &run->timeline->steps[index];
    struct outcome came;
    enum player_result result = let_time_pass(run, step->at);
    if (result == PLAYER_OK && step->kind == STEP_RESTART) /* it cuts off whoever waits there */
        result = end_all_undecided(run, COUNT_LEFT, &step->replica);
    if (result == PLAYER_OK)
        result = perform(run, step, &came);
    if (result != PLAYER_OK)
        return result;
    run->play->steps++;
    if (step->kind == STEP_LEAVE && came.last.effect.error == NULL && run->states[step->handle] == HANDLE_WAITS)
        result = end_undecided(run, step->handle, COUNT_LEFT);
    if (result == PLAYER_OK && came.open == 0)
        return judge(run, index, &came);
    run->open[index] = keep(&came);
    return run->open[index] == NULL ? run_fail(run, "out of memory") : result;
}

static enum player_result run_end(struct run *run)
{
    enum player_result result = let_time_pass(run, WEIR_NO_TIME);
    return result == PLAYER_OK ? end_all_undecided(run, WEIR_WAIT, NULL) : result;
}

/* ---- Fences ---------------------------------------------------------------------------------------------- */

static int compare_given(const void *a, const void *b)
{
    const struct given *left = a;
    const struct given *right = b;
    if (left->at != right->at)
        return left->at < right->at ? -1 : 1;
    return left->fence < right->fence ? -1 : left->fence > right->fence;
}

static bool ask_the_same(const struct weir_request *a, const struct weir_request *b)
{
    if (a->attribute_count != b->attribute_count)
        return false;
    for (size_t i = 0; i < a->attribute_count; i++) {
        struct slice name = slice_of(a->attributes[i].name),
                     value = { a->attributes[i].value, a->attributes[i].len };
        if (!slice_equals(name, slice_of(b->attributes[i].name))
            || !slice_equals(value, (struct slice){ b->attributes[i].value, b->attributes[i].len }))
            return false;
    }
    return true;
}

/* The latest of those that this one has to be above; NULL: none. */
static const struct given *one_before(const struct run *run, size_t index)
{
    const struct given *given = run->given;
    const struct weir_request *request = &given[index].step->request;
    for (size_t i = index; i-- > 0;)
        if (!run->play->player->has_store || ask_the_same(&given[i].step->request, request))
            return &given[i];
    return NULL;
}

/* A fence is above every earlier one, whoever asks: it is what tells an old holder from the new one. A store promises it for each
   key by itself, as which those of equal requests are taken. Nothing is promised where the file itself goes back in time. */
static bool fences_rise(struct run *run)
{
    const struct timeline *timeline = run->timeline;
    for (size_t i = 1; i < timeline->step_count; i++)
        if (timeline->steps[i].at < timeline->steps[i - 1].at)
            return true;
    qsort(run->given, run->given_count, sizeof *run->given, compare_given);
    for (size_t i = 1; i < run->given_count; i++) {
        const struct given *before = one_before(run, i);
        if (before != NULL && run->given[i].fence <= before->fence)
            return false;
    }
    return true;
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

static int compare_failures(const void *a, const void *b)
{
    const struct failure *left = a;
    const struct failure *right = b;
    return left->index < right->index ? -1 : left->index > right->index;
}

static void tell_failures(struct run *run)
{
    struct play *play = run->play;
    size_t shown = run->failure_count < PLAY_FAILURES_SHOWN ? run->failure_count : PLAY_FAILURES_SHOWN;
    enum player_result result = PLAYER_OK;
    qsort(run->failures, shown, sizeof *run->failures, compare_failures);
    for (size_t i = 0; i < shown && result == PLAYER_OK; i++)
        result = story_tell(play, run->timeline, run->failures[i].index, run->failures[i].came);
    if (result != PLAYER_OK)
        tell_fault(play, run->timeline, NULL);
    if (run->failure_count > PLAY_FAILURES_SHOWN)
        fprintf(play->out, "%s: %" PRIu64 " more steps failed\n", run->timeline->name,
                run->failure_count - PLAY_FAILURES_SHOWN);
}

enum player_result play_timeline(struct play *play, const struct timeline *timeline)
{
    struct run run;
    enum player_result result = run_init(&run, play, timeline);
    if (result == PLAYER_OK)
        result = play->player->open(play->player, timeline, play->err);
    if (result != PLAYER_OK)
        tell_fault(play, timeline, NULL);
    for (size_t i = 0; i < timeline->step_count && result == PLAYER_OK; i++) {
        result = run_step(&run, i);
        if (result != PLAYER_OK)
            tell_fault(play, timeline, &timeline->steps[i]);
    }
    if (result == PLAYER_OK) {
        result = run_end(&run);
        if (result != PLAYER_OK)
            tell_fault(play, timeline, NULL);
    }
    play->player->close(play->player);
    tell_failures(&run);
    play->failed_steps += run.failure_count;
    if (result == PLAYER_OK && !fences_rise(&run)) {
        fprintf(play->out, "%s: a permit's fence is not above that of an earlier one\n", timeline->name);
        play->failed_steps++;
    }
    run_deinit(&run);
    return result;
}
