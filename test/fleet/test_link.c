// SPDX-License-Identifier: Apache-2.0
/*
 * test_link.c - a link against a server whose every byte the test says: greetings, replies in order however they are cut,
 * pushes, abandoned commands, bounds, ends.
 *
 * test_link_life.c has the pauses, the health and being closed at any moment; test_link_redis.c real servers.
 */
#include "fleet/link_rig.h"

/* ---- The greeting ----------------------------------------------------------------------------------------------------- */

#define AUTH_HELLO(user, password) \
    "*7\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n" user password "$7\r\nSETNAME\r\n$4\r\nweir\r\n"
#define SETNAME "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$4\r\nweir\r\n"
#define SELECT "*2\r\n$6\r\nSELECT\r\n$1\r\n7\r\n"
#define DEFAULT "$7\r\ndefault\r\n"
#define ADA "$3\r\nada\r\n"
#define SECRET "$6\r\ns3cret\r\n"
#define UNKNOWN "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 's3cret'\r\n"
#define NOT_YET "-NOAUTH Authentication required.\r\n"

static const struct greeting_row {
    const char *why;
    struct link_target target;
    const char *says, *answer;  /* the first round trip */
    const char *again, *second; /* and the second; NULL: none */
    unsigned version;           /* 0: it is not up */
    const char *down;           /* a part of what is told then */
} greetings[] = {
    { "nothing is asked for", { 0 }, HELLO PING, HELLO_REPLY PONG, NULL, NULL, 3, NULL },
    { "a password alone is the default user's",
      { .password = "s3cret" },
      AUTH_HELLO(DEFAULT, SECRET) PING,
      HELLO_REPLY PONG,
      NULL,
      NULL,
      3,
      NULL },
    { "a user",
      { .user = "ada", .password = "s3cret" },
      AUTH_HELLO(ADA, SECRET) PING,
      HELLO_REPLY PONG,
      NULL,
      NULL,
      3,
      NULL },
    { "a database", { .db = 7 }, HELLO SELECT PING, HELLO_REPLY "+OK\r\n" PONG, NULL, NULL, 3, NULL },
    { "the map may come as a flat array",
      { 0 },
      HELLO PING,
      "*4\r\n+server\r\n+redis\r\n+proto\r\n:3\r\n" PONG,
      NULL,
      NULL,
      3,
      NULL },
    { "what it says is what counts",
      { 0 },
      HELLO PING,
      "*4\r\n+server\r\n+redis\r\n+proto\r\n:2\r\n" PONG,
      NULL,
      NULL,
      2,
      NULL },
    { "values inside are passed over",
      { 0 },
      HELLO PING,
      "%2\r\n+modules\r\n*2\r\n+proto\r\n:2\r\n+proto\r\n:3\r\n" PONG,
      NULL,
      NULL,
      3,
      NULL },
    { "pushes are no answers",
      { 0 },
      HELLO PING,
      ">1\r\n+hi\r\n" HELLO_REPLY ">2\r\n+a\r\n+b\r\n" PONG,
      NULL,
      NULL,
      3,
      NULL },
    { "no right to PING is no fault",
      { 0 },
      HELLO PING,
      HELLO_REPLY "-NOPERM no permissions to run the 'ping' command\r\n",
      NULL,
      NULL,
      3,
      NULL },
    { "a script that runs is no fault",
      { 0 },
      HELLO PING,
      HELLO_REPLY "-BUSY Redis is busy running a script.\r\n",
      NULL,
      NULL,
      3,
      NULL },
    /* RESP2 */
    { "HELLO is not known",
      { 0 },
      HELLO PING,
      "-ERR unknown command 'HELLO'\r\n" PONG,
      SETNAME PING,
      "+OK\r\n" PONG,
      2,
      NULL },
    { "nor is RESP3",
      { 0 },
      HELLO PING,
      "-NOPROTO unsupported protocol version\r\n" PONG,
      SETNAME PING,
      "+OK\r\n" PONG,
      2,
      NULL },
    { "with a password, in the form of old",
      { .password = "s3cret" },
      AUTH_HELLO(DEFAULT, SECRET) PING,
      UNKNOWN NOT_YET,
      "*2\r\n$4\r\nAUTH\r\n" SECRET SETNAME PING,
      "+OK\r\n+OK\r\n" PONG,
      2,
      NULL },
    { "with a user",
      { .user = "ada", .password = "s3cret", .db = 7 },
      AUTH_HELLO(ADA, SECRET) SELECT PING,
      UNKNOWN NOT_YET NOT_YET,
      "*3\r\n$4\r\nAUTH\r\n" ADA SECRET SETNAME SELECT PING,
      "+OK\r\n+OK\r\n+OK\r\n" PONG,
      2,
      NULL },
    { "the name may be refused",
      { 0 },
      HELLO PING,
      "-ERR unknown command 'HELLO'\r\n" PONG,
      SETNAME PING,
      "-NOPERM this user has no permissions\r\n" PONG,
      2,
      NULL },
    { "a password that is wrong in RESP2",
      { .password = "s3cret" },
      AUTH_HELLO(DEFAULT, SECRET) PING,
      UNKNOWN NOT_YET,
      "*2\r\n$4\r\nAUTH\r\n" SECRET SETNAME PING,
      "-ERR invalid password\r\n" NOT_YET NOT_YET,
      0,
      "ERR invalid password" },
    { "not even AUTH is known, and our words come back",
      { .password = "s3cret" },
      AUTH_HELLO(DEFAULT, SECRET) PING,
      UNKNOWN NOT_YET,
      "*2\r\n$4\r\nAUTH\r\n" SECRET SETNAME PING,
      "-ERR unknown command 'AUTH', with args beginning with: 's3cret'\r\n",
      0,
      "ERR unknown command 'AUTH'" },
    { "pushes are wanted, so RESP3 is",
      { .wants_pushes = true },
      HELLO PING,
      "-ERR unknown command 'HELLO'\r\n",
      NULL,
      NULL,
      0,
      "it does not speak RESP3" },
    /* not up */
    { "a wrong password",
      { .user = "ada", .password = "s3cret" },
      AUTH_HELLO(ADA, SECRET) PING,
      "-WRONGPASS invalid username-password pair or user is disabled.\r\n" NOT_YET,
      NULL,
      NULL,
      0,
      "WRONGPASS invalid username-password pair or user is disabled." },
    { "a fault with the password in it",
      { .password = "s3cret" },
      AUTH_HELLO(DEFAULT, SECRET) PING,
      "-DENIED s3cret is not the one\r\n",
      NULL,
      NULL,
      0,
      "in words that repeat the password" },
    { "a fault with bytes that no terminal should get",
      { 0 },
      HELLO PING,
      "-DENIED \x1b[31m\xff\r\n",
      NULL,
      NULL,
      0,
      "DENIED ?[31m?" },
    { "no password where one is wanted",
      { 0 },
      HELLO PING,
      "-NOAUTH HELLO must be called with the client already authenticated\r\n" NOT_YET,
      NULL,
      NULL,
      0,
      "NOAUTH: it wants a password" },
    { "nor in RESP2",
      { 0 },
      HELLO PING,
      "-ERR unknown command 'HELLO'\r\n" NOT_YET,
      SETNAME PING,
      NOT_YET NOT_YET,
      0,
      "NOAUTH: it wants a password" },
    { "it is loading",
      { 0 },
      HELLO PING,
      HELLO_REPLY "-LOADING Redis is loading the dataset in memory\r\n",
      NULL,
      NULL,
      0,
      "LOADING Redis is loading" },
    { "its master is away",
      { 0 },
      HELLO PING,
      HELLO_REPLY "-MASTERDOWN Link with MASTER is down\r\n",
      NULL,
      NULL,
      0,
      "MASTERDOWN Link with MASTER is down" },
    { "a database that it does not have",
      { .db = 7 },
      HELLO SELECT PING,
      HELLO_REPLY "-ERR DB index is out of range\r\n",
      NULL,
      NULL,
      0,
      "ERR DB index is out of range" },
    { "no right to SELECT",
      { .db = 7 },
      HELLO SELECT PING,
      HELLO_REPLY "-NOPERM no permissions to run the 'select' command\r\n",
      NULL,
      NULL,
      0,
      "NOPERM no permissions" },
    { "it is full",
      { 0 },
      HELLO PING,
      "-ERR max number of clients reached\r\n",
      NULL,
      NULL,
      0,
      "ERR max number of clients reached" },
    { "it speaks something else",
      { 0 },
      HELLO PING,
      "HTTP/1.1 400 Bad Request\r\n",
      NULL,
      NULL,
      0,
      "it does not speak RESP: a value begins with a byte that names no type" },
};

