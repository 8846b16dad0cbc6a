// SPDX-License-Identifier: Apache-2.0
/*
 * lint_wait.c - waiting and permits that do not do what they look like: a queue that cannot be full, a turn that never comes,
 * a permit that is gone before its work is done; and doors at which nobody waits or gets a permit.
 */
#include <stdio.h>

#include "rule/lint.h"

/* Below it, pauses of a holder that nobody notices (a collection, a swapped page, a lost packet) outlast a permit. */
#define HOLD_SHORT WEIR_SECOND

static bool is_permits(const struct rule *rule)
{
    return rule->limit.algorithm == WEIR_CONCURRENCY && rule->enforce != WEIR_ENFORCE_OFF;
}

/* ---- Turns ------------------------------------------------------------------------------------------------------------ */

static void lint_queue(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    uint64_t turns = bound_turns(rule), queue = rule->limit.wait.queue;
    bool has_sizes = rule->overrides.count > rule->overrides.unlimited; /* who has another pace may fill it */
    char up_to[48], cure[100];
    duration_format(rule->limit.wait.up_to, up_to);
    if (turns == 0) {
        if (!has_sizes)
            lint_warn(lint, index, "wait", "write `wait: never`, or a rate at which something comes back",
                      "lets callers wait for a turn that never comes: %s",
                      rule_capacity(rule) == 0 ? "it admits nothing" : "nothing comes back");
        return;
    }
    if (turns >= queue || has_sizes)
        return;
    (void)snprintf(cure, sizeof cure, "write `queue: %llu`, or a longer up-to", (unsigned long long)turns);
    lint_warn(lint, index, "wait", cure,
              "has a queue of %llu that is never full: no more than %llu who wait get a turn within %s",
              (unsigned long long)queue, (unsigned long long)turns, up_to);
}

/* ---- Permits ---------------------------------------------------------------------------------------------------------- */

static void lint_pool(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    uint64_t left = lint->permits, most = rule->limit.at_most;
    if (rule->overrides.count > rule->overrides.unlimited && rule->overrides.most > most)
        most = rule->overrides.most;
    if (most > left)
        lint_warn(lint, index, "at-most",
                  "raise `memory: { permits }` to at-most times the keys that are busy at once",
                  "lets one key hold %llu permits, and memory has %llu for all keys together",
                  (unsigned long long)most, (unsigned long long)left);
}

static void lint_permits(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    char hold[48];
    if (rule->limit.hold < HOLD_SHORT) {
        duration_format(rule->limit.hold, hold);
        lint_warn(
            lint, index, "hold",
            "write more than any pause of a holder, and have holders renew at a third of it; where nobody "
            "renews, "
            "more than the longest operation",
            "gives a permit away after %s: a holder that pauses for longer still works beside the next one",
            hold);
    }
    if (rule->enforce == WEIR_ENFORCE_SHADOW)
        lint_warn(
            lint, index, "enforce",
            "enforce it for a share such as 10%, or with a larger at-most, to see what it does",
            "is a shadow, which gives no permits: it finds none held and never says that it would refuse");
    if (!rule_is_shared(rule)) /* whose permits lie in the store */
        lint_pool(lint, index);
}

void lint_wait(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    if (rule->enforce == WEIR_ENFORCE_OFF)
        return;
    if (rule_waits(rule))
        lint_queue(lint, index);
    if (is_permits(rule))
        lint_permits(lint, index);
    if (rule->limit.when_full != WEIR_FULL_OPEN)
        return;
    if (is_permits(rule))
        lint_warn(lint, index, "when-full", "write `when-full: overflow` or `closed`",
                  "lets work run without a permit when memory is full: nothing bounds it then");
    else if (rule_waits(rule))
        lint_warn(lint, index, "when-full", "write `when-full: overflow` or `closed`",
                  "lets keys that find the table full pass at once, while others wait");
}

/* ---- Doors ------------------------------------------------------------------------------------------------------------ */

/* The first limit of a kind, and how many more; limit_count: there is none. */
static size_t first_of(const struct rules *rules, bool (*is_meant)(const struct rule *), size_t *others)
{
    size_t first = rules->limit_count;
    *others = 0;
    for (size_t i = 0; i < rules->limit_count; i++) {
        if (!is_meant(&rules->list[i]))
            continue;
        if (first < rules->limit_count)
            (*others)++;
        else
            first = i;
    }
    return first;
}

static bool gives_permits(const struct rule *rule)
{
    return is_permits(rule) && rule->enforce != WEIR_ENFORCE_SHADOW;
}

static bool waits_at_any_door(const struct rule *rule)
{
    return rule_waits(rule) && rule->limit.algorithm != WEIR_CONCURRENCY && rule->enforce != WEIR_ENFORCE_OFF
           && rule->enforce != WEIR_ENFORCE_SHADOW;
}

static void likewise(size_t others, char out[40])
{
    out[0] = '\0';
    if (others == 1)
        (void)snprintf(out, 40, " (one more likewise)");
    else if (others > 1)
        (void)snprintf(out, 40, " (%zu more likewise)", others);
}

/* Once for the contract: it is no fault of a limit, and the same for all. */
void lint_doors(struct lint *lint, const struct node *root)
{
    bool has_auth_doors = node_value(root, "identity") != NULL;
    bool has_auth_wait = lint->load->server->auth_wait;
    char more[40];
    size_t others, first = first_of(lint->rules, gives_permits, &others);
    likewise(others, more);
    if (first < lint->rules->limit_count)
        lint_note(
            lint, first, "algorithm",
            "have whoever does the work call POST /v1/acquire before it and /v1/release behind it; else write "
            "a "
            "rate",
            "gives permits at /v1/acquire alone%s: /v1/check and /v1/auth* only look, hold nothing, and let "
            "requests that come together all pass",
            more);
    first = first_of(lint->rules, waits_at_any_door, &others);
    likewise(others, more);
    if (first < lint->rules->limit_count && has_auth_doors && !has_auth_wait)
        lint_note(
            lint, first, "wait",
            "write `server: { auth-wait: true }`, and have the proxy set or delete Prefer, where requests "
            "through a proxy are to wait too",
            "lets callers wait, but not those of /v1/auth*%s", more);
    if (first == lint->rules->limit_count && has_auth_wait)
        diagnostics_add(lint->diagnostics, WEIR_SEVERITY_WARNING,
                        node_value(node_value(root, "server"), "auth-wait")->place,
                        "give a limit `wait: { up-to: 2s, queue: 100 }`, or remove auth-wait",
                        "auth-wait changes nothing: no limit lets callers of /v1/auth* wait");
}
