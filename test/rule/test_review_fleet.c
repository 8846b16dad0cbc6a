// SPDX-License-Identifier: Apache-2.0
/* test_review_fleet.c - what lint finds in budgets that a fleet shares, and what explain says of them. */
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/contracts.h"
#include "support/unit.h"

static struct loaded load(const char *head, const char *limits)
{
    char text[8192];
    const struct weir_contract_options options = { .keys = 64,
                                                   .has_wall_offset = true,
                                                   .fleet = WEIR_FLEET_ALONE };
    snprintf(text, sizeof text, "weir: 1\n%slimits:\n%s", head, limits);
    struct loaded loaded = contract_with(text, strlen(text), &options);
    if (loaded.error != 0)
        fail_msg("%s does not load: %s", text, loaded.printed);
    return loaded;
}

/* ---- lint -------------------------------------------------------------------------------------------------------------------- */

/* The findings as "LINE:WORD message => cure" joined by " | ", notes marked. */
static void review(const char *head, const char *limits, unsigned replicas, char *out, size_t size)
{
    struct weir_diagnostics *diagnostics;
    struct loaded loaded = load(head, limits);
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

#define SHARED(name, key, rest) \
    "- {name: " name ", key: " key ", rate: 5/s, burst: 20, scope: fleet, when-store-fails: " rest "}\n"
#define ONE "store: { url: redis://h }\n" /* no Cluster */
#define TWO_CURE \
    "let both keys begin with the same attribute, lease one of them, or leave it: it is all or nothing all " \
    "the " \
    "same"
#define TWO(line, word, name, other, before, after) \
    "note " line ":" word " limit '" name "' is met together with '" other "', whose keys begin with " before \
    " and its own with " after \
    ": in a Cluster such a request takes two scripts, one after the other => " TWO_CURE
#define OPEN_CURE \
    "write `{ open: 30s }` or `{ local: 1/N }`, add a limit with `scope: process` beside it, or say in " \
    "`about` what sheds " \
    "load then"
#define OPEN(line, name) \
    line ":open limit '" name \
         "' lets everything through uncounted while the store is away, however long that is => " OPEN_CURE

static void findings(void **state)
{
    (void)state;
    static const struct {
        const char *why, *head, *limits;
        unsigned replicas;
        const char *found;
    } rows[] = {
        { "closed", ONE, SHARED("a", "[]", "closed"), 4, "" },
        { "a quarter each", ONE, SHARED("a", "[]", "{ local: 1/4 }"), 4, "" },
        { "three of four run", ONE, SHARED("a", "[]", "{ local: 1/4 }"), 3, "" },
        { "the contract says how many", "replicas: 4\n" ONE, SHARED("a", "[]", "{ local: 1/4 }"), 0, "" },
        { "one more than four", ONE, SHARED("a", "[]", "{ local: 1/4 }"), 5,
          "4:{ limit 'a' gives each of 5 replicas 1/4 while the store is away: together more than the budget "
          "=> write "
          "`when-store-fails: { local: 1/5 }`" },
        { "nobody says how many", ONE, SHARED("a", "[]", "{ local: 1/4 }"), 0,
          "4:{ limit 'a' gives each replica 1/4 while the store is away, and nobody says how many replicas "
          "there are => write "
          "`replicas: N`, the most that may run at once, or give --replicas N" },
        { "a share of nothing", ONE, SHARED("a", "[]", "{ local: 1/21 }"), 21,
          "4:{ limit 'a' lets nothing through while the store is away: 1/21 of a burst of 20 is less than one "
          "=> give a larger "
          "share, raise the burst, or write `closed`" },
        { "a window's", ONE,
          "- {name: a, key: [], algorithm: sliding-log, rate: 3/h, scope: fleet, when-store-fails: { local: "
          "1/4 }}\n",
          4,
          "4:{ limit 'a' lets nothing through while the store is away: 1/4 of a count of 3 is less than one => "
          "give a larger "
          "share, raise the count, or write `closed`" },
        { "off: not even asked", ONE,
          SHARED("a", "[]", "{ local: 1/4 }, enforce: \"off\"") "- {name: b, key: [], rate: 1/s, burst: 1}\n",
          1,
          "4:\"off\" limit 'a' is off: it is neither counted nor enforced => remove the limit, or write "
          "`enforce: shadow` to "
          "see what it would refuse" },
        { "open without an end", ONE, SHARED("a", "[]", "open"), 4, OPEN("4", "a") },
        { "open for a time", ONE, SHARED("a", "[]", "{ open: 30s }"), 4, "" },
        { "its author knows what sheds load", ONE,
          SHARED("a", "[]", "open, about: HAProxy sheds beyond 1000/s"), 4, "" },
        { "a limit of the process does", ONE,
          SHARED("a", "[]", "open") "- {name: b, key: [], rate: 500/s, burst: 900, scope: process}\n", 4, "" },
        { "but not for other requests", ONE,
          SHARED("a", "[]",
                 "open") "- {name: b, key: [], when: { path: /x }, rate: 500/s, burst: 900, scope: process}\n",
          4, OPEN("4", "a") },
        { "limits of a process beside shared ones are told of", ONE,
          SHARED("a", "[]", "closed") "- {name: b, key: [], rate: 500/s, burst: 900}\n", 4,
          "5:500/s limit 'b' counts in each process by itself (scope process): 4 replicas of 500/s admit "
          "2000/s => share it "
          "(scope: fleet), divide the rate and the burst by the number of replicas, or send each key to one "
          "replica always" },
        { "unless it is said", ONE,
          SHARED("a", "[]", "closed") "- {name: b, key: [], rate: 500/s, burst: 900, scope: process}\n", 4,
          "" },
        { "keys that lie apart in a Cluster", "store: { url: \"redis+cluster://h\" }\n",
          "- {name: a, key: [tenant], missing-key: share, rate: 5/s, burst: 20, scope: fleet, "
          "when-store-fails: closed}\n"
          "- {name: b, key: [path, tenant], missing-key: share, rate: 4/s, burst: 7, scope: fleet, "
          "when-store-fails: closed}\n",
          4, TWO("5", "[", "b", "a", "tenant", "path") },
        { "and one budget for everybody", "",
          "- {name: a, key: [tenant], missing-key: share, rate: 5/s, burst: 20, scope: fleet, "
          "when-store-fails: closed}\n"
          "- {name: b, key: [], rate: 50/s, burst: 200, scope: fleet, when-store-fails: closed}\n",
          4, TWO("4", "[", "b", "a", "tenant", "no key") },
        { "the same first attribute lies together", "",
          "- {name: a, key: [tenant], missing-key: share, rate: 5/s, burst: 20, scope: fleet, "
          "when-store-fails: closed}\n"
          "- {name: b, key: [tenant, path], missing-key: share, rate: 4/s, burst: 7, scope: fleet, "
          "when-store-fails: closed}\n",
          4, "" },
        { "requests that meet but one of them", "",
          "- {name: a, key: [tenant], missing-key: share, when: { path: /x }, rate: 5/s, burst: 20, scope: "
          "fleet, "
          "when-store-fails: closed}\n"
          "- {name: b, key: [], when: { path: /y }, rate: 50/s, burst: 200, scope: fleet, when-store-fails: "
          "closed}\n",
          4, "" },
        { "a store for nothing", ONE, "- {name: a, key: [], rate: 5/s, burst: 20}\n", 1,
          "2:{ no limit is counted in the store => write `scope: fleet` at a limit, or remove it" },
        { "a fleet's budget does not make a process's idle", ONE,
          SHARED("a", "[]", "closed") "- {name: b, key: [], rate: 5/s, burst: 20, scope: process}\n", 1, "" },
        { "nor one whose policy is another", ONE, SHARED("a", "[]", "{ open: 1s }") SHARED("b", "[]", "closed"),
          1, "" },
        { "but one alike", ONE,
          SHARED("a", "[tenant], missing-key: share", "closed")
              SHARED("b", "[tenant], missing-key: share", "closed"),
          1,
          "5:5/s limit 'b' can never refuse: 'a' counts the same requests and admits no more than this one in "
          "any time => "
          "remove one of the two, or correct its numbers" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char found[4000];
        review(rows[i].head, rows[i].limits, rows[i].replicas, found, sizeof found);
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
static void expect_rows(const char *head, const char *limit, unsigned replicas, const char *from,
                        const char *to, const char *wanted)
{
    struct loaded loaded = load(head, limit);
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

#define LATE \
    "    late          an answer that comes too late counts as consumed, and is not asked for again; a " \
    "refusal is remembered here until the time that it named, for at most five seconds, so what is given " \
    "back " \
    "elsewhere may be noticed that late\n"
#define LATE_ALWAYS \
    "    late          an answer that comes too late counts as consumed, and is not asked for again; every " \
    "refusal " \
    "asks the store, too\n"
#define STORE(deadline, tick) \
    "    shared        one budget for all replicas, in the store: each request asks it once, for at " \
    "most " deadline "; its times are exact to " tick "\n" LATE
#define FULL \
    "    store full    a store that has no memory left counts as away; keys leave it when they are whole\n"

static void says_what_a_store_means(void **state)
{
    (void)state;
    /* 100/1m is 25 a minute for each of four replicas, and 5 at once: 4 * (5 + 25) = 120 in an outage of a minute. A failover that
       loses a second: 20 and the 1.7 that come back in it. */
    expect_rows("",
                "- {name: a, key: [tenant], missing-key: share, rate: 100/1m, burst: 20, scope: fleet, "
                "when-store-fails: { local: 1/4 }}\n",
                4, "    shared  ", "    enforced",
                STORE("5 ms (default)",
                      "a microsecond") "    store away    each replica lets through 1/4 by itself: 5 at once "
                                       "and 1 every 2400 ms, beginning with nothing at "
                                       "each outage; 4 replicas add at most 120 for each key in an outage of a "
                                       "minute, beside what others may still get "
                                       "from the store; it is charged to the store when that is back\n" FULL
                                       "    failover      what passed and the new master had not heard of can "
                                       "pass once more: at most what was admitted in "
                                       "that time, with a lag of a second at most 21 for each key\n"
                                       "    state lost    a store that comes back empty forgets what was "
                                       "counted: each key may ask for 20 again at once "
                                       "(default)\n"
                                       "    on reload     counters stay in the store, and a changed size holds "
                                       "at once; another name, key, algorithm, align "
                                       "or scope starts afresh\n");
    /* A log of 40 a minute: a quarter is 10, and twice that can lie in a minute with both its ends. */
    expect_rows(
        "store: { deadline: 20ms }\n",
        "- {name: a, key: [], algorithm: sliding-log, rate: 40/1m, scope: fleet, when-store-fails: { local: "
        "1/4 }}\n",
        0, "    shared  ", "    state lost",
        STORE("20 ms", "a microsecond") "    store away    each replica lets through 1/4 by itself: 10 in 1 "
                                        "minute, whole at the first outage and kept from "
                                        "one to the next; 1 replica adds (default) at most 20 in an outage of "
                                        "a minute, beside what others may still get "
                                        "from the store; it is charged to the store when that is back\n" FULL
                                        "    failover      what passed and the new master had not heard of can "
                                        "pass once more: at most what was admitted in "
                                        "that time, with a lag of a second at most 40\n");
    /* 60,000 of this rate are too many for microseconds. */
    expect_rows(
        "", "- {name: a, key: [], rate: 1000003/1d, burst: 60000, scope: fleet, when-store-fails: closed}\n", 0,
        "    shared  ", "    failover",
        STORE("5 ms (default)",
              "a millisecond") "    store away    refused until it is back (503): nothing more passes\n" FULL);
    /* Refusals that a process must not keep: denied_may_keep(). */
    expect_rows("", SHARED("a", "[]", "closed, refused: charged"), 0, "    late", "    store away",
                LATE_ALWAYS);
    expect_rows("", SHARED("a", "[request-id]", "closed, retries: { by: request-id, free-within: 10m }"), 0,
                "    late", "    store away", LATE_ALWAYS);
    expect_rows("",
                "- {name: a, key: [], algorithm: concurrency, at-most: 4, hold: 30s, scope: fleet, "
                "when-store-fails: closed}\n",
                0, "    late", "    store away", LATE_ALWAYS);
    expect_rows("", "- {name: a, key: [], rate: 5/s, burst: 20, scope: fleet, when-store-fails: open}\n", 0,
                "    store away", "    store full",
                "    store away    everything passes uncounted, as long as it lasts: there is no bound\n");
    expect_rows("",
                "- {name: a, key: [], rate: 5/s, burst: 20, scope: fleet, when-store-fails: { open: 30s }}\n",
                0, "    store away", "    store full",
                "    store away    everything passes uncounted for 30 s from the beginning of an outage, "
                "without a bound; after that "
                "it is refused (503)\n");
    expect_rows("",
                "- {name: a, key: [], algorithm: concurrency, at-most: 4, hold: 30s, scope: fleet, "
                "when-store-fails: closed, "
                "when-state-lost: empty}\n",
                0, "    failover", "    enforced",
                "    failover      permits that the new master had not heard of are given once more: up to 4 "
                "more while their holders "
                "still work\n"
                "    state lost    after a store came back empty nobody gets a permit for 30 s: by then those "
                "of before have "
                "expired\n"
                "    on reload     permits stay held in the store; a changed at-most holds at once, a changed "
                "hold from the next "
                "renewal; another name, key, algorithm or scope starts afresh\n");
}

/* One budget however many replicas; beside it each process's own is multiplied as ever. */
static void replicas_multiply_what_is_not_shared(void **state)
{
    (void)state;
    static const char limits[] = SHARED("a", "[]", "closed") "- {name: b, key: [], rate: 5/s, burst: 20}\n";
    struct loaded loaded = load("", limits);
    char *text = explain(loaded.contract, 4, false), *second = strstr(text, "\nb\n");
    assert_non_null(second);
    assert_non_null(strstr(second, "    4 replicas    admit 80 at once, 100 in any second"));
    assert_non_null(strstr(second, "    shared        each process counts by itself (default)\n"));
    *second = '\0';
    assert_non_null(strstr(text, "    at most       20 at once, 25 in any second"));
    assert_null(strstr(text, "replicas    admit"));
    assert_null(strstr(text, "table full"));
    free(text);
    loaded_free(&loaded);
}

/* As every written value: it is no default, though it is the same. */
static void a_written_deadline_is_no_default(void **state)
{
    (void)state;
    expect_rows("store: { deadline: 5ms }\n", SHARED("a", "[]", "closed"), 0, "    shared  ", "    store away",
                STORE("5 ms", "a microsecond"));
    expect_rows("store: { deadline: 5ms }\n", SHARED("a", "[]", "closed"), 0, "  deadline", "  noticed",
                "  deadline      5 ms of one decision\n");
}

/* Shares are counted in a limiter of their own, which is as large again. */
static void memory_of_a_fleet(void **state)
{
    (void)state;
    static const char local[] =
        "  for the store `weir serve` takes beside that 1,048,576 bytes for refusals that it "
        "remembers, and what requests under way need; in an outage up to 16,777,216 bytes for what is still to "
        "be charged\n";
    static const char closed[] =
        "  for the store `weir serve` takes beside that 1,048,576 bytes for refusals that it "
        "remembers, and what requests under way need\n";
    expect_rows("", SHARED("a", "[]", "{ local: 1/4 }"), 0, "  for the store", "  new keys", local);
    expect_rows("", SHARED("a", "[]", "closed"), 0, "  for the store", "  new keys", closed);
    static const char *const policies[] = { SHARED("a", "[]", "closed"), SHARED("a", "[]", "{ local: 1/4 }") };
    json_int_t bytes[2], shares[2];
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        struct loaded loaded = load("", policies[i]);
        char *text = explain(loaded.contract, 1, true);
        json_t *root = json_loads(text, 0, NULL), *memory = json_object_get(root, "memory");
        bytes[i] = json_integer_value(json_object_get(memory, "bytes"));
        shares[i] = json_integer_value(json_object_get(memory, "share_bytes"));
        json_decref(root);
        free(text);
        loaded_free(&loaded);
    }
    assert_int_equal(shares[0], 0);
    assert_in_range(shares[1], bytes[0] - bytes[0] / 8, bytes[0] + bytes[0] / 8);
    assert_int_equal(bytes[1], bytes[0] + shares[1]);
    struct loaded loaded = load("", "- {name: a, key: [], rate: 5/s, burst: 20}\n");
    char *text = explain(loaded.contract, 1, false);
    assert_null(strstr(text, "for the store"));
    assert_null(strstr(text, "  shares  "));
    free(text);
    loaded_free(&loaded);
}

/* What the file's mode says is told at loading and by lint. */
static void a_password_that_everybody_can_read(void **state)
{
    (void)state;
    static const struct {
        const char *why, *url;
        mode_t mode;
        bool is_told;
    } rows[] = {
        { "everybody", "redis://u:p@h", 0644, true },
        { "the group: a server has one", "redis://u:p@h", 0640, false },
        { "the owner", "redis://:p@h", 0600, false },
        { "no password", "redis://h/0", 0644, false },
        { "a password for a socket", "redis+unix://:p@/run/a.sock", 0644, true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char path[] = "/tmp/weir-exposed-XXXXXX";
        int fd = mkstemp(path);
        FILE *file = fdopen(fd, "w");
        fprintf(file, "weir: 1\nstore: { url: \"%s\" }\nlimits:\n%s", rows[i].url, SHARED("a", "[]", "closed"));
        assert_int_equal(fchmod(fd, rows[i].mode), 0);
        assert_int_equal(fclose(file), 0);
        const struct weir_contract_options options = { .keys = 64, .fleet = WEIR_FLEET_SHARED };
        struct weir_contract *contract = NULL;
        struct weir_diagnostics *found[2] = { NULL, NULL };
        assert_int_equal(weir_contract_load(&contract, path, &options, &found[0]), 0);
        assert_int_equal(weir_contract_lint(contract, 1, &found[1]), 0);
        for (size_t k = 0; k < COUNT_OF(found); k++) {
            bool is_told = false;
            for (size_t item = 0; item < weir_diagnostics_count(found[k]); item++)
                is_told |=
                    strstr(weir_diagnostics_at(found[k], item)->message, "everybody on this machine") != NULL;
            expect_row(is_told == rows[i].is_told, rows[i].why);
            weir_diagnostics_free(found[k]);
        }
        weir_contract_free(contract);
        assert_int_equal(unlink(path), 0);
    }
}

static void secrets_are_not_shown(void **state)
{
    (void)state;
    static const struct {
        const char *url, *shown;
    } rows[] = {
        { "redis://127.0.0.1:6379/1", "redis://127.0.0.1:6379/1" },
        { "rediss://user:p%40ss@h:1/2", "rediss://h:1/2" },
        { "redis+sentinel://:secret@a:1,b:2/main%40x", "redis+sentinel://a:1,b:2/main%40x" },
        { "redis+unix://:secret@/run/a.sock", "redis+unix:///run/a.sock" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char head[200], wanted[200];
        snprintf(head, sizeof head, "store: { url: \"%s\" }\n", rows[i].url);
        snprintf(wanted, sizeof wanted,
                 "store\n  where         %s\n  deadline      5 ms of one decision (default)\n", rows[i].shown);
        expect_rows(head, SHARED("a", "[]", "closed"), 0, "store\n  where", "  noticed", wanted);
    }
    expect_rows("", SHARED("a", "[]", "closed"), 0, "  where", "  deadline",
                "  where         as `weir serve --store URL` says\n");
}

static void says_it_as_json(void **state)
{
    (void)state;
    static const char limits[] = "- {name: a, key: [], rate: 100/1m, burst: 20, scope: fleet, "
                                 "when-store-fails: { local: 1/4 }}\n" SHARED("b", "[]", "open")
                                     SHARED("c", "[]", "closed") "- {name: d, key: [], rate: 5/s, burst: 20}\n";
    static const struct {
        const char *away;
        int failover, replicas;
        bool has_scope; /* among the defaults */
    } rows[] = {
        { "120", 21, 20, false }, { "null", 25, 20, false }, { "0", 25, 20, false }, { "0", 0, 80, true }
    };
    struct loaded loaded = load("store: { url: \"redis://u:p@h\", deadline: 20ms }\n", limits);
    char *text = explain(loaded.contract, 4, true);
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL)
        fail_msg("%s at %d", error.text, error.position);
    json_t *store = json_object_get(object, "store");
    assert_string_equal(json_string_value(json_object_get(store, "url")), "redis://h");
    assert_non_null(strstr(text, "\"deadline\":0.02}"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const json_t *limit = json_array_get(json_object_get(object, "limits"), i);
        char *away = json_dumps(json_object_get(limit, "store_away_adds"), JSON_ENCODE_ANY);
        char *defaults = json_dumps(json_object_get(limit, "defaults"), JSON_COMPACT);
        assert_string_equal(away, rows[i].away);
        assert_int_equal(json_integer_value(json_object_get(limit, "failover_adds")), rows[i].failover);
        assert_int_equal(
            json_integer_value(json_object_get(json_object_get(limit, "most_of_replicas"), "at_once")),
            rows[i].replicas);
        assert_int_equal(strstr(defaults, "\"scope\"") != NULL, rows[i].has_scope);
        assert_int_equal(strstr(defaults, "\"when_full\"") != NULL, rows[i].has_scope);
        free(away);
        free(defaults);
    }
    json_decref(object);
    free(text);
    loaded_free(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings),
        cmocka_unit_test(says_what_a_store_means),
        cmocka_unit_test(replicas_multiply_what_is_not_shared),
        cmocka_unit_test(a_written_deadline_is_no_default),
        cmocka_unit_test(memory_of_a_fleet),
        cmocka_unit_test(a_password_that_everybody_can_read),
        cmocka_unit_test(secrets_are_not_shown),
        cmocka_unit_test(says_it_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
