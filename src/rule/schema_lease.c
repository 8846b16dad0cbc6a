// SPDX-License-Identifier: Apache-2.0
/*
 * schema_lease.c - `lease`: how much of a fleet's budget may be in its replicas' hands, and what cannot be handed out.
 *
 * A portion is debited when it is granted and spent later, elsewhere, without a word. That is sound where a token is a token
 * whenever it is spent: in buckets and fixed windows. What depends on each request by itself - its instant, its retry, its refusal,
 * its end - is known to nobody but the replica, so it cannot be leased, and says so instead of being approximated.
 */
#include <stdio.h>

#include "rule/contract.h"
#include "rule/size.h"

/* Refills go out twice in this time, in messages gathered over 50 ms: below it they would be as many as decisions. A portion
   that outlives a day is lost for a day when its replica is. */
#define FOR_LEAST (200 * WEIR_MILLISECOND)
#define FOR_MOST WEIR_DAY
#define FOR_DEFAULT (2 * WEIR_SECOND)

enum { MOST, CHUNK, FOR, LEASE_FIELDS };

#define LEASE(member) offsetof(struct weir_lease, member)

/* The limit that it is of has not been read yet, so its size is a word here. */
static void parse_tokens(struct load *load, const struct field *field, const struct node *value, void *into)
{
    schema_integer(load, field, value, into, "the burst or count");
}

static const struct field lease_fields[LEASE_FIELDS] = {
    [MOST] = { "most", parse_tokens, "integer", LEASE(most), .min = 1, .max = INT64_MAX, .is_required = true,
               .sentence = "say how many tokens may be out at all replicas together: `most: 50`" },
    [CHUNK] = { "chunk", parse_tokens, "integer", LEASE(chunk), .min = 1, .max = INT64_MAX, .is_required = true,
                .sentence = "say how many tokens may be out at one replica: `chunk: 10`" },
    [FOR] = { "for", parse_duration, "duration", LEASE(duration), .min = FOR_LEAST, .max = FOR_MOST,
              .fallback = "2s", .sentence = "how long a portion is held at most" },
};

static void check_numbers(struct load *load, const struct node *const *given, const struct weir_lease *lease)
{
    char cure[80];
    if (given[FOR] != NULL && lease->duration % WEIR_MILLISECOND != 0)
        schema_error(load, "for", given[FOR], "write whole milliseconds, such as 2s or 250ms",
                     "is no whole number of milliseconds");
    if (lease->most == 0 || lease->chunk <= lease->most)
        return;
    (void)snprintf(cure, sizeof cure, "write `chunk: %llu` or less, or raise most",
                   (unsigned long long)lease->most);
    schema_error(load, "chunk", given[CHUNK], cure,
                 "is above most %llu: one replica cannot hold more than all together",
                 (unsigned long long)lease->most);
}

void parse_lease(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rule *rule = into;
    const struct node *given[LEASE_FIELDS];
    struct weir_lease reading = { .duration = FOR_DEFAULT };
    struct owner owner = load->owner;
    if (value->kind == NODE_BAD)
        return;
    if (value->kind != NODE_MAP) {
        schema_error(load, field->name, value, field->sentence,
                     value->kind == NODE_SCALAR && value->text.len == 0
                         ? "is empty"
                         : "is not a map of most, chunk and for");
        return;
    }
    load->owner.what = "the lease of limit";
    (void)schema_read(load, value, field->name, lease_fields, LEASE_FIELDS, &reading, given);
    check_numbers(load, given, &reading);
    load->owner = owner;
    rule->lease = reading;
    rule->has_lease_for = given[FOR] != NULL;
}

/* ---- What can be leased -------------------------------------------------------------------------------------------- */

