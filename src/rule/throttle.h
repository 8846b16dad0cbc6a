// SPDX-License-Identifier: Apache-2.0
/* throttle.h - the hidden limit behind weir_contract_throttle(). */
#ifndef WEIR_RULE_THROTTLE_H
#define WEIR_RULE_THROTTLE_H

#include "rule/contract.h"

/* No contract gives it to a limit of its own. */
#define THROTTLE_NAME "cl.throttle"

/* Behind the contract's own limits, where it is wanted. 0, or a code of weir_change_limit(). */
int throttle_prepare(struct load *load, struct weir_change *change);

#endif
