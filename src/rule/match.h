// SPDX-License-Identifier: Apache-2.0
/*
 * match.h - which limits a request meets, at the cost of the limits that it does meet.
 *
 * Each limit is filed under the one condition that fewest others share: its globs in a trie of its attribute,
 * exact values included; its networks in a hash by prefix; or the mere presence or absence of an attribute. A
 * request looks its own values up and then verifies only the limits it found there.
 *
 * An attribute is a number, given by the caller, from 0 to MATCH_ATTRIBUTES_MAX - 1; its value is a slice whose len
 * is 0 when the request lacks it. Attributes with networks (`ip`) are compared by one parsed address.
 */
#ifndef WEIR_RULE_MATCH_H
#define WEIR_RULE_MATCH_H

#include "rule/address.h"
#include "rule/glob.h"

#define MATCH_ATTRIBUTES_MAX 1024

enum condition_kind {
    CONDITION_GLOBS,    /* the value matches one of the patterns */
    CONDITION_NETWORKS, /* the request's address is in one of the networks */
    CONDITION_PRESENT,
    CONDITION_ABSENT,
};

/*
 * One entry of `when`. `is_negated` turns GLOBS and NETWORKS round and then also holds where the attribute is
 * absent: a caller must not leave the limit by leaving the header out.
 */
struct condition {
    unsigned attribute;
    enum condition_kind kind;
    bool is_negated;
    enum glob_dialect dialect;    /* of patterns: GLOB_PATH for `path` */
    const struct slice *patterns; /* checked by glob_check() */
    size_t pattern_count;
    const struct network *networks;
    size_t network_count;
};

/*
 * One limit's `when`: all conditions must hold; none: every request. A limit with `missing-key: skip` may add a
 * CONDITION_PRESENT per key attribute, then only limits that apply are found.
 */
struct condition_list {
    const struct condition *conditions;
    size_t count;
};

struct matcher;

/* Build; everything is copied, so the lists are borrowed. 0 or WEIR_ERR_MEMORY. Free with matcher_free() (NULL too). */
int matcher_new(struct matcher **out, const struct condition_list *limits, size_t limit_count);
void matcher_free(struct matcher *matcher);

/*
 * Find the limits that the request meets.
 *
 *   values  by attribute number, at least as many as the highest number in a condition + 1; each at most 1024 bytes.
 *   ip      the whole address, not its group; NULL where the request has none (or one that is no address).
 *   out     limit numbers (index into matcher_new's list), ascending, each once; room for `max`.
 *
 * Returns how many, or max + 1 when there are more than max (out is then worth nothing).
 * Threads: any number; writes nothing but *out, allocates nothing, uses some 4 KB of stack.
 * Cost: see match.c; bounded for any value and any pattern.
 */
size_t matcher_find(const struct matcher *matcher, const struct slice *values, const struct address *ip,
                    uint32_t *out, size_t max);

/* Whether one condition holds, without an index: for explain ("why does this limit not apply") and for tests. */
bool condition_holds(const struct condition *condition, const struct slice *values, const struct address *ip);

#endif
