// SPDX-License-Identifier: Apache-2.0
/*
 * weir.h - decide whether the next request, counted under some key, may pass.
 *
 *     struct weir *weir;
 *     weir_limit_id per_user;
 *     struct weir_decision decision;
 *
 *     weir_new(&weir, &(struct weir_options){ .keys = 1000000 });
 *     weir_limit_add(weir, &(struct weir_limit){ .name = "per-user", .algorithm = WEIR_TOKEN_BUCKET,
 *                    .rate = { 5, WEIR_SECOND }, .burst = 20 }, &per_user);
 *
 *     if (weir_check(weir, per_user, user, user_len, 1, now, &decision) == 0
 *         && decision.outcome == WEIR_ALLOW)
 *         serve();
 *
 * One limiter holds any number of limits and keys in memory that is reserved at the start and never grows. All
 * keys live in one table; a decision finds the key's 16-byte cell, computes what the cell becomes and exchanges
 * it: no lock, no allocation, no system call (the sliding log, which holds a stamp per request, locks its ring, and
 * a concurrency limit the record of who holds its permits).
 *
 * Promises, cited by number in tests and manuals:
 *   G1  In every interval the admitted cost stays within the limit's bound (token bucket: burst + rate * t,
 *       exactly), for any number of threads and any order of stamps.
 *   G2  A refused request consumes nothing. Over several limits: a refusal seen at the first look writes
 *       nothing; a race lost later is undone, never giving back more than was taken.
 *   G3  Retrying at the instant we name succeeds if nobody else called; one nanosecond earlier fails.
 *   G4  Keys do not affect each other. Identity is a keyed 64-bit hash: two of N keys share a budget with a
 *       probability of about N^2 / 2^65 (10^6 keys: 3 in 10^8), which under-admits and never over-admits.
 *   G5  Memory is bounded by weir_options, and each limit's `when_full` says what happens at the bound.
 *
 * Answers are not errors: a call returns 0 when it decided and the decision says which way; a negative code
 * means that it could not decide, and then nothing was charged and *out is untouched.
 *
 * Time is an argument. `now` is your monotonic clock in ns; weir_now() reads a good one. The limiter does not look at
 * a clock by itself (but to measure how long a composite took that has to give back what it charged). Stamps may
 * arrive in any order: one older than a stamp already used for the same key makes the answer stricter and mints
 * nothing. A stamp before weir_options.origin counts as the origin; one more than ten years after it is answered
 * WEIR_REFUSED, reason WEIR_REASON_TIME. One stamp far in the future makes every new key start late (decided_at
 * shows it) and moves calendar windows on for good, so do not mix clocks.
 *
 * Threads: the calls that decide may run on any number of threads at once. weir_new, weir_free and
 * weir_limit_add need the caller's exclusion.
 *
 * Link with -lweir. Needs libc only. Also compiles as C++.
 */
#ifndef WEIR_H
#define WEIR_H

#include <stddef.h>
#include <stdint.h>

#include "weir_bucket.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#define WEIR_MUST_USE __attribute__((warn_unused_result))
#else
#define WEIR_API
#define WEIR_MUST_USE
#endif

#define WEIR_VERSION "0.1.0"

/* ---- Bounds -------------------------------------------------------------------------------------------- */

/* Longest key in bytes. */
#define WEIR_KEY_MAX 4096

/* Most limits that one request may meet: their cells are held on the stack while they are decided together. */
#define WEIR_ASKS_MAX 64

/* Longest name of a limit in bytes, without the final zero. */
#define WEIR_NAME_MAX 63

/*
 * Most shapes of one limiter at once: a cell names its shape with 15 bits; 0 means empty, and one number is the
 * store's own. A limit is one shape, and one more for each different size among its overrides.
 */
#define WEIR_LIMITS_MAX 32766

/* Most requests that a sliding log counts, one stamp each. */
#define WEIR_LOG_MAX 65536

/* ---- Errors -------------------------------------------------------------------------------------------- */

/* X(name, code, sentence). One list, so that code, name and sentence cannot drift apart. */
#define WEIR_ERRORS(X) \
    X(MEMORY, -1, "out of memory: ask for fewer keys or log stamps") \
    X(OPTION, -2, "an option is out of range") \
    X(MACHINE, -3, "this machine lacks a 16-byte compare-and-swap (x86-64 needs CX16)") \
    X(ENTROPY, -4, "the system gave no random bytes for the hash secret") \
    X(LIMIT, -5, "there is no such limit") \
    X(KEY, -6, "the key is longer than WEIR_KEY_MAX") \
    X(ASKS, -7, "a request may meet at most WEIR_ASKS_MAX limits: narrow their `when`") \
    X(NAME, -8, "a limit's name is 1 to 63 of a-z, 0-9, '.', '_' and '-', and starts with a letter or digit") \
    X(DUPLICATE, -9, "another limit has this name") \
    X(LIMITS, -10, "more than 32766 limits and different override sizes in one limiter") \
    X(ALGORITHM, -11, "there is no such algorithm") \
    X(PERIOD, -12, "the period must be 1 ns to 10 years") \
    X(RATE, -13, "the rate is too fast to be represented: at most 10^9 per second is always possible") \
    X(BURST, -14, \
      "rate and burst together do not fit 62 bits for ten years: lower the burst or shorten the period") \
    X(COUNT, -15, "the count is too large to be kept exactly in this window: lower it, or use a token bucket") \
    X(LOG_COUNT, -16, "a sliding log holds at most 65536 requests: lower the count, or use a sliding window") \
    X(LOG_MEMORY, -17, "the log stamps are used up: raise weir_options.log_stamps (memory: { log-stamps })") \
    X(ALIGN, -18, "only a fixed window can be aligned") \
    X(CALENDAR, -19, "a calendar window needs a day, week, month or year") \
    X(ZONE, -20, "the time zone is not known on this machine: use a name like Europe/Berlin, or UTC") \
    X(CLOCK, -21, "the clock cannot be read") \
    X(FILE, -22, "the file cannot be read or written") \
    X(CONTRACT, -23, "the contract has errors: see the diagnostics") \
    X(ATTRIBUTE, -24, "an attribute's name or value is not allowed: see the message") \
    X(COST, -25, "the cost is not an integer from 0 to 2^63 - 1") \
    X(CHANGED, -26, "a newer set of limits is in force: decide again under it") \
    X(BUSY, -27, "a change is not finished: call weir_quiesce() first") \
    X(RESERVATION, -28, "the reservation is not one of this limiter's, is damaged or has expired") \
    X(FULL, -29, \
      "there is no room to remember that the reservation was settled: nothing was changed, try again") \
    X(DEBT, -30, "only a bucket can be overdrawn") \
    X(OVERRIDE, -31, "this key has an override already") \
    X(AT_MOST, -32, "at most 1 to 65535 permits can be held at once") \
    X(HOLD, -33, "a permit must be held for 1 ms to 10 years before it returns by itself") \
    X(WAIT, -34, \
      "waiting needs a time of 1 ns to one day and a queue of 1 to 1,000,000, and refusals that are free") \
    X(PERMIT, -35, "the permit is not one of this limiter's, or is damaged") \
    X(WAITER, -36, "the waiter has too few parts for this request, or waits already") \
    X(PERMIT_MEMORY, -37, \
      "the permits are used up: raise weir_options.permits (memory: { permits }), or choose when-full: " \
      "closed") \
    X(FIELD, -38, \
      "a field of another algorithm is set: a burst is for buckets, at_most and hold for concurrency limits, " \
      "a rate for all others; leave it 0")

