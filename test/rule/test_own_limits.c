// SPDX-License-Identifier: Apache-2.0
/*
 * test_own_limits.c - limits that requests bring along: beside the contract's, in one decision.
 *
 * Windows against counts on paper, buckets against GCRA in rational numbers.
 */
#include "support/calls.h"
#include "support/contracts.h"
#include "support/random.h"
#include "support/unit.h"

#define S WEIR_SECOND

static const char contract[] = "weir: 1\n"
                               "limits:\n"
                               "- { name: a, key: [a], rate: 3/d, algorithm: fixed-window }\n"
                               "- { name: b, key: [b], rate: 1/s, burst: 1, wait: { up-to: 9s, queue: 9 } }\n";

static struct loaded load(const char *text, enum weir_fleet fleet)
{
    const struct weir_contract_options options = {
        .keys = 256, .has_wall_offset = true, .has_throttle = true, .fleet = fleet, .has_store = true
    };
    struct loaded loaded = contract_with(text, strlen(text), &options);
    if (loaded.error != 0)
        fail_msg("%s", loaded.printed);
    return loaded;
}

static struct weir_own_limit own(const char *key, uint64_t requests, weir_ns period)
{
    return (
        struct weir_own_limit){ .key = key, .key_len = strlen(key), .requests = requests, .period = period };
}

static struct weir_answer decide(const struct weir_contract *at, const struct weir_request *request,
                                 weir_ns now)
{
    struct weir_answer answer;
    int error = weir_contract_decide(at, request, now, &answer);
    if (error != 0)
        fail_msg("%s", weir_error_name(error));
    return answer;
}

static uint64_t left(const struct weir_answer *answer, size_t i, const struct weir_own_limit *limit)
{
    assert_int_equal(answer->each[i].limit, WEIR_NO_LIMIT);
    return (uint64_t)((weir_u128_)answer->each[i].remaining * limit->requests / answer->each[i].capacity);
}

/* One descriptor of a call, three times 2 a minute, then 100 a minute: what was used is used, and refusals are free. */
static void B56_d_a_new_size_reaches_the_key_at_once(void **state)
{
    (void)state;
    struct loaded loaded = load(contract, WEIR_FLEET_NONE);
    static struct call_text call;
    unsigned char key[WEIR_DESCRIPTOR_KEY_MAX];
    call_read(&call, "d | path=/");
    struct weir_own_limit limit = { .key = key, .requests = 2, .period = WEIR_MINUTE };
    limit.key_len = weir_descriptor_key("d", 1, &call.descriptors[0], key);
    struct weir_request request = { .cost = 1, .own = &limit };
    static const enum weir_outcome outcomes[] = { WEIR_ALLOW, WEIR_ALLOW, WEIR_DENY };
    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        struct weir_answer answer = decide(loaded.contract, &request, S);
        assert_int_equal(answer.decision.outcome, outcomes[i]);
        assert_int_equal(left(&answer, 0, &limit), i == 0 ? 1 : 0);
        if (outcomes[i] == WEIR_DENY)
            assert_int_equal(answer.decision.retry_at, 60 * S); /* the next window */
    }
    limit.requests = 100;
    struct weir_answer answer = decide(loaded.contract, &request, S);
    assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(left(&answer, 0, &limit), 97); /* 3 of 100 are used */
    limit.requests = 3;
    assert_int_equal(decide(loaded.contract, &request, S).decision.outcome, WEIR_DENY);
    limit.requests = 2; /* below what is used */
    answer = decide(loaded.contract, &request, S);
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(left(&answer, 0, &limit), 0);
    assert_int_equal(decide(loaded.contract, &request, 60 * S).decision.outcome, WEIR_ALLOW);
    loaded_free(&loaded);
}

