// SPDX-License-Identifier: Apache-2.0
/*
 * import_nginx.c - zones, and the servers and locations that name them, as limits.
 *
 * One zone is one limit: its key, its rate, and `burst + 1` as the bucket. Where it holds is gathered first: for each
 * server which of its locations name the zone, and then which servers agree. Everything whose requests would meet another
 * decision than in nginx is refused: bursts that differ, waiting, regular expressions that matter.
 */
#include "rule/import_nginx.h"

#include <stdio.h>
#include <stdlib.h>

#define ZONES_MAX 1024

/* ---- Words ------------------------------------------------------------------------------------------------------------- */

struct slice nginx_option(const struct directive *directive, const char *name)
{
    size_t len = strlen(name);
    for (unsigned i = 1; i < directive->count; i++) {
        struct slice word = directive->words[i].text;
        if (word.len > len && memcmp(word.at, name, len) == 0 && word.at[len] == '=')
            return (struct slice){ word.at + len + 1, word.len - len - 1 };
    }
    return (struct slice){ NULL, 0 };
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

/* Words of a directive as nginx has them, for comments. */
static void add_comment(struct config *config, const char *before, const struct directive *directive,
                        const char *behind)
{
    struct text line = { .region = config->import->region };
    for (unsigned i = 0; i < directive->count && line.len < 100; i++) {
        text_put(&line, i == 0 ? "" : " ");
        text_add(&line, directive->words[i].text);
    }
    text_put(&config->import->out, before);
    text_add(&config->import->out, import_comment(config->import, (struct slice){ line.at, line.len }));
    text_put(&config->import->out, behind);
    text_put(&config->import->out, "\n");
}

const struct directive *nginx_holder(const struct directive *block, const char *name)
{
    for (; block != NULL; block = block->parent)
        if (directive_next(block->children, name) != NULL)
            return block;
    return NULL;
}

/* The value of a directive that a block has or inherits; "" where nobody says it. */
static struct slice inherited(const struct directive *block, const char *name)
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
    uint64_t count = 0;
    bool is_second = rate.len > 3 && memcmp(rate.at + rate.len - 3, "r/s", 3) == 0;
    bool is_minute = rate.len > 3 && memcmp(rate.at + rate.len - 3, "r/m", 3) == 0;
    struct slice digits = { rate.at, rate.len > 3 ? rate.len - 3 : 0 };
    if ((!is_second && !is_minute) || !number_of(digits, UINT32_MAX, &count) || count == 0) {
        struct shown shown_rate;
        NGINX_ERROR(config->import, zone->at, "write rate=Nr/s or rate=Nr/m", "rate=%s is no rate",
                    rate.at == NULL ? "" : shown(rate, &shown_rate));
        return false;
    }
    text_number(&text, count);
    text_put(&text, is_second ? "/s" : "/m");
    zone->rate = (struct slice){ text.at, text.len };
    zone->per_minute = is_minute ? count : 0;
    return true;
}

static void read_zone(struct config *config, const struct directive *at)
{
    struct slice option = nginx_option(at, "zone");
    const char *colon = option.len == 0 ? NULL : memchr(option.at, ':', option.len);
    struct slice name = { option.at, colon == NULL ? option.len : (size_t)(colon - option.at) };
    struct shown name_shown;
    if (name.len == 0) {
        NGINX_ERROR(config->import, at, "write zone=NAME:SIZE", "limit_req_zone without a zone");
    } else if (zone_find(config, name) != NULL) {
        NGINX_ERROR(config->import, at, "keep one of the two", "zone %s is there twice",
                    shown(name, &name_shown));
    } else if (config->zone_count == ZONES_MAX) {
        NGINX_ERROR(config->import, at, "import a part at a time", "more than %d zones", ZONES_MAX);
    } else {
        struct zone *zone = &config->zones[config->zone_count++];
        *zone = (struct zone){ .name = name, .at = at };
        bool has_rate = read_rate(config, zone);
        zone->is_known =
            nginx_key_read(config->import, config->http, at, &config->identity, &zone->key) && has_rate;
    }
}

/* ---- Uses ----------------------------------------------------------------------------------------------------------------- */

