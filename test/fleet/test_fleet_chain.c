// SPDX-License-Identifier: Apache-2.0
/*
 * test_fleet_chain.c - chains of requests under limits of a fleet: strict, leased, watched, one node or a Cluster.
 *
 * Nothing comes back in the time of a test, and one process alone has all of each budget; so a chain passes exactly when every
 * limit that enforces holds the sum that it asks of each key (G2 across keys), and afterwards what passed is what is gone.
 *
 * LABELS: e2e
 */
#include "fleet/lease_rig.h"

#define TENANTS 3
#define LIMITS 4

static const struct {
    const char *text;
    uint64_t holds;
    bool is_watched;
} limits[LIMITS] = {
    { LEASED("l0", OF_TENANT, "rate: 1/52w, burst: 30, lease: { most: 15, chunk: 5, for: 2s }"), 30, false },
    { LIMIT("l1", OF_TENANT, "when-store-fails: closed, algorithm: fixed-window, rate: 24/52w"), 24, false },
    { LEASED("l2", OF_PATH, "algorithm: fixed-window, rate: 50/52w, lease: { most: 20, chunk: 10, for: 2s }"),
      50, false },
    { LIMIT("l3", OF_TENANT, "when-store-fails: open, rate: 1/52w, burst: 12, enforce: shadow"), 12, true },
};
static const char *const tenants[TENANTS] = { "acme", "bolt", "core" };
static const char *const paths[2] = { "/a", "/b" };

struct member {
    int tenant, path; /* -1: none */
    uint64_t cost;
    bool is_peek;
};

static int key_of(const struct member *member, size_t limit)
{
    return limit == 2 ? member->path : member->tenant;
}

/* The sums of a chain fit what is left: then they are taken, and watched ones that fit. */
static bool model_decide(uint64_t used[LIMITS][TENANTS], const struct member *members, size_t count)
{
    uint64_t sums[LIMITS][TENANTS] = { { 0 } };
    bool passes = true, all_peek = true;
    for (size_t i = 0; i < count; i++)
        all_peek = all_peek && members[i].is_peek;
    for (size_t i = 0; i < count; i++)
        for (size_t l = 0; l < LIMITS; l++)
            if (key_of(&members[i], l) >= 0 && (all_peek || !members[i].is_peek))
                sums[l][key_of(&members[i], l)] += members[i].cost;
    for (size_t l = 0; l < LIMITS; l++)
        for (size_t k = 0; k < TENANTS; k++)
            passes = passes
                     && (limits[l].is_watched || sums[l][k] == 0 || used[l][k] + sums[l][k] <= limits[l].holds);
    for (size_t l = 0; l < LIMITS && passes && !all_peek; l++)
        for (size_t k = 0; k < TENANTS; k++)
            if (used[l][k] + sums[l][k] <= limits[l].holds)
                used[l][k] += sums[l][k];
    return passes;
}

static struct asked *decide(const struct member *members, size_t count)
{
    static struct weir_request requests[8];
    static struct weir_attribute attributes[8][2];
    for (size_t i = 0; i < count; i++) {
        attributes[i][0] =
            (struct weir_attribute){ .name = "tenant",
                                     .value = members[i].tenant < 0 ? NULL : tenants[members[i].tenant] };
        attributes[i][1] =
            (struct weir_attribute){ .name = "path",
                                     .value = members[i].path < 0 ? NULL : paths[members[i].path] };
        requests[i] = (struct weir_request){ .attributes = attributes[i],
                                             .attribute_count = 2,
                                             .cost = members[i].cost,
                                             .is_peek = members[i].is_peek,
                                             .also = i + 1 < count ? &requests[i + 1] : NULL };
    }
    return world_decide_request(&world, 0, requests);
}

/* Each question once, by whom it was asked. */
static void check_askers(const struct asked *asked, const struct member *members, size_t count)
{
    uint64_t seen[LIMITS] = { 0 };
    for (size_t i = 0; i < asked->decision.count; i++) {
        const struct weir_shared_met *met = &asked->met[i];
        assert_true(met->asked_by != 0 && (seen[met->limit] & met->asked_by) == 0);
        seen[met->limit] |= met->asked_by;
        for (size_t k = 0; k < count; k++) /* one question has one key */
            if ((met->asked_by >> k & 1) != 0)
                assert_int_equal(key_of(&members[k], (size_t)met->limit),
                                 key_of(&members[__builtin_ctzll(met->asked_by)], (size_t)met->limit));
    }
}

static void check_left(uint64_t used[LIMITS][TENANTS])
{
    for (int t = 0; t < TENANTS; t++) {
        const struct member look = { .tenant = t, .path = t < 2 ? t : -1, .is_peek = true };
        const struct asked *asked = decide(&look, 1);
        for (size_t l = 0; l < LIMITS; l++) {
            int key = key_of(&look, l);
            if (key < 0)
                continue;
            uint64_t remaining = asked_met(asked, (weir_limit_id)l)->remaining;
            if (remaining != limits[l].holds - used[l][key])
                fail_msg("limit %zu key %d: %llu left, not %llu", l, key, (unsigned long long)remaining,
                         (unsigned long long)(limits[l].holds - used[l][key]));
        }
    }
}

static void chains_are_all_or_nothing(void **state)
{
    (void)state;
    char text[2048] = CONTRACT;
    for (size_t l = 0; l < LIMITS; l++)
        strcat(text, limits[l].text);
    size_t passed = 0, refused = 0;
    uint64_t in_hand = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        uint64_t used[LIMITS][TENANTS] = { { 0 } };
        if (seed % 3 == 0)
            world_open_cluster(&world, &redis, seed, text, 1, 1);
        else
            world_open(&world, &redis, seed, text, 1, 1);
        for (int step = 0; step < 32; step++) {
            struct member members[8];
            size_t count = 1 + random_below(&world.random, 5);
            for (size_t i = 0; i < count; i++)
                members[i] =
                    (struct member){ .tenant =
                                         (int)random_below(&world.random, step % 3 == 0 ? 1 : TENANTS + 1) - 1,
                                     .path = (int)random_below(&world.random, 3) - 1,
                                     .cost = random_below(&world.random, 8),
                                     .is_peek = random_below(&world.random, 8) == 0 };
            bool passes = model_decide(used, members, count);
            const struct asked *asked = decide(members, count);
            if (asked->decision.passes != passes)
                fail_msg("seed %llu step %d: passes %d, the model says %d", (unsigned long long)seed, step,
                         asked->decision.passes, passes);
            check_askers(asked, members, count);
            passed += passes;
            refused += !passes;
            world_run_for(&world, random_below(&world.random, 3) * MS);
        }
        world_run_for(&world, 5 * WEIR_SECOND); /* what is in hand goes back */
        check_left(used);
        in_hand += counters(0).lease_decisions;
        world_close(&world);
    }
    if (passed < 100 || refused < 100 || in_hand == 0)
        fail_msg("%zu passed, %zu were refused, %llu in hand", passed, refused, (unsigned long long)in_hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(chains_are_all_or_nothing) };
    return cmocka_run_group_tests(tests, start, stop);
}
