// SPDX-License-Identifier: Apache-2.0
/* test_sha1.c - SHA-1 against the examples of FIPS 180 and lengths around a block's end. */
#include "support/unit.h"

#include "base/sha1.h"

static void knows_the_published_examples(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *text, *hash;
    } rows[] = {
        { "nothing", "", "da39a3ee5e6b4b0d3255bfef95601890afd80709" },
        { "FIPS 180, one block", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d" },
        { "FIPS 180, two blocks: 56 bytes leave no room for the length",
          "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "84983e441c3bd26ebaae4aa1f95129e5e54670f1" },
        { "55 bytes leave just enough", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "c1c8bbdc22796e28c0e15163d20899b65621d65a" },
        { "a whole block", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "0098ba824b5c16427bd7a1122a5a442a25ec644d" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char out[SHA1_HEX_LEN];
        sha1_hex(rows[i].text, strlen(rows[i].text), out);
        expect_row(memcmp(out, rows[i].hash, sizeof out) == 0, rows[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(knows_the_published_examples) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
