// SPDX-License-Identifier: Apache-2.0
/*
 * What is believed of an HTTP request. Each row is one request and what must come out of it: attributes, or the one
 * that makes it unacceptable. Expected values follow from weir-contract(5) and the field cases, by hand.
 */

#include "support/unit.h"

#include <unistd.h>

#include "rule/identity.h"

enum { FIELDS_MAX = 60, WORK_MAX = 20000 };

/* Peers. */
#define PROXY "10.0.0.1"
#define STRANGER "203.0.113.7"
#define LOOPBACK "127.0.0.1"

struct request {
    const char *why;
    enum weir_auth_door door;
    const char *peer;   /* an address, or "unix:UID" */
    const char *fields; /* lines, each `Name: value` */
    const char *expect; /* "ip=192.0.2.1 path=/" : all of these, and `name=` is absent; or "refused NAME" */
    const char *target, *method;
    bool has_credentials;
};

static struct network proxies[2];

static const struct identity_source sources[] = {
    { "ip", IDENTITY_X_FORWARDED_FOR, { NULL, 0 }, false, false },
    { "tenant", IDENTITY_HEADER, { "x-tenant", 8 }, true, false },
    { "api-key", IDENTITY_HEADER, { "authorization", 13 }, false, true },
    { "plan", IDENTITY_HEADER, { "X-Plan", 6 }, false, false },
    { "session", IDENTITY_COOKIE, { "sid", 3 }, false, false },
    { "token", IDENTITY_QUERY, { "api key", 7 }, false, false },
    { "request-id", IDENTITY_HEADER, { "x-request-id", 12 }, false, false },
};

static struct identity_config config = {
    .proxies = proxies,
    .proxy_count = 2,
    .sources = sources,
    .source_count = COUNT_OF(sources),
    .reads_query = true,
    .uids = (const uint32_t[]){ 33 },
    .uid_count = 1,
    .has_uids = true,
    .own_uid = 1000,
};

static struct weir_peer peer_of(const char *text, bool has_credentials)
{
    struct weir_peer peer = { .has_credentials = has_credentials };
    struct address address;
    if (strncmp(text, "unix:", 5) == 0) {
        peer.is_unix = true;
        peer.uid = (uint32_t)atoi(text + 5);
        return peer;
    }
    assert_true(address_parse(slice_of(text), &address));
    memcpy(peer.address, address.bytes, sizeof peer.address);
    return peer;
}

static size_t fields_of(const char *lines, struct weir_field *fields)
{
    size_t count = 0;
    for (const char *line = lines; line != NULL && *line != '\0'; count++) {
        const char *colon = strchr(line, ':'), *end = strchr(line, '\n');
        end = end == NULL ? line + strlen(line) : end;
        assert_non_null(colon);
        assert_true(count < FIELDS_MAX);
        const char *value = colon + 1 + (colon[1] == ' ');
        fields[count] = (struct weir_field){ line, value, (size_t)(colon - line), (size_t)(end - value) };
        line = *end == '\0' ? end : end + 1;
    }
    return count;
}

static void read_request(const struct identity_config *with, const struct request *request,
                         struct weir_identity *out)
{
    static struct weir_field fields[FIELDS_MAX];
    const char *target = request->target == NULL ? "" : request->target;
    const char *method = request->method == NULL ? "GET" : request->method;
    struct weir_head head = {
        .door = request->door,
        .peer = peer_of(request->peer, request->has_credentials),
        .method = method,
        .target = target,
        .method_len = strlen(method),
        .target_len = strlen(target),
        .fields = fields,
        .field_count = fields_of(request->fields, fields),
    };
    memset(out, 0xee, sizeof *out); /* so that nothing passes by having been zero */
    identity_read(with, &head, out);
}

static struct slice value_of(const struct weir_identity *identity, struct slice name)
{
    struct slice found = { "", 0 };
    for (size_t i = 0; i < identity->count; i++) {
        const struct weir_attribute *attribute = identity->attributes + i;
        if (!slice_equals(slice_of(attribute->name), name))
            continue;
        assert_int_equal(found.len, 0); /* no name twice */
        assert_true(attribute->len > 0 && attribute->len <= WEIR_ATTRIBUTE_MAX);
        found = (struct slice){ attribute->value, attribute->len };
    }
    return found;
}

static void expect_attributes(const struct request *request, const struct weir_identity *identity)
{
    if (identity->refused != NULL)
        fail_msg("%s: '%s' was refused", request->why, identity->refused);
    for (const char *word = request->expect; *word != '\0';) {
        size_t len = strcspn(word, " ");
        const char *equals = memchr(word, '=', len);
        assert_non_null(equals);
        struct slice name = { word, (size_t)(equals - word) };
        struct slice wanted = { equals + 1, len - name.len - 1 };
        struct slice found = value_of(identity, name);
        if (!slice_equals(found, wanted))
            fail_msg("%s: %.*s is '%.*s', not '%.*s'", request->why, (int)name.len, name.at, (int)found.len,
                     found.at, (int)wanted.len, wanted.at);
        word += len + strspn(word + len, " ");
    }
}

