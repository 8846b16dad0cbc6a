// SPDX-License-Identifier: Apache-2.0
/* One spelling for paths and hosts. Expected values: RFC 3986 5.2.4, 5.4 and 6.2.2, and the rules of path.h and host.h. */

#include "support/unit.h"

#include "rule/host.h"
#include "rule/path.h"
#include "weir_contract.h"

static const struct row {
    const char *why, *text, *path;
} rows[] = {
    { "a plain path stays", "/v1/items", "/v1/items" },
    { "the root", "/", "/" },
    { "nothing stays nothing", "", "" },
    { "a trailing slash is kept", "/v1/items/", "/v1/items/" },
    { "the query goes", "/v1?x=/../y", "/v1" },
    { "a fragment goes: no server sees it as part of the path", "/v1#/../y", "/v1" },
    { "a question mark in a fragment is the fragment's", "/v1#a?b", "/v1" },
    { "a dot file is no dot segment", "/.well-known/x", "/.well-known/x" },
    { "three dots are a name", "/a/.../b", "/a/.../b" },
    { "names that begin or end in dots", "/a/..b/c../.d", "/a/..b/c../.d" },

    { "RFC 3986 5.2.4, first example", "/a/b/c/./../../g", "/a/g" },
    { "RFC 3986 5.2.4, second example", "mid/content=5/../6", "mid/6" },
    { "RFC 3986 5.4.1: ./g against /b/c/d", "/b/c/./g", "/b/c/g" },
    { "RFC 3986 5.4.1: g/", "/b/c/g/", "/b/c/g/" },
    { "RFC 3986 5.4.1: .", "/b/c/.", "/b/c/" },
    { "RFC 3986 5.4.1: ./", "/b/c/./", "/b/c/" },
    { "RFC 3986 5.4.1: ..", "/b/c/..", "/b/" },
    { "RFC 3986 5.4.1: ../", "/b/c/../", "/b/" },
    { "RFC 3986 5.4.1: ../g", "/b/c/../g", "/b/g" },
    { "RFC 3986 5.4.1: ../..", "/b/c/../..", "/" },
    { "RFC 3986 5.4.1: ../../", "/b/c/../../", "/" },
    { "RFC 3986 5.4.1: ../../g", "/b/c/../../g", "/g" },
    { "RFC 3986 5.4.2: never above the root", "/b/c/../../../g", "/g" },
    { "RFC 3986 5.4.2: nor further", "/b/c/../../../../g", "/g" },
    { "RFC 3986 5.4.2: /./g", "/./g", "/g" },
    { "RFC 3986 5.4.2: /../g", "/../g", "/g" },
    { "RFC 3986 5.4.2: g.", "/b/c/g.", "/b/c/g." },
    { "RFC 3986 5.4.2: .g", "/b/c/.g", "/b/c/.g" },
    { "RFC 3986 5.4.2: g..", "/b/c/g..", "/b/c/g.." },
    { "RFC 3986 5.4.2: ..g", "/b/c/..g", "/b/c/..g" },
    { "RFC 3986 5.4.2: ./../g", "/b/c/./../g", "/b/g" },
    { "RFC 3986 5.4.2: ./g/.", "/b/c/./g/.", "/b/c/g/" },
    { "RFC 3986 5.4.2: g/./h", "/b/c/g/./h", "/b/c/g/h" },
    { "RFC 3986 5.4.2: g/../h", "/b/c/g/../h", "/b/c/h" },
    { "RFC 3986 5.4.2: g;x=1/./y", "/b/c/g;x=1/./y", "/b/c/g;x=1/y" },
    { "RFC 3986 5.4.2: g;x=1/../y", "/b/c/g;x=1/../y", "/b/c/y" },

    { "two slashes are one", "//v1//items//", "/v1/items/" },
    { "slashes are merged before dots are removed, as nginx does", "/a//../b", "/b" },
    { "dots do not leave two slashes",
      "/a/./"
      "/./b",
      "/a/b" },

    { "an escaped letter is the letter", "/%76%31/item%73", "/v1/items" },
    { "all kinds of unreserved", "/%41%7a%30%2D%2e%5F%7E", "/Az0-._~" },
    { "RFC 3986 6.2.2: example", "/a/./b/../b/%63/%7bfoo%7d", "/a/b/c/%7Bfoo%7D" },
    { "escaped dots are dots", "/v1/%2e%2E/admin", "/admin" },
    { "half escaped dots, too", "/v1/.%2e/admin/%2e", "/admin/" },
    { "an escaped slash is no slash", "/a%2fb/..%2Fc", "/a%2Fb/..%2Fc" },
    { "decoded once", "/%252e%252E/x", "/%252e%252E/x" },
    { "a zero byte stays escaped", "/a%00b", "/a%00b" },
    { "bytes of UTF-8 stay escaped", "/caf%c3%a9", "/caf%C3%A9" },
    { "reserved characters stay as sent", "/%40me/@me/a+b/%2b", "/%40me/@me/a+b/%2B" },

    { "absolute form", "http://example.com/v1/items", "/v1/items" },
    { "absolute form with everything", "HTTPS://u:p@example.com:8443//v1/./x?y#z", "/v1/x" },
    { "absolute form without a path", "http://example.com", "/" },
    { "absolute form with a query alone", "http://example.com?/x", "/" },
    { "a scheme needs a letter first", "1http://example.com/x", "1http:/example.com/x" },
    { "two slashes first are a path, not a host", "//example.com/x", "/example.com/x" },
    { "OPTIONS *", "*", "*" },
    { "authority form", "example.com:443", "example.com:443" },
    { "a relative path stays relative", "v1/items", "v1/items" },
    { "and has no parent", "../../v1", "v1" },
    { "but never becomes nothing", "a/..", "/" },
    { "dots alone are the root", "..", "/" },
};

