// SPDX-License-Identifier: Apache-2.0
/*
 * test_cluster_client.c - the carrier to a real Cluster: dead seeds, slots that move under load, nodes that die, fail over, come back.
 *
 * LABELS: slow
 */
#include "store_rig.h"

#include "fleet/carrier.h"

#define MASTERS 3
#define NODES (MASTERS + 1) /* the last one is the first one's replica, where there is one */

struct nodes {
    struct rig_server at[NODES];
    char id[NODES][41];
    unsigned count;
};

/* The text of a bulk string that came. */
static void copy_text(const char *reply, char *out, size_t cap)
{
    const char *at = strchr(reply, '\n');
    assert_non_null(at);
    size_t len = strcspn(at + 1, "\r\n");
    assert_true(len < cap);
    memcpy(out, at + 1, len);
    out[len] = '\0';
}

static void start_node(struct nodes *nodes, unsigned i)
{
    struct rig_server *server = &nodes->at[i];
    rig_prepare(server, "redis-server");
    rig_word(server, "--cluster-enabled");
    rig_word(server, "yes");
    rig_word(server, "--cluster-node-timeout");
    rig_word(server, "1000");
    rig_word(server, "--cluster-replica-validity-factor");
    rig_word(server, "0");
    rig_start(server);
    copy_text(rig_ask(server->port, "CLUSTER MYID"), nodes->id[i], sizeof nodes->id[i]);
}

/* Three masters with a third of the slots each, and perhaps a replica of the first. */
static void start(struct nodes *nodes, bool has_replica)
{
    static const char *const slots[MASTERS] = { "0 5460", "5461 10922", "10923 16383" };
    nodes->count = MASTERS + has_replica;
    for (unsigned i = 0; i < nodes->count; i++)
        start_node(nodes, i);
    for (unsigned i = 0; i < MASTERS; i++)
        (void)rig_ask(nodes->at[i].port, "CLUSTER ADDSLOTSRANGE %s", slots[i]);
    for (unsigned i = 0; i < nodes->count; i++) /* epochs that differ, as redis-cli sees to */
        (void)rig_ask(nodes->at[i].port, "CLUSTER SET-CONFIG-EPOCH %u", i + 1);
    for (unsigned i = 1; i < nodes->count; i++)
        (void)rig_ask(nodes->at[0].port, "CLUSTER MEET 127.0.0.1 %u", nodes->at[i].port);
    for (unsigned i = 0; i < nodes->count; i++) {
        rig_await(nodes->at[i].port, "CLUSTER INFO", "cluster_state:ok");
        rig_await(nodes->at[i].port, "CLUSTER INFO", has_replica ? "known_nodes:4" : "known_nodes:3");
    }
    if (!has_replica)
        return;
    (void)rig_ask(nodes->at[MASTERS].port, "CLUSTER REPLICATE %s", nodes->id[0]);
    rig_await(nodes->at[0].port, "INFO replication", "state=online");
    char port[16];
    (void)snprintf(port, sizeof port, ":%u", nodes->at[MASTERS].port);
    assert_string_equal(rig_ask(nodes->at[0].port, "SET {06S}x 1"),
                        "+OK\r\n"); /* else it has no offset, and is not shown */
    for (unsigned i = 0; i < MASTERS; i++)
        rig_await(nodes->at[i].port, "CLUSTER SLOTS", port);
}

static void stop(struct nodes *nodes)
{
    for (unsigned i = 0; i < nodes->count; i++)
        rig_stop(&nodes->at[i]);
}

static unsigned slot_of(const struct nodes *nodes, const char *key)
{
    unsigned slot = SLOT_COUNT;
    const char *reply = rig_ask(nodes->at[1].port, "CLUSTER KEYSLOT %s", key);
    assert_int_equal(sscanf(reply, ":%u", &slot), 1);
    return slot;
}

/* How many nodes are up, and how many there are with a link. */
static size_t nodes_up(const struct rig *rig, size_t *count)
{
    struct store_node nodes[16];
    size_t up = 0;
    *count = store_client_nodes(rig->carrier, nodes, COUNT_OF(nodes));
    for (size_t i = 0; i < *count; i++)
        up += nodes[i].is_up;
    return up;
}

static void until_up(struct rig *rig, size_t up)
{
    size_t count;
    rig_until(rig, nodes_up(rig, &count) == up);
}

