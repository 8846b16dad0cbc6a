// SPDX-License-Identifier: Apache-2.0
/* share.c - the limiter of shares: made with the first limit that has one, changed with each reload, asked while a store is away. */
#include "rule/share.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "rule/decide.h"
#include "rule/size.h"

/* Shares are a stopgap: their table need not hold more keys than these. */
#define SHARE_KEYS_MAX ((size_t)65536)

/* ---- Life cycle ------------------------------------------------------------------------------------------------------ */

void share_init(struct share_keeper *keeper, const struct weir_options *options)
{
    keeper->options = *options;
    keeper->options.wake = NULL; /* nobody waits for a share */
    keeper->options.permits = 1;
    keeper->options.new_keys = (struct weir_quota){ 0 };
    if (options->keys == 0 || options->keys > SHARE_KEYS_MAX)
        keeper->options.keys = SHARE_KEYS_MAX;
    if (options->secret != NULL) {
        memcpy(keeper->secret, options->secret, sizeof keeper->secret);
        keeper->options.secret = keeper->secret;
    }
    keeper->began_at = options->lost_at > options->origin ? options->lost_at : options->origin;
    atomic_init(&keeper->wall_offset, options->wall_offset);
    atomic_init(&keeper->lost_number, 0);
}

void share_deinit(struct share_keeper *keeper)
{
    weir_free(share_limiter(keeper));
}

static int claim_limiter(struct share_keeper *keeper)
{
    struct weir *limiter;
    if (share_limiter(keeper) != NULL)
        return 0;
    keeper->options.wall_offset = atomic_load_explicit(&keeper->wall_offset, memory_order_relaxed);
    int error = weir_new(&limiter, &keeper->options);
    if (error == 0)
        atomic_store_explicit(&keeper->limiter, limiter, memory_order_release);
    return error;
}

void share_quiesce(struct share_keeper *keeper, weir_ns now)
{
    struct weir *limiter = share_limiter(keeper);
    if (limiter != NULL)
        weir_quiesce(limiter, now);
}

void share_retire(struct share_keeper *keeper)
{
    struct weir *limiter = share_limiter(keeper);
    if (limiter != NULL)
        weir_retire(limiter);
}

/* ---- Making shares --------------------------------------------------------------------------------------------------- */

/*
 * Limits here are called by a digest: of the limit's name, by which its counters go on after a reload, and for an override of
 * a bucket also of its size.
 */
static void name_share(const struct rule *rule, const struct weir_size *size, char out[WEIR_NAME_MAX + 1])
{
    char text[WEIR_NAME_MAX + 80];
    int len = snprintf(text, sizeof text, "%s", rule->limit.name);
    if (size != NULL)
        len = snprintf(text, sizeof text, "%s %llu %llu %llu", rule->limit.name,
                       (unsigned long long)size->rate.count, (unsigned long long)size->rate.period,
                       (unsigned long long)size->burst);
    sha256_hex(text, (size_t)len, 16, out);
    out[32] = '\0';
}

/* Add the share of a size. `own` NULL: of keys without an override. */
static int add_share(struct load *load, struct weir_change *change, const struct rule *rule,
                     const struct node *node, const struct weir_size *own, weir_limit_id *out)
{
    char name[WEIR_NAME_MAX + 1];
    struct weir_size whole = size_of(rule), size;
    bool is_rate = size_share(rule, own == NULL ? &whole : own, &size);
    name_share(rule, own, name);
    struct weir_limit limit = {
        .name = name,
        .algorithm = rule->limit.algorithm,
        .rate = size.rate,
        .burst = size.burst,
        .align = rule->limit.align,
        .calendar = rule->limit.calendar,
        .zone = rule->limit.zone,
        .when_full = WEIR_FULL_CLOSED, /* one more budget for all that find no room would be beyond the bound */
        .refused = rule->limit.refused,
        .state_lost = rule_is_bucket(rule) ? WEIR_LOST_EMPTY : WEIR_LOST_FULL,
        .retries_free_within = rule->limit.retries_free_within,
        .key_form = rule->limit.key_form,
    };
    *out = WEIR_NO_LIMIT;
    int error = is_rate ? weir_change_limit(change, &limit, out) : WEIR_ERR_PERIOD;
    if (error == 0 || error == WEIR_ERR_MEMORY
        || error == WEIR_ERR_DUPLICATE) /* reported of the limit itself */
        return error == WEIR_ERR_DUPLICATE ? 0 : error;
    load->owner = (struct owner){ .what = "the share of limit", .name = slice_of(rule->limit.name) };
    contract_report_code(load, node, "when-store-fails", error);
    load->owner = (struct owner){ 0 };
    return 0;
}

