// SPDX-License-Identifier: Apache-2.0
/*
 * url.c - reads a store's address piece by piece, from the left; see url.h.
 *
 * Each piece is decoded into `text` and ends with a zero there. A piece is never longer than it was in the URL, and at least
 * one byte of the URL (a separator, or its end) stands behind each, so `text` always suffices.
 *
 * No fault repeats what was written: with a forgotten `@` the host is a password.
 */
#include "fleet/url.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/un.h>

#include "io/tls.h"

#define PORT_STORE 6379
#define PORT_SENTINEL 26379

/* Longest host name (RFC 1035). */
#define HOST_MAX 253

/* Redis has 16 unless told otherwise; a larger number than this is a typing error. */
#define DB_MAX 65535

#define PATH_MAX_LEN (sizeof((struct sockaddr_un){ 0 }.sun_path) - 1)

struct parser {
    struct url *url;
    size_t used; /* of url->text */
    const char *why;
};

static bool fault(struct parser *parser, const char *why)
{
    parser->why = why;
    return false;
}

/* ---- Pieces ------------------------------------------------------------------------------------------------------ */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copy a piece with its %XX decoded. */
static bool keep(struct parser *parser, struct slice piece, const char **out)
{
    char *to = parser->url->text + parser->used;
    size_t len = 0;
    for (size_t i = 0; i < piece.len; i++) {
        char c = piece.at[i];
        if (c == '%') {
            int high = piece.len - i > 2 ? hex(piece.at[i + 1]) : -1,
                low = high < 0 ? -1 : hex(piece.at[i + 2]);
            if (low < 0)
                return fault(parser, "a % must be followed by two hex digits: write % itself as %25");
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0')
            return fault(parser, "it holds a zero byte (%00): leave it out");
        to[len++] = c;
    }
    to[len++] = '\0';
    parser->used += len;
    *out = to;
    return true;
}

/* What stands before the first `separator`; *rest is what stands behind it. All of it where there is none. */
static struct slice cut(struct slice text, char separator, struct slice *rest)
{
    const char *found = text.len == 0 ? NULL : memchr(text.at, separator, text.len);
    size_t len = found == NULL ? text.len : (size_t)(found - text.at);
    *rest = found == NULL ? (struct slice){ text.at + text.len, 0 }
                          : (struct slice){ found + 1, text.len - len - 1 };
    return (struct slice){ text.at, len };
}

static bool has(struct slice text, char c)
{
    return text.len > 0 && memchr(text.at, c, text.len) != NULL;
}

/* ---- The scheme ------------------------------------------------------------------------------------------------- */

static const char *const how_scheme = "it must begin with redis://, rediss:// (TLS), redis+unix://, "
                                      "redis+sentinel:// or redis+cluster:// (valkey in "
                                      "place of redis is the same)";

static bool parse_scheme(struct parser *parser, const char *text, struct slice *rest)
{
    static const char *const names[] = { "redis", "valkey" };
    struct slice kind, scheme;
    const char *end = strstr(text, "://");
    if (end == NULL)
        return fault(parser, how_scheme);
    scheme = cut((struct slice){ text, (size_t)(end - text) }, '+', &kind);
    *rest = slice_of(end + 3);

    bool is_known = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t len = strlen(names[i]);
        bool is_begun = scheme.len >= len && memcmp(scheme.at, names[i], len) == 0;
        bool is_tls = is_begun && scheme.len == len + 1 && scheme.at[len] == 's';
        is_known |= is_tls || (is_begun && scheme.len == len);
        parser->url->is_tls |= is_tls;
    }
    bool has_plus = scheme.len < (size_t)(end - text);
    parser->url->is_unix = slice_equals(kind, SLICE("unix"));
    if (slice_equals(kind, SLICE("sentinel")))
        parser->url->kind = URL_SENTINEL;
    else if (slice_equals(kind, SLICE("cluster")))
        parser->url->kind = URL_CLUSTER;
    else if (has_plus && !parser->url->is_unix)
        is_known = false;
    if (!is_known)
        return fault(parser, how_scheme);
    if (parser->url->is_unix && parser->url->is_tls)
        return fault(parser, "a Unix socket has no TLS: write redis+unix:///path");
    return true;
}

/* ---- Who ---------------------------------------------------------------------------------------------------------- */

static bool parse_user(struct parser *parser, struct slice who)
{
    struct slice password, user = cut(who, ':', &password);
    if (has(password, '@') || has(user, '@'))
        return fault(parser, "two @ stand before the path: write an @ in the user or the password as %40");
    if (user.len == who.len)
        return fault(parser, "a name stands before the @ and no password: write user:password@, or :password@");
    if (password.len == 0)
        return fault(
            parser,
            "the password before the @ is empty: write one, or leave out what stands before the @ and it");
    return (user.len == 0 || keep(parser, user, &parser->url->user))
           && keep(parser, password, &parser->url->password);
}

