// SPDX-License-Identifier: Apache-2.0
/*
 * resp.h - the Redis protocol, RESP2 and RESP3: commands and replies, read and written.
 *
 * Idea: what is read stays where it came in. First the end of one whole command or reply is found, however it was
 * cut on the way; then its words or values are borrowed from the buffer. A reader keeps a few words of state
 * between calls, so that bytes which come one by one are not looked at again from the front, and it allocates
 * nothing and never calls itself. Every length and count is an exact decimal: no sign in front, no leading zero,
 * never "-0". CR and LF stand only where the protocol puts them, also where Redis would not look.
 *
 * The buffer is contiguous and may move between calls. Give the same bytes again, plus new ones, until the answer
 * is not RESP_MORE; then drop the `len` bytes that were read and begin anew with the rest, which may already hold
 * the next command or reply.
 *
 * Elsewhere: what commands mean, and the refusal of browsers (a first word `POST` or `Host:` closes without an
 * answer) (net/); the store's commands (fleet/).
 */
#ifndef WEIR_WIRE_RESP_H
#define WEIR_WIRE_RESP_H

#include "base/bytes.h"
#include "wire/text.h"

enum resp_version {
    RESP2 = 2,
    RESP3 = 3, /* after HELLO 3 */
};

enum resp_result {
    RESP_MORE, /* not complete yet: read more, call again */
    RESP_DONE,
    RESP_BAD, /* say why and close: where the next one begins is not known */
};

/* ---- Reading commands (the door) ---------------------------------------------------------------------------- */

/* Longest command with its framing: our largest request, 32 attributes of 1 KiB, has 40 KiB; an inline one 64. */
#define RESP_COMMAND_MAX ((size_t)128 << 10)
/* Longest inline command without its LF: Redis's PROTO_INLINE_MAX_SIZE. */
#define RESP_INLINE_MAX ((size_t)64 << 10)
/* Most words of a command: 32 attributes make a hundred; COMMAND DOCS may name a few hundred commands. */
#define RESP_WORDS_MAX 1024
/* What a client may send before it has said who it is: Redis's numbers, enough for HELLO with AUTH. */
#define RESP_STRANGER_WORDS_MAX 10
#define RESP_STRANGER_WORD_MAX 16384

/* What was seen of an incomplete command. All zero (RESP_COMMAND_START) before each one. */
struct resp_command_parser {
    size_t at;      /* the word that is not complete begins here; 0: nothing is read yet */
    size_t scanned; /* inline: bytes in which the line's end was looked for */
    uint32_t left;  /* words to come */
};
#define RESP_COMMAND_START ((struct resp_command_parser){ 0 })

struct resp_command {
    size_t len;   /* bytes of the command: the next one begins there */
    size_t count; /* words; 0 for an empty line, `*0` and `*-1`: nothing was asked, so answer nothing */
    const char
        *sentence; /* RESP_BAD: what is wrong, a static text in Redis's words where Redis has words for it */
    char got;      /* RESP_BAD: the byte that stood there instead; 0 when the sentence says all */
    struct slice words[RESP_WORDS_MAX]; /* in the buffer */
};

/*
 * Look at the `len` bytes received since the last command: an array of bulk strings, or a line of words. Quotes and
 * escapes of such a line are taken off in place, when it is complete. A buffer of RESP_COMMAND_MAX bytes always
 * suffices. `is_stranger`: the client must authenticate and has not yet.
 */
enum resp_result resp_command_parse(struct resp_command_parser *parser, char *at, size_t len, bool is_stranger,
                                    struct resp_command *out);

/* ---- Reading replies (the client) --------------------------------------------------------------------------- */

/* Longest reply: CLUSTER SLOTS of a store cut into all its 16,384 slots has about 5 MiB. */
#define RESP_REPLY_MAX ((size_t)16 << 20)
/* Most values directly inside one: each has at least three bytes, "_" CR LF. */
#define RESP_VALUES_MAX (RESP_REPLY_MAX / 3)
/* Longest simple string, error, double or big number. */
#define RESP_LINE_MAX ((size_t)64 << 10)
/* Arrays in arrays: COMMAND's reply, the deepest of Redis's own, has seven. */
#define RESP_DEPTH_MAX 16

/* What was seen of an incomplete reply. All zero (RESP_REPLY_START) before each one. */
struct resp_reply_parser {
    size_t at;           /* the value that is not complete begins here */
    size_t scanned;      /* bytes in which that value's line end was looked for */
    uint32_t depth;      /* what is open around it ... */
    uint32_t attributes; /* ... and of these, bit d: level d describes the value behind it and is none itself */
    uint32_t left[RESP_DEPTH_MAX]; /* values to come in each */
    const char *sentence;          /* RESP_BAD: what is wrong, a static text */
};
#define RESP_REPLY_START ((struct resp_reply_parser){ 0 })

