// SPDX-License-Identifier: Apache-2.0
/*
 * spent.c - a list of sums by limit and key. Limits are kept by their names: their ids change with the contract.
 */
#include "sim/spent.h"

#include <stdlib.h>
#include <string.h>

struct spent_sum {
    char limit[WEIR_NAME_MAX + 1];
    unsigned char key[WEIR_SHARED_KEY_MAX];
    size_t key_len;
    uint64_t cost;
};

struct spent {
    struct spent_sum *sums;
    size_t count, cap;
};

static struct spent_sum *find_sum(const struct spent *spent, const char *limit,
                                  const struct weir_shared_ask *ask)
{
    for (size_t i = 0; i < spent->count; i++) {
        struct spent_sum *sum = &spent->sums[i];
        if (sum->key_len == ask->key_len && memcmp(sum->key, ask->key, ask->key_len) == 0
            && strcmp(sum->limit, limit) == 0)
            return sum;
    }
    return NULL;
}

static struct spent_sum *add_sum(struct spent *spent, const char *limit, const struct weir_shared_ask *ask)
{
    if (spent->count == spent->cap) {
        size_t cap = spent->cap == 0 ? 8 : 2 * spent->cap;
        struct spent_sum *larger = cap > SPENT_KEYS_MAX ? NULL : realloc(spent->sums, cap * sizeof *larger);
        if (larger == NULL)
            return NULL;
        spent->sums = larger;
        spent->cap = cap;
    }
    struct spent_sum *sum = &spent->sums[spent->count++];
    *sum = (struct spent_sum){ .key_len = ask->key_len };
    (void)snprintf(sum->limit, sizeof sum->limit, "%s", limit); /* names are short */
    memcpy(sum->key, ask->key, ask->key_len);
    return sum;
}

bool spent_add(struct spent **spent, const struct weir_contract_limit *limits,
               const struct weir_shared_ask *ask)
{
    if (*spent == NULL)
        *spent = calloc(1, sizeof **spent);
    if (*spent == NULL)
        return false;
    struct spent_sum *sum = find_sum(*spent, limits[ask->limit].name, ask);
    if (sum == NULL)
        sum = add_sum(*spent, limits[ask->limit].name, ask);
    if (sum == NULL)
        return false;
    sum->cost = ask->cost > INT64_MAX - sum->cost ? INT64_MAX : sum->cost + ask->cost;
    return true;
}

void spent_charge(struct spent **spent, const struct stand_in *store, weir_ns now)
{
    const struct weir *weir = weir_contract_limiter(stand_in_contract(store));
    for (size_t i = 0; *spent != NULL && i < (*spent)->count; i++) {
        const struct spent_sum *sum = &(*spent)->sums[i];
        const struct weir_shared_ask ask = { .limit = weir_limit_find(weir, sum->limit),
                                             .key = sum->key,
                                             .key_len = sum->key_len };
        if (ask.limit != WEIR_NO_LIMIT)
            stand_in_spend(store, &ask, sum->cost, now);
    }
    spent_free(spent);
}

void spent_free(struct spent **spent)
{
    if (*spent != NULL)
        free((*spent)->sums);
    free(*spent);
    *spent = NULL;
}
