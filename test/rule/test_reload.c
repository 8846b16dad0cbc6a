// SPDX-License-Identifier: Apache-2.0
/*
 * test_reload.c - another contract in place of the one in force: what goes on, what starts fresh and is told, and what a bad
 * file changes, which is nothing.
 */
#include "support/contracts.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define S WEIR_SECOND

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

/* What a reload said, in one text; free with free(). The reload is quiesced. */
static char *reload_with(struct weir_contract *contract, const char *text, weir_ns now, int expected,
                         struct weir_reload *out)
{
    struct weir_diagnostics *diagnostics;
    char *printed = NULL;
    size_t size = 0;
    int error = weir_contract_reload(contract, text, strlen(text), "t.yaml", now, out, &diagnostics);
    FILE *file = open_memstream(&printed, &size);
    weir_diagnostics_print(diagnostics, file, false);
    assert_int_equal(fclose(file), 0);
    if (error != expected)
        fail_msg("%s\n%s", weir_error_name(error), printed);
    weir_diagnostics_free(diagnostics);
    weir_contract_quiesce(contract, now);
    return printed;
}

static void reload(struct weir_contract *contract, const char *text, weir_ns now)
{
    free(reload_with(contract, text, now, 0, NULL));
}

static unsigned passing(const struct weir_contract *contract, const char *request, unsigned times, weir_ns now)
{
    unsigned count = 0;
    for (unsigned i = 0; i < times; i++)
        count += ask(contract, request, 1, now).decision.outcome == WEIR_ALLOW;
    return count;
}

/* ---- What goes on -------------------------------------------------------------------------------------------------- */

