// SPDX-License-Identifier: Apache-2.0
/*
 * import_nginx_write.c - zones as limits, with what differs in comments beside them.
 *
 * A zone whose uses all say the same is one limit. Where they differ it stays one budget, with the most that any of them
 * allows, and every use that allows less gets a limit of its own beside it: a limit has one burst. The whole is then bounded
 * as in nginx, and a place by what passed there.
 */
#include "rule/import_nginx.h"

#include <stdio.h>
#include <stdlib.h>

/* What a request for a permit is held by default: nginx waits as long for a backend that says nothing. */
#define HOLD "60s"

static struct slice as_slice(const struct text *text)
{
    return (struct slice){ text->at == NULL ? "" : text->at, text->len };
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
    text_add(&config->import->out, import_comment(config->import, as_slice(&line)));
    text_put(&config->import->out, behind);
    text_put(&config->import->out, "\n");
}

/* ---- Where ----------------------------------------------------------------------------------------------------------------- */

/* Which requests a limit is for: the values of `path` and `host`, empty for all. */
struct where {
    struct text path, host;
};

/* In one server, for a budget of its own. */
static enum extent where_in_server(struct config *config, const struct zone *zone, const struct use *use,
                                   size_t server, struct where *out)
{
    bool *met = REGION_NEW(config->import->region, bool, config->server_count + 1);
    *out = (struct where){ { .region = config->import->region }, { .region = config->import->region } };
    if (met == NULL)
        return EXTENT_BAD;
    enum extent extent = nginx_extent(config, &config->servers[server], zone, use, &out->path);
    met[server] = true;
    if ((extent == EXTENT_SOME || extent == EXTENT_ALL) && config->server_count > 1
        && !nginx_add_hosts(config, met, &out->host))
        return EXTENT_BAD;
    return extent;
}

/* In all servers. */
static enum extent where_at_all(struct config *config, const struct zone *zone, const struct use *use,
                                struct where *out)
{
    bool *met = REGION_NEW(config->import->region, bool, config->server_count + 1);
    size_t count = 0;
    *out = (struct where){ { .region = config->import->region }, { .region = config->import->region } };
    for (size_t i = 0; met != NULL && i < config->server_count; i++) {
        struct text own = { .region = config->import->region };
        enum extent extent = nginx_extent(config, &config->servers[i], zone, use, &own);
        if (extent == EXTENT_BAD)
            return EXTENT_BAD;
        met[i] = extent != EXTENT_NONE;
        if (met[i] && count++ > 0 && !slice_equals(as_slice(&own), as_slice(&out->path))) {
            NGINX_ERROR(config->import, config->servers[i].block, NGINX_SERVERS_CURE,
                        "zone %s is shared by servers whose locations differ",
                        import_comment(config->import, zone->name).at);
            return EXTENT_BAD;
        }
        out->path = met[i] ? own : out->path;
    }
    if (met == NULL || count == 0)
        return met == NULL ? EXTENT_BAD : EXTENT_NONE;
    if (count < config->server_count && !nginx_add_hosts(config, met, &out->host))
        return EXTENT_BAD;
    return EXTENT_SOME;
}

#define ALL_SERVERS SIZE_MAX

static enum extent find_where(struct config *config, const struct zone *zone, const struct use *use,
                              size_t server, struct where *out)
{
    return server == ALL_SERVERS ? where_at_all(config, zone, use, out)
                                 : where_in_server(config, zone, use, server, out);
}

/* ---- A limit --------------------------------------------------------------------------------------------------------------- */

/* What a limit is of its zone. */
enum part { PART_ONLY, PART_WHOLE, PART_ONE };

