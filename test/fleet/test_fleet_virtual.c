// SPDX-License-Identifier: Apache-2.0
/*
 * test_fleet_virtual.c - random schedules of several processes over one store, with everything that breaks: P38, P39, P40, B31.
 *
 * A schedule is a list of phases, each with its faults, and requests at random instants in between. Whatever happens:
 *
 *   - every request is answered exactly once and no later than its deadline (the world asserts it);
 *   - in every interval what passed stays within the bound of algorithms 5: burst + rate * length by the store, as much again for
 *     each loss of its state within it, and each process's share for what it let through by itself;
 *   - no key is without an expiry after any command; no process has two probes under way (the world asserts both);
 *   - a store that has been well for the longest cool-down and a probe's time is used.
 *
 * WEIR_SEED replays one schedule; WEIR_SCHEDULES says how many.
 *
 * LABELS: e2e
 */
#include "support/fleet_world.h"

static struct redis_server redis;
static struct world world;

static int start(void **state)
{
    (void)state;
    return redis_server_start(&redis);
}

static int stop(void **state)
{
    (void)state;
    return redis_server_stop(&redis);
}

#define MS WEIR_MILLISECOND
#define TENANTS 2
#define PASSES_MAX 20000

/* ---- What passed ------------------------------------------------------------------------------------------------------ */

struct pass {
    weir_ns at;
    uint64_t cost;
    size_t process;
    enum weir_policy policy;
};

static struct pass passes[TENANTS][PASSES_MAX];
static size_t pass_counts[TENANTS];
static size_t by_policy[WEIR_POLICY_COUNT];
static weir_ns well_since; /* nothing breaks; WEIR_NO_TIME: something does */
static weir_ns open_for;   /* how long UNMETERED may last */

static bool was_well_long_enough(weir_ns asked_at)
{
    return well_since != WEIR_NO_TIME
           && asked_at >= well_since + OUTAGE_COOL_MAX_NS + 250 * MS + world.deadline;
}

static void note(struct world *here, struct asked *asked)
{
    const struct weir_decision *decision = &asked->met[0].decision;
    assert_int_equal(asked->decision.count, 1);
    by_policy[decision->policy]++;
    /* P40: a healthy store is used again. */
    if (was_well_long_enough(asked->asked_at))
        assert_int_equal(decision->policy, WEIR_POLICY_NONE);
    /* An outage is not prolonged: it began no later than with the first of these answers. */
    if (decision->outcome == WEIR_UNMETERED && open_for > 0)
        assert_true(here->now < asked->worker->process->bad_at + open_for);
    if (asked->decision.is_peek || asked->decision.kind != FLEET_CHECK || !asked->decision.passes)
        return;
    size_t tenant = (size_t)(asked->tenant[1] - '0');
    assert_true(pass_counts[tenant] < PASSES_MAX);
    passes[tenant][pass_counts[tenant]++] =
        (struct pass){ asked->asked_at, asked->met[0].cost, (size_t)(asked->worker->process - here->processes),
                       decision->policy };
}

static int by_time(const void *x, const void *y)
{
    const struct pass *a = x, *b = y;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* ---- Bounds --------------------------------------------------------------------------------------------------------------- */

/* count per period ns, and the most at once. `is_window`: in each window of the period instead. */
struct bound {
    uint64_t burst, count;
    weir_ns period;
    bool is_window;
};

static size_t wipes_within(weir_ns from, weir_ns to)
{
    size_t wipes = 0;
    for (size_t i = 0; i < world.wiped; i++)
        wipes += world.wiped_at[i] >= from && world.wiped_at[i] <= to;
    return wipes;
}

/* Which passes a bound is about. */
static bool is_of(const struct pass *pass, bool is_store, size_t process)
{
    return is_store ? pass->policy == WEIR_POLICY_NONE
                    : pass->policy == WEIR_POLICY_LOCAL && pass->process == process;
}

/* Every interval between two of them: sum <= burst * (1 + losses) + count * length / period. */
static void check_bucket(const struct pass *at, size_t count, const struct bound *bound, bool is_store,
                         size_t process)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t sum = 0;
        if (!is_of(&at[i], is_store, process))
            continue;
        for (size_t j = i; j < count; j++) {
            if (!is_of(&at[j], is_store, process))
                continue;
            sum += at[j].cost;
            size_t losses = is_store ? wipes_within(at[i].at, at[j].at) : 0;
            weir_u128_ room = (weir_u128_)bound->burst * (1 + losses) * bound->period
                              + (weir_u128_)bound->count * (at[j].at - at[i].at);
            if ((weir_u128_)sum * bound->period > room)
                fail_msg("%s %zu: %llu tokens passed within %llu ms: burst %llu, %llu losses",
                         is_store ? "store" : "process", process, (unsigned long long)sum,
                         (unsigned long long)((at[j].at - at[i].at) / MS), (unsigned long long)bound->burst,
                         (unsigned long long)losses);
        }
    }
}

