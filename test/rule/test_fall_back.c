// SPDX-License-Identifier: Apache-2.0
/*
 * test_fall_back.c - what limits say while their store is away: each policy, and a process's share of a budget (P39).
 */
#include "support/contracts.h"
#include "support/random.h"
#include "support/unit.h"

#define SEC WEIR_SECOND
#define MS WEIR_MILLISECOND

/* A contract of a process that shares, and one request's questions. */
struct away {
    struct weir_contract *contract;
    struct weir_shared shared;
    struct weir_outage outages[WEIR_ASKS_MAX];
    struct weir_decision each[WEIR_ASKS_MAX];
};

static struct away *open_text(const char *text, int64_t wall)
{
    static const uint8_t secret[16] = "a test's secret";
    const struct weir_contract_options options = { .keys = 4096,
                                                   .wall_offset = wall,
                                                   .has_wall_offset = true,
                                                   .fleet = WEIR_FLEET_SHARED,
                                                   .has_store = true,
                                                   .secret = secret };
    struct away *away = calloc(1, sizeof *away);
    struct loaded loaded = contract_with(text, strlen(text), &options);
    if (loaded.error != 0)
        fail_msg("%s does not load: %s", text, loaded.printed);
    away->contract = loaded.contract;
    loaded.contract = NULL;
    loaded_free(&loaded);
    return away;
}

/* Of one limit `a` with these fields. */
static struct away *open_limit(const char *fields)
{
    char text[1024];
    snprintf(text, sizeof text, "weir: 1\nlimits:\n - { name: a, scope: fleet, %s }\n", fields);
    return open_text(text, 0);
}

static void close_away(struct away *away)
{
    weir_contract_free(away->contract);
    free(away);
}

static void asks(struct away *away, const char *words, uint64_t cost)
{
    static char text[200];
    static struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    snprintf(text, sizeof text, "%s", words);
    struct weir_request request = { attributes, attributes_of(text, attributes), cost, false, 0 };
    assert_int_equal(weir_contract_shared(away->contract, &request, &away->shared), 0);
    assert_true(away->shared.count > 0);
}

/* The first limit's answer in outage `number` that began at `began_at`; the others' are in away->each. */
static struct weir_decision falls_back(struct away *away, const char *words, uint64_t cost, uint64_t number,
                                       weir_ns began_at, weir_ns now)
{
    asks(away, words, cost);
    for (size_t i = 0; i < away->shared.count; i++)
        away->outages[i] = (struct weir_outage){ began_at, number };
    weir_contract_fall_back(away->contract, &away->shared, (UINT64_C(1) << away->shared.count) - 1,
                            away->outages, false, now, away->each);
    return away->each[0];
}

/* ---- Closed and open ------------------------------------------------------------------------------------------------------- */

#define AT (100 * SEC) /* when the outage began */

static void policies(void **state)
{
    (void)state;
    static const struct {
        const char *why, *fails;
        uint64_t cost;
        weir_ns now;
        enum weir_outcome outcome;
        enum weir_policy policy;
        enum weir_reason reason;
    } rows[] = {
        { "closed", "closed", 1, AT, WEIR_REFUSED, WEIR_POLICY_CLOSED, WEIR_REASON_STORE },
        { "closed, an hour later", "closed", 1, AT + WEIR_HOUR, WEIR_REFUSED, WEIR_POLICY_CLOSED,
          WEIR_REASON_STORE },
        { "open", "open", 1, AT, WEIR_UNMETERED, WEIR_POLICY_OPEN, WEIR_REASON_STORE },
        { "open as long as it lasts", "open", 1, AT + WEIR_DAY, WEIR_UNMETERED, WEIR_POLICY_OPEN,
          WEIR_REASON_STORE },
        { "B63: open for a time", "{ open: 30s }", 1, AT, WEIR_UNMETERED, WEIR_POLICY_OPEN, WEIR_REASON_STORE },
        { "a stamp from before the outage", "{ open: 30s }", 1, AT - 9, WEIR_UNMETERED, WEIR_POLICY_OPEN,
          WEIR_REASON_STORE },
        { "the last ns", "{ open: 30s }", 1, AT + 30 * SEC - 1, WEIR_UNMETERED, WEIR_POLICY_OPEN,
          WEIR_REASON_STORE },
        { "the first ns behind", "{ open: 30s }", 1, AT + 30 * SEC, WEIR_REFUSED, WEIR_POLICY_CLOSED,
          WEIR_REASON_STORE },
        { "and it stays so", "{ open: 30s }", 1, AT + WEIR_DAY, WEIR_REFUSED, WEIR_POLICY_CLOSED,
          WEIR_REASON_STORE },
        { "what can never pass needs no store", "closed", 21, AT, WEIR_NEVER, WEIR_POLICY_NONE,
          WEIR_REASON_NONE },
        { "nor is it let in", "open", 21, AT, WEIR_NEVER, WEIR_POLICY_NONE, WEIR_REASON_NONE },
        { "nor out of a share", "{ local: 1/2 }", 21, AT, WEIR_NEVER, WEIR_POLICY_NONE, WEIR_REASON_NONE },
        { "a share of the outage's first instant has nothing", "{ local: 1/2 }", 1, AT, WEIR_DENY,
          WEIR_POLICY_LOCAL, WEIR_REASON_STORE },
        { "and after a second 2.5", "{ local: 1/2 }", 2, AT + SEC, WEIR_ALLOW, WEIR_POLICY_LOCAL,
          WEIR_REASON_STORE },
        { "so 3 do not fit", "{ local: 1/2 }", 3, AT + SEC, WEIR_DENY, WEIR_POLICY_LOCAL, WEIR_REASON_STORE },
        { "above the share it is only denied: the store may be back", "{ local: 1/2 }", 11, AT + SEC, WEIR_DENY,
          WEIR_POLICY_LOCAL, WEIR_REASON_STORE },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char fields[200];
        snprintf(fields, sizeof fields, "key: [], rate: 5/s, burst: 20, when-store-fails: %s", rows[i].fails);
        struct away *away = open_limit(fields);
        struct weir_decision decision = falls_back(away, "", rows[i].cost, 1, AT, rows[i].now);
        expect_row(decision.outcome == rows[i].outcome, rows[i].why);
        expect_row(decision.policy == rows[i].policy, rows[i].why);
        expect_row(decision.reason == rows[i].reason, rows[i].why);
        expect_row(decision.limit == 0, rows[i].why);
        expect_row(decision.decided_at == rows[i].now || rows[i].now < AT, rows[i].why);
        expect_row(rows[i].outcome != WEIR_NEVER || decision.retry_at == WEIR_NO_TIME, rows[i].why);
        close_away(away);
    }
}

