// SPDX-License-Identifier: Apache-2.0
/*
 * siphash.h - SipHash-1-3 (Aumasson, Bernstein 2012): a keyed hash that callers who choose keys cannot steer.
 *
 * It decides which cell a key gets, so it must neither be floodable nor let anyone aim at another's budget. One
 * compression and three finalisation rounds, as in several language runtimes; 16-byte keys take about 15 ns.
 *
 * A state may be kept after whole 8-byte blocks: a limit's name is absorbed once, and each decision goes on from
 * there with the key.
 */
#ifndef WEIR_BASE_SIPHASH_H
#define WEIR_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct siphash {
    uint64_t v0, v1, v2, v3;
    uint64_t absorbed; /* bytes so far */
};

static inline uint64_t siphash_rotate_(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static inline void siphash_round_(struct siphash *s)
{
    s->v0 += s->v1;
    s->v1 = siphash_rotate_(s->v1, 13) ^ s->v0;
    s->v0 = siphash_rotate_(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = siphash_rotate_(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = siphash_rotate_(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = siphash_rotate_(s->v1, 17) ^ s->v2;
    s->v2 = siphash_rotate_(s->v2, 32);
}

static inline void siphash_block_(struct siphash *s, uint64_t block)
{
    s->v3 ^= block;
    siphash_round_(s);
    s->v0 ^= block;
}

/* A state under a 16-byte secret, with nothing absorbed. */
static inline struct siphash siphash_begin(const uint8_t secret[16])
{
    uint64_t k0 = load_le64(secret);
    uint64_t k1 = load_le64(secret + 8);
    return (struct siphash){ k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                             k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573), 0 };
}

/* Absorb `len` bytes, a multiple of 8. */
static inline void siphash_absorb(struct siphash *s, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i + 8 <= len; i += 8)
        siphash_block_(s, load_le64(at + i));
    s->absorbed += len;
}

/* The bytes behind the last whole block, low ones first. Longer keys have bytes before them to load as well. */
static inline uint64_t siphash_tail_(const unsigned char *at, size_t whole, size_t rest)
{
    if (rest == 0)
        return 0;
    return whole > 0 ? load_le64(at + whole + rest - 8) >> (64 - 8 * rest) : load_le_short(at, rest);
}

/*
 * Absorb the last bytes, any number, and give the hash. Always in line: a decision goes on from a state that is kept in
 * memory, and copying it for a call costs as much as two rounds.
 */
static inline __attribute__((always_inline)) uint64_t siphash_end(struct siphash s, const void *bytes,
                                                                  size_t len)
{
    const unsigned char *at = bytes;
    size_t whole = len & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8)
        siphash_block_(&s, load_le64(at + i));
    siphash_block_(&s, (s.absorbed + len) << 56 | siphash_tail_(at, whole, len - whole));
    s.v2 ^= 0xff;
    siphash_round_(&s);
    siphash_round_(&s);
    siphash_round_(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

#endif
