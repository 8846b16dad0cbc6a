// SPDX-License-Identifier: Apache-2.0
/*
 * wait.c - a request that can wait, and the answer when it has waited.
 *
 * What a request asks of the contract is handed to weir_set_wait_start(), watched limits among the rest and marked so. Three
 * kinds of request never wait, since no turn could change their answer or there is nothing to wait for: those that lack
 * a key which a limit insists on, those that meet no limit that enforces, and those that only look; decide.c answers them.
 *
 * A waiter outlives reloads, and its answer is in the words of the contract in force when it is read: limits have other
 * numbers then, stand in another order, or are gone.
 */
#include "rule/shared.h"
#include "rule/throttle.h"

/* ---- Starting ------------------------------------------------------------------------------------------------------ */

/* All but those that would refuse for their key: of these only watched ones are left here. */
static size_t gather(const struct questions *questions, struct weir_ask asks[WEIR_ASKS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < questions->count; i++) {
        if ((questions->lacking & question_bit(i)) != 0)
            continue;
        asks[count] = questions->asks[i];
        asks[count++].is_watched = (questions->watched & question_bit(i)) != 0;
    }
    return count;
}

/* The answer of a waiter that need not wait, each decision at its question. */
static void answer_at_once(const struct rules *rules, const struct questions *questions,
                           const struct weir_waiter *waiter, weir_ns now, struct weir_answer *out)
{
    struct weir_decision each[WEIR_ASKS_MAX];
    size_t asked = 0;
    weir_waiter_answer(rules->set, waiter, each, &out->decision);
    for (size_t i = 0; i < questions->count; i++)
        out->each[i] = (questions->lacking & question_bit(i)) != 0
                           ? decide_missing_key(rules, questions->asks[i].limit, now)
                           : each[asked++];
    out->count = questions->count;
    out->watched = questions->watched;
    memset(out->asked_by, 0, out->count);
    answer_spread(questions, out);
}

int wait_start(const struct rules *rules, const struct questions *questions, weir_ns patience, weir_ns now,
               struct weir_waiter *waiter, struct weir_answer *out)
{
    struct weir_ask asks[WEIR_ASKS_MAX];
    struct weir_decision decision;
    size_t count = gather(questions, asks);
    int error = weir_set_wait_start(rules->set, waiter, asks, count, patience, now, &decision);
    if (error != 0)
        return error;
    out->limits = rules->limits;
    if (decision.outcome != WEIR_WAIT) {
        answer_at_once(rules, questions, waiter, now, out);
        return 0;
    }
    out->decision = decision; /* from here on the waiter may have ended, and be the caller's again */
    out->count = 0;
    out->watched = 0;
    return 0;
}

void wait_end_empty(struct weir_waiter *waiter, const struct weir_decision *decision)
{
    waiter->decision = *decision;
    waiter->waited = 0;
    waiter->count = 0;
    waiter->watched = 0;
}

/* Without a turn to wait for. */
static int decide_at_once(const struct asking *asking, const struct questions *questions,
                          struct weir_waiter *waiter, struct weir_answer *out)
{
    int error = decide_questions(asking, questions, out);
    if (error != 0)
        return error;
    wait_end_empty(waiter, &out->decision);
    answer_spread(questions, out);
    return 0;
}

int wait_questions(const struct asking *asking, const struct questions *questions, weir_ns patience,
                   struct weir_waiter *waiter, struct weir_answer *out)
{
    if (asking->is_peek || questions_refusing(questions) != 0 || questions_asked(questions) == 0)
        return decide_at_once(asking, questions, waiter, out);
    return wait_start(asking->rules, questions, patience, asking->now, waiter, out);
}

static int start_once(const struct weir_contract *contract, const struct rules *rules,
                      const struct weir_request *request, weir_ns now, struct weir_waiter *waiter,
                      struct weir_answer *out)
{
    struct questions questions;
    int error = questions_write(rules, request, &questions, NULL);
    if (error != 0)
        return error;
    struct asking asking = { .rules = rules, .now = now, .is_peek = asks_are_peek(request) };
    if (rules->is_apart && questions_have_shared(rules, &questions))
        return shared_decide_away(contract, &asking, &questions, waiter, out);
    return wait_questions(&asking, &questions, request->wait, waiter, out);
}

