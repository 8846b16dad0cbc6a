// SPDX-License-Identifier: Apache-2.0
/*
 * test_lua_store.c - the store of the simulator against a real one: the same commands, the same bytes back, the same values left.
 *
 * Time goes as the call's own (has_time), or by the store's clock: then both are asked through a few lines in front of the script
 * that answer TIME with what the test says.
 */
#include "support/lua_store.h"

#include "fleet/script_inside.h"
#include "support/random.h"
#include "support/redis_server.h"
#include "support/unit.h"

#define WALL_US INT64_C(1700000000000000)
#define CALLS 4000
#define KEYS 2 /* of each limit */

static struct redis_server redis;

/* ---- Limits ------------------------------------------------------------------------------------------------------- */

static const struct kind {
    const char *why;
    struct weir_limit limit;
    struct weir_shared_size size;
    struct weir_lease lease;
} kinds[] = {
    /* clang-format off */
    { "a bucket with a remainder", { .name = "a", .algorithm = WEIR_TOKEN_BUCKET },
      { WEIR_MICROSECOND, 20, 0, 7, 3000000, false }, { 0 } },
    { "leased", { .name = "b", .algorithm = WEIR_TOKEN_BUCKET },
      { WEIR_MICROSECOND, 80, 0, 1, 10000, false }, { 30, 10, WEIR_SECOND } },
    { "a slow one in ms, leased, empty after a loss", { .name = "c", .algorithm = WEIR_TOKEN_BUCKET, .state_lost = WEIR_LOST_EMPTY },
      { WEIR_MILLISECOND, 12, 0, 3, 86400000, false }, { 12, 5, 2 * WEIR_SECOND } },
    { "with debt, refusals charged", { .name = "d", .algorithm = WEIR_TOKEN_BUCKET, .refused = WEIR_REFUSAL_CHARGED },
      { WEIR_MICROSECOND, 10, 5, 2, 1000000, false }, { 0 } },
    { "windows of epoch, leased", { .name = "e", .algorithm = WEIR_FIXED_WINDOW },
      { WEIR_MICROSECOND, 40, 0, 0, 3000000, false }, { 20, 8, WEIR_SECOND } },
    { "windows from the first request, leased", { .name = "f", .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_FIRST_REQUEST },
      { WEIR_MICROSECOND, 15, 0, 1, 2500000, false }, { 9, 4, WEIR_SECOND } },
    { "days", { .name = "g", .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_CALENDAR, .calendar = WEIR_CALENDAR_DAY, .zone = "UTC" },
      { WEIR_MICROSECOND, 200, 0, 0, 0, false }, { 50, 20, WEIR_SECOND } },
    { "a sliding window", { .name = "h", .algorithm = WEIR_SLIDING_WINDOW },
      { WEIR_MICROSECOND, 30, 0, 0, 2000000, false }, { 0 } },
    { "a log", { .name = "i", .algorithm = WEIR_SLIDING_LOG },
      { WEIR_MICROSECOND, 9, 0, 0, 1500000, false }, { 0 } },
    { "permits", { .name = "j", .algorithm = WEIR_CONCURRENCY },
      { WEIR_MICROSECOND, 5, 0, 0, 900000, false }, { 0 } },
    { "retries are free", { .name = "k", .algorithm = WEIR_TOKEN_BUCKET, .retries_free_within = 3 * WEIR_SECOND },
      { WEIR_MICROSECOND, 6, 0, 1, 700000, false }, { 0 } },
    /* clang-format on */
};

/* ---- Both are asked ------------------------------------------------------------------------------------------------ */

/* By the store's clock, as the test says it: the last argument. Keys live an hour longer, for the server's own clock goes on. */
static const char pinned[] =
    "local real, till = redis, table.remove(ARGV)\n"
    "local redis = { pcall = real.pcall, call = function(name, ...)\n"
    "  if name == 'TIME' then return { string.sub(till, 1, -7), string.sub(till, -6) } end\n"
    "  local words = { ... }\n"
    "  if name == 'SET' and words[3] == 'PX' then words[4] = words[4] + 3600000 end\n"
    "  if name == 'PEXPIRE' then words[2] = words[2] + 3600000 end\n"
    "  return real.call(name, unpack(words))\n"
    "end }\n";

