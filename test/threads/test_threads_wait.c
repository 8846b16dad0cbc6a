// SPDX-License-Identifier: Apache-2.0
/*
 * LABELS: threads
 *
 * Threads that arrive, tick, leave, check and release at once: whoever waits ends exactly once, in the order of arrival; no
 * more is released than the limits allow, no more permits are held than there are; and nothing waits at the end.
 *
 * Time is a counter that the threads move on, so nothing sleeps. The blocking call is tried by the clock that it reads.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "room.h"
#include "support/random.h"
#include "support/unit.h"
#include "threads/crew.h"

#define THREADS 6
#define ROUNDS 4000
#define OWN 8 /* waiters of each thread */
#define KEYS 3
#define PERMITS 3
#define COUNT 4 /* per PERIOD and key */
#define PERIOD 1000

enum state { IDLE, WAITS, ENDED };

struct guest {
    struct weir_waiter waiter;
    struct weir_waiter_part parts[2];
    _Atomic int state;
    atomic_uint ends;
    unsigned key;
};

struct turn {
    uint64_t ticket;
};

struct world {
    struct weir *weir;
    weir_limit_id pace, jobs;
    _Atomic weir_ns now;
    atomic_bool has_changed;
    pthread_mutex_t ticking; /* ticks in the order of their readings of `now` */
    struct turn turns[KEYS][THREADS * ROUNDS];
    size_t turn_count[KEYS];
    atomic_ullong admitted[KEYS], held[KEYS], most_held[KEYS], served, left;
};
static struct world world;

static void count_held(unsigned key)
{
    unsigned long long held = atomic_fetch_add(&world.held[key], 1) + 1;
    unsigned long long most = atomic_load(&world.most_held[key]);
    while (held > most && !atomic_compare_exchange_weak(&world.most_held[key], &most, held))
        ;
}

/* From a tick: they are in order, so the turns are noted in order. */
static void done(struct weir_waiter *waiter)
{
    struct guest *guest = waiter->owner;
    atomic_fetch_add(&guest->ends, 1);
    if (waiter->decision.outcome == WEIR_ALLOW) {
        world.turns[guest->key][world.turn_count[guest->key]++] =
            (struct turn){ waiter_state(waiter)->entry.ticket };
        atomic_fetch_add(&world.admitted[guest->key], 1);
        atomic_fetch_add(&world.served, 1);
        count_held(guest->key);
    }
    atomic_store_explicit(&guest->state, ENDED, memory_order_release);
}

static void release(struct guest *guest)
{
    struct weir_permit permit;
    bool was_held;
    weir_waiter_permit(world.weir, &guest->waiter, &permit);
    assert_int_not_equal(permit.len, 0);
    atomic_fetch_sub(&world.held[guest->key], 1);
    assert_int_equal(weir_release(world.weir, permit.bytes, permit.len, atomic_load(&world.now), &was_held), 0);
    assert_true(was_held);
}

static void arrive(struct guest *guest, struct random *random)
{
    static const char *const keys[KEYS] = { "a", "b", "c" };
    struct weir_decision decision;
    guest->key = (unsigned)random_below(random, KEYS);
    const struct weir_ask asks[2] = {
        { .limit = world.pace, .key = keys[guest->key], .key_len = 1, .cost = 1 },
        { .limit = world.jobs, .key = keys[guest->key], .key_len = 1, .cost = 1 }
    };
    guest->waiter = (struct weir_waiter){
        .parts = guest->parts, .part_room = 2, .acquires = true, .done = done, .owner = guest
    };
    atomic_store(&guest->ends, 0);
    atomic_store(&guest->state, WAITS); /* done() may come before weir_wait_start() returns */
    assert_int_equal(weir_wait_start(world.weir, &guest->waiter, asks, 2, random_below(random, 100 * PERIOD),
                                     atomic_load(&world.now), &decision),
                     0);
    if (decision.outcome == WEIR_WAIT)
        return;
    atomic_store(&guest->state, IDLE);
    if (decision.outcome == WEIR_ALLOW) {
        atomic_fetch_add(&world.admitted[guest->key], 1);
        count_held(guest->key);
        release(guest);
    }
}

