// SPDX-License-Identifier: Apache-2.0
/*
 * decide.h - a decision's inside: its items, and the steps that the files of it share.
 *
 * Elsewhere: the way of a request (decide.c), its questions and groups (decide_read.c), what the process has in hand
 * (decide_hand.c), what the contract says in the store's place (decide_policy.c), what is given back or handed over
 * (decide_held.c).
 */
#ifndef WEIR_FLEET_DECIDE_H
#define WEIR_FLEET_DECIDE_H

#include "fleet/handle.h"
#include "fleet/name.h"
#include "fleet/work.h"

#define NOT_ASKED SIZE_MAX

/* What a request has of the process's portions, until it is decided: by the index of the ask. */
struct fleet_hands {
    uint64_t reached; /* a bit for each ask that was looked for in hand; the others are not written */
    bool is_look;     /* nothing was taken: `taken` is what could be */
    bool is_undone;
    struct hand each[WEIR_ASKS_MAX];
};

struct item {
    struct weir_shared_ask ask; /* its bytes in the work's blocks */
    struct slice name;
    enum weir_algorithm algorithm; /* the limit is the caller's, and gone after done() */
    size_t at;                     /* of work->asked; NOT_ASKED: unlimited */
    struct group *group;
    uint64_t hash;     /* in denied.h */
    uint64_t rest;     /* of its cost, what is not in hand: the store is asked for it */
    struct hand *hand; /* NULL: it is not looked for there; of a peek, what is there */
    bool may_keep, is_there;
    bool is_told; /* `decision` is an answer */
    struct weir_decision decision;
};
static inline bool refuses(enum weir_outcome outcome)
{
    return outcome == WEIR_DENY || outcome == WEIR_NEVER || outcome == WEIR_REFUSED;
}

/* All that it costs is in hand. */
static inline bool is_in_hand(const struct item *item)
{
    return item->hand != NULL && item->rest == 0;
}

static inline const struct weir_limit *spec_of(const struct fleet_work *work, const struct item *item)
{
    return work->limits[item->ask.limit].spec;
}

static inline struct weir_decision decision_unlimited(const struct weir_shared_ask *ask, weir_ns now)
{
    return (struct weir_decision){ .outcome = WEIR_ALLOW,
                                   .limit = ask->limit,
                                   .capacity = WEIR_UNLIMITED,
                                   .remaining = WEIR_UNLIMITED,
                                   .decided_at = now,
                                   .retry_at = now,
                                   .reset_at = now };
}

static inline weir_ns later(weir_ns at, weir_ns by)
{
    return by > WEIR_NO_TIME - at ? WEIR_NO_TIME : at + by;
}
/* The order of charging: permits, logs, windows, buckets. */
static inline unsigned class_of(enum weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_CONCURRENCY:
        return 0;
    case WEIR_SLIDING_LOG:
        return 1;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return 3;
    default:
        return 2;
    }
}

/* ---- decide.c ---- */

/* A request that is not answered out of the hand alone. `hands` NULL: of no ask is anything looked for there. */
void decide_by_store(struct fleet *fleet, const struct weir_shared *shared, struct fleet_decision *decision,
                     struct fleet_hands *hands);

/* What became of a group's command. */
void group_done(struct errand *errand, enum errand_end end, struct slice reply);

/* ---- decide_read.c ---- */

/* Keep what was asked, sort it into groups. False: out of memory, or of randomness. */
bool read_questions(struct fleet_work *work, const struct weir_shared *shared, const struct fleet_hands *hands);

/* ---- decide_hand.c ---- */

/* Whether any of the limits is leased and may be met out of the hand. */
bool hands_may_reach(const struct weir_shared *shared, const struct fleet_decision *decision);
/* Such a request: answered out of the hand, or asked of the store as far as that does not do. */
void hands_decide(struct fleet *fleet, const struct weir_shared *shared, struct fleet_decision *decision);
/* Nothing came of the request. */
void hands_undo(struct fleet *fleet, const struct fleet_hands *hands);

/* The same for what a work's items have. Too little was in hand: the process may want a portion. */
void tell_misses(struct fleet_work *work);
/* The store refused a group. Where a message about a lease was under way when it was asked, what it refused for want of may be in
   hand by now. */
enum again {
    AGAIN_NOT,     /* it is refused */
    AGAIN_IN_HAND, /* all that the group needs is in hand */
    AGAIN_ASK,     /* ask for what is not in hand: once */
};
enum again reach_again(struct fleet_work *work, const struct group *group);
/* At the end: decisions of what is in hand and was not asked. */
void tell_hands(struct fleet_work *work);
/* Behind done(): kept where the request passes and nobody undid it, and where the item's own answer lets it pass. */
void settle_hands(struct fleet_work *work, bool is_kept);

/* ---- decide_policy.c ---- */

/* Between groups: whether a policy refuses anyway, so that nothing more is charged. Takes nothing. */
void look_at_policy(struct fleet_work *work);
/* At the end: decisions for all that is away. */
void ask_policy(struct fleet_work *work);
/* Enter what local shares let through into the journal. */
void note_spending(struct fleet_work *work);

/* ---- decide_held.c ---- */

/* Give back what groups were charged. */
void undo_groups(struct fleet_work *work);
/* Return permits that may have been given without anybody's hearing of it. */
void release_unsure(struct fleet_work *work);
/* Whether the group left something behind that can be settled or returned. */
bool is_held(const struct fleet_work *work, const struct group *group);
/* Whoever passed gets what it holds in one handle. False: it cannot be written. */
bool hand_over(struct fleet_work *work);

#endif
