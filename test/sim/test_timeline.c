// SPDX-License-Identifier: Apache-2.0
/* test_timeline.c - what test files mean, and how each mistake in them is told. */
#include "support/unit.h"

#include "sim/timeline.h"

#define CONTRACT "contract: weir.yaml\n"
#define STEP "timeline:\n  - at: 1s\n    request: { tenant: acme }\n"

/* Parse and give what was told; the caller frees both. */
static struct timeline *parse(const char *text, char **told)
{
    size_t len;
    FILE *err = open_memstream(told, &len);
    struct timeline *timeline = timeline_parse(text, strlen(text), "folder/t.test.yaml", err, false);
    fclose(err);
    return timeline;
}

static void every_field_is_read(void **state)
{
    static const char text[] = "about: the form\n"
                               "contract: sub/weir.yaml\n"
                               "start: 2024-02-29T23:59:59Z\n"
                               "timeline:\n"
                               "  - at: 1m30s\n"
                               "    about: all of it\n"
                               "    request: { tenant: acme, size: 10, flag: true, none: '' }\n"
                               "    times: 3\n"
                               "    cost: 9223372036854775807\n"
                               "    peek: true\n"
                               "    expect: { allow: 1, deny: 2, decision: deny, limit: a, policy: overflow,\n"
                               "              reason: full, capacity: 20, remaining: 0, retry_after: 800ms,\n"
                               "              reset_after: null, decided_at: 2s,\n"
                               "              limits: [{ limit: a, remaining: null }, { limit: b }] }\n"
                               "  - request: {}\n";
    char *told;
    struct timeline *timeline = parse(text, &told);
    (void)state;
    assert_string_equal(told, "");
    assert_non_null(timeline);
    assert_string_equal(timeline->contract.path, "folder/sub/weir.yaml");
    assert_int_equal(timeline->start_wall, INT64_C(1709251199000000000));
    assert_int_equal(timeline->step_count, 2);

    const struct timeline_step *step = &timeline->steps[0];
    assert_int_equal(step->at, 90 * WEIR_SECOND);
    assert_int_equal(step->times, 3);
    assert_true(step->request.cost == INT64_MAX);
    assert_true(step->request.is_peek);
    assert_int_equal(step->request.attribute_count, 4);
    assert_string_equal(step->request.attributes[1].name, "size");
    assert_string_equal(step->request.attributes[1].value, "10");
    assert_int_equal(step->request.attributes[3].len, 0);
    assert_true(step->has_counts);
    assert_int_equal(step->counts[WEIR_DENY], 2);
    assert_int_equal(step->last.given, (1u << FACT_ENFORCED) - 1);
    assert_int_equal(step->last.value.outcome, WEIR_DENY);
    assert_int_equal(step->last.value.policy, WEIR_POLICY_OVERFLOW);
    assert_int_equal(step->last.value.reason, WEIR_REASON_FULL);
    assert_true(step->last.value.has_capacity && step->last.value.capacity == 20);
    assert_int_equal(step->last.value.retry_after, 800 * WEIR_MILLISECOND);
    assert_true(step->last.value.reset_after == WEIR_NO_TIME);
    assert_int_equal(step->last.decided_at, 2 * WEIR_SECOND);
    assert_int_equal(step->limit_count, 2);
    assert_false(step->limits[0].value.has_remaining);
    assert_int_equal(step->limits[1].given, 1u << FACT_LIMIT);

    /* A step without `at` is made when the one before was; without the others: once, cost 1, nothing expected. */
    assert_int_equal(timeline->steps[1].at, 90 * WEIR_SECOND);
    assert_int_equal(timeline->steps[1].times, 1);
    assert_int_equal(timeline->steps[1].request.cost, 1);
    assert_false(timeline->steps[1].has_counts);
    timeline_free(timeline);
    free(told);
}

