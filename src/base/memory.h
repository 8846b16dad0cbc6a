// SPDX-License-Identifier: Apache-2.0
/* memory.h - the default allocator of a limiter: zeroed, aligned, large pieces straight from the system. */
#ifndef WEIR_BASE_MEMORY_H
#define WEIR_BASE_MEMORY_H

#include "weir.h"

extern const struct weir_allocator memory_default;

#endif
