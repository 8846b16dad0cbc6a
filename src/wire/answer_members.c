// SPDX-License-Identifier: Apache-2.0
/*
 * answer_members.c - the members of an answer, as JSON and as a map of the Redis protocol.
 *
 * Idea: one table has their names and one function their order, for every form, so no door can say less than another or
 * say it otherwise. The forms differ in how a value is spelt: a length of time is a number in JSON and text in RESP, which has no
 * fractions in version 2; a map of RESP says in front how many members it has.
 *
 * The functions are made once for JSON and once for RESP (is_resp is a constant in each), as this is where most of a
 * reply's time goes.
 */
#include "wire/answer_members.h"

#include <assert.h>

#include "wire/resp.h"

/* Each with its length, which RESP says in front. */
#define MEMBERS(X) \
    X(DECISION, "decision", 8) \
    X(LIMIT, "limit", 5) \
    X(POLICY, "policy", 6) \
    X(REASON, "reason", 6) \
    X(CAPACITY, "capacity", 8) \
    X(REMAINING, "remaining", 9) \
    X(RETRY_AFTER, "retry_after", 11) \
    X(RESET_AFTER, "reset_after", 11) \
    X(LIMITS, "limits", 6) \
    X(ENFORCED, "enforced", 8) \
    X(WAITED, "waited", 6) \
    X(RESERVATION, "reservation", 11) \
    X(PERMIT, "permit", 6) \
    X(FENCE, "fence", 5) \
    X(EXPIRES_AFTER, "expires_after", 13) \
    X(RELEASED, "released", 8) \
    X(CHARGED, "charged", 7) \
    X(DROPPED, "dropped", 7) \
    X(RETURNED, "returned", 8) \
    X(REPEATED, "repeated", 8)

enum member {
#define AS_ENUM(id, name, len) MEMBER_##id,
    MEMBERS(AS_ENUM)
};

#define AS_CHECK(id, name, len) static_assert(sizeof(name) == (len) + 1, name);
MEMBERS(AS_CHECK)

