// SPDX-License-Identifier: Apache-2.0
/*
 * test_client_random.c - the client's address out of random headers.
 *
 * Each entry begins as what it means, an address or a stop, and is then written in one of the ways in which proxies write it: so
 * what must be found is known without reading anything. The walk over the meanings is the oracle: a few plain lines that go from
 * left to right, and keep the last entry that an unbroken row of proxies to its right vouches for.
 */
#include "support/unit.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "rule/client.h"
#include "support/random.h"

enum { ENTRIES_MAX = 40, FIELDS_MAX = 12, TEXT_MAX = 16384, ROUNDS = 30000 };

struct entry {
    bool is_address;
    bool is_proxy;
    uint8_t bytes[16];
};

struct lines {
    char text[TEXT_MAX];
    size_t len;
    struct weir_field fields[FIELDS_MAX];
    size_t count;
};

static struct network proxies[3];
static const struct identity_config config = { .proxies = proxies, .proxy_count = COUNT_OF(proxies) };

/* Half of the entries are proxies of the three networks, a tenth is no address. */
static struct entry choose(struct random *random, bool may_stop)
{
    static const uint8_t mapped[12] = { [10] = 0xff, 0xff };
    static const uint8_t network[6] = { 0x20, 0x01, 0x0d, 0xb8, 0xaa, 0xaa };
    struct entry entry = { .is_address = !may_stop || random_below(random, 10) > 0,
                           .is_proxy = random_below(random, 2) == 0 };
    bool is_ipv4 = random_below(random, 2) == 0;
    for (size_t i = 0; i < sizeof entry.bytes; i++)
        entry.bytes[i] = random_below(random, 2) == 0 ? 0 : (uint8_t)random_below(random, 256);
    if (is_ipv4) {
        memcpy(entry.bytes, mapped, sizeof mapped);
        entry.bytes[12] = entry.is_proxy ? 10 : 203;
    } else if (entry.is_proxy && random_below(random, 3) == 0) {
        memset(entry.bytes, 0, 16);
        entry.bytes[15] = 1;
    } else if (entry.is_proxy) {
        memcpy(entry.bytes, network, sizeof network);
    } else {
        entry.bytes[0] = 0x26;
    }
    return entry;
}

static bool is_ipv4(const struct entry *entry)
{
    return entry->bytes[10] == 0xff && entry->bytes[11] == 0xff && entry->bytes[0] == 0 && entry->bytes[1] == 0;
}

/* Eight groups in full, as some write them. */
static void write_long(const struct entry *entry, bool is_upper, char *out)
{
    for (size_t i = 0; i < 16; i += 2)
        out += sprintf(out, is_upper ? "%s%04X" : "%s%04x", i == 0 ? "" : ":",
                       entry->bytes[i] << 8 | entry->bytes[i + 1]);
}

/* `needs_brackets`: Forwarded's rule. Returns whether Forwarded must quote it. */
static bool write_address(struct random *random, const struct entry *entry, bool needs_brackets, char *out)
{
    char text[64], port[16] = "", zone[8] = "";
    if (random_below(random, 3) == 0)
        (void)sprintf(port, ":%u", (unsigned)random_below(random, 65536));
    if (is_ipv4(entry) && random_below(random, 4) > 0) {
        (void)inet_ntop(AF_INET, entry->bytes + 12, text, sizeof text);
        (void)sprintf(out, "%s%s", text, port);
        return port[0] != '\0';
    }
    if (random_below(random, 3) == 0)
        write_long(entry, random_below(random, 2) == 0, text);
    else
        (void)inet_ntop(AF_INET6, entry->bytes, text, sizeof text);
    if (!is_ipv4(entry) && random_below(random, 8) == 0)
        (void)strcpy(zone, "%eth0");
    bool has_brackets = needs_brackets || port[0] != '\0' || random_below(random, 2) == 0;
    (void)sprintf(out, has_brackets ? "[%s%s]%s" : "%s%s%s", text, zone, port);
    return true;
}

static const char *const stops[] = { "unknown",    "_hidden",          "",           "localhost",
                                     "10.0.0.256", "10.0.0",           "010.0.0.1",  "1::2::3",
                                     "[::1",       "10.0.0.1:x",       "[10.0.0.1]", "10.0.0.1 10",
                                     "::g",        "1:2:3:4:5:6:7:8:9" };

static const char *blanks(struct random *random)
{
    static const char *const some[] = { "", " ", "", "\t", "  " };
    return some[random_below(random, COUNT_OF(some))];
}

