// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_fleet_leases.c - `weir fleet leases`: what is out of leased limits, and who holds it until when.
 *
 * Idea: who holds a key stands beside it, in a record for each server, and only where something was leased. So the records' names
 * are what is walked over, and a key without leases costs nothing. What they say is read in one step, with the store's clock.
 */
#include <stdlib.h>

#include "cli/cmd_fleet_look.h"
#include "cli/options.h"
#include "sim/verdict.h"

static const char about[] =
    "Show who holds portions of leased limits, for each key: what is out, and below it\n"
    "the servers with what they may still spend, the most first. NAME=VALUE choose\n"
    "among the keys of --limit; without it, those of all limits with a lease are\n"
    "shown. The store is that of --store, else of WEIR_STORE, else the contract's.\n"
    "Exit status 0 when they were shown, 2 for wrong use, 3 when the store could not\n"
    "be had.\n";

/* Servers that are shown of one key. The store keeps records of as many. */
#define HOLDERS_MAX 1000

/* One leased key. */
struct leased {
    struct look look;
    char command[COMMAND_MAX];
    struct fleet_ask ask;
};

/* Keys of one node that are asked for together; large for the stack. */
static struct leased chunk[CHUNK_MAX];
static size_t ready;

/* What was read of the key that is being shown. */
struct shown {
    struct script_holders sums;
    struct script_holder holders[HOLDERS_MAX];
    size_t count; /* of holders */
};
static struct shown shown;

/* ---- Saying it ------------------------------------------------------------------------------------------------------------ */

/* The most first; of the same, in the order of their names. */
static int compare(const void *x, const void *y)
{
    const struct script_holder *one = x, *other = y;
    if (one->left != other->left)
        return one->left < other->left ? 1 : -1;
    int order = strcmp(one->label, other->label);
    return order != 0 ? order : (one->run > other->run) - (one->run < other->run);
}

static weir_ns time_left(const struct script_holder *holder)
{
    return holder->expires_after > 0 ? (weir_ns)holder->expires_after : 0;
}

static void print_text(const struct keys *keys, const struct look *look)
{
    const struct script_holders *sums = &shown.sums;
    char time[VERDICT_TIME_MAX];
    look_print_parts(look);
    printf(" limit=%s out=%llu holders=%zu granted=%llu spent=%llu returned=%llu lost=%llu\n", keys->limit_name,
           (unsigned long long)sums->out, sums->count, (unsigned long long)sums->granted,
           (unsigned long long)sums->spent, (unsigned long long)sums->returned, (unsigned long long)sums->lost);
    for (size_t i = 0; i < shown.count; i++) {
        struct script_holder *holder = &shown.holders[i];
        for (char *at = holder->label; *at != '\0'; at++) /* nothing else in them can disturb a line */
            *at = *at == ' ' ? '?' : *at;
        printf("  %s run=%016llx left=%llu wanted=%llu", holder->label[0] == '\0' ? "?" : holder->label,
               (unsigned long long)holder->run, (unsigned long long)holder->left,
               (unsigned long long)holder->wanted);
        if (time_left(holder) == 0)
            printf(" expired\n");
        else
            printf(" expires=%s\n", verdict_time(time_left(holder), WEIR_MILLISECOND, time));
    }
    if (shown.count < sums->count)
        printf("  and %zu more\n", sums->count - shown.count);
}

static void put_count(struct text *text, const char *name, uint64_t value)
{
    text_string(text, name);
    text_u64(text, value);
}

static void put_holder(struct text *text, const struct script_holder *holder)
{
    char run[24];
    (void)snprintf(run, sizeof run, "%016llx", (unsigned long long)holder->run);
    text_literal(text, "{\"label\": ");
    text_json(text, slice_of(holder->label));
    text_literal(text, ", \"run\": ");
    text_json(text, slice_of(run));
    put_count(text, ", \"left\": ", holder->left);
    put_count(text, ", \"wanted\": ", holder->wanted);
    text_literal(text, ", \"expires_after\": ");
    text_seconds(text, time_left(holder));
    text_literal(text, "}");
}

