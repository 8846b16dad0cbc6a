// SPDX-License-Identifier: Apache-2.0
/*
 * throttle.c - limits that come with their requests: hidden limits, of which each request has as much as it says.
 *
 * They stand behind the contract's limits, under names that no contract may give, and are the same through every reload, so
 * their keys go on.
 *
 * Of weir_request.own a key is one whatever number its requests bring: a window counts, so who used 2 of 2 has 98 of 100 left.
 * A hidden limit has one period, hence one for each unit of Envoy's rate limit service. Of other periods (a multiple of a unit) there is no
 * end: those are GCRA in nanoseconds, as CL.THROTTLE, in which what was used is a length of time.
 */
#include "rule/throttle.h"

#include "rule/decide.h"

static const struct {
    const char *name;
    weir_ns period; /* 0: any, as a bucket */
} own_limits[OWN_COUNT] = {
    { OWN_PREFIX "second", WEIR_SECOND },
    { OWN_PREFIX "minute", WEIR_MINUTE },
    { OWN_PREFIX "hour", WEIR_HOUR },
    { OWN_PREFIX "day", WEIR_DAY },
    { OWN_PREFIX "month", 30 * WEIR_DAY },
    { OWN_PREFIX "year", 365 * WEIR_DAY },
    { OWN_PREFIX "other", 0 },
};

/* The longest period: as long as a limiter counts. */
#define OWN_PERIOD_MAX (3650 * WEIR_DAY)

int throttle_prepare(struct load *load, struct weir_change *change)
{
    /* A token is a nanosecond. */
    const struct weir_limit bucket = { .name = THROTTLE_NAME, .rate = { 1, 1 }, .burst = WEIR_THROTTLE_MAX };
    struct rules *rules = load->rules;
    rules->throttle = WEIR_NO_LIMIT;
    for (size_t i = 0; i < OWN_COUNT; i++)
        rules->own[i] = WEIR_NO_LIMIT;
    int error = load->has_throttle ? weir_change_limit(change, &bucket, &rules->throttle) : 0;
    for (size_t i = 0; i < OWN_COUNT && load->has_throttle && error == 0; i++) {
        struct weir_limit own = bucket;
        if (own_limits[i].period > 0)
            own = (struct weir_limit){ .algorithm = WEIR_FIXED_WINDOW,
                                       .rate = { UINT32_MAX, own_limits[i].period } };
        own.name = own_limits[i].name;
        error = weir_change_limit(change, &own, &rules->own[i]);
    }
    return error;
}

int own_ask(const struct rules *rules, const struct weir_request *request, struct weir_ask *out)
{
    const struct weir_own_limit *own = request->own;
    size_t kind = 0;
    if (rules->throttle == WEIR_NO_LIMIT)
        return WEIR_ERR_LIMIT;
    if (own->key_len > WEIR_DESCRIPTOR_KEY_MAX)
        return WEIR_ERR_KEY;
    if (own->requests > UINT32_MAX || own->period == 0 || own->period > OWN_PERIOD_MAX)
        return WEIR_ERR_RATE;
    if (request->cost > INT64_MAX)
        return WEIR_ERR_COST;
    while (own_limits[kind].period != 0 && own_limits[kind].period != own->period)
        kind++;
    /* Rounded up, so that the bucket refills no faster than it may, and holds that many whole ones. */
    uint64_t each = own_limits[kind].period != 0 ? 1
                    : own->requests == 0         ? own->period
                                                 : (own->period + own->requests - 1) / own->requests;
    *out = (struct weir_ask){ .limit = rules->own[kind],
                              .key = own->key,
                              .key_len = own->key_len,
                              .is_fixed = true,
                              .is_within = true,
                              .within = own->requests * each };
    if (__builtin_mul_overflow(request->cost, each, &out->cost))
        out->cost = UINT64_MAX;
    return 0;
}

int weir_contract_throttle(const struct weir_contract *contract, const void *key, size_t len, uint64_t cost,
                           uint64_t tolerance, bool is_peek, weir_ns now, struct weir_decision *out)
{
    const struct rules *rules = NULL;
    for (unsigned looks = 0; looks < LOOKS_MAX; looks++) {
        rules = contract_rules(contract);
        int error =
            weir_set_check_within(rules->set, rules->throttle, key, len, cost, tolerance, is_peek, now, out);
        if (error == 0)
            out->limit = WEIR_NO_LIMIT;
        if (error != WEIR_ERR_CHANGED)
            return error;
        decide_pause(looks);
    }
    *out = (struct weir_decision){ .outcome = WEIR_REFUSED,
                                   .policy = WEIR_POLICY_CLOSED,
                                   .reason = WEIR_REASON_CONTENDED,
                                   .limit = WEIR_NO_LIMIT,
                                   .decided_at = now,
                                   .retry_at = now + WEIR_MILLISECOND,
                                   .reset_at = WEIR_NO_TIME };
    return 0;
}