/* ---- Where --------------------------------------------------------------------------------------------------------- */

static bool is_name(struct slice host)
{
    bool is_numeric = true; /* the last label: then all of it must be an address */
    size_t label = 0;
    if (host.len > HOST_MAX)
        return false;
    for (size_t i = 0; i < host.len; i++) {
        char c = ascii_lower(host.at[i]);
        bool is_digit = c >= '0' && c <= '9';
        if (c == '.' && label == 0)
            return false;
        if (c == '.' && i + 1 == host.len)
            break; /* a name that is complete */
        label = c == '.' ? 0 : label + 1;
        is_numeric = c == '.' || (is_numeric && is_digit);
        if (c != '.' && !is_digit && !(c >= 'a' && c <= 'z') && c != '-' && c != '_')
            return false;
    }
    return host.len > 0 && !is_numeric;
}

static bool parse_host(struct parser *parser, struct slice host, bool is_bracketed, const char **out)
{
    unsigned char address[sizeof(struct in6_addr)];
    struct slice name;
    if (host.len == 0)
        return fault(parser, "a host is missing: write redis://HOST:PORT, as in redis://127.0.0.1:6379");
    if (has(host, '%'))
        return fault(parser, "a host holds a %: hosts are written as they are, without a scope");
    if (!keep(parser, host, out))
        return false;
    name = slice_of(*out);
    if (is_bracketed)
        return inet_pton(AF_INET6, *out, address) == 1
               || fault(parser, "what stands in brackets is no IPv6 address: write it as in [::1]:6379");
    return inet_pton(AF_INET, *out, address) == 1 || is_name(name)
           || fault(parser, "a host is neither a name (letters, digits, `-`, `_`, `.`) nor an address");
}

static bool parse_port(struct parser *parser, struct slice text, uint16_t *out)
{
    uint64_t port;
    if (!slice_to_u64(text, UINT16_MAX, &port) || port == 0)
        return fault(parser, "a port must be a number from 1 to 65535; leave the colon out for the usual one");
    *out = (uint16_t)port;
    return true;
}

static bool parse_place(struct parser *parser, struct slice place)
{
    struct url *url = parser->url;
    struct slice rest, host;
    bool is_bracketed = place.len > 0 && place.at[0] == '[';
    if (is_bracketed) {
        if (!has(place, ']'))
            return fault(parser, "a [ has no ]: write an IPv6 address as in [::1]:6379");
        host = cut((struct slice){ place.at + 1, place.len - 1 }, ']', &rest);
        if (rest.len > 0 && rest.at[0] != ':')
            return fault(parser, "only a colon and a port may stand behind the ]: write [::1]:6379");
        place = (struct slice){ rest.at, rest.len };
        rest = rest.len > 0 ? (struct slice){ rest.at + 1, rest.len - 1 } : rest;
    } else {
        host = cut(place, ':', &rest);
        if (has(rest, ':'))
            return fault(parser,
                         "a host holds several colons: write an IPv6 address in brackets, as in [::1]:6379");
        place = (struct slice){ host.at + host.len, place.len - host.len };
    }
    if (url->host_count == URL_HOSTS_MAX)
        return fault(parser, "it names more than 32 hosts: a few suffice, the others are found through them");
    url->ports[url->host_count] = url->kind == URL_SENTINEL ? PORT_SENTINEL : PORT_STORE;
    return parse_host(parser, host, is_bracketed, &url->hosts[url->host_count])
           && (place.len == 0 || parse_port(parser, rest, &url->ports[url->host_count]))
           && ++url->host_count > 0;
}

static bool parse_places(struct parser *parser, struct slice places)
{
    const struct url *url = parser->url;
    struct slice rest;
    if (url->kind == URL_ONE && has(places, ','))
        return fault(parser, "it names several hosts: write redis+cluster://h1:p,h2:p or "
                             "redis+sentinel://h1:p,h2:p/name");
    do {
        bool has_more = has(places, ',');
        if (!parse_place(parser, cut(places, ',', &rest)))
            return false;
        if (has_more && rest.len == 0)
            return fault(parser, "a host is missing behind the last comma: leave the comma out");
        places = rest;
    } while (places.len > 0);
    return true;
}

/* ---- Which -------------------------------------------------------------------------------------------------------- */

static bool parse_db(struct parser *parser, struct slice text)
{
    uint64_t db;
    if (!slice_to_u64(text, DB_MAX, &db))
        return fault(parser, "the database must be a number from 0 to 65535: write redis://HOST:PORT/0");
    if (db != 0 && parser->url->kind == URL_CLUSTER)
        return fault(parser, "a Cluster has no databases but 0: leave the number out");
    parser->url->db = (unsigned)db;
    return true;
}

