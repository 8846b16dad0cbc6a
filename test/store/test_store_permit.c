// SPDX-License-Identifier: Apache-2.0
/* Permits in the store: who holds how much until when, where that is kept, and the end of both (P28). */
#include "store/kit.h"
#include "store/record.h"

#define FREE(kit) (kit_stats((kit), 0).permits_free)

static struct weir_limit permits_of(uint64_t at_most, weir_ns hold, enum weir_when_full when_full)
{
    return (struct weir_limit){
        .algorithm = WEIR_CONCURRENCY, .at_most = at_most, .hold = hold, .when_full = when_full
    };
}

static void open_permits(struct kit *kit, size_t keys, size_t permits)
{
    *kit = (struct kit){ 0 };
    assert_int_equal(kit_try_open(kit, &(struct store_options){ .keys = keys, .permits = permits }), 0);
}

static struct store_answer decide(struct kit *kit, const struct shape *shape, uint64_t hash, weir_ns now,
                                  uint64_t cost, unsigned stance)
{
    struct store_answer answer;
    memset(&answer, 0xee, sizeof answer);
    assert_true(store_decide(kit->store, shape, hash, now, cost, stance, &answer));
    return answer;
}

static struct store_answer acquire(struct kit *kit, const struct shape *shape, uint64_t hash, weir_ns now,
                                   uint64_t cost)
{
    return decide(kit, shape, hash, now, cost, STORE_ACQUIRE);
}

static struct store_permit permit_of(uint64_t hash, const struct store_answer *answer)
{
    return (struct store_permit){ hash, answer->fence, answer->permit };
}

/* ---- One key ------------------------------------------------------------------------------------------------------ */

static void a_key_holds_so_many_until_each_expires(void **state)
{
    (void)state;
    static const struct row { /* 3 at once, for 10 s */
        const char *why;
        weir_ns at;
        uint64_t cost;
        enum weir_outcome outcome;
        uint64_t remaining;
        weir_ns decided_at, retry_at, reset_at;
    } rows[] = {
        { "nothing is held", 0, 0, WEIR_ALLOW, 3, 0, 0, 0 },
        { "the first", 1 * S, 1, WEIR_ALLOW, 2, 1 * S, 1 * S, 11 * S },
        { "two at once", 2 * S, 2, WEIR_ALLOW, 0, 2 * S, 2 * S, 12 * S },
        { "one more waits for the first", 3 * S, 1, WEIR_DENY, 0, 3 * S, 11 * S, 12 * S },
        { "two more for the second", 3 * S, 2, WEIR_DENY, 0, 3 * S, 12 * S, 12 * S },
        { "a cost of 0 looks, and asks for one", 3 * S, 0, WEIR_ALLOW, 0, 3 * S, 11 * S, 12 * S },
        { "more than there are", 3 * S, 4, WEIR_NEVER, 0, 3 * S, WEIR_NO_TIME, 12 * S },
        { "one nanosecond early", 11 * S - 1, 1, WEIR_DENY, 0, 11 * S - 1, 11 * S, 12 * S },
        { "a permit ends with its last nanosecond", 11 * S, 1, WEIR_ALLOW, 0, 11 * S, 11 * S, 21 * S },
        { "an older stamp is decided at the latest", 5 * S, 1, WEIR_DENY, 0, 11 * S, 12 * S, 21 * S },
        { "two have expired", 12 * S, 2, WEIR_ALLOW, 0, 12 * S, 12 * S, 22 * S },
        { "all have", 30 * S, 0, WEIR_ALLOW, 3, 30 * S, 30 * S, 30 * S },
        { "beyond the horizon", WEIR_HORIZON + 1, 1, WEIR_REFUSED, 0, WEIR_HORIZON + 1, WEIR_NO_TIME,
          WEIR_NO_TIME },
        { "just before it", WEIR_HORIZON, 1, WEIR_ALLOW, 2, WEIR_HORIZON, WEIR_HORIZON, WEIR_NO_TIME },
    };
    struct kit kit;
    open_permits(&kit, 9, 20);
    const struct shape *shape = kit_shape(&kit, permits_of(3, 10 * S, WEIR_FULL_CLOSED));
    uint64_t fence = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        struct store_answer looked = peek(&kit, shape, hash_at(&kit, 0, 1), row->at, row->cost);
        struct store_answer answer = acquire(&kit, shape, hash_at(&kit, 0, 1), row->at, row->cost);
        bool took = answer.outcome == WEIR_ALLOW && row->cost > 0;
        expect_row(answer.outcome == row->outcome, row->why);
        expect_row(answer.report.remaining == row->remaining, row->why);
        expect_row(answer.at == row->decided_at, row->why);
        expect_row(answer.report.retry_at == row->retry_at, row->why);
        expect_row(answer.report.reset_at == row->reset_at, row->why);
        expect_row(looked.outcome == answer.outcome && looked.at == answer.at, row->why);
        expect_row(looked.report.remaining == row->remaining + (took ? row->cost : 0), row->why);
        expect_row(looked.report.retry_at == row->retry_at && looked.fence == 0, row->why);
        expect_row(took ? answer.fence > fence : answer.fence == 0, row->why);
        fence = took ? answer.fence : fence;
    }
    kit_close(&kit);
}