struct twins {
    struct random random;
    struct lua_store *store;
    int64_t now_us;
    size_t asked, errors, granted;
    struct {
        char id[SCRIPT_ID_LEN], record[64];
        struct script_item items[2];
        size_t count;
        enum script_verb verb;
    } kept[8]; /* reservations and permits, and the last decisions */
    size_t kept_count;
    struct script_call last;
    struct script_item last_items[2];
    struct script_answer last_answers[2];
    bool has_last;
    uint64_t seq;
};

static struct slice text_of_hash(struct slice hash)
{
    for (size_t i = 0; i < SCRIPT_NAME_COUNT; i++) {
        const struct script_source *source = script_source((enum script_name)i);
        if (hash.len == SHA1_HEX_LEN && memcmp(source->hash, hash.at, hash.len) == 0)
            return source->text;
    }
    fail_msg("no script of ours has this name");
    return (struct slice){ 0 };
}

/* The same command with its script told what time it is. */
static void pin(struct slice command, int64_t now_us, struct text *out)
{
    struct resp_reader reader = resp_reader_of(command.at, command.len);
    struct resp_value head, word;
    char clock[24];
    assert_true(resp_next(&reader, &head) && resp_next(&reader, &word) && resp_next(&reader, &word));
    struct slice text = text_of_hash(word.text);
    resp_put_array(out, head.count + 1);
    resp_put_bulk(out, SLICE("EVAL"));
    static char whole[SCRIPT_TEXT_MAX + sizeof pinned];
    (void)snprintf(whole, sizeof whole, "%s%.*s", pinned, (int)text.len, text.at);
    resp_put_bulk(out, slice_of(whole));
    for (uint32_t i = 2; i < head.count; i++) {
        assert_true(resp_next(&reader, &word));
        resp_put_bulk(out, word.text);
    }
    int len = snprintf(clock, sizeof clock, "%lld", (long long)now_us);
    resp_put_bulk(out, (struct slice){ clock, (size_t)len });
}

static struct slice ask_both(struct twins *twins, struct slice command)
{
    struct slice ours = lua_store_ask(twins->store, command), theirs = redis_ask(&redis, command);
    if (!slice_equals(ours, theirs))
        fail_msg("call %zu:\nours   %.*s\ntheirs %.*s", twins->asked, (int)ours.len, ours.at, (int)theirs.len,
                 theirs.at);
    twins->asked++;
    twins->errors += ours.len > 0 && ours.at[0] == '-';
    return ours;
}

static void check_same_values(struct twins *twins)
{
    char room[4096];
    const struct data *data = lua_store_data(twins->store);
    for (size_t i = 0; i < data->count; i++) {
        const struct data_key *key = &data->keys[i];
        static const char *const readers[] = {
            [DATA_STRING] = "GET", [DATA_LIST] = "LRANGE", [DATA_HASH] = "HGETALL", [DATA_ZSET] = "ZRANGE"
        };
        bool has_range = key->type == DATA_LIST || key->type == DATA_ZSET;
        struct text text = text_of(room, sizeof room);
        resp_put_array(&text, 2 + (has_range ? 2 : 0) + (key->type == DATA_ZSET));
        resp_put_bulk(&text, slice_of(readers[key->type]));
        resp_put_bulk(&text, data_slice(&key->name));
        if (has_range) {
            resp_put_bulk(&text, SLICE("0"));
            resp_put_bulk(&text, SLICE("-1"));
        }
        if (key->type == DATA_ZSET)
            resp_put_bulk(&text, SLICE("WITHSCORES"));
        assert_false(text.is_cut);
        (void)ask_both(twins, text_slice(&text));
    }
}

/* ---- Random calls --------------------------------------------------------------------------------------------------- */

static uint64_t below(struct twins *twins, uint64_t bound)
{
    return random_below(&twins->random, bound);
}

static struct slice key_name(size_t kind, size_t key)
{
    static char names[COUNT_OF(kinds)][KEYS][32];
    char *name = names[kind][key];
    (void)snprintf(name, sizeof names[0][0], "weir:1:{t=%zu}:%s:b", key, kinds[kind].limit.name);
    return slice_of(name);
}

