// SPDX-License-Identifier: Apache-2.0
/*
 * test_contract_waits.c - requests that wait for what a contract limits: who does, in which order they leave, and the answer
 * when it comes, which is in the words of the contract of then.
 */
#include "support/contracts.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define S WEIR_SECOND
#define PARTS_MAX 4

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

/* One caller; `done_at` is when its turn or its deadline came. */
struct caller {
    struct weir_waiter waiter;
    struct weir_waiter_part parts[PARTS_MAX];
    bool has_ended;
};

static void end(struct weir_waiter *waiter)
{
    struct caller *caller = waiter->owner;
    assert_false(caller->has_ended);
    caller->has_ended = true;
}

/* Ask, as a caller who can wait for `patience`. */
static struct weir_answer wait_for(const struct weir_contract *contract, struct caller *caller,
                                   const char *request, uint64_t cost, weir_ns patience, weir_ns now)
{
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    struct weir_answer answer;
    char copy[200];
    bool acquires = caller->waiter.acquires;
    *caller = (struct caller){ .waiter = { .acquires = acquires, .done = end } };
    caller->waiter.parts = caller->parts;
    caller->waiter.part_room = PARTS_MAX;
    caller->waiter.owner = caller;
    snprintf(copy, sizeof copy, "%s", request);
    struct weir_request asked = { .attributes = attributes,
                                  .attribute_count = attributes_of(copy, attributes),
                                  .cost = cost,
                                  .wait = patience };
    assert_int_equal(weir_contract_wait(contract, &asked, now, &caller->waiter, &answer), 0);
    return answer;
}

/* Let time pass: each waiter is ended at its instant. */
static void pass(const struct weir_contract *contract, weir_ns until)
{
    struct weir *limiter = weir_contract_limiter(contract);
    weir_ns at;
    while ((at = weir_wait_next(limiter)) <= until)
        (void)weir_wait_tick(limiter, at, 1);
    (void)weir_wait_tick(limiter, until, 100);
}

static void reload(struct weir_contract *contract, const char *text, weir_ns now)
{
    assert_int_equal(weir_contract_reload(contract, text, strlen(text), "t.yaml", now, NULL, NULL), 0);
    weir_contract_quiesce(contract, now);
}

/* ---- Turns ------------------------------------------------------------------------------------------------------------- */

#define PACED \
    " - { name: paced, when: { path: /p }, key: [], algorithm: leaky-queue, rate: 5/s, wait: { up-to: 30s, " \
    "queue: 100 } }\n"

/* B29 (a) and (c): a hundred at 5/s leave every 200 ms, and who gives up moves those behind up. */
static void B29_a_hundred_leave_in_order(void **state)
{
    (void)state;
    static struct caller callers[100];
    struct weir_contract *contract = load("weir: 1\nlimits:\n" PACED);
    struct weir_answer answer = wait_for(contract, &callers[0], "path=/p", 1, 30 * S, 0);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW); /* the first is there at once */
    assert_int_equal(answer.count, 1);
    for (int i = 1; i < 100; i++) {
        answer = wait_for(contract, &callers[i], "path=/p", 1, 30 * S, 0);
        assert_int_equal(answer.decision.outcome, WEIR_WAIT);
        assert_int_equal(answer.decision.retry_at, (weir_ns)i * 200 * MS);
        assert_int_equal(answer.count, 0);
    }
    for (int i = 1; i < 100; i++) {
        /* The fiftieth gives up at 3 s, before the sixteenth leaves: from there on everybody is 200 ms earlier. */
        weir_ns at = (weir_ns)(i < 50 ? i : i - 1) * 200 * MS;
        if (i == 16)
            assert_true(weir_wait_cancel(weir_contract_limiter(contract), &callers[49].waiter, 3 * S));
        if (i == 49)
            continue;
        pass(contract, at - 1);
        if (callers[i].has_ended)
            fail_msg("caller %d left early", i);
        pass(contract, at);
        if (!callers[i].has_ended)
            fail_msg("caller %d did not leave at %llu ms", i, (unsigned long long)(at / MS));
        weir_contract_waited(contract, &callers[i].waiter, &answer);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        assert_int_equal(answer.decision.decided_at, at);
        assert_int_equal(callers[i].waiter.waited, at);
    }
    assert_false(callers[49].has_ended);
    assert_int_equal(weir_wait_next(weir_contract_limiter(contract)), WEIR_NO_TIME);
    weir_contract_free(contract);
}

