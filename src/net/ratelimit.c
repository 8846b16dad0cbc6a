// SPDX-License-Identifier: Apache-2.0
/* ratelimit.c - the text of a contract from a folder that may be swapped while it is read; see ratelimit.h. */
#include "net/ratelimit.h"

#include <stdio.h>
#include <stdlib.h>

#include "net/log.h"
#include "net/watch.h"

/* Times that the folder is read because it changed meanwhile. Swaps are seconds apart; who watches it comes again after the last. */
#define READS_MAX 5

static int read_once(const struct server_ratelimit *ratelimit, char **out, size_t *len,
                     struct weir_diagnostics **diagnostics)
{
    const struct weir_import_ratelimit how = { .is_shared = ratelimit->is_shared,
                                               .is_compatible = ratelimit->is_compatible,
                                               .deadline = ratelimit->deadline,
                                               .prefix = ratelimit->prefix };
    char *text = NULL;
    FILE *stream = open_memstream(&text, len);
    *diagnostics = NULL;
    if (stream == NULL)
        return WEIR_ERR_MEMORY;
    int error = weir_contract_import_ratelimit(ratelimit->folder, &how, stream, diagnostics);
    bool is_whole = fclose(stream) == 0;
    if (error == 0 && !is_whole)
        error = WEIR_ERR_MEMORY;
    if (error != 0)
        free(text);
    else
        *out = text;
    return error;
}

/* Files of two states of the folder would be a configuration that nobody wrote. */
int ratelimit_text(const struct server_ratelimit *ratelimit, char **out, size_t *len,
                   struct weir_diagnostics **diagnostics)
{
    for (unsigned i = 1;; i++) {
        struct watch_print before = watch_look(ratelimit->folder);
        int error = read_once(ratelimit, out, len, diagnostics);
        struct watch_print after = watch_look(ratelimit->folder);
        if (watch_same(&before, &after))
            return error;
        if (error == 0)
            free(*out);
        weir_diagnostics_free(*diagnostics);
        *diagnostics = NULL;
        if (i == READS_MAX)
            return WEIR_ERR_BUSY;
    }
}

void ratelimit_log(const struct server_ratelimit *ratelimit)
{
    char folder[LOG_QUOTED_MAX], reason[LOG_QUOTED_MAX];
    log_event(LOG_INFO, "ratelimit", "folder=%s compatible=%s counted=%s", log_quote(ratelimit->folder, folder),
              ratelimit->is_compatible ? "yes" : "no", ratelimit->is_shared ? "store" : "here");
    if (!ratelimit->is_shared)
        log_event(LOG_INFO, "ratelimit_store", "variable=REDIS_URL reason=%s",
                  log_quote("it is not set, so this process counts, and forgets when it ends", reason));
    for (size_t i = 0; i < ratelimit->note_count; i++)
        log_event(LOG_INFO, "ratelimit_ignored", "variable=%s reason=%s", ratelimit->notes[i].variable,
                  log_quote(ratelimit->notes[i].reason, reason));
}
