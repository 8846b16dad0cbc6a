// SPDX-License-Identifier: Apache-2.0
/*
 * body.h - what the JSON bodies of all calls have in common: members by name, each once, and faults that name
 * them.
 *
 * Idea: a body is a table of members, each with the function that reads its value; what is in no table is
 * refused by name. A call is at most three levels deep (batch, request, attributes), so each level has its
 * function and nothing recurses. Faults are rare, so their words are made with the text writer, not cheaply.
 *
 * Elsewhere: which members a call has (check.c, call.c).
 */
#ifndef WEIR_WIRE_BODY_H
#define WEIR_WIRE_BODY_H

#include "wire/check.h"
#include "wire/json.h"
#include "wire/text.h"

#define BODY_COST_MAX ((uint64_t)INT64_MAX)
#define BODY_NO_INDEX SIZE_MAX

/* One body while it is read. */
struct body {
    struct json json;
    const struct check_storage *storage;
    struct check_fault *fault;
    size_t index;           /* of the request in its batch; BODY_NO_INDEX: it stands alone */
    size_t request_count;   /* filled so far */
    size_t attribute_count; /* of all requests so far */
};

/* A member of an object; `into` is what the caller of body_members() gave. */
struct body_member {
    struct slice name;
    bool (*read)(struct body *body, void *into);
    bool is_alone; /* no other may stand beside it */
};

/* The words for an object's faults. */
struct body_object {
    const struct body_member *members;
    size_t count;       /* at most 32 */
    const char *noun;   /* "a check": what an unknown field is no field of */
    const char *fields; /* "the fields are attributes, cost, mode and wait" */
};

/* Everything here that returns false has written body->fault. */

/* The members of an object whose `{` is read; *seen has a bit for each that was there. */
bool body_members(struct body *body, const struct body_object *object, void *into, unsigned *seen);

/* Begin a body that must be an object, and read up to its `{`; `example` shows one. */
bool body_begin(struct body *body, const char *at, size_t len, const char *example);

/* Nothing but blanks may follow. */
bool body_end(struct body *body);

/* Values. `member` is what a fault calls the field. */
bool body_cost(struct body *body, uint64_t *out);
bool body_seconds(struct body *body, const char *member, weir_ns least, weir_ns most, const char *cure,
                  weir_ns *out);
bool body_wait(struct body *body, weir_ns *out);
bool body_attributes(struct body *body, const char *member, struct weir_request *request);

/* A text that has no control characters and at most `max` bytes, as a C string in scratch. */
bool body_string(struct body *body, const char *member, size_t max, const char *cure, const char **out);

/* ---- Faults ---------------------------------------------------------------------------------------------- */

extern const struct slice body_none;

/* "requests[3].cost", "cost", "requests[3].attributes.tenant", "requests[3]". */
void body_set_field(struct check_fault *fault, size_t index, const char *member, struct slice name);
void body_set_message(struct check_fault *fault, const char *message);

/* FIELD WHAT VALUE: CURE. */
bool body_refuse(struct body *body, const char *member, struct slice name, const char *what, struct slice value,
                 const char *cure);

/* FIELD is "VALUE": CURE, of the string that was just read. */
bool body_refuse_string(struct body *body, const char *member, struct slice name, const char *cure);

/* The text as a whole is no JSON. */
bool body_refuse_syntax(struct body *body);

/* A token of the wrong type; an error of the reader goes first. */
bool body_refuse_type(struct body *body, enum json_token token, const char *member, struct slice name,
                      const char *cure);

#endif
