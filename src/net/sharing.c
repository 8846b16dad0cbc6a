// SPDX-License-Identifier: Apache-2.0
/* sharing.c - begin, wait, ask, end; see sharing.h. */
#include "net/sharing.h"

#include <assert.h>
#include <stdlib.h>

#include "net/request_copy.h"
#include "net/waiting.h"
#include "net/worker.h"

/* Times that a request begins anew because a reload came in between. */
#define LOOKS_MAX 3

/* One request under way. */
struct consult {
    struct parked parked; /* first: its waiter's done() gets this */
    struct fleet_decision decision;
    const void *rules;         /* of the questions to the store */
    struct request_copy *copy; /* of who waits for its turn; NULL: it does not */
    struct consult *next;      /* spare */
    size_t room;               /* of parts, and of met */
    bool is_asking;            /* the fleet has `decision` */
    bool has_waited;
    bool is_crowded; /* it could wait, and there is no room for more that do */
    struct weir_shared_met *met;
    struct weir_waiter_part parts[];
};

struct sharing {
    struct decider decider;
    struct worker *worker;
    struct consult *spare;
    size_t spare_count;
    size_t bytes; /* of all that are under way; of those that wait for their turn: worker->parked_bytes */
    size_t max;
    struct consult *last; /* when there is no more room: used within one start() */
};

/* ---- Memory -------------------------------------------------------------------------------------------------------- */

static size_t size_of(size_t room)
{
    return sizeof(struct consult) + room * (sizeof(struct weir_waiter_part) + sizeof(struct weir_shared_met));
}

static struct consult *consult_make(size_t room)
{
    struct consult *consult = malloc(size_of(room));
    if (consult == NULL)
        return NULL;
    consult->room = room;
    consult->met = (struct weir_shared_met *)(consult->parts + room);
    return consult;
}

static struct consult *take_spare(struct sharing *sharing, size_t room)
{
    while (sharing->spare != NULL) {
        struct consult *consult = sharing->spare;
        sharing->spare = consult->next;
        sharing->spare_count--;
        if (consult->room >= room)
            return consult;
        free(consult); /* of a smaller contract */
    }
    return NULL;
}

static void consult_ended(struct parked *parked);

/* For an ask that begins. */
static void consult_init(struct consult *consult, struct worker *worker, struct ask *ask)
{
    consult->parked = (struct parked){ .waiter = { .parts = consult->parts,
                                                   .part_room = consult->room,
                                                   .acquires = ask->kind == ASK_ACQUIRE,
                                                   .done = waiting_ended,
                                                   .owner = ask },
                                       .worker = worker,
                                       .ended = consult_ended };
    consult->copy = NULL;
    consult->is_asking = false;
    consult->has_waited = false;
    consult->is_crowded = false;
    ask->held = consult;
}

/* Of one that is under way, its copy included. */
static size_t bytes_of(const struct consult *consult)
{
    return size_of(consult->room) + (consult->copy == NULL ? 0 : consult->copy->size);
}

/* Who can wait, where one more may, is copied beforehand: afterwards it may have ended. False: out of memory. */
static bool copy_who_waits(struct consult *consult, const struct weir_request *request, bool is_peek)
{
    if (request->wait == 0 || is_peek)
        return true;
    consult->copy = request_copy_new(request);
    if (consult->copy == NULL)
        return false;
    consult->is_crowded = bytes_of(consult) > WORKER_PARKED_MAX - consult->parked.worker->parked_bytes;
    if (consult->is_crowded) {
        free(consult->copy);
        consult->copy = NULL;
    }
    return true;
}

/* NULL: there is no room. */
static struct consult *consult_new(struct sharing *sharing, struct ask *ask, size_t room)
{
    if (sharing->bytes >= sharing->max)
        return NULL;
    struct consult *consult = take_spare(sharing, room);
    if (consult == NULL)
        consult = consult_make(room);
    if (consult == NULL)
        return NULL;
    consult_init(consult, sharing->worker, ask);
    if (!copy_who_waits(consult, ask->request, ask->is_peek)) {
        free(consult);
        return NULL;
    }
    sharing->bytes += bytes_of(consult);
    return consult;
}

