// SPDX-License-Identifier: Apache-2.0
/*
 * sealed.h - values that callers keep and bring back: little-endian bytes with a proof that this limiter made them.
 *
 * The proof is two SipHash-1-3 under keys made from the limiter's secret and the kind of value, so that one kind cannot be
 * taken for another, nor a value of another limiter for one of ours.
 */
#ifndef WEIR_SEALED_H
#define WEIR_SEALED_H

#include "set.h"

#define PROOF_LEN 16

/* Each kind has keys of its own; 3 is the memories' of reserve.c. */
enum sealed {
    SEALED_RESERVATION = 1, /* and 2 */
    SEALED_PERMIT = 4,      /* and 5 */
};

static inline void sealed_put(unsigned char **at, uint64_t value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        *(*at)++ = (unsigned char)(value >> (8 * i));
}

static inline uint64_t sealed_get(const unsigned char **at, size_t len)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++)
        value |= (uint64_t) * (*at)++ << (8 * i);
    return value;
}

/* The proof of `len` bytes. */
void sealed_prove(const struct weir *weir, enum sealed kind, const unsigned char *bytes, size_t len,
                  unsigned char proof[PROOF_LEN]);

/* Whether the last PROOF_LEN of `len` bytes prove those before; a wrong proof takes as long as a right one. */
bool sealed_is_ours(const struct weir *weir, enum sealed kind, const unsigned char *bytes, size_t len);

#endif
