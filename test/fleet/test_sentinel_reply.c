// SPDX-License-Identifier: Apache-2.0
/*
 * test_sentinel_reply.c - what Sentinels, ROLE and INFO say; refusals told from errors; incarnations as text.
 */
#include "support/unit.h"

#include "fleet/incarnation.h"
#include "fleet/sentinel_reply.h"
#include "fleet/store_refusal.h"

#define B(len, text) "$" #len "\r\n" text "\r\n"

/* On the heap, as long as it is, so that a look behind the end is seen. */
static struct slice copy_of(const char *text)
{
    size_t len = strlen(text);
    char *copy = malloc(len + (len == 0));
    memcpy(copy, text, len);
    return (struct slice){ copy, len };
}

static const struct address_row {
    const char *why, *reply, *at; /* NULL: it says none */
} master_rows[] = {
    { "the usual", "*2\r\n" B(9, "127.0.0.1") B(4, "6379"), "127.0.0.1:6379" },
    { "a host name", "*2\r\n" B(3, "a.b") B(4, "6379"), "a.b:6379" },
    { "it does not know the name (RESP2)", "*-1\r\n", NULL },
    { "it does not know the name (RESP3)", "_\r\n", NULL },
    { "an error", "-IDONTKNOW I have not enough information\r\n", NULL },
    { "no port", "*1\r\n" B(9, "127.0.0.1"), NULL },
    { "a port of 0", "*2\r\n" B(9, "127.0.0.1") B(1, "0"), NULL },
    { "a port that is none", "*2\r\n" B(9, "127.0.0.1") B(5, "65536"), NULL },
    { "a host of nothing", "*2\r\n" B(0, "") B(4, "6379"), NULL },
    { "a host that is a list", "*2\r\n*0\r\n" B(4, "6379"), NULL },
    { "nothing", "", NULL },
};

static void masters_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(master_rows); i++) {
        struct store_address at;
        char name[STORE_ADDRESS_MAX];
        struct slice reply = copy_of(master_rows[i].reply);
        bool is_read = sentinel_read_master(reply, &at);
        expect_row(is_read == (master_rows[i].at != NULL), master_rows[i].why);
        if (is_read)
            store_address_show(&at, name);
        expect_row(!is_read || strcmp(name, master_rows[i].at) == 0, master_rows[i].why);
        free((char *)reply.at);
    }
}

static const struct address_row switch_rows[] = {
    { "RESP3", ">3\r\n" B(7, "message") B(14, "+switch-master") B(28, "m 127.0.0.1 7000 10.0.0.1 71"),
      "10.0.0.1:71" },
    { "RESP2", "*3\r\n" B(7, "message") B(14, "+switch-master") B(28, "m 127.0.0.1 7000 10.0.0.1 71"),
      "10.0.0.1:71" },
    { "another master", ">3\r\n" B(7, "message") B(14, "+switch-master") B(29, "mm 127.0.0.1 7000 10.0.0.1 71"),
      NULL },
    { "another channel", ">3\r\n" B(7, "message") B(5, "+slot") B(28, "m 127.0.0.1 7000 10.0.0.1 71"), NULL },
    { "the confirmation", ">3\r\n" B(9, "subscribe") B(14, "+switch-master") ":1\r\n", NULL },
    { "cut", ">3\r\n" B(7, "message") B(14, "+switch-master") B(16, "m 127.0.0.1 7000"), NULL },
    { "nothing in it", ">3\r\n" B(7, "message") B(14, "+switch-master") B(0, ""), NULL },
};

static void switches_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(switch_rows); i++) {
        struct store_address at;
        char name[STORE_ADDRESS_MAX];
        struct slice push = copy_of(switch_rows[i].reply);
        bool is_read = sentinel_read_switch(push, "m", &at);
        expect_row(is_read == (switch_rows[i].at != NULL), switch_rows[i].why);
        if (is_read)
            store_address_show(&at, name);
        expect_row(!is_read || strcmp(name, switch_rows[i].at) == 0, switch_rows[i].why);
        free((char *)push.at);
    }
}

