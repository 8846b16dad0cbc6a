// SPDX-License-Identifier: Apache-2.0
/*
 * Deciding calls no allocator. With `--decide` this program makes decisions between two marks that
 * test_quiet_calls.py looks for in its trace of system calls: getppid(), which nothing else here calls.
 */
#include <unistd.h>

#include "store/kit.h"

#if defined(__SANITIZE_ADDRESS__) || CELL_SANITIZED
#define COUNTS_CALLS 0
#elif defined(__GLIBC__)
#define COUNTS_CALLS 1
#else
#define COUNTS_CALLS 0
#endif

static unsigned long allocator_calls;

#if COUNTS_CALLS
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

void *malloc(size_t size)
{
    allocator_calls++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    allocator_calls++;
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    allocator_calls++;
    return __libc_realloc(memory, size);
}

void free(void *memory)
{
    allocator_calls++;
    __libc_free(memory);
}
#endif

static struct weir *weir;
static weir_limit_id limits[6];

static int open_weir(void)
{
    static const struct weir_limit wanted[] = {
        { .name = "bucket", .rate = { 5, S }, .burst = 20 },
        { .name = "window", .algorithm = WEIR_FIXED_WINDOW, .rate = { 20, S } },
        { .name = "day",
          .algorithm = WEIR_FIXED_WINDOW,
          .align = WEIR_ALIGN_CALENDAR,
          .rate = { 20, 0 },
          .zone = "Europe/Berlin" },
        { .name = "sliding", .algorithm = WEIR_SLIDING_WINDOW, .rate = { 20, S } },
        { .name = "log", .algorithm = WEIR_SLIDING_LOG, .rate = { 20, S } },
        { .name = "evict", .rate = { 5, S }, .burst = 20, .when_full = WEIR_FULL_EVICT_LEAST },
    };
    int code = weir_new(&weir, &(struct weir_options){ .keys = 100, .log_stamps = 2048 });
    for (size_t i = 0; code == 0 && i < COUNT_OF(wanted); i++)
        code = weir_limit_add(weir, &wanted[i], &limits[i]);
    return code;
}

/*
 * New and known keys, refusals, composites, batches, peeks, a full table, an exhausted arena, reclaims, a
 * sweep.
 */
static unsigned long decide(void)
{
    unsigned long answers = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t key = i % 500;
        weir_ns now = i * WEIR_MILLISECOND * 2;
        struct weir_decision decision, each[6];
        struct weir_ask asks[6];
        for (unsigned j = 0; j < 6; j++)
            asks[j] = (struct weir_ask){ limits[j], &key, sizeof key, 1 };
        answers += weir_check(weir, limits[i % 6], &key, sizeof key, i % 23, now, &decision) == 0;
        answers += weir_peek(weir, limits[i % 6], &key, sizeof key, 1, now, &decision) == 0;
        if (i % 8 == 0)
            answers += weir_admit(weir, asks, 6, now, each, &decision) == 0;
        if (i % 8 == 1)
            answers += weir_check_batch(weir, asks, 6, now, each) == 0;
        if (i % 1000 == 0)
            weir_sweep(weir, now, 4);
    }
    return answers;
}

static void deciding_calls_no_allocator(void **state)
{
    (void)state;
    assert_int_equal(open_weir(), 0);
    unsigned long before = allocator_calls;
    unsigned long answers = decide();
    assert_int_equal(allocator_calls, before);
    assert_int_equal(answers, 45000);
    struct weir_stats stats;
    weir_stats(weir, 40 * S, &stats);
    assert_true(stats.placements > 0 && stats.reclaims > 0 && stats.overflows > 0);
    weir_free(weir);
    if (!COUNTS_CALLS)
        skip(); /* a sanitizer has the allocator */
    assert_true(allocator_calls > before);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--decide") == 0) {
        if (open_weir() != 0)
            return 1;
        (void)getppid();
        unsigned long answers = decide();
        (void)getppid();
        weir_free(weir);
        return answers == 45000 ? 0 : 1;
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test(deciding_calls_no_allocator) };
    return cmocka_run_group_tests_name("quiet/decisions", tests, NULL, NULL);
}