static void run(const struct identity_config *with, const struct request *requests, size_t count)
{
    static struct weir_identity identity;
    for (size_t i = 0; i < count; i++) {
        const struct request *request = requests + i;
        read_request(with, request, &identity);
        if (strncmp(request->expect, "refused ", 8) != 0)
            expect_attributes(request, &identity);
        else if (identity.refused == NULL || strcmp(identity.refused, request->expect + 8) != 0)
            fail_msg("%s: refused is %s", request->why,
                     identity.refused == NULL ? "nothing" : identity.refused);
    }
}

/* ---- The client's address ---------------------------------------------------------------------------------------- */

static void B49_client_address_is_read_from_the_right(void **state)
{
    (void)state;
    static const struct request rows[] = {
        { "1: the entry next to the proxy", WEIR_AUTH, PROXY, "X-Forwarded-For: 198.51.100.1, 203.0.113.7",
          "ip=203.0.113.7" },
        { "2: two lines are one list", WEIR_AUTH, PROXY,
          "X-Forwarded-For: 198.51.100.2\nx-forwarded-for: 203.0.113.7", "ip=203.0.113.7" },
        { "3: past own proxies", WEIR_AUTH, PROXY, "X-Forwarded-For: 198.51.100.3, 203.0.113.7, 10.0.0.9",
          "ip=203.0.113.7" },
        { "4: ports and brackets", WEIR_AUTH, PROXY,
          "X-Forwarded-For: 198.51.100.4, 203.0.113.7:4711, [2001:db8:aaaa::9]:80", "ip=203.0.113.7" },
        { "5: no proxy in front, no header", WEIR_AUTH, STRANGER, "X-Forwarded-For: 198.51.100.5",
          "ip=203.0.113.7" },
        { "6: garbage stops at the last good one", WEIR_AUTH, PROXY,
          "X-Forwarded-For: 198.51.100.6, not-an-address", "ip=10.0.0.1" },
        { "7: no header", WEIR_AUTH, PROXY, "", "ip=10.0.0.1" },
        { "8: nobody but proxies: the farthest one", WEIR_AUTH, PROXY, "X-Forwarded-For: 10.0.0.2, 10.0.0.3",
          "ip=10.0.0.2" },
    };
    run(&config, rows, COUNT_OF(rows));
}

static void addresses_behind_proxies(void **state)
{
    (void)state;
    static const struct request rows[] = {
        { "garbage behind a proxy's entry: that proxy", WEIR_AUTH, PROXY,
          "X-Forwarded-For: 8.8.8.8, x, 10.0.0.9", "ip=10.0.0.9" },
        { "an empty entry is garbage", WEIR_AUTH, PROXY, "X-Forwarded-For: 198.51.100.1,", "ip=10.0.0.1" },
        { "an empty line is no entry", WEIR_AUTH, PROXY,
          "X-Forwarded-For: 203.0.113.7\nX-Forwarded-For:", "ip=203.0.113.7" },
        { "blanks and tabs around entries", WEIR_AUTH, PROXY, "X-Forwarded-For: 198.51.100.1 ,\t203.0.113.7 ",
          "ip=203.0.113.7" },
        { "a mapped peer is the IPv4 proxy", WEIR_AUTH, "::ffff:10.0.0.1", "X-Forwarded-For: 203.0.113.7",
          "ip=203.0.113.7" },
        { "a mapped entry is an IPv4 address", WEIR_AUTH, PROXY, "X-Forwarded-For: ::ffff:203.0.113.7",
          "ip=203.0.113.7" },
        { "a mapped entry is an IPv4 proxy", WEIR_AUTH, PROXY, "X-Forwarded-For: 203.0.113.7, ::ffff:a00:9",
          "ip=203.0.113.7" },
        { "an IPv6 proxy", WEIR_AUTH, "2001:db8:aaaa::1", "X-Forwarded-For: 2001:DB8::0:1", "ip=2001:db8::1" },
        { "the address is given whole; deciding groups it", WEIR_AUTH, "2001:db8:1::2:3", "",
          "ip=2001:db8:1::2:3" },
        { "a zone means something on that host alone", WEIR_AUTH, PROXY, "X-Forwarded-For: fe80::7%eth0",
          "ip=fe80::7" },
        { "also in brackets", WEIR_AUTH, PROXY, "X-Forwarded-For: [fe80::7%25eth0]:80", "ip=fe80::7" },
        { "unknown, as some proxies write, is garbage", WEIR_AUTH, PROXY, "X-Forwarded-For: 1.1.1.1, unknown",
          "ip=10.0.0.1" },
        { "a NAT64 address is one of its own", WEIR_AUTH, PROXY, "X-Forwarded-For: 64:ff9b::203.0.113.7",
          "ip=64:ff9b::cb00:7107" },
        { "an octal-looking entry is garbage", WEIR_AUTH, PROXY, "X-Forwarded-For: 203.0.113.07",
          "ip=10.0.0.1" },
        { "loopback is not trusted by itself", WEIR_AUTH, LOOPBACK, "X-Forwarded-For: 198.51.100.1",
          "ip=127.0.0.1" },
        { "nor with a token", WEIR_AUTH, LOOPBACK, "X-Forwarded-For: 198.51.100.1", "ip=127.0.0.1",
          .has_credentials = true },
        { "a Unix peer has no address", WEIR_AUTH, "unix:7", "X-Forwarded-For: 198.51.100.1", "ip=" },
        { "but a listed one stands for a proxy", WEIR_AUTH, "unix:33", "X-Forwarded-For: 1.1.1.1, 203.0.113.7",
          "ip=203.0.113.7" },
        { "also without an entry", WEIR_AUTH, "unix:33", "", "ip=" },
        { "X-Real-IP and Forwarded are not what was configured", WEIR_AUTH, PROXY,
          "X-Real-IP: 198.51.100.1\nForwarded: for=198.51.100.1", "ip=10.0.0.1" },
    };
    run(&config, rows, COUNT_OF(rows));
}

