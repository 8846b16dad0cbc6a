// SPDX-License-Identifier: Apache-2.0
/*
 * player_library.c - a timeline against the library, by its public calls alone.
 *
 * Stamps are the timeline's instants, the wall clock begins where it says, and the hash secret is fixed: a run
 * depends on nothing but its file. A reload is left unfinished until the next one, so that both ways are taken by which
 * counters reach a new contract: key by key as they are used, and all that are left at once.
 *
 * Who waits is driven as by any embedder, with virtual time: weir_wait_next() names an instant, and weir_wait_tick()
 * is called at that instant and no other.
 */
#include "sim/player.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static enum player_result faulty(struct player *player, const char *message)
{
    (void)snprintf(player->error, sizeof player->error, "%s", message);
    return PLAYER_FAULTY;
}

/* Diagnostics go to `err`; where there is none, the first of them becomes the error. */
static void tell_diagnostics(struct player *player, const struct weir_diagnostics *diagnostics, int code,
                             FILE *err)
{
    player->error[0] = '\0';
    if (code != 0 && weir_diagnostics_count(diagnostics) > 0 && err != NULL) {
        weir_diagnostics_print(diagnostics, err, false);
    } else if (code != 0 && weir_diagnostics_count(diagnostics) > 0) {
        const struct weir_diagnostic *first = weir_diagnostics_at(diagnostics, 0);
        (void)snprintf(player->error, sizeof player->error, "line %u: %.200s: %.100s", first->line,
                       first->message, first->cure);
    } else if (code != 0) {
        (void)faulty(player, weir_error_text(code)); /* the code is the result */
    }
}

/* ---- Beginning and ending -------------------------------------------------------------------------------- */

/* The contract of the timeline in a fresh state whose loss was at `lost_at`. */
static int load_contract(struct player_library *library, weir_ns lost_at, FILE *err)
{
    static const uint8_t secret[16] = "the same always";
    const struct timeline *timeline = library->timeline;
    const struct timeline_contract *source = &timeline->contract;
    struct weir_diagnostics *diagnostics = NULL;
    const struct weir_contract_options options = {
        .wall_offset = timeline->start_wall, .has_wall_offset = true, .lost_at = lost_at, .secret = secret
    };
    int code = source->path != NULL
                   ? weir_contract_load(&library->contract, source->path, &options, &diagnostics)
                   : weir_contract_parse(&library->contract, source->text.at, source->text.len, timeline->name,
                                         &options, &diagnostics);
    tell_diagnostics(&library->player, diagnostics, code, err);
    weir_diagnostics_free(diagnostics);
    return code;
}

/* What lasts of one request beyond its step. */
struct library_slot {
    struct weir_reservation reservation; /* len 0: none */
    struct weir_permit permit;           /* len 0: none */

    /* Of one that may wait. */
    struct weir_waiter waiter;
    size_t handle;
    enum step_kind kind;
    weir_ns begun_at;
    bool waits;
    struct library_slot *next_ended;
};

/* The slot of a handle; NULL: out of memory. */
static struct library_slot *slot_claim(struct player_library *library, size_t handle)
{
    struct library_slot **slot = &library->slots[handle];
    if (*slot == NULL) {
        *slot = calloc(1, sizeof **slot);
        if (*slot != NULL)
            (*slot)->handle = handle;
    }
    return *slot;
}

/* Everything that was given is forgotten, and who waits is not waited for any more. */
static void forget_slots(struct player_library *library)
{
    for (size_t i = 0; library->slots != NULL && i < library->timeline->handle_count; i++) {
        struct library_slot *slot = library->slots[i];
        if (slot == NULL)
            continue;
        if (slot->waits)
            (void)weir_wait_cancel(weir_contract_limiter(library->contract), &slot->waiter,
                                   slot->begun_at); /* the limiter goes as well */
        free(slot->waiter.parts);
        free(slot);
        library->slots[i] = NULL;
    }
    library->ended = NULL;
}

static enum player_result library_open(struct player *player, const struct timeline *timeline, FILE *err)
{
    struct player_library *library = (struct player_library *)player;
    library->timeline = timeline;
    library->now = 0;
    library->slots = calloc(timeline->handle_count + 1, sizeof *library->slots);
    if (library->slots == NULL)
        return faulty(player, "out of memory");
    return load_contract(library, 0, err) == 0 ? PLAYER_OK : PLAYER_FAULTY;
}

