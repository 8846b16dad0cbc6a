// SPDX-License-Identifier: Apache-2.0
/*
 * import_ratelimit.c - a tree of descriptors as a list of limits.
 *
 * A descriptor is asked about as the attributes `domain`, `descriptor` (the keys of its entries in order, so that a longer
 * or a shorter one meets other limits) and one attribute per entry. What the tree decides by looking into an exact value
 * before a wildcard and into a wildcard before no value, a limit says itself: it is not for the values of the siblings
 * before it. Windows begin at multiples of the unit since 1970, there and here.
 */
#include "rule/import_ratelimit.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "rule/glob.h"

/* Wildcards of one key at one level: each says what it leaves to those before it. */
#define WILDCARDS_MAX 256

/* Pairs of a rule and one that it replaces. */
#define REPLACEMENTS_MAX 65536

/* ---- What a node says of its entry ------------------------------------------------------------------------------------ */

static bool is_rival(const struct ratelimit_node *node, const struct ratelimit_node *other)
{
    return other != node && other->value.len > 0 && slice_equals(other->key, node->key);
}

/* Whether a rival takes values that `node` would take, before it does. */
static bool goes_before(const struct ratelimit_node *node, const struct ratelimit_node *rival)
{
    return node->value.len == 0
           || (rival->is_wild ? rival < node : glob_match(node->pattern, rival->value, GLOB_TEXT));
}

/* Patterns of the siblings that take a value before `node` does. Counted first: levels are long, and most nodes have none. */
static struct slice *collect_before(struct import *import, const struct ratelimit_domain *domain,
                                    const struct ratelimit_node *node, size_t *count)
{
    const struct ratelimit_node *level = &domain->nodes[node->level_first];
    size_t wanted = 0, wildcards = 0;
    *count = 0;
    for (uint32_t i = 0; i < node->level_count; i++) {
        if (!is_rival(node, &level[i]))
            continue;
        wildcards += level[i].is_wild;
        wanted += goes_before(node, &level[i]);
    }
    if (node->is_wild && wildcards >= WILDCARDS_MAX) {
        IMPORT_ERROR(import, node->yaml->place, "use fewer",
                     "more than %d wildcards of one key beside each other", WILDCARDS_MAX);
        return NULL;
    }
    struct slice *before = REGION_NEW(import->region, struct slice, wanted + 1);
    for (uint32_t i = 0; before != NULL && *count < wanted; i++)
        if (is_rival(node, &level[i]) && goes_before(node, &level[i]))
            before[(*count)++] =
                level[i].is_wild ? level[i].pattern : import_pattern(import, level[i].value, false);
    return before;
}

/* `attribute: PATTERN`, made once: thousands of children may share a parent. */
static struct slice condition_of(struct import *import, const struct ratelimit_domain *domain,
                                 struct ratelimit_node *node)
{
    if (node->condition.at != NULL)
        return node->condition;
    struct text text = { .region = import->region };
    size_t count = 0;
    struct slice *before = NULL;
    if (node->is_wild || node->value.len == 0)
        before = collect_before(import, domain, node, &count);
    if (node->value.len > 0 || count > 0) {
        text_add(&text, node->attribute);
        text_put(&text, ": ");
    }
    if (count > 0)
        text_put(&text, node->value.len > 0 ? "{ in: " : "{ ");
    if (node->value.len > 0)
        import_add_pattern(&text, node->pattern);
    if (count > 0) {
        text_put(&text, node->value.len > 0 ? ", not: " : "not: ");
        import_add_patterns(&text, before, count);
        text_put(&text, " }");
    }
    node->condition = (struct slice){ text.at == NULL ? "" : text.at, text.len };
    return node->condition;
}

/* ---- replaces --------------------------------------------------------------------------------------------------------- */

struct named {
    struct slice name;
    uint32_t node;
};

static int compare_named(const void *x, const void *y)
{
    const struct named *a = x, *b = y;
    int order = strcmp(a->name.at, b->name.at);
    return order != 0 ? order : (a->node > b->node) - (a->node < b->node);
}

