// SPDX-License-Identifier: Apache-2.0
/*
 * verdict.h - one decision as people and test files speak of it: names for limits, lengths of time from now.
 *
 * The library answers in stamps and limit ids, a door in JSON; both become this, so that one comparison and one
 * text form serve all. Units: ns; WEIR_NO_TIME where nothing is known or finite.
 */
#ifndef WEIR_SIM_VERDICT_H
#define WEIR_SIM_VERDICT_H

#include <stdbool.h>

#include "weir_contract.h"

/* The numbers of one limit. */
struct verdict_limit {
    enum weir_outcome outcome;
    enum weir_policy policy;
    enum weir_reason reason;
    char name[WEIR_NAME_MAX + 1];     /* "": no limit */
    bool has_capacity, has_remaining; /* whether they are known */
    uint64_t capacity, remaining;
    weir_ns retry_after, reset_after;
    bool is_watched; /* it does not enforce here, and took no part in the decision */
};

/* What an operation beside deciding did, in numbers. */
enum effect_number {
    EFFECT_CHARGED, /* tokens: settle, cancel, refund */
    EFFECT_RETURNED,
    EFFECT_DROPPED,
    EFFECT_KEPT, /* limits: reload */
    EFFECT_RESIZED,
    EFFECT_ADDED,
    EFFECT_RESTARTED,
    EFFECT_REMOVED,
    EFFECT_NUMBERS
};

struct effect {
    unsigned known; /* bit per enum effect_number that the player can tell */
    uint64_t number[EFFECT_NUMBERS];
    bool knows_repeated, is_repeated; /* settled or cancelled before */
    bool is_released;                 /* release: the permit was held until now */
    const char *error;                /* NULL: it was done; else why not, one of effect_errors */
};

/* "reservation", "contract", ...; ends with NULL. */
extern const char *const effect_errors[];

/* The word of a library's error. */
const char *effect_error(int code);

/* The member of effect_errors that reads like this; NULL: none. So errors may be compared by their addresses. */
const char *effect_find_error(const char *word);

void effect_from_settlement(const struct weir_settlement *settlement, struct effect *out);
void effect_from_reload(const struct weir_reload *reload, struct effect *out);

struct verdict {
    struct verdict_limit bound; /* the limit that bound the answer, or has least left after a settlement */
    struct effect effect;       /* of an operation beside deciding */
    weir_ns decided_at;         /* WEIR_NO_TIME: the player cannot tell */
    weir_ns waited;             /* until the decision; 0 where it came at once */
    weir_ns expires_after;      /* of the permit that was given or renewed; WEIR_NO_TIME: none was */
    uint64_t fence;             /* of that permit; 0: none */
    weir_ns grain;              /* that the player rounds lengths of time up to; 0: it tells them exactly */
    weir_ns tick; /* that a real store counts in, where a stand-in decided or would have; 0: none did */
    bool is_store_away;
    size_t count;
    struct verdict_limit each[WEIR_ASKS_MAX]; /* every limit the request met, in contract order */
};

/* A library's answer at `now`. */
void verdict_from_answer(const struct weir_answer *answer, weir_ns now, struct verdict *out);

/* Longest text of a length of time, and of one limit's line, with the final zero. */
#define VERDICT_TIME_MAX 32
#define VERDICT_TEXT_MAX 320

/*
 * A length of time in seconds as exact decimals: "0.2s", "never" for WEIR_NO_TIME. `step` ns is the grain it is
 * rounded up to: 1 keeps it exact.
 */
const char *verdict_time(weir_ns length, weir_ns step, char out[VERDICT_TIME_MAX]);

/* "deny tenant-requests remaining=0/20 retry=0.2s", "allow (no limit)". Times as verdict_time(). */
const char *verdict_text(const struct verdict_limit *limit, weir_ns step, char out[VERDICT_TEXT_MAX]);

#endif
