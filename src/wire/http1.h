// SPDX-License-Identifier: Apache-2.0
/*
 * http1.h - the head of an HTTP/1.0 or 1.1 request: read whole, or refused with a status and a sentence.
 *
 * Idea: two servers that read one head differently can be made to disagree about where a request ends (request
 * smuggling). So whatever RFC 9112 leaves to taste is refused here: bare LF or CR, folded lines, blanks before
 * a colon, two lengths, a length and a coding, any coding but `chunked`. docs/http-parser.md lists each choice
 * beside what Node does.
 *
 * The buffer is contiguous and may move between calls; out->... points into the buffer of the call that
 * answered HTTP1_DONE. Nothing is allocated or copied. A head that arrives whole is read once. Of one that does
 * not, each new byte is only searched for the head's end, and the head is read once more when that has come: a
 * client that sends byte by byte costs no more than three looks at each.
 *
 * Elsewhere: bodies (chunked.h), sockets and time-outs (net/), what attributes headers carry (rule/).
 */
#ifndef WEIR_WIRE_HTTP1_H
#define WEIR_WIRE_HTTP1_H

#include "base/bytes.h"
#include "weir_contract.h"

/* Largest head, its final empty line included, and most field lines (interface, "HTTP"). */
#define HTTP1_HEAD_MAX ((size_t)32 << 10)
#define HTTP1_FIELDS_MAX 100

/* Empty lines before a request line: RFC 9112 2.2 asks for at least one, and one is what old clients send. */
#define HTTP1_EMPTY_LINES_MAX 1

enum http1_result {
    HTTP1_MORE, /* no complete head yet: read more, call again with the same parser */
    HTTP1_DONE,
    HTTP1_BAD, /* answer out->status with out->sentence and close: the next request's start is not known */
};

/* What was seen of an incomplete head. All zero (HTTP1_START) before each request. */
struct http1_parser {
    size_t scanned;    /* bytes in which every line end was looked for */
    size_t line_start; /* of the line that is incomplete */
    size_t lines;      /* complete lines with something in them */
};
#define HTTP1_START ((struct http1_parser){ 0 })

struct http1_head {
    size_t len; /* bytes of the head, with empty lines in front and behind: the body begins there */
    struct slice method;
    struct slice target;    /* as sent */
    struct slice authority; /* of an absolute target `http://host:port/...`; else empty */
    struct slice origin;    /* the target without scheme and authority: "/path?query", "*", or, for an absolute
                               target without a path, "" or "?query" */
    struct slice path, query; /* of origin: up to the first `?`, and behind it */
    unsigned minor;           /* 0 or 1 */
    bool is_chunked;
    bool has_length;
    uint64_t content_length; /* 0 without a length; the body ends with the head unless is_chunked */
    bool keeps_alive;        /* by version and `Connection` */
    bool expects_continue;   /* `Expect: 100-continue` in 1.1; other expectations are ignored */
    struct slice host;       /* the Host field's value; empty when absent or empty */
    unsigned status;         /* HTTP1_BAD: 400, 414, 431, 501, 505 */
    const char *sentence;    /* HTTP1_BAD: what is wrong, a static text */
    size_t field_count;
    struct weir_field fields[HTTP1_FIELDS_MAX]; /* in order; values without blanks around them */
};

/*
 * Look at the `len` bytes received since the last request. Give the same parser and the same bytes, plus new
 * ones, until the answer is not HTTP1_MORE. A buffer of HTTP1_HEAD_MAX bytes always suffices.
 */
enum http1_result http1_parse(struct http1_parser *parser, const char *at, size_t len, struct http1_head *out);

/* The first field of a name (in any case), or NULL; *count, unless NULL, says how many there are. */
const struct weir_field *http1_field(const struct http1_head *head, struct slice name, size_t *count);

/* The value of NAME=VALUE in a query string, undecoded; false when it is absent. */
bool http1_query(struct slice query, struct slice name, struct slice *out);

#endif