static bool has_entry(const struct ratelimit_domain *domain, uint32_t node, struct slice attribute)
{
    for (; node != RATELIMIT_NONE; node = domain->nodes[node].parent)
        if (slice_equals(domain->nodes[node].attribute, attribute))
            return true;
    return false;
}

/* Why the rule cannot take `target`'s place here, or NULL. */
static const char *why_not(struct import *import, const struct ratelimit_domain *domain,
                           const struct ratelimit_node *by, uint32_t target)
{
    size_t before = 0;
    if (by->depth > 1)
        return "a rule below the first level: whether it applies takes several attributes, and `when` could "
               "only "
               "exclude each of them";
    if (has_entry(domain, target, by->attribute))
        return "a rule of the same key: a request has one value of it here";
    if (by->is_wild || by->value.len == 0)
        (void)collect_before(import, domain, by, &before);
    return before > 0 ? "a rule that applies to some values only because others are taken before it" : NULL;
}

static void replace(struct import *import, struct ratelimit_domain *domain, uint32_t by, uint32_t target,
                    const struct node *place)
{
    const struct ratelimit_node *rule = &domain->nodes[by];
    struct shown name;
    const char *why = why_not(import, domain, rule, target);
    if (why != NULL) {
        IMPORT_ERROR(
            import, place->place,
            "remove `replaces`, and have whoever makes the descriptors send only the one that is meant",
            "'%s' is replaced by %s", shown(slice_of(domain->nodes[target].name), &name), why);
        return;
    }
    struct replacement *more = REGION_NEW(import->region, struct replacement, 1);
    if (more == NULL)
        return;
    *more = (struct replacement){ domain->nodes[target].replacements, rule->attribute,
                                  rule->value.len > 0 ? rule->pattern : rule->value };
    domain->nodes[target].replacements = more;
}

static void resolve_replaces(struct import *import, struct ratelimit_domain *domain)
{
    struct named *names = REGION_NEW(import->region, struct named, domain->count + 1);
    size_t count = 0, pairs = 0;
    for (uint32_t i = 0; names != NULL && i < domain->count; i++)
        if (domain->nodes[i].name != NULL)
            names[count++] = (struct named){ slice_of(domain->nodes[i].name), i };
    if (count == 0)
        return;
    qsort(names, count, sizeof *names, compare_named);
    for (uint32_t i = 0; i < domain->count; i++) {
        const struct node *list = domain->nodes[i].replaces;
        for (const struct node *member = list == NULL ? NULL : list->first; member != NULL;
             member = member->next) {
            const struct node *name = node_value(member, "name");
            size_t low = 0, high = count;
            while (name != NULL && name->kind == NODE_SCALAR && low < high) {
                size_t middle = (low + high) / 2;
                if (strcmp(names[middle].name.at, name->text.at) < 0)
                    low = middle + 1;
                else
                    high = middle;
            }
            for (; name != NULL && name->kind == NODE_SCALAR && low < count
                   && strcmp(names[low].name.at, name->text.at) == 0 && ++pairs <= REPLACEMENTS_MAX;
                 low++)
                if (names[low].node != i)
                    replace(import, domain, i, names[low].node, name);
        }
    }
    if (pairs > REPLACEMENTS_MAX)
        IMPORT_ERROR(import, domain->root->place, "use fewer", "more than %d replacements", REPLACEMENTS_MAX);
}

/* ` attribute: { not: [...] }` for each attribute by which the limit is replaced; any value at all: absent. */
static void add_replacements(struct import *import, struct text *text, struct replacement *list)
{
    for (struct replacement *first = list; first != NULL; first = first->next) {
        bool is_seen = false, is_any = false;
        size_t count = 0;
        for (const struct replacement *other = list; other != first; other = other->next)
            is_seen = is_seen || slice_equals(other->attribute, first->attribute);
        if (is_seen)
            continue;
        for (const struct replacement *other = first; other != NULL; other = other->next)
            count += slice_equals(other->attribute, first->attribute);
        struct slice *patterns = REGION_NEW(import->region, struct slice, count);
        count = 0;
        for (const struct replacement *other = first; patterns != NULL && other != NULL; other = other->next)
            if (slice_equals(other->attribute, first->attribute)) {
                is_any = is_any || other->pattern.len == 0;
                patterns[count++] = other->pattern;
            }
        text_put(text, ", ");
        text_add(text, first->attribute);
        text_put(text, is_any ? ": absent" : ": { not: ");
        if (!is_any) {
            import_add_patterns(text, patterns, count);
            text_put(text, " }");
        }
    }
}