static void only_so_many_entries_are_read(void **state)
{
    (void)state;
    char fields[WORK_MAX] = "X-Forwarded-For: 203.0.113.7";
    for (unsigned i = 0; i < 31; i++)
        strcat(fields, ", 10.0.0.9");
    struct request row = { "32 entries", WEIR_AUTH, PROXY, fields, "ip=203.0.113.7" };
    run(&config, &row, 1);
    strcat(fields, ", 10.0.0.9");
    row = (struct request){ "the 33rd is not read", WEIR_AUTH, PROXY, fields, "ip=10.0.0.9" };
    run(&config, &row, 1);
}

static void forwarded(void **state)
{
    (void)state;
    static const struct request rows[] = {
        { "RFC 7239 4: IPv4", WEIR_AUTH, PROXY, "Forwarded: for=192.0.2.43", "ip=192.0.2.43" },
        { "RFC 7239 4: with other pairs", WEIR_AUTH, PROXY,
          "Forwarded: for=192.0.2.60;proto=http;by=203.0.113.43", "ip=192.0.2.60" },
        { "RFC 7239 4: IPv6 in quotes", WEIR_AUTH, PROXY, "Forwarded: For=\"[2001:db8:cafe::17]:4711\"",
          "ip=2001:db8:cafe::17" },
        { "RFC 7239 4: the right end counts", WEIR_AUTH, PROXY, "Forwarded: for=192.0.2.43, for=198.51.100.17",
          "ip=198.51.100.17" },
        { "RFC 7239 7.1: lines are one list", WEIR_AUTH, PROXY,
          "Forwarded: for=192.0.2.43\nForwarded: for=\"[2001:db8:cafe::17]\"", "ip=2001:db8:cafe::17" },
        { "past own proxies", WEIR_AUTH, PROXY,
          "Forwarded: for=1.1.1.1, for=192.0.2.43;host=\"a,b;c\", for=\"[2001:db8:aaaa::1]\"",
          "ip=192.0.2.43" },
        { "unknown stops", WEIR_AUTH, PROXY, "Forwarded: for=192.0.2.43, for=unknown", "ip=10.0.0.1" },
        { "an obfuscated name stops", WEIR_AUTH, PROXY, "Forwarded: for=192.0.2.43, for=\"_gazonk\"",
          "ip=10.0.0.1" },
        { "an obfuscated port does not", WEIR_AUTH, PROXY, "Forwarded: for=\"192.0.2.43:_port\"",
          "ip=192.0.2.43" },
        { "IPv6 needs brackets: its port could not be told apart", WEIR_AUTH, PROXY,
          "Forwarded: for=\"2001:db8::1\"", "ip=10.0.0.1" },
        { "no `for`", WEIR_AUTH, PROXY, "Forwarded: for=192.0.2.43, proto=http", "ip=10.0.0.1" },
        { "two of them", WEIR_AUTH, PROXY, "Forwarded: for=192.0.2.43;for=192.0.2.44", "ip=10.0.0.1" },
        { "an escape in quotes", WEIR_AUTH, PROXY, "Forwarded: for=\"192.0.2.\\43\"", "ip=192.0.2.43" },
        { "a client's open quote swallows nothing", WEIR_AUTH, PROXY,
          "Forwarded: for=1.1.1.1;x=\", for=192.0.2.43", "ip=192.0.2.43" },
        { "nor a quoted entry", WEIR_AUTH, PROXY, "Forwarded: for=1.1.1.1;x=\", for=\"[2001:db8::1]\"",
          "ip=2001:db8::1" },
        { "a client's backslash, too", WEIR_AUTH, PROXY, "Forwarded: x=\"\\, for=\"[2001:db8::1]\"",
          "ip=2001:db8::1" },
        { "an escaped quote in the proxy's entry ends nothing", WEIR_AUTH, PROXY,
          "Forwarded: for=1.1.1.1, for=192.0.2.43;host=\"a\\\",b\"", "ip=192.0.2.43" },
        { "an open quote in the entry itself", WEIR_AUTH, PROXY, "Forwarded: for=\"192.0.2.43", "ip=10.0.0.1" },
        { "a stranger's is not read", WEIR_AUTH, STRANGER, "Forwarded: for=192.0.2.43", "ip=203.0.113.7" },
        { "the other header is not read", WEIR_AUTH, PROXY, "X-Forwarded-For: 192.0.2.43", "ip=10.0.0.1" },
    };
    struct identity_config with = config;
    struct identity_source source = { "ip", IDENTITY_FORWARDED, { NULL, 0 }, false, false };
    with.sources = &source;
    with.source_count = 1;
    run(&with, rows, COUNT_OF(rows));
}

