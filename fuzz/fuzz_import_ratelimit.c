// SPDX-License-Identifier: Apache-2.0
/* fuzz_import_ratelimit.c - any bytes as a configuration of envoyproxy/ratelimit: see imported.h. */
#include "imported.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    imported_check(WEIR_FOREIGN_RATELIMIT, data, size);
    return 0;
}
