// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_contract.c - any bytes as a contract: loaded or told why not, never a crash; what was loaded explains itself, decides,
 * gives permits and takes them back, and lets callers wait. Where a contract has limits of a fleet, one process stands for it,
 * or asks a store that answers at random or is away.
 */
#include <stdlib.h>
#include <string.h>

#include "weir_contract.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * A contract may ask for more memory than there is; here for more than fits a fuzzer. Large pieces come from calloc as
 * they are, untouched: writing zeros into eight megabytes of log rings would be most of a run.
 */
static void *allocate(void *context, size_t size, size_t alignment)
{
    (void)context;
    if (size > (size_t)64 << 20)
        return NULL;
    char *whole = calloc(1, size + alignment + sizeof(void *));
    if (whole == NULL)
        return NULL;
    uintptr_t at = ((uintptr_t)whole + sizeof(void *) + alignment - 1) / alignment * alignment;
    memcpy((char *)at - sizeof(void *), &whole, sizeof whole);
    return (char *)at;
}

static void release(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    void *whole;
    memcpy(&whole, (char *)memory - sizeof(void *), sizeof whole);
    free(whole);
}

/* Every finding is whole, stands in the text, and there is an error exactly where loading failed. */
static void check_findings(int error, const struct weir_diagnostics *diagnostics)
{
    size_t errors = 0;
    for (size_t i = 0; i < weir_diagnostics_count(diagnostics); i++) {
        const struct weir_diagnostic *item = weir_diagnostics_at(diagnostics, i);
        if (item->message == NULL || item->message[0] == '\0' || item->cure == NULL || item->cure[0] == '\0'
            || item->width == 0 || (item->line == 0) != (item->column == 0))
            abort();
        errors += item->severity == WEIR_SEVERITY_ERROR;
    }
    if ((error == WEIR_ERR_CONTRACT && errors == 0) || (error == 0 && errors > 0))
        abort();
}

static void end(struct weir_waiter *waiter)
{
    *(bool *)waiter->owner = true;
}

/* A permit comes back once, and a waiter ends once: at its turn, at its deadline, or because it left. */
static void take_turns(const struct weir_contract *contract, struct weir_request request, weir_ns now)
{
    static struct weir_waiter_part parts[WEIR_ASKS_MAX];
    struct weir *limiter = weir_contract_limiter(contract);
    struct weir_permit permit;
    struct weir_answer answer;
    bool was_held = false, has_ended = false;
    if (weir_contract_acquire(contract, &request, now, &answer, &permit) == 0 && permit.len > 0) {
        if (answer.decision.outcome == WEIR_DENY || answer.decision.outcome == WEIR_NEVER
            || answer.decision.outcome == WEIR_REFUSED)
            abort();
        if (weir_release(limiter, permit.bytes, permit.len, now, &was_held) != 0 || !was_held)
            abort();
        if (weir_release(limiter, permit.bytes, permit.len, now, &was_held) != 0 || was_held)
            abort();
    }
    struct weir_waiter waiter = {
        .parts = parts, .part_room = WEIR_ASKS_MAX, .acquires = true, .done = end, .owner = &has_ended
    };
    request.wait = WEIR_MINUTE;
    if (weir_contract_wait(contract, &request, now, &waiter, &answer) != 0)
        return;
    bool waits = answer.decision.outcome == WEIR_WAIT;
    if (waits && weir_wait_next(limiter) == WEIR_NO_TIME)
        abort();
    (void)weir_wait_tick(limiter, now + WEIR_SECOND, 10);
    if (waits && !has_ended && !weir_wait_cancel(limiter, &waiter, now + WEIR_SECOND))
        abort();
    if (weir_wait_next(limiter) != WEIR_NO_TIME || (has_ended && !waits))
        abort();
    if (has_ended)
        weir_contract_waited(contract, &waiter, &answer);
}

static bool refuses(enum weir_outcome outcome)
{
    return outcome == WEIR_DENY || outcome == WEIR_NEVER || outcome == WEIR_REFUSED;
}