/* Algorithms 1.17: 5/s and burst 20, spent at 0; 10/s from 1 s on: 5, 10 and 15 are there at 1, 1.5 and 2 s. */
static void a_changed_rate_applies_at_once(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n - { name: a, key: [tenant], rate: 5/s, burst: 20 }\n");
    struct weir_reload counts;
    assert_int_equal(passing(contract, "tenant=x", 21, 0), 20);
    char *said = reload_with(
        contract, "weir: 1\nlimits:\n - { name: a, key: [tenant], rate: 10/s, burst: 20 }\n", S, 0, &counts);
    assert_null(strstr(said, "'a' is new"));
    assert_int_equal(counts.resized, 1);
    assert_int_equal(counts.kept + counts.added + counts.restarted + counts.removed, 0);
    free(said);
    static const struct {
        weir_ns at;
        uint64_t remaining;
    } rows[] = { { S, 5 }, { 1500 * MS, 10 }, { 2 * S, 15 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(ask(contract, "tenant=x", 0, rows[i].at).decision.remaining, rows[i].remaining);
    weir_contract_free(contract);
}

#define B54_LIMITS(bucket, other) \
    "weir: 1\nlimits:\n" \
    " - { name: " bucket ", when: { path: /b }, key: [tenant], rate: 1/s, burst: 100 }\n" \
    " - { name: window, when: { path: /w }, key: [tenant], algorithm: fixed-window, rate: 50/60s }\n" \
    " - { name: other, when: { path: /o }, key: [tenant], rate: " other ", burst: 5 }\n"

/* The part of B54 without held permits. */
static void B54_reloads_hand_out_no_burst(void **state)
{
    (void)state;
    struct weir_contract *contract = load(B54_LIMITS("bucket", "1/s"));
    struct weir_reload counts;
    assert_int_equal(passing(contract, "path=/b tenant=k", 101, 0), 100);
    assert_int_equal(passing(contract, "path=/w tenant=k", 51, 0), 50);
    unsigned bucket = 0, window = 0;
    for (unsigned second = 1; second <= 30; second++) {
        char *said = reload_with(contract, B54_LIMITS("bucket", "1/s"), second * S, 0, &counts);
        assert_int_equal(counts.kept, 3);
        free(said);
        bucket += passing(contract, "path=/b tenant=k", 2, second * S);
        window += passing(contract, "path=/w tenant=k", 2, second * S);
    }
    assert_int_equal(bucket, 30); /* what came back, not more */
    assert_int_equal(window, 0);

    reload(contract, B54_LIMITS("bucket", "2/s"), 31 * S); /* an unrelated limit */
    assert_int_equal(passing(contract, "path=/b tenant=k", 9, 31 * S), 1);
    assert_int_equal(passing(contract, "path=/w tenant=k", 9, 31 * S), 0);

    char *said = reload_with(contract, B54_LIMITS("renamed", "2/s"), 32 * S, 0, &counts);
    assert_non_null(strstr(said,
                           "t.yaml:3:4: warning: limit 'renamed' is new: its counters start fresh; 'bucket', "
                           "which was the same, is gone\n"));
    assert_non_null(strstr(said, "  help: keep the name, if the counters should go on\n"));
    free(said);
    assert_int_equal(counts.kept, 2);
    assert_int_equal(counts.added, 1);
    assert_int_equal(counts.removed, 1);
    assert_int_equal(passing(contract, "path=/b tenant=k", 200, 32 * S), 100);
    assert_int_equal(passing(contract, "path=/w tenant=k", 9, 32 * S), 0);
    assert_int_equal(passing(contract, "path=/w tenant=k", 99, 60 * S), 50);
    weir_contract_free(contract);
}

#define B56_LIMIT(rate, burst) "weir: 1\nlimits:\n - { name: a, key: [k], rate: " rate ", burst: " burst " }\n"

/* (a) to (c) of B56: live keys have the new numbers at once, and no change forgives. */
static void B56_new_numbers_reach_live_keys(void **state)
{
    (void)state;
    struct weir_contract *contract = load(B56_LIMIT("30/s", "30"));
    assert_int_equal(passing(contract, "k=x", 20, 0), 20);
    reload(contract, B56_LIMIT("5/s", "5"), 0);
    assert_int_equal(passing(contract, "k=x", 10, 0), 0); /* 20 used, 5 allowed */
    assert_int_equal(passing(contract, "k=other", 10, 0), 5);
    reload(contract, B56_LIMIT("30/s", "30"), 0);
    assert_int_equal(passing(contract, "k=x", 30, 0), 10); /* the old balance */
    assert_int_equal(passing(contract, "k=x", 30, 100 * MS), 3);
    reload(contract, B56_LIMIT("30/s", "0"), 200 * MS);
    assert_int_equal(ask(contract, "k=x", 1, 200 * MS).decision.outcome, WEIR_NEVER);
    reload(contract, B56_LIMIT("100/s", "100"), 200 * MS);
    assert_int_equal(passing(contract, "k=x", 200, 200 * MS), 73); /* 30 used, 3 of them came back by then */
    assert_int_equal(passing(contract, "k=x", 200, 300 * MS), 10);
    weir_contract_free(contract);
}

/* 10/1m -> 1000/s -> 10/1d -> 10/1m: no fresh burst whatever the ratio, and an answer after a virtual year. */
static void no_ratio_grants_a_burst(void **state)
{
    (void)state;
    struct weir_contract *contract = load(B56_LIMIT("10/1m", "10"));
    assert_int_equal(passing(contract, "k=x", 20, 0), 10);
    reload(contract, B56_LIMIT("1000/s", "10"), 0);
    assert_int_equal(passing(contract, "k=x", 20, 0), 0);
    assert_int_equal(passing(contract, "k=x", 20, 5 * MS), 5);
    reload(contract, B56_LIMIT("10/1d", "10"), 5 * MS);
    assert_int_equal(passing(contract, "k=x", 20, 5 * MS), 0);
    reload(contract, B56_LIMIT("10/1m", "10"), 6 * S + 5 * MS);
    assert_int_equal(passing(contract, "k=x", 20, 6 * S + 5 * MS), 0);
    assert_int_equal(passing(contract, "k=x", 20, 12 * S + 5 * MS), 1);
    assert_int_equal(passing(contract, "k=x", 20, 365 * WEIR_DAY), 10);
    weir_contract_free(contract);
}

static void overrides_come_and_go(void **state)
{
    (void)state;
#define OVERRIDDEN(list) \
    "weir: 1\nlimits:\n - { name: a, key: [tenant], rate: 1/s, burst: 10, overrides: [" list "] }\n"
    struct weir_contract *contract = load(OVERRIDDEN(""));
    assert_int_equal(passing(contract, "tenant=x", 20, 0), 10);
    reload(contract, OVERRIDDEN("{ key: { tenant: x }, burst: 15 }"), 0);
    assert_int_equal(passing(contract, "tenant=x", 20, 0), 5); /* five more than before, not fifteen */
    reload(contract, OVERRIDDEN("{ key: { tenant: x }, unlimited: true }"), 0);
    assert_int_equal(passing(contract, "tenant=x", 20, 0), 20);
    reload(contract, OVERRIDDEN("{ key: { tenant: y }, burst: 15 }"), 0);
    assert_int_equal(passing(contract, "tenant=y", 20, 0), 15);
    assert_int_equal(passing(contract, "tenant=z", 20, 0), 10);
    weir_contract_free(contract);
}

/* ---- What is told -------------------------------------------------------------------------------------------------- */

static void what_starts_fresh_is_told(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nidentity: { ip: peer }\nlimits:\n"
             " - { name: algorithm, key: [ip], algorithm: leaky-bucket, rate: 1/s, burst: 1 }\n"
             " - { name: align, key: [], algorithm: fixed-window, rate: 1/1d }\n"
             " - { name: gone, key: [], rate: 1/s, burst: 1 }\n"
             " - { name: group, key: [ip], rate: 1/s, burst: 1 }\n"
             " - { name: key, key: [tenant, path], rate: 1/s, burst: 1, missing-key: share }\n"
             " - { name: kept, key: [], rate: 1/s, burst: 2 }\n");
    const char *request = "tenant=t path=/ ip=192.0.2.1";
    assert_int_equal(passing(contract, request, 2, 0), 1);
    struct weir_reload counts;
    char *said =
        reload_with(contract,
                    "weir: 1\nidentity: { ip: { from: peer, group: { ipv4: 24 } } }\nlimits:\n"
                    " - { name: algorithm, key: [ip], rate: 1/s, burst: 1 }\n"
                    " - { name: align, key: [], algorithm: fixed-window, rate: 1/1d, align: calendar UTC }\n"
                    " - { name: group, key: [ip], rate: 1/s, burst: 1 }\n"
                    " - { name: key, key: [path, tenant], rate: 1/s, burst: 1, missing-key: share }\n"
                    " - { name: kept, key: [], rate: 1/s, burst: 2 }\n"
                    " - { name: new, key: [], rate: 5/s, burst: 7 }\n",
                    0, 0, &counts);
    static const char *const parts[] = {
        "t.yaml: warning: limit 'gone' is gone: its counters are forgotten\n",
        "t.yaml:4:4: warning: limit 'algorithm' starts afresh: its algorithm changed\n",
        "t.yaml:5:4: warning: limit 'align' starts afresh: its align changed\n",
        "t.yaml:6:4: warning: limit 'group' starts afresh: its key changed\n",
        "t.yaml:7:4: warning: limit 'key' starts afresh: its key changed\n",
        "t.yaml:9:4: warning: limit 'new' is new: its counters start fresh\n",
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (strstr(said, parts[i]) == NULL)
            fail_msg("\"%s\" is not in:\n%s", parts[i], said);
    assert_null(strstr(said, "'kept'"));
    free(said);
    assert_int_equal(counts.restarted, 4);
    assert_int_equal(counts.kept, 1);
    assert_int_equal(counts.added, 1);
    assert_int_equal(counts.removed, 1);
    assert_int_equal(passing(contract, request, 2, 0), 1); /* `kept` had one left */
    weir_contract_free(contract);
}

static void what_is_not_read_again_is_told(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nserver: { http: [8080, 8081], uids: [7] }\nheaders: draft\nlimits:\n"
             " - { name: a, key: [], rate: 1/s, burst: 1 }\n");
    const struct weir_contract_server *before = weir_contract_server(contract);
    char *said = reload_with(contract,
                             "weir: 1\nserver: { http: [8080, 8082], uids: [7] }\nmemory: { keys: 9 }\n"
                             "headers: none\nlimits:\n - { name: a, key: [], rate: 1/s, burst: 1 }\n",
                             0, 0, NULL);
    assert_string_equal(
        said,
        "t.yaml:2:9: warning: server differs from when the program started: a reload does not read it again\n"
        "    server: { http: [8080, 8082], uids: [7] }\n"
        "            ^\n"
        "  help: restart the program to apply it\n"
        "t.yaml:3:9: warning: memory differs from when the program started: a reload does not read it again\n"
        "    memory: { keys: 9 }\n"
        "            ^\n"
        "  help: restart the program to apply it\n");
    free(said);
    assert_int_equal(before->headers, WEIR_HEADERS_DRAFT); /* what was given lives on */
    const struct weir_contract_server *server = weir_contract_server(contract);
    assert_int_equal(server->headers, WEIR_HEADERS_NONE);
    assert_string_equal(server->http[1], "8081");

    /* Unix peers are judged by the uids of the start. */
    struct weir_identity identity;
    struct weir_head head = {
        .peer = { .is_unix = true, .uid = 7 }, .method = "GET", .method_len = 3, .target = ""
    };
    weir_contract_identify(contract, &head, &identity);
    assert_null(identity.refused);

    said = reload_with(contract,
                       "weir: 1\nserver: { http: [8080, 8081], uids: [7] }\nlimits:\n"
                       " - { name: a, key: [], rate: 1/s, burst: 1 }\n",
                       0, 0, NULL);
    assert_string_equal(said, "");
    free(said);
    weir_contract_free(contract);
}

/* ---- What does not load ---------------------------------------------------------------------------------------------- */

static void B43_a_bad_file_changes_nothing(void **state)
{
    (void)state;
    const char *good = "weir: 1\nlimits:\n - { name: a, key: [k], rate: 1/s, burst: 5 }\n";
    struct weir_contract *contract = load(good);
    char version[17];
    strcpy(version, weir_contract_version(contract));
    assert_int_equal(passing(contract, "k=x", 3, 0), 3);
    static const struct {
        const char *why, *text, *said;
    } rows[] = {
        { "a limit twice",
          "weir: 1\nlimits:\n - { name: a, key: [k], rate: 1/s, burst: 5 }\n - { name: a, key: [k], rate: 9/s, "
          "burst: 9 "
          "}\n",
          "t.yaml:4:12: error: name 'a' is taken by the limit in line 3\n" },
        { "a field twice", "weir: 1\nlimits:\n - { name: a, key: [k], rate: 1/s, burst: 5, burst: 6 }\n",
          "t.yaml:3:46: error: 'burst' is given twice; first in line 3\n" },
        { "no YAML", "weir: 1\nlimits: [\n", "t.yaml:3:1: error: " },
        { "an empty file", "", "t.yaml: error: the contract is empty\n" },
        { "an override twice",
          "weir: 1\nlimits:\n - { name: a, key: [k], rate: 1/s, burst: 5, overrides: [ { key: { k: x }, burst: "
          "1 },\n"
          "   { key: { k: x }, burst: 2 } ] }\n",
          "t.yaml:4:11: error: key of an override of limit 'a' has an override already, in line 3\n" },
        { "numbers that do not fit",
          "weir: 1\nlimits:\n - { name: b, key: [k], rate: 1/365d, burst: 9000000000000000000 }\n",
          "t.yaml:3:46: error: burst 9000000000000000000 of limit 'b' cannot be kept" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *said = reload_with(contract, rows[i].text, S, WEIR_ERR_CONTRACT, NULL);
        if (strstr(said, rows[i].said) == NULL)
            fail_msg("%s: \"%s\" is not in:\n%s", rows[i].why, rows[i].said, said);
        free(said);
        assert_string_equal(weir_contract_version(contract), version);
    }
    /* Counters untouched: two were left at 0. */
    assert_int_equal(passing(contract, "k=x", 9, 0), 2);
    reload(contract, good, S);
    assert_int_equal(passing(contract, "k=x", 9, S), 1);
    weir_contract_free(contract);
}

static void one_change_at_a_time(void **state)
{
    (void)state;
    const char *text = "weir: 1\nlimits:\n - { name: a, key: [], rate: 1/s, burst: 5 }\n";
    struct weir_contract *contract = load(text);
    assert_int_equal(weir_contract_reload(contract, text, strlen(text), NULL, 0, NULL, NULL), 0);
    const struct weir_contract_limit *limit = weir_contract_limit(contract, 0);
    assert_int_equal(weir_contract_reload(contract, text, strlen(text), NULL, 0, NULL, NULL), WEIR_ERR_BUSY);
    assert_ptr_equal(weir_contract_limit(contract, 0), limit);
    weir_contract_quiesce(contract, 0);
    weir_contract_quiesce(contract, 0); /* without a reload: nothing */
    assert_int_equal(weir_contract_reload(contract, text, strlen(text), NULL, 0, NULL, NULL), 0);
    weir_contract_free(contract); /* also before it is quiesced */
}

/* ---- Memory ------------------------------------------------------------------------------------------------------------ */

struct faulty {
    size_t left; /* allocations that still succeed */
    size_t live;
};

static void *faulty_allocate(void *context, size_t size, size_t alignment)
{
    struct faulty *faulty = context;
    void *at = NULL;
    if (faulty->left == 0
        || posix_memalign(&at, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) != 0)
        return NULL;
    faulty->left--;
    faulty->live++;
    return memset(at, 0, size);
}

static void faulty_release(void *context, void *memory, size_t size)
{
    (void)size;
    ((struct faulty *)context)->live--;
    free(memory);
}

/* Whichever allocation of a reload fails: either nothing changed, or all of it. Nothing leaks, and one more makes it. */
static void survives_each_failed_allocation(void **state)
{
    (void)state;
    const char *before = "weir: 1\nlimits:\n - { name: a, key: [k], rate: 1/s, burst: 5 }\n"
                         " - { name: l, key: [], algorithm: sliding-log, rate: 5/1m }\n";
    const char *after =
        "weir: 1\nlimits:\n - { name: a, key: [k], rate: 1/s, burst: 6, overrides: [ { key: { k: x }, "
        "burst: 9 } ] }\n - { name: b, key: [ip], algorithm: fixed-window, rate: 5/d, align: calendar "
        "Europe/Berlin }\n";
    struct faulty faulty = { .left = SIZE_MAX };
    struct weir_allocator allocator = { faulty_allocate, faulty_release, &faulty };
    const struct weir_contract_options options = { .keys = 64,
                                                   .has_wall_offset = true,
                                                   .allocator = &allocator };
    bool is_done = false;
    for (size_t left = 0; !is_done; left++) {
        faulty.left = SIZE_MAX;
        struct loaded loaded = contract_with(before, strlen(before), &options);
        assert_int_equal(loaded.error, 0);
        struct weir_contract *contract = loaded.contract;
        assert_int_equal(passing(contract, "k=x", 3, 0), 3);

        struct weir_diagnostics *diagnostics;
        faulty.left = left;
        int error = weir_contract_reload(contract, after, strlen(after), "t.yaml", 0, NULL, &diagnostics);
        faulty.left = SIZE_MAX;
        is_done = error == 0 && diagnostics != NULL;
        if (error != 0)
            assert_int_equal(error, WEIR_ERR_MEMORY);
        weir_contract_quiesce(contract, 0);
        assert_int_equal(passing(contract, "k=x", 20, 0), error == 0 ? 6 : 2);
        if (error != 0) { /* it can be tried again */
            weir_diagnostics_free(diagnostics);
            assert_int_equal(
                weir_contract_reload(contract, after, strlen(after), "t.yaml", 0, NULL, &diagnostics), 0);
            weir_contract_quiesce(contract, 0);
            assert_int_equal(passing(contract, "k=x", 20, 0), 4);
        }
        weir_diagnostics_free(diagnostics);
        loaded_free(&loaded);
        assert_int_equal(faulty.live, 0);
        assert_true(left < 2000);
    }
}

/* A hundred thousand overrides of twenty sizes load, each finds its own, and a reload changes none of them. */
static void many_overrides(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    fputs("weir: 1\nlimits:\n - name: a\n   key: [tenant]\n   rate: 1/s\n   burst: 3\n   overrides:\n", out);
    for (unsigned i = 0; i < COUNT; i++)
        fprintf(out, "    - { key: { tenant: t%u }, burst: %u }\n", i, 10 + i % 20);
    assert_int_equal(fclose(out), 0);
    struct loaded loaded = contract_from(text, 0);
    if (loaded.error != 0)
        fail_msg("%s", loaded.printed);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < COUNT; i += 997) {
            char request[40];
            snprintf(request, sizeof request, "tenant=t%u", i);
            assert_int_equal(ask(loaded.contract, request, 0, 0).decision.capacity, 10 + i % 20);
        }
        assert_int_equal(ask(loaded.contract, "tenant=other", 0, 0).decision.capacity, 3);
        struct weir_reload counts;
        char *said = reload_with(loaded.contract, text, 0, 0, &counts);
        assert_int_equal(counts.kept, 1);
        free(said);
    }
    assert_non_null(strstr(weir_contract_limit(loaded.contract, 0)->json,
                           "\"overrides\":{\"count\":100000,\"unlimited\":0,\"least\":10,\"most\":29}"));
    loaded_free(&loaded);
    free(text);
}

