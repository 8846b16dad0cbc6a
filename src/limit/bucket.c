// SPDX-License-Identifier: Apache-2.0
/*
 * bucket.c - what is done to a bucket's level beside taking from it: charging, giving back, converting.
 *
 * The word is the instant, in ticks, at which the bucket is full; what is used is the distance from now. Taking is
 * weir_rate_decide(), called here and nowhere copied.
 */
#include "limit/bucket.h"

__extension__ typedef unsigned __int128 u128;

#define LEVEL_MAX ((UINT64_C(1) << WEIR_WORD_BITS) - 1)

int bucket_init(struct shape *shape, const struct weir_limit *limit)
{
    uint64_t above = shape->charges_refusals && shape->debt < limit->burst ? limit->burst : shape->debt;
    shape->capacity = limit->burst;
    if (weir_rate_init_overdraft(&shape->rate, limit->rate.count, limit->rate.period, limit->burst, above))
        return 0;
    weir_rate alone; /* which of the two is too much: the rate by itself, or both together? */
    return weir_rate_init(&alone, limit->rate.count, limit->rate.period, 1) ? WEIR_ERR_BURST : WEIR_ERR_RATE;
}

/*
 * The word after `ticks` more are used, whatever is left, but not above `most` ticks: never lower than it was, also
 * with a stale stamp.
 */
static uint64_t raise(const weir_rate *rate, uint64_t word, weir_ns now, uint64_t ticks, uint64_t most)
{
    unsigned inexact;
    uint64_t clock = weir_rate_clock(rate, now, &inexact);
    uint64_t base = word > clock ? word : clock + inexact;
    uint64_t cap = clock + most;
    if (cap <= base)
        return word > base ? word : base;
    return base + (ticks < cap - base ? ticks : cap - base);
}

struct step bucket_decide(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost)
{
    const weir_rate *rate = &shape->rate;
    struct step step = { .at = now };
    step.outcome = weir_rate_decide(rate, word, now, cost, &step.word);
    if (step.outcome == WEIR_DENY && shape->charges_refusals)
        step.word = raise(rate, word, now, cost * rate->ticks, 2 * rate->burst * rate->ticks);
    return step;
}

struct report bucket_report(const struct shape *shape, const struct step *step, uint64_t cost)
{
    const weir_rate *rate = &shape->rate;
    bool charged = step->outcome == WEIR_ALLOW && cost > 0;
    return (struct report){ weir_rate_remaining(rate, step->word, step->at),
                            charged ? step->at : weir_rate_retry_at(rate, step->word, step->at, cost),
                            weir_rate_full_at(rate, step->word, step->at) };
}

bool bucket_is_dead(const struct shape *shape, uint64_t word, weir_ns now)
{
    unsigned inexact;
    return word == 0
           || (now >= SHAPE_GRACE_NS && word <= weir_rate_clock(&shape->rate, now - SHAPE_GRACE_NS, &inexact));
}

/* The word with `back` ticks less used. */
static uint64_t lower(uint64_t word, uint64_t clock, uint64_t back)
{
    if (word <= clock)
        return word;
    uint64_t used = word - clock;
    return clock + (used > back ? used - back : 0);
}

/*
 * The strict refund: the charge moved the bucket's full instant by cost * m ticks; the clock has since moved past
 * some of them, and those are refill that the bucket would have lost had it been full. Only the rest comes back.
 */
uint64_t bucket_undo(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now, uint64_t cost)
{
    const weir_rate *rate = &shape->rate;
    unsigned inexact;
    weir_ns at = now > charged_at ? now : charged_at;
    uint64_t then = weir_rate_clock(rate, charged_at, &inexact);
    uint64_t clock = weir_rate_clock(rate, at, &inexact);
    uint64_t passed = clock + inexact - then;
    uint64_t charged = cost * rate->ticks;
    return passed >= charged ? word : lower(word, clock, charged - passed);
}

/* What refilled under the old rate before the change is not given back either, in whole tokens rounded up. */
uint64_t bucket_undo_converted(const struct shape *old, const struct shape *next, uint64_t word,
                               weir_ns charged_at, weir_ns now, uint64_t cost)
{
    unsigned inexact;
    weir_ns since = next->since > charged_at ? next->since : charged_at;
    uint64_t then = weir_rate_clock(&old->rate, charged_at, &inexact);
    uint64_t passed = since == charged_at ? 0 : weir_rate_clock(&old->rate, since, &inexact) + inexact - then;
    uint64_t replaced = passed / old->rate.ticks + (passed % old->rate.ticks != 0);
    return replaced >= cost ? word : bucket_undo(next, word, since, now, cost - replaced);
}

