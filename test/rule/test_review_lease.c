// SPDX-License-Identifier: Apache-2.0
/* test_review_lease.c - what lint finds in leases, and what explain says of them, with numbers worked out by hand. */
#include <jansson.h>
#include <stdlib.h>

#include "support/contracts.h"
#include "support/unit.h"

static struct loaded load(const char *limits)
{
    char text[8192];
    const struct weir_contract_options options = { .keys = 64,
                                                   .has_wall_offset = true,
                                                   .fleet = WEIR_FLEET_ALONE };
    snprintf(text, sizeof text, "weir: 1\nlimits:\n%s", limits);
    struct loaded loaded = contract_with(text, strlen(text), &options);
    if (loaded.error != 0)
        fail_msg("%s does not load: %s", text, loaded.printed);
    return loaded;
}

/* ---- lint -------------------------------------------------------------------------------------------------------------------- */

/* The findings as "LINE:WORD message => cure" joined by " | ", notes marked. */
static void review(const char *limits, unsigned replicas, char *out, size_t size)
{
    struct weir_diagnostics *diagnostics;
    struct loaded loaded = load(limits);
    assert_int_equal(weir_contract_lint(loaded.contract, replicas, &diagnostics), 0);
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < weir_diagnostics_count(diagnostics); i++) {
        const struct weir_diagnostic *item = weir_diagnostics_at(diagnostics, i);
        len += (size_t)snprintf(out + len, size - len, "%s%s%u:%.*s %s => %s", len == 0 ? "" : " | ",
                                item->severity == WEIR_SEVERITY_NOTE ? "note " : "", item->line,
                                (int)item->width, item->source + item->column - 1, item->message, item->cure);
        assert_true(len < size);
    }
    weir_diagnostics_free(diagnostics);
    loaded_free(&loaded);
}

#define LEASED(name, key, rate, burst, lease) \
    "- {name: " name ", key: " key ", rate: " rate ", burst: " burst ", scope: fleet, when-store-fails: " \
    "closed, lease: { " lease " }}\n"
#define WINDOW(rate, lease) \
    "- {name: a, key: [], algorithm: fixed-window, rate: " rate ", scope: fleet, when-store-fails: leased, " \
    "lease: { " lease " }}\n"
#define PACE(most, back, time, percent) \
    "3:{ limit 'a' may have " most " out, and " back " come back in the " time \
    " after which a portion is reported at the latest: portions surely carry " percent \
    " of the rate, and for the rest each request may ask the store => "
#define ONE_TOKEN "3:{ limit 'a' takes portions of one token: "
#define HALF(replicas, what, number) \
    "a portion is at most half of what is left for each of " replicas ", and its " what " is " number " => "
#define CHUNKS(replicas, chunk, most) \
    "note 3:{ limit 'a' lets " replicas " replicas hold " chunk " each and all of them " most ": who comes " \
    "when that is out gets none till others report => "

