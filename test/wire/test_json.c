// SPDX-License-Identifier: Apache-2.0
/*
 * test_json.c - the JSON reader: a table of refusals with reasons, and jansson as an oracle over random
 * documents.
 *
 * Documented differences, which the oracle test excuses and nothing else: nesting stops at 16 here; jansson
 * refuses numbers beyond a double and zero bytes in names, both of which are valid JSON, and takes a zero byte
 * between tokens for the text's end, which is not.
 */
#include "support/unit.h"

#include <jansson.h>

#include "support/random.h"
#include "wire/json.h"

static char scratch[1 << 16];

/* ---- Tables ---------------------------------------------------------------------------------------------- */

static bool is_valid(struct slice text, struct json *json)
{
    enum json_token token;
    json_init(json, text.at, text.len, scratch, text.len);
    while ((token = json_next(json)) != TOKEN_END && token != TOKEN_ERROR)
        ;
    return token == TOKEN_END;
}

static const struct {
    const char *why;
    struct slice text;
    bool is_good;
} rows[] = {
#define GOOD(why, text) \
    { \
        why, { text, sizeof(text) - 1 }, true \
    }
#define BAD(why, text) \
    { \
        why, { text, sizeof(text) - 1 }, false \
    }
    GOOD("an object", "{}"),
    GOOD("blanks of all four kinds", " \t\r\n{ \"a\" :\n[ 1 , 2 ] } \r\n"),
    GOOD("a value alone", "true"),
    GOOD("all escapes", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\""),
    GOOD("a surrogate pair", "\"\\ud83d\\ude00\""),
    GOOD("zero by escape", "\"\\u0000\""),
    GOOD("DEL is no control byte in JSON", "\"\x7f\""),
    GOOD("numbers", "[0,-0,1,-1,10,0.5,1e3,1E+3,1e-3,-0.0e0,123456789012345678901234567890]"),
    GOOD("duplicates are the caller's", "{\"a\":1,\"a\":2}"),
    BAD("nothing", ""),
    BAD("blanks only", " \n"),
    BAD("two values", "1 2"),
    BAD("a zero byte behind", "{}\0"),
    BAD("a byte order mark", "\xef\xbb\xbf{}"),
    BAD("an open object", "{"),
    BAD("an open array", "[1"),
    BAD("the wrong bracket", "[1}"),
    BAD("the wrong bracket, empty", "{]"),
    BAD("a bracket too many", "[]]"),
    BAD("a comma at the end of an array", "[1,]"),
    BAD("a comma at the end of an object", "{\"a\":1,}"),
    BAD("a comma at the front", "[,1]"),
    BAD("no comma", "[1 2]"),
    BAD("no colon", "{\"a\" 1}"),
    BAD("a colon in an array", "[\"a\":1]"),
    BAD("no value", "{\"a\":}"),
    BAD("a name without quotes", "{a:1}"),
    BAD("a name in single quotes", "{'a':1}"),
    BAD("a name that is a number", "{1:1}"),
    BAD("a comment", "{} // no"),
    BAD("a word cut short", "tru"),
    BAD("a word in capitals", "True"),
    BAD("a word too long", "nulll"),
    BAD("NaN", "NaN"),
    BAD("infinity", "-Infinity"),
    BAD("a zero in front", "01"),
    BAD("a sign in front", "+1"),
    BAD("a minus alone", "-"),
    BAD("a point in front", ".5"),
    BAD("a point at the end", "1."),
    BAD("an exponent without digits", "1e"),
    BAD("an exponent of a sign", "1e+"),
    BAD("hex", "0x10"),
    BAD("a string that does not end", "\"abc"),
    BAD("a string that ends in a backslash", "\"abc\\"),
    BAD("a line end in a string", "\"a\nb\""),
    BAD("a tab in a string", "\"a\tb\""),
    BAD("a zero byte in a string", "\"a\0b\""),
    BAD("an unknown escape", "\"\\x41\""),
    BAD("an escaped zero byte", "\"\\\0\""),
    BAD("an escape of three digits", "\"\\u00e\""),
    BAD("an escape that is not hex", "\"\\u00eg\""),
    BAD("the first half of a pair alone", "\"\\ud83d\""),
    BAD("the first half before another letter", "\"\\ud83dx\""),
    BAD("the first half before another escape", "\"\\ud83d\\n\""),
    BAD("the first half twice", "\"\\ud83d\\ud83d\""),
    BAD("the second half alone", "\"\\ude00\""),
    BAD("a lone byte from 0x80", "\"\x80\""),
    BAD("Latin-1", "\"\xe4\""),
    BAD("an overlong slash", "\"\xc0\xaf\""),
    BAD("an overlong slash of three bytes", "\"\xe0\x80\xaf\""),
    BAD("half of a pair as bytes (CESU-8)", "\"\xed\xa0\xbd\""),
    BAD("beyond U+10FFFF", "\"\xf4\x90\x80\x80\""),
    BAD("a character cut by the quote", "\"\xe2\x82\""),
    BAD("a character cut by the end", "\"\xe2\x82"),
#undef GOOD
#undef BAD
};

