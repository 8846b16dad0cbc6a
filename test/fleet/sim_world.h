// SPDX-License-Identifier: Apache-2.0
/*
 * sim_world.h - a fleet with its store, its network and its clocks in one thread, all out of one seed.
 *
 * Idea: what decides is the real code: each replica is a fleet_common, a fleet and its contract, the store runs the real scripts
 * (lua_store.h). What is between them is played: true time, which nobody steps; a clock for each replica, which drifts, and stands
 * still while its machine sleeps; the store's clock, which is true but for its steps; a network that delivers, loses, delays,
 * overtakes and doubles. The same seed is the same run: nothing is drawn from the system.
 *
 * Spent is what the store charges, at that instant, and what a replica admits out of its hand, at that one.
 *
 * After each event everything that can be known is compared: what is spent with an exact limit in true time (sim_oracle.h, P34), the
 * store's books with themselves and with what was admitted (sim_books.c; P32, P33).
 */
#ifndef WEIR_TEST_SIM_WORLD_H
#define WEIR_TEST_SIM_WORLD_H

#include <stdio.h>

#include "fleet/fleet.h"
#include "fleet/sim_oracle.h"
#include "support/lua_store.h"
#include "support/random.h"

#define SIM_REPLICAS 5
#define SIM_TENANTS 2
#define SIM_LIMITS 3
#define SIM_START (1000 * WEIR_SECOND)        /* true time at which a run begins */
#define SIM_WALL INT64_C(1700000000000000000) /* Unix time at 0: whole seconds, so ticks of all clocks meet */
#define SIM_SNAPSHOTS 8
#define SIM_ASKED_MAX 64

/* What may befall a run; each is drawn for itself, and so is whether a run knows it at all. */
enum sim_fault {
    SIM_LOSE_COMMAND, /* never arrives */
    SIM_LOSE_REPLY,   /* is executed, and nothing is heard of it */
    SIM_DELAY,        /* up to seconds, each way */
    SIM_OVERTAKE,     /* arrives before one that was sent earlier: counted, it follows from delays */
    SIM_DOUBLE,       /* arrives a second time, later */
    SIM_CRASH,        /* a replica ends without a word and comes back as another run */
    SIM_PAUSE,     /* stands still, and then first does what it had decided by the old reading of its clock */
    SIM_SLEEP,     /* its machine is suspended: its clock stands still */
    SIM_WALL_STEP, /* of a replica's idea of the date */
    SIM_STORE_FORWARD, /* its clock steps forward */
    SIM_STORE_BACK,
    SIM_WIPE,      /* the store restarts without anything */
    SIM_ROLLBACK,  /* it goes back to what it was */
    SIM_FORGET,    /* it forgets the scripts */
    SIM_PARTITION, /* a replica does not reach it for a while */
    SIM_HAND_BACK, /* a replica gives everything back, and ends */
    SIM_FAULTS,
};
extern const char *const sim_fault_names[SIM_FAULTS];

struct sim_contract {
    const char *why, *text;
    const struct weir_contract *contract;
    bool is_window[SIM_LIMITS];     /* in the contract's order */
    bool loses_nothing[SIM_LIMITS]; /* when-state-lost: empty */
};
/* NULL-terminated by `why`; loaded by the first call. */
struct sim_contract *sim_contracts(void);

struct sim_flight;
struct sim_world;

struct sim_replica {
    struct carrier carrier;
    struct sim_world *world;
    struct fleet_common *common;
    struct fleet *fleet;
    bool is_ending;    /* its last calls are ended: nothing is sent any more */
    weir_ns leaves_at; /* it hands back, and ends then at the latest; 0: not */
    /* Its clock: boot + (true - began) * (1 + ppm / 10^6) - asleep. */
    weir_ns began, boot, asleep;
    int64_t ppm;
    int64_t wall_error;
    weir_ns paused_till;  /* 0: not */
    weir_ns woke_at;      /* true: of the last pause or sleep; what was asked before is decided late */
    weir_ns asleep_since; /* true; 0: its clock goes on while it stands still */
    weir_ns stale_local;  /* its reading of before, by which it first decides; 0: nothing */
    uint64_t stale_cost;
    unsigned stale_tenant;
    weir_ns cut_till;                  /* 0: reaches the store */
    bool is_cut_silent;                /* commands vanish, rather than being refused */
    weir_ns hand_ends[SIM_TENANTS];    /* true: when the last of what it was granted must be over; 0: nothing */
    uint64_t stale_spent[SIM_TENANTS]; /* out of the hand by the stale reading of this pause */
};

struct sim_asked {
    struct fleet_decision decision;
    struct weir_shared_met met[WEIR_ASKS_MAX];
    struct sim_world *world;
    struct sim_replica *replica;
    unsigned tenant;
    uint64_t cost;
    weir_ns asked_at;
    bool is_used, is_peek, is_stale, undoes, is_within; /* is_within: fleet_decide() has not returned */
};

