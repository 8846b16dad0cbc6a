// SPDX-License-Identifier: Apache-2.0
/*
 * library_ask.c - requests: of a contract without shared limits by the calls for that, else in three steps, as a server
 * takes them. The limits of the process are asked and charged, then the store, which answers at the same instant; where it
 * is away the limits say by themselves what then. At last the first are kept or undone.
 *
 * Who waits is driven as by any embedder, with virtual time: weir_wait_next() names an instant, and weir_wait_tick() is
 * called at that instant and no other. A turn asks the store.
 */
#include <stddef.h>
#include <stdlib.h>

#include "sim/library.h"

/* ---- Gifts ----------------------------------------------------------------------------------------------- */

/* What was given stays with its handle; a step without one has no name for it. */
static enum player_result keep(struct player_library *library, struct library_slot *slot,
                               const struct library_gifts *gifts)
{
    if (gifts->reservation.len == 0 && gifts->permit.len == 0 && gifts->shared.reservation.len == 0
        && gifts->shared.permit.len == 0)
        return PLAYER_OK;
    if (slot->gifts == NULL)
        slot->gifts = malloc(sizeof *slot->gifts);
    if (slot->gifts == NULL)
        return library_fail(library, "out of memory");
    *slot->gifts = *gifts;
    return PLAYER_OK;
}

static void tell_permit(const struct weir_permit *permit, weir_ns now, struct verdict *out)
{
    if (permit->len == 0)
        return;
    weir_ns expires_after = permit->expires_at > now ? permit->expires_at - now : 0;
    out->expires_after = expires_after < out->expires_after ? expires_after : out->expires_after;
    out->fence = permit->fence;
}

/* A permit of both is one: it expires with its first part. The store's fence is the one that every replica's is below. */
static void tell_gifts(const struct library_gifts *gifts, weir_ns now, struct verdict *out)
{
    tell_permit(&gifts->permit, now, out);
    tell_permit(&gifts->shared.permit, now, out);
}

/* What a waiter that passed was given by the limits of its process. */
static void take_gifts(struct weir *weir, enum step_kind kind, const struct weir_waiter *waiter,
                       struct library_gifts *gifts)
{
    if (kind == STEP_ACQUIRE)
        weir_waiter_permit(weir, waiter, &gifts->permit);
    if (kind == STEP_RESERVE)
        weir_waiter_reservation(weir, waiter, TIMELINE_HOLD_NS, &gifts->reservation);
}

/* ---- The store ------------------------------------------------------------------------------------------- */

static bool passes(enum weir_outcome outcome)
{
    return outcome == WEIR_ALLOW || outcome == WEIR_DUPLICATE || outcome == WEIR_UNMETERED;
}

/* A request whose process lets it pass. */
struct asking {
    struct player_library *library;
    size_t replica;
    enum step_kind kind;
    bool is_peek;
    weir_ns now;
    struct weir_waiter *waiter; /* with count 0 it met no limit of its process */
    struct weir_shared shared;
    struct library_gifts gifts;
};

/* Note what was taken out of this process's share, for when the store is back. */
static bool note_spent(struct asking *asking, const struct weir_shared_met *met)
{
    struct library_replica *replica = &asking->library->replicas[asking->replica];
    const struct weir_shared *shared = &asking->shared;
    bool is_noted = true;
    for (size_t i = 0; i < shared->count; i++) {
        const struct weir_decision *decision = &met[i].decision;
        if (!met[i].is_watched && !passes(decision->outcome))
            return true;
    }
    for (size_t i = 0; i < shared->count && !asking->is_peek; i++) {
        const struct weir_decision *decision = &met[i].decision;
        if (decision->policy == WEIR_POLICY_LOCAL && decision->outcome == WEIR_ALLOW && shared->asks[i].cost > 0
            && !shared->asks[i].size.is_unlimited)
            is_noted = spent_add(&replica->spent, shared->limits, &shared->asks[i]) && is_noted;
    }
    return is_noted;
}

