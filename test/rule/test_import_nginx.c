// SPDX-License-Identifier: Apache-2.0
/* test_import_nginx.c - limit_req in its public shapes: which requests meet which limit, how much passes, what is refused. */
#include "support/imports.h"

#include <sys/stat.h>
#include <unistd.h>

#include "support/unit.h"

/* How many of five requests at one instant pass, and whether they meet a limit at all (-1: they do not). */
static int passes_of_five(const struct weir_contract *contract, const char *request, weir_ns now)
{
    int passed = 0;
    for (int i = 0; i < 5; i++) {
        struct weir_answer answer = ask(contract, request, 1, now);
        if (answer.decision.limit == WEIR_NO_LIMIT)
            return -1;
        passed += answer.decision.outcome == WEIR_ALLOW;
    }
    return passed;
}

struct row {
    const char *why, *request;
    weir_ns now;
    int passes;
};

static void play(const char *text, const struct row *rows, size_t count)
{
    struct imported imported = import_of(WEIR_FOREIGN_NGINX, text);
    if (imported.error != 0)
        fail_msg("refused: %s", imported.findings);
    for (size_t i = 0; i < count; i++) {
        int passes = passes_of_five(imported.loaded.contract, rows[i].request, rows[i].now);
        if (passes != rows[i].passes)
            fail_msg("%s: %s: %d of five, not %d", rows[i].why, rows[i].request, passes, rows[i].passes);
    }
    imported_free(&imported);
}

#define SECOND 1000000000ull

#define TRUSTED \
    "geo $trusted { default 0; 10.0.0.0/8 1; }\n" \
    "map $trusted $lim_key { 1 \"\"; 0 $binary_remote_addr; }\n" \
    "limit_req_zone $lim_key        zone=perip:10m  rate=2r/m;\n" \
    "limit_req_zone $server_name    zone=all:1m     rate=100r/s;\n" \
    "limit_req_status 429;\n"

static void F06_what_needs_no_waiting(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "burst 3: four at once, the fifth refused", "ip=192.0.2.1 path=/c", 0, 4 },
        { "one comes back in 30 s exactly (nginx: 30.3 s)", "ip=192.0.2.1 path=/c", 30 * SECOND, 1 },
        { "and not a nanosecond before", "ip=192.0.2.1 path=/c", 60 * SECOND - 1, 0 },
        { "another address", "ip=192.0.2.2 path=/c/deeper", 61 * SECOND, 4 },
        { "a prefix, not a folder", "ip=192.0.2.3 path=/cc", 62 * SECOND, 4 },
        { "a trusted network has only the server's budget", "ip=10.1.1.1 path=/c", 63 * SECOND, 5 },
        { "elsewhere there is no limit", "ip=192.0.2.1 path=/d", 0, -1 },
    };
    play(TRUSTED
         "server { server_name www.example.org;\n"
         "  location /c { limit_req zone=perip burst=3 nodelay; limit_req zone=all burst=20 nodelay; }\n"
         "}\n",
         rows, COUNT_OF(rows));
    static const struct row one[] = {
        { "without burst one passes", "ip=192.0.2.1 path=/a", 0, 1 },
        { "from 10.1.1.1 never limited", "ip=10.1.1.1 path=/a", 0, -1 },
    };
    play(TRUSTED "server { location /a { limit_req zone=perip; } }\n", one, COUNT_OF(one));
}

/* The whole of F06: one zone with four different uses. Whoever does not say that it can wait passes or is refused at once. */
#define F06 \
    TRUSTED "server {\n" \
            "  location /a { limit_req zone=perip; }\n" \
            "  location /b { limit_req zone=perip burst=3; }\n" \
            "  location /c { limit_req zone=perip burst=3 nodelay; limit_req zone=all burst=20; }\n" \
            "  location /d { limit_req zone=perip burst=3 delay=1; }\n" \
            "}\n"

