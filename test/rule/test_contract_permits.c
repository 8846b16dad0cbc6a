// SPDX-License-Identifier: Apache-2.0
/*
 * test_contract_permits.c - permits as a contract gives them: to calls that can return them, together with the rates, never
 * twice, and through every reload.
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

static struct weir_answer acquire(const struct weir_contract *contract, const char *request, uint64_t cost,
                                  weir_ns now, struct weir_permit *permit)
{
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    struct weir_answer answer;
    char copy[200];
    snprintf(copy, sizeof copy, "%s", request);
    struct weir_request asked = { .attributes = attributes,
                                  .attribute_count = attributes_of(copy, attributes),
                                  .cost = cost };
    assert_int_equal(weir_contract_acquire(contract, &asked, now, &answer, permit), 0);
    return answer;
}

static bool release(const struct weir_contract *contract, const struct weir_permit *permit, weir_ns now)
{
    bool was_held = false;
    assert_int_equal(weir_release(weir_contract_limiter(contract), permit->bytes, permit->len, now, &was_held),
                     0);
    return was_held;
}

/* Permits of k that are left at `now`. */
static uint64_t left(const struct weir_contract *contract, const char *request, weir_ns now)
{
    struct weir_answer answer = ask(contract, request, 0, now);
    assert_int_equal(answer.count, 1);
    return answer.decision.remaining;
}

#define CONCURRENT(name, most, more) \
    " - { name: " name ", key: [tenant], algorithm: concurrency, at-most: " most ", hold: 30s" more " }\n"

/* ---- Who gets one ---------------------------------------------------------------------------------------------------- */

static void who_gets_a_permit(void **state)
{
    (void)state;
    struct weir_contract *contract = load("weir: 1\nlimits:\n" CONCURRENT("c", "2", ""));
    struct weir_permit permits[3];
    for (int i = 0; i < 2; i++) {
        struct weir_answer answer = acquire(contract, "tenant=k", 1, S, &permits[i]);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        assert_int_equal(answer.decision.capacity, 2);
        assert_int_equal(answer.decision.remaining, 1 - i);
        assert_true(permits[i].len > 0);
        assert_int_equal(permits[i].expires_at, 31 * S);
    }
    assert_true(permits[1].fence > permits[0].fence);

    struct weir_answer refused = acquire(contract, "tenant=k", 1, 2 * S, &permits[2]);
    assert_int_equal(refused.decision.outcome, WEIR_DENY);
    assert_int_equal(refused.decision.limit, 0);
    assert_int_equal(refused.decision.retry_at, 31 * S);
    assert_int_equal(permits[2].len, 0);
    assert_int_equal(acquire(contract, "tenant=other", 1, 2 * S, &permits[2]).decision.outcome, WEIR_ALLOW);
    assert_int_equal(acquire(contract, "tenant=third", 3, 2 * S, &permits[2]).decision.outcome, WEIR_NEVER);
    assert_int_equal(permits[2].len, 0);

    assert_true(release(contract, &permits[0], 3 * S));
    assert_false(release(contract, &permits[0], 3 * S)); /* a second time gives nothing back */
    assert_int_equal(left(contract, "tenant=k", 3 * S), 1);
    assert_int_equal(left(contract, "tenant=k", 31 * S), 2); /* the other holder is dead */
    weir_contract_free(contract);
}

/* Every other call looks: it refuses while all are held, and holds nothing. */
static void other_calls_only_look(void **state)
{
    (void)state;
    struct weir_contract *contract = load("weir: 1\nlimits:\n" CONCURRENT("c", "2", ""));
    struct weir_permit permits[2];
    struct weir_reservation ticket;
    struct weir_settlement settled;
    struct weir_answer answer;
    struct weir_attribute tenant = { "tenant", "k", 0 };
    struct weir_request request = { .attributes = &tenant, .attribute_count = 1, .cost = 1 };
    for (int i = 0; i < 5; i++)
        assert_int_equal(ask(contract, "tenant=k", 1, S).decision.outcome, WEIR_ALLOW);
    assert_int_equal(left(contract, "tenant=k", S), 2);

    assert_int_equal(weir_contract_reserve(contract, &request, S, S, &answer, &ticket), 0);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(left(contract, "tenant=k", S), 2);
    assert_int_equal(weir_contract_refund(contract, &request, S, &settled), 0); /* nothing was taken */
    assert_int_equal(settled.returned, 0);
    assert_int_equal(settled.limit, WEIR_NO_LIMIT);

    (void)acquire(contract, "tenant=k", 2, S, &permits[0]);
    assert_int_equal(ask(contract, "tenant=k", 1, S).decision.outcome, WEIR_DENY);
    assert_int_equal(ask(contract, "tenant=k", 1, S).decision.retry_at, 31 * S);
    assert_int_equal(weir_contract_reserve(contract, &request, S, S, &answer, &ticket), 0);
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(weir_contract_refund(contract, &request, S, &settled), 0); /* what is held stays held */
    assert_int_equal(left(contract, "tenant=k", S), 0);

    request.is_peek = true; /* an acquire that only looks */
    assert_int_equal(weir_contract_acquire(contract, &request, 31 * S, &answer, &permits[1]), 0);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(permits[1].len, 0);
    assert_int_equal(left(contract, "tenant=k", 31 * S), 2);
    weir_contract_free(contract);
}

