// SPDX-License-Identifier: Apache-2.0
/*
 * weir_contract.h - load an admission contract (weir.yaml) and decide requests described by attributes.
 *
 *     struct weir_contract *contract;
 *     struct weir_diagnostics *diagnostics;
 *     struct weir_decision decision;
 *
 *     if (weir_contract_load(&contract, "weir.yaml", NULL, &diagnostics) != 0) {
 *         weir_diagnostics_print(diagnostics, stderr, false);
 *         weir_diagnostics_free(diagnostics);
 *         exit(2);
 *     }
 *     weir_contract_admit(contract, (struct weir_attribute[]){ { "tenant", "acme" }, { "path", "/v1/items" } }, 2,
 *                         weir_now(), &decision);
 *
 * A contract turns what a request is (its attributes: tenant, path, ip, ...) into the limits it meets and the keys
 * it is counted under, and has them decided all-or-nothing by a limiter of weir.h, which it owns. The language is
 * described in weir-contract(5).
 *
 * Threads: weir_contract_decide, _admit, _reserve, _acquire, _wait, _refund, _validate, _identify, and _begin, _shared, _fall_back
 * and _end may run on any number of threads at once, also beside one weir_contract_reload(); loading and freeing need the caller's exclusion. What is loaded is
 * immutable; a reload puts another whole in its place, and what a call returned pointers into lives until
 * weir_contract_quiesce().
 *
 * Link with -lweir-contract -lweir. Needs libyaml. Also compiles as C++.
 */
#ifndef WEIR_CONTRACT_H
#define WEIR_CONTRACT_H

#include <stdio.h>

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most attributes of a request, the longest value and the longest name in bytes. */
#define WEIR_ATTRIBUTES_MAX 32
#define WEIR_ATTRIBUTE_MAX 1024
#define WEIR_ATTRIBUTE_NAME_MAX 32

/* Largest contract in bytes, and its deepest nesting. */
#define WEIR_CONTRACT_BYTES_MAX ((size_t)16 << 20)
#define WEIR_CONTRACT_DEPTH_MAX 16

struct weir_contract;

/* ---- Diagnostics: what is wrong with a contract, all of it in one run ------------------------------------ */

enum weir_severity {
    WEIR_SEVERITY_ERROR,
    WEIR_SEVERITY_WARNING,
    WEIR_SEVERITY_NOTE /* of weir_contract_lint() alone: right as it is, and worth knowing */
};

struct weir_diagnostic {
    enum weir_severity severity;
    unsigned line, column; /* from 1; 0 when the whole file is meant */
    unsigned width;        /* columns to underline, at least 1 */
    const char *message;   /* what is wrong, naming thing and value: "burst is missing for 'tenant-requests'" */
    const char *cure;      /* what to do about it; never NULL */
    const char *source;    /* the line of text it is about, without its end; NULL when there is none */
    const char *file;      /* where that text was read: the name that was given, or a file in a folder of it */
};

struct weir_diagnostics;

WEIR_API size_t weir_diagnostics_count(const struct weir_diagnostics *diagnostics);
WEIR_API const struct weir_diagnostic *weir_diagnostics_at(const struct weir_diagnostics *diagnostics,
                                                           size_t index);
/* Every one as `file:line:column: error: message`, the line, a caret and the cure. */
WEIR_API void weir_diagnostics_print(const struct weir_diagnostics *diagnostics, FILE *out, bool is_coloured);
WEIR_API void weir_diagnostics_free(struct weir_diagnostics *diagnostics);

/* ---- Loading --------------------------------------------------------------------------------------------- */

/* Who counts the limits of `scope: fleet`. */
enum weir_fleet {
    WEIR_FLEET_NONE, /* nobody: a contract that has one is refused, since each process would count for itself */
    WEIR_FLEET_ALONE,  /* this process stands for the whole fleet: virtual time, a first look */
    WEIR_FLEET_SHARED, /* the caller, in a store that all share: weir_contract_begin() */
};

/* What the program decides rather than the contract. All zero suits a program that uses weir_now(). */
struct weir_contract_options {
    size_t keys;          /* 0: the contract's memory.keys */
    weir_ns origin;       /* as weir_options.origin */
    int64_t wall_offset;  /* as weir_options.wall_offset; 0 with origin 0: weir_wall_offset() */
    bool has_wall_offset; /* wall_offset is meant even if it is 0 (virtual time) */
    weir_ns lost_at;      /* as weir_options.lost_at; 0 with the clock of weir_now(): now */
    /* As weir_options.wake, which a driver that sleeps needs: a start, release, settlement, cancel or reload on another thread
       can bring forward what weir_wait_next() said. */
    void (*wake)(void *wake_context);
    void *wake_context;
    const uint8_t *secret; /* as weir_options.secret */
    enum weir_fleet fleet;
    /* WEIR_FLEET_SHARED: the caller knows where the store is. Else the contract's store.url must say it where a limit is shared; as
       of loading, also for later reloads. */
    bool has_store;
    /* Keep keys of weir_contract_throttle() in the same table. */
    bool has_throttle;
    /* Of the limiter, the contract and its diagnostics; NULL: the C library's. */
    const struct weir_allocator *allocator;
};

