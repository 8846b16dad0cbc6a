// SPDX-License-Identifier: Apache-2.0
/* test_play.c - a timeline against a player that counts to five, and the story it tells of each difference. */
#include "support/unit.h"

#include "sim/play.h"

#define WAITERS_MAX 8

/*
 * Lets five tokens pass, ever; each use of it is counted. Who may wait is served one second after the one before it, or, where
 * it cannot wait so long, denied when its time is over. One who waits for exactly an hour is forgotten.
 */
struct five {
    struct player player;
    uint64_t spent;
    unsigned opened, closed, decided;
    struct waits {
        size_t handle;
        weir_ns from, until;
        bool is_served, has_ended;
    } waiters[WAITERS_MAX];
    size_t waiter_count;
    weir_ns busy_until;
    bool repeats_fences;
};

static enum player_result five_open(struct player *player, const struct timeline *timeline, FILE *err)
{
    struct five *five = (struct five *)player;
    (void)timeline;
    (void)err;
    five->spent = 0;
    five->waiter_count = 0;
    five->busy_until = 0;
    five->opened++;
    return PLAYER_OK;
}

/* Settles every reservation for what it cost, but finds none that is settled for 3, and forgets all on a reload. */
static enum player_result five_operate(struct five *five, const struct timeline_step *step, struct verdict *out)
{
    *out = (struct verdict){ .decided_at = WEIR_NO_TIME };
    if (step->kind == STEP_RELOAD)
        five->spent = 0;
    if (step->kind == STEP_SETTLE && step->request.cost == 3) {
        snprintf(five->player.error, sizeof five->player.error, "it is gone");
        out->effect.error = effect_find_error("reservation");
    } else {
        effect_from_settlement(&(struct weir_settlement){ .charged = step->request.cost }, &out->effect);
        five->spent += step->kind == STEP_SETTLE ? step->request.cost : 0;
    }
    return PLAYER_OK;
}

static void five_wait(struct five *five, const struct timeline_step *step, uint64_t turn, struct verdict *out)
{
    struct waits *waiter = &five->waiters[five->waiter_count++];
    weir_ns deadline = step->at + step->request.wait;
    weir_ns at = (five->busy_until > step->at ? five->busy_until : step->at) + WEIR_SECOND;
    bool is_served = at <= deadline && step->request.wait != WEIR_HOUR;
    *waiter = (struct waits){ step->handle + turn, step->at, is_served ? at : deadline, is_served, false };
    five->busy_until = is_served ? at : five->busy_until;
    *out = (struct verdict){ .bound = { .outcome = WEIR_WAIT, .name = "five" } };
}

static enum player_result five_advance(struct player *player, weir_ns now)
{
    struct five *five = (struct five *)player;
    for (size_t i = 0; i < five->waiter_count; i++)
        if (five->waiters[i].until <= now && five->waiters[i].until - five->waiters[i].from != WEIR_HOUR)
            five->waiters[i].has_ended = true;
    return PLAYER_OK;
}

static bool five_collect(struct player *player, size_t *handle, struct verdict *out)
{
    struct five *five = (struct five *)player;
    for (size_t i = 0; i < five->waiter_count; i++) {
        struct waits *waiter = &five->waiters[i];
        if (!waiter->has_ended)
            continue;
        *handle = waiter->handle;
        *out = (struct verdict){ .bound = { .outcome = waiter->is_served ? WEIR_ALLOW : WEIR_DENY,
                                            .name = "five" },
                                 .waited = waiter->until - waiter->from,
                                 .fence = !waiter->is_served     ? 0
                                          : five->repeats_fences ? 7
                                                                 : waiter->until,
                                 .expires_after = waiter->is_served ? WEIR_SECOND : WEIR_NO_TIME };
        *waiter = five->waiters[--five->waiter_count];
        return true;
    }
    return false;
}

static void five_leave(struct five *five, const struct timeline_step *step, struct verdict *out)
{
    for (size_t i = 0; i < five->waiter_count; i++)
        if (five->waiters[i].handle == step->handle) {
            five->waiters[i] = five->waiters[--five->waiter_count];
            return;
        }
    out->effect.error = effect_find_error("ended");
}