static void who_does_not_take_writes_nothing(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 20);
    const struct shape *shape = kit_shape(&kit, permits_of(2, 10 * S, WEIR_FULL_CLOSED));
    uint64_t known = hash_at(&kit, 0, 1), unknown = hash_at(&kit, 0, 2);
    assert_int_equal(acquire(&kit, shape, known, S, 1).outcome, WEIR_ALLOW);
    static const struct row {
        const char *why;
        weir_ns at;
        uint64_t cost;
        unsigned stance;
    } rows[] = {
        { "a look", 2 * S, 1, STORE_LOOK },
        { "a look by who could acquire", 2 * S, 1, STORE_LOOK | STORE_ACQUIRE },
        { "a check", 2 * S, 1, STORE_TAKE },
        { "a check at its turn", 2 * S, 1, STORE_TURN },
        { "cost 0", 2 * S, 0, STORE_ACQUIRE },
        { "refused", 2 * S, 2, STORE_ACQUIRE },
        { "never", 2 * S, 3, STORE_ACQUIRE },
        { "a look when all has expired", 20 * S, 1, STORE_LOOK },
        { "no time", WEIR_HORIZON + 1, 1, STORE_ACQUIRE },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct snapshot before = kit_snapshot(&kit);
        expect_row(decide(&kit, shape, known, rows[i].at, rows[i].cost, rows[i].stance).fence == 0,
                   rows[i].why);
        if ((rows[i].stance & STORE_ACQUIRE) == 0)
            expect_row(decide(&kit, shape, unknown, rows[i].at, rows[i].cost, rows[i].stance).fence == 0,
                       rows[i].why);
        expect_row(kit_is_unchanged(&kit, before), rows[i].why);
    }
    kit_close(&kit);
}

static void holders_renew_and_release(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 20);
    const struct shape *shape = kit_shape(&kit, permits_of(2, 10 * S, WEIR_FULL_CLOSED));
    uint64_t key = hash_at(&kit, 0, 1);
    struct store_answer answer = acquire(&kit, shape, key, 0, 1);
    struct store_permit a = permit_of(key, &answer);
    answer = acquire(&kit, shape, key, 1 * S, 1);
    struct store_permit b = permit_of(key, &answer);

    assert_int_equal(store_permit_renew(kit.store, shape, &a, 4 * S), 14 * S);
    answer = acquire(&kit, shape, key, 4 * S, 1);
    assert_int_equal(answer.report.retry_at, 11 * S); /* b is first now */
    assert_int_equal(answer.report.reset_at, 14 * S);
    assert_int_equal(store_permit_renew(kit.store, shape, &a, 2 * S), 14 * S); /* not for less */

    assert_true(store_permit_is_held(kit.store, shape, &b, 11 * S - 1));
    assert_false(store_permit_is_held(kit.store, shape, &b, 11 * S));
    assert_int_equal(store_permit_renew(kit.store, shape, &b, 11 * S), WEIR_NO_TIME);
    answer = acquire(&kit, shape, key, 11 * S, 1); /* has b's place now */
    struct store_permit c = permit_of(key, &answer);
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(store_permit_renew(kit.store, shape, &b, 11 * S), WEIR_NO_TIME);
    assert_false(store_permit_release(kit.store, shape, &b, 11 * S)); /* late: nobody's permit goes */
    assert_int_equal(peek(&kit, shape, key, 11 * S, 0).report.remaining, 0);

    assert_true(store_permit_release(kit.store, shape, &c, 11 * S));
    assert_int_equal(peek(&kit, shape, key, 11 * S, 0).report.remaining, 1);
    assert_false(store_permit_release(kit.store, shape, &c, 11 * S));
    assert_true(store_permit_release(kit.store, shape, &a, 12 * S));
    assert_int_equal(peek(&kit, shape, key, 12 * S, 0).report.remaining, 2);
    assert_int_equal(FREE(&kit), 20);

    /* It had expired, though nobody had noticed: it goes, and was not held. */
    answer = acquire(&kit, shape, key, 13 * S, 1);
    a = permit_of(key, &answer);
    assert_false(store_permit_release(kit.store, shape, &a, 23 * S));
    assert_int_equal(FREE(&kit), 20);
    kit_close(&kit);
}

