// SPDX-License-Identifier: Apache-2.0
/*
 * outage.c - the breaker's states, and the registry of all nodes.
 *
 * CLOSED: ask. OPEN: do not. HALF_OPEN: the same, and a probe is under way. There are probes while an outage is on, also where the
 * breaker is still closed: without requests nothing else would end it. Only what comes in time closes; failures of
 * requests that were sent before it opened come in late and change nothing, so that they neither count as the probe's nor
 * lengthen the cool-down. A probe is under way until it is told of or its time is over, also where the breaker was closed
 * meanwhile by somebody else's answer: so there is never a second one.
 *
 * The registry is an array of pointers that only grows: a place is not used again, since an errand or a nurse may still have the
 * outage of a node that left. Whether anybody has a node is counted, so that those that left are not shown. A node is found by its
 * address when a connection is made, not when a request is decided.
 */
#include "fleet/outage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"

struct outage {
    pthread_mutex_t lock;
    atomic_bool is_calm; /* no failure since the last answer, and no news */
    struct outages *all;
    _Atomic unsigned holders; /* relaxed: only what is shown hangs on it */
    bool is_open, is_probing;
    unsigned in_a_row;
    weir_ns cool;        /* the cool-down that is on, before it is drawn */
    weir_ns cool_at;     /* when it began: with the outage, the opening, or the failure of the last probe */
    weir_ns probe_at;    /* not before */
    weir_ns probe_until; /* a probe under way counts as failed then */
    struct weir_outage now;
    uint64_t random;
    uint64_t failures, opened, probes;
    /* The log: whether this outage was told of, and when anything was last. */
    bool is_told, is_end_due, was_ever_told;
    weir_ns told_at, told_began_at;
    char why[OUTAGE_WHY_MAX];
    char address[OUTAGE_ADDRESS_MAX + 1];
};

struct outages {
    pthread_mutex_t lock;
    uint64_t seed;
    _Atomic uint64_t number; /* of the last outage of any node */
    _Atomic size_t count;    /* released after the pointer below it was written */
    struct outage *nodes[OUTAGES_MAX];
};

/* ---- The registry ------------------------------------------------------------------------------------------- */

static struct outage *outage_new(struct outages *all, const char *address)
{
    static const uint8_t no_secret[16];
    struct outage *outage = calloc(1, sizeof *outage);
    if (outage == NULL)
        return NULL;
    if (pthread_mutex_init(&outage->lock, NULL) != 0) {
        free(outage);
        return NULL;
    }
    size_t len = strnlen(address, OUTAGE_ADDRESS_MAX);
    memcpy(outage->address, address, len);
    outage->all = all;
    outage->now.began_at = WEIR_NO_TIME;
    outage->random = all->seed ^ siphash_end(siphash_begin(no_secret), outage->address, len);
    atomic_init(&outage->is_calm, true);
    return outage;
}

static void outage_free(struct outage *outage)
{
    (void)pthread_mutex_destroy(&outage->lock);
    free(outage);
}

int outages_new(struct outages **out, uint64_t seed)
{
    struct outages *all = calloc(1, sizeof *all);
    if (all == NULL)
        return WEIR_ERR_MEMORY;
    all->seed = seed;
    /* The one that is there when memory is not: outage_of() never fails. */
    all->nodes[0] = outage_new(all, "");
    if (all->nodes[0] == NULL || pthread_mutex_init(&all->lock, NULL) != 0) {
        if (all->nodes[0] != NULL)
            outage_free(all->nodes[0]);
        free(all);
        return WEIR_ERR_MEMORY;
    }
    *out = all;
    return 0;
}

void outages_free(struct outages *outages)
{
    if (outages == NULL)
        return;
    size_t count = atomic_load_explicit(&outages->count, memory_order_acquire);
    for (size_t i = 0; i < (count == 0 ? 1 : count); i++)
        outage_free(outages->nodes[i]);
    (void)pthread_mutex_destroy(&outages->lock);
    free(outages);
}

/* Under the registry's lock. */
static struct outage *claim(struct outages *outages, const char *address)
{
    size_t count = atomic_load_explicit(&outages->count, memory_order_relaxed);
    for (size_t i = 0; i < count; i++)
        if (strncmp(outages->nodes[i]->address, address, OUTAGE_ADDRESS_MAX) == 0)
            return outages->nodes[i];
    if (count == OUTAGES_MAX)
        return outages->nodes[count - 1];
    if (count == 0) { /* the reserve becomes the first node */
        memcpy(outages->nodes[0]->address, address, strnlen(address, OUTAGE_ADDRESS_MAX));
    } else {
        struct outage *outage = outage_new(outages, address);
        if (outage == NULL)
            return outages->nodes[count - 1];
        outages->nodes[count] = outage;
    }
    atomic_store_explicit(&outages->count, count + 1, memory_order_release);
    return outages->nodes[count];
}

