// SPDX-License-Identifier: Apache-2.0
/* test_name.c - names of keys in the store: one for each key, read back, and in the slot that a Cluster says. */
#include "support/unit.h"

#include "fleet/name.h"
#include "support/random.h"

static struct slice name_of(const char *limit_name, const char *form, enum weir_algorithm algorithm,
                            const void *key, size_t key_len, char *out)
{
    struct weir_limit spec = { .name = limit_name, .algorithm = algorithm, .key_form = form };
    struct weir_contract_limit limit = { .name = limit_name, .algorithm = algorithm, .spec = &spec };
    return (struct slice){ out, name_write(&limit, key, key_len, out) };
}

/* Parts as a key of a contract: "a|b", where "" is an absent part. */
static size_t key_of(const char *parts, unsigned char *out)
{
    size_t len = 0;
    for (const char *at = parts; at != NULL;) {
        size_t part = strcspn(at, "|"), prefix = part == 0 ? 0 : part + 1;
        out[len++] = (unsigned char)(prefix >> 8);
        out[len++] = (unsigned char)prefix;
        memcpy(out + len, at, part);
        len += part;
        at = at[part] == '|' ? at + part + 1 : NULL;
    }
    return len;
}

static void writes_and_reads(void **state)
{
    (void)state;
    static const struct row {
        const char *why, *form, *parts;
        enum weir_algorithm algorithm;
        const char *name, *tag, *rest;
        char letter;
    } rows[] = {
        { "two parts: the first one is the tag", "tenant,path", "acme|/v1/items", WEIR_TOKEN_BUCKET,
          "weir:1:{tenant=acme}:lim:b:path=/v1/items", "tenant=acme", "path=/v1/items", 'b' },
        { "one part", "tenant", "acme", WEIR_FIXED_WINDOW, "weir:1:{tenant=acme}:lim:f:", "tenant=acme", "",
          'f' },
        { "three parts", "a,b,c", "1|2|3", WEIR_SLIDING_WINDOW, "weir:1:{a=1}:lim:s:b=2,c=3", "a=1", "b=2,c=3",
          's' },
        { "absent parts", "a,b,c", "|2|", WEIR_SLIDING_LOG, "weir:1:{a}:lim:l:b=2,c", "a", "b=2,c", 'l' },
        { "no key: the limit's name", "", NULL, WEIR_CONCURRENCY, "weir:1:{lim}:lim:c", "lim", "", 'c' },
        { "separators are escaped", "a,b", "}{:,=%|\n\xff", WEIR_TOKEN_BUCKET,
          "weir:1:{a=%7D%7B%3A%2C%3D%25}:lim:b:b=%0A%FF", "a=%7D%7B%3A%2C%3D%25", "b=%0A%FF", 'b' },
        { "how addresses are grouped is no part of a name", "ip/32/64,path", "10.0.0.1|x", WEIR_LEAKY_BUCKET,
          "weir:1:{ip=10.0.0.1}:lim:b:path=x", "ip=10.0.0.1", "path=x", 'b' },
        { "an IPv6 address", "ip/32/64", "2001:db8::", WEIR_LEAKY_QUEUE,
          "weir:1:{ip=2001%3Adb8%3A%3A}:lim:b:", "ip=2001%3Adb8%3A%3A", "", 'b' },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        unsigned char key[WEIR_SHARED_KEY_MAX];
        char out[NAME_MAX_LEN];
        size_t len = rows[i].parts == NULL ? 0 : key_of(rows[i].parts, key);
        struct slice name = name_of("lim", rows[i].form, rows[i].algorithm, key, len, out);
        struct name_parts parts;
        expect_row(slice_equals(name, slice_of(rows[i].name)), rows[i].why);
        expect_row(name_read(name, &parts), rows[i].why);
        expect_row(slice_equals(parts.limit, SLICE("lim")), rows[i].why);
        expect_row(slice_equals(parts.tag, slice_of(rows[i].tag)), rows[i].why);
        expect_row(slice_equals(name_tag(name), parts.tag), rows[i].why);
        expect_row(slice_equals(parts.rest, slice_of(rows[i].rest)), rows[i].why);
        expect_row(parts.algorithm == rows[i].letter, rows[i].why);
    }
}

static void a_long_key_is_its_digest(void **state)
{
    (void)state;
    unsigned char key[34] = { 0xff, 0xff, 0xab };
    char out[NAME_MAX_LEN];
    struct slice name = name_of("lim", "a,b", WEIR_TOKEN_BUCKET, key, sizeof key, out);
    struct name_parts parts;
    assert_int_equal(name_tag(name).len, 65);
    assert_true(name_read(name, &parts));
    assert_true(parts.tag.at[0] == '~' && memcmp(parts.tag.at + 1, "ab00", 4) == 0 && parts.rest.len == 0);
}

/* Slots: the Cluster specification's examples, and `redis-cli cluster keyslot`. */
static void knows_slots(void **state)
{
    (void)state;
    assert_int_equal(name_slot(SLICE("123456789")), 0x31C3);
    assert_int_equal(name_slot(SLICE("foo")), 12182);
    assert_int_equal(name_slot(SLICE("{user1000}.following")), name_slot(SLICE("{user1000}.followers")));
    assert_int_equal(name_slot(SLICE("{user1000}.following")), name_slot(SLICE("user1000")));
    assert_int_equal(name_slot(SLICE("foo{}{bar}")), 8363); /* an empty tag is none: the whole key */
    assert_int_equal(name_slot(SLICE("foo{{bar}}zap")), name_slot(SLICE("{bar")));
    assert_int_equal(name_slot(SLICE("foo{bar}{zap}")), name_slot(SLICE("bar")));
    assert_int_equal(name_slot((struct slice){ NULL, 0 }), 0);
}

