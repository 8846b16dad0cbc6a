// SPDX-License-Identifier: Apache-2.0
/*
 * test_holdings_threads.c - a few keys, many threads: what is granted is spent once or goes back, to the token.
 *
 * Each thread is a worker: it takes, keeps and undoes, claims what is urgent, collects its stripe and answers for the store, or
 * leaves a message unanswered; now and then the contract changes. The store is one record for each key, under a lock. No portion
 * ends while it lasts, so nothing may be lost.
 *
 * LABELS: threads
 */
#include <pthread.h>
#include <stdatomic.h>

#include "fleet/holdings.h"
#include "support/random.h"
#include "support/unit.h"

#define THREADS 4
#define TURNS 30000
#define KEYS 3

static const struct weir_lease terms = { 1000, 100, 2 * WEIR_SECOND };
static const struct weir_limit limit = { .name = "limit", .rate = { 1000, WEIR_SECOND }, .burst = 1000 };
static const char *const names[KEYS] = { "weir:1:{a}", "weir:1:{b}", "weir:1:{c}" };

struct record {
    pthread_mutex_t lock;
    uint64_t seq, left, grant;
    uint64_t granted, returned, spent;
};

static struct holdings *holdings;
static struct record records[KEYS];
static _Atomic uint64_t clock_us, kept[KEYS], answers, unanswered, undone;

struct worker {
    pthread_t thread;
    unsigned place;
    struct random random;
};

static weir_ns now(void)
{
    return 100 * WEIR_SECOND + atomic_fetch_add(&clock_us, 1) * 5 * WEIR_MICROSECOND;
}

static size_t key_of(struct slice name)
{
    for (size_t i = 0; i < KEYS; i++)
        if (slice_equals(name, slice_of(names[i])))
            return i;
    fail_msg("a message about no key of ours");
    return 0;
}

/* As algorithms 4.4, of a pool without an end. */
static struct script_lease_answer serve(const struct script_lease *message)
{
    struct record *record = &records[key_of(message->name)];
    (void)pthread_mutex_lock(&record->lock);
    bool is_repeated = message->seq == record->seq;
    struct script_lease_answer answer = { .is_stale = message->seq < record->seq, .is_repeated = is_repeated };
    if (message->seq > record->seq) {
        assert_true(message->used + message->give <= record->left);
        record->left -= message->used + message->give;
        record->spent += message->used;
        record->returned += message->give;
        record->grant = terms.chunk - record->left < message->want ? terms.chunk - record->left : message->want;
        record->left += record->grant;
        record->granted += record->grant;
        record->seq = message->seq;
    }
    answer.granted = record->grant;
    answer.left = record->left;
    answer.ttl = terms.duration;
    answer.remaining = 1000;
    answer.ends_after = WEIR_NO_TIME;
    (void)pthread_mutex_unlock(&record->lock);
    return answer;
}

static void carry(struct worker *worker, const struct holdings_message *message)
{
    struct script_lease_answer answer = { .ends_after = WEIR_NO_TIME };
    bool arrives = worker == NULL || random_below(&worker->random, 8) > 0;
    bool is_heard = worker == NULL || random_below(&worker->random, 8) > 0;
    assert_string_equal(message->message.limit->name, "limit");
    if (arrives)
        answer = serve(&message->message);
    assert_false(answer.is_stale);
    if (arrives && is_heard) {
        holdings_answer(holdings, message, &answer, now());
        atomic_fetch_add(&answers, 1);
    } else {
        holdings_unanswered(holdings, message, 0, now());
        atomic_fetch_add(&unanswered, 1);
    }
}

