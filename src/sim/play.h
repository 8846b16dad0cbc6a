// SPDX-License-Identifier: Apache-2.0
/*
 * play.h - play a timeline and say what differed, so that a reader sees why without running it again.
 */
#ifndef WEIR_SIM_PLAY_H
#define WEIR_SIM_PLAY_H

#include "sim/player.h"

/* Failures of one file that are printed; the rest is counted. */
#define PLAY_FAILURES_SHOWN 10

struct play {
    struct player *player;
    FILE *out; /* failures */
    FILE *err; /* faults of the contract or of a request */
    bool is_coloured;
    void (*on_progress)(struct play *play); /* now and then while it runs; NULL: nobody looks */

    /* Totals, over all timelines that were played. */
    uint64_t steps, decisions, failed_steps;
};

/*
 * Play every step in order. A step that fails does not end the play: later ones may show why.
 *
 * Returns PLAYER_OK when it was played to its end (play->failed_steps tells how it went); else its end was not
 * reached, and why was told on `err`.
 */
enum player_result play_timeline(struct play *play, const struct timeline *timeline);

#endif