static void any_living_seed_leads_to_all_nodes(void **state)
{
    (void)state;
    struct nodes nodes;
    struct rig rig;
    struct rig_call one;
    size_t count;
    start(&nodes, false);
    unsigned dead = rig_port(), also_dead = rig_port();
    rig_open(&rig, URL_CLUSTER, (unsigned[]){ dead, nodes.at[2].port, also_dead, 0 }, NULL);
    rig_send(&rig, &one, 0, "PING");
    assert_true(one.is_done && one.result == CARRIER_REFUSED); /* no map yet */
    assert_non_null(one.call.outage);
    until_up(&rig, MASTERS);
    assert_false(rig.carrier->is_whole(rig.carrier));

    static const char *const keys[] = { "foo", "bar", "x", "{1}a", "{1}b", "weir" };
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        char words[64];
        (void)snprintf(words, sizeof words, "SET %s 1", keys[i]);
        assert_int_equal(rig_call(&rig, &one, slot_of(&nodes, keys[i]), words), CARRIER_REPLY);
        assert_string_equal(one.reply, "+OK\r\n");
        assert_int_equal(one.call.redirects, 0);
    }

    /* A node for each third, each with a record of its own under a breaker of its own. */
    static const unsigned slots[MASTERS] = { 0, 6000, 16383 };
    for (unsigned i = 0; i < MASTERS; i++) {
        struct incarnation x = rig.carrier->incarnation(rig.carrier, slots[i]);
        struct incarnation y = rig.carrier->incarnation(rig.carrier, slots[(i + 1) % MASTERS]);
        assert_true(x.id != 0 && x.id != y.id);
        assert_ptr_not_equal(rig.carrier->outage(rig.carrier, slots[i]),
                             rig.carrier->outage(rig.carrier, slots[(i + 1) % MASTERS]));
    }
    rig_until(&rig, (nodes_up(&rig, &count), count == MASTERS)); /* the dead ones are let go */
    rig_close(&rig);
    stop(&nodes);
}

static void a_wrong_map_is_set_right_by_one_redirection(void **state)
{
    (void)state;
    struct nodes nodes;
    struct rig rig;
    struct rig_call one;
    start(&nodes, false);
    rig_open(&rig, URL_CLUSTER, (unsigned[]){ nodes.at[0].port, 0 }, NULL);
    until_up(&rig, MASTERS);
    unsigned slot = slot_of(&nodes, "foo"); /* 12182: the third one's */
    for (unsigned i = 0; i < MASTERS; i++)
        (void)rig_ask(nodes.at[(i + 2) % MASTERS].port, "CLUSTER SETSLOT %u NODE %s", slot, nodes.id[1]);
    assert_int_equal(rig_call(&rig, &one, slot, "SET foo 1"), CARRIER_REPLY);
    assert_int_equal(one.call.redirects, 1);
    assert_int_equal(rig_call(&rig, &one, slot, "GET foo"), CARRIER_REPLY);
    assert_int_equal(one.call.redirects, 0);
    assert_string_equal(one.reply, "$1\r\n1\r\n");
    rig_until(&rig, strstr(rig.log, "event=store-moved slots=1") != NULL);
    rig_close(&rig);
    stop(&nodes);
}

/* ---- Slots that move under load ------------------------------------------------------------------------------------------ */

#define KEYS 48
#define CALLS 10000 /* at least, and until so many slots have moved */
#define MOVES 20
#define AT_ONCE 64

struct load {
    struct rig_call calls[AT_ONCE];
    unsigned key[AT_ONCE];
    bool is_under_way[AT_ONCE];
    unsigned replies[KEYS], lost[KEYS], refused, topology;
};

static void count_call(struct load *load, unsigned i)
{
    struct rig_call *one = &load->calls[i];
    load->is_under_way[i] = false;
    if (one->result == CARRIER_REFUSED) {
        load->refused++;
        load->topology += one->call.is_topology;
        return;
    }
    assert_true(one->result == CARRIER_LOST || one->reply[0] == ':');
    if (one->result == CARRIER_REPLY)
        load->replies[load->key[i]]++;
    else
        load->lost[load->key[i]]++;
}

/* Whether all know of the last move: two moves at once may get the same epoch, and then the nodes disagree for good. */
static bool is_settled(const struct nodes *nodes)
{
    unsigned epoch[MASTERS];
    for (unsigned i = 0; i < MASTERS; i++) {
        const char *at = strstr(rig_ask(nodes->at[i].port, "CLUSTER INFO"), "cluster_current_epoch:");
        assert_true(at != NULL && sscanf(at, "cluster_current_epoch:%u", &epoch[i]) == 1);
    }
    return epoch[0] == epoch[1] && epoch[1] == epoch[2];
}

