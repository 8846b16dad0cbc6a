// SPDX-License-Identifier: Apache-2.0
/* test_import_ratelimit.c - configurations of envoyproxy/ratelimit: which descriptors meet which limit, and what is refused. */
#include "support/imports.h"

#include <sys/stat.h>
#include <unistd.h>

#include "support/unit.h"

/* A request of cost 1 at `now`, and what comes: "allow", "deny", or "none" where it meets no limit. */
struct step {
    const char *why, *request, *comes;
    weir_ns now;
    uint64_t capacity; /* of the limit that binds; 0: any */
};

static const char *word_of(const struct weir_answer *answer)
{
    if (answer->decision.limit == WEIR_NO_LIMIT)
        return "none";
    return answer->decision.outcome == WEIR_ALLOW  ? "allow"
           : answer->decision.outcome == WEIR_DENY ? "deny"
                                                   : "never";
}

static void play(const struct weir_contract *contract, const struct step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct weir_answer answer = ask(contract, steps[i].request, 1, steps[i].now);
        if (strcmp(word_of(&answer), steps[i].comes) != 0)
            fail_msg("%s: %s: got %s, not %s", steps[i].why, steps[i].request, word_of(&answer),
                     steps[i].comes);
        if (steps[i].capacity != 0 && answer.decision.capacity != steps[i].capacity)
            fail_msg("%s: %s: capacity %llu", steps[i].why, steps[i].request,
                     (unsigned long long)answer.decision.capacity);
    }
}

static void play_import(const char *text, const struct step *steps, size_t count)
{
    struct imported imported = import_of(WEIR_FOREIGN_RATELIMIT, text);
    if (imported.error != 0)
        fail_msg("refused: %s", imported.findings);
    play(imported.loaded.contract, steps, count);
    imported_free(&imported);
}

static const char storefront[] = "domain: storefront\n"
                                 "descriptors:\n"
                                 "  - key: PATH\n"
                                 "    value: \"/checkout\"\n"
                                 "    rate_limit: {unit: minute, requests_per_unit: 1}\n"
                                 "  - key: PATH\n"
                                 "    rate_limit:\n"
                                 "      unit: minute\n"
                                 "      requests_per_unit: 10\n";

static const struct step at_the_storefront[] = {
    { "the value's own limit", "domain=storefront descriptor=PATH entry-path=/checkout", "allow", 0, 1 },
    { "one a minute", "domain=storefront descriptor=PATH entry-path=/checkout", "deny", 59999999999, 1 },
    { "the next minute", "domain=storefront descriptor=PATH entry-path=/checkout", "allow", 60000000000, 1 },
    { "another value has the default", "domain=storefront descriptor=PATH entry-path=/a", "allow", 0, 10 },
    { "a key is case-sensitive", "domain=storefront descriptor=path entry-path=/checkout", "none", 0, 0 },
    { "another domain", "domain=other descriptor=PATH entry-path=/a", "none", 0, 0 },
    { "a longer descriptor has no limit", "domain=storefront descriptor=PATH,x entry-path=/a x=1", "none", 0,
      0 },
    { "an empty value is a value like any other", "domain=storefront descriptor=PATH", "allow", 0, 10 },
};

static void F01_a_flat_configuration_with_a_default(void **state)
{
    (void)state;
    struct imported imported = import_of(WEIR_FOREIGN_RATELIMIT, storefront);
    assert_int_equal(imported.error, 0);
    play(imported.loaded.contract, at_the_storefront, COUNT_OF(at_the_storefront));
    for (int i = 0; i < 10; i++) /* each other path has its own ten */
        assert_int_equal(ask(imported.loaded.contract, "domain=storefront descriptor=PATH entry-path=/b", 1, 0)
                             .decision.outcome,
                         WEIR_ALLOW);
    assert_int_equal(
        ask(imported.loaded.contract, "domain=storefront descriptor=PATH entry-path=/b", 1, 0).decision.outcome,
        WEIR_DENY);
    assert_int_equal(
        ask(imported.loaded.contract, "domain=storefront descriptor=PATH entry-path=/c", 1, 0).decision.outcome,
        WEIR_ALLOW);
    imported_free(&imported);
}