static enum player_result five_perform(struct player *player, const struct timeline_step *step, uint64_t turn,
                                       struct verdict *out)
{
    struct five *five = (struct five *)player;
    const struct weir_request *request = &step->request;
    weir_ns now = step->at;
    player->error[0] = '\0';
    if (step->kind == STEP_LEAVE) {
        *out = (struct verdict){ .decided_at = WEIR_NO_TIME };
        five_leave(five, step, out);
        return PLAYER_OK;
    }
    if (!step_decides(step->kind))
        return five_operate(five, step, out);
    if (step->may_wait) {
        five_wait(five, step, turn, out);
        return PLAYER_OK;
    }
    five->decided++;
    if (request->attribute_count == 0) {
        snprintf(player->error, sizeof player->error, "the request is empty");
        return PLAYER_FAULTY;
    }
    bool passes = five->spent + request->cost <= 5;
    if (passes && !request->is_peek)
        five->spent += request->cost;
    *out = (struct verdict){ .bound = { .outcome = passes ? WEIR_ALLOW : WEIR_DENY,
                                        .name = "five",
                                        .has_capacity = true,
                                        .has_remaining = true,
                                        .capacity = 5,
                                        .remaining = 5 - five->spent,
                                        .retry_after = passes ? 0 : WEIR_NO_TIME,
                                        .reset_after = five->spent == 0 ? 0 : WEIR_NO_TIME },
                             .decided_at = now,
                             .expires_after = WEIR_NO_TIME,
                             .count = 1 };
    out->each[0] = out->bound;
    return PLAYER_OK;
}

static void five_close(struct player *player)
{
    ((struct five *)player)->closed++;
}

static void five_init(struct five *five)
{
    *five = (struct five){ .player = { .name = "five",
                                       .open = five_open,
                                       .perform = five_perform,
                                       .advance = five_advance,
                                       .collect = five_collect,
                                       .close = five_close } };
}

/* Play steps (YAML, indented by two); gives all that was told. The caller frees it. */
static enum player_result play(struct five *five, const char *steps, struct play *totals, char **told)
{
    char text[4096];
    size_t len;
    snprintf(text, sizeof text, "contract: none\ntimeline:\n%s", steps);
    struct timeline *timeline = timeline_parse(text, strlen(text), "t.yaml", stderr, false);
    assert_non_null(timeline);
    FILE *out = open_memstream(told, &len);
    *totals = (struct play){ .player = &five->player, .out = out, .err = out };
    enum player_result result = play_timeline(totals, timeline);
    fclose(out);
    timeline_free(timeline);
    return result;
}

static void what_is_as_expected_is_not_told(void **state)
{
    struct five five;
    struct play totals;
    char *told;
    (void)state;
    five_init(&five);
    assert_int_equal(
        PLAYER_OK, play(&five,
                        "  - { at: 1s, request: { a: b }, times: 6, expect: { allow: 5, deny: 1, limit: five,"
                        " remaining: 0, retry_after: null, decided_at: 1s, policy: null,"
                        " limits: [{ limit: five, capacity: 5 }] } }\n"
                        "  - { at: 2s, request: { a: b }, cost: 0, peek: true, expect: { decision: allow } }\n",
                        &totals, &told));
    assert_string_equal(told, "");
    assert_int_equal(totals.failed_steps, 0);
    assert_int_equal(totals.steps, 2);
    assert_int_equal(totals.decisions, 7);
    assert_int_equal(five.opened, 1);
    assert_int_equal(five.closed, 1);
    free(told);
}

static void each_fact_can_fail(void **state)
{
    static const char *const facts[] = {
        "deny: 1",
        "decision: deny",
        "limit: other",
        "limit: null",
        "policy: open",
        "reason: full",
        "capacity: 4",
        "capacity: null",
        "remaining: 5",
        "remaining: null",
        "limits: []",
        "retry_after: 1s",
        "reset_after: 1s",
        "retry_after: null",
        "decided_at: 2s",
        "served_at: 2s",
        "served_at: null",
        "ended_at: 2s",
        "waited: 1ns",
        "limits: [{ limit: other }]",
        "limits: [{ limit: five, remaining: 3 }]",
        "limits: [{ limit: five }, { limit: five }]",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(facts); i++) {
        struct five five;
        struct play totals;
        char *told;
        char step[256];
        five_init(&five);
        snprintf(step, sizeof step, "  - { at: 1s, request: { a: b }, expect: { %s } }\n", facts[i]);
        assert_int_equal(PLAYER_OK, play(&five, step, &totals, &told));
        expect_row(totals.failed_steps == 1, facts[i]);
        free(told);
    }
}

