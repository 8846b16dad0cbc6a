// SPDX-License-Identifier: Apache-2.0
/*
 * link_greet.c - the first words on a connection, and what the answers mean.
 *
 * All leave together: HELLO 3 with AUTH and SETNAME, SELECT, PING. A server that does not know HELLO gets AUTH, CLIENT
 * SETNAME, SELECT, PING in a second round trip. A name that may not be set is no fault. PING at the end finds out what
 * HELLO does not say: that the server is still loading, that its master is away, that it wants a password.
 *
 * What a server says is told to people, the password never: old servers repeat the words of a command that they do not
 * know.
 */
#include <stdarg.h>
#include <stdlib.h>

#include "fleet/link_inside.h"

#define CLIENT_NAME "weir"

/* Framing of all the words, without user and password. */
#define GREETING_ROOM 512

/* ---- Saying ---------------------------------------------------------------------------------------------------- */

static void await(struct greeting *greeting, enum greeting_step step)
{
    greeting->steps[greeting->count++] = step;
}

static void put_words(struct text *text, unsigned count, ...)
{
    va_list words;
    va_start(words, count);
    resp_put_array(text, count);
    for (unsigned i = 0; i < count; i++)
        resp_put_bulk(text, slice_of(va_arg(words, const char *)));
    va_end(words);
}

static void put_hello(struct text *text, struct greeting *greeting, const struct link_target *target)
{
    await(greeting, GREET_HELLO);
    if (target->password == NULL) {
        put_words(text, 4, "HELLO", "3", "SETNAME", CLIENT_NAME);
        return;
    }
    put_words(text, 7, "HELLO", "3", "AUTH", target->user == NULL ? "default" : target->user, target->password,
              "SETNAME", CLIENT_NAME);
}

static void put_auth(struct text *text, struct greeting *greeting, const struct link_target *target)
{
    if (target->password != NULL) {
        await(greeting, GREET_AUTH);
        if (target->user == NULL)
            put_words(text, 2, "AUTH", target->password); /* the only form before Redis 6 */
        else
            put_words(text, 3, "AUTH", target->user, target->password);
    }
    await(greeting, GREET_NAME);
    put_words(text, 3, "CLIENT", "SETNAME", CLIENT_NAME);
}

static void put_rest(struct text *text, struct greeting *greeting, const struct link_target *target)
{
    if (target->db > 0) {
        await(greeting, GREET_SELECT);
        resp_put_array(text, 2);
        resp_put_bulk(text, SLICE("SELECT"));
        resp_put_bulk_i64(text, target->db);
    }
    await(greeting, GREET_PING);
    put_words(text, 1, "PING");
}

static bool say(struct link *link, bool is_old)
{
    const struct link_target *target = link->target;
    size_t room = GREETING_ROOM + slice_of(target->user).len + slice_of(target->password).len;
    char *words = malloc(room);
    if (words == NULL)
        return false;
    struct text text = text_of(words, room);
    link->greeting = (struct greeting){ .is_old = is_old };
    if (is_old)
        put_auth(&text, &link->greeting, target);
    else
        put_hello(&text, &link->greeting, target);
    put_rest(&text, &link->greeting, target);
    bool is_said = !text.is_cut && link_queue(link, text_slice(&text));
    explicit_bzero(words, room);
    free(words);
    return is_said;
}

bool link_greet(struct link *link)
{
    link->version = RESP2; /* until HELLO has said otherwise */
    return say(link, link->prefers_resp2);
}

/* ---- What a server's words may be told as ----------------------------------------------------------------------- */

static bool holds(struct slice text, struct slice part)
{
    return part.len > 0 && memmem(text.at, text.len, part.at, part.len) != NULL;
}

/* The fault as it may be shown, in `out`: printable, and without what repeats our words. */
static struct slice shown(const struct link *link, struct slice fault, char out[LINK_WHY_MAX])
{
    const char *echo = memmem(fault.at, fault.len, ", with args", 11);
    if (echo != NULL)
        fault.len = (size_t)(echo - fault.at);
    if (holds(fault, slice_of(link->target->password)))
        fault = SLICE("it refuses the greeting, in words that repeat the password");
    size_t len = fault.len < LINK_WHY_MAX ? fault.len : LINK_WHY_MAX;
    for (size_t i = 0; i < len; i++)
        out[i] = fault.at[i] >= ' ' && fault.at[i] <= '~' ? fault.at[i] : '?';
    return (struct slice){ out, len };
}

