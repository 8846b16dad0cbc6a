// SPDX-License-Identifier: Apache-2.0
/* request_copy.c - requests, their attributes, then the bytes of these, in one piece of memory; see request_copy.h. */
#include "net/request_copy.h"

#include <stdlib.h>
#include <string.h>

/* A length of 0 says that the value is a C string. */
static size_t value_len(const struct weir_attribute *attribute)
{
    return attribute->value == NULL ? 0 : attribute->len > 0 ? attribute->len : strlen(attribute->value);
}

static size_t text_len(const struct weir_request *request)
{
    size_t len = request->own == NULL ? 0 : request->own->key_len + 1;
    for (size_t i = 0; i < request->attribute_count; i++)
        len += strlen(request->attributes[i].name) + 1 + value_len(&request->attributes[i]) + 1;
    return len;
}

/* What is left of the room: structs are cut from its front, in which all are aligned alike, and bytes stand behind them. */
struct room {
    char *structs, *bytes;
};

static void *take(struct room *room, size_t size)
{
    void *at = room->structs;
    room->structs += size;
    return at;
}

static char *copy(struct room *room, const void *from, size_t len)
{
    char *to = room->bytes;
    if (len > 0)
        memcpy(to, from, len);
    to[len] = '\0';
    room->bytes += len + 1;
    return to;
}

/* Its attributes and its limit; `also` is the caller's. */
static void copy_contents(struct room *room, const struct weir_request *from, struct weir_request *to)
{
    struct weir_attribute *attributes = take(room, from->attribute_count * sizeof *attributes);
    *to = *from;
    to->attributes = attributes;
    for (size_t i = 0; i < from->attribute_count; i++) {
        const struct weir_attribute *attribute = &from->attributes[i];
        attributes[i].name = copy(room, attribute->name, strlen(attribute->name));
        attributes[i].len = value_len(attribute);
        attributes[i].value = copy(room, attribute->value, attributes[i].len);
    }
    if (from->own == NULL)
        return;
    struct weir_own_limit *own = take(room, sizeof *own);
    *own = *from->own;
    own->key = copy(room, from->own->key, from->own->key_len);
    to->own = own;
}

_Static_assert(_Alignof(struct weir_request) == _Alignof(struct weir_attribute)
                   && _Alignof(struct weir_request) == _Alignof(struct weir_own_limit)
                   && sizeof(struct request_copy) % _Alignof(struct weir_request) == 0,
               "they stand behind each other");

/* What a request has beside its text. */
static size_t structs_len(const struct weir_request *request)
{
    return request->attribute_count * sizeof *request->attributes
           + (request->own == NULL ? 0 : sizeof *request->own);
}

struct request_copy *request_copy_new(const struct weir_request *request)
{
    size_t structs = structs_len(request), bytes = text_len(request);
    for (const struct weir_request *one = request->also; one != NULL; one = one->also) {
        structs += sizeof *one + structs_len(one);
        bytes += text_len(one);
    }
    struct request_copy *made = malloc(sizeof *made + structs + bytes);
    if (made == NULL)
        return NULL;
    made->size = sizeof *made + structs + bytes;
    struct room room = { made->bytes, made->bytes + structs };
    struct weir_request *to = &made->request;
    copy_contents(&room, request, to);
    for (const struct weir_request *one = request->also; one != NULL; one = one->also) {
        struct weir_request *next = take(&room, sizeof *next);
        copy_contents(&room, one, next);
        to->also = next;
        to = next;
    }
    return made;
}
