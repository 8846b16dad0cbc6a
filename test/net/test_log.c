// SPDX-License-Identifier: Apache-2.0
/* test_log.c - whole lines of both forms: what they hold, how many there are, and that what is left out is told. */
#include "support/unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <unistd.h>

#include "net/log.h"

/* What `write` says on standard error. The caller frees it. */
static char *said_by(void (*write_lines)(void))
{
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_non_null(file);
    assert_true(before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    write_lines();
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before);
    long len = lseek(fileno(file), 0, SEEK_END);
    char *text = calloc(1, (size_t)len + 1);
    assert_int_equal(pread(fileno(file), text, (size_t)len, 0), len);
    (void)fclose(file);
    return text;
}

static size_t lines_of(const char *text)
{
    size_t count = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        count++;
    return count;
}

static char quoted[LOG_QUOTED_MAX], other[LOG_QUOTED_MAX];

static void write_samples(void)
{
    log_event(LOG_INFO, "bare", "%s", "");
    log_event(LOG_WARN, "mixed", "door=%s n=%zu text=%s big=%" PRIu64 " last=%s", "http", (size_t)7,
              log_quote("a \"b\"\n=", quoted), UINT64_MAX, log_quote("plain", other));
    log_event(LOG_ERROR, "digits", "version=%s count=%d", "1234567890123456", -3);
    log_foreign(LOG_WARN, "foreign", "node=10.0.0.1:6379 why=\"it said \\ x=\x1b\x01 y\" key=a\"b\xff");
}

static void logfmt(void **state)
{
    (void)state;
    log_form_set(LOG_LOGFMT);
    char *text = said_by(write_samples);
    assert_int_equal(lines_of(text), 4);
    assert_non_null(strstr(text, " level=info event=bare\n"));
    assert_non_null(strstr(text, " level=warn event=mixed door=http n=7 text=\"a \\\"b\\\"\\n=\" "
                                 "big=18446744073709551615 last=plain\n"));
    assert_non_null(strstr(text, " level=error event=digits version=1234567890123456 count=-3\n"));
    assert_non_null(strstr(text, " event=foreign node=10.0.0.1:6379 why=\"it said \\\\ x=\\u001b\\u0001 y\" "
                                 "key=\"a\\\"b\xef\xbf\xbd\"\n"));
    free(text);
}

static const char *text_in(const json_t *line, const char *name)
{
    const char *value = json_string_value(json_object_get(line, name));
    if (value == NULL)
        fail_msg("%s is no string", name);
    return value;
}

static void json(void **state)
{
    (void)state;
    log_form_set(LOG_JSON);
    char *text = said_by(write_samples), *at = text;
    json_t *lines[4];
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        char *end = strchr(at, '\n');
        assert_non_null(end);
        lines[i] = json_loadb(at, (size_t)(end - at), JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
        if (lines[i] == NULL)
            fail_msg("no JSON: %.*s", (int)(end - at), at);
        at = end + 1;
    }
    assert_string_equal(at, "");
    assert_int_equal(strlen(text_in(lines[0], "ts")), strlen("2026-01-01T00:00:00.000Z"));
    assert_int_equal(json_object_size(lines[0]), 3);
    assert_string_equal(text_in(lines[1], "level"), "warn");
    assert_string_equal(text_in(lines[1], "door"), "http");
    assert_string_equal(text_in(lines[1], "text"), "a \"b\"\n=");
    assert_string_equal(text_in(lines[1], "last"), "plain");
    assert_true(json_real_value(json_object_get(lines[1], "n")) == 7);
    assert_true(json_is_real(json_object_get(lines[1], "big")));
    assert_string_equal(text_in(lines[2], "version"),
                        "1234567890123456"); /* never now a string, now a number */
    assert_true(json_real_value(json_object_get(lines[2], "count")) == -3);
    assert_string_equal(text_in(lines[3], "why"), "it said \\ x=\x1b\x01 y");
    assert_string_equal(text_in(lines[3], "key"), "a\"b\xef\xbf\xbd");
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        json_decref(lines[i]);
    free(text);
    log_form_set(LOG_LOGFMT);
}

static void write_too_long(void)
{
    char long_text[6000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    log_event(LOG_INFO, "long", "first=%s second=%s third=%s", "1", long_text, "3");
    log_event(LOG_INFO, "long", "first=%s second=\"%s\" third=%s", "1", long_text, "3");
}

static void a_field_that_does_not_fit_is_left_out_whole(void **state)
{
    (void)state;
    char *text = said_by(write_too_long);
    assert_int_equal(lines_of(text), 2);
    for (const char *at = text; (at = strstr(at, "event=long")) != NULL; at++)
        assert_memory_equal(at, "event=long first=1\n", strlen("event=long first=1\n"));
    free(text);
}

static void write_many(void)
{
    for (int i = 0; i < 1000; i++)
        log_event(LOG_WARN, "flood", "i=%d", i);
    log_event(LOG_INFO, "calm", "i=%d", 1);
    log_left_out();
    log_left_out();
}

static void each_kind_has_a_bucket_and_what_is_left_out_is_told(void **state)
{
    (void)state;
    char *text = said_by(write_many);
    size_t count = lines_of(text);
    /* The burst, what a slow machine refills meanwhile, the calm one and one that tells. */
    assert_in_range(count, LOG_BURST + 2, LOG_BURST + 2 + 10 * LOG_PER_SECOND);
    assert_non_null(strstr(text, "event=calm i=1\n"));
    const char *told = strstr(text, "level=warn event=lines_left_out of=flood lines=");
    assert_non_null(told);
    assert_int_equal(atoi(strstr(told, "lines=") + 6), 1000 - (count - 2));
    assert_null(strstr(strstr(told, "lines="), "lines_left_out")); /* once */
    free(text);
}

static void write_kinds(void)
{
    for (int i = 0; i < 1000; i++) {
        char event[LOG_EVENT_MAX];
        (void)snprintf(event, sizeof event, "kind%d", i);
        log_event(LOG_INFO, event, "i=%d", i);
    }
    log_left_out();
}

static void there_may_be_more_kinds_than_buckets(void **state)
{
    (void)state;
    char *text = said_by(write_kinds);
    assert_non_null(strstr(text, "event=kind0 i=0\n"));
    assert_non_null(strstr(text, "event=lines_left_out of=others lines="));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logfmt),
        cmocka_unit_test(json),
        cmocka_unit_test(a_field_that_does_not_fit_is_left_out_whole),
        cmocka_unit_test(each_kind_has_a_bucket_and_what_is_left_out_is_told),
        cmocka_unit_test(there_may_be_more_kinds_than_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