/* What passes by itself; everything else waits for somebody to change a password or a right. */
static bool passes(struct slice fault)
{
    struct slice code = resp_error_code(fault);
    return slice_equals(code, SLICE("LOADING")) || slice_equals(code, SLICE("MASTERDOWN"))
           || slice_equals(code, SLICE("BUSY")) || holds(fault, SLICE("max number of clients"));
}

static void fail(struct link *link, struct slice fault)
{
    char room[LINK_WHY_MAX];
    bool is_stranger = link->target->password == NULL && slice_equals(resp_error_code(fault), SLICE("NOAUTH"));
    struct slice why = is_stranger ? SLICE("NOAUTH: it wants a password, and none is given: put it in the URL, "
                                           "redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST")
                                   : shown(link, fault, room);
    link_drop(link, why, !passes(fault));
}

/* ---- Hearing --------------------------------------------------------------------------------------------------- */

/* The version that the server's answer to HELLO names. */
static enum resp_version version_of(struct slice reply)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value map, key, value;
    if (!resp_next(&reader, &map))
        return RESP2;
    for (uint32_t i = 0; i + 1 < map.count; i += 2) {
        if (!resp_next(&reader, &key) || !resp_skip(&reader, &key) || !resp_next(&reader, &value)
            || !resp_skip(&reader, &value))
            break;
        if (resp_is_text(&key) && slice_equals(key.text, SLICE("proto")) && value.type == RESP_INTEGER)
            return value.integer == 3 ? RESP3 : RESP2;
    }
    return map.type == RESP_MAP ? RESP3 : RESP2;
}

/* Whether the server may know the older words: it does not know HELLO, this version, or an option of it. */
static bool is_unknown(struct slice fault)
{
    struct slice code = resp_error_code(fault);
    return slice_equals(code, SLICE("NOPROTO")) || (slice_equals(code, SLICE("ERR")) && !passes(fault));
}

static void hello_answered(struct link *link, const struct resp_value *value, struct slice reply)
{
    if (value->type == RESP_ERROR && !is_unknown(value->text)) {
        fail(link, value->text);
        return;
    }
    if (value->type != RESP_ERROR)
        link->version = version_of(reply);
    if (link->version == RESP2 && link->target->wants_pushes)
        link_drop(link, SLICE("it does not speak RESP3"), true);
    else if (value->type == RESP_ERROR)
        link->greeting.is_old = true; /* what was sent behind HELLO is still answered: then the older words */
}

/* Whether the link may go on. */
static void step_answered(struct link *link, enum greeting_step step, const struct resp_value *value)
{
    if (value->type != RESP_ERROR || step == GREET_NAME)
        return;
    struct slice code = resp_error_code(value->text);
    bool is_refused = step != GREET_PING || slice_equals(code, SLICE("NOAUTH"))
                      || slice_equals(code, SLICE("LOADING")) || slice_equals(code, SLICE("MASTERDOWN"));
    if (is_refused)
        fail(link, value->text);
}

void link_greeted(struct link *link, struct slice reply)
{
    struct greeting *greeting = &link->greeting;
    const uint64_t generation = link->generation;
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    if (!resp_next(&reader, &value))
        return; /* it was read whole */
    bool was_hello = greeting->steps[0] == GREET_HELLO;
    enum greeting_step step = greeting->steps[greeting->at++];
    if (step == GREET_HELLO)
        hello_answered(link, &value, reply);
    else if (!(was_hello && greeting->is_old)) /* else an answer that no longer matters */
        step_answered(link, step, &value);
    if (link->generation != generation || greeting->at < greeting->count)
        return;
    if (!(was_hello && greeting->is_old))
        link_rise(link);
    else if (!say(link, true))
        link_drop(link, SLICE("memory is out"), false);
}