static bool fall_back(struct asking *asking, const struct weir_outage *outage, struct weir_shared_met *met)
{
    const struct weir_shared *shared = &asking->shared;
    struct weir_decision each[WEIR_ASKS_MAX];
    struct weir_outage outages[WEIR_ASKS_MAX];
    uint64_t asked = shared->count == WEIR_ASKS_MAX ? UINT64_MAX : (UINT64_C(1) << shared->count) - 1;
    for (size_t i = 0; i < shared->count; i++)
        outages[i] = *outage;
    weir_contract_fall_back(library_contract(asking->library, asking->replica), shared, asked, outages,
                            asking->is_peek, asking->now, each);
    for (size_t i = 0; i < shared->count; i++)
        met[i] = (struct weir_shared_met){ shared->asks[i].limit, shared->asks[i].cost,
                                           shared->asks[i].is_watched, each[i], shared->asks[i].asked_by };
    return note_spent(asking, met);
}

/* Ask the store and make the answer whole. */
static enum player_result ask_store(struct asking *asking, struct verdict *out)
{
    struct player_library *library = asking->library;
    struct weir_contract *contract = library_contract(library, asking->replica);
    const struct weir_shared *shared = &asking->shared;
    struct weir_waiter *waiter = asking->waiter;
    struct weir_outage outage = stand_in_outage(library->store);
    struct weir_shared_met met[WEIR_ASKS_MAX];
    struct weir_answer answer;
    bool is_noted = true;
    if (outage.began_at == WEIR_NO_TIME)
        (void)stand_in_decide(library->store, asking->kind, asking->is_peek, shared, asking->now, met,
                              &asking->gifts.shared); /* the answer says whether it passes */
    else
        is_noted = fall_back(asking, &outage, met);
    weir_contract_end(contract, shared->rules, met, shared->count, waiter->count == 0 ? NULL : waiter,
                      asking->now, &answer);
    if (passes(answer.decision.outcome) && waiter->count > 0 && !asking->is_peek)
        take_gifts(weir_contract_limiter(contract), asking->kind, waiter, &asking->gifts);
    verdict_from_answer(&answer, asking->now, out);
    tell_gifts(&asking->gifts, asking->now, out);
    for (size_t i = 0; i < shared->count; i++)
        out->tick = shared->asks[i].size.tick > out->tick ? shared->asks[i].size.tick : out->tick;
    out->is_store_away = outage.began_at != WEIR_NO_TIME;
    return is_noted ? PLAYER_OK
                    : library_fail(library, "what was spent while the store was away does not fit in memory");
}

/* ---- At once --------------------------------------------------------------------------------------------- */

/* What is wrong with a request that could not be decided. */
static enum player_result tell_request(struct player_library *library, const struct timeline_step *step,
                                       int code)
{
    struct weir_fault fault = { 0, "" };
    const struct weir_contract *contract = library_contract(library, step->replica);
    if (code != WEIR_ERR_ATTRIBUTE || weir_contract_validate(contract, &step->request, &fault) == 0)
        return library_fail(library, weir_error_text(code));
    return library_fail(library, fault.message);
}

static int ask_process(struct asking *asking, const struct weir_request *request, struct verdict *out)
{
    struct weir_contract *contract = library_contract(asking->library, asking->replica);
    struct weir_answer answer;
    int code = asking->kind == STEP_REQUEST ? weir_contract_decide(contract, request, asking->now, &answer)
               : asking->kind == STEP_RESERVE
                   ? weir_contract_reserve(contract, request, asking->now, TIMELINE_HOLD_NS, &answer,
                                           &asking->gifts.reservation)
                   : weir_contract_acquire(contract, request, asking->now, &answer, &asking->gifts.permit);
    if (code != 0)
        return code;
    verdict_from_answer(&answer, asking->now, out);
    tell_gifts(&asking->gifts, asking->now, out);
    return 0;
}

/* The answer, or WEIR_WAIT, of a request whose waiter is asking->waiter. */
static int begin(struct asking *asking, const struct weir_request *request, struct verdict *out,
                 enum player_result *result)
{
    struct weir_contract *contract = library_contract(asking->library, asking->replica);
    struct weir_answer answer;
    int code = weir_contract_begin(contract, request, asking->now, asking->waiter, &answer, &asking->shared);
    *result = PLAYER_OK;
    if (code != 0)
        return code;
    if (asking->shared.count > 0 && answer.decision.outcome != WEIR_WAIT) {
        *result = ask_store(asking, out);
        return 0;
    }
    if (answer.decision.outcome != WEIR_WAIT && asking->waiter->count > 0 && !asking->is_peek)
        take_gifts(weir_contract_limiter(contract), asking->kind, asking->waiter, &asking->gifts);
    verdict_from_answer(&answer, asking->now, out);
    tell_gifts(&asking->gifts, asking->now, out);
    return 0;
}