static void a_failure_tells_its_story(void **state)
{
    struct five five;
    struct play totals;
    char *told;
    (void)state;
    five_init(&five);
    assert_int_equal(
        PLAYER_OK, play(&five,
                        "  - { at: 0s, request: { a: b }, cost: 2 }\n"
                        "  - { at: 1500ms, request: { a: b, c: d }, cost: 2, times: 2,\n"
                        "      expect: { allow: 2, remaining: 1, limits: [{ limit: five, remaining: 1 }] } }\n"
                        "  - { at: 2s, request: { a: b }, expect: { allow: 1, remaining: 0 } }\n",
                        &totals, &told));
    assert_string_equal(told, "t.yaml:4:5: step 2 at 1.5s failed\n"
                              "    request   a=b c=d (cost 2, 2 times)\n"
                              "    expected  allow=2; last: remaining=1\n"
                              "    came      allow=1 deny=1; last: remaining=1\n"
                              "    differs   allow: 2 expected, 1 came; deny: 0 expected, 1 came\n"
                              "    limits    limit=five remaining=1 expected\n"
                              "    before    allow five remaining=3/5 reset=never\n"
                              "    after     deny five remaining=1/5 retry=never\n");
    assert_int_equal(totals.failed_steps, 1);
    assert_int_equal(totals.steps, 3);
    assert_int_equal(five.opened, 2); /* again for the state before */
    assert_int_equal(five.closed, 2);
    free(told);
}

static void operations_tell_what_they_did(void **state)
{
    struct five five;
    struct play totals;
    char *told;
    (void)state;
    five_init(&five);
    assert_int_equal(
        PLAYER_OK,
        play(&five,
             "  - { at: 0s, reserve: { a: b }, as: r, cost: 1, expect: { allow: 1 } }\n"
             "  - { at: 1s, settle: r, cost: 2, expect: { charged: 1, error: null, repeated: false } }\n"
             "  - { at: 2s, settle: r, cost: 3, expect: { charged: 3 } }\n"
             "  - { at: 3s, settle: r, cost: 3, expect: { error: reservation } }\n"
             "  - { at: 4s, reset: { limit: five, key: { a: b } }, expect: { error: limit } }\n"
             "  - { at: 5s, reload: other.yaml }\n"
             "  - { at: 5s, request: { a: b }, expect: { remaining: 4 } }\n",
             &totals, &told));
    assert_string_equal(told,
                        "t.yaml:4:5: step 2 at 1s failed\n"
                        "    settle    r (cost 2)\n"
                        "    expected  error=null repeated=false charged=1\n"
                        "    came      error=null repeated=false charged=2\n"
                        "    differs   charged: 1 expected, 2 came\n"
                        "    before    allow five remaining=4/5 reset=never\n"
                        "    after     allow five remaining=2/5 reset=never\n"
                        "t.yaml:5:5: step 3 at 2s failed\n"
                        "    settle    r (cost 3)\n"
                        "    expected  charged=3\n"
                        "    came      charged=null\n"
                        "    differs   error: null expected, reservation came; charged: 3 expected, null came\n"
                        "    error     it is gone\n"
                        "    before    allow five remaining=2/5 reset=never\n"
                        "    after     allow five remaining=2/5 reset=never\n"
                        "t.yaml:7:5: step 5 at 4s failed\n"
                        "    reset     five a=b \n"
                        "    expected  error=limit\n"
                        "    came      error=null\n"
                        "    differs   error: limit expected, null came\n");
    assert_int_equal(totals.failed_steps, 3);
    assert_int_equal(totals.steps, 7);
    assert_int_equal(totals.decisions, 2);
    free(told);
}

static void who_waits_is_compared_when_it_has_ended(void **state)
{
    struct five five;
    struct play totals;
    char *told;
    (void)state;
    five_init(&five);
    assert_int_equal(
        PLAYER_OK,
        play(&five,
             "  - { at: 1s, acquire: { a: b }, wait: 10s, times: 3, as: w,\n"
             "      expect: { allow: 3, served_at: 4s, waited: 3s, ended_at: 4s, expires_after: 1s } }\n"
             "  - { at: 1s, request: { a: b }, wait: 2s, expect: { deny: 1, served_at: null, ended_at: 3s } }\n"
             "  - { at: 2s, request: { a: b }, wait: 20s, times: 2, as: v, expect: { allow: 1, left: 1 } }\n"
             "  - { at: 3s, leave: v.2 }\n"
             "  - { at: 4s, leave: w.3, expect: { error: ended } }\n",
             &totals, &told));
    assert_string_equal(told, "");
    assert_int_equal(totals.failed_steps, 0);
    assert_int_equal(totals.steps, 5);
    assert_int_equal(totals.decisions, 5);
    assert_int_equal(five.waiter_count, 0);
    free(told);
}

