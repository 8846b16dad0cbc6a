// SPDX-License-Identifier: Apache-2.0
/*
 * player_library.c - a timeline against the library, by its public calls alone.
 *
 * Stamps are the timeline's instants, the wall clock begins where it says, and the hash secret is fixed: a run
 * depends on nothing but its file. A reload is left unfinished until the next one, so that both ways are taken by which
 * counters reach a new contract: key by key as they are used, and all that are left at once.
 *
 * Each replica is a contract of its own. Where limits are shared, one more stands in for the store (stand_in.h), and the
 * replicas ask it.
 */
#include "sim/player.h"

#include <stdlib.h>
#include <string.h>

#include "sim/library.h"

/* Diagnostics go to `err`; where there is none, the first of them becomes the error. */
static void tell_diagnostics(struct player_library *library, const struct weir_diagnostics *diagnostics,
                             int code, FILE *err)
{
    library->player.error[0] = '\0';
    if (code != 0 && weir_diagnostics_count(diagnostics) > 0 && err != NULL) {
        weir_diagnostics_print(diagnostics, err, false);
    } else if (code != 0 && weir_diagnostics_count(diagnostics) > 0) {
        const struct weir_diagnostic *first = weir_diagnostics_at(diagnostics, 0);
        (void)snprintf(library->player.error, sizeof library->player.error, "line %u: %.200s: %.100s",
                       first->line, first->message, first->cure);
    } else if (code != 0) {
        (void)library_fail(library, weir_error_text(code)); /* the code is the result */
    }
}

/* ---- Beginning and ending -------------------------------------------------------------------------------- */

/* The contract in force in a fresh state whose loss was at `lost_at`. */
static int load_contract(struct player_library *library, enum weir_fleet fleet, weir_ns lost_at, FILE *err,
                         struct weir_contract **out)
{
    static const uint8_t secret[16] = "the same always";
    const struct timeline *timeline = library->timeline;
    const struct timeline_contract *source = library->source;
    struct weir_diagnostics *diagnostics = NULL;
    const struct weir_contract_options options = { .wall_offset = timeline->start_wall,
                                                   .has_wall_offset = true,
                                                   .lost_at = lost_at,
                                                   .secret = secret,
                                                   .fleet = fleet,
                                                   .has_store = true };
    int code = source->path != NULL ? weir_contract_load(out, source->path, &options, &diagnostics)
                                    : weir_contract_parse(out, source->text.at, source->text.len,
                                                          timeline->name, &options, &diagnostics);
    tell_diagnostics(library, diagnostics, code, err);
    weir_diagnostics_free(diagnostics);
    return code;
}

static enum player_result load_replica(struct player_library *library, size_t replica, weir_ns lost_at,
                                       FILE *err)
{
    enum weir_fleet fleet = library->store == NULL ? WEIR_FLEET_ALONE : WEIR_FLEET_SHARED;
    int code = load_contract(library, fleet, lost_at, err, &library->replicas[replica].contract);
    library->replicas[replica].starts++;
    return code == 0 ? PLAYER_OK : PLAYER_FAULTY;
}

struct library_slot *library_claim(struct player_library *library, size_t handle)
{
    struct library_slot **slot = &library->slots[handle];
    if (*slot == NULL) {
        *slot = calloc(1, sizeof **slot);
        if (*slot != NULL)
            (*slot)->handle = handle;
    }
    return *slot;
}

static void free_slot(struct player_library *library, size_t handle)
{
    struct library_slot *slot = library->slots[handle];
    library->slots[handle] = NULL;
    free(slot->waiter.parts);
    free(slot->gifts);
    free(slot->answer);
    free(slot);
}

static void drop_from(struct library_slot **list, size_t replica)
{
    while (*list != NULL)
        if ((*list)->replica == replica)
            *list = (*list)->next;
        else
            list = &(*list)->next;
}

void library_forget(struct player_library *library, size_t replica)
{
    drop_from(&library->turned, replica);
    drop_from(&library->ended, replica);
    for (size_t i = 0; library->slots != NULL && i < library->timeline->handle_count; i++) {
        struct library_slot *slot = library->slots[i];
        if (slot == NULL || slot->replica != replica)
            continue;
        if (slot->waits)
            (void)weir_wait_cancel(weir_contract_limiter(library->replicas[replica].contract), &slot->waiter,
                                   slot->step->at); /* the limiter goes as well */
        slot->waits = false;
        if (slot->gifts == NULL
            || (slot->gifts->shared.reservation.len == 0 && slot->gifts->shared.permit.len == 0))
            free_slot(library, i);
    }
}