static void address_from_another_header(void **state)
{
    (void)state;
    static const struct request rows[] = {
        { "a proxy's word", WEIR_AUTH, PROXY, "X-Real-IP: 192.0.2.43", "ip=192.0.2.43" },
        { "a stranger's is not believed", WEIR_AUTH, STRANGER, "X-Real-IP: 192.0.2.43", "ip=203.0.113.7" },
        { "garbage", WEIR_AUTH, PROXY, "X-Real-IP: me", "ip=10.0.0.1" },
        { "two lines", WEIR_AUTH, PROXY, "X-Real-IP: 192.0.2.43\nX-Real-IP: 192.0.2.44", "refused ip" },
    };
    struct identity_config with = config;
    struct identity_source source = { "ip", IDENTITY_HEADER, { "x-real-ip", 9 }, false, false };
    with.sources = &source;
    with.source_count = 1;
    run(&with, rows, COUNT_OF(rows));

    static const struct request peer[] = { { "without a source: the peer", WEIR_AUTH, PROXY,
                                             "X-Forwarded-For: 192.0.2.43", "ip=10.0.0.1" } };
    with.source_count = 0;
    run(&with, peer, COUNT_OF(peer));
}

/* ---- Method, host, path ------------------------------------------------------------------------------------------ */

static void a_client_of_nginx_chooses_nothing(void **state)
{
    (void)state;
    /* As nginx sends it: its own lines (proxy_set_header overwrites), and whatever else the client made up. */
#define NGINX \
    "X-Original-Method: POST\nX-Original-URI: /v1/items?x=1\nX-Forwarded-For: 203.0.113.7\nHost: " \
    "api.example\n"
    static const struct request rows[] = {
        { "the proxy's lines", WEIR_AUTH_NGINX, PROXY, NGINX,
          "method=POST path=/v1/items query=x=1 host=api.example ip=203.0.113.7" },
        { "the other family of headers", WEIR_AUTH_NGINX, PROXY,
          NGINX "X-Forwarded-Method: GET\nX-Forwarded-Uri: /free\nX-Forwarded-Host: free.example",
          "method=POST path=/v1/items host=api.example" },
        { "also with accel", WEIR_AUTH_ACCEL, PROXY,
          NGINX "X-Forwarded-Method: GET\nX-Forwarded-Uri: /free\nX-Forwarded-Host: free.example",
          "method=POST path=/v1/items host=api.example" },
        { "and what the request to weir itself says", WEIR_AUTH_ACCEL, PROXY, NGINX,
          "method=POST path=/v1/items", .target = "/free", .method = "GET" },
        { "a second line is never chosen from", WEIR_AUTH_NGINX, PROXY, NGINX "X-Original-URI: /free",
          "refused path" },
        { "in any case", WEIR_AUTH_NGINX, PROXY, NGINX "x-original-uri: /v1/items?x=1", "refused path" },
        { "nor a second method", WEIR_AUTH_NGINX, PROXY, NGINX "X-Original-Method: GET", "refused method" },
        { "other addresses", WEIR_AUTH_NGINX, PROXY,
          NGINX "X-Real-IP: 1.1.1.1\nForwarded: for=1.1.1.1\nX-Client-IP: 1.1.1.1\nTrue-Client-IP: 1.1.1.1\n"
                "CF-Connecting-IP: 1.1.1.1\nX-Cluster-Client-IP: 1.1.1.1\nVia: 1.1 free",
          "ip=203.0.113.7" },
        { "other paths", WEIR_AUTH_NGINX, PROXY,
          NGINX
          "X-Rewrite-URL: /free\nX-Original-URL: /free\nX-Forwarded-Prefix: /free\nX-HTTP-Method-Override: GET",
          "method=POST path=/v1/items" },
        { "a stranger's lines are not read at all", WEIR_AUTH_NGINX, STRANGER, NGINX "X-Original-URI: /free",
          "method=GET path=/own query=", .target = "/own" },
        { "nor loopback's, unless it is listed", WEIR_AUTH_NGINX, LOOPBACK, NGINX, "method=GET path=/own",
          .target = "/own" },
        { "nor somebody's with a token", WEIR_AUTH_NGINX, STRANGER, NGINX, "method=GET path=/own",
          .target = "/own", .has_credentials = true },
        { "an absent line: the request itself", WEIR_AUTH_NGINX, PROXY, "Host: h",
          "method=HEAD path=/own query=q", .target = "/own?q", .method = "HEAD" },
        { "an empty one, too", WEIR_AUTH_NGINX, PROXY,
          "X-Original-URI:\nX-Original-Method: ", "method=GET path=/own", .target = "/own" },
    };
    run(&config, rows, COUNT_OF(rows));
}