/* One step of moving a slot; gives whether it has moved. */
static bool move_on(struct nodes *nodes, unsigned slot, unsigned from, unsigned to, bool *is_moving)
{
    char key[32];
    if (!*is_moving) {
        *is_moving = is_settled(nodes);
        if (*is_moving) {
            (void)rig_ask(nodes->at[to].port, "CLUSTER SETSLOT %u IMPORTING %s", slot, nodes->id[from]);
            (void)rig_ask(nodes->at[from].port, "CLUSTER SETSLOT %u MIGRATING %s", slot, nodes->id[to]);
        }
        return false;
    }
    const char *reply = rig_ask(nodes->at[from].port, "CLUSTER GETKEYSINSLOT %u 1", slot);
    if (strcmp(reply, "*0\r\n") != 0) {
        copy_text(strchr(reply, '\n') + 1, key, sizeof key);
        reply = rig_ask(nodes->at[from].port, "MIGRATE 127.0.0.1 %u %s 0 5000", nodes->at[to].port, key);
        assert_memory_equal(reply, "+", 1);
        return false;
    }
    for (unsigned i = 0; i < MASTERS; i++) /* the one that takes it first */
        (void)rig_ask(nodes->at[(to + i) % MASTERS].port, "CLUSTER SETSLOT %u NODE %s", slot, nodes->id[to]);
    *is_moving = false;
    return true;
}

static void no_call_is_done_twice_while_slots_move(void **state)
{
    (void)state;
    static struct load load;
    static struct nodes nodes;
    static struct rig rig;
    char key[KEYS][16], words[64];
    unsigned slot[KEYS], owner[KEYS], sent = 0, done = 0, moved = 0, redirected = 0;
    bool is_moving = false;
    start(&nodes, false);
    for (unsigned k = 0; k < KEYS; k++) {
        (void)snprintf(key[k], sizeof key[k], "count%u", k);
        slot[k] = slot_of(&nodes, key[k]);
        owner[k] = slot[k] / 5461;
    }
    rig_open(&rig, URL_CLUSTER, (unsigned[]){ nodes.at[0].port, 0 }, NULL);
    until_up(&rig, MASTERS);
    for (unsigned turn = 0; sent < CALLS || moved < MOVES || done < sent; turn++) {
        for (unsigned i = 0; i < AT_ONCE; i++) {
            if (load.is_under_way[i] && load.calls[i].is_done) {
                redirected += load.calls[i].call.redirects > 0;
                count_call(&load, i);
                done++;
            }
            if (load.is_under_way[i] || (sent >= CALLS && moved >= MOVES))
                continue;
            load.key[i] = sent % KEYS;
            load.is_under_way[i] = true;
            (void)snprintf(words, sizeof words, "INCR %.15s", key[load.key[i]]);
            rig_send(&rig, &load.calls[i], slot[load.key[i]], words);
            sent++;
        }
        (void)uv_timer_start(&rig.timer, rig_on_timer, 1, 0);
        (void)uv_run(&rig.loop, UV_RUN_ONCE);
        if (turn % 3 != 0)
            continue;
        unsigned k = moved % KEYS;
        bool has_moved = move_on(&nodes, slot[k], owner[k], (owner[k] + 1) % MASTERS, &is_moving);
        owner[k] = has_moved ? (owner[k] + 1) % MASTERS : owner[k];
        moved += has_moved;
    }
    print_message("moved %u slots; redirected %u, refused %u (of these %u by the topology)\n", moved,
                  redirected, load.refused, load.topology);
    assert_true(redirected > 0);
    assert_int_equal(load.refused, load.topology); /* no node failed */
    assert_true(load.refused < sent / 20);

    unsigned total = 0;
    for (unsigned k = 0; k < KEYS; k++) {
        struct rig_call one;
        (void)snprintf(words, sizeof words, "GET %.15s", key[k]);
        unsigned counted = 0;
        rig_until(&rig, rig_call(&rig, &one, slot[k], words) == CARRIER_REPLY);
        assert_int_equal(sscanf(one.reply, "$%*u %u", &counted), 1);
        assert_in_range(counted, load.replies[k], load.replies[k] + load.lost[k]);
        total += counted;
    }
    /* Nothing was lost: every call was done exactly once, or refused. */
    assert_int_equal(total + load.refused, sent);
    rig_close(&rig);
    stop(&nodes);
}

