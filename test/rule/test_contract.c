// SPDX-License-Identifier: Apache-2.0
/* test_contract.c - the contract language: what loads, and for what does not the place, the text, the caret and the cure. */
#include "support/contracts.h"
#include "support/unit.h"

/* ---- Whole messages ---------------------------------------------------------------------------------------------------- */

/* Every mistake of a file in one run, sorted, each with line, caret and cure. */
static void tells_all_mistakes_in_one_run(void **state)
{
    (void)state;
    struct loaded loaded = contract_from("weir: 1\n"
                                         "replica: 3\n"
                                         "limits:\n"
                                         "  - name: a\n"
                                         "    key: [tenant]\n"
                                         "    rate: 5/s\n"
                                         "    burst: 0x10\n"
                                         "  - name: tenant-requests\n"
                                         "    key: []\n"
                                         "    rate: 5/s\n"
                                         "\n"
                                         "  - name: a\n"
                                         "    key: []\n"
                                         "    rate: 10 per minute\n"
                                         "\tburst: 4\n",
                                         0);
    /* The tab ends the reading: YAML cannot go on behind it. */
    assert_int_equal(loaded.error, WEIR_ERR_CONTRACT);
    assert_string_equal(
        loaded.printed,
        "t.yaml:15:1: error: found a tab character that violates indentation, while scanning a plain "
        "scalar from line 14\n"
        "    \tburst: 4\n"
        "    ^\n"
        "  help: indent with spaces, never tabs\n");
    loaded_free(&loaded);

    loaded = contract_from("weir: 1\n"
                           "replica: 3\n"
                           "limits:\n"
                           "  - name: a\n"
                           "    key: [tenant]\n"
                           "    rate: 5/s\n"
                           "    burst: 0x10\n"
                           "  - name: tenant-requests\n"
                           "    key: []\n"
                           "    rate: 5/s\n"
                           "  - name: a\n"
                           "    key: []\n"
                           "    rate: 10 per minute\n"
                           "    burst: 4\n",
                           0);
    assert_int_equal(loaded.error, WEIR_ERR_CONTRACT);
    assert_null(loaded.contract);
    assert_string_equal(loaded.printed,
                        "t.yaml:2:1: error: unknown field 'replica'\n"
                        "    replica: 3\n"
                        "    ^~~~~~~\n"
                        "  help: did you mean 'replicas'?\n"
                        "t.yaml:7:12: error: burst 0x10 of limit 'a' is not a plain integer\n"
                        "        burst: 0x10\n"
                        "               ^~~~\n"
                        "  help: write an integer from 0 to 9223372036854775807: no quotes, sign, fraction, "
                        "exponent or leading zero\n"
                        "t.yaml:8:5: error: burst is missing for limit 'tenant-requests'\n"
                        "      - name: tenant-requests\n"
                        "        ^\n"
                        "  help: say how many may pass at once: `burst: 20`\n"
                        "t.yaml:11:11: error: name 'a' is taken by the limit in line 4\n"
                        "      - name: a\n"
                        "              ^\n"
                        "  help: give each limit a name of its own\n"
                        "t.yaml:13:11: error: rate 10 per minute of limit 'a' is not a count per time\n"
                        "        rate: 10 per minute\n"
                        "              ^~~~~~~~~~~~~\n"
                        "  help: write COUNT/[N]UNIT without blanks, such as 5/s, 100/15m or 1/3d; the units "
                        "are ms, s, m (minutes), "
                        "h, d, w, and month, year with `align: calendar ZONE`\n");
    loaded_free(&loaded);
}

/* ---- First findings ------------------------------------------------------------------------------------------------------ */

/* A contract with one limit whose fields are `fields` (a flow map's inside), behind `head`. */
static struct loaded load_limit(const char *head, const char *fields)
{
    char text[2048];
    snprintf(text, sizeof text, "weir: 1\n%slimits:\n - {%s}\n", head, fields);
    return contract_from(text, 0);
}

/* The errors, joined by " | ", without place and cure. */
static void join_errors(const struct loaded *loaded, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < weir_diagnostics_count(loaded->diagnostics); i++) {
        const struct weir_diagnostic *item = weir_diagnostics_at(loaded->diagnostics, i);
        assert_non_null(item->message);
        assert_non_null(item->cure);
        assert_true(strlen(item->cure) > 0);
        assert_true(item->width >= 1);
        if (item->severity == WEIR_SEVERITY_ERROR && len < size)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len == 0 ? "" : " | ", item->message);
    }
}

struct limit_row {
    const char *why, *fields, *errors; /* errors "": loads */
};

static void check_rows(const char *head, const struct limit_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char errors[2000];
        struct loaded loaded = load_limit(head, rows[i].fields);
        join_errors(&loaded, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s: {%s}: got \"%s\", not \"%s\"", rows[i].why, rows[i].fields, errors, rows[i].errors);
        assert_int_equal(loaded.error, errors[0] == '\0' ? 0 : WEIR_ERR_CONTRACT);
        assert_true((loaded.error == 0) == (loaded.contract != NULL));
        loaded_free(&loaded);
    }
}

