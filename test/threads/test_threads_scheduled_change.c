// SPDX-License-Identifier: Apache-2.0
/*
 * A change, its sweep and memories under chosen interleavings: P14, P21, P23 and P31, by random schedules with seeds.
 *
 * Some fibers take single tokens of one new key at one instant, under the size that is in force when they look; one puts
 * another size in force at a moment of the schedule's choice. When all of the old set are done, the table is swept
 * beside fibers of the new one.
 */
#include "threads/schedule.h"

static struct {
    const struct shape *bucket[4], *log[4]; /* of one lineage each: sizes 2, 5, 3, 40 */
    const struct shape *old, *next, *current;
    unsigned allowed, told_old, odd, takes;
    uint64_t change_at; /* touches before the change */
} change;

static const uint64_t sizes[4] = { 2, 5, 3, 40 };

static void change_open(void)
{
    run_open();
    for (unsigned i = 0; i < 4; i++) {
        change.bucket[i] = kit_shape_at(
            &run.kit, (struct weir_limit){ .rate = { 1, S }, .burst = sizes[i], .when_full = WEIR_FULL_CLOSED },
            (struct kit_place){ .lineage = 1, .generation = i + 1, .since = i * S });
        change.log[i] = kit_shape_at(&run.kit,
                                     (struct weir_limit){ .algorithm = WEIR_SLIDING_LOG,
                                                          .rate = { sizes[i], S },
                                                          .when_full = WEIR_FULL_CLOSED },
                                     (struct kit_place){ .lineage = 2, .generation = i + 1, .since = i * S });
    }
}

static void take_one(const struct shape *shape)
{
    struct store_answer answer;
    if (!store_take(run.kit.store, shape, key_hash(0), run.clock, 1, &answer)) {
        change.told_old++;
        change.odd += change.current == shape;
    } else if (answer.outcome == WEIR_ALLOW) {
        change.allowed++;
    } else {
        change.odd += answer.outcome != WEIR_DENY;
    }
}

static void take_or_change(unsigned fiber)
{
    if (fiber == 0) {
        for (uint64_t i = 0; i < change.change_at; i++)
            CELL_STEP();
        store_shape_over(run.kit.store, change.old, change.next->since);
        change.current = change.next;
        return;
    }
    for (unsigned i = 0; i < change.takes; i++)
        take_one(change.current);
}

static void take_or_sweep(unsigned fiber)
{
    static const struct shape *successor[WEIR_LIMITS_MAX + 1];
    static const bool is_gone[WEIR_LIMITS_MAX + 1];
    if (fiber == 0) {
        successor[change.old->number] = change.next;
        store_succeed(run.kit.store, successor, is_gone, run.clock);
        successor[change.old->number] = NULL;
        return;
    }
    for (unsigned i = 0; i < change.takes; i++)
        take_one(change.current);
}

static void start(uint64_t seed)
{
    run.random = (struct random){ seed };
    schedule.random = (struct random){ ~seed };
    schedule.stay = UINT64_C(1) << (1 + seed % 4);
    run.keys = 1;
    run.clock = 1000 * S;
    run.violation = NULL;
    reset(2);
    arena_deinit(&run.kit.store->arena, &run.kit.allocator); /* each fiber takes a ring before it places */
    assert_int_equal(arena_init(&run.kit.store->arena, 512, &run.kit.allocator), 0);
    for (unsigned i = 0; i < FIBERS_MAX; i++)
        schedule.fibers[i].stops_at = UINT64_MAX;
}

static void start_change(uint64_t seed)
{
    start(seed);
    const struct shape *const *shapes = random_below(&run.random, 2) == 0 ? change.bucket : change.log;
    unsigned from = (unsigned)random_below(&run.random, 3);
    change.old = change.current = shapes[from];
    change.next = shapes[from + 1 + random_below(&run.random, 3 - from)];
    change.allowed = change.told_old = change.odd = 0;
    change.change_at = random_below(&run.random, 150);
    change.takes = 2 + (unsigned)random_below(&run.random, 3);
    slot_of(run.kit.store, change.old)->over_at = WEIR_NO_TIME;
    slot_of(run.kit.store, change.next)->over_at = WEIR_NO_TIME;
}

static unsigned cells_under(const struct shape *shape)
{
    unsigned count = 0;
    for (unsigned i = 0; i < LOOK_CELLS; i++)
        count +=
            cell_shape_number(run.kit.store->groups[i / GROUP_CELLS].cells[i % GROUP_CELLS]) == shape->number;
    return count;
}

