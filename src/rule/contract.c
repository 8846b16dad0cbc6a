// SPDX-License-Identifier: Apache-2.0
/*
 * contract.c - load a contract, free it, and look inside.
 *
 * Loading goes on after an error as far as it can, so that one run reports all: with errors, the limiter is made as
 * small as possible, only to hear which limits cannot be represented.
 */
#include "rule/share.h"
#include "rule/throttle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const struct weir_contract_options no_options;

/* ---- Life cycle ---------------------------------------------------------------------------------------------------- */

static struct weir_contract *contract_new(const struct weir_allocator *allocator)
{
    struct region region;
    region_init(&region, allocator);
    struct weir_contract *contract = REGION_NEW(&region, struct weir_contract, 1);
    if (contract == NULL) {
        region_deinit(&region);
        return NULL;
    }
    contract->region = region;
    contract->has_allocator = allocator != NULL;
    if (allocator != NULL)
        contract->allocator = *allocator;
    contract->store.deadline = STORE_DEADLINE;
    contract->shares = REGION_NEW(&contract->region, struct share_keeper, 1);
    if (contract->shares == NULL) {
        region = contract->region; /* it holds the contract itself */
        region_deinit(&region);
        return NULL;
    }
    return contract;
}

void weir_contract_free(struct weir_contract *contract)
{
    if (contract == NULL)
        return;
    weir_free(contract->limiter);
    share_deinit(contract->shares);
    rules_free(contract->old);
    rules_free(atomic_load_explicit(&contract->current, memory_order_relaxed)); /* nobody else is here */
    struct region region = contract->region; /* it holds the contract itself */
    region_deinit(&region);
}

/* ---- The limiter ---------------------------------------------------------------------------------------------------- */

/* What weir.h says of 0, for the message. */
#define DEFAULT_KEYS ((size_t)65536)
#define DEFAULT_LOG_STAMPS ((size_t)1048576)
#define DEFAULT_PERMITS ((size_t)65536)

static int make_limiter(struct load *load, const struct weir_contract_options *options,
                        struct weir_contract *contract)
{
    const struct memory_config *memory = &load->rules->memory;
    bool is_doomed = diagnostics_errors(load->diagnostics) > 0;
    bool is_default_clock = options->origin == 0 && options->wall_offset == 0 && !options->has_wall_offset;
    struct weir_options limiter = {
        .keys = is_doomed            ? 1
                : options->keys != 0 ? options->keys
                                     : (size_t)memory->keys,
        .log_stamps = (size_t)memory->log_stamps,
        .permits = is_doomed ? 1 : (size_t)memory->permits,
        .origin = options->origin,
        .wall_offset = is_default_clock ? weir_wall_offset() : options->wall_offset,
        .lost_at = is_default_clock && options->lost_at == 0 ? weir_now() : options->lost_at,
        .wake = options->wake,
        .wake_context = options->wake_context,
        .new_keys = { is_doomed ? 0 : memory->new_keys.count, memory->new_keys.period },
        .secret = options->secret,
        .allocator = options->allocator,
    };
    int error = weir_new(&contract->limiter, &limiter);
    share_init(contract->shares, &limiter);
    contract->shares->options.allocator = contract->has_allocator ? &contract->allocator : NULL;
    if (error == WEIR_ERR_MEMORY || error == WEIR_ERR_OPTION)
        diagnostics_add(load->diagnostics, WEIR_SEVERITY_ERROR,
                        load->memory == NULL ? (struct place){ 0, 0, 0 } : load->memory->place,
                        "ask for fewer of them", "%zu keys, %zu log stamps and %zu permits cannot be reserved",
                        limiter.keys == 0 ? DEFAULT_KEYS : limiter.keys,
                        limiter.log_stamps == 0 ? DEFAULT_LOG_STAMPS : limiter.log_stamps,
                        limiter.permits == 0 ? DEFAULT_PERMITS : limiter.permits);
    return error == WEIR_ERR_OPTION ? WEIR_ERR_CONTRACT : error;
}

/* ---- Loading --------------------------------------------------------------------------------------------------------- */

/* Give the limiter its first limits, in force from the origin on. */
static int add_limits(struct load *load, struct weir_contract *contract, weir_ns origin)
{
    struct weir_change *change, *shares = NULL;
    int error = weir_change_new(&change, contract->limiter);
    if (error != 0)
        return error;
    error = contract_add_limits(load, change);
    if (error == 0)
        error = throttle_prepare(load, change);
    if (error == 0)
        error = share_prepare(load, contract->shares, &shares);
    if (error == 0 && diagnostics_errors(load->diagnostics) > 0)
        error = WEIR_ERR_CONTRACT;
    if (error != 0) {
        weir_change_free(shares);
        weir_change_free(change);
        return error;
    }
    error = weir_change_commit(change, origin, &load->rules->set, NULL);
    if (error == 0) {
        share_commit(load, contract->shares, shares, origin);
        weir_quiesce(contract->limiter, origin); /* nobody can know the empty set before */
        share_quiesce(contract->shares, origin);
        return 0;
    }
    weir_change_free(shares);
    if (error == WEIR_ERR_MEMORY)
        return error;
    contract_report_commit(load, error);
    return WEIR_ERR_CONTRACT;
}

