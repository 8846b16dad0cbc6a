// SPDX-License-Identifier: Apache-2.0
/*
 * match.c - which limits a request meets.
 *
 * Idea: file each limit under one of its positive conditions, the one that fewest limits share. Limits filed alike
 * are a group: one glob of one attribute, one network, the presence or absence of an attribute, or nothing at all.
 * Groups are numbered so that each index (a trie per attribute, the networks, the rest) owns a run of numbers.
 *
 * Finding asks each index which of its groups the request is in, and verifies the other conditions of the limits
 * there. Cost: the walk of trie.c over each attribute that limits are filed under, a few hash look-ups for the
 * address, and one verification for each limit of a group that was met. The filing keeps those few unless many
 * limits share all of their conditions but for negated ones.
 *
 * No scratch but the walk's stack: the answer itself, kept sorted, tells which limits were seen.
 */
#include "rule/match.h"

#include <assert.h>
#include <stdlib.h>

#include "rule/netset.h"
#include "rule/trie.h"
#include "weir.h"

/* A condition, compiled. Patterns and networks lie in the matcher's pools. */
struct check {
    unsigned attribute;
    enum condition_kind kind;
    bool is_negated;
    uint32_t first, count; /* patterns or networks */
};

struct rule {
    uint32_t first_check, check_count;
    uint32_t filed; /* the check it is filed under, which needs no verifying; NOWHERE */
};
#define NOWHERE UINT32_MAX

/*
 * How a search gets from what was found to limits: the number of a group, or with IS_LIMIT a limit alone, which
 * saves a look at the group. A limit with IS_DOUBTFUL has conditions to verify. Limits are few (32,767).
 */
#define IS_LIMIT UINT32_C(0x80000000)
#define IS_DOUBTFUL UINT32_C(0x40000000)

/* What a group of limits has in common; in the order of group numbers. */
enum place { PLACE_GLOB, PLACE_NETWORK, PLACE_PRESENT, PLACE_ABSENT, PLACE_ALWAYS };

/* The globs of one attribute: those of the groups from first_group on. */
struct glob_index {
    unsigned attribute;
    uint32_t first_group;
    struct trie trie;
};

struct presence_index {
    unsigned attribute;
    bool is_present;
    uint32_t group;
};

struct matcher {
    size_t limit_count, check_count;
    struct rule *rules;
    struct check *checks;
    struct trie_pattern *patterns;
    glob_token *tokens;
    struct network *networks;

    uint32_t
        *postings; /* limits (some IS_DOUBTFUL) by group: group g has postings[starts[g]] up to starts[g + 1] */
    uint32_t *starts;
    struct trie_pattern
        *filed_patterns; /* distinct, sorted by attribute and tokens: group g is filed_patterns[g] */
    struct network *filed_networks;
    struct glob_index *globs;
    size_t glob_count;
    struct netset netset;
    uint32_t first_network_group;
    struct presence_index *presences;
    size_t presence_count;
    uint32_t always_group; /* NOWHERE: none */
};

/* ---- Compiling the conditions ---------------------------------------------------------------------------------- */

struct sizes {
    size_t checks, patterns, tokens, networks;
};

static struct sizes measure(const struct condition_list *limits, size_t limit_count)
{
    struct sizes sizes = { 0 };
    for (size_t i = 0; i < limit_count; i++) {
        sizes.checks += limits[i].count;
        for (size_t j = 0; j < limits[i].count; j++) {
            const struct condition *condition = limits[i].conditions + j;
            if (condition->kind == CONDITION_NETWORKS)
                sizes.networks += condition->network_count;
            if (condition->kind != CONDITION_GLOBS)
                continue;
            sizes.patterns += condition->pattern_count;
            for (size_t k = 0; k < condition->pattern_count; k++)
                sizes.tokens += condition->patterns[k].len;
        }
    }
    return sizes;
}

/* Where the pools stand. */
struct fill {
    size_t checks, patterns, tokens, networks;
};

