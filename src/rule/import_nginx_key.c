// SPDX-License-Identifier: Apache-2.0
/*
 * import_nginx_key.c - what a zone counts by: variables as attributes, and geo and map blocks as the part of `when` that
 * says whose key is empty, since nginx does not limit an empty key.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rule/address.h"
#include "rule/entry.h"
#include "rule/import_nginx.h"

/* Networks and words of one geo or map: each is compared with each. */
#define AREAS_MAX 4096

/* ---- Sets with parts taken out ---------------------------------------------------------------------------------------- */

static void add_areas(struct import *import, const struct area *areas, size_t count, unsigned changes,
                      struct text *out)
{
    struct slice *patterns = REGION_NEW(import->region, struct slice, count + 1);
    size_t chosen = 0;
    for (size_t i = 0; patterns != NULL && i < count; i++) {
        unsigned above = areas[i].parent == AREA_NONE ? 0 : areas[areas[i].parent].changes;
        if (areas[i].changes == changes && above != changes)
            patterns[chosen++] = areas[i].pattern;
    }
    import_add_patterns(out, patterns, patterns == NULL ? 0 : chosen);
}

bool areas_add(struct import *import, struct area *areas, size_t count, bool is_root_met, struct text *out)
{
    unsigned most = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_top = areas[i].parent == AREA_NONE;
        bool is_met_above = is_top ? is_root_met : areas[areas[i].parent].is_met;
        areas[i].changes = (is_top ? 0 : areas[areas[i].parent].changes) + (areas[i].is_met != is_met_above);
        most = areas[i].changes > most ? areas[i].changes : most;
    }
    if (is_root_met ? most > 1 : most > 2)
        return false;
    if (is_root_met && most == 1) {
        text_put(out, "{ not: ");
        add_areas(import, areas, count, 1, out);
        text_put(out, " }");
    } else if (!is_root_met && most > 0) {
        text_put(out, most == 2 ? "{ in: " : "");
        add_areas(import, areas, count, 1, out);
        text_put(out, most == 2 ? ", not: " : "");
        if (most == 2)
            add_areas(import, areas, count, 2, out);
        text_put(out, most == 2 ? " }" : "");
    }
    return true;
}

/* ---- Variables -------------------------------------------------------------------------------------------------------- */

static bool is_variable_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The variable at the front of `text` ($name or ${name}), without its sign; *rest is what follows. */
static struct slice take_variable(struct slice text, struct slice *rest)
{
    size_t at = 1;
    bool is_braced = text.len > 1 && text.at[1] == '{';
    at += is_braced;
    size_t begin = at;
    while (at < text.len && is_variable_byte(text.at[at]))
        at++;
    struct slice name = { text.at + begin, at - begin };
    at += is_braced && at < text.len && text.at[at] == '}';
    *rest = (struct slice){ text.at + at, text.len - at };
    return name;
}

/* The only variable that the text is; nothing when it is more or less. */
static struct slice only_variable(struct slice text)
{
    struct slice rest = { "", 0 };
    struct slice name = { "", 0 };
    if (text.len > 1 && text.at[0] == '$')
        name = take_variable(text, &rest);
    return rest.len == 0 ? name : (struct slice){ "", 0 };
}

static bool begins(struct slice text, const char *with)
{
    size_t len = strlen(with);
    return text.len > len && memcmp(text.at, with, len) == 0;
}

static void add_identity(struct nginx_identity *identity, struct slice attribute, struct slice source)
{
    for (unsigned i = 0; i < identity->count; i++)
        if (slice_equals(identity->rows[i].attribute, attribute))
            return;
    if (attribute.at != NULL && source.at != NULL
        && identity->count < sizeof identity->rows / sizeof *identity->rows) {
        identity->rows[identity->count].attribute = attribute;
        identity->rows[identity->count++].source = source;
    }
}

