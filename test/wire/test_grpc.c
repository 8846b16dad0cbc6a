// SPDX-License-Identifier: Apache-2.0
/* test_grpc.c - deadlines, messages of a status, prefixes, and the messages of grpc.health.v1, by grpc's PROTOCOL-HTTP2.md. */
#include "support/unit.h"

#include "wire/grpc.h"
#include "wire/grpc_health.h"

#define HOUR (3600 * WEIR_SECOND)

static void deadlines_are_read(void **state)
{
    static const struct {
        const char *why, *value;
        bool is_good;
        weir_ns ns;
    } rows[] = {
        { "hours", "1H", true, HOUR },
        { "minutes", "2M", true, 120 * WEIR_SECOND },
        { "seconds", "3S", true, 3 * WEIR_SECOND },
        { "as Envoy says a quarter of a second", "250m", true, 250 * WEIR_MILLISECOND },
        { "microseconds", "20000u", true, 20 * WEIR_MILLISECOND },
        { "nanoseconds", "7n", true, 7 },
        { "none left", "0m", true, 0 },
        { "zeros in front", "00000007S", true, 7 * WEIR_SECOND },
        { "eight digits", "99999999S", true, 99999999 * WEIR_SECOND },
        { "hours that 64 bits of ns just hold", "5124095H", true, 5124095 * HOUR },
        { "one more", "5124096H", true, UINT64_MAX },
        { "the longest", "99999999H", true, UINT64_MAX },
        { "nine digits", "100000000n", false, 0 },
        { "nothing", "", false, 0 },
        { "no digit", "S", false, 0 },
        { "no unit", "5", false, 0 },
        { "a unit that is none", "5s", false, 0 },
        { "another", "5h", false, 0 },
        { "a sign", "-5S", false, 0 },
        { "a plus", "+5S", false, 0 },
        { "half of one", "0.5S", false, 0 },
        { "a blank", " 5S", false, 0 },
        { "one behind", "5S ", false, 0 },
        { "two units", "5mS", false, 0 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weir_ns ns = 12345;
        expect_row(grpc_timeout_parse(slice_of(rows[i].value), &ns) == rows[i].is_good, rows[i].why);
        expect_row(ns == (rows[i].is_good ? rows[i].ns : 12345), rows[i].why);
    }
}

static void messages_of_a_status_are_escaped(void **state)
{
    static const struct {
        struct slice from;
        const char *to;
    } rows[] = {
        { { "rate limit domain must not be empty", 35 }, "rate limit domain must not be empty" },
        { { "", 0 }, "" },
        { { "100%", 4 }, "100%25" },
        { { "a\nb\r", 4 }, "a%0Ab%0D" },
        { { "\x00\x1f ~\x7f", 5 }, "%00%1F ~%7F" },
        { { "caf\xc3\xa9", 5 }, "caf%C3%A9" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char room[128];
        struct text out = text_of(room, sizeof room);
        grpc_message_escape(rows[i].from, &out);
        expect_row(!out.is_cut && slice_equals(text_slice(&out), slice_of(rows[i].to)), rows[i].to);
    }
}

static void prefixes_are_five_bytes(void **state)
{
    unsigned char prefix[GRPC_PREFIX_LEN];
    (void)state;
    grpc_prefix_write(prefix, 0x01020304);
    assert_memory_equal(prefix, "\0\1\2\3\4", sizeof prefix);
    assert_int_equal(grpc_prefix_len("\0\0\0\0\x27"), 39);
    assert_int_equal(grpc_prefix_len("\1\xff\xff\xff\xff"), UINT32_MAX);
}

static void codes_have_their_numbers_and_names(void **state)
{
    (void)state;
    assert_int_equal(GRPC_INVALID_ARGUMENT, 3);
    assert_int_equal(GRPC_DEADLINE_EXCEEDED, 4);
    assert_int_equal(GRPC_RESOURCE_EXHAUSTED, 8);
    assert_int_equal(GRPC_UNIMPLEMENTED, 12);
    assert_int_equal(GRPC_UNAVAILABLE, 14);
    assert_int_equal(GRPC_UNAUTHENTICATED, 16);
    assert_string_equal(grpc_code_name(GRPC_UNAVAILABLE), "UNAVAILABLE");
    assert_string_equal(grpc_code_name(GRPC_UNAUTHENTICATED), "UNAUTHENTICATED");
    assert_null(grpc_code_name(GRPC_CODE_COUNT));
}

/* ---- Health ---------------------------------------------------------------------------------------------- */

static void health_is_asked(void **state)
{
    static const struct {
        const char *why;
        struct slice message;
        bool is_good;
        struct slice service;
    } rows[] = {
        { "everything", { "", 0 }, true, { "", 0 } },
        { "one service", { "\x0a\x02rl", 4 }, true, { "rl", 2 } },
        { "with what nobody knows", { "\x78\x01\x0a\x02rl", 6 }, true, { "rl", 2 } },
        { "the last of two", { "\x0a\x01x\x0a\x02rl", 7 }, true, { "rl", 2 } },
        { "cut", { "\x0a\x02r", 3 }, false, { NULL, 0 } },
        { "no text", { "\x0a\x02\xc3\x28", 4 }, false, { NULL, 0 } },
        { "a number", { "\x08\x01", 2 }, false, { NULL, 0 } },
    };
    struct slice service = { NULL, 0 };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        expect_row(grpc_health_read(rows[i].message, &service) == rows[i].is_good, rows[i].why);
        expect_row(!rows[i].is_good || slice_equals(service, rows[i].service), rows[i].why);
    }
}

static void health_is_told(void **state)
{
    static const struct {
        enum grpc_serving serving;
        struct slice bytes;
    } rows[] = {
        { GRPC_SERVING_UNKNOWN, { "", 0 } },
        { GRPC_SERVING, { "\x08\x01", 2 } },
        { GRPC_NOT_SERVING, { "\x08\x02", 2 } },
        { GRPC_SERVICE_UNKNOWN, { "\x08\x03", 2 } },
    };
    static const struct grpc_health services[] = { { { "", 0 }, GRPC_SERVING },
                                                   { { "rl", 2 }, GRPC_NOT_SERVING } };
    static const char list[] = "\x0a\x04\x12\x02\x08\x01\x0a\x08\x0a\x02rl\x12\x02\x08\x02";
    char room[64];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct text out = text_of(room, sizeof room);
        grpc_health_write(rows[i].serving, &out);
        assert_true(!out.is_cut && slice_equals(text_slice(&out), rows[i].bytes));
    }
    struct text out = text_of(room, sizeof list - 1);
    grpc_health_list_write(services, COUNT_OF(services), &out);
    assert_true(!out.is_cut && slice_equals(text_slice(&out), (struct slice){ list, sizeof list - 1 }));
    out = text_of(room, sizeof list - 2);
    grpc_health_list_write(services, COUNT_OF(services), &out);
    assert_true(out.is_cut && out.len == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines_are_read),      cmocka_unit_test(messages_of_a_status_are_escaped),
        cmocka_unit_test(prefixes_are_five_bytes), cmocka_unit_test(codes_have_their_numbers_and_names),
        cmocka_unit_test(health_is_asked),         cmocka_unit_test(health_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