/* Nobody is admitted beyond the larger of the two sizes, and what is left in the end is what was not admitted. */
static void a_change_loses_and_doubles_nothing(void **state)
{
    (void)state;
    uint64_t seed = random_seed(1), told_old = 0;
    change_open();
    for (uint64_t i = 0; i < 30000; i++) {
        start_change(seed + i);
        schedule_run(4, take_or_change);
        assert_ptr_equal(change.current, change.next);
        schedule_run(3, take_or_sweep);
        uint64_t most =
            change.old->capacity > change.next->capacity ? change.old->capacity : change.next->capacity;
        if (run.violation != NULL || change.odd != 0 || change.allowed > most)
            fail_msg("run %u (WEIR_SEED=%llu alone shows it): %u of %u admitted, %u odd, %s", (unsigned)i,
                     (unsigned long long)(seed + i), change.allowed, (unsigned)most, change.odd,
                     run.violation == NULL ? "" : run.violation);
        assert_int_equal(cells_under(change.old), 0);
        uint64_t left = change.next->capacity > change.allowed ? change.next->capacity - change.allowed : 0;
        assert_int_equal(peek(&run.kit, change.next, key_hash(0), run.clock, 1).report.remaining, left);
        told_old += change.told_old;
    }
    print_message("%llu times told that the set was old\n", (unsigned long long)told_old);
    assert_true(told_old > 1000);
    run_close();
}

/* One of the old set is stopped for ever: the sweep must wait for it, but deciding goes on (P23). */
static void a_stopped_thread_stops_no_change(void **state)
{
    (void)state;
    uint64_t seed = random_seed(2);
    change_open();
    for (uint64_t i = 0; i < 20000; i++) {
        start_change(seed + i);
        if (is_log(change.old))
            continue; /* a ring whose holder stopped is undecided */
        change.change_at = i % 7;
        schedule.fibers[1].stops_at = i % 100;
        schedule_run(4, take_or_change);
        assert_true(schedule.fibers[2].is_done && schedule.fibers[3].is_done);
        uint64_t most =
            change.old->capacity > change.next->capacity ? change.old->capacity : change.next->capacity;
        assert_true(run.violation == NULL && change.odd == 0 && change.allowed <= most);
    }
    run_close();
}

/* ---- Memories -------------------------------------------------------------------------------------------------- */

static struct {
    unsigned begun, inside, twice, done, full;
    weir_ns stamps[FIBERS_MAX], hold;
    bool fails_first;
} memory;

/* Begin until it is known, at most so often. */
static void do_once(unsigned fiber)
{
    for (unsigned i = 0; i < 4; i++) {
        uint32_t nonce;
        weir_ns now = memory.stamps[fiber];
        enum store_memory begun =
            store_recall_begin(run.kit.store, key_hash(0), now, now + memory.hold, &nonce);
        memory.full += begun == STORE_FULL;
        if (begun == STORE_KNOWN)
            return;
        if (begun != STORE_NEW)
            continue;
        memory.begun++;
        memory.twice += memory.inside++ > 0;
        CELL_STEP();
        memory.inside--;
        bool fails = memory.fails_first && memory.begun == 1;
        memory.done += !fails;
        store_recall_end(run.kit.store, key_hash(0), nonce, now, fails ? 0 : now + 100 * S);
    }
}

static void start_memory(uint64_t seed)
{
    start(seed);
    memset(&memory, 0, sizeof memory);
    memory.hold = 10 * S;
    for (unsigned i = 0; i < FIBERS_MAX; i++)
        memory.stamps[i] = run.clock;
}

static void one_of_all_does_it(void **state)
{
    (void)state;
    uint64_t seed = random_seed(3);
    run_open();
    for (uint64_t i = 0; i < 30000; i++) {
        start_memory(seed + i);
        memory.fails_first = i % 2 != 0;
        schedule_run(2 + i % 3, do_once);
        if (memory.twice > 0 || memory.done > 1 || memory.full > 0 || run.violation != NULL)
            fail_msg("run %u (WEIR_SEED=%llu alone shows it): begun %u, at once %u, done %u", (unsigned)i,
                     (unsigned long long)(seed + i), memory.begun, memory.twice, memory.done);
        assert_true(memory.begun >= 1 && memory.begun <= 1u + memory.fails_first);
        if (!memory.fails_first)
            assert_true(store_recall(run.kit.store, key_hash(0), run.clock));
    }
    run_close();
}

/* The holder dies at any touch; the others come when its hold has run out, and one of them does it. */
static void a_holder_that_died_is_followed_by_one(void **state)
{
    (void)state;
    uint64_t seed = random_seed(4);
    run_open();
    for (uint64_t i = 0; i < 20000; i++) {
        start_memory(seed + i);
        schedule.fibers[0].stops_at = i % 70;
        schedule_run(1, do_once);
        unsigned done = memory.done, died = memory.inside;
        bool was_known = store_recall(run.kit.store, key_hash(0), run.clock + memory.hold);
        memory.inside = 0;
        schedule.fibers[0].stops_at = UINT64_MAX;
        for (unsigned j = 0; j < FIBERS_MAX; j++)
            memory.stamps[j] = run.clock + memory.hold;
        schedule_run(3, do_once);
        assert_true(run.violation == NULL && memory.twice == 0 && memory.full == 0);
        assert_int_equal(memory.done - done, !was_known);
        assert_true(died <= 1);
        assert_true(store_recall(run.kit.store, key_hash(0), run.clock + memory.hold));
    }
    run_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_loses_and_doubles_nothing),
        cmocka_unit_test(a_stopped_thread_stops_no_change),
        cmocka_unit_test(one_of_all_does_it),
        cmocka_unit_test(a_holder_that_died_is_followed_by_one),
    };
    return cmocka_run_group_tests_name("threads/scheduled_change", tests, NULL, NULL);
}