/* The burst of a limit_req whose requests never wait. False: they do, or it cannot be read (reported). */
static bool read_burst(struct config *config, const struct directive *use, uint64_t *burst)
{
    struct slice burst_text = nginx_option(use, "burst"), delay_text = nginx_option(use, "delay");
    uint64_t delay = 0;
    *burst = 0;
    if ((burst_text.at != NULL && !number_of(burst_text, UINT32_MAX, burst))
        || (delay_text.at != NULL && !number_of(delay_text, UINT32_MAX, &delay))) {
        NGINX_ERROR(config->import, use, "write burst=N and delay=N", "burst or delay is no number");
        return false;
    }
    bool waits = *burst > 0 && !nginx_has_word(use, "nodelay") && delay < *burst;
    if (waits && delay_text.at != NULL)
        NGINX_ERROR(config->import, use, "write nodelay; waiting will come with a later version of weir",
                    "limit_req lets requests beyond delay=%llu wait, which is not in this version of weir yet",
                    (unsigned long long)delay);
    else if (waits)
        NGINX_ERROR(
            config->import, use, "write nodelay; waiting will come with a later version of weir",
            "limit_req with burst=%llu and without nodelay lets requests wait, which is not in this version "
            "of weir yet",
            (unsigned long long)*burst);
    return !waits;
}

/* One limit_req in force in `block`: what it says must be what the zone's other uses say. */
static void join_use(struct config *config, const struct directive *block, const struct directive *use)
{
    struct slice name = nginx_option(use, "zone");
    struct zone *zone = name.at == NULL ? NULL : zone_find(config, name);
    struct shown name_shown;
    uint64_t burst;
    if (zone == NULL) {
        NGINX_ERROR(config->import, use, "define it with limit_req_zone, in a file that is read",
                    "there is no zone %s", name.at == NULL ? "" : shown(name, &name_shown));
        return;
    }
    if (!read_burst(config, use, &burst))
        return;
    bool is_dry = slice_equals(inherited(block, "limit_req_dry_run"), SLICE("on"));
    struct slice status = inherited(block, "limit_req_status");
    if (zone->use == NULL) {
        zone->use = use;
        zone->burst = burst;
        zone->is_dry = is_dry;
        zone->status = status;
    } else if (burst != zone->burst || is_dry != zone->is_dry) {
        NGINX_ERROR(config->import, use, "give each place a zone of its own, or all the same burst",
                    "zone %s is one budget with %s here and in line %u: a limit has one",
                    shown(zone->name, &name_shown),
                    burst != zone->burst ? "different bursts" : "different dry runs",
                    zone->use->words[0].place.line);
    }
}

static void join_uses(struct config *config, const struct place_of_server *place)
{
    const struct directive *holder =
        nginx_answers_early(place->block) ? NULL : nginx_holder(place->block, "limit_req");
    const struct directive *use = holder == NULL ? NULL : directive_next(holder->children, "limit_req");
    for (; use != NULL; use = directive_next(use->next, "limit_req"))
        join_use(config, place->block, use);
}

/* ---- Limits ----------------------------------------------------------------------------------------------------------------------- */

static void add_notes(struct config *config, const struct zone *zone)
{
    struct text *out = &config->import->out;
    if (zone->per_minute % 60 != 0)
        text_format(
            out, "  # nginx keeps %llu thousandths of a request per second for it; here the rate is exact.\n",
            (unsigned long long)(zone->per_minute * 1000 / 60));
    if (zone->status.len == 0)
        text_put(out, "  # nginx refuses with 503 where no limit_req_status says otherwise; here it is 429.\n");
    if (zone->key.ignores_case)
        text_put(out, "  # The map ignores the case of letters; here it counts.\n");
    for (unsigned i = 0; i < zone->key.count; i++)
        if (slice_equals(zone->key.attributes[i], SLICE("x-forwarded-for"))
            || slice_equals(zone->key.attributes[i], SLICE("x-real-ip")))
            text_put(out, "  # Its clients write this header themselves: with `ip` they could not choose their "
                          "budget.\n");
}