static void fences_must_rise(void **state)
{
    struct five five;
    struct play totals;
    char *told;
    (void)state;
    five_init(&five);
    five.repeats_fences = true;
    assert_int_equal(PLAYER_OK, play(&five, "  - { at: 1s, acquire: { a: b }, wait: 10s, times: 2, as: w }\n",
                                     &totals, &told));
    assert_string_equal(told, "t.yaml: a permit's fence is not above that of an earlier one\n");
    assert_int_equal(totals.failed_steps, 1);
    free(told);
}

static void who_waits_has_a_story_too(void **state)
{
    struct five five;
    struct play totals;
    char *told;
    (void)state;
    five_init(&five);
    assert_int_equal(
        PLAYER_OK,
        play(&five,
             "  - { at: 0s, request: { a: b }, wait: 10s, as: w, expect: { allow: 1, served_at: 2s } }\n"
             "  - { at: 0s, request: { a: b }, wait: 1h, times: 2, as: v, expect: { left: 2 } }\n"
             "  - { at: 2s, leave: v.1 }\n"
             "  - { at: 3s, leave: w }\n"
             "  - { at: 4s, request: { a: b }, expect: { deny: 1 } }\n",
             &totals, &told));
    assert_string_equal(told, "t.yaml:3:5: step 1 at 0s failed\n"
                              "    request   a=b (cost 1, waits for up to 10s)\n"
                              "    expected  allow=1; served_at=2s\n"
                              "    came      allow=1; served_at=1s\n"
                              "    differs   served_at: 2s expected, 1s came\n"
                              "    before    allow five remaining=5/5 reset=0s\n"
                              "    after     allow five; it meets no limit\n"
                              "t.yaml:4:5: step 2 at 0s failed\n"
                              "    request   a=b (cost 1, 2 times, waits for up to 3600s)\n"
                              "    expected  left=2\n"
                              "    came      wait=1 left=1\n"
                              "    differs   wait: 0 expected, 1 came; left: 2 expected, 1 came\n"
                              "    before    allow five remaining=5/5 reset=0s\n"
                              "    after     wait five; it meets no limit\n"
                              "t.yaml:6:5: step 4 at 3s failed\n"
                              "    leave     w \n"
                              "    expected  \n"
                              "    came      \n"
                              "    differs   error: null expected, ended came\n"
                              "    before    allow five remaining=5/5 reset=0s\n"
                              "    after     allow five remaining=5/5 reset=0s\n"
                              "t.yaml:7:5: step 5 at 4s failed\n"
                              "    request   a=b (cost 1)\n"
                              "    expected  deny=1\n"
                              "    came      allow=1\n"
                              "    differs   allow: 0 expected, 1 came; deny: 1 expected, 0 came\n"
                              "    before    allow five remaining=5/5 reset=0s\n"
                              "    after     allow five remaining=4/5 reset=never\n");
    assert_int_equal(totals.failed_steps, 4);
    free(told);
}

static void only_ten_failures_are_printed(void **state)
{
    struct five five;
    struct play totals;
    char *told;
    char steps[2048] = "";
    (void)state;
    five_init(&five);
    for (int i = 0; i < 13; i++)
        strcat(steps, "  - { at: 0s, request: { a: b }, peek: true, expect: { deny: 1 } }\n");
    assert_int_equal(PLAYER_OK, play(&five, steps, &totals, &told));
    assert_int_equal(totals.failed_steps, 13);
    assert_non_null(strstr(told, "step 10 at 0s failed"));
    assert_null(strstr(told, "step 11 at"));
    assert_non_null(strstr(told, "t.yaml: 3 more steps failed\n"));
    free(told);
}

static void a_faulty_request_ends_the_play(void **state)
{
    struct five five;
    struct play totals;
    char *told;
    (void)state;
    five_init(&five);
    assert_int_equal(PLAYER_FAULTY, play(&five,
                                         "  - { at: 0s, request: {} }\n"
                                         "  - { at: 0s, request: { a: b } }\n",
                                         &totals, &told));
    assert_string_equal(told, "t.yaml:3:5: error: the request is empty\n");
    assert_int_equal(five.decided, 1);
    assert_int_equal(five.closed, 1);
    free(told);
}

