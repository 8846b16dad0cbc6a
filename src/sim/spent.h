// SPDX-License-Identifier: Apache-2.0
/*
 * spent.h - what one replica let through out of its own share while the store was away: charged there when it is back.
 */
#ifndef WEIR_SIM_SPENT_H
#define WEIR_SIM_SPENT_H

#include "sim/stand_in.h"

struct spent; /* NULL: nothing */

/* Most different keys of all limits. */
#define SPENT_KEYS_MAX 65536

/* Add one question's cost. False: out of memory, or too many keys. `limits`: what its limit id indexes. */
bool spent_add(struct spent **spent, const struct weir_contract_limit *limits,
               const struct weir_shared_ask *ask);

/* Charge all of it at `now` and forget it; limits that the contract has no more are left out. */
void spent_charge(struct spent **spent, const struct stand_in *store, weir_ns now);

void spent_free(struct spent **spent);

#endif
