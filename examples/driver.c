// SPDX-License-Identifier: Apache-2.0
/*
 * driver.c - a thread that sleeps until the next turn, and is woken where one comes earlier: one permit, held for a minute.
 *
 * Prints:
 *     bob waits
 *     ada is done
 *     bob may go
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "weir.h"

struct driver {
    struct weir *weir;
    int bell; /* stays rung until it is heard, so no wake-up is lost between a look and the sleep */
    bool is_over;
};

static void wake(void *context) /* from any thread */
{
    (void)eventfd_write(((struct driver *)context)->bell, 1);
}

static void serve(struct weir_waiter *waiter)
{
    printf(waiter->decision.outcome == WEIR_ALLOW ? "bob may go\n" : "bob is refused\n");
    ((struct driver *)waiter->owner)->is_over = true; /* on the driver's own thread */
}

static void *drive(void *context)
{
    struct driver *driver = context;
    eventfd_t rings;
    for (weir_ns at, now; !driver->is_over; (void)weir_wait_tick(driver->weir, weir_now(), 64)) {
        if ((at = weir_wait_next(driver->weir)) <= (now = weir_now()))
            continue;
        weir_ns left = (at - now) / WEIR_MILLISECOND + 1;
        (void)poll(&(struct pollfd){ driver->bell, POLLIN, 0 }, 1, left < 60000 ? (int)left : 60000);
        (void)eventfd_read(driver->bell, &rings);
    }
    return NULL;
}

int main(void)
{
    struct driver us = { .bell = eventfd(0, EFD_NONBLOCK) };
    struct weir_limit jobs = { "jobs", WEIR_CONCURRENCY, .at_most = 1, .hold = WEIR_MINUTE,
                               .wait = { WEIR_MINUTE, 10 } };
    struct weir_ask ask = { .cost = 1 };
    struct weir_permit permit;
    struct weir_decision decision;
    struct weir_waiter_part part;
    struct weir_waiter bob = { .parts = &part, .part_room = 1, .acquires = true, .done = serve, .owner = &us };
    pthread_t thread;
    if (weir_new(&us.weir, &(struct weir_options){ .wake = wake, .wake_context = &us }) != 0
        || weir_limit_add(us.weir, &jobs, &ask.limit) != 0 || pthread_create(&thread, NULL, drive, &us) != 0
        || weir_acquire(us.weir, &ask, 1, weir_now(), NULL, &decision, &permit) != 0 /* ada's */
        || weir_wait_start(us.weir, &bob, &ask, 1, 5 * WEIR_SECOND, weir_now(), &decision) != 0)
        return 1;
    printf(decision.outcome == WEIR_WAIT ? "bob waits\nada is done\n" : "there is room\n");
    int error = weir_release(us.weir, permit.bytes, permit.len, weir_now(), NULL);
    pthread_join(thread, NULL);
    weir_free(us.weir);
    return error != 0;
}
