// SPDX-License-Identifier: Apache-2.0
/*
 * Which limits a request meets: a table, ten thousand limits of the kinds that must stay cheap, and random contracts
 * against one condition after the other (condition_holds(), which knows no index).
 */

#include "support/unit.h"

#include "rule/match.h"
#include "support/random.h"
#include "weir.h"

enum { PATH, TENANT, IP, METHOD, ATTRIBUTES, MANY = 10000, FOUND_MAX = 64 };

/* ---- Limits written short: "path=/v1|/v2 tenant!=a* ip=10.0.0.0/8 method=present" ----------------------------------- */

struct written {
    struct condition conditions[ATTRIBUTES];
    struct slice patterns[16];
    struct network networks[16];
    size_t count, pattern_count, network_count;
};

static unsigned attribute_of(struct slice name)
{
    static const char *const names[ATTRIBUTES] = { "path", "tenant", "ip", "method" };
    for (unsigned i = 0; i < ATTRIBUTES; i++)
        if (slice_equals(name, slice_of(names[i])))
            return i;
    fail_msg("no attribute '%.*s'", (int)name.len, name.at);
    return 0;
}

static void add_value(struct written *limit, struct condition *condition, struct slice text)
{
    if (condition->kind == CONDITION_NETWORKS) {
        assert_int_equal(network_parse(text, &limit->networks[limit->network_count++]), NETWORK_OK);
        condition->network_count++;
    } else {
        assert_null(glob_check(text));
        limit->patterns[limit->pattern_count++] = text;
        condition->pattern_count++;
    }
}

static void add_condition(struct written *limit, struct slice word)
{
    struct condition *condition = limit->conditions + limit->count++;
    const char *equals = memchr(word.at, '=', word.len);
    assert_non_null(equals);
    *condition = (struct condition){ .is_negated = equals[-1] == '!' };
    struct slice name = { word.at, (size_t)(equals - word.at) - condition->is_negated };
    struct slice values = { equals + 1, word.len - (size_t)(equals + 1 - word.at) };
    condition->attribute = attribute_of(name);
    condition->dialect = condition->attribute == PATH ? GLOB_PATH : GLOB_TEXT;
    condition->kind = condition->attribute == IP ? CONDITION_NETWORKS : CONDITION_GLOBS;
    condition->patterns = limit->patterns + limit->pattern_count;
    condition->networks = limit->networks + limit->network_count;
    if (slice_equals(values, SLICE("present")) || slice_equals(values, SLICE("absent"))) {
        condition->kind = values.at[0] == 'p' ? CONDITION_PRESENT : CONDITION_ABSENT;
        return;
    }
    while (values.len > 0) {
        const char *bar = memchr(values.at, '|', values.len);
        size_t len = bar == NULL ? values.len : (size_t)(bar - values.at);
        add_value(limit, condition, (struct slice){ values.at, len });
        size_t used = bar == NULL ? len : len + 1;
        values.at += used;
        values.len -= used;
    }
}

static void write_limit(struct written *limit, const char *text)
{
    *limit = (struct written){ 0 };
    for (const char *at = text; *at != '\0'; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        add_condition(limit, (struct slice){ at, len });
        at += len;
    }
}

static struct matcher *build(const struct written *limits, size_t count)
{
    struct condition_list *lists = calloc(count + 1, sizeof *lists);
    struct matcher *matcher;
    assert_non_null(lists);
    for (size_t i = 0; i < count; i++)
        lists[i] = (struct condition_list){ limits[i].conditions, limits[i].count };
    assert_int_equal(matcher_new(&matcher, lists, count), 0);
    free(lists);
    return matcher;
}

struct asked {
    struct slice values[ATTRIBUTES];
    struct address address;
    bool has_address;
};

static struct asked ask(const char *path, const char *tenant, const char *ip, const char *method)
{
    struct asked asked = { { slice_of(path), slice_of(tenant), slice_of(ip), slice_of(method) },
                           { { 0 } },
                           false };
    asked.has_address = address_parse(asked.values[IP], &asked.address);
    return asked;
}

static size_t find(const struct matcher *matcher, const struct asked *asked, uint32_t *out, size_t max)
{
    return matcher_find(matcher, asked->values, asked->has_address ? &asked->address : NULL, out, max);
}

/* ---- A table ----------------------------------------------------------------------------------------------------------- */