static void add_notes(struct config *config, const struct zone *zone, const struct use *use, enum part part)
{
    struct text *out = &config->import->out;
    uint64_t thousandths = zone->seconds == 0 ? 0 : zone->count * 1000 / zone->seconds;
    if (part == PART_WHOLE)
        text_format(
            out,
            "  # Its places allow different numbers. This is the budget that they share, with the largest; "
            "below, each smaller one\n"
            "  # has a limit of its own. In nginx a place also refuses for what passed at the others; here "
            "only when the largest\n"
            "  # is reached.\n");
    if (part == PART_ONE)
        add_comment(config, "  # Where it is used by: ", use->at, "");
    if (thousandths * zone->seconds != zone->count * 1000)
        text_format(
            out, "  # nginx keeps %llu thousandths of a request per second for it; here the rate is exact.\n",
            (unsigned long long)thousandths);
    if (use->status.len == 0)
        text_format(out, "  # nginx refuses with 503 where no %s_status says otherwise; here it is 429.\n",
                    nginx_use_name(zone));
    if (zone->has_other_status)
        text_put(out, "  # Some of its places refuse with another status.\n");
    if (zone->key.ignores_case)
        text_put(out, "  # The map ignores the case of letters; here it counts.\n");
    for (unsigned i = 0; i < zone->key.count; i++)
        if (slice_equals(zone->key.attributes[i], SLICE("x-forwarded-for"))
            || slice_equals(zone->key.attributes[i], SLICE("x-real-ip")))
            text_put(out, "  # Its clients write this header themselves: with `ip` they could not choose their "
                          "budget.\n");
}

/* The pattern of a location that ends in a slash looks odd. */
static bool has_folder(struct slice path)
{
    return memmem(path.at, path.len, "/*/**", 5) != NULL;
}

static void add_when(struct text *out, const struct zone *zone, const struct where *where)
{
    const struct {
        const char *name;
        struct slice value;
    } parts[] = { { "", zone->key.when },
                  { "host: ", as_slice(&where->host) },
                  { "path: ", as_slice(&where->path) } };
    const char *comma = "    when: { ";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].value.len > 0) {
            text_put(out, comma);
            text_put(out, parts[i].name);
            text_add(out, parts[i].value);
            comma = ", ";
        }
    text_put(out, *comma == ',' ? " }\n" : "");
}

static void add_key(struct text *out, const struct nginx_key *key)
{
    bool is_never_empty = key->count > 1 || key->has_constant || key->is_per_server;
    text_put(out, "    key: [");
    for (unsigned i = 0; i < key->count; i++) {
        text_put(out, i == 0 ? "" : ", ");
        text_add(out, key->attributes[i]);
    }
    text_put(out, key->count > 0 && is_never_empty ? "]\n    missing-key: share\n" : "]\n");
}

/* What passes at once is a bucket, and what waits is its queue; with nothing but one at once it is a queue by name. */
static void add_shape(struct text *out, const struct zone *zone, const struct use *use)
{
    uint64_t queue = use->most - use->at_once;
    if (zone->seconds == 0) {
        text_format(out, "    algorithm: concurrency\n    at-most: %llu\n    hold: " HOLD "\n",
                    (unsigned long long)use->most);
        return;
    }
    bool is_queue = queue > 0 && use->at_once == 0;
    text_put(out,
             is_queue ? "    algorithm: leaky-queue\n    rate: " : "    algorithm: leaky-bucket\n    rate: ");
    text_add(out, zone->rate);
    if (!is_queue)
        text_format(out, "\n    burst: %llu", (unsigned long long)use->at_once + 1);
    if (queue > 0)
        text_format(out, "\n    wait: { up-to: %llus, queue: %llu }",
                    (unsigned long long)nginx_wait_seconds(zone, use), (unsigned long long)queue);
    text_put(out, "\n");
}

/* A limit on work keeps as many permits as it gives, for keys that find no cell; the usual pool is beside that for all. */
static void add_memory(struct config *config)
{
    enum { USUAL = 65536 };
    if (config->permits > USUAL / 2)
        text_format(&config->import->out,
                    "\n# Each limit of limit_conn keeps at-most of them aside; the others are for its keys.\n"
                    "memory: { permits: %llu }\n",
                    (unsigned long long)config->permits + USUAL);
}

static const char *limit_name(struct config *config, const struct zone *zone, const struct use *use,
                              enum part part, struct slice server)
{
    struct text wanted = { .region = config->import->region };
    text_add(&wanted, zone->name);
    text_put(&wanted, server.len > 0 ? "-" : "");
    text_add(&wanted, server);
    if (part == PART_ONE)
        text_format(&wanted, zone->seconds == 0 ? "-at-most-%llu" : "-burst-%llu",
                    (unsigned long long)use->most);
    if (part == PART_ONE && use->at_once < use->most)
        text_format(&wanted, "-delay-%llu", (unsigned long long)use->at_once);
    const char *name = import_limit_name(config->import, as_slice(&wanted));
    return name == NULL ? "" : name;
}

