// SPDX-License-Identifier: Apache-2.0
/*
 * test_resp_reply.c - replies of both versions: what is read, what is refused, where one ends, and the same however it
 * was cut.
 *
 * test_resp_redis reads what a real Redis sends; the rows here are from the protocol's text, by hand.
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
    const char *told;
    size_t len; /* of the reply; 0: all of the bytes */
} readings[] = {
    /* RESP2 */
    { "a simple string", TEXT("+OK\r\n"), "+OK", 0 },
    { "an empty one", TEXT("+\r\n"), "+", 0 },
    { "with any other byte", TEXT("+a\xff\t$3 \x01\r\n"), "+a\xff\t$3 \x01", 0 },
    { "an error", TEXT("-ERR unknown command 'FOO'\r\n"), "-ERR unknown command 'FOO'", 0 },
    { "an integer", TEXT(":1000\r\n"), ":1000", 0 },
    { "a negative one", TEXT(":-1\r\n"), ":-1", 0 },
    { "zero", TEXT(":0\r\n"), ":0", 0 },
    { "with a plus, which is allowed here alone", TEXT(":+5\r\n"), ":5", 0 },
    { "the largest", TEXT(":9223372036854775807\r\n"), ":9223372036854775807", 0 },
    { "the least", TEXT(":-9223372036854775808\r\n"), ":-9223372036854775808", 0 },
    { "a bulk string", TEXT("$5\r\nhello\r\n"), "\"hello\"", 0 },
    { "an empty one", TEXT("$0\r\n\r\n"), "\"\"", 0 },
    { "with CR LF inside", TEXT("$4\r\n\r\n\r\n\r\n"), "\"\\r\\n\\r\\n\"", 0 },
    { "null for a string", TEXT("$-1\r\n"), "null", 0 },
    { "null for an array", TEXT("*-1\r\n"), "null", 0 },
    { "an empty array", TEXT("*0\r\n"), "[]", 0 },
    { "an array", TEXT("*3\r\n:1\r\n$1\r\na\r\n+b\r\n"), "[:1 \"a\" +b]", 0 },
    { "arrays in arrays", TEXT("*2\r\n*2\r\n:1\r\n*0\r\n*1\r\n*1\r\n-E\r\n"), "[[:1 []] [[-E]]]", 0 },
    { "nulls in an array", TEXT("*3\r\n$-1\r\n*-1\r\n_\r\n"), "[null null null]", 0 },
    { "CL.THROTTLE's answer", TEXT("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n"), "[:0 :16 :15 :-1 :2]", 0 },
    { "the next reply stays", TEXT("+OK\r\n+QUEUED\r\n"), "+OK", 5 },
    { "also behind an array", TEXT("*1\r\n:1\r\n:2\r\n"), "[:1]", 8 },
    /* RESP3 */
    { "null", TEXT("_\r\n"), "null", 0 },
    { "true", TEXT("#t\r\n"), "#t", 0 },
    { "false", TEXT("#f\r\n"), "#f", 0 },
    { "a double", TEXT(",1.23\r\n"), ",1.23", 0 },
    { "without a point", TEXT(",10\r\n"), ",10", 0 },
    { "negative", TEXT(",-0.5\r\n"), ",-0.5", 0 },
    { "with an exponent", TEXT(",1.0000000000000001e+20\r\n"), ",1.0000000000000001e+20", 0 },
    { "with another", TEXT(",1E-5\r\n"), ",1E-5", 0 },
    { "with a bare one", TEXT(",1e5\r\n"), ",1e5", 0 },
    { "infinity", TEXT(",inf\r\n"), ",inf", 0 },
    { "negative infinity", TEXT(",-inf\r\n"), ",-inf", 0 },
    { "no number", TEXT(",nan\r\n"), ",nan", 0 },
    { "no number as Redis 7.0 may say it", TEXT(",-nan\r\n"), ",-nan", 0 },
    { "or as other C libraries do", TEXT(",NAN(0x7ff8)\r\n"), ",NAN(0x7ff8)", 0 },
    { "a big number", TEXT("(3492890328409238509324850943850943825024385\r\n"),
      "(3492890328409238509324850943850943825024385", 0 },
    { "a negative one", TEXT("(-1\r\n"), "(-1", 0 },
    { "with a plus", TEXT("(+1\r\n"), "(+1", 0 },
    { "a blob error", TEXT("!21\r\nSYNTAX invalid syntax\r\n"), "-SYNTAX invalid syntax", 0 },
    { "a verbatim string", TEXT("=15\r\ntxt:Some string\r\n"), "=\"Some string\"", 0 },
    { "an empty one", TEXT("=4\r\nmkd:\r\n"), "=\"\"", 0 },
    { "a map", TEXT("%2\r\n+first\r\n:1\r\n+second\r\n:2\r\n"), "{+first :1 +second :2}", 0 },
    { "an empty map", TEXT("%0\r\n"), "{}", 0 },
    { "a set", TEXT("~3\r\n+orange\r\n:100\r\n#t\r\n"), "~[+orange :100 #t]", 0 },
    { "an empty set", TEXT("~0\r\n"), "~[]", 0 },
    { "a push", TEXT(">2\r\n+message\r\n$1\r\na\r\n"), ">[+message \"a\"]", 0 },
    { "a map in an array in a map", TEXT("%1\r\n*1\r\n%0\r\n~1\r\n_\r\n"), "{[{}] ~[null]}", 0 },
    { "HELLO 3, in short", TEXT("%2\r\n$5\r\nproto\r\n:3\r\n$7\r\nmodules\r\n*0\r\n"),
      "{\"proto\" :3 \"modules\" []}", 0 },
    /* attributes */
    { "an attribute is passed over", TEXT("|1\r\n+ttl\r\n:3600\r\n:7\r\n"), ":7", 0 },
    { "an empty one", TEXT("|0\r\n+OK\r\n"), "+OK", 0 },
    { "one behind the other", TEXT("|1\r\n+a\r\n:1\r\n|1\r\n+b\r\n:2\r\n+OK\r\n"), "+OK", 0 },
    { "inside an array", TEXT("*3\r\n:1\r\n:2\r\n|1\r\n+ttl\r\n:3600\r\n:3\r\n"), "[:1 :2 :3]", 0 },
    { "before an array, with a map inside",
      TEXT("|1\r\n+key-popularity\r\n%2\r\n$1\r\na\r\n,0.1923\r\n$1\r\nb\r\n,0.0012\r\n*2\r\n:2039123\r\n:"
           "9543892\r\n"),
      "[:2039123 :9543892]", 0 },
    { "inside an attribute",
      TEXT("|1\r\n|1\r\n+a\r\n+b\r\n+key\r\n|0\r\n+value\r\n*1\r\n|1\r\n+c\r\n*0\r\n_\r\n"), "[null]", 0 },
    { "before a push", TEXT("|1\r\n+a\r\n+b\r\n>1\r\n+kind\r\n"), ">[+kind]", 0 },
    { "the reply behind an attribute ends it", TEXT("|1\r\n+a\r\n:1\r\n:2\r\n:3\r\n"), ":2", 16 },
};

