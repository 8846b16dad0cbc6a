// SPDX-License-Identifier: Apache-2.0
/*
 * test_play_fleet.c - a fleet in virtual time: what test/oracle does not model, which is waiting for a process's limit and asking
 * the store at the turn; and what a failed step tells of replicas and of the store.
 */
#include "support/unit.h"

#include "sim/play.h"

/* What is told on `out` and `err`, freed by the caller. */
static uint64_t play(const char *text, char **told)
{
    size_t told_len;
    FILE *out = open_memstream(told, &told_len);
    assert_non_null(out);
    struct player_library library;
    player_library_init(&library);
    struct play play = { .player = &library.player, .out = out, .err = out };
    struct timeline *timeline = timeline_parse(text, strlen(text), "t", out, false);
    assert_non_null(timeline);
    enum player_result result = play_timeline(&play, timeline);
    timeline_free(timeline);
    fclose(out);
    if (result != PLAYER_OK)
        fail_msg("%s", *told);
    return play.failed_steps;
}

#define PACED \
    "contract:\n" \
    "  weir: 1\n" \
    "  limits:\n" \
    "    - { name: paced, key: [], algorithm: leaky-queue, rate: 1/s, wait: { up-to: 1m, queue: 10 } }\n" \
    "    - { name: budget, key: [tenant], algorithm: fixed-window, rate: 2/1m, scope: fleet,\n" \
    "        when-store-fails: POLICY }\n" \
    "timeline:\n"

static const struct row {
    const char *why, *policy, *steps;
} rows[] = {
    { "its turn asks the store; where that refuses the pace is given back, and the next one's turn comes at "
      "once",
      "closed",
      "  - { at: 0s, request: { tenant: a }, wait: 1m, expect: { allow: 1, served_at: 0s } }\n"
      "  - { at: 0s, request: { tenant: a }, wait: 1m, expect: { allow: 1, served_at: 1s, limit: paced } }\n"
      "  - { at: 0s, request: { tenant: a }, wait: 1m, expect: { deny: 1, ended_at: 2s, limit: budget, "
      "retry_after: 58s } }\n"
      "  - { at: 0s, request: { tenant: b }, wait: 1m, expect: { allow: 1, served_at: 2s, waited: 2s } }\n"
      "  - { at: 0s, request: { tenant: b }, wait: 1m, expect: { allow: 1, served_at: 3s } }\n" },
    { "where no shared limit is met the store is not asked", "closed",
      "  - { at: 0s, store: away }\n"
      "  - { at: 0s, request: { user: a }, wait: 1m, times: 3, expect: { allow: 3, served_at: 2s, limit: paced "
      "} }\n" },
    { "the store has gone when the turn comes", "closed",
      "  - { at: 0s, request: { tenant: a }, wait: 1m, expect: { allow: 1 } }\n"
      "  - { at: 0s, request: { tenant: a }, wait: 1m,\n"
      "      expect: { refused: 1, ended_at: 1s, policy: closed, reason: store } }\n"
      "  - { at: 500ms, store: away }\n"
      "  - { at: 1s, request: { user: u }, expect: { allow: 1 } }\n" },
    { "and has come back", "{ local: 1/2 }",
      "  - { at: 0s, store: away }\n"
      "  - { at: 0s, request: { tenant: a }, wait: 1m, times: 3, expect: { allow: 2, deny: 1, limit: budget } "
      "}\n"
      "  - { at: 500ms, store: back }\n"
      "  - { at: 10s, request: { tenant: a }, wait: 1m, expect: { deny: 1, limit: budget, policy: null } }\n" },
    { "each replica has its pace, and both have one budget", "closed",
      "  - { at: 0s, request: { tenant: a }, wait: 1m, times: 2, expect: { allow: 2, served_at: 1s } }\n"
      "  - { at: 0s, request: { tenant: b }, replica: b, wait: 1m, times: 2, expect: { allow: 2, served_at: 1s "
      "} }\n"
      "  - { at: 0s, request: { tenant: a }, replica: b, wait: 1m, expect: { deny: 1, ended_at: 2s } }\n" },
    { "a restart cuts off those of its own replica", "closed",
      "  - { at: 0s, request: { tenant: a }, wait: 1m, times: 2, expect: { allow: 2, served_at: 1s } }\n"
      "  - { at: 0s, request: { tenant: b }, replica: b, wait: 1m, times: 2, expect: { allow: 1, left: 1 } }\n"
      "  - { at: 500ms, restart: true, replica: b }\n"
      "  - { at: 500ms, request: { tenant: b }, replica: b, expect: { allow: 1 } }\n" },
    { "a reservation that waited is settled in both", "closed",
      "  - { at: 0s, reserve: { tenant: a }, wait: 1m, as: x, times: 2, expect: { allow: 2, served_at: 1s } }\n"
      "  - { at: 2s, cancel: x.2, expect: { returned: 1, remaining: 1 } }\n"
      "  - { at: 2s, request: { tenant: a }, expect: { allow: 1 } }\n"
      "  - { at: 2s, cancel: x.2, expect: { returned: 0, repeated: true } }\n" },
    { "who leaves asks nothing of the store", "closed",
      "  - { at: 0s, request: { tenant: a }, wait: 1m, times: 3, as: w, expect: { allow: 2, left: 1 } }\n"
      "  - { at: 500ms, leave: w.2 }\n"
      "  - { at: 500ms, leave: w.2, expect: { error: ended } }\n"
      "  - { at: 5s, request: { tenant: a }, expect: { deny: 1, limit: budget } }\n" },
};

