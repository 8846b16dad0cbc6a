// SPDX-License-Identifier: Apache-2.0
/*
 * client.c - the client's address, read from the right (X-Forwarded-For; Forwarded, RFC 7239).
 *
 * Forwarded elements may hold commas in quotes. They are cut from the right, too, quotes included: an open quote that
 * a client sends stands to the left of what the proxy added and cannot swallow it.
 */
#include "rule/client.h"

bool client_peer_is_proxy(const struct identity_config *config, const struct weir_peer *peer)
{
    if (peer->is_stranger)
        return false;
    if (!peer->is_unix) {
        struct address address;
        memcpy(address.bytes, peer->address, sizeof address.bytes);
        return networks_contain(config->proxies, config->proxy_count, &address);
    }
    if (!config->has_uids)
        return peer->uid == 0 || peer->uid == config->own_uid;
    for (size_t i = 0; i < config->uid_count; i++)
        if (config->uids[i] == peer->uid)
            return true;
    return false;
}

/* ---- One list out of all lines of a header, from the right ------------------------------------------------------ */

struct list {
    const struct weir_head *head;
    struct slice header;
    bool has_quotes;
    size_t field;      /* lines before this one are still to come */
    struct slice line; /* what is left of the current line */
    bool has_line;
};

/* Whether the quote at `at` is escaped: an odd number of backslashes before it. */
static bool is_escaped(struct slice line, size_t at)
{
    size_t count = 0;
    while (count < at && line.at[at - count - 1] == '\\')
        count++;
    return count % 2 == 1;
}

/* Where the last entry of the line begins. */
static size_t last_entry(struct slice line, bool has_quotes)
{
    bool is_quoted = false;
    size_t at = line.len;
    for (; at > 0; at--) {
        char c = line.at[at - 1];
        if (c == ',' && !is_quoted)
            break;
        if (has_quotes && c == '"' && !is_escaped(line, at - 1))
            is_quoted = !is_quoted;
    }
    return at;
}

static bool next_line(struct list *list)
{
    while (list->field > 0) {
        const struct weir_field *field = list->head->fields + --list->field;
        if (!slice_equals_fold((struct slice){ field->name, field->name_len }, list->header))
            continue;
        list->line = trim_blanks((struct slice){ field->value, field->value_len });
        if (list->line.len > 0) /* an empty line holds no entry */
            return true;
    }
    return false;
}

static bool next_entry(struct list *list, struct slice *entry)
{
    if (!list->has_line && !next_line(list))
        return false;
    size_t begin = last_entry(list->line, list->has_quotes);
    *entry = trim_blanks((struct slice){ list->line.at + begin, list->line.len - begin });
    list->has_line = begin > 0;
    list->line.len = begin > 0 ? begin - 1 : 0;
    return true;
}

/* ---- Forwarded: for=NODE among pairs that a semicolon separates --------------------------------------------------- */

/* The longest node that can be an address: brackets, an IPv6 address with a zone of 16 bytes, a colon and a port. */
enum { NODE_MAX = 80 };

/* Where the pair ends: at the first semicolon outside quotes. False: a quote stays open. */
static bool pair_end(struct slice element, size_t *end)
{
    bool is_quoted = false;
    size_t at = 0;
    for (; at < element.len && (is_quoted || element.at[at] != ';'); at++) {
        if (is_quoted && element.at[at] == '\\')
            at++;
        else if (element.at[at] == '"')
            is_quoted = !is_quoted;
    }
    *end = at < element.len ? at : element.len;
    return !is_quoted;
}

/* The text of a token or quoted-string; the latter is copied without its quotes and backslashes. */
static bool unquote(struct slice value, char copy[NODE_MAX], struct slice *out)
{
    size_t len = 0;
    *out = value;
    if (value.len == 0 || value.at[0] != '"')
        return memchr(value.at, '"', value.len) == NULL;
    if (value.len < 2 || value.at[value.len - 1] != '"')
        return false;
    for (size_t i = 1; i + 1 < value.len; i++) {
        if (value.at[i] == '"')
            return false;
        if (value.at[i] == '\\' && ++i + 1 == value.len)
            return false;
        if (len == NODE_MAX)
            return false;
        copy[len++] = value.at[i];
    }
    *out = (struct slice){ copy, len };
    return true;
}

/* IPv4, or IPv6 in brackets; a port may be obfuscated (`:_name`). `unknown` and `_name` are no address. */
static bool parse_node(struct slice node, struct address *out)
{
    const char *underscore = memchr(node.at, '_', node.len);
    if (underscore != NULL && underscore > node.at && underscore[-1] == ':')
        node.len = (size_t)(underscore - node.at - 1);
    bool is_bracketed = node.len > 0 && node.at[0] == '[';
    bool is_ipv4 = node.len > 0 && memchr(node.at, '.', node.len) != NULL;
    return (is_bracketed || is_ipv4) && address_parse_node(node, out);
}

static bool parse_forwarded(struct slice element, struct address *out)
{
    bool is_found = false;
    char copy[NODE_MAX] = { 0 };
    while (element.len > 0) {
        size_t end;
        struct slice value;
        if (!pair_end(element, &end))
            return false;
        struct slice pair = trim_blanks((struct slice){ element.at, end });
        const char *equals = pair.len == 0 ? NULL : memchr(pair.at, '=', pair.len);
        if (pair.len > 0 && equals == NULL)
            return false;
        size_t name_len = equals == NULL ? 0 : (size_t)(equals - pair.at);
        if (pair.len > 0 && slice_equals_fold((struct slice){ pair.at, name_len }, SLICE("for"))) {
            struct slice raw = { equals + 1, pair.len - name_len - 1 };
            if (is_found || !unquote(raw, copy, &value) || !parse_node(value, out))
                return false;
            is_found = true;
        }
        size_t used = end < element.len ? end + 1 : end;
        element.at += used;
        element.len -= used;
    }
    return is_found;
}

/* ---- The walk -------------------------------------------------------------------------------------------------------- */

bool client_address(const struct identity_config *config, const struct weir_head *head, enum identity_kind kind,
                    struct address *out)
{
    bool is_forwarded = kind == IDENTITY_FORWARDED;
    struct list list = {
        .head = head,
        .header = is_forwarded ? SLICE("forwarded") : SLICE("x-forwarded-for"),
        .has_quotes = is_forwarded,
        .field = head->field_count,
    };
    bool is_trusted = client_peer_is_proxy(config, &head->peer);
    bool is_known = !head->peer.is_unix;
    struct address address;
    if (is_known)
        memcpy(address.bytes, head->peer.address, sizeof address.bytes);

    for (unsigned entries = 0; kind != IDENTITY_PEER && is_trusted && entries < CLIENT_ENTRIES_MAX; entries++) {
        struct slice entry;
        struct address next;
        if (!next_entry(&list, &entry)
            || !(is_forwarded ? parse_forwarded(entry, &next) : address_parse_node(entry, &next)))
            break;
        address = next;
        is_known = true;
        is_trusted = networks_contain(config->proxies, config->proxy_count, &address);
    }
    if (is_known)
        *out = address;
    return is_known;
}
