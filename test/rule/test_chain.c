// SPDX-License-Identifier: Apache-2.0
/*
 * test_chain.c - several requests decided as one: who is charged what, and who is told what.
 *
 * A chain is written as text: "a=x | 3 b=y | peek c=z": requests with a bar between them, each with its cost (1) and its attributes.
 */
#include "support/contracts.h"
#include "support/random.h"
#include "support/unit.h"

#define S WEIR_SECOND

struct chain {
    char text[8192];
    size_t count;
    struct weir_request requests[WEIR_ASKS_MAX + 1];
    struct weir_attribute attributes[WEIR_ASKS_MAX + 1][WEIR_ATTRIBUTES_MAX];
};

static const struct weir_request *chain_of(struct chain *chain, const char *text)
{
    char *rest;
    assert_true(strlen(text) < sizeof chain->text);
    strcpy(chain->text, text);
    chain->count = 0;
    for (char *part = strtok_r(chain->text, "|", &rest); part != NULL; part = strtok_r(NULL, "|", &rest)) {
        struct weir_request *request = &chain->requests[chain->count];
        assert_true(chain->count < WEIR_ASKS_MAX + 1);
        *request = (struct weir_request){ .attributes = chain->attributes[chain->count], .cost = 1 };
        part += strspn(part, " ");
        if (strncmp(part, "peek ", 5) == 0) {
            request->is_peek = true;
            part += 5;
        }
        if (*part >= '0' && *part <= '9')
            request->cost = strtoull(part, &part, 10);
        request->attribute_count = attributes_of(part, chain->attributes[chain->count]);
        if (chain->count++ > 0)
            request[-1].also = request;
    }
    return chain->requests;
}

/* "LIMIT.ASKER=REMAINING" of each, '!' behind one that refuses, '~' before a watched one. */
static void show(const struct weir_answer *answer, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < answer->count; i++) {
        const struct weir_decision *each = &answer->each[i];
        bool passes = each->outcome == WEIR_ALLOW || each->outcome == WEIR_DUPLICATE;
        len += (size_t)snprintf(out + len, size - len, "%s%s%s.%u=%llu%s", i == 0 ? "" : " ",
                                (answer->watched >> i & 1) != 0 ? "~" : "",
                                each->limit == WEIR_NO_LIMIT ? "own" : answer->limits[each->limit].name,
                                answer->asked_by[i], (unsigned long long)each->remaining, passes ? "" : "!");
    }
}

static struct weir_answer decide(const struct weir_contract *contract, const char *text, weir_ns now)
{
    static struct chain chain;
    struct weir_answer answer;
    int error = weir_contract_decide(contract, chain_of(&chain, text), now, &answer);
    if (error != 0)
        fail_msg("%s: %s", text, weir_error_name(error));
    return answer;
}

/* ---- Numbers ---------------------------------------------------------------------------------------------------------------- */

static const char several[] =
    "weir: 1\n"
    "limits:\n"
    "- { name: a, key: [a], rate: 10/d, algorithm: fixed-window }\n"
    "- { name: b, key: [b], rate: 10/d, algorithm: fixed-window }\n"
    "- { name: c, key: [c], rate: 10/d, burst: 10, cost: 2 }\n"
    "- { name: w, key: [w], rate: 10/d, burst: 10, enforce: shadow }\n"
    "- { name: m, key: [user], when: { m: present }, missing-key: refuse, rate: 10/d, burst: 10 }\n"
    "- { name: p, key: [p], algorithm: concurrency, at-most: 10, hold: 1m }\n";

