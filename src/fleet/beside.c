// SPDX-License-Identifier: Apache-2.0
/*
 * beside.c - names of keys beside the limits' own, in the same slot: of retries, of reservations, of the breaker's probe.
 *
 *     weir:1:{tenant=acme}:tenant-requests:b:path=%2F:r:0f1e...      a retry of that key: 128 bits of its id's SHA-256
 *     weir:1:{tenant=acme}:~r:0f1e...                                a reservation
 *     weir:1:{tenant=acme}:~p                                        the probe's
 *
 * They are no limit's: in a limit's key no ':' comes behind the algorithm, and no limit's name begins with '~'.
 */
#include <assert.h>

#include "base/sha256.h"
#include "fleet/name.h"
#include "fleet/work.h"

static size_t put(char *out, size_t at, const char *from, size_t len)
{
    assert(len <= NAME_MAX_LEN);
    memcpy(out + at, from, len);
    return at + len;
}

static size_t put_text(char *out, size_t at, const char *text)
{
    return put(out, at, text, strlen(text));
}

size_t name_of_retry(struct slice name, const void *id, size_t len, char *out)
{
    size_t at = put_text(out, put(out, 0, name.at, name.len), ":r:");
    sha256_hex(id, len, 16, out + at);
    return at + 32;
}

static size_t put_front(struct slice tag, char *out)
{
    size_t at = put_text(out, 0, NAME_PREFIX "{");
    at = put(out, at, tag.at, tag.len);
    return put_text(out, at, "}:~");
}

size_t name_of_record(struct slice tag, const char id[SCRIPT_ID_LEN], char *out)
{
    size_t at = put_text(out, put_front(tag, out), "r:");
    return put(out, at, id, SCRIPT_ID_LEN);
}

size_t name_of_probe(struct slice tag, char *out)
{
    return put_text(out, put_front(tag, out), "p");
}
