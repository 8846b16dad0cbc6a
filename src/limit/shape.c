// SPDX-License-Identifier: Apache-2.0
/*
 * shape.c - a limit becomes a shape or is refused; a decision goes to its algorithm.
 *
 * The token bucket's arithmetic is weir_bucket.h's, called here and nowhere copied.
 */
#include "limit/shape.h"

#include "base/civil.h"
#include "limit/calendar.h"
#include "limit/window.h"

/* ---- Making ------------------------------------------------------------------------------------------------ */

static int bucket_init(struct shape *shape, const struct weir_limit *limit)
{
    shape->capacity = limit->burst;
    if (weir_rate_init(&shape->rate, limit->rate.count, limit->rate.period, limit->burst))
        return 0;
    weir_rate alone; /* which of the two is too much: the rate by itself, or both together? */
    return weir_rate_init(&alone, limit->rate.count, limit->rate.period, 1) ? WEIR_ERR_BURST : WEIR_ERR_RATE;
}

/* Unix time of the origin within its window, for windows that are multiples of the period since 1970. */
static weir_ns phase_of(int64_t wall_at_origin, weir_ns period)
{
    int64_t length = (int64_t)period, rest = wall_at_origin % length;
    return (weir_ns)(rest < 0 ? rest + length : rest);
}

static int window_init(struct shape *shape, const struct weir_limit *limit, int64_t wall_at_origin,
                       const struct weir_allocator *allocator)
{
    shape->window = (struct window){ .period = limit->rate.period };
    if (limit->align != WEIR_ALIGN_CALENDAR) {
        shape->window.phase = phase_of(wall_at_origin, limit->rate.period);
        return window_pack(shape);
    }
    if ((unsigned)limit->calendar >= WEIR_CALENDAR_COUNT)
        return WEIR_ERR_CALENDAR;
    shape->window.period = 0;
    int code = calendar_new(&shape->window.calendar, limit->calendar, limit->zone, wall_at_origin, allocator);
    if (code != 0)
        return code;
    code = window_pack(shape);
    if (code != 0)
        shape_deinit(shape, allocator);
    return code;
}

int shape_init(struct shape *shape, const struct weir_limit *limit, int64_t wall_at_origin,
               const struct weir_allocator *allocator)
{
    bool is_calendar = limit->algorithm == WEIR_FIXED_WINDOW && limit->align == WEIR_ALIGN_CALENDAR;
    if ((unsigned)limit->algorithm >= WEIR_ALGORITHM_COUNT)
        return WEIR_ERR_ALGORITHM;
    if ((unsigned)limit->align >= WEIR_ALIGN_COUNT
        || (limit->align != WEIR_ALIGN_EPOCH && limit->algorithm != WEIR_FIXED_WINDOW))
        return WEIR_ERR_ALIGN;
    if ((unsigned)limit->when_full >= WEIR_FULL_COUNT)
        return WEIR_ERR_OPTION;
    if (!is_calendar && (limit->rate.period == 0 || limit->rate.period > WEIR_HORIZON))
        return WEIR_ERR_PERIOD;

    *shape = (struct shape){ .algorithm = limit->algorithm,
                             .align = limit->align,
                             .when_full = limit->when_full,
                             .capacity = limit->rate.count };
    switch (limit->algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return bucket_init(shape, limit);
    case WEIR_SLIDING_LOG:
        shape->period = limit->rate.period;
        return limit->rate.count <= WEIR_LOG_MAX ? 0 : WEIR_ERR_LOG_COUNT;
    default:
        if (limit->align == WEIR_ALIGN_FIRST_REQUEST) {
            shape->first.period = limit->rate.period;
            return first_pack(shape);
        }
        return window_init(shape, limit, wall_at_origin, allocator);
    }
}

static struct calendar *calendar_of(const struct shape *shape)
{
    return shape->algorithm == WEIR_FIXED_WINDOW && shape->align == WEIR_ALIGN_CALENDAR ? shape->window.calendar
                                                                                        : NULL;
}

void shape_deinit(struct shape *shape, const struct weir_allocator *allocator)
{
    calendar_free(calendar_of(shape), allocator);
}

void shape_wall_set(struct shape *shape, int64_t wall_at_origin)
{
    struct calendar *calendar = calendar_of(shape);
    if (calendar != NULL)
        calendar_set(calendar, wall_at_origin);
}