static const struct refusal {
    const char *why;
    struct slice bytes;
    const char *sentence;
} refusals[] = {
#define LENGTH "a length must be a plain decimal number"
#define INTEGER "an integer must be a decimal number of 64 bits"
#define LONG "a reply is longer than 16 MiB"
#define TYPE "a value begins with a byte that names no type"
#define LF "a line ends in LF without CR"
#define CR "a CR stands without LF in a line"
#define END "a string does not end in CR LF where its length says"
#define DOUBLE "a double must be a decimal number, inf or nan"
#define BIG "a big number must be a sign and digits"
#define VERBATIM "a verbatim string must begin with its format, three bytes and a colon"
#define BOOLEAN "a boolean must be t or f"
#define PUSH "a push must be outermost and name its kind"
    { "another protocol", TEXT("HTTP/1.1 400 Bad Request\r\n"), TYPE },
    { "a TLS alert", TEXT("\x15\x03\x01"), TYPE },
    { "an empty line", TEXT("\r\n+OK\r\n"), TYPE },
    { "a zero byte", TEXT("\0"), TYPE },
    { "the end of a streamed array", TEXT(".\r\n"), TYPE },
    { "no type inside an array", TEXT("*1\r\nOK\r\n"), TYPE },
    { "bare LF behind a line", TEXT("+OK\n+OK\r\n"), LF },
    { "bare LF inside an error", TEXT("-a\nb\r\n"), LF },
    { "bare CR inside a line", TEXT("+a\rb\r\n"), CR },
    { "CR CR LF", TEXT("+a\r\r\n"), CR },
    { "an integer of letters", TEXT(":abc\r\n"), INTEGER },
    { "no integer", TEXT(":\r\n"), INTEGER },
    { "two signs", TEXT(":+-5\r\n"), INTEGER },
    { "a plus alone", TEXT(":+\r\n"), INTEGER },
    { "a leading zero", TEXT(":007\r\n"), INTEGER },
    { "minus zero", TEXT(":-0\r\n"), INTEGER },
    { "plus and a leading zero", TEXT(":+01\r\n"), INTEGER },
    { "a fraction", TEXT(":1.5\r\n"), INTEGER },
    { "2^63", TEXT(":9223372036854775808\r\n"), INTEGER },
    { "-2^63 - 1", TEXT(":-9223372036854775809\r\n"), INTEGER },
    { "2^64", TEXT(":18446744073709551616\r\n"), INTEGER },
    { "an integer that never ends", TEXT(":11111111111111111111"), INTEGER },
    { "an integer and bare LF", TEXT(":1\n"), INTEGER },
    { "a length with a plus", TEXT("$+5\r\nhello\r\n"), LENGTH },
    { "a length with a leading zero", TEXT("$05\r\nhello\r\n"), LENGTH },
    { "no length", TEXT("$\r\n"), LENGTH },
    { "minus zero for a length", TEXT("$-0\r\n\r\n"), LENGTH },
    { "a negative length", TEXT("$-2\r\n"), LENGTH },
    { "a negative count", TEXT("*-2\r\n"), LENGTH },
    { "null spelled with zeros", TEXT("$-01\r\n"), LENGTH },
    { "a streamed string", TEXT("$?\r\n;4\r\nHell\r\n"), LENGTH },
    { "a streamed array", TEXT("*?\r\n"), LENGTH },
    { "no null map", TEXT("%-1\r\n"), LENGTH },
    { "no null set", TEXT("~-1\r\n"), LENGTH },
    { "no null push", TEXT(">-1\r\n"), LENGTH },
    { "no null attribute", TEXT("|-1\r\n"), LENGTH },
    { "no null error", TEXT("!-1\r\n"), LENGTH },
    { "no null verbatim", TEXT("=-1\r\n"), LENGTH },
    { "a string longer than its length", TEXT("$4\r\nhello\r\n"), END },
    { "a string shorter than its length", TEXT("$6\r\nhello\r\n+"), END },
    { "a string that ends in LF LF", TEXT("$5\r\nhello\n\n"), END },
    { "a string announced too long", TEXT("$16777216\r\n"), LONG },
    { "longer than memory", TEXT("$9223372036854775807\r\n"), LONG },
    { "an array announced too long", TEXT("*5592406\r\n"), LONG },
    { "a map announced too long", TEXT("%2796203\r\n"), LONG },
    { "all the counts there are", TEXT("*9223372036854775807\r\n"), LONG },
    { "so also in pairs", TEXT("%4611686018427387904\r\n"), LONG },
    { "a null with something behind", TEXT("_0\r\n"), "a null has something behind its `_`" },
    { "a boolean in a word", TEXT("#true\r\n"), BOOLEAN },
    { "in capitals", TEXT("#T\r\n"), BOOLEAN },
    { "no boolean", TEXT("#\r\n"), BOOLEAN },
    { "no double", TEXT(",\r\n"), DOUBLE },
    { "a point in front", TEXT(",.5\r\n"), DOUBLE },
    { "a point behind", TEXT(",5.\r\n"), DOUBLE },
    { "an exponent without digits", TEXT(",1e\r\n"), DOUBLE },
    { "an exponent with a sign alone", TEXT(",1e+\r\n"), DOUBLE },
    { "a sign alone", TEXT(",-\r\n"), DOUBLE },
    { "hexadecimal", TEXT(",0x1p3\r\n"), DOUBLE },
    { "infinity in full", TEXT(",infinity\r\n"), DOUBLE },
    { "a parenthesis that does not close", TEXT(",nan(1\r\n"), DOUBLE },
    { "one that does not open", TEXT(",nan1)\r\n"), DOUBLE },
    { "half a parenthesis", TEXT(",nan(\r\n"), DOUBLE },
    { "a blank", TEXT(", 1\r\n"), DOUBLE },
    { "a comma", TEXT(",1,5\r\n"), DOUBLE },
    { "a big number with a point", TEXT("(1.5\r\n"), BIG },
    { "no big number", TEXT("(\r\n"), BIG },
    { "a sign alone", TEXT("(-\r\n"), BIG },
    { "a verbatim string without format", TEXT("=3\r\ntxt\r\n"), VERBATIM },
    { "of one byte, with a colon where it would stand", TEXT("=1\r\nt\r\n:1\r\n"), VERBATIM },
    { "without a colon", TEXT("=5\r\ntextA\r\n"), VERBATIM },
    { "a push inside", TEXT("*1\r\n>1\r\n+a\r\n"), PUSH },
    { "a push inside an attribute", TEXT("|1\r\n+a\r\n>1\r\n+a\r\n+OK\r\n"), PUSH },
    { "a push of nothing", TEXT(">0\r\n"), PUSH },
};

