// SPDX-License-Identifier: Apache-2.0
/* test_prometheus.c - the metrics text: families, samples, escapes, and a histogram that adds up. */
#include "support/unit.h"

#include "wire/prometheus.h"

static char storage[4096];

static void expect_text(const struct text *text, const char *expected)
{
    assert_false(text->is_cut);
    if (text->len != strlen(expected) || memcmp(text->at, expected, text->len) != 0)
        fail_msg("got\n%.*s\nwant\n%s", (int)text->len, text->at, expected);
}

static void a_family_and_its_samples(void **state)
{
    struct text text = text_of(storage, sizeof storage);
    const struct prometheus_label labels[] = { { "limit", SLICE("per-user") }, { "decision", SLICE("allow") } };
    (void)state;
    prometheus_family(&text, "weir_decisions_total", PROMETHEUS_COUNTER, "Decisions by limit and outcome.");
    prometheus_u64(&text, "weir_decisions_total", "", labels, 2, 10234);
    prometheus_family(&text, "weir_reclaims_total", PROMETHEUS_COUNTER, "Cells given to another key.");
    prometheus_u64(&text, "weir_reclaims_total", "", NULL, 0, UINT64_MAX);
    prometheus_family(&text, "weir_uptime_seconds", PROMETHEUS_GAUGE, "x");
    prometheus_seconds(&text, "weir_uptime_seconds", "", NULL, 0, 1500000001);
    expect_text(&text, "# HELP weir_decisions_total Decisions by limit and outcome.\n"
                       "# TYPE weir_decisions_total counter\n"
                       "weir_decisions_total{limit=\"per-user\",decision=\"allow\"} 10234\n"
                       "# HELP weir_reclaims_total Cells given to another key.\n"
                       "# TYPE weir_reclaims_total counter\n"
                       "weir_reclaims_total 18446744073709551615\n"
                       "# HELP weir_uptime_seconds x\n"
                       "# TYPE weir_uptime_seconds gauge\n"
                       "weir_uptime_seconds 1.500000001\n");
}

static void text_is_escaped_where_the_form_asks(void **state)
{
    struct text text = text_of(storage, sizeof storage);
    (void)state;
    prometheus_family(&text, "a", PROMETHEUS_GAUGE, "back\\slash, line\nend, \"quote\"");
    prometheus_u64(&text, "a", "",
                   &(struct prometheus_label){ "l", SLICE("back\\slash, line\nend, \"quote\"") }, 1, 0);
    prometheus_u64(&text, "a", "", &(struct prometheus_label){ "l", SLICE("") }, 1, 0);
    expect_text(&text, "# HELP a back\\\\slash, line\\nend, \"quote\"\n"
                       "# TYPE a gauge\n"
                       "a{l=\"back\\\\slash, line\\nend, \\\"quote\\\"\"} 0\n"
                       "a{l=\"\"} 0\n");
}

static void a_histogram_is_cumulative_and_ends_in_infinity(void **state)
{
    static const uint64_t bounds[] = { 1000, 10000, 1000000000 }, counts[] = { 5, 0, 2, 1 };
    struct text text = text_of(storage, sizeof storage);
    (void)state;
    prometheus_family(&text, "weir_decision_seconds", PROMETHEUS_HISTOGRAM, "x");
    prometheus_histogram(&text, "weir_decision_seconds", NULL, 0, bounds, counts, 3, 73100000);
    expect_text(&text, "# HELP weir_decision_seconds x\n"
                       "# TYPE weir_decision_seconds histogram\n"
                       "weir_decision_seconds_bucket{le=\"1e-06\"} 5\n"
                       "weir_decision_seconds_bucket{le=\"1e-05\"} 5\n"
                       "weir_decision_seconds_bucket{le=\"1.0\"} 7\n"
                       "weir_decision_seconds_bucket{le=\"+Inf\"} 8\n"
                       "weir_decision_seconds_sum 0.0731\n"
                       "weir_decision_seconds_count 8\n");
}

/* What C and Go print for the same floats by %g and strconv, which the form calls canonical. */
static void bounds_have_one_spelling(void **state)
{
    static const struct {
        uint64_t ns;
        const char *shown;
    } rows[] = {
        { 1, "1e-09" },          { 10, "1e-08" },           { 1500, "1.5e-06" },  { 20000, "2e-05" },
        { 99999, "9.9999e-05" }, { 100000, "0.0001" },      { 500000000, "0.5" }, { 1000000000, "1.0" },
        { 2500000000, "2.5" },   { 100000000000, "100.0" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char expected[400];
        struct text text = text_of(storage, sizeof storage);
        prometheus_histogram(&text, "h", &(struct prometheus_label){ "door", SLICE("x") }, 1, &rows[i].ns,
                             (const uint64_t[]){ 2, 1 }, 1, 7);
        (void)snprintf(expected, sizeof expected,
                       "h_bucket{door=\"x\",le=\"%s\"} 2\nh_bucket{door=\"x\",le=\"+Inf\"} 3\n"
                       "h_sum{door=\"x\"} 0.000000007\nh_count{door=\"x\"} 3\n",
                       rows[i].shown);
        expect_text(&text, expected);
    }
}

static void the_same_as_openmetrics(void **state)
{
    char space[2000];
    struct text text = text_of(storage, sizeof storage), open = text_of(space, sizeof space);
    (void)state;
    prometheus_family(&text, "a_total", PROMETHEUS_COUNTER, "says \"so\", with \\ and _total");
    prometheus_u64(&text, "a_total", "", &(struct prometheus_label){ "l", SLICE("# HELP \"x\"") }, 1, 5);
    prometheus_family(&text, "total", PROMETHEUS_GAUGE, "_total");
    prometheus_u64(&text, "total", "", NULL, 0, 1);
    prometheus_open(&open, text_slice(&text));
    expect_text(&open, "# HELP a says \\\"so\\\", with \\\\ and _total\n"
                       "# TYPE a counter\n"
                       "a_total{l=\"# HELP \\\"x\\\"\"} 5\n"
                       "# HELP total _total\n"
                       "# TYPE total gauge\n"
                       "total 1\n"
                       "# EOF\n");
    open = text_of(space, sizeof space);
    prometheus_open(&open, (struct slice){ "", 0 });
    expect_text(&open, "# EOF\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_and_its_samples),
        cmocka_unit_test(text_is_escaped_where_the_form_asks),
        cmocka_unit_test(bounds_have_one_spelling),
        cmocka_unit_test(the_same_as_openmetrics),
        cmocka_unit_test(a_histogram_is_cumulative_and_ends_in_infinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
