// SPDX-License-Identifier: Apache-2.0
/* test_prefer.c - which `Prefer` fields say how long a client would wait (RFC 7240), and which say nothing. */
#include "wire/prefer.h"

#include "support/unit.h"

#define LINES_MAX 3

static struct weir_field line(const char *name, const char *value)
{
    return (struct weir_field){ name, value, strlen(name), strlen(value) };
}

static void a_wait_is_found_or_nothing_is(void **state)
{
    static const struct {
        const char *why;
        uint64_t seconds;
        const char *lines[LINES_MAX];
    } rows[] = {
        { "plain", 10, { "wait=10" } },
        { "in any case", 10, { "WaIt=10" } },
        { "none", 0, { "respond-async" } },
        { "an empty line", 0, { "" } },
        { "no seconds", 0, { "wait" } },
        { "an empty value is none", 0, { "wait=\"\"" } },
        { "zero is not waiting", 0, { "wait=0" } },
        { "zeros in front", 7, { "wait=007" } },
        { "among others", 5, { "respond-async, wait=5, return=minimal" } },
        { "blanks where they may be", 5, { " respond-async ,\twait = 5\t; strict" } },
        { "a quoted word is the same word", 5, { "wait=\"5\"" } },
        { "its parameters are not ours", 5, { "wait=5; grace=9; wait=7" } },
        { "empty parameters", 5, { "wait=5;;; ;a" } },
        { "a parameter of another is no wait", 0, { "respond-async; wait=5" } },
        { "a comma in quotes does not divide", 3, { "foo=\"a, wait=9\", wait=3" } },
        { "a quote in quotes does not end them", 3, { "foo=\"a\\\", wait=9\", wait=3" } },
        { "empty elements", 4, { ", ,wait=4,," } },
        { "the first of two", 4, { "wait=4, wait=9" } },
        { "the first, although it is no number", 0, { "wait=soon, wait=9" } },
        { "a name that only begins so", 0, { "waiting=5, wait-for=5" } },
        { "several lines", 6, { "respond-async", "wait=6" } },
        { "the first of two lines", 6, { "wait=6", "wait=7" } },
        { "a negative number", 0, { "wait=-5" } },
        { "half a second", 0, { "wait=0.5" } },
        { "an exponent", 0, { "wait=1e3" } },
        { "a unit", 0, { "wait=5s" } },
        { "hexadecimal", 0, { "wait=0x5" } },
        { "a year", 31536000, { "wait=31536000" } },
        { "more than a year is a year", 31536000, { "wait=31536001" } },
        { "more than any number", 31536000, { "wait=99999999999999999999999999999999" } },
        { "a quote that does not end", 0, { "wait=5, foo=\"bar" } },
        { "an escape at the end", 0, { "wait=5, foo=\"bar\\" } },
        { "no word behind the sign", 0, { "wait=" } },
        { "no name", 0, { "=5, wait=5" } },
        { "no comma between", 0, { "wait=5 respond-async" } },
        { "a letter that is none", 0, { "wait=5, caf\xc3\xa9" } },
        { "a zero byte is no letter of a token", 0, { "wait=5, (x)" } },
        { "a broken line does not break the next", 8, { "wait=5, ;", "wait=8" } },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_field fields[LINES_MAX + 2] = { line("Host", "wait=99") };
        size_t count = 1;
        for (size_t j = 0; j < LINES_MAX && rows[i].lines[j] != NULL; j++)
            fields[count++] = line(j % 2 == 0 ? "Prefer" : "pREFER", rows[i].lines[j]);
        fields[count++] = line("Prefer-Applied", "wait=99");
        expect_row(prefer_wait(fields, count) == rows[i].seconds, rows[i].why);
    }
}

/* Every prefix of a field is read within its bounds: each lies in memory of its own size, for the sanitizers. */
static void nothing_behind_the_end_is_read(void **state)
{
    static const char text[] = "a=\"b\\\"c\";d=e , wait = \"12\" ; f";
    (void)state;
    for (size_t len = 0; len < sizeof text; len++) {
        char *copy = malloc(len == 0 ? 1 : len);
        assert_non_null(copy);
        memcpy(copy, text, len);
        const struct weir_field field = { "Prefer", copy, 6, len };
        uint64_t seconds = prefer_wait(&field, 1);
        assert_true(seconds == 0 || seconds == 12);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_found_or_nothing_is),
        cmocka_unit_test(nothing_behind_the_end_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
