// SPDX-License-Identifier: Apache-2.0
/* entropy.h - random bytes from the system, for the hash secret. */
#ifndef WEIR_BASE_ENTROPY_H
#define WEIR_BASE_ENTROPY_H

#include <stdbool.h>
#include <stddef.h>

/* Fill `len` bytes, at most 256. False when the system has none. */
bool entropy_fill(void *out, size_t len);

#endif
