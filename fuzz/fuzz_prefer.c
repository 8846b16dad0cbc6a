// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_prefer.c - any bytes as `Prefer` field lines: a wait within its bound is found or none is, and a good line is
 * understood beside whatever else there is.
 *
 * Input: field values, one a line. Each lies in memory of its own length, so that a look beyond its end is seen.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/prefer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES_MAX = 16 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

static struct weir_field field(const char *name, const char *value, size_t len)
{
    return (struct weir_field){ name, value, strlen(name), len };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_field fields[LINES_MAX + 2];
    char *copies[LINES_MAX];
    size_t count = 0;
    fields[0] = field("Prefer", "wait=7", 6);
    for (const uint8_t *end = data + size; data < end && count < LINES_MAX; count++) {
        const uint8_t *newline = memchr(data, '\n', (size_t)(end - data));
        size_t len = (size_t)((newline == NULL ? end : newline) - data);
        copies[count] = malloc(len == 0 ? 1 : len);
        if (copies[count] == NULL)
            exit(1);
        memcpy(copies[count], data, len);
        fields[1 + count] = field("prefer", copies[count], len);
        data = newline == NULL ? end : newline + 1;
    }
    fields[1 + count] = field("PREFER", "wait=7", 6);

    uint64_t alone = prefer_wait(fields + 1, count), behind = prefer_wait(fields + 1, count + 1);
    require(alone <= PREFER_SECONDS_MAX);
    require(prefer_wait(fields, count + 2) == 7); /* of several the first counts */
    require(behind == alone || (alone == 0 && behind == 7));
    for (size_t i = 0; i < count; i++)
        free(copies[i]);
    return 0;
}
