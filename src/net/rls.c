// SPDX-License-Identifier: Apache-2.0
/*
 * rls.c - descriptors become requests, one ask or several, and what was decided becomes an answer; see rls.h.
 *
 * Idea: an inquiry lives from rls_start() until its last ask is done, and holds what an answer needs of the call: its bytes are gone
 * by then. One hold is the starter's own, so a call whose asks are all done at once ends in rls_start(), not before.
 *
 * As envoyproxy/ratelimit decides, each descriptor is an ask of its own. It counts what it refuses, without an end; here a limit
 * with `refused: charged` counts up to one capacity more, and a cost above the capacity not at all. So what asks for more than there
 * ever is takes the whole capacity instead, and one more where that was free: whoever comes next meets the same answer.
 */
#include "net/rls_inside.h"

#include <assert.h>
#include <stdlib.h>

#include "net/log.h"

static struct rls_desk *desk_of(struct worker *worker)
{
    if (worker->rls == NULL)
        worker->rls = calloc(1, sizeof *worker->rls);
    return worker->rls;
}

struct rls_call *rls_room(struct worker *worker)
{
    struct rls_desk *desk = desk_of(worker);
    return desk == NULL ? NULL : &desk->call;
}

char *rls_text_room(struct worker *worker)
{
    struct rls_desk *desk = desk_of(worker);
    return desk == NULL ? NULL : desk->text;
}

void rls_desk_free(struct rls_desk *desk)
{
    free(desk);
}

static void drop_hold(struct inquiry *inquiry)
{
    if (--inquiry->left == 0)
        rls_finish(inquiry);
}

/* ---- Being told ---------------------------------------------------------------------------------------------------- */

static void fail(struct inquiry *inquiry, enum rls_end end, const char *why)
{
    if (inquiry->end != RLS_ANSWERED)
        return; /* the first says why */
    inquiry->end = end;
    inquiry->why = why;
}

/* What no limit accepts is over its limit. */
static void refuse(struct inquiry *inquiry, struct item *item)
{
    inquiry->refused |= UINT64_C(1) << item->descriptor;
    item->is_over = true;
}

static void fail_by(struct inquiry *inquiry, int result)
{
    if (result == ASK_DRAINED)
        fail(inquiry, RLS_UNDECIDED,
             "the server ends before the request's turn has come; ask another, or again");
    else if (result == WEIR_ERR_ASKS)
        fail(inquiry, RLS_INVALID, "the descriptors meet more limits together than one call may; send fewer");
    else
        fail(inquiry, RLS_FAILED,
             result == ASK_CANCELLED ? "the decision was cancelled" : weir_error_text(result));
}

static const char *why_undecided(enum weir_reason reason)
{
    switch (reason) {
    case WEIR_REASON_STORE:
        return "the shared store could not be had";
    case WEIR_REASON_FULL:
        return "there is no room for another key";
    case WEIR_REASON_CONTENDED:
        return "too many asked for one key at once";
    default:
        return "it could not be decided in time";
    }
}

/* Whether the item has more to charge. */
static bool overcharges(struct item *item, const struct weir_answer *answer)
{
    const struct weir_decision *decision = answer->count > 0 ? &answer->each[0] : &answer->decision;
    if (decision->limit == WEIR_NO_LIMIT) /* of a limit that the descriptor brought: it keeps no refusals */
        return false;
    if (!item->is_at_once && item->copy == NULL)
        return false;
    if (!item->is_at_once)
        item->request = item->copy->request;
    if (item->overcharge == OVERCHARGE_NONE && decision->outcome == WEIR_NEVER && decision->capacity > 0) {
        item->overcharge = OVERCHARGE_ALL;
        item->request.cost = decision->capacity;
        return true;
    }
    if (item->overcharge == OVERCHARGE_ALL && outcome_passes(decision->outcome)) {
        item->overcharge = OVERCHARGE_ONE;
        item->request.cost = 1;
        return true;
    }
    return false;
}

static void count_decision(struct turn *turn, const struct ask *ask, const struct verdict *verdict)
{
    struct worker *worker = turn->conn->worker;
    if (!ask->is_peek)
        counters_decision(&worker->counters, edition_of(worker, &verdict->answer)->rows, &verdict->answer,
                          false);
    if (turn->conn->is_active)
        worker_decided(worker, turn->door);
    else if (!verdict->has_waited)
        counters_time(&worker->counters, turn->door, 1, weir_now() - ask->started_at);
}

static void start(struct item *item);

