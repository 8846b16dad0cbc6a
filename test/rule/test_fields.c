// SPDX-License-Identifier: Apache-2.0
/*
 * test_fields.c - the fields of a limit that take a map or a share: what loads, what is said of what does not, and what
 * they do to a decision.
 */
#include "support/contracts.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define S WEIR_SECOND

/* ---- What loads ---------------------------------------------------------------------------------------------------- */

#define BUCKET "name: a, key: [tenant], rate: 5/s, burst: 20"
#define WINDOW "name: a, key: [tenant], algorithm: fixed-window, rate: 5/1m"

/* The errors of a contract with one limit, joined by " | ". */
static void join_errors(const struct loaded *loaded, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < weir_diagnostics_count(loaded->diagnostics) && len < size; i++) {
        const struct weir_diagnostic *item = weir_diagnostics_at(loaded->diagnostics, i);
        assert_true(strlen(item->cure) > 0);
        if (item->severity == WEIR_SEVERITY_ERROR)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len == 0 ? "" : " | ", item->message);
    }
}

struct row {
    const char *why, *fields, *errors; /* errors "": loads */
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[2048], errors[2000];
        snprintf(text, sizeof text, "weir: 1\nlimits:\n - {%s}\n", rows[i].fields);
        struct loaded loaded = contract_from(text, 0);
        join_errors(&loaded, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s: {%s}: got \"%s\", not \"%s\"", rows[i].why, rows[i].fields, errors, rows[i].errors);
        assert_int_equal(loaded.error, errors[0] == '\0' ? 0 : WEIR_ERR_CONTRACT);
        loaded_free(&loaded);
    }
}

static void costs_and_debts(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "all of it", BUCKET ", cost: { from: tokens, default: 500, max: 32000 }, debt: 50000", "" },
        { "the attribute is enough", BUCKET ", cost: { from: tokens }", "" },
        { "no attribute", BUCKET ", cost: { default: 5 }", "from is missing for the cost of limit 'a'" },
        { "no name", BUCKET ", cost: { from: Tokens }",
          "from Tokens of the cost of limit 'a' is not the name of an attribute" },
        { "nothing would be a way out", BUCKET ", cost: { from: tokens, default: 0 }",
          "default 0 of the cost of limit 'a' is too small" },
        { "a default that never passes", BUCKET ", cost: { from: tokens, default: 9, max: 8 }",
          "default 9 of the cost of limit 'a' is above max: a request without the attribute could never pass" },
        { "a field of another", BUCKET ", cost: { from: tokens, most: 8 }",
          "unknown field 'most' in the cost of limit 'a'" },
        { "a number is still a number", BUCKET ", cost: 1.5", "cost 1.5 of limit 'a' is not a plain integer" },
        { "a debt of text", BUCKET ", debt: '5'", "debt 5 of limit 'a' is quoted text, not an integer" },
        { "windows have none", WINDOW ", debt: 5",
          "debt 5 of limit 'a' means nothing for a fixed-window: only a bucket can be overdrawn" },
    };
    check_rows(rows, COUNT_OF(rows));
}

