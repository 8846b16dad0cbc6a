// SPDX-License-Identifier: Apache-2.0
/*
 * ratelimit.h - `weir serve --ratelimit-config DIR`: in the place of envoyproxy/ratelimit, with its files as they are.
 *
 * Idea: DIR becomes the text of a contract, in memory, and that is loaded and reloaded as any other; so there is one path for all
 * doors, and what differs here are three things: where the text comes from, what a call's descriptors have to do with each other
 * (is_compatible), and which headers its answer has.
 *
 * Elsewhere: making the text (rule/import_ratelimit.c), the variables of its environment (cli/ratelimit.c), asking (rls.c), /json
 * and /healthcheck (json.c).
 */
#ifndef WEIR_NET_RATELIMIT_H
#define WEIR_NET_RATELIMIT_H

#include <stdbool.h>
#include <stddef.h>

#include "weir_contract.h"

/* A variable of its environment that is not as it was there, and why. */
struct ratelimit_note {
    const char *variable, *reason;
};
#define RATELIMIT_NOTES_MAX 64

/* Strings are borrowed as long as the server runs. */
struct server_ratelimit {
    const char *folder;
    bool is_compatible; /* each descriptor is decided by itself, and refused hits count */
    bool stops; /* and where one refuses the others are not charged: STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT */
    bool is_shadow;         /* whatever is decided the call may pass: SHADOW_MODE */
    bool is_shared;         /* counted in the store */
    weir_ns deadline;       /* of the store; 0: the usual */
    const char *prefix;     /* of names of limits in the store; NULL: none */
    const char *headers[3]; /* of an answer: limit, remaining, reset; NULL: none */
    struct ratelimit_note notes[RATELIMIT_NOTES_MAX];
    size_t note_count;
};

/* Tell what is served, and the notes. Once, at the start. */
void ratelimit_log(const struct server_ratelimit *ratelimit);

/*
 * The contract's text. Returns 0 and *out (with free()), or a negative code of weir.h; diagnostics as of weir_contract_import(), in
 * the files of the folder. WEIR_ERR_BUSY: it changes all the time, and files of two states would be rules that nobody wrote.
 */
#define RATELIMIT_BUSY "it changes while it is read; stop changing it, and try again"
int ratelimit_text(const struct server_ratelimit *ratelimit, char **out, size_t *len,
                   struct weir_diagnostics **diagnostics);

#endif
