// SPDX-License-Identifier: Apache-2.0
/* cmd_fleet_look.c - keys in the store, one by one; see cmd_fleet_look.h. */
#include "cli/cmd_fleet_look.h"

#include <stdlib.h>

#include "sim/verdict.h"

/* ---- Names and attributes ------------------------------------------------------------------------------------------ */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c - 'A' + 10;
}

/* Add what stands between two separators of a name: NAME, or NAME=VALUE with escapes. Escapes are well formed (name_read()). */
static void read_part(struct look *look, struct slice part, size_t *used)
{
    const char *equals = part.len == 0 ? NULL : memchr(part.at, '=', part.len);
    size_t name_len = equals == NULL ? part.len : (size_t)(equals - part.at);
    if (equals == NULL || name_len == 0 || name_len > WEIR_ATTRIBUTE_NAME_MAX
        || look->attributes.count == WEIR_ATTRIBUTES_MAX)
        return; /* an absent one */
    size_t index = look->attributes.count++;
    char *value = look->values + *used;
    size_t len = 0;
    memcpy(look->attributes.names[index], part.at, name_len);
    look->attributes.names[index][name_len] = '\0';
    for (const char *at = equals + 1; at < part.at + part.len; at++) {
        bool is_escape = *at == '%';
        value[len++] = is_escape ? (char)(hex_digit(at[1]) << 4 | hex_digit(at[2])) : *at;
        at += is_escape ? 2 : 0;
    }
    value[len] = '\0';
    *used += len + 1;
    look->attributes.attributes[index] = (struct weir_attribute){ look->attributes.names[index], value, len };
}

/* The attributes of a name, in the order of the limit's key. */
static void read_attributes(const struct keys *keys, struct look *look, const struct name_parts *parts)
{
    const char *form = keys->limit->spec->key_form;
    size_t used = 0;
    struct slice rest = parts->rest;
    look->is_readable = parts->tag.at[0] != '~';
    if (form == NULL || form[0] == '\0' || !look->is_readable)
        return;
    read_part(look, parts->tag, &used);
    while (rest.len > 0) {
        const char *comma = memchr(rest.at, ',', rest.len);
        size_t len = comma == NULL ? rest.len : (size_t)(comma - rest.at);
        read_part(look, (struct slice){ rest.at, len }, &used);
        size_t taken = len + (comma != NULL);
        rest = (struct slice){ rest.at + taken, rest.len - taken };
    }
}

static bool is_same_value(const struct weir_attribute *x, const struct weir_attribute *y)
{
    size_t x_len = x->len == 0 ? strlen(x->value) : x->len;
    size_t y_len = y->len == 0 ? strlen(y->value) : y->len;
    return x_len == y_len && memcmp(x->value, y->value, x_len) == 0;
}

/* Whether every attribute that was given on the command line has this value here. */
static bool is_chosen(const struct keys *keys, const struct look *look)
{
    for (size_t i = 0; i < keys->chosen.count; i++) {
        const struct weir_attribute *wanted = &keys->chosen.attributes[i];
        bool is_found = false;
        for (size_t j = 0; j < look->attributes.count; j++)
            is_found = is_found
                       || (strcmp(look->attributes.attributes[j].name, wanted->name) == 0
                           && is_same_value(&look->attributes.attributes[j], wanted));
        if (!is_found)
            return false;
    }
    return true;
}

/* The size of the key, its own or the limit's: known where the contract makes the same name of its attributes. */
static void find_size(const struct keys *keys, struct look *look)
{
    static struct weir_shared shared; /* large for the stack */
    struct weir_fault fault;
    char name[NAME_MAX_LEN];
    if (!look->is_readable
        || weir_contract_shared_key(keys->contract, keys->limit_name, look->attributes.attributes,
                                    look->attributes.count, &shared, &fault)
               != 0
        || shared.count != 1)
        return;
    size_t len = name_write(keys->limit, shared.asks[0].key, shared.asks[0].key_len, name);
    look->has_size = len == look->name_len && memcmp(name, look->name, len) == 0;
    look->size = shared.asks[0].size;
    look->lease = shared.asks[0].lease;
}

