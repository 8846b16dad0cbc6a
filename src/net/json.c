// SPDX-License-Identifier: Apache-2.0
/*
 * json.c - /json and /healthcheck, which whoever had envoyproxy/ratelimit before may ask: a call of Envoy's rate limit service as
 * JSON, with the statuses that it answers there.
 *
 * What could not be read or decided is 400 and two words, as there; the log says why, some times a second.
 */
#include "net/log.h"
#include "net/rls.h"
#include "net/worker.h"

#define PLAIN SLICE("text/plain; charset=utf-8")

static void refuse(struct turn *turn, const char *why)
{
    char quoted[LOG_QUOTED_MAX];
    log_event(LOG_WARN, "json_refused", "why=%s", log_quote(why, quoted));
    turn_body(turn, 400, PLAIN, SLICE("Bad Request\n"));
}

static void on_answer(struct turn *turn, enum rls_end end, const char *why, const struct rls_answer *answer)
{
    char *space =
        end == RLS_ANSWERED ? rls_text_room(turn->conn->worker) : NULL; /* the call's text is done with */
    if (end != RLS_ANSWERED || space == NULL) {
        refuse(turn, end != RLS_ANSWERED ? why : "out of memory");
        return;
    }
    struct text out = text_of(space, RLS_ANSWER_MAX);
    rls_json_write(answer, &out);
    if (out.is_cut)
        turn_body(turn, 500, PLAIN, SLICE("Internal Server Error\n"));
    else
        turn_body(turn, answer->overall == RLS_OVER_LIMIT ? 429 : 200, ANSWER_TYPE_JSON, text_slice(&out));
}

void handle_json(struct request *request)
{
    struct turn *turn = request->turn;
    struct worker *worker = turn->conn->worker;
    struct rls_call *call = rls_room(worker);
    char *room = rls_text_room(worker);
    const char *why = "out of memory";
    if (call == NULL || room == NULL
        || rls_json_read(request->body, room, RLS_ANSWER_MAX, call, &why) != RLS_GOOD) {
        refuse(turn, why);
        return;
    }
    rls_start(turn, call, 0, on_answer);
}

void handle_healthcheck(struct request *request)
{
    const struct server *server = request->turn->conn->worker->server;
    bool is_draining = __atomic_load_n(&server->is_draining, __ATOMIC_RELAXED);
    turn_body(request->turn, is_draining ? 500 : 200, PLAIN, is_draining ? SLICE("") : SLICE("OK"));
}