static void tend(struct guest *guest, struct random *random)
{
    int state = atomic_load_explicit(&guest->state, memory_order_acquire);
    if (state == IDLE) {
        arrive(guest, random);
    } else if (state == ENDED) {
        assert_int_equal(atomic_load(&guest->ends), 1);
        if (guest->waiter.decision.outcome == WEIR_ALLOW)
            release(guest);
        atomic_store(&guest->state, IDLE);
    } else if (random_below(random, 8) == 0
               && weir_wait_cancel(world.weir, &guest->waiter, atomic_load(&world.now))) {
        assert_int_equal(atomic_load(&guest->ends), 0);
        atomic_fetch_add(&world.left, 1);
        atomic_store(&guest->state, IDLE);
    }
}

static void tick(void)
{
    pthread_mutex_lock(&world.ticking);
    (void)weir_wait_tick(world.weir, atomic_load(&world.now), 4);
    pthread_mutex_unlock(&world.ticking);
}

static void check(struct random *random)
{
    struct weir_decision decision;
    unsigned key = (unsigned)random_below(random, KEYS);
    char name = (char)('a' + key);
    assert_int_equal(weir_check(world.weir, world.pace, &name, 1, 1, atomic_load(&world.now), &decision), 0);
    if (decision.outcome == WEIR_ALLOW)
        atomic_fetch_add(&world.admitted[key], 1);
}

/* In the midst of it: one more at once, and whoever waits keeps its place. */
static struct weir_limit limits[2] = {
    { .name = "pace", .rate = { COUNT, PERIOD }, .burst = COUNT, .wait = { 60 * PERIOD, 40 } },
    { .name = "jobs",
      .algorithm = WEIR_CONCURRENCY,
      .at_most = PERMITS,
      .hold = 3600 * WEIR_SECOND,
      .wait = { 60 * PERIOD, 40 } },
};

static void change(void)
{
    struct weir_change *change;
    weir_limit_id id;
    limits[0].burst = COUNT + 1;
    assert_int_equal(weir_change_new(&change, world.weir), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(weir_change_limit(change, &limits[i], &id), 0);
    assert_int_equal(weir_change_commit(change, atomic_load(&world.now), NULL, NULL), 0);
}

static void *live(void *argument)
{
    struct random random = { (uint64_t)(uintptr_t)argument };
    struct guest *guests = calloc(OWN, sizeof *guests);
    for (unsigned i = 0; i < ROUNDS; i++) {
        tend(&guests[random_below(&random, OWN)], &random);
        tick();
        if (i == ROUNDS / 2 && atomic_exchange(&world.has_changed, true) == false)
            change();
        if (random_below(&random, 4) == 0)
            check(&random);
        if (random_below(&random, 4) == 0)
            atomic_fetch_add(&world.now, random_below(&random, PERIOD / 8));
    }
    for (unsigned i = 0; i < OWN; i++) /* whoever still waits has its turn or leaves */
        while (atomic_load_explicit(&guests[i].state, memory_order_acquire) != IDLE) {
            atomic_fetch_add(&world.now, 10);
            tick();
            if (atomic_load_explicit(&guests[i].state, memory_order_acquire) == ENDED
                || random_below(&random, 4) == 0)
                tend(&guests[i], &random);
        }
    free(guests);
    return NULL;
}

static void a_crowd_of_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    uint64_t seed = random_seed(64);
    pthread_mutex_init(&world.ticking, NULL);
    assert_int_equal(weir_new(&world.weir, &(struct weir_options){ .keys = 100 }), 0);
    assert_int_equal(weir_limit_add(world.weir, &limits[0], &world.pace), 0);
    assert_int_equal(weir_limit_add(world.weir, &limits[1], &world.jobs), 0);
    struct weir_stats before;
    weir_stats(world.weir, 0, &before);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, live, (void *)(uintptr_t)(seed + i)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    struct weir_stats stats;
    struct weir_decision decision;
    weir_ns end = atomic_load(&world.now);
    weir_quiesce(world.weir, end);
    weir_stats(world.weir, end, &stats);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.permits_free, before.permits_free);
    assert_int_equal(weir_wait_next(world.weir), WEIR_NO_TIME);
    for (unsigned key = 0; key < KEYS; key++) {
        char name = (char)('a' + key);
        assert_true(atomic_load(&world.admitted[key]) <= COUNT + 1 + end * COUNT / PERIOD);
        assert_true(atomic_load(&world.most_held[key]) <= PERMITS);
        assert_int_equal(weir_check(world.weir, world.pace, &name, 1, 1, end + PERIOD, &decision), 0);
        assert_int_equal(decision.outcome, WEIR_ALLOW); /* nobody waits, and the cell says so */
        for (size_t i = 1; i < world.turn_count[key]; i++) {
            /* In the order of arrival. Their instants need not be: threads read the clock, come and release in any order. */
            assert_true(world.turns[key][i - 1].ticket < world.turns[key][i].ticket);
        }
    }
    printf("%llu served after a wait, %llu left\n", atomic_load(&world.served), atomic_load(&world.left));
    assert_true(atomic_load(&world.served) > THREADS * ROUNDS / 100 && atomic_load(&world.left) > 0);
    weir_free(world.weir);
}