static void compile_check(struct matcher *matcher, struct fill *fill, const struct condition *condition)
{
    struct check *check = matcher->checks + fill->checks++;
    *check = (struct check){ condition->attribute, condition->kind, condition->is_negated, 0, 0 };
    if (condition->kind == CONDITION_GLOBS) {
        check->first = (uint32_t)fill->patterns;
        check->count = (uint32_t)condition->pattern_count;
        for (size_t i = 0; i < condition->pattern_count; i++) {
            glob_token *tokens = matcher->tokens + fill->tokens;
            size_t count = glob_compile(condition->patterns[i], condition->dialect, tokens);
            matcher->patterns[fill->patterns++] = (struct trie_pattern){ tokens, (uint32_t)count, 0 };
            fill->tokens += count;
        }
    } else if (condition->kind == CONDITION_NETWORKS) {
        check->first = (uint32_t)fill->networks;
        check->count = (uint32_t)condition->network_count;
        for (size_t i = 0; i < condition->network_count; i++)
            matcher->networks[fill->networks++] = condition->networks[i];
    }
}

static bool compile(struct matcher *matcher, const struct condition_list *limits, const struct sizes *sizes)
{
    struct fill fill = { 0 };
    matcher->rules = calloc(matcher->limit_count + 1, sizeof *matcher->rules);
    matcher->checks = calloc(sizes->checks + 1, sizeof *matcher->checks);
    matcher->patterns = calloc(sizes->patterns + 1, sizeof *matcher->patterns);
    matcher->tokens = calloc(sizes->tokens + 1, sizeof *matcher->tokens);
    matcher->networks = calloc(sizes->networks + 1, sizeof *matcher->networks);
    if (matcher->rules == NULL || matcher->checks == NULL || matcher->patterns == NULL
        || matcher->tokens == NULL || matcher->networks == NULL)
        return false;

    for (size_t i = 0; i < matcher->limit_count; i++) {
        matcher->rules[i] = (struct rule){ (uint32_t)fill.checks, (uint32_t)limits[i].count, NOWHERE };
        for (size_t j = 0; j < limits[i].count; j++)
            compile_check(matcher, &fill, limits[i].conditions + j);
    }
    matcher->check_count = fill.checks;
    return true;
}

/* ---- Filing: entries, sorted so that equal ones are a group -------------------------------------------------------- */

struct entry {
    enum place place;
    unsigned attribute;
    const struct trie_pattern *pattern;
    const struct network *network;
    uint32_t limit, check;
};

static int compare_groups(const struct entry *x, const struct entry *y)
{
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    if (x->place == PLACE_NETWORK) {
        int order = memcmp(&x->network->address, &y->network->address, sizeof x->network->address);
        return order != 0 ? order : (int)x->network->length - (int)y->network->length;
    }
    if (x->attribute != y->attribute)
        return x->attribute < y->attribute ? -1 : 1;
    return x->place == PLACE_GLOB ? trie_compare(x->pattern, y->pattern) : 0;
}

static int compare_entries(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    int order = compare_groups(a, b);
    return order != 0 ? order : (a->limit > b->limit) - (a->limit < b->limit);
}

/* One entry for each thing that a limit could be found by. */
static size_t list_entries(const struct matcher *matcher, struct entry *entries)
{
    size_t count = 0;
    for (uint32_t limit = 0; limit < matcher->limit_count; limit++) {
        const struct rule *rule = matcher->rules + limit;
        for (uint32_t c = rule->first_check; c < rule->first_check + rule->check_count; c++) {
            const struct check *check = matcher->checks + c;
            struct entry entry = { .attribute = check->attribute, .limit = limit, .check = c };
            if (check->kind == CONDITION_PRESENT || check->kind == CONDITION_ABSENT) {
                entry.place = check->kind == CONDITION_PRESENT ? PLACE_PRESENT : PLACE_ABSENT;
                entries[count++] = entry;
                continue;
            }
            for (uint32_t i = check->first; !check->is_negated && i < check->first + check->count; i++) {
                bool is_glob = check->kind == CONDITION_GLOBS;
                entry.place = is_glob ? PLACE_GLOB : PLACE_NETWORK;
                entry.pattern = is_glob ? matcher->patterns + i : NULL;
                entry.network = is_glob ? NULL : matcher->networks + i;
                entries[count++] = entry;
            }
        }
    }
    return count;
}

