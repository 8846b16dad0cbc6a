// SPDX-License-Identifier: Apache-2.0
// The public headers, used from C++ as a C++ program would: one bucket, a rate from the macro and one made at run time.
#include "weir_bucket.h"

#include "weir.h"
#include "weir_contract.h"
#include "weir_retry.h"

#include <cstdio>

static const weir_rate login = WEIR_RATE(5, WEIR_SECOND, 20);
static const weir_rate inexact = WEIR_RATE(999, WEIR_SECOND, 100);

static int spend(const weir_rate &rate, weir_ns now, uint64_t asked)
{
    weir_bucket bucket = WEIR_BUCKET_FULL;
    int passed = 0;
    for (uint64_t i = 0; i < asked; i++)
        passed += weir_bucket_take(&bucket, &rate, now, 1).outcome == WEIR_ALLOW;
    passed += weir_bucket_take_shared(&bucket, &rate, now, 1).outcome == WEIR_ALLOW;
    return weir_bucket_peek(&bucket, &rate, now, 1).outcome == WEIR_DENY ? passed : -1;
}

/* Told to wait 2 s: the second attempt comes then, or up to half a second later; the third reply ends it. */
static bool retries()
{
    struct weir_retry_budget budget = WEIR_RETRY_BUDGET_FULL;
    struct weir_retry_options options = {};
    struct weir_retry retry;
    weir_ns at = 0;
    options.budget = &budget;
    weir_retry_init(&retry, &options, WEIR_NO_TIME);
    weir_ns after = weir_retry_after("2", 1, 0);
    return weir_retry_next(&retry, weir_reply_from_status(429), after, WEIR_SECOND, UINT64_MAX, &at)
               == WEIR_RETRY_AT
           && at == 3 * WEIR_SECOND + WEIR_SECOND / 2
           && weir_retry_next(&retry, WEIR_REPLY_ALLOWED, WEIR_NO_TIME, at, 0, &at) == WEIR_RETRY_DONE
           && weir_retry_budget_left(&budget, at) == 9100;
}

int main()
{
    weir_rate made = {};
    struct weir_decision decision = {};
    struct weir_limit limit = {};
    struct weir_request request = {};
    limit.name = "l";
    decision.outcome = WEIR_ALLOW;
    request.cost = 1;
    bool good = weir_rate_init(&made, 999, WEIR_SECOND, 100) && spend(login, 0, 20) == 20
                && spend(made, 0, 100) == 100 && spend(inexact, WEIR_SECOND, 100) == 100
                && made.ticks == inexact.ticks && limit.name[0] == 'l' && decision.outcome == WEIR_ALLOW
                && request.cost == 1 && retries();
    std::puts(good ? "the headers work from C++" : "the headers fail from C++");
    return good ? 0 : 1;
}
