// SPDX-License-Identifier: Apache-2.0
/*
 * fleet.c - what lives as long as a process (fleet_common) and as long as a loop (fleet): making, time, the end.
 */
#include "fleet/fleet.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "fleet/lessee.h"
#include "fleet/work.h"

#define SCRATCH_FIRST ((size_t)16 << 10)

/* ---- Of the process ----------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static int common_new(struct fleet_common **out, uint64_t seed, bool is_seeded)
{
    struct fleet_common *common = aligned_alloc(_Alignof(struct fleet_common), sizeof *common);
    if (common == NULL)
        return WEIR_ERR_MEMORY;
    memset(common, 0, sizeof *common);
    /* Keys are chosen by others: the hash is keyed by the system where it can be. */
    const uint64_t seeded[2] = { mix(&seed), mix(&seed) };
    uint8_t secret[16];
    if (is_seeded || !entropy_fill(secret, sizeof secret))
        memcpy(secret, seeded, sizeof secret);
    fleet_common_name(common, is_seeded ? seeded[0] : 0, "");
    if (outages_new(&common->outages, seed) != 0 || denied_new(&common->denied, secret) != 0
        || journal_new(&common->journal, secret) != 0 || holdings_new(&common->holdings, secret) != 0) {
        fleet_common_free(common);
        return WEIR_ERR_MEMORY;
    }
    (void)pthread_mutex_init(&common->lock, NULL); /* with default attributes it does not fail */
    *out = common;
    return 0;
}

int fleet_common_new(struct fleet_common **out, uint64_t seed)
{
    return common_new(out, seed, false);
}

int fleet_common_new_seeded(struct fleet_common **out, uint64_t seed)
{
    return common_new(out, seed, true);
}

void fleet_common_free(struct fleet_common *common)
{
    if (common == NULL)
        return;
    holdings_free(common->holdings);
    journal_free(common->journal);
    denied_free(common->denied);
    outages_free(common->outages);
    (void)pthread_mutex_destroy(&common->lock);
    free(common);
}

struct outages *fleet_common_outages(struct fleet_common *common)
{
    return common->outages;
}

/* One run never has two names, nor two processes one: a run that was before would have its record. Without the system's
   randomness it is of what differs between processes all the same. */
static uint64_t draw_run(const struct fleet_common *common)
{
    uint64_t run = 0;
    if (!entropy_fill(&run, sizeof run)) {
        uint64_t state = (uint64_t)(uintptr_t)common ^ (uint64_t)clock_wall() ^ clock_monotonic();
        run = mix(&state);
    }
    return run == 0 ? 1 : run;
}

void fleet_common_name(struct fleet_common *common, uint64_t run, const char *label)
{
    common->run = run == 0 ? draw_run(common) : run;
    (void)snprintf(common->label, sizeof common->label, "%s", label);
}

void fleet_common_changed(struct fleet_common *common)
{
    denied_changed(common->denied);
    holdings_changed(common->holdings);
}

/* The kind's place, or the one that was told longest ago. */
static struct told *find_told(struct fleet_common *common, uint64_t kind)
{
    struct told *oldest = &common->told[0];
    for (size_t i = 0; i < FLEET_KINDS; i++) {
        if (common->told[i].kind == kind)
            return &common->told[i];
        if (common->told[i].at < oldest->at)
            oldest = &common->told[i];
    }
    return oldest;
}

bool common_may_tell(struct fleet_common *common, struct slice kind, weir_ns now)
{
    uint64_t hash = 1;
    for (size_t i = 0; i < kind.len; i++)
        hash = (hash ^ (unsigned char)kind.at[i]) * UINT64_C(0x100000001b3);
    (void)pthread_mutex_lock(&common->lock);
    struct told *told = find_told(common, hash);
    bool may = told->kind != hash || now >= told->at + FLEET_QUIET_NS;
    if (may)
        *told = (struct told){ hash, now };
    (void)pthread_mutex_unlock(&common->lock);
    return may;
}

void common_troubled(struct fleet_common *common)
{
    (void)atomic_fetch_add_explicit(&common->troubles, 1, memory_order_release);
}

/* A failure that comes behind the look makes another number of it, and the exchange fails. */
void common_look_for_trouble(struct fleet_common *common)
{
    uint64_t seen = atomic_load_explicit(&common->troubles, memory_order_acquire);
    if (seen == 0)
        return;
    for (size_t i = outages_count(common->outages); i-- > 0;) {
        struct outage_view view;
        outages_view(common->outages, i, &view);
        if (view.outage.began_at != WEIR_NO_TIME)
            return;
    }
    (void)atomic_compare_exchange_strong_explicit(&common->troubles, &seen, 0, memory_order_relaxed,
                                                  memory_order_relaxed);
}

/* ---- Of a loop ------------------------------------------------------------------------------------------------------ */

int fleet_new(struct fleet **out, const struct fleet_options *options)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);
    if (fleet == NULL)
        return WEIR_ERR_MEMORY;
    fleet->common = options->common;
    fleet->scratch = malloc(SCRATCH_FIRST);
    if (fleet->scratch == NULL || lessee_new(&fleet->lessee, fleet) != 0) {
        free(fleet->scratch);
        free(fleet);
        return WEIR_ERR_MEMORY;
    }
    fleet->scratch_cap = SCRATCH_FIRST;
    unsigned place = atomic_fetch_add_explicit(&fleet->common->fleets, 1, memory_order_relaxed);
    fleet->line = &fleet->common->lines[place % FLEET_LINES];
    fleet->carrier = options->carrier;
    fleet->contract = options->contract;
    fleet->options = *options;
    fleet->wall_offset = options->wall_offset;
    fleet->random = options->seed;
    fleet->told_next = fleet->asleep_at = fleet->lessee_at = WEIR_NO_TIME;
    due_list_init(&fleet->works);
    due_list_init(&fleet->background);
    due_list_init(&fleet->nurses);
    *out = fleet;
    return 0;
}

