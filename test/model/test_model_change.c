// SPDX-License-Identifier: Apache-2.0
/*
 * A whole limiter whose limit is changed while it is used: takes, reservations and their ends, refunds, changes that come
 * before the last one was finished or after, background sweeps, keys with a size of their own. Each key has a ledger, and
 * no interval of any key's book holds more than P11, P13 and P14 allow.
 */
#include "support/unit.h"

#include "model/ledger.h"
#include "support/random.h"

#define SCHEDULES 3000
#define STEPS 160
#define KEYS 4
#define OPEN 6

static const struct size sizes[] = {
    { { 5, WEIR_SECOND }, 20, 0 },     { { 10, WEIR_SECOND }, 20, 30 },   { { 10, WEIR_MINUTE }, 10, 40 },
    { { 1000, WEIR_SECOND }, 10, 3 },  { { 10, 24 * WEIR_HOUR }, 10, 0 }, { { 999, WEIR_SECOND }, 12, 8 },
    { { 1000003, WEIR_HOUR }, 40, 4 }, { { 1, WEIR_SECOND }, 1, 1 },      { { 6, WEIR_MINUTE }, 8, 100 },
};

struct held {
    struct weir_reservation ticket;
    unsigned key;
    uint64_t cost;
};

struct world {
    struct random random;
    struct weir *weir;
    struct ledger ledgers[KEYS];
    struct book books[KEYS];
    struct held held[OPEN];
    unsigned held_count;
    weir_ns newest, since;
    i128 slack;
    bool is_pending; /* a change is not finished */
};

static const char *const keys[KEYS] = { "a", "b", "c", "d" };

static const struct size *draw_size(struct world *world)
{
    return &sizes[random_below(&world->random, COUNT_OF(sizes))];
}

static struct weir_limit limit_of(const struct size *size)
{
    return (struct weir_limit){ .name = "l", .rate = size->rate, .burst = size->burst, .debt = size->debt };
}

static weir_ns draw_stamp(struct world *world, bool may_be_stale)
{
    static const weir_ns steps[] = { 0, 0, WEIR_MILLISECOND, WEIR_SECOND, 10 * WEIR_SECOND, WEIR_HOUR };
    if (may_be_stale && random_below(&world->random, 8) == 0) {
        weir_ns back = random_below(&world->random, WEIR_SECOND / 2);
        return world->newest > back ? world->newest - back : 0;
    }
    world->newest += random_below(&world->random, steps[random_below(&world->random, COUNT_OF(steps))] + 1);
    return world->newest;
}

static void check_outcome(const struct world *world, unsigned key, weir_ns at, uint64_t cost,
                          const struct weir_decision *decision)
{
    const struct ledger *ledger = &world->ledgers[key];
    i128 room = ledger_room(ledger, at, cost);
    assert_true(decision->capacity == ledger->size->burst);
    if (cost > ledger->size->burst)
        assert_int_equal(decision->outcome, WEIR_NEVER);
    else if (room < -world->slack)
        assert_int_equal(decision->outcome, WEIR_DENY);
    else if (room >= world->slack)
        assert_int_equal(decision->outcome, WEIR_ALLOW);
}

/* Take, or reserve; a stamp that is older than the change is decided at the change. */
static void take(struct world *world)
{
    unsigned key = (unsigned)random_below(&world->random, KEYS);
    bool reserves = world->held_count < OPEN && random_below(&world->random, 4) == 0;
    weir_ns drawn = draw_stamp(world, !reserves), at = drawn > world->since ? drawn : world->since;
    uint64_t cost = 1 + random_below(&world->random, random_below(&world->random, 3) == 0 ? 12 : 3);
    struct weir_ask ask = { .limit = 0, .key = keys[key], .key_len = 1, .cost = cost };
    struct weir_decision decision;
    struct held *held = &world->held[world->held_count];
    if (reserves)
        assert_int_equal(
            weir_reserve(world->weir, &ask, 1, drawn, WEIR_HOUR * 1000, NULL, &decision, &held->ticket), 0);
    else
        assert_int_equal(weir_admit(world->weir, &ask, 1, drawn, NULL, &decision), 0);
    check_outcome(world, key, at, cost, &decision);
    if (decision.outcome != WEIR_ALLOW)
        return;
    ledger_raise(&world->ledgers[key], at, cost, UINT64_MAX / 2);
    book_add(&world->books[key], at, cost, 0, 0);
    if (reserves) {
        held->key = key;
        held->cost = cost;
        world->held_count++;
    }
}

