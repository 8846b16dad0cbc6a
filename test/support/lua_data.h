// SPDX-License-Identifier: Apache-2.0
/*
 * lua_data.h - the keys of the in-process store (lua_store.h): strings, lists, hashes, sorted sets, and when they expire.
 *
 * Idea: one shape for all four: a row of items. A string has one item; of a hash's items `text` is the field and `value` what stands
 * there, in the order in which fields came; of a sorted set `text` is the member, by score and bytes. A simulator has a handful of
 * keys, so all is looked through, and a copy of the whole is cheap: it goes back to an earlier state by one assignment.
 *
 * Time is the caller's: now_us, Unix time by the store's clock. What is over is forgotten when it is looked for, as in Redis.
 */
#ifndef WEIR_TEST_LUA_DATA_H
#define WEIR_TEST_LUA_DATA_H

#include "base/bytes.h"

enum data_type { DATA_STRING, DATA_LIST, DATA_HASH, DATA_ZSET };

/* Bytes of our own; zeroed: empty. */
struct data_bytes {
    char *at;
    size_t len, room;
};

struct data_item {
    struct data_bytes text, value;
    double score;
};

struct data_key {
    struct data_bytes name;
    enum data_type type;
    int64_t expires_at_ms; /* -1: never */
    struct data_item *items;
    size_t count, room;
};

struct data {
    struct data_key *keys;
    size_t count, room;
    int64_t now_us;
};

static inline struct slice data_slice(const struct data_bytes *bytes)
{
    return (struct slice){ bytes->at, bytes->len };
}
void data_bytes_set(struct data_bytes *bytes, struct slice from);

/* NULL: there is none, or it has expired. Keys move when another one is made or removed. */
struct data_key *data_find(struct data *data, struct slice name);
/* Where there is none. Its items are none yet. */
struct data_key *data_make(struct data *data, struct slice name, enum data_type type);
void data_remove(struct data *data, struct data_key *key);

/* Items move when others are added or removed. */
struct data_item *data_item_find(struct data_key *key, struct slice text);
struct data_item *data_item_add(struct data_key *key, size_t place, struct slice text);
void data_items_remove(struct data_key *key, size_t place, size_t count);

/* `to` is zeroed or a state of before. The clock goes with it only into a zeroed one. */
void data_copy(struct data *to, const struct data *from);
void data_clear(struct data *data);

#endif
