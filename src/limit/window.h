// SPDX-License-Identifier: Apache-2.0
/*
 * window.h - fixed windows and the sliding-window counter, each in one word.
 *
 * Word: [0][index][count] or [0][index][previous][current]. The index has as many bits as the horizon needs, twice
 * over, so it cannot wrap; the counts share what is left (P20).
 */
#ifndef WEIR_LIMIT_WINDOW_H
#define WEIR_LIMIT_WINDOW_H

#include "limit/shape.h"

/* Choose the packing. 0, or WEIR_ERR_COUNT when shape->capacity does not fit. shape->window.period and phase are set. */
int window_pack(struct shape *shape);

struct step fixed_decide(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost);
struct report fixed_report(const struct shape *shape, const struct step *step, uint64_t cost);
uint64_t fixed_undo(const struct shape *shape, uint64_t word, weir_ns charged_at, uint64_t cost);

struct step sliding_decide(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost);
struct report sliding_report(const struct shape *shape, const struct step *step, uint64_t cost);
uint64_t sliding_undo(const struct shape *shape, uint64_t word, weir_ns charged_at, uint64_t cost);

/* What words of windows become beside deciding; as shape_charge(), shape_refund(), shape_convert(), shape_lost(). */
struct settled fixed_charge(const struct shape *shape, uint64_t word, weir_ns now, uint64_t amount);
struct settled fixed_refund(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now,
                            uint64_t amount);
uint64_t fixed_convert(const struct shape *old, const struct shape *next, uint64_t word);
uint64_t fixed_absent(const struct shape *shape);
struct settled sliding_charge(const struct shape *shape, uint64_t word, weir_ns now, uint64_t amount);
struct settled sliding_refund(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now,
                              uint64_t amount);
uint64_t sliding_convert(const struct shape *old, const struct shape *next, uint64_t word);
uint64_t sliding_absent(const struct shape *shape);

/* Whether a word of either kind had its last influence at least SHAPE_GRACE_NS ago. */
bool window_is_dead(const struct shape *shape, uint64_t word, weir_ns now);

/* Windows that begin at a key's first request: [0][start][count]. */
int first_pack(struct shape *shape);
void first_widen(struct shape *shape, const struct shape *old); /* shape_widen() */
struct step first_decide(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost);
struct report first_report(const struct shape *shape, const struct step *step, uint64_t cost);
uint64_t first_undo(const struct shape *shape, uint64_t word, weir_ns charged_at, uint64_t cost);
bool first_is_dead(const struct shape *shape, uint64_t word, weir_ns now);
struct settled first_charge(const struct shape *shape, uint64_t word, weir_ns now, uint64_t amount);
struct settled first_refund(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now,
                            uint64_t amount);
uint64_t first_convert(const struct shape *old, const struct shape *next, uint64_t word);
uint64_t first_absent(const struct shape *shape);

/* Of windows that open empty: how many are full before a request of `cost`, behind `ahead` units, has room in one. */
static inline uint64_t windows_ahead(const struct shape *shape, uint64_t ahead, uint64_t cost)
{
    uint64_t capacity = shape->capacity; /* at least the cost */
    return ahead / capacity + (cost > capacity - ahead % capacity);
}

/* The word that means the same from `now` on, and says that it is so late. As shape_foresee(), cost 1 .. capacity. */
uint64_t fixed_dated(const struct shape *shape, uint64_t word, weir_ns now);
uint64_t sliding_dated(const struct shape *shape, uint64_t word, weir_ns now);
uint64_t first_dated(const struct shape *shape, uint64_t word, weir_ns now);
weir_ns fixed_foresee(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead, uint64_t cost);
weir_ns sliding_foresee(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead, uint64_t cost);
weir_ns first_foresee(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead, uint64_t cost);

#endif
