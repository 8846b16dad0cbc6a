// SPDX-License-Identifier: Apache-2.0
/* calls.c - calls of Envoy's rate limit service, written as text. */
#include "support/calls.h"

#include <ctype.h>

#include "support/unit.h"

static char *trimmed(char *text)
{
    while (*text == ' ')
        text++;
    for (size_t len = strlen(text); len > 0 && text[len - 1] == ' '; len--)
        text[len - 1] = '\0';
    return text;
}

static void read_descriptor(struct call_text *call, size_t index, char *text)
{
    struct weir_descriptor *descriptor = &call->descriptors[index];
    char *end = NULL, *rest;
    uint64_t hits = 1;
    *descriptor = (struct weir_descriptor){ .entries = call->entries[index] };
    text = trimmed(text);
    if (isdigit((unsigned char)*text)) {
        hits = strtoull(text, &end, 10);
        if (*end == '*')
            text = end + 1;
        else
            hits = 1;
    }
    call->requests[index].cost = hits;
    for (char *entry = strtok_r(text, ",", &rest); entry != NULL; entry = strtok_r(NULL, ",", &rest)) {
        assert_true(descriptor->entry_count < WEIR_ENTRIES_MAX + 1);
        entry = trimmed(entry);
        size_t key_len = strcspn(entry, "=");
        const char *value = entry + key_len + (entry[key_len] == '=');
        call->entries[index][descriptor->entry_count++] =
            (struct weir_entry){ entry, value, key_len, strlen(value) };
    }
}

void call_read(struct call_text *call, const char *text)
{
    char *rest;
    assert_true(strlen(text) < sizeof call->text);
    strcpy(call->text, text);
    call->count = 0;
    call->domain = trimmed(strtok_r(call->text, "|", &rest));
    for (char *part = strtok_r(NULL, "|", &rest); part != NULL; part = strtok_r(NULL, "|", &rest)) {
        assert_true(call->count < WEIR_DESCRIPTORS_MAX);
        call->requests[call->count] = (struct weir_request){ 0 };
        read_descriptor(call, call->count++, part);
    }
}

const char *call_describe(const struct weir_contract *contract, struct call_text *call)
{
    const char *refused = NULL;
    for (size_t i = 0; i < call->count; i++) {
        weir_contract_describe(contract, call->domain, strlen(call->domain), call->descriptors, call->count, i,
                               &call->said[i]);
        call->requests[i].attributes = call->said[i].attributes;
        call->requests[i].attribute_count = call->said[i].count;
        call->requests[i].also = i + 1 < call->count ? &call->requests[i + 1] : NULL;
        if (refused == NULL)
            refused = call->said[i].refused;
    }
    return refused;
}
