// SPDX-License-Identifier: Apache-2.0
/* SHA-256: the examples of FIPS 180-4 and of NIST's test vectors, and every length around the padding's edges. */

#include "support/unit.h"

#include "base/sha256.h"

static const struct row {
    const char *why;
    const char *message;
    const char *hash;
} rows[] = {
    { "no byte at all", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    { "FIPS 180-4: one block", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    { "FIPS 180-4: 56 bytes, so the length needs a second block",
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    { "FIPS 180-2: 112 bytes, two blocks and the length",
      "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst"
      "nopqrstu",
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
};

static void vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char hex[2 * SHA256_LEN + 1] = { 0 };
        sha256_hex(rows[i].message, strlen(rows[i].message), SHA256_LEN, hex);
        expect_row(strcmp(hex, rows[i].hash) == 0, rows[i].why);
    }
}

static void a_million_letters(void **state)
{
    (void)state;
    enum { MILLION = 1000000 };
    char *text = malloc(MILLION);
    char hex[2 * SHA256_LEN + 1] = { 0 };
    assert_non_null(text);
    memset(text, 'a', MILLION);
    sha256_hex(text, MILLION, SHA256_LEN, hex);
    free(text);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The hash of the concatenated hashes of "", "a", "aa", ... 130 letters: computed with Python's hashlib. */
static void each_length_around_the_padding(void **state)
{
    (void)state;
    char text[130];
    uint8_t hashes[131 * SHA256_LEN];
    char hex[2 * SHA256_LEN + 1] = { 0 };
    memset(text, 'a', sizeof text);
    for (size_t len = 0; len <= sizeof text; len++)
        sha256(text, len, hashes + len * SHA256_LEN);
    sha256_hex(hashes, sizeof hashes, SHA256_LEN, hex);
    assert_string_equal(hex, "f908a43fc8456c583aacde0fb2627959f8513dc76d0c03979b7f945a7dd78f22");
}

static void a_prefix_is_cut_in_bytes(void **state)
{
    (void)state;
    char hex[] = "................................|";
    sha256_hex("abc", 3, 16, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(a_million_letters),
        cmocka_unit_test(each_length_around_the_padding),
        cmocka_unit_test(a_prefix_is_cut_in_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
