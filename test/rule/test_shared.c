// SPDX-License-Identifier: Apache-2.0
/*
 * test_shared.c - a request that meets limits of this process and of a fleet: asked here, asked of a store, put together.
 *
 * The store of these tests is a table of what each question shall be answered, or a limiter that counts as the contract does in
 * one process; then both have to say the same.
 */
#include "support/contracts.h"
#include "support/random.h"
#include "support/unit.h"

#define SEC WEIR_SECOND

struct door {
    struct loaded loaded;
    struct weir_waiter_part parts[WEIR_ASKS_MAX];
    struct weir_waiter waiter;
    struct weir_answer answer;
    struct weir_shared shared;
    struct weir_shared_met met[WEIR_ASKS_MAX];
};

static struct weir_contract *load_as(const char *text, enum weir_fleet fleet)
{
    static const uint8_t secret[16] = "a test's secret";
    const struct weir_contract_options options = {
        .keys = 4096, .has_wall_offset = true, .fleet = fleet, .has_store = true, .secret = secret
    };
    struct loaded loaded = contract_with(text, strlen(text), &options);
    if (loaded.error != 0)
        fail_msg("%s does not load: %s", text, loaded.printed);
    struct weir_contract *contract = loaded.contract;
    loaded.contract = NULL;
    loaded_free(&loaded);
    return contract;
}

static struct door *open_door(const char *text)
{
    struct door *door = calloc(1, sizeof *door);
    assert_non_null(door);
    door->loaded.contract = load_as(text, WEIR_FLEET_SHARED);
    return door;
}

static void close_door(struct door *door)
{
    weir_contract_free(door->loaded.contract);
    free(door);
}

/* A request "name=value ..."; its text has to live as long. */
static struct weir_request request_of(char *text, struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX],
                                      uint64_t cost)
{
    return (struct weir_request){ attributes, attributes_of(text, attributes), cost, false, 0 };
}

static int begin(struct door *door, const struct weir_request *request, weir_ns now)
{
    door->waiter = (struct weir_waiter){ .parts = door->parts,
                                         .part_room = WEIR_ASKS_MAX,
                                         .acquires = door->waiter.acquires };
    return weir_contract_begin(door->loaded.contract, request, now, &door->waiter, &door->answer,
                               &door->shared);
}

static struct weir_decision says(enum weir_outcome outcome, uint64_t remaining, weir_ns retry_at)
{
    return (struct weir_decision){
        .outcome = outcome, .remaining = remaining, .capacity = 100, .retry_at = retry_at
    };
}

/* Every question of the store gets `decision`. */
static void end_with(struct door *door, struct weir_decision decision, weir_ns now)
{
    for (size_t i = 0; i < door->shared.count; i++)
        door->met[i] = (struct weir_shared_met){ door->shared.asks[i].limit, door->shared.asks[i].cost,
                                                 door->shared.asks[i].is_watched, decision };
    weir_contract_end(door->loaded.contract, door->shared.rules, door->met, door->shared.count,
                      door->waiter.count > 0 ? &door->waiter : NULL, now, &door->answer);
}

/* ---- Kept and undone --------------------------------------------------------------------------------------------------- */

static const char mixed[] =
    "weir: 1\nlimits:\n"
    " - { name: bucket, key: [tenant], rate: 1/h, burst: 5 }\n"
    " - { name: fixed, key: [tenant], algorithm: fixed-window, rate: 5/d }\n"
    " - { name: sliding, key: [tenant], algorithm: sliding-window, rate: 5/d }\n"
    " - { name: log, key: [tenant], algorithm: sliding-log, rate: 5/d }\n"
    " - { name: permits, key: [tenant], algorithm: concurrency, at-most: 5, hold: 1h }\n"
    " - { name: fleet, key: [tenant], rate: 1/h, burst: 9, when: { path: \"/shared/**\" }, scope: fleet, "
    "when-store-fails: closed }\n"
    " - { name: retried, key: [tenant], rate: 1/h, burst: 5, retries: { free-within: 60s } }\n";
#define MIXED_LOCAL 6

/* What is left of each limit of this process, seen by a request that meets no other. */
static void check_left(struct weir_contract *contract, const char *tenant, uint64_t left, weir_ns now,
                       const char *why)
{
    char text[64];
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    struct weir_answer answer;
    snprintf(text, sizeof text, "tenant=%s path=/local", tenant);
    struct weir_request request = request_of(text, attributes, 1);
    request.is_peek = true;
    assert_int_equal(weir_contract_decide(contract, &request, now, &answer), 0);
    assert_int_equal(answer.count, MIXED_LOCAL);
    for (size_t i = 0; i < answer.count; i++)
        if (answer.each[i].remaining != left)
            fail_msg("%s: %llu of %s left, not %llu", why, (unsigned long long)answer.each[i].remaining,
                     answer.limits[answer.each[i].limit].name, (unsigned long long)left);
}