static int compare_sizes(const void *x, const void *y)
{
    const struct weir_size *a = &((const struct share_size *)x)->size,
                           *b = &((const struct share_size *)y)->size;
    if (a->rate.count != b->rate.count)
        return a->rate.count < b->rate.count ? -1 : 1;
    if (a->rate.period != b->rate.period)
        return a->rate.period < b->rate.period ? -1 : 1;
    return (a->burst > b->burst) - (a->burst < b->burst);
}

/* A limit for each different size among the overrides of a bucket. */
static int add_sizes(struct load *load, struct weir_change *change, struct rule *rule, const struct node *node)
{
    struct share_size *sizes = REGION_NEW(load->region, struct share_size, rule->overrides.count + 1);
    size_t given = 0, count = 0;
    if (sizes == NULL)
        return WEIR_ERR_MEMORY;
    for (size_t i = 0; i < rule->overrides.count; i++)
        if (!rule->override_list[i].size.is_unlimited)
            sizes[given++].size = rule->override_list[i].size;
    if (given > 0)
        qsort(sizes, given, sizeof *sizes, compare_sizes);
    for (size_t i = 0; i < given; i++) {
        if (count > 0 && compare_sizes(&sizes[count - 1], &sizes[i]) == 0)
            continue;
        sizes[count] = sizes[i];
        int error = add_share(load, change, rule, node, &sizes[count].size, &sizes[count].share);
        if (error != 0)
            return error;
        count++;
    }
    rule->share_sizes = sizes;
    rule->share_size_count = count;
    return 0;
}

/* Overrides of windows and logs: their keys stay the same. What weir.h says of them was said of the whole size before. */
static int add_overrides(struct weir_change *change, const struct rule *rule)
{
    for (size_t i = 0; i < rule->overrides.count; i++) {
        const struct override *override = &rule->override_list[i];
        struct weir_size size;
        (void)size_share(rule, &override->size, &size); /* of windows it never fails */
        int error = weir_change_override(change, rule->share_limit, override->key, override->key_len, &size);
        if (error == WEIR_ERR_MEMORY)
            return error;
    }
    return 0;
}

static int add_rule(struct load *load, struct weir_change *change, struct rule *rule, const struct node *node)
{
    int error = add_share(load, change, rule, node, NULL, &rule->share_limit);
    if (error != 0 || rule->share_limit == WEIR_NO_LIMIT || rule->overrides.count == 0)
        return error;
    return rule_is_bucket(rule) ? add_sizes(load, change, rule, node) : add_overrides(change, rule);
}

static bool has_shares(const struct load *load)
{
    for (size_t i = 0; i < load->rules->limit_count; i++)
        if (rule_has_share(&load->rules->list[i]))
            return load->fleet == WEIR_FLEET_SHARED;
    return false;
}

int share_prepare(struct load *load, struct share_keeper *keeper, struct weir_change **out)
{
    struct weir_change *change;
    *out = NULL;
    if (!has_shares(load))
        return 0;
    int error = claim_limiter(keeper);
    if (error == 0)
        error = weir_change_new(&change, share_limiter(keeper));
    if (error != 0)
        return error;
    const struct node *node = load->limits->first;
    for (size_t i = 0; error == 0 && i < load->rules->limit_count; i++, node = node->next) {
        struct rule *rule = &load->rules->list[i];
        if (rule_has_share(rule) && rule->is_countable)
            error = add_rule(load, change, rule, node);
    }
    if (error == 0)
        *out = change;
    else
        weir_change_free(change);
    return error;
}

/* What was spent of a share whose limit starts anew with this text must not come back: so what is absent is empty from here on. */
void share_commit(struct load *load, struct share_keeper *keeper, struct weir_change *change, weir_ns now)
{
    load->rules->shares = NULL;
    if (change == NULL)
        return;
    int error = weir_change_commit(change, now, &load->rules->shares, NULL);
    if (error == 0) {
        weir_lost_at_set(share_limiter(keeper), now);
        return;
    }
    load->rules->shares = NULL;
    diagnostics_add(load->diagnostics, WEIR_SEVERITY_WARNING, load->limits->place, "restart the program",
                    "limits with `local` are closed while the store is away: %s", weir_error_text(error));
}

/* ---- Asking ------------------------------------------------------------------------------------------------------------ */

#define SHARE_KEY_MAX (KEY_PLAIN_MAX + 8)

