// SPDX-License-Identifier: Apache-2.0
/*
 * test_client_model.c - P41 over a million random attempts, and every answer beside a twin that is slow and obvious.
 *
 * The twin keeps tokens as a count and the instant it was taken at, where the header keeps one instant; multiplies by hand
 * where the header takes the upper half of a product; and looks at the rules one by one. P41 itself is checked from a record
 * of what was sent, without either of them.
 */
#include "support/random.h"
#include "support/unit.h"
#include "weir_retry.h"

#define STEPS 1200000
#define S WEIR_SECOND
#define MS WEIR_MILLISECOND
#define NONE WEIR_NO_TIME

__extension__ typedef unsigned __int128 wide;

/* ---- The twin ----------------------------------------------------------------------------------------------- */

struct twin_budget {
    uint64_t max, ratio, per_second; /* thousandths of a token; per second in tokens */
    uint64_t left;                   /* thousandths at `counted_at` */
    weir_ns counted_at;
};

static void twin_refill(struct twin_budget *budget, weir_ns now)
{
    /* Whole thousandths that the clock passes, so the difference of two roundings. */
    wide gained =
        (wide)now * budget->per_second / 1000000 - (wide)budget->counted_at * budget->per_second / 1000000;
    wide left = budget->left + gained;
    budget->left = left > budget->max ? budget->max : (uint64_t)left;
    budget->counted_at = now;
}

static bool twin_failure(struct twin_budget *budget, weir_ns now)
{
    twin_refill(budget, now);
    budget->left = budget->left < 1000 ? 0 : budget->left - 1000;
    return budget->left * 2 > budget->max;
}

static void twin_success(struct twin_budget *budget, weir_ns now)
{
    twin_refill(budget, now);
    budget->left = budget->left + budget->ratio > budget->max ? budget->max : budget->left + budget->ratio;
}

/* floor(random * count / 2^64), in halves of 32 bits; count up to 2^63. */
static uint64_t twin_scale(uint64_t random, uint64_t count)
{
    uint64_t low = (random & UINT32_MAX) * (count & UINT32_MAX);
    uint64_t one = (random >> 32) * (count & UINT32_MAX);
    uint64_t other = (random & UINT32_MAX) * (count >> 32);
    uint64_t carry = ((low >> 32) + (one & UINT32_MAX) + (other & UINT32_MAX)) >> 32;
    return (random >> 32) * (count >> 32) + (one >> 32) + (other >> 32) + carry;
}

static uint64_t twin_uniform(uint64_t low, uint64_t high, uint64_t random)
{
    return low + twin_scale(random, high - low + 1);
}

