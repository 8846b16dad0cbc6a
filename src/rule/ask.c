// SPDX-License-Identifier: Apache-2.0
/*
 * ask.c - key, cost and retry id for each limit that a request meets, and of several requests that are decided as one.
 *
 * A chain is one request with more questions: what two of its members ask of one key becomes one question of the sum, before
 * anybody decides. So deciding, waiting and the store know nothing of chains, but for a tag that says who asked.
 */
#include "rule/ask.h"

#include "base/siphash.h"
#include "rule/throttle.h"

/* A cost above `max`: more than any limit holds, so that the limiter itself answers never, and charges nobody. */
#define COST_ABOVE_ALL UINT64_MAX

/*
 * The share must not depend on the limiter's secret: every process that holds the contract, also after a restart, has to
 * choose the same keys. Neither does it depend on the limit, so the same callers are in the share of each limit; and a
 * larger share holds all of a smaller one.
 */
bool rule_enforces(const struct rule *rule, const unsigned char *key, size_t key_len)
{
    static const uint8_t fixed[16] = "weir: enforce N%";
    if (rule->enforce != WEIR_ENFORCE_SHARE)
        return rule->enforce == WEIR_ENFORCE_ALWAYS;
    uint64_t hash = siphash_end(siphash_begin(fixed), key, key_len);
    return ((hash >> 32) * 100) >> 32 < rule->enforce_percent;
}

static uint64_t cost_of(const struct rule *rule, const struct request_values *values, uint64_t request_cost)
{
    uint64_t cost = 0;
    if (rule->cost > 0)
        return rule->cost;
    if (!rule->has_cost_from)
        return request_cost;
    struct slice text = values->values[rule->cost_from];
    if (text.len == 0)
        return rule->cost_default;
    (void)slice_to_u64(text, INT64_MAX, &cost); /* request_read() has refused what is none */
    return cost > rule->cost_max ? COST_ABOVE_ALL : cost;
}

/* One request of a chain, while its questions are written. */
struct asker {
    const struct rules *rules;
    const struct weir_request *request;
    struct request_values values;
    unsigned number; /* in the chain */
    bool is_refund;  /* costs are what is given back */
    bool is_peek;    /* beside others that are charged */
    bool has_measured;
};

static uint64_t cost_asked(const struct asker *asker, const struct rule *rule)
{
    if (asker->is_peek)
        return 0;
    return asker->is_refund ? asker->request->cost : cost_of(rule, &asker->values, asker->request->cost);
}

/* What is spelled may lie among the values, and is gone with the next request. */
static void name_retry(const struct asker *asker, const struct rule *rule, struct questions *questions,
                       struct weir_ask *ask)
{
    if (rule->limit.retries_free_within == 0)
        return;
    struct slice id = asker->values.values[rule->retry_by];
    if (id.len == 0)
        return;
    ask->retry_id = id.at;
    ask->retry_id_len = id.len;
    if (questions->is_chain && attribute_is_rewritten(asker->rules, rule->retry_by)) {
        unsigned char *digest = questions->retries[questions->count];
        sha256(id.at, id.len, digest);
        ask->retry_id = digest;
        ask->retry_id_len = SHA256_LEN;
    }
}

/*
 * A settlement changes limits whose cost is an attribute's, or where the request met none such, those without a cost of their
 * own. Permits are returned, not settled.
 */
static bool is_estimate(const struct asker *asker, const struct rule *rule)
{
    bool is_settled = asker->has_measured ? rule->has_cost_from : rule->cost == 0;
    return is_settled && rule->algorithm != WEIR_CONCURRENCY;
}

static void write_question(const struct asker *asker, uint32_t limit, struct questions *questions)
{
    const struct rule *rule = &asker->rules->list[limit];
    unsigned char *key = questions->keys[questions->count];
    bool is_whole;
    size_t key_len = request_key(asker->rules, rule, &asker->values, key, &is_whole);
    struct weir_ask *ask = &questions->asks[questions->count];
    *ask = (struct weir_ask){ .limit = (weir_limit_id)limit,
                              .key = key,
                              .key_len = key_len,
                              .cost = cost_asked(asker, rule),
                              .is_estimate = is_estimate(asker, rule),
                              .tag = question_bit(asker->number) };
    ask->is_fixed = !ask->is_estimate;
    name_retry(asker, rule, questions, ask);
    if (!is_whole && rule->missing_key == MISSING_REFUSE)
        questions->lacking |= question_bit(questions->count);
    if (!rule_enforces(rule, key, key_len))
        questions->watched |= question_bit(questions->count);
    questions->count++;
}

/* ---- Several requests as one --------------------------------------------------------------------------------------------- */

/* The last question may be of a key that was asked about before. */
static void put_together(struct questions *questions)
{
    const struct weir_ask *last = &questions->asks[questions->count - 1];
    for (size_t i = 0; i + 1 < questions->count; i++) {
        struct weir_ask *ask = &questions->asks[i];
        if (ask->limit != last->limit || ask->key_len != last->key_len
            || memcmp(ask->key, last->key, last->key_len) != 0)
            continue;
        if (__builtin_add_overflow(ask->cost, last->cost, &ask->cost))
            ask->cost = COST_ABOVE_ALL;
        if (ask->retry_id == NULL && last->retry_id != NULL) {
            /* A digest lies at the place that the next question takes. */
            bool is_digest = last->retry_id == questions->retries[questions->count - 1];
            ask->retry_id =
                is_digest ? memcpy(questions->retries[i], last->retry_id, SHA256_LEN) : last->retry_id;
            ask->retry_id_len = last->retry_id_len;
        }
        if (last->within < ask->within)
            ask->within = last->within;
        ask->is_estimate = ask->is_estimate || last->is_estimate;
        ask->is_fixed = !ask->is_estimate;
        ask->tag |= last->tag;
        uint64_t below = question_bit(questions->count - 1) - 1;
        questions->lacking &= below;
        questions->watched &= below;
        questions->count--;
        return;
    }
}