static void a_permit_is_one_entry_of_one_key(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 20);
    const struct shape *shape = kit_shape(&kit, permits_of(2, 10 * S, WEIR_FULL_CLOSED));
    uint64_t key = hash_at(&kit, 0, 1), other = hash_at(&kit, 1, 2);
    struct store_answer answer = acquire(&kit, shape, key, 0, 1);
    const struct store_permit real = permit_of(key, &answer);
    (void)acquire(&kit, shape, other, 0, 1);
    const struct row {
        const char *why;
        struct store_permit permit;
    } rows[] = {
        { "another fence", { key, real.fence + 2, real.place } },
        { "another place", { key, real.fence, real.place + 1 } },
        { "a place that was never taken", { key, real.fence, 19 } },
        { "no place", { key, real.fence, 20 } },
        { "far from any place", { key, real.fence, UINT32_MAX } },
        { "another key", { other, real.fence, real.place } },
        { "the fence of a free entry", { key, 0, 7 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct snapshot before = kit_snapshot(&kit);
        expect_row(store_permit_renew(kit.store, shape, &rows[i].permit, S) == WEIR_NO_TIME, rows[i].why);
        expect_row(!store_permit_is_held(kit.store, shape, &rows[i].permit, S), rows[i].why);
        expect_row(!store_permit_release(kit.store, shape, &rows[i].permit, S), rows[i].why);
        expect_row(kit_is_unchanged(&kit, before), rows[i].why);
    }
    assert_true(store_permit_release(kit.store, shape, &real, S));
    kit_close(&kit);
}

/* Two hashes of one tag are one key where the table is small: what either took, it can give back. */
static void hashes_that_share_a_cell_share_their_permits(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 20); /* sixteen cells: everybody's candidates */
    const struct shape *shape = kit_shape(&kit, permits_of(2, 10 * S, WEIR_FULL_CLOSED));
    struct store_answer a = acquire(&kit, shape, hash_at(&kit, 0, 1), 0, 1);
    struct store_answer b = acquire(&kit, shape, hash_at(&kit, 1, 1), 0, 1);
    assert_int_equal(b.report.remaining, 0);
    struct store_permit first = permit_of(hash_at(&kit, 0, 1), &a), second = permit_of(hash_at(&kit, 1, 1), &b);
    assert_true(store_permit_release(kit.store, shape, &second, 1));
    assert_true(store_permit_release(kit.store, shape, &first, 1));
    kit_close(&kit);
}

/* An undo takes out the very permit, wherever it stands, and none after it is gone. */
static void an_undo_takes_back_what_it_gave(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 20);
    const struct shape *shape = kit_shape(&kit, permits_of(9, 10 * S, WEIR_FULL_CLOSED));
    uint64_t key = hash_at(&kit, 0, 1);
    struct store_answer taken[3];
    for (unsigned i = 0; i < 3; i++)
        taken[i] = acquire(&kit, shape, key, i * S, i + 1);
    store_undo(kit.store, shape, key, &taken[1], 2 * S, 2);
    assert_int_equal(peek(&kit, shape, key, 2 * S, 0).report.remaining, 9 - 1 - 3);
    assert_int_equal(FREE(&kit), 18);
    store_undo(kit.store, shape, key, &taken[1], 2 * S, 2);
    assert_int_equal(peek(&kit, shape, key, 2 * S, 0).report.remaining, 9 - 1 - 3);
    struct store_answer looked = decide(&kit, shape, key, 2 * S, 1, STORE_TAKE);
    store_undo(kit.store, shape, key, &looked, 2 * S, 1); /* gave nothing */
    assert_int_equal(peek(&kit, shape, key, 2 * S, 0).report.remaining, 9 - 1 - 3);
    store_undo(kit.store, shape, key, &taken[0], 3 * S, 1);
    store_undo(kit.store, shape, key, &taken[2], 3 * S, 3);
    assert_int_equal(peek(&kit, shape, key, 3 * S, 0).report.reset_at, 3 * S);
    kit_close(&kit);
}

/* What is settled or refunded was used up; a permit is not. A reset forgets who holds. */
static void settling_leaves_permits_alone_and_a_reset_does_not(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 20);
    const struct shape *shape = kit_shape(&kit, permits_of(2, 10 * S, WEIR_FULL_CLOSED));
    uint64_t key = hash_at(&kit, 0, 1);
    struct store_answer answer = acquire(&kit, shape, key, 0, 2);
    struct settled settled;
    struct snapshot before = kit_snapshot(&kit);
    assert_true(store_charge(kit.store, shape, key, S, 1, &settled));
    assert_true(settled.done == 0 && settled.dropped == 0);
    assert_true(store_refund(kit.store, shape, key, 0, S, 1, &settled));
    assert_true(settled.done == 0);
    assert_true(kit_is_unchanged(&kit, before));
    assert_true(store_reset(kit.store, shape, key));
    struct store_permit permit = permit_of(key, &answer);
    assert_int_equal(store_permit_renew(kit.store, shape, &permit, S), WEIR_NO_TIME);
    assert_int_equal(FREE(&kit), 20);
    assert_int_equal(cells_of(&kit, 1), 0);
    assert_int_equal(acquire(&kit, shape, key, S, 2).outcome, WEIR_ALLOW);
    kit_close(&kit);
}