static void numbers_of_a_chain(void **state)
{
    (void)state;
    static const struct {
        const char *why, *first, *chain;
        enum weir_outcome outcome;
        const char *each;
    } rows[] = {
        { "each is charged", NULL, "a=x | 3 b=x", WEIR_ALLOW, "a.0=9 b.1=7" },
        { "contract order, whoever asks", NULL, "3 b=x | a=x", WEIR_ALLOW, "a.1=9 b.0=7" },
        { "keys apart", NULL, "a=x | a=y", WEIR_ALLOW, "a.0=9 a.1=9" },
        { "one key: costs are added, and both are told of the sum", NULL, "4 a=x | 5 a=x", WEIR_ALLOW,
          "a.0=1 a.1=1" },
        { "three, two of one key", NULL, "4 a=x | a=y | 5 a=x", WEIR_ALLOW, "a.0=1 a.1=9 a.2=1" },
        { "a sum above the limit can never pass", NULL, "6 a=x | 5 a=x", WEIR_NEVER, "a.0=10! a.1=10!" },
        { "a sum that was spent in part is denied, the other limit is whole", "5 a=x", "3 a=x | 3 a=x | b=x",
          WEIR_DENY, "a.0=5! a.1=5! b.2=10" },
        { "one member, two limits", NULL, "a=x b=x | b=x", WEIR_ALLOW, "a.0=9 b.0=8 b.1=8" },
        { "a cost of the limit's own counts for each", NULL, "c=x | c=x", WEIR_ALLOW, "c.0=6 c.1=6" },
        { "a member that looks asks nothing", NULL, "a=x | peek c=x", WEIR_ALLOW, "a.0=9 c.1=10" },
        { "it is not refused where nothing is left", "10 c=x", "a=x | peek c=x", WEIR_ALLOW, "a.0=9 c.1=8" },
        { "nor where the first looks", NULL, "peek a=x | 2 b=x", WEIR_ALLOW, "a.0=10 b.1=8" },
        { "beside one of the same key that is charged", NULL, "peek a=x | 2 a=x", WEIR_ALLOW, "a.0=8 a.1=8" },
        { "all look: what they would get", "8 a=x", "peek 2 a=x | peek 2 a=x", WEIR_DENY, "a.0=2! a.1=2!" },
        { "all look: nothing is charged", NULL, "peek 2 a=x | peek b=x", WEIR_ALLOW, "a.0=10 b.1=10" },
        { "a watched one counts the sum", NULL, "4 w=x | 5 w=x", WEIR_ALLOW, "~w.0=1 ~w.1=1" },
        { "and refuses nobody", NULL, "6 w=x | 5 w=x | a=x", WEIR_ALLOW, "a.2=9 ~w.0=10! ~w.1=10!" },
        { "a watched one beside a refusal takes nothing", "10 a=x", "a=x | w=x", WEIR_DENY, "a.0=0! ~w.1=10" },
        { "a missing key refuses all", NULL, "a=x | m=1", WEIR_NEVER, "a.0=10 m.1=0!" },
        { "of the first, too", NULL, "m=1 | a=x", WEIR_NEVER, "a.1=10 m.0=0!" },
        { "permits are only looked at", NULL, "p=x | 4 a=x", WEIR_ALLOW, "a.1=6 p.0=10" },
        { "some meet nothing", NULL, "z=x | a=x | z=y", WEIR_ALLOW, "a.1=9" },
        { "all meet nothing", NULL, "z=x | z=y", WEIR_ALLOW, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct loaded loaded = contract_from(several, 0);
        char each[512];
        if (loaded.error != 0)
            fail_msg("%s", loaded.printed);
        if (rows[i].first != NULL)
            (void)decide(loaded.contract, rows[i].first, S);
        struct weir_answer answer = decide(loaded.contract, rows[i].chain, S);
        show(&answer, each, sizeof each);
        if (answer.decision.outcome != rows[i].outcome || strcmp(each, rows[i].each) != 0)
            fail_msg("%s: %s: outcome %d, %s, not %s", rows[i].why, rows[i].chain, (int)answer.decision.outcome,
                     each, rows[i].each);

        /* The same of a caller who could wait, of one who asks the store (there is none), and of one who reserves. */
        struct loaded again = contract_from(several, 0);
        static struct chain chain;
        static struct weir_waiter_part parts[WEIR_ASKS_MAX];
        struct weir_waiter waiter = { .parts = parts, .part_room = WEIR_ASKS_MAX };
        static struct weir_shared shared;
        static struct weir_reservation ticket;
        if (rows[i].first != NULL)
            (void)decide(again.contract, rows[i].first, S);
        int error;
        const struct weir_request *request = chain_of(&chain, rows[i].chain);
        if (i % 3 == 0)
            error = weir_contract_wait(again.contract, request, S, &waiter, &answer);
        else if (i % 3 == 1)
            error = weir_contract_begin(again.contract, request, S, &waiter, &answer, &shared);
        else
            error = weir_contract_reserve(again.contract, request, S, S, &answer, &ticket);
        assert_int_equal(error, 0);
        show(&answer, each, sizeof each);
        if (answer.decision.outcome != rows[i].outcome || strcmp(each, rows[i].each) != 0)
            fail_msg("%s: %s: by another way %s, not %s", rows[i].why, rows[i].chain, each, rows[i].each);
        loaded_free(&again);
        loaded_free(&loaded);
    }
}

/* Limits of every kind in a row, one of them spent: nothing is charged wherever that one stands, in the contract and in the chain. */
static void all_or_nothing_at_every_place(void **state)
{
    (void)state;
    static const char *const kinds[] = { "algorithm: fixed-window, rate: 5/d",
                                         "algorithm: sliding-window, rate: 5/d",
                                         "algorithm: sliding-log, rate: 5/d", "rate: 5/d, burst: 5",
                                         "algorithm: concurrency, at-most: 5, hold: 1m" };
    enum { N = 5 };
    for (int spent = 0; spent < N; spent++)
        for (int shift = 0; shift < N; shift++) {
            char text[1024] = "weir: 1\nlimits:\n", chain[256] = "";
            static struct chain read;
            struct weir_answer answer;
            struct weir_permit permit;
            for (int i = 0; i < N; i++)
                snprintf(text + strlen(text), sizeof text - strlen(text), "- { name: l%d, key: [k%d], %s }\n",
                         i, i, kinds[i]);
            for (int i = 0; i < N; i++)
                snprintf(chain + strlen(chain), sizeof chain - strlen(chain), "%s2 k%d=x", i == 0 ? "" : " | ",
                         (i + shift) % N);
            struct loaded loaded = contract_from(text, 0);
            if (loaded.error != 0)
                fail_msg("%s", loaded.printed);
            char first[32];
            snprintf(first, sizeof first, "4 k%d=x", spent);
            assert_int_equal(
                weir_contract_acquire(loaded.contract, chain_of(&read, first), S, &answer, &permit), 0);
            assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
            for (int again = 0; again < 3; again++) {
                assert_int_equal(
                    weir_contract_acquire(loaded.contract, chain_of(&read, chain), S, &answer, &permit), 0);
                assert_int_equal(answer.decision.outcome, WEIR_DENY);
                assert_int_equal(answer.decision.limit, spent);
                assert_int_equal(answer.count, N);
                for (int i = 0; i < N; i++) {
                    assert_int_equal(answer.each[i].limit, i);
                    assert_int_equal(answer.asked_by[i], (i - shift + N) % N);
                    assert_int_equal(answer.each[i].remaining, i == spent ? 1 : 5);
                }
            }
            loaded_free(&loaded);
        }
}

/* ---- Against a model -------------------------------------------------------------------------------------------------------- */

#define LIMITS 4
#define KEYS 3

/* Windows of a day that nothing leaves: used counts, limit 3 is watched, limit 2 is the fleet's where there is one. */
struct model {
    uint64_t used[LIMITS][KEYS];
};
static const uint64_t holds[LIMITS] = { 9, 14, 11, 6 };

struct member {
    uint64_t cost;
    int keys[LIMITS]; /* -1: it does not meet the limit */
    bool is_peek;
};

/* All or nothing: what limits that enforce hold; a watched one takes what it can where the others pass. */
static bool model_decide(struct model *model, const struct member *members, size_t count)
{
    uint64_t sums[LIMITS][KEYS] = { { 0 } };
    bool passes = true, all_peek = true;
    for (size_t k = 0; k < count; k++)
        all_peek = all_peek && members[k].is_peek;
    for (size_t k = 0; k < count; k++)
        for (int l = 0; l < LIMITS; l++)
            if (members[k].keys[l] >= 0 && (all_peek || !members[k].is_peek))
                sums[l][members[k].keys[l]] += members[k].cost;
    for (int l = 0; l < LIMITS - 1; l++)
        for (int i = 0; i < KEYS; i++)
            passes = passes && (sums[l][i] == 0 || model->used[l][i] + sums[l][i] <= holds[l]);
    for (int l = 0; l < LIMITS && passes && !all_peek; l++)
        for (int i = 0; i < KEYS; i++)
            if (model->used[l][i] + sums[l][i] <= holds[l])
                model->used[l][i] += sums[l][i];
    return passes;
}

static size_t make_members(struct random *random, struct member *out)
{
    size_t count = 1 + random_below(random, 5);
    for (size_t k = 0; k < count; k++) {
        out[k].cost = random_below(random, 4);
        out[k].is_peek = random_below(random, 6) == 0;
        for (int l = 0; l < LIMITS; l++)
            out[k].keys[l] = random_below(random, 2) == 0 ? -1 : (int)random_below(random, KEYS);
    }
    return count;
}

static void write_members(const struct member *members, size_t count, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t k = 0; k < count; k++) {
        snprintf(out + strlen(out), size - strlen(out), "%s%s%llu z=z", k == 0 ? "" : " | ",
                 members[k].is_peek ? "peek " : "", (unsigned long long)members[k].cost);
        for (int l = 0; l < LIMITS; l++)
            if (members[k].keys[l] >= 0)
                snprintf(out + strlen(out), size - strlen(out), " k%d=%d", l, members[k].keys[l]);
    }
}

