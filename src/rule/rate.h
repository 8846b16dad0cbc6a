// SPDX-License-Identifier: Apache-2.0
/*
 * rate.h - the words for how fast: COUNT/[N]UNIT, as in 5/s, 100/15m, 1/3d, 2/month.
 *
 * One spelling means one length; nothing is rounded and nothing has a unit by default.
 */
#ifndef WEIR_RULE_RATE_H
#define WEIR_RULE_RATE_H

#include "rule/text.h"

enum unit {
    UNIT_MS,
    UNIT_S,
    UNIT_M,
    UNIT_H,
    UNIT_D,
    UNIT_W,
    UNIT_MONTH, /* only calendars have these two: their lengths vary */
    UNIT_YEAR,
    UNIT_COUNT
};

struct rate {
    uint64_t count;
    uint64_t multiple; /* N */
    enum unit unit;
    weir_ns period; /* multiple * unit; 0 for months and years */
};

/* Valid forms, for cures. */
#define RATE_FORMS \
    "write COUNT/[N]UNIT without blanks, such as 5/s, 100/15m or 1/3d; the units are ms, s, m (minutes), h, " \
    "d, w"

/* NULL, or what is wrong: "has no unit". */
const char *rate_parse(struct slice text, struct rate *out);

/* Add the rate in its one spelling: "60/m". */
void rate_format(const struct rate *rate, struct text *out);

/* NULL, or what is wrong with a length of time: 200ms, 5s, 15m, 1h, 7d, also us and ns, or a sum such as 1m30s. */
const char *rate_parse_duration(struct slice text, weir_ns *out);

/* Valid forms, for cures. */
#define DURATION_FORMS "write a length of time such as 200ms, 5s, 15m, 1h, 7d or 1m30s"

/* "1 s", "15 minutes", "1500 ms", "10 years": a length in plain words, exact, into 48 bytes. */
void duration_format(weir_ns length, char out[48]);

/* "day", "week", "month", "year" where the unit is one of a calendar, else NULL. */
const char *unit_calendar(enum unit unit, enum weir_calendar *out);

#endif
