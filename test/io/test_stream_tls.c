// SPDX-License-Identifier: Apache-2.0
/*
 * test_stream_tls.c - streams with TLS at both ends of a socket: bytes, back-pressure, half-close, and peers that stall, cut,
 * flood or speak something else.
 *
 * A hostile peer is OpenSSL on the bare socket, or bytes by hand.
 */
#include "support/unit.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "io/stream.h"
#include "io/tls.h"
#include "support/authority.h"

static struct tls_context *client_context, *server_context;

/* ---- One end ---------------------------------------------------------------------------------------------------------- */

struct end {
    struct stream stream;
    char room[64];
    size_t size; /* of the room it offers */
    char *got;   /* what came */
    size_t len, cap;
    unsigned secured, ended, sent, closed;
    int status;
    const char *why;
    void (*then)(struct end *end); /* in every event but closed */
    unsigned pauses_after;         /* events of read; 0: never */
    unsigned reads;
};

static struct end *end_of(struct stream *stream)
{
    return (struct end *)((char *)stream - offsetof(struct end, stream));
}

static void then(struct end *end)
{
    if (end->then != NULL)
        end->then(end);
}

static void on_room(struct stream *stream, char **at, size_t *size)
{
    struct end *end = end_of(stream);
    *at = end->room;
    *size = end->size;
}

static void on_read(struct stream *stream, size_t len)
{
    struct end *end = end_of(stream);
    assert_true(len > 0 && len <= end->size && end->ended == 0 && end->closed == 0);
    assert_true(end->len + len <= end->cap);
    memcpy(end->got + end->len, end->room, len);
    end->len += len;
    if (++end->reads == end->pauses_after)
        stream_pause(stream);
    then(end);
}

static void on_ended(struct stream *stream, int status)
{
    struct end *end = end_of(stream);
    assert_true(end->ended == 0 || (end->ended == 1 && end->status == 0 && status != 0));
    end->ended++;
    end->status = status;
    end->why = stream_why(stream);
    then(end);
}

static void on_sent(struct stream *stream)
{
    end_of(stream)->sent++;
    then(end_of(stream));
}

static void on_secured(struct stream *stream)
{
    end_of(stream)->secured++;
    then(end_of(stream));
}

static void on_closed(struct stream *stream)
{
    end_of(stream)->closed++;
}

static const struct stream_events events = { .room = on_room,
                                             .read = on_read,
                                             .ended = on_ended,
                                             .sent = on_sent,
                                             .secured = on_secured,
                                             .closed = on_closed };

/* ---- Both ---------------------------------------------------------------------------------------------------------------- */

struct pair {
    uv_loop_t loop;
    uv_timer_t guard;
    struct end client, server;
    int raw; /* the client's socket, where the test itself is the client; else -1 */
};