enum weir_error {
#define WEIR_ERROR_(name, code, sentence) WEIR_ERR_##name = (code),
    WEIR_ERRORS(WEIR_ERROR_)
#undef WEIR_ERROR_
};

/* The name ("WEIR_ERR_KEY") or the sentence of a code; for a number that is no code, a text that says so. */
WEIR_API const char *weir_error_name(int code);
WEIR_API const char *weir_error_text(int code);

/* ---- Limits -------------------------------------------------------------------------------------------- */

enum weir_algorithm {
    WEIR_TOKEN_BUCKET,   /* burst at once, then a steady rate */
    WEIR_LEAKY_BUCKET,   /* the meter: the same arithmetic under its other name */
    WEIR_FIXED_WINDOW,   /* `count` per aligned period; 2 * count may pass around an edge */
    WEIR_SLIDING_WINDOW, /* this period's count and the last one's, weighted by overlap */
    WEIR_SLIDING_LOG,    /* exactly `count` in any period; one stamp of memory per request */
    WEIR_LEAKY_QUEUE,    /* a leaky bucket of burst 1 that lets its callers wait: a steady pace */
    WEIR_CONCURRENCY,    /* `at_most` permits held at once; see weir_acquire() */
    WEIR_ALGORITHM_COUNT
};

/* Where fixed windows start. */
enum weir_align {
    WEIR_ALIGN_EPOCH,         /* multiples of the period since 1970-01-01T00:00Z */
    WEIR_ALIGN_FIRST_REQUEST, /* at a key's first request, then one period */
    WEIR_ALIGN_CALENDAR,      /* civil days, weeks (Monday), months or years in a time zone */
    WEIR_ALIGN_COUNT
};

enum weir_calendar {
    WEIR_CALENDAR_DAY,
    WEIR_CALENDAR_WEEK,
    WEIR_CALENDAR_MONTH,
    WEIR_CALENDAR_YEAR,
    WEIR_CALENDAR_COUNT
};

/* What a new key gets when its 16 candidate cells are all live. */
enum weir_when_full {
    WEIR_FULL_OVERFLOW,    /* all such keys of the limit share one more cell with the limit's rate and burst */
    WEIR_FULL_CLOSED,      /* WEIR_REFUSED until something dies */
    WEIR_FULL_EVICT_LEAST, /* takes the cell, of a limit with this policy, that would be full soonest */
    WEIR_FULL_OPEN,        /* WEIR_UNMETERED: only for limits that are advisory */
    WEIR_FULL_COUNT
};

/* Whether a request that is denied consumes all the same. */
enum weir_refusal {
    WEIR_REFUSAL_FREE,
    WEIR_REFUSAL_CHARGED, /* yes, up to one more capacity: who hammers stays out until it slows down below the rate.
                             A cost above the capacity is never charged, nor is a denial by another limit */
    WEIR_REFUSAL_COUNT
};

/* What a key that nobody remembers had left when the limiter started. */
enum weir_state_lost {
    WEIR_LOST_FULL,  /* everything: up to one capacity more per key and restart */
    WEIR_LOST_EMPTY, /* nothing: nothing more passes through a restart, and new keys begin slowly after one */
    WEIR_LOST_COUNT
};

/* `count` per `period` ns. */
struct weir_quota {
    uint64_t count;
    weir_ns period;
};

/*
 * How callers may wait for a limit: at most `up_to` ns, and at most `queue` of them per key. Both bounds are needed: a queue
 * without one turns overload into delayed overload. Only who says how long it can wait does wait: see weir_wait_start().
 */
struct weir_wait {
    weir_ns up_to;
    uint32_t queue;
};

/* Longest time that callers may wait, and most of one key that do. */
#define WEIR_WAIT_MAX (UINT64_C(86400) * WEIR_SECOND)
#define WEIR_QUEUE_MAX 1000000

/* Most permits of one key at once. */
#define WEIR_AT_MOST_MAX 65535

/* One limit. Zero is the default of every field but name and rate (and burst, for the buckets). */
struct weir_limit {
    const char *name; /* unique in the limiter; borrowed during the call */
    enum weir_algorithm algorithm;
    struct weir_quota rate;      /* buckets: what comes back; windows and log: what one period admits.
                                    count 0 never refills (buckets) or admits nothing. A calendar window reads
                                    the count alone. Not for concurrency limits */
    uint64_t burst;              /* buckets only: the most at once; 0 answers every request WEIR_NEVER. A leaky
                                    queue's is always 1, and may be left 0 */
    enum weir_align align;       /* fixed windows only */
    enum weir_calendar calendar; /* with WEIR_ALIGN_CALENDAR: the length of a window */
    const char *zone; /* with WEIR_ALIGN_CALENDAR: NULL is UTC; else a name such as "Europe/Berlin" */
    enum weir_when_full when_full;
    uint64_t debt; /* buckets only: tokens by which a settlement may overdraw a full bucket's worth */
    enum weir_refusal refused;
    enum weir_state_lost state_lost;
    /* An ask with the same key and retry id within this time is not charged again; 0: it is. */
    weir_ns retries_free_within;
    uint64_t at_most;      /* concurrency only: permits held at once, 1..WEIR_AT_MOST_MAX */
    weir_ns hold;          /* concurrency only: a permit that is not renewed for so long returns by itself */
    struct weir_wait wait; /* whether callers may wait; all zero: never. The leaky queue needs it */
    const char *key_form;  /* NULL, or what this limit's keys are made of ("tenant,path"): a change of it starts
                                    the limit afresh, as a change of name, algorithm or align does. Borrowed */
};

