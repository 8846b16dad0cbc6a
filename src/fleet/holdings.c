// SPDX-License-Identifier: Apache-2.0
/*
 * holdings.c - the table: in each shard an open-addressed index of entries, which stay where they were made.
 *
 * A slot of the index has the hash and when the entry is to be looked at next, so the walk of a beat touches only entries that
 * somebody has touched since, or of which something is due: with all keys idle a beat reads 24 bytes a key. Whatever is done to
 * an entry sets that instant to 0.
 *
 * Keys that were missed once are kept apart, as hash and time in a small table that forgets by being overwritten: a flood of keys
 * that come once takes no entry and no memory.
 */
#include "fleet/holdings.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/siphash.h"

#define SLOTS_MIN 16
/* Of a shard: keys missed once, in sets of so many, or keys that are missed in turn would overwrite each other for ever. */
#define ONCE_COUNT 256
#define ONCE_SET 4

struct entry {
    struct holding holding;
    struct weir_shared_size size;
    uint64_t hash;
    uint32_t generation; /* of the contract that the rest is of */
    struct kept_limit *limit;
    struct slice name;
    char bytes[];
};

/* A limit with its strings behind it. */
struct kept_limit {
    struct weir_limit limit;
    size_t size;
    char bytes[];
};

struct slot {
    uint64_t hash;
    struct entry *entry; /* NULL: free */
    weir_ns look_at;
};

struct once {
    uint64_t hash;
    weir_ns at; /* 0: none */
};

struct shard {
    pthread_mutex_t lock;
    struct slot *slots;
    size_t mask, count; /* mask + 1 slots, a power of two; NULL: none */
    size_t cursor;      /* where the walk goes on */
    uint32_t life; /* above that of any entry that was here: what was taken of one that is gone fits none */
    struct holdings_counts counts;
    struct once once[ONCE_COUNT];
} __attribute__((aligned(128))); /* two lines: neighbours are fetched in pairs */

struct holdings {
    struct shard shards[HOLDINGS_SHARDS];
    uint8_t secret[16];
    _Atomic uint64_t sequence;
    _Atomic uint32_t generation;
    _Atomic bool hands_back;
    _Atomic size_t count, bytes;
    _Atomic unsigned starts[HOLDINGS_SHARDS]; /* of each stripe: the shard where its walk goes on */
};

/* ---- Life ----------------------------------------------------------------------------------------------------------------- */

/* Spins a little before it sleeps: it is held for a few instructions. */
static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t kind;
    (void)pthread_mutexattr_init(&kind); /* these do not fail but for a kind that there is not */
    (void)pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
    (void)pthread_mutex_init(lock, &kind);
    (void)pthread_mutexattr_destroy(&kind);
}

int holdings_new(struct holdings **out, const uint8_t secret[16])
{
    struct holdings *holdings = aligned_alloc(_Alignof(struct holdings), sizeof *holdings);
    if (holdings == NULL)
        return WEIR_ERR_MEMORY;
    memset(holdings, 0, sizeof *holdings);
    memcpy(holdings->secret, secret, sizeof holdings->secret);
    for (size_t i = 0; i < HOLDINGS_SHARDS; i++)
        init_lock(&holdings->shards[i].lock);
    *out = holdings;
    return 0;
}

static void free_entry(struct entry *entry)
{
    free(entry->limit);
    free(entry);
}

void holdings_free(struct holdings *holdings)
{
    if (holdings == NULL)
        return;
    for (size_t i = 0; i < HOLDINGS_SHARDS; i++) {
        struct shard *shard = &holdings->shards[i];
        for (size_t at = 0; shard->slots != NULL && at <= shard->mask; at++)
            if (shard->slots[at].entry != NULL)
                free_entry(shard->slots[at].entry);
        free(shard->slots);
        (void)pthread_mutex_destroy(&shard->lock);
    }
    free(holdings);
}

uint64_t holdings_hash(const struct holdings *holdings, const char *limit, const unsigned char *key, size_t len)
{
    struct siphash state = siphash_begin(holdings->secret);
    uint64_t name = siphash_end(state, limit, strlen(limit));
    siphash_absorb(&state, &name, sizeof name);
    return siphash_end(state, key, len);
}

