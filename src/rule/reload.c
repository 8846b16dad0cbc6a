// SPDX-License-Identifier: Apache-2.0
/*
 * reload.c - another text takes the place of the one in force, whole or not at all.
 *
 * Everything that can fail is done beside the rules in force. Then the limiter's set is put in force and after it the
 * rules: who reads new rules finds their set in force, and who still uses the old ones is told to start over by the first
 * key that was counted under the new set. What a limit was before says whether its counters go on; what does not go on is
 * told, since a rename that forgets counters is seldom meant.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rule/share.h"
#include "rule/throttle.h"

/* ---- What a reload does not read again --------------------------------------------------------------------------- */

static bool same_text(const char *x, const char *y)
{
    return x == NULL || y == NULL ? x == y : strcmp(x, y) == 0;
}

static bool same_list(const char *const *x, size_t x_count, const char *const *y, size_t y_count)
{
    bool is_same = x_count == y_count;
    for (size_t i = 0; is_same && i < x_count; i++)
        is_same = strcmp(x[i], y[i]) == 0;
    return is_same;
}

static bool same_server(const struct weir_contract_server *x, const struct weir_contract_server *y)
{
    bool is_same = same_list(x->http, x->http_count, y->http, y->http_count)
                   && same_list(x->resp, x->resp_count, y->resp, y->resp_count)
                   && same_list(x->grpc, x->grpc_count, y->grpc, y->grpc_count) && x->uid_count == y->uid_count
                   && x->has_uids == y->has_uids && same_text(x->admin, y->admin)
                   && same_text(x->tokens, y->tokens) && same_text(x->tls_cert, y->tls_cert)
                   && same_text(x->tls_key, y->tls_key) && same_text(x->tls_client_ca, y->tls_client_ca)
                   && x->auth_wait == y->auth_wait && x->rls_refunds == y->rls_refunds
                   && x->log_format == y->log_format && x->proxy_doors == y->proxy_doors
                   && x->socket_mode == y->socket_mode && x->connections_per_peer == y->connections_per_peer;
    for (size_t i = 0; is_same && i < x->uid_count; i++)
        is_same = x->uids[i] == y->uids[i];
    return is_same;
}

static bool same_memory(const struct memory_config *x, const struct memory_config *y)
{
    return x->keys == y->keys && x->log_stamps == y->log_stamps && x->permits == y->permits
           && x->new_keys.count == y->new_keys.count && x->new_keys.period == y->new_keys.period;
}

static void warn_unread(struct load *load, const struct node *node, const char *what)
{
    diagnostics_add(load->diagnostics, WEIR_SEVERITY_WARNING,
                    node == NULL ? (struct place){ 0, 0, 0 } : node->place, "restart the program to apply it",
                    "%s differs from when the program started: a reload does not read it again", what);
}

static void keep_unread(struct load *load, struct weir_contract *contract)
{
    if (!same_server(load->server, &contract->servers[0]))
        warn_unread(load, load->serving, "server");
    if (!same_memory(&load->rules->memory, &contract->memory))
        warn_unread(load, load->memory, "memory");
    if (!same_text(load->store->url, contract->store.url) || load->store->deadline != contract->store.deadline)
        warn_unread(load, load->storing, "store");
    load->server = &contract->servers[0]; /* identity goes on with the uids of the start */
}

/* ---- What became of the limits ------------------------------------------------------------------------------------ */

/* A limit of one of the two, under what it is sorted by: its name, or what it is but for its name. */
struct entry {
    const char *by;
    size_t index;
    bool is_taken; /* of those that are gone: told as renamed */
};

