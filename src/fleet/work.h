// SPDX-License-Identifier: Apache-2.0
/*
 * work.h - what decisions, operations and work in the background are made of: memory, deadlines, and one command each.
 *
 * Idea: an errand is one script command to the node of one slot, with everything that can befall it: the breaker avoids it, the
 * store does not know the script (sent whole then, since it was not executed), forbids calling it by its hash (whole from then
 * on), answers an error, breaks off, or says nothing in time. Its owner hears one of three things: an answer, certainly not
 * executed, or perhaps executed.
 *
 * A work is a block of memory that all of one request lives in, from a short list of free ones; what does not fit takes more
 * blocks. It ends in one step. Deadlines of one kind are of equal length, so a list in the order of arrival is in their order.
 *
 * Elsewhere: what is asked and what answers mean (decide.c, operate.c), undoing, releasing, probing, telling (background.c).
 */
#ifndef WEIR_FLEET_WORK_H
#define WEIR_FLEET_WORK_H

#include <pthread.h>
#include <stdatomic.h>

#include "fleet/denied.h"
#include "fleet/fleet.h"
#include "fleet/holdings.h"
#include "fleet/journal.h"
#include "fleet/name.h"
#include "fleet/script.h"

/* Most decisions and operations under way in one fleet; any more are answered by policy at once. */
#define FLEET_WORKS_MAX 16384
/* Most commands in the background, and how long they may take. */
#define FLEET_BACKGROUND_MAX 4096
#define FLEET_BACKGROUND_NS WEIR_SECOND
/* Whole scripts on their way that are remembered: four scripts, a few nodes. */
#define FLEET_WHOLES 16
/* How often a store that forbids EVALSHA is asked by hash all the same. */
#define FLEET_TRIES_HASH_NS WEIR_MINUTE
/* Works that are kept for the next ones. */
#define FLEET_SPARE_WORKS 256
/* Longest command: the scripts have some ten thousand bytes, the items of one call below 400,000. */
#define FLEET_COMMAND_MAX ((size_t)1 << 20)

/* Kinds of lines that are remembered; more are told again. */
#define FLEET_KINDS 16
#define FLEET_QUIET_NS WEIR_MINUTE

/* ---- Memory of a work --------------------------------------------------------------------------------------------- */

struct block {
    struct block *next;
    size_t used, cap;
    _Alignas(16) char bytes[];
};

/* NULL: out of memory. Zeroed. */
void *block_claim(struct block **blocks, size_t size);
bool block_copy(struct block **blocks, struct slice from, struct slice *out);
/* Free them; or all but the first, which is empty then. */
void blocks_free(struct block *blocks);
void blocks_rewind(struct block **blocks);

/* ---- Deadlines ------------------------------------------------------------------------------------------------------ */

struct due {
    struct due *next, *prev; /* NULL, NULL: in no list */
    weir_ns at;
    void (*expire)(struct due *due, weir_ns now);
};
struct due_list {
    struct due head;
    size_t count;
};
void due_list_init(struct due_list *list);
void due_add(struct due_list *list, struct due *due);
void due_remove(struct due_list *list, struct due *due); /* also where it is in none */
weir_ns due_next(const struct due_list *list);

/* ---- The fleet ----------------------------------------------------------------------------------------------------- */

/* Which of fleet_common.counts. */
enum count {
    COUNT_COMMANDS,
    COUNT_LATE,
    COUNT_REFUSED,
    COUNT_LOST,
    COUNT_AVOIDED,
    COUNT_KNOWN,
    COUNT_DAMAGED,
    COUNT_SCRIPTS,
    COUNT_ERRORS,
    COUNT_SPENT_TOLD,
    COUNT_SPENT_LOST,
    COUNT_LEASE_COMMANDS,
    COUNT_LEASE_MESSAGES,
    COUNT_COUNT
};

/* Decisions out of the hand touch nothing that another loop writes all the time, but for this: so each loop has a line. */
#define FLEET_LINES 16
struct count_line {
    _Alignas(64) _Atomic uint64_t lease_decisions;
};

struct lessee;

