// SPDX-License-Identifier: Apache-2.0
/*
 * store_refusal.c - a table of the codes with which stores refuse.
 */
#include "fleet/store_refusal.h"

#include "wire/resp.h"

static const struct {
    const char *code;
    enum refusal refusal;
} codes[] = {
    { "MOVED", REFUSAL_MOVED },      { "ASK", REFUSAL_ASK },         { "TRYAGAIN", REFUSAL_MOVING },
    { "CLUSTERDOWN", REFUSAL_DOWN }, { "READONLY", REFUSAL_ROLE },   { "MASTERDOWN", REFUSAL_ROLE },
    { "LOADING", REFUSAL_BUSY },     { "BUSY", REFUSAL_BUSY },       { "OOM", REFUSAL_BUSY },
    { "MISCONF", REFUSAL_BUSY },     { "NOREPLICAS", REFUSAL_BUSY }, { "NOAUTH", REFUSAL_STRANGER },
};
#define CODE_COUNT (sizeof codes / sizeof *codes)

static enum refusal refusal_of(struct slice code)
{
    for (size_t i = 0; i < CODE_COUNT; i++)
        if (slice_equals(code, slice_of(codes[i].code)))
            return codes[i].refusal;
    return REFUSAL_NONE;
}

/* What a script of an old server ran into: the word behind the first " -". Only what a write can meet counts. */
static enum refusal refusal_wrapped(struct slice text)
{
    struct slice head = SLICE("ERR Error running script");
    if (text.len < head.len || memcmp(text.at, head.at, head.len) != 0)
        return REFUSAL_NONE;
    const char *at = memmem(text.at, text.len, " -", 2);
    if (at == NULL)
        return REFUSAL_NONE;
    struct slice rest = { at + 2, (size_t)(text.at + text.len - at - 2) };
    enum refusal refusal = refusal_of(resp_error_code(rest));
    return refusal == REFUSAL_ROLE || refusal == REFUSAL_BUSY ? refusal : REFUSAL_NONE;
}

enum refusal refusal_read(struct slice reply, struct slice *error)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    if (!resp_next(&reader, &value) || value.type != RESP_ERROR)
        return REFUSAL_NONE;
    *error = value.text;
    enum refusal refusal = refusal_of(resp_error_code(value.text));
    return refusal != REFUSAL_NONE ? refusal : refusal_wrapped(value.text);
}
