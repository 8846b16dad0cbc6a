// SPDX-License-Identifier: Apache-2.0
/*
 * test_store_one.c - the carrier to a single real server: starts after us, dies, comes back, is a replica, forbids, is frozen.
 */
#include "fleet/script.h"
#include "store_rig.h"

static void a_server_that_starts_later_is_found(void **state)
{
    (void)state;
    struct rig_server server;
    struct rig rig;
    struct rig_call one;
    rig_prepare(&server, "redis-server");
    rig_open(&rig, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig_send(&rig, &one, 0, "PING"); /* at once, without a turn of the loop */
    assert_true(one.is_done);
    assert_int_equal(one.result, CARRIER_REFUSED);
    assert_non_null(one.call.outage);
    rig_until(&rig, strstr(rig.log, "event=store-down") != NULL);
    rig_turn_ms(&rig, 300);
    assert_null(strstr(strstr(rig.log, "event=store-down") + 1, "event=store-down")); /* not once per attempt */

    rig_start(&server);
    rig_until(&rig, rig_is_up(&rig, "master"));
    assert_int_equal(rig_call(&rig, &one, 0, "SET k 1"), CARRIER_REPLY);
    assert_string_equal(one.reply, "+OK\r\n");
    assert_true(rig.carrier->is_whole(rig.carrier));
    assert_ptr_equal(rig.carrier->outage(rig.carrier, 0), rig.carrier->outage(rig.carrier, 16383));
    assert_ptr_equal(one.call.outage, rig.carrier->outage(rig.carrier, 7));
    rig_close(&rig);
    rig_stop(&server);
}

static void errors_of_the_command_are_replies(void **state)
{
    (void)state;
    struct rig_server server;
    struct rig rig;
    struct rig_call one;
    rig_prepare(&server, "redis-server");
    rig_start(&server);
    rig_open(&rig, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig_until(&rig, rig_is_up(&rig, "master"));
    assert_int_equal(rig_call(&rig, &one, 0, "EVALSHA 0123456789012345678901234567890123456789 0"),
                     CARRIER_REPLY);
    assert_memory_equal(one.reply, "-NOSCRIPT", 9);
    assert_int_equal(rig_call(&rig, &one, 0, "LPUSH list 1"), CARRIER_REPLY);
    assert_int_equal(rig_call(&rig, &one, 0, "INCR list"), CARRIER_REPLY);
    assert_memory_equal(one.reply, "-WRONGTYPE", 10);
    rig_close(&rig);
    rig_stop(&server);
}

static void a_server_that_dies_loses_what_was_sent_and_refuses_the_rest(void **state)
{
    (void)state;
    struct rig_server server;
    struct rig rig;
    struct rig_call sent, later;
    rig_prepare(&server, "redis-server");
    rig_start(&server);
    rig_open(&rig, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig_until(&rig, rig_is_up(&rig, "master"));
    (void)kill(server.pid, SIGSTOP);
    rig_send(&rig, &sent, 0, "INCR k");
    rig_turn_ms(&rig, 50);
    assert_false(sent.is_done);
    rig_kill(&server);
    rig_until(&rig, sent.is_done);
    assert_int_equal(sent.result, CARRIER_LOST);
    rig_send(&rig, &later, 0, "INCR k");
    assert_true(later.is_done);
    assert_int_equal(later.result, CARRIER_REFUSED);

    rig_start(&server); /* empty, on the same port */
    rig_until(&rig, rig_is_up(&rig, "master"));
    assert_int_equal(rig_call(&rig, &later, 0, "INCR k"), CARRIER_REPLY);
    assert_string_equal(later.reply, ":1\r\n"); /* neither of the two went out again */
    rig_close(&rig);
    rig_stop(&server);
}

static void what_was_abandoned_is_read_and_not_told(void **state)
{
    (void)state;
    struct rig_server server;
    struct rig rig;
    struct rig_call gone, next;
    rig_prepare(&server, "redis-server");
    rig_start(&server);
    rig_open(&rig, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig_until(&rig, rig_is_up(&rig, "master"));
    rig_send(&rig, &gone, 0, "ECHO first");
    rig.carrier->abandon(rig.carrier, &gone.call);
    assert_int_equal(rig_call(&rig, &next, 0, "ECHO second"), CARRIER_REPLY);
    assert_string_equal(next.reply, "$6\r\nsecond\r\n");
    assert_false(gone.is_done);
    rig_close(&rig);
    rig_stop(&server);
}

static void a_replica_refuses_and_is_asked_again(void **state)
{
    (void)state;
    struct rig_server server;
    struct rig rig;
    struct rig_call one;
    rig_prepare(&server, "redis-server");
    rig_start(&server);
    rig_open(&rig, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig_until(&rig, rig_is_up(&rig, "master"));

    /* Demoted under our connection: READONLY is no reply. */
    (void)rig_ask(server.port, "REPLICAOF 127.0.0.1 1");
    assert_int_equal(rig_call(&rig, &one, 0, "SET k 1"), CARRIER_REFUSED);
    assert_false(one.call.is_topology);
    rig_send(&rig, &one, 0, "SET k 1");
    assert_true(one.is_done); /* it is known now: not asked */
    assert_int_equal(one.result, CARRIER_REFUSED);
    assert_non_null(strstr(rig.log, "why=\"it is a replica\""));

    (void)rig_ask(server.port, "REPLICAOF NO ONE");
    rig_until(&rig, rig_is_up(&rig, "master"));
    assert_int_equal(rig_call(&rig, &one, 0, "SET k 1"), CARRIER_REPLY);
    rig_close(&rig);

    /* A replica from the beginning is not used at all. */
    (void)rig_ask(server.port, "REPLICAOF 127.0.0.1 1");
    rig_open(&rig, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig_until(&rig, strstr(rig.log, "why=\"it is a replica\"") != NULL);
    assert_int_equal(rig_call(&rig, &one, 0, "GET k"), CARRIER_REFUSED);
    rig_close(&rig);
    rig_stop(&server);
}

static void a_full_or_busy_server_refuses(void **state)
{
    (void)state;
    struct rig_server server;
    struct rig rig;
    struct rig_call one;
    rig_prepare(&server, "redis-server");
    rig_start(&server);
    rig_open(&rig, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig_until(&rig, rig_is_up(&rig, "master"));
    (void)rig_ask(server.port, "CONFIG SET maxmemory 1");
    assert_int_equal(rig_call(&rig, &one, 0, "SET k 1"), CARRIER_REFUSED); /* OOM */
    assert_int_equal(rig_call(&rig, &one, 0, "EVAL return(redis.call('set',KEYS[1],'1')) 1 k"),
                     CARRIER_REFUSED);
    (void)rig_ask(server.port, "CONFIG SET maxmemory 0");
    (void)rig_ask(server.port, "CONFIG SET min-replicas-to-write 1");
    assert_int_equal(rig_call(&rig, &one, 0, "SET k 1"), CARRIER_REFUSED); /* NOREPLICAS */
    (void)rig_ask(server.port, "CONFIG SET min-replicas-to-write 0");
    assert_int_equal(rig_call(&rig, &one, 0, "EXISTS k"), CARRIER_REPLY);
    assert_string_equal(one.reply, ":0\r\n"); /* none of them was executed */
    rig_close(&rig);
    rig_stop(&server);
}

/* ---- Incarnations ----------------------------------------------------------------------------------------------------- */

static void an_incarnation_is_made_once_and_kept(void **state)
{
    (void)state;
    struct rig_server server;
    struct rig first, second;
    rig_prepare(&server, "redis-server");
    rig_start(&server);
    rig_open(&first, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig_until(&first, rig_is_up(&first, "master"));
    rig_open(&second, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig_until(&second, rig_is_up(&second, "master"));
    struct incarnation x = first.carrier->incarnation(first.carrier, 5);
    struct incarnation y = second.carrier->incarnation(second.carrier, 9);
    assert_true(x.id != 0);
    assert_true(x.id == y.id && x.began_at_us == y.began_at_us);
    assert_true(x.began_at_us / 1000000 >= (uint64_t)time(NULL) - 120
                && x.began_at_us / 1000000 <= (uint64_t)time(NULL));
    assert_string_not_equal(rig_ask(server.port, "PTTL weir:1:{0}:incarnation"), ":-1\r\n");
    rig_close(&first);

    /* Whatever is lost or damaged begins anew: younger, never older. */
    static const char *const harms[] = { "FLUSHALL", "SET weir:1:{0}:incarnation hello",
                                         "SET weir:1:{0}:incarnation ''",
                                         "SET weir:1:{0}:incarnation '0000000000000000 5'" };
    for (size_t i = 0; i < COUNT_OF(harms) + 1; i++) {
        if (i == COUNT_OF(harms)) {
            (void)rig_ask(server.port, "DEL weir:1:{0}:incarnation");
            (void)rig_ask(server.port, "LPUSH weir:1:{0}:incarnation 1");
        } else {
            (void)rig_ask(server.port, "%s", harms[i]);
        }
        rig_open(&first, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
        rig_until(&first, rig_is_up(&first, "master"));
        struct incarnation z = first.carrier->incarnation(first.carrier, 5);
        assert_true(z.id != 0 && z.id != x.id);
        assert_true(z.began_at_us > x.began_at_us);
        x = z;
        rig_close(&first);
    }
    /* Who stayed connected all the time notices it, too. */
    rig_until(&second, second.carrier->incarnation(second.carrier, 5).id == x.id);
    assert_non_null(strstr(second.log, "event=store-state-lost"));
    rig_close(&second);
    rig_stop(&server);
}

static void a_server_that_forbids_the_record_is_used_without(void **state)
{
    (void)state;
    struct rig_server server;
    struct rig rig;
    struct rig_call one;
    rig_prepare(&server, "redis-server");
    rig_start(&server);
    (void)rig_ask(server.port, "ACL SETUSER default -@all +ping +echo +hello +client +acl");
    rig_open(&rig, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig_until(&rig, rig_is_up(&rig, "master")); /* ROLE is forbidden as well */
    assert_int_equal(rig.carrier->incarnation(rig.carrier, 0).id, 0);
    assert_non_null(strstr(rig.log, "event=store-incarnation-forbidden"));
    assert_int_equal(rig_call(&rig, &one, 0, "ECHO x"), CARRIER_REPLY);
    rig_close(&rig);
    rig_stop(&server);
}

/* ---- Calls that end within each other --------------------------------------------------------------------------------- */

struct pair {
    struct rig *rig;
    struct rig_call *first; /* abandoned and freed by the second; NULL: it was */
    bool is_done;
};

static void first_done(struct carrier_call *call, enum carrier_result result, struct slice reply)
{
    (void)call;
    (void)result;
    (void)reply;
    fail_msg("it was abandoned");
}

static void second_done(struct carrier_call *call, enum carrier_result result, struct slice reply)
{
    struct pair *pair = call->owner;
    (void)result;
    (void)reply;
    pair->is_done = true;
    pair->rig->carrier->abandon(pair->rig->carrier, &pair->first->call);
    memset(pair->first, 0xa5, sizeof *pair->first);
    free(pair->first);
    pair->first = NULL;
}

/* NOAUTH to one command resets the link, which ends the next one, whose owner gives up both. */
static void a_refusal_may_end_another_call_that_abandons_this_one(void **state)
{
    (void)state;
    struct rig_server server;
    struct rig rig;
    struct rig_call reset, second;
    static char password[] = "pw";
    rig_prepare(&server, "redis-server");
    rig_start(&server);
    assert_string_equal(rig_ask(server.port, "CONFIG SET requirepass pw"), "+OK\r\n");
    rig_prepare_url(&rig, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig.url.password = password;
    rig_open_url(&rig);
    rig_until(&rig, rig_is_up(&rig, "master"));
    struct pair pair = { .rig = &rig, .first = malloc(sizeof *pair.first) };
    assert_non_null(pair.first);
    rig_send(&rig, &reset, 0, "RESET"); /* the connection is nobody's now */
    rig_send(&rig, pair.first, 0, "GET a");
    pair.first->call.done = first_done;
    rig_send(&rig, &second, 0, "GET b");
    second.call.done = second_done;
    second.call.owner = &pair;
    rig_until(&rig, pair.is_done);
    assert_null(pair.first);
    rig_until(&rig, rig_is_up(&rig, "master"));
    rig_close(&rig);
    rig_stop(&server);
}

/* ---- The script ------------------------------------------------------------------------------------------------------ */

static bool knows_script(const struct rig_server *server)
{
    const char *reply = rig_ask(server->port, "SCRIPT EXISTS %.*s", (int)script_hash().len, script_hash().at);
    assert_int_equal(strncmp(reply, "*1\r\n:", 5), 0);
    return reply[5] == '1';
}

static void the_script_is_there_before_the_first_decision(void **state)
{
    static const struct {
        const char *acl;
        bool only_looks, is_known;
        const char *why;
    } rows[] = {
        { "+@all", false, true, "brought before the node is used" },
        { "+@all", true, false, "who decides nothing leaves the store as it is" },
        { "+@all -script|load", false, false, "where it is forbidden it is done without, and nobody is told" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rig_server server;
        struct rig rig;
        struct rig_call one;
        rig_prepare(&server, "redis-server");
        rig_start(&server);
        assert_string_equal(rig_ask(server.port, "ACL SETUSER default %s", rows[i].acl), "+OK\r\n");
        rig_prepare_url(&rig, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
        rig.only_looks = rows[i].only_looks;
        rig_open_url(&rig);
        rig_until(&rig, rig_is_up(&rig, "master"));
        if (knows_script(&server) != rows[i].is_known)
            fail_msg("%s", rows[i].why);
        assert_int_equal(rig_call(&rig, &one, 0, "ECHO x"), CARRIER_REPLY);
        const char *up = strstr(rig.log, "event=");
        assert_int_equal(strncmp(up, "event=store-up", 14), 0);
        assert_null(strstr(up + 1, "event="));

        /* A store that is started again has forgotten it. */
        rig_kill(&server);
        rig_until(&rig, !rig_is_up(&rig, "master"));
        rig_start(&server);
        (void)rig_ask(server.port, "ACL SETUSER default %s", rows[i].acl);
        rig_until(&rig, rig_is_up(&rig, "master"));
        if (strcmp(rows[i].acl, "+@all") == 0) /* else it may have been greeted before */
            assert_int_equal(knows_script(&server), rows[i].is_known);
        rig_close(&rig);
        rig_stop(&server);
    }
}

/* ---- Others than a store ------------------------------------------------------------------------------------------------ */

static void what_is_no_single_store_is_named(void **state)
{
    (void)state;
    struct rig_server server;
    struct rig rig;
    struct rig_call one;
    rig_prepare(&server, "redis-server");
    rig_word(&server, "--cluster-enabled");
    rig_word(&server, "yes");
    rig_start(&server);
    (void)rig_ask(server.port, "CLUSTER ADDSLOTSRANGE 0 16383");
    rig_await(server.port, "CLUSTER INFO", "cluster_state:ok");
    (void)rig_ask(server.port, "CLUSTER SETSLOT 12182 NODE 0123456789012345678901234567890123456789");
    rig_open(&rig, URL_ONE, (unsigned[]){ server.port, 0 }, NULL);
    rig_until(&rig, rig_is_up(&rig, "master"));
    (void)rig_ask(server.port, "CLUSTER DELSLOTS 12182");                  /* of "foo" */
    assert_int_equal(rig_call(&rig, &one, 0, "GET foo"), CARRIER_REFUSED); /* CLUSTERDOWN */
    rig_close(&rig);
    rig_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_starts_later_is_found),
        cmocka_unit_test(errors_of_the_command_are_replies),
        cmocka_unit_test(a_server_that_dies_loses_what_was_sent_and_refuses_the_rest),
        cmocka_unit_test(what_was_abandoned_is_read_and_not_told),
        cmocka_unit_test(a_replica_refuses_and_is_asked_again),
        cmocka_unit_test(a_full_or_busy_server_refuses),
        cmocka_unit_test(an_incarnation_is_made_once_and_kept),
        cmocka_unit_test(a_server_that_forbids_the_record_is_used_without),
        cmocka_unit_test(a_refusal_may_end_another_call_that_abandons_this_one),
        cmocka_unit_test(the_script_is_there_before_the_first_decision),
        cmocka_unit_test(what_is_no_single_store_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
