// SPDX-License-Identifier: Apache-2.0
/*
 * grpc_guard.h - what a peer may do on an HTTP/2 connection before it is told to calm down, and how long a frame may take.
 *
 * Idea: the bytes are walked from frame to frame before the library sees them, so everything is counted in one place, also what
 * the library would ignore. Two budgets refill with time: streams taken back (a client whose deadlines pass takes every call back,
 * and must not be cut for that), and frames that ask for nothing. A call pays for some frames of the second kind.
 *
 * Pure: seconds are an argument.
 */
#ifndef WEIR_NET_GRPC_GUARD_H
#define WEIR_NET_GRPC_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Streams taken back: at once, and a second. Ten thousand calls whose deadline passed in a slow moment are no attack. */
#define GUARD_RESETS 20000
#define GUARD_RESETS_A_SECOND 2000

/* Frames that ask for nothing (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA, unknown ones): at once, and a second; and how
   many come free with a call. Keepalive of any client is far below. */
#define GUARD_FRAMES 2000
#define GUARD_FRAMES_A_SECOND 200
#define GUARD_FRAMES_A_CALL 8

/* CONTINUATION frames of one head: it may have 8 KiB, and a frame 16. */
#define GUARD_CONTINUATIONS 8

struct grpc_guard {
    unsigned preface_left; /* bytes of the client's preface */
    unsigned char head[9];
    unsigned head_len;
    uint32_t payload_left;
    bool is_in_head; /* of a call: CONTINUATION comes */
    unsigned continuations;
    uint32_t resets, frames; /* what is left */
    uint64_t second;         /* up to which they were refilled */
    uint64_t half_since;     /* the second in which what is not whole began */
};

void grpc_guard_init(struct grpc_guard *guard, uint64_t second);

/* See bytes as they come. NULL, or what there was too much of: the reason of a GOAWAY. */
const char *grpc_guard_see(struct grpc_guard *guard, const void *bytes, size_t len, uint64_t second);

/* Whether the preface, a frame or a head has begun and is not whole. */
bool grpc_guard_is_half(const struct grpc_guard *guard);

#endif