/* A request that no concurrency limit counts has nothing to return. */
static void requests_without_a_permit(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n"
             " - { name: rate, when: { path: /r }, key: [tenant], rate: 1/s, burst: 1 }\n"
             " - { name: need, when: { path: /n }, key: [tenant], missing-key: refuse, algorithm: concurrency, "
             "at-most: 1,"
             " hold: 30s }\n"
             " - { name: shade, when: { path: /s }, key: [tenant], missing-key: share, algorithm: concurrency, "
             "at-most: 1,"
             " hold: 30s, enforce: shadow }\n"
             " - { name: free, when: { path: /f }, key: [tenant], missing-key: share, algorithm: concurrency, "
             "at-most: 1,"
             " hold: 30s, overrides: [ { key: { tenant: big }, unlimited: true } ] }\n");
    static const struct {
        const char *why, *request;
        enum weir_outcome outcome;
        size_t count;
        bool has_permit;
    } rows[] = {
        { "meets nothing", "path=/x", WEIR_ALLOW, 0, false },
        { "a rate alone", "path=/r tenant=k", WEIR_ALLOW, 1, false },
        { "the rate refuses", "path=/r tenant=k", WEIR_DENY, 1, false },
        { "without the key that is needed", "path=/n", WEIR_NEVER, 1, false },
        { "a shadow gives none", "path=/s", WEIR_ALLOW, 1, false },
        { "and so never fills", "path=/s", WEIR_ALLOW, 1, false },
        { "no bound, nothing counted", "path=/f tenant=big", WEIR_ALLOW, 1, false },
        { "its neighbour is counted", "path=/f tenant=k", WEIR_ALLOW, 1, true },
        { "and refused", "path=/f tenant=k", WEIR_DENY, 1, false },
        { "with the key", "path=/n tenant=k", WEIR_ALLOW, 1, true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_permit permit;
        struct weir_answer answer = acquire(contract, rows[i].request, 1, S, &permit);
        if (answer.decision.outcome != rows[i].outcome || answer.count != rows[i].count
            || (permit.len > 0) != rows[i].has_permit)
            fail_msg("%s: outcome %d of %zu limits, permit of %zu bytes", rows[i].why,
                     (int)answer.decision.outcome, answer.count, permit.len);
    }
    weir_contract_free(contract);
}

/* B57 with permits: where a rate refuses, no permit is given, and where the permits are gone, no rate is charged. */
static void all_or_nothing_with_rates(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n"
             " - { name: rate, key: [tenant], rate: 1/s, burst: 3 }\n" CONCURRENT("c", "2", ""));
    struct weir_permit permits[4];
    for (int i = 0; i < 2; i++)
        assert_int_equal(acquire(contract, "tenant=k", 1, 0, &permits[i]).decision.outcome, WEIR_ALLOW);
    struct weir_answer answer = acquire(contract, "tenant=k", 1, 0, &permits[2]);
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(answer.decision.limit, 1);
    assert_int_equal(answer.count, 2);
    assert_int_equal(answer.each[0].outcome, WEIR_ALLOW);
    assert_int_equal(answer.each[0].remaining, 1); /* not charged */
    assert_int_equal(permits[2].len, 0);

    assert_true(release(contract, &permits[0], 0));
    assert_int_equal(acquire(contract, "tenant=k", 1, 0, &permits[2]).decision.outcome, WEIR_ALLOW);
    assert_true(release(contract, &permits[1], 0));
    answer = acquire(contract, "tenant=k", 1, 0, &permits[3]); /* a permit is free, a token is not */
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(answer.decision.limit, 0);
    assert_int_equal(answer.each[1].outcome, WEIR_ALLOW);
    assert_int_equal(answer.each[1].remaining, 1);
    assert_int_equal(permits[3].len, 0);
    weir_contract_free(contract);
}

