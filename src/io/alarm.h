// SPDX-License-Identifier: Apache-2.0
/*
 * alarm.h - an instant of the monotonic clock as an event of a loop, to the nanosecond.
 *
 * libuv's timers count whole milliseconds of a reading that may be old; this one is a descriptor of the kernel's own
 * timer, which the loop polls. It is never early by the kernel's clock, and how late it is the scheduler decides; who
 * must not be early by a reading of his own looks at the clock again.
 */
#ifndef WEIR_IO_ALARM_H
#define WEIR_IO_ALARM_H

#include <stdint.h>
#include <uv.h>

/* Never. */
#define ALARM_OFF UINT64_MAX

struct alarm {
    uv_poll_t poll;
    int fd;
    uint64_t at; /* ns of CLOCK_MONOTONIC at which it rings */
    void (*ring)(struct alarm *alarm);
};

/* Off at first. Returns 0 or a libuv error, after which nothing is to be closed. */
int alarm_open(struct alarm *alarm, uv_loop_t *loop, void (*ring)(struct alarm *alarm));

/* Ring once when the clock has reached `at`, at once where it has passed; ALARM_OFF: not at all. Replaces what was set. */
void alarm_set(struct alarm *alarm, uint64_t at);

/* Its memory is the owner's again when the loop has run once more. */
void alarm_close(struct alarm *alarm);

#endif
