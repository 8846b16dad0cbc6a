// SPDX-License-Identifier: Apache-2.0
/* fuzz_import_nginx.c - any bytes as a configuration of nginx: see imported.h. */
#include "imported.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    imported_check(WEIR_FOREIGN_NGINX, data, size);
    return 0;
}
