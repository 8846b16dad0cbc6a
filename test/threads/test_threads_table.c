// SPDX-License-Identifier: Apache-2.0
/*
 * LABELS: threads
 *
 * Real threads on a table of sixteen cells, so that keys collide, insert at once and are reclaimed under each
 * other (P21, P22, P24, G1). Run again under the thread sanitizer.
 */
#include "store/kit.h"
#include "support/random.h"
#include "threads/crew.h"
#include "threads/history.h"

#if CELL_SANITIZED
#define SCALE 4
#else
#define SCALE 1
#endif

/* ---- Frozen time grants the burst exactly --------------------------------------------------------------- */

static struct {
    struct kit kit;
    const struct shape *shape;
    weir_ns now;
    uint64_t keys[3];
    unsigned each;
    uint64_t allowed[3], odd; /* odd: neither allowed nor denied */
} burst;

static void take_burst(unsigned member)
{
    for (unsigned i = 0; i < burst.each; i++) {
        unsigned key = (member + i) % 3;
        struct store_answer answer;
        store_take(burst.kit.store, burst.shape, burst.keys[key], burst.now, 1, &answer);
        if (answer.outcome == WEIR_ALLOW && answer.policy == WEIR_POLICY_NONE)
            __atomic_fetch_add(&burst.allowed[key], 1, __ATOMIC_RELAXED);
        else if (answer.outcome != WEIR_DENY)
            __atomic_fetch_add(&burst.odd, 1, __ATOMIC_RELAXED);
    }
}

/* Three new keys each round, inserted by everybody at once into cells of the keys before. */
static void frozen_time_grants_the_burst_exactly(void **state)
{
    (void)state;
    static const struct weir_limit limits[] = {
        { .name = "bucket", .rate = { 10, S }, .burst = 10 },
        { .name = "bucket in binary mode", .rate = { 17, 1000000007 }, .burst = 9 },
        { .name = "window", .algorithm = WEIR_FIXED_WINDOW, .rate = { 7, S } },
        { .name = "first",
          .algorithm = WEIR_FIXED_WINDOW,
          .align = WEIR_ALIGN_FIRST_REQUEST,
          .rate = { 7, S } },
        { .name = "sliding", .algorithm = WEIR_SLIDING_WINDOW, .rate = { 8, S } },
        { .name = "one", .rate = { 1, S }, .burst = 1 },
    };
    static const unsigned crews[] = { 2, 3, 8, 16 };
    for (size_t c = 0; c < COUNT_OF(crews); c++) {
        for (size_t i = 0; i < COUNT_OF(limits); i++) {
            struct crew crew;
            kit_open(&burst.kit, 9, 0);
            struct weir_limit limit = limits[i];
            limit.when_full = WEIR_FULL_CLOSED;
            burst.shape = kit_shape(&burst.kit, limit);
            burst.each = 36 / crews[c] + 12;
            burst.odd = 0;
            crew_open(&crew, crews[c], take_burst);
            for (unsigned round = 0; round < 200 / SCALE; round++) {
                burst.now = (1 + round) * 5 * S; /* all that was before is dead with grace */
                for (unsigned key = 0; key < 3; key++) {
                    burst.keys[key] = hash_at(&burst.kit, key & 1, 1 + 3 * round + key);
                    burst.allowed[key] = 0;
                }
                crew_round(&crew);
                for (unsigned key = 0; key < 3; key++) {
                    expect_row(cells_of(&burst.kit, 1 + 3 * round + key) == 1, limits[i].name);
                    /*
                     * A binary bucket is anchored up to a tick late: one token of a full burst may be missing.
                     */
                    expect_row(
                        burst.allowed[key] == burst.shape->capacity
                            || (limits[i].rate.count == 17 && burst.allowed[key] + 1 == burst.shape->capacity),
                        limits[i].name);
                }
            }
            crew_close(&crew);
            expect_row(burst.odd == 0, limits[i].name);
            expect_row(kit_stats(&burst.kit, burst.now).reclaims > 0, limits[i].name);
            kit_close(&burst.kit);
        }
    }
}

/* ---- Moving time: never above the bound ----------------------------------------------------------------- */

#define BOUND_KEYS 40
#define BOUND_LOG 60000