/* Another size for one key of a limit. */
struct weir_size {
    struct weir_quota rate;
    uint64_t burst, debt;
    uint64_t at_most;  /* concurrency */
    bool is_unlimited; /* never counted; the rest is not read */
};

/* A capacity, or a number left, that has no bound. */
#define WEIR_UNLIMITED UINT64_MAX

/* Names a limit of one limiter: 0, 1, 2, ... in the order they were added. */
typedef int32_t weir_limit_id;
#define WEIR_NO_LIMIT (-1)

/* ---- Decisions ----------------------------------------------------------------------------------------- */

/* Why an undecided answer was given, and what answered in its place. */
enum weir_policy {
    WEIR_POLICY_NONE,
    WEIR_POLICY_CLOSED,
    WEIR_POLICY_OPEN,
    WEIR_POLICY_LOCAL,
    WEIR_POLICY_LEASED,
    WEIR_POLICY_OVERFLOW, /* decided, but by the cell that overflowing keys share */
    WEIR_POLICY_COUNT
};

enum weir_reason {
    WEIR_REASON_NONE,
    WEIR_REASON_STORE,       /* the shared store did not answer in time */
    WEIR_REASON_FULL,        /* no cell for a new key */
    WEIR_REASON_CONTENDED,   /* too many others placed keys, or held the log, at once */
    WEIR_REASON_TIME,        /* the stamp lies beyond the horizon */
    WEIR_REASON_ATTRIBUTE,   /* never: an attribute's value is one that no limit accepts (contract) */
    WEIR_REASON_MISSING_KEY, /* never: the request lacks a key attribute (contract) */
    WEIR_REASON_COUNT
};

/*
 * One answer. All numbers come from the atomic step that decided. After several limits it is the binding one's:
 * on a refusal the limit that frees last, on an allowance the one with the fewest such requests left.
 */
struct weir_decision {
    enum weir_outcome outcome;
    enum weir_policy policy;
    enum weir_reason reason;
    weir_limit_id limit; /* the limit that bound the answer; WEIR_NO_LIMIT when none did */
    uint64_t capacity;   /* tokens: burst, or count of the window */
    uint64_t remaining;  /* whole tokens left after this decision, rounded down */
    weir_ns decided_at;  /* the stamp the decision holds for: now, or later where now was stale (G1) */
    weir_ns retry_at;    /* earliest instant at which the same request can pass: decided_at when it passes,
                            WEIR_NO_TIME where none is known. A look of cost 0 asks for one token */
    weir_ns reset_at;    /* when the budget will be whole again; WEIR_NO_TIME where never */
};

/* The fixed words of an answer, as in JSON, logs and metrics: "allow", "overflow", "full"; NULL for NONE. */
WEIR_API const char *weir_outcome_name(enum weir_outcome outcome);
WEIR_API const char *weir_policy_name(enum weir_policy policy);
WEIR_API const char *weir_reason_name(enum weir_reason reason);
WEIR_API const char *weir_algorithm_name(enum weir_algorithm algorithm);

/* ---- Life cycle ---------------------------------------------------------------------------------------- */

/* Where the limiter's memory comes from. Used by weir_new, weir_free, what adds limits or overrides, changes and
   weir_quiesce; never by a call that decides. */
struct weir_allocator {
    void *(*allocate)(void *context, size_t size, size_t alignment); /* zeroed; NULL: out of memory */
    void (*release)(void *context, void *memory, size_t size);
    void *context;
};

/* All zero is a usable limiter. */
struct weir_options {
    size_t keys; /* keys that are live at once, at 60 % fill; 0: 65,536. The table is the next power of two */
    size_t log_stamps; /* stamps of all sliding logs together; 0: 1,048,576 (8 bytes each) */
    weir_ns origin;    /* the stamp from which the ten years count; 0 suits weir_now() */
    /* ns to add to a stamp to get Unix time; with weir_now(): weir_wall_offset(). Read once for windows aligned to the epoch;
       kept current by weir_wall_offset_set() for calendars. */
    int64_t wall_offset;
    /* The stamp at which whatever was counted before was lost, usually weir_now(): for limits with WEIR_LOST_EMPTY. */
    weir_ns lost_at;
    size_t permits; /* permits of all concurrency limits held at once; 0: 65,536 (64 bytes each) */
    /* The first permit's fence is above it; 0: the wall clock in ns, so that it rises over restarts. At most 2^63 - 1. */
    uint64_t fence;
    /* Called, from whichever thread and with no lock held, when something that is waited for may come before the instant that
       weir_wait_next() gave last: a start, a release, a settlement, a cancel or a change can do that. A driver that sleeps
       needs it. NULL: ask weir_wait_next() after every such call, weir_wait_start() included. */
    void (*wake)(void *wake_context);
    void *wake_context;
    struct weir_quota new_keys; /* bound on placing new keys, beyond it `when_full` answers; count 0: none */
    const uint8_t *secret;      /* 16 bytes that key the hash; NULL: drawn from the system. Borrowed */
    const struct weir_allocator *allocator; /* NULL: the C library's. Copied */
};

struct weir;

/*
 * Make a limiter. NULL options mean all zero.
 * Returns 0, or WEIR_ERR_MEMORY, WEIR_ERR_OPTION (keys above 2^32, a secret-less machine: WEIR_ERR_ENTROPY),
 * WEIR_ERR_MACHINE. The caller frees it with weir_free(), which accepts NULL, once no call is running and nobody waits.
 */
WEIR_API WEIR_MUST_USE int weir_new(struct weir **out, const struct weir_options *options);
WEIR_API void weir_free(struct weir *weir);

