// SPDX-License-Identifier: Apache-2.0
/*
 * test_tls_session.c - two sessions in memory: who is trusted and who is not, and that bytes arrive however they are cut.
 *
 * No sockets: what one end sends is given to the other by hand, so that every cut can be tried.
 */
#include "support/unit.h"

#include <openssl/ssl.h>

#include "io/tls.h"
#include "support/authority.h"

/* ---- Two ends ---------------------------------------------------------------------------------------------------- */

struct ends {
    struct tls_session *client, *server;
    enum tls_result of_client, of_server; /* of the handshake */
};

static struct tls_context *context(enum tls_side side, const char *ca, const char *own, const char *name)
{
    char why[256];
    struct tls_context *made = NULL;
    struct tls_options options = { .ca = ca == NULL ? NULL : authority_certificate(ca),
                                   .cert = own == NULL ? NULL : authority_certificate(own),
                                   .key = own == NULL ? NULL : authority_key(own),
                                   .name = name };
    if (!tls_context_new(&made, side, &options, why, sizeof why))
        fail_msg("%s", why);
    return made;
}

/* Everything that leaves one end goes to the other, `cut` bytes at a time; says what became of the handshake there. */
static enum tls_result carry(struct tls_session *from, struct tls_session *to, size_t cut,
                             enum tls_result so_far)
{
    struct slice out = tls_outgoing(from);
    enum tls_result result = so_far;
    if (so_far == TLS_DONE && out.len > 0) { /* for the first read */
        tls_give(to, out);
        assert_true(tls_keep(to));
    }
    for (size_t at = 0; at < out.len && result == TLS_WAITS; at += cut) {
        size_t len = out.len - at < cut ? out.len - at : cut;
        tls_give(to, (struct slice){ out.at + at, len });
        result = tls_shake(to);
        assert_true(tls_keep(to));
        if (result == TLS_DONE
            && at + len < out.len) { /* what follows belongs to what comes after the handshake */
            tls_give(to, (struct slice){ out.at + at, out.len - at });
            assert_true(tls_keep(to));
            break;
        }
    }
    tls_left(from);
    return result;
}

static struct ends shake_hands(struct tls_context *client, struct tls_context *server, const char *host,
                               size_t cut)
{
    struct ends ends = { tls_session_new(client, host), tls_session_new(server, NULL), TLS_WAITS, TLS_WAITS };
    assert_non_null(ends.client);
    assert_non_null(ends.server);
    ends.of_client = tls_shake(ends.client);
    for (int turn = 0; turn < 8; turn++) {
        ends.of_server = carry(ends.client, ends.server, cut, ends.of_server);
        ends.of_client = carry(ends.server, ends.client, cut, ends.of_client);
    }
    tls_context_free(client); /* sessions outlive it */
    tls_context_free(server);
    return ends;
}

static void part(struct ends *ends)
{
    tls_session_free(ends->client);
    tls_session_free(ends->server);
}

/* ---- Trust --------------------------------------------------------------------------------------------------------- */

