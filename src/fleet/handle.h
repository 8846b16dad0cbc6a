// SPDX-License-Identifier: Apache-2.0
/*
 * handle.h - a reservation or a permit in the store as bytes: enough for any replica to settle, renew or return it.
 *
 * Idea: what the store needs is the random id under which it keeps the reservation or the permit, the names of the keys and the
 * sizes they had. All of that is in the handle, so no replica remembers anything, and another contract makes no difference. Having
 * the id is the right to it; a handle that was made up names no reservation that the store knows, and only keys of ours.
 *
 * Version 1, integers as LEB128 (shortest form), texts with their length in front:
 *
 *     1, kind ('r' or 'p'), 16 bytes of the id, groups;
 *     each group: items; each item: bytes of the name shared with the last one, the rest of the name, flags,
 *                 tick in us, capacity, debt, count, period, and where it is a calendar window: calendar and zone
 *
 * Reading is total: whatever is not exactly what writing gives is refused.
 */
#ifndef WEIR_FLEET_HANDLE_H
#define WEIR_FLEET_HANDLE_H

#include "fleet/script.h"
#include "fleet/work.h"

enum handle_kind { HANDLE_RESERVATION = 'r', HANDLE_PERMIT = 'p' };

/* What a handle says: calls of which names, ids, limits, sizes, flags and records are filled in. */
struct handle {
    enum handle_kind kind;
    size_t count;
    struct script_call *calls;
};

/* Append it; false: it is cut. Of calls of an acquisition only the items that hold permits are written. */
bool handle_write(struct text *out, const struct handle *handle);

enum handle_result { HANDLE_OK, HANDLE_BAD, HANDLE_NO_MEMORY };
/* Read it, into blocks. */
enum handle_result handle_read(const unsigned char *at, size_t len, struct block **blocks, struct handle *out);

#endif
