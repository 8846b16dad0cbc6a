// SPDX-License-Identifier: Apache-2.0
/*
 * shifted_clock.c - preloaded into a store or a server under test: its wall clock is the machine's plus the nanoseconds that
 * the first eight bytes of the file SHIFTED_CLOCK hold. The monotonic clock is left alone, as a step leaves it.
 *
 * The file is mapped, so that a reading costs no system call more, and a test steps the clock by one store. libfaketime is
 * of no use here: it and the jemalloc of redis-server wait for each other at the start.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000

/* Mapped before main(): a program may read its clock from an allocator that is just being set up. */
static const volatile int64_t *shift;

__attribute__((constructor)) static void map_shift(void)
{
    const char *path = getenv("SHIFTED_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *page = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    if (file < 0 || page == MAP_FAILED)
        abort();
    (void)close(file);
    shift = page;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (result == 0 && shift != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t nsec = out->tv_nsec + *shift % SECOND;
        out->tv_sec += *shift / SECOND + (nsec >= SECOND) - (nsec < 0);
        out->tv_nsec = (nsec + SECOND) % SECOND;
    }
    return result;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = (suseconds_t)(now.tv_nsec / 1000);
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}
