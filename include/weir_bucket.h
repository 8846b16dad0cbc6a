// SPDX-License-Identifier: Apache-2.0
/*
 * weir_bucket.h - one token bucket in one 8-byte word. Header-only, no libc, no allocation.
 *
 *     static const weir_rate login = WEIR_RATE(5, WEIR_SECOND, 20);    // 5 per second, at most 20 at once
 *     weir_bucket bucket = WEIR_BUCKET_FULL;
 *
 *     if (weir_bucket_take(&bucket, &login, now, 1).outcome == WEIR_ALLOW)
 *         serve();
 *
 * Idea: instead of a token count and a refill time, remember the instant at which the bucket will be full
 * again (GCRA's theoretical arrival time, ITU-T I.371). A request moves that instant later and may pass while
 * it stays within one burst of now. The instant is counted in ticks, `m` of them to a token, and m is chosen so
 * that nearly every limit has a whole number of ticks in a nanosecond: then nothing is ever rounded. Where no
 * such m fits in 62 bits, m is a power of two and every rounding goes against the caller.
 *
 * Keeps G1: in every interval of length x the admitted cost is at most burst + rate * x, exactly, for any order
 * of stamps and any number of threads; G2: a refusal leaves the word as it was, bit for bit; G3: the retry time
 * reported here succeeds if nobody else called, and one nanosecond earlier fails.
 *
 * Two habits differ from textbook models that raise an error when time goes back or a cost is zero. An older
 * stamp than one already used is an ordinary thing between threads: it makes the answer stricter and mints
 * nothing, so there is nothing to raise. A cost of zero is a look: it is answered and it writes nothing.
 *
 * Stamps are your monotonic clock in nanoseconds counted from an origin of your choice (program start will do).
 * They must stay below WEIR_HORIZON; a later one is answered WEIR_REFUSED, never wrapped. CLOCK_REALTIME in
 * nanoseconds lies beyond it: subtract an origin first.
 *
 * Threads: functions ending in _shared may be called by any number of threads on one bucket; the others need
 * the caller's own exclusion. A weir_rate is never written after it was made.
 *
 * Also compiles as C++. Needs a compiler with unsigned __int128 (gcc, clang on 64-bit targets).
 */
#ifndef WEIR_BUCKET_H
#define WEIR_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Time ---------------------------------------------------------------------------------------------- */

/* An instant or a length in nanoseconds. */
typedef uint64_t weir_ns;

#define WEIR_MICROSECOND UINT64_C(1000)
#define WEIR_MILLISECOND UINT64_C(1000000)
#define WEIR_SECOND UINT64_C(1000000000)
#define WEIR_MINUTE (60 * WEIR_SECOND)
#define WEIR_HOUR (60 * WEIR_MINUTE)
#define WEIR_DAY (24 * WEIR_HOUR)
#define WEIR_WEEK (7 * WEIR_DAY)

/* The instant that never comes: nothing refills, or the wait ends beyond the horizon. */
#define WEIR_NO_TIME UINT64_MAX

/* The longest time one set of buckets lives: ten mean years. The test suite shrinks it, with the budgets below. */
#ifndef WEIR_HORIZON
#define WEIR_HORIZON (UINT64_C(315569520) * WEIR_SECOND)
#endif

/*
 * A state word has 64 bits, of which the highest is a flag of the keyed store. The instant now may use
 * WEIR_WORD_BITS of them and so may the level above it; their sum then fits below the flag.
 */
#ifndef WEIR_WORD_BITS
#define WEIR_WORD_BITS 62
#endif

/* ---- Answers ------------------------------------------------------------------------------------------- */

