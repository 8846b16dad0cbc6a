// SPDX-License-Identifier: Apache-2.0
/*
 * rls_codec.c - our codec of the rate limit service, a line at a time, for test_rls_protoc.py.
 *
 *   call HEX    -> `bad WHY`, or `good` and DOMAIN HITS REFUND LIMIT REQUESTS UNIT UNITS COUNT KEY VALUE ... of each descriptor
 *   answer CODE COUNT (CODE LIMIT REQUESTS UNIT UNITS NAME LEFT RESET)* COUNT (KEY VALUE)* BODY
 *               -> HEX of the message, a blank, and the JSON. RESET -1: none
 *
 * Text is hex behind a dot, so that none of it is a word too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "wire/rls.h"

static void need(bool holds)
{
    if (!holds)
        exit(1);
}

/* The next word of the line, as bytes at the end of `room`. */
static struct slice next_bytes(char **line, struct text *room)
{
    const char *word = strsep(line, " ");
    size_t start = room->len;
    need(word != NULL && *word++ == '.');
    for (unsigned byte; *word != '\0'; word += 2) {
        need(sscanf(word, "%2x", &byte) == 1);
        text_bytes(room, (const char[]){ (char)byte }, 1);
    }
    need(!room->is_cut);
    return (struct slice){ room->at + start, room->len - start };
}

static long long next_number(char **line)
{
    const char *word = strsep(line, " ");
    need(word != NULL);
    return strtoll(word, NULL, 10);
}

static void put_bytes(const char *at, size_t len)
{
    putchar('.');
    for (size_t i = 0; i < len; i++)
        printf("%02x", (unsigned char)at[i]);
}

static void read_call(char *line, struct text *room)
{
    static struct rls_call call;
    const char *why = NULL;
    if (rls_read(next_bytes(&line, room), &call, &why) != RLS_GOOD) {
        printf("bad %s\n", why);
        return;
    }
    printf("good ");
    put_bytes(call.domain.at, call.domain.len);
    for (size_t i = 0; i < call.count; i++) {
        const struct rls_asked *asked = &call.asked[i];
        printf(" %llu %d %d %u %d %u %zu", (unsigned long long)asked->hits, asked->is_refund, asked->has_limit,
               asked->requests_per_unit, asked->unit, asked->has_limit ? asked->unit_multiplier : 0,
               call.descriptors[i].entry_count);
        for (size_t k = 0; k < call.descriptors[i].entry_count; k++) {
            const struct weir_entry *entry = &call.descriptors[i].entries[k];
            putchar(' ');
            put_bytes(entry->key, entry->key_len);
            putchar(' ');
            put_bytes(entry->value, entry->value_len);
        }
    }
    putchar('\n');
}

static void write_answer(char *line, struct text *room)
{
    static char written[RLS_ANSWER_MAX];
    static struct rls_answer answer;
    answer.overall = (enum rls_code)next_number(&line);
    answer.count = (size_t)next_number(&line);
    need(answer.count <= WEIR_DESCRIPTORS_MAX);
    for (size_t i = 0; i < answer.count; i++) {
        struct rls_status *status = &answer.statuses[i];
        status->code = (enum rls_code)next_number(&line);
        status->has_limit = next_number(&line) != 0;
        status->requests_per_unit = (uint32_t)next_number(&line);
        status->unit = (enum rls_unit)next_number(&line);
        status->unit_multiplier = (uint32_t)next_number(&line);
        status->name = next_bytes(&line, room);
        status->remaining = (uint32_t)next_number(&line);
        long long reset = next_number(&line);
        status->has_reset = reset >= 0;
        status->reset_seconds = (uint64_t)reset;
    }
    answer.header_count = (size_t)next_number(&line);
    need(answer.header_count <= RLS_HEADERS_MAX);
    for (size_t i = 0; i < answer.header_count; i++) {
        answer.headers[i].key = next_bytes(&line, room);
        answer.headers[i].value = next_bytes(&line, room);
    }
    answer.body = next_bytes(&line, room);
    struct text out = text_of(written, sizeof written);
    rls_write(&answer, &out);
    need(!out.is_cut);
    put_bytes(out.at, out.len);
    out = text_of(written, sizeof written);
    rls_json_write(&answer, &out);
    need(!out.is_cut);
    printf(" %.*s\n", (int)out.len, out.at);
}

int main(void)
{
    static char line[1 << 18], bytes[1 << 17];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *rest = line;
        struct text room = text_of(bytes, sizeof bytes);
        line[strcspn(line, "\n")] = '\0';
        const char *verb = strsep(&rest, " ");
        if (strcmp(verb, "call") == 0)
            read_call(rest, &room);
        else
            write_answer(rest, &room);
    }
    return 0;
}
