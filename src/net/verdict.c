// SPDX-License-Identifier: Apache-2.0
/*
 * verdict.c - questions of a turn, and the replies that their verdicts become.
 *
 * Idea: a verdict is lent while we are told of it, so it becomes bytes there and then: in the worker's output when its
 * turn is at the front of the line, else aside. A batch is one reply of many verdicts, which are put together in order.
 *
 * Elsewhere: when a reply leaves (line.c).
 */
#include <assert.h>
#include <stdlib.h>

#include "net/log.h"
#include "net/operate.h"
#include "net/worker.h"

static void count_answer(struct worker *worker, const struct weir_answer *answer, bool acquires)
{
    counters_decision(&worker->counters, edition_of(worker, answer)->rows, answer, acquires);
}

static void log_undecidable(const struct turn *turn, int result)
{
    log_event(LOG_ERROR, "undecidable", "door=%s code=%s", door_name(turn->door),
              result == ASK_CANCELLED ? "cancelled" : weir_error_name(result));
}

/* ---- One decision ------------------------------------------------------------------------------------------------ */

/* The token of what was given: with its part in the store where it has one; empty: nothing was. */
static struct slice token_of(struct worker *worker, const struct ask *ask, const struct verdict *verdict)
{
    struct slice own = { NULL, 0 };
    if (ask->kind == ASK_ACQUIRE)
        own = (struct slice){ (const char *)verdict->permit.bytes, verdict->permit.len };
    else if (ask->kind == ASK_RESERVE)
        own = (struct slice){ (const char *)verdict->ticket.bytes, verdict->ticket.len };
    if (verdict->handle.len == 0)
        return own;
    const struct token token = { own, verdict->handle };
    return (struct slice){ (const char *)worker->joint, token_join(&token, worker->joint) };
}

void turn_undecided(struct turn *turn, int result)
{
    if (result == ASK_DRAINED) {
        turn_error(turn, 503, "the server ends before the request's turn has come; ask another, or again",
                   SLICE(""), SLICE("Retry-After: 1\r\n"));
        return;
    }
    log_undecidable(turn, result);
    turn_error(turn, 500, result == ASK_CANCELLED ? "the decision was cancelled" : weir_error_text(result),
               SLICE(""), SLICE(""));
}

/* Nobody gets what was given. */
static void give_back(struct worker *worker, const struct ask *ask, const struct verdict *verdict)
{
    struct weir *limiter = weir_contract_limiter(worker->server->contract);
    struct weir_settlement settled;
    weir_ns now = ticker_now(worker);
    if (ask->kind == ASK_ACQUIRE) {
        permits_give_back(worker, token_of(worker, ask, verdict), now);
        return;
    }
    if (ask->kind != ASK_RESERVE)
        return;
    int code = verdict->ticket.len == 0
                   ? 0
                   : weir_cancel(limiter, verdict->ticket.bytes, verdict->ticket.len, now, &settled);
    if (code != 0) /* no room to remember it: the estimate stays charged */
        log_event(LOG_WARN, "not_cancelled", "code=%s", weir_error_name(code));
    if (verdict->handle.len > 0)
        operate_give_back(worker, FLEET_CANCEL, verdict->handle);
}

struct answer_beside answer_beside_of(const struct ask *ask, const struct verdict *verdict, struct slice token)
{
    struct answer_beside beside = { .has_waited = verdict->has_waited,
                                    .waited = verdict->waited,
                                    .wait = verdict->wait,
                                    .joint = verdict->handle.len > 0 ? token : SLICE("") };
    if (ask->kind == ASK_RESERVE) {
        beside.ticket = &verdict->ticket;
        beside.expires_after = ask->hold;
    } else if (ask->kind == ASK_ACQUIRE) {
        beside.permit = &verdict->permit;
        beside.expires_after =
            verdict->permit.expires_at > verdict->now ? verdict->permit.expires_at - verdict->now : 0;
    }
    return beside;
}

static void answer_verdict(struct turn *turn, const struct ask *ask, const struct verdict *verdict)
{
    struct conn *conn = turn->conn;
    struct slice token = token_of(conn->worker, ask, verdict);
    bool is_given = ask->kind == ASK_ACQUIRE && token.len > 0;
    if (is_given)
        counter_add(&conn->worker->counters.permits[PERMIT_ACQUIRED], 1);
    if (is_given && turn->is_bound) {
        if (!permits_bind(conn, token, verdict->permit.expires_at)) {
            give_back(conn->worker, ask, verdict);
            turn_error(turn, 503, "out of memory", SLICE(""), SLICE("Retry-After: 1\r\n"));
            return;
        }
        turn->is_bound = false; /* its place in the list is the permit's now */
    }
    struct text *out = turn_begin(turn);
    turn_end(turn, conn->protocol->decision(turn, ask, verdict, token, out), out);
}