/* The rest has passed. What cannot be given back was refused before anything was asked, so nothing but a reload makes it fail. */
static void give_back(const struct inquiry *inquiry, weir_ns now)
{
    struct weir_settlement ignored;
    if (inquiry->refund == NULL)
        return;
    int code = weir_contract_refund(inquiry->turn->conn->worker->server->contract, &inquiry->refund->request,
                                    now, &ignored);
    if (code != 0)
        log_event(LOG_WARN, "refund_lost", "why=\"%s\"", weir_error_text(code));
}

/* What one ask was told, the first time. */
static struct rls_answer *take(struct item *item, struct ask *ask, const struct verdict *verdict)
{
    struct inquiry *inquiry = item->inquiry;
    struct turn *turn = inquiry->turn;
    if (verdict == NULL && (ask->result == WEIR_ERR_ATTRIBUTE || ask->result == WEIR_ERR_COST)) {
        refuse(inquiry, item); /* a reload came in between, or it is more than anything can count */
        return NULL;
    }
    if (verdict == NULL) {
        fail_by(inquiry, ask->result);
        return NULL;
    }
    count_decision(turn, ask, verdict);
    if (verdict->answer.decision.outcome == WEIR_REFUSED) {
        fail(inquiry, RLS_UNDECIDED, why_undecided(verdict->answer.decision.reason));
        return NULL;
    }
    if (is_apart(turn)) {
        rls_take_apart(item, verdict);
        return NULL;
    }
    struct rls_answer *answer = rls_take_together(inquiry, verdict);
    if (answer->overall == RLS_OK)
        give_back(inquiry, verdict->now);
    return answer;
}

static void on_decided(struct ask *ask, const struct verdict *verdict)
{
    struct item *item = ask->owner;
    struct inquiry *inquiry = item->inquiry;
    struct turn *turn = inquiry->turn;
    struct conn *conn = turn->conn;
    struct worker *worker = conn->worker;
    bool is_served_now = conn->is_active;
    bool may_tell = !conn->is_gone && !turn->is_dropped;
    struct rls_answer *answer = NULL;
    conn->asks_pending--;
    if (item->overcharge == OVERCHARGE_NONE)
        answer = take(item, ask, verdict);
    bool goes_on = verdict != NULL && is_apart(turn) && may_tell && overcharges(item, &verdict->answer);
    if (answer != NULL && may_tell)
        rls_tell(inquiry, answer);
    if (goes_on)
        start(item);
    else
        drop_hold(inquiry);
    if (!is_served_now)
        worker_mark(worker, conn);
}

/* ---- Asking -------------------------------------------------------------------------------------------------------- */

/* Ask, or where it was asked already ask for more. */
static void start(struct item *item)
{
    struct ask *ask = item->ask;
    struct turn *turn = item->inquiry->turn;
    struct worker *worker = turn->conn->worker;
    if (ask->state == ASK_DONE)
        worker_let_go(worker, ask);
    ask->state = ASK_IDLE;
    ask->request = &item->request;
    ask->is_peek = weir_request_is_peek(&item->request);
    ask->held = NULL;
    ask->started_at = worker->now;
    turn->conn->asks_pending++;
    worker_hold(worker, ask);
    ask_start(worker->decider, ask);
}

/* False: out of memory. */
static bool add_ask(struct item *item)
{
    struct turn *turn = item->inquiry->turn;
    struct ask *ask = worker_ask_new(turn->conn->worker);
    if (ask == NULL)
        return false;
    ask->kind = ASK_CHECK;
    ask->now = turn->now;
    ask->owner = item;
    ask->done = on_decided;
    item->ask = ask;
    if (turn->last_ask == NULL)
        turn->first_ask = ask;
    else
        turn->last_ask->next = ask;
    turn->last_ask = ask;
    return true;
}

static void ask(struct item *item)
{
    struct inquiry *inquiry = item->inquiry;
    if (inquiry->turn->conn->is_gone)
        return;
    if (!add_ask(item)) {
        fail(inquiry, RLS_UNDECIDED, "out of memory");
        return;
    }
    bool may_have_more = is_apart(inquiry->turn) && item->request.cost > 1 && item->request.own == NULL;
    inquiry->left++;
    item->is_at_once = true;
    start(item);
    item->is_at_once = false;
    if (may_have_more && item->ask->state == ASK_STARTED)
        item->copy = request_copy_new(&item->request); /* where there is no memory, it charges no more */
}

/* ---- From a call to requests ------------------------------------------------------------------------------------------- */