static void greet_by(const struct greeting_row *row, size_t cut)
{
    struct rig rig;
    rig_prepare(&rig);
    rig.target = row->target;
    rig_listen(&rig);
    rig_dial(&rig);
    rig_accept(&rig);
    rig_hear(&rig, row->says);
    for (size_t at = 0, len = strlen(row->answer); at < len; at += cut) {
        rig_hear_nothing(&rig); /* before it has all the answers */
        rig_say(&rig, row->answer + at, len - at < cut ? len - at : cut);
        rig_step(&rig);
    }
    if (row->again != NULL) {
        rig_hear(&rig, row->again);
        rig_says(&rig, row->second);
    }
    rig_until(&rig, rig.ups + rig.downs > 0);
    expect_row(rig.ups == (row->version != 0) && rig.heards == 0, row->why);
    if (row->version != 0)
        expect_row((unsigned)link_version(rig.link) == row->version, row->why);
    else if (strstr(rig.why, row->down) == NULL || strstr(rig.why, "s3cret") != NULL)
        fail_msg("%s: it says %s", row->why, rig.why);
    rig_end(&rig);
}

static void test_greetings(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(greetings); i++) {
        greet_by(&greetings[i], SIZE_MAX / 2);
        if (greetings[i].version != 0 && greetings[i].again == NULL)
            greet_by(&greetings[i], 1);
    }
}

