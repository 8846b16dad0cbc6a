// SPDX-License-Identifier: Apache-2.0
/* test_scope.c - what a contract says of budgets that a fleet shares: words, what goes together, sizes in a store's ticks. */
#include "support/contracts.h"
#include "support/unit.h"

static struct loaded load(const char *text, enum weir_fleet fleet, bool has_store)
{
    const struct weir_contract_options options = {
        .keys = 64, .has_wall_offset = true, .fleet = fleet, .has_store = has_store
    };
    return contract_with(text, strlen(text), &options);
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
        char text[2048], errors[3000];
        snprintf(text, sizeof text, "weir: 1\nlimits:\n - {name: a, %s}\n", rows[i].fields);
        struct loaded loaded = load(text, WEIR_FLEET_ALONE, false);
        join(&loaded, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s: {%s}\ngot  %s\nwant %s", rows[i].why, rows[i].fields, errors, rows[i].errors);
        assert_int_equal(loaded.error, errors[0] == '\0' ? 0 : WEIR_ERR_CONTRACT);
        loaded_free(&loaded);
    }
}

#define BUCKET "key: [tenant], missing-key: share, rate: 5/s, burst: 20"
#define SHARED BUCKET ", scope: fleet"

#define SHARE_CURE \
    "write the part of the budget that each replica may spend by itself: with four replicas `{ local: 1/4 }`"
#define FAILS_CURE \
    "say what happens while the store cannot be had: `closed`, `open`, `{ open: 30s }`, `{ local: 1/4 }` or, " \
    "with a lease, `leased`"

static void words(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "closed", SHARED ", when-store-fails: closed", "" },
        { "open", SHARED ", when-store-fails: open", "" },
        { "open for a time", SHARED ", when-store-fails: { open: 30s }", "" },
        { "a share", SHARED ", when-store-fails: { local: 1/4 }", "" },
        { "the whole is a share", SHARED ", when-store-fails: { local: 1/1 }", "" },
        { "the smallest share", SHARED ", when-store-fails: { local: 1/65535 }", "" },
        { "it has no default", SHARED, "{: when-store-fails is missing for limit 'a' => " FAILS_CURE },
        { "a process cannot lose its store", BUCKET ", when-store-fails: closed",
          "closed: when-store-fails closed of limit 'a' means nothing without `scope: fleet`: a process counts "
          "in its own "
          "memory, which cannot fail apart => remove it, or write `scope: fleet`" },
        { "a word that is near", SHARED ", when-store-fails: close",
          "close: when-store-fails close of limit 'a' is not a word that this field knows => did you mean "
          "'closed'?" },
        { "a word that is not", SHARED ", when-store-fails: maybe",
          "maybe: when-store-fails maybe of limit 'a' is not a word that this field knows => " FAILS_CURE },
        { "local without its part", SHARED ", when-store-fails: local",
          "local: when-store-fails local of limit 'a' does not say how much of the budget => " SHARE_CURE },
        { "a list", SHARED ", when-store-fails: [closed]",
          "[: when-store-fails of limit 'a' is a list, not one value => " FAILS_CURE },
        { "an empty map", SHARED ", when-store-fails: {}",
          "{: when-store-fails of limit 'a' is empty => " FAILS_CURE },
        { "both", SHARED ", when-store-fails: { open: 30s, local: 1/4 }",
          "{: when-store-fails of limit 'a' says both `open` and `local` => keep one of the two" },
        { "a field that is none", SHARED ", when-store-fails: { closed: 30s }",
          "closed: unknown field 'closed' in the when-store-fails of limit 'a' => the fields are open, local" },
        { "no time to be open", SHARED ", when-store-fails: { open: 0s }",
          "0s: open 0s of the when-store-fails of limit 'a' is too short => write a length of time from 1 ms "
          "to 10 years" },
        { "a bare number is no time", SHARED ", when-store-fails: { open: 30 }",
          "30: open 30 of the when-store-fails of limit 'a' has no unit: a bare number is no length of time => "
          "write a length of time such as "
          "200ms, 5s, "
          "15m, 1h, 7d or 1m30s, from 1 ms to 10 years" },
    };
    check(rows, COUNT_OF(rows));
}

