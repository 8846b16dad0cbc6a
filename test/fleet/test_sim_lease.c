// SPDX-License-Identifier: Apache-2.0
/*
 * test_sim_lease.c - many runs of a fleet that shares budgets, strictly and by leases, with all that may befall it: P32 to P34, P37, P44.
 *
 * Each run has a seed, SIM_EVENTS events and some of the faults (sim_world.h); one in sixteen has none. The runs are shared between two
 * processes. A run that finds something prints the command that replays it alone, with a log of its events:
 *
 *     SIM_SEED=N SIM_SCHEDULES=1 build/test/test_sim_lease
 *
 * SIM_SCHEDULES is how many runs, from SIM_SEED (1) on; `make sim` runs 100,000.
 *
 * LABELS: slow
 */
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fleet/sim_runs.h"
#include "support/unit.h"

/* Some 50 s on two cores; `make sim` runs 100,000. */
#define SCHEDULES 10000
#define PARTS 2

static uint64_t number_in(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

/* One part of the runs: every second one. What it counted goes to a pipe. Gives its exit status. */
static int run_part(uint64_t part, uint64_t first, uint64_t count, int to)
{
    struct sim_tally tally = { 0 };
    bool is_told = isatty(STDERR_FILENO) && part == 0;
    time_t told = time(NULL);
    struct lua_store *store = lua_store_new(NULL, 0);
    for (uint64_t i = part; i < count; i += PARTS) {
        char violation[SIM_VIOLATION_MAX];
        if (!sim_one(store, first + i, count == 1 ? stdout : NULL, &tally, violation)) {
            (void)fprintf(stderr,
                          "seed %llu: %s\n  replay: SIM_SEED=%llu SIM_SCHEDULES=1 build/test/test_sim_lease\n",
                          (unsigned long long)(first + i), violation, (unsigned long long)(first + i));
            return 1;
        }
        if (is_told && time(NULL) >= told + 2) {
            told = time(NULL);
            (void)fprintf(stderr, "\r%llu of %llu runs", (unsigned long long)i, (unsigned long long)count);
        }
    }
    if (is_told)
        (void)fprintf(stderr, "\r                                \r");
    lua_store_free(store);
    return write(to, &tally, sizeof tally) == (ssize_t)sizeof tally ? 0 : 1;
}

static void run_all(uint64_t first, uint64_t count, struct sim_tally *all)
{
    pid_t children[PARTS];
    int pipes[PARTS][2], bad = 0;
    for (uint64_t part = 0; part < PARTS; part++) {
        assert_int_equal(pipe(pipes[part]), 0);
        children[part] = fork();
        assert_true(children[part] >= 0);
        if (children[part] == 0)
            _exit(run_part(part, first, count, pipes[part][1]));
        (void)close(pipes[part][1]);
    }
    for (size_t part = 0; part < PARTS; part++) {
        struct sim_tally tally;
        int status = 0;
        if (read(pipes[part][0], &tally, sizeof tally) == (ssize_t)sizeof tally)
            sim_add(all, &tally);
        (void)close(pipes[part][0]);
        (void)waitpid(children[part], &status, 0);
        bad |= status;
    }
    assert_int_equal(bad, 0);
}

static void test_no_run_exceeds_its_bounds(void **state)
{
    (void)state;
    struct sim_tally all = { 0 };
    uint64_t count = number_in("SIM_SCHEDULES", SCHEDULES);
    run_all(number_in("SIM_SEED", 1), count, &all);
    printf("%llu runs, %llu events, %llu decisions (%llu passed, %llu of them out of the hand)\n",
           (unsigned long long)all.runs, (unsigned long long)all.events, (unsigned long long)all.decided,
           (unsigned long long)all.passed, (unsigned long long)all.from_hand);
    for (int i = 0; i < SIM_FAULTS; i++)
        printf("%24s %6.2f%% of the events\n", sim_fault_names[i],
               100.0 * (double)all.faulted[i] / (double)all.events);
    assert_int_equal(all.runs, count);
    assert_true(all.events >= count * SIM_EVENTS);
    for (int i = 0; i < SIM_FAULTS && count >= 1000; i++)
        expect_row(all.faulted[i] * 100 >= all.events, sim_fault_names[i]);
}

/* ---- Without faults --------------------------------------------------------------------------------------------------------- */

/* From idle one replica is admitted the whole burst, whatever the costs. */
static void test_one_replica_is_admitted_the_whole_burst(void **state)
{
    (void)state;
    static struct sim_world world;
    struct lua_store *store = lua_store_new(NULL, 0);
    for (const struct sim_contract *contract = sim_contracts(); contract->why != NULL; contract++)
        for (uint64_t cost = 1; cost <= 5; cost++) {
            const struct sim_setup setup = {
                .seed = cost, .contract = contract, .replicas = 2, .is_calm = true
            };
            sim_open(&world, store, &setup);
            for (int i = 0; i < 500; i++) {
                sim_ask(&world, &world.replicas[0], 0, cost, SIM_CHECK);
                sim_run(&world, world.now + 1 + sim_below(&world, 2 * WEIR_MILLISECOND));
            }
            const struct oracle *oracle = &world.oracles[0][0];
            expect_row(world.violation[0] == '\0', contract->why);
            expect_row(oracle->admitted + cost > oracle->burst, contract->why);
            sim_close(&world);
        }
    lua_store_free(store);
}

/* What an exact limit admits in a length, burst included; of several limits the least. */
static uint64_t ideal_of(const struct sim_world *world, weir_ns length)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < SIM_LIMITS; i++) {
        const struct oracle *oracle = &world->oracles[i][0];
        if (!world->is_met[i][0])
            continue;
        uint64_t windows = oracle->is_window ? length / (oracle->period * oracle->tick) : 1;
        uint64_t tokens = oracle->burst * windows + oracle_refill(oracle, length);
        least = tokens < least ? tokens : least;
    }
    return least;
}