static void add_limit(struct config *config, const struct zone *zone, struct slice suffix, struct slice host,
                      struct slice path)
{
    struct text *out = &config->import->out, wanted = { .region = config->import->region };
    const char *comma = "";
    text_add(&wanted, zone->name);
    text_put(&wanted, suffix.len > 0 ? "-" : "");
    text_add(&wanted, suffix);
    const char *name = import_limit_name(config->import, (struct slice){ wanted.at, wanted.len });
    text_put(out, "\n");
    add_comment(config, "  # ", zone->at, "");
    add_notes(config, zone);
    text_format(out, "  - name: %s\n", name == NULL ? "" : name);
    text_put(out, zone->key.when.len + host.len + path.len > 0 ? "    when: { " : "");
    const struct {
        const char *name;
        struct slice value;
    } parts[] = { { "", zone->key.when }, { "host: ", host }, { "path: ", path } };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].value.len > 0) {
            text_put(out, comma);
            text_put(out, parts[i].name);
            text_add(out, parts[i].value);
            comma = ", ";
        }
    text_put(out, *comma == '\0' ? "    key: [" : " }\n    key: [");
    for (unsigned i = 0; i < zone->key.count; i++) {
        text_put(out, i == 0 ? "" : ", ");
        text_add(out, zone->key.attributes[i]);
    }
    bool is_never_empty = zone->key.count > 1 || zone->key.has_constant || zone->key.is_per_server;
    text_put(out, zone->key.count > 0 && is_never_empty ? "]\n    missing-key: share\n" : "]\n");
    text_put(out, "    algorithm: leaky-bucket\n    rate: ");
    text_add(out, zone->rate);
    text_format(out, "\n    burst: %llu\n", (unsigned long long)zone->burst + 1);
    if (zone->is_dry)
        text_put(out, "    enforce: shadow\n");
    if (zone->status.len > 0 && !slice_equals(zone->status, SLICE("429"))) {
        text_put(out, "    reply: { status: ");
        text_add(out, zone->status);
        text_put(out, " }\n");
    }
}

static struct slice as_slice(const struct text *text)
{
    return (struct slice){ text->at == NULL ? "" : text->at, text->len };
}

/* A budget of its own in each server. */
static void add_per_server(struct config *config, const struct zone *zone)
{
    bool *met = REGION_NEW(config->import->region, bool, config->server_count + 1);
    for (size_t i = 0; met != NULL && i < config->server_count; i++) {
        struct text path = { .region = config->import->region }, host = { .region = config->import->region };
        const struct directive *names = directive_next(config->servers[i].block->children, "server_name");
        enum extent extent = nginx_extent(config, &config->servers[i], zone, &path);
        memset(met, 0, config->server_count * sizeof *met);
        met[i] = true;
        if (extent == EXTENT_BAD || extent == EXTENT_NONE
            || (config->server_count > 1 && !nginx_add_hosts(config, met, &host)))
            continue;
        add_limit(config, zone, names == NULL ? SLICE("") : directive_word(names, 1), as_slice(&host),
                  as_slice(&path));
    }
}

static void add_zone(struct config *config, const struct zone *zone)
{
    struct text path = { .region = config->import->region }, host = { .region = config->import->region };
    bool *met = REGION_NEW(config->import->region, bool, config->server_count + 1);
    size_t count = 0;
    for (size_t i = 0; met != NULL && i < config->server_count; i++) {
        struct text own = { .region = config->import->region };
        enum extent extent = nginx_extent(config, &config->servers[i], zone, &own);
        if (extent == EXTENT_BAD)
            return;
        met[i] = extent != EXTENT_NONE;
        if (met[i] && count++ > 0 && !slice_equals(as_slice(&own), as_slice(&path))) {
            NGINX_ERROR(config->import, config->servers[i].block, NGINX_SERVERS_CURE,
                        "zone %s is shared by servers whose locations differ",
                        import_comment(config->import, zone->name).at);
            return;
        }
        path = met[i] ? own : path;
    }
    if (count == 0 || (count < config->server_count && !nginx_add_hosts(config, met, &host)))
        return;
    add_limit(config, zone, SLICE(""), as_slice(&host), as_slice(&path));
}

/* ---- The whole --------------------------------------------------------------------------------------------------------------------- */

