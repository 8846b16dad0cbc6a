// SPDX-License-Identifier: Apache-2.0
/*
 * test_fleet_threads.c - loops of one process at once: what they share is breakers, known denials, the journal and counters.
 *
 * Each thread has a carrier of its own that answers at once what a store might: allowed, denied, nothing, no connection.
 *
 * LABELS: threads
 */
#include <pthread.h>
#include <stdatomic.h>

#include "fleet/fleet.h"
#include "support/random.h"
#include "support/unit.h"

#define THREADS 4
#define TURNS 4000

static const char text[] = "weir: 1\nlimits:\n"
                           "  - { name: shared, key: [tenant], scope: fleet, when-store-fails: { local: 1/4 }, "
                           "rate: 1000/1s, burst: 900 }\n";

static struct weir_contract *contract;
static struct fleet_common *common;
static struct outage *outage;
static _Atomic uint64_t clock_us;
static _Atomic size_t answers, lines;

struct loop {
    struct carrier carrier;
    struct random random;
    struct fleet *fleet;
    struct carrier_call *held; /* nothing is heard of it */
};

static void answer(struct carrier *carrier, struct carrier_call *call)
{
    struct loop *loop = (struct loop *)carrier; /* its first member */
    call->outage = outage;
    switch (random_below(&loop->random, 8)) {
    case 0:
        call->done(call, CARRIER_REFUSED, (struct slice){ 0 });
        break;
    case 1:
        call->done(call, CARRIER_LOST, (struct slice){ 0 });
        break;
    case 2:
        loop->held = call;
        break;
    case 3:
        call->done(call, CARRIER_REPLY, SLICE("*5\r\n:1\r\n:0\r\n:900\r\n:5000\r\n:12345\r\n"));
        break;
    default:
        call->done(call, CARRIER_REPLY, SLICE("*5\r\n:16\r\n:7\r\n:0\r\n:5000\r\n:12345\r\n"));
    }
}

static void abandon(struct carrier *carrier, struct carrier_call *call)
{
    (void)carrier;
    (void)call;
}

static struct outage *the_outage(struct carrier *carrier, unsigned slot)
{
    (void)carrier;
    (void)slot;
    return outage;
}

static struct incarnation none(struct carrier *carrier, unsigned slot)
{
    (void)carrier;
    (void)slot;
    return (struct incarnation){ 0 };
}

static bool is_whole(const struct carrier *carrier)
{
    (void)carrier;
    return true;
}

static void log_line(void *context, const char *line)
{
    (void)context;
    (void)line;
    (void)atomic_fetch_add(&lines, 1);
}

static void done(struct fleet_decision *decision)
{
    unsigned *count = decision->owner;
    (*count)++;
    (void)atomic_fetch_add(&answers, 1);
}

static weir_ns tick(uint64_t by_us)
{
    return WEIR_SECOND + (atomic_fetch_add(&clock_us, by_us) + by_us) * WEIR_MICROSECOND;
}

static void ask(struct loop *loop, struct weir_shared *shared)
{
    char tenant[8];
    struct weir_shared_met met[1];
    unsigned answered = 0;
    struct fleet_decision decision = { .met = met, .done = done, .owner = &answered, .now = tick(500) };
    (void)snprintf(tenant, sizeof tenant, "t%u", (unsigned)random_below(&loop->random, 20));
    const struct weir_attribute attribute = { "tenant", tenant, 0 };
    const struct weir_request request = { .attributes = &attribute, .attribute_count = 1, .cost = 1 };
    assert_int_equal(weir_contract_shared(contract, &request, shared), 0);
    fleet_decide(loop->fleet, shared, &decision);
    while (answered == 0)
        fleet_tick(loop->fleet, tick(1000));
    assert_int_equal(answered, 1);
    if (random_below(&loop->random, 200) == 0)
        fleet_common_changed(common);
}

static void *run(void *context)
{
    struct loop *loop = context;
    struct weir_shared *shared = malloc(sizeof *shared);
    const struct fleet_options options = { .common = common,
                                           .carrier = &loop->carrier,
                                           .contract = contract,
                                           .deadline = 5 * WEIR_MILLISECOND,
                                           .has_seed = true,
                                           .log = log_line };
    assert_non_null(shared);
    assert_int_equal(fleet_new(&loop->fleet, &options), 0);
    for (int i = 0; i < TURNS; i++)
        ask(loop, shared);
    fleet_drain(loop->fleet, tick(1));
    fleet_free(loop->fleet);
    free(shared);
    return NULL;
}

static void loops_share_what_is_the_process_s(void **state)
{
    (void)state;
    static struct loop loops[THREADS];
    pthread_t threads[THREADS];
    const struct weir_contract_options options = { .fleet = WEIR_FLEET_SHARED,
                                                   .has_store = true,
                                                   .has_wall_offset = true };
    assert_int_equal(weir_contract_parse(&contract, text, strlen(text), "test", &options, NULL), 0);
    assert_int_equal(fleet_common_new(&common, 1), 0);
    outage = outage_of(fleet_common_outages(common), "node");
    for (size_t i = 0; i < THREADS; i++) {
        loops[i] = (struct loop){ .carrier = { answer, abandon, the_outage, none, is_whole, NULL },
                                  .random = { i + 1 } };
        assert_int_equal(pthread_create(&threads[i], NULL, run, &loops[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    struct fleet_counters counters;
    fleet_count(common, &counters);
    assert_int_equal(atomic_load(&answers), THREADS * TURNS);
    /* How much of each is a matter of chance; nothing is counted that was not sent. */
    assert_true(counters.commands > 0 && counters.late + counters.lost + counters.refused <= counters.commands);
    assert_true(atomic_load(&lines) < 200);
    fleet_common_free(common);
    weir_contract_free(contract);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_share_what_is_the_process_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
