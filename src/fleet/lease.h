// SPDX-License-Identifier: Apache-2.0
/*
 * lease.h - one key's portion in the hands of one process: what is held, what was spent, and what the store is told of it.
 *
 * Idea: debit at grant (algorithms 4.4). The store has taken a portion out of the budget before it is spent here, so nothing
 * that happens to this process, to a message or to a clock adds to the budget. At every instant
 *
 *     have + pending + used + gone + stray  <=  what the store's record of this run holds        (I3)
 *
 * `have` may be spent; `pending` was taken by requests that are not decided yet; `used` was spent and is in no message; `gone`
 * ended with its portion and `stray` came too late, so nobody spends them. A message says how much was used and given back, and how much
 * is wanted; there is one under way at a time, which is sent again as it was until it is answered. Its answer counts from its
 * first sending, so the portion ends here before it does at the store. The answer says what the record holds: where that is
 * less than the sum, the store has forgotten the portion, which ends at once rather than be prolonged.
 *
 * When to speak: before the hand runs dry (half of the portion is spent, or what a round trip will need), before the portion
 * ends, and when nothing was spent for a while: then all is given back, and an idle key holds nothing. How much to want follows
 * what was spent lately; the store gives less when there is less.
 *
 * Pure: no locks, no names, no clocks. Times are on the lease's clock, which goes on while the machine sleeps: never that of
 * decisions. Readings may be a little out of order, as those of several workers are. Elsewhere: the keys of a process
 * (holdings.h), messages as commands (lessee.h).
 */
#ifndef WEIR_FLEET_LEASE_H
#define WEIR_FLEET_LEASE_H

#include "fleet/script.h"

/* Whoever sends messages looks twice in so long at what is due: what must not come too late is due so much before. */
#define LEASE_NOTICE_NS (100 * WEIR_MILLISECOND)

struct holding {
    /* What a take reads and writes comes first: a key that is hot at several workers moves between their caches. */
    struct weir_lease lease;
    uint64_t have, pending, used;
    uint64_t gone;      /* ended with its portion: told to be used, for it is as good as spent */
    weir_ns expires_at; /* of what is in hand; 0: nothing is */
    uint32_t
        life; /* of the portion: rises when one ends, and what was taken before is neither kept nor put back after */
    bool is_first;  /* the portion came to a key that had nothing, out of a pool that may be full */
    uint64_t low;   /* so much left is little */
    uint64_t asked; /* for, since mark_at */
    weir_ns mark_at;
    weir_ns spent_at;   /* somebody last wanted tokens; 0: never */
    weir_ns before_at;  /* and before that */
    weir_ns used_at;    /* the first take since the last message; 0: none */
    weir_ns empty_till; /* the pool has nothing to give before */

    /* The message under way; seq 0: none. */
    struct lease_flight {
        uint64_t seq, used, give, want;
        uint64_t gone;    /* of `used` */
        weir_ns first_at; /* of sending */
        weir_ns again_at; /* it is sent again, if it is not answered before */
        weir_ns duration; /* the shortest that a sending of it asked for */
        bool is_claimed;  /* somebody is about to send it, or waits for its answer */
        bool is_again;    /* sent more than once: says nothing about the round trip */
        bool is_first;
    } flight;
    uint64_t stray;  /* granted by an answer that came after its end: goes back with the next message */
    uint64_t demand; /* how fast it goes: tokens a second in parts of 1/1024, until mark_at */
    uint64_t target; /* what the last message wanted to hold */
    uint64_t held;   /* what there was behind the last answer */
    weir_ns lasts;   /* as the answer said */
    weir_ns round_trip;
    weir_ns ends_at; /* fixed windows: the window's end, not before it; else WEIR_NO_TIME */
    struct script_seen seen;
};

void lease_init(struct holding *holding, const struct weir_lease *lease, weir_ns now);
/* Other terms: what is in hand goes on under the old ones until its end. */
void lease_change(struct holding *holding, const struct weir_lease *lease);

/* What is not spent at its end is gone: not to be spent any more. Gives how many tokens were. Called by the others too, so who
   counts calls it before them. */
uint64_t lease_expire(struct holding *holding, weir_ns now);

/* Take up to `cost` tokens out of the hand, all or (is_partial) what is there; gives how many. They are pending until one of
   the next two, which get holding->life as it is now. The whole cost counts as demand. */
uint64_t lease_take(struct holding *holding, uint64_t cost, bool is_partial, weir_ns now);
void lease_keep(struct holding *holding, uint64_t taken, uint32_t life);
void lease_undo(struct holding *holding, uint64_t taken, uint32_t life);

/* When there is something to say: now or earlier, a message is due; WEIR_NO_TIME: nothing as things are. Not while one is
   claimed. */
weir_ns lease_due_at(const struct holding *holding);
/* The hand is so low that the next requests may find nothing: speak now rather than together with others. */
bool lease_is_urgent(const struct holding *holding, weir_ns now);
/* Nothing in hand, nothing pending, nothing to say, and nobody asked lately: it may be forgotten. */
bool lease_is_idle(const struct holding *holding, weir_ns now);

/* Claim the message to send now: a new one, numbered `seq`, or the one under way again. `hands_back`: give all, want
   nothing. Fills seq, used, give, want, seen and lease of `out`. False: there is nothing to say, or it is claimed already (then
   `seq` is not used). *is_new: `seq` was used. */
bool lease_speak(struct holding *holding, uint64_t seq, bool hands_back, weir_ns now, struct script_lease *out,
                 bool *is_new);

/* Its answer at `now`; one that does not belong to what is under way changes nothing. Gives what became of tokens. */
struct lease_result {
    uint64_t granted, returned, spent, lost;
};
struct lease_result lease_hear(struct holding *holding, uint64_t seq, const struct script_lease_answer *answer,
                               weir_ns now);
/* No answer: the claim ends, and the same message goes again after `pause`. */
void lease_unheard(struct holding *holding, uint64_t seq, weir_ns pause, weir_ns now);

#endif
