// SPDX-License-Identifier: Apache-2.0
/*
 * test_outage.c - the breaker, step by step, and what is told of it; then many threads at once.
 *
 * LABELS: threads
 */
#include <pthread.h>
#include <stdatomic.h>

#include "fleet/outage.h"
#include "support/random.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define AT(ms) ((weir_ns)(1000 + (ms)) * MS)

/* ---- Tables --------------------------------------------------------------------------------------------------------- */

enum deed { FAILED, REFUSED, HEARD, ALIVE, ASKED, PROBED, PROBE_OK, PROBE_LOST };

struct step {
    const char *why;
    weir_ns at;
    enum deed deed;
    enum outage_verdict verdict; /* of ASKED and PROBED */
    weir_ns began_at;            /* of the outage behind the step; WEIR_NO_TIME: none */
    uint64_t number;             /* not read where there is none */
};

static void do_step(struct outage *outage, const struct step *step)
{
    struct weir_outage told = { WEIR_NO_TIME, 0 };
    switch (step->deed) {
    case FAILED:
        told = outage_failed(outage, step->at);
        expect_row(told.began_at == step->began_at && told.number == step->number, step->why);
        break;
    case REFUSED:
        told = outage_refused(outage, step->at);
        expect_row(told.began_at == step->began_at && told.number == step->number, step->why);
        break;
    case HEARD:
        outage_heard(outage, step->at);
        break;
    case ALIVE:
        outage_alive(outage, step->at);
        break;
    case ASKED:
        expect_row(outage_ask(outage, step->at, &told) == step->verdict, step->why);
        expect_row(step->verdict != OUTAGE_AVOID || told.number == step->number, step->why);
        break;
    case PROBED:
        expect_row(outage_probe(outage, step->at, 5 * MS) == step->verdict, step->why);
        break;
    case PROBE_OK:
    case PROBE_LOST:
        outage_probed(outage, step->at, step->deed == PROBE_OK);
        break;
    }
    told = outage_now(outage);
    expect_row(told.began_at == step->began_at, step->why);
    expect_row(told.began_at == WEIR_NO_TIME || told.number == step->number, step->why);
}

static void run(const struct step *steps, size_t count)
{
    struct outages *outages;
    assert_int_equal(outages_new(&outages, 1), 0);
    struct outage *outage = outage_of(outages, "127.0.0.1:6379");
    for (size_t i = 0; i < count; i++)
        do_step(outage, &steps[i]);
    outages_free(outages);
}

static void a_dead_store_is_avoided_and_probed(void **state)
{
    (void)state;
    static const struct step steps[] = {
        { "all is well", AT(0), ASKED, OUTAGE_ASK, WEIR_NO_TIME, 0 },
        { "nothing to probe", AT(0), PROBED, OUTAGE_ASK, WEIR_NO_TIME, 0 },
        { "the first failure is the beginning", AT(10), FAILED, 0, AT(10), 1 },
        { "one is not enough", AT(10), ASKED, OUTAGE_ASK, AT(10), 1 },
        { "2", AT(11), FAILED, 0, AT(10), 1 },
        { "3", AT(12), FAILED, 0, AT(10), 1 },
        { "4", AT(13), FAILED, 0, AT(10), 1 },
        { "not yet", AT(13), ASKED, OUTAGE_ASK, AT(10), 1 },
        { "5: open", AT(14), FAILED, 0, AT(10), 1 },
        { "avoided", AT(14), ASKED, OUTAGE_AVOID, AT(10), 1 },
        { "half a cool-down at least", AT(14 + 50) - 1, PROBED, OUTAGE_AVOID, AT(10), 1 },
        { "stragglers change nothing", AT(15), FAILED, 0, AT(10), 1 },
        { "a whole one is enough", AT(14 + 100), PROBED, OUTAGE_PROBE, AT(10), 1 },
        { "one at a time", AT(14 + 100), PROBED, OUTAGE_AVOID, AT(10), 1 },
        { "nobody else asks meanwhile", AT(14 + 102), ASKED, OUTAGE_AVOID, AT(10), 1 },
        { "a straggler is not the probe", AT(14 + 103), FAILED, 0, AT(10), 1 },
        { "still one at a time", AT(14 + 104), PROBED, OUTAGE_AVOID, AT(10), 1 },
        { "it fails", AT(14 + 104), PROBE_LOST, 0, AT(10), 1 },
        { "twice as long now", AT(118 + 100) - 1, PROBED, OUTAGE_AVOID, AT(10), 1 },
        { "and no longer", AT(118 + 200), PROBED, OUTAGE_PROBE, AT(10), 1 },
        { "not told of: it has failed", AT(318 + 5) - 1, PROBED, OUTAGE_AVOID, AT(10), 1 },
        { "four times as long", AT(323 + 200) - 1, PROBED, OUTAGE_AVOID, AT(10), 1 },
        { "from when its time was over", AT(323 + 400), PROBED, OUTAGE_PROBE, AT(10), 1 },
        { "it comes through", AT(724), PROBE_OK, 0, WEIR_NO_TIME, 0 },
        { "asked again", AT(724), ASKED, OUTAGE_ASK, WEIR_NO_TIME, 0 },
        { "the next one is another outage", AT(800), FAILED, 0, AT(800), 2 },
        { "and the count begins anew", AT(800), ASKED, OUTAGE_ASK, AT(800), 2 },
    };
    run(steps, COUNT_OF(steps));
}

