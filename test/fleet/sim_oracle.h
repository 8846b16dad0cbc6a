// SPDX-License-Identifier: Apache-2.0
/*
 * sim_oracle.h - how much a fleet may admit of one key, by a clock that nobody steps: P34, exactly.
 *
 * Idea: the sums of all intervals at once. What is admitted fills a bucket that drains at the limit's rate and is empty at the start, in
 * tokens / period, whole numbers; its level is the most that any interval that ends now holds above rate * length. So
 * level <= burst is P34 over every interval. What a fault may add (an allowance) counts in intervals that meet the time in which it may
 * be spent: those of a busy period that does. Beside it runs a second bucket, emptied whenever the last allowance is over, to which
 * none applies: a fault that was long ago excuses nothing.
 *
 * Windows: a count for each, and allowances as well.
 */
#ifndef WEIR_TEST_SIM_ORACLE_H
#define WEIR_TEST_SIM_ORACLE_H

#include "weir_contract.h"

#define ORACLE_ALLOWANCES 64

struct oracle {
    bool is_window;
    uint64_t burst, count,
        period; /* of a bucket: count tokens come back in period ticks; of a window: its length in ticks */
    weir_ns tick;
    struct weir_lease lease;
    /* A bucket's, in tokens / period. */
    __extension__ __int128 level, strict_level;
    uint64_t at;         /* ticks, of the levels */
    uint64_t busy_since; /* ticks: the level was 0 before */
    /* A window's. */
    uint64_t window, counted;
    struct allowance {
        weir_ns from, to;
        uint64_t tokens;
    } allowances[ORACLE_ALLOWANCES];
    size_t allowance_count;
    weir_ns allowed_till; /* the second bucket counts from here on */
    uint64_t admitted;    /* in all */
};

void oracle_init(struct oracle *oracle, const struct weir_shared_ask *ask, bool is_window);

/* So much was admitted at `now`. Gives false where that is more than the limit and the allowances say. For windows all instants are by
   the store's clock: they are its windows. */
bool oracle_admit(struct oracle *oracle, uint64_t cost, weir_ns now);
/* The clock of its windows has come so far; before and behind a step. */
void oracle_pass(struct oracle *oracle, weir_ns now);
void oracle_allow(struct oracle *oracle, uint64_t tokens, weir_ns from, weir_ns to);

/* What an exact limit would have left, whole tokens. */
uint64_t oracle_left(const struct oracle *oracle, weir_ns now);
/* When an exact limit that has less would have `tokens`; WEIR_NO_TIME: never. */
weir_ns oracle_when(const struct oracle *oracle, uint64_t tokens, weir_ns now);
/* Tokens that come back in a length, rounded up; of a window none. */
uint64_t oracle_refill(const struct oracle *oracle, weir_ns length);

#endif
