// SPDX-License-Identifier: Apache-2.0
/* The published vectors of SipHash-1-3: key 00 01 .. 0f, message 00 01 02 ... */

#include "support/unit.h"

#include "base/siphash.h"

static const struct row {
    const char *why;
    size_t len;
    uint64_t hash;
} rows[] = {
    { "the empty message still hashes its length", 0, UINT64_C(0xabac0158050fc4dc) },
    { "one whole block and an empty last one", 8, UINT64_C(0x369095118d299a8e) },
    { "a block and a tail of seven bytes", 15, UINT64_C(0xd320d86d2a519956) },
};

static void vectors(void **state)
{
    (void)state;
    uint8_t secret[16], message[16];
    for (unsigned i = 0; i < 16; i++)
        secret[i] = message[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(siphash_end(siphash_begin(secret), message, rows[i].len), rows[i].hash);
}

static void a_kept_prefix_hashes_like_the_whole(void **state)
{
    (void)state;
    uint8_t secret[16] = { 1 };
    const char whole[] = "eight by and the rest";
    struct siphash prefix = siphash_begin(secret);
    siphash_absorb(&prefix, whole, 8);
    assert_int_equal(siphash_end(prefix, whole + 8, sizeof whole - 9),
                     siphash_end(siphash_begin(secret), whole, sizeof whole - 1));
}

/* Of 0 to 40 bytes, with the last block put together byte by byte as the paper has it. */
static void every_length_hashes_as_byte_by_byte(void **state)
{
    (void)state;
    uint8_t secret[16] = { 7 };
    for (size_t len = 0; len <= 40; len++) {
        unsigned char *message = test_malloc(len + 1); /* len may be 0 */
        for (size_t i = 0; i < len; i++)
            message[i] = (unsigned char)(0x83 * i + 0xf1);
        unsigned char last[8] = { [7] = (unsigned char)len };
        size_t whole = len - len % 8;
        memcpy(last, message + whole, len - whole);
        struct siphash state_of = siphash_begin(secret);
        siphash_absorb(&state_of, message, whole);
        siphash_absorb(&state_of, last, sizeof last);
        state_of.v2 ^= 0xff;
        for (int round = 0; round < 3; round++)
            siphash_round_(&state_of);
        uint64_t expected = state_of.v0 ^ state_of.v1 ^ state_of.v2 ^ state_of.v3;
        assert_int_equal(siphash_end(siphash_begin(secret), message, len), expected);
        test_free(message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(vectors),
                                        cmocka_unit_test(a_kept_prefix_hashes_like_the_whole),
                                        cmocka_unit_test(every_length_hashes_as_byte_by_byte) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
