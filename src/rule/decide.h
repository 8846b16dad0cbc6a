// SPDX-License-Identifier: Apache-2.0
/* decide.h - what deciding at once and waiting share: one call under one set of rules, and answers that no limit gives. */
#ifndef WEIR_RULE_DECIDE_H
#define WEIR_RULE_DECIDE_H

#include "rule/ask.h"

/*
 * A reload puts the limiter's set in force an instant before the rules. A settlement in that instant may already have
 * converted a key, and then only the new rules can decide; they are there after some ns, unless the reloading thread was
 * suspended just there: then decide_pause() lets it run. Beyond this many looks, a tenth of a second, the answer is that we
 * cannot decide.
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

static inline bool decision_passes(const struct weir_decision *decision)
{
    return decision->outcome == WEIR_ALLOW || decision->outcome == WEIR_DUPLICATE
           || decision->outcome == WEIR_UNMETERED;
}

/* Decide what a request asks, under asking->rules: a decision for each question. 0, WEIR_ERR_CHANGED, or as
   weir_contract_decide(). */
int decide_questions(const struct asking *asking, const struct questions *questions, struct weir_answer *out);

/* The answer where no limit has a say. */
struct weir_decision decide_no_limit(weir_ns now);

/* A limit refuses a request without its key. */
struct weir_decision decide_missing_key(const struct rules *rules, weir_limit_id limit, weir_ns now);

/* Hand what a request asks to weir_set_wait_start(); without waiting where no turn could change the answer, or there is nothing
   to wait for. wait.c. */
int wait_questions(const struct asking *asking, const struct questions *questions, weir_ns patience,
                   struct weir_waiter *waiter, struct weir_answer *out);
int wait_start(const struct rules *rules, const struct questions *questions, weir_ns patience, weir_ns now,
               struct weir_waiter *waiter, struct weir_answer *out);

/* The waiter ends with nothing in it: no permit, no reservation. */
void wait_end_empty(struct weir_waiter *waiter, const struct weir_decision *decision);

/* Put one decision at its place in contract order, once for each who asked. */
void answer_insert(struct weir_answer *out, const struct weir_decision *decision, bool is_watched,
                   uint64_t asked_by);

/* A decision for each question becomes one for each who asked it. */
void answer_spread(const struct questions *questions, struct weir_answer *out);

/* Between two looks: nothing at first, then the processor is given up, and then for some time. */
void decide_pause(unsigned looks);

/* The answer after LOOKS_MAX looks. */
void decide_nothing(const struct rules *rules, weir_ns now, struct weir_answer *out);

#endif