/* What was held when state was lost may be in use for one hold more. */
static void a_lost_key_gives_nothing_until_all_of_before_has_expired(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 20);
    struct weir_limit limit = permits_of(2, 10 * S, WEIR_FULL_OVERFLOW);
    limit.state_lost = WEIR_LOST_EMPTY;
    const struct shape *shape = kit_shape_at(&kit, limit, (struct kit_place){ .lineage = 1, .lost_at = 5 * S });
    uint64_t key = hash_at(&kit, 0, 1);
    struct snapshot before = kit_snapshot(&kit);
    struct store_answer answer = acquire(&kit, shape, key, 6 * S, 1);
    assert_int_equal(answer.outcome, WEIR_DENY);
    assert_int_equal(answer.report.retry_at, 15 * S);
    assert_int_equal(answer.report.reset_at, 15 * S);
    assert_int_equal(answer.report.remaining, 0);
    assert_int_equal(acquire(&kit, shape, key, 6 * S, 3).outcome, WEIR_NEVER);
    assert_int_equal(peek(&kit, shape, key, 6 * S, 1).outcome, WEIR_DENY);
    assert_int_equal(acquire(&kit, shape, key, 15 * S - 1, 1).outcome, WEIR_DENY);
    assert_true(kit_is_unchanged(&kit, before));
    assert_int_equal(acquire(&kit, shape, key, 15 * S, 2).outcome, WEIR_ALLOW);
    kit_close(&kit);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------- */

static void a_limit_whose_permits_do_not_fit_is_refused(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        size_t permits;
        struct {
            uint64_t at_most;
            enum weir_when_full when_full;
            int code;
        } limits[3];
    } rows[] = {
        { "none at all", 0, { { 1, WEIR_FULL_CLOSED, WEIR_ERR_PERMIT_MEMORY } } },
        { "overflow reserves all of its own",
          8,
          { { 5, WEIR_FULL_OVERFLOW, 0 },
            { 4, WEIR_FULL_OVERFLOW, WEIR_ERR_PERMIT_MEMORY },
            { 3, WEIR_FULL_OVERFLOW, 0 } } },
        { "one must be left for a key",
          8,
          { { 8, WEIR_FULL_OVERFLOW, 0 },
            { 1, WEIR_FULL_CLOSED, WEIR_ERR_PERMIT_MEMORY },
            { 1, WEIR_FULL_EVICT_LEAST, WEIR_ERR_PERMIT_MEMORY } } },
        { "more than there are, but no overflow",
          8,
          { { 7, WEIR_FULL_OVERFLOW, 0 }, { 65535, WEIR_FULL_CLOSED, 0 }, { 9, WEIR_FULL_OPEN, 0 } } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        struct shape shapes[3];
        open_permits(&kit, 9, rows[i].permits);
        for (unsigned k = 0; k < 3 && rows[i].limits[k].at_most > 0; k++) {
            struct weir_limit limit = permits_of(rows[i].limits[k].at_most, S, rows[i].limits[k].when_full);
            assert_int_equal(shape_init(&shapes[k], &limit, 0, &kit.allocator), 0);
            shapes[k].number = (uint16_t)(k + 1);
            expect_row(store_shape_add(kit.store, &shapes[k]) == rows[i].limits[k].code, rows[i].why);
        }
        kit_close(&kit);
    }
}

