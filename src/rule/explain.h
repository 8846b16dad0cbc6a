// SPDX-License-Identifier: Apache-2.0
/* explain.h - the pieces of explain: prose for people, one object for programs. */
#ifndef WEIR_RULE_EXPLAIN_H
#define WEIR_RULE_EXPLAIN_H

#include "rule/ask.h"
#include "rule/bound.h"
#include "rule/request.h"
#include "rule/text.h"

/* What is explained; everything borrowed. */
struct explanation {
    const struct rules *rules;
    const struct memory_config *memory; /* what was reserved: a reload does not read it again */
    uint64_t replicas;
    bool is_replicas_default;
    const struct weir_contract_server *server;
    const struct weir_contract_store *store;
    struct weir_stats stats;
    uint64_t share_bytes;                 /* of the limiter of shares; 0: no limit has one */
    const struct request_values *request; /* NULL: none was asked about */
};

/* explain_text.c */
void explain_text(struct text *text, const struct explanation *explanation);

/* " (default)" where a field's answer is one. */
const char *explain_mark(const struct rule *rule, enum limit_field field);

/* 432020 as "432,020". */
void explain_grouped(struct text *text, uint64_t number);

/* ---- explain_wait.c: turns and permits --------------------------------------------------------------------------- */

/* Of one permit, and of the record of its key, if it is that key's only one: 32 in the pool of each. */
#define EXPLAIN_PERMIT_BYTES 64

/* The middle of the paragraph of a leaky queue and of a concurrency limit. */
void explain_pace(struct text *text, const struct rule *rule);
void explain_permits(struct text *text, const struct rule *rule);

/* The rows about permits: who gets one, when it returns, and what it does not promise. */
void explain_returned(struct text *text, const struct rule *rule);
void explain_permits_lost(struct text *text, const struct rule *rule);

/* The rows about waiting, of any limit. */
void explain_waiting(struct text *text, const struct rule *rule);

/* At which doors callers may wait and get permits, where some limit has either. */
void explain_doors(struct text *text, const struct explanation *explanation);

/* ---- explain_fleet.c: budgets that a fleet shares -------------------------------------------------------------------- */

/* The rows of a shared limit about its store, and the part of the contract about it. */
void explain_shared(struct text *text, const struct explanation *explanation, const struct rule *rule);
void explain_store(struct text *text, const struct explanation *explanation);

/* What a server needs beside what the limiters reserve. */
void explain_store_memory(struct text *text, const struct explanation *explanation);

/* The URL in two parts, between which user and password stood. */
void explain_store_url(const char *url, struct slice parts[2]);

/* The most that so many replicas let one key through in a time without the store, by `local`; and the most that a failover can
   bring back of what was charged in a second. */
uint64_t explain_share_in(const struct rule *rule, weir_ns length, uint64_t replicas);
uint64_t explain_failover_adds(const struct rule *rule);

/* ---- explain_lease.c: budgets that are handed out in portions ----------------------------------------------------------- */

/* The rows of a leased limit behind those of a shared one; and what other rows of it say besides: while the store is away
   (before what its policy says), when its state is lost with `empty`, at a reload. */
void explain_leased(struct text *text, const struct explanation *explanation, const struct rule *rule);
void explain_leased_away(struct text *text, const struct rule *rule);
void explain_leased_lost(struct text *text, const struct rule *rule);
void explain_leased_reload(struct text *text, const struct rule *rule);

/* ",\"leased\":" and an object, or null. */
void explain_leased_json(struct text *text, const struct explanation *explanation, const struct rule *rule);

/* What a store's clock adds that steps forward, and what a store costs that comes back empty (`empty`). Of one key. */
uint64_t explain_step_adds(const struct rule *rule, weir_ns step);
uint64_t explain_step_back_adds(const struct rule *rule);
uint64_t explain_rollback_adds(const struct rule *rule, weir_ns lost);
uint64_t explain_lost_costs(const struct rule *rule);

/* From a store that comes back empty until a key is whole, with `empty`. Of any limit but concurrency. */
weir_ns explain_whole(const struct rule *rule);

/* Between a portion's end at its replica and at the store, at least: a request may wait for the store so long with a part of it. */
weir_ns explain_slack(const struct rule *rule);

/* How long a portion goes unreported at most. */
weir_ns explain_refresh(const struct rule *rule);

/* explain_json.c */
void explain_json(struct text *text, const struct explanation *explanation);

/* Whether a field's answer is a default. */
static inline bool is_default(const struct rule *rule, enum limit_field field)
{
    return (rule->given & (UINT32_C(1) << field)) == 0;
}

/* ---- explain_why.c: one limit and one request ------------------------------------------------------------------- */

enum why { WHY_MEETS, WHY_CONDITION, WHY_MISSING_KEY, WHY_OFF };

struct reason {
    enum why why;
    size_t condition;   /* WHY_CONDITION: its index */
    unsigned attribute; /* which attribute decided; of WHY_MISSING_KEY, the missing one */
    bool lacks_key;     /* meets, though a key attribute is missing: `attribute` */
};
struct reason explain_why(const struct rule *rule, const struct request_values *values);

/* What a limit that was met does where it does not enforce for every key; nothing where it does. */
void explain_enforcement(struct text *text, const struct rules *rules, const struct rule *rule,
                         const struct request_values *values);

/* Which condition the request fails, or under which key it is counted, in plain words. */
void explain_reason(struct text *text, const struct rules *rules, const struct rule *rule,
                    const struct request_values *values, const struct reason *reason);

/* "tenant is absent", "path matches ...". */
void condition_words(struct text *text, const struct rules *rules, const struct condition *condition);

/* Names of the fields that a proxy in `identity.proxies` must overwrite or delete, each passed to `add`. */
void explain_proxy_fields(const struct rules *rules,
                          void (*add)(void *context, const char *prefix, struct slice name), void *context);

#endif
