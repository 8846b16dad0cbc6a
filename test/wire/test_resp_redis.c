// SPDX-License-Identifier: Apache-2.0
/*
 * test_resp_redis.c - the codec against a real redis-server, as its client and as its equal.
 *
 * As its client: what the writer asks is understood, and each reply, read in random pieces and written again by the
 * writer, is the same bytes. As its equal: lines with quotes, integers and malformed commands get the verdict that
 * Redis gives them.
 *
 * The server is started here on a Unix socket in a folder of its own, without files and ports.
 *
 * LABELS: e2e
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/resp_told.h"
#include "support/unit.h"

/* ---- The server ------------------------------------------------------------------------------------------ */

static char folder[] = "/tmp/weir-resp-XXXXXX", socket_path[64], log_path[64];
static pid_t server;

static int try_connect(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    strcpy(address.sun_path, socket_path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static int start_server(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(socket_path, sizeof socket_path, "%s/socket", folder);
    (void)snprintf(log_path, sizeof log_path, "%s/log", folder);
    server = fork();
    if (server < 0)
        return -1;
    if (server == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket_path, "--save", "",
                     "--dir", folder, "--logfile", log_path, "--enable-debug-command", "yes", (char *)NULL);
        (void)fprintf(stderr, "redis-server is not installed: `make deps` installs it\n");
        _exit(127);
    }
    for (int tries = 0; tries < 1000; tries++) { /* until it listens, or is gone */
        struct timespec pause = { 0, 10 * 1000 * 1000 };
        int fd = try_connect();
        if (fd >= 0)
            return close(fd);
        if (waitpid(server, NULL, WNOHANG) == server) {
            server = 0;
            return -1;
        }
        (void)nanosleep(&pause, NULL);
    }
    return -1;
}

static int stop_server(void **state)
{
    (void)state;
    if (server > 0) {
        (void)kill(server, SIGKILL);
        (void)waitpid(server, NULL, 0);
    }
    (void)unlink(socket_path);
    (void)unlink(log_path);
    return rmdir(folder);
}

/* ---- A client -------------------------------------------------------------------------------------------- */

static struct random seeded;

struct client {
    int fd;
    size_t start, len; /* of what was received: the reply, and all */
    char received[4 << 20];
};

static struct client *client_open(void)
{
    struct client *client = malloc(sizeof *client);
    assert_non_null(client);
    client->fd = try_connect();
    assert_true(client->fd >= 0);
    client->start = client->len = 0;
    return client;
}

static void client_close(struct client *client)
{
    (void)close(client->fd);
    free(client);
}

static void send_all(const struct client *client, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = send(client->fd, bytes.at, bytes.len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EPIPE)
            return; /* it has said why, and closed */
        assert_true(sent > 0);
        bytes = (struct slice){ bytes.at + sent, bytes.len - (size_t)sent };
    }
}

