// SPDX-License-Identifier: Apache-2.0
/*
 * fleet.h - a request's shared limits become decisions: asked of the store within a deadline, or answered by policy.
 *
 * Idea: one attempt. The questions of a request become one script call (in a Cluster one for each hash tag, in one total order,
 * what was charged being undone where a later one refuses). What could not be had in time, for whatever reason, each limit
 * answers by its `when-store-fails`. Pure but for the carrier: time comes in through calls, and fleet_next() says when to come
 * again. One fleet per loop; what all loops of a process share is in fleet_common.
 *
 * Keeps G6 (P38 to P40).
 */
#ifndef WEIR_FLEET_FLEET_H
#define WEIR_FLEET_FLEET_H

#include "fleet/carrier.h"
#include "fleet/outage.h"
#include "weir_contract.h"

struct fleet;

/* Of one process: breakers, keys known to be refused (denied.h), what fallbacks let through (journal.h), counters. */
struct fleet_common;
int fleet_common_new(struct fleet_common **out, uint64_t seed);
/* The same, and nothing is drawn from the system: tests, whose seed replays a run. */
int fleet_common_new_seeded(struct fleet_common **out, uint64_t seed);
void fleet_common_free(struct fleet_common *common);
struct outages *fleet_common_outages(struct fleet_common *common);
/* What this process is called as a holder of leases; before the first fleet_new(). `run` 0: drawn at random, as it is without
   this call; `label` is for people and copied. */
void fleet_common_name(struct fleet_common *common, uint64_t run, const char *label);
/* Another contract is in force: what was known to be refused is forgotten (B61). Threads: any. */
void fleet_common_changed(struct fleet_common *common);

struct fleet_options {
    struct fleet_common *common;
    struct carrier *carrier; /* kept until fleet_free() */
    const struct weir_contract *contract;
    weir_ns deadline;
    uint64_t
        seed; /* of names of reservations and permits when has_seed (tests); else the system's randomness */
    bool has_seed;
    bool injects_time;   /* tests: the store's clock is ours plus wall_offset */
    int64_t wall_offset; /* ns from our stamps to Unix time; fleet_wall_set() */
    /* The clock of this turn of the loop, asked when a reply comes: a reading of before would be early, and so would what counts
       from it. NULL: what fleet_now_set() said. Where time is injected a reply is decided at its decision's own stamp. */
    weir_ns (*now)(void *context);
    /* How long the machine has been suspended since it started: our clock stood still meanwhile, and leases did not. NULL: never. */
    weir_ns (*asleep)(void *context);
    /* The instant of fleet_next() came nearer: from within the calls below. May be NULL. */
    void (*wake)(void *context);
    /* A line for the log, at most a few per outage: event=... and what belongs to it, without level and time. May be NULL. */
    void (*log)(void *context, const char *line);
    void *context;
};
int fleet_new(struct fleet **out, const struct fleet_options *options);
/* Nothing is under way any more: after fleet_drain(). Does not close the carrier. */
void fleet_free(struct fleet *fleet);
void fleet_wall_set(struct fleet *fleet, int64_t wall_offset);

/* When fleet_tick() has something to do; WEIR_NO_TIME: nothing. */
weir_ns fleet_next(const struct fleet *fleet);
void fleet_tick(struct fleet *fleet, weir_ns now);

/* Readings of the clock by whoever drives: replies that come are decided at `now`. Call it before the loop's turn. */
void fleet_now_set(struct fleet *fleet, weir_ns now);

/* ---- Deciding ---------------------------------------------------------------------------------------------------- */

enum fleet_kind { FLEET_CHECK, FLEET_RESERVE, FLEET_ACQUIRE };

/* Longest handle of a reservation or a permit in the store:. */
#define FLEET_HANDLE_MAX ((size_t)48 << 10)

/* One request's shared part. Its memory is the caller's from fleet_decide() until done(). */
struct fleet_decision {
    enum fleet_kind kind;
    bool is_peek;
    bool
        by_policy; /* there is no room to wait for the store: as if it could not be had, within fleet_decide() */
    bool is_final; /* nobody else has a say: fleet_undo() will not be called */
    weir_ns now;
    weir_ns hold;                /* FLEET_RESERVE */
    struct weir_shared_met *met; /* room for shared->count; written before done(), limit and cost at once */
    size_t count;
    /* Once, also within fleet_decide(). Shared limits about which nothing is known, because another one refused before they were
       asked, are left out of `met`. */
    void (*done)(struct fleet_decision *decision);
    void *owner;

    /* Written before done(). */
    bool passes; /* none of those that take part refuses */
    unsigned char *
        handle; /* RESERVE, ACQUIRE that passed and took something: freed with free() by the caller; else NULL */
    size_t handle_len;
    uint64_t fence;     /* ns, so that it is above those of a limit that was one of a process before */
    weir_ns expires_at; /* of the permit, or of the reservation; by our clock, not later than the store's */