/* ---- Through a restart and through reloads ------------------------------------------------------------------------------ */

static void a_restart_may_give_none_for_one_hold(void **state)
{
    (void)state;
    const char *text = "weir: 1\nlimits:\n" CONCURRENT("c", "2", ", when-state-lost: empty");
    struct weir_contract_options options = { .has_wall_offset = true, .lost_at = 100 * S };
    struct loaded loaded = contract_with(text, strlen(text), &options);
    struct weir_permit permit;
    assert_int_equal(loaded.error, 0);
    struct weir_answer answer = acquire(loaded.contract, "tenant=k", 1, 100 * S, &permit);
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(answer.decision.retry_at, 130 * S); /* by then those of before have expired */
    assert_int_equal(acquire(loaded.contract, "tenant=k", 2, 130 * S, &permit).decision.outcome, WEIR_ALLOW);
    loaded_free(&loaded);
}

static void reload(struct weir_contract *contract, const char *text, weir_ns now, struct weir_reload *counts)
{
    assert_int_equal(weir_contract_reload(contract, text, strlen(text), "t.yaml", now, counts, NULL), 0);
    weir_contract_quiesce(contract, now);
}

#define B54_LIMITS(name, other) \
    "weir: 1\nlimits:\n" CONCURRENT( \
        name, "5", "") " - { name: other, when: { path: /o }, key: [], rate: " other ", burst: 5 }\n"

/* The part of B54 with held permits: five of them, and a reload each second. */
static void B54_reloads_free_no_permit(void **state)
{
    (void)state;
    struct weir_contract *contract = load(B54_LIMITS("c", "1/s"));
    struct weir_permit permits[5], other;
    struct weir_reload counts;
    weir_ns expires_at;
    for (int i = 0; i < 5; i++)
        assert_int_equal(acquire(contract, "tenant=k", 1, 0, &permits[i]).decision.outcome, WEIR_ALLOW);
    for (unsigned second = 1; second <= 29; second++) {
        reload(contract, B54_LIMITS("c", "1/s"), second * S, &counts);
        assert_int_equal(counts.kept, 2);
        assert_int_equal(acquire(contract, "tenant=k", 1, second * S, &other).decision.outcome, WEIR_DENY);
    }
    assert_int_equal(
        weir_renew(weir_contract_limiter(contract), permits[4].bytes, permits[4].len, 29 * S, &expires_at), 0);
    assert_int_equal(expires_at, 59 * S);
    assert_true(release(contract, &permits[0], 29 * S)); /* a release of before the reloads counts once */
    assert_false(release(contract, &permits[0], 29 * S));
    assert_int_equal(left(contract, "tenant=k", 29 * S), 1);
    assert_int_equal(left(contract, "tenant=k", 30 * S), 4); /* three holders did not renew */

    reload(contract, B54_LIMITS("c", "2/s"), 31 * S, &counts); /* an unrelated limit */
    assert_int_equal(counts.kept, 1);
    assert_int_equal(counts.resized, 1);
    assert_int_equal(left(contract, "tenant=k", 31 * S), 4);

    reload(contract, B54_LIMITS("renamed", "2/s"), 32 * S, &counts); /* another limit: whole, and told */
    assert_int_equal(counts.added, 1);
    assert_int_equal(counts.removed, 1);
    assert_int_equal(left(contract, "tenant=k", 32 * S), 5);
    assert_false(release(contract, &permits[4], 33 * S)); /* its limit is gone: a no-op, never below nothing */
    assert_int_equal(left(contract, "tenant=k", 33 * S), 5);
    weir_contract_free(contract);
}

