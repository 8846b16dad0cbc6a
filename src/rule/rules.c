// SPDX-License-Identifier: Apache-2.0
/*
 * rules.c - one text of a contract becomes one set of rules: read it, index it, and say what callers may see.
 *
 * Reading goes on after a mistake as far as it can, so that one run reports all. Nothing here knows the limiter: between
 * rules_read() and rules_finish() the caller has it judge and take the limits.
 */
#include <unistd.h>

#include "base/sha256.h"
#include "rule/describe.h"

/* ---- Life cycle ---------------------------------------------------------------------------------------------------- */

struct rules *rules_new(const struct weir_allocator *allocator)
{
    struct region region;
    region_init(&region, allocator);
    struct rules *rules = REGION_NEW(&region, struct rules, 1);
    struct attribute_slot *slots = REGION_NEW(&region, struct attribute_slot, MATCH_ATTRIBUTES_MAX);
    uint16_t *buckets = REGION_NEW(&region, uint16_t, ATTRIBUTE_BUCKETS);
    if (rules == NULL || slots == NULL || buckets == NULL) {
        region_deinit(&region);
        return NULL;
    }
    rules->region = region;
    rules->attributes.slots = slots;
    rules->attributes.buckets = buckets;
    rules->grouping = GROUPING_DEFAULT;
    (void)attribute_claim(&rules->attributes,
                          SLICE("path")); /* the first: a bad escape is refused whoever reads it */
    return rules;
}

void rules_free(struct rules *rules)
{
    if (rules == NULL)
        return;
    matcher_free(rules->matcher);
    struct region region = rules->region; /* it holds the rules themselves */
    region_deinit(&region);
}

/* ---- Reading --------------------------------------------------------------------------------------------------------- */

int rules_read(struct load *load, struct slice text)
{
    struct node *root;
    int error = yaml_read(load->scratch, text, load->diagnostics, &root);
    if (error != 0)
        return error;
    if (root == NULL)
        return WEIR_ERR_CONTRACT;
    schema_read_contract(load, root);
    sha256_hex(text.at, text.len, 8, load->rules->version);
    load->rules->text = region_copy(load->region, text);
    load->rules->name = region_copy(load->region, slice_of(diagnostics_name(load->diagnostics))).at;
    bool has_failed = load->region->has_failed || load->scratch->has_failed || load->home->has_failed;
    return has_failed ? WEIR_ERR_MEMORY : 0;
}

/* ---- What follows from the limits ------------------------------------------------------------------------------------ */

/* Conditions for the matcher: of a limit that is off, one that nothing meets; else those of `when`, and that no key attribute is missing where the limit is then skipped. */
static struct condition_list matching_of(struct region *scratch, const struct rule *rule)
{
    static const struct condition never = { .kind = CONDITION_GLOBS }; /* of no patterns: nothing matches */
    if (rule->enforce == WEIR_ENFORCE_OFF)
        return (struct condition_list){ &never, 1 };
    bool needs_key = rule->missing_key == MISSING_SKIP && rule->key_count > 0;
    if (!needs_key)
        return (struct condition_list){ rule->conditions, rule->condition_count };
    struct condition *all = REGION_NEW(scratch, struct condition, rule->condition_count + rule->key_count);
    if (all == NULL)
        return (struct condition_list){ NULL, 0 };
    if (rule->condition_count > 0)
        memcpy(all, rule->conditions, rule->condition_count * sizeof *all);
    for (size_t i = 0; i < rule->key_count; i++)
        all[rule->condition_count + i] =
            (struct condition){ .attribute = rule->key[i], .kind = CONDITION_PRESENT };
    return (struct condition_list){ all, rule->condition_count + rule->key_count };
}

static int make_matcher(struct load *load)
{
    struct rules *rules = load->rules;
    struct condition_list *lists = REGION_NEW(load->scratch, struct condition_list, rules->limit_count + 1);
    for (size_t i = 0; lists != NULL && i < rules->limit_count; i++)
        lists[i] = matching_of(load->scratch, &rules->list[i]);
    if (load->scratch->has_failed)
        return WEIR_ERR_MEMORY;
    return matcher_new(&rules->matcher, lists, rules->limit_count);
}

static void make_public_limits(struct load *load)
{
    struct rules *rules = load->rules;
    rules->limits = REGION_NEW(load->region, struct weir_contract_limit, rules->limit_count + 1);
    struct text json = { .region = load->scratch };
    for (size_t i = 0; rules->limits != NULL && i < rules->limit_count; i++) {
        text_clear(&json);
        rule_json(&json, rules, &rules->list[i]);
        const struct rule *rule = &rules->list[i];
        rules->limits[i] =
            (struct weir_contract_limit){ .name = rule->limit.name,
                                          .about = rule->about,
                                          .json =
                                              region_copy(load->region, (struct slice){ json.at, json.len }).at,
                                          .algorithm = rule->limit.algorithm,
                                          .capacity = rule_capacity(rule),
                                          .window = rule_window(rule),
                                          .wait = rule->limit.wait,
                                          .hold = rule->limit.hold,
                                          .enforce = (enum weir_enforce)rule->enforce,
                                          .enforce_percent = rule->enforce_percent,
                                          .reply_status = rule->reply_status,
                                          .reply_title = rule->reply_title,
                                          .reply_detail = rule->reply_detail,
                                          .spec = &rule->limit,
                                          .is_shared = rule_is_shared(rule),
                                          .cost = rule->cost,
                                          .when_store_fails = rule->store_fails.word,
                                          .open_for = rule->store_fails.open_for,
                                          .share = rule->store_fails.share,
                                          .share_of = rule->store_fails.share_of,
                                          .lease = rule->lease };
    }
}

/* Only what some limit reads is taken from a request: the rest could only refuse it. */
static void make_identity(struct load *load)
{
    struct rules *rules = load->rules;
    struct identity_config *identity = &rules->identity;
    struct identity_source *sources = REGION_NEW(load->region, struct identity_source, rules->source_count + 1);
    if (sources == NULL)
        return;
    bool has_request_id = false;
    for (size_t i = 0; i < rules->source_count; i++) {
        struct slice name = slice_of(rules->sources[i].attribute);
        has_request_id = has_request_id || slice_equals(name, SLICE("request-id"));
        if (attribute_find(&rules->attributes, name) != ATTRIBUTE_NONE)
            sources[identity->source_count++] = rules->sources[i];
    }
    if (!has_request_id && attribute_find(&rules->attributes, SLICE("request-id")) != ATTRIBUTE_NONE)
        sources[identity->source_count++] = (struct identity_source){ .attribute = "request-id",
                                                                      .kind = IDENTITY_HEADER,
                                                                      .name = SLICE("x-request-id") };
    identity->sources = sources;
    identity->reads_query = attribute_find(&rules->attributes, SLICE("query")) != ATTRIBUTE_NONE;
    identity->uids = load->server->uids;
    identity->uid_count = load->server->uid_count;
    identity->has_uids = load->server->has_uids;
    identity->own_uid = (uint32_t)getuid();
}

int rules_finish(struct load *load)
{
    int error = make_matcher(load);
    if (error != 0)
        return error;
    make_identity(load);
    describe_prepare(load->rules);
    make_public_limits(load);
    contract_warn(load);
    for (size_t i = 0; i < load->rules->limit_count; i++)
        load->rules->list[i].override_list = NULL; /* it lies in what is freed after loading */
    return load->region->has_failed || load->scratch->has_failed ? WEIR_ERR_MEMORY : 0;
}