static const char *const contract[] = {
    /* 0 */ "path=/v1/**",
    /* 1 */ "path=/v1/*/items",
    /* 2 */ "tenant=acme",
    /* 3 */ "tenant=acme|umbrella|a*e path=/v1/**",
    /* 4 */ "tenant!=acme",
    /* 5 */ "ip=10.0.0.0/8|2001:db8::/32",
    /* 6 */ "ip!=10.0.0.0/8",
    /* 7 */ "",
    /* 8 */ "tenant=absent",
    /* 9 */ "tenant=present method=POST",
    /* 10 */ "path=/pay/** method!=GET|HEAD ip=10.1.0.0/16",
    /* 11 */ "ip=10.1.2.3",
    /* 12 */ "ip=absent",
};

static const struct row {
    const char *why, *path, *tenant, *ip, *method;
    const char *found;
} rows[] = {
    { "nothing known: what needs nothing, and what must not be dodged by leaving out", "", "", "", "",
      "4 6 7 8 12 " },
    { "a path", "/v1/x", "", "", "", "0 4 6 7 8 12 " },
    { "a path with a wildcard inside", "/v1/a/items", "", "", "", "0 1 4 6 7 8 12 " },
    { "a tenant, found under two patterns of one list: once", "/v1", "acme", "", "", "0 2 3 6 7 12 " },
    { "another tenant", "/v1", "umbrella", "", "", "0 3 4 6 7 12 " },
    { "the list alone is not enough", "/v2", "acme", "", "", "2 6 7 12 " },
    { "an address in networks of three lengths", "", "acme", "10.1.2.3", "", "2 5 7 11 " },
    { "a mapped address is the same", "", "acme", "::ffff:10.1.2.3", "", "2 5 7 11 " },
    { "another family", "", "acme", "2001:db8::7", "", "2 5 6 7 " },
    { "another network", "", "acme", "192.0.2.1", "", "2 6 7 " },
    { "present, and its other condition", "", "x", "", "POST", "4 6 7 9 12 " },
    { "present, without it", "", "x", "", "GET", "4 6 7 12 " },
    { "all of three conditions", "/pay/x", "", "10.1.0.9", "PUT", "4 5 7 8 10 " },
    { "a negated one fails", "/pay/x", "", "10.1.0.9", "HEAD", "4 5 7 8 " },
    { "an address that is none is in no network", "", "acme", "unknown", "", "2 6 7 " },
};

static void table(void **state)
{
    (void)state;
    static struct written limits[COUNT_OF(contract)];
    for (size_t i = 0; i < COUNT_OF(contract); i++)
        write_limit(limits + i, contract[i]);
    struct matcher *matcher = build(limits, COUNT_OF(contract));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint32_t out[FOUND_MAX];
        char text[200] = "";
        struct asked asked = ask(rows[i].path, rows[i].tenant, rows[i].ip, rows[i].method);
        size_t count = find(matcher, &asked, out, FOUND_MAX);
        for (size_t n = 0; n < count; n++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%u ", out[n]);
        if (strcmp(text, rows[i].found) != 0)
            fail_msg("%s: found %s", rows[i].why, text);
    }
    matcher_free(matcher);
    matcher_free(NULL);
}

static void no_limits_at_all(void **state)
{
    (void)state;
    uint32_t out[1];
    struct asked asked = ask("/v1", "acme", "10.0.0.1", "GET");
    struct matcher *matcher = build(NULL, 0);
    assert_int_equal(find(matcher, &asked, out, 1), 0);
    matcher_free(matcher);
}

