// SPDX-License-Identifier: Apache-2.0
/*
 * test_resp_command.c - commands as arrays and as lines: what is read, what is refused in which words, and the same
 * however it was cut.
 *
 * test_resp_redis asks a real Redis about the same; the rows here say what we want, by hand.
 */
#include "support/resp_told.h"
#include "support/unit.h"

#define TEXT(text) \
    { \
        text, sizeof(text) - 1 \
    }

/* ---- Rows ------------------------------------------------------------------------------------------------ */

static const struct reading {
    const char *why;
    struct slice bytes;
    const char *told; /* the words */
    size_t len;       /* of the command; 0: all of the bytes */
} readings[] = {
    { "the least command", TEXT("*1\r\n$4\r\nPING\r\n"), "[\"PING\"]", 0 },
    { "several words", TEXT("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n"), "[\"SET\" \"k\" \"value\"]", 0 },
    { "an empty word", TEXT("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"), "[\"ECHO\" \"\"]", 0 },
    { "a word with CR LF inside", TEXT("*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\r\n\r\n"), "[\"ECHO\" \"\\r\\n\\r\\n\"]",
      0 },
    { "a word that looks like a command", TEXT("*2\r\n$4\r\nECHO\r\n$12\r\n*1\r\n$1\r\na\r\n\0\r\n"),
      "[\"ECHO\" \"*1\\r\\n$1\\r\\na\\r\\n\\u0000\"]", 0 },
    { "ten digits are one length", TEXT("*1\r\n$10\r\n0123456789\r\n"), "[\"0123456789\"]", 0 },
    { "the next command stays", TEXT("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n"), "[\"PING\"]", 14 },
    { "nothing is asked", TEXT("*0\r\n"), "[]", 0 },
    { "nothing is asked, and less", TEXT("*-1\r\n"), "[]", 0 },
    { "nor by any negative count", TEXT("*-20\r\n$1\r\n"), "[]", 6 },
    { "an empty line", TEXT("\r\n"), "[]", 0 },
    { "an empty line of LF", TEXT("\nPING\n"), "[]", 1 },
    { "a line of blanks", TEXT(" \t \v\f \r\n"), "[]", 0 },
    /* lines */
    { "an inline command", TEXT("PING\r\n"), "[\"PING\"]", 0 },
    { "LF alone ends it", TEXT("PING\n"), "[\"PING\"]", 0 },
    { "the next line stays", TEXT("PING\r\nQUIT\r\n"), "[\"PING\"]", 6 },
    { "blanks between and around", TEXT("  SET\tkey   value \r\n"), "[\"SET\" \"key\" \"value\"]", 0 },
    { "only one CR is dropped, another is a blank", TEXT("PING\r\r\n"), "[\"PING\"]", 0 },
    { "a CR inside is a blank", TEXT("a\rb\r\n"), "[\"a\" \"b\"]", 0 },
    { "a type byte of replies is an ordinary one", TEXT("$5\r\n"), "[\"$5\"]", 0 },
    { "an asterisk later on as well", TEXT("a *1\r\n"), "[\"a\" \"*1\"]", 0 },
    { "double quotes hold blanks", TEXT("ECHO \"a b\tc\"\r\n"), "[\"ECHO\" \"a b\\tc\"]", 0 },
    { "an empty word in quotes", TEXT("ECHO \"\" ''\r\n"), "[\"ECHO\" \"\" \"\"]", 0 },
    { "escapes", TEXT("\"\\n\\r\\t\\b\\a\\\"\\\\\"\r\n"), "[\"\\n\\r\\t\\u0008\\u0007\\\"\\\\\"]", 0 },
    { "bytes in hex, in any case", TEXT("\"\\x41\\x6a\\x6A\\x00\\x0a\"\r\n"), "[\"Ajj\\u0000\\n\"]", 0 },
    { "hex needs two digits", TEXT("\"\\x4\" \"\\xg1\" \"\\x\"\r\n"), "[\"x4\" \"xg1\" \"x\"]", 0 },
    { "an unknown escape is its byte", TEXT("\"\\q\\'\\0\"\r\n"), "[\"q'0\"]", 0 },
    { "single quotes take bytes as they are", TEXT("'\\n\\x41 \"'\r\n"), "[\"\\\\n\\\\x41 \\\"\"]", 0 },
    { "but for their own", TEXT("'it\\'s'\r\n"), "[\"it's\"]", 0 },
    { "a backslash before another is two", TEXT("'\\\\a'\r\n"), "[\"\\\\\\\\a\"]", 0 },
    { "a backslash outside is a byte", TEXT("a\\nb \\x41\r\n"), "[\"a\\\\nb\" \"\\\\x41\"]", 0 },
    { "quotes may open inside a word", TEXT("foo\"bar baz\" x'y z'\r\n"), "[\"foobar baz\" \"xy z\"]", 0 },
    { "a tab may follow a quote", TEXT("\"a\"\t'b'\r\n"), "[\"a\" \"b\"]", 0 },
    { "so may other blanks", TEXT("\"a\"\vb 'c'\fd\r\n"), "[\"a\" \"b\" \"c\" \"d\"]", 0 },
    { "which are bytes inside a word", TEXT("a\vb\fc\r\n"), "[\"a\\u000bb\\u000cc\"]", 0 },
    { "a CR in quotes is a byte", TEXT("\"a\rb\"\r\n"), "[\"a\\rb\"]", 0 },
    { "bytes beyond ASCII", TEXT("ECHO \xc3\xa4\r\n"), "[\"ECHO\" \"\xc3\xa4\"]", 0 },
};

