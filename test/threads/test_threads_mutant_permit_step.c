// SPDX-License-Identifier: Apache-2.0
/*
 * A mistake: whether there is room is seen under the record's lock, and taken under it once more (B25).
 * The schedules of test_threads_scheduled_permit.c must notice.
 */
#define PERMIT_TAKES_AT_ONCE 0

#include "threads/permits.h"

static void is_caught(void **state)
{
    (void)state;
    expect_permits_caught("looking and taking under separate locks", 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(is_caught) };
    return cmocka_run_group_tests_name("threads/mutant_permit_step", tests, NULL, NULL);
}
