// SPDX-License-Identifier: Apache-2.0
/* base64url.c - six bits a letter, most significant first. */
#include "wire/base64url.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64url_encode(struct text *out, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;
    char *to = text_claim(out, BASE64URL_LEN(len));
    if (to == NULL)
        return;
    uint32_t bits = 0; /* those not yet written are the lowest `have` */
    unsigned have = 0;
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | from[i];
        have += 8;
        while (have >= 6) {
            have -= 6;
            *to++ = letters[bits >> have & 63];
        }
    }
    if (have > 0)
        *to = letters[bits << (6 - have) & 63];
    out->len += BASE64URL_LEN(len);
}

/* The six bits of a letter, or 64. */
static unsigned value_of(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        return (unsigned)(letter - 'A');
    if (letter >= 'a' && letter <= 'z')
        return (unsigned)(letter - 'a') + 26;
    if (letter >= '0' && letter <= '9')
        return (unsigned)(letter - '0') + 52;
    return letter == '-' ? 62 : letter == '_' ? 63 : 64;
}

bool base64url_decode(struct slice text, unsigned char *out, size_t cap, size_t *len)
{
    if (text.len % 4 == 1 || text.len / 4 * 3 + text.len % 4 * 3 / 4 > cap)
        return false;
    size_t done = 0;
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned value = value_of(text.at[i]);
        if (value == 64)
            return false;
        bits = bits << 6 | value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[done++] = (unsigned char)(bits >> have);
        }
    }
    if ((bits & ((1U << have) - 1)) != 0) /* they would belong to a byte that is not there */
        return false;
    *len = done;
    return true;
}