/* ---- Deciding ---------------------------------------------------------------------------------------------- */

static bool is_bucket(const struct shape *shape)
{
    return shape->algorithm <= WEIR_LEAKY_BUCKET;
}

struct step shape_decide(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost)
{
    if (is_bucket(shape)) {
        struct step step = { .at = now };
        step.outcome = weir_rate_decide(&shape->rate, word, now, cost, &step.word);
        return step;
    }
    if (now > WEIR_HORIZON)
        return (struct step){ cost > shape->capacity ? WEIR_NEVER : WEIR_REFUSED, word, now };
    if (shape->algorithm == WEIR_SLIDING_WINDOW)
        return sliding_decide(shape, word, now, cost);
    if (shape->align == WEIR_ALIGN_FIRST_REQUEST)
        return first_decide(shape, word, now, cost);
    return fixed_decide(shape, word, now, cost);
}

struct step shape_look(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost)
{
    enum weir_outcome outcome = shape_decide(shape, word, now, cost).outcome;
    return (struct step){ outcome, word, shape_decide(shape, word, now, 0).at };
}

static struct report bucket_report(const struct shape *shape, const struct step *step, uint64_t cost)
{
    const weir_rate *rate = &shape->rate;
    bool charged = step->outcome == WEIR_ALLOW && cost > 0;
    return (struct report){ weir_rate_remaining(rate, step->word, step->at),
                            charged ? step->at : weir_rate_retry_at(rate, step->word, step->at, cost),
                            weir_rate_full_at(rate, step->word, step->at) };
}

/* A retry or reset beyond the horizon cannot be answered then, so it is not promised now. */
static weir_ns within_horizon(weir_ns instant)
{
    return instant > WEIR_HORIZON ? WEIR_NO_TIME : instant;
}

struct report shape_report(const struct shape *shape, const struct step *step, uint64_t cost)
{
    if (step->at > WEIR_HORIZON)
        return (struct report){ 0, WEIR_NO_TIME, WEIR_NO_TIME };
    struct report report = is_bucket(shape)                           ? bucket_report(shape, step, cost)
                           : shape->algorithm == WEIR_SLIDING_WINDOW  ? sliding_report(shape, step, cost)
                           : shape->align == WEIR_ALIGN_FIRST_REQUEST ? first_report(shape, step, cost)
                                                                      : fixed_report(shape, step, cost);
    report.retry_at = within_horizon(report.retry_at);
    report.reset_at = within_horizon(report.reset_at);
    return report;
}

bool shape_is_dead(const struct shape *shape, uint64_t word, weir_ns now)
{
    if (now > WEIR_HORIZON)
        return false;
    if (is_bucket(shape)) {
        unsigned inexact;
        return word == 0
               || (now >= SHAPE_GRACE_NS
                   && word <= weir_rate_clock(&shape->rate, now - SHAPE_GRACE_NS, &inexact));
    }
    if (shape->align == WEIR_ALIGN_FIRST_REQUEST)
        return first_is_dead(shape, word, now);
    return window_is_dead(shape, word, now);
}

/*
 * The strict refund: the charge moved the bucket's full instant by cost * m ticks; the clock has since moved past
 * some of them, and those are refill that the bucket would have lost had it been full. Only the rest comes back.
 */
static uint64_t bucket_undo(const weir_rate *rate, uint64_t word, weir_ns charged_at, weir_ns now,
                            uint64_t cost)
{
    unsigned inexact;
    weir_ns at = now > charged_at ? now : charged_at;
    uint64_t then = weir_rate_clock(rate, charged_at, &inexact);
    uint64_t clock = weir_rate_clock(rate, at, &inexact);
    uint64_t passed = clock + inexact - then;
    uint64_t charged = cost * rate->ticks;
    if (word <= clock || passed >= charged)
        return word;
    uint64_t used = word - clock, back = charged - passed;
    return clock + (used > back ? used - back : 0);
}

uint64_t shape_undo(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now, uint64_t cost)
{
    if (is_bucket(shape))
        return bucket_undo(&shape->rate, word, charged_at, now, cost);
    if (shape->algorithm == WEIR_SLIDING_WINDOW)
        return sliding_undo(shape, word, charged_at, cost);
    if (shape->align == WEIR_ALIGN_FIRST_REQUEST)
        return first_undo(shape, word, charged_at, cost);
    return fixed_undo(shape, word, charged_at, cost);
}
