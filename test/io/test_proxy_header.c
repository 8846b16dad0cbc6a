// SPDX-License-Identifier: Apache-2.0
/*
 * test_proxy_header.c - headers of the PROXY protocol: which are taken, which are refused, and none of them early or late.
 *
 * Expected values are written by hand from the protocol's text; the three binary headers in full are published examples, the last
 * of them what HAProxy sent with `proxy-v2-options unique-id,crc32c`.
 */
#include "support/unit.h"

#include <arpa/inet.h>

#include "io/proxy_header.h"

#define SIGNATURE "\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a"
#define INET_ADDRESSES "\xc0\x00\x02\x07\xc6\x33\x64\x01\xdc\x04\x1f\x90"
#define BYTES(text) (text), sizeof(text) - 1

struct row {
    const char *why;
    const char *bytes;
    size_t len;
    const char *source; /* an address; "peer": none is named; NULL: refused */
    unsigned port;
};

/* What all of the good ones must do: nothing is decided before the last byte, and what follows changes nothing. */
static void take(const struct row *row)
{
    struct proxy_header header;
    char more[PROXY_HEADER_MAX + 8];
    for (size_t len = 0; len < row->len; len++) {
        char *exact = malloc(len + 1); /* so that a sanitizer sees a byte too many */
        memcpy(exact, row->bytes, len);
        exact = realloc(exact, len == 0 ? 1 : len);
        expect_row(proxy_header_decode(exact, len, &header) == PROXY_MORE, row->why);
        free(exact);
    }
    memcpy(more, row->bytes, row->len);
    memcpy(more + row->len, "GET / HT", 8);
    for (size_t extra = 0; extra <= 8; extra += 8) {
        memset(&header, 0xee, sizeof header);
        expect_row(proxy_header_decode(more, row->len + extra, &header) == PROXY_DONE, row->why);
        expect_row(header.len == row->len, row->why);
        expect_row(header.has_source == (strcmp(row->source, "peer") != 0), row->why);
    }
    if (!header.has_source)
        return;
    char text[INET6_ADDRSTRLEN];
    (void)inet_ntop(AF_INET6, header.source, text, sizeof text);
    if (strcmp(text, row->source) != 0 || header.source_port != row->port)
        fail_msg("%s: from %s port %u", row->why, text, header.source_port);
}

/* A bad one is refused at some byte and at each one after it, and never taken before. */
static void refuse(const struct row *row)
{
    struct proxy_header header = { .why = NULL };
    bool is_bad = false;
    for (size_t len = 0; len <= row->len; len++) {
        enum proxy_result result = proxy_header_decode(row->bytes, len, &header);
        expect_row(result == PROXY_BAD || (result == PROXY_MORE && !is_bad), row->why);
        is_bad = result == PROXY_BAD;
    }
    expect_row(is_bad && header.why != NULL, row->why);
}

static void run(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].source == NULL)
            refuse(&rows[i]);
        else
            take(&rows[i]);
    }
}

