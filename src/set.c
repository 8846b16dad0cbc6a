// SPDX-License-Identifier: Apache-2.0
/*
 * set.c - a limiter and the set of limits it decides by: making, adding, finding.
 *
 * A limit is known by what makes its counters mean the same: name, algorithm, align and key_form. These are absorbed into
 * the state that hashes its keys, so a limit that differs in one of them counts under other cells by itself.
 */
#include "set.h"

#include <string.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "base/memory.h"

#define DEFAULT_KEYS 65536
#define DEFAULT_LOG_STAMPS 1048576
#define DEFAULT_PERMITS 65536

void *set_take_memory(struct weir *weir, size_t size)
{
    return weir->allocator.allocate(weir->allocator.context, size, 64);
}

void set_give_memory(struct weir *weir, void *memory, size_t size)
{
    if (memory != NULL)
        weir->allocator.release(weir->allocator.context, memory, size);
}

/* ---- Families: the shapes of one limit ----------------------------------------------------------------------- */

void family_free(struct weir *weir, struct family *family)
{
    if (family == NULL)
        return;
    for (size_t i = 0; i < family->count; i++) {
        shape_deinit(family->members[i].shape, &weir->allocator);
        set_give_memory(weir, family->members[i].shape, sizeof *family->members[i].shape);
    }
    set_give_memory(weir, family->members, family->room * sizeof *family->members);
    set_give_memory(weir, family, sizeof *family);
}

/* What is absent had nothing left at `lost_at`. */
static void lose(struct shape *shape, weir_ns lost_at)
{
    atomic_store_explicit(&shape->lost_at, lost_at, memory_order_relaxed);
    atomic_store_explicit(&shape->absent, shape_lost(shape), memory_order_relaxed);
}

static int grow_family(struct weir *weir, struct family *family)
{
    size_t room = family->room == 0 ? 1 : 2 * family->room;
    struct member *members = set_take_memory(weir, room * sizeof *members);
    if (members == NULL)
        return WEIR_ERR_MEMORY;
    if (family->count > 0)
        memcpy(members, family->members, family->count * sizeof *members);
    set_give_memory(weir, family->members, family->room * sizeof *members);
    family->members = members;
    family->room = room;
    return 0;
}

/* A shape of another size at the end of the family. 0, or what is wrong with it. */
static int family_add(struct weir *weir, struct family *family, const struct weir_limit *limit)
{
    if (family->count == family->room && grow_family(weir, family) != 0)
        return WEIR_ERR_MEMORY;
    struct shape *shape = set_take_memory(weir, sizeof *shape);
    if (shape == NULL)
        return WEIR_ERR_MEMORY;
    int code = shape_init(shape, limit, set_wall_at_origin(weir, weir->wall_offset), &weir->allocator);
    if (code != 0) {
        set_give_memory(weir, shape, sizeof *shape);
        return code;
    }
    lose(shape, atomic_load_explicit(&weir->lost_at, memory_order_relaxed));
    family->members[family->count++] =
        (struct member){ shape, { limit->rate, limit->burst, limit->debt, limit->at_most, false } };
    return 0;
}

static int take_number(struct weir *weir, uint16_t *out)
{
    for (size_t i = 0; i < sizeof weir->numbers / sizeof *weir->numbers; i++) {
        if (weir->numbers[i] == UINT64_MAX)
            continue;
        size_t number = i * 64 + (size_t)__builtin_ctzll(~weir->numbers[i]);
        if (number > WEIR_LIMITS_MAX)
            break;
        weir->numbers[i] |= UINT64_C(1) << number % 64;
        *out = (uint16_t)number;
        return 0;
    }
    return WEIR_ERR_LIMITS;
}

static void give_number(struct weir *weir, uint16_t number)
{
    weir->numbers[number / 64] &= ~(UINT64_C(1) << number % 64);
}

static void withdraw_from(struct weir *weir, struct family *family, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        store_shape_remove(weir->store, family->members[i].shape);
        give_number(weir, family->members[i].shape->number);
    }
}