#define BAD_SHARE(share, problem) \
    share ": local " share " of the when-store-fails of limit 'a' " problem " => " SHARE_CURE

static void shares(void **state)
{
    (void)state;
    static const struct {
        const char *why, *share, *error;
    } rows[] = {
        { "a percentage", "25%", BAD_SHARE("25%", "is not a part such as 1/4") },
        { "a decimal", "0.25", BAD_SHARE("0.25", "is not a part such as 1/4") },
        { "no denominator", "1/", BAD_SHARE("1/", "is not a part such as 1/4") },
        { "no numerator", "/4", BAD_SHARE("/4", "is not a part such as 1/4") },
        { "a leading zero", "01/4", BAD_SHARE("01/4", "is not a part such as 1/4") },
        { "a sign", "-1/4", BAD_SHARE("-1/4", "is not a part such as 1/4") },
        { "three parts", "1/2/4", BAD_SHARE("1/2/4", "is not a part such as 1/4") },
        { "nothing", "0/4", BAD_SHARE("0/4", "is nothing: that is `closed`") },
        { "a part of nothing", "1/0", BAD_SHARE("1/0", "is more than the whole") },
        { "more than the whole", "5/4", BAD_SHARE("5/4", "is more than the whole") },
        { "too fine", "1/65536", BAD_SHARE("1/65536", "is a part of more than 65535") },
        { "too large for a number", "1/99999999999999999999",
          BAD_SHARE("1/99999999999999999999", "is not a part such as 1/4") },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char fields[300];
        snprintf(fields, sizeof fields, SHARED ", when-store-fails: { local: %s }", rows[i].share);
        check(&(struct row){ rows[i].why, fields, rows[i].error }, 1);
    }
}

#define FLEET ", scope: fleet, when-store-fails: closed"
#define QUEUE "cannot be shared by a fleet: a queue stands in one process => "

static void what_a_store_has_not(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "nobody waits in a store", BUCKET FLEET ", wait: { up-to: 2s, queue: 10 }",
          "{: wait of limit 'a' " QUEUE
          "remove it, or let callers wait for a limit with `scope: process` beside this one" },
        { "that nobody waits may be said", BUCKET FLEET ", wait: never", "" },
        { "a leaky queue is a queue",
          "key: [], algorithm: leaky-queue, rate: 5/s, wait: { up-to: 2s, queue: 10 }" FLEET,
          "leaky-queue: algorithm leaky-queue of limit 'a' " QUEUE
          "write `algorithm: leaky-bucket` with `burst: 1`, or a "
          "leaky-queue with `scope: process` beside" },
        { "a store has no table", BUCKET FLEET ", when-full: evict-least",
          "evict-least: when-full evict-least of limit 'a' means nothing with `scope: fleet`: its keys are in "
          "no table of "
          "ours => remove it: a store that is full counts as away" },
        { "the default may be written", BUCKET FLEET ", when-full: overflow", "" },
        { "a share of permits",
          "key: [], algorithm: concurrency, at-most: 4, hold: 30s, scope: fleet, when-store-fails: "
          "{ local: 1/4 }",
          "{: when-store-fails of limit 'a' cannot be `local` for a concurrency limit: a permit given by one "
          "replica alone "
          "could not be returned at another => write `closed` or `open`" },
        { "all else that a contract can say",
          BUCKET FLEET
          ", refused: charged, retries: { free-within: 60s }, debt: 20, cost: { from: tokens }, enforce: 10%, "
          "when-state-lost: empty, overrides: [{ key: { tenant: b }, burst: 9 }, { key: { tenant: c }, "
          "unlimited: true }]",
          "" },
        { "permits", "key: [], algorithm: concurrency, at-most: 4, hold: 30s" FLEET, "" },
        { "a calendar", "key: [], algorithm: fixed-window, rate: 10/month, align: calendar Europe/Berlin" FLEET,
          "" },
        { "a window from the first request",
          "key: [], algorithm: fixed-window, rate: 10/m, align: first-request" FLEET, "" },
        { "several mistakes are told in one run",
          BUCKET ", scope: fleet, when-full: open, wait: { up-to: 1s, queue: 1 }",
          "{: when-store-fails is missing for limit 'a' => " FAILS_CURE
          " | open: when-full open of limit 'a' means nothing with `scope: fleet`: its keys are in no table of "
          "ours => "
          "remove it: a store that is full counts as away | {: wait of limit 'a' " QUEUE
          "remove it, or let callers wait for a limit with `scope: process` beside this one" },
    };
    check(rows, COUNT_OF(rows));
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------------- */