static void what_the_store_refuses_is_undone(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        enum weir_outcome outcome;
    } rows[] = {
        { "denied", WEIR_DENY },
        { "never", WEIR_NEVER },
        { "the store could not be had, closed", WEIR_REFUSED },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct door *door = open_door(mixed);
        door->waiter.acquires = true;
        for (int round = 0; round < 12; round++) { /* more than any budget */
            char text[64];
            struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
            struct weir_permit permit;
            snprintf(text, sizeof text, "tenant=a path=/shared/x request-id=r%d", round % 3);
            struct weir_request request = request_of(text, attributes, 1);
            assert_int_equal(begin(door, &request, SEC), 0);
            assert_int_equal(door->shared.count, 1);
            assert_int_equal(door->waiter.count, MIXED_LOCAL);
            end_with(door, says(rows[i].outcome, 0, 9 * SEC), SEC);
            expect_row(door->answer.decision.outcome == rows[i].outcome, rows[i].why);
            assert_int_equal(door->answer.decision.limit, 5);
            assert_int_equal(door->answer.count, MIXED_LOCAL + 1);
            for (size_t k = 0; k < door->answer.count; k++)
                assert_int_equal(door->answer.each[k].limit, k);
            weir_waiter_permit(weir_contract_limiter(door->loaded.contract), &door->waiter, &permit);
            assert_int_equal(permit.len, 0);
            check_left(door->loaded.contract, "a", 5, SEC, rows[i].why);
        }
        close_door(door);
    }
}

static void what_the_store_lets_pass_is_kept(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        enum weir_outcome outcome;
    } rows[] = {
        { "allowed", WEIR_ALLOW },
        { "known there as a retry", WEIR_DUPLICATE },
        { "the store could not be had, open", WEIR_UNMETERED },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct door *door = open_door(mixed);
        door->waiter.acquires = true;
        for (uint64_t round = 0; round < 5; round++) {
            char text[64];
            struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
            struct weir_permit permit;
            snprintf(text, sizeof text, "tenant=a path=/shared/x request-id=r%d", (int)round);
            struct weir_request request = request_of(text, attributes, 1);
            assert_int_equal(begin(door, &request, SEC), 0);
            end_with(door, says(rows[i].outcome, 50, SEC), SEC);
            expect_row(door->answer.decision.outcome == WEIR_ALLOW || rows[i].outcome == WEIR_UNMETERED,
                       rows[i].why);
            weir_waiter_permit(weir_contract_limiter(door->loaded.contract), &door->waiter, &permit);
            assert_int_not_equal(permit.len, 0);
            check_left(door->loaded.contract, "a", 4 - round, SEC, rows[i].why);
        }
        struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
        char text[] = "tenant=a path=/shared/x";
        struct weir_request request = request_of(text, attributes, 1);
        assert_int_equal(begin(door, &request, SEC), 0);
        expect_row(door->shared.count == 0, "who is refused here asks nothing of the store");
        assert_int_equal(door->answer.decision.outcome, WEIR_DENY);
        assert_int_equal(door->answer.count, MIXED_LOCAL);
        close_door(door);
    }
}

