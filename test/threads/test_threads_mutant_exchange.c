// SPDX-License-Identifier: Apache-2.0
/*
 * A mistake: the exchange is a comparison and, a moment later, a store.
 * The schedules of test_threads_scheduled.c must notice.
 */
#define CELL_EXCHANGE_MUTANT
#define CELL_EXCHANGE(cell, seen, next) exchange_by_load_and_store(cell, &(seen), &(next))
#include <stdbool.h>
struct cell;
static bool exchange_by_load_and_store(struct cell *cell, const struct cell *seen, const struct cell *next);

#include "threads/schedule.h"

static void is_caught(void **state)
{
    (void)state;
    expect_caught("load, then store", 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(is_caught) };
    return cmocka_run_group_tests_name("threads/mutant_exchange", tests, NULL, NULL);
}
