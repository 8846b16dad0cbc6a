// SPDX-License-Identifier: Apache-2.0
/*
 * prometheus.h - metrics in Prometheus' text form 0.0.4, and the same as OpenMetrics 1.0.
 *
 * Idea: a family is announced once and its samples follow, which is all the form asks; the caller passes labels
 * as pairs and never formats. Label values are ours (limit names, fixed words), never client keys, so their
 * number is bounded by the contract.
 */
#ifndef WEIR_WIRE_PROMETHEUS_H
#define WEIR_WIRE_PROMETHEUS_H

#include "wire/text.h"

#define PROMETHEUS_TYPE SLICE("text/plain; version=0.0.4; charset=utf-8")

#define PROMETHEUS_OPEN_TYPE SLICE("application/openmetrics-text; version=1.0.0; charset=utf-8")

enum prometheus_kind { PROMETHEUS_COUNTER, PROMETHEUS_GAUGE, PROMETHEUS_HISTOGRAM };

struct prometheus_label {
    const char *name;
    struct slice value;
};

/* # HELP and # TYPE of a family; its samples must follow before the next family. */
void prometheus_family(struct text *out, const char *name, enum prometheus_kind kind, const char *help);

/* One sample. `suffix` is "" or "_bucket", "_sum", "_count". */
void prometheus_u64(struct text *out, const char *name, const char *suffix,
                    const struct prometheus_label *labels, size_t label_count, uint64_t value);

/* One sample in seconds, exactly, from ns. */
void prometheus_seconds(struct text *out, const char *name, const char *suffix,
                        const struct prometheus_label *labels, size_t label_count, uint64_t ns);

/*
 * A histogram of lengths: bounds_ns[i] is the upper bound of counts[i], ascending; counts[count] holds what is
 * above the last. Counts are per bucket here and cumulative in the text. Writes _bucket lines with +Inf, _sum
 * and _count; `le` in the one spelling that OpenMetrics asks for, so that a series has the same name in both forms.
 */
void prometheus_histogram(struct text *out, const char *name, const struct prometheus_label *labels,
                          size_t label_count, const uint64_t *bounds_ns, const uint64_t *counts, size_t count,
                          uint64_t sum_ns);

/* Most labels of a histogram, without `le`. */
#define PROMETHEUS_LABELS_MAX 4

/*
 * The same families as OpenMetrics: a counter's family is named without _total, quotes are escaped in help, and a last line says that
 * nothing is missing. Every counter's name ends in _total, and no other's does.
 */
void prometheus_open(struct text *out, struct slice text);

#endif
