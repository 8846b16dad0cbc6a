// SPDX-License-Identifier: Apache-2.0
/*
 * expect.c - what a step expects: counts over the step, then facts about its last decision and the limits it met, or about
 * what an operation did.
 *
 * One table of facts gives their words and readers; play.c compares and prints by the same enum.
 */
#include "sim/fields.h"

/* ---- Words ----------------------------------------------------------------------------------------------- */

/* Find the member whose word this is; null is 0 where `takes_null`. -1: none. */
static int word_find(const struct tree_node *node, const char *(*word)(int), int count)
{
    for (int i = 0; node->kind == TREE_SCALAR && i < count; i++)
        if (word(i) != NULL && slice_equals(node->text, slice_of(word(i))))
            return i;
    return -1;
}

static const char *outcome_word(int i)
{
    /* A wait is no outcome: it is told by when it ended. */
    return i == WEIR_WAIT ? NULL : weir_outcome_name((enum weir_outcome)i);
}

static const char *policy_word(int i)
{
    return weir_policy_name((enum weir_policy)i);
}

static const char *reason_word(int i)
{
    return weir_reason_name((enum weir_reason)i);
}

/* ---- Facts ----------------------------------------------------------------------------------------------- */

static bool read_decision(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    int found = word_find(node, outcome_word, WEIR_OUTCOME_COUNT);
    out->value.outcome = (enum weir_outcome)(found < 0 ? 0 : found);
    return found >= 0
           || field_fault(fields, node, "write allow, deny, never, duplicate, unmetered or refused",
                          "is no decision");
}

static bool read_limit(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    if (field_is_null(node))
        return true;
    if (node->kind != TREE_SCALAR || node->text.len == 0 || node->text.len > WEIR_NAME_MAX)
        return field_fault(fields, node, "write a limit's name, or null", "is no name of a limit");
    memcpy(out->value.name, node->text.at, node->text.len + 1);
    return true;
}

static bool read_policy(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    int found = field_is_null(node) ? 0 : word_find(node, policy_word, WEIR_POLICY_COUNT);
    out->value.policy = (enum weir_policy)(found < 0 ? 0 : found);
    return found >= 0
           || field_fault(fields, node, "write closed, open, local, leased, overflow or null", "is no policy");
}

static bool read_reason(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    int found = field_is_null(node) ? 0 : word_find(node, reason_word, WEIR_REASON_COUNT);
    out->value.reason = (enum weir_reason)(found < 0 ? 0 : found);
    return found >= 0
           || field_fault(fields, node, "write store, full, contended, time, attribute, missing-key or null",
                          "is no reason");
}

static bool read_capacity(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    out->value.has_capacity = !field_is_null(node);
    return !out->value.has_capacity || field_integer(fields, node, 0, UINT64_MAX, &out->value.capacity);
}

static bool read_remaining(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    out->value.has_remaining = !field_is_null(node);
    return !out->value.has_remaining || field_integer(fields, node, 0, UINT64_MAX, &out->value.remaining);
}

static bool read_length(struct fields *fields, const struct tree_node *node, weir_ns *out)
{
    *out = WEIR_NO_TIME;
    return field_is_null(node) || field_duration(fields, node, out);
}

static bool read_retry_after(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    return read_length(fields, node, &out->value.retry_after);
}

static bool read_reset_after(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    return read_length(fields, node, &out->value.reset_after);
}

static bool read_decided_at(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    return field_duration(fields, node, &out->decided_at);
}

static bool read_enforced(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    bool is_enforced = false;
    bool is_read = field_boolean(fields, node, &is_enforced);
    out->value.is_watched = !is_enforced;
    return is_read;
}

static const char *error_word(int i)
{
    return effect_errors[i];
}

static bool read_error(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    int count = 0;
    while (effect_errors[count] != NULL)
        count++;
    int found = word_find(node, error_word, count);
    out->effect.error = found < 0 ? NULL : effect_errors[found];
    return found >= 0 || field_is_null(node)
           || field_fault(fields, node,
                          "write reservation, permit, ended, contract, limit, attribute, cost, full, busy, "
                          "store, other or "
                          "null",
                          "is no error");
}

