// SPDX-License-Identifier: Apache-2.0
/*
 * decide.c - the shared part of one request, from its questions to its decisions: its way. See decide.h for the other files.
 *
 * A single server, or one that Sentinels watch, is asked everything in one command. A Cluster is asked by hash tags, one after the
 * other in the total order of algorithms 1.11 (permits, logs, windows, buckets; then the limit's name, then the key), so that of
 * requests that meet the same keys at least one passes; what was charged is undone where a later group refuses. Groups of which
 * every limit is only watched come last, and only where the request passes. Looks are asked all at once.
 *
 * What could not be had is asked of the contract at the end, all of it together and once: then it is known whether the store lets
 * the request pass, and a local share is taken only where it does. Between groups it is looked at, so that nothing more is charged
 * for a request that `closed` refuses anyway.
 *
 * Limits about which nothing is known, because another one had refused before they were asked, are left out of the answer.
 */
#include <assert.h>

#include "fleet/decide.h"
static_assert(WEIR_ASKS_MAX <= 64, "a bit for each ask");

/* ---- Out of what is known --------------------------------------------------------------------------------------------- */

/* A limit that charges its refusals must see every one of them, and a cost that never passes is a better answer. */
static bool may_answer_alone(const struct fleet_work *work)
{
    for (size_t i = 0; i < work->item_count; i++) {
        const struct weir_shared_ask *ask = &work->items[i].ask;
        if (ask->size.is_unlimited)
            continue;
        if (spec_of(work, &work->items[i])->refused == WEIR_REFUSAL_CHARGED)
            return false;
        if (!ask->is_watched && ask->cost > ask->size.capacity)
            return false;
    }
    return true;
}

/* What a look finds in hand is beside what the store says is left. */
static uint64_t with_hand(const struct fleet_work *work, const struct item *item, uint64_t remaining)
{
    uint64_t capacity = item->ask.size.capacity;
    if (item->hand == NULL || !work->decision->is_peek || remaining >= capacity)
        return remaining;
    return item->hand->have < capacity - remaining ? remaining + item->hand->have : capacity;
}

static struct weir_decision denial(const struct fleet_work *work, const struct item *item,
                                   const struct denied_answer *known)
{
    return (struct weir_decision){ .outcome = WEIR_DENY,
                                   .limit = item->ask.limit,
                                   .capacity = item->ask.size.capacity,
                                   .remaining = with_hand(work, item, known->remaining),
                                   .decided_at = work->now,
                                   .retry_at = known->retry_at,
                                   .reset_at = known->reset_at };
}

/* Tells requests apart by the keys and costs of all that take part. */
static uint32_t set_of(const struct fleet_work *work)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < work->item_count; i++)
        if (work->items[i].at != NOT_ASKED && !work->items[i].ask.is_watched)
            sum += (work->items[i].hash + work->items[i].rest) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(sum >> 32);
}

static void hash_keys(struct fleet_work *work)
{
    for (size_t i = 0; i < work->item_count; i++) {
        struct item *item = &work->items[i];
        if (item->at == NOT_ASKED || item->ask.is_watched)
            continue;
        item->hash = denied_hash(work->fleet->common->denied, item->name, &item->ask.size);
        item->may_keep = denied_may_keep(spec_of(work, item));
    }
    work->set = set_of(work);
}

/* Whether the limit that bound the answer to this request last time is known to refuse it still. */
static bool is_known_refused(struct fleet_work *work)
{
    struct fleet *fleet = work->fleet;
    bool is_refused = false, may_answer = may_answer_alone(work);
    hash_keys(work);
    for (size_t i = 0; i < work->item_count; i++) {
        struct item *item = &work->items[i];
        struct denied_answer known;
        if (!item->may_keep
            || !denied_find(fleet->common->denied, item->hash, work->set, item->rest, work->now, &known,
                            &item->is_there)
            || !may_answer)
            continue;
        item->decision = denial(work, item, &known);
        item->is_told = is_refused = true;
    }
    if (is_refused)
        count_add(fleet->common, COUNT_KNOWN, 1);
    return is_refused;
}

