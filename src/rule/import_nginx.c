// SPDX-License-Identifier: Apache-2.0
/*
 * import_nginx.c - zones, and what the limit_req and limit_conn that name them say.
 *
 * One zone is one budget. Its uses may say different things; each different one is kept, with the first place that says so,
 * and where each holds is a question for later. Everything whose requests would meet another decision than in nginx, and
 * which no comment can make good, is refused here.
 */
#include "rule/import_nginx.h"

#include <stdio.h>
#include <stdlib.h>

#define ZONES_MAX 1024

/* ---- Words ------------------------------------------------------------------------------------------------------------- */

struct slice nginx_option(const struct directive *directive, const char *name)
{
    size_t len = strlen(name);
    struct slice found = { NULL, 0 };
    for (unsigned i = 1; i < directive->count; i++) {
        struct slice word = directive->words[i].text;
        if (word.len > len && memcmp(word.at, name, len) == 0 && word.at[len] == '=')
            found = (struct slice){ word.at + len + 1, word.len - len - 1 };
    }
    return found;
}

bool nginx_has_word(const struct directive *directive, const char *word)
{
    for (unsigned i = 1; i < directive->count; i++)
        if (slice_equals(directive->words[i].text, slice_of(word)))
            return true;
    return false;
}

/* nginx allows leading zeros. */
static bool number_of(struct slice text, uint64_t max, uint64_t *out)
{
    while (text.len > 1 && text.at[0] == '0')
        text = (struct slice){ text.at + 1, text.len - 1 };
    return slice_to_u64(text, max, out);
}

const struct directive *nginx_holder(const struct directive *block, const char *name)
{
    for (; block != NULL; block = block->parent)
        if (directive_next(block->children, name) != NULL)
            return block;
    return NULL;
}

struct slice nginx_inherited(const struct directive *block, const char *name)
{
    const struct directive *holder = nginx_holder(block, name);
    return holder == NULL ? (struct slice){ "", 0 } : directive_word(directive_next(holder->children, name), 1);
}

/* ---- Zones --------------------------------------------------------------------------------------------------------------- */

static struct zone *zone_find(struct config *config, struct slice name)
{
    for (size_t i = 0; i < config->zone_count; i++)
        if (slice_equals(config->zones[i].name, name))
            return &config->zones[i];
    return NULL;
}

static bool read_rate(struct config *config, struct zone *zone)
{
    struct slice rate = nginx_option(zone->at, "rate");
    struct text text = { .region = config->import->region };
    bool is_second = rate.len > 3 && memcmp(rate.at + rate.len - 3, "r/s", 3) == 0;
    bool is_minute = rate.len > 3 && memcmp(rate.at + rate.len - 3, "r/m", 3) == 0;
    struct slice digits = { rate.at, rate.len > 3 ? rate.len - 3 : 0 };
    zone->seconds = is_minute ? 60 : 1;
    if ((!is_second && !is_minute) || !number_of(digits, UINT32_MAX, &zone->count) || zone->count == 0) {
        struct shown shown_rate;
        NGINX_ERROR(config->import, zone->at, "write rate=Nr/s or rate=Nr/m", "rate=%s is no rate",
                    rate.at == NULL ? "" : shown(rate, &shown_rate));
        zone->count = 1;
        return false;
    }
    text_number(&text, zone->count);
    text_put(&text, is_second ? "/s" : "/m");
    zone->rate = (struct slice){ text.at, text.len };
    return true;
}

static void read_zone(struct config *config, const struct directive *at, bool is_conn)
{
    struct slice option = nginx_option(at, "zone");
    const char *colon = option.len == 0 ? NULL : memchr(option.at, ':', option.len);
    struct slice name = { option.at, colon == NULL ? option.len : (size_t)(colon - option.at) };
    struct shown name_shown;
    if (name.len == 0) {
        NGINX_ERROR(config->import, at, "write zone=NAME:SIZE", "%s without a zone",
                    is_conn ? "limit_conn_zone" : "limit_req_zone");
    } else if (zone_find(config, name) != NULL) {
        NGINX_ERROR(config->import, at, "keep one of the two", "zone %s is there twice",
                    shown(name, &name_shown));
    } else if (config->zone_count == ZONES_MAX) {
        NGINX_ERROR(config->import, at, "import a part at a time", "more than %d zones", ZONES_MAX);
    } else {
        struct zone *zone = &config->zones[config->zone_count++];
        *zone = (struct zone){ .name = name, .at = at };
        bool has_rate = is_conn || read_rate(config, zone);
        zone->is_known =
            nginx_key_read(config->import, config->http, at, &config->identity, &zone->key) && has_rate;
    }
}

/* ---- Uses ----------------------------------------------------------------------------------------------------------------- */

const char *nginx_use_name(const struct zone *zone)
{
    return zone->seconds == 0 ? "limit_conn" : "limit_req";
}

