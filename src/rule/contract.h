// SPDX-License-Identifier: Apache-2.0
/*
 * contract.h - a contract as it is held in memory: limits as rules, attributes as numbers.
 *
 * Idea: what one text says is one `struct rules`, constant once loaded, so any number of threads may read it. The
 * contract keeps the limiter for its whole life and points at the rules in force; a reload builds other rules beside
 * them and stores the pointer. An attribute that some limit reads has a number, by which conditions and keys name it; a
 * request's other attributes are not looked at.
 *
 * Words:    weir_contract.current, written by weir_contract_reload(), read once by every call that decides.
 * Ordering: release and acquire: rules are complete, the set they were prepared for included, before they can be seen.
 *           The limiter's set is in force before the rules are, so who reads new rules never finds the old set.
 * Progress: wait-free for readers.
 * Reuse:    rules are freed only by weir_contract_quiesce(), when nobody can hold them.
 */
#ifndef WEIR_RULE_CONTRACT_H
#define WEIR_RULE_CONTRACT_H

#include <stdatomic.h>

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

/* Who shares one budget. */
enum scope { SCOPE_PROCESS, SCOPE_FLEET };

/* How long one decision waits for the store where the contract does not say. */
#define STORE_DEADLINE (5 * WEIR_MILLISECOND)

/* What a shared limit does while its store cannot be had: `when-store-fails`. */
struct store_policy {
    enum weir_store_fails word;
    weir_ns open_for;         /* WEIR_STORE_OPEN: closed after so long; 0: as long as it lasts */
    uint32_t share, share_of; /* WEIR_STORE_LOCAL */
};

/* A key with a size of its own, while its limit is read. */
struct override {
    struct weir_size size;
    const unsigned char *key;
    size_t key_len;
    const struct node *node;
};

/* What explain says of them. */
struct override_facts {
    size_t count, unlimited;
    uint64_t least, most;  /* capacities of those that are counted; least > most: there are none */
    struct rate most_rate; /* of one with the largest capacity; concurrency: none */
};

/* One limit: what weir.h counts, and which requests it counts under which keys. */
struct rule {
    struct weir_limit limit; /* as weir_limit_add() takes it */
    const char *about;
    struct rate rate;
    uint64_t burst, debt;
    int algorithm, when_full, missing_key, refused, state_lost; /* algorithm -1: not stated */
    uint64_t cost;         /* 0: the request's own, or that of an attribute */
    bool has_cost_from;    /* the cost is the value of an attribute: */
    uint16_t cost_from;    /* its number */
    uint64_t cost_default; /* where it is absent */
    uint64_t cost_max;     /* above it: never */
    uint16_t retry_by; /* with limit.retries_free_within: the attribute that makes a retry the same request */
    int enforce;       /* enum weir_enforce */
    unsigned enforce_percent;        /* of keys, with WEIR_ENFORCE_SHARE */
    int scope;                       /* enum scope */
    struct store_policy store_fails; /* with SCOPE_FLEET, as all below */
    struct weir_shared_size shared;  /* of keys without an override */
    struct weir_lease lease;         /* most 0: each request asks the store */
    bool has_lease_for;              /* its duration is no default */
    weir_limit_id share_limit; /* in rules->shares, of keys without an override; WEIR_NO_LIMIT: there is none */
    const struct share_size *share_sizes; /* buckets: those of overrides */
    size_t share_size_count;
    unsigned reply_status;                  /* 0: the usual */
    const char *reply_title, *reply_detail; /* NULL: the usual */
    const uint16_t *key;                    /* attribute numbers, in order */
    size_t key_count;
    const struct condition *conditions;
    size_t condition_count;
    struct override_facts overrides;
    const struct override *override_list; /* only while the contract is read */
    uint32_t given;                       /* a bit per limit_field that the file states */
    bool is_calendar;                     /* then rate.unit says what a window is */
    bool is_countable;                    /* its shape could be read, so weir_limit_add() can judge it */
};
_Static_assert(LIMIT_FIELD_COUNT <= 32, "rule.given has a bit per field");

/* How the value of an attribute is brought into one spelling. */
enum spelling { SPELLING_RAW, SPELLING_PATH, SPELLING_HOST, SPELLING_IP };

struct attribute_slot {
    struct slice name;
    enum spelling spelling;
    bool is_cost;   /* some limit charges its value, so it must be an integer */
    bool is_read;   /* some limit that is not off reads it; */
    bool is_beside; /* of other descriptors than its own, too: describe.c */
};

#define ATTRIBUTE_NONE UINT16_MAX
#define ATTRIBUTE_BUCKETS (2 * MATCH_ATTRIBUTES_MAX)

/* The attributes that some limit reads: number by name, open addressing at half load at most. */
struct attribute_table {
    struct attribute_slot *slots; /* MATCH_ATTRIBUTES_MAX */
    uint16_t *buckets;            /* number + 1; 0: empty */
    size_t count;
};