static void library_close(struct player *player)
{
    struct player_library *library = (struct player_library *)player;
    forget_slots(library);
    weir_contract_free(library->contract);
    free(library->slots);
    library->contract = NULL;
    library->slots = NULL;
}

/* ---- Requests -------------------------------------------------------------------------------------------- */

/* What is wrong with a request that could not be decided. */
static enum player_result tell_request(struct player_library *library, const struct weir_request *request,
                                       int code)
{
    struct weir_fault fault = { 0, "" };
    if (code != WEIR_ERR_ATTRIBUTE || weir_contract_validate(library->contract, request, &fault) == 0)
        return faulty(&library->player, weir_error_text(code));
    return faulty(&library->player, fault.message);
}

static void tell_permit(const struct weir_permit *permit, weir_ns now, struct verdict *out)
{
    if (permit->len == 0)
        return;
    out->expires_after = permit->expires_at > now ? permit->expires_at - now : 0;
    out->fence = permit->fence;
}

/* What was given stays with its handle; a step without one has no name for it. */
static enum player_result ask(struct player_library *library, const struct timeline_step *step, uint64_t turn,
                              struct verdict *out)
{
    struct weir_contract *contract = library->contract;
    struct weir_answer answer;
    struct weir_reservation reservation = { .len = 0 };
    struct weir_permit permit = { .len = 0 };
    int code =
        step->kind == STEP_REQUEST ? weir_contract_decide(contract, &step->request, step->at, &answer)
        : step->kind == STEP_RESERVE
            ? weir_contract_reserve(contract, &step->request, step->at, TIMELINE_HOLD_NS, &answer, &reservation)
            : weir_contract_acquire(contract, &step->request, step->at, &answer, &permit);
    if (code != 0)
        return tell_request(library, &step->request, code);
    verdict_from_answer(&answer, step->at, out);
    tell_permit(&permit, step->at, out);
    if (step->handle == TIMELINE_NO_HANDLE)
        return PLAYER_OK;
    struct library_slot *slot = slot_claim(library, step->handle + turn);
    if (slot == NULL)
        return faulty(&library->player, "out of memory");
    slot->reservation = reservation;
    slot->permit = permit;
    return PLAYER_OK;
}

/* ---- Waiting --------------------------------------------------------------------------------------------- */

/* weir_waiter.done: it is looked at when the tick has returned. */
static void on_done(struct weir_waiter *waiter)
{
    struct player_library *library = waiter->owner;
    struct library_slot *slot = (struct library_slot *)((char *)waiter - offsetof(struct library_slot, waiter));
    struct library_slot **last = &library->ended;
    while (*last != NULL)
        last = &(*last)->next_ended;
    *last = slot;
    slot->next_ended = NULL;
    slot->waits = false;
}

/* Its permit or reservation, from the instant at which it ended. */
static void take_gifts(struct player_library *library, struct library_slot *slot)
{
    struct weir *weir = weir_contract_limiter(library->contract);
    if (slot->kind == STEP_ACQUIRE)
        weir_waiter_permit(weir, &slot->waiter, &slot->permit);
    if (slot->kind == STEP_RESERVE)
        weir_waiter_reservation(weir, &slot->waiter, TIMELINE_HOLD_NS, &slot->reservation);
}

static void tell_waited(struct player_library *library, struct library_slot *slot,
                        const struct weir_answer *answer, struct verdict *out)
{
    weir_ns ended_at = slot->begun_at + slot->waiter.waited;
    take_gifts(library, slot);
    verdict_from_answer(answer, ended_at, out);
    out->waited = slot->waiter.waited;
    tell_permit(&slot->permit, ended_at, out);
}

/* The first guess of how many limits a request meets; weir_contract_wait() says when it is too low. */
#define PARTS_FIRST 1

