// SPDX-License-Identifier: Apache-2.0
/* grpc_guard.c - frames, counted; see grpc_guard.h. */
#include "net/grpc_guard.h"

enum frame_type {
    FRAME_DATA,
    FRAME_HEADERS,
    FRAME_PRIORITY,
    FRAME_RST_STREAM,
    FRAME_SETTINGS,
    FRAME_PUSH_PROMISE,
    FRAME_PING,
    FRAME_GOAWAY,
    FRAME_WINDOW_UPDATE,
    FRAME_CONTINUATION,
};

#define FLAG_END_STREAM 0x1
#define FLAG_END_HEADERS 0x4

void grpc_guard_init(struct grpc_guard *guard, uint64_t second)
{
    *guard = (struct grpc_guard){ .preface_left = 24,
                                  .resets = GUARD_RESETS,
                                  .frames = GUARD_FRAMES,
                                  .second = second,
                                  .half_since = second };
}

static uint32_t refilled(uint32_t left, uint64_t more, uint32_t most)
{
    return more >= most - left ? most : left + (uint32_t)more;
}

static void refill(struct grpc_guard *guard, uint64_t second)
{
    uint64_t passed = second - guard->second;
    if (passed == 0)
        return;
    if (passed > GUARD_RESETS)
        passed = GUARD_RESETS; /* more than fills both */
    guard->second = second;
    guard->resets = refilled(guard->resets, passed * GUARD_RESETS_A_SECOND, GUARD_RESETS);
    guard->frames = refilled(guard->frames, passed * GUARD_FRAMES_A_SECOND, GUARD_FRAMES);
}

static const char *spend(uint32_t *left, const char *reason)
{
    if (*left == 0)
        return reason;
    (*left)--;
    return NULL;
}

/* The head of a frame is whole. */
static const char *begin_frame(struct grpc_guard *guard)
{
    const unsigned char *head = guard->head;
    uint32_t len = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
    unsigned flags = head[4];
    guard->payload_left = len;
    switch (head[3]) {
    case FRAME_DATA:
        return len > 0 || (flags & FLAG_END_STREAM) != 0 ? NULL : spend(&guard->frames, "too_many_frames");
    case FRAME_HEADERS:
        guard->is_in_head = (flags & FLAG_END_HEADERS) == 0;
        guard->continuations = 0;
        guard->frames = refilled(guard->frames, GUARD_FRAMES_A_CALL, GUARD_FRAMES);
        return NULL;
    case FRAME_CONTINUATION:
        if ((flags & FLAG_END_HEADERS) != 0)
            guard->is_in_head = false;
        return ++guard->continuations > GUARD_CONTINUATIONS ? "too_many_continuations" : NULL;
    case FRAME_RST_STREAM:
        return spend(&guard->resets, "too_many_resets");
    case FRAME_PING:
        return spend(&guard->frames, "too_many_pings");
    default:
        return spend(&guard->frames, "too_many_frames");
    }
}

bool grpc_guard_is_half(const struct grpc_guard *guard)
{
    return guard->preface_left > 0 || guard->head_len > 0 || guard->payload_left > 0 || guard->is_in_head;
}

/* Bytes that nobody looks at. Returns how many. */
static size_t pass(uint32_t *left, size_t len)
{
    size_t used = len < *left ? len : *left;
    *left -= (uint32_t)used;
    return used;
}

/* A head of several frames began with the first of them. */
static void note_whole(struct grpc_guard *guard, uint64_t second)
{
    if (!grpc_guard_is_half(guard))
        guard->half_since = second;
}

const char *grpc_guard_see(struct grpc_guard *guard, const void *bytes, size_t len, uint64_t second)
{
    const unsigned char *at = bytes;
    const char *reason = NULL;
    uint32_t preface_left = guard->preface_left;
    refill(guard, second);
    note_whole(guard, second);
    size_t used = pass(&preface_left, len);
    guard->preface_left = preface_left;
    while (used < len && reason == NULL) {
        if (guard->payload_left > 0) {
            used += pass(&guard->payload_left, len - used);
        } else {
            guard->head[guard->head_len++] = at[used++];
            if (guard->head_len < sizeof guard->head)
                continue;
            guard->head_len = 0;
            reason = begin_frame(guard);
        }
        note_whole(guard, second);
    }
    return reason;
}
