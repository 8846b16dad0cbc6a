// SPDX-License-Identifier: Apache-2.0
/*
 * test_contract_waiting.c - what a contract may say about waiting and permits: every form that loads, what it means to
 * weir.h, and for every form that does not the message.
 */
#include "rule/contract.h"
#include "support/contracts.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define S WEIR_SECOND

#define BUCKET "name: a, key: [tenant], rate: 5/s, burst: 20"
#define QUEUE "name: a, key: [tenant], algorithm: leaky-queue, rate: 50/s"
#define PERMITS "name: a, key: [tenant], algorithm: concurrency"
#define WAITS "wait: { up-to: 2s, queue: 100 }"

/* The errors joined by " | ", without place and cure; "" when it loads. */
static void join_errors(const struct loaded *loaded, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < weir_diagnostics_count(loaded->diagnostics) && len < size; i++) {
        const struct weir_diagnostic *item = weir_diagnostics_at(loaded->diagnostics, i);
        assert_true(strlen(item->cure) > 0);
        if (item->severity == WEIR_SEVERITY_ERROR)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len == 0 ? "" : " | ", item->message);
    }
}

static struct loaded load_limit(const char *head, const char *fields)
{
    char text[2048];
    snprintf(text, sizeof text, "weir: 1\n%slimits:\n - {%s}\n", head, fields);
    return contract_from(text, 0);
}

struct row {
    const char *why, *fields, *errors; /* errors "": loads */
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char errors[2000];
        struct loaded loaded = load_limit("", rows[i].fields);
        join_errors(&loaded, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s: {%s}: got \"%s\", not \"%s\"", rows[i].why, rows[i].fields, errors, rows[i].errors);
        assert_int_equal(loaded.error, errors[0] == '\0' ? 0 : WEIR_ERR_CONTRACT);
        loaded_free(&loaded);
    }
}

/* ---- wait ---------------------------------------------------------------------------------------------------------- */

static void waiting_is_bounded_twice(void **state)
{
    (void)state;
#define UP_TO(length) BUCKET ", wait: { up-to: " length ", queue: 100 }"
#define LONG(length, problem) "up-to " length " of the wait of limit 'a' " problem
#define LENGTH(number) BUCKET ", wait: { up-to: 2s, queue: " number " }"
#define MANY(number, problem) "queue " number " of the wait of limit 'a' " problem
    static const struct row rows[] = {
        { "never is the default, and may be written", BUCKET ", wait: never", "" },
        { "both bounds", BUCKET ", " WAITS, "" },
        { "a time alone lets the queue grow", BUCKET ", wait: { up-to: 2s }",
          "queue is missing for the wait of limit 'a'" },
        { "a queue alone lets callers grow old", BUCKET ", wait: { queue: 5 }",
          "up-to is missing for the wait of limit 'a'" },
        { "neither", BUCKET ", wait: {}",
          "up-to is missing for the wait of limit 'a' | queue is missing for the wait of limit 'a'" },
        { "a day is the longest", UP_TO("1d"), "" },
        { "in other words", UP_TO("24h"), "" },
        { "beyond", UP_TO("1d1ns"), LONG("1d1ns", "is too long") },
        { "no time", UP_TO("0s"), LONG("0s", "is too short") },
        { "the shortest", UP_TO("1ns"), "" },
        { "B47 a bare number", UP_TO("2"), LONG("2", "has no unit: a bare number is no length of time") },
        { "B47 a fraction", UP_TO("0.5s"), LONG("0.5s", "is not a length of time") },
        { "B47 upper case", UP_TO("2S"), LONG("2S", "is not a length of time") },
        { "one place", LENGTH("1"), "" },
        { "a million", LENGTH("1000000"), "" },
        { "more than a million", LENGTH("1000001"), MANY("1000001", "is too large") },
        { "no place", LENGTH("0"), MANY("0", "is too small") },
        { "B47 a quoted number", LENGTH("'5'"), MANY("5", "is quoted text, not an integer") },
        { "B47 an exponent", LENGTH("1e3"), MANY("1e3", "is not a plain integer") },
        { "a word that is none", BUCKET ", wait: always",
          "wait always of limit 'a' is neither `never` nor a map of up-to and queue" },
        { "a time is no wait", BUCKET ", wait: 2s", "wait 2s of limit 'a' does not say how many may wait" },
        { "nor is yes", BUCKET ", wait: true",
          "wait true of limit 'a' is neither `never` nor a map of up-to and queue" },
        { "a list", BUCKET ", wait: [2s, 100]",
          "wait of limit 'a' is neither `never` nor a map of up-to and queue" },
        { "nothing", BUCKET ", wait: ", "wait of limit 'a' is empty" },
        { "a field of another limiter", BUCKET ", wait: { up-to: 2s, queue: 5, delay: 3 }",
          "unknown field 'delay' in the wait of limit 'a'" },
        { "who is turned away would push back who waits", BUCKET ", refused: charged, " WAITS,
          "refused charged of limit 'a' would let those who are turned away push back those who wait" },
        { "nobody waits", BUCKET ", refused: charged, wait: never", "" },
        { "for the meter", BUCKET ", algorithm: leaky-bucket, " WAITS, "" },
        { "for windows", "name: a, key: [], algorithm: fixed-window, rate: 5/m, " WAITS, "" },
        { "of a calendar",
          "name: a, key: [], algorithm: fixed-window, align: calendar UTC, rate: 5/d, wait: { up-to: 1d, "
          "queue: 9 }",
          "" },
        { "sliding ones", "name: a, key: [], algorithm: sliding-window, rate: 5/m, " WAITS, "" },
        { "and the log", "name: a, key: [], algorithm: sliding-log, rate: 5/m, " WAITS, "" },
        { "beside what else a limit has",
          BUCKET ", retries: { free-within: 60s }, debt: 5, enforce: 10%, " WAITS, "" },
    };
    check_rows(rows, COUNT_OF(rows));
}