static void F01_inside_a_config_map(void **state)
{
    (void)state;
    char map[1024] = "apiVersion: v1\n"
                     "kind: ConfigMap\n"
                     "metadata: {name: rl-config, namespace: edge}\n"
                     "data:\n"
                     "  config.yaml: |\n";
    for (const char *line = storefront; *line != '\0'; line = strchr(line, '\n') + 1)
        snprintf(map + strlen(map), sizeof map - strlen(map), "    %.*s\n", (int)strcspn(line, "\n"), line);
    play_import(map, at_the_storefront, COUNT_OF(at_the_storefront));

    struct imported bad = import_of(WEIR_FOREIGN_RATELIMIT,
                                    "kind: ConfigMap\n"
                                    "data:\n"
                                    "  config.yaml: |\n"
                                    "    domain: a\n"
                                    "    descriptors:\n"
                                    "    - {key: k, rate_limit: {unit: minutes, requests_per_unit: 1}}\n");
    assert_int_equal(bad.error, WEIR_ERR_CONTRACT);
    assert_string_equal(bad.findings,
                        "text (data config.yaml):3:31: error: unit minutes of descriptor 'a.k' is no unit\n"
                        "    - {key: k, rate_limit: {unit: minutes, requests_per_unit: 1}}\n"
                        "                                  ^~~~~~~\n"
                        "  help: write second, minute, hour, day, week, month or year\n");
    imported_free(&bad);
}

static const char lab[] = "domain: lab\n"
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
                          "    detailed_metric: true\n"
                          "    metadata: {owner: [a, b]}\n";

static void F04_names_replaces_unlimited_shadow_shared(void **state)
{
    (void)state;
    static const struct step steps[] = {
        /* The two descriptors of one request: each is asked about with the other's entry beside it. */
        { "the team's own", "domain=lab descriptor=team team=alpha any=x", "allow", 0, 4 },
        { "replaces base in the same request", "domain=lab descriptor=any any=x team=alpha", "none", 0, 0 },
        { "another team replaces nothing", "domain=lab descriptor=any any=y team=beta", "allow", 0, 2 },
        { "alone", "domain=lab descriptor=any any=x", "allow", 0, 2 },
        { "base was not counted before", "domain=lab descriptor=any any=x", "allow", 0, 2 },
        { "two a minute", "domain=lab descriptor=any any=x", "deny", 0, 2 },
        { "three of four are left", "domain=lab descriptor=team team=alpha", "allow", 0, 4 },
        { "", "domain=lab descriptor=team team=alpha", "allow", 0, 4 },
        { "", "domain=lab descriptor=team team=alpha", "allow", 0, 4 },
        { "the fifth", "domain=lab descriptor=team team=alpha", "deny", 0, 4 },
        { "unlimited", "domain=lab descriptor=free free=y", "none", 0, 0 },
        { "a note alone limits nothing", "domain=lab descriptor=note note=y", "none", 0, 0 },
        { "one counter for all files", "domain=lab descriptor=doc doc=files/a", "allow", 0, 2 },
        { "one counter for all files", "domain=lab descriptor=doc doc=files/b", "allow", 0, 2 },
        { "one counter for all files", "domain=lab descriptor=doc doc=files/c", "deny", 0, 2 },
        { "not a file", "domain=lab descriptor=doc doc=other", "none", 0, 0 },
    };
    play_import(lab, steps, COUNT_OF(steps));

    struct imported imported = import_of(WEIR_FOREIGN_RATELIMIT, lab);
    for (int i = 0; i < 3; i++) {
        struct weir_answer answer =
            ask(imported.loaded.contract, "domain=lab descriptor=trial trial=odd", 1, 0);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        assert_int_equal(answer.count, 1);
        assert_int_equal(answer.each[0].outcome, i == 0 ? WEIR_ALLOW : WEIR_DENY); /* two over, in shadow */
        assert_int_equal(answer.watched, 1);
    }
    imported_free(&imported);
}

