// SPDX-License-Identifier: Apache-2.0
/*
 * proxy_header.c - reads a header of the PROXY protocol; see proxy_header.h.
 *
 * The bytes are looked at from the first one again whenever more have come. That is cheap: version 1 is a short line, and of
 * version 2 nothing but two bytes of length is looked at before all of it is there.
 */
#include "io/proxy_header.h"

#include <arpa/inet.h>
#include <string.h>

static enum proxy_result bad(struct proxy_header *out, const char *why)
{
    out->why = why;
    return PROXY_BAD;
}

static void map_ipv4(const void *ipv4, uint8_t out[16])
{
    memset(out, 0, 10);
    out[10] = 0xff;
    out[11] = 0xff;
    memcpy(out + 12, ipv4, 4);
}

/* ---- Version 1: a line of text ------------------------------------------------------------------------------------- */

struct words {
    const char *at;
    size_t len;
};

/* The text up to the next blank, of which there must be exactly one between two words. */
static struct words next_word(struct words *rest)
{
    const char *blank = rest->len > 0 ? memchr(rest->at, ' ', rest->len) : NULL;
    struct words word = { rest->at, blank == NULL ? rest->len : (size_t)(blank - rest->at) };
    size_t used = blank == NULL ? rest->len : word.len + 1;
    rest->at += used;
    rest->len -= used;
    return word;
}

static bool is_word(struct words word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.at, text, word.len) == 0;
}

/* inet_pton() takes exactly what we want to take, but stops at a zero byte. */
static bool parse_address(struct words word, bool is_ipv4, uint8_t out[16])
{
    char text[INET6_ADDRSTRLEN];
    uint8_t ipv4[4];
    if (word.len == 0 || word.len >= sizeof text || memchr(word.at, '\0', word.len) != NULL)
        return false;
    memcpy(text, word.at, word.len);
    text[word.len] = '\0';
    if (!is_ipv4)
        return inet_pton(AF_INET6, text, out) == 1;
    if (inet_pton(AF_INET, text, ipv4) != 1)
        return false;
    map_ipv4(ipv4, out);
    return true;
}

/* `0|[1-9][0-9]*` up to 65535. */
static bool parse_port(struct words word, uint16_t *out)
{
    unsigned value = 0;
    if (word.len == 0 || word.len > 5 || (word.at[0] == '0' && word.len > 1))
        return false;
    for (size_t i = 0; i < word.len; i++) {
        if (word.at[i] < '0' || word.at[i] > '9')
            return false;
        value = value * 10 + (unsigned)(word.at[i] - '0');
    }
    *out = (uint16_t)value;
    return value <= UINT16_MAX;
}

/* What stands behind `PROXY `, without the end of the line. */
static enum proxy_result read_words(struct words rest, struct proxy_header *out)
{
    struct proxy_header read = { .has_source = true };
    uint8_t target[16];
    uint16_t target_port;
    struct words family = next_word(&rest);
    if (is_word(family, "UNKNOWN")) {
        *out = (struct proxy_header){ .has_source = false };
        return PROXY_DONE; /* whatever else it says */
    }
    bool is_ipv4 = is_word(family, "TCP4");
    if (!is_ipv4 && !is_word(family, "TCP6"))
        return bad(out, "the family is not TCP4, TCP6 or UNKNOWN");
    if (!parse_address(next_word(&rest), is_ipv4, read.source))
        return bad(out, "the source is no address of its family");
    if (!parse_address(next_word(&rest), is_ipv4, target))
        return bad(out, "the destination is no address of its family");
    if (!parse_port(next_word(&rest), &read.source_port))
        return bad(out, "the source's port is no number from 0 to 65535");
    /* The last word is all the rest: a blank behind it is no part of a number. */
    if (!parse_port(rest, &target_port))
        return bad(out, "the destination's port is no number from 0 to 65535, alone at the end of the line");
    *out = read;
    return PROXY_DONE;
}

static enum proxy_result decode_line(const char *at, size_t len, struct proxy_header *out)
{
    static const char begin[] = "PROXY ";
    const size_t begin_len = sizeof begin - 1;
    size_t within = len < PROXY_LINE_MAX ? len : PROXY_LINE_MAX;
    if (memcmp(at, begin, len < begin_len ? len : begin_len) != 0)
        return bad(out, "the connection does not begin with a PROXY header");
    const char *end = memchr(at, '\n', within);
    if (end == NULL)
        return within < PROXY_LINE_MAX ? PROXY_MORE : bad(out, "the line does not end within 107 bytes");
    if (end[-1] != '\r')
        return bad(out, "the line does not end with CR LF");
    size_t line_len = (size_t)(end + 1 - at); /* at least that of `PROXY `, CR and LF */
    enum proxy_result result = read_words((struct words){ at + begin_len, line_len - begin_len - 2 }, out);
    if (result == PROXY_DONE)
        out->len = line_len;
    return result;
}

