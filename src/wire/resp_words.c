// SPDX-License-Identifier: Apache-2.0
/* resp_words.c - options by a table, then names and values; see resp_words.h. */
#include "wire/resp_words.h"

#include <stdio.h>

#include "wire/base64url.h"

static_assert(RESP_COMMAND_MAX <= CHECK_BODY_MAX, "whatever is copied of a command has room in the scratch");

enum { TAKES_COST = 1, TAKES_WAIT = 2, TAKES_PEEK = 4, TAKES_EXPIRES = 8, TAKES_BIND = 16 };

struct shape {
    const char *usage;
    unsigned takes;      /* options in front of ATTR */
    bool has_attributes; /* else it names something in its first word */
};

static const struct shape shapes[RESP_CALL_COUNT] = {
    [RESP_CALL_CHECK] = { "WEIR.CHECK [COST n] [WAIT ms] [PEEK] ATTR name value [name value ...]",
                          TAKES_COST | TAKES_WAIT | TAKES_PEEK, true },
    [RESP_CALL_PEEK] = { "WEIR.PEEK [COST n] ATTR name value [name value ...]", TAKES_COST, true },
    [RESP_CALL_RESERVE] = { "WEIR.RESERVE [COST n] [EXPIRES ms] ATTR name value [name value ...]",
                            TAKES_COST | TAKES_EXPIRES, true },
    [RESP_CALL_ACQUIRE] = { "WEIR.ACQUIRE [COST n] [WAIT ms] [BIND] ATTR name value [name value ...]",
                            TAKES_COST | TAKES_WAIT | TAKES_BIND, true },
    [RESP_CALL_REFUND] = { "WEIR.REFUND [COST n] ATTR name value [name value ...]", TAKES_COST, true },
    [RESP_CALL_SETTLE] = { "WEIR.SETTLE reservation cost", 0, false },
    [RESP_CALL_CANCEL] = { "WEIR.CANCEL reservation", 0, false },
    [RESP_CALL_RENEW] = { "WEIR.RENEW permit", 0, false },
    [RESP_CALL_RELEASE] = { "WEIR.RELEASE permit [OK|FAILED|DROPPED]", 0, false },
    [RESP_CALL_RESET] = { "WEIR.RESET limit [ATTR name value ...]", 0, false },
};

const char *resp_words_usage(enum resp_call call)
{
    return shapes[call].usage;
}

/* What is read, and how far. */
struct reading {
    const struct shape *shape;
    const struct slice *words;
    size_t count, at;
    const struct check_storage *storage;
    size_t scratch_len;
    struct call_body *out;
    unsigned given; /* options */
    char *why;
};

static const struct slice none;

/* WHAT 'WORD': CURE. */
static bool refuse(const struct reading *reading, const char *what, struct slice word, const char *cure)
{
    int len = word.len > 60 ? 60 : (int)word.len;
    const char *quote = word.at == NULL ? "" : "'";
    (void)snprintf(reading->why, RESP_WORDS_WHY_MAX, "%s%s%s%.*s%s: %s", what, word.at == NULL ? "" : " ",
                   quote, len, word.at == NULL ? "" : word.at, quote, cure);
    return false;
}

/* A word as a C string in the scratch; NULL: a zero byte ends it too soon. */
static const char *keep(struct reading *reading, struct slice word)
{
    char *to = reading->storage->scratch + reading->scratch_len;
    if (memchr(word.at, '\0', word.len) != NULL)
        return NULL;
    memcpy(to, word.at, word.len);
    to[word.len] = '\0';
    reading->scratch_len += word.len + 1; /* its framing in the command was longer */
    return to;
}

/* ---- Options --------------------------------------------------------------------------------------------- */

static bool read_cost(const struct reading *reading, struct slice word)
{
    return slice_to_u64(word, INT64_MAX, &reading->out->ask.cost)
           || refuse(reading, "COST", word, "write a whole number from 0 to 9223372036854775807, such as 1");
}

static bool read_wait(const struct reading *reading, struct slice word)
{
    uint64_t ms;
    if (!slice_to_u64(word, WEIR_WAIT_MAX / WEIR_MILLISECOND, &ms))
        return refuse(reading, "WAIT", word,
                      "write milliseconds as a whole number from 0 to 86400000, such as 500");
    reading->out->ask.wait = ms * WEIR_MILLISECOND;
    return true;
}

