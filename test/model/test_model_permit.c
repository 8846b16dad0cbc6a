// SPDX-License-Identifier: Apache-2.0
/*
 * Permits against a list: a million random acquires, looks, renewals, releases (late ones too), undos, resets, changes of
 * at_most and hold, sweeps, with stamps that go back, on a limiter whose pool may be small.
 *
 * The model is a list of (fence, cost, expiry) for each key and the definition: what has not expired counts. It knows nothing
 * of records: of a stamp that came late it asks the answer which instant was decided for, and holds that against what was
 * told before.
 */
#include "support/unit.h"

#include "permit.h"
#include "support/random.h"

#define SCHEDULES 5000
#define STEPS 250
#define KEYS 4
#define ENTRIES 64
#define GRACE WEIR_SECOND

struct lease {
    uint64_t cost;
    weir_ns expires_at;
    struct store_permit place; /* taken by the store's call, to be undone; or */
    struct weir_permit permit; /* by the public one */
};

struct key {
    const char *name;
    struct lease leases[ENTRIES];
    unsigned count;
    weir_ns latest;     /* of the last grant or renewal */
    weir_ns dropped_at; /* the latest expiry among those seen to be gone */
};

static struct world {
    struct random random;
    struct weir *weir;
    struct key keys[KEYS];
    uint64_t at_most, override_at_most, pool, fence;
    weir_ns hold, newest, since;
    bool is_pending;                                  /* a change is not finished */
    uint64_t allowed, denied, refused, lost, renewed; /* over all schedules: what was covered */
} world;

static uint64_t below(uint64_t bound)
{
    return random_below(&world.random, bound);
}

static weir_ns later_of(weir_ns x, weir_ns y)
{
    return x > y ? x : y;
}

/* Key "c" has a size of its own. */
static uint64_t at_most_of(const struct key *key)
{
    return key->name[0] == 'c' ? world.override_at_most : world.at_most;
}

/* On, back, or to the very instant at which something expires, or just before it. */
static weir_ns draw_stamp(void)
{
    static const weir_ns leaps[] = { 0, 0, WEIR_MILLISECOND, WEIR_SECOND, WEIR_SECOND, 7 * WEIR_SECOND };
    const struct key *key = &world.keys[below(KEYS)];
    weir_ns expiry = key->count > 0 ? key->leases[below(key->count)].expires_at - below(2) : 0;
    if (below(6) == 0)
        return world.newest - below(3 * WEIR_SECOND);
    if (below(4) == 0 && expiry >= world.newest)
        world.newest = expiry;
    else
        world.newest += below(leaps[below(COUNT_OF(leaps))] + 1);
    return world.newest;
}

/* ---- The definition ---------------------------------------------------------------------------------------------- */

static uint64_t held_at(const struct key *key, weir_ns at)
{
    uint64_t held = 0;
    for (unsigned i = 0; i < key->count; i++)
        held += key->leases[i].expires_at > at ? key->leases[i].cost : 0;
    return held;
}

/* The first instant from `at` on at which `cost` fits, if nobody else came: one of the expiries. */
static weir_ns fits_at(const struct key *key, weir_ns at, uint64_t cost)
{
    weir_ns best = WEIR_NO_TIME;
    if (held_at(key, at) + cost <= at_most_of(key))
        return at;
    for (unsigned i = 0; i < key->count; i++) {
        weir_ns instant = key->leases[i].expires_at;
        if (instant > at && instant < best && held_at(key, instant) + cost <= at_most_of(key))
            best = instant;
    }
    return best;
}

static weir_ns all_free_at(const struct key *key, weir_ns at)
{
    weir_ns last = at;
    for (unsigned i = 0; i < key->count; i++)
        last = later_of(last, key->leases[i].expires_at);
    return last;
}

static void forget(struct key *key, unsigned index)
{
    key->leases[index] = key->leases[--key->count];
}

