// SPDX-License-Identifier: Apache-2.0
/*
 * test_sentinel_client.c - the carrier to a real master with a replica and three Sentinels: found through any of them, followed when it
 * is killed or demoted, never used when it is no master.
 *
 * LABELS: slow
 */
#include "store_rig.h"

#define SENTINELS 3

struct watched {
    struct rig_server master, replica, sentinel[SENTINELS];
};

static void start_sentinel(struct watched *watched, unsigned i, const char *more)
{
    struct rig_server *server = &watched->sentinel[i];
    char path[128], text[1024];
    rig_prepare(server, "redis-server");
    server->count = 1; /* all but its name stands in a file */
    (void)snprintf(path, sizeof path, "%s/s.conf", server->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)snprintf(
        text, sizeof text,
        "port %u\nbind 127.0.0.1\nsentinel monitor m 127.0.0.1 %u 2\nsentinel down-after-milliseconds m 1000\n"
        "sentinel failover-timeout m 4000\n%s\n",
        server->port, watched->master.port, more);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
    rig_word(server, "%s", path);
    rig_word(server, "--sentinel");
    rig_run(server);
}

static void start(struct watched *watched)
{
    rig_prepare(&watched->master, "redis-server");
    rig_start(&watched->master);
    rig_prepare(&watched->replica, "redis-server");
    rig_word(&watched->replica, "--replicaof");
    rig_word(&watched->replica, "127.0.0.1");
    rig_word(&watched->replica, "%u", watched->master.port);
    rig_start(&watched->replica);
    for (unsigned i = 0; i < SENTINELS; i++)
        start_sentinel(watched, i, "");
    for (unsigned i = 0; i < SENTINELS; i++) { /* an earlier kill is not failed over */
        rig_await(watched->sentinel[i].port, "SENTINEL MASTER m", "num-slaves\r\n$1\r\n1");
        rig_await(watched->sentinel[i].port, "SENTINEL MASTER m", "num-other-sentinels\r\n$1\r\n2");
    }
    rig_await(watched->master.port, "INFO replication", "state=online");
}

static void stop(struct watched *watched)
{
    for (unsigned i = 0; i < SENTINELS; i++)
        rig_stop(&watched->sentinel[i]);
    rig_stop(&watched->replica);
    rig_stop(&watched->master);
}

/* Which node is used, by its port; 0: none. */
static unsigned used(const struct rig *rig)
{
    struct store_node nodes[8];
    size_t count = store_client_nodes(rig->carrier, nodes, COUNT_OF(nodes));
    for (size_t i = 0; i < count; i++)
        if (nodes[i].is_up)
            return (unsigned)atoi(strrchr(nodes[i].address, ':') + 1);
    return 0;
}

static void a_killed_master_is_followed(void **state)
{
    (void)state;
    struct watched watched;
    struct rig rig;
    struct rig_call one;
    struct store_node others[8];
    start(&watched);
    unsigned dead = rig_port();
    rig_open(&rig, URL_SENTINEL, (unsigned[]){ dead, watched.sentinel[1].port, 0 },
             "m"); /* the first seed is dead */
    rig_send(&rig, &one, 0, "SET k 1");
    assert_true(one.is_done && one.result == CARRIER_REFUSED);
    rig_until(&rig, used(&rig) == watched.master.port);
    assert_true(rig.carrier->is_whole(rig.carrier));
    assert_int_equal(rig_call(&rig, &one, 9, "SET k 1"), CARRIER_REPLY);
    struct outage *outage = one.call.outage;
    struct incarnation before = rig.carrier->incarnation(rig.carrier, 0);
    rig_until(&rig, store_client_others(rig.carrier, others, COUNT_OF(others))
                        == 5); /* a replica, two seeds, two learned */

    rig_kill(&watched.master);
    rig_until(&rig, used(&rig) == 0);
    rig_send(&rig, &one, 0, "SET k 2");
    assert_true(one.is_done && one.result == CARRIER_REFUSED); /* at once */
    assert_ptr_equal(one.call.outage, outage);

    rig_until(&rig, used(&rig) == watched.replica.port);
    assert_int_equal(rig_call(&rig, &one, 0, "SET k 3"), CARRIER_REPLY);
    assert_ptr_equal(one.call.outage, outage); /* one outage of one store */
    assert_non_null(strstr(rig.log, "event=sentinel-switch"));
    struct incarnation after = rig.carrier->incarnation(rig.carrier, 0);
    assert_true(before.id != 0 && after.id == before.id && after.began_at_us == before.began_at_us);

    /* The old one comes back, as a replica of the new one: it is not used. */
    rig_start(&watched.master);
    rig_await(watched.master.port, "ROLE", "slave");
    rig_turn_ms(&rig, 500);
    assert_int_equal(used(&rig), watched.replica.port);
    assert_int_equal(rig_call(&rig, &one, 0, "GET k"), CARRIER_REPLY);
    assert_string_equal(one.reply, "$1\r\n3\r\n");
    rig_close(&rig);
    stop(&watched);
}

