// SPDX-License-Identifier: Apache-2.0
/*
 * LABELS: threads
 *
 * Reloads beside threads that decide, with the clock standing still: what is granted in all is what the limits hold,
 * exactly, and no answer is made of two contracts.
 */
#include <stdatomic.h>

#include "support/contracts.h"
#include "support/random.h"
#include "threads/crew.h"

#define MEMBERS 3
#define RELOADS 100
#define KEYS 8
#define COUNT 20000 /* of each key; a multiple of every cost */

static struct {
    struct weir_contract *contract;
    _Atomic bool is_over;
    _Atomic uint64_t turns[MEMBERS]; /* raised between two decisions */
    _Atomic uint64_t granted[KEYS];
    _Atomic uint64_t odd, decisions;
    weir_ns now;
    unsigned round;
} at;

/* Three kinds of limit whose count stays while all else about them changes; `mark` says which of the two it is. */
static void write_contract(char *text, size_t size, bool is_second)
{
    const char *bucket = is_second ? "rate: 2/1d, burst: 20000" : "rate: 1/1d, burst: 20000";
    const char *window = is_second ? "when-full: closed" : "when-full: overflow";
    const char *mark = is_second ? "burst: 9000000" : "burst: 8000000";
    const char *overrides = is_second
                                ? "overrides: [ { key: { k: k0 }, rate: 4/1d }, { key: { k: x }, burst: 7 } ]"
                                : "overrides: [ { key: { k: k1 }, rate: 3/1d } ]";
    int len = is_second
                  ? snprintf(text, size,
                             "weir: 1\nmemory: { keys: 1000 }\nlimits:\n"
                             " - { name: mark, key: [], rate: 0/s, %s }\n"
                             " - { name: window, key: [k], algorithm: fixed-window, rate: 20000/1d, %s }\n"
                             " - { name: bucket, key: [k], %s, %s }\n"
                             " - { name: extra, key: [k], rate: 0/s, burst: 7000000 }\n",
                             mark, window, bucket, overrides)
                  : snprintf(text, size,
                             "weir: 1\nmemory: { keys: 1000 }\nlimits:\n"
                             " - { name: bucket, key: [k], %s, %s }\n"
                             " - { name: window, key: [k], algorithm: fixed-window, rate: 20000/1d, %s }\n"
                             " - { name: mark, key: [], rate: 0/s, %s }\n",
                             bucket, overrides, window, mark);
    assert_true(len > 0 && (size_t)len < size);
}

/* Everything of one answer is of one contract. */
static bool is_whole(const struct weir_answer *answer)
{
    if (answer->decision.outcome == WEIR_REFUSED)
        return answer->decision.reason == WEIR_REASON_CONTENDED;
    bool is_second = strcmp(answer->limits[0].name, "mark") == 0;
    if (answer->count != (is_second ? 4 : 3))
        return false;
    for (size_t i = 0; i < answer->count; i++)
        if (answer->each[i].limit != (weir_limit_id)i || answer->each[i].capacity != answer->limits[i].capacity)
            return false;
    return answer->limits[is_second ? 0 : 2].capacity == (is_second ? 9000000 : 8000000);
}

static uint64_t decide(unsigned key, uint64_t cost)
{
    char name[8];
    struct weir_answer answer;
    snprintf(name, sizeof name, "k%u", key);
    struct weir_attribute attribute = { "k", name, 0 };
    struct weir_request request = { &attribute, 1, cost, false };
    int error = weir_contract_decide(at.contract, &request, at.now, &answer);
    if (error != 0 || !is_whole(&answer))
        atomic_fetch_add_explicit(&at.odd, 1, memory_order_relaxed);
    else if (answer.decision.outcome == WEIR_ALLOW)
        return cost;
    return 0;
}

static void decide_until_over(unsigned member)
{
    struct random random = { .state = at.round * MEMBERS + member + 1 };
    while (!atomic_load_explicit(&at.is_over, memory_order_relaxed)) {
        unsigned key = (unsigned)random_below(&random, KEYS);
        uint64_t granted = decide(key, 1 + random_below(&random, 2));
        atomic_fetch_add_explicit(&at.granted[key], granted, memory_order_relaxed);
        atomic_fetch_add_explicit(&at.decisions, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&at.turns[member], 1, memory_order_release);
    }
}

/* Wait until nobody can still use what was in force before. */
static void wait_for_all(void)
{
    uint64_t seen[MEMBERS];
    for (unsigned i = 0; i < MEMBERS; i++)
        seen[i] = atomic_load_explicit(&at.turns[i], memory_order_acquire);
    for (unsigned i = 0; i < MEMBERS; i++)
        while (atomic_load_explicit(&at.turns[i], memory_order_acquire) == seen[i])
            sched_yield();
}

static void *reload_all(void *argument)
{
    char text[1200];
    (void)argument;
    for (unsigned i = 0; i < RELOADS; i++) {
        struct weir_reload counts;
        write_contract(text, sizeof text, i % 2 == 0);
        int error = weir_contract_reload(at.contract, text, strlen(text), "t.yaml", at.now, &counts, NULL);
        if (error != 0 || counts.restarted != 0 || counts.resized != 3)
            atomic_fetch_add_explicit(&at.odd, 1, memory_order_relaxed);
        wait_for_all();
        weir_contract_quiesce(at.contract, at.now);
    }
    atomic_store_explicit(&at.is_over, true, memory_order_relaxed);
    return NULL;
}

static void reloads_lose_and_double_nothing(void **state)
{
    (void)state;
    char text[1200];
    write_contract(text, sizeof text, false);
    struct loaded loaded = contract_from(text, 0);
    if (loaded.error != 0)
        fail_msg("%s", loaded.printed);
    at.contract = loaded.contract;
    at.now = WEIR_DAY;

    struct crew crew;
    pthread_t reloader;
    crew_open(&crew, MEMBERS, decide_until_over);
    assert_int_equal(pthread_create(&reloader, NULL, reload_all, NULL), 0);
    crew_round(&crew);
    pthread_join(reloader, NULL);
    crew_close(&crew);
    assert_int_equal(atomic_load(&at.odd), 0);

    /*
     * What is left, by one thread. A composite that was undone leaves in a bucket what would have refilled meanwhile by
     * the real clock (P27), parts of a token here; an hour brings that back, and at four tokens a day no token of its own.
     */
    at.now += WEIR_HOUR;
    for (unsigned key = 0; key < KEYS; key++) {
        uint64_t granted = atomic_load(&at.granted[key]);
        assert_true(granted <= COUNT);
        while (granted <= COUNT && decide(key, 1) == 1)
            granted++;
        if (granted != COUNT)
            fail_msg("key %u was granted %llu of %d", key, (unsigned long long)granted, COUNT);
    }
    printf("%llu decisions beside %d reloads\n", (unsigned long long)atomic_load(&at.decisions), RELOADS);
    loaded_free(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(reloads_lose_and_double_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
