// SPDX-License-Identifier: Apache-2.0
/*
 * sha256.h - SHA-256 (FIPS 180-4): names a contract's text, and hides an identity that is a secret.
 */
#ifndef WEIR_BASE_SHA256_H
#define WEIR_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_LEN 32

void sha256(const void *bytes, size_t len, uint8_t out[SHA256_LEN]);

/* The first `count` bytes of the hash (at most SHA256_LEN) as 2 * count lower-case hex digits; no final zero. */
void sha256_hex(const void *bytes, size_t len, size_t count, char *out);

#endif
