// SPDX-License-Identifier: Apache-2.0
/*
 * test_rls_json.c - calls and answers of the rate limit service as JSON, by protobuf's mapping.
 *
 * What was read is compared as one line: DOMAIN, then for each descriptor [KEY=VALUE,...] HITS and what else it says.
 */
#include "support/unit.h"

#include "support/random.h"
#include "wire/rls.h"

static struct rls_call call;
static char room[RLS_CALL_MAX];
static const char *why_not;

/* Read from a copy that ends where its bytes do; it stays until the next, since what is read may point into it. */
static enum rls_fault read_text(const char *at, size_t len, size_t room_len)
{
    static char *copy;
    free(copy);
    copy = malloc(len == 0 ? 1 : len);
    assert_non_null(copy);
    memcpy(copy, at, len);
    why_not = NULL;
    enum rls_fault fault = rls_json_read((struct slice){ copy, len }, room, room_len, &call, &why_not);
    assert_true((fault == RLS_GOOD) == (why_not == NULL));
    return fault;
}

static const char *line_of(const struct rls_call *from)
{
    static char line[4096];
    struct text out = text_of(line, sizeof line - 1);
    text_slice_add(&out, from->domain);
    for (size_t i = 0; i < from->count; i++) {
        const struct weir_descriptor *descriptor = &from->descriptors[i];
        const struct rls_asked *asked = &from->asked[i];
        text_literal(&out, " [");
        for (size_t k = 0; k < descriptor->entry_count; k++) {
            const struct weir_entry *entry = &descriptor->entries[k];
            text_string(&out, k == 0 ? "" : ",");
            text_bytes(&out, entry->key, entry->key_len);
            text_literal(&out, "=");
            text_bytes(&out, entry->value, entry->value_len);
        }
        text_literal(&out, "] ");
        text_u64(&out, asked->hits);
        text_string(&out, asked->is_refund ? " refund" : "");
        if (!asked->has_limit)
            continue;
        text_literal(&out, " limit ");
        text_u64(&out, asked->requests_per_unit);
        text_literal(&out, "/");
        text_u64(&out, asked->unit);
        text_literal(&out, "*");
        text_u64(&out, asked->unit_multiplier);
    }
    assert_false(out.is_cut);
    line[out.len] = '\0';
    return line;
}

/* ---- Reading --------------------------------------------------------------------------------------------- */

#define ENTRIES "\"entries\":[{\"key\":\"u\",\"value\":\"a\"}]"
#define CALL(more) "{\"domain\":\"d\",\"descriptors\":[{" ENTRIES more "}]}"
#define CALL_WITH(more) "{\"domain\":\"d\",\"descriptors\":[{" ENTRIES "}]" more "}"

