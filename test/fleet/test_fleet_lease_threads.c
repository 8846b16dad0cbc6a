// SPDX-License-Identifier: Apache-2.0
/*
 * test_fleet_lease_threads.c - loops of one process that spend from one hand, and whose messages are collected by stripes.
 *
 * Each thread has a carrier of its own. Strict commands are refused whatever they ask, so what passes came out of the hand; messages
 * about leases go to a store of a few lines that keeps the sums of a key, and now and then it is not there, or its answer is lost.
 * At the end every token that was granted was given back, or told to be used; and as many were told as passed.
 *
 * LABELS: threads
 */
#include <pthread.h>
#include <stdatomic.h>

#include "fleet/fleet.h"
#include "fleet/script.h"
#include "support/random.h"
#include "support/unit.h"
#include "wire/resp.h"

#define THREADS 4
#define TURNS 6000
#define KEYS 12

static const char text[] = "weir: 1\nlimits:\n"
                           "  - { name: shared, key: [tenant], scope: fleet, when-store-fails: leased, "
                           "rate: 1000/1s, burst: 900, lease: { most: 900, chunk: 100, for: 1s } }\n";

static struct weir_contract *contract;
static struct fleet_common *common;
static struct outage *outage;
static _Atomic uint64_t clock_us;
static _Atomic uint64_t passed;

struct loop {
    struct carrier carrier;
    struct random random;
    struct fleet *fleet;
    bool is_sound; /* the store is there, and nothing is lost */
};

/* ---- The store --------------------------------------------------------------------------------------------------------- */

struct record {
    char name[64];
    uint64_t seq, left, grant, granted, used, returned;
};
static struct record records[KEYS];
static pthread_mutex_t store_lock = PTHREAD_MUTEX_INITIALIZER;

static struct record *record_of(struct slice name)
{
    for (size_t i = 0; i < KEYS; i++) {
        if (records[i].name[0] == '\0')
            (void)snprintf(records[i].name, sizeof records[i].name, "%.*s", (int)name.len, name.at);
        if (slice_equals(slice_of(records[i].name), name))
            return &records[i];
    }
    return NULL;
}

/* The numbers at the end of an item: most, chunk, how long, grace; seq, used, give, want; what was seen. */
static uint64_t number_of(struct slice item, size_t index)
{
    double number;
    memcpy(&number, item.at + item.len - 88 + 8 * index, sizeof number);
    return (uint64_t)number;
}

