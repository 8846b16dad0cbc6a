// SPDX-License-Identifier: Apache-2.0
/*
 * test_resp_words.c - the words of a command become the call that they say, or are refused with the way out.
 *
 * A call is compared as a line that is written here from its fields; what stands in it unsaid is written, too.
 */
#include "support/unit.h"
#include "wire/resp_words.h"

#define WORDS_MAX 80

static struct check_request requests[1];
static struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
static char scratch[CHECK_BODY_MAX];
static const struct check_storage storage = { requests,      1, attributes, WEIR_ATTRIBUTES_MAX, scratch,
                                              sizeof scratch };

/* Words with blanks between them; '_' stands for a blank inside a word, '^' for a zero byte. */
static size_t split(char *line, struct slice words[WORDS_MAX])
{
    size_t count = 0;
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        words[count] = slice_of(word);
        for (size_t i = 0; i < words[count].len; i++)
            word[i] = (char)(word[i] == '_' ? ' ' : word[i] == '^' ? '\0' : word[i]);
        count++;
    }
    return count;
}

static bool read_line(enum resp_call call, const char *line, struct call_body *out, char *why)
{
    static char copy[4096];
    struct slice words[WORDS_MAX];
    (void)snprintf(copy, sizeof copy, "%s", line);
    return resp_words_read(call, words, split(copy, words), &storage, out, why);
}

/* "cost=1 wait=0 ..." of what was read. */
static void tell(const struct call_body *body, char *out, size_t size)
{
    size_t len = (size_t)snprintf(out, size, "cost=%llu", (unsigned long long)body->ask.cost);
    const struct {
        const char *name;
        bool is_told;
        unsigned long long value;
    } fields[] = {
        { "wait", body->ask.wait != 0, body->ask.wait },
        { "peek", body->ask.is_peek, 1 },
        { "expires", body->expires_after != CALL_EXPIRES_AFTER, body->expires_after },
        { "bound", body->is_bound, 1 },
        { "outcome", body->outcome != CALL_OK, body->outcome },
    };
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (fields[i].is_told)
            len += (size_t)snprintf(out + len, size - len, " %s=%llu", fields[i].name, fields[i].value);
    if (body->limit != NULL)
        len += (size_t)snprintf(out + len, size - len, " limit=%s", body->limit);
    for (size_t i = 0; i < body->handle.len; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%02x", i == 0 ? " handle=" : "",
                                (unsigned char)body->handle.at[i]);
    for (size_t i = 0; i < body->ask.attribute_count; i++)
        len += (size_t)snprintf(out + len, size - len, " %s:%.*s", body->ask.attributes[i].name,
                                (int)body->ask.attributes[i].len, body->ask.attributes[i].value);
}

