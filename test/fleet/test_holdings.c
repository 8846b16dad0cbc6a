// SPDX-License-Identifier: Apache-2.0
/*
 * test_holdings.c - the keys of a process: which come in, who speaks for them, what a reload, the end and the bounds do.
 */
#include "fleet/holdings.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define START (100 * WEIR_SECOND)

static const struct weir_lease terms = { 1000, 100, 2 * WEIR_SECOND };
static const struct weir_shared_size size = {
    .tick = WEIR_MICROSECOND, .capacity = 1000, .count = 1000, .period = 1000000
};

struct rig {
    struct holdings *holdings;
    weir_ns now;
};

static struct rig rig_new(void)
{
    struct rig rig = { .now = START };
    assert_int_equal(holdings_new(&rig.holdings, (const uint8_t[16]){ 7 }), 0);
    return rig;
}

static uint64_t hash_of(const struct rig *rig, const char *key)
{
    return holdings_hash(rig->holdings, "limit", (const unsigned char *)key, strlen(key));
}

static uint64_t take(const struct rig *rig, const char *key, uint64_t cost, struct hand *hand)
{
    holdings_take(rig->holdings, hash_of(rig, key), &terms, &size, cost, true, rig->now, hand);
    return hand->taken;
}

/* A request that finds nothing: whether a message is to be claimed. */
static bool miss(const struct rig *rig, const char *key)
{
    char name[64], limit_name[8] = "limit";
    const struct weir_limit limit = { .name = limit_name, .rate = { 1000, WEIR_SECOND }, .burst = 1000 };
    struct hand hand;
    (void)take(rig, key, 1, &hand);
    holdings_keep(rig->holdings, &hand);
    int len = snprintf(name, sizeof name, "weir:1:{%s}", key);
    const struct holdings_key is = {
        .hash = hash_of(rig, key), .name = { name, (size_t)len }, .limit = &limit, .size = size, .lease = terms
    };
    bool speaks = holdings_miss(rig->holdings, &is, 1 - hand.taken, rig->now);
    memset(name, '?', sizeof name); /* what was given is copied */
    memset(limit_name, '?', 5);
    return speaks;
}

/* The store gives all that is wanted. */
static void grant(const struct rig *rig, const struct holdings_message *message, uint64_t left)
{
    const struct script_lease_answer answer = { .granted = message->message.want,
                                                .left = left,
                                                .ttl = terms.duration,
                                                .remaining = 500,
                                                .ends_after = WEIR_NO_TIME };
    holdings_answer(rig->holdings, message, &answer, rig->now);
}

/* Two requests, a message, an answer: the key is held. */
static uint64_t hold(struct rig *rig, const char *key)
{
    struct holdings_message message;
    (void)miss(rig, key);
    rig->now += MS;
    assert_true(miss(rig, key));
    assert_true(holdings_claim(rig->holdings, hash_of(rig, key), rig->now, &message));
    grant(rig, &message, message.message.want);
    return message.message.want;
}

static void the_second_request_brings_a_key_in(void **state)
{
    static const struct {
        weir_ns between;
        bool comes;
        const char *why;
    } rows[] = {
        { 0, true, "at once" },
        { 1000 * MS, true, "within half of the lease's time" },
        { 1001 * MS, false, "later: it is as if it came for the first time" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rig rig = rig_new();
        if (miss(&rig, "a"))
            fail_msg("the first request brought it in");
        rig.now += rows[i].between;
        if (miss(&rig, "a") != rows[i].comes || holdings_count(rig.holdings) != rows[i].comes)
            fail_msg("%s", rows[i].why);
        holdings_free(rig.holdings);
    }
}

/* Keys that share a place among those that were missed once must not drive each other out for ever. */
static void keys_that_are_asked_in_turn_come_in(void **state)
{
    enum { KEYS = 2000 };
    struct rig rig = rig_new();
    (void)state;
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < KEYS; i++) {
            char key[16];
            (void)snprintf(key, sizeof key, "%u", i);
            (void)miss(&rig, key);
            rig.now += MS / 10;
        }
    assert_in_range(holdings_count(rig.holdings), KEYS * 99 / 100, KEYS);
    holdings_free(rig.holdings);
}

static void one_message_at_a_time(void **state)
{
    struct rig rig = rig_new();
    struct holdings_message message, other;
    (void)state;
    (void)miss(&rig, "a");
    assert_true(miss(&rig, "a"));
    assert_true(holdings_claim(rig.holdings, hash_of(&rig, "a"), rig.now, &message));
    assert_false(holdings_claim(rig.holdings, hash_of(&rig, "a"), rig.now, &other));
    assert_int_equal(holdings_collect(rig.holdings, 0, 1, rig.now + WEIR_SECOND, &other, 1), 0);
    assert_true(slice_equals(message.message.name, SLICE("weir:1:{a}")));
    assert_string_equal(message.message.limit->name, "limit");
    holdings_unanswered(rig.holdings, &message, 100 * MS, rig.now);
    rig.now += 99 * MS;
    assert_false(holdings_claim(rig.holdings, hash_of(&rig, "a"), rig.now, &other));
    rig.now += MS;
    assert_int_equal(holdings_collect(rig.holdings, 0, 1, rig.now, &other, 1), 1);
    assert_int_equal(other.message.seq, message.message.seq); /* as it was */
    grant(&rig, &message, other.message.want); /* the first sending's answer, late, does as well */
    assert_int_equal(holdings_look(rig.holdings, hash_of(&rig, "a"), rig.now), other.message.want);
    grant(&rig, &other, other.message.want); /* and the second's nothing more */
    assert_int_equal(holdings_look(rig.holdings, hash_of(&rig, "a"), rig.now), other.message.want);
    holdings_free(rig.holdings);
}