static void on_guard(uv_timer_t *guard)
{
    (void)guard;
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#define until(pair, condition) \
    do { \
        int64_t until_end = now_ms() + 10000; \
        while (!(condition)) { \
            if (now_ms() > until_end) \
                fail_msg("it did not come: %s", #condition); \
            (void)uv_run(&(pair)->loop, UV_RUN_ONCE); \
        } \
    } while (0)

static void prepare(struct end *end, size_t cap)
{
    end->size = sizeof end->room;
    end->cap = cap;
    end->got = malloc(cap);
    assert_non_null(end->got);
}

static void open_server(struct pair *pair, int fd, size_t cap, unsigned timeout_ms)
{
    prepare(&pair->server, cap);
    assert_int_equal(
        stream_open_tls(&pair->server.stream, &pair->loop, fd, true, &events, server_context, NULL, timeout_ms),
        0);
}

static void begin_loop(struct pair *pair, int fds[2])
{
    memset(pair, 0, sizeof *pair);
    pair->raw = -1;
    assert_int_equal(uv_loop_init(&pair->loop), 0);
    (void)uv_timer_init(&pair->loop, &pair->guard);
    (void)uv_timer_start(&pair->guard, on_guard, 1, 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

static void begin_with(struct pair *pair, bool is_raw, size_t cap, unsigned timeout_ms)
{
    int fds[2];
    begin_loop(pair, fds);
    pair->raw = is_raw ? fds[0] : -1;
    open_server(pair, fds[1], cap, timeout_ms);
    if (is_raw)
        return;
    prepare(&pair->client, cap);
    assert_int_equal(stream_open_tls(&pair->client.stream, &pair->loop, fds[0], true, &events, client_context,
                                     "localhost", timeout_ms),
                     0);
}

static void begin(struct pair *pair, size_t cap)
{
    begin_with(pair, false, cap, 10000);
    assert_false(
        stream_send(&pair->client.stream, "early", 5, 100)); /* nothing may leave that is not encrypted */
    until(pair, pair->client.secured == 1 && pair->server.secured == 1);
}

static void finish(struct pair *pair)
{
    stream_close(&pair->server.stream);
    until(pair, pair->server.closed == 1);
    if (pair->raw < 0) {
        stream_close(&pair->client.stream);
        until(pair, pair->client.closed == 1);
    } else {
        (void)close(pair->raw);
    }
    uv_close((uv_handle_t *)&pair->guard, NULL);
    (void)uv_run(&pair->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&pair->loop), 0);
    free(pair->client.got);
    free(pair->server.got);
}

/* ---- Bytes --------------------------------------------------------------------------------------------------------------- */

enum { LARGE = 1000000 };

static char *large(void)
{
    char *bytes = malloc(LARGE);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 131 + i / 257);
    return bytes;
}

static void test_bytes_both_ways(void **state)
{
    (void)state;
    static struct pair pair;
    char *bytes = large();
    begin(&pair, LARGE);
    assert_true(stream_send(&pair.client.stream, bytes, LARGE, LARGE));
    assert_true(stream_send(&pair.server.stream, bytes, LARGE, LARGE));
    assert_true(stream_queued(&pair.client.stream) > 0);
    until(&pair, pair.client.len == LARGE && pair.server.len == LARGE && pair.client.sent == 1
                     && pair.server.sent == 1);
    assert_memory_equal(pair.client.got, bytes, LARGE);
    assert_memory_equal(pair.server.got, bytes, LARGE);
    assert_true(stream_send(&pair.client.stream, bytes, 0, 0));
    finish(&pair);
    free(bytes);
}

static void test_what_may_not_wait_is_refused(void **state)
{
    (void)state;
    static struct pair pair;
    char *bytes = large();
    begin(&pair, LARGE);
    stream_pause(&pair.server.stream);
    assert_false(stream_send(&pair.client.stream, bytes, LARGE, 1000));
    finish(&pair);
    free(bytes);
}

/* Whose owner pauses keeps what one read brought; the rest stays with the sender. Nothing is told before it goes on. */
static void test_back_pressure(void **state)
{
    (void)state;
    static struct pair pair;
    char *bytes = large();
    begin(&pair, LARGE);
    pair.server.pauses_after = 3; /* in the middle of a record */
    assert_true(stream_send(&pair.client.stream, bytes, LARGE, LARGE));
    until(&pair, pair.server.reads == 3);
    for (int i = 0; i < 20; i++)
        (void)uv_run(&pair.loop, UV_RUN_NOWAIT);
    assert_int_equal(pair.server.reads, 3);
    assert_int_equal(pair.server.len, 3 * sizeof pair.server.room);
    assert_true(stream_queued(&pair.client.stream) > LARGE / 4);
    stream_resume(&pair.server.stream);
    assert_int_equal(pair.server.reads, 3); /* from the loop */
    until(&pair, pair.server.len == LARGE);
    assert_memory_equal(pair.server.got, bytes, LARGE);
    finish(&pair);
    free(bytes);
}

/* Resumed between the loop's timers and its poll: what was left comes before what the socket has. */
static void on_prepare(uv_prepare_t *prepare)
{
    stream_resume(prepare->data);
    (void)uv_prepare_stop(prepare);
}

static void test_resumed_just_before_the_socket_is_read(void **state)
{
    (void)state;
    static struct pair pair;
    uv_prepare_t prepare;
    char *bytes = large();
    begin(&pair, LARGE);
    pair.server.pauses_after = 3;
    assert_true(stream_send(&pair.client.stream, bytes, LARGE, LARGE));
    until(&pair, pair.server.reads == 3);
    (void)uv_prepare_init(&pair.loop, &prepare);
    prepare.data = &pair.server.stream;
    (void)uv_prepare_start(&prepare, on_prepare);
    until(&pair, pair.server.len == LARGE);
    assert_memory_equal(pair.server.got, bytes, LARGE);
    uv_close((uv_handle_t *)&prepare, NULL);
    finish(&pair);
    free(bytes);
}

static void pause_each(struct end *end)
{
    if (end->reads > 0 && end->ended == 0)
        stream_pause(&end->stream);
}

static void test_paused_after_every_piece(void **state)
{
    (void)state;
    static struct pair pair;
    char *bytes = large();
    begin(&pair, LARGE);
    pair.server.then = pause_each;
    assert_true(stream_send(&pair.client.stream, bytes, 40000, LARGE));
    stream_finish(&pair.client.stream);
    for (int64_t limit = now_ms() + 10000; pair.server.ended == 0 && now_ms() < limit;) {
        (void)uv_run(&pair.loop, UV_RUN_NOWAIT);
        stream_resume(&pair.server.stream);
        stream_resume(&pair.server.stream);
    }
    assert_int_equal(pair.server.ended, 1);
    assert_int_equal(pair.server.status, 0);
    assert_int_equal(pair.server.len, 40000);
    assert_memory_equal(pair.server.got, bytes, 40000);
    finish(&pair);
    free(bytes);
}

static void test_half_closed(void **state)
{
    (void)state;
    static struct pair pair;
    char *bytes = large();
    begin(&pair, LARGE);
    assert_true(stream_send(&pair.client.stream, "last", 4, 100));
    stream_finish(&pair.client.stream);
    until(&pair, pair.server.ended == 1);
    assert_int_equal(pair.server.status, 0);
    assert_null(pair.server.why);
    assert_int_equal(pair.server.len, 4);
    assert_true(stream_send(&pair.server.stream, bytes, LARGE, LARGE)); /* the other way goes on */
    until(&pair, pair.client.len == LARGE);
    stream_finish(&pair.server.stream);
    until(&pair, pair.client.ended == 1);
    assert_int_equal(pair.client.status, 0);
    finish(&pair);
    free(bytes);
}

/* Closing without finishing says goodbye, too: what came before was all. */
static void test_closing_says_so(void **state)
{
    (void)state;
    static struct pair pair;
    begin(&pair, 100);
    stream_close(&pair.client.stream);
    until(&pair, pair.server.ended == 1);
    assert_int_equal(pair.server.status, 0);
    finish(&pair);
}

static void test_no_room_ends_it(void **state)
{
    (void)state;
    static struct pair pair;
    begin(&pair, 100);
    pair.server.size = 0;
    assert_true(stream_send(&pair.client.stream, "more", 4, 100));
    until(&pair, pair.server.ended == 1);
    assert_int_equal(pair.server.status, UV_ENOBUFS);
    finish(&pair);
}

/* ---- Closed within an event ------------------------------------------------------------------------------------------------- */

static void close_now(struct end *end)
{
    stream_close(&end->stream);
}

static void test_closed_within_any_event(void **state)
{
    (void)state;
    for (int moment = 0; moment < 4; moment++) {
        static struct pair pair;
        char *bytes = large();
        begin_with(&pair, false, LARGE, 10000);
        if (moment == 0)
            pair.server.then = pair.client.then = close_now; /* in secured */
        until(&pair, moment == 0 ? pair.client.closed + pair.server.closed > 0
                                 : pair.client.secured + pair.server.secured == 2);
        if (moment == 1)
            pair.server.then = close_now; /* in read, records to come */
        if (moment == 2)
            pair.client.then = close_now; /* in sent */
        if (moment > 0)
            assert_true(stream_send(&pair.client.stream, bytes, LARGE / 2, LARGE));
        if (moment == 3) {
            until(&pair, pair.server.len == LARGE / 2);
            pair.server.then = close_now; /* in ended */
            stream_finish(&pair.client.stream);
        }
        until(&pair, pair.client.closed + pair.server.closed > 0);
        assert_true(moment != 1 || pair.server.reads == 1);
        finish(&pair);
        free(bytes);
    }
}

/* ---- Peers ------------------------------------------------------------------------------------------------------------------ */

static void test_a_handshake_has_its_time(void **state)
{
    (void)state;
    static struct pair pair;
    begin_with(&pair, true, 100, 20);
    until(&pair, pair.server.ended == 1);
    assert_int_equal(pair.server.status, UV_ETIMEDOUT);
    assert_string_equal(pair.server.why, "TLS: the handshake took too long");
    assert_int_equal(pair.server.secured, 0);
    finish(&pair);
}

/* However slowly it comes, while it comes in time: one byte for each turn. */
static void test_a_handshake_byte_by_byte(void **state)
{
    (void)state;
    static struct pair pair;
    char answer[16384];
    struct tls_session *session = tls_session_new(client_context, "localhost");
    begin_with(&pair, true, 100, 10000);
    while (pair.server.secured == 0) {
        enum tls_result result = tls_shake(session);
        assert_true(result == TLS_WAITS || result == TLS_DONE);
        struct slice out = tls_outgoing(session);
        for (size_t i = 0; i < out.len; i++) {
            assert_int_equal(send(pair.raw, out.at + i, 1, 0), 1);
            (void)uv_run(&pair.loop, UV_RUN_NOWAIT);
        }
        tls_left(session);
        ssize_t len = recv(pair.raw, answer, sizeof answer, 0);
        if (len > 0) {
            tls_give(session, (struct slice){ answer, (size_t)len });
            assert_int_equal(tls_shake(session), TLS_DONE);
        }
    }
    tls_session_free(session);
    finish(&pair);
}

/* The client's hello, cut off after each so many bytes. */
static void test_a_handshake_cut_off(void **state)
{
    (void)state;
    struct tls_session *session = tls_session_new(client_context, "localhost");
    assert_int_equal(tls_shake(session), TLS_WAITS);
    struct slice hello = tls_outgoing(session);
    for (size_t len = 0; len <= hello.len; len += 13) {
        static struct pair pair;
        begin_with(&pair, true, 100, 10000);
        assert_int_equal(send(pair.raw, hello.at, len, 0), len);
        (void)uv_run(&pair.loop, UV_RUN_NOWAIT);
        assert_int_equal(shutdown(pair.raw, SHUT_WR), 0);
        until(&pair, pair.server.ended == 1);
        assert_int_equal(pair.server.status, UV_ECONNABORTED);
        assert_string_equal(pair.server.why, "TLS: it closed the connection in the handshake");
        assert_int_equal(pair.server.secured, 0);
        finish(&pair);
    }
    tls_session_free(session);
}

static void test_who_speaks_something_else(void **state)
{
    (void)state;
    static const char *const words[] = { "GET / HTTP/1.1\r\n\r\n", "*1\r\n$4\r\nPING\r\n",
                                         "\x16\x03\x01\xff\xff" };
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        static struct pair pair;
        begin_with(&pair, true, 100, 10000);
        assert_true(send(pair.raw, words[i], strlen(words[i]), 0) > 0);
        until(&pair, pair.server.ended == 1);
        assert_int_equal(pair.server.status, UV_EPROTO);
        assert_non_null(pair.server.why);
        finish(&pair);
    }
}

/* OpenSSL as the client, on the bare socket; `version` 0: any. */
static SSL *shake_raw(struct pair *pair, SSL_CTX **ctx, int version)
{
    *ctx = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_set_max_proto_version(*ctx, version), 1);
    SSL *ssl = SSL_new(*ctx);
    assert_int_equal(SSL_set_fd(ssl, pair->raw), 1);
    until(pair, SSL_connect(ssl) == 1);
    until(pair, pair->server.secured == 1);
    return ssl;
}