static void operations_are_read(void **state)
{
    static const char text[] = CONTRACT
        "timeline:\n"
        "  - { at: 0s, reserve: { tenant: acme }, as: a, cost: 8, expect: { allow: 1 } }\n"
        "  - { at: 0s, reserve: { tenant: acme }, times: 3 }\n"
        "  - { at: 1s, reserve: {}, as: b }\n"
        "  - { settle: b, cost: 0, expect: { charged: 1, returned: 2, dropped: 3, remaining: 4, repeated: true "
        "} }\n"
        "  - { cancel: a, expect: { error: reservation } }\n"
        "  - { refund: { tenant: acme }, cost: 5, expect: { returned: 5, limit: l } }\n"
        "  - { reset: { limit: l, key: { tenant: acme } }, expect: { error: null } }\n"
        "  - { reload: sub/next.yaml, expect: { kept: 1, resized: 2, added: 3, restarted: 4, removed: 5 } }\n"
        "  - reload:\n      weir: 1\n"
        "  - { restart: true }\n";
    char *told;
    struct timeline *timeline = parse(text, &told);
    (void)state;
    assert_string_equal(told, "");
    assert_non_null(timeline);
    const struct timeline_step *steps = timeline->steps;
    static const enum step_kind kinds[] = {
        STEP_RESERVE, STEP_RESERVE, STEP_RESERVE, STEP_SETTLE, STEP_CANCEL,
        STEP_REFUND,  STEP_RESET,   STEP_RELOAD,  STEP_RELOAD, STEP_RESTART
    };
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        assert_int_equal(steps[i].kind, kinds[i]);
    assert_int_equal(timeline->handle_count, 2);
    assert_int_equal(steps[0].handle, 0);
    assert_true(steps[1].handle == TIMELINE_NO_HANDLE);
    assert_int_equal(steps[3].handle, 1);
    assert_int_equal(steps[3].request.cost, 0);
    assert_int_equal(steps[3].last.effect.number[EFFECT_DROPPED], 3);
    assert_true(steps[3].last.effect.is_repeated);
    assert_int_equal(steps[4].handle, 0);
    assert_string_equal(steps[4].last.effect.error, "reservation");
    assert_ptr_equal(timeline->named[0], &steps[0]);
    assert_string_equal(steps[6].limit, "l");
    assert_int_equal(steps[6].request.attribute_count, 1);
    assert_null(steps[6].last.effect.error);
    assert_string_equal(steps[7].contract.path, "folder/sub/next.yaml");
    assert_int_equal(steps[7].last.effect.number[EFFECT_REMOVED], 5);
    assert_null(steps[8].contract.path);
    static const char cut[] = "\n\n\n\n\n\n\n\n\n\n\n      weir: 1\n"; /* where it stood; blanks may follow */
    assert_true(steps[8].contract.text.len >= sizeof cut - 1);
    assert_memory_equal(steps[8].contract.text.at, cut, sizeof cut - 1);
    timeline_free(timeline);
    free(told);
}

static void waiting_and_permits_are_read(void **state)
{
    static const char text[] =
        CONTRACT "timeline:\n"
                 "  - { at: 0s, request: { tenant: acme }, wait: 30s, times: 100, as: w,\n"
                 "      expect: { allow: 99, left: 1, served_at: 19800ms, waited: 19s, ended_at: 3s } }\n"
                 "  - { at: 0s, acquire: {}, wait: 1d, as: p.1 }\n"
                 "  - { at: 0s, request: {}, wait: 0s, expect: { served_at: null } }\n"
                 "  - { at: 3s, leave: w.50, expect: { error: ended } }\n"
                 "  - { renew: p.1, expect: { expires_after: 30s } }\n"
                 "  - { release: p.1, expect: { released: false, error: permit } }\n"
                 "  - { leave: p.1 }\n";
    char *told;
    struct timeline *timeline = parse(text, &told);
    (void)state;
    assert_string_equal(told, "");
    assert_non_null(timeline);
    const struct timeline_step *steps = timeline->steps;
    static const enum step_kind kinds[] = { STEP_REQUEST, STEP_ACQUIRE, STEP_REQUEST, STEP_LEAVE,
                                            STEP_RENEW,   STEP_RELEASE, STEP_LEAVE };
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        assert_int_equal(steps[i].kind, kinds[i]);
    assert_int_equal(timeline->handle_count, 102);
    assert_true(steps[0].may_wait);
    assert_int_equal(steps[0].request.wait, 30 * WEIR_SECOND);
    assert_int_equal(steps[0].counts[COUNT_LEFT], 1);
    assert_int_equal(steps[0].last.served_at, 19800 * WEIR_MILLISECOND);
    assert_int_equal(steps[0].last.waited, 19 * WEIR_SECOND);
    assert_int_equal(steps[0].last.ended_at, 3 * WEIR_SECOND);
    assert_int_equal(steps[1].handle, 100);
    assert_int_equal(steps[1].request.wait, WEIR_WAIT_MAX);
    assert_int_equal(steps[2].handle, 101); /* it has no name, but a number while it waits */
    assert_true(steps[2].last.served_at == WEIR_NO_TIME);
    assert_int_equal(steps[3].handle, 49);
    assert_int_equal(steps[4].handle, 100);
    assert_int_equal(steps[4].last.expires_after, 30 * WEIR_SECOND);
    assert_false(steps[5].last.effect.is_released);
    assert_string_equal(steps[5].last.effect.error, "permit");
    assert_int_equal(steps[6].handle, 100);
    timeline_free(timeline);
    free(told);
}

