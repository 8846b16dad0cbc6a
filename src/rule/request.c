// SPDX-License-Identifier: Apache-2.0
/*
 * request.c - check what a caller sent, and bring path, host and ip into their one spelling.
 *
 * The work is proportional to the request: names are looked up, never searched for. Only clearing the values that the
 * request lacks takes a write per attribute that the contract reads (at most 1024, nearly always a dozen).
 */
#include "rule/request.h"

#include <stdarg.h>
#include <stdio.h>

#include "rule/host.h"
#include "rule/path.h"

/* What is wrong, for a caller who wants to know. */
__attribute__((format(printf, 3, 4))) static int refuse(struct weir_fault *fault, size_t attribute,
                                                        const char *format, ...)
{
    if (fault != NULL) {
        va_list arguments;
        va_start(arguments, format);
        fault->attribute = attribute;
        fault->request = 0;
        (void)vsnprintf(fault->message, sizeof fault->message, format, arguments); /* names are cut before */
        va_end(arguments);
    }
    return WEIR_ERR_ATTRIBUTE;
}

static struct slice value_of(const struct weir_attribute *attribute)
{
    if (attribute->value == NULL)
        return (struct slice){ NULL, 0 };
    return attribute->len > 0 ? (struct slice){ attribute->value, attribute->len } : slice_of(attribute->value);
}

/* names[index] is the one that is looked at; those before it were. */
static int check_form(const struct slice *names, size_t index, bool is_known, struct slice value,
                      struct weir_fault *fault)
{
    struct shown name_shown;
    struct slice name = names[index];
    if (!is_known && !attribute_name_is_valid(name))
        return refuse(fault, index,
                      "attribute name '%s' is not 1 to 32 of a-z, 0-9 and '-', beginning with a letter",
                      shown(name, &name_shown));
    for (size_t i = 0; i < index; i++)
        if (slice_equals(name, names[i]))
            return refuse(fault, index, "attribute '%s' is given twice", name.at);
    if (value.len > WEIR_ATTRIBUTE_MAX)
        return refuse(fault, index, "the value of '%s' has %zu bytes: at most %d are allowed", name.at,
                      value.len, WEIR_ATTRIBUTE_MAX);
    size_t control = slice_find_control(value);
    if (control < value.len)
        return refuse(fault, index, "the value of '%s' has a control byte (0x%02x) at index %zu", name.at,
                      (unsigned char)value.at[control], control);
    return 0;
}

/* Bring a value into its one spelling and store it under its number. */
static inline __attribute__((always_inline)) int spell(const struct rules *rules, unsigned number, size_t index,
                                                       struct slice value, struct request_values *out,
                                                       struct weir_fault *fault)
{
    struct shown value_shown;
    enum path_error error;
    switch (rules->attributes.slots[number].spelling) {
    case SPELLING_PATH:
        error = path_normalise(value, out->path, &out->values[number]);
        return error == PATH_OK ? 0 : refuse(fault, index, "the path %s", path_error_text(error));
    case SPELLING_HOST:
        if (host_normalise(value, out->host, &out->values[number]))
            return 0;
        return refuse(fault, index, "the host '%s' is not one host name", shown(value, &value_shown));
    case SPELLING_IP:
        if (!address_parse(value, &out->ip))
            return refuse(fault, index, "the ip '%s' is not an address", shown(value, &value_shown));
        out->has_ip = true;
        out->ip_group.at = out->group;
        out->ip_group.len = address_format_group(&out->ip, rules->grouping, out->group);
        break;
    case SPELLING_RAW:
        break;
    }
    out->values[number] = value;
    return 0;
}

/* A limit charges this value. */
static int check_cost(size_t index, struct slice name, struct slice value, struct weir_fault *fault)
{
    uint64_t cost;
    struct shown value_shown;
    if (slice_to_u64(value, INT64_MAX, &cost))
        return 0;
    (void)refuse(fault, index, "the cost in '%s', '%s', is not an integer from 0 to 2^63 - 1", name.at,
                 shown(value, &value_shown));
    return WEIR_ERR_COST;
}

int request_read(const struct rules *rules, const struct weir_request *request, struct request_values *out,
                 struct weir_fault *fault)
{
    if (request->attribute_count > WEIR_ATTRIBUTES_MAX)
        return refuse(fault, request->attribute_count, "the request has %zu attributes: at most %d are allowed",
                      request->attribute_count, WEIR_ATTRIBUTES_MAX);
    memset(out->values, 0, rules->attributes.count * sizeof *out->values);
    out->has_ip = false;
    out->ip_group = (struct slice){ NULL, 0 };
    struct slice names[WEIR_ATTRIBUTES_MAX];
    for (size_t i = 0; i < request->attribute_count; i++) {
        struct slice name = names[i] = slice_of(request->attributes[i].name);
        struct slice value = value_of(&request->attributes[i]);
        unsigned number = attribute_find(&rules->attributes, name);
        int error = check_form(names, i, number != ATTRIBUTE_NONE, value, fault);
        if (error != 0)
            return error;
        if (number == ATTRIBUTE_NONE || value.len == 0)
            continue;
        error = spell(rules, number, i, value, out, fault);
        if (error == 0 && rules->attributes.slots[number].is_cost)
            error = check_cost(i, name, value, fault);
        if (error != 0)
            return error;
    }
    if (request->cost > INT64_MAX) {
        (void)refuse(fault, request->attribute_count, "the cost %llu is above 2^63 - 1",
                     (unsigned long long)request->cost);
        return WEIR_ERR_COST;
    }
    return 0;
}

bool request_value_fits(const struct rules *rules, unsigned number, struct slice value)
{
    struct request_values unused;
    const struct attribute_slot *slot = &rules->attributes.slots[number];
    return value.len <= WEIR_ATTRIBUTE_MAX && slice_find_control(value) == value.len
           && spell(rules, number, 0, value, &unused, NULL) == 0
           && (!slot->is_cost || check_cost(0, slot->name, value, NULL) == 0);
}

size_t request_key(const struct rules *rules, const struct rule *rule, const struct request_values *values,
                   unsigned char out[KEY_PLAIN_MAX], bool *is_whole)
{
    struct slice parts[WEIR_ATTRIBUTES_MAX];
    *is_whole = true;
    for (size_t i = 0; i < rule->key_count; i++) {
        bool is_ip = rules->attributes.slots[rule->key[i]].spelling == SPELLING_IP;
        parts[i] = is_ip ? values->ip_group : values->values[rule->key[i]];
        *is_whole = *is_whole && parts[i].len > 0;
    }
    return key_encode(parts, rule->key_count, out);
}

size_t request_match(const struct rules *rules, const struct request_values *values,
                     uint32_t met[WEIR_ASKS_MAX])
{
    return matcher_find(rules->matcher, values->values, values->has_ip ? &values->ip : NULL, met,
                        WEIR_ASKS_MAX);
}
