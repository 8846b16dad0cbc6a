// SPDX-License-Identifier: Apache-2.0
/* test_contract_lease.c - what a contract says of leases: words, what cannot be handed out, and what callers see of it. */
#include "support/contracts.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define SEC WEIR_SECOND

static struct loaded load(const char *text)
{
    const struct weir_contract_options options = {
        .keys = 64, .has_wall_offset = true, .fleet = WEIR_FLEET_SHARED, .has_store = true
    };
    return contract_with(text, strlen(text), &options);
}

static struct loaded load_limit(const char *fields)
{
    char text[2048];
    snprintf(text, sizeof text, "weir: 1\nlimits:\n - {name: a, %s}\n", fields);
    return load(text);
}

/* Errors as "WORD: message => cure" joined by " | "; WORD is what the caret underlines. */
static void join(const struct loaded *loaded, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < weir_diagnostics_count(loaded->diagnostics); i++) {
        const struct weir_diagnostic *item = weir_diagnostics_at(loaded->diagnostics, i);
        if (item->severity != WEIR_SEVERITY_ERROR)
            continue;
        len += (size_t)snprintf(out + len, size - len, "%s%.*s: %s => %s", len == 0 ? "" : " | ",
                                (int)item->width, item->source + item->column - 1, item->message, item->cure);
        assert_true(len < size);
    }
}

struct row {
    const char *why, *fields, *errors; /* of one limit; errors "": it loads */
};

static void check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char errors[3000];
        struct loaded loaded = load_limit(rows[i].fields);
        join(&loaded, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s: {%s}\ngot  %s\nwant %s", rows[i].why, rows[i].fields, errors, rows[i].errors);
        assert_int_equal(loaded.error, errors[0] == '\0' ? 0 : WEIR_ERR_CONTRACT);
        loaded_free(&loaded);
    }
}

#define FLEET "scope: fleet, when-store-fails: closed"
#define BUCKET "key: [tenant], missing-key: share, rate: 10/s, burst: 100, " FLEET
#define WINDOW "key: [tenant], missing-key: share, algorithm: fixed-window, rate: 1000/1d, " FLEET
#define LEASE ", lease: { most: 50, chunk: 10 }"

#define BOUNDS "write a length of time from 200 ms to 1 day"
#define LENGTHS "write a length of time such as 200ms, 5s, 15m, 1h, 7d or 1m30s, from 200 ms to 1 day"
#define NUMBERS \
    "write an integer from 1 to the burst or count: no quotes, sign, fraction, exponent or leading zero"
#define FORM "say how much replicas may hold: `lease: { most: 50, chunk: 10, for: 2s }`"
#define MOST "say how many tokens may be out at all replicas together: `most: 50`"
#define CHUNK "say how many tokens may be out at one replica: `chunk: 10`"

static void words(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "all three", BUCKET ", lease: { most: 50, chunk: 10, for: 2s }", "" },
        { "the time has a default", BUCKET LEASE, "" },
        { "the whole burst may be out", BUCKET ", lease: { most: 100, chunk: 100 }", "" },
        { "one token may be out", BUCKET ", lease: { most: 1, chunk: 1 }", "" },
        { "the shortest time", BUCKET ", lease: { most: 50, chunk: 10, for: 200ms }", "" },
        { "the longest", BUCKET ", lease: { most: 50, chunk: 10, for: 1d }", "" },
        { "a ms less is too short", BUCKET ", lease: { most: 50, chunk: 10, for: 199ms }",
          "199ms: for 199ms of the lease of limit 'a' is too short => " BOUNDS },
        { "a ms more is too long", BUCKET ", lease: { most: 50, chunk: 10, for: 1d1ms }",
          "1d1ms: for 1d1ms of the lease of limit 'a' is too long => " BOUNDS },
        { "half a ms", BUCKET ", lease: { most: 50, chunk: 10, for: 200ms500us }",
          "200ms500us: for 200ms500us of the lease of limit 'a' is no whole number of milliseconds => write "
          "whole milliseconds, such as 2s or 250ms" },
        { "a bare number is no time", BUCKET ", lease: { most: 50, chunk: 10, for: 2 }",
          "2: for 2 of the lease of limit 'a' has no unit: a bare number is no length of time => " LENGTHS },
        { "nothing out is no lease", BUCKET ", lease: { most: 0, chunk: 1 }",
          "0: most 0 of the lease of limit 'a' is too small => " NUMBERS },
        { "a portion of nothing", BUCKET ", lease: { most: 50, chunk: 0 }",
          "0: chunk 0 of the lease of limit 'a' is too small => " NUMBERS },
        { "no most", BUCKET ", lease: { chunk: 10 }",
          "{: most is missing for the lease of limit 'a' => " MOST },
        { "no chunk", BUCKET ", lease: { most: 10 }",
          "{: chunk is missing for the lease of limit 'a' => " CHUNK },
        { "an empty map lacks both", BUCKET ", lease: {}",
          "{: most is missing for the lease of limit 'a' => " MOST
          " | {: chunk is missing for the lease of limit 'a' => " CHUNK },
        { "a number alone", BUCKET ", lease: 50",
          "50: lease 50 of limit 'a' is not a map of most, chunk and for => " FORM },
        { "a list", BUCKET ", lease: [50, 10]",
          "[: lease of limit 'a' is not a map of most, chunk and for => " FORM },
        { "nothing", BUCKET ", lease: ", "}: lease of limit 'a' is empty => " FORM },
        { "a word that is near", BUCKET ", lease: { most: 50, chunks: 10 }",
          "{: chunk is missing for the lease of limit 'a' => " CHUNK
          " | chunks: unknown field 'chunks' in the lease of limit 'a' => did you mean 'chunk'?" },
        { "a word that is not", BUCKET ", lease: { most: 50, chunk: 10, renew: 1s }",
          "renew: unknown field 'renew' in the lease of limit 'a' => the fields are most, chunk, for" },
    };
    check(rows, COUNT_OF(rows));
}