static void F06_who_does_not_wait(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "no burst: one", "ip=192.0.2.1 path=/a", 0, 1 },
        { "all of the burst would wait", "ip=192.0.2.2 path=/b", 0, 1 },
        { "the server has no name, so that nginx does not limit it by that", "ip=192.0.2.3 path=/c", 0, 4 },
        { "delay=1: two", "ip=192.0.2.4 path=/d", SECOND, 2 },
        { "30 s later one, as everywhere", "ip=192.0.2.4 path=/d", 31 * SECOND, 1 },
        { "a trusted network is not counted", "ip=10.1.1.1 path=/a", SECOND, -1 },
        { "one budget: of its four two are left, of what passed at /d", "ip=192.0.2.4 path=/c", 31 * SECOND,
          2 },
        { "and then none", "ip=192.0.2.4 path=/d", 31 * SECOND, 0 },
        { "at /a, what passed there and the whole: nginx would refuse this one", "ip=192.0.2.4 path=/a",
          61 * SECOND, 1 },
    };
    play(F06, rows, COUNT_OF(rows));
}

/* All parts, in this order. */
static void contains(const char *config, const char *const *parts, size_t count)
{
    struct imported imported = import_of(WEIR_FOREIGN_NGINX, config);
    if (imported.error != 0)
        fail_msg("%s\nrefused: %s", config, imported.findings);
    const char *at = imported.text;
    for (size_t i = 0; i < count; i++) {
        const char *found = strstr(at, parts[i]);
        if (found == NULL)
            fail_msg("lacks, or has too early\n%s\nin\n%s", parts[i], strstr(imported.text, "limits:"));
        at = found + strlen(parts[i]);
    }
    imported_free(&imported);
}

static void F06_queues(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "# Without nodelay, limit_req lets the burst beyond `delay` wait",
        "weir: 1\n# Where the proxy sets or deletes Prefer, this lets requests wait at its door:\n"
        "# server: { auth-wait: true }\n",
        "  - name: perip\n"
        "    when: { ip: { not: \"10.0.0.0/8\" }, path: [\"/a**\", \"/b**\", \"/c**\", \"/d**\"] }\n"
        "    key: [ip]\n"
        "    algorithm: leaky-bucket\n"
        "    rate: 2/m\n"
        "    burst: 4\n",
        "  # Where it is used by: limit_req zone=perip\n",
        "  - name: perip-burst-0\n"
        "    when: { ip: { not: \"10.0.0.0/8\" }, path: \"/a**\" }\n"
        "    key: [ip]\n"
        "    algorithm: leaky-bucket\n"
        "    rate: 2/m\n"
        "    burst: 1\n",
        "  - name: perip-burst-3-delay-0\n"
        "    when: { ip: { not: \"10.0.0.0/8\" }, path: \"/b**\" }\n"
        "    key: [ip]\n"
        "    algorithm: leaky-queue\n"
        "    rate: 2/m\n"
        "    wait: { up-to: 91s, queue: 3 }\n",
        "  - name: perip-burst-3-delay-1\n"
        "    when: { ip: { not: \"10.0.0.0/8\" }, path: \"/d**\" }\n"
        "    key: [ip]\n"
        "    algorithm: leaky-bucket\n"
        "    rate: 2/m\n"
        "    burst: 2\n"
        "    wait: { up-to: 61s, queue: 2 }\n",
        "  # limit_req_zone $server_name zone=all:1m rate=100r/s: empty for a server without a name, and an "
        "empty "
        "key is not limited.\n",
    };
    contains(F06, parts, COUNT_OF(parts));
}

