// SPDX-License-Identifier: Apache-2.0
/*
 * decide_read.c - the questions of a request: kept, in order, and in groups of which each is one command.
 *
 * The caller's were lent for a call, and its bytes go with it. The order is total and the same in every process, so that of requests
 * that meet the same keys at least one passes; hashes would differ between replicas.
 */
#include "fleet/decide.h"

static bool copy_ask(struct fleet_work *work, struct item *item, const struct weir_shared_ask *ask,
                     struct hand *hand)
{
    char name[NAME_MAX_LEN];
    struct slice key, retry;
    const struct slice own_key = { (const char *)ask->key, ask->key_len };
    const struct slice own_retry = { ask->retry_id, ask->retry_id == NULL ? 0 : ask->retry_id_len };
    *item = (struct item){ .ask = *ask,
                           .at = NOT_ASKED,
                           .algorithm = work->limits[ask->limit].spec->algorithm,
                           .rest = ask->cost - (hand == NULL ? 0 : hand->taken),
                           .hand = hand };
    const struct slice written = { name, name_write(&work->limits[ask->limit], ask->key, ask->key_len, name) };
    if (!block_copy(&work->blocks, own_key, &key) || !block_copy(&work->blocks, own_retry, &retry)
        || !block_copy(&work->blocks, written, &item->name))
        return false;
    item->ask.key = (const unsigned char *)key.at;
    item->ask.retry_id = ask->retry_id == NULL ? NULL : retry.at;
    return true;
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

/* A look asks of what is in hand, too: how much is left beside it. */
static bool is_asked(const struct fleet_work *work, const struct item *item)
{
    return !item->ask.size.is_unlimited && (!is_in_hand(item) || work->decision->is_peek);
}

/* Indices of the items that are asked, in order. Few enough to sort by insertion. */
static size_t sort_items(const struct fleet_work *work, uint8_t *sorted)
{
    size_t count = 0;
    for (size_t i = 0; i < work->item_count; i++) {
        if (!is_asked(work, &work->items[i]))
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

static bool fill_asked(struct fleet_work *work, struct group *group, struct item *item)
{
    struct script_item *asked = &work->asked[work->asked_count];
    item->at = work->asked_count++;
    item->group = group;
    *asked = (struct script_item){ .name = item->name,
                                   .limit = spec_of(work, item),
                                   .size = item->ask.size,
                                   .cost = item->rest,
                                   .is_watched = item->ask.is_watched,
                                   .is_estimate = item->ask.is_estimate,
                                   .lease = item->ask.lease };
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

/* The name under which the store keeps what the group holds; it follows from what a handle will say of it. */
static bool name_group(struct fleet_work *work, struct group *group)
{
    enum handle_kind kind = group->call.verb == SCRIPT_ACQUIRE ? HANDLE_PERMIT : HANDLE_RESERVATION;
    char record[NAME_BESIDE_MAX];
    size_t len = handle_id(kind, work->secret, &group->call, group->id);
    work->handle_len += len;
    if (len == 0 || work->handle_len > FLEET_HANDLE_MAX - HANDLE_HEAD_MAX)
        return false;
    group->call.id = (struct slice){ group->id, SCRIPT_ID_LEN };
    if (kind == HANDLE_PERMIT)
        return true;
    const struct slice written = { record, name_of_record(group->errand.tag, group->id, record) };
    return block_copy(&work->blocks, written, &group->call.record);
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
    group->call.hold = decision->hold;
    return group->call.verb != SCRIPT_RESERVE && group->call.verb != SCRIPT_ACQUIRE ? true
                                                                                    : name_group(work, group);
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

/* The hands of its asks; NULL and true: there are none. */
static bool copy_hands(struct fleet_work *work, size_t count, const struct fleet_hands *hands,
                       struct hand **out)
{
    *out = NULL;
    if (hands == NULL)
        return true;
    struct hand *copied = block_claim(&work->blocks, count * sizeof *copied);
    if (copied == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        if (hands->reached >> i & 1)
            copied[i] = hands->each[i];
    *out = copied;
    work->has_hands = true;
    return true;
}

bool read_questions(struct fleet_work *work, const struct weir_shared *shared, const struct fleet_hands *hands)
{
    struct fleet *fleet = work->fleet;
    struct hand *own;
    work->limits = shared->limits;
    work->rules = shared->rules;
    work->items = block_claim(&work->blocks, (shared->count + 1) * sizeof *work->items);
    if (work->items == NULL || !copy_hands(work, shared->count, hands, &own))
        return false;
    for (; work->item_count < shared->count; work->item_count++) {
        size_t i = work->item_count;
        struct hand *hand = hands != NULL && hands->reached >> i & 1 ? &own[i] : NULL;
        if (!copy_ask(work, &work->items[i], &shared->asks[i], hand))
            return false;
    }
    bool needs_id = work->decision->kind != FLEET_CHECK && !work->decision->is_peek;
    return (!needs_id || fleet_draw(fleet, work->secret)) && make_groups(work);
}