#define ALONE "key: [tenant], missing-key: share, rate: 10/s, burst: 100"
#define LEASED_CURE \
    "say how much may be held: `lease: { most: 50, chunk: 10 }`; or write `closed`, `open`, `{ open: 30s }` " \
    "or `{ local: 1/4 }`"

static void what_goes_together(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "with closed", BUCKET LEASE, "" },
        { "with open", ALONE ", scope: fleet, when-store-fails: { open: 30s }" LEASE, "" },
        { "with a share", ALONE ", scope: fleet, when-store-fails: { local: 1/4 }" LEASE, "" },
        { "with what is in hand", ALONE ", scope: fleet, when-store-fails: leased" LEASE, "" },
        { "in hand of what?", ALONE ", scope: fleet, when-store-fails: leased",
          "leased: when-store-fails leased of limit 'a' means nothing without a lease: nothing would be held "
          "=> " LEASED_CURE },
        { "a process asks nobody", ALONE LEASE,
          "{: lease of limit 'a' means nothing without `scope: fleet`: a process asks nobody for its own "
          "budget "
          "=> remove it, or write `scope: fleet`" },
        { "so says process", ALONE ", scope: process" LEASE,
          "{: lease of limit 'a' means nothing without `scope: fleet`: a process asks nobody for its own "
          "budget "
          "=> remove it, or write `scope: fleet`" },
        { "a host is told once that there is none yet", ALONE ", scope: host" LEASE,
          "host: scope host of limit 'a' is not in this version of weir yet: a budget shared by a host will "
          "come "
          "with a later one => write one of process, fleet" },
        { "more out than the burst", BUCKET ", lease: { most: 101, chunk: 10 }",
          "101: most 101 of the lease of limit 'a' is above the burst 100: no more can be out => write `most: "
          "100` or less, or raise the burst" },
        { "more out than a window's count", WINDOW ", lease: { most: 1001, chunk: 10 }",
          "1001: most 1001 of the lease of limit 'a' is above the count 1000: no more can be out => write "
          "`most: "
          "1000` or less, or raise the count" },
        { "a burst of nothing",
          "key: [], rate: 1/s, burst: 0, scope: fleet, when-store-fails: closed, lease: { most: 1, chunk: 1 }",
          "1: most 1 of the lease of limit 'a' is above the burst 0: no more can be out => remove the lease, "
          "or "
          "raise the burst" },
        { "one holds more than all", BUCKET ", lease: { most: 50, chunk: 51 }",
          "51: chunk 51 of the lease of limit 'a' is above most 50: one replica cannot hold more than all "
          "together => write `chunk: 50` or less, or raise most" },
        { "and all hold more than there is", BUCKET ", lease: { most: 200, chunk: 201 }",
          "200: most 200 of the lease of limit 'a' is above the burst 100: no more can be out => write `most: "
          "100` or less, or raise the burst | 201: chunk 201 of the lease of limit 'a' is above most 200: one "
          "replica cannot hold more than all together => write `chunk: 200` or less, or raise most" },
        { "debt", BUCKET LEASE ", debt: 20",
          "20: debt 20 of limit 'a' means nothing with a lease: portions that are out cannot be called back to "
          "pay it => remove it, or remove the lease" },
        { "no debt may be said", BUCKET LEASE ", debt: 0", "" },
        { "debt of one key", BUCKET LEASE ", overrides: [{ key: { tenant: b }, burst: 9, debt: 1 }]",
          "1: debt 1 of an override of limit 'a' means nothing with a lease: portions that are out cannot be "
          "called back to pay it => remove it, or remove the lease" },
        { "retries", BUCKET LEASE ", retries: { free-within: 60s }",
          "{: retries of limit 'a' cannot be free with a lease: a retry may come to another replica, which "
          "does "
          "not know the first try => write `retries: counted`, or remove the lease: then the store remembers "
          "each request" },
        { "counted retries may be said", BUCKET LEASE ", retries: counted", "" },
        { "refusals", BUCKET LEASE ", refused: charged",
          "charged: refused charged of limit 'a' means nothing with a lease: what is refused could only be "
          "charged to portions that others hold => write `refused: free`, or remove the lease" },
        { "several at once are told in one run", BUCKET LEASE ", debt: 1, refused: charged",
          "1: debt 1 of limit 'a' means nothing with a lease: portions that are out cannot be called back to "
          "pay "
          "it => remove it, or remove the lease | charged: refused charged of limit 'a' means nothing with a "
          "lease: what is refused could only be charged to portions that others hold => write `refused: free`, "
          "or remove the lease" },
        { "all else that a contract can say",
          BUCKET LEASE
          ", cost: { from: tokens }, enforce: 10%, when-state-lost: empty, overrides: [{ key: { "
          "tenant: b }, burst: 9 }, { key: { tenant: c }, unlimited: true }, { key: { tenant: d }, "
          "burst: 0 }]",
          "" },
    };
    check(rows, COUNT_OF(rows));
}

