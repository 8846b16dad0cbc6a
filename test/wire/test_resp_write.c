// SPDX-License-Identifier: Apache-2.0
/*
 * test_resp_write.c - the exact bytes of each value in both versions, whole replies as a Redis sends them, and what does
 * not fit.
 */
#include "support/resp_told.h"
#include "support/unit.h"

static char room[4096];

static void expect_bytes(struct text *text, struct slice want, const char *why)
{
    if (text->is_cut || !slice_equals(text_slice(text), want))
        fail_msg("%s: %.*s, want %.*s", why, (int)text->len, text->at, (int)want.len, want.at);
    *text = text_of(room, sizeof room);
}

#define EXPECT(want) expect_bytes(&text, SLICE(want), #want)

static void values_of_both_versions(void **state)
{
    struct text text = text_of(room, sizeof room);
    (void)state;
    resp_put_array(&text, 0);
    EXPECT("*0\r\n");
    resp_put_array(&text, UINT32_MAX);
    EXPECT("*4294967295\r\n");
    resp_put_bulk(&text, SLICE("PING"));
    EXPECT("$4\r\nPING\r\n");
    resp_put_bulk(&text, (struct slice){ NULL, 0 });
    EXPECT("$0\r\n\r\n");
    resp_put_bulk(&text, SLICE("a\0\r\nb"));
    EXPECT("$5\r\na\0\r\nb\r\n");
    resp_put_bulk_i64(&text, INT64_MIN);
    EXPECT("$20\r\n-9223372036854775808\r\n");
    resp_put_bulk_i64(&text, 10);
    EXPECT("$2\r\n10\r\n");
    resp_put_integer(&text, INT64_MIN);
    EXPECT(":-9223372036854775808\r\n");
    resp_put_integer(&text, INT64_MAX);
    EXPECT(":9223372036854775807\r\n");
    resp_put_integer(&text, 0);
    EXPECT(":0\r\n");
    resp_put_simple(&text, SLICE("OK"));
    EXPECT("+OK\r\n");
    resp_put_simple(&text, (struct slice){ NULL, 0 });
    EXPECT("+\r\n");
    resp_put_error(&text, SLICE("ERR unknown command 'x\r\n+OK\r\n'"));
    EXPECT("-ERR unknown command 'x  +OK  '\r\n");
}

static void what_resp2_has_no_type_for(void **state)
{
    struct text text = text_of(room, sizeof room);
    (void)state;
    resp_put_map(&text, RESP2, 3);
    EXPECT("*6\r\n");
    resp_put_map(&text, RESP2, UINT32_MAX);
    EXPECT("*8589934590\r\n"); /* nobody's, but not a wrong one */
    resp_put_map(&text, RESP3, 3);
    EXPECT("%3\r\n");
    resp_put_set(&text, RESP2, 3);
    EXPECT("*3\r\n");
    resp_put_set(&text, RESP3, 3);
    EXPECT("~3\r\n");
    resp_put_push(&text, RESP2, 2);
    EXPECT("*2\r\n");
    resp_put_push(&text, RESP3, 2);
    EXPECT(">2\r\n");
    resp_put_null(&text, RESP2);
    EXPECT("$-1\r\n");
    resp_put_null(&text, RESP3);
    EXPECT("_\r\n");
    resp_put_null_array(&text, RESP2);
    EXPECT("*-1\r\n");
    resp_put_null_array(&text, RESP3);
    EXPECT("_\r\n");
    resp_put_boolean(&text, RESP2, true);
    EXPECT(":1\r\n");
    resp_put_boolean(&text, RESP2, false);
    EXPECT(":0\r\n");
    resp_put_boolean(&text, RESP3, true);
    EXPECT("#t\r\n");
    resp_put_boolean(&text, RESP3, false);
    EXPECT("#f\r\n");
    resp_put_double(&text, RESP2, SLICE("0.25"));
    EXPECT("$4\r\n0.25\r\n");
    resp_put_double(&text, RESP3, SLICE("0.25"));
    EXPECT(",0.25\r\n");
    resp_put_big_number(&text, RESP2, SLICE("-1"));
    EXPECT("$2\r\n-1\r\n");
    resp_put_big_number(&text, RESP3, SLICE("-1"));
    EXPECT("(-1\r\n");
    resp_put_verbatim(&text, RESP2, "txt", SLICE("Some string"));
    EXPECT("$11\r\nSome string\r\n");
    resp_put_verbatim(&text, RESP3, "txt", SLICE("Some string"));
    EXPECT("=15\r\ntxt:Some string\r\n");
}

/* ---- Whole replies ------------------------------------------------------------------------------------------- */

