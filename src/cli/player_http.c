// SPDX-License-Identifier: Apache-2.0
/*
 * player_http.c - servers asked over one connection of each door, and one more for each request that waits there.
 */
#include "cli/player_http.h"

#ifdef WEIR_TEST_HOOKS

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* How long a server may take to notice that a request has come, or that a caller has left. */
#define NOTICE_TIMEOUT_MS 10000

/* What lasts of one request beyond its step. */
struct http_slot {
    char *gift; /* the text of its reservation or permit; NULL: none */

    /* Of one that is parked, or has ended and is not collected yet. */
    struct client *client; /* NULL: it is neither */
    const struct timeline_step *step;
    bool speaks_resp; /* the client does */
    size_t handle;
    bool has_ended; /* `answer` is there */
    struct verdict answer;
    struct http_slot *next_parked;
};

static enum player_result fail(struct player_http *http, const char *what)
{
    (void)snprintf(http->player.error, sizeof http->player.error, "%.300s", what);
    return PLAYER_UNREACHABLE;
}

/* Copy a file's text, or write `text`. */
static bool write_text(FILE *out, const struct timeline_contract *source)
{
    if (source->path == NULL)
        return fwrite(source->text.at, 1, source->text.len, out) == source->text.len;
    char part[16384];
    size_t len;
    FILE *in = fopen(source->path, "re");
    bool is_good = in != NULL;
    while (is_good && (len = fread(part, 1, sizeof part, in)) > 0)
        is_good = fwrite(part, 1, len, out) == len;
    if (in != NULL)
        (void)fclose(in); /* it was only read */
    return is_good;
}

/* Make a contract the one that the server reads. */
static bool write_contract(struct player_http *http, const struct timeline_contract *source)
{
    (void)snprintf(http->contract, sizeof http->contract, "%s/weir.yaml", http->folder);
    FILE *file = fopen(http->contract, "we");
    if (file == NULL)
        return false;
    bool is_written = write_text(file, source);
    return fclose(file) == 0 && is_written;
}

/* Who asks at the Redis door: a file of one token, which the server is told of. */
static bool write_tokens(struct player_http *http)
{
    (void)snprintf(http->tokens, sizeof http->tokens, "%s/tokens", http->folder);
    int fd = open(http->tokens, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file == NULL)
        return false;
    bool is_written = fputs("admin " REMOTE_RESP_TOKEN " player\n", file) >= 0;
    return fclose(file) == 0 && is_written;
}

static enum player_result start_server(struct player_http *http, size_t replica, weir_ns lost_at, FILE *err)
{
    struct player_server *server = &http->servers[replica];
    const struct player_server_options options = { .contract = http->contract,
                                                   .folder = http->folder,
                                                   .number = (unsigned)replica,
                                                   .wall = http->timeline->start_wall,
                                                   .lost_at = lost_at,
                                                   .tokens = http->door == PLAYER_RESP ? http->tokens : NULL,
                                                   .door = http->door == PLAYER_RESP   ? "--resp"
                                                           : http->door == PLAYER_GRPC ? "--grpc"
                                                                                       : NULL,
                                                   .has_store = http->player.has_store };
    enum player_result result = player_server_start(server, &options, err);
    if (result != PLAYER_OK)
        (void)fail(http, server->error); /* the result says whose fault it is */
    return result;
}

static enum player_result http_open(struct player *player, const struct timeline *timeline, FILE *err)
{
    struct player_http *http = (struct player_http *)player;
    player->error[0] = '\0';
    http->timeline = timeline;
    http->slots = calloc(timeline->handle_count + 1, sizeof(struct http_slot *));
    (void)snprintf(http->folder, sizeof http->folder, "/tmp/weir-play-XXXXXX");
    if (http->slots == NULL || mkdtemp(http->folder) == NULL) {
        http->folder[0] = '\0';
        return fail(http, strerror(errno));
    }
    if (!write_contract(http, &timeline->contract)) {
        (void)fail(http, timeline->contract.path == NULL ? http->contract : timeline->contract.path);
        return PLAYER_FAULTY;
    }
    if (http->door == PLAYER_RESP && !write_tokens(http))
        return fail(http, http->tokens);
    enum player_result result = PLAYER_OK;
    for (size_t i = 0; i < timeline->replica_count && result == PLAYER_OK; i++)
        result = start_server(http, i, 0, err);
    return result;
}

