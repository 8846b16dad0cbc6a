// SPDX-License-Identifier: Apache-2.0
/* test_decide.c - from a request's attributes to one answer: which limits, which keys, what is charged. */
#include "support/contracts.h"
#include "support/unit.h"

/* Nothing on the way to a decision may allocate; counted where the C library lets us. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
static _Thread_local size_t allocations;
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);

void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    allocations++;
    return __libc_calloc(count, size);
}
#else
#define COUNTS_ALLOCATIONS 0
static size_t allocations;
#endif

#define S WEIR_SECOND

static struct weir_contract *load_at(const char *text, int64_t wall)
{
    struct loaded loaded = contract_from(text, wall);
    if (loaded.error != 0)
        fail_msg("%s", loaded.printed);
    struct weir_contract *contract = loaded.contract;
    loaded.contract = NULL;
    loaded_free(&loaded);
    return contract;
}

static struct weir_contract *load(const char *text)
{
    return load_at(text, 0);
}

/* How many of `times` requests pass. */
static int passes(const struct weir_contract *contract, const char *request, uint64_t cost, weir_ns now,
                  int times)
{
    int passed = 0;
    for (int i = 0; i < times; i++)
        passed += ask(contract, request, cost, now).decision.outcome == WEIR_ALLOW;
    return passed;
}

/* What a limit has left for a request, without charging it. */
static uint64_t left(const struct weir_contract *contract, const char *request, const char *limit, weir_ns now)
{
    struct weir_answer answer = ask(contract, request, 0, now);
    for (size_t i = 0; i < answer.count; i++)
        if (strcmp(weir_contract_limit(contract, answer.each[i].limit)->name, limit) == 0)
            return answer.each[i].remaining;
    fail_msg("%s does not meet %s", request, limit);
    return 0;
}

/* ---- The founding examples ------------------------------------------------------------------------------------------ */

static void capacity_twenty_refill_five(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits: [{ name: t, key: [tenant], rate: 5/s, burst: 20 }]\n");
    assert_int_equal(passes(contract, "tenant=acme", 1, 0, 21), 20);
    assert_int_equal(passes(contract, "tenant=acme", 1, 1 * S, 6), 5);
    struct weir_answer answer = ask(contract, "tenant=acme", 2, 1 * S);
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(answer.decision.retry_at, 1400 * WEIR_MILLISECOND);
    assert_int_equal(passes(contract, "tenant=acme", 1, 1199999999, 1),
                     0); /* the refusal cost nothing, nor early */
    assert_int_equal(passes(contract, "tenant=acme", 1, 1200000000, 2), 1);
    assert_int_equal(passes(contract, "tenant=other", 1, 0, 21), 20);
    weir_contract_free(contract);
}