static void calls_are_read(void **state)
{
    static const struct {
        const char *why, *json, *line;
    } rows[] = {
        { "the reference server's example",
          "{\"domain\":\"dummy\",\"descriptors\":[{\"entries\":[{\"key\":\"one_per_day\",\"value\":\"x\"}],"
          "\"hitsAddend\":\"2\"}]}",
          "dummy [one_per_day=x] 2" },
        { "no hits are one", CALL(""), "d [u=a] 1" },
        { "hits of the call", CALL_WITH(",\"hitsAddend\":3"), "d [u=a] 3" },
        { "in quotes", CALL_WITH(",\"hitsAddend\":\"3\""), "d [u=a] 3" },
        { "as in the .proto file", CALL_WITH(",\"hits_addend\":3"), "d [u=a] 3" },
        { "0 of a call are one", CALL_WITH(",\"hitsAddend\":0"), "d [u=a] 1" },
        { "0 of a descriptor look", CALL(",\"hitsAddend\":0"), "d [u=a] 0" },
        { "null is as absent", CALL(",\"hitsAddend\":null,\"limit\":null,\"isNegativeHits\":null"),
          "d [u=a] 1" },
        { "and own ones count before the call's",
          "{\"hitsAddend\":7,\"domain\":\"d\",\"descriptors\":[{" ENTRIES ",\"hits_addend\":2},{" ENTRIES "}]}",
          "d [u=a] 2 [u=a] 7" },
        { "the largest", CALL_WITH(",\"hitsAddend\":4294967295"), "d [u=a] 4294967295" },
        { "the largest of a descriptor is what a cost can be", CALL(",\"hitsAddend\":\"18446744073709551615\""),
          "d [u=a] 9223372036854775807" },
        { "a limit", CALL(",\"limit\":{\"requestsPerUnit\":10,\"unit\":\"MINUTE\"}"),
          "d [u=a] 1 limit 10/2*1" },
        { "by numbers, with several units",
          CALL(",\"limit\":{\"requests_per_unit\":\"10\",\"unit\":6,\"unit_multiplier\":5}"),
          "d [u=a] 1 limit 10/6*5" },
        { "of none", CALL(",\"limit\":{\"unit\":\"YEAR\",\"unitMultiplier\":0}"), "d [u=a] 1 limit 0/6*1" },
        { "a refund", CALL(",\"isNegativeHits\":true"), "d [u=a] 1 refund" },
        { "no refund", CALL(",\"is_negative_hits\":false"), "d [u=a] 1" },
        { "no value", "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":\"u\"}]}]}", "d [u=] 1" },
        { "no entries", "{\"domain\":\"d\",\"descriptors\":[{}]}", "d [] 1" },
        { "entries keep their order",
          "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"value\":\"a\",\"key\":\"u\"},{\"key\":\"b\","
          "\"value\":"
          "\"c\"}]},{\"entries\":[{\"key\":\"e\",\"value\":\"f\"}]}]}",
          "d [u=a,b=c] 1 [e=f] 1" },
        { "escapes",
          "{\"dom\\u0061in\":\"d\\u00e9\",\"descriptors\":[{\"entries\":[{\"key\":\"\\\"\",\"value\":\"\\n\"}]}"
          "]}",
          "d\xc3\xa9 [\"=\n] 1" },
        { "blanks", " { \"domain\" : \"d\" ,\n\"descriptors\" : [ { " ENTRIES " } ] } \n", "d [u=a] 1" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (read_text(rows[i].json, strlen(rows[i].json), sizeof room) != RLS_GOOD)
            fail_msg("%s: %s", rows[i].why, why_not);
        if (strcmp(line_of(&call), rows[i].line) != 0)
            fail_msg("%s: read %s, want %s", rows[i].why, line_of(&call), rows[i].line);
    }
}

static void what_is_no_call_is_refused(void **state)
{
    static const struct {
        const char *why, *json, *begin;
    } rows[] = {
        { "nothing", "", "the text ends too early" },
        { "a list", "[]", "the body must be an object" },
        { "null", "null", "the body must be an object" },
        { "no domain", "{\"descriptors\":[{" ENTRIES "}]}", "rate limit domain must not be empty" },
        { "an empty one", "{\"domain\":\"\",\"descriptors\":[{" ENTRIES "}]}",
          "rate limit domain must not be empty" },
        { "null", "{\"domain\":null,\"descriptors\":[{" ENTRIES "}]}", "rate limit domain must not be empty" },
        { "no descriptors", "{\"domain\":\"d\"}", "rate limit descriptor list must not be empty" },
        { "an empty list", "{\"domain\":\"d\",\"descriptors\":[]}",
          "rate limit descriptor list must not be empty" },
        { "an entry without key", "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{}]}]}",
          "rate limit descriptor entry has no key" },
        { "a domain that is none", "{\"domain\":5}", "domain must be a string" },
        { "no list", "{\"domain\":\"d\",\"descriptors\":{}}", "descriptors must be a list" },
        { "null in a list", "{\"domain\":\"d\",\"descriptors\":[null]}",
          "descriptors must be a list of objects" },
        { "null in the other", "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[null]}]}",
          "entries must be a list" },
        { "entries that are none", "{\"domain\":\"d\",\"descriptors\":[{\"entries\":\"u\"}]}",
          "entries must be a list" },
        { "a key that is none", "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":1}]}]}",
          "key must be a string" },
        { "a value that is none",
          "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":\"u\",\"value\":1}]}]}",
          "value must be a string" },
        { "a field of a call", CALL_WITH(",\"shadow\":1"), "a field of a call is not known" },
        { "in other letters", CALL_WITH(",\"hitsaddend\":1"), "a field of a call is not known" },
        { "of a descriptor", CALL(",\"hits\":1"), "a field of a descriptor is not known" },
        { "of an entry", "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"name\":\"u\"}]}]}",
          "a field of an entry is not known" },
        { "of a limit", CALL(",\"limit\":{\"per\":1}"), "a field of a limit is not known" },
        { "one twice", CALL_WITH(",\"domain\":\"e\""), "a field is given twice" },
        { "in two spellings", CALL(",\"hitsAddend\":1,\"hits_addend\":1"), "a field is given twice" },
        { "once as null", CALL(",\"hitsAddend\":null,\"hitsAddend\":1"), "a field is given twice" },
        { "negative hits", CALL_WITH(",\"hitsAddend\":-1"),
          "hitsAddend must be an integer from 0 to 4294967295" },
        { "more than 32 bits", CALL_WITH(",\"hitsAddend\":4294967296"),
          "hitsAddend must be an integer from 0 to 4294967295" },
        { "more than 64", CALL(",\"hitsAddend\":18446744073709551616"),
          "hitsAddend must be an integer of 0 or more" },
        { "a fraction", CALL(",\"hitsAddend\":1.5"), "hitsAddend must be an integer" },
        { "blanks in quotes", CALL(",\"hitsAddend\":\" 1\""), "hitsAddend must be an integer" },
        { "empty quotes", CALL(",\"hitsAddend\":\"\""), "hitsAddend must be an integer" },
        { "true", CALL(",\"hitsAddend\":true"), "hitsAddend must be an integer" },
        { "an object", CALL(",\"hitsAddend\":{\"value\":1}"), "hitsAddend must be an integer" },
        { "a refund by number", CALL(",\"isNegativeHits\":1"), "isNegativeHits must be true or false" },
        { "a limit by number", CALL(",\"limit\":1"), "limit must be an object" },
        { "a limit without unit", CALL(",\"limit\":{\"requestsPerUnit\":10}"),
          "rate limit override has no unit" },
        { "with one that nobody knows", CALL(",\"limit\":{\"requestsPerUnit\":10,\"unit\":\"WEEK\"}"),
          "unit must be SECOND" },
        { "by a number that nobody knows", CALL(",\"limit\":{\"requestsPerUnit\":10,\"unit\":7}"),
          "rate limit override has no unit" },
        { "by a negative one", CALL(",\"limit\":{\"requestsPerUnit\":10,\"unit\":-1}"),
          "rate limit override has no unit" },
        { "in small letters", CALL(",\"limit\":{\"requestsPerUnit\":10,\"unit\":\"minute\"}"),
          "unit must be SECOND" },
        { "too many requests", CALL(",\"limit\":{\"requestsPerUnit\":4294967296,\"unit\":\"DAY\"}"),
          "requestsPerUnit must be an integer" },
        { "too many units", CALL(",\"limit\":{\"unit\":\"DAY\",\"unitMultiplier\":4294967296}"),
          "unitMultiplier must be an integer" },
        { "no UTF-8", "{\"domain\":\"\xc3\x28\"}", "the text is not valid UTF-8" },
        { "half of a surrogate pair", "{\"domain\":\"\\ud800\"}", "\\u names half of a surrogate pair" },
        { "something behind it", CALL("") "x", "something stands behind the value" },
        { "another call behind it", CALL("") "{}", "something stands behind the value" },
        { "a comma too many", "{\"domain\":\"d\",}", "a member must begin" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (read_text(rows[i].json, strlen(rows[i].json), sizeof room) != RLS_BAD)
            fail_msg("%s: is not refused", rows[i].why);
        if (strncmp(why_not, rows[i].begin, strlen(rows[i].begin)) != 0)
            fail_msg("%s: %s", rows[i].why, why_not);
    }
}

