// SPDX-License-Identifier: Apache-2.0
/*
 * test_script.c - commands of the strict script, and replies that are none of it.
 *
 * `test_script drive SOCKET [3]` is the hand of test_script_store.py: it reads limits and operations from its input, sends what
 * script.c makes of them to the store at a Unix socket and prints what script.c reads in the replies. So the bytes that are
 * judged are ours, and who judges them shares no line with them.
 */
#include "support/unit.h"

#include "fleet/script.h"
#include "script_drive.h"

/* ---- Replies ------------------------------------------------------------------------------------------------------ */

static const struct weir_limit bucket = { .name = "a", .algorithm = WEIR_TOKEN_BUCKET };
static const struct weir_limit permits = { .name = "c", .algorithm = WEIR_CONCURRENCY };

static struct script_call call_of(struct script_item *item, const struct weir_limit *limit)
{
    *item = (struct script_item){ .name = SLICE("weir:1:{a}:a:b"),
                                  .limit = limit,
                                  .size = { .tick = WEIR_MILLISECOND, .capacity = 10, .count = 1, .period = 7 },
                                  .cost = 1 };
    return (struct script_call){ .items = item, .count = 1 };
}

static void reads_only_what_the_script_replies(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *reply;
        bool is_read;
    } rows[] = {
        { "an allowance that was charged", "*5\r\n:16\r\n:9\r\n:0\r\n:7\r\n:123\r\n", true },
        { "a denial", "*5\r\n:1\r\n:0\r\n:3\r\n:70\r\n:123\r\n", true },
        { "never", "*5\r\n:2\r\n:0\r\n:-1\r\n:70\r\n:123\r\n", true },
        { "a duplicate of a damaged value", "*5\r\n:11\r\n:0\r\n:-1\r\n:-1\r\n:123\r\n", true },
        { "an error is told as it is", "-NOPERM no\r\n", false },
        { "a field is missing", "*4\r\n:16\r\n:9\r\n:0\r\n:7\r\n", false },
        { "a field is too many", "*6\r\n:16\r\n:9\r\n:0\r\n:7\r\n:1\r\n:1\r\n", false },
        { "a string is no number", "*5\r\n:16\r\n$1\r\n9\r\n:0\r\n:7\r\n:1\r\n", false },
        { "null", "$-1\r\n", false },
        { "an array in its place", "*5\r\n:16\r\n*1\r\n:9\r\n:0\r\n:7\r\n:1\r\n", false },
        { "a denial is not charged", "*5\r\n:17\r\n:9\r\n:0\r\n:7\r\n:1\r\n", false },
        { "no such flag", "*5\r\n:20\r\n:9\r\n:0\r\n:7\r\n:1\r\n", false },
        { "flags of the future", "*5\r\n:32\r\n:9\r\n:0\r\n:7\r\n:1\r\n", false },
        { "remaining is never less than nothing", "*5\r\n:16\r\n:-1\r\n:0\r\n:7\r\n:1\r\n", false },
        { "longer than never", "*5\r\n:1\r\n:0\r\n:-2\r\n:7\r\n:1\r\n", false },
        { "beyond what a double holds", "*5\r\n:1\r\n:0\r\n:9007199254740993\r\n:7\r\n:1\r\n", false },
        { "the largest number there is", "*5\r\n:9223372036854775807\r\n:0\r\n:1\r\n:7\r\n:1\r\n", false },
        { "a map of RESP3", "%2\r\n:1\r\n:0\r\n:1\r\n:7\r\n", false },
        { "a double of RESP3", "*5\r\n:16\r\n,9.0\r\n:0\r\n:7\r\n:1\r\n", false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct script_item item;
        struct script_answer answer;
        struct slice why = { NULL, 0 };
        struct script_call call = call_of(&item, &bucket);
        expect_row(script_read_decide(slice_of(rows[i].reply), &call, &answer, &why) == rows[i].is_read,
                   rows[i].why);
        expect_row(rows[i].is_read || why.len > 0, rows[i].why);
    }
}