/* 60 just before a minute's edge and 60 just after it: the fixed window lets them, the counter and the log do not. */
static void sixty_a_minute_around_an_edge(void **state)
{
    (void)state;
    static const struct {
        const char *algorithm;
        int after;
    } rows[] = { { "fixed-window", 60 }, { "sliding-window", 0 }, { "sliding-log", 0 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[200];
        snprintf(text, sizeof text, "weir: 1\nlimits: [{ name: w, key: [], algorithm: %s, rate: 60/1m }]\n",
                 rows[i].algorithm);
        struct weir_contract *contract = load(text);
        assert_int_equal(passes(contract, "", 1, 60 * S - 1, 61), 60);
        assert_int_equal(passes(contract, "", 1, 60 * S, 61), rows[i].after);
        weir_contract_free(contract);
    }
}

static const char *const three_budgets = "weir: 1\n"
                                         "limits:\n"
                                         "  - { name: tenant, key: [tenant], rate: 1/m, burst: 10 }\n"
                                         "  - { name: address, key: [ip], rate: 1/m, burst: 5 }\n"
                                         "  - { name: everybody, key: [], rate: 1/m, burst: 8 }\n";

static void one_refusal_charges_none(void **state)
{
    (void)state;
    struct weir_contract *contract = load(three_budgets);
    struct weir_answer answer = ask(contract, "tenant=a ip=192.0.2.1", 3, 0);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(answer.count, 3);
    assert_int_equal(answer.each[0].remaining, 7); /* in contract order */
    assert_int_equal(answer.each[1].remaining, 2);
    assert_int_equal(answer.each[2].remaining, 5);
    assert_int_equal(answer.decision.limit, 1); /* fewest such requests left */

    answer = ask(contract, "tenant=a ip=192.0.2.1", 3, 0);
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(answer.decision.limit, 1);
    assert_int_equal(answer.each[0].outcome, WEIR_ALLOW);
    assert_int_equal(answer.each[1].outcome, WEIR_DENY);
    assert_int_equal(left(contract, "tenant=a ip=192.0.2.1", "tenant", 0), 7);
    assert_int_equal(left(contract, "tenant=a ip=192.0.2.1", "address", 0), 2);
    assert_int_equal(left(contract, "tenant=a ip=192.0.2.1", "everybody", 0), 5);
    weir_contract_free(contract);
}

static void B57_one_refuses_the_others_keep_theirs(void **state)
{
    (void)state;
    /* (a) one user's refusals do not drain the budget of all. */
    struct weir_contract *contract = load("weir: 1\nlimits:\n"
                                          " - { name: u, key: [user], algorithm: fixed-window, rate: 1/m }\n"
                                          " - { name: g, key: [], algorithm: fixed-window, rate: 10/m }\n");
    assert_int_equal(passes(contract, "user=u1", 1, 0, 20), 1);
    assert_int_equal(left(contract, "user=u1", "g", 0), 9);
    for (int i = 2; i <= 10; i++) {
        char request[20];
        snprintf(request, sizeof request, "user=u%d", i);
        assert_int_equal(passes(contract, request, 1, 0, 1), 1);
    }
    for (int i = 11; i <= 12; i++) {
        char request[20];
        snprintf(request, sizeof request, "user=u%d", i);
        struct weir_answer answer = ask(contract, request, 1, 0);
        assert_int_equal(answer.decision.outcome, WEIR_DENY);
        assert_int_equal(answer.decision.limit, 1);
        assert_int_equal(left(contract, request, "u", 0), 1);
    }
    weir_contract_free(contract);

    /* (b) 31 requests in two minutes: the refusals of the first limit cost the second nothing. */
    contract = load("weir: 1\nlimits:\n"
                    " - { name: b, key: [user], algorithm: fixed-window, rate: 10/m }\n"
                    " - { name: s, key: [user], algorithm: fixed-window, rate: 30/30m }\n");
    int first = 0, second = 0;
    for (int i = 0; i <= 30; i++) {
        weir_ns now = (weir_ns)i * 3800 * WEIR_MILLISECOND;
        *(now < 60 * S ? &first : &second) += passes(contract, "user=u", 1, now, 1);
    }
    assert_int_equal(first, 10);
    assert_int_equal(second, 10);
    assert_int_equal(left(contract, "user=u", "s", 115 * S), 10);
    assert_int_equal(passes(contract, "user=u", 1, 180 * S, 10), 10);
    assert_int_equal(passes(contract, "user=u", 1, 1000 * S, 1), 0);
    weir_contract_free(contract);
}

/* ---- Calendars ---------------------------------------------------------------------------------------------------------- */

#define AT(seconds) ((weir_ns)((seconds)-INT64_C(1798761600)) * S) /* stamps count from 2027-01-01T00:00:00Z */
#define START (INT64_C(1798761600) * (int64_t)S)

static void B13_months_are_months(void **state)
{
    (void)state;
    struct weir_contract *contract = load_at("weir: 1\nlimits:\n - { name: m, key: [k], algorithm: "
                                             "fixed-window, rate: 3/month, align: calendar UTC }\n",
                                             START);
    assert_int_equal(passes(contract, "k=a", 1, AT(1803988800), 3), 3);  /* 2027-03-02T12:00:00Z */
    struct weir_answer answer = ask(contract, "k=a", 1, AT(1804075200)); /* 03-03T12:00:00Z */
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(answer.decision.retry_at - AT(1804075200), 2462400 * S);
    answer = ask(contract, "k=a", 1, AT(1806537599)); /* 03-31T23:59:59Z */
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(answer.decision.retry_at - AT(1806537599), 1 * S);
    assert_int_equal(answer.decision.reset_at, answer.decision.retry_at);
    assert_int_equal(passes(contract, "k=a", 1, AT(1806537600), 1), 1); /* 04-01T00:00:00Z */
    weir_contract_free(contract);
}

static void B13_weeks_begin_on_monday_or_with_the_epoch(void **state)
{
    (void)state;
    static const struct {
        const char *why, *align;
        int on_thursday;
    } rows[] = {
        { "seven days from 1970 flip on Thursdays", "epoch", 1 },
        { "a calendar week does not", "calendar UTC", 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "weir: 1\nlimits:\n - { name: w, key: [k], algorithm: fixed-window, rate: 3/w, align: %s }\n",
                 rows[i].align);
        struct weir_contract *contract = load_at(text, START);
        expect_row(passes(contract, "k=a", 1, AT(1799884799), 3) == 3, rows[i].why); /* 2027-01-13T23:59:59Z */
        expect_row(passes(contract, "k=a", 1, AT(1799884800), 1) == rows[i].on_thursday, rows[i].why);
        expect_row(passes(contract, "k=a", 1, AT(1800230400), 1) == 1, rows[i].why); /* Monday, 01-18 */
        weir_contract_free(contract);
    }
}

/* ---- Missing keys ------------------------------------------------------------------------------------------------------- */

static void B51_missing_identity_is_what_the_contract_chose(void **state)
{
    (void)state;
    static const struct {
        const char *why, *fields;
        int anonymous;   /* of three requests without the header, how many pass */
        bool is_never;   /* refused for good, reason missing-key */
        bool is_counted; /* in some limit */
    } rows[] = {
        { "skip: allowed, uncounted", "missing-key: skip", 3, false, false },
        { "share: one budget for all of them", "missing-key: share", 2, false, true },
        { "refuse: never, without a shared count", "missing-key: refuse", 0, true, true },
        { "the default is skip", "about: x", 3, false, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "weir: 1\nlimits: [{ name: k, key: [api-key], algorithm: fixed-window, rate: 2/m, %s }]\n",
                 rows[i].fields);
        struct weir_contract *contract = load(text);
        expect_row(passes(contract, "api-key=k1", 1, 0, 2) == 2, rows[i].why);
        expect_row(passes(contract, "api-key=k2", 1, 0, 1) == 1, rows[i].why);
        int passed =
            passes(contract, "ip=192.0.2.1", 1, 0, 1) + passes(contract, "ip=192.0.2.2 api-key=", 1, 0, 1);
        struct weir_answer last = ask(contract, "ip=192.0.2.3", 1, 0);
        passed += last.decision.outcome == WEIR_ALLOW;
        expect_row(passed == rows[i].anonymous, rows[i].why);
        expect_row((last.decision.outcome == WEIR_NEVER) == rows[i].is_never, rows[i].why);
        expect_row((last.decision.reason == WEIR_REASON_MISSING_KEY) == rows[i].is_never, rows[i].why);
        expect_row((last.decision.limit == 0) == rows[i].is_counted, rows[i].why);
        expect_row((last.count == 1) == rows[i].is_counted, rows[i].why);
        if (rows[i].is_never)
            expect_row(last.decision.retry_at == WEIR_NO_TIME, rows[i].why);
        weir_contract_free(contract);
    }

    /* By address instead: a limit of its own for those without. */
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n"
             " - { name: k, key: [api-key], algorithm: fixed-window, rate: 2/m }\n"
             " - { name: a, when: { api-key: absent }, key: [ip], algorithm: fixed-window, rate: 2/m }\n");
    assert_int_equal(passes(contract, "ip=192.0.2.1", 1, 0, 3), 2);
    assert_int_equal(passes(contract, "ip=192.0.2.2 api-key=", 1, 0, 3), 2); /* empty is missing */
    assert_int_equal(passes(contract, "ip=192.0.2.2 api-key=k", 1, 0, 3), 2);
    weir_contract_free(contract);
}