static void more_than_fit_is_said(void **state)
{
    (void)state;
    static struct written limits[10];
    uint32_t out[12];
    struct asked asked = ask("/v1", "", "", "");
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        write_limit(limits + i, i % 2 == 0 ? "path=/v1" : "");
    struct matcher *matcher = build(limits, COUNT_OF(limits));
    assert_int_equal(find(matcher, &asked, out, 12), 10);
    assert_int_equal(find(matcher, &asked, out, 10), 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(out[i], i);
    assert_int_equal(find(matcher, &asked, out, 9), 10);
    assert_int_equal(find(matcher, &asked, out, 3), 4);
    assert_int_equal(find(matcher, &asked, NULL, 0), 1);
    matcher_free(matcher);
}

/* ---- Ten thousand limits ------------------------------------------------------------------------------------------------ */

/* The limit's number for each `#`, in five digits; for each `@` in two octets. */
static void fill_in(const char *format, unsigned number, char *text, size_t room)
{
    size_t len = 0;
    for (; *format != '\0'; format++) {
        if (*format == '#')
            len += (size_t)snprintf(text + len, room - len, "%05u", number);
        else if (*format == '@')
            len += (size_t)snprintf(text + len, room - len, "%u.%u", number / 256, number % 256);
        else
            text[len++] = *format;
    }
    text[len] = '\0';
}

static struct written *write_many(const char *format, char (**texts)[64])
{
    struct written *limits = calloc(MANY, sizeof *limits);
    *texts = calloc(MANY, sizeof **texts);
    assert_non_null(limits);
    assert_non_null(*texts);
    for (unsigned i = 0; i < MANY; i++) {
        fill_in(format, i, (*texts)[i], sizeof **texts);
        write_limit(limits + i, (*texts)[i]);
    }
    return limits;
}

static void among_ten_thousand(void **state)
{
    (void)state;
    static const struct {
        const char *why, *format, *path, *tenant, *ip;
        int found; /* -1: none */
    } kinds[] = {
        { "wildcards in the middle of paths", "path=/v1/*/item-#/**", "/v1/acme/item-04711/x/y", "", "", 4711 },
        { "none of them", "path=/v1/*/item-#/**", "/v1/acme/item-14711/x/y", "", "", -1 },
        { "wildcards around", "tenant=a*#*b", "", "axxx04711xxb", "", 4711 },
        { "exact values", "tenant=t-#", "", "t-04711", "", 4711 },
        { "exact values, a longer one", "tenant=t-#", "", "t-047110", "", -1 },
        { "endings", "tenant=*.n#.example", "", "www.n04711.example", "", 4711 },
        { "networks", "ip=10.@.0/24", "", "", "10.18.103.9", 4711 },
        { "addresses", "ip=10.@.7", "", "", "10.18.103.7", 4711 },
        { "a common condition beside the rare one", "path=/v1/** tenant=t-#", "/v1/x", "t-04711", "", 4711 },
        { "which must hold as well", "path=/v1/** tenant=t-#", "/v2/x", "t-04711", "", -1 },
    };
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        char(*texts)[64];
        uint32_t out[FOUND_MAX];
        struct asked asked = ask(kinds[k].path, kinds[k].tenant, kinds[k].ip, "");
        struct written *limits = write_many(kinds[k].format, &texts);
        struct matcher *matcher = build(limits, MANY);
        expect_row(find(matcher, &asked, out, FOUND_MAX) == (kinds[k].found >= 0), kinds[k].why);
        if (kinds[k].found >= 0)
            expect_row(out[0] == (uint32_t)kinds[k].found, kinds[k].why);
        matcher_free(matcher);
        free(texts);
        free(limits);
    }
}

/* Values made to keep as many branches alive as they can: 1024 digits in which nearly every group of five differs. */
static void hostile_values(void **state)
{
    (void)state;
    static const char *const formats[] = { "tenant=a*#*b", "tenant=*#*c*d*", "tenant=*#*#" };
    char value[1025];
    struct random random = { random_seed(1024) };
    for (size_t i = 0; i < 1024; i++)
        value[i] = (char)('0' + random_below(&random, 10));
    value[0] = 'a';
    value[1023] = 'b';
    value[1024] = '\0';
    for (size_t k = 0; k < COUNT_OF(formats); k++) {
        char(*texts)[64];
        static uint32_t out[MANY];
        struct asked asked = ask("", value, "", "");
        struct written *limits = write_many(formats[k], &texts);
        struct matcher *matcher = build(limits, MANY);
        size_t count = find(matcher, &asked, out, MANY), next = 0;
        for (uint32_t i = 0; i < MANY; i++) {
            bool is_met = condition_holds(limits[i].conditions, asked.values, NULL);
            assert_int_equal(next < count && out[next] == i, is_met);
            next += is_met;
        }
        assert_int_equal(next, count);
        matcher_free(matcher);
        free(texts);
        free(limits);
    }
}

/* ---- Random contracts ----------------------------------------------------------------------------------------------------- */

