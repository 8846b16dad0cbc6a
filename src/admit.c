// SPDX-License-Identifier: Apache-2.0
/*
 * admit.c - the public calls: names and keys become hashes, several limits become one decision.
 *
 * A composite is decided in two passes. The first looks at every limit: a refusal seen there has written nothing. The
 * second charges them in one total order (logs, windows, buckets, cells shared by overflowing keys last; within a
 * class by hash) and, when a race was lost in between, gives back strictly what it took, in reverse. Because all
 * requests use one order, the one that is ahead never waits for one behind: of conflicting requests at least one
 * passes (P27).
 *
 * Elsewhere: arithmetic (limit/), cells and threads (store/). This file knows the origin; below it stamps are
 * ns since then.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "base/memory.h"
#include "base/siphash.h"
#include "store/store.h"
#include "weir.h"

#define DEFAULT_KEYS 65536
#define DEFAULT_LOG_STAMPS 1048576
/* How many keys a batch hashes and prefetches ahead: enough to overlap misses, few enough to stay in L1. */
#define BATCH 32

struct limit {
    struct siphash prefix; /* the secret and the limit's name, absorbed */
    struct shape shape;
    char name[WEIR_NAME_MAX + 1];
};

struct weir {
    struct store *store;
    weir_ns origin;
    struct limit **limits; /* in order of their ids */
    size_t limit_count, limit_room;
    int32_t *by_name;             /* open addressing, id + 1; twice limit_room entries */
    struct siphash seed;          /* the secret, nothing absorbed */
    int64_t wall_offset;          /* as of weir_new(), for epoch windows */
    _Atomic weir_ns wall_read_at; /* when weir_check_now() last looked at the wall */
    struct weir_allocator allocator;
};

/* ---- Life cycle ------------------------------------------------------------------------------------------ */

static void *take_memory(struct weir *weir, size_t size)
{
    return weir->allocator.allocate(weir->allocator.context, size, 64);
}

static void give_memory(struct weir *weir, void *memory, size_t size)
{
    if (memory != NULL)
        weir->allocator.release(weir->allocator.context, memory, size);
}

int weir_new(struct weir **out, const struct weir_options *options)
{
    static const struct weir_options none;
    const struct weir_options *wanted = options == NULL ? &none : options;
    const struct weir_allocator *allocator = wanted->allocator == NULL ? &memory_default : wanted->allocator;

    struct weir *weir = allocator->allocate(allocator->context, sizeof *weir, 64);
    if (weir == NULL)
        return WEIR_ERR_MEMORY;
    weir->allocator = *allocator;
    weir->origin = wanted->origin;
    weir->wall_offset = wanted->wall_offset;

    uint8_t secret[16];
    int code = WEIR_ERR_ENTROPY;
    if (wanted->secret != NULL)
        memcpy(secret, wanted->secret, sizeof secret);
    else if (!entropy_fill(secret, sizeof secret))
        goto undo_weir;
    weir->seed = siphash_begin(secret);

    code = store_new(&weir->store,
                     &(struct store_options){ wanted->keys == 0 ? DEFAULT_KEYS : wanted->keys,
                                              wanted->log_stamps == 0 ? DEFAULT_LOG_STAMPS : wanted->log_stamps,
                                              wanted->new_keys },
                     &weir->allocator);
    if (code != 0)
        goto undo_weir;
    *out = weir;
    return 0;

undo_weir:
    allocator->release(allocator->context, weir, sizeof *weir);
    return code;
}

void weir_free(struct weir *weir)
{
    if (weir == NULL)
        return;
    store_free(weir->store);
    for (size_t i = 0; i < weir->limit_count; i++) {
        shape_deinit(&weir->limits[i]->shape, &weir->allocator);
        give_memory(weir, weir->limits[i], sizeof **weir->limits);
    }
    give_memory(weir, weir->limits, weir->limit_room * sizeof *weir->limits);
    give_memory(weir, weir->by_name, 2 * weir->limit_room * sizeof *weir->by_name);
    struct weir_allocator allocator = weir->allocator;
    allocator.release(allocator.context, weir, sizeof *weir);
}

