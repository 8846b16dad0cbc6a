// SPDX-License-Identifier: Apache-2.0
/*
 * import_nginx_where.c - which requests a zone is for: places of a server by the paths they take, servers by their names.
 *
 * Of all places, or names, that hold a request the most special one takes it. So a set of them becomes areas, each inside
 * the next more general one, and areas_add() says it as patterns.
 */
#include <stdlib.h>

#include "rule/import_nginx.h"

#define SERVERS_MAX 512
#define LOCATIONS_MAX 4096

bool nginx_answers_early(const struct directive *block)
{
    for (; block != NULL && block->count > 0 && !directive_is(block, "http"); block = block->parent)
        if (directive_next(block->children, "return") != NULL)
            return true;
    return false;
}

/* Whether requests of the place are counted in the zone, by `use`. */
static bool is_met(const struct place_of_server *place, const struct zone *zone, const struct use *use)
{
    const char *name = nginx_use_name(zone);
    const struct directive *at = nginx_use_first(place->block, name);
    for (; at != NULL; at = directive_next(at->next, name)) {
        struct use said;
        struct slice of, wrong;
        bool is_read = nginx_use_read(at, zone->seconds == 0, &said, &of, &wrong) == NULL;
        if (is_read && slice_equals(of, zone->name)
            && (use == NULL || (use->most == said.most && use->at_once == said.at_once)))
            return true;
    }
    return false;
}

/* ---- Servers and locations -------------------------------------------------------------------------------------------------- */

/* All paths that begin with the prefix. Behind a slash a mere `**` would also match the path without it. */
static struct slice prefix_pattern(struct import *import, struct slice prefix)
{
    struct slice literal = import_pattern(import, prefix, false);
    struct text text = { .region = import->region };
    text_add(&text, literal);
    text_put(&text, prefix.len > 0 && prefix.at[prefix.len - 1] == '/' ? "*/**" : "**");
    return (struct slice){ text.at, text.len };
}

static void add_place(struct config *config, struct server *server, const struct directive *location)
{
    struct place_of_server place = { .block = location };
    struct slice sign = location->count > 2 ? location->words[1].text : (struct slice){ "", 0 };
    place.path = directive_word(location, location->count > 2 ? 2 : 1);
    if (location->count == 2 && place.path.len > 1 && (place.path.at[0] == '=' || place.path.at[0] == '~')) {
        sign = (struct slice){ place.path.at, 1 }; /* "location =/x" */
        place.path = (struct slice){ place.path.at + 1, place.path.len - 1 };
    }
    if (place.path.len > 0 && place.path.at[0] == '@')
        return; /* reached from inside only */
    place.is_exact = slice_equals(sign, SLICE("="));
    place.is_regex = sign.len > 0 && sign.at[0] == '~';
    place.pattern = place.is_exact ? import_pattern(config->import, place.path, false)
                                   : prefix_pattern(config->import, place.path);
    if (server->place_count == LOCATIONS_MAX) {
        NGINX_ERROR(config->import, location, "import a part at a time", "more than %d locations in a server",
                    LOCATIONS_MAX);
        return;
    }
    server->places[server->place_count++] = place;
}

/*
 * The location behind `at` below the server, or its first. Locations within locations are reached like the others: the
 * longest prefix takes the request.
 */
static const struct directive *location_next(const struct directive *server, const struct directive *at)
{
    bool is_first = at == NULL;
    if (is_first)
        at = server->children;
    while (at != NULL) {
        bool is_location = directive_is(at, "location") && at->has_block;
        if (is_location && is_first)
            return at;
        is_first = true; /* whatever comes next was not given yet */
        if (is_location && at->children != NULL) {
            at = at->children;
            continue;
        }
        while (at->next == NULL && at->parent != server)
            at = at->parent;
        at = at->next;
    }
    return NULL;
}

/* More general before more special: prefixes by length, then what is exact. */
static int compare_places(const void *x, const void *y)
{
    const struct place_of_server *a = x, *b = y;
    if (a->is_root != b->is_root)
        return a->is_root ? -1 : 1;
    if (a->is_exact != b->is_exact)
        return a->is_exact ? 1 : -1;
    return (a->path.len > b->path.len) - (a->path.len < b->path.len);
}

static size_t count_locations(const struct directive *block)
{
    size_t count = 0;
    for (const struct directive *at = location_next(block, NULL); at != NULL; at = location_next(block, at))
        count++;
    return count;
}

