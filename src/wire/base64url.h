// SPDX-License-Identifier: Apache-2.0
/*
 * base64url.h - bytes as letters that need no escape in JSON, URLs and headers (RFC 4648 section 5, without
 * padding).
 *
 * Idea: one text for each run of bytes and no other, so that a handle cannot be spelt in two ways: padding,
 * blanks and left-over bits that are not zero are refused.
 */
#ifndef WEIR_WIRE_BASE64URL_H
#define WEIR_WIRE_BASE64URL_H

#include "base/bytes.h"
#include "wire/text.h"

/* Letters of `len` bytes. */
#define BASE64URL_LEN(len) (((len)*4 + 2) / 3)

void base64url_encode(struct text *out, const void *bytes, size_t len);

/* False when the text is none, or is of more than `cap` bytes; then *len is as before. */
bool base64url_decode(struct slice text, unsigned char *out, size_t cap, size_t *len);

#endif