static void nobody_dates_the_outage(void **state)
{
    (void)state;
    struct away *away = open_limit("key: [], rate: 5/s, burst: 20, when-store-fails: { open: 30s }");
    assert_int_equal(falls_back(away, "", 1, 0, WEIR_NO_TIME, 999 * SEC).outcome, WEIR_UNMETERED);
    close_away(away);
    away = open_limit("key: [], rate: 5/s, burst: 20, when-store-fails: { local: 1/1 }");
    assert_int_equal(falls_back(away, "", 1, 7, WEIR_NO_TIME, 999 * SEC).outcome,
                     WEIR_DENY); /* it begins now */
    assert_int_equal(falls_back(away, "", 5, 7, WEIR_NO_TIME, 1000 * SEC).outcome, WEIR_ALLOW);
    close_away(away);
}

static void keys_that_are_not_counted(void **state)
{
    (void)state;
    static const char *const fails[] = { "closed", "open", "{ local: 1/4 }" };
    for (size_t i = 0; i < COUNT_OF(fails); i++) {
        char fields[200];
        snprintf(
            fields, sizeof fields,
            "key: [tenant], rate: 5/s, burst: 20, overrides: [{ key: { tenant: free }, unlimited: true }], "
            "when-store-fails: %s",
            fails[i]);
        struct away *away = open_limit(fields);
        struct weir_decision decision = falls_back(away, "tenant=free", 1000, 1, AT, AT);
        assert_int_equal(decision.outcome, WEIR_ALLOW);
        assert_int_equal(decision.policy, WEIR_POLICY_NONE);
        assert_true(decision.capacity == WEIR_UNLIMITED);
        close_away(away);
    }
}

/* ---- Shares: sizes --------------------------------------------------------------------------------------------------------- */

/* How much one key gets in costs of 1 at one instant. */
static uint64_t takes(struct away *away, const char *words, uint64_t number, weir_ns began_at, weir_ns now)
{
    uint64_t count = 0;
    while (count < 100000 && falls_back(away, words, 1, number, began_at, now).outcome == WEIR_ALLOW)
        count++;
    return count;
}

