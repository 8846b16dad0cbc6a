// SPDX-License-Identifier: Apache-2.0
/* test_peers.c - connections by address: who shares a place with whom, and that a place that is left is free. */
#include "support/unit.h"

#include <arpa/inet.h>

#include "net/peers.h"
#include "support/random.h"

static const uint8_t *bytes_of(const char *text)
{
    static uint8_t bytes[2][16];
    static unsigned next;
    uint8_t *out = bytes[next++ % 2];
    memset(out, 0, 16);
    out[10] = out[11] = 0xff;
    if (inet_pton(AF_INET, text, out + 12) != 1)
        assert_int_equal(inet_pton(AF_INET6, text, out), 1);
    return out;
}

static void who_shares(void **state)
{
    (void)state;
    static const struct {
        const char *why, *first, *second;
        bool is_shared;
    } rows[] = {
        { "the same address", "192.0.2.1", "192.0.2.1", true },
        { "the next address of IPv4", "192.0.2.1", "192.0.2.2", false },
        { "the same /64", "2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true },
        { "the next /64", "2001:db8:1:2::1", "2001:db8:1:3::1", false },
        { "mapped is IPv4", "192.0.2.1", "::ffff:192.0.2.1", true },
        { "all of IPv4 is no /64", "::ffff:192.0.2.1", "::ffff:192.0.2.9", false },
        { "and apart from ::/64", "192.0.2.1", "::1", false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct peers peers;
        assert_true(peers_init(&peers, 1));
        struct peer_entry *first = peers_claim(&peers, bytes_of(rows[i].first));
        struct peer_entry *second = peers_claim(&peers, bytes_of(rows[i].second));
        expect_row(first != NULL && (second == NULL) == rows[i].is_shared, rows[i].why);
        peers_release(&peers, second);
        peers_release(&peers, first);
        first = peers_claim(&peers, bytes_of(rows[i].second));
        expect_row(first != NULL, rows[i].why);
        peers_release(&peers, first);
        for (size_t chain = 0; chain < PEERS_CHAINS; chain++)
            expect_row(peers.chains[chain] == NULL, "nothing is left");
        peers_deinit(&peers);
    }
}

/* A plain array counts beside it; more addresses than chains, so that chains are long. */
static void as_an_array_counts(void **state)
{
    (void)state;
    enum { ADDRESSES = 40000, MOST = 3, STEPS = 400000 };
    static struct peer_entry *held[ADDRESSES][MOST];
    static unsigned count[ADDRESSES];
    struct random random = { random_seed(6) };
    struct peers peers;
    assert_true(peers_init(&peers, MOST));
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned who = (unsigned)random_below(&random, ADDRESSES);
        uint8_t address[16] = {
            [10] = 0xff, 0xff, 10, (uint8_t)(who >> 16), (uint8_t)(who >> 8), (uint8_t)who
        };
        if (random_below(&random, 5) < 3) {
            struct peer_entry *entry = peers_claim(&peers, address);
            assert_int_equal(entry != NULL, count[who] < MOST);
            if (entry != NULL)
                held[who][count[who]++] = entry;
        } else if (count[who] > 0) {
            peers_release(&peers, held[who][--count[who]]);
        }
    }
    peers_release(&peers, NULL); /* what was not counted */
    peers_deinit(&peers);        /* what is left is freed: a sanitizer would tell */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(who_shares), cmocka_unit_test(as_an_array_counts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
