// SPDX-License-Identifier: Apache-2.0
/* test_describe.c - which attributes a descriptor of Envoy's rate limit service has, and which descriptors are refused. */
#include "support/calls.h"
#include "support/contracts.h"
#include "support/imports.h"
#include "support/random.h"
#include <ctype.h>

#include "support/unit.h"

/* "name=value name=value" of what was described, sorted by name; "refused NAME" where it was. */
static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct weir_attribute *)x)->name, ((const struct weir_attribute *)y)->name);
}

static void show(const struct weir_identity *said, char *out, size_t size)
{
    struct weir_attribute sorted[WEIR_ATTRIBUTES_MAX];
    size_t len = 0;
    out[0] = '\0';
    if (said->refused != NULL) {
        snprintf(out, size, "refused %s", said->refused);
        return;
    }
    memcpy(sorted, said->attributes, said->count * sizeof *sorted);
    qsort(sorted, said->count, sizeof *sorted, by_name);
    for (size_t i = 0; i < said->count; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s=%.*s", i == 0 ? "" : " ", sorted[i].name,
                                (int)sorted[i].len, sorted[i].value);
}

/* A limit that reads whatever the rows name, of every descriptor. */
static const char reads_all[] = "weir: 1\n"
                                "limits:\n"
                                "- {name: all, key: [domain, descriptor, a, a-2, a-3, generic-key, "
                                "generic-key-2, entry-path, entry-ip, entry-domain,\n"
                                "    x-path, x-9to5, path, ip, host, method, remote-address, b, x], "
                                "missing-key: share, algorithm: fixed-window, rate: 9/s}\n"
                                "- {name: more, key: [query, request-id, entry-path-2, "
                                "long-name-of-thirty-two-bytes--, xyz], missing-key: share,\n"
                                "    algorithm: fixed-window, rate: 9/s}\n";

static void the_attributes_of_a_descriptor(void **state)
{
    (void)state;
    static const struct {
        const char *why, *call;
        size_t index;
        const char *attributes;
    } rows[] = {
        { "an entry", "d | a=1", 0, "a=1 descriptor=a domain=d" },
        { "keys stand in order", "d | b=2, a=1", 0, "a=1 b=2 descriptor=b,a domain=d" },
        { "keys are told apart by case, names are not", "d | A=1", 0, "a=1 descriptor=A domain=d" },
        { "other characters become '-'", "d | generic_key=x", 0,
          "descriptor=generic_key domain=d generic-key=x" },
        { "a key twice", "d | generic_key=x, generic_key=y", 0,
          "descriptor=generic_key,generic_key domain=d generic-key=x generic-key-2=y" },
        { "a number that is taken is passed over", "d | a-2=1, a=2, a=3", 0,
          "a=2 a-2=1 a-3=3 descriptor=a-2,a,a domain=d" },
        { "names that weir gives a meaning are there twice", "d | path=/x", 0,
          "descriptor=path domain=d entry-path=/x path=/x" },
        { "the first of a meaning counts", "d | path=/x, PATH=/y", 0,
          "descriptor=path,PATH domain=d entry-path=/x entry-path-2=/y path=/x" },
        { "remote_address is the ip", "d | remote_address=192.0.2.7", 0,
          "descriptor=remote_address domain=d ip=192.0.2.7 remote-address=192.0.2.7" },
        { "so is ip", "d | ip=192.0.2.7", 0, "descriptor=ip domain=d entry-ip=192.0.2.7 ip=192.0.2.7" },
        { "a pseudo-header", "d | :path=/x", 0, "descriptor=:path domain=d x-path=/x" },
        { "a digit first", "d | 9to5=x", 0, "descriptor=9to5 domain=d x-9to5=x" },
        { "domain and descriptor mean what they mean", "d | domain=e", 0,
          "descriptor=domain domain=d entry-domain=e" },
        { "a path is whole: it is brought into its spelling later", "d | path=//a/../b?q=1", 0,
          "descriptor=path domain=d entry-path=//a/../b?q=1 path=//a/../b?q=1" },
        { "an empty value is absent", "d | a=", 0, "descriptor=a domain=d" },
        { "what no limit reads is not there", "d | zzz=1", 0, "descriptor=zzz domain=d" },
        { "nor refuses", "d | zzz=\001", 0, "descriptor=zzz domain=d" },
        { "names are cut", "d | long_name_of_thirty_two_bytes__more=1", 0,
          "descriptor=long_name_of_thirty_two_bytes__more domain=d" },
        { "entries of the others are there as well", "d | a=1 | b=2", 0, "a=1 b=2 descriptor=a domain=d" },
        { "of each of them", "d | a=1 | b=2", 1, "a=1 b=2 descriptor=b domain=d" },
        { "one's own come first", "d | a=1 | a=2", 1, "a=2 descriptor=a domain=d" },
        { "one's own empty one, too", "d | a=1 | a=", 1, "descriptor=a domain=d" },
        { "then those of the first", "d | b=1 | a=2 | a=3", 0, "a=2 b=1 descriptor=b domain=d" },
        { "with their meanings", "d | a=1 | remote_address=192.0.2.7", 0,
          "a=1 descriptor=a domain=d ip=192.0.2.7 remote-address=192.0.2.7" },
        { "each numbered in its own descriptor", "d | a=1 | a=2, a=3", 0, "a=1 a-2=3 descriptor=a domain=d" },
        { "no entries", "d | ", 0, "domain=d" },

        { "a control byte", "d | a=x\001", 0, "refused a" },
        { "of another descriptor", "d | b=2 | a=x\001", 0, "refused a" },
        { "a path with a bad escape", "d | path=/%zz", 0, "refused path" },
        { "no address", "d | remote_address=nobody", 0, "refused ip" },
        { "no host", "d | host=a b", 0, "refused host" },
        { "a key without a name", "d | =1", 0, "refused descriptor" },
        { "a domain with a control byte", "d\001 | a=1", 0, "refused domain" },
    };
    struct loaded loaded = contract_from(reads_all, 0);
    static struct call_text call;
    char got[2048];
    assert_int_equal(loaded.error, 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_read(&call, rows[i].call);
        (void)call_describe(loaded.contract, &call);
        show(&call.said[rows[i].index], got, sizeof got);
        if (strcmp(got, rows[i].attributes) != 0)
            fail_msg("%s: %s: got %s, not %s", rows[i].why, rows[i].call, got, rows[i].attributes);
    }
    loaded_free(&loaded);
}

