// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_resp_door.c - any bytes as commands of the Redis door: each gives a call or a reason; what a decision answers becomes exactly
 * one reply of either version, and one value of JSON.
 *
 * The way is the door's: resp_command_parse(), resp_words_read(), the contract, answer_write(). A call says what the words said:
 * nothing of an attribute may reach another member.
 */
#include <stdlib.h>
#include <string.h>

#include "net/resp.h"
#include "wire/answer.h"
#include "wire/json.h"
#include "wire/resp_words.h"

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

static void check_json(const struct text *text)
{
    static char scratch[ANSWER_MAX];
    struct json json;
    enum json_token token;
    require(!text->is_cut);
    json_init(&json, text->at, text->len, scratch, sizeof scratch);
    do {
        token = json_next(&json);
        require(token != TOKEN_ERROR);
    } while (token != TOKEN_END);
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

static void check_forms(const struct weir_answer *answer, const struct answer_beside *beside)
{
    for (int form = ANSWER_JSON; form <= ANSWER_RESP3; form++) {
        struct text out = answer_room();
        answer_write(&out, (enum answer_form)form, answer, beside, now);
        if (form == ANSWER_JSON)
            check_json(&out);
        else
            check_reply(&out);
    }
}

static void decide(const struct weir_request *ask)
{
    struct weir_answer answer;
    struct weir_settlement settlement;
    struct answer_beside beside = { .expires_after = WEIR_NO_TIME };
    if (weir_contract_decide(contract, ask, now, &answer) != 0) {
        struct weir_fault fault;
        require(weir_contract_validate(contract, ask, &fault) != 0 && fault.message[0] != '\0');
        return;
    }
    check_forms(&answer, &beside);
    if (weir_contract_refund(contract, ask, now, &settlement) == 0)
        for (int form = ANSWER_RESP2; form <= ANSWER_RESP3; form++) {
            struct text out = answer_room();
            answer_settlement(&out, (enum answer_form)form, &settlement, "tenants", false);
            check_reply(&out);
        }
    now += WEIR_SECOND / 64;
}

static void reserve(const struct call_body *call)
{
    struct weir_answer answer;
    struct weir_reservation ticket;
    struct answer_beside beside = { .ticket = &ticket, .expires_after = call->expires_after };
    if (weir_contract_reserve(contract, &call->ask, now, call->expires_after, &answer, &ticket) == 0)
        check_forms(&answer, &beside);
}

/* What the readers of the HTTP API promise holds here, too. */
static void follow(enum resp_call which, const struct call_body *call, const struct slice *words, size_t count)
{
    require(call->ask.cost <= INT64_MAX && call->ask.wait <= WEIR_WAIT_MAX);
    require(call->expires_after > 0 && call->expires_after <= CALL_EXPIRES_AFTER_MAX);
    require(call->ask.attribute_count <= WEIR_ATTRIBUTES_MAX && call->handle.len <= TOKEN_MAX);
    check_attributes(&call->ask, words, count);
    if (which == RESP_CALL_RESERVE)
        reserve(call);
    else if (call->handle.len == 0)
        decide(&call->ask);
}

static void handle(const struct resp_command *command)
{
    char why[RESP_WORDS_WHY_MAX] = "";
    struct call_body call;
    const struct resp_row *row = command->count == 0 ? NULL : resp_find(command->words[0]);
    if (row == NULL)
        return;
    require(slice_equals_fold(command->words[0], slice_of(row->name)));
    if (row->handle != resp_weir)
        return;
    if (resp_words_read(row->call, command->words + 1, command->count - 1, &storage, &call, why)) {
        follow(row->call, &call, command->words + 1, command->count - 1);
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