/* $http_x_api_key is the header x-api-key, $cookie_NAME and $arg_NAME are taken by their names. */
static struct slice carried_attribute(struct import *import, struct slice variable,
                                      struct nginx_identity *identity)
{
    static const struct {
        const char *prefix, *source, *attribute;
    } rows[] = { { "http_", "header:", "header-" },
                 { "cookie_", "cookie:", "cookie-" },
                 { "arg_", "query:", "query-" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t skip = strlen(rows[i].prefix);
        if (!begins(variable, rows[i].prefix))
            continue;
        struct slice name = { variable.at + skip, variable.len - skip };
        struct text attribute = { .region = import->region }, source = { .region = import->region };
        struct slice plain = import_attribute_name(import, name, WEIR_ATTRIBUTE_NAME_MAX);
        if (i > 0 || entry_is_builtin(plain)) {
            text_put(&attribute, rows[i].attribute);
            text_add(&attribute, import_attribute_name(import, name, WEIR_ATTRIBUTE_NAME_MAX - 7));
        } else {
            text_add(&attribute, plain);
        }
        text_put(&source, rows[i].source);
        for (size_t c = 0; c < name.len; c++)
            text_add(&source, i == 0 && name.at[c] == '_' ? SLICE("-") : (struct slice){ name.at + c, 1 });
        struct slice found = { attribute.at, attribute.len };
        add_identity(identity, found, (struct slice){ source.at, source.len });
        return found;
    }
    return (struct slice){ "", 0 };
}

/* What a variable is called here; empty when there is no such thing. */
static struct slice attribute_of(struct import *import, struct slice variable, struct nginx_identity *identity)
{
    static const struct {
        const char *variable, *attribute;
    } rows[] = {
        { "binary_remote_addr", "ip" },
        { "remote_addr", "ip" },
        { "host", "host" },
        { "request_method", "method" },
        { "uri", "path" },
        { "document_uri", "path" },
        { "args", "query" },
        { "query_string", "query" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (slice_equals(variable, slice_of(rows[i].variable))) {
            struct slice attribute = slice_of(rows[i].attribute);
            identity->has_ip = identity->has_ip || slice_equals(attribute, SLICE("ip"));
            return attribute;
        }
    return carried_attribute(import, variable, identity);
}

/* ---- geo and map -------------------------------------------------------------------------------------------------------- */

/* The block of http that defines the variable. */
static const struct directive *definition_of(const struct directive *http, struct slice variable)
{
    for (const struct directive *it = http->children; variable.len > 0 && it != NULL; it = it->next)
        if (it->has_block && it->count > 1 && (directive_is(it, "map") || directive_is(it, "geo"))
            && slice_equals(only_variable(it->words[it->count - 1].text), variable))
            return it;
    return NULL;
}

/* One line of a geo: a network (of IPv4 or IPv6) and its value. */
struct geo_line {
    struct network network;
    bool is_ipv4;
    struct slice value;
    const struct directive *at;
};

static int compare_lines(const void *x, const void *y)
{
    const struct geo_line *a = x, *b = y;
    return (a->network.length > b->network.length) - (a->network.length < b->network.length);
}

static bool refuse(struct import *import, const struct directive *at, const char *cure, const char *problem)
{
    struct shown word;
    NGINX_ERROR(import, at, cure, "%s %s", shown(at->words[0].text, &word), problem);
    return false;
}

/* Lines in order of their lengths; those of all addresses become the default. False: reported. */
static bool read_geo(struct import *import, const struct directive *geo, struct geo_line **out, size_t *count,
                     struct slice *otherwise)
{
    static const char *const unknown[] = { "ranges", "delete", "proxy", "proxy_recursive" };
    struct geo_line *lines = REGION_NEW(import->region, struct geo_line, AREAS_MAX);
    *count = 0;
    *otherwise = (struct slice){ "", 0 };
    struct slice address = geo->count > 2 ? only_variable(geo->words[1].text) : SLICE("remote_addr");
    if (!slice_equals(address, SLICE("remote_addr")))
        return refuse(import, geo, "write geo of $remote_addr", "looks at another address than the client's");
    for (const struct directive *line = geo->children; lines != NULL && line != NULL; line = line->next) {
        struct geo_line *next = &lines[*count];
        for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
            if (directive_is(line, unknown[i]))
                return refuse(import, line, "write networks with their values",
                              "in a geo block has no counterpart here");
        if (directive_is(line, "include"))
            continue;
        if (directive_is(line, "default")) {
            *otherwise = directive_word(line, 1);
            continue;
        }
        if (network_parse(line->words[0].text, &next->network) != NETWORK_OK)
            return refuse(import, line, "write a network such as 10.0.0.0/8", "is no network");
        if (*count + 1 == AREAS_MAX)
            return refuse(import, line, "use fewer networks", "is one network too many: 4095 can be read");
        next->value = directive_word(line, 1);
        next->at = line;
        next->is_ipv4 = address_is_ipv4(&next->network.address) && next->network.length >= 96;
        ++*count;
    }
    *out = lines;
    if (lines == NULL)
        return false;
    qsort(lines, *count, sizeof *lines, compare_lines);
    return true;
}

/* What a value of the map's source becomes. */
static struct slice map_value(const struct directive *map, struct slice value)
{
    struct slice otherwise = { "", 0 };
    for (const struct directive *line = map->children; line != NULL; line = line->next) {
        if (slice_equals_fold(line->words[0].text, value))
            return directive_word(line, 1);
        if (directive_is(line, "default"))
            otherwise = directive_word(line, 1);
    }
    return otherwise;
}

/* Lines of a map that compare in other ways than word by word. False: reported. */
static bool check_map(struct import *import, const struct directive *map)
{
    size_t count = 0;
    for (const struct directive *line = map->children; line != NULL; line = line->next) {
        if (directive_is(line, "hostnames") || line->words[0].text.at[0] == '~')
            return refuse(import, line, "write the values out",
                          "in a map compares by pattern, which is not read");
        if (++count >= AREAS_MAX)
            return refuse(import, line, "use fewer lines", "is one line too many: 4095 can be read");
    }
    return true;
}

/* The one value that is not empty, of those that a key can take; false when there are two (reported). */
static bool merge_value(struct import *import, const struct directive *at, struct slice value,
                        struct slice *only)
{
    if (value.len == 0)
        return true;
    if (only->len > 0 && !slice_equals(*only, value))
        return refuse(import, at, "use a zone of its own for each", "gives the key a second form");
    *only = value;
    return true;
}

/* The key by address: networks whose key is empty are not limited. */
static bool resolve_geo(struct import *import, const struct directive *geo, const struct directive *map,
                        struct slice *only, struct text *when)
{
    struct geo_line *lines;
    struct slice otherwise;
    size_t count;
    if (!read_geo(import, geo, &lines, &count, &otherwise))
        return false;
    struct area *areas = REGION_NEW(import->region, struct area, count + 1);
    if (areas == NULL)
        return false;
    struct slice value = map == NULL ? otherwise : map_value(map, otherwise);
    bool is_root_met = value.len > 0;
    if (!merge_value(import, geo, value, only))
        return false;
    for (size_t i = 0; i < count; i++) {
        char text[ADDRESS_TEXT_MAX];
        size_t len = network_format(&lines[i].network, text);
        value = map == NULL ? lines[i].value : map_value(map, lines[i].value);
        if (!merge_value(import, lines[i].at, value, only))
            return false;
        areas[i] = (struct area){ region_copy(import->region, (struct slice){ text, len }), AREA_NONE,
                                  value.len > 0, 0 };
        for (uint32_t j = 0; j < i; j++)
            if (lines[j].is_ipv4 == lines[i].is_ipv4
                && network_contains(&lines[j].network, &lines[i].network.address))
                areas[i].parent = j;
    }
    struct text condition = { .region = import->region };
    if (!areas_add(import, areas, count, is_root_met, &condition))
        return refuse(import, geo,
                      "list the networks so that none lies in a part that was taken out of another",
                      "takes out a part and puts a part of it back, which `when` cannot say");
    if (condition.len > 0) {
        text_put(when, "ip: ");
        text_add(when, (struct slice){ condition.at, condition.len });
    }
    return true;
}

/*
 * `attribute: ...` for the values that are met: all or none of them but for what `condition` says, and those without
 * one. False: reported.
 */
static bool add_words(struct import *import, const struct directive *map, struct slice attribute,
                      bool is_root_met, bool is_absent_met, struct slice condition, struct text *when)
{
    if (!is_root_met && is_absent_met && condition.len > 0)
        return refuse(import, map, "use a zone of its own for requests without it",
                      "limits some values and requests without one, which `when` cannot say at once");
    if (condition.len == 0 && is_root_met == is_absent_met)
        return true; /* everything, or nothing: then there is no key either */
    text_add(when, attribute);
    text_put(when, ": ");
    if (condition.len == 0) {
        text_put(when, is_absent_met ? "absent" : "present");
    } else if (is_root_met && !is_absent_met) {
        text_put(when, "{ in: present, ");
        text_add(when, (struct slice){ condition.at + 2, condition.len - 2 }); /* behind its "{ " */
    } else {
        text_add(when, condition); /* a `not` holds without a value too */
    }
    return true;
}

/* The key by the value of an attribute. */
static bool resolve_words(struct import *import, const struct directive *map, struct slice attribute,
                          struct slice *only, struct nginx_key *key, struct text *when)
{
    struct area *areas = REGION_NEW(import->region, struct area, AREAS_MAX);
    bool is_root_met = false, is_absent_met = false, has_absent = false;
    size_t count = 0;
    for (const struct directive *line = map->children; areas != NULL && line != NULL; line = line->next) {
        struct slice word = line->words[0].text;
        bool is_met = directive_word(line, 1).len > 0;
        if (directive_is(line, "volatile") || directive_is(line, "include"))
            continue;
        if (!merge_value(import, line, directive_word(line, 1), only))
            return false;
        for (size_t i = 0; i < word.len; i++)
            key->ignores_case = key->ignores_case
                                || (!directive_is(line, "default") && ascii_lower(word.at[i]) >= 'a'
                                    && ascii_lower(word.at[i]) <= 'z');
        if (directive_is(line, "default")) {
            is_root_met = is_met;
        } else if (word.len == 0) {
            has_absent = true;
            is_absent_met = is_met;
        } else {
            areas[count++] = (struct area){ import_pattern(import, word, false), AREA_NONE, is_met, 0 };
        }
    }
    is_absent_met = has_absent ? is_absent_met : is_root_met;
    struct text condition = { .region = import->region };
    if (areas == NULL || !areas_add(import, areas, count, is_root_met, &condition))
        return false;
    return add_words(import, map, attribute, is_root_met, is_absent_met,
                     (struct slice){ condition.at, condition.len }, when);
}

/* The zone's key is a variable of a map or geo: *only becomes its text where it is not empty. */
static bool resolve(struct import *import, const struct directive *http, const struct directive *definition,
                    struct nginx_identity *identity, struct nginx_key *key, struct slice *only)
{
    struct text when = { .region = import->region };
    bool is_known;
    *only = (struct slice){ "", 0 };
    if (directive_is(definition, "geo")) {
        identity->has_ip = true;
        is_known = resolve_geo(import, definition, NULL, only, &when);
    } else {
        struct slice source = only_variable(directive_word(definition, 1));
        const struct directive *inner = definition_of(http, source);
        struct slice attribute = inner == NULL ? attribute_of(import, source, identity) : source;
        if (!check_map(import, definition))
            return false;
        if (inner != NULL && directive_is(inner, "geo")) {
            identity->has_ip = true;
            is_known = resolve_geo(import, inner, definition, only, &when);
        } else if (inner != NULL || attribute.len == 0 || slice_equals(attribute, SLICE("ip"))
                   || slice_equals(attribute, SLICE("path"))) {
            return refuse(import, definition,
                          "map a geo variable, or a header, cookie, argument, host or method",
                          "maps something that is not read here");
        } else {
            is_known = resolve_words(import, definition, attribute, only, key, &when);
        }
    }
    key->when = (struct slice){ when.at == NULL ? "" : when.at, when.len };
    if (is_known && only->len == 0)
        return refuse(import, definition, "remove the zone",
                      "gives an empty key always, so nothing is limited");
    return is_known;
}

/* ---- The key ------------------------------------------------------------------------------------------------------------ */

static bool add_attribute(struct import *import, const struct directive *zone, struct slice variable,
                          struct nginx_identity *identity, struct nginx_key *key)
{
    struct shown name;
    if (slice_equals(variable, SLICE("server_name"))) {
        key->is_per_server = true;
        return true;
    }
    struct slice attribute = attribute_of(import, variable, identity);
    if (attribute.len == 0) {
        NGINX_ERROR(import, zone, "use an address, a header, a cookie, an argument, host, method or uri",
                    "a zone counts by $%s, of which nothing is known here", shown(variable, &name));
        return false;
    }
    for (unsigned i = 0; i < key->count; i++)
        if (slice_equals(key->attributes[i], attribute))
            return true;
    if (key->count == NGINX_KEY_MAX) {
        NGINX_ERROR(import, zone, "use fewer", "a zone counts by more than %d variables", NGINX_KEY_MAX);
        return false;
    }
    key->attributes[key->count++] = attribute;
    return true;
}

bool nginx_key_read(struct import *import, const struct directive *http, const struct directive *zone,
                    struct nginx_identity *identity, struct nginx_key *out)
{
    struct slice text = directive_word(zone, 1);
    const struct directive *definition = definition_of(http, only_variable(text));
    *out = (struct nginx_key){ .when = { "", 0 } };
    if (definition != NULL && !resolve(import, http, definition, identity, out, &text))
        return false;
    while (text.len > 0) {
        struct slice rest = { text.at + 1, text.len - 1 };
        if (text.at[0] == '$') {
            struct slice variable = take_variable(text, &rest);
            if (!add_attribute(import, zone, variable, identity, out))
                return false;
        } else
            out->has_constant = true; /* the same in every key */
        text = rest;
    }
    return true;
}