/*
 * Load a contract from a file ("-": standard input), or from text that was read from `name`.
 *
 *   out          given; free with weir_contract_free(). Untouched on an error.
 *   options      NULL means all zero. Borrowed.
 *   diagnostics  given, or NULL when there is nothing to say; warnings also on success. The pointer may be NULL.
 *
 * Returns 0, WEIR_ERR_FILE (errno says why; a diagnostic too), WEIR_ERR_CONTRACT, WEIR_ERR_MEMORY, _ENTROPY, _MACHINE.
 */
WEIR_API WEIR_MUST_USE int weir_contract_load(struct weir_contract **out, const char *path,
                                              const struct weir_contract_options *options,
                                              struct weir_diagnostics **diagnostics);
WEIR_API WEIR_MUST_USE int weir_contract_parse(struct weir_contract **out, const char *text, size_t len,
                                               const char *name, const struct weir_contract_options *options,
                                               struct weir_diagnostics **diagnostics);
WEIR_API void weir_contract_free(struct weir_contract *contract);

/* ---- Changing a contract in force ------------------------------------------------------------------------- */

/* What a reload did, for the log: counts of limits. One whose lease alone changed counts as resized. */
struct weir_reload {
    size_t kept, resized, added, restarted, removed;
};

/*
 * Read the contract anew and put it in force at `now`, whole or not at all: on an error the old one stays. Counters go
 * on as weir_change_commit() says. `server`, `memory` and the allocator are not read again; a difference there is a
 * warning.
 *
 * Returns 0, or as weir_contract_parse(), and WEIR_ERR_BUSY when the last reload was not quiesced.
 */
WEIR_API WEIR_MUST_USE int weir_contract_reload(struct weir_contract *contract, const char *text, size_t len,
                                                const char *name, weir_ns now, struct weir_reload *out,
                                                struct weir_diagnostics **diagnostics);

/* As weir_quiesce(): when no call that began before the reload still runs, and no answer of before is still used. */
WEIR_API void weir_contract_quiesce(struct weir_contract *contract, weir_ns now);

/* As weir_retire(): when no call that began before the last weir_contract_quiesce() still runs, or not at all. */
WEIR_API void weir_contract_retire(struct weir_contract *contract);

/* ---- Deciding -------------------------------------------------------------------------------------------- */

/* One fact about a request. */
struct weir_attribute {
    const char *name;  /* "tenant": [a-z][a-z0-9-]{0,31} */
    const char *value; /* NULL or empty: absent */
    size_t len;        /* bytes of value; 0: value is a C string */
};

/*
 * A limit that a request brings along, instead of the contract's: a window of `period`, from multiples of it since 1970, for
 * `requests` of the same key, whatever number each of them brings. A period other than a second, a minute, an hour, a day, 30 days
 * and 365 days is a bucket of `requests` that refills in it. Counted in this process, in the table of weir_contract_throttle();
 * the contract must be loaded with has_throttle.
 */
struct weir_own_limit {
    const void *key;   /* weir_descriptor_key() */
    size_t key_len;    /* at most WEIR_DESCRIPTOR_KEY_MAX */
    uint64_t requests; /* at most UINT32_MAX; 0: none passes */
    weir_ns period;    /* above 0; at most ten years */
};

struct weir_request {
    /* In any order, no name twice. `path`, `host` and `ip` are brought into their one spelling before they are matched. */
    const struct weir_attribute *attributes;
    size_t attribute_count; /* at most WEIR_ATTRIBUTES_MAX */
    uint64_t cost;          /* of limits that state no cost of their own; 0 looks */
    bool is_peek;           /* answer, charge nothing; of several: those only look, and others are charged */
    weir_ns wait; /* how long the caller can wait, for weir_contract_wait(); the other calls do not wait */
    /* NULL, or the next of several, at most 64, that are decided as one: all pass or nothing is charged. What several ask of one key
       is added up, and its numbers are those of the sum. Where all of them are is_peek it answers what they would get; where some
       are, these look with a cost of 0. wait of the first counts for all. */
    const struct weir_request *also;
    /* NULL, or a limit of its own: the request meets that and none of the contract's, and its attributes are not read. In the answer
       its each[i].limit is WEIR_NO_LIMIT, and each[i].remaining * requests / each[i].capacity (rounded down) are left. */
    const struct weir_own_limit *own;
};

/* Whether it, and all that follow it, only look. */
WEIR_API bool weir_request_is_peek(const struct weir_request *request);

