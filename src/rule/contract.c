// SPDX-License-Identifier: Apache-2.0
/*
 * contract.c - load a contract, free it, and look inside.
 *
 * Loading goes on after an error as far as it can, so that one run reports all: with errors, the limiter is made as
 * small as possible, only to hear which limits cannot be represented.
 */
#include "rule/contract.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/sha256.h"

static const struct weir_contract_options no_options;

/* ---- Life cycle ---------------------------------------------------------------------------------------------------- */

static struct weir_contract *contract_new(const struct weir_allocator *allocator)
{
    struct region region;
    region_init(&region, allocator);
    struct weir_contract *contract = REGION_NEW(&region, struct weir_contract, 1);
    struct attribute_slot *slots = REGION_NEW(&region, struct attribute_slot, MATCH_ATTRIBUTES_MAX);
    uint16_t *buckets = REGION_NEW(&region, uint16_t, ATTRIBUTE_BUCKETS);
    if (contract == NULL || slots == NULL || buckets == NULL) {
        region_deinit(&region);
        return NULL;
    }
    contract->region = region;
    contract->attributes.slots = slots;
    contract->attributes.buckets = buckets;
    contract->grouping = GROUPING_DEFAULT;
    (void)attribute_claim(&contract->attributes,
                          SLICE("path")); /* the first: a bad escape is refused whoever reads it */
    return contract;
}

void weir_contract_free(struct weir_contract *contract)
{
    if (contract == NULL)
        return;
    matcher_free(contract->matcher);
    weir_free(contract->limiter);
    struct region region = contract->region; /* it holds the contract itself */
    region_deinit(&region);
}

/* ---- The limiter ---------------------------------------------------------------------------------------------------- */

/* What weir.h says of 0, for the message. */
#define DEFAULT_KEYS ((size_t)65536)
#define DEFAULT_LOG_STAMPS ((size_t)1048576)

static int make_limiter(struct load *load, const struct weir_contract_options *options)
{
    struct weir_contract *contract = load->contract;
    const struct memory_config *memory = &contract->memory;
    bool is_doomed = diagnostics_errors(load->diagnostics) > 0;
    bool is_default_clock = options->origin == 0 && options->wall_offset == 0 && !options->has_wall_offset;
    struct weir_options limiter = {
        .keys = is_doomed            ? 1
                : options->keys != 0 ? options->keys
                                     : (size_t)memory->keys,
        .log_stamps = (size_t)memory->log_stamps,
        .origin = options->origin,
        .wall_offset = is_default_clock ? weir_wall_offset() : options->wall_offset,
        .new_keys = { is_doomed ? 0 : memory->new_keys.count, memory->new_keys.period },
        .secret = options->secret,
        .allocator = options->allocator,
    };
    int error = weir_new(&contract->limiter, &limiter);
    if (error == WEIR_ERR_MEMORY || error == WEIR_ERR_OPTION)
        diagnostics_add(load->diagnostics, WEIR_SEVERITY_ERROR,
                        load->memory == NULL ? (struct place){ 0, 0, 0 } : load->memory->place,
                        "ask for fewer keys or log stamps", "%zu keys and %zu log stamps cannot be reserved",
                        limiter.keys == 0 ? DEFAULT_KEYS : limiter.keys,
                        limiter.log_stamps == 0 ? DEFAULT_LOG_STAMPS : limiter.log_stamps);
    return error == WEIR_ERR_OPTION ? WEIR_ERR_CONTRACT : error;
}

/* ---- What follows from the limits ------------------------------------------------------------------------------------ */

/* Conditions for the matcher: those of `when`, and that no key attribute is missing where the limit is then skipped. */
static struct condition_list matching_of(struct region *scratch, const struct rule *rule)
{
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
    struct weir_contract *contract = load->contract;
    struct condition_list *lists = REGION_NEW(load->scratch, struct condition_list, contract->limit_count + 1);
    for (size_t i = 0; lists != NULL && i < contract->limit_count; i++)
        lists[i] = matching_of(load->scratch, &contract->rules[i]);
    if (load->scratch->has_failed)
        return WEIR_ERR_MEMORY;
    return matcher_new(&contract->matcher, lists, contract->limit_count);
}