static void forget(SSL *ssl, SSL_CTX *ctx)
{
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    ERR_clear_error();
}

/* No bytes may be missing at the end without anybody's saying so. */
static void test_a_connection_that_is_cut(void **state)
{
    (void)state;
    static struct pair pair;
    SSL_CTX *ctx;
    begin_with(&pair, true, 100, 10000);
    SSL *ssl = shake_raw(&pair, &ctx, 0);
    assert_int_equal(SSL_write(ssl, "half", 4), 4);
    assert_int_equal(shutdown(pair.raw, SHUT_WR), 0);
    until(&pair, pair.server.ended == 1);
    assert_int_equal(pair.server.len, 4);
    assert_int_equal(pair.server.status, UV_ECONNABORTED);
    assert_string_equal(pair.server.why, "TLS: the connection was cut");
    forget(ssl, ctx);
    finish(&pair);
}

static void test_renegotiation_is_refused(void **state)
{
    (void)state;
    static struct pair pair;
    SSL_CTX *ctx;
    begin_with(&pair, true, 100, 10000);
    SSL *ssl = shake_raw(&pair, &ctx, TLS1_2_VERSION);
    int result = -1;
    assert_int_equal(SSL_renegotiate(ssl), 1);
    for (int i = 0; i < 50 && pair.server.ended == 0; i++) {
        ERR_clear_error();
        result = SSL_do_handshake(ssl);
        if (result != 1 && SSL_get_error(ssl, result) != SSL_ERROR_WANT_READ)
            break;
        (void)uv_run(&pair.loop, UV_RUN_NOWAIT);
    }
    assert_true(result != 1 && SSL_get_error(ssl, result) == SSL_ERROR_SSL);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    forget(ssl, ctx);
    finish(&pair);
}