static void consult_free(struct sharing *sharing, struct consult *consult)
{
    if (consult == sharing->last)
        return;
    sharing->bytes -= bytes_of(consult);
    free(consult->copy);
    if (sharing->spare_count == WORKER_SPARE_MAX) {
        free(consult);
        return;
    }
    consult->next = sharing->spare;
    sharing->spare = consult;
    sharing->spare_count++;
}

/* ---- The end ------------------------------------------------------------------------------------------------------- */

static struct sharing *sharing_of(const struct worker *worker)
{
    return (struct sharing *)worker->decider;
}

/* The stamp at which a request is answered: in virtual time its own, and how long it waited. */
static weir_ns answered_at(struct worker *worker, const struct consult *consult)
{
    const struct ask *ask = consult->parked.waiter.owner;
    weir_ns asked = ask->now + (consult->has_waited ? consult->parked.waiter.waited : 0);
    weir_ns now = worker->server->is_virtual ? asked : worker_now(worker);
    return now > asked ? now : asked;
}

/* Those that wait have a bound of their own: they may be many, and others are asking the store meanwhile. */
static void count_as_parked(struct consult *consult)
{
    struct worker *worker = consult->parked.worker;
    sharing_of(worker)->bytes -= bytes_of(consult);
    worker->parked_bytes += bytes_of(consult);
}

static void count_as_asking(struct consult *consult)
{
    struct worker *worker = consult->parked.worker;
    sharing_of(worker)->bytes += bytes_of(consult);
    worker->parked_bytes -= bytes_of(consult);
}

/* The parts of the verdict beside its answer, which is there. `wait`: of one that did not wait. */
static void fill_verdict(struct worker *worker, struct consult *consult, enum answer_wait wait,
                         struct verdict *verdict)
{
    const struct ask *ask = consult->parked.waiter.owner;
    const struct weir_waiter *waiter = &consult->parked.waiter;
    verdict->now = answered_at(worker, consult);
    verdict->has_waited = consult->has_waited;
    verdict->waited = consult->has_waited ? waiter->waited : 0;
    verdict->handle = SLICE("");
    verdict->wait = consult->has_waited ? waiting_why_in_vain(&verdict->answer, waiter) : wait;
    waiting_take_gift(worker, ask, waiter->count > 0 ? waiter : NULL, verdict);
    if (consult->has_waited)
        waiting_count_end(worker, &verdict->answer, waiting_end_of(&verdict->answer), verdict->waited);
    else if ((consult->copy != NULL || consult->is_crowded) && !outcome_passes(verdict->answer.decision.outcome)
             && weir_answer_may_wait(&verdict->answer))
        waiting_count_end(worker, &verdict->answer, WAIT_REFUSED, 0);
}

/* What it has of the store becomes the verdict's. */
static void add_handle(const struct fleet_decision *decision, const struct ask *ask, struct verdict *verdict)
{
    if (decision->handle == NULL)
        return;
    verdict->handle = (struct slice){ (const char *)decision->handle, decision->handle_len };
    if (ask->kind != ASK_ACQUIRE)
        return;
    struct weir_permit *permit = &verdict->permit;
    bool is_alone = permit->len == 0;
    permit->fence = decision->fence; /* it rises in the whole fleet */
    if (is_alone || decision->expires_at < permit->expires_at)
        permit->expires_at = decision->expires_at;
}

static void answer_consult(struct worker *worker, struct consult *consult, unsigned char *handle)
{
    struct ask *ask = consult->parked.waiter.owner;
    consult_free(sharing_of(worker), consult);
    ask_finish(worker->decider, ask, 0, &worker->verdict);
    free(handle);
}

/* The store has answered, or the policies have. */
static void on_met(struct fleet_decision *decision)
{
    struct consult *consult = decision->owner;
    struct worker *worker = consult->parked.worker;
    struct verdict *verdict = &worker->verdict;
    struct weir_waiter *waiter = &consult->parked.waiter;
    consult->is_asking = false;
    weir_contract_end(worker->server->contract, consult->rules, decision->met, decision->count,
                      waiter->count > 0 ? waiter : NULL, answered_at(worker, consult), &verdict->answer);
    bool passes = outcome_passes(verdict->answer.decision.outcome);
    if (!passes && decision->passes)
        fleet_undo(worker->store.fleet, decision);
    fill_verdict(worker, consult, ANSWER_WAIT_UNTOLD, verdict); /* of shared limits nobody waits */
    if (passes)
        add_handle(decision, waiter->owner, verdict);
    answer_consult(worker, consult, decision->handle);
}