/* One limit refuses for want of a key: nothing is charged anywhere, and the others say what they would. */
static void a_missing_key_charges_nobody(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n"
             " - { name: g, key: [], rate: 1/m, burst: 3 }\n"
             " - { name: r, key: [user], missing-key: refuse, rate: 1/m, burst: 7 }\n"
             " - { name: h, key: [], rate: 1/m, burst: 1 }\n");
    for (int i = 0; i < 5; i++) {
        struct weir_answer answer = ask(contract, "x=1", 2, 0);
        assert_int_equal(answer.decision.outcome, WEIR_NEVER);
        assert_int_equal(answer.decision.reason, WEIR_REASON_MISSING_KEY);
        assert_int_equal(answer.decision.limit, 1);
        assert_int_equal(answer.decision.capacity, 7);
        assert_int_equal(answer.count, 3);
        assert_int_equal(answer.each[0].outcome, WEIR_ALLOW);
        assert_int_equal(answer.each[1].reason, WEIR_REASON_MISSING_KEY);
        assert_int_equal(answer.each[2].outcome, WEIR_NEVER); /* cost 2 of 1: its own reason */
        assert_int_equal(answer.each[2].reason, WEIR_REASON_NONE);
    }
    struct weir_answer answer = ask(contract, "user=u", 1, 0);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(answer.each[0].remaining, 2);
    weir_contract_free(contract);
}

