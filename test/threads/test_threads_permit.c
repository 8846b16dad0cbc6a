// SPDX-License-Identifier: Apache-2.0
/*
 * LABELS: threads
 *
 * Permits by real threads: never more than at_most are held, whoever comes at once, and in the end none is (P28, B25); with
 * rates beside them, all or nothing (P27). Run again under the thread sanitizer.
 */
#define CREW_MAX 1000

#include "store/record.h"

#include "store/kit.h"
#include "support/random.h"
#include "threads/crew.h"

#if CELL_SANITIZED
#define SCALE 50
#define CROWD 100 /* threads of B25 (c) */
#else
#define SCALE 1
#define CROWD 1000
#endif

static struct {
    struct kit kit;
    const struct shape *shape;
    uint64_t key;
    uint64_t allowed, odd; /* odd: neither allowed nor denied */
} at;

static void open_permits(size_t keys, size_t permits, uint64_t at_most, weir_ns hold)
{
    at.kit = (struct kit){ 0 };
    at.allowed = at.odd = 0;
    assert_int_equal(
        kit_try_open(&at.kit, &(struct store_options){ .keys = keys, .permits = permits, .log_stamps = 64 }),
        0);
    at.shape = kit_shape(&at.kit, (struct weir_limit){ .algorithm = WEIR_CONCURRENCY,
                                                       .at_most = at_most,
                                                       .hold = hold,
                                                       .when_full = WEIR_FULL_CLOSED });
}

/* Until it is decided: a lock that was held all the time says nothing about the permits. */
static struct store_answer acquire(uint64_t key, weir_ns now, uint64_t cost)
{
    struct store_answer answer;
    do
        store_decide(at.kit.store, at.shape, key, now, cost, STORE_ACQUIRE, &answer);
    while (answer.outcome == WEIR_REFUSED && answer.reason == WEIR_REASON_CONTENDED);
    if (answer.outcome != WEIR_ALLOW && answer.outcome != WEIR_DENY)
        __atomic_fetch_add(&at.odd, 1, __ATOMIC_RELAXED);
    return answer;
}

static bool release(uint64_t key, const struct store_answer *answer, weir_ns now)
{
    struct store_permit permit = { key, answer->fence, answer->permit };
    return store_permit_release(at.kit.store, at.shape, &permit, now);
}

static void ends_with_nothing_held(void)
{
    assert_int_equal(at.odd, 0);
    assert_int_equal(kit_stats(&at.kit, 0).permits_free, kit_stats(&at.kit, 0).permits);
    kit_close(&at.kit);
}

/* ---- B25 (a): one is left ------------------------------------------------------------------------------------------- */

static struct store_answer won;

static void want_one(unsigned member)
{
    (void)member;
    struct store_answer answer = acquire(at.key, 0, 1);
    if (answer.outcome != WEIR_ALLOW)
        return;
    won = answer; /* by one, or the count says so */
    __atomic_fetch_add(&at.allowed, 1, __ATOMIC_RELAXED);
}

static void B25_a_of_many_that_want_the_last_one_gets_it(void **state)
{
    (void)state;
    static const unsigned crews[] = { 3, 64 };
    for (size_t c = 0; c < COUNT_OF(crews); c++) {
        struct crew crew;
        struct store_answer held[9];
        open_permits(9, 100, 10, S);
        at.key = hash_at(&at.kit, 0, 1);
        for (unsigned i = 0; i < 9; i++)
            held[i] = acquire(at.key, 0, 1);
        crew_open(&crew, crews[c], want_one);
        for (unsigned round = 0; round < 2000 / SCALE; round++) {
            at.allowed = 0;
            crew_round(&crew);
            assert_int_equal(at.allowed, 1);
            assert_true(release(at.key, &won, 0));
        }
        crew_close(&crew);
        for (unsigned i = 0; i < 9; i++)
            assert_true(release(at.key, &held[i], 0));
        ends_with_nothing_held();
    }
}

/* ---- B25 (b): acquire, hold, release ---------------------------------------------------------------------------------- */

#define HOLDERS 64

static struct {
    uint64_t held, most, costs, each;
} gauge;

