// SPDX-License-Identifier: Apache-2.0
/*
 * sim_books.c - the store's books: what was charged and granted, read out of it after every event (P32, P33).
 *
 * Values and records are read as bucket.lua, window.lua and lease.lua say that they stand there.
 */
#include "fleet/script_inside.h"
#include "fleet/sim_world.h"
#include "fleet/work.h"
#include "support/unit.h"

#define VALUE_LONG_BUCKET 65
#define VALUE_LONG_WINDOW 49
#define TOTALS_LEN 105
#define RECORD_LEN 57

static double number_at(struct slice text, size_t place)
{
    double number;
    memcpy(&number, text.at + 1 + 8 * place, sizeof number);
    return number;
}

/* Which limit and tenant a key of the store is of: "weir:1:{tenant=a}:l0:b". False: of none. */
static bool key_of(struct slice name, size_t *limit, unsigned *tenant)
{
    const char *of = memmem(name.at, name.len, "tenant=", 7), *in = memmem(name.at, name.len, "}:l", 3);
    if (of == NULL || in == NULL)
        return false;
    *tenant = (unsigned)(of[7] - 'a');
    *limit = (size_t)(in[3] - '0');
    return *tenant < SIM_TENANTS && *limit < SIM_LIMITS;
}

/* ---- What a command did ----------------------------------------------------------------------------------------------- */

static bool is_script(const struct slice *words, enum script_name script)
{
    const struct script_source *source = script_source(script);
    if (words[0].len == 7) /* EVALSHA */
        return words[1].len == SHA1_HEX_LEN && memcmp(words[1].at, source->hash, SHA1_HEX_LEN) == 0;
    return slice_equals(words[1], source->text);
}

static int64_t next_integer(struct resp_reader *reader)
{
    struct resp_value value;
    assert_true(resp_next(reader, &value) && value.type == RESP_INTEGER);
    return value.integer;
}

/* Five numbers an item, the first with 16: it was charged. */
static struct sim_charges note_decide(struct sim_world *world, const struct slice *words, size_t count,
                                      struct resp_reader *reader)
{
    struct sim_charges charges = { 0 };
    uint64_t keys;
    assert_true(slice_to_u64(words[2], count, &keys));
    const struct slice *arguments = words + 3 + keys;
    size_t left = count - 3 - (size_t)keys;
    if (left > 0 && arguments[0].at[0] == 'h') {
        arguments++;
        left--;
    }
    for (size_t i = 0; i < left; i++) {
        size_t limit;
        unsigned tenant;
        double cost;
        memcpy(&cost, arguments[i].at + 2, sizeof cost);
        int64_t flags = next_integer(reader);
        for (int j = 0; j < 4; j++)
            (void)next_integer(reader);
        if ((flags & 16) == 0 || !key_of(words[3 + i], &limit, &tenant))
            continue;
        world->charged[limit][tenant] += (uint64_t)cost;
        charges.cost[limit] = (uint64_t)cost;
        sim_spend(world, limit, tenant, (uint64_t)cost);
    }
    return charges;
}

/* What was charged may be spent by others from now on. */
static void note_undo(struct sim_world *world, const struct slice *words, size_t count)
{
    uint64_t keys;
    assert_true(slice_to_u64(words[2], count, &keys));
    for (size_t i = 3 + (size_t)keys + 1; i < count; i++) {
        size_t limit;
        unsigned tenant;
        double cost;
        memcpy(&cost, words[i].at + 2, sizeof cost);
        if (!key_of(words[3 + i - 4 - keys], &limit, &tenant))
            continue;
        struct oracle *oracle = &world->oracles[limit][tenant];
        weir_ns now = sim_instant(world, oracle);
        oracle_allow(oracle, (uint64_t)cost, now, now);
    }
}

static void note_edge(struct sim_world *world, weir_ns at)
{
    world->edges[world->edge_next++ % COUNT_OF(world->edges)] = at;
}

