// SPDX-License-Identifier: Apache-2.0
/*
 * test_rls_field.c - field cases about Envoy's rate limit service, from its configuration to the answer: imported, described, decided
 * as one.
 */
#include "support/calls.h"
#include "support/imports.h"
#include "support/unit.h"

#define PER(unit, n) "rate_limit: {unit: " unit ", requests_per_unit: " #n "}"

/*
 * One call at `now`, and what comes: for each descriptor "-" where it meets no limit, "~N" where the limit only watches, else
 * remaining/limit; "OVER" before the whole where it does not pass. A refused descriptor: "refused".
 */
struct step {
    const char *why, *call, *comes;
    weir_ns now;
};

static void show(const struct weir_answer *answer, size_t count, char *out, size_t size)
{
    bool passes = answer->decision.outcome == WEIR_ALLOW;
    size_t len = (size_t)snprintf(out, size, "%s", passes ? "" : "OVER");
    for (size_t k = 0; k < count; k++) {
        size_t i = 0;
        while (i < answer->count && answer->asked_by[i] != k)
            i++;
        const char *space = len == 0 ? "" : " ";
        if (i == answer->count)
            len += (size_t)snprintf(out + len, size - len, "%s-", space);
        else
            len += (size_t)snprintf(
                out + len, size - len, "%s%s%llu/%llu", space, (answer->watched >> i & 1) != 0 ? "~" : "",
                (unsigned long long)answer->each[i].remaining, (unsigned long long)answer->each[i].capacity);
    }
}

static void play(const char *configuration, const struct step *steps, size_t count)
{
    static struct call_text call;
    struct imported imported = import_of(WEIR_FOREIGN_RATELIMIT, configuration);
    if (imported.error != 0)
        fail_msg("refused: %s", imported.findings);
    for (size_t i = 0; i < count; i++) {
        struct weir_answer answer;
        char got[512] = "refused";
        call_read(&call, steps[i].call);
        if (call_describe(imported.loaded.contract, &call) == NULL) {
            for (size_t k = 0; k < call.count; k++)
                call.requests[k].is_peek = call.requests[k].cost == 0;
            assert_int_equal(
                weir_contract_decide(imported.loaded.contract, &call.requests[0], steps[i].now, &answer), 0);
            show(&answer, call.count, got, sizeof got);
        }
        if (strcmp(got, steps[i].comes) != 0)
            fail_msg("%s: %s: got %s, not %s", steps[i].why, steps[i].call, got, steps[i].comes);
    }
    imported_free(&imported);
}

static void B39_hits_absent_zero_and_several(void **state)
{
    (void)state;
    static const char text[] = "domain: d\n"
                               "descriptors:\n"
                               "- {key: a, " PER("minute", 3) "}\n"
                                                              "- {key: b, " PER("minute", 10) "}\n";
    static const struct step steps[] = {
        /* whoever reads the call makes 1 of an absent or zero number of the whole call */
        { "1) absent: one", "d | 1*a=x", "2/3", 0 },
        { "2) two", "d | 2*a=x", "0/3", 0 },
        { "3) zero of the descriptor: at the limit is not over", "d | 0*a=x", "0/3", 0 },
        { "4) counts as one", "d | 1*a=x", "OVER 0/3", 0 },
        { "5) refused hits are free", "d | 0*a=x", "0/3", 0 },
        { "6) the first refuses, the second is not charged", "d | 4*a=y | 1*b=y", "OVER 3/3 10/10", 0 },
        { "that looks beside one that is charged", "d | 0*a=y | 1*b=y", "3/3 9/10", 0 },
    };
    play(text, steps, COUNT_OF(steps));
}

