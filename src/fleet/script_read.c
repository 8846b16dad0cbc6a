// SPDX-License-Identifier: Apache-2.0
/*
 * script_read.c - what the scripts replied. A reply that is not exactly theirs is none: a store may be anything.
 */
#include "fleet/script_inside.h"

#define TICKS_MAX (INT64_C(1) << 53)

/* Of a fence: the store's clock in us, told in ns as those of this process are, so that it rises too where a limit changes its
   scope. */
#define FENCE_UNIT 1000
_Static_assert(TICKS_MAX <= INT64_MAX / FENCE_UNIT, "a fence stays below 2^63");
#define FIELDS_DECIDE 5
#define FIELDS_SETTLE 7
#define FIELDS_PERMIT 2

enum { ANSWER_OUTCOME = 3, ANSWER_DAMAGED = 8, ANSWER_CHARGED = 16 };

bool script_read_integers(struct slice reply, int64_t *out, size_t count, struct slice *why)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    *why = SLICE("a reply that is none of the script's");
    if (!resp_next(&reader, &value))
        return false;
    if (value.type == RESP_ERROR)
        *why = value.text;
    if (value.type != RESP_ARRAY || value.count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!resp_next(&reader, &value) || value.type != RESP_INTEGER || value.integer < -1
            || value.integer > TICKS_MAX)
            return false;
        out[i] = value.integer;
    }
    return !resp_next(&reader, &value);
}

weir_ns script_length(int64_t ticks, weir_ns tick)
{
    if (ticks < 0 || (uint64_t)ticks > WEIR_HORIZON / tick)
        return WEIR_NO_TIME;
    return (weir_ns)ticks * tick;
}

/* False: no such answer is possible. */
static bool read_answer(const int64_t *fields, const struct script_item *item, struct script_answer *out)
{
    static const enum weir_outcome outcomes[] = { WEIR_ALLOW, WEIR_DENY, WEIR_NEVER, WEIR_DUPLICATE };
    int64_t flags = fields[0];
    if (flags < 0 || (flags & ~(ANSWER_OUTCOME | ANSWER_DAMAGED | ANSWER_CHARGED)) != 0 || fields[1] < 0
        || fields[4] < 0)
        return false;
    bool is_charged = (flags & ANSWER_CHARGED) != 0;
    *out = (struct script_answer){ .outcome = outcomes[flags & ANSWER_OUTCOME],
                                   .remaining = (uint64_t)fields[1],
                                   .retry_after = script_length(fields[2], item->size.tick),
                                   .reset_after = script_length(fields[3], item->size.tick),
                                   .was_damaged = (flags & ANSWER_DAMAGED) != 0,
                                   .is_charged = is_charged,
                                   .charged_at = (uint64_t)fields[4] };
    if (is_charged && item->limit->algorithm == WEIR_CONCURRENCY)
        out->fence = out->charged_at * FENCE_UNIT;
    return !is_charged || out->outcome == WEIR_ALLOW;
}

bool script_read_decide(struct slice reply, const struct script_call *call, struct script_answer *answers,
                        struct slice *why)
{
    int64_t fields[WEIR_ASKS_MAX * FIELDS_DECIDE];
    if (call->count > WEIR_ASKS_MAX || !script_read_integers(reply, fields, call->count * FIELDS_DECIDE, why))
        return false;
    for (size_t i = 0; i < call->count; i++)
        if (!read_answer(&fields[i * FIELDS_DECIDE], &call->items[i], &answers[i]))
            return false;
    return true;
}

bool script_read_settle(struct slice reply, struct script_settlement *out, struct slice *why)
{
    int64_t fields[FIELDS_SETTLE];
    if (!script_read_integers(reply, fields, FIELDS_SETTLE, why))
        return false;
    for (size_t i = 0; i < 5; i++)
        if (fields[i] < 0 || (i < 2 && fields[i] > 1))
            return false;
    if (fields[6] >= WEIR_ASKS_MAX)
        return false;
    *out = (struct script_settlement){ .is_known = fields[0] == 1,
                                       .is_repeated = fields[1] == 1,
                                       .charged = (uint64_t)fields[2],
                                       .returned = (uint64_t)fields[3],
                                       .dropped = (uint64_t)fields[4],
                                       .remaining = fields[5] < 0 ? WEIR_UNLIMITED : (uint64_t)fields[5],
                                       .item = fields[6] < 0 ? SCRIPT_NO_ITEM : (size_t)fields[6] };
    return true;
}

bool script_read_permit(struct slice reply, struct script_permit *out, struct slice *why)
{
    int64_t fields[FIELDS_PERMIT];
    if (!script_read_integers(reply, fields, FIELDS_PERMIT, why) || fields[0] < 0 || fields[0] > 1)
        return false;
    *out = (struct script_permit){ fields[0] == 1, script_length(fields[1], WEIR_MICROSECOND) };
    return true;
}

bool script_is_unknown(struct slice reply)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    return resp_next(&reader, &value) && value.type == RESP_ERROR
           && slice_equals(resp_error_code(value.text), SLICE("NOSCRIPT"));
}
