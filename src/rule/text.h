// SPDX-License-Identifier: Apache-2.0
/*
 * text.h - text that grows in a region: what explain prints, what JSON is made of.
 *
 * Out of memory shows in region.has_failed, once, at the end.
 */
#ifndef WEIR_RULE_TEXT_H
#define WEIR_RULE_TEXT_H

#include "rule/region.h"

struct text {
    struct region *region;
    char *at; /* zero-terminated once something was added */
    size_t len, capacity;
};

/* Forget what it says, keep its room. */
void text_clear(struct text *text);

void text_add(struct text *text, struct slice more);
void text_put(struct text *text, const char *more);
__attribute__((format(printf, 2, 3))) void text_format(struct text *text, const char *format, ...);
void text_number(struct text *text, uint64_t number);

/* A JSON string, or null for NULL; bytes that are no UTF-8 become U+FFFD. */
void text_add_json(struct text *text, struct slice string);
void text_json_or_null(struct text *text, const char *string);

/* ns as seconds with up to nine decimals, exactly: "0.2"; WEIR_NO_TIME is null. */
void text_add_seconds(struct text *text, weir_ns length);

#endif