static const struct slice prefixes[] = { TEXT(""), TEXT("*2\r\n:1\r\n"), TEXT("|1\r\n+a\r\n"),
                                         TEXT("%1\r\n+a\r\n|0\r\n") };

/* ---- Whole and in pieces --------------------------------------------------------------------------------- */

static enum resp_result parse(const char *at, size_t len, struct resp_reply_parser *parser, size_t *reply_len)
{
    *parser = RESP_REPLY_START;
    return resp_reply_parse(parser, at, len, reply_len);
}

/* What a reading says in one text: values and length, the fault, or that more must come. */
static void tell(enum resp_result result, const struct resp_reply_parser *parser, const char *at,
                 size_t reply_len, char *room, size_t size)
{
    struct text told = text_of(room, size - 1);
    if (result == RESP_BAD) {
        text_string(&told, parser->sentence);
    } else if (result == RESP_DONE) {
        assert_true(resp_tell(&told, at, reply_len));
        text_literal(&told, " ");
        text_u64(&told, reply_len);
    } else {
        text_literal(&told, "more");
    }
    assert_false(told.is_cut);
    room[told.len] = '\0';
}

/* The bytes up to each of `cuts` in turn, always in a buffer of its own that ends where they do. */
static void tell_in_pieces(struct slice bytes, const size_t *cuts, size_t cut_count, char *room, size_t size)
{
    struct resp_reply_parser parser = RESP_REPLY_START;
    enum resp_result result = RESP_MORE;
    for (size_t i = 0; i <= cut_count && result == RESP_MORE; i++) {
        size_t len = i == cut_count ? bytes.len : cuts[i], reply_len = 0;
        char *copy = malloc(len + (len == 0));
        assert_non_null(copy);
        memcpy(copy, bytes.at, len);
        result = resp_reply_parse(&parser, copy, len, &reply_len);
        tell(result, &parser, copy, reply_len, room, size);
        free(copy);
    }
}