static void test_a_proxy_that_closes_on_HELLO_is_greeted_in_RESP2(void **state)
{
    (void)state;
    struct rig rig;
    rig_begin(&rig);
    rig_accept(&rig);
    rig_hear(&rig, HELLO PING);
    rig_hang_up(&rig);
    rig_accept(&rig);
    rig_hear(&rig, SETNAME PING);
    rig_says(&rig, "-ERR unknown command\r\n" PONG);
    rig_until(&rig, rig.ups == 1);
    assert_int_equal(link_version(rig.link), RESP2);
    assert_int_equal(rig.downs, 1);
    rig_end(&rig);
}

static void test_who_wants_pushes_does_not_do_without(void **state)
{
    (void)state;
    struct rig rig;
    rig_prepare(&rig);
    rig_listen(&rig);
    rig.target.wants_pushes = true;
    rig_dial(&rig);
    for (int i = 0; i < 2; i++) {
        rig_accept(&rig);
        rig_hear(&rig, HELLO PING);
        rig_hang_up(&rig);
    }
    rig_greet(&rig);
    assert_int_equal(link_version(rig.link), RESP3);
    rig_end(&rig);
}

/* ---- Replies --------------------------------------------------------------------------------------------------------- */

static const char *const replies[] = {
    "+OK\r\n",
    "-NOSCRIPT No matching script.\r\n",
    ":-42\r\n",
    "$5\r\nhello\r\n",
    "$0\r\n\r\n",
    "$-1\r\n",
    "_\r\n",
    "*3\r\n:1\r\n*2\r\n+a\r\n$-1\r\n:3\r\n",
    "*0\r\n",
    "%1\r\n+k\r\n:1\r\n",
    "#t\r\n",
    ",1.5\r\n",
    "(12345678901234567890123\r\n",
    "|1\r\n+ttl\r\n:5\r\n:7\r\n",
    "=7\r\ntxt:abc\r\n",
};