/* ---- The index ------------------------------------------------------------------------------------------------------------ */

static struct shard *lock_shard(struct holdings *holdings, uint64_t hash)
{
    struct shard *shard = &holdings->shards[hash / (UINT64_MAX / HOLDINGS_SHARDS + 1)];
    (void)pthread_mutex_lock(&shard->lock);
    return shard;
}

static void unlock_shard(struct shard *shard)
{
    (void)pthread_mutex_unlock(&shard->lock);
}

static struct slot *find(const struct shard *shard, uint64_t hash)
{
    if (shard->slots == NULL)
        return NULL;
    for (size_t at = hash & shard->mask; shard->slots[at].entry != NULL; at = (at + 1) & shard->mask)
        if (shard->slots[at].hash == hash)
            return &shard->slots[at];
    return NULL;
}

/* As find(), of what is about to change. */
static struct entry *touch(const struct shard *shard, uint64_t hash)
{
    struct slot *slot = find(shard, hash);
    if (slot == NULL)
        return NULL;
    slot->look_at = 0;
    return slot->entry;
}

static void place(struct slot *slots, size_t mask, struct slot slot)
{
    size_t at = slot.hash & mask;
    while (slots[at].entry != NULL)
        at = (at + 1) & mask;
    slots[at] = slot;
}

/* Room for one more, three quarters full at most. The table does not shrink: all of them together are small. */
static bool make_room(struct shard *shard)
{
    size_t old = shard->slots == NULL ? 0 : shard->mask + 1, new = old == 0 ? SLOTS_MIN : 2 * old;
    if (shard->count + 1 <= old / 4 * 3)
        return true;
    struct slot *slots = calloc(new, sizeof *slots);
    if (slots == NULL)
        return false;
    for (size_t at = 0; at < old; at++)
        if (shard->slots[at].entry != NULL)
            place(slots, new - 1, shard->slots[at]);
    free(shard->slots);
    shard->slots = slots;
    shard->mask = new - 1;
    return true;
}

/* Close the gap: what stands behind it and could stand in it moves up. */
static void remove_slot(struct shard *shard, size_t gap)
{
    size_t mask = shard->mask;
    for (size_t at = (gap + 1) & mask; shard->slots[at].entry != NULL; at = (at + 1) & mask) {
        size_t home = shard->slots[at].hash & mask;
        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        shard->slots[gap] = shard->slots[at];
        gap = at;
    }
    shard->slots[gap].entry = NULL;
}

/* ---- Entries --------------------------------------------------------------------------------------------------------------- */

static size_t text_size(const char *text)
{
    return text == NULL ? 0 : strlen(text) + 1;
}

static const char *keep_text(char **at, const char *text)
{
    size_t size = text_size(text);
    if (size == 0)
        return NULL;
    const char *kept = memcpy(*at, text, size);
    *at += size;
    return kept;
}

/* NULL: no memory. */
static struct kept_limit *keep_limit(const struct weir_limit *limit)
{
    size_t size = sizeof(struct kept_limit) + text_size(limit->name) + text_size(limit->zone);
    struct kept_limit *kept = malloc(size);
    if (kept == NULL)
        return NULL;
    char *at = kept->bytes;
    kept->size = size;
    kept->limit = *limit;
    kept->limit.name = keep_text(&at, limit->name);
    kept->limit.zone = keep_text(&at, limit->zone);
    kept->limit.key_form = NULL; /* no message needs it */
    return kept;
}

static size_t bytes_of(const struct entry *entry)
{
    return sizeof *entry + entry->name.len + entry->limit->size;
}

static struct entry *make_entry(const struct holdings_key *key, uint32_t generation)
{
    struct entry *entry = malloc(sizeof *entry + key->name.len);
    struct kept_limit *limit = keep_limit(key->limit);
    if (entry == NULL || limit == NULL) {
        free(entry);
        free(limit);
        return NULL;
    }
    *entry = (struct entry){ .hash = key->hash, .size = key->size, .generation = generation, .limit = limit };
    entry->name = (struct slice){ memcpy(entry->bytes, key->name.at, key->name.len), key->name.len };
    return entry;
}