static const struct refusal {
    const char *why;
    struct slice bytes;
    const char *answer;
    bool is_stranger;
} refusals[] = {
#define MULTIBULK "-ERR Protocol error: invalid multibulk length\r\n"
#define BULK "-ERR Protocol error: invalid bulk length\r\n"
#define QUOTES "-ERR Protocol error: unbalanced quotes in request\r\n"
#define NO_END "-ERR Protocol error: bulk string does not end in CR LF\r\n"
    { "a count of letters", TEXT("*abc\r\n"), MULTIBULK, false },
    { "no count", TEXT("*\r\n"), MULTIBULK, false },
    { "a sign alone", TEXT("*-\r\n"), MULTIBULK, false },
    { "a plus", TEXT("*+1\r\n$4\r\nPING\r\n"), MULTIBULK, false },
    { "a leading zero", TEXT("*01\r\n$4\r\nPING\r\n"), MULTIBULK, false },
    { "minus zero", TEXT("*-0\r\n"), MULTIBULK, false },
    { "minus and a leading zero", TEXT("*-01\r\n"), MULTIBULK, false },
    { "a blank before the count", TEXT("* 1\r\n"), MULTIBULK, false },
    { "a blank behind the count", TEXT("*1 \r\n"), MULTIBULK, false },
    { "a fraction", TEXT("*1.0\r\n"), MULTIBULK, false },
    { "hexadecimal", TEXT("*0x1\r\n"), MULTIBULK, false },
    { "more than 2^31 - 1", TEXT("*2147483648\r\n"), MULTIBULK, false },
    { "more words than we take", TEXT("*1025\r\n"), MULTIBULK, false },
    { "more than 64 bits", TEXT("*18446744073709551617\r\n"), MULTIBULK, false },
    { "less than 64 bits", TEXT("*-9223372036854775809\r\n"), MULTIBULK, false },
    { "a count that never ends", TEXT("*11111111111111111111"), MULTIBULK, false },
    { "bare LF behind a count", TEXT("*1\n$4\r\nPING\r\n"), MULTIBULK, false },
    { "bare CR behind a count", TEXT("*1\r$4\r\nPING\r\n"), MULTIBULK, false },
    { "a zero byte behind a count", TEXT("*1\0\r\n"), MULTIBULK, false },
    { "an integer for a word", TEXT("*1\r\n:1\r\n"), "-ERR Protocol error: expected '$', got ':'\r\n", false },
    { "a simple string for a word", TEXT("*2\r\n$1\r\na\r\n+a\r\n"),
      "-ERR Protocol error: expected '$', got '+'\r\n", false },
    { "an array in an array", TEXT("*1\r\n*1\r\n"), "-ERR Protocol error: expected '$', got '*'\r\n", false },
    { "one word too few", TEXT("*1\r\n\r\n"), "-ERR Protocol error: expected '$', got '?'\r\n", false },
    { "a zero byte for a word", TEXT("*1\r\n\0\r\n"), "-ERR Protocol error: expected '$', got '?'\r\n", false },
    { "a byte beyond ASCII for a word", TEXT("*1\r\n\xff\r\n"),
      "-ERR Protocol error: expected '$', got '?'\r\n", false },
    { "a null word", TEXT("*1\r\n$-1\r\n"), BULK, false },
    { "a negative length", TEXT("*1\r\n$-5\r\n"), BULK, false },
    { "a length of letters", TEXT("*1\r\n$abc\r\n"), BULK, false },
    { "no length", TEXT("*1\r\n$\r\n\r\n"), BULK, false },
    { "a length with a plus", TEXT("*1\r\n$+4\r\nPING\r\n"), BULK, false },
    { "a length with a leading zero", TEXT("*1\r\n$04\r\nPING\r\n"), BULK, false },
    { "a length of minus zero", TEXT("*1\r\n$-0\r\n\r\n"), BULK, false },
    { "a length of all bits", TEXT("*1\r\n$18446744073709551615\r\n"), BULK, false },
    { "the longest length there is", TEXT("*1\r\n$9223372036854775807\r\n"), BULK, false },
    { "above 512 MiB", TEXT("*1\r\n$536870913\r\n"), BULK, false },
    { "a streamed string", TEXT("*1\r\n$?\r\n"), BULK, false },
    { "bare LF behind a length", TEXT("*1\r\n$4\nPING\r\n"), BULK, false },
    { "a word longer than its length", TEXT("*1\r\n$3\r\nPING\r\n"), NO_END, false },
    { "a word shorter than its length", TEXT("*1\r\n$5\r\nPING\r\n*1\r\n"), NO_END, false },
    { "a word that ends in LF LF", TEXT("*1\r\n$4\r\nPING\n\n"), NO_END, false },
    { "a word that ends in CR CR", TEXT("*1\r\n$4\r\nPING\r\r"), NO_END, false },
    { "a quote that does not close", TEXT("ECHO \"a\r\n"), QUOTES, false },
    { "a single one", TEXT("ECHO 'a\r\n"), QUOTES, false },
    { "the closing one is escaped", TEXT("ECHO \"a\\\"\r\n"), QUOTES, false },
    { "the closing single one too", TEXT("ECHO 'a\\'\r\n"), QUOTES, false },
    { "which a backslash before it does not undo", TEXT("ECHO '\\\\'\r\n"), QUOTES, false },
    { "a backslash at the end", TEXT("ECHO \"a\\\r\n"), QUOTES, false },
    { "an escape cut by the end", TEXT("ECHO \"\\x4\r\n"), QUOTES, false },
    { "a byte right behind a quote", TEXT("ECHO \"a\"b\r\n"), QUOTES, false },
    { "a quote right behind a quote", TEXT("ECHO 'a''b'\r\n"), QUOTES, false },
    { "a zero byte in a line", TEXT("ECHO a\0b\r\n"), "-ERR Protocol error: zero byte in inline request\r\n",
      false },
    { "a TLS greeting", TEXT("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
      "-ERR Protocol error: zero byte in inline request\r\n", false },
    { "a stranger's many words", TEXT("*11\r\n"), "-ERR Protocol error: unauthenticated multibulk length\r\n",
      true },
    { "a stranger's long word", TEXT("*1\r\n$16385\r\n"),
      "-ERR Protocol error: unauthenticated bulk length\r\n", true },
    { "a stranger's senseless number of words", TEXT("*2147483648\r\n"), MULTIBULK, true },
    { "a stranger's senseless length", TEXT("*1\r\n$536870913\r\n"), BULK, true },
    { "a stranger's senseless count", TEXT("*1x\r\n"), MULTIBULK, true },
#undef MULTIBULK
#undef BULK
#undef QUOTES
#undef NO_END
};

/* ---- Whole ----------------------------------------------------------------------------------------------- */

/* What a reading says, in one text: words and length, the answer to a fault, or that more must come. */
static void tell(enum resp_result result, const struct resp_command *command, char *room, size_t size)
{
    struct text told = text_of(room, size - 1);
    if (result == RESP_BAD) {
        resp_put_protocol_error(&told, command);
    } else if (result == RESP_DONE) {
        resp_tell_command(&told, command);
        text_literal(&told, " ");
        text_u64(&told, command->len);
    } else {
        text_literal(&told, "more");
    }
    assert_false(told.is_cut);
    room[told.len] = '\0';
}

/* The bytes up to each of `cuts` in turn, always in a buffer of its own that ends where they do. */
static void tell_in_pieces(struct slice bytes, const size_t *cuts, size_t cut_count, bool is_stranger,
                           char *room, size_t size)
{
    static struct resp_command command;
    struct resp_command_parser parser = RESP_COMMAND_START;
    enum resp_result result = RESP_MORE;
    for (size_t i = 0; i <= cut_count && result == RESP_MORE; i++) {
        size_t len = i == cut_count ? bytes.len : cuts[i];
        char *copy = malloc(len + (len == 0));
        assert_non_null(copy);
        memcpy(copy, bytes.at, len);
        result = resp_command_parse(&parser, copy, len, is_stranger, &command);
        tell(result, &command, room, size);
        free(copy);
    }
}

static void commands_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(readings); i++) {
        const struct reading *row = &readings[i];
        char told[1024], expected[1024];
        tell_in_pieces(row->bytes, NULL, 0, false, told, sizeof told);
        (void)snprintf(expected, sizeof expected, "%s %zu", row->told,
                       row->len == 0 ? row->bytes.len : row->len);
        if (strcmp(told, expected) != 0)
            fail_msg("%s: %s, want %s", row->why, told, expected);
    }
}