static void leaky_queues(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a pace and a queue", QUEUE ", " WAITS, "" },
        { "without a queue it is none", QUEUE, "wait is missing for limit 'a'" },
        { "nor with this one", QUEUE ", wait: never",
          "wait never of limit 'a' leaves a leaky-queue without its queue" },
        { "a pace is needed", "name: a, key: [], algorithm: leaky-queue, " WAITS,
          "rate is missing for limit 'a'" },
        { "bursts are for the bucket", QUEUE ", burst: 5, " WAITS,
          "burst 5 of limit 'a' is always 1 for a leaky-queue" },
        { "also a burst of 1: it would look as if it were a choice", QUEUE ", burst: 1, " WAITS,
          "burst 1 of limit 'a' is always 1 for a leaky-queue" },
        { "it has no permits", QUEUE ", at-most: 5, " WAITS,
          "at-most 5 of limit 'a' means nothing for a leaky-queue" },
        { "it has no windows", QUEUE ", align: epoch, " WAITS,
          "align epoch of limit 'a' means nothing for a leaky-queue" },
        { "its callers wait, so refusals are free", QUEUE ", refused: charged, " WAITS,
          "refused charged of limit 'a' would let those who are turned away push back those who wait" },
        { "a settlement may overdraw", QUEUE ", debt: 10, " WAITS, "" },
        { "another pace", QUEUE ", overrides: [{ key: { tenant: x }, rate: 100/s }], " WAITS, "" },
        { "another burst", QUEUE ", overrides: [{ key: { tenant: x }, burst: 5 }], " WAITS,
          "burst 5 of an override of limit 'a' is always 1 for a leaky-queue" },
        { "permits for one key", QUEUE ", overrides: [{ key: { tenant: x }, at-most: 5 }], " WAITS,
          "at-most 5 of an override of limit 'a' means nothing for a leaky-queue" },
        { "a month has no length", "name: a, key: [], algorithm: leaky-queue, rate: 5/month, " WAITS,
          "rate 5/month of limit 'a' has the unit month, whose length varies" },
        { "several mistakes, one run",
          "name: a, key: [], algorithm: leaky-queue, burst: 2, hold: 3s, wait: { queue: 0 }",
          "rate is missing for limit 'a' | burst 2 of limit 'a' is always 1 for a leaky-queue | hold 3s of "
          "limit 'a' "
          "means nothing for a leaky-queue | up-to is missing for the wait of limit 'a' | queue 0 of the wait "
          "of limit "
          "'a' is too small" },
    };
    check_rows(rows, COUNT_OF(rows));
}

/* ---- concurrency ----------------------------------------------------------------------------------------------------- */

