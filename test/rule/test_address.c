// SPDX-License-Identifier: Apache-2.0
/* Addresses and networks. Texts: RFC 5952 and RFC 4291; what the C library reads and writes is the second opinion. */

#include "support/unit.h"

#include <arpa/inet.h>

#include "rule/address.h"
#include "rule/netset.h"
#include "support/random.h"

static const struct row {
    const char *why, *text;
    const char *printed; /* NULL: refused */
} rows[] = {
    { "IPv4", "192.0.2.1", "192.0.2.1" },
    { "all zeros", "0.0.0.0", "0.0.0.0" },
    { "all ones", "255.255.255.255", "255.255.255.255" },
    { "an octet is at most 255", "192.0.2.256", NULL },
    { "no leading zero: octal to some", "192.0.2.01", NULL },
    { "three octets", "192.0.2", NULL },
    { "five octets", "192.0.2.1.1", NULL },
    { "an empty octet", "192.0..1", NULL },
    { "no blank", "192.0.2.1 ", NULL },
    { "no sign", "192.0.2.-1", NULL },
    { "no hexadecimal", "0xc0.0.2.1", NULL },
    { "one number", "3221225985", NULL },
    { "nothing", "", NULL },
    { "a word", "unknown", NULL },

    { "RFC 5952 1: leading zeros go", "2001:0db8:0:0:1:0:0:1", "2001:db8::1:0:0:1" },
    { "RFC 5952 4.1", "2001:0db8::0001", "2001:db8::1" },
    { "RFC 5952 4.2.1: as short as possible", "2001:db8:0:0:0:0:2:1", "2001:db8::2:1" },
    { "RFC 5952 4.2.2: one zero group is not shortened", "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1" },
    { "RFC 5952 4.2.2: not even when written so", "2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1" },
    { "RFC 5952 4.2.3: the longest run", "2001:0:0:1:0:0:0:1", "2001:0:0:1::1" },
    { "RFC 5952 4.2.3: of equals the first", "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1" },
    { "RFC 5952 4.3: lower case", "2001:DB8::ABCD:EF01", "2001:db8::abcd:ef01" },
    { "the unspecified address", "::", "::" },
    { "loopback", "::1", "::1" },
    { "zeros at the end", "1::", "1::" },
    { "seven groups and a gap of one", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0" },
    { "a gap at the start", "::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8" },
    { "a gap needs room", "1:2:3:4:5:6:7::8", NULL },
    { "eight groups", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8" },
    { "nine groups", "1:2:3:4:5:6:7:8:9", NULL },
    { "seven groups", "1:2:3:4:5:6:7", NULL },
    { "two gaps", "1::2::3", NULL },
    { "three colons", ":::", NULL },
    { "a colon first", ":1:2:3:4:5:6:7", NULL },
    { "a colon last", "1:2:3:4:5:6:7:", NULL },
    { "five digits", "2001:db8::00001", NULL },
    { "no hex digit", "2001:db8::g", NULL },
    { "brackets are for header elements", "[::1]", NULL },
    { "the last groups as IPv4", "64:ff9b::192.0.2.33", "64:ff9b::c000:221" },
    { "IPv4 in the middle", "::192.0.2.33:1", NULL },
    { "IPv4 with too many groups before", "1:2:3:4:5:6:7:192.0.2.1", NULL },
    { "a zone goes", "fe80::1%eth0", "fe80::1" },
    { "an empty zone", "fe80::1%", NULL },
    { "IPv4 has no zone", "192.0.2.1%eth0", NULL },

    { "mapped is IPv4", "::ffff:192.0.2.1", "192.0.2.1" },
    { "mapped in hex", "::FFFF:c000:201", "192.0.2.1" },
    { "mapped and written out", "0:0:0:0:0:ffff:192.0.2.1", "192.0.2.1" },
    { "compatible (deprecated) is not mapped", "::192.0.2.1", "::c000:201" },
    { "translated (64:ff9b::) is not mapped", "64:ff9b::c000:201", "64:ff9b::c000:201" },
};

static void one_spelling(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct address address;
        char text[ADDRESS_TEXT_MAX];
        bool is_good = address_parse(slice_of(rows[i].text), &address);
        expect_row(is_good == (rows[i].printed != NULL), rows[i].why);
        if (!is_good)
            continue;
        size_t len = address_format(&address, text);
        expect_row(len == strlen(text), rows[i].why);
        if (strcmp(text, rows[i].printed) != 0)
            fail_msg("%s: got '%s'", rows[i].why, text);
    }
}

static void the_c_library_agrees(void **state)
{
    (void)state;
    struct random random = { random_seed(5952) };
    for (unsigned i = 0; i < 20000; i++) {
        struct address address, back;
        char ours[ADDRESS_TEXT_MAX], theirs[INET6_ADDRSTRLEN];
        for (size_t b = 0; b < 16; b++) /* mostly zeros, so that runs of them are of every length */
            address.bytes[b] = random_below(&random, 3) == 0 ? (uint8_t)random_u64(&random) : 0;
        if (random_below(&random, 4) == 0)
            memcpy(address.bytes, (uint8_t[12]){ [10] = 0xff, 0xff }, 12);
        address_format(&address, ours);
        if (address_is_ipv4(&address))
            inet_ntop(AF_INET, address.bytes + 12, theirs, sizeof theirs);
        else
            inet_ntop(AF_INET6, address.bytes, theirs, sizeof theirs);
        if (strchr(theirs, ':') != NULL && strchr(theirs, '.') != NULL)
            continue; /* glibc writes deprecated IPv4-compatible addresses in dots */
        assert_string_equal(ours, theirs);
        assert_true(address_parse(slice_of(ours), &back));
        assert_memory_equal(&back, &address, sizeof address);
    }
}

/* Random texts out of the right letters: whatever one of the two readers accepts, the other does, too. */
static void the_c_library_reads_the_same(void **state)
{
    (void)state;
    struct random random = { random_seed(4291) };
    unsigned accepted = 0;
    for (unsigned i = 0; i < 200000; i++) {
        static const char *const pieces[] = { ":",  ":",  "::",   ".",    "0",  "1",
                                              "25", "ff", "abcd", "ffff", "10", "01" };
        char text[64] = "";
        struct address address;
        uint8_t theirs[16];
        for (size_t n = 1 + random_below(&random, 17), j = 0; j < n && strlen(text) < 50; j++)
            strcat(text, pieces[random_below(&random, COUNT_OF(pieces))]);
        bool is_ipv6 = strchr(text, ':') != NULL;
        bool is_good = inet_pton(is_ipv6 ? AF_INET6 : AF_INET, text, theirs) == 1;
        if (is_good != address_parse(slice_of(text), &address))
            fail_msg("'%s': the C library says %d", text, is_good);
        if (is_good)
            assert_memory_equal(is_ipv6 ? address.bytes : address.bytes + 12, theirs, is_ipv6 ? 16 : 4);
        accepted += is_good;
    }
    assert_true(accepted > 1000);
}

static void elements_of_headers(void **state)
{
    (void)state;
    static const struct row list[] = {
        { "IPv4", "192.0.2.1", "192.0.2.1" },
        { "IPv4 with a port", "192.0.2.1:4711", "192.0.2.1" },
        { "IPv6 in brackets", "[2001:db8::1]", "2001:db8::1" },
        { "IPv6 with a port", "[2001:db8::1]:4711", "2001:db8::1" },
        { "IPv6 bare", "2001:db8::1", "2001:db8::1" },
        { "mapped with a port", "[::ffff:192.0.2.1]:80", "192.0.2.1" },
        { "mapped bare", "::ffff:192.0.2.1", "192.0.2.1" },
        { "a zone in brackets", "[fe80::1%eth0]:80", "fe80::1" },
        { "a port of six digits", "192.0.2.1:123456", NULL },
        { "an empty port", "192.0.2.1:", NULL },
        { "a port that is none", "192.0.2.1:http", NULL },
        { "IPv4 in brackets", "[192.0.2.1]", NULL },
        { "no closing bracket", "[2001:db8::1", NULL },
        { "something behind the bracket", "[2001:db8::1]x", NULL },
        { "empty brackets", "[]", NULL },
        { "unknown", "unknown", NULL },
        { "a name", "_hidden", NULL },
        { "nothing", "", NULL },
    };
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        struct address address;
        char text[ADDRESS_TEXT_MAX];
        bool is_good = address_parse_node(slice_of(list[i].text), &address);
        expect_row(is_good == (list[i].printed != NULL), list[i].why);
        if (is_good) {
            address_format(&address, text);
            expect_row(strcmp(text, list[i].printed) == 0, list[i].why);
        }
    }
}