static char body[2 * RLS_CALL_MAX];

/* BEGIN, `count` times PART with commas between, END. */
static size_t fill(const char *begin, const char *part, size_t count, const char *end)
{
    struct text out = text_of(body, sizeof body);
    text_string(&out, begin);
    for (size_t i = 0; i < count; i++) {
        text_string(&out, i == 0 ? "" : ",");
        text_string(&out, part);
    }
    text_string(&out, end);
    assert_false(out.is_cut);
    return out.len;
}

static void counts_have_bounds(void **state)
{
    static const char call_begin[] = "{\"domain\":\"d\",\"descriptors\":[",
                      entries_begin[] = "{\"domain\":\"d\",\"descriptors\":[{" ENTRIES "},{\"entries\":[";
    static const struct {
        const char *why, *begin, *part, *end;
        size_t count;
        enum rls_fault fault;
        const char *begins;
    } rows[] = {
        { "as many descriptors as there may be", call_begin, "{" ENTRIES "}", "]}", WEIR_DESCRIPTORS_MAX,
          RLS_GOOD, "" },
        { "one more", call_begin, "{" ENTRIES "}", "]}", WEIR_DESCRIPTORS_MAX + 1, RLS_TOO_MUCH,
          "rate limit call has more than 64 descriptors" },
        { "as many entries", entries_begin, "{\"key\":\"u\",\"value\":\"a\"}", "]}]}", WEIR_ENTRIES_MAX,
          RLS_GOOD, "" },
        { "one more of them", entries_begin, "{\"key\":\"u\",\"value\":\"a\"}", "]}]}", WEIR_ENTRIES_MAX + 1,
          RLS_TOO_MUCH, "rate limit descriptor has more than 24 entries" },
        { "more bytes than are read", call_begin, "{" ENTRIES "}", "]}", 2000, RLS_TOO_MUCH,
          "rate limit call is larger than 64 KiB" },
        { "as deep as it goes", "", "[[[[[[[[[[[[[[[[[[[[[[", "", 1, RLS_BAD, "the body must be an object" },
        { "deep inside", "{\"domain\":", "[[[[[[[[[[[[[[[[[[[[[[", "", 1, RLS_BAD, "domain must be a string" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        enum rls_fault fault =
            read_text(body, fill(rows[i].begin, rows[i].part, rows[i].count, rows[i].end), sizeof room);
        if (fault != rows[i].fault)
            fail_msg("%s: %d, %s", rows[i].why, fault, why_not);
        expect_row(fault == RLS_GOOD || strncmp(why_not, rows[i].begins, strlen(rows[i].begins)) == 0,
                   rows[i].why);
    }
}

static const char typical[] =
    "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":\"u\\t\",\"value\":\"\\u00e9\"}],"
    "\"hitsAddend\":\"12\",\"limit\":{\"requestsPerUnit\":10,\"unit\":\"DAY\"}}],\"hitsAddend\":3}";

static void a_call_that_is_cut_is_none(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof typical - 1; len++)
        assert_int_equal(read_text(typical, len, sizeof room), RLS_BAD);
    assert_int_equal(read_text(typical, sizeof typical - 1, sizeof room), RLS_GOOD);
    assert_string_equal(line_of(&call), "d [u\t=\xc3\xa9] 12 limit 10/4*1");
    for (size_t len = 0; len < 4; len++) /* two bytes and two of what escapes make */
        assert_int_equal(read_text(typical, sizeof typical - 1, len), RLS_BAD);
    assert_int_equal(read_text(typical, sizeof typical - 1, 4), RLS_GOOD);
}

