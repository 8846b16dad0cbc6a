// SPDX-License-Identifier: Apache-2.0
/*
 * work.c - the memory of works and the lists of deadlines.
 */
#include "fleet/work.h"

#include <stdlib.h>

/* With the struct of the work itself in the same allocation: one limit and its command fit. */
#define FIRST_BLOCK ((size_t)3584)
#define NEXT_BLOCK ((size_t)8192)

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

static size_t rounded(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static struct block *block_new(size_t cap, struct block *next)
{
    struct block *block = malloc(sizeof *block + cap);
    if (block != NULL)
        *block = (struct block){ .next = next, .cap = cap };
    return block;
}

void *block_claim(struct block **blocks, size_t size)
{
    struct block *block = *blocks;
    if (size > SIZE_MAX / 2)
        return NULL;
    size = rounded(size);
    if (block == NULL || size > block->cap - block->used) {
        block = block_new(size > NEXT_BLOCK ? size : NEXT_BLOCK, *blocks);
        if (block == NULL)
            return NULL;
        *blocks = block;
    }
    void *claimed = block->bytes + block->used;
    block->used += size;
    return memset(claimed, 0, size);
}

bool block_copy(struct block **blocks, struct slice from, struct slice *out)
{
    char *to = block_claim(blocks, from.len + 1); /* an empty one has an address too */
    if (to == NULL)
        return false;
    if (from.len > 0)
        memcpy(to, from.at, from.len);
    *out = (struct slice){ to, from.len };
    return true;
}

void blocks_free(struct block *blocks)
{
    while (blocks != NULL) {
        struct block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

/* The first one is the last of the chain. */
void blocks_rewind(struct block **blocks)
{
    while (*blocks != NULL && (*blocks)->next != NULL) {
        struct block *next = (*blocks)->next;
        free(*blocks);
        *blocks = next;
    }
    if (*blocks != NULL)
        (*blocks)->used = 0;
}

/* ---- Deadlines ---------------------------------------------------------------------------------------------------- */

void due_list_init(struct due_list *list)
{
    list->head.next = list->head.prev = &list->head;
    list->count = 0;
}

/* From the end: instants come in order, but for readings of the clock that are a little older. */
void due_add(struct due_list *list, struct due *due)
{
    struct due *before = list->head.prev;
    while (before != &list->head && before->at > due->at)
        before = before->prev;
    due->prev = before;
    due->next = before->next;
    before->next->prev = due;
    before->next = due;
    list->count++;
}

void due_remove(struct due_list *list, struct due *due)
{
    if (due->next == NULL)
        return;
    due->prev->next = due->next;
    due->next->prev = due->prev;
    due->next = due->prev = NULL;
    list->count--;
}

weir_ns due_next(const struct due_list *list)
{
    return list->count == 0 ? WEIR_NO_TIME : list->head.next->at;
}

/* ---- Works -------------------------------------------------------------------------------------------------------- */

static struct fleet_work *work_claim(struct fleet *fleet)
{
    struct fleet_work *work = fleet->spare;
    if (work != NULL) {
        fleet->spare = work->next_spare;
        fleet->spare_count--;
        return work;
    }
    work = malloc(sizeof *work);
    if (work == NULL)
        return NULL;
    work->blocks = block_new(FIRST_BLOCK, NULL);
    if (work->blocks != NULL)
        return work;
    free(work);
    return NULL;
}

struct fleet_work *work_new(struct fleet *fleet, weir_ns now, void (*expire)(struct due *due, weir_ns now))
{
    struct fleet_work *work = fleet->works.count < FLEET_WORKS_MAX ? work_claim(fleet) : NULL;
    if (work == NULL)
        return NULL;
    weir_ns deadline = fleet->options.deadline;
    *work = (struct fleet_work){
        .due = { .at = deadline > WEIR_NO_TIME - 1 - now ? WEIR_NO_TIME - 1 : now + deadline,
                 .expire = expire },
        .fleet = fleet,
        .blocks = work->blocks,
        .now = now,
        .heard_at = now,
        .generation = denied_generation(fleet->common->denied),
    };
    due_add(&fleet->works, &work->due);
    return work;
}

void work_free(struct fleet_work *work)
{
    struct fleet *fleet = work->fleet;
    due_remove(&fleet->works, &work->due);
    for (size_t i = 0; i < work->group_count; i++)
        free(work->groups[i].errand.whole);
    blocks_rewind(&work->blocks);
    if (fleet->spare_count < FLEET_SPARE_WORKS) {
        work->next_spare = fleet->spare;
        fleet->spare = work;
        fleet->spare_count++;
        return;
    }
    free(work->blocks);
    free(work);
}