static void read_server(struct config *config, const struct directive *block)
{
    size_t count = count_locations(block);
    if (config->server_count == SERVERS_MAX || count > LOCATIONS_MAX) {
        NGINX_ERROR(config->import, block, "import a part at a time", "more than %d %s",
                    count > LOCATIONS_MAX ? LOCATIONS_MAX : SERVERS_MAX,
                    count > LOCATIONS_MAX ? "locations in a server" : "servers");
        return;
    }
    struct server *server = &config->servers[config->server_count++];
    struct text listen = { .region = config->import->region };
    *server = (struct server){ .block = block };
    server->places = REGION_NEW(config->import->region, struct place_of_server, count + 1);
    if (server->places == NULL)
        return;
    server->places[server->place_count++] =
        (struct place_of_server){ .block = block, .is_root = true, .path = { "", 0 } };
    for (const struct directive *at = location_next(block, NULL); at != NULL; at = location_next(block, at))
        add_place(config, server, at);
    qsort(server->places, server->place_count, sizeof *server->places, compare_places);
    for (const struct directive *it = directive_next(block->children, "listen"); it != NULL;
         it = directive_next(it->next, "listen")) {
        text_add(&listen, directive_word(it, 1));
        text_put(&listen, " ");
        server->is_default = server->is_default || nginx_has_word(it, "default_server");
    }
    server->listen = (struct slice){ listen.at == NULL ? "" : listen.at, listen.len };
}

void nginx_read_servers(struct config *config)
{
    config->servers = REGION_NEW(config->import->region, struct server, SERVERS_MAX);
    for (const struct directive *it = directive_next(config->http->children, "server");
         config->servers != NULL && it != NULL; it = directive_next(it->next, "server"))
        if (it->has_block)
            read_server(config, it);
}

/* ---- Where a zone holds within a server --------------------------------------------------------------------------------------- */

/* Whether the location `outer` would take a request for the path of `inner` if `inner` were not there. */
static bool path_contains(const struct place_of_server *outer, const struct place_of_server *inner)
{
    if (outer->is_exact)
        return outer->is_exact == inner->is_exact && slice_equals(outer->path, inner->path);
    return inner->path.len >= outer->path.len && memcmp(inner->path.at, outer->path.at, outer->path.len) == 0;
}

/* The location `/` takes all that no other does; else that is the server's own. */
static const struct place_of_server *root_of(const struct server *server)
{
    for (size_t i = 1; i < server->place_count; i++)
        if (!server->places[i].is_exact && !server->places[i].is_regex
            && slice_equals(server->places[i].path, SLICE("/")))
            return &server->places[i];
    return &server->places[0];
}

enum extent nginx_extent(struct config *config, const struct server *server, const struct zone *zone,
                         const struct use *use, struct text *out)
{
    struct area *areas = REGION_NEW(config->import->region, struct area, server->place_count);
    const struct place_of_server **places =
        REGION_NEW(config->import->region, const struct place_of_server *, server->place_count);
    const struct place_of_server *root = root_of(server);
    const struct directive *regex = NULL;
    bool is_root_met = is_met(root, zone, use);
    size_t met = is_root_met, count = 0;
    if (areas == NULL || places == NULL)
        return EXTENT_BAD;
    for (size_t i = 1; i < server->place_count; i++) {
        const struct place_of_server *place = &server->places[i];
        if (place == root)
            continue;
        uint32_t parent = AREA_NONE;
        for (size_t j = 0; j < count; j++)
            if (path_contains(places[j], place))
                parent = (uint32_t)j;
        places[count] = place;
        bool is_met_here = is_met(place, zone, use);
        areas[count++] = (struct area){ place->pattern, parent, is_met_here, 0 };
        met += is_met_here;
        regex = place->is_regex ? place->block : regex;
    }
    if (met == 0 || met == count + 1)
        return met == 0 ? EXTENT_NONE : EXTENT_ALL;
    if (regex != NULL) {
        if (regex != config->regex_told)
            NGINX_ERROR(config->import, regex, "write locations as prefixes, or limit the whole server",
                        "a location by regular expression, beside others with other limits");
        config->regex_told = regex;
        return EXTENT_BAD;
    }
    if (areas_add(config->import, areas, count, is_root_met, out))
        return EXTENT_SOME;
    NGINX_ERROR(config->import, server->block, "give the inner locations a zone of their own",
                "the locations of zone %s lie in parts that others take out of it, which `when` cannot say",
                import_comment(config->import, zone->name).at);
    return EXTENT_BAD;
}

/* ---- Which servers -------------------------------------------------------------------------------------------------------------- */

/* One name of a server. */
struct host {
    struct slice name; /* of a wildcard: without its star, ".example.org" or "www.example." */
    struct slice pattern;
    bool is_leading, is_trailing, is_met;
    const struct directive *at;
};

static void add_host(struct config *config, struct host *hosts, size_t *count, struct slice name,
                     bool is_met_here, const struct directive *at)
{
    struct host host = { .name = name, .is_met = is_met_here, .at = at };
    bool is_dot = name.len > 1 && name.at[0] == '.';
    if (is_dot) /* .example.org is example.org as well */
        add_host(config, hosts, count, (struct slice){ name.at + 1, name.len - 1 }, is_met_here, at);
    host.is_leading = is_dot || (name.len > 2 && name.at[0] == '*' && name.at[1] == '.');
    host.is_trailing = !host.is_leading && name.len > 2 && name.at[name.len - 1] == '*';
    if (host.is_leading && !is_dot)
        host.name = (struct slice){ name.at + 1, name.len - 1 };
    if (host.is_trailing)
        host.name = (struct slice){ name.at, name.len - 1 };
    struct text pattern = { .region = config->import->region };
    text_put(&pattern, host.is_leading ? "*" : "");
    for (size_t i = 0; i < host.name.len; i++) {
        char lower = ascii_lower(host.name.at[i]);
        text_add(&pattern, (struct slice){ &lower, 1 });
    }
    text_put(&pattern, host.is_trailing ? "*" : "");
    host.pattern = (struct slice){ pattern.at, pattern.len };
    host.name = host.is_leading ? (struct slice){ pattern.at + 1, pattern.len - 1 }
                                : (struct slice){ pattern.at, pattern.len - host.is_trailing };
    hosts[(*count)++] = host;
}