/* Demand of twice the limit for a long time, nine tenths of it at one replica. */
static void demand(struct sim_world *world, weir_ns per_token, weir_ns till)
{
    while (world->now < till && world->violation[0] == '\0') {
        size_t at = sim_below(world, 10) > 0 ? 0 : 1 + sim_below(world, 3);
        sim_ask(world, &world->replicas[at], 0, 1, SIM_CHECK);
        sim_run(world, world->now + sim_below(world, per_token));
    }
}

/* At least 95 of 100 that an exact limit admits. */
static void test_what_comes_back_is_admitted(void **state)
{
    (void)state;
    static struct sim_world world;
    struct lua_store *store = lua_store_new(NULL, 0);
    for (const struct sim_contract *contract = sim_contracts(); contract->why != NULL; contract++) {
        const struct sim_setup setup = { .seed = 7, .contract = contract, .replicas = 4, .is_calm = true };
        sim_open(&world, store, &setup);
        sim_ask(&world, &world.replicas[0], 0, 1, SIM_CHECK);
        const struct oracle *oracle = &world.oracles[0][0];
        weir_ns whole = oracle->period * oracle->tick;
        weir_ns per_token = whole / (oracle->is_window ? oracle->burst : oracle->count);
        sim_run(&world, oracle->is_window ? (world.now / whole + 1) * whole : world.now + WEIR_SECOND);
        uint64_t tokens = oracle->burst > 40 && !oracle->is_window ? 10 * oracle->burst : 400; /* ten windows */
        weir_ns length = tokens * per_token;
        uint64_t before = oracle->admitted;
        demand(&world, per_token, world.now + length);
        uint64_t ideal = ideal_of(&world, length), admitted = oracle->admitted - before;
        printf("%-52s %6llu of %6llu: %.4f\n", contract->why, (unsigned long long)admitted,
               (unsigned long long)ideal, (double)admitted / (double)ideal);
        expect_row(world.violation[0] == '\0', world.violation);
        expect_row(admitted * 100 >= ideal * 95, contract->why);
        sim_close(&world);
    }
    lua_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_replica_is_admitted_the_whole_burst),
        cmocka_unit_test(test_what_comes_back_is_admitted),
        cmocka_unit_test(test_no_run_exceeds_its_bounds),
    };
    return cmocka_run_group_tests_name("sim lease", tests, NULL, NULL);
}