/* ---- Asking -------------------------------------------------------------------------------------------------------- */

static const enum fleet_kind kinds[] = {
    [ASK_CHECK] = FLEET_CHECK,
    [ASK_RESERVE] = FLEET_RESERVE,
    [ASK_ACQUIRE] = FLEET_ACQUIRE,
};

static void ask_store(struct worker *worker, struct consult *consult, weir_ns now)
{
    const struct ask *ask = consult->parked.waiter.owner;
    const struct weir_shared *shared = &worker->shared;
    consult->rules = shared->rules;
    consult->is_asking = true;
    consult->decision = (struct fleet_decision){
        .kind = kinds[ask->kind],
        .is_peek = ask->is_peek,
        .by_policy = consult == sharing_of(worker)->last,
        .is_final = consult->parked.waiter.count == 0, /* no limit of this process has a say */
        .now = now,
        .hold = ask->hold,
        .met = consult->met,
        .count = shared->count,
        .done = on_met,
        .owner = consult,
    };
    assert(shared->count <= consult->room);
    fleet_decide(worker->store.fleet, shared, &consult->decision);
}

/* What was charged here, and nobody has decided upon. */
static void undo_here(struct worker *worker, struct consult *consult)
{
    struct weir_waiter *waiter = &consult->parked.waiter;
    if (waiter->is_tentative && waiter->count > 0)
        weir_waiter_undo(weir_contract_limiter(worker->server->contract), waiter, ticker_now(worker));
}

static void fail_consult(struct worker *worker, struct consult *consult, int result)
{
    struct ask *ask = consult->parked.waiter.owner;
    undo_here(worker, consult);
    consult_free(sharing_of(worker), consult);
    ask_finish(worker->decider, ask, result, NULL);
}

/* Its turn has come, or its time is over: the store is asked of what it meets by now. */
static void consult_ended(struct parked *parked)
{
    struct consult *consult = (struct consult *)parked;
    struct worker *worker = parked->worker;
    const struct weir_contract *contract = worker->server->contract;
    struct verdict *verdict = &worker->verdict;
    struct weir_waiter *waiter = &parked->waiter;
    const struct ask *ask = waiter->owner;
    consult->has_waited = true;
    count_as_asking(consult);
    waiting_unpark(parked);
    if (!outcome_passes(waiter->decision.outcome) || !waiter->is_tentative) {
        weir_contract_waited(contract, waiter, &verdict->answer);
        fill_verdict(worker, consult, ANSWER_WAIT_UNTOLD, verdict);
        answer_consult(worker, consult, NULL);
        return;
    }
    int result = weir_contract_shared(contract, &consult->copy->request, &worker->shared);
    if (result == 0 && worker->shared.count > consult->room) /* of a larger contract */
        result = WEIR_ERR_MEMORY;
    if (result != 0) {
        fail_consult(worker, consult, result);
        return;
    }
    if (worker->shared.count > 0) {
        ask_store(worker, consult, ask->now + waiter->waited);
        return;
    }
    weir_contract_end(contract, worker->shared.rules, NULL, 0, waiter, answered_at(worker, consult),
                      &verdict->answer);
    fill_verdict(worker, consult, ANSWER_WAIT_UNTOLD, verdict);
    answer_consult(worker, consult, NULL);
}

/* No shared limit has a say. While ask->request is at hand. */
static void answer_here(struct worker *worker, struct consult *consult)
{
    const struct ask *ask = consult->parked.waiter.owner;
    struct verdict *verdict = &worker->verdict;
    bool is_crowded = consult->is_crowded && weir_answer_may_wait(&verdict->answer);
    fill_verdict(worker, consult, is_crowded ? ANSWER_WAIT_CROWDED : waiting_why_not(ask, &verdict->answer),
                 verdict);
    answer_consult(worker, consult, NULL);
}

/* The limits of this process have had their say. */
static void go_on(struct worker *worker, struct consult *consult, int result)
{
    struct ask *ask = consult->parked.waiter.owner;
    struct verdict *verdict = &worker->verdict;
    if (result != 0) {
        consult_free(sharing_of(worker), consult);
        ask_finish(worker->decider, ask, result, NULL);
    } else if (worker->shared.count > 0) {
        ask_store(worker, consult, ask->now);
    } else if (verdict->answer.decision.outcome == WEIR_WAIT) {
        count_as_parked(consult);
        waiting_park(&consult->parked);
    } else {
        answer_here(worker, consult);
    }
}