static void request(struct worker *worker)
{
    static const struct weir_shared_size size = {
        .tick = WEIR_MICROSECOND, .capacity = 1000, .count = 1000, .period = 1000000
    };
    size_t key = random_below(&worker->random, KEYS);
    uint64_t hash = holdings_hash(holdings, "limit", (const unsigned char *)names[key], strlen(names[key]));
    uint64_t cost = 1 + random_below(&worker->random, 3);
    struct hand hand;
    if (random_below(&worker->random, 4) == 0)
        holdings_spend(holdings, hash, &terms, &size, cost, now(), &hand);
    else
        holdings_take(holdings, hash, &terms, &size, cost, random_below(&worker->random, 2) == 0, now(), &hand);
    const struct holdings_key is = {
        .hash = hash, .name = slice_of(names[key]), .limit = &limit, .size = size, .lease = terms
    };
    bool speaks = hand.is_urgent;
    if (hand.taken < cost)
        speaks |= holdings_miss(holdings, &is, cost - hand.taken, now());
    struct holdings_message message;
    if (speaks && holdings_claim(holdings, hash, now(), &message))
        carry(worker, &message);
    if (!hand.is_kept && random_below(&worker->random, 4) == 0) {
        holdings_undo(holdings, &hand);
        atomic_fetch_add(&undone, hand.taken);
        return;
    }
    if (!hand.is_kept)
        holdings_keep(holdings, &hand);
    atomic_fetch_add(&kept[key], hand.taken);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (size_t turn = 0; turn < TURNS; turn++) {
        request(worker);
        struct holdings_message due[4];
        size_t count =
            turn % 16 > 0 ? 0 : holdings_collect(holdings, worker->place, THREADS, now(), due, COUNT_OF(due));
        for (size_t i = 0; i < count; i++)
            carry(worker, &due[i]);
        if (turn % 1000 == 0 && worker->place == 0)
            holdings_changed(holdings);
        if (turn % 500 == 0) {
            struct holdings_counts counts;
            holdings_sum(holdings, now(), &counts);
            assert_true(counts.held <= KEYS * terms.chunk);
        }
    }
    return NULL;
}

static void give_all_back(void)
{
    struct holdings_message due[4];
    holdings_hand_back(holdings);
    for (size_t turn = 0; turn < 10; turn++)
        for (unsigned stripe = 0; stripe < 3; stripe++)
            for (size_t i = 0, count = holdings_collect(holdings, stripe, 3, now(), due, COUNT_OF(due));
                 i < count; i++)
                carry(NULL, &due[i]);
}

static void tokens_are_spent_once_or_go_back(void **state)
{
    (void)state;
    struct worker workers[THREADS];
    uint64_t seed = random_seed(7);
    assert_int_equal(holdings_new(&holdings, (const uint8_t[16]){ 3 }), 0);
    for (size_t i = 0; i < KEYS; i++)
        (void)pthread_mutex_init(&records[i].lock, NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .place = i, .random = { seed + i } };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(workers[i].thread, NULL);
    give_all_back();
    struct holdings_counts counts;
    holdings_sum(holdings, now(), &counts);
    assert_int_equal(counts.held + counts.untold + counts.under_way + counts.lost, 0);
    uint64_t granted = 0, returned = 0, spent = 0;
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(records[i].left, 0);
        assert_int_equal(records[i].spent, atomic_load(&kept[i]));
        assert_int_equal(records[i].granted, records[i].returned + records[i].spent);
        granted += records[i].granted;
        returned += records[i].returned;
        spent += records[i].spent;
    }
    assert_int_equal(counts.granted, granted);
    assert_int_equal(counts.returned, returned);
    assert_int_equal(counts.spent, spent);
    printf("granted %ju, spent %ju, undone %ju, answers %ju, unanswered %ju\n", (uintmax_t)granted,
           (uintmax_t)spent, (uintmax_t)undone, (uintmax_t)answers, (uintmax_t)unanswered);
    assert_true(spent > 1000);
    assert_true(undone > 100);
    assert_true(answers > 100);
    assert_true(unanswered > 20);
    holdings_free(holdings);
    for (size_t i = 0; i < KEYS; i++)
        (void)pthread_mutex_destroy(&records[i].lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(tokens_are_spent_once_or_go_back) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