static void what_cannot_be_leased(void **state)
{
    (void)state;
#define TAKE "remove its lease, or take a token-bucket or a fixed-window"
    static const struct row rows[] = {
        { "a leaky bucket can", "key: [], algorithm: leaky-bucket, rate: 10/s, burst: 100, " FLEET LEASE, "" },
        { "so can a fixed window", "key: [], algorithm: fixed-window, rate: 100/1m, " FLEET LEASE, "" },
        { "of a calendar",
          "key: [], algorithm: fixed-window, rate: 100/month, align: calendar UTC, " FLEET LEASE, "" },
        { "from the first request",
          "key: [], algorithm: fixed-window, rate: 100/1m, align: first-request, " FLEET LEASE, "" },
        { "a sliding window", "key: [], algorithm: sliding-window, rate: 100/1m, " FLEET LEASE,
          "{: limit 'a' cannot be leased: a sliding-window weighs what is spent by when, and of a portion only "
          "its "
          "replica knows that => " TAKE },
        { "a log", "key: [], algorithm: sliding-log, rate: 100/1m, " FLEET LEASE,
          "{: limit 'a' cannot be leased: a sliding-log remembers when each request passed, and of a portion "
          "only "
          "its replica knows that => " TAKE },
        { "permits", "key: [], algorithm: concurrency, at-most: 100, hold: 30s, " FLEET LEASE,
          "{: limit 'a' cannot be leased: each permit of a concurrency limit is held, renewed and returned by "
          "itself => remove its lease" },
        { "a queue cannot even be shared",
          "key: [], algorithm: leaky-queue, rate: 5/s, wait: { up-to: 2s, queue: 10 }, " FLEET
          ", lease: { most: 1, chunk: 1 }",
          "leaky-queue: algorithm leaky-queue of limit 'a' cannot be shared by a fleet: a queue stands in one "
          "process => write `algorithm: leaky-bucket` with `burst: 1`, or a leaky-queue with `scope: process` "
          "beside" },
        { "nor does one lease in its own process",
          "key: [], algorithm: leaky-queue, rate: 5/s, wait: { up-to: 2s, queue: 10 }" LEASE,
          "{: lease of limit 'a' means nothing without `scope: fleet`: a process asks nobody for its own "
          "budget "
          "=> remove it, or write `scope: fleet`" },
    };
    check(rows, COUNT_OF(rows));
}