static void units_and_what_is_no_unit(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        uint64_t requests;
        weir_ns period, at, retry_at; /* of the request behind the last that passes, all at `at` */
    } rows[] = {
        { "a second", 3, S, 5 * S + 1, 6 * S },
        { "a minute", 3, WEIR_MINUTE, 59 * S, 60 * S },
        { "an hour", 3, WEIR_HOUR, 59 * S, 3600 * S },
        { "a day", 3, WEIR_DAY, 59 * S, 86400 * S },
        { "a month has 30 days", 3, 30 * WEIR_DAY, 59 * S, 30 * WEIR_DAY },
        { "a year has 365 days", 3, 365 * WEIR_DAY, 59 * S, 365 * WEIR_DAY },
        { "five minutes are a bucket: one comes back in 100 s", 3, 5 * WEIR_MINUTE, 59 * S, 159 * S },
        { "a seventh of ten seconds, rounded up", 7, 10 * S, 59 * S, 59 * S + 1428571429 },
        { "more than there are nanoseconds: one each", 20, 10, 5, 6 },
        { "many", UINT32_MAX, WEIR_MINUTE, 59 * S, 60 * S },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct loaded loaded =
            load(contract, WEIR_FLEET_NONE); /* its clock does not step back from row to row */
        struct weir_own_limit limit = own("k", rows[i].requests, rows[i].period);
        struct weir_request request = { .cost = rows[i].requests, .own = &limit };
        struct weir_answer answer = decide(loaded.contract, &request, rows[i].at);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        assert_int_equal(left(&answer, 0, &limit), 0);
        request.cost = 1;
        answer = decide(loaded.contract, &request, rows[i].at);
        if (answer.decision.outcome != WEIR_DENY || answer.decision.retry_at != rows[i].retry_at)
            fail_msg("%s: outcome %d, again at %llu", rows[i].why, (int)answer.decision.outcome,
                     (unsigned long long)answer.decision.retry_at);
        assert_int_equal(decide(loaded.contract, &request, rows[i].retry_at).decision.outcome, WEIR_ALLOW);
        request.cost = rows[i].requests + 1;
        assert_int_equal(decide(loaded.contract, &request, rows[i].at).decision.outcome, WEIR_NEVER);
        loaded_free(&loaded);
    }
}

static void looks_zeros_and_faults(void **state)
{
    (void)state;
    struct loaded loaded = load(contract, WEIR_FLEET_NONE);
    struct weir_own_limit limit = own("k", 0, S);
    struct weir_request request = { .cost = 1, .own = &limit };
    struct weir_fault fault;
    struct weir_answer answer;
    assert_int_equal(decide(loaded.contract, &request, S).decision.outcome, WEIR_NEVER);
    request.cost = 0;
    assert_int_equal(decide(loaded.contract, &request, S).decision.outcome, WEIR_ALLOW);
    limit = own("k", 0, 7 * S);
    request.cost = 1;
    assert_int_equal(decide(loaded.contract, &request, S).decision.outcome, WEIR_NEVER);
    limit = own("k", 2, S);
    request.is_peek = true;
    for (int i = 0; i < 5; i++)
        answer = decide(loaded.contract, &request, S);
    assert_int_equal(left(&answer, 0, &limit), 2);
    limit = own("k", (uint64_t)UINT32_MAX + 1, S);
    assert_int_equal(weir_contract_validate(loaded.contract, &request, &fault), WEIR_ERR_RATE);
    limit = own("k", 1, 0);
    assert_int_equal(weir_contract_decide(loaded.contract, &request, S, &answer), WEIR_ERR_RATE);
    limit = own("k", 1, 3651 * WEIR_DAY);
    assert_int_equal(weir_contract_decide(loaded.contract, &request, S, &answer), WEIR_ERR_RATE);
    limit = own("a key of more than thirty-two bytes", 1, S);
    assert_int_equal(weir_contract_decide(loaded.contract, &request, S, &answer), WEIR_ERR_KEY);
    loaded_free(&loaded);
    loaded = contract_from(contract, 0);
    limit = own("k", 1, S);
    assert_int_equal(weir_contract_decide(loaded.contract, &request, S, &answer), WEIR_ERR_LIMIT);
    loaded_free(&loaded);
    loaded = contract_from("weir: 1\nlimits:\n- { name: rls.second, key: [], rate: 1/s, burst: 1 }\n", 0);
    assert_int_equal(loaded.error, WEIR_ERR_CONTRACT);
    loaded_free(&loaded);
}

