// SPDX-License-Identifier: Apache-2.0
/*
 * LABELS: threads
 *
 * Threads that decide here, ask a store that answers at random or is away, and fall back, beside outages that begin and reloads;
 * the clock stands still. What passed here is counted exactly, whatever was undone; shares of windows give what they hold, once;
 * and no bucket of a share gives more in one outage than flowed in since it began.
 */
#include <sched.h>
#include <stdatomic.h>

#include "support/contracts.h"
#include "support/random.h"
#include "threads/crew.h"

#define MEMBERS 3
#define RELOADS 60
#define KEYS 4
#define COUNT 20000  /* of each key here */
#define SHARE 500    /* of each key in the share of the window */
#define OUTAGES 4000 /* more than there will be */
#define AWAY (10 * WEIR_SECOND)
#define FLOWED 100 /* of each key: 10 s of a quarter of 40/s */

static struct {
    struct weir_contract *contract;
    weir_ns now;
    _Atomic bool is_over;
    _Atomic uint64_t turns[MEMBERS];
    _Atomic uint64_t outage;
    _Atomic uint64_t here[KEYS], window[KEYS], bucket[KEYS][OUTAGES];
    _Atomic uint64_t odd, decisions;
} at;

static void write_contract(char *text, size_t size, bool is_second)
{
    int len = snprintf(
        text, size,
        "weir: 1\nmemory: { keys: 1000 }\nlimits:\n%s"
        " - { name: here, key: [k], algorithm: fixed-window, rate: 20000/1d }\n"
        " - { name: window, key: [k], algorithm: fixed-window, rate: 2000/1d, when: { path: /w }, scope: "
        "fleet, "
        "when-store-fails: { local: 1/4 }%s }\n"
        " - { name: bucket, key: [k], rate: 40/s, burst: 4000, when: { path: /b }, scope: fleet, "
        "when-store-fails: { local: 1/4 }%s }\n",
        is_second ? " - { name: other, key: [k], rate: 0/s, burst: 9000000 }\n" : "",
        is_second ? ", retries: { free-within: 60s }" : "",
        is_second ? ", overrides: [{ key: { k: k0 }, burst: 5000 }, { key: { k: x }, rate: 1/s }]" : "");
    assert_true(len > 0 && (size_t)len < size);
}

struct desk {
    struct weir_waiter_part parts[WEIR_ASKS_MAX];
    struct weir_shared shared;
    struct weir_decision each[WEIR_ASKS_MAX];
    struct weir_outage outages[WEIR_ASKS_MAX];
    struct weir_shared_met met[WEIR_ASKS_MAX];
    struct weir_answer answer;
};

static bool passes(const struct weir_decision *decision)
{
    return decision->outcome == WEIR_ALLOW || decision->outcome == WEIR_UNMETERED;
}

/* One request; `away` is the number of the outage, or 0: the store answers `store`. True: it passed. */
static bool ask_all(struct desk *desk, unsigned key, bool is_window, uint64_t cost, uint64_t away,
                    enum weir_outcome store)
{
    char name[8];
    snprintf(name, sizeof name, "k%u", key);
    struct weir_attribute attributes[] = { { "k", name, 0 }, { "path", is_window ? "/w" : "/b", 0 } };
    struct weir_request request = { .attributes = attributes, .attribute_count = 2, .cost = cost };
    struct weir_waiter waiter = { .parts = desk->parts, .part_room = WEIR_ASKS_MAX };
    struct weir_shared *shared = &desk->shared;
    if (weir_contract_begin(at.contract, &request, at.now, &waiter, &desk->answer, shared) != 0)
        return (void)atomic_fetch_add(&at.odd, 1), false;
    if (shared->count == 0)
        return false;
    for (size_t i = 0; i < shared->count; i++) {
        desk->outages[i] = (struct weir_outage){ at.now - AWAY, away };
        desk->each[i] = (struct weir_decision){ .outcome = store, .retry_at = at.now + 1 };
    }
    if (away > 0)
        weir_contract_fall_back(at.contract, shared, (UINT64_C(1) << shared->count) - 1, desk->outages, false,
                                at.now, desk->each);
    for (size_t i = 0; i < shared->count; i++)
        desk->met[i] = (struct weir_shared_met){ shared->asks[i].limit, cost, false, desk->each[i] };
    weir_contract_end(at.contract, shared->rules, desk->met, shared->count, &waiter, at.now, &desk->answer);
    size_t own = shared->limits[0].name[0] == 'o' ? 2 : 1; /* `other` and `here`, or `here` */
    atomic_fetch_add(&at.odd, desk->answer.count != own + shared->count);
    return passes(&desk->answer.decision);
}

