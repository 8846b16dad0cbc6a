// SPDX-License-Identifier: Apache-2.0
/*
 * background.c - commands that nobody waits for: undoing, releasing, telling what was spent, probing.
 *
 * They outlive the request and the contract that they come from, so they copy what they need. Undoing and releasing go whatever the
 * breaker says: they follow a command on the same connection, behind which the store executes them. None is sent again; what
 * is lost stays charged, and permits return by themselves.
 *
 * Telling: one batch at a time for each loop, the next when the last was answered, so it takes its turn with decisions and delays
 * none of them. A batch that was not executed goes back into the journal, one of unknown fate counts as told (journal.h says why).
 *
 * A nurse watches over one node that is avoided. There is one in each loop that wanted to ask it; the breaker lets one of
 * them probe at a time. It goes when the breaker is closed or another node has the slot.
 */
#include <stdlib.h>

#include "fleet/work.h"

#define TELL_BATCH 16
/* After a batch that was refused although the node answers others. */
#define TELL_PAUSE_NS (100 * WEIR_MILLISECOND)
/* How often a nurse looks whether a probe may go sooner (outage_alive()). */
#define NURSE_LOOKS_NS (200 * WEIR_MILLISECOND)

enum chore_kind { CHORE_UNDO, CHORE_RELEASE, CHORE_TELL };

struct chore {
    struct due due;
    struct fleet *fleet;
    enum chore_kind kind;
    struct errand errand;
    struct script_call call;
    struct script_answer *answers;
    struct block *blocks;
    char id[SCRIPT_ID_LEN];
    struct journal_entry *entries[TELL_BATCH];
    size_t entry_count;
};

/* ---- Copies --------------------------------------------------------------------------------------------------------- */

static bool copy_text(struct block **blocks, const char *from, const char **out)
{
    struct slice copied;
    *out = NULL;
    if (from == NULL)
        return true;
    if (!block_copy(blocks, (struct slice){ from, strlen(from) + 1 }, &copied))
        return false;
    *out = copied.at;
    return true;
}

static const struct weir_limit *copy_limit(struct block **blocks, const struct weir_limit *from)
{
    struct weir_limit *limit = block_claim(blocks, sizeof *limit);
    if (limit == NULL)
        return NULL;
    *limit = *from;
    limit->key_form = NULL; /* says what keys are made of: this one is made */
    return copy_text(blocks, from->name, &limit->name) && copy_text(blocks, from->zone, &limit->zone) ? limit
                                                                                                      : NULL;
}

static bool copy_item(struct block **blocks, const struct script_item *from, struct script_item *out)
{
    *out = *from;
    out->limit = copy_limit(blocks, from->limit);
    return out->limit != NULL && block_copy(blocks, from->name, &out->name)
           && (from->retry.len == 0 || block_copy(blocks, from->retry, &out->retry));
}

static bool copy_call(struct block **blocks, const struct script_call *from, struct script_call *out)
{
    struct script_item *items = block_claim(blocks, from->count * sizeof *items);
    if (items == NULL)
        return false;
    *out = *from;
    out->items = items;
    for (size_t i = 0; i < from->count; i++)
        if (!copy_item(blocks, &from->items[i], &items[i]))
            return false;
    return block_copy(blocks, from->id, &out->id)
           && (from->record.len == 0 || block_copy(blocks, from->record, &out->record));
}

/* ---- Chores ----------------------------------------------------------------------------------------------------------- */

static void chore_free(struct chore *chore)
{
    due_remove(&chore->fleet->background, &chore->due);
    for (size_t i = 0; i < chore->entry_count; i++)
        journal_entry_free(chore->entries[i]);
    free(chore->errand.whole);
    blocks_free(chore->blocks);
    free(chore);
}

static bool put_chore(const struct errand *errand, struct text *out, enum script_form form)
{
    const struct chore *chore = errand->owner;
    switch (chore->kind) {
    case CHORE_UNDO:
        return script_put_undo(out, form, &chore->call, chore->answers);
    case CHORE_RELEASE:
        return script_put_release(out, form, &chore->call);
    case CHORE_TELL:
        return script_put_spend(out, form, &chore->call);
    }
    return false;
}

static void told(struct chore *chore, enum errand_end end);

static void chore_done(struct errand *errand, enum errand_end end, struct slice reply)
{
    struct chore *chore = errand->owner;
    (void)reply; /* what it says changes nothing */
    if (chore->kind == CHORE_TELL)
        told(chore, end);
    else
        chore_free(chore);
}

