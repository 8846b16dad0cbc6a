// SPDX-License-Identifier: Apache-2.0
/*
 * log.h - one event a line on standard error: `ts=… level=info event=listening door=http addr=…`, or the same as JSON.
 *
 * A line states an event, never a secret or a client's key; denials are no events, they are counted (counters.h). Each kind
 * of event has a bucket of its own, since a peer that can cause a line could otherwise fill a disk or drown the other lines;
 * how many were left out is told once a second by an event of its own.
 *
 * Words      the form: set before there are threads. The buckets and what was left out, of each kind: any thread.
 * Ordering   relaxed but for a kind's state: released behind its name, or a reader would compare half of it.
 * Progress   lock-free; a line is one write.
 */
#ifndef WEIR_NET_LOG_H
#define WEIR_NET_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_INFO, LOG_WARN, LOG_ERROR };

enum log_form { LOG_LOGFMT, LOG_JSON };

/* "logfmt" or "json"; false: neither. */
bool log_form_parse(const char *word, enum log_form *out);

/* Before the first line. */
void log_form_set(enum log_form form);
enum log_form log_form_now(void);

/*
 * `event` is shorter than LOG_EVENT_MAX and copied. `format` makes the fields behind it and nothing else: "door=%s addr=%s", with one blank in between. What is foreign
 * comes through log_quote(); in JSON what is written by %s is a string and what is written by another conversion a number.
 */
__attribute__((format(printf, 3, 4))) void log_event(enum log_level level, const char *event,
                                                     const char *format, ...);

/*
 * The same with fields that another layer made: name=value, where a value with blanks stands in quotes that it does not itself
 * contain, and nothing is escaped. Their values are strings in JSON.
 */
void log_foreign(enum log_level level, const char *event, const char *fields);

/* Tell what was left out since the last time. Once a second, and at the end. */
void log_left_out(void);

#define LOG_EVENT_MAX 48

/* Lines of one kind of event that a burst may have, and then each second. */
#define LOG_BURST 100
#define LOG_PER_SECOND 5

/* Longest value that log_quote() keeps in bytes, and the room it needs. */
#define LOG_VALUE_MAX 400
#define LOG_QUOTED_MAX (LOG_VALUE_MAX + 115)

/*
 * The value as it may stand behind `=`: in quotes where it is more than plain words, with the escapes of JSON, so that both forms
 * show it alike. Control bytes are escaped, what is no UTF-8 is U+FFFD, and what is too long ends in three dots. Returns `out`.
 */
const char *log_quote(const char *value, char out[LOG_QUOTED_MAX]);

#endif
