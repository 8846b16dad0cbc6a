// SPDX-License-Identifier: Apache-2.0
/*
 * decide_hand.c - what the process has in hand of a request's leased limits comes first; the store is asked for the rest.
 *
 * Idea: a portion in hand is out of the budget already, so spending it needs nobody's leave. Each leased ask takes what it finds,
 * tentatively. Where that is all that the request needs it is answered here: no work, no name, no command, nothing allocated. Else the
 * store is asked strictly, as it is of any other limit, and for so much less; all or nothing over everything. So a whole burst
 * passes at one replica, costs above a portion do, and what is nearly used up is decided strictly.
 *
 * What was taken is kept behind done(), when nobody can undo the request any more, and where it does not pass it lies in the hand
 * as before.
 *
 * A reservation takes nothing out of the hand: it is settled by what the store has written down. A look takes nothing either, and
 * adds what is in hand to what the store says is left.
 *
 * While the store is away what is in hand is spent all the same, whatever the policy: with `leased` it says so.
 */
#include "fleet/decide.h"
#include "fleet/lessee.h"

static bool may_reach(const struct weir_shared_ask *ask)
{
    return ask->lease.most > 0 && !ask->size.is_unlimited && ask->cost > 0 && ask->cost <= ask->size.capacity
           && ask->retry_id == NULL;
}

bool hands_may_reach(const struct weir_shared *shared, const struct fleet_decision *decision)
{
    bool is_leased = false;
    for (size_t i = 0; i < shared->count; i++)
        is_leased |= shared->asks[i].lease.most > 0;
    return is_leased && decision->kind != FLEET_RESERVE;
}

/* ---- Taking -------------------------------------------------------------------------------------------------------- */

/* What is there of one ask, or is seen to be there. `is_alone`: with it the request is decided. */
static void reach(struct fleet *fleet, const struct weir_shared *shared, const struct weir_shared_ask *ask,
                  bool is_peek, bool is_alone, struct hand *out)
{
    struct holdings *holdings = fleet->common->holdings;
    const struct weir_contract_limit *limit = &shared->limits[ask->limit];
    uint64_t hash = holdings_hash(holdings, limit->name, ask->key, ask->key_len);
    weir_ns now = fleet_lease_now(fleet);
    if (is_alone && !is_peek) {
        holdings_spend(holdings, hash, &ask->lease, &ask->size, ask->cost, now, out);
        return;
    }
    if (!is_peek) {
        holdings_take(holdings, hash, &ask->lease, &ask->size, ask->cost, true, now, out);
        return;
    }
    uint64_t have = holdings_look(holdings, hash, now);
    *out = (struct hand){
        .hash = hash, .taken = have < ask->cost ? have : ask->cost, .have = have, .ends_at = WEIR_NO_TIME
    };
}

/* Whether nothing else is needed. */
static bool reach_all(struct fleet *fleet, const struct weir_shared *shared,
                      const struct fleet_decision *decision, struct fleet_hands *hands)
{
    bool is_peek = decision->is_peek, is_all = !is_peek;
    hands->reached = 0;
    hands->is_look = is_peek;
    hands->is_undone = false;
    for (size_t i = 0; i < shared->count; i++) {
        const struct weir_shared_ask *ask = &shared->asks[i];
        if (ask->size.is_unlimited)
            continue;
        if (!may_reach(ask)) {
            is_all = false;
            continue;
        }
        reach(fleet, shared, ask, is_peek, decision->is_final && shared->count == 1, &hands->each[i]);
        hands->reached |= UINT64_C(1) << i;
        is_all = is_all && hands->each[i].taken == ask->cost;
    }
    return is_all;
}

/* ---- Numbers --------------------------------------------------------------------------------------------------------- */

/* Until what is not in hand has come back. */
static weir_ns full_after(const struct weir_shared_size *size, uint64_t have)
{
    uint64_t missing = have < size->capacity ? size->capacity - have : 0;
    if (missing == 0)
        return 0;
    if (size->count == 0)
        return WEIR_NO_TIME;
    uint64_t ticks =
        (missing * size->period + size->count - 1) / size->count; /* below 2^52, as all of a size */
    return ticks > WEIR_HORIZON / size->tick ? WEIR_NO_TIME : ticks * size->tick;
}

static weir_ns reset_at(struct fleet *fleet, const struct weir_shared_ask *ask, const struct hand *hand,
                        uint64_t have, weir_ns now)
{
    weir_ns lease_now = fleet_lease_now(fleet);
    if (hand->ends_at == WEIR_NO_TIME)
        return later(now, full_after(&ask->size, have));
    return later(now, hand->ends_at > lease_now ? hand->ends_at - lease_now : 0);
}