static void what_is_taken_is_kept_or_lies_there_again(void **state)
{
    struct rig rig = rig_new();
    struct hand hand, second;
    struct holdings_counts counts;
    uint64_t held = hold(&rig, "a");
    (void)state;
    assert_int_equal(take(&rig, "a", 1, &hand), 1);
    assert_int_equal(hand.have, held - 1);
    holdings_undo(rig.holdings, &hand);
    assert_int_equal(holdings_look(rig.holdings, hash_of(&rig, "a"), rig.now), held);
    assert_int_equal(take(&rig, "a", held + 5, &second), held); /* in part */
    assert_int_equal(holdings_look(rig.holdings, hash_of(&rig, "a"), rig.now), 0);
    holdings_keep(rig.holdings, &second);
    holdings_sum(rig.holdings, rig.now, &counts);
    assert_int_equal(counts.held, 0);
    assert_int_equal(counts.untold, held);
    holdings_spend(rig.holdings, hash_of(&rig, "b"), &terms, &size, 1, rig.now, &hand);
    assert_int_equal(hand.taken, 0);
    assert_false(hand.is_known);
    holdings_free(rig.holdings);
}

/* Every key that is due is found once, by the one stripe that its shard belongs to. */
static void stripes_share_the_walk(void **state)
{
    enum { KEYS = 200, STRIPES = 3 };
    struct rig rig = rig_new();
    struct holdings_message messages[KEYS];
    size_t found = 0;
    (void)state;
    for (unsigned i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%u", i);
        (void)hold(&rig, key);
    }
    rig.now += 1760 * MS; /* nothing was spent, and all of them are about to end */
    for (unsigned stripe = 0; stripe < STRIPES; stripe++)
        for (size_t got;
             (got = holdings_collect(rig.holdings, stripe, STRIPES, rig.now, &messages[found], 16)) > 0;)
            found += got;
    assert_int_equal(found, KEYS);
    for (size_t i = 0; i < found; i++) {
        assert_true(messages[i].message.give > 0);
        assert_int_equal(messages[i].message.want, 0);
        grant(&rig, &messages[i], 0);
    }
    rig.now += 3 * WEIR_SECOND;
    for (unsigned beat = 0; beat < 8; beat++) /* a walk goes on where the one before stopped */
        assert_int_equal(holdings_collect(rig.holdings, 0, 1, rig.now, messages, KEYS), 0);
    assert_int_equal(holdings_count(rig.holdings), 0); /* idle keys hold nothing and are forgotten */
    holdings_free(rig.holdings);
}

static void after_a_reload_a_key_is_asked_for_anew(void **state)
{
    struct rig rig = rig_new();
    struct hand hand;
    uint64_t held = hold(&rig, "a");
    (void)state;
    holdings_changed(rig.holdings);
    assert_int_equal(take(&rig, "a", 1, &hand), 0); /* the limit may be another */
    (void)miss(&rig, "a");                          /* which says what it is now */
    assert_int_equal(take(&rig, "a", 1, &hand), 1);
    assert_int_equal(hand.have, held - 1);
    holdings_free(rig.holdings);
}

static void at_the_end_everything_goes_back(void **state)
{
    struct rig rig = rig_new();
    struct holdings_message message;
    struct hand hand;
    uint64_t held = hold(&rig, "a");
    (void)state;
    holdings_hand_back(rig.holdings);
    assert_int_equal(take(&rig, "a", 1, &hand), 0);
    assert_false(miss(&rig, "b"));
    assert_int_equal(holdings_collect(rig.holdings, 0, 1, rig.now, &message, 1), 1);
    assert_int_equal(message.message.give, held);
    assert_int_equal(message.message.want, 0);
    holdings_free(rig.holdings);
}

static void the_table_is_bounded(void **state)
{
    struct rig rig = rig_new();
    (void)state;
    for (unsigned i = 0; i < HOLDINGS_MAX + 1000; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%u", i);
        (void)miss(&rig, key);
        (void)miss(&rig, key);
    }
    /* Of several shards each may pass the bound by one. */
    assert_in_range(holdings_count(rig.holdings), HOLDINGS_MAX, HOLDINGS_MAX + HOLDINGS_SHARDS);
    holdings_free(rig.holdings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_request_brings_a_key_in),
        cmocka_unit_test(keys_that_are_asked_in_turn_come_in),
        cmocka_unit_test(one_message_at_a_time),
        cmocka_unit_test(what_is_taken_is_kept_or_lies_there_again),
        cmocka_unit_test(stripes_share_the_walk),
        cmocka_unit_test(after_a_reload_a_key_is_asked_for_anew),
        cmocka_unit_test(at_the_end_everything_goes_back),
        cmocka_unit_test(the_table_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
