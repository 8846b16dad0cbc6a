// SPDX-License-Identifier: Apache-2.0
/* lua_command.c - a table of commands, by type of key. */
#include "support/lua_command.h"

#include <math.h>
#include <strings.h>

#include "support/unit.h"

#define WRONG_TYPE "WRONGTYPE Operation against a key holding the wrong kind of value"

struct run {
    struct data *data;
    const struct slice *words;
    size_t count;
    struct sink *sink;
};

static bool is_word(struct slice word, const char *name)
{
    return word.len == strlen(name) && strncasecmp(word.at, name, word.len) == 0;
}

/* A number as it stands; what is none ends the test, for the scripts write none. */
static int64_t integer_of(struct slice word)
{
    char digits[32], *end;
    assert_in_range(word.len, 1, sizeof digits - 1);
    memcpy(digits, word.at, word.len);
    digits[word.len] = '\0';
    long long value = strtoll(digits, &end, 10);
    if (*end != '\0')
        fail_msg("'%s' is no whole number", digits);
    return value;
}

static double double_of(struct slice word)
{
    char digits[64], *end;
    assert_in_range(word.len, 1, sizeof digits - 1);
    memcpy(digits, word.at, word.len);
    digits[word.len] = '\0';
    double value = strtod(digits, &end);
    if (*end != '\0')
        fail_msg("'%s' is no number", digits);
    return value;
}

static void reply_double(struct sink *sink, double value)
{
    char digits[40];
    int len = snprintf(digits, sizeof digits, "%.17g", value);
    sink->bulk(sink, (struct slice){ digits, (size_t)len });
}

/* The key of a command that wants a type. False: it has another one, and that is told. */
static bool find(struct run *run, enum data_type type, struct data_key **out)
{
    *out = data_find(run->data, run->words[1]);
    if (*out == NULL || (*out)->type == type)
        return true;
    run->sink->error(run->sink, WRONG_TYPE);
    return false;
}

static struct data_key *made(struct run *run, struct data_key *key, enum data_type type)
{
    return key != NULL ? key : data_make(run->data, run->words[1], type);
}

static void remove_if_empty(struct run *run, struct data_key *key)
{
    if (key->count == 0)
        data_remove(run->data, key);
}

/* ---- Any key ----------------------------------------------------------------------------------------------------- */

static void run_time(struct run *run)
{
    char digits[24];
    run->sink->array(run->sink, 2);
    int len = snprintf(digits, sizeof digits, "%lld", (long long)(run->data->now_us / 1000000));
    run->sink->bulk(run->sink, (struct slice){ digits, (size_t)len });
    len = snprintf(digits, sizeof digits, "%lld", (long long)(run->data->now_us % 1000000));
    run->sink->bulk(run->sink, (struct slice){ digits, (size_t)len });
}

static void run_del(struct run *run)
{
    int64_t removed = 0;
    for (size_t i = 1; i < run->count; i++) {
        struct data_key *key = data_find(run->data, run->words[i]);
        if (key == NULL)
            continue;
        data_remove(run->data, key);
        removed++;
    }
    run->sink->integer(run->sink, removed);
}

static void run_exists(struct run *run)
{
    int64_t there = 0;
    for (size_t i = 1; i < run->count; i++)
        there += data_find(run->data, run->words[i]) != NULL;
    run->sink->integer(run->sink, there);
}

static void run_pttl(struct run *run)
{
    const struct data_key *key = data_find(run->data, run->words[1]);
    int64_t left = -2;
    if (key != NULL)
        left = key->expires_at_ms < 0 ? -1 : key->expires_at_ms - run->data->now_us / 1000;
    run->sink->integer(run->sink, left);
}

static void run_pexpire(struct run *run)
{
    struct data_key *key = data_find(run->data, run->words[1]);
    int64_t length = integer_of(run->words[2]);
    if (key != NULL && length <= 0)
        data_remove(run->data, key);
    else if (key != NULL)
        key->expires_at_ms = run->data->now_us / 1000 + length;
    run->sink->integer(run->sink, key != NULL);
}

/* ---- Strings ------------------------------------------------------------------------------------------------------ */

static void run_get(struct run *run)
{
    struct data_key *key;
    if (!find(run, DATA_STRING, &key))
        return;
    if (key == NULL)
        run->sink->null(run->sink);
    else
        run->sink->bulk(run->sink, data_slice(&key->items[0].text));
}

