// SPDX-License-Identifier: Apache-2.0
/*
 * path.h - one spelling for every path, so that a limit cannot be dodged by writing the same resource another way.
 *
 * In this order: scheme and host of an absolute-form target go; the path ends at the first `?` or `#`; escapes of
 * unreserved characters are decoded, once (%252e stays); other escapes are upper-cased; a bad escape is an error;
 * runs of `/` become one; `.` and `..` segments are removed (RFC 3986 5.2.4, never above the root). A trailing
 * slash stays. `http://host` has the path `/`. A target without a leading slash (`*`, `host:443`) keeps none.
 *
 * What stays different on purpose: case, %2F and other escapes of reserved or non-ASCII bytes, `;parameters`.
 */
#ifndef WEIR_RULE_PATH_H
#define WEIR_RULE_PATH_H

#include "base/bytes.h"

enum path_error {
    PATH_OK,
    PATH_BAD_ESCAPE, /* `%` without two hex digits behind it */
    PATH_TOO_LONG,   /* more than WEIR_ATTRIBUTE_MAX bytes, at the end or on the way there */
};

/* A request target in two: the path's raw bytes, and the raw bytes behind `?` (len 0: none). A fragment is dropped. */
struct target {
    struct slice path, query;
};
struct target target_split(struct slice target);

/*
 * Bring a path or a whole request target into its one spelling.
 *
 *   text     borrowed.
 *   storage  WEIR_ATTRIBUTE_MAX bytes, written only when the text is not normal already.
 *   out      a slice of text (nothing was copied) or of storage.
 */
enum path_error path_normalise(struct slice text, char *storage, struct slice *out);

/* "has '%' without two hex digits behind it" ...: what follows the word `path` in a message. */
const char *path_error_text(enum path_error error);

#endif
