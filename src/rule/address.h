// SPDX-License-Identifier: Apache-2.0
/*
 * address.h - IP addresses and networks: read strictly, compared as 16 bytes, written in one spelling.
 *
 * IPv4 is kept as ::ffff:0:0/96, so an IPv4-mapped address *is* IPv4 before any mask can touch it; a /56 laid over
 * mapped addresses would put every IPv4 client into one budget (CVE-2026-30827 elsewhere). The families never mix:
 * ::/0 holds no IPv4 address.
 *
 * Text: RFC 5952 (`2001:db8::1`, lower case, the first longest run of zeros shortened). A group shorter than the
 * whole address carries its length: 2001:db8:0:1::7 grouped by 64 is `2001:db8:0:1::/64`; 192.0.2.7 grouped by 32 is
 * `192.0.2.7`, by 24 `192.0.2.0/24`.
 */
#ifndef WEIR_RULE_ADDRESS_H
#define WEIR_RULE_ADDRESS_H

#include "base/bytes.h"

/* Network byte order; the form of weir_peer.address. */
struct address {
    uint8_t bytes[16];
};

/* `length` counts from the first of the 16 bytes: 10.0.0.0/8 has length 104. Bits behind it are 0. */
struct network {
    struct address address;
    unsigned length;
};

/* How many leading bits of an address name a client: 0..32 and 0..128. */
struct grouping {
    unsigned ipv4, ipv6;
};
#define GROUPING_DEFAULT ((struct grouping){ 32, 64 })

/* Bytes of the longest text with its prefix and a final zero. */
#define ADDRESS_TEXT_MAX 48

bool address_is_ipv4(const struct address *address);

/* `192.0.2.7` (four octets, no leading zeros) or `2001:db8::1`, whose `%zone` is dropped. Nothing else. */
bool address_parse(struct slice text, struct address *out);

/* The same as an element of a forwarding header: also `192.0.2.7:4711`, `[2001:db8::1]`, `[2001:db8::1]:4711`. */
bool address_parse_node(struct slice text, struct address *out);

/* Write the address; zero-terminated. Returns its length. */
size_t address_format(const struct address *address, char text[ADDRESS_TEXT_MAX]);

/* Write the group that the address belongs to. */
size_t address_format_group(const struct address *address, struct grouping group, char text[ADDRESS_TEXT_MAX]);

enum network_error {
    NETWORK_OK,
    NETWORK_BAD_ADDRESS,
    NETWORK_BAD_LENGTH, /* no integer, or more than 32 or 128 */
    NETWORK_HOST_BITS,  /* 10.0.0.1/8: did they mean 10.0.0.0/8, or 10.0.0.1/32? */
};

/* `10.0.0.0/8`, `2001:db8::/32`, or one address. On NETWORK_HOST_BITS *out is the network without those bits. */
enum network_error network_parse(struct slice text, struct network *out);

/* What follows the quoted text in a message: "has bits set behind its prefix". */
const char *network_error_text(enum network_error error);

/* Write `10.0.0.0/8`; a network of one address is written without its length. */
size_t network_format(const struct network *network, char text[ADDRESS_TEXT_MAX]);

/* The network of this length (counted in 16 bytes) around an address. */
struct network network_of(const struct address *address, unsigned length);

bool network_contains(const struct network *network, const struct address *address);
bool networks_contain(const struct network *networks, size_t count, const struct address *address);

#endif
