// SPDX-License-Identifier: Apache-2.0
/*
 * sentinel.c - the carrier to a master that Sentinels watch: who it is now, by asking one and by listening to it.
 *
 * Idea: one Sentinel at a time is asked where the master is and who the others are, and listened to for +switch-master. What it says is
 * tried, never believed: a node is used when its own ROLE says master (store_node.c), so a master that was demoted is
 * not, and a Sentinel that knows of no failover yet costs time and nothing else. While no master is ready the Sentinel is
 * asked again every ASK_TROUBLE_MS, and after ASKS_MAX of these the next one is.
 *
 * A Sentinel may want no password, the same as the nodes, or none where one is given: it is greeted without first.
 */
#include <stdlib.h>

#include "fleet/store_inside.h"

/* While the master is ready, in case a message was lost; and while it is not. */
#define ASK_QUIET_MS 10000
#define ASK_TROUBLE_MS 300

/* Questions to one Sentinel that led to no ready master, before another is asked. */
#define ASKS_MAX 6

/* Before the next Sentinel is dialled; where all of them were, it grows to the longer one. */
#define NEXT_MS 100
#define NEXT_MAX_MS 1000

/* A Sentinel that does not answer in this time is given up. */
#define ANSWER_MS 1000

/* One connection to a Sentinel. */
struct watch {
    struct client *client;
    struct store_address at;
    struct link_target target;
    struct link *link;
    struct link_command master, others, subscribe;
};

struct sentinel {
    struct sentinels known;
    size_t turn;         /* which one is dialled next */
    size_t failed;       /* in a row */
    bool uses_auth;      /* the one at hand wants the password */
    struct watch *watch; /* NULL: none */
    bool is_up;          /* greeted */
    bool is_listening;   /* subscribed: a RESP2 one can be asked no more */
    bool is_asking;
    unsigned asks;                      /* since a master was ready */
    uint64_t asked_at, ask_at, next_at; /* ms; 0: not */
    struct node *master;                /* NULL: not known */
    struct node *candidate; /* where it is said to be now, until that node says so itself; NULL: none */
    bool is_told;           /* that none can be asked, or that they do not know the master */
};

static struct sentinel *sentinel_of(const struct client *client)
{
    return client->held;
}

static void tell(struct client *client, const char *why)
{
    struct sentinel *sentinel = sentinel_of(client);
    char shown[NODE_WHY_MAX], name[STORE_ADDRESS_MAX] = "";
    size_t at = 0;
    if (sentinel->is_told)
        return;
    sentinel->is_told = true;
    for (; why[at] != '\0' && at < sizeof shown - 1; at++)
        shown[at] = why[at] >= ' ' && why[at] <= '~' && why[at] != '"' ? why[at] : '\'';
    shown[at] = '\0';
    if (sentinel->watch != NULL)
        store_address_show(&sentinel->watch->at, name);
    client_log(client, "event=sentinel-down node=%s why=\"%s\"", name, shown);
}

/* ---- The master ------------------------------------------------------------------------------------------------ */

static void ask_at(struct client *client, uint64_t at)
{
    struct sentinel *sentinel = sentinel_of(client);
    if (sentinel->ask_at == 0 || at < sentinel->ask_at)
        sentinel->ask_at = at;
    client_due(client, sentinel->ask_at);
}

/* There is, or may be, another master. */
static void ask_soon(struct client *client)
{
    ask_at(client, client_now(client) + client_jitter(client, ASK_TROUBLE_MS));
}

static void drop_candidate(struct sentinel *sentinel)
{
    if (sentinel->candidate != NULL)
        node_leave(sentinel->candidate);
    sentinel->candidate = NULL;
}

/* A Sentinel says that the master is there. The first one is waited for; another has to be ready before it is used. */
static void take_word(struct client *client, const struct store_address *at)
{
    struct sentinel *sentinel = sentinel_of(client);
    if (sentinel->candidate != NULL && store_address_equals(&sentinel->candidate->at, at))
        return;
    drop_candidate(sentinel);
    if (sentinel->master == NULL)
        sentinel->master = node_claim(client, at); /* NULL where memory is out: asked again soon */
    else if (!store_address_equals(&sentinel->master->at, at))
        sentinel->candidate = node_claim(client, at);
}

static void sentinel_ready(struct node *node)
{
    struct client *client = node->client;
    struct sentinel *sentinel = sentinel_of(client);
    sentinel->asks = 0;
    if (node != sentinel->candidate)
        return;
    client_log(client, "event=sentinel-switch master=%s before=%s", node->name, sentinel->master->name);
    node_leave(sentinel->master);
    sentinel->master = node;
    sentinel->candidate = NULL;
}

/* It said so itself: somebody else is, or will be. */
static void sentinel_not_master(struct node *node)
{
    struct sentinel *sentinel = sentinel_of(node->client);
    if (node == sentinel->candidate)
        drop_candidate(sentinel);
    ask_soon(node->client);
}

static void sentinel_down(struct node *node)
{
    ask_soon(node->client);
}

