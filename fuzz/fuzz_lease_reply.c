// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_lease_reply.c - any bytes as what a store says of leases: they are refused, or a portion that hears them stays one. What is in
 * hand is never more than the answer says that the store's record holds, nor than was wanted, and holders are printable.
 *
 * Input: a byte of what the portion did before, then the reply.
 */
#include <stdlib.h>

#include "fleet/lease.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static const struct weir_lease terms = { 1000, 100, 2 * WEIR_SECOND };
static const struct weir_limit limit = { .name = "l", .rate = { 1000, WEIR_SECOND }, .burst = 1000 };
static const struct weir_shared_size bucket = {
    .tick = WEIR_MICROSECOND, .capacity = 1000, .count = 1, .period = 1000
};

static uint64_t in_hand(const struct holding *holding)
{
    return holding->have + holding->pending + holding->used;
}

static void hear(unsigned before, struct slice reply)
{
    struct holding holding;
    struct script_lease lease = { .name = SLICE("weir:1:{l}:l:b"), .limit = &limit, .size = bucket };
    struct script_lease_answer answer;
    struct slice why;
    weir_ns now = 10 * WEIR_SECOND;
    bool is_new;
    lease_init(&holding, &terms, now);
    (void)lease_take(&holding, 1 + before % 50, true, now);
    (void)lease_take(&holding, 1 + before / 50, true, now + WEIR_MILLISECOND);
    now += 2 * WEIR_MILLISECOND;
    require(lease_speak(&holding, 1, false, now, &lease, &is_new) && is_new);
    const struct script_lease_call call = { .leases = &lease, .count = 1, .run = 1, .label = SLICE("f") };
    if (!script_read_lease(reply, &call, &answer, &why))
        return;
    (void)lease_hear(&holding, lease.seq, &answer, now);
    require(answer.is_stale || in_hand(&holding) <= answer.left);
    require(holding.have <= lease.want && holding.flight.seq == 0);
    require(holding.expires_at <= now + terms.duration);
    uint64_t taken = lease_take(&holding, UINT64_MAX, true, now);
    require(taken <= lease.want && holding.have == 0);
}

static void read_holders(struct slice reply)
{
    static struct script_holder holders[16];
    struct script_holders all;
    struct slice why;
    if (!script_read_holders(reply, holders, 16, &all, &why))
        return;
    require(all.granted - all.returned - all.spent - all.lost == all.out);
    for (size_t i = 0; i < all.count && i < 16; i++)
        require(memchr(holders[i].label, '\0', sizeof holders[i].label) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct resp_reply_parser parser = RESP_REPLY_START;
    size_t len;
    if (size == 0)
        return 0;
    const char *at = (const char *)data + 1;
    /* Links give whole replies only. */
    if (resp_reply_parse(&parser, at, size - 1, &len) != RESP_DONE)
        return 0;
    hear(data[0], (struct slice){ at, len });
    read_holders((struct slice){ at, len });
    return 0;
}
