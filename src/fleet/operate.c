// SPDX-License-Identifier: Apache-2.0
/*
 * operate.c - what is done to a reservation, a permit or a key afterwards: settle, cancel, refund, renew, release, reset.
 *
 * Nothing of it is decided here and no policy answers: where the store cannot be had the caller is told so, and tries again.
 * Settling, cancelling, renewing, releasing and resetting may be repeated; of a refund whose fate is unknown nobody knows.
 *
 * Each hash tag is one command; they go all at once, since none depends on another. The answer is of all of them: a permit is held
 * where every part of it is; a settlement's numbers are the largest of each, and what is left is the least.
 *
 * What gives back makes refusals untrue that are known here (denied.h): the keys are dropped before and after.
 */
#include <stdlib.h>

#include "fleet/handle.h"
#include "fleet/work.h"

static bool gives_back(enum fleet_verb verb)
{
    return verb == FLEET_SETTLE || verb == FLEET_CANCEL || verb == FLEET_REFUND || verb == FLEET_RESET;
}

static void drop_refusals(struct fleet_work *work)
{
    struct fleet *fleet = work->fleet;
    if (!gives_back(work->operation->verb))
        return;
    for (size_t i = 0; i < work->group_count; i++)
        for (size_t j = 0; j < work->groups[i].call.count; j++) {
            const struct script_item *item = &work->groups[i].call.items[j];
            if (denied_may_keep(item->limit))
                denied_drop(fleet->common->denied, denied_hash(fleet->common->denied, item->name, &item->size),
                            fleet->now);
        }
}

static bool put_operation(const struct errand *errand, struct text *out, enum script_form form)
{
    const struct group *group = errand->owner;
    const struct fleet_operation *operation = group->work->operation;
    switch (operation->verb) {
    case FLEET_SETTLE:
    case FLEET_CANCEL:
        return script_put_settle(out, form, &group->call, operation->verb == FLEET_CANCEL, operation->cost);
    case FLEET_REFUND:
        return script_put_refund(out, form, &group->call);
    case FLEET_RENEW:
        return script_put_renew(out, form, &group->call);
    case FLEET_RELEASE:
        return script_put_release(out, form, &group->call);
    case FLEET_RESET:
        return script_put_reset(out, &group->call);
    }
    return false;
}

/* ---- The answer ------------------------------------------------------------------------------------------------------- */

static uint64_t larger(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}

static void add_settlement(struct fleet_work *work, const struct group *group,
                           const struct script_settlement *seen)
{
    struct fleet_operation *operation = work->operation;
    struct weir_settlement *sum = &operation->settlement;
    work->known_count += seen->is_known;
    if (!seen->is_known)
        return;
    sum->is_repeated &= seen->is_repeated;
    sum->charged = larger(sum->charged, seen->charged);
    sum->returned = larger(sum->returned, seen->returned);
    sum->dropped = larger(sum->dropped, seen->dropped);
    if (operation->limit[0] != '\0' && seen->remaining >= sum->remaining)
        return;
    sum->remaining = seen->remaining;
    if (seen->item < group->call.count)
        (void)snprintf(operation->limit, sizeof operation->limit, "%s",
                       group->call.items[seen->item].limit->name);
}

static void add_permit(struct fleet_work *work, const struct group *group, const struct script_permit *seen)
{
    struct fleet_operation *operation = work->operation;
    weir_ns until = seen->expires_after > WEIR_NO_TIME - group->errand.now
                        ? WEIR_NO_TIME
                        : group->errand.now + seen->expires_after;
    work->known_count += seen->was_held;
    operation->was_held &= seen->was_held;
    if (operation->verb == FLEET_RENEW && until < operation->expires_at)
        operation->expires_at = until;
}

/* False: the reply is none of the script's. */
static bool read_reply(struct fleet_work *work, const struct group *group, struct slice reply,
                       struct slice *why)
{
    struct script_settlement settlement;
    struct script_permit permit;
    switch (work->operation->verb) {
    case FLEET_SETTLE:
    case FLEET_CANCEL:
    case FLEET_REFUND:
        if (!script_read_settle(reply, &settlement, why))
            return false;
        add_settlement(work, group, &settlement);
        return true;
    case FLEET_RENEW:
    case FLEET_RELEASE:
        if (!script_read_permit(reply, &permit, why))
            return false;
        add_permit(work, group, &permit);
        return true;
    case FLEET_RESET:
        work->known_count++;
        return true;
    }
    return false;
}