/* ---- Giving back while somebody comes ------------------------------------------------------------------------------------ */

#define MEETINGS 20000

static struct weir_waiter comer;
static struct weir_waiter_part comers_part;
static struct weir_decision comers_first;

/* One gives a token back, the other wants it. */
static void meet(unsigned member)
{
    const struct weir_ask ask = { .limit = 0, .key = "k", .key_len = 1, .cost = 1 };
    struct weir_settlement settlement;
    if (member == 0)
        assert_int_equal(weir_refund(world.weir, &ask, 1, 0, &settlement), 0);
    else
        assert_int_equal(weir_wait_start(world.weir, &comer, &ask, 1, 10 * WEIR_SECOND, 0, &comers_first), 0);
}

static void what_is_given_back_is_never_missed(void **state)
{
    (void)state;
    struct crew crew;
    struct weir_decision decision;
    struct weir_limit slow = {
        .name = "slow", .rate = { 1, WEIR_SECOND }, .burst = 1, .wait = { 60 * WEIR_SECOND, 5 }
    };
    weir_limit_id limit;
    unsigned waited = 0;
    assert_int_equal(weir_new(&world.weir, &(struct weir_options){ .keys = 100 }), 0);
    assert_int_equal(weir_limit_add(world.weir, &slow, &limit), 0);
    assert_int_equal(weir_check(world.weir, limit, "k", 1, 1, 0, &decision), 0);
    crew_open(&crew, 2, meet);
    for (unsigned i = 0; i < MEETINGS; i++) {
        comer = (struct weir_waiter){ .parts = &comers_part, .part_room = 1 };
        crew_round(&crew);
        if (comers_first.outcome == WEIR_WAIT) {
            waited++;
            assert_int_equal(weir_wait_tick(world.weir, 0, 1), 1);
        }
        assert_int_equal(comer.decision.outcome, WEIR_ALLOW);
    }
    crew_close(&crew);
    printf("%u of %u came first\n", waited, MEETINGS);
    weir_free(world.weir);
}

/* ---- Threads that block ---------------------------------------------------------------------------------------------- */

#define BLOCKED 100
#define STEP (WEIR_SECOND / 2000)

struct blocked {
    struct weir *weir;
    struct weir_decision decision;
};

