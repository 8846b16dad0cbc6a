// SPDX-License-Identifier: Apache-2.0
/* waiting.c - park, collect, leave; see waiting.h. */
#include "net/waiting.h"

#include <assert.h>
#include <stdlib.h>

#include "net/worker.h"

/* One request that waits. */
struct guest {
    struct parked parked; /* first */
    struct weir_waiter_part parts[];
};

struct waiting {
    struct decider decider;
    struct worker *worker;
};

/*
 * Times that a request looks again how many limits it meets, because a reload came between counting and waiting. Reloads
 * are milliseconds apart.
 */
#define LOOKS_MAX 3

static size_t size_of(const struct guest *guest)
{
    return sizeof *guest + guest->parked.waiter.part_room * sizeof *guest->parts;
}

/* ---- The memory of those who wait -------------------------------------------------------------------------------- */

void waiting_ended(struct weir_waiter *waiter)
{
    struct parked *parked = (struct parked *)waiter;
    struct worker *worker = parked->worker;
    parked->next = NULL;
    uv_mutex_lock(&worker->inbox_lock);
    if (worker->ended == NULL)
        worker->ended = parked;
    else
        worker->last_ended->next = parked;
    worker->last_ended = parked;
    uv_mutex_unlock(&worker->inbox_lock);
    worker_wake(worker);
}

static void answer_guest(struct parked *parked);

/* NULL: too many wait, or memory is out. */
static struct guest *guest_new(struct worker *worker, struct ask *ask, size_t part_count)
{
    size_t size = sizeof(struct guest) + part_count * sizeof(struct weir_waiter_part);
    if (size > WORKER_PARKED_MAX - worker->parked_bytes)
        return NULL;
    struct guest *guest = calloc(1, size);
    if (guest == NULL)
        return NULL;
    guest->parked.waiter = (struct weir_waiter){ .parts = guest->parts,
                                                 .part_room = part_count,
                                                 .acquires = ask->kind == ASK_ACQUIRE,
                                                 .done = waiting_ended,
                                                 .owner = ask };
    guest->parked.worker = worker;
    guest->parked.ended = answer_guest;
    worker->parked_bytes += size;
    ask->held = guest;
    return guest;
}

static void guest_free(struct guest *guest)
{
    guest->parked.worker->parked_bytes -= size_of(guest);
    free(guest);
}

void waiting_park(struct parked *parked)
{
    struct worker *worker = parked->worker;
    (void)__atomic_add_fetch(&worker->server->parked_count, 1, __ATOMIC_RELAXED);
    worker_let_go(worker, parked->waiter.owner);
}

void waiting_unpark(struct parked *parked)
{
    struct worker *worker = parked->worker;
    worker_hold(worker, parked->waiter.owner);
    (void)__atomic_sub_fetch(&worker->server->parked_count, 1, __ATOMIC_RELAXED);
}

/* ---- What came of it ----------------------------------------------------------------------------------------------- */

void waiting_take_gift(const struct worker *worker, const struct ask *ask, const struct weir_waiter *waiter,
                       struct verdict *verdict)
{
    struct weir *limiter = weir_contract_limiter(worker->server->contract);
    bool has_passed = waiter != NULL && outcome_passes(verdict->answer.decision.outcome);
    if (ask->kind == ASK_ACQUIRE && has_passed)
        weir_waiter_permit(limiter, waiter, &verdict->permit);
    else if (ask->kind == ASK_ACQUIRE)
        verdict->permit.len = 0;
    else if (ask->kind == ASK_RESERVE && has_passed)
        weir_waiter_reservation(limiter, waiter, ask->hold, &verdict->ticket);
    else
        verdict->ticket.len = 0;
}

enum wait_end waiting_end_of(const struct weir_answer *answer)
{
    if (outcome_passes(answer->decision.outcome))
        return WAIT_SERVED;
    return answer->decision.outcome == WEIR_DENY && weir_answer_may_wait(answer) ? WAIT_TIMEOUT : WAIT_REFUSED;
}

void waiting_count_end(struct worker *worker, const struct weir_answer *answer, enum wait_end end,
                       weir_ns waited)
{
    const uint32_t *rows = edition_of(worker, answer)->rows;
    weir_limit_id limit = answer->decision.limit;
    bool has_row = rows != NULL && limit != WEIR_NO_LIMIT;
    counters_wait(&worker->counters, has_row ? rows[limit] : COUNTERS_NO_ROW, end, waited);
}