/* The whole answer: the binding decision, and each limit that the request met, in contract order; of one limit in the order of
   who asked. */
struct weir_answer {
    struct weir_decision decision;
    const struct weir_contract_limit *limits; /* what limit ids here index: until weir_contract_quiesce() */
    size_t count;
    /* Bit i: each[i] is of a limit that does not enforce here (shadow, N%): it says what would have been, and took no part in
       `decision`. */
    uint64_t watched;
    struct weir_decision each[WEIR_ASKS_MAX];
    uint8_t asked_by[WEIR_ASKS_MAX]; /* each[i] was asked by this one of weir_request.also, from 0 */
};
/* WEIR_ASKS_MAX <= 64: `watched` has a bit for each. */

/*
 * Decide one request. A request that meets no limit is allowed, with decision.limit WEIR_NO_LIMIT.
 *
 * Returns 0, WEIR_ERR_ATTRIBUTE (weir_contract_validate() says which and why), WEIR_ERR_COST, WEIR_ERR_LIMIT, WEIR_ERR_KEY or
 * WEIR_ERR_RATE (a limit of its own that cannot be counted), WEIR_ERR_ASKS (meets
 * more than WEIR_ASKS_MAX limits, with those of weir_request.also); on an error nothing was charged and *out is untouched.
 * Cost: proportional to the request's size and to the limits that match it, not to the limits of the contract.
 */
WEIR_API WEIR_MUST_USE int weir_contract_decide(const struct weir_contract *contract,
                                                const struct weir_request *request, weir_ns now,
                                                struct weir_answer *out);

/* The short form: cost 1, the binding decision only. */
WEIR_API WEIR_MUST_USE int weir_contract_admit(const struct weir_contract *contract,
                                               const struct weir_attribute *attributes, size_t count,
                                               weir_ns now, struct weir_decision *out);

/* What is wrong with a request, without deciding it. */
struct weir_fault {
    size_t attribute; /* index into request->attributes; attribute_count when the fault lies elsewhere */
    char message[160];
    size_t request; /* which of weir_request.also, from 0 */
};
WEIR_API WEIR_MUST_USE int weir_contract_validate(const struct weir_contract *contract,
                                                  const struct weir_request *request, struct weir_fault *out);

/*
 * Decide, and where it is allowed reserve: the cost is an estimate, to be settled with weir_settle() or given back with
 * weir_cancel() on weir_contract_limiter(). A settlement changes only limits with `cost: { from }` or, where none
 * matched, those without `cost`. The reservation expires `hold` ns from now. Where no limit was met that enforces, the
 * ticket's len is 0: there is nothing to settle. Limits that do not enforce are charged the estimate, and not settled.
 */
WEIR_API WEIR_MUST_USE int weir_contract_reserve(const struct weir_contract *contract,
                                                 const struct weir_request *request, weir_ns now, weir_ns hold,
                                                 struct weir_answer *out, struct weir_reservation *ticket);

/* Decide, and where it is allowed give a permit of every concurrency limit that was met and enforces: weir_acquire(). The
   other calls only look at such limits. Renew and release it with weir_renew() and weir_release() on
   weir_contract_limiter(). */
WEIR_API WEIR_MUST_USE int weir_contract_acquire(const struct weir_contract *contract,
                                                 const struct weir_request *request, weir_ns now,
                                                 struct weir_answer *out, struct weir_permit *permit);

/*
 * As weir_contract_decide() (waiter->acquires: as weir_contract_acquire()), and wait for up to request->wait ns where the
 * limits that refuse let callers wait: weir_wait_start() with what the request asks of the contract. Where
 * out->decision.outcome is WEIR_WAIT the driver of weir_contract_limiter() ends it (one that sleeps sets
 * weir_contract_options.wake), and weir_contract_waited() has the answer then; anything else is the answer, and
 * waiter->done() does not come. A thread that may sleep needs no driver:
 *
 *     struct weir_waiter_part parts[WEIR_ASKS_MAX];
 *     struct weir_waiter waiter = { .parts = parts, .part_room = WEIR_ASKS_MAX };
 *     if (weir_contract_wait(contract, &request, weir_now(), &waiter, &answer) != 0)
 *         ...                                   // nothing was decided, and nothing waits
 *     else if (answer.decision.outcome == WEIR_WAIT) {
 *         weir_wait_block(weir_contract_limiter(contract), &waiter);
 *         weir_contract_waited(contract, &waiter, &answer);
 *     }
 *
 *   waiter  parts for as many limits as the request meets. WEIR_ASKS_MAX of them always suffice; fewer do where
 *           weir_answer.count of a request with is_peek said so, which charges nothing. weir_contract_decide() without it
 *           is the request itself: whoever asked that first, and was denied, has the count from there.
 *
 * Returns as weir_contract_decide(), or WEIR_ERR_WAITER (too few parts, and nothing was charged: look again how many are
 * needed).
 */
