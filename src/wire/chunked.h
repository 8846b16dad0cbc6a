// SPDX-License-Identifier: Apache-2.0
/*
 * chunked.h - takes the chunked coding off a request body, in place, as the bytes arrive.
 *
 * Idea: a state machine that keeps a few words between calls and only ever moves bytes towards the front of the
 * buffer they came in. Chunk extensions and trailer fields are read strictly, bounded together and thrown away:
 * weir gives them no meaning, and a body made of a megabyte of extensions is an attack (CVE-2023-39326).
 */
#ifndef WEIR_WIRE_CHUNKED_H
#define WEIR_WIRE_CHUNKED_H

#include "base/bytes.h"

/* Most bytes of extensions and trailer fields of one body. */
#define CHUNKED_EXTRA_MAX 4096

enum chunked_result {
    CHUNKED_MORE,
    CHUNKED_DONE,
    CHUNKED_BAD, /* answer chunked->status with chunked->sentence and close */
};

struct chunked {
    unsigned state;
    unsigned digits; /* of the size being read */
    uint64_t left;   /* bytes of this chunk to come */
    uint64_t total;  /* bytes of all chunks announced */
    uint64_t max;
    size_t extra;    /* bytes of extensions and trailers */
    unsigned status; /* 400 or 413 */
    const char *sentence;
};

/* `max`: most bytes of the decoded body; a chunk that would exceed it is answered 413 before it arrives. */
void chunked_init(struct chunked *chunked, uint64_t max);

/*
 * Decode the `len` new bytes at `at`. The decoded bytes stand at the front of `at` afterwards, *body_len of
 * them; *used bytes were read (all, unless the body is done: the rest belongs to the next request and has not
 * moved).
 */
enum chunked_result chunked_decode(struct chunked *chunked, char *at, size_t len, size_t *body_len,
                                   size_t *used);

#endif
