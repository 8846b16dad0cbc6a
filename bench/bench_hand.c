// SPDX-License-Identifier: Apache-2.0
/*
 * bench_hand.c - whether the hand that all workers of a process share is what they wait for, on one hot key.
 *
 * A spend takes one lock, that of the key's shard (holdings.h). One thread and two spend from one key, from keys of their own in
 * shards of their own, and from one key with the matching of a request in between. What the rest
 * of a request costs at the door is far more than that (bench/http_cost.py).
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fleet/holdings.h"
#include "measure.h"
#include "weir_contract.h"

#define SLICE_NS (100 * WEIR_MILLISECOND)
#define SAMPLES 11
#define MUCH (UINT64_C(1) << 45)

static const struct weir_lease lease = { .most = MUCH, .chunk = MUCH, .duration = WEIR_DAY };
static const struct weir_limit limit = { .name = "api", .rate = { 1000000000, WEIR_SECOND }, .burst = MUCH };
static const struct weir_shared_size size = {
    .tick = WEIR_MICROSECOND, .capacity = MUCH, .count = 1000, .period = 1
};

static struct holdings *holdings;
static struct weir_contract *contract;
static int ready, go, stopped; /* atomics */

struct worker {
    pthread_t thread;
    int cpu;
    uint64_t hash;
    bool is_request;
    uint64_t operations;
};

static void stop(const char *why)
{
    (void)fprintf(stderr, "bench_hand: %s\n", why);
    exit(1);
}

/* Have the key's hand full: much is missed twice, asked for, and granted. */
static uint64_t fill(const char *key, weir_ns now)
{
    struct holdings_key known = { .limit = &limit, .size = size, .lease = lease, .name = { key, strlen(key) } };
    struct holdings_message message;
    struct hand hand;
    known.hash = holdings_hash(holdings, limit.name, (const unsigned char *)key, strlen(key));
    for (int i = 0; i < 2; i++) {
        holdings_take(holdings, known.hash, &lease, &size, MUCH / 4, false, now, &hand);
        (void)holdings_miss(holdings, &known, MUCH / 4, now);
    }
    if (!holdings_claim(holdings, known.hash, now, &message))
        stop("no portion is asked for");
    const struct script_lease_answer answer = { .granted = message.message.want,
                                                .left = message.message.want,
                                                .ttl = WEIR_DAY,
                                                .remaining = MUCH,
                                                .ends_after = WEIR_NO_TIME,
                                                .seen = { 1, MUCH, 1 } };
    holdings_answer(holdings, &message, &answer, now);
    if (holdings_look(holdings, known.hash, now) < MUCH / 64)
        stop("nothing is in hand");
    return known.hash;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct weir_shared *shared = malloc(sizeof *shared);
    const struct weir_attribute attribute = { "tenant", "tenant-000001", 0 };
    const struct weir_request request = { .attributes = &attribute, .attribute_count = 1, .cost = 1 };
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(worker->cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* fewer cores: the figures will show it */
    if (shared == NULL)
        stop("out of memory");
    weir_ns now = weir_now();
    __atomic_fetch_add(&ready, 1, __ATOMIC_RELAXED);
    while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
        ;
    while (!__atomic_load_n(&stopped, __ATOMIC_RELAXED))
        for (int i = 0; i < 64; i++) {
            struct hand hand;
            if (worker->is_request && weir_contract_shared(contract, &request, shared) != 0)
                stop("a request cannot be asked");
            holdings_spend(holdings, worker->hash, &lease, &size, 1, now, &hand);
            worker->operations += hand.taken;
        }
    free(shared);
    return NULL;
}

/* Spends per second, in millions. */
static double run(int count, const uint64_t *hashes, bool is_request)
{
    struct worker workers[2];
    uint64_t operations = 0;
    ready = go = stopped = 0;
    for (int i = 0; i < count; i++) {
        workers[i] = (struct worker){ .cpu = i, .hash = hashes[i], .is_request = is_request };
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            stop("no thread");
    }
    while (__atomic_load_n(&ready, __ATOMIC_RELAXED) < count)
        sched_yield();
    uint64_t from = measure_now();
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    (void)nanosleep(&(struct timespec){ 0, SLICE_NS }, NULL);
    __atomic_store_n(&stopped, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < count; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        operations += workers[i].operations;
    }
    return (double)operations * 1e3 / (double)(measure_now() - from);
}

int main(void)
{
    static const char text[] =
        "weir: 1\nlimits:\n  - { name: api, key: [tenant], rate: 1000/s, burst: 1000, scope: fleet, "
        "when-store-fails: leased, lease: { most: 1000, chunk: 100, for: 2s } }\n";
    const struct weir_contract_options options = { .fleet = WEIR_FLEET_SHARED, .has_store = true };
    const uint8_t secret[16] = { 1 };
    if (weir_contract_parse(&contract, text, strlen(text), "bench", &options, NULL) != 0
        || holdings_new(&holdings, secret) != 0)
        stop("the contract is not read");
    weir_ns now = weir_now();
    const uint64_t hot = fill("hot", now), one = fill("one", now), other = fill("other", now);
    if (one / (UINT64_MAX / HOLDINGS_SHARDS + 1) == other / (UINT64_MAX / HOLDINGS_SHARDS + 1))
        stop("both keys are of one shard: take other names");

    double alone[SAMPLES], both[SAMPLES], apart[SAMPLES], apart_one[SAMPLES], request[SAMPLES],
        requests[SAMPLES], nanoseconds[SAMPLES], ones[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        alone[i] = run(1, &hot, false);
        both[i] = run(2, (const uint64_t[]){ hot, hot }, false);
        apart_one[i] = run(1, &one, false);
        apart[i] = run(2, (const uint64_t[]){ one, other }, false);
        request[i] = run(1, &hot, true);
        requests[i] = run(2, (const uint64_t[]){ hot, hot }, true);
        nanoseconds[i] = 1e3 / alone[i];
        ones[i] = 1;
    }
    measure_print("hand: one thread, one hot key, a spend", "ns", 0, false, nanoseconds, ones, SAMPLES);
    measure_print("hand: two threads, one hot key, spends alone / one thread's", "M/s", 0, true, both, alone,
                  SAMPLES);
    measure_print("hand: two threads, keys of their own, spends alone / one thread's", "M/s", 0, true, apart,
                  apart_one, SAMPLES);
    measure_print("hand: two threads, one hot key, spends of matched requests / one thread's", "M/s", 0, true,
                  requests, request, SAMPLES);
    holdings_free(holdings);
    weir_contract_free(contract);
    return 0;
}
