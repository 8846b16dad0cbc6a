// SPDX-License-Identifier: Apache-2.0
/*
 * errand.c - one script command, and whatever becomes of it.
 *
 * What is sent again is only what the store says that it did not execute: it did not know the script, or may not be called by
 * its hash. That something was not executed matters to who answers by policy: what may have been counts as consumed.
 */
#include <stdlib.h>

#include "fleet/work.h"

static void heard(struct carrier_call *call, enum carrier_result result, struct slice reply);
static void forget_whole(const struct errand *errand);

/* ---- Writing the command ---------------------------------------------------------------------------------------- */

/* Into the fleet's scratch, which grows once to what the longest command needs. */
static bool write_command(struct errand *errand, struct slice *out)
{
    struct fleet *fleet = errand->fleet;
    for (;;) {
        struct text text = text_of(fleet->scratch, fleet->scratch_cap);
        if (errand->put(errand, &text, errand->form)) {
            *out = text_slice(&text);
            return true;
        }
        size_t cap = fleet->scratch_cap * 2;
        char *larger = cap > FLEET_COMMAND_MAX ? NULL : realloc(fleet->scratch, cap);
        if (larger == NULL)
            return false;
        fleet->scratch = larger;
        fleet->scratch_cap = cap;
    }
}

/* A short command goes into the owner's blocks; one with a whole script is freed before them. */
static bool keep_command(struct errand *errand, struct slice written)
{
    if (errand->form == SCRIPT_BY_HASH) {
        bool is_kept = block_copy(errand->blocks, written, &errand->by_hash);
        errand->call.command = errand->by_hash;
        return is_kept;
    }
    free(errand->whole);
    errand->whole = malloc(written.len);
    if (errand->whole == NULL)
        return false;
    memcpy(errand->whole, written.at, written.len);
    errand->call.command = (struct slice){ errand->whole, written.len };
    return true;
}

/* ---- Ends --------------------------------------------------------------------------------------------------------- */

static struct outage *outage_asked(const struct errand *errand)
{
    return errand->call.outage != NULL ? errand->call.outage : errand->outage;
}

/* The beginning and the end of an outage, once each. */
static void tell_outage(struct errand *errand, struct outage *outage, const char *why)
{
    struct outage_told told;
    char said[OUTAGE_WHY_MAX];
    switch (outage_news(outage, fleet_reading(errand->fleet, errand->fleet->now), &told)) {
    case OUTAGE_BEGAN:
        outage_why(outage, said);
        if (said[0] != '\0')
            fleet_log(errand->fleet, "event=store-away node=%s why=%s said=\"%s\"", told.address, why, said);
        else
            fleet_log(errand->fleet, "event=store-away node=%s why=%s", told.address, why);
        break;
    case OUTAGE_ENDED:
        fleet_log(errand->fleet, "event=store-back node=%s away_ms=%llu", told.address,
                  (unsigned long long)(told.away / WEIR_MILLISECOND));
        break;
    case OUTAGE_NO_NEWS:
        break;
    }
}

/* What the breaker learns of a failure; `is_mute`: nothing came, rather than that it cannot serve. `said` by the store, or
   empty. */
static void tell_failure(struct errand *errand, weir_ns now, bool is_mute, const char *why, struct slice said)
{
    struct outage *outage = outage_asked(errand);
    if (errand->is_probe)
        outage_probed(errand->outage, now, false);
    if (errand->is_probe || errand->is_asked_on)
        errand->away = outage_now(outage);
    else
        errand->away = is_mute ? outage_failed(outage, now) : outage_refused(outage, now);
    common_troubled(errand->fleet->common);
    outage_say(outage, said);
    if (!errand->is_probe && !errand->is_asked_on)
        background_nurse(errand->fleet, outage, errand->slot, errand->tag, now);
    tell_outage(errand, outage, why);
}

static void tell_answer(struct errand *errand, weir_ns now)
{
    struct outage *outage = outage_asked(errand);
    weir_ns took = now > errand->now ? now - errand->now : 0;
    if (errand->is_probe)
        outage_probed(errand->outage, now, true);
    else if (took <= errand->fleet->options.deadline)
        outage_heard(outage, now);
    else
        outage_alive(outage, now);
    tell_outage(errand, outage, "");
    if (!errand->fleet->options.injects_time)
        count_round_trip(errand->fleet->common, took);
}

static void hand_to_carrier(struct errand *errand)
{
    struct fleet *fleet = errand->fleet;
    errand->is_under_way = true;
    count_add(fleet->common, COUNT_COMMANDS, 1);
    if (errand->lease_messages > 0) {
        count_add(fleet->common, COUNT_LEASE_COMMANDS, 1);
        count_add(fleet->common, COUNT_LEASE_MESSAGES, errand->lease_messages);
    }
    fleet->carrier->send(fleet->carrier, &errand->call); /* the errand may be gone behind it */
}

