// SPDX-License-Identifier: Apache-2.0
/* edition.c - rows of counters follow the names of limits; see edition.h. */
#include "net/edition.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/worker.h"

/* ---- Making ---------------------------------------------------------------------------------------------- */

struct edition *edition_new(void)
{
    return calloc(1, sizeof(struct edition));
}

void edition_free(struct edition *edition)
{
    if (edition == NULL)
        return;
    free(edition->rows);
    free(edition);
}

/* What is needed to hand out rows: which are in use, and the old ones by name. */
struct places {
    const struct edition *before;
    uint32_t *by_name; /* open addressing: index in before->limits + 1 */
    size_t room;       /* a power of two, at most half full */
    bool used[COUNTERS_ROWS];
    uint32_t next_free;
};

static uint32_t hash_name(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a: names come from the operator's own file */
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

static bool index_names(struct places *places, const struct edition *before)
{
    size_t count = before == NULL ? 0 : before->limit_count;
    for (places->room = 2; places->room < 2 * count;)
        places->room *= 2;
    places->by_name = calloc(places->room, sizeof *places->by_name);
    if (places->by_name == NULL)
        return false;
    places->before = before;
    for (size_t i = 0; i < count; i++) {
        size_t at = hash_name(before->limits[i].name) & (places->room - 1);
        while (places->by_name[at] != 0)
            at = (at + 1) & (places->room - 1);
        places->by_name[at] = (uint32_t)i + 1;
        if (before->rows != NULL && before->rows[i] != COUNTERS_NO_ROW)
            places->used[before->rows[i]] = true;
    }
    return true;
}

/* The row that a name had, or COUNTERS_NO_ROW. */
static uint32_t old_row(const struct places *places, const char *name)
{
    for (size_t at = hash_name(name) & (places->room - 1); places->by_name[at] != 0;
         at = (at + 1) & (places->room - 1)) {
        size_t index = places->by_name[at] - 1;
        if (strcmp(places->before->limits[index].name, name) == 0)
            return places->before->rows == NULL ? COUNTERS_NO_ROW : places->before->rows[index];
    }
    return COUNTERS_NO_ROW;
}

/* A row that nobody uses, at zero for every worker. */
static uint32_t new_row(struct places *places, struct server *server)
{
    while (places->next_free < COUNTERS_ROWS && places->used[places->next_free])
        places->next_free++;
    assert(places->next_free < COUNTERS_ROWS); /* there are rows for the limits of two editions */
    uint32_t row = places->next_free++;
    for (unsigned i = 0; i < server->worker_count; i++)
        if (!counters_claim(&server->workers[i].counters, row))
            return COUNTERS_NO_ROW;
    return row;
}

void edition_fill(struct edition *edition, struct server *server, const struct edition *before)
{
    const struct weir_contract *contract = server->contract;
    size_t count = weir_contract_limit_count(contract);
    edition->limits = weir_contract_limit(contract, 0);
    edition->limit_count = count;
    edition->set = weir_set_current(weir_contract_limiter(contract));
    edition->headers = weir_contract_server(contract)->headers;
    (void)snprintf(edition->version, sizeof edition->version, "%s", weir_contract_version(contract));

    struct places *places = calloc(1, sizeof *places);
    uint32_t *rows = malloc((count + 1) * sizeof *rows);
    if (places == NULL || rows == NULL || !index_names(places, before)) {
        free(places);
        free(rows);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        rows[i] = old_row(places, edition->limits[i].name);
        if (rows[i] == COUNTERS_NO_ROW)
            rows[i] = new_row(places, server);
    }
    edition->rows = rows;
    free(places->by_name);
    free(places);
}

/* ---- Using ----------------------------------------------------------------------------------------------- */

void edition_catch_up(struct worker *worker)
{
    const struct edition *latest = __atomic_load_n(&worker->server->edition, __ATOMIC_ACQUIRE);
    if (latest == worker->edition)
        return;
    assert(worker->old_edition == NULL); /* the next reload waits until we have let go of the last */
    worker->old_edition = worker->edition;
    worker->edition = latest;
}

/* A reload that we met has stored its edition when it has let go of the lock. */
static void wait_for_edition(struct worker *worker)
{
    uv_mutex_lock(&worker->server->edition_lock);
    uv_mutex_unlock(&worker->server->edition_lock);
    edition_catch_up(worker);
}

const struct edition *edition_of(struct worker *worker, const struct weir_answer *answer)
{
    const struct weir_contract_limit *limits = answer->limits;
    if (answer->count == 0 || worker->edition->limits == limits) /* none is named by the first */
        return worker->edition;
    if (worker->old_edition != NULL && worker->old_edition->limits == limits)
        return worker->old_edition;
    wait_for_edition(worker);
    assert(worker->edition->limits == limits);
    return worker->edition;
}

const struct edition *edition_in_force(struct worker *worker)
{
    if (weir_set_current(weir_contract_limiter(worker->server->contract)) != worker->edition->set)
        wait_for_edition(worker);
    return worker->edition;
}