static bool read_repeated(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    return field_boolean(fields, node, &out->effect.is_repeated);
}

static bool read_served_at(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    return read_length(fields, node, &out->served_at);
}

static bool read_ended_at(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    return field_duration(fields, node, &out->ended_at);
}

static bool read_waited(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    return field_duration(fields, node, &out->waited);
}

static bool read_expires_after(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    return read_length(fields, node, &out->expires_after);
}

static bool read_released(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    return field_boolean(fields, node, &out->effect.is_released);
}

static bool read_number(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    return field_integer(fields, node, 0, UINT64_MAX,
                         &out->effect.number[fields->field->argument - FACT_EFFECT]);
}

static const struct {
    const char *name;
    bool (*read)(struct fields *fields, const struct tree_node *node, struct expectation *out);
} facts[] = {
    [FACT_DECISION] = { "decision", read_decision },
    [FACT_LIMIT] = { "limit", read_limit },
    [FACT_POLICY] = { "policy", read_policy },
    [FACT_REASON] = { "reason", read_reason },
    [FACT_CAPACITY] = { "capacity", read_capacity },
    [FACT_REMAINING] = { "remaining", read_remaining },
    [FACT_RETRY_AFTER] = { "retry_after", read_retry_after },
    [FACT_RESET_AFTER] = { "reset_after", read_reset_after },
    [FACT_DECIDED_AT] = { "decided_at", read_decided_at },
    [FACT_ENFORCED] = { "enforced", read_enforced },
    [FACT_ERROR] = { "error", read_error },
    [FACT_REPEATED] = { "repeated", read_repeated },
    [FACT_SERVED_AT] = { "served_at", read_served_at },
    [FACT_ENDED_AT] = { "ended_at", read_ended_at },
    [FACT_WAITED] = { "waited", read_waited },
    [FACT_EXPIRES_AFTER] = { "expires_after", read_expires_after },
    [FACT_RELEASED] = { "released", read_released },
    [FACT_EFFECT + EFFECT_CHARGED] = { "charged", read_number },
    [FACT_EFFECT + EFFECT_RETURNED] = { "returned", read_number },
    [FACT_EFFECT + EFFECT_DROPPED] = { "dropped", read_number },
    [FACT_EFFECT + EFFECT_KEPT] = { "kept", read_number },
    [FACT_EFFECT + EFFECT_RESIZED] = { "resized", read_number },
    [FACT_EFFECT + EFFECT_ADDED] = { "added", read_number },
    [FACT_EFFECT + EFFECT_RESTARTED] = { "restarted", read_number },
    [FACT_EFFECT + EFFECT_REMOVED] = { "removed", read_number },
};
_Static_assert(sizeof facts / sizeof *facts == FACT_COUNT, "a fact lacks its row");

const char *fact_name(enum fact fact)
{
    return facts[fact].name;
}

/* ---- Maps ------------------------------------------------------------------------------------------------ */

static bool read_fact(struct fields *fields, const struct tree_node *node, struct expectation *out)
{
    int fact = fields->field->argument;
    out->given |= 1u << fact;
    return facts[fact].read(fields, node, out);
}

static bool read_limit_fact(struct fields *fields, const struct tree_node *node, void *into)
{
    return read_fact(fields, node, into);
}

static bool read_last_fact(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline_step *step = into;
    return read_fact(fields, node, &step->last);
}

static bool read_outcome_count(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline_step *step = into;
    step->has_counts = true;
    return field_integer(fields, node, 0, TIMELINE_TIMES_MAX, &step->counts[fields->field->argument]);
}

