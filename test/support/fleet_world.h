// SPDX-License-Identifier: Apache-2.0
/*
 * fleet_world.h - processes that share a store, in virtual time: a scheduler that owns the clock, the network and what breaks.
 *
 * Idea: deciding is the real code, and so is the store: a redis-server that is asked in the very call in which the world delivers
 * a command to it. Only what lies between is played: each command and each reply has its instant, or is lost; connections
 * keep their order. So a run is exact, takes no time to wait, and its seed replays it.
 *
 * Decisions carry their own stamp, and it is the store's clock too (injects_time): the instant of sending.
 */
#ifndef WEIR_TEST_FLEET_WORLD_H
#define WEIR_TEST_FLEET_WORLD_H

#include "fleet/fleet.h"
#include "fleet/name.h"
#include "support/random.h"
#include "support/redis_server.h"
#include "support/unit.h"

#define WORLD_PROCESSES 4
#define WORLD_WORKERS 2
#define WORLD_NODES 3
#define WORLD_START (1000 * WEIR_SECOND)
#define WORLD_WALL INT64_C(1700000000000000000)

/* What befalls a command, in thousandths. */
struct world_faults {
    unsigned lose_command;  /* never arrives; nothing is heard of it */
    unsigned lose_reply;    /* is executed; nothing is heard of it */
    unsigned break_before;  /* the connection breaks; it never arrives */
    unsigned break_after;   /* the connection breaks; it is executed */
    unsigned answer_one_in; /* 0: all; n: of n commands one is answered and the others are lost with it */
    weir_ns slow;           /* each way takes up to so long more */
    bool is_down;           /* no connection: refused */
    bool is_topology;       /* refused, but no failure of the node */
    bool is_read_only;      /* refused by the node */
    bool is_busy;           /* -BUSY to everything */
    bool is_frozen;         /* arrives, and is executed when it thaws */
    bool forbids_hash;      /* -NOPERM to EVALSHA */
    bool forbids_whole;     /* -NOPERM to EVAL */
};

struct world;

struct flight {
    struct flight *next;
    struct carrier_call *call; /* NULL: abandoned */
    struct worker *from;
    unsigned node;
    weir_ns sent_at, at; /* `at`: of the next thing that happens to it */
    bool is_executed, is_executed_only, loses_reply, is_lost, is_probe;
    struct slice command, reply;
};

struct worker {
    struct carrier carrier;
    struct process *process;
    struct fleet *fleet;
    weir_ns last_delivery[WORLD_NODES]; /* connections keep their order */
    weir_ns last_reply[WORLD_NODES];
};

struct process {
    struct world *world;
    struct weir_contract *contract;
    struct fleet_common *common;
    struct worker workers[WORLD_WORKERS];
    size_t worker_count;
    char lines[8192]; /* of the log */
    size_t lines_len;
    weir_ns asleep; /* for how long its machine has been suspended: its clock stood still, and leases did not */
    weir_ns bad_at; /* the first answer by policy since one of the store's came in time; WEIR_NO_TIME */
    unsigned probes; /* under way */
};

/* One decision, from asking to its answer and beyond. */
struct asked {
    struct asked *next;
    struct worker *worker;
    struct fleet_decision decision;
    struct weir_shared_met met[WEIR_ASKS_MAX];
    char tenant[32];
    weir_ns asked_at, done_at;
    unsigned done;
    bool undoes; /* calls fleet_undo() from within done() */
};

struct world {
    struct redis_server *redis;
    struct random random;
    weir_ns now, deadline;
    weir_ns way; /* of a command to the store, and of its reply back */
    bool is_cluster, checks_expiry;
    bool has_clocks; /* processes read a clock (the world's), the store has its own: set before world_open() */
    weir_ns wanted_deadline; /* 0: 5 ms; set before world_open() */
    struct world_faults faults[WORLD_NODES];
    struct process processes[WORLD_PROCESSES];
    size_t process_count, worker_count;
    struct flight *flights, **flights_end;
    struct asked *asked; /* newest first */
    size_t executed, sent, late_answers;
    size_t wholes;                                          /* commands that carried a script */
    void (*told)(struct world *world, struct asked *asked); /* each answer; may be NULL */
    weir_ns wiped_at[64];
    size_t wiped;
};

/* How many of the log's lines begin with this. */
size_t process_lines(const struct process *process, const char *beginning);
void process_count_up(const struct process *process, struct fleet_counters *out);

/* `text`: the contract. */
void world_open(struct world *world, struct redis_server *redis, uint64_t seed, const char *text,
                size_t processes, size_t workers);
void world_open_cluster(struct world *world, struct redis_server *redis, uint64_t seed, const char *text,
                        size_t processes, size_t workers);
/* Everybody's answer must have come. */
void world_close(struct world *world);

/* Time goes on to `at`, and whatever falls due happens. */
void world_run(struct world *world, weir_ns at);
void world_run_for(struct world *world, weir_ns length);
/* The same until nothing is under way any more. */
void world_settle(struct world *world);

/* Ask with tenant=NAME and path=/. The answer lives until world_close(). */
struct asked *world_ask(struct world *world, size_t process, size_t worker, const char *tenant, uint64_t cost);
struct asked *world_ask_as(struct world *world, size_t process, size_t worker, const char *tenant,
                           uint64_t cost, const struct fleet_decision *how);
/* Ask and run until it is answered. */
struct asked *world_decide(struct world *world, size_t process, const char *tenant, uint64_t cost);
struct asked *world_decide_as(struct world *world, size_t process, const char *tenant, uint64_t cost,
                              const struct fleet_decision *how);
/* The same of any request, with those that follow it. */
struct asked *world_decide_request(struct world *world, size_t process, const struct weir_request *request);
/* An operation, until it is answered. */
void world_operate(struct world *world, size_t process, struct fleet_operation *operation);
/* The questions of tenant=NAME and path=/. */
void world_questions(struct world *world, size_t process, const char *tenant, uint64_t cost,
                     struct weir_shared *out);

/* Another contract for a process. */
void world_reload(struct world *world, size_t process, const char *text);
/* A loop of a process ends as in a shutdown. */
void world_stop_worker(struct world *world, size_t process, size_t worker);
/* What the process has in hand of all keys. */
uint64_t process_held(const struct process *process);

/* All nodes alike. */
void world_faults_set(struct world *world, const struct world_faults *faults);
/* Thaw what is frozen, and nothing else breaks any more. */
void world_heal(struct world *world);
/* The store restarts empty: keys and scripts are gone. */
void world_wipe(struct world *world);

/* The decision of one limit, by its index in the contract; fails where it is not in the answer. */
const struct weir_decision *asked_met(const struct asked *asked, weir_limit_id limit);

#endif
