// SPDX-License-Identifier: Apache-2.0
/* log.c - formats a line on the stack and writes it with one call, so that lines of threads never mix; see log.h. */
#include "net/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "weir.h"

/* Longest line: three quoted values and the words around them. */
#define LINE_MAX_BYTES 2048

/* Lines of one process: starting and stopping write a few dozen, faults at most ten a second. */
static const weir_rate line_rate = WEIR_RATE(10, WEIR_SECOND, 200);
static weir_bucket line_bucket = WEIR_BUCKET_FULL;
static uint64_t dropped; /* lines since the last that was written; any thread */

static const char *const level_names[] = { [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error" };

static size_t begin_line(char *line, enum log_level level, const char *event)
{
    struct timespec now;
    struct tm utc;
    char stamp[32];
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with a clock that exists */
    (void)gmtime_r(&now.tv_sec, &utc);
    (void)strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    return (size_t)snprintf(line, LINE_MAX_BYTES, "ts=%s.%03ldZ level=%s event=%s", stamp,
                            now.tv_nsec / 1000000, level_names[level], event);
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    if (weir_bucket_take_shared(&line_bucket, &line_rate, weir_now(), 1).outcome != WEIR_ALLOW) {
        (void)__atomic_add_fetch(&dropped, 1, __ATOMIC_RELAXED);
        return;
    }
    char line[LINE_MAX_BYTES];
    size_t len = begin_line(line, level, event);
    uint64_t missing = __atomic_exchange_n(&dropped, 0, __ATOMIC_RELAXED);
    if (missing > 0)
        len += (size_t)snprintf(line + len, sizeof line - len, " dropped_lines=%" PRIu64, missing);
    if (format[0] != '\0')
        line[len++] = ' ';

    va_list values;
    va_start(values, format);
    int added = vsnprintf(line + len, sizeof line - len, format, values);
    va_end(values);
    len += added < 0 ? 0 : (size_t)added;
    if (len > sizeof line - 1)
        len = sizeof line - 1;
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) < 0)
        return; /* nobody reads standard error: there is no other place to say so */
}

static bool is_plain(const char *value)
{
    for (const char *at = value; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || *at == '"' || *at == '=' || *at == '\\' || *at == 127)
            return false;
    return value[0] != '\0';
}

const char *log_quote(const char *value, char out[LOG_QUOTED_MAX])
{
    size_t value_len = strnlen(value, LOG_VALUE_MAX);
    if (value_len < LOG_VALUE_MAX && is_plain(value))
        return strcpy(out, value);
    size_t len = 0;
    out[len++] = '"';
    for (size_t i = 0; i < value_len; i++) {
        unsigned char c = (unsigned char)value[i];
        if (c == '"' || c == '\\')
            out[len++] = '\\';
        out[len++] = c < ' ' || c == 127 ? '?' : (char)c;
    }
    out[len++] = '"';
    out[len] = '\0';
    return out;
}