/*
 * Add a limit. `*out` names it from now on. Refused at once when its numbers cannot be kept exactly: the code's
 * sentence says which and what to do. Must not run at the same time as any other call on this limiter.
 * Returns 0, or WEIR_ERR_NAME, _DUPLICATE, _LIMITS, _ALGORITHM, _PERIOD, _RATE, _BURST, _COUNT, _LOG_COUNT,
 * _LOG_MEMORY, _ALIGN, _CALENDAR, _ZONE, _AT_MOST, _HOLD, _PERMIT_MEMORY, _WAIT, _FIELD (what only another algorithm
 * reads), _OPTION (when_full is no policy; permits with refusals that are charged or retries that are free), _MEMORY.
 */
WEIR_API WEIR_MUST_USE int weir_limit_add(struct weir *weir, const struct weir_limit *limit,
                                          weir_limit_id *out);

/* The limit of a name, or WEIR_NO_LIMIT. The name of a limit, or NULL. Both live as long as the limiter, or until
   weir_quiesce() ends the set that they are of. */
WEIR_API weir_limit_id weir_limit_find(const struct weir *weir, const char *name);
WEIR_API const char *weir_limit_name(const struct weir *weir, weir_limit_id limit);

/*
 * Give one key of a limit another size. A lookup costs one probe, however many overrides there are; each different size
 * takes a shape of its own. Borrowed during the call. Must not run at the same time as any other call, and comes before
 * the key is first used: what it has used under the limit's own size is converted by changes only.
 * Returns 0, or WEIR_ERR_LIMIT, _KEY, _OVERRIDE, _LIMITS, _MEMORY, or what weir_limit_add() says of the size.
 */
WEIR_API WEIR_MUST_USE int weir_override_add(struct weir *weir, weir_limit_id limit, const void *key,
                                             size_t len, const struct weir_size *size);

/* ---- Changing limits while they are in use ----------------------------------------------------------------- */

/*
 * The limits of a limiter are one immutable set. To change them, build a whole new set beside it and put it in force
 * in one step:
 *
 *     struct weir_change *change;
 *     weir_change_new(&change, weir);
 *     weir_change_limit(change, &limit, &id);             // ids are those of the new set: 0, 1, 2, ...
 *     weir_change_override(change, id, key, len, &size);
 *     weir_change_commit(change, weir_now(), &set, NULL); // or weir_change_free(change): nothing happened
 *     ...
 *     weir_quiesce(weir, weir_now());                     // when no call that began before the commit still runs
 *
 * A limit keeps its counters when its name, algorithm, align and key_form stay: what was used stays used, and a changed
 * rate or burst applies to live keys at once, from the instant of the commit. Raising a burst by five makes five
 * available; no change grants a fresh burst, whatever the ratio of the rates. Within that instant's calls a
 * thread decides under one whole set, the old or the new.
 *
 * Threads: one change at a time; deciding goes on meanwhile on any number of threads. weir_quiesce() runs when no call
 * that could know the old set is running, and frees it: ids, sets and names of the old set end there.
 */
struct weir_set;
struct weir_change;

/* What became of a limit of the new set. */
enum weir_change_kind {
    WEIR_CHANGE_KEPT,      /* nothing changed */
    WEIR_CHANGE_RESIZED,   /* rate, burst, overrides or a policy changed: counters go on */
    WEIR_CHANGE_NEW,       /* the name is new */
    WEIR_CHANGE_RESTARTED, /* algorithm, align or key_form changed: every key starts afresh */
    WEIR_CHANGE_KIND_COUNT
};

/* Make an empty set beside the one in force. Returns 0, WEIR_ERR_BUSY (the last change was not quiesced), _MEMORY. */
WEIR_API WEIR_MUST_USE int weir_change_new(struct weir_change **out, struct weir *weir);
WEIR_API void weir_change_free(struct weir_change *change);

/* As weir_limit_add() and weir_override_add(), into the new set. */
WEIR_API WEIR_MUST_USE int weir_change_limit(struct weir_change *change, const struct weir_limit *limit,
                                             weir_limit_id *out);
WEIR_API WEIR_MUST_USE int weir_change_override(struct weir_change *change, weir_limit_id limit,
                                                const void *key, size_t len, const struct weir_size *size);

/*
 * Put the new set in force at `now`; the change is freed.
 *
 *   out    the set; may be NULL.
 *   kinds  NULL, or one per limit of the new set.
 *
 * Returns 0, or WEIR_ERR_LIMITS (too few free shape numbers beside the old set), WEIR_ERR_LOG_MEMORY, _PERMIT_MEMORY, _MEMORY,
 * WEIR_ERR_BUSY (another change was committed meanwhile and not quiesced); then the old set stays in force and the change
 * is freed.
 */
WEIR_API WEIR_MUST_USE int weir_change_commit(struct weir_change *change, weir_ns now,
                                              const struct weir_set **out, enum weir_change_kind *kinds);

/* Finish the last change: convert what is still counted under the old set, forget removed limits, free the old set.
   Cost: one walk of the table, milliseconds for a million cells. Without a change: nothing. */
WEIR_API void weir_quiesce(struct weir *weir, weir_ns now);

/* Free the old sizes and their shape numbers, which the next change but one would free: call it when no call that began
   before the last weir_quiesce() still runs, or not at all. Changes of more than 10,922 shapes at once need it. */
WEIR_API void weir_retire(struct weir *weir);

/* The set in force. */
WEIR_API const struct weir_set *weir_set_current(const struct weir *weir);

/* ---- Deciding ------------------------------------------------------------------------------------------ */

/*
 * Decide whether one request may pass now, and charge it if so.
 *
 *   limit     from weir_limit_add().
 *   key, len  identity of the caller, 0..WEIR_KEY_MAX bytes; a zero byte is an ordinary byte. Compared by a
 *             keyed 64-bit hash (G4 says how often two of N keys meet). Read during the call, not kept.
 *   cost      tokens this request spends. 0 looks and charges nothing; a cost above the capacity is answered
 *             WEIR_NEVER.
 *   now       your monotonic clock in ns. An older reading than one already used for this key makes the answer
 *             stricter and mints nothing.
 *   out       written when 0 is returned, untouched otherwise; out->outcome says which way.
 *
 * Returns 0               decided
 *         WEIR_ERR_LIMIT  there is no such limit
 *         WEIR_ERR_KEY    len is above WEIR_KEY_MAX
 *
 * Threads  any number, on one limiter. Lock-free (a sliding log locks its ring for a bounded time, a concurrency limit
 *          its record, and a key that others wait for is asked for under their lock); never allocates or makes a
 *          system call.
 * Cost     one hash, at most two groups of eight cells, one exchange when uncontended.
 * Keeps    G1 bound per key, G2 a refusal consumes nothing, G3 exact retry times, G4 keys do not affect each other.
 * Source   the algorithms of weir_limit.algorithm: GCRA (ITU-T I.371); windows as in docs/algorithms.md.
 */