static void sizes_of_shares(void **state)
{
    (void)state;
    static const struct {
        const char *why, *fields, *words;
        weir_ns after; /* the beginning of the outage */
        uint64_t takes;
    } rows[] = {
        { "a quarter of 100 in a second", "key: [], rate: 100/s, burst: 400, when-store-fails: { local: 1/4 }",
          "", SEC, 25 },
        { "a third of it: 33.3", "key: [], rate: 100/s, burst: 400, when-store-fails: { local: 1/3 }", "", SEC,
          33 },
        { "in three seconds exactly 100", "key: [], rate: 100/s, burst: 400, when-store-fails: { local: 1/3 }",
          "", 3 * SEC, 100 },
        { "one ns earlier 99", "key: [], rate: 100/s, burst: 400, when-store-fails: { local: 1/3 }", "",
          3 * SEC - 1, 99 },
        { "2/7 of 7 in 2 s is 4", "key: [], rate: 7/2s, burst: 700, when-store-fails: { local: 2/7 }", "",
          4 * SEC, 4 },
        { "the burst is rounded down: 10/4",
          "key: [], rate: 100/s, burst: 10, when-store-fails: { local: 1/4 }", "", WEIR_HOUR, 2 },
        { "down to nothing", "key: [], rate: 100/s, burst: 3, when-store-fails: { local: 1/4 }", "", WEIR_HOUR,
          0 },
        { "an override's share",
          "key: [t], rate: 4/s, burst: 400, overrides: [{ key: { t: big }, rate: 40/s }, { key: { t: x }, "
          "rate: 80/s }], "
          "when-store-fails: { local: 1/4 }",
          "t=big", 2 * SEC, 20 },
        { "beside the others'",
          "key: [t], rate: 4/s, burst: 400, overrides: [{ key: { t: big }, rate: 40/s }, { key: { t: x }, "
          "rate: 80/s }], "
          "when-store-fails: { local: 1/4 }",
          "t=y", 2 * SEC, 2 },
        { "an override as large as the limit",
          "key: [t], rate: 4/s, burst: 400, overrides: [{ key: { t: same }, rate: 4/s }], when-store-fails: { "
          "local: 1/4 }",
          "t=same", 2 * SEC, 2 },
        { "a window begins whole: a quarter of 10 down",
          "key: [], algorithm: fixed-window, rate: 10/h, when-store-fails: { local: 1/4 }", "", 0, 2 },
        { "sliding, too", "key: [], algorithm: sliding-window, rate: 100/h, when-store-fails: { local: 1/4 }",
          "", 0, 25 },
        { "and a log", "key: [], algorithm: sliding-log, rate: 100/h, when-store-fails: { local: 3/4 }", "", 0,
          75 },
        { "an override of a window",
          "key: [t], algorithm: fixed-window, rate: 10/h, overrides: [{ key: { t: big }, rate: 100/h }], "
          "when-store-fails: { "
          "local: 1/4 }",
          "t=big", 0, 25 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct away *away = open_limit(rows[i].fields);
        uint64_t count = takes(away, rows[i].words, 1, AT, AT + rows[i].after);
        if (count != rows[i].takes)
            fail_msg("%s: %llu, not %llu", rows[i].why, (unsigned long long)count,
                     (unsigned long long)rows[i].takes);
        close_away(away);
    }
}

static void shares_too_slow_to_be_kept(void **state)
{
    (void)state;
    static const char text[] = "weir: 1\nlimits:\n - { name: a, key: [], rate: 1/520w, burst: 5, scope: fleet, "
                               "when-store-fails: { local: 1/4 } }\n";
    const struct weir_contract_options options = { .fleet = WEIR_FLEET_SHARED, .has_store = true };
    struct loaded loaded = contract_with(text, strlen(text), &options);
    assert_int_equal(loaded.error, WEIR_ERR_CONTRACT);
    assert_int_equal(weir_diagnostics_count(loaded.diagnostics), 1);
    assert_string_equal(
        weir_diagnostics_at(loaded.diagnostics, 0)->message,
        "when-store-fails of the share of limit 'a' cannot be kept: the period must be 1 ns to 10 years");
    loaded_free(&loaded);
}

/* ---- Shares: outages --------------------------------------------------------------------------------------------------------- */

static void buckets_begin_empty_with_each_outage(void **state)
{
    (void)state;
    struct away *away = open_limit("key: [t], rate: 4/s, burst: 40, when-store-fails: { local: 1/4 }");
    /* 1/s, at most 10 */
    assert_int_equal(takes(away, "t=a", 1, AT, AT + 3 * SEC), 3);
    assert_int_equal(takes(away, "t=b", 1, AT, AT + 3 * SEC), 3);
    assert_int_equal(takes(away, "t=a", 1, AT, AT + 4 * SEC), 1);
    assert_int_equal(takes(away, "t=c", 1, AT, AT + WEIR_HOUR), 10);
    weir_ns next = AT + 2 * WEIR_HOUR;
    assert_int_equal(takes(away, "t=a", 2, next, next), 0);
    assert_int_equal(takes(away, "t=new", 2, next, next), 0);
    assert_int_equal(takes(away, "t=a", 2, next, next + 2 * SEC), 2);
    assert_int_equal(takes(away, "t=new", 2, next, next + 2 * SEC), 2);
    /* Somebody is late and still sees the first outage: what is absent is as the newest outage has it. */
    assert_int_equal(takes(away, "t=late", 1, AT, next + 2 * SEC), 2);
    close_away(away);
}

static void windows_and_logs_keep_their_counts(void **state)
{
    (void)state;
    static const char *const fields[] = {
        "key: [], algorithm: fixed-window, rate: 40/h, when-store-fails: { local: 1/4 }",
        "key: [], algorithm: sliding-window, rate: 40/h, when-store-fails: { local: 1/4 }",
        "key: [], algorithm: sliding-log, rate: 40/h, when-store-fails: { local: 1/4 }",
    };
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        struct away *away = open_limit(fields[i]);
        assert_int_equal(takes(away, "", 1, AT, AT), 10);
        for (uint64_t number = 2; number < 9; number++)
            assert_int_equal(takes(away, "", number, AT + number * SEC, AT + number * SEC), 0);
        assert_int_equal(takes(away, "", 9, AT + 3 * WEIR_HOUR, AT + 3 * WEIR_HOUR), 10);
        close_away(away);
    }
}