static struct script_item item_of(struct twins *twins, size_t kind, size_t key)
{
    static char retries[2][32];
    const struct kind *of = &kinds[kind];
    uint64_t most = of->size.capacity;
    uint64_t costs[] = { 1, 1, 1, 2, 0, most / 3, most, most + 1 };
    struct script_item item = { .name = key_name(kind, key),
                                .limit = &of->limit,
                                .size = of->size,
                                .lease = of->lease,
                                .cost = costs[below(twins, COUNT_OF(costs))],
                                .is_watched = below(twins, 12) == 0,
                                .is_estimate = below(twins, 4) == 0 };
    if (below(twins, 40) == 0 && of->size.count > 0)
        item.size.count++; /* another rate */
    if (of->limit.retries_free_within > 0) {
        char *retry = retries[key];
        (void)snprintf(retry, sizeof retries[0], "weir:1:{t=%zu}:r:%u", key, (unsigned)below(twins, 3));
        item.retry = slice_of(retry);
    }
    return item;
}

static void start_call(struct twins *twins, struct script_call *call, bool has_time)
{
    call->wall_us = (uint64_t)twins->now_us;
    call->has_time = has_time;
    call->incarnation = (struct incarnation){ 1, (uint64_t)WALL_US - 5000000 };
}

/* Asks by the call's time or by the store's. */
static struct slice ask(struct twins *twins, struct text *text, bool has_time)
{
    static char room[SCRIPT_COMMAND_MAX * 2];
    assert_false(text->is_cut);
    if (has_time)
        return ask_both(twins, text_slice(text));
    struct text out = text_of(room, sizeof room);
    pin(text_slice(text), twins->now_us, &out);
    assert_false(out.is_cut);
    return ask_both(twins, text_slice(&out));
}

static char room[SCRIPT_COMMAND_MAX];

static void decide(struct twins *twins)
{
    struct script_item items[2];
    struct slice why;
    bool has_time = below(twins, 2) == 0;
    static char id[SCRIPT_ID_LEN + 1], record[64];
    struct script_call call = { .items = items, .count = 1 + below(twins, 2), .hold = 2 * WEIR_SECOND };
    size_t key = below(twins, KEYS), kind = below(twins, COUNT_OF(kinds));
    items[0] = item_of(twins, kind, key);
    items[1] = item_of(twins, (kind + 1 + below(twins, COUNT_OF(kinds) - 1)) % COUNT_OF(kinds), key);
    call.verb = (enum script_verb)(below(twins, 3) == 0 ? below(twins, 4) : SCRIPT_TAKE);
    (void)snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)random_u64(&twins->random),
                   (unsigned long long)random_u64(&twins->random));
    (void)snprintf(record, sizeof record, "weir:1:{t=%zu}:~v:%.8s", key, id);
    call.id = slice_of(id);
    call.record = slice_of(record);
    start_call(twins, &call, has_time);
    struct text text = text_of(room, sizeof room);
    assert_true(script_put_decide(&text, SCRIPT_BY_HASH, &call));
    struct slice reply = ask(twins, &text, has_time);
    twins->has_last = script_read_decide(reply, &call, twins->last_answers, &why);
    twins->last = call;
    memcpy(twins->last_items, items, sizeof items);
    twins->last.items = twins->last_items;
    if (call.verb == SCRIPT_RESERVE || call.verb == SCRIPT_ACQUIRE) {
        size_t place = twins->kept_count++ % COUNT_OF(twins->kept);
        memcpy(twins->kept[place].id, id, SCRIPT_ID_LEN);
        memcpy(twins->kept[place].record, record, sizeof record);
        memcpy(twins->kept[place].items, items, sizeof items);
        twins->kept[place].count = call.count;
        twins->kept[place].verb = call.verb;
    }
}

static void undo(struct twins *twins)
{
    bool has_time = below(twins, 2) == 0;
    struct text text = text_of(room, sizeof room);
    if (!twins->has_last)
        return;
    start_call(twins, &twins->last, has_time);
    assert_true(script_put_undo(&text, SCRIPT_BY_HASH, &twins->last, twins->last_answers));
    (void)ask(twins, &text, has_time);
}