/* False when the server has closed. */
static bool receive(struct client *client, size_t most)
{
    size_t room = sizeof client->received - client->len;
    assert_true(room > 0);
    ssize_t got = recv(client->fd, client->received + client->len, most < room ? most : room, 0);
    assert_true(got >= 0 || errno == ECONNRESET);
    client->len += got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* The next reply, which arrives in pieces of random length. Valid until the next call. */
static struct slice next_reply(struct client *client)
{
    struct resp_reply_parser parser = RESP_REPLY_START;
    size_t reply_len = 0, left = client->len - client->start, most = (size_t)1 << random_below(&seeded, 16);
    enum resp_result result;
    memmove(client->received, client->received + client->start, left);
    client->start = 0;
    client->len = left;
    while ((result = resp_reply_parse(&parser, client->received, client->len, &reply_len)) == RESP_MORE)
        assert_true(receive(client, random_below(&seeded, most) + 1));
    if (result == RESP_BAD)
        fail_msg("%s at byte %zu: %.*s", parser.sentence, parser.at, (int)client->len, client->received);
    client->start = reply_len;
    return (struct slice){ client->received, reply_len };
}

/* Ask by an inline line, for what tests alone need to say. */
static struct slice ask(struct client *client, const char *line)
{
    send_all(client, slice_of(line));
    send_all(client, SLICE("\r\n"));
    return next_reply(client);
}

static void say_hello(struct client *client, enum resp_version version)
{
    char line[16];
    struct resp_value value;
    (void)snprintf(line, sizeof line, "HELLO %d", (int)version);
    struct slice reply = ask(client, line);
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    assert_true(resp_next(&reader, &value) && value.count == 14);
    assert_int_equal(value.type, version == RESP3 ? RESP_MAP : RESP_ARRAY);
}

/* ---- Replies are the same when written again ----------------------------------------------------------------- */

/* One value through the writer; `raw` is where it stands, for what RESP2 spells in two ways. */
static void put_again(struct text *text, enum resp_version version, const struct resp_value *value,
                      const char *raw)
{
    switch (value->type) {
    case RESP_SIMPLE:
        resp_put_simple(text, value->text);
        break;
    case RESP_ERROR:
        resp_put_error(text, value->text);
        break;
    case RESP_INTEGER:
        resp_put_integer(text, value->integer);
        break;
    case RESP_BULK:
        resp_put_bulk(text, value->text);
        break;
    case RESP_VERBATIM:
        resp_put_verbatim(text, version, value->text.at - 4, value->text);
        break;
    case RESP_NULL:
        (*raw == '*' ? resp_put_null_array : resp_put_null)(text, version);
        break;
    case RESP_BOOLEAN:
        resp_put_boolean(text, version, value->integer);
        break;
    case RESP_DOUBLE:
        resp_put_double(text, version, value->text);
        break;
    case RESP_BIG_NUMBER:
        resp_put_big_number(text, version, value->text);
        break;
    case RESP_ARRAY:
        resp_put_array(text, value->count);
        break;
    case RESP_MAP:
        resp_put_map(text, version, value->count / 2);
        break;
    case RESP_SET:
        resp_put_set(text, version, value->count);
        break;
    default:
        resp_put_push(text, version, value->count);
    }
}

/* clang-format off */
static const char *const questions[] = {
    "PING", "PING hi", "ECHO \"\\x00\\xff\\r\\n\"", "COMMAND", "COMMAND COUNT", "COMMAND DOCS",
    "COMMAND DOCS nosuch", "COMMAND INFO ping nosuch", "INFO everything", "CONFIG GET *", "CLIENT LIST",
    "CLIENT INFO", "CLIENT GETNAME", "ROLE", "MEMORY STATS", "LATENCY DOCTOR", "ACL GETUSER default", "SET k v",
    "GET k", "GET none", "LPOP none 1", "RPUSH list a b c", "LRANGE list 0 -1", "HSET hash a 1 b 2",
    "HGETALL hash", "HGETALL none", "SADD set a b", "SMEMBERS set", "ZADD zset 1.5 a -inf b 1e300 c 0.1 d",
    "ZRANGE zset 0 -1 WITHSCORES", "ZSCORE zset a", "ZSCORE zset none", "EXISTS k none", "NOSUCH a b", "GET",
    "INCR list", "MULTI", "GET k", "NOSUCH", "EXEC", "MULTI", "PING", "EXEC", "SUBSCRIBE channel",
    "UNSUBSCRIBE channel", "XADD stream 1-1 f v", "XRANGE stream - +", "XINFO STREAM stream FULL",
    "SCRIPT LOAD \"return 1\"", "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
    "EVAL \"return {1,{2,{3,{}}},'a',false,true}\" 0", "EVAL \"return redis.error_reply('MY error')\" 0",
    "EVAL \"redis.setresp(3); return {map={a=1}}\" 0",
    "EVAL \"redis.setresp(3); return {{set={a=true}},{double=3.25},{big_number='123'},true,false}\" 0",
    "EVAL \"redis.setresp(3); return {verbatim_string={format='txt',string='x'}}\" 0", "TIME",
    "DEBUG PROTOCOL string", "DEBUG PROTOCOL integer", "DEBUG PROTOCOL double", "DEBUG PROTOCOL null",
    "DEBUG PROTOCOL array", "DEBUG PROTOCOL set", "DEBUG PROTOCOL map", "DEBUG PROTOCOL verbatim",
    "DEBUG PROTOCOL bignum", "DEBUG PROTOCOL true", "DEBUG PROTOCOL false", "FLUSHALL",
};
/* clang-format on */

static void replies_are_the_same_when_written_again(void **state)
{
    static char again[4 << 20];
    bool is_seen[RESP_TYPE_COUNT] = { false };
    (void)state;
    for (enum resp_version version = RESP2; version <= RESP3; version++) {
        struct client *client = client_open();
        say_hello(client, version);
        for (size_t i = 0; i < COUNT_OF(questions); i++) {
            struct slice reply = ask(client, questions[i]);
            struct resp_reader reader = resp_reader_of(reply.at, reply.len);
            struct text text = text_of(again, sizeof again);
            struct resp_value value;
            const char *raw = reader.at;
            while (resp_next(&reader, &value)) {
                put_again(&text, version, &value, raw);
                raw = reader.at;
                is_seen[value.type] = true;
            }
            assert_ptr_equal(reader.at, reader.end);
            if (!slice_equals(text_slice(&text), reply))
                fail_msg("RESP%d %s: %.*s became %.*s", (int)version, questions[i], (int)reply.len, reply.at,
                         (int)text.len, text.at);
        }
        client_close(client);
    }
    for (int type = 0; type < RESP_TYPE_COUNT; type++)
        if (!is_seen[type])
            fail_msg("no reply had type %d", type);
}

/* What the server sends to show each type, attributes and pushes among them. */
static void every_type_as_the_server_shows_it(void **state)
{
    static const struct row {
        const char *question, *told;
    } rows[] = {
        { "string", "\"Hello World\"" },
        { "integer", ":12345" },
        { "double", ",3.141" },
        { "null", "null" },
        { "array", "[:0 :1 :2]" },
        { "set", "~[:0 :1 :2]" },
        { "map", "{:0 #f :1 #t :2 #f}" },
        { "attrib", "\"Some real reply following the attribute\"" },
        { "verbatim", "=\"This is a verbatim\\nstring\"" },
        { "bignum", "(1234567999999999999999999999999999999" },
        { "true", "#t" },
        { "false", "#f" },
    };
    struct client *client = client_open();
    (void)state;
    say_hello(client, RESP3);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char line[64], room[256];
        struct text told = text_of(room, sizeof room);
        (void)snprintf(line, sizeof line, "DEBUG PROTOCOL %s", rows[i].question);
        struct slice reply = ask(client, line);
        assert_true(resp_tell(&told, reply.at, reply.len));
        if (!slice_equals(text_slice(&told), slice_of(rows[i].told)))
            fail_msg("%s: %.*s, want %s", rows[i].question, (int)told.len, told.at, rows[i].told);
    }
    client_close(client);
}