static enum fleet_fault fault_of(const struct fleet_work *work)
{
    for (size_t i = 0; i < work->group_count; i++)
        if (work->groups[i].state != GROUP_ANSWERED)
            return FLEET_AWAY;
    switch (work->operation->verb) {
    case FLEET_RENEW:
    case FLEET_RELEASE:
        return work->operation->was_held ? FLEET_OK : FLEET_UNKNOWN;
    case FLEET_SETTLE:
    case FLEET_CANCEL:
        return work->known_count > 0 ? FLEET_OK : FLEET_UNKNOWN;
    case FLEET_REFUND:
    case FLEET_RESET:
        break;
    }
    return FLEET_OK;
}

static void finish(struct fleet_work *work)
{
    struct fleet_operation *operation = work->operation;
    bool is_settled = operation->limit[0] != '\0' || work->known_count > 0;
    operation->fault = fault_of(work);
    if (operation->fault != FLEET_OK || operation->verb != FLEET_RENEW)
        operation->expires_at = WEIR_NO_TIME;
    if (operation->fault == FLEET_AWAY)
        operation->was_held = false;
    operation->settlement.is_repeated &= is_settled;
    drop_refusals(work);
    work_free(work);
    operation->work = NULL;
    operation->done(operation);
}

static void answer(struct fleet_operation *operation, enum fleet_fault fault)
{
    operation->fault = fault;
    operation->was_held = false;
    operation->settlement.is_repeated = false;
    operation->expires_at = WEIR_NO_TIME;
    operation->work = NULL;
    operation->done(operation);
}

/* ---- On the way ----------------------------------------------------------------------------------------------------------- */

static void operation_done(struct errand *errand, enum errand_end end, struct slice reply)
{
    struct group *group = errand->owner;
    struct fleet_work *work = group->work;
    struct slice why = { 0 };
    work->in_flight--;
    group->state = end == ERRAND_AWAY ? GROUP_AWAY : GROUP_UNSURE;
    if (end == ERRAND_ANSWERED) {
        if (read_reply(work, group, reply, &why)) {
            group->state = GROUP_ANSWERED;
            background_tell(work->fleet, work->fleet->now);
        } else {
            errand_is_bad(errand, why);
        }
    }
    if (work->in_flight == 0 && !work->is_advancing)
        finish(work);
}

static void send_all(struct fleet_work *work)
{
    struct fleet *fleet = work->fleet;
    weir_ns now = fleet_reading(fleet, work->now);
    drop_refusals(work);
    work->is_advancing = true;
    for (size_t i = 0; i < work->group_count; i++) {
        struct group *group = &work->groups[i];
        group->call.incarnation = fleet->carrier->incarnation(fleet->carrier, group->errand.slot);
        group->call.wall_us = fleet_wall_ns(fleet, now) / 1000;
        group->call.has_time = fleet->options.injects_time;
        group->state = GROUP_ASKED;
        work->in_flight++;
        errand_send(&group->errand, now);
    }
    work->is_advancing = false;
    if (work->in_flight == 0)
        finish(work);
}

void operation_expire(struct due *due, weir_ns now)
{
    struct fleet_work *work = (struct fleet_work *)((char *)due - offsetof(struct fleet_work, due));
    for (size_t i = 0; i < work->group_count; i++)
        errand_abandon(&work->groups[i].errand, now, now >= due->at);
    finish(work);
}

/* ---- What to ask ------------------------------------------------------------------------------------------------------------ */

static void init_group(struct fleet_work *work, struct group *group)
{
    const struct slice name = group->call.items[0].name;
    group->work = work;
    group->errand = (struct errand){ .fleet = work->fleet,
                                     .put = put_operation,
                                     .done = operation_done,
                                     .owner = group,
                                     .slot = name_slot(name),
                                     .tag = name_tag(name),
                                     .blocks = &work->blocks };
}

static enum fleet_fault read_handle(struct fleet_work *work)
{
    const struct fleet_operation *operation = work->operation;
    bool is_permit = operation->verb == FLEET_RENEW || operation->verb == FLEET_RELEASE;
    struct handle handle;
    enum handle_result result = handle_read(operation->handle, operation->handle_len, &work->blocks, &handle);
    if (result == HANDLE_NO_MEMORY)
        return FLEET_AWAY;
    if (result == HANDLE_BAD || handle.kind != (is_permit ? HANDLE_PERMIT : HANDLE_RESERVATION))
        return FLEET_BAD;
    work->groups = block_claim(&work->blocks, handle.count * sizeof *work->groups);
    if (work->groups == NULL)
        return FLEET_AWAY;
    for (; work->group_count < handle.count; work->group_count++) {
        work->groups[work->group_count].call = handle.calls[work->group_count];
        init_group(work, &work->groups[work->group_count]);
    }
    return FLEET_OK;
}