/* What is asked of the shares, and which question each is. Some 20 KB; lives on the stack. */
struct share_asks {
    struct weir_ask asks[WEIR_ASKS_MAX];
    uint8_t question[WEIR_ASKS_MAX];
    unsigned char keys[WEIR_ASKS_MAX][SHARE_KEY_MAX];
    size_t count;
};

/* The limit under the rules in force, which a reload may have put in the place of those that the question was made for. */
static const struct rule *rule_of(const struct rules *rules, const struct weir_shared *shared, weir_limit_id id)
{
    if (rules == shared->rules)
        return &rules->list[id];
    for (size_t i = 0; i < rules->limit_count; i++)
        if (strcmp(rules->list[i].limit.name, shared->limits[id].name) == 0)
            return rules->list[i].limit.algorithm == shared->limits[id].algorithm ? &rules->list[i] : NULL;
    return NULL;
}

/* The limit that counts this key's share; WEIR_NO_LIMIT: none. */
static weir_limit_id share_of(const struct rules *rules, const struct rule *rule,
                              const struct weir_shared_ask *ask)
{
    struct share_size wanted;
    if (rule == NULL || !rule_has_share(rule))
        return WEIR_NO_LIMIT;
    if (rule->share_size_count == 0
        || weir_set_size(rules->set, (weir_limit_id)(rule - rules->list), ask->key, ask->key_len, &wanted.size)
               != 0)
        return rule->share_limit;
    const struct share_size *found =
        bsearch(&wanted, rule->share_sizes, rule->share_size_count, sizeof wanted, compare_sizes);
    return found == NULL ? rule->share_limit : found->share;
}

/* A bucket's key ends in the number of the outage. */
static void put_ask(struct share_asks *asks, const struct rule *rule, weir_limit_id share,
                    const struct weir_shared_ask *ask, size_t question, uint64_t outage)
{
    unsigned char *key = asks->keys[asks->count];
    size_t len = ask->key_len;
    memcpy(key, ask->key, len);
    for (int i = 0; rule_is_bucket(rule) && i < 8; i++)
        key[len++] = (unsigned char)(outage >> (8 * (7 - i)));
    asks->question[asks->count] = (uint8_t)question;
    asks->asks[asks->count++] = (struct weir_ask){ .limit = share,
                                                   .key = key,
                                                   .key_len = len,
                                                   .cost = ask->cost,
                                                   .retry_id = ask->retry_id,
                                                   .retry_id_len = ask->retry_id_len };
}

/* See Ordering in share.h. An outage that nobody dates begins now. */
static void begin_outage(struct share_keeper *keeper, const struct weir_outage *outage, weir_ns now)
{
    uint64_t seen = atomic_load_explicit(&keeper->lost_number, memory_order_acquire);
    if (outage->number <= seen)
        return;
    weir_lost_at_set(share_limiter(keeper), outage->began_at == WEIR_NO_TIME ? now : outage->began_at);
    while (seen < outage->number
           && !atomic_compare_exchange_weak_explicit(&keeper->lost_number, &seen, outage->number,
                                                     memory_order_acq_rel, memory_order_acquire))
        continue;
}

/* What a share says, in the words of the limit. That a cost does not fit the share says nothing of when the store is back. */
static struct weir_decision in_words(const struct weir_shared_ask *ask, struct weir_decision decision)
{
    decision.limit = ask->limit;
    if (decision.outcome == WEIR_REFUSED)
        return decision;
    if (decision.outcome == WEIR_NEVER && ask->cost <= ask->size.capacity) {
        decision.outcome = WEIR_DENY;
        decision.retry_at = WEIR_NO_TIME;
    }
    decision.policy = WEIR_POLICY_LOCAL;
    decision.reason = WEIR_REASON_STORE;
    return decision;
}

/* All or nothing, or each for itself: `is_peek` bit by bit. 0 or WEIR_ERR_CHANGED. */
static int ask_shares(const struct rules *rules, const struct share_asks *asks, bool is_peek, weir_ns now,
                      const struct weir_shared *shared, struct weir_decision *each, bool *passes)
{
    struct weir_decision answers[WEIR_ASKS_MAX], binding;
    if (asks->count == 0)
        return 0;
    int error = is_peek ? weir_set_admit_peek(rules->shares, asks->asks, asks->count, now, answers, &binding)
                        : weir_set_admit(rules->shares, asks->asks, asks->count, now, answers, &binding);
    if (error != 0)
        return error;
    for (size_t i = 0; i < asks->count; i++) {
        each[asks->question[i]] = in_words(&shared->asks[asks->question[i]], answers[i]);
        *passes = *passes && decision_passes(&answers[i]);
    }
    return 0;
}