static void faults_are_named_in_the_words_of_redis(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        const struct refusal *row = &refusals[i];
        char told[1024];
        tell_in_pieces(row->bytes, NULL, 0, row->is_stranger, told, sizeof told);
        if (strcmp(told, row->answer) != 0)
            fail_msg("%s: %s, want %s", row->why, told, row->answer);
    }
}

static void words_lie_in_the_buffer(void **state)
{
    static char bytes[] = "*2\r\n$4\r\nECHO\r\n$3\r\na b\r\n", line[] = "ECHO \"a\\x20b\" c\n";
    static struct resp_command command;
    (void)state;
    assert_int_equal(
        resp_command_parse(&(struct resp_command_parser){ 0 }, bytes, sizeof bytes - 1, false, &command),
        RESP_DONE);
    assert_ptr_equal(command.words[0].at, bytes + 8);
    assert_ptr_equal(command.words[1].at, bytes + 18);
    assert_int_equal(
        resp_command_parse(&(struct resp_command_parser){ 0 }, line, sizeof line - 1, false, &command),
        RESP_DONE);
    assert_int_equal(command.count, 3);
    assert_true(slice_equals(command.words[1], SLICE("a b"))); /* unescaped over itself */
    assert_true(command.words[1].at > line && command.words[2].at == line + sizeof line - 3);
}