/* Refunds go to what a settlement would change; a permit is given back by releasing it. */
static bool is_meant(const struct fleet_operation *operation, const struct weir_shared_ask *ask,
                     const struct weir_limit *limit)
{
    if (ask->size.is_unlimited)
        return false;
    return operation->verb == FLEET_RESET || (ask->is_estimate && limit->algorithm != WEIR_CONCURRENCY);
}

static bool fill_item(struct fleet_work *work, const struct weir_shared *shared,
                      const struct weir_shared_ask *ask, struct script_item *item)
{
    char name[NAME_MAX_LEN];
    const struct weir_contract_limit *limit = &shared->limits[ask->limit];
    const struct slice written = { name, name_write(limit, ask->key, ask->key_len, name) };
    *item = (struct script_item){ .limit = limit->spec,
                                  .size = ask->size,
                                  .cost = work->operation->cost,
                                  .is_watched = ask->is_watched,
                                  .is_estimate = ask->is_estimate,
                                  .lease = ask->lease };
    return block_copy(&work->blocks, written, &item->name);
}

/* Items beside each other that go into one command: all of them, or of a Cluster those of one tag. */
static void gather_groups(struct fleet_work *work, struct script_item *items, size_t count)
{
    bool is_whole = work->fleet->carrier->is_whole(work->fleet->carrier);
    size_t first = 0;
    while (first < count) {
        struct group *group = &work->groups[work->group_count++];
        size_t end = first + 1;
        for (size_t i = end; i < count; i++) {
            if (!is_whole && !slice_equals(name_tag(items[i].name), name_tag(items[first].name)))
                continue;
            struct script_item moved = items[i];
            items[i] = items[end];
            items[end++] = moved;
        }
        group->call.items = &items[first];
        group->call.count = end - first;
        init_group(work, group);
        first = end;
    }
}

static enum fleet_fault read_shared(struct fleet_work *work)
{
    const struct weir_shared *shared = work->operation->shared;
    size_t count = 0;
    work->asked = block_claim(&work->blocks, (shared->count + 1) * sizeof *work->asked);
    work->groups = block_claim(&work->blocks, (shared->count + 1) * sizeof *work->groups);
    if (work->asked == NULL || work->groups == NULL)
        return FLEET_AWAY;
    for (size_t i = 0; i < shared->count; i++) {
        const struct weir_shared_ask *ask = &shared->asks[i];
        if (is_meant(work->operation, ask, shared->limits[ask->limit].spec)
            && !fill_item(work, shared, ask, &work->asked[count++]))
            return FLEET_AWAY;
    }
    gather_groups(work, work->asked, count);
    return FLEET_OK;
}

void fleet_operate(struct fleet *fleet, struct fleet_operation *operation)
{
    bool has_keys = operation->verb == FLEET_REFUND || operation->verb == FLEET_RESET;
    fleet_advance(fleet, operation->now);
    operation->settlement =
        (struct weir_settlement){ .remaining = WEIR_UNLIMITED, .limit = WEIR_NO_LIMIT, .is_repeated = true };
    operation->limit[0] = '\0';
    operation->was_held = true;
    operation->expires_at = WEIR_NO_TIME;
    struct fleet_work *work = work_new(fleet, operation->now, operation_expire);
    operation->work = work;
    if (work == NULL) {
        answer(operation, FLEET_AWAY);
        return;
    }
    work->operation = operation;
    enum fleet_fault fault = has_keys ? read_shared(work) : read_handle(work);
    if (fault == FLEET_OK) {
        send_all(work);
    } else {
        work_free(work);
        answer(operation, fault);
    }
    fleet_rewake(fleet);
}

void fleet_operation_forget(struct fleet *fleet, struct fleet_operation *operation)
{
    struct fleet_work *work = operation->work;
    if (work == NULL)
        return;
    operation->work = NULL;
    for (size_t i = 0; i < work->group_count; i++)
        errand_abandon(&work->groups[i].errand, fleet->now, false);
    drop_refusals(work);
    work_free(work);
}