static uint64_t window_of(const struct bound *bound, weir_ns at)
{
    return (at + (uint64_t)WORLD_WALL) / bound->period;
}

static void check_windows(const struct pass *at, size_t count, const struct bound *bound, bool is_store,
                          size_t process)
{
    uint64_t window = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_of(&at[i], is_store, process))
            continue;
        if (window_of(bound, at[i].at) != window) {
            window = window_of(bound, at[i].at);
            sum = 0;
        }
        sum += at[i].cost;
        weir_ns first = window * bound->period - (uint64_t)WORLD_WALL;
        size_t losses = is_store ? wipes_within(first, at[i].at) : 0;
        if (sum > bound->burst * (1 + losses))
            fail_msg("%s %zu: %llu passed in one window of %llu, with %zu losses",
                     is_store ? "store" : "process", process, (unsigned long long)sum,
                     (unsigned long long)bound->burst, losses);
    }
}

static void check_bound(const struct bound *bound, bool is_store, size_t process)
{
    for (size_t i = 0; i < TENANTS; i++)
        (bound->is_window ? check_windows : check_bucket)(passes[i], pass_counts[i], bound, is_store, process);
}

/* ---- Schedules ----------------------------------------------------------------------------------------------------------------- */

struct schedule {
    const char *why, *shape, *fails;
    struct bound store, local; /* local.period 0: nothing passes by it */
    weir_ns open_for;
    size_t processes, workers;
    bool is_cluster;
};

static void draw_faults(struct random *random, struct world_faults *out)
{
    *out = (struct world_faults){ 0 };
    well_since = WEIR_NO_TIME;
    switch (random_below(random, 14)) {
    case 0:
        out->is_down = true;
        break;
    case 1:
        out->is_frozen = true;
        break;
    case 2:
        out->is_read_only = true;
        break;
    case 3:
        out->answer_one_in = 10;
        break;
    case 4:
        *out = (struct world_faults){
            .lose_command = 100, .lose_reply = 100, .break_before = 30, .break_after = 30
        };
        break;
    case 5:
        *out = (struct world_faults){ .slow = 4 * MS, .lose_reply = 20 };
        break;
    case 6:
        out->is_busy = true;
        break;
    case 7:
        out->is_topology = true;
        break;
    case 8:
        out->slow = 12 * MS; /* mostly too late */
        break;
    case 9:
        *out = (struct world_faults){ .break_after = 200 };
        break;
    default:
        well_since = world.now;
    }
}

static void do_phase(struct random *random, size_t process_count, size_t worker_count)
{
    struct world_faults faults;
    weir_ns end = world.now + 100 * MS + random_below(random, 4000) * MS;
    draw_faults(random, &faults);
    if (well_since != WEIR_NO_TIME && random_below(random, 3) == 0)
        end += 10 * WEIR_SECOND; /* long enough to see it used */
    world_faults_set(&world, &faults);
    if (random_below(random, 5) == 0)
        world_wipe(&world);
    if (random_below(random, 5) == 0)
        (void)redis_say(&redis, "SCRIPT", "FLUSH", NULL);
    unsigned pace = 1 + (unsigned)random_below(random, 60);
    while (world.now < end) {
        char tenant[3] = { 't', (char)('0' + random_below(random, TENANTS)), '\0' };
        struct fleet_decision how = { .is_peek = random_below(random, 12) == 0 };
        if (random_below(random, 25) == 0)
            how = (struct fleet_decision){ .kind = FLEET_RESERVE, .hold = WEIR_SECOND };
        struct asked *asked =
            world_ask_as(&world, random_below(random, process_count), random_below(random, worker_count),
                         tenant, 1 + random_below(random, 3), &how);
        if (asked->done == 0 && random_below(random, 60) == 0) {
            fleet_forget(asked->worker->fleet, &asked->decision);
            asked->done = 1;
        }
        world_run_for(&world, random_below(random, pace * MS));
    }
}