/* ---- In pieces ------------------------------------------------------------------------------------------- */

static void for_each_text(void (*check)(struct slice bytes, bool is_stranger, const char *why))
{
    for (size_t i = 0; i < COUNT_OF(readings); i++)
        check(readings[i].bytes, false, readings[i].why);
    for (size_t i = 0; i < COUNT_OF(refusals); i++)
        check(refusals[i].bytes, refusals[i].is_stranger, refusals[i].why);
}

static void expect_same(struct slice bytes, bool is_stranger, const size_t *cuts, size_t cut_count,
                        const char *why)
{
    char whole[1024], pieces[1024];
    tell_in_pieces(bytes, NULL, 0, is_stranger, whole, sizeof whole);
    tell_in_pieces(bytes, cuts, cut_count, is_stranger, pieces, sizeof pieces);
    if (strcmp(whole, pieces) != 0)
        fail_msg("%s: %s whole, %s when %zu bytes came first", why, whole, pieces, cuts[0]);
}

static void split_everywhere(struct slice bytes, bool is_stranger, const char *why)
{
    for (size_t cut = 0; cut <= bytes.len; cut++)
        expect_same(bytes, is_stranger, &cut, 1, why);
}

static void dribble(struct slice bytes, bool is_stranger, const char *why)
{
    size_t cuts[64];
    assert_true(bytes.len <= COUNT_OF(cuts));
    for (size_t i = 0; i < bytes.len; i++)
        cuts[i] = i;
    expect_same(bytes, is_stranger, cuts, bytes.len, why);
}

static void cuts_change_nothing(void **state)
{
    (void)state;
    for_each_text(split_everywhere);
    for_each_text(dribble);
}

/* ---- Bounds ---------------------------------------------------------------------------------------------- */

static struct resp_command command;
static char large[RESP_COMMAND_MAX + 64], filler[RESP_COMMAND_MAX];

static enum resp_result parse_large(size_t len, bool is_stranger)
{
    struct resp_command_parser parser = RESP_COMMAND_START;
    return resp_command_parse(&parser, large, len, is_stranger, &command);
}

