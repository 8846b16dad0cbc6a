// SPDX-License-Identifier: Apache-2.0
/* detail.h - one sentence for what cannot be read off a refusal's numbers: why no wait helps, what failed, what to do. */
#ifndef WEIR_WIRE_DETAIL_H
#define WEIR_WIRE_DETAIL_H

#include "wire/answer.h"

/* Nothing where there is nothing to say. `retry_after`: what the answer says of it. At most 256 bytes. */
void answer_detail(struct text *out, const struct weir_answer *answer, const struct answer_beside *beside,
                   weir_ns retry_after);

#endif
