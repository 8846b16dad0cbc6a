// SPDX-License-Identifier: Apache-2.0
/*
 * test_link_redis.c - links to a real redis-server: over TCP, Unix sockets and TLS, with users and without, ten thousand commands
 * at once, and a server that is killed, stopped and started again.
 */
#include "fleet/link_rig.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include "fleet/url.h"
#include "io/tls.h"
#include "support/authority.h"
#include "support/random.h"

/* ---- The server ---------------------------------------------------------------------------------------------------------- */

static const char *folder; /* certificates, sockets, settings */

struct server {
    pid_t pid;
    unsigned port, tls_port;
    char path[128]; /* its Unix socket */
};

/* Below the ports that the kernel gives to clients, so that none of these takes it meanwhile. */
static unsigned free_port(void)
{
    static unsigned seed;
    if (seed == 0)
        seed = (unsigned)getpid() * 2654435761u ^ (unsigned)rig_ms();
    for (;;) {
        seed = seed * 1103515245u + 12345u;
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        at.sin_port = htons((uint16_t)(11000 + (seed >> 8) % 15000));
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool is_free = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
        (void)close(fd);
        if (is_free)
            return ntohs(at.sin_port);
    }
}

/* Start it (again) with `settings` behind the usual ones. It dies with the test. */
static void start(struct server *server, const char *settings)
{
    char conf[256];
    if (server->port == 0) {
        server->port = free_port();
        server->tls_port = free_port();
        (void)snprintf(server->path, sizeof server->path, "%s/%u.sock", folder, server->port);
    }
    (void)snprintf(conf, sizeof conf, "%s/%u.conf", folder, server->port);
    FILE *file = fopen(conf, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "port %u\nbind 127.0.0.1\nunixsocket %s\nsave \"\"\ndir %s\nlogfile %s/%u.log\ntls-port %u\n"
                  "tls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\n%s\n",
                  server->port, server->path, folder, folder, server->port, server->tls_port,
                  authority_certificate("server"), authority_key("server"), authority_certificate("ca"),
                  settings);
    assert_int_equal(fclose(file), 0);
    pid_t parent = getpid();
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid > 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        (void)execlp("redis-server", "redis-server", conf, (char *)NULL);
    _exit(127);
}

static void stop(struct server *server)
{
    (void)kill(server->pid, SIGKILL);
    assert_int_equal(waitpid(server->pid, NULL, 0), server->pid);
    server->pid = 0;
}

/* ---- Links ------------------------------------------------------------------------------------------------------------------ */

/* Dial; the server may still be starting. */
static void dial_tcp(struct rig *rig, const struct server *server, struct link_target target)
{
    rig_prepare(rig);
    rig->target = target;
    if (rig->target.host == NULL)
        rig->target.host = "127.0.0.1";
    if (rig->target.port == 0)
        rig->target.port = (uint16_t)server->port;
    rig_dial(rig);
}

/* Ask one thing; the reply. */
static const char *ask(struct rig *rig, const char *bytes)
{
    static struct asked asked;
    asked = (struct asked){ 0 };
    assert_true(rig_send(rig, &asked, bytes));
    rig_until(rig, asked.done == 1);
    assert_int_equal(asked.result, CARRIER_REPLY);
    return asked.reply;
}

#define GETNAME "*2\r\n$6\r\nCLIENT\r\n$7\r\nGETNAME\r\n"
#define WHOAMI "*2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n"

static void test_plain(void **state)
{
    (void)state;
    struct server server = { 0 };
    struct rig rig;
    start(&server, "");
    dial_tcp(&rig, &server, (struct link_target){ .db = 3 });
    rig_until(&rig, rig.ups == 1); /* also where the first attempts came before it listened */
    assert_int_equal(link_version(rig.link), RESP3);
    assert_string_equal(ask(&rig, GETNAME), "$4\r\nweir\r\n");
    assert_non_null(strstr(ask(&rig, "*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n"), " db=3 "));
    rig_end(&rig);

    rig_prepare(&rig);
    rig.target.host = server.path;
    rig_dial(&rig);
    rig_until(&rig, rig.ups == 1);
    assert_string_equal(ask(&rig, PING), PONG);
    rig_end(&rig);

    dial_tcp(&rig, &server, (struct link_target){ .host = "localhost" });
    rig_until(&rig, rig.ups == 1);
    rig_end(&rig);

    dial_tcp(&rig, &server, (struct link_target){ .db = 99 });
    rig_until(&rig, rig.downs == 1);
    assert_string_equal(rig.why, "ERR DB index is out of range");
    rig_end(&rig);
    stop(&server);
}