static void texts_of_verdicts(void **state)
{
    static const struct row {
        const char *why;
        struct verdict_limit limit;
        weir_ns step;
        const char *text;
    } rows[] = {
        { "the form of the manual",
          { WEIR_ALLOW, 0, 0, "tenant-requests", true, true, 20, 19, 0, 200 * WEIR_MILLISECOND },
          WEIR_MILLISECOND,
          "allow tenant-requests remaining=19/20 reset=0.2s" },
        { "a refusal names when",
          { WEIR_DENY, 0, 0, "tenant-requests", true, true, 20, 0, 199000001, 4 * WEIR_SECOND },
          WEIR_MILLISECOND,
          "deny tenant-requests remaining=0/20 retry=0.2s" },
        { "exactly",
          { WEIR_DENY, 0, 0, "l", true, true, 20, 0, 199000001, 0 },
          1,
          "deny l remaining=0/20 retry=0.199000001s" },
        { "no limit", { WEIR_ALLOW, 0, 0, "", false, false, 0, 0, 0, WEIR_NO_TIME }, 1, "allow (no limit)" },
        { "never has no time",
          { WEIR_NEVER, 0, 0, "l", true, true, 20, 20, WEIR_NO_TIME, 0 },
          1,
          "never l remaining=20/20" },
        { "never, and why",
          { WEIR_NEVER, 0, WEIR_REASON_ATTRIBUTE, "", false, false, 0, 0, WEIR_NO_TIME, WEIR_NO_TIME },
          1,
          "never (no limit) reason=attribute" },
        { "nothing comes back",
          { WEIR_DENY, 0, 0, "l", true, true, 2, 0, WEIR_NO_TIME, WEIR_NO_TIME },
          1,
          "deny l remaining=0/2 retry=never" },
        { "undecided",
          { WEIR_REFUSED, WEIR_POLICY_CLOSED, WEIR_REASON_FULL, "l", true, false, 2, 0, WEIR_NO_TIME,
            WEIR_NO_TIME },
          1,
          "refused l policy=closed reason=full" },
        { "undecided, for a while",
          { WEIR_REFUSED, WEIR_POLICY_CLOSED, WEIR_REASON_CONTENDED, "l", true, false, 2, 0, WEIR_SECOND,
            WEIR_NO_TIME },
          1,
          "refused l retry=1s policy=closed reason=contended" },
        { "undecided, and let through",
          { WEIR_UNMETERED, WEIR_POLICY_OPEN, WEIR_REASON_FULL, "l", true, false, 2, 0, 0, WEIR_NO_TIME },
          1,
          "unmetered l policy=open reason=full" },
        { "decided by the cell that is shared",
          { WEIR_ALLOW, WEIR_POLICY_OVERFLOW, 0, "l", true, true, 2, 1, 0, WEIR_HOUR },
          1,
          "allow l remaining=1/2 reset=3600s policy=overflow" },
        { "the largest numbers fit",
          { WEIR_ALLOW, WEIR_POLICY_OVERFLOW, WEIR_REASON_MISSING_KEY,
            "123456789012345678901234567890123456789012345678901234567890123", true, true, UINT64_MAX,
            UINT64_MAX, 0, WEIR_NO_TIME - 1 },
          1,
          "allow 123456789012345678901234567890123456789012345678901234567890123 "
          "remaining=18446744073709551615/18446744073709551615 reset=18446744073.709551614s policy=overflow "
          "reason=missing-key" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[VERDICT_TEXT_MAX];
        verdict_text(&rows[i].limit, rows[i].step, text);
        if (strcmp(text, rows[i].text) != 0)
            fail_msg("%s: expected %s, came %s", rows[i].why, rows[i].text, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_as_expected_is_not_told),
        cmocka_unit_test(each_fact_can_fail),
        cmocka_unit_test(a_failure_tells_its_story),
        cmocka_unit_test(who_waits_is_compared_when_it_has_ended),
        cmocka_unit_test(fences_must_rise),
        cmocka_unit_test(who_waits_has_a_story_too),
        cmocka_unit_test(only_ten_failures_are_printed),
        cmocka_unit_test(operations_tell_what_they_did),
        cmocka_unit_test(a_faulty_request_ends_the_play),
        cmocka_unit_test(texts_of_verdicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
