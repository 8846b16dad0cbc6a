// SPDX-License-Identifier: Apache-2.0
/*
 * player_library.c - a timeline against the library, by its public calls alone.
 *
 * Stamps are the timeline's instants, the wall clock begins where it says, and the hash secret is fixed: a run
 * depends on nothing but its file.
 */
#include "sim/player.h"

#include <string.h>

static enum player_result library_open(struct player *player, const struct timeline *timeline, FILE *err)
{
    static const uint8_t secret[16] = "the same always";
    struct player_library *library = (struct player_library *)player;
    struct weir_diagnostics *diagnostics = NULL;
    const struct weir_contract_options options = { .wall_offset = timeline->start_wall,
                                                   .has_wall_offset = true,
                                                   .secret = secret };
    int error = timeline->contract_path != NULL
                    ? weir_contract_load(&library->contract, timeline->contract_path, &options, &diagnostics)
                    : weir_contract_parse(&library->contract, timeline->contract_text.at,
                                          timeline->contract_text.len, timeline->name, &options, &diagnostics);
    player->error[0] = '\0';
    if (error != 0 && weir_diagnostics_count(diagnostics) > 0 && err != NULL)
        weir_diagnostics_print(diagnostics, err, timeline->tree.is_coloured);
    else if (error != 0)
        (void)snprintf(player->error, sizeof player->error, "%.200s: %s", timeline->name,
                       weir_error_text(error));
    weir_diagnostics_free(diagnostics);
    return error == 0 ? PLAYER_OK : PLAYER_FAULTY;
}

static enum player_result library_decide(struct player *player, const struct weir_request *request, weir_ns now,
                                         struct verdict *out)
{
    struct player_library *library = (struct player_library *)player;
    struct weir_answer answer;
    int error = weir_contract_decide(library->contract, request, now, &answer);
    if (error == 0) {
        verdict_from_answer(library->contract, &answer, now, out);
        return PLAYER_OK;
    }
    struct weir_fault fault = { 0, "" };
    if (error != WEIR_ERR_ATTRIBUTE || weir_contract_validate(library->contract, request, &fault) == 0)
        (void)snprintf(fault.message, sizeof fault.message, "%s", weir_error_text(error));
    (void)snprintf(player->error, sizeof player->error, "%s", fault.message);
    return PLAYER_FAULTY;
}

static void library_close(struct player *player)
{
    struct player_library *library = (struct player_library *)player;
    weir_contract_free(library->contract);
    library->contract = NULL;
}

void player_library_init(struct player_library *library)
{
    *library = (struct player_library){
        .player = { .name = "library", .open = library_open, .decide = library_decide, .close = library_close }
    };
}