/* One entry of so many bytes. */
static const char *describe_long(const struct weir_contract *contract, size_t key_len, size_t value_len,
                                 size_t entries, char filler)
{
    static struct weir_identity said;
    static char bytes[4096];
    struct weir_entry list[WEIR_ENTRIES_MAX + 1];
    memset(bytes, filler, sizeof bytes);
    for (size_t i = 0; i < entries; i++)
        list[i] = (struct weir_entry){ bytes, bytes, key_len, value_len };
    weir_contract_describe(contract, "d", 1, &(struct weir_descriptor){ list, entries }, 1, 0, &said);
    if (said.refused == NULL)
        for (size_t i = 0; i < said.count; i++)
            assert_true(said.attributes[i].len <= WEIR_ATTRIBUTE_MAX);
    return said.refused == NULL ? "" : said.refused;
}

static void lengths_and_counts(void **state)
{
    (void)state;
    struct loaded loaded = contract_from(reads_all, 0);
    const struct weir_contract *contract = loaded.contract;
    assert_string_equal(describe_long(contract, 1, 1024, 1, 'a'), "");
    assert_string_equal(describe_long(contract, 1, 1025, 1, 'a'), "a");
    assert_string_equal(describe_long(contract, 1024, 1, 1, 'a'), "");
    assert_string_equal(describe_long(contract, 1025, 1, 1, 'a'), "descriptor");
    assert_string_equal(describe_long(contract, 511, 1, 2, 'a'), ""); /* 511, a comma, 511 */
    assert_string_equal(describe_long(contract, 512, 1, 2, 'a'), "descriptor");
    assert_string_equal(describe_long(contract, 1, 1, WEIR_ENTRIES_MAX, 'a'), "");
    assert_string_equal(describe_long(contract, 1, 1, WEIR_ENTRIES_MAX + 1, 'a'), "descriptor");
    assert_string_equal(describe_long(contract, 3, 1, 1, ','),
                        "descriptor"); /* could pass for four empty ones */
    loaded_free(&loaded);
}

/* Attributes that others bring beyond the 32 that a request has room for. */
static void more_than_a_request_has_room_for(void **state)
{
    (void)state;
    char text[4096] = "weir: 1\nlimits:\n", call_text[1024] = "d | a=1";
    static struct call_text call;
    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "- {name: l%d, key: [b%d], algorithm: fixed-window, rate: 9/s}\n", i, i);
    struct loaded loaded = contract_from(text, 0);
    assert_int_equal(loaded.error, 0);
    for (int i = 0; i < 32; i++)
        snprintf(call_text + strlen(call_text), sizeof call_text - strlen(call_text), " | b%d=1", i);
    call_read(&call, call_text);
    assert_null(call_describe(loaded.contract, &call));
    assert_int_equal(call.said[0].count, 32);
    strcat(call_text, " | b32=1");
    call_read(&call, call_text);
    assert_string_equal(call_describe(loaded.contract, &call), "b32");
    loaded_free(&loaded);
}

/* ---- What a limit reads of other descriptors ------------------------------------------------------------------------------ */