static void expect_down(const struct server *server, struct link_target target, const char *why)
{
    struct rig rig;
    dial_tcp(&rig, server, target);
    rig_until(&rig, rig.downs == 1);
    if (strstr(rig.why, why) == NULL)
        fail_msg("it says %s, not %s", rig.why, why);
    assert_int_equal(rig.ups, 0);
    rig_end(&rig);
}

/* `ada` may say nothing of CLIENT, and PING is not among hers either: that is no fault. */
static void test_users(void **state)
{
    (void)state;
    struct server server = { 0 };
    struct rig rig;
    start(&server, "requirepass s3cret\nuser ada on >pass\\@word ~weir:* +evalsha +acl|whoami");
    dial_tcp(&rig, &server, (struct link_target){ .password = "s3cret" });
    rig_until(&rig, rig.ups == 1);
    assert_string_equal(ask(&rig, WHOAMI), "$7\r\ndefault\r\n");
    rig_end(&rig);
    dial_tcp(&rig, &server, (struct link_target){ .user = "ada", .password = "pass\\@word" });
    rig_until(&rig, rig.ups + rig.downs > 0);
    assert_string_equal(rig.why, "");
    assert_string_equal(ask(&rig, WHOAMI), "$3\r\nada\r\n");
    rig_end(&rig);
    expect_down(&server, (struct link_target){ .password = "guess" }, "WRONGPASS");
    expect_down(&server, (struct link_target){ .user = "eve", .password = "s3cret" }, "WRONGPASS");
    expect_down(&server, (struct link_target){ 0 }, "NOAUTH: it wants a password, and none is given");
    expect_down(&server, (struct link_target){ .host = "no..host" }, "its name cannot be resolved");
    expect_down(&server, (struct link_target){ .user = "ada", .password = "pass\\@word", .db = 1 }, "NOPERM");
    stop(&server);
}

/* ---- TLS ----------------------------------------------------------------------------------------------------------------------- */

static struct tls_context *context_of(const char *format, ...)
{
    static struct url url;
    static char text[URL_MAX], why[256];
    const char *fault = NULL;
    struct tls_context *context = NULL;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!url_parse(text, &url, &fault))
        fail_msg("%s: %s", text, fault);
    if (!url_tls_context(&url, &context, why, sizeof why))
        fail_msg("%s: %s", text, why);
    assert_non_null(context);
    return context;
}

