// SPDX-License-Identifier: Apache-2.0
#include "base/sha1.h"

#include <stdint.h>
#include <string.h>

#define BLOCK_LEN 64

static uint32_t rotate(uint32_t x, unsigned by)
{
    return x << by | x >> (32 - by);
}

static uint32_t load_be32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* What a round mixes, by its quarter. */
static uint32_t mixed(unsigned quarter, uint32_t b, uint32_t c, uint32_t d)
{
    if (quarter == 0)
        return ((b & c) | (~b & d)) + 0x5a827999;
    if (quarter == 2)
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    return (b ^ c ^ d) + (quarter == 1 ? 0x6ed9eba1 : 0xca62c1d6);
}

static void absorb(uint32_t state[5], const unsigned char *block)
{
    uint32_t words[80];
    for (unsigned i = 0; i < 16; i++)
        words[i] = load_be32(block + 4 * i);
    for (unsigned i = 16; i < 80; i++)
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (unsigned i = 0; i < 80; i++) {
        uint32_t next = rotate(a, 5) + mixed(i / 20, b, c, d) + e + words[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void sha1_hex(const void *bytes, size_t len, char out[SHA1_HEX_LEN])
{
    static const char hex[] = "0123456789abcdef";
    uint32_t state[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
    const unsigned char *at = bytes;
    size_t left = len;
    for (; left >= BLOCK_LEN; left -= BLOCK_LEN, at += BLOCK_LEN)
        absorb(state, at);

    unsigned char last[2 * BLOCK_LEN] = { 0 }; /* the rest, a one bit, zeros, and the length in bits */
    if (left > 0)
        memcpy(last, at, left);
    last[left] = 0x80;
    size_t end = left < BLOCK_LEN - 8 ? BLOCK_LEN : 2 * BLOCK_LEN;
    for (unsigned i = 0; i < 8; i++)
        last[end - 1 - i] = (unsigned char)((uint64_t)len * 8 >> (8 * i));
    for (size_t i = 0; i < end; i += BLOCK_LEN)
        absorb(state, last + i);
    for (unsigned i = 0; i < SHA1_HEX_LEN; i++)
        out[i] = hex[state[i / 8] >> (28 - i % 8 * 4) & 15];
}
