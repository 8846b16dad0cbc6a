// SPDX-License-Identifier: Apache-2.0
/* test_grpc_guard.c - what a peer of an HTTP/2 connection may do: budgets and what is half there, in any pieces. */
#include "net/grpc_guard.h"

#include "support/random.h"
#include "support/unit.h"

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION };

static size_t put(unsigned char *to, size_t len, unsigned type, unsigned flags)
{
    memset(to, 0, 9 + len);
    to[0] = (unsigned char)(len >> 16);
    to[1] = (unsigned char)(len >> 8);
    to[2] = (unsigned char)len;
    to[3] = (unsigned char)type;
    to[4] = (unsigned char)flags;
    return 9 + len;
}

static struct grpc_guard begun(uint64_t second)
{
    struct grpc_guard guard;
    char preface[24] = { 0 };
    grpc_guard_init(&guard, second);
    assert_null(grpc_guard_see(&guard, preface, sizeof preface, second));
    return guard;
}

/* How many such frames pass in one second; `reason` of the first that does not. */
static size_t passing(struct grpc_guard *guard, size_t len, unsigned type, unsigned flags, uint64_t second,
                      const char **reason)
{
    unsigned char frame[64];
    size_t size = put(frame, len, type, flags), count = 0;
    while (count < 100000 && (*reason = grpc_guard_see(guard, frame, size, second)) == NULL)
        count++;
    return count;
}

static void each_kind_has_its_budget(void **state)
{
    static const struct row {
        const char *why;
        size_t len;
        unsigned type, flags;
        size_t count;
        const char *reason;
    } rows[] = {
        { "streams taken back", 4, RST_STREAM, 0, GUARD_RESETS, "too_many_resets" },
        { "are you there", 8, PING, 0, GUARD_FRAMES, "too_many_pings" },
        { "yes", 8, PING, 1, GUARD_FRAMES, "too_many_pings" },
        { "settings", 0, SETTINGS, 0, GUARD_FRAMES, "too_many_frames" },
        { "priorities", 5, PRIORITY, 0, GUARD_FRAMES, "too_many_frames" },
        { "windows", 4, WINDOW_UPDATE, 0, GUARD_FRAMES, "too_many_frames" },
        { "empty data", 0, DATA, 0, GUARD_FRAMES, "too_many_frames" },
        { "what nobody knows", 3, 0xbe, 0, GUARD_FRAMES, "too_many_frames" },
        { "a head that goes on", 3, CONTINUATION, 0, GUARD_CONTINUATIONS, "too_many_continuations" },
        { "the end of a message is a frame for something", 0, DATA, 1, 100000, NULL },
        { "so is data", 1, DATA, 0, 100000, NULL },
        { "calls are not counted here", 9, HEADERS, 4, 100000, NULL },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct grpc_guard guard = begun(5);
        const char *reason;
        size_t count = passing(&guard, rows[i].len, rows[i].type, rows[i].flags, 5, &reason);
        if (count != rows[i].count)
            fail_msg("%s: %zu", rows[i].why, count);
        if (rows[i].reason == NULL)
            assert_null(reason);
        else
            assert_string_equal(reason, rows[i].reason);
    }
}

/* Frames without a payload: a guard that has spoken leaves the rest of a frame unseen. */
static void budgets_refill_with_time_and_no_further(void **state)
{
    struct grpc_guard guard = begun(0);
    const char *reason;
    (void)state;
    (void)passing(&guard, 0, RST_STREAM, 0, 0, &reason);
    assert_int_equal(passing(&guard, 0, RST_STREAM, 0, 1, &reason), GUARD_RESETS_A_SECOND);
    assert_int_equal(passing(&guard, 0, RST_STREAM, 0, 3, &reason), 2 * GUARD_RESETS_A_SECOND);
    assert_int_equal(passing(&guard, 0, RST_STREAM, 0, 1000, &reason), GUARD_RESETS);
    assert_int_equal(passing(&guard, 0, RST_STREAM, 0, UINT64_MAX, &reason), GUARD_RESETS);
    struct grpc_guard other = begun(0);
    (void)passing(&other, 0, PING, 0, 0, &reason);
    assert_int_equal(passing(&other, 0, PING, 0, 2, &reason), 2 * GUARD_FRAMES_A_SECOND);
}