const struct directive *nginx_use_first(const struct directive *block, const char *name)
{
    const struct directive *holder = nginx_answers_early(block) ? NULL : nginx_holder(block, name);
    return holder == NULL ? NULL : directive_next(holder->children, name);
}

/* How many pass at once though they are ahead of the rate. nginx heeds the last word about it. False: *wrong is none. */
static bool read_delay(const struct directive *directive, uint64_t *out, struct slice *wrong)
{
    *out = 0;
    for (unsigned i = 1; i < directive->count; i++) {
        struct slice word = directive->words[i].text;
        bool is_delay = word.len > 6 && memcmp(word.at, "delay=", 6) == 0;
        if (slice_equals(word, SLICE("nodelay")))
            *out = UINT64_MAX;
        if (is_delay && !number_of((struct slice){ word.at + 6, word.len - 6 }, UINT32_MAX, out)) {
            *wrong = word;
            return false;
        }
    }
    return true;
}

/* A word that begins so, to show it. */
static struct slice word_with(const struct directive *directive, const char *start)
{
    for (unsigned i = directive->count; i-- > 1;) { /* the last one counts */
        struct slice word = directive->words[i].text;
        if (word.len >= strlen(start) && memcmp(word.at, start, strlen(start)) == 0)
            return word;
    }
    return (struct slice){ "", 0 };
}

const char *nginx_use_read(const struct directive *directive, bool is_conn, struct use *out, struct slice *zone,
                           struct slice *wrong)
{
    struct slice burst = nginx_option(directive, "burst");
    *out = (struct use){ .at = directive };
    *zone = is_conn ? directive_word(directive, 1) : nginx_option(directive, "zone");
    if (is_conn) {
        *wrong = directive_word(directive, 2);
        bool is_number = number_of(*wrong, WEIR_AT_MOST_MAX, &out->most);
        out->at_once = out->most;
        return is_number && out->most > 0 ? NULL : "is no number of connections from 1 to 65535";
    }
    *wrong = word_with(directive, "burst=");
    if ((burst.at != NULL && !number_of(burst, UINT32_MAX, &out->most))
        || !read_delay(directive, &out->at_once, wrong))
        return "is no number of requests from 0 to 4294967295";
    if (out->at_once > out->most)
        out->at_once = out->most;
    return NULL;
}

/*
 * The last turn of a full queue, and at least a tenth of a second more: threads of a server read their clocks apart, and a
 * crowd that comes at once would lose its last place to that. Whole seconds, which is what `Prefer: wait` says.
 */
uint64_t nginx_wait_seconds(const struct zone *zone, const struct use *use)
{
    uint64_t turn_ns =
        (zone->seconds * WEIR_SECOND + zone->count - 1) / zone->count; /* begins at a whole one */
    uint64_t last_ns = (use->most - use->at_once) * turn_ns;
    uint64_t up_to = (last_ns + WEIR_SECOND / 10) / WEIR_SECOND + 1;
    return last_ns <= WEIR_WAIT_MAX && up_to * WEIR_SECOND > WEIR_WAIT_MAX ? WEIR_WAIT_MAX / WEIR_SECOND
                                                                           : up_to;
}

/* Whether all that wait have room and time: a queue is bounded in both. */
static bool can_wait(struct config *config, const struct zone *zone, const struct use *use)
{
    static const char cure[] = "lower the burst, or write nodelay";
    uint64_t queue = use->most - use->at_once;
    if (queue > WEIR_QUEUE_MAX) {
        NGINX_ERROR(config->import, use->at, cure, "limit_req lets %llu requests wait: at most %d can",
                    (unsigned long long)queue, WEIR_QUEUE_MAX);
        return false;
    }
    if (nginx_wait_seconds(zone, use) * WEIR_SECOND > WEIR_WAIT_MAX) {
        NGINX_ERROR(config->import, use->at, cure,
                    "limit_req lets requests wait, the last for %llu s: nobody can for more than a day",
                    (unsigned long long)nginx_wait_seconds(zone, use) - 1);
        return false;
    }
    return true;
}

/* Keep what the use says, if none before said it. */
static void keep_use(struct config *config, struct zone *zone, struct use use)
{
    struct shown name_shown;
    for (size_t i = 0; i < zone->use_count; i++) {
        struct use *same = &zone->uses[i];
        zone->has_other_status = zone->has_other_status || !slice_equals(same->status, use.status);
        if (same->most == use.most && same->at_once == use.at_once)
            return;
    }
    if (zone->use_count == NGINX_USES_MAX) {
        NGINX_ERROR(config->import, use.at, "give each place a zone of its own, or some the same burst",
                    "zone %s is used in more than %d different ways", shown(zone->name, &name_shown),
                    NGINX_USES_MAX);
        return;
    }
    if (zone->uses == NULL)
        zone->uses = REGION_NEW(config->import->region, struct use, NGINX_USES_MAX);
    if (zone->uses != NULL)
        zone->uses[zone->use_count++] = use;
}

