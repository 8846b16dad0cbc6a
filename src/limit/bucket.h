// SPDX-License-Identifier: Apache-2.0
/*
 * bucket.h - token and leaky buckets as shapes: weir_bucket.h's arithmetic, and what is done to a level beside taking.
 */
#ifndef WEIR_LIMIT_BUCKET_H
#define WEIR_LIMIT_BUCKET_H

#include "limit/shape.h"

/* 0, WEIR_ERR_RATE or WEIR_ERR_BURST. shape->debt and charges_refusals are set: they ask for room above the burst. */
int bucket_init(struct shape *shape, const struct weir_limit *limit);

/* Each as the call of shape.h that it serves. */
struct step bucket_decide(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost);
struct report bucket_report(const struct shape *shape, const struct step *step, uint64_t cost);
bool bucket_is_dead(const struct shape *shape, uint64_t word, weir_ns now);
uint64_t bucket_undo(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now, uint64_t cost);
uint64_t bucket_undo_converted(const struct shape *old, const struct shape *next, uint64_t word,
                               weir_ns charged_at, weir_ns now, uint64_t cost);
struct settled bucket_charge(const struct shape *shape, uint64_t word, weir_ns now, uint64_t amount);
struct settled bucket_refund(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now,
                             uint64_t amount);
uint64_t bucket_convert(const struct shape *old, const struct shape *next, uint64_t word);
uint64_t bucket_absent(const struct shape *shape);
uint64_t bucket_dated(const struct shape *shape, uint64_t word, weir_ns now);
weir_ns bucket_foresee(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead, uint64_t cost);

#endif
