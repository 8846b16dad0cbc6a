// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_rls_json.c - any bytes as a JSON call of the rate limit service: it is read or refused with a sentence, and what was read is
 * the same call in protobuf.
 */
#include "rls_again.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rls_call call;
    const char *why = NULL;
    char *copy = malloc(size == 0 ? 1 : size), *room = malloc(size == 0 ? 1 : size);
    if (copy == NULL || room == NULL)
        exit(1);
    if (size > 0)
        memcpy(copy, data, size);
    enum rls_fault fault = rls_json_read((struct slice){ copy, size }, room, size, &call, &why);
    require((fault == RLS_GOOD) == (why == NULL));
    if (fault == RLS_GOOD)
        require_again(&call);
    else /* room as long as the body suffices */
        require(strlen(why) > 10
                && strcmp(why, "the strings of this text need more memory than there is") != 0);
    free(room);
    free(copy);
    return 0;
}