/* ---- Commands are understood --------------------------------------------------------------------------------- */

/* Pipelined scripts that return their arguments, which are random bytes. */
static void arguments_come_back(void **state)
{
    static char asked[1 << 20], want_room[1 << 20], have_room[1 << 20];
    struct client *client = client_open();
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct text text = text_of(asked, sizeof asked), want = text_of(want_room, sizeof want_room),
                    have = text_of(have_room, sizeof have_room);
        const int batch = 25;
        for (int i = 0; i < batch; i++) {
            static struct resp_command sent;
            sent.count = random_below(&seeded, 6);
            resp_put_array(&text, (uint32_t)sent.count + 3);
            resp_put_bulk(&text, SLICE("EVAL"));
            resp_put_bulk(&text, SLICE("return ARGV"));
            resp_put_bulk_i64(&text, 0);
            for (size_t word = 0; word < sent.count; word++) {
                static char bytes[6][1000];
                size_t len =
                    random_below(&seeded, 4) == 0 ? random_below(&seeded, 1000) : random_below(&seeded, 12);
                for (size_t byte = 0; byte < len; byte++)
                    bytes[word][byte] = (char)random_u64(&seeded);
                sent.words[word] = (struct slice){ bytes[word], len };
                resp_put_bulk(&text, sent.words[word]);
            }
            resp_tell_command(&want, &sent);
        }
        assert_false(text.is_cut || want.is_cut);
        send_all(client, text_slice(&text));
        for (int i = 0; i < batch; i++) {
            struct slice reply = next_reply(client);
            assert_true(resp_tell(&have, reply.at, reply.len));
        }
        assert_true(slice_equals(text_slice(&want), text_slice(&have)));
    }
    client_close(client);
}

/* ---- The same verdicts --------------------------------------------------------------------------------------- */

static struct resp_command command;

static enum resp_result parse(char *at, size_t len, bool is_stranger)
{
    struct resp_command_parser parser = RESP_COMMAND_START;
    return resp_command_parse(&parser, at, len, is_stranger, &command);
}

/* All that the server says until it closes. */
static struct slice last_words(struct client *client)
{
    while (receive(client, 4096)) {
    }
    return (struct slice){ client->received + client->start, client->len - client->start };
}

