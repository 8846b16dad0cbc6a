// SPDX-License-Identifier: Apache-2.0
/*
 * script.c - calls as commands: EVALSHA or EVAL, keys, arguments.
 *
 * The plainest call, one item that is taken, has no head: the script's first lines answer it (hot.lua).
 *
 * Elsewhere: the bytes of an argument (script_item.c), the texts (script_text.c), replies (script_read.c), leases
 * (script_lease.c).
 */
#include "base/sha256.h"
#include "fleet/script_inside.h"

struct command {
    struct text *out;
    enum script_form form;
    enum script_name script;
};

void script_put_start(struct text *out, enum script_form form, enum script_name script, size_t keys,
                      size_t arguments)
{
    const struct script_source *source = script_source(script);
    bool is_whole = form == SCRIPT_WHOLE;
    struct slice hash = { source->hash, SHA1_HEX_LEN };
    resp_put_array(out, (uint32_t)(3 + keys + arguments));
    resp_put_bulk(out, is_whole ? SLICE("EVAL") : SLICE("EVALSHA"));
    resp_put_bulk(out, is_whole ? source->text : hash);
    resp_put_bulk_i64(out, (int64_t)keys);
}

static void put_argument(struct text *out, const char *bytes, size_t len)
{
    resp_put_bulk(out, (struct slice){ bytes, len });
}

/* Items' keys, those of their retries, and one more where there is one. */
static void put_keys(struct text *out, const struct script_call *call, struct slice record)
{
    for (size_t i = 0; i < call->count; i++)
        resp_put_bulk(out, call->items[i].name);
    for (size_t i = 0; i < call->count; i++)
        if (call->items[i].retry.len > 0)
            resp_put_bulk(out, call->items[i].retry);
    if (record.len > 0)
        resp_put_bulk(out, record);
}

static size_t count_keys(const struct script_call *call, struct slice record)
{
    size_t keys = call->count + (record.len > 0);
    for (size_t i = 0; i < call->count; i++)
        keys += call->items[i].retry.len > 0;
    return keys;
}

/* `head` NULL: none. `stamps` NULL: none, or one of each item. */
static bool put_call(const struct command *command, const struct script_call *call,
                     const struct script_head *head, struct slice record, const uint64_t *stamps)
{
    char argument[SCRIPT_ARGUMENT_MAX];
    script_put_start(command->out, command->form, command->script, count_keys(call, record),
                     call->count + (head != NULL));
    put_keys(command->out, call, record);
    if (head != NULL)
        put_argument(command->out, argument, script_put_head(call, head, argument));
    for (size_t i = 0; i < call->count; i++) {
        const uint64_t *stamp = stamps == NULL ? NULL : &stamps[i];
        put_argument(command->out, argument, script_put_item(call, &call->items[i], stamp, argument));
    }
    return !command->out->is_cut;
}

bool script_put_decide(struct text *out, enum script_form form, const struct script_call *call)
{
    static const char verbs[] = {
        [SCRIPT_TAKE] = 't', [SCRIPT_PEEK] = 'p', [SCRIPT_RESERVE] = 'r', [SCRIPT_ACQUIRE] = 'a'
    };
    struct command command = { out, form, SCRIPT_DECIDE };
    struct script_head head = { .verb = verbs[call->verb] };
    bool is_plain = call->verb == SCRIPT_TAKE && !call->has_time;
    struct slice record = call->verb == SCRIPT_RESERVE ? call->record : (struct slice){ NULL, 0 };
    return put_call(&command, call, is_plain ? NULL : &head, record, NULL);
}

/* ---- Beside deciding ------------------------------------------------------------------------------------------ */

/* A key beside the first item's that says that this was undone: named by what was charged when, and by the call's id. */
#define MARK_BYTES 16
static struct slice mark_of(const struct script_call *charged, const uint64_t *stamps,
                            char out[NAME_MAX_LEN + 3 + 2 * MARK_BYTES])
{
    char text[WEIR_ASKS_MAX * 16 + SCRIPT_ID_LEN], *to = text;
    struct slice name = charged->items[0].name;
    for (size_t i = 0; i < charged->count; i++) {
        memcpy(to, &stamps[i], 8);
        memcpy(to + 8, &charged->items[i].cost, 8);
        to += 16;
    }
    if (charged->id.len == SCRIPT_ID_LEN) {
        memcpy(to, charged->id.at, SCRIPT_ID_LEN);
        to += SCRIPT_ID_LEN;
    }
    size_t len = name.len < NAME_MAX_LEN ? name.len : NAME_MAX_LEN;
    memcpy(out, name.at, len);
    memcpy(out + len, ":u:", 3);
    sha256_hex(text, (size_t)(to - text), MARK_BYTES, out + len + 3);
    return (struct slice){ out, len + 3 + 2 * MARK_BYTES };
}

