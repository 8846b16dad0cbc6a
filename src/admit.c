// SPDX-License-Identifier: Apache-2.0
/*
 * admit.c - deciding: keys become hashes, several limits become one decision.
 *
 * A composite is decided in two passes. The first looks at every limit: a refusal seen there has written nothing. The
 * second charges them in one total order (logs, windows, buckets, cells shared by overflowing keys last; within a
 * class by hash) and, when a race was lost in between, gives back strictly what it took, in reverse. Because all
 * requests use one order, the one that is ahead never waits for one behind: of conflicting requests at least one
 * passes (P27).
 *
 * A part whose limit knows the request already (retry.c) is looked at and not charged.
 *
 * A refusal that the limit charges is charged after the decision, to the limits that refused and to no other.
 *
 * Elsewhere: arithmetic (limit/), cells and threads (store/), which limits there are (set.c), costs that are known only
 * afterwards (reserve.c).
 */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "retry.h"
#include "set.h"
#include "store/hot.h"

/* How many keys a batch hashes and prefetches ahead: enough to overlap misses, few enough to stay in L1. */
#define BATCH 32

static inline void write_decision(const struct weir *weir, weir_limit_id limit, const struct shape *shape,
                                  const struct store_answer *answer, struct weir_decision *out)
{
    out->outcome = answer->outcome;
    out->policy = answer->policy;
    out->reason = answer->reason;
    out->limit = limit;
    out->capacity = shape == NULL ? WEIR_UNLIMITED : shape->capacity;
    out->remaining = answer->report.remaining;
    out->decided_at = set_from_stamp(weir, answer->at);
    out->retry_at = set_from_stamp(weir, answer->report.retry_at);
    out->reset_at = set_from_stamp(weir, answer->report.reset_at);
}

/* A key without a bound: it passes, and was whole before and after. */
static struct store_answer unlimited(weir_ns stamp)
{
    return (
        struct store_answer){ .outcome = WEIR_ALLOW, .at = stamp, .report = { WEIR_UNLIMITED, stamp, stamp } };
}

/* ---- One limit --------------------------------------------------------------------------------------------- */

/* False: the set is old. */
static inline bool decide_one(const struct weir_set *set, const struct shape *shape, uint64_t hash,
                              uint64_t cost, weir_ns stamp, bool is_peek, struct store_answer *out)
{
    if (__builtin_expect(shape == NULL, 0)) {
        *out = unlimited(stamp);
        return true;
    }
    return is_peek ? store_peek(set->weir->store, shape, hash, stamp, cost, out)
                   : store_take(set->weir->store, shape, hash, stamp, cost, out);
}

static inline __attribute__((always_inline)) int check_or_peek(struct weir *weir, weir_limit_id id,
                                                               const void *key, size_t len, uint64_t cost,
                                                               weir_ns now, bool is_peek,
                                                               struct weir_decision *out)
{
    for (;;) {
        const struct weir_set *set = set_current(weir);
        const struct limit *limit = set_limit(set, id);
        if (limit == NULL)
            return WEIR_ERR_LIMIT;
        if (len > WEIR_KEY_MAX)
            return WEIR_ERR_KEY;
        uint64_t hash = set_hash(limit, key, len);
        const struct shape *shape = set_shape(set, limit, hash);
        weir_ns stamp = set_to_stamp(weir, now);
        struct store_answer answer;
        bool is_decided = !is_peek && shape != NULL && hot_take(weir->store, shape, hash, stamp, cost, &answer);
        if (__builtin_expect(!is_decided, 0) && !decide_one(set, shape, hash, cost, stamp, is_peek, &answer))
            continue;
        write_decision(weir, id, shape, &answer, out);
        return 0;
    }
}

int weir_check(struct weir *weir, weir_limit_id limit, const void *key, size_t len, uint64_t cost, weir_ns now,
               struct weir_decision *out)
{
    return check_or_peek(weir, limit, key, len, cost, now, false, out);
}

int weir_peek(struct weir *weir, weir_limit_id limit, const void *key, size_t len, uint64_t cost, weir_ns now,
              struct weir_decision *out)
{
    return check_or_peek(weir, limit, key, len, cost, now, true, out);
}

int weir_check_now(struct weir *weir, weir_limit_id limit, const void *key, size_t len, uint64_t cost,
                   struct weir_decision *out)
{
    weir_ns now = clock_monotonic();
    weir_ns seen = atomic_load_explicit(&weir->wall_read_at, memory_order_relaxed);
    if (now - seen >= WEIR_SECOND
        && atomic_compare_exchange_strong_explicit(&weir->wall_read_at, &seen, now, memory_order_relaxed,
                                                   memory_order_relaxed))
        weir_wall_offset_set(weir, weir_wall_offset());
    return weir_check(weir, limit, key, len, cost, now, out);
}

