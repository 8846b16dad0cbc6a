// SPDX-License-Identifier: Apache-2.0
/*
 * prometheus.c - lines of the text exposition format 0.0.4.
 *
 * Values are integers or seconds written exactly from ns; both are valid Go floats, which the format asks for.
 */
#include "wire/prometheus.h"

static const char *const kinds[] = {
    [PROMETHEUS_COUNTER] = "counter",
    [PROMETHEUS_GAUGE] = "gauge",
    [PROMETHEUS_HISTOGRAM] = "histogram",
};

/* Backslash and line end always; the quote in label values only. */
static void escaped(struct text *out, struct slice value, bool is_label)
{
    size_t plain = 0;
    for (size_t i = 0; i < value.len; i++) {
        char byte = value.at[i];
        if (byte != '\\' && byte != '\n' && !(is_label && byte == '"'))
            continue;
        text_bytes(out, value.at + plain, i - plain);
        text_literal(out, "\\");
        text_bytes(out, byte == '\n' ? "n" : &byte, 1);
        plain = i + 1;
    }
    if (value.len > plain)
        text_bytes(out, value.at + plain, value.len - plain);
}

void prometheus_family(struct text *out, const char *name, enum prometheus_kind kind, const char *help)
{
    text_literal(out, "# HELP ");
    text_string(out, name);
    text_literal(out, " ");
    escaped(out, slice_of(help), false);
    text_literal(out, "\n# TYPE ");
    text_string(out, name);
    text_literal(out, " ");
    text_string(out, kinds[kind]);
    text_literal(out, "\n");
}

/* name_suffix{a="b",...} and the blank before the value. */
static void sample(struct text *out, const char *name, const char *suffix,
                   const struct prometheus_label *labels, size_t label_count)
{
    text_string(out, name);
    text_string(out, suffix);
    for (size_t i = 0; i < label_count; i++) {
        text_string(out, i == 0 ? "{" : ",");
        text_string(out, labels[i].name);
        text_literal(out, "=\"");
        escaped(out, labels[i].value, true);
        text_literal(out, "\"");
    }
    text_string(out, label_count == 0 ? " " : "} ");
}

void prometheus_u64(struct text *out, const char *name, const char *suffix,
                    const struct prometheus_label *labels, size_t label_count, uint64_t value)
{
    sample(out, name, suffix, labels, label_count);
    text_u64(out, value);
    text_literal(out, "\n");
}

void prometheus_seconds(struct text *out, const char *name, const char *suffix,
                        const struct prometheus_label *labels, size_t label_count, uint64_t ns)
{
    sample(out, name, suffix, labels, label_count);
    text_seconds(out, ns);
    text_literal(out, "\n");
}

void prometheus_histogram(struct text *out, const char *name, const uint64_t *bounds_ns, const uint64_t *counts,
                          size_t count, uint64_t sum_ns)
{
    uint64_t below = 0;
    for (size_t i = 0; i <= count; i++) {
        char digits[32];
        struct text bound = text_of(digits, sizeof digits);
        if (i < count)
            text_seconds(&bound, bounds_ns[i]);
        else
            text_literal(&bound, "+Inf");
        below += counts[i];
        prometheus_u64(out, name, "_bucket", &(struct prometheus_label){ "le", text_slice(&bound) }, 1, below);
    }
    prometheus_seconds(out, name, "_sum", NULL, 0, sum_ns);
    prometheus_u64(out, name, "_count", NULL, 0, below);
}
