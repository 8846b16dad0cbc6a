// SPDX-License-Identifier: Apache-2.0
/*
 * log.c - formats a line on the stack and writes it with one call, so that lines of threads never mix; see log.h.
 *
 * The fields are made once, as logfmt. JSON is made of them: a quoted value is a JSON string already, a plain one gets
 * quotes, and the format says which values are numbers. So no caller writes anything twice, and none can forget an escape.
 */
#include "net/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "weir.h"

/* Longest line: four quoted values and the words around them; a field that does not fit is left out whole. */
#define LINE_MAX_BYTES 4096

/* As JSON a field has up to five bytes more. */
#define JSON_MAX_BYTES (LINE_MAX_BYTES + 5 * 128)

static enum log_form form;

static const char *const level_names[] = { [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error" };

/* ---- How many ------------------------------------------------------------------------------------------------------ */

/* More kinds than there are in the program; those beyond share the last bucket. */
#define KINDS_MAX 128

static const weir_rate line_rate = WEIR_RATE(LOG_PER_SECOND, WEIR_SECOND, LOG_BURST);

/* FREE, then CLAIMED by who writes the name, then NAMED for good. */
enum kind_state { KIND_FREE, KIND_CLAIMED, KIND_NAMED };

static struct kind {
    int state; /* an enum kind_state */
    char event[LOG_EVENT_MAX];
    weir_bucket bucket; /* of all zero: full */
    uint64_t left_out;
} kinds[KINDS_MAX];

/* Two threads that meet a new kind at once may give it two buckets: some lines more, and no wait. */
static struct kind *kind_of(const char *event)
{
    for (size_t i = 0; i < KINDS_MAX - 1; i++) {
        struct kind *kind = &kinds[i];
        int state = __atomic_load_n(&kind->state, __ATOMIC_ACQUIRE);
        if (state == KIND_FREE
            && __atomic_compare_exchange_n(&kind->state, &state, KIND_CLAIMED, false, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED)) {
            (void)snprintf(kind->event, sizeof kind->event, "%s", event);
            __atomic_store_n(&kind->state, KIND_NAMED, __ATOMIC_RELEASE);
            return kind;
        }
        if (state == KIND_NAMED && strncmp(kind->event, event, sizeof kind->event - 1) == 0)
            return kind;
    }
    return &kinds[KINDS_MAX - 1];
}

/* ---- The two forms -------------------------------------------------------------------------------------------------- */

bool log_form_parse(const char *word, enum log_form *out)
{
    if (strcmp(word, "logfmt") == 0)
        *out = LOG_LOGFMT;
    else if (strcmp(word, "json") == 0)
        *out = LOG_JSON;
    else
        return false;
    return true;
}

void log_form_set(enum log_form wanted)
{
    form = wanted;
}

enum log_form log_form_now(void)
{
    return form;
}

static size_t begin_line(char *line, enum log_level level, const char *event)
{
    static const char *const heads[] = {
        [LOG_LOGFMT] = "ts=%s.%03ldZ level=%s event=%s",
        [LOG_JSON] = "{\"ts\":\"%s.%03ldZ\",\"level\":\"%s\",\"event\":\"%s\"",
    };
    struct timespec now;
    struct tm utc;
    char stamp[32];
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with a clock that exists */
    (void)gmtime_r(&now.tv_sec, &utc);
    (void)strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    return (size_t)snprintf(line, LINE_MAX_BYTES, heads[form], stamp, now.tv_nsec / 1000000, level_names[level],
                            event);
}

/* Where the field that begins here ends: at the blank behind it, or the line's end; NULL: it was cut. */
static const char *field_end(const char *at)
{
    const char *value = strchr(at, '=');
    if (value == NULL)
        return NULL;
    if (*++value != '"')
        return value + strcspn(value, " ");
    for (value++; *value != '"'; value++) {
        if (*value == '\\')
            value++;
        if (*value == '\0')
            return NULL;
    }
    return value + 1;
}

/* The whole fields of `fields`, which was cut where it did not fit. Returns their length. */
static size_t whole_fields(const char *fields, bool is_cut)
{
    const char *at = fields, *whole = fields;
    while (*at != '\0') {
        const char *end = field_end(at);
        if (end == NULL || (is_cut && *end == '\0'))
            break;
        whole = end;
        at = *end == ' ' ? end + 1 : end;
    }
    return (size_t)(whole - fields);
}

/* Whether the field's value was written by %s, or stands in the format: then it is a word. `*format` moves to the next field. */
static bool is_word(const char **format)
{
    const char *value = strchr(*format, '=');
    const char *end = value == NULL ? NULL : strchr(value, ' ');
    bool is_text = value == NULL || value[1] != '%' || value[2] == 's' || value[2] == '.';
    *format = end == NULL ? "" : end + 1;
    return is_text;
}

static size_t put(char *line, size_t len, const char *bytes, size_t count)
{
    assert(len + count <= JSON_MAX_BYTES);
    memcpy(line + len, bytes, count);
    return len + count;
}

/* ,"name":value for each of the fields, which are whole. */
static size_t fields_to_json(char *line, size_t len, const char *fields, const char *format)
{
    while (*fields != '\0') {
        const char *end = field_end(fields), *value = strchr(fields, '=') + 1;
        bool has_quotes = is_word(&format) && *value != '"';
        len = put(line, len, ",\"", 2);
        len = put(line, len, fields, (size_t)(value - 1 - fields));
        len = put(line, len, "\":", 2);
        len = put(line, len, "\"", has_quotes);
        len = put(line, len, value, (size_t)(end - value));
        len = put(line, len, "\"", has_quotes);
        fields = *end == ' ' ? end + 1 : end;
    }
    return put(line, len, "}", 1);
}

static void write_line(enum log_level level, const char *event, const char *format, va_list values)
{
    char line[JSON_MAX_BYTES + 1], fields[LINE_MAX_BYTES - 256];
    size_t len = begin_line(line, level, event);
    int wanted = vsnprintf(fields, sizeof fields, format, values);
    if (wanted < 0)
        fields[0] = '\0';
    fields[whole_fields(fields, wanted >= (int)sizeof fields)] = '\0';
    if (form == LOG_JSON) {
        len = fields_to_json(line, len, fields, format);
    } else if (fields[0] != '\0') {
        len = put(line, len, " ", 1);
        len = put(line, len, fields, strlen(fields));
    }
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) < 0)
        return; /* nobody reads standard error: there is no other place to say so */
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    struct kind *kind = kind_of(event);
    if (weir_bucket_take_shared(&kind->bucket, &line_rate, weir_now(), 1).outcome != WEIR_ALLOW) {
        (void)__atomic_add_fetch(&kind->left_out, 1, __ATOMIC_RELAXED);
        return;
    }
    va_list values;
    va_start(values, format);
    write_line(level, event, format, values);
    va_end(values);
}

