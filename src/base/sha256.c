// SPDX-License-Identifier: Apache-2.0
/*
 * sha256.c - SHA-256 as in FIPS 180-4, section 6.2, in one shot: our inputs are short and whole.
 */
#include "base/sha256.h"

#include <string.h>

enum { BLOCK = 64, LENGTH_FIELD = 8 };

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned bits)
{
    return (x >> bits) | (x << (32 - bits));
}

static uint32_t load_be32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void absorb_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    for (size_t t = 0; t < 16; t++)
        w[t] = load_be32(block + 4 * t);
    for (size_t t = 16; t < 64; t++) {
        uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ (w[t - 15] >> 3);
        uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ (w[t - 2] >> 10);
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }

    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (size_t t = 0; t < 64; t++) {
        uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g))
                      + round_constants[t] + w[t];
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void sha256(const void *bytes, size_t len, uint8_t out[SHA256_LEN])
{
    uint32_t state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    const unsigned char *at = bytes;
    size_t rest = len;
    for (; rest >= BLOCK; rest -= BLOCK, at += BLOCK)
        absorb_block(state, at);

    /* The last bytes, a one bit, zeros, and the length in bits: one block, or two where the length has no room. */
    unsigned char tail[2 * BLOCK] = { 0 };
    size_t tail_len = rest + 1 + LENGTH_FIELD <= BLOCK ? BLOCK : 2 * BLOCK;
    if (rest > 0)
        memcpy(tail, at, rest);
    tail[rest] = 0x80;
    uint64_t bits = (uint64_t)len * 8;
    for (size_t i = 0; i < LENGTH_FIELD; i++)
        tail[tail_len - 1 - i] = (unsigned char)(bits >> (8 * i));
    for (size_t i = 0; i < tail_len; i += BLOCK)
        absorb_block(state, tail + i);

    for (size_t i = 0; i < SHA256_LEN; i++)
        out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_hex(const void *bytes, size_t len, size_t count, char *out)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t hash[SHA256_LEN];
    sha256(bytes, len, hash);
    for (size_t i = 0; i < count && i < SHA256_LEN; i++) {
        out[2 * i] = digits[hash[i] >> 4];
        out[2 * i + 1] = digits[hash[i] & 15];
    }
}