/* Ten numbers a message: flags (1 stale, 2 repeated), granted, left, how long in us. */
static void note_lease(struct sim_world *world, const struct slice *words, size_t count,
                       struct resp_reader *reader)
{
    uint64_t keys;
    assert_true(slice_to_u64(words[2], count, &keys));
    for (size_t i = 0; i < keys / 2; i++) {
        size_t limit;
        unsigned tenant;
        int64_t numbers[10];
        for (size_t j = 0; j < COUNT_OF(numbers); j++)
            numbers[j] = next_integer(reader);
        sim_log(world, "store: lease %.*s flags %lld granted %lld left %lld ttl %lld ms, %lld remain",
                (int)words[3 + i].len, words[3 + i].at, (long long)numbers[0], (long long)numbers[1],
                (long long)numbers[2], (long long)numbers[3] / 1000, (long long)numbers[4]);
        if (!key_of(words[3 + i], &limit, &tenant))
            continue;
        if ((numbers[0] & 3) == 0)
            world->granted[limit][tenant] += (uint64_t)numbers[1];
        weir_ns ttl = (weir_ns)numbers[3] * WEIR_MICROSECOND,
                duration = world->oracles[limit][tenant].lease.duration;
        note_edge(world, sim_hand_ends(world, tenant, ttl - ttl / 100));
        note_edge(world, world->now + ttl);
        note_edge(world, world->now + ttl + SCRIPT_LEASE_GRACE_NS(duration));
    }
}

/* For the log of one run: what stands in the store behind a command. */
static void log_value(struct sim_world *world, struct slice name)
{
    struct data_key *key = world->setup.log == NULL ? NULL : data_find(lua_store_data(world->store), name);
    struct slice text =
        key != NULL && key->type == DATA_STRING ? data_slice(&key->items[0].text) : (struct slice){ 0 };
    if (text.len == VALUE_LONG_BUCKET)
        sim_log(world, "  %.*s: used %.0f rem %.0f at %.0f, out %.0f until %.0f; the clock says %lld",
                (int)name.len, name.at, number_at(text, 0), number_at(text, 1), number_at(text, 2),
                number_at(text, 5), number_at(text, 7), (long long)lua_store_data(world->store)->now_us);
}

struct sim_charges sim_note_executed(struct sim_world *world, struct slice command, struct slice reply)
{
    const struct sim_charges none = { 0 };
    struct slice words[64];
    size_t count = 0;
    struct resp_reader reader = resp_reader_of(command.at, command.len);
    struct resp_value value;
    assert_true(resp_next(&reader, &value));
    while (count < COUNT_OF(words) && resp_next(&reader, &value))
        words[count++] = value.text;
    reader = resp_reader_of(reply.at, reply.len);
    assert_true(resp_next(&reader, &value));
    if (value.type == RESP_ERROR && !slice_equals(resp_error_code(value.text), SLICE("NOSCRIPT")))
        sim_violate(world, "the store says: %.*s", (int)value.text.len, value.text.at);
    if (value.type == RESP_ERROR || count < 3)
        return none;
    log_value(world, words[3]);
    if (is_script(words, SCRIPT_DECIDE))
        return note_decide(world, words, count, &reader);
    if (is_script(words, SCRIPT_LEASE))
        note_lease(world, words, count, &reader);
    else if (is_script(words, SCRIPT_UNDO))
        note_undo(world, words, count);
    return none;
}

/* ---- The books ---------------------------------------------------------------------------------------------------------- */

struct totals {
    double granted, returned, spent, lost, round;
};

static struct totals totals_of(struct slice text)
{
    return (struct totals){ number_at(text, 0), number_at(text, 1), number_at(text, 2), number_at(text, 3),
                            number_at(text, 10) };
}

/* P32: granted = returned + spent + lost + out, and out = sum of left <= most. */
static void check_holders(struct sim_world *world, struct data_key *key, const struct oracle *oracle)
{
    const struct data_item *item = data_item_find(key, SLICE("t"));
    double out = 0;
    if (item == NULL || item->value.len != TOTALS_LEN) {
        sim_violate(world, "the holders of %.*s have no sums", (int)key->name.len, key->name.at);
        return;
    }
    struct totals totals = totals_of(data_slice(&item->value));
    for (size_t i = 0; i < key->count; i++) {
        struct slice record = data_slice(&key->items[i].value);
        if (&key->items[i] == item)
            continue;
        double left =
            record.len >= RECORD_LEN && number_at(record, 5) == totals.round ? number_at(record, 1) : 0;
        out += left;
        if (left < 0 || left > (double)oracle->lease.chunk)
            sim_violate(world, "P32: a record holds %.0f, a chunk is %llu", left,
                        (unsigned long long)oracle->lease.chunk);
    }
    if (totals.granted != totals.returned + totals.spent + totals.lost + out)
        sim_violate(world, "P32: granted %.0f, returned %.0f, spent %.0f, lost %.0f, out %.0f", totals.granted,
                    totals.returned, totals.spent, totals.lost, out);
    if (out > (double)oracle->lease.most)
        sim_violate(world, "P32: %.0f are out, at most %llu may be", out,
                    (unsigned long long)oracle->lease.most);
    world->returned += (uint64_t)totals.returned;
    world->out += (uint64_t)out;
}