static void keep_refusal(struct fleet_work *work, const struct group *group, const struct item *item)
{
    const struct script_answer *answer = &work->answers[item->at];
    const uint64_t cost = work->asked[item->at].cost; /* more may be in hand since */
    weir_ns holds =
        denied_holds(spec_of(work, item), &item->ask.size, cost, answer->remaining, answer->retry_after);
    const struct denied_seen seen = {
        cost,      group->errand.now,
        holds,     work->generation,
        work->set, { answer->remaining, item->decision.retry_at, item->decision.reset_at }
    };
    if (item->may_keep && may_answer_alone(work))
        denied_learn(work->fleet->common->denied, item->hash, &seen);
}

/* Keep what bound the refusal: the limit that frees last. Forget what was known of a key that was charged since. */
static void keep_refusals(struct fleet_work *work, const struct group *group)
{
    const struct item *last = NULL;
    for (size_t i = 0; i < work->item_count; i++) {
        const struct item *item = &work->items[i];
        if (item->group != group || item->ask.is_watched)
            continue;
        const struct script_answer *answer = &work->answers[item->at];
        if (answer->outcome == WEIR_DENY && (last == NULL || item->decision.retry_at > last->decision.retry_at))
            last = item;
        if (item->is_there && answer->is_charged)
            denied_drop(work->fleet->common->denied, item->hash, group->errand.now);
    }
    if (last != NULL)
        keep_refusal(work, group, last);
}

/* ---- Answers of the store ------------------------------------------------------------------------------------------------ */

static struct weir_decision decision_of(const struct fleet_work *work, const struct item *item,
                                        const struct script_answer *answer, weir_ns now)
{
    bool passes = !refuses(answer->outcome);
    return (struct weir_decision){
        .outcome = answer->outcome,
        .limit = item->ask.limit,
        .capacity = item->ask.size.capacity,
        .remaining = with_hand(work, item, answer->remaining),
        .decided_at = now,
        .retry_at = answer->outcome == WEIR_NEVER   ? WEIR_NO_TIME
                    : passes && item->ask.cost != 0 ? now
                                                    : later(now, answer->retry_after),
        .reset_at = later(now, answer->reset_after),
    };
}

static void read_answers(struct fleet_work *work, struct group *group)
{
    weir_ns now = fleet_reading(work->fleet, work->now);
    work->heard_at = now;
    for (size_t i = 0; i < work->item_count; i++) {
        struct item *item = &work->items[i];
        if (item->group != group)
            continue;
        const struct script_answer *answer = &work->answers[item->at];
        item->decision = decision_of(work, item, answer, now);
        item->is_told = true;
        work->is_refused |= !item->ask.is_watched && refuses(answer->outcome);
        if (answer->was_damaged)
            fleet_tell_damage(work->fleet, work->limits[item->ask.limit].name, item->name);
    }
    keep_refusals(work, group);
}
/* Of the first concurrency limit, in contract order. */
static uint64_t first_fence(const struct fleet_work *work)
{
    for (size_t i = 0; i < work->item_count; i++) {
        const struct item *item = &work->items[i];
        if (item->algorithm == WEIR_CONCURRENCY && item->at != NOT_ASKED && work->answers[item->at].is_charged)
            return work->answers[item->at].fence;
    }
    return 0;
}

static void tell_unlimited(struct fleet_work *work)
{
    for (size_t i = 0; i < work->item_count; i++) {
        struct item *item = &work->items[i];
        if (!item->ask.size.is_unlimited)
            continue;
        item->decision = decision_unlimited(&item->ask, work->heard_at);
        item->is_told = true;
    }
}