#define PER(unit, n) "rate_limit: {unit: " unit ", requests_per_unit: " #n "}"

static void B45_wildcard_values(void **state)
{
    (void)state;
    static const char text[] =
        "domain: w\n"
        "descriptors:\n"
        "- {key: p, value: 'foo*', " PER(
            "minute", 20) "}\n"
                          "- {key: p, value: 'fo*', " PER(
                              "minute",
                              30) "}\n"
                                  "- {key: p, value: 'foobar', " PER(
                                      "minute",
                                      1) "}\n"
                                         "- {key: p, " PER(
                                             "minute",
                                             5) "}\n"
                                                "- {key: m, value: 'bar*b', " PER(
                                                    "minute",
                                                    20) "}\n"
                                                        "- {key: m, value: 'foo*bar*baz', " PER(
                                                            "minute",
                                                            10) "}\n"
                                                                "- {key: m, value: 'ba*ab', " PER(
                                                                    "minute",
                                                                    7) "}\n"
                                                                       "- {key: n, value: v, descriptors: "
                                                                       "[{key: p, value: 'goo*', " PER(
                                                                           "minute",
                                                                           20) "}]}\n"
                                                                               "- {key: s, value: 'files/*', "
                                                                               "share_threshold: true, " PER(
                                                                                   "minute", 2) "}\n";
    static const struct step steps[] = {
        { "exact first", "domain=w descriptor=p p=foobar", "allow", 0, 1 },
        { "and that is one", "domain=w descriptor=p p=foobar", "deny", 0, 1 },
        { "a star may match nothing", "domain=w descriptor=p p=foo", "allow", 0, 20 },
        { "the wildcard that stands first", "domain=w descriptor=p p=foo1", "allow", 0, 20 },
        { "the next wildcard", "domain=w descriptor=p p=fox", "allow", 0, 30 },
        { "no wildcard", "domain=w descriptor=p p=x", "allow", 0, 5 },
        { "a star in the middle", "domain=w descriptor=m m=barb", "allow", 0, 20 },
        { "a star in the middle", "domain=w descriptor=m m=bar9b", "allow", 0, 20 },
        { "the end must match", "domain=w descriptor=m m=bara", "none", 0, 0 },
        { "the beginning must match", "domain=w descriptor=m m=xbarb", "none", 0, 0 },
        { "two stars", "domain=w descriptor=m m=fooXbarYbaz", "allow", 0, 10 },
        { "two stars that match nothing", "domain=w descriptor=m m=foobarbaz", "allow", 0, 10 },
        { "a middle that is missing", "domain=w descriptor=m m=foobaz", "none", 0, 0 },
        { "ends may not overlap", "domain=w descriptor=m m=bab", "none", 0, 0 },
        { "below the first level", "domain=w descriptor=n,p n=v p=goo2", "allow", 0, 20 },
        { "the parent alone has no limit", "domain=w descriptor=n n=v", "none", 0, 0 },
        { "the other order neither", "domain=w descriptor=p,n n=v p=goo2", "none", 0, 0 },
        { "one counter", "domain=w descriptor=s s=files/a", "allow", 0, 2 },
        { "one counter", "domain=w descriptor=s s=files/b", "allow", 0, 2 },
        { "one counter", "domain=w descriptor=s s=files/c", "deny", 0, 2 },
    };
    play_import(text, steps, COUNT_OF(steps));

    struct imported imported = import_of(WEIR_FOREIGN_RATELIMIT, text);
    for (int i = 0; i < 20; i++)
        assert_int_equal(ask(imported.loaded.contract, "domain=w descriptor=p p=foo1", 1, 0).decision.outcome,
                         WEIR_ALLOW);
    assert_int_equal(ask(imported.loaded.contract, "domain=w descriptor=p p=foo1", 1, 0).decision.outcome,
                     WEIR_DENY);
    assert_int_equal(ask(imported.loaded.contract, "domain=w descriptor=p p=foo2", 1, 0).decision.outcome,
                     WEIR_ALLOW); /* separate counters */
    imported_free(&imported);
}

