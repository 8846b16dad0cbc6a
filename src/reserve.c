// SPDX-License-Identifier: Apache-2.0
/*
 * reserve.c - costs that are known only afterwards: reserve an estimate, settle or cancel it, give back, forget.
 *
 * Idea: a reservation is a value. It carries what was charged where and when, an expiry, a nonce and a proof under the
 * limiter's secret; so it needs no table and cannot be forged. That it is settled once is remembered by one cell, keyed by
 * the nonce, until the reservation would have expired anyway.
 *
 *     byte 0       version, 1
 *     1            parts, 0 .. 64
 *     2 .. 3       0
 *     4 .. 11      nonce
 *     12 .. 19     expiry, a stamp
 *     then a part: lineage (4), flags (4), hash (8), cost (8), charged at (8)
 *     last 16      the proof (sealed.h)
 *
 * Little endian throughout. A part names its limit by lineage, so a reservation outlives a change of the limits; of one
 * that was removed nothing is left to settle.
 */
#include "reserve.h"

#include <string.h>

#include "sealed.h"

#define VERSION 1
#define HEAD_LEN 20
#define PART_LEN 32

_Static_assert(HEAD_LEN + WEIR_ASKS_MAX * PART_LEN + PROOF_LEN <= WEIR_RESERVATION_MAX,
               "WEIR_RESERVATION_MAX holds every reservation");

struct reservation {
    uint64_t nonce;
    weir_ns expires_at;
    size_t count;
    struct charged parts[WEIR_ASKS_MAX];
};

/* ---- As bytes -------------------------------------------------------------------------------------------------- */

static void encode(const struct weir *weir, const struct reservation *reservation, struct weir_reservation *out)
{
    unsigned char *at = out->bytes;
    sealed_put(&at, VERSION, 1);
    sealed_put(&at, reservation->count, 3);
    sealed_put(&at, reservation->nonce, 8);
    sealed_put(&at, reservation->expires_at, 8);
    for (size_t i = 0; i < reservation->count; i++) {
        const struct charged *part = &reservation->parts[i];
        sealed_put(&at, part->lineage, 4);
        sealed_put(&at, part->flags, 4);
        sealed_put(&at, part->hash, 8);
        sealed_put(&at, part->cost, 8);
        sealed_put(&at, part->at, 8);
    }
    out->len = (size_t)(at - out->bytes) + PROOF_LEN;
    sealed_prove(weir, SEALED_RESERVATION, out->bytes, out->len - PROOF_LEN, at);
}

/* Refuses what this limiter did not make, and what has expired. */
static int decode(const struct weir *weir, const void *bytes, size_t len, weir_ns now, struct reservation *out)
{
    const unsigned char *at = bytes;
    if (len < HEAD_LEN + PROOF_LEN || len > WEIR_RESERVATION_MAX)
        return WEIR_ERR_RESERVATION;
    if (!sealed_is_ours(weir, SEALED_RESERVATION, at, len))
        return WEIR_ERR_RESERVATION;
    uint64_t version = sealed_get(&at, 1);
    out->count = (size_t)sealed_get(&at, 3);
    out->nonce = sealed_get(&at, 8);
    out->expires_at = sealed_get(&at, 8);
    if (version != VERSION || out->count > WEIR_ASKS_MAX || len != HEAD_LEN + out->count * PART_LEN + PROOF_LEN
        || now >= out->expires_at)
        return WEIR_ERR_RESERVATION;
    for (size_t i = 0; i < out->count; i++) {
        struct charged *part = &out->parts[i];
        part->lineage = (uint32_t)sealed_get(&at, 4);
        part->flags = (uint32_t)sealed_get(&at, 4);
        part->hash = sealed_get(&at, 8);
        part->cost = sealed_get(&at, 8);
        part->at = sealed_get(&at, 8);
    }
    return 0;
}

/* ---- Reserving ------------------------------------------------------------------------------------------------- */

void reserve_write(struct weir *weir, const struct charged *parts, size_t count, weir_ns stamp, weir_ns hold,
                   struct weir_reservation *out)
{
    weir_ns most = WEIR_HORIZON - (stamp < WEIR_HORIZON ? stamp : WEIR_HORIZON);
    struct reservation reservation = { .count = count };
    reservation.nonce = atomic_fetch_add_explicit(&weir->next_nonce, 1, memory_order_relaxed);
    reservation.expires_at = hold > most ? WEIR_HORIZON : stamp + hold;
    if (count > 0)
        memcpy(reservation.parts, parts, count * sizeof *parts);
    encode(weir, &reservation, out);
}

static bool has_estimates(const struct weir_ask *asks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (asks[i].is_estimate)
            return true;
    return false;
}

/* What was charged, ask by ask: an ask that was not (cost 0, unlimited, a duplicate, overflowing keys, permits) is left
   out. */
