// SPDX-License-Identifier: Apache-2.0
/*
 * A mistake: an insertion is promoted without looking for another cell of its key.
 * The schedules of test_threads_scheduled.c must notice.
 */
#define STORE_VERIFIES 0

#include "threads/schedule.h"

static void is_caught(void **state)
{
    (void)state;
    expect_caught("promotion without the verifying look", 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(is_caught) };
    return cmocka_run_group_tests_name("threads/mutant_verify", tests, NULL, NULL);
}
