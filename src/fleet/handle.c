// SPDX-License-Identifier: Apache-2.0
/*
 * handle.c - handles as bytes. Names that follow each other share most of their front (a group's all the tag), so each is written
 * as what it adds to the one before.
 *
 * A number has one spelling, and a name must be one of ours with a limit's algorithm in it: a handle that somebody made up reaches no
 * key that is not a limit's. The names of a group have one hash tag in a Cluster, and any elsewhere.
 */
#include "fleet/handle.h"

#include "base/sha256.h"
#include "fleet/name.h"

#define VERSION 1
#define ZONE_MAX 64
#define FLAG_WATCHED 1u
#define FLAG_ESTIMATE 2u
#define FLAG_CHARGED 4u
#define FLAG_EMPTY 8u
#define FLAG_FIRST 16u    /* align: first request */
#define FLAG_CALENDAR 32u /* align: calendar; a calendar and a zone follow */
#define FLAG_LEAKY 64u    /* a leaky bucket: same letter in the name */
#define FLAGS_ALL 127u

/* ---- Numbers ------------------------------------------------------------------------------------------------------ */

static void put_number(struct text *out, uint64_t value)
{
    char bytes[10];
    size_t len = 0;
    do {
        bytes[len++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
    text_bytes(out, bytes, len);
}

struct reader {
    const unsigned char *at, *end;
    bool is_bad;
};

/* 0 where it is bad: longer than it must be, or than 64 bits. */
static uint64_t get_number(struct reader *in)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        unsigned char byte = *in->at++;
        if ((shift == 63 && byte > 1) || (byte == 0 && shift > 0))
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    in->is_bad = true;
    return 0;
}

static uint64_t get_up_to(struct reader *in, uint64_t most)
{
    uint64_t value = get_number(in);
    if (value <= most)
        return value;
    in->is_bad = true;
    return 0;
}

static const unsigned char *get_bytes(struct reader *in, size_t len)
{
    const unsigned char *at = in->at;
    if (in->is_bad || len > (size_t)(in->end - in->at)) {
        in->is_bad = true;
        return NULL;
    }
    in->at += len;
    return at;
}

/* ---- Writing ------------------------------------------------------------------------------------------------------------ */

static unsigned flags_of(const struct script_item *item)
{
    const struct weir_limit *limit = item->limit;
    return (item->is_watched ? FLAG_WATCHED : 0) | (item->is_estimate ? FLAG_ESTIMATE : 0)
           | (limit->refused == WEIR_REFUSAL_CHARGED ? FLAG_CHARGED : 0)
           | (limit->state_lost == WEIR_LOST_EMPTY ? FLAG_EMPTY : 0)
           | (limit->align == WEIR_ALIGN_FIRST_REQUEST ? FLAG_FIRST : 0)
           | (limit->align == WEIR_ALIGN_CALENDAR ? FLAG_CALENDAR : 0)
           | (limit->algorithm == WEIR_LEAKY_BUCKET ? FLAG_LEAKY : 0);
}

static void put_item(struct text *out, const struct script_item *item, struct slice before)
{
    size_t same = 0, most = item->name.len < before.len ? item->name.len : before.len;
    while (same < most && item->name.at[same] == before.at[same])
        same++;
    put_number(out, same);
    put_number(out, item->name.len - same);
    text_bytes(out, item->name.at + same, item->name.len - same);
    put_number(out, flags_of(item));
    put_number(out, item->size.tick / WEIR_MICROSECOND);
    put_number(out, item->size.capacity);
    put_number(out, item->size.debt);
    put_number(out, item->size.count);
    put_number(out, item->size.period);
    if (item->limit->align != WEIR_ALIGN_CALENDAR)
        return;
    const char *zone = item->limit->zone == NULL ? "" : item->limit->zone;
    put_number(out, item->limit->calendar);
    put_number(out, strlen(zone));
    text_string(out, zone);
}

/* Permits are held by who has a say and asked for some. */
static bool is_written(enum handle_kind kind, const struct script_item *item)
{
    return kind == HANDLE_RESERVATION
           || (item->limit->algorithm == WEIR_CONCURRENCY && !item->is_watched && item->cost > 0);
}

static void put_group(struct text *out, enum handle_kind kind, const struct script_call *call)
{
    struct slice before = { 0 };
    size_t count = 0;
    for (size_t i = 0; i < call->count; i++)
        count += is_written(kind, &call->items[i]);
    put_number(out, count);
    for (size_t i = 0; i < call->count; i++) {
        if (!is_written(kind, &call->items[i]))
            continue;
        put_item(out, &call->items[i], before);
        before = call->items[i].name;
    }
}

/* Of the kind, the random bytes and the group's. */
static void hash_group(enum handle_kind kind, const uint8_t *secret, struct slice group, char *scratch,
                       char id[SCRIPT_ID_LEN])
{
    scratch[0] = (char)kind;
    memcpy(scratch + 1, secret, FLEET_RANDOM_LEN);
    memmove(scratch + 1 + FLEET_RANDOM_LEN, group.at, group.len);
    sha256_hex(scratch, 1 + FLEET_RANDOM_LEN + group.len, SCRIPT_ID_LEN / 2, id);
}

#define HASHED_BEFORE (1 + FLEET_RANDOM_LEN)

size_t handle_id(enum handle_kind kind, const uint8_t secret[FLEET_RANDOM_LEN], const struct script_call *call,
                 char id[SCRIPT_ID_LEN])
{
    char scratch[HASHED_BEFORE + FLEET_HANDLE_MAX];
    struct text group = text_of(scratch + HASHED_BEFORE, FLEET_HANDLE_MAX);
    put_group(&group, kind, call);
    if (group.is_cut)
        return 0;
    hash_group(kind, secret, text_slice(&group), scratch, id);
    return group.len;
}

bool handle_write(struct text *out, const struct handle *handle)
{
    put_number(out, VERSION);
    put_number(out, handle->kind);
    text_bytes(out, (const char *)handle->secret, FLEET_RANDOM_LEN);
    put_number(out, handle->count);
    for (size_t i = 0; i < handle->count; i++)
        put_group(out, handle->kind, &handle->calls[i]);
    return !out->is_cut;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------------------- */

/* What was read, and where it goes. */
struct decoding {
    struct reader in;
    struct block **blocks;
    struct handle *out;
    struct slice before;
    size_t items; /* of all groups */
    bool is_out_of_memory;
};

static void *claim(struct decoding *decoding, size_t size)
{
    void *claimed = block_claim(decoding->blocks, size);
    decoding->is_out_of_memory |= claimed == NULL;
    return claimed;
}

static bool get_name(struct decoding *decoding, struct slice *out)
{
    struct reader *in = &decoding->in;
    size_t same = (size_t)get_up_to(in, decoding->before.len);
    size_t rest = (size_t)get_up_to(in, NAME_MAX_LEN - same);
    const unsigned char *bytes = get_bytes(in, rest);
    /* One spelling: what could be shared is. */
    if (bytes == NULL
        || (rest > 0 && same < decoding->before.len && decoding->before.at[same] == (char)bytes[0]))
        return false;
    char *name = claim(decoding, same + rest + 1);
    if (name == NULL)
        return false;
    if (same > 0)
        memcpy(name, decoding->before.at, same);
    memcpy(name + same, bytes, rest);
    *out = decoding->before = (struct slice){ name, same + rest };
    return true;
}

static bool algorithm_of(char letter, unsigned flags, enum weir_algorithm *out)
{
    switch (letter) {
    case 'b':
        *out = flags & FLAG_LEAKY ? WEIR_LEAKY_BUCKET : WEIR_TOKEN_BUCKET;
        return true;
    case 'f':
        *out = WEIR_FIXED_WINDOW;
        break;
    case 's':
        *out = WEIR_SLIDING_WINDOW;
        break;
    case 'l':
        *out = WEIR_SLIDING_LOG;
        break;
    case 'c':
        *out = WEIR_CONCURRENCY;
        break;
    default:
        return false;
    }
    return (flags & FLAG_LEAKY) == 0;
}

static bool get_calendar(struct decoding *decoding, struct weir_limit *limit)
{
    struct reader *in = &decoding->in;
    limit->calendar = (enum weir_calendar)get_up_to(in, WEIR_CALENDAR_COUNT - 1);
    size_t len = (size_t)get_up_to(in, ZONE_MAX);
    const unsigned char *bytes = get_bytes(in, len);
    if (bytes == NULL || memchr(bytes, 0, len) != NULL)
        return false;
    char *zone = claim(decoding, len + 1);
    if (zone == NULL)
        return false;
    memcpy(zone, bytes, len);
    limit->zone = len == 0 ? NULL : zone;
    return true;
}

/* What the scripts compute with is below 2^52; the rest of the language's bounds were the contract's to keep. */
#define NUMBER_MAX ((UINT64_C(1) << 52) - 1)

static bool is_sound(const struct weir_limit *limit, const struct weir_shared_size *size)
{
    bool is_bucket = limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET;
    bool is_calendar = limit->align == WEIR_ALIGN_CALENDAR;
    if (limit->algorithm != WEIR_FIXED_WINDOW && limit->align != WEIR_ALIGN_EPOCH)
        return false;
    if (!is_bucket && (size->debt != 0 || size->count != 0))
        return false;
    if (size->period == 0 && !is_calendar && !(is_bucket && size->count == 0))
        return false;
    weir_u128_ most = (weir_u128_)(size->capacity + size->debt) * (is_bucket ? size->period : 1);
    return most <= NUMBER_MAX && (weir_u128_)size->period * size->tick <= UINT64_MAX / 2;
}

static bool get_size(struct decoding *decoding, struct weir_shared_size *size)
{
    struct reader *in = &decoding->in;
    uint64_t tick = get_up_to(in, 1000);
    size->tick = tick * WEIR_MICROSECOND;
    size->capacity = get_up_to(in, NUMBER_MAX);
    size->debt = get_up_to(in, NUMBER_MAX);
    size->count = get_up_to(in, NUMBER_MAX);
    size->period = get_up_to(in, NUMBER_MAX);
    return !in->is_bad && (tick == 1 || tick == 1000);
}

static bool fill_limit(struct decoding *decoding, struct weir_limit *limit, const struct name_parts *parts,
                       unsigned flags, const struct weir_shared_size *size)
{
    char *name = claim(decoding, parts->limit.len + 1);
    if (name == NULL || !algorithm_of(parts->algorithm, flags, &limit->algorithm)
        || (flags & FLAG_FIRST && flags & FLAG_CALENDAR))
        return false;
    memcpy(name, parts->limit.at, parts->limit.len);
    limit->name = name;
    limit->refused = flags & FLAG_CHARGED ? WEIR_REFUSAL_CHARGED : WEIR_REFUSAL_FREE;
    limit->state_lost = flags & FLAG_EMPTY ? WEIR_LOST_EMPTY : WEIR_LOST_FULL;
    limit->align = flags & FLAG_FIRST      ? WEIR_ALIGN_FIRST_REQUEST
                   : flags & FLAG_CALENDAR ? WEIR_ALIGN_CALENDAR
                                           : WEIR_ALIGN_EPOCH;
    limit->debt = size->debt;
    if (limit->algorithm == WEIR_CONCURRENCY) {
        limit->at_most = size->capacity;
        limit->hold = size->period * size->tick;
    } else {
        bool is_window = parts->algorithm != 'b';
        limit->burst = is_window ? 0 : size->capacity;
        limit->rate =
            (struct weir_quota){ is_window ? size->capacity : size->count, size->period * size->tick };
    }
    return flags & FLAG_CALENDAR ? get_calendar(decoding, limit) : true;
}

static bool get_item(struct decoding *decoding, struct script_item *item)
{
    struct name_parts parts;
    struct weir_limit *limit = claim(decoding, sizeof *limit);
    if (limit == NULL || !get_name(decoding, &item->name) || !name_read(item->name, &parts))
        return false;
    unsigned flags = (unsigned)get_up_to(&decoding->in, FLAGS_ALL);
    if (!get_size(decoding, &item->size) || !fill_limit(decoding, limit, &parts, flags, &item->size))
        return false;
    item->limit = limit;
    item->is_watched = (flags & FLAG_WATCHED) != 0;
    item->is_estimate = (flags & FLAG_ESTIMATE) != 0;
    item->cost = 1; /* of a permit: it is held */
    return is_sound(limit, &item->size) && is_written(decoding->out->kind, item);
}

static bool get_record(struct decoding *decoding, struct script_call *call)
{
    struct slice tag = name_tag(call->items[0].name);
    char *record = claim(decoding, NAME_BESIDE_MAX);
    if (record == NULL)
        return false;
    call->record = (struct slice){ record, name_of_record(tag, call->id.at, record) };
    return true;
}

static bool get_items(struct decoding *decoding, struct script_call *call)
{
    size_t count = (size_t)get_up_to(&decoding->in, WEIR_ASKS_MAX - decoding->items);
    struct script_item *items = count == 0 ? NULL : claim(decoding, count * sizeof *items);
    if (items == NULL)
        return false;
    decoding->items += count;
    decoding->before = (struct slice){ 0 };
    call->items = items;
    for (; call->count < count; call->count++)
        if (!get_item(decoding, &items[call->count]))
            return false;
    return true;
}

static bool get_group(struct decoding *decoding, struct script_call *call)
{
    const unsigned char *start = decoding->in.at;
    char *id = claim(decoding, SCRIPT_ID_LEN);
    if (id == NULL || !get_items(decoding, call) || decoding->in.is_bad)
        return false;
    const struct slice bytes = { (const char *)start, (size_t)(decoding->in.at - start) };
    char *scratch = claim(decoding, HASHED_BEFORE + bytes.len);
    if (scratch == NULL)
        return false;
    hash_group(decoding->out->kind, decoding->out->secret, bytes, scratch, id);
    call->id = (struct slice){ id, SCRIPT_ID_LEN };
    call->verb = decoding->out->kind == HANDLE_PERMIT ? SCRIPT_ACQUIRE : SCRIPT_RESERVE;
    return decoding->out->kind == HANDLE_PERMIT || get_record(decoding, call);
}

static bool get_head(struct decoding *decoding)
{
    struct reader *in = &decoding->in;
    struct handle *out = decoding->out;
    if (get_number(in) != VERSION)
        return false;
    uint64_t kind = get_number(in);
    const unsigned char *bytes = get_bytes(in, FLEET_RANDOM_LEN);
    uint8_t *secret = claim(decoding, FLEET_RANDOM_LEN);
    if ((kind != HANDLE_RESERVATION && kind != HANDLE_PERMIT) || bytes == NULL || secret == NULL)
        return false;
    memcpy(secret, bytes, FLEET_RANDOM_LEN);
    out->kind = (enum handle_kind)kind;
    out->secret = secret;
    return true;
}

static bool get_all(struct decoding *decoding)
{
    struct reader *in = &decoding->in;
    struct handle *out = decoding->out;
    if (!get_head(decoding))
        return false;
    size_t count = (size_t)get_up_to(in, WEIR_ASKS_MAX);
    out->calls = count == 0 ? NULL : claim(decoding, count * sizeof *out->calls);
    if (out->calls == NULL)
        return false;
    for (; out->count < count; out->count++)
        if (!get_group(decoding, &out->calls[out->count]))
            return false;
    return !in->is_bad && in->at == in->end;
}

enum handle_result handle_read(const unsigned char *at, size_t len, struct block **blocks, struct handle *out)
{
    struct decoding decoding = { .in = { at, at + len, false }, .blocks = blocks, .out = out };
    *out = (struct handle){ 0 };
    if (len > FLEET_HANDLE_MAX || !get_all(&decoding))
        return decoding.is_out_of_memory ? HANDLE_NO_MEMORY : HANDLE_BAD;
    return HANDLE_OK;
}
