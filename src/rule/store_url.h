// SPDX-License-Identifier: Apache-2.0
/* store_url.h - what is wrong with the address of a store, before anybody dials it. */
#ifndef WEIR_RULE_STORE_URL_H
#define WEIR_RULE_STORE_URL_H

#include "base/bytes.h"

/* Static texts: "url of store " goes before `what`. NULL: nothing is wrong. */
struct store_url_problem {
    const char *what, *cure;
};
struct store_url_problem store_url_judge(const char *url);

#endif
