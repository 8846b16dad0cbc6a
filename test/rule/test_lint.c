// SPDX-License-Identifier: Apache-2.0
/* test_lint.c - legal contracts that are probably wrong, and their neighbours that are right: what is found, where, why. */
#include "support/contracts.h"
#include "support/unit.h"

/* The findings of a contract with these limits as "LINE:WORD message" joined by " | "; "" when there are none. The word is
   what the caret underlines. */
static void review(const char *head, const char *limits, unsigned replicas, char *out, size_t size)
{
    char text[4096];
    struct weir_diagnostics *diagnostics;
    snprintf(text, sizeof text, "weir: 1\n%slimits:\n%s", head, limits);
    struct loaded loaded = contract_from(text, 0);
    if (loaded.error != 0)
        fail_msg("%s does not load: %s", text, loaded.printed);
    assert_int_equal(weir_contract_lint(loaded.contract, replicas, &diagnostics), 0);
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < weir_diagnostics_count(diagnostics); i++) {
        const struct weir_diagnostic *item = weir_diagnostics_at(diagnostics, i);
        bool is_note = item->severity == WEIR_SEVERITY_NOTE;
        assert_int_not_equal(item->severity, WEIR_SEVERITY_ERROR);
        assert_string_equal(item->file, "t.yaml");
        assert_true(strlen(item->cure) > 0);
        len += (size_t)snprintf(out + len, size - len, "%s%s%u:%.*s %s", len == 0 ? "" : " | ",
                                is_note ? "note " : "", item->line, (int)item->width,
                                item->source + item->column - 1, item->message);
        assert_true(len < size);
    }
    assert_true((weir_diagnostics_count(diagnostics) == 0) == (diagnostics == NULL));
    weir_diagnostics_free(diagnostics);
    loaded_free(&loaded);
}

struct row {
    const char *why, *head, *limits, *found;
};

static void check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char found[4000];
        review(rows[i].head, rows[i].limits, 0, found, sizeof found);
        if (strcmp(found, rows[i].found) != 0)
            fail_msg("%s:\n%s\ngot  %s\nwant %s", rows[i].why, rows[i].limits, found, rows[i].found);
    }
}

#define EDGE(what, most) \
    "limit 'a' guards " what " with a fixed window: whoever knows its edge gets " most \
    " through at once, twice its count"

static void fixed_windows_where_guessing_pays(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a login by fixed window", "",
          "- {name: a, when: {path: /login}, key: [], algorithm: fixed-window, rate: 5/m}\n",
          "3:fixed-window " EDGE("/login", "10") },
        { "in capitals, inside a longer path", "",
          "- {name: a, when: {path: \"/x/Sign-In/**\"}, key: [], algorithm: fixed-window, rate: 7/h}\n",
          "3:fixed-window " EDGE("/x/Sign-In/**", "14") },
        { "by address", "", "- {name: a, key: [ip], algorithm: fixed-window, rate: 5/m}\n",
          "3:fixed-window " EDGE("addresses", "10") },
        { "another path has nothing to guess", "",
          "- {name: a, when: {path: /items}, key: [], algorithm: fixed-window, rate: 5/m}\n", "" },
        { "a path that is excluded is not guarded", "",
          "- {name: a, when: {path: {not: /login}}, key: [], algorithm: fixed-window, rate: 5/m}\n", "" },
        { "a sliding window has no edge", "",
          "- {name: a, when: {path: /login}, key: [ip], algorithm: sliding-window, rate: 5/m}\n", "" },
        { "a window from the first request has none that anybody knows", "",
          "- {name: a, when: {path: /login}, key: [], algorithm: fixed-window, rate: 5/m, align: "
          "first-request}\n",
          "" },
        { "a small bucket beside it guards the edge", "",
          "- {name: a, when: {path: /login}, key: [ip], algorithm: fixed-window, rate: 50/d}\n"
          "- {name: b, when: {path: /login}, key: [ip], rate: 1/m, burst: 5}\n",
          "" },
        { "one for other requests does not", "",
          "- {name: a, when: {path: /login}, key: [], algorithm: fixed-window, rate: 50/d}\n"
          "- {name: b, when: {path: /other}, key: [], rate: 1/m, burst: 5}\n",
          "3:fixed-window " EDGE("/login", "100") },
        { "one that does not enforce does not", "",
          "- {name: a, when: {path: /login}, key: [], algorithm: fixed-window, rate: 50/d}\n"
          "- {name: b, when: {path: /login}, key: [], rate: 1/m, burst: 5, enforce: shadow}\n",
          "3:fixed-window " EDGE("/login", "100") },
    };
    check(rows, COUNT_OF(rows));
}