static void refuses_what_is_none_of_ours(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "weir:1:",
        "weir:1:{}",
        "weir:1:{}:lim:b:",
        "weir:1:{a=1}",
        "weir:1:{a=1}:lim",
        "weir:1:{a=1}:lim:",
        "weir:1:{a=1}:lim:x:",
        "weir:1:{a=1}:lim:bb:",
        "weir:1:{a=1}:Lim:b:",
        "weir:1:{a=1}::b:",
        "weir:1:{a=1}:~r:0123456789abcdef0123456789abcdef",
        "weir:1:{a=1}:lim:b::r:0123456789abcdef0123456789abcdef",
        "weir:1:{a=1}:lim:b::u:0123456789abcdef0123456789abcdef",
        "weir:1:{node}:incarnation",
        "weir:2:{a=1}:lim:b:",
        "weir:1:{a=%7}:lim:b:",
        "weir:1:{a=%7d}:lim:b:",
        "weir:1:{a=1,b=2}:lim:b:",
        "weir:1:{a=1}:lim:b:b= ",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct name_parts parts;
        expect_row(!name_read(slice_of(names[i]), &parts), names[i]);
    }
    static const char with_zero[] = "weir:1:{a=1}:lim:b:b=\0";
    struct name_parts parts;
    assert_false(name_read((struct slice){ with_zero, sizeof with_zero - 1 }, &parts));
}

/* A glob of Redis with '*' alone, which is what a pattern of ours has. */
static bool matches(struct slice pattern, struct slice text)
{
    if (pattern.len == 0)
        return text.len == 0;
    struct slice rest = { pattern.at + 1, pattern.len - 1 };
    if (pattern.at[0] != '*')
        return text.len > 0 && text.at[0] == pattern.at[0]
               && matches(rest, (struct slice){ text.at + 1, text.len - 1 });
    for (size_t i = 0; i <= text.len; i++)
        if (matches(rest, (struct slice){ text.at + i, text.len - i }))
            return true;
    return false;
}

static void a_pattern_finds_one_limit(void **state)
{
    (void)state;
    char out[NAME_MAX_LEN];
    struct slice pattern = { out, name_pattern("b", out) };
    assert_true(matches(pattern, SLICE("weir:1:{b}:b:b")));
    assert_true(matches(pattern, SLICE("weir:1:{t=1}:b:s:path=/")));
    assert_true(matches(pattern, SLICE("weir:1:{t=1}:b:s:path=/:r:00")));
    assert_false(matches(pattern, SLICE("weir:1:{t=1}:bb:s:path=/")));
    assert_false(matches(pattern, SLICE("weir:1:{b}:c:b:")));
    assert_false(matches(pattern, SLICE("weir:1:{t=1}:c:b:x=%7D%3Ab%3A")));
}

/* Different keys of one limit have different names: keys of few bytes, many of them separators, so that they meet if they can. */
static void different_keys_have_different_names(void **state)
{
    (void)state;
    static const char bytes[] = "ab=,:{}%~/2F";
    struct random random = { random_seed(11) };
    for (int i = 0; i < 200000; i++) {
        unsigned char keys[2][64];
        size_t lens[2] = { 0, 0 };
        char names[2][NAME_MAX_LEN];
        struct slice written[2];
        for (int k = 0; k < 2; k++) {
            for (int part = 0; part < 2; part++) {
                size_t len = random_below(&random, 4);
                keys[k][lens[k]++] = 0;
                keys[k][lens[k]++] = (unsigned char)(len == 0 ? 0 : len + 1);
                for (size_t c = 0; c < len; c++)
                    keys[k][lens[k]++] = (unsigned char)bytes[random_below(&random, sizeof bytes - 1)];
            }
            written[k] = name_of("lim", "a,b", WEIR_TOKEN_BUCKET, keys[k], lens[k], names[k]);
            struct name_parts parts;
            assert_true(name_read(written[k], &parts));
        }
        bool same_key = lens[0] == lens[1] && memcmp(keys[0], keys[1], lens[0]) == 0;
        assert_int_equal(slice_equals(written[0], written[1]), same_key);
    }
}

static void the_longest_key_fits(void **state)
{
    (void)state;
    unsigned char key[WEIR_SHARED_KEY_MAX];
    char out[NAME_MAX_LEN], form[16 * 66] = "";
    memset(key, 0, sizeof key);
    for (size_t i = 0; i < 16; i++) {
        key[16 * i + 1] = 15;
        memset(key + 16 * i + 2, '\xff', 14);
        char name[66];
        memset(name, 'n', 63);
        name[63] = i < 15 ? ',' : '\0';
        name[64] = '\0';
        strcat(form, name);
    }
    struct slice name = name_of("a-limit-of-sixty-three-characters-xxxxxxxxxxxxxxxxxxxxxxxxxxxxx", form,
                                WEIR_TOKEN_BUCKET, key, sizeof key, out);
    struct name_parts parts;
    assert_true(name.len < NAME_MAX_LEN);
    assert_true(name_read(name, &parts));
    /* A key that says that it is longer than it is reads nothing behind its end. */
    static const unsigned char liar[] = { 0, 200, 'x' };
    name = name_of("lim", "a,b", WEIR_TOKEN_BUCKET, liar, sizeof liar, out);
    assert_true(slice_equals(name, SLICE("weir:1:{a=x}:lim:b:b")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_reads),
        cmocka_unit_test(a_long_key_is_its_digest),
        cmocka_unit_test(knows_slots),
        cmocka_unit_test(refuses_what_is_none_of_ours),
        cmocka_unit_test(a_pattern_finds_one_limit),
        cmocka_unit_test(different_keys_have_different_names),
        cmocka_unit_test(the_longest_key_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