static void retries_and_lengths_of_time(void **state)
{
    (void)state;
#define RETRIES(length) BUCKET ", retries: { free-within: " length " }"
#define REFUSED(length, problem) "free-within " length " of the retries of limit 'a' " problem
    static const struct row rows[] = {
        { "by default the request's id", RETRIES("60s"), "" },
        { "by another attribute", BUCKET ", retries: { free-within: 1h, by: order }", "" },
        { "a sum", RETRIES("1m30s"), "" },
        { "small units", RETRIES("1s500ms20us1ns"), "" },
        { "a week", RETRIES("7d"), "" },
        { "how long?", BUCKET ", retries: { by: order }",
          "free-within is missing for the retries of limit 'a'" },
        { "B47 a bare number", RETRIES("60"),
          REFUSED("60", "has no unit: a bare number is no length of time") },
        { "B47 upper case", RETRIES("1M"), REFUSED("1M", "is not a length of time") },
        { "B47 words", RETRIES("1 minute"), REFUSED("1 minute", "is not a length of time") },
        { "B47 a word alone", RETRIES("minutes"), REFUSED("minutes", "is not a length of time") },
        { "B47 a fraction", RETRIES("0.5s"), REFUSED("0.5s", "is not a length of time") },
        { "B47 a sign", RETRIES("-1s"), REFUSED("-1s", "is not a length of time") },
        { "B47 an exponent", RETRIES("1e3s"), REFUSED("1e3s", "is not a length of time") },
        { "B47 underscores", RETRIES("1_000s"), REFUSED("1_000s", "is not a length of time") },
        { "B47 a leading zero", RETRIES("060s"), REFUSED("060s", "is not a length of time") },
        { "B47 a boolean", RETRIES("yes"), REFUSED("yes", "is not a length of time") },
        { "units go down", RETRIES("30s1m"), REFUSED("30s1m", "is not a length of time") },
        { "each once", RETRIES("1s1s"), REFUSED("1s1s", "is not a length of time") },
        { "no time at all", RETRIES("0s"), REFUSED("0s", "is too short") },
        { "beyond 64 bits", RETRIES("99999999999h"), REFUSED("99999999999h", "is too long") },
        { "longer than a week", RETRIES("8d"), REFUSED("8d", "is too long") },
        { "a word that is none", BUCKET ", retries: free",
          "retries free of limit 'a' is not a word that this field knows" },
    };
    check_rows(rows, COUNT_OF(rows));
}

static void shares_and_replies(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "shadow", BUCKET ", enforce: shadow", "" },
        { "off", BUCKET ", enforce: off", "" },
        { "a share", BUCKET ", enforce: 10%", "" },
        { "none of it", BUCKET ", enforce: 0%", "" },
        { "all of it", BUCKET ", enforce: 100%", "" },
        { "more than all", BUCKET ", enforce: 101%", "enforce 101% of limit 'a' is not a share of the keys" },
        { "half a percent", BUCKET ", enforce: 0.5%", "enforce 0.5% of limit 'a' is not a share of the keys" },
        { "a bare number", BUCKET ", enforce: 10",
          "enforce 10 of limit 'a' is not a word that this field knows" },
        { "charged", BUCKET ", refused: charged", "" },
        { "charged twice", BUCKET ", refused: twice",
          "refused twice of limit 'a' is not a word that this field knows" },
        { "empty", BUCKET ", when-state-lost: empty", "" },
        { "a reply", BUCKET ", reply: { status: 503, title: Too busy, detail: Come back at night. }", "" },
        { "success is no refusal", BUCKET ", reply: { status: 200 }",
          "status 200 of the reply of limit 'a' is too small" },
        { "a status that needs more", BUCKET ", reply: { status: 401 }",
          "status 401 of the reply of limit 'a' needs a WWW-Authenticate field, which a limit has none for" },
        { "two lines", BUCKET ", reply: { title: \"a\\nb\" }",
          "title a?b of the reply of limit 'a' has a control byte" },
        { "no map", BUCKET ", reply: 429", "reply 429 of limit 'a' is a scalar, not a map of fields" },
    };
    check_rows(rows, COUNT_OF(rows));
}