/* All of them with pushes between, cut in two at `cut` (and in single bytes at 0): always the same. */
static void hear_replies(size_t cut)
{
    struct rig rig;
    struct asked asked[COUNT_OF(replies)] = { 0 };
    char text[1024] = "";
    size_t len = 0;
    rig_begin(&rig);
    rig_greet(&rig);
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        assert_true(rig_send(&rig, &asked[i], PING));
        len += (size_t)snprintf(text + len, sizeof text - len, ">2\r\n+push\r\n:%zu\r\n%s", i, replies[i]);
    }
    for (size_t i = 0; i < COUNT_OF(replies); i++)
        rig_hear(&rig, PING);
    for (size_t at = 0; at < len;) {
        size_t part = cut == 0 ? 1 : at < cut && cut < len ? cut - at : len - at;
        rig_say(&rig, text + at, part);
        rig_step(&rig);
        at += part;
    }
    rig_until(&rig, rig.done == COUNT_OF(replies));
    assert_int_equal(rig.pushes, COUNT_OF(replies));
    assert_string_equal(rig.push, ">2\r\n+push\r\n:14\r\n");
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        assert_int_equal(asked[i].done, 1);
        assert_int_equal(asked[i].result, CARRIER_REPLY);
        assert_string_equal(asked[i].reply, replies[i]);
    }
    assert_int_equal(rig.downs, 0);
    rig_end(&rig);
}

static void test_replies_cut_at_every_byte(void **state)
{
    (void)state;
    hear_replies(SIZE_MAX);
    hear_replies(0);
    for (size_t cut = 1; cut < 600; cut++)
        hear_replies(cut);
}

static void test_a_turn_leaves_in_one_write(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked[3] = { 0 };
    char got[256];
    rig_begin(&rig);
    rig_greet(&rig);
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        assert_true(rig_send(&rig, &asked[i], PING));
    rig_hear_nothing(&rig); /* not before the turn */
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    assert_int_equal(recv(rig.peer, got, sizeof got, 0), 3 * strlen(PING)); /* and in that one, all of it */
    rig_end(&rig);
}

static void test_only_the_last_of_several_replies_is_told(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked[2] = { 0 };
    rig_begin(&rig);
    rig_greet(&rig);
    asked[0].command = (struct link_command){ .done = rig_on_done, .owner = &rig };
    assert_true(link_send(rig.link, SLICE("*1\r\n$6\r\nASKING\r\n" PING), 2, &asked[0].command));
    assert_true(rig_send(&rig, &asked[1], PING));
    rig_hear(&rig, "*1\r\n$6\r\nASKING\r\n" PING PING);
    rig_says(&rig, "+OK\r\n:1\r\n:2\r\n");
    rig_until(&rig, rig.done == 2);
    assert_string_equal(asked[0].reply, ":1\r\n");
    assert_string_equal(asked[1].reply, ":2\r\n");
    rig_end(&rig);
}

