// SPDX-License-Identifier: Apache-2.0
/*
 * test_clock.c - how long the machine was suspended is no clock: it stands still while the machine runs.
 */
#include "base/clock.h"
#include "support/unit.h"

#include <time.h>

static void time_asleep_stands_still_while_the_machine_runs(void **state)
{
    (void)state;
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t asleep = clock_asleep();
        least = asleep < least ? asleep : least;
        most = asleep > most ? asleep : most;
    }
    /* Readings of two clocks cannot be of one instant; the thread may be stopped between them, and is rarely so eight times. */
    assert_true(most - least < 50000000);
}

static void it_is_what_the_other_clock_leaves_out(void **state)
{
    (void)state;
#ifdef CLOCK_BOOTTIME
    struct timespec boot;
    uint64_t before = clock_monotonic() + clock_asleep();
    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &boot), 0);
    uint64_t behind = clock_monotonic() + clock_asleep();
    uint64_t at = (uint64_t)boot.tv_sec * 1000000000 + (uint64_t)boot.tv_nsec;
    assert_true(at + 50000000 >= before && at <= behind + 50000000);
#else
    assert_int_equal(clock_asleep(), 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_asleep_stands_still_while_the_machine_runs),
        cmocka_unit_test(it_is_what_the_other_clock_leaves_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