static struct inquiry *inquiry_new(struct turn *turn, const struct rls_call *call, size_t item_count,
                                   rls_done *done)
{
    struct inquiry *inquiry = malloc(sizeof *inquiry + item_count * sizeof *inquiry->items);
    if (inquiry == NULL)
        return NULL;
    assert(call->count > 0);
    inquiry->turn = turn;
    inquiry->done = done;
    inquiry->left = 1;
    inquiry->end = RLS_ANSWERED;
    inquiry->why = NULL;
    inquiry->is_told = false;
    inquiry->refused = 0;
    inquiry->refund = NULL;
    inquiry->count = call->count;
    memcpy(inquiry->asked, call->asked, call->count * sizeof *call->asked);
    inquiry->item_count = item_count;
    for (size_t i = 0; i < item_count; i++)
        inquiry->items[i] =
            (struct item){ .inquiry = inquiry, .descriptor = (uint8_t)i, .status = { .code = RLS_OK } };
    return inquiry;
}

/* What a descriptor brings along counts instead of the contract. */
static void bring(struct rls_desk *desk, const struct rls_call *call, size_t index)
{
    static const weir_ns units[] = {
        [RLS_SECOND] = WEIR_SECOND,  [RLS_MINUTE] = WEIR_MINUTE, [RLS_HOUR] = WEIR_HOUR,
        [RLS_DAY] = WEIR_DAY,        [RLS_WEEK] = 7 * WEIR_DAY,  [RLS_MONTH] = 30 * WEIR_DAY,
        [RLS_YEAR] = 365 * WEIR_DAY,
    };
    const struct rls_asked *asked = &call->asked[index];
    struct weir_own_limit *own = &desk->own[index];
    *own = (struct weir_own_limit){ .key = desk->keys[index],
                                    .requests = asked->requests_per_unit,
                                    .period = units[asked->unit] * asked->unit_multiplier };
    own->key_len =
        weir_descriptor_key(call->domain.at, call->domain.len, &call->descriptors[index], desk->keys[index]);
    desk->requests[index].own = own;
}

static void describe(struct worker *worker, const struct rls_call *call, size_t index, weir_ns wait)
{
    struct rls_desk *desk = worker->rls;
    struct weir_identity *identity = &desk->identities[index];
    weir_contract_describe(worker->server->contract, call->domain.at, call->domain.len, call->descriptors,
                           call->count, index, identity);
    desk->requests[index] = (struct weir_request){ .attributes = identity->attributes,
                                                   .attribute_count = identity->count,
                                                   .cost = call->asked[index].hits,
                                                   .is_peek = call->asked[index].hits == 0,
                                                   .wait = wait };
    if (call->asked[index].has_limit)
        bring(desk, call, index);
}

/* Link those that are a refund, or those that are none; gives the first. NULL: there is none. */
static struct weir_request *chain(const struct inquiry *inquiry, struct rls_desk *desk, bool are_refunds)
{
    struct weir_request *first = NULL, *last = NULL;
    for (size_t i = 0; i < inquiry->count; i++) {
        struct weir_request *request = &desk->requests[i];
        if (inquiry->asked[i].is_refund != are_refunds)
            continue;
        request->also = NULL;
        if (last == NULL)
            first = request;
        else
            last->also = request;
        last = request;
    }
    return first;
}

/* Keep what is to be given back, or say why it cannot be. */
static void keep_refund(struct inquiry *inquiry, struct weir_request *first)
{
    struct worker *worker = inquiry->turn->conn->worker;
    const struct weir_contract *contract = worker->server->contract;
    struct weir_fault fault;
    for (struct weir_request *request = first; request != NULL;
         request = (struct weir_request *)(uintptr_t)request->also)
        request->is_peek = false; /* of no hits nothing is given back */
    if (first == NULL)
        return;
    if (weir_contract_validate(contract, first, &fault) != 0) {
        fail(inquiry, RLS_INVALID, "is_negative_hits: the descriptor has a value that no limit counts");
        return;
    }
    if (weir_contract_has_shared(contract) && weir_contract_shared(contract, first, &worker->shared) == 0
        && worker->shared.count > 0) {
        fail(inquiry, RLS_INVALID,
             "is_negative_hits: limits of `scope: fleet` take hits back by POST /v1/refund alone");
        return;
    }
    inquiry->refund = request_copy_new(first);
    if (inquiry->refund == NULL)
        fail(inquiry, RLS_UNDECIDED, "out of memory");
}

