// SPDX-License-Identifier: Apache-2.0
/*
 * stepped_clock.c - preloaded into a server under test: its wall clock is the machine's plus the number of seconds
 * that the file STEPPED_CLOCK holds, read anew each time. The monotonic clock is left alone, as a step leaves it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long step(void)
{
    const char *path = getenv("STEPPED_CLOCK");
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    long seconds = 0;
    if (file != NULL) {
        if (fscanf(file, "%ld", &seconds) != 1)
            seconds = 0;
        (void)fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (result == 0 && clock == CLOCK_REALTIME)
        out->tv_sec += step();
    return result;
}

time_t time(time_t *out)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}
