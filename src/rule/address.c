// SPDX-License-Identifier: Apache-2.0
/*
 * address.c - IP addresses and networks, read strictly and written in one spelling.
 */
#include "rule/address.h"

enum { IPV4_OFFSET_BITS = 96, ADDRESS_BITS = 128 };

_Static_assert(ADDRESS_TEXT_MAX >= 8 * 4 + 7 + 4 + 1, "eight groups, seven colons, /128 and a final zero");

static const uint8_t ipv4_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

bool address_is_ipv4(const struct address *address)
{
    return memcmp(address->bytes, ipv4_prefix, sizeof ipv4_prefix) == 0;
}

/* ---- Reading --------------------------------------------------------------------------------------------- */

/* Four octets `0|[1-9][0-9]*` up to 255. A leading zero is refused: some readers take it for octal. */
static bool parse_ipv4(struct slice text, uint8_t out[4])
{
    for (size_t i = 0; i < 4; i++) {
        const char *dot = i < 3 ? memchr(text.at, '.', text.len) : NULL;
        size_t len = i < 3 ? (dot == NULL ? 0 : (size_t)(dot - text.at)) : text.len;
        uint64_t octet;
        if (len > 3 || !slice_to_u64((struct slice){ text.at, len }, 255, &octet))
            return false;
        out[i] = (uint8_t)octet;
        if (i < 3) {
            text.at += len + 1;
            text.len -= len + 1;
        }
    }
    return true;
}

static bool parse_group(struct slice text, unsigned *out)
{
    unsigned value = 0;
    if (text.len == 0 || text.len > 4)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = ascii_lower(text.at[i]);
        if (c >= '0' && c <= '9')
            value = value * 16 + (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (unsigned)(c - 'a') + 10;
        else
            return false;
    }
    *out = value;
    return true;
}

/*
 * Groups separated by single colons into out[0..16); returns the bytes written, or -1. The last may be an IPv4
 * address where `may_end_in_ipv4`. An empty text is no group at all (either side of `::`).
 */
static int parse_groups(struct slice text, bool may_end_in_ipv4, uint8_t out[16])
{
    int len = 0;
    if (text.len == 0)
        return 0;
    for (;;) {
        const char *colon = memchr(text.at, ':', text.len);
        struct slice group = { text.at, colon == NULL ? text.len : (size_t)(colon - text.at) };
        unsigned value;
        if (colon == NULL && may_end_in_ipv4 && memchr(group.at, '.', group.len) != NULL)
            return len <= 12 && parse_ipv4(group, out + len) ? len + 4 : -1;
        if (len > 14 || !parse_group(group, &value))
            return -1;
        out[len++] = (uint8_t)(value >> 8);
        out[len++] = (uint8_t)value;
        if (colon == NULL)
            return len;
        text.at += group.len + 1;
        text.len -= group.len + 1;
    }
}

static bool parse_ipv6(struct slice text, uint8_t out[16])
{
    uint8_t head[16], tail[16];
    const char *gap = memmem(text.at, text.len, "::", 2);
    if (gap == NULL)
        return parse_groups(text, true, out) == 16;

    struct slice before = { text.at, (size_t)(gap - text.at) };
    struct slice after = { gap + 2, text.len - before.len - 2 };
    int head_len = parse_groups(before, false, head);
    int tail_len = parse_groups(after, true, tail);
    if (head_len < 0 || tail_len < 0 || head_len + tail_len > 14) /* `::` stands for at least one group */
        return false;
    memset(out, 0, 16);
    memcpy(out, head, (size_t)head_len);
    memcpy(out + 16 - tail_len, tail, (size_t)tail_len);
    return true;
}

