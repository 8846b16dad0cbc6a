// SPDX-License-Identifier: Apache-2.0
/*
 * table.h - what the files of the store share: the table's layout, a key's place in it, and one decision's thread.
 *
 *     table.c   deciding: find, charge, insert in two phases
 *     settle.c  charging without asking, giving back, forgetting
 *     queue.c   keys that are waited for
 *     memory.c  keys that say whether something was done
 *     succeed.c  cells of an earlier shape become cells of the next
 *     place.c   which cell a new key may take, and taking cells from keys that are done
 *     full.c    answers when there is no cell
 *     log.c     sliding logs: a cell that points to a ring of stamps
 *     arena.c   where rings come from
 *     permit.c  permits: a cell that points to a record of who holds how much until when
 *     pool.c    where records and permits come from
 *     life.c    making, freeing, counting
 */
#ifndef WEIR_STORE_TABLE_H
#define WEIR_STORE_TABLE_H

#include "store/arena.h"
#include "store/cell.h"
#include "store/pool.h"
#include "store/store.h"

/* Loops of placing, helping and being disturbed before a new key is answered by its limit's when-full. */
#define PLACE_ATTEMPTS 64

/* An insertion that is older than this was abandoned: another key may take its cell. */
#define TENT_OLD_MS 10

/* Cells examined to free dead records when a new one finds no ring, or none for its permits; in groups. */
#define RESCUE_GROUPS 64

/* Switches for the mutants that test/threads must catch. Production has all three. */
#ifndef STORE_VERIFIES
#define STORE_VERIFIES 1
#endif
#ifndef STORE_HAS_GRACE
#define STORE_HAS_GRACE 1
#endif
#ifndef STORE_HAS_FLOOR
#define STORE_HAS_FLOOR 1
#endif

/* The number of cells that are memories (memory.c): the one above all shapes'. */
#define MEMORY_NUMBER (WEIR_LIMITS_MAX + 1)

/* One shape, and the cell that its overflowing keys share. Written on the hot path only when the table is full. */
struct slot {
    _Alignas(64) const struct shape *shape;
    weir_ns over_at;    /* when its successor came into force, else WEIR_NO_TIME; see place_is_dead() */
    uint64_t word;      /* of the overflow cell */
    uint64_t overflows; /* decisions on it */
    uint32_t ring;      /* the overflow cell's ring, or its record of permits; or RING_NONE */
    bool is_handed_on;  /* that record is its successor's */
    struct slot *spare; /* the next one that is in no use */
};

struct store {
    /* Read by every decision, never written after store_new(). */
    _Alignas(64) struct group *groups;
    struct slot **slots; /* MEMORY_NUMBER + 1 of them, by shape number */
    unsigned group_bits; /* 1 .. 30 */
    bool has_wide_load;
    bool bounds_new_keys;
    struct arena arena;
    struct pool records, permits; /* permit.c */
    weir_rate new_keys_rate;
    const struct weir_allocator *allocator;

    /* Written by whoever places or reclaims. */
    _Alignas(64) weir_ns floor_ns; /* no key that was found absent is decided before this stamp */
    weir_bucket new_keys;
    uint64_t nonce;
    uint64_t fence;    /* of the newest permit */
    uint64_t sweep_at; /* next group of the sweep */
    uint64_t placements, reclaims, evictions, contended;
    uint64_t overflows;      /* of shapes that are gone */
    uint32_t reserved_units; /* of the arena, for overflow cells; only where shapes are added and removed */
    uint64_t reserved_permits;
    struct slot *spare_slots; /* of shapes that are gone: store_stats() may be reading one, so they are kept */

    /* What a memory's cell names in place of a limit's shape: of no lineage, never evicted. */
    struct shape memory_shape;
    struct slot memory_slot;
};

/* A key's place: its tag and its two groups. */
struct key {
    uint64_t tag;  /* 48 bits */
    uint64_t word; /* the tag word of its FINAL cell: shape and tag */
    uint64_t hash;
};

/*
 * The second group is a function of the first and the tag, in both directions: so two keys of one tag have either
 * the same candidates or none in common, and identity is tag and place together.
 */
static inline uint64_t group_first(const struct store *store, uint64_t hash)
{
    return hash >> (64 - store->group_bits);
}

