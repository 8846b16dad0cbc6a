// SPDX-License-Identifier: Apache-2.0
/*
 * conn.h - one connection of a door, whatever it speaks: what was read, and the line of replies that must leave in order.
 *
 * Idea: each request takes a turn at the end of its connection's line, in the order it arrived. A turn may be done
 * in any order; a reply is written only when its turn is at the front. So pipelined replies keep their order however
 * late single answers come, and the usual request, alone in its line and answered at once, is written straight into
 * the worker's output without waiting anywhere.
 *
 * Calls of gRPC need no order: a turn of theirs that is done steps to the front, and its reply is taken at once. The rest of the
 * line, and all that asks and answers, is the same.
 *
 * The line is bounded: with the protocol's most turns or too many unsent bytes reading stops until some have left.
 *
 * Files: conn.c keeps what comes in and the times, http.c turns bytes into requests, routes.c and the handlers turn requests into
 * replies, line.c sends them.
 */
#ifndef WEIR_NET_CONN_H
#define WEIR_NET_CONN_H

#include "io/peer.h"
#include "io/stream.h"
#include "net/ask.h"
#include "net/counters.h"
#include "net/tokens.h"
#include "wire/answer.h"
#include "wire/chunked.h"
#include "wire/http1.h"
#include "wire/resp.h"

struct bound;
struct peer_entry;
struct worker;

/* Requests of one connection that may wait for their answers; more than any client pipelines usefully. */
#define TURNS_MAX 128

/* Bytes of replies that wait for a peer that reads slowly, or behind a request that is not answered yet, beyond which
   its requests are not read either. */
#define UNSENT_MAX ((size_t)256 << 10)

/* Seconds: for a whole head, for a whole body, without a request, with an unread reply, after the last reply. */
#define HEAD_SECONDS 10
#define BODY_SECONDS 60
#define IDLE_SECONDS 60
#define UNREAD_SECONDS 60
#define LINGER_SECONDS 2

/* Clients of the Redis protocol keep connections for later, and take one that has ended for a failure. */
#define RESP_IDLE_SECONDS 3600

/* Longest name that a client gives itself. */
#define CONN_NAME_MAX 64

/* Permits that end with their connection, of one connection. */
#define BOUND_MAX 128

/* One request's place in the line. */
struct turn {
    struct turn *next, *prev;
    struct conn *conn;
    struct grpc_call *call; /* gRPC: NULL when nobody is to be answered any more */
    weir_ns now;            /* the stamp it is decided at */
    uint8_t door;           /* an enum door */
    uint8_t minor;          /* HTTP/1.minor; RESP: its version */
    uint16_t status;        /* of a reply that is bytes */
    bool keeps_alive;       /* the connection goes on behind it */
    bool is_head;           /* HEAD: no body */
    bool is_always_200;     /* ?status=200 */
    bool is_batch;
    bool is_asking;        /* its ask is being started */
    bool is_bound;         /* a permit that it gets ends with the connection */
    bool is_done;          /* the reply can be written */
    bool is_written;       /* and was */
    bool is_dropped;       /* gRPC: the caller has taken it back, nothing is to be written */
    uint32_t preferred;    /* seconds of `Prefer: wait=`; 0: not heard */
    uint32_t asks_left;    /* not done, or of a batch not yet in `reply` */
    struct ask *first_ask; /* decisions to come, in order: one, or those of a batch */
    struct ask *last_ask;
    char *reply;                 /* bytes of a whole reply; of a batch: its JSON so far */
    size_t reply_len, reply_cap; /* the room of a batch's */
    size_t held;                 /* bytes that are counted for it */
};

enum phase {
    PHASE_HEAD,
    PHASE_BODY,   /* wanted, of a known length */
    PHASE_CHUNKS, /* wanted, chunked */
    PHASE_SKIP,   /* nobody reads it */
    PHASE_SKIP_CHUNKS,
    PHASE_LINGER, /* no request is read any more: discard until the peer has seen our last reply */
    PHASE_PROXY,  /* before the first request, and before TLS: a PROXY header */
};