/* Who is not let wait is told when to come back, behind those who are. */
static void who_waits(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n"
             " - { name: q, when: { path: /q }, key: [], algorithm: leaky-queue, rate: 1/s, wait: { up-to: 2s, "
             "queue: 5 } }\n"
             " - { name: s, when: { path: /s }, key: [], algorithm: leaky-queue, rate: 1/s, wait: { up-to: 1m, "
             "queue: 1 } }\n"
             " - { name: b, when: { path: /b }, key: [], rate: 1/s, burst: 1 }\n"
             " - { name: bq, when: { path: /b/q }, key: [], rate: 1/s, burst: 9 }\n"
             " - { name: bq2, when: { path: /b/q }, key: [], rate: 1/s, burst: 1, wait: { up-to: 1m, queue: 9 "
             "} }\n");
    static const struct {
        const char *why, *request;
        weir_ns patience;
        enum weir_outcome outcome;
        weir_ns retry_at;
    } rows[] = {
        { "the first takes", "path=/q", 9 * S, WEIR_ALLOW, 0 },
        { "no patience", "path=/q", 0, WEIR_DENY, 1 * S },
        { "too little", "path=/q", S - 1, WEIR_DENY, 1 * S },
        { "just enough", "path=/q", S, WEIR_WAIT, 1 * S },
        { "the contract's bound", "path=/q", 9 * S, WEIR_WAIT, 2 * S },
        { "is smaller than this one's patience", "path=/q", 9 * S, WEIR_DENY, 3 * S },
        { "who does not wait comes back behind them", "path=/q", 0, WEIR_DENY, 3 * S },
        { "a queue of one: first", "path=/s", 9 * S, WEIR_ALLOW, 0 },
        { "second", "path=/s", 9 * S, WEIR_WAIT, 1 * S },
        { "third", "path=/s", 9 * S, WEIR_DENY, 2 * S },
        { "a limit without wait: passes", "path=/b", 9 * S, WEIR_ALLOW, 0 },
        { "refuses at once", "path=/b", 9 * S, WEIR_DENY, 1 * S },
        { "two limits: both pass", "path=/b/q", 9 * S, WEIR_ALLOW, 0 },
        { "only the one with wait refuses", "path=/b/q", 9 * S, WEIR_WAIT, 1 * S },
        { "no limit", "path=/x", 9 * S, WEIR_ALLOW, 0 },
    };
    static struct caller callers[COUNT_OF(rows)];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_answer answer = wait_for(contract, &callers[i], rows[i].request, 1, rows[i].patience, 0);
        if (answer.decision.outcome != rows[i].outcome || answer.decision.retry_at != rows[i].retry_at)
            fail_msg("%s: outcome %d, retry at %llu ms", rows[i].why, (int)answer.decision.outcome,
                     (unsigned long long)(answer.decision.retry_at / MS));
    }
    pass(contract, 30 * S);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (callers[i].has_ended != (rows[i].outcome == WEIR_WAIT))
            fail_msg("%s: done() came or did not", rows[i].why);
    weir_contract_free(contract);
}

/* ---- Requests that never wait ------------------------------------------------------------------------------------------ */

