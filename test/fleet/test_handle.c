// SPDX-License-Identifier: Apache-2.0
/*
 * test_handle.c - handles as bytes: what is written is read back, and nothing else is read.
 */
#include "fleet/handle.h"

#include <stdlib.h>

#include "support/random.h"
#include "support/unit.h"

#define SECRET "0123456789abcdef"

static void free_all(struct block *block)
{
    while (block != NULL) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
}

/* ---- Samples ---------------------------------------------------------------------------------------------------------- */

static const struct weir_limit limits[] = {
    { .name = "tokens", .algorithm = WEIR_TOKEN_BUCKET },
    { .name = "meter", .algorithm = WEIR_LEAKY_BUCKET, .refused = WEIR_REFUSAL_CHARGED },
    { .name = "window", .algorithm = WEIR_FIXED_WINDOW, .state_lost = WEIR_LOST_EMPTY },
    { .name = "first", .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_FIRST_REQUEST },
    { .name = "month",
      .algorithm = WEIR_FIXED_WINDOW,
      .align = WEIR_ALIGN_CALENDAR,
      .calendar = WEIR_CALENDAR_MONTH,
      .zone = "Europe/Berlin" },
    { .name = "day",
      .algorithm = WEIR_FIXED_WINDOW,
      .align = WEIR_ALIGN_CALENDAR,
      .calendar = WEIR_CALENDAR_DAY },
    { .name = "sliding", .algorithm = WEIR_SLIDING_WINDOW },
    { .name = "log", .algorithm = WEIR_SLIDING_LOG },
    { .name = "runs", .algorithm = WEIR_CONCURRENCY },
};

static struct weir_shared_size size_of(const struct weir_limit *limit)
{
    struct weir_shared_size size = { .tick = WEIR_MICROSECOND, .capacity = 200, .period = 60000000 };
    if (limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET) {
        size.count = 7;
        size.debt = 13;
    }
    if (limit->align == WEIR_ALIGN_CALENDAR)
        size.period = 0;
    if (limit->algorithm == WEIR_SLIDING_LOG)
        size.tick = WEIR_MILLISECOND;
    return size;
}

static const char letters[] = "bbffffslc";

struct sample {
    struct handle handle;
    struct script_call calls[3];
    struct script_item items[3][COUNT_OF(limits)];
    char names[3][COUNT_OF(limits)][128];
};

/* Three groups, each of all kinds. */
static void make_sample(struct sample *sample, enum handle_kind kind)
{
    *sample = (struct sample){ .handle = { kind, (const uint8_t *)SECRET, 3, sample->calls } };
    for (size_t i = 0; i < 3; i++) {
        sample->calls[i] = (struct script_call){ .items = sample->items[i], .count = COUNT_OF(limits) };
        for (size_t j = 0; j < COUNT_OF(limits); j++) {
            int len = snprintf(sample->names[i][j], sizeof sample->names[i][j],
                               "weir:1:{tenant=t%zu}:%s:%c:path=/%zu", i == 2 ? j : i, limits[j].name,
                               letters[j], j / 2);
            sample->items[i][j] = (struct script_item){ .name = { sample->names[i][j], (size_t)len },
                                                        .limit = &limits[j],
                                                        .size = size_of(&limits[j]),
                                                        .is_watched = j % 3 == 1,
                                                        .is_estimate = j % 2 == 0,
                                                        .cost = 99 };
        }
    }
}

static size_t write_sample(const struct sample *sample, char *out, size_t cap)
{
    struct text text = text_of(out, cap);
    return handle_write(&text, &sample->handle) ? text.len : 0;
}

