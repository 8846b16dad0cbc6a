// SPDX-License-Identifier: Apache-2.0
/* test_token.c - two parts in one token: one spelling, and nothing that is read beside it. */
#include <stdlib.h>

#include "support/unit.h"
#include "wire/token.h"

/* A string literal with zero bytes in it. */
#define BYTES(literal) \
    { \
        literal, sizeof(literal) - 1 \
    }

static const struct {
    const char *why;
    struct slice bytes;
    bool is_token;
    struct slice own, shared;
} rows[] = {
    { "what the limiter gave begins with its version", BYTES("\1abc"), true, BYTES("\1abc"), BYTES("") },
    { "who made other bytes the limiter finds out", BYTES("\377"), true, BYTES("\377"), BYTES("") },
    { "both parts", BYTES("\2\0\3\1abwxyz"), true, BYTES("\1ab"), BYTES("wxyz") },
    { "the store's part alone", BYTES("\2\0\0w"), true, BYTES(""), BYTES("w") },
    { "nothing is no token", BYTES(""), false, BYTES(""), BYTES("") },
    { "a head alone", BYTES("\2"), false, BYTES(""), BYTES("") },
    { "a head of a part that does not come", BYTES("\2\0\0"), false, BYTES(""), BYTES("") },
    { "without the store's part it would be spelt otherwise", BYTES("\2\0\3\1ab"), false, BYTES(""),
      BYTES("") },
    { "cut inside of our part", BYTES("\2\0\3\1a"), false, BYTES(""), BYTES("") },
    { "the length counts high bytes first", BYTES("\2\3\0\1abwxyz"), false, BYTES(""), BYTES("") },
};

static void rows_are_as_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct token token = { .own = { NULL, 0 } };
        unsigned char again[TOKEN_MAX];
        char *copy =
            malloc(rows[i].bytes.len + 1); /* as long as its bytes, so that a look behind the end is seen */
        assert_non_null(copy);
        memcpy(copy, rows[i].bytes.at, rows[i].bytes.len);
        bool is_token = token_split((struct slice){ copy, rows[i].bytes.len }, TOKEN_OWN_MAX, &token);
        if (is_token != rows[i].is_token || !slice_equals(token.own, rows[i].own)
            || !slice_equals(token.shared, rows[i].shared))
            fail_msg("%s", rows[i].why);
        if (is_token && token.shared.len > 0) {
            assert_int_equal(token_join(&token, again), rows[i].bytes.len);
            assert_memory_equal(again, rows[i].bytes.at, rows[i].bytes.len);
        }
        free(copy);
    }
}

/* A permit of this process is shorter than a reservation, and so is what a token of one may hold. */
static void parts_are_bounded(void **state)
{
    (void)state;
    static unsigned char bytes[TOKEN_MAX + 1];
    struct token token = { .own = { (const char *)bytes + 5, WEIR_PERMIT_MAX },
                           .shared = { (const char *)bytes + 5, TOKEN_SHARED_MAX } };
    static unsigned char out[TOKEN_MAX];
    size_t len = token_join(&token, out);
    assert_int_equal(len, 3 + WEIR_PERMIT_MAX + TOKEN_SHARED_MAX);
    assert_true(token_split((struct slice){ (const char *)out, len }, WEIR_PERMIT_MAX, &token));
    assert_false(token_split((struct slice){ (const char *)out, len }, WEIR_PERMIT_MAX - 1, &token));

    bytes[0] = 2; /* the store's part is one byte too long */
    assert_true(token_split((struct slice){ (const char *)bytes, 3 + TOKEN_SHARED_MAX }, 0, &token));
    assert_false(token_split((struct slice){ (const char *)bytes, 4 + TOKEN_SHARED_MAX }, 0, &token));
    bytes[0] = 1;
    assert_true(token_split((struct slice){ (const char *)bytes, 100 }, 100, &token));
    assert_false(token_split((struct slice){ (const char *)bytes, 101 }, 100, &token));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_as_written),
        cmocka_unit_test(parts_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