/* What was kept before: settled, cancelled, renewed, returned. */
static void end_kept(struct twins *twins)
{
    if (twins->kept_count == 0)
        return;
    size_t count = twins->kept_count < COUNT_OF(twins->kept) ? twins->kept_count : COUNT_OF(twins->kept);
    size_t place = below(twins, count);
    bool has_time = below(twins, 2) == 0;
    struct script_call call = { .items = twins->kept[place].items,
                                .count = twins->kept[place].count,
                                .id = { twins->kept[place].id, SCRIPT_ID_LEN },
                                .record = slice_of(twins->kept[place].record),
                                .verb = twins->kept[place].verb };
    struct text text = text_of(room, sizeof room);
    if (call.verb == SCRIPT_ACQUIRE && twins->kept[place].items[0].limit->algorithm != WEIR_CONCURRENCY)
        return; /* permits alone are renewed and returned */
    call.count = call.verb == SCRIPT_ACQUIRE ? 1 : call.count;
    start_call(twins, &call, has_time);
    if (call.verb == SCRIPT_RESERVE)
        assert_true(script_put_settle(&text, SCRIPT_BY_HASH, &call, below(twins, 3) == 0, below(twins, 30)));
    else if (below(twins, 2) == 0)
        assert_true(script_put_renew(&text, SCRIPT_BY_HASH, &call));
    else
        assert_true(script_put_release(&text, SCRIPT_BY_HASH, &call));
    (void)ask(twins, &text, has_time);
}

static void give_or_spend(struct twins *twins)
{
    bool has_time = below(twins, 2) == 0;
    struct script_item item = item_of(twins, below(twins, COUNT_OF(kinds)), below(twins, KEYS));
    item.retry = (struct slice){ 0 };
    struct script_call call = { .items = &item, .count = 1 };
    struct text text = text_of(room, sizeof room);
    start_call(twins, &call, has_time);
    if (below(twins, 2) == 0)
        assert_true(script_put_refund(&text, SCRIPT_BY_HASH, &call));
    else
        assert_true(script_put_spend(&text, SCRIPT_BY_HASH, &call));
    (void)ask(twins, &text, has_time);
}

static void lease(struct twins *twins)
{
    struct script_lease leases[2];
    struct script_lease_answer answers[2];
    struct slice why;
    bool has_time = below(twins, 2) == 0;
    size_t key = below(twins, KEYS), kind = below(twins, COUNT_OF(kinds));
    struct script_lease_call call = { .leases = leases,
                                      .run = 1 + below(twins, 4),
                                      .label = SLICE("replica:1"),
                                      .wall_us = (uint64_t)twins->now_us };
    call.has_time = has_time;
    call.incarnation = (struct incarnation){ 1, (uint64_t)WALL_US - 5000000 };
    for (size_t i = 0; i < COUNT_OF(kinds) && call.count < 2; i++) {
        size_t place = (kind + i) % COUNT_OF(kinds);
        const struct kind *of = &kinds[place];
        if (of->lease.most == 0)
            continue;
        struct script_lease *one = &leases[call.count++];
        *one = (struct script_lease){
            .name = key_name(place, key), .limit = &of->limit, .size = of->size, .lease = of->lease
        };
        one->seq = below(twins, 10) > 0 ? ++twins->seq : 1 + below(twins, twins->seq + 1);
        one->used = below(twins, 6);
        one->give = below(twins, 3) == 0 ? below(twins, 6) : 0;
        one->want = below(twins, 12);
    }
    struct text text = text_of(room, sizeof room);
    assert_true(script_put_lease(&text, SCRIPT_BY_HASH, &call));
    struct slice reply = ask(twins, &text, has_time);
    if (script_read_lease(reply, &call, answers, &why))
        for (size_t i = 0; i < call.count; i++)
            twins->granted += answers[i].granted;
}

/* Keys that are gone, or none of ours. */
static void damage(struct twins *twins)
{
    struct slice name = key_name(below(twins, COUNT_OF(kinds)), below(twins, KEYS));
    struct text text = text_of(room, sizeof room);
    static const struct {
        const char *words[5];
        uint32_t count;
    } rows[] = { { { "DEL", NULL }, 2 },
                 { { "SET", NULL, "rubbish", "PX", "50000" }, 5 },
                 { { "ZADD", NULL, "1", "member" }, 4 },
                 { { "HSET", NULL, "field", "value" }, 4 } };
    size_t row = below(twins, COUNT_OF(rows));
    if (row > 1) { /* of another type: on both sides it may be there already */
        resp_put_array(&text, 2);
        resp_put_bulk(&text, SLICE("DEL"));
        resp_put_bulk(&text, name);
        (void)ask_both(twins, text_slice(&text));
        text = text_of(room, sizeof room);
    }
    resp_put_array(&text, rows[row].count);
    for (uint32_t i = 0; i < rows[row].count; i++)
        resp_put_bulk(&text, i == 1 ? name : slice_of(rows[row].words[i]));
    (void)ask_both(twins, text_slice(&text));
    text = text_of(room, sizeof room);
    resp_put_array(&text, 3);
    resp_put_bulk(&text, SLICE("PEXPIRE"));
    resp_put_bulk(&text, name);
    resp_put_bulk(&text, SLICE("50000"));
    (void)ask_both(twins, text_slice(&text));
}