/* What is asked of a store is whole, what it or a policy says becomes one answer in order, and a shadow never refuses. */
static void ask_store(const struct weir_contract *contract, const struct weir_request *request, weir_ns now,
                      enum weir_outcome says)
{
    static struct weir_shared shared;
    static struct weir_waiter_part parts[WEIR_ASKS_MAX];
    static struct weir_shared_met met[WEIR_ASKS_MAX];
    static struct weir_decision each[WEIR_ASKS_MAX];
    struct weir_outage outages[WEIR_ASKS_MAX];
    struct weir_waiter waiter = { .parts = parts, .part_room = WEIR_ASKS_MAX };
    struct weir_answer answer;
    bool is_refused = false;
    if (weir_contract_begin(contract, request, now, &waiter, &answer, &shared) != 0 || shared.count == 0)
        return;
    for (size_t i = 0; i < shared.count; i++) {
        const struct weir_shared_size *size = &shared.asks[i].size;
        if (!size->is_unlimited && (size->capacity >> 52 != 0 || size->period >> 52 != 0 || size->tick == 0))
            abort();
        outages[i] = (struct weir_outage){ 0, i % 3 };
        each[i] = (struct weir_decision){ .outcome = says, .retry_at = now };
    }
    if (says == WEIR_UNMETERED)
        weir_contract_fall_back(contract, &shared,
                                shared.count == 64 ? UINT64_MAX : (UINT64_C(1) << shared.count) - 1, outages,
                                false, now, each);
    for (size_t i = 0; i < shared.count; i++) {
        met[i] = (struct weir_shared_met){ shared.asks[i].limit, shared.asks[i].cost, shared.asks[i].is_watched,
                                           each[i] };
        is_refused = is_refused || (refuses(each[i].outcome) && !shared.asks[i].is_watched);
    }
    weir_contract_end(contract, shared.rules, met, shared.count, &waiter, now, &answer);
    if (answer.count != shared.count + waiter.count || refuses(answer.decision.outcome) != is_refused)
        abort();
    for (size_t i = 1; i < answer.count; i++)
        if (answer.each[i].limit <= answer.each[i - 1].limit)
            abort();
}

static void use(const struct weir_contract *contract, FILE *out)
{
    static const struct weir_attribute attributes[] = {
        { "tenant", "acme", 0 },         { "path", "/v1/../v1/%61//b", 0 },
        { "ip", "2001:db8::7", 0 },      { "method", "GET", 0 },
        { "host", "Example.org:80", 0 }, { "user", "x", 0 },
        { "api-key", "k-0001", 0 },      { "a", "b", 0 },
    };
    for (size_t count = 0; count <= sizeof attributes / sizeof *attributes; count++) {
        struct weir_request request = { .attributes = attributes, .attribute_count = count, .cost = 1 };
        struct weir_answer answer;
        int error = weir_contract_decide(contract, &request, count * WEIR_SECOND, &answer);
        if (error != 0 && error != WEIR_ERR_ASKS)
            abort();
        size_t watched = error == 0 ? (size_t)__builtin_popcountll(answer.watched) : 0;
        if (error == 0 && (answer.decision.limit == WEIR_NO_LIMIT) != (answer.count == watched))
            abort();
        if (error == 0)
            take_turns(contract, request, count * WEIR_SECOND);
        static const enum weir_outcome says[] = { WEIR_ALLOW, WEIR_DENY, WEIR_UNMETERED };
        ask_store(contract, &request, count * WEIR_SECOND, says[count % 3]);
        struct weir_explain_options options = { .replicas = 3, .is_json = count % 2 == 0, .request = &request };
        if (count < 2 && weir_contract_explain(contract, &options, out) != 0)
            abort();
    }
    for (size_t i = 0; i < weir_contract_limit_count(contract); i++) {
        const struct weir_contract_limit *limit = weir_contract_limit(contract, (weir_limit_id)i);
        if (limit->json[0] != '{'
            || strcmp(limit->name, weir_limit_name(weir_contract_limiter(contract), (weir_limit_id)i)) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t secret[16] = "a fuzzer's key";
    static const struct weir_allocator allocator = { allocate, release, NULL };
    const struct weir_contract_options options = { .keys = 16,
                                                   .has_wall_offset = true,
                                                   .secret = secret,
                                                   .fleet =
                                                       size % 2 == 0 ? WEIR_FLEET_ALONE : WEIR_FLEET_SHARED,
                                                   .has_store = true,
                                                   .allocator = &allocator };
    struct weir_contract *contract = NULL;
    struct weir_diagnostics *diagnostics = NULL;
    char *printed = NULL;
    size_t printed_len;
    FILE *out = open_memstream(&printed, &printed_len);
    if (out == NULL)
        return 0;

    int error = weir_contract_parse(&contract, (const char *)data, size, "fuzz.yaml", &options, &diagnostics);
    if ((error == 0) != (contract != NULL))
        abort();
    check_findings(error, diagnostics);
    weir_diagnostics_print(diagnostics, out, size % 2 == 0);
    if (error == 0)
        use(contract, out);
    weir_contract_free(contract);
    weir_diagnostics_free(diagnostics);
    if (fclose(out) != 0)
        abort();
    free(printed);
    return 0;
}