static void chore_expire(struct due *due, weir_ns now)
{
    struct chore *chore = (struct chore *)((char *)due - offsetof(struct chore, due));
    errand_abandon(&chore->errand, now, chore->kind == CHORE_TELL && now >= due->at);
    chore_done(&chore->errand, ERRAND_UNSURE, (struct slice){ 0 });
}

static struct chore *chore_new(struct fleet *fleet, enum chore_kind kind, unsigned slot)
{
    struct chore *chore = fleet->background.count < FLEET_BACKGROUND_MAX ? calloc(1, sizeof *chore) : NULL;
    if (chore == NULL)
        return NULL;
    chore->fleet = fleet;
    chore->kind = kind;
    chore->errand = (struct errand){ .fleet = fleet,
                                     .put = put_chore,
                                     .done = chore_done,
                                     .owner = chore,
                                     .slot = slot,
                                     .blocks = &chore->blocks,
                                     .is_asked_on = kind != CHORE_TELL };
    chore->due = (struct due){ .at = fleet->now + FLEET_BACKGROUND_NS, .expire = chore_expire };
    due_add(&fleet->background, &chore->due);
    return chore;
}

static void chore_send(struct chore *chore, weir_ns now)
{
    struct fleet *fleet = chore->fleet;
    chore->call.wall_us = fleet_wall_ns(fleet, now) / 1000;
    chore->call.has_time = fleet->options.injects_time;
    chore->call.incarnation = fleet->carrier->incarnation(fleet->carrier, chore->errand.slot);
    errand_send(&chore->errand, now);
}

void background_undo(struct fleet *fleet, const struct script_call *call, const struct script_answer *answers,
                     unsigned slot, weir_ns now)
{
    struct chore *chore = chore_new(fleet, CHORE_UNDO, slot);
    if (chore == NULL)
        return;
    chore->answers = block_claim(&chore->blocks, call->count * sizeof *answers);
    if (chore->answers == NULL || !copy_call(&chore->blocks, call, &chore->call)) {
        chore_free(chore);
        return;
    }
    memcpy(chore->answers, answers, call->count * sizeof *answers);
    /* Two requests may have charged the same in the same tick: an undo with a name of its own is not taken for the other's. */
    uint8_t drawn[FLEET_RANDOM_LEN];
    if (call->id.len == 0 && fleet_draw(fleet, drawn)) {
        fleet_write_id(drawn, chore->id);
        chore->call.id = (struct slice){ chore->id, SCRIPT_ID_LEN };
    }
    chore_send(chore, now);
}

void background_release(struct fleet *fleet, const struct script_call *call, unsigned slot, weir_ns now)
{
    struct script_item items[WEIR_ASKS_MAX];
    struct script_call held = *call;
    held.items = items;
    held.count = 0;
    for (size_t i = 0; i < call->count; i++)
        if (call->items[i].limit->algorithm == WEIR_CONCURRENCY)
            items[held.count++] = call->items[i];
    if (held.count == 0)
        return;
    struct chore *chore = chore_new(fleet, CHORE_RELEASE, slot);
    if (chore == NULL)
        return;
    if (!copy_call(&chore->blocks, &held, &chore->call)) {
        chore_free(chore);
        return;
    }
    chore_send(chore, now);
}

/* ---- Telling ------------------------------------------------------------------------------------------------------------ */

static void give_back(struct chore *chore)
{
    struct fleet *fleet = chore->fleet;
    for (size_t i = 0; i < chore->entry_count; i++) {
        uint64_t cost = chore->entries[i]->cost;
        if (!journal_put_back(fleet->common->journal, chore->entries[i], fleet->now))
            count_add(fleet->common, COUNT_SPENT_LOST, cost);
    }
    chore->entry_count = 0;
}

static void told(struct chore *chore, enum errand_end end)
{
    struct fleet *fleet = chore->fleet;
    if (end == ERRAND_AWAY)
        give_back(chore);
    for (size_t i = 0; i < chore->entry_count; i++)
        count_add(fleet->common, COUNT_SPENT_TOLD, chore->entries[i]->cost);
    chore_free(chore);
    fleet->tells = false;
    if (end != ERRAND_ANSWERED)
        fleet->tell_again_at = fleet->now + TELL_PAUSE_NS;
    else if (!fleet->is_telling)
        background_tell(fleet, fleet->now);
}

static bool is_limit_of(const struct weir_contract_limit *limit, const struct journal_entry *entry,
                        struct slice name)
{
    bool is_bucket = limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET;
    bool was_bucket = entry->algorithm == WEIR_TOKEN_BUCKET || entry->algorithm == WEIR_LEAKY_BUCKET;
    return limit->is_shared && slice_equals(slice_of(limit->name), name)
           && (limit->algorithm == entry->algorithm || (is_bucket && was_bucket));
}