static void step(struct twins *twins)
{
    static void (*const calls[])(struct twins * twins) = { decide, decide, decide,   decide,       lease,
                                                           lease,  undo,   end_kept, give_or_spend };
    static const uint64_t waits[] = { 1, 10, 999, 10000, 300000, 1500000 };
    twins->now_us += (int64_t)below(twins, waits[below(twins, COUNT_OF(waits))] + 1);
    if (below(twins, 100) == 0)
        twins->now_us +=
            below(twins, 2) == 0 ? -(int64_t)below(twins, 3000000) : (int64_t)below(twins, 60000000);
    if (below(twins, 60) == 0)
        damage(twins);
    calls[below(twins, COUNT_OF(calls))](twins);
}

static void load_all(struct twins *twins)
{
    for (size_t i = 0; i < SCRIPT_NAME_COUNT; i++) {
        struct text text = text_of(room, sizeof room);
        resp_put_array(&text, 3);
        resp_put_bulk(&text, SLICE("SCRIPT"));
        resp_put_bulk(&text, SLICE("LOAD"));
        resp_put_bulk(&text, script_source((enum script_name)i)->text);
        assert_false(text.is_cut);
        (void)ask_both(twins, text_slice(&text));
    }
}

static void test_answers_are_those_of_a_real_store(void **state)
{
    (void)state;
    struct twins *twins = calloc(1, sizeof *twins);
    assert_non_null(twins);
    twins->random.state = random_seed(20261201);
    for (int round = 0; round < 3; round++) {
        twins->now_us = WALL_US;
        twins->store = lua_store_new(NULL, 0);
        lua_store_now_set(twins->store, twins->now_us);
        (void)redis_say(&redis, "FLUSHALL", NULL);
        (void)redis_say(&redis, "SCRIPT", "FLUSH", NULL);
        /* Hashes keep their fields in the order in which they came, as ours. */
        (void)redis_say(&redis, "CONFIG", "SET", "hash-max-listpack-value", "4096", NULL);
        twins->kept_count = 0;
        twins->has_last = false;
        load_all(twins);
        for (int i = 0; i < CALLS; i++) {
            step(twins);
            if (i % 100 == 0)
                check_same_values(twins);
        }
        check_same_values(twins);
        lua_store_free(twins->store);
    }
    printf("%zu commands, %zu errors, %zu tokens granted\n", twins->asked, twins->errors, twins->granted);
    assert_true(twins->granted > 1000);
    free(twins);
}

/* ---- What a simulator needs besides -------------------------------------------------------------------------------- */

static struct slice say(struct lua_store *store, const char *const words[], uint32_t count)
{
    struct text text = text_of(room, sizeof room);
    resp_put_array(&text, count);
    for (uint32_t i = 0; i < count; i++)
        resp_put_bulk(&text, slice_of(words[i]));
    return lua_store_ask(store, text_slice(&text));
}
#define SAY(store, ...) \
    say((store), (const char *const[]){ __VA_ARGS__ }, COUNT_OF(((const char *const[]){ __VA_ARGS__ })))
#define EXPECT(store, expected, ...) \
    do { \
        struct slice told = SAY(store, __VA_ARGS__); \
        if (!slice_equals(told, slice_of(expected))) \
            fail_msg("line %d: %.*s", __LINE__, (int)told.len, told.at); \
    } while (0)

static void test_keys_expire_by_the_clock_that_was_set(void **state)
{
    (void)state;
    struct lua_store *store = lua_store_new(NULL, 0);
    lua_store_now_set(store, WALL_US);
    EXPECT(store, "+OK\r\n", "SET", "a", "1", "PX", "1000");
    EXPECT(store, ":1000\r\n", "PTTL", "a");
    lua_store_now_set(store, WALL_US + 1000000);
    EXPECT(store, "$1\r\n1\r\n", "GET", "a"); /* Redis: until a ms behind */
    lua_store_now_set(store, WALL_US + 500000);
    EXPECT(store, ":500\r\n", "PTTL", "a"); /* a clock that steps back prolongs */
    lua_store_now_set(store, WALL_US + 1001000);
    EXPECT(store, "$-1\r\n", "GET", "a");
    EXPECT(store, "*2\r\n$10\r\n1700000001\r\n$4\r\n1000\r\n", "TIME");
    lua_store_free(store);
}

