// SPDX-License-Identifier: Apache-2.0
/*
 * waiting.c - callers that wait for their turn, in virtual time: first come first served, each at its own instant.
 *
 * Prints:
 *     ada may go at 0.0 s
 *     bob waits, for 0.5 s as things stand
 *     cy waits, for 1.0 s as things stand
 *     dan is refused: its turn, at 1.5 s, would come too late
 *     bob leaves
 *     cy goes after 0.5 s
 */
#include <stdio.h>

#include "weir.h"

#define MS(ns) ((int)((ns) / WEIR_MILLISECOND))

static void serve(struct weir_waiter *waiter)
{
    const char *name = waiter->owner;
    printf("%s goes after %d.%d s\n", name, MS(waiter->waited) / 1000, MS(waiter->waited) / 100 % 10);
}

static void arrive(struct weir *weir, weir_limit_id limit, struct weir_waiter *waiter, weir_ns patience)
{
    struct weir_ask ask = { .limit = limit, .key = "k", .key_len = 1, .cost = 1 };
    struct weir_decision decision;
    if (weir_wait_start(weir, waiter, &ask, 1, patience, 0, &decision) != 0)
        return;
    const char *format = decision.outcome == WEIR_ALLOW ? "%s may go at %d.%d s\n"
                         : decision.outcome == WEIR_WAIT
                             ? "%s waits, for %d.%d s as things stand\n"
                             : "%s is refused: its turn, at %d.%d s, would come too late\n";
    const char *name = waiter->owner;
    printf(format, name, MS(decision.retry_at) / 1000, MS(decision.retry_at) / 100 % 10);
}

int main(void)
{
    struct weir *weir;
    weir_limit_id limit;
    struct weir_limit pace = { .name = "pace",
                               .algorithm = WEIR_LEAKY_QUEUE,
                               .rate = { 2, WEIR_SECOND },
                               .wait = { .up_to = 5 * WEIR_SECOND, .queue = 100 } };
    char names[4][4] = { "ada", "bob", "cy", "dan" };
    struct weir_waiter_part parts[4];
    struct weir_waiter waiters[4];
    if (weir_new(&weir, NULL) != 0 || weir_limit_add(weir, &pace, &limit) != 0)
        return 1;
    for (int i = 0; i < 4; i++) {
        waiters[i] =
            (struct weir_waiter){ .parts = &parts[i], .part_room = 1, .done = serve, .owner = names[i] };
        arrive(weir, limit, &waiters[i], WEIR_SECOND);
    }
    if (weir_wait_cancel(weir, &waiters[1], 100 * WEIR_MILLISECOND))
        printf("bob leaves\n");
    for (weir_ns at; (at = weir_wait_next(weir)) != WEIR_NO_TIME;) /* a real driver sleeps until then */
        weir_wait_tick(weir, at, 16);
    weir_free(weir);
    return 0;
}