/* What limits that requests bring are counted in: a window for each usual period, or a bucket. throttle.c. */
#define OWN_COUNT 7

struct memory_config {
    uint64_t keys, log_stamps, permits; /* 0: not stated */
    struct rate new_keys;               /* multiple 0: not stated */
};

/* One text of a contract, loaded. Constant. */
struct rules {
    struct region region;         /* holds all of it, itself too */
    const struct weir_set *set;   /* of the limiter: its ids are indexes of `list` */
    weir_limit_id throttle;       /* of weir_contract_throttle(), in the set; WEIR_NO_LIMIT: none */
    weir_limit_id own[OWN_COUNT]; /* of limits that requests bring, behind it */
    struct matcher *matcher;
    char version[17];
    struct slice text; /* whole, and what it was read from: lint looks at it again */
    const char *name;
    struct attribute_table attributes;
    struct rule *list;
    struct weir_contract_limit *limits; /* the same as callers see it */
    size_t limit_count;
    struct grouping grouping;
    struct identity_source *sources; /* as the file has them; identity.sources are those that limits read */
    size_t source_count;
    struct identity_config identity;
    enum weir_headers headers;
    struct memory_config memory;
    uint64_t replicas; /* 0: not stated */
    bool has_shared;   /* some limit is shared */
    bool reads_beside; /* some attribute is_beside */
    bool is_apart;     /* and is not counted in the limiter, but by whoever called weir_contract_begin() */
    /* What `local` limits are counted in while the store is away; NULL: no limit has it, or it could not be had. share.h. */
    const struct weir_set *shares;
};

#define HEADERS_COUNT (WEIR_HEADERS_NONE + 1)

struct weir_contract {
    struct region region; /* holds this, and what a reload does not read again */
    struct weir_allocator allocator;
    bool has_allocator;
    struct weir *limiter;
    struct rules *_Atomic current;
    struct rules *old; /* after a reload, until weir_contract_quiesce() */
    struct memory_config memory;
    struct weir_contract_store store;
    struct share_keeper *shares; /* share.h */
    enum weir_fleet fleet;
    bool has_store; /* somebody said where it is */
    bool has_throttle;
    bool is_exposed; /* everybody on the machine can read the file that it was loaded from */
    /* A copy of `server` for each word of `headers`: so what weir_contract_server() returned lives as long as this. */
    struct weir_contract_server servers[HEADERS_COUNT];
};

/* The rules that a call uses throughout. */
static inline const struct rules *contract_rules(const struct weir_contract *contract)
{
    return atomic_load_explicit(&((struct weir_contract *)(uintptr_t)contract)->current, memory_order_acquire);
}

/* Give what there is to say, or nothing and free it. contract.c. */
void contract_give(struct weir_diagnostics **out, struct weir_diagnostics *diagnostics);

/* ---- rules.c: one text becomes rules ----------------------------------------------------------------------------- */

struct rules *rules_new(const struct weir_allocator *allocator);
void rules_free(struct rules *rules);

/* Read the text into load->rules. 0, WEIR_ERR_CONTRACT when there is no document at all, or WEIR_ERR_MEMORY; other
   mistakes are in the diagnostics. */
int rules_read(struct load *load, struct slice text);

/* What follows from limits that are fit: matcher, identity, what callers see, warnings. */
int rules_finish(struct load *load);

/* ---- attributes.c ------------------------------------------------------------------------------------------ */

bool attribute_name_is_valid(struct slice name);

/* The number of an attribute, or ATTRIBUTE_NONE. */
unsigned attribute_find(const struct attribute_table *table, struct slice name);

/* The same, and a new number for a new name; ATTRIBUTE_NONE when 1024 exist. The name is borrowed. */
unsigned attribute_claim(struct attribute_table *table, struct slice name);

/* ---- The schema, one file per part of the contract ------------------------------------------------------------ */

/* Reports an unfit name of an attribute; else claims its number. ATTRIBUTE_NONE when reported. */
unsigned schema_attribute(struct load *load, const char *field, const struct node *name);

field_parse parse_limits;      /* schema_limit.c: struct rules */
field_parse parse_proxy_doors; /* schema_access.c: unsigned */
field_parse parse_socket_mode;
field_parse parse_when; /* schema_when.c: struct rule */
field_parse parse_cost; /* schema_policy.c: struct rule */
field_parse parse_retries;
field_parse parse_wait;
field_parse parse_enforce;
field_parse parse_reply;
field_parse parse_store_fails; /* schema_scope.c: struct rule */
field_parse parse_lease;       /* schema_lease.c: struct rule */
field_parse parse_store;       /* schema_scope.c: load->store */
field_parse parse_identity;    /* schema_identity.c: struct rules */
field_parse parse_server;      /* schema_root.c: load->server */
field_parse parse_memory;      /* schema_root.c: struct rules */

