// SPDX-License-Identifier: Apache-2.0
/*
 * script_inside.h - what script.c's parts tell each other: the scripts by name, and a call as their arguments.
 */
#ifndef WEIR_FLEET_SCRIPT_INSIDE_H
#define WEIR_FLEET_SCRIPT_INSIDE_H

#include "base/sha1.h"
#include "fleet/script.h"

/* ---- script_text.c: the scripts themselves ------------------------------------------------------------------- */

enum script_name { SCRIPT_DECIDE, SCRIPT_UNDO, SCRIPT_SETTLE, SCRIPT_HOLD, SCRIPT_NAME_COUNT };

struct script_source {
    struct slice text;
    char hash[SHA1_HEX_LEN];
};
const struct script_source *script_source(enum script_name name);

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
#define SCRIPT_ARGUMENT_MAX 96
size_t script_put_head(const struct script_call *call, const struct script_head *head,
                       char out[SCRIPT_ARGUMENT_MAX]);
/* `charged_at`: NULL, or with HEAD_HAS_STAMPS the stamp of its charge. */
size_t script_put_item(const struct script_call *call, const struct script_item *item,
                       const uint64_t *charged_at, char out[SCRIPT_ARGUMENT_MAX]);

#endif
