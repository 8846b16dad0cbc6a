// SPDX-License-Identifier: Apache-2.0
/*
 * lessee.c - missions: commands of some messages each.
 *
 * A claimed message goes straight into the mission that it will leave with, the last one or in a Cluster that of its slot; at the end
 * of the turn all of them leave. So nothing is kept twice, and missions are the bound: what finds none is not claimed and is due at the
 * next beat.
 *
 * A mission that was given up on has told the breaker. Its messages are due again after a pause, at whichever loop; an answer to the
 * first sending that comes later is dropped with its command, and the store answers the second one alike.
 *
 * While the store as a whole is avoided a beat collects one command's worth: enough to keep a nurse at the node's side, and no
 * work for a store that is away.
 */
#include "fleet/lessee.h"

#include <stdlib.h>

/* Missions that are kept for the next ones, with a block each. */
#define SPARE_MAX 8

struct mission {
    struct due due;       /* in lessee->under_way */
    struct mission *next; /* gathered, or spare */
    struct lessee *lessee;
    struct errand errand;
    struct block *blocks;
    uint64_t wall_us; /* of sending */
    struct incarnation incarnation;
    size_t count;
    struct holdings_message messages[SCRIPT_LEASES_MAX];
};

struct lessee {
    struct fleet *fleet;
    struct mission *gathered, **gathered_end, *spare;
    size_t mission_count, spare_count; /* gathered and under way */
    struct due_list under_way;
    weir_ns beat_at; /* WEIR_NO_TIME: it takes no part in the beat */
    bool has_more;   /* there was no mission for all that is due */
    bool hands_back;
    /* Which stripe of how many, in the low half: written under the lock by whoever comes or goes, read by its loop. Relaxed: with
       an old one a shard is collected twice, or at the next beat. */
    _Atomic uint64_t part;
    struct lessee *next_member; /* under the lock */
    bool is_member;             /* its loop's */
};

static struct holdings *holdings_of(const struct lessee *lessee)
{
    return lessee->fleet->common->holdings;
}

static weir_ns earlier(weir_ns x, weir_ns y)
{
    return x < y ? x : y;
}

/* What is gathered leaves once the turn is over. */
static void schedule(struct lessee *lessee)
{
    struct fleet *fleet = lessee->fleet;
    fleet->lessee_at =
        lessee->gathered != NULL ? fleet->now : earlier(due_next(&lessee->under_way), lessee->beat_at);
}

/* ---- Who takes part in the beat ------------------------------------------------------------------------------------ */

static void renumber(struct fleet_common *common)
{
    uint64_t count = 0, place = 0;
    for (struct lessee *member = common->lessees; member != NULL; member = member->next_member)
        count++;
    for (struct lessee *member = common->lessees; member != NULL; member = member->next_member)
        atomic_store_explicit(&member->part, place++ << 32 | count, memory_order_relaxed);
}

static void join(struct lessee *lessee)
{
    struct fleet_common *common = lessee->fleet->common;
    if (lessee->is_member)
        return;
    lessee->is_member = true;
    (void)pthread_mutex_lock(&common->lock);
    lessee->next_member = common->lessees;
    common->lessees = lessee;
    renumber(common);
    (void)pthread_mutex_unlock(&common->lock);
}

static void leave(struct lessee *lessee)
{
    struct fleet_common *common = lessee->fleet->common;
    if (!lessee->is_member)
        return;
    lessee->is_member = false;
    (void)pthread_mutex_lock(&common->lock);
    struct lessee **at = &common->lessees;
    while (*at != lessee)
        at = &(*at)->next_member;
    *at = lessee->next_member;
    renumber(common);
    (void)pthread_mutex_unlock(&common->lock);
}

void lessee_watch(struct lessee *lessee, weir_ns now)
{
    if (lessee->beat_at != WEIR_NO_TIME)
        return;
    join(lessee);
    lessee->beat_at = now + LESSEE_BEAT_NS;
    schedule(lessee);
}

/* ---- Missions ------------------------------------------------------------------------------------------------------ */

static void mission_done(struct errand *errand, enum errand_end end, struct slice reply);
static bool put_mission(const struct errand *errand, struct text *out, enum script_form form);
static void mission_expire(struct due *due, weir_ns now);