static void *block(void *argument)
{
    struct blocked *blocked = argument;
    const struct weir_ask ask = { .limit = 0, .key = "k", .key_len = 1, .cost = 1 };
    assert_int_equal(weir_admit_waiting(blocked->weir, &ask, 1, 100 * WEIR_SECOND, NULL, &blocked->decision),
                     0);
    return NULL;
}

static int by_instant(const void *x, const void *y)
{
    weir_ns at = ((const struct blocked *)x)->decision.decided_at,
            other = ((const struct blocked *)y)->decision.decided_at;
    return at < other ? -1 : at > other;
}

static void blocked_threads_end_each_other(void **state)
{
    (void)state;
    static struct blocked blocked[BLOCKED];
    pthread_t threads[BLOCKED];
    struct weir *weir;
    weir_limit_id limit;
    struct weir_limit pace = { .name = "pace",
                               .algorithm = WEIR_LEAKY_QUEUE,
                               .rate = { 1, STEP },
                               .wait = { 1000 * WEIR_SECOND, BLOCKED } };
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 100 }), 0);
    assert_int_equal(weir_limit_add(weir, &pace, &limit), 0);
    weir_ns began = weir_now();
    for (unsigned i = 0; i < BLOCKED; i++) {
        blocked[i].weir = weir;
        assert_int_equal(pthread_create(&threads[i], NULL, block, &blocked[i]), 0);
    }
    for (unsigned i = 0; i < BLOCKED; i++)
        pthread_join(threads[i], NULL);
    qsort(blocked, BLOCKED, sizeof *blocked, by_instant);
    for (unsigned i = 0; i < BLOCKED; i++) {
        assert_int_equal(blocked[i].decision.outcome, WEIR_ALLOW);
        assert_true(blocked[i].decision.decided_at >= began);
        if (i > 0) /* never early, however late it may be */
            assert_true(blocked[i].decision.decided_at >= blocked[i - 1].decision.decided_at + STEP);
    }
    assert_true(weir_now() >= blocked[BLOCKED - 1].decision.decided_at);
    weir_free(weir);
}

static void a_blocked_thread_gives_up_at_its_deadline(void **state)
{
    (void)state;
    struct weir *weir;
    weir_limit_id limit;
    struct weir_decision decision, each[1];
    struct weir_limit jobs = { .name = "jobs",
                               .algorithm = WEIR_SLIDING_LOG,
                               .rate = { 1, 3600 * WEIR_SECOND },
                               .wait = { 3600 * WEIR_SECOND, 5 } };
    const struct weir_ask ask = { .limit = 0, .key = "k", .key_len = 1, .cost = 1 };
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 100 }), 0);
    assert_int_equal(weir_limit_add(weir, &jobs, &limit), 0);
    assert_int_equal(weir_admit_waiting(weir, &ask, 1, WEIR_SECOND, each, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_ALLOW);
    assert_int_equal(each[0].limit, limit);
    weir_ns began = weir_now();
    assert_int_equal(weir_admit_waiting(weir, &ask, 1, WEIR_SECOND, each, &decision), 0); /* no use to wait */
    assert_int_equal(decision.outcome, WEIR_DENY);

    struct weir_waiter_part part;
    struct weir_waiter patient = { .parts = &part, .part_room = 1 };
    assert_int_equal(weir_wait_start(weir, &patient, &ask, 1, 3600 * WEIR_SECOND, began, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_WAIT);
    assert_int_equal(weir_reset(weir, limit, "k", 1),
                     0); /* who waits before it goes, by the ticks of the blocked one */
    assert_int_equal(weir_admit_waiting(weir, &ask, 1, 2 * WEIR_MILLISECOND, NULL, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_DENY);
    assert_true(weir_wait_cancel(weir, &patient, began) || patient.decision.outcome == WEIR_ALLOW);
    weir_free(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowd_of_threads),
        cmocka_unit_test(what_is_given_back_is_never_missed),
        cmocka_unit_test(blocked_threads_end_each_other),
        cmocka_unit_test(a_blocked_thread_gives_up_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