/* Every answer that weir gives, at every door. "Denied" is an answer; UNMETERED and REFUSED mean undecided. */
enum weir_outcome {
    WEIR_ALLOW,     /* passes, and was charged unless the cost was 0 or this was a peek */
    WEIR_WAIT,      /* passes at a later instant, which is already reserved */
    WEIR_DENY,      /* does not pass now; a later retry can */
    WEIR_NEVER,     /* the cost is above the capacity: no wait can help */
    WEIR_DUPLICATE, /* a retry of a request that was already answered: the first answer again */
    WEIR_UNMETERED, /* could not decide; the limit's policy lets it pass */
    WEIR_REFUSED,   /* could not decide; the limit's policy stops it */
    WEIR_OUTCOME_COUNT
};

/* ---- A rate: how fast and how much at once -------------------------------------------------------------- */

/*
 * What a bucket is decided by: made by WEIR_RATE or weir_rate_init(), constant afterwards. The fields are
 * readable but belong to the arithmetic.
 */
typedef struct weir_rate {
    uint64_t burst;      /* tokens of a full bucket, the most that passes at once */
    uint64_t ticks;      /* m: ticks of one token, at least 1 */
    uint64_t per_b;      /* a: a/b ticks pass in one nanosecond */
    uint64_t b;          /* 1 where a nanosecond is a whole number of ticks ("exact"), so nothing is rounded */
    uint64_t reciprocal; /* floor(a * 2^shift / b), at least 2^63; 0: divide instead */
    uint32_t shift;
} weir_rate;

__extension__ typedef unsigned __int128 weir_u128_;

/*
 * A rate as a constant initializer, checked by the compiler: a pair that cannot be represented is an array of
 * negative size. `count` tokens per `period` nanoseconds, at most `burst` at once; count 0 never refills.
 *
 * A constant expression cannot run Euclid's algorithm, so common factors 2, 3, 5 and 7 are divided out, which
 * is all that times are made of. Where that leaves a rate inexact, its conversions divide by b;
 * weir_rate_init() makes the same rate with a reciprocal instead.
 */
#define WEIR_RATE(count, period, burst) \
    { \
        (burst), \
            WEIR_TICKS_(count, period, burst) + 0 * sizeof(char[WEIR_FITS_(count, period, burst) ? 1 : -1]), \
            (count) == 0 ? 0 \
            : WEIR_IS_EXACT_(count, period, burst) \
                ? WEIR_N_(count, period) \
                : WEIR_N_(count, period) << WEIR_LOG2_(WEIR_CAP_(count, period, burst)), \
            (count) == 0 || WEIR_IS_EXACT_(count, period, burst) ? 1 : WEIR_P_(count, period), 0, 0 \
    }

/*
 * Make a rate at run time.
 *
 *   count   tokens that come back in one period; 0 never refills.
 *   period  ns, 1 .. WEIR_HORIZON.
 *   burst   tokens of a full bucket; 0 answers every request with WEIR_NEVER.
 *
 * Returns true, or false and leaves *rate alone when no tick can be found: more than about 14 tokens a
 * nanosecond, or a burst above 2^62. Threads: pure. Source: docs/algorithms.md (choice of
 * m); the reciprocal is after Barrett, 1986.
 */
static inline bool weir_rate_init(weir_rate *rate, uint64_t count, weir_ns period, uint64_t burst);

/* The same for a bucket that may be overdrawn: its level can reach burst + overdraft tokens. */
static inline bool weir_rate_init_overdraft(weir_rate *rate, uint64_t count, weir_ns period, uint64_t burst,
                                            uint64_t overdraft);

/* ---- A bucket ------------------------------------------------------------------------------------------- */

/* The instant, in ticks of the rate, at which the bucket is full. The origin, or any past instant, is full. */
typedef struct weir_bucket {
    uint64_t full_at;
} weir_bucket;

#define WEIR_BUCKET_FULL \
    { \
        0 \
    }

/* An answer, and the word that explains it: the new one where something was charged, else the one seen. */
typedef struct weir_verdict {
    enum weir_outcome outcome; /* ALLOW, DENY, NEVER; REFUSED where now is beyond WEIR_HORIZON */
    uint64_t full_at;
} weir_verdict;