static void test_states_are_copied_and_put_back(void **state)
{
    (void)state;
    struct lua_store *store = lua_store_new(NULL, 0);
    struct data before = { 0 };
    lua_store_now_set(store, WALL_US);
    EXPECT(store, ":2\r\n", "HSET", "h", "x", "1", "y", "2");
    EXPECT(store, ":1\r\n", "PEXPIRE", "h", "100000");
    data_copy(&before, lua_store_data(store));
    EXPECT(store, ":0\r\n", "HSET", "h", "x", "9");
    EXPECT(store, "+OK\r\n", "SET", "s", "v", "PX", "100");
    lua_store_now_set(store, WALL_US + 1000000);
    data_copy(lua_store_data(store), &before);
    EXPECT(store, "*4\r\n$1\r\nx\r\n$1\r\n1\r\n$1\r\ny\r\n$1\r\n2\r\n", "HGETALL", "h");
    EXPECT(store, ":0\r\n", "EXISTS", "s");
    EXPECT(store, ":99000\r\n", "PTTL", "h"); /* the clock went on */
    lua_store_wipe(store);
    EXPECT(store, ":0\r\n", "EXISTS", "h");
    data_clear(&before);
    lua_store_free(store);
}

static void test_scripts_are_known_by_name_until_they_are_forgotten(void **state)
{
    (void)state;
    static const char hash[] =
        "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"; /* of "return 1", as redis-server says */
    struct lua_store *store = lua_store_new(NULL, 0);
    EXPECT(store, "-NOSCRIPT No matching script. Please use EVAL.\r\n", "EVALSHA", hash, "0");
    EXPECT(store, "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n", "SCRIPT", "LOAD", "return 1");
    EXPECT(store, ":1\r\n", "EVALSHA", hash, "0");
    lua_store_forget_scripts(store);
    EXPECT(store, "-NOSCRIPT No matching script. Please use EVAL.\r\n", "EVALSHA", hash, "0");
    EXPECT(store, ":1\r\n", "EVAL", "return 1", "0");
    EXPECT(store, ":1\r\n", "EVALSHA", hash, "0");
    lua_store_free(store);
}

static void test_a_mutant_runs_under_the_name_of_its_script(void **state)
{
    (void)state;
    static const struct lua_mutant mutants[] = { { "return 1", "return 2" } };
    struct lua_store *store = lua_store_new(mutants, 1);
    EXPECT(store, ":2\r\n", "EVAL", "return 1", "0");
    EXPECT(store, ":2\r\n", "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0");
    lua_store_check_mutants(store);
    lua_store_free(store);
}

/* What a script did before it failed stays, as in Redis. */
static void test_an_error_ends_a_script_where_it_is(void **state)
{
    (void)state;
    static const char script[] =
        "redis.call('SET', KEYS[1], 'x', 'PX', 1000) redis.call('HSET', KEYS[1], 'f', 'v') return 1";
    struct lua_store *store = lua_store_new(NULL, 0);
    struct slice error = SAY(store, "EVAL", script, "1", "a");
    assert_true(error.len > 10 && memcmp(error.at, "-WRONGTYPE", 10) == 0);
    EXPECT(store, "$1\r\nx\r\n", "GET", "a");
    lua_store_free(store);
}

static int start(void **state)
{
    (void)state;
    return redis_server_start(&redis);
}

static int stop(void **state)
{
    (void)state;
    return redis_server_stop(&redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_those_of_a_real_store),
        cmocka_unit_test(test_keys_expire_by_the_clock_that_was_set),
        cmocka_unit_test(test_states_are_copied_and_put_back),
        cmocka_unit_test(test_scripts_are_known_by_name_until_they_are_forgotten),
        cmocka_unit_test(test_a_mutant_runs_under_the_name_of_its_script),
        cmocka_unit_test(test_an_error_ends_a_script_where_it_is),
    };
    return cmocka_run_group_tests_name("lua store", tests, start, stop);
}
