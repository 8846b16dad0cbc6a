// SPDX-License-Identifier: Apache-2.0
/*
 * resp_throttle.c - CL.THROTTLE key max_burst count period [quantity], as redis-cell answers it: a limit that comes with each request.
 *
 * GCRA: a token comes back every `interval` = period / count, and max_burst + 1 fit. Five integers are the answer: whether it is
 * limited, the limit, what remains, seconds until a retry (-1: passes, or never), seconds until it is whole.
 *
 * One thing differs: where redis-cell cuts (the interval to a nanosecond, seconds to a millisecond and then up) we round up, so
 * that what it names is never too early. What would wrap or end the module there is an error here: a negative number, and more
 * time than fits.
 */
#include "net/resp.h"
#include "net/worker.h"

#define SECOND WEIR_SECOND

struct throttle {
    int64_t max_burst, count, period, quantity;
    uint64_t interval, limit, cost, tolerance; /* ns, but for limit */
};

/* Redis-cell's words, without a code in front. */
static void fail(struct resp_request *request, const char *text, struct slice word)
{
    resp_fail(request, "Cell error: %s%.*s", text, (int)(word.len < 128 ? word.len : 128),
              word.at == NULL ? "" : word.at);
}

/* As Rust reads an i64: digits behind an optional sign, zeros in front or not. */
static bool read_integer(struct slice word, int64_t *out)
{
    bool is_negative = word.len > 0 && word.at[0] == '-';
    size_t at = word.len > 0 && (is_negative || word.at[0] == '+');
    uint64_t most = (uint64_t)INT64_MAX + is_negative, number = 0;
    if (at == word.len)
        return false;
    for (; at < word.len; at++) {
        unsigned digit = (unsigned)(word.at[at] - '0');
        if (digit > 9 || number > (most - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *out = is_negative ? (int64_t)(0 - number) : (int64_t)number;
    return true;
}

static bool read_numbers(struct resp_request *request, struct throttle *out)
{
    int64_t *numbers[] = { &out->max_burst, &out->count, &out->period, &out->quantity };
    out->quantity = 1;
    for (size_t i = 2; i < request->count; i++) {
        if (!read_integer(request->words[i], numbers[i - 2])) {
            fail(request, "Couldn't parse as integer: ", request->words[i]);
            return false;
        }
        if (*numbers[i - 2] < 0) {
            fail(request, "Must not be negative: ", request->words[i]);
            return false;
        }
    }
    if (out->count == 0 || out->period == 0) {
        fail(request, "Zero rates are not supported", SLICE(""));
        return false;
    }
    return true;
}

/* A product of what came with a request; false: it does not fit. */
static bool multiply(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Nanoseconds of a token, rounded up; UINT64_MAX where that is too many. */
static uint64_t interval_of(uint64_t period, uint64_t count)
{
    uint64_t length;
    if (multiply(period, SECOND, &length) && length <= UINT64_MAX - count)
        return (length + count - 1) / count;
    weir_u128_ interval = ((weir_u128_)period * SECOND + count - 1) / count;
    return interval > UINT64_MAX ? UINT64_MAX : (uint64_t)interval;
}

/* Everything in nanoseconds. False: it is more time than fits. */
static bool measure(struct throttle *throttle)
{
    throttle->interval = interval_of((uint64_t)throttle->period, (uint64_t)throttle->count);
    throttle->limit = (uint64_t)throttle->max_burst + 1;
    if (!multiply(throttle->interval, throttle->limit, &throttle->tolerance)
        || throttle->tolerance > WEIR_THROTTLE_MAX)
        return false;
    if (!multiply(throttle->interval, (uint64_t)throttle->quantity, &throttle->cost)
        || throttle->cost > throttle->tolerance)
        throttle->cost = throttle->tolerance + 1; /* never */
    return true;
}

/* Seconds from now, rounded up. An instant beyond the horizon is not known, but `missing` is: a token is a nanosecond. */
static int64_t seconds_until(weir_ns at, weir_ns now, uint64_t missing)
{
    weir_ns length = at == WEIR_NO_TIME ? missing : at > now ? at - now : 0;
    return (int64_t)(length / SECOND + (length % SECOND != 0));
}

static void answer(struct resp_request *request, const struct throttle *throttle,
                   const struct weir_decision *decision)
{
    weir_ns now = request->turn->now;
    bool passes = decision->outcome == WEIR_ALLOW || decision->outcome == WEIR_UNMETERED;
    uint64_t remaining = decision->remaining;
    uint64_t missing = throttle->cost > remaining ? throttle->cost - remaining : 0;
    struct text *out = resp_begin(request);
    resp_put_array(out, 5);
    resp_put_integer(out, passes ? 0 : 1);
    resp_put_integer(out, (int64_t)throttle->limit);
    resp_put_integer(out, (int64_t)(remaining / throttle->interval));
    resp_put_integer(
        out, passes || decision->outcome == WEIR_NEVER ? -1 : seconds_until(decision->retry_at, now, missing));
    resp_put_integer(out, seconds_until(decision->reset_at, now, throttle->tolerance - remaining));
    turn_end(request->turn, passes ? 200 : 429, out);
}

void resp_throttle(struct resp_request *request)
{
    struct throttle throttle;
    struct weir_decision decision;
    struct slice key = request->count > 1 ? request->words[1] : SLICE("");
    if (request->count < 5 || request->count > 6) {
        fail(request, "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]",
             SLICE(""));
        return;
    }
    if (!read_numbers(request, &throttle))
        return;
    if (!measure(&throttle)) {
        fail(request, "More time than fits: max_burst + 1 tokens take longer than 146 years", SLICE(""));
        return;
    }
    int code =
        weir_contract_throttle(request->turn->conn->worker->server->contract, key.at, key.len, throttle.cost,
                               throttle.tolerance, throttle.quantity == 0, request->turn->now, &decision);
    if (code != 0)
        fail(request, weir_error_text(code), SLICE(""));
    else if (decision.outcome == WEIR_REFUSED)
        fail(request, "Failed to update rate limit after 5 attempts", SLICE(""));
    else
        answer(request, &throttle, &decision);
    worker_decided(request->turn->conn->worker, DOOR_RESP_THROTTLE);
}