WEIR_API WEIR_MUST_USE int weir_check(struct weir *weir, weir_limit_id limit, const void *key, size_t len,
                                      uint64_t cost, weir_ns now, struct weir_decision *out);

/* What weir_check() would answer, with the numbers as they stand: nothing is charged, so `remaining` still counts this
   cost. Writes nothing and creates no cell. */
WEIR_API WEIR_MUST_USE int weir_peek(struct weir *weir, weir_limit_id limit, const void *key, size_t len,
                                     uint64_t cost, weir_ns now, struct weir_decision *out);

/* weir_check() at weir_now(): also refreshes the wall offset of calendar windows once a second. */
WEIR_API WEIR_MUST_USE int weir_check_now(struct weir *weir, weir_limit_id limit, const void *key, size_t len,
                                          uint64_t cost, struct weir_decision *out);

/* One question of a composite: this cost, of this key, under this limit. */
struct weir_ask {
    weir_limit_id limit;
    const void *key; /* borrowed during the call */
    size_t key_len;
    uint64_t cost;
    const void *retry_id; /* NULL, or what makes a retry the same request, with retries_free_within */
    size_t retry_id_len;  /* at most WEIR_KEY_MAX */
    bool is_estimate;     /* weir_reserve: this cost is settled later; when no ask says so, all are */
    bool is_fixed;        /* but not those that say this */
    bool is_watched;      /* weir_wait_start() only */
    uint64_t tag;         /* the caller's own: kept in weir_waiter_part */
    bool is_within;       /* the key has a size of its own, as of weir_set_check_within(): */
    uint64_t within;      /* its capacity; of several asks for one key the least */
};

/*
 * Decide one request under several limits, all or nothing: it passes when every limit lets it, and is charged
 * to all of them; otherwise it is charged to none (G2).
 *
 *   asks, count  1..WEIR_ASKS_MAX of them, in any order; asks for the same limit and key are added up.
 *   each         NULL, or `count` decisions, one per ask in its order: what that limit by itself answers.
 *   out          the binding one.
 *
 * A concurrent request may be refused because of tokens that are later returned; of conflicting requests at least one
 * passes. Returns 0, or WEIR_ERR_LIMIT, WEIR_ERR_KEY, WEIR_ERR_ASKS (count is 0 or too large); then nothing
 * was charged. Threads, Keeps: as weir_check(). Cost: two looks and one exchange per ask.
 */
WEIR_API WEIR_MUST_USE int weir_admit(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
                                      struct weir_decision *each, struct weir_decision *out);

/* What weir_admit() would answer; writes nothing. */
WEIR_API WEIR_MUST_USE int weir_admit_peek(struct weir *weir, const struct weir_ask *asks, size_t count,
                                           weir_ns now, struct weir_decision *each, struct weir_decision *out);

/*
 * The same under one set, for callers who prepared their asks for it: ids are the set's. WEIR_ERR_CHANGED when a newer set
 * is in force and one of the keys was already counted under it: nothing was charged, prepare again.
 */
WEIR_API WEIR_MUST_USE int weir_set_admit(const struct weir_set *set, const struct weir_ask *asks, size_t count,
                                          weir_ns now, struct weir_decision *each, struct weir_decision *out);
WEIR_API WEIR_MUST_USE int weir_set_admit_peek(const struct weir_set *set, const struct weir_ask *asks,
                                               size_t count, weir_ns now, struct weir_decision *each,
                                               struct weir_decision *out);

/*
 * As weir_check() and weir_peek(), for keys whose size comes with the call: the limit is a token bucket, or a fixed window since
 * 1970, without overrides and waits, and of its burst or count this key has `capacity`, at most all of it. What a key has used stays used whatever capacity the next
 * call brings. With a rate of one token a nanosecond, costs and capacities are lengths of time: GCRA with an interval and a
 * tolerance that each request brings along, as redis-cell's CL.THROTTLE does. See weir_contract_throttle().
 *
 * Returns 0, WEIR_ERR_LIMIT (also of a limit of another kind), WEIR_ERR_KEY, WEIR_ERR_RATE: capacity is above the burst;
 * WEIR_ERR_CHANGED as weir_set_admit().
 */
WEIR_API WEIR_MUST_USE int weir_set_check_within(const struct weir_set *set, weir_limit_id limit,
                                                 const void *key, size_t len, uint64_t cost, uint64_t capacity,
                                                 bool is_peek, weir_ns now, struct weir_decision *out);

/*
 * Decide many requests, each on its own as weir_check() would, in order. Hashes first and touches memory
 * early, so that a batch over a large table waits for its cache misses together.
 *
 *   out  `count` decisions. On an error nothing is decided or charged.
 */
WEIR_API WEIR_MUST_USE int weir_check_batch(struct weir *weir, const struct weir_ask *asks, size_t count,
                                            weir_ns now, struct weir_decision *out);

/* ---- Costs that are known only afterwards -------------------------------------------------------------------- */

/*
 * Reserve an estimate, do the work, settle what it cost. A reservation is a value: it needs no table, carries its own
 * proof of origin, expires, and settling it twice changes nothing the second time.
 *
 * What comes back is restored in full, as if it had not been taken, up to a full bucket; so within an interval the
 * limit's bound grows by what was returned in it. In windows only what was taken in the same window comes back.
 * What was too little is charged without asking, up to limit.debt beyond the capacity; the rest is dropped and told.
 */
#define WEIR_RESERVATION_MAX 2112

struct weir_reservation {
    size_t len;
    unsigned char bytes[WEIR_RESERVATION_MAX]; /* plain bytes, to be kept or sent as they are */
};