/* Nor may a server begin anew with a client of ours. */
static void test_a_server_may_not_renegotiate(void **state)
{
    (void)state;
    static struct pair pair;
    int fds[2], result = 0;
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION), 1);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, authority_certificate("server")), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, authority_key("server"), SSL_FILETYPE_PEM), 1);
    begin_loop(&pair, fds);
    pair.raw = fds[0];
    prepare(&pair.server, 100); /* that end is a client here */
    assert_int_equal(stream_open_tls(&pair.server.stream, &pair.loop, fds[1], true, &events, client_context,
                                     "localhost", 10000),
                     0);
    SSL *ssl = SSL_new(ctx);
    assert_int_equal(SSL_set_fd(ssl, pair.raw), 1);
    until(&pair, SSL_accept(ssl) == 1);
    until(&pair, pair.server.secured == 1);
    assert_int_equal(SSL_renegotiate(ssl), 1);
    (void)SSL_do_handshake(ssl);
    until(&pair,
          (result = SSL_peek(ssl, &(char){ 0 }, 1)) <= 0 && SSL_get_error(ssl, result) != SSL_ERROR_WANT_READ);
    assert_int_equal(SSL_get_error(ssl, result), SSL_ERROR_SSL);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    forget(ssl, ctx);
    finish(&pair);
}