    struct fleet_work
        *work; /* the fleet's, as is the next one: what it has of the process's leases, within done() */
    struct fleet_hands *hands;
};

/* `shared` is lent for the call; shared->rules are held by the caller until done(). */
void fleet_decide(struct fleet *fleet, const struct weir_shared *shared, struct fleet_decision *decision);

/* Nobody wants the answer: done() will not come. What was taken, or is taken meanwhile, stays charged; permits are returned. */
void fleet_forget(struct fleet *fleet, struct fleet_decision *decision);

/* From within done(), for afterwards what was charged is forgotten: what passed here and is refused elsewhere is given back
   strictly, as well as can be. No answer. */
void fleet_undo(struct fleet *fleet, struct fleet_decision *decision);

/* ---- Handles ------------------------------------------------------------------------------------------------------ */

enum fleet_verb { FLEET_SETTLE, FLEET_CANCEL, FLEET_REFUND, FLEET_RENEW, FLEET_RELEASE, FLEET_RESET };

enum fleet_fault {
    FLEET_OK,
    FLEET_UNKNOWN, /* no such reservation or permit: never was, expired, or (permits) returned */
    FLEET_BAD,     /* the handle is none of ours */
    FLEET_AWAY,    /* the store could not be had: try again; nothing is known of whether it was done */
};

struct fleet_operation {
    enum fleet_verb verb;
    weir_ns now;
    uint64_t cost;
    const unsigned char *handle; /* SETTLE, CANCEL, RENEW, RELEASE; lent for the call */
    size_t handle_len;
    const struct weir_shared *shared; /* REFUND, RESET: whose keys; lent for the call */
    void (*done)(struct fleet_operation *operation);
    void *owner;

    enum fleet_fault fault;
    struct weir_settlement settlement; /* limit: WEIR_NO_LIMIT, its name is: */
    char limit[WEIR_NAME_MAX + 1];     /* the one with least left; "" */
    bool was_held;
    weir_ns expires_at;
    struct fleet_work *work;
};
void fleet_operate(struct fleet *fleet, struct fleet_operation *operation);
/* done() will not come. */
void fleet_operation_forget(struct fleet *fleet, struct fleet_operation *operation);

/* ---- Leases --------------------------------------------------------------------------------------------------------------- */

/* Give back all that this process holds, and take no more: before the end. It takes a round trip; fleet_holds() says when it is
   done. The first fleet of the process that is asked does it for all of them, while it is driven. */
void fleet_hand_back(struct fleet *fleet, weir_ns now);
/* Tokens in hand, or spent and not told to the store, or messages under way. Threads: any. */
bool fleet_holds(const struct fleet_common *common);

/* How many decisions and operations are under way, and end all of them by policy. */
size_t fleet_under_way(const struct fleet *fleet);
void fleet_drain(struct fleet *fleet, weir_ns now);

/* ---- Counters, of the process --------------------------------------------------------------------------------------- */

struct fleet_counters {
    uint64_t commands;        /* sent for decisions and operations */
    uint64_t late;            /* gave up at the deadline */
    uint64_t refused;         /* the store said that it cannot serve, or there was no connection */
    uint64_t lost;            /* the connection broke behind a command */
    uint64_t avoided;         /* not asked because of the breaker */
    uint64_t known;           /* refused out of what was known (denied.h) */
    uint64_t damaged;         /* keys that could not be read and began afresh */
    uint64_t scripts;         /* sent whole: the store did not know them */
    uint64_t errors;          /* replies that were neither */
    uint64_t spent_kept;      /* tokens let through by fallbacks and still to be charged */
    uint64_t spent_told;      /* charged to the store on recovery */
    uint64_t spent_lost;      /* forgotten because the journal was full */
    uint64_t lease_commands;  /* of `commands`, those that carry messages about leases */
    uint64_t lease_messages;  /* in them */
    uint64_t lease_decisions; /* answered out of the hand, without a command */
    uint64_t lease_granted, lease_returned, lease_spent; /* tokens: as answered by the store */
    uint64_t lease_lost;     /* tokens in hand, or reports of them, that ended with their lease */
    uint64_t seconds_le[12]; /* round trips by upper bound, see FLEET_SECONDS */
    uint64_t seconds_sum_ns, seconds_count;
};
#define FLEET_SECONDS_US \
    { \
        50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 1000000 \
    }
void fleet_count(const struct fleet_common *common, struct fleet_counters *out);
/* Tokens in hand now, stranded while nobody spends them, and of how many keys. Walks all that is held: not often. Threads: any. */
void fleet_count_held(const struct fleet_common *common, uint64_t *held, uint64_t *keys);

#endif
