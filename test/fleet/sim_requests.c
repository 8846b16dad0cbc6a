// SPDX-License-Identifier: Apache-2.0
/*
 * sim_requests.c - requests at replicas, and what their answers mean: spent out of the hand, or refused with tokens left.
 */
#include "fleet/script.h"
#include "fleet/sim_world.h"
#include "support/unit.h"

void sim_spend(struct sim_world *world, size_t limit, unsigned tenant, uint64_t cost)
{
    struct oracle *oracle = &world->oracles[limit][tenant];
    if (cost > 0 && !oracle_admit(oracle, cost, sim_instant(world, oracle)))
        sim_violate(world, "P34: of limit %zu tenant %u spent more than burst + rate * t", limit, tenant);
}

/* Out of the hand by somebody who stood still since: what suspended workers add, all of them a chunk at most. */
static void note_late(struct sim_asked *asked, const struct oracle *oracle, uint64_t cost)
{
    uint64_t *spent = &asked->replica->stale_spent[asked->tenant];
    *spent += cost;
    if (*spent > oracle->lease.chunk)
        sim_violate(asked->world, "P34: a suspended replica spent %llu of a chunk of %llu",
                    (unsigned long long)*spent, (unsigned long long)oracle->lease.chunk);
}

/* Whether it took out of its hand in a window that was over when it was decided: that is where it counts. */
static bool is_of_before(const struct sim_asked *asked, const struct oracle *oracle)
{
    weir_ns now = sim_instant(asked->world, oracle), then = now - (asked->world->now - asked->asked_at);
    weir_ns whole = oracle->period * oracle->tick;
    return oracle->is_window && then / whole != now / whole;
}

/* What the store charged has been noted. The rest is out of the hand. */
static void note_admission(struct sim_asked *asked, const struct weir_shared_met *met)
{
    struct sim_world *world = asked->world;
    struct oracle *oracle = &world->oracles[met->limit][asked->tenant];
    uint64_t strict = asked->is_within || world->heard == NULL ? 0 : world->heard->cost[met->limit];
    uint64_t cost = met->cost - strict;
    /* What was in hand when it was asked is kept by the store for the grace behind its end: less than that later it is not over. */
    bool is_late = asked->is_stale
                   || (asked->asked_at < asked->replica->woke_at
                       && world->now - asked->asked_at > SCRIPT_LEASE_GRACE_NS(oracle->lease.duration));
    if (strict > met->cost)
        sim_violate(world, "%llu were charged for %llu", (unsigned long long)strict,
                    (unsigned long long)met->cost);
    if (cost == 0)
        return;
    if (is_late)
        note_late(asked, oracle, cost);
    if (is_late || is_of_before(asked, oracle))
        oracle->admitted += cost;
    else
        sim_spend(world, met->limit, asked->tenant, cost);
}

/* Without faults a refusal means that no more than `most` is stranded. */
static void note_refusal(struct sim_asked *asked, const struct weir_shared_met *met)
{
    struct sim_world *world = asked->world;
    const struct oracle *oracle = &world->oracles[met->limit][asked->tenant];
    weir_ns whole = oracle->period * oracle->tick;
    uint64_t under_way = 0;
    if (!world->setup.is_calm || met->decision.outcome != WEIR_DENY)
        return;
    /* Refused in the window before, or known to be refused until it ends by a clock that is late. */
    if (oracle->is_window
        && (asked->asked_at / whole != world->now / whole || world->now % whole < 10 * WEIR_MILLISECOND))
        return;
    for (size_t i = 0; i < SIM_ASKED_MAX; i++)
        if (world->asked[i].is_used && !world->asked[i].is_peek)
            under_way += world->asked[i].cost;
    uint64_t left = oracle_left(oracle, world->now);
    uint64_t since = oracle_refill(oracle, world->now - asked->asked_at);
    if (left >= oracle->lease.most + met->cost + under_way + since)
        sim_violate(world, "%llu were refused with %llu left, and %llu may be stranded",
                    (unsigned long long)met->cost, (unsigned long long)left,
                    (unsigned long long)oracle->lease.most);
}

