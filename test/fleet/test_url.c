// SPDX-License-Identifier: Apache-2.0
/* test_url.c - the store's URL: what each part means, what is refused with which cure, and that no secret is shown. */
#include "fleet/url.h"

#include "support/unit.h"

/* What was read, on one line: "one tls unix user=... password=... HOST:PORT,... master=... db=N ca=..." */
static void tell(const struct url *url, char out[2048])
{
    static const char *const kinds[] = { "one", "sentinel", "cluster" };
    const struct {
        const char *name, *value;
    } texts[] = { { "user", url->user },
                  { "password", url->password },
                  { "master", url->master },
                  { "ca", url->ca },
                  { "cert", url->cert },
                  { "key", url->key },
                  { "servername", url->servername } };
    int len =
        snprintf(out, 2048, "%s%s%s", kinds[url->kind], url->is_tls ? " tls" : "", url->is_unix ? " unix" : "");
    for (unsigned i = 0; i < url->host_count; i++)
        len += snprintf(out + len, 2048 - (size_t)len, " %s|%u", url->hosts[i], (unsigned)url->ports[i]);
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (texts[i].value != NULL)
            len += snprintf(out + len, 2048 - (size_t)len, " %s=%s", texts[i].name, texts[i].value);
    if (url->db > 0)
        (void)snprintf(out + len, 2048 - (size_t)len, " db=%u", url->db);
}

static const struct reading {
    const char *why, *text, *told, *shown;
} readings[] = {
    { "a host", "redis://store", "one store|6379", "redis://store:6379" },
    { "a slash behind it says nothing", "redis://store/", "one store|6379", "redis://store:6379" },
    { "host and port", "redis://127.0.0.1:7000", "one 127.0.0.1|7000", "redis://127.0.0.1:7000" },
    { "valkey is the same", "valkey://127.0.0.1:7000", "one 127.0.0.1|7000", "redis://127.0.0.1:7000" },
    { "a database", "redis://store/15", "one store|6379 db=15", "redis://store:6379/15" },
    { "the first one is none", "redis://store/0", "one store|6379", "redis://store:6379" },
    { "the highest port", "redis://store:65535", "one store|65535", "redis://store:65535" },
    { "names of several labels", "redis://a-1.b_2.example.:1", "one a-1.b_2.example.|1",
      "redis://a-1.b_2.example.:1" },
    { "a name that begins with a digit", "redis://1store", "one 1store|6379", "redis://1store:6379" },
    { "an IPv6 address", "redis://[::1]", "one ::1|6379", "redis://[::1]:6379" },
    { "and its port", "redis://[2001:db8::7]:7000/1", "one 2001:db8::7|7000 db=1",
      "redis://[2001:db8::7]:7000/1" },
    { "a user", "redis://ada:s3cret@store", "one store|6379 user=ada password=s3cret", "redis://store:6379" },
    { "a password alone", "redis://:s3cret@store", "one store|6379 password=s3cret", "redis://store:6379" },
    { "a colon in the password", "redis://ada:a:b@store", "one store|6379 user=ada password=a:b",
      "redis://store:6379" },
    { "encoded bytes", "redis://a%40b:%3A%2f%40%25%20%c3%a4@store",
      "one store|6379 user=a@b password=:/@% \xc3\xa4", "redis://store:6379" },
    { "a password of other letters", "redis://:p\xc3\xa4ss@store", "one store|6379 password=p\xc3\xa4ss",
      "redis://store:6379" },
    /* TLS */
    { "TLS", "rediss://store:7000", "one tls store|7000", "rediss://store:7000" },
    { "valkeys", "valkeys://store", "one tls store|6379", "rediss://store:6379" },
    { "an authority", "rediss://store?ca=/etc/weir/ca.pem", "one tls store|6379 ca=/etc/weir/ca.pem",
      "rediss://store:6379?ca=/etc/weir/ca.pem" },
    { "all of TLS, in any order", "rediss://:x@store/2?key=k&servername=db.test&cert=c&ca=a%26b",
      "one tls store|6379 password=x ca=a&b cert=c key=k servername=db.test db=2",
      "rediss://store:6379/2?ca=a%26b&cert=c&key=k&servername=db.test" },
    { "a server's name may be an address", "rediss://store?servername=::1", "one tls store|6379 servername=::1",
      "rediss://store:6379?servername=::1" },
    { "a blank in a path", "rediss://store?ca=/a%20b", "one tls store|6379 ca=/a b",
      "rediss://store:6379?ca=/a%20b" },
    /* Unix sockets */
    { "a Unix socket", "redis+unix:///run/redis.sock", "one unix /run/redis.sock|0",
      "redis+unix:///run/redis.sock" },
    { "valkey's", "valkey+unix:///run/valkey.sock", "one unix /run/valkey.sock|0",
      "redis+unix:///run/valkey.sock" },
    { "its database", "redis+unix:///s?db=3", "one unix /s|0 db=3", "redis+unix:///s?db=3" },
    { "its user", "redis+unix://ada:s3cret@/run/s", "one unix /run/s|0 user=ada password=s3cret",
      "redis+unix:///run/s" },
    { "a ? in its path", "redis+unix:///a%3Fb%20c", "one unix /a?b c|0", "redis+unix:///a%3Fb%20c" },
    /* Sentinels */
    { "a Sentinel", "redis+sentinel://s1/main", "sentinel s1|26379 master=main",
      "redis+sentinel://s1:26379/main" },
    { "several, and a database", "redis+sentinel://s1,s2:5000,[::1]:6/main/4",
      "sentinel s1|26379 s2|5000 ::1|6 master=main db=4", "redis+sentinel://s1:26379,s2:5000,[::1]:6/main/4" },
    { "with TLS and a user", "rediss+sentinel://ada:x@s1,s2/my%20main",
      "sentinel tls s1|26379 s2|26379 user=ada password=x master=my main",
      "rediss+sentinel://s1:26379,s2:26379/my%20main" },
    /* Clusters */
    { "a Cluster", "redis+cluster://n1", "cluster n1|6379", "redis+cluster://n1:6379" },
    { "several nodes", "redis+cluster://n1:1,n2:2/", "cluster n1|1 n2|2", "redis+cluster://n1:1,n2:2" },
    { "its only database", "redis+cluster://n1/0", "cluster n1|6379", "redis+cluster://n1:6379" },
    { "valkeys+cluster", "valkeys+cluster://:x@n1", "cluster tls n1|6379 password=x",
      "rediss+cluster://n1:6379" },
};