static enum player_result open_contracts(struct player_library *library, FILE *err)
{
    const struct timeline *timeline = library->timeline;
    struct weir_contract *alone;
    if (load_contract(library, WEIR_FLEET_ALONE, 0, err, &alone) != 0)
        return PLAYER_FAULTY;
    if (!weir_contract_has_shared(alone)) {
        library->replicas[0] = (struct library_replica){ .contract = alone, .starts = 1 };
        if (timeline->has_store_steps)
            return library_fail(library, "a step is about the store, and no limit has `scope: fleet`");
    } else {
        library->store = stand_in_new(alone);
        if (library->store == NULL) {
            weir_contract_free(alone);
            return library_fail(library, "out of memory");
        }
    }
    enum player_result result = PLAYER_OK;
    for (size_t i = 0; i < timeline->replica_count && result == PLAYER_OK; i++)
        if (library->replicas[i].contract == NULL)
            result = load_replica(library, i, 0, err);
    return result;
}

static enum player_result library_open(struct player *player, const struct timeline *timeline, FILE *err)
{
    struct player_library *library = (struct player_library *)player;
    library->timeline = timeline;
    library->source = &timeline->contract;
    library->now = 0;
    library->slots = calloc(timeline->handle_count + 1, sizeof *library->slots);
    if (library->slots == NULL)
        return library_fail(library, "out of memory");
    return open_contracts(library, err);
}

static void library_close(struct player *player)
{
    struct player_library *library = (struct player_library *)player;
    for (size_t i = 0; i < TIMELINE_REPLICAS_MAX; i++) {
        struct library_replica *replica = &library->replicas[i];
        library_forget(library, i);
        weir_contract_free(replica->contract);
        spent_free(&replica->spent);
        *replica = (struct library_replica){ .contract = NULL };
    }
    for (size_t i = 0; library->slots != NULL && i < library->timeline->handle_count; i++)
        if (library->slots[i] != NULL)
            free_slot(library, i);
    stand_in_free(library->store);
    free(library->slots);
    library->store = NULL;
    library->slots = NULL;
}

/* ---- Beside deciding ------------------------------------------------------------------------------------- */

/* What the operations below return where the store has to be asked and is away. */
#define STORE_IS_AWAY 1

static bool is_store_away(const struct player_library *library)
{
    return library->store != NULL && stand_in_outage(library->store).began_at != WEIR_NO_TIME;
}

static struct weir *limiter_of(const struct player_library *library, const struct timeline_step *step)
{
    return weir_contract_limiter(library->replicas[step->replica].contract);
}

static int leave(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    struct library_slot *slot = library->slots[step->handle];
    if (slot == NULL || !slot->waits || !weir_wait_cancel(limiter_of(library, step), &slot->waiter, step->at))
        out->effect.error = effect_find_error("ended");
    else
        slot->waits = false;
    return 0;
}

/* The gifts under a step's handle; NULL: it was given nothing. */
static const struct library_gifts *gifts_of(const struct player_library *library,
                                            const struct timeline_step *step)
{
    const struct library_slot *slot = library->slots[step->handle];
    return slot == NULL ? NULL : slot->gifts;
}

/* Whether the part that a process gave is good at the step's replica: it is no other's, nor of one that has ended. */
static bool is_at_home(const struct player_library *library, const struct timeline_step *step)
{
    const struct library_slot *slot = library->slots[step->handle];
    return slot->replica == step->replica && slot->starts == library->replicas[step->replica].starts;
}

/* Of two settlements the larger numbers, and what is left of the limit that has least left. */
static void merge(struct weir_settlement *all, const struct weir_settlement *one)
{
    all->charged = one->charged > all->charged ? one->charged : all->charged;
    all->returned = one->returned > all->returned ? one->returned : all->returned;
    all->dropped = one->dropped > all->dropped ? one->dropped : all->dropped;
    all->is_repeated = all->is_repeated || one->is_repeated;
    if (one->limit == WEIR_NO_LIMIT)
        return;
    if (all->limit == WEIR_NO_LIMIT || one->remaining < all->remaining
        || (one->remaining == all->remaining && one->limit < all->limit)) {
        all->remaining = one->remaining;
        all->limit = one->limit;
    }
}

static void from_settlement(const struct player_library *library, const struct timeline_step *step,
                            const struct weir_settlement *settlement, struct verdict *out)
{
    const char *name = weir_limit_name(limiter_of(library, step), settlement->limit);
    effect_from_settlement(settlement, &out->effect);
    out->bound.has_remaining = name != NULL;
    out->bound.remaining = settlement->remaining;
    if (name != NULL)
        (void)snprintf(out->bound.name, sizeof out->bound.name, "%s", name);
}

