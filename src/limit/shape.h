// SPDX-License-Identifier: Apache-2.0
/*
 * shape.h - one size of one limit: everything that turns a state word into a decision.
 *
 * Idea: a shape is immutable and a state is one 64-bit word (bit 63 always 0), so a decision is a pure function
 * of (shape, word, stamp, cost). Word 0 is every algorithm's "never used": an absent key and a dead one are the
 * same state. A cell names its shape by number, so it can always be decoded.
 *
 * Stamps here are ns since the limiter's origin, 0 .. WEIR_HORIZON. Keeps G1 (P1, P6, P15-P17), G3 (P7, P18), P20.
 *
 * Elsewhere: where words live and threads (store/), names and keys (admit.c), the sliding log's stamps, which do
 * not fit a word (store/log.c; log.h here holds their arithmetic).
 */
#ifndef WEIR_LIMIT_SHAPE_H
#define WEIR_LIMIT_SHAPE_H

#include <stdatomic.h>

#include "weir.h"

struct calendar;

/* Windows with an index: fixed (epoch or calendar) and sliding. Word: [0][index][counts]. */
struct window {
    weir_ns period; /* ns; 0 for calendars */
    weir_ns phase;  /* Unix time of the origin modulo the period: windows start at phase + stamp = k * period */
    unsigned count_bits;       /* of each count */
    struct calendar *calendar; /* NULL: windows of one period */
};

/* A window that begins at a key's first request. Word: [0][start][count], start in units of 2^unit_bits ns. */
struct first_window {
    weir_ns period;
    unsigned count_bits, unit_bits;
};

struct shape {
    enum weir_algorithm algorithm;
    enum weir_align align;
    enum weir_when_full when_full;
    uint16_t number;       /* 1 .. WEIR_LIMITS_MAX, its name in the tag word of a cell */
    uint32_t lineage;      /* of the limit, the same through every change that keeps its counters */
    uint32_t generation;   /* of the set it came into force with */
    weir_ns since;         /* when that was: decisions under it are made no earlier */
    uint64_t debt;         /* buckets: what a charge may overdraw */
    bool charges_refusals; /* a denied cost is charged too, up to one capacity more */
    bool starts_empty;     /* a key that is absent had nothing left at `lost_at` */
    /* Relaxed: weir_lost_at_set() moves them on, and whoever must see that has another order with it. */
    _Atomic weir_ns lost_at;
    _Atomic uint64_t
        absent; /* the word of a key that nobody remembers: shape_lost(), converted where the limit changed since */
    uint64_t capacity;   /* burst, the count of one window, or the permits of one key */
    weir_ns wait_up_to;  /* how long callers may wait; 0: not at all */
    uint32_t wait_queue; /* and how many of them */
    union {
        weir_rate rate;            /* token and leaky bucket */
        struct window window;      /* fixed window by epoch or calendar, sliding window */
        struct first_window first; /* fixed window by first request */
        weir_ns period;            /* sliding log */
        weir_ns hold;              /* concurrency: of a permit without a renewal */
    };
};

static inline weir_ns shape_lost_at(const struct shape *shape)
{
    return atomic_load_explicit(&((struct shape *)(uintptr_t)shape)->lost_at, memory_order_relaxed);
}

static inline uint64_t shape_absent(const struct shape *shape)
{
    return atomic_load_explicit(&((struct shape *)(uintptr_t)shape)->absent, memory_order_relaxed);
}

/* The largest count a window of the shape keeps: refusals that are charged may fill it twice. */
static inline uint64_t shape_count_max(const struct shape *shape)
{
    if (!shape->charges_refusals)
        return shape->capacity;
    return shape->capacity > UINT64_MAX / 2 ? UINT64_MAX : 2 * shape->capacity;
}

/* count + cost, not above it. */
static inline uint64_t shape_count_add(const struct shape *shape, uint64_t count, uint64_t cost)
{
    uint64_t most = shape_count_max(shape);
    return count >= most || cost > most - count ? (count > most ? count : most) : count + cost;
}

/* A decision as the arithmetic sees it. */
struct step {
    enum weir_outcome outcome; /* ALLOW, DENY, NEVER; REFUSED: the stamp is beyond the horizon */
    uint64_t word;             /* after the decision; equal to the word given where nothing was charged */
    weir_ns at;                /* the stamp it holds for: the one given, or later where that was stale */
};

/* The numbers of a report; instants as stamps, WEIR_NO_TIME for never. */
struct report {
    uint64_t remaining;
    weir_ns retry_at, reset_at;
};

/*
 * How long a dead word is kept. A thread may decide with a stamp this much older than another's before floor_ns
 * has to make it stricter.
 */
