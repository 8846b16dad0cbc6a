// SPDX-License-Identifier: Apache-2.0
/*
 * script_drive.h - limits and operations as lines of text become commands to a real store, and their replies lines again.
 *
 *     L INDEX ALGORITHM ALIGN CALENDAR REFUSED LOST FREE_US TICK_US CAPACITY DEBT COUNT PERIOD ZONE [MOST CHUNK DURATION_US]
 *                                                                   a limit and its size; leased with MOST
 *     D VERB NOW_US HOLD_US ID RECORD BEGAN_US COUNT ITEM...        decide: VERB t, p, r or a; "-" is nothing
 *     U NOW_US                                                      undo the last decision
 *     S|C NOW_US ID RECORD COST COUNT ITEM...                       settle, cancel
 *     F|P NOW_US BEGAN_US COUNT ITEM...                             refund, spend
 *     N|E NOW_US ID COUNT ITEM...                                   renew, release
 *     X COUNT ITEM...                                               reset
 *     K NOW_US RUN LABEL BEGAN_US COUNT MESSAGE...                  messages about leases
 *     H KEY                                                         who holds portions of a key
 *     !                                                             answer what is outstanding
 * An ITEM is LIMIT KEY COST RETRY FLAGS (1 watched, 2 estimate), a MESSAGE is LIMIT KEY SEQ USED GIVE WANT VERSION USED AT, the last
 * three as seen. NOW_US 0: by the store's own clock.
 */
#ifndef WEIR_TEST_SCRIPT_DRIVE_H
#define WEIR_TEST_SCRIPT_DRIVE_H

#include <inttypes.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fleet/script.h"

#define DRIVE_LIMITS 64
#define DRIVE_WINDOW 64 /* commands on their way */

struct drive_operation {
    char kind;
    struct script_call call;
    struct script_item items[WEIR_ASKS_MAX];
    struct script_lease_call lease_call;
    struct script_lease leases[SCRIPT_LEASES_MAX];
    char line[1 << 14]; /* what slices point into */
};

static struct {
    int socket;
    struct weir_limit limits[DRIVE_LIMITS];
    struct weir_shared_size sizes[DRIVE_LIMITS];
    struct weir_lease leases[DRIVE_LIMITS];
    char zones[DRIVE_LIMITS][64];
    struct drive_operation ring[DRIVE_WINDOW];
    unsigned first, count; /* of the ring, outstanding */
    bool is_known[128];
    struct script_call last; /* decision, and its answers */
    struct script_item last_items[WEIR_ASKS_MAX];
    char last_line[1 << 14];
    struct script_answer answers[WEIR_ASKS_MAX];
    char in[1 << 20], out[SCRIPT_COMMAND_MAX + (1 << 20)];
    size_t in_len, out_len;
} drive;

static uint64_t drive_number(char **rest)
{
    char *word = strtok_r(NULL, " \n", rest);
    return word == NULL ? 0 : strtoull(word, NULL, 10);
}

static struct slice drive_word(char **rest)
{
    char *word = strtok_r(NULL, " \n", rest);
    return word == NULL || strcmp(word, "-") == 0 ? (struct slice){ NULL, 0 } : slice_of(word);
}

static void drive_limit(char **rest)
{
    size_t i = (size_t)drive_number(rest) % DRIVE_LIMITS;
    struct weir_limit *limit = &drive.limits[i];
    struct weir_shared_size *size = &drive.sizes[i];
    *limit = (struct weir_limit){ .name = "limit" };
    limit->algorithm = (enum weir_algorithm)drive_number(rest);
    limit->align = (enum weir_align)drive_number(rest);
    limit->calendar = (enum weir_calendar)drive_number(rest);
    limit->refused = (enum weir_refusal)drive_number(rest);
    limit->state_lost = (enum weir_state_lost)drive_number(rest);
    limit->retries_free_within = drive_number(rest) * WEIR_MICROSECOND;
    size->tick = drive_number(rest) * WEIR_MICROSECOND;
    size->capacity = drive_number(rest);
    size->debt = drive_number(rest);
    size->count = drive_number(rest);
    size->period = drive_number(rest);
    struct slice zone = drive_word(rest);
    (void)snprintf(drive.zones[i], sizeof drive.zones[i], "%.*s", (int)zone.len, zone.len > 0 ? zone.at : "");
    limit->zone = zone.len > 0 ? drive.zones[i] : NULL;
    drive.leases[i].most = drive_number(rest);
    drive.leases[i].chunk = drive_number(rest);
    drive.leases[i].duration = drive_number(rest) * WEIR_MICROSECOND;
}