/* What a connection speaks. */
struct protocol {
    /* One step on the bytes of one request, *len of them: how many are done with; 0: more are needed. *len shrinks by what
       vanished where a coding was taken off in place. */
    size_t (*step)(struct conn *conn, char *at, size_t *len);
    /* Write a decision; gives the status that it is counted under. `token`: of what was given, or empty. */
    unsigned (*decision)(struct turn *turn, const struct ask *ask, const struct verdict *verdict,
                         struct slice token, struct text *out);
    /* Write that the turn could not be served. */
    void (*error)(struct turn *turn, unsigned status, const char *detail, struct slice field,
                  struct slice extra, struct text *out);
    /* Answer the turn with a body: as form() says, or text of `content_type`; empty: it is done. */
    void (*body)(struct turn *turn, unsigned status, struct slice content_type, struct slice body);
    /* How members of answers are written; NULL: in JSON. */
    enum answer_form (*form)(const struct turn *turn);
    /* A reply that was kept until its turn came. `ends`: it is the connection's last, which may_end() allowed. */
    bool (*may_end)(const struct turn *turn);
    void (*write)(struct turn *turn, bool ends);
    /* Behind the last reply of those that have come. May be NULL. */
    void (*rest)(struct conn *conn);
    unsigned idle_seconds; /* without a request, as the _SECONDS above; 0: `second` sees to that */
    unsigned turns_max;    /* in the line */
    const char *alpn;      /* its name in TLS; NULL: none */

    /* The rest is NULL where replies leave in order. */
    /* Take a whole reply, in no order: nothing of it is written into the output. */
    void (*take)(struct turn *turn, const struct text *text);
    /* The connection has been served: put into the output what is to be sent. Whether it may end in a drain. */
    bool (*leave)(struct conn *conn);
    void (*second)(struct conn *conn); /* one has passed */
    void (*free)(struct conn *conn);   /* what it has of its own */
};
extern const struct protocol protocol_http, protocol_resp, protocol_grpc;

struct conn {
    struct stream stream; /* first: a stream's events are this connection's */
    const struct protocol *protocol;
    struct worker *worker;
    struct conn *next, **link; /* in the worker's list */
    int fd;                    /* until the worker has opened the stream */
    struct peer peer;
    enum role first_role; /* that the peer has without a token, */
    enum role role;       /* and that it has: RESP's AUTH raises it */
    uint8_t gate;         /* an enum gate: the listener that it came by */
    bool has_tls;
    bool has_proxy_door; /* its door has the PROXY protocol */
    bool is_stranger;    /* as in struct weir_peer */
    bool is_shaken;      /* the handshake of TLS is over */
    uint16_t subject_len;
    struct peer_entry *place; /* among the connections of its address; NULL: not counted */
    char *subject;            /* of its certificate; NULL: none */
    uint64_t id;              /* of all connections of the server */
    enum resp_version resp_version;
    weir_ns resp_now; /* test builds: what WEIR.NOW said */
    uint8_t name_len; /* RESP: CLIENT SETNAME */
    char *name; /* CONN_NAME_MAX bytes, once it was set: few set one, and each connection that waits is here */

    struct grpc_session *grpc; /* of HTTP/2; NULL until something came */

    /* Input: bytes of a request that is not whole. Empty between most requests: they are parsed where the worker
       reads. */
    char *in;
    size_t in_len, in_cap;
    enum phase phase;
    union {
        struct http1_parser parser;         /* PHASE_HEAD */
        struct chunked chunked;             /* PHASE_CHUNKS, PHASE_SKIP_CHUNKS */
        struct resp_command_parser command; /* RESP */
    };
    size_t head_len, body_len; /* PHASE_CHUNKS: head and decoded body, in front of what is still coded */
    uint64_t skip_left;        /* PHASE_SKIP */
    size_t need;               /* PHASE_BODY: bytes of head and body */