static void the_default_door(void **state)
{
    (void)state;
    static const struct request rows[] = {
        { "Traefik and Caddy", WEIR_AUTH, PROXY,
          "Host: weir:8080\nX-Forwarded-Method: PUT\nX-Forwarded-Host: API.example:443\n"
          "X-Forwarded-Uri: /a/%2e%2e/v1//x?q=%41",
          "method=PUT host=api.example path=/v1/x query=q=%41" },
        { "nginx's family is not read here", WEIR_AUTH, PROXY, "X-Original-URI: /free\nX-Original-Method: PUT",
          "method=GET path=/v1", .target = "/v1" },
        { "Envoy: the path follows the door's", WEIR_AUTH, PROXY, "Host: api.example",
          "method=DELETE path=/v1/x query=y host=api.example", .target = "/v1/x?y", .method = "DELETE" },
        { "nothing behind the door is the root, not nothing", WEIR_AUTH, STRANGER, "", "path=/ query= host=" },
        { "a query alone", WEIR_AUTH, STRANGER, "", "path=/ query=x", .target = "?x" },
        { "absolute form", WEIR_AUTH, PROXY, "X-Forwarded-Uri: http://h/v1?x", "path=/v1 query=x" },
        { "a listed Unix peer is believed", WEIR_AUTH, "unix:33", "X-Forwarded-Uri: /v1", "path=/v1" },
        { "another is not", WEIR_AUTH, "unix:1000", "X-Forwarded-Uri: /v1", "path=/own", .target = "/own" },
        { "two lines", WEIR_AUTH, PROXY, "X-Forwarded-Uri: /v1\nX-Forwarded-Uri: /v1", "refused path" },
        { "a list of hosts whose last is empty", WEIR_AUTH, PROXY, "Host: weir\nX-Forwarded-Host: api.example,",
          "refused host" },
        { "a host that is a port alone", WEIR_AUTH, PROXY, "Host: weir\nX-Forwarded-Host: :80",
          "refused host" },
        { "a host that is a dot", WEIR_AUTH, PROXY, "Host: weir\nX-Forwarded-Host: .", "refused host" },
        { "two hosts", WEIR_AUTH, PROXY, "X-Forwarded-Host: a\nX-Forwarded-Host: b", "refused host" },
        { "two methods", WEIR_AUTH, PROXY, "X-Forwarded-Method: GET\nX-Forwarded-Method: PUT",
          "refused method" },
        { "a list of hosts: the nearest proxy's", WEIR_AUTH, PROXY,
          "X-Forwarded-Host: free.example, api.example", "host=api.example" },
        { "two Host lines", WEIR_AUTH, STRANGER, "Host: a\nHost: b", "refused host" },
        { "a host with a blank", WEIR_AUTH, STRANGER, "Host: a b", "refused host" },
        { "a bad escape", WEIR_AUTH, PROXY, "X-Forwarded-Uri: /v1/%zz", "refused path" },
        { "a bad escape in the request itself", WEIR_AUTH, STRANGER, "", "refused path", .target = "/v1/%" },
        { "a control byte in the path", WEIR_AUTH, PROXY, "X-Forwarded-Uri: /v1\x01", "refused path" },
        { "and in the query", WEIR_AUTH, PROXY, "X-Forwarded-Uri: /v1?\x7f", "refused query" },
    };
    run(&config, rows, COUNT_OF(rows));
}

static void own_uid_and_root_by_default(void **state)
{
    (void)state;
    static const struct request rows[] = {
        { "own", WEIR_AUTH, "unix:1000", "X-Tenant: acme", "tenant=acme" },
        { "root", WEIR_AUTH, "unix:0", "X-Tenant: acme", "tenant=acme" },
        { "another", WEIR_AUTH, "unix:33", "X-Tenant: acme", "tenant=" },
    };
    struct identity_config with = config;
    with.has_uids = false;
    run(&with, rows, COUNT_OF(rows));

    static const struct request none[] = { { "an empty list is nobody", WEIR_AUTH, "unix:0", "X-Tenant: acme",
                                             "tenant=" } };
    with.has_uids = true;
    with.uid_count = 0;
    run(&with, none, COUNT_OF(none));
}

/* ---- Attributes from headers, cookies and the query ----------------------------------------------------------------- */

static void B51_an_absent_identity_is_absent_and_a_doubtful_one_is_refused(void **state)
{
    (void)state;
    static const struct request rows[] = {
        { "k1", WEIR_AUTH, STRANGER, "X-Plan: k1", "plan=k1" },
        { "k2", WEIR_AUTH, STRANGER, "x-plan: k2", "plan=k2" },
        { "without the header there is no constant in its place", WEIR_AUTH, "192.0.2.1", "",
          "plan= ip=192.0.2.1" },
        { "an empty value is a missing one", WEIR_AUTH, "192.0.2.2", "X-Plan:", "plan= ip=192.0.2.2" },
        { "blanks are empty", WEIR_AUTH, "192.0.2.2", "X-Plan: \t ", "plan=" },
        { "two lines are neither the first, the last nor 'k1, k3'", WEIR_AUTH, "192.0.2.3",
          "X-Plan: k1\nX-Plan: k3", "refused plan" },
        { "not even the same", WEIR_AUTH, "192.0.2.3", "X-Plan: k1\nX-Plan: k1", "refused plan" },
        { "nor one of them empty", WEIR_AUTH, "192.0.2.3", "X-Plan:\nX-Plan: k1", "refused plan" },
        { "a control byte", WEIR_AUTH, STRANGER, "X-Plan: k\x01", "refused plan" },
        { "a tab within", WEIR_AUTH, STRANGER, "X-Plan: k\tk", "refused plan" },
        { "bytes above 127 are bytes", WEIR_AUTH, STRANGER, "X-Plan: caf\xc3\xa9", "plan=caf\xc3\xa9" },
        { "a request-id", WEIR_AUTH, STRANGER, "X-Request-Id: r-1", "request-id=r-1" },
    };
    run(&config, rows, COUNT_OF(rows));
}