static int rank_of(const struct host *host)
{
    return host->is_trailing ? 0 : host->is_leading ? 1 : 2;
}

/* More general before more special. */
static int compare_hosts(const void *x, const void *y)
{
    const struct host *a = x, *b = y;
    if (rank_of(a) != rank_of(b))
        return rank_of(a) - rank_of(b);
    return (a->name.len > b->name.len) - (a->name.len < b->name.len);
}

static bool host_contains(const struct host *outer, const struct host *inner)
{
    bool is_longer = inner->name.len >= outer->name.len;
    if (outer->is_leading)
        return is_longer && !inner->is_trailing
               && memcmp(inner->name.at + inner->name.len - outer->name.len, outer->name.at, outer->name.len)
                      == 0
               && (inner->is_leading || inner->name.len > outer->name.len);
    if (outer->is_trailing) /* a leading wildcard may overlap it; exact names may lie in it */
        return inner->is_leading || (is_longer && memcmp(inner->name.at, outer->name.at, outer->name.len) == 0);
    return slice_equals(outer->name, inner->name) && rank_of(inner) == 2;
}

/* The server that takes what no name does, of those with the same addresses. */
static bool is_fallback(const struct config *config, const struct server *server)
{
    bool is_first = true, has_default = false;
    for (size_t i = 0; i < config->server_count; i++) {
        const struct server *other = &config->servers[i];
        if (!slice_equals(other->listen, server->listen))
            continue;
        is_first = is_first && other >= server;
        has_default = has_default || other->is_default;
    }
    return has_default ? server->is_default : is_first;
}

static bool refuse_hosts(struct config *config, const struct directive *at, const char *problem)
{
    NGINX_ERROR(config->import, at, "import the servers one by one, or give each a zone of its own", "%s",
                problem);
    return false;
}

/* All names of all servers, met or not. False: reported. */
static bool gather_hosts(struct config *config, const bool *met, struct host *hosts, size_t room, size_t *count)
{
    for (size_t i = 0; i < config->server_count; i++) {
        const struct directive *names = directive_next(config->servers[i].block->children, "server_name");
        for (; names != NULL; names = directive_next(names->next, "server_name"))
            for (unsigned w = 1; w < names->count; w++) {
                struct slice name = names->words[w].text;
                if (name.len == 0 || slice_equals(name, SLICE("_")))
                    continue;
                if (name.at[0] == '~')
                    return refuse_hosts(config, names, "a server_name by regular expression");
                if (*count + 2 > room)
                    return refuse_hosts(config, names, "too many server names");
                add_host(config, hosts, count, name, met[i], names);
            }
    }
    return true;
}

bool nginx_add_hosts(struct config *config, const bool *met, struct text *out)
{
    enum { ROOM = 4096 };
    struct host *hosts = REGION_NEW(config->import->region, struct host, ROOM);
    struct area *areas = REGION_NEW(config->import->region, struct area, ROOM);
    size_t count = 0, kept = 0;
    int root = -1;
    if (hosts == NULL || areas == NULL || !gather_hosts(config, met, hosts, ROOM, &count))
        return false;
    for (size_t i = 0; i < config->server_count; i++) {
        if (!is_fallback(config, &config->servers[i]))
            continue;
        if (root >= 0 && (bool)root != met[i])
            return refuse_hosts(config, config->servers[i].block,
                                "servers on different addresses, whose limits differ for unknown hosts");
        root = met[i];
    }
    qsort(hosts, count, sizeof *hosts, compare_hosts);
    for (size_t i = 0; i < count; i++) {
        bool is_twin = false;
        uint32_t parent = AREA_NONE;
        for (size_t j = 0; j < kept; j++) {
            is_twin = slice_equals(hosts[j].pattern, hosts[i].pattern);
            if (is_twin && hosts[j].is_met != hosts[i].is_met)
                return refuse_hosts(config, hosts[i].at,
                                    "one server_name on different addresses, with different limits");
            if (is_twin)
                break;
            if (host_contains(&hosts[j], &hosts[i]))
                parent = (uint32_t)j;
        }
        if (is_twin)
            continue;
        hosts[kept] = hosts[i];
        areas[kept++] = (struct area){ hosts[i].pattern, parent, hosts[i].is_met, 0 };
    }
    if (areas_add(config->import, areas, kept, root > 0, out))
        return true;
    return refuse_hosts(config, config->http->children, "server names that lie in parts taken out of others");
}