static void write_met(const struct fleet_work *work)
{
    struct fleet_decision *decision = work->decision;
    decision->count = 0;
    for (size_t i = 0; i < work->item_count; i++) {
        const struct item *item = &work->items[i];
        if (item->is_told)
            decision->met[decision->count++] =
                (struct weir_shared_met){ item->ask.limit, item->ask.cost, item->ask.is_watched, item->decision,
                                          item->ask.asked_by };
    }
}

/* A handle that cannot be written is no handle: what was taken goes back, and the store counts as away. */
static void lose_handle(struct fleet_work *work)
{
    struct fleet *fleet = work->fleet;
    count_add(fleet->common, COUNT_ERRORS, 1);
    fleet_log(fleet, "event=store-error error=\"the handle would be longer than %zu bytes\"", FLEET_HANDLE_MAX);
    undo_groups(work);
    for (size_t i = 0; i < work->group_count; i++) {
        work->groups[i].state = GROUP_AWAY;
        work->groups[i].away = (struct weir_outage){ fleet->now, 0 };
    }
    ask_policy(work);
}

static void finish(struct fleet_work *work)
{
    struct fleet_decision *decision = work->decision;
    ask_policy(work);
    decision->handle = NULL;
    decision->handle_len = 0;
    decision->expires_at = WEIR_NO_TIME;
    if (!work->is_refused && !hand_over(work))
        lose_handle(work);
    if (work->is_refused && !decision->is_peek)
        undo_groups(work);
    release_unsure(work);
    tell_unlimited(work);
    if (work->has_hands)
        tell_hands(work);
    write_met(work);
    decision->passes = !work->is_refused;
    decision->fence = decision->handle != NULL ? first_fence(work) : 0;
    work->is_done = true;
    decision->done(decision); /* its memory may be gone behind it */
    bool is_kept = !work->is_undone && !work->is_refused;
    if (is_kept)
        note_spending(work);
    if (work->has_hands)
        settle_hands(work, is_kept);
    work_free(work);
}

/* ---- On the way ----------------------------------------------------------------------------------------------------------------- */

static void advance(struct fleet_work *work);
static void send_group(struct fleet_work *work, struct group *group);

/* Its reply can be read: it counts, unless what it refused for want of has come into the hand meanwhile. */
static void hear_group(struct fleet_work *work, struct group *group)
{
    bool was_advancing = work->is_advancing;
    enum again again = work->has_hands ? reach_again(work, group) : AGAIN_NOT;
    switch (again) {
    case AGAIN_NOT:
        group->state = GROUP_ANSWERED;
        read_answers(work, group);
        break;
    case AGAIN_IN_HAND:
        group->state = GROUP_UNASKED;
        work->heard_at = fleet_reading(work->fleet, work->now);
        break;
    case AGAIN_ASK:
        work->is_advancing = true; /* it may be answered within the call */
        send_group(work, group);
        work->is_advancing = was_advancing;
        break;
    }
}

void group_done(struct errand *errand, enum errand_end end, struct slice reply)
{
    struct group *group = errand->owner;
    struct fleet_work *work = group->work;
    struct slice why = { 0 };
    work->in_flight--;
    group->state = end == ERRAND_AWAY ? GROUP_AWAY : GROUP_UNSURE;
    if (end == ERRAND_ANSWERED) {
        if (script_read_decide(reply, &group->call, &work->answers[group->first], &why)) {
            hear_group(work, group);
            background_tell(work->fleet, work->fleet->now);
            advance(work);
            return;
        }
        errand_is_bad(errand, why);
    }
    group->away = errand->away;
    work->heard_at = fleet_reading(work->fleet, work->now);
    look_at_policy(work);
    advance(work);
}