static void a_calendar_follows_the_wall(void **state)
{
    (void)state;
    char text[] = "weir: 1\nlimits:\n - { name: a, key: [], algorithm: fixed-window, rate: 40/d, align: "
                  "calendar UTC, scope: "
                  "fleet, when-store-fails: { local: 1/4 } }\n";
    struct away *away = open_text(text, (int64_t)(20 * WEIR_HOUR));
    assert_int_equal(takes(away, "", 1, AT, AT), 10);
    assert_int_equal(takes(away, "", 1, AT, AT + 4 * WEIR_HOUR - 200 * SEC), 0); /* 23:58:20 */
    weir_contract_wall_offset_set(away->contract,
                                  (int64_t)(20 * WEIR_HOUR + 200 * SEC)); /* the clock was late */
    assert_int_equal(takes(away, "", 1, AT, AT + 4 * WEIR_HOUR - 200 * SEC), 10);
    close_away(away);
}

/* ---- Together ----------------------------------------------------------------------------------------------------------------- */

static const char three[] =
    "weir: 1\nlimits:\n"
    " - { name: wide, key: [], algorithm: sliding-log, rate: 100/h, scope: fleet, when-store-fails: { "
    "local: 1/1 } }\n"
    " - { name: narrow, key: [t], algorithm: sliding-log, rate: 3/h, scope: fleet, when-store-fails: { "
    "local: 1/1 } }\n"
    " - { name: shadow, key: [], algorithm: sliding-log, rate: 5/h, enforce: shadow, scope: fleet, "
    "when-store-fails: { local: 1/1 } }\n"
    " - { name: shut, key: [], rate: 1/s, burst: 1, when: { path: /shut }, scope: fleet, "
    "when-store-fails: closed }\n";

static void all_or_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *why, *words;
        uint64_t cost, wide, narrow, shadow; /* left of each */
        enum weir_outcome outcome[3];
    } rows[] = {
        { "all pass", "t=a", 2, 98, 1, 3, { WEIR_ALLOW, WEIR_ALLOW, WEIR_ALLOW } },
        { "one refuses: nothing is taken, not of the shadow either",
          "t=a",
          2,
          98,
          1,
          3,
          { WEIR_ALLOW, WEIR_DENY, WEIR_ALLOW } },
        { "a closed one refuses: nor here",
          "t=b path=/shut",
          1,
          98,
          3,
          3,
          { WEIR_ALLOW, WEIR_ALLOW, WEIR_ALLOW } },
        { "another key", "t=b", 3, 95, 0, 0, { WEIR_ALLOW, WEIR_ALLOW, WEIR_ALLOW } },
        { "a shadow that refuses stops nobody", "t=c", 3, 92, 0, 0, { WEIR_ALLOW, WEIR_ALLOW, WEIR_DENY } },
        { "never is told of the limit alone", "t=d", 4, 92, 3, 0, { WEIR_ALLOW, WEIR_NEVER, WEIR_DENY } },
    };
    struct away *away = open_text(three, 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        (void)falls_back(away, rows[i].words, rows[i].cost, 1, AT, AT);
        for (size_t k = 0; k < 3; k++)
            expect_row(away->each[k].outcome == rows[i].outcome[k] && away->each[k].limit == (weir_limit_id)k,
                       rows[i].why);
        /* A look shows what is left. */
        asks(away, rows[i].words, 1);
        weir_contract_fall_back(away->contract, &away->shared, 7, away->outages, true, AT, away->each);
        expect_row(away->each[0].remaining == rows[i].wide, rows[i].why);
        expect_row(away->each[1].remaining == rows[i].narrow, rows[i].why);
        expect_row(away->each[2].remaining == rows[i].shadow, rows[i].why);
    }
    close_away(away);
}