static const struct trust {
    const char *why;
    const char *client_ca, *client_own, *name, *host; /* of the client */
    const char *server_ca, *server_own;               /* of the server */
    const char *fault;   /* what the end that refuses says; NULL: both are content */
    bool refuses_client; /* that end is the server */
} trusts[] = {
    { "a private authority, by name", "ca", NULL, NULL, "localhost", NULL, "server", NULL, false },
    { "a name in other letters", "ca", NULL, NULL, "LocalHost", NULL, "server", NULL, false },
    { "a complete name", "ca", NULL, NULL, "localhost.", NULL, "server", NULL, false },
    { "by IPv4 address", "ca", NULL, NULL, "127.0.0.1", NULL, "server", NULL, false },
    { "by IPv6 address", "ca", NULL, NULL, "0:0:0:0:0:0:0:1", NULL, "server", NULL, false },
    { "the name that was set wins over the one dialled", "ca", NULL, "localhost", "10.0.0.1", NULL, "server",
      NULL, false },
    { "both show a certificate", "ca", "client", NULL, "localhost", "ca", "server", NULL, false },
    { "one below a wildcard", "ca", NULL, NULL, "a.store.test", NULL, "wild", NULL, false },
    { "not two", "ca", NULL, NULL, "a.b.store.test", NULL, "wild", "hostname mismatch", false },
    { "not a part of a label", "ca", NULL, NULL, "ab.part.test", NULL, "wild", "hostname mismatch", false },
    { "another authority's server", "other", NULL, NULL, "localhost", NULL, "server",
      "unable to get local issuer", false },
    { "a private one is not the system's", NULL, NULL, NULL, "localhost", NULL, "server",
      "unable to get local issuer", false },
    { "another name", "ca", NULL, NULL, "elsewhere.test", NULL, "server", "hostname mismatch", false },
    { "another address", "ca", NULL, NULL, "127.0.0.2", NULL, "server", "IP address mismatch", false },
    { "a name that is an address is not looked for among names", "ca", NULL, NULL, "127.0.0.9", NULL, "named",
      "IP address mismatch", false },
    { "the name that was set is the one that counts", "ca", NULL, "elsewhere.test", "localhost", NULL, "server",
      "hostname mismatch", false },
    { "over since yesterday", "ca", NULL, NULL, "localhost", NULL, "expired", "certificate has expired",
      false },
    { "who signs itself", "ca", NULL, NULL, "localhost", NULL, "self", "self-signed certificate", false },
    { "a client without certificate", "ca", NULL, NULL, "localhost", "ca", "server",
      "peer did not return a certificate", true },
    { "a client of another authority", "ca", "stranger", NULL, "localhost", "ca", "server",
      "certificate is refused", true },
};

static void test_who_is_trusted(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(trusts); i++) {
        const struct trust *row = &trusts[i];
        struct ends ends =
            shake_hands(context(TLS_CLIENT, row->client_ca, row->client_own, row->name),
                        context(TLS_SERVER, row->server_ca, row->server_own, NULL), row->host, SIZE_MAX);
        const struct tls_session *refuses = row->refuses_client ? ends.server : ends.client;
        if (row->fault == NULL) {
            expect_row(ends.of_client == TLS_DONE && ends.of_server == TLS_DONE, row->why);
        } else {
            expect_row((row->refuses_client ? ends.of_server : ends.of_client) == TLS_BROKEN, row->why);
            if (strstr(tls_why(refuses), row->fault) == NULL)
                fail_msg("%s: it says %s", row->why, tls_why(refuses));
        }
        part(&ends);
    }
}

/* With TLS 1.3 a client hears that its certificate was refused only after the handshake: as an alert, when it reads. */
static void test_a_refused_client_hears_of_it(void **state)
{
    (void)state;
    struct ends ends = shake_hands(context(TLS_CLIENT, "ca", NULL, NULL),
                                   context(TLS_SERVER, "ca", "server", NULL), "localhost", SIZE_MAX);
    char byte;
    size_t len;
    assert_int_equal(ends.of_client, TLS_DONE);
    assert_int_equal(ends.of_server, TLS_BROKEN);
    assert_int_equal(tls_read(ends.client, &byte, 1, &len), TLS_BROKEN);
    assert_non_null(strstr(tls_why(ends.client), "certificate required"));
    part(&ends);
}

/* ---- Bytes ---------------------------------------------------------------------------------------------------------- */

static void give_all(struct tls_session *from, struct tls_session *to)
{
    tls_give(to, tls_outgoing(from));
    assert_true(tls_keep(to));
    tls_left(from);
}

static void test_a_handshake_cut_anywhere(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 400; cut = cut < 40 ? cut + 1 : cut + 37) {
        struct ends ends = shake_hands(context(TLS_CLIENT, "ca", "client", NULL),
                                       context(TLS_SERVER, "ca", "server", NULL), "localhost", cut);
        assert_int_equal(ends.of_client, TLS_DONE);
        assert_int_equal(ends.of_server, TLS_DONE);
        part(&ends);
    }
}

