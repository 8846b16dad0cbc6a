// SPDX-License-Identifier: Apache-2.0
/*
 * protobuf.h - the encoding of protocol buffers: the fields of a message one after another, and fields written.
 *
 * Idea: a message is a run of fields, so reading it is a loop over them, and what is read points into it. Nothing is allocated,
 * and what a sender can make its reader do is one step for each of its bytes. A message within a message is read by another
 * loop; one that comes in several parts is merged by filling the same struct again, and of a number or text the last counts.
 *
 *     struct protobuf_field field;
 *     while (protobuf_next(&from, &field))
 *         if (field.number == 3 && field.type == PROTOBUF_NUMBER)
 *             hits = (uint32_t)field.value;
 *     if (from.is_bad) ...
 *
 * Writing: lengths come before what they count, so whoever writes knows them first: protobuf_*_len() of each field. A number that is
 * 0 and a text that is empty are not sent (proto3); a message within is, also an empty one.
 *
 * Source: protobuf.dev, "Encoding". Groups, which proto3 has not, are refused.
 */
#ifndef WEIR_WIRE_PROTOBUF_H
#define WEIR_WIRE_PROTOBUF_H

#include "base/bytes.h"

/* ---- Reading --------------------------------------------------------------------------------------------- */

enum protobuf_type { PROTOBUF_NUMBER, PROTOBUF_FIXED64, PROTOBUF_BYTES, PROTOBUF_FIXED32 = 5 };

struct protobuf {
    const unsigned char *at, *end; /* borrowed */
    bool is_bad;                   /* what is there is no field */
};

struct protobuf_field {
    uint32_t number; /* at least 1 */
    enum protobuf_type type;
    uint64_t value;     /* of a PROTOBUF_NUMBER; a smaller type is its low bits */
    struct slice bytes; /* of PROTOBUF_BYTES: a text, or a message */
};

static inline struct protobuf protobuf_of(struct slice message)
{
    const unsigned char *at = (const unsigned char *)message.at;
    return (struct protobuf){ .at = at, .end = message.len == 0 ? at : at + message.len };
}

/* Of at most `most` bytes: ten of a number, five of a tag or a length. What it says beyond 64 bits is dropped. */
static inline bool protobuf_varint(struct protobuf *from, unsigned most, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < most && from->at < from->end; i++) {
        unsigned char byte = *from->at++;
        value |= (uint64_t)(byte & 127) << 7 * i;
        if (byte < 128) {
            *out = value;
            return true;
        }
    }
    from->is_bad = true;
    return false;
}

/* Step over `len` bytes. */
static inline bool protobuf_take(struct protobuf *from, uint64_t len, struct slice *out)
{
    if (len > (uint64_t)(from->end - from->at)) {
        from->is_bad = true;
        return false;
    }
    *out = (struct slice){ (const char *)from->at, (size_t)len };
    from->at += len;
    return true;
}

/* The next field; false: there is none, or what is there is none (from->is_bad). */
static inline bool protobuf_next(struct protobuf *from, struct protobuf_field *out)
{
    uint64_t tag, len;
    struct slice skipped;
    if (from->at == from->end || !protobuf_varint(from, 5, &tag))
        return false;
    out->number = (uint32_t)tag >> 3;
    out->type = (enum protobuf_type)(tag & 7);
    if (out->number == 0) {
        from->is_bad = true;
        return false;
    }
    switch (out->type) {
    case PROTOBUF_NUMBER:
        return protobuf_varint(from, 10, &out->value);
    case PROTOBUF_BYTES:
        return protobuf_varint(from, 5, &len) && protobuf_take(from, len, &out->bytes);
    case PROTOBUF_FIXED64:
        return protobuf_take(from, 8, &skipped);
    case PROTOBUF_FIXED32:
        return protobuf_take(from, 4, &skipped);
    default:
        from->is_bad = true;
        return false;
    }
}

/* ---- Writing: fields 1 to 15, whose tag is one byte ------------------------------------------------------ */

/* How long each is when it is written. */
static inline size_t protobuf_varint_len(uint64_t value)
{
    return (size_t)(70 - __builtin_clzll(value | 1)) / 7;
}

static inline size_t protobuf_number_len(uint64_t value)
{
    return value == 0 ? 0 : 1 + protobuf_varint_len(value);
}

static inline size_t protobuf_message_len(size_t len)
{
    return 1 + protobuf_varint_len(len) + len;
}

static inline size_t protobuf_bytes_len(size_t len)
{
    return len == 0 ? 0 : protobuf_message_len(len);
}

/* Write to `to`; each returns where it ended. */
static inline char *protobuf_put_varint(char *to, uint64_t value)
{
    for (; value > 127; value >>= 7)
        *to++ = (char)(value | 128);
    *to++ = (char)value;
    return to;
}

static inline char *protobuf_put_number(char *to, unsigned number, uint64_t value)
{
    if (value == 0)
        return to;
    *to++ = (char)(number << 3 | PROTOBUF_NUMBER);
    return protobuf_put_varint(to, value);
}

/* What stands before a message of `len` bytes. */
static inline char *protobuf_put_message(char *to, unsigned number, size_t len)
{
    *to++ = (char)(number << 3 | PROTOBUF_BYTES);
    return protobuf_put_varint(to, len);
}

static inline char *protobuf_put_bytes(char *to, unsigned number, struct slice bytes)
{
    if (bytes.len == 0)
        return to;
    to = protobuf_put_message(to, number, bytes.len);
    memcpy(to, bytes.at, bytes.len);
    return to + bytes.len;
}

#endif
