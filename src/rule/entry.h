// SPDX-License-Identifier: Apache-2.0
/*
 * entry.h - what the entries of a descriptor are called as attributes: one rule, for contracts that are imported and for calls
 * that are described, so that what was imported is met by what is asked.
 */
#ifndef WEIR_RULE_ENTRY_H
#define WEIR_RULE_ENTRY_H

#include "base/bytes.h"
#include "weir_contract.h"

/* A name of an attribute made of `wanted`: lower case, '-' for what a name cannot have, at most `max` bytes. Returns its length. */
size_t entry_spell(struct slice wanted, size_t max, char out[WEIR_ATTRIBUTE_NAME_MAX]);

/* Whether weir has an attribute of its own by this name, or gives it a meaning: ip, method, host, path, query, ... */
bool entry_is_builtin(struct slice name);

/*
 * The name of an entry with this key, as the `number`th (from 1) that would be called so: "generic-key", "generic-key-2",
 * "entry-path". Whoever names the entries of a descriptor takes for each, in order, the first number whose name no earlier one
 * has. Returns its length.
 */
size_t entry_name(struct slice key, unsigned number, char out[WEIR_ATTRIBUTE_NAME_MAX]);

/* What the entry is to weir as well, or NULL: "path", "ip" of remote_address. A literal. */
const char *entry_meaning(struct slice key);

#endif
