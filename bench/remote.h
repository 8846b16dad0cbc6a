// SPDX-License-Identifier: Apache-2.0
/* remote.h - one connection to a store on this machine: a command, and its whole reply. */
#ifndef WEIR_BENCH_REMOTE_H
#define WEIR_BENCH_REMOTE_H

#include "base/bytes.h"

struct remote {
    int fd;
    char *reply;
    size_t cap;
};

/* At 127.0.0.1. False: it is said why. */
bool remote_open(struct remote *remote, const char *port);
/* Ends the program where there is no reply. Borrowed until the next one. */
struct slice remote_ask(struct remote *remote, struct slice command);
void remote_close(struct remote *remote);

#endif