static void test_readings(void **state)
{
    (void)state;
    static struct url url, again;
    for (size_t i = 0; i < COUNT_OF(readings); i++) {
        const struct reading *row = &readings[i];
        char told[2048], shown[256];
        const char *why = NULL;
        if (!url_parse(row->text, &url, &why))
            fail_msg("%s: %s", row->why, why);
        tell(&url, told);
        if (strcmp(told, row->told) != 0)
            fail_msg("%s: it reads %s", row->why, told);
        size_t len = url_show(&url, shown, sizeof shown);
        if (strcmp(shown, row->shown) != 0)
            fail_msg("%s: it shows %s", row->why, shown);
        expect_row(len == strlen(shown), row->why);
        expect_row(url_parse(shown, &again, &why), row->why);
    }
}

static const struct refusal {
    const char *why, *text, *part;
} refusals[] = {
    { "nothing", "", "it must begin with redis://" },
    { "a host alone", "localhost:6379", "it must begin with redis://" },
    { "another scheme", "http://store", "it must begin with redis://" },
    { "a longer one", "redisss://store", "it must begin with redis://" },
    { "a shorter one", "redi://store", "it must begin with redis://" },
    { "in capitals", "REDIS://store", "it must begin with redis://" },
    { "another kind", "redis+tls://store", "it must begin with redis://" },
    { "an empty kind", "redis+://store", "it must begin with redis://" },
    { "one slash", "redis:/store", "it must begin with redis://" },
    { "TLS over a Unix socket", "rediss+unix:///s", "a Unix socket has no TLS" },
    { "a blank", "redis://store ", "it holds a blank" },
    { "a line end", "redis://store\n", "it holds a blank" },
    { "a fragment", "redis://store#1", "write it as %23" },
    /* who */
    { "a user without password", "redis://ada@store", "write user:password@" },
    { "an empty password", "redis://ada:@store", "the password before the @ is empty" },
    { "nothing before the @", "redis://@store", "write user:password@" },
    { "an @ in the password", "redis://:a@b@store", "write an @ in the user or the password as %40" },
    { "a slash in the password", "redis://:a/b@store", "write / as %2F" },
    { "a ? in the password", "redis://:a?b@store", "? as %3F" },
    { "a # in the password", "redis://:a#b@store", "write it as %23" },
    { "a % in the password", "redis://:100%@store", "write % itself as %25" },
    { "with one digit", "redis://:%4@store", "write % itself as %25" },
    { "and no digit", "redis://:%zz@store", "write % itself as %25" },
    { "a zero byte", "redis://:a%00b@store", "zero byte" },
    /* where */
    { "no host", "redis://", "a host is missing" },
    { "no host, a port", "redis://:6379", "a host is missing" },
    { "no host, a user", "redis://:x@", "a host is missing" },
    { "no host, a database", "redis:///1", "a host is missing" },
    { "port 0", "redis://store:0", "a port must be a number from 1 to 65535" },
    { "a port too high", "redis://store:65536", "a port must be a number from 1 to 65535" },
    { "a port of letters", "redis://store:redis", "a port must be a number from 1 to 65535" },
    { "a leading zero", "redis://store:06379", "a port must be a number from 1 to 65535" },
    { "an empty port", "redis://store:", "leave the colon out" },
    { "IPv6 without brackets", "redis://::1:6379", "write an IPv6 address in brackets" },
    { "a bracket that does not close", "redis://[::1", "a [ has no ]" },
    { "something behind the bracket", "redis://[::1]6379", "only a colon and a port" },
    { "an empty port behind it", "redis://[::1]:", "leave the colon out" },
    { "no address in brackets", "redis://[store]", "no IPv6 address" },
    { "an IPv4 address in brackets", "redis://[127.0.0.1]", "no IPv6 address" },
    { "a scope", "redis://[fe80::1%25eth0]", "without a scope" },
    { "an address that is none", "redis://127.0.0.300", "neither a name" },
    { "a short one", "redis://127.1", "neither a name" },
    { "an empty label", "redis://a..b", "neither a name" },
    { "a dot", "redis://.", "neither a name" },
    { "a letter that no name has", "redis://st\xc3\xb6re", "neither a name" },
    { "two hosts", "redis://a,b", "write redis+cluster://" },
    { "a comma at the end", "redis+cluster://a,", "leave the comma out" },
    { "two commas", "redis+cluster://a,,b", "a host is missing" },
    { "a comma at the front", "redis+cluster://,b", "a host is missing" },
    { "too many", "redis+cluster://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a",
      "more than 32 hosts" },
    /* which */
    { "a database of letters", "redis://store/main", "the database must be a number" },
    { "two databases", "redis://store/1/2", "the database must be a number" },
    { "too high a database", "redis://store/65536", "the database must be a number" },
    { "a database of a Cluster", "redis+cluster://store/1", "a Cluster has no databases" },
    { "no name for Sentinels", "redis+sentinel://store",
      "the name that the Sentinels watch it under is missing" },
    { "an empty one", "redis+sentinel://store//1", "the name that the Sentinels watch it under is missing" },
    { "a slash behind it", "redis+sentinel://store/main/", "leave the / out" },
    { "a relative socket", "redis+unix://run/redis.sock", "must begin with /" },
    { "no socket", "redis+unix://", "the socket's path is missing" },
    { "the root as socket", "redis+unix:///", "the socket's path is missing" },
    { "a socket's path that is too long",
      "redis+unix:///"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaa",
      "longer than 107 bytes" },
    /* further */
    { "nothing behind the ?", "rediss://store?", "leave it out" },
    { "a parameter that is not known", "rediss://store?insecure=1", "a parameter that is not known" },
    { "TLS's without TLS", "redis://store?ca=x", "write rediss://" },
    { "an empty one", "rediss://store?ca=", "is empty" },
    { "one without =", "rediss://store?ca", "is empty" },
    { "twice the same", "rediss://store?ca=x&ca=y", "stands twice" },
    { "an & at the end", "rediss://store?ca=x&", "leave it out" },
    { "two &", "rediss://store?ca=x&&cert=y", "a parameter that is not known" },
    { "a certificate without key", "rediss://store?cert=x", "cert and key go together" },
    { "a key without certificate", "rediss://store?key=x", "cert and key go together" },
    { "a server's name that is none", "rediss://store?servername=a/b", "servername is neither" },
    { "db in the wrong place", "redis://store?db=1", "write the number behind the host" },
    { "db twice", "redis+unix:///s?db=1&db=1", "stands twice" },
};