/* The store's part first: while it is away nothing is settled. */
static int settle(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    const struct library_gifts *gifts = gifts_of(library, step);
    struct weir *weir = limiter_of(library, step);
    struct weir_settlement all = { .limit = WEIR_NO_LIMIT }, own;
    bool is_cancel = step->kind == STEP_CANCEL;
    int code = 0;
    if (gifts == NULL || (gifts->reservation.len > 0 && !is_at_home(library, step)))
        return WEIR_ERR_RESERVATION;
    if (gifts->shared.reservation.len > 0) {
        if (is_store_away(library))
            return STORE_IS_AWAY;
        code = stand_in_settle(library->store, &gifts->shared, is_cancel, step->request.cost, step->at, &all);
    }
    if (code == 0 && gifts->reservation.len > 0) {
        const struct weir_reservation *ticket = &gifts->reservation;
        code = is_cancel ? weir_cancel(weir, ticket->bytes, ticket->len, step->at, &own)
                         : weir_settle(weir, ticket->bytes, ticket->len, step->request.cost, step->at, &own);
        if (code == 0)
            merge(&all, &own);
    } else if (code == 0 && gifts->shared.reservation.len == 0) {
        code = WEIR_ERR_RESERVATION;
    }
    if (code == 0)
        from_settlement(library, step, &all, out);
    return code;
}

/* A permit that is lost is no permit any more. */
static int renew(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    const struct library_gifts *gifts = gifts_of(library, step);
    weir_ns expires_at = WEIR_NO_TIME, own;
    int code = 0;
    if (gifts == NULL || (gifts->permit.len > 0 && !is_at_home(library, step)))
        return WEIR_ERR_PERMIT;
    if (gifts->shared.permit.len > 0) {
        if (is_store_away(library))
            return STORE_IS_AWAY;
        code = stand_in_renew(library->store, &gifts->shared, step->at, &expires_at);
        if (code == 0 && expires_at == WEIR_NO_TIME)
            return WEIR_ERR_PERMIT;
    }
    if (code == 0 && gifts->permit.len > 0) {
        code = weir_renew(limiter_of(library, step), gifts->permit.bytes, gifts->permit.len, step->at, &own);
        if (code == 0 && own == WEIR_NO_TIME)
            return WEIR_ERR_PERMIT;
        expires_at = code == 0 && own < expires_at ? own : expires_at;
    }
    if (code == 0 && expires_at == WEIR_NO_TIME)
        return WEIR_ERR_PERMIT;
    out->expires_after = code == 0 ? expires_at - step->at : WEIR_NO_TIME;
    return code;
}

/* At another replica the store's part is given back all the same; that the other part is not is told as an error. */
static int release(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    const struct library_gifts *gifts = gifts_of(library, step);
    bool was_held = false;
    int code = 0;
    if (gifts == NULL || (gifts->permit.len == 0 && gifts->shared.permit.len == 0))
        return WEIR_ERR_PERMIT;
    if (gifts->shared.permit.len > 0) {
        if (is_store_away(library))
            return STORE_IS_AWAY;
        code = stand_in_release(library->store, &gifts->shared, step->at, &out->effect.is_released);
    }
    if (code != 0 || gifts->permit.len == 0)
        return code;
    if (!is_at_home(library, step))
        return WEIR_ERR_PERMIT;
    code = weir_release(limiter_of(library, step), gifts->permit.bytes, gifts->permit.len, step->at, &was_held);
    out->effect.is_released = gifts->shared.permit.len == 0 ? was_held : was_held && out->effect.is_released;
    return code;
}

static int refund(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    const struct weir_contract *contract = library->replicas[step->replica].contract;
    struct weir_settlement all = { .limit = WEIR_NO_LIMIT }, own;
    struct weir_shared shared;
    int code = 0;
    shared.count = 0;
    if (library->store != NULL)
        code = weir_contract_shared(contract, &step->request, &shared);
    if (code == 0 && shared.count > 0 && is_store_away(library))
        return STORE_IS_AWAY;
    if (code == 0 && shared.count > 0)
        code = stand_in_refund(library->store, &shared, step->request.cost, step->at, &all);
    if (code == 0)
        code = weir_contract_refund(contract, &step->request, step->at, &own);
    if (code != 0)
        return code;
    if (shared.count > 0)
        merge(&all, &own);
    else
        all = own;
    from_settlement(library, step, &all, out);
    return 0;
}