bool script_put_undo(struct text *out, enum script_form form, const struct script_call *call,
                     const struct script_answer *answers)
{
    struct script_item items[WEIR_ASKS_MAX];
    uint64_t stamps[WEIR_ASKS_MAX];
    struct script_call charged = *call;
    charged.items = items;
    charged.count = 0;
    for (size_t i = 0; i < call->count && charged.count < WEIR_ASKS_MAX; i++) {
        if (!answers[i].is_charged)
            continue;
        stamps[charged.count] = answers[i].charged_at;
        items[charged.count++] = call->items[i];
    }
    char mark[NAME_MAX_LEN + 3 + 2 * MARK_BYTES];
    struct command command = { out, form, SCRIPT_UNDO };
    struct script_head head = { .flags = HEAD_HAS_STAMPS | HEAD_KEEPS_SIZE, .verb = 'u' };
    struct slice record = charged.count == 0 ? (struct slice){ NULL, 0 } : mark_of(&charged, stamps, mark);
    return put_call(&command, &charged, &head, record, stamps);
}

static bool put_settle(struct text *out, enum script_form form, const struct script_call *call,
                       struct script_head head, bool has_record)
{
    struct command command = { out, form, SCRIPT_SETTLE };
    return put_call(&command, call, &head, has_record ? call->record : (struct slice){ NULL, 0 }, NULL);
}

bool script_put_spend(struct text *out, enum script_form form, const struct script_call *call)
{
    return put_settle(out, form, call, (struct script_head){ .flags = HEAD_KEEPS_SIZE, .verb = 'p' }, false);
}

bool script_put_settle(struct text *out, enum script_form form, const struct script_call *call, bool is_cancel,
                       uint64_t cost)
{
    struct script_head head = { .flags = HEAD_KEEPS_SIZE, .verb = is_cancel ? 'c' : 's', .cost = cost };
    return put_settle(out, form, call, head, true);
}

bool script_put_refund(struct text *out, enum script_form form, const struct script_call *call)
{
    return put_settle(out, form, call, (struct script_head){ .verb = 'f' }, false);
}

bool script_put_renew(struct text *out, enum script_form form, const struct script_call *call)
{
    struct command command = { out, form, SCRIPT_HOLD };
    return put_call(&command, call, &(struct script_head){ .verb = 'n' }, (struct slice){ NULL, 0 }, NULL);
}

bool script_put_release(struct text *out, enum script_form form, const struct script_call *call)
{
    struct command command = { out, form, SCRIPT_HOLD };
    return put_call(&command, call, &(struct script_head){ .verb = 'e' }, (struct slice){ NULL, 0 }, NULL);
}

/* Also of one that is not leased now: it may have been. */
static bool has_holders(const struct script_item *item)
{
    return item->limit->algorithm == WEIR_TOKEN_BUCKET || item->limit->algorithm == WEIR_LEAKY_BUCKET
           || item->limit->algorithm == WEIR_FIXED_WINDOW;
}

bool script_put_reset(struct text *out, const struct script_call *call)
{
    char name[SCRIPT_HOLDERS_NAME_MAX];
    size_t keys = call->count;
    for (size_t i = 0; i < call->count; i++)
        keys += has_holders(&call->items[i]);
    resp_put_array(out, (uint32_t)(1 + keys));
    resp_put_bulk(out, SLICE("DEL"));
    for (size_t i = 0; i < call->count; i++) {
        resp_put_bulk(out, call->items[i].name);
        if (has_holders(&call->items[i]))
            resp_put_bulk(out, (struct slice){ name, script_holders_name(call->items[i].name, name) });
    }
    return !out->is_cut;
}

bool script_put_load(struct text *out)
{
    resp_put_array(out, 3);
    resp_put_bulk(out, SLICE("SCRIPT"));
    resp_put_bulk(out, SLICE("LOAD"));
    resp_put_bulk(out, script_source(SCRIPT_DECIDE)->text);
    return !out->is_cut;
}
