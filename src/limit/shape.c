// SPDX-License-Identifier: Apache-2.0
/*
 * shape.c - a limit becomes a shape or is refused; a decision goes to its algorithm.
 *
 * The token bucket's arithmetic is weir_bucket.h's, called here and nowhere copied.
 */
#include "limit/shape.h"

#include "base/civil.h"
#include "limit/bucket.h"
#include "limit/calendar.h"
#include "limit/window.h"

/* ---- Making ------------------------------------------------------------------------------------------------ */

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

/* Both bounds or none; the leaky queue is nothing without them. A refusal that is charged would push back who waits. */
static bool may_wait(const struct weir_limit *limit)
{
    const struct weir_wait *wait = &limit->wait;
    if (wait->up_to == 0 && wait->queue == 0)
        return limit->algorithm != WEIR_LEAKY_QUEUE;
    return wait->up_to >= 1 && wait->up_to <= WEIR_WAIT_MAX && wait->queue >= 1 && wait->queue <= WEIR_QUEUE_MAX
           && limit->refused == WEIR_REFUSAL_FREE;
}

/* Whoever states what its algorithm does not read expects something of it. A queue's burst of 1 is what it has. */
static bool has_foreign_field(const struct weir_limit *limit)
{
    if (limit->algorithm == WEIR_CONCURRENCY)
        return limit->rate.count > 0 || limit->rate.period > 0 || limit->burst > 0;
    uint64_t most = limit->algorithm <= WEIR_LEAKY_BUCKET  ? UINT64_MAX
                    : limit->algorithm == WEIR_LEAKY_QUEUE ? 1
                                                           : 0;
    return limit->at_most > 0 || limit->hold > 0 || limit->burst > most;
}

