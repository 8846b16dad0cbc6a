// SPDX-License-Identifier: Apache-2.0
/*
 * grpc.h - what gRPC writes around messages: prefix, status, deadline, and the status's text.
 *
 * Source: grpc/grpc doc/PROTOCOL-HTTP2.md. Elsewhere: HTTP/2 (net/), messages (rls.h, grpc_health.h).
 */
#ifndef WEIR_WIRE_GRPC_H
#define WEIR_WIRE_GRPC_H

#include "base/bytes.h"
#include "weir.h"
#include "wire/text.h"

/* Status codes; a trailer says one as a plain decimal. */
enum grpc_code {
    GRPC_OK,
    GRPC_CANCELLED,
    GRPC_UNKNOWN,
    GRPC_INVALID_ARGUMENT,
    GRPC_DEADLINE_EXCEEDED,
    GRPC_NOT_FOUND,
    GRPC_ALREADY_EXISTS,
    GRPC_PERMISSION_DENIED,
    GRPC_RESOURCE_EXHAUSTED,
    GRPC_FAILED_PRECONDITION,
    GRPC_ABORTED,
    GRPC_OUT_OF_RANGE,
    GRPC_UNIMPLEMENTED,
    GRPC_INTERNAL,
    GRPC_UNAVAILABLE,
    GRPC_DATA_LOSS,
    GRPC_UNAUTHENTICATED,
    GRPC_CODE_COUNT
};

/* "INVALID_ARGUMENT", as logs and metrics name it; NULL for what is no code. */
const char *grpc_code_name(enum grpc_code code);

/* In front of each message: whether it is compressed (0 or 1), and its length, big-endian. */
#define GRPC_PREFIX_LEN 5

static inline uint32_t grpc_prefix_len(const void *prefix)
{
    const unsigned char *at = prefix;
    return (uint32_t)at[1] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 8 | at[4];
}

static inline void grpc_prefix_write(void *to, uint32_t len)
{
    unsigned char *at = to;
    at[0] = 0;
    at[1] = (unsigned char)(len >> 24);
    at[2] = (unsigned char)(len >> 16);
    at[3] = (unsigned char)(len >> 8);
    at[4] = (unsigned char)len;
}

/* `grpc-timeout`: 1 to 8 digits and one of H M S m u n. What 64 bits of ns cannot hold is UINT64_MAX. False: not of this form. */
bool grpc_timeout_parse(struct slice value, weir_ns *out);

/* `grpc-message`: every byte outside of 0x20..0x7e, and %, as %XX. At most three bytes for each. */
void grpc_message_escape(struct slice message, struct text *out);

#endif
