// SPDX-License-Identifier: Apache-2.0
/*
 * bench_threads.c - what a second thread brings: to the keyed limiter, and to the bare loop of floor.h.
 *
 * Operations of all threads in a fixed time, for one thread and for two, on keys of their own and on one hot key.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "floor.h"
#include "measure.h"
#include "weir.h"

#define SLICE_NS (100 * WEIR_MILLISECOND)
#define SAMPLES 11

struct worker {
    pthread_t thread;
    int cpu;
    char key[16];
    bool is_bare;
    struct shared *shared;
    uint64_t operations;
};

struct shared {
    struct weir *weir;
    weir_limit_id limit;
    struct floor_table table;
    int ready, go, stop; /* atomics */
};

static uint64_t decide_until_stopped(struct worker *worker)
{
    struct shared *shared = worker->shared;
    struct weir_decision decision;
    uint64_t operations = 0;
    weir_ns now = weir_now();
    while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 64; i++, now += WEIR_MICROSECOND)
            if (weir_check(shared->weir, shared->limit, worker->key, sizeof worker->key, 1, now, &decision)
                == 0)
                operations += 1;
    }
    return operations;
}

static uint64_t exchange_until_stopped(struct worker *worker)
{
    struct shared *shared = worker->shared;
    uint64_t operations = 0;
    while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 64; i++) {
            uint64_t hash = floor_hash(&shared->table, worker->key, sizeof worker->key);
            struct floor_cell *cell = floor_scan(floor_group(&shared->table, hash), hash & FLOOR_TAG_MASK);
            if (cell != NULL) {
                floor_exchange(cell);
                operations += 1;
            }
        }
    }
    return operations;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(worker->cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* fewer cores: the figures will show it */
    __atomic_fetch_add(&worker->shared->ready, 1, __ATOMIC_RELAXED);
    while (!__atomic_load_n(&worker->shared->go, __ATOMIC_ACQUIRE))
        ;
    worker->operations = worker->is_bare ? exchange_until_stopped(worker) : decide_until_stopped(worker);
    return NULL;
}

/* Operations per second of `count` threads. */
static double run(struct shared *shared, int count, bool is_bare, bool is_hot)
{
    struct worker workers[2];
    shared->ready = shared->go = shared->stop = 0;
    for (int i = 0; i < count; i++) {
        workers[i] = (struct worker){ .cpu = i, .is_bare = is_bare, .shared = shared };
        memcpy(workers[i].key,
               is_hot   ? "user:hot-key-000"
               : i == 0 ? "user:of-thread-0"
                        : "user:of-thread-1",
               sizeof workers[i].key);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(1);
    }
    while (__atomic_load_n(&shared->ready, __ATOMIC_RELAXED) < count)
        sched_yield();
    uint64_t from = measure_now();
    __atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
    nanosleep(&(struct timespec){ 0, SLICE_NS }, NULL);
    __atomic_store_n(&shared->stop, 1, __ATOMIC_RELAXED);
    uint64_t operations = 0;
    for (int i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        operations += workers[i].operations;
    }
    return (double)operations * 1e9 / (double)(measure_now() - from);
}

int main(void)
{
    static struct shared shared;
    static const struct weir_limit limit = { .name = "per-user",
                                             .rate = { 1000000000, WEIR_SECOND },
                                             .burst = UINT64_C(1) << 31 };
    if (weir_new(&shared.weir, &(struct weir_options){ .keys = 65536 }) != 0
        || weir_limit_add(shared.weir, &limit, &shared.limit) != 0 || !floor_table_init(&shared.table, 14))
        return 1;
    const char *keys[] = { "user:hot-key-000", "user:of-thread-0", "user:of-thread-1" };
    for (int i = 0; i < 3; i++)
        floor_place(&shared.table, floor_hash(&shared.table, keys[i], 16));

    double gain[SAMPLES], bare_gain[SAMPLES], hot_one[SAMPLES], hot_two[SAMPLES], bare_hot_gain[SAMPLES],
        ones[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        double one = run(&shared, 1, false, false);
        double bare_one = run(&shared, 1, true, false);
        gain[i] = run(&shared, 2, false, false) / one;
        bare_gain[i] = run(&shared, 2, true, false) / bare_one;
        hot_one[i] = run(&shared, 1, false, true) / 1e6;
        hot_two[i] = run(&shared, 2, false, true) / 1e6;
        bare_hot_gain[i] = run(&shared, 2, true, true) / bare_one;
        ones[i] = 1;
    }
    measure_print("two threads, distinct keys: gain / the bare loop's gain", "x", 0.95, true, gain, bare_gain,
                  SAMPLES);
    measure_print("two threads, one hot key: decisions per second / one thread's", "M/s", 1.0, true, hot_two,
                  hot_one, SAMPLES);
    measure_print("two threads, one hot key: the bare loop's gain", "x", 0, true, bare_hot_gain, ones, SAMPLES);
    weir_free(shared.weir);
    free(shared.table.groups);
    return 0;
}
