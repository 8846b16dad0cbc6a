// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_contract.c - any bytes as a contract: loaded or told why not, never a crash; what was loaded explains itself, decides,
 * gives permits and takes them back, and lets callers wait.
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
        if (answer.decision.outcome != WEIR_ALLOW && answer.decision.outcome != WEIR_DUPLICATE)
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
    const struct weir_contract_options options = {
        .keys = 16, .has_wall_offset = true, .secret = secret, .allocator = &allocator
    };
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
