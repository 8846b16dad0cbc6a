// SPDX-License-Identifier: Apache-2.0
/*
 * import_nginx.h - an nginx configuration as a tree of directives, and the pieces that make limits of it.
 *
 * What limit_req decides: a zone keeps, per key, how far requests are ahead of the rate; one more may come while that is
 * at most `burst`, and is held back while it is above `delay`. That is a leaky bucket of delay + 1 with a queue of burst -
 * delay. What limit_conn decides: how many of a key are in processing; that is a limit on concurrent work. Which requests
 * either is for follows from servers and locations, and may take part of a part of a set out; `when` can take out a part
 * once, and what needs more is refused.
 */
#ifndef WEIR_RULE_IMPORT_NGINX_H
#define WEIR_RULE_IMPORT_NGINX_H

#include "rule/import.h"

/* Words of one directive, and blocks within blocks: nginx itself stops at less than either. */
#define NGINX_WORDS_MAX 512
#define NGINX_DEPTH_MAX 32

struct nginx_word {
    struct slice text; /* without quotes and escapes */
    struct place place;
};

struct directive {
    struct directive *parent, *children, *last, *next;
    struct nginx_word *words; /* words[0] is its name */
    unsigned count;
    unsigned source;
    bool has_block;
};

/* Read a configuration with what it includes (unless `is_alone`). *root is a directive without words. */
int nginx_read(struct import *import, const struct import_file *file, bool is_alone, struct directive *root);

/* Report about a directive. */
#define NGINX_ERROR(import, directive, cure, ...) \
    (diagnostics_use((import)->diagnostics, (directive)->source), \
     IMPORT_ERROR((import), (directive)->words[0].place, (cure), __VA_ARGS__))

bool directive_is(const struct directive *directive, const char *name);

/* The next directive of this name from `directive` on, among its siblings. */
const struct directive *directive_next(const struct directive *directive, const char *name);

/* Word `index`, empty where there is none. */
struct slice directive_word(const struct directive *directive, unsigned index);

/* ---- Sets with parts taken out ----------------------------------------------------------------------------------- */

#define AREA_NONE UINT32_MAX

/* One set of values; inside its parent, or of all values. The most special area that holds a value decides. */
struct area {
    struct slice pattern; /* as `when` has it */
    uint32_t parent;      /* stands before it, or AREA_NONE */
    bool is_met;          /* whether the limit is for it */
    unsigned changes;     /* how often is_met changes on the way to it */
};

/*
 * Write `in` and `not` for the areas: `{ in: [...], not: [...] }` or less; nothing when every value is met. False when a
 * part of a part of a part would have to be said.
 */
bool areas_add(struct import *import, struct area *areas, size_t count, bool is_root_met, struct text *out);

/* ---- Keys: import_nginx_key.c ------------------------------------------------------------------------------------- */

#define NGINX_KEY_MAX 8

struct nginx_key {
    struct slice attributes[NGINX_KEY_MAX];
    unsigned count;
    bool is_per_server; /* $server_name: a budget for each server */
    bool has_constant;  /* so that it is never empty */
    struct slice when;  /* "ip: { not: ... }", or nothing */
    bool ignores_case;  /* a map's words, which are compared exactly here */
};

/* Attributes that need a line in `identity`. */
struct nginx_identity {
    struct {
        struct slice attribute, source;
    } rows[64];
    unsigned count;
    bool has_ip;
};

/* Read the key of a limit_req_zone. False: reported. */
bool nginx_key_read(struct import *import, const struct directive *http, const struct directive *zone,
                    struct nginx_identity *identity, struct nginx_key *out);

/* ---- Zones, servers and their locations ------------------------------------------------------------------------------ */

/* Different things that the uses of one zone can say. */
#define NGINX_USES_MAX 16

/* What a limit_req or limit_conn says. Uses of a zone that say the same are one. */
struct use {
    const struct directive *at; /* the first that says so */
    uint64_t most;              /* limit_req: `burst`; limit_conn: how many at once */
    uint64_t at_once;           /* limit_req: of the burst pass at once; equal to it where none waits */
    struct slice status;
};

/* A zone of limit_req or limit_conn. */
struct zone {
    struct slice name, rate; /* "2/m" */
    uint64_t count;          /* of the rate */
    unsigned seconds;        /* of the rate's unit: 1 or 60; 0: a zone of limit_conn */
    const struct directive *at;
    struct nginx_key key;
    bool is_known; /* key and rate could be read */
    struct use *uses;
    size_t use_count;
    bool is_dry, has_other_status;
};

/* A way into a server: a location, or what no location takes. */
struct place_of_server {
    struct slice pattern, path;    /* path: as the location says it */
    const struct directive *block; /* whose limits hold */
    bool is_exact, is_regex, is_root;
};

struct server {
    const struct directive *block;
    struct place_of_server *places; /* those of no location first */
    size_t place_count;
    struct slice listen;
    bool is_default;
};

struct config {
    struct import *import;
    const struct directive *http;
    struct zone *zones;
    size_t zone_count;
    struct server *servers;
    size_t server_count;
    struct nginx_identity identity;
    uint64_t permits;                   /* at-most of all limits written */
    const struct directive *regex_told; /* the location that was refused last, which each zone meets again */
};

/* What stands behind "NAME=" in a word of the directive, the last such word; .at NULL: nowhere. */
struct slice nginx_option(const struct directive *directive, const char *name);
bool nginx_has_word(const struct directive *directive, const char *word);

/* The value of a directive that a block has or inherits; "" where nobody says it. */
struct slice nginx_inherited(const struct directive *block, const char *name);

/* The block on the way out whose own directives of this name hold in `block`: the nearest that has any. */
const struct directive *nginx_holder(const struct directive *block, const char *name);

/* The directive that uses zones of this kind, and the first one in force in a block; NULL: none. */
const char *nginx_use_name(const struct zone *zone);
const struct directive *nginx_use_first(const struct directive *block, const char *name);

/*
 * Read what a limit_req (is_conn: a limit_conn) says, and the name of its zone. NULL, or what is wrong with its numbers:
 * then *wrong is the word, empty where it is missing.
 */
const char *nginx_use_read(const struct directive *directive, bool is_conn, struct use *out, struct slice *zone,
                           struct slice *wrong);

/* How long all that can wait by this use of a limit_req need to, rounded up with something to spare. */
uint64_t nginx_wait_seconds(const struct zone *zone, const struct use *use);

/* ---- Where a zone holds: import_nginx_where.c -------------------------------------------------------------------------- */

#define NGINX_SERVERS_CURE "import the servers one by one, or give each a zone of its own"

/* Read config->http's servers with their locations. */
void nginx_read_servers(struct config *config);

/* Whether requests in `block` are answered before limits are looked at. */
bool nginx_answers_early(const struct directive *block);

enum extent { EXTENT_NONE, EXTENT_SOME, EXTENT_ALL, EXTENT_BAD /* reported */ };

/* Which paths of the server are counted in the zone, by this use of it (NULL: by any); `out` gets the value of `path:` where
   it is not all of them. */
enum extent nginx_extent(struct config *config, const struct server *server, const struct zone *zone,
                         const struct use *use, struct text *out);

/* The value of `host:` for the servers that are met (a flag each). False: reported. */
bool nginx_add_hosts(struct config *config, const bool *met, struct text *out);

/* ---- The contract: import_nginx_write.c ---------------------------------------------------------------------------------- */

/* Write import->out. What cannot be said is reported. */
void nginx_write(struct config *config);

#endif
