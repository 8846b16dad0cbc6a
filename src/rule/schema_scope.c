// SPDX-License-Identifier: Apache-2.0
/*
 * schema_scope.c - what a limit says of who shares its budget, and where the store is that they share it in.
 *
 * A store can fail apart, so a shared limit has to say what happens then. And it has no queue and no table of ours, and counts
 * with numbers below 2^52: what cannot be said there is an error with the way out, since its author counts on it.
 */
#include <stdio.h>

#include "rule/size.h"
#include "rule/store_url.h"

#define SHARE_MAX 65535

/* ---- when-store-fails ------------------------------------------------------------------------------------------------ */

struct policy_reading {
    weir_ns open_for;
    struct store_policy local;
};

/* "N/M", 1 <= N <= M <= 65535. NULL, or what is wrong. */
static const char *share_problem(struct slice text, struct store_policy *out)
{
    uint64_t share, share_of;
    const char *slash = memchr(text.at, '/', text.len);
    if (slash == NULL)
        return "is not a part such as 1/4";
    size_t before = (size_t)(slash - text.at);
    if (!slice_to_u64((struct slice){ text.at, before }, UINT64_MAX, &share)
        || !slice_to_u64((struct slice){ slash + 1, text.len - before - 1 }, UINT64_MAX, &share_of))
        return "is not a part such as 1/4";
    if (share == 0)
        return "is nothing: that is `closed`";
    if (share > share_of)
        return "is more than the whole";
    if (share_of > SHARE_MAX)
        return "is a part of more than 65535";
    out->share = (uint32_t)share;
    out->share_of = (uint32_t)share_of;
    return NULL;
}

static void parse_share(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct policy_reading *reading = into;
    const char *problem = node_scalar_problem(value);
    if (problem == NULL)
        problem = share_problem(value->text, &reading->local);
    if (problem != NULL && value->kind != NODE_BAD)
        schema_error(load, field->name, value, field->sentence, "%s", problem);
}

enum { OPEN_FIELD, LOCAL_FIELD, POLICY_FIELDS };

static const struct field policy_fields[POLICY_FIELDS] = {
    [OPEN_FIELD] = { "open", parse_duration, "duration", offsetof(struct policy_reading, open_for),
                     .min = WEIR_MILLISECOND, .max = WEIR_HORIZON,
                     .sentence = "say how long everything passes: `{ open: 30s }`" },
    [LOCAL_FIELD] = { "local", parse_share, "N/M", 0,
                      .sentence = "write the part of the budget that each replica may spend by itself: with "
                                  "four replicas `{ local: 1/4 }`" },
};

static void read_policy(struct load *load, const struct field *field, const struct node *map,
                        struct store_policy *out)
{
    const struct node *given[POLICY_FIELDS];
    struct policy_reading reading = { .local.word = WEIR_STORE_LOCAL };
    struct owner owner = load->owner;
    load->owner.what = "the when-store-fails of limit";
    (void)schema_read(load, map, field->name, policy_fields, POLICY_FIELDS, &reading, given);
    load->owner = owner;
    if (given[OPEN_FIELD] != NULL && given[LOCAL_FIELD] != NULL)
        schema_error(load, field->name, map, "keep one of the two", "says both `open` and `local`");
    else if (map->count == 0)
        schema_error(load, field->name, map, field->sentence, "is empty");
    if (given[LOCAL_FIELD] != NULL)
        *out = reading.local;
    else if (given[OPEN_FIELD] != NULL)
        *out = (struct store_policy){ .word = WEIR_STORE_OPEN, .open_for = reading.open_for };
}

void parse_store_fails(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rule *rule = into;
    int word = WEIR_STORE_CLOSED;
    if (value->kind == NODE_MAP) {
        read_policy(load, field, value, &rule->store_fails);
        return;
    }
    struct field words = *field;
    words.offset = 0;
    if (value->kind == NODE_SCALAR && slice_equals(value->text, SLICE("local")))
        schema_error(load, field->name, value, policy_fields[LOCAL_FIELD].sentence,
                     "does not say how much of the budget");
    else
        parse_word(load, &words, value, &word);
    rule->store_fails = (struct store_policy){ .word = (enum weir_store_fails)word };
}

/* ---- What goes together ------------------------------------------------------------------------------------------------ */

static bool is_map(const struct node *node)
{
    return node != NULL && node->kind == NODE_MAP;
}

/* What a process has and a store has not. */
static bool check_no_queue(struct load *load, const struct rule *rule, const struct node *const *given)
{
    if (rule->algorithm == WEIR_LEAKY_QUEUE) {
        schema_error(
            load, "algorithm", given[LIMIT_ALGORITHM],
            "write `algorithm: leaky-bucket` with `burst: 1`, or a leaky-queue with `scope: process` beside",
            "cannot be shared by a fleet: a queue stands in one process");
        return false;
    }
    if (!is_map(given[LIMIT_WAIT]))
        return true;
    schema_error(load, "wait", given[LIMIT_WAIT],
                 "remove it, or let callers wait for a limit with `scope: process` beside this one",
                 "cannot be shared by a fleet: a queue stands in one process");
    return false;
}