/* Whether the request would wait for what refuses it. */
static bool would_wait(const struct ask *ask, const struct verdict *verdict)
{
    return ask->request->wait > 0 && !ask->is_peek && weir_answer_may_wait(&verdict->answer);
}

/* ---- Why not ------------------------------------------------------------------------------------------------------- */

/* The limit of each[i] where it enforces and callers may wait for it; NULL otherwise. */
static const struct weir_contract_limit *waits_for(const struct weir_answer *answer, size_t i)
{
    weir_limit_id id = answer->each[i].limit;
    const struct weir_contract_limit *limit =
        id == WEIR_NO_LIMIT || (answer->watched >> i & 1) != 0 ? NULL : &answer->limits[id];
    return limit != NULL && limit->wait.up_to > 0 ? limit : NULL;
}

/* Whether permits are refused to somebody who cannot get one. */
static bool only_looks(const struct ask *ask, const struct weir_answer *answer)
{
    for (size_t i = 0; i < answer->count && ask->kind != ASK_ACQUIRE; i++) {
        const struct weir_contract_limit *limit = waits_for(answer, i);
        if (limit != NULL && limit->algorithm == WEIR_CONCURRENCY && !outcome_passes(answer->each[i].outcome))
            return true;
    }
    return false;
}

/* Of one that wanted to wait and was refused on arrival: when permits come back is not foreseen, so no queue of them is late. */
static enum answer_wait late_or_full(const struct ask *ask, const struct weir_answer *answer)
{
    weir_ns up_to = WEIR_WAIT_MAX, turn = 0;
    for (size_t i = 0; i < answer->count; i++) {
        const struct weir_contract_limit *limit = waits_for(answer, i);
        const struct weir_decision *each = &answer->each[i];
        if (limit == NULL)
            continue;
        if (limit->wait.up_to < up_to)
            up_to = limit->wait.up_to;
        if (each->outcome == WEIR_DENY && limit->algorithm != WEIR_CONCURRENCY && each->retry_at > ask->now
            && each->retry_at - ask->now > turn)
            turn = each->retry_at - ask->now;
    }
    if (turn > ask->request->wait && ask->request->wait <= up_to)
        return ANSWER_WAIT_LATE;
    return turn > up_to ? ANSWER_WAIT_BEYOND : ANSWER_WAIT_FULL;
}

/* On a cell that overflowing keys share nobody waits. */
enum answer_wait waiting_why_not(const struct ask *ask, const struct weir_answer *answer)
{
    if (ask->is_peek || answer->decision.policy != WEIR_POLICY_NONE || !weir_answer_may_wait(answer))
        return ANSWER_WAIT_UNTOLD;
    if (only_looks(ask, answer))
        return ANSWER_WAIT_LOOKS;
    return ask->request->wait == 0 ? ANSWER_WAIT_UNASKED : late_or_full(ask, answer);
}

/* A limit that starts afresh is another: the answer has it no more. */
enum answer_wait waiting_why_in_vain(const struct weir_answer *answer, const struct weir_waiter *waiter)
{
    bool is_restarted = answer->decision.outcome == WEIR_REFUSED
                        && answer->decision.reason == WEIR_REASON_CONTENDED && answer->count < waiter->count;
    return is_restarted                   ? ANSWER_WAIT_RESTARTED
           : weir_answer_may_wait(answer) ? ANSWER_WAIT_OVER
                                          : ANSWER_WAIT_UNTOLD;
}

/* ---- Starting ------------------------------------------------------------------------------------------------------ */

/*
 * Wait for what the verdict refuses. True: it waits, its answer comes later. False: *result and the verdict are the
 * answer; WEIR_ERR_WAITER: decide again, other limits are in force.
 */
