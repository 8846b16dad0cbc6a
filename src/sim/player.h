// SPDX-License-Identifier: Apache-2.0
/*
 * player.h - what a timeline is played against: something that holds a contract and decides requests in virtual time.
 *
 * The same files are played against the library and through each door, so a door or store that comes later needs
 * one of these and no new tests.
 */
#ifndef WEIR_SIM_PLAYER_H
#define WEIR_SIM_PLAYER_H

#include "sim/timeline.h"

enum player_result {
    PLAYER_OK,
    PLAYER_FAULTY,      /* the contract or the request is at fault: player->error, or told on `err` */
    PLAYER_UNREACHABLE, /* what decides is not there: player->error */
};

struct player {
    const char *name; /* "library": where the decisions come from */

    /* Begin with the timeline's contract in a fresh state. Diagnostics go to `err`. */
    enum player_result (*open)(struct player *player, const struct timeline *timeline, FILE *err);
    /*
     * Do what a step says at its instant of virtual time, for the turn-th time, from 0. A request that has to wait
     * is told as WEIR_WAIT, and ends in advance(). An operation beside deciding that is refused is a PLAYER_OK with
     * out->effect.error.
     */
    enum player_result (*perform)(struct player *player, const struct timeline_step *step, uint64_t turn,
                                  struct verdict *out);
    /* Let time pass to `now` (WEIR_NO_TIME: until nobody waits): whoever waits and has its turn or its deadline by then ends
       at that very instant. A player may tell of it later than here, but tells of everybody at WEIR_NO_TIME. */
    enum player_result (*advance)(struct player *player, weir_ns now);
    /* Somebody who has ended and was not collected yet: the handle, and the answer at its end. False: nobody. */
    bool (*collect)(struct player *player, size_t *handle, struct verdict *out);
    /* Forget everything; after a failed open() too. */
    void (*close)(struct player *player);

    bool has_store; /* permits are a real store's: their fences rise for each key by itself */

    char error[400]; /* "": it was told on `err` */
};

/* One process of the fleet. */
struct library_replica {
    struct weir_contract *contract;
    uint64_t starts;     /* how often it has begun: what it gave before is no good afterwards */
    struct spent *spent; /* while the store was away, and not charged there yet */
};

/* Decides by the library in this process. Its memory is the caller's; it needs no closing but close(). */
struct player_library {
    struct player player;
    const struct timeline *timeline;        /* between open() and close() */
    const struct timeline_contract *source; /* of the contract in force */
    struct library_replica replicas[TIMELINE_REPLICAS_MAX];
    struct stand_in *store;      /* NULL: no limit is shared */
    struct library_slot **slots; /* by handle; NULL: nothing yet */
    struct library_slot *turned; /* the first of those whose waiting has ended and who ask the store next */
    struct library_slot *ended;  /* the first of those that wait to be collected */
    weir_ns now;                 /* the latest instant so far: no tick is called with an earlier one */
};
void player_library_init(struct player_library *library);

#endif
