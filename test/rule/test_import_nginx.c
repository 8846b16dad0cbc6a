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
         "server {\n"
         "  location /c { limit_req zone=perip burst=3 nodelay; limit_req zone=all burst=20 nodelay; }\n"
         "}\n",
         rows, COUNT_OF(rows));
    static const struct row one[] = {
        { "without burst one passes", "ip=192.0.2.1 path=/a", 0, 1 },
        { "from 10.1.1.1 never limited", "ip=10.1.1.1 path=/a", 0, -1 },
    };
    play(TRUSTED "server { location /a { limit_req zone=perip; } }\n", one, COUNT_OF(one));
}

static void F06_what_waits_is_refused_by_its_line(void **state)
{
    (void)state;
    char errors[2000];
    import_errors(WEIR_FOREIGN_NGINX,
                  TRUSTED
                  "server {\n"
                  "  location /a { limit_req zone=perip; }\n"
                  "  location /b { limit_req zone=perip burst=3; }\n"
                  "  location /c { limit_req zone=perip burst=3 nodelay; limit_req zone=all burst=20; }\n"
                  "  location /d { limit_req zone=perip burst=3 delay=1; }\n"
                  "}\n",
                  errors, sizeof errors);
    assert_string_equal(
        errors, "8:17 limit_req with burst=3 and without nodelay lets requests wait, which is not in this "
                "version of weir yet | "
                "9:17 zone perip is one budget with different bursts here and in line 7: a limit has one | "
                "9:55 limit_req with burst=20 and without nodelay lets requests wait, which is not in this "
                "version of weir yet | "
                "10:17 limit_req lets requests beyond delay=1 wait, which is not in this version of weir yet");
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
        { "limit_conn", "server { location / { limit_conn c 1; } }",
          "1:23 limit_conn bounds how much runs at once, which is not in this version of weir yet" },
        { "an unknown zone", "server { limit_req zone=q; }", "1:10 there is no zone q" },
        { "an unknown variable",
          "limit_req_zone $ssl_client_s_dn zone=z:1m rate=1r/s;\nserver { limit_req zone=z; }",
          "1:1 a zone counts by $ssl_client_s_dn, of which nothing is known here" },
        { "no rate", "limit_req_zone $host zone=z:1m rate=1r/h;", "1:1 rate=1r/h is no rate" },
        { "a rate of zero", "limit_req_zone $host zone=z:1m rate=0r/s;", "1:1 rate=0r/s is no rate" },
        { "a zone twice", IP IP, "2:1 zone z is there twice" },
        { "a regular expression that matters", IP "server { location /a { " USE " } location ~ x { } }",
          "2:60 a location by regular expression, beside others with other limits" },
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
    write_file(folder, "site-b.conf", "server {\n  location /x { limit_req zone=z burst=2; }\n}\n");
    import_file_at(path, out, sizeof out);
    snprintf(expected, sizeof expected,
             "%s/site-b.conf:2:17: error: limit_req with burst=2 and without nodelay lets requests wait, which "
             "is not in "
             "this version of weir yet\n"
             "      location /x { limit_req zone=z burst=2; }\n"
             "                    ^~~~~~~~~\n"
             "  help: write nodelay; waiting will come with a later version of weir\n",
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
        cmocka_unit_test(F06_what_waits_is_refused_by_its_line),
        cmocka_unit_test(locations_and_servers),
        cmocka_unit_test(keys),
        cmocka_unit_test(what_is_written),
        cmocka_unit_test(refuses_by_place),
        cmocka_unit_test(included_files_are_read_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
