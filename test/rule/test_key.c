// SPDX-License-Identifier: Apache-2.0
/* test_key.c - keys: no two tuples of parts have the same bytes, long ones included. */
#include "base/sha256.h"
#include "rule/key.h"
#include "support/unit.h"
#include "weir_contract.h"

/* Every tuple of one to three parts over { absent, "a", "b", "aa", "ab", "\0", "\0a" }: all their keys differ. */
static void short_keys_differ(void **state)
{
    (void)state;
    static const struct slice values[] = {
        { NULL, 0 }, { "a", 1 }, { "b", 1 }, { "aa", 2 }, { "ab", 2 }, { "\0", 1 }, { "\0a", 2 },
    };
    enum { VALUES = COUNT_OF(values), KEYS = VALUES * VALUES * VALUES };
    static unsigned char keys[KEYS][KEY_PLAIN_MAX];
    static size_t lens[KEYS];
    for (size_t parts = 1; parts <= 3; parts++) {
        size_t count = parts == 1 ? VALUES : parts == 2 ? VALUES * VALUES : KEYS;
        for (size_t i = 0; i < count; i++) {
            const struct slice tuple[3] = { values[i % VALUES], values[i / VALUES % VALUES],
                                            values[i / VALUES / VALUES] };
            lens[i] = key_encode(tuple, parts, keys[i]);
            for (size_t j = 0; j < i; j++)
                assert_false(lens[i] == lens[j] && memcmp(keys[i], keys[j], lens[i]) == 0);
        }
    }
    assert_int_equal(key_encode(values, 0, keys[0]), 0);
}

/* The layout is part of what a shared store sees, so it is written down here. */
static void layout(void **state)
{
    (void)state;
    unsigned char key[KEY_PLAIN_MAX];
    const struct slice parts[] = { { "acme", 4 }, { NULL, 0 }, { "x", 1 } };
    static const unsigned char expected[] = { 0, 5, 'a', 'c', 'm', 'e', 0, 0, 0, 2, 'x' };
    assert_int_equal(key_encode(parts, 3, key), sizeof expected);
    assert_memory_equal(key, expected, sizeof expected);
}

static void long_keys_are_digests(void **state)
{
    (void)state;
    static char text[WEIR_ATTRIBUTE_MAX];
    unsigned char key[KEY_PLAIN_MAX], whole[2 + WEIR_ATTRIBUTE_MAX], hash[SHA256_LEN];
    memset(text, 'x', sizeof text);

    const struct slice longest_plain = { text, KEY_PLAIN_MAX - 2 };
    assert_int_equal(key_encode(&longest_plain, 1, key), KEY_PLAIN_MAX);
    assert_int_equal(key[0], 0);

    const struct slice long_one = { text, WEIR_ATTRIBUTE_MAX };
    assert_int_equal(key_encode(&long_one, 1, key), 34);
    assert_int_equal(key[0], 0xff); /* no length begins so: values have at most 1024 bytes */
    assert_int_equal(key[1], 0xff);
    whole[0] = 1025 >> 8;
    whole[1] = 1025 & 0xff;
    memcpy(whole + 2, text, sizeof text);
    sha256(whole, sizeof whole, hash);
    assert_memory_equal(key + 2, hash, sizeof hash);

    struct slice many[WEIR_ATTRIBUTES_MAX];
    for (size_t i = 0; i < WEIR_ATTRIBUTES_MAX; i++)
        many[i] = long_one;
    assert_int_equal(key_encode(many, WEIR_ATTRIBUTES_MAX, key), 34);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_keys_differ),
        cmocka_unit_test(layout),
        cmocka_unit_test(long_keys_are_digests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
