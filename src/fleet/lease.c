// SPDX-License-Identifier: Apache-2.0
/*
 * lease.c - one portion: spending it, when to speak of it and for how much, and what an answer changes.
 *
 * Why these numbers (t is half of the lease's `for`, the time in which a key should speak once):
 *
 * demand   (demand * t + asked) / (t + elapsed), a hyperbola that forgets within about t. After a burst it is what the burst would
 *          be if spread over t, so a key that becomes hot doubles what it holds with each message instead of guessing.
 * target   1.5 * demand * t. Half of it lasts 3/4 of t, so a key of 5 tokens a second with `for: 2s` wants 8, speaks when 4 are
 *          spent, and so a little more than once a second; a message per target/2 tokens.
 * urgent   what two round trips spend, or an eighth of the target, since a hot key spends the other half between two beats: then
 *          it speaks when 7/8 are spent.
 * report   after t at the latest, for what is spent and not told is not refilled; where the pool may be full (the first portion of
 *          a key), each token that is told late delays the refill, so after t/4 or a quarter of the portion.
 * idle     nothing spent for 2 t, or since the last message and the portion is about to end: all goes back.
 * empty    the pool gave nothing: not again before it has a token, at least t/4, at most 2 t (others give back, too). It gave
 *          a single one where 4 or more were wanted: not again for t/8, for near exhaustion requests ask strictly anyway. Not
 *          for any small part of a large want: while the pool has something, the hand would run dry in the pause.
 * lively   the last two requests were not further apart than t: else a portion costs more messages than strict decisions.
 */
#include "fleet/lease.h"

/* Numbers that a script computes with. */
#define NUMBER_MAX ((UINT64_C(1) << 52) - 1)
#define DEMAND_UNIT 1024
/* Floor of a round trip: a turn of the loop on either side. */
#define ROUND_TRIP_MIN WEIR_MILLISECOND

static weir_ns since(weir_ns then, weir_ns now)
{
    return now > then ? now - then : 0;
}

static weir_ns before(weir_ns instant, weir_ns length)
{
    return instant > length ? instant - length : 0;
}

static weir_ns behind(weir_ns instant, weir_ns length)
{
    return length < WEIR_NO_TIME - instant ? instant + length : WEIR_NO_TIME;
}

static weir_ns earlier(weir_ns x, weir_ns y)
{
    return x < y ? x : y;
}

