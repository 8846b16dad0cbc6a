// SPDX-License-Identifier: Apache-2.0
/*
 * memory.c - where memory comes from when the embedder does not say.
 *
 * A table of a million keys is touched at random: in 4 KB pages each touch would miss the TLB as well as the cache.
 * Large pieces are therefore mapped on 2 MB boundaries and offered to the system for huge pages.
 */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

static size_t mapped_size(size_t size)
{
    return (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

/* Map one huge page more than needed and cut off what lies outside the aligned part. */
static void *map(size_t size)
{
    size_t wanted = mapped_size(size);
    char *all = mmap(NULL, wanted + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0)
        munmap(all, before);
    if (before < HUGE_PAGE)
        munmap(all + before + wanted, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
    (void)madvise(all + before, wanted, MADV_HUGEPAGE); /* a wish: 4 KB pages work as well */
#endif
    return all + before;
}

static void *allocate(void *context, size_t size, size_t alignment)
{
    (void)context;
    if (size > SIZE_MAX / 2)
        return NULL;
    if (size >= HUGE_PAGE)
        return map(size);
    void *memory;
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size == 0 ? 1 : size)
        != 0)
        return NULL;
    return memset(memory, 0, size);
}

static void release(void *context, void *memory, size_t size)
{
    (void)context;
    if (memory == NULL)
        return;
    if (size >= HUGE_PAGE)
        munmap(memory, mapped_size(size));
    else
        free(memory);
}

const struct weir_allocator memory_default = { allocate, release, NULL };