static void make_public_limits(struct load *load)
{
    struct weir_contract *contract = load->contract;
    contract->limits = REGION_NEW(load->region, struct weir_contract_limit, contract->limit_count + 1);
    struct text json = { .region = load->scratch };
    for (size_t i = 0; contract->limits != NULL && i < contract->limit_count; i++) {
        text_clear(&json);
        rule_json(&json, contract, &contract->rules[i]);
        const struct rule *rule = &contract->rules[i];
        bool is_bucket = rule->algorithm == WEIR_TOKEN_BUCKET || rule->algorithm == WEIR_LEAKY_BUCKET;
        contract->limits[i] =
            (struct weir_contract_limit){ .name = rule->limit.name,
                                          .about = rule->about,
                                          .json =
                                              region_copy(load->region, (struct slice){ json.at, json.len }).at,
                                          .algorithm = rule->limit.algorithm,
                                          .capacity = is_bucket ? rule->burst : rule->rate.count,
                                          .window = rule_window(rule) };
    }
}

/* Only what some limit reads is taken from a request: the rest could only refuse it. */
static void make_identity(struct load *load)
{
    struct weir_contract *contract = load->contract;
    struct identity_config *identity = &contract->identity;
    struct identity_source *sources =
        REGION_NEW(load->region, struct identity_source, contract->source_count + 1);
    if (sources == NULL)
        return;
    bool has_request_id = false;
    for (size_t i = 0; i < contract->source_count; i++) {
        struct slice name = slice_of(contract->sources[i].attribute);
        has_request_id = has_request_id || slice_equals(name, SLICE("request-id"));
        if (attribute_find(&contract->attributes, name) != ATTRIBUTE_NONE)
            sources[identity->source_count++] = contract->sources[i];
    }
    if (!has_request_id && attribute_find(&contract->attributes, SLICE("request-id")) != ATTRIBUTE_NONE)
        sources[identity->source_count++] = (struct identity_source){ .attribute = "request-id",
                                                                      .kind = IDENTITY_HEADER,
                                                                      .name = SLICE("x-request-id") };
    identity->sources = sources;
    identity->reads_query = attribute_find(&contract->attributes, SLICE("query")) != ATTRIBUTE_NONE;
    identity->uids = contract->server.uids;
    identity->uid_count = contract->server.uid_count;
    identity->has_uids = contract->server.has_uids;
    identity->own_uid = (uint32_t)getuid();
}

/* ---- Loading --------------------------------------------------------------------------------------------------------- */

static int build(struct load *load, const struct node *root, const struct weir_contract_options *options)
{
    schema_read_contract(load, root);
    if (load->region->has_failed || load->scratch->has_failed)
        return WEIR_ERR_MEMORY;
    int error = make_limiter(load, options);
    if (error == 0)
        error = contract_add_limits(load);
    if (error != 0)
        return error;
    if (diagnostics_errors(load->diagnostics) > 0)
        return WEIR_ERR_CONTRACT;

    error = make_matcher(load);
    if (error != 0)
        return error;
    make_identity(load);
    make_public_limits(load);
    contract_warn(load);
    return load->region->has_failed || load->scratch->has_failed ? WEIR_ERR_MEMORY : 0;
}

static int parse_text_into(struct weir_contract *contract, struct slice text,
                           struct weir_diagnostics *diagnostics, const struct weir_contract_options *options)
{
    struct region scratch;
    struct node *root;
    region_init(&scratch, options->allocator);
    struct load load = {
        .region = &contract->region, .scratch = &scratch, .diagnostics = diagnostics, .contract = contract
    };
    int error = yaml_read(&scratch, text, diagnostics, &root);
    if (error == 0)
        error = root == NULL ? WEIR_ERR_CONTRACT : build(&load, root, options);
    if (error == 0 && diagnostics_errors(diagnostics) > 0)
        error = WEIR_ERR_CONTRACT;
    sha256_hex(text.at, text.len, 8, contract->version);
    region_deinit(&scratch);
    return error;
}