WEIR_API WEIR_MUST_USE int weir_contract_wait(const struct weir_contract *contract,
                                              const struct weir_request *request, weir_ns now,
                                              struct weir_waiter *waiter, struct weir_answer *out);

/* The answer of a waiter that has ended, in the words of the contract in force: limits that are not in it any more are left
   out. */
WEIR_API void weir_contract_waited(const struct weir_contract *contract, const struct weir_waiter *waiter,
                                   struct weir_answer *out);

/* Whether an answer that denies might have been waited for: every limit that enforces and refuses lets callers wait. */
WEIR_API bool weir_answer_may_wait(const struct weir_answer *answer);

/* Give request->cost back to every limit that the request meets and that a settlement would change, each of weir_request.also its
   own; `out` tells of those that enforce. */
WEIR_API WEIR_MUST_USE int weir_contract_refund(const struct weir_contract *contract,
                                                const struct weir_request *request, weir_ns now,
                                                struct weir_settlement *out);

/* Forget what one key of one limit has used. `key` names the limit's key attributes, all of them. Returns 0,
   WEIR_ERR_LIMIT, or WEIR_ERR_ATTRIBUTE and *fault says what does not fit. */
WEIR_API WEIR_MUST_USE int weir_contract_reset(const struct weir_contract *contract, const char *limit,
                                               const struct weir_attribute *key, size_t count,
                                               struct weir_fault *fault);

/* The limiter that counts for this contract: its limit ids are the contract's, in contract order. */
WEIR_API struct weir *weir_contract_limiter(const struct weir_contract *contract);

/*
 * Decide by a limit that the request itself brings along, beside the contract: GCRA, where a request of `cost` ns passes while no
 * more than `tolerance` ns are used. All of them share one shape, a tick of which is a nanosecond, and the contract's table.
 *
 *   key, len   whose; 0..WEIR_KEY_MAX bytes. Apart from every key of the contract's limits.
 *   cost       interval x quantity, in ns; 0 looks.
 *   tolerance  interval x burst, in ns; at most WEIR_THROTTLE_MAX.
 *   out        remaining and capacity are ns as well; limit is WEIR_NO_LIMIT.
 *
 * Returns 0, WEIR_ERR_LIMIT (the contract was loaded without has_throttle), WEIR_ERR_KEY, WEIR_ERR_RATE (tolerance).
 * Threads and cost: as weir_check(). Keeps G1, G2, G3. Source: GCRA (ITU-T I.371) as redis-cell has it.
 */
#define WEIR_THROTTLE_MAX ((UINT64_C(1) << 62) - 1)
WEIR_API WEIR_MUST_USE int weir_contract_throttle(const struct weir_contract *contract, const void *key,
                                                  size_t len, uint64_t cost, uint64_t tolerance, bool is_peek,
                                                  weir_ns now, struct weir_decision *out);

/* ---- Shared limits: one budget for a fleet ------------------------------------------------------------------ */

/*
 * With WEIR_FLEET_SHARED a request that meets limits of `scope: fleet` is decided in three steps: the limits of this process
 * are asked and charged, the store is asked for the others, and then the first are kept or undone and both become one answer.
 *
 *     weir_contract_begin(contract, &request, now, &waiter, &answer, &shared);
 *     if (shared.count == 0)
 *         ...                          // the answer (or WEIR_WAIT), as of weir_contract_wait(): no shared limit has a say
 *     else
 *         ...                          // ask the store; met[i].decision for shared.asks[i]; where it could not be had
 *                                      // weir_contract_fall_back() gives it
 *     weir_contract_end(contract, &shared.rules, met, count, &waiter, now, &answer);
 *
 * weir_contract_decide() and its kin answer of such a contract as if the store were away since it was loaded, and let nobody wait
 * whose request meets shared limits; weir_contract_refund() leaves these out.
 */

/* The longest key of a shared limit. */
#define WEIR_SHARED_KEY_MAX 256

/*
 * The size of a shared key, in whole numbers that a script computes with as exactly as with integers: every product that a
 * decision needs stays below 2^52 (algorithms: a number there is a double). Times are in ticks: microseconds, or milliseconds
 * where those are too fine for the numbers; what fits neither is refused at load.
 */
struct weir_shared_size {
    weir_ns tick;      /* WEIR_MICROSECOND or WEIR_MILLISECOND */
    uint64_t capacity; /* burst, count of a window or log, at_most */
    uint64_t debt;     /* buckets */
    uint64_t
        count; /* buckets: `count` tokens come back in `period` ticks, without a common factor; 0: none ever */
    uint64_t period;   /* buckets; windows and logs: their length, 0 for calendars; concurrency: hold */
    bool is_unlimited; /* the rest is not read */
};