/*
 * The reply of a turn at the front is sent at once, unless the connection is being served just now and sends it with
 * others.
 */
static void answer_turn(struct turn *turn, const struct ask *ask, const struct verdict *verdict)
{
    struct conn *conn = turn->conn;
    bool has_entered = turn_enter(turn);
    if (verdict == NULL)
        turn_undecided(turn, ask->result);
    else
        answer_verdict(turn, ask, verdict);
    if (has_entered)
        turn_leave(conn);
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

/* One item of a batch that is done before those in front of it; its ask holds it. */
struct item {
    size_t len;
    char bytes[];
};

/* Room for one more item, by doubling: a batch is at most CHECK_REQUESTS_MAX * ANSWER_JSON_MAX. */
static bool grow_batch(struct turn *turn)
{
    if (turn->reply_cap - turn->reply_len >= ANSWER_JSON_MAX)
        return true;
    size_t more = turn->reply_cap == 0 ? 2 * ANSWER_JSON_MAX : turn->reply_cap;
    if (!turn_hold(turn, more))
        return false;
    char *grown = realloc(turn->reply, turn->reply_cap + more);
    if (grown == NULL) {
        conn_break(turn->conn);
        return false;
    }
    turn->reply = grown;
    turn->reply_cap += more;
    return true;
}

/* An item that is not next is kept. */
static void keep_item(struct turn *turn, struct ask *ask, const struct weir_answer *answer, weir_ns now)
{
    struct text *aside = &turn->conn->worker->aside;
    aside->len = 0;
    aside->is_cut = false;
    answer_batch_item(aside, answer, now, false);
    assert(!aside->is_cut);
    struct item *item = turn_hold(turn, aside->len) ? malloc(sizeof *item + aside->len) : NULL;
    if (item == NULL) {
        conn_break(turn->conn);
        return;
    }
    item->len = aside->len;
    memcpy(item->bytes, aside->at, aside->len);
    ask->held = item;
}

/* The next item goes to the end of the reply: the kept one, or else the answer. */
static bool append_item(struct turn *turn, const struct weir_answer *answer, weir_ns now)
{
    struct worker *worker = turn->conn->worker;
    struct ask *ask = turn->first_ask;
    const struct item *item = ask->held;
    bool is_first = turn->reply_len == 0;
    if (!grow_batch(turn))
        return false;
    struct text text = { .at = turn->reply, .len = turn->reply_len, .cap = turn->reply_cap };
    if (is_first)
        answer_batch_open(&text);
    if (item == NULL)
        answer_batch_item(&text, answer, now, is_first);
    else
        text_bytes(&text, item->bytes, item->len);
    if (turn->asks_left == 1)
        answer_batch_close(&text);
    assert(!text.is_cut);
    turn->reply_len = text.len;

    turn->first_ask = ask->next;
    if (turn->first_ask == NULL)
        turn->last_ask = NULL;
    free(ask->held);
    worker_ask_free(worker, ask);
    turn->asks_left--;
    worker->asks_out--;
    return true;
}

/* One item is decided: it and what was kept for it move to the reply, so a batch of a thousand holds few asks at once. */
static void collect_item(struct turn *turn, struct ask *ask, const struct verdict *verdict)
{
    struct worker *worker = turn->conn->worker;
    const struct weir_answer *answer = verdict == NULL ? &worker->verdict.answer : &verdict->answer;
    if (verdict == NULL) {
        log_undecidable(turn, ask->result);
        weir_answer_refused(ask->now, &worker->verdict.answer);
    }
    weir_ns now = verdict == NULL ? ask->now : verdict->now;
    ask->held = NULL; /* its decider has let go of it */
    if (ask != turn->first_ask) {
        keep_item(turn, ask, answer, now);
        return;
    }
    do
        if (!append_item(turn, answer, now))
            return;
    while (turn->first_ask != NULL && turn->first_ask->state == ASK_DONE);
    turn->is_done = turn->asks_left == 0;
}

/* ---- Being told -------------------------------------------------------------------------------------------------- */

/* How long the decision took; what waited for its turn is told by weir_wait_seconds. */
static void count_time(const struct ask *ask, const struct verdict *verdict, struct conn *conn)
{
    struct worker *worker = conn->worker;
    const struct turn *turn = ask->owner;
    if (conn->is_active)
        worker_decided(worker, turn->door);
    else if (verdict != NULL && !verdict->has_waited)
        counters_time(&worker->counters, turn->door, 1, weir_now() - ask->started_at);
}

static void on_decided(struct ask *ask, const struct verdict *verdict)
{
    struct turn *turn = ask->owner;
    struct conn *conn = turn->conn;
    struct worker *worker = conn->worker;
    bool is_served_now = conn->is_active;
    conn->asks_pending--;
    if (verdict != NULL && !ask->is_peek)
        count_answer(worker, &verdict->answer, ask->kind == ASK_ACQUIRE);
    count_time(ask, verdict, conn);
    worker_let_go(worker, ask); /* when we return; until then no reload can notice */
    if (conn->is_gone || turn->is_dropped) {
        ask->held = NULL;
        if (conn->is_gone)
            turn->is_done = true; /* whoever walks the line finds it as it was */
        else
            turn_forget(turn);
        if (verdict != NULL)
            give_back(worker, ask, verdict);
    } else if (turn->is_batch) {
        collect_item(turn, ask, verdict);
    } else if (verdict != NULL || !turn->is_asking) {
        answer_turn(turn, ask, verdict); /* which may be the end of both */
    }
    if (!is_served_now)
        worker_mark(worker, conn);
}

/* ---- Asking ------------------------------------------------------------------------------------------------------ */

void turn_busy(struct turn *turn)
{
    turn_error(turn, 503, "too many decisions are under way; try again", SLICE(""),
               SLICE("Retry-After: 1\r\n"));
}

bool turn_reserve(struct turn *turn, size_t count, bool is_batch)
{
    struct worker *worker = turn->conn->worker;
    if (count > WORKER_ASKS_MAX - worker->asks_out)
        return false;
    worker->asks_out += count;
    turn->asks_left = (uint32_t)count;
    turn->is_batch = is_batch;
    return true;
}

static struct ask *new_ask(struct turn *turn)
{
    struct ask *ask = worker_ask_new(turn->conn->worker);
    if (ask == NULL) {
        conn_break(turn->conn);
        return NULL;
    }
    ask->now = turn->now;
    ask->owner = turn;
    ask->done = on_decided;
    if (turn->last_ask == NULL)
        turn->first_ask = ask;
    else
        turn->last_ask->next = ask;
    turn->last_ask = ask;
    return ask;
}

/* The turn is to be answered by other means. */
static void forget_ask(struct turn *turn)
{
    struct worker *worker = turn->conn->worker;
    worker_ask_free(worker, turn->first_ask);
    turn->first_ask = NULL;
    turn->last_ask = NULL;
    worker->asks_out -= turn->asks_left;
    turn->asks_left = 0;
}

int turn_ask(struct turn *turn, enum ask_kind kind, const struct weir_request *request, weir_ns hold)
{
    struct conn *conn = turn->conn;
    struct ask *ask = new_ask(turn);
    if (ask == NULL)
        return 0; /* the connection is gone */
    bool is_batch = turn->is_batch;
    ask->kind = (uint8_t)kind;
    ask->request = request;
    ask->is_peek = weir_request_is_peek(request);
    ask->hold = hold;
    ask->started_at = conn->worker->now;
    conn->asks_pending++;
    turn->is_asking = true;
    worker_hold(conn->worker, ask);
    ask_start(conn->worker->decider, ask);
    if (is_batch) /* whose turn has taken the ask, if it is done */
        return 0;
    turn->is_asking = false;
    ask->request = NULL;
    int code = ask->state == ASK_DONE ? ask->result : 0;
    if (code != 0)
        forget_ask(turn);
    return code;
}

void turn_refuse(struct turn *turn)
{
    struct worker *worker = turn->conn->worker;
    struct verdict *verdict = &worker->verdict;
    const struct ask ask = { .kind = ASK_CHECK };
    weir_answer_refused(turn->now, &verdict->answer);
    verdict->now = turn->now;
    verdict->has_waited = false;
    verdict->wait = ANSWER_WAIT_UNTOLD;
    count_answer(worker, &verdict->answer, false);
    answer_turn(turn, &ask, verdict);
}