static void a_master_that_hands_over_is_left_and_sentinels_may_die(void **state)
{
    (void)state;
    struct watched watched;
    struct rig rig;
    struct rig_call one;
    start(&watched);
    rig_open(&rig, URL_SENTINEL, (unsigned[]){ watched.sentinel[0].port, 0 },
             "m"); /* one seed: the others are learned */
    rig_until(&rig, used(&rig) == watched.master.port);
    rig_turn_ms(&rig, 200);
    rig_kill(&watched.sentinel[0]);
    rig_turn_ms(&rig, 200);

    rig_await(watched.sentinel[1].port, "SENTINEL FAILOVER m",
              "+OK"); /* without any outage: the master is demoted */
    rig_until(&rig, used(&rig) == watched.replica.port);
    assert_int_equal(rig_call(&rig, &one, 0, "SET k 1"), CARRIER_REPLY);
    rig_await(watched.master.port, "ROLE", "slave");
    rig_await(watched.master.port, "GET k", "$1\r\n1"); /* what was written there has come here */
    rig_close(&rig);
    stop(&watched);
}

static void what_a_sentinel_calls_the_master_has_to_say_so_itself(void **state)
{
    (void)state;
    struct watched watched;
    struct rig rig;
    struct rig_call one;
    rig_prepare(&watched.master, "redis-server");
    rig_start(&watched.master);
    (void)rig_ask(watched.master.port, "REPLICAOF 127.0.0.1 1");
    start_sentinel(&watched, 0, "");
    rig_await(watched.sentinel[0].port, "PING", "PONG");
    rig_open(&rig, URL_SENTINEL, (unsigned[]){ watched.sentinel[0].port, 0 }, "m");
    rig_until(&rig, strstr(rig.log, "why=\"it is a replica\"") != NULL);
    assert_int_equal(rig_call(&rig, &one, 0, "GET k"), CARRIER_REFUSED);
    assert_int_equal(used(&rig), 0);
    (void)rig_ask(watched.master.port, "REPLICAOF NO ONE");
    rig_until(&rig, used(&rig) == watched.master.port);
    rig_close(&rig);

    /* A name that it does not know. */
    rig_open(&rig, URL_SENTINEL, (unsigned[]){ watched.sentinel[0].port, 0 }, "nobody");
    rig_until(&rig, strstr(rig.log, "it does not know a master of this name") != NULL);
    rig_turn_ms(&rig, 300);
    assert_null(strstr(strstr(rig.log, "sentinel-down") + 1, "sentinel-down")); /* told once */
    rig_close(&rig);
    rig_stop(&watched.sentinel[0]);
    rig_stop(&watched.master);
}

static void a_sentinel_with_the_password_of_the_nodes_is_greeted_with_it(void **state)
{
    (void)state;
    struct watched watched;
    struct rig rig;
    struct rig_call one;
    rig_prepare(&watched.master, "redis-server");
    rig_start(&watched.master);
    start_sentinel(&watched, 0, "requirepass secret");
    start_sentinel(&watched, 1, "");
    rig_await(watched.sentinel[0].port, "PING", "NOAUTH");
    rig_await(watched.sentinel[1].port, "PING", "PONG");
    (void)rig_ask(watched.master.port, "CONFIG SET requirepass secret");
    for (unsigned i = 0; i < 2; i++) { /* one that wants it, and one that does not know it */
        rig_prepare_url(&rig, URL_SENTINEL, (unsigned[]){ watched.sentinel[i].port, 0 }, "m");
        rig.url.password = "secret";
        rig_open_url(&rig);
        rig_until(&rig, used(&rig) == watched.master.port);
        assert_int_equal(rig_call(&rig, &one, 0, "SET k 1"), CARRIER_REPLY);
        assert_null(strstr(rig.log, "secret"));
        rig_close(&rig);
    }
    rig_stop(&watched.sentinel[0]);
    rig_stop(&watched.sentinel[1]);
    rig_stop(&watched.master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_master_is_followed),
        cmocka_unit_test(a_master_that_hands_over_is_left_and_sentinels_may_die),
        cmocka_unit_test(what_a_sentinel_calls_the_master_has_to_say_so_itself),
        cmocka_unit_test(a_sentinel_with_the_password_of_the_nodes_is_greeted_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