static void lines_are_bounded(void **state)
{
    static const char sentence[] = "too big inline request";
    (void)state;
    memset(large, 'x', sizeof large);
    assert_int_equal(parse_large(RESP_INLINE_MAX, false), RESP_MORE);
    assert_int_equal(parse_large(RESP_INLINE_MAX + 1, false), RESP_BAD);
    assert_string_equal(command.sentence, sentence);
    assert_int_equal(parse_large(sizeof large, false), RESP_BAD);
    assert_string_equal(command.sentence, sentence);
    large[RESP_INLINE_MAX] = '\n';
    assert_int_equal(parse_large(RESP_INLINE_MAX + 1, false), RESP_DONE);
    assert_int_equal(command.words[0].len, RESP_INLINE_MAX);
    large[RESP_INLINE_MAX - 1] = '\r';
    assert_int_equal(parse_large(RESP_INLINE_MAX + 1, false), RESP_DONE);
    assert_int_equal(command.words[0].len, RESP_INLINE_MAX - 1);
    assert_int_equal(command.len, RESP_INLINE_MAX + 1);

    struct resp_command_parser parser = RESP_COMMAND_START; /* and byte by byte, which is no more work */
    memset(large, 'x', sizeof large);
    for (size_t len = 0; len <= RESP_INLINE_MAX; len++) {
        assert_int_equal(resp_command_parse(&parser, large, len, false, &command), RESP_MORE);
        assert_int_equal(parser.scanned, len);
    }
    assert_int_equal(resp_command_parse(&parser, large, RESP_INLINE_MAX + 1, false, &command), RESP_BAD);
    assert_string_equal(command.sentence, sentence);
}

static void words_of_a_line_are_bounded(void **state)
{
    (void)state;
    for (size_t count = RESP_WORDS_MAX - 1; count <= RESP_WORDS_MAX + 1; count++) {
        for (size_t i = 0; i < count; i++)
            memcpy(large + 2 * i, "a ", 2);
        memcpy(large + 2 * count, "\r\n", 2);
        bool fits = count <= RESP_WORDS_MAX;
        assert_int_equal(parse_large(2 * count + 2, false), fits ? RESP_DONE : RESP_BAD);
        if (fits)
            assert_int_equal(command.count, count);
        else
            assert_string_equal(command.sentence, "too many words in inline request");
    }
}

static void words_of_an_array_are_bounded(void **state)
{
    (void)state;
    for (uint32_t count = RESP_WORDS_MAX - 1; count <= RESP_WORDS_MAX + 1; count++) {
        struct text text = text_of(large, sizeof large);
        struct resp_command_parser parser = RESP_COMMAND_START;
        resp_put_array(&text, count);
        for (uint32_t i = 0; i < count; i++)
            resp_put_bulk_i64(&text, i);
        bool fits = count <= RESP_WORDS_MAX;
        assert_int_equal(parse_large(text.len, false), fits ? RESP_DONE : RESP_BAD);
        if (!fits)
            continue;
        assert_int_equal(command.count, count);
        for (size_t len = 0; len < text.len; len++)
            assert_int_equal(resp_command_parse(&parser, large, len, false, &command), RESP_MORE);
        assert_int_equal(resp_command_parse(&parser, large, text.len, false, &command), RESP_DONE);
        assert_int_equal(command.count, count);
        for (uint32_t i = 0; i < count; i++) {
            int64_t value;
            assert_true(resp_to_i64(command.words[i], &value) && value == i);
        }
    }
}

/* One word that makes the command `whole` bytes long. Returns the word's length. */
static size_t fill_command(size_t whole)
{
    size_t word_len = whole - (sizeof "*1\r\n$131054\r\n\r\n" - 1);
    assert_true(word_len >= 100000 && word_len <= 999999); /* six digits, as above */
    struct text text = text_of(large, sizeof large);
    resp_put_array(&text, 1);
    resp_put_bulk(&text, (struct slice){ filler, word_len });
    assert_int_equal(text.len, whole);
    return word_len;
}

