// SPDX-License-Identifier: Apache-2.0
/*
 * script_lease.c - messages about leases as commands, and what the store says of them and of who holds what.
 *
 * The layouts are lease.lua's. An answer that nobody could have asked for is none: more granted than was wanted, or for longer than
 * a portion lasts.
 *
 *     weir:1:{tenant=acme}:tenant-requests:b:path=%2F:l:holders      who holds portions of that key; no limit's, for a ':' comes
 *                                                                    behind the algorithm
 */
#include <assert.h>

#include "fleet/script_inside.h"

#define RUN_LEN 16
#define FIELDS_LEASE 10
#define WORDS_LEASE 11
#define NUMBER_LEN 8
/* Whole numbers of the scripts are below this. */
#define NUMBER_MAX (UINT64_C(1) << 53)

enum { LEASE_STALE = 1, LEASE_REPEATED = 2, LEASE_DAMAGED = 8, LEASE_LOST = 16 };

static const char hex[] = "0123456789abcdef";

size_t script_holders_name(struct slice name, char out[SCRIPT_HOLDERS_NAME_MAX])
{
    static const char behind[] = ":l:holders";
    size_t len = name.len < NAME_MAX_LEN ? name.len : NAME_MAX_LEN;
    memcpy(out, name.at, len);
    memcpy(out + len, behind, sizeof behind - 1);
    return len + sizeof behind - 1;
}

/* ---- Messages --------------------------------------------------------------------------------------------------- */

/* The run, and a label that is safe to print. */
static size_t put_lease_head(const struct script_call *call, const struct script_lease_call *leases,
                             char out[SCRIPT_ARGUMENT_MAX])
{
    const struct script_head head = { .verb = 'l' };
    size_t at = script_put_head(call, &head, out);
    for (int shift = 60; shift >= 0; shift -= 4)
        out[at++] = hex[leases->run >> shift & 15];
    for (size_t i = 0; i < leases->label.len && i < SCRIPT_LABEL_MAX; i++)
        out[at++] = leases->label.at[i];
    return at;
}

static size_t put_message(const struct script_call *call, const struct script_lease *lease,
                          char out[SCRIPT_ARGUMENT_MAX])
{
    const struct script_item item = {
        .name = lease->name, .limit = lease->limit, .size = lease->size, .lease = lease->lease
    };
    size_t at = script_put_item(call, &item, NULL, out);
    weir_ns duration = lease->lease.duration;
    const uint64_t words[WORDS_LEASE] = { lease->lease.most,
                                          lease->lease.chunk,
                                          script_microseconds(duration),
                                          script_microseconds(SCRIPT_LEASE_GRACE_NS(duration)),
                                          lease->seq,
                                          lease->used,
                                          lease->give,
                                          lease->want,
                                          lease->seen.version,
                                          lease->seen.used,
                                          lease->seen.at };
    assert(at + WORDS_LEASE * NUMBER_LEN <= SCRIPT_ARGUMENT_MAX);
    char *to = out + at;
    for (size_t i = 0; i < WORDS_LEASE; i++)
        to = script_put_number(to, words[i]);
    return (size_t)(to - out);
}

bool script_put_lease(struct text *out, enum script_form form, const struct script_lease_call *leases)
{
    char room[SCRIPT_HOLDERS_NAME_MAX];
    char argument[SCRIPT_ARGUMENT_MAX];
    const struct script_call call = { .verb = SCRIPT_TAKE,
                                      .incarnation = leases->incarnation,
                                      .wall_us = leases->wall_us,
                                      .has_time = leases->has_time };
    assert(leases->count > 0 && leases->count <= SCRIPT_LEASES_MAX);
    script_put_start(out, form, SCRIPT_LEASE, 2 * leases->count, 1 + leases->count);
    for (size_t i = 0; i < leases->count; i++)
        resp_put_bulk(out, leases->leases[i].name);
    for (size_t i = 0; i < leases->count; i++)
        resp_put_bulk(out, (struct slice){ room, script_holders_name(leases->leases[i].name, room) });
    resp_put_bulk(out, (struct slice){ argument, put_lease_head(&call, leases, argument) });
    for (size_t i = 0; i < leases->count; i++)
        resp_put_bulk(out, (struct slice){ argument, put_message(&call, &leases->leases[i], argument) });
    return !out->is_cut;
}

