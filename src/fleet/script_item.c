// SPDX-License-Identifier: Apache-2.0
/*
 * script_item.c - a call as arguments: bytes that the script takes apart with one unpack each.
 *
 * The layouts are item.lua's. Numbers travel as the doubles that the script computes with, made of integers bit by bit.
 */
#include "fleet/calendar_now.h"
#include "fleet/script_inside.h"

/* Above whatever a limit holds, and still exact. */
#define NUMBER_MAX ((UINT64_C(1) << 53) - 1)
#define MANTISSA ((UINT64_C(1) << 52) - 1)
#define MICROSECOND_NS 1000u

enum {
    ITEM_CHARGES = 1,
    ITEM_WATCHED = 2,
    ITEM_RETRY = 4,
    ITEM_EMPTY = 8,
    ITEM_ESTIMATE = 16,
    ITEM_MS = 32,
    ITEM_LEASED = 64
};

static char *put_byte(char *to, unsigned byte)
{
    *to = (char)byte;
    return to + 1;
}

/* An IEEE 754 double, little endian: eleven bits of exponent above 52 of what follows the leading one. */
char *script_put_number(char *to, uint64_t number)
{
    uint64_t x = number < NUMBER_MAX ? number : NUMBER_MAX, bits = 0;
    if (x > 0) {
        unsigned top = 63 - (unsigned)__builtin_clzll(x);
        bits = (uint64_t)(1023 + top) << 52 | ((x << (52 - top)) & MANTISSA);
    }
    for (unsigned i = 0; i < 8; i++)
        to[i] = (char)(bits >> (8 * i));
    return to + 8;
}

static char kind_of(const struct weir_limit *limit)
{
    static const char kinds[WEIR_ALGORITHM_COUNT] = {
        [WEIR_TOKEN_BUCKET] = 'b', [WEIR_LEAKY_BUCKET] = 'b',   [WEIR_LEAKY_QUEUE] = 'b',
        [WEIR_FIXED_WINDOW] = 'f', [WEIR_SLIDING_WINDOW] = 's', [WEIR_SLIDING_LOG] = 'l',
        [WEIR_CONCURRENCY] = 'c'
    };
    return kinds[limit->algorithm];
}

static bool is_calendar(const struct weir_limit *limit)
{
    return limit->algorithm == WEIR_FIXED_WINDOW && limit->align == WEIR_ALIGN_CALENDAR;
}

/* Windows of another family begin afresh, as they do in memory: 32 bits of FNV-1a over a calendar's unit and zone. */
static uint64_t family_of(const struct weir_limit *limit)
{
    if (limit->align != WEIR_ALIGN_CALENDAR)
        return limit->align == WEIR_ALIGN_FIRST_REQUEST;
    uint32_t hash = 2166136261u ^ (uint32_t)limit->calendar;
    for (const char *at = limit->zone == NULL ? "UTC" : limit->zone; *at != '\0'; at++)
        hash = (hash * 16777619u) ^ (unsigned char)*at;
    return 2 + (uint64_t)hash;
}

static unsigned flags_of(const struct script_call *call, const struct script_item *item)
{
    const struct weir_limit *limit = item->limit;
    return (limit->refused == WEIR_REFUSAL_CHARGED ? ITEM_CHARGES : 0u) | (item->is_watched ? ITEM_WATCHED : 0u)
           | (item->retry.len > 0 ? ITEM_RETRY : 0u) | (limit->state_lost == WEIR_LOST_EMPTY ? ITEM_EMPTY : 0u)
           | (item->is_estimate && call->verb == SCRIPT_RESERVE ? ITEM_ESTIMATE : 0u)
           | (item->size.tick > WEIR_MICROSECOND ? ITEM_MS : 0u) | (item->lease.most > 0 ? ITEM_LEASED : 0u);
}

uint64_t script_microseconds(weir_ns length)
{
    return length / MICROSECOND_NS + (length % MICROSECOND_NS != 0);
}

/* An incarnation that is not known may have begun just now. */
static uint64_t lost_at(const struct script_call *call)
{
    return call->incarnation.id == 0 ? call->wall_us : call->incarnation.began_at_us;
}

/* What was in somebody's hands when the state was lost may be spent until then. */
static uint64_t pause_of(const struct weir_lease *lease)
{
    return script_microseconds(lease->duration + SCRIPT_LEASE_GRACE_NS(lease->duration));
}

static char *put_calendar(char *to, const struct script_call *call, const struct weir_limit *limit)
{
    uint64_t begins[4] = { 0, 0, 0, 0 }; /* where the zone is gone: the script finds itself outside them all */
    (void)calendar_now(limit->calendar, limit->zone, call->wall_us, begins);
    for (unsigned i = 0; i < 4; i++)
        to = script_put_number(to, begins[i]);
    return to;
}

size_t script_put_item(const struct script_call *call, const struct script_item *item,
                       const uint64_t *charged_at, char out[SCRIPT_ARGUMENT_MAX])
{
    const struct weir_limit *limit = item->limit;
    const struct weir_shared_size *size = &item->size;
    bool is_window = limit->algorithm == WEIR_FIXED_WINDOW;
    unsigned flags = flags_of(call, item);
    char *to = put_byte(out, (unsigned char)kind_of(limit));
    to = put_byte(to, flags);
    to = script_put_number(to, item->cost);
    to = script_put_number(to, size->capacity);
    to = script_put_number(to, size->debt);
    to = script_put_number(to, is_window ? family_of(limit) : size->count);
    to = script_put_number(to, size->period > 0 ? size->period : 1);
    if ((flags & ITEM_RETRY) != 0)
        to = script_put_number(to, script_microseconds(limit->retries_free_within));
    if ((flags & ITEM_EMPTY) != 0)
        to = script_put_number(to, lost_at(call));
    if ((flags & ITEM_EMPTY) != 0 && (flags & ITEM_LEASED) != 0)
        to = script_put_number(to, pause_of(&item->lease));
    if (charged_at != NULL)
        to = script_put_number(to, *charged_at);
    if (is_calendar(limit))
        to = put_calendar(to, call, limit);
    return (size_t)(to - out);
}

size_t script_put_head(const struct script_call *call, const struct script_head *head,
                       char out[SCRIPT_ARGUMENT_MAX])
{
    unsigned flags = head->flags | (call->has_time ? HEAD_HAS_TIME : 0u);
    char *to = put_byte(out, 'h');
    to = put_byte(to, flags);
    to = script_put_number(to, call->wall_us);
    to = script_put_number(to, script_microseconds(call->hold));
    to = script_put_number(to, (unsigned char)head->verb);
    to = script_put_number(to, head->cost);
    to = script_put_number(to, 0);
    if (call->id.len == SCRIPT_ID_LEN) {
        memcpy(to, call->id.at, SCRIPT_ID_LEN);
        to += SCRIPT_ID_LEN;
    }
    return (size_t)(to - out);
}