static void add_limit(struct config *config, const struct zone *zone, const struct use *use, enum part part,
                      struct slice server, const struct where *where)
{
    struct text *out = &config->import->out;
    text_put(out, "\n");
    add_comment(config, "  # ", zone->at, "");
    add_notes(config, zone, use, part);
    if (has_folder(as_slice(&where->path)))
        text_put(out,
                 "  # `location /x/` is `/x/*/**` here: `/x/**` would match /x without its slash as well.\n");
    text_format(out, "  - name: %s\n", limit_name(config, zone, use, part, server));
    add_when(out, zone, where);
    add_key(out, &zone->key);
    add_shape(out, zone, use);
    config->permits += zone->seconds == 0 ? use->most : 0;
    if (zone->is_dry)
        text_put(out, "    enforce: shadow\n");
    if (use->status.len > 0 && !slice_equals(use->status, SLICE("429"))) {
        text_put(out, "    reply: { status: ");
        text_add(out, use->status);
        text_put(out, " }\n");
    }
}

/* ---- A zone ----------------------------------------------------------------------------------------------------------------- */

/* One budget of the zone: in all servers, or in one. */
static void add_budget(struct config *config, const struct zone *zone, size_t server, struct slice server_name)
{
    struct where places[NGINX_USES_MAX], whole;
    bool is_met[NGINX_USES_MAX] = { false };
    const struct use *widest = NULL;
    size_t count = 0;
    for (size_t i = 0; i < zone->use_count; i++) {
        enum extent extent = find_where(config, zone, &zone->uses[i], server, &places[i]);
        if (extent == EXTENT_BAD)
            return;
        is_met[i] = extent != EXTENT_NONE;
        count += is_met[i];
        if (is_met[i] && (widest == NULL || zone->uses[i].most > widest->most))
            widest = &zone->uses[i];
    }
    if (widest == NULL)
        return;
    if (count == 1) {
        add_limit(config, zone, widest, PART_ONLY, server_name, &places[widest - zone->uses]);
        return;
    }
    if (find_where(config, zone, NULL, server, &whole) == EXTENT_BAD)
        return;
    const struct use all = { widest->at, widest->most, widest->most, widest->status };
    add_limit(config, zone, &all, PART_WHOLE, server_name, &whole);
    for (size_t i = 0; i < zone->use_count; i++)
        if (is_met[i] && zone->uses[i].at_once < all.most)
            add_limit(config, zone, &zone->uses[i], PART_ONE, server_name, &places[i]);
}

/* Whether the key is empty wherever $server_name is: then nginx does not limit. */
static bool is_only_server_name(const struct nginx_key *key)
{
    return key->count == 0 && !key->has_constant;
}

static void add_zone(struct config *config, const struct zone *zone)
{
    if (zone->use_count == 0 || (is_only_server_name(&zone->key) && !zone->key.is_per_server)) {
        add_comment(config, "\n  # ", zone->at,
                    zone->use_count == 0 ? ": no server uses it." : ": an empty key is not limited.");
        return;
    }
    if (!zone->key.is_per_server) {
        add_budget(config, zone, ALL_SERVERS, SLICE(""));
        return;
    }
    for (size_t i = 0; i < config->server_count; i++) {
        const struct directive *names = directive_next(config->servers[i].block->children, "server_name");
        struct slice name = names == NULL ? SLICE("") : directive_word(names, 1);
        if (name.len == 0 && is_only_server_name(&zone->key))
            add_comment(config, "\n  # ", zone->at,
                        ": empty for a server without a name, and an empty key is not limited.");
        else
            add_budget(config, zone, i, name);
    }
}

/* ---- The whole --------------------------------------------------------------------------------------------------------------------- */

