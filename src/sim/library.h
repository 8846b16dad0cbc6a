// SPDX-License-Identifier: Apache-2.0
/*
 * library.h - what the files of the library's player share: player_library.c has its life and what is beside deciding,
 * library_ask.c requests, at once or after a wait, with the store of shared limits asked in between.
 */
#ifndef WEIR_SIM_LIBRARY_H
#define WEIR_SIM_LIBRARY_H

#include "sim/player.h"
#include "sim/spent.h"
#include "sim/stand_in.h"

/* What a request was given. All zero: nothing. */
struct library_gifts {
    struct weir_reservation reservation; /* of the limits of its process */
    struct weir_permit permit;
    struct stand_in_gift shared; /* of the store */
};

/* What lasts of one request beyond its step. */
struct library_slot {
    struct library_gifts *gifts; /* NULL: none */
    size_t replica;              /* where it was asked */
    uint64_t starts;             /* how often that one had begun then */

    /* Of one that may wait. */
    struct weir_waiter waiter;
    size_t handle;
    const struct timeline_step *step;
    struct verdict *answer; /* of one that asked the store at its turn; NULL: the waiter has it */
    bool waits;
    struct library_slot *next; /* in `turned` or in `ended` */
};

static inline enum player_result library_fail(struct player_library *library, const char *message)
{
    (void)snprintf(library->player.error, sizeof library->player.error, "%s", message);
    return PLAYER_FAULTY;
}

static inline struct weir_contract *library_contract(const struct player_library *library, size_t replica)
{
    return library->replicas[replica].contract;
}

/* The slot of a handle; NULL: out of memory. */
struct library_slot *library_claim(struct player_library *library, size_t handle);

/* A request at once, or one that may wait: as player.h's perform(), advance() and collect(). */
enum player_result library_ask(struct player_library *library, const struct timeline_step *step, uint64_t turn,
                               struct verdict *out);
enum player_result library_wait(struct player_library *library, const struct timeline_step *step, uint64_t turn,
                                struct verdict *out);
enum player_result library_advance(struct player *player, weir_ns now);
bool library_collect(struct player *player, size_t *handle, struct verdict *out);

/* Forget what the replica's requests were given by itself, and who waits there; what the store gave stays. */
void library_forget(struct player_library *library, size_t replica);

#endif