/* Limits on concurrent work, and where addresses come from, anywhere in the tree. */
static void look_everywhere(struct config *config)
{
    const struct directive *root = config->http, *at = root->children;
    while (at != NULL) {
        if (directive_is(at, "limit_conn"))
            NGINX_ERROR(config->import, at,
                        "remove it and import the rest; it will come with a later version of weir",
                        "limit_conn bounds how much runs at once, which is not in this version of weir yet");
        if (directive_is(at, "limit_req") && at->parent->count > 1 && directive_is(at->parent, "location")
            && at->parent->words[at->parent->count > 2 ? 2 : 1].text.len > 0
            && at->parent->words[at->parent->count > 2 ? 2 : 1].text.at[0] == '@')
            NGINX_ERROR(config->import, at, "put it where requests come from outside",
                        "limit_req in a named location, which requests reach from inside only");
        if (at->children != NULL) {
            at = at->children;
            continue;
        }
        while (at != NULL && at->next == NULL)
            at = at->parent == root ? NULL : at->parent;
        at = at == NULL ? NULL : at->next;
    }
}

static const char head[] =
    "#\n"
    "# limit_req with burst=N nodelay is a leaky bucket of N + 1. Where it differs:\n"
    "#   nginx counts in thousandths of a request and whole milliseconds, rounding against the client: after "
    "thousands of\n"
    "#   requests it may refuse one a little earlier. Here the numbers are exact.\n"
    "#   With several limit_req in one place, a new key of an earlier one that a later one refuses counts once "
    "there;\n"
    "#   here a refused request is free.\n"
    "#   nginx decodes a path whole before it looks for a location; here %2F and the like stay as they are.\n"
    "#   nginx limits a request where `rewrite` has led it, and not at all where an `if` answers it; here it "
    "is limited\n"
    "#   by the path that was asked for.\n";

static void add_identity_block(struct config *config)
{
    struct text *out = &config->import->out;
    const struct nginx_identity *identity = &config->identity;
    const struct directive *header = directive_next(config->http->children, "real_ip_header");
    if (!identity->has_ip && identity->count == 0)
        return;
    text_put(out, "\nidentity:\n");
    if (header != NULL)
        add_comment(config, "  # nginx has addresses by ", header,
                    ": name its proxies in `proxies`, and that header in `from`.");
    if (identity->has_ip)
        text_put(
            out,
            "  # Whole addresses, as nginx counts them: one client of IPv6 has many. 64 would be a network.\n"
            "  # Behind a proxy write `from: x-forwarded-for` and name the proxy in `proxies`.\n"
            "  ip: { from: peer, group: { ipv4: 32, ipv6: 128 } }\n");
    for (unsigned i = 0; i < identity->count; i++) {
        text_put(out, "  ");
        text_add(out, identity->rows[i].attribute);
        text_put(out, ": ");
        text_add_json(out, identity->rows[i].source);
        text_put(out, "\n");
    }
}

static void write_contract(struct config *config)
{
    struct text *out = &config->import->out;
    text_put(out, "# Imported from ");
    text_add(out, import_comment(config->import, slice_of(config->import->path)));
    text_put(out, " (nginx).\n");
    text_put(out, head);
    text_put(out, "weir: 1\n");
    add_identity_block(config);
    text_put(out, "\nlimits:\n");
    for (size_t i = 0; i < config->zone_count; i++) {
        const struct zone *zone = &config->zones[i];
        if (zone->use == NULL)
            add_comment(config, "\n  # ", zone->at, ": no server uses it.");
        else if (zone->is_known)
            (zone->key.is_per_server ? add_per_server : add_zone)(config, zone);
    }
    if (config->import->name_count == 0)
        text_put(out, "  []\n");
}

static void read_http(struct config *config)
{
    const struct directive *first = directive_next(config->http->children, "limit_req_zone");
    size_t count = 0;
    for (const struct directive *it = first; it != NULL; it = directive_next(it->next, "limit_req_zone"))
        count++;
    config->zones = REGION_NEW(config->import->region, struct zone, count < ZONES_MAX ? count + 1 : ZONES_MAX);
    for (const struct directive *it = first; config->zones != NULL && it != NULL;
         it = directive_next(it->next, "limit_req_zone"))
        read_zone(config, it);
    nginx_read_servers(config);
    for (size_t i = 0; i < config->server_count; i++)
        for (size_t j = 0; j < config->servers[i].place_count; j++)
            join_uses(config, &config->servers[i].places[j]);
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
        write_contract(&config);
    return import->region->has_failed ? WEIR_ERR_MEMORY : 0;
}
