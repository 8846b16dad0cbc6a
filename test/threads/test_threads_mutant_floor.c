// SPDX-License-Identifier: Apache-2.0
/*
 * A mistake: grace alone, and callers whose stamps are older than that.
 * The schedules of test_threads_scheduled.c must notice.
 */
#define STORE_HAS_FLOOR 0

#include "threads/schedule.h"

static void is_caught(void **state)
{
    (void)state;
    expect_caught("reclaiming with grace but without floor_ns", 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(is_caught) };
    return cmocka_run_group_tests_name("threads/mutant_floor", tests, NULL, NULL);
}
