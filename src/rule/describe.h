// SPDX-License-Identifier: Apache-2.0
/* describe.h - descriptors of Envoy's rate limit service as attributes. */
#ifndef WEIR_RULE_DESCRIBE_H
#define WEIR_RULE_DESCRIBE_H

#include "rule/contract.h"

/* Mark the attributes that limits read, of which descriptors: attribute_slot. */
void describe_prepare(struct rules *rules);

#endif