static void print_json(const struct keys *keys, const struct look *look)
{
    char room[4 * NAME_MAX_LEN + 1024];
    struct text text = text_of(room, sizeof room);
    text_literal(&text, "{");
    look_put_key(&text, keys, look);
    put_count(&text, ", \"out\": ", shown.sums.out);
    put_count(&text, ", \"granted\": ", shown.sums.granted);
    put_count(&text, ", \"spent\": ", shown.sums.spent);
    put_count(&text, ", \"returned\": ", shown.sums.returned);
    put_count(&text, ", \"lost\": ", shown.sums.lost);
    put_count(&text, ", \"holder_count\": ", shown.sums.count);
    text_literal(&text, ", \"holders\": [");
    (void)fwrite(text.at, 1, text.len, stdout); /* main() asks whether all arrived */
    for (size_t i = 0; i < shown.count; i++) {
        text.len = 0;
        text_string(&text, i == 0 ? "" : ", ");
        put_holder(&text, &shown.holders[i]);
        (void)fwrite(text.at, 1, text.len, stdout);
    }
    printf("]}\n");
}

/* ---- Asking --------------------------------------------------------------------------------------------------------------- */

/* What the store cannot give us, as against what stands there and is none of ours. */
static bool is_refusal(const struct leased *leased, struct resp_value *error)
{
    struct resp_reader reader = resp_reader_of(leased->ask.reply, leased->ask.reply_len);
    return resp_next(&reader, error) && error->type == RESP_ERROR
           && memmem(error->text.at, error->text.len, "WRONGTYPE", 9) == NULL;
}

static int show(struct keys *keys, const struct leased *leased)
{
    struct slice reply = { leased->ask.reply, leased->ask.reply_len }, why;
    struct resp_value error;
    if (is_refusal(leased, &error))
        return keys_refused(keys, &error);
    keys_progress(keys, true);
    if (!script_read_holders(reply, shown.holders, HOLDERS_MAX, &shown.sums, &why)) {
        char name[4 * NAME_MAX_LEN];
        (void)snprintf(name, sizeof name, "%.*s", (int)leased->look.name_len, leased->look.name);
        complain(keys->command, "%s: %.*s", name, why.len < 160 ? (int)why.len : 160, why.at);
        return EXIT_YES; /* whoever leases next begins it afresh */
    }
    shown.count = shown.sums.count < HOLDERS_MAX ? shown.sums.count : HOLDERS_MAX;
    qsort(shown.holders, shown.count, sizeof shown.holders[0], compare);
    if (keys->is_json)
        print_json(keys, &leased->look);
    else
        print_text(keys, &leased->look);
    return EXIT_YES;
}

static bool begin(struct keys *keys, struct leased *leased)
{
    struct slice name = { leased->look.name, leased->look.name_len };
    struct text text = text_of(leased->command, sizeof leased->command);
    if (!script_put_holders(&text, name))
        return false;
    fleet_ask_begin(&keys->session, &leased->ask, SIZE_MAX, name_slot(name), text_slice(&text));
    return true;
}

/* All that was gathered is asked and shown. */
static int flush(struct keys *keys)
{
    int status = EXIT_YES;
    size_t count = ready, begun = 0;
    ready = 0;
    keys->found += count;
    while (begun < count && begin(keys, &chunk[begun]))
        begun++;
    for (size_t i = 0; i < begun && status == EXIT_YES; i++)
        status = fleet_ask_wait(&keys->session, &chunk[i].ask, 1) ? show(keys, &chunk[i]) : keys_away(keys);
    for (size_t i = 0; i < begun; i++)
        fleet_ask_end(&keys->session, &chunk[i].ask);
    return begun == count ? status : EXIT_UNDECIDED;
}

/* The name of a record becomes that of its key. */
static int take(struct keys *keys, struct slice name)
{
    size_t behind = strlen(keys->suffix);
    if (name.len < behind || memcmp(name.at + name.len - behind, keys->suffix, behind) != 0)
        return EXIT_YES;
    ready += look_init(keys, &chunk[ready].look, (struct slice){ name.at, name.len - behind });
    return ready == CHUNK_MAX ? flush(keys) : EXIT_YES;
}