static void commands_are_calls(void **state)
{
    static const struct {
        enum resp_call call;
        const char *words, *told, *why;
    } rows[] = {
        { RESP_CALL_CHECK, "ATTR tenant acme", "cost=1 tenant:acme", "nothing but a request" },
        { RESP_CALL_CHECK, "attr a 1 b 2", "cost=1 a:1 b:2", "words in any case" },
        { RESP_CALL_CHECK, "COST 5 WAIT 1500 ATTR a x", "cost=5 wait=1500000000 a:x", "milliseconds" },
        { RESP_CALL_CHECK, "peek cost 0 ATTR a x", "cost=0 peek=1 a:x", "options in any order" },
        { RESP_CALL_CHECK, "WAIT 86400000 ATTR a x", "cost=1 wait=86400000000000 a:x", "a day, the longest" },
        { RESP_CALL_CHECK, "WAIT 0 PEEK ATTR a x", "cost=1 peek=1 a:x",
          "no wait at all may stand beside a look" },
        { RESP_CALL_CHECK, "COST 9223372036854775807 ATTR a x", "cost=9223372036854775807 a:x",
          "the largest cost" },
        { RESP_CALL_CHECK, "ATTR a \"x\\", "cost=1 a:\"x\\", "a value is what it is" },
        { RESP_CALL_CHECK, "ATTR cost 1 attr 2", "cost=1 cost:1 attr:2",
          "behind ATTR there are names and values" },
        { RESP_CALL_CHECK, "ATTR a \xc3\xa9_\xf0\x9f\x98\x80", "cost=1 a:\xc3\xa9 \xf0\x9f\x98\x80",
          "UTF-8, blanks" },
        { RESP_CALL_PEEK, "COST 2 ATTR a x", "cost=2 peek=1 a:x", "PEEK is understood" },
        { RESP_CALL_RESERVE, "EXPIRES 60000 ATTR a x", "cost=1 expires=60000000000 a:x", "a hold" },
        { RESP_CALL_ACQUIRE, "BIND WAIT 1 ATTR a x", "cost=1 wait=1000000 bound=1 a:x",
          "ends with the connection" },
        { RESP_CALL_REFUND, "COST 3 ATTR a x", "cost=3 a:x", "a refund" },
        { RESP_CALL_REFUND, "ATTR a x", "cost=1 a:x", "of what a check took" },
        { RESP_CALL_SETTLE, "AQID 7", "cost=7 handle=010203", "a settlement" },
        { RESP_CALL_CANCEL, "AQID", "cost=1 handle=010203", "a cancel" },
        { RESP_CALL_RENEW, "AQID", "cost=1 handle=010203", "a renewal" },
        { RESP_CALL_RELEASE, "AQID", "cost=1 handle=010203", "ok is understood" },
        { RESP_CALL_RELEASE, "AQID DROPPED", "cost=1 outcome=2 handle=010203", "an outcome in any case" },
        { RESP_CALL_RELEASE, "AQID ok", "cost=1 handle=010203", "or said" },
        { RESP_CALL_RESET, "all", "cost=1 limit=all", "a limit without a key" },
        { RESP_CALL_RESET, "t ATTR tenant acme", "cost=1 limit=t tenant:acme", "a key" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char why[RESP_WORDS_WHY_MAX] = "", told[512] = "";
        struct call_body body;
        if (!read_line(rows[i].call, rows[i].words, &body, why))
            fail_msg("%s: '%s' is refused: %s", rows[i].why, rows[i].words, why);
        tell(&body, told, sizeof told);
        if (strcmp(told, rows[i].told) != 0)
            fail_msg("%s: '%s' gives '%s'", rows[i].why, rows[i].words, told);
    }
}

/* Each with its whole sentence: the word that is meant, and the cure. */
static void what_is_wrong_is_said(void **state)
{
#define CHECK_USAGE "WEIR.CHECK [COST n] [WAIT ms] [PEEK] ATTR name value [name value ...]"
#define COSTS "write a whole number from 0 to 9223372036854775807, such as 1"
#define WAITS "write milliseconds as a whole number from 0 to 86400000, such as 500"
#define EXPIRY "write milliseconds as a whole number from 1 to 86400000, such as 60000"
    static const struct {
        enum resp_call call;
        const char *words, *said, *why;
    } rows[] = {
        { RESP_CALL_CHECK, "", "ATTR is missing: " CHECK_USAGE, "nothing at all" },
        { RESP_CALL_CHECK, "COST 1", "ATTR is missing: " CHECK_USAGE, "no ATTR" },
        { RESP_CALL_CHECK, "tenant acme", "there is no option 'tenant': " CHECK_USAGE, "ATTR forgotten" },
        { RESP_CALL_CHECK, "ATTR", "there is nothing behind 'ATTR': " CHECK_USAGE, "nothing behind it" },
        { RESP_CALL_CHECK, "ATTR tenant", "an attribute has no value: 'tenant': " CHECK_USAGE, "half a pair" },
        { RESP_CALL_CHECK, "ATTR a 1 b", "an attribute has no value: 'b': " CHECK_USAGE,
          "the last has no value" },
        { RESP_CALL_CHECK, "FOO ATTR a 1", "there is no option 'FOO': " CHECK_USAGE, "an unknown option" },
        { RESP_CALL_CHECK, "BIND ATTR a 1", "there is no option 'BIND': " CHECK_USAGE, "one of another call" },
        { RESP_CALL_CHECK, "COST 1 cost 2 ATTR a 1", "an option stands twice: 'cost': say it once",
          "which of both?" },
        { RESP_CALL_CHECK, "COST", "there is nothing behind 'COST': " CHECK_USAGE, "no value" },
        { RESP_CALL_CHECK, "COST -1 ATTR a 1", "COST '-1': " COSTS, "no negative cost" },
        { RESP_CALL_CHECK, "COST 2x ATTR a 1", "COST '2x': " COSTS, "no units" },
        { RESP_CALL_CHECK, "COST 1.5 ATTR a 1", "COST '1.5': " COSTS, "whole numbers" },
        { RESP_CALL_CHECK, "COST 9223372036854775808 ATTR a 1", "COST '9223372036854775808': " COSTS,
          "beyond" },
        { RESP_CALL_CHECK, "WAIT 2s ATTR a 1", "WAIT '2s': " WAITS, "the spelling of the command" },
        { RESP_CALL_CHECK, "WAIT 86400001 ATTR a 1", "WAIT '86400001': " WAITS, "longer than a day" },
        { RESP_CALL_CHECK, "WAIT 5 PEEK ATTR a 1",
          "WAIT stands beside PEEK: a look is answered at once; leave one of them out", "in its own words" },
        { RESP_CALL_CHECK, "ATTR a 1 COST 2", "COST stands behind ATTR: options come first: " CHECK_USAGE,
          "options last, as Redis users write them" },
        { RESP_CALL_CHECK, "ATTR a 1 PEEK", "PEEK stands behind ATTR: options come first: " CHECK_USAGE,
          "the same" },
        { RESP_CALL_CHECK, "ATTR a \xff", "no UTF-8 is the value of 'a': send text, or a hash of it",
          "no text" },
        { RESP_CALL_CHECK, "ATTR a^b x",
          "the name of an attribute is no text: write 1 to 32 of a-z, 0-9 and '-', a letter first",
          "a zero byte would cut it short" },
        { RESP_CALL_PEEK, "WAIT 1 ATTR a 1",
          "there is no option 'WAIT': WEIR.PEEK [COST n] ATTR name value [name value ...]",
          "who looks does not wait" },
        { RESP_CALL_RESERVE, "EXPIRES 0 ATTR a 1", "EXPIRES '0': " EXPIRY, "it would be over" },
        { RESP_CALL_RESERVE, "EXPIRES 86400001 ATTR a 1", "EXPIRES '86400001': " EXPIRY, "longer than a day" },
        { RESP_CALL_SETTLE, "AQID", "the cost is missing: WEIR.SETTLE reservation cost",
          "a settlement has a cost" },
        { RESP_CALL_SETTLE, "AQID x", "COST 'x': " COSTS, "and that is a number" },
        { RESP_CALL_SETTLE, "AQID 1 2", "one word too many: '2': WEIR.SETTLE reservation cost", "and no more" },
        { RESP_CALL_CANCEL, "", "too few words: WEIR.CANCEL reservation", "of what?" },
        { RESP_CALL_CANCEL, "bogus", "reservation 'bogus': send the text that WEIR.RESERVE answered",
          "none of ours" },
        { RESP_CALL_RENEW, "AQIDBAU=", "permit 'AQIDBAU=': send the text that WEIR.ACQUIRE answered",
          "padding" },
        { RESP_CALL_RELEASE, "AQID LOST", "there is no outcome 'LOST': WEIR.RELEASE permit [OK|FAILED|DROPPED]",
          "" },
        { RESP_CALL_RESET, "t tenant acme",
          "there is no option 'tenant': WEIR.RESET limit [ATTR name value ...]", "ATTR comes first" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char why[RESP_WORDS_WHY_MAX] = "";
        struct call_body body;
        if (read_line(rows[i].call, rows[i].words, &body, why) || strcmp(why, rows[i].said) != 0)
            fail_msg("%s: '%s' gives '%s'", rows[i].why, rows[i].words, why);
    }
}

static void attributes_are_bounded(void **state)
{
    struct slice words[1 + 2 * (WEIR_ATTRIBUTES_MAX + 1)] = { SLICE("ATTR") };
    char names[WEIR_ATTRIBUTES_MAX + 1][8], why[RESP_WORDS_WHY_MAX];
    struct call_body body;
    (void)state;
    for (size_t i = 0; i <= WEIR_ATTRIBUTES_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "a%zu", i);
        words[1 + 2 * i] = slice_of(names[i]);
        words[2 + 2 * i] = SLICE("");
    }
    assert_true(resp_words_read(RESP_CALL_CHECK, words, 1 + 2 * WEIR_ATTRIBUTES_MAX, &storage, &body, why));
    assert_int_equal(body.ask.attribute_count, WEIR_ATTRIBUTES_MAX);
    assert_string_equal(body.ask.attributes[WEIR_ATTRIBUTES_MAX - 1].name, "a31");
    assert_false(resp_words_read(RESP_CALL_CHECK, words, COUNT_OF(words), &storage, &body, why));
    assert_string_equal(why, "there are more than 32 attributes: send those that limits read");
}

/* The longest words have room, and the longest reasons. */
static void the_longest_words(void **state)
{
    static char value[RESP_COMMAND_MAX];
    char why[RESP_WORDS_WHY_MAX];
    struct call_body body;
    const struct slice words[] = { SLICE("ATTR"), { value, sizeof value - 64 }, { value, 16 } };
    (void)state;
    memset(value, 'A', sizeof value);
    assert_true(resp_words_read(RESP_CALL_CHECK, words, 3, &storage, &body, why));
    assert_int_equal(strlen(body.ask.attributes[0].name),
                     sizeof value - 64); /* the contract says what is wrong */
    assert_false(resp_words_read(RESP_CALL_CHECK, words + 1, 1, &storage, &body, why));
    assert_true(strlen(why) < sizeof why);
    assert_false(resp_words_read(RESP_CALL_CANCEL, words + 1, 1, &storage, &body, why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_calls),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(attributes_are_bounded),
        cmocka_unit_test(the_longest_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