static int reset(struct player_library *library, const struct timeline_step *step)
{
    const struct weir_contract *contract = library->replicas[step->replica].contract;
    const struct weir_request *key = &step->request;
    struct weir_fault fault = { 0, "" };
    struct weir_shared shared;
    int code = 0;
    shared.count = 0;
    if (library->store != NULL)
        code = weir_contract_shared_key(contract, step->limit, key->attributes, key->attribute_count, &shared,
                                        &fault);
    if (code == 0 && shared.count > 0 && is_store_away(library))
        return STORE_IS_AWAY;
    if (code == 0)
        code = shared.count > 0
                   ? stand_in_reset(library->store, &shared.asks[0])
                   : weir_contract_reset(contract, step->limit, key->attributes, key->attribute_count, &fault);
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

/* Put a text in force in one contract. */
static int reload_contract(struct player_library *library, struct weir_contract *contract, struct slice text,
                           const struct timeline_step *step, struct weir_reload *out)
{
    struct weir_diagnostics *diagnostics = NULL;
    weir_contract_quiesce(contract, step->at);
    int code = weir_contract_reload(contract, text.at, text.len,
                                    step->contract.path == NULL ? library->timeline->name : step->contract.path,
                                    step->at, out, &diagnostics);
    tell_diagnostics(library, diagnostics, code, NULL);
    weir_diagnostics_free(diagnostics);
    return code;
}

/* Everywhere at once. What is wrong with it is wrong at the first that reads it, and then nothing has changed. */
static int reload(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    struct slice text = step->contract.text;
    char *file = NULL;
    struct weir_reload reload, ignored;
    if (step->contract.path != NULL) {
        file = read_file(step->contract.path, &text.len);
        if (file == NULL)
            return WEIR_ERR_FILE;
        text.at = file;
    }
    int code = reload_contract(library, library->replicas[0].contract, text, step, &reload);
    for (size_t i = 1; i < library->timeline->replica_count && code == 0; i++)
        code = reload_contract(library, library->replicas[i].contract, text, step, &ignored);
    if (code == 0 && library->store != NULL)
        code = reload_contract(library, stand_in_contract(library->store), text, step, &ignored);
    free(file);
    if (code != 0)
        return code;
    effect_from_reload(&reload, &out->effect);
    if (library->store != NULL) /* who begins later begins with it */
        library->source = &step->contract;
    return 0;
}

static enum player_result restart(struct player_library *library, const struct timeline_step *step)
{
    struct library_replica *replica = &library->replicas[step->replica];
    library_forget(library, step->replica);
    weir_contract_free(replica->contract);
    spent_free(&replica->spent);
    replica->contract = NULL;
    return load_replica(library, step->replica, step->at, NULL);
}

static enum player_result happen_to_store(struct player_library *library, const struct timeline_step *step)
{
    struct stand_in *store = library->store;
    struct weir_contract *fresh;
    switch (step->store) {
    case STORE_AWAY:
        stand_in_leave(store, step->at);
        return PLAYER_OK;
    case STORE_BACK:
        stand_in_return(store);
        for (size_t i = 0; i < library->timeline->replica_count; i++)
            spent_charge(&library->replicas[i].spent, store, step->at);
        return PLAYER_OK;
    default:
        if (load_contract(library, WEIR_FLEET_ALONE, step->at, NULL, &fresh) != 0)
            return PLAYER_FAULTY;
        stand_in_lose(store, fresh);
        return PLAYER_OK;
    }
}

/* An operation beside deciding: its code, or STORE_IS_AWAY. */
static int operate(struct player_library *library, const struct timeline_step *step, struct verdict *out)
{
    switch (step->kind) {
    case STEP_SETTLE:
    case STEP_CANCEL:
        return settle(library, step, out);
    case STEP_RENEW:
        return renew(library, step, out);
    case STEP_RELEASE:
        return release(library, step, out);
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

/* The step says whether it was expected. */
static void tell_error(struct player_library *library, int code, struct verdict *out)
{
    if (code == STORE_IS_AWAY)
        out->effect.error = effect_find_error("store");
    else if (code != 0)
        out->effect.error = effect_error(code);
    if (out->effect.error != NULL && library->player.error[0] == '\0')
        (void)library_fail(library, code == STORE_IS_AWAY ? "the store is away: try again"
                                    : code != 0           ? weir_error_text(code)
                                                          : "it waits no more");
}

static enum player_result library_perform(struct player *player, const struct timeline_step *step,
                                          uint64_t turn, struct verdict *out)
{
    struct player_library *library = (struct player_library *)player;
    player->error[0] = '\0';
    if (step_decides(step->kind))
        return step->may_wait ? library_wait(library, step, turn, out) : library_ask(library, step, turn, out);
    *out = (struct verdict){ .decided_at = WEIR_NO_TIME, .expires_after = WEIR_NO_TIME };
    if (step->kind == STEP_RESTART)
        return restart(library, step);
    if (step->kind == STEP_STORE)
        return happen_to_store(library, step);
    tell_error(library, operate(library, step, out), out);
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
