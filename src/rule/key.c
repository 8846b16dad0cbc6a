// SPDX-License-Identifier: Apache-2.0
/* key.c - length-prefixed keys, and the digest of long ones. */
#include "rule/key.h"

#include <assert.h>

#include "base/sha256.h"
#include "weir_contract.h"

#define PREFIX 2
_Static_assert(WEIR_ATTRIBUTE_MAX + 1 < 0xff00, "a length never begins like a digest");
_Static_assert(PREFIX + SHA256_LEN <= KEY_PLAIN_MAX, "a digest is a short key");

static size_t write_parts(const struct slice *parts, size_t count, unsigned char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        size_t prefix = parts[i].len == 0 ? 0 : parts[i].len + 1;
        out[len++] = (unsigned char)(prefix >> 8);
        out[len++] = (unsigned char)prefix;
        if (parts[i].len > 0)
            memcpy(out + len, parts[i].at, parts[i].len);
        len += parts[i].len;
    }
    return len;
}

/* Apart from key_encode(), whose stack frame would else always be as large. */
static __attribute__((noinline)) size_t write_digest(const struct slice *parts, size_t count,
                                                     unsigned char *out)
{
    unsigned char whole[WEIR_ATTRIBUTES_MAX * (PREFIX + WEIR_ATTRIBUTE_MAX)];
    size_t len = write_parts(parts, count, whole);
    out[0] = 0xff;
    out[1] = 0xff;
    sha256(whole, len, out + PREFIX);
    return PREFIX + SHA256_LEN;
}

size_t key_encode(const struct slice *parts, size_t count, unsigned char out[KEY_PLAIN_MAX])
{
    assert(count <= WEIR_ATTRIBUTES_MAX);
    size_t len = PREFIX * count;
    for (size_t i = 0; i < count; i++)
        len += parts[i].len;
    return len <= KEY_PLAIN_MAX ? write_parts(parts, count, out) : write_digest(parts, count, out);
}