/* ---- What callers see ---------------------------------------------------------------------------------------------------- */

static void callers_see(void **state)
{
    (void)state;
    static const struct {
        const char *why, *fields, *json;
        struct weir_lease lease;
        enum weir_store_fails fails;
    } rows[] = {
        { "as it is written",
          BUCKET ", lease: { most: 50, chunk: 10, for: 250ms }",
          "\"when_store_fails\":\"closed\",\"lease\":{\"most\":50,\"chunk\":10,\"for\":0.25},\"store_tick\":",
          { 50, 10, 250 * MS },
          WEIR_STORE_CLOSED },
        { "two seconds by default",
          ALONE LEASE ", scope: fleet, when-store-fails: leased",
          "\"when_store_fails\":\"leased\",\"lease\":{\"most\":50,\"chunk\":10,\"for\":2},\"store_tick\":",
          { 50, 10, 2 * SEC },
          WEIR_STORE_LEASED },
        { "none", BUCKET, "\"lease\":null,\"store_tick\":", { 0, 0, 0 }, WEIR_STORE_CLOSED },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct loaded loaded = load_limit(rows[i].fields);
        assert_int_equal(loaded.error, 0);
        const struct weir_contract_limit *limit = weir_contract_limit(loaded.contract, 0);
        expect_row(limit->lease.most == rows[i].lease.most, rows[i].why);
        expect_row(limit->lease.chunk == rows[i].lease.chunk, rows[i].why);
        expect_row(limit->lease.duration == rows[i].lease.duration, rows[i].why);
        expect_row(limit->when_store_fails == rows[i].fails, rows[i].why);
        if (strstr(limit->json, rows[i].json) == NULL)
            fail_msg("%s: '%s' is not in %s", rows[i].why, rows[i].json, limit->json);
        loaded_free(&loaded);
    }
}

/* A key's lease is the limit's, and no more than the key's own capacity. */
static void a_smaller_key_has_less_to_hand_out(void **state)
{
    (void)state;
    static const struct {
        const char *why, *tenant;
        uint64_t most, chunk;
    } rows[] = {
        { "the limit's own", "x", 50, 10 },
        { "a larger key's lease is no larger", "large", 50, 10 },
        { "exactly as much", "fifty", 50, 10 },
        { "all of it may be out", "thirty", 30, 10 },
        { "a portion is no more than all", "four", 4, 4 },
        { "nothing to hand out", "none", 0, 0 },
        { "nothing is counted", "free", 0, 0 },
        { "another rate alone changes nothing", "fast", 50, 10 },
    };
    struct loaded loaded = load_limit(
        BUCKET LEASE
        ", overrides: [{ key: { tenant: large }, burst: 500 }, { key: { tenant: fifty }, burst: 50 }, "
        "{ key: { tenant: thirty }, burst: 30 }, { key: { tenant: four }, burst: 4 }, { key: { "
        "tenant: none }, burst: 0 }, { key: { tenant: free }, unlimited: true }, { key: { tenant: "
        "fast }, rate: 99/s }]");
    assert_int_equal(loaded.error, 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        static struct weir_shared shared;
        struct weir_attribute key = { "tenant", rows[i].tenant, strlen(rows[i].tenant) };
        struct weir_request request = { .attributes = &key, .attribute_count = 1, .cost = 1 };
        struct weir_fault fault;
        assert_int_equal(weir_contract_shared(loaded.contract, &request, &shared), 0);
        for (int by_name = 0; by_name < 2; by_name++) {
            if (by_name == 1) /* the same for a key that is named rather than met */
                assert_int_equal(weir_contract_shared_key(loaded.contract, "a", &key, 1, &shared, &fault), 0);
            assert_int_equal(shared.count, 1);
            const struct weir_lease *lease = &shared.asks[0].lease;
            expect_row(lease->most == rows[i].most && lease->chunk == rows[i].chunk, rows[i].why);
            expect_row(lease->most == 0 || lease->duration == 2 * SEC, rows[i].why);
        }
    }
    loaded_free(&loaded);
}

/* A window's count is its capacity. */
static void so_has_a_smaller_window(void **state)
{
    (void)state;
    static struct weir_shared shared;
    struct loaded loaded = load_limit(
        WINDOW
        ", lease: { most: 500, chunk: 300, for: 1m }, overrides: [{ key: { tenant: b }, rate: 200/1d }]");
    assert_int_equal(loaded.error, 0);
    struct weir_attribute key = { "tenant", "b", 1 };
    struct weir_request request = { .attributes = &key, .attribute_count = 1, .cost = 1 };
    assert_int_equal(weir_contract_shared(loaded.contract, &request, &shared), 0);
    assert_int_equal(shared.asks[0].lease.most, 200);
    assert_int_equal(shared.asks[0].lease.chunk, 200);
    assert_true(shared.asks[0].lease.duration == WEIR_MINUTE);
    loaded_free(&loaded);
}