/* Each row is one server with one use of a zone of `rate`. */
static void shapes(void **state)
{
    (void)state;
    static const struct {
        const char *why, *rate, *use, *shape;
    } rows[] = {
        { "no burst", "7r/s", "", "leaky-bucket\n    rate: 7/s\n    burst: 1\n" },
        { "a queue of all the burst", "7r/s", "burst=3",
          "leaky-queue\n    rate: 7/s\n    wait: { up-to: 1s, queue: 3 }\n" },
        { "a whole second needs more than itself", "10r/s", "burst=10",
          "leaky-queue\n    rate: 10/s\n    wait: { up-to: 2s, queue: 10 }\n" },
        { "0.9 s are too near to one", "10r/s", "burst=9",
          "leaky-queue\n    rate: 10/s\n    wait: { up-to: 2s, queue: 9 }\n" },
        { "0.8 s are not", "10r/s", "burst=8",
          "leaky-queue\n    rate: 10/s\n    wait: { up-to: 1s, queue: 8 }\n" },
        { "less than a millisecond", "5000r/s", "burst=1",
          "leaky-queue\n    rate: 5000/s\n    wait: { up-to: 1s, queue: 1 }\n" },
        { "two of five at once", "7r/s", "burst=5 delay=2",
          "leaky-bucket\n    rate: 7/s\n    burst: 3\n    wait: { up-to: 1s, queue: 3 }\n" },
        { "a delay as large as the burst", "7r/s", "burst=5 delay=5",
          "leaky-bucket\n    rate: 7/s\n    burst: 6\n" },
        { "a larger one", "7r/s", "burst=5 delay=9", "leaky-bucket\n    rate: 7/s\n    burst: 6\n" },
        { "the last word about it counts", "7r/s", "burst=5 nodelay delay=4",
          "leaky-bucket\n    rate: 7/s\n    burst: 5\n    wait: { up-to: 1s, queue: 1 }\n" },
        { "and so does the last burst", "7r/s", "burst=5 delay=4 nodelay burst=2",
          "leaky-bucket\n    rate: 7/s\n    burst: 3\n" },
        { "as long as anybody can wait", "1r/m", "burst=1440",
          "leaky-queue\n    rate: 1/m\n    wait: { up-to: 86400s, queue: 1440 }\n" },
        { "a minute less", "1r/m", "burst=1439",
          "leaky-queue\n    rate: 1/m\n    wait: { up-to: 86341s, queue: 1439 }\n" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[500], shape[500];
        snprintf(text, sizeof text, "limit_req_zone $host zone=z:1m rate=%s;\nserver { limit_req zone=z %s; }",
                 rows[i].rate, rows[i].use);
        snprintf(shape, sizeof shape, "  - name: z\n    key: [host]\n    algorithm: %s", rows[i].shape);
        struct imported imported = import_of(WEIR_FOREIGN_NGINX, text);
        const char *end = imported.error != 0 ? NULL : strstr(imported.text, shape);
        if (end == NULL || end[strlen(shape)] != '\0')
            fail_msg("%s: %s\nis not the end of\n%s%s", rows[i].why, shape, imported.text, imported.findings);
        imported_free(&imported);
    }
}

static void connections(void **state)
{
    (void)state;
    static const char *const one[] = {
        "# limit_conn counts requests in processing",
        "  # limit_conn_zone $binary_remote_addr zone=c:1m\n"
        "  # nginx refuses with 503 where no limit_conn_status says otherwise; here it is 429.\n"
        "  - name: c\n"
        "    key: [ip]\n"
        "    algorithm: concurrency\n"
        "    at-most: 3\n"
        "    hold: 60s\n",
    };
    contains("limit_conn_zone $binary_remote_addr zone=c:1m;\n"
             "limit_req_status 429; limit_req_dry_run on; limit_conn_log_level info;\n"
             "server { limit_conn c 3; }",
             one, COUNT_OF(one));

    static const char *const several[] = {
        "  - name: r\n    key: [ip]\n    algorithm: leaky-bucket\n    rate: 1/s\n    burst: 1\n\n",
        "  - name: c\n"
        "    key: [ip]\n"
        "    algorithm: concurrency\n"
        "    at-most: 100\n"
        "    hold: 60s\n"
        "    enforce: shadow\n"
        "    reply: { status: 444 }\n",
        "  # Where it is used by: limit_conn c 2\n",
        "  - name: c-at-most-2\n"
        "    when: { path: \"/one**\" }\n",
        "    at-most: 2\n",
        "  - name: s-a\n    when: { host: { not: \"b\" } }\n    key: []\n    algorithm: concurrency\n    "
        "at-most: 7\n",
        "  - name: s-b\n    when: { host: \"b\", path: { not: \"/one**\" } }\n",
    };
    contains("limit_conn_dry_run on; limit_conn_status 444;\n"
             "limit_req_zone $remote_addr zone=r:1m rate=1r/s;\n"
             "limit_conn_zone $binary_remote_addr zone=c:1m;\n"
             "limit_conn_zone $server_name zone=s:1m;\n"
             "limit_req zone=r;\n"
             "limit_conn c 100;\n"
             "server { server_name a; limit_conn c 100; limit_conn s 7; location /one { limit_conn c 2; "
             "limit_conn s 7; } }\n"
             "server { server_name b; limit_conn c 100; limit_conn s 7; location /one { limit_conn c 2; } }\n",
             several, COUNT_OF(several));
}

static void many_connections(void **state)
{
    (void)state;
    static const char *const parts[] = { "    at-most: 65535\n", "    at-most: 60000\n",
                                         "memory: { permits: 191071 }\n" };
    contains("limit_conn_zone $host zone=a:1m; limit_conn_zone $host zone=b:1m;\n"
             "server { limit_conn a 65535; limit_conn b 60000; }",
             parts, COUNT_OF(parts));
}

/* A server's own limits put out those around it, each kind for itself. */
static void inheritance(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "  - name: r\n    when: { path: { not: [\"/own**\", \"/free**\"] } }\n",
        "  - name: other\n    when: { path: \"/own**\" }\n",
        "  - name: c\n    key: [ip]\n",
        "  # limit_conn_zone $remote_addr zone=c2:1m: no server uses it.\n",
        "  # limit_req_zone  zone=free:1m rate=1r/s: an empty key is not limited.\n",
    };
    contains("limit_req_zone $remote_addr zone=r:1m rate=1r/s;\n"
             "limit_req_zone $remote_addr zone=other:1m rate=2r/s;\n"
             "limit_conn_zone $remote_addr zone=c:1m;\n"
             "limit_conn_zone $remote_addr zone=c2:1m;\n"
             "limit_req zone=r; limit_conn c 5;\n"
             "server { location /own { limit_req zone=other; } location /free { limit_req zone=free; } }\n"
             "limit_req_zone \"\" zone=free:1m rate=1r/s;\n",
             parts, COUNT_OF(parts));
}

