// SPDX-License-Identifier: Apache-2.0
/* schema_identity.c - `identity`: where attributes come from at the HTTP doors, and who may say so. */
#include <stdio.h>

#include "rule/contract.h"

#define SOURCE_FORMS \
    "write peer, x-forwarded-for, forwarded, \"header:NAME\", \"cookie:NAME\", \"query:NAME\" or " \
    "\"certificate:subject\""

/* ---- Sources ------------------------------------------------------------------------------------------------------- */

static const struct source_row {
    const char *word;
    enum identity_kind kind;
    bool has_name;
    bool gives_ip, gives_others;
} source_rows[] = {
    { "peer", IDENTITY_PEER, false, true, false },
    { "x-forwarded-for", IDENTITY_X_FORWARDED_FOR, false, true, false },
    { "forwarded", IDENTITY_FORWARDED, false, true, false },
    { "header:", IDENTITY_HEADER, true, true, true },
    { "cookie:", IDENTITY_COOKIE, true, false, true },
    { "query:", IDENTITY_QUERY, true, false, true },
    { "certificate:subject", IDENTITY_CERTIFICATE, false, false, true },
};

/* The bytes of a field name (RFC 9110 5.6.2); cookies and query parameters take what has no separator in it. */
static bool is_name_byte(enum identity_kind kind, char c)
{
    if (kind == IDENTITY_HEADER)
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
               || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
    return c > 0x20 && c < 0x7f && strchr("=;,&\"", c) == NULL;
}

static const char *name_problem(enum identity_kind kind, struct slice name)
{
    if (name.len == 0)
        return "has no name behind the colon";
    if (name.len > 64)
        return "has a name above 64 bytes";
    for (size_t i = 0; i < name.len; i++)
        if (!is_name_byte(kind, name.at[i]))
            return "has a byte that such a name cannot have";
    return NULL;
}

static const struct source_row *find_source(struct slice text)
{
    for (size_t i = 0; i < sizeof source_rows / sizeof *source_rows; i++) {
        struct slice word = slice_of(source_rows[i].word);
        bool begins = text.len >= word.len && memcmp(text.at, word.at, word.len) == 0;
        if (begins && (source_rows[i].has_name || text.len == word.len))
            return &source_rows[i];
    }
    return NULL;
}

/* What is being read: one attribute of `identity`. */
struct reading {
    struct identity_source source;
    struct grouping grouping;
    bool is_ip, has_source;
};

static void parse_source(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct reading *reading = into;
    const char *problem = node_scalar_problem(value);
    const struct source_row *row = problem == NULL ? find_source(value->text) : NULL;
    struct slice name = { NULL, 0 };
    if (value->kind == NODE_BAD)
        return;
    if (problem == NULL && row == NULL)
        problem = "is no source";
    if (problem == NULL && row->has_name) {
        size_t skip = strlen(row->word);
        name = (struct slice){ value->text.at + skip, value->text.len - skip };
        problem = name_problem(row->kind, name);
    }
    if (problem == NULL && reading->is_ip && !row->gives_ip)
        problem = "would let every client choose its address";
    if (problem == NULL && !reading->is_ip && !row->gives_others)
        problem = "gives an address, which is the attribute ip";
    if (problem != NULL) {
        schema_error(load, field->name, value, SOURCE_FORMS, "%s", problem);
        return;
    }
    reading->source.kind = row->kind;
    reading->source.name = name.len == 0 ? name : region_copy(load->region, name);
    reading->has_source = true;
}

/* ---- Grouping -------------------------------------------------------------------------------------------------------- */

struct group_reading {
    uint64_t ipv4, ipv6;
};

static const struct field group_fields[] = {
    { "ipv4", parse_integer, "integer", offsetof(struct group_reading, ipv4), .min = 1, .max = 32,
      .fallback = "32", .sentence = "how many leading bits of an IPv4 address name a client" },
    { "ipv6", parse_integer, "integer", offsetof(struct group_reading, ipv6), .min = 1, .max = 128,
      .fallback = "64", .sentence = "how many leading bits of an IPv6 address name a client" },
};

static void parse_group(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct reading *reading = into;
    const struct node *given[2];
    struct group_reading group = { GROUPING_DEFAULT.ipv4, GROUPING_DEFAULT.ipv6 };
    if (!reading->is_ip && value->kind != NODE_BAD)
        schema_error(load, field->name, value, "remove it", "means nothing but for ip");
    else if (schema_read(load, value, field->name, group_fields, 2, &group, given))
        reading->grouping = (struct grouping){ (unsigned)group.ipv4, (unsigned)group.ipv6 };
}

/* ---- One attribute --------------------------------------------------------------------------------------------------- */

static void parse_only(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct reading *reading = into;
    if (node_scalar_problem(value) != NULL || !slice_equals(value->text, SLICE("authenticated"))) {
        if (value->kind != NODE_BAD)
            schema_error(load, field->name, value, "write `only: authenticated`, or leave it out",
                         "is not the word authenticated");
    } else if (reading->is_ip) {
        schema_error(load, field->name, value, "remove it: forwarding headers are believed from `proxies` only",
                     "means nothing for ip");
    } else {
        reading->source.only_authenticated = true;
    }
}

static void parse_digest(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct reading *reading = into;
    struct field as_flag = *field;
    bool is_digest = false;
    as_flag.offset = 0;
    parse_boolean(load, &as_flag, value, &is_digest);
    if (is_digest && reading->is_ip)
        schema_error(load, field->name, value, "remove it",
                     "means nothing for ip: an address must stay readable");
    reading->source.is_digest = is_digest;
}

