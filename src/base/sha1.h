// SPDX-License-Identifier: Apache-2.0
/*
 * sha1.h - SHA-1 (FIPS 180-4): the name that a store gives to a script. Nothing of ours trusts it.
 */
#ifndef WEIR_BASE_SHA1_H
#define WEIR_BASE_SHA1_H

#include <stddef.h>

#define SHA1_HEX_LEN 40

/* The hash as lower-case hex digits; no final zero. */
void sha1_hex(const void *bytes, size_t len, char out[SHA1_HEX_LEN]);

#endif
