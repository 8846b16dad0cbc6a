// SPDX-License-Identifier: Apache-2.0
/*
 * shared.c - what a request asks of a store beside what it asks here, and what its limits say where the store is away.
 *
 * The limits of this process come first, and what they charge is tentative until the store has spoken: a waiter that is kept or
 * undone (G2 across scopes, algorithms 1.11). A request that they refuse asks the store nothing.
 */
#include "rule/shared.h"

#include "rule/share.h"
#include "rule/size.h"
#include "rule/throttle.h"

_Static_assert(WEIR_SHARED_KEY_MAX == KEY_PLAIN_MAX, "the store's keys are those of the limits");

/* When to ask again where nothing is known but that the store is away: breakers look for it more often than that. */
#define AWAY_RETRY WEIR_SECOND

/* ---- Questions --------------------------------------------------------------------------------------------------------- */

/* Of this key: the limit's, or its override's. */
struct weir_shared_size shared_size_of_key(const struct rules *rules, const struct rule *rule,
                                           const struct weir_ask *ask)
{
    struct weir_size own;
    struct weir_shared_size size;
    if (rule->overrides.count == 0 || weir_set_size(rules->set, ask->limit, ask->key, ask->key_len, &own) != 0
        || size_in_store(rule, &own, &size) != SIZE_FITS) /* what does not fit was refused at load */
        return rule->shared;
    return size;
}

/* An id that is spelled lies where it is gone after the call: its hash stands for it. */
static void put_retry(const struct rules *rules, const struct questions *questions, const struct weir_ask *ask,
                      struct weir_shared *out)
{
    struct weir_shared_ask *shared = &out->asks[out->count];
    const struct rule *rule = &rules->list[ask->limit];
    shared->retry_id = ask->retry_id;
    shared->retry_id_len = ask->retry_id_len;
    if (ask->retry_id == NULL || !attribute_is_rewritten(rules, rule->retry_by))
        return;
    if (questions->is_chain)
        memcpy(out->retries[out->count], ask->retry_id, SHA256_LEN);
    else
        sha256(ask->retry_id, ask->retry_id_len, out->retries[out->count]);
    shared->retry_id = out->retries[out->count];
    shared->retry_id_len = SHA256_LEN;
}

static void put_shared(const struct rules *rules, const struct questions *questions, size_t index,
                       struct weir_shared *out)
{
    const struct weir_ask *ask = &questions->asks[index];
    const struct rule *rule = &rules->list[ask->limit];
    struct weir_shared_size size = shared_size_of_key(rules, rule, ask);
    unsigned char *key = out->keys[out->count];
    memcpy(key, ask->key, ask->key_len);
    out->asks[out->count] =
        (struct weir_shared_ask){ .limit = ask->limit,
                                  .key = key,
                                  .key_len = ask->key_len,
                                  .cost = ask->cost,
                                  .size = size,
                                  .lease = lease_of_size(rule, &size),
                                  .is_estimate = ask->is_estimate,
                                  .is_watched = (questions->watched & question_bit(index)) != 0,
                                  .asked_by = ask->tag };
    put_retry(rules, questions, ask, out);
    out->count++;
}

static bool is_shared(const struct rules *rules, const struct weir_ask *ask)
{
    return !is_hidden(rules, ask->limit) && rule_is_shared(&rules->list[ask->limit]);
}

static bool is_apart(const struct rules *rules, const struct questions *questions, size_t index)
{
    return is_shared(rules, &questions->asks[index]) && (questions->lacking & question_bit(index)) == 0;
}

bool questions_have_shared(const struct rules *rules, const struct questions *questions)
{
    for (size_t i = 0; i < questions->count; i++)
        if (is_shared(rules, &questions->asks[i]))
            return true;
    return false;
}

void shared_take(const struct rules *rules, struct questions *questions, struct weir_shared *out)
{
    uint64_t lacking = 0, watched = 0;
    size_t kept = 0;
    out->rules = rules;
    out->limits = rules->limits;
    out->count = 0;
    for (size_t i = 0; i < questions->count; i++) {
        if (is_apart(rules, questions, i)) {
            put_shared(rules, questions, i, out);
            continue;
        }
        lacking |= (questions->lacking & question_bit(i)) != 0 ? question_bit(kept) : 0;
        watched |= (questions->watched & question_bit(i)) != 0 ? question_bit(kept) : 0;
        questions->asks[kept++] = questions->asks[i];
    }
    questions->lacking = lacking;
    questions->watched = watched;
    questions->count = kept;
}

/* ---- Beginning ----------------------------------------------------------------------------------------------------------- */