static void expect_item(const struct script_item *read, const struct script_item *written)
{
    assert_true(slice_equals(read->name, written->name));
    assert_string_equal(read->limit->name, written->limit->name);
    assert_int_equal(read->limit->algorithm, written->limit->algorithm);
    assert_int_equal(read->limit->align, written->limit->align);
    assert_int_equal(read->limit->refused, written->limit->refused);
    assert_int_equal(read->limit->state_lost, written->limit->state_lost);
    if (written->limit->align == WEIR_ALIGN_CALENDAR) {
        assert_int_equal(read->limit->calendar, written->limit->calendar);
        assert_true((read->limit->zone == NULL) == (written->limit->zone == NULL));
        assert_true(read->limit->zone == NULL || strcmp(read->limit->zone, written->limit->zone) == 0);
    }
    assert_memory_equal(&read->size, &written->size, offsetof(struct weir_shared_size, is_unlimited));
    assert_int_equal(read->is_watched, written->is_watched);
    assert_int_equal(read->is_estimate, written->is_estimate);
}

/* ---- Tests ---------------------------------------------------------------------------------------------------------------- */

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    static struct sample sample;
    static char bytes[FLEET_HANDLE_MAX];
    struct handle handle;
    struct block *blocks = NULL;
    make_sample(&sample, HANDLE_RESERVATION);
    size_t len = write_sample(&sample, bytes, sizeof bytes);
    assert_true(len > 0 && len < 27 * 50); /* compact: names share their fronts */
    assert_int_equal(handle_read((unsigned char *)bytes, len, &blocks, &handle), HANDLE_OK);
    assert_true(handle.kind == HANDLE_RESERVATION && handle.count == 3);
    for (size_t i = 0; i < 3; i++) {
        char record[96], id[SCRIPT_ID_LEN];
        assert_true(handle_id(HANDLE_RESERVATION, (const uint8_t *)SECRET, &sample.calls[i], id) > 0);
        assert_true(slice_equals(handle.calls[i].id, (struct slice){ id, sizeof id }));
        (void)snprintf(record, sizeof record, "weir:1:{tenant=t%d}:~r:%.32s", i == 2 ? 0 : (int)i, id);
        assert_true(slice_equals(handle.calls[i].record, slice_of(record)));
        assert_int_equal(handle.calls[i].count, COUNT_OF(limits));
        for (size_t j = 0; j < COUNT_OF(limits); j++)
            expect_item(&handle.calls[i].items[j], &sample.items[i][j]);
    }
    free_all(blocks);
}

static void a_permit_names_only_what_holds_permits(void **state)
{
    (void)state;
    static struct sample sample;
    static char bytes[FLEET_HANDLE_MAX];
    struct handle handle;
    struct block *blocks = NULL;
    make_sample(&sample, HANDLE_PERMIT);
    size_t len = write_sample(&sample, bytes, sizeof bytes);
    assert_int_equal(handle_read((unsigned char *)bytes, len, &blocks, &handle), HANDLE_OK);
    assert_true(handle.kind == HANDLE_PERMIT && handle.count == 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(handle.calls[i].count, 1);
        expect_item(&handle.calls[i].items[0], &sample.items[i][COUNT_OF(limits) - 1]);
        assert_int_equal(handle.calls[i].items[0].limit->hold, 60 * WEIR_SECOND);
    }
    free_all(blocks);
}

static void who_holds_no_permit_is_not_written(void **state)
{
    (void)state;
    static struct sample sample;
    static char bytes[FLEET_HANDLE_MAX];
    size_t last = COUNT_OF(limits) - 1;
    make_sample(&sample, HANDLE_PERMIT);
    size_t len = write_sample(&sample, bytes, sizeof bytes);
    sample.items[0][last].is_watched = true; /* only looked at */
    size_t watched = write_sample(&sample, bytes, sizeof bytes);
    sample.items[1][last].cost = 0;
    assert_true(watched < len && write_sample(&sample, bytes, sizeof bytes) < watched);
}

