// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_resp_door.c - any bytes as commands of the Redis door: each gives a body that the call's reader takes or finds a fault of its
 * own in, or a reason; what a decision answers becomes exactly one reply of either version.
 *
 * The way is the door's: resp_command_parse(), resp_call_body(), check_parse() or call_parse(), the contract, answer_json(),
 * resp_put_json(). A body says what the words said: nothing of an attribute may reach another member.
 */
#include <stdlib.h>
#include <string.h>

#include "net/resp.h"
#include "wire/answer.h"
#include "wire/call.h"
#include "wire/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char contract_text[] =
    "weir: 1\n"
    "limits:\n"
    "  - { name: tenants, key: [tenant], rate: 7/s, burst: 20, debt: 5 }\n"
    "  - { name: everyone, key: [], rate: 1000/s, burst: 1000 }\n"
    "  - { name: watched, key: [user], rate: 1/s, burst: 2, enforce: shadow }\n"
    "  - { name: never, key: [], when: { path: /never/** }, rate: 1/s, burst: 1 }\n";

static struct weir_contract *contract;
static struct check_storage storage;
static weir_ns now = WEIR_SECOND;

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void prepare(void)
{
    static const uint8_t secret[16] = "a fuzzer's key";
    static struct check_request requests[CHECK_REQUESTS_MAX];
    static struct weir_attribute attributes[CHECK_ATTRIBUTES_MAX];
    static char scratch[CHECK_BODY_MAX];
    const struct weir_contract_options options = { .keys = 1024, .has_wall_offset = true, .secret = secret };
    struct weir_diagnostics *diagnostics = NULL;
    storage = (struct check_storage){ requests, CHECK_REQUESTS_MAX, attributes, CHECK_ATTRIBUTES_MAX,
                                      scratch,  sizeof scratch };
    require(weir_contract_parse(&contract, contract_text, sizeof contract_text - 1, "fuzz.yaml", &options,
                                &diagnostics)
            == 0);
    weir_diagnostics_free(diagnostics);
}

/* ---- Replies --------------------------------------------------------------------------------------------------------- */

/* One whole value and nothing behind it, which has as many inside as its heads say. */
static void check_reply(const struct text *text)
{
    struct resp_reply_parser parser = RESP_REPLY_START;
    size_t len;
    require(!text->is_cut);
    require(resp_reply_parse(&parser, text->at, text->len, &len) == RESP_DONE && len == text->len);
    struct resp_reader reader = resp_reader_of(text->at, text->len);
    struct resp_value value;
    require(resp_next(&reader, &value) && resp_skip(&reader, &value) && reader.at == reader.end);
}

static void check_json(struct slice json)
{
    static char room[4 * RESP_CALL_BODY_MAX], scratch_room[RESP_CALL_BODY_MAX];
    for (int version = RESP2; version <= RESP3; version++) {
        struct text out = text_of(room, sizeof room), scratch = text_of(scratch_room, sizeof scratch_room);
        require(resp_put_json(&out, (enum resp_version)version, json, &scratch));
        check_reply(&out);
    }
}

static struct text answer_room(void)
{
    static char room[ANSWER_MAX];
    return text_of(room, sizeof room);
}

/* ---- Calls ------------------------------------------------------------------------------------------------------------- */

/* The attributes are the words behind ATTR, in order. */
static void check_attributes(const struct weir_request *ask, const struct slice *words, size_t count)
{
    size_t seen = 0;
    for (size_t i = 0; i < ask->attribute_count; i++) {
        const struct weir_attribute *attribute = &ask->attributes[i];
        struct slice name = slice_of(attribute->name), value = { attribute->value, attribute->len };
        while (seen + 1 < count && !(slice_equals(words[seen], name) && slice_equals(words[seen + 1], value)))
            seen++;
        require(seen + 1 < count);
        seen += 2;
    }
}