enum player_result library_ask(struct player_library *library, const struct timeline_step *step, uint64_t turn,
                               struct verdict *out)
{
    struct weir_waiter_part parts[WEIR_ASKS_MAX];
    struct weir_waiter waiter = { .parts = parts,
                                  .part_room = WEIR_ASKS_MAX,
                                  .acquires = step->kind == STEP_ACQUIRE };
    struct asking asking;
    enum player_result result = PLAYER_OK;
    asking.library = library;
    asking.replica = step->replica;
    asking.kind = step->kind;
    asking.is_peek = step->request.is_peek;
    asking.now = step->at;
    asking.waiter = &waiter;
    asking.gifts = (struct library_gifts){ .reservation.len = 0 };
    int code = library->store == NULL ? ask_process(&asking, &step->request, out)
                                      : begin(&asking, &step->request, out, &result);
    if (code != 0)
        return tell_request(library, step, code);
    if (result != PLAYER_OK || step->handle == TIMELINE_NO_HANDLE)
        return result;
    struct library_slot *slot = library_claim(library, step->handle + turn);
    if (slot == NULL)
        return library_fail(library, "out of memory");
    slot->replica = step->replica;
    slot->starts = library->replicas[step->replica].starts;
    return keep(library, slot, &asking.gifts);
}

/* ---- Waiting --------------------------------------------------------------------------------------------- */

static void append(struct library_slot **list, struct library_slot *slot)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = slot;
    slot->next = NULL;
}

/* weir_waiter.done: it is looked at when the tick has returned. */
static void on_done(struct weir_waiter *waiter)
{
    struct player_library *library = waiter->owner;
    struct library_slot *slot = (struct library_slot *)((char *)waiter - offsetof(struct library_slot, waiter));
    slot->waits = false;
    append(&library->turned, slot);
}

static enum player_result tell_waited(struct player_library *library, struct library_slot *slot,
                                      const struct weir_answer *answer, struct verdict *out)
{
    weir_ns ended_at = slot->step->at + slot->waiter.waited;
    struct library_gifts gifts = { .reservation.len = 0 };
    take_gifts(weir_contract_limiter(library_contract(library, slot->replica)), slot->step->kind, &slot->waiter,
               &gifts);
    verdict_from_answer(answer, ended_at, out);
    out->waited = slot->waiter.waited;
    tell_gifts(&gifts, ended_at, out);
    return keep(library, slot, &gifts);
}

/* The first guess of how many limits a request meets; weir_contract_wait() says when it is too low. */
#define PARTS_FIRST 1

static bool slot_prepare(struct player_library *library, struct library_slot *slot, size_t room)
{
    free(slot->waiter.parts);
    slot->waiter = (struct weir_waiter){ .parts = calloc(room, sizeof *slot->waiter.parts),
                                         .part_room = room,
                                         .acquires = slot->step->kind == STEP_ACQUIRE,
                                         .done = on_done,
                                         .owner = library };
    return slot->waiter.parts != NULL;
}

static enum player_result wait_for_process(struct player_library *library, struct library_slot *slot,
                                           struct verdict *out)
{
    const struct timeline_step *step = slot->step;
    const struct weir_contract *contract = library_contract(library, slot->replica);
    struct weir_answer answer;
    int code = WEIR_ERR_WAITER;
    for (size_t room = PARTS_FIRST; code == WEIR_ERR_WAITER && room <= WEIR_ASKS_MAX;
         room = room == WEIR_ASKS_MAX ? room + 1 : WEIR_ASKS_MAX) {
        if (!slot_prepare(library, slot, room))
            return library_fail(library, "out of memory");
        code = weir_contract_wait(contract, &step->request, step->at, &slot->waiter, &answer);
    }
    if (code != 0)
        return tell_request(library, step, code);
    slot->waits = answer.decision.outcome == WEIR_WAIT;
    if (!slot->waits)
        return tell_waited(library, slot, &answer, out);
    verdict_from_answer(&answer, step->at, out);
    return PLAYER_OK;
}

static struct asking asking_of(struct player_library *library, struct library_slot *slot, weir_ns now)
{
    return (struct asking){ .library = library,
                            .replica = slot->replica,
                            .kind = slot->step->kind,
                            .now = now,
                            .waiter = &slot->waiter };
}