/* What a settlement did, in tokens, over all limits that were settled: the largest of each. */
struct weir_settlement {
    uint64_t charged; /* beyond the estimate */
    uint64_t returned;
    uint64_t dropped;    /* beyond the debt: charged to nobody */
    uint64_t remaining;  /* of the limit that has least left now */
    weir_limit_id limit; /* that one, in the set in force; WEIR_NO_LIMIT when none was settled */
    bool is_repeated;    /* was settled or cancelled before: nothing changed */
};

/*
 * weir_admit(), and where it is allowed a reservation that expires at now + hold.
 *   ticket  written when 0 is returned and out->outcome is WEIR_ALLOW (or WEIR_DUPLICATE); else its len is 0.
 */
WEIR_API WEIR_MUST_USE int weir_reserve(struct weir *weir, const struct weir_ask *asks, size_t count,
                                        weir_ns now, weir_ns hold, struct weir_decision *each,
                                        struct weir_decision *out, struct weir_reservation *ticket);
WEIR_API WEIR_MUST_USE int weir_set_reserve(const struct weir_set *set, const struct weir_ask *asks,
                                            size_t count, weir_ns now, weir_ns hold, struct weir_decision *each,
                                            struct weir_decision *out, struct weir_reservation *ticket);

/* It cost `cost` in the end. Returns 0, WEIR_ERR_RESERVATION, WEIR_ERR_FULL, WEIR_ERR_COST. Threads: any. */
WEIR_API WEIR_MUST_USE int weir_settle(struct weir *weir, const void *ticket, size_t len, uint64_t cost,
                                       weir_ns now, struct weir_settlement *out);

/* It did not happen: everything comes back, also what was charged to limits that are not settled. Returns as
   weir_settle(). */
WEIR_API WEIR_MUST_USE int weir_cancel(struct weir *weir, const void *ticket, size_t len, weir_ns now,
                                       struct weir_settlement *out);

/* Give `cost` back to each ask's key, never above its capacity. Returns 0; or WEIR_ERR_ASKS, _LIMIT or _KEY, and then
   nothing was given back. */
WEIR_API WEIR_MUST_USE int weir_refund(struct weir *weir, const struct weir_ask *asks, size_t count,
                                       weir_ns now, struct weir_settlement *out);
WEIR_API WEIR_MUST_USE int weir_set_refund(const struct weir_set *set, const struct weir_ask *asks,
                                           size_t count, weir_ns now, struct weir_settlement *out);

/* Charge `cost` to each ask's key without asking, as a settlement that cost more: what was spent elsewhere. A bucket takes it
   up to its capacity and debt, a window or log up to its count; the rest is dropped and told. Returns as weir_refund(). */
WEIR_API WEIR_MUST_USE int weir_charge(struct weir *weir, const struct weir_ask *asks, size_t count,
                                       weir_ns now, struct weir_settlement *out);
WEIR_API WEIR_MUST_USE int weir_set_charge(const struct weir_set *set, const struct weir_ask *asks,
                                           size_t count, weir_ns now, struct weir_settlement *out);

/* Forget what one key has used: it is as a key that was never seen. Returns 0, WEIR_ERR_LIMIT, WEIR_ERR_KEY; of a set
   that is no longer in force also WEIR_ERR_CHANGED, as weir_set_admit(). */
WEIR_API WEIR_MUST_USE int weir_reset(struct weir *weir, weir_limit_id limit, const void *key, size_t len);
WEIR_API WEIR_MUST_USE int weir_set_reset(const struct weir_set *set, weir_limit_id limit, const void *key,
                                          size_t len);

/* The size of one key: the limit's own, or its override's. Returns 0, WEIR_ERR_LIMIT or WEIR_ERR_KEY. Threads: any. */
WEIR_API WEIR_MUST_USE int weir_set_size(const struct weir_set *set, weir_limit_id limit, const void *key,
                                         size_t len, struct weir_size *out);

/* ---- Permits: how much runs at once ------------------------------------------------------------------------- */

/*
 * A rate does not bound how long admitted work runs; a concurrency limit does. Its permits are leases: whoever acquired one
 * releases it, or renews it in time, or it returns by itself after limit.hold, so a holder that died blocks nobody for
 * longer. At every instant at most `at_most` permits are unexpired (P28). A holder that was suspended beyond its permit may
 * still be working: renew at a third of `hold`, and where it matters have the protected resource refuse a fence lower than
 * one that it has seen.
 *
 * weir_check(), weir_admit() and their kin only look at a concurrency limit: they refuse while it is full and hold nothing.
 */
#define WEIR_PERMIT_MAX 1600

struct weir_permit {
    uint64_t fence;     /* rises with every permit given: of the first concurrency limit among the asks */
    weir_ns expires_at; /* of the part that expires first */
    size_t len;         /* 0: no concurrency limit was met, there is nothing to release */
    unsigned char bytes[WEIR_PERMIT_MAX]; /* with a proof of origin, to be kept or sent as they are */
};

/*
 * weir_admit(), and each concurrency limit gives a permit of the ask's cost: all or nothing together with the rates.
 *   permit  written when 0 is returned; its len is 0 when there is nothing to release: the request was refused, or met no
 *           concurrency limit that counted it.
 * Returns, Threads, Cost: as weir_admit(). A key's permits are one locked record, waited for a bounded time.
 * Keeps    P28, and P27: of conflicting requests at least one passes.
 */
WEIR_API WEIR_MUST_USE int weir_acquire(struct weir *weir, const struct weir_ask *asks, size_t count,
                                        weir_ns now, struct weir_decision *each, struct weir_decision *out,
                                        struct weir_permit *permit);
WEIR_API WEIR_MUST_USE int weir_set_acquire(const struct weir_set *set, const struct weir_ask *asks,
                                            size_t count, weir_ns now, struct weir_decision *each,
                                            struct weir_decision *out, struct weir_permit *permit);

/*
 * Hold a permit for another limit.hold from now.
 *   expires_at  WEIR_NO_TIME when the permit is lost: it expired or was released, and another may have its place. Stop the
 *               work that it covered, or acquire again.
 * A permit of several limits is lost when one part is. Returns 0 or WEIR_ERR_PERMIT. Threads: any; waits for the key's record,
 * which is held for the length of a decision.
 */