/* Each form means exactly one thing or is refused by the field's name; none falls back to a default. */
static void B47_units_and_types(void **state)
{
    (void)state;
    static const struct {
        const char *rate;
        weir_ns period; /* 0: refused */
        const char *problem;
    } rows[] = {
        { "10/60s", 60 * WEIR_SECOND, NULL },
        { "10/1m", 60 * WEIR_SECOND, NULL },
        { "10/m", 60 * WEIR_SECOND, NULL },
        { "10/60000ms", 60 * WEIR_SECOND, NULL },
        { "10/15m", 900 * WEIR_SECOND, NULL },
        { "10/2h", 7200 * WEIR_SECOND, NULL },
        { "10/3d", 3 * WEIR_DAY, NULL },
        { "10/w", 7 * WEIR_DAY, NULL },
        { "'10/60s'", 60 * WEIR_SECOND, NULL }, /* a rate is text: quotes change nothing */
        { "10/3652d", 3652 * WEIR_DAY, NULL },
        { "10/60", 0, "has no unit" },
        { "10/", 0, "has no unit" },
        { "10/1M", 0, "has the unit M, which could be minutes (m) or months (month)" },
        { "10/1 minute", 0, "has no such unit" },
        { "10/minutes", 0, "has no such unit" },
        { "10/min", 0, "has no such unit" },
        { "10/MIN", 0, "has no such unit" },
        { "10/0.5s", 0, "has no such unit" },
        { "10/-1s", 0, "has no such unit" },
        { "10/0s", 0, "has a period of zero" },
        { "10/1e3s", 0, "has no such unit" },
        { "10/1_000s", 0, "has no such unit" },
        { "10/060s", 0, "has a leading zero in its time" },
        { "10/0x3cs", 0, "has no such unit" },
        { "10/1h30m", 0, "has no such unit" },
        { "10/99999999999h", 0, "has a period above ten years" },
        { "10/99999999999999999999999h", 0, "has a period above ten years" },
        { "10/3653d", 0, "has a period above ten years" },
        { "10/yes", 0, "has no such unit" },
        { "10/us", 0, "has no such unit" },
        { "60", 0, "is not a count per time" },
        { "'60'", 0, "is not a count per time" },
        { "60s", 0, "is not a count per time" },
        { "yes", 0, "is not a count per time" },
        { "null", 0, "is not a count per time" },
        { "10 per minute", 0, "is not a count per time" },
        { "10r/s", 0, "has a count that is not a plain integer" },
        { "0.5/s", 0, "has a count that is not a plain integer" },
        { "-1/s", 0, "has a count that is not a plain integer" },
        { "010/s", 0, "has a count that is not a plain integer" },
        { "0x10/s", 0, "has a count that is not a plain integer" },
        { "1e3/s", 0, "has a count that is not a plain integer" },
        { "/s", 0, "has a count that is not a plain integer" },
        { "10 / s", 0, "has a count that is not a plain integer" },
        { "10/ s", 0, "has no such unit" },
        { "4294967296000000000000/s", 0, "has a count that is not a plain integer" },
        { "10/month", 0, "has the unit month, whose length varies" },
        { "10/2year", 0, "has the unit year, whose length varies" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char fields[200], errors[400], expected[300] = "";
        snprintf(fields, sizeof fields, "name: a, key: [], algorithm: fixed-window, rate: %s", rows[i].rate);
        struct loaded loaded = load_limit("", fields);
        join_errors(&loaded, errors, sizeof errors);
        size_t quote = rows[i].rate[0] == '\'';
        if (rows[i].period == 0)
            snprintf(expected, sizeof expected, "rate %.*s of limit 'a' %s",
                     (int)(strlen(rows[i].rate) - 2 * quote), rows[i].rate + quote, rows[i].problem);
        if (strcmp(errors, expected) != 0)
            fail_msg("%s: got \"%s\", not \"%s\"", rows[i].rate, errors, expected);
        if (rows[i].period != 0)
            assert_int_equal(weir_contract_limit(loaded.contract, 0)->window, rows[i].period);
        loaded_free(&loaded);
    }
}

static void B47_integers(void **state)
{
    (void)state;
    static const struct {
        const char *burst, *problem; /* NULL: fine */
    } rows[] = {
        { "60", NULL },
        { "0", NULL },
        { "1", NULL },
        { "'60'", "60 of limit 'a' is quoted text, not an integer" },
        { "060", "060 of limit 'a' is not a plain integer" },
        { "00", "00 of limit 'a' is not a plain integer" },
        { "0x3c", "0x3c of limit 'a' is not a plain integer" },
        { "0o74", "0o74 of limit 'a' is not a plain integer" },
        { "+60", "+60 of limit 'a' is not a plain integer" },
        { "-1", "-1 of limit 'a' is not a plain integer" },
        { "6.0", "6.0 of limit 'a' is not a plain integer" },
        { "1e3", "1e3 of limit 'a' is not a plain integer" },
        { "1_000", "1_000 of limit 'a' is not a plain integer" },
        { "yes", "yes of limit 'a' is not a plain integer" },
        { "null", "null of limit 'a' is not a plain integer" },
        { "~", "~ of limit 'a' is not a plain integer" },
        { "60s", "60s of limit 'a' is not a plain integer" },
        { "", " of limit 'a' is empty" },
        { "[60]", " of limit 'a' is a list, not one value" },
        { "{a: 60}", " of limit 'a' is a map, not one value" },
        { "9223372036854775808", "9223372036854775808 of limit 'a' is too large" },
        { "99999999999999999999999", "99999999999999999999999 of limit 'a' is too large" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char fields[200], errors[400], expected[200] = "";
        snprintf(fields, sizeof fields, "name: a, key: [], rate: 5/s, burst: %s", rows[i].burst);
        struct loaded loaded = load_limit("", fields);
        join_errors(&loaded, errors, sizeof errors);
        if (rows[i].problem != NULL)
            snprintf(expected, sizeof expected, "burst%s%s", rows[i].problem[0] == ' ' ? "" : " ",
                     rows[i].problem);
        if (strcmp(errors, expected) != 0)
            fail_msg("%s: got \"%s\", not \"%s\"", rows[i].burst, errors, expected);
        loaded_free(&loaded);
    }
}

#define BUCKET "name: a, key: [], rate: 5/s, burst: 20"
#define LATER(what) " is not in this version of weir yet: " what " will come with a later one"

static void refuses_what_comes_later_by_name(void **state)
{
    (void)state;
    static const struct limit_row rows[] = {
        { "every default may be written",
          BUCKET ", missing-key: skip, algorithm: token-bucket, refused: free, retries: counted, wait: "
                 "never,"
                 " scope: process, when-full: overflow, when-state-lost: full, enforce: always, cost: 1, debt: "
                 "0, overrides: []",
          "" },
        { "host", BUCKET ", scope: host", "scope host of limit 'a'" LATER("a budget shared by a host") },
    };
    check_rows("", rows, COUNT_OF(rows));

    static const struct {
        const char *head, *error;
    } heads[] = {
        { "identity: { who: \"certificate:san\" }\n", "from certificate:san of identity 'who' is no source" },
        { "identity: { ip: \"certificate:subject\" }\n",
          "from certificate:subject of identity 'ip' would let every client choose its address" },
    };
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        const struct limit_row row = { heads[i].head, BUCKET, heads[i].error };
        check_rows(heads[i].head, &row, 1);
    }
}

static void fields_of_a_limit(void **state)
{
    (void)state;
    static const struct limit_row rows[] = {
        { "the smallest bucket", BUCKET, "" },
        { "the smallest window", "name: a, key: [], algorithm: sliding-window, rate: 60/1m", "" },
        { "a name may be digits", "name: 7, key: [], rate: 5/s, burst: 1", "" },
        { "no name", "key: [], rate: 5/s, burst: 1", "name is missing for limit 1" },
        { "a name with a blank", "name: a b, key: [], rate: 5/s, burst: 1",
          "name 'a b' is not a limit's name" },
        { "an upper-case name", "name: A, key: [], rate: 5/s, burst: 1", "name 'A' is not a limit's name" },
        { "a name that begins with a dot", "name: .a, key: [], rate: 5/s, burst: 1",
          "name '.a' is not a limit's name" },
        { "63 bytes are the longest name",
          "name: a23456789012345678901234567890123456789012345678901234567890123, key: [], rate: 5/s, burst: 1",
          "" },
        { "64 are too long",
          "name: a234567890123456789012345678901234567890123456789012345678901234, key: [], rate: 5/s, burst: "
          "1",
          "name 'a234567890123456789012345678901234567890123456789012345678901234' is not a limit's name" },
        { "no key", "name: a, rate: 5/s, burst: 1", "key is missing for limit 'a'" },
        { "a key that is no list", "name: a, key: tenant, rate: 5/s, burst: 1",
          "key tenant of limit 'a' is not a list" },
        { "a key with a bad name", "name: a, key: [Tenant], rate: 5/s, burst: 1",
          "key Tenant of limit 'a' is not the name of an attribute" },
        { "a key twice", "name: a, key: [ip, ip], rate: 5/s, burst: 1",
          "key ip of limit 'a' is in the list twice" },
        { "no rate", "name: a, key: [], burst: 1", "rate is missing for limit 'a'" },
        { "burst is required for a bucket", "name: a, key: [], rate: 5/s", "burst is missing for limit 'a'" },
        { "also for the other bucket", "name: a, key: [], algorithm: leaky-bucket, rate: 5/s",
          "burst is missing for limit 'a'" },
        { "burst means nothing for a window", "name: a, key: [], algorithm: fixed-window, rate: 5/s, burst: 5",
          "burst 5 of limit 'a' means nothing for a fixed-window" },
        { "nor for a log", "name: a, key: [], algorithm: sliding-log, rate: 5/s, burst: 5",
          "burst 5 of limit 'a' means nothing for a sliding-log" },
        { "align means nothing for a bucket", BUCKET ", align: epoch",
          "align epoch of limit 'a' means nothing for a token-bucket" },
        { "three alignments", "name: a, key: [], algorithm: fixed-window, rate: 5/d, align: epoch", "" },
        { "of", "name: a, key: [], algorithm: fixed-window, rate: 5/d, align: first-request", "" },
        { "windows", "name: a, key: [], algorithm: fixed-window, rate: 5/d, align: calendar UTC", "" },
        { "a calendar without a zone", "name: a, key: [], algorithm: fixed-window, rate: 5/d, align: calendar",
          "align calendar of limit 'a' has no time zone" },
        { "a zone that is none",
          "name: a, key: [], algorithm: fixed-window, rate: 5/d, align: calendar Mars/Base",
          "align calendar Mars/Base of limit 'a' cannot be kept: the time zone is not known on this machine" },
        { "no such alignment", "name: a, key: [], algorithm: fixed-window, rate: 5/d, align: midnight",
          "align midnight of limit 'a' is no alignment" },
        { "a calendar has no hours",
          "name: a, key: [], algorithm: fixed-window, rate: 5/h, align: calendar UTC",
          "rate 5/h of limit 'a' is not one day, week, month or year, which `align: calendar` counts by" },
        { "nor two days", "name: a, key: [], algorithm: fixed-window, rate: 5/2d, align: calendar UTC",
          "rate 5/2d of limit 'a' is not one day, week, month or year, which `align: calendar` counts by" },
        { "months", "name: a, key: [], algorithm: fixed-window, rate: 2/month, align: calendar UTC", "" },
        { "and years", "name: a, key: [], algorithm: fixed-window, rate: 2/year, align: calendar UTC", "" },
        { "a month needs a calendar", "name: a, key: [], rate: 2/month, burst: 2",
          "rate 2/month of limit 'a' has the unit month, whose length varies" },
        { "cost", BUCKET ", cost: 3", "" },
        { "cost 0 would charge nobody", BUCKET ", cost: 0", "cost 0 of limit 'a' is too small" },
        { "cost below 0", BUCKET ", cost: -1", "cost -1 of limit 'a' is not a plain integer" },
        { "rate 0 never refills", "name: a, key: [], rate: 0/s, burst: 20", "" },
        { "burst 0 blocks", "name: a, key: [], rate: 5/s, burst: 0", "" },
        { "policies of a full table", BUCKET ", when-full: evict-least", "" },
        { "a misspelt word", BUCKET ", when-full: evict-last",
          "when-full evict-last of limit 'a' is not a word that this field knows" },
        { "a word of no field", BUCKET ", missing-key: no",
          "missing-key no of limit 'a' is not a word that this field knows" },
        { "too fast", "name: a, key: [], rate: 99999999999/ms, burst: 5",
          "rate 99999999999/ms of limit 'a' cannot be kept: the rate is too fast to be represented" },
        { "too much at once", "name: a, key: [], rate: 1/s, burst: 9223372036854775807",
          "burst 9223372036854775807 of limit 'a' cannot be kept: rate and burst together do not fit 62 bits "
          "for ten "
          "years" },
        { "a log of too many", "name: a, key: [], algorithm: sliding-log, rate: 65537/d",
          "rate 65537/d of limit 'a' cannot be kept: a sliding log holds at most 65536 requests" },
        { "an unknown field", BUCKET ", colour: red", "unknown field 'colour' in limit 'a'" },
        { "a field twice", BUCKET ", burst: 21", "'burst' is given twice; first in line 3" },
    };
    check_rows("", rows, COUNT_OF(rows));

    static const struct limit_row stamps[] = {
        { "logs that need more stamps than there are", "name: a, key: [], algorithm: sliding-log, rate: 65/d",
          "rate 65/d of limit 'a' cannot be kept: the log stamps are used up" },
    };
    check_rows("memory: { log-stamps: 64 }\n", stamps, COUNT_OF(stamps));
}

static void conditions_of_a_limit(void **state)
{
    (void)state;
#define WHEN(inside) BUCKET ", when: {" inside "}"
    static const struct limit_row rows[] = {
        { "a pattern", WHEN("path: \"/v1/**\""), "" },
        { "a list", WHEN("method: [GET, HEAD]"), "" },
        { "words", WHEN("tenant: absent, user: present"), "" },
        { "a literal", WHEN("tenant: { is: present }"), "" },
        { "a literal in a list", WHEN("tenant: [ { is: absent }, acme ]"), "" },
        { "not", WHEN("tenant: { not: acme }"), "" },
        { "not in a list", WHEN("tenant: { not: [acme, \"x*\"] }"), "" },
        { "not a literal", WHEN("tenant: { not: { is: present } }"), "" },
        { "networks", WHEN("ip: [10.0.0.0/8, \"2001:db8::/32\", 192.0.2.1]"), "" },
        { "not a network", WHEN("ip: { not: 10.0.0.0/8 }"), "" },
        { "no conditions", WHEN(""), "" },
        { "no map", BUCKET ", when: all", "when all of limit 'a' is a scalar, not a map of attributes" },
        { "an attribute with a bad name", WHEN("user_id: x"),
          "when user_id of limit 'a' is not the name of an attribute" },
        { "an empty pattern", WHEN("tenant: \"\""),
          "when.tenant of limit 'a' is empty; an empty value is absent" },
        { "nothing", WHEN("tenant: "), "when.tenant of limit 'a' is empty" },
        { "an empty list", WHEN("tenant: []"),
          "when.tenant of limit 'a' is an empty list, which nothing matches" },
        { "a lone backslash", WHEN("tenant: 'a\\'"), "when.tenant a\\ of limit 'a' ends in a lone '\\'" },
        { "a word in a list", WHEN("tenant: [acme, absent]"),
          "when.tenant absent of limit 'a' is a word that cannot stand in a list" },
        { "another map", WHEN("tenant: { matches: x }"),
          "when.tenant of limit 'a' is a map that is neither `{ is: ... }`, `{ not: ... }` nor `{ in: ..., "
          "not: ... }`" },
        { "not of not", WHEN("tenant: { not: { not: x } }"),
          "when.tenant of limit 'a' is a map, not one value" },
        { "no address", WHEN("ip: 10.0.0.0/33"),
          "when.ip 10.0.0.0/33 of limit 'a' has a prefix length that is not 0..32 (IPv4) or 0..128 (IPv6)" },
        { "a glob is no network", WHEN("ip: \"10.*\""),
          "when.ip 10.* of limit 'a' is no IPv4 or IPv6 address or network" },
        { "host bits", WHEN("ip: 10.0.0.1/8"),
          "when.ip 10.0.0.1/8 of limit 'a' has bits set behind its prefix" },
    };
    check_rows("", rows, COUNT_OF(rows));
}

/* ---- The other parts ------------------------------------------------------------------------------------------------------- */

static void parts_of_a_contract(void **state)
{
    (void)state;
    static const struct {
        const char *why, *head, *errors;
    } rows[] = {
        { "all of server",
          "server: { http: [8080, \"unix:/run/w.sock\"], admin: /run/a.sock, tokens: /etc/t, uids: [0, 33] }\n",
          "" },
        { "one address", "server: { http: 127.0.0.1:0 }\n", "" },
        { "a uid that is none", "server: { uids: [root] }\n", "uids root of server is not a plain integer" },
        { "uids that are no list", "server: { uids: 0 }\n", "uids 0 of server is not a list" },
        { "an unknown field", "server: { htp: 1 }\n", "unknown field 'htp' in server" },
        { "memory", "memory: { keys: 100, log-stamps: 200, new-keys: 10000/s }\n", "" },
        { "no keys", "memory: { keys: 0 }\n", "keys 0 of memory is too small" },
        { "too many", "memory: { keys: 4294967297 }\n", "keys 4294967297 of memory is too large" },
        { "new keys by the month", "memory: { new-keys: 5/month }\n",
          "new-keys 5/month of memory has a unit whose length varies" },
        { "more new keys than can be counted", "memory: { new-keys: 99999999999999/s }\n",
          "new-keys 99999999999999/s of memory is too fast to be represented" },
        { "no new keys", "memory: { new-keys: 0/s }\n", "new-keys 0/s of memory would admit no key at all" },
        { "headers", "headers: draft\n", "" },
        { "no such headers", "headers: both\n", "headers both is not a word that this field knows" },
        { "replicas", "replicas: 3\n", "" },
        { "no replicas", "replicas: 0\n", "replicas 0 is too small" },
        { "identity",
          "identity: { proxies: [127.0.0.0/8, \"::1\"], ip: { from: x-forwarded-for, group: { ipv4: 24 } },"
          " tenant: { from: \"header:x-tenant\", only: authenticated }, key: { from: \"cookie:k\", digest: "
          "true },"
          " q: \"query:q\", request-id: \"header:x-rid\" }\n",
          "" },
        { "ip defaults to the peer", "identity: { ip: { group: { ipv6: 48 } } }\n", "" },
        { "another needs a source", "identity: { tenant: { only: authenticated } }\n",
          "from is missing for identity 'tenant'" },
        { "no source", "identity: { tenant: x-tenant }\n", "from x-tenant of identity 'tenant' is no source" },
        { "a header without a name", "identity: { tenant: \"header:\" }\n",
          "from header: of identity 'tenant' has no name behind the colon" },
        { "a header with a blank", "identity: { tenant: \"header:x tenant\" }\n",
          "from header:x tenant of identity 'tenant' has a byte that such a name cannot have" },
        { "an address from a cookie", "identity: { ip: \"cookie:ip\" }\n",
          "from cookie:ip of identity 'ip' would let every client choose its address" },
        { "a tenant from the peer", "identity: { tenant: peer }\n",
          "from peer of identity 'tenant' gives an address, which is the attribute ip" },
        { "what the request line says", "identity: { path: \"header:x-path\" }\n",
          "attribute path of identity comes from the request itself and cannot be set here" },
        { "a group of nothing is one budget", "identity: { ip: { group: { ipv4: 0 } } }\n",
          "ipv4 0 of identity 'ip' is too small" },
        { "grouping of what is no address",
          "identity: { tenant: { from: \"header:t\", group: { ipv4: 24 } } }\n",
          "group of identity 'tenant' means nothing but for ip" },
        { "a digest of an address", "identity: { ip: { from: peer, digest: true } }\n",
          "digest true of identity 'ip' means nothing for ip: an address must stay readable" },
        { "booleans are true and false", "identity: { a: { from: \"header:a\", digest: yes } }\n",
          "digest yes of identity 'a' is neither true nor false" },
        { "only whom", "identity: { a: { from: \"header:a\", only: trusted } }\n",
          "only trusted of identity 'a' is not the word authenticated" },
        { "a proxy that is none", "identity: { proxies: [localhost] }\n",
          "proxies localhost of identity is no IPv4 or IPv6 address or network" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct limit_row row = { rows[i].why, BUCKET, rows[i].errors };
        check_rows(rows[i].head, &row, 1);
    }
}

static void the_top_level(void **state)
{
    (void)state;
    static const struct {
        const char *why, *text, *errors;
    } rows[] = {
        { "no version", "limits: []\n", "weir is missing" },
        { "another version", "weir: 2\nlimits: []\n", "weir 2 is too large" },
        { "no limits", "weir: 1\n", "limits is missing" },
        { "an empty list is only a warning", "weir: 1\nlimits: []\n", "" },
        { "limits that are no list", "weir: 1\nlimits: {}\n", "limits is not a list" },
        { "a limit that is no map", "weir: 1\nlimits: [a]\n",
          "a member of limits a of limit 1 is a scalar, not a map of fields" },
        { "a list at the top", "- weir: 1\n", "the contract is a list, not a map of fields" },
        { "a word at the top", "weir\n", "the contract weir is a scalar, not a map of fields" },
        { "an unknown part", "weir: 1\nlimit: []\nlimits: []\n", "unknown field 'limit'" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char errors[400];
        struct loaded loaded = contract_from(rows[i].text, 0);
        join_errors(&loaded, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s: got \"%s\", not \"%s\"", rows[i].why, errors, rows[i].errors);
        loaded_free(&loaded);
    }
}

/* ---- Cures and warnings ------------------------------------------------------------------------------------------------------ */

static void misspelt_fields_get_a_suggestion(void **state)
{
    (void)state;
    static const struct {
        const char *field, *cure;
    } rows[] = {
        { "brust: 5", "did you mean 'burst'?" },
        { "algoritm: x", "did you mean 'algorithm'?" },
        { "missing_key: skip", "did you mean 'missing-key'?" },
        { "window: 60s", "the period is part of the rate: write `rate: 60/1m`" },
        { "capacity: 20", "write `burst`" },
        { "wait: 1s500ms", "write `wait: { up-to: 1s500ms, queue: 100 }`, or `wait: never`" },
        { "wait: true", "write `wait: { up-to: 2s, queue: 100 }`, or `wait: never`" },
        { "queue: 100", "it belongs in `wait`: write `wait: { up-to: 2s, queue: 100 }`" },
        { "up-to: 2s", "it belongs in `wait`: write `wait: { up-to: 2s, queue: 100 }`" },
        { "hold: 0s", "write a length of time from 1 ms to 10 years" },
        { "zzz: 1", "the fields are name, about, when, key, missing-key, algorithm, rate, burst, at-most, "
                    "hold, align, cost, "
                    "debt, refused, retries, wait, scope, lease, when-store-fails, when-full, when-state-lost, "
                    "enforce, reply, "
                    "overrides" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char fields[200];
        snprintf(fields, sizeof fields, BUCKET ", %s", rows[i].field);
        struct loaded loaded = load_limit("", fields);
        assert_string_equal(weir_diagnostics_at(loaded.diagnostics, 0)->cure, rows[i].cure);
        loaded_free(&loaded);
    }
}

/* A limit whose key is missing is skipped; if nothing else applies, loading says so (and only then). */
static void B51_warns_of_requests_that_meet_no_limit(void **state)
{
    (void)state;
    static const struct {
        const char *why, *limits, *warning; /* "": none */
    } rows[] = {
        { "a limit by tenant alone", "- { name: a, key: [tenant], rate: 5/s, burst: 1 }",
          "a request without 'tenant' meets no limit at all: limit 'a' skips it (for instance path=/x)" },
        { "with a path, an instance is shown",
          "- { name: a, when: { path: \"/v1/**\" }, key: [tenant], rate: 5/s, burst: 1 }",
          "a request without 'tenant' meets no limit at all: limit 'a' skips it (for instance path=/v1/x)" },
        { "share covers it", "- { name: a, key: [tenant], missing-key: share, rate: 5/s, burst: 1 }", "" },
        { "refuse covers it", "- { name: a, key: [tenant], missing-key: refuse, rate: 5/s, burst: 1 }", "" },
        { "a limit for the rest covers it",
          "- { name: a, key: [tenant], rate: 5/s, burst: 1 }\n - { name: b, when: { tenant: absent }, key: "
          "[ip], rate: 5/s, burst: 1 }",
          "" },
        { "one for everybody too",
          "- { name: a, key: [tenant], rate: 5/s, burst: 1 }\n - { name: b, key: [], rate: 5/s, burst: 1 }",
          "" },
        { "one for other paths does not",
          "- { name: a, when: { path: \"/v1/**\" }, key: [tenant], rate: 5/s, burst: 1 }\n"
          " - { name: b, when: { tenant: absent, path: \"/pay/**\" }, key: [ip], rate: 5/s, burst: 1 }",
          "a request without 'tenant' meets no limit at all: limit 'a' skips it (for instance path=/v1/x "
          "ip=192.0.2.1)" },
        { "the doors know address, method, host and path",
          "- { name: a, key: [ip, path], rate: 5/s, burst: 1 }", "" },
        { "a limit for requests with a tenant has no gap of its own",
          "- { name: a, when: { tenant: present }, key: [tenant], rate: 5/s, burst: 1 }", "" },
        { "a key that is never there",
          "- { name: a, when: { tenant: absent }, key: [tenant], rate: 5/s, burst: 1 }",
          "limit 'a' is for requests without 'tenant', and counts them by it: it never applies" },
        { "a key that is the same for all",
          "- { name: a, when: { tenant: absent }, key: [tenant], missing-key: share, rate: 5/s, burst: 1 }",
          "limit 'a' is for requests without 'tenant', and counts them by it: they all share one budget" },
        { "no limits", "[]", "the contract has no limits: every request is allowed" },
        { "a path that cannot be", "- { name: a, when: { path: v1 }, key: [], rate: 5/s, burst: 1 }",
          "when.path v1 of limit 'a' can never match: a path begins with '/'" },
        { "a path with a query", "- { name: a, when: { path: \"/a?x=*\" }, key: [], rate: 5/s, burst: 1 }",
          "when.path /a?x=* of limit 'a' can never match: a path ends before '?' (the rest is the attribute "
          "query)" },
        { "a path in another spelling",
          "- { name: a, when: { path: \"/a//b\" }, key: [], rate: 5/s, burst: 1 }",
          "when.path /a//b of limit 'a' can never match: paths are brought into one spelling first" },
        { "a host in upper case", "- { name: a, when: { host: Example.org }, key: [], rate: 5/s, burst: 1 }",
          "when.host Example.org of limit 'a' can never match: hosts are brought into lower case first" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[1000];
        snprintf(text, sizeof text, "weir: 1\nlimits:\n %s\n", rows[i].limits);
        struct loaded loaded = contract_from(text, 0);
        assert_int_equal(loaded.error, 0);
        const struct weir_diagnostic *first = weir_diagnostics_at(loaded.diagnostics, 0);
        const char *warning = first == NULL ? "" : first->message;
        if (strcmp(warning, rows[i].warning) != 0)
            fail_msg("%s: got \"%s\", not \"%s\"", rows[i].why, warning, rows[i].warning);
        if (first != NULL)
            assert_int_equal(first->severity, WEIR_SEVERITY_WARNING);
        assert_true(weir_diagnostics_count(loaded.diagnostics) <= 1);
        loaded_free(&loaded);
    }
}

/* ---- Looking inside ------------------------------------------------------------------------------------------------------------ */

static void what_was_loaded_can_be_read(void **state)
{
    (void)state;
    const char *text =
        "weir: 1\n"
        "server: { http: [8080, unix:/x], tokens: /t, uids: [7] }\n"
        "headers: x-ratelimit\n"
        "limits:\n"
        "  - { name: b, about: 'the \"first\"', key: [tenant], missing-key: share, rate: 3/s, burst: 10 }\n"
        "  - { name: w, when: { path: [\"/a\", \"/b\"], ip: { not: 10.0.0.0/8 } }, key: [], cost: 2,"
        " algorithm: fixed-window, rate: 60/1m }\n"
        "  - { name: m, key: [], algorithm: fixed-window, rate: 9/month, align: calendar Europe/Berlin }\n"
        "  - { name: z, key: [], rate: 0/s, burst: 5 }\n";
    struct loaded loaded = contract_from(text, 0);
    assert_int_equal(loaded.error, 0);
    assert_string_equal(loaded.printed, "");
    const struct weir_contract *contract = loaded.contract;

    assert_int_equal(weir_contract_limit_count(contract), 4);
    assert_null(weir_contract_limit(contract, 4));
    assert_null(weir_contract_limit(contract, WEIR_NO_LIMIT));
    const struct weir_contract_limit *bucket = weir_contract_limit(contract, 0);
    assert_string_equal(bucket->name, "b");
    assert_string_equal(bucket->about, "the \"first\"");
    assert_int_equal(bucket->algorithm, WEIR_TOKEN_BUCKET);
    assert_int_equal(bucket->capacity, 10);
    assert_int_equal(bucket->window, 3333333334); /* 10/3 s, rounded up */
    assert_string_equal(
        bucket->json,
        "{\"name\":\"b\",\"about\":\"the "
        "\\\"first\\\"\",\"when\":{},\"key\":[\"tenant\"],\"missing_key\":\"share\","
        "\"algorithm\":\"token-bucket\",\"rate\":\"3/"
        "s\",\"period\":1,\"burst\":10,\"at_most\":null,\"hold\":null,\"align\":null,\"cost\":null,\"debt\":0,"
        "\"refused\":\"free\",\"retries\":\"counted\",\"wait\":\"never\",\"scope\":\"process\",\"when_store_"
        "fails\":null,\"lease\":null,\"store_tick\":null,"
        "\"when_full\":\"overflow\","
        "\"when_state_lost\":\"full\",\"enforce\":\"always\","
        "\"reply\":{\"status\":429,\"title\":null,\"detail\":null},"
        "\"overrides\":{\"count\":0,\"unlimited\":0,\"least\":null,\"most\":null}}");
    const struct weir_contract_limit *window = weir_contract_limit(contract, 1);
    assert_int_equal(window->capacity, 60);
    assert_int_equal(window->window, WEIR_MINUTE);
    assert_non_null(
        strstr(window->json, "\"when\":{\"path\":[\"/a\",\"/b\"],\"ip\":{\"not\":\"10.0.0.0/8\"}}"));
    assert_non_null(strstr(window->json, "\"cost\":2,"));
    assert_non_null(strstr(window->json, "\"align\":\"epoch\""));
    assert_non_null(strstr(weir_contract_limit(contract, 2)->json, "\"align\":\"calendar Europe/Berlin\""));
    assert_int_equal(weir_contract_limit(contract, 3)->window, WEIR_NO_TIME);
    assert_string_equal(weir_limit_name(weir_contract_limiter(contract), 1), "w");

    const struct weir_contract_server *server = weir_contract_server(contract);
    assert_int_equal(server->http_count, 2);
    assert_string_equal(server->http[0], "8080");
    assert_string_equal(server->http[1], "unix:/x");
    assert_null(server->admin);
    assert_string_equal(server->tokens, "/t");
    assert_true(server->has_uids);
    assert_int_equal(server->uid_count, 1);
    assert_int_equal(server->uids[0], 7);
    assert_int_equal(server->headers, WEIR_HEADERS_X_RATELIMIT);
    loaded_free(&loaded);
}

/* `printf 'weir: 1\nlimits: []\n' | sha256sum` */
static void the_version_names_the_text(void **state)
{
    (void)state;
    struct loaded loaded = contract_from("weir: 1\nlimits: []\n", 0);
    assert_int_equal(loaded.error, 0);
    assert_string_equal(weir_contract_version(loaded.contract), "32fa8926a958255a");
    loaded_free(&loaded);
}

static void a_file_that_cannot_be_read(void **state)
{
    (void)state;
    struct weir_contract *contract = NULL;
    struct weir_diagnostics *diagnostics;
    assert_int_equal(weir_contract_load(&contract, "/nonexistent/weir.yaml", NULL, &diagnostics),
                     WEIR_ERR_FILE);
    assert_null(contract);
    assert_int_equal(weir_diagnostics_count(diagnostics), 1);
    assert_string_equal(weir_diagnostics_at(diagnostics, 0)->message,
                        "cannot be read: No such file or directory");
    assert_int_equal(weir_diagnostics_at(diagnostics, 0)->line, 0);
    weir_diagnostics_free(diagnostics);
    assert_int_equal(weir_contract_load(&contract, "/", NULL, NULL),
                     WEIR_ERR_FILE); /* opens, but is a folder */
}

/* Limits in the numbers of design section 8 load, and 32,767 are one too many. */
static void many_limits(void **state)
{
    (void)state;
    for (unsigned count = WEIR_LIMITS_MAX; count <= WEIR_LIMITS_MAX + 1; count++) {
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        fprintf(out, "weir: 1\nlimits:\n");
        for (unsigned i = 0; i < count; i++)
            fprintf(out, "- { name: l%u, when: { path: /p%u }, key: [], rate: 5/s, burst: 1 }\n", i, i);
        assert_int_equal(fclose(out), 0);
        struct loaded loaded = contract_from(text, 0);
        if (count == WEIR_LIMITS_MAX) {
            assert_int_equal(loaded.error, 0);
            assert_int_equal(ask(loaded.contract, "path=/p32765", 1, 0).decision.limit, 32765);
        } else {
            assert_int_equal(loaded.error, WEIR_ERR_CONTRACT);
            assert_string_equal(weir_diagnostics_at(loaded.diagnostics, 0)->message,
                                "limits has more than 32766 members");
        }
        loaded_free(&loaded);
        free(text);
    }
}

/* A thousand findings are kept of a file that is wrong in every line. */
static void findings_are_bounded(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "weir: 1\nlimits:\n");
    for (unsigned i = 0; i < 3000; i++)
        fprintf(out, "- { name: l%u, key: [], rate: 5, burst: 1 }\n", i);
    assert_int_equal(fclose(out), 0);
    struct loaded loaded = contract_from(text, 0);
    assert_int_equal(loaded.error, WEIR_ERR_CONTRACT);
    assert_int_equal(weir_diagnostics_count(loaded.diagnostics), 1000);
    assert_string_equal(weir_diagnostics_at(loaded.diagnostics, 0)->message,
                        "more than a thousand findings: only the first are shown");
    loaded_free(&loaded);
    free(text);
}

/* ---- Out of memory --------------------------------------------------------------------------------------------------------------- */

struct faulty {
    size_t left; /* allocations that still succeed */
    size_t live;
};

static void *faulty_allocate(void *context, size_t size, size_t alignment)
{
    struct faulty *faulty = context;
    if (faulty->left == 0)
        return NULL;
    faulty->left--;
    faulty->live++;
    void *memory = aligned_alloc(alignment < 64 ? 64 : alignment, (size + 63) & ~(size_t)63);
    assert_non_null(memory);
    memset(memory, 0, size);
    return memory;
}

static void faulty_release(void *context, void *memory, size_t size)
{
    (void)size;
    ((struct faulty *)context)->live--;
    free(memory);
}

/* Whichever allocation fails: the code says so, nothing leaks, and one more makes it. */
static void survives_each_failed_allocation(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size, needed = 0;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "weir: 1\nlimits:\n");
    for (unsigned i = 0; i < 120; i++)
        fprintf(out, "- { name: l%u, when: { path: /p%u }, key: [tenant], rate: 5/s, burst: 1 }\n", i, i);
    assert_int_equal(fclose(out), 0);
    for (size_t allowed = 0; needed == 0; allowed++) {
        struct faulty faulty = { .left = allowed };
        struct weir_allocator allocator = { faulty_allocate, faulty_release, &faulty };
        const struct weir_contract_options options = { .keys = 64, .allocator = &allocator };
        struct loaded loaded = contract_with(text, strlen(text), &options);
        assert_true(loaded.error == 0 || loaded.error == WEIR_ERR_MEMORY);
        if (loaded.error == 0)
            needed = allowed;
        else
            assert_null(loaded.contract);
        loaded_free(&loaded);
        assert_int_equal(faulty.live, 0);
        assert_true(allowed < 10000);
    }
    assert_true(needed > 10);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_all_mistakes_in_one_run),
        cmocka_unit_test(B47_units_and_types),
        cmocka_unit_test(B47_integers),
        cmocka_unit_test(refuses_what_comes_later_by_name),
        cmocka_unit_test(fields_of_a_limit),
        cmocka_unit_test(conditions_of_a_limit),
        cmocka_unit_test(parts_of_a_contract),
        cmocka_unit_test(the_top_level),
        cmocka_unit_test(misspelt_fields_get_a_suggestion),
        cmocka_unit_test(B51_warns_of_requests_that_meet_no_limit),
        cmocka_unit_test(what_was_loaded_can_be_read),
        cmocka_unit_test(the_version_names_the_text),
        cmocka_unit_test(a_file_that_cannot_be_read),
        cmocka_unit_test(many_limits),
        cmocka_unit_test(findings_are_bounded),
        cmocka_unit_test(survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