/* A name as the store gives it becomes a look. False: it is not one of the limit's keys that were chosen. */
bool look_init(const struct keys *keys, struct look *look, struct slice name)
{
    struct name_parts parts;
    if (name.len >= NAME_MAX_LEN)
        return false;
    memcpy(look->name, name.at, name.len);
    look->name_len = name.len;
    look->has_size = look->is_forgotten = false;
    look->lease = keys->limit->lease;
    look->ask_count = 0;
    cli_request_init(&look->attributes);
    if (!name_read((struct slice){ look->name, look->name_len }, &parts)
        || !slice_equals(parts.limit, slice_of(keys->limit_name)))
        return false;
    read_attributes(keys, look, &parts);
    if (!is_chosen(keys, look))
        return false;
    find_size(keys, look);
    return true;
}

/* ---- Asking ------------------------------------------------------------------------------------------------------------ */

static uint64_t wall_us(void)
{
    return (uint64_t)(weir_wall_offset() + (int64_t)weir_now()) / WEIR_MICROSECOND;
}

bool look_asks_script(const struct look *look)
{
    return look->has_size && !look->size.is_unlimited;
}

static void ask(struct keys *keys, struct look *look, struct slice command)
{
    struct slice name = { look->name, look->name_len };
    fleet_ask_begin(&keys->session, &look->asks[look->ask_count++], SIZE_MAX, name_slot(name), command);
}

/* What was written behind `from`. */
static struct slice command_from(const struct text *text, size_t from)
{
    return (struct slice){ text->at + from, text->len - from };
}

/* Ask when the key goes, what is left of it, and, where it is leased, how much is out. Whole: the store may not know the
   script. */
bool look_begin(struct keys *keys, struct look *look, enum script_form form)
{
    size_t room = 2 * COMMAND_MAX + (form == SCRIPT_WHOLE ? SCRIPT_TEXT_MAX : 0), from = 0;
    struct slice name = { look->name, look->name_len };
    look->ask_count = look->peek = look->holders = 0;
    look->commands = malloc(room);
    if (look->commands == NULL)
        return false;
    struct text text = text_of(look->commands, room);
    resp_put_array(&text, 2);
    resp_put_bulk(&text, SLICE("PTTL"));
    resp_put_bulk(&text, name);
    ask(keys, look, command_from(&text, from));
    look->item = (struct script_item){
        .name = name, .limit = keys->limit->spec, .size = look->size, .lease = look->lease
    };
    look->call =
        (struct script_call){ .verb = SCRIPT_PEEK, .items = &look->item, .count = 1, .wall_us = wall_us() };
    from = text.len;
    if (look_asks_script(look) && script_put_decide(&text, form, &look->call)) {
        look->peek = look->ask_count;
        ask(keys, look, command_from(&text, from));
    }
    from = text.len;
    if (look->lease.most > 0 && script_put_holders(&text, name)) {
        look->holders = look->ask_count;
        ask(keys, look, command_from(&text, from));
    }
    return true;
}

void look_end(struct keys *keys, struct look *look)
{
    for (size_t i = 0; i < look->ask_count; i++)
        fleet_ask_end(&keys->session, &look->asks[i]);
    look->ask_count = 0;
    free(look->commands);
    look->commands = NULL;
}

/* Wait for the answers to a look. False: the store could not be had. */
bool look_wait(struct keys *keys, struct look *look)
{
    if (look->ask_count == 0)
        return false;
    return fleet_ask_wait(&keys->session, look->asks, look->ask_count);
}

/* ms; -1: no expiry; -2: there is no such key. */
static int64_t ttl_of(const struct look *look)
{
    struct resp_reader reader = resp_reader_of(look->asks[0].reply, look->asks[0].reply_len);
    struct resp_value value;
    return resp_next(&reader, &value) && value.type == RESP_INTEGER ? value.integer : -2;
}

static bool answer_of(const struct look *look, struct script_answer *out)
{
    struct slice why;
    const struct fleet_ask *peek = &look->asks[look->peek];
    return look->peek > 0
           && script_read_decide((struct slice){ peek->reply, peek->reply_len }, &look->call, out, &why);
}