static void write_forwarded(struct random *random, const struct entry *entry, char *out)
{
    static const char *const befores[] = { "", "proto=http;", "host=\"a,b;for=1.1.1.1\";", "by=_x; ",
                                           "x=\"\\\"\";" };
    static const char *const afters[] = { "", ";proto=https", "; by=\"[::1]:80\"", ";host=\"x\\\\\"" };
    static const char *const names[] = { "for", "For", "FOR" };
    char node[128];
    bool is_quoted = true;
    if (entry->is_address)
        is_quoted = write_address(random, entry, true, node) || random_below(random, 4) == 0;
    else
        (void)strcpy(node, stops[random_below(random, 2)]);
    (void)sprintf(
        out, is_quoted ? "%s%s=\"%s\"%s" : "%s%s=%s%s", befores[random_below(random, COUNT_OF(befores))],
        names[random_below(random, COUNT_OF(names))], node, afters[random_below(random, COUNT_OF(afters))]);
}

/* All entries, in order, over one to a few lines, with lines of others between them. */
static void write_lines(struct random *random, const struct entry *entries, size_t count, bool is_forwarded,
                        struct lines *lines)
{
    lines->len = 0;
    lines->count = 0;
    for (size_t i = 0; i < count; i++) {
        char text[512];
        if (is_forwarded)
            write_forwarded(random, &entries[i], text);
        else if (entries[i].is_address)
            (void)write_address(random, &entries[i], false, text);
        else
            (void)strcpy(text, stops[random_below(random, COUNT_OF(stops))]);
        /* An empty entry that stands alone in its line would be an empty line, which holds none. */
        bool is_new =
            i == 0 || (lines->count < FIELDS_MAX - 1 && random_below(random, 4) == 0 && text[0] != '\0');
        struct weir_field *field = &lines->fields[is_new ? lines->count : lines->count - 1];
        char *at = lines->text + lines->len;
        if (is_new) {
            *field = (struct weir_field){ is_forwarded ? "forwarded" : "X-Forwarded-for", at,
                                          is_forwarded ? 9 : 15, 0 };
            lines->count++;
        }
        int len = sprintf(at, "%s%s%s%s", is_new ? "" : ",", blanks(random), text, blanks(random));
        field->value_len += (size_t)len;
        lines->len += (size_t)len;
    }
}

/* What must be found: by the entry's index, or -1 for the peer. */
static int oracle(const struct entry *entries, size_t count, bool peer_is_proxy)
{
    int found = -1;
    for (size_t i = 0; i < count; i++) {
        bool is_vouched_for = peer_is_proxy && entries[i].is_address && count - i <= CLIENT_ENTRIES_MAX;
        for (size_t right = i + 1; right < count; right++)
            is_vouched_for = is_vouched_for && entries[right].is_address && entries[right].is_proxy;
        if (is_vouched_for && found < 0)
            found = (int)i;
    }
    return found;
}

static void play(struct random *random, bool is_forwarded)
{
    static struct lines lines;
    struct entry entries[ENTRIES_MAX];
    size_t count = random_below(random, 20) == 0 ? random_below(random, ENTRIES_MAX) : random_below(random, 6);
    struct entry peer = choose(random, false);
    for (size_t i = 0; i < count; i++)
        entries[i] = choose(random, true);
    if (count > 30) /* long rows of proxies, too */
        for (size_t i = 1; i < count; i++)
            entries[i] = (struct entry){ true, true, { [10] = 0xff, 0xff, 10, 0, 0, (uint8_t)i } };
    write_lines(random, entries, count, is_forwarded, &lines);
    if (count > 0 && !is_forwarded && lines.count == 1 && lines.len == strspn(lines.text, " \t"))
        return; /* an empty line */

    struct weir_head head = { .fields = lines.fields, .field_count = lines.count };
    memcpy(head.peer.address, peer.bytes, sizeof peer.bytes);
    struct address found;
    int expected = oracle(entries, count, peer.is_proxy);
    const uint8_t *bytes = expected < 0 ? peer.bytes : entries[expected].bytes;
    assert_true(
        client_address(&config, &head, is_forwarded ? IDENTITY_FORWARDED : IDENTITY_X_FORWARDED_FOR, &found));
    if (memcmp(found.bytes, bytes, 16) != 0) {
        char text[ADDRESS_TEXT_MAX];
        (void)address_format(&found, text);
        fail_msg("%s instead of entry %d of: %.*s", text, expected, (int)lines.len, lines.text);
    }
}

static void as_the_oracle_says(void **state)
{
    (void)state;
    struct random random = { random_seed(8) };
    for (unsigned round = 0; round < ROUNDS; round++)
        play(&random, round % 2 == 0);
}

static int set_up(void **state)
{
    (void)state;
    return network_parse(SLICE("10.0.0.0/8"), &proxies[0]) != NETWORK_OK
           || network_parse(SLICE("2001:db8:aaaa::/48"), &proxies[1]) != NETWORK_OK
           || network_parse(SLICE("::1"), &proxies[2]) != NETWORK_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_the_oracle_says) };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
