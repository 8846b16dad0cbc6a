// SPDX-License-Identifier: Apache-2.0
/*
 * trie.c - many glob patterns against one value at once.
 *
 * Idea: the tree is an automaton. Active is every node whose tokens match the bytes read so far. A node that was
 * entered by a wildcard stays active while the wildcard may take more; a node entered by a byte lives for one step.
 * Nodes are numbered breadth first, so the children of nodes in ascending order are in ascending order, too: both
 * lists stay sorted by themselves, and a duplicate (a wildcard that is active and is entered again) shows up when
 * they are merged. No marks, no hashing, nothing to clear.
 *
 * Cost: proportional to the bytes of the value and the nodes active at each, which are those that patterns matching
 * so far share with others. Whatever value and patterns are: at most 2 * ACTIVE_MAX node visits a byte; and when
 * more nodes than that would be active, more rests were tried than there are patterns, or more patterns matched
 * than ACCEPTED_MAX, the walk is given up and each pattern is tried once, alone. Scratch: 5 KB of stack.
 */
#include "rule/trie.h"

#include <assert.h>
#include <stdlib.h>

enum {
    ACTIVE_MAX = 256, /* nodes of each kind; ordinary values have fewer than ten */
    ACCEPTED_MAX = 128,
    SPARE_TRIES = 64, /* rests tried beyond one for each pattern */
};

/* A child is a node, or with this bit the only pattern that is left. */
#define LEAF UINT32_C(0x80000000)

enum {
    HAS_SEGMENT = 1, /* children by wildcard, behind those by byte */
    HAS_ANY = 2,
    HAS_TREE = 4,  /* always a leaf */
    HAS_END = 8,   /* a pattern ends at this node; always a leaf */
    IS_DENSE = 16, /* its bytes are a range without gaps (digits, mostly), so a child needs no search */
};
#define HAS_MORE (HAS_SEGMENT | HAS_ANY | HAS_TREE | HAS_END) /* than children by byte */

struct trie_node {
    uint32_t first;    /* of its children, in trie.children and trie.keys */
    uint16_t depth;    /* tokens before it */
    uint16_t literals; /* children by byte, ascending */
    uint8_t has;
    uint8_t low;           /* the least byte of a child */
    glob_token entered_by; /* GLOB_SEGMENT or GLOB_ANY; else a byte, or 0 for the root */
};

/* ---- Building ------------------------------------------------------------------------------------------------ */

int trie_compare(const struct trie_pattern *x, const struct trie_pattern *y)
{
    size_t common = x->count < y->count ? x->count : y->count;
    for (size_t i = 0; i < common; i++)
        if (x->tokens[i] != y->tokens[i])
            return x->tokens[i] < y->tokens[i] ? -1 : 1;
    return (x->count > y->count) - (x->count < y->count);
}

/* The patterns below a node: a run of the sorted list. */
struct run {
    uint32_t begin, end;
};

struct builder {
    struct trie *trie;
    struct run *runs; /* by node */
    size_t node_count, node_room, child_count, child_room;
};

/* Double the room of an array of elements of `size`. NULL: out of memory, and the array is as it was. */
static void *grow(void *array, size_t *room, size_t size)
{
    size_t bigger = *room == 0 ? 64 : *room * 2;
    void *grown = reallocarray(array, bigger, size);
    if (grown != NULL)
        *room = bigger;
    return grown;
}

static bool add_node(struct builder *builder, struct run run, size_t depth, glob_token entered_by)
{
    struct trie *trie = builder->trie;
    if (builder->node_count == builder->node_room) {
        size_t room = builder->node_room;
        struct trie_node *nodes = grow(trie->nodes, &room, sizeof *nodes);
        trie->nodes = nodes != NULL ? nodes : trie->nodes;
        struct run *runs = grow(builder->runs, &builder->node_room, sizeof *runs);
        builder->runs = runs != NULL ? runs : builder->runs;
        if (nodes == NULL || runs == NULL)
            return false;
    }
    trie->nodes[builder->node_count] = (struct trie_node){ .depth = (uint16_t)depth, .entered_by = entered_by };
    builder->runs[builder->node_count++] = run;
    return true;
}

static bool add_child(struct builder *builder, uint8_t key, uint32_t child)
{
    struct trie *trie = builder->trie;
    if (builder->child_count == builder->child_room) {
        size_t room = builder->child_room;
        uint8_t *keys = grow(trie->keys, &room, sizeof *keys);
        trie->keys = keys != NULL ? keys : trie->keys;
        uint32_t *children = grow(trie->children, &builder->child_room, sizeof *children);
        trie->children = children != NULL ? children : trie->children;
        if (keys == NULL || children == NULL)
            return false;
    }
    trie->keys[builder->child_count] = key;
    trie->children[builder->child_count++] = child;
    return true;
}

