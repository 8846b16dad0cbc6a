// SPDX-License-Identifier: Apache-2.0
/*
 * composite.c - several limits, all or nothing.
 *
 * A composite is decided in two passes. The first looks at every limit: a refusal seen there has written nothing. The
 * second charges them in one total order (permits, logs, windows, buckets, cells shared by overflowing keys last; within a
 * class by hash) and, when a race was lost in between, gives back strictly what it took, in reverse. Because all
 * requests use one order, the one that is ahead never waits for one behind: of conflicting requests at least one
 * passes (P27).
 *
 * Permits are taken by requests that acquire; everybody else looks at them, in both passes.
 *
 * A part whose limit knows the request already (retry.c) is looked at and not charged.
 *
 * A refusal that the limit charges is charged after the decision, to the limits that refused and to no other.
 */
#include "composite.h"

#include "base/clock.h"

/*
 * Times that a key is found queued and its queue is not: it went in between, and comes again. Two keys of one tag and place, one
 * of them waited for, would look for ever.
 */
#define QUEUED_LOOKS 64

int within_check(const struct limit *limit, uint64_t capacity)
{
    bool is_window = limit->given.algorithm == WEIR_FIXED_WINDOW && limit->given.align == WEIR_ALIGN_EPOCH;
    if ((limit->given.algorithm != WEIR_TOKEN_BUCKET && !is_window) || limit->override_count > 0
        || limit->given.wait.up_to > 0)
        return WEIR_ERR_LIMIT;
    return capacity > limit->shape->capacity ? WEIR_ERR_RATE : 0;
}

static __attribute__((noinline)) bool decide_within(const struct composite *all, struct part *part,
                                                    unsigned stance)
{
    struct shape shape;
    shape_within(part->shape, part->within, &shape);
    return decide_one(all->set, &shape, part->hash, part->cost, all->stamp, stance, &part->answer);
}

static bool decide_part(const struct composite *all, struct part *part, bool is_look)
{
    bool is_free = part->retry == RETRY_KNOWN || part->retry == RETRY_BUSY;
    unsigned stance = all->stance | part->stance | (is_look || is_free ? STORE_LOOK : 0);
    if (__builtin_expect(part->is_within && part->shape != NULL, 0))
        return decide_within(all, part, stance);
    if (!decide_one(all->set, part->shape, part->hash, part->cost, all->stamp, stance, &part->answer))
        return false;
    if (part->retry == RETRY_KNOWN)
        part->answer.outcome = WEIR_DUPLICATE;
    if (part->retry == RETRY_BUSY) {
        part->answer.outcome = WEIR_REFUSED;
        part->answer.policy = WEIR_POLICY_CLOSED;
        part->answer.reason = WEIR_REASON_CONTENDED;
    }
    return true;
}

bool decide_queued(const struct weir_set *set, const struct shape *shape, uint64_t hash, uint64_t cost,
                   weir_ns stamp, unsigned stance, struct store_answer *out)
{
    for (unsigned looks = 0; out->is_queued && looks < QUEUED_LOOKS; looks++) {
        if (room_quote(set->weir, shape, hash, cost, stamp, stance, out))
            return true;
        if (!store_decide(set->weir->store, shape, hash, stamp, cost, stance, out))
            return false;
    }
    if (out->is_queued)
        *out = contended(WEIR_REFUSED, WEIR_POLICY_CLOSED, stamp);
    return true;
}

