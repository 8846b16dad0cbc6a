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
    prometheus_histogram(&text, "weir_decision_seconds", bounds, counts, 3, 73100000);
    expect_text(&text, "# HELP weir_decision_seconds x\n"
                       "# TYPE weir_decision_seconds histogram\n"
                       "weir_decision_seconds_bucket{le=\"0.000001\"} 5\n"
                       "weir_decision_seconds_bucket{le=\"0.00001\"} 5\n"
                       "weir_decision_seconds_bucket{le=\"1\"} 7\n"
                       "weir_decision_seconds_bucket{le=\"+Inf\"} 8\n"
                       "weir_decision_seconds_sum 0.0731\n"
                       "weir_decision_seconds_count 8\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_and_its_samples),
        cmocka_unit_test(text_is_escaped_where_the_form_asks),
        cmocka_unit_test(a_histogram_is_cumulative_and_ends_in_infinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