static enum player_result wait_for_both(struct player_library *library, struct library_slot *slot,
                                        struct verdict *out)
{
    const struct timeline_step *step = slot->step;
    size_t room = weir_contract_limit_count(library_contract(library, slot->replica));
    enum player_result result;
    if (!slot_prepare(library, slot, room > WEIR_ASKS_MAX ? WEIR_ASKS_MAX : room))
        return library_fail(library, "out of memory");
    struct asking asking = asking_of(library, slot, step->at);
    int code = begin(&asking, &step->request, out, &result);
    if (code != 0)
        return tell_request(library, step, code);
    slot->waits = result == PLAYER_OK && out->bound.outcome == WEIR_WAIT;
    return result == PLAYER_OK ? keep(library, slot, &asking.gifts) : result;
}

enum player_result library_wait(struct player_library *library, const struct timeline_step *step, uint64_t turn,
                                struct verdict *out)
{
    struct library_slot *slot = library_claim(library, step->handle + turn);
    if (slot == NULL)
        return library_fail(library, "out of memory");
    slot->step = step;
    slot->replica = step->replica;
    slot->starts = library->replicas[step->replica].starts;
    return library->store == NULL ? wait_for_process(library, slot, out) : wait_for_both(library, slot, out);
}

/* ---- Time ------------------------------------------------------------------------------------------------ */

/* Its turn came: the store has a say too, unless it had none from the start. */
static enum player_result take_turn(struct player_library *library, struct library_slot *slot)
{
    struct asking asking = asking_of(library, slot, slot->step->at + slot->waiter.waited);
    if (!slot->waiter.is_tentative || !passes(slot->waiter.decision.outcome))
        return PLAYER_OK;
    int code =
        weir_contract_shared(library_contract(library, slot->replica), &slot->step->request, &asking.shared);
    if (code != 0)
        return tell_request(library, slot->step, code);
    slot->answer = malloc(sizeof *slot->answer);
    if (slot->answer == NULL)
        return library_fail(library, "out of memory");
    enum player_result result = ask_store(&asking, slot->answer);
    slot->answer->waited = slot->waiter.waited;
    return result == PLAYER_OK ? keep(library, slot, &asking.gifts) : result;
}

static enum player_result take_turns(struct player_library *library)
{
    enum player_result result = PLAYER_OK;
    while (library->turned != NULL && result == PLAYER_OK) {
        struct library_slot *slot = library->turned;
        library->turned = slot->next;
        result = take_turn(library, slot);
        append(&library->ended, slot);
    }
    return result;
}

/* The replica where somebody's waiting ends first. */
static struct weir *first_to_end(const struct player_library *library, weir_ns *at)
{
    struct weir *first = NULL;
    *at = WEIR_NO_TIME;
    for (size_t i = 0; i < library->timeline->replica_count; i++) {
        struct weir *weir = weir_contract_limiter(library->replicas[i].contract);
        weir_ns next = weir_wait_next(weir);
        if (next < *at) {
            *at = next;
            first = weir;
        }
    }
    return first;
}

enum player_result library_advance(struct player *player, weir_ns now)
{
    struct player_library *library = (struct player_library *)player;
    enum player_result result = PLAYER_OK;
    struct weir *weir;
    weir_ns next;
    while (result == PLAYER_OK && (weir = first_to_end(library, &next)) != NULL && next <= now) {
        library->now = next > library->now ? next : library->now;
        if (weir_wait_tick(weir, library->now, 1) == 0 && weir_wait_next(weir) == next)
            return library_fail(library,
                                "weir_wait_next() names an instant at which weir_wait_tick() ends nobody");
        result = take_turns(library);
    }
    if (now != WEIR_NO_TIME && now > library->now)
        library->now = now;
    return result;
}

bool library_collect(struct player *player, size_t *handle, struct verdict *out)
{
    struct player_library *library = (struct player_library *)player;
    struct library_slot *slot = library->ended;
    struct weir_answer answer;
    if (slot == NULL)
        return false;
    library->ended = slot->next;
    *handle = slot->handle;
    if (slot->answer != NULL) {
        *out = *slot->answer;
        free(slot->answer);
        slot->answer = NULL;
        return true;
    }
    weir_contract_waited(library_contract(library, slot->replica), &slot->waiter, &answer);
    (void)tell_waited(library, slot, &answer,
                      out); /* without memory its name is not found later, which is told */
    return true;
}
