// SPDX-License-Identifier: Apache-2.0
/*
 * decide.c - the shared part of one request, from its questions to its decisions.
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
#include <stdlib.h>

#include "fleet/handle.h"
#include "fleet/name.h"
#include "fleet/work.h"

static_assert(WEIR_ASKS_MAX <= 64, "a bit for each ask");

#define NOT_ASKED SIZE_MAX

struct item {
    struct weir_shared_ask ask; /* its bytes in the work's blocks */
    struct slice name;
    enum weir_algorithm algorithm; /* the limit is the caller's, and gone after done() */
    size_t at;                     /* of work->asked; NOT_ASKED: unlimited */
    struct group *group;
    uint64_t hash; /* in denied.h */
    bool may_keep, is_there;
    bool is_told; /* `decision` is an answer */
    struct weir_decision decision;
};

static bool refuses(enum weir_outcome outcome)
{
    return outcome == WEIR_DENY || outcome == WEIR_NEVER || outcome == WEIR_REFUSED;
}

static const struct weir_limit *spec_of(const struct fleet_work *work, const struct item *item)
{
    return work->limits[item->ask.limit].spec;
}

static weir_ns later(weir_ns at, weir_ns by)
{
    return by > WEIR_NO_TIME - at ? WEIR_NO_TIME : at + by;
}

/* ---- Reading the questions --------------------------------------------------------------------------------------- */

static bool copy_ask(struct fleet_work *work, struct item *item, const struct weir_shared_ask *ask)
{
    char name[NAME_MAX_LEN];
    struct slice key, retry;
    const struct slice own_key = { (const char *)ask->key, ask->key_len };
    const struct slice own_retry = { ask->retry_id, ask->retry_id == NULL ? 0 : ask->retry_id_len };
    *item =
        (struct item){ .ask = *ask, .at = NOT_ASKED, .algorithm = work->limits[ask->limit].spec->algorithm };
    const struct slice written = { name, name_write(&work->limits[ask->limit], ask->key, ask->key_len, name) };
    if (!block_copy(&work->blocks, own_key, &key) || !block_copy(&work->blocks, own_retry, &retry)
        || !block_copy(&work->blocks, written, &item->name))
        return false;
    item->ask.key = (const unsigned char *)key.at;
    item->ask.retry_id = ask->retry_id == NULL ? NULL : retry.at;
    return true;
}

static unsigned class_of(enum weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_CONCURRENCY:
        return 0;
    case WEIR_SLIDING_LOG:
        return 1;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return 3;
    default:
        return 2;
    }
}

/* The total order. */
static bool goes_before(const struct fleet_work *work, const struct item *x, const struct item *y)
{
    unsigned class_x = class_of(x->algorithm), class_y = class_of(y->algorithm);
    if (class_x != class_y)
        return class_x < class_y;
    int names = strcmp(work->limits[x->ask.limit].name, work->limits[y->ask.limit].name);
    if (names != 0)
        return names < 0;
    size_t len = x->ask.key_len < y->ask.key_len ? x->ask.key_len : y->ask.key_len;
    int keys = memcmp(x->ask.key, y->ask.key, len);
    return keys != 0 ? keys < 0 : x->ask.key_len < y->ask.key_len;
}