/* ---- Slots ----------------------------------------------------------------------------------------------- */

static struct http_slot *slot_claim(struct player_http *http, size_t handle)
{
    struct http_slot **slot = &http->slots[handle];
    if (*slot == NULL)
        *slot = calloc(1, sizeof **slot);
    if (*slot != NULL)
        (*slot)->handle = handle;
    return *slot;
}

/* Keep what was given, if anything was. */
static bool slot_keep(struct player_http *http, size_t handle, const char *gift)
{
    struct http_slot *slot = gift[0] == '\0' ? NULL : slot_claim(http, handle);
    if (gift[0] == '\0')
        return true;
    if (slot == NULL)
        return false;
    free(slot->gift);
    slot->gift = strdup(gift);
    return slot->gift != NULL;
}

static size_t replica_of(const struct http_slot *slot)
{
    return slot->step->replica;
}

static void slot_unpark(struct player_http *http, struct http_slot *slot)
{
    struct http_slot **at = &http->parked;
    while (*at != slot)
        at = &(*at)->next_parked;
    *at = slot->next_parked;
    client_close(slot->client);
    free(slot->client);
    slot->client = NULL;
}

static void forget_parked(struct player_http *http, size_t replica)
{
    for (struct http_slot *slot = http->parked, *next; slot != NULL; slot = next) {
        next = slot->next_parked;
        if (replica_of(slot) == replica)
            slot_unpark(http, slot);
    }
}

/* What was given stays: its server says what it is worth afterwards. */
static void forget_slots(struct player_http *http)
{
    while (http->parked != NULL)
        slot_unpark(http, http->parked);
    for (size_t i = 0; http->slots != NULL && i < http->timeline->handle_count; i++) {
        if (http->slots[i] != NULL)
            free(http->slots[i]->gift);
        free(http->slots[i]);
        http->slots[i] = NULL;
    }
}

/* ---- Time ------------------------------------------------------------------------------------------------ */

#define NOW_FIELD_MAX 128

static const char *now_field(weir_ns now, char out[NOW_FIELD_MAX])
{
    (void)snprintf(out, NOW_FIELD_MAX,
                   "Weir-Now: %" PRIu64 "\r\nAuthorization: Bearer " REMOTE_RESP_TOKEN "\r\n", now);
    return out;
}

/* The sum of a gauge over its labels; false where it is not told. */
static bool find_gauge(struct slice text, const char *name, uint64_t *out)
{
    size_t name_len = strlen(name);
    bool is_found = false;
    *out = 0;
    for (const char *line = text.at, *end = text.at + text.len; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t len = (size_t)((next == NULL ? end : next) - line);
        const char *space = len > name_len && memcmp(line, name, name_len) == 0
                                    && (line[name_len] == ' ' || line[name_len] == '{')
                                ? memrchr(line, ' ', len)
                                : NULL;
        uint64_t value;
        if (space != NULL
            && slice_to_u64((struct slice){ space + 1, (size_t)(line + len - space) - 1 }, UINT32_MAX,
                            &value)) {
            is_found = true;
            *out += value;
        }
        line += len + 1;
    }
    return is_found;
}

/* Let time pass to `now` at a server, and ask how many wait then. */
static enum player_result ask_waiting(struct player_http *http, size_t replica, weir_ns now, uint64_t *out)
{
    char field[NOW_FIELD_MAX];
    struct client_reply reply;
    struct client *client = &http->servers[replica].client;
    player_server_drain_log(&http->servers[replica]);
    if (!client_send(client, "GET", "/metrics", now_field(now, field), (struct slice){ "", 0 })
        || !client_receive(client, CLIENT_TIMEOUT_MS, &reply))
        return fail(http, client->error);
    if (reply.status != 200 || !find_gauge(reply.body, "weir_waiting", out))
        return fail(http, "/metrics does not tell weir_waiting");
    return PLAYER_OK;
}