int family_publish(struct weir *weir, struct family *family, size_t first)
{
    for (size_t i = first; i < family->count; i++) {
        struct shape *shape = family->members[i].shape;
        int code = take_number(weir, &shape->number);
        if (code == 0) {
            shape->lineage = family->lineage;
            code = store_shape_add(weir->store, shape);
            if (code != 0)
                give_number(weir, shape->number);
        }
        if (code != 0) {
            withdraw_from(weir, family, first, i);
            return code;
        }
    }
    return 0;
}

void family_withdraw(struct weir *weir, struct family *family)
{
    withdraw_from(weir, family, 0, family->count);
}

/* ---- Sets ---------------------------------------------------------------------------------------------------- */

struct weir_set *set_new(struct weir *weir)
{
    struct weir_set *set = set_take_memory(weir, sizeof *set);
    if (set != NULL)
        set->weir = weir;
    return set;
}

void set_free(struct weir_set *set, bool and_families)
{
    if (set == NULL)
        return;
    struct weir *weir = set->weir;
    for (size_t i = 0; i < set->limit_count; i++) {
        if (and_families)
            family_free(weir, set->limits[i]->family);
        set_give_memory(weir, set->limits[i], sizeof **set->limits);
    }
    set_give_memory(weir, set->limits, set->limit_room * sizeof *set->limits);
    set_give_memory(weir, set->by_name, 2 * set->limit_room * sizeof *set->by_name);
    set_give_memory(weir, set->by_lineage, 2 * set->limit_room * sizeof *set->by_lineage);
    set_give_memory(weir, set->overrides, set->override_room * sizeof *set->overrides);
    set_give_memory(weir, set, sizeof *set);
}

/* ---- Limits and their names ------------------------------------------------------------------------------------ */

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
static int32_t *name_place(const struct weir_set *set, const char *name)
{
    size_t mask = 2 * set->limit_room - 1;
    size_t at = siphash_end(set->weir->seed, name, strlen(name)) & mask;
    while (set->by_name[at] != 0 && strcmp(set->limits[set->by_name[at] - 1]->name, name) != 0)
        at = (at + 1) & mask;
    return &set->by_name[at];
}

static int grow_limits(struct weir_set *set)
{
    struct weir *weir = set->weir;
    size_t room = set->limit_room == 0 ? 16 : 2 * set->limit_room;
    struct limit **limits = set_take_memory(weir, room * sizeof *limits);
    int32_t *by_name = set_take_memory(weir, 2 * room * sizeof *by_name);
    int32_t *by_lineage = set_take_memory(weir, 2 * room * sizeof *by_lineage);
    if (limits == NULL || by_name == NULL || by_lineage == NULL) {
        set_give_memory(weir, limits, room * sizeof *limits);
        set_give_memory(weir, by_name, 2 * room * sizeof *by_name);
        set_give_memory(weir, by_lineage, 2 * room * sizeof *by_lineage);
        return WEIR_ERR_MEMORY;
    }
    if (set->limit_count > 0)
        memcpy(limits, set->limits, set->limit_count * sizeof *limits);
    set_give_memory(weir, set->limits, set->limit_room * sizeof *limits);
    set_give_memory(weir, set->by_name, 2 * set->limit_room * sizeof *by_name);
    set_give_memory(weir, set->by_lineage, 2 * set->limit_room * sizeof *set->by_lineage);
    set->by_lineage = by_lineage;
    set->limits = limits;
    set->by_name = by_name;
    set->limit_room = room;
    for (size_t i = 0; i < set->limit_count; i++)
        *name_place(set, limits[i]->name) = (int32_t)i + 1;
    if (set == weir->current) /* it is in force: what it had indexed stays so, whatever fails next */
        set_index_lineages(set);
    return 0;
}

/* Absorb a text so that no two texts and no text and key can be taken for each other: its length, then whole blocks. */
static void absorb_text(struct siphash *state, const char *text)
{
    uint64_t len = text == NULL ? UINT64_MAX : strlen(text);
    siphash_absorb(state, &len, sizeof len);
    for (size_t i = 0; text != NULL && i < len; i += 8) {
        unsigned char block[8] = { 0 };
        memcpy(block, text + i, len - i < 8 ? len - i : 8);
        siphash_absorb(state, block, sizeof block);
    }
}