static void one_spelling(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char storage[WEIR_ATTRIBUTE_MAX], again[WEIR_ATTRIBUTE_MAX];
        struct slice path, twice;
        expect_row(path_normalise(slice_of(rows[i].text), storage, &path) == PATH_OK, rows[i].why);
        if (!slice_equals(path, slice_of(rows[i].path)))
            fail_msg("%s: got '%.*s'", rows[i].why, (int)path.len, path.at);
        /* Of what was written, the spelling is already the one. */
        expect_row(path_normalise(path, again, &twice) == PATH_OK, rows[i].why);
        expect_row(slice_equals(path, twice), rows[i].why);
    }
}

static void bad_escapes_are_errors(void **state)
{
    (void)state;
    const char *bad[] = { "/%", "/a%", "/%2", "/%g0", "/%0g", "/%%20", "/%-1", "/%u0041", "/a/%zz/../b" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char storage[WEIR_ATTRIBUTE_MAX];
        struct slice path;
        expect_row(path_normalise(slice_of(bad[i]), storage, &path) == PATH_BAD_ESCAPE, bad[i]);
    }
    char storage[WEIR_ATTRIBUTE_MAX];
    struct slice path;
    assert_int_equal(path_normalise(SLICE("/a?%zz"), storage, &path), PATH_OK);
}

static void a_normal_path_is_not_copied(void **state)
{
    (void)state;
    char storage[WEIR_ATTRIBUTE_MAX];
    struct slice text = SLICE("/v1/items?x"), path;
    assert_int_equal(path_normalise(text, storage, &path), PATH_OK);
    assert_ptr_equal(path.at, text.at);
    assert_int_equal(path.len, strlen("/v1/items"));
}