#define US WEIR_MICROSECOND
#define MS WEIR_MILLISECOND

/* Asks for one key; gives the size that the store is told. */
static struct weir_shared_size size_of(const char *fields, const char *tenant)
{
    static struct weir_shared shared;
    char text[1024];
    snprintf(text, sizeof text, "weir: 1\nlimits:\n - {name: a, key: [tenant], %s}\n", fields);
    struct loaded loaded = load(text, WEIR_FLEET_SHARED, true);
    if (loaded.error != 0)
        fail_msg("%s does not load: %s", fields, loaded.printed);
    struct weir_attribute attribute = { "tenant", tenant, 0 };
    struct weir_request request = { .attributes = &attribute, .attribute_count = 1, .cost = 1 };
    assert_int_equal(weir_contract_shared(loaded.contract, &request, &shared), 0);
    assert_int_equal(shared.count, 1);
    assert_memory_equal(shared.asks[0].key + 2, tenant, strlen(tenant));
    struct weir_shared_size size = shared.asks[0].size;
    loaded_free(&loaded);
    return size;
}

/* Expected by hand: (burst + debt) * period + count + period < 2^52 = 4,503,599,627,370,496 with `count` per `period` ticks. */
static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *why, *fields;
        struct weir_shared_size size;
    } rows[] = {
        { "5/s is one per 200,000 us", "rate: 5/s, burst: 20", { US, 20, 0, 1, 200000, false } },
        { "7/s has nothing in common with its period",
          "rate: 7/s, burst: 20",
          { US, 20, 0, 7, 1000000, false } },
        { "100/15m is one per 9 s", "rate: 100/15m, burst: 1", { US, 1, 0, 1, 9000000, false } },
        { "faster than the tick: 3,000,000 a second are 3 per us",
          "rate: 3000000/1s, burst: 7",
          { US, 7, 0, 3, 1, false } },
        { "debt", "rate: 5/s, burst: 20, debt: 7", { US, 20, 7, 1, 200000, false } },
        { "nothing comes back", "rate: 0/1d, burst: 20", { US, 20, 0, 0, 1, false } },
        { "a large burst of a coprime rate still fits us: 52,123 of it",
          "rate: 1000003/1d, burst: 52123",
          { US, 52123, 0, 1000003, 86400000000, false } },
        { "one more does not, and counts in ms: 1,000,003 per 86,400,000",
          "rate: 1000003/1d, burst: 52124",
          { MS, 52124, 0, 1000003, 86400000, false } },
        { "refusals that are charged need twice the burst: 2 * 26,062 is beyond us",
          "rate: 1000003/1d, burst: 26062, refused: charged",
          { MS, 26062, 0, 1000003, 86400000, false } },
        { "a fixed window multiplies nothing",
          "algorithm: fixed-window, rate: 4503599627370495/520w",
          { US, UINT64_C(4503599627370495), 0, 0, UINT64_C(314496000000000), false } },
        { "a calendar has no length",
          "algorithm: fixed-window, rate: 10/month, align: calendar UTC",
          { US, 10, 0, 0, 0, false } },
        { "a sliding window: 1,250,999 * 3,600,000,000 < 2^52",
          "algorithm: sliding-window, rate: 1250999/1h",
          { US, 1250999, 0, 0, UINT64_C(3600000000), false } },
        { "1,251,000 is not",
          "algorithm: sliding-window, rate: 1251000/1h",
          { MS, 1251000, 0, 0, 3600000, false } },
        { "half of it, where refusals are charged",
          "algorithm: sliding-window, rate: 625500/1h, refused: charged",
          { MS, 625500, 0, 0, 3600000, false } },
        { "a log", "algorithm: sliding-log, rate: 100/7s", { US, 100, 0, 0, 7000000, false } },
        { "permits", "algorithm: concurrency, at-most: 9, hold: 1500us", { US, 9, 0, 0, 1500, false } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char fields[400];
        snprintf(fields, sizeof fields, "%s" FLEET, rows[i].fields);
        struct weir_shared_size size = size_of(fields, "b");
        expect_row(size.tick == rows[i].size.tick, rows[i].why);
        expect_row(size.capacity == rows[i].size.capacity, rows[i].why);
        expect_row(size.debt == rows[i].size.debt, rows[i].why);
        expect_row(size.count == rows[i].size.count, rows[i].why);
        expect_row(size.period == rows[i].size.period, rows[i].why);
        expect_row(!size.is_unlimited, rows[i].why);
    }
}