/* Give what there is to say, or nothing. */
static void give(struct weir_diagnostics **out, struct weir_diagnostics *diagnostics)
{
    if (out == NULL || weir_diagnostics_count(diagnostics) == 0) {
        weir_diagnostics_free(diagnostics);
        diagnostics = NULL;
    }
    if (out != NULL)
        *out = diagnostics;
}

int weir_contract_parse(struct weir_contract **out, const char *text, size_t len, const char *name,
                        const struct weir_contract_options *options, struct weir_diagnostics **diagnostics)
{
    if (options == NULL)
        options = &no_options;
    if (diagnostics != NULL)
        *diagnostics = NULL;
    struct slice whole = { len == 0 ? "" : text, len };
    struct weir_diagnostics *found = diagnostics_new(name == NULL ? "contract" : name, options->allocator);
    struct weir_contract *contract = contract_new(options->allocator);
    int error = WEIR_ERR_MEMORY;
    if (found != NULL && contract != NULL) {
        error = parse_text_into(contract, whole, found, options);
        if (!diagnostics_finish(found, whole))
            error = WEIR_ERR_MEMORY;
    }
    give(diagnostics, found);
    if (error == 0)
        *out = contract;
    else
        weir_contract_free(contract);
    return error;
}

/* Read all of `file`, up to one byte more than a contract may have. errno is set where it is -1. */
static ssize_t read_whole(FILE *file, char *into, size_t size)
{
    size_t len = fread(into, 1, size, file);
    return ferror(file) != 0 ? -1 : (ssize_t)len;
}

static int report_file(const char *path, const struct weir_contract_options *options,
                       struct weir_diagnostics **diagnostics, int cause)
{
    struct weir_diagnostics *found = diagnostics == NULL ? NULL : diagnostics_new(path, options->allocator);
    if (found != NULL) {
        diagnostics_add(found, WEIR_SEVERITY_ERROR, (struct place){ 0, 0, 0 },
                        "give the path of a contract; `-` reads standard input", "cannot be read: %s",
                        strerror(cause));
        (void)diagnostics_finish(found, (struct slice){ "", 0 }); /* its one finding has no line to attach */
        give(diagnostics, found);
    }
    errno = cause;
    return WEIR_ERR_FILE;
}

int weir_contract_load(struct weir_contract **out, const char *path,
                       const struct weir_contract_options *options, struct weir_diagnostics **diagnostics)
{
    if (options == NULL)
        options = &no_options;
    if (diagnostics != NULL)
        *diagnostics = NULL;
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    if (file == NULL)
        return report_file(path, options, diagnostics, errno);

    /* Untouched pages of the buffer cost nothing, so the bound is its size. */
    char *text = malloc(WEIR_CONTRACT_BYTES_MAX + 1);
    ssize_t len = text == NULL ? 0 : read_whole(file, text, WEIR_CONTRACT_BYTES_MAX + 1);
    int cause = errno;
    if (!is_stdin)
        (void)fclose(file); /* nothing was written */
    int error = WEIR_ERR_MEMORY;
    if (len < 0)
        error = report_file(path, options, diagnostics, cause);
    else if (text != NULL)
        error = weir_contract_parse(out, text, (size_t)len, is_stdin ? "standard input" : path, options,
                                    diagnostics);
    free(text);
    return error;
}

/* ---- Looking inside ---------------------------------------------------------------------------------------------------- */

const char *weir_contract_version(const struct weir_contract *contract)
{
    return contract->version;
}

size_t weir_contract_limit_count(const struct weir_contract *contract)
{
    return contract->limit_count;
}

const struct weir_contract_limit *weir_contract_limit(const struct weir_contract *contract, weir_limit_id limit)
{
    return limit >= 0 && (size_t)limit < contract->limit_count ? &contract->limits[limit] : NULL;
}

const struct weir_contract_server *weir_contract_server(const struct weir_contract *contract)
{
    return &contract->server;
}

struct weir *weir_contract_limiter(const struct weir_contract *contract)
{
    return contract->limiter;
}

const struct identity_config *contract_identity(const struct weir_contract *contract)
{
    return &contract->identity;
}