/*
 * How a shared limit is handed out in portions: a replica is granted some tokens, spends them by itself and reports. The store
 * debits a portion when it grants it, so whatever becomes of the replica the fleet admits no more than the limit says.
 */
struct weir_lease {
    uint64_t
        most; /* tokens out at all replicas together; 0: the limit is not leased, each decision asks the store */
    uint64_t chunk;   /* at one replica; at most `most` */
    weir_ns duration; /* of a portion, in whole milliseconds */
};

/* One question to the store: this cost, of this key, under this limit. Pointers live as long as the request and this. */
struct weir_shared_ask {
    weir_limit_id limit;
    const unsigned char
        *key; /* the parts of the key, each its length + 1 in two bytes, big-endian, and its bytes; an absent
                                 part is the length 0. A long key is { 0xff, 0xff } and 32 bytes of its SHA-256 */
    size_t key_len;
    uint64_t cost;                /* UINT64_MAX: above whatever the limit holds */
    struct weir_shared_size size; /* of this key */
    struct weir_lease
        lease;            /* the limit's; of a key whose capacity is smaller than `most`, no more than that */
    const void *retry_id; /* NULL, or what makes a retry the same request */
    size_t retry_id_len;  /* at most WEIR_ATTRIBUTE_MAX */
    bool is_estimate;     /* a settlement changes it */
    bool is_watched;      /* takes no part in the decision, and takes when the others pass */
    uint64_t asked_by;    /* a bit for each of weir_request.also that asks it; 0: the first */
};

/* Some 30 KB. */
struct weir_shared {
    const void *rules;                        /* under which it was asked: until weir_contract_quiesce() */
    const struct weir_contract_limit *limits; /* what limit ids here index: as long */
    size_t count;
    struct weir_shared_ask asks[WEIR_ASKS_MAX]; /* in contract order, no (limit, key) twice */
    unsigned char keys[WEIR_ASKS_MAX][WEIR_SHARED_KEY_MAX];
    unsigned char retries[WEIR_ASKS_MAX]
                         [32]; /* hashes of retry ids that are spelled unlike the request has them */
};

/* What became of one question. */
struct weir_shared_met {
    weir_limit_id limit;
    uint64_t cost;
    bool is_watched;
    struct weir_decision decision; /* stamps by this process's clock */
    uint64_t asked_by;             /* of the ask */
};

/*
 * The first step. The waiter is made tentative where shared limits have a say: it ends in weir_contract_end().
 *
 *   waiter  as for weir_contract_wait(): its memory lives until weir_contract_end(), or until it has ended where shared->count
 *           is 0. With WEIR_ASKS_MAX parts, or as many as the contract has limits for each of weir_request.also, it has enough.
 *   out     the answer, where shared->count is 0. A request that limits of this process refuse asks nothing of the store; the
 *           shared limits are then left out of the answer.
 *
 * Where out->decision.outcome is WEIR_WAIT it waits for limits of this process first, and shared->count is 0. When it has ended,
 * waiter->is_tentative says that shared limits have a say: where it passed, weir_contract_shared() has the questions (a reload may
 * have left none) and it goes on as above; else weir_contract_waited() has the answer.
 *
 * A request with is_peek charges nothing; its waiter only carries what was seen to weir_contract_end(). waiter->count is 0 where
 * no limit of this process was met.
 *
 * Returns as weir_contract_wait().
 */
WEIR_API WEIR_MUST_USE int weir_contract_begin(const struct weir_contract *contract,
                                               const struct weir_request *request, weir_ns now,
                                               struct weir_waiter *waiter, struct weir_answer *out,
                                               struct weir_shared *shared);

/* What a request asks of the store, alone. Returns 0, or as weir_contract_decide(). */
WEIR_API WEIR_MUST_USE int weir_contract_shared(const struct weir_contract *contract,
                                                const struct weir_request *request, struct weir_shared *out);

/* Whose key weir_contract_reset() of a shared limit means: `out` has that one ask, or count 0 where the limit is of this process.
   Returns as weir_contract_reset(). */
WEIR_API WEIR_MUST_USE int weir_contract_shared_key(const struct weir_contract *contract, const char *limit,
                                                    const struct weir_attribute *key, size_t count,
                                                    struct weir_shared *out, struct weir_fault *fault);

/* An outage of a store, as who asks it sees it. */
struct weir_outage {
    weir_ns began_at; /* the first failure since anything was heard of it */
    uint64_t number;  /* rises with each outage in this process, from 1 */
};