/* A part that is missing counts as a value of its own beside the parts that are there. */
static void share_keeps_the_other_parts(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits: [{ name: k, key: [a, b], missing-key: share, rate: 1/m, burst: 2 }]\n");
    assert_int_equal(passes(contract, "a=x", 1, 0, 3), 2);
    assert_int_equal(passes(contract, "b=x", 1, 0, 3), 2);
    assert_int_equal(passes(contract, "a=x b=x", 1, 0, 3), 2);
    assert_int_equal(passes(contract, "", 1, 0, 3), 2);
    weir_contract_free(contract);
}

/* ---- Keys ----------------------------------------------------------------------------------------------------------------- */

static void keys_do_not_meet_by_joining(void **state)
{
    (void)state;
    struct weir_contract *contract = load("weir: 1\nlimits: [{ name: k, key: [a, b], rate: 1/m, burst: 1 }]\n");
    static const char *const different[] = { "a=a b=bc", "a=ab b=c", "a=abc b=c", "a=a b=b", "a=b b=a" };
    for (size_t i = 0; i < COUNT_OF(different); i++)
        assert_int_equal(passes(contract, different[i], 1, 0, 2), 1);
    assert_int_equal(passes(contract, "b=bc a=a", 1, 0, 1), 0); /* the order in the request says nothing */
    weir_contract_free(contract);
}

/* Keys of any length are exact: two that differ in the last byte are two. */
static void long_keys(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits: [{ name: k, key: [a, b, c, d, e], rate: 1/m, burst: 1 }]\n");
    for (size_t len = 1; len <= WEIR_ATTRIBUTE_MAX; len += 341) {
        char request[6000] = "";
        for (char name = 'a'; name <= 'e'; name++) {
            size_t at = strlen(request);
            at += (size_t)snprintf(request + at, 4, "%c=", name);
            memset(request + at, 'x', len);
            request[at + len] = ' ';
            request[at + len + 1] = '\0';
        }
        char *last = request + strlen(request) - 2;
        assert_true(strlen(request) < 6000);
        struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
        for (char final = 'x'; final <= 'z'; final++) {
            char copy[6000];
            struct weir_decision decision;
            *last = final;
            strcpy(copy, request);
            size_t count = attributes_of(copy, attributes);
            assert_int_equal(weir_contract_admit(contract, attributes, count, 0, &decision), 0);
            assert_int_equal(decision.outcome, WEIR_ALLOW);
            assert_int_equal(weir_contract_admit(contract, attributes, count, 0, &decision), 0);
            assert_int_equal(decision.outcome, WEIR_DENY);
        }
    }
    weir_contract_free(contract);
}

