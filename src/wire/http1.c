// SPDX-License-Identifier: Apache-2.0
/*
 * http1.c - one pass over a request head, with a search for its end in front when it arrives in pieces.
 *
 * The pass stops at the first fault in reading order, so a head gives the same answer in whatever pieces it
 * came. Running out of bytes is never a fault, except that the buffer is full.
 *
 * Elsewhere: why each choice is stricter or laxer than Node's parser (docs/http-parser.md).
 */
#include "wire/http1.h"

#define CLASS_TOKEN 1u  /* RFC 9110 tchar: methods, field names */
#define CLASS_VALUE 2u  /* field values: visible, blank, tab, and bytes from 0x80 (obs-text) */
#define CLASS_TARGET 4u /* visible ASCII but `#`: a fragment is never sent */
#define CLASS_HOST 8u   /* RFC 3986 reg-name, brackets of an IPv6 literal, colon */

/* The sum of its classes for each byte, sixteen to a row; test_http1 derives it again from the rules above. */
/* clang-format off */
static const uint8_t classes[256] = {
    /* 00 */  0,  0,  0,  0,  0,  0,  0,  0,  0,  2,  0,  0,  0,  0,  0,  0,
    /* 10 */  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
    /* 20 */  2, 15,  6,  3, 15, 15, 15, 15, 14, 14, 15, 15, 14, 15, 15,  6,
    /* 30 */ 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 14, 14,  6, 14,  6,  6,
    /* 40 */  6, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    /* 50 */ 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 14,  6, 14,  7, 15,
    /* 60 */  7, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    /* 70 */ 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,  6,  7,  6, 15,  0,
    /* 80 */  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    /* 90 */  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    /* a0 */  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    /* b0 */  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    /* c0 */  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    /* d0 */  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    /* e0 */  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    /* f0 */  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
};
/* clang-format on */

static bool has_class(char byte, unsigned class)
{
    return (classes[(unsigned char)byte] & class) != 0;
}

/* Fields that may come once and change how the rest is read. */
#define SEEN_HOST 1u
#define SEEN_LENGTH 2u
#define SEEN_CODING 4u
#define SEEN_CLOSE 8u
#define SEEN_KEEP_ALIVE 16u

struct reader {
    const char *at, *end;
    struct http1_head *head;
    unsigned seen;
    bool has_line; /* the request line is read */
};

static enum http1_result bad(struct http1_head *head, unsigned status, const char *sentence)
{
    head->status = status;
    head->sentence = sentence;
    return HTTP1_BAD;
}

/* ---- Pieces of a line ------------------------------------------------------------------------------------ */

/* The run of bytes of a class; may be empty, and may reach the end of what is there. */
static struct slice run_of(struct reader *reader, unsigned class)
{
    const char *start = reader->at, *at = start, *end = reader->end;
    while (at < end && has_class(*at, class))
        at++;
    reader->at = at;
    return (struct slice){ start, (size_t)(at - start) };
}

#define BYTES(value) (UINT64_C(0x0101010101010101) * (value))

/* The same for CLASS_VALUE, eight bytes at a time while they are neither control bytes nor DEL. */
static struct slice run_of_value(struct reader *reader)
{
    const char *start = reader->at, *at = start;
    for (;;) {
        while (reader->end - at >= 8) {
            uint64_t word = load_le64(at), deleted = word ^ BYTES(0x7f);
            uint64_t odd = ((word - BYTES(0x20)) & ~word) | ((deleted - BYTES(1)) & ~deleted);
            if ((odd & BYTES(0x80)) != 0)
                break;
            at += 8;
        }
        while (at < reader->end && has_class(*at, CLASS_VALUE) && *at != '\t')
            at++;
        if (at == reader->end || *at != '\t')
            break;
        at++; /* a tab is fine, but looks like a control byte above */
    }
    reader->at = at;
    return (struct slice){ start, (size_t)(at - start) };
}