/* ---- One limit ---------------------------------------------------------------------------------------------------------- */

static unsigned way_to(const struct ratelimit_domain *domain, uint32_t node, uint32_t way[RATELIMIT_DEPTH_MAX])
{
    unsigned depth = domain->nodes[node].depth, at = depth;
    for (; node != RATELIMIT_NONE; node = domain->nodes[node].parent)
        way[--at] = node;
    return depth;
}

static void comment(struct import *import, struct text *text, const char *before, struct slice what,
                    const char *behind)
{
    text_put(text, before);
    text_add(text, import_comment(import, what));
    text_put(text, behind);
    text_put(text, "\n");
}

static void add_when(struct import *import, struct text *text, struct ratelimit_domain *domain, uint32_t node)
{
    uint32_t way[RATELIMIT_DEPTH_MAX] = { 0 };
    unsigned depth = way_to(domain, node, way);
    struct text keys = { .region = import->region };
    for (unsigned i = 0; i < depth; i++) {
        text_put(&keys, i == 0 ? "" : ",");
        text_add(&keys, domain->nodes[way[i]].key);
    }
    if (keys.len > WEIR_ATTRIBUTE_MAX)
        IMPORT_ERROR(import, domain->nodes[node].yaml->place, "shorten the keys",
                     "the keys of this descriptor are longer than 1024 bytes together");
    text_put(text, "    when: { domain: ");
    import_add_pattern(text, import_pattern(import, domain->name, false));
    text_put(text, ", descriptor: ");
    import_add_pattern(text, import_pattern(import, (struct slice){ keys.at, keys.len }, false));
    for (unsigned i = 0; i < depth; i++) {
        struct slice condition = condition_of(import, domain, &domain->nodes[way[i]]);
        text_put(text, condition.len > 0 ? ", " : "");
        text_add(text, condition);
    }
    add_replacements(import, text, domain->nodes[node].replacements);
    text_put(text, " }\n");
}

/* Counted by each entry whose value is not fixed. An empty value is a value there, and absent here: hence `share`. */
static void add_key(struct text *text, const struct ratelimit_domain *domain, uint32_t node)
{
    uint32_t way[RATELIMIT_DEPTH_MAX] = { 0 };
    unsigned depth = way_to(domain, node, way), count = 0;
    bool may_be_empty = false;
    text_put(text, "    key: [");
    for (unsigned i = 0; i < depth; i++) {
        const struct ratelimit_node *step = &domain->nodes[way[i]];
        if (step->value.len > 0 && !(step->is_wild && !step->is_shared))
            continue;
        text_put(text, count++ == 0 ? "" : ", ");
        text_add(text, step->attribute);
        may_be_empty = may_be_empty || step->value.len == 0;
    }
    text_put(text, may_be_empty ? "]\n    missing-key: share\n" : "]\n");
}

/* What decides and answers as the service has to know beside the limit. */
static void add_about(struct import *import, struct text *text, const struct ratelimit_node *node)
{
    struct text about = { .region = import->region };
    text_put(&about, node->is_quota ? WEIR_IMPORT_QUOTA : "");
    text_put(&about, WEIR_IMPORT_NAME);
    text_put(&about, node->name == NULL ? "" : node->name);
    text_put(text, "    about: ");
    text_add_json(text, (struct slice){ about.at == NULL ? "" : about.at, about.len });
    text_put(text, "\n");
}

static const char *name_limit(struct import *import, struct slice wanted)
{
    struct text text = { .region = import->region };
    if (import->how == NULL || import->how->prefix == NULL)
        return import_limit_name(import, wanted);
    text_put(&text, import->how->prefix);
    text_add(&text, wanted);
    return import_limit_name(import, (struct slice){ text.at == NULL ? "" : text.at, text.len });
}