/* The id is what the store keeps it under: an altered handle names nothing. */
static void an_altered_handle_names_another_id(void **state)
{
    (void)state;
    static struct sample sample;
    static char bytes[FLEET_HANDLE_MAX];
    char id[SCRIPT_ID_LEN];
    unsigned readable = 0;
    make_sample(&sample, HANDLE_RESERVATION);
    sample.handle.count = 1;
    size_t len = write_sample(&sample, bytes, sizeof bytes);
    assert_true(handle_id(HANDLE_RESERVATION, (const uint8_t *)SECRET, &sample.calls[0], id) > 0);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        struct handle handle;
        struct block *blocks = NULL;
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        if (handle_read((unsigned char *)bytes, len, &blocks, &handle) == HANDLE_OK) {
            readable++;
            assert_false(slice_equals(handle.calls[0].id, (struct slice){ id, sizeof id }));
        }
        free_all(blocks);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_true(readable > 128);
    /* A permit is no reservation by another name. */
    char other[SCRIPT_ID_LEN];
    sample.calls[0].count = 1;
    sample.calls[0].items = &sample.items[0][COUNT_OF(limits) - 1];
    assert_true(handle_id(HANDLE_RESERVATION, (const uint8_t *)SECRET, &sample.calls[0], id) > 0);
    assert_true(handle_id(HANDLE_PERMIT, (const uint8_t *)SECRET, &sample.calls[0], other) > 0);
    assert_memory_not_equal(id, other, sizeof id);
}

static enum handle_result read_bytes(const void *bytes, size_t len)
{
    struct handle handle;
    struct block *blocks = NULL;
    unsigned char *exact = malloc(len + (len == 0)); /* so that reading beyond is seen */
    assert_non_null(exact);
    memcpy(exact, bytes, len);
    enum handle_result result = handle_read(exact, len, &blocks, &handle);
    free_all(blocks);
    free(exact);
    return result;
}

static void a_cut_or_longer_one_is_none(void **state)
{
    (void)state;
    static struct sample sample;
    static char bytes[FLEET_HANDLE_MAX];
    make_sample(&sample, HANDLE_RESERVATION);
    size_t len = write_sample(&sample, bytes, sizeof bytes);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(read_bytes(bytes, i), HANDLE_BAD);
    assert_int_equal(read_bytes(bytes, len), HANDLE_OK);
    assert_int_equal(read_bytes(bytes, len + 1), HANDLE_BAD);
}