static bool parse_socket(struct parser *parser, struct slice path)
{
    struct url *url = parser->url;
    if (path.len < 2)
        return fault(parser, "the socket's path is missing: write redis+unix:///run/redis/redis.sock");
    if (!keep(parser, path, &url->hosts[0]))
        return false;
    if (strlen(url->hosts[0]) > PATH_MAX_LEN)
        return fault(parser, "the socket's path is longer than 107 bytes: give it a shorter one");
    url->host_count = 1;
    return true;
}

/* What stands behind the hosts: `path` without its first slash. */
static bool parse_path(struct parser *parser, struct slice path)
{
    struct url *url = parser->url;
    struct slice db, name;
    if (url->kind != URL_SENTINEL)
        return path.len == 0 || parse_db(parser, path);
    name = cut(path, '/', &db);
    if (name.len == 0)
        return fault(parser, "the name that the Sentinels watch it under is missing: write "
                             "redis+sentinel://h1:p,h2:p/NAME");
    if (name.len < path.len && db.len == 0)
        return fault(parser, "the database behind the last / is missing: leave the / out");
    return keep(parser, name, &url->master) && (db.len == 0 || parse_db(parser, db));
}

/* ---- Further ------------------------------------------------------------------------------------------------------- */

static bool parse_file(struct parser *parser, struct slice value, const char **out)
{
    if (!parser->url->is_tls)
        return fault(parser, "ca, cert, key and servername are for TLS: write rediss:// in place of redis://");
    if (*out != NULL)
        return fault(parser, "a parameter stands twice behind the ?: write each once");
    if (value.len == 0)
        return fault(parser, "a parameter behind the ? is empty: write it as in ?ca=/etc/weir/ca.pem");
    return keep(parser, value, out);
}

static bool parse_parameter(struct parser *parser, struct slice parameter, bool *has_db)
{
    struct url *url = parser->url;
    struct slice value, name = cut(parameter, '=', &value);
    if (slice_equals(name, SLICE("ca")))
        return parse_file(parser, value, &url->ca);
    if (slice_equals(name, SLICE("cert")))
        return parse_file(parser, value, &url->cert);
    if (slice_equals(name, SLICE("key")))
        return parse_file(parser, value, &url->key);
    if (slice_equals(name, SLICE("servername")))
        return parse_file(parser, value, &url->servername);
    if (!slice_equals(name, SLICE("db")))
        return fault(
            parser, "it has a parameter that is not known: behind the ? may stand ca, cert, key and servername "
                    "(TLS), db (Unix sockets), with & between them");
    if (!url->is_unix)
        return fault(parser,
                     "db is for Unix sockets: write the number behind the host, as in redis://HOST:PORT/2");
    if (*has_db)
        return fault(parser, "a parameter stands twice behind the ?: write each once");
    *has_db = true;
    return parse_db(parser, value);
}

static bool parse_parameters(struct parser *parser, struct slice rest)
{
    const struct url *url = parser->url;
    unsigned char address[sizeof(struct in6_addr)];
    bool has_db = false;
    while (rest.len > 0) {
        bool has_more = has(rest, '&');
        if (!parse_parameter(parser, cut(rest, '&', &rest), &has_db))
            return false;
        if (has_more && rest.len == 0)
            return fault(parser, "nothing stands behind the last &: leave it out");
    }
    if ((url->cert == NULL) != (url->key == NULL))
        return fault(parser, "cert and key go together: give the certificate's file and its key's");
    if (url->servername != NULL && !is_name(slice_of(url->servername))
        && inet_pton(AF_INET, url->servername, address) != 1
        && inet_pton(AF_INET6, url->servername, address) != 1)
        return fault(parser, "servername is neither a host's name nor an address");
    return true;
}

/* ---- All of it ------------------------------------------------------------------------------------------------------- */

static bool is_clean(struct parser *parser, const char *text)
{
    size_t len = strlen(text);
    if (len >= URL_MAX)
        return fault(parser, "it is longer than 2047 bytes");
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return fault(parser,
                         "it holds a blank or a control byte: write a blank as %20, and nothing around it");
    if (strchr(text, '#') != NULL)
        return fault(parser, "it holds a #: write it as %23");
    return true;
}