/* ---- Version 2: bytes ------------------------------------------------------------------------------------------------ */

static const uint8_t signature[12] = { 0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a };

enum { FIXED_LEN = 16, COMMAND_LOCAL = 0x20, COMMAND_PROXY = 0x21 };
enum { TLV_CRC32C = 0x03, TLV_UNIQUE_ID = 0x05, UNIQUE_ID_MAX = 128 };

/* The reflected polynomial of CRC-32C (Castagnoli), bit by bit: headers are short and come once per connection. */
static uint32_t crc32c_step(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++)
        crc = crc >> 1 ^ (UINT32_C(0x82f63b78) & (0 - (crc & 1)));
    return crc;
}

/* Of all `len` bytes, as if the four at `hole` were zero. */
static uint32_t crc32c_without(const uint8_t *at, size_t len, size_t hole)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++)
        crc = crc32c_step(crc, i >= hole && i < hole + 4 ? 0 : at[i]);
    return ~crc;
}

static unsigned read_u16(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)read_u16(at) << 16 | read_u16(at + 2);
}

/* Whether what follows the addresses, from `from` to the end of the header, is a list of type, length, value. */
static bool check_values(const uint8_t *at, size_t len, size_t from, struct proxy_header *out)
{
    bool has_crc = false;
    while (from < len) {
        if (len - from < 3 || len - from - 3 < read_u16(at + from + 1)) {
            out->why = "a field behind the addresses is cut off";
            return false;
        }
        uint8_t type = at[from];
        size_t value = from + 3, value_len = read_u16(at + from + 1);
        if (type == TLV_CRC32C) {
            if (has_crc || value_len != 4 || crc32c_without(at, len, value) != read_u32(at + value)) {
                out->why = "the checksum is wrong";
                return false;
            }
            has_crc = true;
        } else if (type == TLV_UNIQUE_ID && value_len > UNIQUE_ID_MAX) {
            out->why = "the unique id is above 128 bytes";
            return false;
        }
        from = value + value_len;
    }
    return true;
}

/* A header that is whole: `len` is its length. */
static enum proxy_result decode_whole(const uint8_t *at, size_t len, struct proxy_header *out)
{
    static const size_t addresses_lens[] = { 0, 12, 36, 216 }; /* UNSPEC, INET, INET6, UNIX */
    struct proxy_header read = { .len = len };
    unsigned family = at[13] >> 4, transport = at[13] & 15;
    if (at[12] == COMMAND_LOCAL) {
        *out = read; /* what else it holds means nothing */
        return PROXY_DONE;
    }
    if (len - FIXED_LEN < addresses_lens[family])
        return bad(out, "the header is too short for its addresses");
    /* Without a family nobody knows where values would begin. */
    if (family != 0 && !check_values(at, len, FIXED_LEN + addresses_lens[family], out))
        return PROXY_BAD;

    read.has_source = transport != 0 && (family == 1 || family == 2);
    if (read.has_source && family == 1) {
        map_ipv4(at + FIXED_LEN, read.source);
        read.source_port = (uint16_t)read_u16(at + FIXED_LEN + 8);
    } else if (read.has_source) {
        memcpy(read.source, at + FIXED_LEN, 16);
        read.source_port = (uint16_t)read_u16(at + FIXED_LEN + 32);
    }
    *out = read;
    return PROXY_DONE;
}

/* Each byte is judged as soon as it is there, so that nobody waits for the rest of what can only be wrong. */
static enum proxy_result decode_binary(const uint8_t *at, size_t len, struct proxy_header *out)
{
    if (memcmp(at, signature, len < sizeof signature ? len : sizeof signature) != 0)
        return bad(out, "the connection does not begin with a PROXY header");
    if (len > 12 && at[12] != COMMAND_LOCAL && at[12] != COMMAND_PROXY)
        return bad(out, "the version is not 2, or the command neither LOCAL nor PROXY");
    if (len > 13 && at[12] == COMMAND_PROXY && (at[13] >> 4 > 3 || (at[13] & 15) > 2))
        return bad(out, "the family or the transport is unknown");
    if (len < FIXED_LEN || len - FIXED_LEN < read_u16(at + 14))
        return PROXY_MORE;
    return decode_whole(at, FIXED_LEN + read_u16(at + 14), out);
}

/* ---- Either ------------------------------------------------------------------------------------------------------------ */

enum proxy_result proxy_header_decode(const void *bytes, size_t len, struct proxy_header *out)
{
    if (len == 0)
        return PROXY_MORE;
    const uint8_t *at = bytes;
    return at[0] == signature[0] ? decode_binary(at, len, out) : decode_line(bytes, len, out);
}
