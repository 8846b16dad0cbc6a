// SPDX-License-Identifier: Apache-2.0
/* attributes.c - which number an attribute's name has. Names come from the contract; a request only looks them up. */
#include "rule/contract.h"

bool attribute_name_is_valid(struct slice name)
{
    if (name.len == 0 || name.len > WEIR_ATTRIBUTE_NAME_MAX || name.at[0] < 'a' || name.at[0] > 'z')
        return false;
    for (size_t i = 1; i < name.len; i++) {
        char c = name.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return true;
}

/* Eight bytes at a time. A caller's names cannot fill the table, so the hash need not be keyed. */
static size_t bucket_of(struct slice name)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 by the golden ratio (Knuth, TAOCP 3, 6.4) */
    uint64_t hash = name.len;
    size_t at = 0;
    for (; name.len - at >= 8; at += 8) {
        hash = (hash ^ load_le64(name.at + at)) * odd;
        hash ^= hash >> 32;
    }
    hash = (hash ^ load_le_short(name.at + at, name.len - at)) * odd;
    return (hash >> 32) % ATTRIBUTE_BUCKETS;
}

/* The bucket of the name, or the empty one where it would go. */
static size_t probe(const struct attribute_table *table, struct slice name)
{
    size_t bucket = bucket_of(name);
    while (table->buckets[bucket] != 0 && !slice_equals(table->slots[table->buckets[bucket] - 1].name, name))
        bucket = (bucket + 1) % ATTRIBUTE_BUCKETS;
    return bucket;
}

unsigned attribute_find(const struct attribute_table *table, struct slice name)
{
    uint16_t entry = table->buckets[probe(table, name)];
    return entry == 0 ? ATTRIBUTE_NONE : entry - 1u;
}

static enum spelling spelling_of(struct slice name)
{
    if (slice_equals(name, SLICE("path")))
        return SPELLING_PATH;
    if (slice_equals(name, SLICE("host")))
        return SPELLING_HOST;
    return slice_equals(name, SLICE("ip")) ? SPELLING_IP : SPELLING_RAW;
}

unsigned attribute_claim(struct attribute_table *table, struct slice name)
{
    size_t bucket = probe(table, name);
    if (table->buckets[bucket] != 0)
        return table->buckets[bucket] - 1u;
    if (table->count == MATCH_ATTRIBUTES_MAX)
        return ATTRIBUTE_NONE;
    table->slots[table->count] = (struct attribute_slot){ name, spelling_of(name) };
    table->buckets[bucket] = (uint16_t)++table->count;
    return (unsigned)table->count - 1;
}