static void decide_until_over(unsigned member)
{
    struct random random = { .state = member + 1 };
    struct desk *desk = malloc(sizeof *desk);
    while (!atomic_load_explicit(&at.is_over, memory_order_relaxed)) {
        unsigned key = (unsigned)random_below(&random, KEYS);
        uint64_t cost = 1 + random_below(&random, 2), number = atomic_load(&at.outage);
        bool is_window = random_below(&random, 2) == 0, is_away = random_below(&random, 2) == 0;
        enum weir_outcome store = random_below(&random, 3) == 0 ? WEIR_ALLOW : WEIR_DENY;
        if (ask_all(desk, key, is_window, cost, is_away ? number : 0, store)) {
            atomic_fetch_add(&at.here[key], cost);
            if (is_away)
                atomic_fetch_add(is_window ? &at.window[key] : &at.bucket[key][number], cost);
        }
        if (member == 0 && random_below(&random, 100) == 0 && number + 1 < OUTAGES)
            atomic_store(&at.outage, number + 1);
        atomic_fetch_add_explicit(&at.decisions, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&at.turns[member], 1, memory_order_release);
    }
    free(desk);
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
        wait_for_all();
        write_contract(text, sizeof text, i % 2 == 0);
        if (weir_contract_reload(at.contract, text, strlen(text), "t.yaml", at.now, &counts, NULL) != 0
            || counts.restarted != 0)
            atomic_fetch_add(&at.odd, 1);
        wait_for_all();
        weir_contract_quiesce(at.contract, at.now);
    }
    atomic_store_explicit(&at.is_over, true, memory_order_relaxed);
    return NULL;
}

/* What is left, by one thread, is what was not granted. */
static void check_rest(struct desk *desk)
{
    uint64_t number = atomic_load(&at.outage), in_outages = 0;
    for (unsigned key = 0; key < KEYS; key++) {
        uint64_t here = atomic_load(&at.here[key]), window = atomic_load(&at.window[key]);
        while (window <= SHARE && ask_all(desk, key, true, 1, number, WEIR_DENY)) {
            window++;
            here++;
        }
        assert_int_equal(window, SHARE);
        while (here <= COUNT && ask_all(desk, key, false, 1, 0, WEIR_ALLOW))
            here++;
        assert_int_equal(here, COUNT);
        for (uint64_t i = 0; i <= number; i++) {
            assert_true(atomic_load(&at.bucket[key][i]) <= FLOWED);
            in_outages += atomic_load(&at.bucket[key][i]);
        }
    }
    printf("%llu decisions beside %d reloads and %llu outages, %llu out of shares of buckets\n",
           (unsigned long long)atomic_load(&at.decisions), RELOADS, (unsigned long long)number,
           (unsigned long long)in_outages);
    assert_true(in_outages > 0);
}

static void nothing_is_lost_or_doubled(void **state)
{
    (void)state;
    char text[1200];
    const struct weir_contract_options options = { .has_wall_offset = true,
                                                   .fleet = WEIR_FLEET_SHARED,
                                                   .has_store = true };
    write_contract(text, sizeof text, false);
    struct loaded loaded = contract_with(text, strlen(text), &options);
    if (loaded.error != 0)
        fail_msg("%s", loaded.printed);
    at.contract = loaded.contract;
    at.now = WEIR_DAY;
    at.outage = 1;

    struct crew crew;
    pthread_t reloader;
    crew_open(&crew, MEMBERS, decide_until_over);
    assert_int_equal(pthread_create(&reloader, NULL, reload_all, NULL), 0);
    crew_round(&crew);
    pthread_join(reloader, NULL);
    crew_close(&crew);
    assert_int_equal(atomic_load(&at.odd), 0);
    struct desk *desk = malloc(sizeof *desk);
    check_rest(desk);
    free(desk);
    loaded_free(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_is_lost_or_doubled) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
