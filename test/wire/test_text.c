// SPDX-License-Identifier: Apache-2.0
/* test_text.c - the bounded writer: numbers, seconds, JSON strings, dates, and the end of the room. */
#include "support/unit.h"

#include <inttypes.h>
#include <time.h>

#include "support/random.h"
#include "wire/text.h"

static char storage[4096];

static void expect_text(const struct text *text, const char *expected, const char *why)
{
    if (text->len != strlen(expected) || memcmp(text->at, expected, text->len) != 0)
        fail_msg("%s: got `%.*s`, want `%s`", why, (int)text->len, text->at, expected);
}

static void integers_are_written_in_full(void **state)
{
    static const struct {
        const char *why;
        uint64_t value;
        const char *expected;
    } rows[] = {
        { "zero has a digit", 0, "0" },
        { "one digit", 9, "9" },
        { "two digits, the table's first pair", 10, "10" },
        { "the table's last pair", 99, "99" },
        { "an odd number of digits", 100, "100" },
        { "a zero inside", 90071, "90071" },
        { "the largest cost", 9223372036854775807u, "9223372036854775807" },
        { "the largest word", UINT64_MAX, "18446744073709551615" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct text text = text_of(storage, sizeof storage);
        text_u64(&text, rows[i].value);
        expect_text(&text, rows[i].expected, rows[i].why);
    }
}

static void seconds_are_exact(void **state)
{
    static const struct {
        const char *why;
        uint64_t ns;
        const char *expected;
    } rows[] = {
        { "no wait", 0, "0" },
        { "one nanosecond keeps nine decimals", 1, "0.000000001" },
        { "trailing zeros go", 200000000, "0.2" },
        { "whole seconds have no point", 4000000000, "4" },
        { "no double is this exact", 86400000000001, "86400.000000001" },
        { "zeros in front of the fraction stay", 1000100, "0.0010001" },
        { "the longest length", UINT64_MAX, "18446744073.709551615" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct text text = text_of(storage, sizeof storage);
        text_seconds(&text, rows[i].ns);
        expect_text(&text, rows[i].expected, rows[i].why);
    }
}

/* Against printf, over lengths of every size. */
static void numbers_agree_with_printf(void **state)
{
    struct random random = { random_seed(20260101) };
    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint64_t value = random_u64(&random) >> random_below(&random, 64);
        char expected[64];
        struct text text = text_of(storage, sizeof storage);
        snprintf(expected, sizeof expected, "%" PRIu64, value);
        text_u64(&text, value);
        expect_text(&text, expected, "integer");

        text = text_of(storage, sizeof storage);
        int len = snprintf(expected, sizeof expected, "%" PRIu64 ".%09" PRIu64, value / 1000000000,
                           value % 1000000000);
        while (expected[len - 1] == '0')
            expected[--len] = '\0';
        if (expected[len - 1] == '.')
            expected[--len] = '\0';
        text_seconds(&text, value);
        expect_text(&text, expected, "seconds");
    }
}

static void json_strings_are_always_valid(void **state)
{
    static const struct {
        const char *why;
        struct slice bytes;
        const char *expected;
    } rows[] = {
        { "empty", { "", 0 }, "\"\"" },
        { "plain text is left alone", { "a b/c", 5 }, "\"a b/c\"" },
        { "quote and backslash", { "a\"b\\", 4 }, "\"a\\\"b\\\\\"" },
        { "the usual control bytes have letters", { "\n\t\r", 3 }, "\"\\n\\t\\r\"" },
        { "the others have numbers", { "\x01\x1f\x7f", 3 }, "\"\\u0001\\u001f\\u007f\"" },
        { "a zero byte is an ordinary byte", { "a\0b", 3 }, "\"a\\u0000b\"" },
        { "UTF-8 passes",
          { "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9 },
          "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"" },
        { "a byte that is no UTF-8",
          { "a\xff"
            "b",
            3 },
          "\"a\xef\xbf\xbd"
          "b\"" },
        { "a character cut at the end", { "\xe2\x82", 2 }, "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "an overlong slash", { "\xc0\xaf", 2 }, "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "half of a surrogate pair", { "\xed\xa0\x80", 3 }, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct text text = text_of(storage, sizeof storage);
        text_json(&text, rows[i].bytes);
        expect_text(&text, rows[i].expected, rows[i].why);
    }
}

/* Every code point, encoded by the book here, is one character; the numbers that are none are refused. */
static void utf8_takes_each_code_point_once(void **state)
{
    (void)state;
    for (uint32_t point = 0; point < 0x120000; point++) {
        char bytes[4];
        size_t len = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
        for (size_t i = len; i-- > 0;)
            bytes[i] = (char)(i == 0 ? (len == 1 ? point : lead[len] | point >> 6 * (len - 1))
                                     : 0x80 | (point >> 6 * (len - 1 - i) & 0x3f));
        bool is_character = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
        assert_int_equal(utf8_length(bytes, len), is_character ? len : 0);
        assert_int_equal(utf8_length(bytes, len - 1), 0);
    }
}

/* Letters of one to four bytes and now and then a stray byte, in memory that ends with them, against a walk from letter to letter. */
static void validity_is_that_of_each_letter(void **state)
{
    static const char *const letters[] = { "a", "\x7f", "\xc2\x80", "\xe2\x82\xac", "\xf0\x9f\x8c\x8a" };
    static const char strays[] = "\x80\xc0\xc3\xed\xf4\xff";
    struct random random = { random_seed(20261202) };
    size_t valid = 0;
    (void)state;
    for (int run = 0; run < 200000; run++) {
        char text[64];
        size_t len = 0, count = random_below(&random, 14);
        for (size_t i = 0; i < count; i++) {
            if (random_below(&random, 40) == 0) {
                text[len++] = strays[random_below(&random, sizeof strays - 1)];
                continue;
            }
            const char *letter =
                letters[random_below(&random, 3) == 0 ? random_below(&random, COUNT_OF(letters)) : 0];
            memcpy(text + len, letter, strlen(letter));
            len += strlen(letter);
        }
        size_t at = 0, step = 1;
        while (at < len && step > 0) {
            step = utf8_length(text + at, len - at);
            at += step;
        }
        char *exact = memcpy(test_malloc(len + 1), text, len);
        assert_int_equal(utf8_is_valid((struct slice){ exact, len }), at == len);
        valid += at == len;
        test_free(exact);
    }
    assert_in_range(valid, 50000, 190000);
}

static void http_dates_agree_with_the_c_library(void **state)
{
    struct random random = { random_seed(20260102) };
    struct text text = text_of(storage, sizeof storage);
    (void)state;
    text_http_date(&text, 784111777);
    expect_text(&text, "Sun, 06 Nov 1994 08:49:37 GMT", "RFC 9110's own example");
    for (int i = 0; i < 200000; i++) {
        time_t when = (time_t)random_below(&random, UINT64_C(253402300800)); /* up to the year 9999 */
        struct tm parts;
        char expected[64];
        if (i < 400) /* ends of months and leap years */
            when = (time_t)i * 31556952 / 12 * 12 + (i % 3 - 1);
        when = when < 0 ? 0 : when;
        gmtime_r(&when, &parts);
        strftime(expected, sizeof expected, "%a, %d %b %Y %H:%M:%S GMT", &parts);
        text = text_of(storage, sizeof storage);
        text_http_date(&text, (uint64_t)when);
        expect_text(&text, expected, "date");
    }
}

/* For every size of the buffer: what fits is written, the flag tells the rest, and nothing behind the end changes. */
static void a_full_buffer_is_flagged_and_never_overrun(void **state)
{
    char whole[256], part[257];
    struct text all = text_of(whole, sizeof whole);
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        size_t last = pass == 0 ? 0 : all.len;
        for (size_t cap = 0; cap <= last; cap++) {
            struct text text = pass == 0 ? all : text_of(part, cap);
            memset(part, '#', sizeof part);
            text_literal(&text, "HTTP/1.1 200 OK\r\n");
            text_u64(&text, 1234567890123);
            text_seconds(&text, 1500000000);
            text_json(&text, SLICE("a\"\x01\xff"));
            text_http_date(&text, 0);
            if (pass == 0) {
                all = text;
                continue;
            }
            assert_true(text.len <= cap);
            assert_int_equal(text.is_cut, cap < all.len);
            assert_memory_equal(part, whole, text.len);
            for (size_t i = cap; i < sizeof part; i++)
                assert_int_equal(part[i], '#');
        }
    }
    assert_false(all.is_cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_written_in_full),
        cmocka_unit_test(seconds_are_exact),
        cmocka_unit_test(numbers_agree_with_printf),
        cmocka_unit_test(json_strings_are_always_valid),
        cmocka_unit_test(utf8_takes_each_code_point_once),
        cmocka_unit_test(validity_is_that_of_each_letter),
        cmocka_unit_test(http_dates_agree_with_the_c_library),
        cmocka_unit_test(a_full_buffer_is_flagged_and_never_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