static int begin(struct worker *worker, struct consult *consult)
{
    const struct ask *ask = consult->parked.waiter.owner;
    struct weir_request request = *ask->request;
    if (consult->copy == NULL)
        request.wait = 0;
    return weir_contract_begin(worker->server->contract, &request, ask->now, &consult->parked.waiter,
                               &worker->verdict.answer, &worker->shared);
}

/* There is no room for one more: the last piece of memory, in which nothing waits. */
static void start_without_room(struct sharing *sharing, struct ask *ask)
{
    struct worker *worker = sharing->worker;
    consult_init(sharing->last, worker, ask);
    sharing->last->is_crowded = ask->request->wait > 0 && !ask->is_peek;
    go_on(worker, sharing->last, begin(worker, sharing->last));
}

/* Parts that suffice, as long as no reload comes in between. */
static size_t room_for(const struct weir_contract *contract, const struct weir_request *request)
{
    size_t limits = weir_contract_limit_count(contract), room = 0;
    for (; request != NULL && room < WEIR_ASKS_MAX; request = request->also)
        room += limits;
    return room < WEIR_ASKS_MAX ? room : WEIR_ASKS_MAX;
}

static void on_start(struct decider *decider, struct ask *ask)
{
    struct sharing *sharing = (struct sharing *)decider;
    struct worker *worker = sharing->worker;
    const struct weir_contract *contract = worker->server->contract;
    if (!weir_contract_has_shared(contract)) {
        waiting_start(worker, decider, ask);
        return;
    }
    size_t room = room_for(contract, ask->request);
    int result = WEIR_ERR_WAITER;
    struct consult *consult = NULL;
    for (unsigned i = 0; i < LOOKS_MAX && result == WEIR_ERR_WAITER; i++) {
        if (consult != NULL)
            consult_free(sharing, consult);
        consult = consult_new(sharing, ask, room);
        if (consult == NULL) {
            start_without_room(sharing, ask);
            return;
        }
        result = begin(worker, consult);
        if (result == 0 && worker->shared.count > consult->room) {
            undo_here(worker, consult);
            result = WEIR_ERR_WAITER;
        }
        room = WEIR_ASKS_MAX; /* a reload came in between */
    }
    go_on(worker, consult, result);
}

/* ---- Leaving ------------------------------------------------------------------------------------------------------- */

static void on_cancel(struct decider *decider, struct ask *ask, int why)
{
    struct sharing *sharing = (struct sharing *)decider;
    struct worker *worker = sharing->worker;
    struct parked *parked = ask->held;
    struct consult *consult = ask->held;
    if (parked->ended != consult_ended) {
        waiting_cancel(decider, ask, why);
    } else if (!consult->is_asking) {
        if (!waiting_leave(parked, why))
            return;
        count_as_asking(consult);
        consult_free(sharing, consult);
        ask_finish(decider, ask, why, NULL);
    } else if (why == ASK_DRAINED) {
        fleet_drain(worker->store.fleet, ticker_now(worker)); /* which answers it by policy */
    } else {
        fleet_forget(worker->store.fleet, &consult->decision);
        fail_consult(worker, consult, why);
    }
}

static void on_close(struct decider *decider)
{
    struct sharing *sharing = (struct sharing *)decider;
    (void)take_spare(sharing, SIZE_MAX); /* frees them all */
    free(sharing->last);
    free(sharing);
}

struct decider *sharing_new(struct worker *worker)
{
    struct sharing *sharing = malloc(sizeof *sharing);
    struct consult *last = consult_make(WEIR_ASKS_MAX);
    if (sharing == NULL || last == NULL) {
        free(sharing);
        free(last);
        return NULL;
    }
    *sharing = (struct sharing){ .decider = { .start = on_start, .cancel = on_cancel, .close = on_close },
                                 .worker = worker,
                                 .max = WORKER_SHARED_MAX,
                                 .last = last };
#ifdef WEIR_TEST_HOOKS
    const char *max = getenv("WEIR_TEST_SHARED_MAX");
    if (max != NULL)
        sharing->max = strtoull(max, NULL, 10);
#endif
    return &sharing->decider;
}