static void go(struct errand *errand)
{
    struct fleet *fleet = errand->fleet;
    struct slice written;
    errand->call = (struct carrier_call){ .slot = errand->slot, .done = heard, .owner = errand };
    if (!write_command(errand, &written) || !keep_command(errand, written)) {
        count_add(fleet->common, COUNT_ERRORS, 1);
        forget_whole(errand);
        tell_failure(errand, fleet_reading(fleet, fleet->now), false, "no-memory", (struct slice){ 0 });
        errand->done(errand, ERRAND_AWAY, (struct slice){ 0 });
        return;
    }
    hand_to_carrier(errand);
}

/* Whole where the store forbids the hash, but for one command a minute. */
static enum script_form choose_form(struct fleet *fleet)
{
    if (!fleet->sends_whole)
        return SCRIPT_BY_HASH;
    if (fleet->now < fleet->tries_hash_at)
        return SCRIPT_WHOLE;
    fleet->tries_hash_at = fleet->now + FLEET_TRIES_HASH_NS;
    return SCRIPT_BY_HASH;
}

void errand_send(struct errand *errand, weir_ns now)
{
    struct fleet *fleet = errand->fleet;
    errand->now = now;
    errand->outage = fleet->carrier->outage(fleet->carrier, errand->slot);
    errand->form = choose_form(fleet);
    errand->is_again = false;
    errand->by_hash = (struct slice){ 0 };
    if (!errand->is_probe && !errand->is_asked_on
        && outage_ask(errand->outage, fleet->now, &errand->away) == OUTAGE_AVOID) {
        count_add(fleet->common, COUNT_AVOIDED, 1);
        background_nurse(fleet, errand->outage, errand->slot, errand->tag, fleet->now);
        tell_outage(errand, errand->outage, "breaker");
        errand->done(errand, ERRAND_AWAY, (struct slice){ 0 });
        return;
    }
    go(errand);
}

/* ---- Replies ------------------------------------------------------------------------------------------------------ */

static bool is_error(struct slice reply)
{
    return reply.len > 0 && (reply.at[0] == '-' || reply.at[0] == '!');
}

/* The line of an error, without what frames it. */
static struct slice error_text(struct slice reply)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    if (!resp_next(&reader, &value) || value.type != RESP_ERROR)
        return SLICE("?");
    return value.text;
}

/* What a node said that could not serve; nothing where there was no connection to it. */
static struct slice refusal_text(struct slice reply)
{
    return is_error(reply) ? error_text(reply) : (struct slice){ 0 };
}

static bool contains_fold(struct slice text, struct slice word)
{
    for (size_t i = 0; i + word.len <= text.len; i++)
        if (slice_equals_fold((struct slice){ text.at + i, word.len }, word))
            return true;
    return false;
}

/* Users without this command, and proxies that do not know it. */
static bool forbids_hash(struct slice error)
{
    bool is_about =
        slice_equals(resp_error_code(error), SLICE("NOPERM")) || contains_fold(error, SLICE("unknown command"));
    return is_about && contains_fold(error, SLICE("evalsha"));
}

/* Errors that the store gives before it runs anything. */
static bool is_before_executing(struct slice error)
{
    static const char *const codes[] = { "NOSCRIPT", "NOPERM",     "NOAUTH",      "BUSY",      "LOADING",
                                         "READONLY", "MASTERDOWN", "CLUSTERDOWN", "CROSSSLOT", "MOVED",
                                         "ASK",      "TRYAGAIN",   "NOREPLICAS",  "MISCONF" };
    struct slice code = resp_error_code(error);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (slice_equals(code, slice_of(codes[i])))
            return true;
    return contains_fold(error, SLICE("unknown command"));
}

/* What stands in a log: one line, no quotes. */
static void log_error(struct errand *errand, const char *event, struct slice error)
{
    char line[161];
    size_t len = error.len < sizeof line - 1 ? error.len : sizeof line - 1;
    for (size_t i = 0; i < len; i++)
        line[i] = error.at[i] < ' ' || error.at[i] == '"' || error.at[i] == 0x7f ? ' ' : error.at[i];
    line[len] = '\0';
    if (common_may_tell(errand->fleet->common, resp_error_code(error),
                        fleet_reading(errand->fleet, errand->fleet->now)))
        fleet_log(errand->fleet, "event=%s error=\"%s\"", event, line);
}

/* ---- Whole scripts ------------------------------------------------------------------------------------------------ */

/* The hash that is called: "*N $7 EVALSHA $40 HASH", each with CR LF. */
static struct slice hash_of(const struct errand *errand)
{
    struct slice command = errand->by_hash;
    const char *at = memmem(command.at, command.len, "\r\n$40\r\n", 7);
    if (at == NULL || command.len - (size_t)(at - command.at) < 47)
        return (struct slice){ 0 };
    return (struct slice){ at + 7, 40 };
}

static const struct errand **find_whole(const struct errand *errand)
{
    struct fleet *fleet = errand->fleet;
    for (size_t i = 0; i < FLEET_WHOLES; i++)
        if (fleet->wholes[i] != NULL && outage_asked(fleet->wholes[i]) == outage_asked(errand)
            && slice_equals(hash_of(fleet->wholes[i]), hash_of(errand)))
            return &fleet->wholes[i];
    return NULL;
}

