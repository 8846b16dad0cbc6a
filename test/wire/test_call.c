// SPDX-License-Identifier: Apache-2.0
/*
 * test_call.c - bodies of reserve, settle, cancel, refund and reset, and the text of a reservation.
 *
 * The expected letters of base64url are those of RFC 4648 section 10, and of sections 4 and 5 for the last two.
 */
#include "support/unit.h"

#include "support/random.h"
#include "wire/base64url.h"
#include "wire/call.h"

static struct weir_attribute attributes[CHECK_ATTRIBUTES_MAX];
static char scratch[CHECK_BODY_MAX];
static struct call_body body;
static struct check_fault fault;

/* Each body in memory of its own size, with as much scratch as it has bytes. */
static int parse(enum call call, const char *text)
{
    static char *copy;
    size_t len = strlen(text);
    free(copy);
    copy = malloc(len + 1);
    memcpy(copy, text, len);
    const struct check_storage storage = { NULL, 0, attributes, COUNT_OF(attributes), scratch, len };
    memset(&fault, 0, sizeof fault);
    return call_parse(call, &storage, copy, len, &body, &fault);
}

static void expect_attribute(size_t index, const char *name, const char *value)
{
    assert_true(index < body.ask.attribute_count);
    assert_string_equal(body.ask.attributes[index].name, name);
    assert_int_equal(body.ask.attributes[index].len, strlen(value));
    assert_memory_equal(body.ask.attributes[index].value, value, strlen(value));
}

/* ---- What bodies mean ------------------------------------------------------------------------------------ */

static void each_call_has_its_members(void **state)
{
    (void)state;
    assert_int_equal(parse(CALL_RESERVE, "{\"attributes\":{\"tenant\":\"acme\"},\"cost\":500,\"wait\":1,"
                                         "\"expires_after\":0.5}"),
                     0);
    expect_attribute(0, "tenant", "acme");
    assert_int_equal(body.ask.cost, 500);
    assert_int_equal(body.expires_after, 500 * WEIR_MILLISECOND);
    assert_int_equal(body.ask.wait, WEIR_SECOND);
    assert_false(body.ask.is_peek);

    assert_int_equal(parse(CALL_SETTLE, "{\"cost\":0,\"reservation\":\"-_8B\"}"), 0);
    assert_int_equal(body.ask.cost, 0);
    assert_int_equal(body.handle.len, 3);
    assert_memory_equal(body.handle.at, "\xfb\xff\x01", 3);

    assert_int_equal(parse(CALL_CANCEL, "{\"reservation\":\"AA\"}"), 0);
    assert_int_equal(body.handle.len, 1);

    assert_int_equal(parse(CALL_REFUND, "{\"attributes\":{},\"cost\":9223372036854775807}"), 0);
    assert_int_equal(body.ask.attribute_count, 0);
    assert_int_equal(body.ask.cost, INT64_MAX);

    assert_int_equal(
        parse(CALL_RESET, "{\"limit\":\"tenant-requests\",\"key\":{\"tenant\":\"\\u0061cme\",\"n\":7}}"), 0);
    assert_string_equal(body.limit, "tenant-requests");
    expect_attribute(0, "tenant", "acme");
    expect_attribute(1, "n", "7");

    assert_int_equal(parse(CALL_ACQUIRE,
                           "{\"bind\":\"connection\",\"attributes\":{\"tenant\":\"acme\"},\"cost\":2,"
                           "\"wait\":0.000000001}"),
                     0);
    expect_attribute(0, "tenant", "acme");
    assert_int_equal(body.ask.cost, 2);
    assert_int_equal(body.ask.wait, 1);
    assert_true(body.is_bound);

    assert_int_equal(parse(CALL_RENEW, "{\"permit\":\"-_8B\"}"), 0);
    assert_int_equal(body.handle.len, 3);
    assert_memory_equal(body.handle.at, "\xfb\xff\x01", 3);

    assert_int_equal(parse(CALL_RELEASE, "{\"permit\":\"AA\",\"outcome\":\"dropped\"}"), 0);
    assert_int_equal(body.handle.len, 1);
    assert_int_equal(body.outcome, CALL_DROPPED);
}