static struct slice trim(struct slice text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* The CR LF that must stand here; `sentence` for anything else. */
static enum http1_result line_end(struct reader *reader, const char *sentence)
{
    if (reader->at == reader->end)
        return HTTP1_MORE;
    if (*reader->at == '\n')
        return bad(reader->head, 400, "a line ends in LF without CR: lines end in CR LF");
    if (*reader->at != '\r')
        return bad(reader->head, 400, sentence);
    if (reader->end - reader->at < 2)
        return HTTP1_MORE;
    if (reader->at[1] != '\n')
        return bad(reader->head, 400, "a CR stands without LF: lines end in CR LF");
    reader->at += 2;
    return HTTP1_DONE;
}

/* ---- The request line ------------------------------------------------------------------------------------ */

static enum http1_result empty_lines(struct reader *reader)
{
    for (int skipped = 0; reader->at < reader->end && *reader->at == '\r'; skipped++) {
        if (skipped == HTTP1_EMPTY_LINES_MAX)
            return bad(reader->head, 400, "more than one empty line stands before the request line");
        enum http1_result result = line_end(reader, "");
        if (result != HTTP1_DONE)
            return result;
    }
    return HTTP1_DONE;
}

/* Bytes of "http://" or "https://" in front, in any case; 0 without. */
static size_t scheme_length(struct slice target)
{
    static const struct slice schemes[] = { { "http://", 7 }, { "https://", 8 } };
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t len = schemes[i].len;
        if (target.len >= len && slice_equals_fold((struct slice){ target.at, len }, schemes[i]))
            return len;
    }
    return 0;
}

static bool is_host(struct slice host)
{
    for (size_t i = 0; i < host.len; i++)
        if (!has_class(host.at[i], CLASS_HOST))
            return false;
    return true;
}

/* Which of RFC 9112's four forms the target has, and its parts. */
static enum http1_result split_target(struct http1_head *head)
{
    struct slice target = head->target, origin = target;
    if (slice_equals(head->method, SLICE("CONNECT")))
        return bad(head, 501, "CONNECT asks for a tunnel, which is not served");
    if (slice_equals(target, SLICE("*"))) {
        if (!slice_equals(head->method, SLICE("OPTIONS")))
            return bad(head, 400, "the target `*` is for OPTIONS only");
    } else if (target.at[0] != '/') {
        size_t scheme = scheme_length(target);
        if (scheme == 0)
            return bad(head, 400,
                       "the target must be a path that begins with `/`, or an http:// or https:// URL");
        size_t len = scheme;
        while (len < target.len && target.at[len] != '/' && target.at[len] != '?')
            len++;
        head->authority = (struct slice){ target.at + scheme, len - scheme };
        if (head->authority.len == 0 || !is_host(head->authority))
            return bad(head, 400,
                       "the target's URL needs a host: letters, digits, `-`, `.`, `:`, without user name");
        origin = (struct slice){ target.at + len, target.len - len };
    }
    const char *mark = origin.len == 0 ? NULL : memchr(origin.at, '?', origin.len);
    head->origin = head->path = origin;
    head->query = (struct slice){ origin.at + origin.len, 0 };
    if (mark != NULL) {
        head->path.len = (size_t)(mark - origin.at);
        head->query = (struct slice){ mark + 1, origin.len - head->path.len - 1 };
    }
    return HTTP1_DONE;
}

static enum http1_result version(struct reader *reader)
{
    static const char name[] = "HTTP/";
    struct http1_head *head = reader->head;
    char number[3] = { '0', '.', '0' };
    for (size_t i = 0; i < 8; i++, reader->at++) {
        if (reader->at == reader->end)
            return HTTP1_MORE;
        char byte = *reader->at;
        bool fits = i < 5 ? byte == name[i] : i == 6 ? byte == '.' : byte >= '0' && byte <= '9';
        if (!fits)
            return bad(head, 400, "the request line must end in one space and HTTP/1.1 or HTTP/1.0");
        if (i >= 5)
            number[i - 5] = byte;
    }
    enum http1_result result = line_end(reader, "the request line must end after its version");
    if (result != HTTP1_DONE)
        return result;
    if (number[0] != '1' || number[2] > '1')
        return bad(head, 505, "only HTTP/1.1 and HTTP/1.0 are served here");
    head->minor = (unsigned)(number[2] - '0');
    return HTTP1_DONE;
}

static enum http1_result request_line(struct reader *reader)
{
    struct http1_head *head = reader->head;
    head->method = run_of(reader, CLASS_TOKEN);
    if (reader->at == reader->end)
        return HTTP1_MORE;
    if (head->method.len == 0)
        return bad(head, 400, "the request line must begin with a method, which is a token");
    if (*reader->at != ' ')
        return bad(head, 400, "the method must be a token with one space behind it");
    reader->at++;

    head->target = run_of(reader, CLASS_TARGET);
    if (reader->at == reader->end)
        return HTTP1_MORE;
    if (head->target.len == 0)
        return bad(head, 400, "the target is missing: exactly one space stands before and behind it");
    if (*reader->at == '\r')
        return bad(head, 400, "the version is missing: the request line ends in HTTP/1.1 or HTTP/1.0");
    if (*reader->at != ' ')
        return bad(head, 400, "the target holds a byte that must be percent-encoded");
    reader->at++;

    enum http1_result result = version(reader);
    return result == HTTP1_DONE ? split_target(head) : result;
}