static enum player_result wait_for(struct player_library *library, const struct timeline_step *step,
                                   uint64_t turn, struct verdict *out)
{
    struct weir_answer answer;
    struct library_slot *slot = slot_claim(library, step->handle + turn);
    if (slot == NULL)
        return faulty(&library->player, "out of memory");
    slot->kind = step->kind;
    slot->begun_at = step->at;
    for (size_t room = PARTS_FIRST;; room = WEIR_ASKS_MAX) {
        free(slot->waiter.parts);
        slot->waiter = (struct weir_waiter){ .parts = calloc(room, sizeof *slot->waiter.parts),
                                             .part_room = room,
                                             .acquires = step->kind == STEP_ACQUIRE,
                                             .done = on_done,
                                             .owner = library };
        if (slot->waiter.parts == NULL)
            return faulty(&library->player, "out of memory");
        int code = weir_contract_wait(library->contract, &step->request, step->at, &slot->waiter, &answer);
        if (code == WEIR_ERR_WAITER && room < WEIR_ASKS_MAX)
            continue;
        if (code != 0)
            return tell_request(library, &step->request, code);
        break;
    }
    slot->waits = answer.decision.outcome == WEIR_WAIT;
    if (slot->waits)
        verdict_from_answer(&answer, step->at, out);
    else
        tell_waited(library, slot, &answer, out);
    return PLAYER_OK;
}

static enum player_result library_advance(struct player *player, weir_ns now)
{
    struct player_library *library = (struct player_library *)player;
    struct weir *weir = weir_contract_limiter(library->contract);
    weir_ns next;
    while ((next = weir_wait_next(weir)) != WEIR_NO_TIME && next <= now) {
        library->now = next > library->now ? next : library->now;
        if (weir_wait_tick(weir, library->now, 1) == 0 && weir_wait_next(weir) == next)
            return faulty(player, "weir_wait_next() names an instant at which weir_wait_tick() ends nobody");
    }
    if (now != WEIR_NO_TIME && now > library->now)
        library->now = now;
    return PLAYER_OK;
}

static bool library_collect(struct player *player, size_t *handle, struct verdict *out)
{
    struct player_library *library = (struct player_library *)player;
    struct library_slot *slot = library->ended;
    struct weir_answer answer;
    if (slot == NULL)
        return false;
    library->ended = slot->next_ended;
    weir_contract_waited(library->contract, &slot->waiter, &answer);
    tell_waited(library, slot, &answer, out);
    *handle = slot->handle;
    return true;
}

static int leave(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    struct library_slot *slot = library->slots[step->handle];
    struct weir *weir = weir_contract_limiter(library->contract);
    if (slot == NULL || !slot->waits || !weir_wait_cancel(weir, &slot->waiter, step->at))
        out->effect.error = effect_find_error("ended");
    else
        slot->waits = false;
    return 0;
}

/* ---- Beside deciding ------------------------------------------------------------------------------------- */

static void from_settlement(const struct player_library *library, const struct weir_settlement *settlement,
                            struct verdict *out)
{
    const char *name = weir_limit_name(weir_contract_limiter(library->contract), settlement->limit);
    effect_from_settlement(settlement, &out->effect);
    out->bound.has_remaining = name != NULL;
    out->bound.remaining = settlement->remaining;
    if (name != NULL)
        (void)snprintf(out->bound.name, sizeof out->bound.name, "%s", name);
}

static int settle(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    static const struct weir_reservation none = { .len = 0 };
    const struct library_slot *slot = library->slots[step->handle];
    const struct weir_reservation *ticket = slot == NULL ? &none : &slot->reservation;
    struct weir *weir = weir_contract_limiter(library->contract);
    struct weir_settlement settlement;
    int code = step->kind == STEP_CANCEL
                   ? weir_cancel(weir, ticket->bytes, ticket->len, step->at, &settlement)
                   : weir_settle(weir, ticket->bytes, ticket->len, step->request.cost, step->at, &settlement);
    if (code == 0)
        from_settlement(library, &settlement, out);
    return code;
}