#define IP "limit_req_zone $binary_remote_addr zone=z:1m rate=1r/s;\n"
#define USE "limit_req zone=z burst=1 nodelay;"

/* Of five requests two pass where the zone holds. Each row has an address of its own. */
static void locations_and_servers(void **state)
{
    (void)state;
    static const struct row whole[] = { { "a whole server", "ip=192.0.2.1 path=/x host=any", 0, 2 },
                                        { "inherited below", "ip=192.0.2.2 path=/a/b", 0, 2 } };
    play(IP "server { " USE " location / { } location ~ \\.php$ { } location = /x { } }", whole,
         COUNT_OF(whole));

    static const struct row parts[] = {
        { "inside", "ip=192.0.2.1 path=/a/x", 0, 2 },
        { "the folder with its slash", "ip=192.0.2.2 path=/a/", 0, 2 },
        { "without it the location does not take it", "ip=192.0.2.3 path=/a", 0, -1 },
        { "a part that is taken out", "ip=192.0.2.4 path=/a/free/x", 0, -1 },
        { "an exact path that is taken out", "ip=192.0.2.5 path=/a/exact", 0, -1 },
        { "and what is only like it", "ip=192.0.2.6 path=/a/exact/", 0, 2 },
        { "answered before limits are looked at", "ip=192.0.2.7 path=/a/gone", 0, -1 },
        { "outside", "ip=192.0.2.8 path=/b", 0, -1 },
        { "a location within a location", "ip=192.0.2.9 path=/o/inner/x", 0, 2 },
    };
    play(IP "server {\n"
            "  location /a/ { " USE " }\n"
            "  location ^~ /a/free { }\n"
            "  location = /a/exact { }\n"
            "  location /a/gone { " USE " return 410; }\n"
            "  location /o { location /o/inner { " USE " } }\n"
            "}\n",
         parts, COUNT_OF(parts));

    static const struct row hosts[] = {
        { "its name", "ip=192.0.2.1 path=/ host=a.example.org", 0, 2 },
        { "a wildcard", "ip=192.0.2.2 path=/ host=x.b.org", 0, 2 },
        { "not the wildcard's own name", "ip=192.0.2.3 path=/ host=b.org", 0, -1 },
        { "a name that another server has", "ip=192.0.2.4 path=/ host=free.b.org", 0, -1 },
        { "an unknown one is the first server's", "ip=192.0.2.5 path=/ host=other.org", 0, -1 },
    };
    play(IP "server { listen 80; server_name first.org; }\n"
            "server { listen 80; server_name A.example.org *.b.org; " USE " }\n"
            "server { listen 80; server_name free.b.org; }\n",
         hosts, COUNT_OF(hosts));

    static const struct row fallback[] = {
        { "the default server takes unknown names", "ip=192.0.2.1 path=/ host=other.org", 0, 2 },
        { "but not those of others", "ip=192.0.2.2 path=/ host=first.org", 0, -1 },
    };
    play(IP "server { listen 80; server_name first.org; }\n"
            "server { listen 80 default_server; server_name _; " USE " }\n",
         fallback, COUNT_OF(fallback));
}