/*
 * Take `cost` tokens now, or nothing at all.
 *
 *   bucket  changed only when the answer is WEIR_ALLOW and cost is above 0.
 *   rate    the same one at every call on this bucket: words of different rates cannot be compared.
 *   now     ns since your origin, 0 .. WEIR_HORIZON. Older than a stamp already used: stricter, mints nothing.
 *   cost    tokens; 0 looks; above the burst is WEIR_NEVER.
 *
 * Cost: one multiplication in exact mode, at most two and a correction otherwise. Keeps G1, G2.
 */
static inline weir_verdict weir_bucket_take(weir_bucket *bucket, const weir_rate *rate, weir_ns now,
                                            uint64_t cost);

/* The same for a bucket that threads share: lock-free, one 8-byte exchange when uncontended. */
static inline weir_verdict weir_bucket_take_shared(weir_bucket *bucket, const weir_rate *rate, weir_ns now,
                                                   uint64_t cost);

/* What weir_bucket_take() would answer; writes nothing. Safe on a shared bucket. */
static inline weir_verdict weir_bucket_peek(const weir_bucket *bucket, const weir_rate *rate, weir_ns now,
                                            uint64_t cost);

/* ---- Reading a verdict ---------------------------------------------------------------------------------- */

/* Whole tokens left at `now`, rounded down: taking them at the same instant succeeds. */
static inline uint64_t weir_rate_remaining(const weir_rate *rate, uint64_t full_at, weir_ns now);

/*
 * The first instant, not before now, at which `cost` passes if nobody else calls: exact, so one nanosecond
 * earlier it fails (G3). WEIR_NO_TIME: never, or beyond the horizon. A cost of 0 asks for one token.
 */
static inline weir_ns weir_rate_retry_at(const weir_rate *rate, uint64_t full_at, weir_ns now, uint64_t cost);

/* The first instant, not before now, at which the bucket is full. WEIR_NO_TIME: never, or beyond the horizon. */
static inline weir_ns weir_rate_full_at(const weir_rate *rate, uint64_t full_at, weir_ns now);

/* Ticks passed at `now`, rounded down; *inexact is set to 1 where something was cut off, else to 0. */
static inline uint64_t weir_rate_clock(const weir_rate *rate, weir_ns now, unsigned *inexact);

/*
 * The decision itself, pure: what `full_at` becomes when `cost` is taken at `now`. Every other call, the keyed
 * store's included, is a door to this one. *next is written in any case, equal to full_at where nothing changes.
 */
static inline enum weir_outcome weir_rate_decide(const weir_rate *rate, uint64_t full_at, weir_ns now,
                                                 uint64_t cost, uint64_t *next);

/* ======================================= How it works ==================================================== */

#define WEIR_WORD_LIMIT_ (UINT64_C(1) << WEIR_WORD_BITS)

/* Constant expressions for WEIR_RATE. Common powers of a prime, as a product of one factor per power. */
#define WEIR_BOTH_(n, p, d, f) ((n) % UINT64_C(d) == 0 && (p) % UINT64_C(d) == 0 ? UINT64_C(f) : 1)
#define WEIR_TWOS_(n, p) (UINT64_C(1) << __builtin_ctzll((uint64_t)(n) | (uint64_t)(p)))
#define WEIR_THREES_(n, p) \
    (WEIR_BOTH_(n, p, 3, 3) * WEIR_BOTH_(n, p, 9, 3) * WEIR_BOTH_(n, p, 27, 3) * WEIR_BOTH_(n, p, 81, 3) \
     * WEIR_BOTH_(n, p, 243, 3) * WEIR_BOTH_(n, p, 729, 3))