static void an_exhausted_pool_is_a_full_table(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        enum weir_when_full when_full;
        enum weir_outcome outcome;
        enum weir_policy policy;
    } rows[] = {
        { "closed", WEIR_FULL_CLOSED, WEIR_REFUSED, WEIR_POLICY_CLOSED },
        { "open", WEIR_FULL_OPEN, WEIR_UNMETERED, WEIR_POLICY_OPEN },
        { "overflow has permits of its own", WEIR_FULL_OVERFLOW, WEIR_ALLOW, WEIR_POLICY_OVERFLOW },
        { "nobody's permit is evicted", WEIR_FULL_EVICT_LEAST, WEIR_REFUSED, WEIR_POLICY_CLOSED },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        open_permits(&kit, 9, 8);
        const struct shape *shape = kit_shape(&kit, permits_of(3, WEIR_MINUTE, rows[i].when_full));
        uint64_t room = FREE(&kit); /* overflow has taken three */
        expect_row(room == (rows[i].when_full == WEIR_FULL_OVERFLOW ? 5 : 8), rows[i].why);
        struct store_answer first = { 0 };
        for (uint64_t n = 0; n < room; n++) { /* two of a key, as far as they go */
            struct store_answer answer = acquire(&kit, shape, hash_at(&kit, 0, 1 + n / 2), n * MS, 1);
            expect_row(answer.outcome == WEIR_ALLOW && answer.policy == WEIR_POLICY_NONE, rows[i].why);
            first = n == 0 ? answer : first;
        }
        struct snapshot before = kit_snapshot(&kit);
        struct store_answer looked = peek(&kit, shape, hash_at(&kit, 0, 99), 10 * MS, 1);
        expect_row(looked.outcome == rows[i].outcome && looked.reason == WEIR_REASON_FULL, rows[i].why);
        expect_row(kit_is_unchanged(&kit, before), rows[i].why);
        for (unsigned tries = 0; tries < 3;
             tries++) { /* a new key; one that has a record, but no permit; new */
            uint64_t key = hash_at(&kit, 0, tries == 1 ? 1 : 99);
            struct store_answer answer = acquire(&kit, shape, key, 10 * MS, 1);
            expect_row(answer.outcome == rows[i].outcome && answer.policy == rows[i].policy
                           && answer.reason == WEIR_REASON_FULL,
                       rows[i].why);
        }
        expect_row(kit_stats(&kit, 10 * MS).cells_tentative == 0, rows[i].why);
        expect_row(kit_stats(&kit, 10 * MS).evictions == 0, rows[i].why);
        /* One that is given back is to be had at once. */
        struct store_permit permit = permit_of(hash_at(&kit, 0, 1), &first);
        expect_row(store_permit_release(kit.store, shape, &permit, 11 * MS), rows[i].why);
        struct store_answer answer = acquire(&kit, shape, hash_at(&kit, 0, 99), 12 * MS, 1);
        expect_row(answer.outcome == WEIR_ALLOW && answer.policy == WEIR_POLICY_NONE, rows[i].why);
        kit_close(&kit);
    }
}

/* Keys whose permits were all released make room at once, those whose permits expired after the grace (P24). */
static void done_records_serve_other_keys(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 100, 8); /* 32 groups */
    const struct shape *shape = kit_shape(&kit, permits_of(8, S, WEIR_FULL_CLOSED));
    for (uint64_t n = 0; n < 1000; n++) {
        uint64_t key = hash_at(&kit, n % 32, 1 + n);
        struct store_answer answer = acquire(&kit, shape, key, 0, 1);
        assert_int_equal(answer.outcome, WEIR_ALLOW);
        struct store_permit permit = permit_of(key, &answer);
        assert_true(store_permit_release(kit.store, shape, &permit, 0));
    }
    for (uint64_t round = 1; round < 20; round++) {
        weir_ns now = round * (2 * S + 1);
        for (uint64_t n = 0; n < 8; n++)
            assert_int_equal(acquire(&kit, shape, hash_at(&kit, n, 5000 + 8 * round + n), now, 1).outcome,
                             WEIR_ALLOW);
        assert_int_equal(acquire(&kit, shape, hash_at(&kit, 9, 9000), now + 2 * S - 1, 1).outcome,
                         WEIR_REFUSED); /* expired, but within the grace */
    }
    kit_close(&kit);
}

/* A stamp from before an expiry does not hold beside what had not expired then, whatever was forgotten since. */
static void an_old_stamp_is_decided_no_earlier_than_what_was_forgotten(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 20);
    const struct shape *shape = kit_shape(&kit, permits_of(1, 10 * S, WEIR_FULL_CLOSED));
    uint64_t key = hash_at(&kit, 0, 1);
    assert_int_equal(acquire(&kit, shape, key, 0, 1).outcome, WEIR_ALLOW);
    store_sweep(kit.store, 11 * S - 1, SIZE_MAX);
    assert_int_equal(cells_of(&kit, 1), 1); /* one second of grace */
    store_sweep(kit.store, 11 * S, SIZE_MAX);
    assert_int_equal(cells_of(&kit, 1), 0);
    assert_int_equal(FREE(&kit), 20);
    struct store_answer answer = acquire(&kit, shape, key, 3 * S, 1);
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_true(answer.at >= 10 * S);
    kit_close(&kit);
}

static struct cell *find_cell(struct kit *kit, const struct shape *shape, uint64_t hash, struct cell *seen)
{
    struct look look;
    struct key key = key_of(shape, hash);
    look_at(kit->store, &key, &look);
    assert_int_not_equal(look.final, LOOK_NONE);
    *seen = look.seen[look.final];
    return look_cell(&look, look.final);
}

