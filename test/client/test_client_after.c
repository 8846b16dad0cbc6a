// SPDX-License-Identifier: Apache-2.0
/*
 * test_client_after.c - values of Retry-After: seconds, the three forms of a date, and everything else that servers send.
 *
 * The dates' Unix times are those that date(1) and the C library's timegm() give.
 */
#include <time.h>

#include "support/random.h"
#include "support/unit.h"
#include "weir_retry.h"

#define S WEIR_SECOND
#define NONE WEIR_NO_TIME

/* 1994-11-06T08:49:30Z, 7 s before the date that RFC 9110 uses in its examples. */
#define NOW (UINT64_C(784111770) * S)

static const struct row {
    const char *why, *value;
    uint64_t now;
    weir_ns after;
} rows[] = {
    { "absent", NULL, NOW, NONE },
    { "seconds", "120", NOW, 120 * S },
    { "now", "0", NOW, 0 },
    { "leading zeros are digits", "0007", NOW, 7 * S },
    { "blanks around it", " \t4 ", NOW, 4 * S },
    { "seconds need no clock", "4", 0, 4 * S },
    { "more than fits: just below never", "99999999999999999999999999", NOW, NONE - 1 },
    { "as many as fit", "18446744073", NOW, UINT64_C(18446744073) * S },
    { "and one more", "18446744074", NOW, NONE - 1 },
    { "empty", "", NOW, NONE },
    { "blanks alone", "  ", NOW, NONE },
    { "a sign", "-1", NOW, NONE },
    { "another sign", "+1", NOW, NONE },
    { "a fraction", "1.5", NOW, NONE },
    { "a unit", "5s", NOW, NONE },
    { "hexadecimal", "0x10", NOW, NONE },
    { "two values in one line", "5, 6", NOW, NONE },
    { "a blank inside", "1 2", NOW, NONE },
    { "a word", "soon", NOW, NONE },
    { "IMF-fixdate", "Sun, 06 Nov 1994 08:49:37 GMT", NOW, 7 * S },
    { "to the nanosecond", "Sun, 06 Nov 1994 08:49:37 GMT", NOW + 1, 7 * S - 1 },
    { "RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT", NOW, 7 * S },
    { "asctime", "Sun Nov  6 08:49:37 1994", NOW, 7 * S },
    { "asctime, a day of two digits", "Wed Nov 16 08:49:37 1994", NOW, 864007 * S },
    { "a date that is over", "Sun, 06 Nov 1994 08:49:29 GMT", NOW, 0 },
    { "a date before 1970", "Wed, 31 Dec 1969 23:59:59 GMT", NOW, 0 },
    { "without a clock a date says nothing", "Sun, 06 Nov 1994 08:49:37 GMT", 0, NONE },
    { "a leap day", "Thu, 29 Feb 2024 00:00:00 GMT", UINT64_C(1709164799) * S, S },
    { "a day that there was not", "Wed, 29 Feb 2023 00:00:00 GMT", NOW, NONE },
    { "1900 was no leap year", "Thu, 29 Feb 1900 00:00:00 GMT", NOW, NONE },
    { "2000 was one", "Tue, 29 Feb 2000 00:00:00 GMT", UINT64_C(951782399) * S, S },
    { "the first of March behind one", "Wed, 01 Mar 2000 00:00:00 GMT", UINT64_C(951782399) * S, 86401 * S },
    { "a leap second is the one after", "Sat, 31 Dec 2016 23:59:60 GMT", UINT64_C(1483228799) * S, S },
    { "far away saturates", "Fri, 31 Dec 9999 23:59:59 GMT", NOW, NONE - 1 - NOW },
    { "two digits: the century is near", "Thursday, 01-Jan-04 00:00:00 GMT", NOW, UINT64_C(288803430) * S },
    { "two digits: not more than 50 years ahead", "Monday, 01-Jan-45 00:00:00 GMT", NOW, 0 },
    { "two digits: 50 years ahead are ahead", "Thursday, 01-Jan-54 00:00:00 GMT", UINT64_C(1086048000) * S,
      UINT64_C(1564790400) * S },
    { "two digits: 51 are 49 behind", "Friday, 01-Jan-55 00:00:00 GMT", UINT64_C(1086048000) * S, 0 },
    { "two digits, a century later", "Saturday, 01-Jan-00 00:00:00 GMT", UINT64_C(3976214400) * S,
      UINT64_C(126230400) * S },
    { "another zone", "Sun, 06 Nov 1994 08:49:37 CET", NOW, NONE },
    { "an offset", "Sun, 06 Nov 1994 08:49:37 +0000", NOW, NONE },
    { "no zone", "Sun, 06 Nov 1994 08:49:37", NOW, NONE },
    { "more behind it", "Sun, 06 Nov 1994 08:49:37 GMT;", NOW, NONE },
    { "no such day", "Xyz, 06 Nov 1994 08:49:37 GMT", NOW, NONE },
    { "no such long day", "Sunnday, 06-Nov-94 08:49:37 GMT", NOW, NONE },
    { "no such month", "Sun, 06 Nob 1994 08:49:37 GMT", NOW, NONE },
    { "a month cut off", "Sun, 06 No", NOW, NONE },
    { "day 0", "Sun, 00 Nov 1994 08:49:37 GMT", NOW, NONE },
    { "day 31 of 30", "Sun, 31 Nov 1994 08:49:37 GMT", NOW, NONE },
    { "hour 24", "Sun, 06 Nov 1994 24:00:00 GMT", NOW, NONE },
    { "minute 60", "Sun, 06 Nov 1994 08:60:00 GMT", NOW, NONE },
    { "second 61", "Sun, 06 Nov 1994 08:49:61 GMT", NOW, NONE },
    { "one digit for the day", "Sun, 6 Nov 1994 08:49:37 GMT", NOW, NONE },
    { "a letter for a digit", "Sun, 06 Nov 1994 08:49:3o GMT", NOW, NONE },
    { "ISO 8601", "1994-11-06T08:49:37Z", NOW, NONE },
};