int weir_check_batch(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
                     struct weir_decision *out)
{
    const struct weir_set *set = set_current(weir);
    for (size_t i = 0; i < count; i++) {
        if (set_limit(set, asks[i].limit) == NULL)
            return WEIR_ERR_LIMIT;
        if (asks[i].key_len > WEIR_KEY_MAX)
            return WEIR_ERR_KEY;
    }
    weir_ns stamp = set_to_stamp(weir, now);
    for (size_t done = 0; done < count; done += BATCH) {
        size_t some = count - done < BATCH ? count - done : BATCH;
        uint64_t hashes[BATCH];
        for (size_t i = 0; i < some; i++) {
            const struct weir_ask *ask = &asks[done + i];
            hashes[i] = set_hash(set->limits[ask->limit], ask->key, ask->key_len);
            store_prefetch(weir->store, hashes[i]);
        }
        for (size_t i = 0; i < some; i++) {
            const struct weir_ask *ask = &asks[done + i];
            const struct shape *shape = set_shape(set, set->limits[ask->limit], hashes[i]);
            struct store_answer answer;
            if (decide_one(set, shape, hashes[i], ask->cost, stamp, false, &answer)) {
                write_decision(weir, ask->limit, shape, &answer, &out[done + i]);
                continue;
            }
            /* A change came in between: this one is decided under the new set. */
            int code = weir_check(weir, ask->limit, ask->key, ask->key_len, ask->cost, now, &out[done + i]);
            if (code != 0)
                return code;
        }
    }
    return 0;
}

/* ---- Several limits, all or nothing -------------------------------------------------------------------------- */

/* One (limit, key) of a composite; asks for the same one are added up. */
struct part {
    const struct shape *shape; /* NULL: unlimited */
    weir_limit_id limit;
    uint64_t hash, cost;
    enum retry retry;
    struct hold hold; /* with RETRY_FIRST */
    struct store_answer answer;
};

struct composite {
    const struct weir_set *set;
    weir_ns stamp;
    struct part parts[WEIR_ASKS_MAX]; /* in the order of their first asks */
    size_t count;
    uint8_t part_of[WEIR_ASKS_MAX]; /* which part answers an ask */
};