/* Only what is asked for is written and taken. */
static void some_of_the_questions(void **state)
{
    (void)state;
    struct away *away = open_text(three, 0);
    asks(away, "t=a", 2);
    memset(away->each, 0xff, sizeof away->each);
    struct weir_decision untouched = away->each[0];
    for (size_t i = 0; i < 3; i++)
        away->outages[i] = (struct weir_outage){ AT, 1 };
    weir_contract_fall_back(away->contract, &away->shared, 2, away->outages, false, AT, away->each);
    assert_memory_equal(&away->each[0], &untouched, sizeof untouched);
    assert_memory_equal(&away->each[2], &untouched, sizeof untouched);
    assert_int_equal(away->each[1].outcome, WEIR_ALLOW);
    assert_int_equal(away->each[1].remaining, 1);
    weir_contract_fall_back(away->contract, &away->shared, 7, away->outages, true, AT, away->each);
    assert_int_equal(away->each[0].remaining, 100);
    assert_int_equal(away->each[1].remaining, 1);
    close_away(away);
}

static void retries_and_refusals_count_as_the_limit_says(void **state)
{
    (void)state;
    struct away *away = open_limit("key: [], algorithm: sliding-log, rate: 4/h, retries: { free-within: 60s }, "
                                   "when-store-fails: { local: 1/2 }");
    assert_int_equal(falls_back(away, "request-id=r", 1, 1, AT, AT).outcome, WEIR_ALLOW);
    struct weir_decision again = falls_back(away, "request-id=r", 1, 1, AT, AT);
    assert_int_equal(again.outcome, WEIR_DUPLICATE);
    assert_int_equal(again.policy, WEIR_POLICY_LOCAL);
    assert_int_equal(again.remaining, 1);
    close_away(away);

    away = open_limit("key: [], rate: 1/s, burst: 10, refused: charged, when-store-fails: { local: 1/1 }");
    assert_int_equal(takes(away, "", 1, AT, AT + 2 * SEC), 2); /* and one refusal, charged */
    assert_int_equal(falls_back(away, "", 1, 1, AT, AT + 3 * SEC).outcome, WEIR_DENY);
    close_away(away);
}

/* ---- The bound ------------------------------------------------------------------------------------------------------------------ */

/*
 * P39: over outages of a total length X one process lets through at most B_f + r_f X, however often the store comes and goes and
 * whatever is asked. B_f = floor(B * share), r_f = r * share; times are in ms, so that everything is a whole number.
 */
static void flapping(uint64_t seed, uint64_t count, uint64_t burst, unsigned share, unsigned share_of)
{
    struct random random = { seed };
    char fields[200];
    snprintf(fields, sizeof fields, "key: [t], rate: %llu/s, burst: %llu, when-store-fails: { local: %u/%u }",
             (unsigned long long)count, (unsigned long long)burst, share, share_of);
    struct away *away = open_limit(fields);
    uint64_t admitted = 0, away_ms = 0, at_ms = 1000;
    uint64_t room = burst * share / share_of;
    for (uint64_t number = 1; number <= 60; number++) {
        at_ms += random_below(&random, 3) == 0 ? random_below(&random, 100000) : random_below(&random, 30);
        uint64_t length =
            random_below(&random, 3) == 0 ? random_below(&random, 20000) : random_below(&random, 50);
        uint64_t began_ms = at_ms;
        for (int i = 0; i < 20; i++) {
            uint64_t now_ms = began_ms + random_below(&random, length + 1),
                     cost = random_below(&random, room + 2);
            if (falls_back(away, "t=a", cost, number, began_ms * MS, now_ms * MS).outcome == WEIR_ALLOW)
                admitted += cost;
        }
        at_ms = began_ms + length;
        away_ms += length;
        /* admitted <= B_f + r_f X, in thousandths of share_of */
        if (admitted * 1000 * share_of > room * 1000 * share_of + count * share * away_ms)
            fail_msg("seed %llu: %llu admitted in %llu ms", (unsigned long long)seed,
                     (unsigned long long)admitted, (unsigned long long)away_ms);
    }
    assert_true(room == 0 || count == 0 || admitted > 0);
    close_away(away);
}

static void P39_a_store_that_comes_and_goes_mints_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct random random = { seed };
        unsigned share_of = (unsigned)random_below(&random, 8) + 1;
        flapping(seed, random_below(&random, 200), random_below(&random, 100),
                 (unsigned)random_below(&random, share_of) + 1, share_of);
    }
}

/* ---- Reload ---------------------------------------------------------------------------------------------------------------------- */

static void reload(struct away *away, const char *fields, weir_ns now)
{
    char text[1024];
    struct weir_diagnostics *diagnostics;
    snprintf(text, sizeof text, "weir: 1\nlimits:\n - { name: a, scope: fleet, %s }\n", fields);
    assert_int_equal(
        weir_contract_reload(away->contract, text, strlen(text), "t.yaml", now, NULL, &diagnostics), 0);
    weir_diagnostics_free(diagnostics);
}