static void overrides_are_checked(void **state)
{
    (void)state;
#define OVERRIDE(fields) BUCKET ", overrides: [ { " fields " } ]"
#define PLACE "name: a, key: [ip, path], rate: 5/s, burst: 20, overrides: [ { key: { "
    static const struct row rows[] = {
        { "a size", OVERRIDE("key: { tenant: acme }, rate: 50/s, burst: 200, debt: 5"), "" },
        { "only one of them", OVERRIDE("key: { tenant: acme }, burst: 200"), "" },
        { "a number is a value too", OVERRIDE("key: { tenant: 42 }, burst: 200"), "" },
        { "unlimited", OVERRIDE("key: { tenant: acme }, unlimited: true"), "" },
        { "none", BUCKET ", overrides: []", "" },
        { "no list", BUCKET ", overrides: { key: { tenant: x } }", "overrides of limit 'a' is not a list" },
        { "whose?", OVERRIDE("burst: 200"), "key is missing for an override of limit 'a'" },
        { "says nothing", OVERRIDE("key: { tenant: acme }"), "an override of limit 'a': it changes nothing" },
        { "nor does this", OVERRIDE("key: { tenant: acme }, unlimited: false"),
          "an override of limit 'a': it changes nothing" },
        { "both", OVERRIDE("key: { tenant: acme }, unlimited: true, burst: 5"),
          "burst 5 of an override of limit 'a' means nothing beside `unlimited: true`" },
        { "another attribute", OVERRIDE("key: { user: acme }, burst: 5"),
          "an override of limit 'a': its key lacks 'tenant', by which the limit counts" },
        { "one too many", OVERRIDE("key: { tenant: acme, user: x }, burst: 5"),
          "an override of limit 'a': 'user' is no attribute of the limit's key" },
        { "an empty value", OVERRIDE("key: { tenant: '' }, burst: 5"),
          "an override of limit 'a': the value of 'tenant' is empty" },
        { "several values", OVERRIDE("key: { tenant: [a, b] }, burst: 5"),
          "an override of limit 'a': the value of 'tenant' is a list, not one value" },
        { "a key that is no map", OVERRIDE("key: acme, burst: 5"),
          "key acme of an override of limit 'a' is a scalar, not a map of attributes" },
        { "the same key twice",
          BUCKET ", overrides: [ { key: { tenant: x }, burst: 5 }, { key: { tenant: x }, burst: 6 } ]",
          "key of an override of limit 'a' has an override already, in line 3" },
        { "the same key in two spellings",
          PLACE "ip: 10.0.0.1, path: /a/../b }, burst: 5 }, { key: { path: //b, ip: 10.0.0.1 }, burst: 6 } ]",
          "key of an override of limit 'a' has an override already, in line 3" },
        { "the same group of addresses",
          PLACE "ip: 2001:db8::1, path: / }, burst: 5 }, { key: { ip: 2001:db8::2, path: / }, burst: 6 } ]",
          "key of an override of limit 'a' has an override already, in line 3" },
        { "no address", PLACE "ip: ten, path: / }, burst: 5 } ]",
          "an override of limit 'a': the ip 'ten' is not an address" },
        { "a bad escape", PLACE "ip: 10.0.0.1, path: /%2 }, burst: 5 } ]",
          "an override of limit 'a': the path has a '%' without two hex digits behind it" },
        { "a window has no burst", WINDOW ", overrides: [ { key: { tenant: x }, burst: 5 } ]",
          "burst 5 of an override of limit 'a' means nothing for a fixed-window" },
        { "another calendar",
          "name: a, key: [tenant], algorithm: fixed-window, align: calendar UTC, rate: 5/d, overrides: [ { "
          "key: "
          "{ tenant: x }, rate: 50/month } ]",
          "rate 50/month of an override of limit 'a' counts by another unit than the limit" },
        { "the same calendar",
          "name: a, key: [tenant], algorithm: fixed-window, align: calendar UTC, rate: 5/d, overrides: [ { "
          "key: "
          "{ tenant: x }, rate: 50/d } ]",
          "" },
        { "one budget has no keys",
          "name: a, key: [], rate: 5/s, burst: 20, overrides: [ { key: {}, burst: 5 } ]",
          "overrides of limit 'a' mean nothing for a limit with one budget for everybody" },
        { "a size that cannot be kept",
          OVERRIDE("key: { tenant: x }, rate: 1/365d, burst: 9000000000000000000"),
          "burst 9000000000000000000 of an override of limit 'a' cannot be kept: rate and burst together do "
          "not fit 62 bits for "
          "ten "
          "years" },
    };
    check_rows(rows, COUNT_OF(rows));
}

