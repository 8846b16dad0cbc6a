// SPDX-License-Identifier: Apache-2.0
/*
 * incarnation.c - the record is read; where there is none, or none that can be read, written and read again.
 *
 * What is known is always what was read: so everybody who reads sees the one record that is there, whoever wrote it.
 */
#include "fleet/incarnation.h"

#include <stdio.h>

#include "base/entropy.h"
#include "fleet/name.h"
#include "fleet/store_refusal.h"

/* Rounds of writing and reading: others may delete or damage it meanwhile. */
#define TRIES_MAX 3

/* Longest command: SET with key, text and options. */
#define COMMAND_MAX 256

enum { STEP_READ, STEP_KEEP, STEP_TIME, STEP_WRITE };

size_t incarnation_key(uint64_t n, char out[INCARNATION_KEY_MAX])
{
    return (size_t)snprintf(out, INCARNATION_KEY_MAX, NAME_PREFIX "{%llu}:incarnation", (unsigned long long)n);
}

size_t incarnation_write(struct incarnation incarnation, char out[INCARNATION_TEXT_MAX])
{
    return (size_t)snprintf(out, INCARNATION_TEXT_MAX, "%016llx %llu", (unsigned long long)incarnation.id,
                            (unsigned long long)incarnation.began_at_us);
}

bool incarnation_read(struct slice text, struct incarnation *out)
{
    struct incarnation read = { 0 };
    /* 16 digits, a blank, and a time below 2^52 microseconds, which scripts can compute with: year 2112. */
    if (text.len < 18 || text.at[16] != ' '
        || !slice_to_u64((struct slice){ text.at + 17, text.len - 17 }, (UINT64_C(1) << 52) - 1,
                         &read.began_at_us))
        return false;
    for (size_t i = 0; i < 16; i++) {
        char c = text.at[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        read.id = read.id << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    if (read.id == 0)
        return false;
    *out = read;
    return true;
}

/* ---- Asking ------------------------------------------------------------------------------------------------------ */

static void settle(struct incarnation_asker *asker, enum incarnation_result result)
{
    asker->link = NULL;
    asker->settled(asker, result);
}

static void send_words(struct incarnation_asker *asker, const struct slice *words, uint32_t count)
{
    char room[COMMAND_MAX];
    struct text text = text_of(room, sizeof room);
    resp_put_array(&text, count);
    for (uint32_t i = 0; i < count; i++)
        resp_put_bulk(&text, words[i]);
    if (text.is_cut || !link_send(asker->link, text_slice(&text), 1, &asker->command))
        settle(asker, INCARNATION_FAILED);
}

static void send_step(struct incarnation_asker *asker, int step)
{
    char expiry[24], value[INCARNATION_TEXT_MAX];
    struct slice key = { asker->key, asker->key_len };
    struct slice px = { expiry, (size_t)snprintf(expiry, sizeof expiry, "%llu",
                                                 (unsigned long long)INCARNATION_EXPIRY_MS) };
    struct slice text = { value, incarnation_write(asker->proposed, value) };
    asker->step = step;
    switch (step) {
    case STEP_READ:
        send_words(asker, (struct slice[]){ SLICE("GET"), key }, 2);
        return;
    case STEP_KEEP:
        send_words(asker, (struct slice[]){ SLICE("PEXPIRE"), key, px }, 3);
        return;
    case STEP_TIME:
        send_words(asker, (struct slice[]){ SLICE("TIME") }, 1);
        return;
    case STEP_WRITE:
        send_words(asker, (struct slice[]){ SLICE("SET"), key, text, SLICE("PX"), px, SLICE("NX") },
                   asker->is_damaged ? 5 : 6);
        return;
    }
}

/* The record stands, or has to be written first. */
static void take_record(struct incarnation_asker *asker, const struct resp_value *value)
{
    struct incarnation read;
    if (value->type == RESP_BULK && incarnation_read(value->text, &read)) {
        asker->known = read;
        if (asker->looks++ % INCARNATION_KEEP_EVERY == 0)
            send_step(asker, STEP_KEEP);
        else
            settle(asker, INCARNATION_KNOWN);
        return;
    }
    asker->is_damaged = value->type != RESP_NULL;
    if (asker->tries++ == TRIES_MAX)
        settle(asker, INCARNATION_FAILED);
    else
        send_step(asker, STEP_TIME);
}

/* The node's time: seconds and microseconds, as texts. */
static void take_time(struct incarnation_asker *asker, struct resp_reader *reader,
                      const struct resp_value *value)
{
    struct resp_value seconds, micros;
    uint64_t s, us;
    if (value->type != RESP_ARRAY || value->count != 2 || !resp_next(reader, &seconds)
        || !resp_next(reader, &micros) || !slice_to_u64(seconds.text, UINT32_MAX, &s)
        || !slice_to_u64(micros.text, 999999, &us)
        || !entropy_fill(&asker->proposed.id, sizeof asker->proposed.id)) {
        settle(asker, INCARNATION_FAILED);
        return;
    }
    asker->proposed.id |= 1; /* never 0 */
    asker->proposed.began_at_us = s * 1000000 + us;
    send_step(asker, STEP_WRITE);
}

static void take_reply(struct incarnation_asker *asker, struct slice reply)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    if (!resp_next(&reader, &value)) {
        settle(asker, INCARNATION_FAILED);
        return;
    }
    switch (asker->step) {
    case STEP_READ:
        take_record(asker, &value);
        return;
    case STEP_KEEP:
        if (value.type == RESP_INTEGER && value.integer == 0) /* it has gone since */
            take_record(asker, &(struct resp_value){ .type = RESP_NULL });
        else
            settle(asker, INCARNATION_KNOWN);
        return;
    case STEP_TIME:
        take_time(asker, &reader, &value);
        return;
    case STEP_WRITE:
        send_step(asker, STEP_READ);
        return;
    }
}

static void reply_done(struct link_command *command, enum carrier_result result, struct slice reply)
{
    struct incarnation_asker *asker = command->owner;
    struct slice error = { 0 };
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    if (result != CARRIER_REPLY) {
        settle(asker, INCARNATION_FAILED);
        return;
    }
    enum refusal refusal = refusal_read(reply, &error);
    if (refusal >= REFUSAL_MOVED && refusal <= REFUSAL_MOVING) {
        settle(asker, INCARNATION_ELSEWHERE);
        return;
    }
    bool is_error = resp_next(&reader, &value) && value.type == RESP_ERROR;
    if (!is_error)
        take_reply(asker, reply);
    else if (asker->step == STEP_READ && slice_equals(resp_error_code(value.text), SLICE("WRONGTYPE")))
        take_record(asker, &value);
    else if (asker->step == STEP_KEEP) /* it was read: that counts */
        settle(asker, INCARNATION_KNOWN);
    else if (slice_equals(resp_error_code(value.text), SLICE("NOPERM")))
        settle(asker, INCARNATION_FORBIDDEN);
    else
        settle(asker, INCARNATION_FAILED);
}

void incarnation_ask(struct incarnation_asker *asker, struct link *link, uint64_t n)
{
    if (asker->link != NULL)
        return;
    asker->link = link;
    asker->tries = 0;
    asker->is_damaged = false;
    asker->key_len = incarnation_key(n, asker->key);
    asker->command.done = reply_done;
    asker->command.owner = asker;
    send_step(asker, STEP_READ);
}

void incarnation_stop(struct incarnation_asker *asker)
{
    if (asker->link != NULL)
        link_abandon(asker->link, &asker->command);
    asker->link = NULL;
}
