// SPDX-License-Identifier: Apache-2.0
/*
 * bench_matching.c - a request that meets 3 limits: of a contract of 10, and of one of 10,000, with and without 100,000
 * overrides.
 *
 * The other limits have different globs with wildcards in the middle, so no plain prefix tells them apart. The overrides
 * are of twenty sizes, all of one limit that the request meets; its own key is not among them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "weir_contract.h"

struct place {
    struct weir_contract *contract;
    weir_ns now;
};

static const struct weir_attribute attributes[] = {
    { .name = "path", .value = "/api/eu/resource-00042/list" },
    { .name = "tenant", .value = "acme" },
    { .name = "method", .value = "GET" },
};

static uint64_t decide(void *context, uint64_t count)
{
    struct place *place = context;
    struct weir_request request = { .attributes = attributes, .attribute_count = 3, .cost = 1 };
    struct weir_answer answer;
    uint64_t met = 0;
    for (uint64_t i = 0; i < count; i++, place->now += WEIR_MICROSECOND)
        if (weir_contract_decide(place->contract, &request, place->now, &answer) == 0)
            met += answer.count;
    return met;
}

static void print_overrides(FILE *out, unsigned count)
{
    fputs("    overrides:\n", out);
    for (unsigned i = 0; i < count; i++)
        fprintf(out, "      - { key: { tenant: tenant-%06u }, rate: %u/s, burst: %u }\n", i, 10 + i % 20,
                20 + i % 20);
}

/* A contract of `count` limits, 3 of which meet the request; the first has so many overrides. */
static char *contract_text(unsigned count, unsigned overrides)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    fputs("weir: 1\nmemory: { keys: 65536 }\nlimits:\n", out);
    static const char *meeting[] = { "/api/*/resource-00042/list", "/*/eu/resource-00042/*", "/api/**/list" };
    for (unsigned i = 0; i < 3; i++) {
        fprintf(out,
                "  - name: meets-%u\n    when: { path: \"%s\" }\n    key: [tenant]\n    rate: 1000000/s\n"
                "    burst: 1000000\n",
                i, meeting[i]);
        if (i == 0 && overrides > 0)
            print_overrides(out, overrides);
    }
    for (unsigned i = 3; i < count; i++)
        fprintf(
            out,
            "  - { name: other-%05u, when: { path: \"/api/*/resource-%05u/%s\" }, key: [tenant], rate: 10/s, "
            "burst: 20 }\n",
            i, 1000 + i, i % 2 == 0 ? "show" : "edit/**");
    return fclose(out) == 0 ? text : NULL;
}

static struct weir_contract *load(unsigned count, unsigned overrides, double *milliseconds)
{
    char *text = contract_text(count, overrides);
    struct weir_contract *contract = NULL;
    struct weir_diagnostics *diagnostics = NULL;
    if (text == NULL)
        return NULL;
    uint64_t from = measure_now();
    int error = weir_contract_parse(&contract, text, strlen(text), "generated", NULL, &diagnostics);
    *milliseconds = (double)(measure_now() - from) / 1e6;
    if (error != 0)
        weir_diagnostics_print(diagnostics, stderr, false);
    weir_diagnostics_free(diagnostics);
    free(text);
    return contract;
}

int main(void)
{
    double loads[ROUNDS], large_loads[ROUNDS], bars[ROUNDS], ignored;
    struct place few = { load(10, 0, &ignored), WEIR_SECOND };
    struct place many = { NULL, WEIR_SECOND }, large = { NULL, WEIR_SECOND };
    for (int i = 0; i < ROUNDS; i++) {
        weir_contract_free(many.contract);
        weir_contract_free(large.contract);
        many.contract = load(10000, 0, &loads[i]);
        large.contract = load(10000, 100000, &large_loads[i]);
        bars[i] = 1;
    }
    if (few.contract == NULL || many.contract == NULL || large.contract == NULL)
        return 1;
    if (decide(&few, 1) != 3 || decide(&many, 1) != 3 || decide(&large, 1) != 3) {
        fprintf(stderr, "matching: the request does not meet 3 limits\n");
        return 1;
    }
    measure_row(&(struct row){ "matching: 3 of 10,000 limits / 3 of 10",
                               1.2,
                               { "10,000", decide, &many },
                               { "10", decide, &few },
                               50000 });
    measure_row(&(struct row){ "matching: the same with 100,000 overrides / 3 of 10",
                               1.2,
                               { "10,000", decide, &large },
                               { "10", decide, &few },
                               50000 });
    measure_print("matching: loading 10,000 limits", "ms", 100, false, loads, bars, ROUNDS);
    measure_print("matching: loading 10,000 limits and 100,000 overrides", "ms", 1000, false, large_loads, bars,
                  ROUNDS);
    weir_contract_free(few.contract);
    weir_contract_free(large.contract);
    weir_contract_free(many.contract);
    return 0;
}