/* The limit of an entry in the contract in force: where it stood, or elsewhere since a reload. NULL: there is none. */
static const struct weir_contract_limit *limit_of(const struct fleet *fleet, const struct journal_entry *entry)
{
    struct name_parts parts;
    size_t count = weir_contract_limit_count(fleet->contract);
    if (!name_read((struct slice){ entry->name, entry->name_len }, &parts))
        return NULL;
    for (size_t i = 0; i <= count; i++) {
        weir_limit_id id = i == 0 ? entry->limit : (weir_limit_id)(i - 1);
        const struct weir_contract_limit *limit =
            (size_t)id < count ? weir_contract_limit(fleet->contract, id) : NULL;
        if (limit != NULL && is_limit_of(limit, entry, parts.limit))
            return limit;
    }
    return NULL;
}

static bool add_entry(struct chore *chore, struct script_item *items, struct journal_entry *entry)
{
    struct fleet *fleet = chore->fleet;
    const struct weir_contract_limit *limit = limit_of(fleet, entry);
    struct script_item *item = &items[chore->call.count];
    const struct script_item seen = { .name = { entry->name, entry->name_len },
                                      .limit = limit == NULL ? NULL : limit->spec,
                                      .size = entry->size,
                                      .cost = entry->cost,
                                      .lease = limit == NULL ? (struct weir_lease){ 0 } : limit->lease };
    if (limit == NULL || !copy_item(&chore->blocks, &seen, item)) {
        count_add(fleet->common, COUNT_SPENT_LOST, entry->cost);
        journal_entry_free(entry);
        return false;
    }
    chore->call.count++;
    chore->entries[chore->entry_count++] = entry;
    return true;
}

/* A few entries, of one slot where that matters. NULL: there is nothing to tell. */
static struct chore *gather_batch(struct fleet *fleet, weir_ns now)
{
    size_t most = fleet->carrier->is_whole(fleet->carrier) ? TELL_BATCH : 1;
    struct journal_entry *entry;
    struct chore *chore = chore_new(fleet, CHORE_TELL, 0);
    if (chore == NULL)
        return NULL;
    struct script_item *items = block_claim(&chore->blocks, TELL_BATCH * sizeof *items);
    chore->call.items = items;
    chore->call.verb = SCRIPT_TAKE;
    while (items != NULL && chore->call.count < most
           && (entry = journal_take(fleet->common->journal, now)) != NULL)
        (void)add_entry(chore, items, entry); /* what cannot be told any more is counted as lost */
    if (items == NULL || chore->call.count == 0) {
        chore_free(chore);
        return NULL;
    }
    chore->errand.slot = name_slot(items[0].name);
    chore->errand.tag = name_tag(items[0].name);
    return chore;
}

void background_tell(struct fleet *fleet, weir_ns now)
{
    if (fleet->is_telling)
        return;
    fleet->is_telling = true; /* a carrier may answer within the call: go round, not deeper */
    while (!fleet->tells && now >= fleet->tell_again_at && journal_count(fleet->common->journal) > 0) {
        struct chore *chore = gather_batch(fleet, now);
        if (chore == NULL)
            break;
        fleet->tells = true;
        chore_send(chore, now);
    }
    fleet->is_telling = false;
}

/* ---- Nurses --------------------------------------------------------------------------------------------------------------- */

struct nurse {
    struct due due;
    struct fleet *fleet;
    struct outage *outage;
    struct errand errand;
    struct block *blocks;
    size_t tag_len;
    char tag[];
};

/* A key of its own that is charged and at once full again: the store must be able to write to answer. */
static const struct weir_limit probe_limit = {
    .name = "~p", .algorithm = WEIR_TOKEN_BUCKET, .rate = { 1, WEIR_MILLISECOND }, .burst = 1000
};
static const struct weir_shared_size probe_size = {
    .tick = WEIR_MICROSECOND, .capacity = 1000, .count = 1, .period = 1000
};

static void nurse_free(struct nurse *nurse)
{
    due_remove(&nurse->fleet->nurses, &nurse->due);
    free(nurse->errand.whole);
    blocks_free(nurse->blocks);
    free(nurse);
}

static bool put_probe(const struct errand *errand, struct text *out, enum script_form form)
{
    const struct nurse *nurse = errand->owner;
    char name[NAME_BESIDE_MAX];
    struct script_item item = { .limit = &probe_limit, .size = probe_size, .cost = 1 };
    item.name = (struct slice){ name, name_of_probe((struct slice){ nurse->tag, nurse->tag_len }, name) };
    const struct script_call call = { .verb = SCRIPT_TAKE,
                                      .items = &item,
                                      .count = 1,
                                      .wall_us = fleet_wall_ns(errand->fleet, errand->now) / 1000,
                                      .has_time = errand->fleet->options.injects_time };
    return script_put_decide(out, form, &call);
}