static void test_bytes_arrive_in_small_reads(void **state)
{
    (void)state;
    enum { LEN = 100000 };
    char *sent = malloc(LEN), *got = malloc(LEN);
    struct ends ends = shake_hands(context(TLS_CLIENT, "ca", NULL, NULL),
                                   context(TLS_SERVER, NULL, "server", NULL), "localhost", SIZE_MAX);
    size_t at = 0, len = 0;
    assert_true(sent != NULL && got != NULL);
    for (size_t i = 0; i < LEN; i++)
        sent[i] = (char)(i * 31 + i / 251);
    assert_true(tls_write(ends.client, sent, LEN));
    give_all(ends.client, ends.server);
    assert_true(tls_has_more(ends.server));
    enum tls_result result;
    while ((result = tls_read(ends.server, got + at, at % 2 == 0 ? 1 : 4099, &len)) == TLS_DONE)
        at += len;
    assert_int_equal(result, TLS_WAITS);
    assert_false(tls_has_more(ends.server));
    assert_int_equal(at, LEN);
    assert_memory_equal(sent, got, LEN);
    part(&ends);
    free(sent);
    free(got);
}

static void test_the_end_is_said_and_the_other_way_stays_open(void **state)
{
    (void)state;
    struct ends ends = shake_hands(context(TLS_CLIENT, "ca", NULL, NULL),
                                   context(TLS_SERVER, NULL, "server", NULL), "localhost", SIZE_MAX);
    char bytes[8];
    size_t len;
    assert_true(tls_write(ends.client, "last", 4));
    tls_finish(ends.client);
    give_all(ends.client, ends.server);
    assert_int_equal(tls_read(ends.server, bytes, sizeof bytes, &len), TLS_DONE);
    assert_int_equal(len, 4);
    assert_int_equal(tls_read(ends.server, bytes, sizeof bytes, &len), TLS_ENDED);
    assert_true(tls_write(ends.server, "reply", 5));
    give_all(ends.server, ends.client);
    assert_int_equal(tls_read(ends.client, bytes, sizeof bytes, &len), TLS_DONE);
    assert_int_equal(len, 5);
    part(&ends);
}

static void test_a_changed_byte_breaks_it(void **state)
{
    (void)state;
    struct ends ends = shake_hands(context(TLS_CLIENT, "ca", NULL, NULL),
                                   context(TLS_SERVER, NULL, "server", NULL), "localhost", SIZE_MAX);
    char copy[256], bytes[8];
    size_t len;
    assert_true(tls_write(ends.client, "bytes", 5));
    struct slice out = tls_outgoing(ends.client);
    assert_true(out.len < sizeof copy);
    memcpy(copy, out.at, out.len);
    copy[out.len - 1] ^= 1;
    tls_give(ends.server, (struct slice){ copy, out.len });
    assert_int_equal(tls_read(ends.server, bytes, sizeof bytes, &len), TLS_BROKEN);
    assert_true(tls_why(ends.server)[0] != '\0');
    part(&ends);
}