static const struct field source_fields[] = {
    { "from", parse_source, "source", 0, .fallback = "peer, for ip alone", .sentence = SOURCE_FORMS },
    { "only", parse_only, "authenticated", 0, .sentence = "from whom it is believed" },
    { "digest", parse_digest, "boolean", 0, .fallback = "false",
      .sentence = "whether its hash is used in its place, as for secrets" },
    { "group", parse_group, "map", 0, .fallback = "{ ipv4: 32, ipv6: 64 }",
      .sentence = "how many leading bits of an address name a client" },
};
#define SOURCE_FIELDS (sizeof source_fields / sizeof *source_fields)

/* Attributes that come from the request line and the door, whatever a contract says. */
static bool is_from_request(struct slice name)
{
    return slice_equals(name, SLICE("method")) || slice_equals(name, SLICE("host"))
           || slice_equals(name, SLICE("path")) || slice_equals(name, SLICE("query"));
}

static bool check_attribute(struct load *load, const struct node *name)
{
    const char *cure = "a name is 1 to 32 of a-z, 0-9 and '-', and begins with a letter";
    if (!attribute_name_is_valid(name->text)) {
        schema_error(load, "name", name, cure, "is not the name of an attribute");
        return false;
    }
    if (is_from_request(name->text)) {
        schema_error(load, "attribute", name, "remove it; it is always there",
                     "comes from the request itself and cannot be set here");
        return false;
    }
    return true;
}

static void read_attribute(struct load *load, struct rules *rules, const struct node *key)
{
    const struct node *given[SOURCE_FIELDS];
    struct reading reading = { .grouping = GROUPING_DEFAULT, .is_ip = slice_equals(key->text, SLICE("ip")) };
    if (key->kind != NODE_SCALAR || !check_attribute(load, key))
        return;

    load->owner = (struct owner){ .what = "identity", .name = key->text };
    if (key->next->kind == NODE_MAP) {
        bool is_read = schema_read(load, key->next, "source", source_fields, SOURCE_FIELDS, &reading, given);
        if (is_read && given[0] == NULL && !reading.is_ip)
            schema_missing(load, key, &source_fields[0]);
        reading.has_source = reading.has_source || (reading.is_ip && given[0] == NULL); /* then the peer */
    } else {
        parse_source(load, &source_fields[0], key->next, &reading);
    }
    load->owner = (struct owner){ .what = "identity" };
    if (!reading.has_source)
        return;
    reading.source.attribute = region_copy(load->region, key->text).at;
    if (reading.is_ip)
        rules->grouping = reading.grouping;
    if (rules->source_count < WEIR_ATTRIBUTES_MAX)
        rules->sources[rules->source_count++] = reading.source;
}

/* ---- proxies --------------------------------------------------------------------------------------------------------- */

static void read_proxies(struct load *load, struct rules *rules, const struct node *value)
{
    const char *cure = "write a list such as [127.0.0.0/8, \"::1\"]";
    if (!schema_is_list(load, "proxies", value, cure))
        return;
    struct network *networks = REGION_NEW(load->region, struct network, value->count + 1);
    if (networks == NULL)
        return;
    for (const struct node *node = value->first; node != NULL; node = node->next) {
        const char *problem = node_scalar_problem(node);
        enum network_error error = NETWORK_OK;
        if (node->kind == NODE_BAD)
            continue;
        if (problem == NULL)
            error = network_parse(node->text, &networks[rules->identity.proxy_count]);
        if (problem == NULL && error == NETWORK_OK)
            rules->identity.proxy_count++;
        else
            schema_error(load, "proxies", node, cure, "%s",
                         problem != NULL ? problem : network_error_text(error));
    }
    rules->identity.proxies = networks;
}

static void warn_unbelieved(struct load *load, const struct rules *rules, const struct node *map)
{
    for (size_t i = 0; i < rules->source_count; i++) {
        const struct identity_source *source = &rules->sources[i];
        if (rules->identity.proxy_count == 0 && slice_equals(slice_of(source->attribute), SLICE("ip"))
            && source->kind != IDENTITY_PEER)
            diagnostics_add(
                load->diagnostics, WEIR_SEVERITY_WARNING, map->place,
                "list the proxies: `proxies: [127.0.0.0/8]`",
                "ip comes from a forwarding header, but `proxies` names nobody whose headers are believed");
    }
}

/* ---- The map --------------------------------------------------------------------------------------------------------- */

/* identity.h keeps six places for the built-in attributes. */
#define SOURCES_MAX (WEIR_ATTRIBUTES_MAX - 6)

void parse_identity(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rules *rules = into;
    if (value->kind != NODE_MAP) {
        if (value->kind != NODE_BAD)
            schema_error(load, field->name, value,
                         "write `identity: { ip: peer, tenant: \"header:x-tenant\" }`",
                         "is %s, not a map of attributes", node_what(value));
        return;
    }
    rules->sources = REGION_NEW(load->region, struct identity_source, WEIR_ATTRIBUTES_MAX);
    if (rules->sources == NULL)
        return;
    load->owner = (struct owner){ .what = "identity" };
    for (const struct node *key = value->first; key != NULL; key = key->next->next)
        if (slice_equals(key->text, SLICE("proxies")))
            read_proxies(load, rules, key->next);
        else
            read_attribute(load, rules, key);
    load->owner = (struct owner){ 0 };
    if (rules->source_count > SOURCES_MAX)
        schema_error(load, field->name, value, "leave out what no limit reads", "has more than %d attributes",
                     SOURCES_MAX);
    warn_unbelieved(load, rules, value);
}
