// SPDX-License-Identifier: Apache-2.0
/*
 * http1_verdict.c - says on standard output what our head parser makes of each head on standard input.
 *
 * Input: records of a 4-byte big-endian length and that many bytes. Output: a JSON object a line, in order. For
 * test_http1_node.py, which asks Node the same.
 */
#include <stdio.h>
#include <stdlib.h>

#include "wire/http1.h"
#include "wire/text.h"

/* Bytes as a JSON string in Latin-1, one code point a byte, which is what Node's strings are. */
static void put_latin1(struct slice bytes)
{
    putchar('"');
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char byte = (unsigned char)bytes.at[i];
        if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\')
            printf("\\u%04x", byte);
        else
            putchar(byte);
    }
    putchar('"');
}

static void put_head(const struct http1_head *head)
{
    printf("{\"verdict\":\"done\",\"len\":%zu,\"minor\":%u,\"chunked\":%s,\"length\":", head->len, head->minor,
           head->is_chunked ? "true" : "false");
    if (head->has_length)
        printf("%llu", (unsigned long long)head->content_length);
    else
        printf("null");
    printf(",\"keep\":%s,\"method\":", head->keeps_alive ? "true" : "false");
    put_latin1(head->method);
    printf(",\"target\":");
    put_latin1(head->target);
    printf(",\"fields\":[");
    for (size_t i = 0; i < head->field_count; i++) {
        const struct weir_field *field = &head->fields[i];
        printf(i == 0 ? "[" : ",[");
        put_latin1((struct slice){ field->name, field->name_len });
        putchar(',');
        put_latin1((struct slice){ field->value, field->value_len });
        putchar(']');
    }
    printf("]}\n");
}

int main(void)
{
    static char at[1 << 20];
    static struct http1_head head;
    unsigned char prefix[4];
    while (fread(prefix, 1, 4, stdin) == 4) {
        size_t len = (size_t)prefix[0] << 24 | (size_t)prefix[1] << 16 | (size_t)prefix[2] << 8 | prefix[3];
        struct http1_parser parser = HTTP1_START;
        if (len > sizeof at || fread(at, 1, len, stdin) != len)
            return 2;
        enum http1_result result = http1_parse(&parser, at, len, &head);
        if (result == HTTP1_DONE)
            put_head(&head);
        else if (result == HTTP1_BAD)
            printf("{\"verdict\":\"bad\",\"status\":%u,\"why\":\"%s\"}\n", head.status, head.sentence);
        else
            printf("{\"verdict\":\"more\"}\n");
    }
    return 0;
}
