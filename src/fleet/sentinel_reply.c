// SPDX-License-Identifier: Apache-2.0
/*
 * sentinel_reply.c - replies of Sentinels and about roles are read.
 */
#include "fleet/sentinel_reply.h"

#include "wire/resp.h"

void sentinels_add(struct sentinels *sentinels, const struct store_address *at)
{
    for (size_t i = 0; i < sentinels->count; i++)
        if (store_address_equals(&sentinels->at[i], at))
            return;
    if (sentinels->count < SENTINELS_MAX)
        sentinels->at[sentinels->count++] = *at;
}

/* A host and a port as two texts; a port of nothing is no node. */
static bool address_of(struct slice host, struct slice port, struct store_address *out)
{
    uint64_t number;
    return slice_to_u64(port, UINT16_MAX, &number) && number > 0 && store_address_set(out, host, number);
}

static bool next_text(struct resp_reader *reader, struct slice *out)
{
    struct resp_value value;
    if (!resp_next(reader, &value) || !resp_is_text(&value))
        return false;
    *out = value.text;
    return true;
}

bool sentinel_read_master(struct slice reply, struct store_address *out)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value list;
    struct slice host, port;
    return resp_next(&reader, &list) && list.type == RESP_ARRAY && list.count == 2 && next_text(&reader, &host)
           && next_text(&reader, &port) && address_of(host, port, out);
}

/* One Sentinel: pairs of texts, "ip" and "port" among them. */
static bool read_other(struct resp_reader *reader, struct slice *host, struct slice *port)
{
    struct resp_value item, name, value;
    if (!resp_next(reader, &item) || (item.type != RESP_MAP && item.type != RESP_ARRAY) || item.count % 2 != 0)
        return false;
    for (uint32_t i = 0; i < item.count; i += 2) {
        if (!resp_next(reader, &name) || !resp_skip(reader, &name) || !resp_next(reader, &value)
            || !resp_skip(reader, &value))
            return false;
        if (slice_equals(name.text, SLICE("ip")))
            *host = value.text;
        else if (slice_equals(name.text, SLICE("port")))
            *port = value.text;
    }
    return true;
}

void sentinel_read_others(struct slice reply, struct sentinels *into)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value list;
    if (!resp_next(&reader, &list) || list.type != RESP_ARRAY)
        return;
    for (uint32_t i = 0; i < list.count && into->count < SENTINELS_MAX; i++) {
        struct slice host = { 0 }, port = { 0 };
        struct store_address at;
        if (!read_other(&reader, &host, &port))
            return;
        if (address_of(host, port, &at))
            sentinels_add(into, &at);
    }
}

/* The next word of a line of words with one blank between them. */
static struct slice next_word(struct slice *line)
{
    const char *blank = line->len == 0 ? NULL : memchr(line->at, ' ', line->len);
    struct slice word = { line->at, blank == NULL ? line->len : (size_t)(blank - line->at) };
    size_t taken = word.len + (blank != NULL);
    *line = (struct slice){ line->at + taken, line->len - taken };
    return word;
}

bool sentinel_read_switch(struct slice push, const char *name, struct store_address *out)
{
    struct resp_reader reader = resp_reader_of(push.at, push.len);
    struct resp_value list;
    struct slice kind, channel, line;
    if (!resp_next(&reader, &list) || (list.type != RESP_PUSH && list.type != RESP_ARRAY) || list.count != 3
        || !next_text(&reader, &kind) || !slice_equals(kind, SLICE("message")) || !next_text(&reader, &channel)
        || !slice_equals(channel, SLICE("+switch-master")) || !next_text(&reader, &line))
        return false;
    if (!slice_equals(next_word(&line), slice_of(name)))
        return false;
    (void)next_word(&line); /* where it was */
    (void)next_word(&line);
    struct slice host = next_word(&line);
    return address_of(host, next_word(&line), out);
}

/* The value of a field of INFO: behind "name:" at the beginning of a line. */
static struct slice info_field(struct slice text, struct slice name)
{
    const char *at = text.at, *end = text.at + text.len;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((line_end == NULL ? end : line_end) - at);
        if (len > name.len && at[name.len] == ':' && memcmp(at, name.at, name.len) == 0) {
            struct slice value = { at + name.len + 1, len - name.len - 1 };
            value.len -= value.len > 0 && value.at[value.len - 1] == '\r';
            return value;
        }
        at += len + 1;
    }
    return (struct slice){ 0 };
}

static enum node_role role_named(struct slice word)
{
    if (slice_equals(word, SLICE("master")))
        return ROLE_MASTER;
    if (slice_equals(word, SLICE("slave")) || slice_equals(word, SLICE("replica")))
        return ROLE_REPLICA;
    return slice_equals(word, SLICE("sentinel")) ? ROLE_SENTINEL : ROLE_UNKNOWN;
}

enum node_role role_read(struct slice reply)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    struct slice word;
    if (!resp_next(&reader, &value))
        return ROLE_UNKNOWN;
    if (resp_is_text(&value))
        return role_named(info_field(value.text, SLICE("role")));
    return value.type == RESP_ARRAY && value.count > 0 && next_text(&reader, &word) ? role_named(word)
                                                                                    : ROLE_UNKNOWN;
}

size_t role_read_replicas(struct slice reply, struct store_address *out, size_t room)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value list, offset, replicas, item;
    struct slice word, host, port;
    size_t count = 0;
    if (!resp_next(&reader, &list) || list.type != RESP_ARRAY || list.count < 3 || !next_text(&reader, &word)
        || role_named(word) != ROLE_MASTER || !resp_next(&reader, &offset) || !resp_skip(&reader, &offset)
        || !resp_next(&reader, &replicas) || replicas.type != RESP_ARRAY)
        return 0;
    for (uint32_t i = 0; i < replicas.count && count < room; i++) {
        if (!resp_next(&reader, &item) || item.type != RESP_ARRAY || item.count != 3
            || !next_text(&reader, &host) || !next_text(&reader, &port) || !resp_next(&reader, &offset)
            || !resp_skip(&reader, &offset))
            break;
        if (address_of(host, port, &out[count]))
            count++;
    }
    return count;
}