/* ---- A Sentinel is asked ------------------------------------------------------------------------------------------ */

/* Dial another one, or the same again, after `pause`. */
static void let_go(struct client *client, uint64_t pause)
{
    struct sentinel *sentinel = sentinel_of(client);
    if (sentinel->watch != NULL)
        link_close(sentinel->watch->link); /* it is freed when that is done */
    sentinel->watch = NULL;
    sentinel->is_up = sentinel->is_listening = sentinel->is_asking = false;
    sentinel->ask_at = 0;
    sentinel->asks = 0;
    sentinel->next_at = client_now(client) + pause;
    client_due(client, sentinel->next_at);
}

static void give_up(struct client *client, const char *why)
{
    struct sentinel *sentinel = sentinel_of(client);
    tell(client, why);
    sentinel->failed++;
    let_go(client, client_jitter(client, sentinel->failed < sentinel->known.count ? NEXT_MS : NEXT_MAX_MS));
}

static void master_done(struct link_command *command, enum carrier_result result, struct slice reply)
{
    struct client *client = command->owner;
    struct sentinel *sentinel = sentinel_of(client);
    struct store_address at;
    sentinel->is_asking = false;
    if (result != CARRIER_REPLY)
        return; /* the link is down */
    if (!sentinel_read_master(reply, &at)) {
        give_up(client, "it does not know a master of this name");
        return;
    }
    sentinel->failed = 0;
    take_word(client, &at);
    bool is_ready = sentinel->master != NULL && sentinel->master->is_ready;
    ask_at(client, client_now(client) + client_jitter(client, is_ready ? ASK_QUIET_MS : ASK_TROUBLE_MS));
}

static void others_done(struct link_command *command, enum carrier_result result, struct slice reply)
{
    struct client *client = command->owner;
    if (result == CARRIER_REPLY)
        sentinel_read_others(reply, &sentinel_of(client)->known);
}

static void subscribe_done(struct link_command *command, enum carrier_result result, struct slice reply)
{
    (void)command; /* what matters comes as messages; without them it is asked now and then */
    (void)result;
    (void)reply;
}

static struct slice words_of(char *room, size_t cap, uint32_t count, const struct slice *words)
{
    struct text text = text_of(room, cap);
    resp_put_array(&text, count);
    for (uint32_t i = 0; i < count; i++)
        resp_put_bulk(&text, words[i]);
    return text.is_cut ? (struct slice){ 0 } : text_slice(&text);
}

static bool send_sentinel(struct watch *watch, struct slice verb, struct link_command *command)
{
    char room[URL_MAX + 128];
    const struct slice words[] = { SLICE("SENTINEL"), verb, slice_of(watch->client->options.url->master) };
    struct slice bytes = words_of(room, sizeof room, 3, words);
    return bytes.len > 0 && link_send(watch->link, bytes, 1, command);
}

static void ask(struct client *client)
{
    struct sentinel *sentinel = sentinel_of(client);
    struct watch *watch = sentinel->watch;
    sentinel->ask_at = 0;
    if (sentinel->is_asking || !sentinel->is_up)
        return;
    if (sentinel->is_listening && link_version(watch->link) == RESP2) {
        let_go(client, 0); /* another one is asked, on a new connection */
        return;
    }
    sentinel->asked_at = client_now(client);
    sentinel->asks++;
    sentinel->is_asking = send_sentinel(watch, SLICE("GET-MASTER-ADDR-BY-NAME"), &watch->master);
    client_due(client, sentinel->asked_at + ANSWER_MS);
}

/* ---- Its connection -------------------------------------------------------------------------------------------------- */

static void on_up(struct link *link)
{
    struct watch *watch = link_owner(link);
    struct client *client = watch->client;
    struct sentinel *sentinel = sentinel_of(client);
    char room[128];
    if (sentinel->watch != watch)
        return;
    sentinel->is_up = true;
    sentinel->is_told = false;
    sentinel->asks = 0;
    ask(client);
    (void)send_sentinel(watch, SLICE("SENTINELS"), &watch->others); /* without it those that are known do */
    const struct slice words[] = { SLICE("SUBSCRIBE"), SLICE("+switch-master") };
    sentinel->is_listening = link_subscribe(link, words_of(room, sizeof room, 2, words), &watch->subscribe);
}

static bool begins_with(const char *text, const char *front)
{
    return strncmp(text, front, strlen(front)) == 0;
}

static void on_down(struct link *link, const char *why)
{
    struct watch *watch = link_owner(link);
    struct client *client = watch->client;
    struct sentinel *sentinel = sentinel_of(client);
    if (sentinel->watch != watch || client->is_closing)
        return;
    bool wants_auth =
        begins_with(why, "NOAUTH") && client->options.url->password != NULL && !sentinel->uses_auth;
    sentinel->uses_auth = wants_auth;
    if (!wants_auth) {
        give_up(client, why);
        return;
    }
    sentinel->turn--; /* the same one once more */
    let_go(client, 0);
}

