// SPDX-License-Identifier: Apache-2.0
/*
 * schedule.h - many threads in one: the store compiled so that every touch of shared memory may switch to
 * another.
 *
 * Threads are coroutines, a seeded generator chooses who goes on, and a history is checked against a model
 * written from the definition. So rare interleavings are common, every finding has a seed, and a "thread" can
 * be stopped for ever at any touch. It cannot show what weak memory order does; proof/ and the real threads are
 * for that.
 *
 * A test defines its mutation, if it is one, and includes this file, which includes the store.
 */
#ifndef WEIR_TEST_SCHEDULE_H
#define WEIR_TEST_SCHEDULE_H

static void schedule_step(void);
#define CELL_STEP() schedule_step()

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif
#include <ucontext.h>

#include "store/arena.c"
#include "store/full.c"
#include "store/life.c"
#include "store/log.c"
#include "store/memory.c"
#include "store/permit.c"
#include "store/place.c"
#include "store/pool.c"
#include "store/queue.c"
#include "store/record.c"
#include "store/settle.c"
#include "store/succeed.c"
#include "store/table.c"

#include "store/kit.h"
#include "support/random.h"
#include "threads/history.h"

/* ---- Coroutines ----------------------------------------------------------------------------------------- */

#define FIBERS_MAX 4
#define FIBER_STACK (64 * 1024)

struct fiber {
    ucontext_t context;
    char *stack;
    bool is_done;
    uint64_t steps;    /* touches of shared memory */
    uint64_t stops_at; /* never goes on after so many */
};

static struct schedule {
    struct fiber fibers[FIBERS_MAX];
    unsigned count, current;
    bool is_running;
    uint64_t time; /* touches by all: the order of calls and returns */
    uint64_t stay; /* goes on with the same fiber with a chance of (stay - 1) / stay */
    struct random random;
    ucontext_t main;
    void (*body)(unsigned fiber);
    void (*watch)(void); /* after every touch */
} schedule;

static bool may_run(unsigned fiber)
{
    return fiber < schedule.count && !schedule.fibers[fiber].is_done
           && schedule.fibers[fiber].steps < schedule.fibers[fiber].stops_at;
}

/* Who goes on; FIBERS_MAX when all are done or stopped. */
static unsigned choose(void)
{
    if (may_run(schedule.current) && random_below(&schedule.random, schedule.stay) != 0)
        return schedule.current;
    unsigned first = (unsigned)random_below(&schedule.random, schedule.count);
    for (unsigned i = 0; i < schedule.count; i++)
        if (may_run((first + i) % schedule.count))
            return (first + i) % schedule.count;
    return FIBERS_MAX;
}

static void schedule_step(void)
{
    if (!schedule.is_running)
        return;
    unsigned me = schedule.current;
    schedule.time++;
    schedule.fibers[me].steps++;
    if (schedule.watch != NULL)
        schedule.watch();
    unsigned next = choose();
    if (next == me)
        return;
    schedule.current = next;
    (void)swapcontext(&schedule.fibers[me].context,
                      next == FIBERS_MAX ? &schedule.main : &schedule.fibers[next].context);
}

static void fiber_main(void)
{
    unsigned me = schedule.current;
    schedule.body(me);
    schedule.fibers[me].is_done = true;
    unsigned next = choose();
    schedule.current = next;
    setcontext(next == FIBERS_MAX ? &schedule.main : &schedule.fibers[next].context);
}

/*
 * A fiber that was stopped leaves marks of the address sanitizer on its stack, which serves the next run as well.
 */
static void forget_marks(struct fiber *fiber)
{
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(fiber->stack, FIBER_STACK);
#else
    (void)fiber;
#endif
}

/* getcontext() returns once here, but compilers know it as one that may return twice: no loop around it. */
static __attribute__((noinline)) void fiber_init(struct fiber *fiber)
{
    if (fiber->stack == NULL)
        fiber->stack = malloc(FIBER_STACK);
    forget_marks(fiber);
    fiber->is_done = false;
    fiber->steps = 0;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = FIBER_STACK;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, fiber_main, 0);
}

/* Run `count` fibers until each is done or stopped. */
static void schedule_run(unsigned count, void (*body)(unsigned))
{
    schedule.count = count;
    schedule.body = body;
    schedule.time = 0;
    for (unsigned i = 0; i < count; i++)
        fiber_init(&schedule.fibers[i]);
    schedule.current = FIBERS_MAX;
    unsigned first = choose();
    if (first == FIBERS_MAX)
        return;
    schedule.current = first;
    schedule.is_running = true;
    (void)swapcontext(&schedule.main, &schedule.fibers[first].context);
    schedule.is_running = false;
}