static void texts_are_read_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json json;
        bool got = is_valid(rows[i].text, &json);
        expect_row(got == rows[i].is_good, rows[i].why);
        if (!got) {
            expect_row(json.error != NULL && json.at >= json.start && json.at <= json.end, rows[i].why);
            expect_row(json_next(&json) == TOKEN_ERROR, rows[i].why);
        }
    }
}

/* No prefix of a good object is good, and reading it never looks behind its end (the sanitizer's part). */
static void a_prefix_is_refused(void **state)
{
    static const char text[] =
        "{\"a\": [1.5e3, true, null, {\"\\u00e4\": \"\\ud83d\\ude00 \xe2\x82\xac\"}], \"b\": -12}";
    (void)state;
    for (size_t len = 0; len < sizeof text; len++) {
        struct json json;
        char *copy = malloc(len + 1);
        memcpy(copy, text, len);
        char *exact = realloc(copy, len == 0 ? 1 : len);
        assert_int_equal(is_valid((struct slice){ exact, len }, &json), len == sizeof text - 1);
        free(exact);
    }
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    for (size_t depth = JSON_DEPTH_MAX - 1; depth <= JSON_DEPTH_MAX + 1; depth++) {
        char text[256];
        struct json json;
        size_t len = 0;
        for (size_t i = 0; i < depth; i++)
            len += (size_t)sprintf(text + len, i % 2 ? "{\"a\":" : "[");
        text[len++] = '1';
        for (size_t i = depth; i-- > 0;)
            text[len++] = i % 2 ? '}' : ']';
        assert_int_equal(is_valid((struct slice){ text, len }, &json), depth <= JSON_DEPTH_MAX);
    }
}

static void tokens_come_in_order_with_their_text(void **state)
{
    static const char text[] = "{\"plain\": \"a\\u00e4\\n\", \"n\": [-1.50, false]}";
    static const struct {
        enum json_token token;
        const char *text;
    } tokens[] = {
        { TOKEN_OBJECT, NULL },   { TOKEN_NAME, "plain" },   { TOKEN_STRING, "a\xc3\xa4\n" },
        { TOKEN_NAME, "n" },      { TOKEN_ARRAY, NULL },     { TOKEN_NUMBER, "-1.50" },
        { TOKEN_FALSE, "false" }, { TOKEN_ARRAY_END, NULL }, { TOKEN_OBJECT_END, NULL },
        { TOKEN_END, NULL },      { TOKEN_END, NULL },
    };
    struct json json;
    (void)state;
    json_init(&json, text, sizeof text - 1, scratch, sizeof text - 1);
    for (size_t i = 0; i < COUNT_OF(tokens); i++) {
        assert_int_equal(json_next(&json), tokens[i].token);
        if (tokens[i].text != NULL)
            assert_true(slice_equals(json.text, slice_of(tokens[i].text)));
        if (tokens[i].token == TOKEN_NAME)
            assert_true(json.text.at > text && json.text.at < text + sizeof text); /* no escapes: no copy */
    }
}

static void faults_have_a_place(void **state)
{
    static const char text[] = "{\n  \"a\": 1,\n  \"b\": tru\n}";
    struct json json;
    size_t line, column;
    (void)state;
    assert_false(is_valid(slice_of(text), &json));
    json_position(&json, &line, &column);
    assert_int_equal(line, 3);
    assert_int_equal(column, 8);
}

static void integers_are_exact(void **state)
{
    static const struct {
        const char *why, *text;
        bool is_integer;
        uint64_t magnitude;
        bool is_negative;
    } numbers[] = {
        { "zero", "0", true, 0, false },
        { "minus zero is zero", "-0", true, 0, false },
        { "what a double would round", "9007199254740993", true, 9007199254740993, false },
        { "the largest", "18446744073709551615", true, UINT64_MAX, false },
        { "its negative", "-18446744073709551615", true, UINT64_MAX, true },
        { "one more does not fit", "18446744073709551616", false, 0, false },
        { "1e3 is no integer here", "1e3", false, 0, false },
        { "neither is 1.0", "1.0", false, 0, false },
        { "nor 0.5", "0.5", false, 0, false },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        uint64_t magnitude = 0;
        bool is_negative = false;
        bool got = json_to_integer(slice_of(numbers[i].text), &magnitude, &is_negative);
        expect_row(got == numbers[i].is_integer, numbers[i].why);
        if (got)
            expect_row(magnitude == numbers[i].magnitude && is_negative == numbers[i].is_negative,
                       numbers[i].why);
    }
}