/* Renew or release. A permit that is lost is no permit any more. */
static int change_permit(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    static const struct weir_permit none = { .len = 0 };
    const struct library_slot *slot = library->slots[step->handle];
    const struct weir_permit *permit = slot == NULL ? &none : &slot->permit;
    struct weir *weir = weir_contract_limiter(library->contract);
    weir_ns expires_at;
    if (step->kind == STEP_RELEASE)
        return weir_release(weir, permit->bytes, permit->len, step->at, &out->effect.is_released);
    int code = weir_renew(weir, permit->bytes, permit->len, step->at, &expires_at);
    if (code == 0 && expires_at == WEIR_NO_TIME)
        return WEIR_ERR_PERMIT;
    out->expires_after = code == 0 ? expires_at - step->at : WEIR_NO_TIME;
    return code;
}

static int refund(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    struct weir_settlement settlement;
    int code = weir_contract_refund(library->contract, &step->request, step->at, &settlement);
    if (code == 0)
        from_settlement(library, &settlement, out);
    return code;
}

static int reset(struct player_library *library, const struct timeline_step *step)
{
    struct weir_fault fault = { 0, "" };
    int code = weir_contract_reset(library->contract, step->limit, step->request.attributes,
                                   step->request.attribute_count, &fault);
    if (code == WEIR_ERR_ATTRIBUTE)
        (void)snprintf(library->player.error, sizeof library->player.error, "%s", fault.message);
    return code;
}

/* The text of a contract's file; NULL: errno. The caller frees it. */
static char *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "re");
    char *text = file == NULL ? NULL : malloc(WEIR_CONTRACT_BYTES_MAX + 1);
    *len = text == NULL ? 0 : fread(text, 1, WEIR_CONTRACT_BYTES_MAX + 1, file);
    if (file != NULL)
        (void)fclose(file); /* it was only read */
    return text;
}

static int reload(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    struct slice text = step->contract.text;
    char *file = NULL;
    struct weir_reload reload;
    struct weir_diagnostics *diagnostics = NULL;
    if (step->contract.path != NULL) {
        file = read_file(step->contract.path, &text.len);
        if (file == NULL)
            return WEIR_ERR_FILE;
        text.at = file;
    }
    weir_contract_quiesce(library->contract, step->at);
    int code = weir_contract_reload(library->contract, text.at, text.len,
                                    file == NULL ? library->timeline->name : step->contract.path, step->at,
                                    &reload, &diagnostics);
    tell_diagnostics(&library->player, diagnostics, code, NULL);
    weir_diagnostics_free(diagnostics);
    free(file);
    if (code == 0)
        effect_from_reload(&reload, &out->effect);
    return code;
}

static enum player_result restart(struct player_library *library, const struct timeline_step *step)
{
    forget_slots(library);
    weir_contract_free(library->contract);
    library->contract = NULL;
    return load_contract(library, step->at, NULL) == 0 ? PLAYER_OK : PLAYER_FAULTY;
}

/* An operation beside deciding: its code. */
static int operate(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    switch (step->kind) {
    case STEP_SETTLE:
    case STEP_CANCEL:
        return settle(library, step, out);
    case STEP_RENEW:
    case STEP_RELEASE:
        return change_permit(library, step, out);
    case STEP_LEAVE:
        return leave(library, step, out);
    case STEP_REFUND:
        return refund(library, step, out);
    case STEP_RESET:
        return reset(library, step);
    default:
        return reload(library, step, out);
    }
}

static enum player_result library_perform(struct player *player, const struct timeline_step *step,
                                          uint64_t turn, struct verdict *out)
{
    struct player_library *library = (struct player_library *)player;
    player->error[0] = '\0';
    if (step_decides(step->kind))
        return step->may_wait ? wait_for(library, step, turn, out) : ask(library, step, turn, out);
    *out = (struct verdict){ .decided_at = WEIR_NO_TIME, .expires_after = WEIR_NO_TIME };
    if (step->kind == STEP_RESTART)
        return restart(library, step);
    int code = operate(library, step, out);
    if (code != 0)
        out->effect.error = effect_error(code);
    if (out->effect.error != NULL && player->error[0] == '\0')
        (void)faulty(player, code != 0 ? weir_error_text(code)
                                       : "it waits no more"); /* the step says whether it was expected */
    return PLAYER_OK;
}

void player_library_init(struct player_library *library)
{
    *library = (struct player_library){ .player = { .name = "library",
                                                    .open = library_open,
                                                    .perform = library_perform,
                                                    .advance = library_advance,
                                                    .collect = library_collect,
                                                    .close = library_close } };
}