struct outage *outage_of(struct outages *outages, const char *address)
{
    (void)pthread_mutex_lock(&outages->lock);
    struct outage *outage = claim(outages, address);
    (void)atomic_fetch_add_explicit(&outage->holders, 1, memory_order_relaxed);
    (void)pthread_mutex_unlock(&outages->lock);
    return outage;
}

static bool is_held(const struct outage *outage)
{
    return atomic_load_explicit(&outage->holders, memory_order_relaxed) > 0;
}

/* ---- The breaker ---------------------------------------------------------------------------------------------- */

/* The lock is a detail of the struct: who asks about an outage may hold it const. */
static struct outage *locked(const struct outage *outage)
{
    struct outage *mine = (struct outage *)(uintptr_t)outage;
    (void)pthread_mutex_lock(&mine->lock);
    return mine;
}

static void unlock(struct outage *outage)
{
    (void)pthread_mutex_unlock(&outage->lock);
}

/* splitmix64: from half of `whole` to all of it. */
static weir_ns draw(struct outage *outage, weir_ns whole)
{
    uint64_t x = outage->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return whole - x % (whole / 2 + 1);
}

static void cool_down(struct outage *outage, weir_ns now, weir_ns cool)
{
    outage->cool = cool < OUTAGE_COOL_MAX_NS ? cool : OUTAGE_COOL_MAX_NS;
    outage->cool_at = now;
    outage->probe_at = now + draw(outage, outage->cool);
}

static void begin(struct outage *outage, weir_ns now)
{
    atomic_store_explicit(&outage->is_calm, false, memory_order_release);
    outage->failures++;
    if (outage->now.began_at != WEIR_NO_TIME)
        return;
    outage->now.began_at = now;
    outage->why[0] = '\0';
    /* relaxed: the number only has to differ from all others */
    outage->now.number = atomic_fetch_add_explicit(&outage->all->number, 1, memory_order_relaxed) + 1;
    cool_down(outage, now, OUTAGE_COOL_NS);
}

static bool is_on(const struct outage *outage)
{
    return outage->now.began_at != WEIR_NO_TIME;
}

/* A probe that nobody told of. */
static void expire_probe(struct outage *outage, weir_ns now)
{
    if (!outage->is_probing || now < outage->probe_until)
        return;
    outage->is_probing = false;
    if (is_on(outage))
        cool_down(outage, outage->probe_until, outage->cool * 2);
}

enum outage_verdict outage_ask(struct outage *outage, weir_ns now, struct weir_outage *out)
{
    if (atomic_load_explicit(&outage->is_calm, memory_order_acquire))
        return OUTAGE_ASK;
    outage = locked(outage);
    expire_probe(outage, now);
    bool is_open = outage->is_open;
    *out = outage->now;
    unlock(outage);
    return is_open ? OUTAGE_AVOID : OUTAGE_ASK;
}

enum outage_verdict outage_probe(struct outage *outage, weir_ns now, weir_ns deadline)
{
    enum outage_verdict verdict = OUTAGE_AVOID;
    outage = locked(outage);
    expire_probe(outage, now);
    if (!is_on(outage)) {
        verdict = OUTAGE_ASK;
    } else if (!outage->is_probing && now >= outage->probe_at) {
        verdict = OUTAGE_PROBE;
        outage->is_probing = true;
        outage->probe_until = now + deadline;
        outage->probes++;
    }
    unlock(outage);
    return verdict;
}

weir_ns outage_probe_at(const struct outage *outage)
{
    struct outage *mine = locked(outage);
    weir_ns at = !is_on(mine) ? WEIR_NO_TIME : mine->is_probing ? mine->probe_until : mine->probe_at;
    unlock(mine);
    return at;
}

static void close_breaker(struct outage *outage, weir_ns now)
{
    if (outage->is_told) {
        outage->is_end_due = true;
        outage->told_began_at = outage->now.began_at;
        outage->told_at = now;
    }
    outage->is_told = outage->is_open = false;
    outage->in_a_row = 0;
    outage->now.began_at = WEIR_NO_TIME;
    if (!outage->is_end_due && !outage->is_probing)
        atomic_store_explicit(&outage->is_calm, true, memory_order_release);
}

void outage_heard(struct outage *outage, weir_ns now)
{
    if (atomic_load_explicit(&outage->is_calm, memory_order_acquire))
        return;
    outage = locked(outage);
    close_breaker(outage, now);
    unlock(outage);
}

struct weir_outage outage_failed(struct outage *outage, weir_ns now)
{
    outage = locked(outage);
    begin(outage, now);
    outage->in_a_row += outage->in_a_row < OUTAGE_FAILURES;
    if (!outage->is_open && outage->in_a_row >= OUTAGE_FAILURES) {
        outage->is_open = true;
        outage->opened++;
        cool_down(outage, now, OUTAGE_COOL_NS);
    }
    struct weir_outage which = outage->now;
    unlock(outage);
    return which;
}

struct weir_outage outage_refused(struct outage *outage, weir_ns now)
{
    outage = locked(outage);
    begin(outage, now);
    struct weir_outage which = outage->now;
    unlock(outage);
    return which;
}

