// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_resp_command.c - any bytes as commands: whole and in pieces they read the same, words lie inside and apart, and
 * what was read, written as an array, reads the same again.
 *
 * The first byte says how the rest is cut into pieces and whether a stranger sent it. Copies are as long as their bytes,
 * so that a look behind the end is seen.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct resp_command whole, pieces;

static void require(bool holds)
{
    if (!holds)
        abort();
}

static char *copy_of(const char *at, size_t len)
{
    char *copy = malloc(len == 0 ? 1 : len);
    if (copy == NULL)
        exit(1);
    if (len > 0)
        memcpy(copy, at, len);
    return copy;
}

static void check_command(const struct resp_command *command, const char *at, size_t len)
{
    const char *behind = at;
    require(command->len > 0 && command->len <= len && command->len <= RESP_COMMAND_MAX);
    require(command->count <= RESP_WORDS_MAX);
    for (size_t i = 0; i < command->count; i++) {
        struct slice word = command->words[i];
        require(word.at >= behind && word.len <= (size_t)(at + command->len - word.at));
        behind = word.at + word.len;
    }
}

/* The answer to a fault is one line, whatever the sender put in. */
static void check_fault(const struct resp_command *command)
{
    char room[128];
    struct text text = text_of(room, sizeof room);
    resp_put_protocol_error(&text, command);
    require(!text.is_cut && memchr(room, '\n', text.len) == room + text.len - 1);
}

/* Written as an array and read again: the same words. */
static void write_again(const struct resp_command *command)
{
    static char room[2 * RESP_COMMAND_MAX];
    static struct resp_command again;
    struct resp_command_parser parser = RESP_COMMAND_START;
    struct text text = text_of(room, sizeof room);
    resp_put_array(&text, (uint32_t)command->count);
    for (size_t i = 0; i < command->count; i++)
        resp_put_bulk(&text, command->words[i]);
    require(!text.is_cut);
    if (text.len > RESP_COMMAND_MAX)
        return; /* a line needs less framing */
    require(resp_command_parse(&parser, room, text.len, false, &again) == RESP_DONE);
    require(again.count == command->count && again.len == text.len);
    for (size_t i = 0; i < command->count; i++)
        require(slice_equals(again.words[i], command->words[i]));
}

/* One command at the front; returns its length, 0 when there is none. */
static size_t fuzz_command(const char *at, size_t len, size_t step, bool is_stranger)
{
    struct resp_command_parser parser = RESP_COMMAND_START;
    char *copy = copy_of(at, len);
    enum resp_result expected = resp_command_parse(&parser, copy, len, is_stranger, &whole), got = RESP_MORE;
    if (expected == RESP_DONE) {
        check_command(&whole, copy, len);
        write_again(&whole);
    } else if (expected == RESP_BAD) {
        check_fault(&whole);
    }
    parser = RESP_COMMAND_START;
    for (size_t given = 0; got == RESP_MORE; given = step < len - given ? given + step : len) {
        char *part = copy_of(at, given);
        got = resp_command_parse(&parser, part, given, is_stranger, &pieces);
        require(got == RESP_MORE || got == expected);
        if (got == RESP_DONE) {
            require(pieces.len == whole.len && pieces.count == whole.count);
            for (size_t i = 0; i < whole.count; i++)
                require(slice_equals(pieces.words[i], whole.words[i])
                        && pieces.words[i].at - part == whole.words[i].at - copy);
        }
        free(part);
        if (given == len)
            break;
    }
    require(got == expected);
    require(got != RESP_BAD || (pieces.sentence == whole.sentence && pieces.got == whole.got));
    free(copy);
    return expected == RESP_DONE ? whole.len : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *at = (const char *)data + 1;
    size_t left = size - 1, step = 1 + data[0] % 32 + size / 64, used;
    for (int commands = 0; left > 0 && commands < 64; commands++) {
        used = fuzz_command(at, left, step, data[0] >= 128);
        if (used == 0)
            break;
        at += used;
        left -= used;
    }
    return 0;
}