/* A peer asks for new keys again and again and reads none of the answers: what waits for it does not grow without bound. */
static void test_a_flood_of_new_keys(void **state)
{
    (void)state;
    static struct pair pair;
    SSL_CTX *ctx;
    unsigned asked = 0;
    begin_with(&pair, true, 100, 10000);
    SSL *ssl = shake_raw(&pair, &ctx, TLS1_3_VERSION);
    for (int64_t limit = now_ms() + 60000; pair.server.ended == 0 && now_ms() < limit; asked++) {
        ERR_clear_error();
        if (SSL_get_key_update_type(ssl) == SSL_KEY_UPDATE_NONE)
            (void)SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
        (void)SSL_do_handshake(ssl);
        (void)uv_run(&pair.loop, UV_RUN_NOWAIT);
        assert_true(stream_queued(&pair.server.stream) <= 65536);
    }
    assert_int_equal(pair.server.ended, 1);
    assert_int_equal(pair.server.status, UV_ECONNABORTED);
    assert_string_equal(pair.server.why, "TLS: the peer asks more than it reads");
    assert_true(asked > 1000);
    forget(ssl, ctx);
    finish(&pair);
}

/* ---- Which servers a client refuses ----------------------------------------------------------------------------------------- */

static void test_a_client_says_whom_it_refuses(void **state)
{
    (void)state;
    static struct pair pair;
    int fds[2];
    begin_loop(&pair, fds);
    open_server(&pair, fds[1], 100, 10000);
    prepare(&pair.client, 100);
    assert_int_equal(stream_open_tls(&pair.client.stream, &pair.loop, fds[0], true, &events, client_context,
                                     "elsewhere.test", 10000),
                     0);
    until(&pair, pair.client.ended == 1 && pair.server.ended == 1);
    assert_int_equal(pair.client.status, UV_EPROTO);
    assert_string_equal(pair.client.why, "TLS: its certificate is refused: hostname mismatch");
    assert_int_equal(pair.client.secured, 0);
    assert_int_equal(pair.server.status, UV_EPROTO); /* it was told: an alert left before the end */
    assert_non_null(strstr(pair.server.why, "alert"));
    finish(&pair);
}