static void others_matter_only_to_limits_that_read_them(void **state)
{
    (void)state;
    static const struct {
        const char *why, *limit, *attributes; /* of the first descriptor of "d | a=1 | b=2, path=/x" */
    } rows[] = {
        { "its own entries alone", "when: { descriptor: \"a\", a: \"1\" }, key: [a]", "a=1 descriptor=a" },
        { "another's entry", "when: { descriptor: \"a\", b: { not: \"3\" } }, key: [a]",
          "a=1 b=2 descriptor=a" },
        { "it is for several descriptors", "when: { descriptor: [a, c] }, key: [a, b]",
          "a=1 b=2 descriptor=a" },
        { "it is for a pattern", "when: { descriptor: \"a*\" }, key: [a, b]", "a=1 b=2 descriptor=a" },
        { "it does not say", "key: [a, b], missing-key: share", "a=1 b=2" },
        { "read of its own where it has it", "when: { descriptor: \"b,path\" }, key: [b, path, entry-path]",
          "descriptor=a" },
        { "of another one's meaning", "when: { descriptor: \"a\" }, key: [path]", "descriptor=a path=/x" },
        { "a cost", "key: [], when: { descriptor: \"a\" }, cost: { from: b, max: 5 }", "b=2 descriptor=a" },
        { "a retry", "key: [], when: { descriptor: \"a\" }, retries: { free-within: 1s, by: b }",
          "b=2 descriptor=a" },
        { "a limit that is off reads nothing", "when: { descriptor: \"a\" }, key: [b], enforce: off", "" },
    };
    static struct call_text call;
    char text[512], got[512];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(text, sizeof text, "weir: 1\nlimits:\n- { name: l, %s, rate: 9/s, burst: 9 }\n",
                 rows[i].limit);
        struct loaded loaded = contract_from(text, 0);
        if (loaded.error != 0)
            fail_msg("%s", loaded.printed);
        call_read(&call, "d | a=1 | b=2, path=/x");
        assert_null(call_describe(loaded.contract, &call));
        show(&call.said[0], got, sizeof got);
        if (strcmp(got, rows[i].attributes) != 0)
            fail_msg("%s: got %s, not %s", rows[i].why, got, rows[i].attributes);
        loaded_free(&loaded);
    }
}

/* ---- Names ------------------------------------------------------------------------------------------------------------------ */

/* By the words of weir_contract.h: the first number that is free, tried from the beginning. */
static void name_slowly(char names[][40], size_t count, const char *key)
{
    char base[64] = "", *out = names[count];
    if (!isalpha((unsigned char)key[0]))
        strcat(base, isdigit((unsigned char)key[0]) ? "x-" : "x");
    for (size_t i = 0, len = strlen(base); key[i] != '\0' && len < 30; i++)
        base[len++] = isalnum((unsigned char)key[i]) ? (char)tolower((unsigned char)key[i]) : '-';
    static const char *const own[] = { "path",  "ip",         "host",   "method",
                                       "query", "request-id", "domain", "descriptor" };
    for (size_t i = 0; i < COUNT_OF(own); i++)
        if (strcmp(base, own[i]) == 0)
            snprintf(base, sizeof base, "entry-%s", own[i]);
    for (unsigned number = 1;; number++) {
        char suffix[16] = "";
        bool is_free = true;
        if (number > 1)
            snprintf(suffix, sizeof suffix, "-%u", number);
        snprintf(out, 40, "%.*s%s", (int)(32 - strlen(suffix)), base, suffix);
        for (size_t i = 0; i < count; i++)
            is_free = is_free && strcmp(names[i], out) != 0;
        if (is_free)
            return;
    }
}