/* The end of the patterns from run.begin that have the same token at `depth`. Mostly all have. */
static uint32_t same_token_end(const struct trie *trie, struct run run, size_t depth)
{
    glob_token token = trie->patterns[run.begin].tokens[depth];
    uint32_t low = run.begin + 1, high = run.end;
    if (trie->patterns[run.end - 1].tokens[depth] == token)
        return run.end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (trie->patterns[middle].tokens[depth] == token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool expand(struct builder *builder, uint32_t index)
{
    struct trie *trie = builder->trie;
    struct run run = builder->runs[index];
    size_t depth = trie->nodes[index].depth;
    uint32_t first = (uint32_t)builder->child_count, end_leaf = 0;
    uint16_t literals = 0;
    uint8_t has = 0;

    if (run.begin < run.end && trie->patterns[run.begin].count == depth) {
        has |= HAS_END;
        end_leaf = run.begin++ | LEAF;
    }
    while (run.begin < run.end) {
        glob_token token = trie->patterns[run.begin].tokens[depth];
        struct run below = { run.begin, same_token_end(trie, run, depth) };
        bool is_leaf = below.end - below.begin == 1;
        uint32_t child = is_leaf ? below.begin | LEAF : (uint32_t)builder->node_count;
        assert(is_leaf || token != GLOB_TREE);
        if (token < GLOB_SEGMENT)
            literals++;
        else
            has |= (uint8_t)(HAS_SEGMENT << (token - GLOB_SEGMENT));
        if ((!is_leaf && !add_node(builder, below, depth + 1, token))
            || !add_child(builder, (uint8_t)(token & 0xff), child))
            return false;
        run.begin = below.end;
    }
    if ((has & HAS_END) && !add_child(builder, 0, end_leaf))
        return false;

    struct trie_node *node = trie->nodes + index; /* only now: adding nodes moves them */
    node->first = first;
    node->literals = literals;
    node->has = has;
    if (literals > 0) {
        node->low = trie->keys[first];
        node->has |= trie->keys[first + literals - 1] - node->low + 1 == literals ? IS_DENSE : 0;
    }
    return true;
}

bool trie_init(struct trie *trie, const struct trie_pattern *patterns, size_t count)
{
    *trie = (struct trie){ .patterns = patterns, .pattern_count = count };
    assert(count < LEAF);
    struct builder builder = { .trie = trie };
    bool is_built = add_node(&builder, (struct run){ 0, (uint32_t)count }, 0, 0);
    for (uint32_t i = 0; is_built && i < builder.node_count; i++)
        is_built = expand(&builder, i);
    free(builder.runs);
    if (!is_built)
        trie_deinit(trie);
    return is_built;
}

void trie_deinit(struct trie *trie)
{
    free(trie->nodes);
    free(trie->children);
    free(trie->keys);
    *trie = (struct trie){ 0 };
}

/* ---- Walking --------------------------------------------------------------------------------------------------- */

/* Active nodes, ascending. */
struct active {
    size_t count;
    uint32_t nodes[ACTIVE_MAX];
};

struct walk {
    const struct trie *trie;
    struct slice value;
    trie_found *found;
    void *context;
    size_t tries_left;
    bool is_stopped, is_given_up;
    size_t accepted_count;
    uint32_t accepted[ACCEPTED_MAX];
    struct active stars[2], literals[2]; /* now and next: entered by a wildcard, by a byte */
};

static void add_active(struct walk *walk, struct active *list, uint32_t node)
{
    if (list->count == ACTIVE_MAX)
        walk->is_given_up = true;
    else
        list->nodes[list->count++] = node;
}

static bool is_accepted(const struct walk *walk, uint32_t pattern)
{
    for (size_t i = 0; i < walk->accepted_count; i++)
        if (walk->accepted[i] == pattern)
            return true;
    return false;
}

static void accept(struct walk *walk, uint32_t pattern)
{
    if (walk->is_stopped || is_accepted(walk, pattern))
        return;
    if (walk->accepted_count == ACCEPTED_MAX) {
        walk->is_given_up = true;
        return;
    }
    walk->accepted[walk->accepted_count++] = pattern;
    walk->is_stopped = !walk->found(walk->context, walk->trie->patterns[pattern].number);
}

/* Match what is left of a pattern, from its token `depth`, with the value from `at`. */
static void try_rest(struct walk *walk, uint32_t pattern, size_t depth, size_t at)
{
    const struct trie_pattern *whole = walk->trie->patterns + pattern;
    struct slice rest = { walk->value.at + at, walk->value.len - at };
    if (walk->tries_left == 0) {
        walk->is_given_up = true;
        return;
    }
    walk->tries_left--;
    if (glob_run(whole->tokens + depth, whole->count - depth, rest))
        accept(walk, pattern);
}

/* What a node says about the value with `at` bytes read: a pattern that ends here, or a tree that begins. */
static void check_ends(struct walk *walk, uint32_t index, size_t at)
{
    const struct trie_node *node = walk->trie->nodes + index;
    if (!(node->has & (HAS_TREE | HAS_END)))
        return;
    const uint32_t *child = walk->trie->children + node->first + node->literals;
    child += ((node->has & HAS_SEGMENT) != 0) + ((node->has & HAS_ANY) != 0);
    if (node->has & HAS_TREE) {
        if (at == walk->value.len || walk->value.at[at] == '/')
            accept(walk, *child & ~LEAF);
        child++;
    }
    if ((node->has & HAS_END) && at == walk->value.len)
        accept(walk, *child & ~LEAF);
}

/* Enter the wildcards behind a node that was just entered by a byte. */
static void enter_stars(struct walk *walk, struct active *stars, uint32_t index, size_t at)
{
    const struct trie_node *node = walk->trie->nodes + index;
    const uint32_t *child = walk->trie->children + node->first + node->literals;
    for (uint8_t has = node->has & (HAS_SEGMENT | HAS_ANY); has != 0; has &= (uint8_t)(has - 1), child++) {
        if (*child & LEAF)
            try_rest(walk, *child & ~LEAF, node->depth, at);
        else
            add_active(walk, stars, *child);
    }
}

/* The child by this byte: its place in trie.children, or NOT_THERE. */
#define NOT_THERE SIZE_MAX
static size_t find_child(const struct trie *trie, const struct trie_node *node, unsigned char c)
{
    size_t count = node->literals, above = (size_t)c - node->low; /* wraps below `low` */
    if (node->has & IS_DENSE)
        return above < count ? node->first + above : NOT_THERE;
    const uint8_t *keys = trie->keys + node->first;
    const uint8_t *key = count == 0 ? NULL : memchr(keys, c, count);
    return key == NULL ? NOT_THERE : node->first + (size_t)(key - keys);
}

/* Follow the byte value[at] from a node. */
static void follow(struct walk *walk, struct active *literals, uint32_t index, size_t at)
{
    const struct trie_node *node = walk->trie->nodes + index;
    size_t place = find_child(walk->trie, node, (unsigned char)walk->value.at[at]);
    if (place == NOT_THERE)
        return;
    uint32_t child = walk->trie->children[place];
    if (child & LEAF)
        try_rest(walk, child & ~LEAF, (size_t)node->depth + 1, at + 1);
    else
        add_active(walk, literals, child);
}

/* next.literals: the children by byte of all active nodes, in ascending order. */
static void step_literals(struct walk *walk, size_t now, size_t at)
{
    const struct active *stars = walk->stars + now, *literals = walk->literals + now;
    struct active *next = walk->literals + !now;
    size_t s = 0, l = 0;
    next->count = 0;
    while (s < stars->count || l < literals->count) {
        bool is_star = l == literals->count || (s < stars->count && stars->nodes[s] < literals->nodes[l]);
        follow(walk, next, is_star ? stars->nodes[s++] : literals->nodes[l++], at);
    }
}

/* next.stars: those that may take value[at], merged with those behind next.literals. */
static void step_stars(struct walk *walk, size_t now, size_t at)
{
    const struct active *stars = walk->stars + now, *entered_from = walk->literals + !now;
    struct active *next = walk->stars + !now, *entered = walk->literals + now; /* no longer needed: scratch */
    bool is_slash = walk->value.at[at] == '/';

    entered->count = 0;
    for (size_t i = 0; i < entered_from->count; i++)
        enter_stars(walk, entered, entered_from->nodes[i], at + 1);

    size_t e = 0;
    next->count = 0;
    for (size_t s = 0; s < stars->count; s++) {
        uint32_t star = stars->nodes[s];
        if (is_slash && walk->trie->nodes[star].entered_by == GLOB_SEGMENT)
            continue;
        while (e < entered->count && entered->nodes[e] < star)
            add_active(walk, next, entered->nodes[e++]);
        if (e < entered->count && entered->nodes[e] == star)
            e++;
        add_active(walk, next, star);
    }
    while (e < entered->count)
        add_active(walk, next, entered->nodes[e++]);
}

static void check_all_ends(struct walk *walk, size_t now, size_t at)
{
    for (size_t i = 0; i < walk->literals[now].count; i++)
        check_ends(walk, walk->literals[now].nodes[i], at);
    for (size_t i = 0; i < walk->stars[now].count; i++)
        check_ends(walk, walk->stars[now].nodes[i], at);
}

/*
 * Two short cuts for what is nearly always so; each returns the place up to which the value has been read.
 *
 * One node alone, entered by a byte: follow bytes until a node has more to say than children by byte.
 */
static size_t run_literals(struct walk *walk, size_t now, size_t at)
{
    const struct trie *trie = walk->trie;
    struct active *literals = walk->literals + now;
    uint32_t index = literals->nodes[0];
    literals->count = 0;
    while (at < walk->value.len) {
        const struct trie_node *node = trie->nodes + index;
        size_t place = find_child(trie, node, (unsigned char)walk->value.at[at++]);
        if (place == NOT_THERE)
            return at;
        index = trie->children[place];
        if (index & LEAF) {
            try_rest(walk, index & ~LEAF, (size_t)node->depth + 1, at);
            return at;
        }
        if (trie->nodes[index].has & HAS_MORE) {
            add_active(walk, literals, index);
            enter_stars(walk, walk->stars + now, index, at);
            check_all_ends(walk, now, at);
            return at;
        }
    }
    return at; /* in the middle of a node's patterns: nothing ends here */
}

/* One wildcard alone: pass over bytes that it takes and that lead nowhere else. */
static size_t run_star(struct walk *walk, size_t now, size_t at)
{
    uint32_t index = walk->stars[now].nodes[0];
    const struct trie_node *node = walk->trie->nodes + index;
    bool stops_at_slash = node->entered_by == GLOB_SEGMENT;
    if (node->has & HAS_TREE)
        return at;
    for (; at < walk->value.len; at++) {
        unsigned char c = (unsigned char)walk->value.at[at];
        if ((stops_at_slash && c == '/') || find_child(walk->trie, node, c) != NOT_THERE)
            return at;
    }
    check_ends(walk, index, at);
    return at;
}

static void step(struct walk *walk, size_t *now, size_t *at)
{
    step_literals(walk, *now, *at);
    step_stars(walk, *now, *at);
    *now = !*now;
    check_all_ends(walk, *now, ++*at);
}

/* Given up: each pattern once, alone. */
static void try_each(struct walk *walk)
{
    const struct trie *trie = walk->trie;
    for (uint32_t i = 0; i < trie->pattern_count && !walk->is_stopped; i++)
        if (!is_accepted(walk, i) && glob_run(trie->patterns[i].tokens, trie->patterns[i].count, walk->value))
            walk->is_stopped = !walk->found(walk->context, trie->patterns[i].number);
}

bool trie_find(const struct trie *trie, struct slice value, trie_found *found, void *context)
{
    struct walk walk; /* not zeroed: only what the counts cover is ever read */
    if (trie->pattern_count == 0)
        return true;
    walk.trie = trie;
    walk.value = value;
    walk.found = found;
    walk.context = context;
    walk.tries_left = trie->pattern_count + SPARE_TRIES;
    walk.is_stopped = walk.is_given_up = false;
    walk.accepted_count = 0;
    walk.literals[0].count = walk.stars[0].count = 0;

    size_t now = 0;
    add_active(&walk, &walk.literals[0], 0);
    enter_stars(&walk, &walk.stars[0], 0, 0);
    check_all_ends(&walk, now, 0);
    for (size_t at = 0; at < value.len && !walk.is_given_up && !walk.is_stopped;) {
        size_t stars = walk.stars[now].count, literals = walk.literals[now].count;
        if (stars + literals == 0)
            break;
        if (stars == 0 && literals == 1) {
            at = run_literals(&walk, now, at);
            continue;
        }
        if (stars == 1 && literals == 0)
            at = run_star(&walk, now, at);
        if (at < value.len)
            step(&walk, &now, &at);
    }
    if (walk.is_given_up && !walk.is_stopped)
        try_each(&walk);
    return !walk.is_stopped;
}