static void what_is_not_said_has_its_default(void **state)
{
    (void)state;
    assert_int_equal(parse(CALL_RESERVE, "{\"attributes\":{}}"), 0);
    assert_int_equal(body.ask.cost, 1);
    assert_int_equal(body.expires_after, 600 * WEIR_SECOND);
    assert_int_equal(body.ask.wait, 0);
    assert_int_equal(parse(CALL_RESET, "{\"key\":{},\"limit\":\"all\"}"), 0);
    assert_int_equal(body.ask.attribute_count, 0);
    assert_int_equal(parse(CALL_ACQUIRE, "{\"attributes\":{}}"), 0);
    assert_int_equal(body.ask.cost, 1);
    assert_int_equal(body.ask.wait, 0);
    assert_false(body.is_bound);
    assert_int_equal(parse(CALL_RELEASE, "{\"permit\":\"AA\"}"), 0);
    assert_int_equal(body.outcome, CALL_OK);
}

/* ---- Refusals -------------------------------------------------------------------------------------------- */

static void each_fault_names_its_field(void **state)
{
    static const struct {
        const char *why;
        enum call call;
        const char *text, *field, *part;
    } rows[] = {
        { "no object", CALL_SETTLE, "[]", "", "send an object" },
        { "nothing", CALL_SETTLE, "", "", "not valid JSON" },
        { "cut", CALL_SETTLE, "{\"reservation\":\"AA\"", "", "not valid JSON" },
        { "more behind it", CALL_CANCEL, "{\"reservation\":\"AA\"} {}", "", "not valid JSON" },
        { "reserve: attributes are needed", CALL_RESERVE, "{\"cost\":1}", "attributes", "is missing" },
        { "reserve: a mode means nothing", CALL_RESERVE, "{\"attributes\":{},\"mode\":\"peek\"}", "mode",
          "the fields are attributes, cost, expires_after and wait" },
        { "reserve: no batch", CALL_RESERVE, "{\"requests\":[]}", "requests", "no field of a reserve" },
        { "reserve: twice", CALL_RESERVE, "{\"attributes\":{},\"attributes\":{}}", "attributes", "twice" },
        { "reserve: for no time", CALL_RESERVE, "{\"attributes\":{},\"expires_after\":0}", "expires_after",
          "above 0" },
        { "reserve: for more than a day", CALL_RESERVE, "{\"attributes\":{},\"expires_after\":86400.000000001}",
          "expires_after", "up to 86400" },
        { "reserve: a quoted time", CALL_RESERVE, "{\"attributes\":{},\"expires_after\":\"1\"}",
          "expires_after", "expires_after is \"1\": send" },
        { "reserve: a negative cost", CALL_RESERVE, "{\"attributes\":{},\"cost\":-1}", "cost", "-1" },
        { "reserve: a bad attribute", CALL_RESERVE, "{\"attributes\":{\"tenant\":1.5}}", "attributes.tenant",
          "1.5" },
        { "acquire: attributes are needed", CALL_ACQUIRE, "{\"cost\":1}", "attributes", "is missing" },
        { "acquire: it has no mode", CALL_ACQUIRE, "{\"attributes\":{},\"mode\":\"peek\"}", "mode",
          "the fields are attributes, cost, wait and bind" },
        { "acquire: no batch", CALL_ACQUIRE, "{\"requests\":[]}", "requests", "no field of an acquire" },
        { "acquire: bound to what", CALL_ACQUIRE, "{\"attributes\":{},\"bind\":\"thread\"}", "bind",
          "bind is \"thread\": send \"connection\"" },
        { "acquire: bound by a flag", CALL_ACQUIRE, "{\"attributes\":{},\"bind\":true}", "bind", "true" },
        { "acquire: bound to nothing", CALL_ACQUIRE, "{\"attributes\":{},\"bind\":null}", "bind", "null" },
        { "acquire: a wait back in time", CALL_ACQUIRE, "{\"attributes\":{},\"wait\":-0.1}", "wait", "-0.1" },
        { "acquire: a wait that no number is", CALL_ACQUIRE, "{\"attributes\":{},\"wait\":1e400}", "wait",
          "1e400" },
        { "acquire: a wait in words", CALL_ACQUIRE, "{\"attributes\":{},\"wait\":\"1s\"}", "wait",
          "wait is \"1s\": send seconds as a number, such as 1.5" },
        { "reserve: a wait of ten decimals", CALL_RESERVE, "{\"attributes\":{},\"wait\":0.0000000001}", "wait",
          "at most nine decimals" },
        { "renew: without a permit", CALL_RENEW, "{}", "permit", "is missing" },
        { "renew: no outcome yet", CALL_RENEW, "{\"permit\":\"AA\",\"outcome\":\"ok\"}", "outcome",
          "the only field is permit" },
        { "renew: no text", CALL_RENEW, "{\"permit\":7}", "permit", "is 7" },
        { "renew: an empty permit", CALL_RENEW, "{\"permit\":\"\"}", "permit",
          "permit is \"\": send the text that /v1/acquire answered" },
        { "renew: not base64url", CALL_RENEW, "{\"permit\":\"A+\"}", "permit", "permit is \"A+\": send" },
        { "release: an outcome we do not know", CALL_RELEASE, "{\"permit\":\"AA\",\"outcome\":\"good\"}",
          "outcome", "is \"good\": send" },
        { "release: an outcome that is no text", CALL_RELEASE, "{\"permit\":\"AA\",\"outcome\":0}", "outcome",
          "is 0" },
        { "release: two", CALL_RELEASE, "{\"permit\":\"AA\",\"permit\":\"AA\"}", "permit", "twice" },
        { "settle: without its cost", CALL_SETTLE, "{\"reservation\":\"AA\"}", "cost", "is missing" },
        { "settle: without a reservation", CALL_SETTLE, "{\"cost\":1}", "reservation", "is missing" },
        { "settle: attributes are known already", CALL_SETTLE,
          "{\"reservation\":\"AA\",\"cost\":1,\"attributes\":{}}", "attributes", "reservation and cost" },
        { "settle: no text", CALL_SETTLE, "{\"reservation\":null,\"cost\":1}", "reservation", "null" },
        { "settle: an empty text", CALL_SETTLE, "{\"reservation\":\"\",\"cost\":1}", "reservation",
          "/v1/reserve" },
        { "settle: padding", CALL_SETTLE, "{\"reservation\":\"AA==\",\"cost\":1}", "reservation", "AA==" },
        { "settle: the other alphabet", CALL_SETTLE, "{\"reservation\":\"+/8B\",\"cost\":1}", "reservation",
          "+/8B" },
        { "settle: half a byte", CALL_SETTLE, "{\"reservation\":\"A\",\"cost\":1}", "reservation", "A" },
        { "settle: bits of no byte", CALL_SETTLE, "{\"reservation\":\"AB\",\"cost\":1}", "reservation", "AB" },
        { "settle: a fraction", CALL_SETTLE, "{\"reservation\":\"AA\",\"cost\":1.5}", "cost", "1.5" },
        { "cancel: has no cost", CALL_CANCEL, "{\"reservation\":\"AA\",\"cost\":1}", "cost",
          "the only field is reservation" },
        { "refund: how much", CALL_REFUND, "{\"attributes\":{}}", "cost", "is missing" },
        { "refund: whose", CALL_REFUND, "{\"cost\":1}", "attributes", "is missing" },
        { "reset: of which limit", CALL_RESET, "{\"key\":{}}", "limit", "is missing" },
        { "reset: of which key", CALL_RESET, "{\"limit\":\"a\"}", "key", "is missing" },
        { "reset: a number", CALL_RESET, "{\"limit\":7,\"key\":{}}", "limit", "7" },
        { "reset: a name that is none", CALL_RESET, "{\"limit\":\"\",\"key\":{}}", "limit", "name of a limit" },
        { "reset: a zero byte must not end it", CALL_RESET, "{\"limit\":\"a\\u0000b\",\"key\":{}}", "limit",
          "a?b" },
        { "reset: 64 letters", CALL_RESET,
          "{\"limit\":\"0123456789012345678901234567890123456789012345678901234567890123\",\"key\":{}}",
          "limit", "name of a limit" },
        { "reset: a bad key", CALL_RESET, "{\"limit\":\"a\",\"key\":{\"tenant\":null}}", "key.tenant", "null" },
        { "reset: a key that is no object", CALL_RESET, "{\"limit\":\"a\",\"key\":\"acme\"}", "key",
          "key is \"acme\": send an object" },
        { "reset: an attribute twice", CALL_RESET, "{\"limit\":\"a\",\"key\":{\"t\":1,\"t\":1}}", "key.t",
          "twice" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (parse(rows[i].call, rows[i].text) == 0)
            fail_msg("%s: `%s` was accepted", rows[i].why, rows[i].text);
        if (strcmp(fault.field, rows[i].field) != 0)
            fail_msg("%s: names `%s`, want `%s` (%s)", rows[i].why, fault.field, rows[i].field, fault.message);
        if (strstr(fault.message, rows[i].part) == NULL)
            fail_msg("%s: `%s` lacks `%s`", rows[i].why, fault.message, rows[i].part);
    }
}

static void faults_of_the_contract_name_their_attribute(void **state)
{
    (void)state;
    assert_int_equal(parse(CALL_RESET, "{\"limit\":\"a\",\"key\":{\"tenant\":\"x\"}}"), 0);
    call_fault_attribute(&fault, CALL_RESET, &body, 0, "is no key attribute");
    assert_string_equal(fault.field, "key.tenant");
    call_fault_attribute(&fault, CALL_RESET, &body, 1, "path is missing");
    assert_string_equal(fault.field, "key");
    assert_int_equal(parse(CALL_REFUND, "{\"cost\":1,\"attributes\":{\"path\":\"/%zz\"}}"), 0);
    call_fault_attribute(&fault, CALL_REFUND, &body, 0, "has a bad escape");
    assert_string_equal(fault.field, "attributes.path");
    call_fault_attribute(&fault, CALL_REFUND, &body, 1, "elsewhere");
    assert_string_equal(fault.field, "");
    assert_string_equal(fault.message, "elsewhere");
}

/* ---- base64url ------------------------------------------------------------------------------------------- */

static void letters_are_those_of_the_standard(void **state)
{
    static const struct {
        const char *bytes, *letters;
    } rows[] = {
        { "", "" },           { "f", "Zg" },          { "fo", "Zm8" },          { "foo", "Zm9v" },
        { "foob", "Zm9vYg" }, { "fooba", "Zm9vYmE" }, { "foobar", "Zm9vYmFy" }, { "\xfb\xff", "-_8" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char storage[16];
        unsigned char bytes[16];
        size_t len = 99;
        struct text text = text_of(storage, sizeof storage);
        base64url_encode(&text, rows[i].bytes, strlen(rows[i].bytes));
        assert_true(slice_equals(text_slice(&text), slice_of(rows[i].letters)));
        assert_true(base64url_decode(text_slice(&text), bytes, strlen(rows[i].bytes), &len));
        assert_int_equal(len, strlen(rows[i].bytes));
        assert_memory_equal(bytes, rows[i].bytes, len);
    }
}

/*
 * Any bytes come back, room that is one byte short is refused, and so is every text but the one that was
 * written.
 */
static void each_run_of_bytes_has_one_text(void **state)
{
    struct random random = { random_seed(64) };
    (void)state;
    for (int round = 0; round < 2000; round++) {
        unsigned char bytes[100], again[100];
        char storage[BASE64URL_LEN(100)];
        size_t count = (size_t)random_below(&random, 100) + 1, len;
        for (size_t i = 0; i < count; i++)
            bytes[i] = (unsigned char)random_below(&random, 256);
        struct text text = text_of(storage, sizeof storage);
        base64url_encode(&text, bytes, count);
        assert_int_equal(text.len, BASE64URL_LEN(count));
        assert_true(base64url_decode(text_slice(&text), again, count, &len));
        assert_int_equal(len, count);
        assert_memory_equal(again, bytes, count);
        assert_false(base64url_decode(text_slice(&text), again, count - 1, &len));

        storage[random_below(&random, text.len)] = (char)random_below(&random, 256);
        if (base64url_decode(text_slice(&text), again, sizeof again, &len)) {
            char written[sizeof storage];
            struct text second = text_of(written, sizeof written);
            base64url_encode(&second, again, len);
            assert_true(slice_equals(text_slice(&second), text_slice(&text)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_has_its_members),
        cmocka_unit_test(what_is_not_said_has_its_default),
        cmocka_unit_test(each_fault_names_its_field),
        cmocka_unit_test(faults_of_the_contract_name_their_attribute),
        cmocka_unit_test(letters_are_those_of_the_standard),
        cmocka_unit_test(each_run_of_bytes_has_one_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