#define WRITTEN(name) \
    "limit 'a' counts by '" name \
    "', which every client can write: it can spend another's budget, or take a new name " \
    "for a fresh one"
#define GAP(what) \
    "a request without '" what "' meets no limit at all: limit 'a' skips it (for instance path=/x)"
#define ALL "- {name: all, key: [], rate: 1000/s, burst: 1000}\n"

static void keys_that_clients_write(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a tenant from a header", "identity: {tenant: 'header:x-tenant'}\n",
          "- {name: a, key: [tenant], rate: 5/s, burst: 20}\n" ALL, "4:[ " WRITTEN("tenant") },
        { "a cookie", "identity: {user: 'cookie:session'}\n",
          "- {name: a, key: [user], rate: 5/s, burst: 20}\n" ALL, "4:[ " WRITTEN("user") },
        { "from authenticated callers only",
          "identity: {tenant: {from: 'header:x-tenant', only: authenticated}}\n",
          "- {name: a, key: [tenant], rate: 5/s, burst: 20}\n" ALL, "" },
        { "the digest of a secret", "identity: {k: {from: 'header:authorization', digest: true}}\n",
          "- {name: a, key: [k], rate: 5/s, burst: 20}\n" ALL, "" },
        { "an attribute that only bodies bring comes from a trusted caller", "",
          "- {name: a, key: [tenant], rate: 5/s, burst: 20}\n" ALL, "" },
        { "an address as text", "identity: {client: 'header:X-Real-IP'}\n",
          "- {name: a, key: [client], rate: 5/s, burst: 20}\n" ALL,
          "4:[ limit 'a' counts by 'client', an address as text: IPv6 is not grouped, so one client has 2^64 "
          "budgets, "
          "and clients without a proxy write it themselves" },
        { "IPv6 by single addresses", "identity: {ip: {from: peer, group: {ipv4: 32, ipv6: 128}}}\n",
          "- {name: a, key: [ip], rate: 5/s, burst: 20}\n" ALL,
          "2:128 IPv6 addresses are counted by 128 bits: one customer has a /64 at least, and so 2^64 "
          "budgets" },
        { "a /56 is coarser than a /64", "identity: {ip: {from: peer, group: {ipv4: 32, ipv6: 56}}}\n",
          "- {name: a, key: [ip], rate: 5/s, burst: 20}\n" ALL, "" },
        { "grouping means nothing where no limit counts by address",
          "identity: {ip: {from: peer, group: {ipv4: 32, ipv6: 128}}}\n",
          "- {name: a, key: [], rate: 5/s, burst: 20}\n", "" },
        { "and without the key there is no limit at all (the loader says so too)", "",
          "- {name: a, key: [tenant], rate: 5/s, burst: 20}\n", "3:[ " GAP("tenant") },
    };
    check(rows, COUNT_OF(rows));
}

#define NOTE_PERMITS(name, more) \
    "note 3:concurrency limit '" name "' gives permits at /v1/acquire alone" more \
    ": /v1/check and /v1/auth* only look, hold nothing, and let requests that come together all pass"

