// SPDX-License-Identifier: Apache-2.0
/*
 * LABELS: threads
 *
 * What adding to a limiter, or changing it, leaves when it fails; how large a change may be; and who may look meanwhile.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "support/unit.h"
#include "threads/crew.h"
#include "weir.h"

#define S WEIR_SECOND

static struct weir *weir;

static unsigned passed(weir_limit_id limit, const char *key, weir_ns now, unsigned times)
{
    unsigned count = 0;
    struct weir_decision decision;
    for (unsigned i = 0; i < times; i++) {
        assert_int_equal(weir_check(weir, limit, key, strlen(key), 1, now, &decision), 0);
        count += decision.outcome == WEIR_ALLOW && decision.policy == WEIR_POLICY_NONE;
    }
    return count;
}

static int change(unsigned limits, unsigned overrides, uint64_t burst, enum weir_change_kind *kinds)
{
    struct weir_change *next;
    weir_limit_id id;
    char name[16];
    assert_int_equal(weir_change_new(&next, weir), 0);
    for (unsigned i = 0; i < limits; i++) {
        snprintf(name, sizeof name, "l%u", i);
        struct weir_limit limit = { .name = name, .rate = { 1, S }, .burst = burst };
        assert_int_equal(weir_change_limit(next, &limit, &id), 0);
        for (unsigned k = 0; k < overrides; k++) {
            struct weir_size size = { { 1, S }, i == 0 ? burst + 1 : 7, 0, false };
            snprintf(name, sizeof name, "k%u", k);
            assert_int_equal(weir_change_override(next, id, name, strlen(name), &size), 0);
        }
    }
    return weir_change_commit(next, 0, NULL, kinds);
}

static void an_override_that_fails_leaves_the_limit_as_it_was(void **state)
{
    (void)state;
    weir_limit_id id;
    struct weir_limit log = { .name = "log", .algorithm = WEIR_SLIDING_LOG, .rate = { 10, S } };
    struct weir_size large = { .rate = { 60000, S } };
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64, .log_stamps = 1024 }), 0);
    assert_int_equal(weir_limit_add(weir, &log, &id), 0);
    assert_int_equal(weir_override_add(weir, id, "k", 1, &large), WEIR_ERR_LOG_MEMORY);
    assert_int_equal(passed(id, "k", 0, 20), 10);
    assert_int_equal(weir_limit_overflows(weir, id), 0);
    large.rate.count = 12;
    assert_int_equal(weir_override_add(weir, id, "other", 5, &large), 0);
    assert_int_equal(passed(id, "other", 0, 20), 12);
    weir_free(weir);
}

/* It would be of an earlier generation than what it stands beside, and whoever asks would start over for ever. */
static void an_override_may_be_added_after_a_change(void **state)
{
    (void)state;
    struct weir_size size = { { 1, S }, 7, 0, false };
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64 }), 0);
    assert_int_equal(change(1, 0, 3, NULL), 0);
    weir_quiesce(weir, 0);
    assert_int_equal(passed(0, "used", 0, 20), 3);
    assert_int_equal(weir_override_add(weir, 0, "used", 4, &size), 0);
    assert_int_equal(passed(0, "used", 0, 20), 0); /* decided, where keys without a cell are */
    assert_int_equal(weir_override_add(weir, 0, "k", 1, &size), 0);
    assert_int_equal(passed(0, "k", 0, 20), 7);
    assert_int_equal(passed(0, "x", 0, 20), 3);
    assert_int_equal(change(1, 0, 4, NULL), 0);
    weir_quiesce(weir, 0);
    assert_int_equal(passed(0, "k", 0, 20), 0); /* seven of four are used */
    assert_int_equal(passed(0, "x", 0, 20), 1);
    weir_free(weir);
}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

static size_t left, live;

static void *allocate(void *context, size_t size, size_t alignment)
{
    void *at = NULL;
    (void)context;
    if (left == 0 || posix_memalign(&at, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) != 0)
        return NULL;
    left--;
    live++;
    return memset(at, 0, size);
}

static void release(void *context, void *memory, size_t size)
{
    (void)context, (void)size;
    live--;
    free(memory);
}

/* The seventeenth limit makes the tables of the set grow. Whichever allocation fails: reservations settle, and a second
   try succeeds. */