static void replies_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(readings); i++) {
        const struct reading *row = &readings[i];
        char told[1024], expected[1024];
        tell_in_pieces(row->bytes, NULL, 0, told, sizeof told);
        (void)snprintf(expected, sizeof expected, "%s %zu", row->told,
                       row->len == 0 ? row->bytes.len : row->len);
        if (strcmp(told, expected) != 0)
            fail_msg("%s: %s, want %s", row->why, told, expected);
    }
}

static void faults_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        const struct refusal *row = &refusals[i];
        char told[1024];
        tell_in_pieces(row->bytes, NULL, 0, told, sizeof told);
        if (strcmp(told, row->sentence) != 0)
            fail_msg("%s: %s, want %s", row->why, told, row->sentence);
    }
}

static void expect_same(struct slice bytes, const size_t *cuts, size_t cut_count, const char *why)
{
    char whole[4096], pieces[4096];
    tell_in_pieces(bytes, NULL, 0, whole, sizeof whole);
    tell_in_pieces(bytes, cuts, cut_count, pieces, sizeof pieces);
    if (strcmp(whole, pieces) != 0)
        fail_msg("%s: %s whole, %s when %zu bytes came first", why, whole, pieces, cuts[0]);
}

static void split_and_dribble(struct slice bytes, const char *why)
{
    size_t cuts[256];
    assert_true(bytes.len <= COUNT_OF(cuts));
    for (size_t cut = 0; cut < bytes.len; cut++) {
        expect_same(bytes, &cut, 1, why);
        cuts[cut] = cut;
    }
    expect_same(bytes, cuts, bytes.len, why);
}

