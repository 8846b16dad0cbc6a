// SPDX-License-Identifier: Apache-2.0
/*
 * entropy.c - getentropy(3), which Linux, the BSDs and macOS have.
 */
#include "base/entropy.h"

#include <unistd.h>

bool entropy_fill(void *out, size_t len)
{
    return getentropy(out, len) == 0;
}
