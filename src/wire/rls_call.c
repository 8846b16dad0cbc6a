// SPDX-License-Identifier: Apache-2.0
/* rls_call.c - what a call of the rate limit service must have, in whichever coding it came; see rls_call.h. */
#include "wire/rls_call.h"

#include <assert.h>

static_assert(WEIR_DESCRIPTORS_MAX == 64, "RLS_WHY_DESCRIPTORS says so, and a mask has a bit for each");
static_assert(WEIR_ENTRIES_MAX == 24, "RLS_WHY_ENTRIES says so");
static_assert(RLS_CALL_MAX == 64 << 10, "RLS_WHY_LARGE says so");

enum rls_fault rls_call_finish(struct rls_call *call, uint64_t own, uint32_t hits, const char **why)
{
    if (call->domain.len == 0)
        return rls_fault_of(RLS_BAD, RLS_WHY_DOMAIN, why);
    if (call->count == 0)
        return rls_fault_of(RLS_BAD, RLS_WHY_LIST, why);
    for (size_t i = 0; i < call->count; i++) {
        const struct weir_descriptor *descriptor = &call->descriptors[i];
        struct rls_asked *asked = &call->asked[i];
        for (size_t k = 0; k < descriptor->entry_count; k++)
            if (descriptor->entries[k].key_len == 0)
                return rls_fault_of(RLS_BAD, "rate limit descriptor entry has no key: name what its value is",
                                    why);
        if (asked->has_limit && asked->unit == RLS_UNKNOWN_UNIT)
            return rls_fault_of(RLS_BAD,
                                "rate limit override has no unit that is known: say SECOND, MINUTE, HOUR, DAY, "
                                "MONTH or YEAR",
                                why);
        if ((own >> i & 1) == 0)
            asked->hits = hits == 0 ? 1 : hits;
        if (asked->hits > INT64_MAX) /* beyond any limit as well, and a cost that can be asked */
            asked->hits = INT64_MAX;
        if (asked->unit_multiplier == 0)
            asked->unit_multiplier = 1;
    }
    return RLS_GOOD;
}