static void run_set(struct run *run)
{
    int64_t length = INT64_MAX;
    bool is_new_only = false;
    for (size_t i = 3; i < run->count; i++) {
        if (is_word(run->words[i], "NX"))
            is_new_only = true;
        else if (is_word(run->words[i], "PX") && i + 1 < run->count)
            length = integer_of(run->words[++i]);
        else
            fail_msg("SET has no option '%.*s' here", (int)run->words[i].len, run->words[i].at);
    }
    if (length <= 0) {
        run->sink->error(run->sink, "ERR invalid expire time in 'set' command");
        return;
    }
    struct data_key *key = data_find(run->data, run->words[1]);
    if (key != NULL && is_new_only) {
        run->sink->null(run->sink);
        return;
    }
    if (key != NULL && key->type != DATA_STRING) {
        data_remove(run->data, key);
        key = NULL;
    }
    key = made(run, key, DATA_STRING);
    if (key->count == 0)
        (void)data_item_add(key, 0, run->words[2]);
    else
        data_bytes_set(&key->items[0].text, run->words[2]);
    key->expires_at_ms = length < INT64_MAX ? run->data->now_us / 1000 + length : -1;
    run->sink->status(run->sink, "OK");
}

/* ---- Lists -------------------------------------------------------------------------------------------------------- */

static void run_llen(struct run *run)
{
    struct data_key *key;
    if (find(run, DATA_LIST, &key))
        run->sink->integer(run->sink, key == NULL ? 0 : (int64_t)key->count);
}

static void run_lindex(struct run *run)
{
    struct data_key *key;
    if (!find(run, DATA_LIST, &key))
        return;
    int64_t place = integer_of(run->words[2]), len = key == NULL ? 0 : (int64_t)key->count;
    place += place < 0 ? len : 0;
    if (place < 0 || place >= len)
        run->sink->null(run->sink);
    else
        run->sink->bulk(run->sink, data_slice(&key->items[place].text));
}

/* The places that two words mean, as a beginning and a length. */
static void range_of(const struct run *run, size_t len, size_t *from, size_t *count)
{
    int64_t first = integer_of(run->words[2]), last = integer_of(run->words[3]), length = (int64_t)len;
    first += first < 0 ? length : 0;
    last += last < 0 ? length : 0;
    first = first < 0 ? 0 : first;
    last = last >= length ? length - 1 : last;
    *from = (size_t)first;
    *count = first > last ? 0 : (size_t)(last - first + 1);
}

static void run_lrange(struct run *run)
{
    struct data_key *key;
    size_t from, count;
    if (!find(run, DATA_LIST, &key))
        return;
    range_of(run, key == NULL ? 0 : key->count, &from, &count);
    run->sink->array(run->sink, count);
    for (size_t i = 0; i < count; i++)
        run->sink->bulk(run->sink, data_slice(&key->items[from + i].text));
}

static void run_ltrim(struct run *run)
{
    struct data_key *key;
    size_t from, count;
    if (!find(run, DATA_LIST, &key))
        return;
    if (key != NULL) {
        range_of(run, key->count, &from, &count);
        if (count == 0)
            from = key->count;
        data_items_remove(key, from + count, key->count - from - count);
        data_items_remove(key, 0, from);
        remove_if_empty(run, key);
    }
    run->sink->status(run->sink, "OK");
}

static void run_rpush(struct run *run)
{
    struct data_key *key;
    if (!find(run, DATA_LIST, &key))
        return;
    key = made(run, key, DATA_LIST);
    for (size_t i = 2; i < run->count; i++)
        (void)data_item_add(key, key->count, run->words[i]);
    run->sink->integer(run->sink, (int64_t)key->count);
}

static void run_rpop(struct run *run)
{
    struct data_key *key;
    if (!find(run, DATA_LIST, &key))
        return;
    if (key == NULL) {
        run->sink->null(run->sink);
        return;
    }
    run->sink->bulk(run->sink, data_slice(&key->items[key->count - 1].text));
    data_items_remove(key, key->count - 1, 1);
    remove_if_empty(run, key);
}

/* ---- Hashes ------------------------------------------------------------------------------------------------------- */

static void reply_field(struct run *run, struct data_key *key, struct slice field)
{
    const struct data_item *item = key == NULL ? NULL : data_item_find(key, field);
    if (item == NULL)
        run->sink->null(run->sink);
    else
        run->sink->bulk(run->sink, data_slice(&item->value));
}

static void run_hget(struct run *run)
{
    struct data_key *key;
    if (find(run, DATA_HASH, &key))
        reply_field(run, key, run->words[2]);
}

static void run_hmget(struct run *run)
{
    struct data_key *key;
    if (!find(run, DATA_HASH, &key))
        return;
    run->sink->array(run->sink, run->count - 2);
    for (size_t i = 2; i < run->count; i++)
        reply_field(run, key, run->words[i]);
}