static void add_limit(struct import *import, struct ratelimit_domain *domain, uint32_t index)
{
    struct text *text = &import->out;
    struct ratelimit_node *node = &domain->nodes[index];
    struct slice path = ratelimit_path(import, domain, index);
    const struct ratelimit_unit *unit = &ratelimit_units[node->unit];
    const char *name = name_limit(import, node->name == NULL ? path : slice_of(node->name));
    const struct weir_import_ratelimit *how = import->how;
    import_mark(import, domain->file->source, node->yaml->place);
    text_put(text, "\n");
    comment(import, text, "  # ", path, "");
    if (unit->comment != NULL)
        comment(import, text, "  # A ", slice_of(unit->word), " is:");
    if (unit->comment != NULL)
        text_format(text, "  #   %s.\n", unit->comment);
    for (const struct replacement *by = node->replacements; by != NULL; by = by->next) {
        text_put(text, "  # Replaced where the request also has ");
        text_add(text, by->attribute);
        comment(import, text, by->pattern.len > 0 ? ": " : "", by->pattern, "");
    }
    if (node->is_quota)
        text_put(text, "  # quota_mode: as the only such rule of its domain it refuses like any other.\n");
    if (node->requests == 0)
        text_put(text, "  # Nothing passes, as there.\n");
    text_format(text, "  - name: %s\n", name == NULL ? "" : name);
    if (how != NULL && how->is_compatible)
        add_about(import, text, node);
    add_when(import, text, domain, index);
    add_key(text, domain, index);
    text_format(text, "    algorithm: fixed-window\n    rate: %llu/%s\n", (unsigned long long)node->requests,
                unit->rate);
    if (node->is_shadow)
        text_put(text, "    enforce: shadow\n");
    if (how != NULL && how->is_compatible)
        text_put(text, "    refused: charged\n");
    if (how != NULL && how->is_shared)
        text_put(text, "    scope: fleet\n    when-store-fails: closed\n");
}

/* ---- One domain ----------------------------------------------------------------------------------------------------------- */

struct placed {
    unsigned line, column;
    uint32_t node;
};

static int compare_placed(const void *x, const void *y)
{
    const struct placed *a = x, *b = y;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return (a->column > b->column) - (a->column < b->column);
}

/* A request may pass while one of its quota rules has room; limits here must all have room. */
static void check_quotas(struct import *import, const struct ratelimit_domain *domain)
{
    size_t count = 0;
    bool is_apart = import->how != NULL && import->how->is_compatible;
    for (size_t i = 0; !is_apart && i < domain->count; i++)
        count += domain->nodes[i].is_quota && domain->nodes[i].has_limit;
    for (size_t i = 0; count > 1 && i < domain->count; i++)
        if (domain->nodes[i].is_quota && domain->nodes[i].has_limit)
            IMPORT_ERROR(
                import, domain->nodes[i].yaml->place,
                "remove quota_mode where each of the limits is meant to hold",
                "quota_mode in more than one rule of a domain: there a request passes while any of them "
                "has room, here all must have");
}

static void add_domain(struct import *import, struct ratelimit_domain *domain)
{
    struct text *text = &import->out;
    struct placed *order = REGION_NEW(import->region, struct placed, domain->count + 1);
    diagnostics_use(import->diagnostics, domain->file->source);
    resolve_replaces(import, domain);
    check_quotas(import, domain);
    if (order == NULL)
        return;
    for (uint32_t i = 0; i < domain->count; i++)
        order[i] = (struct placed){ domain->nodes[i].yaml->place.line, domain->nodes[i].yaml->place.column, i };
    qsort(order, domain->count, sizeof *order, compare_placed);
    for (size_t i = 0; i < domain->count; i++) {
        const struct ratelimit_node *node = &domain->nodes[order[i].node];
        if (node->has_limit)
            add_limit(import, domain, order[i].node);
        else if (node->count == 0 || node->is_unlimited)
            comment(import, text, "\n  # ", ratelimit_path(import, domain, order[i].node),
                    node->is_unlimited ? " is unlimited: no limit." : " has no limit.");
    }
}