static bool is_readable(const struct client *client, int timeout_ms)
{
    struct pollfd readable = { client->fd, POLLIN, 0 };
    return poll(&readable, 1, timeout_ms) > 0;
}

/* ---- Waiting --------------------------------------------------------------------------------------------- */

static enum player_result result_of(struct player_http *http, const struct client *client,
                                    enum remote_result result, const struct verdict *out)
{
    if (result != REMOTE_DECIDED || out->effect.error != NULL)
        (void)fail(http, client->error); /* of an error that was expected nobody hears */
    return result == REMOTE_DECIDED ? PLAYER_OK : result == REMOTE_FAULTY ? PLAYER_FAULTY : PLAYER_UNREACHABLE;
}

/* Take the answer of a parked request, which is there or about to be. */
static enum player_result read_answer(struct player_http *http, struct http_slot *slot)
{
    char gift[REMOTE_HANDLE_MAX] = "";
    enum remote_result result = (slot->speaks_resp ? remote_resp_finish : remote_finish)(
        slot->client, CLIENT_TIMEOUT_MS, slot->step, gift, &slot->answer);
    slot->has_ended = result == REMOTE_DECIDED;
    if (!slot_keep(http, slot->handle, gift))
        return fail(http, "out of memory");
    return result_of(http, slot->client, result, &slot->answer);
}

/* Whether the step is said at the player's own door, and counts it; else it is asked by HTTP. */
static bool says_at_door(struct player_http *http, const struct timeline_step *step)
{
    const char *why = NULL;
    struct player_unsaid *row = http->unsaid;
    if (http->door == PLAYER_HTTP)
        return false;
    why = http->door == PLAYER_RESP ? remote_resp_unsayable(step) : remote_grpc_unsayable(step);
    if (why == NULL) {
        http->said++;
        return true;
    }
    while (row->count > 0 && row->why != why)
        row++;
    *row = (struct player_unsaid){ why, row->count + 1 };
    return false;
}

static enum player_result park(struct player_http *http, const struct timeline_step *step, size_t handle,
                               struct http_slot **out)
{
    struct http_slot *slot = slot_claim(http, handle);
    struct client *client = slot == NULL ? NULL : malloc(sizeof *client);
    char field[NOW_FIELD_MAX];
    if (client == NULL)
        return fail(http, "out of memory");
    slot->client = client;
    slot->step = step;
    slot->has_ended = false;
    slot->next_parked = NULL;
    struct http_slot **last = &http->parked;
    while (*last != NULL)
        last = &(*last)->next_parked;
    *last = slot;
    *out = slot;
    const struct player_server *server = &http->servers[step->replica];
    slot->speaks_resp = says_at_door(http, step); /* no call of gRPC may wait here */
    if (client_init(client, slot->speaks_resp ? server->resp_url : server->url)
        && (slot->speaks_resp ? remote_resp_begin(client, step->at, step, "")
                              : remote_begin(client, now_field(step->at, field), step)))
        return PLAYER_OK;
    return fail(http, client->error);
}

/* Ask, and find out whether it is answered or waits: either its answer comes, or the server counts one more. */
static enum player_result ask_waiting_request(struct player_http *http, const struct timeline_step *step,
                                              uint64_t turn, struct verdict *out)
{
    struct http_slot *slot = NULL;
    uint64_t before, waiting;
    enum player_result result = ask_waiting(http, step->replica, step->at, &before);
    if (result == PLAYER_OK)
        result = park(http, step, step->handle + turn, &slot);
    uint64_t deadline = clock_monotonic() + NOTICE_TIMEOUT_MS * WEIR_MILLISECOND;
    while (result == PLAYER_OK && clock_monotonic() < deadline) {
        if (is_readable(slot->client, 1)) {
            result = read_answer(http, slot);
            *out = slot->answer;
            slot_unpark(http, slot);
            return result;
        }
        result = ask_waiting(http, step->replica, step->at, &waiting);
        if (result == PLAYER_OK && waiting > before) {
            *out = (struct verdict){ .decided_at = WEIR_NO_TIME, .bound = { .outcome = WEIR_WAIT } };
            return PLAYER_OK;
        }
    }
    return result == PLAYER_OK ? fail(http, "a request is neither answered nor does it wait") : result;
}