/* A retry whose first try the store refused is no retry; one whose first try passed is. */
static void retries_count_from_what_passed(void **state)
{
    (void)state;
    static const char text[] =
        "weir: 1\nlimits:\n"
        " - { name: a, key: [], rate: 1/h, burst: 5, retries: { free-within: 60s } }\n"
        " - { name: f, key: [], rate: 1/h, burst: 5, scope: fleet, when-store-fails: closed }\n";
    struct door *door = open_door(text);
    static const struct {
        const char *why;
        enum weir_outcome store, here;
        uint64_t left;
    } rows[] = {
        { "refused there: taken back", WEIR_DENY, WEIR_ALLOW, 5 },
        { "and again the first", WEIR_ALLOW, WEIR_ALLOW, 4 },
        { "now it is a retry", WEIR_ALLOW, WEIR_DUPLICATE, 4 },
        { "also where the store refuses it", WEIR_DENY, WEIR_DUPLICATE, 4 },
        { "and it stays one", WEIR_ALLOW, WEIR_DUPLICATE, 4 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char attributes_text[] = "request-id=r1";
        struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
        struct weir_request request = request_of(attributes_text, attributes, 1);
        assert_int_equal(begin(door, &request, SEC), 0);
        assert_int_equal(door->shared.count, 1);
        end_with(door, says(rows[i].store, 50, 9 * SEC), SEC);
        expect_row(door->answer.each[0].outcome == rows[i].here, rows[i].why);
        expect_row(door->answer.each[0].remaining == rows[i].left, rows[i].why);
    }
    close_door(door);
}

/* ---- Which questions -------------------------------------------------------------------------------------------------------- */

static void questions_say_what_the_store_needs(void **state)
{
    (void)state;
    static const char text[] =
        "weir: 1\nlimits:\n"
        " - { name: first, key: [tenant, path], rate: 5/s, burst: 20, scope: fleet, when-store-fails: closed "
        "}\n"
        " - { name: here, key: [], rate: 5/s, burst: 20 }\n"
        " - { name: costs, key: [], rate: 5/s, burst: 900, cost: { from: tokens, max: 500 }, scope: fleet, "
        "when-store-fails: open, retries: { free-within: 1s } }\n"
        " - { name: shadow, key: [path], rate: 5/s, burst: 20, cost: 3, enforce: shadow, scope: fleet, "
        "when-store-fails: "
        "open }\n"
        " - { name: \"off\", key: [], rate: 5/s, burst: 20, enforce: \"off\", scope: fleet, when-store-fails: "
        "open }\n"
        " - { name: shares, key: [who], missing-key: share, rate: 5/s, burst: 20, scope: fleet, "
        "when-store-fails: open }\n";
    struct door *door = open_door(text);
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    char asked[] = "tenant=acme path=/v1//x tokens=70 request-id=r";
    struct weir_request request = request_of(asked, attributes, 2);
    struct weir_shared *shared = calloc(1, sizeof *shared);
    assert_int_equal(begin(door, &request, SEC), 0);
    assert_int_equal(weir_contract_shared(door->loaded.contract, &request, shared), 0);
    static const struct {
        weir_limit_id limit;
        const char *key;
        size_t key_len;
        uint64_t cost;
        bool has_retry, is_estimate, is_watched;
    } rows[] = {
        { 0, "\0\5acme\0\6/v1/x", 13, 2, false, false, false },
        { 2, "", 0, 70, true, true, false },
        { 3, "\0\6/v1/x", 7, 3, false, false, true },
        { 5, "\0\0", 2, 2, false, false, false },
    };
    assert_int_equal(door->shared.count, COUNT_OF(rows));
    assert_int_equal(shared->count, COUNT_OF(rows));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct weir_shared_ask *asks[] = { &door->shared.asks[i], &shared->asks[i] };
        for (int k = 0; k < 2; k++) {
            assert_int_equal(asks[k]->limit, rows[i].limit);
            assert_int_equal(asks[k]->key_len, rows[i].key_len);
            assert_memory_equal(asks[k]->key, rows[i].key, rows[i].key_len);
            assert_int_equal(asks[k]->cost, rows[i].cost);
            assert_int_equal(asks[k]->retry_id != NULL, rows[i].has_retry);
            assert_int_equal(asks[k]->is_estimate, rows[i].is_estimate);
            assert_int_equal(asks[k]->is_watched, rows[i].is_watched);
        }
    }
    assert_ptr_equal(door->shared.limits, weir_contract_limit(door->loaded.contract, 0));
    end_with(door, says(WEIR_ALLOW, 9, SEC), SEC);
    assert_int_equal(door->answer.count, 5);
    assert_int_equal(door->answer.watched, 1u << 3);
    free(shared);

    char above[] = "tenant=acme path=/v1//x tokens=501";
    request = request_of(above, attributes, 1);
    assert_int_equal(begin(door, &request, SEC), 0);
    assert_true(door->shared.asks[1].cost == UINT64_MAX); /* above max: more than anything holds */
    end_with(door, says(WEIR_NEVER, 9, WEIR_NO_TIME), SEC);
    close_door(door);
}

static void one_key_by_its_name(void **state)
{
    (void)state;
    static const char text[] =
        "weir: 1\nlimits:\n"
        " - { name: here, key: [tenant], rate: 1/s, burst: 1 }\n"
        " - { name: fleet, key: [tenant], rate: 1/s, burst: 1, when: { path: /x }, scope: fleet, "
        "when-store-fails: closed }\n";
    struct door *door = open_door(text);
    struct weir_attribute key = { "tenant", "acme", 0 };
    struct weir_fault fault;
    assert_int_equal(weir_contract_shared_key(door->loaded.contract, "fleet", &key, 1, &door->shared, &fault),
                     0);
    assert_int_equal(door->shared.count, 1);
    assert_int_equal(door->shared.asks[0].limit, 1);
    assert_memory_equal(door->shared.asks[0].key, "\0\5acme", 6);
    assert_int_equal(door->shared.asks[0].size.capacity, 1);
    assert_int_equal(weir_contract_shared_key(door->loaded.contract, "here", &key, 1, &door->shared, &fault),
                     0);
    assert_int_equal(door->shared.count, 0);
    assert_int_equal(weir_contract_shared_key(door->loaded.contract, "none", &key, 1, &door->shared, &fault),
                     WEIR_ERR_LIMIT);
    assert_int_equal(weir_contract_shared_key(door->loaded.contract, "fleet", &key, 0, &door->shared, &fault),
                     WEIR_ERR_ATTRIBUTE);
    close_door(door);
}