static int begin_all(void **state)
{
    (void)state;
    char why[256];
    (void)signal(SIGPIPE, SIG_IGN);
    (void)authority_begin();
    authority_make("ca");
    authority_sign("ca", "server", "DNS:localhost", 30);
    struct tls_options client = { .ca = authority_certificate("ca") };
    struct tls_options server = { .cert = authority_certificate("server"), .key = authority_key("server") };
    return tls_context_new(&client_context, TLS_CLIENT, &client, why, sizeof why)
                   && tls_context_new(&server_context, TLS_SERVER, &server, why, sizeof why)
               ? 0
               : -1;
}

static int end_all(void **state)
{
    (void)state;
    tls_context_free(client_context);
    tls_context_free(server_context);
    authority_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_both_ways),
        cmocka_unit_test(test_what_may_not_wait_is_refused),
        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_resumed_just_before_the_socket_is_read),
        cmocka_unit_test(test_paused_after_every_piece),
        cmocka_unit_test(test_half_closed),
        cmocka_unit_test(test_closing_says_so),
        cmocka_unit_test(test_no_room_ends_it),
        cmocka_unit_test(test_closed_within_any_event),
        cmocka_unit_test(test_a_handshake_has_its_time),
        cmocka_unit_test(test_a_handshake_byte_by_byte),
        cmocka_unit_test(test_a_handshake_cut_off),
        cmocka_unit_test(test_who_speaks_something_else),
        cmocka_unit_test(test_a_connection_that_is_cut),
        cmocka_unit_test(test_renegotiation_is_refused),
        cmocka_unit_test(test_a_server_may_not_renegotiate),
        cmocka_unit_test(test_a_flood_of_new_keys),
        cmocka_unit_test(test_a_client_says_whom_it_refuses),
    };
    return cmocka_run_group_tests(tests, begin_all, end_all);
}
