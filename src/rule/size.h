// SPDX-License-Identifier: Apache-2.0
/*
 * size.h - the size of a shared key in whole numbers that a store's script computes with exactly, and a process's share of it.
 *
 * A number of a script is a double: exact below 2^53. So every product of a decision has to stay below 2^52 (algorithms 4.2),
 * counted in microseconds, or in milliseconds where those are too fine for the numbers. `count` tokens per `period` ns become
 * as many per tick without rounding, because both are divided by what they have in common.
 */
#ifndef WEIR_RULE_SIZE_H
#define WEIR_RULE_SIZE_H

#include "rule/contract.h"

/* Numbers of a script stay below it. */
#define SIZE_BOUND (UINT64_C(1) << 52)

enum size_fault {
    SIZE_FITS,
    SIZE_TOO_LARGE, /* the products do not stay below the bound, not even in milliseconds */
    SIZE_TOO_FINE,  /* a length of time is no whole number of microseconds */
};
enum size_fault size_in_store(const struct rule *rule, const struct weir_size *size,
                              struct weir_shared_size *out);

/* Of keys without an override. */
struct weir_size size_of(const struct rule *rule);

/* The most that `burst` and `debt` may be together, or the count of a window, for this rate; 0: no burst fits it. */
uint64_t size_most(const struct rule *rule, const struct weir_size *size);

/* share / share_of of it: buckets exactly but for the burst, which like all counts is rounded down. False: no such rate. */
bool size_share(const struct rule *rule, const struct weir_size *size, struct weir_size *out);

#endif
