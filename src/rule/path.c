// SPDX-License-Identifier: Apache-2.0
/*
 * path.c - one spelling for every path (RFC 3986 5.2.4 and 6.2.2).
 *
 * Most paths are normal already; one scan sees that and nothing is copied. The others are written byte by byte
 * into the storage, where a finished `.` or `..` segment is taken back at once, so one pass is enough.
 */
#include "rule/path.h"

#include "weir_contract.h"

static const char *find_any(struct slice text, char x, char y)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == x || text.at[i] == y)
            return text.at + i;
    return text.at + text.len;
}

static bool is_alpha(char c)
{
    return ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_unreserved(char c)
{
    return is_alpha(c) || is_digit(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c = ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Behind `scheme://`, or the text's start where there is none. */
static size_t scheme_len(struct slice text)
{
    size_t i = 0;
    if (text.len == 0 || !is_alpha(text.at[0]))
        return 0;
    while (i < text.len
           && (is_alpha(text.at[i]) || is_digit(text.at[i]) || text.at[i] == '+' || text.at[i] == '-'
               || text.at[i] == '.'))
        i++;
    return text.len - i >= 3 && memcmp(text.at + i, "://", 3) == 0 ? i + 3 : 0;
}

struct target target_split(struct slice target)
{
    struct target split = { target, { NULL, 0 } };
    const char *end = target.at + target.len;
    const char *path = target.at + scheme_len(target);
    bool is_absolute = path != target.at;
    if (is_absolute)
        while (path < end && *path != '/' && *path != '?' && *path != '#')
            path++;

    struct slice rest = { path, (size_t)(end - path) };
    const char *stop = find_any(rest, '?', '#');
    split.path = (struct slice){ path, (size_t)(stop - path) };
    if (is_absolute && split.path.len == 0)
        split.path = SLICE("/");
    if (stop < end && *stop == '?') {
        struct slice behind = { stop + 1, (size_t)(end - stop - 1) };
        split.query = (struct slice){ behind.at, (size_t)(find_any(behind, '#', '#') - behind.at) };
    }
    return split;
}

/* Whether a path begins with `/` and has neither escapes nor empty, `.` or `..` segments. `/.well-known` is a no, too. */
static bool is_plain(struct slice path)
{
    if (path.len == 0 || path.at[0] != '/')
        return false;
    for (size_t i = 0; i < path.len; i++) {
        if (path.at[i] == '%')
            return false;
        if (path.at[i] == '/' && i + 1 < path.len && (path.at[i + 1] == '/' || path.at[i + 1] == '.'))
            return false;
    }
    return true;
}

struct writer {
    char *at;
    size_t len;
    size_t segment; /* where the current segment begins */
    bool is_full;
};

static void put(struct writer *writer, char c)
{
    if (writer->len == WEIR_ATTRIBUTE_MAX)
        writer->is_full = true;
    else
        writer->at[writer->len++] = c;
}

/* Take a finished `.` or `..` back, and with `..` the segment before it. What remains ends in `/` or is empty. */
static void drop_dots(struct writer *writer)
{
    const char *segment = writer->at + writer->segment;
    size_t len = writer->len - writer->segment;
    bool is_dot = len == 1 && segment[0] == '.';
    bool is_dots = len == 2 && segment[0] == '.' && segment[1] == '.';
    if (!is_dot && !is_dots)
        return;

    writer->len = writer->segment;
    if (is_dots && writer->len > 1) {
        writer->len--;
        while (writer->len > 0 && writer->at[writer->len - 1] != '/')
            writer->len--;
        writer->segment = writer->len;
    }
}

static void put_slash(struct writer *writer, bool is_rooted)
{
    drop_dots(writer);
    bool is_empty_segment = writer->len == writer->segment && (writer->len > 0 || !is_rooted);
    if (!is_empty_segment)
        put(writer, '/');
    writer->segment = writer->len;
}

enum path_error path_normalise(struct slice text, char *storage, struct slice *out)
{
    struct slice path = target_split(text).path;
    if (is_plain(path)) {
        if (path.len > WEIR_ATTRIBUTE_MAX)
            return PATH_TOO_LONG;
        *out = path;
        return PATH_OK;
    }

    static const char upper[] = "0123456789ABCDEF";
    struct writer writer = { .at = storage };
    bool is_rooted = path.len > 0 && path.at[0] == '/';
    for (size_t i = 0; i < path.len && !writer.is_full; i++) {
        char c = path.at[i];
        if (c == '/') {
            put_slash(&writer, is_rooted);
        } else if (c != '%') {
            put(&writer, c);
        } else {
            int high = i + 1 < path.len ? hex_value(path.at[i + 1]) : -1;
            int low = i + 2 < path.len ? hex_value(path.at[i + 2]) : -1;
            if (high < 0 || low < 0)
                return PATH_BAD_ESCAPE;
            char decoded = (char)(high * 16 + low);
            i += 2;
            if (is_unreserved(decoded)) {
                put(&writer, decoded);
            } else {
                put(&writer, '%');
                put(&writer, upper[high]);
                put(&writer, upper[low]);
            }
        }
    }
    if (writer.is_full)
        return PATH_TOO_LONG;
    drop_dots(&writer);
    if (writer.len == 0 && path.len > 0)
        put(&writer, '/'); /* `a/..`: the root, since nothing would mean that there is no path */
    *out = (struct slice){ storage, writer.len };
    return PATH_OK;
}

const char *path_error_text(enum path_error error)
{
    switch (error) {
    case PATH_BAD_ESCAPE:
        return "has a '%' without two hex digits behind it";
    case PATH_TOO_LONG:
        return "is longer than 1024 bytes";
    case PATH_OK:
        break;
    }
    return "is good";
}