static uint64_t least(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

static void execute(struct slice name, struct slice item, struct text *out)
{
    struct record *record = record_of(name);
    uint64_t seq = number_of(item, 4), used = number_of(item, 5), give = number_of(item, 6),
             want = number_of(item, 7);
    bool is_repeated = record->seq == seq;
    if (!is_repeated && seq > record->seq) {
        /* One message of a key is under way, so nothing is told that the record does not hold. */
        if (used + give > record->left)
            abort();
        record->left -= used + give;
        record->used += used;
        record->returned += give;
        record->grant = least(want, number_of(item, 1) > record->left ? number_of(item, 1) - record->left : 0);
        record->left += record->grant;
        record->granted += record->grant;
        record->seq = seq;
    }
    const uint64_t words[] = {
        is_repeated ? 2 : 0, record->grant, record->left, 1000000, 500, 0, 0, seq, 0, 1
    };
    for (size_t i = 0; i < COUNT_OF(words); i++)
        resp_put_integer(out, i == 6 ? -1 : (int64_t)words[i]);
}

/* A command about leases has two keys a message. */
static bool execute_leases(struct slice command, struct text *out)
{
    struct resp_reader reader = resp_reader_of(command.at, command.len);
    struct resp_value value, words[4 + 3 * SCRIPT_LEASES_MAX];
    size_t count = 0;
    assert_true(resp_next(&reader, &value) && value.type == RESP_ARRAY);
    while (count < COUNT_OF(words) && resp_next(&reader, &words[count]))
        count++;
    size_t keys = (size_t)strtoull(words[2].text.at, NULL, 10), messages = keys / 2;
    if (keys < 2 || count != 3 + keys + 1 + messages)
        return false;
    (void)pthread_mutex_lock(&store_lock);
    resp_put_array(out, (uint32_t)(10 * messages));
    for (size_t i = 0; i < messages; i++)
        execute(words[3 + i].text, words[3 + keys + 1 + i].text, out);
    (void)pthread_mutex_unlock(&store_lock);
    return true;
}

/* ---- The carrier ------------------------------------------------------------------------------------------------------- */

static void answer(struct carrier *carrier, struct carrier_call *call)
{
    struct loop *loop = (struct loop *)carrier; /* its first member */
    char bytes[4096];
    struct text reply = text_of(bytes, sizeof bytes);
    uint64_t fate = loop->is_sound ? UINT64_MAX : random_below(&loop->random, 20);
    call->outage = outage;
    if (fate == 0) {
        call->done(call, CARRIER_REFUSED, (struct slice){ 0 });
    } else if (!execute_leases(call->command, &reply)) {
        call->done(call, CARRIER_REPLY, SLICE("*5\r\n:1\r\n:0\r\n:1\r\n:5000\r\n:12345\r\n"));
    } else if (fate == 1) {
        call->done(call, CARRIER_LOST, (struct slice){ 0 });
    } else if (fate != 2) { /* else: nothing is heard of it */
        call->done(call, CARRIER_REPLY, text_slice(&reply));
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

/* ---- The loops ---------------------------------------------------------------------------------------------------------- */

struct asked {
    struct loop *loop;
    bool is_done, undoes;
};

static void done(struct fleet_decision *decision)
{
    struct asked *asked = decision->owner;
    asked->is_done = true;
    if (!decision->passes)
        return;
    if (asked->undoes)
        fleet_undo(asked->loop->fleet, decision);
    else
        (void)atomic_fetch_add(&passed, decision->met[0].cost);
}

static weir_ns tick(uint64_t by_us)
{
    return WEIR_SECOND + (atomic_fetch_add(&clock_us, by_us) + by_us) * WEIR_MICROSECOND;
}

static void drive(struct loop *loop, uint64_t by_us)
{
    weir_ns now = tick(by_us);
    if (fleet_next(loop->fleet) <= now)
        fleet_tick(loop->fleet, now);
}

static void ask(struct loop *loop, struct weir_shared *shared)
{
    char tenant[8];
    struct weir_shared_met met[1];
    struct asked asked = { .loop = loop, .undoes = random_below(&loop->random, 4) == 0 };
    struct fleet_decision decision = { .met = met,
                                       .done = done,
                                       .owner = &asked,
                                       .now = tick(100),
                                       .is_final = !asked.undoes && random_below(&loop->random, 2) == 0 };
    (void)snprintf(tenant, sizeof tenant, "t%u", (unsigned)random_below(&loop->random, KEYS));
    const struct weir_attribute attribute = { "tenant", tenant, 0 };
    const struct weir_request request = { .attributes = &attribute,
                                          .attribute_count = 1,
                                          .cost = 1 + random_below(&loop->random, 3) };
    assert_int_equal(weir_contract_shared(contract, &request, shared), 0);
    fleet_decide(loop->fleet, shared, &decision);
    while (!asked.is_done)
        fleet_tick(loop->fleet, tick(1000));
    drive(loop, 0);
}

static void open_loop(struct loop *loop, uint64_t seed, bool is_sound)
{
    *loop = (struct loop){ .carrier = { answer, abandon, the_outage, none, is_whole, NULL },
                           .random = { seed },
                           .is_sound = is_sound };
    const struct fleet_options options = { .common = common,
                                           .carrier = &loop->carrier,
                                           .contract = contract,
                                           .deadline = 5 * WEIR_MILLISECOND,
                                           .has_seed = true };
    assert_int_equal(fleet_new(&loop->fleet, &options), 0);
}

static void close_loop(struct loop *loop)
{
    fleet_drain(loop->fleet, tick(1));
    fleet_free(loop->fleet);
}

/* Loops come and go, and leave their stripes and what they had claimed to the others. */
static void *run(void *context)
{
    struct loop *loop = context;
    const uint64_t seed = loop->random.state;
    struct weir_shared *shared = malloc(sizeof *shared);
    assert_non_null(shared);
    for (uint64_t life = 0; life < 4; life++) {
        open_loop(loop, seed + 100 * life, false);
        for (int i = 0; i < TURNS / 4; i++)
            ask(loop, shared);
        close_loop(loop);
    }
    free(shared);
    return NULL;
}

static void give_all_back(void)
{
    struct loop last;
    open_loop(&last, 1, true);
    /* The breaker may be open, and what is in hand may be claimed again after a pause. */
    fleet_hand_back(last.fleet, tick(1));
    for (int i = 0; i < 100000 && fleet_holds(common); i++)
        drive(&last, 1000);
    assert_false(fleet_holds(common));
    close_loop(&last);
}

static void what_is_told_is_what_passed(void **state)
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
        loops[i].random = (struct random){ i + 1 };
        assert_int_equal(pthread_create(&threads[i], NULL, run, &loops[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    give_all_back();
    struct fleet_counters counters;
    fleet_count(common, &counters);
    uint64_t granted = 0, used = 0, returned = 0;
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(records[i].left, 0);
        granted += records[i].granted;
        used += records[i].used;
        returned += records[i].returned;
    }
    assert_int_equal(granted, used + returned);
    assert_int_equal(used, atomic_load(&passed) + counters.lease_lost);
    assert_int_equal(counters.lease_spent, atomic_load(&passed));
    assert_int_equal(counters.lease_granted, granted);
    assert_true(atomic_load(&passed) > 1000 && counters.lease_decisions > 1000);
    fleet_common_free(common);
    weir_contract_free(contract);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_told_is_what_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