/*
 * Look at the `len` bytes received since the last reply, for a whole one of either version; *reply_len is written
 * with RESP_DONE. A buffer of RESP_REPLY_MAX bytes always suffices, and what is announced to be longer is refused
 * at once.
 */
enum resp_result resp_reply_parse(struct resp_reply_parser *parser, const char *at, size_t len,
                                  size_t *reply_len);

enum resp_type {
    RESP_SIMPLE,
    RESP_ERROR, /* of a line or a blob; text begins with its code, as in "MOVED 3999 127.0.0.1:6381" */
    RESP_INTEGER,
    RESP_BULK,
    RESP_VERBATIM, /* text without its format and colon */
    RESP_NULL,     /* of a bulk string, an array, or RESP3's own */
    RESP_BOOLEAN,
    RESP_DOUBLE,     /* checked, but left as text: nothing here is decided by a floating-point number */
    RESP_BIG_NUMBER, /* as text */
    RESP_ARRAY,
    RESP_MAP,
    RESP_SET,
    RESP_PUSH, /* only outermost: not a reply to any command */
    RESP_TYPE_COUNT,
};

struct resp_value {
    enum resp_type type;
    struct slice text; /* of everything without values inside: in the buffer, as sent; empty for null */
    int64_t integer;   /* RESP_INTEGER; RESP_BOOLEAN: 0 or 1 */
    uint32_t count;    /* values inside, which come next. Of a map two for each pair, as RESP2 sends it */
};

struct resp_reader {
    const char *at, *end;
};

/* Begin to walk over a whole reply; `at` is borrowed while values are used. */
static inline struct resp_reader resp_reader_of(const char *at, size_t len)
{
    return (struct resp_reader){ at, at + len };
}

/* The next value; attributes are passed over. False at the end (and where bytes are no reply). */
bool resp_next(struct resp_reader *reader, struct resp_value *out);

/* Pass over what is inside `value`, which resp_next() gave last, however deep. False as there. */
bool resp_skip(struct resp_reader *reader, const struct resp_value *value);

/* Whether the value is a string of one of the three kinds. */
static inline bool resp_is_text(const struct resp_value *value)
{
    return value->type == RESP_SIMPLE || value->type == RESP_BULK || value->type == RESP_VERBATIM;
}

/* An error's first word: "MOVED". Empty when it has none. */
struct slice resp_error_code(struct slice error);

/* A 64-bit integer as Redis reads arguments: `0|-?[1-9][0-9]*` and in range; else false. */
bool resp_to_i64(struct slice text, int64_t *out);

/* ---- Writing ------------------------------------------------------------------------------------------------- */

/*
 * Each appends one value, or the head of one whose values the caller appends next. What the version has no type
 * for is written as Redis writes it to such a client. A command is an array of bulk strings in both.
 */
void resp_put_array(struct text *text, uint32_t count);
void resp_put_map(struct text *text, enum resp_version version, uint32_t pairs); /* RESP2: a flat array */
void resp_put_set(struct text *text, enum resp_version version, uint32_t count);
void resp_put_push(struct text *text, enum resp_version version, uint32_t count);

void resp_put_bulk(struct text *text, struct slice bytes);
void resp_put_bulk_i64(struct text *text,
                       int64_t value); /* the digits as a bulk string: a number in a command */
void resp_put_bulk_head(struct text *text, uint64_t len); /* then `len` bytes, CR and LF */
void resp_put_integer(struct text *text, int64_t value);
void resp_put_u64(struct text *text, enum resp_version version,
                  uint64_t value); /* beyond an integer's: a big number */

/* One line each: CR and LF inside become spaces. An error's text begins with its code. */
void resp_put_simple(struct text *text, struct slice line);
void resp_put_error(struct text *text, struct slice line);

void resp_put_null(struct text *text, enum resp_version version);       /* where a string could stand */
void resp_put_null_array(struct text *text, enum resp_version version); /* where an array could stand */
void resp_put_boolean(struct text *text, enum resp_version version, bool value);
void resp_put_double(struct text *text, enum resp_version version, struct slice number);
void resp_put_big_number(struct text *text, enum resp_version version, struct slice number);
/* `format`: three bytes, "txt" or "mkd"; RESP2 does not show it. */
void resp_put_verbatim(struct text *text, enum resp_version version, const char format[3], struct slice bytes);

/* The answer to a command that was RESP_BAD: `-ERR Protocol error: ...`. Close behind it. */
void resp_put_protocol_error(struct text *text, const struct resp_command *bad);

#endif