/* Small ones by hand: version, kind, id, groups, items, shared, rest, name, flags, tick, capacity, debt, count, period. */
#define HEAD(kind) "\x01" kind "0123456789abcdef\x01\x01"
#define NAME "\x00\x0eweir:1:{a}:x:b"
#define PERMIT_NAME "\x00\x0eweir:1:{a}:x:c"
static void others_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *why, *bytes;
        size_t len;
        enum handle_result result;
    } rows[] = {
#define ROW(why, bytes, result) { why, bytes, sizeof(bytes) - 1, result }
        ROW("as it should be", HEAD("r") NAME "\x00\x01\x0a\x00\x01\x05", HANDLE_OK),
        ROW("another version", "\x02r0123456789abcdef\x01\x01" NAME "\x00\x01\x0a\x00\x01\x05", HANDLE_BAD),
        ROW("another kind", HEAD("s") NAME "\x00\x01\x0a\x00\x01\x05", HANDLE_BAD),
        ROW("no groups", "\x01r0123456789abcdef\x00", HANDLE_BAD),
        ROW("no items", "\x01r0123456789abcdef\x01\x00", HANDLE_BAD),
        ROW("65 items", "\x01r0123456789abcdef\x01\x41" NAME "\x00\x01\x0a\x00\x01\x05", HANDLE_BAD),
        ROW("a name that is not ours",
            HEAD("r") "\x00\x0e"
                      "WEIR:1:{a}:x:b"
                      "\x00\x01\x0a\x00\x01\x05",
            HANDLE_BAD),
        ROW("a record's name",
            HEAD("r") "\x00\x10"
                      "weir:1:{a}:~r:00"
                      "\x00\x01\x0a\x00\x01\x05",
            HANDLE_BAD),
        ROW("a number with a useless zero", HEAD("r") NAME "\x80\x00\x01\x0a\x00\x01\x05", HANDLE_BAD),
        ROW("an unknown flag", HEAD("r") NAME "\x80\x01\x01\x0a\x00\x01\x05", HANDLE_BAD),
        ROW("first request and calendar at once", HEAD("r") NAME "\x30\x01\x0a\x00\x01\x05", HANDLE_BAD),
        ROW("a calendar bucket", HEAD("r") NAME "\x20\x01\x0a\x00\x01\x05\x00\x00", HANDLE_BAD),
        ROW("a tick of 2 us", HEAD("r") NAME "\x00\x02\x0a\x00\x01\x05", HANDLE_BAD),
        ROW("a tick of 1 ms", HEAD("r") NAME "\x00\xe8\x07\x0a\x00\x01\x05", HANDLE_OK),
        ROW("a bucket that refills in no time", HEAD("r") NAME "\x00\x01\x0a\x00\x01\x00", HANDLE_BAD),
        ROW("a bucket that never refills", HEAD("r") NAME "\x00\x01\x0a\x00\x00\x00", HANDLE_OK),
        ROW("products beyond 2^52", HEAD("r") NAME "\x00\x01\xff\xff\xff\xff\x0f\x00\x01\xff\xff\xff\xff\x0f",
            HANDLE_BAD),
        ROW("more than 64 bits", HEAD("r") NAME "\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00\x01\x05",
            HANDLE_BAD),
        ROW("a permit of a bucket", HEAD("p") NAME "\x00\x01\x0a\x00\x01\x05", HANDLE_BAD),
        ROW("a permit", HEAD("p") PERMIT_NAME "\x00\x01\x0a\x00\x00\x05", HANDLE_OK),
        ROW("a permit with a debt", HEAD("p") PERMIT_NAME "\x00\x01\x0a\x01\x00\x05", HANDLE_BAD),
        ROW("a permit that is leaky", HEAD("p") PERMIT_NAME "\x40\x01\x0a\x00\x00\x05", HANDLE_BAD),
        ROW("a permit that is held for no time", HEAD("p") PERMIT_NAME "\x00\x01\x0a\x00\x00\x00", HANDLE_BAD),
        ROW("shares more than there was",
            HEAD("r") "\x01\x0d"
                      "eir:1:{a}:x:b"
                      "\x00\x01\x0a\x00\x01\x05",
            HANDLE_BAD),
        ROW("two of one tag",
            "\x01r0123456789abcdef\x01\x02" NAME "\x00\x01\x0a\x00\x01\x05"
            "\x0b\x03"
            "y:b"
            "\x00\x01\x0a\x00\x01\x05",
            HANDLE_OK),
        ROW("shares less than there is",
            "\x01r0123456789abcdef\x01\x02" NAME "\x00\x01\x0a\x00\x01\x05"
            "\x0a\x04"
            ":y:b"
            "\x00\x01\x0a\x00\x01\x05",
            HANDLE_BAD),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_row(read_bytes(rows[i].bytes, rows[i].len) == rows[i].result, rows[i].why);
}

static void a_handle_that_would_be_too_long_is_not_written(void **state)
{
    (void)state;
    static struct sample sample;
    static char bytes[FLEET_HANDLE_MAX];
    make_sample(&sample, HANDLE_RESERVATION);
    size_t len = write_sample(&sample, bytes, sizeof bytes);
    assert_int_equal(write_sample(&sample, bytes, len - 1), 0);
    assert_int_equal(write_sample(&sample, bytes, len), len);
}

static void any_bytes_are_read_without_harm(void **state)
{
    (void)state;
    static struct sample sample;
    static char bytes[FLEET_HANDLE_MAX];
    struct random random = { random_seed(11) };
    make_sample(&sample, HANDLE_RESERVATION);
    size_t len = write_sample(&sample, bytes, sizeof bytes);
    for (int i = 0; i < 20000; i++) {
        size_t at = random_below(&random, len);
        char was = bytes[at];
        bytes[at] = (char)random_u64(&random);
        (void)read_bytes(bytes, len);
        bytes[at] = was;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(a_permit_names_only_what_holds_permits),
        cmocka_unit_test(who_holds_no_permit_is_not_written),
        cmocka_unit_test(an_altered_handle_names_another_id),
        cmocka_unit_test(a_cut_or_longer_one_is_none),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(a_handle_that_would_be_too_long_is_not_written),
        cmocka_unit_test(any_bytes_are_read_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