static void lines(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "IPv4", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 56324 8080\r\n"), "::ffff:192.0.2.7", 56324 },
        { "IPv6", BYTES("PROXY TCP6 2001:db8:1:2::7 2001:db8::1 56324 8080\r\n"), "2001:db8:1:2::7", 56324 },
        { "a mapped IPv4 address is that address", BYTES("PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n"),
          "::ffff:192.0.2.7", 1 },
        { "port 0 is a number", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 0 0\r\n"), "::ffff:192.0.2.7", 0 },
        { "the highest port", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 65535 65535\r\n"), "::ffff:192.0.2.7",
          65535 },
        { "unknown", BYTES("PROXY UNKNOWN\r\n"), "peer", 0 },
        { "unknown, with a rest that is not read", BYTES("PROXY UNKNOWN 1.2.3.4 what ever \r it says\r\n"),
          "peer", 0 },
        { "the longest line",
          BYTES("PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
                "65535 65535\r\n"),
          "peer", 0 },
        { "one byte longer",
          BYTES("PROXY UNKNOWN  ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"),
          NULL, 0 },
        { "a request instead", BYTES("GET / HTTP/1.1\r\n"), NULL, 0 },
        { "a Redis command instead", BYTES("*1\r\n$4\r\nPING\r\n"), NULL, 0 },
        { "a TLS hello instead", BYTES("\x16\x03\x01\x02\x00\x01"), NULL, 0 },
        { "a request of HTTP/2 instead", BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), NULL, 0 },
        { "lower case", BYTES("proxy tcp4 192.0.2.7 198.51.100.1 1 2\r\n"), NULL, 0 },
        { "two blanks in front", BYTES("PROXY  TCP4 192.0.2.7 198.51.100.1 1 2\r\n"), NULL, 0 },
        { "two blanks between", BYTES("PROXY TCP4 192.0.2.7  198.51.100.1 1 2\r\n"), NULL, 0 },
        { "a blank at the end", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 1 2 \r\n"), NULL, 0 },
        { "a tab between", BYTES("PROXY TCP4 192.0.2.7\t198.51.100.1 1 2\r\n"), NULL, 0 },
        { "a fifth word", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 1 2 3\r\n"), NULL, 0 },
        { "a word missing", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 1\r\n"), NULL, 0 },
        { "no words", BYTES("PROXY TCP4\r\n"), NULL, 0 },
        { "no family", BYTES("PROXY \r\n"), NULL, 0 },
        { "no end but LF", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 1 2\n"), NULL, 0 },
        { "another family", BYTES("PROXY UDP4 192.0.2.7 198.51.100.1 1 2\r\n"), NULL, 0 },
        { "a family that begins like one", BYTES("PROXY TCP44 192.0.2.7 198.51.100.1 1 2\r\n"), NULL, 0 },
        { "UNKNOWN with a tail", BYTES("PROXY UNKNOWNS\r\n"), NULL, 0 },
        { "IPv6 in IPv4's place", BYTES("PROXY TCP4 2001:db8::1 198.51.100.1 1 2\r\n"), NULL, 0 },
        { "IPv4 in IPv6's place", BYTES("PROXY TCP6 192.0.2.7 2001:db8::1 1 2\r\n"), NULL, 0 },
        { "mixed", BYTES("PROXY TCP6 2001:db8::1 192.0.2.7 1 2\r\n"), NULL, 0 },
        { "a leading zero in an octet", BYTES("PROXY TCP4 192.0.2.07 198.51.100.1 1 2\r\n"), NULL, 0 },
        { "three octets", BYTES("PROXY TCP4 192.0.2 198.51.100.1 1 2\r\n"), NULL, 0 },
        { "an octet above 255", BYTES("PROXY TCP4 192.0.2.256 198.51.100.1 1 2\r\n"), NULL, 0 },
        { "a bad destination counts, too", BYTES("PROXY TCP4 192.0.2.7 198.51.100 1 2\r\n"), NULL, 0 },
        { "a zone", BYTES("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n"), NULL, 0 },
        { "brackets", BYTES("PROXY TCP6 [2001:db8::1] ::1 1 2\r\n"), NULL, 0 },
        { "a zero byte behind an address", BYTES("PROXY TCP4 192.0.2.7\0 198.51.100.1 1 2\r\n"), NULL, 0 },
        { "a leading zero in a port", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 01 2\r\n"), NULL, 0 },
        { "a port above 65535", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 65536 2\r\n"), NULL, 0 },
        { "a port of six digits", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 100000 2\r\n"), NULL, 0 },
        { "a sign", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 +1 2\r\n"), NULL, 0 },
        { "the other port, too", BYTES("PROXY TCP4 192.0.2.7 198.51.100.1 1 02\r\n"), NULL, 0 },
    };
    run(rows, COUNT_OF(rows));
}

static void binary(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "published: IPv4", BYTES(SIGNATURE "\x21\x11\x00\x0c" INET_ADDRESSES), "::ffff:192.0.2.7", 56324 },
        { "published: IPv6",
          BYTES(SIGNATURE "\x21\x21\x00\x24\x20\x01\x0d\xb8\x00\x01\x00\x02\x00\x00\x00\x00\x00\x00\x00\x07"
                          "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\xdc\x04\x1f\x90"),
          "2001:db8:1:2::7", 56324 },
        { "published: with a checksum and an empty id",
          BYTES(SIGNATURE "\x21\x11\x00\x16\x7f\x00\x00\x09\x7f\x00\x00\x01\xe3\x6e\x46\xd3\x03\x00\x04\x2c\x8b"
                          "\xff\x74\x05\x00\x00"),
          "::ffff:127.0.0.9", 58222 },
        { "the checksum is wrong in one bit",
          BYTES(SIGNATURE "\x21\x11\x00\x16\x7f\x00\x00\x09\x7f\x00\x00\x01\xe3\x6e\x46\xd3\x03\x00\x04\x2c\x8b"
                          "\xff\x75\x05\x00\x00"),
          NULL, 0 },
        { "the address was changed under its checksum",
          BYTES(SIGNATURE "\x21\x11\x00\x16\x7f\x00\x00\x0a\x7f\x00\x00\x01\xe3\x6e\x46\xd3\x03\x00\x04\x2c\x8b"
                          "\xff\x74\x05\x00\x00"),
          NULL, 0 },
        { "a checksum of zero is no way to have none",
          BYTES(SIGNATURE "\x21\x11\x00\x13" INET_ADDRESSES "\x03\x00\x04\x00\x00\x00\x00"), NULL, 0 },
        { "a checksum of three bytes",
          BYTES(SIGNATURE "\x21\x11\x00\x12" INET_ADDRESSES "\x03\x00\x03\x00\x00\x00"), NULL, 0 },
        { "local, as health checks are", BYTES(SIGNATURE "\x20\x00\x00\x00"), "peer", 0 },
        { "local: its addresses mean nothing", BYTES(SIGNATURE "\x20\x11\x00\x0c" INET_ADDRESSES), "peer", 0 },
        { "local: its length is skipped",
          BYTES(SIGNATURE "\x20\xff\x00\x03"
                          "abc"),
          "peer", 0 },
        { "no family", BYTES(SIGNATURE "\x21\x00\x00\x00"), "peer", 0 },
        { "no family, and something to skip",
          BYTES(SIGNATURE "\x21\x00\x00\x05"
                          "abcde"),
          "peer", 0 },
        { "no transport: whose addresses these are is not said",
          BYTES(SIGNATURE "\x21\x10\x00\x0c" INET_ADDRESSES), "peer", 0 },
        { "datagrams that a stream carries", BYTES(SIGNATURE "\x21\x12\x00\x0c" INET_ADDRESSES),
          "::ffff:192.0.2.7", 56324 },
        { "values of other kinds are skipped",
          BYTES(SIGNATURE "\x21\x11\x00\x1a" INET_ADDRESSES "\x04\x00\x00\x02\x00\x02"
                          "ab"
                          "\xee\x00\x03"
                          "xyz"),
          "::ffff:192.0.2.7", 56324 },
        { "too short for its addresses",
          BYTES(SIGNATURE "\x21\x11\x00\x0b\xc0\x00\x02\x07\xc6\x33\x64\x01\xdc\x04\x1f"), NULL, 0 },
        { "IPv6 with room for IPv4", BYTES(SIGNATURE "\x21\x21\x00\x0c" INET_ADDRESSES), NULL, 0 },
        { "Unix with room for less", BYTES(SIGNATURE "\x21\x31\x00\x0c" INET_ADDRESSES), NULL, 0 },
        { "a value that ends behind the header",
          BYTES(SIGNATURE "\x21\x11\x00\x10" INET_ADDRESSES "\x04\x00\x02"
                          "a"),
          NULL, 0 },
        { "half a value", BYTES(SIGNATURE "\x21\x11\x00\x0e" INET_ADDRESSES "\x04\x00"), NULL, 0 },
        { "version 1 in bytes", BYTES(SIGNATURE "\x11\x11\x00\x0c" INET_ADDRESSES), NULL, 0 },
        { "version 3", BYTES(SIGNATURE "\x31\x11\x00\x0c" INET_ADDRESSES), NULL, 0 },
        { "an unknown command", BYTES(SIGNATURE "\x22\x11\x00\x0c" INET_ADDRESSES), NULL, 0 },
        { "an unknown family", BYTES(SIGNATURE "\x21\x41\x00\x0c" INET_ADDRESSES), NULL, 0 },
        { "an unknown transport", BYTES(SIGNATURE "\x21\x13\x00\x0c" INET_ADDRESSES), NULL, 0 },
        { "a signature that goes wrong at its end",
          BYTES("\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0b\x21\x11"), NULL, 0 },
        { "blank lines instead", BYTES("\r\n\r\nGET / HTTP/1.1\r\n"), NULL, 0 },
    };
    run(rows, COUNT_OF(rows));
}

/* A header of version 2 with addresses of `addresses_len` bytes and one value. */
static size_t build(char *out, int family, size_t addresses_len, int type, size_t value_len)
{
    size_t len = 16 + addresses_len + 3 + value_len, rest = len - 16;
    memset(out, 'x', len);
    memcpy(out, SIGNATURE, 12);
    out[12] = 0x21;
    out[13] = (char)family;
    out[14] = (char)(rest >> 8);
    out[15] = (char)rest;
    out[16 + addresses_len] = (char)type;
    out[17 + addresses_len] = (char)(value_len >> 8);
    out[18 + addresses_len] = (char)value_len;
    return len;
}

static void long_ones(void **state)
{
    (void)state;
    static char bytes[PROXY_HEADER_MAX];
    struct row row = { "a unique id of 128 bytes", bytes, build(bytes, 0x11, 12, 0x05, 128),
                       "::ffff:120.120.120.120", 0x7878 };
    take(&row);
    row = (struct row){ "of 129", bytes, build(bytes, 0x11, 12, 0x05, 129), NULL, 0 };
    refuse(&row);
    row = (struct row){ "a Unix socket's path is no address", bytes, build(bytes, 0x31, 216, 0x04, 0), "peer",
                        0 };
    take(&row);

    /* The longest there is: told apart from one byte less, and not waited for beyond. */
    struct proxy_header header;
    size_t len = build(bytes, 0x11, 12, 0xe0, 65535 - 15);
    assert_int_equal(len, PROXY_HEADER_MAX);
    assert_int_equal(proxy_header_decode(bytes, len - 1, &header), PROXY_MORE);
    assert_int_equal(proxy_header_decode(bytes, len, &header), PROXY_DONE);
    assert_int_equal(header.len, PROXY_HEADER_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(binary),
        cmocka_unit_test(long_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