/* The size of the group from entries[begin] on, in entries. */
static size_t group_size(const struct entry *entries, size_t begin, size_t count)
{
    size_t end = begin + 1;
    while (end < count && compare_groups(entries + begin, entries + end) == 0)
        end++;
    return end - begin;
}

/*
 * File each limit under the check whose fullest group is smallest; of equals, under what says more (the order of
 * places). A positive check of no pattern at all can never hold: its limit is filed under it, in no group.
 */
static bool choose(struct matcher *matcher, const struct entry *entries, size_t count)
{
    uint64_t *scores = calloc(matcher->check_count + 1, sizeof *scores);
    if (scores == NULL)
        return false;
    for (size_t begin = 0; begin < count;) {
        size_t size = group_size(entries, begin, count);
        uint64_t score = (uint64_t)size * (PLACE_ALWAYS + 1) + entries[begin].place;
        for (size_t i = begin; i < begin + size; i++)
            if (scores[entries[i].check] < score)
                scores[entries[i].check] = score;
        begin += size;
    }
    for (size_t limit = 0; limit < matcher->limit_count; limit++) {
        struct rule *rule = matcher->rules + limit;
        for (uint32_t c = rule->first_check; c < rule->first_check + rule->check_count; c++)
            if (!matcher->checks[c].is_negated && (rule->filed == NOWHERE || scores[c] < scores[rule->filed]))
                rule->filed = c;
    }
    free(scores);
    return true;
}

/* Keep the entries that limits are filed under, and add those of limits that are filed nowhere. Returns their count. */
static size_t keep_filed(const struct matcher *matcher, struct entry *entries, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_repeated = kept > 0 && compare_entries(entries + kept - 1, entries + i) == 0;
        if (matcher->rules[entries[i].limit].filed == entries[i].check && !is_repeated)
            entries[kept++] = entries[i];
    }
    for (uint32_t limit = 0; limit < matcher->limit_count; limit++)
        if (matcher->rules[limit].filed == NOWHERE)
            entries[kept++] = (struct entry){ .place = PLACE_ALWAYS, .limit = limit };
    return kept;
}

/* ---- The indexes ----------------------------------------------------------------------------------------------------- */

static uint32_t posting_of(const struct matcher *matcher, uint32_t limit)
{
    const struct rule *rule = matcher->rules + limit;
    uint32_t unverified = rule->check_count - (rule->filed == NOWHERE ? 0 : 1);
    return limit | (unverified > 0 ? IS_DOUBTFUL : 0);
}

/* Give group numbers, and write down what each index needs of its groups. */
static void number_groups(struct matcher *matcher, const struct entry *entries, size_t count,
                          size_t *network_count)
{
    uint32_t group = 0;
    matcher->always_group = NOWHERE;
    for (size_t begin = 0; begin < count; group++) {
        const struct entry *entry = entries + begin;
        matcher->starts[group] = (uint32_t)begin;
        if (entry->place == PLACE_GLOB) {
            bool is_new = group == 0 || matcher->globs[matcher->glob_count - 1].attribute != entry->attribute;
            if (is_new)
                matcher->globs[matcher->glob_count++] =
                    (struct glob_index){ .attribute = entry->attribute, .first_group = group };
            matcher->filed_patterns[group] = *entry->pattern;
        } else if (entry->place == PLACE_NETWORK) {
            if (*network_count == 0)
                matcher->first_network_group = group;
            matcher->filed_networks[(*network_count)++] = *entry->network;
        } else if (entry->place == PLACE_ALWAYS) {
            matcher->always_group = group;
        } else {
            matcher->presences[matcher->presence_count++] =
                (struct presence_index){ entry->attribute, entry->place == PLACE_PRESENT, group };
        }
        size_t size = group_size(entries, begin, count);
        for (size_t i = begin; i < begin + size; i++)
            matcher->postings[i] = posting_of(matcher, entries[i].limit);
        if (entry->place == PLACE_GLOB)
            matcher->filed_patterns[group].number = size == 1 ? matcher->postings[begin] | IS_LIMIT : group;
        begin += size;
    }
    matcher->starts[group] = (uint32_t)count;
}

