// SPDX-License-Identifier: Apache-2.0
/*
 * test_check.c - bodies of POST /v1/check: what they mean, and each refusal with the field it names.
 *
 * B07: a cost that is negative, fractional, exponential, empty, quoted or above 2^63 - 1 is refused by name.
 */
#include "support/unit.h"

#include "support/random.h"
#include "wire/check.h"

static struct check_request requests[CHECK_REQUESTS_MAX];
static struct weir_attribute attributes[CHECK_ATTRIBUTES_MAX];
static char scratch[CHECK_BODY_MAX];
static struct check_body body;
static struct check_fault fault;

/* Each body in memory of its own size, with as much scratch as it has bytes: check.h says that suffices. */
static int parse(const char *at, size_t len)
{
    static char *copy;
    free(copy);
    copy = malloc(len + (len == 0));
    memcpy(copy, at, len);
    const struct check_storage storage = { requests,   COUNT_OF(requests),
                                           attributes, COUNT_OF(attributes),
                                           scratch,    len };
    memset(&fault, 0, sizeof fault);
    return check_parse(&storage, copy, len, &body, &fault);
}

static int parse_text(const char *text)
{
    return parse(text, strlen(text));
}

static void expect_fault(const char *text, const char *field, const char *part, const char *why)
{
    if (parse_text(text) == 0)
        fail_msg("%s: `%s` was accepted", why, text);
    if (strcmp(fault.field, field) != 0)
        fail_msg("%s: names `%s`, want `%s` (%s)", why, fault.field, field, fault.message);
    if (strstr(fault.message, part) == NULL)
        fail_msg("%s: `%s` lacks `%s`", why, fault.message, part);
}

/* ---- What bodies mean ------------------------------------------------------------------------------------ */

static bool has_attribute(const struct weir_request *ask, size_t index, const char *name, const char *value,
                          size_t len)
{
    const struct weir_attribute *attribute = &ask->attributes[index];
    return index < ask->attribute_count && strcmp(attribute->name, name) == 0 && attribute->len == len
           && (len == 0 ? attribute->value[0] == '\0' : memcmp(attribute->value, value, len) == 0);
}

static void a_single_request_is_read(void **state)
{
    (void)state;
    assert_int_equal(
        parse_text("{\"attributes\": {\"path\": \"/v1/items\", \"tenant\": \"acme\"}, \"cost\": 7, \"mode\": "
                   "\"take\", \"wait\": 1.5}"),
        0);
    assert_false(body.is_batch);
    assert_int_equal(body.count, 1);
    const struct weir_request *ask = &body.requests[0].ask;
    assert_int_equal(ask->attribute_count, 2);
    assert_true(has_attribute(ask, 0, "path", "/v1/items", 9));
    assert_true(has_attribute(ask, 1, "tenant", "acme", 4));
    assert_int_equal(ask->cost, 7);
    assert_false(ask->is_peek);
    assert_int_equal(ask->wait, 1500000000);
    assert_int_equal(parse_text("{\"attributes\":{},\"wait\":0,\"mode\":\"peek\"}"), 0);
    assert_true(body.requests[0].ask.is_peek);
}

static void what_is_not_said_has_its_default(void **state)
{
    (void)state;
    assert_int_equal(parse_text("{\"attributes\":{}}"), 0);
    assert_int_equal(body.requests[0].ask.cost, 1);
    assert_int_equal(body.requests[0].ask.attribute_count, 0);
    assert_false(body.requests[0].ask.is_peek);
    assert_int_equal(body.requests[0].ask.wait, 0);
}