    /* Output. */
    struct turn *first, *last;
    unsigned turn_count;
    size_t asks_pending;   /* started and not done */
    bool owes_continue;    /* 100 Continue, once the line is empty */
    bool is_active;        /* between conn_enter() and conn_leave() */
    bool is_handling;      /* a request of it is being handled */
    bool has_more;         /* and bytes behind that were read as well */
    bool is_dirty;         /* in the worker's list of lines to look at */
    bool has_ended;        /* the peer sends no more */
    bool has_finished;     /* we said that we send no more */
    bool is_gone;          /* closing: answers that still come are dropped */
    bool is_closed;        /* the stream is gone; the rest waits for asks_pending */
    size_t unsent_counted; /* of stream.unsent, in the worker's sum */
    size_t held;           /* bytes of turns' replies */
    struct bound *bound;   /* permits that end with it; see permits.c */
    unsigned bound_count;  /* and those that it may still get */
    size_t queued_seen;    /* stream_queued() at the last look at its times */
    uint64_t since;        /* the worker's second in which it began to wait for what it waits for */
    struct conn *next_dirty;
};

/* One whole request, for its handler. Borrowed during the call. */
struct request {
    struct turn *turn;
    const struct http1_head *head; /* NULL: it did not come by HTTP */
    struct slice body;
    struct slice rest; /* of the target, behind the route's own path */
};

/* ---- http.c: reading ------------------------------------------------------------------------------------- */

/* As protocol->step. */
size_t http_step(struct conn *conn, char *at, size_t *len);

/* ---- conn.c: a connection's life --------------------------------------------------------------------------- */

/* Take over the accepted socket, with TLS where its listener has it (door_tls.c). As stream_open(). */
int conn_open_stream(struct conn *conn, const struct stream_events *events);

/* Speak TLS from here on; `came` was read behind a PROXY header. As stream_secure(). */
int conn_secure(struct conn *conn, struct slice came);

/* Refuse what cannot be read on from here: the reply is its last. */
void conn_refuse(struct conn *conn, unsigned status, const char *sentence);

/* Serve an accepted connection on its worker; takes it. */
void conn_start(struct conn *conn);

/* The worker's output is the connection's from here on; and what is done is sent, and it is not. */
void conn_enter(struct conn *conn);
void conn_leave(struct conn *conn);

/* Look at a connection outside of its read event: answers came, bytes left, the second passed. */
void conn_poke(struct conn *conn);

/* Stop serving it at once; memory follows when nothing refers to it. */
void conn_break(struct conn *conn);

/* Tell requests that wait for their turn that it will not come. */
void conn_end_waits(struct conn *conn);

/* Act on a time that has run out. */
void conn_check_time(struct conn *conn);

/* ---- line.c: replying ------------------------------------------------------------------------------------ */

/* A turn at the end of the line. NULL: out of memory. */
struct turn *line_join(struct conn *conn);

/* Write all replies whose turn has come into the worker's output. */
void line_advance(struct conn *conn);

/* Send the worker's output, which is this connection's. */
void line_flush(struct conn *conn);

/* Done, and nothing is to be said: the turn leaves with the next look at the line. */
void turn_forget(struct turn *turn);

/* Forget every turn. No ask may be pending. */
void line_clear(struct conn *conn);

/* Whether it is the last reply of its connection in a drain. */
bool turn_is_last(const struct turn *turn);

/* Where a turn's reply is made now: the output when it is at the front of the connection being served, else aside until its turn
   comes. Then it is done; from the output count and send it, from aside keep its bytes. */
struct text *turn_begin(struct turn *turn);
void turn_end(struct turn *turn, unsigned status, const struct text *text);

/* A turn that is answered outside of its handler: where it is at the front the connection is entered, and left afterwards. False:
   there is nothing to leave, its reply is kept and worker_mark() has it sent. */
bool turn_enter(struct turn *turn);
void turn_leave(struct conn *conn);

