// SPDX-License-Identifier: Apache-2.0
/* schema_policy.c - fields of a limit that may be a word or a map: cost, retries, wait, enforce and reply. */
#include <stdio.h>

#include "rule/contract.h"

/* "limit 'a'" becomes "the cost of limit 'a'" while its map is read. */
static struct owner enter(struct load *load, const char *what)
{
    struct owner owner = load->owner;
    load->owner.what = what;
    return owner;
}

/* ---- cost ------------------------------------------------------------------------------------------------------ */

#define COST_MAX ((uint64_t)INT64_MAX)

struct cost_reading {
    uint64_t fallback, max;
    uint16_t from;
};

#define COST(member) offsetof(struct cost_reading, member)

/* A default of 0 would let a request through uncounted that leaves the attribute out. */
static const struct field cost_fields[] = {
    { "from", parse_attribute, "attribute", COST(from), .is_required = true,
      .sentence = "name the attribute that says what a request costs: `from: tokens`" },
    { "default", parse_integer, "integer", COST(fallback), .min = 1, .max = COST_MAX, .fallback = "1",
      .sentence = "what a request without the attribute costs" },
    { "max", parse_integer, "integer", COST(max), .min = 1, .max = COST_MAX, .fallback = "what fits the limit",
      .sentence = "a cost above it is refused for good" },
};
#define COST_FIELDS (sizeof cost_fields / sizeof *cost_fields)

void parse_cost(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rule *rule = into;
    const struct node *given[COST_FIELDS];
    struct cost_reading reading = { .fallback = 1, .max = COST_MAX, .from = ATTRIBUTE_NONE };
    if (value->kind != NODE_MAP) {
        parse_integer(load, field, value, into);
        return;
    }
    struct owner owner = enter(load, "the cost of limit");
    (void)schema_read(load, value, field->name, cost_fields, COST_FIELDS, &reading, given);
    if (reading.fallback > reading.max)
        schema_error(load, "default", given[1] != NULL ? given[1] : value, "raise max, or lower the default",
                     "is above max: a request without the attribute could never pass");
    load->owner = owner;
    if (reading.from == ATTRIBUTE_NONE)
        return;
    rule->has_cost_from = true;
    rule->cost_from = reading.from;
    rule->cost_default = reading.fallback;
    rule->cost_max = reading.max;
    load->rules->attributes.slots[reading.from].is_cost = true;
}

/* ---- retries --------------------------------------------------------------------------------------------------- */

/* Long enough for any client's retries, short enough that a remembered request does not fill the table for months. */
#define FREE_WITHIN_MAX (7 * WEIR_DAY)

struct retries_reading {
    weir_ns free_within;
    uint16_t by;
};

static const struct field retries_fields[] = {
    { "free-within", parse_duration, "duration", offsetof(struct retries_reading, free_within),
      .min = WEIR_MILLISECOND, .max = FREE_WITHIN_MAX, .is_required = true,
      .sentence = "say how long a retry is not charged again: `free-within: 60s`" },
    { "by", parse_attribute, "attribute", offsetof(struct retries_reading, by), .fallback = "request-id",
      .sentence = "which attribute makes a retry the same request" },
};
#define RETRIES_FIELDS (sizeof retries_fields / sizeof *retries_fields)

void parse_retries(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rule *rule = into;
    const struct node *given[RETRIES_FIELDS];
    struct retries_reading reading = { .by = ATTRIBUTE_NONE };
    if (value->kind != NODE_MAP) {
        int ignored = 0;
        struct field word = *field;
        word.offset = 0;
        parse_word(load, &word, value, &ignored);
        return;
    }
    struct owner owner = enter(load, "the retries of limit");
    (void)schema_read(load, value, field->name, retries_fields, RETRIES_FIELDS, &reading, given);
    load->owner = owner;
    if (given[1] == NULL)
        reading.by = (uint16_t)attribute_claim(&load->rules->attributes, SLICE("request-id"));
    rule->limit.retries_free_within = reading.by == ATTRIBUTE_NONE ? 0 : reading.free_within;
    rule->retry_by = reading.by;
}

/* ---- wait ------------------------------------------------------------------------------------------------------ */

struct wait_reading {
    weir_ns up_to;
    uint64_t queue;
};

/* Both: a time alone lets the queue grow, a queue alone lets callers grow old in it. */
static const struct field wait_fields[] = {
    { "up-to", parse_duration, "duration", offsetof(struct wait_reading, up_to), .min = 1, .max = WEIR_WAIT_MAX,
      .is_required = true, .sentence = "say how long a caller may wait at most: `up-to: 2s`" },
    { "queue", parse_integer, "integer", offsetof(struct wait_reading, queue), .min = 1, .max = WEIR_QUEUE_MAX,
      .is_required = true, .sentence = "say how many callers of one key may wait: `queue: 100`" },
};
#define WAIT_FIELDS (sizeof wait_fields / sizeof *wait_fields)