static void tells_lengths_in_ns(void **state)
{
    (void)state;
    struct script_item item;
    struct script_answer answer;
    struct slice why;
    struct script_call call = call_of(&item, &bucket);
    assert_true(script_read_decide(SLICE("*5\r\n:1\r\n:4\r\n:3\r\n:-1\r\n:123\r\n"), &call, &answer, &why));
    assert_int_equal(answer.outcome, WEIR_DENY);
    assert_int_equal(answer.remaining, 4);
    assert_int_equal(answer.retry_after, 3 * WEIR_MILLISECOND);
    assert_true(answer.reset_after == WEIR_NO_TIME);
    assert_int_equal(answer.fence, 0);

    /* 2^53 ms is beyond the horizon, and its ns beyond 64 bits. */
    assert_true(
        script_read_decide(SLICE("*5\r\n:1\r\n:4\r\n:9007199254740992\r\n:0\r\n:1\r\n"), &call, &answer, &why));
    assert_true(answer.retry_after == WEIR_NO_TIME);

    call = call_of(&item, &permits);
    assert_true(script_read_decide(SLICE("*5\r\n:16\r\n:4\r\n:0\r\n:7\r\n:77\r\n"), &call, &answer, &why));
    assert_int_equal(answer.fence, 77000);

    /* A limit that was one of the process and is the fleet's now: its fences were the wall clock in ns. */
    const uint64_t local = UINT64_C(1796079586432957921);
    assert_true(script_read_decide(SLICE("*5\r\n:16\r\n:4\r\n:0\r\n:7\r\n:1796079587670916\r\n"), &call,
                                   &answer, &why));
    assert_true(answer.fence > local);
    assert_true(script_read_decide(SLICE("*5\r\n:16\r\n:4\r\n:0\r\n:7\r\n:9007199254740992\r\n"), &call,
                                   &answer, &why));
    assert_true(answer.fence <= INT64_MAX); /* 2^53, the largest that a script tells, is a fence yet */
}

static void reads_settlements_and_permits(void **state)
{
    (void)state;
    struct script_settlement settlement;
    struct script_permit permit;
    struct slice why;
    assert_true(
        script_read_settle(SLICE("*7\r\n:1\r\n:0\r\n:3\r\n:4\r\n:5\r\n:6\r\n:2\r\n"), &settlement, &why));
    assert_true(settlement.is_known && !settlement.is_repeated && settlement.charged == 3
                && settlement.returned == 4 && settlement.dropped == 5 && settlement.remaining == 6
                && settlement.item == 2);
    assert_true(
        script_read_settle(SLICE("*7\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:-1\r\n:-1\r\n"), &settlement, &why));
    assert_true(!settlement.is_known && settlement.remaining == WEIR_UNLIMITED
                && settlement.item == SCRIPT_NO_ITEM);
    assert_false(
        script_read_settle(SLICE("*7\r\n:1\r\n:0\r\n:3\r\n:4\r\n:5\r\n:6\r\n:64\r\n"), &settlement, &why));
    assert_false(
        script_read_settle(SLICE("*7\r\n:2\r\n:0\r\n:3\r\n:4\r\n:5\r\n:6\r\n:0\r\n"), &settlement, &why));
    assert_false(script_read_settle(SLICE("-ERR broken\r\n"), &settlement, &why));
    assert_true(slice_equals(why, SLICE("ERR broken")));

    assert_true(script_read_permit(SLICE("*2\r\n:1\r\n:250\r\n"), &permit, &why));
    assert_true(permit.was_held && permit.expires_after == 250 * WEIR_MICROSECOND);
    assert_true(script_read_permit(SLICE("*2\r\n:0\r\n:-1\r\n"), &permit, &why));
    assert_true(!permit.was_held && permit.expires_after == WEIR_NO_TIME);
    assert_false(script_read_permit(SLICE("*2\r\n:2\r\n:-1\r\n"), &permit, &why));
    assert_true(script_is_unknown(SLICE("-NOSCRIPT No matching script. Please use EVAL.\r\n")));
    assert_false(script_is_unknown(SLICE("-ERR NOSCRIPT\r\n")));
    assert_false(script_is_unknown(SLICE("*2\r\n:0\r\n:-1\r\n")));
}

