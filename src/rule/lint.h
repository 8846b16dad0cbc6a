// SPDX-License-Identifier: Apache-2.0
/*
 * lint.h - what a review of a contract passes around.
 *
 * A finding is something legal that its author probably did not mean: it says why, and what to write instead. Nothing is
 * guessed that cannot be shown from the contract alone.
 */
#ifndef WEIR_RULE_LINT_H
#define WEIR_RULE_LINT_H

#include "rule/bound.h"

struct lint {
    struct load *load; /* the contract's text, read again: places, and the loader's own warnings */
    const struct rules *rules;
    const struct node **limits; /* by index of a rule */
    struct weir_diagnostics *diagnostics;
    uint64_t replicas;
    uint64_t permits; /* free in the pool: each size of a limit that overflows keeps its own back */
    unsigned replica_warnings, slot_notes; /* so far */
};

/* Warn about a field of a limit, or about the limit where it does not state the field. */
__attribute__((format(printf, 5, 6))) void lint_warn(struct lint *lint, size_t index, const char *field,
                                                     const char *cure, const char *format, ...);

/* The same for what is right as it is, and worth knowing. */
__attribute__((format(printf, 5, 6))) void lint_note(struct lint *lint, size_t index, const char *field,
                                                     const char *cure, const char *format, ...);

struct binds;

/* lint_limit.c: findings in one limit. */
void lint_limit(struct lint *lint, const struct binds *binds, size_t index);

/* lint_when.c: conditions that nothing meets. */
void lint_when(struct lint *lint, size_t index);

/* lint_wait.c: turns and permits; and at which doors there are none. The auth doors are in use where the contract says whom
   they believe. */
void lint_wait(struct lint *lint, size_t index);
void lint_doors(struct lint *lint, const struct node *root);

/* lint_fleet.c: budgets that a fleet shares; and a store that nobody counts in. */
void lint_fleet(struct lint *lint, const struct binds *binds, size_t index);
void lint_store(struct lint *lint);

/* lint_lease.c: portions that do not do what they are for. */
void lint_lease(struct lint *lint, size_t index);

/* lint_bind.c: findings that need two limits. `binds` is made once for a contract. */
struct binds *binds_new(struct lint *lint);
void lint_bind(struct lint *lint, const struct binds *binds, size_t index);

/* Whether every condition of `other` is one of `rule`: who meets `rule` meets `other`, if it has the key. */
bool bind_asks_no_more(const struct rule *other, const struct rule *rule);

/* A limit that counts whatever `index` counts, under the same key or a coarser one, and that `fits`; or NULL. */
typedef bool bind_fits(const struct rule *other, const struct rule *rule);
const struct rule *binds_find(const struct lint *lint, const struct binds *binds, size_t index,
                              bind_fits *fits);

#endif