#define LOG(count, fails) "key: [], algorithm: sliding-log, rate: " count "/h, when-store-fails: " fails
#define QUARTER "{ local: 1/4 }"

static void shares_go_on_over_a_reload(void **state)
{
    (void)state;
    struct away *away = open_limit(LOG("40", QUARTER));
    assert_int_equal(takes(away, "", 1, AT, AT), 10);
    reload(away, LOG("80", QUARTER), AT);
    weir_contract_quiesce(away->contract, AT);
    assert_int_equal(takes(away, "", 1, AT, AT), 10); /* 20, and 10 were used */
    reload(away, LOG("80", "closed"), AT);
    weir_contract_quiesce(away->contract, AT);
    assert_int_equal(falls_back(away, "", 1, 1, AT, AT).outcome, WEIR_REFUSED);
    reload(away, LOG("80", QUARTER), AT);
    weir_contract_quiesce(away->contract, AT);
    assert_int_equal(falls_back(away, "", 1, 1, AT, AT).policy, WEIR_POLICY_LOCAL);
    weir_contract_retire(away->contract);
    close_away(away);
}

#define BUCKET(fields, fails) "key: [t], rate: 4/s, burst: 400, " fields "when-store-fails: " fails

/* What a reload makes anew is empty from then on, or each reload would mint what flowed in since the outage began. */
static void a_reload_mints_nothing(void **state)
{
    (void)state;
    struct away *away = open_limit(BUCKET("", QUARTER));
    assert_int_equal(takes(away, "t=a", 1, AT, AT + 10 * SEC), 10);
    for (weir_ns second = 10; second < 20; second++) {
        char fields[300];
        snprintf(fields, sizeof fields, BUCKET("overrides: [{ key: { t: a }, rate: %u/s }], ", QUARTER),
                 (unsigned)second % 2 * 4 + 4);
        reload(away, fields, AT + second * SEC);
        weir_contract_quiesce(away->contract, AT + second * SEC);
        assert_int_equal(takes(away, "t=a", 1, AT, AT + second * SEC), 0);
        uint64_t flowed = second % 2 + 1; /* in a second: a quarter of 4/s or of 8/s */
        assert_int_equal(takes(away, "t=a", 1, AT, AT + second * SEC + SEC), flowed);
    }
    close_away(away);
}

/* A request that was asked under the old rules is answered by the shares in force. */
static void a_reload_in_between(void **state)
{
    (void)state;
    struct away *away = open_limit(LOG("40", QUARTER));
    asks(away, "", 1);
    away->outages[0] = (struct weir_outage){ AT, 1 };
    reload(away, LOG("80", QUARTER), AT); /* not quiesced: the old rules are in use */
    for (int i = 0; i < 30; i++) {
        weir_contract_fall_back(away->contract, &away->shared, 1, away->outages, false, AT, away->each);
        assert_int_equal(away->each[0].outcome, i < 20 ? WEIR_ALLOW : WEIR_DENY);
        assert_int_equal(away->each[0].policy, WEIR_POLICY_LOCAL);
    }
    weir_contract_quiesce(away->contract, AT);
    asks(away, "", 1);
    reload(away, LOG("80", "open"), AT); /* it has no share any more: closed is the stricter */
    weir_contract_fall_back(away->contract, &away->shared, 1, away->outages, false, AT, away->each);
    assert_int_equal(away->each[0].outcome, WEIR_REFUSED);
    weir_contract_quiesce(away->contract, AT);
    close_away(away);
}

/* All or nothing also where one of the shares is gone. */
static void a_share_that_a_reload_took_away(void **state)
{
    (void)state;
    static const char before[] =
        "weir: 1\nlimits:\n"
        " - { name: x, key: [], algorithm: sliding-log, rate: 40/h, scope: fleet, when-store-fails: "
        "{ local: 1/4 } }\n"
        " - { name: y, key: [], algorithm: sliding-log, rate: 40/h, scope: fleet, when-store-fails: "
        "{ local: 1/4 } }\n";
    static const char after[] =
        "weir: 1\nlimits:\n"
        " - { name: y, key: [], algorithm: sliding-log, rate: 40/h, scope: fleet, when-store-fails: { "
        "local: 1/4 } }\n";
    struct away *away = open_text(before, 0);
    asks(away, "", 1);
    away->outages[0] = away->outages[1] = (struct weir_outage){ AT, 1 };
    assert_int_equal(weir_contract_reload(away->contract, after, strlen(after), "t.yaml", AT, NULL, NULL), 0);
    for (int i = 0; i < 20; i++) {
        weir_contract_fall_back(away->contract, &away->shared, 3, away->outages, false, AT, away->each);
        assert_int_equal(away->each[0].outcome, WEIR_REFUSED);
        assert_int_equal(away->each[1].outcome, WEIR_ALLOW);
        assert_int_equal(away->each[1].limit, 1); /* in the words of the question */
    }
    weir_contract_quiesce(away->contract, AT);
    assert_int_equal(takes(away, "", 1, AT, AT), 10);
    close_away(away);
}