#define WEIR_FIVES_(n, p) \
    (WEIR_BOTH_(n, p, 5, 5) * WEIR_BOTH_(n, p, 25, 5) * WEIR_BOTH_(n, p, 125, 5) * WEIR_BOTH_(n, p, 625, 5) \
     * WEIR_BOTH_(n, p, 3125, 5) * WEIR_BOTH_(n, p, 15625, 5) * WEIR_BOTH_(n, p, 78125, 5) \
     * WEIR_BOTH_(n, p, 390625, 5) * WEIR_BOTH_(n, p, 1953125, 5) * WEIR_BOTH_(n, p, 9765625, 5) \
     * WEIR_BOTH_(n, p, 48828125, 5) * WEIR_BOTH_(n, p, 244140625, 5))
#define WEIR_SEVENS_(n, p) (WEIR_BOTH_(n, p, 7, 7) * WEIR_BOTH_(n, p, 49, 7))
#define WEIR_COMMON_(n, p) (WEIR_TWOS_(n, p) * WEIR_THREES_(n, p) * WEIR_FIVES_(n, p) * WEIR_SEVENS_(n, p))
#define WEIR_N_(n, p) ((uint64_t)(n) / WEIR_COMMON_(n, p))
#define WEIR_P_(n, p) ((uint64_t)(p) / WEIR_COMMON_(n, p))
#define WEIR_LOG2_(x) (63 - __builtin_clzll((uint64_t)(x) | 1))

/* The most ticks a token may have: the horizon must fit the word, and so must a burst. */
#define WEIR_TIME_CAP_(n, p) \
    (((weir_u128_)WEIR_P_(n, p) << WEIR_WORD_BITS) \
     / ((weir_u128_)((n) == 0 ? 1 : WEIR_N_(n, p)) * WEIR_HORIZON))
#define WEIR_LEVEL_CAP_(burst) ((weir_u128_)((WEIR_WORD_LIMIT_ - 1) / ((burst) == 0 ? 1 : (uint64_t)(burst))))
#define WEIR_CAP_(n, p, burst) \
    (WEIR_TIME_CAP_(n, p) < WEIR_LEVEL_CAP_(burst) ? WEIR_TIME_CAP_(n, p) : WEIR_LEVEL_CAP_(burst))
#define WEIR_IS_EXACT_(n, p, burst) (WEIR_P_(n, p) <= WEIR_CAP_(n, p, burst))
#define WEIR_FITS_(n, p, burst) \
    ((p) > 0 && (p) <= WEIR_HORIZON && WEIR_LEVEL_CAP_(burst) >= 1 && ((n) == 0 || WEIR_CAP_(n, p, burst) >= 1))
#define WEIR_TICKS_(n, p, burst) \
    ((n) == 0                      ? 1 \
     : WEIR_IS_EXACT_(n, p, burst) ? WEIR_P_(n, p) \
                                   : UINT64_C(1) << WEIR_LOG2_(WEIR_CAP_(n, p, burst)))