static void opens_nothing(struct kit *kit, const struct shape *shape, uint64_t key, struct cell *cell,
                          struct cell old)
{
    static const struct cell empty = { 0, 0 };
    struct store_answer answer = { .outcome = WEIR_ALLOW };
    struct ask ask = ask_of(kit->store, shape, key, 0, 1, &answer);
    struct snapshot before = kit_snapshot(kit);
    ask.stance = STORE_ACQUIRE;
    assert_int_equal(permit_charge(&ask, cell, old), TURN_AGAIN);
    assert_false(permit_retag(kit->store, cell, old, old.tag));
    assert_false(permit_retire(kit->store, cell, old, empty, 0, false, LOG_TRY));
    assert_false(permit_cell_is_dead(kit->store, old, 100 * S));
    assert_true(kit_is_unchanged(kit, before));
}

/* Whoever read a cell before it was taken away or queued finds the record in another generation, though it is the same one. */
static void an_old_generation_opens_nothing(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 20);
    const struct shape *shape = kit_shape(&kit, permits_of(2, 10 * S, WEIR_FULL_CLOSED));
    uint64_t key = hash_at(&kit, 0, 1);
    struct cell seen[4], *cell;
    for (unsigned i = 0; i < 4; i++) {
        if (i == 1 || i == 3)
            assert_true(store_reset(kit.store, shape, key));
        if (i == 2) {
            assert_int_equal(store_queue(kit.store, shape, key, 0), STORE_QUEUED);
            store_unqueue(kit.store, shape, key);
        }
        (void)acquire(&kit, shape, key, 0, 1);
        cell = find_cell(&kit, shape, key, &seen[i]);
        assert_int_equal((uint32_t)seen[i].state, (uint32_t)seen[0].state);
        for (unsigned k = 0; k < i; k++)
            opens_nothing(&kit, shape, key, cell, seen[k]);
    }
    assert_true(permit_cell_is_dead(kit.store, seen[3], 100 * S));
    kit_close(&kit);
}

/* To decide, a lock is waited for and then given up; the limit's when-full answers. */
static void a_held_record_is_contended_and_not_a_denial(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 20);
    const struct shape *shape = kit_shape(&kit, permits_of(2, 10 * S, WEIR_FULL_CLOSED));
    uint64_t key = hash_at(&kit, 0, 1);
    (void)acquire(&kit, shape, key, 0, 1);
    record_of(kit.store, 0)->lock = 1;
    struct store_answer answer = acquire(&kit, shape, key, 0, 1);
    assert_true(answer.outcome == WEIR_REFUSED && answer.reason == WEIR_REASON_CONTENDED);
    assert_int_equal(kit_stats(&kit, 100 * S).cells_live, 1); /* in use, so not dead */
    record_of(kit.store, 0)->lock = 0;
    assert_int_equal(acquire(&kit, shape, key, 0, 1).outcome, WEIR_ALLOW);
    assert_int_equal(kit_stats(&kit, 0).contended, 1);
    kit_close(&kit);
}

/* A key that has no cell is counted on the record that all such keys share. */
static void overflowing_keys_share_one_record(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 20);
    const struct shape *shape = kit_shape(&kit, permits_of(3, 10 * S, WEIR_FULL_OVERFLOW));
    const struct shape *lasting = kit_shape(&kit, (struct weir_limit){ .rate = { 0, S }, .burst = 1 });
    for (uint64_t tag = 100; tag < 116; tag++)
        assert_int_equal(take(&kit, lasting, hash_at(&kit, tag & 1, tag), 0, 1).outcome, WEIR_ALLOW);
    uint64_t x = hash_at(&kit, 0, 1), y = hash_at(&kit, 0, 2);
    struct store_answer a = acquire(&kit, shape, x, 0, 1), b = acquire(&kit, shape, y, S, 2);
    assert_true(a.policy == WEIR_POLICY_OVERFLOW && b.policy == WEIR_POLICY_OVERFLOW);
    assert_true(b.fence > a.fence && b.report.remaining == 0);
    struct store_answer c = acquire(&kit, shape, x, 2 * S, 1);
    assert_true(c.outcome == WEIR_DENY && c.report.retry_at == 10 * S);
    struct store_permit first = permit_of(x, &a), second = permit_of(y, &b);
    assert_int_equal(store_permit_renew(kit.store, shape, &first, 3 * S), 13 * S);
    assert_true(store_permit_release(kit.store, shape, &second, 3 * S));
    assert_false(store_permit_release(kit.store, shape, &second, 3 * S));
    c = acquire(&kit, shape, y, 3 * S, 2);
    assert_int_equal(c.outcome, WEIR_ALLOW);
    store_undo(kit.store, shape, y, &c, 3 * S, 2);
    assert_int_equal(acquire(&kit, shape, y, 3 * S, 2).outcome, WEIR_ALLOW);
    assert_int_equal(FREE(&kit), 17); /* what is reserved is nobody else's, held or not */
    assert_int_equal(store_overflows(kit.store, shape), 5);
    kit_close(&kit);
}