static void authenticated(void **state)
{
    (void)state;
    static const struct request rows[] = {
        { "a token or certificate", WEIR_AUTH, STRANGER, "X-Tenant: acme", "tenant=acme",
          .has_credentials = true },
        { "a proxy", WEIR_AUTH, PROXY, "X-Tenant: acme", "tenant=acme" },
        { "a listed uid", WEIR_AUTH, "unix:33", "X-Tenant: acme", "tenant=acme" },
        { "anybody else has no tenant", WEIR_AUTH, STRANGER, "X-Tenant: acme", "tenant= ip=203.0.113.7" },
        { "loopback alone is anybody", WEIR_AUTH, LOOPBACK, "X-Tenant: acme", "tenant=" },
        { "on IPv6, too", WEIR_AUTH, "::1", "X-Tenant: acme", "tenant=" },
        { "at nginx's door, too", WEIR_AUTH_NGINX, LOOPBACK, "X-Tenant: acme", "tenant=" },
        { "another uid", WEIR_AUTH, "unix:1000", "X-Tenant: acme", "tenant=" },
        { "two lines that do not count are not refused", WEIR_AUTH, STRANGER, "X-Tenant: a\nX-Tenant: b",
          "tenant=" },
        { "two that do are", WEIR_AUTH, PROXY, "X-Tenant: a\nX-Tenant: b", "refused tenant" },
    };
    run(&config, rows, COUNT_OF(rows));
}

static void digests(void **state)
{
    (void)state;
    static const struct request rows[] = {
        /* printf 'Bearer abc' | sha256sum | cut -c 1-32 */
        { "the secret never appears", WEIR_AUTH, STRANGER, "Authorization: Bearer abc",
          "api-key=c355dce96c1612880d11940ffdd9014d" },
        { "absent", WEIR_AUTH, STRANGER, "", "api-key=" },
        { "empty", WEIR_AUTH, STRANGER, "Authorization:", "api-key=" },
        { "two lines", WEIR_AUTH, STRANGER, "Authorization: a\nAuthorization: b", "refused api-key" },
        { "a control byte", WEIR_AUTH, STRANGER, "Authorization: a\x02", "refused api-key" },
    };
    run(&config, rows, COUNT_OF(rows));
}

static void cookies(void **state)
{
    (void)state;
    static const struct request rows[] = {
        { "alone", WEIR_AUTH, STRANGER, "Cookie: sid=abc", "session=abc" },
        { "among others", WEIR_AUTH, STRANGER, "Cookie: a=1; sid=abc; b=2", "session=abc" },
        { "without blanks", WEIR_AUTH, STRANGER, "Cookie: a=1;sid=abc;b=2", "session=abc" },
        { "the name is exact", WEIR_AUTH, STRANGER, "Cookie: SID=x; xsid=y; sidx=z", "session=" },
        { "a value with equals signs", WEIR_AUTH, STRANGER, "Cookie: sid=a=b=", "session=a=b=" },
        { "the value is as sent", WEIR_AUTH, STRANGER, "Cookie: sid=\"a%20b\"", "session=\"a%20b\"" },
        { "empty", WEIR_AUTH, STRANGER, "Cookie: sid=; a=1", "session=" },
        { "a name without a value is no cookie", WEIR_AUTH, STRANGER, "Cookie: sid; a=1", "session=" },
        { "the name in another's value", WEIR_AUTH, STRANGER, "Cookie: a=sid=x", "session=" },
        { "twice", WEIR_AUTH, STRANGER, "Cookie: sid=a; sid=b", "refused session" },
        { "twice over lines", WEIR_AUTH, STRANGER, "Cookie: sid=a\nCookie: sid=a", "refused session" },
        { "twice, once empty", WEIR_AUTH, STRANGER, "Cookie: sid=; sid=b", "refused session" },
        { "lines are one list", WEIR_AUTH, STRANGER, "Cookie: a=1\nCookie: sid=b", "session=b" },
        { "only semicolons", WEIR_AUTH, STRANGER, "Cookie: ;;;", "session=" },
    };
    run(&config, rows, COUNT_OF(rows));
}

static void query_parameters(void **state)
{
    (void)state;
    static const struct request rows[] = {
        { "a blank as +", WEIR_AUTH, STRANGER, "", "token=k", .target = "/?a=1&api+key=k&b=2" },
        { "a blank as %20", WEIR_AUTH, STRANGER, "", "token=k", .target = "/?api%20key=k" },
        { "any spelling of the name", WEIR_AUTH, STRANGER, "", "token=k", .target = "/?%61pi%20k%65y=k" },
        { "the name is exact", WEIR_AUTH, STRANGER, "", "token=", .target = "/?API+KEY=k&api+keys=k&api+ke=k" },
        { "a value is decoded once", WEIR_AUTH, STRANGER, "", "token=a%20b", .target = "/?api+key=a%2520b" },
        { "a plus is a blank", WEIR_AUTH, STRANGER, "", "token=a+b", .target = "/?api+key=a%2Bb" },
        { "an equals sign in the value", WEIR_AUTH, STRANGER, "", "token=a=b", .target = "/?api+key=a=b" },
        { "empty", WEIR_AUTH, STRANGER, "", "token=", .target = "/?api+key=&x" },
        { "no equals sign", WEIR_AUTH, STRANGER, "", "token=", .target = "/?api+key" },
        { "twice", WEIR_AUTH, STRANGER, "", "refused token", .target = "/?api+key=a&api+key=a" },
        { "twice, spelt in two ways", WEIR_AUTH, STRANGER, "", "refused token",
          .target = "/?api+key=a&api%20key=b" },
        { "twice, once without a value", WEIR_AUTH, STRANGER, "", "refused token",
          .target = "/?api+key&api+key=b" },
        { "a bad escape in the value", WEIR_AUTH, STRANGER, "", "refused token", .target = "/?api+key=%zz" },
        { "a bad escape elsewhere", WEIR_AUTH, STRANGER, "", "token=k", .target = "/?%zz=%&api+key=k" },
        { "a decoded control byte", WEIR_AUTH, STRANGER, "", "refused token", .target = "/?api+key=a%00" },
        { "a fragment is no query", WEIR_AUTH, STRANGER, "", "token=", .target = "/#?api+key=a" },
        { "of the client's request, not of ours", WEIR_AUTH_NGINX, PROXY, "X-Original-URI: /v1?api+key=k",
          "token=k path=/v1", .target = "/own?api+key=x" },
    };
    run(&config, rows, COUNT_OF(rows));
}