struct fleet_common {
    struct outages *outages;
    struct denied *denied;
    struct journal *journal;
    struct holdings *holdings;
    uint64_t run; /* of its leases; never 0. Both are written before the first fleet_new() */
    char label[SCRIPT_LABEL_MAX + 1];
    /* Of struct fleet_counters, in its order; relaxed: they are only counted. */
    _Atomic uint64_t counts[COUNT_COUNT];
    _Atomic uint64_t seconds_le[12], seconds_sum_ns, seconds_count;
    struct count_line lines[FLEET_LINES];
    _Atomic unsigned fleets; /* made so far: which line is next */
    /* The lease's clock as last read by any loop: for those who count and have no clock. Relaxed. */
    _Atomic weir_ns lease_now;
    /* Failures of nodes since all were well; 0: no outage is on anywhere. Added to (release) once the outage is written, read
       (acquire) before one is looked for. */
    _Atomic uint64_t troubles;
    atomic_bool hands_back; /* one loop gives everything back. Relaxed: who is first does it */
    /* Loops that collect messages about leases, under `lock`. */
    struct lessee *lessees;
    /* What the log was told lately, by kind: under `lock`. */
    pthread_mutex_t lock;
    struct told {
        uint64_t kind;
        weir_ns at;
    } told[FLEET_KINDS];
};
/* Whether a line of this kind ("NOPERM") is to be written: once a minute each. */
bool common_may_tell(struct fleet_common *common, struct slice kind, weir_ns now);
/* An outage has begun or goes on; and: whether there is none any more. */
void common_troubled(struct fleet_common *common);
void common_look_for_trouble(struct fleet_common *common);

void count_add(struct fleet_common *common, enum count which, uint64_t by);
void count_round_trip(struct fleet_common *common, weir_ns length);

struct fleet {
    struct fleet_common *common;
    struct carrier *carrier;
    const struct weir_contract *contract;
    struct fleet_options options;
    int64_t wall_offset;
    weir_ns now;
    weir_ns asleep, asleep_at; /* options.asleep(), and at which `now` */
    struct count_line *line;
    struct lessee *lessee;
    weir_ns lessee_at; /* when lessee_tick() has something to do: the lessee's */
    weir_ns told_next; /* what fleet_next() said last */
    struct due_list works, background, nurses;
    struct fleet_work *spare;
    size_t spare_count;
    uint64_t random;
    char *scratch; /* commands are written here first */
    size_t scratch_cap;
    bool sends_whole;      /* EVALSHA is forbidden */
    weir_ns tries_hash_at; /* it is tried again: users get other rights, and connections lead elsewhere */
    /* Commands that carry a whole script to a node: whoever else needs it waits behind. NULL: a free place. */
    const struct errand *wholes[FLEET_WHOLES];
    struct weir_shared shared; /* for what the contract is asked in the store's place */
    bool tells, is_telling;    /* a batch of the journal is under way; somebody is about to send the next one */
    weir_ns tell_again_at;     /* not before: the last one failed */
};