/* ---- Files ---------------------------------------------------------------------------------------------------------------- */

static bool ends_in(struct slice name, const char *end)
{
    size_t len = strlen(end);
    return name.len > len && memcmp(name.at + name.len - len, end, len) == 0;
}

static bool is_yaml_name(struct slice name)
{
    return name.at[0] != '.' && (ends_in(name, ".yaml") || ends_in(name, ".yml"));
}

struct texts {
    struct import_file *files;
    size_t count;
};

static void add_text(struct import *import, struct texts *texts, struct import_file file)
{
    if (texts->count == IMPORT_FILES_MAX) {
        diagnostics_use(import->diagnostics, 0);
        IMPORT_ERROR(import, ((struct place){ 0, 0, 0 }), "import a part at a time", "more than %d files",
                     IMPORT_FILES_MAX);
        return;
    }
    texts->files[texts->count++] = file;
}

/* A Kubernetes ConfigMap holds files as texts: each is read as if it were one. */
static bool add_config_map(struct import *import, struct texts *texts, const struct import_file *file)
{
    struct weir_diagnostics *aside = diagnostics_new(file->name, NULL);
    struct node *root = NULL;
    int error = aside == NULL ? WEIR_ERR_MEMORY : yaml_read(import->region, file->text, aside, &root);
    const struct node *kind = node_value(root, "kind"), *data = node_value(root, "data");
    weir_diagnostics_free(aside); /* what is wrong with it is told when it is read as a configuration */
    bool is_map = error == 0 && kind != NULL && slice_equals(kind->text, SLICE("ConfigMap")) && data != NULL
                  && data->kind == NODE_MAP;
    for (const struct node *key = is_map ? data->first : NULL; key != NULL; key = key->next->next) {
        if (key->kind != NODE_SCALAR || key->next->kind != NODE_SCALAR || key->text.len == 0
            || (data->count > 1 && !is_yaml_name(key->text)))
            continue;
        struct text name = { .region = import->region };
        struct shown key_shown;
        text_put(&name, file->name);
        text_format(&name, " (data %s)", shown(key->text, &key_shown));
        add_text(import, texts, import_text(import, name.at == NULL ? "" : name.at, key->next->text));
    }
    return is_map;
}

static void add_file(struct import *import, struct texts *texts, const struct import_file *file)
{
    if (!add_config_map(import, texts, file))
        add_text(import, texts, *file);
}

static int is_wanted(const struct dirent *entry)
{
    return is_yaml_name(slice_of(entry->d_name));
}

/* Who serves a folder must not leave out a file of it in silence. */
static int is_left_out(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !is_yaml_name(slice_of(entry->d_name));
}

static void tell_left_out(struct import *import)
{
    struct dirent **entries = NULL;
    int count = scandir(import->path, &entries, is_left_out, alphasort);
    for (int i = 0; i < count; i++) {
        struct shown name;
        diagnostics_use(import->diagnostics, 0);
        diagnostics_add(import->diagnostics, WEIR_SEVERITY_WARNING, (struct place){ 0, 0, 0 },
                        "give it such a name if it has rules, and put files of folders beside the others",
                        "%s is not read: its name does not end in .yaml or .yml",
                        shown(slice_of(entries[i]->d_name), &name));
        free(entries[i]);
    }
    free(entries);
}

/* The files of a folder, in the order of their names. */
static int add_folder(struct import *import, struct texts *texts)
{
    struct dirent **entries = NULL;
    int count = scandir(import->path, &entries, is_wanted, alphasort), error = 0;
    for (int i = 0; i < count; i++) {
        struct text path = { .region = import->region };
        struct import_file file;
        text_put(&path, import->path);
        text_put(&path, "/");
        text_put(&path, entries[i]->d_name);
        if (error == 0 && path.at != NULL)
            error = import_file(import, path.at, &file);
        if (error == 0 && path.at != NULL)
            add_file(import, texts, &file);
        free(entries[i]);
    }
    free(entries);
    if (import->how != NULL)
        tell_left_out(import);
    if (count == 0)
        IMPORT_ERROR(import, ((struct place){ 0, 0, 0 }), "name the folder that the service reads, or a file",
                     "the folder has no .yaml or .yml file");
    return error;
}