/* Bounds are of all shards together, so of several who come at once each may pass: by one key a shard. */
static bool has_room(const struct holdings *holdings)
{
    return atomic_load_explicit(&holdings->count, memory_order_relaxed) < HOLDINGS_MAX
           && atomic_load_explicit(&holdings->bytes, memory_order_relaxed) < HOLDINGS_BYTES_MAX;
}

/* NULL: there is no room. */
static struct entry *insert(struct holdings *holdings, struct shard *shard, const struct holdings_key *key)
{
    if (!has_room(holdings) || !make_room(shard))
        return NULL;
    struct entry *entry = make_entry(key, atomic_load_explicit(&holdings->generation, memory_order_relaxed));
    if (entry == NULL)
        return NULL;
    place(shard->slots, shard->mask, (struct slot){ key->hash, entry, 0 });
    shard->count += 1;
    (void)atomic_fetch_add_explicit(&holdings->count, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&holdings->bytes, bytes_of(entry), memory_order_relaxed);
    return entry;
}

static void forget(struct holdings *holdings, struct shard *shard, size_t at)
{
    struct entry *entry = shard->slots[at].entry;
    if (shard->life <= entry->holding.life)
        shard->life = entry->holding.life + 1;
    remove_slot(shard, at);
    shard->count -= 1;
    (void)atomic_fetch_sub_explicit(&holdings->count, 1, memory_order_relaxed);
    (void)atomic_fetch_sub_explicit(&holdings->bytes, bytes_of(entry), memory_order_relaxed);
    free_entry(entry);
}

static bool is_current(const struct holdings *holdings, const struct entry *entry)
{
    return entry->generation == atomic_load_explicit(&holdings->generation, memory_order_relaxed);
}

static bool hands_back(const struct holdings *holdings)
{
    return atomic_load_explicit(&holdings->hands_back, memory_order_relaxed);
}

/* ---- Spending -------------------------------------------------------------------------------------------------------------- */

static bool is_same_size(const struct weir_shared_size *x, const struct weir_shared_size *y)
{
    return x->capacity == y->capacity && x->count == y->count && x->period == y->period && x->tick == y->tick
           && x->debt == y->debt && x->is_unlimited == y->is_unlimited;
}

static void follow(struct entry *entry, const struct weir_lease *lease, const struct weir_shared_size *size)
{
    const struct weir_lease *known = &entry->holding.lease;
    if (known->most != lease->most || known->chunk != lease->chunk || known->duration != lease->duration)
        lease_change(&entry->holding, lease);
    if (!is_same_size(&entry->size, size))
        entry->size = *size;
}

/* What a request asks of a key. */
struct wish {
    const struct weir_lease *lease;
    const struct weir_shared_size *size;
    uint64_t cost;
    bool is_partial, keeps;
};

static void take(struct holdings *holdings, uint64_t hash, const struct wish *wish, weir_ns now,
                 struct hand *out)
{
    *out = (struct hand){ .hash = hash, .ends_at = WEIR_NO_TIME };
    struct shard *shard = lock_shard(holdings, hash);
    struct entry *entry = touch(shard, hash);
    out->is_known = entry != NULL;
    if (entry != NULL && is_current(holdings, entry) && !hands_back(holdings)) {
        struct holding *holding = &entry->holding;
        follow(entry, wish->lease, wish->size);
        shard->counts.lost += lease_expire(holding, now);
        out->taken = lease_take(holding, wish->cost, wish->is_partial, now);
        out->is_kept = wish->keeps && out->taken == wish->cost;
        if (out->is_kept)
            lease_keep(holding, out->taken, holding->life);
        out->life = holding->life;
        out->have = holding->have;
        out->ends_at = holding->ends_at;
        out->is_urgent = lease_is_urgent(holding, now);
        out->is_awaited = holding->flight.want > 0;
    }
    unlock_shard(shard);
}