static void end_reservation(struct world *world)
{
    struct weir_settlement settlement;
    weir_ns now = draw_stamp(world, false);
    if (world->held_count == 0)
        return;
    struct held held = world->held[--world->held_count];
    struct ledger *ledger = &world->ledgers[held.key];
    uint64_t cost = random_below(&world->random, 20);
    bool is_cancel = random_below(&world->random, 3) == 0;
    cost = is_cancel ? 0 : cost;
    int code = is_cancel ? weir_cancel(world->weir, held.ticket.bytes, held.ticket.len, now, &settlement)
                         : weir_settle(world->weir, held.ticket.bytes, held.ticket.len, cost, now, &settlement);
    assert_int_equal(code, 0);
    assert_false(settlement.is_repeated);
    uint64_t more = cost > held.cost ? cost - held.cost : 0, back = cost < held.cost ? held.cost - cost : 0;
    assert_true(settlement.charged + settlement.dropped == more);
    assert_true(settlement.returned <= back);
    if (more > 0)
        ledger_raise(ledger, now, more, ledger->size->burst + ledger->size->debt);
    ledger_give_back(ledger, now, back);
    book_add(&world->books[held.key], now, 0, settlement.charged,
             settlement.returned + (settlement.returned < back ? 1 : 0));
    assert_int_equal(weir_settle(world->weir, held.ticket.bytes, held.ticket.len, 1000, now, &settlement), 0);
    assert_true(settlement.is_repeated && settlement.charged == 0 && settlement.returned == 0);
}

static void finish(struct world *world)
{
    weir_quiesce(world->weir, world->newest);
    world->is_pending = false;
}

/* Put another size in force; now and then the second key has its own. */
static void change(struct world *world)
{
    struct weir_change *made;
    weir_limit_id id;
    enum weir_change_kind kind;
    weir_ns at = draw_stamp(world, false);
    const struct size *size = draw_size(world),
                      *own = random_below(&world->random, 2) == 0 ? draw_size(world) : size;
    struct weir_limit limit = limit_of(size);
    if (world->is_pending) {
        assert_int_equal(weir_change_new(&made, world->weir), WEIR_ERR_BUSY);
        finish(world);
    }
    assert_int_equal(weir_change_new(&made, world->weir), 0);
    assert_int_equal(weir_change_limit(made, &limit, &id), 0);
    if (own != size) {
        const struct weir_size other = { .rate = own->rate, .burst = own->burst, .debt = own->debt };
        assert_int_equal(weir_change_override(made, id, keys[1], 1, &other), 0);
    }
    assert_int_equal(weir_change_commit(made, at, NULL, &kind), 0);
    assert_true(kind == WEIR_CHANGE_KEPT || kind == WEIR_CHANGE_RESIZED);
    world->is_pending = true;
    if (kind == WEIR_CHANGE_KEPT)
        return;
    world->since = at;
    for (unsigned key = 0; key < KEYS; key++) {
        const struct size *next = key == 1 ? own : size;
        ledger_change(&world->ledgers[key], next, at);
        book_change(&world->books[key], next, at);
    }
    world->slack += 4 * (LEDGER_TOKEN / 1000000);
}