static void test_what_is_not_TLS(void **state)
{
    (void)state;
    struct tls_context *client = context(TLS_CLIENT, "ca", NULL, NULL),
                       *server = context(TLS_SERVER, NULL, "server", NULL);
    struct tls_session *to_redis = tls_session_new(client, "localhost"),
                       *from_browser = tls_session_new(server, NULL);
    assert_int_equal(tls_shake(to_redis), TLS_WAITS);
    tls_give(to_redis, SLICE("-ERR Protocol error: unexpected byte\r\n"));
    assert_int_equal(tls_shake(to_redis), TLS_BROKEN);
    assert_string_equal(tls_why(to_redis), "TLS: what it sends is not TLS");
    tls_give(from_browser, SLICE("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_int_equal(tls_shake(from_browser), TLS_BROKEN);
    assert_string_equal(tls_why(from_browser), "TLS: what it sends is not TLS");
    tls_session_free(to_redis);
    tls_session_free(from_browser);
    tls_context_free(client);
    tls_context_free(server);
}

/* A client of old, by OpenSSL itself with nothing of ours between. */
static void test_versions_before_1_2_are_refused(void **state)
{
    (void)state;
    struct tls_context *server = context(TLS_SERVER, NULL, "server", NULL);
    struct tls_session *session = tls_session_new(server, NULL);
    SSL_CTX *old = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(old, 0);
    assert_int_equal(SSL_CTX_set_min_proto_version(old, TLS1_VERSION), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(old, TLS1_1_VERSION), 1);
    SSL *ssl = SSL_new(old);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    char *hello;
    SSL_set_bio(ssl, in, out);
    assert_int_equal(SSL_connect(ssl), -1);
    long len = BIO_get_mem_data(out, &hello);
    assert_true(len > 0);
    tls_give(session, (struct slice){ hello, (size_t)len });
    assert_int_equal(tls_shake(session), TLS_BROKEN);
    assert_string_equal(tls_why(session), "TLS: unsupported protocol");
    SSL_free(ssl);
    SSL_CTX_free(old);
    tls_session_free(session);
    tls_context_free(server);
}

/* ---- Files ------------------------------------------------------------------------------------------------------------ */

static void expect_refused(enum tls_side side, const struct tls_options *options, const char *why)
{
    char got[256] = "";
    struct tls_context *made = NULL;
    assert_false(tls_context_new(&made, side, options, got, sizeof got));
    assert_null(made);
    if (strstr(got, why) == NULL)
        fail_msg("it says %s, not %s", got, why);
}

static void test_files_that_cannot_be_used(void **state)
{
    (void)state;
    const char *cert = authority_certificate("client"), *key = authority_key("client"),
               *other = authority_key("server");
    expect_refused(TLS_CLIENT, &(struct tls_options){ .ca = "/nowhere/ca.pem" },
                   "ca file /nowhere/ca.pem: No such file or directory");
    expect_refused(TLS_CLIENT, &(struct tls_options){ .ca = key }, "holds no certificate in PEM");
    expect_refused(TLS_CLIENT, &(struct tls_options){ .cert = key, .key = key }, "cert file");
    expect_refused(TLS_CLIENT, &(struct tls_options){ .cert = cert }, "give its key, too");
    expect_refused(TLS_CLIENT, &(struct tls_options){ .cert = cert, .key = cert }, "holds no key in PEM");
    expect_refused(TLS_CLIENT, &(struct tls_options){ .cert = cert, .key = other },
                   "is not the key of the certificate");
    expect_refused(TLS_SERVER, &(struct tls_options){ .ca = cert }, "a server must show a certificate");
}

static int begin(void **state)
{
    (void)state;
    (void)authority_begin();
    authority_make("ca");
    authority_make("other");
    authority_make("self");
    authority_sign("ca", "server", "DNS:localhost,IP:127.0.0.1,IP:::1", 30);
    authority_sign("ca", "named", "DNS:127.0.0.9", 30);
    authority_sign("ca", "wild", "DNS:*.store.test,DNS:a*.part.test", 30);
    authority_sign("ca", "expired", "DNS:localhost", 0);
    authority_sign("ca", "client", "DNS:client.test", 30);
    authority_sign("other", "stranger", "DNS:client.test", 30);
    return 0;
}

static int end(void **state)
{
    (void)state;
    authority_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_trusted),
        cmocka_unit_test(test_a_refused_client_hears_of_it),
        cmocka_unit_test(test_a_handshake_cut_anywhere),
        cmocka_unit_test(test_bytes_arrive_in_small_reads),
        cmocka_unit_test(test_the_end_is_said_and_the_other_way_stays_open),
        cmocka_unit_test(test_a_changed_byte_breaks_it),
        cmocka_unit_test(test_what_is_not_TLS),
        cmocka_unit_test(test_versions_before_1_2_are_refused),
        cmocka_unit_test(test_files_that_cannot_be_used),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
