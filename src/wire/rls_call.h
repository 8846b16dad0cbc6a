// SPDX-License-Identifier: Apache-2.0
/* rls_call.h - what both readings of a call have in common: its last look, and the words for what is wrong. */
#ifndef WEIR_WIRE_RLS_CALL_H
#define WEIR_WIRE_RLS_CALL_H

#include "wire/rls.h"

#define RLS_WHY_LARGE "rate limit call is larger than 64 KiB: send shorter values or fewer descriptors"
#define RLS_WHY_DESCRIPTORS "rate limit call has more than 64 descriptors: ask for fewer in one call"
#define RLS_WHY_ENTRIES "rate limit descriptor has more than 24 entries: describe it by fewer"

/* The reference server's two. */
#define RLS_WHY_DOMAIN "rate limit domain must not be empty"
#define RLS_WHY_LIST "rate limit descriptor list must not be empty"

/*
 * What a call must have, and how many hits each descriptor has: bit i of `own` says that asked[i].hits is its own; else the call's
 * count, as one where that is 0.
 */
enum rls_fault rls_call_finish(struct rls_call *call, uint64_t own, uint32_t hits, const char **why);

/* A unit by its number in the call; one that is not defined there is unknown. */
static inline enum rls_unit rls_call_unit(int64_t number)
{
    return number >= RLS_SECOND && number <= RLS_YEAR ? (enum rls_unit)number : RLS_UNKNOWN_UNIT;
}

static inline enum rls_fault rls_fault_of(enum rls_fault fault, const char *sentence, const char **why)
{
    *why = sentence;
    return fault;
}

#endif