static const struct {
    struct slice json, resp;
} names[] = {
#define AS_ROW(id, name, len) \
    { { ",\"" name "\":", sizeof(",\"" name "\":") - 1 }, \
      { "$" #len "\r\n" name "\r\n", sizeof("$" #len "\r\n" name "\r\n") - 1 } },
    MEMBERS(AS_ROW)
};

/* Where members go. */
struct writer {
    struct text *out;
    bool is_resp;
    enum resp_version version;
    bool is_first; /* of an object in JSON: no comma */
    struct {
        const struct weir_decision *of; /* NULL: none yet */
        size_t at, len;                 /* in *out */
    } numbers; /* those of the whole answer, which nearly always are those of its only limit */
};

#define SPECIAL static inline __attribute__((always_inline))

/* ---- Values ---------------------------------------------------------------------------------------------- */

SPECIAL void put_name(struct writer *to, enum member member)
{
    struct slice name = to->is_resp ? names[member].resp : names[member].json;
    bool skips_comma = !to->is_resp && to->is_first;
    text_bytes(to->out, name.at + skips_comma, name.len - skips_comma);
    to->is_first = false;
}

SPECIAL void put_null(struct writer *to)
{
    if (!to->is_resp)
        text_literal(to->out, "null");
    else if (to->version == RESP3)
        text_literal(to->out, "_\r\n");
    else
        text_literal(to->out, "$-1\r\n");
}

/* A fixed word of weir.h or the name of a limit, whose letters need no escapes; NULL: null. */
SPECIAL void put_word(struct writer *to, enum member member, const char *word)
{
    put_name(to, member);
    if (word == NULL) {
        put_null(to);
    } else if (to->is_resp) {
        resp_put_bulk(to->out, slice_of(word));
    } else {
        text_literal(to->out, "\"");
        text_string(to->out, word);
        text_literal(to->out, "\"");
    }
}

SPECIAL void put_u64(struct writer *to, uint64_t value)
{
    if (to->is_resp)
        resp_put_u64(to->out, to->version, value);
    else
        text_u64(to->out, value);
}

/* A count; null where it is not known or has no bound. */
SPECIAL void put_count(struct writer *to, enum member member, bool is_known, uint64_t count)
{
    put_name(to, member);
    if (is_known && count != WEIR_UNLIMITED)
        put_u64(to, count);
    else
        put_null(to);
}

/* A number of which there may be any, or null. */
SPECIAL void put_number(struct writer *to, enum member member, bool is_known, uint64_t number)
{
    put_name(to, member);
    if (is_known)
        put_u64(to, number);
    else
        put_null(to);
}

/* A length of time in seconds; null for WEIR_NO_TIME. */
SPECIAL void put_time(struct writer *to, enum member member, weir_ns ns)
{
    put_name(to, member);
    if (ns == WEIR_NO_TIME) {
        put_null(to);
    } else if (to->is_resp) {
        char room[32]; /* eleven digits, a point, nine more */
        struct text digits = text_of(room, sizeof room);
        text_seconds(&digits, ns);
        resp_put_bulk(to->out, text_slice(&digits));
    } else {
        text_seconds(to->out, ns);
    }
}

SPECIAL void put_boolean(struct writer *to, enum member member, bool value)
{
    put_name(to, member);
    if (to->is_resp)
        resp_put_boolean(to->out, to->version, value);
    else
        text_string(to->out, value ? "true" : "false");
}

/* The text of what was given: with its part in the store where it has one; null: nothing was. */
SPECIAL void put_token(struct writer *to, enum member member, struct slice own, struct slice joint)
{
    struct slice token = joint.len > 0 ? joint : own;
    put_name(to, member);
    if (token.len == 0) {
        put_null(to);
    } else if (to->is_resp) {
        resp_put_bulk_head(to->out, BASE64URL_LEN(token.len));
        base64url_encode(to->out, token.at, token.len);
        text_literal(to->out, "\r\n");
    } else {
        text_literal(to->out, "\"");
        base64url_encode(to->out, token.at, token.len);
        text_literal(to->out, "\"");
    }
}

SPECIAL void open_map(struct writer *to, unsigned members)
{
    if (to->is_resp)
        resp_put_map(to->out, to->version, members);
    else
        text_literal(to->out, "{");
    to->is_first = true;
}

SPECIAL void close_map(struct writer *to)
{
    if (!to->is_resp)
        text_literal(to->out, "}");
}

/* ---- A decision ------------------------------------------------------------------------------------------ */

#define NUMBER_MEMBERS 4

/* Whether put_numbers() writes the same of both. */
SPECIAL bool has_same_numbers(const struct weir_decision *x, const struct weir_decision *y)
{
    return x->limit == y->limit && x->capacity == y->capacity && x->remaining == y->remaining
           && x->retry_at == y->retry_at && x->reset_at == y->reset_at && x->outcome == y->outcome
           && x->reason == y->reason;
}

SPECIAL void put_numbers(struct writer *to, const struct weir_decision *decision, weir_ns now)
{
    if (to->numbers.of != NULL && has_same_numbers(to->numbers.of, decision)) {
        text_bytes(to->out, to->out->at + to->numbers.at, to->numbers.len);
        return;
    }
    size_t start = to->out->len;
    put_count(to, MEMBER_CAPACITY, decision->limit != WEIR_NO_LIMIT, decision->capacity);
    put_count(to, MEMBER_REMAINING, answer_has_numbers(decision), decision->remaining);
    put_time(to, MEMBER_RETRY_AFTER, answer_retry_after(decision, now));
    put_time(to, MEMBER_RESET_AFTER, answer_reset_after(decision, now));
    if (to->numbers.of == NULL) {
        to->numbers.of = decision;
        to->numbers.at = start;
        to->numbers.len = to->out->len - start;
    }
}

SPECIAL void put_limit(struct writer *to, const struct weir_answer *answer,
                       const struct weir_decision *decision)
{
    const struct weir_contract_limit *limit = answer_limit_of(answer, decision);
    put_word(to, MEMBER_LIMIT, limit == NULL ? NULL : limit->name);
}

SPECIAL void put_limits(struct writer *to, const struct weir_answer *answer, weir_ns now)
{
    put_name(to, MEMBER_LIMITS);
    if (to->is_resp)
        resp_put_array(to->out, (uint32_t)answer->count);
    else
        text_literal(to->out, "[");
    for (size_t i = 0; i < answer->count; i++) {
        const struct weir_decision *each = &answer->each[i];
        bool is_watched = answer_is_watched(answer, i);
        if (!to->is_resp && i > 0)
            text_literal(to->out, ",");
        open_map(to, 2 + NUMBER_MEMBERS + is_watched);
        put_limit(to, answer, each);
        put_word(to, MEMBER_DECISION, weir_outcome_name(each->outcome));
        put_numbers(to, each, now);
        if (is_watched)
            put_boolean(to, MEMBER_ENFORCED, false);
        close_map(to);
    }
    if (!to->is_resp)
        text_literal(to->out, "]");
}

#define DECISION_MEMBERS (5 + NUMBER_MEMBERS)

SPECIAL void put_decision(struct writer *to, const struct weir_answer *answer, weir_ns now)
{
    const struct weir_decision *decision = &answer->decision;
    put_word(to, MEMBER_DECISION, weir_outcome_name(decision->outcome));
    put_limit(to, answer, decision);
    put_word(to, MEMBER_POLICY, weir_policy_name(decision->policy));
    put_word(to, MEMBER_REASON, weir_reason_name(decision->reason));
    put_numbers(to, decision, now);
    put_limits(to, answer, now);
}

/* ---- Beside it ------------------------------------------------------------------------------------------- */

static unsigned beside_members(const struct answer_beside *beside)
{
    if (beside == NULL)
        return 0;
    return (beside->has_waited ? 1u : 0u) + (beside->ticket != NULL ? 2u : 0u)
           + (beside->permit != NULL ? 3u : 0u);
}

SPECIAL void put_beside(struct writer *to, const struct answer_beside *beside)
{
    const struct weir_reservation *ticket = beside->ticket;
    const struct weir_permit *permit = beside->permit;
    if (beside->has_waited)
        put_time(to, MEMBER_WAITED, beside->waited);
    if (ticket != NULL) {
        bool is_given = ticket->len > 0 || beside->joint.len > 0;
        put_token(to, MEMBER_RESERVATION, (struct slice){ (const char *)ticket->bytes, ticket->len },
                  beside->joint);
        put_time(to, MEMBER_EXPIRES_AFTER, is_given ? beside->expires_after : WEIR_NO_TIME);
    }
    if (permit != NULL) {
        bool is_given = permit->len > 0 || beside->joint.len > 0;
        put_token(to, MEMBER_PERMIT, (struct slice){ (const char *)permit->bytes, permit->len }, beside->joint);
        put_number(to, MEMBER_FENCE, is_given, permit->fence);
        put_time(to, MEMBER_EXPIRES_AFTER, is_given ? beside->expires_after : WEIR_NO_TIME);
    }
}

/* ---- Answers --------------------------------------------------------------------------------------------- */

SPECIAL void put_answer(struct writer *to, const struct weir_answer *answer, const struct answer_beside *beside,
                        weir_ns now)
{
    open_map(to, DECISION_MEMBERS + beside_members(beside));
    put_decision(to, answer, now);
    if (beside != NULL)
        put_beside(to, beside);
    close_map(to);
}

SPECIAL void put_settlement(struct writer *to, const struct weir_settlement *settlement, const char *limit,
                            bool has_charge)
{
    bool is_known = settlement->limit != WEIR_NO_LIMIT || limit != NULL;
    open_map(to, has_charge ? 6 : 4);
    if (has_charge) {
        put_number(to, MEMBER_CHARGED, true, settlement->charged);
        put_number(to, MEMBER_DROPPED, true, settlement->dropped);
    }
    put_number(to, MEMBER_RETURNED, true, settlement->returned);
    put_count(to, MEMBER_REMAINING, is_known, settlement->remaining);
    put_word(to, MEMBER_LIMIT, limit);
    put_boolean(to, MEMBER_REPEATED, settlement->is_repeated);
    close_map(to);
}

static enum resp_version version_of(enum answer_form form)
{
    return form == ANSWER_RESP3 ? RESP3 : RESP2;
}

static struct writer writer_of(struct text *out, enum answer_form form)
{
    return (struct writer){ .out = out, .is_resp = form != ANSWER_JSON, .version = version_of(form) };
}

/* What ends an answer of JSON that stands alone. */
static void end_line(const struct writer *to)
{
    if (!to->is_resp)
        text_literal(to->out, "\n");
}

void answer_write(struct text *out, enum answer_form form, const struct weir_answer *answer,
                  const struct answer_beside *beside, weir_ns now)
{
    struct writer json = { .out = out, .is_resp = false };
    struct writer resp = { .out = out, .is_resp = true, .version = version_of(form) };
    if (form == ANSWER_JSON)
        put_answer(&json, answer, beside, now);
    else
        put_answer(&resp, answer, beside, now);
}

void answer_members_json(struct text *out, const struct weir_answer *answer, const struct answer_beside *beside,
                         weir_ns now)
{
    struct writer to = { .out = out, .is_resp = false, .is_first = true };
    put_decision(&to, answer, now);
    if (beside != NULL)
        put_beside(&to, beside);
}

void answer_settlement(struct text *out, enum answer_form form, const struct weir_settlement *settlement,
                       const char *limit, bool has_charge)
{
    struct writer to = writer_of(out, form);
    put_settlement(&to, settlement, limit, has_charge);
    end_line(&to);
}

void answer_renewed(struct text *out, enum answer_form form, weir_ns expires_after)
{
    struct writer to = writer_of(out, form);
    open_map(&to, 1);
    put_time(&to, MEMBER_EXPIRES_AFTER, expires_after);
    close_map(&to);
    end_line(&to);
}

void answer_released(struct text *out, enum answer_form form, bool was_held)
{
    struct writer to = writer_of(out, form);
    open_map(&to, 2);
    put_boolean(&to, MEMBER_RELEASED, was_held);
    put_time(&to, MEMBER_EXPIRES_AFTER, 0);
    close_map(&to);
    end_line(&to);
}