static void gather(const struct rules *rules, const struct weir_shared *shared, uint64_t wanted,
                   const struct weir_outage *outages, weir_ns now, struct weir_decision *each,
                   struct share_asks *out, bool *refuses)
{
    out->count = 0;
    for (size_t i = 0; i < shared->count; i++) {
        const struct weir_shared_ask *ask = &shared->asks[i];
        if ((wanted & question_bit(i)) == 0)
            continue;
        const struct rule *rule = rule_of(rules, shared, ask->limit);
        weir_limit_id share = rules->shares == NULL ? WEIR_NO_LIMIT : share_of(rules, rule, ask);
        if (share != WEIR_NO_LIMIT) {
            put_ask(out, rule, share, ask, i, outages[i].number);
            continue;
        }
        each[i] = decide_closed(ask, WEIR_REASON_STORE, now);
        *refuses = true;
    }
}

/* Watched ones, each for itself, when what is asked together may be charged already: so nothing starts over here. */
static void watch(const struct rules *rules, const struct weir_shared *shared, uint64_t watched,
                  const struct weir_outage *outages, bool is_look, weir_ns now, struct weir_decision *each)
{
    struct share_asks ask;
    bool ignored = true;
    for (size_t i = 0; i < shared->count; i++) {
        if ((watched & question_bit(i)) == 0)
            continue;
        gather(rules, shared, question_bit(i), outages, now, each, &ask, &ignored);
        if (ask_shares(rules, &ask, is_look, now, shared, each, &ignored) != 0)
            each[i] = decide_closed(&shared->asks[i], WEIR_REASON_CONTENDED, now);
    }
}

/* Under one set of rules, whose shares are those in force. 0 or WEIR_ERR_CHANGED. */
static int decide_once(const struct weir_contract *contract, const struct weir_shared *shared, uint64_t wanted,
                       const struct weir_outage *outages, bool is_peek, weir_ns now, struct weir_decision *each)
{
    const struct rules *rules = contract_rules(contract);
    struct share_asks asks;
    uint64_t watched = 0;
    bool refuses = false, passes = true;
    for (size_t i = 0; i < shared->count; i++) {
        if ((wanted & question_bit(i)) == 0)
            continue;
        watched |= shared->asks[i].is_watched ? question_bit(i) : 0;
        if (rules->shares != NULL)
            begin_outage(contract->shares, &outages[i], now);
    }
    if (rules->shares != NULL && weir_set_current(share_limiter(contract->shares)) != rules->shares)
        return WEIR_ERR_CHANGED; /* the outage began in a set that these rules do not have yet */
    gather(rules, shared, wanted & ~watched, outages, now, each, &asks, &refuses);
    int error = ask_shares(rules, &asks, is_peek || refuses, now, shared, each, &passes);
    if (error == 0)
        watch(rules, shared, watched, outages, is_peek || refuses || !passes, now, each);
    return error;
}

void share_decide(const struct weir_contract *contract, const struct weir_shared *shared, uint64_t answered,
                  const struct weir_outage *outages, bool is_peek, weir_ns now, struct weir_decision *each)
{
    for (unsigned looks = 0; looks < LOOKS_MAX; looks++) {
        if (decide_once(contract, shared, answered, outages, is_peek, now, each) == 0)
            return;
        decide_pause(looks);
    }
    for (size_t i = 0; i < shared->count; i++)
        if ((answered & question_bit(i)) != 0)
            each[i] = decide_closed(&shared->asks[i], WEIR_REASON_CONTENDED, now);
}

void share_reset(const struct rules *rules, const struct rule *rule, const unsigned char *key, size_t key_len)
{
    /* A bucket's share ends with its outage. */
    if (rules->shares == NULL || rule->share_limit == WEIR_NO_LIMIT || rule_is_bucket(rule))
        return;
    if (weir_set_reset(rules->shares, rule->share_limit, key, key_len) != 0)
        return; /* a reload overtook it: as good as a reset a moment before */
}

void weir_contract_wall_offset_set(struct weir_contract *contract, int64_t offset)
{
    weir_wall_offset_set(contract->limiter, offset);
    atomic_store_explicit(&contract->shares->wall_offset, offset, memory_order_relaxed);
    struct weir *limiter = share_limiter(contract->shares);
    if (limiter != NULL)
        weir_wall_offset_set(limiter, offset);
}