static void drive_items(struct drive_operation *operation, char **rest)
{
    operation->call.items = operation->items;
    operation->call.count = (size_t)drive_number(rest);
    for (size_t i = 0; i < operation->call.count; i++) {
        size_t limit = (size_t)drive_number(rest) % DRIVE_LIMITS;
        struct script_item *item = &operation->items[i];
        *item = (struct script_item){ .limit = &drive.limits[limit],
                                      .size = drive.sizes[limit],
                                      .lease = drive.leases[limit] };
        item->name = drive_word(rest);
        item->cost = drive_number(rest);
        item->retry = drive_word(rest);
        uint64_t flags = drive_number(rest);
        item->is_watched = (flags & 1) != 0;
        item->is_estimate = (flags & 2) != 0;
    }
}

static void drive_messages(struct drive_operation *operation, char **rest)
{
    struct script_lease_call *call = &operation->lease_call;
    *call = (struct script_lease_call){ .leases = operation->leases, .wall_us = drive_number(rest) };
    call->has_time = call->wall_us > 0;
    call->run = drive_number(rest);
    call->label = drive_word(rest);
    call->incarnation = (struct incarnation){ 1, drive_number(rest) };
    call->count = (size_t)drive_number(rest);
    for (size_t i = 0; i < call->count && i < SCRIPT_LEASES_MAX; i++) {
        size_t limit = (size_t)drive_number(rest) % DRIVE_LIMITS;
        struct script_lease *lease = &operation->leases[i];
        *lease = (struct script_lease){ .limit = &drive.limits[limit],
                                        .size = drive.sizes[limit],
                                        .lease = drive.leases[limit] };
        lease->name = drive_word(rest);
        lease->seq = drive_number(rest);
        lease->used = drive_number(rest);
        lease->give = drive_number(rest);
        lease->want = drive_number(rest);
        lease->seen.version = drive_number(rest);
        lease->seen.used = drive_number(rest);
        lease->seen.at = drive_number(rest);
    }
}

/* ---- The connection ------------------------------------------------------------------------------------------------- */

static void drive_flush(void)
{
    size_t done = 0;
    while (done < drive.out_len) {
        ssize_t n = write(drive.socket, drive.out + done, drive.out_len - done);
        if (n <= 0)
            exit(3);
        done += (size_t)n;
    }
    drive.out_len = 0;
}

/* The next whole reply, and how long it is; it stays in front of drive.in. */
static size_t drive_reply(void)
{
    struct resp_reply_parser parser = RESP_REPLY_START;
    size_t len;
    for (;;) {
        enum resp_result result = resp_reply_parse(&parser, drive.in, drive.in_len, &len);
        if (result == RESP_DONE)
            return len;
        ssize_t n = result == RESP_BAD || drive.in_len == sizeof drive.in
                        ? 0
                        : read(drive.socket, drive.in + drive.in_len, sizeof drive.in - drive.in_len);
        if (n <= 0)
            exit(4);
        drive.in_len += (size_t)n;
    }
}

static void drive_length(weir_ns length, weir_ns tick)
{
    if (length == WEIR_NO_TIME)
        printf(" -1");
    else
        printf(" %" PRIu64, length / tick);
}

static void drive_tell_decision(struct drive_operation *operation, struct slice reply)
{
    struct slice why;
    struct script_answer *answers = drive.answers;
    if (!script_read_decide(reply, &operation->call, answers, &why)) {
        printf("error %.*s\n", (int)why.len, why.at);
        return;
    }
    for (size_t i = 0; i < operation->call.count; i++) {
        printf("%s%d %" PRIu64, i > 0 ? " ; " : "", (int)answers[i].outcome, answers[i].remaining);
        drive_length(answers[i].retry_after, operation->items[i].size.tick);
        drive_length(answers[i].reset_after, operation->items[i].size.tick);
        printf(" %d %d %" PRIu64 " %" PRIu64, answers[i].is_charged, answers[i].was_damaged, answers[i].fence,
               answers[i].charged_at);
    }
    printf("\n");
}