/* Who asked whom: exactly those who have the limit's key, in order. */
static void check_answer(const struct weir_answer *answer, const struct member *members, size_t count,
                         const struct model *model, bool passes, const char *text)
{
    size_t at = 0;
    for (int l = 0; l < LIMITS; l++)
        for (size_t k = 0; k < count; k++) {
            if (members[k].keys[l] < 0)
                continue;
            uint64_t left = holds[l] - model->used[l][members[k].keys[l]];
            if (at == answer->count || answer->each[at].limit != l || answer->asked_by[at] != k
                || answer->each[at].remaining != left)
                fail_msg("%s: each[%zu] is not limit %d of request %zu with %llu left", text, at, l, k,
                         (unsigned long long)left);
            assert_int_equal(answer->watched >> at & 1, l == LIMITS - 1);
            at++;
        }
    assert_int_equal(at, answer->count);
    bool is_allowed = answer->decision.outcome == WEIR_ALLOW;
    if (is_allowed != passes)
        fail_msg("%s: outcome %d, the model says %d", text, (int)answer->decision.outcome, passes);
}

static void write_contract(char *text, size_t size, bool is_fleet)
{
    snprintf(text, size, "weir: 1\nlimits:\n");
    for (int l = 0; l < LIMITS; l++)
        snprintf(text + strlen(text), size - strlen(text),
                 "- { name: l%d, key: [k%d], algorithm: fixed-window, rate: %llu/d%s%s }\n", l, l,
                 (unsigned long long)holds[l], l == LIMITS - 1 ? ", enforce: shadow" : "",
                 is_fleet && l == 2 ? ", scope: fleet, when-store-fails: closed" : "");
}