/* ---- Without a store ----------------------------------------------------------------------------------------------------- */

#define AWAY_FIELDS \
    "key: [tenant], rate: 10/s, burst: 100, scope: fleet, when-store-fails: leased, lease: { most: 50, " \
    "chunk: 10 }, overrides: [{ key: { tenant: free }, unlimited: true }]"

/* What is in hand is spent by whoever holds it; this is about the rest. */
static void what_is_not_in_hand_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *why, *tenant;
        uint64_t cost;
        weir_ns now;
        enum weir_outcome outcome;
        enum weir_policy policy;
        enum weir_reason reason;
        uint64_t capacity, remaining;
        weir_ns retry_at;
    } rows[] = {
        { "refused at once", "x", 1, 100 * SEC, WEIR_REFUSED, WEIR_POLICY_LEASED, WEIR_REASON_STORE, 100, 0,
          101 * SEC },
        { "and a day later", "x", 1, 100 * SEC + WEIR_DAY, WEIR_REFUSED, WEIR_POLICY_LEASED, WEIR_REASON_STORE,
          100, 0, 101 * SEC + WEIR_DAY },
        { "however much", "x", 100, 100 * SEC, WEIR_REFUSED, WEIR_POLICY_LEASED, WEIR_REASON_STORE, 100, 0,
          101 * SEC },
        { "what can never pass needs no store", "x", 101, 100 * SEC, WEIR_NEVER, WEIR_POLICY_NONE,
          WEIR_REASON_NONE, 100, 0, WEIR_NO_TIME },
        { "nor does what is not counted", "free", 1, 100 * SEC, WEIR_ALLOW, WEIR_POLICY_NONE, WEIR_REASON_NONE,
          WEIR_UNLIMITED, WEIR_UNLIMITED, 100 * SEC },
    };
    struct loaded loaded = load_limit(AWAY_FIELDS);
    assert_int_equal(loaded.error, 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        static struct weir_shared shared;
        struct weir_attribute key = { "tenant", rows[i].tenant, strlen(rows[i].tenant) };
        struct weir_request request = { .attributes = &key, .attribute_count = 1, .cost = rows[i].cost };
        struct weir_outage outage = { 99 * SEC, 1 };
        assert_int_equal(weir_contract_shared(loaded.contract, &request, &shared), 0);
        for (int is_peek = 0; is_peek < 2; is_peek++) {
            struct weir_decision decision;
            weir_contract_fall_back(loaded.contract, &shared, 1, &outage, is_peek != 0, rows[i].now, &decision);
            expect_row(decision.outcome == rows[i].outcome, rows[i].why);
            expect_row(decision.policy == rows[i].policy, rows[i].why);
            expect_row(decision.reason == rows[i].reason, rows[i].why);
            expect_row(decision.capacity == rows[i].capacity, rows[i].why);
            expect_row(decision.remaining == rows[i].remaining, rows[i].why);
            expect_row(decision.retry_at == rows[i].retry_at, rows[i].why);
        }
    }
    loaded_free(&loaded);
}

/* A refusal of a leased limit takes nothing of a share beside it (G2). */
static void a_share_beside_it_loses_nothing(void **state)
{
    (void)state;
    static struct weir_shared shared;
    struct loaded loaded = load("weir: 1\nlimits:\n"
                                " - { name: w, key: [], algorithm: fixed-window, rate: 8/1h, scope: fleet, "
                                "when-store-fails: { local: 1/4 } }\n"
                                " - { name: l, key: [tenant], rate: 1/s, burst: 9, scope: fleet, "
                                "when-store-fails: leased, lease: { most: 4, "
                                "chunk: 2 } }\n");
    assert_int_equal(loaded.error, 0);
    struct weir_attribute key = { "tenant", "x", 1 };
    struct weir_outage outages[2] = { { 0, 1 }, { 0, 1 } };
    struct weir_decision each[2];
    struct weir_request both = { .attributes = &key, .attribute_count = 1, .cost = 1 }, one = { .cost = 1 };
    assert_int_equal(weir_contract_shared(loaded.contract, &both, &shared), 0);
    assert_int_equal(shared.count, 2);
    for (int i = 0; i < 5; i++) {
        weir_contract_fall_back(loaded.contract, &shared, 3, outages, false, SEC, each);
        assert_int_equal(each[1].outcome, WEIR_REFUSED);
    }
    assert_int_equal(weir_contract_shared(loaded.contract, &one, &shared), 0);
    assert_int_equal(shared.count, 1);
    for (int i = 0; i < 3; i++) { /* a quarter of eight is two */
        weir_contract_fall_back(loaded.contract, &shared, 1, outages, false, SEC, each);
        assert_int_equal(each[0].outcome, i < 2 ? WEIR_ALLOW : WEIR_DENY);
        assert_int_equal(each[0].policy, WEIR_POLICY_LOCAL);
    }
    loaded_free(&loaded);
}

