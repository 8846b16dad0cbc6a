// SPDX-License-Identifier: Apache-2.0
/*
 * identity.c - which attributes an HTTP request has, as the contract's `identity` says.
 *
 * Order: method, host, path, query, ip, then the contract's sources. The first value that no limit accepts ends the
 * reading: it is named in `refused`, and the request is answered as one that can never pass.
 *
 *   header:N   the field's value. In two lines: refused. `ip` from a header counts from proxies only.
 *   cookie:N   exact name, over all Cookie lines; the value as sent, quotes and escapes included. Twice: refused.
 *   query:N    names are compared after decoding, since that is what the application will see; a value is decoded
 *              once: %XX is a byte, `+` a blank, a bad escape is refused. Twice: refused.
 *   certificate:subject
 *              of the client certificate that was verified on this very connection; nothing that anybody sends in words.
 *
 * Elsewhere: the client's address (client.c), the spelling of paths and hosts (path.c, host.c).
 */
#include "rule/identity.h"

#include <assert.h>

#include "base/sha256.h"
#include "rule/client.h"
#include "rule/host.h"
#include "rule/path.h"

enum { DIGEST_BYTES = 16 };

struct reader {
    const struct identity_config *config;
    const struct weir_head *head;
    struct weir_identity *const out;
    size_t used; /* of out->storage */
    bool is_proxy, is_authenticated;
};

/* How often a name was found. */
enum found { FOUND_NONE, FOUND_ONE, FOUND_SEVERAL };

static void refuse(struct reader *reader, const char *attribute)
{
    assert(reader->out != NULL); /* for the static analyser, which loses sight of it */
    if (reader->out->refused == NULL)
        reader->out->refused = attribute;
}

static bool has_control_byte(struct slice text)
{
    return slice_find_control(text) < text.len;
}

static void add(struct reader *reader, const char *attribute, struct slice value)
{
    struct weir_identity *out = reader->out;
    if (value.len == 0)
        return; /* empty is absent */
    if (value.len > WEIR_ATTRIBUTE_MAX || has_control_byte(value) || out->count == WEIR_ATTRIBUTES_MAX) {
        refuse(reader, attribute);
        return;
    }
    out->attributes[out->count++] = (struct weir_attribute){ attribute, value.at, value.len };
}

/* Room for `len` bytes that live as long as the identity; NULL when the storage is used up. */
static char *room(const struct reader *reader, size_t len)
{
    return sizeof reader->out->storage - reader->used >= len ? reader->out->storage + reader->used : NULL;
}

/* ---- Fields ------------------------------------------------------------------------------------------------------- */

static enum found find_field(const struct weir_head *head, struct slice name, struct slice *value)
{
    enum found found = FOUND_NONE;
    for (size_t i = 0; i < head->field_count; i++) {
        const struct weir_field *field = head->fields + i;
        if (!slice_equals_fold((struct slice){ field->name, field->name_len }, name))
            continue;
        if (found == FOUND_ONE)
            return FOUND_SEVERAL;
        *value = trim_blanks((struct slice){ field->value, field->value_len });
        found = FOUND_ONE;
    }
    return found;
}

/*
 * What a proxy says about its client's request, else what this request says itself (`own`). A header of a peer
 * that is no proxy is not even looked at; an empty one says nothing.
 */
static struct slice forwarded(struct reader *reader, const char *attribute, struct slice header,
                              struct slice own)
{
    struct slice value = { NULL, 0 };
    enum found found = reader->is_proxy ? find_field(reader->head, header, &value) : FOUND_NONE;
    if (found == FOUND_SEVERAL)
        refuse(reader, attribute);
    return found == FOUND_ONE && value.len > 0 ? value : own;
}

static struct slice find_cookie_in(struct slice line, struct slice name, enum found *found, struct slice value)
{
    while (line.len > 0) {
        const char *semicolon = memchr(line.at, ';', line.len);
        size_t end = semicolon == NULL ? line.len : (size_t)(semicolon - line.at);
        const char *equals = memchr(line.at, '=', end);
        size_t name_len = equals == NULL ? end : (size_t)(equals - line.at);
        if (equals != NULL && slice_equals(trim_blanks((struct slice){ line.at, name_len }), name)) {
            *found = *found == FOUND_NONE ? FOUND_ONE : FOUND_SEVERAL;
            value = trim_blanks((struct slice){ equals + 1, end - name_len - 1 });
        }
        size_t used = semicolon == NULL ? end : end + 1;
        line.at += used;
        line.len -= used;
    }
    return value;
}

static enum found find_cookie(const struct weir_head *head, struct slice name, struct slice *value)
{
    enum found found = FOUND_NONE;
    for (size_t i = 0; i < head->field_count; i++) {
        const struct weir_field *field = head->fields + i;
        if (slice_equals_fold((struct slice){ field->name, field->name_len }, SLICE("cookie")))
            *value = find_cookie_in((struct slice){ field->value, field->value_len }, name, &found, *value);
    }
    return found;
}

