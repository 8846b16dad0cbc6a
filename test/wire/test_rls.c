// SPDX-License-Identifier: Apache-2.0
/*
 * test_rls.c - calls and answers of the rate limit service as protobuf.
 *
 * Bytes are written by hand from the service's .proto files and protobuf's encoding rules; test_rls_protoc.py lets protoc judge
 * many more. What was read is compared as one line: DOMAIN, then for each descriptor [KEY=VALUE,...] HITS and what else it says.
 */
#include "support/unit.h"

#include "support/random.h"
#include "wire/rls.h"

/* entry { key "u" value "a" }, and a descriptor of it */
#define ENTRY "0a06 0a0175 120161 "
#define DOMAIN "0a0164 "
#define DESCRIPTOR "1208 " ENTRY
#define CALL DOMAIN DESCRIPTOR

static unsigned char bytes[RLS_CALL_MAX + 64];
static size_t bytes_len;

static void add_hex(const char *hex)
{
    for (; *hex != '\0'; hex++) {
        unsigned byte;
        if (*hex == ' ')
            continue;
        assert_true(bytes_len < sizeof bytes);
        assert_int_equal(sscanf(hex, "%2x", &byte), 1);
        bytes[bytes_len++] = (unsigned char)byte;
        hex++;
    }
}

static void set_hex(const char *hex)
{
    bytes_len = 0;
    add_hex(hex);
}

static struct rls_call call;
static const char *why_not;

/* The bytes that were read last: a copy that ends where they do, so that a step too far is seen. */
static char *copy;
static size_t copy_len;

static bool is_inside(const char *at, size_t len)
{
    return len == 0 || (at >= copy && len <= copy_len && at <= copy + (copy_len - len));
}

static enum rls_fault read_bytes(size_t len)
{
    free(copy);
    copy = malloc(len == 0 ? 1 : len);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    copy_len = len;
    why_not = NULL;
    enum rls_fault fault = rls_read((struct slice){ copy, len }, &call, &why_not);
    assert_true((fault == RLS_GOOD) == (why_not == NULL));
    return fault;
}

static void add_bytes(struct text *out, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (at[i] == '\0')
            text_literal(out, "\\0");
        else
            text_bytes(out, at + i, 1);
}

/* What was read, as a C string. */
static const char *line_of(const struct rls_call *from)
{
    static char line[4096];
    struct text out = text_of(line, sizeof line - 1);
    add_bytes(&out, from->domain.at, from->domain.len);
    for (size_t i = 0; i < from->count; i++) {
        const struct weir_descriptor *descriptor = &from->descriptors[i];
        const struct rls_asked *asked = &from->asked[i];
        for (size_t k = 0; k < descriptor->entry_count; k++) {
            const struct weir_entry *entry = &descriptor->entries[k];
            text_string(&out, k == 0 ? " [" : ",");
            add_bytes(&out, entry->key, entry->key_len);
            text_literal(&out, "=");
            add_bytes(&out, entry->value, entry->value_len);
        }
        text_string(&out, descriptor->entry_count == 0 ? " [] " : "] ");
        text_u64(&out, asked->hits);
        text_string(&out, asked->is_refund ? " refund" : "");
        if (!asked->has_limit)
            continue;
        text_literal(&out, " limit ");
        text_u64(&out, asked->requests_per_unit);
        text_literal(&out, "/");
        text_u64(&out, asked->unit);
        text_literal(&out, "*");
        text_u64(&out, asked->unit_multiplier);
    }
    assert_false(out.is_cut);
    line[out.len] = '\0';
    return line;
}

/* ---- Reading --------------------------------------------------------------------------------------------- */