static void run_schedule(const struct schedule *schedule, uint64_t seed)
{
    struct random random = { seed };
    char text[512];
    (void)snprintf(
        text, sizeof text,
        "weir: 1\nlimits:\n  - { name: shared, key: [tenant], scope: fleet, when-store-fails: %s, %s }\n",
        schedule->fails, schedule->shape);
    (schedule->is_cluster ? world_open_cluster : world_open)(&world, &redis, random_u64(&random), text,
                                                             schedule->processes, schedule->workers);
    world.told = note;
    open_for = schedule->open_for;
    memset(pass_counts, 0, sizeof pass_counts);
    while (world.now < WORLD_START + 40 * WEIR_SECOND)
        do_phase(&random, schedule->processes, schedule->workers);
    world_heal(&world);
    well_since = world.now;
    world_settle(&world);
    world_run_for(&world, 7 * WEIR_SECOND);
    for (size_t i = 0; i < TENANTS; i++)
        qsort(passes[i], pass_counts[i], sizeof *passes[i], by_time);
    check_bound(&schedule->store, true, 0);
    for (size_t i = 0; i < schedule->processes; i++) {
        struct fleet_counters counters;
        process_count_up(&world.processes[i], &counters);
        assert_int_equal(counters.spent_kept, 0); /* all of it was told or is over */
        if (schedule->local.period > 0)
            check_bound(&schedule->local, false, i);
    }
    world_close(&world);
}

/* 20/s of burst 10, a share of a quarter: 5/s of burst 2. */
static const struct schedule schedules[] = {
    { "closed: burst + rate, exactly",
      "rate: 20/1s, burst: 10",
      "closed",
      { 10, 20, WEIR_SECOND, false },
      { 0 },
      0,
      3,
      2,
      false },
    { "open for 2 s",
      "rate: 20/1s, burst: 10",
      "{ open: 2s }",
      { 10, 20, WEIR_SECOND, false },
      { 0 },
      2 * WEIR_SECOND,
      3,
      2,
      false },
    { "a quarter each",
      "rate: 20/1s, burst: 10",
      "{ local: 1/4 }",
      { 10, 20, WEIR_SECOND, false },
      { 2, 5, WEIR_SECOND, false },
      0,
      3,
      2,
      false },
    { "a quarter of a window",
      "algorithm: fixed-window, rate: 12/1s",
      "{ local: 1/4 }",
      { 12, 0, WEIR_SECOND, true },
      { 3, 0, WEIR_SECOND, true },
      0,
      3,
      1,
      false },
    { "a log, by two",
      "algorithm: sliding-log, rate: 10/1s",
      "closed",
      { 10, 0, WEIR_SECOND, true },
      { 0 },
      0,
      2,
      2,
      false },
    { "a sliding window",
      "algorithm: sliding-window, rate: 10/1s",
      "{ local: 1/2 }",
      { 10, 0, WEIR_SECOND, true },
      { 5, 0, WEIR_SECOND, true },
      0,
      2,
      1,
      false },
    { "three nodes",
      "rate: 20/1s, burst: 10",
      "{ local: 1/4 }",
      { 10, 20, WEIR_SECOND, false },
      { 2, 5, WEIR_SECOND, false },
      0,
      3,
      1,
      true },
};

static void P38_P39_P40_bounds_hold_whatever_breaks(void **state)
{
    (void)state;
    const char *wanted = getenv("WEIR_SCHEDULES");
    unsigned runs = wanted != NULL ? (unsigned)strtoul(wanted, NULL, 10) : 2;
    uint64_t seed = random_seed(20260613);
    for (unsigned run = 0; run < runs; run++)
        for (size_t i = 0; i < COUNT_OF(schedules); i++) {
            printf("%s: WEIR_SEED=%llu WEIR_SCHEDULES=1\n", schedules[i].why, (unsigned long long)(seed + run));
            run_schedule(&schedules[i], seed + run);
        }
    /* The menu was tasted: each way of answering was taken. */
    assert_true(by_policy[WEIR_POLICY_NONE] > 100 && by_policy[WEIR_POLICY_CLOSED] > 100);
    assert_true(by_policy[WEIR_POLICY_OPEN] > 10 && by_policy[WEIR_POLICY_LOCAL] > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(P38_P39_P40_bounds_hold_whatever_breaks),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
