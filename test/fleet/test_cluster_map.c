// SPDX-License-Identifier: Apache-2.0
/*
 * test_cluster_map.c - CLUSTER SLOTS and SHARDS of real servers, of odd ones, and of hostile ones; MOVED and ASK.
 */
#include "support/unit.h"

#include "fleet/cluster_map.h"

static struct cluster_map map; /* large for the stack */

static bool read_map(const char *reply, bool is_tls)
{
    const char *why = NULL;
    struct slice bytes = slice_of(reply);
    char *copy = malloc(bytes.len); /* so that a look behind the end is seen */
    memcpy(copy, reply, bytes.len);
    bool is_read = cluster_map_read((struct slice){ copy, bytes.len }, "10.0.0.9", is_tls, 42, &map, &why);
    free(copy);
    assert_true(is_read || (why != NULL && why[0] != '\0'));
    return is_read;
}

/* Who serves a slot, as "host:port"; "" is nobody. */
static const char *owner(unsigned slot)
{
    static char name[STORE_ADDRESS_MAX];
    if (map.owner[slot] == CLUSTER_NOBODY)
        return "";
    store_address_show(&map.nodes[map.owner[slot]].at, name);
    return name;
}

#define B(len, text) "$" #len "\r\n" text "\r\n"
#define RANGE(from, to, nodes) ":" #from "\r\n:" #to "\r\n" nodes
#define NODE(len, host, port) "*3\r\n" B(len, host) ":" #port "\r\n" B(2, "id")

