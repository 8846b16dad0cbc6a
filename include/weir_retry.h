// SPDX-License-Identifier: Apache-2.0
/*
 * weir_retry.h - when to ask a limited service again, and when to give up. Header-only, no libc, no allocation.
 *
 *     static struct weir_retry_budget budget = WEIR_RETRY_BUDGET_FULL;     // one for all requests to that service
 *     static const struct weir_retry_options options = { .budget = &budget };
 *     struct weir_retry retry;
 *     weir_ns at;
 *
 *     weir_retry_init(&retry, &options, weir_now() + 30 * WEIR_SECOND);
 *     do {
 *         struct response response = send_request();
 *         reply = weir_reply_from_status(response.status);
 *         retry_after = weir_retry_after(response.retry_after, response.retry_after_len, unix_time_ns());
 *     } while (weir_retry_next(&retry, reply, retry_after, weir_now(), random_u64(), &at) == WEIR_RETRY_AT
 *              && sleep_until(at));
 *
 * For the clients of any service that limits its callers, of weir or of anything else that answers 429.
 *
 * Idea: a limit protects what is behind it, and careless retries still burn what is in front of it. Four bounds together
 * keep a client harmless: few attempts of one request; never earlier than the server said, and not all at the same instant
 * (jitter goes on top of Retry-After, never below it); nothing that the caller's deadline makes useless; and a budget that
 * many requests share, so that a service that refuses everything is asked hardly more than once per request.
 *
 * Keeps P41: of one request at most options.attempts attempts, none before its Retry-After, none after its deadline, none
 * after an answer that no wait can change; of all requests that share a budget
 *
 *     attempts <= (1 + ratio / 1000) * first attempts + per_second * time + max_tokens / 2.
 *
 * Pure: time and random bits are arguments; nothing here reads a clock, draws a random number or sleeps. Instants are ns of
 * any one monotonic clock of yours, such as weir_now(). Integers only. Sums and products saturate, and WEIR_NO_TIME is an
 * instant that never comes.
 *
 * Retry in one layer only: k layers of a attempts each make a^k (three of three: 27).
 *
 * Threads: a struct weir_retry belongs to one request, and to one thread at a time; options are only read; a budget may be
 * used by any number of threads at once. Also compiles as C++.
 */
#ifndef WEIR_CLIENT_RETRY_H
#define WEIR_CLIENT_RETRY_H

#include <stddef.h>

#include "weir_bucket.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What came back ---------------------------------------------------------------------------------------- */

/* How an attempt ended, as far as asking again goes. */
enum weir_reply {
    WEIR_REPLY_ALLOWED, /* it passed: 2xx */
    WEIR_REPLY_DENIED,  /* refused for now: 429, WEIR_DENY */
    WEIR_REPLY_UNDECIDED, /* nothing was done, by no fault of the request: 503, WEIR_REFUSED, a connection refused */
    WEIR_REPLY_LOST,      /* sent, and nobody knows what came of it: a time-out, a cut connection, 502, 504 */
    WEIR_REPLY_NEVER, /* no wait can help: WEIR_NEVER, a server that says not to retry */
    WEIR_REPLY_FINAL, /* an answer to act upon rather than to repeat: 400, 401, 404, 500, ... */
    WEIR_REPLY_COUNT
};

/*
 * The reply that an HTTP status means, from status and nothing else: 2xx and 3xx pass, 429 is denied, 503 undecided; 408,
 * 502 and 504 are lost; all others are final. 0, "there was no reply", is lost. A client that knows more says more: weir's
 * 429 with "decision": "never" is WEIR_REPLY_NEVER. Threads: pure.
 */
static inline enum weir_reply weir_reply_from_status(unsigned status);

/* The same of a decision of weir.h: ALLOW, WAIT, DUPLICATE and UNMETERED pass. Threads: pure. */
static inline enum weir_reply weir_reply_from_outcome(enum weir_outcome outcome);