static bool check_no_table(struct load *load, const struct rule *rule, const struct node *const *given)
{
    if (rule->when_full == WEIR_FULL_OVERFLOW)
        return true;
    schema_error(load, "when-full", given[LIMIT_WHEN_FULL], "remove it: a store that is full counts as away",
                 "means nothing with `scope: fleet`: its keys are in no table of ours");
    return false;
}

static bool check_share(struct load *load, const struct rule *rule, const struct node *const *given)
{
    if (rule->store_fails.word != WEIR_STORE_LOCAL)
        return true;
    if (rule->algorithm == WEIR_CONCURRENCY)
        schema_error(load, "when-store-fails", given[LIMIT_WHEN_STORE_FAILS], "write `closed` or `open`",
                     "cannot be `local` for a concurrency limit: a permit given by one replica alone could not "
                     "be returned at another");
    return rule->algorithm != WEIR_CONCURRENCY && rule->store_fails.share_of > 0;
}

/* ---- Sizes -------------------------------------------------------------------------------------------------------------- */

static void report_bucket(struct load *load, const struct rule *rule, const struct weir_size *size,
                          const struct node *value)
{
    char cure[240];
    uint64_t most = size_most(rule, size);
    (void)snprintf(cure, sizeof cure,
                   most == 0 ? "take a rate whose count and period have more in common, such as 1000/1s"
                             : "lower burst and debt to %llu together%s, or take a rate whose count and period "
                               "have more in common",
                   (unsigned long long)most,
                   rule->refused == WEIR_REFUSAL_CHARGED ? " (with `refused: charged` the burst counts twice)"
                                                         : "");
    schema_error(load, "burst", value, cure,
                 "is too large for a store, which counts exactly below 2^52 only: this rate allows %llu, and "
                 "burst and debt are %llu and %llu",
                 (unsigned long long)most, (unsigned long long)size->burst, (unsigned long long)size->debt);
}

static void report_window(struct load *load, const struct rule *rule, const struct weir_size *size,
                          const struct node *value)
{
    char cure[160];
    uint64_t most = size_most(rule, size);
    (void)snprintf(cure, sizeof cure, "lower the count to %llu%s", (unsigned long long)most,
                   rule->algorithm == WEIR_SLIDING_WINDOW ? ", shorten the period, or take a token-bucket"
                                                          : "");
    schema_error(load, "rate", value, cure,
                 "is too large for a store, which counts exactly below 2^52 only: this period allows %llu",
                 (unsigned long long)most);
}

bool schema_check_size(struct load *load, const struct rule *rule, const struct weir_size *size,
                       const struct node *map, struct weir_shared_size *out)
{
    const struct node *rate = node_value(map, "rate"), *burst = node_value(map, "burst");
    const struct node *hold = node_value(map, "hold");
    enum size_fault fault = size_in_store(rule, size, out);
    if (fault == SIZE_FITS)
        return true;
    if (rule->algorithm == WEIR_CONCURRENCY)
        schema_error(load, "hold", hold == NULL ? map : hold, "write whole microseconds, such as 30s",
                     "is no whole number of microseconds, which a store counts in");
    else if (fault == SIZE_TOO_FINE)
        schema_error(load, "rate", rate == NULL ? map : rate, "write a period of whole microseconds",
                     "has a period that is no whole number of microseconds, which a store counts in");
    else if (rule_is_bucket(rule))
        report_bucket(load, rule, size, burst != NULL ? burst : rate != NULL ? rate : map);
    else
        report_window(load, rule, size, rate == NULL ? map : rate);
    return false;
}

/* ---- The limit ---------------------------------------------------------------------------------------------------------- */

bool schema_check_scope(struct load *load, struct rule *rule, const struct node *limit,
                        const struct node *const *given, const struct field *fields)
{
    const struct node *fails = given[LIMIT_WHEN_STORE_FAILS];
    if (!rule_is_shared(rule)) {
        bool is_later = given[LIMIT_SCOPE] != NULL
                        && !slice_equals(given[LIMIT_SCOPE]->text, SLICE("process")); /* said already */
        if (fails != NULL && fails->kind != NODE_BAD && !is_later)
            schema_error(
                load, "when-store-fails", fails, "remove it, or write `scope: fleet`",
                "means nothing without `scope: fleet`: a process counts in its own memory, which cannot "
                "fail apart");
        if (given[LIMIT_LEASE] != NULL && given[LIMIT_LEASE]->kind != NODE_BAD && !is_later)
            schema_error(load, "lease", given[LIMIT_LEASE], "remove it, or write `scope: fleet`",
                         "means nothing without `scope: fleet`: a process asks nobody for its own budget");
        return fails == NULL && given[LIMIT_LEASE] == NULL;
    }
    bool is_fine = true;
    if (fails == NULL) {
        schema_missing(load, limit, &fields[LIMIT_WHEN_STORE_FAILS]);
        is_fine = false;
    }
    is_fine = check_no_queue(load, rule, given) && is_fine;
    is_fine = check_no_table(load, rule, given) && is_fine;
    is_fine = check_share(load, rule, given) && is_fine;
    is_fine = schema_check_lease(load, rule, given) && is_fine;
    struct weir_size size = size_of(rule);
    return rule->is_countable && schema_check_size(load, rule, &size, limit, &rule->shared) && is_fine;
}