/* The reading for something that came in now and belongs to what was asked at `asked_at`. */
weir_ns fleet_reading(const struct fleet *fleet, weir_ns asked_at);
void fleet_advance(struct fleet *fleet, weir_ns now);
/* The lease's clock of this turn: goes on while the machine sleeps, and is never that of decisions. */
weir_ns fleet_lease_now(struct fleet *fleet);
/* Tell whoever drives when the next instant came nearer. At the end of every public call. */
void fleet_rewake(struct fleet *fleet);
uint64_t fleet_wall_ns(const struct fleet *fleet, weir_ns now);
/* Random bytes, of names that nobody guesses. False: the system has none. */
#define FLEET_RANDOM_LEN (SCRIPT_ID_LEN / 2)
bool fleet_draw(struct fleet *fleet, uint8_t out[FLEET_RANDOM_LEN]);
/* Such bytes as an id of the script's. */
void fleet_write_id(const uint8_t bytes[FLEET_RANDOM_LEN], char out[SCRIPT_ID_LEN]);
/* What stood under a key could not be read, and began afresh: counted and told. */
void fleet_tell_damage(struct fleet *fleet, const char *limit, struct slice name);
/* A line for the log, as printf(). */
void fleet_log(struct fleet *fleet, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Errands --------------------------------------------------------------------------------------------------------- */

enum errand_end {
    ERRAND_ANSWERED, /* here is a reply, and it is no error */
    ERRAND_AWAY,     /* not executed: `away` says of which outage */
    ERRAND_UNSURE,   /* no answer, and it may have been executed */
};

struct errand {
    struct carrier_call call;
    struct fleet *fleet;
    /* Append the command; false: the text is cut. Called again where it must be sent whole. */
    bool (*put)(const struct errand *errand, struct text *out, enum script_form form);
    /* Once, also within errand_send(). Not after errand_abandon(). */
    void (*done)(struct errand *errand, enum errand_end end, struct slice reply);
    void *owner;
    struct block **blocks; /* where its bytes go */
    unsigned slot;
    struct slice tag;        /* of the keys that it asks about: a probe's is of the same slot */
    bool is_probe;           /* goes although the breaker is open, and tells it */
    bool is_asked_on;        /* goes although the breaker is open: it follows another command */
    unsigned lease_messages; /* of which it is made; 0: it decides or operates */
    enum script_form form;
    bool is_under_way;
    bool is_again; /* sent by its hash behind somebody else's whole script */
    weir_ns now;   /* of sending: as the owner knows it */
    struct outage *outage;
    struct weir_outage away;
    struct slice by_hash; /* the command in that form, in the blocks */
    char *whole;          /* and in the other: freed */
};
void errand_send(struct errand *errand, weir_ns now);
/* It has waited long enough (is_late: then the breaker is told), or is not wanted any more. */
void errand_abandon(struct errand *errand, weir_ns now, bool is_late);
/* A reply that is none of the script's: ends like an error. */
void errand_is_bad(struct errand *errand, struct slice why);

/* ---- Works ------------------------------------------------------------------------------------------------------------ */

struct item;  /* one limit and key of a decision */
struct group; /* what one command asks */

struct fleet_work {
    struct due due;
    struct fleet *fleet;
    struct fleet_work *next_spare;
    struct block *blocks;
    struct fleet_decision *decision;   /* or */
    struct fleet_operation *operation; /* both NULL: the caller has gone */
    struct item *items;
    struct script_item *asked; /* of all groups, one after the other */
    struct script_answer *answers;
    struct group *groups;
    size_t item_count, asked_count, group_count;
    size_t next_group, in_flight, known_count, handle_len;
    const struct weir_contract_limit *limits;
    const void *rules;
    uint8_t secret[FLEET_RANDOM_LEN]; /* of its handle: the groups' ids follow from it */
    weir_ns now;                      /* the request's */
    weir_ns heard_at;
    bool is_advancing, is_refused, is_late, is_undone, is_done;
    /* Some of its items have a hand; nothing was taken; misses were told; a group that was refused was asked again. */
    bool has_hands, is_look, has_missed, asks_again;
    uint32_t generation, set; /* of what is known to be denied */
};
/* NULL: too many, or out of memory. */
struct fleet_work *work_new(struct fleet *fleet, weir_ns now, void (*expire)(struct due *due, weir_ns now));
void work_free(struct fleet_work *work);

/* ---- Groups: one command's items (decide.c and operate.c) ------------------------------------------------------------ */

enum group_state { GROUP_UNASKED, GROUP_ASKED, GROUP_ANSWERED, GROUP_AWAY, GROUP_UNSURE };

struct group {
    struct errand errand;
    struct fleet_work *work;
    struct script_call call;
    char id[SCRIPT_ID_LEN];
    size_t first; /* of work->asked */
    enum group_state state;
    bool binds; /* not all of them are watched */
    struct weir_outage away;
};

/* Names of keys beside the limits' own: of a retry, a reservation, the probe. Give the length; `out` has NAME_BESIDE_MAX bytes. */
#define NAME_BESIDE_MAX (NAME_MAX_LEN + 64)
size_t name_of_retry(struct slice name, const void *id, size_t len, char *out);
size_t name_of_record(struct slice tag, const char id[SCRIPT_ID_LEN], char *out);
size_t name_of_probe(struct slice tag, char *out);

/* ---- Decisions (decide.c), operations (operate.c) ---------------------------------------------------------------------- */

/* End it now by policy. */
void decision_expire(struct due *due, weir_ns now);
void operation_expire(struct due *due, weir_ns now);

/* ---- In the background (background.c): fire and forget, copying what it needs --------------------------------------- */

void background_undo(struct fleet *fleet, const struct script_call *call, const struct script_answer *answers,
                     unsigned slot, weir_ns now);
/* The permits of call->id on its items, if they were given. */
void background_release(struct fleet *fleet, const struct script_call *call, unsigned slot, weir_ns now);
/* Probe the node of a slot, from time to time until its breaker closes. */
void background_nurse(struct fleet *fleet, struct outage *outage, unsigned slot, struct slice tag, weir_ns now);
/* The store was heard: tell it what was spent. */
void background_tell(struct fleet *fleet, weir_ns now);
/* End everything, without a word to anybody. */
void background_end(struct fleet *fleet, weir_ns now);

#endif