static void a_call_pays_for_some_frames(void **state)
{
    struct grpc_guard guard = begun(0);
    unsigned char head[16];
    const char *reason;
    (void)state;
    (void)passing(&guard, 0, PING, 0, 0, &reason);
    assert_null(grpc_guard_see(&guard, head, put(head, 0, HEADERS, 4), 0));
    assert_int_equal(passing(&guard, 0, PING, 0, 0, &reason), GUARD_FRAMES_A_CALL);
}

static void what_has_begun_is_half(void **state)
{
    unsigned char frame[64];
    struct grpc_guard guard;
    (void)state;
    grpc_guard_init(&guard, 7);
    assert_true(grpc_guard_is_half(&guard)); /* nothing has come: the preface is owed */
    assert_null(grpc_guard_see(&guard, frame, 0, 7));
    memset(frame, 0, sizeof frame);
    assert_null(grpc_guard_see(&guard, frame, 23, 8));
    assert_true(grpc_guard_is_half(&guard) && guard.half_since == 7);
    assert_null(grpc_guard_see(&guard, frame, 1, 9));
    assert_false(grpc_guard_is_half(&guard));

    size_t len = put(frame, 10, HEADERS, 0);
    assert_null(grpc_guard_see(&guard, frame, 1, 20));
    assert_true(grpc_guard_is_half(&guard) && guard.half_since == 20);
    assert_null(grpc_guard_see(&guard, frame + 1, len - 1, 25));
    assert_true(grpc_guard_is_half(&guard) && guard.half_since == 20); /* the head goes on, and began then */
    len = put(frame, 0, CONTINUATION, 4);
    assert_null(grpc_guard_see(&guard, frame, len, 30));
    assert_false(grpc_guard_is_half(&guard));
    len = put(frame, 3, DATA, 0);
    assert_null(grpc_guard_see(&guard, frame, len - 1, 40));
    assert_true(grpc_guard_is_half(&guard) && guard.half_since == 40);
    assert_null(grpc_guard_see(&guard, frame, 1, 41));
    assert_false(grpc_guard_is_half(&guard));
}

/* The same bytes in one piece and in many leave the same behind. */
static void pieces_mean_nothing(void **state)
{
    struct random random = { random_seed(20261201) };
    (void)state;
    for (int round = 0; round < 300; round++) {
        unsigned char bytes[4096] = { 0 };
        size_t len = 24;
        while (len < sizeof bytes - 128)
            len += put(bytes + len, random_below(&random, 40), (unsigned)random_below(&random, 12),
                       (unsigned)random_below(&random, 8));
        len -= random_below(&random, 20);
        struct grpc_guard whole, parts;
        grpc_guard_init(&whole, 0);
        grpc_guard_init(&parts, 0);
        const char *expected = grpc_guard_see(&whole, bytes, len, 0), *got = NULL;
        for (size_t at = 0; at < len && got == NULL;) {
            size_t step = 1 + random_below(&random, 30);
            step = step < len - at ? step : len - at;
            got = grpc_guard_see(&parts, bytes + at, step, 0);
            at += step;
        }
        assert_true(got == expected);
        assert_int_equal(parts.frames, whole.frames);
        assert_int_equal(parts.resets, whole.resets);
        assert_int_equal(grpc_guard_is_half(&parts), grpc_guard_is_half(&whole));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_its_budget),
        cmocka_unit_test(budgets_refill_with_time_and_no_further),
        cmocka_unit_test(a_call_pays_for_some_frames),
        cmocka_unit_test(what_has_begun_is_half),
        cmocka_unit_test(pieces_mean_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