static void an_outage_is_not_prolonged(void **state)
{
    (void)state;
    struct outages *outages;
    assert_int_equal(outages_new(&outages, 1), 0);
    struct outage *outage = outage_of(outages, "x");
    for (uint64_t ms = 0; ms < 60000; ms += 7)
        assert_int_equal((ms % 2 == 0 ? outage_failed : outage_refused)(outage, AT(ms)).began_at, AT(0));
    outage_heard(outage, AT(60001)); /* any success resets */
    assert_int_equal(outage_failed(outage, AT(60002)).began_at, AT(60002));
    outages_free(outages);
}

static void why_is_the_stores_own_words(void **state)
{
    (void)state;
    char why[OUTAGE_WHY_MAX], longest[OUTAGE_WHY_MAX + 50];
    struct outages *outages;
    struct outage_view view;
    assert_int_equal(outages_new(&outages, 1), 0);
    struct outage *outage = outage_of(outages, "x");
    (void)outage_refused(outage, AT(0));
    outage_why(outage, why);
    assert_string_equal(why, ""); /* nothing was said */
    outage_say(outage, SLICE("OOM not \"now\"\n\x1b"));
    outage_why(outage, why);
    assert_string_equal(why, "OOM not 'now'''"); /* nothing that disturbs a log */
    outages_view(outages, 0, &view);
    assert_string_equal(view.why, why);
    outage_say(outage, SLICE("LOADING"));
    outage_why(outage, why);
    assert_string_equal(why, "LOADING"); /* the latest */
    memset(longest, 'x', sizeof longest);
    outage_say(outage, (struct slice){ longest, sizeof longest });
    outage_why(outage, why);
    assert_true(strlen(why) > 0 && strlen(why) < OUTAGE_WHY_MAX);
    outage_heard(outage, AT(1));
    outage_why(outage, why);
    assert_string_equal(why, ""); /* it is over */
    (void)outage_failed(outage, AT(2));
    outage_why(outage, why);
    assert_string_equal(why, ""); /* and of the next one nothing is known */
    outages_free(outages);
}

static void a_store_that_speaks_is_asked_on(void **state)
{
    (void)state;
    static const struct step steps[] = {
        { "it cannot serve: an outage", AT(0), REFUSED, 0, AT(0), 1 },
        { "2", AT(1), REFUSED, 0, AT(0), 1 },
        { "3", AT(2), REFUSED, 0, AT(0), 1 },
        { "4", AT(3), REFUSED, 0, AT(0), 1 },
        { "5", AT(4), REFUSED, 0, AT(0), 1 },
        { "6", AT(5), REFUSED, 0, AT(0), 1 },
        { "but the breaker stays closed", AT(6), ASKED, OUTAGE_ASK, AT(0), 1 },
        { "without requests a probe would end it", AT(100), PROBED, OUTAGE_PROBE, AT(0), 1 },
        { "and does", AT(101), PROBE_OK, 0, WEIR_NO_TIME, 0 },
    };
    run(steps, COUNT_OF(steps));
}