static struct siphash absorb_limit(struct siphash state, const struct weir_limit *limit)
{
    bool is_calendar = limit->algorithm == WEIR_FIXED_WINDOW && limit->align == WEIR_ALIGN_CALENDAR;
    uint64_t kind[2] = { (uint64_t)limit->algorithm << 8 | (uint64_t)limit->align,
                         is_calendar ? (uint64_t)limit->calendar : UINT64_MAX };
    absorb_text(&state, limit->name);
    absorb_text(&state, limit->key_form);
    absorb_text(&state, is_calendar ? limit->zone : NULL);
    siphash_absorb(&state, kind, sizeof kind);
    return state;
}

int set_add_limit(struct weir_set *set, const struct weir_limit *limit, weir_limit_id *out)
{
    struct weir *weir = set->weir;
    if (!is_limit_name(limit->name))
        return WEIR_ERR_NAME;
    if (set->limit_count > 0 && *name_place(set, limit->name) != 0)
        return WEIR_ERR_DUPLICATE;
    if (set->limit_count == WEIR_LIMITS_MAX)
        return WEIR_ERR_LIMITS;
    if (set->limit_count == set->limit_room && grow_limits(set) != 0)
        return WEIR_ERR_MEMORY;

    struct limit *added = set_take_memory(weir, sizeof *added);
    struct family *family = set_take_memory(weir, sizeof *family);
    int code = added == NULL || family == NULL ? WEIR_ERR_MEMORY : family_add(weir, family, limit);
    if (code != 0) {
        family_free(weir, family);
        set_give_memory(weir, added, sizeof *added);
        return code;
    }
    added->prefix = absorb_limit(weir->seed, limit);
    added->family = family;
    added->shape = family->members[0].shape;
    memcpy(added->name, limit->name, strlen(limit->name) + 1);
    added->given = *limit;
    added->given.name = added->name;
    added->given.key_form = NULL;
    if (limit->zone != NULL && strlen(limit->zone) < sizeof added->zone)
        added->given.zone = memcpy(added->zone, limit->zone, strlen(limit->zone) + 1);
    *name_place(set, added->name) = (int32_t)set->limit_count + 1;
    *out = (weir_limit_id)set->limit_count;
    set->limits[set->limit_count++] = added;
    return 0;
}

/* ---- Overrides ------------------------------------------------------------------------------------------------- */

struct override *set_override_place(const struct weir_set *set, uint64_t hash)
{
    size_t mask = set->override_room - 1;
    size_t at = hash & mask;
    while (set->overrides[at].limit != 0 && set->overrides[at].hash != hash)
        at = (at + 1) & mask;
    return &set->overrides[at];
}

static int grow_overrides(struct weir_set *set)
{
    size_t old_room = set->override_room, room = old_room == 0 ? 16 : 2 * old_room;
    struct override *old = set->overrides, *places = set_take_memory(set->weir, room * sizeof *places);
    if (places == NULL)
        return WEIR_ERR_MEMORY;
    set->overrides = places;
    set->override_room = room;
    for (size_t i = 0; i < old_room; i++)
        if (old[i].limit != 0)
            *set_override_place(set, old[i].hash) = old[i];
    set_give_memory(set->weir, old, old_room * sizeof *old);
    return 0;
}

/* The limit's shape of a size, made if there is none yet. Sizes are few: twenty among a hundred thousand overrides. */
static int claim_shape(struct weir *weir, struct limit *limit, const struct weir_size *size,
                       struct override *out)
{
    struct family *family = limit->family;
    size_t at = 0;
    while (at < family->count && !set_same_size(&family->members[at].size, size))
        at++;
    if (at == family->count) {
        struct weir_limit sized = limit->given;
        sized.rate = size->rate;
        sized.burst = size->burst;
        sized.debt = size->debt;
        sized.at_most = size->at_most;
        int code = family_add(weir, family, &sized);
        if (code != 0)
            return code;
    }
    out->shape = family->members[at].shape;
    out->member = (uint32_t)at;
    return 0;
}