/* ---- Commands ------------------------------------------------------------------------------------------------------- */

static void writes_commands(void **state)
{
    (void)state;
    static char room[SCRIPT_COMMAND_MAX];
    static struct resp_command command;
    struct script_item item;
    struct script_call call = call_of(&item, &bucket);
    struct text out = text_of(room, sizeof room);
    struct resp_command_parser parser = RESP_COMMAND_START;

    assert_true(script_put_decide(&out, SCRIPT_BY_HASH, &call));
    assert_int_equal(resp_command_parse(&parser, room, out.len, false, &command), RESP_DONE);
    assert_int_equal(command.len, out.len);
    assert_int_equal(command.count, 5); /* the plainest call has no head */
    assert_true(slice_equals(command.words[0], SLICE("EVALSHA")));
    assert_int_equal(command.words[1].len, 40);
    assert_true(slice_equals(command.words[3], item.name));
    /* cost 1, capacity 10, debt 0, 1 in 7 ticks of a ms */
    static const unsigned char expected[] = { 'b', 32,   0,    0,    0, 0, 0, 0, 0xf0, 0x3f, 0,    0,   0, 0, 0,
                                              0,   0x24, 0x40, 0,    0, 0, 0, 0, 0,    0,    0,    0,   0, 0, 0,
                                              0,   0,    0xf0, 0x3f, 0, 0, 0, 0, 0,    0,    0x1c, 0x40 };
    assert_int_equal(command.words[4].len, sizeof expected);
    assert_memory_equal(command.words[4].at, expected, sizeof expected);

    char small[100];
    out = text_of(small, sizeof small);
    assert_false(script_put_decide(&out, SCRIPT_WHOLE, &call));
    assert_int_equal(strlen(script_version()), 12);
}

/* ---- Leases ------------------------------------------------------------------------------------------------------- */

static void reads_only_what_was_asked_of_leases(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *fields;
        bool is_read;
    } rows[] = {
        /* wants 10, of portions of 2 s */
        { "a grant", ":0 :10 :10 :2000000 :70 :0 :-1 :1 :10 :123", true },
        { "what was granted before", ":2 :10 :4 :2000000 :70 :0 :-1 :1 :10 :123", true },
        { "nothing, and never any more", ":0 :0 :0 :2000000 :0 :-1 :-1 :1 :80 :123", true },
        { "until a window ends", ":24 :3 :3 :5 :70 :0 :5 :1 :10 :123", true },
        { "a later message was seen", ":1 :99 :0 :9000000 :0 :0 :-1 :1 :10 :123", true },
        { "stale and repeated are two things", ":3 :0 :0 :1 :0 :0 :-1 :1 :10 :123", false },
        { "more than was wanted", ":0 :11 :11 :2000000 :70 :0 :-1 :1 :10 :123", false },
        { "for longer than a portion lasts", ":0 :10 :10 :2000001 :70 :0 :-1 :1 :10 :123", false },
        { "for ever", ":0 :10 :10 :-1 :70 :0 :-1 :1 :10 :123", false },
        { "less than nothing", ":0 :-1 :0 :2000000 :70 :0 :-1 :1 :10 :123", false },
        { "a flag of the future", ":4 :1 :1 :2000000 :70 :0 :-1 :1 :10 :123", false },
        { "a version before the first", ":0 :1 :1 :2000000 :70 :0 :-1 :-1 :10 :123", false },
        { "longer than never", ":0 :1 :1 :2000000 :70 :-2 :-1 :1 :10 :123", false },
        { "a field is missing", ":0 :1 :1 :2000000 :70 :0 :-1 :1 :10", false },
        { "a field is too many", ":0 :1 :1 :2000000 :70 :0 :-1 :1 :10 :123 :1", false },
        { "a text", ":0 +1 :1 :2000000 :70 :0 :-1 :1 :10 :123", false },
    };
    const struct script_lease lease = { .name = SLICE("weir:1:{a}:a:b"),
                                        .limit = &bucket,
                                        .size = { .tick = WEIR_MICROSECOND },
                                        .lease = { 30, 10, 2 * WEIR_SECOND },
                                        .seq = 1,
                                        .want = 10 };
    const struct script_lease_call call = { .leases = &lease, .count = 1, .run = 1 };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char reply[512];
        size_t fields = 1;
        struct text text = text_of(reply, sizeof reply);
        for (const char *at = rows[i].fields; *at != '\0'; at++)
            fields += *at == ' ';
        resp_put_array(&text, (uint32_t)fields);
        for (const char *at = rows[i].fields; *at != '\0'; at++)
            text_bytes(&text, *at == ' ' ? "\r\n" : at, *at == ' ' ? 2 : 1);
        text_literal(&text, "\r\n");
        struct script_lease_answer answer;
        struct slice why = { NULL, 0 };
        expect_row(script_read_lease(text_slice(&text), &call, &answer, &why) == rows[i].is_read, rows[i].why);
        expect_row(rows[i].is_read || why.len > 0, rows[i].why);
    }
}

