// SPDX-License-Identifier: Apache-2.0
/*
 * schema_shape.c - what the fields of a limit mean together: each algorithm has its own, and a field that means nothing for
 * it is an error with the way out, since its author expected something of it.
 */
#include "rule/contract.h"

/* ---- Which algorithm has which field --------------------------------------------------------------------------------- */

#define ONLY(algorithm) (1u << (algorithm))
#define ANY_BUCKET (ONLY(WEIR_TOKEN_BUCKET) | ONLY(WEIR_LEAKY_BUCKET))
#define EVERY (ONLY(WEIR_ALGORITHM_COUNT) - 1)

static const struct fit {
    enum limit_field field;
    unsigned known;    /* by these algorithms; others report it */
    unsigned required; /* of these */
    const char *cure;  /* where it means nothing */
} fits[] = {
    { LIMIT_RATE, EVERY & ~ONLY(WEIR_CONCURRENCY), EVERY & ~ONLY(WEIR_CONCURRENCY),
      "remove it: `at-most` says how many run at once; a second limit with the same key bounds the rate" },
    { LIMIT_BURST, ANY_BUCKET, ANY_BUCKET, "remove it: the count of the rate is the most in one period" },
    { LIMIT_DEBT, ANY_BUCKET | ONLY(WEIR_LEAKY_QUEUE), 0, "remove it, or take a bucket" },
    { LIMIT_ALIGN, ONLY(WEIR_FIXED_WINDOW), 0, "remove it, or write `algorithm: fixed-window`" },
    { LIMIT_AT_MOST, ONLY(WEIR_CONCURRENCY), ONLY(WEIR_CONCURRENCY),
      "remove it, or write `algorithm: concurrency` to bound how many run at once" },
    { LIMIT_HOLD, ONLY(WEIR_CONCURRENCY), ONLY(WEIR_CONCURRENCY),
      "remove it, or write `algorithm: concurrency` to bound how many run at once" },
    { LIMIT_WAIT, EVERY, ONLY(WEIR_LEAKY_QUEUE), NULL },
};

const char *schema_algorithm(const struct rule *rule)
{
    return rule->algorithm == WEIR_CONCURRENCY ? "concurrency limit"
                                               : weir_algorithm_name((enum weir_algorithm)rule->algorithm);
}

/* The general cure would send its author the wrong way, or the problem has a reason that is worth a word. */
static void report_unknown_here(struct load *load, const struct rule *rule, const struct fit *fit,
                                const struct node *value, const char *name)
{
    if (fit->field == LIMIT_BURST && rule->algorithm == WEIR_LEAKY_QUEUE)
        schema_error(load, name, value,
                     "remove it, or for bursts write `algorithm: leaky-bucket` with this burst and this `wait`",
                     "is always 1 for a leaky-queue");
    else if (fit->field == LIMIT_BURST && rule->algorithm == WEIR_CONCURRENCY)
        schema_error(load, name, value, "remove it: `at-most` is how many run at once",
                     "means nothing for a concurrency limit");
    else if (fit->field == LIMIT_DEBT)
        schema_error(load, name, value, fit->cure, "means nothing for a %s: only a bucket can be overdrawn",
                     schema_algorithm(rule));
    else
        schema_error(load, name, value, fit->cure, "means nothing for a %s", schema_algorithm(rule));
}

static bool check_fields(struct load *load, const struct rule *rule, const struct node *limit,
                         const struct node *const *given, const struct field *fields)
{
    unsigned own = ONLY(rule->algorithm);
    bool is_fine = true;
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++) {
        const struct field *field = &fields[fits[i].field];
        const struct node *value = given[fits[i].field];
        if (value == NULL && (fits[i].required & own) != 0) {
            schema_missing(load, limit, field);
            is_fine = false;
        } else if (value != NULL && (fits[i].known & own) == 0) {
            report_unknown_here(load, rule, &fits[i], value, field->name);
            is_fine = false;
        }
    }
    return is_fine;
}