static void test_an_abandoned_command_is_heard_of_and_not_told(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked[4] = { 0 };
    rig_begin(&rig);
    rig_greet(&rig);
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        assert_true(rig_send(&rig, &asked[i], PING));
    link_abandon(rig.link, &asked[0].command); /* before it left */
    rig_hear(&rig, PING PING PING PING);
    link_abandon(rig.link, &asked[2].command);
    rig_says(&rig, ":0\r\n");
    rig_until(&rig, rig.heards == 1);
    assert_int_equal(rig.done, 0);
    rig_says(&rig, ":1\r\n:2\r\n:3\r\n");
    rig_until(&rig, rig.done == 2);
    assert_string_equal(asked[1].reply, ":1\r\n");
    assert_string_equal(asked[3].reply, ":3\r\n");
    assert_int_equal(asked[0].done + asked[2].done, 0);
    link_abandon(rig.link, &asked[1].command); /* done long ago */
    assert_true(rig_send(&rig, &asked[0], PING));
    link_abandon(rig.link, &asked[3].command);
    rig_says(&rig, ":4\r\n");
    rig_until(&rig, asked[0].done == 1);
    rig_end(&rig);
}

static void abandon_next(struct asked *asked)
{
    struct rig *rig = asked->command.owner;
    link_abandon(rig->link, &asked[1].command);
}

static void test_a_command_is_abandoned_within_the_reply_before_it(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked[3] = { { .then = abandon_next } };
    rig_begin(&rig);
    rig_greet(&rig);
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        assert_true(rig_send(&rig, &asked[i], PING));
    rig_says(&rig, ":0\r\n:1\r\n:2\r\n");
    rig_until(&rig, rig.done == 2);
    assert_int_equal(asked[1].done, 0);
    assert_string_equal(asked[2].reply, ":2\r\n");
    rig_end(&rig);
}

/* ---- Subscriptions ------------------------------------------------------------------------------------------------------ */

#define SUBSCRIBE "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n"

static bool subscribe(struct rig *rig, struct asked *asked)
{
    asked->command = (struct link_command){ .done = rig_on_done, .owner = rig };
    return link_subscribe(rig->link, SLICE(SUBSCRIBE), &asked->command);
}

static void test_a_subscription_of_RESP3(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked[3] = { 0 };
    rig_begin(&rig);
    rig_greet(&rig);
    assert_true(rig_send(&rig, &asked[0], PING));
    assert_true(subscribe(&rig, &asked[1]));
    assert_true(rig_send(&rig, &asked[2], PING));
    rig_hear(&rig, PING SUBSCRIBE PING);
    rig_says(&rig, "*1\r\n$7\r\nmessage\r\n>3\r\n+subscribe\r\n+c\r\n:1\r\n>3\r\n+message\r\n+c\r\n+1\r\n:"
                   "2\r\n>3\r\n+message\r\n+c\r\n+2\r\n");
    rig_until(&rig, rig.pushes == 2);
    assert_string_equal(asked[0].reply, "*1\r\n$7\r\nmessage\r\n");
    assert_string_equal(asked[1].reply, ">3\r\n+subscribe\r\n+c\r\n:1\r\n");
    assert_string_equal(asked[2].reply, ":2\r\n");
    assert_string_equal(rig.push, ">3\r\n+message\r\n+c\r\n+2\r\n");
    rig_end(&rig);
}

static void test_a_subscription_of_RESP2(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked[3] = { 0 };
    rig_begin(&rig);
    rig_accept(&rig);
    rig_hear(&rig, HELLO PING);
    rig_says(&rig, "-ERR unknown command\r\n" PONG "+OK\r\n" PONG);
    rig_until(&rig, rig.ups == 1);
    assert_true(rig_send(&rig, &asked[0], PING));
    assert_true(subscribe(&rig, &asked[1]));
    assert_true(rig_send(&rig, &asked[2], PING));
    rig_says(&rig, "*1\r\n+message\r\n*3\r\n+subscribe\r\n+c\r\n:1\r\n*3\r\n+message\r\n+c\r\n+1\r\n*2\r\n+"
                   "pong\r\n$0\r\n\r\n"
                   "*3\r\n+message\r\n+c\r\n+2\r\n");
    rig_until(&rig, rig.pushes == 2);
    assert_string_equal(asked[0].reply, "*1\r\n+message\r\n"); /* before the confirmation an array is a reply */
    assert_string_equal(asked[1].reply, "*3\r\n+subscribe\r\n+c\r\n:1\r\n");
    assert_string_equal(asked[2].reply, "*2\r\n+pong\r\n$0\r\n\r\n");
    assert_string_equal(rig.push, "*3\r\n+message\r\n+c\r\n+2\r\n");
    rig_end(&rig);
}