void holdings_take(struct holdings *holdings, uint64_t hash, const struct weir_lease *lease,
                   const struct weir_shared_size *size, uint64_t cost, bool is_partial, weir_ns now,
                   struct hand *out)
{
    take(holdings, hash, &(struct wish){ lease, size, cost, is_partial, false }, now, out);
}

void holdings_spend(struct holdings *holdings, uint64_t hash, const struct weir_lease *lease,
                    const struct weir_shared_size *size, uint64_t cost, weir_ns now, struct hand *out)
{
    take(holdings, hash, &(struct wish){ lease, size, cost, true, true }, now, out);
}

/* What was taken is there while its life goes on. */
static void end_hand(struct holdings *holdings, const struct hand *hand,
                     void (*end)(struct holding *holding, uint64_t taken, uint32_t life))
{
    if (hand->taken == 0)
        return;
    struct shard *shard = lock_shard(holdings, hand->hash);
    struct entry *entry = touch(shard, hand->hash);
    if (entry != NULL)
        end(&entry->holding, hand->taken, hand->life);
    unlock_shard(shard);
}

void holdings_keep(struct holdings *holdings, const struct hand *hand)
{
    end_hand(holdings, hand, lease_keep);
}

void holdings_undo(struct holdings *holdings, const struct hand *hand)
{
    end_hand(holdings, hand, lease_undo);
}

uint64_t holdings_look(struct holdings *holdings, uint64_t hash, weir_ns now)
{
    uint64_t have = 0;
    struct shard *shard = lock_shard(holdings, hash);
    const struct slot *slot = find(shard, hash);
    if (slot != NULL && is_current(holdings, slot->entry) && !hands_back(holdings)
        && now < slot->entry->holding.expires_at)
        have = slot->entry->holding.have;
    unlock_shard(shard);
    return have;
}

/* ---- Coming in ---------------------------------------------------------------------------------------------------------------- */

/* Whether the key was missed a while ago; it is now. *at: when. */
static bool was_missed(struct shard *shard, const struct holdings_key *key, weir_ns now, weir_ns *at)
{
    struct once *set = &shard->once[key->hash % (ONCE_COUNT / ONCE_SET) * ONCE_SET];
    struct once *once = set;
    for (unsigned i = 1; i < ONCE_SET && once->hash != key->hash; i++)
        if (set[i].hash == key->hash || set[i].at < once->at)
            once = &set[i];
    bool was = once->at > 0 && once->hash == key->hash && now - once->at <= key->lease.duration / 2;
    *at = once->at;
    *once = (struct once){ key->hash, now };
    return was;
}

static bool come_in(struct holdings *holdings, struct shard *shard, const struct holdings_key *key,
                    uint64_t cost, weir_ns now)
{
    weir_ns before;
    if (!was_missed(shard, key, now, &before))
        return false;
    struct entry *entry = insert(holdings, shard, key);
    if (entry == NULL)
        return false;
    lease_init(&entry->holding, &key->lease, before);
    entry->holding.life = shard->life;
    /* Nothing is in hand: this notes the demand, of which the first time's cost was not kept. */
    (void)lease_take(&entry->holding, cost, false, before);
    (void)lease_take(&entry->holding, cost, false, now);
    return lease_is_urgent(&entry->holding, now);
}

/* The key as it is now. False: not while the one before it still has something under way or in hand. */
static bool refresh(struct holdings *holdings, struct entry *entry, const struct holdings_key *key)
{
    /* Another name is another key of the store (a limit with another algorithm): this one ends first. */
    if (!slice_equals(entry->name, key->name))
        return false;
    follow(entry, &key->lease, &key->size);
    if (is_current(holdings, entry))
        return true;
    if (entry->holding.flight.is_claimed) /* who sends it reads the limit */
        return false;
    struct kept_limit *limit = keep_limit(key->limit);
    if (limit == NULL)
        return false;
    (void)atomic_fetch_add_explicit(&holdings->bytes, limit->size, memory_order_relaxed);
    (void)atomic_fetch_sub_explicit(&holdings->bytes, entry->limit->size, memory_order_relaxed);
    free(entry->limit);
    entry->limit = limit;
    entry->generation = atomic_load_explicit(&holdings->generation, memory_order_relaxed);
    return true;
}