static void drive_tell_leases(struct drive_operation *operation, struct slice reply)
{
    struct slice why;
    struct script_lease_answer answers[SCRIPT_LEASES_MAX];
    if (!script_read_lease(reply, &operation->lease_call, answers, &why)) {
        printf("error %.*s\n", (int)why.len, why.at);
        return;
    }
    for (size_t i = 0; i < operation->lease_call.count; i++) {
        const struct script_lease_answer *a = &answers[i];
        printf("%s%d %d %d %d %" PRIu64 " %" PRIu64, i > 0 ? " ; " : "", a->is_stale, a->is_repeated,
               a->was_damaged, a->has_lost_writes, a->granted, a->left);
        drive_length(a->ttl, WEIR_MICROSECOND);
        printf(" %" PRIu64, a->remaining);
        drive_length(a->retry_after, operation->leases[i].size.tick);
        drive_length(a->ends_after, WEIR_MICROSECOND);
        printf(" %" PRIu64 " %" PRIu64 " %" PRIu64, a->seen.version, a->seen.used, a->seen.at);
    }
    printf("\n");
}

static void drive_tell_holders(struct slice reply)
{
    struct slice why;
    static struct script_holder holders[64];
    struct script_holders all;
    if (!script_read_holders(reply, holders, COUNT_OF(holders), &all, &why)) {
        printf("error %.*s\n", (int)why.len, why.at);
        return;
    }
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %zu", all.out, all.granted,
           all.returned, all.spent, all.lost, all.count);
    for (size_t i = 0; i < all.count && i < COUNT_OF(holders); i++)
        printf(" ; %" PRIu64 " %s %" PRIu64 " %" PRIu64 " %" PRId64, holders[i].run,
               holders[i].label[0] == '\0' ? "-" : holders[i].label, holders[i].left, holders[i].wanted,
               holders[i].expires_after / (int64_t)WEIR_MICROSECOND);
    printf("\n");
}

static void drive_tell(struct drive_operation *operation, struct slice reply)
{
    struct slice why;
    struct script_settlement s;
    struct script_permit permit;
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    if (operation->kind == 'D') {
        drive_tell_decision(operation, reply);
    } else if (operation->kind == 'K') {
        drive_tell_leases(operation, reply);
    } else if (operation->kind == 'H') {
        drive_tell_holders(reply);
    } else if (strchr("SCFP", operation->kind) != NULL) {
        if (script_read_settle(reply, &s, &why))
            printf("%d %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 "\n", s.is_known,
                   s.is_repeated, s.charged, s.returned, s.dropped,
                   s.remaining == WEIR_UNLIMITED ? -1 : (int64_t)s.remaining,
                   s.item == SCRIPT_NO_ITEM ? -1 : (int64_t)s.item);
        else
            printf("error %.*s\n", (int)why.len, why.at);
    } else if (strchr("NE", operation->kind) != NULL) {
        if (script_read_permit(reply, &permit, &why)) {
            printf("%d", permit.was_held);
            drive_length(permit.expires_after, WEIR_MICROSECOND);
            printf("\n");
        } else {
            printf("error %.*s\n", (int)why.len, why.at);
        }
    } else if (resp_next(&reader, &value) && value.type == RESP_INTEGER) {
        printf("%" PRId64 "\n", value.integer);
    } else {
        printf("error %.*s\n", (int)value.text.len, value.text.at);
    }
}

static void drive_settle_one(void)
{
    struct drive_operation *operation = &drive.ring[drive.first % DRIVE_WINDOW];
    size_t len = drive_reply();
    drive_tell(operation, (struct slice){ drive.in, len });
    memmove(drive.in, drive.in + len, drive.in_len - len);
    drive.in_len -= len;
    drive.first++;
    drive.count--;
}

static void drive_drain(void)
{
    drive_flush();
    while (drive.count > 0)
        drive_settle_one();
    fflush(stdout);
}

/* ---- Operations ------------------------------------------------------------------------------------------------------ */

static void drive_time(struct script_call *call, char **rest)
{
    call->wall_us = drive_number(rest);
    call->has_time = call->wall_us > 0;
}