static void sizes_of_their_own(void **state)
{
    (void)state;
    static const char fields[] =
        "rate: 7/s, burst: 20, overrides: [{key: {tenant: big}, burst: 50}, {key: {tenant: slow}, "
        "rate: 1/s}, {key: {tenant: free}, unlimited: true}]" FLEET;
    struct weir_shared_size size = size_of(fields, "big");
    assert_int_equal(size.capacity, 50);
    assert_int_equal(size.count, 7);
    size = size_of(fields, "slow");
    assert_int_equal(size.capacity, 20);
    assert_int_equal(size.count, 1);
    assert_int_equal(size.period, 1000000);
    assert_true(size_of(fields, "free").is_unlimited);
    assert_int_equal(size_of(fields, "else").capacity, 20);
}

#define BELOW "for a store, which counts exactly below 2^52 only: "

static void sizes_that_fit_no_tick(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* (2^52 - 1 - 1,000,003 - 86,400,000) / 86,400,000 = 52,124,994.4... */
        { "the largest burst of this rate in ms", "key: [], rate: 1000003/1d, burst: 52124994" FLEET, "" },
        { "one more", "key: [], rate: 1000003/1d, burst: 52124995" FLEET,
          "52124995: burst 52124995 of limit 'a' is too large " BELOW
          "this rate allows 52124994, and burst and debt are 52124995 and 0 => lower burst and debt to "
          "52124994 together, or "
          "take a rate whose count and period have more in common" },
        { "debt counts", "key: [], rate: 1000003/1d, burst: 52124994, debt: 1" FLEET,
          "52124994: burst 52124994 of limit 'a' is too large " BELOW
          "this rate allows 52124994, and burst and debt are 52124994 and 1 => lower burst and debt to "
          "52124994 together, or "
          "take a rate whose count and period have more in common" },
        { "a charged refusal counts the burst twice",
          "key: [], rate: 1000003/1d, burst: 26062498, refused: charged" FLEET,
          "26062498: burst 26062498 of limit 'a' is too large " BELOW
          "this rate allows 52124994, and burst and debt are 26062498 and 0 => lower burst and debt to "
          "52124994 together (with "
          "`refused: charged` the burst counts twice), or take a rate whose count and period have more in "
          "common" },
        /* (2^52 - 1) / 604,800,000 = 7,446,427.6... */
        { "the largest sliding window of a week", "key: [], algorithm: sliding-window, rate: 7446427/7d" FLEET,
          "" },
        { "one more", "key: [], algorithm: sliding-window, rate: 7446428/7d" FLEET,
          "7446428/7d: rate 7446428/7d of limit 'a' is too large " BELOW
          "this period allows 7446427 => lower the count to 7446427, shorten the period, or take a "
          "token-bucket" },
        { "a fixed window counts below 2^52",
          "key: [], algorithm: fixed-window, rate: 4503599627370496/520w" FLEET,
          "4503599627370496/520w: rate 4503599627370496/520w of limit 'a' is too large " BELOW
          "this period allows 4503599627370495 => lower the count to 4503599627370495" },
        { "half a microsecond", "key: [], algorithm: concurrency, at-most: 1, hold: 1000500ns" FLEET,
          "1000500ns: hold 1000500ns of limit 'a' is no whole number of microseconds, which a store counts in "
          "=> write whole "
          "microseconds, such as 30s" },
        { "an override's",
          "key: [tenant], missing-key: share, rate: 1000003/1d, burst: 1, overrides: [{key: {tenant: b}, "
          "burst: 99124995}]" FLEET,
          "99124995: burst 99124995 of an override of limit 'a' is too large " BELOW
          "this rate allows 52124994, and burst and debt are 99124995 and 0 => lower burst and debt to "
          "52124994 together, or "
          "take a rate whose count and period have more in common" },
    };
    check(rows, COUNT_OF(rows));
}