/* False: no such answer is possible. */
static bool read_lease_answer(const int64_t *fields, const struct script_lease *lease,
                              struct script_lease_answer *out)
{
    int64_t flags = fields[0];
    if (flags < 0 || (flags & ~(LEASE_STALE | LEASE_REPEATED | LEASE_DAMAGED | LEASE_LOST)) != 0)
        return false;
    for (size_t i = 1; i < FIELDS_LEASE; i++)
        if (fields[i] < 0 && i != 5 && i != 6)
            return false;
    *out = (struct script_lease_answer){
        .is_stale = (flags & LEASE_STALE) != 0,
        .is_repeated = (flags & LEASE_REPEATED) != 0,
        .was_damaged = (flags & LEASE_DAMAGED) != 0,
        .has_lost_writes = (flags & LEASE_LOST) != 0,
        .granted = (uint64_t)fields[1],
        .left = (uint64_t)fields[2],
        .ttl = script_length(fields[3], WEIR_MICROSECOND),
        .remaining = (uint64_t)fields[4],
        .retry_after = script_length(fields[5], lease->size.tick),
        .ends_after = script_length(fields[6], WEIR_MICROSECOND),
        .seen = { (uint64_t)fields[7], (uint64_t)fields[8], (uint64_t)fields[9] },
    };
    if (out->is_stale)
        return !out->is_repeated;
    return out->granted <= lease->want && out->ttl <= lease->lease.duration;
}

bool script_read_lease(struct slice reply, const struct script_lease_call *call,
                       struct script_lease_answer *answers, struct slice *why)
{
    int64_t fields[SCRIPT_LEASES_MAX * FIELDS_LEASE];
    if (call->count > SCRIPT_LEASES_MAX
        || !script_read_integers(reply, fields, call->count * FIELDS_LEASE, why))
        return false;
    for (size_t i = 0; i < call->count; i++)
        if (!read_lease_answer(&fields[i * FIELDS_LEASE], &call->leases[i], &answers[i]))
            return false;
    return true;
}

/* ---- Who holds what --------------------------------------------------------------------------------------------- */

bool script_put_holders(struct text *out, struct slice name)
{
    char room[SCRIPT_HOLDERS_NAME_MAX];
    resp_put_array(out, 4);
    resp_put_bulk(out, SLICE("EVAL"));
    resp_put_bulk(out, SLICE("return { redis.call('TIME'), redis.call('HGETALL', KEYS[1]) }"));
    resp_put_bulk_i64(out, 1);
    resp_put_bulk(out, (struct slice){ room, script_holders_name(name, room) });
    return !out->is_cut;
}

/* A double that is a whole number from 0 to 2^53, bit by bit. */
static bool take_number(const char **at, uint64_t *out)
{
    uint64_t bits = load_le64(*at), mantissa = bits & ((UINT64_C(1) << 52) - 1);
    unsigned exponent = (unsigned)(bits >> 52);
    *at += NUMBER_LEN;
    *out = 0;
    if (bits == 0)
        return true;
    if (exponent < 1023 || exponent > 1023 + 53)
        return false;
    unsigned top = exponent - 1023;
    mantissa |= UINT64_C(1) << 52;
    if (top < 52 && (mantissa & ((UINT64_C(1) << (52 - top)) - 1)) != 0)
        return false;
    *out = top <= 52 ? mantissa >> (52 - top) : mantissa << 1;
    return *out <= NUMBER_MAX;
}

static bool take_numbers(struct slice text, char tag, uint64_t *out, size_t count)
{
    if (text.len < 1 + count * NUMBER_LEN || text.at[0] != tag)
        return false;
    const char *at = text.at + 1;
    for (size_t i = 0; i < count; i++)
        if (!take_number(&at, &out[i]))
            return false;
    return true;
}

/* What the store's clock says, and how the records' one goes: `off` before it, and never behind `last`. */
struct lease_clock {
    uint64_t us, off, last;
};

enum { TOTAL_GRANTED, TOTAL_RETURNED, TOTAL_SPENT, TOTAL_LOST, TOTAL_OFF = 7, TOTAL_LAST, TOTAL_ROUND = 10 };
#define TOTALS 13
enum { HOLDER_SEQ, HOLDER_LEFT, HOLDER_GRANT, HOLDER_EXPIRY, HOLDER_WANTED, HOLDER_ROUND, HOLDER_TTL };
#define HOLDER_NUMBERS 7

static bool read_totals(struct slice text, struct script_holders *out, struct lease_clock *clock,
                        uint64_t *round)
{
    uint64_t all[TOTALS];
    if (text.len != 1 + TOTALS * NUMBER_LEN || !take_numbers(text, 't', all, TOTALS))
        return false;
    uint64_t gone = all[TOTAL_RETURNED] + all[TOTAL_SPENT] + all[TOTAL_LOST];
    out->granted = all[TOTAL_GRANTED];
    out->returned = all[TOTAL_RETURNED];
    out->spent = all[TOTAL_SPENT];
    out->lost = all[TOTAL_LOST];
    out->out = out->granted - gone;
    clock->off = all[TOTAL_OFF];
    clock->last = all[TOTAL_LAST];
    *round = all[TOTAL_ROUND];
    return gone <= out->granted;
}