/* Leaky queues are refused as queues. */
static const char *algorithm_problem(int algorithm)
{
    switch (algorithm) {
    case WEIR_SLIDING_WINDOW:
        return "a sliding-window weighs what is spent by when, and of a portion only its replica knows that";
    case WEIR_SLIDING_LOG:
        return "a sliding-log remembers when each request passed, and of a portion only its replica knows that";
    case WEIR_CONCURRENCY:
        return "each permit of a concurrency limit is held, renewed and returned by itself";
    default:
        return NULL;
    }
}

/* Fields that say something of each request, which of a portion only its replica knows. */
static bool check_fields(struct load *load, const struct rule *rule, const struct node *const *given)
{
    bool is_fine = true;
    if (rule->debt > 0 && given[LIMIT_DEBT] != NULL) {
        schema_error(load, "debt", given[LIMIT_DEBT], "remove it, or remove the lease", LEASED_DEBT);
        is_fine = false;
    }
    if (rule->limit.retries_free_within > 0) {
        schema_error(
            load, "retries", given[LIMIT_RETRIES],
            "write `retries: counted`, or remove the lease: then the store remembers each request",
            "cannot be free with a lease: a retry may come to another replica, which does not know the "
            "first try");
        is_fine = false;
    }
    if (rule->refused == WEIR_REFUSAL_CHARGED) {
        schema_error(
            load, "refused", given[LIMIT_REFUSED], "write `refused: free`, or remove the lease",
            "means nothing with a lease: what is refused could only be charged to portions that others "
            "hold");
        is_fine = false;
    }
    return is_fine;
}

static bool check_most(struct load *load, const struct rule *rule, const struct node *lease)
{
    char cure[120];
    const struct node *most = node_value(lease, "most");
    uint64_t capacity = rule_capacity(rule);
    if (!rule->is_countable || rule->lease.most <= capacity)
        return true;
    if (capacity == 0)
        (void)snprintf(cure, sizeof cure, "remove the lease, or raise the %s",
                       rule_is_bucket(rule) ? "burst" : "count");
    else
        (void)snprintf(cure, sizeof cure, "write `most: %llu` or less, or raise the %s",
                       (unsigned long long)capacity, rule_is_bucket(rule) ? "burst" : "count");
    struct owner owner = load->owner;
    load->owner.what = "the lease of limit";
    schema_error(load, "most", most == NULL ? lease : most, cure, "is above the %s %llu: no more can be out",
                 rule_is_bucket(rule) ? "burst" : "count", (unsigned long long)capacity);
    load->owner = owner;
    return false;
}

bool schema_check_lease(struct load *load, struct rule *rule, const struct node *const *given)
{
    const struct node *lease = given[LIMIT_LEASE], *fails = given[LIMIT_WHEN_STORE_FAILS];
    if (lease == NULL) {
        if (rule->store_fails.word != WEIR_STORE_LEASED)
            return true;
        schema_error(load, "when-store-fails", fails,
                     "say how much may be held: `lease: { most: 50, chunk: 10 }`; or write `closed`, `open`, "
                     "`{ open: 30s }` or `{ local: 1/4 }`",
                     "means nothing without a lease: nothing would be held");
        return false;
    }
    if (lease->kind != NODE_MAP)
        return false; /* said already */
    const char *problem = algorithm_problem(rule->algorithm);
    if (problem != NULL) {
        diagnostics_add(load->diagnostics, WEIR_SEVERITY_ERROR, lease->place,
                        rule->algorithm == WEIR_CONCURRENCY
                            ? "remove its lease"
                            : "remove its lease, or take a token-bucket or a fixed-window",
                        "limit '%s' cannot be leased: %s", rule->limit.name, problem);
        return false;
    }
    bool is_fine = check_fields(load, rule, given);
    return check_most(load, rule, lease) && is_fine;
}

struct weir_lease lease_of_size(const struct rule *rule, const struct weir_shared_size *size)
{
    struct weir_lease lease = rule->lease;
    if (size->is_unlimited)
        return (struct weir_lease){ 0 };
    if (lease.most > size->capacity)
        lease.most = size->capacity;
    if (lease.chunk > lease.most)
        lease.chunk = lease.most;
    return lease;
}