static void turns_ask_the_store(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[4096], *told;
        const char *at = strstr(PACED, "POLICY");
        (void)snprintf(text, sizeof text, "%.*s%s%s%s", (int)(at - PACED), PACED, rows[i].policy, at + 6,
                       rows[i].steps);
        if (play(text, &told) != 0)
            fail_msg("%s:\n%s", rows[i].why, told);
        free(told);
    }
}

#define TOLD \
    "contract:\n" \
    "  weir: 1\n" \
    "  limits:\n" \
    "    - { name: all, key: [], rate: 1/s, burst: 5, scope: fleet, when-store-fails: { local: 1/2 } }\n" \
    "timeline:\n"

static void a_failure_tells_of_replica_and_store(void **state)
{
    static const char text[] = TOLD "  - { at: 0s, request: {}, times: 3 }\n"
                                    "  - { at: 0s, request: {}, replica: b, times: 3, expect: { allow: 3 } }\n"
                                    "  - { at: 1s, store: away }\n"
                                    "  - { at: 2s, request: {}, replica: c, expect: { allow: 1 } }\n";
    static const char expected[] =
        "t:7:5: step 2 at 0s failed\n"
        "    request   (cost 1, 3 times) at replica b\n"
        "    expected  allow=3\n"
        "    came      allow=2 deny=1\n"
        "    differs   allow: 3 expected, 2 came; deny: 0 expected, 1 came\n"
        "    before    allow all remaining=2/5 reset=3s\n"
        "    after     deny all remaining=0/5 retry=1s\n"
        "    store     exact here; a real one counts in ticks of 1us, and may answer one later\n"
        "t:9:5: step 4 at 2s failed\n"
        "    request   (cost 1) at replica c\n"
        "    expected  allow=1\n"
        "    came      deny=1\n"
        "    differs   allow: 1 expected, 0 came; deny: 0 expected, 1 came\n"
        "    before    deny all remaining=0/2 retry=1s policy=local reason=store\n"
        "    after     deny all remaining=0/2 retry=1s policy=local reason=store\n"
        "    store     it is away: shared limits say what then\n";
    char *told;
    (void)state;
    assert_int_equal(play(text, &told), 2);
    assert_string_equal(told, expected);
    free(told);
}

/* Fences of one key rise whichever replica asks, also behind a loss. */
static void fences_rise_over_replicas(void **state)
{
    static const char text[] =
        "contract:\n  weir: 1\n  limits:\n"
        "    - { name: all, key: [], algorithm: concurrency, at-most: 3, hold: 10s,\n"
        "        scope: fleet, when-store-fails: closed }\n"
        "    - { name: own, key: [], algorithm: concurrency, at-most: 3, hold: 10s }\n"
        "timeline:\n"
        "  - { at: 0s, acquire: {}, replica: b, as: a }\n"
        "  - { at: 1s, acquire: {}, as: b }\n"
        "  - { at: 2s, store: lost }\n"
        "  - { at: 3s, acquire: {}, replica: b, as: c, expect: { allow: 1, remaining: 1 } }\n"
        "  - { at: 3s, renew: b, expect: { error: permit } }\n";
    char *told;
    (void)state;
    if (play(text, &told) != 0)
        fail_msg("%s", told);
    free(told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_ask_the_store),
        cmocka_unit_test(a_failure_tells_of_replica_and_store),
        cmocka_unit_test(fences_rise_over_replicas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