static void drop_expired(struct key *key, weir_ns at)
{
    for (unsigned i = key->count; i-- > 0;) {
        if (key->leases[i].expires_at > at)
            continue;
        key->dropped_at = later_of(key->dropped_at, key->leases[i].expires_at);
        forget(key, i);
    }
}

static uint64_t entries(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < KEYS; i++)
        sum += world.keys[i].count;
    return sum;
}

/* ---- What is done ---------------------------------------------------------------------------------------------- */

static struct key *draw_key(void)
{
    return &world.keys[below(KEYS)];
}

/* Which instant an answer may be about: now, or later where now was late. */
static void check_instant(const struct key *key, weir_ns now, weir_ns at)
{
    assert_true(at >= now && at >= world.since && at >= key->dropped_at);
    assert_true(at <= later_of(world.newest, world.since));
    if (now == world.newest)
        assert_true(at == later_of(now, world.since));
}

static void check_answer(const struct key *key, weir_ns now, uint64_t cost, bool took,
                         const struct weir_decision *answer)
{
    uint64_t most = at_most_of(key);
    if (answer->outcome == WEIR_REFUSED) { /* no permit is left: as many were given as there are */
        assert_int_equal(answer->reason, WEIR_REASON_FULL);
        assert_true(entries() >= world.pool);
        world.refused++;
        return;
    }
    weir_ns at = answer->decided_at;
    check_instant(key, now, at);
    uint64_t held = held_at(key, at), after = held + (took ? cost : 0);
    enum weir_outcome expected = cost > most                      ? WEIR_NEVER
                                 : cost > 0 && held + cost > most ? WEIR_DENY
                                                                  : WEIR_ALLOW;
    assert_int_equal(answer->outcome, expected);
    assert_true(answer->capacity == most);
    assert_true(answer->remaining == (after < most ? most - after : 0));
    bool fits = expected == WEIR_ALLOW && cost > 0;
    assert_true(answer->retry_at == (fits ? at : fits_at(key, at, cost == 0 ? 1 : cost)));
    if (!took)
        assert_true(answer->reset_at == all_free_at(key, at));
    world.denied += expected == WEIR_DENY;
}

/* A new lease in the model, at the instant that the answer names. */
static struct lease *grant(struct key *key, uint64_t cost, uint64_t fence, const struct weir_decision *answer)
{
    assert_true(key->count < ENTRIES);
    assert_true(fence > world.fence);
    world.fence = fence;
    world.allowed++;
    drop_expired(key, answer->decided_at);
    struct lease *lease = &key->leases[key->count++];
    *lease = (struct lease){ .cost = cost, .expires_at = answer->decided_at + world.hold };
    key->latest = answer->decided_at;
    assert_true(answer->reset_at == all_free_at(key, answer->decided_at));
    assert_true(held_at(key, answer->decided_at) <= at_most_of(key)); /* P28 */
    return lease;
}

static void acquire(struct key *key, weir_ns now, uint64_t cost)
{
    struct weir_ask ask = { .limit = 0, .key = key->name, .key_len = 1, .cost = cost };
    struct weir_decision answer;
    struct weir_permit permit;
    assert_int_equal(weir_acquire(world.weir, &ask, 1, now, NULL, &answer, &permit), 0);
    bool took = permit.len > 0;
    assert_true(took == (answer.outcome == WEIR_ALLOW && cost > 0));
    check_answer(key, now, cost, took, &answer);
    if (!took)
        return;
    struct lease *lease = grant(key, cost, permit.fence, &answer);
    assert_true(permit.expires_at == lease->expires_at);
    lease->permit = permit;
}