static struct mission *mission_claim(struct lessee *lessee)
{
    struct mission *mission = lessee->spare;
    if (mission == NULL)
        return calloc(1, sizeof *mission);
    lessee->spare = mission->next;
    lessee->spare_count--;
    return mission;
}

/* NULL: too many, or out of memory. */
static struct mission *mission_new(struct lessee *lessee, struct slice name)
{
    struct mission *mission = lessee->mission_count < LESSEE_MISSIONS_MAX ? mission_claim(lessee) : NULL;
    if (mission == NULL)
        return NULL;
    mission->lessee = lessee;
    mission->due = (struct due){ .expire = mission_expire };
    mission->count = 0;
    mission->errand = (struct errand){ .fleet = lessee->fleet,
                                       .put = put_mission,
                                       .done = mission_done,
                                       .owner = mission,
                                       .blocks = &mission->blocks,
                                       .slot = name_slot(name),
                                       .tag = name_tag(name) };
    mission->next = NULL;
    *lessee->gathered_end = mission;
    lessee->gathered_end = &mission->next;
    lessee->mission_count++;
    return mission;
}

static void mission_free(struct mission *mission)
{
    blocks_free(mission->blocks);
    free(mission);
}

static void mission_spare(struct lessee *lessee, struct mission *mission)
{
    lessee->mission_count--;
    free(mission->errand.whole);
    mission->errand.whole = NULL;
    blocks_rewind(&mission->blocks);
    if (lessee->spare_count == SPARE_MAX) {
        mission_free(mission);
        return;
    }
    mission->next = lessee->spare;
    lessee->spare = mission;
    lessee->spare_count++;
}

/* One with room that goes where the name is. NULL: there is none. */
static struct mission *find_gathered(struct lessee *lessee, struct slice name)
{
    struct carrier *carrier = lessee->fleet->carrier;
    bool is_whole = carrier->is_whole(carrier);
    unsigned slot = is_whole ? 0 : name_slot(name);
    for (struct mission *mission = lessee->gathered; mission != NULL; mission = mission->next)
        if (mission->count < SCRIPT_LEASES_MAX && (is_whole || mission->errand.slot == slot))
            return mission;
    return NULL;
}

/* A claimed message leaves at the end of this turn. */
static void gather(struct lessee *lessee, const struct holdings_message *message)
{
    struct slice name = message->message.name;
    struct mission *mission = find_gathered(lessee, name);
    if (mission == NULL)
        mission = mission_new(lessee, name);
    if (mission == NULL) {
        holdings_unanswered(holdings_of(lessee), message, LESSEE_PAUSE_NS, fleet_lease_now(lessee->fleet));
        return;
    }
    mission->messages[mission->count++] = *message;
}

void lessee_call(struct lessee *lessee, uint64_t hash, weir_ns now)
{
    struct holdings_message message;
    lessee_watch(lessee, now);
    if (lessee->mission_count == LESSEE_MISSIONS_MAX
        || !holdings_claim(holdings_of(lessee), hash, fleet_lease_now(lessee->fleet), &message))
        return;
    gather(lessee, &message);
    schedule(lessee);
    fleet_rewake(lessee->fleet);
}

/* ---- On the way ---------------------------------------------------------------------------------------------------- */

/* The call of its messages, which `leases` gets. */
static struct script_lease_call call_of(const struct mission *mission, struct script_lease *leases)
{
    const struct fleet *fleet = mission->lessee->fleet;
    for (size_t i = 0; i < mission->count; i++)
        leases[i] = mission->messages[i].message;
    return (struct script_lease_call){ .leases = leases,
                                       .count = mission->count,
                                       .run = fleet->common->run,
                                       .label = slice_of(fleet->common->label),
                                       .incarnation = mission->incarnation,
                                       .wall_us = mission->wall_us,
                                       .has_time = fleet->options.injects_time };
}

static bool put_mission(const struct errand *errand, struct text *out, enum script_form form)
{
    struct script_lease leases[SCRIPT_LEASES_MAX];
    const struct script_lease_call call = call_of(errand->owner, leases);
    return script_put_lease(out, form, &call);
}