static void too_late_is_alive_and_no_answer(void **state)
{
    (void)state;
    static const struct step steps[] = {
        { "1", AT(0), FAILED, 0, AT(0), 1 },
        { "2", AT(0), FAILED, 0, AT(0), 1 },
        { "3", AT(0), FAILED, 0, AT(0), 1 },
        { "4", AT(0), FAILED, 0, AT(0), 1 },
        { "a late reply resets nothing", AT(1), ALIVE, 0, AT(0), 1 },
        { "5: open", AT(2), FAILED, 0, AT(0), 1 },
        { "avoided", AT(3), ASKED, OUTAGE_AVOID, AT(0), 1 },
        { "first probe", AT(102), PROBED, OUTAGE_PROBE, AT(0), 1 },
        { "fails", AT(107), PROBE_LOST, 0, AT(0), 1 },
        { "second", AT(307), PROBED, OUTAGE_PROBE, AT(0), 1 },
        { "fails", AT(312), PROBE_LOST, 0, AT(0), 1 },
        { "third, 400 ms later", AT(712), PROBED, OUTAGE_PROBE, AT(0), 1 },
        { "fails: 800 ms", AT(717), PROBE_LOST, 0, AT(0), 1 },
        { "it says something", AT(720), ALIVE, 0, AT(0), 1 },
        { "not at once, or a slow store would be probed in a circle", AT(816), PROBED, OUTAGE_AVOID, AT(0), 1 },
        { "but a first cool-down after the last one", AT(817), PROBED, OUTAGE_PROBE, AT(0), 1 },
        { "and that closes it", AT(818), PROBE_OK, 0, WEIR_NO_TIME, 0 },
    };
    run(steps, COUNT_OF(steps));
}

static void an_answer_closes_while_the_probe_is_under_way(void **state)
{
    (void)state;
    static const struct step steps[] = {
        { "1", AT(0), FAILED, 0, AT(0), 1 },
        { "2", AT(0), FAILED, 0, AT(0), 1 },
        { "3", AT(0), FAILED, 0, AT(0), 1 },
        { "4", AT(0), FAILED, 0, AT(0), 1 },
        { "5", AT(0), FAILED, 0, AT(0), 1 },
        { "probe", AT(100), PROBED, OUTAGE_PROBE, AT(0), 1 },
        { "somebody's answer", AT(101), HEARD, 0, WEIR_NO_TIME, 0 },
        { "closed", AT(101), ASKED, OUTAGE_ASK, WEIR_NO_TIME, 0 },
        { "another outage", AT(101), FAILED, 0, AT(101), 2 },
        { "2", AT(101), FAILED, 0, AT(101), 2 },
        { "3", AT(101), FAILED, 0, AT(101), 2 },
        { "4", AT(101), FAILED, 0, AT(101), 2 },
        { "5", AT(101), FAILED, 0, AT(101), 2 },
        { "the first probe is still under way", AT(102), PROBED, OUTAGE_AVOID, AT(101), 2 },
    };
    run(steps, COUNT_OF(steps));
}

static void the_cool_down_has_a_cap(void **state)
{
    (void)state;
    struct outages *outages;
    assert_int_equal(outages_new(&outages, 1), 0);
    struct outage *outage = outage_of(outages, "x");
    weir_ns now = AT(0), shortest = WEIR_NO_TIME, longest = 0;
    for (int i = 0; i < 5; i++)
        (void)outage_failed(outage, now);
    for (int i = 0; i < 200; i++) {
        weir_ns at = outage_probe_at(outage);
        assert_true(at > now && at - now <= OUTAGE_COOL_MAX_NS);
        if (i > 10) {
            shortest = at - now < shortest ? at - now : shortest;
            longest = at - now > longest ? at - now : longest;
        }
        now = at;
        assert_int_equal(outage_probe(outage, now, 5 * MS), OUTAGE_PROBE);
        outage_probed(outage, now, false);
    }
    assert_true(shortest >= OUTAGE_COOL_MAX_NS / 2 && shortest < OUTAGE_COOL_MAX_NS * 6 / 10); /* jittered */
    assert_true(longest > OUTAGE_COOL_MAX_NS * 9 / 10);
    outages_free(outages);
}