static void cuts_change_nothing(void **state)
{
    char room[256];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(readings) + COUNT_OF(refusals); i++) {
        bool is_good = i < COUNT_OF(readings);
        const struct slice *bytes = is_good ? &readings[i].bytes : &refusals[i - COUNT_OF(readings)].bytes;
        const char *why = is_good ? readings[i].why : refusals[i - COUNT_OF(readings)].why;
        for (size_t j = 0; j < COUNT_OF(prefixes); j++) {
            struct text text = text_of(room, sizeof room);
            text_slice_add(&text, prefixes[j]);
            text_slice_add(&text, *bytes);
            assert_false(text.is_cut);
            split_and_dribble(text_slice(&text), why);
        }
    }
}

static void random_replies_are_read_in_any_pieces(void **state)
{
    struct random random = { random_seed(20260612) };
    (void)state;
    for (int round = 0; round < 20000; round++) {
        static char room[65536], want_room[262144], have_room[262144];
        struct text reply = text_of(room, sizeof room), want = text_of(want_room, sizeof want_room),
                    have = text_of(have_room, sizeof have_room);
        resp_random(&random, round % 2 == 0 ? RESP2 : RESP3, round % 4 == 1, &reply, &want);
        assert_false(reply.is_cut || want.is_cut);
        struct resp_reply_parser parser = RESP_REPLY_START;
        size_t arrived = 0, reply_len = 0, most = random_below(&random, 40) + 1;
        enum resp_result result;
        while ((result = resp_reply_parse(&parser, room, arrived, &reply_len)) == RESP_MORE) {
            assert_true(arrived < reply.len);
            arrived += random_below(&random, most) + 1;
            arrived = arrived < reply.len ? arrived : reply.len;
        }
        assert_int_equal(result, RESP_DONE);
        assert_int_equal(reply_len, reply.len);
        assert_true(resp_tell(&have, room, reply_len));
        if (!slice_equals(text_slice(&want), text_slice(&have)))
            fail_msg("%.*s, want %.*s", (int)have.len, have.at, (int)want.len, want.at);
    }
}

/* ---- The values ---------------------------------------------------------------------------------------------- */