static bool read_run(struct slice field, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < field.len; i++) {
        const char *digit = field.at[i] == '\0' ? NULL : strchr(hex, field.at[i]);
        if (digit == NULL)
            return false;
        *out = *out << 4 | (uint64_t)(digit - hex);
    }
    return field.len == RUN_LEN;
}

/* expires_after is the instant yet, in us; see end_holders(). What belongs to another round is held no more. */
static bool read_holder(struct slice field, struct slice text, uint64_t round, struct script_holder *out)
{
    uint64_t all[HOLDER_NUMBERS];
    const size_t front = 1 + HOLDER_NUMBERS * NUMBER_LEN;
    *out = (struct script_holder){ 0 };
    if (!read_run(field, &out->run) || text.len > front + SCRIPT_LABEL_MAX
        || !take_numbers(text, 'k', all, HOLDER_NUMBERS))
        return false;
    out->left = all[HOLDER_ROUND] == round ? all[HOLDER_LEFT] : 0;
    out->wanted = all[HOLDER_WANTED];
    out->expires_after = (int64_t)all[HOLDER_EXPIRY];
    for (size_t i = front; i < text.len; i++)
        out->label[i - front] = text.at[i] >= ' ' && text.at[i] <= '~' ? text.at[i] : '?';
    return true;
}

/* Take the two parts of TIME. */
static bool read_time(struct resp_reader *reader, uint64_t *us)
{
    struct resp_value value;
    uint64_t seconds, parts;
    if (!resp_next(reader, &value) || value.type != RESP_ARRAY || value.count != 2 || !resp_next(reader, &value)
        || !resp_is_text(&value) || !slice_to_u64(value.text, NUMBER_MAX / 1000000 - 1, &seconds)
        || !resp_next(reader, &value) || !resp_is_text(&value) || !slice_to_u64(value.text, 999999, &parts))
        return false;
    *us = seconds * 1000000 + parts;
    return true;
}

/* The pairs of the hash: first (no `holders`) the sums alone, and once they are known the records. */
static bool read_pairs(struct resp_reader reader, uint32_t pairs, struct script_holder *holders, size_t max,
                       struct script_holders *out, struct lease_clock *clock, uint64_t *round)
{
    struct resp_value field, text;
    bool has_totals = pairs == 0;
    for (uint32_t i = 0; i < pairs; i++) {
        if (!resp_next(&reader, &field) || !resp_is_text(&field) || !resp_next(&reader, &text)
            || !resp_is_text(&text))
            return false;
        if (slice_equals(field.text, SLICE("t"))) {
            if (!read_totals(text.text, out, clock, round))
                return false;
            has_totals = true;
        } else if (holders != NULL) {
            struct script_holder holder;
            if (!read_holder(field.text, text.text, *round, &holder))
                return false;
            if (out->count < max)
                holders[out->count] = holder;
            out->count++;
        }
    }
    return has_totals && !resp_next(&reader, &field);
}

static void end_holders(const struct lease_clock *clock, struct script_holder *holders, size_t count)
{
    /* Below 2^54 us each: their difference is below 2^54, and in ns it is kept within the horizon. */
    uint64_t now = clock->us + clock->off;
    if (now < clock->last)
        now = clock->last;
    for (size_t i = 0; i < count; i++) {
        int64_t after = holders[i].expires_after - (int64_t)now;
        const int64_t horizon = (int64_t)(WEIR_HORIZON / WEIR_MICROSECOND);
        after = after > horizon ? horizon : after < -horizon ? -horizon : after;
        holders[i].expires_after = after * (int64_t)WEIR_MICROSECOND;
    }
}

bool script_read_holders(struct slice reply, struct script_holder *holders, size_t max,
                         struct script_holders *out, struct slice *why)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    struct lease_clock clock = { 0 };
    uint64_t round = 0;
    struct script_holder none;
    *out = (struct script_holders){ 0 };
    *why = SLICE("a reply that does not say who holds what");
    if (!resp_next(&reader, &value))
        return false;
    if (value.type == RESP_ERROR)
        *why = value.text;
    if (value.type != RESP_ARRAY || value.count != 2 || !read_time(&reader, &clock.us)
        || !resp_next(&reader, &value) || (value.type != RESP_ARRAY && value.type != RESP_MAP)
        || value.count % 2 != 0)
        return false;
    if (!read_pairs(reader, value.count / 2, NULL, 0, out, &clock, &round)
        || !read_pairs(reader, value.count / 2, max > 0 ? holders : &none, max, out, &clock, &round))
        return false;
    end_holders(&clock, holders, out->count < max ? out->count : max);
    return true;
}