/* One limit_req or limit_conn in force in `block`. */
static void join_use(struct config *config, const struct directive *block, const struct directive *at,
                     bool is_conn)
{
    struct use use;
    struct slice name;
    struct slice wrong;
    struct shown name_shown, wrong_shown;
    const char *problem = nginx_use_read(at, is_conn, &use, &name, &wrong);
    struct zone *zone = zone_find(config, name);
    if (zone == NULL || (zone->seconds == 0) != is_conn) {
        NGINX_ERROR(config->import, at,
                    is_conn ? "define it with limit_conn_zone, in a file that is read"
                            : "define it with limit_req_zone, in a file that is read",
                    "there is no zone %s", name.at == NULL ? "" : shown(name, &name_shown));
        return;
    }
    if (problem != NULL) {
        NGINX_ERROR(config->import, at, is_conn ? "write limit_conn ZONE N" : "write burst=N and delay=N",
                    "'%s' %s", shown(wrong, &wrong_shown), problem);
        return;
    }
    if (!is_conn && !can_wait(config, zone, &use))
        return;
    bool is_dry =
        slice_equals(nginx_inherited(block, is_conn ? "limit_conn_dry_run" : "limit_req_dry_run"), SLICE("on"));
    use.status = nginx_inherited(block, is_conn ? "limit_conn_status" : "limit_req_status");
    if (zone->use_count > 0 && is_dry != zone->is_dry) {
        NGINX_ERROR(config->import, at, "give each place a zone of its own, or all the same dry run",
                    "zone %s is one budget with different dry runs here and in line %u: a limit has one",
                    shown(zone->name, &name_shown), zone->uses[0].at->words[0].place.line);
        return;
    }
    zone->is_dry = is_dry;
    keep_use(config, zone, use);
}

static void join_uses(struct config *config, const struct directive *block, bool is_conn)
{
    const char *name = is_conn ? "limit_conn" : "limit_req";
    for (const struct directive *at = nginx_use_first(block, name); at != NULL;
         at = directive_next(at->next, name))
        join_use(config, block, at, is_conn);
}

/* ---- The whole --------------------------------------------------------------------------------------------------------------------- */

/* Limits that no request from outside reaches, anywhere in the tree. */
static void look_everywhere(struct config *config)
{
    const struct directive *root = config->http, *at = root->children;
    while (at != NULL) {
        if ((directive_is(at, "limit_req") || directive_is(at, "limit_conn")) && at->parent->count > 1
            && directive_is(at->parent, "location")
            && at->parent->words[at->parent->count > 2 ? 2 : 1].text.len > 0
            && at->parent->words[at->parent->count > 2 ? 2 : 1].text.at[0] == '@')
            NGINX_ERROR(config->import, at, "put it where requests come from outside",
                        "%s in a named location, which requests reach from inside only", at->words[0].text.at);
        if (at->children != NULL) {
            at = at->children;
            continue;
        }
        while (at != NULL && at->next == NULL)
            at = at->parent == root ? NULL : at->parent;
        at = at == NULL ? NULL : at->next;
    }
}

static bool is_zone(const struct directive *at)
{
    return directive_is(at, "limit_req_zone") || directive_is(at, "limit_conn_zone");
}

static void read_http(struct config *config)
{
    size_t count = 0;
    for (const struct directive *at = config->http->children; at != NULL; at = at->next)
        count += is_zone(at);
    config->zones = REGION_NEW(config->import->region, struct zone, count < ZONES_MAX ? count + 1 : ZONES_MAX);
    for (const struct directive *at = config->http->children; config->zones != NULL && at != NULL;
         at = at->next)
        if (is_zone(at))
            read_zone(config, at, directive_is(at, "limit_conn_zone"));
    nginx_read_servers(config);
    for (size_t i = 0; i < config->server_count; i++)
        for (size_t j = 0; j < config->servers[i].place_count; j++)
            for (int is_conn = 0; is_conn < 2; is_conn++)
                join_uses(config, config->servers[i].places[j].block, is_conn == 1);
    look_everywhere(config);
}

int import_nginx(struct import *import, const struct import_file *file)
{
    struct import_file own;
    struct directive root;
    struct config config = { .import = import };
    bool is_alone = file != NULL || strcmp(import->path, "-") == 0;
    int error = file == NULL ? import_file(import, import->path, &own) : 0;
    if (error == 0)
        error = nginx_read(import, file == NULL ? &own : file, is_alone, &root);
    if (error != 0)
        return error;
    if (diagnostics_errors(import->diagnostics) > 0)
        return 0;
    config.http = directive_next(root.children, "http");
    if (config.http == NULL)
        config.http = &root; /* a part of a configuration, as it is included into http */
    read_http(&config);
    if (diagnostics_errors(import->diagnostics) == 0)
        nginx_write(&config);
    return import->region->has_failed ? WEIR_ERR_MEMORY : 0;
}
