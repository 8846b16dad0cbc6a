// SPDX-License-Identifier: Apache-2.0
/*
 * decide.c - from a request's attributes to one answer: read, match, make keys, have weir.h decide all or nothing.
 *
 * One call uses one set of rules and the limiter's set they were prepared for; told that a newer one is in force, it
 * starts over. A request that lacks a key attribute: under `skip` the matcher does not find the limit; `share` counts
 * the absence as a value like any other; `refuse` answers never, and then nothing is charged anywhere (G2).
 *
 * A watched limit (shadow, N%) is asked alone and behind the others: it takes when they let the request pass, so that it
 * counts what it would have counted if it alone were enforced beside them. It never binds. A watched concurrency limit
 * gives no permits, so it has none to count.
 *
 * Nothing here allocates. The stack holds some 60 KB: values, keys and asks of at most 64 limits.
 */
#include <sched.h>
#include <time.h>

#include "rule/shared.h"
#include "rule/throttle.h"

/* Looks in a row, and then with the processor given up in between; from there on it is given up for NAP ns. */
#define LOOKS_AT_ONCE 8
#define LOOKS_AWAKE 64
#define NAP 50000

/* ---- Answers that no limit gives ------------------------------------------------------------------------------------ */

struct weir_decision decide_no_limit(weir_ns now)
{
    return (struct weir_decision){ .outcome = WEIR_ALLOW,
                                   .limit = WEIR_NO_LIMIT,
                                   .decided_at = now,
                                   .retry_at = now,
                                   .reset_at = WEIR_NO_TIME };
}

struct weir_decision decide_missing_key(const struct rules *rules, weir_limit_id limit, weir_ns now)
{
    return (struct weir_decision){ .outcome = WEIR_NEVER,
                                   .reason = WEIR_REASON_MISSING_KEY,
                                   .limit = limit,
                                   .capacity = rules->limits[limit].capacity,
                                   .decided_at = now,
                                   .retry_at = WEIR_NO_TIME,
                                   .reset_at = WEIR_NO_TIME };
}

/* Too many others at once: the whole request, or a watched limit that a reload overtook. */
static struct weir_decision contended(enum weir_outcome outcome, enum weir_policy policy, weir_limit_id limit,
                                      weir_ns now)
{
    return (struct weir_decision){ .outcome = outcome,
                                   .policy = policy,
                                   .reason = WEIR_REASON_CONTENDED,
                                   .limit = limit,
                                   .decided_at = now,
                                   .retry_at = now,
                                   .reset_at = WEIR_NO_TIME };
}

/* ---- Asking ----------------------------------------------------------------------------------------------------------- */

/* All or nothing. */
static int ask_together(const struct asking *asking, bool is_peek, const struct weir_ask *asks, size_t count,
                        struct weir_decision *each, struct weir_decision *out)
{
    const struct weir_set *set = asking->rules->set;
    if (is_peek)
        return weir_set_admit_peek(set, asks, count, asking->now, each, out);
    if (asking->permit != NULL)
        return weir_set_acquire(set, asks, count, asking->now, each, out, asking->permit);
    if (asking->ticket != NULL)
        return weir_set_reserve(set, asks, count, asking->now, asking->hold, each, out, asking->ticket);
    return weir_set_admit(set, asks, count, asking->now, each, out);
}

/* What a watched limit would say. `is_charged`: others were charged already, so the request cannot start over. */
static int watch(const struct asking *asking, const struct weir_ask *ask, bool is_peek, bool is_charged,
                 struct weir_decision *out)
{
    struct weir_decision own;
    const struct weir_set *set = asking->rules->set;
    int error = is_peek ? weir_set_admit_peek(set, ask, 1, asking->now, out, &own)
                        : weir_set_admit(set, ask, 1, asking->now, out, &own);
    if (error != WEIR_ERR_CHANGED || !is_charged)
        return error;
    *out = contended(WEIR_UNMETERED, WEIR_POLICY_OPEN, ask->limit, asking->now);
    return 0;
}

static int watch_all(const struct asking *asking, const struct questions *questions, struct weir_answer *out)
{
    bool is_peek = asking->is_peek || !decision_passes(&out->decision);
    bool is_charged = !is_peek && (size_t)__builtin_popcountll(questions->watched) < questions->count;
    for (size_t i = 0; i < questions->count; i++) {
        if ((questions->watched & ~questions->lacking & question_bit(i)) == 0)
            continue;
        int error = watch(asking, &questions->asks[i], is_peek, is_charged, &out->each[i]);
        if (error != 0)
            return error;
        is_charged = is_charged || !is_peek;
    }
    return 0;
}

/*
 * Some limits are watched, or refuse a request without its key. Where one that enforces does so, the answer is its
 * own, and the others say what they would.
 */