/* Read the overrides of a limit whose other fields were read. schema_override.c. */
void schema_read_overrides(struct load *load, struct rule *rule, const struct node *list);

/* Whether a rate counts whole civil days, weeks, months or years as `align: calendar` does, and only there; else reported
   about `value`. schema_shape.c. */
bool schema_check_period(struct load *load, struct rule *rule, const struct rate *rate,
                         const struct node *value);

/* Whether the fields of a limit (given: a slot per row of the table `fields`) suit its algorithm and each other, so that
   weir.h can judge its numbers; what does not is reported. schema_shape.c. */
bool schema_check_shape(struct load *load, struct rule *rule, const struct node *limit,
                        const struct node *const *given, const struct field *fields);

/* Whether what the limit says of its scope goes together, so that it can be counted there; what does not is reported, and
   rule->shared is written. schema_scope.c. */
bool schema_check_scope(struct load *load, struct rule *rule, const struct node *limit,
                        const struct node *const *given, const struct field *fields);

/* Whether what the limit is can be leased as it says, where it says so; what cannot is reported. schema_lease.c. */
bool schema_check_lease(struct load *load, struct rule *rule, const struct node *const *given);

/* Why a size of it cannot be overdrawn. */
#define LEASED_DEBT "means nothing with a lease: portions that are out cannot be called back to pay it"

/* The lease of a key of this size: a smaller one has less to hand out. schema_lease.c. */
struct weir_lease lease_of_size(const struct rule *rule, const struct weir_shared_size *size);

/* Report a size that a store cannot count exactly, about the field of `map` that it lies at. */
bool schema_check_size(struct load *load, const struct rule *rule, const struct weir_size *size,
                       const struct node *map, struct weir_shared_size *out);

/* Shared limits, and nobody who counts them; or nobody who knows where. */
void schema_check_fleet(struct load *load);

/* An algorithm as a message has it behind "means nothing for a": "fixed-window", "concurrency limit". */
const char *schema_algorithm(const struct rule *rule);

/* Has a rate that comes back into a burst; the leaky queue's is 1. */
static inline bool rule_is_bucket(const struct rule *rule)
{
    return rule->algorithm == WEIR_TOKEN_BUCKET || rule->algorithm == WEIR_LEAKY_BUCKET
           || rule->algorithm == WEIR_LEAKY_QUEUE;
}

/* Counted in a store for a whole fleet. */
static inline bool rule_is_shared(const struct rule *rule)
{
    return rule->scope == SCOPE_FLEET;
}

/* The same, and this process has a share of it for when the store is away. */
static inline bool rule_has_share(const struct rule *rule)
{
    return rule_is_shared(rule) && rule->store_fails.word == WEIR_STORE_LOCAL;
}

/* Handed out in portions. */
static inline bool rule_is_leased(const struct rule *rule)
{
    return rule_is_shared(rule) && rule->lease.most > 0;
}

/* Callers may wait for it. */
static inline bool rule_waits(const struct rule *rule)
{
    return rule->limit.wait.up_to > 0;
}

/* The most at once: burst, count of a window, or permits. */
static inline uint64_t rule_capacity(const struct rule *rule)
{
    if (rule->algorithm == WEIR_CONCURRENCY)
        return rule->limit.at_most;
    return rule_is_bucket(rule) ? rule->burst : rule->rate.count;
}

/* schema_root.c: the whole document. */
void schema_read_contract(struct load *load, const struct node *root);

/* Findings that need the whole contract: limits that weir.h refuses, requests that meet no limit. check.c. */
int contract_add_limits(struct load *load, struct weir_change *change);
void contract_report_code(struct load *load, const struct node *map, const char *field, int code);
const struct node *contract_limit_node(const struct load *load, size_t index);
void contract_report_commit(struct load *load,
                            int code); /* weir_change_commit() gave it: no single limit is to blame */
void contract_warn(struct load *load);

/* ---- json_out.c ---------------------------------------------------------------------------------------------- */

/* Add the limit as one JSON object. */
void rule_json(struct text *text, const struct rules *rules, const struct rule *rule);

/* The first of some conditions as JSON that could stand in a contract, with the second where both are on one attribute
   (`{ in: ..., not: ... }`). Gives how many it wrote. */
size_t condition_json(struct text *text, const struct condition *conditions, size_t count);

/* Values as words of the language. */
const char *rule_missing_key(const struct rule *rule);
const char *rule_when_full(const struct rule *rule);
void rule_align(struct text *text, const struct rule *rule);
void rule_enforce(struct text *text, const struct rule *rule); /* "always", "10%" */

void rule_store_fails(struct text *text, const struct rule *rule); /* "closed", "{ local: 1/4 }" */

/* weir_contract_limit.window. */
weir_ns rule_window(const struct rule *rule);

#endif