static void costs_above_the_burst(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a cost's bound above the burst", "",
          "- {name: a, key: [], rate: 5/s, burst: 20, cost: {from: tokens, default: 1, max: 21}}\n",
          "3:{ limit 'a' takes costs up to 21, and its burst is 20: a request above that never passes, "
          "however long "
          "it waits" },
        { "a default above it as well: most requests say nothing", "",
          "- {name: a, key: [], algorithm: leaky-queue, rate: 5/s, wait: {up-to: 2s, queue: 10}, cost: {from: "
          "tokens, default: 2, max: 5}}\n",
          "3:{ limit 'a' charges 2 where the request does not say, takes costs up to 5, and its burst is 1: a "
          "request that does not say never passes, nor does one above the burst" },
        { "equal is enough", "",
          "- {name: a, key: [], rate: 5/s, burst: 20, cost: {from: tokens, default: 1, max: 20}}\n", "" },
        { "a cost above the count", "", "- {name: a, key: [], algorithm: sliding-window, rate: 5/m, cost: 6}\n",
          "3:6 limit 'a' charges 6 for each request, and its count is 5: no request ever passes" },
        { "a queue is a bucket of one", "",
          "- {name: a, key: [], algorithm: leaky-queue, rate: 5/s, wait: {up-to: 2s, queue: 10}, cost: 2}\n",
          "3:2 limit 'a' charges 2 for each request, and its burst is 1: no request ever passes" },
        { "permits of one request", "",
          "- {name: a, key: [], algorithm: concurrency, at-most: 4, hold: 30s, cost: {from: n, max: 5}}\n",
          NOTE_PERMITS(
              "a", "") " | 3:{ limit 'a' takes costs up to 5, and its at-most is 4: a request above that never "
                       "passes, however long it waits" },
        { "a burst of zero blocks on purpose", "", "- {name: a, key: [], rate: 5/s, burst: 0, cost: 6}\n", "" },
    };
    check(rows, COUNT_OF(rows));
}

#define IDLE(who, by) \
    "limit '" who "' can never refuse: '" by \
    "' counts the same requests and admits no more than this one in any time"