static void a_limit_that_fails_leaves_reservations_as_they_were(void **state)
{
    (void)state;
    const struct weir_allocator allocator = { allocate, release, NULL };
    int code = -1;
    for (size_t allowed = 0; code != 0; allowed++) {
        weir_limit_id id;
        char name[16];
        left = SIZE_MAX;
        assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64, .allocator = &allocator }), 0);
        for (unsigned i = 0; i < 16; i++) {
            snprintf(name, sizeof name, "l%u", i);
            assert_int_equal(
                weir_limit_add(weir, &(struct weir_limit){ .name = name, .rate = { 1, S }, .burst = 5 }, &id),
                0);
        }
        struct weir_reservation ticket;
        struct weir_settlement settled;
        struct weir_decision decision;
        struct weir_ask ask = { .limit = 15, .key = "k", .key_len = 1, .cost = 5 };
        assert_int_equal(weir_reserve(weir, &ask, 1, 0, S, NULL, &decision, &ticket), 0);

        struct weir_limit more = { .name = "more", .rate = { 1, S }, .burst = 5 };
        left = allowed;
        code = weir_limit_add(weir, &more, &id);
        left = SIZE_MAX;
        assert_true(code == 0 || code == WEIR_ERR_MEMORY);
        assert_int_equal(weir_settle(weir, ticket.bytes, ticket.len, 2, 0, &settled), 0);
        assert_int_equal(settled.returned, 3);
        if (code != 0)
            assert_int_equal(weir_limit_add(weir, &more, &id), 0);
        assert_int_equal(passed(id, "k", 0, 9), 5);
        weir_free(weir);
        assert_int_equal(live, 0);
    }
}

/* ---- Large changes ------------------------------------------------------------------------------------------ */

static void twelve_thousand_limits_change_again_and_again(void **state)
{
    (void)state;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64 }), 0);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(change(12000, 0, 5 + i, NULL), 0);
        assert_int_equal(passed(11999, "k", 0, 20), i == 0 ? 5 : 1);
        weir_quiesce(weir, 0);
        weir_retire(weir);
    }
    weir_free(weir);
}

static void only_limits_whose_overrides_differ_change(void **state)
{
    (void)state;
    enum weir_change_kind kinds[40];
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64 }), 0);
    assert_int_equal(change(40, 3, 5, NULL), 0);
    weir_quiesce(weir, 0);
    assert_int_equal(passed(7, "k2", 0, 20), 7);
    assert_int_equal(change(40, 3, 5, kinds), 0);
    weir_quiesce(weir, 0);
    for (unsigned i = 0; i < COUNT_OF(kinds); i++)
        assert_int_equal(kinds[i], WEIR_CHANGE_KEPT);
    assert_int_equal(passed(7, "k2", 0, 20), 0);
    assert_int_equal(passed(39, "k0", 0, 20), 7);
    assert_int_equal(change(40, 2, 5, kinds), 0);
    weir_quiesce(weir, 0);
    for (unsigned i = 0; i < COUNT_OF(kinds); i++)
        assert_int_equal(kinds[i], WEIR_CHANGE_RESIZED);
    weir_free(weir);
}

static void a_second_change_waits_for_the_first(void **state)
{
    (void)state;
    struct weir_change *first, *second;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64 }), 0);
    assert_int_equal(weir_change_new(&first, weir), 0);
    assert_int_equal(weir_change_new(&second, weir), 0);
    assert_int_equal(weir_change_commit(first, 0, NULL, NULL), 0);
    assert_int_equal(weir_change_commit(second, 0, NULL, NULL), WEIR_ERR_BUSY);
    weir_free(weir);
}

/* ---- Looking meanwhile ---------------------------------------------------------------------------------------- */

static _Atomic bool is_over;
static _Atomic unsigned looks; /* begun */

/* Until no look that has begun is running: the second one from now is after them. */
static void wait_for_looks(void)
{
    unsigned seen = atomic_load(&looks);
    while (atomic_load(&looks) - seen < 2)
        (void)sched_yield();
}

static void look_or_change(unsigned member)
{
    struct weir_stats stats;
    if (member == 0) {
        for (unsigned i = 0; i < 200; i++) {
            assert_int_equal(change(300, 0, 5 + i % 2, NULL), 0);
            wait_for_looks();
            weir_quiesce(weir, 0);
            wait_for_looks();
            weir_retire(weir);
        }
        atomic_store(&is_over, true);
        return;
    }
    while (!atomic_load(&is_over)) {
        atomic_fetch_add(&looks, 1);
        weir_stats(weir, 0, &stats);
    }
}

/* The numbers of sizes that are gone are read by nobody else; a memory checker watches. */
static void stats_beside_changes(void **state)
{
    (void)state;
    struct crew crew;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 8 }), 0);
    crew_open(&crew, 2, look_or_change);
    crew_round(&crew);
    crew_close(&crew);
    weir_free(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_override_that_fails_leaves_the_limit_as_it_was),
        cmocka_unit_test(an_override_may_be_added_after_a_change),
        cmocka_unit_test(a_limit_that_fails_leaves_reservations_as_they_were),
        cmocka_unit_test(twelve_thousand_limits_change_again_and_again),
        cmocka_unit_test(only_limits_whose_overrides_differ_change),
        cmocka_unit_test(a_second_change_waits_for_the_first),
        cmocka_unit_test(stats_beside_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