static void groups(void **state)
{
    (void)state;
    static const struct {
        const char *why, *text;
        struct grouping group;
        const char *printed;
    } list[] = {
        { "IPv4 by default is one address", "192.0.2.7", { 32, 64 }, "192.0.2.7" },
        { "IPv6 by default is a /64", "2001:db8:0:1:a:b:c:d", { 32, 64 }, "2001:db8:0:1::/64" },
        { "also where that ends in zeros", "2001:db8::1", { 32, 64 }, "2001:db8::/64" },
        { "shorter IPv4 says its length", "192.0.2.7", { 24, 64 }, "192.0.2.0/24" },
        { "not on a byte", "10.255.255.255", { 9, 64 }, "10.128.0.0/9" },
        { "whole IPv6 does not", "2001:db8::1", { 32, 128 }, "2001:db8::1" },
        { "IPv6 /56", "2001:db8:0:1ff::1", { 32, 56 }, "2001:db8:0:100::/56" },
        { "IPv6 /48", "2001:db8:ffff:1::1", { 32, 48 }, "2001:db8:ffff::/48" },
        { "IPv6 /127", "2001:db8::3", { 32, 127 }, "2001:db8::2/127" },
        { "everybody", "2001:db8::1", { 0, 0 }, "::/0" },
        { "everybody", "192.0.2.7", { 0, 0 }, "0.0.0.0/0" },
        { "CVE-2026-30827: a /56 of a mapped address is not every IPv4 client",
          "::ffff:192.0.2.7",
          { 32, 56 },
          "192.0.2.7" },
        { "and its neighbour is another", "::ffff:192.0.2.8", { 32, 56 }, "192.0.2.8" },
        { "a mapped address has an IPv4 prefix", "::ffff:192.0.2.7", { 24, 64 }, "192.0.2.0/24" },
        { "the longest text",
          "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
          { 32, 127 },
          "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127" },
    };
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        struct address address;
        char text[ADDRESS_TEXT_MAX];
        assert_true(address_parse(slice_of(list[i].text), &address));
        size_t len = address_format_group(&address, list[i].group, text);
        expect_row(len == strlen(text), list[i].why);
        if (strcmp(text, list[i].printed) != 0)
            fail_msg("%s: got '%s'", list[i].why, text);
    }
}