static void limits_that_never_refuse(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a bucket below another in both numbers", "",
          "- {name: a, key: [], rate: 5/s, burst: 20}\n- {name: b, key: [], rate: 5/s, burst: 19}\n",
          "3:5/s " IDLE("a", "b") },
        { "one is faster, the other deeper: both matter", "",
          "- {name: a, key: [], rate: 5/s, burst: 20}\n- {name: b, key: [], rate: 6/s, burst: 19}\n", "" },
        { "the same rate written otherwise", "",
          "- {name: a, key: [], rate: 1/s, burst: 20}\n- {name: b, key: [], rate: 60/m, burst: 20}\n",
          "4:60/m " IDLE("b", "a") },
        { "one unit a year makes the difference", "",
          "- {name: a, key: [], rate: 31536000/365d, burst: 20}\n- {name: b, key: [], rate: 31536001/365d, "
          "burst: 19}\n",
          "" },
        { "another key is another budget", "",
          "- {name: a, key: [x], rate: 5/s, burst: 20}\n- {name: b, key: [y], rate: 1/s, burst: 1}\n" ALL, "" },
        { "a coarser key counts all that the finer counts", "",
          "- {name: a, key: [x], rate: 5/s, burst: 20}\n- {name: b, key: [], rate: 5/s, burst: 20}\n",
          "3:5/s " IDLE("a", "b") },
        { "a narrower condition does not count all", "",
          "- {name: a, key: [], rate: 5/s, burst: 20}\n- {name: b, when: {path: /x}, key: [], rate: 1/s, "
          "burst: 1}\n",
          "" },
        { "a wider one does", "",
          "- {name: a, when: {path: /x}, key: [], rate: 5/s, burst: 20}\n- {name: b, key: [], rate: 1/s, "
          "burst: 1}\n",
          "3:5/s " IDLE("a", "b") },
        { "one that only watches refuses nothing", "",
          "- {name: a, key: [], rate: 5/s, burst: 20}\n- {name: b, key: [], rate: 1/s, burst: 1, enforce: "
          "shadow}\n",
          "" },
        { "a cost of another kind", "",
          "- {name: a, key: [], rate: 5/s, burst: 20}\n- {name: b, key: [], rate: 5/s, burst: 20, cost: 2}\n",
          "" },
        { "sizes of their own may be larger", "",
          "- {name: a, key: [x], rate: 5/s, burst: 20}\n"
          "- {name: b, key: [x], rate: 1/s, burst: 1, overrides: [{key: {x: big}, burst: 99}]}\n" ALL,
          "" },
        { "F10: a minute below its second", "",
          "- {name: second, key: [], algorithm: fixed-window, rate: 5/s}\n"
          "- {name: minute, key: [], algorithm: fixed-window, rate: 3/m}\n",
          "3:5/s " IDLE("second", "minute") },
        { "F10: as the gateway has it, each matters", "",
          "- {name: second, key: [], algorithm: fixed-window, rate: 5/s}\n"
          "- {name: minute, key: [], algorithm: fixed-window, rate: 60/m}\n"
          "- {name: hour, key: [], algorithm: fixed-window, rate: 1000/h}\n",
          "" },
        { "an hour that sixty full minutes do not fill", "",
          "- {name: minute, key: [], algorithm: fixed-window, rate: 60/m}\n"
          "- {name: hour, key: [], algorithm: fixed-window, rate: 3600/h}\n",
          "4:3600/h " IDLE("hour", "minute") },
        { "one fewer would be filled", "",
          "- {name: minute, key: [], algorithm: fixed-window, rate: 60/m}\n"
          "- {name: hour, key: [], algorithm: fixed-window, rate: 3599/h}\n",
          "" },
        { "windows off the grid may straddle an edge: 2 * 5 in any time", "",
          "- {name: log, key: [], algorithm: sliding-log, rate: 9/s}\n"
          "- {name: window, key: [], algorithm: fixed-window, rate: 5/m}\n",
          "" },
        { "and ten are enough for both sides", "",
          "- {name: log, key: [], algorithm: sliding-log, rate: 10/s}\n"
          "- {name: window, key: [], algorithm: fixed-window, rate: 5/m}\n",
          "3:10/s " IDLE("log", "window") },
        { "a bucket below a day", "",
          "- {name: day, key: [], algorithm: fixed-window, rate: 87000/d, align: calendar UTC}\n"
          "- {name: bucket, key: [], rate: 1/s, burst: 10}\n",
          "" },
        { "the longest day has 25 hours: 90,010", "",
          "- {name: day, key: [], algorithm: fixed-window, rate: 90010/d, align: calendar UTC}\n"
          "- {name: bucket, key: [], rate: 1/s, burst: 10}\n",
          "3:90010/d " IDLE("day", "bucket") },
    };
    check(rows, COUNT_OF(rows));
}

#define HOLDS(who, by) \
    "limit '" who "' can never refuse: '" by \
    "' counts the same requests, gives no more permits than this one and holds them no shorter"

static void permits_that_never_run_out(void **state)
{
    (void)state;
#define PERMITS(name, most, hold) \
    "- {name: " name ", key: [], algorithm: concurrency, at-most: " most ", hold: " hold "}\n"
    static const struct row rows[] = {
        { "fewer, as long", "", PERMITS("a", "5", "30s") PERMITS("b", "4", "30s"),
          NOTE_PERMITS("a", " (one more likewise)") " | 3:5 " HOLDS("a", "b") },
        { "fewer, and shorter: the dead ones of the other hold on", "",
          PERMITS("a", "5", "31s") PERMITS("b", "4", "30s"), NOTE_PERMITS("a", " (one more likewise)") },
        { "of two alike the first holds", "", PERMITS("a", "4", "30s") PERMITS("b", "4", "30s"),
          NOTE_PERMITS("a", " (one more likewise)") " | 4:4 " HOLDS("b", "a") },
        { "a rate says nothing about how many run", "",
          PERMITS("a", "5", "30s") "- {name: b, key: [], rate: 1/s, burst: 1}\n", NOTE_PERMITS("a", "") },
        { "nor permits about how many begin", "",
          PERMITS("a", "1", "30s") "- {name: b, key: [], rate: 9/s, burst: 9}\n", NOTE_PERMITS("a", "") },
        { "a queue is a bucket of one; where that comes first, nobody gets to the queue", "",
          "- {name: a, key: [], rate: 50/s, burst: 1}\n"
          "- {name: b, key: [], algorithm: leaky-queue, rate: 50/s, wait: {up-to: 2s, queue: 100}}\n",
          "4:50/s " IDLE("b", "a") },
        { "permits guard no edge", "",
          "- {name: w, when: {path: /login}, key: [], algorithm: fixed-window, rate: 50/d}\n"
          "- {name: c, when: {path: /login}, key: [], algorithm: concurrency, at-most: 1, hold: 30s}\n",
          "3:fixed-window limit 'w' guards /login with a fixed window: whoever knows its edge gets 100 through "
          "at once, "
          "twice its count | note 4:concurrency limit 'c' gives permits at /v1/acquire alone: /v1/check and "
          "/v1/auth* "
          "only look, hold nothing, and let requests that come together all pass" },
    };
    check(rows, COUNT_OF(rows));
}