/* ---- Costs ---------------------------------------------------------------------------------------------------------------- */

static void costs(void **state)
{
    (void)state;
    struct weir_contract *contract = load("weir: 1\nlimits:\n"
                                          " - { name: own, key: [], cost: 3, rate: 1/m, burst: 10 }\n"
                                          " - { name: asked, key: [], rate: 1/m, burst: 10 }\n");
    struct weir_answer answer = ask(contract, "", 2, 0);
    assert_int_equal(answer.each[0].remaining, 7);
    assert_int_equal(answer.each[1].remaining, 8);
    answer = ask(contract, "", 0, 0); /* looks at the second; the first always charges its own */
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(answer.each[0].remaining, 4);
    assert_int_equal(answer.each[1].remaining, 8);
    answer = ask(contract, "", 11, 0);
    assert_int_equal(answer.decision.outcome, WEIR_NEVER);
    assert_int_equal(answer.decision.reason, WEIR_REASON_NONE);
    assert_int_equal(answer.decision.limit, 1);
    answer = ask(contract, "", INT64_MAX, 0);
    assert_int_equal(answer.decision.outcome, WEIR_NEVER);

    struct weir_request peek = { NULL, 0, 1, true };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_contract_decide(contract, &peek, 0, &answer), 0);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        assert_int_equal(answer.each[0].remaining, 4);
    }
    struct weir_request too_much = { NULL, 0, (uint64_t)INT64_MAX + 1, false };
    answer.count = 77;
    assert_int_equal(weir_contract_decide(contract, &too_much, 0, &answer), WEIR_ERR_COST);
    assert_int_equal(answer.count, 77);
    weir_contract_free(contract);
}

