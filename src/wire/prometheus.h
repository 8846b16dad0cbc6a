// SPDX-License-Identifier: Apache-2.0
/*
 * prometheus.h - metrics in Prometheus' text form 0.0.4.
 *
 * Idea: a family is announced once and its samples follow, which is all the form asks; the caller passes labels
 * as pairs and never formats. Label values are ours (limit names, fixed words), never client keys, so their
 * number is bounded by the contract.
 */
#ifndef WEIR_WIRE_PROMETHEUS_H
#define WEIR_WIRE_PROMETHEUS_H

#include "wire/text.h"

#define PROMETHEUS_TYPE SLICE("text/plain; version=0.0.4; charset=utf-8")

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
 * and _count.
 */
void prometheus_histogram(struct text *out, const char *name, const uint64_t *bounds_ns, const uint64_t *counts,
                          size_t count, uint64_t sum_ns);

#endif