static void values_become_text(void **state)
{
    static const struct {
        const char *why, *json, *text;
        size_t len;
    } rows[] = {
        { "a string", "\"a b\"", "a b", 3 },
        { "an escaped string", "\"a\\u00e4\\\"\"", "a\xc3\xa4\"", 4 },
        { "an empty string is absent", "\"\"", "", 0 },
        { "an integer", "42", "42", 2 },
        { "a negative integer", "-9223372036854775808", "-9223372036854775808", 20 },
        { "the largest integer", "18446744073709551615", "18446744073709551615", 20 },
        { "minus zero is the same key as zero", "-0", "0", 1 },
        { "true", "true", "true", 4 },
        { "false", "false", "false", 5 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[128];
        sprintf(text, "{\"attributes\":{\"user\":%s}}", rows[i].json);
        expect_row(parse_text(text) == 0, rows[i].why);
        expect_row(has_attribute(&body.requests[0].ask, 0, "user", rows[i].text, rows[i].len), rows[i].why);
    }
}

/* Names written with escapes need the most scratch for their size. */
static void escaped_names_fit_the_promised_scratch(void **state)
{
    (void)state;
    assert_int_equal(
        parse_text("{\"attributes\":{\"\\u0061bcdefghijklmnopqrstuvwxyz12345\":\"x\",\"b\":\"\\n\"}}"), -1);
    assert_string_equal(fault.field, "attributes.b");
    assert_int_equal(
        parse_text("{\"attributes\":{\"\\u0061bcdefghijklmnopqrstuvwxyz12345\":\"\\/\",\"b\":\"\\\"\","
                   "\"\\u0063\":\"\\u00e4\"}}"),
        0);
    const struct weir_request *ask = &body.requests[0].ask;
    assert_true(has_attribute(ask, 0, "abcdefghijklmnopqrstuvwxyz12345", "/", 1));
    assert_true(has_attribute(ask, 1, "b", "\"", 1));
    assert_true(has_attribute(ask, 2, "c", "\xc3\xa4", 2));
    assert_int_equal(parse_text("{\"attri\\u0062utes\":{},\"\\u0063ost\":3}"), 0);
    assert_int_equal(body.requests[0].ask.cost, 3);
}

static void waits_are_exact(void **state)
{
    static const struct {
        const char *why, *json;
        uint64_t ns;
    } rows[] = {
        { "none", "0", 0 },
        { "zero with a point", "0.0", 0 },
        { "a nanosecond", "0.000000001", 1 },
        { "a tenth that no double holds", "0.1", 100000000 },
        { "nine decimals", "12.345678901", 12345678901 },
        { "a day", "86400", 86400000000000 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[128];
        sprintf(text, "{\"attributes\":{},\"wait\":%s}", rows[i].json);
        expect_row(parse_text(text) == 0, rows[i].why);
        expect_row(body.requests[0].ask.wait == rows[i].ns, rows[i].why);
    }
}

static void a_batch_is_read_in_order(void **state)
{
    (void)state;
    assert_int_equal(
        parse_text("{\"requests\":[{\"attributes\":{\"a\":\"1\",\"b\":\"2\"}},{\"cost\":0,\"attributes\":{}},"
                   "{\"attributes\":{\"c\":\"3\"},\"mode\":\"take\"}]}"),
        0);
    assert_true(body.is_batch);
    assert_int_equal(body.count, 3);
    assert_true(has_attribute(&body.requests[0].ask, 1, "b", "2", 1));
    assert_int_equal(body.requests[1].ask.cost, 0);
    assert_int_equal(body.requests[1].ask.attribute_count, 0);
    assert_true(has_attribute(&body.requests[2].ask, 0, "c", "3", 1));
    assert_int_equal(body.requests[2].ask.attribute_count, 1);

    assert_int_equal(parse_text("{\"requests\":[]}"), 0);
    assert_true(body.is_batch);
    assert_int_equal(body.count, 0);
}

/* ---- Refusals -------------------------------------------------------------------------------------------- */

static void B07_a_cost_that_is_no_cost_is_refused(void **state)
{
    static const struct {
        const char *why, *json;
    } rows[] = {
        { "negative costs mint quota", "-1" },
        { "as negative as 64 bits go", "-9223372036854775808" },
        { "three less than nothing", "-3" },
        { "minus zero", "-0" },
        { "exponents are no integers", "1e3" },
        { "fractions neither", "0.5" },
        { "nor whole numbers with a point", "1.0" },
        { "an empty string", "\"\"" },
        { "a number in quotes", "\"5\"" },
        { "2^63", "9223372036854775808" },
        { "2^64, which wraps to 0", "18446744073709551616" },
        { "true is not 1", "true" },
        { "null is not the default", "null" },
        { "an array", "[1]" },
        { "an object", "{\"from\":\"x\"}" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[256];
        sprintf(text, "{\"attributes\":{\"tenant\":\"acme\"},\"cost\":%s}", rows[i].json);
        expect_fault(text, "cost", "send an integer from 0 to 9223372036854775807", rows[i].why);
        sprintf(text,
                "{\"requests\":[{\"attributes\":{}},{\"attributes\":{}},{\"attributes\":{}},{\"attributes\":{},"
                "\"cost\":%s}]}",
                rows[i].json);
        expect_fault(text, "requests[3].cost", "requests[3].cost is ", rows[i].why);
    }
    assert_int_equal(parse_text("{\"attributes\":{},\"cost\":9223372036854775807}"), 0);
    assert_int_equal(body.requests[0].ask.cost, INT64_MAX);
    assert_int_equal(parse_text("{\"attributes\":{},\"cost\":0}"), 0);
    assert_int_equal(body.requests[0].ask.cost, 0);
}

static void each_bad_body_names_its_field(void **state)
{
    static const struct {
        const char *why, *text, *field, *part;
    } rows[] = {
        { "no body", "", "", "line 1, column 1" },
        { "no JSON", "cost=1", "", "not valid JSON" },
        { "JSON that is cut", "{\"attributes\":{", "", "ends too early" },
        { "something behind", "{\"attributes\":{}} x", "", "column 19" },
        { "an array", "[]", "", "the body is an array: send an object" },
        { "a string", "\"x\"", "", "the body is \"x\": send an object" },
        { "no attributes", "{}", "attributes", "is missing" },
        { "no attributes in a batch", "{\"requests\":[{\"cost\":1}]}", "requests[0].attributes", "is missing" },
        { "attributes that are none", "{\"attributes\":[]}", "attributes", "is an array" },
        { "null attributes", "{\"attributes\":null}", "attributes", "is null" },
        { "an unknown field", "{\"attributes\":{},\"colour\":1}", "colour", "colour is no field of a check" },
        { "names are exact", "{\"attributes\":{},\"Cost\":1}", "Cost", "is no field" },
        { "an unknown field in a batch", "{\"requests\":[{\"attributes\":{},\"key\":1}]}", "requests[0].key",
          "is no field" },
        { "a batch in a batch", "{\"requests\":[{\"requests\":[]}]}", "requests[0].requests", "is no field" },
        { "a field twice", "{\"attributes\":{},\"cost\":1,\"cost\":2}", "cost", "is given twice" },
        { "a field twice, once by escape", "{\"attributes\":{},\"cost\":1,\"c\\u006fst\":2}", "cost",
          "is given twice" },
        { "attributes twice", "{\"attributes\":{},\"attributes\":{}}", "attributes", "is given twice" },
        { "requests twice", "{\"requests\":[],\"requests\":[]}", "requests", "is given twice" },
        { "a cost beside a batch", "{\"requests\":[],\"cost\":1}", "cost", "stands beside other fields" },
        { "a batch beside a cost", "{\"cost\":1,\"requests\":[]}", "requests", "stands beside other fields" },
        { "a batch that is none", "{\"requests\":{}}", "requests", "is an object" },
        { "an item that is none", "{\"requests\":[{\"attributes\":{}},7]}", "requests[1]", "requests[1] is 7" },
        { "a mode we do not have", "{\"attributes\":{},\"mode\":\"give\"}", "mode", "mode is \"give\": send" },
        { "modes are exact", "{\"attributes\":{},\"mode\":\"Peek\"}", "mode", "send \"take\" or \"peek\"" },
        { "a mode that is a boolean", "{\"attributes\":{},\"mode\":true}", "mode", "mode is true" },
        { "a wait back in time", "{\"attributes\":{},\"wait\":-1}", "wait", "wait is -1" },
        { "a wait beyond any number", "{\"attributes\":{},\"wait\":1e400}", "wait", "wait is 1e400" },
        { "a wait of one item of a batch",
          "{\"requests\":[{\"attributes\":{}},{\"attributes\":{},\"wait\":0}]}", "requests[1].wait",
          "a batch is answered whole" },
        { "a wait of a batch", "{\"requests\":[{\"attributes\":{}}],\"wait\":1}", "wait", "stands beside" },
        { "a wait in quotes", "{\"attributes\":{},\"wait\":\"1\"}", "wait",
          "wait is \"1\": send seconds as a number, such as 1.5," },
        { "a wait with an exponent", "{\"attributes\":{},\"wait\":1e3}", "wait", "at most nine decimals" },
        { "a wait of ten decimals", "{\"attributes\":{},\"wait\":0.0000000001}", "wait",
          "at most nine decimals" },
        { "a wait beyond a day", "{\"attributes\":{},\"wait\":86400.000000001}", "wait", "from 0 to 86400" },
        { "a look that waits", "{\"attributes\":{},\"wait\":1,\"mode\":\"peek\"}", "wait",
          "wait stands beside \"mode\": \"peek\": a look is answered at once" },
        { "an attribute that is null", "{\"attributes\":{\"a\":null}}", "attributes.a", "is null" },
        { "an attribute that is a list", "{\"attributes\":{\"a\":[]}}", "attributes.a", "is an array" },
        { "an attribute that is an object", "{\"attributes\":{\"a\":{}}}", "attributes.a", "is an object" },
        { "a fraction has two spellings", "{\"attributes\":{\"a\":1.0}}", "attributes.a",
          "is 1.0: send an integer" },
        { "so has an exponent", "{\"attributes\":{\"a\":1e3}}", "attributes.a", "or a string" },
        { "an integer of 65 bits", "{\"attributes\":{\"a\":18446744073709551616}}", "attributes.a", "64 bits" },
        { "a negative one of 65 bits", "{\"attributes\":{\"a\":-9223372036854775809}}", "attributes.a",
          "64 bits" },
        { "an attribute twice", "{\"attributes\":{\"a\":\"x\",\"a\":\"y\"}}", "attributes.a",
          "is given twice" },
        { "twice, once by escape", "{\"attributes\":{\"a\":\"x\",\"\\u0061\":\"y\"}}", "attributes.a",
          "is given twice" },
        { "a zero byte in a value", "{\"attributes\":{\"a\":\"x\\u0000\"}}", "attributes.a",
          "control characters" },
        { "a line end in a value", "{\"attributes\":{\"a\":\"x\\n\"}}", "attributes.a", "control characters" },
        { "DEL in a value", "{\"attributes\":{\"a\":\"\x7f\"}}", "attributes.a", "control characters" },
        { "a raw control byte is no JSON", "{\"attributes\":{\"a\":\"\x01\"}}", "", "not valid JSON" },
        { "a lone surrogate is no JSON", "{\"attributes\":{\"a\":\"\\ud800\"}}", "", "surrogate" },
        { "an empty name", "{\"attributes\":{\"\":\"x\"}}", "attributes", "is no attribute name" },
        { "a name in capitals", "{\"attributes\":{\"Tenant\":\"x\"}}", "attributes.Tenant",
          "is no attribute name" },
        { "a name with an underscore", "{\"attributes\":{\"request_id\":\"x\"}}", "attributes.request_id",
          "a-z, 0-9 and" },
        { "a name that begins with a digit", "{\"attributes\":{\"1a\":\"x\"}}", "attributes.1a",
          "a letter first" },
        { "a name of 33", "{\"attributes\":{\"abcdefghijklmnopqrstuvwxyz1234567\":\"x\"}}",
          "attributes.abcdefghijklmnopqrstuvwxyz1234567", "1 to 32" },
        { "control characters are not echoed", "{\"attributes\":{},\"a\\nb\":1}", "a?b", "a?b is no field" },
        { "long names are cut at a character",
          "{\"attributes\":{},\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa4zz\":1}",
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...", "is no field" },
        { "too deep", "{\"attributes\":{\"a\":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}}", "attributes.a",
          "is an array" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_fault(rows[i].text, rows[i].field, rows[i].part, rows[i].why);
}

static void raw_zero_bytes_are_refused(void **state)
{
    static const char in_string[] = "{\"attributes\":{\"a\":\"x\0y\"}}", behind[] = "{\"attributes\":{}}";
    (void)state;
    assert_int_equal(parse(in_string, sizeof in_string - 1), -1);
    assert_int_equal(parse(behind, sizeof behind), -1); /* its final zero is part of the body */
}

/* ---- Bounds ---------------------------------------------------------------------------------------------- */

static char text[CHECK_BODY_MAX];

static void values_are_bounded(void **state)
{
    (void)state;
    for (int len = WEIR_ATTRIBUTE_MAX - 1; len <= WEIR_ATTRIBUTE_MAX + 1; len++) {
        sprintf(text, "{\"attributes\":{\"a\":\"%0*d\"}}", len, 7);
        assert_int_equal(parse_text(text), len <= WEIR_ATTRIBUTE_MAX ? 0 : -1);
    }
    assert_string_equal(fault.field, "attributes.a");
    assert_non_null(strstr(fault.message, "1024"));
    sprintf(text, "{\"attributes\":{\"a\":\"%010240d\"}}", 7); /* ten thousand bytes */
    assert_int_equal(parse_text(text), -1);
}

static void attributes_are_bounded(void **state)
{
    (void)state;
    for (int count = WEIR_ATTRIBUTES_MAX; count <= WEIR_ATTRIBUTES_MAX + 1; count++) {
        int len = sprintf(text, "{\"attributes\":{");
        for (int i = 0; i < count; i++)
            len += sprintf(text + len, "%s\"a%d\":%d", i == 0 ? "" : ",", i, i);
        sprintf(text + len, "}}");
        assert_int_equal(parse_text(text), count == WEIR_ATTRIBUTES_MAX ? 0 : -1);
    }
    assert_string_equal(fault.field, "attributes");
    assert_non_null(strstr(fault.message, "more than 32"));
}

/* The most that a body can hold: 1000 requests of 32 attributes; one request more is refused. */
static void batches_are_bounded(void **state)
{
    (void)state;
    for (int count = CHECK_REQUESTS_MAX; count <= CHECK_REQUESTS_MAX + 1; count++) {
        int len = sprintf(text, "{\"requests\":[");
        for (int r = 0; r < count; r++) {
            len += sprintf(text + len, "%s{\"attributes\":{", r == 0 ? "" : ",");
            for (int i = 0; i < WEIR_ATTRIBUTES_MAX; i++)
                len += sprintf(text + len, "%s\"a%d\":%d", i == 0 ? "" : ",", i, i);
            len += sprintf(text + len, "}}");
        }
        sprintf(text + len, "]}");
        assert_int_equal(parse_text(text), count == CHECK_REQUESTS_MAX ? 0 : -1);
        if (count == CHECK_REQUESTS_MAX) {
            assert_int_equal(body.count, CHECK_REQUESTS_MAX);
            assert_true(has_attribute(&body.requests[999].ask, 31, "a31", "31", 2));
            assert_true(has_attribute(&body.requests[0].ask, 0, "a0", "0", 1));
        }
    }
    assert_string_equal(fault.field, "requests");
    assert_non_null(strstr(fault.message, "more than 1000"));
}

/* A fault changes nothing that the caller may hold from before. */
static void a_fault_leaves_the_result_alone(void **state)
{
    (void)state;
    body = (struct check_body){ .is_batch = true, .count = 77, .requests = NULL };
    assert_int_equal(parse_text("{\"requests\":[{\"attributes\":{}},{\"attributes\":{},\"cost\":-1}]}"), -1);
    assert_int_equal(body.count, 77);
    assert_null(body.requests);
}

static void the_contract_can_name_an_attribute(void **state)
{
    (void)state;
    assert_int_equal(
        parse_text(
            "{\"requests\":[{\"attributes\":{}},{\"attributes\":{\"tenant\":\"x\",\"path\":\"/%zz\"}}]}"),
        0);
    check_fault_attribute(&fault, &body, 1, 1, "path has a bad escape");
    assert_string_equal(fault.field, "requests[1].attributes.path");
    assert_string_equal(fault.message, "path has a bad escape");
    check_fault_attribute(&fault, &body, 1, 2, "elsewhere"); /* attribute_count: no attribute is meant */
    assert_string_equal(fault.field, "requests[1]");
    assert_int_equal(parse_text("{\"attributes\":{\"path\":\"/%zz\"}}"), 0);
    check_fault_attribute(&fault, &body, 0, 0, "path has a bad escape");
    assert_string_equal(fault.field, "attributes.path");
}

/* Random bytes put into a good body: an answer, a named fault, and no look outside (the sanitizers' part). */
static void mutated_bodies_are_answered(void **state)
{
    static const char good[] =
        "{\"requests\":[{\"attributes\":{\"path\":\"/v1/\\u00e4\",\"n\":-12,\"b\":true},\"cost\":5,\"mode\":"
        "\"peek\"},{\"attributes\":{},\"cost\":25}]}";
    struct random random = { random_seed(20260107) };
    size_t accepted = 0;
    (void)state;
    for (int i = 0; i < 100000; i++) {
        char copy[sizeof good];
        size_t len = 1 + (size_t)random_below(&random, sizeof good - 1);
        memcpy(copy, good, sizeof good);
        if (i % 4 != 0)
            len = sizeof good - 1;
        for (uint64_t n = random_below(&random, 3); n > 0; n--)
            copy[random_below(&random, sizeof good - 1)] =
                "{}[]:,\"\\ue-.019a \xff\x01"[random_below(&random, 19)];
        if (parse(copy, len) == 0)
            accepted++;
        else
            assert_true(strlen(fault.message) > 10);
    }
    assert_true(accepted > 1000 && accepted < 90000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_request_is_read),
        cmocka_unit_test(what_is_not_said_has_its_default),
        cmocka_unit_test(values_become_text),
        cmocka_unit_test(escaped_names_fit_the_promised_scratch),
        cmocka_unit_test(waits_are_exact),
        cmocka_unit_test(a_batch_is_read_in_order),
        cmocka_unit_test(B07_a_cost_that_is_no_cost_is_refused),
        cmocka_unit_test(each_bad_body_names_its_field),
        cmocka_unit_test(raw_zero_bytes_are_refused),
        cmocka_unit_test(values_are_bounded),
        cmocka_unit_test(attributes_are_bounded),
        cmocka_unit_test(batches_are_bounded),
        cmocka_unit_test(a_fault_leaves_the_result_alone),
        cmocka_unit_test(the_contract_can_name_an_attribute),
        cmocka_unit_test(mutated_bodies_are_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
