// SPDX-License-Identifier: Apache-2.0
/*
 * calendar_now.c - civil windows, each computed once while it lasts.
 *
 * Words:    everything under `lock`, held for a few comparisons but where a window is new. A row is one (unit, zone).
 * Reuse:    a zone stays open until the process ends. Contracts name few; when all rows are taken the oldest one goes.
 */
#include "fleet/calendar_now.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/almanac.h"
#include "base/civil.h"

#define ROWS_MAX 32
#define ZONE_NAME_MAX 64
#define MICROSECONDS INT64_C(1000000)
/* The year 2328, as limit/calendar.c has it. */
#define UNIX_MAX (INT64_C(130000) * 86400)

static struct row {
    enum weir_calendar unit;
    char name[ZONE_NAME_MAX];
    struct zone *zone; /* NULL: free */
    int64_t begins[4]; /* Unix seconds */
} rows[ROWS_MAX];
static size_t next_row;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *allocate(void *context, size_t size, size_t alignment)
{
    (void)context;
    (void)alignment; /* malloc's suffices */
    return calloc(1, size);
}

static void release(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    free(memory);
}

static const struct weir_allocator heap = { .allocate = allocate, .release = release };

static struct row *row_of(enum weir_calendar unit, const char *name)
{
    for (size_t i = 0; i < ROWS_MAX; i++)
        if (rows[i].zone != NULL && rows[i].unit == unit && strcmp(rows[i].name, name) == 0)
            return &rows[i];
    struct zone *zone;
    if (strlen(name) >= ZONE_NAME_MAX || zone_open(&zone, name, &heap) != 0)
        return NULL;
    struct row *row = &rows[next_row];
    next_row = (next_row + 1) % ROWS_MAX;
    if (row->zone != NULL)
        zone_close(row->zone, &heap);
    *row = (struct row){ .unit = unit, .zone = zone };
    memcpy(row->name, name, strlen(name) + 1);
    return row;
}

static void fill(struct row *row, int64_t seconds)
{
    int64_t index = almanac_index(row->zone, row->unit, seconds);
    for (int i = 0; i < 4; i++)
        row->begins[i] = almanac_start(row->zone, row->unit, index - 1 + i);
}

bool calendar_now(enum weir_calendar unit, const char *zone, uint64_t wall_us, uint64_t out_us[4])
{
    uint64_t whole = wall_us / MICROSECONDS;
    int64_t seconds = whole > (uint64_t)UNIX_MAX ? UNIX_MAX : (int64_t)whole;
    pthread_mutex_lock(&lock);
    struct row *row = row_of(unit, zone == NULL ? "UTC" : zone);
    if (row != NULL && (seconds < row->begins[1] || seconds >= row->begins[2]))
        fill(row, seconds);
    for (int i = 0; row != NULL && i < 4; i++)
        out_us[i] = row->begins[i] < 0 ? 0 : (uint64_t)row->begins[i] * MICROSECONDS;
    pthread_mutex_unlock(&lock);
    return row != NULL;
}