static bool build_indexes(struct matcher *matcher, const struct entry *entries, size_t count)
{
    size_t network_count = 0, glob_groups = 0;
    matcher->postings = calloc(count + 1, sizeof *matcher->postings);
    matcher->starts = calloc(count + 1, sizeof *matcher->starts);
    matcher->filed_patterns = calloc(count + 1, sizeof *matcher->filed_patterns);
    matcher->filed_networks = calloc(count + 1, sizeof *matcher->filed_networks);
    matcher->globs = calloc(MATCH_ATTRIBUTES_MAX, sizeof *matcher->globs);
    matcher->presences = calloc(2 * (size_t)MATCH_ATTRIBUTES_MAX, sizeof *matcher->presences);
    if (matcher->postings == NULL || matcher->starts == NULL || matcher->filed_patterns == NULL
        || matcher->filed_networks == NULL || matcher->globs == NULL || matcher->presences == NULL)
        return false;

    number_groups(matcher, entries, count, &network_count);
    for (size_t i = 0; i < count; i++)
        glob_groups +=
            entries[i].place == PLACE_GLOB && (i == 0 || compare_groups(entries + i - 1, entries + i) != 0);
    for (size_t i = 0; i < matcher->glob_count; i++) {
        struct glob_index *index = matcher->globs + i;
        size_t end = i + 1 < matcher->glob_count ? matcher->globs[i + 1].first_group : glob_groups;
        if (!trie_init(&index->trie, matcher->filed_patterns + index->first_group, end - index->first_group))
            return false;
    }
    return netset_init(&matcher->netset, matcher->filed_networks, network_count);
}

static bool build(struct matcher *matcher, const struct condition_list *limits, size_t limit_count)
{
    struct sizes sizes = measure(limits, limit_count);
    if (!compile(matcher, limits, &sizes))
        return false;
    struct entry *entries =
        calloc(sizes.checks + sizes.patterns + sizes.networks + limit_count + 1, sizeof *entries);
    if (entries == NULL)
        return false;
    size_t count = list_entries(matcher, entries);
    qsort(entries, count, sizeof *entries, compare_entries);
    bool is_built = choose(matcher, entries, count);
    if (is_built) {
        count = keep_filed(matcher, entries, count);
        is_built = build_indexes(matcher, entries, count);
    }
    free(entries);
    return is_built;
}

int matcher_new(struct matcher **out, const struct condition_list *limits, size_t limit_count)
{
    struct matcher *matcher = calloc(1, sizeof *matcher);
    if (matcher == NULL)
        return WEIR_ERR_MEMORY;
    assert(limit_count < IS_DOUBTFUL);
    matcher->limit_count = limit_count;
    if (!build(matcher, limits, limit_count)) {
        matcher_free(matcher);
        return WEIR_ERR_MEMORY;
    }
    *out = matcher;
    return 0;
}

void matcher_free(struct matcher *matcher)
{
    if (matcher == NULL)
        return;
    for (size_t i = 0; i < matcher->glob_count; i++)
        trie_deinit(&matcher->globs[i].trie);
    netset_deinit(&matcher->netset);
    free(matcher->presences);
    free(matcher->globs);
    free(matcher->filed_networks);
    free(matcher->filed_patterns);
    free(matcher->starts);
    free(matcher->postings);
    free(matcher->networks);
    free(matcher->tokens);
    free(matcher->patterns);
    free(matcher->checks);
    free(matcher->rules);
    free(matcher);
}

/* ---- Finding ----------------------------------------------------------------------------------------------------------- */

struct search {
    const struct matcher *matcher;
    const struct slice *values;
    const struct address *ip;
    uint32_t *out; /* ascending */
    size_t count, max;
};