static void run_hset(struct run *run)
{
    struct data_key *key;
    int64_t added = 0;
    if (run->count % 2 != 0) {
        run->sink->error(run->sink, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    if (!find(run, DATA_HASH, &key))
        return;
    key = made(run, key, DATA_HASH);
    for (size_t i = 2; i < run->count; i += 2) {
        struct data_item *item = data_item_find(key, run->words[i]);
        added += item == NULL;
        if (item == NULL)
            item = data_item_add(key, key->count, run->words[i]);
        data_bytes_set(&item->value, run->words[i + 1]);
    }
    run->sink->integer(run->sink, added);
}

static void remove_items(struct run *run, struct data_key *key)
{
    int64_t removed = 0;
    for (size_t i = 2; key != NULL && i < run->count; i++) {
        struct data_item *item = data_item_find(key, run->words[i]);
        if (item == NULL)
            continue;
        data_items_remove(key, (size_t)(item - key->items), 1);
        removed++;
    }
    if (key != NULL)
        remove_if_empty(run, key);
    run->sink->integer(run->sink, removed);
}

static void run_hdel(struct run *run)
{
    struct data_key *key;
    if (find(run, DATA_HASH, &key))
        remove_items(run, key);
}

static void run_hlen(struct run *run)
{
    struct data_key *key;
    if (find(run, DATA_HASH, &key))
        run->sink->integer(run->sink, key == NULL ? 0 : (int64_t)key->count);
}

static void run_hgetall(struct run *run)
{
    struct data_key *key;
    if (!find(run, DATA_HASH, &key))
        return;
    run->sink->array(run->sink, key == NULL ? 0 : 2 * key->count);
    for (size_t i = 0; key != NULL && i < key->count; i++) {
        run->sink->bulk(run->sink, data_slice(&key->items[i].text));
        run->sink->bulk(run->sink, data_slice(&key->items[i].value));
    }
}

/* ---- Sorted sets ---------------------------------------------------------------------------------------------------- */

static size_t zset_place(const struct data_key *key, double score, struct slice member)
{
    size_t place = 0;
    for (; place < key->count; place++) {
        const struct data_item *item = &key->items[place];
        if (item->score > score)
            break;
        if (item->score < score)
            continue;
        size_t len = item->text.len < member.len ? item->text.len : member.len;
        int order = memcmp(item->text.at, member.at, len);
        if (order > 0 || (order == 0 && item->text.len > member.len))
            break;
    }
    return place;
}

static void run_zadd(struct run *run)
{
    struct data_key *key;
    int64_t added = 0;
    if (!find(run, DATA_ZSET, &key))
        return;
    key = made(run, key, DATA_ZSET);
    for (size_t i = 2; i + 1 < run->count; i += 2) {
        double score = double_of(run->words[i]);
        struct data_item *item = data_item_find(key, run->words[i + 1]);
        added += item == NULL;
        if (item != NULL)
            data_items_remove(key, (size_t)(item - key->items), 1);
        data_item_add(key, zset_place(key, score, run->words[i + 1]), run->words[i + 1])->score = score;
    }
    run->sink->integer(run->sink, added);
}

static void run_zscore(struct run *run)
{
    struct data_key *key;
    if (!find(run, DATA_ZSET, &key))
        return;
    const struct data_item *item = key == NULL ? NULL : data_item_find(key, run->words[2]);
    if (item == NULL)
        run->sink->null(run->sink);
    else
        reply_double(run->sink, item->score);
}

static void run_zrem(struct run *run)
{
    struct data_key *key;
    if (find(run, DATA_ZSET, &key))
        remove_items(run, key);
}

/* The places whose scores lie within two words: 5, (5, -inf, +inf. */
static void scores_of(const struct run *run, const struct data_key *key, size_t *from, size_t *count)
{
    double bounds[2];
    bool is_open[2];
    for (size_t i = 0; i < 2; i++) {
        struct slice word = run->words[2 + i];
        is_open[i] = word.len > 0 && word.at[0] == '(';
        if (is_open[i])
            word = (struct slice){ word.at + 1, word.len - 1 };
        bounds[i] = is_word(word, "+inf") ? INFINITY : is_word(word, "-inf") ? -INFINITY : double_of(word);
    }
    size_t first = 0, end;
    while (first < key->count
           && (key->items[first].score < bounds[0] || (is_open[0] && key->items[first].score == bounds[0])))
        first++;
    for (end = first; end < key->count; end++)
        if (key->items[end].score > bounds[1] || (is_open[1] && key->items[end].score == bounds[1]))
            break;
    *from = first;
    *count = end - first;
}

static void run_zcount(struct run *run)
{
    struct data_key *key;
    size_t from, count = 0;
    if (!find(run, DATA_ZSET, &key))
        return;
    if (key != NULL)
        scores_of(run, key, &from, &count);
    run->sink->integer(run->sink, (int64_t)count);
}

static void reply_members(struct run *run, const struct data_key *key, size_t from, size_t count,
                          bool has_scores)
{
    run->sink->array(run->sink, has_scores ? 2 * count : count);
    for (size_t i = from; i < from + count; i++) {
        run->sink->bulk(run->sink, data_slice(&key->items[i].text));
        if (has_scores)
            reply_double(run->sink, key->items[i].score);
    }
}

static void run_zrange(struct run *run)
{
    struct data_key *key;
    size_t from, count;
    if (!find(run, DATA_ZSET, &key))
        return;
    bool has_scores = run->count == 5 && is_word(run->words[4], "WITHSCORES");
    assert_true(has_scores || run->count == 4);
    range_of(run, key == NULL ? 0 : key->count, &from, &count);
    reply_members(run, key, from, count, has_scores);
}

static void run_zrangebyscore(struct run *run)
{
    struct data_key *key;
    size_t from = 0, count = 0, skip = 0, most = SIZE_MAX;
    bool has_scores = false;
    if (!find(run, DATA_ZSET, &key))
        return;
    for (size_t i = 4; i < run->count; i++) {
        if (is_word(run->words[i], "WITHSCORES")) {
            has_scores = true;
        } else if (is_word(run->words[i], "LIMIT") && i + 2 < run->count) {
            skip = (size_t)integer_of(run->words[i + 1]);
            most = (size_t)integer_of(run->words[i + 2]);
            i += 2;
        } else {
            fail_msg("ZRANGEBYSCORE has no option '%.*s' here", (int)run->words[i].len, run->words[i].at);
        }
    }
    if (key != NULL)
        scores_of(run, key, &from, &count);
    skip = skip < count ? skip : count;
    count = count - skip < most ? count - skip : most;
    reply_members(run, key, from + skip, count, has_scores);
}

static void run_zremrangebyscore(struct run *run)
{
    struct data_key *key;
    size_t from, count = 0;
    if (!find(run, DATA_ZSET, &key))
        return;
    if (key != NULL) {
        scores_of(run, key, &from, &count);
        data_items_remove(key, from, count);
        remove_if_empty(run, key);
    }
    run->sink->integer(run->sink, (int64_t)count);
}

/* ---- The table -------------------------------------------------------------------------------------------------------- */

static const struct command {
    const char *name;
    size_t least; /* words */
    enum { NO_KEYS, ONE_KEY, ALL_KEYS } keys;
    void (*run)(struct run *run);
} commands[] = {
    /* clang-format off */
    { "TIME", 1, NO_KEYS, run_time },
    { "GET", 2, ONE_KEY, run_get },
    { "SET", 3, ONE_KEY, run_set },
    { "DEL", 2, ALL_KEYS, run_del },
    { "EXISTS", 2, ALL_KEYS, run_exists },
    { "PTTL", 2, ONE_KEY, run_pttl },
    { "PEXPIRE", 3, ONE_KEY, run_pexpire },
    { "LLEN", 2, ONE_KEY, run_llen },
    { "LINDEX", 3, ONE_KEY, run_lindex },
    { "LRANGE", 4, ONE_KEY, run_lrange },
    { "LTRIM", 4, ONE_KEY, run_ltrim },
    { "RPUSH", 3, ONE_KEY, run_rpush },
    { "RPOP", 2, ONE_KEY, run_rpop },
    { "HGET", 3, ONE_KEY, run_hget },
    { "HMGET", 3, ONE_KEY, run_hmget },
    { "HSET", 4, ONE_KEY, run_hset },
    { "HDEL", 3, ONE_KEY, run_hdel },
    { "HLEN", 2, ONE_KEY, run_hlen },
    { "HGETALL", 2, ONE_KEY, run_hgetall },
    { "ZADD", 4, ONE_KEY, run_zadd },
    { "ZSCORE", 3, ONE_KEY, run_zscore },
    { "ZREM", 3, ONE_KEY, run_zrem },
    { "ZCOUNT", 4, ONE_KEY, run_zcount },
    { "ZRANGE", 4, ONE_KEY, run_zrange },
    { "ZRANGEBYSCORE", 4, ONE_KEY, run_zrangebyscore },
    { "ZREMRANGEBYSCORE", 4, ONE_KEY, run_zremrangebyscore },
    /* clang-format on */
};

static const struct command *command_of(struct slice name)
{
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (is_word(name, commands[i].name))
            return &commands[i];
    return NULL;
}

bool command_run(struct data *data, const struct slice *words, size_t count, struct sink *sink)
{
    const struct command *command = command_of(words[0]);
    if (command == NULL)
        return false;
    if (count < command->least)
        fail_msg("%s has %zu words", command->name, count);
    struct run run = { data, words, count, sink };
    command->run(&run);
    return true;
}

void command_keys(const struct slice *words, size_t count, void (*each)(void *context, struct slice key),
                  void *context)
{
    const struct command *command = command_of(words[0]);
    size_t end = command == NULL || command->keys == NO_KEYS ? 1 : command->keys == ONE_KEY ? 2 : count;
    for (size_t i = 1; i < end; i++)
        each(context, words[i]);
}