bool address_parse(struct slice text, struct address *out)
{
    struct address address;
    if (text.len == 0)
        return false;
    if (memchr(text.at, ':', text.len) != NULL) {
        const char *zone = memchr(text.at, '%', text.len);
        if (zone != NULL && zone + 1 == text.at + text.len)
            return false;
        if (zone != NULL)
            text.len = (size_t)(zone - text.at);
        if (!parse_ipv6(text, address.bytes))
            return false;
    } else {
        memcpy(address.bytes, ipv4_prefix, sizeof ipv4_prefix);
        if (!parse_ipv4(text, address.bytes + 12))
            return false;
    }
    *out = address;
    return true;
}

/* `:` and 1 to 5 digits, or nothing. */
static bool is_port_or_empty(struct slice text)
{
    if (text.len == 0)
        return true;
    if (text.at[0] != ':' || text.len < 2 || text.len > 6)
        return false;
    for (size_t i = 1; i < text.len; i++)
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
    return true;
}

bool address_parse_node(struct slice text, struct address *out)
{
    if (text.len > 0 && text.at[0] == '[') {
        const char *close = memchr(text.at, ']', text.len);
        if (close == NULL)
            return false;
        struct slice inner = { text.at + 1, (size_t)(close - text.at - 1) };
        struct slice rest = { close + 1, text.len - inner.len - 2 };
        bool is_ipv6 = memchr(inner.at, ':', inner.len) != NULL;
        return is_ipv6 && is_port_or_empty(rest) && address_parse(inner, out);
    }
    /* One colon: an IPv4 address and its port. More: an IPv6 address, whose port could not be told apart. */
    const char *colon = text.len > 0 ? memchr(text.at, ':', text.len) : NULL;
    if (colon != NULL && memchr(text.at, '.', (size_t)(colon - text.at)) != NULL) {
        struct slice host = { text.at, (size_t)(colon - text.at) };
        return is_port_or_empty((struct slice){ colon, text.len - host.len }) && address_parse(host, out);
    }
    return address_parse(text, out);
}

/* ---- Writing --------------------------------------------------------------------------------------------- */

/* The first longest run of two or more zero groups (RFC 5952 4.2); *len 0 where there is none. */
static void find_zeros(const unsigned groups[8], size_t *at, size_t *len)
{
    *at = 8;
    *len = 0;
    for (size_t i = 0; i < 8; i++) {
        size_t end = i;
        while (end < 8 && groups[end] == 0)
            end++;
        if (end - i >= 2 && end - i > *len) {
            *at = i;
            *len = end - i;
        }
    }
}

