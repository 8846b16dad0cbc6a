// SPDX-License-Identifier: Apache-2.0
/* rls_inside.h - what rls.c asks with and rls_tell.c answers from. */
#ifndef WEIR_NET_RLS_INSIDE_H
#define WEIR_NET_RLS_INSIDE_H

#include "net/ratelimit.h"
#include "net/request_copy.h"
#include "net/rls.h"
#include "net/worker.h"

/* One for a worker: `answer` is used while it is told. */
struct rls_desk {
    struct rls_call call;
    struct rls_answer answer;
    char text[RLS_ANSWER_MAX];
    unsigned char keys[WEIR_DESCRIPTORS_MAX][WEIR_DESCRIPTOR_KEY_MAX];
    struct weir_own_limit own[WEIR_DESCRIPTORS_MAX];
    struct weir_identity identities[WEIR_DESCRIPTORS_MAX];
    struct weir_request requests[WEIR_DESCRIPTORS_MAX];
};

/* How far an item is whose hits are more than the limit ever has. */
enum overcharge { OVERCHARGE_NONE, OVERCHARGE_ALL, OVERCHARGE_ONE };

struct inquiry;

/* One ask: of all descriptors, or of one. */
struct item {
    struct inquiry *inquiry;
    uint8_t descriptor;
    uint8_t overcharge;
    bool is_quota; /* quota_mode: it refuses only with all others of its kind */
    bool is_over;
    bool is_at_once;          /* the call's bytes are still there */
    struct rls_status status; /* where it is decided by itself */
    struct ask *ask;
    struct weir_request request;
    struct request_copy
        *copy; /* of one that may have more to charge, when the call is gone; NULL: it has not */
};

struct inquiry {
    struct turn *turn;
    rls_done *done;
    size_t left; /* asks that are not done, and the starter */
    bool is_told;
    enum rls_end end;
    const char *why;
    uint64_t refused; /* a bit for each descriptor that no limit accepts */
    size_t count;     /* of descriptors */
    struct rls_asked asked[WEIR_DESCRIPTORS_MAX];
    struct request_copy *refund; /* what is given back when the others have passed; NULL: nothing */
    size_t item_count;
    struct item items[];
};

static inline const struct server_ratelimit *mode_of(const struct turn *turn)
{
    return turn->conn->worker->server->options->ratelimit;
}

/* Whether each descriptor is decided by itself. */
static inline bool is_apart(const struct turn *turn)
{
    const struct server_ratelimit *mode = mode_of(turn);
    return mode != NULL && mode->is_compatible && !mode->stops;
}

/* ---- rls_tell.c ---------------------------------------------------------------------------------------------------- */

/* What all were told together: an answer, to be told at once since it is lent. */
struct rls_answer *rls_take_together(struct inquiry *inquiry, const struct verdict *verdict);

/* What one descriptor was told. */
void rls_take_apart(struct item *item, const struct verdict *verdict);

/* Tell the door; `answer` NULL: inquiry->end says why there is none. The turn may be another's afterwards. */
void rls_tell(struct inquiry *inquiry, struct rls_answer *answer);

/* The last hold is gone: tell the door where it was not yet, and free it. */
void rls_finish(struct inquiry *inquiry);

#endif