int set_add_override(struct weir_set *set, weir_limit_id id, const void *key, size_t len,
                     const struct weir_size *size)
{
    struct limit *limit = (struct limit *)(uintptr_t)set_limit(set, id);
    if (limit == NULL)
        return WEIR_ERR_LIMIT;
    if (len > WEIR_KEY_MAX)
        return WEIR_ERR_KEY;
    if (2 * (set->override_count + 1) > set->override_room && grow_overrides(set) != 0)
        return WEIR_ERR_MEMORY;
    uint64_t hash = set_hash(limit, key, len);
    struct override *place = set_override_place(set, hash);
    if (place->limit != 0)
        return WEIR_ERR_OVERRIDE;
    struct override own = { .hash = hash, .limit = id + 1 };
    int code = size->is_unlimited ? 0 : claim_shape(set->weir, limit, size, &own);
    if (code != 0)
        return code;
    *place = own;
    set->override_count++;
    limit->override_count++;
    return 0;
}

const struct shape *set_shape_overridden(const struct weir_set *set, const struct limit *limit, uint64_t hash)
{
    const struct override *override = set_override_place(set, hash);
    return override->limit == 0 ? limit->shape : override->shape;
}

int weir_set_size(const struct weir_set *set, weir_limit_id id, const void *key, size_t len,
                  struct weir_size *out)
{
    const struct limit *limit = set_limit(set, id);
    if (limit == NULL)
        return WEIR_ERR_LIMIT;
    if (len > WEIR_KEY_MAX)
        return WEIR_ERR_KEY;
    size_t member = 0;
    *out = (struct weir_size){ .is_unlimited = true };
    if (limit->override_count > 0) {
        const struct override *override = set_override_place(set, set_hash(limit, key, len));
        if (override->limit != 0 && override->shape == NULL)
            return 0;
        member = override->limit == 0 ? 0 : override->member;
    }
    *out = limit->family->members[member].size;
    return 0;
}

/* ---- Lineages ---------------------------------------------------------------------------------------------------- */

static int32_t *lineage_place(const struct weir_set *set, uint32_t lineage)
{
    size_t mask = 2 * set->limit_room - 1, at = lineage & mask;
    while (set->by_lineage[at] != 0 && set->limits[set->by_lineage[at] - 1]->family->lineage != lineage)
        at = (at + 1) & mask;
    return &set->by_lineage[at];
}

void set_index_lineages(struct weir_set *set)
{
    if (set->limit_count == 0)
        return;
    memset(set->by_lineage, 0, 2 * set->limit_room * sizeof *set->by_lineage);
    for (size_t i = 0; i < set->limit_count; i++)
        *lineage_place(set, set->limits[i]->family->lineage) = (int32_t)i + 1;
}

weir_limit_id set_find_lineage(const struct weir_set *set, uint32_t lineage)
{
    return set->limit_count == 0 ? WEIR_NO_LIMIT : *lineage_place(set, lineage) - 1;
}

/* ---- The limiter --------------------------------------------------------------------------------------------------- */

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
    atomic_init(&weir->lost_at, set_to_stamp(weir, wanted->lost_at));
    weir->numbers[0] = 1; /* 0 means empty */

    uint8_t secret[16];
    int code = WEIR_ERR_ENTROPY;
    if (wanted->secret != NULL)
        memcpy(secret, wanted->secret, sizeof secret);
    else if (!entropy_fill(secret, sizeof secret))
        goto undo_weir;
    weir->seed = siphash_begin(secret);
    weir->next_nonce = siphash_end(weir->seed, "nonce", 5);

    code = WEIR_ERR_MEMORY;
    weir->current = set_new(weir);
    if (weir->current == NULL)
        goto undo_weir;
    code = store_new(&weir->store,
                     &(struct store_options){
                         .keys = wanted->keys == 0 ? DEFAULT_KEYS : wanted->keys,
                         .log_stamps = wanted->log_stamps == 0 ? DEFAULT_LOG_STAMPS : wanted->log_stamps,
                         .permits = wanted->permits == 0 ? DEFAULT_PERMITS : wanted->permits,
                         .fence = wanted->fence == 0 ? (uint64_t)clock_wall() : wanted->fence,
                         .new_keys = wanted->new_keys },
                     &weir->allocator);
    if (code != 0)
        goto undo_set;
    code = room_init(weir, wanted->keys == 0 ? DEFAULT_KEYS : wanted->keys);
    if (code != 0)
        goto undo_store;
    weir->room.wake = wanted->wake;
    weir->room.wake_context = wanted->wake_context;
    *out = weir;
    return 0;