/* ---- The registry and the log ------------------------------------------------------------------------------------------ */

static void nodes_are_found_by_address_and_bounded(void **state)
{
    (void)state;
    struct outages *outages;
    char name[300];
    assert_int_equal(outages_new(&outages, 1), 0);
    assert_int_equal(outages_count(outages), 0);
    struct outage *first = outage_of(outages, "a:1");
    assert_ptr_not_equal(outage_of(outages, "a:2"), first);
    assert_ptr_equal(outage_of(outages, "a:1"), first);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_ptr_equal(outage_of(outages, name), outage_of(outages, name));
    struct outage *last = NULL;
    for (int i = 0; i < OUTAGES_MAX + 10; i++) {
        (void)snprintf(name, sizeof name, "b:%d", i);
        last = outage_of(outages, name);
        assert_non_null(last);
    }
    assert_int_equal(outages_count(outages), OUTAGES_MAX);
    assert_ptr_equal(outage_of(outages, "one more"), last);
    (void)outage_failed(first, AT(3));
    struct outage_view view;
    outages_view(outages, 0, &view);
    assert_string_equal(view.address, "a:1");
    assert_true(view.state == OUTAGE_CLOSED && view.failures == 1 && view.outage.began_at == AT(3));
    outages_free(outages);
}

/* Of two workers one has the newer map: the other asks there still, and its outage goes on as the same. */
static void the_last_one_who_leaves_ends_the_outage(void **state)
{
    (void)state;
    struct outages *outages;
    assert_int_equal(outages_new(&outages, 1), 0);
    struct outage *gone = outage_of(outages, "a:1");
    assert_ptr_equal(outage_of(outages, "a:1"), gone);
    const struct weir_outage began = outage_failed(gone, AT(1));
    outage_left(gone);
    assert_int_equal(outage_failed(gone, AT(2)).number, began.number);
    assert_true(outage_now(gone).began_at == AT(1));
    outage_left(gone);
    assert_true(outage_now(gone).began_at == WEIR_NO_TIME);
    outages_free(outages);
}

static void a_node_that_left_is_not_shown(void **state)
{
    (void)state;
    struct outages *outages;
    struct outage_view view;
    assert_int_equal(outages_new(&outages, 1), 0);
    struct outage *gone = outage_of(outages, "a:1");
    assert_ptr_equal(outage_of(outages, "a:1"), gone); /* another worker's */
    (void)outage_of(outages, "a:2");
    outage_left(gone);
    assert_int_equal(outages_count(outages), 2); /* one has it still */
    outage_left(gone);
    assert_int_equal(outages_count(outages), 1);
    outages_view(outages, 0, &view);
    assert_string_equal(view.address, "a:2");
    (void)outage_failed(gone, AT(0)); /* a command that was on its way: still valid, and not shown */
    assert_int_equal(outages_count(outages), 1);
    outages_view(outages, 1, &view); /* who counted before it left */
    assert_string_equal(view.address, "a:1");
    outage_left(gone); /* once too often */
    assert_int_equal(outages_count(outages), 1);
    assert_ptr_equal(outage_of(outages, "a:1"), gone); /* it is back */
    assert_int_equal(outages_count(outages), 2);
    outages_view(outages, 0, &view);
    assert_string_equal(view.address, "a:1");
    outages_free(outages);
}

