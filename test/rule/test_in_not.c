// SPDX-License-Identifier: Apache-2.0
/* test_in_not.c - `{ in: ..., not: ... }`: what it holds for, how it is shown again, and what is no such thing. */
#include "support/contracts.h"
#include "support/unit.h"

static struct loaded load_when(const char *when)
{
    char text[512];
    snprintf(text, sizeof text, "weir: 1\nlimits:\n- {name: a, when: {%s}, key: [], rate: 5/s, burst: 99}\n",
             when);
    return contract_from(text, 0);
}

static void holds_where_the_first_holds_and_the_second_does_not(void **state)
{
    (void)state;
    static const struct {
        const char *why, *when, *request;
        bool is_met;
    } rows[] = {
        { "inside", "ip: {in: 10.0.0.0/8, not: 10.1.0.0/16}", "ip=10.2.0.1", true },
        { "taken out", "ip: {in: 10.0.0.0/8, not: 10.1.0.0/16}", "ip=10.1.0.1", false },
        { "outside", "ip: {in: 10.0.0.0/8, not: 10.1.0.0/16}", "ip=192.0.2.1", false },
        { "without one: `not` would hold, `in` does not", "ip: {in: 10.0.0.0/8, not: 10.1.0.0/16}", "x=1",
          false },
        { "a folder without a file", "path: {in: \"/v1/**\", not: [/v1/health, \"/v1/free/*\"]}",
          "path=/v1/items", true },
        { "the file", "path: {in: \"/v1/**\", not: [/v1/health, \"/v1/free/*\"]}", "path=/v1/health", false },
        { "the other", "path: {in: \"/v1/**\", not: [/v1/health, \"/v1/free/*\"]}", "path=/v1/free/x", false },
        { "lists on both sides", "tenant: {in: [\"a*\", \"b*\"], not: [ab, ba]}", "tenant=bb", true },
        { "lists on both sides", "tenant: {in: [\"a*\", \"b*\"], not: [ab, ba]}", "tenant=ba", false },
        { "any value but these", "tenant: {in: present, not: free}", "tenant=x", true },
        { "any value but these", "tenant: {in: present, not: free}", "tenant=free", false },
        { "and not without one", "tenant: {in: present, not: free}", "x=1", false },
        { "in either order", "tenant: {not: free, in: \"f*\"}", "tenant=fro", true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct loaded loaded = load_when(rows[i].when);
        if (loaded.error != 0)
            fail_msg("%s: %s", rows[i].why, loaded.printed);
        struct weir_answer answer = ask(loaded.contract, rows[i].request, 1, 0);
        if ((answer.count == 1) != rows[i].is_met)
            fail_msg("%s: %s with %s", rows[i].why, rows[i].when, rows[i].request);
        loaded_free(&loaded);
    }
}

static void is_shown_as_it_could_be_written(void **state)
{
    (void)state;
    struct loaded loaded = load_when("tenant: {in: [\"a*\", \"b*\"], not: ab}, user: x, path: {not: /x}, ip: "
                                     "{in: 10.0.0.0/8, not: [10.1.0.0/16]}");
    assert_int_equal(loaded.error, 0);
    assert_non_null(
        strstr(weir_contract_limit(loaded.contract, 0)->json,
               "\"when\":{\"tenant\":{\"in\":[\"a*\",\"b*\"],\"not\":\"ab\"},\"user\":\"x\","
               "\"path\":{\"not\":\"/x\"},\"ip\":{\"in\":\"10.0.0.0/8\",\"not\":\"10.1.0.0/16\"}}"));
    loaded_free(&loaded);
}

static void needs_both(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "tenant: {in: a}",          "tenant: {in: a, is: b}",          "tenant: {in: a, not: b, is: c}",
        "tenant: {in: [], not: b}", "tenant: {in: a, not: [present]}", "ip: {in: 10.0.0.0/8, not: here}"
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct loaded loaded = load_when(rows[i]);
        if (loaded.error != WEIR_ERR_CONTRACT)
            fail_msg("%s loads", rows[i]);
        loaded_free(&loaded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_where_the_first_holds_and_the_second_does_not),
        cmocka_unit_test(is_shown_as_it_could_be_written),
        cmocka_unit_test(needs_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
