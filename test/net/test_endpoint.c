// SPDX-License-Identifier: Apache-2.0
/* test_endpoint.c - addresses as people write them, and which of them only this machine can reach. */
#include "support/unit.h"

#include <arpa/inet.h>

#include "io/endpoint.h"

static const struct row {
    const char *why, *text;
    const char *shown; /* NULL: refused */
    bool is_local;
} rows[] = {
    { "a bare port is on loopback", "8080", "127.0.0.1:8080", true },
    { "port 0 is any free port", "0", "127.0.0.1:0", true },
    { "the highest port", "65535", "127.0.0.1:65535", true },
    { "one more is none", "65536", NULL, false },
    { "no leading zeros", "080", NULL, false },
    { "no sign", "+80", NULL, false },
    { "IPv4", "127.0.0.1:80", "127.0.0.1:80", true },
    { "all of 127/8 is loopback", "127.9.9.9:80", "127.9.9.9:80", true },
    { "every interface", "0.0.0.0:80", "0.0.0.0:80", false },
    { "another machine can reach it", "192.0.2.1:80", "192.0.2.1:80", false },
    { "IPv6 loopback", "[::1]:80", "[::1]:80", true },
    { "mapped loopback", "[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80", true },
    { "mapped others", "[::ffff:192.0.2.1]:80", "[::ffff:192.0.2.1]:80", false },
    { "every interface, IPv6", "[::]:80", "[::]:80", false },
    { "IPv6 needs its brackets", "::1:80", NULL, false },
    { "and a port", "[::1]", NULL, false },
    { "brackets hold IPv6 only", "[127.0.0.1]:80", NULL, false },
    { "a bracket left open", "[::1:80", NULL, false },
    { "a host without a port", "127.0.0.1", NULL, false },
    { "a port without a host is not loopback by accident", ":80", NULL, false },
    { "a URL is none", "http://127.0.0.1:80", NULL, false },
    { "nothing", "", NULL, false },
    { "blanks", " 80", NULL, false },
    { "a name is resolved", "localhost:80", NULL,
      true }, /* shown below: 127.0.0.1 or ::1, as the machine says */
    { "a path", "unix:/run/weir/http.sock", "unix:/run/weir/http.sock", true },
    { "a relative path", "unix:w.sock", "unix:w.sock", true },
    { "no path", "unix:", NULL, false },
    { "an inherited descriptor", "fd:3", "fd:3", false },
    { "which is a number", "fd:x", NULL, false },
    { "within reason", "fd:65536", NULL, false },
};

static void addresses_are_read_and_shown(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        struct endpoint endpoint;
        char shown[ENDPOINT_TEXT_MAX];
        const char *why = NULL;
        bool is_good = endpoint_parse(row->text, &endpoint, &why);
        if (strcmp(row->text, "localhost:80") == 0) {
            expect_row(is_good && endpoint_is_local(&endpoint), row->why);
            continue;
        }
        expect_row(is_good == (row->shown != NULL), row->why);
        if (!is_good) {
            expect_row(why != NULL && strlen(why) > 10, row->why);
            continue;
        }
        endpoint_format(&endpoint, shown);
        if (endpoint.kind == ENDPOINT_FD)
            expect_row(endpoint.fd == 3, row->why);
        expect_row(strcmp(shown, row->shown) == 0, row->why);
        expect_row(endpoint_is_local(&endpoint) == row->is_local, row->why);
    }
}

static void a_socket_path_has_at_most_107_bytes(void **state)
{
    (void)state;
    char text[5 + 108 + 1] = "unix:";
    struct endpoint endpoint;
    const char *why;
    memset(text + 5, 'x', 108);
    assert_false(endpoint_parse(text, &endpoint, &why));
    text[5 + 107] = '\0';
    assert_true(endpoint_parse(text, &endpoint, &why));
    char shown[ENDPOINT_TEXT_MAX];
    endpoint_format(&endpoint, shown);
    assert_string_equal(shown, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_and_shown),
        cmocka_unit_test(a_socket_path_has_at_most_107_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