static bool read_limits(struct fields *fields, const struct tree_node *node, void *into)
{
    static const struct field table[] = {
        { "limit", FIELD_REQUIRED, read_limit_fact, FACT_LIMIT },
        { "decision", FIELD_OPTIONAL, read_limit_fact, FACT_DECISION },
        { "policy", FIELD_OPTIONAL, read_limit_fact, FACT_POLICY },
        { "reason", FIELD_OPTIONAL, read_limit_fact, FACT_REASON },
        { "capacity", FIELD_OPTIONAL, read_limit_fact, FACT_CAPACITY },
        { "remaining", FIELD_OPTIONAL, read_limit_fact, FACT_REMAINING },
        { "retry_after", FIELD_OPTIONAL, read_limit_fact, FACT_RETRY_AFTER },
        { "reset_after", FIELD_OPTIONAL, read_limit_fact, FACT_RESET_AFTER },
        { "enforced", FIELD_OPTIONAL, read_limit_fact, FACT_ENFORCED },
    };
    struct timeline_step *step = into;
    bool is_good = true;
    step->has_limits = true;
    if (node->kind != TREE_LIST || node->count > WEIR_ASKS_MAX)
        return field_fault(fields, node, "give a list of { limit: NAME, ... }, at most 64", "is no such list");
    step->limits = tree_allocate(fields->tree, node->count == 0 ? 1 : node->count, sizeof *step->limits);
    if (step->limits == NULL)
        return field_fault(fields, node, "split the file", "does not fit this machine's memory");
    for (const struct tree_node *item = node->first; item != NULL; item = item->next)
        is_good &= fields_read(fields->tree, item, "an expected limit", table, sizeof table / sizeof *table,
                               &step->limits[step->limit_count++]);
    return is_good;
}

bool expect_read(struct fields *fields, const struct tree_node *node, void *step)
{
    static const struct field table[] = {
        { "allow", FIELD_OPTIONAL, read_outcome_count, WEIR_ALLOW },
        { "deny", FIELD_OPTIONAL, read_outcome_count, WEIR_DENY },
        { "never", FIELD_OPTIONAL, read_outcome_count, WEIR_NEVER },
        { "duplicate", FIELD_OPTIONAL, read_outcome_count, WEIR_DUPLICATE },
        { "unmetered", FIELD_OPTIONAL, read_outcome_count, WEIR_UNMETERED },
        { "refused", FIELD_OPTIONAL, read_outcome_count, WEIR_REFUSED },
        { "left", FIELD_OPTIONAL, read_outcome_count, COUNT_LEFT },
        { "decision", FIELD_OPTIONAL, read_last_fact, FACT_DECISION },
        { "limit", FIELD_OPTIONAL, read_last_fact, FACT_LIMIT },
        { "policy", FIELD_OPTIONAL, read_last_fact, FACT_POLICY },
        { "reason", FIELD_OPTIONAL, read_last_fact, FACT_REASON },
        { "capacity", FIELD_OPTIONAL, read_last_fact, FACT_CAPACITY },
        { "remaining", FIELD_OPTIONAL, read_last_fact, FACT_REMAINING },
        { "retry_after", FIELD_OPTIONAL, read_last_fact, FACT_RETRY_AFTER },
        { "reset_after", FIELD_OPTIONAL, read_last_fact, FACT_RESET_AFTER },
        { "decided_at", FIELD_OPTIONAL, read_last_fact, FACT_DECIDED_AT },
        { "error", FIELD_OPTIONAL, read_last_fact, FACT_ERROR },
        { "repeated", FIELD_OPTIONAL, read_last_fact, FACT_REPEATED },
        { "charged", FIELD_OPTIONAL, read_last_fact, FACT_EFFECT + EFFECT_CHARGED },
        { "returned", FIELD_OPTIONAL, read_last_fact, FACT_EFFECT + EFFECT_RETURNED },
        { "dropped", FIELD_OPTIONAL, read_last_fact, FACT_EFFECT + EFFECT_DROPPED },
        { "kept", FIELD_OPTIONAL, read_last_fact, FACT_EFFECT + EFFECT_KEPT },
        { "resized", FIELD_OPTIONAL, read_last_fact, FACT_EFFECT + EFFECT_RESIZED },
        { "added", FIELD_OPTIONAL, read_last_fact, FACT_EFFECT + EFFECT_ADDED },
        { "restarted", FIELD_OPTIONAL, read_last_fact, FACT_EFFECT + EFFECT_RESTARTED },
        { "removed", FIELD_OPTIONAL, read_last_fact, FACT_EFFECT + EFFECT_REMOVED },
        { "limits", FIELD_OPTIONAL, read_limits, 0 },
        { "served_at", FIELD_OPTIONAL, read_last_fact, FACT_SERVED_AT },
        { "ended_at", FIELD_OPTIONAL, read_last_fact, FACT_ENDED_AT },
        { "waited", FIELD_OPTIONAL, read_last_fact, FACT_WAITED },
        { "expires_after", FIELD_OPTIONAL, read_last_fact, FACT_EXPIRES_AFTER },
        { "released", FIELD_OPTIONAL, read_last_fact, FACT_RELEASED },
    };
    return fields_read(fields->tree, node, "expect", table, sizeof table / sizeof *table, step);
}

