// SPDX-License-Identifier: Apache-2.0
/*
 * chunked.c - one state per kind of byte that may come next (RFC 9112 7.1).
 *
 * Data moves in runs; everything else is looked at byte by byte, which its bounds keep short.
 */
#include "wire/chunked.h"

enum state {
    SIZE,      /* hex digits of a chunk's size */
    EXTENSION, /* behind `;`, up to CR */
    SIZE_END,  /* the LF behind a size line */
    DATA,      /* chunk->left bytes of body */
    DATA_CR,   /* the line end behind a chunk's data */
    DATA_LF,
    TRAILER,       /* the first byte of a trailer line, or the CR of the last empty line */
    TRAILER_NAME,  /* up to the colon */
    TRAILER_VALUE, /* up to CR */
    TRAILER_END,   /* its LF */
    LAST_LF,       /* the LF that ends the body */
    DONE,
    BAD,
};

#define SIZE_DIGITS_MAX 16

static enum chunked_result bad(struct chunked *chunked, unsigned status, const char *sentence)
{
    chunked->state = BAD;
    chunked->status = status;
    chunked->sentence = sentence;
    return CHUNKED_BAD;
}

static int hex_value(unsigned char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

static bool is_token(unsigned char byte)
{
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z')
           || (byte != 0 && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static bool is_value(unsigned char byte)
{
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

/* The size is read: is there room for that much? */
static enum chunked_result announce(struct chunked *chunked, unsigned char byte)
{
    if (chunked->digits == 0)
        return bad(chunked, 400, "a chunk must begin with its size in hex digits");
    if (byte != ';' && byte != '\r')
        return bad(chunked, 400, "a chunk's size must end in CR LF, or in `;` and extensions");
    if (chunked->left > chunked->max - chunked->total)
        return bad(chunked, 413, "the body is larger than this server accepts");
    chunked->total += chunked->left;
    chunked->state = byte == ';' ? EXTENSION : SIZE_END;
    return CHUNKED_MORE;
}

static enum chunked_result size_byte(struct chunked *chunked, unsigned char byte)
{
    int digit = hex_value(byte);
    if (digit < 0)
        return announce(chunked, byte);
    if (chunked->digits++ == SIZE_DIGITS_MAX)
        return bad(chunked, 400, "a chunk's size has more than 16 digits");
    chunked->left = chunked->left << 4 | (unsigned)digit;
    return CHUNKED_MORE;
}

/* A byte of an extension or a trailer line: counted, checked, forgotten. */
static enum chunked_result extra_byte(struct chunked *chunked, unsigned char byte, enum state behind_cr)
{
    if (++chunked->extra > CHUNKED_EXTRA_MAX)
        return bad(chunked, 400, "chunk extensions and trailers are longer than 4096 bytes");
    if (byte == '\r')
        chunked->state = behind_cr;
    else if (!is_value(byte))
        return bad(chunked, 400, "a chunk extension or trailer holds a control byte or a line end without CR");
    return CHUNKED_MORE;
}

static enum chunked_result name_byte(struct chunked *chunked, unsigned char byte)
{
    if (chunked->state == TRAILER && byte == '\r') {
        chunked->state = LAST_LF;
        return CHUNKED_MORE;
    }
    if (byte == ':' && chunked->state == TRAILER_NAME)
        chunked->state = TRAILER_VALUE;
    else if (is_token(byte))
        chunked->state = TRAILER_NAME;
    else
        return bad(chunked, 400, "a trailer line must be a name, a colon and a value");
    return extra_byte(chunked, byte, TRAILER_END);
}

static enum chunked_result expect(struct chunked *chunked, unsigned char byte, char wanted, enum state next)
{
    if (byte != (unsigned char)wanted)
        return bad(chunked, 400, "chunk data and chunk lines must end in CR LF");
    chunked->state = next;
    return CHUNKED_MORE;
}

/* A byte that is not chunk data. */
static enum chunked_result step(struct chunked *chunked, unsigned char byte)
{
    enum chunked_result result;
    switch ((enum state)chunked->state) {
    case SIZE:
        return size_byte(chunked, byte);
    case EXTENSION:
        return extra_byte(chunked, byte, SIZE_END);
    case SIZE_END:
        return expect(chunked, byte, '\n', chunked->left == 0 ? TRAILER : DATA);
    case DATA_CR:
        return expect(chunked, byte, '\r', DATA_LF);
    case DATA_LF:
        chunked->digits = 0;
        return expect(chunked, byte, '\n', SIZE);
    case TRAILER:
    case TRAILER_NAME:
        return name_byte(chunked, byte);
    case TRAILER_VALUE:
        return extra_byte(chunked, byte, TRAILER_END);
    case TRAILER_END:
        return expect(chunked, byte, '\n', TRAILER);
    case LAST_LF:
        result = expect(chunked, byte, '\n', DONE);
        return result == CHUNKED_BAD ? result : CHUNKED_DONE;
    case DATA:
    case DONE:
    case BAD:
        break;
    }
    return CHUNKED_BAD;
}

void chunked_init(struct chunked *chunked, uint64_t max)
{
    *chunked = (struct chunked){ .state = SIZE, .max = max };
}

enum chunked_result chunked_decode(struct chunked *chunked, char *at, size_t len, size_t *body_len,
                                   size_t *used)
{
    enum chunked_result result = chunked->state == DONE  ? CHUNKED_DONE
                                 : chunked->state == BAD ? CHUNKED_BAD
                                                         : CHUNKED_MORE;
    size_t from = 0, to = 0;
    while (result == CHUNKED_MORE && from < len) {
        if (chunked->state != DATA) {
            result = step(chunked, (unsigned char)at[from++]);
            continue;
        }
        size_t run = chunked->left < len - from ? (size_t)chunked->left : len - from;
        memmove(at + to, at + from, run);
        from += run;
        to += run;
        chunked->left -= run;
        if (chunked->left == 0)
            chunked->state = DATA_CR;
    }
    *body_len = to;
    *used = from;
    return result;
}
