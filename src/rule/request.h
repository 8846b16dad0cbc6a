// SPDX-License-Identifier: Apache-2.0
/*
 * request.h - a request as the matcher and the keys want it: values by attribute number, in their one spelling.
 */
#ifndef WEIR_RULE_REQUEST_H
#define WEIR_RULE_REQUEST_H

#include "rule/contract.h"
#include "rule/key.h"

/* Some 20 KB; lives on the stack of a decision. Slices point into the request or into the texts below. */
struct request_values {
    struct slice values[MATCH_ATTRIBUTES_MAX]; /* the first rules->attributes.count; len 0: absent */
    struct slice ip_group;                     /* what stands for `ip` in a key */
    struct address ip;
    bool has_ip;
    char path[WEIR_ATTRIBUTE_MAX], host[WEIR_ATTRIBUTE_MAX], group[ADDRESS_TEXT_MAX];
};

/*
 * Read and check a request. Attributes that no limit reads are checked for form alone.
 * Returns 0, WEIR_ERR_ATTRIBUTE or WEIR_ERR_COST; `fault` may be NULL, else it is told why.
 */
int request_read(const struct rules *rules, const struct weir_request *request, struct request_values *out,
                 struct weir_fault *fault);

/* Whether the value (not empty) is one that request_read() takes. */
bool request_value_fits(const struct rules *rules, unsigned number, struct slice value);

/* The bytes under which a limit counts the request; *is_whole: no key attribute is missing. Returns their length. */
size_t request_key(const struct rules *rules, const struct rule *rule, const struct request_values *values,
                   unsigned char out[KEY_PLAIN_MAX], bool *is_whole);

/* The limits it meets, ascending; more than WEIR_ASKS_MAX: WEIR_ASKS_MAX + 1. */
size_t request_match(const struct rules *rules, const struct request_values *values,
                     uint32_t met[WEIR_ASKS_MAX]);

#endif