static void a_request_that_meets_no_limit_is_allowed(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits: [{ name: v, when: { path: \"/v1/**\" }, key: [], rate: 1/m, burst: 0 }]\n");
    struct weir_answer answer = ask(contract, "path=/v2", 5, 7);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(answer.decision.limit, WEIR_NO_LIMIT);
    assert_int_equal(answer.decision.decided_at, 7);
    assert_int_equal(answer.decision.retry_at, 7);
    assert_int_equal(answer.count, 0);
    assert_int_equal(ask(contract, "path=/v1", 1, 7).decision.outcome, WEIR_NEVER); /* burst 0 blocks */
    weir_contract_free(contract);
}

/* ---- One spelling ----------------------------------------------------------------------------------------------------------- */

static void other_spellings_meet_the_same_budget(void **state)
{
    (void)state;
    struct weir_contract *contract = load("weir: 1\n"
                                          "identity: { ip: { group: { ipv4: 24, ipv6: 48 } } }\n"
                                          "limits:\n"
                                          " - { name: p, when: { path: \"/a/b\" }, key: [path, host, ip], "
                                          "missing-key: share, rate: 1/m, burst: 1 }\n");
    static const char *const same[] = {
        "path=/a/b host=example.org ip=192.0.2.1",
        "path=/a//b host=EXAMPLE.org ip=192.0.2.77",
        "path=/a/./b?q host=example.org. ip=192.0.2.1",
        "path=/x/../a/b host=example.org:443 ip=192.0.2.255",
        "path=/%61/b host=example.org ip=::ffff:192.0.2.9",
        "ip=192.0.2.0 host=Example.Org:80 path=http://h/a/b",
    };
    assert_int_equal(passes(contract, same[0], 1, 0, 1), 1);
    for (size_t i = 0; i < COUNT_OF(same); i++)
        if (passes(contract, same[i], 1, 0, 1) != 0)
            fail_msg("%s has a budget of its own", same[i]);
    static const char *const different[] = {
        "path=/a/b host=example.com ip=192.0.2.1",
        "path=/a/b host=example.org ip=192.0.3.1",
        "path=/a/b host=example.org ip=2001:db8:1::1",
        "path=/a/b host=example.org ip=2001:db8:2::1",
        "path=/a/b host=example.org",
    };
    for (size_t i = 0; i < COUNT_OF(different); i++)
        assert_int_equal(passes(contract, different[i], 1, 0, 1), 1);
    assert_int_equal(passes(contract, "path=/a/b host=example.org ip=2001:db8:2:ffff::7", 1, 0, 1), 0);
    weir_contract_free(contract);
}

/* A network in `when` is asked about the whole address, however it is grouped in keys. */
static void networks_see_the_whole_address(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n"
             " - { name: one, when: { ip: \"2001:db8::7/128\" }, key: [ip], rate: 1/m, burst: 1 }\n"
             " - { name: rest, when: { ip: { not: \"2001:db8::7/128\" } }, key: [ip], rate: 1/m, burst: 1 }\n");
    assert_int_equal(ask(contract, "ip=2001:db8::7", 1, 0).decision.limit, 0);
    assert_int_equal(ask(contract, "ip=2001:db8::8", 1, 0).decision.limit, 1);
    assert_int_equal(ask(contract, "ip=2001:db8::9", 1, 0).decision.outcome, WEIR_DENY); /* one /64 */
    weir_contract_free(contract);
}

/* ---- Faults ------------------------------------------------------------------------------------------------------------------- */

static void says_what_is_wrong_with_a_request(void **state)
{
    (void)state;
    struct weir_contract *contract = load("weir: 1\nlimits: [{ name: k, when: { path: \"/**\" }, key: [host, "
                                          "ip, t], missing-key: share, rate: 1/m, burst: 1 }]\n");
    static char long_value[WEIR_ATTRIBUTE_MAX + 2];
    memset(long_value, 'x', WEIR_ATTRIBUTE_MAX + 1);
    static const char longest[] = "a2345678901234567890123456789012",
                      too_long[] = "a23456789012345678901234567890123";
    const struct {
        const char *why;
        struct weir_attribute attributes[3];
        size_t count, at;
        const char *message; /* "": fine */
    } rows[] = {
        { "nothing", { { NULL, NULL, 0 } }, 0, 0, "" },
        { "unknown names are fine", { { "colour", "red", 0 } }, 1, 0, "" },
        { "absent values too", { { "t", NULL, 0 }, { "u", "", 0 } }, 2, 0, "" },
        { "32 bytes are the longest name", { { longest, "x", 0 } }, 1, 0, "" },
        { "33 are too long",
          { { "t", "x", 0 }, { too_long, "x", 0 } },
          2,
          1,
          "attribute name 'a23456789012345678901234567890123' is not 1 to 32 of a-z, 0-9 and '-', beginning "
          "with a letter" },
        { "no name",
          { { "", "x", 0 } },
          1,
          0,
          "attribute name '' is not 1 to 32 of a-z, 0-9 and '-', beginning with a letter" },
        { "an upper-case name",
          { { "Tenant", "x", 0 } },
          1,
          0,
          "attribute name 'Tenant' is not 1 to 32 of a-z, 0-9 and '-', beginning with a letter" },
        { "an underscore",
          { { "request_id", "x", 0 } },
          1,
          0,
          "attribute name 'request_id' is not 1 to 32 of a-z, 0-9 and '-', beginning with a letter" },
        { "twice",
          { { "t", "x", 0 }, { "u", "x", 0 }, { "t", "x", 0 } },
          3,
          2,
          "attribute 't' is given twice" },
        { "twice, though no limit reads it",
          { { "u", "x", 0 }, { "u", "", 0 } },
          2,
          1,
          "attribute 'u' is given twice" },
        { "1024 bytes are the longest value", { { "t", long_value, WEIR_ATTRIBUTE_MAX } }, 1, 0, "" },
        { "1025 are too long",
          { { "t", long_value, 0 } },
          1,
          0,
          "the value of 't' has 1025 bytes: at most 1024 are allowed" },
        { "also of what no limit reads",
          { { "u", long_value, 0 } },
          1,
          0,
          "the value of 'u' has 1025 bytes: at most 1024 are allowed" },
        { "a newline", { { "t", "a\nb", 0 } }, 1, 0, "the value of 't' has a control byte (0x0a) at index 1" },
        { "a zero byte",
          { { "t", "ab\0c", 4 } },
          1,
          0,
          "the value of 't' has a control byte (0x00) at index 2" },
        { "delete", { { "t", "\x7f", 0 } }, 1, 0, "the value of 't' has a control byte (0x7f) at index 0" },
        { "bytes above ASCII are ordinary", { { "t", "\xff\xc3\xa4", 0 } }, 1, 0, "" },
        { "a bad escape",
          { { "path", "/a%2", 0 } },
          1,
          0,
          "the path has a '%' without two hex digits behind it" },
        { "no address", { { "ip", "10.0.0.256", 0 } }, 1, 0, "the ip '10.0.0.256' is not an address" },
        { "no host", { { "host", "a/b", 0 } }, 1, 0, "the host 'a/b' is not one host name" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_fault fault = { 0 };
        struct weir_answer answer = { .count = 99 };
        struct weir_request request = { rows[i].attributes, rows[i].count, 1, false };
        bool is_fine = rows[i].message[0] == '\0';
        int error = weir_contract_validate(contract, &request, &fault);
        expect_row(error == (is_fine ? 0 : WEIR_ERR_ATTRIBUTE), rows[i].why);
        if (strcmp(fault.message, rows[i].message) != 0)
            fail_msg("%s: \"%s\", not \"%s\"", rows[i].why, fault.message, rows[i].message);
        expect_row(is_fine || fault.attribute == rows[i].at, rows[i].why);
        expect_row(weir_contract_decide(contract, &request, 0, &answer) == error, rows[i].why);
        expect_row(is_fine || answer.count == 99, rows[i].why);
    }
    weir_contract_free(contract);
}

/* Values are read eight bytes at a time: each byte at each place, of lengths around a word. */
static void a_control_byte_is_found_wherever_it_stands(void **state)
{
    (void)state;
    struct weir_contract *contract = load("weir: 1\nlimits: [{ name: k, key: [t], rate: 1/m, burst: 1 }]\n");
    for (size_t len = 1; len <= 24; len++)
        for (size_t at = 0; at < len; at++)
            for (unsigned byte = 0; byte < 256; byte++) {
                char *value = memset(test_malloc(len), '~', len); /* not one byte more */
                value[at] = (char)byte;
                struct weir_attribute attribute = { "t", value, len };
                struct weir_request request = { &attribute, 1, 1, false };
                struct weir_fault fault = { 0 };
                bool is_control = byte < 0x20 || byte == 0x7f;
                char message[sizeof fault.message] = "";
                if (is_control)
                    snprintf(message, sizeof message,
                             "the value of 't' has a control byte (0x%02x) at index %zu", byte, at);
                int error = weir_contract_validate(contract, &request, &fault);
                assert_int_equal(error, is_control ? WEIR_ERR_ATTRIBUTE : 0);
                assert_string_equal(fault.message, message);
                test_free(value);
            }
    weir_contract_free(contract);
}

static void a_bad_escape_is_refused_whoever_reads_the_path(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n  - { name: a, key: [tenant], rate: 1/s, burst: 1 }\n");
    struct weir_decision decision;
    struct weir_attribute bad[] = { { "tenant", "acme", 0 }, { "path", "/%zz", 0 } };
    assert_int_equal(weir_contract_admit(contract, bad, 2, 0, &decision), WEIR_ERR_ATTRIBUTE);
    assert_int_equal(weir_contract_admit(contract, bad, 1, 0, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_ALLOW);
    weir_contract_free(contract);
}

static void thirty_two_attributes(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits: [{ name: k, key: [a1, a31], rate: 1/m, burst: 1 }]\n");
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX + 1];
    char names[WEIR_ATTRIBUTES_MAX + 1][8];
    struct weir_decision decision;
    struct weir_fault fault;
    for (size_t i = 0; i <= WEIR_ATTRIBUTES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "a%zu", i);
        attributes[i] = (struct weir_attribute){ names[i], "x", 0 };
    }
    assert_int_equal(weir_contract_admit(contract, attributes, WEIR_ATTRIBUTES_MAX, 0, &decision), 0);
    assert_int_equal(decision.limit, 0);
    assert_int_equal(weir_contract_admit(contract, attributes, WEIR_ATTRIBUTES_MAX + 1, 0, &decision),
                     WEIR_ERR_ATTRIBUTE);
    struct weir_request request = { attributes, WEIR_ATTRIBUTES_MAX + 1, 1, false };
    assert_int_equal(weir_contract_validate(contract, &request, &fault), WEIR_ERR_ATTRIBUTE);
    assert_int_equal(fault.attribute, WEIR_ATTRIBUTES_MAX + 1);
    assert_string_equal(fault.message, "the request has 33 attributes: at most 32 are allowed");
    weir_contract_free(contract);
}

/* 64 limits are decided together; a request that meets 65 is an error and charges nobody. */
static void sixty_four_limits(void **state)
{
    (void)state;
    char text[8000] = "weir: 1\nlimits:\n";
    for (int i = 0; i < 65; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 " - { name: l%d, key: [], when: { a: %s }, rate: 1/m, burst: 2 }\n", i,
                 i < 64 ? "present" : "both");
    struct weir_contract *contract = load(text);
    struct weir_answer answer = ask(contract, "a=x", 1, 0);
    assert_int_equal(answer.count, 64);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(answer.each[i].limit, i);
        assert_int_equal(answer.each[i].remaining, 1);
    }
    struct weir_attribute both = { "a", "both", 0 };
    struct weir_decision decision;
    struct weir_fault fault;
    struct weir_request request = { &both, 1, 1, false };
    assert_int_equal(weir_contract_admit(contract, &both, 1, 0, &decision), WEIR_ERR_ASKS);
    assert_int_equal(weir_contract_validate(contract, &request, &fault), WEIR_ERR_ASKS);
    assert_string_equal(fault.message, "the request meets more than 64 limits: narrow their `when`");
    assert_int_equal(left(contract, "a=x", "l0", 0), 1);
    weir_contract_free(contract);
}