/* ---- What is meant ------------------------------------------------------------------------------------------------------------ */

/* The one key whose attributes are all given, whether or not something is leased of it. */
static int show_one(struct keys *keys, const struct weir_shared_ask *ask)
{
    char name[NAME_MAX_LEN];
    keys->chosen.count = 0; /* a long key does not show them */
    ready = look_init(keys, &chunk[0].look,
                      (struct slice){ name, name_write(keys->limit, ask->key, ask->key_len, name) });
    return ready == 1 ? flush(keys) : EXIT_UNDECIDED;
}

static int show_limit(struct keys *keys)
{
    static struct weir_shared shared; /* large for the stack */
    struct weir_fault fault = { 0 };
    if (!keys_find_limit(keys) || !keys_are_chosen_well(keys))
        return EXIT_WRONG;
    bool is_one = keys_are_one(keys);
    if (is_one
        && weir_contract_shared_key(keys->contract, keys->limit_name, keys->chosen.attributes,
                                    keys->chosen.count, &shared, &fault)
               != 0) {
        complain(keys->command, "%s", fault.message);
        return EXIT_WRONG;
    }
    int status = keys_open(keys);
    if (status != EXIT_YES)
        return status;
    return is_one ? show_one(keys, &shared.asks[0]) : keys_walk(keys);
}

static bool is_leased(const struct keys *keys, weir_limit_id id)
{
    return weir_contract_limit(keys->contract, id)->lease.most > 0;
}

/* Those of all leased limits, one after the other. */
static int show_all(struct keys *keys)
{
    size_t count = weir_contract_limit_count(keys->contract), leased = 0;
    for (size_t i = 0; i < count; i++)
        leased += is_leased(keys, (weir_limit_id)i);
    if (leased == 0) {
        complain(keys->command,
                 "no limit of the contract has a lease; of one that had, --limit NAME shows what "
                 "is still out");
        return EXIT_WRONG;
    }
    int status = keys_open(keys);
    for (size_t i = 0; i < count && status == EXIT_YES; i++) {
        keys->limit = weir_contract_limit(keys->contract, (weir_limit_id)i);
        keys->limit_name = keys->limit->name;
        if (is_leased(keys, (weir_limit_id)i))
            status = keys_walk(keys);
    }
    return status;
}

static int look_into(struct keys *keys)
{
    static char suffix[SCRIPT_HOLDERS_NAME_MAX + 1]; /* large for the stack */
    struct weir_contract *contract = contract_open_shared(keys->command, keys->contract_path);
    if (contract == NULL)
        return EXIT_WRONG;
    keys->contract = contract;
    suffix[script_holders_name(SLICE(""), suffix)] = '\0';
    keys->suffix = suffix;
    int status = keys->limit_name == NULL ? show_all(keys) : show_limit(keys);
    fleet_session_close(&keys->session);
    weir_contract_free(contract);
    return status;
}

int cmd_fleet_leases(int argc, char **argv)
{
    static struct keys keys = { .command = "fleet leases", .take = take, .flush = flush }; /* large */
    const struct option options[] = {
        { OPTION_TEXT, "store", "URL", "the store, in place of the contract's", &keys.store_url, 0, 0 },
        { OPTION_TEXT, "limit", "NAME", "whose leases; default: every limit's", &keys.limit_name, 0, 0 },
        { OPTION_FLAG, "json", NULL, "one JSON object per key", &keys.is_json, 0, 0 },
    };
    const struct usage usage = { keys.command, "[CONTRACT] [NAME=VALUE...]", about, options,
                                 sizeof options / sizeof *options };
    int status;
    int operands = options_parse(&usage, argc, argv, &status);
    if (operands < 0)
        return status;
    cli_request_init(&keys.chosen);
    if (!cli_request_read_operands(&keys.chosen, usage.command, argv + 1, operands, &keys.contract_path))
        return EXIT_WRONG;
    if (keys.limit_name == NULL && keys.chosen.count > 0) {
        complain(usage.command, "NAME=VALUE choose among the keys of one limit: add --limit NAME");
        return EXIT_WRONG;
    }
    keys.shows_progress = wants_colour(stderr);
    return look_into(&keys);
}