static void test_a_subscription_that_is_refused(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked[2] = { 0 };
    rig_begin(&rig);
    rig_greet(&rig);
    assert_true(subscribe(&rig, &asked[0]));
    assert_true(rig_send(&rig, &asked[1], PING));
    rig_says(&rig, "-NOPERM no access to the channel\r\n:1\r\n");
    rig_until(&rig, rig.done == 2);
    assert_string_equal(asked[0].reply, "-NOPERM no access to the channel\r\n");
    assert_string_equal(asked[1].reply, ":1\r\n");
    rig_end(&rig);
}

/* ---- Faults and bounds -------------------------------------------------------------------------------------------------- */

static const struct fault_row {
    const char *why, *says, *down;
} faults[] = {
    { "what was not asked", ":1\r\n:2\r\n", "it answered what was not asked" },
    { "more bytes than any reply has", "$17000000\r\n",
      "it does not speak RESP: a reply is longer than 16 MiB" },
    { "more values", "*9000000\r\n", "it does not speak RESP: a reply is longer than 16 MiB" },
    { "a length of letters", "$abc\r\n", "it does not speak RESP: a length must be a plain decimal number" },
    { "a reply without end",
      "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
      "it does not speak RESP: a reply is nested more than 16 deep" },
};

static void test_faults_end_the_connection(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        struct rig rig;
        struct asked asked = { 0 };
        rig_begin(&rig);
        rig_greet(&rig);
        assert_true(rig_send(&rig, &asked, PING));
        rig_hear(&rig, PING);
        rig_says(&rig, faults[i].says);
        rig_until(&rig, rig.downs == 1);
        if (strcmp(rig.why, faults[i].down) != 0)
            fail_msg("%s: it says %s", faults[i].why, rig.why);
        expect_row(asked.done == 1, faults[i].why);
        expect_row(asked.result == (i == 0 ? CARRIER_REPLY : CARRIER_LOST), faults[i].why);
        rig_end(&rig);
    }
}

/* The longest reply arrives whole, and the next one after it. */
static void test_a_long_reply(void **state)
{
    (void)state;
    enum { LEN = 5000000 };
    struct rig rig;
    struct asked asked[2] = { 0 };
    char *text = malloc(LEN);
    assert_non_null(text);
    memset(text, 'x', LEN);
    rig_begin(&rig);
    rig_greet(&rig);
    assert_true(rig_send(&rig, &asked[0], PING) && rig_send(&rig, &asked[1], PING));
    rig_says(&rig, "$5000000\r\n");
    rig_say(&rig, text, LEN);
    rig_says(&rig, "\r\n:2\r\n");
    rig_until(&rig, rig.done == 2);
    assert_int_equal(strncmp(asked[0].reply, "$5000000\r\nxxxx", 14), 0);
    assert_string_equal(asked[1].reply, ":2\r\n");
    rig_end(&rig);
    free(text);
}

/* A store that takes all and answers nothing: what waits for it is bounded in number ... */
static void test_commands_that_wait_are_bounded(void **state)
{
    (void)state;
    struct rig rig;
    struct asked *asked = calloc(LINK_COMMANDS_MAX + 1, sizeof *asked);
    unsigned sent = 0;
    char got[65536];
    assert_non_null(asked);
    rig_begin(&rig);
    rig_greet(&rig);
    while (rig_send(&rig, &asked[sent], PING)) {
        if (++sent % 100 == 0) {
            rig_step(&rig);
            while (recv(rig.peer, got, sizeof got, 0) > 0)
                continue;
        }
        assert_true(sent <= LINK_COMMANDS_MAX);
    }
    assert_int_equal(sent, LINK_COMMANDS_MAX);
    link_abandon(rig.link, &asked[0].command); /* a hole is still to be answered */
    assert_false(rig_send(&rig, &asked[sent], PING));
    rig_says(&rig, ":1\r\n");
    rig_until(&rig, rig.heards == 1);
    assert_true(rig_send(&rig, &asked[sent], PING));
    rig_end(&rig);
    assert_int_equal(rig.done, LINK_COMMANDS_MAX);
    free(asked);
}