static void findings(void **state)
{
    (void)state;
    static const struct {
        const char *why, *limits;
        unsigned replicas;
        const char *found;
    } rows[] = {
        { "the design's example", LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 10, for: 2s"), 4, "" },
        { "closed goes with a lease, and so does what is in hand",
          WINDOW("1000000/1d", "most: 1000, chunk: 100"), 4, "" },
        { "ten come back in a second, and ten may be out",
          LEASED("a", "[]", "10/s", "100", "most: 10, chunk: 10, for: 2s"), 1, "" },
        /* 9 of 10 in the half of 2 s; 9 come back in 900 ms, the half of 1800. */
        { "one less is too few", LEASED("a", "[]", "10/s", "100", "most: 9, chunk: 9, for: 2s"), 1,
          PACE("9", "10", "1 s", "90 %") "raise most to 10, or lower for to 1800ms" },
        /* 2000 come back in a minute; 5 in 150 ms. */
        { "much too few, and the shortest time would not do",
          LEASED("a", "[]", "2000/1m", "3000", "most: 2, chunk: 2, for: 2m"), 1,
          PACE("2", "2000", "1 minute", "less than 1 %") "raise most to 2000" },
        { "more than the burst comes back", LEASED("a", "[]", "100/s", "20", "most: 20, chunk: 10, for: 2s"), 2,
          PACE("20", "100", "1 s", "20 %") "raise the burst and most to 100, or lower for to 400ms" },
        /* 1,000,000 a day are 11.57 a second. */
        { "a window", WINDOW("1000000/1d", "most: 11, chunk: 11, for: 2s"), 1,
          PACE("11", "12", "1 s", "95 %") "raise most to 12, or lower for to 1900ms" },
        { "and twelve are enough", WINDOW("1000000/1d", "most: 12, chunk: 12, for: 2s"), 1, "" },
        { "nothing comes back", LEASED("a", "[]", "0/1d", "100", "most: 50, chunk: 10"), 4, "" },
        { "a chunk of one", LEASED("a", "[]", "1/s", "100", "most: 50, chunk: 1"), 4,
          ONE_TOKEN "each request costs a message all the same => raise chunk, or remove the lease" },
        { "a burst of three for one", LEASED("a", "[]", "1/m", "3", "most: 3, chunk: 3"), 0,
          ONE_TOKEN HALF("1 replica", "burst", "3") "remove the lease, or raise the burst to 4" },
        { "four are two", LEASED("a", "[]", "1/m", "4", "most: 4, chunk: 4"), 0, "" },
        { "fifteen for four", LEASED("a", "[]", "1/m", "15", "most: 15, chunk: 3"), 4,
          ONE_TOKEN HALF("4 replicas", "burst", "15") "remove the lease, or raise the burst to 16" },
        { "a small window", WINDOW("7/1h", "most: 7, chunk: 3"), 2,
          ONE_TOKEN HALF("2 replicas", "count", "7") "remove the lease, or raise the count to 8" },
        { "exactly as many chunks as replicas", LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 10"), 5,
          "" },
        { "one replica too many", LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 10"), 6,
          CHUNKS("6", "10", "50") "write `chunk: 8` if all replicas are as busy, or leave it for one that is "
                                  "hot" },
        { "so many that a fair part is one token", LEASED("a", "[]", "1/s", "200", "most: 50, chunk: 10"), 30,
          CHUNKS("30", "10", "50") "raise most to 200, or leave it for one that is hot" },
        { "and all is out", LEASED("a", "[]", "1/s", "200", "most: 200, chunk: 50"), 50,
          CHUNKS("50", "50", "200") "write `chunk: 4` if all replicas are as busy, or leave it for one that is "
                                    "hot" },
        /* A hundredth and a fiftieth of 250 ms and 1 ms are 8.5 ms; of 1634 ms they are 50.02. */
        { "a request may wait beyond a portion's end",
          LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 10, for: 250ms") "store: { deadline: 50ms }\n", 1,
          "3:{ limit 'a' lets a request wait 50 ms for the store with a part of its cost out of the hand, and "
          "the "
          "store forgets a portion 8500 us after its end: each replica may then spend up to 10 too late => "
          "lower "
          "the deadline of store to 8ms, or raise for to 1634ms" },
        { "and is told in time with that",
          LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 10, for: 1634ms") "store: { deadline: 50ms }\n", 1,
          "" },
        { "or with this",
          LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 10, for: 250ms") "store: { deadline: 8ms }\n", 1,
          "" },
        { "the shortest time and the usual deadline",
          LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 10, for: 200ms"), 1, "" },
        { "nobody says how many replicas", LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 50"), 0, "" },
        { "off: not even asked",
          "- {name: a, key: [], rate: 10/s, burst: 3, scope: fleet, when-store-fails: closed, lease: { most: "
          "1, chunk: 1 }, enforce: \"off\"}\n- {name: b, key: [], rate: 1/s, burst: 1, scope: process}\n",
          4,
          "3:\"off\" limit 'a' is off: it is neither counted nor enforced => remove the limit, or write "
          "`enforce: shadow` to see what it would refuse" },
        { "open without an end is told of as ever",
          "- {name: a, key: [], rate: 10/s, burst: 100, scope: fleet, when-store-fails: open, lease: { most: "
          "50, "
          "chunk: 10 }}\n",
          4,
          "3:open limit 'a' lets everything through uncounted while the store is away, however long that is => "
          "write `{ open: 30s }` or `{ local: 1/N }`, add a limit with `scope: process` beside it, or say in "
          "`about` what sheds load then" },
        { "two alike: what other replicas hold of one makes it refuse",
          LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 10")
              LEASED("b", "[]", "10/s", "100", "most: 50, chunk: 10"),
          4, "" },
        { "and a strict one refuses without the store what is in hand of the other",
          LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 10") "- {name: b, key: [], rate: 10/s, burst: "
                                                                  "100, scope: fleet, when-store-fails: "
                                                                  "closed}\n",
          4, "" },
        { "keys that lie apart take no second script out of the hand",
          LEASED("a", "[]", "10/s", "100",
                 "most: 50, chunk: 10") "- {name: b, key: [tenant], missing-key: share, "
                                        "rate: 5/s, burst: 20, scope: fleet, "
                                        "when-store-fails: closed}\n",
          4, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char found[4000];
        review(rows[i].limits, rows[i].replicas, found, sizeof found);
        if (strcmp(found, rows[i].found) != 0)
            fail_msg("%s:\ngot  %s\nwant %s", rows[i].why, found, rows[i].found);
    }
}

/* ---- explain ------------------------------------------------------------------------------------------------------------------- */

static char *explain(const struct weir_contract *contract, unsigned replicas, bool is_json)
{
    char *text = NULL;
    size_t size;
    const struct weir_explain_options options = { .replicas = replicas, .is_json = is_json };
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(weir_contract_explain(contract, &options, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* The rows of a limit: from the first of these labels to before the last. */
static void expect_rows(const char *limit, unsigned replicas, const char *from, const char *to,
                        const char *wanted)
{
    struct loaded loaded = load(limit);
    char *text = explain(loaded.contract, replicas, false);
    char *begin = strstr(text, from), *end = begin == NULL ? NULL : strstr(begin, to);
    if (begin == NULL || end == NULL)
        fail_msg("no '%s' before '%s' in\n%s", from, to, text);
    *end = '\0';
    if (strcmp(begin, wanted) != 0)
        fail_msg("got\n%s\nwant\n%s", begin, wanted);
    free(text);
    loaded_free(&loaded);
}

/*
 * The worked example: B = 100, 10/s, O = 50, chunk 10, 2 s, 8 replicas. Suspended: 8 * 10. A step of a second: 50 + 10; of an hour
 * 50 + min(100, 36000). A portion outlives its end by 2 s / 50 + 1 ms. Lost with `empty`: 10/s * 2.041 s is 20.41, and the
 * bucket is whole 10 s later.
 */
static void a_bucket(void **state)
{
    (void)state;
    static const char limit[] =
        "- {name: a, key: [tenant], missing-key: share, rate: 10/s, burst: 100, scope: fleet, when-state-lost: "
        "empty, when-store-fails: leased, lease: { most: 50, chunk: 10 }}\n";
    expect_rows(limit, 8, "    each key ", "    cost ",
                "    each key      at most 100 at once, 110 in any second, 700 in any minute, 36,100 in any "
                "hour, 864,100 in any day\n");
    expect_rows(limit, 8, "    shared  ", "    late",
                "    shared        one budget for all replicas, in the store: a request that finds too little "
                "in hand asks "
                "it once, for at most 5 ms (default); its times are exact to a microsecond\n");
    expect_rows(
        limit, 8, "    leased  ", "    store full",
        "    leased        portions of at most 10 at one replica and 50 at all together for each key, each for "
        "at most 2 s (default), smaller where less is left\n"
        "    bound         a portion is out of the budget from its granting on: in any time the fleet is "
        "admitted at most 100 and what comes back in it, 10 every 1 s, whatever becomes of replicas and "
        "messages; from idle one replica alone is admitted all 100\n"
        "    stranded      at most 50 at a time for each key lie in hands that do not need them (10 in one), "
        "so "
        "that much less may pass\n"
        "    crash         a replica that dies wastes what it held, at most 10, once; that begins to come back "
        "after 2041 ms at the latest\n"
        "    suspended     a replica that stands still between check and work acts late: at most 10 more for "
        "each such, 80 for 8\n"
        "    clock step    a store's clock that steps forward by a second adds at most 60, by an hour 150: "
        "portions that it forgets, and what it lets come back early; one that steps back, nothing\n"
        "    refills       a replica reports and takes more when half is spent, after 1 s at the latest; what "
        "is "
        "out and not reported does not come back; between two refills it spends at most 10 by itself, and asks "
        "the store for more\n"
        "    store away    what is in hand is spent, at most 50 for each key in total and within 2 s, out of "
        "the "
        "budget; then refused until it is back (503): nothing more passes\n");
    expect_rows(
        limit, 8, "    failover", "    enforced",
        "    failover      what passed and the new master had not heard of can pass once more: at most what "
        "was admitted in that time and the 50 that may be out, with a lag of a second at most 110, of an hour "
        "(a "
        "copy that is restored) 36,100 for each key\n"
        "    state lost    after a store came back empty every key begins with nothing left, so that nothing "
        "more passes; it is whole within 12041 ms; nothing comes back for the first 2041 ms, till portions of "
        "before are over: that is at most 21 less, once\n"
        "    on reload     counters stay in the store, and a changed size holds at once; another name, key, "
        "algorithm, align or scope starts afresh; portions that are out end under the old terms: at most 50, "
        "within 2 s\n");
    /* Nobody says how many replicas there are; and a state that is lost is lost whole. */
    static const char plain[] = LEASED("a", "[]", "3/7s", "20", "most: 8, chunk: 4, for: 250ms");
    expect_rows(
        plain, 0, "    suspended", "    refills",
        "    suspended     a replica that stands still between check and work acts late: at most 4 more "
        "for each such, 4 for 1 (default)\n"
        "    clock step    a store's clock that steps forward by a second adds at most 9, by an hour 28: "
        "portions that it forgets, and what it lets come back early; one that steps back, nothing\n");
    expect_rows(
        plain, 0, "    crash", "    suspended",
        "    crash         a replica that dies wastes what it held, at most 4, once; that begins to come "
        "back after 256 ms at the latest\n");
    expect_rows(
        plain, 0, "    state lost", "    on reload",
        "    state lost    a store that comes back empty forgets what was counted: each key may ask for "
        "20 again at once (default)\n");
}

static void what_a_time_of_its_own_says(void **state)
{
    (void)state;
    expect_rows(
        LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 10, for: 250ms") "store: { deadline: 20ms }\n", 2,
        "    suspended", "    clock step",
        "    suspended     a replica that stands still between check and work acts late: at most 10 more "
        "for each such, 20 for 2; and so may one whose request asks the store for a part and waits more "
        "than 8500 us\n");
    expect_rows(
        LEASED("a", "[]", "10/s", "100", "most: 50, chunk: 10, for: 250ms"), 1, "    leased", "    bound",
        "    leased        portions of at most 10 at one replica and 50 at all together, each for at most "
        "250 ms, smaller where less is left\n");
}

static void a_window(void **state)
{
    (void)state;
    static const char limit[] =
        "- {name: a, key: [], algorithm: fixed-window, rate: 1000000/1d, scope: fleet, when-state-lost: empty, "
        "when-store-fails: { open: 30s }, lease: { most: 1000, chunk: 200, for: 3s }}\n";
    expect_rows(
        limit, 4, "    leased  ", "    store full",
        "    leased        portions of at most 200 at one replica and 1,000 at all together, each for at most "
        "3 "
        "s, smaller where less is left\n"
        "    bound         a portion is out of the budget from its granting on: what is in hand, spent and "
        "lost "
        "is together never above 1,000,000 in a window, whatever becomes of replicas and messages; from idle "
        "one "
        "replica alone is admitted all 1,000,000\n"
        "    stranded      at most 1,000 at a time lie in hands that do not need them (200 in one), so that "
        "much "
        "less may pass\n"
        "    crash         a replica that dies wastes what it held, at most 200, once in the window; it is "
        "known "
        "to be lost after 3061 ms at the latest\n"
        "    suspended     a replica that stands still between check and work acts late: at most 200 more for "
        "each such, 800 for 4\n"
        "    clock step    a store's clock that steps forward over an edge begins the next window early, "
        "beside "
        "at most 1,000 still in hand; one that steps back by more than a window adds at most 1,000, which are "
        "out and spent in the window that begins then\n"
        "    refills       a replica reports and takes more when half is spent, after 1500 ms at the latest; "
        "between two refills it spends at most 200 by itself, and asks the store for more\n"
        "    store away    what is in hand is spent, at most 1,000 in total and within 3 s, out of the budget; "
        "then everything passes uncounted for 30 s from the beginning of an outage, without a bound; after "
        "that "
        "it is refused (503)\n");
    expect_rows(limit, 4, "    state lost", "    on reload",
                "    state lost    after a store came back empty every key begins with nothing left, so that "
                "nothing more passes; it is whole within 1 day; portions of before are part of what passed "
                "before\n");
}

/* What is in hand is spent first, whatever the policy. */
static void without_the_store(void **state)
{
    (void)state;
#define AWAY(policy) \
    "- {name: a, key: [], rate: 10/s, burst: 100, scope: fleet, when-store-fails: " policy ", lease: { most: " \
    "50, chunk: 10 }}\n"
#define HAND \
    "    store away    what is in hand is spent, at most 50 in total and within 2 s, out of the budget; then "
    expect_rows(AWAY("closed"), 4, "    store away", "    store full",
                HAND "refused until it is back (503): nothing more passes\n");
    expect_rows(AWAY("open"), 4, "    store away", "    store full",
                HAND "everything passes uncounted, as long as it lasts: there is no bound\n");
    /* 4 * (25 + 2.5 * 60) */
    expect_rows(AWAY("{ local: 1/4 }"), 4, "    store away", "    store full",
                HAND "each replica lets through 1/4 by itself: 25 at once and 1 every 400 ms, beginning with "
                     "nothing at each outage; 4 replicas add at most 700 in an outage of a minute, beside what "
                     "others may still get from the store; it is charged to the store when that is back\n");
}

static void says_it_as_json(void **state)
{
    (void)state;
    static const char limits[] =
        "- {name: a, key: [], rate: 10/s, burst: 100, scope: fleet, when-state-lost: empty, when-store-fails: "
        "leased, lease: { most: 50, chunk: 10 }}\n"
        "- {name: b, key: [], algorithm: fixed-window, rate: 5000/1d, scope: fleet, when-store-fails: open, "
        "lease: { most: 40, chunk: 20, for: 250ms }}\n"
        "- {name: c, key: [], rate: 10/s, burst: 100, scope: fleet, when-store-fails: closed}\n"
        "- {name: d, key: [], rate: 10/s, burst: 100}\n"
        "store: { deadline: 61ms }\n"; /* of 2 s a hundredth and a fiftieth and 1 ms: just in time */
    static const struct {
        const char *leased, *away, *defaults;
    } rows[] = {
        { "{\"stranded_most\":50,\"stranded_of_replica\":10,\"crash_wastes\":10,\"suspended_adds\":10,"
          "\"suspended_adds_of_replicas\":30,\"deadline_adds\":0,\"step_of_second_adds\":60,\"step_of_hour_"
          "adds\":150,\"step_back_adds\":0,\"rollback_of_hour_adds\":36100,"
          "\"state_lost_costs\":21,\"store_away_spends\":50,\"refresh_spends\":10,\"refresh\":1,\"out_at_"
          "most\":2.041}",
          "\"store_away_adds\":0,", "\"wait\",\"enforce\"" },
        { "{\"stranded_most\":40,\"stranded_of_replica\":20,\"crash_wastes\":20,\"suspended_adds\":20,"
          "\"suspended_adds_of_replicas\":60,\"deadline_adds\":20,\"step_of_second_adds\":40,\"step_of_hour_"
          "adds\":40,\"step_back_adds\":40,\"rollback_of_hour_adds\":5000,"
          "\"state_lost_costs\":0,\"store_away_spends\":40,\"refresh_spends\":20,\"refresh\":0.125,"
          "\"out_at_most\":0.256}",
          "\"store_away_adds\":null,", "\"wait\",\"enforce\"" },
        { "null,", "\"store_away_adds\":0,", "\"wait\",\"lease\",\"enforce\"" },
        { "null,", "\"store_away_adds\":0,", "\"wait\",\"scope\",\"when_full\"" },
    };
    struct loaded loaded = load(limits);
    char *text = explain(loaded.contract, 3, true);
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL)
        fail_msg("%s at %d in %s", error.text, error.position, text);
    json_decref(object);
    char *at = text;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char wanted[600];
        at = strstr(at, rows[i].away);
        assert_non_null(at);
        snprintf(wanted, sizeof wanted, "\"leased\":%s", rows[i].leased);
        char *leased = strstr(at, "\"leased\":");
        assert_non_null(leased);
        if (strncmp(leased, wanted, strlen(wanted)) != 0)
            fail_msg("limit %zu: got %.300s, not %s", i, leased, wanted);
        char *defaults = strstr(leased, "\"defaults\":["), *end = strchr(defaults, ']');
        *end = '\0';
        if (strstr(defaults, rows[i].defaults) == NULL)
            fail_msg("limit %zu: %s is not in %s", i, rows[i].defaults, defaults);
        at = end + 1;
    }
    free(text);
    loaded_free(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings),
        cmocka_unit_test(a_bucket),
        cmocka_unit_test(what_a_time_of_its_own_says),
        cmocka_unit_test(a_window),
        cmocka_unit_test(without_the_store),
        cmocka_unit_test(says_it_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
