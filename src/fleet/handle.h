// SPDX-License-Identifier: Apache-2.0
/*
 * handle.h - a reservation or a permit in the store as bytes: enough for any replica to settle, renew or return it.
 *
 * Idea: what the store needs is the name under which it keeps the reservation or the permit, the names of the keys and the sizes
 * they had. All of that is in the handle, so no replica remembers anything, and another contract makes no difference. The name is
 * not in it, but follows from it: SHA-256 of 16 random bytes and of everything that is said of a group, cut to 128 bits. So a
 * handle that was altered in any place names what the store does not know, at every replica, without a secret that they share.
 *
 * Version 1, integers as LEB128 (shortest form), texts with their length in front:
 *
 *     1, kind ('r' or 'p'), 16 random bytes, groups;
 *     each group: items; each item: bytes of the name shared with the last one of the group, the rest of the name, flags,
 *                 tick in us, capacity, debt, count, period, and where it is a calendar window: calendar and zone
 *
 * Reading is total: whatever is not exactly what writing gives is refused.
 */
#ifndef WEIR_FLEET_HANDLE_H
#define WEIR_FLEET_HANDLE_H

#include "fleet/script.h"
#include "fleet/work.h"

enum handle_kind { HANDLE_RESERVATION = 'r', HANDLE_PERMIT = 'p' };

/* Bytes before the first group. */
#define HANDLE_HEAD_MAX 20

/* What a handle says: calls of which names, ids, limits, sizes, flags and records are filled in. */
struct handle {
    enum handle_kind kind;
    const uint8_t *secret; /* FLEET_RANDOM_LEN bytes */
    size_t count;
    struct script_call *calls;
};

/* The id of a group, as of what a handle says of it; gives the bytes that it takes there. 0: it would be too long. */
size_t handle_id(enum handle_kind kind, const uint8_t secret[FLEET_RANDOM_LEN], const struct script_call *call,
                 char id[SCRIPT_ID_LEN]);

/* Append it; false: it is cut. Of calls of an acquisition only the items that hold permits are written. */
bool handle_write(struct text *out, const struct handle *handle);

enum handle_result { HANDLE_OK, HANDLE_BAD, HANDLE_NO_MEMORY };
/* Read it, into blocks. */
enum handle_result handle_read(const unsigned char *at, size_t len, struct block **blocks, struct handle *out);

#endif