static void B45_wildcard_values(void **state)
{
    (void)state;
    static const char text[] =
        "domain: w\n"
        "descriptors:\n"
        "- key: p\n  value: 'foo*'\n  rate_limit: {unit: minute, requests_per_unit: 20}\n"
        "- key: p\n  value: 'fo*'\n  rate_limit: {unit: minute, requests_per_unit: 30}\n"
        "- key: p\n  value: foobar\n  rate_limit: {unit: minute, requests_per_unit: 1}\n"
        "- key: p\n  rate_limit: {unit: minute, requests_per_unit: 5}\n"
        "- key: m\n  value: 'bar*b'\n  rate_limit: {unit: minute, requests_per_unit: 20}\n"
        "- key: m\n  value: 'foo*bar*baz'\n  rate_limit: {unit: minute, requests_per_unit: 10}\n"
        "- key: m\n  value: 'ba*ab'\n  rate_limit: {unit: minute, requests_per_unit: 7}\n"
        "- key: n\n  value: v\n  descriptors:\n"
        "  - key: p\n    value: 'goo*'\n    rate_limit: {unit: minute, requests_per_unit: 20}\n"
        "- key: s\n  value: 'files/*'\n  share_threshold: true\n"
        "  rate_limit: {unit: minute, requests_per_unit: 2}\n";
    static const struct step steps[] = {
        { "exact first", "w | p=foobar", "0/1", 0 },
        { "a star may match nothing", "w | p=foo", "19/20", 0 },
        { "values are counted apart", "w | p=foo1 | p=foo2", "19/20 19/20", 0 },
        { "the next wildcard", "w | p=fox", "29/30", 0 },
        { "no wildcard", "w | p=x", "4/5", 0 },
        { "a star in the middle", "w | m=barb | m=bar9b", "19/20 19/20", 0 },
        { "ends must match", "w | m=bara | m=xbarb", "- -", 0 },
        { "two stars", "w | m=fooXbarYbaz | m=foobarbaz | m=foobaz", "9/10 9/10 -", 0 },
        { "ends may not overlap", "w | m=bab", "-", 0 },
        { "below the first level", "w | n=v, p=goo2", "19/20", 0 },
        { "one counter", "w | s=files/a", "1/2", 0 },
        { "one counter, two of one call are two too many", "w | s=files/b | s=files/c", "OVER 1/2 1/2", 0 },
        { "one is not", "w | s=files/b", "0/2", 0 },
        { "over", "w | s=files/c", "OVER 0/2", 0 },
    };
    play(text, steps, COUNT_OF(steps));
}

static void F01_flat_with_a_default_inside_a_config_map(void **state)
{
    (void)state;
    static const char text[] = "apiVersion: v1\n"
                               "kind: ConfigMap\n"
                               "metadata: {name: rl-config, namespace: edge}\n"
                               "data:\n"
                               "  config.yaml: |\n"
                               "    domain: storefront\n"
                               "    descriptors:\n"
                               "      - key: PATH\n"
                               "        value: \"/checkout\"\n"
                               "        rate_limit: {unit: minute, requests_per_unit: 1}\n"
                               "      - key: PATH\n"
                               "        rate_limit:\n"
                               "          unit: minute\n"
                               "          requests_per_unit: 10\n";
    static const struct step steps[] = {
        { "the value's own", "storefront | PATH=/checkout", "0/1", 0 },
        { "one a minute", "storefront | PATH=/checkout", "OVER 0/1", 59999999999 },
        { "the next minute", "storefront | PATH=/checkout", "0/1", 60000000000 },
        { "every other path has its own ten", "storefront | PATH=/a | PATH=/b", "9/10 9/10", 0 },
        { "a path is text here: no escape refuses it", "storefront | PATH=/%zz", "9/10", 0 },
        { "an empty one, too", "storefront | PATH=", "9/10", 0 },
        { "keys are case-sensitive", "storefront | path=/checkout", "-", 0 },
        { "another domain", "shop | PATH=/a", "-", 0 },
        { "a value that cannot be one", "storefront | PATH=/\001", "refused", 0 },
    };
    play(text, steps, COUNT_OF(steps));
}