static void keys(void **state)
{
    (void)state;
    static const struct row both[] = {
        { "an api key by address", "ip=192.0.2.1 x-api-key=k path=/", 0, 1 },
        { "another key", "ip=192.0.2.1 x-api-key=l path=/", 0, 1 },
        { "the first again", "ip=192.0.2.1 x-api-key=k path=/", 0, 0 },
        { "without one: a budget of its own", "ip=192.0.2.1 path=/", 0, 1 },
        { "for each address", "ip=192.0.2.2 path=/", 0, 1 },
    };
    play("limit_req_zone \"$binary_remote_addr:${http_x_api_key}\" zone=z:1m rate=1r/s;\n"
         "server { limit_req zone=z; }",
         both, COUNT_OF(both));

    static const struct row alone[] = {
        { "a header", "x-api-key=k path=/", 0, 1 },
        { "an empty key is not limited", "path=/", 0, -1 },
    };
    play("limit_req_zone $http_x_api_key zone=z:1m rate=1r/s;\nserver { limit_req zone=z; }", alone,
         COUNT_OF(alone));

    static const struct row names[] = {
        { "each server has one budget", "path=/ host=a", 0, 1 },
        { "the other its own", "path=/ host=b", 0, 1 },
        { "for everybody", "path=/x host=a", 0, 0 },
    };
    play("limit_req_zone $server_name zone=z:1m rate=1r/s;\n"
         "server { server_name a; limit_req zone=z; }\nserver { server_name b; limit_req zone=z; }",
         names, COUNT_OF(names));

    static const struct row mapped[] = {
        { "everybody else", "user-agent=curl ip=192.0.2.1 path=/", 0, 1 },
        { "without the header", "ip=192.0.2.2 path=/", 0, 1 },
        { "the exception", "user-agent=probe ip=192.0.2.3 path=/", 0, -1 },
    };
    play("map $http_user_agent $k { default $binary_remote_addr; probe \"\"; }\n"
         "limit_req_zone $k zone=z:1m rate=1r/s;\nserver { limit_req zone=z; }",
         mapped, COUNT_OF(mapped));

    static const struct row nested[] = {
        { "inside the part", "ip=10.1.0.1 path=/", 0, 1 },
        { "inside its part", "ip=10.1.2.1 path=/", 0, -1 },
        { "outside", "ip=192.0.2.1 path=/", 0, -1 },
        { "IPv6 has no entry", "ip=2001:db8::1 path=/", 0, -1 },
    };
    play("geo $k { 10.1.0.0/16 limited; 10.0.0.0/8 \"\"; 10.1.2.0/24 \"\"; }\n"
         "limit_req_zone $k zone=z:1m rate=1r/s;\nserver { limit_req zone=z; }",
         nested, COUNT_OF(nested));
}