static unsigned charge_class(const struct part *part)
{
    if (part->answer.policy == WEIR_POLICY_OVERFLOW)
        return 4;
    if (part->shape == NULL)
        return 5;
    switch (part->shape->algorithm) {
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

static bool goes_before(const struct part *x, const struct part *y)
{
    unsigned class_x = charge_class(x), class_y = charge_class(y);
    return class_x != class_y ? class_x < class_y : x->hash < y->hash;
}

static size_t find_part(const struct composite *all, weir_limit_id limit, uint64_t hash)
{
    size_t i = 0;
    while (i < all->count && (all->parts[i].hash != hash || all->parts[i].limit != limit))
        i++;
    return i;
}

int composite_gather(const struct weir_set *set, const struct weir_ask *asks, size_t count,
                     struct composite *all)
{
    all->set = set;
    all->stance = STORE_TAKE;
    all->count = 0;
    if (count == 0 || count > WEIR_ASKS_MAX)
        return WEIR_ERR_ASKS;
    for (size_t i = 0; i < count; i++) {
        const struct limit *limit = set_limit(set, asks[i].limit);
        if (limit == NULL)
            return WEIR_ERR_LIMIT;
        if (asks[i].key_len > WEIR_KEY_MAX || asks[i].retry_id_len > WEIR_KEY_MAX)
            return WEIR_ERR_KEY;
        int code = asks[i].is_within ? within_check(limit, asks[i].within) : 0;
        if (code != 0)
            return code;
        uint64_t hash = set_hash(limit, asks[i].key, asks[i].key_len);
        size_t at = find_part(all, asks[i].limit, hash);
        struct part *part = &all->parts[at];
        if (at == all->count) {
            store_prefetch(set->weir->store, hash);
            part->shape = set_shape(set, limit, hash);
            part->limit = asks[i].limit;
            part->hash = hash;
            part->cost = asks[i].cost;
            part->is_within = asks[i].is_within;
            part->within = asks[i].within;
            part->has_retry = false;
            part->retry = RETRY_NONE;
            part->stance = STORE_TAKE;
            part->answer.policy = WEIR_POLICY_NONE;
            all->count++;
        } else if (__builtin_add_overflow(part->cost, asks[i].cost, &part->cost)) {
            part->cost = UINT64_MAX;
        }
        if (asks[i].within < part->within)
            part->within = asks[i].within;
        all->part_of[i] = (uint8_t)at;
    }
    return 0;
}

/* Look at every part. 0 and whether one refuses, or WEIR_ERR_CHANGED. */
static int look(struct composite *all, bool *is_refused)
{
    *is_refused = false;
    for (size_t i = 0; i < all->count; i++) {
        if (!decide_part(all, &all->parts[i], true))
            return WEIR_ERR_CHANGED;
        *is_refused |= is_refusal(all->parts[i].answer.outcome);
    }
    return 0;
}

/* The order of charging, as indices into parts. Few enough to sort by insertion. */
static void order(const struct composite *all, uint8_t *sorted)
{
    for (size_t i = 0; i < all->count; i++) {
        size_t at = i;
        while (at > 0 && goes_before(&all->parts[i], &all->parts[sorted[at - 1]])) {
            sorted[at] = sorted[at - 1];
            at--;
        }
        sorted[at] = (uint8_t)i;
    }
}

/*
 * A thread may be stopped between charge and undo while the bucket refills and others spend it. What refill has
 * replaced by then must not come back as well (P12), and only a clock tells: this is the one place that asks it.
 */
static void give_back(const struct composite *all, const struct part *part, weir_ns began_at)
{
    weir_ns undone_at = all->stamp + (clock_monotonic() - began_at);
    if (part->shape == NULL || part->answer.outcome != WEIR_ALLOW || part->cost == 0)
        return;
    store_undo(all->set->weir->store, part->shape, part->hash, &part->answer, undone_at, part->cost);
    if ((all->stance & STANCE_IN_ROOM) == 0)
        room_touch(all->set->weir, part->hash, undone_at);
}

/*
 * Charge every part, or none. What was taken before a refusal is given back in reverse and looked at once more, so that
 * its numbers are true after the whole decision. Returns 0 or WEIR_ERR_CHANGED.
 */
static int charge(struct composite *all)
{
    uint8_t sorted[WEIR_ASKS_MAX];
    size_t taken = 0;
    bool is_old = false;
    weir_ns began_at = clock_monotonic();
    order(all, sorted);
    while (taken < all->count && !is_old) {
        struct part *part = &all->parts[sorted[taken]];
        is_old = !decide_part(all, part, false);
        if (is_old || is_refusal(part->answer.outcome))
            break;
        taken++;
    }
    if (taken == all->count)
        return 0;
    for (size_t i = taken; i-- > 0;) {
        struct part *part = &all->parts[sorted[i]];
        give_back(all, part, began_at);
        is_old |= !decide_part(all, part, true);
    }
    return is_old ? WEIR_ERR_CHANGED : 0;
}

/*
 * Charge the refusals that their limits charge: a taking that is refused does it. Should the budget have come back
 * since the look, nothing is kept. What can never pass is charged nowhere.
 */
static void charge_refusals(struct composite *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->parts[i].answer.outcome == WEIR_NEVER)
            return;
    for (size_t i = 0; i < all->count; i++) {
        struct part *part = &all->parts[i];
        if (part->shape == NULL || !part->shape->charges_refusals || part->answer.outcome != WEIR_DENY)
            continue;
        struct part again = *part;
        weir_ns began_at = clock_monotonic();
        if (!decide_part(all, &again, false))
            continue;
        if (again.answer.outcome == WEIR_DENY)
            part->answer = again.answer;
        else
            give_back(all, &again, began_at);
    }
}

/*
 * Which part speaks for all. A refusal outranks what passes, and a decision outranks its absence: NEVER, DENY, REFUSED,
 * UNMETERED, ALLOW, DUPLICATE. Among equals the one that binds hardest: the latest retry, or the fewest such requests left.
 */
static unsigned rank(enum weir_outcome outcome)
{
    static const unsigned ranks[WEIR_OUTCOME_COUNT] = {
        [WEIR_NEVER] = 5, [WEIR_DENY] = 4, [WEIR_REFUSED] = 3, [WEIR_UNMETERED] = 2, [WEIR_ALLOW] = 1
    };
    return ranks[outcome];
}

static bool binds_harder(const struct part *x, const struct part *y)
{
    unsigned rank_x = rank(x->answer.outcome), rank_y = rank(y->answer.outcome);
    if (rank_x != rank_y)
        return rank_x > rank_y;
    if (rank_x > rank(WEIR_ALLOW))
        return x->answer.report.retry_at > y->answer.report.retry_at;
    if ((x->cost == 0) != (y->cost == 0))
        return y->cost == 0;
    uint64_t left_x = x->answer.report.remaining / (x->cost == 0 ? 1 : x->cost);
    uint64_t left_y = y->answer.report.remaining / (y->cost == 0 ? 1 : y->cost);
    return left_x < left_y;
}

void composite_answer(const struct composite *all, size_t count, struct weir_decision *each,
                      struct weir_decision *out)
{
    const struct part *binding = &all->parts[0]; /* ties go to the first */
    for (size_t i = 1; i < all->count; i++)
        if (binds_harder(&all->parts[i], binding))
            binding = &all->parts[i];
    write_part(all, binding, out);
    for (size_t i = 0; each != NULL && i < count; i++)
        write_part(all, &all->parts[all->part_of[i]], &each[i]);
}

/* ---- Requests that are asked again ---------------------------------------------------------------------- */

/* Of asks that were added up, the first with an id speaks. */
void composite_name_retries(struct composite *all, const struct weir_ask *asks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct part *part = &all->parts[all->part_of[i]];
        if (asks[i].retry_id != NULL && part->shape != NULL && !part->has_retry)
            part->has_retry =
                retry_name(all->set, all->set->limits[part->limit], part->hash, &asks[i], &part->retry_name);
    }
}