static void F04_names_replaces_unlimited_shadow_shared(void **state)
{
    (void)state;
    static const char text[] = "domain: lab\n"
                               "descriptors:\n"
                               "  - key: team\n"
                               "    value: alpha\n"
                               "    rate_limit:\n"
                               "      unit: minute\n"
                               "      requests_per_unit: 4\n"
                               "      replaces:\n"
                               "        - name: base\n"
                               "  - key: any\n"
                               "    rate_limit: {name: base, unit: minute, requests_per_unit: 2}\n"
                               "  - key: free\n"
                               "    rate_limit: {unlimited: true}\n"
                               "  - key: trial\n"
                               "    value: odd\n"
                               "    shadow_mode: true\n"
                               "    rate_limit: {unit: minute, requests_per_unit: 1}\n"
                               "  - key: doc\n"
                               "    value: \"files/*\"\n"
                               "    share_threshold: true\n"
                               "    rate_limit: {unit: minute, requests_per_unit: 2}\n"
                               "  - key: note\n"
                               "    detailed_metric: true\n";
    static const struct step steps[] = {
        { "only 4/min counts", "lab | team=alpha | any=x", "3/4 -", 0 },
        { "whichever comes first", "lab | any=x | team=alpha", "- 2/4", 0 },
        { "base was not counted", "lab | any=x", "1/2", 0 },
        { "another team replaces nothing", "lab | team=beta | any=x", "- 0/2", 0 },
        { "two a minute", "lab | any=x", "OVER 0/2", 0 },
        { "nor is it over where it is replaced", "lab | team=alpha | any=x", "1/4 -", 0 },
        { "refused by one: nothing is charged", "lab | team=beta | any=x | doc=files/a", "OVER - 0/2 2/2", 0 },
        { "shadow", "lab | trial=odd", "~0/1", 0 },
        { "over in shadow passes", "lab | trial=odd", "~0/1", 0 },
        { "and takes nothing from others", "lab | trial=odd | doc=files/a", "~0/1 1/2", 0 },
        { "one counter", "lab | doc=files/b", "0/2", 0 },
        { "over", "lab | doc=files/c", "OVER 0/2", 0 },
        { "not a file", "lab | doc=other", "-", 0 },
        { "a note limits nothing", "lab | note=y", "-", 0 },
    };
    play(text, steps, COUNT_OF(steps));

    struct imported imported = import_of(WEIR_FOREIGN_RATELIMIT, text);
    static struct call_text call;
    for (int i = 0; i < 9; i++) { /* always OK, nothing stored */
        struct weir_answer answer;
        struct weir_stats stats;
        call_read(&call, "lab | 1000*free=y");
        assert_null(call_describe(imported.loaded.contract, &call));
        assert_int_equal(weir_contract_decide(imported.loaded.contract, &call.requests[0], 0, &answer), 0);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        weir_stats(weir_contract_limiter(imported.loaded.contract), 0, &stats);
        assert_int_equal(stats.placements, 0);
    }
    imported_free(&imported);

    static const char *const refused[] = {
        "- {key: a, value: b, share_threshold: true, " PER("minute", 1) "}\n",
        "- {key: a, rate_limit: {name: n, unit: minute, requests_per_unit: 1, replaces: [{name: n}]}}\n",
        "- {key: a, rate_limit: {unit: minute, requests_per_unit: 1, replaces: [{name: ''}]}}\n",
        "- {key: a, rate_limit: {unlimited: true, unit: minute}}\n",
    };
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        char whole[512];
        snprintf(whole, sizeof whole, "domain: d\ndescriptors:\n%s", refused[i]);
        imported = import_of(WEIR_FOREIGN_RATELIMIT, whole);
        assert_int_equal(imported.error, WEIR_ERR_CONTRACT);
        imported_free(&imported);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B39_hits_absent_zero_and_several),
        cmocka_unit_test(B45_wildcard_values),
        cmocka_unit_test(F01_flat_with_a_default_inside_a_config_map),
        cmocka_unit_test(F04_names_replaces_unlimited_shadow_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