static void random_chains_as_a_model(void **state)
{
    (void)state;
    struct random random = { random_seed(88) };
    for (int run = 0; run < 300; run++) {
        char text[1024], chain_text[1024];
        struct model model = { { { 0 } } };
        write_contract(text, sizeof text, false);
        struct loaded loaded = contract_from(text, 0);
        for (int step = 0; step < 12; step++) {
            struct member members[8];
            size_t count = make_members(&random, members);
            write_members(members, count, chain_text, sizeof chain_text);
            bool passes = model_decide(&model, members, count);
            struct weir_answer answer = decide(loaded.contract, chain_text, S);
            check_answer(&answer, members, count, &model, passes, chain_text);
        }
        loaded_free(&loaded);
    }
}

/* The store of limit 2 as the model has it, before this chain. */
static void answer_of_store(const struct weir_shared *shared, const struct model *before, bool takes,
                            struct weir_shared_met *met)
{
    for (size_t i = 0; i < shared->count; i++) {
        const struct weir_shared_ask *ask = &shared->asks[i];
        assert_int_equal(ask->limit, 2);
        int key = ask->key[2] - '0'; /* two bytes of length, one of the value */
        uint64_t left = holds[2] - before->used[2][key];
        met[i] = (struct weir_shared_met){ .limit = ask->limit, .cost = ask->cost, .asked_by = ask->asked_by };
        met[i].decision = (struct weir_decision){ .outcome = ask->cost > holds[2] ? WEIR_NEVER
                                                             : ask->cost <= left  ? WEIR_ALLOW
                                                                                  : WEIR_DENY,
                                                  .limit = 2,
                                                  .capacity = holds[2],
                                                  .remaining = takes ? left - ask->cost : left };
    }
}

