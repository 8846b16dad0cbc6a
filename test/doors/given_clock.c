// SPDX-License-Identifier: Apache-2.0
/*
 * given_clock.c - preloaded into another program under test: all its clocks show the nanoseconds that the file
 * GIVEN_CLOCK holds in its first eight bytes. The file is mapped, so that a test sets the time by one store.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static uint64_t now(void)
{
    static const volatile uint64_t *clock;
    if (clock == NULL) {
        int file = open(getenv("GIVEN_CLOCK"), O_RDONLY | O_CLOEXEC);
        void *page = mmap(NULL, sizeof *clock, PROT_READ, MAP_SHARED, file, 0);
        if (file < 0 || page == MAP_FAILED)
            abort();
        clock = page;
    }
    return *clock;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    (void)clock;
    out->tv_sec = (time_t)(now() / 1000000000u);
    out->tv_nsec = (long)(now() % 1000000000u);
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    (void)zone;
    out->tv_sec = (time_t)(now() / 1000000000u);
    out->tv_usec = (suseconds_t)(now() % 1000000000u / 1000u);
    return 0;
}

time_t time(time_t *out)
{
    time_t seconds = (time_t)(now() / 1000000000u);
    if (out != NULL)
        *out = seconds;
    return seconds;
}