/* Beside limits of the contract: all pass, or nothing is charged. */
static void one_decision_with_the_others(void **state)
{
    (void)state;
    static const char fleet[] = "weir: 1\n"
                                "limits:\n"
                                "- { name: a, key: [a], rate: 3/d, algorithm: fixed-window, scope: fleet,\n"
                                "    when-store-fails: open }\n";
    for (int kind = 0; kind < 4; kind++) { /* a window, a bucket; of this process, beside the fleet's */
        struct loaded loaded =
            load(kind / 2 == 0 ? contract : fleet, kind / 2 == 0 ? WEIR_FLEET_NONE : WEIR_FLEET_SHARED);
        struct weir_own_limit limit = own("k", 5, kind % 2 == 0 ? WEIR_DAY : 7 * WEIR_DAY);
        struct weir_attribute attribute = { .name = "a", .value = "x" };
        struct weir_request second = { .attributes = &attribute, .attribute_count = 1, .cost = 2 };
        struct weir_request first = { .cost = 2, .own = &limit, .also = &second };
        struct weir_answer answer = decide(loaded.contract, &first, S);
        assert_int_equal(answer.decision.outcome, kind / 2 == 0 ? WEIR_ALLOW : WEIR_UNMETERED);
        assert_int_equal(answer.count, 2);
        assert_int_equal(answer.asked_by[0], 1);
        assert_int_equal(answer.asked_by[1], 0);
        assert_int_equal(answer.each[0].limit, 0);
        assert_int_equal(left(&answer, 1, &limit), 3);
        if (kind / 2 == 0) {
            answer = decide(loaded.contract, &first, S); /* a holds one */
            assert_int_equal(answer.decision.outcome, WEIR_DENY);
            assert_int_equal(answer.decision.limit, 0);
            assert_int_equal(left(&answer, 1, &limit), 3);
        }
        first.cost = 4; /* now the limit of its own refuses */
        second.cost = 1;
        answer = decide(loaded.contract, &first, S);
        assert_int_equal(answer.decision.outcome, WEIR_DENY);
        assert_int_equal(answer.decision.limit, WEIR_NO_LIMIT);
        if (kind / 2 == 0)
            assert_int_equal(answer.each[0].remaining, 1);
        struct weir_request twice = { .cost = 2, .own = &limit }; /* one key twice: added up */
        first.also = &twice;
        first.cost = 2;
        assert_int_equal(decide(loaded.contract, &first, S).decision.outcome, WEIR_DENY);
        first.cost = 1;
        answer = decide(loaded.contract, &first, S);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        assert_int_equal(answer.count, 2);
        assert_int_equal(left(&answer, 0, &limit), 0);
        assert_int_equal(left(&answer, 1, &limit), 0);
        loaded_free(&loaded);
    }
}

/* It waits for nothing; a limit beside it may, and then it is decided at the turn with the size that it brought. */
static void beside_a_limit_that_waits(void **state)
{
    (void)state;
    for (int reloads = 0; reloads < 2; reloads++) {
        struct loaded loaded = load(contract, WEIR_FLEET_NONE);
        static struct weir_waiter_part parts[WEIR_ASKS_MAX];
        struct weir_waiter waiter = { .parts = parts, .part_room = WEIR_ASKS_MAX };
        struct weir *limiter = weir_contract_limiter(loaded.contract);
        struct weir_own_limit limit = own("k", 3, WEIR_DAY);
        struct weir_attribute attribute = { .name = "b", .value = "x" };
        struct weir_request second = { .cost = 2, .own = &limit };
        struct weir_request first = {
            .attributes = &attribute, .attribute_count = 1, .cost = 1, .wait = 5 * S, .also = &second
        };
        struct weir_answer answer = decide(loaded.contract, &first, S);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        second.cost = 1;
        assert_int_equal(weir_contract_wait(loaded.contract, &first, S, &waiter, &answer), 0);
        assert_int_equal(answer.decision.outcome, WEIR_WAIT);
        if (reloads) {
            struct weir_reload reload;
            assert_int_equal(weir_contract_reload(loaded.contract, contract, strlen(contract), "t.yaml", S + 1,
                                                  &reload, NULL),
                             0);
        }
        assert_int_equal(weir_wait_tick(limiter, 2 * S, 9), 1);
        weir_contract_waited(loaded.contract, &waiter, &answer);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        assert_int_equal(answer.count, 2);
        assert_int_equal(answer.each[1].capacity, 3);
        assert_int_equal(left(&answer, 1, &limit), 0);
        assert_int_equal(weir_contract_wait(loaded.contract, &first, 2 * S, &waiter, &answer), 0);
        assert_int_equal(answer.decision.outcome, WEIR_DENY); /* nothing comes back before tomorrow */
        loaded_free(&loaded);
    }
}