static void random_word(struct random *random, char *to, size_t room, const char *name,
                        const char *const *values, size_t count)
{
    bool is_negated = random_below(random, 4) == 0;
    snprintf(to, room, "%s%s=%s", name, is_negated ? "!" : "", values[random_below(random, count)]);
    for (size_t more = random_below(random, 3); more > 0; more--)
        snprintf(to + strlen(to), room - strlen(to), "|%s", values[random_below(random, count)]);
    size_t kind = random_below(random, 8);
    if (kind < 2)
        snprintf(to, room, "%s=%s", name, kind == 0 ? "present" : "absent");
}

static const char *const path_globs[] = { "/a/**", "/a/*/b", "/a",       "/**/b", "/a*b",
                                          "**",    "/*",     "/b/**/a*", "/a/b*" };
static const char *const tenant_globs[] = { "a", "b", "a*", "*b", "*ab*", "ab", "a*b*a", "**" };
static const char *const some_networks[] = { "10.0.0.0/8", "10.1.0.0/16",   "10.1.2.3",    "0.0.0.0/0",
                                             "::/0",       "2001:db8::/32", "2001:db8::1", "10.1.2.0/24" };
static const char *const methods[] = { "GET", "POST", "P*" };
static const char *const paths[] = { "",     "/",   "/a",        "/a/",  "/a/x/b",
                                     "/a/b", "/ab", "/b/x/y/ab", "/x/b", "/a/b/b" };
static const char *const tenants[] = { "", "a", "b", "ab", "aab", "abba", "ba" };
static const char *const addresses[] = { "",          "10.1.2.3",    "10.1.2.4", "10.2.0.1",
                                         "192.0.2.1", "2001:db8::1", "::1" };

static void random_limit(struct random *random, char *text, size_t room)
{
    static const struct {
        const char *name;
        const char *const *values;
        size_t count;
    } kinds[ATTRIBUTES] = { { "path", path_globs, COUNT_OF(path_globs) },
                            { "tenant", tenant_globs, COUNT_OF(tenant_globs) },
                            { "ip", some_networks, COUNT_OF(some_networks) },
                            { "method", methods, COUNT_OF(methods) } };
    *text = '\0';
    for (unsigned i = 0; i < ATTRIBUTES; i++) {
        if (random_below(random, 2) == 0)
            continue;
        char word[64];
        random_word(random, word, sizeof word, kinds[i].name, kinds[i].values, kinds[i].count);
        snprintf(text + strlen(text), room - strlen(text), "%s%s", *text == '\0' ? "" : " ", word);
    }
}

static void the_index_finds_what_holds(void **state)
{
    (void)state;
    struct random random = { random_seed(8) };
    static struct written limits[200];
    static char texts[200][256];
    size_t total = 0;
    for (unsigned round = 0; round < 300; round++) {
        size_t count = 1 + random_below(&random, round % 4 == 0 ? 200 : 12);
        for (size_t i = 0; i < count; i++) {
            random_limit(&random, texts[i], sizeof texts[i]);
            write_limit(limits + i, texts[i]);
        }
        struct matcher *matcher = build(limits, count);
        for (unsigned i = 0; i < 100; i++) {
            uint32_t out[200];
            struct asked asked = ask(paths[random_below(&random, COUNT_OF(paths))],
                                     tenants[random_below(&random, COUNT_OF(tenants))],
                                     addresses[random_below(&random, COUNT_OF(addresses))],
                                     random_below(&random, 2) == 0 ? "GET" : "PUT");
            size_t found = find(matcher, &asked, out, 200), next = 0;
            for (uint32_t n = 0; n < count; n++) {
                bool holds = true;
                for (size_t c = 0; c < limits[n].count; c++)
                    holds &= condition_holds(limits[n].conditions + c, asked.values,
                                             asked.has_address ? &asked.address : NULL);
                if ((next < found && out[next] == n) != holds)
                    fail_msg("round %u: limit '%s' for path '%s' tenant '%s' ip '%s'", round, texts[n],
                             asked.values[PATH].at, asked.values[TENANT].at, asked.values[IP].at);
                next += holds;
            }
            assert_int_equal(next, found);
            total += found;
        }
        matcher_free(matcher);
    }
    assert_true(total > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(no_limits_at_all),
        cmocka_unit_test(more_than_fit_is_said),
        cmocka_unit_test(among_ten_thousand),
        cmocka_unit_test(hostile_values),
        cmocka_unit_test(the_index_finds_what_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
