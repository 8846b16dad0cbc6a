// SPDX-License-Identifier: Apache-2.0
/*
 * prometheus.c - lines of the text exposition format 0.0.4.
 *
 * Values are integers or seconds written exactly from ns; both are valid Go floats, which the format asks for.
 */
#include "wire/prometheus.h"

#include <assert.h>
#include <string.h>

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

/* Seconds as a float in its one spelling: 1.0, 0.0001, but 1e-05 and 2.5e-06. */
static void write_bound(struct text *out, uint64_t ns)
{
    char digits[24];
    struct text plain = text_of(digits, sizeof digits);
    if (ns >= 100000 || ns == 0) {
        text_seconds(out, ns);
        text_string(out, ns % 1000000000 == 0 ? ".0" : "");
        return;
    }
    text_u64(&plain, ns);
    size_t exponent = 10 - plain.len, len = plain.len;
    while (len > 1 && digits[len - 1] == '0')
        len--;
    text_bytes(out, digits, 1);
    text_string(out, len > 1 ? "." : "");
    text_bytes(out, digits + 1, len - 1);
    text_literal(out, "e-0");
    text_u64(out, exponent);
}

void prometheus_histogram(struct text *out, const char *name, const struct prometheus_label *labels,
                          size_t label_count, const uint64_t *bounds_ns, const uint64_t *counts, size_t count,
                          uint64_t sum_ns)
{
    uint64_t below = 0;
    struct prometheus_label all[PROMETHEUS_LABELS_MAX + 1];
    assert(label_count <= PROMETHEUS_LABELS_MAX);
    for (size_t i = 0; i < label_count; i++)
        all[i] = labels[i];
    for (size_t i = 0; i <= count; i++) {
        char digits[32];
        struct text bound = text_of(digits, sizeof digits);
        if (i < count)
            write_bound(&bound, bounds_ns[i]);
        else
            text_literal(&bound, "+Inf");
        below += counts[i];
        all[label_count] = (struct prometheus_label){ "le", { digits, bound.len } };
        prometheus_u64(out, name, "_bucket", all, label_count + 1, below);
    }
    prometheus_seconds(out, name, "_sum", labels, label_count, sum_ns);
    prometheus_u64(out, name, "_count", labels, label_count, below);
}

/* ---- OpenMetrics ----------------------------------------------------------------------------------------------------- */

static const struct slice help_words = { "# HELP ", 7 }, type_words = { "# TYPE ", 7 };

static bool starts(struct slice line, struct slice words)
{
    return line.len >= words.len && memcmp(line.at, words.at, words.len) == 0;
}

/* The name without _total, and what is behind it. */
static void write_name(struct text *out, const char *at, size_t len)
{
    const struct slice total = SLICE("_total");
    bool is_total = len > total.len && memcmp(at + len - total.len, total.at, total.len) == 0;
    text_bytes(out, at, is_total ? len - total.len : len);
}

static void write_help(struct text *out, const char *at, const char *end)
{
    for (; at < end; at++) {
        if (*at == '"')
            text_literal(out, "\\");
        text_bytes(out, at, 1);
    }
}

static void write_open_line(struct text *out, struct slice line)
{
    bool is_help = starts(line, help_words), is_type = starts(line, type_words);
    if (!is_help && !is_type) {
        text_slice_add(out, line);
        return;
    }
    const char *name = line.at + help_words.len, *end = line.at + line.len;
    const char *rest = memchr(name, ' ', (size_t)(end - name));
    rest = rest == NULL ? end : rest;
    text_slice_add(out, is_help ? help_words : type_words);
    write_name(out, name, (size_t)(rest - name));
    write_help(out, rest, end); /* of a type: no quotes */
}

void prometheus_open(struct text *out, struct slice text)
{
    while (text.len > 0) {
        const char *end = memchr(text.at, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.at);
        write_open_line(out, (struct slice){ text.at, len });
        text_literal(out, "\n");
        len += end != NULL;
        text = (struct slice){ text.at + len, text.len - len };
    }
    text_literal(out, "# EOF\n");
}