static void answered(struct fleet_decision *decision)
{
    struct sim_asked *asked = decision->owner;
    struct sim_world *world = asked->world;
    asked->is_used = false;
    free(decision->handle);
    if (asked->replica->is_ending)
        return;
    world->decided++;
    bool is_kept = decision->passes && !asked->is_peek && !asked->undoes;
    world->passed += is_kept;
    world->from_hand += is_kept && asked->is_within;
    sim_log(world, "%d: %s%s cost %llu tenant %u%s, remaining %llu", (int)(asked->replica - world->replicas),
            decision->passes ? "passes" : "refused", asked->is_within ? " at once" : "",
            (unsigned long long)asked->cost, asked->tenant,
            asked->is_peek    ? " (look)"
            : asked->undoes   ? " (undone)"
            : asked->is_stale ? " (late)"
                              : "",
            (unsigned long long)(decision->count > 0 ? decision->met[0].decision.remaining : 0));
    for (size_t i = 0; i < decision->count; i++) {
        const struct weir_shared_met *met = &decision->met[i];
        if (is_kept && met->decision.outcome == WEIR_ALLOW && met->cost > 0)
            note_admission(asked, met);
        else if (!decision->passes)
            note_refusal(asked, met);
    }
    if (decision->passes && asked->undoes)
        fleet_undo(asked->replica->fleet, decision);
}

static struct sim_asked *free_asked(struct sim_world *world)
{
    for (size_t i = 0; i < SIM_ASKED_MAX; i++)
        if (!world->asked[i].is_used)
            return &world->asked[i];
    return NULL;
}

static void meet(struct sim_world *world, const struct weir_shared *shared, unsigned tenant)
{
    for (size_t i = 0; i < shared->count; i++) {
        const struct weir_shared_ask *ask = &shared->asks[i];
        assert_true(ask->limit < SIM_LIMITS);
        if (!world->is_met[ask->limit][tenant])
            oracle_init(&world->oracles[ask->limit][tenant], ask, world->setup.contract->is_window[ask->limit]);
        world->is_met[ask->limit][tenant] = true;
    }
}

void sim_ask_at(struct sim_replica *replica, unsigned tenant, uint64_t cost, enum sim_manner manner,
                weir_ns now, bool is_stale)
{
    static struct weir_shared shared;
    static const char *const names[SIM_TENANTS] = { "a", "b" };
    struct sim_world *world = replica->world;
    const struct weir_attribute attributes[] = { { "tenant", names[tenant], 0 }, { "path", "/", 0 } };
    const struct weir_request request = { .attributes = attributes, .attribute_count = 2, .cost = cost };
    struct sim_asked *asked = free_asked(world);
    if (asked == NULL)
        return;
    assert_int_equal(weir_contract_shared(world->setup.contract->contract, &request, &shared), 0);
    meet(world, &shared, tenant);
    *asked = (struct sim_asked){ .world = world,
                                 .replica = replica,
                                 .tenant = tenant,
                                 .cost = cost,
                                 .asked_at = world->now,
                                 .is_used = true,
                                 .is_within = true,
                                 .is_stale = is_stale,
                                 .is_peek = manner == SIM_PEEK,
                                 .undoes = manner == SIM_UNDO };
    asked->decision = (struct fleet_decision){ .kind = FLEET_CHECK,
                                               .is_peek = asked->is_peek,
                                               .now = now,
                                               .met = asked->met,
                                               .done = answered,
                                               .owner = asked };
    fleet_decide(replica->fleet, &shared, &asked->decision);
    asked->is_within = false;
}

void sim_ask(struct sim_world *world, struct sim_replica *replica, unsigned tenant, uint64_t cost,
             enum sim_manner manner)
{
    if (!sim_is_up(replica))
        return;
    sim_wake(replica);
    sim_ask_at(replica, tenant, cost, manner, sim_local(replica, world->now), false);
}