/*
 * What the limits say of whose store nothing could be had: each by its `when-store-fails`, and those with `local` out of this
 * process's share, all or nothing. Where it refuses, nothing was taken. What is in hand of a lease is not looked at: who holds it
 * asks here for the rest, which `leased` refuses.
 *
 *   asked    a bit for each shared->asks[i] that is to be answered.
 *   outages  of each, by its index.
 *   is_peek  takes nothing.
 *   each     written for the bits of `asked`. Policy and reason are set; under WEIR_POLICY_LOCAL it is WEIR_ALLOW, _DENY,
 *            or WEIR_DUPLICATE of what passed here before (limit.retries_free_within). A cost above the limit is WEIR_NEVER whatever
 *            the policy, and a key that is not counted WEIR_ALLOW, both without one: no store is needed to know that.
 */
WEIR_API void weir_contract_fall_back(const struct weir_contract *contract, const struct weir_shared *shared,
                                      uint64_t asked, const struct weir_outage *outages, bool is_peek,
                                      weir_ns now, struct weir_decision *each);

/*
 * The last step: keep or undo what the limits of this process were charged, and write the whole answer in contract order, the
 * binding decision first of all.
 *
 *   rules   weir_shared.rules.
 *   met     ascending by limit; may be empty. Those that take part decide with the waiter's whether it passes. met[i].limit
 *           counts, not met[i].decision.limit.
 *   waiter  of weir_contract_begin(), ended and passed; or NULL where the request met no limit of this process.
 * Threads: as weir_contract_decide().
 */
WEIR_API void weir_contract_end(const struct weir_contract *contract, const void *rules,
                                const struct weir_shared_met *met, size_t count, struct weir_waiter *waiter,
                                weir_ns now, struct weir_answer *out);

/* The store of the contract as of loading. Lives as long as the contract. */
struct weir_contract_store {
    const char *url;   /* NULL: it does not say */
    weir_ns deadline;  /* of one decision: 5 ms where the contract does not say */
    bool has_deadline; /* it says so */
};
WEIR_API const struct weir_contract_store *weir_contract_store(const struct weir_contract *contract);

/* Whether any limit is shared. */
WEIR_API bool weir_contract_has_shared(const struct weir_contract *contract);

/* As weir_wall_offset_set(), for weir_contract_limiter() and for what counts shares while a store is away. Threads: any. */
WEIR_API void weir_contract_wall_offset_set(struct weir_contract *contract, int64_t offset);

/* ---- Identity: attributes from an HTTP request, as the contract's `identity` says --------------------------- */

/* Which headers carry the original request (docs: a proxy overwrites those of its door). */
enum weir_auth_door {
    WEIR_AUTH,       /* X-Forwarded-Method, -Host, -Uri */
    WEIR_AUTH_NGINX, /* X-Original-Method, -URI */
    WEIR_AUTH_ACCEL, /* the same */
};

/* One field line of a request head; names in any case. Not zero-terminated. */
struct weir_field {
    const char *name, *value;
    size_t name_len, value_len;
};

/* Who is at the other end of the connection. */
struct weir_peer {
    bool is_unix; /* a Unix socket; uid is then its peer's */
    uint32_t uid;
    uint8_t address[16];  /* IPv6, or IPv4 mapped into ::ffff:0:0/96; unused for Unix sockets */
    bool has_credentials; /* presented a known token or client certificate */
    /* Speaks for somebody whose address it does not name: never one of `proxies`, whatever its own address or uid. */
    bool is_stranger;
    /* The subject of its verified client certificate, as RFC 2253 writes it: "CN=billing,O=Acme"; NULL: it has shown none.
       One above WEIR_ATTRIBUTE_MAX bytes may be cut off behind one byte more: it is refused either way. */
    const char *subject;
    size_t subject_len;
};

struct weir_head {
    enum weir_auth_door door;
    struct weir_peer peer;
    const char *method,
        *target; /* as sent; `target` begins behind the door's own path: "/rest/of/path?query", or "" */
    size_t method_len, target_len;
    const struct weir_field *fields; /* every field line, in order */
    size_t field_count;
};

/* What was found. Values point into the head, into `storage` or into the contract, and live as long as the shortest. */
struct weir_identity {
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    size_t count;
    /* NULL, or the attribute whose value no limit accepts: answer WEIR_NEVER, reason ATTRIBUTE. */
    const char *refused;
    char storage[4096];
};

/* Reads attributes. Writes out->refused rather than failing; a refused request is answered by weir_answer_refused(). */
WEIR_API void weir_contract_identify(const struct weir_contract *contract, const struct weir_head *head,
                                     struct weir_identity *out);

/*
 * Whether the peer is one of the contract's `proxies`: an address of theirs, or a Unix socket's uid that is listed. What it says
 * of others is believed then.
 */
WEIR_API bool weir_contract_trusts_peer(const struct weir_contract *contract, const struct weir_peer *peer);

/* ---- Descriptors: attributes from a call of Envoy's rate limit service --------------------------------------- */