static const struct network_row {
    const char *why, *text;
    enum network_error error;
    const char *printed;
} network_rows[] = {
    { "IPv4", "10.0.0.0/8", NETWORK_OK, "10.0.0.0/8" },
    { "one address", "10.0.0.1", NETWORK_OK, "10.0.0.1" },
    { "one address, said so", "10.0.0.1/32", NETWORK_OK, "10.0.0.1" },
    { "IPv6", "2001:db8::/32", NETWORK_OK, "2001:db8::/32" },
    { "one IPv6 address", "::1", NETWORK_OK, "::1" },
    { "all of IPv4", "0.0.0.0/0", NETWORK_OK, "0.0.0.0/0" },
    { "all of IPv6", "::/0", NETWORK_OK, "::/0" },
    { "mapped, counted in 128 bits", "::ffff:10.0.0.0/104", NETWORK_OK, "10.0.0.0/8" },
    { "all mapped", "::ffff:0:0/96", NETWORK_OK, "0.0.0.0/0" },
    { "mapped, but shorter than its prefix", "::ffff:0:0/95", NETWORK_BAD_LENGTH, NULL },
    { "host bits: the network they may have meant", "10.0.0.1/8", NETWORK_HOST_BITS, "10.0.0.0/8" },
    { "host bits, IPv6", "2001:db8::1/64", NETWORK_HOST_BITS, "2001:db8::/64" },
    { "host bits next to the prefix", "10.128.0.0/8", NETWORK_HOST_BITS, "10.0.0.0/8" },
    { "33 bits of IPv4", "10.0.0.0/33", NETWORK_BAD_LENGTH, NULL },
    { "129 bits", "::/129", NETWORK_BAD_LENGTH, NULL },
    { "no length", "10.0.0.0/", NETWORK_BAD_LENGTH, NULL },
    { "a leading zero", "10.0.0.0/08", NETWORK_BAD_LENGTH, NULL },
    { "a sign", "10.0.0.0/+8", NETWORK_BAD_LENGTH, NULL },
    { "a mask", "10.0.0.0/255.0.0.0", NETWORK_BAD_LENGTH, NULL },
    { "three octets", "10.0.0/8", NETWORK_BAD_ADDRESS, NULL },
    { "a name", "localhost", NETWORK_BAD_ADDRESS, NULL },
    { "nothing", "", NETWORK_BAD_ADDRESS, NULL },
    { "a length alone", "/8", NETWORK_BAD_ADDRESS, NULL },
};

static void networks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(network_rows); i++) {
        const struct network_row *row = network_rows + i;
        struct network network;
        char text[ADDRESS_TEXT_MAX];
        expect_row(network_parse(slice_of(row->text), &network) == row->error, row->why);
        if (row->printed != NULL) {
            expect_row(network_format(&network, text) == strlen(row->printed), row->why);
            expect_row(strcmp(text, row->printed) == 0, row->why);
        }
    }
}

