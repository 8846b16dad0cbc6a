// SPDX-License-Identifier: Apache-2.0
/* stream_tls.h - what stream.c and its TLS need of each other. */
#ifndef WEIR_IO_STREAM_TLS_H
#define WEIR_IO_STREAM_TLS_H

#include <sys/types.h>

#include "io/stream.h"

/* stream.c: read the socket from now on. */
int stream_read_start(struct stream *stream);
/* stream.c: bytes to the socket, as they are; see stream_send(). */
bool stream_put(struct stream *stream, const void *bytes, size_t len, size_t room);

/* 0 or a libuv error: the stream is to be closed. */
int secure_open(struct stream *stream, const struct tls_context *context, const char *host,
                unsigned timeout_ms);
void secure_speaks(struct stream *stream, const char *protocol);
/* Bytes that came before it was opened; they are copied. */
int secure_begin(struct stream *stream, struct slice came);
/* The socket's handle is gone: close what there is, then events->closed. */
void secure_close(struct stream *stream);

/* Where the socket's next bytes go, and that they came (or that it ended, by a libuv error). */
void secure_room(char **at, size_t *size);
void secure_read(struct stream *stream, const char *at, ssize_t len);
/* What was sent could not leave. */
void secure_break(struct stream *stream, int status);

bool secure_send(struct stream *stream, const void *bytes, size_t len, size_t room);
/* The owner wants no bytes, or wants them again: stream->is_reading says so already. */
void secure_pause(struct stream *stream);
void secure_resume(struct stream *stream);
/* Say that no more will come. */
void secure_finish(struct stream *stream);
const char *secure_why(const struct stream *stream);
size_t secure_subject(const struct stream *stream, char *out, size_t cap);

#endif