/* I4: what is out is part of what is used. */
static void check_value(struct sim_world *world, const struct data_key *key, const struct oracle *oracle)
{
    struct slice text = data_slice(&key->items[0].text);
    double used, rem = 0, out;
    if (text.len == VALUE_LONG_BUCKET && (text.at[0] == 'b' || text.at[0] == 'B')) {
        used = number_at(text, 0);
        rem = number_at(text, 1);
        out = number_at(text, 5);
    } else if (text.len == VALUE_LONG_WINDOW && text.at[0] == 'f') {
        used = number_at(text, 3);
        out = number_at(text, 4);
    } else {
        return;
    }
    if (used < out || (used == out && rem > 0) || out > (double)oracle->lease.most
        || used > (double)oracle->burst)
        sim_violate(world, "P32: %.0f used less %.0f / period, of them %.0f out", used, rem, out);
}

/* In the hand of a replica, by the clock that it goes by. What stands still finds out later that its portion is over. */
static uint64_t held_by(const struct sim_replica *replica)
{
    struct holdings_counts counts;
    if (!sim_is_up(replica))
        return 0;
    weir_ns asleep = replica->world->setup.is_deaf_to_sleep ? 0 : replica->asleep;
    holdings_sum(replica->common->holdings, sim_local(replica, replica->world->now) + asleep, &counts);
    return counts.held;
}

/* Nothing is in hand longer than the latest message that the store did says, from its sending on. */
static uint64_t held_in_time(struct sim_world *world, const struct sim_replica *replica)
{
    uint64_t held = held_by(replica);
    weir_ns ends =
        replica->hand_ends[0] > replica->hand_ends[1] ? replica->hand_ends[0] : replica->hand_ends[1];
    if (held > 0 && world->now > ends)
        sim_violate(world, "P32: %llu in a hand for %llu ns longer than they were granted",
                    (unsigned long long)held, (unsigned long long)(world->now - ends));
    return held;
}

/* P33: what was admitted and what is in hands was charged, or granted and not returned; and what is in hands is out. */
static void check_spending(struct sim_world *world)
{
    uint64_t admitted = 0, held = 0, paid = 0;
    for (size_t i = 0; i < world->replica_count; i++)
        held += held_in_time(world, &world->replicas[i]);
    if (world->has_lost)
        return;
    for (size_t i = 0; i < SIM_LIMITS; i++)
        for (size_t j = 0; j < SIM_TENANTS; j++) {
            if (!world->is_met[i][j] || world->oracles[i][j].lease.most == 0)
                continue;
            admitted += world->oracles[i][j].admitted;
            paid += world->charged[i][j] + world->granted[i][j];
        }
    if (admitted + held > paid - world->returned)
        sim_violate(world, "P33: admitted %llu, in hands %llu; charged and granted %llu, returned %llu",
                    (unsigned long long)admitted, (unsigned long long)held, (unsigned long long)paid,
                    (unsigned long long)world->returned);
    if (held > world->out && !world->has_stepped)
        sim_violate(world, "P32: %llu are in hands, and %llu out", (unsigned long long)held,
                    (unsigned long long)world->out);
}

void sim_check_books(struct sim_world *world)
{
    struct data *data = lua_store_data(world->store);
    world->returned = world->out = 0;
    for (size_t i = 0; i < data->count; i++) {
        struct data_key *key = &data->keys[i];
        size_t limit;
        unsigned tenant;
        if (!key_of(data_slice(&key->name), &limit, &tenant) || !world->is_met[limit][tenant])
            continue;
        const struct oracle *oracle = &world->oracles[limit][tenant];
        if (key->type == DATA_HASH)
            check_holders(world, key, oracle);
        else if (key->type == DATA_STRING && oracle->lease.most > 0)
            check_value(world, key, oracle);
    }
    check_spending(world);
}