int weir_contract_wait(const struct weir_contract *contract, const struct weir_request *request, weir_ns now,
                       struct weir_waiter *waiter, struct weir_answer *out)
{
    const struct rules *rules = NULL;
    for (unsigned looks = 0; looks < LOOKS_MAX; looks++) {
        rules = contract_rules(contract);
        int error = start_once(contract, rules, request, now, waiter, out);
        if (error == 0)
            own_hide(out, rules->limit_count);
        if (error != WEIR_ERR_CHANGED)
            return error;
        decide_pause(looks); /* a queue belongs to the set in force: unlike a decision every start finds out */
    }
    decide_nothing(rules, now, out);
    wait_end_empty(waiter, &out->decision);
    return 0;
}

/* ---- Ending -------------------------------------------------------------------------------------------------------- */

static bool goes_behind(const struct weir_answer *answer, size_t index, const struct weir_decision *decision,
                        uint8_t asked_by)
{
    weir_limit_id limit = answer->each[index].limit;
    return limit > decision->limit || (limit == decision->limit && answer->asked_by[index] > asked_by);
}

static void insert_one(struct weir_answer *out, const struct weir_decision *decision, bool is_watched,
                       uint8_t asked_by)
{
    size_t at = out->count++;
    while (at > 0 && goes_behind(out, at - 1, decision, asked_by)) {
        out->each[at] = out->each[at - 1];
        out->asked_by[at] = out->asked_by[at - 1];
        at--;
    }
    out->each[at] = *decision;
    out->asked_by[at] = asked_by;
    uint64_t below = question_bit(at) - 1;
    out->watched =
        (out->watched & below) | ((out->watched & ~below) << 1) | (is_watched ? question_bit(at) : 0);
}

/* Asks were in the order of the contract of their day. */
void answer_insert(struct weir_answer *out, const struct weir_decision *decision, bool is_watched,
                   uint64_t asked_by)
{
    if (asked_by == 0)
        asked_by = 1;
    for (; asked_by != 0 && out->count < WEIR_ASKS_MAX; asked_by &= asked_by - 1)
        insert_one(out, decision, is_watched, (uint8_t)__builtin_ctzll(asked_by));
}

static __attribute__((noinline)) void spread(const struct questions *questions, struct weir_answer *out)
{
    struct weir_decision each[WEIR_ASKS_MAX];
    memcpy(each, out->each, questions->count * sizeof *each);
    out->count = 0;
    out->watched = 0;
    for (size_t i = 0; i < questions->count; i++)
        answer_insert(out, &each[i], (questions->watched & question_bit(i)) != 0, questions->asks[i].tag);
}

void answer_spread(const struct questions *questions, struct weir_answer *out)
{
    if (questions->is_chain)
        spread(questions, out);
}

void weir_contract_waited(const struct weir_contract *contract, const struct weir_waiter *waiter,
                          struct weir_answer *out)
{
    const struct rules *rules = contract_rules(contract);
    struct weir_decision each[WEIR_ASKS_MAX];
    out->limits = rules->limits;
    out->count = 0;
    out->watched = 0;
    weir_waiter_answer(rules->set, waiter, each, &out->decision);
    for (size_t i = 0; i < waiter->count; i++)
        if (each[i].limit != WEIR_NO_LIMIT)
            answer_insert(out, &each[i], (waiter->watched & question_bit(i)) != 0, waiter->parts[i].tag);
    own_hide(out, rules->limit_count);
}

/* ---- Whether it is worth asking ---------------------------------------------------------------------------------------- */

bool weir_answer_may_wait(const struct weir_answer *answer)
{
    if (answer->decision.outcome != WEIR_DENY)
        return false;
    for (size_t i = 0; i < answer->count; i++) {
        const struct weir_decision *each = &answer->each[i];
        bool refuses =
            each->outcome == WEIR_DENY || each->outcome == WEIR_NEVER || each->outcome == WEIR_REFUSED;
        if ((answer->watched & question_bit(i)) != 0 || !refuses)
            continue;
        if (each->outcome != WEIR_DENY || each->limit == WEIR_NO_LIMIT
            || answer->limits[each->limit].wait.up_to == 0)
            return false;
    }
    return true;
}