/* Seconds from 1970 to a date, in ns: found with date(1). */
#define AT(seconds) ((weir_ns)(seconds)*1000000000u)

static void B13_months_of_30_days_and_weeks_from_Thursday(void **state)
{
    (void)state;
    static const char text[] =
        "domain: d\n"
        "descriptors:\n"
        "- {key: m, " PER("month", 3) "}\n"
                                      "- {key: w, " PER("week", 3) "}\n"
                                                                   "- {key: y, " PER("YEAR", 1) "}\n";
    static const struct step steps[] = {
        { "2027-03-02T12:00Z", "domain=d descriptor=m m=k", "allow", AT(1803988800), 3 },
        { "2027-03-02T12:00Z", "domain=d descriptor=m m=k", "allow", AT(1803988800), 3 },
        { "2027-03-02T12:00Z", "domain=d descriptor=m m=k", "allow", AT(1803988800), 3 },
        { "2027-03-02T23:59:59Z", "domain=d descriptor=m m=k", "deny", AT(1804031999), 3 },
        { "2027-03-03T00:00Z, 688 times 30 days", "domain=d descriptor=m m=k", "allow", AT(1804032000), 3 },
        { "2027-01-13T23:59:59Z, a Wednesday", "domain=d descriptor=w w=k", "allow", AT(1799884799), 3 },
        { "2027-01-13T23:59:59Z", "domain=d descriptor=w w=k", "allow", AT(1799884799), 3 },
        { "2027-01-13T23:59:59Z", "domain=d descriptor=w w=k", "allow", AT(1799884799), 3 },
        { "2027-01-13T23:59:59Z", "domain=d descriptor=w w=k", "deny", AT(1799884799), 3 },
        { "2027-01-14T00:00Z", "domain=d descriptor=w w=k", "allow", AT(1799884800), 3 },
        { "1970", "domain=d descriptor=y y=k", "allow", AT(0), 1 },
        { "the last second of 365 days", "domain=d descriptor=y y=k", "deny", AT(31535999), 1 },
        { "365 days later", "domain=d descriptor=y y=k", "allow", AT(31536000), 1 },
    };
    struct imported imported = import_of(WEIR_FOREIGN_RATELIMIT, text);
    assert_int_equal(imported.error, 0);
    assert_non_null(strstr(imported.text, "30 days counted from 1970"));
    assert_non_null(strstr(imported.text, "begins on Thursdays"));
    imported_free(&imported);
    /* Stamps are Unix times: 1.8e18 ns are beyond ten years from the origin, so the origin moves with them. */
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        static struct imported held;
        static weir_ns base;
        bool is_new = i == 0 || i == 5 || i == 10;
        if (is_new && held.text != NULL)
            imported_free(&held);
        if (is_new) {
            held = import_of(WEIR_FOREIGN_RATELIMIT, text);
            loaded_free(&held.loaded);
            base = steps[i].now;
            held.loaded = contract_from(held.text, (int64_t)base);
        }
        struct step step = steps[i];
        step.now -= base;
        play(held.loaded.contract, &step, 1);
        if (i + 1 == COUNT_OF(steps))
            imported_free(&held);
    }
}