/* ---- Certificates, and peers that speak for somebody unnamed ----------------------------------------------------------- */

static const struct identity_source certified[] = {
    { "ip", IDENTITY_X_FORWARDED_FOR, { NULL, 0 }, false, false },
    { "service", IDENTITY_CERTIFICATE, { NULL, 0 }, true, false },
    { "hashed", IDENTITY_CERTIFICATE, { NULL, 0 }, false, true },
};

static struct weir_identity *read_certificate(const char *subject, size_t len, bool is_stranger)
{
    static struct weir_identity identity;
    const struct weir_field fields[] = { { "X-Forwarded-For", "203.0.113.7", 15, 11 },
                                         { "Subject", "CN=mallory", 7, 10 } };
    struct identity_config with = config;
    struct weir_head head = { .door = WEIR_AUTH,
                              .peer = peer_of(PROXY, subject != NULL),
                              .method = "GET",
                              .method_len = 3,
                              .fields = fields,
                              .field_count = COUNT_OF(fields) };
    head.peer.subject = subject;
    head.peer.subject_len = len;
    head.peer.is_stranger = is_stranger;
    with.sources = certified;
    with.source_count = COUNT_OF(certified);
    memset(&identity, 0xee, sizeof identity);
    identity_read(&with, &head, &identity);
    return &identity;
}

static void the_subject_of_a_certificate(void **state)
{
    (void)state;
    char longest[WEIR_ATTRIBUTE_MAX + 1];
    memset(longest, 's', sizeof longest);
    const struct weir_identity *identity = read_certificate("CN=billing,O=Acme", 17, false);
    assert_null(identity->refused);
    assert_true(slice_equals(value_of(identity, SLICE("service")), SLICE("CN=billing,O=Acme")));
    /* printf CN=billing,O=Acme | sha256sum | cut -c 1-32 */
    assert_true(slice_equals(value_of(identity, SLICE("hashed")), SLICE("896c98cee55643ec0bcf941db39ce959")));

    identity = read_certificate(NULL, 0, false);
    assert_null(identity->refused); /* without a certificate the attribute is absent, not empty */
    assert_int_equal(value_of(identity, SLICE("service")).len, 0);
    identity = read_certificate("", 0, false);
    assert_int_equal(value_of(identity, SLICE("service")).len, 0);

    identity = read_certificate(longest, WEIR_ATTRIBUTE_MAX, false);
    assert_null(identity->refused);
    identity = read_certificate(longest, WEIR_ATTRIBUTE_MAX + 1, false);
    assert_string_equal(identity->refused, "service");
}

/* A balancer said that it speaks for somebody and not for whom: what comes through it is that somebody's. */
static void a_stranger_is_no_proxy_whatever_its_address(void **state)
{
    (void)state;
    const struct weir_identity *identity = read_certificate(NULL, 0, true);
    assert_true(slice_equals(value_of(identity, SLICE("ip")), slice_of(PROXY)));
    identity = read_certificate(NULL, 0, false);
    assert_true(slice_equals(value_of(identity, SLICE("ip")), SLICE("203.0.113.7")));

    const struct weir_peer by_uid = { .is_unix = true, .uid = 33, .is_stranger = true };
    assert_false(identity_is_authenticated(&config, &by_uid));
    const struct weir_peer certified_one = { .is_stranger = true, .has_credentials = true };
    assert_true(identity_is_authenticated(&config, &certified_one)); /* it proved who it is itself */
}

/* ---- Bounds ---------------------------------------------------------------------------------------------------------- */

static char *filled(char *out, const char *before, size_t letters, const char *after)
{
    size_t len = strlen(before);
    memcpy(out, before, len);
    memset(out + len, 'k', letters);
    strcpy(out + len + letters, after);
    return out;
}