static void deciding_allocates_nothing_and_any_allocation_may_fail(void **state)
{
    (void)state;
    struct kit kit;
    struct store_options options = { .keys = 9, .permits = 100 };
    for (size_t n = 1;; n++) {
        kit = (struct kit){ .fail_at = n };
        int code = kit_try_open(&kit, &options);
        if (code == 0)
            break;
        assert_int_equal(code, WEIR_ERR_MEMORY);
        assert_int_equal(kit.block_count, 0);
    }
    kit.fail_at = 0;
    const struct shape *shape = kit_shape(&kit, permits_of(100, 10 * S, WEIR_FULL_CLOSED));
    size_t allocations = kit.allocations;
    uint64_t bytes = kit_stats(&kit, 0).bytes, all = 0;
    for (uint64_t n = 0; n < 300; n++)
        (void)acquire(&kit, shape, hash_at(&kit, 0, n % 7), n * S, 1 + n % 3);
    assert_int_equal(kit.allocations, allocations);
    for (size_t i = 0; i < kit.block_count; i++)
        all += kit.blocks[i].size;
    assert_int_equal(all, bytes);
    kit_close(&kit);

    open_permits(&kit, 9, 0);
    uint64_t without = kit_stats(&kit, 0).bytes;
    kit_close(&kit);
    open_permits(&kit, 9, 1000);
    assert_int_equal(kit_stats(&kit, 0).bytes - without, 64 * 1000); /* as weir_options.permits says */
    kit_close(&kit);
}

/* ---- Changes ------------------------------------------------------------------------------------------------------ */

static const struct shape *size_at(struct kit *kit, uint64_t at_most, weir_ns hold,
                                   enum weir_when_full when_full, uint32_t generation, weir_ns since)
{
    return kit_shape_at(kit, permits_of(at_most, hold, when_full),
                        (struct kit_place){ .lineage = 7, .generation = generation, .since = since });
}

static void held_permits_stay_held_through_a_change(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 40);
    const struct shape *old = size_at(&kit, 5, 10 * S, WEIR_FULL_CLOSED, 1, 0);
    uint64_t key = hash_at(&kit, 0, 1);
    struct store_permit held[5];
    for (unsigned i = 0; i < 5; i++) {
        struct store_answer answer = acquire(&kit, old, key, i * S, 1);
        held[i] = permit_of(key, &answer);
    }
    const struct shape *fewer = size_at(&kit, 3, 20 * S, WEIR_FULL_CLOSED, 2, 5 * S);
    struct store_answer answer = acquire(&kit, fewer, key, 4 * S, 1);
    assert_int_equal(answer.outcome, WEIR_DENY);
    assert_int_equal(answer.at, 5 * S);               /* no earlier than the change */
    assert_int_equal(answer.report.retry_at, 12 * S); /* when two are left of five */
    assert_int_equal(answer.report.remaining, 0);
    assert_int_equal(store_permit_renew(kit.store, fewer, &held[0], 5 * S), 25 * S);
    answer = acquire(&kit, fewer, key, 5 * S, 1);
    assert_int_equal(answer.report.retry_at, 13 * S); /* of 11, 12, 13, 14 and 25 s */
    for (unsigned i = 1; i < 4; i++)
        assert_true(store_permit_release(kit.store, fewer, &held[i], 5 * S));
    answer = acquire(&kit, fewer, key, 5 * S, 1);
    assert_int_equal(answer.outcome, WEIR_ALLOW); /* converts the cell */
    assert_int_equal(answer.report.reset_at, 25 * S);

    /* Whoever still has the old set is told so, and has taken nothing. */
    struct snapshot before = kit_snapshot(&kit);
    assert_false(store_decide(kit.store, old, key, 6 * S, 1, STORE_ACQUIRE, &answer));
    assert_false(store_decide(kit.store, old, key, 6 * S, 1, STORE_LOOK, &answer));
    assert_true(kit_is_unchanged(&kit, before));
    assert_true(store_permit_is_held(kit.store, fewer, &held[4], 13 * S));
    kit_close(&kit);
}

