// SPDX-License-Identifier: Apache-2.0
/* test_log_quote.c - a value in a log line can neither end the line nor look like another field, and is a JSON string. */
#include "support/unit.h"

#include <jansson.h>

#include "net/log.h"
#include "support/random.h"

#define MAX LOG_VALUE_MAX

static const struct row {
    const char *why, *value, *shown;
} rows[] = {
    { "plain words stay", "127.0.0.1:8080", "127.0.0.1:8080" },
    { "nothing is shown as nothing", "", "\"\"" },
    { "blanks", "a b", "\"a b\"" },
    { "an equals sign would start a field", "a=b", "\"a=b\"" },
    { "quotes and backslashes are escaped", "a\"\\", "\"a\\\"\\\\\"" },
    { "a line end would forge a line", "a\nts=0", "\"a\\nts=0\"" },
    { "so would a carriage return on a terminal", "a\rb\tc", "\"a\\rb\\tc\"" },
    { "control bytes, which steer terminals", "\x1b[2J\x01\x7f", "\"\\u001b[2J\\u0001\\u007f\"" },
    { "and the second set of them, which UTF-8 has",
      "\xc2\x9b"
      "2J",
      "\"\\u009b2J\"" },
    { "other characters stay", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
      "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"" },
    { "the last code point", "\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"" },
    { "beyond it", "\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
    { "a byte that begins nothing", "a\xff", "\"a\xef\xbf\xbd\"" },
    { "a character that is cut off", "a\xe2\x82", "\"a\xef\xbf\xbd\xef\xbf\xbd\"" },
    { "an overlong slash", "\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
    { "an overlong one of three bytes", "\xe0\x80\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
    { "half of a surrogate pair", "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
};

static void values_stay_in_their_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char shown[LOG_QUOTED_MAX];
        if (strcmp(log_quote(rows[i].value, shown), rows[i].shown) != 0)
            fail_msg("%s: %s", rows[i].why, shown);
    }
}

static void long_values_are_cut_between_characters(void **state)
{
    static const char *const units[] = { "\"", "\x01", "\xc3\xa4", "\xff", "x y" };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        char value[4 * MAX + 8] = "", shown[LOG_QUOTED_MAX];
        while (strlen(value) < 4 * MAX)
            strcat(value, units[i]);
        size_t len = strlen(log_quote(value, shown));
        assert_in_range(len, MAX - 8, LOG_QUOTED_MAX - 1);
        assert_string_equal(shown + len - 4, "...\"");
        json_t *read = json_loads(shown, JSON_DECODE_ANY, NULL);
        assert_true(json_is_string(read));
        json_decref(read);
    }
}

/* jansson refuses bad UTF-8, bad escapes and raw control bytes, so what it reads is a string that any reader reads. */
static void any_bytes_are_one_json_string(void **state)
{
    (void)state;
    struct random random = { random_seed(20261201) };
    for (int run = 0; run < 20000; run++) {
        char value[MAX + 40], shown[LOG_QUOTED_MAX + 2], quoted[LOG_QUOTED_MAX];
        size_t len = random_below(&random, sizeof value);
        for (size_t i = 0; i < len; i++)
            value[i] = (char)(1 + random_below(&random, run % 2 == 0 ? 255 : 127));
        value[len] = '\0';
        log_quote(value, quoted);
        (void)snprintf(shown, sizeof shown, quoted[0] == '"' ? "%s" : "\"%s\"", quoted);
        json_t *read = json_loads(shown, JSON_DECODE_ANY, NULL);
        if (!json_is_string(read))
            fail_msg("run %d: %s", run, shown);
        for (const char *at = quoted; quoted[0] != '"' && *at != '\0'; at++)
            assert_true(*at > ' ' && *at != '=' && *at != '"');
        json_decref(read);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stay_in_their_field),
        cmocka_unit_test(long_values_are_cut_between_characters),
        cmocka_unit_test(any_bytes_are_one_json_string),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
