// SPDX-License-Identifier: Apache-2.0
/* lua_data.c - rows of keys, each a row of items. */
#include "support/lua_data.h"

#include <stdlib.h>

#include "support/unit.h"

static void *resized(void *at, size_t bytes)
{
    void *to = realloc(at, bytes);
    assert_non_null(to);
    return to;
}

void data_bytes_set(struct data_bytes *bytes, struct slice from)
{
    if (from.len > bytes->room) {
        bytes->room = from.len < 16 ? 16 : from.len;
        bytes->at = resized(bytes->at, bytes->room);
    }
    if (from.len > 0)
        memcpy(bytes->at, from.at, from.len);
    bytes->len = from.len;
}

static bool is_same(const struct data_bytes *bytes, struct slice text)
{
    return bytes->len == text.len && (text.len == 0 || memcmp(bytes->at, text.at, text.len) == 0);
}

static void free_item(struct data_item *item)
{
    free(item->text.at);
    free(item->value.at);
}

static void free_key(struct data_key *key)
{
    for (size_t i = 0; i < key->count; i++)
        free_item(&key->items[i]);
    free(key->items);
    free(key->name.at);
}

struct data_key *data_find(struct data *data, struct slice name)
{
    for (size_t i = 0; i < data->count; i++) {
        struct data_key *key = &data->keys[i];
        if (!is_same(&key->name, name))
            continue;
        if (key->expires_at_ms < 0 || data->now_us / 1000 <= key->expires_at_ms)
            return key;
        data_remove(data, key);
        return NULL;
    }
    return NULL;
}

struct data_key *data_make(struct data *data, struct slice name, enum data_type type)
{
    if (data->count == data->room) {
        data->room = data->room * 2 + 8;
        data->keys = resized(data->keys, data->room * sizeof *data->keys);
    }
    struct data_key *key = &data->keys[data->count++];
    *key = (struct data_key){ .type = type, .expires_at_ms = -1 };
    data_bytes_set(&key->name, name);
    return key;
}

void data_remove(struct data *data, struct data_key *key)
{
    free_key(key);
    *key = data->keys[--data->count];
}

struct data_item *data_item_find(struct data_key *key, struct slice text)
{
    for (size_t i = 0; i < key->count; i++)
        if (is_same(&key->items[i].text, text))
            return &key->items[i];
    return NULL;
}

struct data_item *data_item_add(struct data_key *key, size_t place, struct slice text)
{
    if (key->count == key->room) {
        key->room = key->room * 2 + 1;
        key->items = resized(key->items, key->room * sizeof *key->items);
    }
    struct data_item *item = &key->items[place];
    memmove(item + 1, item, (key->count - place) * sizeof *item);
    key->count++;
    *item = (struct data_item){ 0 };
    data_bytes_set(&item->text, text);
    return item;
}

void data_items_remove(struct data_key *key, size_t place, size_t count)
{
    for (size_t i = place; i < place + count; i++)
        free_item(&key->items[i]);
    memmove(&key->items[place], &key->items[place + count], (key->count - place - count) * sizeof *key->items);
    key->count -= count;
}

void data_clear(struct data *data)
{
    for (size_t i = 0; i < data->count; i++)
        free_key(&data->keys[i]);
    free(data->keys);
    *data = (struct data){ .now_us = data->now_us };
}

void data_copy(struct data *to, const struct data *from)
{
    if (to->now_us == 0)
        to->now_us = from->now_us;
    data_clear(to);
    for (size_t i = 0; i < from->count; i++) {
        const struct data_key *key = &from->keys[i];
        struct data_key *copy = data_make(to, data_slice(&key->name), key->type);
        copy->expires_at_ms = key->expires_at_ms;
        for (size_t j = 0; j < key->count; j++) {
            struct data_item *item = data_item_add(copy, j, data_slice(&key->items[j].text));
            data_bytes_set(&item->value, data_slice(&key->items[j].value));
            item->score = key->items[j].score;
        }
    }
}
