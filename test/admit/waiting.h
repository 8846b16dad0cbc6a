// SPDX-License-Identifier: Apache-2.0
/* waiting.h - for tests of the waiting room in virtual time: waiters that remember when they ended, and one driver. */
#ifndef WEIR_TEST_WAITING_H
#define WEIR_TEST_WAITING_H

#include <stdbool.h>

#include "support/unit.h"
#include "weir.h"

#define MS WEIR_MILLISECOND
#define S WEIR_SECOND
#define PARTS 4

/* One request, from asking to its end. */
struct guest {
    struct weir_waiter waiter;
    struct weir_waiter_part parts[PARTS];
    struct weir_decision first; /* what weir_wait_start() said */
    weir_ns ended_at;           /* of a waiter: at which tick; WEIR_NO_TIME before */
    unsigned order;             /* the how many'th that ended, from 1 */
    unsigned calls;
};

/* The instant of the tick that runs, and how many have ended. */
static weir_ns guests_now;
static unsigned guests_ended;

static inline void guest_done(struct weir_waiter *waiter)
{
    struct guest *guest = waiter->owner;
    guest->ended_at = guests_now;
    guest->order = ++guests_ended;
    guest->calls++;
}

static inline struct weir_decision guest_asks(struct weir *weir, struct guest *guest,
                                              const struct weir_ask *asks, size_t count, weir_ns patience,
                                              weir_ns now)
{
    *guest = (struct guest){ .ended_at = WEIR_NO_TIME };
    guest->waiter =
        (struct weir_waiter){ .parts = guest->parts, .part_room = PARTS, .done = guest_done, .owner = guest };
    assert_int_equal(weir_wait_start(weir, &guest->waiter, asks, count, patience, now, &guest->first), 0);
    return guest->first;
}

static inline struct weir_ask ask_of(weir_limit_id limit, const char *key, uint64_t cost)
{
    return (struct weir_ask){ .limit = limit, .key = key, .key_len = strlen(key), .cost = cost };
}

static inline struct weir_decision guest_enters(struct weir *weir, struct guest *guest, weir_limit_id limit,
                                                const char *key, uint64_t cost, weir_ns patience, weir_ns now)
{
    struct weir_ask ask = ask_of(limit, key, cost);
    return guest_asks(weir, guest, &ask, 1, patience, now);
}

/* The driver: every tick at its own instant, up to and including `until`. */
static inline void drive(struct weir *weir, weir_ns until)
{
    for (weir_ns at; (at = weir_wait_next(weir)) <= until;) {
        guests_now = at;
        (void)weir_wait_tick(weir, at, 1000);
    }
    guests_now = until;
}

/* One that comes only now, however much was due before. */
static inline void drive_late(struct weir *weir, weir_ns now)
{
    guests_now = now;
    while (weir_wait_next(weir) <= now)
        (void)weir_wait_tick(weir, now, 3);
}

static inline struct weir *limiter(void)
{
    static const uint8_t secret[16] = "waiting";
    struct weir *weir;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 1000, .secret = secret }), 0);
    guests_ended = 0;
    return weir;
}

static inline weir_limit_id limit_of(struct weir *weir, struct weir_limit limit)
{
    weir_limit_id id;
    assert_int_equal(weir_limit_add(weir, &limit, &id), 0);
    return id;
}

static inline uint64_t waiting(struct weir *weir)
{
    struct weir_stats stats;
    weir_stats(weir, 0, &stats);
    return stats.waiting;
}

#endif