/* Close the connection of who waits, and wait until the server has noticed. */
static enum player_result leave(struct player_http *http, const struct timeline_step *step, struct verdict *out)
{
    struct http_slot *slot = http->slots[step->handle];
    uint64_t before, waiting;
    enum player_result result = ask_waiting(http, step->replica, step->at, &before);
    if (result != PLAYER_OK)
        return result;
    if (slot == NULL || slot->client == NULL || slot->has_ended || is_readable(slot->client, 0)) {
        out->effect.error = effect_find_error("ended");
        (void)fail(http, "it waits no more"); /* the step says whether it was expected */
        return PLAYER_OK;
    }
    slot_unpark(http, slot);
    uint64_t deadline = clock_monotonic() + NOTICE_TIMEOUT_MS * WEIR_MILLISECOND;
    do {
        (void)poll(NULL, 0, 1); /* the close travels by itself */
        result = ask_waiting(http, step->replica, step->at, &waiting);
    } while (result == PLAYER_OK && waiting >= before && clock_monotonic() < deadline);
    return result == PLAYER_OK && waiting >= before ? fail(http, "a caller that left is still waited for")
                                                    : result;
}

/* When the last of those who wait at a server has given up. */
static weir_ns last_deadline(const struct player_http *http, size_t replica)
{
    weir_ns last = 0;
    for (const struct http_slot *slot = http->parked; slot != NULL; slot = slot->next_parked) {
        weir_ns deadline = slot->step->at + slot->step->request.wait;
        if (replica_of(slot) == replica && deadline > last)
            last = deadline;
    }
    return last;
}

static bool is_anybody_parked(const struct player_http *http, size_t replica)
{
    for (const struct http_slot *slot = http->parked; slot != NULL; slot = slot->next_parked)
        if (replica_of(slot) == replica)
            return true;
    return false;
}

/* Who is still parked behind the last deadline was forgotten: nothing is collected of it, and the play says so. */
static enum player_result http_advance(struct player *player, weir_ns now)
{
    struct player_http *http = (struct player_http *)player;
    bool is_end = now == WEIR_NO_TIME;
    uint64_t ignored;
    enum player_result result = PLAYER_OK;
    for (size_t i = 0; i < http->timeline->replica_count && result == PLAYER_OK; i++)
        if (is_anybody_parked(http, i))
            result = ask_waiting(http, i, is_end ? last_deadline(http, i) : now, &ignored);
    int timeout_ms = is_end ? NOTICE_TIMEOUT_MS : 0;
    for (struct http_slot *slot = http->parked; slot != NULL && result == PLAYER_OK; slot = slot->next_parked) {
        if (slot->has_ended)
            continue;
        if (is_readable(slot->client, timeout_ms))
            result = read_answer(http, slot);
        else
            timeout_ms = 0; /* once is enough */
    }
    return result;
}

static bool http_collect(struct player *player, size_t *handle, struct verdict *out)
{
    struct player_http *http = (struct player_http *)player;
    for (struct http_slot *slot = http->parked; slot != NULL; slot = slot->next_parked)
        if (slot->has_ended) {
            *handle = slot->handle;
            *out = slot->answer;
            slot_unpark(http, slot);
            return true;
        }
    return false;
}

/* ---- Steps ----------------------------------------------------------------------------------------------- */

static enum player_result restart(struct player_http *http, const struct timeline_step *step)
{
    forget_parked(http, step->replica);
    player_server_stop(&http->servers[step->replica]);
    return start_server(http, step->replica, step->at, NULL);
}