static void long_values_are_refused_not_cut(void **state)
{
    (void)state;
    char at_most[WORK_MAX], too_long[WORK_MAX];
    static struct weir_identity identity;
    static const struct {
        const char *attribute, *before, *after;
        size_t taken; /* bytes of the value that are not letters */
    } fields[] = { { "plan", "X-Plan: ", "", 0 },
                   { "session", "Cookie: sid=", "; a=b", 0 },
                   { "method", "X-Original-Method: ", "", 0 },
                   { "path", "X-Original-URI: /", "", 1 },
                   { "query", "X-Original-URI: /?", "", 0 },
                   { "token", "X-Original-URI: /?api+key=", "", 0 },
                   { "host", "Host: ", "", 0 } };
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        bool is_token = strcmp(fields[i].attribute, "token") == 0;
        struct identity_config with = config;
        with.reads_query = !is_token;
        struct request row = { fields[i].attribute, WEIR_AUTH_NGINX, PROXY,
                               filled(at_most, fields[i].before, 1024 - fields[i].taken, fields[i].after), "" };
        read_request(&with, &row, &identity);
        expect_row(identity.refused == NULL, row.why);
        expect_row(value_of(&identity, slice_of(row.why)).len == 1024, row.why);
        row.fields = filled(too_long, fields[i].before, 1025 - fields[i].taken, fields[i].after);
        read_request(&with, &row, &identity);
        expect_row(identity.refused != NULL && strcmp(identity.refused, row.why) == 0, row.why);
    }
}

static void a_long_query_that_no_limit_reads_refuses_nobody(void **state)
{
    (void)state;
    char fields[WORK_MAX];
    struct request row = { "2000 bytes of query", WEIR_AUTH_NGINX, PROXY,
                           filled(fields, "X-Original-URI: /v1?", 2000, "&api+key=k"),
                           "path=/v1 query= token=k" };
    struct identity_config with = config;
    with.reads_query = false;
    run(&with, &row, 1);
}

static void a_long_secret_has_a_digest(void **state)
{
    (void)state;
    char fields[WORK_MAX];
    static struct weir_identity identity;
    struct request row = { "a JSON web token of 3000 bytes", WEIR_AUTH, STRANGER,
                           filled(fields, "Authorization: Bearer ", 3000, ""), "" };
    read_request(&config, &row, &identity);
    assert_null(identity.refused);
    assert_int_equal(value_of(&identity, SLICE("api-key")).len, 32);
}

/* Values that need decoding share one storage; when it is used up the request is refused, never cut short. */
static void the_storage_is_bounded(void **state)
{
    (void)state;
    static char target[WORK_MAX], names[8][2];
    static struct identity_source many[8];
    static struct weir_identity identity;
    struct identity_config with = config;
    with.sources = many;
    with.source_count = COUNT_OF(many);
    with.reads_query = false;
    strcpy(target, "/%2d/?");
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        char part[WORK_MAX];
        names[i][0] = (char)('a' + i);
        many[i] = (struct identity_source){ names[i], IDENTITY_QUERY, { names[i], 1 }, false, false };
        snprintf(part, sizeof part, "%s=%%41", names[i]);
        strcat(target, filled(part + 300, part, 700, "&"));
    }
    struct request row = { "8 values of 701 bytes", WEIR_AUTH, STRANGER, "", "", .target = target };
    read_request(&with, &row, &identity);
    assert_non_null(identity.refused);
    for (size_t i = 0; i < identity.count; i++)
        if (identity.attributes[i].name[1] == '\0')
            assert_int_equal(identity.attributes[i].len, 701);
}

static void a_refused_request_can_never_pass(void **state)
{
    (void)state;
    struct weir_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
    memset(answer, 0xee, sizeof *answer);
    weir_answer_refused(12345, answer);
    assert_int_equal(answer->decision.outcome, WEIR_NEVER);
    assert_int_equal(answer->decision.reason, WEIR_REASON_ATTRIBUTE);
    assert_int_equal(answer->decision.policy, WEIR_POLICY_NONE);
    assert_int_equal(answer->decision.limit, WEIR_NO_LIMIT);
    assert_int_equal(answer->decision.decided_at, 12345);
    assert_true(answer->decision.retry_at == WEIR_NO_TIME);
    assert_int_equal(answer->decision.remaining, 0);
    assert_int_equal(answer->count, 0);
    free(answer);
}

static int set_up(void **state)
{
    (void)state;
    return network_parse(SLICE("10.0.0.0/8"), &proxies[0]) != NETWORK_OK
           || network_parse(SLICE("2001:db8:aaaa::/48"), &proxies[1]) != NETWORK_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B49_client_address_is_read_from_the_right),
        cmocka_unit_test(addresses_behind_proxies),
        cmocka_unit_test(only_so_many_entries_are_read),
        cmocka_unit_test(forwarded),
        cmocka_unit_test(address_from_another_header),
        cmocka_unit_test(a_client_of_nginx_chooses_nothing),
        cmocka_unit_test(the_default_door),
        cmocka_unit_test(own_uid_and_root_by_default),
        cmocka_unit_test(B51_an_absent_identity_is_absent_and_a_doubtful_one_is_refused),
        cmocka_unit_test(authenticated),
        cmocka_unit_test(digests),
        cmocka_unit_test(cookies),
        cmocka_unit_test(query_parameters),
        cmocka_unit_test(the_subject_of_a_certificate),
        cmocka_unit_test(a_stranger_is_no_proxy_whatever_its_address),
        cmocka_unit_test(long_values_are_refused_not_cut),
        cmocka_unit_test(a_long_query_that_no_limit_reads_refuses_nobody),
        cmocka_unit_test(a_long_secret_has_a_digest),
        cmocka_unit_test(the_storage_is_bounded),
        cmocka_unit_test(a_refused_request_can_never_pass),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