static size_t note_charges(const struct weir_set *set, const struct weir_ask *asks, size_t count,
                           const struct weir_decision *each, struct charged *out)
{
    bool some = has_estimates(asks, count);
    size_t charged = 0;
    for (size_t i = 0; i < count; i++) {
        const struct limit *limit = set->limits[asks[i].limit];
        uint64_t hash = set_hash(limit, asks[i].key, asks[i].key_len);
        if (asks[i].cost == 0 || each[i].outcome != WEIR_ALLOW || each[i].policy != WEIR_POLICY_NONE
            || set_shape(set, limit, hash) == NULL || limit->shape->algorithm == WEIR_CONCURRENCY)
            continue;
        out[charged++] = (struct charged){ .lineage = limit->family->lineage,
                                           .flags = reserve_settles(&asks[i], some) ? CHARGED_SETTLES : 0,
                                           .hash = hash,
                                           .cost = asks[i].cost,
                                           .at = set_to_stamp(set->weir, each[i].decided_at) };
    }
    return charged;
}

int weir_set_reserve(const struct weir_set *set, const struct weir_ask *asks, size_t count, weir_ns now,
                     weir_ns hold, struct weir_decision *each, struct weir_decision *out,
                     struct weir_reservation *ticket)
{
    struct weir_decision own[WEIR_ASKS_MAX];
    struct weir_decision *answers = each != NULL ? each : own;
    int code = weir_set_admit(set, asks, count, now, answers, out);
    if (code != 0)
        return code;
    ticket->len = 0;
    if (out->outcome != WEIR_ALLOW && out->outcome != WEIR_DUPLICATE)
        return 0;
    struct charged parts[WEIR_ASKS_MAX];
    size_t charged = note_charges(set, asks, count, answers, parts);
    reserve_write(set->weir, parts, charged, set_to_stamp(set->weir, now), hold, ticket);
    return 0;
}

int weir_reserve(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now, weir_ns hold,
                 struct weir_decision *each, struct weir_decision *out, struct weir_reservation *ticket)
{
    int code;
    do
        code = weir_set_reserve(set_current(weir), asks, count, now, hold, each, out, ticket);
    while (code == WEIR_ERR_CHANGED);
    return code;
}

/* ---- Settling -------------------------------------------------------------------------------------------------- */

/* What becomes of one (limit, key): more is charged, or some comes back. */
struct adjustment {
    uint32_t lineage;
    uint64_t hash, more, back;
    weir_ns charged_at;
};

/* Make one adjustment under the set in force. A limit that was removed, or a key that is now unlimited, has nothing to adjust. */
static void adjust(struct weir *weir, const struct adjustment *wanted, weir_ns stamp,
                   struct weir_settlement *out)
{
    struct settled settled = { 0, 0, 0 };
    struct store_answer look;
    const struct shape *shape;
    weir_limit_id id;
    bool is_done;
    do {
        const struct weir_set *set = set_current(weir);
        id = set_find_lineage(set, wanted->lineage);
        shape = id == WEIR_NO_LIMIT ? NULL : set_shape(set, set->limits[id], wanted->hash);
        if (shape == NULL)
            return;
        is_done = wanted->more > 0
                      ? store_charge(weir->store, shape, wanted->hash, stamp, wanted->more, &settled)
                      : store_refund(weir->store, shape, wanted->hash, wanted->charged_at, stamp, wanted->back,
                                     &settled);
    } while (!is_done);

    if (wanted->more == 0 && settled.done > 0)
        room_touch(weir, wanted->hash, stamp);

    uint64_t charged = wanted->more > 0 ? settled.done : 0, returned = wanted->more > 0 ? 0 : settled.done;
    out->charged = charged > out->charged ? charged : out->charged;
    out->returned = returned > out->returned ? returned : out->returned;
    out->dropped = settled.dropped > out->dropped ? settled.dropped : out->dropped;
    if (store_peek(weir->store, shape, wanted->hash, stamp, 0, &look)
        && look.report.remaining < out->remaining) {
        out->remaining = look.report.remaining;
        out->limit = id;
    }
}

static struct weir_settlement nothing_settled(void)
{
    return (struct weir_settlement){ .remaining = WEIR_UNLIMITED, .limit = WEIR_NO_LIMIT };
}

static uint64_t memory_of(const struct weir *weir, uint64_t nonce)
{
    struct siphash state = weir->seed;
    uint64_t domain[2] = { UINT64_MAX - 3, 3 };
    siphash_absorb(&state, domain, sizeof domain);
    return siphash_end(state, &nonce, sizeof nonce);
}

/* The numbers as they stand, for a reservation that was settled before: of the limits that this call is about. */
static void look_again(struct weir *weir, const struct reservation *reservation, bool is_cancel, weir_ns stamp,
                       struct weir_settlement *out)
{
    out->is_repeated = true;
    for (size_t i = 0; i < reservation->count; i++) {
        if (!is_cancel && (reservation->parts[i].flags & CHARGED_SETTLES) == 0)
            continue;
        struct adjustment none = { .lineage = reservation->parts[i].lineage,
                                   .hash = reservation->parts[i].hash };
        adjust(weir, &none, stamp, out);
    }
}

