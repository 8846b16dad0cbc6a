// SPDX-License-Identifier: Apache-2.0
/*
 * LABELS: threads
 *
 * Limits change while real threads decide: with a frozen clock nothing is lost and nothing granted twice (P14), and what
 * is remembered is done once (P31). Run again under the thread sanitizer.
 */
#include <sched.h>

#include "store/kit.h"
#include "support/random.h"
#include "threads/crew.h"

#if CELL_SANITIZED
#define SCALE 4
#else
#define SCALE 1
#endif

/* ---- Changes ---------------------------------------------------------------------------------------------------- */

#define CHANGES 40
#define WORKERS 4
#define KEYS 3

static struct {
    struct kit kit;
    struct weir_limit limit;
    struct shape shapes[CHANGES + 1];
    const struct shape *current;
    uint64_t passed[WORKERS]; /* how many changes a worker has seen: its quiescent points */
    bool is_over;
    uint64_t keys[KEYS], allowed[KEYS], odd, told_old;
} live;

static const struct shape *shape_now(void)
{
    return __atomic_load_n(&live.current, __ATOMIC_ACQUIRE);
}

/* Make the next size known, put it in force and, when every worker has seen it, sweep. Numbers are used in turn. */
static void change_to(uint32_t generation, uint64_t size)
{
    struct shape *next = &live.shapes[generation];
    const struct shape *old = generation > 0 ? &live.shapes[generation - 1] : NULL;
    struct weir_limit limit = live.limit;
    *(limit.algorithm == WEIR_TOKEN_BUCKET ? &limit.burst : &limit.rate.count) = size;
    assert_int_equal(shape_init(next, &limit, 0, &live.kit.allocator), 0);
    next->number = (uint16_t)(1 + generation % 3);
    next->lineage = 1;
    next->generation = generation + 1;
    next->since = S;
    assert_int_equal(store_shape_add(live.kit.store, next), 0);
    if (old != NULL) {
        store_succeed_overflow(live.kit.store, old, next);
        store_shape_over(live.kit.store, old, next->since);
    }
    __atomic_store_n(&live.current, next, __ATOMIC_RELEASE);
}

static void wait_for_workers(uint64_t generation)
{
    for (unsigned i = 1; i < WORKERS; i++)
        while (__atomic_load_n(&live.passed[i], __ATOMIC_ACQUIRE) < generation)
            (void)sched_yield();
}

static void change_repeatedly(void)
{
    static const struct shape *successor[WEIR_LIMITS_MAX + 1];
    static const bool is_gone[WEIR_LIMITS_MAX + 1];
    struct random random = { 77 };
    for (uint32_t generation = 1; generation <= CHANGES; generation++) {
        const struct shape *old = &live.shapes[generation - 1];
        change_to(generation, generation == CHANGES ? 60 : 5 + random_below(&random, 50));
        wait_for_workers(generation);
        if (generation > 1) /* nobody can have met it any more */
            store_shape_remove(live.kit.store, &live.shapes[generation - 2]);
        successor[old->number] = shape_now();
        store_succeed(live.kit.store, successor, is_gone, S);
        successor[old->number] = NULL;
    }
    __atomic_store_n(&live.is_over, true, __ATOMIC_RELEASE);
}

static void take_under_the_set_in_force(unsigned member)
{
    if (member == 0) {
        change_repeatedly();
        return;
    }
    struct random random = { member };
    unsigned rest = 200; /* takes after the last change, so that all is used */
    while (rest > 0) {
        rest -= __atomic_load_n(&live.is_over, __ATOMIC_ACQUIRE);
        const struct shape *shape = shape_now();
        __atomic_store_n(&live.passed[member], shape->generation - 1, __ATOMIC_RELEASE);
        unsigned key = (unsigned)random_below(&random, KEYS);
        if (random_below(&random, 16) == 0)
            (void)sched_yield();                               /* so that changes come often */
        weir_ns stamp = random_below(&random, 4) == 0 ? 0 : S; /* old readings, too */
        struct store_answer answer;
        if (!store_take(live.kit.store, shape, live.keys[key], stamp, 1, &answer)) {
            if (shape_now() == shape) /* told that there is a later set, when there is none */
                __atomic_fetch_add(&live.odd, 1, __ATOMIC_RELAXED);
            __atomic_fetch_add(&live.told_old, 1, __ATOMIC_RELAXED);
        } else if (answer.outcome == WEIR_ALLOW) {
            __atomic_fetch_add(&live.allowed[key], 1, __ATOMIC_RELAXED);
        } else if (answer.outcome != WEIR_DENY && answer.reason != WEIR_REASON_CONTENDED) {
            __atomic_fetch_add(&live.odd, 1, __ATOMIC_RELAXED);
        }
    }
}

