// SPDX-License-Identifier: Apache-2.0
/*
 * Runs of bytes that are read eight at a time, against the same read one by one: each byte at each place, lengths around
 * a word. The runs lie in memory of their own length, so that a sanitizer sees a byte too many.
 */
#include "support/unit.h"

#include <ctype.h>

#include "base/bytes.h"

#define LEN_MAX 20

static void a_short_run_is_a_word_with_zeros_behind(void **state)
{
    (void)state;
    for (size_t len = 0; len < 8; len++) {
        unsigned char padded[8] = { 0 }, *exact = test_malloc(len + 1);
        for (size_t i = 0; i < len; i++)
            exact[i] = padded[i] = (unsigned char)(0xf1 + 0x25 * i);
        assert_int_equal(load_le_short(exact, len), load_le64(padded));
        test_free(exact);
    }
}

/* In the C locale tolower() changes A to Z only. */
static void case_is_folded_of_letters_only(void **state)
{
    (void)state;
    for (size_t len = 1; len <= LEN_MAX; len++) {
        char *x = memset(test_malloc(len), 'x', len), *y = memset(test_malloc(len), 'X', len);
        for (size_t at = 0; at < len; at++) {
            for (unsigned pair = 0; pair < 65536; pair++) {
                x[at] = (char)(pair >> 8);
                y[at] = (char)pair;
                bool same = tolower((int)(pair >> 8)) == tolower((int)(pair & 255));
                if (bytes_equal_fold(x, y, len) != same)
                    fail_msg("0x%02x and 0x%02x at %zu of %zu", pair >> 8, pair & 255, at, len);
            }
            x[at] = 'x';
            y[at] = 'X';
        }
        test_free(x);
        test_free(y);
    }
}

static void the_first_control_byte_is_found(void **state)
{
    (void)state;
    for (size_t len = 0; len <= LEN_MAX; len++)
        for (size_t at = 0; at <= len; at++)
            for (unsigned byte = 0; byte < 256; byte++) {
                char *text = memset(test_malloc(len + 1), '~', len);
                if (at < len)
                    text[at] = (char)byte;
                if (at + 2 < len)
                    text[at + 2] = '\t';
                size_t expected = 0;
                while (expected < len && !iscntrl((unsigned char)text[expected]))
                    expected++;
                assert_int_equal(slice_find_control((struct slice){ text, len }), expected);
                test_free(text);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_short_run_is_a_word_with_zeros_behind),
                                        cmocka_unit_test(case_is_folded_of_letters_only),
                                        cmocka_unit_test(the_first_control_byte_is_found) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