/* The first limit with a share may come with a reload. */
static void the_first_share_comes_with_a_reload(void **state)
{
    (void)state;
    struct away *away = open_limit(BUCKET("", "closed"));
    reload(away, BUCKET("", QUARTER), AT + 5 * SEC);
    weir_contract_quiesce(away->contract, AT + 5 * SEC);
    assert_int_equal(takes(away, "t=a", 1, AT, AT + 5 * SEC), 0);
    assert_int_equal(takes(away, "t=a", 1, AT, AT + 7 * SEC), 2);
    close_away(away);
}

/* ---- Calls that know of no store ---------------------------------------------------------------------------------------------- */

static void as_if_the_store_were_away(void **state)
{
    (void)state;
    static const char text[] =
        "weir: 1\nlimits:\n"
        " - { name: here, key: [], rate: 1/h, burst: 9, wait: { up-to: 1h, queue: 9 } }\n"
        " - { name: permits, key: [], algorithm: concurrency, at-most: 9, hold: 1h }\n"
        " - { name: open, key: [], rate: 1/s, burst: 9, scope: fleet, when-store-fails: { open: 30s } }\n"
        " - { name: share, key: [], rate: 4/s, burst: 40, scope: fleet, when-store-fails: { local: 1/4 } }\n";
    struct away *away = open_text(text, 0);
    struct weir *limiter = weir_contract_limiter(away->contract);
    struct weir_answer answer;
    struct weir_reservation ticket;
    struct weir_permit permit;
    struct weir_settlement settlement;
    struct weir_waiter_part parts[8];
    struct weir_waiter waiter = { .parts = parts, .part_room = 8 };
    struct weir_request request = { .cost = 1, .wait = WEIR_HOUR };

    assert_int_equal(weir_contract_decide(away->contract, &request, 0, &answer), 0);
    assert_int_equal(answer.decision.outcome, WEIR_DENY); /* the share began empty with the contract */
    assert_int_equal(answer.decision.limit, 3);
    assert_int_equal(answer.decision.policy, WEIR_POLICY_LOCAL);
    assert_int_equal(answer.count, 4);
    assert_int_equal(answer.each[0].remaining, 9); /* undone */

    assert_int_equal(weir_contract_reserve(away->contract, &request, SEC, SEC, &answer, &ticket), 0);
    assert_int_equal(answer.decision.outcome, WEIR_UNMETERED);
    assert_int_not_equal(ticket.len, 0);
    assert_int_equal(weir_cancel(limiter, ticket.bytes, ticket.len, SEC, &settlement), 0);
    assert_int_equal(settlement.returned, 1);

    assert_int_equal(weir_contract_acquire(away->contract, &request, 2 * SEC, &answer, &permit), 0);
    assert_int_not_equal(permit.len, 0);
    assert_int_equal(answer.each[1].remaining, 8);
    assert_int_equal(weir_contract_acquire(away->contract, &request, 2 * SEC, &answer, &permit), 0);
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(permit.len, 0);
    assert_int_equal(answer.each[1].remaining, 8); /* returned */

    assert_int_equal(weir_contract_wait(away->contract, &request, 3 * SEC, &waiter, &answer), 0);
    assert_int_equal(answer.decision.outcome, WEIR_UNMETERED);
    assert_int_equal(weir_contract_wait(away->contract, &request, 3 * SEC, &waiter, &answer), 0);
    assert_int_equal(answer.decision.outcome, WEIR_DENY); /* nobody waits for a share */

    assert_int_equal(weir_contract_decide(away->contract, &request, 30 * SEC, &answer), 0);
    assert_int_equal(answer.decision.outcome, WEIR_REFUSED);
    assert_int_equal(answer.decision.limit, 2);

    assert_int_equal(weir_contract_refund(away->contract, &request, 30 * SEC, &settlement), 0);
    assert_int_equal(settlement.limit, 0); /* of this process alone */
    close_away(away);
}

static void a_reset_forgets_the_share_too(void **state)
{
    (void)state;
    struct away *away =
        open_limit("key: [t], algorithm: sliding-log, rate: 8/h, when-store-fails: { local: 1/4 }");
    struct weir_attribute key = { "t", "a", 0 };
    assert_int_equal(takes(away, "t=a", 1, AT, AT), 2);
    assert_int_equal(weir_contract_reset(away->contract, "a", &key, 1, NULL), 0);
    assert_int_equal(takes(away, "t=a", 1, AT, AT), 2);
    close_away(away);
}

/* ---- Out of memory ----------------------------------------------------------------------------------------------------------- */