static void any_bytes_are_survived(void **state)
{
    static const char letters[] = "{}[]\":,\\u0019-truefalsn de";
    struct random random = { random_seed(20261202) };
    char turned[sizeof typical - 1];
    (void)state;
    for (int run = 0; run < 100000; run++) {
        memcpy(turned, typical, sizeof turned);
        for (uint64_t turns = 1 + random_below(&random, 3); turns > 0; turns--)
            turned[random_below(&random, sizeof turned)] = letters[random_below(&random, sizeof letters - 1)];
        if (read_text(turned, sizeof turned, sizeof room) == RLS_GOOD)
            (void)line_of(&call); /* reads every byte of it */
    }
}

/* ---- Writing --------------------------------------------------------------------------------------------- */

static void expect_written(const struct rls_answer *answer, const char *json)
{
    char written[1024];
    struct text out = text_of(written, sizeof written);
    rls_json_write(answer, &out);
    assert_false(out.is_cut);
    if (!slice_equals(text_slice(&out), slice_of(json)))
        fail_msg("%.*s\nwant\n%s", (int)out.len, out.at, json);
}

static void answers_are_written(void **state)
{
    static struct rls_answer answer;
    (void)state;
    answer.overall = RLS_OVER_LIMIT;
    answer.count = 1;
    answer.statuses[0] = (struct rls_status){ .code = RLS_OVER_LIMIT,
                                              .has_limit = true,
                                              .requests_per_unit = 1,
                                              .unit_multiplier = 1,
                                              .unit = RLS_DAY,
                                              .has_reset = true,
                                              .reset_seconds = 4021 };
    expect_written(&answer,
                   "{\"overallCode\":\"OVER_LIMIT\",\"statuses\":[{\"code\":\"OVER_LIMIT\",\"currentLimit\":{"
                   "\"requestsPerUnit\":1,\"unit\":\"DAY\"},\"durationUntilReset\":\"4021s\"}]}");

    answer.overall = RLS_OK;
    answer.count = 3;
    answer.statuses[0] = (struct rls_status){ .code = RLS_OK };
    answer.statuses[1] = (struct rls_status){ .code = RLS_OK,
                                              .has_limit = true,
                                              .requests_per_unit = 10,
                                              .unit_multiplier = 5,
                                              .unit = RLS_WEEK,
                                              .name = { "per\"ip", 6 },
                                              .remaining = 9,
                                              .has_reset = true };
    answer.statuses[2] = (struct rls_status){ .code = RLS_UNKNOWN, .has_limit = true };
    expect_written(&answer,
                   "{\"overallCode\":\"OK\",\"statuses\":[{\"code\":\"OK\"},{\"code\":\"OK\",\"currentLimit\":{"
                   "\"requestsPerUnit\":10,\"unit\":\"WEEK\",\"name\":\"per\\\"ip\",\"unitMultiplier\":5},"
                   "\"limitRemaining\":9,\"durationUntilReset\":\"0s\"},{\"currentLimit\":{}}]}");

    answer.count = 0;
    answer.header_count = 2;
    answer.headers[0] = (struct rls_header){ SLICE("retry-after"), SLICE("42") };
    answer.headers[1] = (struct rls_header){ SLICE("ratelimit"), SLICE("\"a\";r=1") };
    expect_written(
        &answer, "{\"overallCode\":\"OK\",\"responseHeadersToAdd\":[{\"key\":\"retry-after\",\"value\":\"42\"},"
                 "{\"key\":\"ratelimit\",\"value\":\"\\\"a\\\";r=1\"}]}");

    answer.header_count = 0;
    answer.overall = RLS_UNKNOWN;
    expect_written(&answer, "{}");

    static const struct {
        struct slice bytes;
        const char *json;
    } bodies[] = { /* RFC 4648 section 10 */
                   { { "f", 1 }, "{\"rawBody\":\"Zg==\"}" },
                   { { "fo", 2 }, "{\"rawBody\":\"Zm8=\"}" },
                   { { "foo", 3 }, "{\"rawBody\":\"Zm9v\"}" },
                   { { "foob", 4 }, "{\"rawBody\":\"Zm9vYg==\"}" },
                   { { "fooba", 5 }, "{\"rawBody\":\"Zm9vYmE=\"}" },
                   { { "foobar", 6 }, "{\"rawBody\":\"Zm9vYmFy\"}" },
                   { { "\xff\xef\xbf\xbe", 4 }, "{\"rawBody\":\"/++/vg==\"}" }
    };
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        answer.body = bodies[i].bytes;
        expect_written(&answer, bodies[i].json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_read),         cmocka_unit_test(what_is_no_call_is_refused),
        cmocka_unit_test(counts_have_bounds),     cmocka_unit_test(a_call_that_is_cut_is_none),
        cmocka_unit_test(any_bytes_are_survived), cmocka_unit_test(answers_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