/* Whether the node of a key is in an outage. The name is written where it takes one to know the node. */
static bool is_away(struct fleet *fleet, const struct weir_contract_limit *limit,
                    const struct weir_shared_ask *ask)
{
    struct carrier *carrier = fleet->carrier;
    char name[NAME_MAX_LEN];
    unsigned slot = 0;
    if (atomic_load_explicit(&fleet->common->troubles, memory_order_acquire) == 0)
        return false;
    if (!carrier->is_whole(carrier))
        slot = name_slot((struct slice){ name, name_write(limit, ask->key, ask->key_len, name) });
    return outage_now(carrier->outage(carrier, slot)).began_at != WEIR_NO_TIME;
}

/* Of what is in hand in full. `have`: beside what is taken. */
static struct weir_decision decision_in_hand(struct fleet *fleet, const struct weir_contract_limit *limits,
                                             const struct weir_shared_ask *ask, const struct hand *hand,
                                             uint64_t have, weir_ns now)
{
    const struct weir_contract_limit *limit = &limits[ask->limit];
    bool is_degraded = limit->when_store_fails == WEIR_STORE_LEASED && is_away(fleet, limit, ask);
    return (struct weir_decision){ .outcome = WEIR_ALLOW,
                                   .policy = is_degraded ? WEIR_POLICY_LEASED : WEIR_POLICY_NONE,
                                   .reason = is_degraded ? WEIR_REASON_STORE : WEIR_REASON_NONE,
                                   .limit = ask->limit,
                                   .capacity = ask->size.capacity,
                                   .remaining = have,
                                   .decided_at = now,
                                   .retry_at = now,
                                   .reset_at = reset_at(fleet, ask, hand, have, now) };
}

/* ---- Without the store ----------------------------------------------------------------------------------------------- */

static void keep(struct fleet *fleet, const struct hand *hand, bool is_kept)
{
    if (hand->taken == 0)
        return;
    if (!hand->is_kept && is_kept)
        holdings_keep(fleet->common->holdings, hand);
    else if (!hand->is_kept)
        holdings_undo(fleet->common->holdings, hand);
    if (hand->is_urgent)
        lessee_call(fleet->lessee, hand->hash, fleet->now);
}

static void keep_all(struct fleet *fleet, const struct fleet_hands *hands, bool is_kept)
{
    for (uint64_t left = hands->is_look ? 0 : hands->reached; left != 0; left &= left - 1)
        keep(fleet, &hands->each[__builtin_ctzll(left)], is_kept);
}

void hands_undo(struct fleet *fleet, const struct fleet_hands *hands)
{
    keep_all(fleet, hands, false);
}

static void answer(struct fleet *fleet, const struct weir_shared *shared, struct fleet_decision *decision,
                   struct fleet_hands *hands)
{
    weir_ns now = decision->now;
    for (size_t i = 0; i < shared->count; i++) {
        const struct weir_shared_ask *ask = &shared->asks[i];
        struct weir_shared_met *met = &decision->met[i];
        met->limit = ask->limit;
        met->cost = ask->cost;
        met->is_watched = ask->is_watched;
        met->asked_by = ask->asked_by;
        met->decision = ask->size.is_unlimited ? decision_unlimited(ask, now)
                                               : decision_in_hand(fleet, shared->limits, ask, &hands->each[i],
                                                                  hands->each[i].have, now);
    }
    decision->count = shared->count;
    decision->passes = true;
    decision->handle = NULL;
    decision->handle_len = 0;
    decision->fence = 0;
    decision->expires_at = WEIR_NO_TIME;
    decision->hands = hands;
    (void)atomic_fetch_add_explicit(&fleet->line->lease_decisions, 1, memory_order_relaxed);
    decision->done(decision); /* its memory may be gone behind it */
    keep_all(fleet, hands, !hands->is_undone);
}

void hands_decide(struct fleet *fleet, const struct weir_shared *shared, struct fleet_decision *decision)
{
    struct fleet_hands hands;
    if (reach_all(fleet, shared, decision, &hands))
        answer(fleet, shared, decision, &hands);
    else
        decide_by_store(fleet, shared, decision, hands.reached == 0 ? NULL : &hands);
}

/* ---- Beside the store -------------------------------------------------------------------------------------------------- */