/*
 * Read the value of a Retry-After field (RFC 9110 section 10.2.3).
 *
 *   value, len  as received, blanks around it allowed. Borrowed; NULL: the field was absent.
 *   unix_now    your wall clock in ns since 1970, for values that are an HTTP date; a date that is over means 0. Better
 *               still the instant of the response's Date field, since then the clocks need not agree. 0: you have no such
 *               clock, and a date is not understood.
 *
 * Returns the length to wait in ns, exact, and saturated just below WEIR_NO_TIME; or WEIR_NO_TIME where the value is absent
 * or neither 1*DIGIT nor a date in one of the three forms of section 5.6.7: a signed number, a fraction and a unit are not.
 * Threads: pure. Cost: proportional to len, at most some dozens of bytes beyond the digits.
 */
static inline weir_ns weir_retry_after(const char *value, size_t len, uint64_t unix_now);

/* ---- The budget of many requests ---------------------------------------------------------------------------- */

/*
 * Tokens that retries are paid from, shared by all requests to one service (gRPC's proposal A6, with a minimum over time as
 * in Finagle's RetryBudget). It starts with max_tokens. Every failed attempt takes one token, down to none; every success
 * gives back ratio / 1000 of one, and every second per_second tokens, up to max_tokens. A retry may be sent only while more
 * than half of max_tokens is left. So a failure now and then is retried, and a service that refuses most requests soon gets
 * first attempts alone; P41's sum above says how many at most. First attempts are never held back.
 */
struct weir_retry_budget {
    uint32_t max_tokens; /* 1..1000 */
    uint32_t ratio;      /* thousandths of a token per success, 0..1000: the beta of the bound */
    uint32_t per_second; /* tokens per second, 0..1000: so that a client with few requests may retry at all */
    uint64_t word;       /* the state, 0 at the start; only the functions below touch it */
};

/* gRPC's usual numbers: 10 tokens, a tenth of one per success. */
#define WEIR_RETRY_BUDGET_FULL \
    { \
        10, 100, 0, 0 \
    }

/*
 * Count an attempt that failed or one that succeeded: what weir_retry_next() does by itself. For clients with a loop of
 * their own, and for attempts that are not retried at all.
 *
 *   now  ns of one clock for all users of the budget; not used where per_second is 0. Stamps out of order mint nothing.
 *
 * weir_retry_budget_failure() returns whether a retry may be sent. Threads: any, lock-free; one exchange when uncontended.
 */
static inline bool weir_retry_budget_failure(struct weir_retry_budget *budget, weir_ns now);
static inline void weir_retry_budget_success(struct weir_retry_budget *budget, weir_ns now);

/* What is left at `now`, in thousandths of a token. Threads: any. */
static inline uint64_t weir_retry_budget_left(const struct weir_retry_budget *budget, weir_ns now);

/* ---- One request --------------------------------------------------------------------------------------------- */

/* How the wait before attempt k + 1 is drawn (k = 1, 2, ...) where the server did not say how long. After M. Brooker,
   "Exponential backoff and jitter". */
enum weir_jitter {
    WEIR_JITTER_FULL,         /* from 0 to min(cap, base * 2^(k-1)): fewest attempts in all */
    WEIR_JITTER_DECORRELATED, /* min(cap, from base to 3 * the one before), which is base at first: never below base */
};

/* How to retry. Made once, read by any number of requests. All zero is usable: it means the defaults. */
struct weir_retry_options {
    uint32_t attempts;       /* most attempts of one request, the first included; 0: 3 */
    enum weir_jitter jitter; /* WEIR_JITTER_FULL */
    weir_ns base;            /* the first backoff; 0: 100 ms */
    weir_ns cap;             /* the longest backoff; 0: 10 s. It does not shorten a Retry-After */
    weir_ns
        spread; /* with a Retry-After: the most that is added to it. 0: the larger of Retry-After / 4 and the most that
                       the backoff could be now, so that those who were told the same instant do not come back together */
    bool
        is_repeatable; /* doing the request twice is as good as doing it once, or the server knows a retry by its id:
                           only then is WEIR_REPLY_LOST tried again */
    struct weir_retry_budget
        *budget; /* kept: must outlive the requests. NULL: none, and then P41 bounds each request
                                         alone */
};