/* Into contract order; of one limit in the order of who asks. Few enough to sort by insertion. */
static __attribute__((noinline)) void sort_questions(struct questions *questions)
{
    struct weir_ask asks[WEIR_ASKS_MAX];
    uint8_t order[WEIR_ASKS_MAX];
    uint64_t lacking = questions->lacking, watched = questions->watched;
    for (size_t i = 0; i < questions->count; i++) {
        size_t at = i;
        while (at > 0 && questions->asks[order[at - 1]].limit > questions->asks[i].limit) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = (uint8_t)i;
    }
    memcpy(asks, questions->asks, questions->count * sizeof *asks);
    questions->lacking = questions->watched = 0;
    for (size_t i = 0; i < questions->count; i++) {
        questions->asks[i] = asks[order[i]];
        questions->lacking |= (lacking >> order[i] & 1) << i;
        questions->watched |= (watched >> order[i] & 1) << i;
    }
}

bool weir_request_is_peek(const struct weir_request *request)
{
    for (unsigned count = 0; request != NULL && count < WEIR_ASKS_MAX; count++) {
        if (!request->is_peek)
            return false;
        request = request->also;
    }
    return true;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------------------- */

static int too_many(const struct asker *asker, struct weir_fault *fault)
{
    if (fault != NULL)
        *fault = (struct weir_fault){ .attribute = asker->request->attribute_count,
                                      .message = "the request meets more than 64 limits: narrow their `when`" };
    return WEIR_ERR_ASKS;
}
_Static_assert(WEIR_ASKS_MAX == 64, "the message says it");

static int ask_own(const struct asker *asker, struct questions *out, struct weir_fault *fault)
{
    struct weir_ask *ask = &out->asks[out->count];
    if (out->answers == WEIR_ASKS_MAX)
        return too_many(asker, fault);
    int error = own_ask(asker->rules, asker->request, ask);
    if (error != 0 && fault != NULL)
        *fault = (struct weir_fault){ .attribute = asker->request->attribute_count,
                                      .message = "the limit that the request brings cannot be counted: a "
                                                 "period is 1 ns to ten years, a number below 2^32" };
    if (error != 0)
        return error;
    ask->tag = question_bit(asker->number);
    if (asker->is_peek)
        ask->cost = 0;
    out->count++;
    out->answers++;
    put_together(out);
    return 0;
}

static int ask_one(struct asker *asker, struct questions *out, struct weir_fault *fault)
{
    if (asker->request->own != NULL)
        return ask_own(asker, out, fault);
    uint32_t met[WEIR_ASKS_MAX];
    int error = request_read(asker->rules, asker->request, &asker->values, fault);
    if (error != 0)
        return error;
    size_t count = request_match(asker->rules, &asker->values, met);
    if (count > WEIR_ASKS_MAX - out->answers)
        return too_many(asker, fault);
    asker->has_measured = false;
    for (size_t i = 0; i < count; i++) {
        const struct rule *rule = &asker->rules->list[met[i]];
        asker->has_measured |= rule->has_cost_from && rule->algorithm != WEIR_CONCURRENCY;
    }
    for (size_t i = 0; i < count; i++) {
        write_question(asker, met[i], out);
        if (asker->number > 0 && !asker->is_refund)
            put_together(out);
    }
    out->answers += count;
    return 0;
}

static int ask_all(const struct rules *rules, const struct weir_request *request, bool is_refund,
                   struct questions *out, struct weir_fault *fault)
{
    struct asker asker; /* its values are written before they are read */
    asker.rules = rules;
    asker.is_refund = is_refund;
    out->lacking = out->watched = 0;
    out->count = out->answers = 0;
    out->is_chain = request->also != NULL;
    bool is_mixed = out->is_chain && !weir_request_is_peek(request);
    for (asker.number = 0; request != NULL; asker.number++, request = request->also) {
        asker.request = request;
        asker.is_peek = is_mixed && request->is_peek;
        int error = asker.number == WEIR_ASKS_MAX ? too_many(&asker, fault) : ask_one(&asker, out, fault);
        if (error != 0 && fault != NULL)
            fault->request = asker.number;
        if (error != 0)
            return error;
    }
    if (out->is_chain)
        sort_questions(out);
    return 0;
}

int questions_write(const struct rules *rules, const struct weir_request *request, struct questions *out,
                    struct weir_fault *fault)
{
    return ask_all(rules, request, false, out, fault);
}

int questions_write_refund(const struct rules *rules, const struct weir_request *request, struct questions *out)
{
    return ask_all(rules, request, true, out, NULL);
}

int weir_contract_validate(const struct weir_contract *contract, const struct weir_request *request,
                           struct weir_fault *out)
{
    struct questions questions;
    return questions_write(contract_rules(contract), request, &questions, out);
}
