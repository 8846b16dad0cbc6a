// SPDX-License-Identifier: Apache-2.0
/*
 * rls_tell.c - what was decided of a call becomes its answer, and the door is told.
 *
 * Idea: where all descriptors are one the answer is made and told while it is lent. Where each is decided by itself its status is kept
 * in its item, and the last that is done puts them together.
 */
#include <stdlib.h>

#include "net/rls_inside.h"

/* Digits of a header's number. */
#define NUMBER_MAX 24

/* The status that speaks for all in the headers: the last that is over, else the first with least left. */
static const struct rls_status *nearest(const struct rls_answer *answer)
{
    const struct rls_status *found = NULL;
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < answer->count; i++) {
        const struct rls_status *status = &answer->statuses[i];
        bool is_over = status->code == RLS_OVER_LIMIT;
        if (!status->has_limit || (!is_over && status->remaining >= least))
            continue;
        found = status;
        least = is_over ? 0 : status->remaining;
    }
    return found;
}

static void add_number(struct rls_answer *answer, char *room, const char *name, uint64_t number)
{
    if (name == NULL || answer->header_count == RLS_HEADERS_MAX)
        return;
    struct text text = text_of(room, NUMBER_MAX);
    text_u64(&text, number);
    answer->headers[answer->header_count++] = (struct rls_header){ slice_of(name), text_slice(&text) };
}

static void add_headers(const struct server_ratelimit *mode, struct rls_answer *answer,
                        char room[3][NUMBER_MAX])
{
    const struct rls_status *status = nearest(answer);
    if (status == NULL)
        return;
    add_number(answer, room[0], mode->headers[0], status->requests_per_unit);
    add_number(answer, room[1], mode->headers[1], status->remaining);
    add_number(answer, room[2], mode->headers[2], status->reset_seconds);
}

/* Over where a rule that is none of quota_mode is, or where all of quota_mode are that were met. */
static enum rls_code overall(const struct inquiry *inquiry)
{
    size_t quotas = 0, quotas_over = 0;
    for (size_t i = 0; i < inquiry->item_count; i++) {
        const struct item *item = &inquiry->items[i];
        if (item->is_over && !item->is_quota)
            return RLS_OVER_LIMIT;
        quotas += item->is_quota;
        quotas_over += item->is_quota && item->is_over;
    }
    return quotas > 0 && quotas_over == quotas ? RLS_OVER_LIMIT : RLS_OK;
}

/* An empty answer to be filled in: every status is OK, without a limit. */
static struct rls_answer *answer_of(struct inquiry *inquiry)
{
    struct rls_answer *answer = &inquiry->turn->conn->worker->rls->answer;
    answer->overall = RLS_OK;
    answer->count = inquiry->count;
    answer->header_count = 0;
    answer->body = SLICE("");
    for (size_t i = 0; i < inquiry->count; i++)
        answer->statuses[i] = (struct rls_status){ .code = RLS_OK };
    return answer;
}

/* Names of limits are in the answer; no reload can notice before we return. */
static void let_go(struct inquiry *inquiry)
{
    struct worker *worker = inquiry->turn->conn->worker;
    for (size_t i = 0; i < inquiry->item_count; i++)
        if (inquiry->items[i].ask != NULL)
            worker_let_go(worker, inquiry->items[i].ask);
}

void rls_tell(struct inquiry *inquiry, struct rls_answer *answer)
{
    struct turn *turn = inquiry->turn;
    struct conn *conn = turn->conn;
    const struct server_ratelimit *mode = mode_of(turn);
    char room[3][NUMBER_MAX];
    if (inquiry->end != RLS_ANSWERED)
        answer = NULL;
    if (answer != NULL && mode != NULL)
        add_headers(mode, answer, room);
    if (answer != NULL && mode != NULL && mode->is_shadow)
        answer->overall = RLS_OK;
    inquiry->is_told = true;
    let_go(inquiry);
    bool has_entered = turn_enter(turn);
    inquiry->done(turn, inquiry->end, inquiry->why, answer);
    if (has_entered)
        turn_leave(conn);
}

