// SPDX-License-Identifier: Apache-2.0
/*
 * test_sim_lease_mutants.c - the store's scripts with one mistake each: the simulator must find it within so many runs.
 *
 * A mistake is a change of a script's text (lua_store.h) that must be found there once; texts are embedded without indentation. Those of replicas are programs of their own
 * (mutate.py).
 *
 * LABELS: slow
 */
#include "fleet/sim_runs.h"
#include "support/unit.h"

/* Found within so many, or the simulator does not look there. */
#define MUTANT_RUNS 6000

static const struct mutant {
    const char *why;
    struct lua_mutant changes[3];
} mutants[] = {
    /* clang-format off */
    { "what silent runs held goes back into the pool",
      { { "if h.totals.count > 0 and h.totals.soonest <= now then\ncollect(h, now)\n",
          "if h.totals.count > 0 and h.totals.soonest <= now then\nlocal lost = h.totals.lost\ncollect(h, now)\n"
          "it.used = max(0, it.used - (h.totals.lost - lost))\n" } } },
    { "the store forgets before the worker does",
      { { "local expiry = now + ttl + grace", "local expiry = now + floor(ttl / 2)" } } },
    { "the store starts full after a loss",
      { { "it.began = min(it.began, us)", "it.began = nil" } } },
    { "and does not wait for the portions of before",
      { { "ceil((it.began + it.pause) / it.unit)", "ceil(it.began / it.unit)" },
        { "if it.began and us < it.began + it.pause and (it.damaged or not it.is_there) then", "if false then" } } },
    { "a bucket refills up to the burst, not to the burst less what is out",
      { { "used, rem = drain(used, rem, clock - last, n, p, it.out)", "used, rem = drain(used, rem, clock - last, n, p, 0)" } } },
    { "a report is not bounded by what the record holds",
      { { "local spent = min(used, record.left)", "local spent = used" } } },
    { "a return is not bounded by what the record holds",
      { { "local returned = min(give, record.left - spent)", "local returned = give" } } },
    { "a message that comes behind a later one is done",
      { { "local is_done = record and seq <= record.seq", "local is_done = record and seq == record.seq" } } },
    { "a repeated message is done again",
      { { "local is_done = record and seq <= record.seq", "local is_done = record and seq < record.seq" } } },
    { "a record for each worker's name, replaced when another run speaks",
      { { "local run, label = string.sub(id, 1, 16), string.sub(id, 17)",
          "local run, label = string.sub(id, 17, 32), string.sub(id, 1, 16)" },
        { "h.damaged = not h.totals or seen[2] and not h.record\n",
          "h.damaged = not h.totals or seen[2] and not h.record\n"
          "if h.record and h.totals and string.sub(seen[2], RECORD_LEN + 1) ~= label then\n"
          "h.totals.lost = h.totals.lost + left_of(h.totals, h.record)\n"
          "h.record.left, h.record.seq = 0, 0\n"
          "end\n" } } },
    { "more may be out than `most`",
      { { "chunk - record.left, most - it.out, rest", "chunk - record.left, rest" } } },
    { "what is out is not counted as used",
      { { "it.out, it.used = it.out + granted, it.used + granted", "it.out = it.out + granted" } } },
    /* clang-format on */
};

/* The one mistake of a replica that is none of its code: nobody tells it. */
static void test_a_clock_that_misses_sleep_is_found(void **state)
{
    (void)state;
    char violation[SIM_VIOLATION_MAX];
    struct lua_store *store = lua_store_new(NULL, 0);
    uint64_t seed = sim_find(store, MUTANT_RUNS, true, violation);
    printf("%-72s run %4llu: %s\n", "a machine that sleeps keeps its portions", (unsigned long long)seed,
           violation);
    assert_int_not_equal(seed, 0);
    lua_store_free(store);
}

static void test_mistakes_of_the_store_are_found(void **state)
{
    (void)state;
    size_t missed = 0;
    for (size_t i = 0; i < COUNT_OF(mutants); i++) {
        const struct mutant *mutant = &mutants[i];
        char violation[SIM_VIOLATION_MAX];
        size_t changes = 0;
        while (changes < COUNT_OF(mutant->changes) && mutant->changes[changes].find != NULL)
            changes++;
        struct lua_store *store = lua_store_new(mutant->changes, changes);
        uint64_t seed = sim_find(store, MUTANT_RUNS, false, violation);
        lua_store_check_mutants(store);
        printf("%-72s run %4llu: %s\n", mutant->why, (unsigned long long)seed, violation);
        missed += seed == 0;
        lua_store_free(store);
    }
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes_of_the_store_are_found),
        cmocka_unit_test(test_a_clock_that_misses_sleep_is_found),
    };
    return cmocka_run_group_tests_name("sim lease mutants", tests, NULL, NULL);
}
