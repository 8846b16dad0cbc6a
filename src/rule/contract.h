// SPDX-License-Identifier: Apache-2.0
/*
 * contract.h - a contract as it is held in memory: limits as rules, attributes as numbers.
 *
 * Everything hangs on one region and is constant once loaded, so any number of threads may read it. An attribute that
 * some limit reads has a number, by which conditions and keys name it; a request's other attributes are not looked at.
 */
#ifndef WEIR_RULE_CONTRACT_H
#define WEIR_RULE_CONTRACT_H

#include "rule/identity.h"
#include "rule/match.h"
#include "rule/rate.h"
#include "rule/schema.h"

/* The rows of a limit's table, in schema_limit.c. */
enum limit_field {
    LIMIT_NAME,
    LIMIT_ABOUT,
    LIMIT_WHEN,
    LIMIT_KEY,
    LIMIT_MISSING_KEY,
    LIMIT_ALGORITHM,
    LIMIT_RATE,
    LIMIT_BURST,
    LIMIT_AT_MOST,
    LIMIT_HOLD,
    LIMIT_ALIGN,
    LIMIT_COST,
    LIMIT_DEBT,
    LIMIT_REFUSED,
    LIMIT_RETRIES,
    LIMIT_WAIT,
    LIMIT_SCOPE,
    LIMIT_LEASE,
    LIMIT_WHEN_STORE_FAILS,
    LIMIT_WHEN_FULL,
    LIMIT_WHEN_STATE_LOST,
    LIMIT_ENFORCE,
    LIMIT_REPLY,
    LIMIT_OVERRIDES,
    LIMIT_FIELD_COUNT
};

enum missing_key { MISSING_SKIP, MISSING_SHARE, MISSING_REFUSE };

/* One limit: what weir.h counts, and which requests it counts under which keys. */
struct rule {
    struct weir_limit limit; /* as weir_limit_add() takes it */
    const char *about;
    struct rate rate;
    uint64_t burst;
    int algorithm, when_full, missing_key; /* -1: not stated */
    uint64_t cost;                         /* 0: the request's own */
    const uint16_t *key;                   /* attribute numbers, in order */
    size_t key_count;
    const struct condition *conditions;
    size_t condition_count;
    uint32_t given;    /* a bit per limit_field that the file states */
    bool is_calendar;  /* then rate.unit says what a window is */
    bool is_countable; /* its shape could be read, so weir_limit_add() can judge it */
};
_Static_assert(LIMIT_FIELD_COUNT <= 32, "rule.given has a bit per field");

/* How the value of an attribute is brought into one spelling. */
enum spelling { SPELLING_RAW, SPELLING_PATH, SPELLING_HOST, SPELLING_IP };

struct attribute_slot {
    struct slice name;
    enum spelling spelling;
};

#define ATTRIBUTE_NONE UINT16_MAX
#define ATTRIBUTE_BUCKETS (2 * MATCH_ATTRIBUTES_MAX)

/* The attributes that some limit reads: number by name, open addressing at half load at most. */
struct attribute_table {
    struct attribute_slot *slots; /* MATCH_ATTRIBUTES_MAX */
    uint16_t *buckets;            /* number + 1; 0: empty */
    size_t count;
};

struct memory_config {
    uint64_t keys, log_stamps; /* 0: not stated */
    struct rate new_keys;      /* multiple 0: not stated */
};

struct weir_contract {
    struct region region;
    struct weir *limiter;
    struct matcher *matcher;
    char version[17];
    struct attribute_table attributes;
    struct rule *rules;
    struct weir_contract_limit *limits;
    size_t limit_count;
    struct grouping grouping;
    struct identity_source *sources; /* as the file has them; identity.sources are those that limits read */
    size_t source_count;
    struct identity_config identity;
    struct weir_contract_server server;
    struct memory_config memory;
    uint64_t replicas; /* 0: not stated */
};

/* ---- attributes.c ------------------------------------------------------------------------------------------ */

bool attribute_name_is_valid(struct slice name);

/* The number of an attribute, or ATTRIBUTE_NONE. */
unsigned attribute_find(const struct attribute_table *table, struct slice name);

/* The same, and a new number for a new name; ATTRIBUTE_NONE when 1024 exist. The name is borrowed. */
unsigned attribute_claim(struct attribute_table *table, struct slice name);

/* ---- The schema, one file per part of the contract ------------------------------------------------------------ */

/* Reports an unfit name of an attribute; else claims its number. ATTRIBUTE_NONE when reported. */
unsigned schema_attribute(struct load *load, const char *field, const struct node *name);

field_parse parse_limits;   /* schema_limit.c: struct weir_contract */
field_parse parse_when;     /* schema_when.c: struct rule */
field_parse parse_identity; /* schema_identity.c: struct weir_contract */
field_parse parse_server;   /* schema_root.c: struct weir_contract */
field_parse parse_memory;

/* schema_root.c: the whole document. */
void schema_read_contract(struct load *load, const struct node *root);

/* Findings that need the whole contract: limits that weir.h refuses, requests that meet no limit. check.c. */
int contract_add_limits(struct load *load);
void contract_warn(struct load *load);

/* ---- json_out.c ---------------------------------------------------------------------------------------------- */

/* Add the limit as one JSON object. */
void rule_json(struct text *text, const struct weir_contract *contract, const struct rule *rule);

/* A condition as JSON that could stand in a contract. */
void condition_json(struct text *text, const struct condition *condition);

/* Values as words of the language. */
const char *rule_missing_key(const struct rule *rule);
const char *rule_when_full(const struct rule *rule);
void rule_align(struct text *text, const struct rule *rule);

/* weir_contract_limit.window. */
weir_ns rule_window(const struct rule *rule);

#endif