/* With a limit of the fleet among them: begun here, asked of a store, kept or undone. Reloads come in between. */
static void random_chains_of_a_fleet(void **state)
{
    (void)state;
    struct random random = { random_seed(89) };
    char text[1024], chain_text[1024];
    write_contract(text, sizeof text, true);
    const struct weir_contract_options options = {
        .keys = 64, .has_wall_offset = true, .fleet = WEIR_FLEET_SHARED, .has_store = true
    };
    for (int run = 0; run < 300; run++) {
        struct model model = { { { 0 } } };
        struct loaded loaded = contract_with(text, strlen(text), &options);
        if (loaded.error != 0)
            fail_msg("%s", loaded.printed);
        for (int step = 0; step < 12; step++) {
            static struct chain chain;
            static struct weir_shared shared;
            static struct weir_waiter_part parts[WEIR_ASKS_MAX];
            struct weir_waiter waiter = { .parts = parts, .part_room = WEIR_ASKS_MAX };
            struct weir_shared_met met[WEIR_ASKS_MAX];
            struct weir_answer answer;
            struct member members[8];
            size_t count = make_members(&random, members);
            const struct model before = model;
            write_members(members, count, chain_text, sizeof chain_text);
            bool passes = model_decide(&model, members, count);
            const struct weir_request *request = chain_of(&chain, chain_text);
            assert_int_equal(weir_contract_begin(loaded.contract, request, S, &waiter, &answer, &shared), 0);
            if (shared.count
                == 0) { /* refused here, or no limit of the fleet was met: left out of the answer */
                for (size_t k = 0; k < count && answer.decision.outcome != WEIR_ALLOW; k++)
                    members[k].keys[2] = -1;
                check_answer(&answer, members, count, &model, passes, chain_text);
                continue;
            }
            bool takes = passes && !weir_request_is_peek(request);
            answer_of_store(&shared, &before, takes, met);
            if (random_below(&random, 4) == 0) {
                struct weir_reload reload;
                assert_int_equal(
                    weir_contract_reload(loaded.contract, text, strlen(text), "t.yaml", S, &reload, NULL), 0);
                weir_contract_end(loaded.contract, shared.rules, met, shared.count, &waiter, S, &answer);
                check_answer(&answer, members, count, &model, passes, chain_text);
                weir_contract_quiesce(loaded.contract, S);
                weir_contract_retire(loaded.contract);
                continue;
            }
            weir_contract_end(loaded.contract, shared.rules, met, shared.count, &waiter, S, &answer);
            check_answer(&answer, members, count, &model, passes, chain_text);
        }
        loaded_free(&loaded);
    }
}

/* ---- The rest ---------------------------------------------------------------------------------------------------------------- */

static void permits_of_a_chain_are_one(void **state)
{
    (void)state;
    struct loaded loaded = contract_from(several, 0);
    static struct chain chain;
    struct weir_answer answer;
    struct weir_permit permit;
    bool was_held;
    char each[256];
    assert_int_equal(
        weir_contract_acquire(loaded.contract, chain_of(&chain, "4 p=x | 5 p=x | p=y"), S, &answer, &permit),
        0);
    show(&answer, each, sizeof each);
    assert_string_equal(each, "p.0=1 p.1=1 p.2=9");
    assert_int_equal(
        weir_contract_acquire(loaded.contract, chain_of(&chain, "p=y | 2 p=x"), S, &answer, &permit), 0);
    assert_int_equal(answer.decision.outcome, WEIR_DENY);
    assert_int_equal(permit.len, 0);
    loaded_free(&loaded);
    (void)was_held;
}