static void decide(const struct weir_request *ask)
{
    struct weir_answer answer;
    struct weir_settlement settlement;
    struct answer_beside beside = { .expires_after = WEIR_NO_TIME };
    struct text json = answer_room();
    if (weir_contract_decide(contract, ask, now, &answer) != 0)
        return;
    answer_json(&json, &answer, &beside, now);
    check_json(text_slice(&json));
    json = answer_room();
    if (weir_contract_refund(contract, ask, now, &settlement) == 0) {
        answer_settlement_json(&json, &settlement, "tenants", false);
        check_json(text_slice(&json));
    }
    now += WEIR_SECOND / 64;
}

static void reserve(const struct weir_request *ask)
{
    struct weir_answer answer;
    struct weir_reservation ticket;
    struct answer_beside beside = { .ticket = &ticket, .expires_after = CALL_EXPIRES_AFTER };
    struct text json = answer_room();
    if (weir_contract_reserve(contract, ask, now, CALL_EXPIRES_AFTER, &answer, &ticket) != 0)
        return;
    answer_json(&json, &answer, &beside, now);
    check_json(text_slice(&json));
}

static void check_fault(const struct check_fault *fault)
{
    require(fault->message[0] != '\0' && strlen(fault->field) < sizeof fault->field
            && strlen(fault->message) < sizeof fault->message);
}

static void read_check(struct slice body, const struct slice *words, size_t count)
{
    struct check_fault fault;
    struct check_body check;
    if (check_parse(&storage, body.at, body.len, &check, &fault) != 0) {
        check_fault(&fault);
        return;
    }
    require(!check.is_batch && check.count == 1);
    check_attributes(&check.requests[0].ask, words, count);
    decide(&check.requests[0].ask);
}

static void read_call(enum call call, struct slice body, const struct slice *words, size_t count)
{
    struct check_fault fault;
    struct call_body read;
    if (call_parse(call, &storage, body.at, body.len, &read, &fault) != 0) {
        check_fault(&fault);
        return;
    }
    if (read.handle.len == 0)
        check_attributes(&read.ask, words, count);
    if (call == CALL_RESERVE)
        reserve(&read.ask);
}

static void follow(const struct resp_row *row, struct slice body, const struct slice *words, size_t count)
{
    static const enum call calls[] = {
        [RESP_CALL_RESERVE] = CALL_RESERVE, [RESP_CALL_ACQUIRE] = CALL_ACQUIRE,
        [RESP_CALL_REFUND] = CALL_REFUND,   [RESP_CALL_SETTLE] = CALL_SETTLE,
        [RESP_CALL_CANCEL] = CALL_CANCEL,   [RESP_CALL_RENEW] = CALL_RENEW,
        [RESP_CALL_RELEASE] = CALL_RELEASE, [RESP_CALL_RESET] = CALL_RESET,
    };
    check_json(body); /* it is JSON: one value, with as many members as it has */
    if (row->call == RESP_CALL_CHECK || row->call == RESP_CALL_PEEK)
        read_check(body, words, count);
    else
        read_call(calls[row->call], body, words, count);
}

static void handle(const struct resp_command *command)
{
    static char room[RESP_CALL_BODY_MAX];
    char why[RESP_CALL_WHY_MAX] = "";
    const struct resp_row *row = command->count == 0 ? NULL : resp_find(command->words[0]);
    if (row == NULL)
        return;
    require(slice_equals_fold(command->words[0], slice_of(row->name)));
    if (row->handle != resp_weir)
        return;
    struct text body = text_of(room, sizeof room);
    if (resp_call_body(row->call, command->words + 1, command->count - 1, &body, why)) {
        require(!body.is_cut);
        follow(row, text_slice(&body), command->words + 1, command->count - 1);
        return;
    }
    struct text out = answer_room();
    require(why[0] != '\0' && memchr(why, '\0', sizeof why) != NULL);
    resp_put_error(&out, slice_of(why));
    check_reply(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct resp_command command;
    if (contract == NULL)
        prepare();
    char *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL)
        exit(1);
    if (size > 0)
        memcpy(copy, data, size);
    for (size_t at = 0, commands = 0; at < size && commands < 64; commands++) {
        struct resp_command_parser parser = RESP_COMMAND_START;
        if (resp_command_parse(&parser, copy + at, size - at, false, &command) != RESP_DONE)
            break;
        handle(&command);
        at += command.len;
    }
    free(copy);
    return 0;
}