static void turns_that_never_come(void **state)
{
    (void)state;
#define WAITS(fields, up_to, queue) \
    "- {name: a, key: [], " fields ", wait: {up-to: " up_to ", queue: " queue "}}\n"
#define NEVER_FULL(queue, turns, up_to) \
    "3:{ limit 'a' has a queue of " queue " that is never full: no more than " turns \
    " who wait get a turn within " up_to
    static const struct row rows[] = {
        { "both bounds meet", "", WAITS("algorithm: leaky-queue, rate: 50/s", "2s", "100"), "" },
        { "one place too many", "", WAITS("algorithm: leaky-queue, rate: 50/s", "2s", "101"),
          NEVER_FULL("101", "100", "2 s") },
        { "one ns more, and it can be", "", WAITS("algorithm: leaky-queue, rate: 50/s", "2s1ns", "101"), "" },
        { "up-to that is never reached does no harm", "", WAITS("rate: 50/s, burst: 9", "1h", "1"), "" },
        { "a window has one edge in its time", "", WAITS("algorithm: fixed-window, rate: 5/m", "1m", "6"),
          NEVER_FULL("6", "5", "1 minute") },
        { "a faster key may fill it", "",
          "- {name: a, key: [x], missing-key: share, rate: 1/h, burst: 1, wait: {up-to: 1s, queue: 9},\n"
          "   overrides: [{key: {x: y}, rate: 1000/s}]}\n",
          "" },
        { "one without a bound does not wait", "",
          "- {name: a, key: [x], missing-key: share, rate: 1/h, burst: 1, wait: {up-to: 1s, queue: 9},\n"
          "   overrides: [{key: {x: y}, unlimited: true}]}\n",
          NEVER_FULL("9", "1", "1 s") },
        { "permits have no pace", "",
          "- {name: a, key: [], algorithm: concurrency, at-most: 1, hold: 30s, wait: {up-to: 1ms, queue: "
          "1000}}\n",
          NOTE_PERMITS("a", "") },
        { "nothing comes back", "", WAITS("rate: 0/s, burst: 9", "1s", "9"),
          "3:{ limit 'a' lets callers wait for a turn that never comes: nothing comes back" },
        { "blocked", "", WAITS("rate: 5/s, burst: 0", "1s", "9"),
          "3:{ limit 'a' lets callers wait for a turn that never comes: it admits nothing" },
        { "off: nobody waits, and that is said", "",
          WAITS("rate: 0/s, burst: 9, enforce: 'off'", "1s", "9") "- {name: b, key: [], rate: 9/s, burst: 9}\n",
          "3:'off' limit 'a' is off: it is neither counted nor enforced" },
        { "others pass by", "", WAITS("rate: 5/s, burst: 9, when-full: open", "1s", "5"),
          "3:open limit 'a' lets keys that find the table full pass at once, while others wait" },
        { "who does not wait may pass by", "", "- {name: a, key: [], rate: 5/s, burst: 9, when-full: open}\n",
          "" },
    };
    check(rows, COUNT_OF(rows));
}