static int read_texts(struct import *import, const struct import_file *given, struct texts *texts)
{
    struct import_file file;
    texts->files = REGION_NEW(import->region, struct import_file, IMPORT_FILES_MAX);
    if (texts->files == NULL)
        return WEIR_ERR_MEMORY;
    DIR *folder = given == NULL ? opendir(import->path) : NULL;
    if (folder != NULL) {
        (void)closedir(folder);
        return add_folder(import, texts);
    }
    int error = given == NULL ? import_file(import, import->path, &file) : 0;
    if (error == 0)
        add_file(import, texts, given == NULL ? &file : given);
    return error;
}

/* ---- The whole -------------------------------------------------------------------------------------------------------------- */

static const char head[] =
    "#\n"
    "# A descriptor is one request, with these attributes:\n"
    "#   domain      that of the request\n"
    "#   descriptor  the keys of its entries in order, with commas between them\n"
    "#   and for each entry its value, under its key in lower case with '-' for other characters than a-z and "
    "0-9\n"
    "#   (x before one that begins with such a character); \"entry-\" stands before a name that weir gives a "
    "meaning of\n"
    "#   its own (path, ip, host, ...), and -2, -3 behind one that an earlier entry has.\n"
    "# Entries of the request's other descriptors are there as well, where no entry of this one has the name.\n"
    "#\n"
    "# Where it differs:\n"
    "#   A request with several descriptors is decided whole: when one refuses, none is charged. There all "
    "are.\n"
    "#   A refused request counts there and is free here. That changes no decision unless hits_addend is above "
    "1: then a\n"
    "#   smaller request may pass here after a larger one was refused, and a peek is not refused by what was "
    "refused.\n"
    "#   An entry of a longer descriptor takes part in `replaces` as well, and of two descriptors with one key "
    "the first.\n"
    "#   There key a with value b_c also meets the rule of a key a_b_c, and key a_b with value c; here it does "
    "not.\n";

static void check_domains(struct import *import, const struct ratelimit_domain *domains, size_t count)
{
    struct shown name, file;
    for (size_t i = 1; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (domains[i].name.len > 0 && slice_equals(domains[i].name, domains[j].name)) {
                diagnostics_use(import->diagnostics, domains[i].file->source);
                IMPORT_ERROR(import, domains[i].root->place, "put the rules of a domain into one file",
                             "domain '%s' is in %s already", shown(domains[i].name, &name),
                             shown(slice_of(domains[j].file->name), &file));
                break;
            }
}

int import_ratelimit(struct import *import, const struct import_file *file)
{
    struct texts texts = { .count = 0 };
    int error = read_texts(import, file, &texts);
    if (error != 0)
        return error;
    struct ratelimit_domain *domains = REGION_NEW(import->region, struct ratelimit_domain, texts.count + 1);
    size_t count = 0;
    for (size_t i = 0; domains != NULL && i < texts.count; i++)
        count += ratelimit_read(import, &texts.files[i], &domains[count]);
    if (domains == NULL || import->region->has_failed)
        return WEIR_ERR_MEMORY;
    check_domains(import, domains, count);
    if (diagnostics_errors(import->diagnostics) > 0)
        return 0;
    comment(import, &import->out, "# Imported from ", slice_of(import->path), " (envoyproxy/ratelimit).");
    text_put(&import->out, head);
    text_put(&import->out, "weir: 1\n\n");
    if (import->how != NULL && import->how->deadline > 0)
        text_format(&import->out, "store: { deadline: %llums }\n\n",
                    (unsigned long long)(import->how->deadline / WEIR_MILLISECOND));
    text_put(&import->out, "limits:\n");
    size_t before = import->name_count;
    for (size_t i = 0; i < count; i++)
        add_domain(import, &domains[i]);
    if (import->name_count == before)
        text_put(&import->out, "  []\n");
    return import->region->has_failed ? WEIR_ERR_MEMORY : 0;
}