undo_store:
    store_free(weir->store);
undo_set:
    set_free(weir->current, true);
undo_weir:
    allocator->release(allocator->context, weir, sizeof *weir);
    return code;
}

int weir_limit_add(struct weir *weir, const struct weir_limit *limit, weir_limit_id *out)
{
    struct weir_set *set = weir->current;
    weir_limit_id id;
    int code = set_add_limit(set, limit, &id);
    if (code != 0)
        return code;
    set->limits[id]->family->lineage = ++weir->next_lineage;
    code = family_publish(weir, set->limits[id]->family, 0);
    if (code == 0) {
        *lineage_place(set, set->limits[id]->family->lineage) = id + 1;
        *out = id;
        return 0;
    }
    /* Take it out again: it is the last one. */
    *name_place(set, set->limits[id]->name) = 0;
    family_free(weir, set->limits[id]->family);
    set_give_memory(weir, set->limits[id], sizeof **set->limits);
    set->limit_count--;
    return code;
}

/* Take the override of the key out again, and the shapes from `first` on that were made for it. It is the last one. */
static void drop_override(struct weir_set *set, struct limit *limit, uint64_t hash, size_t first)
{
    struct weir *weir = set->weir;
    struct family *family = limit->family;
    *set_override_place(set, hash) = (struct override){ 0 };
    set->override_count--;
    limit->override_count--;
    while (family->count > first) {
        struct shape *shape = family->members[--family->count].shape;
        shape_deinit(shape, &weir->allocator);
        set_give_memory(weir, shape, sizeof *shape);
    }
}

int weir_override_add(struct weir *weir, weir_limit_id id, const void *key, size_t len,
                      const struct weir_size *size)
{
    struct weir_set *set = weir->current;
    struct limit *limit = (struct limit *)(uintptr_t)set_limit(set, id);
    if (limit == NULL)
        return WEIR_ERR_LIMIT;
    size_t before = limit->family->count;
    int code = set_add_override(set, id, key, len, size);
    if (code != 0)
        return code;
    for (size_t i = before; i < limit->family->count;
         i++) { /* all shapes of a lineage in one set are of one age */
        limit->family->members[i].shape->generation = limit->shape->generation;
        limit->family->members[i].shape->since = limit->shape->since;
    }
    code = family_publish(weir, limit->family, before);
    if (code != 0)
        drop_override(set, limit, set_hash(limit, key, len), before);
    return code;
}

bool set_has_name(const struct weir_set *set, const char *name)
{
    return set->limit_count > 0 && *name_place(set, name) != 0;
}

weir_limit_id weir_limit_find(const struct weir *weir, const char *name)
{
    const struct weir_set *set = set_current(weir);
    return set->limit_count == 0 ? WEIR_NO_LIMIT : *name_place(set, name) - 1;
}

const char *weir_limit_name(const struct weir *weir, weir_limit_id id)
{
    const struct limit *limit = set_limit(set_current(weir), id);
    return limit == NULL ? NULL : limit->name;
}

const struct weir_set *weir_set_current(const struct weir *weir)
{
    return set_current(weir);
}

void set_lose(const struct weir_set *set, weir_ns stamp)
{
    for (size_t i = 0; i < set->limit_count; i++) {
        const struct family *family = set->limits[i]->family;
        for (size_t k = 0; k < family->count; k++) {
            struct shape *shape = family->members[k].shape;
            if (shape->starts_empty && shape_lost_at(shape) < stamp)
                lose(shape, stamp);
        }
    }
}

/* Of the set in force alone: what calls under an older one still find absent is what they would have found a moment ago. */
void weir_lost_at_set(struct weir *weir, weir_ns lost_at)
{
    weir_ns stamp = set_to_stamp(weir, lost_at);
    weir_ns before = atomic_load_explicit(&weir->lost_at, memory_order_relaxed);
    do {
        if (stamp <= before)
            return;
    } while (!atomic_compare_exchange_weak_explicit(&weir->lost_at, &before, stamp, memory_order_relaxed,
                                                    memory_order_relaxed));
    atomic_thread_fence(memory_order_seq_cst); /* with the one behind a commit: one of the two sees the other */
    set_lose(set_current(weir), stamp);
}
