// SPDX-License-Identifier: Apache-2.0
/*
 * store_refusal.h - errors that say "not executed, ask elsewhere or later", told from the errors of the command itself.
 *
 * A server refuses these before it runs a script, or at the script's first write; nothing was changed. Servers before 7 wrap what a
 * script ran into ("ERR Error running script (call to f_...): @user_script:1: -READONLY ..."), which is looked into.
 */
#ifndef WEIR_FLEET_STORE_REFUSAL_H
#define WEIR_FLEET_STORE_REFUSAL_H

#include "base/bytes.h"

enum refusal {
    REFUSAL_NONE,     /* a reply, whatever it says */
    REFUSAL_MOVED,    /* MOVED: another node serves the slot */
    REFUSAL_ASK,      /* ASK: another node takes it over, and has this key */
    REFUSAL_MOVING,   /* TRYAGAIN: the slot is on its way */
    REFUSAL_DOWN,     /* CLUSTERDOWN: nobody serves the slot */
    REFUSAL_ROLE,     /* READONLY, MASTERDOWN: a replica */
    REFUSAL_BUSY,     /* LOADING, BUSY, OOM, MISCONF, NOREPLICAS: it cannot now */
    REFUSAL_STRANGER, /* NOAUTH: the connection is no longer one of ours */
};

/* `error`: written where it is not REFUSAL_NONE, the text of the error. */
enum refusal refusal_read(struct slice reply, struct slice *error);

/* Whether it shows that the node serves: then it is heard. */
static inline bool refusal_is_healthy(enum refusal refusal)
{
    return refusal <= REFUSAL_MOVING;
}

#endif