static void send_mission(struct mission *mission, weir_ns now)
{
    struct lessee *lessee = mission->lessee;
    struct fleet *fleet = lessee->fleet;
    weir_ns reading = fleet_reading(fleet, now), deadline = fleet->options.deadline;
    weir_ns patience = deadline > LESSEE_PATIENCE_NS ? deadline : LESSEE_PATIENCE_NS;
    mission->wall_us = fleet_wall_ns(fleet, reading) / 1000;
    mission->incarnation = fleet->carrier->incarnation(fleet->carrier, mission->errand.slot);
    mission->due.at = patience < WEIR_NO_TIME - 1 - now ? now + patience : WEIR_NO_TIME - 1;
    mission->errand.lease_messages = (unsigned)mission->count;
    due_add(&lessee->under_way, &mission->due);
    errand_send(&mission->errand, reading); /* the mission may be over behind it */
}

static void send_gathered(struct lessee *lessee, weir_ns now)
{
    while (lessee->gathered != NULL) {
        struct mission *mission = lessee->gathered;
        lessee->gathered = mission->next;
        if (lessee->gathered == NULL)
            lessee->gathered_end = &lessee->gathered;
        send_mission(mission, now);
    }
}

/* ---- Back ----------------------------------------------------------------------------------------------------------- */

/* The mission is over: its messages are due again after `pause`. */
static void give_up(struct mission *mission, weir_ns pause)
{
    struct lessee *lessee = mission->lessee;
    weir_ns now = fleet_lease_now(lessee->fleet);
    for (size_t i = 0; i < mission->count; i++)
        holdings_unanswered(holdings_of(lessee), &mission->messages[i], pause, now);
    due_remove(&lessee->under_way, &mission->due);
    mission_spare(lessee, mission);
}

static void mission_expire(struct due *due, weir_ns now)
{
    struct mission *mission = (struct mission *)((char *)due - offsetof(struct mission, due));
    errand_abandon(&mission->errand, now, now >= due->at);
    give_up(mission, LESSEE_PAUSE_NS);
}

static void tell_of(struct fleet *fleet, const struct script_lease *message,
                    const struct script_lease_answer *answer)
{
    const char *limit = message->limit->name;
    if (answer->was_damaged)
        fleet_tell_damage(fleet, limit, message->name);
    if (answer->has_lost_writes && common_may_tell(fleet->common, SLICE("lost-writes"), fleet->now))
        fleet_log(fleet, "event=store-lost-writes limit=%s key=%.*s", limit,
                  (int)(message->name.len < 200 ? message->name.len : 200), message->name.at);
}

static void hear(struct fleet *fleet, const struct holdings_message *message,
                 const struct script_lease_answer *answer)
{
    struct denied *denied = fleet->common->denied;
    const struct script_lease *said = &message->message;
    tell_of(fleet, said, answer);
    if (said->give > 0 && denied_may_keep(said->limit)) /* what was refused for want of it may pass */
        denied_drop(denied, denied_hash(denied, said->name, &said->size), fleet->now);
    holdings_answer(fleet->common->holdings, message, answer, fleet_lease_now(fleet));
}

/* False: the reply is none of the script's. */
static bool read_reply(struct mission *mission, struct slice reply, struct slice *why)
{
    struct fleet *fleet = mission->lessee->fleet;
    struct script_lease leases[SCRIPT_LEASES_MAX];
    struct script_lease_answer answers[SCRIPT_LEASES_MAX];
    const struct script_lease_call call = call_of(mission, leases);
    if (!script_read_lease(reply, &call, answers, why))
        return false;
    if (!fleet->options.injects_time)
        fleet_advance(fleet, fleet_reading(fleet, fleet->now));
    for (size_t i = 0; i < mission->count; i++)
        hear(fleet, &mission->messages[i], &answers[i]);
    return true;
}

static void mission_done(struct errand *errand, enum errand_end end, struct slice reply)
{
    struct mission *mission = errand->owner;
    struct lessee *lessee = mission->lessee;
    struct fleet *fleet = lessee->fleet;
    struct slice why = { 0 };
    bool is_heard = end == ERRAND_ANSWERED && read_reply(mission, reply, &why);
    if (end == ERRAND_ANSWERED && !is_heard)
        errand_is_bad(errand, why);
    if (is_heard)
        mission->count = 0;
    give_up(mission, LESSEE_PAUSE_NS);
    if (lessee->has_more && is_heard)
        lessee->beat_at = fleet->now;
    schedule(lessee);
    if (is_heard)
        background_tell(fleet, fleet->now);
}