/* Without the promised scratch the reader says so, and stays inside. */
static void scratch_is_never_overrun(void **state)
{
    static const char text[] = "[\"\\n\\u00e4\", \"\\ud83d\\ude00\"]";
    char small[16];
    (void)state;
    for (size_t cap = 0; cap <= 8; cap++) {
        struct json json;
        enum json_token token;
        memset(small, '#', sizeof small);
        json_init(&json, text, sizeof text - 1, small, cap);
        while ((token = json_next(&json)) != TOKEN_END && token != TOKEN_ERROR)
            ;
        assert_int_equal(token, cap >= 7 ? TOKEN_END : TOKEN_ERROR); /* 1 + 2 + 4 bytes */
        for (size_t i = cap; i < sizeof small; i++)
            assert_int_equal(small[i], '#');
    }
}

/* ---- The oracle ------------------------------------------------------------------------------------------ */

/* What our reader read, as jansson's tree. Numbers as doubles of their raw text. NULL on an error. */
static json_t *tree_of(struct json *json, enum json_token token)
{
    json_t *tree = NULL;
    char name[512];
    switch (token) {
    case TOKEN_OBJECT:
        tree = json_object();
        while ((token = json_next(json)) == TOKEN_NAME) {
            size_t len = json->text.len < sizeof name - 1 ? json->text.len : sizeof name - 1;
            memcpy(name, json->text.at, len);
            name[len] = '\0';
            json_t *member = tree_of(json, json_next(json));
            if (member == NULL || json_object_set_new_nocheck(tree, name, member) != 0)
                break;
        }
        if (token == TOKEN_OBJECT_END)
            return tree;
        break;
    case TOKEN_ARRAY:
        tree = json_array();
        while ((token = json_next(json)) != TOKEN_ARRAY_END) {
            json_t *item = token == TOKEN_ERROR ? NULL : tree_of(json, token);
            if (item == NULL || json_array_append_new(tree, item) != 0)
                break;
        }
        if (token == TOKEN_ARRAY_END)
            return tree;
        break;
    case TOKEN_STRING:
        return json_stringn_nocheck(json->text.at, json->text.len);
    case TOKEN_NUMBER: {
        char *copy = strndup(json->text.at, json->text.len);
        tree = json_real(strtod(copy, NULL));
        free(copy);
        return tree;
    }
    case TOKEN_TRUE:
        return json_true();
    case TOKEN_FALSE:
        return json_false();
    case TOKEN_NULL:
        return json_null();
    default:
        break;
    }
    json_decref(tree);
    return NULL;
}

struct maker {
    struct random random;
    char text[4096];
    size_t len;
};

static uint64_t pick(struct maker *maker, uint64_t bound)
{
    return random_below(&maker->random, bound);
}

static void put(struct maker *maker, const char *bytes)
{
    size_t len = strlen(bytes);
    if (maker->len + len < sizeof maker->text - 64) {
        memcpy(maker->text + maker->len, bytes, len);
        maker->len += len;
    }
}

static void put_blank(struct maker *maker)
{
    static const char *const blanks[] = { " ", "\n", "\t", "\r\n" };
    if (pick(maker, 6) == 0)
        put(maker, blanks[pick(maker, COUNT_OF(blanks))]);
}

static void put_string(struct maker *maker)
{
    static const char *const pieces[] = { "a",
                                          "tenant",
                                          "\\n",
                                          "\\\"",
                                          "\\u00e4",
                                          "\\ud83d\\ude00",
                                          "\xc3\xa4",
                                          "\xe2\x82\xac",
                                          "\xf0\x9f\x98\x80",
                                          "\\/",
                                          "0",
                                          " ",
                                          "\x7f",
                                          "\\u007f",
                                          "\\uD7FF" };
    put(maker, "\"");
    for (uint64_t i = pick(maker, 5); i > 0; i--)
        put(maker, pieces[pick(maker, COUNT_OF(pieces))]);
    put(maker, "\"");
}