static void membership(void **state)
{
    (void)state;
    static const struct {
        const char *why, *network, *address;
        bool is_in;
    } list[] = {
        { "first", "10.0.0.0/8", "10.0.0.0", true },
        { "last", "10.0.0.0/8", "10.255.255.255", true },
        { "before", "10.0.0.0/8", "9.255.255.255", false },
        { "behind", "10.0.0.0/8", "11.0.0.0", false },
        { "not on a byte, in", "172.16.0.0/12", "172.31.255.255", true },
        { "not on a byte, out", "172.16.0.0/12", "172.32.0.0", false },
        { "itself", "192.0.2.1", "192.0.2.1", true },
        { "its neighbour", "192.0.2.1", "192.0.2.0", false },
        { "IPv6 in", "2001:db8:aaaa::/48", "2001:db8:aaaa:ffff::1", true },
        { "IPv6 out", "2001:db8:aaaa::/48", "2001:db8:aaab::1", false },
        { "a mapped peer is an IPv4 peer", "10.0.0.0/8", "::ffff:10.1.2.3", true },
        { "a mapped network holds IPv4", "::ffff:10.0.0.0/104", "10.1.2.3", true },
        { "all of IPv6 has no IPv4", "::/0", "10.0.0.1", false },
        { "nor has a mapped spelling", "::/0", "::ffff:10.0.0.1", false },
        { "all of IPv4 has no IPv6", "0.0.0.0/0", "::1", false },
        { "all of IPv4", "0.0.0.0/0", "203.0.113.9", true },
        { "all of IPv6", "::/0", "2001:db8::1", true },
    };
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        struct network network;
        struct address address;
        assert_int_equal(network_parse(slice_of(list[i].network), &network), NETWORK_OK);
        assert_true(address_parse(slice_of(list[i].address), &address));
        expect_row(network_contains(&network, &address) == list[i].is_in, list[i].why);
        expect_row(networks_contain(&network, 1, &address) == list[i].is_in, list[i].why);
    }
    assert_false(networks_contain(NULL, 0, &(struct address){ 0 }));
}

/* ---- Many networks at once: the same as one after the other -------------------------------------------------------- */

struct hits {
    unsigned char of[300];
};

static bool note(void *context, uint32_t network)
{
    ((struct hits *)context)->of[network]++;
    return true;
}

static bool stop(void *context, uint32_t network)
{
    (void)network;
    (*(unsigned *)context)++;
    return false;
}

static struct address random_address(struct random *random)
{
    struct address address = { { [10] = 0xff, 0xff } };
    bool is_ipv4 = random_below(random, 2) == 0;
    for (size_t b = is_ipv4 ? 12 : 0; b < 16; b++)
        address.bytes[b] =
            (uint8_t)(random_below(random, 4) == 0 ? random_below(random, 256) : random_below(random, 2));
    return address;
}

static void a_set_finds_what_each_network_holds(void **state)
{
    (void)state;
    struct random random = { random_seed(4632) };
    unsigned found = 0;
    for (unsigned round = 0; round < 40; round++) {
        struct network list[300];
        struct netset set;
        size_t count = 0;
        for (size_t tries = random_below(&random, 300); tries > 0; tries--) {
            struct address address = random_address(&random);
            unsigned least = address_is_ipv4(&address) ? 96 : 0;
            struct network network = network_of(&address, least + (unsigned)random_below(&random, 129 - least));
            bool is_known = false;
            for (size_t i = 0; i < count; i++)
                is_known |= memcmp(list + i, &network, sizeof network) == 0;
            if (!is_known)
                list[count++] = network;
        }
        assert_true(netset_init(&set, list, count));
        for (unsigned i = 0; i < 500; i++) {
            struct address address = random_address(&random);
            struct hits hits = { { 0 } };
            assert_true(netset_find(&set, &address, note, &hits));
            for (size_t n = 0; n < count; n++)
                assert_int_equal(hits.of[n], network_contains(list + n, &address));
            for (size_t n = 0; n < count; n++)
                found += hits.of[n];
            unsigned calls = 0;
            bool is_whole = netset_find(&set, &address, stop, &calls);
            assert_int_equal(calls, is_whole ? 0 : 1);
        }
        netset_deinit(&set);
    }
    assert_true(found > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_spelling),
        cmocka_unit_test(the_c_library_agrees),
        cmocka_unit_test(the_c_library_reads_the_same),
        cmocka_unit_test(elements_of_headers),
        cmocka_unit_test(groups),
        cmocka_unit_test(networks),
        cmocka_unit_test(membership),
        cmocka_unit_test(a_set_finds_what_each_network_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