static inline uint64_t weir_gcd_(uint64_t x, uint64_t y)
{
    while (y != 0) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

static inline bool weir_rate_init(weir_rate *rate, uint64_t count, weir_ns period, uint64_t burst)
{
    return weir_rate_init_overdraft(rate, count, period, burst, 0);
}

static inline bool weir_rate_init_overdraft(weir_rate *rate, uint64_t count, weir_ns period, uint64_t burst,
                                            uint64_t overdraft)
{
    if (period == 0 || period > WEIR_HORIZON || burst >= WEIR_WORD_LIMIT_
        || overdraft >= WEIR_WORD_LIMIT_ - burst)
        return false;
    if (count == 0) {
        weir_rate still = { burst, 1, 0, 1, 0, 0 };
        *rate = still;
        return true;
    }

    uint64_t divisor = weir_gcd_(count, period);
    uint64_t n = count / divisor;
    uint64_t p = period / divisor;
    weir_u128_ time_cap = ((weir_u128_)p << WEIR_WORD_BITS) / ((weir_u128_)n * WEIR_HORIZON);
    uint64_t level = burst + overdraft;
    uint64_t level_cap = (WEIR_WORD_LIMIT_ - 1) / (level == 0 ? 1 : level);
    uint64_t cap = time_cap < level_cap ? (uint64_t)time_cap : level_cap;

    if (cap < 1)
        return false;
    if (p <= cap) {
        weir_rate exact = { burst, p, n, 1, 0, 0 };
        *rate = exact;
        return true;
    }

    /* Binary mode: m = 2^k, and a/b = n m / p in lowest terms. n and p share no factor, so only twos cancel. */
    unsigned k = (unsigned)WEIR_LOG2_(cap);
    unsigned twos = (unsigned)__builtin_ctzll(p);
    unsigned cancel = twos < k ? twos : k;
    uint64_t a = n << (k - cancel);
    uint64_t b = p >> cancel;

    /*
     * The reciprocal a * 2^shift / b as large as 64 bits hold, so at least 2^63. The clock stays below 2^62 up to
     * the horizon and b <= period <= horizon, so a < 2^62; hence a * 2^shift < 2^64 * b < 2^127. The guess is
     * right or one too high.
     */
    unsigned shift = 64 + (unsigned)WEIR_LOG2_(b) - (unsigned)WEIR_LOG2_(a);
    weir_u128_ reciprocal = ((weir_u128_)a << shift) / b;
    if (reciprocal >> 64 != 0) {
        shift -= 1;
        reciprocal = ((weir_u128_)a << shift) / b;
    }
    if (shift > 127)
        return false;
    weir_rate binary = { burst, UINT64_C(1) << k, a, b, (uint64_t)reciprocal, shift };
    *rate = binary;
    return true;
}

/*
 * floor(now * a / b). With the reciprocal the quotient is right or one too small (P46): a/b is under-estimated by
 * less than 2^-shift, and now < 2^62 * b/a keeps the error below one half; the remainder then tells which. It
 * is computed modulo 2^64, which is exact because it lies in [0, 2b) and b < 2^63.
 */
static inline uint64_t weir_rate_clock(const weir_rate *rate, weir_ns now, unsigned *inexact)
{
    if (rate->b == 1) {
        *inexact = 0;
        return now * rate->per_b;
    }
    if (rate->reciprocal == 0) {
        weir_u128_ scaled = (weir_u128_)now * rate->per_b;
        uint64_t whole = (uint64_t)(scaled / rate->b);
        *inexact = scaled != (weir_u128_)whole * rate->b;
        return whole;
    }
    uint64_t ticks = (uint64_t)(((weir_u128_)now * rate->reciprocal) >> rate->shift);
    uint64_t rest = now * rate->per_b - ticks * rate->b;
    if (rest >= rate->b) {
        ticks += 1;
        rest -= rate->b;
    }
    *inexact = rest != 0;
    return ticks;
}

/*
 * The strict rule: compare with the clock rounded down, but anchor a full bucket at the clock rounded up. Then
 * the word stays less than one tick above the exact rational bucket's, and never below it (P2), so every
 * request admitted here is admitted by the exact one (P1). Compared by subtraction, so nothing can overflow.
 */
static inline enum weir_outcome weir_rate_decide(const weir_rate *rate, uint64_t full_at, weir_ns now,
                                                 uint64_t cost, uint64_t *next)
{
    *next = full_at;
    if (__builtin_expect(cost > rate->burst, 0))
        return WEIR_NEVER;
    if (__builtin_expect(now > WEIR_HORIZON, 0))
        return WEIR_REFUSED;
    if (__builtin_expect(cost == 0, 0))
        return WEIR_ALLOW;

    unsigned inexact;
    uint64_t clock = weir_rate_clock(rate, now, &inexact);
    bool is_full = full_at <= clock;
    uint64_t used = is_full ? 0 : full_at - clock;
    if (used > (rate->burst - cost) * rate->ticks)
        return WEIR_DENY;
    *next = (is_full ? clock + inexact : full_at) + cost * rate->ticks;
    return WEIR_ALLOW;
}

/* ceil(ticks * b / a) ns, or WEIR_NO_TIME beyond the horizon. Exact rates skip the 128-bit division. */
static inline weir_ns weir_rate_instant_(const weir_rate *rate, uint64_t ticks)
{
    if (rate->per_b == 0)
        return ticks == 0 ? 0 : WEIR_NO_TIME;
    if (rate->b == 1) {
        weir_ns exact = rate->per_b == 1 ? ticks : ticks / rate->per_b + (ticks % rate->per_b != 0);
        return exact > WEIR_HORIZON ? WEIR_NO_TIME : exact;
    }
    weir_u128_ instant = ((weir_u128_)ticks * rate->b + (rate->per_b - 1)) / rate->per_b;
    return instant > WEIR_HORIZON ? WEIR_NO_TIME : (weir_ns)instant;
}

static inline uint64_t weir_rate_remaining(const weir_rate *rate, uint64_t full_at, weir_ns now)
{
    unsigned inexact;
    uint64_t clock = weir_rate_clock(rate, now, &inexact);
    uint64_t full = rate->burst * rate->ticks;
    uint64_t used = full_at > clock ? full_at - clock : 0;
    return used >= full ? 0 : (full - used) / rate->ticks;
}

static inline weir_ns weir_rate_retry_at(const weir_rate *rate, uint64_t full_at, weir_ns now, uint64_t cost)
{
    uint64_t wanted = cost == 0 ? 1 : cost;
    if (wanted > rate->burst)
        return WEIR_NO_TIME;
    unsigned inexact;
    uint64_t room = (rate->burst - wanted) * rate->ticks;
    uint64_t passes_at = full_at > room ? full_at - room : 0;
    return passes_at > weir_rate_clock(rate, now, &inexact) ? weir_rate_instant_(rate, passes_at) : now;
}

static inline weir_ns weir_rate_full_at(const weir_rate *rate, uint64_t full_at, weir_ns now)
{
    unsigned inexact;
    return full_at > weir_rate_clock(rate, now, &inexact) ? weir_rate_instant_(rate, full_at) : now;
}

static inline weir_verdict weir_bucket_take(weir_bucket *bucket, const weir_rate *rate, weir_ns now,
                                            uint64_t cost)
{
    weir_verdict verdict;
    verdict.outcome = weir_rate_decide(rate, bucket->full_at, now, cost, &verdict.full_at);
    bucket->full_at = verdict.full_at;
    return verdict;
}

/*
 * order:    relaxed. The word is the whole state and publishes nothing else; its own modification order is all
 *           that G1 needs.
 * progress: lock-free. A lost exchange means that another taker's charge was recorded.
 * reuse:    none; the word belongs to one bucket. Equal words are equal states, so a word that went away and
 *           came back is as good as one that stayed.
 */
static inline weir_verdict weir_bucket_take_shared(weir_bucket *bucket, const weir_rate *rate, weir_ns now,
                                                   uint64_t cost)
{
    weir_verdict verdict;
    uint64_t seen = __atomic_load_n(&bucket->full_at, __ATOMIC_RELAXED);
    do {
        verdict.outcome = weir_rate_decide(rate, seen, now, cost, &verdict.full_at);
        if (verdict.full_at == seen)
            return verdict;
    } while (!__atomic_compare_exchange_n(&bucket->full_at, &seen, verdict.full_at, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return verdict;
}

static inline weir_verdict weir_bucket_peek(const weir_bucket *bucket, const weir_rate *rate, weir_ns now,
                                            uint64_t cost)
{
    weir_verdict verdict;
    uint64_t next;
    verdict.full_at = __atomic_load_n(&bucket->full_at, __ATOMIC_RELAXED);
    verdict.outcome = weir_rate_decide(rate, verdict.full_at, now, cost, &next);
    return verdict;
}

#ifdef __cplusplus
}
#endif

#endif