static void test_values(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        size_t len = row->value == NULL ? 0 : strlen(row->value);
        weir_ns after = weir_retry_after(row->value, len, row->now);
        if (after != row->after)
            fail_msg("%s: '%s' gave %llu, not %llu", row->why, row->value == NULL ? "" : row->value,
                     (unsigned long long)after, (unsigned long long)row->after);
    }
}

static void test_bytes_behind_the_length_are_not_read(void **unused)
{
    (void)unused;
    assert_int_equal(weir_retry_after("1234", 2, 0), 12 * S);
    assert_int_equal(weir_retry_after("12\0004", 4, 0), NONE);
    assert_int_equal(weir_retry_after("Sun, 06 Nov 1994 08:49:3\0 GMT", 29, NOW), NONE);
    /* Each prefix in memory of its own, so that the address sanitizer sees one byte too many. */
    static const char *const values[] = { "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
                                          "Sun Nov  6 08:49:37 1994", "123456" };
    for (size_t i = 0; i < COUNT_OF(values); i++)
        for (size_t len = 0; len < strlen(values[i]); len++) {
            char *copy = malloc(len + 1);
            assert_non_null(copy);
            char *value = memcpy(copy + 1, values[i], len);
            bool is_number = i == 3 && len > 0;
            assert_true((weir_retry_after(value, len, NOW) == NONE) != is_number);
            free(copy);
        }
}

static void test_dates_agree_with_the_c_library(void **unused)
{
    (void)unused;
    static const char *const forms[] = { "%a, %d %b %Y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y",
                                         "%A, %d-%b-%y %H:%M:%S GMT" };
    struct random random = { random_seed(41) };
    for (int i = 0; i < 100000; i++) {
        /* 1971 to 2199, and for two digits of the year within 49 years. */
        time_t now = (time_t)(86400 * 365 + random_below(&random, UINT64_C(7226582400)));
        time_t then = now + (time_t)random_below(&random, UINT64_C(1546300800));
        size_t form = (size_t)random_below(&random, COUNT_OF(forms));
        char text[64];
        struct tm parts;
        assert_non_null(gmtime_r(&then, &parts));
        size_t len = strftime(text, sizeof text, forms[form], &parts);
        weir_ns after = weir_retry_after(text, len, (uint64_t)now * S);
        if (after != (uint64_t)(then - now) * S)
            fail_msg("'%s' at %lld gave %llu", text, (long long)now, (unsigned long long)after);
    }
}

static void test_garbage_is_none_and_harmless(void **unused)
{
    (void)unused;
    static const char letters[] = "0123456789SunMoTueWdhFriatJbApyNvGMT ,-:\t\377";
    struct random random = { random_seed(42) };
    for (int i = 0; i < 300000; i++) {
        char text[40];
        size_t len = (size_t)random_below(&random, sizeof text);
        bool is_number = true;
        size_t digits = 0;
        for (size_t at = 0; at < len; at++) {
            text[at] = letters[random_below(&random, sizeof letters - 1)];
            bool is_digit = text[at] >= '0' && text[at] <= '9';
            digits += is_digit;
            is_number = is_number && (is_digit || text[at] == ' ' || text[at] == '\t');
        }
        weir_ns after = weir_retry_after(text, len, NOW);
        if (!is_number || digits == 0)
            assert_true(after == NONE); /* no date comes about by chance */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_bytes_behind_the_length_are_not_read),
        cmocka_unit_test(test_dates_agree_with_the_c_library),
        cmocka_unit_test(test_garbage_is_none_and_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