static void put_hello(struct text *text, enum resp_version version)
{
    resp_put_map(text, version, 7);
    resp_put_bulk(text, SLICE("server"));
    resp_put_bulk(text, SLICE("redis"));
    resp_put_bulk(text, SLICE("version"));
    resp_put_bulk(text, SLICE("7.0.15"));
    resp_put_bulk(text, SLICE("proto"));
    resp_put_integer(text, version);
    resp_put_bulk(text, SLICE("id"));
    resp_put_integer(text, 45);
    resp_put_bulk(text, SLICE("mode"));
    resp_put_bulk(text, SLICE("standalone"));
    resp_put_bulk(text, SLICE("role"));
    resp_put_bulk(text, SLICE("master"));
    resp_put_bulk(text, SLICE("modules"));
    resp_put_array(text, 0);
}

static void hello_as_redis_answers_it(void **state)
{
    struct text text = text_of(room, sizeof room);
    (void)state;
#define PAIRS(proto) \
    "$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:" proto \
    "\r\n$2\r\nid\r\n:45\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$" \
    "7\r\nmodules\r\n*0\r\n"
    put_hello(&text, RESP2);
    EXPECT("*14\r\n" PAIRS("2"));
    put_hello(&text, RESP3);
    EXPECT("%7\r\n" PAIRS("3"));
#undef PAIRS
}

/* A check's answer in short: a map in an array in a map. */
static void put_answer(struct text *text, enum resp_version version)
{
    resp_put_map(text, version, 3);
    resp_put_bulk(text, SLICE("outcome"));
    resp_put_bulk(text, SLICE("deny"));
    resp_put_bulk(text, SLICE("retry_after"));
    resp_put_null(text, version);
    resp_put_bulk(text, SLICE("limits"));
    resp_put_array(text, 2);
    resp_put_map(text, version, 1);
    resp_put_bulk(text, SLICE("remaining"));
    resp_put_integer(text, 0);
    resp_put_map(text, version, 0);
}

static void nested_maps(void **state)
{
    struct text text = text_of(room, sizeof room);
    (void)state;
    put_answer(&text, RESP2);
    EXPECT("*6\r\n$7\r\noutcome\r\n$4\r\ndeny\r\n$11\r\nretry_after\r\n$-1\r\n$6\r\nlimits\r\n*2\r\n*2\r\n$"
           "9\r\nremaining\r\n"
           ":0\r\n*0\r\n");
    put_answer(&text, RESP3);
    EXPECT("%3\r\n$7\r\noutcome\r\n$4\r\ndeny\r\n$11\r\nretry_after\r\n_\r\n$6\r\nlimits\r\n*2\r\n%1\r\n$"
           "9\r\nremaining\r\n"
           ":0\r\n%0\r\n");
}

static void protocol_errors(void **state)
{
    static struct resp_command bad;
    struct text text = text_of(room, sizeof room);
    (void)state;
    bad.sentence = "invalid bulk length";
    resp_put_protocol_error(&text, &bad);
    EXPECT("-ERR Protocol error: invalid bulk length\r\n");
    bad.sentence = "expected '$', got";
    bad.got = ':';
    resp_put_protocol_error(&text, &bad);
    EXPECT("-ERR Protocol error: expected '$', got ':'\r\n");
}

/* ---- What does not fit ---------------------------------------------------------------------------------------- */

/* In every room that is too small the text is cut and nothing behind the room is touched. */
static void what_does_not_fit_is_cut(void **state)
{
    struct random random = { random_seed(20260613) };
    (void)state;
    for (int round = 0; round < 200; round++) {
        static char whole_room[65536], told_room[262144];
        struct random again = random;
        struct text whole = text_of(whole_room, sizeof whole_room), told = text_of(told_room, sizeof told_room);
        resp_random(&random, round % 2 == 0 ? RESP2 : RESP3, true, &whole, &told);
        for (size_t i = 0; i <= 51; i++) {
            size_t cap = i == 51 ? whole.len - 1 : whole.len * i / 50;
            char *small = malloc(cap + (cap == 0)); /* ends where the room does */
            assert_non_null(small);
            struct random same = again;
            struct text text = text_of(small, cap);
            told = text_of(told_room, sizeof told_room);
            resp_random(&same, round % 2 == 0 ? RESP2 : RESP3, true, &text, &told);
            assert_int_equal(text.is_cut, cap < whole.len);
            assert_true(text.len <= cap && memcmp(small, whole_room, text.len) == 0);
            free(small);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_both_versions),   cmocka_unit_test(what_resp2_has_no_type_for),
        cmocka_unit_test(hello_as_redis_answers_it), cmocka_unit_test(nested_maps),
        cmocka_unit_test(protocol_errors),           cmocka_unit_test(what_does_not_fit_is_cut),
    };
    return cmocka_run_group_tests_name("resp_write", tests, NULL, NULL);
}