static bool wait_for(struct worker *worker, struct ask *ask, struct verdict *verdict, int *result)
{
    struct guest *guest = guest_new(worker, ask, verdict->answer.count);
    *result = 0;
    if (guest == NULL) {
        verdict->wait = ANSWER_WAIT_CROWDED;
        waiting_count_end(worker, &verdict->answer, WAIT_REFUSED, 0);
        return false;
    }
    struct weir_waiter *waiter = &guest->parked.waiter;
    *result = weir_contract_wait(worker->server->contract, ask->request, ask->now, waiter, &verdict->answer);
    if (*result == 0 && verdict->answer.decision.outcome == WEIR_WAIT) {
        waiting_park(&guest->parked);
        return true;
    }
    if (*result == 0) {
        bool has_passed = outcome_passes(verdict->answer.decision.outcome);
        waiting_take_gift(worker, ask, waiter, verdict);
        waiting_count_end(worker, &verdict->answer, has_passed ? WAIT_SERVED : WAIT_REFUSED, 0);
    }
    guest_free(guest);
    return false;
}

void waiting_start(struct worker *worker, struct decider *decider, struct ask *ask)
{
    struct verdict *verdict = &worker->verdict;
    int result = WEIR_ERR_WAITER;
    for (unsigned i = 0; i < LOOKS_MAX && result == WEIR_ERR_WAITER; i++) {
        result = ask_decide(worker->server->contract, ask, verdict);
        if (result == 0 && would_wait(ask, verdict) && wait_for(worker, ask, verdict, &result))
            return;
    }
    if (result == 0 && verdict->wait == ANSWER_WAIT_UNTOLD)
        verdict->wait = waiting_why_not(ask, &verdict->answer);
    ask_finish(decider, ask, result, result == 0 ? verdict : NULL);
}

/* ---- Ending -------------------------------------------------------------------------------------------------------- */

/* Its turn or its deadline has come. */
static void answer_guest(struct parked *parked)
{
    struct worker *worker = parked->worker;
    struct ask *ask = parked->waiter.owner;
    struct verdict *verdict = &worker->verdict;
    weir_contract_waited(worker->server->contract, &parked->waiter, &verdict->answer);
    verdict->has_waited = true;
    verdict->waited = parked->waiter.waited;
    verdict->now = ask->now + verdict->waited;
    verdict->wait = waiting_why_in_vain(&verdict->answer, &parked->waiter);
    verdict->handle = SLICE("");
    waiting_take_gift(worker, ask, &parked->waiter, verdict);
    waiting_count_end(worker, &verdict->answer, waiting_end_of(&verdict->answer), verdict->waited);
    waiting_unpark(parked);
    guest_free((struct guest *)parked);
    ask_finish(worker->decider, ask, 0, verdict);
}

void waiting_collect(struct worker *worker)
{
    uv_mutex_lock(&worker->inbox_lock);
    struct parked *parked = worker->ended;
    worker->ended = NULL;
    uv_mutex_unlock(&worker->inbox_lock);
    while (parked != NULL) {
        struct parked *next = parked->next;
        parked->ended(parked);
        parked = next;
    }
}

/* Where it has ended already, its answer is in the inbox and comes as usual. */
bool waiting_leave(struct parked *parked, int why)
{
    struct worker *worker = parked->worker;
    struct weir *limiter = weir_contract_limiter(worker->server->contract);
    if (!weir_wait_cancel(limiter, &parked->waiter, ticker_now(worker)))
        return false;
    counters_wait(&worker->counters, COUNTERS_NO_ROW, why == ASK_DRAINED ? WAIT_DRAINED : WAIT_LEFT, 0);
    waiting_unpark(parked);
    return true;
}

void waiting_cancel(struct decider *decider, struct ask *ask, int why)
{
    struct guest *guest = ask->held;
    if (!waiting_leave(&guest->parked, why))
        return;
    guest_free(guest);
    ask_finish(decider, ask, why, NULL);
}

/* ---- The decider ----------------------------------------------------------------------------------------------------- */

static void on_start(struct decider *decider, struct ask *ask)
{
    waiting_start(((struct waiting *)decider)->worker, decider, ask);
}

static void waiting_close(struct decider *decider)
{
    free(decider);
}

struct decider *waiting_new(struct worker *worker)
{
    struct waiting *waiting = malloc(sizeof *waiting);
    if (waiting == NULL)
        return NULL;
    *waiting =
        (struct waiting){ { .start = on_start, .cancel = waiting_cancel, .close = waiting_close }, worker };
    return &waiting->decider;
}