static int ask_apart(const struct asking *asking, const struct questions *questions, struct weir_answer *out)
{
    struct weir_ask others[WEIR_ASKS_MAX];
    struct weir_decision each[WEIR_ASKS_MAX];
    size_t count = 0;
    uint64_t apart = questions->lacking | questions->watched;
    uint64_t refusing = questions_refusing(questions);
    for (size_t i = 0; i < questions->count; i++)
        if ((apart & question_bit(i)) == 0)
            others[count++] = questions->asks[i];
    out->decision = decide_no_limit(asking->now);
    bool is_peek = asking->is_peek || refusing != 0;
    int error = count == 0 ? 0 : ask_together(asking, is_peek, others, count, each, &out->decision);
    if (error != 0)
        return error;

    size_t other = 0;
    for (size_t i = 0; i < questions->count; i++) {
        if ((questions->lacking & question_bit(i)) != 0)
            out->each[i] = decide_missing_key(asking->rules, questions->asks[i].limit, asking->now);
        else if ((apart & question_bit(i)) == 0)
            out->each[i] = each[other++];
    }
    if (refusing != 0)
        out->decision = out->each[__builtin_ctzll(refusing)];
    return watch_all(asking, questions, out);
}

int decide_questions(const struct asking *asking, const struct questions *questions, struct weir_answer *out)
{
    int error = 0;
    if (asking->ticket != NULL)
        asking->ticket->len = 0;
    if (asking->permit != NULL) {
        asking->permit->len = 0;
        asking->permit->fence = 0;
        asking->permit->expires_at = WEIR_NO_TIME;
    }
    if (questions->count == 0)
        out->decision = decide_no_limit(asking->now);
    else if ((questions->lacking | questions->watched) != 0)
        error = ask_apart(asking, questions, out);
    else
        error =
            ask_together(asking, asking->is_peek, questions->asks, questions->count, out->each, &out->decision);
    if (error != 0)
        return error;
    out->limits = asking->rules->limits;
    out->count = questions->count;
    out->watched = questions->watched;
    memset(out->asked_by, 0, out->count);
    return 0;
}

void decide_pause(unsigned looks)
{
    static const struct timespec nap = { .tv_nsec = NAP };
    if (looks >= LOOKS_AWAKE)
        (void)nanosleep(&nap, NULL); /* cut short by a signal it is short, too */
    else if (looks >= LOOKS_AT_ONCE)
        (void)sched_yield(); /* never fails on Linux */
}

void decide_nothing(const struct rules *rules, weir_ns now, struct weir_answer *out)
{
    *out = (struct weir_answer){ .limits = rules->limits };
    out->decision = contended(WEIR_REFUSED, WEIR_POLICY_CLOSED, WEIR_NO_LIMIT, now);
}

/* Limits of a fleet are among those it meets, and this call has no store to ask. */
static __attribute__((noinline)) int decide_away(const struct weir_contract *contract,
                                                 const struct asking *asking, struct questions *questions,
                                                 struct weir_answer *out)
{
    struct weir_waiter_part parts[WEIR_ASKS_MAX];
    struct weir_waiter waiter = { .parts = parts,
                                  .part_room = WEIR_ASKS_MAX,
                                  .acquires = asking->permit != NULL };
    return shared_decide_away(contract, asking, questions, &waiter, out);
}

static int decide_once(const struct weir_contract *contract, const struct asking *asking,
                       const struct weir_request *request, struct weir_answer *out)
{
    struct questions questions;
    int error = questions_write(asking->rules, request, &questions, NULL);
    if (error != 0)
        return error;
    if (asking->rules->is_apart && questions_have_shared(asking->rules, &questions))
        return decide_away(contract, asking, &questions, out);
    error = decide_questions(asking, &questions, out);
    if (error == 0)
        answer_spread(&questions, out);
    return error;
}

static int decide(const struct weir_contract *contract, struct asking asking,
                  const struct weir_request *request, struct weir_answer *out)
{
    for (unsigned looks = 0; looks < LOOKS_MAX; looks++) {
        asking.rules = contract_rules(contract);
        int error = decide_once(contract, &asking, request, out);
        if (error == 0)
            own_hide(out, asking.rules->limit_count);
        if (error != WEIR_ERR_CHANGED)
            return error;
        decide_pause(looks);
    }
    decide_nothing(asking.rules, asking.now, out);
    return 0;
}

/* ---- The public calls -------------------------------------------------------------------------------------------------- */

int weir_contract_decide(const struct weir_contract *contract, const struct weir_request *request, weir_ns now,
                         struct weir_answer *out)
{
    return decide(contract, (struct asking){ .now = now, .is_peek = asks_are_peek(request) }, request, out);
}

int weir_contract_admit(const struct weir_contract *contract, const struct weir_attribute *attributes,
                        size_t count, weir_ns now, struct weir_decision *out)
{
    struct weir_answer answer;
    struct weir_request request = { .attributes = attributes, .attribute_count = count, .cost = 1 };
    int error = weir_contract_decide(contract, &request, now, &answer);
    if (error == 0)
        *out = answer.decision;
    return error;
}

int weir_contract_reserve(const struct weir_contract *contract, const struct weir_request *request, weir_ns now,
                          weir_ns hold, struct weir_answer *out, struct weir_reservation *ticket)
{
    struct asking asking = { .now = now, .is_peek = asks_are_peek(request), .ticket = ticket, .hold = hold };
    return decide(contract, asking, request, out);
}

int weir_contract_acquire(const struct weir_contract *contract, const struct weir_request *request, weir_ns now,
                          struct weir_answer *out, struct weir_permit *permit)
{
    return decide(contract, (struct asking){ .now = now, .is_peek = asks_are_peek(request), .permit = permit },
                  request, out);
}
