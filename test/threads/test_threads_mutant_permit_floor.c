// SPDX-License-Identifier: Apache-2.0
/*
 * A mistake: a late stamp on a key that was forgotten is decided as it is.
 * The schedules of test_threads_scheduled_permit.c must notice.
 */
#define STORE_HAS_FLOOR 0

#include "threads/permits.h"

static void is_caught(void **state)
{
    (void)state;
    expect_permits_caught("no floor for keys that were forgotten", 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(is_caught) };
    return cmocka_run_group_tests_name("threads/mutant_permit_floor", tests, NULL, NULL);
}