/* ---- Query parameters ------------------------------------------------------------------------------------------------ */

static int hex_value(char c)
{
    c = ascii_lower(c);
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode the character at *at and step behind it. -1: a bad escape, whose `%` alone was passed. */
static int decode_next(struct slice text, size_t *at)
{
    char c = text.at[(*at)++];
    if (c == '+')
        return ' ';
    if (c != '%')
        return (unsigned char)c;
    int high = *at < text.len ? hex_value(text.at[*at]) : -1;
    int low = *at + 1 < text.len ? hex_value(text.at[*at + 1]) : -1;
    if (high < 0 || low < 0)
        return -1;
    *at += 2;
    return high * 16 + low;
}

/* Whether the name, decoded, is the wanted one. A bad escape in a name is a percent sign, as most decoders have it. */
static bool is_name(struct slice raw, struct slice wanted)
{
    size_t at = 0, len = 0;
    while (at < raw.len) {
        int c = decode_next(raw, &at);
        if (len == wanted.len || (unsigned char)wanted.at[len] != (c < 0 ? '%' : c))
            return false;
        len++;
    }
    return len == wanted.len;
}

static enum found find_parameter(struct slice query, struct slice name, struct slice *value)
{
    enum found found = FOUND_NONE;
    while (query.len > 0) {
        const char *ampersand = memchr(query.at, '&', query.len);
        size_t end = ampersand == NULL ? query.len : (size_t)(ampersand - query.at);
        const char *equals = memchr(query.at, '=', end);
        size_t name_len = equals == NULL ? end : (size_t)(equals - query.at);
        if (is_name((struct slice){ query.at, name_len }, name)) {
            if (found == FOUND_ONE)
                return FOUND_SEVERAL;
            found = FOUND_ONE;
            *value =
                equals == NULL ? (struct slice){ NULL, 0 } : (struct slice){ equals + 1, end - name_len - 1 };
        }
        size_t used = ampersand == NULL ? end : end + 1;
        query.at += used;
        query.len -= used;
    }
    return found;
}

/* The value decoded; false on a bad escape, or when the storage has no room. */
static bool decode_value(struct reader *reader, struct slice raw, struct slice *out)
{
    char *to = room(reader, raw.len);
    size_t at = 0, len = 0;
    if (to == NULL)
        return false;
    while (at < raw.len) {
        int c = decode_next(raw, &at);
        if (c < 0)
            return false;
        to[len++] = (char)c;
    }
    reader->used += len;
    *out = (struct slice){ to, len };
    return true;
}

/* ---- Sources ----------------------------------------------------------------------------------------------------------- */

static void add_address(struct reader *reader, const char *attribute, const struct address *address)
{
    char *text = room(reader, ADDRESS_TEXT_MAX);
    if (text == NULL) {
        refuse(reader, attribute);
        return;
    }
    size_t len = address_format(address, text);
    reader->used += len;
    add(reader, attribute, (struct slice){ text, len });
}

static void read_client(struct reader *reader, const char *attribute, enum identity_kind kind)
{
    struct address address;
    if (client_address(reader->config, reader->head, kind, &address))
        add_address(reader, attribute, &address);
}

/* `ip` out of a header such as X-Real-IP: from a proxy, and if it is an address; else the peer's. */
static void read_ip_header(struct reader *reader, const struct identity_source *source)
{
    struct slice value = { NULL, 0 };
    struct address address;
    enum found found = reader->is_proxy ? find_field(reader->head, source->name, &value) : FOUND_NONE;
    if (found == FOUND_SEVERAL)
        refuse(reader, source->attribute);
    else if (found == FOUND_ONE && address_parse_node(value, &address))
        add_address(reader, source->attribute, &address);
    else
        read_client(reader, source->attribute, IDENTITY_PEER);
}

/* The text is a secret, or long: its hash stands for it. */
static void add_digest(struct reader *reader, const char *attribute, struct slice value)
{
    char *text = room(reader, (size_t)2 * DIGEST_BYTES);
    if (value.len == 0)
        return;
    if (text == NULL || has_control_byte(value)) {
        refuse(reader, attribute);
        return;
    }
    sha256_hex(value.at, value.len, DIGEST_BYTES, text);
    reader->used += (size_t)2 * DIGEST_BYTES;
    add(reader, attribute, (struct slice){ text, (size_t)2 * DIGEST_BYTES });
}

static bool is_ip(const struct identity_source *source)
{
    return strcmp(source->attribute, "ip") == 0;
}

static void read_text(struct reader *reader, const struct identity_source *source, struct slice query)
{
    struct slice value = { NULL, 0 };
    enum found found = FOUND_NONE;
    if (source->kind == IDENTITY_HEADER)
        found = find_field(reader->head, source->name, &value);
    else if (source->kind == IDENTITY_COOKIE)
        found = find_cookie(reader->head, source->name, &value);
    else if (source->kind == IDENTITY_QUERY)
        found = find_parameter(query, source->name, &value);
    else
        value = (struct slice){ reader->head->peer.subject, reader->head->peer.subject_len };

    bool is_good = found != FOUND_SEVERAL;
    if (is_good && source->kind == IDENTITY_QUERY && value.len > 0)
        is_good = decode_value(reader, value, &value);
    if (source->kind == IDENTITY_CERTIFICATE && value.len > WEIR_ATTRIBUTE_MAX)
        is_good = false; /* cut off by then: its digest would be that of others, too */
    if (!is_good)
        refuse(reader, source->attribute);
    else if (source->is_digest)
        add_digest(reader, source->attribute, value);
    else
        add(reader, source->attribute, value);
}

static void read_source(struct reader *reader, const struct identity_source *source, struct slice query)
{
    if (source->only_authenticated && !reader->is_authenticated)
        return;
    switch (source->kind) {
    case IDENTITY_PEER:
    case IDENTITY_X_FORWARDED_FOR:
    case IDENTITY_FORWARDED:
        read_client(reader, source->attribute, source->kind);
        break;
    case IDENTITY_HEADER:
        if (is_ip(source)) {
            read_ip_header(reader, source);
            break;
        }
        /* fall through */
    case IDENTITY_COOKIE:
    case IDENTITY_QUERY:
    case IDENTITY_CERTIFICATE:
        read_text(reader, source, query);
        break;
    }
}

/* ---- The request itself -------------------------------------------------------------------------------------------- */

static void read_method(struct reader *reader)
{
    struct slice header =
        reader->head->door == WEIR_AUTH ? SLICE("x-forwarded-method") : SLICE("x-original-method");
    struct slice own = { reader->head->method, reader->head->method_len };
    add(reader, "method", forwarded(reader, "method", header, own));
}

/* Proxies that append leave a list, whose last entry the nearest one wrote. */
static struct slice last_of_list(struct slice text)
{
    const char *comma = memrchr(text.at, ',', text.len);
    size_t skip = comma == NULL ? 0 : (size_t)(comma + 1 - text.at);
    return trim_blanks((struct slice){ text.at + skip, text.len - skip });
}

static void read_host(struct reader *reader)
{
    struct slice host = { NULL, 0 };
    if (find_field(reader->head, SLICE("host"), &host) == FOUND_SEVERAL)
        refuse(reader, "host");
    if (reader->head->door == WEIR_AUTH) {
        struct slice said = forwarded(reader, "host", SLICE("x-forwarded-host"), host);
        if (said.at != host.at) {
            host = last_of_list(said);
            if (host.len == 0) /* `a,`: absent would be a way out */
                refuse(reader, "host");
        }
    }

    char *storage = room(reader, WEIR_ATTRIBUTE_MAX);
    if (storage == NULL || !host_normalise(host, storage, &host)) {
        refuse(reader, "host");
        return;
    }
    if (host.at == storage)
        reader->used += host.len;
    add(reader, "host", host);
}

/* Adds `path`, and returns the raw query. A door that is asked without a path is asked about the root. */
static struct slice read_path(struct reader *reader)
{
    struct slice header = reader->head->door == WEIR_AUTH ? SLICE("x-forwarded-uri") : SLICE("x-original-uri");
    struct slice own = { reader->head->target, reader->head->target_len };
    struct target target = target_split(forwarded(reader, "path", header, own));
    struct slice path;
    char *storage = room(reader, WEIR_ATTRIBUTE_MAX);
    if (target.path.len == 0)
        target.path = SLICE("/");
    if (storage == NULL || path_normalise(target.path, storage, &path) != PATH_OK) {
        refuse(reader, "path");
        return target.query;
    }
    if (path.at == storage)
        reader->used += path.len;
    add(reader, "path", path);
    return target.query;
}

bool identity_is_authenticated(const struct identity_config *config, const struct weir_peer *peer)
{
    return peer->has_credentials || client_peer_is_proxy(config, peer);
}

void identity_read(const struct identity_config *config, const struct weir_head *head,
                   struct weir_identity *out)
{
    struct reader reader = {
        .config = config,
        .head = head,
        .out = out,
        .is_proxy = client_peer_is_proxy(config, &head->peer),
        .is_authenticated = identity_is_authenticated(config, &head->peer),
    };
    bool has_ip = false;
    out->count = 0;
    out->refused = NULL;

    read_method(&reader);
    read_host(&reader);
    struct slice query = read_path(&reader);
    if (out->refused != NULL)
        return;
    if (config->reads_query)
        add(&reader, "query", query);
    for (size_t i = 0; i < config->source_count; i++)
        has_ip |= is_ip(config->sources + i);
    if (!has_ip)
        read_client(&reader, "ip", IDENTITY_PEER);
    for (size_t i = 0; i < config->source_count && out->refused == NULL; i++)
        read_source(&reader, config->sources + i, query);
}
