// SPDX-License-Identifier: Apache-2.0
/*
 * rls_again.h - what a call of the rate limit service holds when it was read, and the same call written as protobuf by hand and
 * read once more: whichever coding it came in, it is then the same.
 */
#ifndef WEIR_FUZZ_RLS_AGAIN_H
#define WEIR_FUZZ_RLS_AGAIN_H

#include <stdlib.h>

#include "wire/rls.h"

static inline void require(bool holds)
{
    if (!holds)
        abort();
}

/* ---- By hand ------------------------------------------------------------------------------------------------ */

/* Lengths are always of three bytes, which no encoder does and any decoder reads: they need not be known in advance. */
#define LENGTH_BYTES 3

static inline void put_varint(struct text *out, uint64_t value)
{
    char byte;
    for (; value > 127; value >>= 7) {
        byte = (char)(value | 128);
        text_bytes(out, &byte, 1);
    }
    byte = (char)value;
    text_bytes(out, &byte, 1);
}

static inline size_t open_message(struct text *out, unsigned field)
{
    put_varint(out, field << 3 | 2);
    text_bytes(out, "\0\0\0", LENGTH_BYTES);
    return out->len;
}

static inline void close_message(struct text *out, size_t start)
{
    size_t len = out->len - start;
    require(!out->is_cut && len < 1u << 21);
    out->at[start - 3] = (char)(len | 128);
    out->at[start - 2] = (char)(len >> 7 | 128);
    out->at[start - 1] = (char)(len >> 14);
}

static inline void put_bytes(struct text *out, unsigned field, const char *at, size_t len)
{
    size_t start = open_message(out, field);
    text_bytes(out, at, len);
    close_message(out, start);
}

static inline void put_number(struct text *out, unsigned field, uint64_t value)
{
    put_varint(out, field << 3);
    put_varint(out, value);
}

static inline void put_asked(struct text *out, const struct rls_asked *asked)
{
    size_t start;
    if (asked->has_limit) {
        start = open_message(out, 2);
        put_number(out, 1, asked->requests_per_unit);
        put_number(out, 2, asked->unit);
        size_t units = open_message(out, 3);
        put_number(out, 1, asked->unit_multiplier);
        close_message(out, units);
        close_message(out, start);
    }
    start = open_message(out, 3);
    put_number(out, 1, asked->hits);
    close_message(out, start);
    put_number(out, 4, asked->is_refund);
}

static inline void put_call(struct text *out, const struct rls_call *call)
{
    put_bytes(out, 1, call->domain.at, call->domain.len);
    for (size_t i = 0; i < call->count; i++) {
        size_t descriptor = open_message(out, 2);
        for (size_t k = 0; k < call->descriptors[i].entry_count; k++) {
            const struct weir_entry *from = &call->descriptors[i].entries[k];
            size_t entry = open_message(out, 1);
            put_bytes(out, 1, from->key, from->key_len);
            put_bytes(out, 2, from->value, from->value_len);
            close_message(out, entry);
        }
        put_asked(out, &call->asked[i]);
        close_message(out, descriptor);
    }
}

/* ---- What must hold ----------------------------------------------------------------------------------------- */

static inline bool same(const char *x, size_t x_len, const char *y, size_t y_len)
{
    return slice_equals((struct slice){ x, x_len }, (struct slice){ y, y_len });
}

static inline void require_call(const struct rls_call *call)
{
    size_t used = 0;
    require(call->domain.len > 0 && utf8_is_valid(call->domain));
    require(call->count >= 1 && call->count <= WEIR_DESCRIPTORS_MAX);
    for (size_t i = 0; i < call->count; i++) {
        const struct weir_descriptor *descriptor = &call->descriptors[i];
        const struct rls_asked *asked = &call->asked[i];
        require(descriptor->entries == call->entries + used && descriptor->entry_count <= WEIR_ENTRIES_MAX);
        for (size_t k = 0; k < descriptor->entry_count; k++) {
            const struct weir_entry *entry = &descriptor->entries[k];
            require(entry->key_len > 0 && utf8_is_valid((struct slice){ entry->key, entry->key_len }));
            require(utf8_is_valid((struct slice){ entry->value, entry->value_len }));
        }
        used += descriptor->entry_count;
        require(asked->hits <= INT64_MAX && asked->unit_multiplier >= 1);
        require(!asked->has_limit || (asked->unit >= RLS_SECOND && asked->unit <= RLS_YEAR));
    }
}

static inline void require_same(const struct rls_call *x, const struct rls_call *y)
{
    require(slice_equals(x->domain, y->domain) && x->count == y->count);
    for (size_t i = 0; i < x->count; i++) {
        const struct rls_asked *asked = &x->asked[i], *other = &y->asked[i];
        require(x->descriptors[i].entry_count == y->descriptors[i].entry_count);
        for (size_t k = 0; k < x->descriptors[i].entry_count; k++) {
            const struct weir_entry *from = &x->descriptors[i].entries[k], *to = &y->descriptors[i].entries[k];
            require(same(from->key, from->key_len, to->key, to->key_len)
                    && same(from->value, from->value_len, to->value, to->value_len));
        }
        require(asked->hits == other->hits && asked->is_refund == other->is_refund
                && asked->has_limit == other->has_limit);
        require(!asked->has_limit
                || (asked->requests_per_unit == other->requests_per_unit && asked->unit == other->unit
                    && asked->unit_multiplier == other->unit_multiplier));
    }
}

/* Written by hand and read again it is the same. */
static inline void require_again(const struct rls_call *call)
{
    static char written[4 * RLS_CALL_MAX];
    static struct rls_call again;
    struct text text = text_of(written, sizeof written);
    const char *why = NULL;
    require_call(call);
    put_call(&text, call);
    if (text.len > RLS_CALL_MAX) /* it is longer by hand */
        return;
    require(rls_read(text_slice(&text), &again, &why) == RLS_GOOD);
    require_same(call, &again);
}

#endif