/* Digits of a number below 65536. By hand, since this runs for every request that is counted by address. */
static size_t put_number(char *text, unsigned value, unsigned base)
{
    char reversed[5];
    size_t len = 0;
    do {
        reversed[len++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value > 0);
    for (size_t i = 0; i < len; i++)
        text[i] = reversed[len - 1 - i];
    return len;
}

static size_t format_ipv4(const uint8_t bytes[4], char *text)
{
    size_t len = 0;
    for (size_t i = 0; i < 4; i++) {
        if (i > 0)
            text[len++] = '.';
        len += put_number(text + len, bytes[i], 10);
    }
    text[len] = '\0';
    return len;
}

static size_t format_ipv6(const uint8_t bytes[16], char *text)
{
    unsigned groups[8];
    size_t zeros_at, zeros_len, len = 0;
    for (size_t i = 0; i < 8; i++)
        groups[i] = (unsigned)bytes[2 * i] << 8 | bytes[2 * i + 1];
    find_zeros(groups, &zeros_at, &zeros_len);

    for (size_t i = 0; i < 8; i++) {
        if (i == zeros_at) {
            text[len++] = ':';
            text[len++] = ':';
            i += zeros_len - 1;
            continue;
        }
        if (i > 0 && text[len - 1] != ':')
            text[len++] = ':';
        len += put_number(text + len, groups[i], 16);
    }
    text[len] = '\0';
    return len;
}

size_t address_format(const struct address *address, char text[ADDRESS_TEXT_MAX])
{
    if (address_is_ipv4(address))
        return format_ipv4(address->bytes + 12, text);
    return format_ipv6(address->bytes, text);
}

struct network network_of(const struct address *address, unsigned length)
{
    struct network network = { *address, length };
    size_t whole = length / 8;
    if (whole < sizeof network.address.bytes) {
        network.address.bytes[whole] &= (uint8_t)(0xff00 >> (length % 8));
        memset(network.address.bytes + whole + 1, 0, sizeof network.address.bytes - whole - 1);
    }
    return network;
}

static unsigned family_offset(const struct address *address)
{
    return address_is_ipv4(address) ? IPV4_OFFSET_BITS : 0;
}

size_t network_format(const struct network *network, char text[ADDRESS_TEXT_MAX])
{
    size_t len = address_format(&network->address, text);
    unsigned offset = family_offset(&network->address);
    if (network->length < ADDRESS_BITS) {
        text[len++] = '/';
        len += put_number(text + len, network->length - offset, 10);
        text[len] = '\0';
    }
    return len;
}

size_t address_format_group(const struct address *address, struct grouping group, char text[ADDRESS_TEXT_MAX])
{
    unsigned length = address_is_ipv4(address) ? IPV4_OFFSET_BITS + group.ipv4 : group.ipv6;
    struct network network = network_of(address, length);
    return network_format(&network, text);
}

/* ---- Networks -------------------------------------------------------------------------------------------- */

enum network_error network_parse(struct slice text, struct network *out)
{
    const char *slash = text.len > 0 ? memchr(text.at, '/', text.len) : NULL;
    struct slice host = { text.at, slash == NULL ? text.len : (size_t)(slash - text.at) };
    struct address address;
    if (!address_parse(host, &address))
        return NETWORK_BAD_ADDRESS;

    /* `::ffff:10.0.0.0/104` is written in 128 bits and means 10.0.0.0/8; shorter than 96 it would mean both families. */
    unsigned offset = family_offset(&address);
    bool is_mapped = offset > 0 && memchr(host.at, ':', host.len) != NULL;
    uint64_t length = ADDRESS_BITS - (is_mapped ? 0 : offset);
    if (slash != NULL) {
        struct slice digits = { slash + 1, text.len - host.len - 1 };
        if (!slice_to_u64(digits, length, &length) || (is_mapped && length < offset))
            return NETWORK_BAD_LENGTH;
    }
    unsigned bits = (unsigned)length + (is_mapped ? 0 : offset);
    struct network network = network_of(&address, bits);
    bool has_host_bits = memcmp(&network.address, &address, sizeof address) != 0;
    *out = network;
    return has_host_bits ? NETWORK_HOST_BITS : NETWORK_OK;
}

const char *network_error_text(enum network_error error)
{
    switch (error) {
    case NETWORK_BAD_ADDRESS:
        return "is no IPv4 or IPv6 address or network";
    case NETWORK_BAD_LENGTH:
        return "has a prefix length that is not 0..32 (IPv4) or 0..128 (IPv6)";
    case NETWORK_HOST_BITS:
        return "has bits set behind its prefix";
    case NETWORK_OK:
        break;
    }
    return "is good";
}

bool network_contains(const struct network *network, const struct address *address)
{
    size_t whole = network->length / 8;
    unsigned rest = network->length % 8;
    if (memcmp(network->address.bytes, address->bytes, whole) != 0)
        return false;
    if (rest != 0 && ((network->address.bytes[whole] ^ address->bytes[whole]) & (0xff00 >> rest) & 0xff) != 0)
        return false;
    /* Only an IPv6 network shorter than the IPv4 prefix gets here with the other family. */
    return address_is_ipv4(&network->address) == address_is_ipv4(address);
}

bool networks_contain(const struct network *networks, size_t count, const struct address *address)
{
    for (size_t i = 0; i < count; i++)
        if (network_contains(networks + i, address))
            return true;
    return false;
}
