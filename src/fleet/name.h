// SPDX-License-Identifier: Apache-2.0
/*
 * name.h - what a shared limit's key is called in the store, and which slot that is.
 *
 *     weir:1:{tenant=acme}:tenant-requests:b:path=/v1/items
 *     ^    ^  ^            ^               ^ ^
 *     |    |  |            |               | the other parts of the key, separated by commas
 *     |    |  |            |               the algorithm: a limit that gets another starts afresh
 *     |    |  |            the limit
 *     |    |  the first part of the key, or the limit's name where it has none: what one script changes lies in one slot
 *     |    the version of what stands in the values
 *     ours
 *
 * Different keys have different names: bytes other than letters, digits, '-', '.', '_', '~' and '/' are written as %XX, an
 * absent part is its name without '='. A key that is too long stands as its SHA-256 ("~" and 64 hex digits) in place of all
 * parts. Where a limit has no key the name ends with the letter. A name can be read back.
 */
#ifndef WEIR_FLEET_NAME_H
#define WEIR_FLEET_NAME_H

#include "base/bytes.h"
#include "weir_contract.h"

#define NAME_PREFIX "weir:1:"

/* Longest name: every byte of a key escaped, the names of its attributes, and the rest. */
#define NAME_MAX_LEN 2560

/* Write the name of ask->key under its limit; gives its length. `out` has NAME_MAX_LEN bytes. */
size_t name_write(const struct weir_contract_limit *limit, const unsigned char *key, size_t key_len, char *out);

/* The slot of a key of the store: CRC16 of what stands in its first {}, or of all of it. */
unsigned name_slot(struct slice name);

/* The hash tag of a name: what stands in its first {}. Empty: none. */
struct slice name_tag(struct slice name);

/* A pattern for SCAN that finds the keys of one limit (and what is kept beside them, which name_read() tells apart). Gives its
   length; `out` has NAME_MAX_LEN bytes. */
size_t name_pattern(const char *limit, char *out);

/* What a name says. False: it is none of ours. */
struct name_parts {
    struct slice limit, tag, rest; /* as written */
    char algorithm; /* 'b', 'f', 's', 'l', 'c': bucket, fixed and sliding window, log, concurrency */
};
bool name_read(struct slice name, struct name_parts *out);

#endif
