// SPDX-License-Identifier: Apache-2.0
/* token.c - three bytes in front of two parts; see token.h. */
#include "wire/token.h"

#include <assert.h>

#define JOINT 2
#define HEAD_LEN 3

static_assert(TOKEN_OWN_MAX <= UINT16_MAX, "its length has two bytes");

size_t token_join(const struct token *token, unsigned char *out)
{
    size_t own = token->own.len;
    assert(own <= TOKEN_OWN_MAX);
    assert(token->shared.len > 0 && token->shared.len <= TOKEN_SHARED_MAX);
    out[0] = JOINT;
    out[1] = (unsigned char)(own >> 8);
    out[2] = (unsigned char)own;
    if (own > 0)
        memcpy(out + HEAD_LEN, token->own.at, own);
    memcpy(out + HEAD_LEN + own, token->shared.at, token->shared.len);
    return HEAD_LEN + own + token->shared.len;
}

bool token_split(struct slice bytes, size_t own_max, struct token *out)
{
    const unsigned char *at = (const unsigned char *)bytes.at;
    if (bytes.len == 0)
        return false;
    if (at[0] != JOINT) {
        *out = (struct token){ .own = bytes };
        return bytes.len <= own_max;
    }
    if (bytes.len <= HEAD_LEN)
        return false;
    size_t own = (size_t)at[1] << 8 | at[2];
    if (own > own_max || own >= bytes.len - HEAD_LEN || bytes.len - HEAD_LEN - own > TOKEN_SHARED_MAX)
        return false;
    *out = (struct token){ .own = { own == 0 ? NULL : bytes.at + HEAD_LEN, own },
                           .shared = { bytes.at + HEAD_LEN + own, bytes.len - HEAD_LEN - own } };
    return true;
}
