// SPDX-License-Identifier: Apache-2.0
/*
 * link_inside.h - what the files of a link share: its state and the calls between them.
 *
 * link.c has its life (dialling, pauses, health, the end), link_read.c what comes in, link_greet.c the first words,
 * link_ring.c who waits for what.
 */
#ifndef WEIR_FLEET_LINK_INSIDE_H
#define WEIR_FLEET_LINK_INSIDE_H

#include "fleet/link.h"
#include "fleet/link_ring.h"
#include "io/dial.h"
#include "io/stream.h"

enum link_state {
    LINK_PAUSED, /* until it dials, or until the last connection's handle is gone */
    LINK_DIALLING,
    LINK_SECURING, /* TLS shakes hands */
    LINK_GREETING,
    LINK_UP,
    LINK_CLOSED,
};

#define LINK_WHY_MAX 256

enum greeting_step { GREET_HELLO, GREET_AUTH, GREET_NAME, GREET_SELECT, GREET_PING };

/* The replies that are awaited before the link is up. */
struct greeting {
    enum greeting_step steps[4];
    unsigned count, at;
    bool is_old; /* the words of RESP2 were sent */
};

/* Bytes that wait for the end of the loop's turn, or for the socket to take what was given to it before. */
struct outbox {
    char *at;
    size_t len, cap;
};

/* Bytes that came and are not a whole reply yet: `from` to `to`. */
struct inbox {
    char *at;
    size_t from, to, cap;
    struct resp_reply_parser parser;
};

struct link {
    uv_loop_t *loop;
    const struct link_target *target;
    const struct link_events *events;
    void *owner;
    uint64_t random;

    enum link_state state;
    struct dial *dial;
    struct stream stream;
    bool has_stream;
    uv_timer_t timer;    /* the pause, the limit of dialling and greeting, or the health of a link that is up */
    uv_idle_t flusher;   /* runs when there is something to send */
    unsigned handles;    /* on the loop */
    unsigned attempts;   /* since it was steady */
    uint64_t up_at;      /* ms of the loop's clock */
    uint64_t generation; /* of the connection: who called an event looks whether it is still the same */
    bool prefers_resp2;  /* the last connection ended at HELLO without a word */

    enum resp_version version;
    struct greeting greeting;
    struct outbox out;
    struct inbox in;
    struct link_ring ring;
    bool has_subscribed;  /* on this connection, and it was confirmed */
    bool was_heard;       /* since the last look at its health */
    bool has_told;        /* of what is being read: heard() */
    unsigned quiet_looks; /* in which nothing was heard */
    char why[LINK_WHY_MAX];
};

/* link.c: the connection is over; `is_lasting`: dialling again soon would not help. `why` is copied. */
void link_drop(struct link *link, struct slice why, bool is_lasting);
/* link.c: append to what leaves at the end of the turn; false: too much waits. */
bool link_queue(struct link *link, struct slice bytes);
/* link.c: the greeting is over. */
void link_rise(struct link *link);

/* link_read.c: where the stream's next bytes go, and that they came. */
void link_room(struct link *link, char **at, size_t *size);
void link_read(struct link *link, size_t len);

/* link_greet.c: say who we are; false: memory is out. */
bool link_greet(struct link *link);
/* link_greet.c: the reply to the step that is awaited. */
void link_greeted(struct link *link, struct slice reply);

#endif