static void a_call_of_two_keys_that_are_apart_is_refused(void **state)
{
    (void)state;
    struct nodes nodes;
    struct rig rig;
    struct rig_call one;
    bool is_moving = false;
    start(&nodes, false);
    rig_open(&rig, URL_CLUSTER, (unsigned[]){ nodes.at[0].port, 0 }, NULL);
    until_up(&rig, MASTERS);
    unsigned slot = slot_of(&nodes, "foo");
    assert_int_equal(rig_call(&rig, &one, slot, "MSET {foo}a 1 {foo}b 2"), CARRIER_REPLY);
    rig_until(&rig, (move_on(&nodes, slot, 2, 0, &is_moving), is_moving)); /* on its way */
    assert_false(move_on(&nodes, slot, 2, 0, &is_moving));                 /* one of the two has gone */
    assert_int_equal(rig_call(&rig, &one, slot, "MGET {foo}a {foo}b"), CARRIER_REFUSED); /* TRYAGAIN */
    assert_true(one.call.is_topology);
    assert_false(move_on(&nodes, slot, 2, 0, &is_moving));
    assert_int_equal(rig_call(&rig, &one, slot, "MGET {foo}a {foo}b"), CARRIER_REPLY); /* ASK */
    assert_int_equal(one.call.redirects, 1);
    assert_true(move_on(&nodes, slot, 2, 0, &is_moving));
    assert_int_equal(rig_call(&rig, &one, slot, "MGET {foo}a {foo}b"), CARRIER_REPLY); /* MOVED */
    assert_int_equal(one.call.redirects, 1);
    assert_int_equal(rig_call(&rig, &one, slot, "MGET {foo}a {foo}b"), CARRIER_REPLY);
    assert_int_equal(one.call.redirects, 0);
    rig_close(&rig);
    stop(&nodes);
}

/* ---- Nodes that die ----------------------------------------------------------------------------------------------------------- */

static void a_dead_master_refuses_until_it_is_back(void **state)
{
    (void)state;
    struct nodes nodes;
    struct rig rig;
    struct rig_call one;
    size_t count;
    start(&nodes, false);
    rig_open(&rig, URL_CLUSTER, (unsigned[]){ nodes.at[0].port, 0 }, NULL);
    until_up(&rig, MASTERS);
    rig_kill(&nodes.at[0]);
    rig_until(&rig, nodes_up(&rig, &count) == MASTERS - 1);
    rig_send(&rig, &one, 0, "PING");
    assert_true(one.is_done && one.result == CARRIER_REFUSED); /* at once */
    assert_false(one.call.is_topology);

    /* The others notice, and serve nothing without full coverage. */
    unsigned slot = slot_of(&nodes, "foo");
    rig_await(nodes.at[2].port, "CLUSTER INFO", "cluster_state:fail");
    assert_int_equal(rig_call(&rig, &one, slot, "GET foo"), CARRIER_REFUSED);
    assert_false(one.call.is_topology);

    rig_start(&nodes.at[0]); /* with its nodes.conf: the same node */
    rig_await(nodes.at[0].port, "CLUSTER INFO", "cluster_state:ok");
    rig_await(nodes.at[2].port, "CLUSTER INFO", "cluster_state:ok");
    until_up(&rig, MASTERS);
    assert_int_equal(rig_call(&rig, &one, slot, "GET foo"), CARRIER_REPLY);
    rig_close(&rig);
    stop(&nodes);
}

static void a_replica_that_takes_over_is_found(void **state)
{
    (void)state;
    struct nodes nodes;
    struct rig rig;
    struct rig_call one;
    struct store_node others[8];
    size_t count;
    start(&nodes, true);
    rig_open(&rig, URL_CLUSTER, (unsigned[]){ nodes.at[0].port, nodes.at[1].port, 0 }, NULL);
    until_up(&rig, MASTERS);
    struct incarnation before = rig.carrier->incarnation(rig.carrier, 0);
    rig_until(&rig, store_client_others(rig.carrier, others, COUNT_OF(others)) == 1);
    assert_string_equal(others[0].role, "replica");
    rig_await(nodes.at[MASTERS].port, "INFO replication", "master_link_status:up");

    rig_kill(&nodes.at[0]);
    rig_until(&rig, nodes_up(&rig, &count) == MASTERS - 1);
    struct outage *gone = rig.carrier->outage(rig.carrier, 0);
    (void)outage_failed(gone, WEIR_SECOND);
    until_up(&rig, MASTERS); /* a new one, without a request that was sent astray */
    rig_until(&rig, rig_call(&rig, &one, 0, "DBSIZE") == CARRIER_REPLY);
    struct incarnation after = rig.carrier->incarnation(rig.carrier, 0);
    assert_true(after.id == before.id && after.began_at_us == before.began_at_us); /* it was replicated */
    rig_until(&rig, (nodes_up(&rig, &count), count == MASTERS)); /* the dead one is not dialled for ever */
    assert_true(outage_now(gone).began_at == WEIR_NO_TIME);      /* and is no outage any more */
    rig_close(&rig);
    stop(&nodes);
}