static void other_sentinels_are_learned_once_and_not_without_end(void **state)
{
    (void)state;
    static struct sentinels known;
    char reply[SENTINELS_MAX * 80 + 400];
    struct slice some = copy_of("*2\r\n"
                                "*6\r\n" B(4, "name") B(1, "x") B(2, "ip") B(8, "10.0.0.1") B(4, "port")
                                    B(5, "26379") "%3\r\n" B(4, "port") B(5, "26380") B(2, "ip")
                                        B(8, "10.0.0.1") B(5, "flags") B(1, "s"));
    sentinel_read_others(some, &known);
    sentinel_read_others(some, &known);
    assert_int_equal(known.count, 2);
    assert_int_equal(known.at[1].port, 26380);
    free((char *)some.at);

    size_t len = (size_t)sprintf(reply, "*%d\r\n", SENTINELS_MAX + 5);
    for (int i = 0; i < SENTINELS_MAX + 5; i++)
        len += (size_t)sprintf(reply + len, "*4\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n$4\r\nport\r\n$4\r\n%d\r\n",
                               1000 + i);
    struct slice many = copy_of(reply);
    sentinel_read_others(many, &known);
    assert_int_equal(known.count, SENTINELS_MAX);
    free((char *)many.at);

    known.count = 0;
    struct slice odd = copy_of("*2\r\n*3\r\n" B(2, "ip") B(1, "x") B(4, "port"));
    sentinel_read_others(odd, &known);
    assert_int_equal(known.count, 0);
    free((char *)odd.at);
}

static const struct role_row {
    const char *why, *reply;
    enum node_role role;
    size_t replicas;
} role_rows[] = {
    { "a master without replicas", "*3\r\n" B(6, "master") ":0\r\n*0\r\n", ROLE_MASTER, 0 },
    { "a master with one",
      "*3\r\n" B(6, "master") ":9\r\n*1\r\n*3\r\n" B(9, "127.0.0.1") B(4, "7001") B(1, "9"), ROLE_MASTER, 1 },
    { "a replica", "*5\r\n" B(5, "slave") B(9, "127.0.0.1") ":7000\r\n" B(9, "connected") ":9\r\n",
      ROLE_REPLICA, 0 },
    { "a Sentinel", "*2\r\n" B(8, "sentinel") "*1\r\n" B(1, "m"), ROLE_SENTINEL, 0 },
    { "a word that is none of them", "*1\r\n" B(4, "king"), ROLE_UNKNOWN, 0 },
    { "an error", "-NOPERM this user has no permissions to run the 'role' command\r\n", ROLE_UNKNOWN, 0 },
    { "INFO of a master", B(29, "# Replication\r\nrole:master\r\nx"), ROLE_MASTER, 0 },
    { "INFO of a replica, in RESP3", "=32\r\ntxt:# Replication\r\nrole:slave\r\nx\r\n", ROLE_REPLICA, 0 },
    { "INFO whose line ends it", B(10, "role:slave"), ROLE_REPLICA, 0 },
    { "INFO that does not tell", B(16, "my_role:master\r\n"), ROLE_UNKNOWN, 0 },
    { "nothing", "", ROLE_UNKNOWN, 0 },
};

static void roles_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(role_rows); i++) {
        struct store_address replicas[4];
        struct slice reply = copy_of(role_rows[i].reply);
        expect_row(role_read(reply) == role_rows[i].role, role_rows[i].why);
        expect_row(role_read_replicas(reply, replicas, 4) == role_rows[i].replicas, role_rows[i].why);
        free((char *)reply.at);
    }
}

