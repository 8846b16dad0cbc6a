// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_proxy_header.c - any beginning of a connection as a PROXY header.
 *
 * Checked: the answer for each prefix of a header is "more", what is refused stays refused with more bytes, what follows a header
 * changes nothing, and a source that was read is found again when it is written as version 2 and read once more.
 */
#include <stdlib.h>
#include <string.h>

#include "io/proxy_header.h"

#define MUST(condition) \
    do { \
        if (!(condition)) \
            abort(); \
    } while (0)

/* Prefixes are tried one by one up to here; a long header's middle is all alike. */
enum { PREFIXES_MAX = 300 };

/* In memory of its own length, so that a byte read behind it is seen. */
static enum proxy_result decode(const uint8_t *data, size_t size, struct proxy_header *out)
{
    uint8_t *exact = malloc(size == 0 ? 1 : size);
    if (exact == NULL)
        abort();
    if (size > 0)
        memcpy(exact, data, size);
    enum proxy_result result = proxy_header_decode(exact, size, out);
    free(exact);
    return result;
}

static void write_and_read(const struct proxy_header *header)
{
    uint8_t bytes[16 + 36] = { 0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51,
                               0x55, 0x49, 0x54, 0x0a, 0x21, 0x21, 0,    36 };
    struct proxy_header again;
    memcpy(bytes + 16, header->source, 16);
    bytes[16 + 32] = (uint8_t)(header->source_port >> 8);
    bytes[16 + 33] = (uint8_t)header->source_port;
    MUST(decode(bytes, sizeof bytes, &again) == PROXY_DONE && again.has_source);
    MUST(memcmp(again.source, header->source, 16) == 0 && again.source_port == header->source_port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proxy_header header = { .why = NULL }, other = { .why = NULL };
    enum proxy_result result = decode(data, size, &header);
    size_t decided_at = result == PROXY_DONE ? header.len : size;
    MUST(result != PROXY_DONE || (header.len > 0 && header.len <= size && header.len <= PROXY_HEADER_MAX));
    MUST(result != PROXY_MORE || size < PROXY_HEADER_MAX);
    MUST(result != PROXY_BAD || header.why != NULL);

    bool was_bad = false;
    for (size_t len = 0; len < decided_at && len < PREFIXES_MAX; len++) {
        enum proxy_result early = decode(data, len, &other);
        MUST(early == PROXY_MORE || (early == PROXY_BAD && result == PROXY_BAD));
        MUST(!was_bad || early == PROXY_BAD);
        was_bad = early == PROXY_BAD;
    }
    if (result != PROXY_DONE)
        return 0;
    MUST(decode(data, header.len, &other) == PROXY_DONE && other.len == header.len);
    MUST(other.has_source == header.has_source && other.source_port == header.source_port);
    MUST(memcmp(other.source, header.source, 16) == 0);
    if (header.has_source)
        write_and_read(&header);
    return 0;
}