static void test_refusals(void **state)
{
    (void)state;
    static struct url url;
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        const char *why = "nothing";
        expect_row(!url_parse(refusals[i].text, &url, &why), refusals[i].why);
        if (strstr(why, refusals[i].part) == NULL)
            fail_msg("%s: it says %s", refusals[i].why, why);
    }
}

/* What is longer than the room is refused, and the longest that is not fits. */
static void test_lengths(void **state)
{
    (void)state;
    static struct url url;
    static char text[URL_MAX + 1];
    const char *why = "nothing";
    (void)snprintf(text, sizeof text, "redis://:");
    memset(text + 9, 'x', URL_MAX - 9);
    memcpy(text + URL_MAX - 7, "@store", 6);
    text[URL_MAX - 1] = '\0';
    assert_true(url_parse(text, &url, &why));
    assert_int_equal(strlen(url.password), URL_MAX - 7 - 9);
    assert_string_equal(url.hosts[0], "store");
    memcpy(text + URL_MAX - 6, "@store", 7);
    text[URL_MAX - 7] = 'x';
    assert_false(url_parse(text, &url, &why));
    assert_string_equal(why, "it is longer than 2047 bytes");
}

static void test_what_does_not_fit_is_counted(void **state)
{
    (void)state;
    static struct url url;
    const char *why;
    char shown[8];
    assert_true(url_parse("redis://store:7000", &url, &why));
    assert_int_equal(url_show(&url, shown, sizeof shown), strlen("redis://store:7000"));
    assert_string_equal(shown, "redis:/");
    assert_int_equal(url_show(&url, NULL, 0), strlen("redis://store:7000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readings),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_what_does_not_fit_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
