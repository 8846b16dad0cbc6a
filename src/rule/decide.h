// SPDX-License-Identifier: Apache-2.0
/* decide.h - what deciding at once and waiting share: one call under one set of rules, and answers that no limit gives. */
#ifndef WEIR_RULE_DECIDE_H
#define WEIR_RULE_DECIDE_H

#include "rule/ask.h"

/*
 * A reload puts the limiter's set in force an instant before the rules. A settlement in that instant may already have
 * converted a key, and then only the new rules can decide; they are there after some ns, unless the reloading thread was
 * suspended just there. Beyond this many looks the answer is that we cannot decide.
 */
#define LOOKS_MAX 1000

/* One call. */
struct asking {
    const struct rules *rules;
    weir_ns now;
    bool is_peek;
    struct weir_reservation *ticket; /* NULL: nothing is reserved */
    weir_ns hold;                    /* of the ticket */
    struct weir_permit *permit;      /* NULL: concurrency limits are only looked at */
};

/* Limits that enforce and refuse the request because it lacks their key: a bit each. */
static inline uint64_t questions_refusing(const struct questions *questions)
{
    return questions->lacking & ~questions->watched;
}

/* Limits that enforce and are asked: a bit each. */
static inline uint64_t questions_asked(const struct questions *questions)
{
    uint64_t all = questions->count == 64 ? UINT64_MAX : question_bit(questions->count) - 1;
    return all & ~(questions->lacking | questions->watched);
}

/* Decide what a request asks, under asking->rules. 0, WEIR_ERR_CHANGED, or as weir_contract_decide(). */
int decide_questions(const struct asking *asking, const struct questions *questions, struct weir_answer *out);

/* A limit refuses a request without its key. */
struct weir_decision decide_missing_key(const struct rules *rules, weir_limit_id limit, weir_ns now);

/* The answer after LOOKS_MAX looks. */
void decide_nothing(const struct rules *rules, weir_ns now, struct weir_answer *out);

#endif