static void who_never_waits(void **state)
{
    (void)state;
    struct weir_contract *contract = load(
        "weir: 1\nlimits:\n"
        " - { name: key, when: { path: \"/k/**\" }, key: [tenant], missing-key: refuse, rate: 1/s, burst: 9 }\n"
        " - { name: wait, when: { path: \"/k/**\" }, key: [], rate: 1/s, burst: 1, wait: { up-to: 1m, queue: 9 "
        "} }\n"
        " - { name: shade, when: { path: /s }, key: [], rate: 1/s, burst: 1, enforce: shadow,"
        " wait: { up-to: 1m, queue: 9 } }\n");
    static struct caller callers[5];
    struct weir_answer answer = wait_for(contract, &callers[0], "path=/k/x", 1, 9 * S, 0);
    assert_int_equal(answer.decision.outcome, WEIR_NEVER); /* lacks its key */
    assert_int_equal(answer.decision.reason, WEIR_REASON_MISSING_KEY);
    assert_int_equal(answer.count, 2);
    assert_int_equal(answer.each[1].outcome, WEIR_ALLOW);
    assert_int_equal(answer.each[1].remaining, 1); /* charged nothing */
    assert_int_equal(callers[0].waiter.count, 0);

    answer = wait_for(contract, &callers[1], "path=/k/x tenant=t", 1, 9 * S, 0);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    answer =
        wait_for(contract, &callers[2], "path=/k/x", 1, 9 * S, 0); /* there would be something to wait for */
    assert_int_equal(answer.decision.outcome, WEIR_NEVER);

    for (int i = 3; i < 5; i++) { /* a shadow makes nobody wait */
        answer = wait_for(contract, &callers[i], "path=/s", 1, 9 * S, 0);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        assert_int_equal(answer.decision.limit, WEIR_NO_LIMIT);
        assert_int_equal(answer.watched, 1);
        assert_int_equal(answer.each[0].outcome, i == 3 ? WEIR_ALLOW : WEIR_DENY);
    }
    struct weir_permit permit;
    weir_waiter_permit(weir_contract_limiter(contract), &callers[4].waiter, &permit);
    assert_int_equal(permit.len, 0);

    struct weir_attribute path = { "path", "/k/x", 0 },
                          both[] = { { "path", "/k/x", 0 }, { "tenant", "t", 0 } };
    struct weir_request look = {
        .attributes = both, .attribute_count = 2, .cost = 1, .is_peek = true, .wait = 9 * S
    };
    assert_int_equal(weir_contract_wait(contract, &look, 0, &callers[4].waiter, &answer), 0);
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(weir_wait_next(weir_contract_limiter(contract)), WEIR_NO_TIME);

    path.name = "Path"; /* no name of an attribute */
    struct weir_request bad = { .attributes = &path, .attribute_count = 1, .cost = 1, .wait = 9 * S };
    assert_int_equal(weir_contract_wait(contract, &bad, 0, &callers[4].waiter, &answer), WEIR_ERR_ATTRIBUTE);
    struct weir_request asked = { .attributes = both, .attribute_count = 2, .cost = 1, .wait = 9 * S };
    callers[4].waiter.part_room = 1; /* it meets two */
    assert_int_equal(weir_contract_wait(contract, &asked, 0, &callers[4].waiter, &answer), WEIR_ERR_WAITER);
    assert_int_equal(weir_wait_next(weir_contract_limiter(contract)), WEIR_NO_TIME);
    weir_contract_free(contract);
}

/* ---- Whether it is worth asking ------------------------------------------------------------------------------------------ */