struct faulty {
    size_t left, live;
};

static void *faulty_allocate(void *context, size_t size, size_t alignment)
{
    struct faulty *faulty = context;
    if (faulty->left == 0)
        return NULL;
    faulty->left--;
    faulty->live++;
    void *memory = aligned_alloc(alignment < 64 ? 64 : alignment, (size + 63) & ~(size_t)63);
    assert_non_null(memory);
    memset(memory, 0, size);
    return memory;
}

static void faulty_release(void *context, void *memory, size_t size)
{
    (void)size;
    ((struct faulty *)context)->live--;
    free(memory);
}

static const char lean[] =
    "weir: 1\nmemory: { keys: 64, log-stamps: 64, permits: 64 }\nlimits:\n"
    " - { name: a, key: [t], rate: 4/s, burst: 400, overrides: [{ key: { t: b }, burst: 9 }], scope: "
    "fleet, when-store-fails: { local: 1/4 } }\n"
    " - { name: w, key: [t], algorithm: fixed-window, rate: 4/s, overrides: [{ key: { t: b }, rate: 9/s }], "
    "scope: fleet, when-store-fails: { local: 1/4 } }\n";

/* Whichever allocation of a load fails, it fails whole; whichever of a reload does, something whole is in force. */
static void survives_each_failed_allocation(void **state)
{
    (void)state;
    bool is_done = false;
    for (size_t allowed = 0; !is_done; allowed++) {
        struct faulty faulty = { .left = allowed };
        struct weir_allocator allocator = { faulty_allocate, faulty_release, &faulty };
        const struct weir_contract_options options = {
            .has_wall_offset = true, .allocator = &allocator, .fleet = WEIR_FLEET_SHARED, .has_store = true
        };
        struct loaded loaded = contract_with(lean, strlen(lean), &options);
        assert_true(loaded.error == 0 || loaded.error == WEIR_ERR_MEMORY);
        is_done = loaded.error == 0;
        loaded_free(&loaded);
        assert_int_equal(faulty.live, 0);
        assert_true(allowed < 1000);
    }
    is_done = false;
    for (size_t allowed = 0; !is_done; allowed++) {
        struct faulty faulty = { .left = SIZE_MAX };
        struct weir_allocator allocator = { faulty_allocate, faulty_release, &faulty };
        const struct weir_contract_options options = {
            .has_wall_offset = true, .allocator = &allocator, .fleet = WEIR_FLEET_SHARED, .has_store = true
        };
        static const char before[] = "weir: 1\nmemory: { keys: 64, log-stamps: 64, permits: 64 }\nlimits: []\n";
        struct away *away = calloc(1, sizeof *away);
        struct loaded loaded = contract_with(before, strlen(before), &options);
        assert_int_equal(loaded.error, 0);
        away->contract = loaded.contract;
        faulty.left = allowed;
        int error = weir_contract_reload(loaded.contract, lean, strlen(lean), "t.yaml", AT, NULL, NULL);
        faulty.left = SIZE_MAX;
        assert_true(error == 0 || error == WEIR_ERR_MEMORY);
        if (error == 0) {
            /* The shares alone may be missing: then they are closed. */
            enum weir_outcome outcome = falls_back(away, "t=b", 1, 1, AT, AT + 8 * SEC).outcome;
            is_done = outcome == WEIR_ALLOW;
            assert_true(is_done || outcome == WEIR_REFUSED);
        }
        weir_contract_quiesce(loaded.contract, AT);
        free(away);
        loaded_free(&loaded);
        assert_int_equal(faulty.live, 0);
        assert_true(allowed < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies),
        cmocka_unit_test(nobody_dates_the_outage),
        cmocka_unit_test(keys_that_are_not_counted),
        cmocka_unit_test(sizes_of_shares),
        cmocka_unit_test(shares_too_slow_to_be_kept),
        cmocka_unit_test(buckets_begin_empty_with_each_outage),
        cmocka_unit_test(windows_and_logs_keep_their_counts),
        cmocka_unit_test(a_calendar_follows_the_wall),
        cmocka_unit_test(all_or_nothing),
        cmocka_unit_test(some_of_the_questions),
        cmocka_unit_test(retries_and_refusals_count_as_the_limit_says),
        cmocka_unit_test(P39_a_store_that_comes_and_goes_mints_nothing),
        cmocka_unit_test(shares_go_on_over_a_reload),
        cmocka_unit_test(a_reload_mints_nothing),
        cmocka_unit_test(a_reload_in_between),
        cmocka_unit_test(a_share_that_a_reload_took_away),
        cmocka_unit_test(the_first_share_comes_with_a_reload),
        cmocka_unit_test(as_if_the_store_were_away),
        cmocka_unit_test(a_reset_forgets_the_share_too),
        cmocka_unit_test(survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
