// SPDX-License-Identifier: Apache-2.0
/*
 * decide_policy.c - what the contract says where the store could not be had.
 *
 * It is asked once for all that is away, at the end: then it is known whether the store lets the request pass, and a local share is
 * taken only where it does. What the share let through is told to the store later (journal.h).
 */
#include "fleet/decide.h"

static uint64_t away_items(const struct fleet_work *work)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < work->item_count; i++) {
        const struct group *group = work->items[i].group;
        if (is_in_hand(&work->items[i]))
            continue;
        if (group != NULL && (group->state == GROUP_AWAY || group->state == GROUP_UNSURE))
            bits |= UINT64_C(1) << i;
    }
    return bits;
}

/* Whether a limit that takes part refuses. */
static bool fall_back(struct fleet_work *work, uint64_t asked, bool is_peek, struct weir_decision *each)
{
    struct fleet *fleet = work->fleet;
    struct weir_shared *shared = &fleet->shared; /* the caller's was lent: what is kept is put together again */
    struct weir_outage outages[WEIR_ASKS_MAX] = { 0 };
    shared->rules = work->rules;
    shared->limits = work->limits;
    shared->count = work->item_count;
    for (size_t i = 0; i < work->item_count; i++) {
        shared->asks[i] = work->items[i].ask;
        shared->asks[i].cost = work->items[i].rest;
        if (work->items[i].group != NULL)
            outages[i] = work->items[i].group->away;
    }
    weir_contract_fall_back(fleet->contract, shared, asked, outages, is_peek, work->heard_at, each);
    bool is_refused = false;
    for (size_t i = 0; i < work->item_count; i++)
        if (asked >> i & 1)
            is_refused |= !work->items[i].ask.is_watched && refuses(each[i].outcome);
    return is_refused;
}

/* Nothing is charged any more for a request that a policy refuses. */
void look_at_policy(struct fleet_work *work)
{
    struct weir_decision each[WEIR_ASKS_MAX];
    if (!work->is_refused && work->next_group < work->group_count)
        work->is_refused = fall_back(work, away_items(work), true, each);
}

void ask_policy(struct fleet_work *work)
{
    struct weir_decision each[WEIR_ASKS_MAX];
    uint64_t away = away_items(work);
    if (away == 0)
        return;
    work->is_refused |= fall_back(work, away, work->decision->is_peek || work->is_refused, each);
    for (size_t i = 0; i < work->item_count; i++)
        if (away >> i & 1) {
            work->items[i].decision = each[i];
            work->items[i].decision.limit = work->items[i].ask.limit;
            work->items[i].is_told = true;
        }
}

/* What the local share let through: of a command that may have been executed the store has counted it. */
void note_spending(struct fleet_work *work)
{
    struct fleet *fleet = work->fleet;
    for (size_t i = 0; i < work->item_count; i++) {
        const struct item *item = &work->items[i];
        const struct weir_decision *decision = &item->decision;
        if (item->group == NULL || item->group->state != GROUP_AWAY || item->rest == 0)
            continue;
        if (!item->is_told || decision->policy != WEIR_POLICY_LOCAL || decision->outcome != WEIR_ALLOW)
            continue;
        const struct journal_spent spent = {
            item->name,     item->ask.limit, item->algorithm,
            item->ask.size, item->rest,      spec_of(work, item)->align == WEIR_ALIGN_FIRST_REQUEST
        };
        if (!journal_spend(fleet->common->journal, &spent, work->heard_at,
                           fleet_wall_ns(fleet, work->heard_at)))
            count_add(fleet->common, COUNT_SPENT_LOST, item->rest);
    }
}
