// SPDX-License-Identifier: Apache-2.0
/* grpc.c - the fields of a call that gRPC defines; see grpc.h. */
#include "wire/grpc.h"

#include <assert.h>

const char *grpc_code_name(enum grpc_code code)
{
    static const char *const names[] = {
        [GRPC_OK] = "OK",
        [GRPC_CANCELLED] = "CANCELLED",
        [GRPC_UNKNOWN] = "UNKNOWN",
        [GRPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
        [GRPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
        [GRPC_NOT_FOUND] = "NOT_FOUND",
        [GRPC_ALREADY_EXISTS] = "ALREADY_EXISTS",
        [GRPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
        [GRPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
        [GRPC_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
        [GRPC_ABORTED] = "ABORTED",
        [GRPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
        [GRPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
        [GRPC_INTERNAL] = "INTERNAL",
        [GRPC_UNAVAILABLE] = "UNAVAILABLE",
        [GRPC_DATA_LOSS] = "DATA_LOSS",
        [GRPC_UNAUTHENTICATED] = "UNAUTHENTICATED",
    };
    static_assert(sizeof names / sizeof *names == GRPC_CODE_COUNT, "each code has its name");
    return (unsigned)code < GRPC_CODE_COUNT ? names[code] : NULL;
}

/* The length of a unit; 0: there is none of this letter. */
static weir_ns unit_of(char letter)
{
    switch (letter) {
    case 'H':
        return 3600 * WEIR_SECOND;
    case 'M':
        return 60 * WEIR_SECOND;
    case 'S':
        return WEIR_SECOND;
    case 'm':
        return WEIR_MILLISECOND;
    case 'u':
        return 1000;
    case 'n':
        return 1;
    default:
        return 0;
    }
}

bool grpc_timeout_parse(struct slice value, weir_ns *out)
{
    enum { DIGITS_MAX = 8 };
    if (value.len < 2 || value.len > DIGITS_MAX + 1)
        return false;
    weir_ns unit = unit_of(value.at[value.len - 1]), length;
    uint64_t count = 0;
    for (size_t i = 0; i + 1 < value.len; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return false;
        count = count * 10 + (uint64_t)(value.at[i] - '0');
    }
    if (unit == 0)
        return false;
    *out = __builtin_mul_overflow(count, unit, &length) ? UINT64_MAX : length;
    return true;
}

void grpc_message_escape(struct slice message, struct text *out)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < message.len; i++) {
        unsigned char byte = (unsigned char)message.at[i];
        char escaped[] = { '%', hex[byte >> 4], hex[byte & 15] };
        if (byte < 0x20 || byte > 0x7e || byte == '%')
            text_bytes(out, escaped, sizeof escaped);
        else
            text_bytes(out, message.at + i, 1);
    }
}
