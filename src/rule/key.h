// SPDX-License-Identifier: Apache-2.0
/*
 * key.h - the bytes under which a limit counts a request.
 *
 * Each part of a key is its length + 1 in two bytes, then the value; an absent part is the length 0. So ("a", "bc") and
 * ("ab", "c") differ, and so do an absent part and an empty one. (The limit's name is hashed by weir.h itself.) A key
 * above KEY_PLAIN_MAX bytes is its SHA-256 behind two bytes that no plain key begins with: then the keys of a request
 * fit on the stack, and none is too long.
 */
#ifndef WEIR_RULE_KEY_H
#define WEIR_RULE_KEY_H

#include "base/bytes.h"

/* Room for a path, or for a tenant, an address and a route. */
#define KEY_PLAIN_MAX 256

/* Write the key of `parts` (len 0: absent), each at most WEIR_ATTRIBUTE_MAX bytes, at most WEIR_ATTRIBUTES_MAX of them. */
size_t key_encode(const struct slice *parts, size_t count, unsigned char out[KEY_PLAIN_MAX]);

#endif