#define SHAPE_GRACE_NS WEIR_SECOND

/*
 * Make the shape of a limit. `wall_at_origin` is Unix time in ns at stamp 0. Leaves number, lineage, generation,
 * since and lost_at to the caller; a calendar is allocated by `allocator` and belongs to the shape until shape_deinit().
 * Returns 0 or the code of weir_limit_add() that says what does not fit.
 */
int shape_init(struct shape *shape, const struct weir_limit *limit, int64_t wall_at_origin,
               const struct weir_allocator *allocator);
void shape_deinit(struct shape *shape, const struct weir_allocator *allocator);

/* The same bucket, or window since 1970, with another capacity, up to its own: for one decision, on the caller's stack. */
void shape_within(const struct shape *shape, uint64_t capacity, struct shape *out);

/* The wall moved: Unix time in ns at stamp 0. Calendars follow it, everything else keeps what it read at the start. */
void shape_wall_set(struct shape *shape, int64_t wall_at_origin);

/* Decide: pure but for calendars, whose current window is a published word. Not for sliding logs. */
struct step shape_decide(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost);

/* What shape_decide() would answer, with the word left as it is and the stamp of a look: a charge that rounds its
   stamp up (first.c) has not happened. */
struct step shape_look(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost);

/* Numbers of a step, for the cost that was asked. Cost 0 asks for one. Not for sliding logs. */
struct report shape_report(const struct shape *shape, const struct step *step, uint64_t cost);

/* Whether the word says nothing any more, with SHAPE_GRACE_NS to spare, so that its cell may be forgotten. Not for logs. */
bool shape_is_dead(const struct shape *shape, uint64_t word, weir_ns now);

/* The word of a key that nobody remembers, when nothing changed since: 0, or for a shape that starts empty what a spent key
   had at lost_at. Logs: 0. */
uint64_t shape_lost(const struct shape *shape);

/*
 * The word that means the same from `now` on, and stops a stamp before `now` from finding more than there was: for a cell that
 * is made before anything is charged to it. Not for logs.
 */
uint64_t shape_dated(const struct shape *shape, uint64_t word, weir_ns now);

/*
 * When `cost`, 1 to the capacity, would pass behind `ahead` others that pass one by one as early as they can. `now` or
 * later; WEIR_NO_TIME: never, or beyond the horizon. Buckets: exact for costs of any size, but for less than a nanosecond for
 * each cost of a whole burst; windows: exact for costs of one, else never later. Not for logs.
 */
weir_ns shape_foresee(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead, uint64_t cost);

/* What an unconditional change did, in tokens. */
struct settled {
    uint64_t word;
    uint64_t done;    /* charged, or given back */
    uint64_t dropped; /* of a charge: did not fit under the debt */
};

/*
 * Charge without asking: a settlement above its estimate. A bucket may go `debt` beyond its capacity, a window as far as its
 * count has room (its capacity; a refusal's charge: twice that). Never lowers the word, also with a stale stamp (P13).
 */
struct settled shape_charge(const struct shape *shape, uint64_t word, weir_ns now, uint64_t amount);

/*
 * Give back `amount` that was charged at `charged_at`, in full: the key has amount more, never more than its capacity (P11).
 * Windows: only in the window it was charged to (a sliding window's counts as the previous one for one window more).
 */
struct settled shape_refund(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now,
                            uint64_t amount);

/*
 * Before a shape can be seen: make its words hold what those of a predecessor do, so that a count that is lowered and raised
 * again forgives nothing. Only windows from the first request divide their word by the count.
 */
void shape_widen(struct shape *shape, const struct shape *old);

/* Whether the words of the one hold larger counts than those of the other, of the same lineage. */
bool shape_is_wider(const struct shape *shape, const struct shape *other);

/*
 * The word under `next` that means what `word` meant under `old` at next->since: what was used stays used, not cut at the
 * new capacity. Both of one lineage. Not for logs, whose stamps need no conversion.
 */
uint64_t shape_convert(const struct shape *old, const struct shape *next, uint64_t word);

/*
 * Give back `cost` that was charged at stamp `charged_at` (step.at) and seen to be unwanted at `now`: strictly,
 * so never more than was taken and never what refill has already replaced (P12). Windows: only in the window it
 * was charged to. Returns the new word. Not for logs.
 */
uint64_t shape_undo(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now, uint64_t cost);

/*
 * shape_undo() of a charge that was made under `old`, on a word that was converted to `next` since: as strictly. A window
 * whose period changed gives back only what was charged at the instant of the change or later.
 */
uint64_t shape_undo_converted(const struct shape *old, const struct shape *next, uint64_t word,
                              weir_ns charged_at, weir_ns now, uint64_t cost);

#endif