/* What to do next. Everything but WEIR_RETRY_AT ends the request. */
enum weir_retry_verdict {
    WEIR_RETRY_AT,         /* send the next attempt, not before the instant that was given */
    WEIR_RETRY_DONE,       /* it passed */
    WEIR_GIVE_UP_ATTEMPTS, /* all attempts are used */
    WEIR_GIVE_UP_DEADLINE, /* the next attempt would come after the deadline */
    WEIR_GIVE_UP_BUDGET,   /* so many attempts failed lately that none may be repeated */
    WEIR_GIVE_UP_NEVER,    /* the same request can never pass */
    WEIR_GIVE_UP_FINAL,    /* it has its answer, and not one that passes with time */
    WEIR_GIVE_UP_LOST,     /* it may have been done, and must not be done twice */
    WEIR_RETRY_VERDICT_COUNT
};

/* One request under way. Plain: may be copied, and simply forgotten. */
struct weir_retry {
    const struct weir_retry_options *options;
    weir_ns deadline;
    weir_ns backoff;   /* the one before, for WEIR_JITTER_DECORRELATED */
    uint32_t attempts; /* that have come back */
};

/*
 * Begin a request, before its first attempt.
 *
 *   options   kept until the request ends; not NULL.
 *   deadline  the last instant at which an attempt may still begin: when your own caller gives up, less the time that an
 *             answer takes. WEIR_NO_TIME: none.
 */
static inline void weir_retry_init(struct weir_retry *retry, const struct weir_retry_options *options,
                                   weir_ns deadline);

/*
 * Say what an attempt came back with, and learn what to do next. Exactly one call for each attempt, the last one too: the
 * budget counts successes.
 *
 *   reply        how it ended.
 *   retry_after  ns from now that the server told you to wait; 0 means "now". WEIR_NO_TIME: it named none (for weir's JSON:
 *                `retry_after` is null). Heard with every reply that is tried again.
 *   now          your monotonic clock when the reply came.
 *   random       64 fresh random bits of any good generator, different in every client.
 *   next_at      written only with WEIR_RETRY_AT: at least now + retry_after, at most the deadline.
 *
 * The wait is drawn from what the deadline leaves: it shortens jitter, never Retry-After. Where even the earliest instant
 * lies beyond the deadline the answer is WEIR_GIVE_UP_DEADLINE at once, rather than after a wait in vain.
 *
 * Threads: one at a time per request. Cost: some multiplications, and one exchange in the budget.
 */
static inline enum weir_retry_verdict weir_retry_next(struct weir_retry *retry, enum weir_reply reply,
                                                      weir_ns retry_after, weir_ns now, uint64_t random,
                                                      weir_ns *next_at);

/* A verdict in a word for logs: "retry", "done", "attempts", "deadline", "budget", "never", "final", "lost"; NULL for none. */
static inline const char *weir_retry_verdict_name(enum weir_retry_verdict verdict);

/* An integer from low to high, both included: low where high is below it. (One multiplication; the bias is below
   (high - low + 1) / 2^64.) Threads: pure. */
static inline uint64_t weir_retry_draw(uint64_t low, uint64_t high, uint64_t random);

/* ---- Pacing -------------------------------------------------------------------------------------------------- */

/*
 * How far apart to send requests, by what a reply's RateLimit field says is left (draft-ietf-httpapi-ratelimit-headers).
 *
 *   interval   ns between two requests as you would send them by yourself.
 *   remaining  `r`, the units left for these requests.
 *   after      `t` in ns, until more becomes available; WEIR_NO_TIME: the field has none.
 *
 * Returns the larger of `interval` and after / remaining (after itself where nothing remains), rounded up. It only ever
 * slows down: a large `r` is no promise and no invitation. Ignore fields of a reply that came from a cache, and wait for
 * Retry-After rather than for this where a reply has both. Threads: pure.
 */