static void send_group(struct fleet_work *work, struct group *group)
{
    struct fleet *fleet = work->fleet;
    weir_ns now = fleet_reading(fleet, work->now);
    group->call.incarnation = fleet->carrier->incarnation(fleet->carrier, group->errand.slot);
    group->call.wall_us = fleet_wall_ns(fleet, now) / 1000;
    group->call.has_time = fleet->options.injects_time;
    group->state = GROUP_ASKED;
    work->in_flight++;
    errand_send(&group->errand, now);
}

/* As far as it goes without waiting. The work may be gone behind it. */
static void advance(struct fleet_work *work)
{
    if (work->is_advancing)
        return;
    work->is_advancing = true;
    bool is_peek = work->decision->is_peek;
    while (work->next_group < work->group_count && (is_peek || (work->in_flight == 0 && !work->is_refused)))
        send_group(work, &work->groups[work->next_group++]);
    if (work->has_hands)
        tell_misses(work);
    work->is_advancing = false;
    if (work->in_flight == 0)
        finish(work);
}

/* It could not be asked, for a reason of our own: an outage all the same, which a probe ends. */
static struct weir_outage refuse_here(const struct group *group)
{
    struct fleet *fleet = group->work->fleet;
    struct outage *outage = fleet->carrier->outage(fleet->carrier, group->errand.slot);
    struct weir_outage away = outage_refused(outage, fleet->now);
    common_troubled(fleet->common);
    background_nurse(fleet, outage, group->errand.slot, group->errand.tag, fleet->now);
    return away;
}

/* Everything that was not answered is away: for the reason that the first of it was, where it was not asked itself. */
static void give_up(struct fleet_work *work, weir_ns now, bool is_late)
{
    struct weir_outage away = { now, 0 };
    for (size_t i = 0; i < work->group_count; i++) {
        struct group *group = &work->groups[i];
        if (group->state == GROUP_ASKED) {
            group->errand.away = away;
            errand_abandon(&group->errand, now, is_late);
            group->state = GROUP_UNSURE;
            group->away = is_late ? group->errand.away : refuse_here(group);
            away = group->away;
        } else if (group->state == GROUP_UNASKED) {
            group->state = GROUP_AWAY;
            group->away = away;
        }
    }
    work->in_flight = 0;
    work->next_group = work->group_count;
}

void decision_expire(struct due *due, weir_ns now)
{
    struct fleet_work *work = (struct fleet_work *)((char *)due - offsetof(struct fleet_work, due));
    work->heard_at = work->fleet->options.injects_time ? work->now : now > work->now ? now : work->now;
    give_up(work, now, now >= due->at);
    finish(work);
}

/* ---- Calls ------------------------------------------------------------------------------------------------------------------------ */

/* No room to wait for the store, or no memory: as if it could not be had, which is an outage of our own. */
static void skip_store(struct fleet_work *work)
{
    struct fleet *fleet = work->fleet;
    for (size_t i = 0; i < work->group_count; i++) {
        struct group *group = &work->groups[i];
        group->state = GROUP_AWAY;
        group->away = refuse_here(group);
    }
    count_add(fleet->common, COUNT_AVOIDED, 1);
    work->next_group = work->group_count;
    finish(work);
}

/* As refuse_here() where there is not even memory for the questions: the first one's node stands for all. */
static struct weir_outage refuse_all_here(struct fleet *fleet, const struct weir_shared *shared)
{
    char name[NAME_MAX_LEN];
    const struct weir_shared_ask *ask = &shared->asks[0];
    const struct slice written = { name,
                                   name_write(&shared->limits[ask->limit], ask->key, ask->key_len, name) };
    struct outage *outage = fleet->carrier->outage(fleet->carrier, name_slot(written));
    struct weir_outage away = outage_refused(outage, fleet->now);
    common_troubled(fleet->common);
    background_nurse(fleet, outage, name_slot(written), name_tag(written), fleet->now);
    return away;
}

