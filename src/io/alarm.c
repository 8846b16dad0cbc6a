// SPDX-License-Identifier: Apache-2.0
/* alarm.c - a timerfd; see alarm.h. */
#include "io/alarm.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct alarm *alarm = poll->data;
    uint64_t rings;
    (void)status; /* a timer has no errors */
    (void)events;
    if (read(alarm->fd, &rings, sizeof rings) != sizeof rings)
        return; /* it was set to another instant meanwhile */
    alarm->at = ALARM_OFF;
    alarm->ring(alarm);
}

int alarm_open(struct alarm *alarm, uv_loop_t *loop, void (*ring)(struct alarm *alarm))
{
    alarm->at = ALARM_OFF;
    alarm->ring = ring;
    alarm->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (alarm->fd < 0)
        return uv_translate_sys_error(errno);
    int result = uv_poll_init(loop, &alarm->poll, alarm->fd);
    if (result == 0) {
        alarm->poll.data = alarm;
        result = uv_poll_start(&alarm->poll, UV_READABLE, on_poll);
    }
    if (result != 0)
        (void)close(alarm->fd);
    return result;
}

void alarm_set(struct alarm *alarm, uint64_t at)
{
    if (at == alarm->at)
        return;
    alarm->at = at;
    uint64_t instant = at == ALARM_OFF ? 0 : at == 0 ? 1 : at; /* 0 would switch it off */
    struct itimerspec spec = { .it_value = { (time_t)(instant / SECOND), (long)(instant % SECOND) } };
    (void)timerfd_settime(alarm->fd, TFD_TIMER_ABSTIME, &spec, NULL); /* its arguments are good */
}

static void on_closed(uv_handle_t *handle)
{
    const struct alarm *alarm = handle->data;
    (void)close(alarm->fd); /* nothing was written */
}

void alarm_close(struct alarm *alarm)
{
    uv_close((uv_handle_t *)&alarm->poll, on_closed);
}