/* ---- Reservations, refunds and resets by attributes --------------------------------------------------------------------- */

static struct weir_request request_of(char *text, struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX],
                                      uint64_t cost)
{
    return (struct weir_request){ attributes, attributes_of(text, attributes), cost, false };
}

static void reservations_settle_what_was_estimated(void **state)
{
    (void)state;
    const char *text =
        "weir: 1\nlimits:\n"
        " - { name: tokens, key: [tenant], rate: 10/s, burst: 100, debt: 30, cost: { from: tokens, "
        "default: 20, max: 90 } }\n"
        " - { name: requests, key: [tenant], rate: 1/s, burst: 10 }\n"
        " - { name: fixed, key: [tenant], rate: 1/s, burst: 10, cost: 2 }\n";
    struct weir_contract *contract = load(text);
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    struct weir_reservation ticket;
    struct weir_settlement settlement;
    struct weir_answer answer;
    char words[] = "tenant=a tokens=60";
    struct weir_request request = request_of(words, attributes, 1);
    assert_int_equal(weir_contract_reserve(contract, &request, 0, 60 * S, &answer, &ticket), 0);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_true(ticket.len > 0);
    reload(contract, text, 0); /* a reservation keeps its place */

    /* 25 in the end: 35 of the tokens come back, and nothing of the others. */
    assert_int_equal(weir_settle(weir_contract_limiter(contract), ticket.bytes, ticket.len, 25, 0, &settlement),
                     0);
    assert_int_equal(settlement.returned, 35);
    assert_int_equal(settlement.charged, 0);
    answer = ask(contract, "tenant=a", 0, 0);
    assert_int_equal(answer.each[1].remaining, 9);
    assert_int_equal(answer.each[2].remaining,
                     6); /* two of the reservation, two of this look, whose cost is fixed */
    assert_int_equal(answer.each[0].remaining, 55);

    /* Above the estimate: charged into the debt, the rest dropped. 35 are left after this reservation of 20. */
    char more[] = "tenant=a";
    request = request_of(more, attributes, 1);
    assert_int_equal(weir_contract_reserve(contract, &request, 0, 60 * S, &answer, &ticket), 0);
    assert_int_equal(answer.each[0].remaining, 35);
    assert_int_equal(
        weir_settle(weir_contract_limiter(contract), ticket.bytes, ticket.len, 120, 0, &settlement), 0);
    assert_int_equal(settlement.charged, 65);
    assert_int_equal(settlement.dropped, 35);

    /* Refused: no reservation. */
    assert_int_equal(weir_contract_reserve(contract, &request, 0, 60 * S, &answer, &ticket), 0);
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(ticket.len, 0);
    /* 30 of debt and 20 asked for, at ten a second. */
    assert_int_equal(answer.decision.retry_at, 5 * S);

    /* A refund gives back what a settlement would change. */
    assert_int_equal(
        weir_contract_refund(contract, &(struct weir_request){ attributes, 1, 50, false }, 0, &settlement), 0);
    assert_int_equal(settlement.returned, 50);
    assert_int_equal(ask(contract, "tenant=a tokens=0", 0, 0).each[0].remaining, 20);
    weir_contract_free(contract);
}

