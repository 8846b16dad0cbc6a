// SPDX-License-Identifier: Apache-2.0
/*
 * player_library.c - a timeline against the library, by its public calls alone.
 *
 * Stamps are the timeline's instants, the wall clock begins where it says, and the hash secret is fixed: a run
 * depends on nothing but its file. A reload is left unfinished until the next one, so that both ways are taken by which
 * counters reach a new contract: key by key as they are used, and all that are left at once.
 */
#include "sim/player.h"

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

static enum player_result library_open(struct player *player, const struct timeline *timeline, FILE *err)
{
    struct player_library *library = (struct player_library *)player;
    library->timeline = timeline;
    library->tickets = calloc(timeline->handle_count + 1, sizeof *library->tickets);
    if (library->tickets == NULL)
        return faulty(player, "out of memory");
    return load_contract(library, 0, err) == 0 ? PLAYER_OK : PLAYER_FAULTY;
}

static void library_close(struct player *player)
{
    struct player_library *library = (struct player_library *)player;
    weir_contract_free(library->contract);
    free(library->tickets);
    library->contract = NULL;
    library->tickets = NULL;
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

static enum player_result ask(struct player_library *library, const struct timeline_step *step,
                              struct verdict *out)
{
    struct weir_answer answer;
    struct weir_reservation ticket = { .len = 0 };
    int code = step->kind == STEP_REQUEST
                   ? weir_contract_decide(library->contract, &step->request, step->at, &answer)
                   : weir_contract_reserve(library->contract, &step->request, step->at, TIMELINE_HOLD_NS,
                                           &answer, &ticket);
    if (code != 0)
        return tell_request(library, &step->request, code);
    if (step->handle != TIMELINE_NO_HANDLE && step->kind == STEP_RESERVE)
        library->tickets[step->handle] = ticket;
    verdict_from_answer(&answer, step->at, out);
    return PLAYER_OK;
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
    const struct weir_reservation *ticket = &library->tickets[step->handle];
    struct weir *weir = weir_contract_limiter(library->contract);
    struct weir_settlement settlement;
    int code = step->kind == STEP_CANCEL
                   ? weir_cancel(weir, ticket->bytes, ticket->len, step->at, &settlement)
                   : weir_settle(weir, ticket->bytes, ticket->len, step->request.cost, step->at, &settlement);
    if (code == 0)
        from_settlement(library, &settlement, out);
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
    weir_contract_free(library->contract);
    library->contract = NULL;
    return load_contract(library, step->at, NULL) == 0 ? PLAYER_OK : PLAYER_FAULTY;
}

static enum player_result library_perform(struct player *player, const struct timeline_step *step,
                                          struct verdict *out)
{
    struct player_library *library = (struct player_library *)player;
    int code = 0;
    player->error[0] = '\0';
    if (step->kind <= STEP_RESERVE)
        return ask(library, step, out);
    if (step->kind == STEP_RESTART)
        return restart(library, step);
    if (step->kind == STEP_SETTLE || step->kind == STEP_CANCEL)
        code = settle(library, step, out);
    else if (step->kind == STEP_REFUND)
        code = refund(library, step, out);
    else if (step->kind == STEP_RESET)
        code = reset(library, step);
    else
        code = reload(library, step, out);
    out->effect.error = effect_error(code);
    if (code != 0 && player->error[0] == '\0')
        (void)faulty(player, weir_error_text(code)); /* the step says whether it was expected */
    return PLAYER_OK;
}

void player_library_init(struct player_library *library)
{
    *library = (struct player_library){ .player = { .name = "library",
                                                    .open = library_open,
                                                    .perform = library_perform,
                                                    .close = library_close } };
}