static void lines_are_split_alike(void **state)
{
    static const char front[] = "EVAL 'return ARGV' 0 ", letters[] = "ab\"\"\"'''\\\\\\x4n  \t\v\f\r\xff";
    struct client *client = client_open();
    size_t refused = 0, rounds = 6000;
    (void)state;
    for (size_t round = 0; round < rounds; round++) {
        char line[64], copy[64], want_room[512], have_room[512];
        struct text want = text_of(want_room, sizeof want_room), have = text_of(have_room, sizeof have_room);
        size_t len = sizeof front - 1;
        memcpy(line, front, len);
        for (size_t left = random_below(&seeded, 20); left > 0; left--)
            line[len++] = letters[random_below(&seeded, sizeof letters - 1)];
        line[len++] = '\n';
        memcpy(copy, line, len);
        send_all(client, (struct slice){ line, len });
        enum resp_result result = parse(line, len, false);
        if (result == RESP_BAD) {
            struct slice said = last_words(client);
            resp_put_protocol_error(&have, &command);
            if (!slice_equals(said, text_slice(&have)))
                fail_msg("%.*s: redis says %.*s", (int)len, copy, (int)said.len, said.at);
            client_close(client);
            client = client_open();
            refused++;
            continue;
        }
        assert_int_equal(result, RESP_DONE);
        assert_int_equal(command.len, len);
        static struct resp_command arguments;
        arguments.count = command.count - 3;
        memcpy(arguments.words, command.words + 3, arguments.count * sizeof *arguments.words);
        resp_tell_command(&have, &arguments);
        struct slice reply = next_reply(client);
        assert_true(resp_tell(&want, reply.at, reply.len));
        if (!slice_equals(text_slice(&want), text_slice(&have)))
            fail_msg("%.*s: %.*s, redis says %.*s", (int)len, copy, (int)have.len, have.at, (int)want.len,
                     want.at);
    }
    client_close(client);
    assert_in_range(refused, rounds / 10, rounds - rounds / 10); /* the letters make both kinds */
}

static void integers_are_read_alike(void **state)
{
    static const char letters[] = "0123456789999-+ ";
    static const char *const edges[] = { "9223372036854775807",
                                         "-9223372036854775807",
                                         "9223372036854775808",
                                         "-9223372036854775809",
                                         "-0",
                                         "+1",
                                         "01",
                                         "",
                                         " 1",
                                         "1 ",
                                         "1\r\n",
                                         "0x1",
                                         "1e3" };
    struct client *client = client_open();
    (void)state;
    for (size_t round = 0; round < 3000; round++) {
        char asked[256], random_text[24];
        struct text text = text_of(asked, sizeof asked);
        struct slice number = { random_text, random_below(&seeded, 22) };
        for (size_t i = 0; i < number.len; i++)
            random_text[i] = letters[random_below(&seeded, i == 0                          ? 15
                                                           : random_below(&seeded, 8) == 0 ? 16
                                                                                           : 13)];
        if (round < COUNT_OF(edges))
            number = slice_of(edges[round]);
        resp_put_array(&text, 3);
        resp_put_bulk(&text, SLICE("SET"));
        resp_put_bulk(&text, SLICE("n"));
        resp_put_bulk_i64(&text, 0);
        resp_put_array(&text, 3);
        resp_put_bulk(&text, SLICE("INCRBY"));
        resp_put_bulk(&text, SLICE("n"));
        resp_put_bulk(&text, number);
        send_all(client, text_slice(&text));
        (void)next_reply(client);
        struct slice reply = next_reply(client);
        struct resp_reader reader = resp_reader_of(reply.at, reply.len);
        struct resp_value value;
        int64_t ours = 0;
        assert_true(resp_next(&reader, &value));
        bool is_one = resp_to_i64(number, &ours);
        if (is_one != (value.type == RESP_INTEGER) || (is_one && ours != value.integer))
            fail_msg("'%.*s': redis says %.*s", (int)number.len, number.at, (int)reply.len, reply.at);
    }
    client_close(client);
}