static void calls_are_read(void **state)
{
    static const struct {
        const char *why, *hex, *line;
    } rows[] = {
        { "one descriptor, hits of the call",
          "0a0474657374 121d 0a1b 0a0e72656d6f74655f61646472657373 12093139322e302e322e37 1801",
          "test [remote_address=192.0.2.7] 1" },
        { "hits and a limit of a descriptor's own",
          "0a0164 120c 0a06 0a0175 120161 1a02 0805 120e 0a06 0a0170 12012f 1204 080a 1002",
          "d [u=a] 5 [p=/] 1 limit 10/2*1" },
        { "hits that are there and 0: a look", "0a0164 120a 0a06 0a0175 120161 1a00", "d [u=a] 0" },
        { "the same, said in full", DOMAIN "120c " ENTRY "1a02 0800", "d [u=a] 0" },
        { "no hits are one", CALL, "d [u=a] 1" },
        { "0 of a call are one, too", CALL "1800", "d [u=a] 1" },
        { "hits in two bytes", CALL "18ac02", "d [u=a] 300" },
        { "hits in front of the descriptors", "1803 " DESCRIPTOR DOMAIN, "d [u=a] 3" },
        { "own hits beside the call's", DOMAIN "120c " ENTRY "1a02 0805 " DESCRIPTOR "1803",
          "d [u=a] 5 [u=a] 3" },
        { "32 bits keep the low ones", CALL "18 8780808010", "d [u=a] 7" },
        { "which may be none", CALL "18 8080808010", "d [u=a] 1" },
        { "all of 64", CALL "18 ffffffffffffffffff01", "d [u=a] 4294967295" },
        { "own hits have 64 bits, up to what a cost can be", DOMAIN "1215 " ENTRY "1a0b 08ffffffffffffffffff01",
          "d [u=a] 9223372036854775807" },
        { "the last domain counts", "0a0178 " CALL, "d [u=a] 1" },
        { "and so do the last hits", CALL "1805 1809", "d [u=a] 9" },
        { "and the last key", DOMAIN "120b 0a09 0a0178 0a0175 120161", "d [u=a] 1" },
        { "a limit in two parts is one", DOMAIN "1210 " ENTRY "1202 080a 1202 1002", "d [u=a] 1 limit 10/2*1" },
        { "of two numbers of it the last", DOMAIN "1212 " ENTRY "1204 080a 1002 1202 0814",
          "d [u=a] 1 limit 20/2*1" },
        { "a second part takes nothing away", DOMAIN "120e " ENTRY "1a02 0805 1a00", "d [u=a] 5" },
        { "several units", DOMAIN "1212 " ENTRY "1208 080a 1002 1a02 0805", "d [u=a] 1 limit 10/2*5" },
        { "no units at all are one", DOMAIN "1210 " ENTRY "1206 080a 1002 1a00", "d [u=a] 1 limit 10/2*1" },
        { "a year of none", DOMAIN "120c " ENTRY "1202 1006", "d [u=a] 1 limit 0/6*1" },
        { "a refund", DOMAIN "120a " ENTRY "2001", "d [u=a] 1 refund" },
        { "any number but 0 is true", DOMAIN "120b " ENTRY "208001", "d [u=a] 1 refund" },
        { "no refund", DOMAIN "120a " ENTRY "2000", "d [u=a] 1" },
        { "an empty value", DOMAIN "1205 0a03 0a0175", "d [u=] 1" },
        { "the value in front", DOMAIN "1208 0a06 120161 0a0175", "d [u=a] 1" },
        { "no entries", DOMAIN "1200", "d [] 1" },
        { "entries keep their order", DOMAIN "1210 " ENTRY "0a06 0a0162 120163", "d [u=a,b=c] 1" },
        { "a zero byte is a byte", DOMAIN "120a 0a08 0a0175 1203610062", "d [u=a\\0b] 1" },
        { "text of more bytes than letters", DOMAIN "120b 0a09 0a0175 1204f09f8c8a",
          "d [u=\xf0\x9f\x8c\x8a] 1" },
        { "a length in more bytes than it needs", "0a8100 64 " DESCRIPTOR, "d [u=a] 1" },
        { "fields of a call that nobody knows", CALL "7801 790102030405060708 7a020102 7d01020304",
          "d [u=a] 1" },
        { "the same of a descriptor", DOMAIN "121c " ENTRY "7801 790102030405060708 7a020102 7d01020304",
          "d [u=a] 1" },
        { "and of an entry", DOMAIN "120c 0a0a 0a0175 120161 7a020102", "d [u=a] 1" },
        { "one with the largest number there is", CALL "faffffff0f 0101", "d [u=a] 1" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        set_hex(rows[i].hex);
        enum rls_fault fault = read_bytes(bytes_len);
        if (fault != RLS_GOOD)
            fail_msg("%s: %s", rows[i].why, why_not);
        if (strcmp(line_of(&call), rows[i].line) != 0)
            fail_msg("%s: read %s, want %s", rows[i].why, line_of(&call), rows[i].line);
    }
}

#define NO_DOMAIN "rate limit domain must not be empty"
#define NO_LIST "rate limit descriptor list must not be empty"
#define NO_CALL "the message is no RateLimitRequest"

static void what_is_no_call_is_refused(void **state)
{
    static const struct {
        const char *why, *hex, *begin;
    } rows[] = {
        { "nothing", "", NO_DOMAIN },
        { "no domain", DESCRIPTOR, NO_DOMAIN },
        { "an empty one", "0a00 " DESCRIPTOR, NO_DOMAIN },
        { "no descriptor", DOMAIN, NO_LIST },
        { "an entry without key", DOMAIN "1205 0a03 120161", "rate limit descriptor entry has no key" },
        { "with an empty one", DOMAIN "1207 0a05 0a00 120161", "rate limit descriptor entry has no key" },
        { "a limit without unit", DOMAIN "120c " ENTRY "1202 080a", "rate limit override has no unit" },
        { "of a unit that is none", DOMAIN "120e " ENTRY "1204 080a 1007", "rate limit override has no unit" },
        { "of a negative one", DOMAIN "1217 " ENTRY "120d 080a 10ffffffffffffffffff01",
          "rate limit override has no unit" },
        { "a domain that is no UTF-8", "0a02c328 " DESCRIPTOR, "rate limit domain is not valid UTF-8" },
        { "also where another follows", "0a02c328 " CALL, "rate limit domain is not valid UTF-8" },
        { "such a key", DOMAIN "1209 0a07 0a02c328 120161", "rate limit descriptor entry is not valid UTF-8" },
        { "such a value", DOMAIN "1209 0a07 0a0175 1202c328",
          "rate limit descriptor entry is not valid UTF-8" },
        { "half of a surrogate pair", DOMAIN "120a 0a08 0a0175 1203eda080",
          "rate limit descriptor entry is not valid UTF-8" },
        { "a domain that is a number", "0801 " DESCRIPTOR, NO_CALL },
        { "hits that are text", CALL "1a0161", NO_CALL },
        { "a group", CALL "7b7c", NO_CALL },
        { "the end of one", CALL "7c", NO_CALL },
        { "a type that is none", CALL "7e01", NO_CALL },
        { "another", CALL "7f01", NO_CALL },
        { "a text that ends too early", "0a0564", NO_CALL },
        { "a descriptor that does", DOMAIN "1209 " ENTRY, NO_CALL },
        { "a length of more than there can be", "0affffffff7f64", NO_CALL },
        { "a number that does not end", CALL "18ffffffffffffffffffffff01", NO_CALL },
        { "a length in more bytes than a length has", "0a818080808000 64 " DESCRIPTOR, NO_CALL },
        { "a tag in more bytes than a tag has", "8a808080808000 0164 " DESCRIPTOR, NO_CALL },
        { "field 0", CALL "0001", NO_CALL },
        { "one that ends too early", CALL "1880", NO_CALL },
        { "a number without a field", CALL "18", NO_CALL },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        set_hex(rows[i].hex);
        if (read_bytes(bytes_len) != RLS_BAD)
            fail_msg("%s: is not refused", rows[i].why);
        if (strncmp(why_not, rows[i].begin, strlen(rows[i].begin)) != 0)
            fail_msg("%s: %s", rows[i].why, why_not);
    }
    /* The reference server's sentences, to the last letter. */
    set_hex("");
    (void)read_bytes(0);
    assert_string_equal(why_not, NO_DOMAIN);
    set_hex(DOMAIN);
    (void)read_bytes(bytes_len);
    assert_string_equal(why_not, NO_LIST);
}

static void counts_have_bounds(void **state)
{
    static const struct {
        const char *why, *part;
        size_t count;
        enum rls_fault fault;
        const char *begin;
    } rows[] = {
        { "as many descriptors as there may be", DESCRIPTOR, WEIR_DESCRIPTORS_MAX, RLS_GOOD, "" },
        { "one more", DESCRIPTOR, WEIR_DESCRIPTORS_MAX + 1, RLS_TOO_MUCH,
          "rate limit call has more than 64 descriptors" },
        { "many that say nothing", "1200", 30000, RLS_TOO_MUCH,
          "rate limit call has more than 64 descriptors" },
        { "many fields that nobody knows are none", "7801", 30000, RLS_BAD, NO_LIST },
        { "many domains are the last one", "0a0164", 3000, RLS_BAD, NO_LIST },
        { "more bytes than are read",
          "7a7e" /* 126 bytes of a field that nobody knows */
          "00000000000000000000000000000000000000000000000000000000000000000000000000"
          "00000000000000000000000000000000000000000000000000000000000000000000000000"
          "00000000000000000000000000000000000000000000000000000000000000000000000000"
          "000000000000000000000000000000",
          512, RLS_TOO_MUCH, "rate limit call is larger than 64 KiB" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        set_hex(DOMAIN);
        for (size_t k = 0; k < rows[i].count; k++)
            add_hex(rows[i].part);
        enum rls_fault fault = read_bytes(bytes_len);
        if (fault != rows[i].fault)
            fail_msg("%s: %d, %s", rows[i].why, fault, why_not);
        expect_row(fault == RLS_GOOD || strncmp(why_not, rows[i].begin, strlen(rows[i].begin)) == 0,
                   rows[i].why);
    }
}

static void entries_have_a_bound(void **state)
{
    (void)state;
    for (size_t count = WEIR_ENTRIES_MAX; count <= WEIR_ENTRIES_MAX + 1; count++) {
        set_hex(DOMAIN DESCRIPTOR "12");
        assert_true(count * 8 < 256 && count * 8 >= 128);
        bytes[bytes_len++] = (unsigned char)(count * 8 & 127) | 128;
        bytes[bytes_len++] = (unsigned char)(count * 8 >> 7);
        for (size_t i = 0; i < count; i++)
            add_hex(ENTRY);
        enum rls_fault fault = read_bytes(bytes_len);
        assert_int_equal(fault, count == WEIR_ENTRIES_MAX ? RLS_GOOD : RLS_TOO_MUCH);
        if (fault == RLS_GOOD)
            assert_int_equal(call.descriptors[1].entry_count, WEIR_ENTRIES_MAX);
        else
            assert_string_equal(why_not,
                                "rate limit descriptor has more than 24 entries: describe it by fewer");
    }
}

/* 64 descriptors of 24 entries that fill all that a call may have. */
static void the_largest_call_has_room(void **state)
{
    enum { VALUE = 35, ENTRY_LEN = 7 + VALUE - 2, DESCRIPTOR_LEN = 24 * (ENTRY_LEN + 2) };
    (void)state;
    set_hex(DOMAIN);
    for (size_t i = 0; i < WEIR_DESCRIPTORS_MAX; i++) {
        bytes[bytes_len++] = 0x12;
        bytes[bytes_len++] = (unsigned char)(DESCRIPTOR_LEN & 127) | 128;
        bytes[bytes_len++] = (unsigned char)(DESCRIPTOR_LEN >> 7);
        for (size_t k = 0; k < WEIR_ENTRIES_MAX; k++) {
            bytes[bytes_len++] = 0x0a;
            bytes[bytes_len++] = ENTRY_LEN;
            add_hex("0a0175 12");
            bytes[bytes_len++] = VALUE;
            memset(bytes + bytes_len, 'a' + (int)k, VALUE);
            bytes_len += VALUE;
        }
    }
    assert_true(bytes_len > RLS_CALL_MAX - 2048 && bytes_len <= RLS_CALL_MAX);
    assert_int_equal(read_bytes(bytes_len), RLS_GOOD);
    assert_int_equal(call.count, WEIR_DESCRIPTORS_MAX);
    const struct weir_descriptor *last = &call.descriptors[WEIR_DESCRIPTORS_MAX - 1];
    assert_int_equal(last->entry_count, WEIR_ENTRIES_MAX);
    assert_int_equal(last->entries[WEIR_ENTRIES_MAX - 1].value_len, VALUE);
    assert_int_equal(last->entries[WEIR_ENTRIES_MAX - 1].value[VALUE - 1], 'a' + 23);
}

static const char *const typical =
    "0a0474657374 121d 0a1b 0a0e72656d6f74655f61646472657373 12093139322e302e322e37 1801";

/* It is a call at two lengths only: with its descriptor, and with its hits, too. */
static void a_call_that_is_cut_is_none(void **state)
{
    (void)state;
    set_hex(typical);
    assert_int_equal(bytes_len, 39);
    for (size_t len = 0; len <= bytes_len; len++) {
        enum rls_fault fault = read_bytes(len);
        const char *want = len == 0 ? NO_DOMAIN : len == 6 ? NO_LIST : len == 37 || len == 39 ? NULL : NO_CALL;
        if (fault != (want == NULL ? RLS_GOOD : RLS_BAD))
            fail_msg("%zu bytes: %d, %s", len, fault, why_not);
        if (want != NULL && strncmp(why_not, want, strlen(want)) != 0)
            fail_msg("%zu bytes: %s", len, why_not);
    }
}

/* Bytes that were turned anyhow are read or refused; what is read lies among them or is empty. */
static void any_bytes_are_survived(void **state)
{
    struct random random = { random_seed(20261201) };
    (void)state;
    for (int run = 0; run < 100000; run++) {
        set_hex(run % 2 == 0 ? typical
                             : DOMAIN "1218 " ENTRY "1208 080a 1002 1a02 0805 1a02 0805 2001 7a020102 1805");
        for (uint64_t turns = 1 + random_below(&random, 4); turns > 0; turns--)
            bytes[random_below(&random, bytes_len)] = (unsigned char)random_u64(&random);
        if (read_bytes(random_below(&random, 8) == 0 ? random_below(&random, bytes_len) : bytes_len)
            != RLS_GOOD)
            continue;
        assert_in_range(call.count, 1, WEIR_DESCRIPTORS_MAX);
        for (size_t i = 0; i < call.count; i++)
            for (size_t k = 0; k < call.descriptors[i].entry_count; k++) {
                const struct weir_entry *entry = &call.descriptors[i].entries[k];
                assert_true(entry->key_len > 0 && is_inside(entry->key, entry->key_len));
                assert_true(is_inside(entry->value, entry->value_len));
            }
    }
}

/* ---- Writing --------------------------------------------------------------------------------------------- */

static const struct rls_status per_ip = { .code = RLS_OVER_LIMIT,
                                          .has_limit = true,
                                          .requests_per_unit = 10,
                                          .unit_multiplier = 1,
                                          .unit = RLS_MINUTE,
                                          .name = { "per-ip", 6 },
                                          .has_reset = true,
                                          .reset_seconds = 42 };

static void expect_written(const struct rls_answer *answer, const char *hex, const char *why)
{
    char written[512];
    set_hex(hex);
    for (size_t cap = 0; cap < bytes_len; cap++) { /* it fits whole, or nothing of it is there */
        struct text cut = text_of(written, cap);
        rls_write(answer, &cut);
        expect_row(cut.is_cut && cut.len == 0, why);
    }
    struct text out = text_of(written, bytes_len);
    rls_write(answer, &out);
    expect_row(!out.is_cut && out.len == bytes_len && memcmp(written, bytes, bytes_len) == 0, why);
}

static void answers_are_written(void **state)
{
    static struct rls_answer answer;
    (void)state;
    answer.overall = RLS_OVER_LIMIT;
    answer.count = 1;
    answer.statuses[0] = per_ip;
    answer.header_count = 1;
    answer.headers[0] = (struct rls_header){ SLICE("retry-after"), SLICE("42") };
    expect_written(&answer,
                   "0802 1214 0802 120c 080a 1002 1a06 7065722d6970 2202 082a "
                   "1a11 0a0b 72657472792d6166746572 1202 3432",
                   "over a limit, with a header");

    answer.overall = RLS_OK;
    answer.header_count = 0;
    answer.statuses[0] = (struct rls_status){ .code = RLS_OK,
                                              .has_limit = true,
                                              .requests_per_unit = 10,
                                              .unit = RLS_SECOND,
                                              .remaining = 9,
                                              .has_reset = true,
                                              .reset_seconds = 1 };
    expect_written(&answer, "0801 120e 0801 1204 080a 1001 1809 2202 0801", "within a limit");

    answer.statuses[0].unit_multiplier = 5;
    answer.statuses[0].unit = RLS_WEEK;
    answer.statuses[0].reset_seconds = 0;
    expect_written(&answer, "0801 1210 0801 1208 080a 1007 2202 0805 1809 2200",
                   "five weeks, whole again at once");

    answer.count = 2;
    answer.statuses[0] = (struct rls_status){ .code = RLS_OK };
    answer.statuses[1] = (struct rls_status){ .code = RLS_OK, .remaining = UINT32_MAX };
    expect_written(&answer, "0801 1202 0801 1208 0801 18ffffffff0f", "no limit, and one without end");

    answer.overall = RLS_OVER_LIMIT;
    answer.count = 0;
    answer.body = SLICE("{}\n");
    expect_written(&answer, "0802 2a03 7b7d0a", "a body alone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_read),
        cmocka_unit_test(what_is_no_call_is_refused),
        cmocka_unit_test(counts_have_bounds),
        cmocka_unit_test(entries_have_a_bound),
        cmocka_unit_test(the_largest_call_has_room),
        cmocka_unit_test(a_call_that_is_cut_is_none),
        cmocka_unit_test(any_bytes_are_survived),
        cmocka_unit_test(answers_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
