// SPDX-License-Identifier: Apache-2.0
/*
 * script.h - the strict script: what is sent to the store, and what its reply means.
 *
 * Idea: one atomic script per decision, with the store's clock and whole numbers below 2^52 (algorithms 4.2). All limits of one
 * call are looked at, then all are charged or none. State and expiry are written in the same step. What cannot be read under a
 * key of ours is taken for absent, and told (B35).
 *
 * The scripts are the .lua files beside this one and are compiled in. Every key that a script touches is among its KEYS.
 *
 * Times in replies are lengths, in ticks of each item, rounded up; so no clock is compared with another's.
 */
#ifndef WEIR_FLEET_SCRIPT_H
#define WEIR_FLEET_SCRIPT_H

#include "fleet/carrier.h"
#include "fleet/name.h"
#include "weir_contract.h"
#include "wire/resp.h"

/* Longest script, and longest command: a script, and for each item two names and the arguments. */
#define SCRIPT_TEXT_MAX ((size_t)32 << 10)
#define SCRIPT_COMMAND_MAX (SCRIPT_TEXT_MAX + WEIR_ASKS_MAX * (2 * NAME_MAX_LEN + 256) + 4096)

/* A reservation or permit: 16 random bytes as 32 hex digits. Names are never guessed, so having one is the right to it. */
#define SCRIPT_ID_LEN 32

/* One limit and key in a call. */
struct script_item {
    struct slice name; /* name.h */
    const struct weir_limit *limit;
    struct weir_shared_size size;
    uint64_t cost;
    struct slice retry; /* empty, or the name of the retry's own key: same slot */
    bool is_watched, is_estimate;
    struct weir_lease lease; /* portions of it are out: what they hold is never refilled */
};

enum script_verb {
    SCRIPT_TAKE,
    SCRIPT_PEEK,
    SCRIPT_RESERVE, /* what was charged is kept under the id, until it is settled or `hold` is over */
    SCRIPT_ACQUIRE, /* permits, held under the id */
};

struct script_call {
    enum script_verb verb;
    const struct script_item *items; /* unlimited ones left out */
    size_t count;                    /* 1 .. WEIR_ASKS_MAX */
    struct slice id;                 /* SCRIPT_RESERVE, _ACQUIRE: SCRIPT_ID_LEN digits */
    struct slice record; /* SCRIPT_RESERVE: the name of the key that keeps it; same slot as the items */
    weir_ns hold;        /* SCRIPT_RESERVE */
    struct incarnation incarnation;
    uint64_t
        wall_us; /* Unix time by our clock: which calendar window is now; the store's own decides where it is in */
    bool has_time; /* tests: wall_us is the store's clock too */
};

/* How the script goes with a command. */
enum script_form {
    SCRIPT_BY_HASH,
    SCRIPT_WHOLE
}; /* EVALSHA; EVAL, where the store has lost it or forbids loading */

/* One item's answer. */
struct script_answer {
    enum weir_outcome outcome; /* ALLOW, DENY, NEVER, DUPLICATE */
    uint64_t remaining;
    weir_ns retry_after, reset_after; /* ns from the store's instant of deciding; WEIR_NO_TIME */
    uint64_t fence;                   /* of a permit: the store's clock in ns, and above every earlier one */
    bool was_damaged;                 /* what stood under the key could not be read, and began afresh */
    bool is_charged;
    uint64_t charged_at; /* in ticks of the store: for script_put_undo() */
};

/* Append one command; false: the text is cut. */
bool script_put_decide(struct text *out, enum script_form form, const struct script_call *call);

/* Read its reply into `count` answers. False: it is an error of the store's, or none of ours: *why then names it. */
bool script_read_decide(struct slice reply, const struct script_call *call, struct script_answer *answers,
                        struct slice *why);

/* ---- Beside deciding. Each is one command and one reply; all may be repeated without effect but refund and spend. ---------- */

/* Give back strictly what a decision charged (items with is_charged), also its retry ids and permits; no reply is needed. Done
   once for one decision: told apart by what was charged when, and by call->id where it is given (any verb may have one here). */
bool script_put_undo(struct text *out, enum script_form form, const struct script_call *call,
                     const struct script_answer *answers);

/* What was spent elsewhere, charged without asking, as a settlement that costs more: what a fallback let through. The reply is a
   settlement's. */
bool script_put_spend(struct text *out, enum script_form form, const struct script_call *call);

/* A reservation (call->record, ->id, ->items as reserved but for their costs) settled at `cost`, or cancelled. */
bool script_put_settle(struct text *out, enum script_form form, const struct script_call *call, bool is_cancel,
                       uint64_t cost);
/* Give back each item's cost. */
bool script_put_refund(struct text *out, enum script_form form, const struct script_call *call);

#define SCRIPT_NO_ITEM SIZE_MAX
struct script_settlement {
    uint64_t charged, returned, dropped, remaining; /* as weir_settlement */
    size_t
        item; /* the one with the least left; SCRIPT_NO_ITEM: none has a say, and remaining is WEIR_UNLIMITED */
    bool is_known;    /* false: no such reservation, or it has expired */
    bool is_repeated; /* was settled before: nothing changed */
};
bool script_read_settle(struct slice reply, struct script_settlement *out, struct slice *why);