static void when_all_have_gone_the_seeds_are_asked(void **state)
{
    (void)state;
    struct nodes nodes, others;
    struct rig rig;
    struct rig_call one;
    size_t count;
    start(&nodes, false);
    start(&others, false);
    rig_open(&rig, URL_CLUSTER, (unsigned[]){ nodes.at[0].port, others.at[0].port, 0 }, NULL);
    until_up(&rig, MASTERS);
    /* Whichever of the two was first: it goes, and the seed that was let go leads to the other. */
    unsigned slot = slot_of(&nodes, "foo");
    assert_int_equal(rig_call(&rig, &one, slot, "SET foo 1"), CARRIER_REPLY);
    bool is_first = strcmp(rig_ask(nodes.at[2].port, "DBSIZE"), ":2\r\n") == 0;
    struct nodes *gone = is_first ? &nodes : &others;
    for (unsigned i = 0; i < MASTERS; i++)
        rig_kill(&gone->at[i]);
    rig_until(&rig, nodes_up(&rig, &count) == 0);
    until_up(&rig, MASTERS);
    assert_int_equal(rig_call(&rig, &one, slot, "GET foo"), CARRIER_REPLY);
    assert_string_equal(one.reply, "_\r\n"); /* the other Cluster has no foo */
    rig_close(&rig);
    stop(&nodes);
    stop(&others);
}

/* How long to ask until a hole is filled: the map of a whole Cluster is read again after 30 to 90 s, one with holes each second. */
#define HOLE_MS 20000

/* Slots that are given out later. What a client sees that starts while a Cluster is made. */
static void a_slot_without_a_node_is_looked_for_until_it_has_one(void **state)
{
    (void)state;
    struct nodes nodes = { .count = 1 };
    struct rig rig;
    struct rig_call one;
    start_node(&nodes, 0);
    rig_open(&rig, URL_CLUSTER, (unsigned[]){ nodes.at[0].port, 0 }, NULL);
    rig_turn_ms(&rig, 300);
    size_t count;
    assert_int_equal(nodes_up(&rig, &count), 0); /* greeted, and of no use */
    assert_int_equal(count, 1);

    assert_string_equal(rig_ask(nodes.at[0].port, "CLUSTER ADDSLOTSRANGE 0 100"), "+OK\r\n");
    until_up(&rig, 1);
    rig_send(&rig, &one, 200, "GET x");
    assert_true(one.is_done && one.result == CARRIER_REFUSED);
    struct outage *whole = rig.carrier->outage(rig.carrier, 200);
    assert_ptr_equal(one.call.outage, whole);
    assert_ptr_not_equal(rig.carrier->outage(rig.carrier, 50), whole);
    struct weir_outage began = outage_failed(whole, 1);
    rig_turn_ms(&rig, 2500); /* readings of the same hole: the outage is not another one each time */
    assert_int_equal(outage_now(whole).number, began.number);

    assert_string_equal(rig_ask(nodes.at[0].port, "CLUSTER ADDSLOTSRANGE 101 16383"), "+OK\r\n");
    uint64_t end = rig_ms() + HOLE_MS;
    rig_until(&rig, rig.carrier->outage(rig.carrier, 200) != whole || rig_ms() > end);
    assert_ptr_not_equal(rig.carrier->outage(rig.carrier, 200), whole);
    assert_true(outage_now(whole).began_at == WEIR_NO_TIME); /* the next hole is another outage */
    assert_int_equal(rig_call(&rig, &one, 200, "PING"), CARRIER_REPLY);
    rig_close(&rig);
    stop(&nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_living_seed_leads_to_all_nodes),
        cmocka_unit_test(a_wrong_map_is_set_right_by_one_redirection),
        cmocka_unit_test(no_call_is_done_twice_while_slots_move),
        cmocka_unit_test(a_call_of_two_keys_that_are_apart_is_refused),
        cmocka_unit_test(a_dead_master_refuses_until_it_is_back),
        cmocka_unit_test(a_replica_that_takes_over_is_found),
        cmocka_unit_test(when_all_have_gone_the_seeds_are_asked),
        cmocka_unit_test(a_slot_without_a_node_is_looked_for_until_it_has_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