/* What a step is given is kept under its handle; what it ends was given to another. */
static enum player_result operate(struct player_http *http, const struct timeline_step *step, uint64_t turn,
                                  struct verdict *out)
{
    struct player_server *server = &http->servers[step->replica];
    enum player_door door = says_at_door(http, step) ? http->door : PLAYER_HTTP;
    struct client *client = door == PLAYER_RESP                                     ? &server->resp
                            : door == PLAYER_GRPC                                   ? &server->grpc.client
                            : step->kind == STEP_RESET || step->kind == STEP_RELOAD ? &server->admin
                                                                                    : &server->client;
    bool has_handle = step->handle != TIMELINE_NO_HANDLE;
    const struct http_slot *slot = has_handle ? http->slots[step->handle] : NULL;
    char gift[REMOTE_HANDLE_MAX] = "", field[NOW_FIELD_MAX];
    if (!step_decides(step->kind) && slot != NULL && slot->gift != NULL)
        (void)snprintf(gift, sizeof gift, "%s", slot->gift);
    player_server_drain_log(server);
    enum remote_result result = door == PLAYER_RESP ? remote_resp_operate(client, step->at, step, gift, out)
                                : door == PLAYER_GRPC
                                    ? remote_grpc_operate(&server->grpc, step->at, step, out)
                                    : remote_operate(client, now_field(step->at, field), step, gift, out);
    if (step_decides(step->kind) && has_handle && !slot_keep(http, step->handle + turn, gift))
        return fail(http, "out of memory");
    return result_of(http, client, result, out);
}

/* At every server, which all read the same file; the first one's answer counts. */
static enum player_result reload(struct player_http *http, const struct timeline_step *step,
                                 struct verdict *out)
{
    enum player_result result = PLAYER_OK;
    if (!write_contract(http, &step->contract))
        return fail(http, strerror(errno));
    for (size_t i = http->timeline->replica_count; i-- > 0 && result == PLAYER_OK;) {
        struct timeline_step there = *step;
        there.replica = i;
        *out = (struct verdict){ .decided_at = WEIR_NO_TIME, .expires_after = WEIR_NO_TIME };
        result = operate(http, &there, 0, out);
    }
    return result;
}

static enum player_result http_perform(struct player *player, const struct timeline_step *step, uint64_t turn,
                                       struct verdict *out)
{
    struct player_http *http = (struct player_http *)player;
    player->error[0] = '\0';
    *out = (struct verdict){ .decided_at = WEIR_NO_TIME, .expires_after = WEIR_NO_TIME };
    if (step->may_wait)
        return ask_waiting_request(http, step, turn, out);
    if (step->kind == STEP_LEAVE)
        return leave(http, step, out);
    if (step->kind == STEP_STORE)
        return fail(http, "the store is a real one here: `store` is for `weir test` without a door");
    if (step->kind == STEP_RESTART)
        return restart(http, step);
    if (step->kind == STEP_RELOAD)
        return reload(http, step, out);
    return operate(http, step, turn, out);
}

static void http_close(struct player *player)
{
    struct player_http *http = (struct player_http *)player;
    forget_slots(http);
    for (size_t i = 0; i < TIMELINE_REPLICAS_MAX; i++)
        player_server_stop(&http->servers[i]);
    free(http->slots);
    http->slots = NULL;
    if (http->folder[0] == '\0')
        return;
    if (http->tokens[0] != '\0')
        (void)unlink(http->tokens); /* as the next */
    if (http->contract[0] != '\0')
        (void)unlink(http->contract); /* a file left in /tmp harms nobody */
    (void)rmdir(http->folder);        /* likewise */
    http->folder[0] = '\0';
    http->contract[0] = '\0';
    http->tokens[0] = '\0';
}

const char *player_door_name(enum player_door door)
{
    static const char *const names[] = { "http", "resp", "grpc" };
    static_assert(sizeof names / sizeof *names == PLAYER_DOORS, "every door has a name");
    return names[door];
}

void player_http_init(struct player_http *http, enum player_door door)
{
    *http = (struct player_http){ .door = door,
                                  .player = { .name = player_door_name(door),
                                              .open = http_open,
                                              .perform = http_perform,
                                              .advance = http_advance,
                                              .collect = http_collect,
                                              .close = http_close,
                                              .has_store = getenv("WEIR_STORE") != NULL } };
    for (size_t i = 0; i < TIMELINE_REPLICAS_MAX; i++)
        player_server_init(&http->servers[i]);
}

#else

/* An empty file is not C. */
typedef int player_http_is_for_tests;

#endif