static void permits_that_do_not_hold(void **state)
{
    (void)state;
#define HELD(fields) "- {name: a, key: [x], missing-key: share, algorithm: concurrency, " fields "}\n"
    static const struct row rows[] = {
        { "as it should be", "", HELD("at-most: 4, hold: 30s"), NOTE_PERMITS("a", "") },
        { "a second", "", HELD("at-most: 4, hold: 1s"), NOTE_PERMITS("a", "") },
        { "less than any pause", "", HELD("at-most: 4, hold: 999ms"),
          NOTE_PERMITS(
              "a", "") " | 3:999ms limit 'a' gives a permit away after 999 ms: a holder that pauses for longer "
                       "still works beside the next one" },
        { "work without a permit", "", HELD("at-most: 4, hold: 30s, when-full: open"),
          NOTE_PERMITS(
              "a", "") " | 3:open limit 'a' lets work run without a permit when memory is full: nothing bounds "
                       "it then" },
        { "a shadow gives none", "",
          HELD("at-most: 4, hold: 30s, enforce: shadow") "- {name: b, key: [], rate: 9/s, burst: 9}\n",
          "3:shadow limit 'a' is a shadow, which gives no permits: it finds none held and never says that it "
          "would "
          "refuse" },
        { "a share gives some", "", HELD("at-most: 4, hold: 30s, enforce: 10%"), NOTE_PERMITS("a", "") },
        { "half of the pool is kept for keys without room, the other half is one key's",
          "memory: {permits: 100}\n", HELD("at-most: 50, hold: 30s"),
          "note 4:concurrency limit 'a' gives permits at /v1/acquire alone: /v1/check and /v1/auth* only look, "
          "hold "
          "nothing, and let requests that come together all pass" },
        { "one more does not fit", "memory: {permits: 100}\n", HELD("at-most: 51, hold: 30s"),
          "note 4:concurrency limit 'a' gives permits at /v1/acquire alone: /v1/check and /v1/auth* only look, "
          "hold "
          "nothing, and let requests that come together all pass | 4:51 limit 'a' lets one key hold 51 "
          "permits, and "
          "memory has 49 for all keys together" },
        { "nothing is kept", "memory: {permits: 100}\n", HELD("at-most: 100, hold: 30s, when-full: closed"),
          "note 4:concurrency limit 'a' gives permits at /v1/acquire alone: /v1/check and /v1/auth* only look, "
          "hold "
          "nothing, and let requests that come together all pass" },
        { "the largest counts", "memory: {permits: 100}\n",
          HELD("at-most: 4, hold: 30s, when-full: closed, overrides: [{key: {x: big}, at-most: 101}]"),
          "note 4:concurrency limit 'a' gives permits at /v1/acquire alone: /v1/check and /v1/auth* only look, "
          "hold "
          "nothing, and let requests that come together all pass | 4:4 limit 'a' lets one key hold 101 "
          "permits, and "
          "memory has 100 for all keys together" },
    };
    check(rows, COUNT_OF(rows));
}

/* Said once, where the contract says whom the auth doors believe. */
static void doors_at_which_nobody_waits(void **state)
{
    (void)state;
#define QUEUE(name) \
    "- {name: " name ", when: {path: /" name \
    "}, key: [], algorithm: leaky-queue, rate: 50/s, wait: {up-to: 2s, queue: 100}}\n"
#define IDLE_AUTH "auth-wait changes nothing: no limit lets callers of /v1/auth* wait"
#define NO_AUTH(line, more) "note " line ":{ limit 'a' lets callers wait, but not those of /v1/auth*" more
    static const struct row rows[] = {
        { "no auth door in sight", "", QUEUE("a"), "" },
        { "an identity is for the auth doors", "identity: {ip: peer}\n", QUEUE("a"), NO_AUTH("4", "") },
        { "once for all", "identity: {ip: peer}\n", QUEUE("a") QUEUE("b") QUEUE("c"),
          NO_AUTH("4", " (2 more likewise)") },
        { "they may wait", "identity: {ip: peer}\nserver: {auth-wait: true}\n", QUEUE("a"), "" },
        { "for nothing", "server: {auth-wait: true}\n", "- {name: a, key: [], rate: 9/s, burst: 9}\n",
          "2:true " IDLE_AUTH },
        { "a shadow makes nobody wait", "server: {auth-wait: true}\n",
          "- {name: a, key: [], rate: 9/s, burst: 9}\n"
          "- {name: b, key: [], rate: 5/s, burst: 5, wait: {up-to: 1s, queue: 5}, enforce: shadow}\n",
          "2:true " IDLE_AUTH },
        { "it is not asked for", "server: {auth-wait: false}\n", "- {name: a, key: [], rate: 9/s, burst: 9}\n",
          "" },
        { "permits are not given there anyway", "identity: {ip: peer}\n",
          "- {name: c, key: [], algorithm: concurrency, at-most: 4, hold: 30s, wait: {up-to: 5s, queue: 20}}\n",
          "note 4:concurrency limit 'c' gives permits at /v1/acquire alone: /v1/check and /v1/auth* only look, "
          "hold "
          "nothing, and let requests that come together all pass" },
    };
    check(rows, COUNT_OF(rows));
}