/* What nothing has answered: refused descriptors, or each by itself. */
static struct rls_answer *put_together(struct inquiry *inquiry)
{
    struct rls_answer *answer = answer_of(inquiry);
    for (size_t i = 0; i < inquiry->count; i++) {
        if (is_apart(inquiry->turn))
            answer->statuses[i] = inquiry->items[i].status;
        if ((inquiry->refused >> i & 1) == 0)
            continue;
        answer->statuses[i].code = RLS_OVER_LIMIT;
        answer->overall = RLS_OVER_LIMIT;
    }
    if (is_apart(inquiry->turn))
        answer->overall = overall(inquiry);
    return answer;
}

void rls_finish(struct inquiry *inquiry)
{
    struct turn *turn = inquiry->turn;
    if (!inquiry->is_told && turn->conn->is_gone) {
        let_go(inquiry);
        turn->is_done = true; /* whoever walks the line finds it as it was */
    } else if (!inquiry->is_told && turn->is_dropped) {
        let_go(inquiry);
        turn_forget(turn);
    } else if (!inquiry->is_told) {
        rls_tell(inquiry, inquiry->end == RLS_ANSWERED ? put_together(inquiry) : NULL);
    }
    for (size_t i = 0; i < inquiry->item_count; i++)
        free(inquiry->items[i].copy);
    free(inquiry->refund);
    free(inquiry);
}

/* ---- Being told ---------------------------------------------------------------------------------------------------- */

struct rls_answer *rls_take_together(struct inquiry *inquiry, const struct verdict *verdict)
{
    struct worker *worker = inquiry->turn->conn->worker;
    struct rls_answer *answer = answer_of(inquiry);
    enum weir_headers headers = mode_of(inquiry->turn) != NULL ? WEIR_HEADERS_NONE : worker->edition->headers;
    rls_answer_make(&verdict->answer, verdict->now, inquiry->asked, inquiry->count, headers, answer);
    return answer;
}

/* The limit's window ends at a multiple of its length since 1970, also where nothing is used. */
static void set_reset(const struct worker *worker, const struct weir_contract_limit *limit, weir_ns now,
                      struct rls_status *status)
{
    const struct server *server = worker->server;
    weir_ns period = limit->spec->rate.period;
    int64_t offset = server->is_virtual ? server->wall_offset : weir_wall_offset();
    uint64_t wall = now + (uint64_t)offset;
    if (limit->algorithm != WEIR_FIXED_WINDOW || limit->spec->align != WEIR_ALIGN_EPOCH || period == 0)
        return;
    weir_ns left = period - wall % period;
    status->has_reset = true;
    status->reset_seconds = (left + WEIR_SECOND - 1) / WEIR_SECOND;
}

static bool cut_prefix(struct slice *text, struct slice prefix)
{
    if (text->len < prefix.len || memcmp(text->at, prefix.at, prefix.len) != 0)
        return false;
    *text = (struct slice){ text->at + prefix.len, text->len - prefix.len };
    return true;
}

/* What one descriptor was told. A limit that only watches speaks as if it enforced, and refuses nobody. */
void rls_take_apart(struct item *item, const struct verdict *verdict)
{
    struct inquiry *inquiry = item->inquiry;
    struct worker *worker = inquiry->turn->conn->worker;
    const struct weir_answer *given = &verdict->answer;
    struct rls_answer *one = answer_of(inquiry);
    struct weir_answer seen = { .decision = given->count > 0 ? given->each[0] : given->decision,
                                .limits = given->limits,
                                .count = given->count > 0 };
    seen.each[0] = seen.decision;
    rls_answer_make(&seen, verdict->now, &inquiry->asked[item->descriptor], 1, WEIR_HEADERS_NONE, one);
    struct rls_status *status = &item->status;
    *status = one->statuses[0];
    if (seen.decision.limit != WEIR_NO_LIMIT) {
        const struct weir_contract_limit *limit = &given->limits[seen.decision.limit];
        struct slice about = slice_of(limit->about == NULL ? "" : limit->about);
        item->is_quota = cut_prefix(&about, SLICE(WEIR_IMPORT_QUOTA));
        if (cut_prefix(&about, SLICE(WEIR_IMPORT_NAME)))
            status->name = about; /* there a limit has the name alone that its rule gives it */
        set_reset(worker, limit, verdict->now, status);
    }
    item->is_over = status->code == RLS_OVER_LIMIT && (given->watched & 1) == 0;
    if (status->code == RLS_OVER_LIMIT)
        status->remaining = 0; /* also where it asked for more than there ever is */
    if ((given->watched & 1) != 0)
        status->code = RLS_OK;
}