/* What most people write first: a time, or yes. It lacks the other bound. */
static void report_wait(struct load *load, const struct field *field, const struct node *value)
{
    weir_ns up_to;
    char cure[160];
    bool is_time =
        value->kind == NODE_SCALAR && rate_parse_duration(value->text, &up_to) == NULL && value->text.len < 40;
    (void)snprintf(cure, sizeof cure, "write `wait: { up-to: %.*s, queue: 100 }`, or `wait: never`",
                   is_time ? (int)value->text.len : 2, is_time ? value->text.at : "2s");
    if (is_time)
        schema_error(load, field->name, value, cure, "does not say how many may wait");
    else if (node_scalar_problem(value) != NULL && value->kind == NODE_SCALAR)
        schema_error(load, field->name, value, cure, "is empty");
    else if (value->kind != NODE_BAD)
        schema_error(load, field->name, value, cure, "is neither `never` nor a map of up-to and queue");
}

void parse_wait(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rule *rule = into;
    const struct node *given[WAIT_FIELDS];
    struct wait_reading reading = { 0 };
    if (value->kind != NODE_MAP) {
        if (value->kind != NODE_SCALAR || !slice_equals(value->text, SLICE("never")))
            report_wait(load, field, value);
        return;
    }
    struct owner owner = enter(load, "the wait of limit");
    (void)schema_read(load, value, field->name, wait_fields, WAIT_FIELDS, &reading, given);
    load->owner = owner;
    if (reading.up_to > 0 && reading.queue > 0)
        rule->limit.wait = (struct weir_wait){ reading.up_to, (uint32_t)reading.queue };
}

/* ---- enforce --------------------------------------------------------------------------------------------------- */

void parse_enforce(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rule *rule = into;
    bool is_share =
        value->kind == NODE_SCALAR && value->text.len > 1 && value->text.at[value->text.len - 1] == '%';
    uint64_t percent;
    if (!is_share) {
        parse_word(load, field, value, into);
    } else if (slice_to_u64((struct slice){ value->text.at, value->text.len - 1 }, 100, &percent)) {
        rule->enforce = WEIR_ENFORCE_SHARE;
        rule->enforce_percent = (unsigned)percent;
    } else {
        schema_error(load, field->name, value, "write a whole number from 0% to 100%, such as 10%",
                     "is not a share of the keys");
    }
}

/* ---- reply ----------------------------------------------------------------------------------------------------- */

#define TITLE_MAX 200
#define DETAIL_MAX 1000

struct reply_reading {
    uint64_t status;
    const char *title, *detail;
};

static const struct field reply_fields[] = {
    { "status", parse_integer, "integer", offsetof(struct reply_reading, status), .min = 400, .max = 599,
      .fallback = "429", .sentence = "the status of a refusal by this limit" },
    { "title", parse_text, "text", offsetof(struct reply_reading, title), .fallback = "that of the decision",
      .sentence = "write what the problem is, in a few words" },
    { "detail", parse_text, "text", offsetof(struct reply_reading, detail),
      .sentence = "write what the caller can do about it" },
};
#define REPLY_FIELDS (sizeof reply_fields / sizeof *reply_fields)

/* A status that would break HTTP without a field that nobody could fill in here; NULL: it is fine. */
static const char *status_problem(uint64_t status)
{
    static const struct {
        uint64_t status;
        const char *problem;
    } rows[] = {
        { 401, "needs a WWW-Authenticate field, which a limit has none for" },
        { 405, "needs an Allow field, which a limit has none for" },
        { 407, "needs a Proxy-Authenticate field, which a limit has none for" },
        { 426, "needs an Upgrade field, which a limit has none for" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].status == status)
            return rows[i].problem;
    return NULL;
}

static const char *text_problem(const char *text, size_t longest)
{
    size_t len = text == NULL ? 0 : strlen(text);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return "has a control byte";
    return len > longest ? "is too long" : NULL;
}

void parse_reply(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rule *rule = into;
    const struct node *given[REPLY_FIELDS];
    struct reply_reading reading = { 0 };
    struct owner owner = load->owner;
    if (value->kind == NODE_MAP)
        (void)enter(load, "the reply of limit");
    if (schema_read(load, value, field->name, reply_fields, REPLY_FIELDS, &reading, given)) {
        const char *problem = status_problem(reading.status);
        if (problem != NULL)
            schema_error(load, "status", given[0], "write another, such as 429, 403 or 503", "%s", problem);
        problem = text_problem(reading.title, TITLE_MAX);
        if (problem != NULL)
            schema_error(load, "title", given[1], "write one line of at most 200 bytes", "%s", problem);
        problem = text_problem(reading.detail, DETAIL_MAX);
        if (problem != NULL)
            schema_error(load, "detail", given[2], "write one line of at most 1000 bytes", "%s", problem);
    }
    load->owner = owner;
    rule->reply_status = (unsigned)reading.status;
    rule->reply_title = reading.title;
    rule->reply_detail = reading.detail;
}