/* Where every limit has a cost of its own there is nothing to settle, and a cancel gives all of it back. */
static void fixed_costs_are_not_settled(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n - { name: a, key: [], rate: 1/s, burst: 10, cost: 3 }\n"
             " - { name: s, key: [], rate: 1/s, burst: 10, enforce: shadow }\n");
    struct weir_request request = { NULL, 0, 1, false };
    struct weir_reservation ticket;
    struct weir_settlement settlement;
    struct weir_answer answer;
    struct weir *limiter = weir_contract_limiter(contract);
    assert_int_equal(weir_contract_reserve(contract, &request, 0, S, &answer, &ticket), 0);
    assert_int_equal(answer.each[1].remaining, 9);
    assert_int_equal(weir_settle(limiter, ticket.bytes, ticket.len, 1, 0, &settlement), 0);
    assert_int_equal(settlement.returned, 0);
    assert_int_equal(weir_contract_reserve(contract, &request, 0, S, &answer, &ticket), 0);
    assert_int_equal(answer.each[0].remaining, 4);
    assert_int_equal(weir_cancel(limiter, ticket.bytes, ticket.len, 0, &settlement), 0);
    assert_int_equal(settlement.returned, 3);

    /* Nothing that could be refunded is enforced: the shadow has its own back. */
    assert_int_equal(weir_contract_refund(contract, &request, 0, &settlement), 0);
    assert_int_equal(settlement.limit, WEIR_NO_LIMIT);
    assert_int_equal(ask(contract, "path=/", 0, 0).each[1].remaining, 9);

    /* A request that meets no limit is allowed, and there is nothing to keep. */
    weir_contract_free(contract);
    contract = load("weir: 1\nlimits:\n - { name: a, when: { path: /x }, key: [], rate: 1/s, burst: 10 }\n");
    assert_int_equal(weir_contract_reserve(contract, &request, 0, S, &answer, &ticket), 0);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(ticket.len, 0);
    weir_contract_free(contract);
}