bool holdings_miss(struct holdings *holdings, const struct holdings_key *key, uint64_t cost, weir_ns now)
{
    if (hands_back(holdings))
        return false;
    struct shard *shard = lock_shard(holdings, key->hash);
    struct entry *entry = touch(shard, key->hash);
    bool speaks = entry == NULL ? come_in(holdings, shard, key, cost, now)
                                : refresh(holdings, entry, key) && lease_is_urgent(&entry->holding, now);
    unlock_shard(shard);
    return speaks;
}

/* ---- Messages ------------------------------------------------------------------------------------------------------------- */

static bool claim(struct holdings *holdings, struct shard *shard, struct entry *entry, weir_ns now,
                  struct holdings_message *out)
{
    bool is_new, is_last = hands_back(holdings) || !is_current(holdings, entry);
    /* Drawn under the lock of the key, so a key's numbers rise. Those that are not used leave gaps. */
    uint64_t seq = atomic_fetch_add_explicit(&holdings->sequence, 1, memory_order_relaxed) + 1;
    shard->counts.lost += lease_expire(&entry->holding, now);
    *out = (struct holdings_message){ .hash = entry->hash, .entry = entry };
    if (!lease_speak(&entry->holding, seq, is_last, now, &out->message, &is_new))
        return false;
    out->message.name = entry->name;
    out->message.limit = &entry->limit->limit;
    out->message.size = entry->size;
    return true;
}

bool holdings_claim(struct holdings *holdings, uint64_t hash, weir_ns now, struct holdings_message *out)
{
    struct shard *shard = lock_shard(holdings, hash);
    struct entry *entry = touch(shard, hash);
    bool claimed = entry != NULL && claim(holdings, shard, entry, now, out);
    unlock_shard(shard);
    return claimed;
}

/* The next instant at which something may be due, or the entry forgotten, if nobody touches it before. */
static weir_ns next_look(const struct holding *holding)
{
    weir_ns due = lease_due_at(holding), idle = holding->spent_at + holding->lease.duration;
    return holding->flight.seq > 0 || due < idle ? due : idle;
}

/* Whether a message was claimed; or the entry is gone, and another may stand in its slot. */
enum look { LOOK_ON, LOOK_CLAIMED, LOOK_GONE };

static enum look look(struct holdings *holdings, struct shard *shard, size_t at, weir_ns now,
                      struct holdings_message *out)
{
    struct slot *slot = &shard->slots[at];
    struct holding *holding = &slot->entry->holding;
    shard->counts.lost += lease_expire(holding, now);
    if ((hands_back(holdings) || lease_due_at(holding) <= now)
        && claim(holdings, shard, slot->entry, now, out)) {
        slot->look_at = WEIR_NO_TIME; /* until the answer */
        return LOOK_CLAIMED;
    }
    if (lease_is_idle(holding, now)) {
        forget(holdings, shard, at);
        return LOOK_GONE;
    }
    slot->look_at = next_look(holding);
    return LOOK_ON;
}

static size_t collect_shard(struct holdings *holdings, struct shard *shard, weir_ns now,
                            struct holdings_message *out, size_t max)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&shard->lock);
    bool looks_at_all = hands_back(holdings);
    for (size_t steps = shard->slots == NULL ? 0 : shard->mask + 1; steps > 0 && count < max; steps--) {
        size_t at = shard->cursor & shard->mask;
        const struct slot *slot = &shard->slots[at];
        enum look seen = LOOK_ON;
        if (slot->entry != NULL && (looks_at_all || slot->look_at <= now))
            seen = look(holdings, shard, at, now, &out[count]);
        count += seen == LOOK_CLAIMED;
        shard->cursor = at + (seen != LOOK_GONE);
    }
    unlock_shard(shard);
    return count;
}

