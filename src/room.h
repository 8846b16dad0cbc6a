// SPDX-License-Identifier: Apache-2.0
/*
 * room.h - the waiting room: a queue for each key that is waited for, and one agenda of instants for all.
 *
 * Idea: a request that waits stands in the queue of every limit that lets it, from the same instant on, and is decided when it
 * is first in all of them. Queues grow at their ends only and all under one lock, so of all who wait the one that came first
 * is first wherever it stands: somebody can always be decided, and whoever is not at the front of a queue has only older ones
 * before it. Hence no deadlock and no starvation, and nobody overtakes (P29).
 *
 * All memory is the callers' (weir_waiter and its parts), so a room cannot run out of any: a queue's own state stands with
 * its first and moves on when that leaves.
 *
 * Words:    all under `lock`, but for `next` and `waiting`, which are written under it and read by anybody; and the bit of a
 *           waited-for cell (store/queue.c), which is written under it.
 * Ordering: `waiting` is raised before the bit is set, and the queue's prospects are looked at after that. Who gives
 *           something back does so, then passes a full fence, then reads `waiting`: so it finds the queue, or what it gave
 *           back is found by the queue's look (Dekker). `next` needs no order: it is a hint that `wake` corrects.
 * Progress: blocks for as long as others hold the lock: each holder makes a bounded number of decisions, and calls nobody.
 * Reuse:    a waiter is its caller's again once it is marked as ended, under the lock; nobody touches it after that but
 *           weir_wait_tick(), which calls its done().
 */
#ifndef WEIR_ROOM_H
#define WEIR_ROOM_H

#include <pthread.h>
#include <stdatomic.h>

#include "agenda.h"
#include "weir.h"

struct shape;
struct store_answer;
struct weir_set;

/* One (limit, key) that a request is about, in a weir_waiter_part's private space; and with it what ask number i was. */
struct __attribute__((may_alias)) stand {
    uint64_t hash, cost;
    uint64_t retry_id; /* the hash of it, with has_retry_id */
    uint64_t within;
    uint32_t lineage;
    bool in_queue;
    bool is_dropped; /* its limit was removed meanwhile: it asks nothing any more */
    bool is_watched;
    bool is_within; /* the key brought its own capacity: */
    bool has_retry_id;
    bool holds_retry;     /* until somebody else has had a say: */
    uint32_t retry_nonce; /* the name of the hold */

    /* In the queue of the hash. */
    struct weir_waiter *waiter;
    struct stand *next, *previous; /* previous NULL: first */
    struct queue {                 /* of the first only */
        struct stand *chain;       /* the next queue of the same chain */
        struct stand *last;
        uint64_t cost_low, cost_high; /* of all together */
        uint32_t count;
    } queue;

    /* What came of it. */
    bool is_charged; /* tokens of a limit that is in force, not permits */
    uint32_t place;  /* of a permit, with its fence; fence 0: none */
    uint64_t fence;
    weir_ns expires_at;

    /* The ask with this index. */
    uint8_t part_of; /* which stand answers it */
    bool settles;    /* a settlement of its reservation changes it */
};
_Static_assert(sizeof(struct stand) <= sizeof((struct weir_waiter_part *)0)->opaque,
               "a stand fits its part's private space");

/* `state` of a waiter. Whatever an uninitialized one holds is taken for IDLE. */
#define WAITER_WAITS UINT32_C(0x57414954)

/* The private space of a weir_waiter. */
struct __attribute__((may_alias)) waiter {
    struct agenda_entry entry; /* at: when there is something to do, a stamp */
    uint32_t state;
    uint32_t binding;                  /* lineage of the limit that bound the answer; 0: none */
    struct weir_waiter *older, *newer; /* of all who wait, by ticket */
    weir_ns started_at, deadline,
        due; /* stamps; due: when it can pass, as far as is known, NO_TIME while not first */
    uint16_t stand_count, joint_count; /* all; and those that are decided together, which come first */
    uint16_t behind;                   /* in how many queues it is not first */
    bool is_refused;                   /* a limit of it was restarted */
    bool is_undone;                    /* nothing is left of what it took */
    pthread_cond_t *sleeper;           /* a thread that blocks until it ends; or NULL */
    struct weir_waiter *ended;         /* the next one to be told */
};
_Static_assert(sizeof(struct waiter) <= sizeof((struct weir_waiter *)0)->opaque,
               "a waiter's state fits its private space");

static inline struct waiter *waiter_state(const struct weir_waiter *waiter)
{
    return (struct waiter *)(uintptr_t)waiter->opaque;
}

static inline struct stand *waiter_stand(const struct weir_waiter *waiter, size_t index)
{
    return (struct stand *)waiter->parts[index].opaque;
}

struct room {
    pthread_mutex_t lock;
    struct stand **chains; /* queues by hash: the first of each */
    unsigned chain_bits;
    struct agenda agenda;
    struct weir_waiter *oldest, *newest;
    uint64_t next_ticket;
    void (*wake)(void *wake_context);
    void *wake_context;
    _Atomic weir_ns next;     /* the agenda's first instant, a stamp; NO_TIME: nobody waits */
    _Atomic uint64_t waiting; /* how many */
};

/* 0 or WEIR_ERR_MEMORY. Some chains for so many keys. */
int room_init(struct weir *weir, size_t keys);
void room_deinit(struct weir *weir);
size_t room_bytes(const struct room *room);

/* Unlocking publishes `next`; and unless the caller is the driver, who asks for it anyway, wakes it where that is earlier. */
void room_lock(struct weir *weir);
void room_unlock(struct weir *weir, bool is_driver);

/* ---- For those who do not wait (room.c) ---------------------------------------------------------------------------- */

/* Something of this key was given back at `stamp` (0: whenever). Cheap where nobody waits. Not under the lock. */
void room_touch(struct weir *weir, uint64_t hash, weir_ns stamp);

/*
 * A decision met a key that others wait for: give its numbers behind them. False: nobody waits any more, decide again.
 * `stance` as it was decided with: STANCE_IN_ROOM where the lock is held.
 */
bool room_quote(struct weir *weir, const struct shape *shape, uint64_t hash, uint64_t cost, weir_ns stamp,
                unsigned stance, struct store_answer *out);

/*
 * The lock is held and `next` is about to take the place of `old`: stands of limits that it has not are left; and after it was
 * put in force, everybody's prospects are looked at again.
 */
void room_change_begin(struct weir *weir, const struct weir_set *old, const struct weir_set *next,
                       weir_ns stamp);
void room_change_end(struct weir *weir, weir_ns stamp);

/* ---- For those who wait (wait.c), under the lock -------------------------------------------------------------------- */

/* The first in the queue of a hash, or NULL; and the cost of all who stand there. */
struct stand *room_first(const struct room *room, uint64_t hash);
uint64_t room_cost(const struct stand *first);

/* To the end of each queue that its stands want, which say so with in_queue. */
void room_enter(struct weir *weir, struct weir_waiter *waiter);

/* Out of all; at `at` those who are first now look when they can pass. */
void room_leave(struct weir *weir, struct weir_waiter *waiter, weir_ns at);

/* When somebody who is first everywhere can pass, looked at now; not before `from`, nor before it came. */
weir_ns room_due(struct weir *weir, const struct weir_waiter *waiter, weir_ns from);

/* `due` has changed. */
void room_reschedule(struct weir *weir, struct weir_waiter *waiter);

/* The limit of a lineage in force, and the shape of a key under it; NULL: it is not counted there. */
const struct shape *room_shape(const struct weir_set *set, uint32_t lineage, uint64_t hash,
                               weir_limit_id *limit);

#endif
