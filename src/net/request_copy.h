// SPDX-License-Identifier: Apache-2.0
/* request_copy.h - a request, with those that follow it, that outlives the bytes it was read from: of who waits, and asks again
   afterwards. */
#ifndef WEIR_NET_REQUEST_COPY_H
#define WEIR_NET_REQUEST_COPY_H

#include "weir_contract.h"

struct request_copy {
    struct weir_request request;
    size_t size; /* bytes of all this */
    char bytes[];
};

/* Freed with free(). NULL: out of memory. */
struct request_copy *request_copy_new(const struct weir_request *request);

#endif
