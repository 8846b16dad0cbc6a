// SPDX-License-Identifier: Apache-2.0
/* test_log_quote.c - a value in a log line can neither end the line nor look like another field. */
#include "support/unit.h"

#include "net/log.h"

static const struct row {
    const char *why, *value, *shown;
} rows[] = {
    { "plain words stay", "127.0.0.1:8080", "127.0.0.1:8080" },
    { "nothing is shown as nothing", "", "\"\"" },
    { "blanks", "a b", "\"a b\"" },
    { "an equals sign would start a field", "a=b", "\"a=b\"" },
    { "quotes and backslashes are escaped", "a\"\\", "\"a\\\"\\\\\"" },
    { "a line end would forge a line", "a\nts=0", "\"a?ts=0\"" },
    { "control bytes", "\x1b[2J\x7f", "\"?[2J?\"" },
    { "other bytes are left alone", "\xc3\xa4", "\xc3\xa4" },
};

static void values_stay_in_their_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char shown[LOG_QUOTED_MAX];
        assert_string_equal(log_quote(rows[i].value, shown), rows[i].shown);
    }
}

static void long_values_are_cut(void **state)
{
    (void)state;
    char value[4 * LOG_VALUE_MAX + 1];
    char shown[LOG_QUOTED_MAX];
    memset(value, '"', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    assert_int_equal(strlen(log_quote(value, shown)), 2 * LOG_VALUE_MAX + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stay_in_their_field),
        cmocka_unit_test(long_values_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