static void concurrency_limits(void **state)
{
    (void)state;
#define MOST(number) PERMITS ", hold: 30s, at-most: " number
#define MOST_IS(number, problem) "at-most " number " of limit 'a' " problem
#define HOLD(length) PERMITS ", at-most: 4, hold: " length
#define HOLD_IS(length, problem) "hold " length " of limit 'a' " problem
    static const struct row rows[] = {
        { "how many, and how long", PERMITS ", at-most: 4, hold: 30s", "" },
        { "with a queue", PERMITS ", at-most: 4, hold: 30s, " WAITS, "" },
        { "how many?", PERMITS ", hold: 30s", "at-most is missing for limit 'a'" },
        { "how long?", PERMITS ", at-most: 4", "hold is missing for limit 'a'" },
        { "neither", PERMITS, "at-most is missing for limit 'a' | hold is missing for limit 'a'" },
        { "one", MOST("1"), "" },
        { "the most", MOST("65535"), "" },
        { "more", MOST("65536"), MOST_IS("65536", "is too large") },
        { "none", MOST("0"), MOST_IS("0", "is too small") },
        { "B47 quoted", MOST("'4'"), MOST_IS("4", "is quoted text, not an integer") },
        { "B47 a rate", MOST("4/s"), MOST_IS("4/s", "is not a plain integer") },
        { "the shortest hold", HOLD("1ms"), "" },
        { "shorter", HOLD("999us"), HOLD_IS("999us", "is too short") },
        { "ten years", HOLD("3652d"), "" },
        { "longer", HOLD("3653d"), HOLD_IS("3653d", "is too long") },
        { "B47 a bare number of seconds", HOLD("30"),
          HOLD_IS("30", "has no unit: a bare number is no length of time") },
        { "B47 words", HOLD("30 seconds"), HOLD_IS("30 seconds", "is not a length of time") },
        { "a rate is another limit", PERMITS ", at-most: 4, hold: 30s, rate: 5/s",
          "rate 5/s of limit 'a' means nothing for a concurrency limit" },
        { "at-most is the burst", PERMITS ", at-most: 4, hold: 30s, burst: 5",
          "burst 5 of limit 'a' means nothing for a concurrency limit" },
        { "it has no windows", PERMITS ", at-most: 4, hold: 30s, align: epoch",
          "align epoch of limit 'a' means nothing for a concurrency limit" },
        { "nothing to overdraw", PERMITS ", at-most: 4, hold: 30s, debt: 5",
          "debt 5 of limit 'a' means nothing for a concurrency limit: only a bucket can be overdrawn" },
        { "a refusal holds nothing", PERMITS ", at-most: 4, hold: 30s, refused: charged",
          "refused charged of limit 'a' means nothing for a concurrency limit" },
        { "said once, also with a queue", PERMITS ", at-most: 4, hold: 30s, refused: charged, " WAITS,
          "refused charged of limit 'a' means nothing for a concurrency limit" },
        { "free may be written", PERMITS ", at-most: 4, hold: 30s, refused: free, retries: counted", "" },
        { "a retry runs too", PERMITS ", at-most: 4, hold: 30s, retries: { free-within: 60s }",
          "retries of limit 'a' mean nothing for a concurrency limit: a retry that runs needs a permit of its "
          "own" },
        { "no permit until those of before have expired",
          PERMITS ", at-most: 4, hold: 30s, when-state-lost: empty", "" },
        { "full may be written", PERMITS ", at-most: 4, hold: 30s, when-state-lost: full", "" },
        { "requests that weigh more", PERMITS ", at-most: 4, hold: 30s, cost: { from: slots, max: 4 }", "" },
        { "buckets have no permits", BUCKET ", at-most: 4",
          "at-most 4 of limit 'a' means nothing for a token-bucket" },
        { "nor holds", BUCKET ", hold: 4s", "hold 4s of limit 'a' means nothing for a token-bucket" },
        { "nor windows", "name: a, key: [], algorithm: sliding-log, rate: 5/s, at-most: 4, hold: 1s",
          "at-most 4 of limit 'a' means nothing for a sliding-log | hold 1s of limit 'a' means nothing for a "
          "sliding-log" },
    };
    check_rows(rows, COUNT_OF(rows));
}