/* ---- Limits and their names -------------------------------------------------------------------------------- */

static bool is_limit_name(const char *name)
{
    size_t len = name == NULL ? 0 : strlen(name);
    if (len == 0 || len > WEIR_NAME_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!is_word && (i == 0 || (c != '.' && c != '_' && c != '-')))
            return false;
    }
    return true;
}

/* The entry of a name, or the empty one where it would stand. The table is never more than half full. */
static int32_t *name_slot(const struct weir *weir, const char *name)
{
    size_t mask = 2 * weir->limit_room - 1;
    size_t at = siphash_end(weir->seed, name, strlen(name)) & mask;
    while (weir->by_name[at] != 0 && strcmp(weir->limits[weir->by_name[at] - 1]->name, name) != 0)
        at = (at + 1) & mask;
    return &weir->by_name[at];
}

static int grow_limits(struct weir *weir)
{
    size_t room = weir->limit_room == 0 ? 16 : 2 * weir->limit_room;
    struct limit **limits = take_memory(weir, room * sizeof *limits);
    int32_t *by_name = take_memory(weir, 2 * room * sizeof *by_name);
    if (limits == NULL || by_name == NULL) {
        give_memory(weir, limits, room * sizeof *limits);
        give_memory(weir, by_name, 2 * room * sizeof *by_name);
        return WEIR_ERR_MEMORY;
    }
    if (weir->limit_count > 0)
        memcpy(limits, weir->limits, weir->limit_count * sizeof *limits);
    give_memory(weir, weir->limits, weir->limit_room * sizeof *limits);
    give_memory(weir, weir->by_name, 2 * weir->limit_room * sizeof *by_name);
    weir->limits = limits;
    weir->by_name = by_name;
    weir->limit_room = room;
    for (size_t i = 0; i < weir->limit_count; i++)
        *name_slot(weir, limits[i]->name) = (int32_t)i + 1;
    return 0;
}

/*
 * Absorb a name so that no name and key can be taken for another name and key: its length, then the name filled up
 * with zeros to whole blocks.
 */
static struct siphash absorb_name(struct siphash seed, const char *name)
{
    unsigned char block[8 + WEIR_NAME_MAX + 1] = { (unsigned char)strlen(name) };
    memcpy(block + 8, name, strlen(name));
    siphash_absorb(&seed, block, 8 + (strlen(name) + 7) / 8 * 8);
    return seed;
}

/* Unix time of the origin. Offsets that put it outside of 64 bits mean its nearest end: no sum may wrap. */
static int64_t wall_at_origin(const struct weir *weir, int64_t offset)
{
    __extension__ typedef __int128 i128;
    i128 wall = (i128)offset + weir->origin;
    return wall > INT64_MAX ? INT64_MAX : wall < INT64_MIN ? INT64_MIN : (int64_t)wall;
}

int weir_limit_add(struct weir *weir, const struct weir_limit *limit, weir_limit_id *out)
{
    if (!is_limit_name(limit->name))
        return WEIR_ERR_NAME;
    if (weir_limit_find(weir, limit->name) != WEIR_NO_LIMIT)
        return WEIR_ERR_DUPLICATE;
    if (weir->limit_count == WEIR_LIMITS_MAX)
        return WEIR_ERR_LIMITS;
    if (weir->limit_count == weir->limit_room && grow_limits(weir) != 0)
        return WEIR_ERR_MEMORY;

    struct limit *added = take_memory(weir, sizeof *added);
    if (added == NULL)
        return WEIR_ERR_MEMORY;
    int code = shape_init(&added->shape, limit, wall_at_origin(weir, weir->wall_offset), &weir->allocator);
    if (code != 0)
        goto undo_limit;
    added->shape.limit = (weir_limit_id)weir->limit_count;
    added->shape.number = (uint16_t)(weir->limit_count + 1);
    added->prefix = absorb_name(weir->seed, limit->name);
    memcpy(added->name, limit->name, strlen(limit->name) + 1);
    code = store_shape_add(weir->store, &added->shape);
    if (code != 0)
        goto undo_shape;

    *name_slot(weir, added->name) = (int32_t)weir->limit_count + 1;
    *out = (weir_limit_id)weir->limit_count;
    weir->limits[weir->limit_count++] = added;
    return 0;

undo_shape:
    shape_deinit(&added->shape, &weir->allocator);
undo_limit:
    give_memory(weir, added, sizeof *added);
    return code;
}

