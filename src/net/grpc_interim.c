// SPDX-License-Identifier: Apache-2.0
/*
 * grpc_interim.c - ShouldRateLimit for one descriptor, until rls.h is whole: then this file goes.
 */
#include "net/grpc.h"
#include "net/worker.h"

unsigned grpc_interim_decision(struct turn *turn, const struct ask *ask, const struct verdict *verdict,
                               struct slice token, struct text *out);

/* A varint; false: there is none. */
static bool read_varint(struct slice *from, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; from->len > 0 && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)*from->at;
        from->at++;
        from->len--;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The next field: a length-delimited one into *value, a number into *number. */
static bool read_field(struct slice *from, unsigned *field, struct slice *value, uint64_t *number)
{
    uint64_t tag;
    *value = (struct slice){ NULL, 0 };
    if (from->len == 0 || !read_varint(from, &tag) || !read_varint(from, number))
        return false;
    *field = (unsigned)(tag >> 3);
    if ((tag & 7) == 0)
        return true;
    if ((tag & 7) != 2 || *number > from->len)
        return false;
    *value = (struct slice){ from->at, (size_t)*number };
    from->at += *number;
    from->len -= (size_t)*number;
    return true;
}

static void read_entry(struct slice from, struct weir_entry *entry)
{
    unsigned field;
    struct slice value;
    uint64_t number;
    while (read_field(&from, &field, &value, &number)) {
        if (field == 1)
            *entry = (struct weir_entry){ value.at, entry->value, value.len, entry->value_len };
        else if (field == 2)
            *entry = (struct weir_entry){ entry->key, value.at, entry->key_len, value.len };
    }
}

unsigned grpc_interim_decision(struct turn *turn, const struct ask *ask, const struct verdict *verdict,
                               struct slice token, struct text *out)
{
    const struct weir_decision *decision = &verdict->answer.decision;
    (void)ask, (void)token;
    if (decision->outcome == WEIR_REFUSED) {
        turn->call->code = GRPC_UNAVAILABLE;
        text_literal(out, "could not be decided");
    } else if (outcome_passes(decision->outcome)) {
        text_literal(out, "\x08\x01\x12\x02\x08\x01");
    } else {
        text_literal(out, "\x08\x02\x12\x02\x08\x02");
    }
    return answer_status(&verdict->answer, ANSWER_CHECK);
}

static void ask(struct turn *turn, struct slice message)
{
    struct weir_entry entries[WEIR_ENTRIES_MAX] = { { NULL, NULL, 0, 0 } };
    struct weir_descriptor descriptor = { .entries = entries };
    struct weir_identity *identity = &turn->conn->worker->identity;
    struct slice domain = SLICE(""), value, inner = { NULL, 0 };
    unsigned field;
    uint64_t number;
    while (read_field(&message, &field, &value, &number)) {
        if (field == 1)
            domain = value;
        else if (field == 2 && inner.len == 0)
            inner = value;
    }
    while (descriptor.entry_count < WEIR_ENTRIES_MAX && read_field(&inner, &field, &value, &number))
        if (field == 1)
            read_entry(value, &entries[descriptor.entry_count++]);
    weir_contract_describe(turn->conn->worker->server->contract, domain.at, domain.len, &descriptor, 1, 0,
                           identity);
    if (!turn_reserve(turn, 1, false)) {
        turn_busy(turn);
        return;
    }
    struct weir_request request = { .attributes = identity->attributes,
                                    .attribute_count = identity->count,
                                    .cost = 1 };
    int code = identity->refused != NULL ? WEIR_ERR_ATTRIBUTE : turn_ask(turn, ASK_CHECK, &request, 0);
    if (code != 0)
        turn_undecided(turn, code);
}

void grpc_ratelimit(struct grpc_call *call, struct slice message)
{
    struct turn *turn = line_join(call->conn);
    if (turn == NULL) {
        conn_break(call->conn);
        return;
    }
    turn->now = worker_now(call->conn->worker);
    turn->door = DOOR_GRPC_RATELIMIT;
    turn->keeps_alive = true;
    turn->call = call;
    call->turn = turn;
    ask(turn, message);
    call->conn->is_handling = true;
    line_advance(call->conn);
    call->conn->is_handling = false;
}

/* Until rls.c is there. */
__attribute__((weak)) void rls_cancel(struct turn *turn);
__attribute__((weak)) void rls_cancel(struct turn *turn)
{
    ask_cancel(turn->conn->worker->decider, turn->first_ask, ASK_CANCELLED);
}
