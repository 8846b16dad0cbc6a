// SPDX-License-Identifier: Apache-2.0
/*
 * error.c - the words of weir.h: names of codes, outcomes, policies, reasons and algorithms.
 *
 * One row per member; an assertion per table, so that a new member without a row does not compile.
 */
#include "weir.h"

static const struct {
    int code;
    const char *name, *sentence;
} errors[] = {
#define ROW(name, code, sentence) { code, "WEIR_ERR_" #name, sentence },
    WEIR_ERRORS(ROW)
#undef ROW
};

const char *weir_error_name(int code)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code)
            return errors[i].name;
    return code == 0 ? "WEIR_OK" : "WEIR_ERR_UNKNOWN";
}

const char *weir_error_text(int code)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code)
            return errors[i].sentence;
    return code == 0 ? "no error" : "this number is no error code of weir";
}

static const char *const outcomes[] = {
    [WEIR_ALLOW] = "allow",     [WEIR_WAIT] = "wait",           [WEIR_DENY] = "deny",
    [WEIR_NEVER] = "never",     [WEIR_DUPLICATE] = "duplicate", [WEIR_UNMETERED] = "unmetered",
    [WEIR_REFUSED] = "refused",
};
_Static_assert(sizeof outcomes / sizeof *outcomes == WEIR_OUTCOME_COUNT, "an outcome lacks its word");

static const char *const policies[] = {
    [WEIR_POLICY_NONE] = NULL,     [WEIR_POLICY_CLOSED] = "closed", [WEIR_POLICY_OPEN] = "open",
    [WEIR_POLICY_LOCAL] = "local", [WEIR_POLICY_LEASED] = "leased", [WEIR_POLICY_OVERFLOW] = "overflow",
};
_Static_assert(sizeof policies / sizeof *policies == WEIR_POLICY_COUNT, "a policy lacks its word");

static const char *const reasons[] = {
    [WEIR_REASON_NONE] = NULL,
    [WEIR_REASON_STORE] = "store",
    [WEIR_REASON_FULL] = "full",
    [WEIR_REASON_CONTENDED] = "contended",
    [WEIR_REASON_TIME] = "time",
    [WEIR_REASON_ATTRIBUTE] = "attribute",
    [WEIR_REASON_MISSING_KEY] = "missing-key",
};
_Static_assert(sizeof reasons / sizeof *reasons == WEIR_REASON_COUNT, "a reason lacks its word");

static const char *const algorithms[] = {
    [WEIR_TOKEN_BUCKET] = "token-bucket", [WEIR_LEAKY_BUCKET] = "leaky-bucket",
    [WEIR_FIXED_WINDOW] = "fixed-window", [WEIR_SLIDING_WINDOW] = "sliding-window",
    [WEIR_SLIDING_LOG] = "sliding-log",   [WEIR_LEAKY_QUEUE] = "leaky-queue",
    [WEIR_CONCURRENCY] = "concurrency",
};
_Static_assert(sizeof algorithms / sizeof *algorithms == WEIR_ALGORITHM_COUNT, "an algorithm lacks its word");

#define WORD_OF(table, member) ((size_t)(member) < sizeof(table) / sizeof *(table) ? (table)[member] : NULL)

const char *weir_outcome_name(enum weir_outcome outcome)
{
    return WORD_OF(outcomes, outcome);
}

const char *weir_policy_name(enum weir_policy policy)
{
    return WORD_OF(policies, policy);
}

const char *weir_reason_name(enum weir_reason reason)
{
    return WORD_OF(reasons, reason);
}

const char *weir_algorithm_name(enum weir_algorithm algorithm)
{
    return WORD_OF(algorithms, algorithm);
}