/* By the store's call, which is taken back at once, or later as a release would be. */
static void acquire_below(struct key *key, weir_ns now, uint64_t cost)
{
    const struct weir_set *set = set_current(world.weir);
    uint64_t hash = set_hash(set->limits[0], key->name, 1);
    const struct shape *shape = set_shape(set, set->limits[0], hash);
    struct store_answer taken;
    struct weir_decision answer;
    assert_true(store_decide(world.weir->store, shape, hash, now, cost, STORE_ACQUIRE, &taken));
    write_decision(world.weir, 0, shape, &taken, &answer);
    bool took = taken.outcome == WEIR_ALLOW && cost > 0;
    check_answer(key, now, cost, took, &answer);
    if (!took)
        return;
    struct lease *lease = grant(key, cost, taken.fence, &answer);
    lease->place = (struct store_permit){ hash, taken.fence, taken.permit };
    if (below(2) == 0)
        return;
    store_undo(world.weir->store, shape, hash, &taken, now, cost);
    key->count--;
}

static void look(struct key *key, weir_ns now, uint64_t cost)
{
    struct weir_ask ask = { .limit = 0, .key = key->name, .key_len = 1, .cost = cost };
    struct weir_decision answer;
    int code = below(2) == 0 ? weir_peek(world.weir, 0, key->name, 1, cost, now, &answer)
                             : weir_admit(world.weir, &ask, 1, now, NULL, &answer);
    assert_int_equal(code, 0);
    check_answer(key, now, cost, false, &answer);
}

/* A lease that had expired by a second may have been forgotten with its key, whatever a late stamp says. */
static bool may_be_forgotten(const struct lease *lease)
{
    return lease->expires_at + GRACE <= world.newest;
}

static weir_ns instant_of(const struct key *key, weir_ns now)
{
    return later_of(later_of(now, world.since), key->latest);
}

static void renew(struct key *key, unsigned index, weir_ns now)
{
    struct lease *lease = &key->leases[index];
    weir_ns until;
    if (lease->permit.len == 0) {
        const struct weir_set *set = set_current(world.weir);
        const struct shape *shape = set_shape(set, set->limits[0], lease->place.hash);
        until = store_permit_renew(world.weir->store, shape, &lease->place, now);
    } else {
        assert_int_equal(weir_renew(world.weir, lease->permit.bytes, lease->permit.len, now, &until), 0);
    }
    weir_ns at = instant_of(key, now);
    if (until == WEIR_NO_TIME) {
        assert_true(lease->expires_at <= at || may_be_forgotten(lease));
        world.lost++;
        return;
    }
    assert_true(lease->expires_at > at && until == at + world.hold);
    lease->expires_at = until;
    key->latest = at;
    world.renewed++;
}

static void release(struct key *key, unsigned index, weir_ns now)
{
    struct lease *lease = &key->leases[index];
    bool was_held = true;
    if (lease->permit.len == 0) {
        const struct weir_set *set = set_current(world.weir);
        const struct shape *shape = set_shape(set, set->limits[0], lease->place.hash);
        was_held = store_permit_release(world.weir->store, shape, &lease->place, now);
        assert_false(store_permit_release(world.weir->store, shape, &lease->place, now));
    } else {
        assert_int_equal(weir_release(world.weir, lease->permit.bytes, lease->permit.len, now, &was_held), 0);
        bool again = true;
        assert_int_equal(weir_release(world.weir, lease->permit.bytes, lease->permit.len, now, &again), 0);
        assert_false(again);
    }
    bool is_held = lease->expires_at > instant_of(key, now);
    assert_true(was_held == is_held || (!was_held && may_be_forgotten(lease)));
    world.lost += !was_held;
    forget(key, index);
}

static void draw_size(void)
{
    static const weir_ns holds[] = { WEIR_SECOND, 3 * WEIR_SECOND, 5 * WEIR_SECOND, 20 * WEIR_SECOND };
    world.at_most = 1 + below(6);
    world.override_at_most = 1 + below(8);
    world.hold = holds[below(COUNT_OF(holds))];
}