static void values_are_borrowed_counted_and_skipped(void **state)
{
    static const char bytes[] =
        "*4\r\n%2\r\n+a\r\n*1\r\n_\r\n|1\r\n+x\r\n~1\r\n:1\r\n$1\r\nb\r\n:7\r\n=7\r\ntxt:xyz\r\n!5\r\nMOVED\r\n"
        "%1\r\n|1\r\n+k\r\n>0\r\n:1\r\n:2\r\n";
    struct resp_reader reader = resp_reader_of(bytes, sizeof bytes - 1);
    struct resp_value value;
    (void)state;
    assert_true(resp_next(&reader, &value) && value.type == RESP_ARRAY && value.count == 4);
    assert_true(resp_next(&reader, &value) && value.type == RESP_MAP && value.count == 4);
    assert_true(resp_skip(&reader, &value)); /* two pairs, an array and an attribute among them */
    assert_true(resp_next(&reader, &value) && value.type == RESP_VERBATIM && resp_is_text(&value));
    assert_true(slice_equals(value.text, SLICE("xyz")) && value.text.at == strstr(bytes, "xyz"));
    assert_true(resp_skip(&reader, &value)); /* nothing inside */
    assert_true(resp_next(&reader, &value) && value.type == RESP_ERROR && !resp_is_text(&value));
    assert_true(resp_next(&reader, &value) && value.type == RESP_MAP && value.count == 2);
    assert_true(resp_skip(&reader, &value));
    assert_false(resp_next(&reader, &value)); /* the end */
    assert_false(resp_skip(&(struct resp_reader){ bytes, bytes + 9 }, &(struct resp_value){ .count = 2 }));
}

static void values_keep_their_spelling(void **state)
{
    struct resp_reader reader = resp_reader_of(":+12\r\n#f\r\n#t\r\n+a\0b\r\n", 20);
    struct resp_value value;
    (void)state;
    assert_true(resp_next(&reader, &value) && value.integer == 12 && slice_equals(value.text, SLICE("+12")));
    assert_true(resp_next(&reader, &value) && value.integer == 0 && slice_equals(value.text, SLICE("f")));
    assert_true(resp_next(&reader, &value) && value.integer == 1 && value.type == RESP_BOOLEAN);
    assert_true(resp_next(&reader, &value) && slice_equals(value.text, SLICE("a\0b")));
}

static void errors_begin_with_their_code(void **state)
{
    (void)state;
    assert_true(slice_equals(resp_error_code(SLICE("MOVED 3999 127.0.0.1:6381")), SLICE("MOVED")));
    assert_true(slice_equals(resp_error_code(SLICE("LOADING")), SLICE("LOADING")));
    assert_true(slice_equals(resp_error_code(SLICE(" x")), SLICE("")));
    assert_true(slice_equals(resp_error_code((struct slice){ NULL, 0 }), SLICE("")));
}

static const struct number_row {
    const char *why;
    struct slice text;
    bool is_one;
    int64_t value;
} number_rows[] = {
    { "zero", TEXT("0"), true, 0 },
    { "negative", TEXT("-12"), true, -12 },
    { "the largest", TEXT("9223372036854775807"), true, INT64_MAX },
    { "the least", TEXT("-9223372036854775808"), true, INT64_MIN },
    { "one more", TEXT("9223372036854775808"), false, 0 },
    { "one less", TEXT("-9223372036854775809"), false, 0 },
    { "twenty digits", TEXT("10000000000000000000"), false, 0 },
    { "nothing", TEXT(""), false, 0 },
    { "a plus", TEXT("+1"), false, 0 },
    { "a leading zero", TEXT("01"), false, 0 },
    { "minus zero", TEXT("-0"), false, 0 },
    { "a blank behind", TEXT("1 "), false, 0 },
    { "a line end behind", TEXT("1\r\n"), false, 0 },
    { "a zero byte behind", TEXT("1\0"), false, 0 },
    { "a sign alone", TEXT("-"), false, 0 },
};

static void arguments_are_numbers_as_redis_reads_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(number_rows); i++) {
        const struct number_row *row = &number_rows[i];
        int64_t value = 0;
        expect_row(resp_to_i64(row->text, &value) == row->is_one, row->why);
        expect_row(value == row->value, row->why);
    }
}

