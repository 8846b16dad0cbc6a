// SPDX-License-Identifier: Apache-2.0
/*
 * A mistake: a cell is forgotten the moment it is whole, and late callers start whole in the past.
 * The schedules of test_threads_scheduled.c must notice.
 */
#define STORE_HAS_GRACE 0
#define STORE_HAS_FLOOR 0

#include "threads/schedule.h"

static void is_caught(void **state)
{
    (void)state;
    expect_caught("reclaiming without grace or floor", 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(is_caught) };
    return cmocka_run_group_tests_name("threads/mutant_grace", tests, NULL, NULL);
}