/* What a row's reply makes of three slots. */
static const struct map_row {
    const char *why, *reply;
    bool is_tls;
    const char *first, *middle, *last; /* owners of 0, 8000 and 16383; first NULL: it is refused */
} map_rows[] = {
    { "one node with all slots", "*1\r\n*3\r\n" RANGE(0, 16383, NODE(9, "127.0.0.1", 7000)), false,
      "127.0.0.1:7000", "127.0.0.1:7000", "127.0.0.1:7000" },
    { "two nodes, a replica each, and a hole",
      "*2\r\n*4\r\n" RANGE(0, 5460, NODE(9, "127.0.0.1", 7000) NODE(9, "127.0.0.1", 7003)) "*4\r\n" RANGE(
          10923, 16383, NODE(9, "127.0.0.1", 7002) NODE(9, "127.0.0.1", 7005)),
      false, "127.0.0.1:7000", "", "127.0.0.1:7002" },
    { "metadata in pairs (7.0, RESP2)",
      "*1\r\n*3\r\n" RANGE(
          0, 16383, "*4\r\n" B(9, "127.0.0.1") ":7000\r\n" B(2, "id") "*2\r\n" B(8, "hostname") B(1, "x")),
      false, "127.0.0.1:7000", "127.0.0.1:7000", "127.0.0.1:7000" },
    { "metadata in a map (RESP3)",
      "*1\r\n*3\r\n" RANGE(0, 16383,
                           "*4\r\n" B(3, "a.b") ":7000\r\n" B(2, "id") "%1\r\n" B(2, "ip") B(8, "10.1.1.1")),
      false, "a.b:7000", "a.b:7000", "a.b:7000" },
    { "an empty host is the one that was asked", "*1\r\n*3\r\n" RANGE(0, 16383, NODE(0, "", 7000)), false,
      "10.0.0.9:7000", "10.0.0.9:7000", "10.0.0.9:7000" },
    { "a null host is the one that was asked",
      "*1\r\n*3\r\n" RANGE(0, 16383, "*3\r\n$-1\r\n:7000\r\n" B(2, "id")), false, "10.0.0.9:7000",
      "10.0.0.9:7000", "10.0.0.9:7000" },
    { "RESP3's null as well", "*1\r\n*3\r\n" RANGE(0, 16383, "*3\r\n_\r\n:7000\r\n" B(2, "id")), false,
      "10.0.0.9:7000", "10.0.0.9:7000", "10.0.0.9:7000" },
    { "a name that is not set is the address beside it",
      "*1\r\n*3\r\n" RANGE(0, 16383,
                           "*4\r\n" B(1, "?") ":7000\r\n" B(2, "id") "*2\r\n" B(2, "ip") B(8, "10.1.1.1")),
      false, "10.1.1.1:7000", "10.1.1.1:7000", "10.1.1.1:7000" },
    { "a name that is not set, without an address, serves nothing",
      "*2\r\n*3\r\n" RANGE(0, 100, NODE(1, "?", 7000)) "*3\r\n" RANGE(101, 16383, NODE(9, "127.0.0.1", 7001)),
      false, "", "127.0.0.1:7001", "127.0.0.1:7001" },
    { "a port of 0 (TLS only, asked without) serves nothing",
      "*2\r\n*3\r\n" RANGE(0, 100, NODE(9, "127.0.0.1", 0)) "*3\r\n" RANGE(101, 16383,
                                                                           NODE(9, "127.0.0.1", 7001)),
      false, "", "127.0.0.1:7001", "127.0.0.1:7001" },
    { "IPv6", "*1\r\n*3\r\n" RANGE(0, 16383, NODE(3, "::1", 7000)), false, "[::1]:7000", "[::1]:7000",
      "[::1]:7000" },
    { "shards in RESP2",
      "*1\r\n*4\r\n" B(5, "slots") "*4\r\n:0\r\n:99\r\n:16000\r\n:16383\r\n" B(
          5, "nodes") "*2\r\n"
                      "*8\r\n" B(8, "endpoint") B(3, "a.b") B(4, "port") ":7000\r\n" B(4, "role") B(6, "master")
                          B(6, "health") B(6, "online") "*6\r\n" B(8, "endpoint") B(3, "c.d")
                              B(4, "port") ":7001\r\n" B(4, "role") B(7, "replica"),
      false, "a.b:7000", "", "a.b:7000" },
    { "shards in RESP3, nodes first, the failed master beside the new one",
      "*1\r\n%2\r\n" B(5, "nodes") "*2\r\n"
                                   "%5\r\n" B(2, "ip") B(8, "10.1.1.1") B(8, "endpoint") B(1, "?")
                                       B(4, "port") ":7000\r\n" B(4, "role") B(6, "master") B(6, "health")
                                           B(6, "online") "%4\r\n" B(8, "endpoint") B(3, "c.d") B(
                                               4, "port") ":7001\r\n" B(4, "role") B(6, "master") B(6, "health")
                                               B(4, "fail") B(5, "slots") "*2\r\n:0\r\n:16383\r\n",
      false, "10.1.1.1:7000", "10.1.1.1:7000", "10.1.1.1:7000" },
    { "shards by TLS take the port of TLS",
      "*1\r\n%2\r\n" B(5, "slots") "*2\r\n:0\r\n:16383\r\n" B(
          5, "nodes") "*1\r\n"
                      "%4\r\n" B(8, "tls-port") ":7100\r\n" B(4, "port") ":7000\r\n" B(8, "endpoint")
                          B(3, "a.b") B(4, "role") B(6, "master"),
      true, "a.b:7100", "a.b:7100", "a.b:7100" },

    { "an error", "-ERR This instance has cluster support disabled\r\n", false, NULL, NULL, NULL },
    { "no list", ":3\r\n", false, NULL, NULL, NULL },
    { "an empty one: the node has been reset", "*0\r\n", false, NULL, NULL, NULL },
    { "nobody that can be reached", "*1\r\n*3\r\n" RANGE(0, 16383, NODE(1, "?", 7000)), false, NULL, NULL,
      NULL },
    { "a slot that no Cluster has", "*1\r\n*3\r\n" RANGE(0, 16384, NODE(9, "127.0.0.1", 7000)), false, NULL,
      NULL, NULL },
    { "a slot below 0", "*1\r\n*3\r\n" RANGE(-1, 5, NODE(9, "127.0.0.1", 7000)), false, NULL, NULL, NULL },
    { "a range from its end", "*1\r\n*3\r\n" RANGE(9, 5, NODE(9, "127.0.0.1", 7000)), false, NULL, NULL, NULL },
    { "a slot that two serve",
      "*2\r\n*3\r\n" RANGE(0, 10, NODE(9, "127.0.0.1", 7000)) "*3\r\n" RANGE(10, 20,
                                                                             NODE(9, "127.0.0.1", 7001)),
      false, NULL, NULL, NULL },
    { "a range without a node", "*1\r\n*2\r\n:0\r\n:16383\r\n", false, NULL, NULL, NULL },
    { "a node that is a number", "*1\r\n*3\r\n" RANGE(0, 16383, ":7000\r\n"), false, NULL, NULL, NULL },
    { "bounds that are texts", "*1\r\n*3\r\n" B(1, "0") B(1, "5") NODE(9, "127.0.0.1", 7000), false, NULL, NULL,
      NULL },
    { "a host with a line end", "*1\r\n*3\r\n" RANGE(0, 16383, NODE(7, "a\r\nb: c", 7000)), false, NULL, NULL,
      NULL },
    { "a host with a blank", "*1\r\n*3\r\n" RANGE(0, 16383, NODE(3, "a b", 7000)), false, NULL, NULL, NULL },
    { "shards with half a range",
      "*1\r\n%2\r\n" B(5, "slots") "*1\r\n:0\r\n" B(5, "nodes") "*1\r\n"
                                                                "%3\r\n" B(8, "endpoint") B(3, "a.b")
                                                                    B(4, "port") ":7000\r\n" B(4, "role")
                                                                        B(6, "master"),
      false, NULL, NULL, NULL },
};

