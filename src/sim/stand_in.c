// SPDX-License-Identifier: Apache-2.0
/*
 * stand_in.c - questions to the store become asks of one limiter.
 */
#include "sim/stand_in.h"

#include <assert.h>
#include <stdlib.h>

struct stand_in {
    struct weir_contract *contract;
    struct weir_outage outage; /* the last one; number 0: there was none */
    bool is_away;
    uint64_t losses;
};

struct stand_in *stand_in_new(struct weir_contract *contract)
{
    struct stand_in *store = calloc(1, sizeof *store);
    if (store != NULL)
        store->contract = contract;
    return store;
}

void stand_in_free(struct stand_in *store)
{
    if (store != NULL)
        weir_contract_free(store->contract);
    free(store);
}

struct weir_contract *stand_in_contract(const struct stand_in *store)
{
    return store->contract;
}

void stand_in_leave(struct stand_in *store, weir_ns now)
{
    store->is_away = true;
    store->outage.began_at = now;
    store->outage.number++;
}

void stand_in_return(struct stand_in *store)
{
    store->is_away = false;
}

void stand_in_lose(struct stand_in *store, struct weir_contract *fresh)
{
    weir_contract_free(store->contract);
    store->contract = fresh;
    store->losses++;
}

struct weir_outage stand_in_outage(const struct stand_in *store)
{
    return store->is_away ? store->outage : (struct weir_outage){ WEIR_NO_TIME, 0 };
}

/* ---- Deciding -------------------------------------------------------------------------------------------- */

static const struct weir_set *set_of(const struct stand_in *store)
{
    return weir_set_current(weir_contract_limiter(store->contract));
}

static struct weir_ask ask_of(const struct weir_shared_ask *shared)
{
    return (struct weir_ask){ .limit = shared->limit,
                              .key = shared->key,
                              .key_len = shared->key_len,
                              .cost = shared->cost,
                              .retry_id = shared->retry_id,
                              .retry_id_len = shared->retry_id_len,
                              .is_estimate = shared->is_estimate,
                              .is_fixed = !shared->is_estimate };
}

/* A call on the set in force cannot fail: the asks were made by the same contract, and one thread changes and asks it. */
static void must(int code)
{
    assert(code == 0);
    (void)code;
}

static void ask_together(const struct weir_set *set, enum step_kind kind, bool is_peek,
                         const struct weir_ask *asks, size_t count, weir_ns now, struct weir_decision *each,
                         struct weir_decision *out, struct stand_in_gift *gift)
{
    if (is_peek)
        must(weir_set_admit_peek(set, asks, count, now, each, out));
    else if (kind == STEP_RESERVE)
        must(weir_set_reserve(set, asks, count, now, TIMELINE_HOLD_NS, each, out, &gift->reservation));
    else if (kind == STEP_ACQUIRE)
        must(weir_set_acquire(set, asks, count, now, each, out, &gift->permit));
    else
        must(weir_set_admit(set, asks, count, now, each, out));
}

bool stand_in_decide(const struct stand_in *store, enum step_kind kind, bool is_peek,
                     const struct weir_shared *shared, weir_ns now, struct weir_shared_met *met,
                     struct stand_in_gift *gift)
{
    const struct weir_set *set = set_of(store);
    struct weir_ask asks[WEIR_ASKS_MAX];
    struct weir_decision each[WEIR_ASKS_MAX], bound = { .outcome = WEIR_ALLOW };
    size_t count = 0, other = 0;
    *gift = (struct stand_in_gift){ .losses = store->losses };
    for (size_t i = 0; i < shared->count; i++)
        if (!shared->asks[i].is_watched)
            asks[count++] = ask_of(&shared->asks[i]);
    if (count > 0)
        ask_together(set, kind, is_peek, asks, count, now, each, &bound, gift);
    bool passes =
        bound.outcome == WEIR_ALLOW || bound.outcome == WEIR_DUPLICATE || bound.outcome == WEIR_UNMETERED;
    for (size_t i = 0; i < shared->count; i++) {
        const struct weir_shared_ask *shared_ask = &shared->asks[i];
        struct weir_ask ask = ask_of(shared_ask);
        met[i] = (struct weir_shared_met){ .limit = shared_ask->limit,
                                           .cost = shared_ask->cost,
                                           .is_watched = shared_ask->is_watched,
                                           .asked_by = shared_ask->asked_by };
        if (!shared_ask->is_watched)
            met[i].decision = each[other++];
        else /* it takes when the others pass, and gives no permits */
            ask_together(set, STEP_REQUEST, is_peek || !passes, &ask, 1, now, &met[i].decision, &bound, gift);
    }
    return passes;
}

/* ---- Beside deciding ------------------------------------------------------------------------------------- */

void stand_in_spend(const struct stand_in *store, const struct weir_shared_ask *ask, uint64_t cost, weir_ns now)
{
    struct weir_ask spent = ask_of(ask);
    struct weir_settlement ignored;
    spent.cost = cost;
    must(weir_set_charge(set_of(store), &spent, 1, now, &ignored));
}

bool stand_in_gave(const struct stand_in *store, const struct stand_in_gift *gift)
{
    return gift->losses == store->losses && (gift->reservation.len > 0 || gift->permit.len > 0);
}

int stand_in_settle(const struct stand_in *store, const struct stand_in_gift *gift, bool is_cancel,
                    uint64_t cost, weir_ns now, struct weir_settlement *out)
{
    struct weir *weir = weir_contract_limiter(store->contract);
    const struct weir_reservation *ticket = &gift->reservation;
    if (!stand_in_gave(store, gift))
        return WEIR_ERR_RESERVATION;
    return is_cancel ? weir_cancel(weir, ticket->bytes, ticket->len, now, out)
                     : weir_settle(weir, ticket->bytes, ticket->len, cost, now, out);
}

int stand_in_refund(const struct stand_in *store, const struct weir_shared *shared, uint64_t cost, weir_ns now,
                    struct weir_settlement *out)
{
    struct weir_ask asks[WEIR_ASKS_MAX];
    struct weir_settlement unseen;
    size_t count = 0;
    *out = (struct weir_settlement){ .limit = WEIR_NO_LIMIT };
    for (size_t i = 0; i < shared->count; i++) {
        struct weir_ask ask = ask_of(&shared->asks[i]);
        ask.cost = cost;
        if (shared->asks[i].is_estimate && !shared->asks[i].is_watched)
            asks[count++] = ask;
        else if (shared->asks[i].is_estimate)
            must(weir_set_refund(set_of(store), &ask, 1, now, &unseen));
    }
    return count == 0 ? 0 : weir_set_refund(set_of(store), asks, count, now, out);
}

int stand_in_renew(const struct stand_in *store, const struct stand_in_gift *gift, weir_ns now,
                   weir_ns *expires_at)
{
    const struct weir_permit *permit = &gift->permit;
    if (!stand_in_gave(store, gift))
        return WEIR_ERR_PERMIT;
    return weir_renew(weir_contract_limiter(store->contract), permit->bytes, permit->len, now, expires_at);
}

int stand_in_release(const struct stand_in *store, const struct stand_in_gift *gift, weir_ns now,
                     bool *was_held)
{
    const struct weir_permit *permit = &gift->permit;
    if (!stand_in_gave(store, gift))
        return WEIR_ERR_PERMIT;
    return weir_release(weir_contract_limiter(store->contract), permit->bytes, permit->len, now, was_held);
}

int stand_in_reset(const struct stand_in *store, const struct weir_shared_ask *ask)
{
    return weir_set_reset(set_of(store), ask->limit, ask->key, ask->key_len);
}