static void replicas_and_the_store_are_read(void **state)
{
    static const char text[] = CONTRACT "timeline:\n"
                                        "  - { request: {}, replica: b }\n"
                                        "  - { request: {} }\n"
                                        "  - { store: away }\n"
                                        "  - { reserve: {}, replica: c, as: r }\n"
                                        "  - { store: lost }\n"
                                        "  - { store: back }\n"
                                        "  - { settle: r, cost: 1 }\n"
                                        "  - { cancel: r, replica: b, expect: { error: store } }\n"
                                        "  - { restart: true, replica: b }\n"
                                        "  - { store: away }\n";
    static const size_t replicas[] = { 1, 0, 0, 2, 0, 0, 2, 1, 1, 0 };
    static const enum store_event events[] = {
        [2] = STORE_AWAY, [4] = STORE_LOST, [5] = STORE_BACK, [9] = STORE_AWAY
    };
    char *told;
    struct timeline *timeline = parse(text, &told);
    (void)state;
    assert_string_equal(told, "");
    assert_non_null(timeline);
    assert_int_equal(timeline->replica_count, 3);
    assert_true(timeline->has_store_steps);
    for (size_t i = 0; i < COUNT_OF(replicas); i++) {
        assert_int_equal(timeline->steps[i].replica,
                         replicas[i]); /* what ends a handle: the one that made it */
        if (timeline->steps[i].kind == STEP_STORE)
            assert_int_equal(timeline->steps[i].store, events[i]);
    }
    assert_string_equal(timeline->steps[7].last.effect.error, "store");
    timeline_free(timeline);
    free(told);
}

static void there_are_sixteen_replicas_at_most(void **state)
{
    char text[1024], *told;
    int len = snprintf(text, sizeof text, CONTRACT "timeline:\n");
    (void)state;
    for (int i = 1; i <= TIMELINE_REPLICAS_MAX; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, "  - { request: {}, replica: r%d }\n", i);
    assert_null(parse(text, &told));
    assert_non_null(strstr(told, ":18:29: error: replica: 'r16' is one replica too many\n"));
    free(told);
}