/* ---- Fields that change how the message is read ---------------------------------------------------------- */

static enum http1_result read_host(struct reader *reader, struct slice value)
{
    if (reader->seen & SEEN_HOST)
        return bad(reader->head, 400, "Host is given twice");
    if (!is_host(value))
        return bad(reader->head, 400, "Host holds a byte that no host name or port has");
    reader->seen |= SEEN_HOST;
    reader->head->host = value;
    return HTTP1_DONE;
}

static enum http1_result read_length(struct reader *reader, struct slice value)
{
    uint64_t length = 0;
    if (reader->seen & SEEN_LENGTH)
        return bad(reader->head, 400, "Content-Length is given twice");
    if (value.len == 0 || value.len > 18) /* 18 digits fit 64 bits, and no body is that long */
        return bad(reader->head, 400, "Content-Length must be 1 to 18 digits");
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return bad(reader->head, 400, "Content-Length must be digits only");
        length = length * 10 + (uint64_t)(value.at[i] - '0');
    }
    reader->seen |= SEEN_LENGTH;
    reader->head->has_length = true;
    reader->head->content_length = length;
    return HTTP1_DONE;
}

static enum http1_result read_coding(struct reader *reader, struct slice value)
{
    if (reader->seen & SEEN_CODING)
        return bad(reader->head, 400, "Transfer-Encoding is given twice");
    if (!slice_equals_fold(value, SLICE("chunked")))
        return bad(reader->head, 501, "the only Transfer-Encoding served is `chunked`");
    reader->seen |= SEEN_CODING;
    reader->head->is_chunked = true;
    return HTTP1_DONE;
}

static enum http1_result read_connection(struct reader *reader, struct slice value)
{
    while (value.len > 0) {
        const char *comma = memchr(value.at, ',', value.len);
        size_t len = comma == NULL ? value.len : (size_t)(comma - value.at);
        struct slice option = trim((struct slice){ value.at, len });
        if (slice_equals_fold(option, SLICE("close")))
            reader->seen |= SEEN_CLOSE;
        else if (slice_equals_fold(option, SLICE("keep-alive")))
            reader->seen |= SEEN_KEEP_ALIVE;
        size_t used = comma == NULL ? len : len + 1;
        value = (struct slice){ value.at + used, value.len - used };
    }
    return HTTP1_DONE;
}

/* Told apart by length first: most fields are none of these. */
static enum http1_result interpret(struct reader *reader, struct slice name, struct slice value)
{
    switch (name.len) {
    case 4:
        return slice_equals_fold(name, SLICE("host")) ? read_host(reader, value) : HTTP1_DONE;
    case 6:
        if (slice_equals_fold(name, SLICE("expect")) && slice_equals_fold(value, SLICE("100-continue")))
            reader->head->expects_continue = true;
        return HTTP1_DONE;
    case 10:
        return slice_equals_fold(name, SLICE("connection")) ? read_connection(reader, value) : HTTP1_DONE;
    case 14:
        return slice_equals_fold(name, SLICE("content-length")) ? read_length(reader, value) : HTTP1_DONE;
    case 17:
        return slice_equals_fold(name, SLICE("transfer-encoding")) ? read_coding(reader, value) : HTTP1_DONE;
    default:
        return HTTP1_DONE;
    }
}

/* ---- Field lines ----------------------------------------------------------------------------------------- */

static enum http1_result field_line(struct reader *reader)
{
    struct http1_head *head = reader->head;
    struct slice name = run_of(reader, CLASS_TOKEN);
    if (reader->at == reader->end)
        return HTTP1_MORE;
    if (*reader->at != ':' || name.len == 0) {
        bool is_blank = *reader->at == ' ' || *reader->at == '\t';
        if (is_blank && name.len == 0)
            return bad(head, 400, "a field line begins with a blank: folded lines are not accepted");
        if (is_blank)
            return bad(head, 400, "a blank stands between a field's name and its colon");
        return bad(head, 400, "a field line must be a name, which is a token, then a colon");
    }
    if (head->field_count == HTTP1_FIELDS_MAX)
        return bad(head, 431, "the request has more than 100 fields");
    reader->at++;

    struct slice value = run_of_value(reader);
    enum http1_result result = line_end(reader, "a field value holds a control byte");
    if (result != HTTP1_DONE)
        return result;
    value = trim(value);
    head->fields[head->field_count++] = (struct weir_field){ name.at, value.at, name.len, value.len };
    return interpret(reader, name, value);
}