/* ---- Bounds -------------------------------------------------------------------------------------------------- */

/* Give all of the bytes, but one by one: what was looked at is noted, so that it is not looked at again. */
static enum resp_result dribble_in(struct resp_reply_parser *parser, const char *at, size_t len,
                                   size_t *reply_len)
{
    enum resp_result result = RESP_MORE;
    *parser = RESP_REPLY_START;
    for (size_t given = 0; given <= len && result == RESP_MORE; given++) {
        result = resp_reply_parse(parser, at, given, reply_len);
        bool is_line = result == RESP_MORE && parser->at < given && strchr("+-,(", at[parser->at]) != NULL;
        if (is_line && at[given - 1] != '\r')
            assert_int_equal(parser->scanned, given);
    }
    return result;
}

static void depth_is_bounded(void **state)
{
    static const struct slice levels[] = { TEXT("*1\r\n"), TEXT("~1\r\n"), TEXT("%1\r\n_\r\n"),
                                           TEXT("|1\r\n_\r\n") };
    static char room[1 << 20];
    struct resp_reply_parser parser;
    size_t reply_len;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        for (unsigned depth = 1; depth <= RESP_DEPTH_MAX + 1; depth++) {
            struct text text = text_of(room, sizeof room);
            for (unsigned level = 0; level < depth; level++)
                text_slice_add(&text, levels[i]);
            bool fits = depth <= RESP_DEPTH_MAX;
            assert_int_equal(parse(room, text.len, &parser, &reply_len), fits ? RESP_MORE : RESP_BAD);
            text_literal(&text, "_\r\n");
            if (i == 3) { /* each attribute's value, then what it describes */
                for (unsigned level = 1; level < depth; level++)
                    text_literal(&text, "_\r\n");
                text_literal(&text, "_\r\n");
            }
            assert_int_equal(parse(room, text.len, &parser, &reply_len), fits ? RESP_DONE : RESP_BAD);
            if (!fits)
                assert_string_equal(parser.sentence, "a reply is nested more than 16 deep");
        }
    }
    memcpy(room, "*1\r\n", 4); /* 262,144 deep */
    for (size_t at = 4; at < sizeof room; at += 4)
        memcpy(room + at, room, 4);
    assert_int_equal(dribble_in(&parser, room, sizeof room, &reply_len), RESP_BAD);
    assert_int_equal(parser.at, 4 * (RESP_DEPTH_MAX + 1));
}

static void lines_are_bounded(void **state)
{
    static char room[RESP_LINE_MAX + 16];
    static const char types[] = "+-,(";
    struct resp_reply_parser parser;
    size_t reply_len;
    (void)state;
    for (size_t i = 0; i < sizeof types - 1; i++) {
        memset(room, '7', sizeof room);
        room[0] = types[i];
        memcpy(room + 1 + RESP_LINE_MAX, "\r\n", 2);
        assert_int_equal(parse(room, RESP_LINE_MAX + 3, &parser, &reply_len), RESP_DONE);
        assert_int_equal(reply_len, RESP_LINE_MAX + 3);
        assert_int_equal(dribble_in(&parser, room, RESP_LINE_MAX + 3, &reply_len), RESP_DONE);
        room[1 + RESP_LINE_MAX] = '7';
        assert_int_equal(parse(room, RESP_LINE_MAX + 1, &parser, &reply_len), RESP_MORE);
        for (size_t len = RESP_LINE_MAX + 2; len < sizeof room; len++) {
            assert_int_equal(parse(room, len, &parser, &reply_len), RESP_BAD);
            assert_string_equal(parser.sentence, "a line is longer than 64 KiB");
        }
        assert_int_equal(dribble_in(&parser, room, sizeof room, &reply_len), RESP_BAD);
        assert_string_equal(parser.sentence, "a line is longer than 64 KiB");
    }
}