static void an_inline_contract_keeps_its_place(void **state)
{
    static const struct row {
        const char *why, *text, *cut;
    } rows[] = {
        { "a block", "about: \xc3\xbc\ncontract:\n  weir: 1\n  limits: []\ntimeline: [{ request: {} }]\n",
          "\n\n  weir: 1\n  limits: []\n" },
        { "one line", "contract: { weir: 1, about: \xc3\xbc }\ntimeline: [{ request: {} }]\n",
          "          { weir: 1, about: \xc3\xbc }" },
        { "behind the timeline", "timeline: [{ request: {} }]\ncontract:\n  weir: 1", "\n\n  weir: 1" },
        { "behind a byte order mark",
          "\xef\xbb\xbf"
          "contract:\n  weir: 1\ntimeline: [{ request: {} }]\n",
          "\n  weir: 1\n" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *told;
        struct timeline *timeline = parse(rows[i].text, &told);
        expect_row(timeline != NULL, rows[i].why);
        expect_row(timeline->contract.path == NULL, rows[i].why);
        expect_row(slice_equals(timeline->contract.text, slice_of(rows[i].cut)), rows[i].why);
        timeline_free(timeline);
        free(told);
    }
}

/* The first line of what is told: place and message. */
static void mistakes_are_told_with_their_place(void **state)
{
    static const struct row {
        const char *text, *told;
    } rows[] = {
        { "", "error: the file is empty" },
        { "a: [", "2:1: error: did not find expected node content, while parsing a flow node" },
        { "[]", "1:1: error: the test file is a list" },
        { STEP, "1:1: error: the test file lacks `contract`" },
        { CONTRACT, "1:1: error: the test file lacks `timeline`" },
        { CONTRACT "timeline: []", "2:11: error: timeline: 'a list' holds no steps" },
        { CONTRACT "timeline: 5", "2:11: error: timeline: '5' holds no steps" },
        { CONTRACT "timeline: [5]", "2:12: error: the step is 5" },
        { CONTRACT "timeline: [{}]", "2:12: error: the step does nothing" },
        { "contract: []\n" STEP, "1:11: error: contract: 'a list' is no contract" },
        { CONTRACT CONTRACT STEP, "2:1: error: 'contract' is given twice" },
        { CONTRACT STEP "    tims: 5", "5:5: error: the step has no field 'tims'" },
        { CONTRACT STEP "    times: 0", "5:12: error: times: '0' is not that" },
        { CONTRACT STEP "    times: 1000001", "5:12: error: times: '1000001' is not that" },
        { CONTRACT STEP "    times: '5'", "5:12: error: times: '5' is not that" },
        { CONTRACT STEP "    times: 1e3", "5:12: error: times: '1e3' is not that" },
        { CONTRACT STEP "    cost: -1", "5:11: error: cost: '-1' is not that" },
        { CONTRACT STEP "    cost: 9223372036854775808",
          "5:11: error: cost: '9223372036854775808' is not that" },
        { CONTRACT STEP "    cost: ''", "5:11: error: cost: '' is not that" },
        { CONTRACT STEP "    peek: yes", "5:11: error: peek: 'yes' is neither" },
        { CONTRACT STEP "    at: 1s", "5:5: error: 'at' is given twice" },
        { CONTRACT "timeline: [{ at: 5, request: {} }]", "2:18: error: at: '5' is no duration" },
        { CONTRACT "timeline: [{ request: acme }]", "2:23: error: request: 'acme' is no request" },
        { CONTRACT "timeline: [{ request: { a: [] } }]", "2:28: error: attribute 'a' is a list" },
        { CONTRACT "start: today\n" STEP, "2:8: error: start: 'today' is no instant" },
        { CONTRACT STEP "    store: away", "3:5: error: the step does two things" },
        { CONTRACT "timeline: [{ store: gone }]",
          "2:21: error: store: 'gone' is nothing that happens to a store" },
        { CONTRACT "timeline: [{ store: [] }]",
          "2:21: error: store: 'a list' is nothing that happens to a store" },
        { CONTRACT "timeline: [{ store: back }]", "2:21: error: store: 'back' has no `store: away` before it" },
        { CONTRACT "timeline: [{ store: away }, { store: lost }, { store: away }]",
          "2:55: error: store: 'away' is what it is already" },
        { CONTRACT "timeline: [{ store: away, replica: b }]",
          "2:12: error: `replica` does not go with `store`" },
        { CONTRACT "timeline: [{ store: away, expect: { error: null } }]",
          "2:12: error: `error` is nothing that comes of `store`" },
        { CONTRACT "timeline: [{ reload: a.yaml, replica: b }]",
          "2:12: error: `replica` does not go with `reload`" },
        { CONTRACT STEP "    replica: ''", "5:14: error: replica: '' is no name of a replica" },
        { CONTRACT STEP "    replica: []", "5:14: error: replica: 'a list' is no name of a replica" },
        { CONTRACT STEP "    wait: 5", "5:11: error: wait: '5' is no duration" },
        { CONTRACT STEP "    wait: 25h", "5:11: error: wait: '25h' is longer than anybody may wait" },
        { CONTRACT STEP "    wait: 5s\n    peek: true", "3:5: error: a look (`peek`) does not `wait`" },
        { CONTRACT STEP "    expect: { left: 1 }", "3:5: error: `left` without `wait`: nobody can leave" },
        { CONTRACT STEP "    expect: { released: true }",
          "3:5: error: `released` is nothing that comes of `request`" },
        { CONTRACT STEP "    expect: { expires_after: 1s }",
          "3:5: error: `expires_after` is nothing that comes of `request`" },
        { CONTRACT STEP "    wait: 1s\n    expect: { allow: 1, left: 1 }",
          "3:5: error: the step expects 2 decisions and makes 1" },
        { CONTRACT STEP "    wait: 1s\n    times: 65537",
          "3:5: error: more than 65536 requests are named or wait" },
        { CONTRACT STEP "    reload: b.yaml", "3:5: error: the step does two things" },
        { CONTRACT "timeline: [{ reload: a.yaml, as: a }]", "2:12: error: `as` does not go with `reload`" },
        { CONTRACT "timeline: [{ settle: a, wait: 1s, cost: 1 }]",
          "2:12: error: `wait` does not go with `settle`" },
        { CONTRACT STEP "    expect: { charged: 1 }",
          "3:5: error: `charged` is nothing that comes of `request`" },
        { CONTRACT STEP "    expect: { error: yes }", "5:22: error: error: 'yes' is no error" },
        { CONTRACT "timeline: [{ reserve: {}, peek: true }]",
          "2:12: error: `peek` does not go with `reserve`" },
        { CONTRACT "timeline: [{ reserve: {}, as: a, times: 2 }, { cancel: a }]",
          "2:46: error: 'a' names several" },
        { CONTRACT "timeline: [{ reserve: {}, as: a, times: 2 }, { cancel: a.3 }]",
          "2:46: error: 'a.3' names no reservation" },
        { CONTRACT "timeline: [{ reserve: {}, as: a, times: 2 }, { cancel: a.0 }]",
          "2:46: error: 'a.0' names no reservation" },
        { CONTRACT "timeline: [{ reserve: {}, as: a }, { cancel: a.1 }]",
          "2:36: error: 'a.1' names no reservation" },
        { CONTRACT "timeline: [{ reserve: {}, as: a }, { release: a }]", "2:36: error: 'a' names no permit" },
        { CONTRACT "timeline: [{ acquire: {}, as: a }, { cancel: a }]",
          "2:36: error: 'a' names no reservation" },
        { CONTRACT "timeline: [{ acquire: {}, as: a }, { leave: a }]",
          "2:36: error: 'a' names no request with `wait`" },
        { CONTRACT "timeline: [{ renew: a }]", "2:12: error: 'a' names no permit" },
        { CONTRACT "timeline: [{ reserve: {}, as: a }, { acquire: {}, as: a }]",
          "2:36: error: 'a' names an earlier step" },
        { CONTRACT "timeline: [{ settle: a, cost: 1 }]", "2:12: error: 'a' names no reservation" },
        { CONTRACT "timeline: [{ settle: a }]", "2:12: error: `settle` lacks `cost`" },
        { CONTRACT "timeline: [{ refund: {} }]", "2:12: error: `refund` lacks `cost`" },
        { CONTRACT "timeline: [{ cancel: {} }]", "2:22: error: cancel: 'a map' is no name that a step gives" },
        { CONTRACT "timeline: [{ reset: { limit: a } }]", "2:21: error: reset lacks `key`" },
        { CONTRACT "timeline: [{ reset: { limit: [], key: {} } }]",
          "2:30: error: limit: 'a list' is no name of a limit" },
        { CONTRACT "timeline: [{ reload: 5, expect: { allow: 1 } }]",
          "2:12: error: `reload` makes no decision" },
        { CONTRACT "timeline: [{ reload: [] }]", "2:22: error: reload: 'a list' is no contract" },
        { CONTRACT "timeline: [{ restart: false }]", "2:23: error: restart: 'false' restarts nothing" },
        { CONTRACT "timeline: [{ restart: true, expect: { kept: 1 } }]",
          "2:12: error: `kept` is nothing that comes of `restart`" },
        { CONTRACT STEP "    expect: { served_at: 5 }", "5:26: error: served_at: '5' is no duration" },
        { CONTRACT STEP "    expect: { allow: 2 }", "3:5: error: the step expects 2 decisions and makes 1" },
        { CONTRACT STEP "    expect: { alow: 2 }", "5:15: error: expect has no field 'alow'" },
        { CONTRACT STEP "    expect: { remaining: x }", "5:26: error: remaining: 'x' is not that" },
        { CONTRACT STEP "    expect: { policy: full }", "5:23: error: policy: 'full' is no policy" },
        { CONTRACT STEP "    expect: { reason: open }", "5:23: error: reason: 'open' is no reason" },
        { CONTRACT STEP "    expect: { decision: wait }", "5:25: error: decision: 'wait' is no decision" },
        { CONTRACT STEP "    expect: { retry_after: 0.8 }", "5:28: error: retry_after: '0.8' is no duration" },
        { CONTRACT STEP "    expect: { limits: [{}] }", "5:24: error: an expected limit lacks `limit`" },
        { CONTRACT STEP "    expect: &a {}", "5:13: error: anchors and tags are not part of the form" },
        { CONTRACT STEP "    cost: *a", "5:11: error: aliases are not part of the form" },
        { CONTRACT STEP "    cost: !!int 5", "5:11: error: anchors and tags are not part of the form" },
        { CONTRACT STEP "    [a]: 5", "5:5: error: a key is a word, not a list or a map" },
        { CONTRACT STEP "---\na: 5", "error: more than one document" },
        { "a: [[[[[[[[[[[[[[[[[[[[[[[[[[", "1:21: error: nested more than 18 levels deep" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *told;
        char expected[256];
        struct timeline *timeline = parse(rows[i].text, &told);
        snprintf(expected, sizeof expected, "folder/t.test.yaml:%s%s\n",
                 rows[i].told[0] >= '0' && rows[i].told[0] <= '9' ? "" : " ", rows[i].told);
        if (timeline != NULL || strncmp(told, expected, strlen(expected)) != 0)
            fail_msg("expected %s came %s", expected, told);
        if (strstr(told, "\n  help: ") == NULL)
            fail_msg("no cure: %s", told);
        free(told);
    }
}

static void all_mistakes_are_told_in_one_run(void **state)
{
    char *told;
    struct timeline *timeline =
        parse(CONTRACT "timeline:\n  - at: 5\n    request: {}\n    cost: x\n  - tims: 5\n", &told);
    (void)state;
    assert_null(timeline);
    assert_string_equal(
        told, "folder/t.test.yaml:3:9: error: at: '5' is no duration\n"
              "      - at: 5\n"
              "            ^\n"
              "  help: write an integer with ns, us, ms, s, m, h, d or w, or a sum: 1m30s\n"
              "folder/t.test.yaml:5:11: error: cost: 'x' is not that\n"
              "        cost: x\n"
              "              ^\n"
              "  help: write an integer from 0 to 9223372036854775807 without quotes\n"
              "folder/t.test.yaml:6:5: error: the step has no field 'tims'\n"
              "      - tims: 5\n"
              "        ^~~~\n"
              "  help: known fields: at request reserve acquire settle cancel renew release leave refund "
              "reset reload restart store replica as wait times cost peek expect about\n");
    free(told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(operations_are_read),
        cmocka_unit_test(waiting_and_permits_are_read),
        cmocka_unit_test(replicas_and_the_store_are_read),
        cmocka_unit_test(there_are_sixteen_replicas_at_most),
        cmocka_unit_test(an_inline_contract_keeps_its_place),
        cmocka_unit_test(mistakes_are_told_with_their_place),
        cmocka_unit_test(all_mistakes_are_told_in_one_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