static void schedule_free(void)
{
    for (unsigned i = 0; i < FIBERS_MAX; i++) {
        free(schedule.fibers[i].stack);
        schedule.fibers[i].stack = NULL;
    }
}

/*
 * The mutant that forgets what others did between its look and its write; see test_threads_mutant_exchange.c.
 */
#ifdef CELL_EXCHANGE_MUTANT
static bool exchange_by_load_and_store(struct cell *cell, const struct cell *seen, const struct cell *next)
{
    if (cell->tag != seen->tag || cell->state != seen->state)
        return false;
    CELL_STEP();
    *cell = *next;
    return true;
}
#endif

/* ---- Random runs ---------------------------------------------------------------------------------------- */

#define KEYS_MAX 3

static struct run {
    struct kit kit;
    const struct shape *bucket[3], *log[3], *lasting; /* by burst - 1 */
    struct model model;
    const struct shape *shape;
    struct random random;
    struct op ops[OPS_MAX];
    unsigned op_count, ops_each, keys;
    enum { TIME_FROZEN, TIME_MOVING, TIME_STALE } time;
    bool undoes;
    weir_ns clock;
    const char *violation;
} run;

static uint64_t key_hash(unsigned key)
{
    return hash_at(&run.kit, key & 1, 1001 + key);
}

/* P21 at every instant. */
static void watch_uniqueness(void)
{
    unsigned finals[KEYS_MAX] = { 0 };
    for (unsigned i = 0; i < LOOK_CELLS; i++) {
        struct cell seen = run.kit.store->groups[i / GROUP_CELLS].cells[i % GROUP_CELLS];
        for (unsigned key = 0; key < run.keys; key++)
            finals[key] += cell_has_tag(seen, 1001 + key) && !cell_is_tent(seen);
    }
    for (unsigned key = 0; key < run.keys; key++)
        if (finals[key] > 1)
            run.violation = "two FINAL cells of one key";
}

static weir_ns next_stamp(void)
{
    static const weir_ns leaps[] = { 0, 0, S / 2, S, 5 * S / 2 };
    if (run.time == TIME_FROZEN)
        return run.clock;
    run.clock += leaps[random_below(&run.random, COUNT_OF(leaps))];
    weir_ns age = run.time == TIME_STALE ? random_below(&run.random, 12) * S / 2 : 0;
    return run.clock - age;
}

static void run_op(struct op *op, struct op *last)
{
    op->key = (unsigned)random_below(&run.random, run.keys);
    op->cost = 1 + random_below(&run.random, 1 + random_below(&run.random, run.model.burst));
    op->stamp = next_stamp();
    uint64_t dice = random_below(&run.random, 10);
    op->kind = dice == 0 ? OP_PEEK : OP_TAKE;
    if (run.undoes && dice >= 8 && last != NULL && last->kind == OP_TAKE
        && last->answer.outcome == WEIR_ALLOW) {
        op->kind = OP_UNDO;
        op->key = last->key;
        op->cost = last->cost;
        op->answer = last->answer;
        op->stamp = last->stamp;
    }
    op->called = ++schedule.time;
    if (op->kind == OP_TAKE)
        store_take(run.kit.store, run.shape, key_hash(op->key), op->stamp, op->cost, &op->answer);
    else if (op->kind == OP_PEEK)
        store_peek(run.kit.store, run.shape, key_hash(op->key), op->stamp, op->cost, &op->answer);
    else
        store_undo(run.kit.store, run.shape, key_hash(op->key), &op->answer, op->stamp, op->cost);
    op->returned = ++schedule.time;
    if (op->kind == OP_UNDO)
        last->is_undone = true;
}

static void run_fiber(unsigned fiber)
{
    (void)fiber;
    struct op *last = NULL;
    for (unsigned i = 0; i < run.ops_each; i++) {
        struct op *op = &run.ops[run.op_count++];
        run_op(op, last);
        last = op;
    }
}