/* ---- Which words go together --------------------------------------------------------------------------------------------- */

/* Whoever is turned away from a queue would push back those who stand in it; and a permit that was refused is no permit. */
static bool check_refused(struct load *load, const struct rule *rule, const struct node *const *given)
{
    if (rule->refused != WEIR_REFUSAL_CHARGED)
        return true;
    if (rule->algorithm == WEIR_CONCURRENCY)
        schema_error(load, "refused", given[LIMIT_REFUSED], "remove it: a refused request holds nothing",
                     "means nothing for a concurrency limit");
    else if (given[LIMIT_WAIT] != NULL && given[LIMIT_WAIT]->kind == NODE_MAP)
        schema_error(load, "refused", given[LIMIT_REFUSED], "write `refused: free`, or `wait: never`",
                     "would let those who are turned away push back those who wait");
    else
        return true;
    return false;
}

/* A duplicate would be let in without the permit that its first try was given. */
static bool check_retries(struct load *load, const struct rule *rule, const struct node *const *given)
{
    if (rule->algorithm != WEIR_CONCURRENCY || rule->limit.retries_free_within == 0)
        return true;
    schema_error(load, "retries", given[LIMIT_RETRIES],
                 "remove it, or put it at a limit of the rate with the same key",
                 "mean nothing for a concurrency limit: a retry that runs needs a permit of its own");
    return false;
}

static bool check_queue(struct load *load, const struct rule *rule, const struct node *const *given)
{
    const struct node *wait = given[LIMIT_WAIT];
    if (rule->algorithm != WEIR_LEAKY_QUEUE || wait == NULL || wait->kind != NODE_SCALAR
        || !slice_equals(wait->text, SLICE("never")))
        return true;
    schema_error(load, "wait", wait,
                 "write `wait: { up-to: 2s, queue: 100 }`, or `algorithm: leaky-bucket` with `burst: 1`",
                 "leaves a leaky-queue without its queue");
    return false;
}

/* ---- Numbers --------------------------------------------------------------------------------------------------------------- */

/* A calendar counts whole days, weeks, months or years; month and year exist nowhere else. */
bool schema_check_period(struct load *load, struct rule *rule, const struct rate *rate,
                         const struct node *value)
{
    const char *calendar = unit_calendar(rate->unit, &rule->limit.calendar);
    if (rule->is_calendar && (calendar == NULL || rate->multiple != 1)) {
        schema_error(load, "rate", value, "write COUNT/d, COUNT/w, COUNT/month or COUNT/year",
                     "is not one day, week, month or year, which `align: calendar` counts by");
        return false;
    }
    if (!rule->is_calendar && rate->period == 0) {
        schema_error(load, "rate", value,
                     "add `algorithm: fixed-window` and `align: calendar ZONE`, or write it in days",
                     "has the unit %s, whose length varies", calendar);
        return false;
    }
    return true;
}

/* Whether what the algorithm needs could be read. */
static bool has_numbers(const struct rule *rule)
{
    if (rule->algorithm == WEIR_CONCURRENCY)
        return rule->limit.at_most > 0 && rule->limit.hold > 0;
    if (rule->algorithm == WEIR_LEAKY_QUEUE && !rule_waits(rule))
        return false;
    return rule->rate.multiple != 0 && (!rule_is_bucket(rule) || rule->burst != UINT64_MAX);
}

bool schema_check_shape(struct load *load, struct rule *rule, const struct node *limit,
                        const struct node *const *given, const struct field *fields)
{
    bool is_fine = check_fields(load, rule, limit, given, fields);
    is_fine = check_refused(load, rule, given) && is_fine;
    is_fine = check_retries(load, rule, given) && is_fine;
    is_fine = check_queue(load, rule, given) && is_fine;
    if (!has_numbers(rule))
        return false;
    return (rule->algorithm == WEIR_CONCURRENCY
            || schema_check_period(load, rule, &rule->rate, given[LIMIT_RATE]))
           && is_fine;
}