/* Bytes into the worker's output, of any length: those that do not fit go to the stream directly. */
void line_write(struct conn *conn, const char *at, size_t len);

/* Count a reply that was written. */
void turn_count(struct turn *turn, unsigned status);

/* Memory for a whole reply of a turn that has none; NULL: there is none, and the connection is closed. */
char *turn_reply_new(struct turn *turn, size_t len);

/* Count bytes that a turn's reply takes while it waits; false: that would be too much, and the connection is closed. */
bool turn_hold(struct turn *turn, size_t bytes);

/* Answer a turn that could not be served. `extra`: of HTTP, lines of the head. */
void turn_error(struct turn *turn, unsigned status, const char *detail, struct slice field, struct slice extra);

/* Answer a turn with a body, as protocol->body; and how its members are written. */
enum answer_form turn_form(const struct turn *turn);
void turn_body(struct turn *turn, unsigned status, struct slice content_type, struct slice body);

/* ---- verdict.c: asking ----------------------------------------------------------------------------------- */

/* Reserve `count` asks and call turn_ask() that often; false: too many are under way, nothing was reserved. */
bool turn_reserve(struct turn *turn, size_t count, bool is_batch);

/*
 * Ask, and answer with the decision, now or later. Returns 0; or, unless the turn is a batch, why the request could not
 * be decided, and then the caller answers it. `hold`: of a reservation.
 */
int turn_ask(struct turn *turn, enum ask_kind kind, const struct weir_request *request, weir_ns hold);

/* What an answer says beside the decision. `token`: of what was given, or empty. */
struct answer_beside answer_beside_of(const struct ask *ask, const struct verdict *verdict, struct slice token);

/* Answer a turn whose request could not be decided although it was found good: our fault, the contract's, or the end of
   the server. */
void turn_undecided(struct turn *turn, int result);

/* The room for more decisions is used up: say so. */
void turn_busy(struct turn *turn);

/* Answer a reserved turn as weir_answer_refused() says, without asking. */
void turn_refuse(struct turn *turn);

/* ---- permits.c ------------------------------------------------------------------------------------------- */

/* A permit, by its token, ends with the connection, which has room for it; false: out of memory. */
bool permits_bind(struct conn *conn, struct slice token, weir_ns expires_at);

/* One that is bound there was returned or is lost, or was renewed; nothing where it is not. */
void permits_unbind(struct conn *conn, struct slice token);
void permits_renewed(struct conn *conn, struct slice token, weir_ns expires_at);

/* Nobody has it: give it back, to this process and to the store. */
void permits_give_back(struct worker *worker, struct slice token, weir_ns now);

/* The connection ends: give back what is bound to it. */
void permits_return(struct conn *conn);

/* ---- routes.c -------------------------------------------------------------------------------------------- */

struct route;

/* What is to be done with a request, seen from its head. */
struct plan {
    const struct route *route; /* NULL: answer the fault */
    enum door door;
    bool wants_body;
    struct slice rest;
    unsigned status; /* the fault */
    const char *detail;
    struct slice extra;
};

void route_plan(const struct conn *conn, const struct http1_head *head, struct plan *out);
void route_handle(const struct plan *plan, struct request *request);

/* Whether the caller asked for 200 whatever is decided. */
bool wants_200(const struct request *request);

/* The handlers, one file each. */
void handle_check(struct request *request);
void handle_reserve(struct request *request);
void handle_settle(struct request *request);
void handle_cancel(struct request *request);
void handle_acquire(struct request *request);
void handle_renew(struct request *request);
void handle_release(struct request *request);
void handle_refund(struct request *request);
void handle_reset(struct request *request);
void handle_reload(struct request *request);
void handle_auth(struct request *request);
void handle_limits(struct request *request);
void handle_healthz(struct request *request);
void handle_readyz(struct request *request);
void handle_metrics(struct request *request);
void handle_json(struct request *request);
void handle_healthcheck(struct request *request);

#endif