static void beginnings_and_ends_are_told_once(void **state)
{
    (void)state;
    struct outages *outages;
    struct outage_told told;
    assert_int_equal(outages_new(&outages, 1), 0);
    struct outage *outage = outage_of(outages, "a:1");
    assert_int_equal(outage_news(outage, AT(0), &told), OUTAGE_NO_NEWS);
    (void)outage_failed(outage, AT(1));
    assert_int_equal(outage_news(outage, AT(1), &told), OUTAGE_BEGAN);
    assert_string_equal(told.address, "a:1");
    for (int i = 2; i < 100; i++) {
        (void)outage_failed(outage, AT(i));
        assert_int_equal(outage_news(outage, AT(i), &told), OUTAGE_NO_NEWS);
    }
    outage_heard(outage, AT(101));
    assert_int_equal(outage_news(outage, AT(101), &told), OUTAGE_ENDED);
    assert_int_equal(told.away, 100 * MS);
    assert_int_equal(outage_news(outage, AT(101), &told), OUTAGE_NO_NEWS);
    /* It comes and goes: nothing is told for a while, of the ends of what was not told neither. */
    for (int i = 200; i < 10000; i += 10) {
        (void)outage_failed(outage, AT(i));
        assert_int_equal(outage_news(outage, AT(i), &told), OUTAGE_NO_NEWS);
        outage_heard(outage, AT(i + 1));
        assert_int_equal(outage_news(outage, AT(i + 1), &told), OUTAGE_NO_NEWS);
    }
    (void)outage_failed(outage, AT(10000));
    assert_int_equal(outage_news(outage, AT(10000), &told), OUTAGE_NO_NEWS);
    (void)outage_failed(outage, AT(10101)); /* one that stays is told of, late */
    assert_int_equal(outage_news(outage, AT(10101), &told), OUTAGE_BEGAN);
    outages_free(outages);
}

/* ---- Threads -------------------------------------------------------------------------------------------------------------- */

#define THREADS 4
#define TURNS 20000

static struct outage *shared;
static _Atomic unsigned probing, clock_ms;
static _Atomic bool is_healthy, is_broken;

static void *work(void *context)
{
    struct random random = { (uint64_t)(uintptr_t)context };
    struct weir_outage told;
    for (int i = 0; i < TURNS; i++) {
        weir_ns now = AT(atomic_fetch_add(&clock_ms, 1));
        if (random_below(&random, 500) == 0)
            atomic_store(&is_healthy, random_below(&random, 2) == 0);
        if (outage_ask(shared, now, &told) == OUTAGE_ASK) {
            if (atomic_load(&is_healthy))
                outage_heard(shared, now);
            else
                (void)outage_failed(shared, now);
        }
        if (outage_probe(shared, now, WEIR_HOUR) == OUTAGE_PROBE) {
            if (atomic_fetch_add(&probing, 1) != 0)
                atomic_store(&is_broken, true);
            bool is_heard = atomic_load(&is_healthy);
            (void)atomic_fetch_sub(&probing, 1);
            outage_probed(shared, now, is_heard);
        }
    }
    return NULL;
}

static void P40_one_probe_at_a_time_among_threads(void **state)
{
    (void)state;
    struct outages *outages;
    pthread_t threads[THREADS];
    struct outage_view view;
    assert_int_equal(outages_new(&outages, 1), 0);
    shared = outage_of(outages, "x");
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)), 0);
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    assert_false(atomic_load(&is_broken));
    outages_view(outages, 0, &view);
    assert_true(view.probes > 10 && view.opened > 10);
    /* Healthy again: used again within the cool-down that is on. */
    weir_ns now = AT(clock_ms);
    if (view.outage.began_at != WEIR_NO_TIME) {
        assert_true(outage_probe_at(shared) <= now + OUTAGE_COOL_MAX_NS);
        assert_int_equal(outage_probe(shared, now + OUTAGE_COOL_MAX_NS, 5 * MS), OUTAGE_PROBE);
        outage_probed(shared, now + OUTAGE_COOL_MAX_NS, true);
    }
    struct weir_outage told;
    assert_int_equal(outage_ask(shared, now + OUTAGE_COOL_MAX_NS, &told), OUTAGE_ASK);
    outages_free(outages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_store_is_avoided_and_probed),
        cmocka_unit_test(an_outage_is_not_prolonged),
        cmocka_unit_test(why_is_the_stores_own_words),
        cmocka_unit_test(a_store_that_speaks_is_asked_on),
        cmocka_unit_test(too_late_is_alive_and_no_answer),
        cmocka_unit_test(an_answer_closes_while_the_probe_is_under_way),
        cmocka_unit_test(the_cool_down_has_a_cap),
        cmocka_unit_test(nodes_are_found_by_address_and_bounded),
        cmocka_unit_test(the_last_one_who_leaves_ends_the_outage),
        cmocka_unit_test(a_node_that_left_is_not_shown),
        cmocka_unit_test(beginnings_and_ends_are_told_once),
        cmocka_unit_test(P40_one_probe_at_a_time_among_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