static void test_TLS(void **state)
{
    (void)state;
    const char *const ca = authority_certificate("ca"), *const other = authority_certificate("other");
    const char *const cert = authority_certificate("client"), *const key = authority_key("client");
    const struct row {
        const char *why;
        struct tls_context *tls;
        const char *host;
        bool asks; /* the server, for a certificate */
        const char *down;
    } rows[] = {
        { "a private authority", context_of("rediss://h?ca=%s", ca), "127.0.0.1", false, NULL },
        { "by name", context_of("rediss://h?ca=%s", ca), "localhost", false, NULL },
        { "another name that is asked for", context_of("rediss://h?ca=%s&servername=redis.test", ca),
          "127.0.0.1", false, NULL },
        { "both show a certificate", context_of("rediss://h?ca=%s&cert=%s&key=%s", ca, cert, key), "localhost",
          true, NULL },
        { "the system's authorities do not know it", context_of("rediss://h"), "localhost", false,
          "its certificate is refused: " },
        { "nor does another", context_of("rediss://h?ca=%s", other), "localhost", false,
          "its certificate is refused: " },
        { "a name that it does not have", context_of("rediss://h?ca=%s&servername=elsewhere.test", ca),
          "127.0.0.1", false, "its certificate is refused: hostname mismatch" },
        { "an address that it does not have", context_of("rediss://h?ca=%s&servername=127.0.0.2", ca),
          "127.0.0.1", false, "its certificate is refused: IP address mismatch" },
        { "no certificate where one is asked for", context_of("rediss://h?ca=%s", ca), "localhost", true, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct server server = { 0 };
        struct rig rig;
        start(&server, rows[i].asks ? "tls-auth-clients yes" : "tls-auth-clients no");
        dial_tcp(&rig, &server, (struct link_target){ 0 });
        rig_until(&rig, rig.ups == 1); /* it listens */
        rig_end(&rig);
        dial_tcp(&rig, &server,
                 (struct link_target){
                     .host = rows[i].host, .port = (uint16_t)server.tls_port, .tls = rows[i].tls });
        rig_until(&rig, rig.ups + rig.downs > 0);
        if (rows[i].down == NULL && rig.ups == 0)
            fail_msg("%s: %s", rows[i].why, rig.why);
        else if (rows[i].down == NULL)
            assert_string_equal(ask(&rig, PING), PONG);
        else if (rig.ups > 0 || strstr(rig.why, rows[i].down) == NULL)
            fail_msg("%s: it says %s", rows[i].why, rig.why);
        rig_end(&rig);
        stop(&server);
        tls_context_free(rows[i].tls);
    }
}

static void test_one_side_speaks_TLS_and_the_other_does_not(void **state)
{
    (void)state;
    struct server server = { 0 };
    struct tls_context *tls = context_of("rediss://h?ca=%s", authority_certificate("ca"));
    struct rig rig;
    start(&server, "tls-auth-clients no");
    dial_tcp(&rig, &server, (struct link_target){ 0 });
    rig_until(&rig, rig.ups == 1);
    rig_end(&rig);
    /* A plain port takes the handshake for the beginning of a line, and waits for its end. */
    expect_down(&server, (struct link_target){ .tls = tls, .dial_ms = 200 },
                "the TLS handshake took too long: does this port speak TLS?");
    expect_down(&server, (struct link_target){ .port = (uint16_t)server.tls_port }, "does this port want TLS?");
    tls_context_free(tls);
    stop(&server);
}

/* ---- Much ------------------------------------------------------------------------------------------------------------------------ */

enum { MANY = 10000 };

struct many {
    struct rig rig;
    struct asked asked[MANY];
    struct random random;
    unsigned next, abandoned;
    bool is_abandoned[MANY];
};

static void on_one_of_many(struct asked *asked)
{
    struct many *many = (struct many *)((char *)asked->command.owner - offsetof(struct many, rig));
    unsigned index = (unsigned)(asked - many->asked);
    char expected[32];
    (void)snprintf(expected, sizeof expected, "$5\r\n%05u\r\n", index);
    assert_false(many->is_abandoned[index]);
    assert_true(index >= many->next); /* in order */
    many->next = index + 1;
    assert_string_equal(asked->reply, expected);
    unsigned other = index + (unsigned)(random_below(&many->random, 50));
    if (other < MANY && other > index && !many->is_abandoned[other]) {
        many->is_abandoned[other] = true;
        many->abandoned++;
        link_abandon(many->rig.link, &many->asked[other].command);
    }
}

static void ask_many(struct many *many)
{
    for (unsigned i = 0; i < MANY; i++) {
        char bytes[64];
        (void)snprintf(bytes, sizeof bytes, "*2\r\n$4\r\nECHO\r\n$5\r\n%05u\r\n", i);
        many->asked[i].then = on_one_of_many;
        assert_true(rig_send(&many->rig, &many->asked[i], bytes));
        if (i % 7 == 0) {
            many->is_abandoned[i] = true;
            many->abandoned++;
            link_abandon(many->rig.link, &many->asked[i].command);
        }
    }
    rig_until(&many->rig, many->rig.done + many->abandoned == MANY);
    assert_string_equal(ask(&many->rig, PING), PONG); /* the one behind gets what is its own */
    assert_int_equal(many->rig.done, MANY - many->abandoned + 1);
}

static void test_ten_thousand_commands_some_of_them_abandoned(void **state)
{
    (void)state;
    struct server server = { 0 };
    struct tls_context *tls = context_of("rediss://h?ca=%s", authority_certificate("ca"));
    start(&server, "tls-auth-clients no");
    for (int is_tls = 0; is_tls < 2; is_tls++) {
        struct many *many = calloc(1, sizeof *many);
        assert_non_null(many);
        many->random.state = random_seed(20240501);
        struct link_target target = { .tls = is_tls ? tls : NULL,
                                      .port = (uint16_t)(is_tls ? server.tls_port : server.port) };
        dial_tcp(&many->rig, &server, target);
        rig_until(&many->rig, many->rig.ups == 1);
        ask_many(many);
        rig_end(&many->rig);
        free(many);
    }
    tls_context_free(tls);
    stop(&server);
}

/* ---- Ends ------------------------------------------------------------------------------------------------------------------------- */

static void test_killed_with_commands_in_flight(void **state)
{
    (void)state;
    struct server server = { 0 };
    struct rig rig;
    struct asked asked[4] = { 0 };
    start(&server, "");
    dial_tcp(&rig, &server, (struct link_target){ 0 });
    rig_until(&rig, rig.ups == 1);
    unsigned before = rig.downs;
    assert_true(rig_send(&rig, &asked[0], "*3\r\n$5\r\nBLPOP\r\n$1\r\nk\r\n$1\r\n0\r\n"));
    assert_true(rig_send(&rig, &asked[1], PING));
    assert_true(rig_send(&rig, &asked[2], PING));
    link_abandon(rig.link, &asked[1].command);
    for (int i = 0; i < 20; i++)
        rig_step(&rig);
    stop(&server);
    rig_until(&rig, rig.downs == before + 1);
    assert_int_equal(asked[0].result, CARRIER_LOST);
    assert_int_equal(asked[2].result, CARRIER_LOST);
    assert_int_equal(asked[1].done, 0);
    assert_false(rig_send(&rig, &asked[3], PING));
    rig_until(&rig, rig.downs >= before + 3);
    assert_string_equal(rig.why, "connection refused");
    start(&server, "");
    rig_until(&rig, rig.ups == 2);
    assert_string_equal(ask(&rig, PING), PONG);
    assert_int_equal(asked[0].done + asked[2].done, 2);
    rig_end(&rig);
    stop(&server);
}

/* Stopped: the kernel takes what is sent, and nothing comes. Then it goes on, and is found again. */
static void test_stopped_for_a_while(void **state)
{
    (void)state;
    struct server server = { 0 };
    struct rig rig;
    struct asked asked = { 0 };
    start(&server, "");
    dial_tcp(&rig, &server, (struct link_target){ .quiet_ms = 50, .dial_ms = 200 });
    rig_until(&rig, rig.ups == 1);
    unsigned before = rig.downs;
    assert_int_equal(kill(server.pid, SIGSTOP), 0);
    assert_true(rig_send(&rig, &asked, PING));
    rig_until(&rig, rig.downs == before + 1);
    assert_string_equal(rig.why, "it has not answered for too long");
    assert_int_equal(asked.result, CARRIER_LOST);
    rig_until(&rig, rig.downs == before + 2);
    assert_string_equal(rig.why, "it did not answer the greeting in time");
    assert_int_equal(kill(server.pid, SIGCONT), 0);
    rig_until(&rig, rig.ups == 2);
    assert_string_equal(ask(&rig, PING), PONG);
    rig_end(&rig);
    stop(&server);
}

static void test_subscriptions(void **state)
{
    (void)state;
    struct server server = { 0 };
    struct rig rig, other;
    struct asked asked = { 0 };
    start(&server, "");
    dial_tcp(&rig, &server, (struct link_target){ .wants_pushes = true, .quiet_ms = 20 });
    rig_until(&rig, rig.ups == 1);
    dial_tcp(&other, &server, (struct link_target){ 0 });
    rig_until(&other, other.ups == 1);
    asked.command = (struct link_command){ .done = rig_on_done, .owner = &rig };
    assert_true(link_subscribe(rig.link, SLICE("*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n"), &asked.command));
    rig_until(&rig, asked.done == 1);
    assert_string_equal(asked.reply, ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    assert_string_equal(ask(&other, "*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$2\r\nhi\r\n"), ":1\r\n");
    rig_until(&rig, rig.pushes == 1);
    assert_string_equal(rig.push, ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n");
    unsigned heard = rig.heards;
    rig_until(&rig, rig.heards == heard + 3); /* it is asked whether it lives, and does */
    assert_string_equal(ask(&rig, PING), PONG);
    rig_end(&rig);
    rig_end(&other);
    stop(&server);
}

static int begin(void **state)
{
    (void)state;
    folder = authority_begin();
    authority_make("ca");
    authority_make("other");
    authority_sign("ca", "server", "DNS:localhost,DNS:redis.test,IP:127.0.0.1", 30);
    authority_sign("ca", "client", "DNS:weir.test", 30);
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
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_users),
        cmocka_unit_test(test_TLS),
        cmocka_unit_test(test_one_side_speaks_TLS_and_the_other_does_not),
        cmocka_unit_test(test_ten_thousand_commands_some_of_them_abandoned),
        cmocka_unit_test(test_killed_with_commands_in_flight),
        cmocka_unit_test(test_stopped_for_a_while),
        cmocka_unit_test(test_subscriptions),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