/* Malformed commands on which both must say the same; where we are stricter is in test_resp_command. */
static const struct slice malformed[] = {
#define TEXT(text) \
    { \
        text, sizeof(text) - 1 \
    }
    TEXT("*abc\r\n"),
    TEXT("*\r\n"),
    TEXT("*-\r\n"),
    TEXT("*+1\r\n"),
    TEXT("*01\r\n"),
    TEXT("*-0\r\n"),
    TEXT("* 1\r\n"),
    TEXT("*1 \r\n"),
    TEXT("*2147483648\r\n"),
    TEXT("*18446744073709551617\r\n"),
    TEXT("*1\r\n:1\r\n"),
    TEXT("*1\r\n*1\r\n"),
    TEXT("*2\r\n$4\r\nPING\r\nx\r\n"),
    TEXT("*1\r\n$-1\r\n"),
    TEXT("*1\r\n$-5\r\n"),
    TEXT("*1\r\n$abc\r\n"),
    TEXT("*1\r\n$\r\n"),
    TEXT("*1\r\n$+4\r\n"),
    TEXT("*1\r\n$04\r\n"),
    TEXT("*1\r\n$-0\r\n"),
    TEXT("*1\r\n$536870913\r\n"),
    TEXT("*1\r\n$9223372036854775808\r\n"),
    TEXT("*1\r\n$?\r\n"),
    TEXT("ECHO \"a\r\n"),
    TEXT("ECHO 'a'b\r\n"),
    /* to one who must authenticate */
    TEXT("*11\r\n"),
    TEXT("*1\r\n$16385\r\n"),
    TEXT("*2147483647\r\n"),
    TEXT("*1\r\n$536870912\r\n"),
#undef TEXT
};
#define FOR_STRANGERS 4

static void expect_same_refusal(struct slice bytes, bool is_stranger)
{
    char want[128], *copy = malloc(bytes.len);
    struct text text = text_of(want, sizeof want);
    struct client *client = client_open();
    assert_non_null(copy);
    memcpy(copy, bytes.at, bytes.len);
    if (parse(copy, bytes.len, is_stranger) != RESP_BAD)
        fail_msg("%.*s is not refused", (int)(bytes.len < 100 ? bytes.len : 100), bytes.at);
    resp_put_protocol_error(&text, &command);
    send_all(client, bytes);
    struct slice said = last_words(client);
    if (!slice_equals(said, text_slice(&text)))
        fail_msg("%.*s: %.*s, redis says %.*s", (int)(bytes.len < 100 ? bytes.len : 100), bytes.at,
                 (int)text.len, text.at, (int)said.len, said.at);
    client_close(client);
    free(copy);
}

static void faults_are_named_alike(void **state)
{
    static char endless[RESP_INLINE_MAX + 1];
    size_t count = COUNT_OF(malformed);
    (void)state;
    for (size_t i = 0; i < count - FOR_STRANGERS; i++)
        expect_same_refusal(malformed[i], false);
    memset(endless, 'x', sizeof endless);
    expect_same_refusal((struct slice){ endless, sizeof endless }, false);

    struct client *owner = client_open();
    (void)ask(owner, "CONFIG SET requirepass secret");
    for (size_t i = 0; i < count; i++)
        if (!slice_equals(malformed[i], SLICE("*2\r\n$4\r\nPING\r\nx\r\n")))
            expect_same_refusal(malformed[i], true);
    (void)ask(owner, "CONFIG SET requirepass ''");
    client_close(owner);
}

/* What asks for nothing gets no answer: the PONG behind it is the first that comes. */
static void nothing_is_answered_with_nothing(void **state)
{
    static const char bytes[] = "\r\n\n*0\r\n*-1\r\n*-20\r\n  \t\r\n\r\nPING\r\n";
    struct client *client = client_open();
    char copy[sizeof bytes];
    size_t start = 0, asked = 0;
    (void)state;
    send_all(client, (struct slice){ bytes, sizeof bytes - 1 });
    assert_true(slice_equals(next_reply(client), SLICE("+PONG\r\n")));
    memcpy(copy, bytes, sizeof bytes);
    while (start < sizeof bytes - 1) {
        assert_int_equal(parse(copy + start, sizeof bytes - 1 - start, false), RESP_DONE);
        start += command.len;
        asked += command.count;
    }
    assert_int_equal(asked, 1);
    client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_are_the_same_when_written_again),
        cmocka_unit_test(every_type_as_the_server_shows_it),
        cmocka_unit_test(arguments_come_back),
        cmocka_unit_test(lines_are_split_alike),
        cmocka_unit_test(integers_are_read_alike),
        cmocka_unit_test(faults_are_named_alike),
        cmocka_unit_test(nothing_is_answered_with_nothing),
    };
    seeded.state = random_seed(20260614);
    return cmocka_run_group_tests_name("resp_redis", tests, start_server, stop_server);
}
