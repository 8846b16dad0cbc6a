// SPDX-License-Identifier: Apache-2.0
/* crew.h - real threads that start a round together, as often as wanted. */
#ifndef WEIR_TEST_CREW_H
#define WEIR_TEST_CREW_H

#include <pthread.h>

#include "support/unit.h"

#ifndef CREW_MAX
#define CREW_MAX 16
#endif

struct crew {
    pthread_t threads[CREW_MAX];
    unsigned count;
    pthread_barrier_t start, end;
    void (*work)(unsigned member);
    bool is_over;
};

struct crew_member {
    struct crew *crew;
    unsigned number;
};

static inline void *crew_main(void *argument)
{
    struct crew_member me = *(struct crew_member *)argument;
    free(argument);
    for (;;) {
        pthread_barrier_wait(&me.crew->start);
        if (me.crew->is_over)
            return NULL;
        me.crew->work(me.number);
        pthread_barrier_wait(&me.crew->end);
    }
}

static inline void crew_open(struct crew *crew, unsigned count, void (*work)(unsigned))
{
    crew->count = count;
    crew->work = work;
    crew->is_over = false;
    pthread_barrier_init(&crew->start, NULL, count + 1);
    pthread_barrier_init(&crew->end, NULL, count + 1);
    for (unsigned i = 0; i < count; i++) {
        struct crew_member *member = malloc(sizeof *member);
        *member = (struct crew_member){ crew, i };
        assert_int_equal(pthread_create(&crew->threads[i], NULL, crew_main, member), 0);
    }
}

/* Everybody works once. */
static inline void crew_round(struct crew *crew)
{
    pthread_barrier_wait(&crew->start);
    pthread_barrier_wait(&crew->end);
}

static inline void crew_close(struct crew *crew)
{
    crew->is_over = true;
    pthread_barrier_wait(&crew->start);
    for (unsigned i = 0; i < crew->count; i++)
        pthread_join(crew->threads[i], NULL);
    pthread_barrier_destroy(&crew->start);
    pthread_barrier_destroy(&crew->end);
}

#endif