struct grant {
    unsigned key;
    weir_ns at;
    uint64_t cost;
};

static struct {
    struct kit kit;
    const struct shape *shape;
    uint64_t burst;
    weir_ns clock;
    unsigned each;
    struct grant *grants;
    size_t grant_count;
} bound;

static void take_moving(unsigned member)
{
    struct random random = { member * 7919 + 1 };
    for (unsigned i = 0; i < bound.each; i++) {
        unsigned key = (unsigned)random_below(&random, BOUND_KEYS);
        uint64_t cost = 1 + random_below(&random, bound.burst);
        weir_ns now =
            __atomic_fetch_add(&bound.clock, random_below(&random, 64) == 0 ? S : S / 64, __ATOMIC_RELAXED);
        now -= random_below(&random, 4) == 0 ? random_below(&random, 10 * S) : 0; /* a stale reading */
        struct store_answer answer;
        store_take(bound.kit.store, bound.shape, hash_at(&bound.kit, key & 1, 1 + key), now, cost, &answer);
        if (answer.outcome != WEIR_ALLOW)
            continue;
        size_t at = __atomic_fetch_add(&bound.grant_count, 1, __ATOMIC_RELAXED);
        if (at < BOUND_LOG)
            bound.grants[at] = (struct grant){ key, answer.at, cost };
    }
}

static int by_key_and_stamp(const void *x, const void *y)
{
    const struct grant *a = x, *b = y;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/*
 * For every two stamps of a key: admitted <= burst + seconds between. Over sorted grants, with P the sum so far
 * and T the stamp: the largest (P_j - T_j) - min over i <= j of (P_before_i - T_i) is at most the burst.
 */
static void expect_bound(const struct grant *grants, size_t count, uint64_t burst_tokens)
{
    int64_t sum = 0, least = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_first = i == 0 || grants[i].key != grants[i - 1].key;
        if (is_first)
            sum = 0;
        int64_t before = sum * (int64_t)S - (int64_t)grants[i].at;
        if (is_first || before < least)
            least = before;
        sum += (int64_t)grants[i].cost;
        assert_true(sum * (int64_t)S - (int64_t)grants[i].at - least <= (int64_t)(burst_tokens * S));
    }
}

static void moving_time_never_grants_more_than_the_bound(void **state)
{
    (void)state;
    static const unsigned crews[] = { 2, 5, 16 };
    bound.grants = calloc(BOUND_LOG, sizeof *bound.grants);
    for (size_t c = 0; c < COUNT_OF(crews); c++) {
        for (uint64_t most = 1; most <= 4; most += 3) {
            struct crew crew;
            kit_open(&bound.kit, 9, 0);
            bound.burst = most;
            bound.shape = kit_shape(
                &bound.kit,
                (struct weir_limit){ .rate = { 1, S }, .burst = most, .when_full = WEIR_FULL_CLOSED });
            bound.clock = 100 * S;
            bound.each = 160000 / SCALE / crews[c];
            bound.grant_count = 0;
            crew_open(&crew, crews[c], take_moving);
            crew_round(&crew);
            crew_close(&crew);
            size_t count = bound.grant_count < BOUND_LOG ? bound.grant_count : BOUND_LOG;
            qsort(bound.grants, count, sizeof *bound.grants, by_key_and_stamp);
            expect_bound(bound.grants, count, most);
            struct weir_stats stats = kit_stats(&bound.kit, bound.clock);
            print_message("%u threads, burst %u: %zu grants, %llu insertions, %llu reclaims, %llu contended\n",
                          crews[c], (unsigned)most, count, (unsigned long long)stats.placements,
                          (unsigned long long)stats.reclaims, (unsigned long long)stats.contended);
            assert_true(stats.reclaims > 1000 / SCALE);
            kit_close(&bound.kit);
        }
    }
    free(bound.grants);
}

/* ---- Short histories are linearizable ------------------------------------------------------------------- */

#define LIN_THREADS 4
#define LIN_OPS 3
#define LIN_KEYS 2

static struct {
    struct kit kit;
    const struct shape *shapes[4]; /* buckets of burst 1 and 2, then logs */
    struct model model;
    const struct shape *shape;
    struct op ops[LIN_THREADS * LIN_OPS];
    weir_ns now;
    uint64_t round, order;
} lin;

