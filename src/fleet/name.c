// SPDX-License-Identifier: Apache-2.0
/*
 * name.c - keys of limits as names in the store, and back.
 *
 * A byte stands for itself or as %XX, and what separates parts ('{', '}', ':', ',', '=', '%') never for itself: so each name is
 * that of one key.
 */
#include "fleet/name.h"

#include "base/sha256.h"
#include "wire/text.h"

#define PART_PREFIX 2
#define DIGEST_MARK 0xff

static const char upper_hex[] = "0123456789ABCDEF";

static const char letters[WEIR_ALGORITHM_COUNT] = {
    [WEIR_TOKEN_BUCKET] = 'b',   [WEIR_LEAKY_BUCKET] = 'b', [WEIR_LEAKY_QUEUE] = 'b', [WEIR_FIXED_WINDOW] = 'f',
    [WEIR_SLIDING_WINDOW] = 's', [WEIR_SLIDING_LOG] = 'l',  [WEIR_CONCURRENCY] = 'c'
};

/* ---- Writing ------------------------------------------------------------------------------------------------ */

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.'
           || c == '_' || c == '~' || c == '/';
}

static void put_escaped(struct text *out, const unsigned char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char escape[3] = { '%', upper_hex[at[i] >> 4], upper_hex[at[i] & 15] };
        if (is_plain(at[i]))
            text_bytes(out, (const char *)&at[i], 1);
        else
            text_bytes(out, escape, sizeof escape);
    }
}

/* What is left to write of a key: names of its attributes, and their values. */
struct parts {
    const char *form; /* NULL: no more */
    const unsigned char *at, *end;
};

/* The name of the next attribute: up to a comma, without how addresses are grouped. */
static struct slice next_name(struct parts *parts)
{
    struct slice name = { parts->form, strcspn(parts->form, ",/") };
    const char *comma = strchr(parts->form, ',');
    parts->form = comma == NULL ? NULL : comma + 1;
    return name;
}

static void put_part(struct text *out, struct parts *parts)
{
    text_slice_add(out, next_name(parts));
    if (parts->end - parts->at < PART_PREFIX)
        return;
    size_t len = (size_t)parts->at[0] << 8 | parts->at[1],
           left = (size_t)(parts->end - parts->at) - PART_PREFIX;
    parts->at += PART_PREFIX;
    if (len == 0)
        return;
    len = len - 1 < left ? len - 1 : left;
    text_literal(out, "=");
    put_escaped(out, parts->at, len);
    parts->at += len;
}

static void put_digest(struct text *out, const unsigned char *digest)
{
    static const char hex[] = "0123456789abcdef";
    text_literal(out, "~");
    for (size_t i = 0; i < SHA256_LEN; i++) {
        char pair[2] = { hex[digest[i] >> 4], hex[digest[i] & 15] };
        text_bytes(out, pair, sizeof pair);
    }
}

size_t name_write(const struct weir_contract_limit *limit, const unsigned char *key, size_t key_len, char *out)
{
    struct text text = text_of(out, NAME_MAX_LEN);
    const char *form = limit->spec->key_form == NULL ? "" : limit->spec->key_form;
    const char letter = letters[limit->algorithm];
    bool has_parts = *form != '\0';
    bool is_digest = key_len == PART_PREFIX + SHA256_LEN && key[0] == DIGEST_MARK && key[1] == DIGEST_MARK;
    struct parts parts = { form, key, key + key_len };

    text_literal(&text, NAME_PREFIX "{");
    if (is_digest)
        put_digest(&text, key + PART_PREFIX);
    else if (has_parts)
        put_part(&text, &parts);
    else
        text_string(&text, limit->name);
    text_literal(&text, "}:");
    text_string(&text, limit->name);
    text_literal(&text, ":");
    text_bytes(&text, &letter, 1);
    if (has_parts)
        text_literal(&text, ":");
    for (bool is_first = true; has_parts && !is_digest && parts.form != NULL; is_first = false) {
        text_bytes(&text, ",", is_first ? 0 : 1);
        put_part(&text, &parts);
    }
    return text.len;
}