WEIR_API WEIR_MUST_USE int weir_renew(struct weir *weir, const void *permit, size_t len, weir_ns now,
                                      weir_ns *expires_at);

/* Give a permit back. *was_held (may be NULL) is false when it had been lost before: then nothing happened. Returns 0 or
   WEIR_ERR_PERMIT. Threads: any. */
WEIR_API WEIR_MUST_USE int weir_release(struct weir *weir, const void *permit, size_t len, weir_ns now,
                                        bool *was_held);

/* ---- Waiting ------------------------------------------------------------------------------------------------- */

/*
 * A caller that can wait says for how long, and hands over a node of its own; no thread is made, and no call blocks but the
 * three at the end of this part, which are all that a program needs whose threads may sleep:
 *
 *     struct weir_waiter_part parts[2];
 *     struct weir_waiter waiter = { .parts = parts, .part_room = 2, .done = serve };
 *     if (weir_wait_start(weir, &waiter, asks, 2, 5 * WEIR_SECOND, weir_now(), &decision) != 0)
 *         ...                                   // nothing was decided, and nothing waits
 *     else if (decision.outcome != WEIR_WAIT)
 *         ...                                   // the answer; otherwise serve(&waiter) comes from weir_wait_tick()
 *
 *     weir_ns at;                               // the driver: any thread
 *     while ((at = weir_wait_next(weir)) <= weir_now())
 *         (void)weir_wait_tick(weir, weir_now(), 64);
 *     ...                                       // sleep until `at`, or until weir_options.wake is called
 *
 * A driver that sleeps sets weir_options.wake: a start, release, settlement, cancel or change on another thread can bring the
 * next instant forward, and `at` is WEIR_NO_TIME while nobody waits. examples/driver.c is such a one. A driver that comes late
 * serves all the same whoever's turn came in time: WEIR_ALLOW, although its patience is over. Who does not want that
 * answer any more cancels.
 *
 * Tokens are taken at release, first come first served per key: while a key has waiters, a newcomer that can wait goes
 * behind them and one that cannot is denied, with a retry_at behind the queue; so nobody overtakes. A request under several
 * limits enters the queue of every limit of it that lets callers wait, is charged nowhere before, and is decided when it is
 * first in all of them (P29). A limit of it without `wait` that refuses, on arrival or at its turn, denies it. A request
 * whose turn cannot come in time, or that finds a queue full, is denied on arrival.
 *
 * A waiter keeps its place when limits are changed. A limit that was removed asks nothing of it any more; where one was
 * restarted the answer is WEIR_REFUSED, WEIR_REASON_CONTENDED: ask again.
 *
 * Threads: any, for all of these; they share one lock, held for microseconds.
 */
struct weir_waiter_part {
    struct weir_decision decision; /* of the ask with this index; see weir_waiter_answer() */
    uint64_t cost, tag;            /* of that ask */
    uint64_t opaque[18];
};

struct weir_waiter {
    /* Set by the caller before weir_wait_start(), and not touched until the end. */
    struct weir_waiter_part *parts; /* one for each ask */
    size_t part_room;
    bool acquires; /* as weir_acquire(): weir_waiter_permit() has the permit afterwards */
    bool
        is_tentative; /* somebody else has a say too: weir_waiter_keep() or weir_waiter_undo() comes once it has passed */
    /* Called once, when a waiter of WEIR_WAIT has ended: from the thread that ticks, with no lock held. The waiter is the
       caller's again from here on. NULL: for weir_wait_block(). */
    void (*done)(struct weir_waiter *waiter);
    void *owner;

    /* Valid when it has ended. */
    struct weir_decision decision; /* the binding one; limit ids as of the set in force when it was decided */
    weir_ns waited;                /* from weir_wait_start() to the decision */
    size_t count;                  /* of asks */
    uint64_t watched;              /* bit i: ask i is_watched */

    uint64_t opaque[16]; /* all zero before its first weir_wait_start() */
};

/*
 * Decide now, or wait for it.
 *
 *   patience  ns that the caller can wait; the smallest of it and of every limit's wait.up_to counts. 0: does not wait.
 *   asks      borrowed during the call; an ask with is_watched is decided after the others let the request pass, by itself,
 *             and never binds.
 *   out       WEIR_WAIT: waiter->done() will come, retry_at is when its turn will be as things stand. Anything else: the
 *             answer, and done() will not come.
 *
 * Returns 0, WEIR_ERR_WAITER, or as weir_admit(); on an error nothing waits and nothing was charged.
 */
WEIR_API WEIR_MUST_USE int weir_wait_start(struct weir *weir, struct weir_waiter *waiter,
                                           const struct weir_ask *asks, size_t count, weir_ns patience,
                                           weir_ns now, struct weir_decision *out);
WEIR_API WEIR_MUST_USE int weir_set_wait_start(const struct weir_set *set, struct weir_waiter *waiter,
                                               const struct weir_ask *asks, size_t count, weir_ns patience,
                                               weir_ns now, struct weir_decision *out);

/* The earliest instant at which weir_wait_tick() has something to do, past ones included; WEIR_NO_TIME when nobody waits.
   Does not lock. */
WEIR_API weir_ns weir_wait_next(const struct weir *weir);

/* End the waiters whose turn or deadline has come by `now`, at most `budget` of them, in the order of those instants. Returns
   how many. */
WEIR_API size_t weir_wait_tick(struct weir *weir, weir_ns now, size_t budget);

/* Leave. True: it was waiting, done() will not come, and everyone behind has moved up. False: it has ended, and done() has
   been called, or is being or yet to be: a tick ends several before it tells the first, so also from within another's done().
   It is the caller's again only from its own done() on; one without a done() is at once. */
WEIR_API bool weir_wait_cancel(struct weir *weir, struct weir_waiter *waiter, weir_ns now);

/* The answer of a waiter that has ended, each ask's and the binding one, with the limit ids of `set`; of a limit that is not
   in it WEIR_NO_LIMIT. `each` has waiter->count, or is NULL. */
WEIR_API void weir_waiter_answer(const struct weir_set *set, const struct weir_waiter *waiter,
                                 struct weir_decision *each, struct weir_decision *out);