static void take_few(unsigned member)
{
    struct random random = { lin.round * LIN_THREADS + member };
    for (unsigned i = 0; i < LIN_OPS; i++) {
        struct op *op = &lin.ops[member * LIN_OPS + i];
        op->kind = random_below(&random, 6) == 0 ? OP_PEEK : OP_TAKE;
        op->key = (unsigned)random_below(&random, LIN_KEYS);
        op->cost = 1 + random_below(&random, lin.model.burst);
        op->stamp = lin.now + random_below(&random, 3) * S / 2 - random_below(&random, 3) * S;
        uint64_t hash = hash_at(&lin.kit, op->key, 1 + op->key);
        op->called = __atomic_fetch_add(&lin.order, 1, __ATOMIC_SEQ_CST);
        (op->kind == OP_PEEK ? store_peek : store_take)(lin.kit.store, lin.shape, hash, op->stamp, op->cost,
                                                        &op->answer);
        op->returned = __atomic_fetch_add(&lin.order, 1, __ATOMIC_SEQ_CST);
    }
}

static void short_histories_are_linearizable(void **state)
{
    (void)state;
    struct crew crew;
    kit_open(&lin.kit, 9, 128);
    for (unsigned i = 0; i < 2; i++) {
        lin.shapes[i] = kit_shape(
            &lin.kit, (struct weir_limit){ .rate = { 1, S }, .burst = i + 1, .when_full = WEIR_FULL_CLOSED });
        lin.shapes[2 + i] = kit_shape(&lin.kit, (struct weir_limit){ .algorithm = WEIR_SLIDING_LOG,
                                                                     .rate = { i + 1, S },
                                                                     .when_full = WEIR_FULL_CLOSED });
    }
    unsigned decided = 0, undecided = 0;
    crew_open(&crew, LIN_THREADS, take_few);
    for (lin.round = 0; lin.round < 20000 / SCALE; lin.round++) {
        lin.now =
            (10 + 10 * lin.round) * S; /* the round before is whole again by its floor: a key starts afresh */
        lin.shape = lin.shapes[lin.round % 4];
        lin.model = (struct model){ is_log(lin.shape), lin.shape->capacity };
        /* The table is emptied now and then, so that the keys of one shape do not stand in the other's way. */
        memset(lin.kit.store->groups, 0, sizeof(struct group) << lin.kit.store->group_bits);
        if (lin.round % 4 >= 2 || lin.round % 4 == 0) {
            arena_deinit(&lin.kit.store->arena, &lin.kit.allocator);
            assert_int_equal(arena_init(&lin.kit.store->arena, 128, &lin.kit.allocator), 0);
        }
        crew_round(&crew);
        for (unsigned key = 0; key < LIN_KEYS; key++) {
            const struct op *ops[LIN_THREADS * LIN_OPS];
            unsigned count = 0;
            for (unsigned i = 0; i < COUNT_OF(lin.ops); i++) {
                bool is_decided =
                    lin.ops[i].answer.outcome == WEIR_ALLOW || lin.ops[i].answer.outcome == WEIR_DENY;
                undecided += !is_decided;
                if (is_decided && lin.ops[i].key == key)
                    ops[count++] = &lin.ops[i];
            }
            struct truth start = { 0 };
            decided += count;
            if (!is_linearizable(&lin.model, ops, count, 0, &start))
                fail_msg("round %llu, key %u: no order explains the answers", (unsigned long long)lin.round,
                         key);
        }
    }
    crew_close(&crew);
    print_message("%u decisions explained, %u undecided\n", decided, undecided);
    assert_true(decided > undecided); /* a log whose holder is not running is undecided */
    kit_close(&lin.kit);
}

/* ---- Everything at once: for the thread sanitizer ------------------------------------------------------- */

static struct {
    struct kit kit;
    const struct shape *shapes[KIT_SHAPES];
    weir_ns clock;
} mixed;