static int build(struct load *load, struct weir_contract *contract, struct slice text,
                 const struct weir_contract_options *options)
{
    int error = rules_read(load, text);
    if (error == 0)
        error = make_limiter(load, options, contract);
    if (error == 0)
        error = add_limits(load, contract, options->origin);
    if (error == 0)
        error = rules_finish(load);
    if (error != 0)
        return error;
    contract->memory = load->rules->memory;
    contract->fleet = load->fleet;
    contract->has_store = load->has_store;
    contract->has_throttle = load->has_throttle;
    for (int headers = 0; headers < HEADERS_COUNT; headers++) {
        contract->servers[headers] = *load->server;
        contract->servers[headers].headers = (enum weir_headers)headers;
    }
    atomic_init(&contract->current, load->rules);
    return 0;
}

static int parse_into(struct weir_contract *contract, struct slice text, struct weir_diagnostics *diagnostics,
                      const struct weir_contract_options *options)
{
    struct region scratch;
    struct weir_contract_server server = { 0 };
    struct rules *rules = rules_new(options->allocator);
    if (rules == NULL)
        return WEIR_ERR_MEMORY;
    region_init(&scratch, options->allocator);
    struct load load = { .region = &rules->region,
                         .scratch = &scratch,
                         .home = &contract->region,
                         .diagnostics = diagnostics,
                         .server = &server,
                         .store = &contract->store,
                         .fleet = options->fleet,
                         .has_store = options->has_store,
                         .has_throttle = options->has_throttle,
                         .is_exposed = contract->is_exposed,
                         .rules = rules };
    int error = build(&load, contract, text, options);
    if (error != 0)
        rules_free(rules);
    region_deinit(&scratch);
    return error;
}

void contract_give(struct weir_diagnostics **out, struct weir_diagnostics *diagnostics)
{
    if (out == NULL || weir_diagnostics_count(diagnostics) == 0) {
        weir_diagnostics_free(diagnostics);
        diagnostics = NULL;
    }
    if (out != NULL)
        *out = diagnostics;
}

/* `options` and `name` are there, and *diagnostics is NULL. */
static int parse_whole(struct weir_contract **out, struct slice whole, const char *name, bool is_exposed,
                       const struct weir_contract_options *options, struct weir_diagnostics **diagnostics)
{
    struct weir_diagnostics *found = diagnostics_new(name, options->allocator);
    struct weir_contract *contract = contract_new(options->allocator);
    int error = WEIR_ERR_MEMORY;
    if (found != NULL && contract != NULL) {
        contract->is_exposed = is_exposed;
        error = parse_into(contract, whole, found, options);
        if (!diagnostics_finish(found, whole))
            error = WEIR_ERR_MEMORY;
    }
    contract_give(diagnostics, found);
    if (error == 0)
        *out = contract;
    else
        weir_contract_free(contract);
    return error;
}

int weir_contract_parse(struct weir_contract **out, const char *text, size_t len, const char *name,
                        const struct weir_contract_options *options, struct weir_diagnostics **diagnostics)
{
    if (options == NULL)
        options = &no_options;
    if (diagnostics != NULL)
        *diagnostics = NULL;
    return parse_whole(out, (struct slice){ len == 0 ? "" : text, len }, name == NULL ? "contract" : name,
                       false, options, diagnostics);
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
        contract_give(diagnostics, found);
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
    struct stat status;
    bool is_exposed = !is_stdin && fstat(fileno(file), &status) == 0 && (status.st_mode & S_IROTH) != 0;
    if (!is_stdin)
        (void)fclose(file); /* nothing was written */
    int error = WEIR_ERR_MEMORY;
    if (len < 0)
        error = report_file(path, options, diagnostics, cause);
    else if (text != NULL)
        error = parse_whole(out, (struct slice){ text, (size_t)len }, is_stdin ? "standard input" : path,
                            is_exposed, options, diagnostics);
    free(text);
    return error;
}

/* ---- Looking inside ---------------------------------------------------------------------------------------------------- */

const char *weir_contract_version(const struct weir_contract *contract)
{
    return contract_rules(contract)->version;
}

size_t weir_contract_limit_count(const struct weir_contract *contract)
{
    return contract_rules(contract)->limit_count;
}

const struct weir_contract_limit *weir_contract_limit(const struct weir_contract *contract, weir_limit_id limit)
{
    const struct rules *rules = contract_rules(contract);
    return limit >= 0 && (size_t)limit < rules->limit_count ? &rules->limits[limit] : NULL;
}

const struct weir_contract_server *weir_contract_server(const struct weir_contract *contract)
{
    return &contract->servers[contract_rules(contract)->headers];
}

const struct weir_contract_store *weir_contract_store(const struct weir_contract *contract)
{
    return &contract->store;
}

bool weir_contract_has_shared(const struct weir_contract *contract)
{
    return contract_rules(contract)->has_shared;
}

struct weir *weir_contract_limiter(const struct weir_contract *contract)
{
    return contract->limiter;
}

const struct identity_config *contract_identity(const struct weir_contract *contract)
{
    return &contract_rules(contract)->identity;
}