static inline weir_ns weir_retry_pace(weir_ns interval, uint64_t remaining, weir_ns after);

/* ======================================= How it works ========================================================= */

static inline uint64_t weir_retry_add_(uint64_t x, uint64_t y)
{
    return x > UINT64_MAX - y ? UINT64_MAX : x + y;
}

static inline uint64_t weir_retry_times_(uint64_t x, uint64_t y)
{
    return y != 0 && x > UINT64_MAX / y ? UINT64_MAX : x * y;
}

static inline uint64_t weir_retry_least_(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

static inline uint64_t weir_retry_most_(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}

static inline uint64_t weir_retry_draw(uint64_t low, uint64_t high, uint64_t random)
{
    if (high <= low)
        return low;
    /* The product is below 2^64 * (high - low + 1), so its upper half is at most high - low, also for all of 2^64. */
    return low + (uint64_t)(((weir_u128_)random * ((weir_u128_)(high - low) + 1)) >> 64);
}

/* ---- Replies ---- */

static inline enum weir_reply weir_reply_from_status(unsigned status)
{
    if (status >= 200 && status < 400)
        return WEIR_REPLY_ALLOWED;
    if (status == 429)
        return WEIR_REPLY_DENIED;
    if (status == 503)
        return WEIR_REPLY_UNDECIDED;
    return status == 0 || status == 408 || status == 502 || status == 504 ? WEIR_REPLY_LOST : WEIR_REPLY_FINAL;
}

static inline enum weir_reply weir_reply_from_outcome(enum weir_outcome outcome)
{
    switch (outcome) {
    case WEIR_ALLOW:
    case WEIR_WAIT:
    case WEIR_DUPLICATE:
    case WEIR_UNMETERED:
        return WEIR_REPLY_ALLOWED;
    case WEIR_DENY:
        return WEIR_REPLY_DENIED;
    case WEIR_REFUSED:
        return WEIR_REPLY_UNDECIDED;
    case WEIR_NEVER:
        return WEIR_REPLY_NEVER;
    case WEIR_OUTCOME_COUNT:
        break;
    }
    return WEIR_REPLY_FINAL;
}

/* ---- The budget ----
 *
 * Words     One. It is GCRA's instant at which the budget is full again, counted in thousandths of a token: the clock passes
 *           per_second * 1000 of them in a second, or none. What is missing is word - clock, where that is above 0.
 * Ordering  relaxed. The word is the whole state, and nothing else is published by it.
 * Progress  lock-free: a lost exchange means that another count was recorded.
 *
 * The bound: a retry is sent only after a failure moved the word 1000 up, to less than max / 2 above the clock. So the moves
 * of all retries between two instants fit into max / 2, the clock's way between them and what successes took back. A failure
 * that stops at the full deficit paid for no retry.
 */
static inline uint64_t weir_retry_clock_(const struct weir_retry_budget *budget, weir_ns now)
{
    /* Thousandths of a token in `now`, rounded down: below 1.9e13 * 1000 + 1000, so nothing overflows. */
    return now / 1000000 * budget->per_second + now % 1000000 * budget->per_second / 1000000;
}

static inline uint64_t weir_retry_missing_(const struct weir_retry_budget *budget, uint64_t word, weir_ns now)
{
    uint64_t clock = weir_retry_clock_(budget, now);
    return word > clock ? word - clock : 0;
}

static inline bool weir_retry_budget_failure(struct weir_retry_budget *budget, weir_ns now)
{
    uint64_t clock = weir_retry_clock_(budget, now);
    uint64_t full = UINT64_C(1000) * budget->max_tokens;
    uint64_t word = __atomic_load_n(&budget->word, __ATOMIC_RELAXED);
    uint64_t next;
    do {
        next = weir_retry_least_(weir_retry_most_(word, clock) + 1000, clock + full);
        next = weir_retry_most_(next, word); /* of an older stamp: what is missing stays missing */
    } while (
        !__atomic_compare_exchange_n(&budget->word, &word, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return 2 * weir_retry_missing_(budget, next, now) < full;
}

static inline void weir_retry_budget_success(struct weir_retry_budget *budget, weir_ns now)
{
    uint64_t clock = weir_retry_clock_(budget, now);
    uint64_t word = __atomic_load_n(&budget->word, __ATOMIC_RELAXED);
    uint64_t next;
    do {
        if (word <= clock) /* it is full */
            return;
        next = word - weir_retry_least_(word, budget->ratio); /* below the clock is as full as at it */
    } while (
        !__atomic_compare_exchange_n(&budget->word, &word, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static inline uint64_t weir_retry_budget_left(const struct weir_retry_budget *budget, weir_ns now)
{
    uint64_t word = __atomic_load_n(&budget->word, __ATOMIC_RELAXED);
    uint64_t full = UINT64_C(1000) * budget->max_tokens;
    return full - weir_retry_least_(full, weir_retry_missing_(budget, word, now));
}

/* ---- One request ---- */

static inline void weir_retry_init(struct weir_retry *retry, const struct weir_retry_options *options,
                                   weir_ns deadline)
{
    retry->options = options;
    retry->deadline = deadline;
    retry->backoff = 0;
    retry->attempts = 0;
}

/*
 * Where the next attempt's instant is drawn from: from `first` to `last`, the backoff alone or what a Retry-After says. One
 * draw of `random` serves both the instant and, with a Retry-After, the backoff that the next one is derived from.
 */
static inline enum weir_retry_verdict weir_retry_schedule_(struct weir_retry *retry, weir_ns retry_after,
                                                           weir_ns now, uint64_t random, weir_ns *next_at)
{
    const struct weir_retry_options *options = retry->options;
    bool is_decorrelated = options->jitter == WEIR_JITTER_DECORRELATED;
    weir_ns cap = options->cap != 0 ? options->cap : 10 * WEIR_SECOND;
    weir_ns base = weir_retry_least_(options->base != 0 ? options->base : 100 * WEIR_MILLISECOND, cap);
    uint32_t doublings = retry->attempts - 1;
    weir_ns high = doublings >= 64 || base > cap >> doublings ? cap : base << doublings;
    if (is_decorrelated)
        high = weir_retry_times_(weir_retry_most_(retry->backoff, base), 3);

    weir_ns first = weir_retry_add_(now, is_decorrelated ? base : 0);
    weir_ns last = weir_retry_add_(now, high);
    weir_ns not_after = weir_retry_add_(now, cap);
    if (retry_after != WEIR_NO_TIME) {
        weir_ns most = weir_retry_most_(weir_retry_least_(high, cap), retry_after / 4);
        first = weir_retry_add_(now, retry_after);
        last = weir_retry_add_(first, options->spread != 0 ? options->spread : most);
        not_after = last;
    }
    if (first > retry->deadline || first == WEIR_NO_TIME)
        return WEIR_GIVE_UP_DEADLINE;
    last = weir_retry_least_(last, weir_retry_least_(retry->deadline, WEIR_NO_TIME - 1));
    *next_at = weir_retry_least_(weir_retry_draw(first, last, random), not_after);
    retry->backoff = retry_after == WEIR_NO_TIME ? *next_at - now
                                                 : weir_retry_least_(cap, weir_retry_draw(base, high, random));
    return WEIR_RETRY_AT;
}

static inline enum weir_retry_verdict weir_retry_next(struct weir_retry *retry, enum weir_reply reply,
                                                      weir_ns retry_after, weir_ns now, uint64_t random,
                                                      weir_ns *next_at)
{
    const struct weir_retry_options *options = retry->options;
    if (retry->attempts < UINT32_MAX)
        retry->attempts++;
    if (reply == WEIR_REPLY_ALLOWED) {
        if (options->budget != NULL)
            weir_retry_budget_success(options->budget, now);
        return WEIR_RETRY_DONE;
    }
    if (reply == WEIR_REPLY_NEVER)
        return WEIR_GIVE_UP_NEVER;
    if (reply != WEIR_REPLY_DENIED && reply != WEIR_REPLY_UNDECIDED && reply != WEIR_REPLY_LOST)
        return WEIR_GIVE_UP_FINAL;

    /* Counted whether or not this request goes on: others learn from it that the service refuses. */
    bool has_budget = options->budget == NULL || weir_retry_budget_failure(options->budget, now);
    if (reply == WEIR_REPLY_LOST && !options->is_repeatable)
        return WEIR_GIVE_UP_LOST;
    if (retry->attempts >= (options->attempts != 0 ? options->attempts : 3))
        return WEIR_GIVE_UP_ATTEMPTS;
    if (!has_budget)
        return WEIR_GIVE_UP_BUDGET;
    return weir_retry_schedule_(retry, retry_after, now, random, next_at);
}

static inline const char *weir_retry_verdict_name(enum weir_retry_verdict verdict)
{
    switch (verdict) {
    case WEIR_RETRY_AT:
        return "retry";
    case WEIR_RETRY_DONE:
        return "done";
    case WEIR_GIVE_UP_ATTEMPTS:
        return "attempts";
    case WEIR_GIVE_UP_DEADLINE:
        return "deadline";
    case WEIR_GIVE_UP_BUDGET:
        return "budget";
    case WEIR_GIVE_UP_NEVER:
        return "never";
    case WEIR_GIVE_UP_FINAL:
        return "final";
    case WEIR_GIVE_UP_LOST:
        return "lost";
    case WEIR_RETRY_VERDICT_COUNT:
        break;
    }
    return NULL;
}

static inline weir_ns weir_retry_pace(weir_ns interval, uint64_t remaining, weir_ns after)
{
    if (after == WEIR_NO_TIME)
        return interval;
    if (remaining == 0)
        return weir_retry_most_(interval, after);
    return weir_retry_most_(interval, after / remaining + (after % remaining != 0));
}

/* ---- Retry-After ---- */

/* Whether `text` begins with the first `count` bytes of `word`. */
static inline bool weir_retry_begins_(const char *text, size_t len, const char *word, size_t count)
{
    if (len < count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (text[i] != word[i])
            return false;
    return true;
}

/* The place of the three letters at `text` in a row of such names; `count` where they are none of them. */
static inline uint32_t weir_retry_find_(const char *text, const char *names, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && !weir_retry_begins_(text, 3, names + 3 * (size_t)i, 3))
        i++;
    return i;
}

/* A date's numbers as they are written; month 0..11. */
struct weir_retry_date_ {
    uint32_t year, month, day, hour, minute, second;
};

/* Read `text` by a form: a letter of "YDhms" is a digit of that number, bbb a month, `_` a blank or a digit of the day, and
   anything else itself. */
static inline bool weir_retry_scan_(const char *text, size_t len, const char *form,
                                    struct weir_retry_date_ *date)
{
    size_t at = 0;
    for (; form[at] != '\0'; at++) {
        if (at >= len)
            return false;
        uint32_t *into = form[at] == 'Y'                      ? &date->year
                         : form[at] == 'D' || form[at] == '_' ? &date->day
                         : form[at] == 'h'                    ? &date->hour
                         : form[at] == 'm'                    ? &date->minute
                         : form[at] == 's'                    ? &date->second
                                                              : NULL;
        if (form[at] == 'b') {
            date->month =
                len - at < 3 ? 12 : weir_retry_find_(text + at, "JanFebMarAprMayJunJulAugSepOctNovDec", 12);
            if (date->month == 12)
                return false;
            at += 2;
        } else if (into != NULL && text[at] >= '0' && text[at] <= '9') {
            *into = *into * 10 + (uint32_t)(text[at] - '0');
        } else if (form[at] == '_' ? text[at] != ' ' : into != NULL || text[at] != form[at]) {
            return false;
        }
    }
    return at == len;
}

/* Seconds since 1970; false for a day or a time that there is not. Years before 1970 are 0. A leap second is the one after. */
static inline bool weir_retry_seconds_(const struct weir_retry_date_ *date, uint64_t *out)
{
    static const uint32_t days_before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };
    uint32_t year = date->year;
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    uint32_t days = days_before[date->month + 1] - days_before[date->month] + (is_leap && date->month == 1);
    if (date->day < 1 || date->day > days || date->hour > 23 || date->minute > 59 || date->second > 60)
        return false;
    *out = 0;
    if (year < 1970)
        return true;
    uint64_t past = year - 1; /* whole years since the year 1, of which 477 leap days lie before 1970 */
    uint64_t day = UINT64_C(365) * (year - 1970) + past / 4 - past / 100 + past / 400 - 477;
    day += days_before[date->month] + (is_leap && date->month > 1) + date->day - 1;
    *out = day * 86400 + date->hour * UINT64_C(3600) + date->minute * UINT64_C(60) + date->second;
    return true;
}

/* The year that the last two digits mean: not more than 50 years ahead (RFC 9110 section 5.6.7), and less than 50 behind. */
static inline uint32_t weir_retry_century_(uint32_t digits, uint64_t unix_now)
{
    uint32_t now = 1970 + (uint32_t)(unix_now / WEIR_SECOND / 31556952); /* a mean year */
    uint32_t year = now - now % 100 + digits;
    return year > now + 50 ? year - 100 : year + 50 <= now ? year + 100 : year;
}

/* IMF-fixdate, and the two forms that are obsolete but must be understood, as seconds since 1970. */
static inline bool weir_retry_http_date_(const char *text, size_t len, uint64_t unix_now, uint64_t *out)
{
    /* Behind the three letters that all day names begin with. */
    static const char *const rests[] = { "day", "sday", "nesday", "rsday", "day", "urday", "day" };
    static const size_t lengths[] = { 3, 4, 6, 5, 3, 5, 3 };
    struct weir_retry_date_ date = { 0, 0, 0, 0, 0, 0 };
    uint32_t name = len < 3 ? 7 : weir_retry_find_(text, "MonTueWedThuFriSatSun", 7);
    if (name == 7)
        return false;
    text += 3;
    len -= 3;
    if (weir_retry_begins_(text, len, rests[name], lengths[name])) {
        if (!weir_retry_scan_(text + lengths[name], len - lengths[name], ", DD-bbb-YY hh:mm:ss GMT", &date))
            return false;
        date.year = weir_retry_century_(date.year, unix_now);
    } else if (len > 0 && text[0] == ',') {
        if (!weir_retry_scan_(text, len, ", DD bbb YYYY hh:mm:ss GMT", &date))
            return false;
    } else if (!weir_retry_scan_(text, len, " bbb _D hh:mm:ss YYYY", &date)) {
        return false;
    }
    return weir_retry_seconds_(&date, out);
}

static inline weir_ns weir_retry_after(const char *value, size_t len, uint64_t unix_now)
{
    uint64_t seconds = 0;
    size_t at = 0;
    if (value == NULL)
        return WEIR_NO_TIME;
    while (len > 0 && (value[0] == ' ' || value[0] == '\t')) {
        value++;
        len--;
    }
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        len--;
    for (; at < len && value[at] >= '0' && value[at] <= '9'; at++)
        seconds = weir_retry_add_(weir_retry_times_(seconds, 10), (uint64_t)(value[at] - '0'));
    if (at > 0 && at == len)
        return weir_retry_least_(weir_retry_times_(seconds, WEIR_SECOND), WEIR_NO_TIME - 1);
    if (unix_now == 0 || !weir_retry_http_date_(value, len, unix_now, &seconds))
        return WEIR_NO_TIME;
    weir_ns instant = weir_retry_least_(weir_retry_times_(seconds, WEIR_SECOND), WEIR_NO_TIME - 1);
    return instant > unix_now ? instant - unix_now : 0;
}

#ifdef __cplusplus
}
#endif

#endif