static bool drive_put(struct drive_operation *operation, char *rest)
{
    static const enum script_verb verbs[128] = {
        ['t'] = SCRIPT_TAKE, ['p'] = SCRIPT_PEEK, ['r'] = SCRIPT_RESERVE, ['a'] = SCRIPT_ACQUIRE
    };
    struct script_call *call = &operation->call;
    struct text out = text_of(drive.out + drive.out_len, sizeof drive.out - drive.out_len);
    enum script_form form = drive.is_known[(int)operation->kind] ? SCRIPT_BY_HASH : SCRIPT_WHOLE;
    drive.is_known[(int)operation->kind] = true;
    uint64_t cost = 0;
    bool is_put = false;
    struct slice word;
    *call = (struct script_call){ .verb = SCRIPT_TAKE };
    switch (operation->kind) {
    case 'D':
        word = drive_word(&rest);
        call->verb = verbs[(unsigned char)word.at[0] & 127];
        drive_time(call, &rest);
        call->hold = drive_number(&rest) * WEIR_MICROSECOND;
        call->id = drive_word(&rest);
        call->record = drive_word(&rest);
        call->incarnation = (struct incarnation){ 1, drive_number(&rest) };
        drive_items(operation, &rest);
        is_put = script_put_decide(&out, form, call);
        break;
    case 'U':
        drive_time(&drive.last, &rest);
        is_put = script_put_undo(&out, form, &drive.last, drive.answers);
        break;
    case 'S':
    case 'C':
        drive_time(call, &rest);
        call->id = drive_word(&rest);
        call->record = drive_word(&rest);
        cost = drive_number(&rest);
        drive_items(operation, &rest);
        is_put = script_put_settle(&out, form, call, operation->kind == 'C', cost);
        break;
    case 'F':
    case 'P':
        drive_time(call, &rest);
        call->incarnation = (struct incarnation){ 1, drive_number(&rest) };
        drive_items(operation, &rest);
        is_put =
            operation->kind == 'F' ? script_put_refund(&out, form, call) : script_put_spend(&out, form, call);
        break;
    case 'N':
    case 'E':
        drive_time(call, &rest);
        call->id = drive_word(&rest);
        drive_items(operation, &rest);
        is_put =
            operation->kind == 'N' ? script_put_renew(&out, form, call) : script_put_release(&out, form, call);
        break;
    case 'K':
        drive_messages(operation, &rest);
        is_put = script_put_lease(&out, form, &operation->lease_call);
        break;
    case 'H':
        is_put = script_put_holders(&out, drive_word(&rest));
        break;
    default:
        drive_items(operation, &rest);
        is_put = script_put_reset(&out, call);
        break;
    }
    drive.out_len += out.len;
    return is_put;
}

/* The last decision's words, moved to where they stay. */
static void drive_remember(const struct drive_operation *operation)
{
    memcpy(drive.last_line, operation->line, sizeof drive.last_line);
    memcpy(drive.last_items, operation->items, sizeof drive.last_items);
    drive.last = operation->call;
    drive.last.items = drive.last_items;
    ptrdiff_t by = drive.last_line - operation->line;
    for (size_t i = 0; i < drive.last.count; i++) {
        drive.last_items[i].name.at += by;
        if (drive.last_items[i].retry.len > 0)
            drive.last_items[i].retry.at += by;
    }
    if (drive.last.id.len > 0)
        drive.last.id.at += by;
}

static int script_drive(const char *path, bool is_resp3)
{
    static char line[1 << 14];
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    drive.socket = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(drive.socket, (struct sockaddr *)&address, sizeof address) != 0)
        return 2;
    if (is_resp3) {
        drive.out_len = (size_t)sprintf(drive.out, "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
        drive_flush();
        size_t len = drive_reply();
        memmove(drive.in, drive.in + len, drive.in_len - len);
        drive.in_len -= len;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *rest;
        if (line[0] == 'L') {
            drive_drain(); /* operations under way refer to limits by place */
            (void)strtok_r(line, " \n", &rest);
            drive_limit(&rest);
            continue;
        }
        if (line[0] == '!' || line[0] == 'U' || drive.count == DRIVE_WINDOW || drive.out_len > sizeof drive.in)
            drive_drain();
        if (line[0] == '!')
            continue;
        struct drive_operation *operation = &drive.ring[(drive.first + drive.count) % DRIVE_WINDOW];
        memcpy(operation->line, line, sizeof line);
        operation->kind = line[0];
        (void)strtok_r(operation->line, " \n", &rest);
        if (!drive_put(operation, rest))
            return 5;
        if (operation->kind == 'D')
            drive_remember(operation);
        drive.count++;
    }
    drive_drain();
    return 0;
}

#endif