static void conditions_that_nothing_meets(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "asked for and excluded", "",
          "- {name: a, when: {tenant: {in: [acme, other], not: [\"ac*\", other]}}, key: [], rate: 5/s, burst: "
          "1}\n",
          "3:{ limit 'a' never applies: what `in` asks of 'tenant', `not` excludes" },
        { "a part is left", "",
          "- {name: a, when: {tenant: {in: [acme, other], not: \"ac*\"}}, key: [], rate: 5/s, burst: 1}\n",
          "" },
        { "a pattern within a pattern", "",
          "- {name: a, when: {path: {in: \"/v1/items/*\", not: \"/v1/**\"}}, key: [], rate: 5/s, burst: 1}\n",
          "3:{ limit 'a' never applies: what `in` asks of 'path', `not` excludes" },
        { "one star does not cover two", "",
          "- {name: a, when: {path: {in: \"/v1/**\", not: \"/v1/*\"}}, key: [], rate: 5/s, burst: 1}\n", "" },
        { "nor do two single ones", "",
          "- {name: a, when: {path: {in: \"/v1/**\", not: [\"/v1/*\", \"/v1/*/*\", \"/v1\"]}}, key: [], rate: "
          "5/s, burst: 1}\n",
          "" },
        { "a network within a network", "",
          "- {name: a, when: {ip: {in: 10.1.0.0/16, not: 10.0.0.0/8}}, key: [], rate: 5/s, burst: 1}\n",
          "3:{ limit 'a' never applies: what `in` asks of 'ip', `not` excludes" },
        { "a network around one", "",
          "- {name: a, when: {ip: {in: 10.0.0.0/8, not: 10.1.0.0/16}}, key: [], rate: 5/s, burst: 1}\n", "" },
        { "every value excluded, and those without are skipped", "",
          "- {name: a, when: {tenant: {not: \"*\"}}, key: [tenant], rate: 5/s, burst: 1}\n" ALL,
          "3:{ limit 'a' never applies: every value of 'tenant' is excluded, and a request without one is "
          "skipped" },
        { "every value excluded: only those without", "",
          "- {name: a, when: {path: {not: \"/**\"}}, key: [], rate: 5/s, burst: 1}\n",
          "3:{ limit 'a' excludes every value of 'path': it applies to requests without one only" },
        { "all networks of both families", "",
          "- {name: a, when: {ip: {not: [0.0.0.0/0, \"::/0\"]}}, key: [], rate: 5/s, burst: 1}\n",
          "3:{ limit 'a' excludes every value of 'ip': it applies to requests without one only" },
        { "one family is left", "",
          "- {name: a, when: {ip: {not: [0.0.0.0/0]}}, key: [], rate: 5/s, burst: 1}\n", "" },
        { "a method in small letters", "", "- {name: a, when: {method: post}, key: [], rate: 5/s, burst: 1}\n",
          "3:{ limit 'a' never applies: methods are compared as they are sent, in capitals" },
        { "a host in capitals (the loader says so too)", "",
          "- {name: a, when: {host: Example.org}, key: [], rate: 5/s, burst: 1}\n",
          "3:Example.org when.host Example.org of limit 'a' can never match: hosts are brought into lower case "
          "first" },
    };
    check(rows, COUNT_OF(rows));
}