/* A look charges nothing: the waiter only carries what was seen. */
static int look(const struct asking *asking, const struct questions *questions, struct weir_waiter *waiter,
                struct weir_answer *out)
{
    int error = decide_questions(asking, questions, out);
    if (error != 0)
        return error;
    size_t count = 0;
    waiter->watched = 0;
    for (size_t i = 0; i < out->count; i++) {
        if ((questions->lacking & question_bit(i)) != 0)
            continue;
        if (count == waiter->part_room)
            return WEIR_ERR_WAITER;
        waiter->parts[count].decision = out->each[i];
        waiter->parts[count].cost = questions->asks[i].cost;
        waiter->parts[count].tag = questions->asks[i].tag;
        waiter->watched |= (out->watched & question_bit(i)) != 0 ? question_bit(count) : 0;
        count++;
    }
    waiter->decision = out->decision;
    waiter->waited = 0;
    waiter->count = count;
    answer_spread(questions, out);
    return 0;
}

int shared_begin(const struct rules *rules, bool is_peek, struct questions *questions, weir_ns patience,
                 weir_ns now, struct weir_waiter *waiter, struct weir_answer *out, struct weir_shared *shared)
{
    struct asking asking = { .rules = rules, .now = now, .is_peek = is_peek };
    shared_take(rules, questions, shared);
    waiter->is_tentative = false;
    bool refuses = questions_refusing(questions) != 0;
    uint64_t lacking = questions->lacking;
    if (refuses || shared->count == 0) {
        shared->count = 0;
        return wait_questions(&asking, questions, patience, waiter, out);
    }
    int error;
    if (is_peek || questions->count == (size_t)__builtin_popcountll(lacking)) {
        error = look(&asking, questions, waiter, out);
    } else {
        waiter->is_tentative = true;
        error = wait_start(rules, questions, patience, now, waiter, out);
    }
    if (error == 0 && !decision_passes(&out->decision))
        shared->count = 0;
    return error;
}

static int begin_once(const struct rules *rules, const struct weir_request *request, weir_ns now,
                      struct weir_waiter *waiter, struct weir_answer *out, struct weir_shared *shared)
{
    struct questions questions;
    bool is_peek = asks_are_peek(request);
    int error = questions_write(rules, request, &questions, NULL);
    if (error != 0)
        return error;
    if (rules->is_apart)
        return shared_begin(rules, is_peek, &questions, request->wait, now, waiter, out, shared);
    shared->count = 0;
    waiter->is_tentative = false;
    struct asking asking = { .rules = rules, .now = now, .is_peek = is_peek };
    return wait_questions(&asking, &questions, request->wait, waiter, out);
}

int weir_contract_begin(const struct weir_contract *contract, const struct weir_request *request, weir_ns now,
                        struct weir_waiter *waiter, struct weir_answer *out, struct weir_shared *shared)
{
    const struct rules *rules = NULL;
    for (unsigned looks = 0; looks < LOOKS_MAX; looks++) {
        rules = contract_rules(contract);
        int error = begin_once(rules, request, now, waiter, out, shared);
        if (error == 0)
            own_hide(out, rules->limit_count);
        if (error != WEIR_ERR_CHANGED)
            return error;
        decide_pause(looks);
    }
    shared->count = 0;
    decide_nothing(rules, now, out);
    wait_end_empty(waiter, &out->decision);
    return 0;
}

int weir_contract_shared(const struct weir_contract *contract, const struct weir_request *request,
                         struct weir_shared *out)
{
    const struct rules *rules = contract_rules(contract);
    struct questions questions;
    int error = questions_write(rules, request, &questions, NULL);
    if (error != 0)
        return error;
    if (!rules->is_apart)
        questions.count = 0;
    shared_take(rules, &questions, out);
    return 0;
}

/* ---- Without the store ------------------------------------------------------------------------------------------------------ */

struct weir_decision decide_closed(const struct weir_shared_ask *ask, enum weir_reason reason, weir_ns now)
{
    return (struct weir_decision){ .outcome = WEIR_REFUSED,
                                   .policy = WEIR_POLICY_CLOSED,
                                   .reason = reason,
                                   .limit = ask->limit,
                                   .capacity = ask->size.capacity,
                                   .decided_at = now,
                                   .retry_at = now + AWAY_RETRY,
                                   .reset_at = WEIR_NO_TIME };
}

/* Refused: by `closed`, by `open` when its time is over, or by a lease of which nothing is in hand. */
static struct weir_decision decide_away(enum weir_store_fails word, const struct weir_shared_ask *ask,
                                        weir_ns now)
{
    struct weir_decision decision = decide_closed(ask, WEIR_REASON_STORE, now);
    if (word == WEIR_STORE_LEASED)
        decision.policy = WEIR_POLICY_LEASED;
    return decision;
}

static struct weir_decision decide_open(const struct weir_shared_ask *ask, weir_ns now)
{
    return (struct weir_decision){ .outcome = WEIR_UNMETERED,
                                   .policy = WEIR_POLICY_OPEN,
                                   .reason = WEIR_REASON_STORE,
                                   .limit = ask->limit,
                                   .capacity = ask->size.capacity,
                                   .decided_at = now,
                                   .retry_at = now,
                                   .reset_at = WEIR_NO_TIME };
}