static void deciding_allocates_nothing(void **state)
{
    (void)state;
    struct weir_contract *contract = load(three_budgets);
    (void)ask(contract, "tenant=a ip=192.0.2.1 path=/a/../b", 1, 0);
    struct weir_attribute attributes[] = { { "tenant", "a", 0 },
                                           { "ip", "192.0.2.1", 0 },
                                           { "path", "/a/%62", 0 } };
    struct weir_request request = { attributes, 3, 1, false };
    struct weir_answer answer;
    size_t before = allocations;
    for (weir_ns now = 0; now < 1000; now++)
        (void)!weir_contract_decide(contract, &request, now * S, &answer);
    assert_int_equal(allocations, before);
    weir_contract_free(contract);
    if (COUNTS_ALLOCATIONS) { /* the counter counts */
        before = allocations;
        weir_contract_free(load(three_budgets));
        assert_true(allocations > before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capacity_twenty_refill_five),
        cmocka_unit_test(sixty_a_minute_around_an_edge),
        cmocka_unit_test(one_refusal_charges_none),
        cmocka_unit_test(B57_one_refuses_the_others_keep_theirs),
        cmocka_unit_test(B13_months_are_months),
        cmocka_unit_test(B13_weeks_begin_on_monday_or_with_the_epoch),
        cmocka_unit_test(B51_missing_identity_is_what_the_contract_chose),
        cmocka_unit_test(a_missing_key_charges_nobody),
        cmocka_unit_test(share_keeps_the_other_parts),
        cmocka_unit_test(keys_do_not_meet_by_joining),
        cmocka_unit_test(long_keys),
        cmocka_unit_test(costs),
        cmocka_unit_test(a_request_that_meets_no_limit_is_allowed),
        cmocka_unit_test(other_spellings_meet_the_same_budget),
        cmocka_unit_test(networks_see_the_whole_address),
        cmocka_unit_test(says_what_is_wrong_with_a_request),
        cmocka_unit_test(a_control_byte_is_found_wherever_it_stands),
        cmocka_unit_test(a_bad_escape_is_refused_whoever_reads_the_path),
        cmocka_unit_test(thirty_two_attributes),
        cmocka_unit_test(sixty_four_limits),
        cmocka_unit_test(deciding_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