/* Without a work: what the caller lent is still there. */
static void answer_without_work(struct fleet *fleet, const struct weir_shared *shared,
                                struct fleet_decision *decision)
{
    struct weir_decision each[WEIR_ASKS_MAX];
    struct weir_outage outages[WEIR_ASKS_MAX];
    struct weir_outage outage = refuse_all_here(fleet, shared);
    uint64_t all = shared->count == 64 ? UINT64_MAX : (UINT64_C(1) << shared->count) - 1;
    for (size_t i = 0; i < shared->count; i++)
        outages[i] = outage;
    weir_contract_fall_back(fleet->contract, shared, all, outages, decision->is_peek, decision->now, each);
    decision->passes = true;
    decision->count = shared->count;
    decision->handle = NULL;
    decision->handle_len = 0;
    decision->fence = 0;
    decision->expires_at = WEIR_NO_TIME;
    for (size_t i = 0; i < shared->count; i++) {
        const struct weir_shared_ask *ask = &shared->asks[i];
        each[i].limit = ask->limit;
        decision->met[i] =
            (struct weir_shared_met){ ask->limit, ask->cost, ask->is_watched, each[i], ask->asked_by };
        decision->passes &= ask->is_watched || !refuses(each[i].outcome);
        if (each[i].policy == WEIR_POLICY_LOCAL && each[i].outcome == WEIR_ALLOW && !decision->is_peek)
            count_add(fleet->common, COUNT_SPENT_LOST, ask->cost);
    }
    count_add(fleet->common, COUNT_AVOIDED, 1);
    decision->done(decision);
}

void decide_by_store(struct fleet *fleet, const struct weir_shared *shared, struct fleet_decision *decision,
                     struct fleet_hands *hands)
{
    struct fleet_work *work = work_new(fleet, decision->now, decision_expire);
    decision->work = work;
    if (work != NULL) {
        work->decision = decision;
        work->is_look = decision->is_peek;
    }
    if (work == NULL || !read_questions(work, shared, hands)) {
        if (work != NULL)
            work_free(work);
        if (hands != NULL)
            hands_undo(fleet, hands);
        decision->work = NULL;
        answer_without_work(fleet, shared, decision);
    } else if (is_known_refused(work)) {
        work->is_refused = true;
        work->next_group = work->group_count;
        if (work->has_hands)
            tell_misses(work);
        finish(work);
    } else if (decision->by_policy) {
        skip_store(work);
    } else {
        advance(work);
    }
}

void fleet_decide(struct fleet *fleet, const struct weir_shared *shared, struct fleet_decision *decision)
{
    decision->work = NULL;
    decision->hands = NULL;
    fleet_advance(fleet, decision->now);
    if (hands_may_reach(shared, decision))
        hands_decide(fleet, shared, decision);
    else
        decide_by_store(fleet, shared, decision, NULL);
    fleet_rewake(fleet);
}

void fleet_forget(struct fleet *fleet, struct fleet_decision *decision)
{
    struct fleet_work *work = decision->work;
    if (work == NULL || work->is_done)
        return;
    decision->work = NULL;
    for (size_t i = 0; i < work->group_count; i++) {
        struct group *group = &work->groups[i];
        if (group->state == GROUP_ASKED) {
            errand_abandon(&group->errand, fleet->now, false);
            group->state = GROUP_UNSURE;
        } else if (group->state == GROUP_ANSWERED && group->call.verb == SCRIPT_ACQUIRE
                   && is_held(work, group)) {
            background_release(fleet, &group->call, group->errand.slot, work->now);
        }
    }
    release_unsure(work);
    if (work->has_hands)
        settle_hands(work, false);
    work_free(work);
    fleet_rewake(fleet);
}

void fleet_undo(struct fleet *fleet, struct fleet_decision *decision)
{
    struct fleet_work *work = decision->work;
    assert(!decision->is_final);
    if (decision->hands != NULL)
        decision->hands->is_undone = true;
    if (work == NULL || !work->is_done)
        return;
    undo_groups(work);
    work->is_undone = true;
    fleet_rewake(fleet);
}
