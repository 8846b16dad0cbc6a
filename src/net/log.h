// SPDX-License-Identifier: Apache-2.0
/*
 * log.h - one event a line on standard error: `ts=… level=info event=listening door=http addr=…`.
 *
 * A line states an event, never a secret or a client's key. Lines are limited by a bucket of our own, since a peer
 * that can cause a line could otherwise fill a disk; what was dropped is counted on the next line.
 */
#ifndef WEIR_NET_LOG_H
#define WEIR_NET_LOG_H

#include <stddef.h>

enum log_level { LOG_INFO, LOG_WARN, LOG_ERROR };

/* `format` makes the fields behind the event: "door=http addr=%s". Values with blanks come from log_quote(). */
__attribute__((format(printf, 3, 4))) void log_event(enum log_level level, const char *event,
                                                     const char *format, ...);

/* Longest value that log_quote() keeps, and the room it needs: every byte may become two, between quotes. */
#define LOG_VALUE_MAX 256
#define LOG_QUOTED_MAX (2 * LOG_VALUE_MAX + 3)

/* The value as it may stand behind `=`: quoted where it holds blanks, quotes or control bytes. Returns `out`. */
const char *log_quote(const char *value, char out[LOG_QUOTED_MAX]);

#endif