/* What the names of attributes become. */
static void names_of_entries(void **state)
{
    (void)state;
    static const char text[] =
        "domain: d\n"
        "descriptors:\n"
        "- key: generic_key\n"
        "  value: api\n"
        "  descriptors:\n"
        "  - {key: generic_key, " PER(
            "minute", 1) "}\n"
                         "- {key: ':path', " PER(
                             "minute", 2) "}\n"
                                          "- {key: ip, " PER(
                                              "minute", 3) "}\n"
                                                           "- {key: 9to5, " PER(
                                                               "minute",
                                                               4) "}\n"
                                                                  "- {key: state, value: present, " PER(
                                                                      "minute",
                                                                      5) "}\n"
                                                                         "- {key: file, value: 'a\\b*', " PER(
                                                                             "minute", 6) "}\n";
    static const struct step steps[] = {
        { "a key twice", "domain=d descriptor=generic_key,generic_key generic-key=api generic-key-2=x", "allow",
          0, 1 },
        { "the first must be api",
          "domain=d descriptor=generic_key,generic_key generic-key=x generic-key-2=api", "none", 0, 0 },
        { "a pseudo-header", "domain=d descriptor=:path x-path=/a?b", "allow", 0, 2 },
        { "a name that weir has itself: any text, not only an address",
          "domain=d descriptor=ip entry-ip=nobody", "allow", 0, 3 },
        { "a digit first", "domain=d descriptor=9to5 x-9to5=1", "allow", 0, 4 },
        { "a word of `when` as a value", "domain=d descriptor=state state=present", "allow", 0, 5 },
        { "and only that", "domain=d descriptor=state state=x", "none", 0, 0 },
        { "a backslash is a backslash", "domain=d descriptor=file file=a\\bc", "allow", 0, 6 },
        { "and no escape", "domain=d descriptor=file file=abc", "none", 0, 0 },
    };
    play_import(text, steps, COUNT_OF(steps));
}

static void descending_does_not_come_back(void **state)
{
    (void)state;
    static const char text[] = "domain: d\n"
                               "descriptors:\n"
                               "- {key: a, value: x, descriptors: [{key: b, value: y, " PER(
                                   "minute", 1) "}]}\n"
                                                "- {key: a, " PER("hour", 9) ", descriptors: [{key: b, " PER(
                                                    "minute", 2) "}]}\n"
                                                                 "- {key: z, value: '0', " PER("hour", 0) "}\n";
    static const struct step steps[] = {
        { "exact, exact", "domain=d descriptor=a,b a=x b=y", "allow", 0, 1 },
        { "the exact parent is taken though its child does not fit", "domain=d descriptor=a,b a=x b=z", "none",
          0, 0 },
        { "any, any", "domain=d descriptor=a,b a=w b=z", "allow", 0, 2 },
        { "each pair is counted apart", "domain=d descriptor=a,b a=v b=z", "allow", 0, 2 },
        { "the parent has a limit of its own", "domain=d descriptor=a a=w", "allow", 0, 9 },
        { "but not for the exact one", "domain=d descriptor=a a=x", "none", 0, 0 },
        { "a limit of zero", "domain=d descriptor=z z=0", "never", 0, 0 },
    };
    play_import(text, steps, COUNT_OF(steps));
}

/* ---- Refused -------------------------------------------------------------------------------------------------------------- */

#define D "domain: d\ndescriptors:\n"
#define INTEGER(problem) "requests_per_unit " problem