struct sim_snapshot {
    struct data data;
    weir_ns at;
    uint64_t taken[SIM_LIMITS][SIM_TENANTS];
    bool is_there;
};

struct sim_setup {
    uint64_t seed;
    bool is_deaf_to_sleep; /* a mutant: nobody knows that the machine slept */
    const struct sim_contract *contract;
    size_t replicas; /* 0: drawn */
    bool is_calm;    /* no faults */
    FILE *log;       /* of events; NULL */
};

struct sim_world {
    struct sim_setup setup;
    struct random random;
    struct lua_store *store; /* lent: empty at the beginning */
    weir_ns now;             /* true */
    int64_t store_step;      /* ns, whole ms */
    struct incarnation incarnation;
    struct sim_replica replicas[SIM_REPLICAS];
    size_t replica_count;
    struct sim_flight *flights;
    const struct sim_flight *executed; /* that is executed now */
    const struct sim_charges *heard;   /* of the reply that is being heard; NULL: none is */
    struct sim_asked asked[SIM_ASKED_MAX];
    struct oracle oracles[SIM_LIMITS][SIM_TENANTS];
    bool is_met[SIM_LIMITS][SIM_TENANTS];
    uint64_t charged[SIM_LIMITS][SIM_TENANTS]; /* strictly, by the store */
    uint64_t granted[SIM_LIMITS][SIM_TENANTS];
    uint64_t out, returned; /* of all limits, as the store says now */
    struct sim_snapshot snapshots[SIM_SNAPSHOTS];
    size_t snapshot_next;
    weir_ns edges[16]; /* instants of interest: lease ends */
    size_t edge_next;
    bool has_lost;    /* wiped or rolled back: the store's books begin anew */
    bool has_stepped; /* the store's clock, forward: it may have forgotten what is in hands */
    bool faults[SIM_FAULTS];
    unsigned command_faults; /* of those on the way, in thousandths */
    uint64_t pace;           /* one in so many steps of time is a long one: else demand goes on */
    size_t hot;              /* the replica that most ask */
    size_t faulted[SIM_FAULTS], events, decided, passed, from_hand;
    weir_ns way; /* each way, where nothing delays it */
    bool may_fault_commands;
    char violation[512]; /* "": none */
};

/* `store` is emptied. */
void sim_open(struct sim_world *world, struct lua_store *store, const struct sim_setup *setup);
void sim_close(struct sim_world *world);

/* True time goes on, and what falls due happens. */
void sim_run(struct sim_world *world, weir_ns till);
void sim_violate(struct sim_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_log(struct sim_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint64_t sim_below(struct sim_world *world, uint64_t bound);

/* A replica's clock at a true instant, and the first true instant at which it says so much. */
weir_ns sim_local(const struct sim_replica *replica, weir_ns now);
weir_ns sim_true(const struct sim_replica *replica, weir_ns local);

enum sim_manner { SIM_CHECK, SIM_PEEK, SIM_UNDO };
void sim_ask(struct sim_world *world, struct sim_replica *replica, unsigned tenant, uint64_t cost,
             enum sim_manner manner);
/* By a reading of its clock; `is_stale`: an old one. */
void sim_ask_at(struct sim_replica *replica, unsigned tenant, uint64_t cost, enum sim_manner manner,
                weir_ns now, bool is_stale);
/* It goes on: what happens first behind a pause. Then its clock is read. */
void sim_wake(struct sim_replica *replica);
void sim_start(struct sim_replica *replica);
void sim_crash(struct sim_replica *replica);
bool sim_is_up(const struct sim_replica *replica);
/* When what a command that is executed asked for ends in the hand of its replica, if it lasts so long there. */
weir_ns sim_hand_ends(struct sim_world *world, unsigned tenant, weir_ns length);
/* Connections break: nothing is heard of what is under way; commands not executed yet never are. */
void sim_break(struct sim_world *world, struct sim_replica *replica);
/* Its clock, as time goes on. */
void sim_store_clock(struct sim_world *world);

/* Now, by the clock that an oracle goes by. */
weir_ns sim_instant(const struct sim_world *world, const struct oracle *oracle);

/* sim_books.c */
/* What the store charged strictly by one command, by limit; it counts as spent there and then. */
struct sim_charges {
    uint64_t cost[SIM_LIMITS];
};
struct sim_charges sim_note_executed(struct sim_world *world, struct slice command, struct slice reply);
/* So much is spent now. */
void sim_spend(struct sim_world *world, size_t limit, unsigned tenant, uint64_t cost);
void sim_check_books(struct sim_world *world);

/* sim_events.c: one event. */
void sim_event(struct sim_world *world);

#endif