static int finish(struct weir *weir, const void *ticket, size_t len, bool is_cancel, uint64_t cost, weir_ns now,
                  struct weir_settlement *out)
{
    struct reservation reservation;
    weir_ns stamp = set_to_stamp(weir, now);
    if (cost > INT64_MAX)
        return WEIR_ERR_COST;
    int code = decode(weir, ticket, len, stamp, &reservation);
    if (code != 0)
        return code;

    uint32_t nonce;
    uint64_t memory = memory_of(weir, reservation.nonce);
    struct weir_settlement settlement = nothing_settled();
    switch (store_recall_begin(weir->store, memory, stamp, reservation.expires_at, &nonce)) {
    case STORE_FULL:
        return WEIR_ERR_FULL;
    case STORE_NEW:
        break;
    default: /* known, or somebody is settling it now: either way it is theirs */
        look_again(weir, &reservation, is_cancel, stamp, &settlement);
        *out = settlement;
        return 0;
    }
    for (size_t i = 0; i < reservation.count; i++) {
        const struct charged *part = &reservation.parts[i];
        uint64_t actual = is_cancel ? 0 : cost;
        if (!is_cancel && (part->flags & CHARGED_SETTLES) == 0)
            continue; /* what it has left is none of this settlement's numbers either */
        struct adjustment wanted = { .lineage = part->lineage,
                                     .hash = part->hash,
                                     .more = actual > part->cost ? actual - part->cost : 0,
                                     .back = actual < part->cost ? part->cost - actual : 0,
                                     .charged_at = part->at };
        adjust(weir, &wanted, stamp, &settlement);
    }
    store_recall_end(weir->store, memory, nonce, stamp, reservation.expires_at);
    *out = settlement;
    return 0;
}

int weir_settle(struct weir *weir, const void *ticket, size_t len, uint64_t cost, weir_ns now,
                struct weir_settlement *out)
{
    return finish(weir, ticket, len, false, cost, now, out);
}

int weir_cancel(struct weir *weir, const void *ticket, size_t len, weir_ns now, struct weir_settlement *out)
{
    return finish(weir, ticket, len, true, 0, now, out);
}

/* ---- Without a reservation ------------------------------------------------------------------------------------------ */

/* `takes`: charged, else given back. */
static int change_all(const struct weir_set *set, const struct weir_ask *asks, size_t count, bool takes,
                      weir_ns now, struct weir_settlement *out)
{
    struct weir_settlement settlement = nothing_settled();
    weir_ns stamp = set_to_stamp(set->weir, now);
    if (count == 0 || count > WEIR_ASKS_MAX)
        return WEIR_ERR_ASKS;
    for (size_t i = 0; i < count; i++) {
        if (set_limit(set, asks[i].limit) == NULL)
            return WEIR_ERR_LIMIT;
        if (asks[i].key_len > WEIR_KEY_MAX)
            return WEIR_ERR_KEY;
    }
    for (size_t i = 0; i < count; i++) {
        const struct limit *limit = set->limits[asks[i].limit];
        struct adjustment wanted = { .lineage = limit->family->lineage,
                                     .hash = set_hash(limit, asks[i].key, asks[i].key_len),
                                     .more = takes ? asks[i].cost : 0,
                                     .back = takes ? 0 : asks[i].cost,
                                     .charged_at = stamp };
        adjust(set->weir, &wanted, stamp, &settlement);
    }
    *out = settlement;
    return 0;
}

int weir_set_refund(const struct weir_set *set, const struct weir_ask *asks, size_t count, weir_ns now,
                    struct weir_settlement *out)
{
    return change_all(set, asks, count, false, now, out);
}

int weir_refund(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
                struct weir_settlement *out)
{
    return weir_set_refund(set_current(weir), asks, count, now, out);
}

int weir_set_charge(const struct weir_set *set, const struct weir_ask *asks, size_t count, weir_ns now,
                    struct weir_settlement *out)
{
    return change_all(set, asks, count, true, now, out);
}

int weir_charge(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
                struct weir_settlement *out)
{
    return weir_set_charge(set_current(weir), asks, count, now, out);
}

int weir_set_reset(const struct weir_set *set, weir_limit_id id, const void *key, size_t len)
{
    const struct limit *limit = set_limit(set, id);
    if (limit == NULL)
        return WEIR_ERR_LIMIT;
    if (len > WEIR_KEY_MAX)
        return WEIR_ERR_KEY;
    uint64_t hash = set_hash(limit, key, len);
    const struct shape *shape = set_shape(set, limit, hash);
    if (shape != NULL && !store_reset(set->weir->store, shape, hash))
        return WEIR_ERR_CHANGED;
    room_touch(set->weir, hash, 0);
    return 0;
}

int weir_reset(struct weir *weir, weir_limit_id limit, const void *key, size_t len)
{
    int code;
    do
        code = weir_set_reset(set_current(weir), limit, key, len);
    while (code == WEIR_ERR_CHANGED);
    return code;
}
