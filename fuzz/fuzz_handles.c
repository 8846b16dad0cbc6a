// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_handles.c - any bytes as the body of each call, as the text of a reservation, as a token of two parts and as a
 * reservation: a body is read or refused with a named fault, a text and a token have one spelling, and a reservation that we
 * did not make changes nothing.
 *
 * The first byte says which. Of reservations the limiter's secret is fixed, and half of the inputs are one of
 * its own, changed where the input says, so that the fuzzer gets behind the proof of origin.
 */
#include <stdlib.h>
#include <string.h>

#include "weir.h"
#include "wire/answer.h"
#include "wire/base64url.h"
#include "wire/call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* ---- Bodies ---------------------------------------------------------------------------------------------- */

static void fuzz_body(enum call call, const char *at, size_t len)
{
    static struct weir_attribute attributes[CHECK_ATTRIBUTES_MAX];
    static struct call_body body;
    struct check_fault fault;
    char *scratch = malloc(len == 0 ? 1 : len);
    if (scratch == NULL)
        exit(1);
    const struct check_storage storage = { NULL, 0, attributes, CHECK_ATTRIBUTES_MAX, scratch, len };
    if (call_parse(call, &storage, at, len, &body, &fault) == 0) {
        require(body.ask.cost <= INT64_MAX && body.ask.attribute_count <= WEIR_ATTRIBUTES_MAX);
        require(body.expires_after > 0 && body.expires_after <= CALL_EXPIRES_AFTER_MAX);
        bool has_permit = call == CALL_RENEW || call == CALL_RELEASE;
        bool has_handle = has_permit || call == CALL_SETTLE || call == CALL_CANCEL;
        require(body.token.own.len <= (has_permit ? WEIR_PERMIT_MAX : WEIR_RESERVATION_MAX));
        require(has_handle == (body.handle.len > 0));
        require(body.ask.wait <= WEIR_HORIZON && call_outcome_name(body.outcome) != NULL);
        require((call == CALL_RESET) == (body.limit != NULL));
        require(body.limit == NULL || (strlen(body.limit) >= 1 && strlen(body.limit) <= WEIR_NAME_MAX));
    } else {
        char written[4096];
        struct text text = text_of(written, sizeof written);
        size_t named = strlen(fault.field); /* the message begins with it, and it may hold any words */
        require(strlen(fault.message) > named && strncmp(fault.message + named, " has no room", 12) != 0);
        answer_error_json(&text, 400, fault.message, slice_of(fault.field));
        require(!text.is_cut);
    }
    free(scratch);
}

/* ---- Texts ----------------------------------------------------------------------------------------------- */

static void fuzz_text(const char *at, size_t len)
{
    unsigned char bytes[WEIR_RESERVATION_MAX];
    char again[BASE64URL_LEN(sizeof bytes)];
    size_t count;
    if (!base64url_decode((struct slice){ at, len }, bytes, sizeof bytes, &count))
        return;
    struct text text = text_of(again, sizeof again);
    base64url_encode(&text, bytes, count);
    require(!text.is_cut && slice_equals(text_slice(&text), (struct slice){ at, len }));
}

/* ---- Tokens ---------------------------------------------------------------------------------------------- */

/* Any bytes are a token in one way or in none, and its parts lie in them. */
static void fuzz_token(const char *at, size_t len)
{
    static unsigned char again[TOKEN_MAX];
    struct token token;
    if (!token_split((struct slice){ at, len }, TOKEN_OWN_MAX, &token))
        return;
    require(token.own.len <= TOKEN_OWN_MAX && token.shared.len <= TOKEN_SHARED_MAX);
    require(token.own.len + token.shared.len > 0);
    if (token.shared.len == 0)
        require(token.own.at == at && token.own.len == len);
    else
        require(token_join(&token, again) == len && memcmp(again, at, len) == 0);
}

/* ---- Reservations ---------------------------------------------------------------------------------------- */

static struct weir *limiter;
static struct weir_reservation own;

static uint64_t remaining(void)
{
    struct weir_decision decision;
    require(weir_peek(limiter, 0, "k", 1, 0, WEIR_SECOND, &decision) == 0);
    return decision.remaining;
}

/* A limiter with one key that has 5 of 20 reserved, and nothing that refills. */
static void make_limiter(void)
{
    static const uint8_t secret[16] = "sixteen letters";
    const struct weir_options options = { .keys = 64, .secret = secret };
    const struct weir_limit limit = { .name = "one", .rate = { 0, WEIR_SECOND }, .burst = 20 };
    struct weir_ask ask = { .key = "k", .key_len = 1, .cost = 5 };
    struct weir_decision decision;
    require(weir_new(&limiter, &options) == 0 && weir_limit_add(limiter, &limit, &ask.limit) == 0);
    require(weir_reserve(limiter, &ask, 1, WEIR_SECOND, WEIR_HORIZON / 2, NULL, &decision, &own) == 0);
    require(decision.outcome == WEIR_ALLOW && own.len > 0 && remaining() == 15);
}

static void expect_refused(const void *bytes, size_t len)
{
    struct weir_settlement done;
    if (len == own.len && memcmp(bytes, own.bytes, len) == 0)
        return;
    require(weir_settle(limiter, bytes, len, 0, WEIR_SECOND, &done) == WEIR_ERR_RESERVATION);
    require(weir_cancel(limiter, bytes, len, WEIR_SECOND, &done) == WEIR_ERR_RESERVATION);
    require(remaining() == 15);
}

static void fuzz_reservation(const char *at, size_t len)
{
    if (limiter == NULL)
        make_limiter();
    expect_refused(at, len);
    struct weir_reservation changed = own;
    for (size_t i = 0; i + 1 < len; i += 2)
        changed.bytes[(unsigned char)at[i] % own.len] ^= (unsigned char)at[i + 1];
    expect_refused(changed.bytes, changed.len);
    if (len > 0)
        expect_refused(own.bytes, (unsigned char)at[0] % own.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *copy = malloc(size); /* as long as its bytes, so that a look behind the end is seen */
    if (copy == NULL)
        exit(1);
    memcpy(copy, data + 1, size - 1);
    unsigned which = data[0] % (CALL_COUNT + 3);
    if (which < CALL_COUNT)
        fuzz_body((enum call)which, copy, size - 1);
    else if (which == CALL_COUNT)
        fuzz_text(copy, size - 1);
    else if (which == CALL_COUNT + 1)
        fuzz_reservation(copy, size - 1);
    else
        fuzz_token(copy, size - 1);
    free(copy);
    return 0;
}