static void do_anything(unsigned member)
{
    struct random random = { member + 1 };
    for (unsigned i = 0; i < 20000 / SCALE; i++) {
        weir_ns now = __atomic_fetch_add(&mixed.clock, random_below(&random, S / 4), __ATOMIC_RELAXED);
        const struct shape *shape = mixed.shapes[random_below(&random, mixed.kit.shape_count)];
        uint64_t tag = 1 + random_below(&random, 12) + 16 * shape->number;
        uint64_t hash = hash_at(&mixed.kit, tag & 1, tag), cost = random_below(&random, 4);
        struct store_answer answer;
        struct weir_stats stats;
        struct settled settled;
        uint32_t nonce;
        switch (random_below(&random, 64)) {
        case 0:
            store_sweep(mixed.kit.store, now, 1);
            break;
        case 1:
            store_stats(mixed.kit.store, now, &stats);
            break;
        case 2:
        case 3:
            store_peek(mixed.kit.store, shape, hash, now, cost, &answer);
            break;
        case 4:
            store_charge(mixed.kit.store, shape, hash, now, cost, &settled);
            break;
        case 5:
            store_refund(mixed.kit.store, shape, hash, now, now, cost, &settled);
            break;
        case 6:
            store_reset(mixed.kit.store, shape, hash);
            break;
        case 7:
        case 8:
            if (store_recall_begin(mixed.kit.store, ~hash, now, now + S, &nonce) == STORE_NEW)
                store_recall_end(mixed.kit.store, ~hash, nonce, now, now + cost * S);
            break;
        default:
            store_take(mixed.kit.store, shape, hash, now, cost, &answer);
            if (answer.outcome == WEIR_ALLOW && random_below(&random, 4) == 0)
                store_undo(mixed.kit.store, shape, hash, &answer, now, cost);
        }
    }
}

static void anything_at_once_leaves_a_whole_table(void **state)
{
    (void)state;
    struct crew crew;
    kit_open(&mixed.kit, 18, 512);
    static const struct weir_limit limits[] = {
        { .rate = { 3, S }, .burst = 3 },
        { .rate = { 3, S }, .burst = 3, .when_full = WEIR_FULL_EVICT_LEAST },
        { .algorithm = WEIR_FIXED_WINDOW, .rate = { 3, S }, .when_full = WEIR_FULL_OPEN },
        { .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_CALENDAR, .rate = { 3, 0 } },
        { .algorithm = WEIR_SLIDING_WINDOW, .rate = { 3, S }, .when_full = WEIR_FULL_CLOSED },
        { .algorithm = WEIR_SLIDING_LOG, .rate = { 3, S } },
        { .algorithm = WEIR_SLIDING_LOG, .rate = { 20, S }, .when_full = WEIR_FULL_EVICT_LEAST },
        { .rate = { 3, S }, .burst = 3, .debt = 9, .refused = WEIR_REFUSAL_CHARGED },
        { .algorithm = WEIR_SLIDING_LOG, .rate = { 3, S }, .refused = WEIR_REFUSAL_CHARGED },
    };
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        mixed.shapes[i] = kit_shape(&mixed.kit, limits[i]);
    uint64_t rings = kit_stats(&mixed.kit, 0).log_stamps_free;
    mixed.clock = 0;
    crew_open(&crew, 8, do_anything);
    crew_round(&crew);
    crew_close(&crew);

    /*
     * When all is over and dead: no cell and no ring is lost, but for the calendar's keys, which live for the
     * day.
     */
    weir_ns later = mixed.clock + WEIR_DAY * 2;
    store_sweep(mixed.kit.store, later, 64);
    struct weir_stats stats = kit_stats(&mixed.kit, later);
    print_message("%llu insertions, %llu reclaims, %llu evictions, %llu overflows, %llu contended\n",
                  (unsigned long long)stats.placements, (unsigned long long)stats.reclaims,
                  (unsigned long long)stats.evictions, (unsigned long long)stats.overflows,
                  (unsigned long long)stats.contended);
    assert_int_equal(stats.cells_live + stats.cells_dead + stats.cells_tentative, 0);
    assert_int_equal(stats.log_stamps_free, rings);
    assert_true(stats.reclaims > 0 && stats.evictions > 0 && stats.overflows > 0);
    kit_close(&mixed.kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_time_grants_the_burst_exactly),
        cmocka_unit_test(moving_time_never_grants_more_than_the_bound),
        cmocka_unit_test(short_histories_are_linearizable),
        cmocka_unit_test(anything_at_once_leaves_a_whole_table),
    };
    return cmocka_run_group_tests_name("threads/table", tests, NULL, NULL);
}