static int compare_entries(const void *x, const void *y)
{
    const struct entry *a = x;
    const struct entry *b = y;
    int order = strcmp(a->by, b->by);
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

static int compare_key(const void *key, const void *entry)
{
    return strcmp(key, ((const struct entry *)entry)->by);
}

static struct entry *find(struct entry *entries, size_t count, const char *by)
{
    return count == 0 ? NULL : bsearch(by, entries, count, sizeof *entries, compare_key);
}

/* One reload, to be told. */
struct report {
    struct load *load;
    const struct rules *old, *next;
    struct entry *old_names, *next_names, *gone; /* sorted; `gone` by what they are but for their name */
    size_t gone_count;
    const enum weir_change_kind *kinds;
    struct weir_reload *out;
};

/* The rest of the limit's object behind its name. */
static const char *body_of(const struct rules *rules, size_t index)
{
    const struct weir_contract_limit *limit = &rules->limits[index];
    return limit->json + strlen("{\"name\":\"") + strlen(limit->name);
}

static struct entry *sort_names(struct region *scratch, const struct rules *rules)
{
    struct entry *names = REGION_NEW(scratch, struct entry, rules->limit_count + 1);
    for (size_t i = 0; names != NULL && i < rules->limit_count; i++)
        names[i] = (struct entry){ .by = rules->list[i].limit.name, .index = i };
    if (names != NULL && rules->limit_count > 0)
        qsort(names, rules->limit_count, sizeof *names, compare_entries);
    return names;
}

/* Sort what there is to compare, while it can still fail. False: out of memory. */
static bool prepare(struct report *report)
{
    struct region *scratch = report->load->scratch;
    report->old_names = sort_names(scratch, report->old);
    report->next_names = sort_names(scratch, report->next);
    report->gone = REGION_NEW(scratch, struct entry, report->old->limit_count + 1);
    if (scratch->has_failed)
        return false;
    for (size_t i = 0; i < report->old->limit_count; i++)
        if (find(report->next_names, report->next->limit_count, report->old->list[i].limit.name) == NULL)
            report->gone[report->gone_count++] = (struct entry){ .by = body_of(report->old, i), .index = i };
    if (report->gone_count > 0)
        qsort(report->gone, report->gone_count, sizeof *report->gone, compare_entries);
    return true;
}

/* An old limit that is gone and was the same but for its name; NULL: none. */
static const char *renamed_from(struct report *report, size_t index)
{
    struct entry *twin = find(report->gone, report->gone_count, body_of(report->next, index));
    if (twin == NULL || twin->is_taken)
        return NULL;
    twin->is_taken = true;
    return report->old->list[twin->index].limit.name;
}

static void tell_new(struct report *report, size_t index, struct place place)
{
    const char *name = report->next->list[index].limit.name;
    const char *before = renamed_from(report, index);
    if (before == NULL)
        diagnostics_add(report->load->diagnostics, WEIR_SEVERITY_WARNING, place,
                        "nothing, if that is meant: a limit keeps its counters as long as its name stays",
                        "limit '%s' is new: its counters start fresh", name);
    else
        diagnostics_add(report->load->diagnostics, WEIR_SEVERITY_WARNING, place,
                        "keep the name, if the counters should go on",
                        "limit '%s' is new: its counters start fresh; '%s', which was the same, is gone", name,
                        before);
}

static void tell_restarted(const struct report *report, size_t index, struct place place)
{
    const struct rule *next = &report->next->list[index];
    const struct entry *before = find(report->old_names, report->old->limit_count, next->limit.name);
    const struct rule *old = before == NULL ? next : &report->old->list[before->index];
    const char *what = old->scope != next->scope                                ? "scope"
                       : old->limit.algorithm != next->limit.algorithm          ? "algorithm"
                       : strcmp(old->limit.key_form, next->limit.key_form) != 0 ? "key"
                                                                                : "align";
    diagnostics_add(report->load->diagnostics, WEIR_SEVERITY_WARNING, place,
                    "nothing, if that is meant: every key is whole again",
                    "limit '%s' starts afresh: its %s changed", next->limit.name, what);
}

static void tell_gone(const struct report *report)
{
    for (size_t i = 0; i < report->gone_count; i++)
        if (!report->gone[i].is_taken)
            diagnostics_add(report->load->diagnostics, WEIR_SEVERITY_WARNING, (struct place){ 0, 0, 0 },
                            "nothing, if that is meant", "limit '%s' is gone: its counters are forgotten",
                            report->old->list[report->gone[i].index].limit.name);
    report->out->removed = report->gone_count;
}

/* Portions are given out by the new terms, although what is counted stays. */
static bool is_leased_anew(const struct report *report, size_t index)
{
    const struct rule *next = &report->next->list[index];
    const struct entry *before = find(report->old_names, report->old->limit_count, next->limit.name);
    const struct weir_lease *old = before == NULL ? &next->lease : &report->old->list[before->index].lease;
    return old->most != next->lease.most || old->chunk != next->lease.chunk
           || (next->lease.most > 0 && old->duration != next->lease.duration);
}

static void tell(struct report *report)
{
    const struct node *node = report->load->limits == NULL ? NULL : report->load->limits->first;
    for (size_t i = 0; node != NULL && i < report->next->limit_count; i++, node = node->next) {
        switch (report->kinds[i]) {
        case WEIR_CHANGE_KEPT:
            *(is_leased_anew(report, i) ? &report->out->resized : &report->out->kept) += 1;
            break;
        case WEIR_CHANGE_RESIZED:
            report->out->resized++;
            break;
        case WEIR_CHANGE_NEW:
            report->out->added++;
            tell_new(report, i, node->place);
            break;
        default:
            report->out->restarted++;
            tell_restarted(report, i, node->place);
            break;
        }
    }
    tell_gone(report);
}

/* ---- Putting it in force ------------------------------------------------------------------------------------------- */

static int commit(struct weir_contract *contract, struct load *load, struct weir_change *change,
                  struct weir_change *shares, weir_ns now, struct weir_reload *out)
{
    struct rules *old = atomic_load_explicit(&contract->current, memory_order_relaxed); /* only we write it */
    struct rules *next = load->rules;
    /* Behind the contract's limits stand those that requests bring along: CL.THROTTLE's and each unit's. */
    enum weir_change_kind *kinds =
        REGION_NEW(load->scratch, enum weir_change_kind, next->limit_count + 1 + OWN_COUNT);
    struct weir_reload counts = { 0 };
    struct report report = { .load = load, .old = old, .next = next, .kinds = kinds, .out = &counts };
    if (kinds == NULL || !prepare(&report)) {
        weir_change_free(shares);
        weir_change_free(change);
        return WEIR_ERR_MEMORY;
    }
    int error = weir_change_commit(change, now, &next->set, kinds);
    if (error != 0) {
        weir_change_free(shares);
        if (error == WEIR_ERR_MEMORY)
            return error;
        contract_report_commit(load, error);
        return WEIR_ERR_CONTRACT;
    }
    share_commit(load, contract->shares, shares, now);
    contract->old = old;
    atomic_store_explicit(&contract->current, next, memory_order_release);
    tell(&report);
    *out = counts;
    return 0;
}

static int build(struct weir_contract *contract, struct load *load, struct slice text, weir_ns now,
                 struct weir_reload *out)
{
    struct weir_change *change, *shares = NULL;
    int error = weir_change_new(&change, contract->limiter);
    if (error != 0)
        return error;
    error = rules_read(load, text);
    if (error == 0)
        error = contract_add_limits(load, change);
    if (error == 0)
        error = throttle_prepare(load, change);
    if (error == 0)
        error = share_prepare(load, contract->shares, &shares);
    if (error == 0 && diagnostics_errors(load->diagnostics) > 0)
        error = WEIR_ERR_CONTRACT;
    if (error == 0) {
        keep_unread(load, contract);
        error = rules_finish(load);
    }
    if (error == 0)
        return commit(contract, load, change, shares, now, out);
    weir_change_free(shares);
    weir_change_free(change);
    return error;
}

int weir_contract_reload(struct weir_contract *contract, const char *text, size_t len, const char *name,
                         weir_ns now, struct weir_reload *out, struct weir_diagnostics **diagnostics)
{
    const struct weir_allocator *allocator = contract->has_allocator ? &contract->allocator : NULL;
    struct slice whole = { len == 0 ? "" : text, len };
    struct weir_contract_server server = { 0 };
    struct weir_contract_store store = { .deadline = STORE_DEADLINE };
    struct weir_reload counts = { 0 };
    struct region scratch;
    if (diagnostics != NULL)
        *diagnostics = NULL;
    region_init(&scratch, allocator);
    struct weir_diagnostics *found = diagnostics_new(name == NULL ? "contract" : name, allocator);
    struct rules *rules = rules_new(allocator);
    int error = WEIR_ERR_MEMORY;
    if (found != NULL && rules != NULL) {
        struct load load = { .region = &rules->region,
                             .scratch = &scratch,
                             .home = &scratch,
                             .diagnostics = found,
                             .server = &server,
                             .store = &store,
                             .fleet = contract->fleet,
                             .has_store = contract->has_store,
                             .has_throttle = contract->has_throttle,
                             .is_reload = true,
                             .rules = rules };
        error = build(contract, &load, whole, now, &counts);
    }
    /* Out of memory for the words alone: what is in force stays in force, and nothing is said. */
    bool is_told = found != NULL && diagnostics_finish(found, whole);
    contract_give(is_told ? diagnostics : NULL, found);
    if (error != 0)
        rules_free(rules);
    else if (out != NULL)
        *out = counts;
    region_deinit(&scratch);
    return error;
}

void weir_contract_quiesce(struct weir_contract *contract, weir_ns now)
{
    weir_quiesce(contract->limiter, now);
    share_quiesce(contract->shares, now);
    rules_free(contract->old);
    contract->old = NULL;
}

void weir_contract_retire(struct weir_contract *contract)
{
    weir_retire(contract->limiter);
    share_retire(contract->shares);
}