/* ... and one that does not even take it: in bytes. What has not left is refused, not lost. */
static void test_bytes_that_wait_are_bounded(void **state)
{
    (void)state;
    enum { LEN = 100000 };
    struct rig rig;
    struct asked *asked = calloc(1000, sizeof *asked);
    char *text = calloc(1, LEN + 1);
    unsigned sent = 0, lost = 0, refused = 0;
    assert_true(asked != NULL && text != NULL);
    memset(text, 'x', LEN);
    rig_begin(&rig);
    rig_greet(&rig);
    for (int turn = 0; turn < 100; turn++) {
        while (sent < 1000 && rig_send(&rig, &asked[sent], text))
            sent++;
        rig_step(&rig);
    }
    assert_true(sent >= LINK_BYTES_MAX / LEN && sent < 1000);
    link_reset(rig.link, "it reads nothing");
    assert_string_equal(rig.why, "it reads nothing");
    for (unsigned i = 0; i < sent; i++) {
        assert_int_equal(asked[i].done, 1);
        lost += asked[i].result == CARRIER_LOST;
        refused += asked[i].result == CARRIER_REFUSED;
        assert_true(refused == 0 || asked[i].result == CARRIER_REFUSED); /* in order */
    }
    assert_true(lost > 0 && refused > 0 && lost + refused == sent);
    rig_end(&rig);
    free(text);
    free(asked);
}

static void test_a_command_larger_than_the_bound_is_refused(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked[2] = { 0 };
    char *text = calloc(1, LINK_BYTES_MAX + 2);
    assert_non_null(text);
    memset(text, 'x', LINK_BYTES_MAX + 1);
    rig_begin(&rig);
    rig_greet(&rig);
    assert_false(rig_send(&rig, &asked[0], text));
    assert_true(rig_send(&rig, &asked[1], PING));
    link_abandon(rig.link, &asked[0].command); /* it was never sent: another's place is not its own */
    rig_hear(&rig, PING);
    rig_says(&rig, ":1\r\n");
    rig_until(&rig, rig.done == 1);
    assert_int_equal(asked[1].done, 1);
    rig_end(&rig);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greetings),
        cmocka_unit_test(test_a_proxy_that_closes_on_HELLO_is_greeted_in_RESP2),
        cmocka_unit_test(test_who_wants_pushes_does_not_do_without),
        cmocka_unit_test(test_replies_cut_at_every_byte),
        cmocka_unit_test(test_a_turn_leaves_in_one_write),
        cmocka_unit_test(test_only_the_last_of_several_replies_is_told),
        cmocka_unit_test(test_an_abandoned_command_is_heard_of_and_not_told),
        cmocka_unit_test(test_a_command_is_abandoned_within_the_reply_before_it),
        cmocka_unit_test(test_a_subscription_of_RESP3),
        cmocka_unit_test(test_a_subscription_of_RESP2),
        cmocka_unit_test(test_a_subscription_that_is_refused),
        cmocka_unit_test(test_faults_end_the_connection),
        cmocka_unit_test(test_a_long_reply),
        cmocka_unit_test(test_commands_that_wait_are_bounded),
        cmocka_unit_test(test_bytes_that_wait_are_bounded),
        cmocka_unit_test(test_a_command_larger_than_the_bound_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