/* Counted after it was given and before it is given back: what the gauge says was held, was held. */
static void hold_and_release(unsigned member)
{
    struct random random = { member };
    for (uint64_t i = 0; i < gauge.each; i++) {
        uint64_t cost = 1 + random_below(&random, gauge.costs);
        struct store_answer answer = acquire(at.key, i % 3, cost);
        if (answer.outcome != WEIR_ALLOW)
            continue;
        uint64_t held = __atomic_add_fetch(&gauge.held, cost, __ATOMIC_ACQ_REL);
        uint64_t most = __atomic_load_n(&gauge.most, __ATOMIC_RELAXED);
        while (
            held > most
            && !__atomic_compare_exchange_n(&gauge.most, &most, held, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
        if (i % 64 == 0)
            (void)sched_yield(); /* hold it while others run */
        __atomic_fetch_sub(&gauge.held, cost, __ATOMIC_ACQ_REL);
        if (!release(at.key, &answer, 0))
            __atomic_fetch_add(&at.odd, 1, __ATOMIC_RELAXED);
    }
}

static void B25_b_never_more_are_held_and_none_in_the_end(void **state)
{
    (void)state;
    static const struct row {
        uint64_t costs, each;
    } rows[] = { { 1, 100000 }, { 10, 10000 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct crew crew;
        open_permits(9, 100, 10, S);
        at.key = hash_at(&at.kit, 0, 1);
        gauge.held = gauge.most = 0;
        gauge.costs = rows[i].costs;
        gauge.each = rows[i].each / SCALE;
        crew_open(&crew, HOLDERS, hold_and_release);
        crew_round(&crew);
        crew_close(&crew);
        print_message("costs 1 to %u: at most %u held\n", (unsigned)rows[i].costs, (unsigned)gauge.most);
        assert_true(gauge.most <= 10 && gauge.most > 1);
        assert_int_equal(gauge.held, 0);
        ends_with_nothing_held();
    }
}

/* ---- B25 (c): a crowd over ten keys, under every algorithm ------------------------------------------------------------- */

#define DAY (24 * WEIR_HOUR)

static const struct weir_limit four_a_day[] = {
    { .name = "bucket", .rate = { 0, S }, .burst = 4 },
    { .name = "fixed", .algorithm = WEIR_FIXED_WINDOW, .rate = { 4, DAY } },
    { .name = "first", .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_FIRST_REQUEST, .rate = { 4, DAY } },
    { .name = "log", .algorithm = WEIR_SLIDING_LOG, .rate = { 4, DAY } },
    { .name = "sliding", .algorithm = WEIR_SLIDING_WINDOW, .rate = { 4, DAY } },
    { .name = "permits", .algorithm = WEIR_CONCURRENCY, .at_most = 4, .hold = DAY },
};
#define FOURS COUNT_OF(four_a_day)

static struct {
    struct weir *weir;
    weir_limit_id limits[FOURS];
    uint32_t round;
    uint64_t allowed[FOURS][10];
} crowd;

/* One request for each limit; again where a lock was held all the time. */
static void want_of_the_crowd(unsigned member)
{
    struct {
        uint32_t round, number;
    } key = { crowd.round, member % 10 };
    for (size_t i = 0; i < FOURS; i++) {
        struct weir_ask ask = { .limit = crowd.limits[i], .key = &key, .key_len = sizeof key, .cost = 1 };
        struct weir_decision decision;
        struct weir_permit permit;
        do {
            if (weir_acquire(crowd.weir, &ask, 1, 3 * DAY, NULL, &decision, &permit) != 0)
                abort();
        } while (decision.reason == WEIR_REASON_CONTENDED);
        if (decision.outcome == WEIR_ALLOW)
            __atomic_fetch_add(&crowd.allowed[i][key.number], 1, __ATOMIC_RELAXED);
    }
}

static void B25_c_each_key_of_a_crowd_gets_exactly_four(void **state)
{
    (void)state;
    struct crew crew;
    assert_int_equal(weir_new(&crowd.weir, &(struct weir_options){ .keys = 20000, .permits = 8000 }), 0);
    for (size_t i = 0; i < FOURS; i++) {
        struct weir_limit limit = four_a_day[i];
        limit.when_full = WEIR_FULL_CLOSED;
        assert_int_equal(weir_limit_add(crowd.weir, &limit, &crowd.limits[i]), 0);
    }
    crew_open(&crew, CROWD, want_of_the_crowd);
    for (crowd.round = 0; crowd.round < (SCALE > 1 ? 20 : 100); crowd.round++) {
        memset(crowd.allowed, 0, sizeof crowd.allowed);
        crew_round(&crew);
        for (size_t i = 0; i < FOURS; i++)
            for (unsigned key = 0; key < 10; key++)
                expect_row(crowd.allowed[i][key] == 4, four_a_day[i].name);
    }
    crew_close(&crew);
    weir_free(crowd.weir);
}

/* ---- All of it, or nothing --------------------------------------------------------------------------------------------- */

static weir_ns all_at;

static void want_all(unsigned member)
{
    (void)member;
    struct store_answer answer = acquire(at.key, all_at, 2);
    if (answer.outcome == WEIR_ALLOW) {
        won = answer;
        __atomic_fetch_add(&at.allowed, 1, __ATOMIC_RELAXED);
    }
}

/* Claimed one by one, two requests for both of two could each get one and be refused the other. */
static void of_two_that_want_both_one_gets_both(void **state)
{
    (void)state;
    struct crew crew;
    open_permits(9, 100, 2, S);
    crew_open(&crew, 2, want_all);
    for (unsigned round = 0; round < 20000 / SCALE; round++) {
        /* A new key now and then, inserted by both, when what the last insertion may have left is old enough to be taken. */
        at.key = hash_at(&at.kit, 0, 1 + round / 4);
        all_at = round / 4 * (weir_ns)TENT_OLD_MS * MS;
        at.allowed = 0;
        crew_round(&crew);
        assert_int_equal(at.allowed, 1);
        assert_true(release(at.key, &won, all_at));
    }
    crew_close(&crew);
    ends_with_nothing_held();
}

/* ---- Moving time, few cells: what one look calls expired no other has in hand ------------------------------------------- */

#define LEASES 40000
#define LEASE_KEYS 40

struct lease {
    weir_ns from, until;
    unsigned key;
};

static struct {
    weir_ns clock;
    struct lease *leases;
    size_t count;
} moving;

static void acquire_and_die(unsigned member)
{
    struct random random = { 77 * member + 1 };
    for (unsigned i = 0; i < 20000 / SCALE; i++) {
        weir_ns now = __atomic_add_fetch(&moving.clock, random_below(&random, 40 * MS), __ATOMIC_RELAXED);
        weir_ns age = random_below(&random, 4) == 0 ? random_below(&random, 3 * S) : 0;
        unsigned key = (unsigned)random_below(&random, LEASE_KEYS);
        uint64_t hash = hash_at(&at.kit, key & 1, 1 + key);
        struct store_answer answer;
        store_decide(at.kit.store, at.shape, hash, now > age ? now - age : 0, 1, STORE_ACQUIRE, &answer);
        if (answer.outcome != WEIR_ALLOW)
            continue; /* or no cell, or no permit, of which there are fewer than keys could have */
        struct lease lease = { answer.at, answer.at + S, key };
        struct store_permit permit = { hash, answer.fence, answer.permit };
        if (random_below(&random, 3) == 0) {
            weir_ns until = store_permit_renew(at.kit.store, at.shape, &permit, answer.at + S / 2);
            lease.until = until != WEIR_NO_TIME ? until : lease.until;
        }
        size_t place = __atomic_fetch_add(&moving.count, 1, __ATOMIC_RELAXED);
        if (place < LEASES)
            moving.leases[place] = lease;
    }
}

static int by_start(const void *x, const void *y)
{
    const struct lease *a = x, *b = y;
    return a->key != b->key ? (a->key < b->key ? -1 : 1) : (a->from > b->from) - (a->from < b->from);
}

/* At each instant at which a lease begins: those of its key that hold then. */
static void no_instant_holds_more(uint64_t at_most)
{
    size_t count = moving.count < LEASES ? moving.count : LEASES;
    qsort(moving.leases, count, sizeof *moving.leases, by_start);
    for (size_t i = 0, first = 0; i < count; i++) {
        while (moving.leases[first].key != moving.leases[i].key
               || moving.leases[first].from + 3 * S < moving.leases[i].from)
            first++; /* no lease is longer than a hold and a half */
        uint64_t held = 0;
        for (size_t k = first; k <= i; k++)
            held += moving.leases[k].until > moving.leases[i].from;
        for (size_t k = i + 1; k < count && moving.leases[k].key == moving.leases[i].key
                               && moving.leases[k].from == moving.leases[i].from;
             k++)
            held++;
        assert_true(held <= at_most);
    }
}

static void P28_no_instant_holds_more_than_at_most(void **state)
{
    (void)state;
    struct crew crew;
    open_permits(9, 60, 3, S);
    moving.clock = 10 * S;
    moving.count = 0;
    moving.leases = malloc(LEASES * sizeof *moving.leases);
    crew_open(&crew, 4, acquire_and_die);
    crew_round(&crew);
    crew_close(&crew);
    assert_true(moving.count > 300);
    no_instant_holds_more(3);
    assert_true(kit_stats(&at.kit, 0).reclaims > 0);
    store_sweep(at.kit.store, moving.clock + 10 * S, SIZE_MAX);
    at.odd = 0;
    free(moving.leases);
    ends_with_nothing_held();
}

/* ---- A small pool: no entry is anybody else's ---------------------------------------------------------------------------- */

#define POOL 16

static uint64_t owner[POOL];

static void own_for_a_moment(unsigned member)
{
    struct random random = { member + 1 };
    struct store_answer held[3];
    uint64_t keys[3];
    for (unsigned i = 0; i < 30000 / SCALE; i++) {
        unsigned count = 1 + (unsigned)random_below(&random, 3), got = 0;
        for (unsigned k = 0; k < count; k++) {
            uint64_t key = random_below(&random, 200);
            keys[got] = hash_at(&at.kit, key % 32, 1 + key);
            store_decide(at.kit.store, at.shape, keys[got], 0, 1, STORE_ACQUIRE, &held[got]);
            if (held[got].outcome == WEIR_ALLOW)
                got++;
        }
        for (unsigned k = 0; k < got; k++)
            if (held[k].permit >= POOL
                || __atomic_exchange_n(&owner[held[k].permit], held[k].fence, __ATOMIC_ACQ_REL) != 0)
                __atomic_fetch_add(&at.odd, 1, __ATOMIC_RELAXED);
        for (unsigned k = 0; k < got; k++) {
            bool is_mine = __atomic_exchange_n(&owner[held[k].permit], 0, __ATOMIC_ACQ_REL) == held[k].fence;
            if (!release(keys[k], &held[k], 0) || !is_mine)
                __atomic_fetch_add(&at.odd, 1, __ATOMIC_RELAXED);
            if (release(keys[k], &held[k], 0)) /* late: whoever has the place keeps it */
                __atomic_fetch_add(&at.odd, 1, __ATOMIC_RELAXED);
        }
        if (i % 64 == 0)
            store_sweep(at.kit.store, 0, 4);
    }
}

static void a_small_pool_gives_no_entry_twice(void **state)
{
    (void)state;
    struct crew crew;
    open_permits(100, POOL, 2, S);
    memset(owner, 0, sizeof owner);
    crew_open(&crew, 8, own_for_a_moment);
    crew_round(&crew);
    crew_close(&crew);
    ends_with_nothing_held();
}

/* ---- With rates beside them -------------------------------------------------------------------------------------------- */

#define LIMITS 5

static struct {
    struct weir *weir;
    weir_limit_id limits[LIMITS];
    uint64_t round, seed, passed, odd;
    uint64_t charged[LIMITS];
    weir_ns now;
    struct weir_permit permits[64 * 8];
    uint64_t permit_count;
} all;

static const struct weir_limit five[LIMITS] = {
    { .name = "permits", .algorithm = WEIR_CONCURRENCY, .at_most = 20, .hold = WEIR_HOUR },
    { .name = "log", .algorithm = WEIR_SLIDING_LOG, .rate = { 20, WEIR_MINUTE } },
    { .name = "window", .algorithm = WEIR_FIXED_WINDOW, .rate = { 20, WEIR_MINUTE } },
    { .name = "bucket", .rate = { 0, WEIR_MINUTE }, .burst = 20 },
    { .name = "more", .algorithm = WEIR_CONCURRENCY, .at_most = 20, .hold = WEIR_HOUR },
};

static void open_five(uint64_t most)
{
    assert_int_equal(weir_new(&all.weir, &(struct weir_options){ .keys = 40, .permits = 1000 }), 0);
    for (unsigned i = 0; i < LIMITS; i++) {
        struct weir_limit limit = five[i];
        limit.when_full = WEIR_FULL_CLOSED;
        limit.at_most = limit.at_most > 0 ? most : 0;
        limit.burst = limit.burst > 0 ? most : 0;
        limit.rate.count = limit.rate.count > 0 ? most : 0;
        assert_int_equal(weir_limit_add(all.weir, &limit, &all.limits[i]), 0);
    }
    all.odd = 0;
}

static bool ask_all(const struct weir_ask *asks, unsigned count)
{
    struct weir_decision decision;
    struct weir_permit permit;
    do {
        if (weir_acquire(all.weir, asks, count, all.now, NULL, &decision, &permit) != 0)
            abort();
    } while (decision.reason == WEIR_REASON_CONTENDED);
    if (decision.outcome != WEIR_ALLOW && decision.outcome != WEIR_DENY)
        __atomic_fetch_add(&all.odd, 1, __ATOMIC_RELAXED);
    if (permit.len > 0)
        all.permits[__atomic_fetch_add(&all.permit_count, 1, __ATOMIC_RELAXED)] = permit;
    return decision.outcome == WEIR_ALLOW;
}

/* What is held goes back, and the bucket, which never refills and so never dies, is forgotten. */
static void end_round(void)
{
    assert_int_equal(weir_reset(all.weir, all.limits[3], &all.round, sizeof all.round), 0);
    for (uint64_t i = 0; i < all.permit_count; i++) {
        bool was_held;
        assert_int_equal(weir_release(all.weir, all.permits[i].bytes, all.permits[i].len, all.now, &was_held),
                         0);
        assert_true(was_held);
    }
    all.permit_count = 0;
}

static void want_in_any_order(unsigned member)
{
    struct weir_ask asks[LIMITS];
    struct random random = { all.round * 64 + member };
    unsigned count = 2 + (unsigned)random_below(&random, LIMITS - 1),
             first = (unsigned)random_below(&random, LIMITS);
    for (unsigned i = 0; i < count; i++) { /* all of them have the first permits among theirs */
        unsigned which = (first + i) % LIMITS;
        asks[i] = (struct weir_ask){ .limit = all.limits[i == 0       ? 0
                                                         : which == 0 ? first
                                                                      : which],
                                     .key = &all.round,
                                     .key_len = sizeof all.round,
                                     .cost = 1 };
    }
    if (first != 0 && ask_all(asks, count))
        __atomic_fetch_add(&all.passed, 1, __ATOMIC_RELAXED);
    else if (first == 0 && ask_all(asks, 1))
        __atomic_fetch_add(&all.passed, 1, __ATOMIC_RELAXED);
}

/* One is left in each of several limits, and everybody wants the same permit and some of the others: one passes. */
static void P27_of_conflicting_requests_one_passes(void **state)
{
    (void)state;
    struct crew crew;
    open_five(1);
    crew_open(&crew, 16, want_in_any_order);
    for (all.round = 0; all.round < 2000 / SCALE; all.round++) {
        all.now = (all.round + 1) * 5 * WEIR_MINUTE;
        all.passed = 0;
        crew_round(&crew);
        assert_int_equal(all.passed, 1);
        end_round();
    }
    crew_close(&crew);
    assert_int_equal(all.odd, 0);
    weir_free(all.weir);
}

static void want_some(unsigned member)
{
    struct random random = { all.seed * 64 + member };
    for (unsigned n = 0; n < 8; n++) {
        struct weir_ask asks[LIMITS];
        unsigned which = 1 + (unsigned)random_below(&random, (1 << LIMITS) - 1), count = 0;
        uint64_t cost[LIMITS] = { 0 };
        for (unsigned i = 0; i < LIMITS; i++) {
            if ((which >> i & 1) == 0)
                continue;
            cost[i] = 1 + random_below(&random, 3);
            asks[count++] = (struct weir_ask){
                .limit = all.limits[i], .key = &all.round, .key_len = sizeof all.round, .cost = cost[i]
            };
        }
        if (!ask_all(asks, count))
            continue;
        for (unsigned i = 0; i < LIMITS; i++)
            __atomic_fetch_add(&all.charged[i], cost[i], __ATOMIC_RELAXED);
    }
}

/* Nothing refills here, so what is left is exactly what the admitted requests did not take. */
static void P27_refusals_leave_nothing_behind(void **state)
{
    (void)state;
    struct crew crew;
    open_five(20);
    crew_open(&crew, 8, want_some);
    for (all.round = 0; all.round < 2000 / SCALE; all.round++) {
        all.now = (all.round + 1) * 5 * WEIR_MINUTE;
        all.seed = all.round;
        memset(all.charged, 0, sizeof all.charged);
        crew_round(&crew);
        for (unsigned i = 0; i < LIMITS; i++) {
            struct weir_decision decision;
            int code = weir_peek(all.weir, all.limits[i], &all.round, sizeof all.round, 0, all.now, &decision);
            assert_int_equal(code, 0);
            assert_true(all.charged[i] <= 20);
            expect_row(decision.remaining == 20 - all.charged[i], five[i].name);
        }
        end_round();
        struct weir_stats stats;
        weir_stats(all.weir, all.now, &stats);
        assert_int_equal(stats.permits_free, 1000);
    }
    crew_close(&crew);
    assert_int_equal(all.odd, 0);
    weir_free(all.weir);
}

/* ---- While limits change ------------------------------------------------------------------------------------------------- */

static bool is_over;

static void hold_through_changes(unsigned member)
{
    struct random random = { member };
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
        struct weir_ask ask = { .limit = 0, .key = "k", .key_len = 1, .cost = 1 + random_below(&random, 2) };
        struct weir_decision decision;
        struct weir_permit permit;
        bool was_held = true;
        if (weir_acquire(all.weir, &ask, 1, all.now, NULL, &decision, &permit) != 0)
            abort();
        if (permit.len == 0)
            continue;
        uint64_t held = __atomic_add_fetch(&gauge.held, ask.cost, __ATOMIC_ACQ_REL);
        if (held > 10)
            __atomic_fetch_add(&all.odd, 1, __ATOMIC_RELAXED);
        __atomic_fetch_sub(&gauge.held, ask.cost, __ATOMIC_ACQ_REL);
        if (weir_release(all.weir, permit.bytes, permit.len, all.now, &was_held) != 0 || !was_held)
            __atomic_fetch_add(&all.odd, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&all.passed, 1, __ATOMIC_RELAXED);
    }
}

static void *work_through_changes(void *crew)
{
    crew_round(crew);
    return NULL;
}

static void wait_for_more(void)
{
    uint64_t seen = __atomic_load_n(&all.passed, __ATOMIC_RELAXED);
    while (__atomic_load_n(&all.passed, __ATOMIC_RELAXED) < seen + 5000 / SCALE)
        (void)sched_yield();
}

static void change_while_held(uint64_t at_most)
{
    struct crew crew;
    pthread_t driver;
    struct weir_limit limit = { .name = "l",
                                .algorithm = WEIR_CONCURRENCY,
                                .at_most = 13 - at_most,
                                .hold = S,
                                .when_full = WEIR_FULL_CLOSED };
    weir_limit_id id;
    assert_int_equal(weir_new(&all.weir, &(struct weir_options){ .keys = 40, .permits = 100 }), 0);
    assert_int_equal(weir_limit_add(all.weir, &limit, &id), 0);
    all.now = 0;
    all.odd = all.passed = gauge.held = 0;
    is_over = false;
    crew_open(&crew, 4, hold_through_changes);
    assert_int_equal(pthread_create(&driver, NULL, work_through_changes, &crew), 0);
    struct weir_change *change;
    wait_for_more();
    limit.at_most = at_most;
    assert_int_equal(weir_change_new(&change, all.weir), 0);
    assert_int_equal(weir_change_limit(change, &limit, &id), 0);
    assert_int_equal(weir_change_commit(change, 0, NULL, NULL), 0);
    wait_for_more();
    __atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
    pthread_join(driver, NULL);
    crew_close(&crew);
    weir_quiesce(all.weir, 0);
    struct weir_stats stats;
    weir_stats(all.weir, 0, &stats);
    assert_int_equal(stats.permits_free, 100);
    assert_int_equal(all.odd, 0);
    weir_free(all.weir);
}

/* From 10 to 3 and from 3 to 10: never more than 10, no permit is lost, and in the end none is held. */
static void changes_lose_no_permit(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++)
        change_while_held(i % 2 == 0 ? 3 : 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B25_a_of_many_that_want_the_last_one_gets_it),
        cmocka_unit_test(B25_b_never_more_are_held_and_none_in_the_end),
        cmocka_unit_test(B25_c_each_key_of_a_crowd_gets_exactly_four),
        cmocka_unit_test(of_two_that_want_both_one_gets_both),
        cmocka_unit_test(P28_no_instant_holds_more_than_at_most),
        cmocka_unit_test(a_small_pool_gives_no_entry_twice),
        cmocka_unit_test(P27_of_conflicting_requests_one_passes),
        cmocka_unit_test(P27_refusals_leave_nothing_behind),
        cmocka_unit_test(changes_lose_no_permit),
    };
    return cmocka_run_group_tests_name("threads/permit", tests, NULL, NULL);
}
