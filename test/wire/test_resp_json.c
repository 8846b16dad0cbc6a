// SPDX-License-Identifier: Apache-2.0
/*
 * test_resp_json.c - commands become the bodies that the HTTP calls take, or are refused with the way out; and our JSON becomes the
 * same names and numbers in either version of the protocol.
 */
#include "support/unit.h"
#include "wire/resp_json.h"

#define WORDS_MAX 16

/* Words with blanks between them; '_' stands for a blank inside a word. */
static size_t split(char *line, struct slice words[WORDS_MAX])
{
    size_t count = 0;
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        for (char *at = word; *at != '\0'; at++)
            *at = *at == '_' ? ' ' : *at;
        words[count++] = slice_of(word);
    }
    return count;
}

static void commands_are_bodies(void **state)
{
    static const struct {
        enum resp_call call;
        const char *words, *body, *why;
    } rows[] = {
        { RESP_CALL_CHECK, "ATTR tenant acme", "{\"attributes\":{\"tenant\":\"acme\"}}",
          "nothing but a request" },
        { RESP_CALL_CHECK, "attr a 1 b 2", "{\"attributes\":{\"a\":\"1\",\"b\":\"2\"}}",
          "words in any case; values are text" },
        { RESP_CALL_CHECK, "COST 5 WAIT 1500 PEEK ATTR a x",
          "{\"cost\":5,\"wait\":1.5,\"mode\":\"peek\",\"attributes\":{\"a\":\"x\"}}",
          "milliseconds become seconds" },
        { RESP_CALL_CHECK, "WAIT 0 ATTR a x", "{\"wait\":0,\"attributes\":{\"a\":\"x\"}}", "no wait at all" },
        { RESP_CALL_CHECK, "COST 18446744073709551615 ATTR a x",
          "{\"cost\":18446744073709551615,\"attributes\":{\"a\":\"x\"}}", "the largest cost" },
        { RESP_CALL_CHECK, "ATTR a \"x\\", "{\"attributes\":{\"a\":\"\\\"x\\\\\"}}", "what JSON escapes" },
        { RESP_CALL_CHECK, "ATTR cost 1 ATTR 2", "{\"attributes\":{\"cost\":\"1\",\"ATTR\":\"2\"}}",
          "behind ATTR every word is a name or a value" },
        { RESP_CALL_PEEK, "COST 2 ATTR a x", "{\"mode\":\"peek\",\"cost\":2,\"attributes\":{\"a\":\"x\"}}",
          "PEEK is understood" },
        { RESP_CALL_RESERVE, "EXPIRES 60000 ATTR a x", "{\"expires_after\":60,\"attributes\":{\"a\":\"x\"}}",
          "a hold" },
        { RESP_CALL_ACQUIRE, "BIND ATTR a x", "{\"bind\":\"connection\",\"attributes\":{\"a\":\"x\"}}",
          "ends with the connection" },
        { RESP_CALL_REFUND, "COST 3 ATTR a x", "{\"cost\":3,\"attributes\":{\"a\":\"x\"}}", "a refund" },
        { RESP_CALL_SETTLE, "abc 7", "{\"reservation\":\"abc\",\"cost\":7}", "a settlement" },
        { RESP_CALL_CANCEL, "abc", "{\"reservation\":\"abc\"}", "a cancel" },
        { RESP_CALL_RENEW, "abc", "{\"permit\":\"abc\"}", "a renewal" },
        { RESP_CALL_RELEASE, "abc", "{\"permit\":\"abc\"}", "ok is understood" },
        { RESP_CALL_RELEASE, "abc DROPPED", "{\"permit\":\"abc\",\"outcome\":\"dropped\"}",
          "an outcome in any case" },
        { RESP_CALL_RESET, "all", "{\"limit\":\"all\",\"key\":{}}", "a limit without a key" },
        { RESP_CALL_RESET, "t ATTR tenant acme", "{\"limit\":\"t\",\"key\":{\"tenant\":\"acme\"}}", "a key" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[256], room[512], why[RESP_CALL_WHY_MAX] = "";
        struct slice words[WORDS_MAX];
        struct text body = text_of(room, sizeof room);
        (void)snprintf(line, sizeof line, "%s", rows[i].words);
        if (!resp_call_body(rows[i].call, words, split(line, words), &body, why)
            || !slice_equals(text_slice(&body), slice_of(rows[i].body)))
            fail_msg("%s: '%s' gives %.*s %s", rows[i].why, rows[i].words, (int)body.len, body.at, why);
    }
}

static void what_is_wrong_is_said(void **state)
{
    static const struct {
        enum resp_call call;
        const char *words, *said, *why;
    } rows[] = {
        { RESP_CALL_CHECK, "COST 1", "attributes are missing", "no ATTR" },
        { RESP_CALL_CHECK, "ATTR", "attributes are missing", "nothing behind it" },
        { RESP_CALL_CHECK, "ATTR a", "attributes are missing", "half a pair" },
        { RESP_CALL_CHECK, "ATTR a 1 b", "an attribute has no value: 'b'", "the last has no value" },
        { RESP_CALL_CHECK, "FOO ATTR a 1", "there is no option 'FOO'", "an unknown option" },
        { RESP_CALL_CHECK, "BIND ATTR a 1", "there is no option 'BIND'", "one of another call" },
        { RESP_CALL_CHECK, "COST 1 COST 2 ATTR a 1", "an option stands twice: 'COST'", "which of both?" },
        { RESP_CALL_CHECK, "COST", "there is nothing behind 'COST'", "no value" },
        { RESP_CALL_CHECK, "COST -1 ATTR a 1", "cost '-1'", "no negative cost" },
        { RESP_CALL_CHECK, "COST 1,\"x\":2 ATTR a 1", "cost '1,\"x\":2'", "no JSON through a number" },
        { RESP_CALL_CHECK, "COST 1.5 ATTR a 1", "cost '1.5'", "whole numbers" },
        { RESP_CALL_CHECK, "COST 18446744073709551616 ATTR a 1", "cost '18446744073709551616'",
          "beyond 64 bits" },
        { RESP_CALL_CHECK, "WAIT 1s ATTR a 1", "WAIT '1s'", "no units" },
        { RESP_CALL_CHECK, "ATTR a \xff", "no UTF-8", "bytes that are no text" },
        { RESP_CALL_PEEK, "WAIT 1 ATTR a 1", "there is no option 'WAIT'", "who looks does not wait" },
        { RESP_CALL_SETTLE, "abc", "the cost is missing", "a settlement has a cost" },
        { RESP_CALL_SETTLE, "abc x", "cost 'x'", "and that is a number" },
        { RESP_CALL_CANCEL, "abc 1", "one word too many: '1'", "a cancel has none" },
        { RESP_CALL_RESET, "t tenant acme", "there is no option 'tenant'", "ATTR comes first" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[256], room[512], why[RESP_CALL_WHY_MAX] = "";
        struct slice words[WORDS_MAX];
        struct text body = text_of(room, sizeof room);
        (void)snprintf(line, sizeof line, "%s", rows[i].words);
        if (resp_call_body(rows[i].call, words, split(line, words), &body, why)
            || strstr(why, rows[i].said) == NULL)
            fail_msg("%s: '%s' gives '%s'", rows[i].why, rows[i].words, why);
    }
}

static void every_byte_escaped_fits(void **state)
{
    static char value[RESP_COMMAND_MAX], room[RESP_CALL_BODY_MAX];
    char why[RESP_CALL_WHY_MAX];
    struct text body = text_of(room, sizeof room), small = text_of(room, 100);
    const struct slice words[] = { SLICE("ATTR"), SLICE("a"), { value, sizeof value - 32 } };
    (void)state;
    memset(value, 1, sizeof value);
    assert_true(resp_call_body(RESP_CALL_CHECK, words, 3, &body, why));
    assert_false(resp_call_body(RESP_CALL_CHECK, words, 3, &small, why));
    assert_non_null(strstr(why, "too long"));
}

static void json_is_replies(void **state)
{
    static const struct {
        const char *json, *resp2, *resp3, *why;
    } rows[] = {
        { "{}", "*0\r\n", "%0\r\n", "an empty object" },
        { "[]", "*0\r\n", "*0\r\n", "an empty list" },
        { "{\"remaining\":3}", "*2\r\n$9\r\nremaining\r\n:3\r\n", "%1\r\n$9\r\nremaining\r\n:3\r\n",
          "a number" },
        { "{\"retry_after\":3}", "*2\r\n$11\r\nretry_after\r\n$1\r\n3\r\n",
          "%1\r\n$11\r\nretry_after\r\n$1\r\n3\r\n", "a whole time is a string like any other time" },
        { "{\"reset_after\":0.25}", "*2\r\n$11\r\nreset_after\r\n$4\r\n0.25\r\n",
          "%1\r\n$11\r\nreset_after\r\n$4\r\n0.25\r\n", "a time" },
        { "{\"retry_after\":null}", "*2\r\n$11\r\nretry_after\r\n$-1\r\n", "%1\r\n$11\r\nretry_after\r\n_\r\n",
          "never" },
        { "[true,false]", "*2\r\n:1\r\n:0\r\n", "*2\r\n#t\r\n#f\r\n", "truth" },
        { "{\"a\":[{\"b\":1,\"c\":[]},{}],\"d\":\"x\\u0041\"}",
          "*4\r\n$1\r\na\r\n*2\r\n*4\r\n$1\r\nb\r\n:1\r\n$1\r\nc\r\n*0\r\n*0\r\n$1\r\nd\r\n$2\r\nxA\r\n",
          "%2\r\n$1\r\na\r\n*2\r\n%2\r\n$1\r\nb\r\n:1\r\n$1\r\nc\r\n*0\r\n%0\r\n$1\r\nd\r\n$2\r\nxA\r\n",
          "members are counted where they stand" },
        { "18446744073709551615", "$20\r\n18446744073709551615\r\n", "(18446744073709551615\r\n",
          "beyond what an integer of the protocol holds" },
        { "9223372036854775807", ":9223372036854775807\r\n", ":9223372036854775807\r\n", "its largest" },
        { "-5", ":-5\r\n", ":-5\r\n", "a sign" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int version = RESP2; version <= RESP3; version++) {
            char room[512], space[512];
            struct text out = text_of(room, sizeof room), scratch = text_of(space, sizeof space);
            const char *want = version == RESP2 ? rows[i].resp2 : rows[i].resp3;
            if (!resp_put_json(&out, (enum resp_version)version, slice_of(rows[i].json), &scratch)
                || !slice_equals(text_slice(&out), slice_of(want)))
                fail_msg("%s: %s gives %.*s", rows[i].why, rows[i].json, (int)out.len, out.at);
        }
}

static void what_is_no_json_is_told(void **state)
{
    char room[64], space[64];
    struct text out = text_of(room, sizeof room), scratch = text_of(space, sizeof space);
    struct text small = text_of(room, 4);
    (void)state;
    assert_false(resp_put_json(&out, RESP2, SLICE("{\"a\":"), &scratch));
    assert_false(resp_put_json(&small, RESP2, SLICE("[1,2,3]"), &scratch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_bodies),     cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(every_byte_escaped_fits), cmocka_unit_test(json_is_replies),
        cmocka_unit_test(what_is_no_json_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