/* Most descriptors of a call, and most entries of one. */
#define WEIR_DESCRIPTORS_MAX 64
#define WEIR_ENTRIES_MAX 24

struct weir_entry {
    const char *key, *value; /* not zero-terminated */
    size_t key_len, value_len;
};

struct weir_descriptor {
    const struct weir_entry *entries;
    size_t entry_count;
};

/*
 * The attributes of one descriptor that limits read, by the rule that `weir import ratelimit` writes contracts for:
 *
 *   domain      of the call;
 *   descriptor  the keys of its entries in order, with commas between them;
 *   NAME        of each entry: its key in lower case, '-' for other characters than a-z and 0-9 (x before one that begins with
 *               such a character), -2, -3 behind one that an earlier entry has; "entry-" before a name that weir gives a meaning;
 *   and of the call's other descriptors' entries, the first that has the name, where no entry of this one has it.
 *
 * An entry whose name weir gives a meaning (path, method, host, query, ip, request-id) is there under that name too, and
 * `remote_address` as `ip`: so one contract serves this door and the others. An empty value is an absent one.
 *
 * Writes out->refused rather than failing, as weir_contract_identify() does, where a value that a limit reads is no value of an
 * attribute (over WEIR_ATTRIBUTE_MAX bytes, a control byte, a path with a bad escape, no address, no host, no cost), where keys are
 * empty, have a comma or are longer than that together, and where there are more than WEIR_ENTRIES_MAX entries, or with those of
 * others more than WEIR_ATTRIBUTES_MAX attributes. A reload may let weir_contract_decide() refuse what was described before it:
 * whoever asks it answers WEIR_ERR_ATTRIBUTE and WEIR_ERR_COST as a refused one.
 *
 * Threads: any. Allocates nothing.
 */
WEIR_API void weir_contract_describe(const struct weir_contract *contract, const char *domain,
                                     size_t domain_len, const struct weir_descriptor *descriptors, size_t count,
                                     size_t index, struct weir_identity *out);

/* Whose a limit is that a descriptor brings along: the domain and its entries, as a hash. Returns the length. */
#define WEIR_DESCRIPTOR_KEY_MAX 32
WEIR_API size_t weir_descriptor_key(const char *domain, size_t domain_len,
                                    const struct weir_descriptor *descriptor,
                                    unsigned char out[WEIR_DESCRIPTOR_KEY_MAX]);

/* The answer to a request that weir_contract_identify() refused. */
WEIR_API void weir_answer_refused(weir_ns now, struct weir_answer *out);

/* ---- Looking inside -------------------------------------------------------------------------------------- */

/* A name for this text of the contract: 16 hex digits of its SHA-256. */
WEIR_API const char *weir_contract_version(const struct weir_contract *contract);

/* How hard a limit is enforced. */
enum weir_enforce { WEIR_ENFORCE_ALWAYS, WEIR_ENFORCE_SHADOW, WEIR_ENFORCE_OFF, WEIR_ENFORCE_SHARE };

/* What a shared limit does when its store cannot be had. */
enum weir_store_fails { WEIR_STORE_CLOSED, WEIR_STORE_OPEN, WEIR_STORE_LOCAL, WEIR_STORE_LEASED };

/* One limit as loaded. Strings live as long as the contract is in force. */
struct weir_contract_limit {
    const char *name;
    const char *about; /* NULL when the contract says nothing */
    const char *json;  /* the limit as one JSON object, every field with its value in force */
    enum weir_algorithm algorithm;
    uint64_t capacity; /* burst, or the count of a window */
    uint64_t cost;     /* of every request; 0: what the request says, or an attribute */
    weir_ns window;    /* RateLimit-Policy's w: the window, or the time from empty to full, in ns rounded up;
                          WEIR_NO_TIME when nothing refills */
    struct weir_wait wait; /* up_to 0: callers do not wait for it */
    weir_ns hold;          /* concurrency: of a permit */
    enum weir_enforce enforce;
    unsigned enforce_percent; /* of keys, with WEIR_ENFORCE_SHARE */
    /* Of `reply`: how a refusal by this limit looks; 0 and NULL: the usual. */
    unsigned reply_status;
    const char *reply_title, *reply_detail;
    const struct weir_limit
        *spec;      /* as weir_limit_add() takes it; key_form names the parts of its keys: "tenant,path" */
    bool is_shared; /* scope: fleet */
    enum weir_store_fails when_store_fails;
    weir_ns open_for;         /* WEIR_STORE_OPEN: closed after so long; 0: as long as it lasts */
    uint32_t share, share_of; /* WEIR_STORE_LOCAL: share / share_of of the limit, for this process */
    struct weir_lease lease;  /* of keys without an override */
};
WEIR_API size_t weir_contract_limit_count(const struct weir_contract *contract);
WEIR_API const struct weir_contract_limit *weir_contract_limit(const struct weir_contract *contract,
                                                               weir_limit_id limit);