static bool read_expires(const struct reading *reading, struct slice word)
{
    uint64_t ms;
    if (!slice_to_u64(word, CALL_EXPIRES_AFTER_MAX / WEIR_MILLISECOND, &ms) || ms == 0)
        return refuse(reading, "EXPIRES", word,
                      "write milliseconds as a whole number from 1 to 86400000, such as 60000");
    reading->out->expires_after = ms * WEIR_MILLISECOND;
    return true;
}

static bool read_peek(const struct reading *reading, struct slice word)
{
    (void)word;
    return reading->out->ask.is_peek = true;
}

static bool read_bind(const struct reading *reading, struct slice word)
{
    (void)word;
    return reading->out->is_bound = true;
}

static const struct option {
    struct slice word;
    unsigned bit;
    bool has_value;
    bool (*read)(const struct reading *reading, struct slice word);
} options[] = {
    { { "COST", 4 }, TAKES_COST, true, read_cost },  { { "WAIT", 4 }, TAKES_WAIT, true, read_wait },
    { { "PEEK", 4 }, TAKES_PEEK, false, read_peek }, { { "EXPIRES", 7 }, TAKES_EXPIRES, true, read_expires },
    { { "BIND", 4 }, TAKES_BIND, false, read_bind },
};

/* NULL: the call has no such option. */
static const struct option *find_option(const struct reading *reading, struct slice word)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if ((reading->shape->takes & options[i].bit) != 0 && slice_equals_fold(word, options[i].word))
            return &options[i];
    return NULL;
}

static bool read_option(struct reading *reading)
{
    struct slice word = reading->words[reading->at];
    const struct option *option = find_option(reading, word);
    if (option == NULL)
        return refuse(reading, "there is no option", word, reading->shape->usage);
    if ((reading->given & option->bit) != 0)
        return refuse(reading, "an option stands twice:", word, "say it once");
    if (option->has_value && reading->at + 1 == reading->count)
        return refuse(reading, "there is nothing behind", word, reading->shape->usage);
    reading->given |= option->bit;
    reading->at += option->has_value ? 2 : 1;
    return option->read(reading, reading->words[reading->at - 1]);
}

/* ---- Attributes ------------------------------------------------------------------------------------------ */

static bool is_attr(const struct reading *reading)
{
    return reading->at < reading->count && slice_equals_fold(reading->words[reading->at], SLICE("ATTR"));
}

/* In capitals, as nobody names an attribute. */
static bool is_late_option(const struct reading *reading, struct slice word)
{
    return word.len > 0 && word.at[0] >= 'A' && word.at[0] <= 'Z' && find_option(reading, word) != NULL;
}

static bool refuse_late(const struct reading *reading, struct slice option)
{
    (void)snprintf(reading->why, RESP_WORDS_WHY_MAX, "%.*s stands behind ATTR: options come first: %s",
                   (int)option.len, option.at, reading->shape->usage);
    return false;
}

static bool read_attribute(struct reading *reading, struct slice name, struct slice value,
                           struct weir_attribute *out)
{
    if (is_late_option(reading, name))
        return refuse_late(reading, name);
    *out = (struct weir_attribute){ .name = keep(reading, name),
                                    .value = value.len == 0 ? "" : value.at,
                                    .len = value.len };
    if (out->name == NULL || !utf8_is_valid(name))
        return refuse(reading, "the name of an attribute is no text", none,
                      "write 1 to 32 of a-z, 0-9 and '-', a letter first");
    return utf8_is_valid(value)
           || refuse(reading, "no UTF-8 is the value of", name, "send text, or a hash of it");
}

/* Pairs up to the end. */
static bool read_attributes(struct reading *reading)
{
    struct weir_request *ask = &reading->out->ask;
    struct weir_attribute *attributes = reading->storage->attributes;
    size_t left = reading->count - reading->at;
    struct slice last = reading->words[reading->count - 1];
    if (left % 2 != 0 && is_late_option(reading, last))
        return refuse_late(reading, last);
    if (left % 2 != 0)
        return refuse(reading, "an attribute has no value:", last, reading->shape->usage);
    if (left / 2 > WEIR_ATTRIBUTES_MAX)
        return refuse(reading, "there are more than 32 attributes", none, "send those that limits read");
    for (; reading->at < reading->count; reading->at += 2)
        if (!read_attribute(reading, reading->words[reading->at], reading->words[reading->at + 1],
                            &attributes[ask->attribute_count++]))
            return false;
    ask->attributes = attributes;
    return true;
}

