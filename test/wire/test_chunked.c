// SPDX-License-Identifier: Apache-2.0
/* test_chunked.c - chunked bodies: what is decoded, each refusal, and the same body in whatever pieces. */
#include "support/unit.h"

#include "support/random.h"
#include "wire/chunked.h"

#define MAX 1000

static const struct row {
    const char *why;
    struct slice raw;
    const char *body; /* what was decoded, up to a fault */
    size_t left;      /* bytes behind the body that are not its own */
    enum chunked_result result;
    unsigned status;
} rows[] = {
#define RAW(why, raw) \
    why, \
    { \
        raw, sizeof(raw) - 1 \
    }
    { RAW("an empty body", "0\r\n\r\n"), "", 0, CHUNKED_DONE, 0 },
    { RAW("one chunk", "5\r\nhello\r\n0\r\n\r\n"), "hello", 0, CHUNKED_DONE, 0 },
    { RAW("two chunks", "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"), "hello", 0, CHUNKED_DONE, 0 },
    { RAW("hex in either case", "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"), "01234567890123456789", 0,
      CHUNKED_DONE, 0 },
    { RAW("zeros in front of a size", "0005\r\nhello\r\n000\r\n\r\n"), "hello", 0, CHUNKED_DONE, 0 },
    { RAW("line ends inside data", "4\r\n\r\n\r\n\r\n0\r\n\r\n"), "\r\n\r\n", 0, CHUNKED_DONE, 0 },
    { RAW("extensions are ignored", "5;a=b;c=\"d e\"\r\nhello\r\n0;last\r\n\r\n"), "hello", 0, CHUNKED_DONE,
      0 },
    { RAW("trailers are ignored", "5\r\nhello\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\n"), "hello", 0, CHUNKED_DONE, 0 },
    { RAW("the next request stays", "0\r\n\r\nGET / HTTP/1.1\r\n"), "", 16, CHUNKED_DONE, 0 },
    { RAW("a body that is not complete", "5\r\nhel"), "hel", 0, CHUNKED_MORE, 0 },
    { RAW("the last LF is missing", "0\r\n\r"), "", 0, CHUNKED_MORE, 0 },
    { RAW("no size", "\r\nhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a size that is not hex", "g\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a size with 0x", "0x5\r\nhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a signed size", "+5\r\nhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a negative size", "-5\r\nhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a blank before a size", " 5\r\nhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a blank behind a size", "5 \r\nhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a size that wraps 64 bits", "10000000000000005\r\nhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a size just below 2^64", "ffffffffffffffff\r\n"), "", 0, CHUNKED_BAD, 413 },
    { RAW("two sizes that wrap together", "5\r\nhello\r\nfffffffffffffffc\r\n"), "hello", 0, CHUNKED_BAD, 413 },
    { RAW("bare LF behind a size", "5\nhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("bare CR behind a size", "5\rhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("bare LF behind data", "5\r\nhello\n0\r\n\r\n"), "hello", 0, CHUNKED_BAD, 400 },
    { RAW("data longer than its size", "5\r\nhello!\r\n0\r\n\r\n"), "hello", 0, CHUNKED_BAD, 400 },
    { RAW("bare LF in an extension", "5;a\nb\r\nhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a control byte in an extension", "5;a\x01\r\nhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a zero byte in an extension", "5;a\0\r\nhello\r\n0\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("bare LF at the end", "0\r\n\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("bare LF behind a trailer", "0\r\nX: y\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a trailer without a colon", "0\r\nX\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a trailer without a name", "0\r\n: y\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a folded trailer", "0\r\nX: y\r\n z\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a blank before a trailer's colon", "0\r\nX : y\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
    { RAW("a control byte in a trailer", "0\r\nX: \x7f\r\n\r\n"), "", 0, CHUNKED_BAD, 400 },
#undef RAW
};

/* Feed the bytes in pieces of random sizes (or whole, when `random` is NULL), each in a buffer of its own. */
static void run(const struct row *row, uint64_t max, struct random *random)
{
    struct chunked chunked;
    char body[2 * MAX];
    size_t at = 0, body_len = 0;
    enum chunked_result result = CHUNKED_MORE;
    chunked_init(&chunked, max);
    while (result == CHUNKED_MORE && at < row->raw.len) {
        size_t len = row->raw.len - at, got, used;
        if (random != NULL)
            len = 1 + (size_t)random_below(random, len < 4 ? len : 4);
        char *copy = malloc(len);
        memcpy(copy, row->raw.at + at, len);
        result = chunked_decode(&chunked, copy, len, &got, &used);
        expect_row(used <= len && got <= used, row->why);
        expect_row(result != CHUNKED_MORE || used == len, row->why);
        expect_row(memcmp(copy + used, row->raw.at + at + used, len - used) == 0, row->why);
        memcpy(body + body_len, copy, got);
        body_len += got;
        at += used;
        free(copy);
    }
    expect_row(result == row->result, row->why);
    expect_row(slice_equals((struct slice){ body, body_len }, slice_of(row->body)), row->why);
    if (result == CHUNKED_DONE)
        expect_row(row->raw.len - at == row->left, row->why);
    if (result == CHUNKED_BAD) {
        expect_row(chunked.status == row->status, row->why);
        expect_row(strlen(chunked.sentence) > 10, row->why);
    }
}

static void bodies_are_decoded_or_refused(void **state)
{
    struct random random = { random_seed(20260104) };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        run(&rows[i], MAX, NULL);
        for (int round = 0; round < 100; round++)
            run(&rows[i], MAX, &random);
    }
}

static void the_body_is_bounded(void **state)
{
    static const struct row fits = {
        "as long as is allowed", { "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", 20 }, "hello", 0, CHUNKED_DONE, 0
    };
    static const struct row is_long = { "one more",  { "3\r\nhel\r\n3\r\nlo!\r\n0\r\n\r\n", 21 },
                                        "hel",       0,
                                        CHUNKED_BAD, 413 };
    (void)state;
    run(&fits, 5, NULL);
    run(&is_long, 5, NULL);
}

/* Extensions of all chunks and trailers share one bound: a body cannot be all decoration. */
static void decoration_is_bounded(void **state)
{
    static const char *const units[] = { "1;xxxxxxxx\r\na\r\n", "X-Trailer: y\r\n" };
    static const size_t counted[] = { 9, 13 }; /* bytes behind `;`, and of a trailer line, without LF */
    (void)state;
    for (size_t u = 0; u < COUNT_OF(units); u++) {
        struct chunked chunked;
        size_t fed = 0, got, used, limit = CHUNKED_EXTRA_MAX / counted[u];
        enum chunked_result result = CHUNKED_MORE;
        chunked_init(&chunked, 1 << 20);
        if (u == 1) {
            char last[] = "0\r\n";
            result = chunked_decode(&chunked, last, 3, &got, &used);
        }
        while (result == CHUNKED_MORE && fed <= limit) {
            char copy[64];
            strcpy(copy, units[u]);
            result = chunked_decode(&chunked, copy, strlen(copy), &got, &used);
            fed++;
        }
        assert_int_equal(result, CHUNKED_BAD);
        assert_int_equal(fed, limit + 1);
        assert_int_equal(chunked.status, 400);
    }
}

/* decode(encode(x)) = x, for random bodies, chunk sizes and pieces. */
static void what_was_encoded_comes_back(void **state)
{
    struct random random = { random_seed(20260105) };
    (void)state;
    for (int round = 0; round < 2000; round++) {
        char body[512], raw[4096];
        size_t body_len = (size_t)random_below(&random, sizeof body), raw_len = 0, done = 0;
        for (size_t i = 0; i < body_len; i++)
            body[i] = (char)random_u64(&random);
        while (done < body_len) {
            size_t run_len = 1 + (size_t)random_below(&random, body_len - done);
            raw_len +=
                (size_t)sprintf(raw + raw_len, random_below(&random, 2) ? "%zx\r\n" : "%zX;x\r\n", run_len);
            memcpy(raw + raw_len, body + done, run_len);
            raw_len += run_len;
            raw_len += (size_t)sprintf(raw + raw_len, "\r\n");
            done += run_len;
        }
        raw_len += (size_t)sprintf(raw + raw_len, "0\r\n\r\n");

        struct chunked chunked;
        size_t at = 0, out = 0, got, used;
        enum chunked_result result = CHUNKED_MORE;
        chunked_init(&chunked, sizeof body);
        while (result == CHUNKED_MORE && at < raw_len) {
            size_t len = 1 + (size_t)random_below(&random, raw_len - at);
            result = chunked_decode(&chunked, raw + at, len, &got, &used);
            assert_memory_equal(raw + at, body + out, got);
            out += got;
            at += used;
        }
        assert_int_equal(result, CHUNKED_DONE);
        assert_int_equal(out, body_len);
        assert_int_equal(at, raw_len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_decoded_or_refused),
        cmocka_unit_test(the_body_is_bounded),
        cmocka_unit_test(decoration_is_bounded),
        cmocka_unit_test(what_was_encoded_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