/* ---- Who counts ---------------------------------------------------------------------------------------------------------- */

static void who_counts(void **state)
{
    (void)state;
    static const char with_url[] =
        "weir: 1\nstore: { url: \"redis://127.0.0.1:6379\" }\nlimits:\n - {name: b, key: [], rate: "
        "1/s, burst: 1}\n - {name: a, " SHARED ", when-store-fails: closed}\n";
    static const char without[] =
        "weir: 1\nlimits:\n - {name: a, " SHARED ", when-store-fails: closed}\n - {name: c, " SHARED
        ", when-store-fails: closed}\n";
    static const char none[] = "weir: 1\nlimits:\n - {name: a, " BUCKET "}\n";
    static const char nobody[] =
        "fleet: scope fleet of limit 'a' needs a store that all processes share: this program would count for "
        "itself alone "
        "=> have the program serve it: `weir serve --store redis://HOST`; or write `scope: process`";
    static const char nowhere[] = "fleet: scope fleet of limit 'a' needs a store, and nobody says where it is "
                                  "=> say where it is: `weir serve --store "
                                  "redis://HOST`, WEIR_STORE, or `store: { url: ... }`; read at the start only";
    static const struct {
        const char *why, *text;
        enum weir_fleet fleet;
        bool has_store;
        const char *errors;
    } rows[] = {
        { "B59: a program of one process would give each its own budget", without, WEIR_FLEET_NONE, false,
          nobody },
        { "a store in the contract does not help such a program", with_url, WEIR_FLEET_NONE, false, nobody },
        { "virtual time stands for the fleet", without, WEIR_FLEET_ALONE, false, "" },
        { "a server that was told nothing; said once", without, WEIR_FLEET_SHARED, false, nowhere },
        { "a server whose contract says it", with_url, WEIR_FLEET_SHARED, false, "" },
        { "a server that was told", without, WEIR_FLEET_SHARED, true, "" },
        { "a contract without such limits needs nothing", none, WEIR_FLEET_NONE, false, "" },
        { "nor at a server", none, WEIR_FLEET_SHARED, false, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char errors[2000];
        struct loaded loaded = load(rows[i].text, rows[i].fleet, rows[i].has_store);
        join(&loaded, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s\ngot  %s\nwant %s", rows[i].why, errors, rows[i].errors);
        if (loaded.error == 0)
            expect_row(weir_contract_has_shared(loaded.contract) == (rows[i].text != none), rows[i].why);
        loaded_free(&loaded);
    }
}

#define URL_CURE \
    "write where it is: redis://127.0.0.1:6379, rediss://, redis+unix:///PATH, " \
    "redis+sentinel://H1:P,H2:P/NAME or " \
    "redis+cluster://H1:P,H2:P"
#define DEADLINE_CURE "write a length of time from 1 ms to 10 s"

static void the_store(void **state)
{
    (void)state;
    static const struct {
        const char *why, *store, *errors, *url;
        weir_ns deadline;
    } rows[] = {
        { "nothing", "", "", NULL, 5 * MS },
        { "where", "store: { url: \"redis://u:p@h:1/2\" }", "", "redis://u:p@h:1/2", 5 * MS },
        { "how long", "store: { deadline: 20ms }", "", NULL, 20 * MS },
        { "the shortest", "store: { url: redis+unix:///run/r.sock, deadline: 1ms }", "",
          "redis+unix:///run/r.sock", MS },
        { "the longest", "store: { deadline: 10s }", "", NULL, 10 * WEIR_SECOND },
        { "Sentinel", "store: { url: \"redis+sentinel://a:1,b:2/main\" }", "", "redis+sentinel://a:1,b:2/main",
          5 * MS },
        { "Cluster with TLS", "store: { url: \"rediss+cluster://a:1,b:2\" }", "", "rediss+cluster://a:1,b:2",
          5 * MS },
        { "too short", "store: { deadline: 999us }",
          "999us: deadline 999us of store is too short => " DEADLINE_CURE, NULL, 0 },
        { "too long", "store: { deadline: 10001ms }",
          "10001ms: deadline 10001ms of store is too long => " DEADLINE_CURE, NULL, 0 },
        { "a scheme that is none", "store: { url: http://h }",
          "http://h: url of store is no address of a store => " URL_CURE, NULL, 0 },
        { "a port that is none", "store: { url: \"redis://:x@127.0.0.1:777701\" }",
          "\"redis://**@127.0.0.1:777701\": url of store has a port that is no number from 1 to 65535 => "
          "mend it, or leave the colon out for the usual one",
          NULL, 0 },
        { "no scheme", "store: { url: \"localhost:6379\" }",
          "\"localhost:6379\": url of store is no address of a store => " URL_CURE, NULL, 0 },
        { "empty", "store: { url: \"\" }", "\"\": url of store is empty => " URL_CURE, NULL, 0 },
        { "a field that is none", "store: { uri: redis://h }",
          "uri: unknown field 'uri' in store => did you mean 'url'?", NULL, 0 },
        { "no map", "store: redis://h",
          "redis://h: store redis://h of store is a scalar, not a map of fields => write it as a map of "
          "fields: `url: ...`",
          NULL, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[512], errors[1000];
        snprintf(text, sizeof text, "weir: 1\n%s\nlimits: []\n", rows[i].store);
        struct loaded loaded = load(text, WEIR_FLEET_SHARED, false);
        join(&loaded, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s\ngot  %s\nwant %s", rows[i].why, errors, rows[i].errors);
        if (loaded.error == 0) {
            const struct weir_contract_store *store = weir_contract_store(loaded.contract);
            expect_row((store->url == NULL) == (rows[i].url == NULL), rows[i].why);
            expect_row(store->url == NULL || strcmp(store->url, rows[i].url) == 0, rows[i].why);
            expect_row(store->deadline == rows[i].deadline, rows[i].why);
        }
        loaded_free(&loaded);
    }
}

/* ---- What callers see ---------------------------------------------------------------------------------------------------- */

static void callers_see(void **state)
{
    (void)state;
    static const struct {
        const char *fails, *json;
        enum weir_store_fails word;
        weir_ns open_for;
        uint32_t share, share_of;
    } rows[] = {
        { "closed", "\"when_store_fails\":\"closed\",", WEIR_STORE_CLOSED, 0, 0, 0 },
        { "open", "\"when_store_fails\":\"open\",", WEIR_STORE_OPEN, 0, 0, 0 },
        { "{ open: 1m30s }", "\"when_store_fails\":{\"open\":90},", WEIR_STORE_OPEN, 90 * WEIR_SECOND, 0, 0 },
        { "{ local: 2/8 }", "\"when_store_fails\":{\"local\":\"2/8\"},", WEIR_STORE_LOCAL, 0, 2, 8 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "weir: 1\nlimits:\n - {name: a, key: [tenant, path], rate: 1000003/1d, burst: 60000, "
                 "scope: fleet, when-store-fails: %s}\n",
                 rows[i].fails);
        struct loaded loaded = load(text, WEIR_FLEET_SHARED, true);
        assert_int_equal(loaded.error, 0);
        const struct weir_contract_limit *limit = weir_contract_limit(loaded.contract, 0);
        assert_true(limit->is_shared);
        expect_row(limit->when_store_fails == rows[i].word, rows[i].fails);
        expect_row(limit->open_for == rows[i].open_for, rows[i].fails);
        expect_row(limit->share == rows[i].share && limit->share_of == rows[i].share_of, rows[i].fails);
        assert_string_equal(limit->spec->key_form, "tenant,path");
        assert_int_equal(limit->spec->burst, 60000);
        assert_non_null(strstr(limit->json, "\"scope\":\"fleet\",\"when_store_fails\":"));
        expect_row(strstr(limit->json, rows[i].json) != NULL, rows[i].fails);
        assert_non_null(
            strstr(limit->json, ",\"store_tick\":0.001,")); /* 60,000 of this rate are too many for us */
        loaded_free(&loaded);
    }
}

/* ---- Secrets ----------------------------------------------------------------------------------------------------------- */

/* Findings go to logs and to the pages of a CI. */
static void findings_show_no_password(void **state)
{
    (void)state;
    static const struct {
        const char *why, *store, *shown;
    } rows[] = {
        { "beside a field that is none", "{ url: \"redis://:topsecret@h:1\", deadlin: 5ms }",
          "    store: { url: \"redis://**********@h:1\", deadlin: 5ms }\n"
          "                                            ^~~~~~~\n" },
        { "a star for each character, and columns stay",
          "{ url: \"redis://u:p\xc3\xa4topsecret@h\", deadlin: 5ms }",
          "    store: { url: \"redis://*************@h\", deadlin: 5ms }\n"
          "                                             ^~~~~~~\n" },
        { "under another scheme", "{ url: \"http://u:topsecret@h\" }", "\"http://***********@h\"" },
        { "the @ was forgotten", "{ url: \"redis://:topsecret/\", deadlin: 5ms }", "\"redis://***********\"" },
        { "the same with a user", "{ url: \"redis://u:topsecret\", deadlin: 5ms }", "\"redis://***********\"" },
        { "an @ and a / in it", "{ url: \"redis://:a/@topsecret@h\", deadlin: 5ms }",
          "\"redis://*************@h\"" },
        { "the scheme was forgotten", "{ url: \"u:topsecret@h:1\" }", "\"***********@h:1\"" },
        { "no map: the message shows the value", "redis://:topsecret@h",
          "store redis://**********@h of store" },
        { "the same, cut", "redis://:0123456789012345678901234567890123456789topsecret0123456789@h",
          "store redis://****" },
        { "hosts without a secret are shown", "{ url: \"redis+cluster://a:1,b:2/3\", deadlin: 5ms }",
          "\"redis+cluster://a:1,b:2/3\"" },
        { "addresses, too", "{ url: \"redis://[::1]:6379\", deadlin: 5ms }", "\"redis://[::1]:6379\"" },
        { "an address of a person is none", "{ deadlin: 5ms } # ask ops@example.org", "# ask ops@example.org" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[600];
        snprintf(text, sizeof text, "weir: 1\nstore: %s\nlimits:\n - {name: a, " BUCKET "}\n", rows[i].store);
        struct loaded loaded = load(text, WEIR_FLEET_ALONE, false);
        assert_int_equal(loaded.error, WEIR_ERR_CONTRACT);
        if (strstr(loaded.printed, rows[i].shown) == NULL || strstr(loaded.printed, "topsecret") != NULL)
            fail_msg("%s: wanted\n%s\ngot\n%s", rows[i].why, rows[i].shown, loaded.printed);
        loaded_free(&loaded);
    }
}

/* A line is cut where it is too long to show, and the @ may stand behind that. */
static void a_cut_line_shows_no_password(void **state)
{
    (void)state;
    char text[2400];
    int len = snprintf(text, sizeof text, "weir: 1\nstore: { deadlin: 5ms, url: \"redis://user:");
    for (; len < 1500; len++)
        text[len] = 'p';
    snprintf(text + len, sizeof text - (size_t)len, "@h\" }\nlimits:\n - {name: a, " BUCKET "}\n");
    struct loaded loaded = load(text, WEIR_FLEET_ALONE, false);
    assert_non_null(strstr(loaded.printed, "url: \"redis://*****"));
    assert_null(strstr(loaded.printed, "pp"));
    loaded_free(&loaded);
}

/* ---- Reload ---------------------------------------------------------------------------------------------------------------- */

#define ONE(fields) "weir: 1\nlimits:\n - {name: a, key: [], rate: 1/h, burst: 3" fields "}\n"

static void reload(struct weir_contract *contract, const char *text, const char *expected,
                   struct weir_reload *out)
{
    struct weir_diagnostics *diagnostics;
    char *printed = NULL;
    size_t size = 0;
    int error = weir_contract_reload(contract, text, strlen(text), "t.yaml", WEIR_SECOND, out, &diagnostics);
    FILE *file = open_memstream(&printed, &size);
    weir_diagnostics_print(diagnostics, file, false);
    assert_int_equal(fclose(file), 0);
    weir_diagnostics_free(diagnostics);
    if (expected == NULL && error != 0)
        fail_msg("%s", printed);
    if (expected != NULL && strstr(printed, expected) == NULL)
        fail_msg("'%s' is not in\n%s", expected, printed);
    free(printed);
    if (error == 0)
        weir_contract_quiesce(contract, WEIR_SECOND);
    else
        assert_int_equal(error, WEIR_ERR_CONTRACT);
}

static void another_scope_starts_afresh(void **state)
{
    (void)state;
    struct weir_reload kinds;
    struct loaded loaded = load(ONE(""), WEIR_FLEET_ALONE, false);
    assert_int_equal(loaded.error, 0);
    assert_int_equal(ask(loaded.contract, "", 3, 0).decision.remaining, 0);
    reload(loaded.contract, ONE(FLEET), "limit 'a' starts afresh: its scope changed", &kinds);
    assert_int_equal(kinds.restarted, 1);
    assert_int_equal(ask(loaded.contract, "", 1, WEIR_SECOND).decision.remaining, 2);
    reload(loaded.contract, ONE(FLEET ", when-state-lost: full"), NULL, &kinds);
    assert_int_equal(kinds.kept, 1);
    assert_int_equal(ask(loaded.contract, "", 1, WEIR_SECOND).decision.remaining, 1);
    reload(loaded.contract, ONE(""), "limit 'a' starts afresh: its scope changed", &kinds);
    assert_int_equal(ask(loaded.contract, "", 1, WEIR_SECOND).decision.remaining, 2);
    loaded_free(&loaded);
}

static void a_reload_reads_no_store(void **state)
{
    (void)state;
    struct weir_reload kinds;
    static const char url[] =
        "weir: 1\nstore: { url: redis://h }\nlimits:\n - {name: a, key: [], rate: 1/h, burst: 3" FLEET "}\n";
    struct loaded loaded = load(ONE(""), WEIR_FLEET_SHARED, false);
    assert_int_equal(loaded.error, 0);
    reload(loaded.contract, ONE(FLEET), "needs a store, and nobody says where it is", &kinds);
    reload(loaded.contract, url, "needs a store, and nobody says where it is", &kinds);
    assert_false(weir_contract_has_shared(loaded.contract));
    loaded_free(&loaded);

    loaded = load(url, WEIR_FLEET_SHARED, false);
    assert_int_equal(loaded.error, 0);
    reload(loaded.contract, ONE(FLEET),
           "store differs from when the program started: a reload does not read it again", &kinds);
    assert_int_equal(kinds.kept, 1);
    assert_string_equal(weir_contract_store(loaded.contract)->url, "redis://h");
    loaded_free(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(shares),
        cmocka_unit_test(what_a_store_has_not),
        cmocka_unit_test(sizes),
        cmocka_unit_test(sizes_of_their_own),
        cmocka_unit_test(sizes_that_fit_no_tick),
        cmocka_unit_test(who_counts),
        cmocka_unit_test(the_store),
        cmocka_unit_test(callers_see),
        cmocka_unit_test(findings_show_no_password),
        cmocka_unit_test(a_cut_line_shows_no_password),
        cmocka_unit_test(another_scope_starts_afresh),
        cmocka_unit_test(a_reload_reads_no_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