static void reads_only_what_says_who_holds(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *reply;
        bool is_read;
    } rows[] = {
        { "nobody", "*2\r\n*2\r\n$2\r\n17\r\n$1\r\n5\r\n*0\r\n", true },
        { "nobody, in RESP3", "*2\r\n*2\r\n$2\r\n17\r\n$1\r\n5\r\n%0\r\n", true },
        { "an error", "-NOPERM no\r\n", false },
        { "no clock", "*2\r\n*0\r\n*0\r\n", false },
        { "a clock of parts", "*2\r\n*2\r\n$2\r\n17\r\n$7\r\n1000000\r\n*0\r\n", false },
        { "half a pair", "*2\r\n*2\r\n$2\r\n17\r\n$1\r\n5\r\n*1\r\n$1\r\nt\r\n", false },
        { "sums of another length", "*2\r\n*2\r\n$2\r\n17\r\n$1\r\n5\r\n*2\r\n$1\r\nt\r\n$1\r\nt\r\n", false },
        { "no sums", "*2\r\n*2\r\n$2\r\n17\r\n$1\r\n5\r\n*2\r\n$16\r\n0000000000000001\r\n$1\r\nk\r\n", false },
        { "more behind it", "*2\r\n*2\r\n$2\r\n17\r\n$1\r\n5\r\n*0\r\n:1\r\n", false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct script_holder holder;
        struct script_holders all;
        struct slice why = { NULL, 0 };
        expect_row(script_read_holders(slice_of(rows[i].reply), &holder, 1, &all, &why) == rows[i].is_read,
                   rows[i].why);
        expect_row(all.count == 0 && all.out == 0, rows[i].why);
    }
}

/* The name that a store has for the script that decides. */
static int tell_hash(void)
{
    static char room[SCRIPT_COMMAND_MAX];
    static struct resp_command command;
    struct script_item item;
    struct script_call call = call_of(&item, &bucket);
    struct text out = text_of(room, sizeof room);
    struct resp_command_parser parser = RESP_COMMAND_START;
    if (!script_put_decide(&out, SCRIPT_BY_HASH, &call)
        || resp_command_parse(&parser, room, out.len, false, &command) != RESP_DONE)
        return 1;
    printf("%.*s\n", (int)command.words[1].len, command.words[1].at);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "drive") == 0)
        return script_drive(argv[2], argc > 3);
    if (argc == 2 && strcmp(argv[1], "hash") == 0)
        return tell_hash();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_only_what_the_script_replies),  cmocka_unit_test(tells_lengths_in_ns),
        cmocka_unit_test(reads_settlements_and_permits),       cmocka_unit_test(writes_commands),
        cmocka_unit_test(reads_only_what_was_asked_of_leases), cmocka_unit_test(reads_only_what_says_who_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