static void on_push(struct link *link, struct slice reply)
{
    struct watch *watch = link_owner(link);
    struct store_address at;
    if (sentinel_of(watch->client)->watch == watch
        && sentinel_read_switch(reply, watch->client->options.url->master, &at))
        take_word(watch->client, &at);
}

static void on_closed(struct link *link)
{
    struct watch *watch = link_owner(link);
    struct client *client = watch->client;
    free(watch);
    client_let_go(client);
}

static const struct link_events link_events = {
    .up = on_up, .down = on_down, .push = on_push, .closed = on_closed
};

static struct watch *watch_new(struct client *client, const struct store_address *at, bool uses_auth)
{
    const struct url *url = client->options.url;
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return NULL;
    watch->client = client;
    watch->at = *at;
    watch->target = (struct link_target){ .host = watch->at.host,
                                          .port = at->port,
                                          .tls = client->options.tls,
                                          .user = uses_auth ? url->user : NULL,
                                          .password = uses_auth ? url->password : NULL,
                                          .dial_ms = ANSWER_MS };
    watch->master = (struct link_command){ .done = master_done, .owner = client };
    watch->others = (struct link_command){ .done = others_done, .owner = client };
    watch->subscribe = (struct link_command){ .done = subscribe_done, .owner = client };
    (void)client_jitter(client, 1); /* another seed for each */
    if (link_open(&watch->link, client->options.loop, &watch->target, &link_events, watch, client->random) == 0)
        return watch;
    free(watch);
    return NULL;
}

static void dial_next(struct client *client)
{
    struct sentinel *sentinel = sentinel_of(client);
    const struct store_address *at = &sentinel->known.at[sentinel->turn++ % sentinel->known.count];
    sentinel->next_at = 0;
    sentinel->watch = watch_new(client, at, sentinel->uses_auth);
    if (sentinel->watch != NULL)
        client->handles++;
    else
        give_up(client, "memory is out");
}

/* ---- What is due, and events of the master ------------------------------------------------------------------------------ */

static uint64_t earliest(uint64_t x, uint64_t y)
{
    return y != 0 && y < x ? y : x;
}

static uint64_t sentinel_tick(struct client *client, uint64_t now)
{
    struct sentinel *sentinel = sentinel_of(client);
    bool is_ready = sentinel->master != NULL && sentinel->master->is_ready;
    if (is_ready)
        sentinel->asks = 0;
    if (sentinel->is_asking && now - sentinel->asked_at >= ANSWER_MS)
        give_up(client, "it did not answer in time");
    if (sentinel->ask_at != 0 && sentinel->ask_at <= now) {
        if (sentinel->asks >= ASKS_MAX)
            give_up(client, "what it calls the master is none");
        else
            ask(client);
    }
    if (sentinel->next_at != 0 && sentinel->next_at <= now && sentinel->watch == NULL)
        dial_next(client);
    uint64_t next = earliest(earliest(UINT64_MAX, sentinel->ask_at), sentinel->next_at);
    return sentinel->is_asking ? earliest(next, sentinel->asked_at + ANSWER_MS) : next;
}

static int sentinel_begin(struct client *client)
{
    const struct url *url = client->options.url;
    struct sentinel *sentinel = calloc(1, sizeof *sentinel);
    if (sentinel == NULL)
        return WEIR_ERR_MEMORY;
    client->held = sentinel;
    for (unsigned i = 0; i < url->host_count; i++) {
        struct store_address at;
        if (store_address_set(&at, slice_of(url->hosts[i]), url->ports[i]))
            sentinels_add(&sentinel->known, &at);
    }
    if (sentinel->known.count == 0)
        return WEIR_ERR_OPTION;
    dial_next(client);
    return sentinel->watch == NULL ? WEIR_ERR_MEMORY : 0;
}

static void sentinel_end(struct client *client)
{
    struct sentinel *sentinel = sentinel_of(client);
    if (sentinel != NULL && sentinel->watch != NULL)
        link_close(sentinel->watch->link);
}

static struct node *sentinel_node_of(const struct client *client, unsigned slot)
{
    (void)slot;
    return sentinel_of(client)->master;
}

static void sentinel_others(struct client *client)
{
    const struct sentinel *sentinel = sentinel_of(client);
    for (size_t i = 0; i < sentinel->known.count; i++) {
        bool is_heard = sentinel->is_up && store_address_equals(&sentinel->watch->at, &sentinel->known.at[i]);
        client_show(client, &sentinel->known.at[i], ROLE_SENTINEL, is_heard ? "" : "not connected to");
    }
}

const struct topology topology_sentinel = { .is_whole = true,
                                            .asks_role = true,
                                            .begin = sentinel_begin,
                                            .end = sentinel_end,
                                            .node_of = sentinel_node_of,
                                            .ready = sentinel_ready,
                                            .down = sentinel_down,
                                            .not_master = sentinel_not_master,
                                            .tick = sentinel_tick,
                                            .others = sentinel_others };