static void what_is_written(void **state)
{
    (void)state;
    struct imported imported =
        import_of(WEIR_FOREIGN_NGINX,
                  "http {\n"
                  "include mime.types; # of no interest\n"
                  "limit_req_zone $binary_remote_addr zone=z:1m rate=100r/m;\n"
                  "limit_req_zone $host zone=unused:1m rate=1r/s;\n"
                  "init_by_lua_block { local t = { \"a;b\" } }\n"
                  "server { limit_req zone=z burst=5 delay=5; limit_req_dry_run on; limit_req_status 444; }\n"
                  "}\n");
    assert_int_equal(imported.error, 0);
    static const char *const parts[] = {
        "# Imported from text (nginx).\n",
        "  # limit_req_zone $binary_remote_addr zone=z:1m rate=100r/m\n"
        "  # nginx keeps 1666 thousandths of a request per second for it; here the rate is exact.\n"
        "  - name: z\n"
        "    key: [ip]\n"
        "    algorithm: leaky-bucket\n"
        "    rate: 100/m\n"
        "    burst: 6\n"
        "    enforce: shadow\n"
        "    reply: { status: 444 }\n",
        "  # limit_req_zone $host zone=unused:1m rate=1r/s: no server uses it.\n",
        "  ip: { from: peer, group: { ipv4: 32, ipv6: 128 } }\n",
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (strstr(imported.text, parts[i]) == NULL)
            fail_msg("%s\nlacks\n%s", imported.text, parts[i]);
    imported_free(&imported);
}

static void refuses_by_place(void **state)
{
    (void)state;
    static const struct {
        const char *why, *text, *errors;
    } rows[] = {
        { "no end", "http {", "1:7 the file ends before a '}'" },
        { "no semicolon", "http { worker 1 }", "1:17 a '}' before the ';' of a directive" },
        { "too many ends", "http { }\n}", "2:1 a '}' without its '{'" },
        { "an open quotation", "a \"b;\n", "1:3 a quotation mark is not closed" },
        { "an unknown zone", "server { limit_req zone=q; }", "1:10 there is no zone q" },
        { "an unknown zone of limit_conn", "server { location / { limit_conn c 1; } }",
          "1:23 there is no zone c" },
        { "a zone of the other kind", "limit_conn_zone $host zone=z:1m; server { limit_req zone=z; }",
          "1:43 there is no zone z" },
        { "and the other way round", IP "server { limit_conn z 1; }", "2:10 there is no zone z" },
        { "no number of connections", "limit_conn_zone $host zone=z:1m;\nserver { limit_conn z; }",
          "2:10 '' is no number of connections from 1 to 65535" },
        { "none", "limit_conn_zone $host zone=z:1m;\nserver { limit_conn z 0; }",
          "2:10 '0' is no number of connections from 1 to 65535" },
        { "too many", "limit_conn_zone $host zone=z:1m;\nserver { limit_conn z 65536; }",
          "2:10 '65536' is no number of connections from 1 to 65535" },
        { "no zone", "limit_conn_zone $host;", "1:1 limit_conn_zone without a zone" },
        { "a number that is none", IP "server { limit_req zone=z delay=x; }",
          "2:10 'delay=x' is no number of requests from 0 to 4294967295" },
        { "a number below zero", IP "server { limit_req zone=z burst=-1; }",
          "2:10 'burst=-1' is no number of requests from 0 to 4294967295" },
        { "a wait beyond a day",
          "limit_req_zone $host zone=z:1m rate=1r/m;\nserver { limit_req zone=z burst=1441; }",
          "2:10 limit_req lets requests wait, the last for 86460 s: nobody can for more than a day" },
        { "a queue beyond a million",
          "limit_req_zone $host zone=z:1m rate=1000000r/s;\nserver { limit_req zone=z burst=1000001; }",
          "2:10 limit_req lets 1000001 requests wait: at most 1000000 can" },
        { "different dry runs", IP "server { " USE " location /a { limit_req_dry_run on; " USE " } }",
          "2:80 zone z is one budget with different dry runs here and in line 2: a limit has one" },
        { "a named location", IP "server { location @x { limit_req zone=z; } }",
          "2:24 limit_req in a named location, which requests reach from inside only" },
        { "an unknown variable",
          "limit_req_zone $ssl_client_s_dn zone=z:1m rate=1r/s;\nserver { limit_req zone=z; }",
          "1:1 a zone counts by $ssl_client_s_dn, of which nothing is known here" },
        { "no rate", "limit_req_zone $host zone=z:1m rate=1r/h;", "1:1 rate=1r/h is no rate" },
        { "a rate of zero", "limit_req_zone $host zone=z:1m rate=0r/s;", "1:1 rate=0r/s is no rate" },
        { "a zone twice", IP IP, "2:1 zone z is there twice" },
        { "a regular expression that matters", IP "server { location /a { " USE " } location ~ x { } }",
          "2:60 a location by regular expression, beside others with other limits" },
        { "once for all zones that meet it",
          "limit_req_zone $host zone=y:1m rate=1r/s;\n" IP "server { location /a { limit_req zone=y; " USE
          " } location ~ x { } }",
          "3:78 a location by regular expression, beside others with other limits" },
        { "servers whose locations differ",
          IP "server { server_name a; location /a { " USE " } }\nserver { server_name b; " USE " }",
          "3:1 zone z is shared by servers whose locations differ" },
        { "a server that only its port tells apart",
          IP "server { listen 80; server_name a; }\nserver { listen 443 ssl; server_name a; " USE " }",
          "3:1 servers on different addresses, whose limits differ for unknown hosts" },
        { "a part of a part of a part",
          IP "server { location /a { } location /a/b { " USE " } location /a/b/c { } location /a/b/c/d { " USE
             " } }",
          "2:1 the locations of zone z lie in parts that others take out of it, which `when` cannot say" },
        { "a map by pattern", "map $http_x $k { ~a b; }\nlimit_req_zone $k zone=z:1m rate=1r/s;",
          "1:18 ~a in a map compares by pattern, which is not read" },
        { "two forms of a key",
          "map $http_x $k { a $host; b $http_y; }\nlimit_req_zone $k zone=z:1m rate=1r/s;",
          "1:27 b gives the key a second form" },
        { "a geo by ranges", "geo $k { ranges; }\nlimit_req_zone $k zone=z:1m rate=1r/s;",
          "1:10 ranges in a geo block has no counterpart here" },
        { "an include that cannot be followed", "include conf.d/*.conf;",
          "1:1 include conf.d/*.conf cannot be followed "
          "from here" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char errors[2000];
        import_errors(WEIR_FOREIGN_NGINX, rows[i].text, errors, sizeof errors);
        if (strcmp(errors, rows[i].errors) != 0)
            fail_msg("%s:\n%s\ngot  %s\nwant %s", rows[i].why, rows[i].text, errors, rows[i].errors);
    }
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void import_file_at(const char *path, char *out, size_t size)
{
    struct weir_diagnostics *diagnostics;
    FILE *stream = fmemopen(out, size, "w");
    assert_non_null(stream);
    if (weir_contract_import(WEIR_FOREIGN_NGINX, path, stream, &diagnostics) != 0)
        weir_diagnostics_print(diagnostics, stream, false);
    weir_diagnostics_free(diagnostics);
    assert_int_equal(fclose(stream), 0);
}

static void included_files_are_read_in_their_order(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-import-XXXXXX", path[256], out[8000], expected[1000];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/nginx.conf", folder);
    write_file(folder, "nginx.conf",
               "http {\n  include /etc/nginx/mime.types;\n  include site-*.conf;\n  include no-*;\n}\n");
    write_file(folder, "site-a.conf", IP);
    write_file(folder, "site-b.conf", "server {\n  location /x { limit_req zone=q burst=2; }\n}\n");
    import_file_at(path, out, sizeof out);
    snprintf(expected, sizeof expected,
             "%s/site-b.conf:2:17: error: there is no zone q\n"
             "      location /x { limit_req zone=q burst=2; }\n"
             "                    ^~~~~~~~~\n"
             "  help: define it with limit_req_zone, in a file that is read\n",
             folder);
    assert_string_equal(out, expected);
    write_file(folder, "site-b.conf", "server {\n  location /x { limit_req zone=z burst=2 nodelay; }\n}\n");
    import_file_at(path, out, sizeof out);
    assert_non_null(strstr(out, "path: \"/x**\""));
    write_file(folder, "site-b.conf", "include site-b.conf;\n");
    import_file_at(path, out, sizeof out);
    assert_non_null(strstr(out, "help: check that no file includes itself"));
    write_file(folder, "site-b.conf", "include missing.conf;\n");
    import_file_at(path, out, sizeof out);
    assert_non_null(strstr(out, "site-b.conf:1:1: error: include missing.conf cannot be read"));
    const char *const names[] = { "nginx.conf", "site-a.conf", "site-b.conf" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(F06_what_needs_no_waiting),
        cmocka_unit_test(F06_who_does_not_wait),
        cmocka_unit_test(F06_queues),
        cmocka_unit_test(shapes),
        cmocka_unit_test(connections),
        cmocka_unit_test(many_connections),
        cmocka_unit_test(inheritance),
        cmocka_unit_test(locations_and_servers),
        cmocka_unit_test(keys),
        cmocka_unit_test(what_is_written),
        cmocka_unit_test(refuses_by_place),
        cmocka_unit_test(included_files_are_read_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