/* No store is needed to know that it can never pass (P9). */
static struct weir_decision decide_too_large(const struct weir_shared_ask *ask, weir_ns now)
{
    return (struct weir_decision){ .outcome = WEIR_NEVER,
                                   .limit = ask->limit,
                                   .capacity = ask->size.capacity,
                                   .decided_at = now,
                                   .retry_at = WEIR_NO_TIME,
                                   .reset_at = WEIR_NO_TIME };
}

/* Not counted, wherever the store is. */
static struct weir_decision decide_unlimited(const struct weir_shared_ask *ask, weir_ns now)
{
    return (struct weir_decision){ .outcome = WEIR_ALLOW,
                                   .limit = ask->limit,
                                   .capacity = WEIR_UNLIMITED,
                                   .remaining = WEIR_UNLIMITED,
                                   .decided_at = now,
                                   .retry_at = now,
                                   .reset_at = now };
}

/* Whether an outage is older than `open` says. From its beginning, which later failures do not move (B63). */
static bool is_over(weir_ns open_for, const struct weir_outage *outage, weir_ns now)
{
    return open_for > 0 && outage->began_at != WEIR_NO_TIME && now >= outage->began_at
           && now - outage->began_at >= open_for;
}

void weir_contract_fall_back(const struct weir_contract *contract, const struct weir_shared *shared,
                             uint64_t asked, const struct weir_outage *outages, bool is_peek, weir_ns now,
                             struct weir_decision *each)
{
    uint64_t local = 0;
    bool refuses = is_peek;
    for (size_t i = 0; i < shared->count; i++) {
        const struct weir_shared_ask *ask = &shared->asks[i];
        const struct weir_contract_limit *limit = &shared->limits[ask->limit];
        if ((asked & question_bit(i)) == 0)
            continue;
        if (ask->size.is_unlimited)
            each[i] = decide_unlimited(ask, now);
        else if (ask->cost > ask->size.capacity)
            each[i] = decide_too_large(ask, now);
        else if (limit->when_store_fails == WEIR_STORE_LOCAL) {
            local |= question_bit(i);
            continue;
        } else if (limit->when_store_fails == WEIR_STORE_OPEN && !is_over(limit->open_for, &outages[i], now))
            each[i] = decide_open(ask, now);
        else
            each[i] = decide_away(limit->when_store_fails, ask, now);
        refuses = refuses || (!ask->is_watched && !decision_passes(&each[i]));
    }
    if (local != 0)
        share_decide(contract, shared, local, outages, refuses, now, each);
}

/* ---- Calls that know of no store ------------------------------------------------------------------------------------------- */

static void give(const struct weir_contract *contract, const struct asking *asking,
                 const struct weir_waiter *waiter, const struct weir_answer *answer)
{
    bool was_given = waiter->is_tentative && decision_passes(&answer->decision);
    if (asking->ticket != NULL)
        asking->ticket->len = 0;
    if (asking->permit != NULL)
        *asking->permit = (struct weir_permit){ .expires_at = WEIR_NO_TIME };
    if (was_given && asking->ticket != NULL)
        weir_waiter_reservation(contract->limiter, waiter, asking->hold, asking->ticket);
    if (was_given && asking->permit != NULL)
        weir_waiter_permit(contract->limiter, waiter, asking->permit);
}

int shared_decide_away(const struct weir_contract *contract, const struct asking *asking,
                       struct questions *questions, struct weir_waiter *waiter, struct weir_answer *out)
{
    struct weir_shared shared;
    struct weir_outage outages[WEIR_ASKS_MAX];
    struct weir_decision each[WEIR_ASKS_MAX];
    struct weir_shared_met met[WEIR_ASKS_MAX];
    int error = shared_begin(asking->rules, asking->is_peek, questions, 0, asking->now, waiter, out, &shared);
    if (error != 0)
        return error;
    if (shared.count > 0) {
        uint64_t all = shared.count == 64 ? UINT64_MAX : question_bit(shared.count) - 1;
        for (size_t i = 0; i < shared.count; i++)
            outages[i] = (struct weir_outage){ contract->shares->began_at, 0 };
        weir_contract_fall_back(contract, &shared, all, outages, asking->is_peek, asking->now, each);
        for (size_t i = 0; i < shared.count; i++)
            met[i] = (struct weir_shared_met){ shared.asks[i].limit, shared.asks[i].cost,
                                               shared.asks[i].is_watched, each[i], shared.asks[i].asked_by };
        weir_contract_end(contract, shared.rules, met, shared.count, waiter, asking->now, out);
    }
    give(contract, asking, waiter, out);
    return 0;
}