static void B57_answers_that_may_wait(void **state)
{
    (void)state;
    struct weir_contract *contract = load(
        "weir: 1\nlimits:\n"
        " - { name: wait, when: { path: \"/w/**\" }, key: [], rate: 1/s, burst: 1, wait: { up-to: 1m, queue: 9 "
        "} }\n"
        " - { name: plain, when: { path: \"/w/p/**\" }, key: [], rate: 1/m, burst: 2 }\n"
        " - { name: shade, when: { path: \"/w/s/**\" }, key: [], rate: 1/m, burst: 1, enforce: shadow }\n"
        " - { name: key, when: { path: \"/w/k/**\" }, key: [tenant], missing-key: refuse, rate: 1/s, burst: 9 "
        "}\n"
        " - { name: small, when: { path: \"/w/c/**\" }, key: [], rate: 1/s, burst: 9, cost: { from: n } }\n");
    static const struct {
        const char *why, *request;
        enum weir_outcome outcome;
        bool may_wait;
    } rows[] = {
        { "nothing to wait for", "path=/w/s", WEIR_ALLOW, false },
        { "the one that refuses lets wait", "path=/w/x", WEIR_DENY, true },
        { "the other one passes", "path=/w/p", WEIR_DENY, true },
        { "a shadow that would refuse does not count", "path=/w/s", WEIR_DENY, true },
        { "never cannot be waited for", "path=/w/k", WEIR_NEVER, false },
        { "nor what is too large", "path=/w/c n=10", WEIR_NEVER, false },
        { "no limit", "path=/x", WEIR_ALLOW, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_answer answer = ask(contract, rows[i].request, 1, 0);
        if (answer.decision.outcome != rows[i].outcome || weir_answer_may_wait(&answer) != rows[i].may_wait)
            fail_msg("%s: outcome %d", rows[i].why, (int)answer.decision.outcome);
    }
    (void)ask(contract, "path=/w/p", 1, 2 * S); /* takes the other's last */
    (void)ask(contract, "path=/w/p", 1, 4 * S);
    struct weir_answer answer = ask(contract, "path=/w/p", 1, 6 * S);
    assert_int_equal(answer.decision.outcome, WEIR_DENY); /* the plain one refuses, the other would not */
    assert_false(weir_answer_may_wait(&answer));
    weir_contract_free(contract);
}

/* ---- The answer ------------------------------------------------------------------------------------------------------------ */

/* In contract order, watched limits among the rest and marked, whether it came at once or later. */
static void the_answer_is_in_contract_order(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n"
             " - { name: shade, key: [], rate: 1/h, burst: 1, enforce: shadow }\n"
             " - { name: paced, key: [], algorithm: leaky-queue, rate: 1/s, wait: { up-to: 1m, queue: 9 } }\n"
             " - { name: gone, key: [tenant], missing-key: refuse, rate: 1/s, burst: 9, enforce: shadow }\n"
             " - { name: deep, key: [], rate: 1/h, burst: 5 }\n");
    static struct caller callers[3];
    struct weir_answer answer =
        wait_for(contract, &callers[0], "path=/", 1, 9 * S, 0); /* lacks the key of a shadow */
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(answer.count, 4);
    assert_int_equal(answer.watched, 1 | 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(answer.each[i].limit, i);
    assert_int_equal(answer.each[2].outcome, WEIR_NEVER);
    assert_int_equal(answer.each[3].remaining, 4);

    answer = wait_for(contract, &callers[1], "path=/ tenant=t", 1, 9 * S, 0);
    assert_int_equal(answer.decision.outcome, WEIR_WAIT);
    pass(contract, S);
    assert_true(callers[1].has_ended);
    weir_contract_waited(contract, &callers[1].waiter, &answer);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(answer.decision.limit, 1);
    assert_int_equal(answer.count, 4);
    assert_int_equal(answer.watched, 1 | 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(answer.each[i].limit, i);
    assert_int_equal(answer.each[0].outcome, WEIR_DENY); /* what it would have said */
    assert_int_equal(answer.each[2].remaining, 8);
    assert_int_equal(answer.each[3].remaining, 3);
    assert_string_equal(answer.limits[answer.decision.limit].name, "paced");

    answer = wait_for(contract, &callers[2], "path=/", 1, S / 2, S); /* the next turn is at 2 s */
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(answer.decision.limit, 1);
    assert_int_equal(answer.count, 4);
    assert_int_equal(answer.each[3].remaining, 3); /* charged nowhere */
    weir_contract_free(contract);
}

/* B54: waiters keep their places across a reload; the answer is in the words of the contract that is in force then. */
static void B54_waiters_keep_their_places(void **state)
{
    (void)state;
    struct weir_contract *contract =
        load("weir: 1\nlimits:\n"
             " - { name: gone, key: [], rate: 1/h, burst: 9 }\n"
             " - { name: paced, key: [], algorithm: leaky-queue, rate: 1/s, wait: { up-to: 1m, queue: 9 } }\n"
             " - { name: shade, key: [], rate: 1/h, burst: 9, enforce: shadow }\n"
             " - { name: deep, key: [], rate: 1/h, burst: 9 }\n");
    static const char *const next = "weir: 1\nlimits:\n"
                                    " - { name: deep, key: [], rate: 1/h, burst: 9 }\n"
                                    " - { name: shade, key: [], rate: 1/h, burst: 9, enforce: shadow }\n"
                                    " - { name: new, key: [], rate: 1/h, burst: 9 }\n"
                                    " - { name: paced, key: [], algorithm: leaky-queue, rate: 2/s,"
                                    " wait: { up-to: 1m, queue: 9 } }\n";
    static struct caller callers[4];
    struct weir_answer answer;
    for (int i = 0; i < 4; i++)
        (void)wait_for(contract, &callers[i], "path=/", 1, 30 * S, 0);
    reload(contract, next, S / 2); /* twice as fast: half of what is missing has come */
    static const weir_ns turns[] = { 0, 750 * MS, 1250 * MS, 1750 * MS };
    for (int i = 1; i < 4; i++) {
        reload(contract, next, turns[i] - 1);
        assert_false(callers[i].has_ended);
        pass(contract, turns[i]);
        if (!callers[i].has_ended)
            fail_msg("caller %d is not served at %llu ms", i, (unsigned long long)(turns[i] / MS));
        weir_contract_waited(contract, &callers[i].waiter, &answer);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        assert_int_equal(answer.count, 3); /* of the limits that it asked: the one that is gone is left out */
        assert_string_equal(answer.limits[answer.each[0].limit].name, "deep");
        assert_string_equal(answer.limits[answer.each[1].limit].name, "shade");
        assert_string_equal(answer.limits[answer.each[2].limit].name, "paced");
        assert_int_equal(answer.watched, 2);
        assert_string_equal(answer.limits[answer.decision.limit].name, "paced");
    }
    weir_contract_free(contract);
}

/* ---- Permits ----------------------------------------------------------------------------------------------------------------- */

static void permits_are_waited_for(void **state)
{
    (void)state;
    struct weir_contract *contract = load("weir: 1\nlimits:\n"
                                          " - { name: rate, key: [], rate: 1/h, burst: 9 }\n"
                                          " - { name: c, key: [], algorithm: concurrency, at-most: 1, hold: "
                                          "30s, wait: { up-to: 5s, queue: 2 } }\n");
    struct weir *limiter = weir_contract_limiter(contract);
    static struct caller callers[5];
    struct weir_permit permits[3], none;
    for (int i = 0; i < 5; i++)
        callers[i].waiter.acquires = i != 3;
    struct weir_answer answer = wait_for(contract, &callers[0], "path=/", 1, 9 * S, 0);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    weir_waiter_permit(limiter, &callers[0].waiter, &permits[0]);
    assert_true(permits[0].len > 0);
    assert_int_equal(permits[0].expires_at, 30 * S);

    for (int i = 1; i < 3; i++)
        assert_int_equal(wait_for(contract, &callers[i], "path=/", 1, 9 * S, 0).decision.outcome, WEIR_WAIT);
    answer = wait_for(contract, &callers[3], "path=/", 1, 9 * S, 0); /* who only looks cannot wait */
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    answer = wait_for(contract, &callers[4], "path=/", 1, 9 * S, 0); /* the queue is full */
    assert_int_equal(answer.decision.outcome, WEIR_DENY);

    bool was_held;
    assert_int_equal(weir_release(limiter, permits[0].bytes, permits[0].len, 2 * S, &was_held), 0);
    pass(contract, 2 * S);
    assert_true(callers[1].has_ended);
    weir_contract_waited(contract, &callers[1].waiter, &answer);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(answer.each[0].remaining, 7); /* the rate was charged at the turn */
    weir_waiter_permit(limiter, &callers[1].waiter, &permits[1]);
    assert_true(permits[1].fence > permits[0].fence);
    assert_int_equal(permits[1].expires_at, 32 * S);

    pass(contract, 5 * S); /* up-to ends the other's wait */
    assert_true(callers[2].has_ended);
    weir_contract_waited(contract, &callers[2].waiter, &answer);
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(answer.decision.limit, 1);
    assert_int_equal(answer.decision.retry_at, 32 * S);
    assert_int_equal(callers[2].waiter.waited, 5 * S);
    weir_waiter_permit(limiter, &callers[2].waiter, &none);
    assert_int_equal(none.len, 0);
    weir_contract_free(contract);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B29_a_hundred_leave_in_order),
        cmocka_unit_test(who_waits),
        cmocka_unit_test(who_never_waits),
        cmocka_unit_test(B57_answers_that_may_wait),
        cmocka_unit_test(the_answer_is_in_contract_order),
        cmocka_unit_test(B54_waiters_keep_their_places),
        cmocka_unit_test(permits_are_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