/* Random keys that meet each other's names: a contract that reads all names of a slow twin finds every value. */
static void names_are_those_of_a_slow_twin(void **state)
{
    (void)state;
    static const char *const keys[] = { "a",
                                        "A",
                                        "a-2",
                                        "a_3",
                                        "path",
                                        "entry-path",
                                        "entry_path_2",
                                        "ip",
                                        "-",
                                        "12345678901234567890123456789",
                                        "abcdefghijklmnopqrstuvwxyz0123456789",
                                        "abcdefghijklmnopqrstuvwxyz01-10" };
    struct random random = { 8 };
    for (int run = 0; run < 300; run++) {
        char names[WEIR_ENTRIES_MAX][40], values[WEIR_ENTRIES_MAX][8], text[4096] = "weir: 1\nlimits:\n";
        struct weir_entry entries[WEIR_ENTRIES_MAX];
        static struct weir_identity said;
        size_t count = 1 + random_below(&random, WEIR_ENTRIES_MAX);
        for (size_t i = 0; i < count; i++) {
            const char *key = keys[random_below(&random, COUNT_OF(keys))];
            name_slowly(names, i, key);
            snprintf(values[i], sizeof values[i], "v%zu", i);
            entries[i] = (struct weir_entry){ key, values[i], strlen(key), strlen(values[i]) };
            snprintf(text + strlen(text), sizeof text - strlen(text),
                     "- { name: l%zu, key: [], when: { %s: \"v%zu\" }, rate: 9/s, burst: 9 }\n", i, names[i],
                     i);
        }
        struct loaded loaded = contract_from(text, 0);
        if (loaded.error != 0)
            fail_msg("%s%s", text, loaded.printed);
        weir_contract_describe(loaded.contract, "d", 1, &(struct weir_descriptor){ entries, count }, 1, 0,
                               &said);
        assert_null(said.refused);
        struct weir_request request = { .attributes = said.attributes,
                                        .attribute_count = said.count,
                                        .cost = 1 };
        struct weir_answer answer;
        assert_int_equal(weir_contract_decide(loaded.contract, &request, 0, &answer), 0);
        if (answer.count != count)
            fail_msg("run %d: %zu of %zu entries found\n%s", run, answer.count, count, text);
        loaded_free(&loaded);
    }
}

/* ---- Imported contracts ------------------------------------------------------------------------------------------------------ */

static void what_was_imported_is_met(void **state)
{
    (void)state;
    static const char text[] =
        "domain: d\n"
        "descriptors:\n"
        "- key: generic_key\n"
        "  value: api\n"
        "  descriptors:\n"
        "  - {key: generic_key, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
        "- {key: ':path', rate_limit: {unit: minute, requests_per_unit: 2}}\n"
        "- {key: ip, rate_limit: {unit: minute, requests_per_unit: 3}}\n"
        "- {key: 9to5, rate_limit: {unit: minute, requests_per_unit: 4}}\n"
        "- {key: state, value: present, rate_limit: {unit: minute, requests_per_unit: 5}}\n"
        "- {key: 'file', value: 'a\\b*', rate_limit: {unit: minute, requests_per_unit: 6}}\n"
        "- {key: path, rate_limit: {unit: minute, requests_per_unit: 7}}\n"
        "- {key: '*', rate_limit: {unit: minute, requests_per_unit: 8}}\n"
        "- {key: a_rather_long_key_of_more_than_thirty_bytes, descriptors: [\n"
        "    {key: a_rather_long_key_of_more_than_thirty_BYTES, rate_limit: {unit: minute,\n"
        "     requests_per_unit: 9}}]}\n";
    static const struct {
        const char *call;
        uint64_t capacity; /* 0: none is met */
    } rows[] = {
        { "d | generic_key=api, generic_key=x", 1 },
        { "d | generic_key=x, generic_key=api", 0 },
        { "d | generic_key=api", 0 },
        { "d | :path=/a?b", 2 },
        { "d | ip=nobody", 3 }, /* any text: no limit reads it as an address */
        { "d | 9to5=1", 4 },
        { "d | state=present", 5 },
        { "d | state=x", 0 },
        { "d | file=a\\bc", 6 },
        { "d | file=abc", 0 },
        { "d | path=/%zz", 7 },
        { "d | *=x", 8 },
        { "d | x=x", 0 },
        { "d | a_rather_long_key_of_more_than_thirty_bytes=x, a_rather_long_key_of_more_than_thirty_BYTES=y",
          9 },
        { "d | a_rather_long_key_of_more_than_thirty_bytes=x, a_rather_long_key_of_more_than_thirty_bytes=y",
          0 },
        { "e | 9to5=1", 0 },
        { "d | 9to5=", 4 },
    };
    struct imported imported = import_of(WEIR_FOREIGN_RATELIMIT, text);
    static struct call_text call;
    if (imported.error != 0)
        fail_msg("%s", imported.findings);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_answer answer;
        call_read(&call, rows[i].call);
        const char *refused = call_describe(imported.loaded.contract, &call);
        if (refused != NULL)
            fail_msg("%s: refused %s", rows[i].call, refused);
        assert_int_equal(weir_contract_decide(imported.loaded.contract, &call.requests[0], 0, &answer), 0);
        if (answer.count != (rows[i].capacity > 0)
            || (answer.count > 0 && answer.each[0].capacity != rows[i].capacity))
            fail_msg("%s: meets %zu limits, the first of %llu", rows[i].call, answer.count,
                     (unsigned long long)answer.each[0].capacity);
    }
    imported_free(&imported);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_attributes_of_a_descriptor),
        cmocka_unit_test(lengths_and_counts),
        cmocka_unit_test(more_than_a_request_has_room_for),
        cmocka_unit_test(others_matter_only_to_limits_that_read_them),
        cmocka_unit_test(names_are_those_of_a_slow_twin),
        cmocka_unit_test(what_was_imported_is_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