static void replicas_and_limits_that_are_off(void **state)
{
    (void)state;
    char found[4000];
    static const struct row rows[] = {
        { "declared replicas", "replicas: 4\n",
          "- {name: a, key: [], rate: 100/1m, burst: 10, scope: process}\n",
          "4:process limit 'a' counts in each process by itself (scope process): 4 replicas of 100/m admit "
          "400/m" },
        { "one replica is the whole", "replicas: 1\n", "- {name: a, key: [], rate: 100/1m, burst: 10}\n", "" },
        { "off", "",
          "- {name: a, key: [], rate: 5/s, burst: 1, enforce: 'off'}\n- {name: b, key: [], rate: 9/s, burst: "
          "9}\n",
          "3:'off' limit 'a' is off: it is neither counted nor enforced" },
        { "one in shadow is being tried", "",
          "- {name: a, key: [], rate: 5/s, burst: 1, enforce: shadow}\n- {name: b, key: [], rate: 9/s, burst: "
          "9}\n",
          "" },
        { "all in shadow", "", "- {name: a, key: [], rate: 5/s, burst: 1, enforce: shadow}\n",
          "3:- no limit is enforced: every request is allowed" },
        { "none at all", "", "  []\n", "3:[ the contract has no limits: every request is allowed" },
    };
    check(rows, COUNT_OF(rows));
    review("", "- {name: a, key: [], rate: 100/1m, burst: 10}\n", 3, found, sizeof found);
    assert_string_equal(
        found,
        "3:100/1m limit 'a' counts in each process by itself (scope process): 3 replicas of 100/m admit 300/m");
    review("", "- {name: a, key: [], algorithm: concurrency, at-most: 4, hold: 30s}\n", 3, found, sizeof found);
    assert_string_equal(
        found,
        NOTE_PERMITS("a",
                     "") " | 3:4 limit 'a' counts in each process by itself (scope process): 3 replicas of 4 "
                         "permits give 12");
    review("replicas: 9\n", "- {name: a, key: [], rate: 100/1m, burst: 10}\n", 1, found, sizeof found);
    assert_string_equal(found, "");
}

/* Ten thousand limits with a condition each are compared with their likes only. */
static void large_contracts_are_reviewed_quickly(void **state)
{
    (void)state;
    enum { LIMITS = 10000 };
    char *text = malloc(LIMITS * 100 + 100);
    assert_non_null(text);
    size_t len = (size_t)sprintf(text, "weir: 1\nlimits:\n");
    for (int i = 0; i < LIMITS; i++)
        len +=
            (size_t)sprintf(text + len, "- {name: l%d, when: {path: /p%d}, key: [], rate: %d/s, burst: 20}\n",
                            i, i / 2, 5 + i % 2);
    struct loaded loaded = contract_from(text, 0);
    struct weir_diagnostics *diagnostics;
    assert_int_equal(loaded.error, 0);
    assert_int_equal(weir_contract_lint(loaded.contract, 0, &diagnostics), 0);
    assert_int_equal(weir_diagnostics_count(diagnostics), 1000); /* of 5,000: the faster of each pair */
    assert_string_equal(weir_diagnostics_at(diagnostics, 1)->cure,
                        "remove one of the two, or correct its numbers");
    weir_diagnostics_free(diagnostics);
    loaded_free(&loaded);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_windows_where_guessing_pays),
        cmocka_unit_test(keys_that_clients_write),
        cmocka_unit_test(costs_above_the_burst),
        cmocka_unit_test(limits_that_never_refuse),
        cmocka_unit_test(permits_that_never_run_out),
        cmocka_unit_test(turns_that_never_come),
        cmocka_unit_test(permits_that_do_not_hold),
        cmocka_unit_test(doors_at_which_nobody_waits),
        cmocka_unit_test(conditions_that_nothing_meets),
        cmocka_unit_test(replicas_and_limits_that_are_off),
        cmocka_unit_test(large_contracts_are_reviewed_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