/* P13: the level stays within capacity and debt. */
struct settled bucket_charge(const struct shape *shape, uint64_t word, weir_ns now, uint64_t amount)
{
    const weir_rate *rate = &shape->rate;
    unsigned inexact;
    uint64_t clock = weir_rate_clock(rate, now, &inexact);
    uint64_t base = word > clock ? word : clock + inexact;
    uint64_t cap = clock + (rate->burst + shape->debt) * rate->ticks;
    uint64_t room = cap > base ? (cap - base) / rate->ticks : 0;
    uint64_t done = amount < room ? amount : room;
    if (done == amount)
        return (struct settled){ done == 0 ? word : base + done * rate->ticks, done, 0 };
    return (struct settled){ cap > base ? cap : word, done, amount - done };
}

struct settled bucket_refund(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now,
                             uint64_t amount)
{
    const weir_rate *rate = &shape->rate;
    unsigned inexact;
    uint64_t clock = weir_rate_clock(rate, now > charged_at ? now : charged_at, &inexact);
    uint64_t used = word > clock ? word - clock : 0;
    uint64_t whole = used / rate->ticks;
    if (amount > whole)
        return (struct settled){ lower(word, clock, used), whole, 0 };
    return (struct settled){ lower(word, clock, amount * rate->ticks), amount, 0 };
}

/*
 * What was used at the change stays used, in the new scale, rounded up by less than a tick. Not cut at the new capacity:
 * a burst lowered and raised again would forgive the difference. Only what does not fit the word is.
 */
uint64_t bucket_convert(const struct shape *old, const struct shape *next, uint64_t word)
{
    unsigned inexact;
    uint64_t clock = weir_rate_clock(&old->rate, next->since, &inexact);
    if (word <= clock)
        return 0;
    u128 used = ((u128)(word - clock) * next->rate.ticks + (old->rate.ticks - 1)) / old->rate.ticks;
    uint64_t base = weir_rate_clock(&next->rate, next->since, &inexact) + inexact;
    return base + (used < LEVEL_MAX ? (uint64_t)used : LEVEL_MAX);
}

uint64_t bucket_absent(const struct shape *shape)
{
    unsigned inexact;
    uint64_t clock = weir_rate_clock(&shape->rate, shape_lost_at(shape), &inexact);
    return clock + inexact + shape->rate.burst * shape->rate.ticks;
}

/* Full at `now` is not full before it. */
uint64_t bucket_dated(const struct shape *shape, uint64_t word, weir_ns now)
{
    unsigned inexact;
    uint64_t clock = weir_rate_clock(&shape->rate, now, &inexact);
    return word > clock ? word : clock;
}

/* Steps of a pace that has no whole number of ticks in a nanosecond, before the shortest one stands for the rest. */
#define STEPS_MAX 1024

/*
 * A burst of one leaves when the bucket is full, so what refills between that and the next nanosecond is lost: each departure
 * is reckoned from the one before, in whole nanoseconds. An exact rate takes the same time for each.
 */
static weir_ns pace(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead)
{
    const weir_rate *rate = &shape->rate;
    weir_ns at = weir_rate_retry_at(rate, word, now, 1);
    uint64_t steps = rate->b == 1 ? 0 : ahead < STEPS_MAX ? ahead : STEPS_MAX;
    if (ahead == 0 || at == WEIR_NO_TIME || rate->per_b == 0)
        return ahead == 0 ? at : WEIR_NO_TIME;
    for (uint64_t i = 0; i < steps && at != WEIR_NO_TIME; i++) {
        (void)weir_rate_decide(rate, word, at, 1, &word);
        at = weir_rate_retry_at(rate, word, at, 1);
    }
    weir_ns step = (weir_ns)(((u128)rate->ticks * rate->b + (rate->per_b - 1)) / rate->per_b);
    u128 instant = (u128)at + (u128)(ahead - steps) * step;
    return instant > WEIR_HORIZON ? WEIR_NO_TIME : (weir_ns)instant;
}

/* Who waits leaves before the bucket is full, so nothing is lost meanwhile: the tokens ahead move its full instant. */
weir_ns bucket_foresee(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead, uint64_t cost)
{
    const weir_rate *rate = &shape->rate;
    unsigned inexact;
    if (rate->burst == 1 || ahead == 0)
        return ahead == 0 ? weir_rate_retry_at(rate, word, now, cost) : pace(shape, word, now, ahead);
    uint64_t clock = weir_rate_clock(rate, now, &inexact);
    u128 full_at = (u128)(word > clock ? word : clock + inexact) + (u128)ahead * rate->ticks;
    return full_at >> 63 != 0 ? WEIR_NO_TIME : weir_rate_retry_at(rate, (uint64_t)full_at, now, cost);
}
