// SPDX-License-Identifier: Apache-2.0
/*
 * decide_held.c - what a request was charged: given back where it does not pass, handed over where it is to be settled or returned.
 */
#include <stdlib.h>

#include "fleet/decide.h"

static bool was_charged(const struct fleet_work *work, const struct group *group)
{
    for (size_t i = 0; i < group->call.count; i++)
        if (work->answers[group->first + i].is_charged)
            return true;
    return false;
}

/* The decisions of its items stay as the charging step saw them: at least so much is left. What it is now no step has seen. */
static void undo_group(struct fleet_work *work, struct group *group)
{
    if (group->state != GROUP_ANSWERED || !was_charged(work, group))
        return;
    background_undo(work->fleet, &group->call, &work->answers[group->first], group->errand.slot, work->now);
    for (size_t i = 0; i < work->item_count; i++) {
        struct item *item = &work->items[i];
        if (item->group == group && item->may_keep)
            denied_drop(work->fleet->common->denied, item->hash, work->heard_at);
    }
    group->state = GROUP_UNASKED;
}

void undo_groups(struct fleet_work *work)
{
    for (size_t i = work->group_count; i-- > 0;)
        undo_group(work, &work->groups[i]);
}

/* Permits that may have been given without anybody's hearing of it. The command goes behind the other one. */
void release_unsure(struct fleet_work *work)
{
    for (size_t i = 0; i < work->group_count; i++)
        if (work->groups[i].state == GROUP_UNSURE && work->groups[i].call.verb == SCRIPT_ACQUIRE)
            background_release(work->fleet, &work->groups[i].call, work->groups[i].errand.slot, work->now);
}

/* Whether the group left something behind that can be settled or returned. */
bool is_held(const struct fleet_work *work, const struct group *group)
{
    if (group->state != GROUP_ANSWERED)
        return false;
    if (group->call.verb == SCRIPT_RESERVE)
        return group->binds && was_charged(work, group);
    for (size_t i = 0; i < group->call.count; i++)
        if (group->call.items[i].limit->algorithm == WEIR_CONCURRENCY
            && work->answers[group->first + i].is_charged)
            return true;
    return false;
}

/* The permit that expires first: the instant counts from the sending, and is not later than the store's. */
static weir_ns held_until(const struct fleet_work *work, const struct group *group)
{
    weir_ns hold = group->call.hold;
    if (group->call.verb == SCRIPT_ACQUIRE) {
        hold = WEIR_NO_TIME;
        for (size_t i = 0; i < group->call.count; i++) {
            const struct script_item *item = &group->call.items[i];
            weir_ns length = item->size.period * item->size.tick;
            if (work->answers[group->first + i].is_charged && item->limit->algorithm == WEIR_CONCURRENCY
                && length < hold)
                hold = length;
        }
    }
    return later(group->errand.now, hold);
}

static bool write_handle(struct fleet_decision *decision, const struct handle *handle)
{
    unsigned char *bytes = malloc(FLEET_HANDLE_MAX);
    struct text text = text_of((char *)bytes, FLEET_HANDLE_MAX);
    if (bytes == NULL || !handle_write(&text, handle)) {
        free(bytes);
        return false;
    }
    unsigned char *exact = realloc(bytes, text.len);
    decision->handle = exact != NULL ? exact : bytes;
    decision->handle_len = text.len;
    return true;
}

/* Whoever passed gets what it holds in one handle. False: it cannot be written. */
bool hand_over(struct fleet_work *work)
{
    struct fleet_decision *decision = work->decision;
    struct script_call calls[WEIR_ASKS_MAX];
    struct handle handle = { decision->kind == FLEET_ACQUIRE ? HANDLE_PERMIT : HANDLE_RESERVATION, work->secret,
                             0, calls };
    if (decision->kind == FLEET_CHECK || decision->is_peek)
        return true;
    for (size_t i = 0; i < work->group_count; i++) {
        if (!is_held(work, &work->groups[i]))
            continue;
        weir_ns until = held_until(work, &work->groups[i]);
        decision->expires_at = until < decision->expires_at ? until : decision->expires_at;
        calls[handle.count++] = work->groups[i].call;
    }
    return handle.count == 0 || write_handle(decision, &handle);
}
