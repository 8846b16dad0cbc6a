// SPDX-License-Identifier: Apache-2.0
/* contracts.c - loading and asking, in few words. */
#include "support/contracts.h"

#include "support/unit.h"

struct loaded contract_with(const char *text, size_t len, const struct weir_contract_options *options)
{
    struct loaded loaded = { 0 };
    size_t size = 0;
    loaded.error = weir_contract_parse(&loaded.contract, text, len, "t.yaml", options, &loaded.diagnostics);
    FILE *out = open_memstream(&loaded.printed, &size);
    assert_non_null(out);
    weir_diagnostics_print(loaded.diagnostics, out, false);
    assert_int_equal(fclose(out), 0);
    return loaded;
}

struct loaded contract_from(const char *text, int64_t wall)
{
    static const uint8_t secret[16] = "a test's secret";
    const struct weir_contract_options options = {
        .keys = 64, .wall_offset = wall, .has_wall_offset = true, .secret = secret
    };
    return contract_with(text, strlen(text), &options);
}

void loaded_free(struct loaded *loaded)
{
    weir_contract_free(loaded->contract);
    weir_diagnostics_free(loaded->diagnostics);
    free(loaded->printed);
    *loaded = (struct loaded){ 0 };
}

size_t attributes_of(char *text, struct weir_attribute out[WEIR_ATTRIBUTES_MAX])
{
    size_t count = 0;
    char *rest = text;
    for (char *pair = strtok_r(text, " ", &rest); pair != NULL; pair = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(pair, '=');
        assert_non_null(equals);
        *equals = '\0';
        assert_true(count < WEIR_ATTRIBUTES_MAX);
        out[count++] = (struct weir_attribute){ pair, equals + 1, 0 };
    }
    return count;
}

struct weir_answer ask(const struct weir_contract *contract, const char *request, uint64_t cost, weir_ns now)
{
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    struct weir_answer answer;
    char copy[4096];
    assert_true(strlen(request) < sizeof copy);
    strcpy(copy, request);
    struct weir_request asked = { attributes, attributes_of(copy, attributes), cost, false };
    int error = weir_contract_decide(contract, &asked, now, &answer);
    if (error != 0)
        fail_msg("%s: %s", request, weir_error_name(error));
    return answer;
}