static void keys_can_be_reset(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n"
             " - { name: a, when: { tenant: present }, key: [tenant, path], rate: 1/s, burst: 3 }\n"
             " - { name: s, when: { tenant: absent }, key: [tenant, ip], missing-key: share, rate: 1/s, burst: "
             "2 }\n");
    assert_int_equal(passing(contract, "tenant=x path=/a", 9, 0), 3);
    assert_int_equal(passing(contract, "tenant=x path=/b", 9, 0), 3);
    assert_int_equal(passing(contract, "ip=10.0.0.1", 9, 0), 2);
    static const struct {
        const char *why, *limit, *key, *fault;
        int error;
        size_t attribute;
    } rows[] = {
        { "the key in another spelling", "a", "path=/c/..//a tenant=x", "", 0, 0 },
        { "an absent part that is counted as one", "s", "tenant= ip=10.0.0.1", "", 0, 0 },
        { "no such limit", "b", "tenant=x", "there is no limit 'b'", WEIR_ERR_LIMIT, 1 },
        { "half a key", "a", "tenant=x", "the key of limit 'a' needs 'path'", WEIR_ERR_ATTRIBUTE, 1 },
        { "another attribute", "a", "tenant=x path=/a ip=10.0.0.1",
          "'ip' is no attribute of the key of limit 'a'", WEIR_ERR_ATTRIBUTE, 2 },
        { "an empty value", "a", "tenant= path=/a", "'tenant' has no value", WEIR_ERR_ATTRIBUTE, 0 },
        { "no address", "s", "tenant= ip=ten", "the ip 'ten' is not an address", WEIR_ERR_ATTRIBUTE, 1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
        struct weir_fault fault = { 0 };
        char words[200];
        strcpy(words, rows[i].key);
        size_t count = attributes_of(words, attributes);
        expect_row(weir_contract_reset(contract, rows[i].limit, attributes, count, &fault) == rows[i].error,
                   rows[i].why);
        expect_row(strcmp(fault.message, rows[i].fault) == 0, rows[i].why);
        expect_row(rows[i].error == 0 || fault.attribute == rows[i].attribute, rows[i].why);
    }
    assert_int_equal(passing(contract, "tenant=x path=/a", 9, 0), 3);
    assert_int_equal(passing(contract, "tenant=x path=/b", 9, 0), 0);
    assert_int_equal(passing(contract, "ip=10.0.0.1", 9, 0), 2);
    weir_contract_free(contract);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_rate_applies_at_once),
        cmocka_unit_test(B54_reloads_hand_out_no_burst),
        cmocka_unit_test(B56_new_numbers_reach_live_keys),
        cmocka_unit_test(no_ratio_grants_a_burst),
        cmocka_unit_test(overrides_come_and_go),
        cmocka_unit_test(what_starts_fresh_is_told),
        cmocka_unit_test(what_is_not_read_again_is_told),
        cmocka_unit_test(B43_a_bad_file_changes_nothing),
        cmocka_unit_test(one_change_at_a_time),
        cmocka_unit_test(survives_each_failed_allocation),
        cmocka_unit_test(many_overrides),
        cmocka_unit_test(reservations_settle_what_was_estimated),
        cmocka_unit_test(fixed_costs_are_not_settled),
        cmocka_unit_test(keys_can_be_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