/* What changes while permits are held, and what stays. */
static void changed_numbers_reach_held_permits(void **state)
{
    (void)state;
    struct weir_contract *contract = load("weir: 1\nlimits:\n" CONCURRENT("c", "4", ""));
    struct weir_permit permits[5];
    struct weir_reload counts;
    weir_ns expires_at;
    for (int i = 0; i < 3; i++)
        (void)acquire(contract, "tenant=k", 1, 0, &permits[i]);
    reload(contract, "weir: 1\nlimits:\n" CONCURRENT("c", "2", ""), S, &counts);
    assert_int_equal(counts.resized, 1);
    assert_int_equal(left(contract, "tenant=k", S), 0); /* three are held of two */
    assert_true(release(contract, &permits[0], S));
    assert_int_equal(acquire(contract, "tenant=k", 1, S, &permits[3]).decision.outcome, WEIR_DENY);
    assert_true(release(contract, &permits[1], S));
    assert_int_equal(acquire(contract, "tenant=k", 1, S, &permits[3]).decision.outcome, WEIR_ALLOW);

    reload(contract,
           "weir: 1\nlimits:\n - { name: c, key: [tenant], algorithm: concurrency, at-most: 9, hold: 5s }\n",
           2 * S, &counts);
    assert_int_equal(counts.resized, 1);
    assert_int_equal(left(contract, "tenant=k", 2 * S), 7);
    assert_int_equal(left(contract, "tenant=k", 7 * S), 7); /* who holds for 30 s does */
    assert_int_equal(
        weir_renew(weir_contract_limiter(contract), permits[3].bytes, permits[3].len, 8 * S, &expires_at), 0);
    assert_int_equal(expires_at, 13 * S); /* and renews for five */
    assert_int_equal(acquire(contract, "tenant=k", 1, 8 * S, &permits[4]).decision.outcome, WEIR_ALLOW);
    assert_int_equal(permits[4].expires_at, 13 * S);

    reload(contract,
           "weir: 1\nlimits:\n - { name: c, key: [tenant], algorithm: concurrency, at-most: 9, hold: 5s,"
           " wait: { up-to: 2s, queue: 5 } }\n",
           9 * S, &counts);
    assert_int_equal(counts.resized, 1); /* a queue more */
    assert_int_equal(left(contract, "tenant=k", 9 * S), 6);
    reload(contract, "weir: 1\nlimits:\n - { name: c, key: [tenant], rate: 5/s, burst: 5 }\n", 10 * S, &counts);
    assert_int_equal(counts.restarted, 1); /* another algorithm */
    weir_contract_free(contract);
}

#define ONE_BUDGET " - { name: c, key: [], algorithm: concurrency, at-most: 4, hold: 30s }\n"

/* Each alone makes the difference; what was reserved and opened at the start stays as it is. */
static void what_is_not_read_again_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *why, *head, *said; /* the one warning; NULL: none */
    } rows[] = {
        { "the same", "server: { auth-wait: true }\nmemory: { permits: 100 }\n", NULL },
        { "fewer permits", "server: { auth-wait: true }\nmemory: { permits: 99 }\n",
          "memory differs from when the program started: a reload does not read it again" },
        { "another form of the log",
          "server: { auth-wait: true, log-format: json }\nmemory: { permits: 100 }\n",
          "server differs from when the program started: a reload does not read it again" },
        { "another door", "server: { auth-wait: true, resp: 6380 }\nmemory: { permits: 100 }\n",
          "server differs from when the program started: a reload does not read it again" },
        { "another certificate",
          "server: { auth-wait: true, tls: { cert: a.pem, key: a.key } }\nmemory: { permits: 100 }\n",
          "server differs from when the program started: a reload does not read it again" },
        { "no waiting at the auth doors", "server: { auth-wait: false }\nmemory: { permits: 100 }\n",
          "server differs from when the program started: a reload does not read it again" },
    };
    struct weir_contract *contract =
        load("weir: 1\nserver: { auth-wait: true }\nmemory: { permits: 100 }\nlimits:\n" ONE_BUDGET);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[300];
        struct weir_diagnostics *found;
        struct weir_stats stats;
        snprintf(text, sizeof text, "weir: 1\n%slimits:\n" ONE_BUDGET, rows[i].head);
        assert_int_equal(weir_contract_reload(contract, text, strlen(text), "t.yaml", 0, NULL, &found), 0);
        weir_contract_quiesce(contract, 0);
        assert_int_equal(weir_diagnostics_count(found), rows[i].said != NULL);
        if (rows[i].said != NULL)
            assert_string_equal(weir_diagnostics_at(found, 0)->message, rows[i].said);
        weir_diagnostics_free(found);
        weir_stats(weir_contract_limiter(contract), 0, &stats);
        assert_int_equal(stats.permits, 100);
        assert_true(weir_contract_server(contract)->auth_wait);
    }
    weir_contract_free(contract);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_gets_a_permit),
        cmocka_unit_test(other_calls_only_look),
        cmocka_unit_test(requests_without_a_permit),
        cmocka_unit_test(all_or_nothing_with_rates),
        cmocka_unit_test(a_restart_may_give_none_for_one_hold),
        cmocka_unit_test(B54_reloads_free_no_permit),
        cmocka_unit_test(changed_numbers_reach_held_permits),
        cmocka_unit_test(what_is_not_read_again_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