static void overrides_of_permits(void **state)
{
    (void)state;
#define OVERRIDE(fields) PERMITS ", at-most: 4, hold: 30s, overrides: [{ key: { tenant: x }, " fields " }]"
    static const struct row rows[] = {
        { "more for one", OVERRIDE("at-most: 60000"), "" },
        { "more than the pool has, as each size keeps one key's back", OVERRIDE("at-most: 65535"),
          "overrides of limit 'a' cannot be kept: the permits are used up" },
        { "nothing is kept back", OVERRIDE("at-most: 65535") ", when-full: closed", "" },
        { "no bound", OVERRIDE("unlimited: true"), "" },
        { "none", OVERRIDE("at-most: 0"), "at-most 0 of an override of limit 'a' is too small" },
        { "too many", OVERRIDE("at-most: 65536"), "at-most 65536 of an override of limit 'a' is too large" },
        { "both", OVERRIDE("at-most: 5, unlimited: true"),
          "at-most 5 of an override of limit 'a' means nothing beside `unlimited: true`" },
        { "a rate", OVERRIDE("rate: 5/s"),
          "rate 5/s of an override of limit 'a' means nothing for a concurrency limit" },
        { "a rate by the month", OVERRIDE("rate: 5/month"),
          "rate 5/month of an override of limit 'a' means nothing for a concurrency limit" },
        { "a burst", OVERRIDE("burst: 5"),
          "burst 5 of an override of limit 'a' means nothing for a concurrency limit" },
        { "a debt", OVERRIDE("debt: 5"),
          "debt 5 of an override of limit 'a' means nothing for a concurrency limit" },
        { "hold is the limit's", OVERRIDE("hold: 5s"), "unknown field 'hold' in an override of limit 'a'" },
        { "nothing", PERMITS ", at-most: 4, hold: 30s, overrides: [{ key: { tenant: x } }]",
          "an override of limit 'a': it changes nothing" },
        { "permits where there are none", BUCKET ", overrides: [{ key: { tenant: x }, at-most: 5 }]",
          "at-most 5 of an override of limit 'a' means nothing for a token-bucket" },
    };
    check_rows(rows, COUNT_OF(rows));
}

/* ---- memory and server --------------------------------------------------------------------------------------------- */

static void memory_and_server(void **state)
{
    (void)state;
    static const struct {
        const char *why, *head, *errors;
        bool auth_wait;
    } rows[] = {
        { "nothing said", "", "", false },
        { "permits", "memory: { permits: 5 }\n", "", false },
        { "no permits", "memory: { permits: 0 }\n", "permits 0 of memory is too small", false },
        { "B47 permits in words", "memory: { permits: many }\n",
          "permits many of memory is not a plain integer", false },
        { "more than is ever reserved", "memory: { permits: 4294967297 }\n",
          "permits 4294967297 of memory is too large", false },
        { "the auth doors may wait", "server: { auth-wait: true }\n", "", true },
        { "or not", "server: { auth-wait: false }\n", "", false },
        { "booleans are true and false", "server: { auth-wait: yes }\n",
          "auth-wait yes of server is neither true nor false", false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char errors[400];
        struct loaded loaded = load_limit(rows[i].head, BUCKET);
        join_errors(&loaded, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s: got \"%s\", not \"%s\"", rows[i].why, errors, rows[i].errors);
        if (loaded.error == 0)
            assert_int_equal(weir_contract_server(loaded.contract)->auth_wait, rows[i].auth_wait);
        loaded_free(&loaded);
    }
}

/* As many permits as are asked for are reserved; under `overflow` each size of a limit keeps one key's for keys without room. */
static void the_pool_has_the_size_that_was_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *why, *head, *fields;
        uint64_t permits, free;
    } rows[] = {
        { "the default", "", PERMITS ", at-most: 4, hold: 30s", 65536, 65532 },
        { "a smaller one", "memory: { permits: 1000 }\n", PERMITS ", at-most: 4, hold: 30s", 1000, 996 },
        { "nothing is kept back", "memory: { permits: 1000 }\n",
          PERMITS ", at-most: 4, hold: 30s, when-full: closed", 1000, 1000 },
        { "two sizes", "memory: { permits: 1000 }\n",
          PERMITS ", at-most: 4, hold: 30s, overrides: [{ key: { tenant: x }, at-most: 100 }]", 1000, 896 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct loaded loaded = load_limit(rows[i].head, rows[i].fields);
        struct weir_stats stats;
        assert_int_equal(loaded.error, 0);
        weir_stats(weir_contract_limiter(loaded.contract), 0, &stats);
        if (stats.permits != rows[i].permits || stats.permits_free != rows[i].free || stats.waiting != 0)
            fail_msg("%s: %llu of %llu", rows[i].why, (unsigned long long)stats.permits_free,
                     (unsigned long long)stats.permits);
        loaded_free(&loaded);
    }
}