/* Empty the store and leave a few free cells among keys that never die. */
static void reset(unsigned free_cells)
{
    struct store *store = run.kit.store;
    memset(store->groups, 0, table_bytes(store));
    store->floor_ns = 0;
    arena_deinit(&store->arena, &run.kit.allocator);
    assert_int_equal(arena_init(&store->arena, 64, &run.kit.allocator), 0);
    for (unsigned i = 0; i < LOOK_CELLS - free_cells; i++) {
        unsigned at;
        do {
            at = (unsigned)random_below(&run.random, LOOK_CELLS);
        } while (!cell_is_empty(store->groups[at / GROUP_CELLS].cells[at % GROUP_CELLS]));
        store->groups[at / GROUP_CELLS].cells[at % GROUP_CELLS] =
            (struct cell){ (uint64_t)run.lasting->number << CELL_TAG_BITS | (i + 1), CELL_TENT - 1 };
    }
}

static void check_history(void)
{
    for (unsigned key = 0; key < run.keys; key++) {
        const struct op *ops[OPS_MAX];
        unsigned count = 0;
        for (unsigned i = 0; i < run.op_count; i++)
            if (run.ops[i].key == key
                && (run.ops[i].answer.outcome == WEIR_ALLOW || run.ops[i].answer.outcome == WEIR_DENY))
                ops[count++] = &run.ops[i];
        struct truth start = { 0 };
        if (!run.undoes && !is_within_bound(&run.model, run.ops, run.op_count, key))
            run.violation = "more than the bound was admitted";
        else if (!is_linearizable(&run.model, ops, count, 0, &start))
            run.violation = "no order explains the answers";
    }
    unsigned lasting = 0;
    for (unsigned i = 0; i < LOOK_CELLS; i++)
        lasting += cell_shape_number(run.kit.store->groups[i / GROUP_CELLS].cells[i % GROUP_CELLS])
                   == run.lasting->number;
    if (lasting != LOOK_CELLS - run.keys - 1)
        run.violation = "a live key was forgotten";
}

static void run_open(void)
{
    kit_open(&run.kit, 9, 64);
    for (unsigned i = 0; i < 3; i++) {
        run.bucket[i] = kit_shape(
            &run.kit, (struct weir_limit){ .rate = { 1, S }, .burst = i + 1, .when_full = WEIR_FULL_CLOSED });
        run.log[i] = kit_shape(&run.kit, (struct weir_limit){ .algorithm = WEIR_SLIDING_LOG,
                                                              .rate = { i + 1, S },
                                                              .when_full = WEIR_FULL_CLOSED });
    }
    run.lasting = kit_shape(&run.kit, (struct weir_limit){ .rate = { 0, S }, .burst = 1 });
    schedule.watch = watch_uniqueness;
}

static void run_close(void)
{
    kit_close(&run.kit);
    schedule_free();
}

/* One random run; NULL or what was violated. */
static const char *run_once(uint64_t seed)
{
    run.random = (struct random){ seed };
    schedule.random = (struct random){ ~seed };
    schedule.stay = UINT64_C(1) << (1 + random_below(&run.random, 4));
    unsigned fibers = 2 + (unsigned)random_below(&run.random, 3);
    for (unsigned i = 0; i < FIBERS_MAX; i++)
        schedule.fibers[i].stops_at = UINT64_MAX;
    run.model = (struct model){ random_below(&run.random, 4) == 0, 1 + random_below(&run.random, 3) };
    run.shape = (run.model.is_log ? run.log : run.bucket)[run.model.burst - 1];
    run.keys = 1 + (unsigned)random_below(&run.random, KEYS_MAX);
    run.ops_each = 1 + (unsigned)random_below(&run.random, OPS_MAX / fibers);
    run.time = random_below(&run.random, 3);
    run.undoes = random_below(&run.random, 3) == 0;
    run.clock = 1000 * S;
    run.op_count = 0;
    memset(run.ops, 0, sizeof run.ops);
    run.violation = NULL;
    reset(run.keys + 1);
    schedule_run(fibers, run_fiber);
    check_history();
    return run.violation;
}

/* Runs until one is violated; its number, or `runs`. */
static unsigned find_violation(unsigned runs, uint64_t seed)
{
    for (unsigned i = 0; i < runs; i++)
        if (run_once(seed + i) != NULL)
            return i;
    return runs;
}

/* A mutant's whole test: some run must show it. */
static inline void expect_caught(const char *mutant, unsigned runs)
{
    uint64_t seed = random_seed(1);
    run_open();
    unsigned at = find_violation(runs, seed);
    const char *violation = run.violation;
    run_close();
    if (at == runs)
        fail_msg("%u runs did not notice: %s", runs, mutant);
    print_message("%s: caught in run %u: %s\n", mutant, at, violation);
}

#endif