static void change(weir_ns now)
{
    struct weir_change *change;
    weir_limit_id id;
    if (world.is_pending) {
        weir_quiesce(world.weir, now);
        world.is_pending = false;
        return;
    }
    draw_size();
    struct weir_limit limit = { .name = "l",
                                .algorithm = WEIR_CONCURRENCY,
                                .at_most = world.at_most,
                                .hold = world.hold,
                                .when_full = WEIR_FULL_CLOSED };
    struct weir_size size = { .at_most = world.override_at_most };
    assert_int_equal(weir_change_new(&change, world.weir), 0);
    assert_int_equal(weir_change_limit(change, &limit, &id), 0);
    assert_int_equal(weir_change_override(change, id, "c", 1, &size), 0);
    enum weir_change_kind kind;
    assert_int_equal(weir_change_commit(change, now, NULL, &kind), 0);
    world.is_pending = true;
    if (kind != WEIR_CHANGE_KEPT)
        world.since = now;
}

static void step(void)
{
    struct key *key = draw_key();
    weir_ns now = draw_stamp();
    uint64_t cost = below(4) == 0 ? below(at_most_of(key) + 2) : 1;
    unsigned what = (unsigned)below(100);
    if (what < 35)
        acquire(key, now, cost);
    else if (what < 45)
        acquire_below(key, now, cost);
    else if (what < 60)
        look(key, now, cost);
    else if (what < 75 && key->count > 0)
        renew(key, (unsigned)below(key->count), now);
    else if (what < 94 && key->count > 0)
        release(key, (unsigned)below(key->count), now);
    else if (what == 94)
        change(later_of(now, world.newest));
    else if (what == 95)
        weir_sweep(world.weir, now, 1 + below(8));
    else if (what == 96 && below(4) == 0) {
        assert_int_equal(weir_reset(world.weir, 0, key->name, 1), 0);
        key->count = 0;
        key->latest = key->dropped_at = 0;
    }
}

static void run_schedule(uint64_t seed)
{
    static const char *const names[KEYS] = { "a", "b", "c", "d" };
    world.random = (struct random){ seed };
    world.newest = 100 * WEIR_SECOND;
    world.since = world.fence = 0;
    world.is_pending = false;
    world.pool = below(4) == 0 ? 4 + below(4) : 1000;
    memset(world.keys, 0, sizeof world.keys);
    for (unsigned i = 0; i < KEYS; i++)
        world.keys[i].name = names[i];
    draw_size();
    struct weir_options options = { .keys = 9, .log_stamps = 8, .permits = world.pool, .fence = 1 };
    struct weir_limit limit = { .name = "l",
                                .algorithm = WEIR_CONCURRENCY,
                                .at_most = world.at_most,
                                .hold = world.hold,
                                .when_full = WEIR_FULL_CLOSED };
    struct weir_size size = { .at_most = world.override_at_most };
    weir_limit_id id;
    assert_int_equal(weir_new(&world.weir, &options), 0);
    assert_int_equal(weir_limit_add(world.weir, &limit, &id), 0);
    assert_int_equal(weir_override_add(world.weir, id, "c", 1, &size), 0);
    for (unsigned i = 0; i < STEPS; i++)
        step();
    /* What was not forgotten yet is all that the pool misses. */
    struct weir_stats stats;
    weir_stats(world.weir, world.newest, &stats);
    assert_true(stats.permits == world.pool);
    assert_true(stats.permits - stats.permits_free <= entries());
    weir_free(world.weir);
}

static void random_schedules_agree_with_a_list(void **state)
{
    (void)state;
    uint64_t seed = random_seed(1);
    for (unsigned i = 0; i < SCHEDULES; i++)
        run_schedule(seed * SCHEDULES + i);
    print_message("%u steps: %llu allowed, %llu denied, %llu full, %llu renewed, %llu lost\n",
                  SCHEDULES * STEPS, (unsigned long long)world.allowed, (unsigned long long)world.denied,
                  (unsigned long long)world.refused, (unsigned long long)world.renewed,
                  (unsigned long long)world.lost);
    assert_true(world.allowed > 100000 && world.denied > 50000 && world.renewed > 10000);
    assert_true(world.refused > 1000 && world.lost > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_schedules_agree_with_a_list) };
    return cmocka_run_group_tests_name("model/permit", tests, NULL, NULL);
}