static void note_whole(struct errand *errand)
{
    struct fleet *fleet = errand->fleet;
    for (size_t i = 0; i < FLEET_WHOLES; i++)
        if (fleet->wholes[i] == NULL) {
            fleet->wholes[i] = errand;
            return;
        }
}

static void forget_whole(const struct errand *errand)
{
    struct fleet *fleet = errand->fleet;
    for (size_t i = 0; errand->form == SCRIPT_WHOLE && i < FLEET_WHOLES; i++)
        if (fleet->wholes[i] == errand)
            fleet->wholes[i] = NULL;
}

/*
 * The store does not know the script. Of many commands that hear so at once, one carries it there, and the others follow by
 * hash on the same connection: a script has twenty thousand bytes. Who then hears the same again carries it too.
 */
static void send_unknown(struct errand *errand)
{
    if (!errand->is_again && find_whole(errand) != NULL) {
        errand->is_again = true;
        errand->call = (struct carrier_call){
            .command = errand->by_hash, .slot = errand->slot, .done = heard, .owner = errand
        };
        hand_to_carrier(errand);
        return;
    }
    count_add(errand->fleet->common, COUNT_SCRIPTS, 1);
    errand->form = SCRIPT_WHOLE;
    note_whole(errand);
    go(errand);
}

/* Said once, not with every try. */
static void send_forbidden(struct errand *errand, struct slice error)
{
    struct fleet *fleet = errand->fleet;
    if (!fleet->sends_whole) {
        log_error(errand, "script-sent-whole", error);
        fleet->sends_whole = true;
        fleet->tries_hash_at = fleet->now + FLEET_TRIES_HASH_NS;
    }
    count_add(fleet->common, COUNT_SCRIPTS, 1);
    errand->form = SCRIPT_WHOLE;
    go(errand);
}

static void heard_error(struct errand *errand, struct slice reply, weir_ns now)
{
    struct fleet *fleet = errand->fleet;
    struct slice error = error_text(reply);
    bool is_unknown = script_is_unknown(reply), is_forbidden = forbids_hash(error);
    if (errand->form == SCRIPT_BY_HASH && is_unknown) {
        fleet->sends_whole = false;
        send_unknown(errand);
        return;
    }
    if (errand->form == SCRIPT_BY_HASH && is_forbidden) {
        send_forbidden(errand, error);
        return;
    }
    count_add(fleet->common, COUNT_ERRORS, 1);
    log_error(errand, "store-error", error);
    tell_failure(errand, now, false, "error", error);
    errand->done(errand, is_before_executing(error) ? ERRAND_AWAY : ERRAND_UNSURE, (struct slice){ 0 });
}

static void heard(struct carrier_call *call, enum carrier_result result, struct slice reply)
{
    struct errand *errand = (struct errand *)((char *)call - offsetof(struct errand, call));
    struct fleet *fleet = errand->fleet;
    weir_ns now = fleet_reading(fleet, fleet->now);
    errand->is_under_way = false;
    forget_whole(errand);
    switch (result) {
    case CARRIER_REPLY:
        if (is_error(reply)) {
            heard_error(errand, reply, now);
            return;
        }
        tell_answer(errand, now);
        if (fleet->sends_whole && errand->form == SCRIPT_BY_HASH && hash_of(errand).len > 0)
            fleet->sends_whole = false;
        errand->done(errand, ERRAND_ANSWERED, reply);
        return;
    case CARRIER_REFUSED:
        count_add(fleet->common, COUNT_REFUSED, 1);
        tell_failure(errand, now, !call->is_topology, "refused", refusal_text(reply));
        errand->done(errand, ERRAND_AWAY, (struct slice){ 0 });
        return;
    case CARRIER_LOST:
        count_add(fleet->common, COUNT_LOST, 1);
        tell_failure(errand, now, true, "lost", (struct slice){ 0 });
        errand->done(errand, ERRAND_UNSURE, (struct slice){ 0 });
        return;
    }
}

void errand_abandon(struct errand *errand, weir_ns now, bool is_late)
{
    struct fleet *fleet = errand->fleet;
    if (!errand->is_under_way)
        return;
    errand->is_under_way = false;
    forget_whole(errand);
    fleet->carrier->abandon(fleet->carrier, &errand->call);
    if (is_late) {
        count_add(fleet->common, COUNT_LATE, 1);
        tell_failure(errand, now, true, "late", (struct slice){ 0 });
    }
}

void errand_is_bad(struct errand *errand, struct slice why)
{
    count_add(errand->fleet->common, COUNT_ERRORS, 1);
    struct slice error = why.len > 0 ? why : SLICE("REPLY it is none of the script's");
    log_error(errand, "store-error", error);
    tell_failure(errand, fleet_reading(errand->fleet, errand->fleet->now), false, "error", error);
}