/* What is in the hands of servers. False: it is not leased, or that cannot be read. */
static bool out_of(const struct look *look, uint64_t *out)
{
    struct slice why;
    struct script_holders sums;
    const struct fleet_ask *holders = &look->asks[look->holders];
    if (look->holders == 0
        || !script_read_holders((struct slice){ holders->reply, holders->reply_len }, NULL, 0, &sums, &why))
        return false;
    *out = sums.out;
    return true;
}

/* ---- Saying it ------------------------------------------------------------------------------------------------------------ */

/* The key's parts as they stand in its name: nothing in them can disturb a terminal. */
void look_print_parts(const struct look *look)
{
    struct name_parts parts;
    if (!name_read((struct slice){ look->name, look->name_len }, &parts))
        return;
    printf("%.*s", (int)parts.tag.len, parts.tag.at);
    if (parts.rest.len > 0)
        printf(",%.*s", (int)parts.rest.len, parts.rest.at);
}

void look_print_text(const struct look *look)
{
    struct script_answer answer;
    char time[VERDICT_TIME_MAX];
    int64_t ttl = ttl_of(look);
    uint64_t out;
    look_print_parts(look);
    if (look->has_size && look->size.is_unlimited)
        printf(" unlimited");
    else if (answer_of(look, &answer))
        printf(" remaining=%llu/%llu reset=%s", (unsigned long long)answer.remaining,
               (unsigned long long)look->size.capacity,
               verdict_time(answer.reset_after, WEIR_MILLISECOND, time));
    if (out_of(look, &out))
        printf(" out=%llu", (unsigned long long)out);
    if (ttl >= 0)
        printf(" ttl=%s", verdict_time((weir_ns)ttl * WEIR_MILLISECOND, WEIR_MILLISECOND, time));
    else
        printf(ttl == -1 ? " ttl=never" : " absent");
    printf(look->is_forgotten ? " forgotten\n" : "\n");
}

static void put_length(struct text *text, const char *name, bool is_known, weir_ns length)
{
    text_string(text, name);
    if (is_known && length != WEIR_NO_TIME)
        text_seconds(text, length);
    else
        text_literal(text, "null");
}

static void put_number(struct text *text, const char *name, bool is_known, uint64_t number)
{
    text_string(text, name);
    if (is_known)
        text_u64(text, number);
    else
        text_literal(text, "null");
}

void look_put_key(struct text *text, const struct keys *keys, const struct look *look)
{
    text_literal(text, "\"limit\": ");
    text_json(text, slice_of(keys->limit_name));
    text_literal(text, ", \"name\": ");
    text_json(text, (struct slice){ look->name, look->name_len });
    text_string(text, look->is_readable ? ", \"key\": {" : ", \"key\": null");
    for (size_t i = 0; i < look->attributes.count; i++) {
        const struct weir_attribute *attribute = &look->attributes.attributes[i];
        text_string(text, i == 0 ? "" : ", ");
        text_json(text, slice_of(attribute->name));
        text_literal(text, ": ");
        text_json(text, (struct slice){ attribute->value, attribute->len });
    }
    text_string(text, look->is_readable ? "}" : "");
}

void look_print_json(const struct keys *keys, const struct look *look)
{
    char room[4 * NAME_MAX_LEN + 1024];
    struct text text = text_of(room, sizeof room);
    struct script_answer answer = { 0 };
    int64_t ttl = ttl_of(look);
    bool is_known = answer_of(look, &answer);
    uint64_t out = 0;
    text_literal(&text, "{");
    look_put_key(&text, keys, look);
    put_number(&text, ", \"capacity\": ", is_known, look->size.capacity);
    put_number(&text, ", \"remaining\": ", is_known, answer.remaining);
    if (look->lease.most > 0) {
        bool is_out_known = out_of(look, &out);
        put_number(&text, ", \"out\": ", is_out_known, out);
    }
    put_length(&text, ", \"reset_after\": ", is_known, answer.reset_after);
    put_length(&text, ", \"ttl\": ", ttl >= 0, (weir_ns)ttl * WEIR_MILLISECOND);
    text_string(&text, ttl == -2 ? ", \"present\": false" : ", \"present\": true");
    if (keys->is_reset)
        text_string(&text, look->is_forgotten ? ", \"forgotten\": true" : ", \"forgotten\": false");
    text_literal(&text, "}\n");
    (void)fwrite(text.at, 1, text.len, stdout); /* main() asks whether all arrived */
}