size_t name_pattern(const char *limit, char *out)
{
    struct text text = text_of(out, NAME_MAX_LEN);
    text_literal(&text, NAME_PREFIX "{*}:");
    text_string(&text, limit); /* letters, digits, '.', '_' and '-': a pattern has no other use for them */
    text_literal(&text, ":*");
    return text.len;
}

/* ---- Slots --------------------------------------------------------------------------------------------------- */

struct slice name_tag(struct slice name)
{
    const char *open = name.len == 0 ? NULL : memchr(name.at, '{', name.len);
    if (open == NULL)
        return (struct slice){ name.at, 0 };
    const char *from = open + 1;
    const char *to = memchr(from, '}', (size_t)(name.at + name.len - from));
    return (struct slice){ from, to == NULL ? 0 : (size_t)(to - from) };
}

/* CRC16/XMODEM, a bit at a time: once for each request of a Cluster. */
static unsigned crc16(struct slice bytes)
{
    unsigned crc = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        crc ^= (unsigned)(unsigned char)bytes.at[i] << 8;
        for (unsigned bit = 0; bit < 8; bit++)
            crc = ((crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021u : 0u)) & 0xffff;
    }
    return crc;
}

unsigned name_slot(struct slice name)
{
    struct slice tag = name_tag(name);
    return crc16(tag.len > 0 ? tag : name) % 16384;
}

/* ---- Reading ------------------------------------------------------------------------------------------------- */

/* Take what stands before `until`, or all that is left for '\0'; false: it is not there. */
static bool take(struct slice *rest, char until, struct slice *out)
{
    const char *end = until == '\0'    ? rest->at + rest->len
                      : rest->len == 0 ? NULL
                                       : memchr(rest->at, until, rest->len);
    if (end == NULL)
        return false;
    *out = (struct slice){ rest->at, (size_t)(end - rest->at) };
    size_t used = out->len + (until != '\0');
    *rest = (struct slice){ rest->at + used, rest->len - used };
    return true;
}

static bool take_literal(struct slice *rest, struct slice literal)
{
    if (rest->len < literal.len || memcmp(rest->at, literal.at, literal.len) != 0)
        return false;
    *rest = (struct slice){ rest->at + literal.len, rest->len - literal.len };
    return true;
}

static bool is_upper_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
}

/* Whether a part is as name_write() writes it: nothing escaped that need not be, and no separator for itself but `also`. */
static bool is_written(struct slice part, const char *also)
{
    for (size_t i = 0; i < part.len; i++) {
        if (is_plain((unsigned char)part.at[i]) || (part.at[i] != '\0' && strchr(also, part.at[i]) != NULL))
            continue;
        if (part.at[i] != '%' || part.len - i < 3 || !is_upper_hex(part.at[i + 1])
            || !is_upper_hex(part.at[i + 2]))
            return false;
        i += 2;
    }
    return true;
}

static bool is_limit_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!is_word && (i == 0 || (c != '.' && c != '_' && c != '-')))
            return false;
    }
    return name.len > 0 && name.len <= WEIR_NAME_MAX;
}

bool name_read(struct slice name, struct name_parts *out)
{
    struct slice rest = name, letter;
    struct name_parts parts = { 0 };
    if (name.len > NAME_MAX_LEN || !take_literal(&rest, SLICE(NAME_PREFIX "{")) || !take(&rest, '}', &parts.tag)
        || !take_literal(&rest, SLICE(":")) || !take(&rest, ':', &parts.limit))
        return false;
    bool has_parts = rest.len > 1;
    if (!take(&rest, has_parts ? ':' : '\0', &letter) || letter.len != 1
        || memchr("bfslc", letter.at[0], 5) == NULL)
        return false;
    parts.algorithm = letter.at[0];
    parts.rest = rest;
    if (parts.tag.len == 0 || !is_written(parts.tag, "=") || !is_written(parts.rest, "=,")
        || !is_limit_name(parts.limit))
        return false;
    *out = parts;
    return true;
}
