// SPDX-License-Identifier: Apache-2.0
/*
 * test_http1.c - request heads: what is read, each refusal with its reason, and the same answer in whatever
 * pieces.
 *
 * test_http1_node compares generated heads with another parser; the rows here say what we want, by hand.
 */
#include "support/unit.h"

#include "support/random.h"
#include "wire/http1.h"

#define HOST "Host: weir\r\n"

static enum http1_result parse(const char *at, size_t len, struct http1_head *head)
{
    struct http1_parser parser = HTTP1_START;
    return http1_parse(&parser, at, len, head);
}

static bool is_text(struct slice slice, const char *expected)
{
    return slice_equals(slice, slice_of(expected));
}

/* ---- Refusals -------------------------------------------------------------------------------------------- */

static const struct refusal {
    const char *why;
    unsigned status;
    struct slice head;
} refusals[] = {
#define REFUSED(why, status, head) \
    { \
        why, status, \
        { \
            head, sizeof(head) - 1 \
        } \
    }
    /* request smuggling: two readings of where the body ends */
    REFUSED("both a length and a coding", 400,
            "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
    REFUSED("the same, coding first", 400,
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
    REFUSED("two different lengths", 400,
            "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
    REFUSED("two equal lengths", 400,
            "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\ncontent-length: 5\r\n\r\n"),
    REFUSED("a list of lengths", 400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\n"),
    REFUSED("a signed length", 400, "POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n"),
    REFUSED("a negative length", 400, "POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n"),
    REFUSED("a length in hex", 400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n"),
    REFUSED("a length with a blank inside", 400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 5 5\r\n\r\n"),
    REFUSED("an empty length", 400, "POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n"),
    REFUSED("a length that wraps 64 bits", 400,
            "POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551621\r\n\r\n"),
    REFUSED("a coding we do not know", 501, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n"),
    REFUSED("chunked behind another coding", 501,
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n"),
    REFUSED("chunked twice in one line", 501,
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, chunked\r\n\r\n"),
    REFUSED("chunked twice in two lines", 400,
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
    REFUSED("identity is gone since RFC 7230", 501,
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n"),
    REFUSED("chunked with a parameter", 501,
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked;q=1\r\n\r\n"),
    REFUSED("chunked in quotes", 501, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \"chunked\"\r\n\r\n"),
    REFUSED("an almost chunked", 501, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n"),
    REFUSED("a vertical tab before chunked", 400,
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \013chunked\r\n\r\n"),
    REFUSED("an empty coding", 501, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n"),
    REFUSED("codings do not exist in 1.0", 400,
            "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"),
    REFUSED("a blank before the colon", 400, "POST / HTTP/1.1\r\n" HOST "Content-Length : 5\r\n\r\n"),
    REFUSED("a tab before the colon", 400, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding\t: chunked\r\n\r\n"),
    REFUSED("a folded line", 400, "GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n"),
    REFUSED("a folded line with a tab", 400, "GET / HTTP/1.1\r\n" HOST "X: a\r\n\tb\r\n\r\n"),
    REFUSED("a blank before the first field", 400, "GET / HTTP/1.1\r\n " HOST "\r\n"),
    REFUSED("bare LF behind the request line", 400, "GET / HTTP/1.1\n" HOST "\r\n"),
    REFUSED("bare LF behind a field", 400, "GET / HTTP/1.1\r\nHost: weir\nX: y\r\n\r\n"),
    REFUSED("bare LF as the empty line", 400, "GET / HTTP/1.1\r\n" HOST "\n"),
    REFUSED("nothing but LF", 400, "GET / HTTP/1.1\nHost: weir\n\n"),
    REFUSED("bare CR in a value", 400, "GET / HTTP/1.1\r\n" HOST "X: a\rb\r\n\r\n"),
    REFUSED("bare CR in front of a field", 400, "GET / HTTP/1.1\r\n" HOST "\rX: a\r\n\r\n"),
    REFUSED("CR CR LF", 400, "GET / HTTP/1.1\r\n" HOST "X: a\r\r\n\r\n"),
    REFUSED("a zero byte in a value", 400, "GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n"),
    REFUSED("a zero byte in a name", 400, "GET / HTTP/1.1\r\n" HOST "X\0: a\r\n\r\n"),
    REFUSED("a bell in a value", 400, "GET / HTTP/1.1\r\n" HOST "X: a\ab\r\n\r\n"),
    REFUSED("DEL in a value", 400, "GET / HTTP/1.1\r\n" HOST "X: a\177\r\n\r\n"),
    REFUSED("a field without a colon", 400, "GET / HTTP/1.1\r\n" HOST "nonsense\r\n\r\n"),
    REFUSED("a field without a name", 400, "GET / HTTP/1.1\r\n" HOST ": value\r\n\r\n"),
    REFUSED("a name that is no token", 400, "GET / HTTP/1.1\r\n" HOST "X(Y): a\r\n\r\n"),
    REFUSED("a name beyond ASCII", 400, "GET / HTTP/1.1\r\n" HOST "X\xc3\xa4: a\r\n\r\n"),
    /* Host */
    REFUSED("1.1 without Host", 400, "GET / HTTP/1.1\r\n\r\n"),
    REFUSED("Host twice", 400, "GET / HTTP/1.1\r\n" HOST HOST "\r\n"),
    REFUSED("Host twice in 1.0", 400, "GET / HTTP/1.0\r\n" HOST "host: other\r\n\r\n"),
    REFUSED("a path in Host", 400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    REFUSED("a user name in Host", 400, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    REFUSED("two names in Host", 400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
    REFUSED("bytes beyond ASCII in Host", 400, "GET / HTTP/1.1\r\nHost: \xc3\xa4\r\n\r\n"),
    REFUSED("an absolute target for another host", 400, "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n"),
    /* the request line */
    REFUSED("two spaces behind the method", 400, "GET  / HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("two spaces behind the target", 400, "GET /  HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a tab for a space", 400, "GET\t/ HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a tab behind the target", 400, "GET /\tHTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a blank in front", 400, " GET / HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a blank behind the version", 400, "GET / HTTP/1.1 \r\n" HOST "\r\n"),
    REFUSED("no version (HTTP/0.9)", 400, "GET /\r\n\r\n"),
    REFUSED("a method that is no token", 400, "G@T / HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a method beyond ASCII", 400, "G\xc3\x8bT / HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a TLS greeting", 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    REFUSED("a zero byte in the target", 400, "GET /a\0b HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a control byte in the target", 400, "GET /a\x01 HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("DEL in the target", 400, "GET /a\177 HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("bytes beyond ASCII in the target", 400, "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a fragment is never sent", 400, "GET /a#b HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a relative target", 400, "GET a HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a query alone", 400, "GET ?a HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("an unknown scheme", 400, "GET ftp://weir/ HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a URL without a host", 400, "GET http:/// HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a URL with a user name", 400, "GET http://u@weir/ HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("an asterisk is for OPTIONS", 400, "GET * HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("a tunnel", 501, "CONNECT weir:80 HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("lower-case version", 400, "GET / http/1.1\r\n" HOST "\r\n"),
    REFUSED("another protocol", 400, "GET / RTSP/1.1\r\n" HOST "\r\n"),
    REFUSED("a version of two digits", 400, "GET / HTTP/1.10\r\n" HOST "\r\n"),
    REFUSED("a version without a point", 400, "GET / HTTP/11\r\n" HOST "\r\n"),
    REFUSED("HTTP/2 in clear text", 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    REFUSED("a later minor version", 505, "GET / HTTP/1.2\r\n" HOST "\r\n"),
    REFUSED("an older version", 505, "GET / HTTP/0.9\r\n" HOST "\r\n"),
    REFUSED("two empty lines in front", 400, "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n"),
    REFUSED("an empty line of LF in front", 400, "\nGET / HTTP/1.1\r\n" HOST "\r\n"),
#undef REFUSED
};

static void each_bad_head_is_refused_with_its_status(void **state)
{
    struct http1_head head;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        const struct refusal *row = &refusals[i];
        expect_row(parse(row->head.at, row->head.len, &head) == HTTP1_BAD, row->why);
        if (head.status != row->status)
            fail_msg("%s: status %u, want %u (%s)", row->why, head.status, row->status, head.sentence);
        expect_row(head.sentence != NULL && strlen(head.sentence) > 10, row->why);
    }
}

/* ---- Heads that are read --------------------------------------------------------------------------------- */

static const struct reading {
    const char *why;
    struct slice head;
    const char *method, *origin, *path, *query;
    unsigned minor;
    size_t fields;
    int64_t length; /* -1: none */
    bool is_chunked, keeps_alive, expects_continue;
} readings[] = {
#define READ(why, head) \
    why, \
    { \
        head, sizeof(head) - 1 \
    }
    { READ("the least of 1.1", "GET / HTTP/1.1\r\n" HOST "\r\n"), "GET", "/", "/", "", 1, 1, -1, false, true,
      false },
    { READ("the least of 1.0", "GET / HTTP/1.0\r\n\r\n"), "GET", "/", "/", "", 0, 0, -1, false, false, false },
    { READ("1.0 may ask to stay", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"), "GET", "/", "/", "", 0,
      1, -1, false, true, false },
    { READ("1.1 may ask to go", "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"), "GET", "/", "/", "", 1,
      2, -1, false, false, false },
    { READ("close among others",
           "GET / HTTP/1.1\r\n" HOST "Connection: upgrade , CLOSE\r\nUpgrade: h2c\r\n\r\n"),
      "GET", "/", "/", "", 1, 3, -1, false, false, false },
    { READ("close wins", "GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n"), "GET", "/",
      "/", "", 0, 2, -1, false, false, false },
    { READ("a length", "POST /v1/check HTTP/1.1\r\n" HOST "Content-Length: 42\r\n\r\n"), "POST", "/v1/check",
      "/v1/check", "", 1, 2, 42, false, true, false },
    { READ("a length of zero", "POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n"), "POST", "/", "/", "", 0, 1, 0,
      false, false, false },
    { READ("zeros in front are digits too", "POST / HTTP/1.0\r\nContent-Length: 0007\r\n\r\n"), "POST", "/",
      "/", "", 0, 1, 7, false, false, false },
    { READ("the longest length", "POST / HTTP/1.0\r\nContent-Length: 999999999999999999\r\n\r\n"), "POST", "/",
      "/", "", 0, 1, 999999999999999999, false, false, false },
    { READ("chunks, in any case, with blanks around",
           "POST / HTTP/1.1\r\n" HOST "TRANSFER-ENCODING: \t Chunked \r\n\r\n"),
      "POST", "/", "/", "", 1, 2, -1, true, true, false },
    { READ("a client that waits before its body", "POST / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\n\r\n"),
      "POST", "/", "/", "", 1, 2, -1, false, true, true },
    { READ("1.0 cannot wait for 100", "POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"), "POST", "/", "/", "",
      0, 1, -1, false, false, false },
    { READ("another expectation is nobody's", "POST / HTTP/1.1\r\n" HOST "Expect: wonders\r\n\r\n"), "POST",
      "/", "/", "", 1, 2, -1, false, true, false },
    { READ("a query", "GET /v1/check?status=200 HTTP/1.1\r\n" HOST "\r\n"), "GET", "/v1/check?status=200",
      "/v1/check", "status=200", 1, 1, -1, false, true, false },
    { READ("a query may hold another mark", "GET /a??b HTTP/1.1\r\n" HOST "\r\n"), "GET", "/a??b", "/a", "?b",
      1, 1, -1, false, true, false },
    { READ("an absolute target", "GET http://weir/a?b HTTP/1.1\r\n" HOST "\r\n"), "GET", "/a?b", "/a", "b", 1,
      1, -1, false, true, false },
    { READ("its host in another case, with a port",
           "GET HTTPS://WEIR:8080/a HTTP/1.1\r\nHost: weir:8080\r\n\r\n"),
      "GET", "/a", "/a", "", 1, 1, -1, false, true, false },
    { READ("an absolute target without a path", "GET http://weir?b HTTP/1.1\r\n" HOST "\r\n"), "GET", "?b", "",
      "b", 1, 1, -1, false, true, false },
    { READ("all of the server", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n"), "OPTIONS", "*", "*", "", 1, 1, -1, false,
      true, false },
    { READ("any token is a method", "M-SEARCH!# / HTTP/1.1\r\n" HOST "\r\n"), "M-SEARCH!#", "/", "/", "", 1, 1,
      -1, false, true, false },
    { READ("bytes that browsers send raw", "GET /a|b{c}\"<^>`\\ HTTP/1.1\r\n" HOST "\r\n"), "GET",
      "/a|b{c}\"<^>`\\", "/a|b{c}\"<^>`\\", "", 1, 1, -1, false, true, false },
    { READ("one empty line in front", "\r\nGET / HTTP/1.1\r\n" HOST "\r\n"), "GET", "/", "/", "", 1, 1, -1,
      false, true, false },
    { READ("an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n"), "GET", "/", "/", "", 1, 1, -1, false, true,
      false },
    { READ("an IPv6 Host", "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n"), "GET", "/", "/", "", 1, 1, -1,
      false, true, false },
    { READ("no blank behind the colon, and an empty value",
           "GET / HTTP/1.1\r\nHost:weir\r\nX:\r\nY: \t \r\n\r\n"),
      "GET", "/", "/", "", 1, 3, -1, false, true, false },
    { READ("bytes beyond ASCII in a value", "GET / HTTP/1.1\r\n" HOST "X: \xc3\xa4\xff\x80\r\n\r\n"), "GET",
      "/", "/", "", 1, 2, -1, false, true, false },
    { READ("a tab inside a long value",
           "GET / HTTP/1.1\r\n" HOST "X: abcdefghijk\tlmnopqrstuvwxyz\t0123456\r\n\r\n"),
      "GET", "/", "/", "", 1, 2, -1, false, true, false },
    { READ("the next request stays", "GET / HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\n"), "GET", "/", "/", "",
      1, 1, -1, false, true, false },
#undef READ
};

static void good_heads_are_read(void **state)
{
    struct http1_head head;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(readings); i++) {
        const struct reading *row = &readings[i];
        if (parse(row->head.at, row->head.len, &head) != HTTP1_DONE)
            fail_msg("%s: not read (%s)", row->why, head.sentence ? head.sentence : "more");
        expect_row(is_text(head.method, row->method), row->why);
        expect_row(is_text(head.origin, row->origin), row->why);
        expect_row(is_text(head.path, row->path), row->why);
        expect_row(is_text(head.query, row->query), row->why);
        expect_row(head.minor == row->minor, row->why);
        expect_row(head.field_count == row->fields, row->why);
        expect_row(head.has_length == (row->length >= 0), row->why);
        expect_row(head.content_length == (row->length < 0 ? 0 : (uint64_t)row->length), row->why);
        expect_row(head.is_chunked == row->is_chunked, row->why);
        expect_row(head.keeps_alive == row->keeps_alive, row->why);
        expect_row(head.expects_continue == row->expects_continue, row->why);
        expect_row(memcmp(row->head.at + head.len - 4, "\r\n\r\n", 4) == 0, row->why);
    }
}

static void fields_are_found_by_name(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: weir\r\nX-Key:  one \t\r\nx-key: two\r\nEmpty:\r\n\r\n";
    struct http1_head head;
    size_t count;
    (void)state;
    assert_int_equal(parse(text, sizeof text - 1, &head), HTTP1_DONE);
    const struct weir_field *field = http1_field(&head, SLICE("X-KEY"), &count);
    assert_non_null(field);
    assert_int_equal(count, 2);
    assert_true(is_text((struct slice){ field->value, field->value_len }, "one"));
    assert_true(is_text((struct slice){ field->name, field->name_len }, "X-Key"));
    field = http1_field(&head, SLICE("empty"), NULL);
    assert_non_null(field);
    assert_int_equal(field->value_len, 0);
    assert_null(http1_field(&head, SLICE("absent"), &count));
    assert_int_equal(count, 0);
    assert_true(is_text(head.host, "weir"));
}

static void query_values_are_found_by_name(void **state)
{
    struct slice value;
    (void)state;
    assert_true(http1_query(SLICE("status=200"), SLICE("status"), &value));
    assert_true(is_text(value, "200"));
    assert_true(http1_query(SLICE("a&xstatus=1&status=&status=2"), SLICE("status"), &value));
    assert_true(is_text(value, ""));
    assert_false(http1_query(SLICE("status"), SLICE("status"), &value));
    assert_false(http1_query(SLICE(""), SLICE("status"), &value));
    assert_false(http1_query(SLICE("Status=200&statu=1&a=status=2"), SLICE("status"), &value));
}

/* ---- Bounds ---------------------------------------------------------------------------------------------- */

/* A head of exactly `len` bytes: one long field. */
static void fill_head(char *at, size_t len)
{
    static const char front[] = "GET / HTTP/1.1\r\n" HOST "X: ";
    memset(at, 'x', len);
    memcpy(at, front, sizeof front - 1);
    memcpy(at + len - 4, "\r\n\r\n", 4);
}

static void heads_are_bounded(void **state)
{
    static char text[HTTP1_HEAD_MAX + 64];
    struct http1_head head;
    (void)state;
    fill_head(text, HTTP1_HEAD_MAX);
    assert_int_equal(parse(text, HTTP1_HEAD_MAX, &head), HTTP1_DONE);
    assert_int_equal(head.len, HTTP1_HEAD_MAX);
    assert_int_equal(parse(text, HTTP1_HEAD_MAX - 1, &head), HTTP1_MORE);

    fill_head(text, HTTP1_HEAD_MAX + 1); /* one byte too long, however much has come */
    for (size_t len = HTTP1_HEAD_MAX; len <= HTTP1_HEAD_MAX + 1; len++) {
        assert_int_equal(parse(text, len, &head), HTTP1_BAD);
        assert_int_equal(head.status, 431);
    }

    memset(text, 'x', sizeof text); /* the request line alone is too long */
    memcpy(text, "GET /", 5);
    assert_int_equal(parse(text, HTTP1_HEAD_MAX - 1, &head), HTTP1_MORE);
    assert_int_equal(parse(text, HTTP1_HEAD_MAX, &head), HTTP1_BAD);
    assert_int_equal(head.status, 414);
}

static void fields_are_bounded(void **state)
{
    struct http1_head head;
    (void)state;
    for (size_t count = HTTP1_FIELDS_MAX - 1; count <= HTTP1_FIELDS_MAX + 1; count++) {
        char text[2048];
        size_t len = (size_t)sprintf(text, "GET / HTTP/1.1\r\n" HOST);
        for (size_t i = 1; i < count; i++)
            len += (size_t)sprintf(text + len, "x: y\r\n");
        len += (size_t)sprintf(text + len, "\r\n");
        enum http1_result result = parse(text, len, &head);
        assert_int_equal(result, count <= HTTP1_FIELDS_MAX ? HTTP1_DONE : HTTP1_BAD);
        assert_int_equal(result == HTTP1_DONE ? head.field_count : head.status,
                         result == HTTP1_DONE ? count : 431);
    }
}

/* ---- In pieces ------------------------------------------------------------------------------------------- */

/* Slices as offsets, so that two readings in two buffers compare. */
static bool same_slice(struct slice x, const char *x_base, struct slice y, const char *y_base)
{
    return x.len == y.len && (x.at == NULL) == (y.at == NULL)
           && (x.at == NULL || x.at - x_base == y.at - y_base);
}

static bool same_head(enum http1_result result, const struct http1_head *x, const char *x_base,
                      const struct http1_head *y, const char *y_base)
{
    if (result == HTTP1_BAD)
        return x->status == y->status && x->sentence == y->sentence;
    for (size_t i = 0; i < x->field_count && i < y->field_count; i++) {
        const struct weir_field *f = &x->fields[i], *g = &y->fields[i];
        if (f->name_len != g->name_len || f->value_len != g->value_len || f->name - x_base != g->name - y_base
            || f->value - x_base != g->value - y_base)
            return false;
    }
    return x->len == y->len && same_slice(x->method, x_base, y->method, y_base)
           && same_slice(x->target, x_base, y->target, y_base)
           && same_slice(x->origin, x_base, y->origin, y_base) && same_slice(x->path, x_base, y->path, y_base)
           && same_slice(x->query, x_base, y->query, y_base) && same_slice(x->host, x_base, y->host, y_base)
           && same_slice(x->authority, x_base, y->authority, y_base) && x->minor == y->minor
           && x->is_chunked == y->is_chunked && x->has_length == y->has_length
           && x->content_length == y->content_length && x->keeps_alive == y->keeps_alive
           && x->expects_continue == y->expects_continue && x->field_count == y->field_count;
}

/*
 * Give the head up to each of `cuts` in turn, every time in a buffer of its own that ends where the bytes do,
 * so that the sanitizer sees a look too far.
 */
static void expect_same_in_pieces(struct slice text, const size_t *cuts, size_t cut_count, const char *why)
{
    struct http1_head whole, pieces = { 0 };
    struct http1_parser parser = HTTP1_START;
    enum http1_result result = parse(text.at, text.len, &whole), got = HTTP1_MORE;
    for (size_t i = 0; i <= cut_count && got == HTTP1_MORE; i++) {
        size_t len = i == cut_count ? text.len : cuts[i];
        char *copy = malloc(len + (len == 0));
        memcpy(copy, text.at, len);
        got = http1_parse(&parser, copy, len, &pieces);
        if (got != HTTP1_MORE && !(got == result && same_head(result, &whole, text.at, &pieces, copy)))
            fail_msg("%s: differs when %zu bytes came first", why, cuts[0]);
        free(copy);
    }
    if (got != result)
        fail_msg("%s: %d in pieces, %d whole", why, got, result);
}

static void for_each_text(void (*check)(struct slice text, const char *why))
{
    for (size_t i = 0; i < COUNT_OF(refusals); i++)
        check(refusals[i].head, refusals[i].why);
    for (size_t i = 0; i < COUNT_OF(readings); i++)
        check(readings[i].head, readings[i].why);
}

static void split_everywhere(struct slice text, const char *why)
{
    for (size_t cut = 0; cut <= text.len; cut++)
        expect_same_in_pieces(text, &cut, 1, why);
}

static void dribble(struct slice text, const char *why)
{
    size_t cuts[512];
    assert_true(text.len <= COUNT_OF(cuts));
    for (size_t i = 0; i < text.len; i++)
        cuts[i] = i;
    expect_same_in_pieces(text, cuts, text.len, why);
}

static void split_at_random(struct slice text, const char *why)
{
    static struct random random;
    if (random.state == 0)
        random.state = random_seed(20260103);
    for (int round = 0; round < 50; round++) {
        size_t cuts[4];
        for (size_t i = 0; i < COUNT_OF(cuts); i++)
            cuts[i] = (size_t)random_below(&random, text.len + 1);
        for (size_t i = 1; i < COUNT_OF(cuts); i++)
            if (cuts[i] < cuts[i - 1])
                cuts[i] = cuts[i - 1];
        expect_same_in_pieces(text, cuts, COUNT_OF(cuts), why);
    }
}

static void every_split_gives_the_same_answer(void **state)
{
    (void)state;
    for_each_text(split_everywhere);
    for_each_text(dribble);
    for_each_text(split_at_random);
}

/* A prefix of a good head is never a fault, and never complete. */
static void a_prefix_of_a_good_head_wants_more(void **state)
{
    struct http1_head head;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(readings); i++) {
        const struct reading *row = &readings[i];
        assert_int_equal(parse(row->head.at, row->head.len, &head), HTTP1_DONE);
        for (size_t len = 0, whole = head.len; len < whole; len++)
            expect_row(parse(row->head.at, len, &head) == HTTP1_MORE, row->why);
    }
}

/* ---- Bytes ----------------------------------------------------------------------------------------------- */

/* Each of the 256 bytes in each place, against the RFCs' rules written out here. */
static void each_byte_in_each_place(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        bool is_alnum =
            (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
        bool is_token = is_alnum || (byte != 0 && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
        bool is_host = is_alnum || (byte != 0 && strchr("-._~!$&'()*+,;=:%[]", byte) != NULL);
        const struct {
            const char *front, *back;
            bool is_good;
        } places[] = {
            { "G", "T / HTTP/1.1\r\n" HOST "\r\n", is_token },
            { "GET /", " HTTP/1.1\r\n" HOST "\r\n", byte > 0x20 && byte < 0x7f && byte != '#' },
            { "GET / HTTP/1.1\r\n" HOST "X", "X: y\r\n\r\n", is_token || byte == ':' },
            { "GET / HTTP/1.1\r\n" HOST "X: y", "y\r\n\r\n", byte == '\t' || (byte >= 0x20 && byte != 0x7f) },
            { "GET / HTTP/1.1\r\n" HOST "X: 0123456", "0123456789\r\n\r\n",
              byte == '\t' || (byte >= 0x20 && byte != 0x7f) },
            { "GET / HTTP/1.1\r\nHost: a", "b\r\n\r\n", is_host },
        };
        for (size_t i = 0; i < COUNT_OF(places); i++) {
            char text[128];
            size_t len = strlen(places[i].front);
            struct http1_head head;
            memcpy(text, places[i].front, len);
            text[len++] = (char)byte;
            memcpy(text + len, places[i].back, strlen(places[i].back));
            len += strlen(places[i].back);
            enum http1_result result = parse(text, len, &head);
            if (result != (places[i].is_good ? HTTP1_DONE : HTTP1_BAD))
                fail_msg("byte 0x%02x in `%s?`: %d", (unsigned)byte, places[i].front, result);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bad_head_is_refused_with_its_status),
        cmocka_unit_test(good_heads_are_read),
        cmocka_unit_test(fields_are_found_by_name),
        cmocka_unit_test(query_values_are_found_by_name),
        cmocka_unit_test(heads_are_bounded),
        cmocka_unit_test(fields_are_bounded),
        cmocka_unit_test(every_split_gives_the_same_answer),
        cmocka_unit_test(a_prefix_of_a_good_head_wants_more),
        cmocka_unit_test(each_byte_in_each_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