void outage_alive(struct outage *outage, weir_ns now)
{
    if (atomic_load_explicit(&outage->is_calm, memory_order_acquire))
        return;
    outage = locked(outage);
    /* Not at once where it has just failed: a store that is slower than the deadline says something all the time. */
    weir_ns soon = outage->cool_at + OUTAGE_COOL_NS;
    soon = soon > now ? soon : now;
    if (is_on(outage) && soon < outage->probe_at)
        outage->probe_at = soon;
    unlock(outage);
}

void outage_left(struct outage *outage)
{
    outage = locked(outage);
    if (is_held(outage)) /* under the lock: never below 0 */
        (void)atomic_fetch_sub_explicit(&outage->holders, 1, memory_order_relaxed);
    if (!is_held(outage)) {
        outage->is_told = false;
        close_breaker(outage, 0);
    }
    unlock(outage);
}

void outage_probed(struct outage *outage, weir_ns now, bool is_heard)
{
    outage = locked(outage);
    outage->is_probing = false;
    if (is_heard) {
        close_breaker(outage, now);
    } else {
        bool was_on = is_on(outage);
        begin(outage, now);
        if (was_on)
            cool_down(outage, now, outage->cool * 2);
    }
    unlock(outage);
}

void outage_say(struct outage *outage, struct slice why)
{
    size_t len = why.len < OUTAGE_WHY_MAX - 1 ? why.len : OUTAGE_WHY_MAX - 1;
    while (len < why.len && len > OUTAGE_WHY_MAX / 2 && why.at[len] != ' ')
        len--; /* not in the middle of a word, where it has any */
    outage = locked(outage);
    for (size_t i = 0; i < len; i++)
        outage->why[i] = why.at[i] >= ' ' && why.at[i] <= '~' && why.at[i] != '"' ? why.at[i] : '\'';
    outage->why[len] = '\0';
    unlock(outage);
}

void outage_why(const struct outage *outage, char out[OUTAGE_WHY_MAX])
{
    struct outage *mine = locked(outage);
    (void)snprintf(out, OUTAGE_WHY_MAX, "%s", is_on(mine) ? mine->why : "");
    unlock(mine);
}

struct weir_outage outage_now(const struct outage *outage)
{
    struct outage *mine = locked(outage);
    struct weir_outage now = mine->now;
    unlock(mine);
    return now;
}

/* ---- What people are told ----------------------------------------------------------------------------------------- */

static enum outage_news find_news(struct outage *outage, weir_ns now, struct outage_told *out)
{
    *out = (struct outage_told){ outage->address, 0 };
    if (outage->is_end_due) {
        outage->is_end_due = false;
        out->away = outage->told_at - outage->told_began_at;
        if (outage->now.began_at == WEIR_NO_TIME && !outage->is_probing)
            atomic_store_explicit(&outage->is_calm, true, memory_order_release);
        return OUTAGE_ENDED;
    }
    bool is_quiet = outage->was_ever_told && now < outage->told_at + OUTAGE_QUIET_NS;
    if (!is_on(outage) || outage->is_told || is_quiet)
        return OUTAGE_NO_NEWS;
    outage->is_told = outage->was_ever_told = true;
    outage->told_at = now;
    return OUTAGE_BEGAN;
}

enum outage_news outage_news(struct outage *outage, weir_ns now, struct outage_told *out)
{
    if (atomic_load_explicit(&outage->is_calm, memory_order_acquire))
        return OUTAGE_NO_NEWS;
    outage = locked(outage);
    enum outage_news news = find_news(outage, now, out);
    unlock(outage);
    return news;
}

size_t outages_count(const struct outages *outages)
{
    size_t count = atomic_load_explicit(&outages->count, memory_order_acquire), held = 0;
    for (size_t i = 0; i < count; i++)
        held += is_held(outages->nodes[i]);
    return held;
}

/* Those that are held come first, the others after them: whoever counted a moment ago gets one for each index. */
static struct outage *nth(const struct outages *outages, size_t index)
{
    size_t count = atomic_load_explicit(&outages->count, memory_order_acquire);
    for (int held = 1; held >= 0; held--)
        for (size_t i = 0; i < count; i++)
            if (is_held(outages->nodes[i]) == held && index-- == 0)
                return outages->nodes[i];
    return outages->nodes[0]; /* only where they changed under our eyes */
}

void outages_view(const struct outages *outages, size_t index, struct outage_view *out)
{
    struct outage *outage = locked(nth(outages, index));
    *out = (struct outage_view){ outage->address,
                                 !outage->is_open     ? OUTAGE_CLOSED
                                 : outage->is_probing ? OUTAGE_HALF_OPEN
                                                      : OUTAGE_OPEN,
                                 outage->now,
                                 outage->failures,
                                 outage->opened,
                                 outage->probes,
                                 "" };
    (void)snprintf(out->why, sizeof out->why, "%s", is_on(outage) ? outage->why : "");
    unlock(outage);
}
