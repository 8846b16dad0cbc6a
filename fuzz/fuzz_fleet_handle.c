// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_fleet_handle.c - any bytes as the handle of a reservation or a permit in the store: they are refused, or they are exactly
 * what writing gives of what was read, and name only keys of limits.
 */
#include <stdlib.h>

#include "fleet/handle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void require_ours(const struct handle *handle)
{
    size_t items = 0;
    for (size_t i = 0; i < handle->count; i++) {
        const struct script_call *call = &handle->calls[i];
        require(call->count >= 1 && call->id.len == SCRIPT_ID_LEN);
        for (size_t j = 0; j < call->count; j++, items++) {
            struct name_parts parts;
            require(name_read(call->items[j].name, &parts));
            require(handle->kind == HANDLE_RESERVATION || call->items[j].limit->algorithm == WEIR_CONCURRENCY);
        }
    }
    require(items <= WEIR_ASKS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char again[FLEET_HANDLE_MAX];
    struct handle handle;
    struct block *blocks = NULL;
    if (handle_read(data, size, &blocks, &handle) == HANDLE_OK) {
        struct text text = text_of(again, sizeof again);
        require_ours(&handle);
        require(handle_write(&text, &handle));
        require(text.len == size && memcmp(again, data, size) == 0);
    }
    while (blocks != NULL) {
        struct block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
    return 0;
}
