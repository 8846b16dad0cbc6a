// SPDX-License-Identifier: Apache-2.0
#include "sealed.h"

#include "base/bytes.h"

/* Two hashes under different keys: 128 bits that only this limiter can make. */
void sealed_prove(const struct weir *weir, enum sealed kind, const unsigned char *bytes, size_t len,
                  unsigned char proof[PROOF_LEN])
{
    unsigned char *at = proof;
    for (uint64_t which = kind; which <= (uint64_t)kind + 1; which++) {
        struct siphash state = weir->seed;
        uint64_t domain[2] = { UINT64_MAX - which, which }; /* no limit's name has such a length */
        siphash_absorb(&state, domain, sizeof domain);
        sealed_put(&at, siphash_end(state, bytes, len), 8);
    }
}

bool sealed_is_ours(const struct weir *weir, enum sealed kind, const unsigned char *bytes, size_t len)
{
    unsigned char proof[PROOF_LEN];
    if (len < PROOF_LEN)
        return false;
    sealed_prove(weir, kind, bytes, len - PROOF_LEN, proof);
    return bytes_equal_constant_time(proof, bytes + len - PROOF_LEN, PROOF_LEN);
}
