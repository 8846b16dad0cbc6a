// SPDX-License-Identifier: Apache-2.0
/*
 * resp_command.c - one command: an array of bulk strings, or a line of words as a person types it.
 *
 * An array is passed over word by word; when its last word came in a later call than its first, the words are
 * noted in a second pass. So each byte is looked at twice at most, and the state between calls needs no list.
 *
 * A line is split as Redis's sdssplitargs() does, with its habits: a quote may open inside a word, a closing one
 * must be followed by a blank, vertical tabs and form feeds are blanks only in front of a word.
 */
#include "wire/resp_number.h"

/* Beyond these Redis finds a number senseless, rather than too large for a stranger. */
#define SENSIBLE_COUNT INT32_MAX
#define SENSIBLE_LENGTH (INT64_C(512) << 20)

static enum resp_result bad(struct resp_command *out, const char *sentence)
{
    out->sentence = sentence;
    out->got = 0;
    return RESP_BAD;
}

/* ---- A line -------------------------------------------------------------------------------------------------- */

struct line {
    char *at;
    const char *end;
};

static bool is_blank(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static int hex_of(char byte)
{
    char c = ascii_lower(byte);
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that an escape in double quotes stands for; line->at is on its backslash, which is not the last byte. */
static char unescape(struct line *line)
{
    static const char letters[] = "nrtba", meanings[] = "\n\r\t\b\a";
    const char *at = line->at + 1;
    if (*at == 'x' && line->end - at > 2 && hex_of(at[1]) >= 0 && hex_of(at[2]) >= 0) {
        line->at += 4;
        return (char)(hex_of(at[1]) << 4 | hex_of(at[2]));
    }
    line->at += 2;
    const char *letter = memchr(letters, *at, sizeof letters - 1);
    return letter == NULL ? *at : meanings[letter - letters];
}

/* Up to the closing quote and over it; *to follows what is written. False when the quotes do not balance. */
static bool read_quoted(struct line *line, char **to, char quote)
{
    while (line->at < line->end) {
        char byte = *line->at;
        if (byte == quote) {
            line->at++;
            return line->at == line->end || is_blank(*line->at);
        }
        bool may_escape = byte == '\\' && line->end - line->at > 1;
        if (may_escape && quote == '"') {
            *(*to)++ = unescape(line);
            continue;
        }
        if (may_escape && line->at[1] == quote)
            byte = *++line->at;
        *(*to)++ = byte;
        line->at++;
    }
    return false;
}

/* One word, written over itself from its own start on: it never grows. False when the quotes do not balance. */
static bool read_word(struct line *line, struct slice *out)
{
    char *start = line->at, *to = start;
    bool is_balanced = true, is_open = true;
    while (is_open && line->at < line->end) {
        char byte = *line->at;
        if (byte == ' ' || byte == '\t' || byte == '\r')
            break;
        line->at++;
        is_open = byte != '"' && byte != '\'';
        if (is_open)
            *to++ = byte;
        else
            is_balanced = read_quoted(line, &to, byte);
    }
    *out = (struct slice){ start, (size_t)(to - start) };
    return is_balanced;
}

static enum resp_result split(struct line line, struct resp_command *out)
{
    for (;;) {
        while (line.at < line.end && is_blank(*line.at))
            line.at++;
        if (line.at == line.end)
            return RESP_DONE;
        if (out->count == RESP_WORDS_MAX)
            return bad(out, "too many words in inline request");
        if (!read_word(&line, &out->words[out->count]))
            return bad(out, "unbalanced quotes in request");
        out->count++;
    }
}

static enum resp_result read_line(struct resp_command_parser *parser, char *at, size_t len,
                                  struct resp_command *out)
{
    size_t seen = len < RESP_INLINE_MAX + 1 ? len : RESP_INLINE_MAX + 1, from = parser->scanned;
    const char *newline = memchr(at + from, '\n', seen - from);
    size_t stop = newline == NULL ? seen : (size_t)(newline - at);
    /* Redis stops looking at a zero byte and lets the client wait for nothing. */
    if (memchr(at + from, '\0', stop - from) != NULL)
        return bad(out, "zero byte in inline request");
    if (newline == NULL) {
        parser->scanned = seen;
        return seen > RESP_INLINE_MAX ? bad(out, "too big inline request") : RESP_MORE;
    }
    out->len = stop + 1;
    /* A CR before the LF needs no care: it is a blank, and behind an open quote nothing helps. */
    return split((struct line){ at, at + stop }, out);
}

/* ---- An array ------------------------------------------------------------------------------------------------ */

static enum resp_result unexpected(struct resp_command *out, char got)
{
    (void)bad(out, "expected '$', got");
    out->got = got > ' ' && got < 0x7f ? got : '?'; /* it goes into a line and perhaps into a log */
    return RESP_BAD;
}

/* `*` and how many words come. */
static enum resp_result read_count(struct resp_command_parser *parser, const char *at, size_t len,
                                   bool is_stranger, struct resp_command *out)
{
    int64_t count = 0;
    size_t used = 0;
    enum resp_result result = resp_number(at + 1, len - 1, &count, &used);
    if (result == RESP_MORE)
        return RESP_MORE;
    if (result == RESP_DONE && is_stranger && count > RESP_STRANGER_WORDS_MAX && count <= SENSIBLE_COUNT)
        return bad(out, "unauthenticated multibulk length");
    if (result == RESP_BAD || count > RESP_WORDS_MAX)
        return bad(out, "invalid multibulk length");
    parser->at = 1 + used;
    parser->left = count < 0 ? 0 : (uint32_t)count;
    return RESP_DONE;
}

/* The bulk string at parser->at. */
static enum resp_result read_bulk(struct resp_command_parser *parser, const char *at, size_t len,
                                  bool is_stranger, struct resp_command *out, struct slice *word)
{
    const char *start = at + parser->at;
    size_t have = len - parser->at, used = 0;
    int64_t length = 0;
    if (have == 0)
        return RESP_MORE;
    if (*start != '$')
        return unexpected(out, *start);
    enum resp_result result = resp_short_number(start + 1, have - 1, &length, &used)
                                  ? RESP_DONE
                                  : resp_number(start + 1, have - 1, &length, &used);
    if (result == RESP_MORE)
        return RESP_MORE;
    if (result == RESP_DONE && is_stranger && length > RESP_STRANGER_WORD_MAX && length <= SENSIBLE_LENGTH)
        return bad(out, "unauthenticated bulk length");
    if (result == RESP_BAD || length < 0 || (uint64_t)length > RESP_COMMAND_MAX)
        return bad(out, "invalid bulk length");
    size_t head_len = 1 + used, word_len = (size_t)length, whole_len = head_len + word_len + 2;
    if (whole_len > RESP_COMMAND_MAX - parser->at)
        return bad(out, "too big multibulk request");
    if (have < whole_len)
        return RESP_MORE;
    *word = (struct slice){ start + head_len, word_len };
    if (word->at[word_len] != '\r' || word->at[word_len + 1] != '\n')
        return bad(out, "bulk string does not end in CR LF");
    parser->at += whole_len;
    return RESP_DONE;
}

/* From where the parser stands to the end. The words are all noted when it stands at the start. */
static enum resp_result read_array(struct resp_command_parser *parser, const char *at, size_t len,
                                   bool is_stranger, struct resp_command *out)
{
    enum resp_result result = RESP_DONE;
    if (parser->at == 0)
        result = read_count(parser, at, len, is_stranger, out);
    while (result == RESP_DONE && parser->left > 0) {
        result = read_bulk(parser, at, len, is_stranger, out, &out->words[out->count]);
        if (result == RESP_DONE) {
            out->count++;
            parser->left--;
        }
    }
    out->len = parser->at;
    return result;
}

/* ---- Either -------------------------------------------------------------------------------------------------- */

enum resp_result resp_command_parse(struct resp_command_parser *parser, char *at, size_t len, bool is_stranger,
                                    struct resp_command *out)
{
    out->count = 0;
    if (len == 0)
        return RESP_MORE;
    if (at[0] != '*')
        return read_line(parser, at, len, out);
    bool is_whole = parser->at == 0;
    enum resp_result result = read_array(parser, at, len, is_stranger, out);
    if (result != RESP_DONE || is_whole)
        return result;
    struct resp_command_parser again = RESP_COMMAND_START;
    out->count = 0;
    return read_array(&again, at, out->len, is_stranger, out);
}