/* ---- What can come out at all ---------------------------------------------------------------------------- */

#define FACT(name) (1u << FACT_##name)
#define EFFECT(name) (1u << (FACT_EFFECT + EFFECT_##name))

#define DECISION_FACTS \
    (FACT(DECISION) | FACT(LIMIT) | FACT(POLICY) | FACT(REASON) | FACT(CAPACITY) | FACT(REMAINING) \
     | FACT(RETRY_AFTER) | FACT(RESET_AFTER) | FACT(DECIDED_AT) | FACT(SERVED_AT) | FACT(ENDED_AT) \
     | FACT(WAITED))
#define SETTLEMENT_FACTS \
    (EFFECT(CHARGED) | EFFECT(RETURNED) | EFFECT(DROPPED) | FACT(REPEATED) | FACT(REMAINING) | FACT(LIMIT) \
     | FACT(ERROR))

/* The facts that a step of a kind has. */
static const unsigned facts_of[STEP_KIND_COUNT] = {
    [STEP_REQUEST] = DECISION_FACTS,
    [STEP_RESERVE] = DECISION_FACTS,
    [STEP_ACQUIRE] = DECISION_FACTS | FACT(EXPIRES_AFTER),
    [STEP_SETTLE] = SETTLEMENT_FACTS,
    [STEP_CANCEL] = SETTLEMENT_FACTS,
    [STEP_RENEW] = FACT(EXPIRES_AFTER) | FACT(ERROR),
    [STEP_RELEASE] = FACT(RELEASED) | FACT(ERROR),
    [STEP_LEAVE] = FACT(ERROR),
    [STEP_REFUND] = EFFECT(RETURNED) | FACT(REMAINING) | FACT(LIMIT) | FACT(ERROR),
    [STEP_RESET] = FACT(ERROR),
    [STEP_RELOAD] =
        EFFECT(KEPT) | EFFECT(RESIZED) | EFFECT(ADDED) | EFFECT(RESTARTED) | EFFECT(REMOVED) | FACT(ERROR),
    [STEP_RESTART] = 0,
    [STEP_STORE] = 0,
};

/* Counts that cannot come out, whatever the contract says, are a slip of the pen. */
static bool check_counts(struct tree *tree, const struct timeline_step *step)
{
    uint64_t sum = 0;
    for (int i = 0; i < STEP_COUNTS; i++)
        sum += step->counts[i];
    if (step->counts[COUNT_LEFT] > 0 && !step->may_wait) {
        tree_fault(tree, step->node, "add `wait`, or remove it", "`left` without `wait`: nobody can leave");
        return false;
    }
    if (!step->has_counts || sum == step->times)
        return true;
    tree_fault(tree, step->node, "make them equal: outcomes that are not named are expected 0 times",
               "the step expects %llu decisions and makes %llu", (unsigned long long)sum,
               (unsigned long long)step->times);
    return false;
}

bool expect_check(struct tree *tree, const struct timeline_step *step)
{
    unsigned odd = step->last.given & ~facts_of[step->kind];
    for (int fact = 0; fact < FACT_COUNT; fact++)
        if ((odd >> fact & 1) != 0)
            tree_fault(tree, step->node, "remove it", "`%s` is nothing that comes of `%s`", facts[fact].name,
                       step_kind_name(step->kind));
    if (step_decides(step->kind))
        return check_counts(tree, step) && odd == 0;
    if (step->has_counts || step->has_limits)
        tree_fault(tree, step->node, "expect of it in a `request` step", "`%s` makes no decision",
                   step_kind_name(step->kind));
    return odd == 0 && !step->has_counts && !step->has_limits;
}