weir_limit_id weir_limit_find(const struct weir *weir, const char *name)
{
    return weir->limit_count == 0 ? WEIR_NO_LIMIT : *name_slot(weir, name) - 1;
}

static struct limit *limit_of(const struct weir *weir, weir_limit_id id)
{
    return (size_t)id < weir->limit_count ? weir->limits[id] : NULL;
}

const char *weir_limit_name(const struct weir *weir, weir_limit_id id)
{
    struct limit *limit = limit_of(weir, id);
    return limit == NULL ? NULL : limit->name;
}

/* ---- Stamps ------------------------------------------------------------------------------------------------ */

static weir_ns to_stamp(const struct weir *weir, weir_ns now)
{
    return now > weir->origin ? now - weir->origin : 0;
}

static weir_ns from_stamp(const struct weir *weir, weir_ns stamp)
{
    return stamp > WEIR_NO_TIME - weir->origin ? WEIR_NO_TIME : stamp + weir->origin;
}

static void write_decision(const struct weir *weir, const struct shape *shape,
                           const struct store_answer *answer, struct weir_decision *out)
{
    out->outcome = answer->outcome;
    out->policy = answer->policy;
    out->reason = answer->reason;
    out->limit = shape->limit;
    out->capacity = shape->capacity;
    out->remaining = answer->report.remaining;
    out->decided_at = from_stamp(weir, answer->at);
    out->retry_at = from_stamp(weir, answer->report.retry_at);
    out->reset_at = from_stamp(weir, answer->report.reset_at);
}

/* ---- One limit --------------------------------------------------------------------------------------------- */

static int check_or_peek(struct weir *weir, weir_limit_id id, const void *key, size_t len, uint64_t cost,
                         weir_ns now, bool is_peek, struct weir_decision *out)
{
    struct limit *limit = limit_of(weir, id);
    if (limit == NULL)
        return WEIR_ERR_LIMIT;
    if (len > WEIR_KEY_MAX)
        return WEIR_ERR_KEY;
    uint64_t hash = siphash_end(limit->prefix, key, len);
    struct store_answer answer;
    (is_peek ? store_peek : store_take)(weir->store, &limit->shape, hash, to_stamp(weir, now), cost, &answer);
    write_decision(weir, &limit->shape, &answer, out);
    return 0;
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
    for (size_t i = 0; i < count; i++) {
        if (limit_of(weir, asks[i].limit) == NULL)
            return WEIR_ERR_LIMIT;
        if (asks[i].key_len > WEIR_KEY_MAX)
            return WEIR_ERR_KEY;
    }
    weir_ns stamp = to_stamp(weir, now);
    for (size_t done = 0; done < count; done += BATCH) {
        size_t some = count - done < BATCH ? count - done : BATCH;
        uint64_t hashes[BATCH];
        for (size_t i = 0; i < some; i++) {
            const struct weir_ask *ask = &asks[done + i];
            hashes[i] = siphash_end(weir->limits[ask->limit]->prefix, ask->key, ask->key_len);
            store_prefetch(weir->store, hashes[i]);
        }
        for (size_t i = 0; i < some; i++) {
            const struct shape *shape = &weir->limits[asks[done + i].limit]->shape;
            struct store_answer answer;
            store_take(weir->store, shape, hashes[i], stamp, asks[done + i].cost, &answer);
            write_decision(weir, shape, &answer, &out[done + i]);
        }
    }
    return 0;
}

/* ---- Several limits, all or nothing -------------------------------------------------------------------------- */

