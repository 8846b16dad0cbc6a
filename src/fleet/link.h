// SPDX-License-Identifier: Apache-2.0
/*
 * link.h - one connection to one node of the store: dials, greets, sends, matches replies in order, dials again.
 *
 * Idea: commands of one turn of the loop are collected and leave in one write; replies come in the order of the commands, so
 * matching is a ring of pointers, in which an abandoned command leaves a hole. A connection that breaks is dialled again after a
 * jittered, growing pause, for as long as the link is open. What was sent when it broke is LOST, what was not is REFUSED.
 *
 * Greeting: HELLO 3 with AUTH and SETNAME, and where that is not known AUTH, CLIENT SETNAME; SELECT where a db is asked for; then
 * what the owner wants to know first (events->greeted sends it). Pushes of RESP3 are not replies.
 */
#ifndef WEIR_FLEET_LINK_H
#define WEIR_FLEET_LINK_H

#include <uv.h>

#include "fleet/carrier.h"
#include "wire/resp.h"

struct link;

/* How to reach a node. Kept by the link: lives as long. */
struct link_target {
    const char *host;              /* name or address; the path of a Unix socket */
    uint16_t port;                 /* 0: Unix socket */
    const struct tls_context *tls; /* NULL: plain. io/tls.h */
    const char *user, *password;   /* NULL: none */
    unsigned db;
    bool wants_pushes; /* RESP3 only: fails to greet without (never set for deciding) */
    unsigned dial_ms;  /* until it is up; 0: LINK_DIAL_MS */
    unsigned quiet_ms; /* see LINK_QUIET_MS, which 0 means */
};

/* Connection, TLS and greeting together may take so long. */
#define LINK_DIAL_MS 3000
/* When nothing was heard for this long the link asks PING; for three times this long: the connection is dead. */
#define LINK_QUIET_MS 2000
/* The first pause before it is dialled again, and the longest; each is drawn from half of it to the whole. A connection that
   held LINK_STEADY_MS is dialled again at once. After a wrong password and the like the pause is the longest. */
#define LINK_PAUSE_MS 50
#define LINK_PAUSE_MAX_MS 2000
#define LINK_STEADY_MS 1000
/* Most commands that wait for their reply, and bytes that wait to leave: behind that link_send() says false. */
#define LINK_COMMANDS_MAX 16384
#define LINK_BYTES_MAX ((size_t)4 << 20)

/* One command under way. */
struct link_command {
    void (*done)(struct link_command *command, enum carrier_result result, struct slice reply);
    void *owner;
    uint64_t place; /* the link's */
};

struct link_events {
    /* Greeted: commands may be sent, and the first ones best now. */
    void (*up)(struct link *link);
    /* The connection ended or could not be made: `why` for people ("connection refused", "WRONGPASS ..."). All its commands
       are done before. It dials again by itself. */
    void (*down)(struct link *link, const char *why);
    /* RESP3, or a subscription of RESP2 (see link_subscribe()): a message that answers nothing. May be NULL. */
    void (*push)(struct link *link, struct slice reply);
    /* Something came: also the reply to an abandoned command. Once for what was read together, before it is told. May be NULL. */
    void (*heard)(struct link *link);
    /* Nothing of it is left on the loop; its memory goes when this returns. May be NULL. */
    void (*closed)(struct link *link);
};

/* Start dialling: from the loop, no event comes within this call. Ignore SIGPIPE in the program. 0, or WEIR_ERR_MEMORY. `owner` is the caller's. */
int link_open(struct link **out, uv_loop_t *loop, const struct link_target *target,
              const struct link_events *events, void *owner, uint64_t seed);
/* Commands under way are done as LOST or REFUSED before it returns; then only closed() comes, from the loop. May be called from
   every event. */
void link_close(struct link *link);

void *link_owner(const struct link *link);
bool link_is_up(const struct link *link);
/* RESP2 or RESP3, when it is up. */
enum resp_version link_version(const struct link *link);

/* Send bytes of one command (of `replies` commands, where ASKING goes first: only the last one's reply is told). False: it is
   not up, or too much waits: not sent. */
bool link_send(struct link *link, struct slice bytes, unsigned replies, struct link_command *command);
/* SUBSCRIBE, PSUBSCRIBE or SSUBSCRIBE of one channel: its confirmation, which RESP3 sends as a push, is the command's reply; every
   message of it goes to push(). In RESP2 nothing but these may be sent from then on. */
bool link_subscribe(struct link *link, struct slice bytes, struct link_command *command);
/* Not wanted any more: done() does not come. Nothing happens where it was done already. */
void link_abandon(struct link *link, struct link_command *command);
/* Drop the connection and dial again now (after the usual pause where it did not hold for LINK_STEADY_MS, so that a store which
   gives cause each time is not dialled in a circle): it says something that it should not. Nothing happens in a pause. */
void link_reset(struct link *link, const char *why);

#endif