static void a_refund_gives_each_its_own(void **state)
{
    (void)state;
    struct loaded loaded = contract_from(several, 0);
    static struct chain chain;
    struct weir_settlement settlement;
    char each[256];
    (void)decide(loaded.contract, "4 a=x | 5 a=x | 6 b=x | c=x", S);
    assert_int_equal(weir_contract_refund(loaded.contract, chain_of(&chain, "2 a=x | 1 a=x | 6 b=x | 1 c=x"), S,
                                          &settlement),
                     0);
    struct weir_answer answer = decide(loaded.contract, "peek 0 a=x | peek 0 b=x | peek 0 c=x", S);
    show(&answer, each, sizeof each);
    assert_string_equal(each, "a.0=4 b.1=10 c.2=8"); /* c has a cost of its own, which no refund changes */
    loaded_free(&loaded);
}

static void faults_say_whose(void **state)
{
    (void)state;
    struct loaded loaded = contract_from(several, 0);
    static struct chain chain;
    static char text[8192];
    struct weir_fault fault;
    struct weir_answer answer;
    struct weir_request *requests = chain.requests;
    (void)chain_of(&chain, "a=x | a=x b=y | a=x");
    assert_int_equal(weir_contract_validate(loaded.contract, requests, &fault), 0);
    chain.attributes[1][1].name = "B";
    assert_int_equal(weir_contract_validate(loaded.contract, requests, &fault), WEIR_ERR_ATTRIBUTE);
    assert_int_equal(fault.request, 1);
    assert_int_equal(fault.attribute, 1);
    assert_non_null(strstr(fault.message, "'B'"));
    assert_int_equal(weir_contract_decide(loaded.contract, requests, S, &answer), WEIR_ERR_ATTRIBUTE);
    (void)chain_of(&chain, "a=x | a=x");
    requests[1].cost = UINT64_MAX;
    assert_int_equal(weir_contract_validate(loaded.contract, requests, &fault), WEIR_ERR_COST);
    assert_int_equal(fault.request, 1);

    text[0] = '\0';
    for (int i = 0; i < 32; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%sa=%d b=%d", i == 0 ? "" : " | ", i, i);
    assert_int_equal(weir_contract_validate(loaded.contract, chain_of(&chain, text), &fault), 0);
    strcat(text, " | a=x");
    assert_int_equal(weir_contract_validate(loaded.contract, chain_of(&chain, text), &fault), WEIR_ERR_ASKS);
    assert_int_equal(fault.request, 32);
    assert_int_equal(weir_contract_decide(loaded.contract, requests, S, &answer), WEIR_ERR_ASKS);
    for (int i = 0; i < 33; i++) { /* nothing was charged */
        char one[32];
        snprintf(one, sizeof one, "peek 0 a=%d", i);
        assert_int_equal(decide(loaded.contract, one, S).each[0].remaining, 10);
    }
    text[0] = '\0';
    for (int i = 0; i < 65; i++)
        strcat(text, i == 0 ? "z=1" : " | z=1");
    assert_int_equal(weir_contract_validate(loaded.contract, chain_of(&chain, text), &fault), WEIR_ERR_ASKS);
    requests[63].also = NULL;
    assert_int_equal(weir_contract_validate(loaded.contract, requests, &fault), 0);
    loaded_free(&loaded);
}

/* Ids that are spelled unlike the request has them outlive the request that they are of. */
static void retries_of_a_chain(void **state)
{
    (void)state;
    static const char text[] =
        "weir: 1\n"
        "limits:\n"
        "- { name: a, key: [a], rate: 10/d, burst: 10, retries: { free-within: 1h, by: host } }\n"
        "- { name: b, key: [b], rate: 10/d, burst: 10, retries: { free-within: 1h, by: request-id } }\n";
    struct loaded loaded = contract_from(text, 0);
    char each[256];
    if (loaded.error != 0)
        fail_msg("%s", loaded.printed);
    static const struct {
        const char *why, *chain, *each;
    } rows[] = {
        { "two ids", "a=x host=ONE | a=y host=TWO | b=x request-id=1", "a.0=9 a.1=9 b.2=9" },
        { "the same again is free", "a=x host=one | a=y host=two | b=x request-id=1", "a.0=9 a.1=9 b.2=9" },
        { "others are not", "a=x host=TWO | a=y host=ONE | b=x request-id=2", "a.0=8 a.1=8 b.2=8" },
        { "some are", "a=x host=ONE | a=y host=THREE | b=x request-id=3", "a.0=8 a.1=7 b.2=7" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_answer answer = decide(loaded.contract, rows[i].chain, S);
        show(&answer, each, sizeof each);
        if (strcmp(each, rows[i].each) != 0)
            fail_msg("%s: %s, not %s", rows[i].why, each, rows[i].each);
    }
    loaded_free(&loaded);
}

static void a_chain_waits_as_one(void **state)
{
    (void)state;
    static const char text[] = "weir: 1\n"
                               "limits:\n"
                               "- { name: a, key: [a], rate: 1/s, burst: 2, wait: { up-to: 9s, queue: 9 } }\n"
                               "- { name: b, key: [b], rate: 1/s, burst: 2, wait: { up-to: 9s, queue: 9 } }\n"
                               "- { name: w, key: [b], rate: 1/d, burst: 9, enforce: shadow }\n";
    static const char reloaded[] =
        "weir: 1\n"
        "limits:\n"
        "- { name: w, key: [b], rate: 1/d, burst: 9, enforce: shadow }\n"
        "- { name: b, key: [b], rate: 1/s, burst: 2, wait: { up-to: 9s, queue: 9 } }\n"
        "- { name: a, key: [a], rate: 1/s, burst: 2, wait: { up-to: 9s, queue: 9 } }\n";
    for (int reloads = 0; reloads < 2; reloads++) {
        struct loaded loaded = contract_from(text, 0);
        static struct chain chain;
        static struct weir_waiter_part parts[WEIR_ASKS_MAX];
        struct weir_waiter waiter = { .parts = parts, .part_room = WEIR_ASKS_MAX };
        struct weir_answer answer;
        char each[256];
        if (loaded.error != 0)
            fail_msg("%s", loaded.printed);
        (void)decide(loaded.contract, "2 a=x | b=x", S);
        (void)chain_of(&chain, "a=x | b=x | a=x | b=y");
        chain.requests[0].wait = 5 * S;
        assert_int_equal(weir_contract_wait(loaded.contract, chain.requests, S, &waiter, &answer), 0);
        assert_int_equal(answer.decision.outcome, WEIR_WAIT);
        struct weir *limiter = weir_contract_limiter(loaded.contract);
        assert_int_equal(weir_wait_tick(limiter, 3 * S - 1, 9), 0); /* two of a=x take two seconds */
        if (reloads) {
            struct weir_reload reload;
            assert_int_equal(weir_contract_reload(loaded.contract, reloaded, strlen(reloaded), "t.yaml", 2 * S,
                                                  &reload, NULL),
                             0);
        }
        assert_int_equal(weir_wait_tick(limiter, 3 * S, 9), 1);
        weir_contract_waited(loaded.contract, &waiter, &answer);
        assert_int_equal(answer.decision.outcome, WEIR_ALLOW);
        show(&answer, each, sizeof each);
        assert_string_equal(each, reloads ? "~w.1=7 ~w.3=8 b.1=1 b.3=1 a.0=0 a.2=0"
                                          : "a.0=0 a.2=0 b.1=1 b.3=1 ~w.1=7 ~w.3=8");
        loaded_free(&loaded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_a_chain),         cmocka_unit_test(all_or_nothing_at_every_place),
        cmocka_unit_test(random_chains_as_a_model),   cmocka_unit_test(random_chains_of_a_fleet),
        cmocka_unit_test(permits_of_a_chain_are_one), cmocka_unit_test(a_refund_gives_each_its_own),
        cmocka_unit_test(faults_say_whose),           cmocka_unit_test(retries_of_a_chain),
        cmocka_unit_test(a_chain_waits_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