static bool read_request(struct reading *reading)
{
    const struct weir_request *ask = &reading->out->ask;
    while (reading->at < reading->count && !is_attr(reading))
        if (!read_option(reading))
            return false;
    if (reading->at == reading->count)
        return refuse(reading, "ATTR is missing", none, reading->shape->usage);
    if (++reading->at == reading->count)
        return refuse(reading, "there is nothing behind", SLICE("ATTR"), reading->shape->usage);
    if (ask->is_peek && ask->wait > 0)
        return refuse(reading, "WAIT stands beside PEEK", none,
                      "a look is answered at once; leave one of them out");
    return read_attributes(reading);
}

/* ---- What is named --------------------------------------------------------------------------------------- */

/* A text that an earlier call answered, decoded into the scratch. */
static bool read_handle(struct reading *reading, const char *what, size_t own_max, const char *cure)
{
    struct slice text = reading->words[reading->at++];
    char *at = reading->storage->scratch + reading->scratch_len;
    size_t len;
    if (text.len == 0 || !base64url_decode(text, (unsigned char *)at, TOKEN_MAX, &len)
        || !token_split((struct slice){ at, len }, own_max, &reading->out->token))
        return refuse(reading, what, text, cure);
    reading->out->handle = (struct slice){ at, len };
    reading->scratch_len += len;
    return true;
}

static bool read_outcome(struct reading *reading)
{
    struct slice word = reading->words[reading->at++];
    for (enum call_outcome i = 0; i < CALL_OUTCOME_COUNT; i++) {
        reading->out->outcome = i;
        if (slice_equals_fold(word, slice_of(call_outcome_name(i))))
            return true;
    }
    return refuse(reading, "there is no outcome", word, reading->shape->usage);
}

static bool read_limit(struct reading *reading)
{
    struct slice word = reading->words[reading->at++];
    reading->out->limit = word.len == 0 || word.len > WEIR_NAME_MAX ? NULL : keep(reading, word);
    if (reading->out->limit == NULL)
        return refuse(reading, "limit", word, "send the name of a limit");
    if (is_attr(reading)) {
        reading->at++;
        return read_attributes(reading);
    }
    return reading->at == reading->count
           || refuse(reading, "there is no option", reading->words[reading->at], reading->shape->usage);
}

static bool read_named(struct reading *reading, enum resp_call call)
{
    bool is_reservation = call == RESP_CALL_SETTLE || call == RESP_CALL_CANCEL;
    if (reading->count == 0)
        return refuse(reading, "too few words", none, reading->shape->usage);
    if (call == RESP_CALL_RESET)
        return read_limit(reading);
    if (is_reservation
            ? !read_handle(reading, "reservation", WEIR_RESERVATION_MAX,
                           "send the text that WEIR.RESERVE answered")
            : !read_handle(reading, "permit", WEIR_PERMIT_MAX, "send the text that WEIR.ACQUIRE answered"))
        return false;
    if (call == RESP_CALL_SETTLE && reading->at == reading->count)
        return refuse(reading, "the cost is missing", none, reading->shape->usage);
    if (call == RESP_CALL_SETTLE)
        return read_cost(reading, reading->words[reading->at++]);
    return call != RESP_CALL_RELEASE || reading->at == reading->count || read_outcome(reading);
}

bool resp_words_read(enum resp_call call, const struct slice *words, size_t count,
                     const struct check_storage *storage, struct call_body *out, char why[RESP_WORDS_WHY_MAX])
{
    struct reading reading = {
        .shape = &shapes[call], .words = words, .count = count, .storage = storage, .out = out, .why = why
    };
    call_body_init(out);
    out->ask.is_peek = call == RESP_CALL_PEEK;
    if (!(shapes[call].has_attributes ? read_request(&reading) : read_named(&reading, call)))
        return false;
    return reading.at == count || refuse(&reading, "one word too many:", words[reading.at], shapes[call].usage);
}