/* ---- Alone, and another contract ------------------------------------------------------------------------------------------- */

/* In mode ALONE (check, test, explain) the limit decides as it would without a lease. */
static void alone_it_is_strict(void **state)
{
    (void)state;
    const struct weir_contract_options options = { .keys = 64,
                                                   .has_wall_offset = true,
                                                   .fleet = WEIR_FLEET_ALONE };
    static const char text[] = "weir: 1\nlimits:\n - {name: a, key: [], rate: 1/s, burst: 3, scope: fleet, "
                               "when-store-fails: leased, lease: { most: 2, chunk: 1 }}\n";
    struct loaded loaded = contract_with(text, strlen(text), &options);
    assert_int_equal(loaded.error, 0);
    assert_int_equal(ask(loaded.contract, "", 3, 0).decision.outcome, WEIR_ALLOW);
    assert_int_equal(ask(loaded.contract, "", 1, 0).decision.outcome, WEIR_DENY);
    assert_int_equal(ask(loaded.contract, "", 1, SEC).decision.outcome, WEIR_ALLOW);
    loaded_free(&loaded);
}

/* A lease that comes, changes or goes leaves the budget as it is: no reload refuses it, and none starts it afresh. */
static void a_reload_keeps_the_budget(void **state)
{
    (void)state;
    static const struct {
        const char *why, *lease;
        uint64_t most, remaining;
    } rows[] = {
        { "from strict to leased", LEASE, 50, 97 },
        { "other numbers", ", lease: { most: 20, chunk: 20, for: 1s }", 20, 96 },
        { "back to strict", "", 0, 95 },
    };
    const struct weir_contract_options options = { .keys = 64,
                                                   .has_wall_offset = true,
                                                   .fleet = WEIR_FLEET_ALONE };
    static const char first[] = "weir: 1\nlimits:\n - {name: a, " BUCKET "}\n";
    struct loaded loaded = contract_with(first, strlen(first), &options);
    assert_int_equal(loaded.error, 0);
    assert_int_equal(ask(loaded.contract, "tenant=x", 2, 0).decision.remaining, 98);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[1024];
        struct weir_reload kinds;
        struct weir_diagnostics *diagnostics;
        snprintf(text, sizeof text, "weir: 1\nlimits:\n - {name: a, " BUCKET "%s}\n", rows[i].lease);
        int error =
            weir_contract_reload(loaded.contract, text, strlen(text), "t.yaml", 0, &kinds, &diagnostics);
        assert_int_equal(error, 0);
        expect_row(weir_diagnostics_count(diagnostics) == 0, rows[i].why);
        weir_diagnostics_free(diagnostics);
        weir_contract_quiesce(loaded.contract, 0);
        expect_row(kinds.resized == 1 && kinds.kept == 0, rows[i].why); /* its lease */
        expect_row(weir_contract_limit(loaded.contract, 0)->lease.most == rows[i].most, rows[i].why);
        expect_row(ask(loaded.contract, "tenant=x", 1, 0).decision.remaining == rows[i].remaining, rows[i].why);
    }
    loaded_free(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(what_goes_together),
        cmocka_unit_test(what_cannot_be_leased),
        cmocka_unit_test(callers_see),
        cmocka_unit_test(a_smaller_key_has_less_to_hand_out),
        cmocka_unit_test(so_has_a_smaller_window),
        cmocka_unit_test(what_is_not_in_hand_is_refused),
        cmocka_unit_test(a_share_beside_it_loses_nothing),
        cmocka_unit_test(alone_it_is_strict),
        cmocka_unit_test(a_reload_keeps_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