void tell_misses(struct fleet_work *work)
{
    struct fleet *fleet = work->fleet;
    if (work->has_missed || work->is_look)
        return;
    work->has_missed = true;
    for (size_t i = 0; i < work->item_count; i++) {
        const struct item *item = &work->items[i];
        if (item->hand == NULL || item->rest == 0)
            continue;
        const struct holdings_key key = { .hash = item->hand->hash,
                                          .name = item->name,
                                          .limit = spec_of(work, item),
                                          .size = item->ask.size,
                                          .lease = item->ask.lease };
        if (holdings_miss(fleet->common->holdings, &key, item->rest, fleet_lease_now(fleet)))
            lessee_call(fleet->lessee, item->hand->hash, fleet->now);
        else
            lessee_watch(fleet->lessee, fleet->now);
    }
}

/* Refused by it, and it has a say. */
static bool is_short(const struct fleet_work *work, const struct group *group, const struct item *item)
{
    return item->group == group && !item->ask.is_watched && refuses(work->answers[item->at].outcome);
}

/* Take what is in hand of the rest by now. Of a portion that ended meanwhile what was taken before is gone. */
static void reach_more(struct fleet_work *work, struct item *item)
{
    struct fleet *fleet = work->fleet;
    struct holdings *holdings = fleet->common->holdings;
    struct hand more, *hand = item->hand;
    weir_ns now = fleet_lease_now(fleet);
    if (work->is_look) {
        hand->have = holdings_look(holdings, hand->hash, now);
        hand->taken = hand->have < item->ask.cost ? hand->have : item->ask.cost;
        item->rest = item->ask.cost - hand->taken;
        return;
    }
    holdings_take(holdings, hand->hash, &item->ask.lease, &item->ask.size, item->rest, true, now, &more);
    hand->is_awaited = hand->is_awaited && more.is_awaited;
    hand->is_urgent |= more.is_urgent;
    if (more.taken == 0)
        return;
    hand->taken = hand->life == more.life ? hand->taken + more.taken : more.taken;
    hand->life = more.life;
    hand->have = more.have;
    hand->ends_at = more.ends_at;
    item->rest = item->ask.cost - hand->taken;
}

/* The message may have been another loop's, whose answer comes on another connection: one more question gives it the time. */
static bool may_pass_now(const struct fleet_work *work, const struct item *item)
{
    const struct script_answer *answer = &work->answers[item->at];
    return answer->outcome == WEIR_DENY && (item->rest <= answer->remaining || item->hand->is_awaited);
}

/* Whether nothing but leased limits refuses, and some do. */
static bool is_short_of_leases(const struct fleet_work *work, const struct group *group)
{
    bool is_refused = false;
    for (size_t i = 0; i < work->item_count; i++)
        if (is_short(work, group, &work->items[i])) {
            is_refused = true;
            if (work->items[i].hand == NULL)
                return false;
        }
    return is_refused;
}

/* All that was refused is looked for, also where that does not do: it goes back with the rest. */
enum again reach_again(struct fleet_work *work, const struct group *group)
{
    bool may_pass = true, is_in_hand_all = !work->is_look;
    if (!is_short_of_leases(work, group))
        return AGAIN_NOT;
    for (size_t i = 0; i < work->item_count; i++) {
        struct item *item = &work->items[i];
        if (is_short(work, group, item)) {
            reach_more(work, item);
            may_pass = may_pass && may_pass_now(work, item);
        }
        is_in_hand_all = is_in_hand_all && (item->group != group || is_in_hand(item));
    }
    if (!may_pass || is_in_hand_all)
        return may_pass ? AGAIN_IN_HAND : AGAIN_NOT;
    if (work->asks_again)
        return AGAIN_NOT;
    work->asks_again = true;
    for (size_t i = 0; i < work->item_count; i++)
        if (work->items[i].group == group)
            work->asked[work->items[i].at].cost = work->items[i].rest;
    return AGAIN_ASK;
}

void tell_hands(struct fleet_work *work)
{
    for (size_t i = 0; i < work->item_count; i++) {
        struct item *item = &work->items[i];
        if (item->is_told || !is_in_hand(item))
            continue;
        uint64_t have = item->hand->have;
        if (work->is_refused && !work->is_look)
            have += item->hand->taken; /* it lies there again */
        item->decision =
            decision_in_hand(work->fleet, work->limits, &item->ask, item->hand, have, work->heard_at);
        item->is_told = true;
    }
}

void settle_hands(struct fleet_work *work, bool is_kept)
{
    for (size_t i = 0; i < work->item_count; i++) {
        const struct item *item = &work->items[i];
        if (item->hand != NULL && !work->is_look)
            keep(work->fleet, item->hand, is_kept && !(item->is_told && refuses(item->decision.outcome)));
    }
}