static void refuses_what_the_service_refuses_and_what_cannot_be_said(void **state)
{
    (void)state;
    static const struct {
        const char *why, *text, *errors;
    } rows[] = {
        { "B43 (a): a twin", D "- {key: k, value: v}\n- {key: k, value: v}\n",
          "4:3 d.k_v is there twice; first in line 3" },
        { "B43 (b): a value, another, and none", D "- {key: k, value: v}\n- {key: k, value: w}\n- {key: k}\n",
          "" },
        { "key and value are joined there", D "- {key: a, value: b_c}\n- {key: a_b, value: c}\n",
          "4:3 d.a_b_c is there twice; first in line 3" },
        { "B43 (f): an empty file", "# nothing\n\n", "0:0 the file is empty" },
        { "B43 (d): no YAML", "domain: [d\n",
          "2:1 did not find expected ',' or ']', while parsing a flow sequence from "
          "line 1" },
        { "no domain", "descriptors: []\n", "1:1 domain is missing" },
        { "an empty domain", "domain: ''\n", "1:9 domain is empty" },
        { "an unknown field", D "- {key: k, ratelimit: {}}\n", "3:12 unknown field 'ratelimit'" },
        { "no key", D "- {value: v}\n", "3:3 key is missing" },
        { "B47: minute", D "- {key: k, " PER("minute", 1) "}\n", "" },
        { "B47: Minute", D "- {key: k, " PER("Minute", 1) "}\n", "" },
        { "B47: MINUTE", D "- {key: k, " PER("MINUTE", 1) "}\n", "" },
        { "B47: week", D "- {key: k, " PER("week", 1) "}\n", "" },
        { "B47: minutes", D "- {key: k, " PER("minutes", 1) "}\n",
          "3:31 unit minutes of descriptor 'd.k' is no unit" },
        { "B47: unknown", D "- {key: k, " PER("unknown", 1) "}\n",
          "3:31 unit unknown of descriptor 'd.k' is no unit" },
        { "B47: an empty unit", D "- {key: k, " PER("''", 1) "}\n", "3:31 unit of descriptor 'd.k' is empty" },
        { "B47: no unit", D "- {key: k, rate_limit: {requests_per_unit: 1}}\n",
          "3:24 rate_limit of descriptor 'd.k' has no unit" },
        { "no number", D "- {key: k, rate_limit: {unit: day}}\n",
          "3:24 rate_limit of descriptor 'd.k' has no requests_per_unit" },
        { "B47: unlimited with a unit", D "- {key: k, rate_limit: {unlimited: true, unit: day}}\n",
          "3:48 unit day of descriptor 'd.k' stands beside `unlimited: true`" },
        { "B47: text", D "- {key: k, " PER("day", '5') "}\n",
          "3:55 " INTEGER("5 of descriptor 'd.k' is quoted text, not an integer") },
        { "B47: a fraction", D "- {key: k, " PER("day", 5.5) "}\n",
          "3:55 " INTEGER("5.5 of descriptor 'd.k' is not a plain integer") },
        { "B47: negative", D "- {key: k, " PER("day", -1) "}\n",
          "3:55 " INTEGER("-1 of descriptor 'd.k' is not a plain integer") },
        { "B47: 2^32", D "- {key: k, " PER("day", 4294967296) "}\n",
          "3:55 " INTEGER("4294967296 of descriptor 'd.k' is too large") },
        { "F04: shared without a star", D "- {key: k, value: v, share_threshold: true, " PER("day", 1) "}\n",
          "3:39 share_threshold true stands beside a value without a wildcard" },
        { "F04: replaces itself",
          D "- {key: k, rate_limit: {name: n, unit: day, requests_per_unit: 1, replaces: [{name: n}]}}\n",
          "3:85 replaces n of descriptor 'd.k' names the limit itself" },
        { "F04: an empty entry",
          D "- {key: k, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{}]}}\n",
          "3:69 replaces of descriptor 'd.k' has a member that is not just a name" },
        { "one rule of quota_mode refuses like any other",
          D "- {key: a, quota_mode: true, " PER("day", 1) "}\n", "" },
        { "of two, one with room is enough",
          D
          "- {key: a, quota_mode: true, " PER("day", 1) "}\n- {key: b, quota_mode: true, " PER("day", 1) "}\n",
          "3:3 quota_mode in more than one rule of a domain: there a request passes while any of them has "
          "room, here all "
          "must have | 4:3 quota_mode in more than one rule of a domain: there a request passes while any of "
          "them has "
          "room, here all must have" },
        { "replaces from below",
          D "- {key: a, descriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: "
            "n}]}}]}\n"
            "- {key: c, rate_limit: {name: n, unit: day, requests_per_unit: 1}}\n",
          "3:99 'n' is replaced by a rule below the first level: whether it applies takes several attributes, "
          "and `when` "
          "could only exclude each of them" },
        { "replaces of the same key",
          D "- {key: a, value: x, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: n}]}}\n"
            "- {key: a, value: y, rate_limit: {name: n, unit: day, requests_per_unit: 1}}\n",
          "3:86 'n' is replaced by a rule of the same key: a request has one value of it here" },
        { "replaces by a part of the values",
          D "- {key: a, value: x}\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: "
            "n}]}}\n"
            "- {key: b, rate_limit: {name: n, unit: day, requests_per_unit: 1}}\n",
          "4:76 'n' is replaced by a rule that applies to some values only because others are taken before "
          "it" },
        { "a comma in a key", D "- {key: 'a,b'}\n",
          "3:9 key a,b has a comma, which here stands between the keys of a descriptor" },
        { "a newline in a value", D "- {key: a, value: \"x\\ny\"}\n",
          "3:19 value x?y has a control character, which no request here can carry" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char errors[2000];
        import_errors(WEIR_FOREIGN_RATELIMIT, rows[i].text, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s:\n%s\ngot  %s\nwant %s", rows[i].why, rows[i].text, errors, rows[i].errors);
    }
}

/* ---- Folders -------------------------------------------------------------------------------------------------------------- */

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* The printed findings of a folder's import, or its contract. */
static void import_folder(const char *folder, char *out, size_t size)
{
    struct weir_diagnostics *diagnostics;
    FILE *stream = fmemopen(out, size, "w");
    assert_non_null(stream);
    if (weir_contract_import(WEIR_FOREIGN_RATELIMIT, folder, stream, &diagnostics) != 0)
        weir_diagnostics_print(diagnostics, stream, false);
    weir_diagnostics_free(diagnostics);
    assert_int_equal(fclose(stream), 0);
}

static void B43_files_of_a_folder(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-import-XXXXXX", out[8000], expected[1000];
    assert_non_null(mkdtemp(folder));
    import_folder(folder, out, sizeof out);
    assert_non_null(strstr(out, "the folder has no .yaml or .yml file"));
    write_file(folder, "b.yaml", "domain: two\ndescriptors:\n- {key: k, value: v}\n- {key: k, value: v}\n");
    write_file(folder, "a.yml", "domain: one\ndescriptors:\n- {key: k, " PER("day", 1) "}\n");
    write_file(folder, ".hidden.yaml", "nonsense");
    write_file(folder, "notes.txt", "nonsense");
    write_file(folder, "c.yaml", "domain: one\n");
    import_folder(folder, out, sizeof out);
    snprintf(expected, sizeof expected,
             "%s/b.yaml:4:3: error: two.k_v is there twice; first in line 3\n"
             "    - {key: k, value: v}\n"
             "      ^\n"
             "  help: keep one of the two\n"
             "%s/c.yaml:1:1: error: domain 'one' is in %s/a.yml already\n"
             "    domain: one\n"
             "    ^\n"
             "  help: put the rules of a domain into one file\n",
             folder, folder, folder);
    assert_string_equal(out, expected);
    write_file(folder, "b.yaml", "domain: two\ndescriptors:\n- {key: k, value: v, " PER("day", 2) "}\n");
    write_file(folder, "c.yaml", "domain: three\n");
    import_folder(folder, out, sizeof out);
    assert_non_null(strstr(out, "domain: \"one\""));
    assert_non_null(strstr(out, "domain: \"two\""));
    assert_null(strstr(out, "nonsense"));
    const char *const names[] = { "a.yml", "b.yaml", "c.yaml", ".hidden.yaml", "notes.txt" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
    import_folder(folder, out, sizeof out);
    assert_non_null(strstr(out, "cannot be read: No such file or directory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(F01_a_flat_configuration_with_a_default),
        cmocka_unit_test(F01_inside_a_config_map),
        cmocka_unit_test(F04_names_replaces_unlimited_shadow_shared),
        cmocka_unit_test(B45_wildcard_values),
        cmocka_unit_test(B13_months_of_30_days_and_weeks_from_Thursday),
        cmocka_unit_test(names_of_entries),
        cmocka_unit_test(descending_does_not_come_back),
        cmocka_unit_test(refuses_what_the_service_refuses_and_what_cannot_be_said),
        cmocka_unit_test(B43_files_of_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