/* ---- The fleet ----------------------------------------------------------------------------------------------------------- */

/* Said once: it is a matter of the program, not of each limit. */
void schema_check_fleet(struct load *load)
{
    const struct rules *rules = load->rules;
    size_t i = 0;
    while (i < rules->limit_count && !rule_is_shared(&rules->list[i]))
        i++;
    if (i == rules->limit_count || load->fleet == WEIR_FLEET_ALONE
        || (load->fleet == WEIR_FLEET_SHARED && load->has_store))
        return;
    load->owner = (struct owner){ .what = "limit", .name = slice_of(rules->list[i].limit.name) };
    const struct node *node = contract_limit_node(load, i), *scope = node_value(node, "scope");
    if (load->fleet == WEIR_FLEET_NONE)
        schema_error(load, "scope", scope == NULL ? node : scope,
                     "have the program serve it: `weir serve --store redis://HOST`; or write `scope: process`",
                     "needs a store that all processes share: this program would count for itself alone");
    else
        schema_error(
            load, "scope", scope == NULL ? node : scope,
            "say where it is: `weir serve --store redis://HOST`, WEIR_STORE, or `store: { url: ... }`; read "
            "at the start only",
            "needs a store, and nobody says where it is");
    load->owner = (struct owner){ 0 };
}

/* ---- store ---------------------------------------------------------------------------------------------------------------- */

#define STORE(member) offsetof(struct weir_contract_store, member)

enum { URL_FIELD, DEADLINE_FIELD, STORE_FIELDS };

static const struct field store_fields[STORE_FIELDS] = {
    [URL_FIELD] = { "url", parse_text, "URL", STORE(url),
                    .sentence = "write where it is: redis://127.0.0.1:6379, rediss://, redis+unix:///PATH, "
                                "redis+sentinel://H1:P,H2:P/NAME or redis+cluster://H1:P,H2:P" },
    [DEADLINE_FIELD] = { "deadline", parse_duration, "duration", STORE(deadline), .min = WEIR_MILLISECOND,
                         .max = 10 * WEIR_SECOND, .fallback = "5ms",
                         .sentence = "how long one decision waits for the store" },
};

/* A password stands before the @ of the hosts. */
static bool has_password(const char *url)
{
    const char *hosts = strstr(url, "://");
    return hosts != NULL && memchr(hosts + 3, '@', strcspn(hosts + 3, "/")) != NULL;
}

static void warn_exposed(struct load *load, const struct node *url)
{
    char cure[400];
    (void)snprintf(cure, sizeof cure, "run `chmod o-r %s`, or give the URL in WEIR_STORE",
                   diagnostics_name(load->diagnostics));
    diagnostics_add(load->diagnostics, WEIR_SEVERITY_WARNING, url->place, cure,
                    "url of store holds a password, and everybody on this machine can read this file");
}

void parse_store(struct load *load, const struct field *field, const struct node *value, void *into)
{
    const struct node *given[STORE_FIELDS];
    struct weir_contract_store reading = { .deadline = load->store->deadline };
    struct region *region = load->region;
    (void)into;
    load->owner = (struct owner){ .what = "store" };
    load->region = load->home;
    (void)schema_read(load, value, field->name, store_fields, STORE_FIELDS, &reading, given);
    load->region = region;
    reading.has_deadline = given[DEADLINE_FIELD] != NULL;
    struct store_url_problem found = { NULL, NULL };
    if (reading.url != NULL)
        found = store_url_judge(reading.url);
    if (found.what != NULL) {
        /* Its value is not shown: it may hold a password. */
        diagnostics_add(load->diagnostics, WEIR_SEVERITY_ERROR, given[URL_FIELD]->place, found.cure,
                        "url of store %s", found.what);
        reading.url = NULL;
    }
    if (reading.url != NULL && load->is_exposed && has_password(reading.url))
        warn_exposed(load, given[URL_FIELD]);
    load->owner = (struct owner){ 0 };
    *load->store = reading;
    load->has_store = load->has_store || (reading.url != NULL && !load->is_reload);
}