/* One (limit, key) of a composite; asks for the same one are added up. */
struct part {
    const struct shape *shape;
    uint64_t hash, cost;
    struct store_answer answer;
};

struct composite {
    struct part parts[WEIR_ASKS_MAX]; /* in the order they are charged */
    size_t count;
    uint8_t part_of[WEIR_ASKS_MAX]; /* which part answers an ask */
};

static unsigned charge_class(const struct part *part)
{
    if (part->answer.policy == WEIR_POLICY_OVERFLOW)
        return 3;
    return part->shape->algorithm == WEIR_SLIDING_LOG ? 0 : part->shape->algorithm <= WEIR_LEAKY_BUCKET ? 2 : 1;
}

static bool goes_before(const struct part *x, const struct part *y)
{
    unsigned class_x = charge_class(x), class_y = charge_class(y);
    if (class_x != class_y)
        return class_x < class_y;
    return x->hash != y->hash ? x->hash < y->hash : x->shape->limit < y->shape->limit;
}

static bool is_refusal(enum weir_outcome outcome)
{
    return outcome == WEIR_DENY || outcome == WEIR_NEVER || outcome == WEIR_REFUSED;
}

static size_t find_part(const struct composite *all, const struct shape *shape, uint64_t hash)
{
    size_t i = 0;
    while (i < all->count && (all->parts[i].hash != hash || all->parts[i].shape != shape))
        i++;
    return i;
}

/* Check every ask, hash its key and add up what belongs together. */
static int gather(const struct weir *weir, const struct weir_ask *asks, size_t count, struct composite *all)
{
    all->count = 0;
    if (count == 0 || count > WEIR_ASKS_MAX)
        return WEIR_ERR_ASKS;
    for (size_t i = 0; i < count; i++) {
        struct limit *limit = limit_of(weir, asks[i].limit);
        if (limit == NULL)
            return WEIR_ERR_LIMIT;
        if (asks[i].key_len > WEIR_KEY_MAX)
            return WEIR_ERR_KEY;
        uint64_t hash = siphash_end(limit->prefix, asks[i].key, asks[i].key_len);
        size_t at = find_part(all, &limit->shape, hash);
        if (at == all->count) {
            store_prefetch(weir->store, hash);
            all->parts[all->count].shape = &limit->shape;
            all->parts[all->count].hash = hash;
            all->parts[all->count++].cost = asks[i].cost;
        } else if (__builtin_add_overflow(all->parts[at].cost, asks[i].cost, &all->parts[at].cost)) {
            all->parts[at].cost = UINT64_MAX;
        }
        all->part_of[i] = (uint8_t)at;
    }
    return 0;
}

