// SPDX-License-Identifier: Apache-2.0
/*
 * LABELS: threads
 *
 * Reloads beside threads whose requests wait: everybody is served, the pace holds over all of it, and each answer is in the
 * words of one contract, the one in force when it was read.
 */
#include <sched.h>
#include <stdatomic.h>

#include "support/contracts.h"
#include "support/unit.h"
#include "threads/crew.h"

#define MEMBERS 3
#define RELOADS 60
#define STEP WEIR_MICROSECOND /* of the clock, each time somebody reads it */

static struct {
    struct weir_contract *contract;
    _Atomic bool is_over;
    _Atomic uint64_t turns[MEMBERS]; /* raised between two calls */
    _Atomic uint64_t clock, served, waited, odd;
} at;

/*
 * 500000/s: one for two readings of the clock. The two differ in the order, in one limit and in a size. A thread may be suspended
 * for a second between a reading and its use, and others read the clock millions of times meanwhile. That must be little beside an
 * hour, when who waits gives up, and beside the burst of `extra`, since a stale stamp is judged strictly: so a reading is 1 us.
 */
static const char *const contracts[] = {
    "weir: 1\nlimits:\n"
    " - { name: shade, key: [], rate: 1/s, burst: 1, enforce: shadow }\n"
    " - { name: paced, key: [], algorithm: leaky-queue, rate: 500000/s, wait: { up-to: 1h, queue: 9 } }\n",
    "weir: 1\nlimits:\n"
    " - { name: paced, key: [], algorithm: leaky-queue, rate: 500000/s, wait: { up-to: 1h, queue: 8 } }\n"
    " - { name: extra, key: [], rate: 1000000/s, burst: 1000000000 }\n"
    " - { name: shade, key: [], rate: 2/s, burst: 2, enforce: shadow }\n",
};

static weir_ns now(void)
{
    return (atomic_fetch_add_explicit(&at.clock, 1, memory_order_relaxed) + 1) * STEP;
}

/* Of the limits that were asked at most one is gone, and each stands where the contract has it, watched if it is. */
static bool is_whole(const struct weir_answer *answer)
{
    if (answer->decision.outcome != WEIR_ALLOW || answer->count < 2 || answer->count > 3)
        return false;
    for (size_t i = 0; i < answer->count; i++) {
        const struct weir_contract_limit *limit = &answer->limits[answer->each[i].limit];
        bool is_watched = (answer->watched >> i & 1) != 0;
        if ((i > 0 && answer->each[i].limit <= answer->each[i - 1].limit)
            || is_watched != (strcmp(limit->name, "shade") == 0)
            || is_watched != (limit->enforce != WEIR_ENFORCE_ALWAYS))
            return false;
    }
    return strcmp(answer->limits[answer->decision.limit].name, "shade") != 0;
}

static void end(struct weir_waiter *waiter)
{
    atomic_store_explicit((_Atomic bool *)waiter->owner, true, memory_order_release);
}

static void be_served(unsigned member)
{
    struct weir *limiter = weir_contract_limiter(at.contract);
    struct weir_waiter_part parts[4];
    _Atomic bool has_ended = false;
    struct weir_waiter waiter = { .parts = parts, .part_room = 4, .done = end, .owner = &has_ended };
    struct weir_request request = { .cost = 1, .wait = WEIR_HOUR };
    struct weir_answer answer;
    int error = weir_contract_wait(at.contract, &request, now(), &waiter, &answer);
    atomic_fetch_add_explicit(&at.turns[member], 1, memory_order_release);
    if (error == 0 && answer.decision.outcome == WEIR_WAIT) {
        while (!atomic_load_explicit(&has_ended, memory_order_acquire)) {
            (void)weir_wait_tick(limiter, now(), 2);
            atomic_fetch_add_explicit(&at.turns[member], 1, memory_order_release);
        }
        weir_contract_waited(at.contract, &waiter, &answer);
        atomic_fetch_add_explicit(&at.waited, 1, memory_order_relaxed);
    }
    bool is_fine = error == 0 && is_whole(&answer);
    atomic_fetch_add_explicit(is_fine ? &at.served : &at.odd, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&at.turns[member], 1, memory_order_release); /* the answer is read */
}

static void be_served_until_over(unsigned member)
{
    while (!atomic_load_explicit(&at.is_over, memory_order_relaxed))
        be_served(member);
    atomic_store_explicit(&at.turns[member], UINT64_MAX, memory_order_release); /* uses nothing any more */
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
    (void)argument;
    for (unsigned i = 0; i < RELOADS; i++) {
        const char *text = contracts[(i + 1) % 2];
        struct weir_reload counts;
        int error = weir_contract_reload(at.contract, text, strlen(text), "t.yaml", now(), &counts, NULL);
        if (error != 0 || counts.restarted != 0 || counts.resized != 2)
            atomic_fetch_add_explicit(&at.odd, 1, memory_order_relaxed);
        wait_for_all();
        weir_contract_quiesce(at.contract, now());
    }
    atomic_store_explicit(&at.is_over, true, memory_order_relaxed);
    return NULL;
}

static void reloads_lose_and_double_no_waiter(void **state)
{
    (void)state;
    struct loaded loaded = contract_from(contracts[0], 0);
    struct weir_stats stats;
    struct crew crew;
    pthread_t reloader;
    assert_int_equal(loaded.error, 0);
    at.contract = loaded.contract;
    crew_open(&crew, MEMBERS, be_served_until_over);
    assert_int_equal(pthread_create(&reloader, NULL, reload_all, NULL), 0);
    crew_round(&crew);
    pthread_join(reloader, NULL);
    crew_close(&crew);
    assert_int_equal(atomic_load(&at.odd), 0);
    assert_true(atomic_load(&at.served) <= 1 + atomic_load(&at.clock) * STEP / (2 * WEIR_MICROSECOND));
    assert_true(atomic_load(&at.waited) > 0);
    weir_stats(weir_contract_limiter(at.contract), now(), &stats);
    assert_int_equal(stats.waiting, 0);
    printf("%llu served, %llu of them waited, beside %d reloads\n", (unsigned long long)atomic_load(&at.served),
           (unsigned long long)atomic_load(&at.waited), RELOADS);
    loaded_free(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(reloads_lose_and_double_no_waiter) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