static inline uint64_t group_second(const struct store *store, uint64_t hash)
{
    uint64_t mixed = (hash & CELL_TAG_MASK) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    return group_first(store, hash) ^ ((mixed | 1) & ((UINT64_C(1) << store->group_bits) - 1));
}

static inline struct key key_of(const struct shape *shape, uint64_t hash)
{
    uint64_t tag = hash & CELL_TAG_MASK;
    return (struct key){ tag, (uint64_t)shape->number << CELL_TAG_BITS | tag, hash };
}

static inline bool is_log(const struct shape *shape)
{
    return shape->algorithm == WEIR_SLIDING_LOG;
}

static inline bool is_permits(const struct shape *shape)
{
    return shape->algorithm == WEIR_CONCURRENCY;
}

/* Whether the shape's cells point to records that have a lock. */
static inline bool has_record(const struct shape *shape)
{
    return is_log(shape) || is_permits(shape);
}

static inline bool is_bucket(const struct shape *shape)
{
    return shape->algorithm == WEIR_TOKEN_BUCKET || shape->algorithm == WEIR_LEAKY_BUCKET;
}

/* Raise a statistic. order: relaxed, it is read on its own. */
static inline void count_up(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- One decision ---------------------------------------------------------------------------------------- */

enum verb {
    ASK_TAKE,
    ASK_PEEK,   /* what a take would answer; writes nothing */
    ASK_CHARGE, /* without asking */
    ASK_HOLD,   /* a memory */
    ASK_QUEUE,  /* that somebody waits: charges nothing, but the key needs a cell */
};

/* What is asked, and what the slow path holds on to between its loops. */
struct ask {
    struct store *store;
    const struct shape *shape;
    struct key key;
    weir_ns now; /* not before the shape came into force */
    uint64_t cost;
    enum verb verb;
    unsigned stance; /* enum store_stance: whether it is its turn, and whether permits are taken */
    bool may_place;  /* the bound on new keys let this one in */
    bool is_old;     /* the key is counted under a later generation */
    uint32_t ring;   /* a ring or record taken for this key, not yet published; or RING_NONE */
    uint32_t permit; /* the same for a permit */
    uint64_t fence;  /* which that permit gets with the exchange that publishes it */
    struct store_answer *out;
    struct settled settled; /* of a charge; cost is dropped until it is charged */
    /* Of a hold: */
    weir_ns hold_until;
    uint32_t nonce;
    enum store_memory memory;
};

static inline bool is_peek(const struct ask *ask)
{
    return ask->verb == ASK_PEEK;
}

static inline struct ask ask_of(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now,
                                uint64_t cost, struct store_answer *out)
{
    return (struct ask){ .store = store,
                         .shape = shape,
                         .key = key_of(shape, hash),
                         .now = now > shape->since ? now : shape->since,
                         .cost = cost,
                         .ring = RING_NONE,
                         .permit = POOL_NONE,
                         .out = out,
                         .settled = { .dropped = cost } };
}

/* After one loop of the slow path. */
enum turn { TURN_DONE, TURN_AGAIN };

/* table.c: do what is asked, on the key's cell or on one that it gets; else its limit's when-full answers. */
void ask_slowly(struct ask *ask);

/* table.c: what the verb makes of a word; ALLOW where it wants to write. Not for logs. */
struct step ask_apply(struct ask *ask, uint64_t word, weir_ns now);

/* memory.c: the same for a hold. */
struct step memory_hold(struct ask *ask, uint64_t word, weir_ns now);
bool memory_is_dead(uint64_t word, weir_ns now);

/* queue.c: the same for a key that somebody wants to wait for, on its FINAL cell. */
enum turn queue_found(struct ask *ask, struct cell *cell, struct cell seen);

/* All candidate cells of a key, each read at one instant. */
#define LOOK_CELLS (2 * GROUP_CELLS)
#define LOOK_NONE LOOK_CELLS
struct look {
    struct cell *cells[2]; /* the groups' first cells */
    struct cell seen[LOOK_CELLS];
    unsigned final; /* the key's FINAL cell, or LOOK_NONE */
    unsigned tent;  /* the first TENT of the key, or LOOK_NONE */
};

static inline struct cell *look_cell(const struct look *look, unsigned index)
{
    return &look->cells[index / GROUP_CELLS][index % GROUP_CELLS];
}

/* ---- place.c: cells for new keys ---------------------------------------------------------------------------- */

void look_at(struct store *store, const struct key *key, struct look *look);

/* The cell that the placement rule gives to a new key, or LOOK_NONE when all sixteen are live. */
unsigned place_pick(struct store *store, const struct look *look, weir_ns now);

/* Of the candidates of limits that chose evict-least, the one that will be full soonest; or LOOK_NONE. */
unsigned place_pick_victim(struct store *store, const struct look *look, weir_ns now, bool logs_only);

/*
 * Put `next` where `seen` is: EMPTY, an abandoned TENT, or a FINAL that is dead. Counts a reclaim and raises
 * floor_ns first. False: the cell changed, or a log came to life.
 */
bool place_take(struct store *store, struct cell *cell, struct cell seen, struct cell next, weir_ns now);

/* The same over a live cell (evict-least): what it had spent is forgiven. */
bool place_evict(struct store *store, struct cell *cell, struct cell seen, struct cell next);

/* Whether a FINAL cell may be forgotten at `now`. */
bool place_is_dead(struct store *store, struct cell seen, weir_ns now);

weir_ns floor_read(struct store *store);

/* ---- full.c: no cell ------------------------------------------------------------------------------------------ */

void full_answer(struct ask *ask, enum weir_reason reason);
void full_undo(struct store *store, const struct shape *shape, const struct store_answer *taken, weir_ns now,
               uint64_t cost);

/* An undecided answer: no numbers are known. */
void answer_undecided(struct ask *ask, enum weir_outcome outcome, enum weir_policy policy,
                      enum weir_reason reason);

/* ---- log.c: rings ------------------------------------------------------------------------------------------- */

/* Decide on the log of a FINAL cell of this lineage, converting it where that writes. AGAIN: the cell has changed hands. */
enum turn log_charge(struct ask *ask, struct cell *cell, struct cell seen);

/* Decide on an overflow cell's ring. False: another thread held it all the time. */
bool log_charge_ring(struct ask *ask, uint32_t ring);

/* The stamps of a key that was absent: decide at `now` on an empty ring, ask->ring if this is no peek. */
struct step log_begin(struct ask *ask, weir_ns now, struct report *report);

/* The state word of a cell that points to the ring. */
uint64_t log_state(struct store *store, uint32_t ring);

enum ring_result { RING_OK, RING_FULL, RING_BUSY };

/* The size of the shape's rings, as a power of two of units. */
unsigned log_order(const struct shape *shape);

/* Put a ring for the shape into *ring. */
enum ring_result log_claim(struct store *store, const struct shape *shape, uint32_t *ring);

bool log_cell_is_dead(struct store *store, const struct shape *shape, struct cell seen, weir_ns now);

/* When the newest stamp of a cell's log leaves the period; WEIR_NO_TIME when the ring is held or gone. */
weir_ns log_reset_at(struct store *store, const struct shape *shape, struct cell seen);

/* Exchange a log's cell and give its ring back; with `only_dead` at `now` only if the log says nothing any more. The lock
   is tried once, or waited for. */
enum log_wait { LOG_TRY = 1, LOG_WAIT = LOCK_SPINS };
bool log_retire(struct store *store, const struct shape *shape, struct cell *cell, struct cell seen,
                struct cell next, weir_ns now, bool only_dead, enum log_wait wait);

/* Turn a cell of an earlier shape of this lineage into one of `shape`. False: it was not as seen, or held all the time. */
bool log_convert(struct store *store, const struct shape *shape, struct cell *cell, struct cell seen);

/* Put another tag word of the shape over the cell, in a new generation of its ring, so that whoever read the old content and
   waits for the lock finds it gone. False: it was not as seen, or held all the time. */
bool log_retag(struct store *store, const struct shape *shape, struct cell *cell, struct cell seen,
               uint64_t tag);

/* log_foresee() of a cell of this lineage. False: it has changed hands, or was held all the time. */
bool log_foresee_cell(struct store *store, const struct shape *shape, struct cell seen, weir_ns now,
                      uint64_t ahead, uint64_t cost, weir_ns *out);

/* Take out all stamps; the cell stays. False: as above. */
bool log_clear(struct store *store, struct cell seen);

/* shape_refund() for a cell of this lineage. False: the cell has changed hands. */
bool log_refund_cell(struct store *store, const struct shape *shape, struct cell seen, weir_ns charged_at,
                     weir_ns now, uint64_t amount, struct settled *out);

/* Take back stamps. False: the cell has changed hands. */
bool log_give_back(struct store *store, struct cell seen, const struct store_answer *taken, uint64_t cost);
void log_give_back_ring(struct store *store, uint32_t ring, const struct store_answer *taken, uint64_t cost);

/* Copy what the old shape's overflow ring holds into the new one's, newest first as far as there is room. */
void log_succeed_overflow(struct store *store, const struct shape *old, const struct shape *next);

/* ---- permit.c: records of permits ------------------------------------------------------------------------------ */

/* The three of log.c's, for permits. A record's lock is waited for as a ring's. */
enum turn permit_charge(struct ask *ask, struct cell *cell, struct cell seen);
bool permit_charge_shared(struct ask *ask, uint32_t record);
struct step permit_begin(struct ask *ask, weir_ns now, struct report *report);

/* Take a record and a permit for a key that has none into ask->ring and ask->permit. */
enum ring_result permit_claim(struct ask *ask);
bool permit_may_claim(const struct store *store);

/* Give back what was taken and not published. */
void permit_unclaim(struct ask *ask);

/*
 * Under the record's lock, put another tag word over the cell, in a new generation of the record: so that whoever read the
 * old content and waits for the lock finds it gone. False: it is gone, or the lock was held all the time.
 */
bool permit_retag(struct store *store, struct cell *cell, struct cell seen, uint64_t tag);

/* log_foresee_cell() and log_clear() for permits; and when a key without a cell would give them. */
bool permit_foresee(struct store *store, const struct shape *shape, struct cell seen, weir_ns now,
                    uint64_t ahead, uint64_t cost, weir_ns *out);
weir_ns permit_foresee_absent(const struct shape *shape, weir_ns now, uint64_t ahead, uint64_t cost);
bool permit_clear(struct store *store, struct cell seen);

/* Whether nothing is held and nobody could be told otherwise by an older stamp. */
bool permit_cell_is_dead(struct store *store, struct cell seen, weir_ns now);

/* As log_retire(): what the record holds goes back with it. */
bool permit_retire(struct store *store, struct cell *cell, struct cell seen, struct cell next, weir_ns now,
                   bool only_dead, enum log_wait wait);

/* Take back a permit that store_decide() gave. */
void permit_undo(struct store *store, uint64_t hash, const struct store_answer *taken);

/* The record of a shape's overflowing keys, with as many permits reserved as they can hold. 0 or WEIR_ERR_PERMIT_MEMORY. */
int permit_reserve_shared(struct store *store, const struct shape *shape, struct slot *slot);
void permit_succeed_shared(struct store *store, const struct shape *old, const struct shape *next);
void permit_release_shared(struct store *store, const struct shape *shape, struct slot *slot);

/* ---- limits of a shape number --------------------------------------------------------------------------------- */

static inline struct slot *slot_of(const struct store *store, const struct shape *shape)
{
    return store->slots[shape->number];
}

/* The shape that a FINAL cell was written under; it was made known before any cell could name it. */
static inline const struct shape *shape_of_cell(const struct store *store, struct cell seen)
{
    return store->slots[cell_shape_number(seen)]->shape;
}

/* How a cell of the key's tag stands to the shape that is asked about. */
enum kin {
    KIN_SAME,
    KIN_EARLIER,  /* of its lineage: to be converted */
    KIN_LATER,    /* of its lineage: whoever asks has an old set */
    KIN_STRANGER, /* of another lineage */
};

static inline enum kin kin_of(const struct store *store, const struct shape *shape, struct cell seen)
{
    if (cell_shape_number(seen) == shape->number)
        return KIN_SAME;
    const struct slot *slot = store->slots[cell_shape_number(seen)];
    /* A TENT may be older than the removal of what it names. */
    if (slot == NULL || slot->shape->lineage != shape->lineage || slot->shape->generation == shape->generation)
        return KIN_STRANGER;
    return slot->shape->generation < shape->generation ? KIN_EARLIER : KIN_LATER;
}

#endif
