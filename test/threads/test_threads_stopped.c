// SPDX-License-Identifier: Apache-2.0
/*
 * A real thread is stopped by a signal at an instruction of the kernel's choice, in the middle of decisions,
 * for as long as the others work: all of them finish, and nothing is granted twice (P23).
 *
 * test_threads_scheduled.c stops at every touch of shared memory in turn; this one believes no list of touches.
 * Not under the thread sanitizer, which puts signals off.
 */
#include <errno.h>
#include <semaphore.h>
#include <signal.h>

#include "store/kit.h"
#include "threads/crew.h"

#define ROUNDS 300
#define OTHERS 3
#define TAKES 40

static struct {
    struct kit kit;
    const struct shape *shape;
    uint64_t round;                      /* says which key, and what time it is */
    uint64_t allowed;                    /* by the others */
    uint64_t victim_allowed[ROUNDS + 1]; /* by round: it may report a grant when the next one has begun */
    bool victim_works;
    sem_t stopped, go_on;
} at;

static uint64_t key_of_round(uint64_t round)
{
    return hash_at(&at.kit, round & 1, 1 + round);
}

/* All keys of the rounds before are whole again. */
static weir_ns time_of_round(uint64_t round)
{
    return 10 * S + round * 5 * S;
}

/* For the test only: POSIX does not promise that sem_wait() may be called in a handler; here it is a futex. */
static void stop_here(int number)
{
    (void)number;
    int saved = errno;
    sem_post(&at.stopped);
    while (sem_wait(&at.go_on) != 0)
        ;
    errno = saved;
}

/* Keys of its own beside the shared one: insertions, refusals and reclaims, all the time. */
static void *be_a_victim(void *unused)
{
    (void)unused;
    for (uint64_t i = 0; __atomic_load_n(&at.victim_works, __ATOMIC_ACQUIRE); i++) {
        struct store_answer answer;
        uint64_t round = __atomic_load_n(&at.round, __ATOMIC_ACQUIRE);
        weir_ns now = time_of_round(round);
        if (round == 0)
            continue;
        store_take(at.kit.store, at.shape, key_of_round(round), now, 1, &answer);
        if (answer.outcome == WEIR_ALLOW)
            __atomic_fetch_add(&at.victim_allowed[round], 1, __ATOMIC_ACQ_REL);
        store_take(at.kit.store, at.shape, hash_at(&at.kit, i & 1, 1000000 + i % 5), now, 1, &answer);
    }
    return NULL;
}

static void take_all(unsigned member)
{
    (void)member;
    for (unsigned i = 0; i < TAKES; i++) {
        struct store_answer answer;
        store_take(at.kit.store, at.shape, key_of_round(at.round), time_of_round(at.round), 1, &answer);
        if (answer.outcome == WEIR_ALLOW)
            __atomic_fetch_add(&at.allowed, 1, __ATOMIC_RELAXED);
    }
}

static void all_others_proceed(void **state)
{
    (void)state;
    struct sigaction action = { .sa_handler = stop_here };
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    sem_init(&at.stopped, 0, 0);
    sem_init(&at.go_on, 0, 0);

    struct crew crew;
    pthread_t victim;
    kit_open(&at.kit, 9, 0);
    at.shape = kit_shape(&at.kit,
                         (struct weir_limit){ .rate = { 10, S }, .burst = 10, .when_full = WEIR_FULL_CLOSED });
    at.victim_works = true;
    crew_open(&crew, OTHERS, take_all);
    assert_int_equal(pthread_create(&victim, NULL, be_a_victim, NULL), 0);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        /* A new key at a new instant, then the victim is stopped wherever it is. */
        at.allowed = 0;
        __atomic_store_n(&at.round, round, __ATOMIC_RELEASE);
        assert_int_equal(pthread_kill(victim, SIGUSR1), 0);
        while (sem_wait(&at.stopped) != 0)
            ;
        crew_round(&crew); /* returns only if all others finish */
        uint64_t granted = at.allowed + __atomic_load_n(&at.victim_allowed[round], __ATOMIC_ACQUIRE);
        assert_in_range(granted, 9, 10); /* the victim may hold one that it has not reported yet */
        sem_post(&at.go_on);

        struct store_answer answer;
        store_take(at.kit.store, at.shape, key_of_round(round), time_of_round(round), 1, &answer);
        assert_int_equal(answer.outcome, WEIR_DENY);
    }
    __atomic_store_n(&at.victim_works, false, __ATOMIC_RELEASE);
    pthread_join(victim, NULL);
    crew_close(&crew);
    kit_close(&at.kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_others_proceed) };
    return cmocka_run_group_tests_name("threads/stopped", tests, NULL, NULL);
}