/* Numbers that change from call to call: a window admits while used + cost <= requests, a bucket while the time used + c * each is
   within requests * each. */
static void random_sizes_as_a_model(void **state)
{
    (void)state;
    struct random random = { random_seed(91) };
    for (int run = 0; run < 200; run++) {
        struct loaded loaded = load(contract, WEIR_FLEET_NONE);
        weir_ns now = S, full_at = 0;
        uint64_t used = 0, window = 0;
        bool is_bucket = random_below(&random, 2) == 0;
        for (int step = 0; step < 60; step++) {
            now += random_below(&random, 20) * S;
            struct weir_own_limit limit =
                own("k", random_below(&random, 9),
                    is_bucket ? (2 + random_below(&random, 5)) * WEIR_MINUTE : WEIR_MINUTE);
            struct weir_request request = { .cost = random_below(&random, 5), .own = &limit };
            uint64_t each =
                limit.requests == 0 ? limit.period : (limit.period + limit.requests - 1) / limit.requests;
            bool passes;
            if (!is_bucket) {
                used = now / WEIR_MINUTE == window ? used : 0;
                window = now / WEIR_MINUTE;
                passes = request.cost == 0 || used + request.cost <= limit.requests;
                used += passes ? request.cost : 0;
            } else {
                weir_ns from = full_at > now ? full_at : now;
                passes = request.cost == 0 || from + request.cost * each <= now + limit.requests * each;
                full_at = passes && request.cost > 0 ? from + request.cost * each : full_at;
            }
            struct weir_answer answer = decide(loaded.contract, &request, now);
            if ((answer.decision.outcome == WEIR_ALLOW) != passes)
                fail_msg("run %d step %d: outcome %d", run, step, (int)answer.decision.outcome);
        }
        loaded_free(&loaded);
    }
}

static void keys_of_descriptors(void **state)
{
    (void)state;
    static const char *const calls[] = {
        "d | a=b",      "d | a=bc",   "d | ab=c", "da | b=", "d | a=b, c=d",
        "d | c=d, a=b", "d | a=b,c=", "d | a=",   "d | =a",  "d | a=b, c=d, e=f"
    };
    unsigned char keys[COUNT_OF(calls)][WEIR_DESCRIPTOR_KEY_MAX], again[WEIR_DESCRIPTOR_KEY_MAX];
    static struct call_text call;
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        call_read(&call, calls[i]);
        size_t len = weir_descriptor_key(call.domain, strlen(call.domain), &call.descriptors[0], keys[i]);
        assert_int_equal(len,
                         weir_descriptor_key(call.domain, strlen(call.domain), &call.descriptors[0], again));
        assert_memory_equal(keys[i], again, len);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(keys[i], keys[k], len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B56_d_a_new_size_reaches_the_key_at_once),
        cmocka_unit_test(units_and_what_is_no_unit),
        cmocka_unit_test(looks_zeros_and_faults),
        cmocka_unit_test(one_decision_with_the_others),
        cmocka_unit_test(beside_a_limit_that_waits),
        cmocka_unit_test(random_sizes_as_a_model),
        cmocka_unit_test(keys_of_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