/* What only the whole head shows. */
static enum http1_result finish(struct reader *reader)
{
    struct http1_head *head = reader->head;
    unsigned seen = reader->seen;
    if ((seen & SEEN_CODING) && head->minor == 0)
        return bad(head, 400, "Transfer-Encoding does not exist in HTTP/1.0");
    if ((seen & SEEN_CODING) && (seen & SEEN_LENGTH))
        return bad(head, 400, "Content-Length and Transfer-Encoding are both given: send one");
    if (!(seen & SEEN_HOST) && head->minor == 1)
        return bad(head, 400, "Host is missing, which HTTP/1.1 requires");
    if ((seen & SEEN_HOST) && head->authority.len > 0 && !slice_equals_fold(head->authority, head->host))
        return bad(head, 400, "the target's URL names another host than Host does");
    head->expects_continue = head->expects_continue && head->minor == 1;
    head->keeps_alive = !(seen & SEEN_CLOSE) && (head->minor == 1 || (seen & SEEN_KEEP_ALIVE));
    return HTTP1_DONE;
}

static enum http1_result read_head(struct reader *reader)
{
    enum http1_result result = empty_lines(reader);
    if (result == HTTP1_DONE)
        result = request_line(reader);
    reader->has_line = result == HTTP1_DONE;
    while (result == HTTP1_DONE) {
        if (reader->at == reader->end)
            return HTTP1_MORE;
        if (*reader->at == '\r') {
            result = line_end(reader, "");
            return result == HTTP1_DONE ? finish(reader) : result;
        }
        result = field_line(reader);
    }
    return result;
}

/* ---- In pieces ------------------------------------------------------------------------------------------- */

/*
 * Search the new bytes. True when reading the head is worth while: its end has come, or a line that reading
 * refuses.
 */
static bool search(struct http1_parser *parser, const char *at, size_t len)
{
    while (parser->scanned < len) {
        const char *newline = memchr(at + parser->scanned, '\n', len - parser->scanned);
        if (newline == NULL) {
            parser->scanned = len;
            break;
        }
        size_t end = (size_t)(newline - at), start = parser->line_start;
        bool is_strict = end > start && at[end - 1] == '\r';
        bool is_empty = end == start + 1, is_allowed = parser->lines == 0 && start < 2 * HTTP1_EMPTY_LINES_MAX;
        if (!is_strict || (is_empty && !is_allowed))
            return true;
        parser->lines += !is_empty;
        parser->scanned = parser->line_start = end + 1;
    }
    return false;
}

enum http1_result http1_parse(struct http1_parser *parser, const char *at, size_t len, struct http1_head *out)
{
    size_t seen = len < HTTP1_HEAD_MAX ? len : HTTP1_HEAD_MAX;
    bool is_first = parser->scanned == 0, is_full = seen == HTTP1_HEAD_MAX;
    if (!is_first && !search(parser, at, seen) && !is_full)
        return HTTP1_MORE;

    memset(out, 0, offsetof(struct http1_head, fields));
    struct reader reader = { .at = at, .end = at + seen, .head = out };
    enum http1_result result = read_head(&reader);
    if (result == HTTP1_DONE)
        out->len = (size_t)(reader.at - at);
    if (result != HTTP1_MORE)
        return result;
    if (is_full && reader.has_line)
        return bad(out, 431, "the head is longer than 32 KiB");
    if (is_full)
        return bad(out, 414, "the request line is longer than 32 KiB");
    if (is_first)
        (void)search(parser, at, seen); /* reading said that the end is not there: this only notes how far */
    return HTTP1_MORE;
}

/* ---- Looking up ------------------------------------------------------------------------------------------ */

const struct weir_field *http1_field(const struct http1_head *head, struct slice name, size_t *count)
{
    const struct weir_field *first = NULL;
    size_t found = 0;
    for (size_t i = 0; i < head->field_count; i++) {
        const struct weir_field *field = &head->fields[i];
        if (field->name_len != name.len
            || !slice_equals_fold((struct slice){ field->name, field->name_len }, name))
            continue;
        if (found++ == 0)
            first = field;
    }
    if (count != NULL)
        *count = found;
    return first;
}

bool http1_query(struct slice query, struct slice name, struct slice *out)
{
    while (query.len > 0) {
        const char *ampersand = memchr(query.at, '&', query.len);
        size_t len = ampersand == NULL ? query.len : (size_t)(ampersand - query.at);
        if (len > name.len && query.at[name.len] == '='
            && slice_equals((struct slice){ query.at, name.len }, name)) {
            *out = (struct slice){ query.at + name.len + 1, len - name.len - 1 };
            return true;
        }
        size_t used = ampersand == NULL ? len : len + 1;
        query = (struct slice){ query.at + used, query.len - used };
    }
    return false;
}
