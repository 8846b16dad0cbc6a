// SPDX-License-Identifier: Apache-2.0
/*
 * Permits under random schedules of every touch of shared memory: never more than at_most are held, at no instant, and what is
 * given back is there again (P28). The mutants beside this file must be caught by the same runs.
 */
#include "threads/permits.h"

#define RUNS 20000

static void P28_no_schedule_gives_too_many(void **state)
{
    (void)state;
    uint64_t seed = random_seed(1);
    permit_open();
    unsigned at = permit_violation(RUNS, seed);
    if (at != RUNS)
        fail_msg("seed %llu: %s", (unsigned long long)(seed + at), permits.violation);
    permit_close();
    print_message("%llu allowed, %llu denied, %llu full\n", (unsigned long long)permits.allowed,
                  (unsigned long long)permits.denied, (unsigned long long)permits.full);
    assert_true(permits.allowed > RUNS && permits.denied > RUNS && permits.full > RUNS / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(P28_no_schedule_gives_too_many) };
    return cmocka_run_group_tests_name("threads/scheduled_permit", tests, NULL, NULL);
}