static uint64_t least(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

struct twin {
    struct weir_retry_options options; /* no defaults: every number is given */
    weir_ns deadline, before;
    unsigned attempts;
};

static enum weir_retry_verdict twin_time(struct twin *twin, weir_ns retry_after, weir_ns now, uint64_t random,
                                         weir_ns *at)
{
    const struct weir_retry_options *options = &twin->options;
    bool is_full = options->jitter == WEIR_JITTER_FULL;
    weir_ns envelope = options->base;
    for (unsigned i = 1; is_full && i < twin->attempts; i++)
        envelope = least(2 * envelope, options->cap);
    if (!is_full)
        envelope = 3 * twin->before;
    if (retry_after == NONE) {
        weir_ns low = is_full ? 0 : options->base;
        if (now + low > twin->deadline)
            return WEIR_GIVE_UP_DEADLINE;
        weir_ns wait = twin_uniform(low, least(envelope, twin->deadline - now), random);
        twin->before = least(options->cap, wait);
        *at = now + twin->before;
        return WEIR_RETRY_AT;
    }
    if (now + retry_after > twin->deadline)
        return WEIR_GIVE_UP_DEADLINE;
    weir_ns spread = least(envelope, options->cap);
    if (retry_after / 4 > spread)
        spread = retry_after / 4;
    if (options->spread > 0)
        spread = options->spread;
    *at = now + retry_after + twin_uniform(0, least(spread, twin->deadline - now - retry_after), random);
    twin->before = least(options->cap, twin_uniform(options->base, envelope, random));
    return WEIR_RETRY_AT;
}

static enum weir_retry_verdict twin_next(struct twin *twin, struct twin_budget *budget, enum weir_reply reply,
                                         weir_ns retry_after, weir_ns now, uint64_t random, weir_ns *at)
{
    bool fails = reply == WEIR_REPLY_DENIED || reply == WEIR_REPLY_UNDECIDED || reply == WEIR_REPLY_LOST;
    bool may_repeat = true;
    twin->attempts++;
    if (fails && budget != NULL)
        may_repeat = twin_failure(budget, now);
    if (reply == WEIR_REPLY_ALLOWED && budget != NULL)
        twin_success(budget, now);
    if (reply == WEIR_REPLY_ALLOWED)
        return WEIR_RETRY_DONE;
    if (!fails)
        return reply == WEIR_REPLY_NEVER ? WEIR_GIVE_UP_NEVER : WEIR_GIVE_UP_FINAL;
    if (reply == WEIR_REPLY_LOST && !twin->options.is_repeatable)
        return WEIR_GIVE_UP_LOST;
    if (twin->attempts == twin->options.attempts)
        return WEIR_GIVE_UP_ATTEMPTS;
    return may_repeat ? twin_time(twin, retry_after, now, random, at) : WEIR_GIVE_UP_BUDGET;
}

/* ---- A client with some requests under way ------------------------------------------------------------------- */

#define REQUESTS 8

struct request {
    struct weir_retry_options options;
    struct weir_retry retry;
    struct twin twin;
    weir_ns deadline, not_before; /* by what the last reply said, with nothing of the code under test */
    weir_ns attempt_at;
    unsigned sent;
};

struct client {
    struct random random;
    struct weir_retry_budget budget;
    struct twin_budget twin;
    struct request requests[REQUESTS];
    uint64_t first_attempts, retries;
    weir_ns began_at;
    unsigned mood; /* in percent: how often the service allows, now */
};

static void begin_request(struct client *client, struct request *request, weir_ns now)
{
    struct random *random = &client->random;
    weir_ns base = 1 + random_below(random, 200 * MS);
    *request = (struct request){
        .options = { .attempts = 1 + (uint32_t)random_below(random, 6),
                     .jitter = (enum weir_jitter)random_below(random, 2),
                     .base = base,
                     .cap = base + random_below(random, 3 * S),
                     .spread = random_below(random, 3) == 0 ? 1 + random_below(random, S) : 0,
                     .is_repeatable = random_below(random, 2) == 0,
                     .budget = &client->budget },
        .deadline = random_below(random, 4) == 0 ? UINT64_C(1) << 62 : now + random_below(random, 20 * S),
        .attempt_at = now,
        .sent = 1,
    };
    weir_retry_init(&request->retry, &request->options, request->deadline);
    request->twin = (struct twin){ .options = request->options, .deadline = request->deadline, .before = base };
    client->first_attempts++;
}

static void begin_client(struct client *client, weir_ns now)
{
    struct random *random = &client->random;
    uint32_t max = 1 + (uint32_t)random_below(random, 20);
    uint32_t ratio = (uint32_t)random_below(random, 501);
    uint32_t per_second = random_below(random, 2) == 0 ? 0 : (uint32_t)random_below(random, 4);
    client->budget = (struct weir_retry_budget){ max, ratio, per_second, 0 };
    client->twin = (struct twin_budget){ 1000 * (uint64_t)max, ratio, per_second, 1000 * (uint64_t)max, now };
    client->first_attempts = client->retries = 0;
    client->began_at = now;
    for (size_t i = 0; i < REQUESTS; i++)
        begin_request(client, &client->requests[i], now);
}

static enum weir_reply any_reply(struct client *client)
{
    uint64_t one = random_below(&client->random, 100);
    if (one < client->mood)
        return WEIR_REPLY_ALLOWED;
    static const enum weir_reply others[] = { WEIR_REPLY_DENIED,    WEIR_REPLY_DENIED, WEIR_REPLY_DENIED,
                                              WEIR_REPLY_UNDECIDED, WEIR_REPLY_LOST,   WEIR_REPLY_DENIED,
                                              WEIR_REPLY_NEVER,     WEIR_REPLY_FINAL };
    return others[random_below(&client->random, COUNT_OF(others))];
}

static weir_ns any_retry_after(struct client *client)
{
    switch (random_below(&client->random, 4)) {
    case 0:
        return NONE;
    case 1:
        return 0;
    case 2:
        return random_below(&client->random, 2 * S);
    default:
        return random_below(&client->random, 60) * S;
    }
}

static uint64_t any_bits(struct client *client)
{
    uint64_t kind = random_below(&client->random, 8);
    return kind == 0 ? 0 : kind == 1 ? UINT64_MAX : random_u64(&client->random);
}

/* P41: attempts <= (1 + ratio) * first attempts + per_second * time + max / 2, in thousandths of an attempt. */
static void check_budget_bound(const struct client *client, weir_ns now)
{
    wide allowed = (wide)client->budget.ratio * client->first_attempts + 500 * (wide)client->budget.max_tokens
                   + (wide)client->budget.per_second * (now - client->began_at) / 1000000;
    assert_true((wide)client->retries * 1000 <= allowed);
}

/* The request whose attempt comes back first does, a little later. */
static void step(struct client *client, weir_ns *now)
{
    struct request *request = client->requests;
    for (size_t i = 1; i < REQUESTS; i++)
        if (client->requests[i].attempt_at < request->attempt_at)
            request = &client->requests[i];
    if (request->attempt_at > *now)
        *now = request->attempt_at;
    *now += random_below(&client->random, 50 * MS);

    enum weir_reply reply = any_reply(client);
    weir_ns retry_after = any_retry_after(client);
    uint64_t bits = any_bits(client);
    weir_ns at = 0;
    weir_ns expected_at = 0;
    enum weir_retry_verdict verdict = weir_retry_next(&request->retry, reply, retry_after, *now, bits, &at);
    enum weir_retry_verdict expected =
        twin_next(&request->twin, &client->twin, reply, retry_after, *now, bits, &expected_at);
    assert_int_equal(verdict, expected);
    assert_int_equal(at, expected_at);
    twin_refill(&client->twin, *now);
    assert_int_equal(weir_retry_budget_left(&client->budget, *now), client->twin.left);

    if (verdict == WEIR_RETRY_AT) {
        assert_true(reply != WEIR_REPLY_NEVER && reply != WEIR_REPLY_FINAL && reply != WEIR_REPLY_ALLOWED);
        assert_true(at >= *now + (retry_after == NONE ? 0 : retry_after));
        assert_true(at <= request->deadline);
        assert_true(request->sent < request->options.attempts);
        request->sent++;
        request->attempt_at = at;
        client->retries++;
    } else {
        begin_request(client, request, *now);
    }
    check_budget_bound(client, *now);
}

static void P41_client_attempts_are_bounded(void **unused)
{
    (void)unused;
    static struct client client;
    client.random.state = random_seed(4141);
    weir_ns now = 77 * S;
    unsigned refused = 0;
    unsigned granted = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        if (i % 20000 == 0) {
            granted += client.retries > 0;
            begin_client(&client, now);
        }
        if (i % 500 == 0) /* good times and bad ones */
            client.mood = (unsigned)random_below(&client.random, 101);
        step(&client, &now);
        refused += weir_retry_budget_left(&client.budget, now) * 2 <= 1000 * (uint64_t)client.budget.max_tokens;
    }
    /* The run has seen both sides: budgets that let retry, and budgets that did not. */
    assert_true(granted > 30);
    assert_in_range(refused, STEPS / 10, STEPS * 9 / 10);
}

/* What one never-ending outage costs: first attempts alone, but for half a budget. */
static void P41_an_outage_is_asked_hardly_more_than_once(void **unused)
{
    (void)unused;
    struct weir_retry_budget budget = WEIR_RETRY_BUDGET_FULL;
    const struct weir_retry_options options = { .budget = &budget };
    struct random random = { 7 };
    unsigned attempts = 0;
    for (int request = 0; request < 100000; request++) {
        struct weir_retry retry;
        weir_ns at = (weir_ns)request * MS;
        weir_retry_init(&retry, &options, NONE);
        do
            attempts++;
        while (weir_retry_next(&retry, WEIR_REPLY_UNDECIDED, NONE, at, random_u64(&random), &at)
               == WEIR_RETRY_AT);
    }
    /* Of ten tokens nine, eight, seven and six are more than five, and seven was the third attempt's of its request. */
    assert_int_equal(attempts, 100000 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(P41_client_attempts_are_bounded),
        cmocka_unit_test(P41_an_outage_is_asked_hardly_more_than_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