static void begin(struct world *world, uint64_t seed)
{
    static const uint8_t secret[16] = { 4 };
    weir_limit_id id;
    memset(world, 0, sizeof *world);
    world->random.state = seed;
    const struct size *size = draw_size(world);
    struct weir_limit limit = limit_of(size);
    assert_int_equal(weir_new(&world->weir, &(struct weir_options){ .keys = 64, .secret = secret }), 0);
    assert_int_equal(weir_limit_add(world->weir, &limit, &id), 0);
    for (unsigned key = 0; key < KEYS; key++) {
        world->ledgers[key].size = size;
        book_init(&world->books[key], size);
    }
    world->slack = 4 * (LEDGER_TOKEN / 1000000); /* ticks are at least so fine here */
}

static void changes_grant_no_fresh_burst(void **state)
{
    (void)state;
    static struct world world;
    uint64_t seed = random_seed(1401);
    for (unsigned schedule = 0; schedule < SCHEDULES; schedule++) {
        begin(&world, seed + schedule);
        for (unsigned i = 0; i < STEPS; i++) {
            uint64_t kind = random_below(&world.random, 24);
            if (kind < 16)
                take(&world);
            else if (kind < 19)
                end_reservation(&world);
            else if (kind < 21)
                change(&world);
            else if (kind < 22)
                weir_sweep(world.weir, world.newest, 2);
            else if (kind < 23)
                finish(&world);
            else
                world.newest += WEIR_MINUTE;
        }
        for (unsigned key = 0; key < KEYS; key++)
            book_check(&world.books[key]);
        weir_free(world.weir);
    }
}

/* 10/1m -> 1000/s -> 10/1d -> 10/1m on ten thousand live keys, all at one instant: not one token. And a year later: all. */
static void ten_thousand_keys_get_no_fresh_burst(void **state)
{
    static const struct size ratios[] = { { { 10, WEIR_MINUTE }, 10, 0 },
                                          { { 1000, WEIR_SECOND }, 10, 0 },
                                          { { 10, 24 * WEIR_HOUR }, 10, 0 },
                                          { { 10, WEIR_MINUTE }, 10, 0 } };
    struct weir *weir;
    struct weir_decision decision;
    weir_limit_id id;
    struct weir_limit limit = limit_of(&ratios[0]);
    weir_ns now = 5 * WEIR_SECOND;
    (void)state;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 20000 }), 0);
    assert_int_equal(weir_limit_add(weir, &limit, &id), 0);
    for (uint32_t key = 0; key < 10000; key++) {
        assert_int_equal(weir_check(weir, id, &key, sizeof key, 10, now, &decision), 0);
        assert_int_equal(decision.outcome, WEIR_ALLOW);
    }
    for (size_t i = 1; i < COUNT_OF(ratios); i++) {
        struct weir_change *change;
        limit = limit_of(&ratios[i]);
        assert_int_equal(weir_change_new(&change, weir), 0);
        assert_int_equal(weir_change_limit(change, &limit, &id), 0);
        assert_int_equal(weir_change_commit(change, now, NULL, NULL), 0);
        for (uint32_t key = 0; key < 10000;
             key++) { /* half of them before the sweep, with a stale stamp now and then */
            if (key == 5000)
                weir_quiesce(weir, now);
            assert_int_equal(
                weir_check(weir, id, &key, sizeof key, 1, key % 7 == 0 ? WEIR_SECOND : now, &decision), 0);
            assert_int_equal(decision.outcome, WEIR_DENY);
        }
    }
    for (uint32_t key = 0; key < 10000; key++) {
        assert_int_equal(weir_check(weir, id, &key, sizeof key, 10, now + 365 * 24 * WEIR_HOUR, &decision), 0);
        assert_int_equal(decision.outcome, WEIR_ALLOW);
    }
    weir_free(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(changes_grant_no_fresh_burst),
                                        cmocka_unit_test(ten_thousand_keys_get_no_fresh_burst) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