static void requests_without_their_key(void **state)
{
    (void)state;
    static const char text[] =
        "weir: 1\nlimits:\n"
        " - { name: here, key: [], rate: 1/h, burst: 5 }\n"
        " - { name: insists, key: [tenant], missing-key: refuse, rate: 1/h, burst: 5, scope: fleet, "
        "when-store-fails: closed }\n"
        " - { name: other, key: [], rate: 1/h, burst: 5, scope: fleet, when-store-fails: closed }\n";
    struct door *door = open_door(text);
    struct weir_request request = { .cost = 1 };
    for (int i = 0; i < 7; i++) {
        assert_int_equal(begin(door, &request, SEC), 0);
        assert_int_equal(door->shared.count, 0); /* refused, and charged nowhere */
        assert_int_equal(door->answer.decision.outcome, WEIR_NEVER);
        assert_int_equal(door->answer.decision.reason, WEIR_REASON_MISSING_KEY);
        assert_int_equal(door->answer.decision.limit, 1);
        assert_int_equal(door->answer.count, 2);
        assert_int_equal(door->answer.each[0].remaining, 5);
    }
    close_door(door);
}

static void only_shared_limits(void **state)
{
    (void)state;
    static const char text[] = "weir: 1\nlimits:\n - { name: f, key: [], rate: 1/h, burst: 5, scope: fleet, "
                               "when-store-fails: closed }\n";
    struct door *door = open_door(text);
    struct weir_request request = { .cost = 1 };
    for (int is_peek = 0; is_peek < 2; is_peek++) {
        request.is_peek = is_peek == 1;
        assert_int_equal(begin(door, &request, SEC), 0);
        assert_int_equal(door->shared.count, 1);
        assert_int_equal(door->waiter.count, 0);
        end_with(door, says(WEIR_DENY, 0, 7 * SEC), SEC);
        assert_int_equal(door->answer.decision.outcome, WEIR_DENY);
        assert_int_equal(door->answer.decision.retry_at, 7 * SEC);
        weir_contract_end(door->loaded.contract, door->shared.rules, door->met, 1, &door->waiter, SEC,
                          &door->answer);
        assert_int_equal(door->answer.count, 1); /* an empty waiter is as good as none */
    }
    close_door(door);
}

static void looks_charge_nothing(void **state)
{
    (void)state;
    struct door *door = open_door(mixed);
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    char text[] = "tenant=a path=/shared/x";
    struct weir_request request = request_of(text, attributes, 1);
    request.is_peek = true;
    for (int i = 0; i < 7; i++) {
        assert_int_equal(begin(door, &request, SEC), 0);
        assert_int_equal(door->shared.count, 1);
        end_with(door, says(WEIR_ALLOW, 3, SEC), SEC);
        assert_int_equal(door->answer.count, MIXED_LOCAL + 1);
        assert_int_equal(door->answer.decision.limit, 5); /* three are fewer than five */
        for (size_t k = 0; k < door->answer.count; k++)
            assert_int_equal(door->answer.each[k].limit, k);
        check_left(door->loaded.contract, "a", 5, SEC, "a look");
    }
    door->waiter = (struct weir_waiter){ .parts = door->parts, .part_room = MIXED_LOCAL - 1 };
    assert_int_equal(
        weir_contract_begin(door->loaded.contract, &request, SEC, &door->waiter, &door->answer, &door->shared),
        WEIR_ERR_WAITER);
    close_door(door);
}

/* ---- Watched ------------------------------------------------------------------------------------------------------------------ */

static void watched_limits_never_bind(void **state)
{
    (void)state;
    static const char text[] =
        "weir: 1\nlimits:\n"
        " - { name: here, key: [], rate: 1/h, burst: 5, enforce: shadow }\n"
        " - { name: fleet, key: [], rate: 1/h, burst: 5, scope: fleet, when-store-fails: closed }\n"
        " - { name: shadow, key: [], rate: 1/h, burst: 5, enforce: shadow, scope: fleet, when-store-fails: "
        "closed }\n";
    static const struct {
        const char *why;
        enum weir_outcome fleet, shadow, outcome;
        uint64_t left; /* of `here`, which counts what passes */
    } rows[] = {
        { "refused: the shadow here counts nothing", WEIR_DENY, WEIR_ALLOW, WEIR_DENY, 5 },
        { "passed: it does", WEIR_ALLOW, WEIR_ALLOW, WEIR_ALLOW, 4 },
        { "a shadow of the fleet that refuses refuses nobody", WEIR_ALLOW, WEIR_DENY, WEIR_ALLOW, 3 },
        { "nor one whose store is away", WEIR_ALLOW, WEIR_REFUSED, WEIR_ALLOW, 2 },
        { "nor one that never lets pass", WEIR_ALLOW, WEIR_NEVER, WEIR_ALLOW, 1 },
    };
    struct door *door = open_door(text);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_request request = { .cost = 1 };
        assert_int_equal(begin(door, &request, SEC), 0);
        assert_int_equal(door->shared.count, 2);
        assert_int_equal(door->waiter.count, 1);
        door->met[0] = (struct weir_shared_met){ 1, 1, false, says(rows[i].fleet, 50, 9 * SEC) };
        door->met[1] = (struct weir_shared_met){ 2, 1, true, says(rows[i].shadow, 0, 99 * SEC) };
        weir_contract_end(door->loaded.contract, door->shared.rules, door->met, 2, &door->waiter, SEC,
                          &door->answer);
        expect_row(door->answer.decision.outcome == rows[i].outcome, rows[i].why);
        expect_row(door->answer.decision.limit == 1, rows[i].why);
        expect_row(door->answer.each[0].remaining == rows[i].left, rows[i].why);
        assert_int_equal(door->answer.watched, 1u << 0 | 1u << 2);
        assert_int_equal(door->answer.each[2].outcome, rows[i].shadow);
    }
    close_door(door);
}