static void length_is_bounded(void **state)
{
    (void)state;
    char text[3 * WEIR_ATTRIBUTE_MAX + 2], storage[WEIR_ATTRIBUTE_MAX];
    struct slice path;
    memset(text, 'a', sizeof text);
    text[0] = '/';
    assert_int_equal(path_normalise((struct slice){ text, 1024 }, storage, &path), PATH_OK);
    assert_int_equal(path.len, 1024);
    assert_int_equal(path_normalise((struct slice){ text, 1025 }, storage, &path), PATH_TOO_LONG);

    text[1] = '/'; /* now written through the storage: one byte less */
    assert_int_equal(path_normalise((struct slice){ text, 1025 }, storage, &path), PATH_OK);
    assert_int_equal(path.len, 1024);
    assert_int_equal(path_normalise((struct slice){ text, 1026 }, storage, &path), PATH_TOO_LONG);

    for (size_t i = 1; i + 2 < sizeof text;
         i += 3) /* an escape counts three bytes, or one when it is decoded */
        memcpy(text + i, "%41", 3);
    assert_int_equal(path_normalise((struct slice){ text, 1 + 3 * 1023 }, storage, &path), PATH_OK);
    assert_int_equal(path.len, 1024);
    assert_int_equal(path_normalise((struct slice){ text, 1 + 3 * 1024 }, storage, &path), PATH_TOO_LONG);
}

static void targets_are_split(void **state)
{
    (void)state;
    static const struct {
        const char *target, *path, *query;
    } targets[] = {
        { "/a?b=c", "/a", "b=c" },
        { "/a", "/a", "" },
        { "/a?", "/a", "" },
        { "/a?b?c", "/a", "b?c" },
        { "/a?b#c", "/a", "b" },
        { "/a#b?c", "/a", "" },
        { "?b", "", "b" },
        { "http://h?b", "/", "b" },
        { "http://h/p?b", "/p", "b" },
        { "/r?u=http://h/p?q", "/r", "u=http://h/p?q" },
    };
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        struct target split = target_split(slice_of(targets[i].target));
        expect_row(slice_equals(split.path, slice_of(targets[i].path)), targets[i].target);
        expect_row(slice_equals(split.query, slice_of(targets[i].query)), targets[i].target);
    }
}

static void hosts(void **state)
{
    (void)state;
    static const struct {
        const char *why, *text, *host; /* NULL: refused */
    } list[] = {
        { "stays", "example.com", "example.com" },
        { "lower case", "Example.COM", "example.com" },
        { "no port", "example.com:8080", "example.com" },
        { "no empty port", "example.com:", "example.com" },
        { "no final dot", "example.com.", "example.com" },
        { "neither, in this order", "EXAMPLE.com.:80", "example.com" },
        { "IPv4 and port", "192.0.2.1:80", "192.0.2.1" },
        { "IPv6 keeps its brackets", "[2001:DB8::1]", "[2001:db8::1]" },
        { "and loses its port", "[2001:DB8::1]:8443", "[2001:db8::1]" },
        { "IPv6 without brackets has no port", "2001:db8::1", "2001:db8::1" },
        { "a port is a number", "example.com:http", "example.com:http" },
        { "an empty host", "", "" },
        { "a port alone would be an absent host", ":80", NULL },
        { "so would a colon", ":", NULL },
        { "so would a dot", ".", NULL },
        { "and both", ".:80", NULL },
        { "one final dot, not two", "a.example..", NULL },
        { "a dot behind the port", "a.example:80.", NULL },
        { "a list is not one host", "a.example, b.example", NULL },
        { "nor without the blank", "a.example,b.example", NULL },
        { "a blank", "a b", NULL },
        { "a control byte", "a\x01", NULL },
        { "more than a host", "a.example/x", NULL },
        { "user information", "u@a.example", NULL },
    };
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        char storage[WEIR_ATTRIBUTE_MAX];
        struct slice host;
        bool is_good = host_normalise(slice_of(list[i].text), storage, &host);
        expect_row(is_good == (list[i].host != NULL), list[i].why);
        if (is_good && !slice_equals(host, slice_of(list[i].host)))
            fail_msg("%s: got '%.*s'", list[i].why, (int)host.len, host.at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_spelling),
        cmocka_unit_test(bad_escapes_are_errors),
        cmocka_unit_test(a_normal_path_is_not_copied),
        cmocka_unit_test(length_is_bounded),
        cmocka_unit_test(targets_are_split),
        cmocka_unit_test(hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