/* Byte by byte through the largest replies: it ends soon, because nothing is looked at from the front again. */
static void replies_are_bounded(void **state)
{
    struct resp_reply_parser parser;
    size_t reply_len, cap = RESP_REPLY_MAX + 64;
    char *room = calloc(1, cap);
    (void)state;
    assert_non_null(room);
    size_t most = RESP_REPLY_MAX - (sizeof "$16777204\r\n\r\n" - 1);
    size_t head = (size_t)sprintf(room, "$%zu\r\n", most);
    memcpy(room + RESP_REPLY_MAX - 2, "\r\n", 2);
    assert_int_equal(head + most + 2, RESP_REPLY_MAX);
    assert_int_equal(dribble_in(&parser, room, RESP_REPLY_MAX, &reply_len), RESP_DONE);
    assert_int_equal(reply_len, RESP_REPLY_MAX);
    head = (size_t)sprintf(room, "$%zu\r\n", most + 1); /* refused with its announcement */
    assert_int_equal(dribble_in(&parser, room, cap, &reply_len), RESP_BAD);
    assert_int_equal(parse(room, head - 1, &parser, &reply_len), RESP_MORE);
    assert_int_equal(parse(room, head, &parser, &reply_len), RESP_BAD);

    struct text text = text_of(room, cap); /* the most values there can be, and then one byte less */
    uint32_t count = (uint32_t)(RESP_REPLY_MAX - (sizeof "*5592402\r\n" - 1)) / 3;
    resp_put_array(&text, count);
    for (uint32_t i = 0; i < count; i++)
        text_literal(&text, "_\r\n");
    assert_false(text.is_cut);
    assert_in_range(text.len, RESP_REPLY_MAX - 2, RESP_REPLY_MAX);
    assert_int_equal(dribble_in(&parser, room, text.len, &reply_len), RESP_DONE);
    struct resp_reader reader = resp_reader_of(room, reply_len);
    struct resp_value value;
    assert_true(resp_next(&reader, &value) && value.count == count && resp_skip(&reader, &value));
    assert_ptr_equal(reader.at, reader.end);

    text = text_of(room, cap); /* more values than fit, though none is long */
    resp_put_array(&text, count + 2);
    while (text.len < RESP_REPLY_MAX + 8)
        text_literal(&text, "_\r\n");
    assert_int_equal(dribble_in(&parser, room, text.len, &reply_len), RESP_BAD);
    assert_string_equal(parser.sentence, "a reply is longer than 16 MiB");
    assert_int_equal(parse(room, text.len, &parser, &reply_len), RESP_BAD);
    assert_string_equal(parser.sentence, "a reply is longer than 16 MiB");
    free(room);
}

static void attributes_without_end_are_bounded(void **state)
{
    struct resp_reply_parser parser = RESP_REPLY_START;
    size_t reply_len;
    char *room = malloc(RESP_REPLY_MAX);
    (void)state;
    assert_non_null(room);
    for (size_t at = 0; at < RESP_REPLY_MAX; at += 4)
        memcpy(room + at, "|0\r\n", 4);
    assert_int_equal(resp_reply_parse(&parser, room, RESP_REPLY_MAX - 1, &reply_len), RESP_MORE);
    assert_int_equal(resp_reply_parse(&parser, room, RESP_REPLY_MAX, &reply_len), RESP_BAD);
    assert_string_equal(parser.sentence, "a reply is longer than 16 MiB");
    free(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_are_read),
        cmocka_unit_test(faults_are_named),
        cmocka_unit_test(cuts_change_nothing),
        cmocka_unit_test(random_replies_are_read_in_any_pieces),
        cmocka_unit_test(values_are_borrowed_counted_and_skipped),
        cmocka_unit_test(values_keep_their_spelling),
        cmocka_unit_test(errors_begin_with_their_code),
        cmocka_unit_test(arguments_are_numbers_as_redis_reads_them),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(lines_are_bounded),
        cmocka_unit_test(replies_are_bounded),
        cmocka_unit_test(attributes_without_end_are_bounded),
    };
    return cmocka_run_group_tests_name("resp_reply", tests, NULL, NULL);
}