/* All are one: where one is refused nothing is asked, and nothing is given back. */
static void ask_together(struct inquiry *inquiry, struct rls_desk *desk)
{
    const struct weir_request *first = chain(inquiry, desk, false);
    for (size_t i = 0; i < inquiry->count; i++)
        if (desk->identities[i].refused != NULL)
            inquiry->refused |= UINT64_C(1) << i;
    keep_refund(inquiry, chain(inquiry, desk, true));
    if (inquiry->refused != 0 || inquiry->end != RLS_ANSWERED)
        return;
    if (first == NULL) {
        give_back(inquiry, inquiry->turn->now);
        return;
    }
    inquiry->items[0].request = *first;
    ask(&inquiry->items[0]);
}

static void ask_apart(struct inquiry *inquiry, const struct rls_desk *desk)
{
    for (size_t i = 0; i < inquiry->item_count; i++) {
        struct item *item = &inquiry->items[i];
        item->request = desk->requests[i];
        if (desk->identities[i].refused != NULL)
            refuse(inquiry, item);
        else
            ask(item);
    }
}

/* The longest period of a limit that a descriptor brings along, in units. */
#define OWN_YEARS_MAX 10

static const char *why_no_limit(const struct rls_asked *asked)
{
    static const uint32_t most[] = { [RLS_SECOND] = OWN_YEARS_MAX * 365 * 86400,
                                     [RLS_MINUTE] = OWN_YEARS_MAX * 365 * 1440,
                                     [RLS_HOUR] = OWN_YEARS_MAX * 365 * 24,
                                     [RLS_DAY] = OWN_YEARS_MAX * 365,
                                     [RLS_WEEK] = OWN_YEARS_MAX * 365 / 7,
                                     [RLS_MONTH] = OWN_YEARS_MAX * 365 / 30,
                                     [RLS_YEAR] = OWN_YEARS_MAX };
    if ((size_t)asked->unit >= sizeof most / sizeof *most || most[asked->unit] == 0)
        return "limit.unit: write SECOND, MINUTE, HOUR, DAY, MONTH or YEAR";
    if (asked->unit_multiplier == 0 || asked->unit_multiplier > most[asked->unit])
        return "limit.unit_multiplier: from 1 to ten years";
    return NULL;
}

static const char *why_no_refund(const struct turn *turn, const struct rls_asked *asked)
{
    if (mode_of(turn) != NULL)
        return "is_negative_hits: a refund is not allowed here, since a client could refill itself";
    if (!turn->conn->worker->server->settings->rls_refunds)
        return "is_negative_hits: a refund is not allowed here, since a client could refill itself; where your "
               "proxies alone can "
               "ask write `server: { rls-refunds: true }`";
    return asked->has_limit ? "is_negative_hits: a limit that the descriptor brings takes nothing back" : NULL;
}

/* What this server does not do, or NULL. */
static const char *why_not(const struct turn *turn, const struct rls_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        const struct rls_asked *asked = &call->asked[i];
        const char *why = asked->is_refund   ? why_no_refund(turn, asked)
                          : asked->has_limit ? why_no_limit(asked)
                                             : NULL;
        if (why != NULL)
            return why;
    }
    return NULL;
}

void rls_start(struct turn *turn, const struct rls_call *call, weir_ns wait, rls_done *done)
{
    struct worker *worker = turn->conn->worker;
    struct rls_desk *desk = desk_of(worker);
    bool is_each = is_apart(turn);
    size_t item_count = is_each ? call->count : 1;
    const char *why = why_not(turn, call);
    if (why != NULL) {
        done(turn, RLS_INVALID, why, NULL);
        return;
    }
    struct inquiry *inquiry = desk == NULL ? NULL : inquiry_new(turn, call, item_count, done);
    if (inquiry == NULL) {
        done(turn, RLS_UNDECIDED, "out of memory", NULL);
        return;
    }
    if (turn_reserve(turn, item_count, false)) {
        for (size_t i = 0; i < call->count; i++)
            describe(worker, call, i, is_each ? 0 : wait);
        if (is_each)
            ask_apart(inquiry, desk);
        else
            ask_together(inquiry, desk);
    } else {
        fail(inquiry, RLS_UNDECIDED, "too many decisions are under way; try again");
    }
    drop_hold(inquiry);
}

void rls_cancel(struct turn *turn)
{
    for (struct ask *ask = turn->first_ask, *next; ask != NULL; ask = next) {
        next = ask->next;
        if (ask->state == ASK_STARTED)
            ask_cancel(turn->conn->worker->decider, ask, ASK_CANCELLED);
    }
}