/* The permits of an id on every item, all or none: held for another hold, or returned. */
bool script_put_renew(struct text *out, enum script_form form, const struct script_call *call);
bool script_put_release(struct text *out, enum script_form form, const struct script_call *call);
struct script_permit {
    bool was_held;
    weir_ns expires_after;
};
bool script_read_permit(struct slice reply, struct script_permit *out, struct slice *why);

/* ---- Leases (lease.lua; algorithms 4.4) ----------------------------------------------------------------------------------- */

/*
 * A portion of a key's budget, for one run of one replica. The message is idempotent: sent again as it was, any number of times
 * and in any order with others, it changes nothing after the first time. So it is sent again until it is answered.
 *
 * The key's own value is that of a strict decision and says besides how much of what is used is out: strict decisions, settlements
 * and leases of one key go together.
 */

/* Messages in one command; each for another key, all of one slot in a Cluster. */
#define SCRIPT_LEASES_MAX 16
/* Who holds, for people: "web-3:1234". */
#define SCRIPT_LABEL_MAX 48

/* What a store's reply said of a key's state, and is told again: a store that knows less has lost writes. */
struct script_seen {
    uint64_t version; /* of writes to the key; 0: none seen */
    uint64_t used;    /* of the budget, what is out included, at */
    uint64_t at;      /* the store's clock, in ticks of the size */
};

struct script_lease {
    struct slice name; /* of the limit's key */
    const struct weir_limit *limit;
    struct weir_shared_size size;
    struct weir_lease lease;
    uint64_t seq;        /* rises from message to message of a run, over all keys; from 1, below 2^52 */
    uint64_t used, give; /* spent since the last one that was answered; handed back */
    uint64_t want;       /* 0: only reports */
    struct script_seen seen;
};

struct script_lease_call {
    const struct script_lease *leases;
    size_t count;
    uint64_t run;       /* random, drawn at the start of a process: never 0 */
    struct slice label; /* at most SCRIPT_LABEL_MAX */
    struct incarnation incarnation;
    uint64_t wall_us;
    bool has_time; /* tests: as in script_call */
};

struct script_lease_answer {
    bool is_stale;        /* a later message was seen before: nothing was done, and the rest means nothing */
    bool is_repeated;     /* it was done before: here is what was granted then */
    bool was_damaged;     /* what stood under the key could not be read, and began afresh */
    bool has_lost_writes; /* the store knew less than script_lease.seen */
    uint64_t granted;
    /* What the record of this run holds behind it, also where it is repeated: less than what is in hand was forgotten by the
       store, and must end now rather than be prolonged. */
    uint64_t left;
    weir_ns
        ttl; /* from the store's instant of granting, rounded down: the lease's, or until the window's end */
    uint64_t remaining;  /* in the pool behind it */
    weir_ns retry_after; /* until the pool has one token, rounded up; 0: it has. WEIR_NO_TIME: not by itself */
    weir_ns ends_after;  /* fixed windows: until the end, rounded up; else WEIR_NO_TIME */
    struct script_seen seen;
};

/* How long after a portion's end the store still counts it as out: above what clocks drift apart meanwhile. */
#define SCRIPT_LEASE_GRACE_NS(duration) ((duration) / 50 + WEIR_MILLISECOND)

bool script_put_lease(struct text *out, enum script_form form, const struct script_lease_call *call);
/* Read its reply into `count` answers; as script_read_decide(). */
bool script_read_lease(struct slice reply, const struct script_lease_call *call,
                       struct script_lease_answer *answers, struct slice *why);

/* The key of who holds portions of a limit's key: beside it, in its slot. Gives its length. */
#define SCRIPT_HOLDERS_NAME_MAX (NAME_MAX_LEN + 10)
size_t script_holders_name(struct slice name, char out[SCRIPT_HOLDERS_NAME_MAX]);

/* Who holds what of one key, for people: one command, which changes nothing, and its reply. `name` is the limit's key. */
bool script_put_holders(struct text *out, struct slice name);
struct script_holder {
    uint64_t run;
    char label[SCRIPT_LABEL_MAX + 1];
    uint64_t left;         /* what it may still hold */
    uint64_t wanted;       /* what it wanted to hold, last time */
    int64_t expires_after; /* ns; below 0: it is over, and not yet collected */
};
struct script_holders {
    uint64_t out; /* sum of left */
    uint64_t granted, returned, spent,
        lost;     /* since the key was first leased: granted = returned + spent + lost + out */
    size_t count; /* of holders, all of them */
};
/* The first `max` holders. False: none of ours; *why names it. No such key: all is 0. */
bool script_read_holders(struct slice reply, struct script_holder *holders, size_t max,
                         struct script_holders *out, struct slice *why);

/* Forget the items' keys, and what is leased of them. The reply is an integer: how many there were. */
bool script_put_reset(struct text *out, const struct script_call *call);

/* Whether the error says that the store does not know the script by its hash: send it whole. */
bool script_is_unknown(struct slice reply);

/* Names the text of all scripts: 12 hex digits, for `weir fleet status`. */
const char *script_version(void);

/* Have a store keep the script that decides, so that the first decision there need not bring it along. The reply is its name. */
bool script_put_load(struct text *out);

/* The name by which a store knows the script that decides (SCRIPT EXISTS). */
struct slice script_hash(void);

#endif