static void commands_are_bounded(void **state)
{
    (void)state;
    size_t word_len = fill_command(RESP_COMMAND_MAX);
    assert_int_equal(parse_large(RESP_COMMAND_MAX, false), RESP_DONE);
    assert_int_equal(command.words[0].len, word_len);
    assert_int_equal(parse_large(RESP_COMMAND_MAX - 1, false), RESP_MORE);
    (void)fill_command(RESP_COMMAND_MAX + 1); /* refused when it is announced, not when it has come */
    for (size_t len = sizeof "*1\r\n$131055\r\n" - 1; len < 20; len++) {
        assert_int_equal(parse_large(len, false), RESP_BAD);
        assert_string_equal(command.sentence, "too big multibulk request");
    }
    struct text text = text_of(large, sizeof large);
    text_literal(&text, "*1\r\n$131073\r\n");
    assert_int_equal(parse_large(text.len, false), RESP_BAD);
    assert_string_equal(command.sentence, "invalid bulk length");
    text = text_of(large, sizeof large); /* the sum counts */
    text_literal(&text, "*3\r\n");
    resp_put_bulk(&text, (struct slice){ filler, 65536 });
    text_literal(&text, "$65536\r\n");
    assert_int_equal(parse_large(text.len, false), RESP_BAD);
    assert_string_equal(command.sentence, "too big multibulk request");
}

static void strangers_may_send_less(void **state)
{
    (void)state;
    struct text text = text_of(large, sizeof large);
    resp_put_array(&text, RESP_STRANGER_WORDS_MAX);
    for (int i = 1; i < RESP_STRANGER_WORDS_MAX; i++)
        resp_put_bulk(&text, SLICE("word"));
    resp_put_bulk(&text, (struct slice){ filler, RESP_STRANGER_WORD_MAX });
    assert_int_equal(parse_large(text.len, true), RESP_DONE);
    assert_int_equal(command.count, 10);
    assert_int_equal(command.words[9].len, 16384);
    text = text_of(large, sizeof large);
    text_literal(&text, "*11\r\n$16385\r\n");
    assert_int_equal(parse_large(text.len, true), RESP_BAD);
    assert_int_equal(parse_large(text.len, false), RESP_MORE);
}

/* ---- One after the other ------------------------------------------------------------------------------------ */

/* Random commands in one stream, given in random pieces, come out as they went in. */
static void pipelines_come_out_as_they_went_in(void **state)
{
    struct random random = { random_seed(20260611) };
    (void)state;
    for (int round = 0; round < 300; round++) {
        static char stream[65536], expected[262144], got[262144];
        struct text text = text_of(stream, sizeof stream), want = text_of(expected, sizeof expected),
                    have = text_of(got, sizeof got);
        for (int i = 0; i < 20; i++) {
            static struct resp_command made;
            char bytes[64];
            made.count = random_below(&random, 5) + 1;
            resp_put_array(&text, (uint32_t)made.count);
            for (size_t word = 0; word < made.count; word++) {
                size_t len = random_below(&random, sizeof bytes);
                for (size_t byte = 0; byte < len; byte++)
                    bytes[byte] = (char)random_u64(&random);
                made.words[word] = (struct slice){ text.at + text.len + (len < 10 ? 4 : 5), len };
                resp_put_bulk(&text, (struct slice){ bytes, len });
            }
            resp_tell_command(&want, &made);
            if (random_below(&random, 4) == 0)
                text_literal(&text, "*0\r\n\r\n"); /* nothing, twice */
        }
        assert_false(text.is_cut || want.is_cut);
        struct resp_command_parser parser = RESP_COMMAND_START;
        size_t start = 0, arrived = 0;
        while (start < text.len) {
            enum resp_result result =
                resp_command_parse(&parser, stream + start, arrived - start, false, &command);
            assert_int_not_equal(result, RESP_BAD);
            if (result == RESP_MORE) {
                assert_true(arrived < text.len);
                size_t more = random_below(&random, 200) + 1;
                arrived = more < text.len - arrived ? arrived + more : text.len;
                continue;
            }
            if (command.count > 0)
                resp_tell_command(&have, &command);
            start += command.len;
            parser = RESP_COMMAND_START;
        }
        assert_true(slice_equals(text_slice(&want), text_slice(&have)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_read),
        cmocka_unit_test(faults_are_named_in_the_words_of_redis),
        cmocka_unit_test(words_lie_in_the_buffer),
        cmocka_unit_test(cuts_change_nothing),
        cmocka_unit_test(lines_are_bounded),
        cmocka_unit_test(words_of_a_line_are_bounded),
        cmocka_unit_test(words_of_an_array_are_bounded),
        cmocka_unit_test(commands_are_bounded),
        cmocka_unit_test(strangers_may_send_less),
        cmocka_unit_test(pipelines_come_out_as_they_went_in),
    };
    return cmocka_run_group_tests_name("resp_command", tests, NULL, NULL);
}