static const struct refusal_row {
    const char *reply;
    enum refusal refusal;
} refusal_rows[] = {
    { "+OK\r\n", REFUSAL_NONE },
    { "-MOVED 3999 127.0.0.1:6381\r\n", REFUSAL_MOVED },
    { "-ASK 3999 127.0.0.1:6381\r\n", REFUSAL_ASK },
    { "-TRYAGAIN Multiple keys request during rehashing of slot\r\n", REFUSAL_MOVING },
    { "-CLUSTERDOWN The cluster is down\r\n", REFUSAL_DOWN },
    { "-CLUSTERDOWN Hash slot not served\r\n", REFUSAL_DOWN },
    { "-READONLY You can't write against a read only replica.\r\n", REFUSAL_ROLE },
    { "-READONLY You can't write against a read only replica. script: 1ba0, on @user_script:1.\r\n",
      REFUSAL_ROLE },
    { "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n", REFUSAL_ROLE },
    { "-LOADING Redis is loading the dataset in memory\r\n", REFUSAL_BUSY },
    { "-BUSY Redis is busy running a script.\r\n", REFUSAL_BUSY },
    { "-OOM command not allowed when used memory > 'maxmemory'.\r\n", REFUSAL_BUSY },
    { "-MISCONF Redis is configured to save RDB snapshots\r\n", REFUSAL_BUSY },
    { "-NOREPLICAS Not enough good replicas to write.\r\n", REFUSAL_BUSY },
    { "-NOAUTH Authentication required.\r\n", REFUSAL_STRANGER },
    { "!21\r\nREADONLY You can't do\r\n", REFUSAL_ROLE },
    { "-ERR Error running script (call to f_1ba0): @user_script:1: @user_script: 1: -READONLY You can't "
      "write\r\n",
      REFUSAL_ROLE },
    { "-ERR Error running script (call to f_1ba0): @user_script:1: @user_script: 1: -OOM command not "
      "allowed\r\n",
      REFUSAL_BUSY },
    /* the command's own errors */
    { "-NOSCRIPT No matching script. Please use EVAL.\r\n", REFUSAL_NONE },
    { "-NOPERM this user has no permissions to run the 'evalsha' command\r\n", REFUSAL_NONE },
    { "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", REFUSAL_NONE },
    { "-ERR Error running script (call to f_1ba0): -MOVED 1 127.0.0.1:1\r\n", REFUSAL_NONE },
    { "-ERR Error running script (call to f_1ba0)\r\n", REFUSAL_NONE },
    { "-ERR -READONLY\r\n", REFUSAL_NONE },
    { "$8\r\nREADONLY\r\n", REFUSAL_NONE },
    { "-\r\n", REFUSAL_NONE },
};

static void refusals_are_told_from_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refusal_rows); i++) {
        struct slice reply = copy_of(refusal_rows[i].reply), error;
        expect_row(refusal_read(reply, &error) == refusal_rows[i].refusal, refusal_rows[i].reply);
        free((char *)reply.at);
    }
}

static const struct incarnation_row {
    const char *why, *text;
    bool is_good;
    uint64_t id, began_at_us;
} incarnation_rows[] = {
    { "as we write it", "00000000000000ff 1785000000000000", true, 255, 1785000000000000 },
    { "all digits", "fedcba9876543210 0", true, 0xfedcba9876543210, 0 },
    { "the last microsecond that scripts can count", "0000000000000001 4503599627370495", true, 1,
      4503599627370495 },
    { "beyond", "0000000000000001 4503599627370496", false, 0, 0 },
    { "nobody's", "0000000000000000 5", false, 0, 0 },
    { "capital letters", "00000000000000FF 5", false, 0, 0 },
    { "a short name", "ff 5", false, 0, 0 },
    { "no time", "00000000000000ff ", false, 0, 0 },
    { "no blank", "00000000000000ff", false, 0, 0 },
    { "a sign", "00000000000000ff -5", false, 0, 0 },
    { "a zero in front", "00000000000000ff 05", false, 0, 0 },
    { "something behind", "00000000000000ff 5 ", false, 0, 0 },
    { "nothing", "", false, 0, 0 },
};

static void incarnations_are_read_as_they_are_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(incarnation_rows); i++) {
        const struct incarnation_row *row = &incarnation_rows[i];
        struct incarnation got = { 0 };
        char text[INCARNATION_TEXT_MAX];
        struct slice given = copy_of(row->text);
        expect_row(incarnation_read(given, &got) == row->is_good, row->why);
        expect_row(got.id == row->id && got.began_at_us == row->began_at_us, row->why);
        if (row->is_good) {
            size_t len = incarnation_write(got, text);
            expect_row(slice_equals(given, (struct slice){ text, len }), row->why);
        }
        free((char *)given.at);
    }
    char key[INCARNATION_KEY_MAX];
    assert_int_equal(incarnation_key(17, key), strlen("weir:1:{17}:incarnation"));
    assert_string_equal(key, "weir:1:{17}:incarnation");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masters_are_read),
        cmocka_unit_test(switches_are_read),
        cmocka_unit_test(other_sentinels_are_learned_once_and_not_without_end),
        cmocka_unit_test(roles_are_read),
        cmocka_unit_test(refusals_are_told_from_errors),
        cmocka_unit_test(incarnations_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