static void nurse_expire(struct due *due, weir_ns now);

static void reschedule(struct nurse *nurse, weir_ns now)
{
    weir_ns at = outage_probe_at(nurse->outage);
    if (at == WEIR_NO_TIME) {
        nurse_free(nurse);
        return;
    }
    due_remove(&nurse->fleet->nurses, &nurse->due);
    at = at > now ? at : now + WEIR_MILLISECOND;
    nurse->due.at = at < now + NURSE_LOOKS_NS ? at : now + NURSE_LOOKS_NS;
    due_add(&nurse->fleet->nurses, &nurse->due);
    fleet_rewake(nurse->fleet);
}

static void probe_done(struct errand *errand, enum errand_end end, struct slice reply)
{
    struct nurse *nurse = errand->owner;
    struct fleet *fleet = nurse->fleet;
    (void)reply;
    reschedule(nurse, fleet->now); /* goes where the breaker is closed now */
    if (end == ERRAND_ANSWERED)
        background_tell(fleet, fleet->now);
}

static void probe(struct nurse *nurse, weir_ns now)
{
    struct fleet *fleet = nurse->fleet;
    weir_ns deadline = fleet->options.deadline;
    blocks_free(nurse->blocks);
    nurse->blocks = NULL;
    due_remove(&fleet->nurses, &nurse->due);
    nurse->due.at = deadline > WEIR_NO_TIME - 1 - now ? WEIR_NO_TIME - 1 : now + deadline;
    due_add(&fleet->nurses, &nurse->due);
    errand_send(&nurse->errand, now);
}

/* For how long the breaker waits for news of a probe: longer than its nurse, who tells in time, or two could be under way. */
static weir_ns probe_time(const struct fleet *fleet)
{
    weir_ns deadline = fleet->options.deadline;
    return deadline < WEIR_DAY ? 2 * deadline + 100 * WEIR_MILLISECOND : deadline;
}

static void nurse_expire(struct due *due, weir_ns now)
{
    struct nurse *nurse = (struct nurse *)((char *)due - offsetof(struct nurse, due));
    struct fleet *fleet = nurse->fleet;
    if (nurse->errand.is_under_way)
        errand_abandon(&nurse->errand, now, true);
    if (fleet->carrier->outage(fleet->carrier, nurse->errand.slot) != nurse->outage) {
        nurse_free(nurse);
        return;
    }
    if (outage_probe(nurse->outage, now, probe_time(fleet)) == OUTAGE_PROBE)
        probe(nurse, now);
    else
        reschedule(nurse, now);
}

void background_nurse(struct fleet *fleet, struct outage *outage, unsigned slot, struct slice tag, weir_ns now)
{
    for (struct due *due = fleet->nurses.head.next; due != &fleet->nurses.head; due = due->next)
        if (((struct nurse *)((char *)due - offsetof(struct nurse, due)))->outage == outage)
            return;
    struct nurse *nurse = calloc(1, sizeof *nurse + tag.len);
    if (nurse == NULL)
        return; /* the next request that is avoided tries again */
    nurse->fleet = fleet;
    nurse->outage = outage;
    nurse->errand = (struct errand){ .fleet = fleet,
                                     .put = put_probe,
                                     .done = probe_done,
                                     .owner = nurse,
                                     .slot = slot,
                                     .blocks = &nurse->blocks,
                                     .is_probe = true };
    nurse->due.expire = nurse_expire;
    memcpy(nurse->tag, tag.at, tag.len);
    nurse->tag_len = tag.len;
    nurse->due.at = WEIR_NO_TIME - 1;
    due_add(&fleet->nurses, &nurse->due);
    reschedule(nurse, now);
}

void background_end(struct fleet *fleet, weir_ns now)
{
    fleet->is_telling = true; /* no new batch */
    while (fleet->background.count > 0)
        fleet->background.head.next->expire(fleet->background.head.next, now);
    fleet->is_telling = false;
    for (struct due *due = fleet->nurses.head.next, *next; due != &fleet->nurses.head; due = next) {
        struct nurse *nurse = (struct nurse *)((char *)due - offsetof(struct nurse, due));
        next = due->next;
        if (nurse->errand.is_under_way)
            errand_abandon(&nurse->errand, now, true);
        nurse_free(nurse);
    }
}