/* Sizes of 5 to 54, then 60: all that was ever admitted is 60 of each key, as if it had been 60 all the time. */
static void frozen_time_counts_through_all_changes(void **state)
{
    (void)state;
    static const struct weir_limit limits[] = {
        { .name = "bucket", .rate = { 1, WEIR_HOUR }, .when_full = WEIR_FULL_CLOSED },
        { .name = "window",
          .algorithm = WEIR_FIXED_WINDOW,
          .rate = { 1, WEIR_HOUR },
          .when_full = WEIR_FULL_CLOSED },
        { .name = "sliding",
          .algorithm = WEIR_SLIDING_WINDOW,
          .rate = { 1, WEIR_HOUR },
          .when_full = WEIR_FULL_CLOSED },
        { .name = "log",
          .algorithm = WEIR_SLIDING_LOG,
          .rate = { 1, WEIR_HOUR },
          .when_full = WEIR_FULL_CLOSED },
    };
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        uint64_t told_old = 0;
        for (unsigned round = 0; round < 20 / SCALE; round++) {
            struct crew crew;
            memset(&live, 0, sizeof live);
            kit_open(&live.kit, 9, 1024);
            live.limit = limits[i];
            for (unsigned key = 0; key < KEYS; key++)
                live.keys[key] = hash_at(&live.kit, key & 1, 1 + key);
            change_to(0, 20);
            crew_open(&crew, WORKERS, take_under_the_set_in_force);
            crew_round(&crew);
            crew_close(&crew);
            expect_row(live.odd == 0, limits[i].name);
            for (unsigned key = 0; key < KEYS; key++) {
                uint64_t missing = 0; /* a log's ring that was held all the time decided nothing */
                while (take(&live.kit, shape_now(), live.keys[key], S, 1).outcome == WEIR_ALLOW)
                    missing++;
                expect_row(live.allowed[key] + missing == 60, limits[i].name);
                expect_row(cells_of(&live.kit, 1 + key) == 1, limits[i].name);
            }
            told_old += live.told_old;
            kit_close(&live.kit);
        }
        print_message("%s: %llu times told that the set was old\n", limits[i].name,
                      (unsigned long long)told_old);
    }
}

/* ---- Memories (P31) -------------------------------------------------------------------------------------------- */

#define IDS 8

static struct {
    struct kit kit;
    weir_ns now;
    uint64_t round;
    unsigned inside[IDS], done[IDS], twice, odd;
    bool is_lasting; /* the first to get an id does it */
} once;

static uint64_t id_hash(unsigned id)
{
    return hash_at(&once.kit, id & 1, 1 + once.round * IDS + id);
}

static void do_once(unsigned member)
{
    struct random random = { once.round * CREW_MAX + member };
    for (unsigned i = 0; i < 3 * IDS; i++) {
        unsigned id = (member + i) % IDS;
        uint32_t nonce;
        enum store_memory memory =
            store_recall_begin(once.kit.store, id_hash(id), once.now, once.now + 5 * S, &nonce);
        if (memory == STORE_FULL)
            __atomic_fetch_add(&once.odd, 1, __ATOMIC_RELAXED);
        bool is_known = store_recall(once.kit.store, id_hash(id), once.now);
        if (memory == STORE_KNOWN && !is_known)
            __atomic_fetch_add(&once.odd, 1, __ATOMIC_RELAXED);
        if (memory != STORE_NEW)
            continue;
        if (__atomic_fetch_add(&once.inside[id], 1, __ATOMIC_RELAXED) != 0 || is_known)
            __atomic_fetch_add(&once.twice, 1, __ATOMIC_RELAXED);
        bool succeeds = random_below(&random, 3) == 0 || i >= 2 * IDS;
        if (succeeds)
            __atomic_fetch_add(&once.done[id], 1, __ATOMIC_RELAXED);
        __atomic_fetch_sub(&once.inside[id], 1, __ATOMIC_RELAXED);
        store_recall_end(once.kit.store, id_hash(id), nonce, once.now, succeeds ? once.now + S : 0);
    }
}

static void what_is_remembered_is_done_once(void **state)
{
    (void)state;
    static const unsigned crews[] = { 2, 5, 16 };
    for (size_t c = 0; c < COUNT_OF(crews); c++) {
        struct crew crew;
        memset(&once, 0, sizeof once);
        kit_open(&once.kit, 9, 0);
        crew_open(&crew, crews[c], do_once);
        for (once.round = 0; once.round < 200 / SCALE; once.round++) {
            once.now = (1 + once.round) * 10 * S; /* all that was before is dead with grace */
            memset(once.done, 0, sizeof once.done);
            crew_round(&crew);
            for (unsigned id = 0; id < IDS; id++)
                assert_int_equal(once.done[id], 1);
        }
        crew_close(&crew);
        assert_int_equal(once.twice, 0);
        assert_int_equal(once.odd, 0);
        kit_close(&once.kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_time_counts_through_all_changes),
        cmocka_unit_test(what_is_remembered_is_done_once),
    };
    return cmocka_run_group_tests_name("threads/change", tests, NULL, NULL);
}