/* Which reply fields carry the numbers. */
enum weir_headers { WEIR_HEADERS_TRIO, WEIR_HEADERS_DRAFT, WEIR_HEADERS_X_RATELIMIT, WEIR_HEADERS_NONE };

/* Which form a server's log has: `key=value`, or an object of JSON on each line. */
enum weir_log_format { WEIR_LOG_LOGFMT, WEIR_LOG_JSON };

/* The contract's `server` as of loading and its `headers`, for the program that serves it. Absent lists have count 0,
   strings NULL. Lives as long as the contract; ask again after a reload, which may change `headers`. */
enum weir_door { WEIR_DOOR_HTTP = 1, WEIR_DOOR_RESP = 2, WEIR_DOOR_GRPC = 4 };

struct weir_contract_server {
    const char *const *http; /* addresses as in `weir serve --http` */
    size_t http_count;
    const char *const *resp; /* the same, of the Redis protocol */
    size_t resp_count;
    const char *const *grpc; /* the same, of Envoy's rate limit service */
    size_t grpc_count;
    const char *admin;
    const char *tokens;                             /* path of the tokens file */
    const char *tls_cert, *tls_key, *tls_client_ca; /* paths of PEM files */
    const uint32_t *uids;
    size_t uid_count;
    bool has_uids;                   /* the list was given; else: own uid and 0 */
    bool auth_wait;                  /* `Prefer: wait=` is heard at the auth doors */
    bool rls_refunds;                /* calls of Envoy's rate limit service may give hits back */
    enum weir_log_format log_format; /* how lines of the log are written */
    unsigned proxy_doors;            /* WEIR_DOOR_HTTP and so on, of those with the PROXY protocol */
    size_t connections_per_peer;     /* 0: not said */
    unsigned socket_mode;            /* of Unix sockets; 0: not said */
    enum weir_headers headers;
};
WEIR_API const struct weir_contract_server *weir_contract_server(const struct weir_contract *contract);

/*
 * Print each limit in plain English with its worst case in numbers; answers that are defaults are marked.
 *
 *   replicas  how many processes hold this contract; 0: as it says itself, or 1.
 *   is_json   one JSON object instead.
 *   request   NULL; or also which limits this request meets, and why the others do not apply.
 */
struct weir_explain_options {
    unsigned replicas;
    bool is_json;
    const struct weir_request *request;
};
WEIR_API WEIR_MUST_USE int weir_contract_explain(const struct weir_contract *contract,
                                                 const struct weir_explain_options *options, FILE *out);

/* ---- Reviewing and importing ------------------------------------------------------------------------------- */

/*
 * What is legal and probably wrong, as warnings with reasons. `replicas` as in weir_explain_options. Returns 0 and
 * *diagnostics (NULL: nothing found), or WEIR_ERR_MEMORY.
 */
WEIR_API WEIR_MUST_USE int weir_contract_lint(const struct weir_contract *contract, unsigned replicas,
                                              struct weir_diagnostics **diagnostics);

enum weir_foreign {
    WEIR_FOREIGN_RATELIMIT, /* envoyproxy/ratelimit: a YAML file, or a folder of them */
    WEIR_FOREIGN_NGINX,     /* limit_req_zone, limit_req, limit_conn of an nginx configuration */
};

/*
 * Write the contract that admits what the foreign files at `path` admit, to `out`; a comment says where it differs.
 * Returns 0, WEIR_ERR_FILE, or WEIR_ERR_CONTRACT where it cannot be said (diagnostics), and then nothing was written.
 */
WEIR_API WEIR_MUST_USE int weir_contract_import(enum weir_foreign kind, const char *path, FILE *out,
                                                struct weir_diagnostics **diagnostics);

/* What a service that takes the place of envoyproxy/ratelimit asks of the contract. */
struct weir_import_ratelimit {
    bool is_shared; /* `scope: fleet`, and what fails is an error, not a denial: `when-store-fails: closed` */
    /* What is refused is charged, and `about` of a limit says what its rule is beside that, in this order. */
    bool is_compatible;
    weir_ns deadline;   /* of the store; 0: the usual */
    const char *prefix; /* before the names of limits, by which a store knows them; NULL: none */
};
#define WEIR_IMPORT_QUOTA "quota_mode "
#define WEIR_IMPORT_NAME "name " /* that the rule gave itself; up to the end */

/* As weir_contract_import(WEIR_FOREIGN_RATELIMIT), in a folder also with a warning for each file that is not read. */
WEIR_API WEIR_MUST_USE int weir_contract_import_ratelimit(const char *path,
                                                          const struct weir_import_ratelimit *options,
                                                          FILE *out, struct weir_diagnostics **diagnostics);

#ifdef __cplusplus
}
#endif

#endif