static bool parse(struct parser *parser, const char *text)
{
    struct slice rest, place, path, query, who = { NULL, 0 };
    if (!is_clean(parser, text) || !parse_scheme(parser, text, &rest))
        return false;
    struct slice before = cut(rest, '?', &query);
    bool has_query = before.len < rest.len;
    place = cut(before, '/', &path);
    if (has(path, '@') || has(query, '@'))
        return fault(
            parser,
            "an @ stands behind a / or ?: in user and password write / as %2F, ? as %3F; elsewhere @ as %40");
    bool has_path = place.len < before.len;
    const char *at = place.len == 0 ? NULL : memrchr(place.at, '@', place.len);
    if (at != NULL) {
        who = (struct slice){ place.at, (size_t)(at - place.at) };
        place = (struct slice){ at + 1, place.len - who.len - 1 };
        if (!parse_user(parser, who))
            return false;
    }
    if (has_query && query.len == 0)
        return fault(parser, "nothing stands behind the ?: leave it out");
    if (parser->url->is_unix) {
        if (place.len > 0)
            return fault(parser, "a socket's path must begin with /: write redis+unix:///run/redis/redis.sock");
        struct slice whole = has_path ? (struct slice){ path.at - 1, path.len + 1 } : path;
        return parse_socket(parser, whole) && parse_parameters(parser, query);
    }
    return parse_places(parser, place) && parse_path(parser, path) && parse_parameters(parser, query);
}

bool url_parse(const char *text, struct url *out, const char **why)
{
    struct parser parser = { .url = out };
    memset(out, 0, sizeof *out);
    if (parse(&parser, text))
        return true;
    *why = parser.why;
    return false;
}

/* ---- Shown ----------------------------------------------------------------------------------------------------------- */

struct shown {
    char *at;
    size_t len, cap;
};

/* As snprintf(): what does not fit is counted. */
static void show(struct shown *shown, struct slice text)
{
    for (size_t i = 0; i < text.len; i++, shown->len++)
        if (shown->len + 1 < shown->cap)
            shown->at[shown->len] = text.at[i];
}

/* So that it reads as the same again. */
static void show_encoded(struct shown *shown, const char *text)
{
    static const char plain[] = "/-_.:~,+=";
    for (; *text != '\0'; text++) {
        char c = ascii_lower(*text), code[4];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr(plain, c) != NULL;
        (void)snprintf(code, sizeof code, "%%%02X", (unsigned)(unsigned char)*text);
        show(shown, is_plain ? (struct slice){ text, 1 } : slice_of(code));
    }
}

static void show_places(struct shown *shown, const struct url *url)
{
    for (unsigned i = 0; i < url->host_count; i++) {
        char port[8];
        bool is_v6 = strchr(url->hosts[i], ':') != NULL;
        (void)snprintf(port, sizeof port, ":%u", (unsigned)url->ports[i]);
        show(shown, i > 0 ? SLICE(",") : SLICE(""));
        show(shown, is_v6 ? SLICE("[") : SLICE(""));
        show(shown, slice_of(url->hosts[i]));
        show(shown, is_v6 ? SLICE("]") : SLICE(""));
        show(shown, slice_of(port));
    }
}

static void show_parameters(struct shown *shown, const struct url *url)
{
    const struct {
        const char *name, *value;
    } parameters[] = {
        { "ca=", url->ca }, { "cert=", url->cert }, { "key=", url->key }, { "servername=", url->servername }
    };
    bool has_one = false;
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        if (parameters[i].value == NULL)
            continue;
        show(shown, has_one ? SLICE("&") : SLICE("?"));
        show(shown, slice_of(parameters[i].name));
        show_encoded(shown, parameters[i].value);
        has_one = true;
    }
}

size_t url_show(const struct url *url, char *out, size_t cap)
{
    static const char *const kinds[] = {
        [URL_ONE] = "", [URL_SENTINEL] = "+sentinel", [URL_CLUSTER] = "+cluster"
    };
    struct shown shown = { out, 0, cap };
    char db[16];
    (void)snprintf(db, sizeof db, "%u", url->db);
    show(&shown, url->is_tls ? SLICE("rediss") : SLICE("redis"));
    show(&shown, url->is_unix ? SLICE("+unix") : slice_of(kinds[url->kind]));
    show(&shown, SLICE("://"));
    if (url->is_unix)
        show_encoded(&shown, url->hosts[0]);
    else
        show_places(&shown, url);
    if (url->master != NULL) {
        show(&shown, SLICE("/"));
        show_encoded(&shown, url->master);
    }
    if (url->db > 0) {
        show(&shown, url->is_unix ? SLICE("?db=") : SLICE("/"));
        show(&shown, slice_of(db));
    }
    show_parameters(&shown, url);
    if (cap > 0)
        out[shown.len < cap ? shown.len : cap - 1] = '\0';
    return shown.len;
}

bool url_tls_context(const struct url *url, struct tls_context **out, char *why, size_t cap)
{
    const struct tls_options options = {
        .ca = url->ca, .cert = url->cert, .key = url->key, .name = url->servername
    };
    *out = NULL;
    return !url->is_tls || tls_context_new(out, TLS_CLIENT, &options, why, cap);
}
