// SPDX-License-Identifier: Apache-2.0
/*
 * test_threads_chain.c - chains on many threads, in opposite orders over the same keys, reloads beside them.
 *
 * LABELS: threads
 *
 * In frozen time windows are exact: what is used at the end is what the chains that passed were charged, and no more than the
 * limit holds; and what a limit that requests bring has used, likewise.
 */
#include <pthread.h>

#include "support/contracts.h"
#include "support/random.h"
#include "support/unit.h"

#define THREADS 4
#define CHAINS 4000
#define LIMITS 3
#define KEYS 4
#define HOLDS 900

static const char text[] = "weir: 1\n"
                           "limits:\n"
                           "- { name: l0, key: [k0], algorithm: fixed-window, rate: 900/d }\n"
                           "- { name: l1, key: [k1], algorithm: fixed-window, rate: 900/d }\n"
                           "- { name: l2, key: [k2], algorithm: fixed-window, rate: 900/d, enforce: shadow }\n";

static struct weir_contract *contract;
static uint64_t granted[LIMITS + 1][KEYS]; /* the last: of limits that requests bring; atomically */

struct desk {
    pthread_t thread;
    uint64_t seed, passed, unsure;
};

struct made {
    struct weir_request requests[4];
    struct weir_attribute attributes[4][LIMITS];
    struct weir_own_limit own[4];
    int keys[4][LIMITS + 1]; /* -1: none */
    size_t count;
};

static const char *const names[LIMITS] = { "k0", "k1", "k2" };
static const char *const values[KEYS] = { "a", "b", "c", "d" };

static void make(struct random *random, struct made *out)
{
    out->count = 1 + random_below(random, 4);
    for (size_t i = 0; i < out->count; i++) {
        struct weir_request *request = &out->requests[i];
        bool is_own = random_below(random, 4) == 0;
        *request = (struct weir_request){ .attributes = out->attributes[i],
                                          .cost = random_below(random, 3),
                                          .also = i + 1 < out->count ? request + 1 : NULL };
        for (int l = 0; l <= LIMITS; l++) {
            bool is_met = (l == LIMITS) == is_own && random_below(random, 3) > 0;
            out->keys[i][l] = is_met || (l == LIMITS && is_own) ? (int)random_below(random, KEYS) : -1;
            if (out->keys[i][l] >= 0 && l < LIMITS)
                out->attributes[i][request->attribute_count++] =
                    (struct weir_attribute){ .name = names[l], .value = values[out->keys[i][l]] };
        }
        if (is_own) {
            out->own[i] = (struct weir_own_limit){ values[out->keys[i][LIMITS]], 1, HOLDS, WEIR_DAY };
            request->own = &out->own[i];
        }
    }
}

/* What passed was charged to every key of it; of a watched limit only where it had room itself. */
static void note(const struct made *made, const struct weir_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        size_t by = answer->asked_by[i];
        int limit = answer->each[i].limit == WEIR_NO_LIMIT ? LIMITS : answer->each[i].limit;
        if (answer->each[i].outcome == WEIR_ALLOW)
            (void)__atomic_add_fetch(&granted[limit][made->keys[by][limit]], made->requests[by].cost,
                                     __ATOMIC_RELAXED);
    }
}

static void *work(void *argument)
{
    struct desk *desk = argument;
    struct random random = { desk->seed };
    static _Thread_local struct weir_waiter_part parts[WEIR_ASKS_MAX];
    for (int i = 0; i < CHAINS; i++) {
        struct made made;
        struct weir_answer answer;
        struct weir_waiter waiter = { .parts = parts, .part_room = WEIR_ASKS_MAX };
        make(&random, &made);
        int error = i % 2 == 0 ? weir_contract_decide(contract, made.requests, WEIR_SECOND, &answer)
                               : weir_contract_wait(contract, made.requests, WEIR_SECOND, &waiter, &answer);
        if (error != 0)
            abort();
        desk->unsure += answer.decision.outcome == WEIR_REFUSED;
        if (answer.decision.outcome != WEIR_ALLOW)
            continue;
        desk->passed++;
        note(&made, &answer);
    }
    return NULL;
}

static void every_key_has_what_passed(void)
{
    for (int l = 0; l <= LIMITS; l++)
        for (int k = 0; k < KEYS; k++) {
            struct weir_attribute attribute = { .name = l < LIMITS ? names[l] : "z", .value = values[k] };
            struct weir_own_limit own = { values[k], 1, HOLDS, WEIR_DAY };
            struct weir_request request = {
                .attributes = &attribute, .attribute_count = 1, .is_peek = true, .own = l < LIMITS ? NULL : &own
            };
            struct weir_answer answer;
            assert_int_equal(weir_contract_decide(contract, &request, WEIR_SECOND, &answer), 0);
            assert_int_equal(answer.count, 1);
            assert_int_equal(answer.each[0].remaining, HOLDS - granted[l][k]);
        }
}

static void run(bool reloads)
{
    struct desk desks[THREADS];
    const struct weir_contract_options options = { .keys = 256, .has_wall_offset = true, .has_throttle = true };
    uint64_t passed = 0;
    memset(granted, 0, sizeof granted);
    assert_int_equal(weir_contract_parse(&contract, text, strlen(text), "t.yaml", &options, NULL), 0);
    for (size_t i = 0; i < THREADS; i++) {
        desks[i] = (struct desk){ .seed = random_seed(17) + i };
        assert_int_equal(pthread_create(&desks[i].thread, NULL, work, &desks[i]), 0);
    }
    if (reloads) { /* one, as quiescing needs the threads' word */
        struct weir_reload reload;
        assert_int_equal(
            weir_contract_reload(contract, text, strlen(text), "t.yaml", WEIR_SECOND, &reload, NULL), 0);
        assert_int_equal(reload.kept, LIMITS);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(desks[i].thread, NULL), 0);
        passed += desks[i].passed;
    }
    assert_true(passed > 0);
    every_key_has_what_passed();
    weir_contract_free(contract);
}

static void what_is_used_is_what_passed(void **state)
{
    (void)state;
    run(false);
}

static void also_beside_a_reload(void **state)
{
    (void)state;
    run(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_used_is_what_passed),
        cmocka_unit_test(also_beside_a_reload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