static void a_walk_converts_what_nobody_uses_and_frees_what_is_gone(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 40);
    const struct shape *old = size_at(&kit, 5, 10 * S, WEIR_FULL_CLOSED, 1, 0);
    const struct shape *gone = kit_shape(&kit, permits_of(5, 10 * S, WEIR_FULL_CLOSED));
    uint64_t key = hash_at(&kit, 0, 1), theirs = hash_at(&kit, 0, 2), queued = hash_at(&kit, 1, 3);
    struct store_answer kept = acquire(&kit, old, key, 0, 4), lost = acquire(&kit, gone, theirs, 0, 4);
    (void)acquire(&kit, old, queued, 0, 1);
    assert_int_equal(store_queue(kit.store, old, queued, 0), STORE_QUEUED);
    const struct shape *next = size_at(&kit, 6, 10 * S, WEIR_FULL_CLOSED, 2, 1 * S);
    const struct shape *successor[WEIR_LIMITS_MAX + 1] = { 0 };
    bool is_gone[WEIR_LIMITS_MAX + 1] = { 0 };
    successor[old->number] = next;
    is_gone[gone->number] = true;
    store_succeed(kit.store, successor, is_gone, 1 * S);
    assert_int_equal(FREE(&kit), 40 - 2);
    assert_int_equal(cells_of(&kit, 2), 0);
    struct store_permit permit = permit_of(theirs, &lost);
    assert_false(store_permit_release(kit.store, next, &permit, 1 * S));
    permit = permit_of(key, &kept);
    assert_int_equal(store_permit_renew(kit.store, next, &permit, 2 * S), 12 * S);
    assert_int_equal(peek(&kit, next, key, 2 * S, 0).report.remaining, 2);
    struct store_answer answer = acquire(&kit, next, queued, 2 * S, 1);
    assert_true(answer.outcome == WEIR_DENY && answer.is_queued); /* the bit came along */
    kit_close(&kit);
}

/* The record that overflowing keys share goes on with its holders, and what is reserved for it follows its sizes. */
static void the_shared_record_goes_on_through_changes(void **state)
{
    (void)state;
    struct kit kit;
    open_permits(&kit, 9, 40);
    const struct shape *lasting = kit_shape(&kit, (struct weir_limit){ .rate = { 0, S }, .burst = 1 });
    for (uint64_t tag = 100; tag < 116; tag++)
        assert_int_equal(take(&kit, lasting, hash_at(&kit, tag & 1, tag), 0, 1).outcome, WEIR_ALLOW);
    const struct shape *old = size_at(&kit, 6, 100 * S, WEIR_FULL_OVERFLOW, 1, 0);
    uint64_t key = hash_at(&kit, 0, 1);
    struct store_permit held[6];
    for (unsigned i = 0; i < 5; i++) {
        struct store_answer answer = acquire(&kit, old, key, i * S, 1);
        held[i] = permit_of(key, &answer);
    }
    assert_int_equal(FREE(&kit), 34);
    const struct shape *next = size_at(&kit, 3, 100 * S, WEIR_FULL_OVERFLOW, 2, 5 * S);
    assert_int_equal(FREE(&kit), 31);
    store_succeed_overflow(kit.store, old, next);
    assert_int_equal(acquire(&kit, next, key, 5 * S, 1).outcome, WEIR_DENY);
    struct store_answer late = acquire(&kit, old, key, 5 * S, 1); /* by who still has the old set */
    assert_int_equal(late.outcome, WEIR_ALLOW);
    held[5] = permit_of(key, &late);
    assert_int_equal(acquire(&kit, old, key, 5 * S, 1).outcome, WEIR_DENY);
    store_shape_remove(kit.store, old);
    assert_int_equal(FREE(&kit), 34); /* six are held: more than are reserved */
    for (unsigned i = 0; i < 6; i++) {
        assert_true(store_permit_release(kit.store, next, &held[i], 6 * S));
        assert_int_equal(FREE(&kit), i < 3 ? 35 + i : 37);
    }
    assert_int_equal(acquire(&kit, next, key, 6 * S, 3).outcome, WEIR_ALLOW);
    store_shape_remove(kit.store, next);
    assert_int_equal(FREE(&kit), 40);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_holds_so_many_until_each_expires),
        cmocka_unit_test(who_does_not_take_writes_nothing),
        cmocka_unit_test(holders_renew_and_release),
        cmocka_unit_test(a_permit_is_one_entry_of_one_key),
        cmocka_unit_test(hashes_that_share_a_cell_share_their_permits),
        cmocka_unit_test(an_undo_takes_back_what_it_gave),
        cmocka_unit_test(settling_leaves_permits_alone_and_a_reset_does_not),
        cmocka_unit_test(a_lost_key_gives_nothing_until_all_of_before_has_expired),
        cmocka_unit_test(a_limit_whose_permits_do_not_fit_is_refused),
        cmocka_unit_test(an_exhausted_pool_is_a_full_table),
        cmocka_unit_test(done_records_serve_other_keys),
        cmocka_unit_test(an_old_stamp_is_decided_no_earlier_than_what_was_forgotten),
        cmocka_unit_test(an_old_generation_opens_nothing),
        cmocka_unit_test(a_held_record_is_contended_and_not_a_denial),
        cmocka_unit_test(overflowing_keys_share_one_record),
        cmocka_unit_test(deciding_allocates_nothing_and_any_allocation_may_fail),
        cmocka_unit_test(held_permits_stay_held_through_a_change),
        cmocka_unit_test(a_walk_converts_what_nobody_uses_and_frees_what_is_gone),
        cmocka_unit_test(the_shared_record_goes_on_through_changes),
    };
    return cmocka_run_group_tests_name("store/permit", tests, NULL, NULL);
}