/* ---- What binds ---------------------------------------------------------------------------------------------------------------- */

/* By the rule of several limits: NEVER, DENY, REFUSED, UNMETERED, ALLOW; the latest retry, else the fewest requests left. */
static void what_binds(void **state)
{
    (void)state;
    static const char text[] =
        "weir: 1\nlimits:\n"
        " - { name: x, key: [], rate: 1/h, burst: 100, scope: fleet, when-store-fails: closed }\n"
        " - { name: here, key: [], rate: 1/h, burst: 9, cost: 2 }\n"
        " - { name: y, key: [], rate: 1/h, burst: 100, scope: fleet, when-store-fails: closed }\n";
#define NONE WEIR_OUTCOME_COUNT
    static const struct {
        const char *why;
        struct {
            enum weir_outcome outcome;
            uint64_t cost, remaining;
            weir_ns retry_at;
        } x, y;
        weir_limit_id binds;
    } rows[] = {
        { "here 7 are left and a request costs 2: three more; x has four more",
          { WEIR_ALLOW, 1, 4, 0 },
          { WEIR_ALLOW, 1, 9, 0 },
          1 },
        { "x has three more as well, and comes first", { WEIR_ALLOW, 1, 3, 0 }, { WEIR_ALLOW, 1, 9, 0 }, 0 },
        { "y has three more as well, and comes last", { WEIR_ALLOW, 1, 9, 0 }, { WEIR_ALLOW, 1, 3, 0 }, 1 },
        { "y has two more", { WEIR_ALLOW, 1, 9, 0 }, { WEIR_ALLOW, 3, 8, 0 }, 2 },
        { "what costs nothing leaves any number", { WEIR_ALLOW, 0, 0, 0 }, { WEIR_ALLOW, 0, 0, 0 }, 1 },
        { "a denial", { WEIR_DENY, 1, 0, 3 }, { WEIR_ALLOW, 1, 0, 0 }, 0 },
        { "the later retry", { WEIR_DENY, 1, 0, 3 }, { WEIR_DENY, 1, 0, 4 }, 2 },
        { "of two alike the first", { WEIR_DENY, 1, 0, 3 }, { WEIR_DENY, 1, 0, 3 }, 0 },
        { "never outranks a denial", { WEIR_DENY, 1, 0, 9 }, { WEIR_NEVER, 1, 0, 0 }, 2 },
        { "a denial outranks a store that is away", { WEIR_REFUSED, 1, 0, 9 }, { WEIR_DENY, 1, 0, 4 }, 2 },
        { "a store that is away outranks what passes", { WEIR_REFUSED, 1, 0, 9 }, { WEIR_ALLOW, 1, 0, 4 }, 0 },
        { "uncounted outranks counted", { WEIR_ALLOW, 1, 0, 0 }, { WEIR_UNMETERED, 1, 0, 0 }, 2 },
        { "a duplicate binds last", { WEIR_DUPLICATE, 1, 0, 0 }, { WEIR_DUPLICATE, 1, 0, 0 }, 1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct door *door = open_door(text);
        struct weir_request request = { .cost = 1 };
        assert_int_equal(begin(door, &request, SEC), 0);
        door->met[0] =
            (struct weir_shared_met){ 0, rows[i].x.cost, false,
                                      says(rows[i].x.outcome, rows[i].x.remaining, rows[i].x.retry_at) };
        door->met[1] =
            (struct weir_shared_met){ 2, rows[i].y.cost, false,
                                      says(rows[i].y.outcome, rows[i].y.remaining, rows[i].y.retry_at) };
        weir_contract_end(door->loaded.contract, door->shared.rules, door->met, 2, &door->waiter, SEC,
                          &door->answer);
        expect_row(door->answer.decision.limit == rows[i].binds, rows[i].why);
        for (size_t k = 0; k < 3; k++)
            expect_row(door->answer.each[k].limit == (weir_limit_id)k, rows[i].why);
        close_door(door);
    }
}

/* ---- Waiting ------------------------------------------------------------------------------------------------------------------- */

static const char waits[] =
    "weir: 1\nlimits:\n"
    " - { name: here, key: [], rate: 1/s, burst: 1, wait: { up-to: 10s, queue: 9 } }\n"
    " - { name: fleet, key: [], rate: 1/h, burst: 5, scope: fleet, when-store-fails: closed }\n";

static void wait_here_then_ask_the_store(void **state)
{
    (void)state;
    static const enum weir_outcome stores[] = { WEIR_ALLOW, WEIR_DENY };
    for (size_t i = 0; i < COUNT_OF(stores); i++) {
        struct door *door = open_door(waits);
        struct weir *limiter = weir_contract_limiter(door->loaded.contract);
        struct weir_request request = { .cost = 1, .wait = 5 * SEC };
        assert_int_equal(begin(door, &request, SEC), 0);
        assert_int_equal(door->answer.decision.outcome, WEIR_ALLOW);
        end_with(door, says(WEIR_ALLOW, 4, SEC), SEC);
        assert_int_equal(begin(door, &request, SEC), 0);
        assert_int_equal(door->answer.decision.outcome, WEIR_WAIT);
        assert_int_equal(door->shared.count, 0);
        assert_int_equal(weir_wait_tick(limiter, 2 * SEC, 9), 1);
        assert_true(door->waiter.is_tentative);
        assert_int_equal(door->waiter.decision.outcome, WEIR_ALLOW);
        assert_int_equal(weir_contract_shared(door->loaded.contract, &request, &door->shared), 0);
        assert_int_equal(door->shared.count, 1);
        end_with(door, says(stores[i], 3, 60 * SEC), 2 * SEC);
        assert_int_equal(door->answer.decision.outcome, stores[i]);
        assert_int_equal(door->answer.count, 2);
        request.is_peek = true; /* the token of second 2 is spent, or back */
        assert_int_equal(begin(door, &request, 2 * SEC), 0);
        assert_int_equal(door->answer.each[0].remaining, stores[i] == WEIR_ALLOW ? 0 : 1);
        close_door(door);
    }
}

static void a_wait_that_ends_in_vain(void **state)
{
    (void)state;
    struct door *door = open_door(waits);
    struct weir_request request = { .cost = 1, .wait = SEC / 2 };
    assert_int_equal(begin(door, &request, SEC), 0);
    end_with(door, says(WEIR_ALLOW, 4, SEC), SEC);
    assert_int_equal(begin(door, &request, SEC), 0); /* its turn would be too late */
    assert_int_equal(door->answer.decision.outcome, WEIR_DENY);
    assert_int_equal(door->shared.count, 0);
    assert_int_equal(door->answer.count, 1);
    close_door(door);
}

/* ---- Reload in between --------------------------------------------------------------------------------------------------------- */

static void reload(struct weir_contract *contract, const char *text, weir_ns now)
{
    struct weir_diagnostics *diagnostics;
    assert_int_equal(weir_contract_reload(contract, text, strlen(text), "t.yaml", now, NULL, &diagnostics), 0);
    weir_diagnostics_free(diagnostics);
}

/* The answer is in the words of the rules under which the store was asked. */
static void a_reload_while_the_store_is_asked(void **state)
{
    (void)state;
    static const char before[] =
        "weir: 1\nlimits:\n"
        " - { name: here, key: [], rate: 1/h, burst: 5 }\n"
        " - { name: fleet, key: [], rate: 1/h, burst: 5, scope: fleet, when-store-fails: closed }\n";
    static const char after[] =
        "weir: 1\nlimits:\n"
        " - { name: new, key: [], rate: 1/h, burst: 50 }\n"
        " - { name: fleet, key: [], rate: 1/h, burst: 6, scope: fleet, when-store-fails: open }\n"
        " - { name: here, key: [], rate: 1/h, burst: 7 }\n";
    static const enum weir_outcome stores[] = { WEIR_ALLOW, WEIR_DENY };
    for (size_t i = 0; i < COUNT_OF(stores); i++) {
        struct door *door = open_door(before);
        struct weir_request request = { .cost = 2 };
        assert_int_equal(begin(door, &request, SEC), 0);
        reload(door->loaded.contract, after, SEC);
        end_with(door, says(stores[i], 3, 60 * SEC), SEC);
        assert_int_equal(door->answer.decision.outcome, stores[i]);
        assert_int_equal(door->answer.count, 2);
        assert_string_equal(door->answer.limits[door->answer.each[0].limit].name, "here");
        assert_string_equal(door->answer.limits[door->answer.each[1].limit].name, "fleet");
        weir_contract_quiesce(door->loaded.contract, SEC);
        request.is_peek = true;
        assert_int_equal(begin(door, &request, SEC), 0);
        assert_int_equal(door->shared.count, 1);
        assert_int_equal(door->shared.asks[0].limit, 1);
        assert_int_equal(door->waiter.count, 2);
        assert_int_equal(door->waiter.parts[1].decision.remaining, stores[i] == WEIR_ALLOW ? 5 : 7);
        close_door(door);
    }
}

/* Who waits over a reload that takes the shared limits away is kept all the same. */
static void a_reload_that_ends_sharing(void **state)
{
    (void)state;
    static const char after[] =
        "weir: 1\nlimits:\n - { name: here, key: [], rate: 1/s, burst: 1, wait: { up-to: 10s, queue: 9 } }\n";
    struct door *door = open_door(waits);
    struct weir_request request = { .cost = 1, .wait = 5 * SEC };
    assert_int_equal(begin(door, &request, SEC), 0);
    end_with(door, says(WEIR_ALLOW, 4, SEC), SEC);
    assert_int_equal(begin(door, &request, SEC), 0);
    assert_int_equal(door->answer.decision.outcome, WEIR_WAIT);
    reload(door->loaded.contract, after, SEC);
    weir_contract_quiesce(door->loaded.contract, SEC);
    assert_int_equal(weir_wait_tick(weir_contract_limiter(door->loaded.contract), 2 * SEC, 9), 1);
    assert_int_equal(weir_contract_shared(door->loaded.contract, &request, &door->shared), 0);
    assert_int_equal(door->shared.count, 0);
    end_with(door, says(WEIR_ALLOW, 0, 0), 2 * SEC);
    assert_int_equal(door->answer.decision.outcome, WEIR_ALLOW);
    assert_int_equal(door->answer.count, 1);
    assert_int_equal(door->answer.decision.remaining, 0);
    close_door(door);
}

/* ---- Reservations ------------------------------------------------------------------------------------------------------------- */

static void a_reservation_of_both(void **state)
{
    (void)state;
    static const char text[] =
        "weir: 1\nlimits:\n"
        " - { name: here, key: [], rate: 1/h, burst: 100, cost: { from: tokens } }\n"
        " - { name: fleet, key: [], rate: 1/h, burst: 100, scope: fleet, when-store-fails: closed }\n";
    struct door *door = open_door(text);
    struct weir *limiter = weir_contract_limiter(door->loaded.contract);
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    struct weir_reservation ticket;
    struct weir_settlement settlement;
    char asked[] = "tokens=30";
    struct weir_request request = request_of(asked, attributes, 1);
    assert_int_equal(begin(door, &request, SEC), 0);
    assert_false(door->shared.asks[0]
                     .is_estimate); /* a limit was met whose cost is an attribute's: only that is settled */
    end_with(door, says(WEIR_ALLOW, 50, SEC), SEC);
    weir_waiter_reservation(limiter, &door->waiter, 60 * SEC, &ticket);
    assert_int_not_equal(ticket.len, 0);
    assert_int_equal(weir_settle(limiter, ticket.bytes, ticket.len, 10, SEC, &settlement), 0);
    assert_int_equal(settlement.returned, 20);
    assert_int_equal(settlement.remaining, 90);
    close_door(door);
}

/* ---- As in one process --------------------------------------------------------------------------------------------------------- */

/*
 * The store of these requests is another contract that holds the shared limits alone. Whatever comes, the door must answer as a
 * process that counts all of them by itself, but for what is left out where a limit of this process refuses.
 */
static const char *const lines[] = {
    " - { name: l0, key: [tenant], rate: 3/s, burst: 4%s }\n",
    " - { name: l1, key: [], rate: 7/s, burst: 9%s }\n",
    " - { name: l2, key: [tenant], algorithm: fixed-window, rate: 6/2s%s }\n",
    " - { name: l3, key: [path], algorithm: sliding-window, rate: 8/3s, missing-key: share%s }\n",
    " - { name: l4, key: [tenant], algorithm: sliding-log, rate: 5/2s, cost: 1%s }\n",
    " - { name: l5, key: [tenant], rate: 2/s, burst: 3, enforce: shadow%s }\n",
    " - { name: l6, key: [tenant], rate: 4/s, burst: 6, retries: { free-within: 1s }%s }\n",
    " - { name: l7, key: [], rate: 5/s, burst: 9, cost: { from: tokens }%s }\n",
};
#define LINES COUNT_OF(lines)

static void make_text(uint64_t chosen, uint64_t fleet, bool only_fleet, char *out, size_t size)
{
    size_t len = (size_t)snprintf(out, size, "weir: 1\nlimits:\n");
    for (size_t i = 0; i < LINES; i++)
        if ((chosen >> i & 1) != 0 && (!only_fleet || (fleet >> i & 1) != 0))
            len += (size_t)snprintf(
                out + len, size - len, lines[i],
                (fleet >> i & 1) != 0 && !only_fleet ? ", scope: fleet, when-store-fails: closed" : "");
    assert_true(len < size);
}

/* What the store says: its own contract's decisions, under the ids of the questions. */
static void ask_store(struct door *door, const struct weir_contract *store, const struct weir_request *request,
                      weir_ns now)
{
    struct weir_answer answer;
    assert_int_equal(weir_contract_decide(store, request, now, &answer), 0);
    assert_int_equal(answer.count, door->shared.count);
    for (size_t i = 0; i < door->shared.count; i++) {
        assert_string_equal(answer.limits[answer.each[i].limit].name,
                            door->shared.limits[door->shared.asks[i].limit].name);
        door->met[i] = (struct weir_shared_met){ door->shared.asks[i].limit, door->shared.asks[i].cost,
                                                 door->shared.asks[i].is_watched, answer.each[i] };
    }
    weir_contract_end(door->loaded.contract, door->shared.rules, door->met, door->shared.count, &door->waiter,
                      now, &door->answer);
}

static bool same_decision(const struct weir_decision *x, const struct weir_decision *y)
{
    return x->outcome == y->outcome && x->policy == y->policy && x->reason == y->reason && x->limit == y->limit
           && x->capacity == y->capacity && x->remaining == y->remaining && x->decided_at == y->decided_at
           && x->retry_at == y->retry_at && x->reset_at == y->reset_at;
}

static void check_same(const struct door *door, const struct weir_answer *alone, uint64_t seed)
{
    const struct weir_answer *both = &door->answer;
    bool is_same = same_decision(&both->decision, &alone->decision) && both->count == alone->count
                   && both->watched == alone->watched;
    for (size_t i = 0; is_same && i < both->count; i++)
        is_same = same_decision(&both->each[i], &alone->each[i]);
    if (!is_same)
        fail_msg("seed %llu: %s by %d, %zu limits; one process says %s by %d, %zu limits",
                 (unsigned long long)seed, weir_outcome_name(both->decision.outcome), both->decision.limit,
                 both->count, weir_outcome_name(alone->decision.outcome), alone->decision.limit, alone->count);
}

static void run_as_one(uint64_t seed)
{
    struct random random = { seed };
    uint64_t chosen = random_below(&random, (1 << LINES) - 1) + 1, fleet = random_u64(&random);
    char text[2048];
    if ((chosen & fleet & ((1 << LINES) - 1)) == 0)
        return;
    make_text(chosen, fleet, false, text, sizeof text);
    struct door *door = open_door(text);
    struct weir_contract *alone = load_as(text, WEIR_FLEET_ALONE);
    make_text(chosen, fleet, true, text, sizeof text);
    struct weir_contract *store = load_as(text, WEIR_FLEET_ALONE);
    weir_ns now = SEC;
    unsigned asked = 0;
    for (int i = 0; i < 150; i++) {
        static const char *const tenants[] = { "tenant=a ", "tenant=b ", "" };
        char words[100];
        struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
        struct weir_answer answer;
        now += random_below(&random, 4) == 0 ? random_below(&random, 700 * WEIR_MILLISECOND) : 0;
        snprintf(words, sizeof words, "%spath=/%d request-id=r%d tokens=%d", tenants[random_below(&random, 3)],
                 (int)random_below(&random, 2), (int)random_below(&random, 20), (int)random_below(&random, 5));
        struct weir_request request = request_of(words, attributes, random_below(&random, 4));
        request.is_peek = random_below(&random, 8) == 0;
        assert_int_equal(weir_contract_decide(alone, &request, now, &answer), 0);
        assert_int_equal(begin(door, &request, now), 0);
        if (door->shared.count > 0) {
            ask_store(door, store, &request, now);
            check_same(door, &answer, seed);
            asked++;
        } else {
            bool passes = answer.decision.outcome == WEIR_ALLOW || answer.decision.outcome == WEIR_DUPLICATE;
            bool passed =
                door->answer.decision.outcome == WEIR_ALLOW || door->answer.decision.outcome == WEIR_DUPLICATE;
            assert_int_equal(passed, passes);
        }
    }
    assert_true(asked > 0);
    weir_contract_free(alone);
    weir_contract_free(store);
    close_door(door);
}

static void a_store_that_counts_alike_answers_alike(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++)
        run_as_one(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_store_refuses_is_undone),
        cmocka_unit_test(what_the_store_lets_pass_is_kept),
        cmocka_unit_test(retries_count_from_what_passed),
        cmocka_unit_test(questions_say_what_the_store_needs),
        cmocka_unit_test(one_key_by_its_name),
        cmocka_unit_test(requests_without_their_key),
        cmocka_unit_test(only_shared_limits),
        cmocka_unit_test(looks_charge_nothing),
        cmocka_unit_test(watched_limits_never_bind),
        cmocka_unit_test(what_binds),
        cmocka_unit_test(wait_here_then_ask_the_store),
        cmocka_unit_test(a_wait_that_ends_in_vain),
        cmocka_unit_test(a_reload_while_the_store_is_asked),
        cmocka_unit_test(a_reload_that_ends_sharing),
        cmocka_unit_test(a_reservation_of_both),
        cmocka_unit_test(a_store_that_counts_alike_answers_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
