// SPDX-License-Identifier: Apache-2.0
/*
 * script_inside.h - what script.c's parts tell each other: the scripts by name, and a call as their arguments.
 */
#ifndef WEIR_FLEET_SCRIPT_INSIDE_H
#define WEIR_FLEET_SCRIPT_INSIDE_H

#include "base/sha1.h"
#include "fleet/script.h"

/* ---- script_text.c: the scripts themselves ------------------------------------------------------------------- */

enum script_name { SCRIPT_DECIDE, SCRIPT_UNDO, SCRIPT_SETTLE, SCRIPT_HOLD, SCRIPT_LEASE, SCRIPT_NAME_COUNT };

struct script_source {
    struct slice text;
    char hash[SHA1_HEX_LEN];
};
const struct script_source *script_source(enum script_name name);

/* ---- script.c: commands --------------------------------------------------------------------------------------- */

/* EVALSHA or EVAL, and how many keys follow, and arguments behind them. */
void script_put_start(struct text *out, enum script_form form, enum script_name script, size_t keys,
                      size_t arguments);

/* ---- script_item.c: arguments -------------------------------------------------------------------------------- */

/* Flags of the head; see item.lua. */
#define HEAD_HAS_TIME 1u
#define HEAD_HAS_STAMPS 2u
#define HEAD_KEEPS_SIZE 4u

/* The head of a call: `verb` is a letter of the script's. */
struct script_head {
    unsigned flags;
    char verb;
    uint64_t cost; /* of a settlement */
};
/* An item with every tail there is has 106 bytes, a message about a lease 88 more; a head 42, a run and a label. */
#define SCRIPT_ARGUMENT_MAX 224
_Static_assert(SCRIPT_ARGUMENT_MAX >= 42 + 16 + SCRIPT_LABEL_MAX, "a head has room for a label");
size_t script_put_head(const struct script_call *call, const struct script_head *head,
                       char out[SCRIPT_ARGUMENT_MAX]);
/* `charged_at`: NULL, or with HEAD_HAS_STAMPS the stamp of its charge. */
size_t script_put_item(const struct script_call *call, const struct script_item *item,
                       const uint64_t *charged_at, char out[SCRIPT_ARGUMENT_MAX]);

/* A whole number as the double that the script computes with; gives the place behind it. */
char *script_put_number(char *to, uint64_t number);
/* In us, rounded up. */
uint64_t script_microseconds(weir_ns length);

/* ---- script_read.c: replies ---------------------------------------------------------------------------------- */

/* Take an array of exactly `count` integers from -1 to 2^53. */
bool script_read_integers(struct slice reply, int64_t *out, size_t count, struct slice *why);
/* -1 and what is beyond the horizon are WEIR_NO_TIME. */
weir_ns script_length(int64_t ticks, weir_ns tick);

#endif
