// SPDX-License-Identifier: Apache-2.0
/* test_explain.c - explain: the numbers of the worst case, the words, the defaults, and why a request meets a limit. */
#include "support/unit.h"

#include <glob.h>
#include <jansson.h>

#include "rule/bound.h"
#include "support/contracts.h"

static struct weir_contract *load(const char *text)
{
    struct loaded loaded = contract_from(text, 0);
    if (loaded.error != 0)
        fail_msg("%s", loaded.printed);
    struct weir_contract *contract = loaded.contract;
    loaded.contract = NULL;
    loaded_free(&loaded);
    return contract;
}

/* What explain prints; free with free(). */
static char *explain(const struct weir_contract *contract, struct weir_explain_options options,
                     const char *request)
{
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    char copy[1000] = "", *text = NULL;
    size_t size;
    struct weir_request asked = { .attributes = attributes, .cost = 1 };
    if (request != NULL) {
        strcpy(copy, request);
        asked.attribute_count = attributes_of(copy, attributes);
        options.request = &asked;
    }
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(weir_contract_explain(contract, &options, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void expect_text(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------------- */

/* By the arrival curves of the algorithm reference, worked out by hand. */
static void worst_cases(void **state)
{
    (void)state;
    static const struct {
        const char *why, *fields;
        uint64_t most[SPAN_COUNT]; /* at once, second, minute, hour, day */
    } rows[] = {
        { "20 and 5 a second", "rate: 5/s, burst: 20", { 20, 25, 320, 18020, 432020 } },
        { "1 in 3 days: floor(rate * x)", "rate: 1/3d, burst: 2", { 2, 2, 2, 2, 2 } },
        { "7 in 2 seconds: half tokens do not count", "rate: 7/2s, burst: 1", { 1, 4, 211, 12601, 302401 } },
        { "the meter is the same",
          "algorithm: leaky-bucket, rate: 5/s, burst: 20",
          { 20, 25, 320, 18020, 432020 } },
        { "a queue is a meter of one",
          "algorithm: leaky-queue, rate: 50/s, wait: { up-to: 2s, queue: 100 }",
          { 1, 51, 3001, 180001, 4320001 } },
        { "waiting changes no curve: tokens are taken at release",
          "rate: 5/s, burst: 20, wait: { up-to: 2s, queue: 100 }",
          { 20, 25, 320, 18020, 432020 } },
        { "nothing comes back", "rate: 0/s, burst: 9", { 9, 9, 9, 9, 9 } },
        { "blocked", "rate: 5/s, burst: 0", { 0, 0, 0, 0, 0 } },
        { "60 a minute prints 120: both sides of an edge",
          "algorithm: fixed-window, rate: 60/1m",
          { 120, 120, 120, 3660, 86460 } },
        { "from the first request too",
          "algorithm: fixed-window, rate: 60/1m, align: first-request",
          { 120, 120, 120, 3660, 86460 } },
        { "a day is one window and an edge", "algorithm: fixed-window, rate: 3/d", { 6, 6, 6, 6, 6 } },
        { "a week", "algorithm: fixed-window, rate: 3/w, align: calendar UTC", { 6, 6, 6, 6, 6 } },
        { "a local day may have 22 hours",
          "algorithm: fixed-window, rate: 3/d, align: calendar Europe/Berlin",
          { 6, 6, 6, 6, 9 } },
        { "sliding: no more than the count in short spans",
          "algorithm: sliding-window, rate: 60/1m",
          { 60, 60, 119, 3659, 86459 } },
        { "sliding over seconds", "algorithm: sliding-window, rate: 10/1s", { 10, 19, 609, 36009, 864009 } },
        { "the log is exact", "algorithm: sliding-log, rate: 5/15m", { 5, 5, 5, 25, 485 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[200];
        snprintf(text, sizeof text, "weir: 1\nlimits: [{ name: a, key: [], %s }]\n", rows[i].fields);
        struct weir_contract *contract = load(text);
        char *json = explain(contract, (struct weir_explain_options){ .replicas = 3, .is_json = true }, NULL);
        json_t *object = json_loads(json, 0, NULL);
        assert_non_null(object);
        const json_t *limit = json_array_get(json_object_get(object, "limits"), 0);
        for (int span = 0; span < SPAN_COUNT; span++) {
            json_int_t most =
                json_integer_value(json_object_get(json_object_get(limit, "most"), spans[span].field));
            json_int_t all = json_integer_value(
                json_object_get(json_object_get(limit, "most_of_replicas"), spans[span].field));
            if ((uint64_t)most != rows[i].most[span] || all != 3 * most)
                fail_msg("%s: %s is %lld (%lld for three), not %llu", rows[i].why, spans[span].name, most, all,
                         (unsigned long long)rows[i].most[span]);
        }
        json_decref(object);
        free(json);
        weir_contract_free(contract);
    }
}

/*
 * Who waits, by hand. A bucket's k-th waiter is served more than k - 1 intervals after it found nothing left: 50/s are 20 ms,
 * so 100 of them are served within 2 s and the 101st is not. A window serves its whole count at an edge, and a time as long
 * as a period sees one edge.
 */
static void worst_cases_of_waiting(void **state)
{
    (void)state;
    static const struct {
        const char *why, *fields;
        json_int_t most;
        double longest;
    } rows[] = {
        { "nobody", "rate: 5/s, burst: 20", 0, 0 },
        { "both bounds meet", "algorithm: leaky-queue, rate: 50/s, wait: { up-to: 2s, queue: 100 }", 100, 2 },
        { "the time ends first", "algorithm: leaky-queue, rate: 50/s, wait: { up-to: 2s, queue: 101 }", 100,
          2 },
        { "a started interval counts", "algorithm: leaky-queue, rate: 50/s, wait: { up-to: 2s1ns, queue: 500 }",
          101, 2.000000001 },
        { "the queue ends first", "algorithm: leaky-queue, rate: 50/s, wait: { up-to: 1m, queue: 100 }", 100,
          2 },
        { "intervals that are no whole ns round up",
          "algorithm: leaky-queue, rate: 3/s, wait: { up-to: 1h, queue: 1 }", 1, 0.333333334 },
        { "a burst is gone before anybody waits", "rate: 5/s, burst: 20, wait: { up-to: 1s, queue: 1000 }", 5,
          1 },
        { "an hour for the next", "rate: 1/h, burst: 1, wait: { up-to: 1m, queue: 10 }", 1, 60 },
        { "one edge in a minute", "algorithm: fixed-window, rate: 60/1m, wait: { up-to: 1m, queue: 100 }", 60,
          60 },
        { "two in a longer time", "algorithm: fixed-window, rate: 60/1m, wait: { up-to: 61s, queue: 100 }", 100,
          61 },
        { "a short queue leaves at the first",
          "algorithm: fixed-window, rate: 60/1m, wait: { up-to: 1h, queue: 60 }", 60, 60 },
        { "a log has its own edges", "algorithm: sliding-log, rate: 5/15m, wait: { up-to: 1d, queue: 11 }", 11,
          2700 },
        { "a sliding window: no more than its curve",
          "algorithm: sliding-window, rate: 10/1s, wait: { up-to: 1s, queue: 1000 }", 19, 1 },
        { "nothing comes back", "rate: 0/s, burst: 9, wait: { up-to: 1s, queue: 5 }", 0, 0 },
        { "blocked", "rate: 5/s, burst: 0, wait: { up-to: 1s, queue: 5 }", 0, 0 },
        { "permits have no pace",
          "algorithm: concurrency, at-most: 4, hold: 30s, wait: { up-to: 5s, queue: 20 }", 20, 5 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[200];
        snprintf(text, sizeof text, "weir: 1\nlimits: [{ name: a, key: [], %s }]\n", rows[i].fields);
        struct weir_contract *contract = load(text);
        char *json = explain(contract, (struct weir_explain_options){ .is_json = true }, NULL);
        json_t *object = json_loads(json, 0, NULL);
        const json_t *limit = json_array_get(json_object_get(object, "limits"), 0);
        json_int_t most = json_integer_value(json_object_get(limit, "most_waiting"));
        double longest = json_number_value(json_object_get(limit, "longest_wait"));
        if (most != rows[i].most || longest < rows[i].longest - 1e-12 || longest > rows[i].longest + 1e-12)
            fail_msg("%s: %lld wait, up to %.9f s, not %lld and %.9f s", rows[i].why, most, longest,
                     rows[i].most, rows[i].longest);
        json_decref(object);
        free(json);
        weir_contract_free(contract);
    }
}

static void numbers_saturate(void **state)
{
    (void)state;
    struct rule rule = { .algorithm = WEIR_FIXED_WINDOW, .rate = { .count = INT64_MAX, .period = 1000000 } };
    rule.limit.algorithm = WEIR_FIXED_WINDOW;
    assert_int_equal(bound_in(&rule, WEIR_DAY), UINT64_MAX);
    assert_int_equal(bound_times(UINT64_MAX, 2), UINT64_MAX);
    assert_int_equal(bound_times(5, 1000000), 5000000);
    rule.limit.wait = (struct weir_wait){ WEIR_WAIT_MAX, WEIR_QUEUE_MAX };
    assert_int_equal(bound_turns(&rule), UINT64_MAX);
    assert_int_equal(bound_waiting(&rule), WEIR_QUEUE_MAX);
    assert_int_equal(bound_longest_wait(&rule), 1000000);
}

/* ---- Words ---------------------------------------------------------------------------------------------------------------- */

static const char *const contract_text = "weir: 1\n"
                                         "identity: { proxies: [127.0.0.0/8], ip: x-forwarded-for, tenant: { "
                                         "from: \"header:x-tenant\", only: authenticated } }\n"
                                         "memory: { keys: 100 }\n"
                                         "limits:\n"
                                         "  - name: tenant-requests\n"
                                         "    about: what one tenant may ask\n"
                                         "    when: { path: \"/v1/**\", method: { not: [GET, HEAD] } }\n"
                                         "    key: [tenant]\n"
                                         "    rate: 5/s\n"
                                         "    burst: 20\n"
                                         "  - { name: anonymous, when: { tenant: absent }, key: [ip], "
                                         "missing-key: refuse, algorithm: sliding-window,"
                                         " rate: 60/1m, when-full: closed, cost: 2 }\n"
                                         "  - { name: inside, when: { ip: 10.0.0.0/8 }, key: [], algorithm: "
                                         "fixed-window, rate: 9/month, align: calendar UTC }\n";

static void says_it_in_plain_english(void **state)
{
    (void)state;
    struct weir_contract *contract = load(contract_text);
    char *text = explain(contract, (struct weir_explain_options){ 0 }, NULL);
    static const char *const parts[] = {
        ", 3 limits, 1 replica (default)\n",
        "\ntenant-requests: what one tenant may ask\n"
        "  Each tenant may ask for 20 at once; 5 more come back every 1 s, for requests whose path matches "
        "/v1/** and "
        "whose method does not match GET or HEAD. (token-bucket, default)\n"
        "    each key      at most 20 at once, 25 in any second, 320 in any minute, 18,020 in any hour, "
        "432,020 in any "
        "day\n"
        "    cost          what the request says, else 1 (default)\n"
        "    too large     a cost above 20 is refused for good: no wait can help\n"
        "    given back    what settlements, cancels and refunds return within a time adds to the most of that "
        "time\n"
        "    debt          none: what a settlement charges beyond an empty budget is dropped (default)\n"
        "    refused       a refused request consumes nothing (default)\n"
        "    repeated      a retry counts again (default)\n"
        "    waiting       nobody waits: what does not fit is refused at once (default)\n"
        "    unidentified  a request without tenant is not counted here: the limit does not apply (default)\n"
        "    overrides     none: every key has this size (default)\n"
        "    shared        each process counts by itself (default)\n"
        "    table full    new keys share one more budget of the same size (default)\n"
        "    state lost    a restart forgets what was counted: each key may ask for 20 again at once "
        "(default)\n"
        "    on reload     counters go on, and a changed size holds at once; another name, key, algorithm or "
        "align "
        "starts afresh\n"
        "    enforced      always (default)\n"
        "    reply         status 429 (default)\n",
        "\nanonymous\n"
        "  Each ip (/32 of IPv4, /64 of IPv6) may ask for 60 in the last 1 minute, estimated from two windows' "
        "counts, "
        "for requests whose tenant is absent. (sliding-window)\n",
        "    cost          2, whatever the request says\n",
        "    unidentified  a request without ip is refused for good, without charging any limit\n",
        "    table full    new keys are refused until another dies\n",
        "  Everybody together may ask for 9 in each calendar month of the time zone UTC, for requests whose ip "
        "is in "
        "10.0.0.0/8. (fixed-window)\n"
        "    at most       18 at once (around an edge), 18 in any second,",
        "  keys          100 live at once: a table of ",
        "  log rings     1,048,576 stamps (default): 8,388,608 bytes\n",
        "  new keys      as many as come (default)\n",
        "must overwrite or delete these, or its clients choose them\n"
        "  X-Forwarded-For\n"
        "  x-tenant\n"
        "  X-Forwarded-Method, X-Forwarded-Host, X-Forwarded-Uri (in front of /v1/auth)\n"
        "  X-Original-Method, X-Original-URI (in front of /v1/auth-nginx and /v1/auth-accel)\n",
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        expect_text(text, parts[i]);
    assert_null(strstr(text, "Prefer")); /* nobody listens to it */
    free(text);

    text = explain(contract, (struct weir_explain_options){ .replicas = 4 }, NULL);
    expect_text(text, ", 3 limits, 4 replicas\n");
    expect_text(text, "    4 replicas    admit 80 at once, 100 in any second, 1,280 in any minute,");
    free(text);
    weir_contract_free(contract);
}

/* What is asked about turns and permits, and for each pair of bounds which of them ends a wait. */
static void says_how_long_callers_wait_and_what_permits_promise(void **state)
{
    (void)state;
    struct weir_contract *contract = load(
        "weir: 1\n"
        "memory: { permits: 100 }\n"
        "limits:\n"
        "  - { name: payments, when: { path: \"/pay/**\" }, key: [], algorithm: leaky-queue, rate: 50/s,"
        " wait: { up-to: 2s, queue: 100 } }\n"
        "  - { name: reports, when: { path: \"/reports/**\" }, key: [tenant], algorithm: concurrency, at-most: "
        "4,"
        " hold: 30s, wait: { up-to: 5s, queue: 20 } }\n"
        "  - { name: thirds, key: [], algorithm: leaky-queue, rate: 7/2s, wait: { up-to: 2s, queue: 112 } }\n"
        "  - { name: short, key: [tenant], rate: 50/s, burst: 100, wait: { up-to: 1m, queue: 10 } }\n"
        "  - { name: hour, key: [], rate: 1/h, burst: 1, wait: { up-to: 1m, queue: 11 } }\n"
        "  - { name: dry, key: [], rate: 0/s, burst: 1, wait: { up-to: 1m, queue: 12 } }\n"
        "  - { name: shade, key: [tenant], rate: 5/s, burst: 1, enforce: shadow, wait: { up-to: 1m, queue: 5 } "
        "}\n"
        "  - { name: one, key: [tenant], algorithm: concurrency, at-most: 1, hold: 50ms, when-state-lost: "
        "empty, enforce: shadow,"
        " overrides: [ { key: { tenant: x }, at-most: 30 }, { key: { tenant: y }, at-most: 2 } ] }\n");
    char *text = explain(contract, (struct weir_explain_options){ .replicas = 3 }, NULL);
    static const char *const parts[] = {
        "\npayments\n"
        "  Everybody together leaves one every 20 ms, nobody ahead of turn, for requests whose path matches "
        "/pay/**. "
        "(leaky-queue)\n"
        "    at most       1 at once, 51 in any second,",
        "    waiting       up to 100 wait, at most 2 s, first come first served; the 101st is refused at once, "
        "and so is "
        "who cannot be served in time\n"
        "    longest wait  2 s, when up-to ends it; with costs of 1 a full queue leaves in that time\n"
        "    not waiting   who does not say how long it can wait is refused at once, with a Retry-After behind "
        "those who "
        "wait\n",
        "\nreports\n"
        "  Each tenant holds 4 permits at most; one that is not renewed within 30 s returns by itself, for "
        "requests whose "
        "path matches /reports/**. (concurrency)\n"
        "    each key      at most 4 permits unexpired at any instant; how many begin in a time is not bounded "
        "here\n"
        "    3 replicas    give 12 permits together: each process gives its own\n",
        "    too large     a cost above 4 is refused for good: no wait can help\n"
        "    permits       only calls that can return them get one (POST /v1/acquire, weir_acquire); every "
        "other door "
        "only looks: it refuses while all are held, and holds nothing\n"
        "    dead holder   its permit returns 30 s after it was given or last renewed\n"
        "    beyond        more than 4 can run where a holder works on past its permit: renew every 10 s, stop "
        "when that "
        "is refused, and have the resource refuse an older fence\n"
        "    refused       a refused request consumes nothing (default)\n"
        "    repeated      a retry needs a permit of its own\n"
        "    waiting       up to 20 wait for each key, at most 5 s, first come first served; the 21st is "
        "refused",
        "    longest wait  5 s, when up-to ends it: how soon permits return depends on the work\n",
        "    state lost    a restart forgets the permits: each key may be given 4 more while holders of before "
        "still work; "
        "their next renewal is refused (default)\n"
        "    on reload     permits stay held and who waits keeps its place;",
        "  Everybody together leaves 7 every 2 s, evenly spaced, nobody ahead of turn, for every request "
        "(default). "
        "(leaky-queue)\n",
        "the 113th is refused at once",
        "    longest wait  2 s, when up-to ends it: with costs of 1 that is 7 turns, so the queue is never "
        "full\n",
        "    waiting       up to 10 wait for each key, at most 1 minute, first come first served; the 11th is "
        "refused",
        "    longest wait  200 ms with costs of 1, when the last of a full queue leaves: up-to is never "
        "reached\n",
        "the 12th is refused at once",
        "    longest wait  1 minute, when up-to ends it: with costs of 1 that is one turn, so the queue is "
        "never full\n",
        "    longest wait  none: nothing comes back, so no turn ever comes\n",
        "    waiting       nobody waits for a shadow\n",
        "\none (enforced: shadow)\n"
        "  Each tenant holds 1 permit at most; one that is not renewed within 50 ms returns by itself, for "
        "every request",
        "    state lost    after a restart nobody gets a permit for 50 ms: by then those of before have "
        "expired\n",
        "    permits       none: a shadow gives none, so it never finds any held\n",
        "    overrides     2 keys have a size of their own, the largest 30 permits\n",
        "\nwaiting\n"
        "  asked for     by the member wait of a body, or weir_wait_start(); the smaller of that and up-to "
        "holds\n"
        "  at /v1/auth*  nobody waits (server: { auth-wait: false })\n",
        "  permits       100 at once: 6,400 bytes\n",
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        expect_text(text, parts[i]);
    free(text);
    weir_contract_free(contract);

    contract = load("weir: 1\nserver: { auth-wait: true }\nidentity: { proxies: [127.0.0.0/8] }\n"
                    "limits: [{ name: a, key: [], rate: 5/s, burst: 1, wait: { up-to: 1m, queue: 5 } }]\n");
    text = explain(contract, (struct weir_explain_options){ 0 }, NULL);
    expect_text(text, "  at /v1/auth*  by the field Prefer: wait=SECONDS (server: { auth-wait: true })\n");
    expect_text(text, "  X-Original-Method, X-Original-URI (in front of /v1/auth-nginx and /v1/auth-accel)\n"
                      "  Prefer\n");
    expect_text(text, "  permits       65,536 at once (default): 4,194,304 bytes\n");
    free(text);
    weir_contract_free(contract);
}

/* A program that reads it: what has no bound is null, and what each limit may be waited for. */
static void says_permits_as_json(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nserver: { auth-wait: true }\nmemory: { permits: 100 }\nlimits:\n"
             " - { name: c, key: [tenant], algorithm: concurrency, at-most: 4, hold: 1s500ms }\n");
    char *text = explain(contract, (struct weir_explain_options){ .replicas = 3, .is_json = true }, NULL);
    static const char *const parts[] = {
        ("\"most\":{\"at_once\":4,\"second\":null,\"minute\":null,\"hour\":null,\"day\":null},"
         "\"most_of_replicas\":{\"at_once\":12,\"second\":null,"),
        "\"most_waiting\":0,\"longest_wait\":0,\"returned_adds\":false,\"state_lost_adds\":4,",
        "\"permits\":100,\"permit_bytes\":6400,",
        "\"auth_wait\":true",
        "\"hold\":1.5,",
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        expect_text(text, parts[i]);
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    json_decref(object);
    free(text);
    weir_contract_free(contract);
}

static void says_why(void **state)
{
    (void)state;
    struct weir_contract *contract = load(contract_text);
    static const struct {
        const char *request, *text;
    } rows[] = {
        { "tenant=acme path=/v1//x method=POST ip=10.1.2.3",
          "\nthis request meets\n"
          "  tenant-requests: counted under tenant = acme\n"
          "  inside: counted in the one budget for everybody\n"
          "it does not meet\n"
          "  anonymous: it is for requests whose tenant is absent, and this one has acme\n" },
        { "path=/v2 ip=2001:db8::1",
          "\nthis request meets\n"
          "  anonymous: counted under ip = 2001:db8::/64\n"
          "it does not meet\n"
          "  tenant-requests: it is for requests whose path matches /v1/**, and this one has /v2\n"
          "  inside: it is for requests whose ip is in 10.0.0.0/8, and this one has 2001:db8::1\n" },
        { "path=/v1 method=HEAD",
          "\nthis request meets\n"
          "  anonymous: its key needs ip, which this request lacks: refused\n"
          "it does not meet\n"
          "  tenant-requests: it is for requests whose method does not match GET or HEAD, and this one has "
          "HEAD\n"
          "  inside: it is for requests whose ip is in 10.0.0.0/8, and this one has none\n" },
        { "path=/v1", "  tenant-requests: its key needs tenant, which this request lacks: skipped\n" },
        { "tenant=t path=/v2", "\nthis request meets\n"
                               "  no limit: it is allowed\n"
                               "it does not meet\n" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *text = explain(contract, (struct weir_explain_options){ 0 }, rows[i].request);
        expect_text(text, rows[i].text);
        free(text);
    }
    weir_contract_free(contract);
}

static void says_it_as_json(void **state)
{
    (void)state;
    struct weir_contract *contract = load(contract_text);
    char *text = explain(contract, (struct weir_explain_options){ .is_json = true },
                         "path=/v2 ip=10.0.0.1 tenant=\xff\"");
    assert_int_equal(strcspn(text, "\n"), strlen(text) - 1); /* one line */
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL)
        fail_msg("%s at %d", error.text, error.position);
    assert_string_equal(json_string_value(json_object_get(object, "version")), weir_contract_version(contract));
    assert_int_equal(json_integer_value(json_object_get(object, "replicas")), 1);
    assert_int_equal(json_array_size(json_object_get(object, "limits")), 3);
    const json_t *anonymous = json_array_get(json_object_get(object, "limits"), 1);
    char *defaults = json_dumps(json_object_get(anonymous, "defaults"), JSON_COMPACT);
    assert_string_equal(defaults,
                        "[\"refused\",\"retries\",\"wait\",\"scope\",\"enforce\",\"when_state_lost\",\"reply\","
                        "\"overrides\"]");
    free(defaults);
    assert_int_equal(json_array_size(json_object_get(object, "proxies_must_overwrite")), 8);
    const json_t *because = json_array_get(json_object_get(object, "request"), 1);
    assert_true(json_is_false(json_object_get(because, "meets")));
    assert_string_equal(json_string_value(json_object_get(because, "because")),
                        "it is for requests whose tenant is absent, and this one has \xef\xbf\xbd\"");
    assert_true(json_is_true(json_object_get(json_array_get(json_object_get(object, "request"), 2), "meets")));
    json_decref(object);
    free(text);

    struct weir_attribute bad = { "path", "/%", 0 };
    struct weir_request request = { &bad, 1, 1, false };
    assert_int_equal(
        weir_contract_explain(contract, &(struct weir_explain_options){ .request = &request }, stdout),
        WEIR_ERR_ATTRIBUTE);
    weir_contract_free(contract);
}

/* Each contract in examples/ loads without a finding. */
static void examples_load(void **state)
{
    (void)state;
    char here[] = __FILE__, pattern[600];
    glob_t found = { 0 };
    *strstr(here, "test/rule/") = '\0';
    snprintf(pattern, sizeof pattern, "%sexamples/weir.yaml", here);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    snprintf(pattern, sizeof pattern, "%sexamples/contracts/*.yaml", here);
    assert_int_equal(glob(pattern, GLOB_APPEND, NULL, &found), 0);
    assert_true(found.gl_pathc >= 4);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct weir_contract *contract;
        struct weir_diagnostics *diagnostics;
        if (strstr(found.gl_pathv[i], ".test.yaml") != NULL)
            continue; /* a timeline for the contract beside it */
        const struct weir_contract_options options = { .fleet = WEIR_FLEET_ALONE };
        int error = weir_contract_load(&contract, found.gl_pathv[i], &options, &diagnostics);
        weir_diagnostics_print(diagnostics, stderr, false);
        assert_int_equal(error, 0);
        assert_null(diagnostics);
        weir_contract_free(contract);
    }
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worst_cases),
        cmocka_unit_test(worst_cases_of_waiting),
        cmocka_unit_test(numbers_saturate),
        cmocka_unit_test(says_it_in_plain_english),
        cmocka_unit_test(says_how_long_callers_wait_and_what_permits_promise),
        cmocka_unit_test(says_permits_as_json),
        cmocka_unit_test(says_why),
        cmocka_unit_test(says_it_as_json),
        cmocka_unit_test(examples_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
