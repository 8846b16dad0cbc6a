// SPDX-License-Identifier: Apache-2.0
/* test_alarm.c - an alarm rings once, never before its instant by the clock, and not at all when it is off. */
#include "support/unit.h"

#include "io/alarm.h"
#include "weir.h"

struct bell {
    struct alarm alarm;
    unsigned rings;
    weir_ns rang_at;
};

static void on_ring(struct alarm *alarm)
{
    struct bell *bell = (struct bell *)alarm;
    bell->rang_at = weir_now();
    bell->rings++;
}

static void run_until(uv_loop_t *loop, const struct bell *bell, unsigned rings)
{
    while (bell->rings < rings)
        (void)uv_run(loop, UV_RUN_ONCE);
}

static void it_rings_when_the_instant_has_come(void **state)
{
    uv_loop_t loop;
    struct bell bell = { .rings = 0 };
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(alarm_open(&bell.alarm, &loop, on_ring), 0);

    weir_ns at = weir_now() + 3 * WEIR_MILLISECOND + 7;
    alarm_set(&bell.alarm, at);
    run_until(&loop, &bell, 1);
    assert_true(bell.rang_at >= at);

    static const struct {
        const char *why;
        weir_ns at;
    } past[] = { { "the beginning of time", 0 }, { "a nanosecond later", 1 }, { "the same again", 1 } };
    for (size_t i = 0; i < COUNT_OF(past); i++) {
        alarm_set(&bell.alarm, past[i].at);
        run_until(&loop, &bell, 2 + (unsigned)i);
        expect_row(bell.rings == 2 + i, past[i].why);
    }

    /* An hour is replaced by less, and that by never: nothing is left to ring. */
    alarm_set(&bell.alarm, weir_now() + 3600 * WEIR_SECOND);
    alarm_set(&bell.alarm, weir_now() + WEIR_MILLISECOND);
    run_until(&loop, &bell, 5);
    alarm_set(&bell.alarm, weir_now() + WEIR_MILLISECOND);
    alarm_set(&bell.alarm, ALARM_OFF);
    at = weir_now() + 5 * WEIR_MILLISECOND;
    while (weir_now() < at)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(bell.rings, 5);

    alarm_close(&bell.alarm);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(it_rings_when_the_instant_has_come) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