size_t holdings_collect(struct holdings *holdings, unsigned stripe, unsigned stripes, weir_ns now,
                        struct holdings_message *out, size_t max)
{
    size_t count = 0;
    if (stripes == 0 || stripe >= HOLDINGS_SHARDS)
        return 0;
    unsigned shards = (HOLDINGS_SHARDS - 1 - stripe) / stripes + 1; /* stripe, stripe + stripes, ... */
    assert(shards > 0);
    unsigned start = atomic_load_explicit(&holdings->starts[stripe], memory_order_relaxed), done = 0;
    while (done < shards && count < max) {
        struct shard *shard = &holdings->shards[stripe + (start + done) % shards * stripes];
        count += collect_shard(holdings, shard, now, out + count, max - count);
        done += count < max; /* else it goes on within this one */
    }
    atomic_store_explicit(&holdings->starts[stripe], (start + done) % shards, memory_order_relaxed);
    return count;
}

void holdings_answer(struct holdings *holdings, const struct holdings_message *message,
                     const struct script_lease_answer *answer, weir_ns now)
{
    struct shard *shard = lock_shard(holdings, message->hash);
    struct entry *entry = touch(shard, message->hash);
    if (entry != NULL) {
        struct lease_result result = lease_hear(&entry->holding, message->message.seq, answer, now);
        shard->counts.granted += result.granted;
        shard->counts.returned += result.returned;
        shard->counts.spent += result.spent;
        shard->counts.lost += result.lost;
    }
    unlock_shard(shard);
}

void holdings_unanswered(struct holdings *holdings, const struct holdings_message *message, weir_ns pause,
                         weir_ns now)
{
    struct shard *shard = lock_shard(holdings, message->hash);
    struct entry *entry = touch(shard, message->hash);
    if (entry != NULL)
        lease_unheard(&entry->holding, message->message.seq, pause, now);
    unlock_shard(shard);
}

void holdings_changed(struct holdings *holdings)
{
    (void)atomic_fetch_add_explicit(&holdings->generation, 1, memory_order_relaxed);
}

void holdings_hand_back(struct holdings *holdings)
{
    atomic_store_explicit(&holdings->hands_back, true, memory_order_relaxed);
}

/* ---- Counting --------------------------------------------------------------------------------------------------------------- */

size_t holdings_count(const struct holdings *holdings)
{
    return atomic_load_explicit(&holdings->count, memory_order_relaxed);
}

static void sum_entry(const struct holding *holding, struct holdings_counts *out)
{
    out->held += holding->have;
    out->keys += holding->have > 0;
    out->untold += holding->used + holding->gone + holding->flight.used;
    out->under_way += holding->flight.seq > 0;
}

static void add_totals(struct holdings_counts *out, const struct holdings_counts *shard)
{
    out->granted += shard->granted;
    out->returned += shard->returned;
    out->spent += shard->spent;
    out->lost += shard->lost;
}

void holdings_totals(struct holdings *holdings, struct holdings_counts *out)
{
    *out = (struct holdings_counts){ 0 };
    for (size_t i = 0; i < HOLDINGS_SHARDS; i++) {
        struct shard *shard = &holdings->shards[i];
        (void)pthread_mutex_lock(&shard->lock);
        add_totals(out, &shard->counts);
        unlock_shard(shard);
    }
}

void holdings_sum(struct holdings *holdings, weir_ns now, struct holdings_counts *out)
{
    *out = (struct holdings_counts){ 0 };
    for (size_t i = 0; i < HOLDINGS_SHARDS; i++) {
        struct shard *shard = &holdings->shards[i];
        (void)pthread_mutex_lock(&shard->lock);
        for (size_t at = 0; shard->slots != NULL && at <= shard->mask; at++) {
            struct slot *slot = &shard->slots[at];
            if (slot->entry == NULL)
                continue;
            uint64_t ended = lease_expire(&slot->entry->holding, now);
            if (ended > 0)
                slot->look_at = 0;
            shard->counts.lost += ended;
            sum_entry(&slot->entry->holding, out);
        }
        add_totals(out, &shard->counts);
        unlock_shard(shard);
    }
}