static uint64_t least(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

/* t of above; never 0, for it divides. */
static weir_ns half_of(const struct holding *holding)
{
    return holding->lease.duration / 2 > 0 ? holding->lease.duration / 2 : 1;
}

/* To be told, beside what the message under way says. */
static uint64_t untold(const struct holding *holding)
{
    return holding->used + holding->gone;
}

void lease_init(struct holding *holding, const struct weir_lease *lease, weir_ns now)
{
    *holding = (struct holding){ .lease = *lease, .mark_at = now, .ends_at = WEIR_NO_TIME };
}

void lease_change(struct holding *holding, const struct weir_lease *lease)
{
    holding->lease = *lease;
}

/* The portion ends. What was pending may yet be decided, and its request counted when it took; told as used it is not credited. */
static uint64_t end_portion(struct holding *holding, weir_ns now)
{
    uint64_t ended = holding->have + holding->pending;
    if (untold(holding) == 0)
        holding->used_at = now;
    holding->gone += ended;
    holding->have = holding->pending = 0;
    holding->expires_at = 0;
    holding->life += 1;
    return ended;
}

uint64_t lease_expire(struct holding *holding, weir_ns now)
{
    if (holding->expires_at == 0 || now < holding->expires_at)
        return 0;
    return end_portion(holding, now);
}

/* ---- Spending -------------------------------------------------------------------------------------------------------------- */

/* So much left is little: two round trips' worth, or an eighth of the target; never more than half, or it would speak always. */
static void measure_low(struct holding *holding)
{
    weir_ns round_trip = holding->round_trip > ROUND_TRIP_MIN ? holding->round_trip : ROUND_TRIP_MIN;
    weir_u128_ low = (weir_u128_)holding->demand * 2 * round_trip / ((weir_u128_)DEMAND_UNIT * WEIR_SECOND);
    if (low < holding->target / 8)
        low = holding->target / 8;
    holding->low = low < holding->target / 2 ? (uint64_t)low : holding->target / 2;
}

static void measure_demand(struct holding *holding, weir_ns now)
{
    weir_ns memory = half_of(holding), elapsed = since(holding->mark_at, now);
    weir_u128_ known = (weir_u128_)holding->demand * memory;
    weir_u128_ asked = (weir_u128_)holding->asked * DEMAND_UNIT * WEIR_SECOND;
    weir_u128_ demand = (known + asked) / ((weir_u128_)memory + elapsed);
    holding->demand = demand < (UINT64_C(1) << 62) ? (uint64_t)demand : UINT64_C(1) << 62;
    holding->asked = 0;
    holding->mark_at += elapsed;
    measure_low(holding);
}

static void note_demand(struct holding *holding, uint64_t cost, weir_ns now)
{
    if (since(holding->mark_at, now) >= half_of(holding) / 8)
        measure_demand(holding, now);
    holding->asked = least(NUMBER_MAX, holding->asked + least(NUMBER_MAX, cost));
    holding->before_at = holding->spent_at;
    holding->spent_at = now;
}

uint64_t lease_take(struct holding *holding, uint64_t cost, bool is_partial, weir_ns now)
{
    (void)lease_expire(holding, now);
    if (cost == 0)
        return 0;
    note_demand(holding, cost, now);
    uint64_t taken = cost <= holding->have ? cost : is_partial ? holding->have : 0;
    if (taken > 0 && untold(holding) + holding->pending == 0)
        holding->used_at = now;
    holding->have -= taken;
    holding->pending += taken;
    return taken;
}

void lease_keep(struct holding *holding, uint64_t taken, uint32_t life)
{
    if (life != holding->life) /* it was told, or will be, with what ended */
        return;
    holding->pending -= taken;
    holding->used += taken;
}

void lease_undo(struct holding *holding, uint64_t taken, uint32_t life)
{
    holding->asked -= least(holding->asked, taken);
    if (life != holding->life)
        return;
    holding->pending -= taken;
    holding->have += taken;
}

/* ---- When to speak --------------------------------------------------------------------------------------------------------- */

static bool is_lively(const struct holding *holding)
{
    return holding->before_at > 0 && since(holding->before_at, holding->spent_at) <= half_of(holding);
}

/* What the store may add: there the undecided is still in hand. */
static uint64_t room_of(const struct holding *holding)
{
    uint64_t ours = holding->have + holding->pending;
    return ours < holding->lease.chunk ? holding->lease.chunk - ours : 0;
}

/* A portion wanted by those who ask now. */
static bool is_short(const struct holding *holding)
{
    return holding->have <= holding->low && room_of(holding) > 0 && is_lively(holding);
}

/* So long before the end of the portion, and not too late for whoever looks; at most half of it. */
static weir_ns notice_of(const struct holding *holding, weir_ns wanted)
{
    weir_ns notice = LEASE_NOTICE_NS + holding->round_trip;
    return earlier(wanted > notice ? wanted : notice, holding->lasts / 2);
}

/* What was spent waits so long to be told. */
static weir_ns report_at(const struct holding *holding)
{
    weir_ns half = half_of(holding);
    weir_ns at = behind(holding->used_at, holding->is_first ? half / 4 : half);
    if (holding->expires_at == 0)
        return at;
    /* Sent again once or twice, it still prolongs the portion. */
    return earlier(at, before(holding->expires_at, notice_of(holding, holding->lasts / 4)));
}

/* A good part of the portion is spent. */
static bool is_half_spent(const struct holding *holding)
{
    return holding->used > 0 && holding->used >= (holding->held + 1) / (holding->is_first ? 4 : 2);
}

/* Nobody spends any more: all is given back. */
static weir_ns idle_at(const struct holding *holding)
{
    return behind(holding->spent_at, 2 * half_of(holding));
}

/* What is in hand is prolonged or given back by now, or it would be lost. */
static weir_ns ending_at(const struct holding *holding)
{
    return holding->expires_at == 0 ? WEIR_NO_TIME
                                    : before(holding->expires_at, notice_of(holding, holding->lasts / 8));
}

weir_ns lease_due_at(const struct holding *holding)
{
    if (holding->flight.is_claimed)
        return WEIR_NO_TIME;
    if (holding->flight.seq > 0)
        return holding->flight.again_at;
    weir_ns due = holding->stray > 0 ? 0 : WEIR_NO_TIME;
    if (untold(holding) > 0)
        due = earlier(due, report_at(holding));
    if (holding->have > 0)
        due = earlier(due, earlier(idle_at(holding), ending_at(holding)));
    if (is_half_spent(holding)
        || (is_short(holding) && holding->empty_till < behind(holding->spent_at, half_of(holding))))
        due = earlier(due, holding->empty_till);
    return due;
}

bool lease_is_urgent(const struct holding *holding, weir_ns now)
{
    return holding->flight.seq == 0 && now >= holding->empty_till && is_short(holding)
           && since(holding->spent_at, now) < half_of(holding);
}

bool lease_is_idle(const struct holding *holding, weir_ns now)
{
    return holding->flight.seq == 0 && holding->have + holding->pending + untold(holding) + holding->stray == 0
           && now >= behind(holding->spent_at, 2 * half_of(holding));
}

/* ---- Messages ------------------------------------------------------------------------------------------------------------- */

static uint64_t target_of(const struct holding *holding)
{
    weir_u128_ unit = (weir_u128_)DEMAND_UNIT * WEIR_SECOND * 2;
    weir_u128_ target = ((weir_u128_)holding->demand * half_of(holding) * 3 + unit - 1) / unit;
    uint64_t most = holding->lease.chunk > 1 ? holding->lease.chunk : 1;
    return target < 1 ? 1 : target < most ? (uint64_t)target : most;
}

/* What to give and to want, while somebody asks. */
static void plan(struct holding *holding, weir_ns now, struct lease_flight *flight)
{
    uint64_t have = holding->have;
    measure_demand(holding, now);
    holding->target = target_of(holding);
    measure_low(holding);
    bool wants = now >= holding->empty_till && since(holding->spent_at, now) < half_of(holding)
                 && (have > 0 || is_lively(holding));
    if (wants && have < holding->target)
        flight->want = least(holding->target - have, room_of(holding));
    /* Twice what is needed is let be, or grants and returns would take turns. */
    if (have / 2 > holding->target || have > holding->lease.chunk)
        flight->give = have - holding->target;
    /* Nothing was spent, so there is nothing to say that would prolong it. */
    if (untold(holding) + flight->want + flight->give == 0 && now >= ending_at(holding))
        flight->give = have;
}

static bool make_message(struct holding *holding, uint64_t seq, bool hands_back, weir_ns now)
{
    (void)lease_expire(holding, now);
    if (!hands_back && lease_due_at(holding) > now && !lease_is_urgent(holding, now))
        return false;
    struct lease_flight flight = { .seq = seq, .first_at = now, .duration = holding->lease.duration };
    if (hands_back || now >= idle_at(holding))
        flight.give = holding->have;
    else
        plan(holding, now, &flight);
    flight.gone = least(NUMBER_MAX, holding->gone);
    flight.used = least(NUMBER_MAX, untold(holding));
    if (flight.used + flight.give + flight.want + holding->stray == 0)
        return false;
    flight.is_first = holding->have + holding->pending + untold(holding) == 0;
    holding->have -= flight.give;
    holding->gone -= flight.gone;
    holding->used -= flight.used - flight.gone;
    flight.give = least(NUMBER_MAX, flight.give + holding->stray);
    holding->stray = 0;
    holding->used_at = holding->pending > 0 ? now : 0;
    holding->flight = flight;
    return true;
}

/* Of what a message asks for: a hundredth before the store, whose record began later, counts it as over. */
static weir_ns end_of(const struct lease_flight *flight, weir_ns ttl)
{
    return behind(flight->first_at, ttl - ttl / 100);
}

bool lease_speak(struct holding *holding, uint64_t seq, bool hands_back, weir_ns now, struct script_lease *out,
                 bool *is_new)
{
    struct lease_flight *flight = &holding->flight;
    *is_new = flight->seq == 0;
    if (flight->is_claimed || (!*is_new && now < flight->again_at))
        return false;
    if (*is_new && !make_message(holding, seq, hands_back, now))
        return *is_new = false;
    flight->is_claimed = true;
    flight->is_again = !*is_new;
    flight->duration = earlier(flight->duration, holding->lease.duration);
    /* Under a shorter lease than before the store's record may now end before what is in hand would. */
    if (holding->expires_at > 0)
        holding->expires_at = earlier(holding->expires_at, end_of(flight, flight->duration));
    out->seq = flight->seq;
    out->used = flight->used;
    out->give = flight->give;
    out->want = flight->want;
    out->seen = holding->seen;
    out->lease = holding->lease;
    return true;
}

/* ---- Answers -------------------------------------------------------------------------------------------------------------- */

static void note_round_trip(struct holding *holding, const struct lease_flight *flight, weir_ns now)
{
    if (flight->is_again)
        return;
    weir_ns took = earlier(since(flight->first_at, now), half_of(holding));
    holding->round_trip = holding->round_trip == 0 ? took : (3 * holding->round_trip + took) / 4;
    measure_low(holding);
}

/* When to ask for more, after so much was granted. */
static void note_grant(struct holding *holding, const struct lease_flight *flight, uint64_t granted,
                       const struct script_lease_answer *answer, weir_ns now)
{
    weir_ns half = half_of(holding);
    holding->is_first = false;
    if (flight->want == 0)
        return;
    holding->empty_till = 0;
    if (granted == 0) {
        /* Not by itself: all is in hands, and they report within t. */
        weir_ns pause = answer->retry_after == WEIR_NO_TIME ? half : earlier(answer->retry_after, 2 * half);
        holding->empty_till = behind(now, pause > half / 4 ? pause : half / 4);
    } else if (granted <= 1 && flight->want >= 4)
        holding->empty_till = behind(now, half / 8);
    /* Of a pool that gave all it was asked for and is not poor: what is told late may be refilled late. */
    holding->is_first =
        flight->is_first && granted == flight->want && answer->remaining >= holding->lease.most / 2;
}

/* The store holds nothing of what we do, as far as we know. Gives how many tokens were lost by that. */
static uint64_t forget(struct holding *holding, weir_ns now)
{
    uint64_t lost = end_portion(holding, now) + holding->used + holding->stray;
    holding->used = holding->gone = holding->stray = 0;
    return lost;
}

/* Compare with what the store's record holds behind the message. Gives how many tokens it has forgotten. */
static uint64_t reconcile(struct holding *holding, uint64_t granted, uint64_t left, weir_ns now)
{
    uint64_t ours = holding->have + holding->pending + untold(holding) + holding->stray;
    if (ours + granted > left)
        return forget(holding, now);
    /* Nobody here holds the rest: the store came back with an older record. It may have been spent, so it is not given back. */
    holding->gone += left - granted - ours;
    return 0;
}

struct lease_result lease_hear(struct holding *holding, uint64_t seq, const struct script_lease_answer *answer,
                               weir_ns now)
{
    struct lease_result result = { 0 };
    struct lease_flight flight = holding->flight;
    if (seq == 0 || flight.seq != seq)
        return result;
    holding->flight = (struct lease_flight){ 0 };
    result.lost = lease_expire(holding, now);
    if (answer->is_stale) { /* what became of it is not known, nor what the record holds */
        result.lost += flight.used - flight.gone + flight.give + forget(holding, now);
        return result;
    }
    uint64_t left = least(NUMBER_MAX, answer->left);
    uint64_t granted = least(least(flight.want, answer->granted), left);
    weir_ns ttl = earlier(earlier(answer->ttl, flight.duration), holding->lease.duration);
    result.spent = flight.used - flight.gone;
    result.returned = flight.give;
    result.granted = granted;
    result.lost += reconcile(holding, granted, left, now);
    holding->lasts = ttl;
    holding->expires_at = end_of(&flight, ttl);
    if (now >= holding->expires_at) {
        result.lost += end_portion(holding, now);
        holding->stray += granted;
        granted = 0;
    }
    holding->have += granted;
    holding->held = holding->have + holding->pending;
    if (holding->held == 0)
        holding->expires_at = 0;
    holding->seen = answer->seen;
    holding->ends_at = answer->ends_after == WEIR_NO_TIME ? WEIR_NO_TIME : behind(now, answer->ends_after);
    note_grant(holding, &flight, granted, answer, now);
    note_round_trip(holding, &flight, now);
    if (untold(holding) > 0 && holding->used_at == 0)
        holding->used_at = now;
    return result;
}

void lease_unheard(struct holding *holding, uint64_t seq, weir_ns pause, weir_ns now)
{
    if (seq == 0 || holding->flight.seq != seq)
        return;
    holding->flight.is_claimed = false;
    holding->flight.again_at = behind(now, pause);
}