/* Look at every part. Whether one refuses. */
static bool look(const struct weir *weir, weir_ns stamp, struct composite *all)
{
    bool is_refused = false;
    for (size_t i = 0; i < all->count; i++) {
        struct part *part = &all->parts[i];
        store_peek(weir->store, part->shape, part->hash, stamp, part->cost, &part->answer);
        is_refused |= is_refusal(part->answer.outcome);
    }
    return is_refused;
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
 * Charge every part, or none. What was taken before the refusal is given back in reverse and looked at once more, so
 * that its numbers are true after the whole decision.
 *
 * A thread may be stopped between charge and undo while the bucket refills and others spend it. What refill has
 * replaced by then must not come back as well (P12), and only a clock tells: this is the one place that asks it.
 */
static void charge(const struct weir *weir, weir_ns stamp, struct composite *all)
{
    uint8_t sorted[WEIR_ASKS_MAX];
    size_t taken = 0;
    weir_ns began_at = clock_monotonic();
    order(all, sorted);
    while (taken < all->count) {
        struct part *part = &all->parts[sorted[taken]];
        store_take(weir->store, part->shape, part->hash, stamp, part->cost, &part->answer);
        if (is_refusal(part->answer.outcome))
            break;
        taken++;
    }
    if (taken == all->count)
        return;
    weir_ns undone_at = stamp + (clock_monotonic() - began_at);
    for (size_t i = taken; i-- > 0;) {
        struct part *part = &all->parts[sorted[i]];
        if (part->answer.outcome == WEIR_ALLOW && part->cost > 0)
            store_undo(weir->store, part->shape, part->hash, &part->answer, undone_at, part->cost);
        store_peek(weir->store, part->shape, part->hash, stamp, part->cost, &part->answer);
    }
}

/*
 * Which part speaks for all. A refusal outranks what passes, and a decision outranks its absence: NEVER, DENY, REFUSED,
 * UNMETERED, ALLOW. Among equals the one that binds hardest: the latest retry, or the fewest such requests left.
 */
static unsigned rank(enum weir_outcome outcome)
{
    static const unsigned ranks[WEIR_OUTCOME_COUNT] = {
        [WEIR_NEVER] = 4, [WEIR_DENY] = 3, [WEIR_REFUSED] = 2, [WEIR_UNMETERED] = 1
    };
    return ranks[outcome];
}

static bool binds_harder(const struct part *x, const struct part *y)
{
    unsigned rank_x = rank(x->answer.outcome), rank_y = rank(y->answer.outcome);
    if (rank_x != rank_y)
        return rank_x > rank_y;
    if (rank_x > 0)
        return x->answer.report.retry_at > y->answer.report.retry_at;
    if ((x->cost == 0) != (y->cost == 0))
        return y->cost == 0;
    uint64_t left_x = x->answer.report.remaining / (x->cost == 0 ? 1 : x->cost);
    uint64_t left_y = y->answer.report.remaining / (y->cost == 0 ? 1 : y->cost);
    return left_x < left_y;
}

static int admit(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now, bool is_peek,
                 struct weir_decision *each, struct weir_decision *out)
{
    struct composite all;
    int code = gather(weir, asks, count, &all);
    if (code != 0)
        return code;

    weir_ns stamp = to_stamp(weir, now);
    if (all.count == 1 && !is_peek)
        store_take(weir->store, all.parts[0].shape, all.parts[0].hash, stamp, all.parts[0].cost,
                   &all.parts[0].answer);
    else if (!look(weir, stamp, &all) && !is_peek)
        charge(weir, stamp, &all);

    const struct part *binding =
        &all.parts[0]; /* parts are in the order of their first asks: ties go to the first */
    for (size_t i = 1; i < all.count; i++)
        if (binds_harder(&all.parts[i], binding))
            binding = &all.parts[i];
    write_decision(weir, binding->shape, &binding->answer, out);
    for (size_t i = 0; each != NULL && i < count; i++)
        write_decision(weir, all.parts[all.part_of[i]].shape, &all.parts[all.part_of[i]].answer, &each[i]);
    return 0;
}

int weir_admit(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
               struct weir_decision *each, struct weir_decision *out)
{
    return admit(weir, asks, count, now, false, each, out);
}

int weir_admit_peek(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
                    struct weir_decision *each, struct weir_decision *out)
{
    return admit(weir, asks, count, now, true, each, out);
}

/* ---- The rest ------------------------------------------------------------------------------------------------ */

void weir_wall_offset_set(struct weir *weir, int64_t offset)
{
    for (size_t i = 0; i < weir->limit_count; i++)
        shape_wall_set(&weir->limits[i]->shape, wall_at_origin(weir, offset));
}

void weir_stats(struct weir *weir, weir_ns now, struct weir_stats *out)
{
    store_stats(weir->store, to_stamp(weir, now), out);
    out->bytes += sizeof *weir + weir->limit_count * sizeof **weir->limits
                  + weir->limit_room * (sizeof *weir->limits + 2 * sizeof *weir->by_name);
}

uint64_t weir_limit_overflows(const struct weir *weir, weir_limit_id id)
{
    struct limit *limit = limit_of(weir, id);
    return limit == NULL ? 0 : store_overflows(weir->store, &limit->shape);
}

void weir_sweep(struct weir *weir, weir_ns now, size_t groups)
{
    store_sweep(weir->store, to_stamp(weir, now), groups);
}