/* Ids are held in the order of charging, so that of two requests that want each other's the one ahead gets both. */
void composite_begin_retries(struct composite *all)
{
    uint8_t sorted[WEIR_ASKS_MAX];
    size_t named = 0;
    while (named < all->count && !all->parts[named].has_retry)
        named++;
    if (named == all->count)
        return;
    order(all, sorted);
    for (size_t k = 0; k < all->count; k++) {
        struct part *part = &all->parts[sorted[k]];
        if (part->has_retry && part->shape != NULL)
            part->retry = retry_begin(all->set, all->set->limits[part->limit], part->retry_name, all->stamp,
                                      (all->stance & STORE_LOOK) != 0, &part->hold);
    }
}

void composite_end_retries(const struct composite *all, bool was_allowed)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->parts[i].retry == RETRY_FIRST)
            retry_end(all->set->weir, &all->parts[i].hold, all->stamp, was_allowed);
}

bool composite_passes(const struct composite *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (is_refusal(all->parts[i].answer.outcome))
            return false;
    return true;
}

int composite_decide(struct composite *all)
{
    bool is_peek = (all->stance & STORE_LOOK) != 0;
    if (all->count == 1 && !is_peek)
        return decide_part(all, &all->parts[0], false) ? 0 : WEIR_ERR_CHANGED;
    bool is_refused;
    int code = look(all, &is_refused);
    if (code != 0 || is_peek)
        return code;
    if (!is_refused)
        return charge(all);
    charge_refusals(all);
    return 0;
}
