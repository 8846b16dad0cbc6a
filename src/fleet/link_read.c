// SPDX-License-Identifier: Apache-2.0
/*
 * link_read.c - what a connection brings: finds whole replies and gives each to whom it belongs.
 *
 * The buffer grows only while one reply is not complete, and goes back to its first size when it was. Every event may
 * drop the connection or close the link: after each one the generation is looked at before anything else.
 */
#include <stdlib.h>

#include "fleet/link_inside.h"

#define INBOX_FIRST ((size_t)16 << 10)

/* ---- Room ------------------------------------------------------------------------------------------------------ */

void link_room(struct link *link, char **at, size_t *size)
{
    struct inbox *in = &link->in;
    if (in->from > 0)
        memmove(in->at, in->at + in->from, in->to - in->from);
    in->to -= in->from;
    in->from = 0;
    if (in->to == 0 && in->cap != INBOX_FIRST) {
        free(in->at);
        in->at = malloc(INBOX_FIRST);
        in->cap = in->at == NULL ? 0 : INBOX_FIRST;
    }
    if (in->to == in->cap && in->cap > 0 && in->cap < RESP_REPLY_MAX) {
        size_t cap = 2 * in->cap < RESP_REPLY_MAX ? 2 * in->cap : RESP_REPLY_MAX;
        char *larger = realloc(in->at, cap);
        if (larger != NULL) {
            in->at = larger;
            in->cap = cap;
        }
    }
    *at = in->at + in->to;
    *size = in->cap - in->to; /* 0 where memory is out: the stream ends */
}

/* ---- Whose it is ----------------------------------------------------------------------------------------------- */

static bool is_subscription(struct slice kind)
{
    return slice_equals(kind, SLICE("subscribe")) || slice_equals(kind, SLICE("psubscribe"))
           || slice_equals(kind, SLICE("ssubscribe"));
}

/* The first text inside: the kind of a push, and of RESP2's messages. */
static struct slice kind_of(struct resp_reader *reader, const struct resp_value *value)
{
    struct resp_value first;
    if (value->count == 0 || !resp_next(reader, &first) || !resp_is_text(&first))
        return SLICE("");
    return first.text;
}

/* A message that answers no command. After a subscription RESP2 sends them as arrays, and no other arrays but PING's. */
static bool is_message(const struct link *link, const struct resp_value *value, struct slice kind)
{
    if (value->type == RESP_PUSH)
        return true;
    return link->has_subscribed && link->version == RESP2 && value->type == RESP_ARRAY
           && !slice_equals(kind, SLICE("pong"));
}

/* The reply to the oldest command that waits. Each has its done(), which is set where it is sent; an abandoned one is a hole,
   and a place is never used twice. So NULL could only be found in memory that its owner reused without abandoning it. */
static void answer(struct link *link, struct slice reply)
{
    struct ring_entry *head = ring_head(&link->ring);
    if (head == NULL) {
        link_drop(link, SLICE("it answered what was not asked"), false);
        return;
    }
    if (--head->replies > 0)
        return;
    struct link_command *command = head->command;
    ring_pop(&link->ring);
    if (command != NULL)
        command->done(command, CARRIER_REPLY, reply);
}

static void tell(struct link *link, struct slice reply)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    if (!resp_next(&reader, &value))
        return; /* it was read whole */
    bool has_kind = value.type == RESP_PUSH || (value.type == RESP_ARRAY && link->version == RESP2);
    struct slice kind = has_kind ? kind_of(&reader, &value) : SLICE("");
    if (link->state == LINK_GREETING) {
        if (value.type != RESP_PUSH)
            link_greeted(link, reply);
        return;
    }
    const struct ring_entry *head = ring_head(&link->ring);
    bool is_confirmation = head != NULL && head->kind == RING_SUBSCRIBE && is_subscription(kind);
    link->has_subscribed = link->has_subscribed || is_confirmation;
    if (is_confirmation || !is_message(link, &value, kind))
        answer(link, reply);
    else if (link->events->push != NULL)
        link->events->push(link, reply);
}

static void hear(struct link *link)
{
    link->was_heard = true;
    if (link->has_told || link->state != LINK_UP)
        return;
    link->has_told = true;
    if (link->events->heard != NULL)
        link->events->heard(link);
}

/* ---- Replies in the buffer ------------------------------------------------------------------------------------- */

static void refuse(struct link *link)
{
    char why[LINK_WHY_MAX];
    int len = snprintf(why, sizeof why, "it does not speak RESP: %s", link->in.parser.sentence);
    link_drop(link, (struct slice){ why, len < 0 ? 0 : (size_t)len }, false);
}

void link_read(struct link *link, size_t len)
{
    struct inbox *in = &link->in;
    const uint64_t generation = link->generation;
    in->to += len;
    link->has_told = false;
    while (link->generation == generation && in->from < in->to) {
        size_t reply_len = 0;
        enum resp_result result =
            resp_reply_parse(&in->parser, in->at + in->from, in->to - in->from, &reply_len);
        if (result == RESP_MORE)
            return;
        if (result == RESP_BAD) {
            refuse(link);
            return;
        }
        struct slice reply = { in->at + in->from, reply_len };
        in->from += reply_len;
        in->parser = RESP_REPLY_START;
        hear(link);
        if (link->generation == generation)
            tell(link, reply);
    }
}