/* What an ended waiter that passed was given: its permit, or a reservation that expires `hold` ns from the decision. */
WEIR_API void weir_waiter_permit(struct weir *weir, const struct weir_waiter *waiter, struct weir_permit *out);
WEIR_API void weir_waiter_reservation(struct weir *weir, const struct weir_waiter *waiter, weir_ns hold,
                                      struct weir_reservation *out);

/*
 * What others say of a request that passed here (WEIR_ALLOW or WEIR_DUPLICATE, with is_tentative): it passes for good, or it is
 * taken back. Of one that did not pass nothing was taken, and neither is needed. Until then its retry id is held, for a second
 * at most; then it counts as never seen.
 *
 * Undoing gives back strictly, as a composite does (G2): never more than was taken, nor what refill has replaced since; permits
 * return; and the waiter's decisions are looked at anew, so that their numbers are true without it.
 *
 *   waiter  has ended. Keep makes no decision of its own, so what weir_waiter_permit() and _reservation() give stays valid; after
 *           an undo they give nothing.
 *   now     the stamp of the undo: the earlier it is, the more comes back.
 *
 * Threads  any, one at a time for one waiter.
 */
WEIR_API void weir_waiter_keep(struct weir *weir, struct weir_waiter *waiter, weir_ns now);
WEIR_API void weir_waiter_undo(struct weir *weir, struct weir_waiter *waiter, weir_ns now);

/*
 * weir_admit() and weir_acquire() by the clock of weir_now(), blocking this thread for up to `patience` ns while it waits.
 *
 *   permit  written when 0 is returned, as by weir_acquire().
 *
 * Returns  as weir_admit(). WEIR_DENY: its turn cannot come in time, or did not.
 * Threads  any number, beside a driver or without one: blocked threads end each other's waiting. To weir_quiesce() a blocked
 *          call is one that runs. Sleeps on a condition variable; cancelling the thread is not supported.
 * Cost     as weir_admit() where it need not wait; else the room's lock, and a wake-up at each instant that concerns it. Up
 *          to 40 KiB of stack.
 * Keeps    G1, G2, P28, P29. A thread that is woken late has its turn all the same.
 */
WEIR_API WEIR_MUST_USE int weir_admit_waiting(struct weir *weir, const struct weir_ask *asks, size_t count,
                                              weir_ns patience, struct weir_decision *each,
                                              struct weir_decision *out);
WEIR_API WEIR_MUST_USE int weir_acquire_waiting(struct weir *weir, const struct weir_ask *asks, size_t count,
                                                weir_ns patience, struct weir_decision *each,
                                                struct weir_decision *out, struct weir_permit *permit);

/*
 * Block this thread, by the clock of weir_now(), until a waiter that was started by it has ended: at its turn, or when its
 * patience is over. Returns at once where it has. The waiter has no done(), and nobody cancels it meanwhile; afterwards its
 * answer and what it was given are there as ever. Needs no driver. Threads: any, one for each waiter; one that is blocked
 * does not hold up weir_quiesce().
 */
WEIR_API void weir_wait_block(struct weir *weir, struct weir_waiter *waiter);

/* ---- Clocks -------------------------------------------------------------------------------------------- */

/*
 * From now on what is absent had nothing left at `lost_at`: weir_options.lost_at, set anew, for limits with WEIR_LOST_EMPTY. Of
 * keys that are in the table nothing is forgotten. A stamp older than the one before changes nothing. Threads: any.
 */
WEIR_API void weir_lost_at_set(struct weir *weir, weir_ns lost_at);

/* A monotonic clock in ns since boot (CLOCK_MONOTONIC). Cost: one vDSO call, about 30 ns. */
WEIR_API weir_ns weir_now(void);

/* ns to add to weir_now() to get Unix time, as the system's clocks stand now. */
WEIR_API int64_t weir_wall_offset(void);

/* Tell calendar windows what time it is on the wall: Unix time of a stamp is stamp + offset. A window that has
   begun is never reopened, whichever way the offset moves. Threads: any. */
WEIR_API void weir_wall_offset_set(struct weir *weir, int64_t offset);

/* ---- Looking inside ------------------------------------------------------------------------------------ */

/* Counters since weir_new(), and gauges of this moment. Approximate while other threads decide. */
struct weir_stats {
    uint64_t cells;           /* in the table */
    uint64_t cells_live;      /* hold a key whose budget is not whole */
    uint64_t cells_dead;      /* hold a key that may be forgotten */
    uint64_t cells_tentative; /* being inserted */
    uint64_t placements;      /* new keys that got a cell */
    uint64_t reclaims;        /* cells of dead keys given to other keys */
    uint64_t evictions;       /* live keys overwritten under WEIR_FULL_EVICT_LEAST */
    uint64_t overflows;       /* decisions made on an overflow cell */
    uint64_t contended;       /* decisions given up after too many lost races */
    uint64_t log_stamps;      /* in the arena */
    uint64_t log_stamps_free;
    uint64_t permits;      /* in the pool */
    uint64_t permits_held; /* those that expired and were not looked at since included */
    uint64_t permits_free; /* to every limit; the rest is reserved for keys that share a record (when_full) */
    uint64_t waiting;      /* requests that wait */
    uint64_t bytes;        /* of memory reserved, everything included */
};

/* Walks the whole table: milliseconds for a million cells. `now` decides what is dead. Threads: any. */
WEIR_API void weir_stats(struct weir *weir, weir_ns now, struct weir_stats *out);

/* Decisions of one limit that were made on its overflow cell, since weir_new(). */
WEIR_API uint64_t weir_limit_overflows(const struct weir *weir, weir_limit_id limit);

/*
 * How many requests stand in the queues of each limit now, of all its keys: counts[id] for each id of `set` below `count`.
 * One that waits for two limits stands in both. The set is in force, or was until now. Threads: any.
 * Cost     a look at every key that is waited for, under the lock of those who wait: a millisecond for ten thousand.
 */
WEIR_API void weir_set_waiting(const struct weir_set *set, uint64_t *counts, size_t count);

/*
 * Turn up to `groups` groups of eight cells' dead keys into empty cells, going round. Never needed for correct
 * answers; keeps scans short. Threads: any.
 */
WEIR_API void weir_sweep(struct weir *weir, weir_ns now, size_t groups);

#ifdef __cplusplus
}
#endif

#endif