void fleet_free(struct fleet *fleet)
{
    if (fleet == NULL)
        return;
    assert(fleet->works.count == 0);
    lessee_free(fleet->lessee);
    background_end(fleet, fleet->now);
    while (fleet->spare != NULL) {
        struct fleet_work *next = fleet->spare->next_spare;
        free(fleet->spare->blocks);
        free(fleet->spare);
        fleet->spare = next;
    }
    free(fleet->scratch);
    free(fleet);
}

void fleet_wall_set(struct fleet *fleet, int64_t wall_offset)
{
    fleet->wall_offset = wall_offset;
}

void fleet_advance(struct fleet *fleet, weir_ns now)
{
    if (now > fleet->now)
        fleet->now = now;
}

void fleet_now_set(struct fleet *fleet, weir_ns now)
{
    fleet_advance(fleet, now);
}

/* Asked once for each reading of the clock: while that stands still nobody can tell that the machine slept. */
weir_ns fleet_lease_now(struct fleet *fleet)
{
    const struct fleet_options *options = &fleet->options;
    if (fleet->asleep_at != fleet->now && options->asleep != NULL) {
        fleet->asleep = options->asleep(options->context);
        fleet->asleep_at = fleet->now;
    }
    return fleet->asleep < WEIR_NO_TIME - fleet->now ? fleet->now + fleet->asleep : WEIR_NO_TIME;
}

weir_ns fleet_reading(const struct fleet *fleet, weir_ns asked_at)
{
    const struct fleet_options *options = &fleet->options;
    if (options->injects_time)
        return asked_at;
    weir_ns now = options->now != NULL ? options->now(options->context) : fleet->now;
    return now > asked_at ? now : asked_at;
}

uint64_t fleet_wall_ns(const struct fleet *fleet, weir_ns now)
{
    int64_t wall;
    if (now > INT64_MAX || __builtin_add_overflow((int64_t)now, fleet->wall_offset, &wall) || wall < 0)
        return 0;
    return (uint64_t)wall;
}

bool fleet_draw(struct fleet *fleet, uint8_t out[FLEET_RANDOM_LEN])
{
    const uint64_t seeded[2] = { mix(&fleet->random), mix(&fleet->random) };
    memcpy(out, seeded, FLEET_RANDOM_LEN);
    return fleet->options.has_seed || entropy_fill(out, FLEET_RANDOM_LEN);
}

void fleet_write_id(const uint8_t bytes[FLEET_RANDOM_LEN], char out[SCRIPT_ID_LEN])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < FLEET_RANDOM_LEN; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

void fleet_tell_damage(struct fleet *fleet, const char *limit, struct slice name)
{
    count_add(fleet->common, COUNT_DAMAGED, 1);
    if (common_may_tell(fleet->common, slice_of(limit), fleet->now))
        fleet_log(fleet, "event=store-key-damaged limit=%s key=%.*s", limit,
                  (int)(name.len < 200 ? name.len : 200), name.at);
}

void fleet_log(struct fleet *fleet, const char *format, ...)
{
    char line[768];
    va_list words;
    if (fleet->options.log == NULL)
        return;
    va_start(words, format);
    (void)vsnprintf(line, sizeof line, format, words);
    va_end(words);
    fleet->options.log(fleet->options.context, line);
}

/* ---- Time --------------------------------------------------------------------------------------------------------------- */

static weir_ns earlier(weir_ns x, weir_ns y)
{
    return x < y ? x : y;
}

weir_ns fleet_next(const struct fleet *fleet)
{
    weir_ns asked = earlier(due_next(&fleet->works), fleet->lessee_at);
    return earlier(asked, earlier(due_next(&fleet->background), due_next(&fleet->nurses)));
}

void fleet_rewake(struct fleet *fleet)
{
    weir_ns next = fleet_next(fleet);
    if (next >= fleet->told_next)
        return;
    fleet->told_next = next;
    if (fleet->options.wake != NULL)
        fleet->options.wake(fleet->options.context);
}

/* Those that are due, at most as many as there are now: what they add is for the next time. */
static void expire(struct due_list *list, weir_ns now)
{
    for (size_t left = list->count; left > 0 && due_next(list) <= now; left--)
        list->head.next->expire(list->head.next, now);
}

void fleet_tick(struct fleet *fleet, weir_ns now)
{
    fleet_advance(fleet, now);
    expire(&fleet->works, now);
    expire(&fleet->background, now);
    expire(&fleet->nurses, now);
    if (now >= fleet->lessee_at)
        lessee_tick(fleet->lessee, now);
    fleet->told_next = fleet_next(fleet);
}

void fleet_hand_back(struct fleet *fleet, weir_ns now)
{
    fleet_advance(fleet, now);
    if (!atomic_exchange_explicit(&fleet->common->hands_back, true, memory_order_relaxed))
        lessee_hand_back(fleet->lessee, now);
    fleet_rewake(fleet);
}

size_t fleet_under_way(const struct fleet *fleet)
{
    return fleet->works.count;
}

void fleet_drain(struct fleet *fleet, weir_ns now)
{
    fleet_advance(fleet, now);
    for (size_t left = fleet->works.count; left > 0 && fleet->works.count > 0; left--)
        fleet->works.head.next->expire(fleet->works.head.next, now);
    background_end(fleet, now);
    lessee_drain(fleet->lessee, now);
    fleet->told_next = fleet_next(fleet);
}