/* ---- The beat --------------------------------------------------------------------------------------------------------- */

static bool is_avoided(const struct lessee *lessee)
{
    struct carrier *carrier = lessee->fleet->carrier;
    struct weir_outage away;
    return carrier->is_whole(carrier)
           && outage_ask(carrier->outage(carrier, 0), lessee->fleet->now, &away) == OUTAGE_AVOID;
}

/* What is due in its stripe, or everywhere where all goes back, as far as there are missions. */
static void collect(struct lessee *lessee)
{
    struct holdings_message batch[SCRIPT_LEASES_MAX];
    uint64_t part = atomic_load_explicit(&lessee->part, memory_order_relaxed);
    unsigned stripe = lessee->hands_back ? 0 : (unsigned)(part >> 32);
    unsigned stripes = lessee->hands_back ? 1 : (unsigned)(part & UINT32_MAX);
    bool has_turn = true;
    weir_ns now = fleet_lease_now(lessee->fleet);
    lessee->has_more = false;
    while (has_turn && !lessee->has_more) {
        size_t count = holdings_collect(holdings_of(lessee), stripe, stripes, now, batch, SCRIPT_LEASES_MAX);
        for (size_t i = 0; i < count; i++)
            gather(lessee, &batch[i]);
        has_turn = count == SCRIPT_LEASES_MAX && !is_avoided(lessee);
        lessee->has_more = has_turn && lessee->mission_count > LESSEE_MISSIONS_MAX - SCRIPT_LEASES_MAX;
    }
}

static void beat(struct lessee *lessee, weir_ns now)
{
    common_look_for_trouble(lessee->fleet->common);
    if (holdings_count(holdings_of(lessee)) == 0) {
        leave(lessee);
        lessee->beat_at = WEIR_NO_TIME;
        return;
    }
    if (lessee->mission_count <= LESSEE_MISSIONS_MAX - SCRIPT_LEASES_MAX)
        collect(lessee);
    lessee->beat_at = now + (lessee->hands_back ? LESSEE_LAST_BEAT_NS : LESSEE_BEAT_NS);
}

void lessee_tick(struct lessee *lessee, weir_ns now)
{
    struct fleet_common *common = lessee->fleet->common;
    atomic_store_explicit(&common->lease_now, fleet_lease_now(lessee->fleet), memory_order_relaxed);
    while (due_next(&lessee->under_way) <= now)
        lessee->under_way.head.next->expire(lessee->under_way.head.next, now);
    if (now >= lessee->beat_at)
        beat(lessee, now);
    send_gathered(lessee, now);
    schedule(lessee);
}

void lessee_hand_back(struct lessee *lessee, weir_ns now)
{
    holdings_hand_back(holdings_of(lessee));
    lessee->hands_back = true;
    join(lessee);
    lessee->beat_at = now;
    schedule(lessee);
}

/* ---- Life ------------------------------------------------------------------------------------------------------------- */

int lessee_new(struct lessee **out, struct fleet *fleet)
{
    struct lessee *lessee = calloc(1, sizeof *lessee);
    if (lessee == NULL)
        return WEIR_ERR_MEMORY;
    lessee->fleet = fleet;
    lessee->gathered_end = &lessee->gathered;
    lessee->beat_at = WEIR_NO_TIME;
    due_list_init(&lessee->under_way);
    *out = lessee;
    return 0;
}

void lessee_drain(struct lessee *lessee, weir_ns now)
{
    for (struct due *due = lessee->under_way.head.next, *next; due != &lessee->under_way.head; due = next) {
        next = due->next;
        struct mission *mission = (struct mission *)((char *)due - offsetof(struct mission, due));
        errand_abandon(&mission->errand, now, false);
        give_up(mission, 0);
    }
    while (lessee->gathered != NULL) {
        struct mission *mission = lessee->gathered;
        lessee->gathered = mission->next;
        give_up(mission, 0);
    }
    lessee->gathered_end = &lessee->gathered;
    schedule(lessee);
}

void lessee_free(struct lessee *lessee)
{
    if (lessee == NULL)
        return;
    lessee_drain(lessee, lessee->fleet->now);
    leave(lessee);
    while (lessee->spare != NULL) {
        struct mission *next = lessee->spare->next;
        mission_free(lessee->spare);
        lessee->spare = next;
    }
    free(lessee);
}