static const char about_rates[] =
    "#\n"
    "# limit_req with burst=N nodelay is a leaky bucket of N + 1. Where it differs:\n"
    "#   nginx counts in thousandths of a request and whole milliseconds, rounding against the client: after "
    "thousands of\n"
    "#   requests it may refuse one a little earlier. Here the numbers are exact.\n"
    "#   With several limit_req in one place, a new key of an earlier one that a later one refuses counts once "
    "there;\n"
    "#   here a refused request is free.\n";

static const char about_paths[] =
    "#   nginx decodes a path whole before it looks for a location; here %2F and the like stay as they are.\n"
    "#   nginx limits a request where `rewrite` has led it, and not at all where an `if` answers it; here it "
    "is limited\n"
    "#   by the path that was asked for.\n";

static const char about_waiting[] =
    "#\n"
    "# Without nodelay, limit_req lets the burst beyond `delay` wait: it leaves a queue at the zone's rate. "
    "Where it "
    "differs:\n"
    "#   nginx makes every such request wait. Here only those wait whose caller says how long it can, by "
    "`wait` at\n"
    "#   /v1/check, or by `Prefer: wait=SECONDS` at the doors for proxies, which need `server: { auth-wait: "
    "true }`: "
    "let the\n"
    "#   proxy set that field, so that no client's own passes, and give it a time-out above it. All others are "
    "refused at\n"
    "#   once, with the time until their turn.\n"
    "#   nginx counts a request when it comes; here it counts when its turn comes, and one that gives up moves "
    "those "
    "behind\n"
    "#   it up. So with several limits a request that waits in one takes nothing of the others meanwhile.\n";

static const char about_work[] =
    "#\n"
    "# limit_conn counts requests in processing, and their ends. That is a limit on concurrent work here, with "
    "permits; "
    "where it\n"
    "# differs:\n"
    "#   nginx sees the end of a request. Here the application, or a wrapper of it, takes a permit with POST "
    "/v1/acquire and\n"
    "#   gives it back with /v1/release. The doors for proxies (auth_request) only look: they refuse while all "
    "permits "
    "are\n"
    "#   taken, and take none, so alone they limit nothing.\n"
    "#   `hold` is not in nginx, and is yours to choose: a permit that is neither released nor renewed for so "
    "long "
    "returns by\n"
    "#   itself. Renew at a third of it, and choose it longer than any pause of a holder; or longer than the "
    "longest "
    "request,\n"
    "#   where nobody renews.\n"
    "#   A request that limit_conn refuses has counted in limit_req there; here a refused request is free.\n";

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
        text_put(out, "  # Whole addresses, as nginx counts them: one client of IPv6 has many, which `weir "
                      "lint` warns of. "
                      "64 would be a\n"
                      "  # network.\n"
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

static void add_head(struct config *config)
{
    struct text *out = &config->import->out;
    bool has_waiting = false, has_work = false;
    for (size_t i = 0; i < config->zone_count; i++) {
        const struct zone *zone = &config->zones[i];
        has_work = has_work || (zone->seconds == 0 && zone->use_count > 0);
        for (size_t j = 0; j < zone->use_count; j++)
            has_waiting = has_waiting || zone->uses[j].at_once < zone->uses[j].most;
    }
    text_put(out, "# Imported from ");
    text_add(out, import_comment(config->import, slice_of(config->import->path)));
    text_put(out, " (nginx).\n");
    text_put(out, about_rates);
    text_put(out, about_paths);
    text_put(out, has_waiting ? about_waiting : "");
    text_put(out, has_work ? about_work : "");
    text_put(out, "weir: 1\n");
    if (has_waiting)
        text_put(out, "# Where the proxy sets or deletes Prefer, this lets requests wait at its door:\n"
                      "# server: { auth-wait: true }\n");
}

void nginx_write(struct config *config)
{
    struct text *out = &config->import->out;
    add_head(config);
    add_identity_block(config);
    text_put(out, "\nlimits:\n");
    for (size_t i = 0; i < config->zone_count; i++) {
        const struct zone *zone = &config->zones[i];
        if (zone->is_known || zone->use_count == 0)
            add_zone(config, zone);
    }
    if (config->import->name_count == 0)
        text_put(out, "  []\n");
    add_memory(config);
}