static bool check_holds(const struct search *search, const struct check *check)
{
    const struct matcher *matcher = search->matcher;
    struct slice value = search->values[check->attribute];
    bool is_met = false;
    switch (check->kind) {
    case CONDITION_PRESENT:
        return value.len > 0;
    case CONDITION_ABSENT:
        return value.len == 0;
    case CONDITION_NETWORKS:
        is_met =
            search->ip != NULL && networks_contain(matcher->networks + check->first, check->count, search->ip);
        break;
    case CONDITION_GLOBS:
        for (uint32_t i = 0; i < check->count && !is_met && value.len > 0; i++) {
            const struct trie_pattern *pattern = matcher->patterns + check->first + i;
            is_met = glob_run(pattern->tokens, pattern->count, value);
        }
        break;
    }
    return is_met != check->is_negated;
}

static bool rule_holds(const struct search *search, const struct rule *rule)
{
    for (uint32_t c = rule->first_check; c < rule->first_check + rule->check_count; c++)
        if (c != rule->filed && !check_holds(search, search->matcher->checks + c))
            return false;
    return true;
}

/* Look at a limit that may be met. False: there is no room for it. */
static bool consider(struct search *search, uint32_t posting)
{
    uint32_t limit = posting & ~(IS_LIMIT | IS_DOUBTFUL);
    size_t low = 0, high = search->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (search->out[middle] < limit)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < search->count && search->out[low] == limit)
        return true;
    if ((posting & IS_DOUBTFUL) && !rule_holds(search, search->matcher->rules + limit))
        return true;
    if (search->count == search->max)
        return false;
    memmove(search->out + low + 1, search->out + low, (search->count - low) * sizeof *search->out);
    search->out[low] = limit;
    search->count++;
    return true;
}

static bool consider_group(struct search *search, uint32_t group)
{
    const uint32_t *starts = search->matcher->starts + group;
    for (uint32_t i = starts[0]; i < starts[1]; i++)
        if (!consider(search, search->matcher->postings[i]))
            return false;
    return true;
}

static bool found_glob(void *context, uint32_t number)
{
    return number & IS_LIMIT ? consider(context, number) : consider_group(context, number);
}

static bool found_network(void *context, uint32_t network)
{
    struct search *search = context;
    return consider_group(search, search->matcher->first_network_group + network);
}

static bool search_all(struct search *search)
{
    const struct matcher *matcher = search->matcher;
    for (size_t i = 0; i < matcher->glob_count; i++) {
        struct slice value = search->values[matcher->globs[i].attribute];
        if (value.len > 0 && !trie_find(&matcher->globs[i].trie, value, found_glob, search))
            return false;
    }
    if (search->ip != NULL && !netset_find(&matcher->netset, search->ip, found_network, search))
        return false;
    for (size_t i = 0; i < matcher->presence_count; i++) {
        const struct presence_index *index = matcher->presences + i;
        if ((search->values[index->attribute].len > 0) == index->is_present
            && !consider_group(search, index->group))
            return false;
    }
    return matcher->always_group == NOWHERE || consider_group(search, matcher->always_group);
}

size_t matcher_find(const struct matcher *matcher, const struct slice *values, const struct address *ip,
                    uint32_t *out, size_t max)
{
    struct search search = { .matcher = matcher, .values = values, .ip = ip, .out = out, .max = max };
    return search_all(&search) ? search.count : max + 1;
}

bool condition_holds(const struct condition *condition, const struct slice *values, const struct address *ip)
{
    struct slice value = values[condition->attribute];
    bool is_met = false;
    switch (condition->kind) {
    case CONDITION_PRESENT:
        return value.len > 0;
    case CONDITION_ABSENT:
        return value.len == 0;
    case CONDITION_NETWORKS:
        is_met = ip != NULL && networks_contain(condition->networks, condition->network_count, ip);
        break;
    case CONDITION_GLOBS:
        for (size_t i = 0; i < condition->pattern_count && !is_met && value.len > 0; i++)
            is_met = glob_match(condition->patterns[i], value, condition->dialect);
        break;
    }
    return is_met != condition->is_negated;
}