static void put_number(struct maker *maker)
{
    static const char *const numbers[] = { "0",     "-0",     "1",         "-17",  "0.5",
                                           "1e3",   "1E-3",   "-2.50e+10", "123",  "1e30",
                                           "9e300", "1.0000", "2e-4",      "1000", "9223372036854775808" };
    put(maker, numbers[pick(maker, COUNT_OF(numbers))]);
}

static void put_value(struct maker *maker, unsigned depth)
{
    static const char *const words[] = { "true", "false", "null" };
    uint64_t kind = pick(maker, depth == 0 ? 4 : 7);
    put_blank(maker);
    if (kind == 0)
        put(maker, words[pick(maker, 3)]);
    else if (kind == 1)
        put_number(maker);
    else if (kind <= 3)
        put_string(maker);
    else {
        bool is_object = kind >= 5;
        put(maker, is_object ? "{" : "[");
        put_blank(maker);
        for (uint64_t i = pick(maker, 5), first = i; i > 0; i--) {
            if (i != first)
                put(maker, ",");
            put_blank(maker);
            if (is_object) {
                put_string(maker);
                put_blank(maker);
                put(maker, ":");
            }
            put_value(maker, depth - 1);
        }
        put(maker, is_object ? "}" : "]");
    }
    put_blank(maker);
}

/* A few changes of one to eight bytes: another byte, a byte more, a run gone, a run twice. */
static void mutate(struct maker *maker)
{
    static const char bytes[] = "{}[]:,\"\\ue+-.0123456789aEtfn \t\r\n\x80\xc0\xe2\xed\xf4\xff\x7f\x01/x";
    for (uint64_t i = 1 + pick(maker, 3); i > 0 && maker->len > 0; i--) {
        size_t at = (size_t)pick(maker, maker->len), run = 1 + (size_t)pick(maker, 8);
        char byte = bytes[pick(maker, sizeof bytes)]; /* the final zero too */
        run = run < maker->len - at ? run : maker->len - at;
        switch (pick(maker, 4)) {
        case 0:
            maker->text[at] = byte;
            break;
        case 1:
            memmove(maker->text + at + 1, maker->text + at, maker->len - at);
            maker->text[at] = byte;
            maker->len++;
            break;
        case 2:
            memmove(maker->text + at, maker->text + at + run, maker->len - at - run);
            maker->len -= run;
            break;
        default:
            memmove(maker->text + at + run, maker->text + at, maker->len - at);
            maker->len += run;
        }
    }
}

/* jansson's refusals that are not ours. */
static bool is_excused(const json_error_t *error)
{
    enum json_error_code code = json_error_code(error);
    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key;
}

static void documents_read_as_jansson_reads_them(void **state)
{
    static struct maker maker;
    size_t good = 0, bad = 0, excused = 0;
    (void)state;
    maker.random.state = random_seed(20260106);
    for (int i = 0; i < 300000; i++) {
        struct json json;
        json_error_t error;
        maker.len = 0;
        put_value(&maker, 6);
        if (i % 3 != 0)
            mutate(&maker);

        json_init(&json, maker.text, maker.len, scratch, maker.len);
        json_t *ours = tree_of(&json, json_next(&json));
        if (ours != NULL && json_next(&json) != TOKEN_END) {
            json_decref(ours);
            ours = NULL;
        }
        json_t *theirs = json_loadb(maker.text, maker.len,
                                    JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &error);
        bool is_deep = json.error != NULL && strstr(json.error, "nested") != NULL;
        bool has_zero = memchr(maker.text, '\0', maker.len) != NULL;
        if ((ours != NULL && theirs == NULL && is_excused(&error)) || is_deep || (ours == NULL && has_zero))
            excused++;
        else if ((ours == NULL) != (theirs == NULL))
            fail_msg("`%.*s`: ours %s, jansson %s", (int)maker.len, maker.text, ours ? "reads it" : json.error,
                     theirs ? "reads it" : error.text);
        else if (ours != NULL && !json_equal(ours, theirs))
            fail_msg("`%.*s`: read differently", (int)maker.len, maker.text);
        else if (ours != NULL)
            good++;
        else
            bad++;
        json_decref(ours);
        json_decref(theirs);
    }
    print_message("%zu read alike, %zu refused alike, %zu excused\n", good, bad, excused);
    assert_true(good > 100000 && bad > 50000 && excused < 10000); /* else the generator tests nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_read_or_refused), cmocka_unit_test(a_prefix_is_refused),
        cmocka_unit_test(nesting_is_bounded),        cmocka_unit_test(tokens_come_in_order_with_their_text),
        cmocka_unit_test(faults_have_a_place),       cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(scratch_is_never_overrun),  cmocka_unit_test(documents_read_as_jansson_reads_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