/* ---- What they do -------------------------------------------------------------------------------------------------- */

static struct weir_contract *load(const char *limits)
{
    char text[2048];
    snprintf(text, sizeof text, "weir: 1\nlimits:\n%s", limits);
    struct loaded loaded = contract_from(text, 0);
    if (loaded.error != 0)
        fail_msg("%s", loaded.printed);
    struct weir_contract *contract = loaded.contract;
    loaded.contract = NULL;
    loaded_free(&loaded);
    return contract;
}

/* How many of `times` requests pass at one instant. */
static unsigned passing(const struct weir_contract *contract, const char *request, unsigned times, weir_ns now)
{
    unsigned count = 0;
    for (unsigned i = 0; i < times; i++)
        count += ask(contract, request, 1, now).decision.outcome == WEIR_ALLOW;
    return count;
}

static void an_attribute_says_the_cost(void **state)
{
    (void)state;
    struct weir_contract *contract = load(" - { name: tokens, key: [tenant], rate: 10/s, burst: 100, cost: { "
                                          "from: tokens, default: 7, max: 60 } }\n"
                                          " - { name: requests, key: [tenant], rate: 1/s, burst: 10 }\n");
    static const struct {
        const char *why, *request;
        enum weir_outcome outcome;
        weir_limit_id limit;
        uint64_t remaining; /* of limit 0, in each */
        uint64_t requests;  /* of limit 1 */
    } rows[] = {
        { "the attribute's value", "tenant=a tokens=50", WEIR_ALLOW, 0, 50, 9 },
        { "absent: the default", "tenant=a", WEIR_ALLOW, 0, 43, 8 },
        { "above max: never, and nobody is charged", "tenant=a tokens=61", WEIR_NEVER, 0, 43, 8 },
        { "more than is left", "tenant=a tokens=44", WEIR_DENY, 0, 43, 8 },
        { "zero looks", "tenant=a tokens=0", WEIR_ALLOW, 1, 43, 7 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_answer answer = ask(contract, rows[i].request, 1, S);
        expect_row(answer.decision.outcome == rows[i].outcome, rows[i].why);
        expect_row(answer.decision.limit == rows[i].limit, rows[i].why);
        expect_row(answer.count == 2, rows[i].why);
        expect_row(ask(contract, "tenant=a tokens=0", 0, S).each[0].remaining == rows[i].remaining,
                   rows[i].why);
        expect_row(ask(contract, "tenant=a tokens=0", 0, S).each[1].remaining == rows[i].requests, rows[i].why);
    }

    static const char *const wrong[] = { "5x", "-1", "1.5", "007", "9223372036854775808" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct weir_attribute attributes[] = { { "tenant", "a", 0 }, { "tokens", wrong[i], 0 } };
        struct weir_request request = { attributes, 2, 1, false };
        struct weir_answer answer;
        struct weir_fault fault;
        char message[160];
        snprintf(message, sizeof message, "the cost in 'tokens', '%s', is not an integer from 0 to 2^63 - 1",
                 wrong[i]);
        assert_int_equal(weir_contract_decide(contract, &request, S, &answer), WEIR_ERR_COST);
        assert_int_equal(weir_contract_validate(contract, &request, &fault), WEIR_ERR_COST);
        assert_int_equal(fault.attribute, 1);
        assert_string_equal(fault.message, message);
    }
    weir_contract_free(contract);
}

/* A refused request keeps the bucket down, up to one burst more, until its sender slows down. */
static void refused_requests_are_charged(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load(" - { name: a, key: [tenant], rate: 1/s, burst: 5, refused: charged }\n"
             " - { name: b, when: { path: /p }, key: [tenant], rate: 1/s, burst: 1 }\n");
    assert_int_equal(passing(contract, "tenant=x", 5, 0), 5);
    assert_int_equal(passing(contract, "tenant=x", 100, 0), 0);
    /* Five of them are charged: 5 s until they are paid back, and one more for a token. */
    assert_int_equal(ask(contract, "tenant=x", 0, 0).decision.retry_at, 6 * S);

    /* Another limit's refusal charges nobody. */
    assert_int_equal(passing(contract, "tenant=y path=/p", 3, 0), 1);
    assert_int_equal(ask(contract, "tenant=y", 0, 0).decision.remaining, 4);
    weir_contract_free(contract);
}

static void a_retry_is_not_charged_again(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load(" - { name: a, key: [tenant], rate: 1/s, burst: 5, retries: { free-within: 60s, by: order } }\n"
             " - { name: b, key: [tenant], rate: 1/s, burst: 50 }\n");
    assert_int_equal(ask(contract, "tenant=x order=1", 1, 0).decision.outcome, WEIR_ALLOW);
    struct weir_answer again = ask(contract, "tenant=x order=1", 1, 0);
    assert_int_equal(again.each[0].outcome, WEIR_DUPLICATE);
    assert_int_equal(again.each[0].remaining, 4);
    assert_int_equal(again.each[1].outcome, WEIR_ALLOW); /* a limit without `retries` counts it */
    assert_int_equal(again.each[1].remaining, 48);
    assert_int_equal(ask(contract, "tenant=x order=2", 1, 0).each[0].remaining, 3);
    assert_int_equal(ask(contract, "tenant=y order=1", 1, 0).each[0].remaining, 4); /* another key's order */
    assert_int_equal(ask(contract, "tenant=x", 1, 0).each[0].remaining, 2); /* without a name it counts */
    assert_int_equal(ask(contract, "tenant=x", 1, 0).each[0].remaining, 1);
    weir_contract_free(contract);
}

/* ---- enforce --------------------------------------------------------------------------------------------------------- */

static void a_shadow_never_binds(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load(" - { name: s, key: [tenant], rate: 1/s, burst: 2, enforce: shadow }\n"
             " - { name: e, key: [tenant], rate: 1/s, burst: 4 }\n"
             " - { name: o, key: [tenant], rate: 1/s, burst: 1, enforce: off }\n");
    static const struct {
        const char *why;
        enum weir_outcome outcome, shadow;
        uint64_t remaining; /* of the shadow */
    } rows[] = {
        { "both let it pass", WEIR_ALLOW, WEIR_ALLOW, 1 },
        { "and again", WEIR_ALLOW, WEIR_ALLOW, 0 },
        { "the shadow would refuse", WEIR_ALLOW, WEIR_DENY, 0 },
        { "and does not bind", WEIR_ALLOW, WEIR_DENY, 0 },
        { "what the other refuses, the shadow only looks at", WEIR_DENY, WEIR_DENY, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_answer answer = ask(contract, "tenant=x", 1, 0);
        expect_row(answer.decision.outcome == rows[i].outcome, rows[i].why);
        expect_row(answer.decision.limit == 1, rows[i].why);
        expect_row(answer.count == 2, rows[i].why); /* what is off is not listed */
        expect_row(answer.watched == 1, rows[i].why);
        expect_row(answer.each[0].limit == 0 && answer.each[0].outcome == rows[i].shadow, rows[i].why);
        expect_row(answer.each[0].remaining == rows[i].remaining, rows[i].why);
        expect_row(answer.limits[answer.each[0].limit].enforce == WEIR_ENFORCE_SHADOW, rows[i].why);
    }
    weir_contract_free(contract);
}

static void a_shadow_counts_what_it_would_have_counted(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load(" - { name: e, key: [], rate: 1/s, burst: 1 }\n"
             " - { name: s, key: [tenant], missing-key: refuse, rate: 1/s, burst: 9, enforce: shadow }\n");
    assert_int_equal(ask(contract, "tenant=x", 1, 0).each[1].remaining, 8);
    /* Refused by the other: a look, which has not been charged. */
    struct weir_answer refused = ask(contract, "tenant=x", 1, 0);
    assert_int_equal(refused.decision.outcome, WEIR_DENY);
    assert_int_equal(refused.each[1].outcome, WEIR_ALLOW);
    assert_int_equal(refused.each[1].remaining, 8);
    /* A request without the key would be refused by the shadow: it says so, and the request passes. */
    struct weir_answer lacking = ask(contract, "path=/x", 1, 5 * S);
    assert_int_equal(lacking.decision.outcome, WEIR_ALLOW);
    assert_int_equal(lacking.each[1].outcome, WEIR_NEVER);
    assert_int_equal(lacking.each[1].reason, WEIR_REASON_MISSING_KEY);
    assert_int_equal(lacking.watched, 2);

    /* A peek peeks at all. */
    struct weir_attribute attributes[] = { { "tenant", "x", 0 } };
    struct weir_request peek = { attributes, 1, 1, true };
    struct weir_answer answer;
    for (int i = 0; i < 3; i++)
        assert_int_equal(weir_contract_decide(contract, &peek, 9 * S, &answer), 0);
    assert_int_equal(answer.each[1].remaining, 9);
    weir_contract_free(contract);

    /* Only shadows: nothing binds. */
    contract = load(" - { name: s, key: [], rate: 1/s, burst: 1, enforce: shadow }\n");
    for (int i = 0; i < 3; i++) {
        answer = ask(contract, "path=/x", 1, 0);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        assert_int_equal(answer.decision.limit, WEIR_NO_LIMIT);
        assert_int_equal(answer.each[0].outcome, i == 0 ? WEIR_ALLOW : WEIR_DENY);
    }
    weir_contract_free(contract);
}

/* Which of a thousand keys are refused their second request. */
static unsigned enforced_keys(const char *share, bool is_enforced[1000])
{
    char limits[200];
    unsigned count = 0;
    snprintf(limits, sizeof limits, " - { name: a, key: [tenant], rate: 1/s, burst: 1, enforce: %s }\n", share);
    char text[400];
    snprintf(text, sizeof text, "weir: 1\nmemory: { keys: 4000 }\nlimits:\n%s", limits);
    struct weir_contract *contract;
    struct weir_diagnostics *diagnostics;
    /* A secret of its own each time: the share does not depend on it. */
    assert_int_equal(weir_contract_parse(&contract, text, strlen(text), "t.yaml", NULL, &diagnostics), 0);
    weir_diagnostics_free(diagnostics);
    for (unsigned i = 0; i < 1000; i++) {
        char request[40];
        snprintf(request, sizeof request, "tenant=t%u", i);
        (void)ask(contract, request, 1, S);
        struct weir_answer answer = ask(contract, request, 1, S);
        assert_int_equal(answer.each[0].outcome, WEIR_DENY); /* it says so in any case */
        is_enforced[i] = answer.watched == 0;
        assert_int_equal(answer.decision.outcome, is_enforced[i] ? WEIR_DENY : WEIR_ALLOW);
        count += is_enforced[i];
    }
    weir_contract_free(contract);
    return count;
}

static void a_share_is_of_keys(void **state)
{
    (void)state;
    bool ten[1000], again[1000], half[1000], all[1000];
    unsigned count = enforced_keys("10%", ten);
    assert_in_range(count, 60, 140); /* 100 of a thousand, and four times the spread */
    assert_int_equal(enforced_keys("10%", again), count);
    assert_memory_equal(ten, again, sizeof ten);
    assert_in_range(enforced_keys("50%", half), 430, 570);
    for (unsigned i = 0; i < 1000; i++)
        assert_true(!ten[i] || half[i]); /* a larger share holds the smaller */
    assert_int_equal(enforced_keys("0%", all), 0);
    assert_int_equal(enforced_keys("100%", all), 1000);
}

/* ---- overrides --------------------------------------------------------------------------------------------------------- */

static void some_keys_differ(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load(" - { name: a, key: [ip, path], rate: 1/s, burst: 2, overrides: [\n"
             "     { key: { ip: 2001:db8::1, path: \"/x/\" }, rate: 10/s, burst: 5 },\n"
             "     { key: { path: /free, ip: 10.0.0.1 }, unlimited: true },\n"
             "     { key: { path: /more, ip: 10.0.0.1 }, burst: 3 } ] }\n");
    static const struct {
        const char *why, *request;
        unsigned first, later; /* of twenty at 0 and at 1 s */
    } rows[] = {
        { "without an override", "ip=10.0.0.2 path=/x/", 2, 1 },
        { "its own size, whichever spelling", "ip=2001:DB8:0:0::77 path=/y/..//x/?q", 5, 5 },
        { "another address of the group has the same budget", "ip=2001:db8::2 path=/x/", 0, 5 },
        { "not counted at all", "ip=10.0.0.1 path=/free", 20, 20 },
        { "the rate is the limit's", "ip=10.0.0.1 path=/more", 3, 1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_row(passing(contract, rows[i].request, 20, 0) == rows[i].first, rows[i].why);
    expect_row(passing(contract, rows[0].request, 20, S) == rows[0].later, rows[0].why);
    expect_row(passing(contract, rows[1].request, 20, S) == rows[1].later, rows[1].why);
    expect_row(passing(contract, rows[3].request, 20, S) == rows[3].later, rows[3].why);
    expect_row(passing(contract, rows[4].request, 20, S) == rows[4].later, rows[4].why);
    struct weir_answer answer = ask(contract, "ip=2001:db8::1 path=/x/", 0, 0);
    assert_int_equal(answer.decision.capacity, 5);
    weir_contract_free(contract);
}

/* ---- when-state-lost ---------------------------------------------------------------------------------------------------- */

/* Started at 10 s: what the key had left before is not known, so nothing. */
static void a_start_without_state_may_be_empty(void **state)
{
    (void)state;
    static const uint8_t secret[16] = "a test's secret";
    const struct weir_contract_options options = {
        .keys = 64, .has_wall_offset = true, .lost_at = 10 * S, .secret = secret
    };
    const char *text = "weir: 1\nlimits:\n"
                       " - { name: a, key: [tenant], rate: 1/s, burst: 5, when-state-lost: empty }\n"
                       " - { name: b, when: { path: /b }, key: [tenant], rate: 1/s, burst: 5 }\n";
    struct loaded loaded = contract_with(text, strlen(text), &options);
    assert_int_equal(loaded.error, 0);
    assert_int_equal(passing(loaded.contract, "tenant=x", 20, 10 * S), 0);
    assert_int_equal(passing(loaded.contract, "tenant=x", 20, 12 * S), 2);
    assert_int_equal(passing(loaded.contract, "tenant=new", 20, 13 * S), 3);
    assert_int_equal(passing(loaded.contract, "tenant=newer", 20, 60 * S), 5);
    loaded_free(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_and_debts),
        cmocka_unit_test(retries_and_lengths_of_time),
        cmocka_unit_test(shares_and_replies),
        cmocka_unit_test(overrides_are_checked),
        cmocka_unit_test(an_attribute_says_the_cost),
        cmocka_unit_test(refused_requests_are_charged),
        cmocka_unit_test(a_retry_is_not_charged_again),
        cmocka_unit_test(a_shadow_never_binds),
        cmocka_unit_test(a_shadow_counts_what_it_would_have_counted),
        cmocka_unit_test(a_share_is_of_keys),
        cmocka_unit_test(some_keys_differ),
        cmocka_unit_test(a_start_without_state_may_be_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