/* More than the pool has: named where one limit is to blame, else together. */
static void permits_that_are_too_many(void **state)
{
    (void)state;
    static const struct {
        const char *why, *limits, *errors;
    } rows[] = {
        { "one limit", "[{ " PERMITS ", at-most: 101, hold: 30s }]",
          "at-most 101 of limit 'a' cannot be kept: the permits are used up" },
        { "just enough to be kept", "[{ " PERMITS ", at-most: 100, hold: 30s }]", "" },
        { "closed keeps none back", "[{ " PERMITS ", at-most: 101, hold: 30s, when-full: closed }]", "" },
        { "two limits",
          "[{ " PERMITS
          ", at-most: 51, hold: 30s }, { name: b, key: [], algorithm: concurrency, at-most: 50, hold: 1s }]",
          "limits cannot be kept together: the permits are used up" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[1000], errors[400];
        snprintf(text, sizeof text, "weir: 1\nmemory: { permits: 100 }\nlimits: %s\n", rows[i].limits);
        struct loaded loaded = contract_from(text, 0);
        join_errors(&loaded, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s: got \"%s\", not \"%s\"", rows[i].why, errors, rows[i].errors);
        loaded_free(&loaded);
    }
}

/* ---- Whole messages ------------------------------------------------------------------------------------------------ */

/* The place, the caret, and a cure that can be typed. */
static void whole_messages(void **state)
{
    (void)state;
    struct loaded loaded = contract_from("weir: 1\n"
                                         "limits:\n"
                                         "  - name: payments\n"
                                         "    key: []\n"
                                         "    algorithm: leaky-queue\n"
                                         "    rate: 50/s\n"
                                         "    burst: 10\n"
                                         "  - name: reports\n"
                                         "    key: [tenant]\n"
                                         "    algorithm: concurrency\n"
                                         "    at-most: 0\n"
                                         "    rate: 4/s\n"
                                         "    wait: { up-to: 5s, queue: 0 }\n",
                                         0);
    assert_string_equal(
        loaded.printed,
        "t.yaml:3:5: error: wait is missing for limit 'payments'\n"
        "      - name: payments\n"
        "        ^\n"
        "  help: say how long and how many may wait: `wait: { up-to: 2s, queue: 100 }`\n"
        "t.yaml:7:12: error: burst 10 of limit 'payments' is always 1 for a leaky-queue\n"
        "        burst: 10\n"
        "               ^~\n"
        "  help: remove it, or for bursts write `algorithm: leaky-bucket` with this burst and this `wait`\n"
        "t.yaml:8:5: error: hold is missing for limit 'reports'\n"
        "      - name: reports\n"
        "        ^\n"
        "  help: say when a permit that nobody renews returns by itself: `hold: 30s`\n"
        "t.yaml:11:14: error: at-most 0 of limit 'reports' is too small\n"
        "        at-most: 0\n"
        "                 ^\n"
        "  help: write an integer from 1 to 65535: no quotes, sign, fraction, exponent or leading zero\n"
        "t.yaml:12:11: error: rate 4/s of limit 'reports' means nothing for a concurrency limit\n"
        "        rate: 4/s\n"
        "              ^~~\n"
        "  help: remove it: `at-most` says how many run at once; a second limit with the same key bounds the "
        "rate\n"
        "t.yaml:13:31: error: queue 0 of the wait of limit 'reports' is too small\n"
        "        wait: { up-to: 5s, queue: 0 }\n"
        "                                  ^\n"
        "  help: write an integer from 1 to 1000000: no quotes, sign, fraction, exponent or leading zero\n");
    loaded_free(&loaded);
}

/* ---- What was loaded ----------------------------------------------------------------------------------------------- */

/* What callers see of a limit, and the object that /v1/limits shows. */
static void what_was_loaded_can_be_read(void **state)
{
    (void)state;
    struct loaded loaded =
        contract_from("weir: 1\n"
                      "limits:\n"
                      "- {name: q, key: [], algorithm: leaky-queue, rate: 3/s, " WAITS "}\n"
                      "- {name: c, key: [tenant], algorithm: concurrency, at-most: 4, hold: 30s,\n"
                      "   wait: {up-to: 1s500ms, queue: 20},\n"
                      "   overrides: [{key: {tenant: x}, at-most: 40}, {key: {tenant: y}, at-most: 2}]}\n"
                      "- {name: n, key: [tenant], algorithm: concurrency, at-most: 1, hold: 1ms}\n",
                      0);
    assert_int_equal(loaded.error, 0);
    const struct weir_contract_limit *queue = weir_contract_limit(loaded.contract, 0);
    assert_int_equal(queue->algorithm, WEIR_LEAKY_QUEUE);
    assert_int_equal(queue->capacity, 1);
    assert_int_equal(queue->window, 333333334); /* 1/3 s, rounded up */
    assert_int_equal(queue->wait.up_to, 2 * S);
    assert_int_equal(queue->wait.queue, 100);
    assert_int_equal(queue->hold, 0);
    assert_non_null(strstr(queue->json,
                           "\"algorithm\":\"leaky-queue\",\"rate\":\"3/s\",\"period\":1,\"burst\":1,"
                           "\"at_most\":null,\"hold\":null,"));
    assert_non_null(strstr(queue->json, "\"wait\":{\"up_to\":2,\"queue\":100},"));

    const struct weir_contract_limit *permits = weir_contract_limit(loaded.contract, 1);
    assert_int_equal(permits->algorithm, WEIR_CONCURRENCY);
    assert_int_equal(permits->capacity, 4);
    assert_int_equal(permits->window, WEIR_NO_TIME); /* nothing comes back by time alone */
    assert_int_equal(permits->hold, 30 * S);
    assert_int_equal(permits->wait.up_to, 1500 * MS);
    assert_non_null(strstr(permits->json,
                           "\"algorithm\":\"concurrency\",\"rate\":null,\"period\":null,\"burst\":null,"
                           "\"at_most\":4,\"hold\":30,\"align\":null,\"cost\":null,\"debt\":null,"));
    assert_non_null(strstr(permits->json, "\"wait\":{\"up_to\":1.5,\"queue\":20},"));
    assert_non_null(
        strstr(permits->json, "\"overrides\":{\"count\":2,\"unlimited\":0,\"least\":2,\"most\":40}"));

    const struct weir_contract_limit *plain = weir_contract_limit(loaded.contract, 2);
    assert_int_equal(plain->wait.up_to, 0);
    assert_int_equal(plain->wait.queue, 0);
    assert_non_null(strstr(plain->json, "\"hold\":0.001,"));
    assert_non_null(strstr(plain->json, "\"wait\":\"never\","));
    loaded_free(&loaded);
}

/* Which field each code of weir.h is about: the schema refuses these numbers first, so only a mistake in it could show. */
static void what_weir_h_is_given(void **state)
{
    (void)state;
    struct loaded loaded = load_limit("", PERMITS ", at-most: 4, hold: 30s, " WAITS);
    assert_int_equal(loaded.error, 0);
    const struct weir_limit *limit = &contract_rules(loaded.contract)->list[0].limit;
    assert_int_equal(limit->at_most, 4);
    assert_int_equal(limit->hold, 30 * S);
    assert_int_equal(limit->wait.up_to, 2 * S);
    assert_int_equal(limit->wait.queue, 100);
    assert_int_equal(limit->rate.period, 0);
    loaded_free(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_is_bounded_twice),
        cmocka_unit_test(leaky_queues),
        cmocka_unit_test(concurrency_limits),
        cmocka_unit_test(overrides_of_permits),
        cmocka_unit_test(memory_and_server),
        cmocka_unit_test(the_pool_has_the_size_that_was_asked_for),
        cmocka_unit_test(permits_that_are_too_many),
        cmocka_unit_test(whole_messages),
        cmocka_unit_test(what_was_loaded_can_be_read),
        cmocka_unit_test(what_weir_h_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