void log_foreign(enum log_level level, const char *event, const char *fields)
{
    char made[LINE_MAX_BYTES];
    size_t len = 0;
    for (const char *at = fields; *at != '\0'; at += *at == ' ') {
        char value[LOG_VALUE_MAX + 1], quoted[LOG_QUOTED_MAX];
        size_t name_len = strcspn(at, "= ");
        const char *raw = at + name_len + (at[name_len] == '=');
        bool has_quotes = *raw == '"';
        size_t raw_len = has_quotes ? strcspn(raw + 1, "\"") : strcspn(raw, " ");
        (void)snprintf(value, sizeof value, "%.*s", (int)raw_len,
                       raw + has_quotes); /* cut where it is too long */
        if (len + name_len + LOG_QUOTED_MAX + 2 > sizeof made)
            break;
        len += (size_t)sprintf(made + len, "%s%.*s=%s", len == 0 ? "" : " ", (int)name_len, at,
                               log_quote(value, quoted));
        at = raw + has_quotes + raw_len;
        at += has_quotes && *at == '"';
    }
    log_event(level, event, "%.*s", (int)len, made);
}

__attribute__((format(printf, 3, 4))) static void write_unbounded(enum log_level level, const char *event,
                                                                  const char *format, ...)
{
    va_list values;
    va_start(values, format);
    write_line(level, event, format, values);
    va_end(values);
}

void log_left_out(void)
{
    for (size_t i = 0; i < KINDS_MAX; i++) {
        bool is_named = __atomic_load_n(&kinds[i].state, __ATOMIC_ACQUIRE) == KIND_NAMED;
        const char *event = is_named ? kinds[i].event : "others";
        uint64_t count = __atomic_exchange_n(&kinds[i].left_out, 0, __ATOMIC_RELAXED);
        if (count > 0)
            write_unbounded(LOG_WARN, "lines_left_out", "of=%s lines=%" PRIu64, event, count);
    }
}

/* ---- Values ---------------------------------------------------------------------------------------------------------- */

/* Letters, digits and signs that neither end a value nor look like a field. */
static bool is_plain(const char *value)
{
    for (const char *at = value; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 127 || *at == '"' || *at == '=' || *at == '\\')
            return false;
    return value[0] != '\0';
}

/* One character of UTF-8, and its length; 0: what begins here is none, or not the shortest form. */
static size_t decode(const unsigned char *at, uint32_t *out)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len = at[0] < 0x80   ? 1
                 : at[0] < 0xc2 ? 0
                 : at[0] < 0xe0 ? 2
                 : at[0] < 0xf0 ? 3
                 : at[0] < 0xf5 ? 4
                                : 0;
    if (len <= 1) {
        *out = at[0];
        return len;
    }
    uint32_t code = at[0] & (0x7fU >> len);
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80) /* also the final zero */
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    *out = code;
    return code < least[len] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : len;
}

/* What stands for the character at `at`, of `len` bytes, in quotes. Returns the length of what was written. */
static size_t escape(char to[8], const unsigned char *at, size_t len, uint32_t code)
{
    const char *shorts = "\"\"\\\\\nn\rr\tt";
    if (len == 0)
        return (size_t)sprintf(to, "\xef\xbf\xbd");
    for (const char *pair = shorts; code < 127 && *pair != '\0'; pair += 2)
        if ((unsigned char)*pair == code)
            return (size_t)sprintf(to, "\\%c", pair[1]);
    if (code < ' ' || (code >= 127 && code < 0xa0))
        return (size_t)sprintf(to, "\\u%04x", (unsigned)code);
    memcpy(to, at, len);
    return len;
}

const char *log_quote(const char *value, char out[LOG_QUOTED_MAX])
{
    if (strnlen(value, LOG_VALUE_MAX + 1) <= LOG_VALUE_MAX && is_plain(value))
        return strcpy(out, value);
    size_t len = 0;
    out[len++] = '"';
    for (const unsigned char *at = (const unsigned char *)value; *at != '\0';) {
        char shown[8];
        uint32_t code = 0;
        size_t used = decode(at, &code), shown_len = escape(shown, at, used, code);
        if (len + shown_len > LOG_VALUE_MAX) {
            len += (size_t)sprintf(out + len, "...");
            break;
        }
        memcpy(out + len, shown, shown_len);
        len += shown_len;
        at += used == 0 ? 1 : used;
    }
    out[len++] = '"';
    out[len] = '\0';
    return out;
}