/* Indices of the items that are asked, in order. Few enough to sort by insertion. */
static size_t sort_items(const struct fleet_work *work, uint8_t *sorted)
{
    size_t count = 0;
    for (size_t i = 0; i < work->item_count; i++) {
        if (work->items[i].ask.size.is_unlimited)
            continue;
        size_t at = count++;
        for (; at > 0 && goes_before(work, &work->items[i], &work->items[sorted[at - 1]]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (uint8_t)i;
    }
    return count;
}

/* ---- Groups --------------------------------------------------------------------------------------------------------- */

static bool put_group(const struct errand *errand, struct text *out, enum script_form form)
{
    const struct group *group = errand->owner;
    return script_put_decide(out, form, &group->call);
}

static void group_done(struct errand *errand, enum errand_end end, struct slice reply);

static bool fill_asked(struct fleet_work *work, struct group *group, struct item *item)
{
    struct script_item *asked = &work->asked[work->asked_count];
    item->at = work->asked_count++;
    item->group = group;
    *asked = (struct script_item){ .name = item->name,
                                   .limit = spec_of(work, item),
                                   .size = item->ask.size,
                                   .cost = item->ask.cost,
                                   .is_watched = item->ask.is_watched,
                                   .is_estimate = item->ask.is_estimate };
    group->binds |= !item->ask.is_watched;
    group->call.count++;
    if (item->ask.retry_id == NULL)
        return true;
    char name[NAME_BESIDE_MAX];
    const struct slice retry = { name,
                                 name_of_retry(item->name, item->ask.retry_id, item->ask.retry_id_len, name) };
    return block_copy(&work->blocks, retry, &asked->retry);
}

static void init_group(struct fleet_work *work, struct group *group)
{
    group->work = work;
    group->first = work->asked_count;
    group->call.items = &work->asked[work->asked_count];
    group->errand = (struct errand){
        .fleet = work->fleet, .put = put_group, .done = group_done, .owner = group, .blocks = &work->blocks
    };
}

/* What the group is asked as, when all its items are there. */
static bool finish_group(struct fleet_work *work, struct group *group)
{
    static const enum script_verb verbs[] = {
        [FLEET_CHECK] = SCRIPT_TAKE, [FLEET_RESERVE] = SCRIPT_RESERVE, [FLEET_ACQUIRE] = SCRIPT_ACQUIRE
    };
    const struct fleet_decision *decision = work->decision;
    const struct slice name = group->call.items[0].name;
    group->errand.slot = name_slot(name);
    group->errand.tag = name_tag(name);
    group->call.verb = decision->is_peek ? SCRIPT_PEEK : verbs[decision->kind];
    group->call.id = (struct slice){
        work->id, group->call.verb == SCRIPT_RESERVE || group->call.verb == SCRIPT_ACQUIRE ? SCRIPT_ID_LEN : 0
    };
    group->call.hold = decision->hold;
    if (group->call.verb != SCRIPT_RESERVE)
        return true;
    char record[NAME_BESIDE_MAX];
    const struct slice written = { record, name_of_record(group->errand.tag, work->id, record) };
    return block_copy(&work->blocks, written, &group->call.record);
}

/* The first that is in no group yet, of those that take part where `binds`. NULL: none. */
static struct item *find_leader(struct fleet_work *work, const uint8_t *sorted, size_t count, bool binds)
{
    for (size_t i = 0; i < count; i++) {
        struct item *item = &work->items[sorted[i]];
        if (item->at == NOT_ASKED && !(binds && item->ask.is_watched))
            return item;
    }
    return NULL;
}

/* The leader's group: all that have its hash tag, or all there are where the store is whole. */
static bool gather_group(struct fleet_work *work, const uint8_t *sorted, size_t count, bool is_whole,
                         const struct item *leader)
{
    struct group *group = &work->groups[work->group_count++];
    struct slice tag = name_tag(leader->name);
    init_group(work, group);
    for (size_t i = 0; i < count; i++) {
        struct item *item = &work->items[sorted[i]];
        if (item->at == NOT_ASKED && (is_whole || slice_equals(name_tag(item->name), tag))
            && !fill_asked(work, group, item))
            return false;
    }
    return finish_group(work, group);
}

/* First those in which somebody has a say, then the others. */
static bool make_groups(struct fleet_work *work)
{
    struct fleet *fleet = work->fleet;
    uint8_t sorted[WEIR_ASKS_MAX];
    size_t count = sort_items(work, sorted);
    bool is_whole = fleet->carrier->is_whole(fleet->carrier);
    work->asked = block_claim(&work->blocks, (count + 1) * sizeof *work->asked);
    work->answers = block_claim(&work->blocks, (count + 1) * sizeof *work->answers);
    work->groups = block_claim(&work->blocks, (is_whole ? 1 : count + 1) * sizeof *work->groups);
    if (work->asked == NULL || work->answers == NULL || work->groups == NULL)
        return false;
    for (unsigned binds = 2; binds-- > 0;)
        for (struct item *leader; (leader = find_leader(work, sorted, count, binds == 1)) != NULL;)
            if (!gather_group(work, sorted, count, is_whole, leader))
                return false;
    return true;
}

static bool read_questions(struct fleet_work *work, const struct weir_shared *shared)
{
    struct fleet *fleet = work->fleet;
    work->limits = shared->limits;
    work->rules = shared->rules;
    work->items = block_claim(&work->blocks, (shared->count + 1) * sizeof *work->items);
    if (work->items == NULL)
        return false;
    for (; work->item_count < shared->count; work->item_count++)
        if (!copy_ask(work, &work->items[work->item_count], &shared->asks[work->item_count]))
            return false;
    bool needs_id = work->decision->kind != FLEET_CHECK && !work->decision->is_peek;
    return (!needs_id || fleet_name_id(fleet, work->id)) && make_groups(work);
}

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

static struct weir_decision denial(const struct item *item, weir_ns now, const struct denied_answer *known)
{
    return (struct weir_decision){ .outcome = WEIR_DENY,
                                   .limit = item->ask.limit,
                                   .capacity = item->ask.size.capacity,
                                   .remaining = known->remaining,
                                   .decided_at = now,
                                   .retry_at = known->retry_at,
                                   .reset_at = known->reset_at };
}

/* Whether a limit that takes part is known to refuse. */
static bool is_known_refused(struct fleet_work *work)
{
    struct fleet *fleet = work->fleet;
    bool is_refused = false, may_answer = may_answer_alone(work);
    for (size_t i = 0; i < work->item_count; i++) {
        struct item *item = &work->items[i];
        struct denied_answer known;
        item->may_keep =
            !item->ask.size.is_unlimited && !item->ask.is_watched && denied_may_keep(spec_of(work, item));
        if (!item->may_keep)
            continue;
        item->hash = denied_hash(fleet->common->denied, item->name, &item->ask.size);
        if (!denied_find(fleet->common->denied, item->hash, item->ask.cost, work->now, &known, &item->is_there)
            || !may_answer)
            continue;
        item->decision = denial(item, work->now, &known);
        item->is_told = is_refused = true;
    }
    if (is_refused)
        count_add(fleet->common, COUNT_KNOWN, 1);
    return is_refused;
}

/* Keep what was refused; forget it where the key was charged since. */
static void keep_refusal(struct fleet_work *work, const struct group *group, const struct item *item)
{
    const struct script_answer *answer = &work->answers[item->at];
    struct denied *denied = work->fleet->common->denied;
    if (!item->may_keep)
        return;
    if (answer->outcome == WEIR_DENY) {
        const struct denied_seen seen = { item->ask.cost,
                                          group->errand.now,
                                          denied_holds(spec_of(work, item), &item->ask.size, item->ask.cost,
                                                       answer->remaining, answer->retry_after),
                                          work->generation,
                                          { answer->remaining, item->decision.retry_at,
                                            item->decision.reset_at } };
        denied_learn(denied, item->hash, &seen);
    } else if (item->is_there && answer->is_charged) {
        denied_drop(denied, item->hash, group->errand.now);
    }
}

/* ---- Answers of the store ------------------------------------------------------------------------------------------------ */

static struct weir_decision decision_of(const struct item *item, const struct script_answer *answer,
                                        weir_ns now)
{
    bool passes = !refuses(answer->outcome);
    return (struct weir_decision){
        .outcome = answer->outcome,
        .limit = item->ask.limit,
        .capacity = item->ask.size.capacity,
        .remaining = answer->remaining,
        .decided_at = now,
        .retry_at = answer->outcome == WEIR_NEVER   ? WEIR_NO_TIME
                    : passes && item->ask.cost != 0 ? now
                                                    : later(now, answer->retry_after),
        .reset_at = later(now, answer->reset_after),
    };
}

static void tell_damage(struct fleet_work *work, const struct item *item)
{
    struct fleet *fleet = work->fleet;
    const char *limit = work->limits[item->ask.limit].name;
    count_add(fleet->common, COUNT_DAMAGED, 1);
    if (common_may_tell(fleet->common, slice_of(limit), fleet->now))
        fleet_log(fleet, "event=store-key-damaged limit=%s key=%.*s", limit,
                  (int)(item->name.len < 200 ? item->name.len : 200), item->name.at);
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
        item->decision = decision_of(item, answer, now);
        item->is_told = true;
        work->is_refused |= !item->ask.is_watched && refuses(answer->outcome);
        if (answer->was_damaged)
            tell_damage(work, item);
        keep_refusal(work, group, item);
    }
}

/* ---- What the contract says in the store's place --------------------------------------------------------------------------- */

static uint64_t away_items(const struct fleet_work *work)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < work->item_count; i++) {
        const struct group *group = work->items[i].group;
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
static void look_at_policy(struct fleet_work *work)
{
    struct weir_decision each[WEIR_ASKS_MAX];
    if (!work->is_refused && work->next_group < work->group_count)
        work->is_refused = fall_back(work, away_items(work), true, each);
}

static void ask_policy(struct fleet_work *work)
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
static void note_spending(struct fleet_work *work)
{
    struct fleet *fleet = work->fleet;
    for (size_t i = 0; i < work->item_count; i++) {
        const struct item *item = &work->items[i];
        const struct weir_decision *decision = &item->decision;
        if (item->group == NULL || item->group->state != GROUP_AWAY || item->ask.cost == 0)
            continue;
        if (!item->is_told || decision->policy != WEIR_POLICY_LOCAL || decision->outcome != WEIR_ALLOW)
            continue;
        const struct journal_spent spent = { item->name,      item->ask.limit,
                                             item->algorithm, fleet_contract_number(fleet),
                                             item->ask.size,  item->ask.cost };
        if (!journal_spend(fleet->common->journal, &spent, work->heard_at,
                           fleet_wall_ns(fleet, work->heard_at)))
            count_add(fleet->common, COUNT_SPENT_LOST, item->ask.cost);
    }
}

/* ---- The end ------------------------------------------------------------------------------------------------------------------ */

static bool was_charged(const struct fleet_work *work, const struct group *group)
{
    for (size_t i = 0; i < group->call.count; i++)
        if (work->answers[group->first + i].is_charged)
            return true;
    return false;
}

/* As a look would have found it: an upper bound of what is left, since refill may have replaced some of it (strict undo). */
static void take_back(const struct fleet_work *work, struct item *item)
{
    const struct weir_shared_size *size = &item->ask.size;
    struct weir_decision *decision = &item->decision;
    if (!work->answers[item->at].is_charged || refuses(decision->outcome))
        return;
    uint64_t room = size->capacity > decision->remaining ? size->capacity - decision->remaining : 0;
    decision->remaining += item->ask.cost < room ? item->ask.cost : room;
    if (class_of(item->algorithm) != 3 || size->count == 0 || decision->reset_at == WEIR_NO_TIME)
        return;
    weir_u128_ sooner = (weir_u128_)item->ask.cost * size->period / size->count * size->tick;
    weir_ns length = decision->reset_at - decision->decided_at;
    decision->reset_at -= sooner < length ? (weir_ns)sooner : length;
}

static void undo_group(struct fleet_work *work, struct group *group)
{
    if (group->state != GROUP_ANSWERED || !was_charged(work, group))
        return;
    background_undo(work->fleet, &group->call, &work->answers[group->first], group->errand.slot, work->now);
    for (size_t i = 0; i < work->item_count; i++) {
        struct item *item = &work->items[i];
        if (item->group != group)
            continue;
        take_back(work, item);
        if (item->may_keep)
            denied_drop(work->fleet->common->denied, item->hash, work->heard_at);
    }
    group->state = GROUP_UNASKED;
}

static void undo_groups(struct fleet_work *work)
{
    for (size_t i = work->group_count; i-- > 0;)
        undo_group(work, &work->groups[i]);
}

/* Permits that may have been given without anybody's hearing of it. The command goes behind the other one. */
static void release_unsure(struct fleet_work *work)
{
    for (size_t i = 0; i < work->group_count; i++)
        if (work->groups[i].state == GROUP_UNSURE && work->groups[i].call.verb == SCRIPT_ACQUIRE)
            background_release(work->fleet, &work->groups[i].call, work->groups[i].errand.slot, work->now);
}

/* Whether the group left something behind that can be settled or returned. */
static bool is_held(const struct fleet_work *work, const struct group *group)
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
static bool hand_over(struct fleet_work *work)
{
    struct fleet_decision *decision = work->decision;
    struct script_call calls[WEIR_ASKS_MAX];
    struct handle handle = { decision->kind == FLEET_ACQUIRE ? HANDLE_PERMIT : HANDLE_RESERVATION, 0, calls };
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
        item->decision = (struct weir_decision){ .outcome = WEIR_ALLOW,
                                                 .limit = item->ask.limit,
                                                 .capacity = WEIR_UNLIMITED,
                                                 .remaining = WEIR_UNLIMITED,
                                                 .decided_at = work->heard_at,
                                                 .retry_at = work->heard_at,
                                                 .reset_at = work->heard_at };
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
            decision->met[decision->count++] = (struct weir_shared_met){ item->ask.limit, item->ask.cost,
                                                                         item->ask.is_watched, item->decision };
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
    write_met(work);
    decision->passes = !work->is_refused;
    decision->fence = decision->handle != NULL ? first_fence(work) : 0;
    work->is_done = true;
    decision->done(decision); /* its memory may be gone behind it */
    if (!work->is_undone && !work->is_refused)
        note_spending(work);
    work_free(work);
}

/* ---- On the way ----------------------------------------------------------------------------------------------------------------- */

static void advance(struct fleet_work *work);

static void group_done(struct errand *errand, enum errand_end end, struct slice reply)
{
    struct group *group = errand->owner;
    struct fleet_work *work = group->work;
    struct slice why = { 0 };
    work->in_flight--;
    group->state = end == ERRAND_AWAY ? GROUP_AWAY : GROUP_UNSURE;
    if (end == ERRAND_ANSWERED) {
        if (script_read_decide(reply, &group->call, &work->answers[group->first], &why)) {
            group->state = GROUP_ANSWERED;
            read_answers(work, group);
            background_tell(work->fleet, work->fleet->now);
        } else {
            errand_is_bad(errand, why);
        }
    }
    group->away = errand->away;
    if (group->state != GROUP_ANSWERED) {
        work->heard_at = fleet_reading(work->fleet, work->now);
        look_at_policy(work);
    }
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
        decision->met[i] = (struct weir_shared_met){ ask->limit, ask->cost, ask->is_watched, each[i] };
        decision->passes &= ask->is_watched || !refuses(each[i].outcome);
        if (each[i].policy == WEIR_POLICY_LOCAL && each[i].outcome == WEIR_ALLOW && !decision->is_peek)
            count_add(fleet->common, COUNT_SPENT_LOST, ask->cost);
    }
    count_add(fleet->common, COUNT_AVOIDED, 1);
    decision->done(decision);
}

void fleet_decide(struct fleet *fleet, const struct weir_shared *shared, struct fleet_decision *decision)
{
    fleet_advance(fleet, decision->now);
    struct fleet_work *work = work_new(fleet, decision->now, decision_expire);
    decision->work = work;
    if (work != NULL)
        work->decision = decision;
    if (work == NULL || !read_questions(work, shared)) {
        if (work != NULL)
            work_free(work);
        decision->work = NULL;
        answer_without_work(fleet, shared, decision);
    } else if (is_known_refused(work)) {
        work->is_refused = true;
        work->next_group = work->group_count;
        finish(work);
    } else if (decision->by_policy) {
        skip_store(work);
    } else {
        advance(work);
    }
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
    work_free(work);
    fleet_rewake(fleet);
}

void fleet_undo(struct fleet *fleet, struct fleet_decision *decision)
{
    struct fleet_work *work = decision->work;
    if (work == NULL || !work->is_done)
        return;
    undo_groups(work);
    work->is_undone = true;
    fleet_rewake(fleet);
}