static bool decide_part(const struct composite *all, struct part *part, bool is_peek)
{
    bool is_free = part->retry == RETRY_KNOWN || part->retry == RETRY_BUSY;
    if (!decide_one(all->set, part->shape, part->hash, part->cost, all->stamp, is_peek || is_free,
                    &part->answer))
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

static unsigned charge_class(const struct part *part)
{
    if (part->answer.policy == WEIR_POLICY_OVERFLOW)
        return 3;
    if (part->shape == NULL)
        return 4;
    return part->shape->algorithm == WEIR_SLIDING_LOG ? 0 : part->shape->algorithm <= WEIR_LEAKY_BUCKET ? 2 : 1;
}

static bool goes_before(const struct part *x, const struct part *y)
{
    unsigned class_x = charge_class(x), class_y = charge_class(y);
    return class_x != class_y ? class_x < class_y : x->hash < y->hash;
}

static bool is_refusal(enum weir_outcome outcome)
{
    return outcome == WEIR_DENY || outcome == WEIR_NEVER || outcome == WEIR_REFUSED;
}

static size_t find_part(const struct composite *all, weir_limit_id limit, uint64_t hash)
{
    size_t i = 0;
    while (i < all->count && (all->parts[i].hash != hash || all->parts[i].limit != limit))
        i++;
    return i;
}

/* Check every ask, hash its key and add up what belongs together. */
static int gather(const struct weir_set *set, const struct weir_ask *asks, size_t count, struct composite *all)
{
    all->set = set;
    all->count = 0;
    if (count == 0 || count > WEIR_ASKS_MAX)
        return WEIR_ERR_ASKS;
    for (size_t i = 0; i < count; i++) {
        const struct limit *limit = set_limit(set, asks[i].limit);
        if (limit == NULL)
            return WEIR_ERR_LIMIT;
        if (asks[i].key_len > WEIR_KEY_MAX || asks[i].retry_id_len > WEIR_KEY_MAX)
            return WEIR_ERR_KEY;
        uint64_t hash = set_hash(limit, asks[i].key, asks[i].key_len);
        size_t at = find_part(all, asks[i].limit, hash);
        struct part *part = &all->parts[at];
        if (at == all->count) {
            store_prefetch(set->weir->store, hash);
            part->shape = set_shape(set, limit, hash);
            part->limit = asks[i].limit;
            part->hash = hash;
            part->cost = asks[i].cost;
            part->retry = RETRY_NONE;
            part->answer.policy = WEIR_POLICY_NONE;
            all->count++;
        } else if (__builtin_add_overflow(part->cost, asks[i].cost, &part->cost)) {
            part->cost = UINT64_MAX;
        }
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
    if (part->shape != NULL && part->answer.outcome == WEIR_ALLOW && part->cost > 0)
        store_undo(all->set->weir->store, part->shape, part->hash, &part->answer, undone_at, part->cost);
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

static void answer_all(const struct composite *all, size_t count, struct weir_decision *each,
                       struct weir_decision *out)
{
    const struct part *binding = &all->parts[0]; /* ties go to the first */
    for (size_t i = 1; i < all->count; i++)
        if (binds_harder(&all->parts[i], binding))
            binding = &all->parts[i];
    write_decision(all->set->weir, binding->limit, binding->shape, &binding->answer, out);
    for (size_t i = 0; each != NULL && i < count; i++) {
        const struct part *part = &all->parts[all->part_of[i]];
        write_decision(all->set->weir, part->limit, part->shape, &part->answer, &each[i]);
    }
}

/* ---- Requests that are asked again ---------------------------------------------------------------------- */

/*
 * Ids are held in the order of charging, so that of two requests that want each other's the one ahead gets both. Of asks that
 * were added up, the first with an id speaks.
 */
static void begin_retries(struct composite *all, const struct weir_ask *asks, size_t count, bool is_peek)
{
    uint8_t sorted[WEIR_ASKS_MAX];
    size_t with_id = 0;
    while (with_id < count && asks[with_id].retry_id == NULL)
        with_id++;
    if (with_id == count)
        return;
    order(all, sorted);
    for (size_t k = 0; k < all->count; k++) {
        struct part *part = &all->parts[sorted[k]];
        for (size_t i = with_id; i < count && part->shape != NULL && part->retry == RETRY_NONE; i++)
            if (all->part_of[i] == sorted[k])
                part->retry = retry_begin(all->set, all->set->limits[part->limit], part->hash, &asks[i],
                                          all->stamp, is_peek, &part->hold);
    }
}

static void end_retries(const struct composite *all, bool was_allowed)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->parts[i].retry == RETRY_FIRST)
            retry_end(all->set->weir, &all->parts[i].hold, all->stamp, was_allowed);
}

static bool passes(const struct composite *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (is_refusal(all->parts[i].answer.outcome))
            return false;
    return true;
}

/* Decide all parts. 0, or WEIR_ERR_CHANGED and nothing was charged. */
static int decide_all(struct composite *all, bool is_peek)
{
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

static int admit(const struct weir_set *set, const struct weir_ask *asks, size_t count, weir_ns now,
                 bool is_peek, struct weir_decision *each, struct weir_decision *out)
{
    struct composite all;
    int code = gather(set, asks, count, &all);
    if (code != 0)
        return code;
    all.stamp = set_to_stamp(set->weir, now);
    begin_retries(&all, asks, count, is_peek);
    code = decide_all(&all, is_peek);
    end_retries(&all, code == 0 && passes(&all));
    if (code == 0)
        answer_all(&all, count, each, out);
    return code;
}

int weir_set_admit(const struct weir_set *set, const struct weir_ask *asks, size_t count, weir_ns now,
                   struct weir_decision *each, struct weir_decision *out)
{
    return admit(set, asks, count, now, false, each, out);
}

int weir_set_admit_peek(const struct weir_set *set, const struct weir_ask *asks, size_t count, weir_ns now,
                        struct weir_decision *each, struct weir_decision *out)
{
    return admit(set, asks, count, now, true, each, out);
}

int weir_admit(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
               struct weir_decision *each, struct weir_decision *out)
{
    int code;
    do
        code = admit(set_current(weir), asks, count, now, false, each, out);
    while (code == WEIR_ERR_CHANGED);
    return code;
}

int weir_admit_peek(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
                    struct weir_decision *each, struct weir_decision *out)
{
    int code;
    do
        code = admit(set_current(weir), asks, count, now, true, each, out);
    while (code == WEIR_ERR_CHANGED);
    return code;
}

/* ---- The rest ------------------------------------------------------------------------------------------------ */

static void follow_wall(const struct weir_set *set, int64_t wall_at_origin)
{
    for (size_t i = 0; i < set->limit_count; i++) {
        const struct family *family = set->limits[i]->family;
        for (size_t k = 0; family->members[0].shape->align == WEIR_ALIGN_CALENDAR && k < family->count; k++)
            shape_wall_set(family->members[k].shape, wall_at_origin);
    }
}

void weir_wall_offset_set(struct weir *weir, int64_t offset)
{
    follow_wall(set_current(weir), set_wall_at_origin(weir, offset));
}

void weir_stats(struct weir *weir, weir_ns now, struct weir_stats *out)
{
    const struct weir_set *set = set_current(weir);
    store_stats(weir->store, set_to_stamp(weir, now), out);
    out->bytes += sizeof *weir
                  + set->limit_count * (sizeof **set->limits + sizeof(struct family) + sizeof(struct shape))
                  + set->limit_room * (sizeof *set->limits + 2 * sizeof *set->by_name)
                  + set->override_room * sizeof *set->overrides;
}

uint64_t weir_limit_overflows(const struct weir *weir, weir_limit_id id)
{
    const struct limit *limit = set_limit(set_current(weir), id);
    uint64_t sum = 0;
    for (size_t i = 0; limit != NULL && i < limit->family->count; i++)
        sum += store_overflows(weir->store, limit->family->members[i].shape);
    return sum;
}

void weir_sweep(struct weir *weir, weir_ns now, size_t groups)
{
    store_sweep(weir->store, set_to_stamp(weir, now), groups);
}