static void maps_are_read_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(map_rows); i++) {
        const struct map_row *row = &map_rows[i];
        expect_row(read_map(row->reply, row->is_tls) == (row->first != NULL), row->why);
        if (row->first == NULL)
            continue;
        expect_row(strcmp(owner(0), row->first) == 0, row->why);
        expect_row(strcmp(owner(8000), row->middle) == 0, row->why);
        expect_row(strcmp(owner(16383), row->last) == 0, row->why);
    }
}

static void nodes_are_counted_once_and_replicas_told_apart(void **state)
{
    (void)state;
    assert_true(read_map(map_rows[1].reply, false));
    assert_int_equal(map.node_count, 4);
    assert_int_equal(map.served, 5461 + 5461);
    unsigned replicas = 0;
    for (size_t i = 0; i < map.node_count; i++)
        replicas += map.nodes[i].is_replica;
    assert_int_equal(replicas, 2);
}

/* `nodes` nodes of one slot each, or all with `ports` on one node. */
static char *wide_reply(unsigned nodes)
{
    char *reply = malloc((size_t)nodes * 64 + 32);
    size_t len = (size_t)sprintf(reply, "*%u\r\n", nodes);
    for (unsigned i = 0; i < nodes; i++)
        len += (size_t)sprintf(reply + len, "*3\r\n:%u\r\n:%u\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n", i, i,
                               1000 + i);
    return reply;
}

static void more_nodes_than_anyone_has_are_refused(void **state)
{
    (void)state;
    char *most = wide_reply(CLUSTER_NODES_MAX), *more = wide_reply(CLUSTER_NODES_MAX + 1);
    assert_true(read_map(most, false));
    assert_int_equal(map.node_count, CLUSTER_NODES_MAX);
    assert_false(read_map(more, false));
    free(most);
    free(more);
}

static void every_cut_of_a_reply_is_refused_or_read(void **state)
{
    (void)state;
    const char *why;
    for (size_t i = 0; i < COUNT_OF(map_rows); i++)
        for (size_t len = 0; len < strlen(map_rows[i].reply); len++) {
            char *copy = malloc(len + 1);
            memcpy(copy, map_rows[i].reply, len);
            (void)cluster_map_read((struct slice){ copy, len }, "h", false, 1, &map, &why);
            free(copy);
        }
}

static const struct redirection_row {
    const char *why, *error;
    bool is_ask;
    unsigned slot;
    const char *to; /* NULL: it is none */
} redirection_rows[] = {
    { "the usual", "MOVED 3999 127.0.0.1:6381", false, 3999, "127.0.0.1:6381" },
    { "on its way", "ASK 16383 127.0.0.1:6381", true, 16383, "127.0.0.1:6381" },
    { "a host name", "MOVED 0 node-3.example:6379", false, 0, "node-3.example:6379" },
    { "IPv6 has colons", "MOVED 1 2001:db8::7:6379", false, 1, "[2001:db8::7]:6379" },
    { "no host: the one that was asked", "MOVED 3999 :6381", false, 3999, "10.0.0.9:6381" },
    { "a name that is not set", "MOVED 3999 ?:6381", false, 0, NULL },
    { "a slot that no Cluster has", "MOVED 16384 127.0.0.1:6381", false, 0, NULL },
    { "no slot", "MOVED x 127.0.0.1:6381", false, 0, NULL },
    { "no port", "MOVED 1 127.0.0.1", false, 0, NULL },
    { "a port of 0", "MOVED 1 127.0.0.1:0", false, 0, NULL },
    { "a port that is none", "MOVED 1 127.0.0.1:65536", false, 0, NULL },
    { "a word behind", "MOVED 1 127.0.0.1:6381 x", false, 0, NULL },
    { "nothing behind", "MOVED", false, 0, NULL },
    { "a blank behind", "MOVED ", false, 0, NULL },
    { "another error", "MOVEDX 1 127.0.0.1:6381", false, 0, NULL },
    { "a control byte", "MOVED 1 127.0.0.1\x01:6381", false, 0, NULL },
};

static void redirections_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(redirection_rows); i++) {
        const struct redirection_row *row = &redirection_rows[i];
        struct redirection got;
        char name[STORE_ADDRESS_MAX];
        size_t len = strlen(row->error);
        char *copy = malloc(len);
        memcpy(copy, row->error, len);
        bool is_read = redirection_read((struct slice){ copy, len }, "10.0.0.9", &got);
        free(copy);
        expect_row(is_read == (row->to != NULL), row->why);
        if (!is_read)
            continue;
        store_address_show(&got.to, name);
        expect_row(got.is_ask == row->is_ask && got.slot == row->slot && strcmp(name, row->to) == 0, row->why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_are_read_or_refused),
        cmocka_unit_test(nodes_are_counted_once_and_replicas_told_apart),
        cmocka_unit_test(more_nodes_than_anyone_has_are_refused),
        cmocka_unit_test(every_cut_of_a_reply_is_refused_or_read),
        cmocka_unit_test(redirections_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