int shape_init(struct shape *shape, const struct weir_limit *limit, int64_t wall_at_origin,
               const struct weir_allocator *allocator)
{
    bool is_calendar = limit->algorithm == WEIR_FIXED_WINDOW && limit->align == WEIR_ALIGN_CALENDAR;
    bool has_rate = limit->algorithm != WEIR_CONCURRENCY;
    if ((unsigned)limit->algorithm >= WEIR_ALGORITHM_COUNT)
        return WEIR_ERR_ALGORITHM;
    if ((unsigned)limit->align >= WEIR_ALIGN_COUNT
        || (limit->align != WEIR_ALIGN_EPOCH && limit->algorithm != WEIR_FIXED_WINDOW))
        return WEIR_ERR_ALIGN;
    if ((unsigned)limit->when_full >= WEIR_FULL_COUNT)
        return WEIR_ERR_OPTION;
    if (has_rate && !is_calendar && (limit->rate.period == 0 || limit->rate.period > WEIR_HORIZON))
        return WEIR_ERR_PERIOD;
    if (limit->debt > 0 && limit->algorithm > WEIR_LEAKY_BUCKET && limit->algorithm != WEIR_LEAKY_QUEUE)
        return WEIR_ERR_DEBT;
    if (has_foreign_field(limit))
        return WEIR_ERR_FIELD;
    if (!may_wait(limit))
        return WEIR_ERR_WAIT;
    if ((unsigned)limit->refused >= WEIR_REFUSAL_COUNT || (unsigned)limit->state_lost >= WEIR_LOST_COUNT)
        return WEIR_ERR_OPTION;

    *shape = (struct shape){ .algorithm = limit->algorithm,
                             .align = limit->align,
                             .when_full = limit->when_full,
                             .debt = limit->debt,
                             .charges_refusals = limit->refused == WEIR_REFUSAL_CHARGED,
                             .starts_empty = limit->state_lost == WEIR_LOST_EMPTY,
                             .capacity = limit->rate.count,
                             .wait_up_to = limit->wait.up_to,
                             .wait_queue = limit->wait.queue };
    switch (limit->algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return bucket_init(shape, limit);
    case WEIR_LEAKY_QUEUE: {
        struct weir_limit paced = *limit;
        shape->algorithm = WEIR_LEAKY_BUCKET; /* the same word; who may wait is not its business */
        paced.burst = 1;
        return bucket_init(shape, &paced);
    }
    case WEIR_CONCURRENCY:
        /* There is nothing to charge for a refusal, and a duplicate could not be given its permit. */
        if (limit->refused != WEIR_REFUSAL_FREE || limit->retries_free_within > 0)
            return WEIR_ERR_OPTION;
        if (limit->hold < WEIR_MILLISECOND || limit->hold > WEIR_HORIZON)
            return WEIR_ERR_HOLD;
        shape->hold = limit->hold;
        shape->capacity = limit->at_most;
        return limit->at_most >= 1 && limit->at_most <= WEIR_AT_MOST_MAX ? 0 : WEIR_ERR_AT_MOST;
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

void shape_within(const struct shape *shape, uint64_t capacity, struct shape *out)
{
    *out = (struct shape){ .algorithm = shape->algorithm,
                           .align = shape->align,
                           .when_full = shape->when_full,
                           .number = shape->number,
                           .lineage = shape->lineage,
                           .generation = shape->generation,
                           .since = shape->since,
                           .starts_empty = shape->starts_empty,
                           .capacity = capacity };
    if (shape->algorithm == WEIR_FIXED_WINDOW) {
        out->window = shape->window;
    } else {
        out->rate = shape->rate;
        out->rate.burst = capacity;
    }
    atomic_init(&out->lost_at, shape_lost_at(shape));
    atomic_init(&out->absent, shape_absent(shape));
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
    if (is_bucket(shape))
        return bucket_decide(shape, word, now, cost);
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
    if (is_bucket(shape))
        return bucket_is_dead(shape, word, now);
    if (shape->align == WEIR_ALIGN_FIRST_REQUEST)
        return first_is_dead(shape, word, now);
    return window_is_dead(shape, word, now);
}

uint64_t shape_undo(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now, uint64_t cost)
{
    if (is_bucket(shape))
        return bucket_undo(shape, word, charged_at, now, cost);
    if (shape->algorithm == WEIR_SLIDING_WINDOW)
        return sliding_undo(shape, word, charged_at, cost);
    if (shape->align == WEIR_ALIGN_FIRST_REQUEST)
        return first_undo(shape, word, charged_at, cost);
    return fixed_undo(shape, word, charged_at, cost);
}

static bool has_same_windows(const struct shape *x, const struct shape *y)
{
    if (x->align == WEIR_ALIGN_FIRST_REQUEST)
        return x->first.period == y->first.period;
    return x->window.calendar == NULL && y->window.calendar == NULL && x->window.period == y->window.period;
}

uint64_t shape_undo_converted(const struct shape *old, const struct shape *next, uint64_t word,
                              weir_ns charged_at, weir_ns now, uint64_t cost)
{
    if (is_bucket(old))
        return bucket_undo_converted(old, next, word, charged_at, now, cost);
    bool is_counted = charged_at >= next->since || has_same_windows(old, next);
    return is_counted ? shape_undo(next, word, charged_at, now, cost) : word;
}

/* ---- Settling, converting, starting empty ---------------------------------------------------------------- */

struct settled shape_charge(const struct shape *shape, uint64_t word, weir_ns now, uint64_t amount)
{
    if (now > WEIR_HORIZON)
        return (struct settled){ word, 0, amount };
    if (is_bucket(shape))
        return bucket_charge(shape, word, now, amount);
    if (shape->algorithm == WEIR_SLIDING_WINDOW)
        return sliding_charge(shape, word, now, amount);
    if (shape->align == WEIR_ALIGN_FIRST_REQUEST)
        return first_charge(shape, word, now, amount);
    return fixed_charge(shape, word, now, amount);
}

struct settled shape_refund(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now,
                            uint64_t amount)
{
    if (now > WEIR_HORIZON || charged_at > WEIR_HORIZON)
        return (struct settled){ word, 0, 0 };
    if (is_bucket(shape))
        return bucket_refund(shape, word, charged_at, now, amount);
    if (shape->algorithm == WEIR_SLIDING_WINDOW)
        return sliding_refund(shape, word, charged_at, now, amount);
    if (shape->align == WEIR_ALIGN_FIRST_REQUEST)
        return first_refund(shape, word, charged_at, now, amount);
    return fixed_refund(shape, word, charged_at, now, amount);
}

static bool is_first(const struct shape *shape)
{
    return shape->algorithm == WEIR_FIXED_WINDOW && shape->align == WEIR_ALIGN_FIRST_REQUEST;
}

void shape_widen(struct shape *shape, const struct shape *old)
{
    if (is_first(shape))
        first_widen(shape, old);
}

bool shape_is_wider(const struct shape *shape, const struct shape *other)
{
    return is_first(shape) && shape->first.count_bits > other->first.count_bits;
}

uint64_t shape_convert(const struct shape *old, const struct shape *next, uint64_t word)
{
    if (is_bucket(old))
        return bucket_convert(old, next, word);
    if (old->algorithm == WEIR_SLIDING_WINDOW)
        return sliding_convert(old, next, word);
    if (old->align == WEIR_ALIGN_FIRST_REQUEST)
        return first_convert(old, next, word);
    return fixed_convert(old, next, word);
}

uint64_t shape_lost(const struct shape *shape)
{
    if (!shape->starts_empty || shape->algorithm == WEIR_SLIDING_LOG || shape->algorithm == WEIR_CONCURRENCY)
        return 0;
    if (is_bucket(shape))
        return bucket_absent(shape);
    if (shape->algorithm == WEIR_SLIDING_WINDOW)
        return sliding_absent(shape);
    if (shape->align == WEIR_ALIGN_FIRST_REQUEST)
        return first_absent(shape);
    return fixed_absent(shape);
}

/* ---- Behind others --------------------------------------------------------------------------------------- */

uint64_t shape_dated(const struct shape *shape, uint64_t word, weir_ns now)
{
    if (is_bucket(shape))
        return bucket_dated(shape, word, now);
    if (shape->algorithm == WEIR_SLIDING_WINDOW)
        return sliding_dated(shape, word, now);
    if (is_first(shape))
        return first_dated(shape, word, now);
    return fixed_dated(shape, word, now);
}

weir_ns shape_foresee(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead, uint64_t cost)
{
    if (now > WEIR_HORIZON || cost > shape->capacity || cost == 0)
        return WEIR_NO_TIME;
    if (is_bucket(shape))
        return bucket_foresee(shape, word, now, ahead, cost);
    if (shape->algorithm == WEIR_SLIDING_WINDOW)
        return sliding_foresee(shape, word, now, ahead, cost);
    if (is_first(shape))
        return first_foresee(shape, word, now, ahead, cost);
    return fixed_foresee(shape, word, now, ahead, cost);
}
