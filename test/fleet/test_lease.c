// SPDX-License-Identifier: Apache-2.0
/* test_lease.c - one portion step by step: what is spent, what an answer changes, when there is something to say and how often. */
#include "fleet/lease.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define AT(ms) ((weir_ns)(100000 + (ms)) * MS)

static const struct weir_lease terms = { 100, 20, 2 * WEIR_SECOND };

/* ---- Steps ------------------------------------------------------------------------------------------------------------- */

enum deed { TAKE, PART, KEEP, UNDO, SPEAK, LAST, HEAR, STALE, UNHEARD, EXPIRE };

/* One deed, what it gives, and what there is behind it. */
struct step {
    const char *why;
    weir_ns at; /* ms */
    enum deed deed;
    uint64_t number; /* TAKE, PART: cost; KEEP, UNDO: tokens; HEAR: granted; UNHEARD: pause in ms */
    uint64_t extra;  /* HEAR: left; KEEP, UNDO: the life of the taking */
    uint64_t gives;  /* TAKE, PART: taken; SPEAK: used * 10000 + give * 100 + want, 0: silence; EXPIRE: ended */
    uint64_t have, pending, used;
};

static uint64_t speak(struct holding *holding, uint64_t *seq, bool hands_back, weir_ns now)
{
    struct script_lease message;
    bool is_new;
    if (!lease_speak(holding, *seq + 1, hands_back, now, &message, &is_new))
        return 0;
    *seq += is_new;
    assert_int_equal(message.seq, *seq);
    return message.used * 10000 + message.give * 100 + message.want;
}

static uint64_t do_deed(struct holding *holding, uint64_t *seq, const struct step *step)
{
    weir_ns now = AT(step->at);
    struct script_lease_answer answer = { .granted = step->number,
                                          .left = step->extra,
                                          .ttl = terms.duration,
                                          .ends_after = WEIR_NO_TIME,
                                          .is_stale = step->deed == STALE };
    switch (step->deed) {
    case TAKE:
    case PART:
        return lease_take(holding, step->number, step->deed == PART, now);
    case KEEP:
        lease_keep(holding, step->number, (uint32_t)step->extra);
        return 0;
    case UNDO:
        lease_undo(holding, step->number, (uint32_t)step->extra);
        return 0;
    case SPEAK:
    case LAST:
        return speak(holding, seq, step->deed == LAST, now);
    case HEAR:
    case STALE:
        (void)lease_hear(holding, *seq, &answer, now);
        return 0;
    case UNHEARD:
        lease_unheard(holding, *seq, step->number * MS, now);
        return 0;
    case EXPIRE:
        return lease_expire(holding, now);
    }
    return 0;
}

static void follow(const struct step *steps, size_t count)
{
    struct holding holding;
    uint64_t seq = 0;
    lease_init(&holding, &terms, AT(0));
    for (size_t i = 0; i < count; i++) {
        const struct step *step = &steps[i];
        uint64_t gave = do_deed(&holding, &seq, step);
        if (gave != step->gives || holding.have != step->have || holding.pending != step->pending
            || holding.used != step->used)
            fail_msg("%s: gave %ju, have %ju, pending %ju, used %ju", step->why, (uintmax_t)gave,
                     (uintmax_t)holding.have, (uintmax_t)holding.pending, (uintmax_t)holding.used);
    }
}

#define FOLLOW(steps) follow(steps, COUNT_OF(steps))

static void a_portion_is_asked_for_spent_and_told(void **state)
{
    (void)state;
    /* Two requests at once: 2 tokens spread over 1 s, so 3 are wanted for the next. */
    static const struct step steps[] = {
        { "one request is no reason for a portion", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "so nothing is said", 0, SPEAK, 0, 0, 0, 0, 0, 0 },
        { "a second one is", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "1.5 times what it goes by a second", 0, SPEAK, 0, 0, 3, 0, 0, 0 },
        { "one message at a time", 1, SPEAK, 0, 0, 0, 0, 0, 0 },
        { "granted", 2, HEAR, 3, 3, 0, 3, 0, 0 },
        { "an answer counts once", 2, HEAR, 3, 6, 0, 3, 0, 0 },
        { "taken is pending", 10, TAKE, 2, 0, 2, 1, 2, 0 },
        { "all or nothing", 10, TAKE, 2, 0, 0, 1, 2, 0 },
        { "or what there is", 10, PART, 2, 0, 1, 0, 3, 0 },
        { "undone it is there again", 10, UNDO, 1, 0, 0, 1, 2, 0 },
        { "kept it is used", 10, KEEP, 2, 0, 0, 1, 0, 2 },
        /* Asked in the first second: 2 + 2 + 2 + 2 - 1 undone = 7, of which 1.5 for a second: 11 wanted, 1 had. */
        { "reported, and more wanted for it goes faster", 10, SPEAK, 0, 0, 20010, 1, 0, 0 },
        { "spending goes on meanwhile", 11, TAKE, 1, 0, 1, 0, 1, 0 },
        { "and is told with the next message", 11, KEEP, 1, 0, 0, 0, 0, 1 },
        { "left is what was not told, and the grant", 12, HEAR, 10, 11, 0, 10, 0, 1 },
    };
    FOLLOW(steps);
}

static void a_message_is_sent_again_as_it_was(void **state)
{
    (void)state;
    static const struct step steps[] = {
        { "one", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "two", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "first", 0, SPEAK, 0, 0, 3, 0, 0, 0 },
        { "not heard: again in 50 ms", 10, UNHEARD, 50, 0, 0, 0, 0, 0 },
        { "not before", 59, SPEAK, 0, 0, 0, 0, 0, 0 },
        { "more demand changes nothing of it", 60, TAKE, 9, 0, 0, 0, 0, 0 },
        { "as it was", 60, SPEAK, 0, 0, 3, 0, 0, 0 },
        { "not even at the end", 60, LAST, 0, 0, 0, 0, 0, 0 },
        { "what was granted the first time", 70, HEAR, 3, 3, 0, 3, 0, 0 },
        { "it counts from the first sending: 1.98 s", 1979, TAKE, 1, 0, 1, 2, 1, 0 },
        { "and ends then", 1980, TAKE, 1, 0, 0, 0, 0, 0 },
    };
    FOLLOW(steps);
}

static void what_ends_is_told_as_used_and_not_put_back(void **state)
{
    (void)state;
    static const struct step steps[] = {
        { "one", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "two", 0, TAKE, 5, 0, 0, 0, 0, 0 },
        { "asked", 0, SPEAK, 0, 0, 9, 0, 0, 0 },
        { "granted", 1, HEAR, 9, 9, 0, 9, 0, 0 },
        { "taken before the end", 1900, TAKE, 4, 0, 4, 5, 4, 0 },
        { "used before the end", 1900, KEEP, 1, 0, 0, 5, 3, 1 },
        { "the end: 5 in hand, 3 undecided", 1980, EXPIRE, 0, 0, 8, 0, 0, 1 },
        { "once", 1980, EXPIRE, 0, 0, 0, 0, 0, 1 },
        { "not put back into the next life", 1981, UNDO, 2, 0, 0, 0, 0, 1 },
        { "nor counted in it", 1981, KEEP, 1, 0, 0, 0, 0, 1 },
        { "all of it is told as used", 1990, LAST, 0, 0, 90000, 0, 0, 0 },
        { "and that is all", 1991, HEAR, 0, 0, 0, 0, 0, 0 },
        { "nothing more to say", 1991, LAST, 0, 0, 0, 0, 0, 0 },
    };
    FOLLOW(steps);
}

static void an_answer_behind_its_own_end_gives_nothing_and_goes_back(void **state)
{
    (void)state;
    static const struct step steps[] = {
        { "one", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "two", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "asked", 0, SPEAK, 0, 0, 3, 0, 0, 0 },
        { "at 1.98 s it is too late", 1980, HEAR, 3, 3, 0, 0, 0, 0 },
        { "given back at once; nobody asks any more", 1980, SPEAK, 0, 0, 300, 0, 0, 0 },
        { "answered", 1981, HEAR, 0, 0, 0, 0, 0, 0 },
        { "silence", 1981, LAST, 0, 0, 0, 0, 0, 0 },
    };
    FOLLOW(steps);
}

static void a_portion_that_the_store_has_forgotten_ends(void **state)
{
    (void)state;
    static const struct step steps[] = {
        { "one", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "two", 0, TAKE, 5, 0, 0, 0, 0, 0 },
        { "asked", 0, SPEAK, 0, 0, 9, 0, 0, 0 },
        { "granted", 1, HEAR, 9, 9, 0, 9, 0, 0 },
        { "undecided", 2, TAKE, 2, 0, 2, 7, 2, 0 },
        { "spent", 2, TAKE, 6, 0, 6, 1, 8, 0 },
        { "spent", 2, KEEP, 6, 0, 0, 1, 2, 6 },
        { "reported; a chunk less the 3 that we hold is wanted", 2, SPEAK, 0, 0, 60017, 1, 2, 0 },
        { "the record holds the 4 that it granted, and not our 1 and 2", 3, HEAR, 4, 4, 0, 4, 0, 0 },
        { "the undecided is of another life", 4, UNDO, 2, 0, 0, 4, 0, 0 },
        { "and so if it is kept", 4, KEEP, 2, 0, 0, 4, 0, 0 },
        { "what is left is spent", 5, TAKE, 4, 0, 4, 0, 4, 0 },
    };
    FOLLOW(steps);
    static const struct step rolled_back[] = {
        { "one", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "two", 0, TAKE, 5, 0, 0, 0, 0, 0 },
        { "asked", 0, SPEAK, 0, 0, 9, 0, 0, 0 },
        { "the record holds 5 more than it granted: reports of ours were lost", 1, HEAR, 9, 14, 0, 9, 0, 0 },
        { "they are told again, not given back", 1, LAST, 0, 0, 50900, 0, 0, 0 },
    };
    FOLLOW(rolled_back);
    static const struct step stale[] = {
        { "one", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "two", 0, TAKE, 5, 0, 0, 0, 0, 0 },
        { "asked", 0, SPEAK, 0, 0, 9, 0, 0, 0 },
        { "granted", 1, HEAR, 9, 9, 0, 9, 0, 0 },
        { "given back", 2, LAST, 0, 0, 900, 0, 0, 0 },
        { "a later message of ours was seen: nothing is known", 3, STALE, 0, 0, 0, 0, 0, 0 },
        { "and nothing is said", 3, LAST, 0, 0, 0, 0, 0, 0 },
    };
    FOLLOW(stale);
}

static void an_exhausted_pool_is_not_asked_before_it_has_something(void **state)
{
    (void)state;
    static const struct step steps[] = {
        { "one", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "two", 0, TAKE, 1, 0, 0, 0, 0, 0 },
        { "asked", 0, SPEAK, 0, 0, 3, 0, 0, 0 },
        { "nothing: quarter of a second at least", 1, HEAR, 0, 0, 0, 0, 0, 0 },
        { "demand goes on", 100, TAKE, 1, 0, 0, 0, 0, 0 },
        { "too early", 250, SPEAK, 0, 0, 0, 0, 0, 0 },
        { "again", 251, SPEAK, 0, 0, 4, 0, 0, 0 },
        { "one", 252, HEAR, 1, 1, 0, 1, 0, 0 },
        { "spent", 253, TAKE, 1, 0, 1, 0, 1, 0 },
        { "spent", 253, KEEP, 1, 0, 0, 0, 0, 1 },
        { "a quarter of what was wanted: an eighth of a second", 376, SPEAK, 0, 0, 0, 0, 0, 1 },
        { "then report and ask", 377, SPEAK, 0, 0, 10005, 0, 0, 0 },
    };
    FOLLOW(steps);
}

/* ---- What a broken store may say ------------------------------------------------------------------------------------------- */

static void a_broken_answer_gives_no_more_than_was_wanted(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        struct script_lease_answer answer;
        uint64_t have, gone;
        weir_ns expires_at;
    } rows[] = {
        { "as it should be", { .granted = 3, .left = 3, .ttl = 2000 * MS }, 3, 0, AT(1980) },
        { "more than wanted", { .granted = 50, .left = 50, .ttl = 2000 * MS }, 3, 47, AT(1980) },
        { "longer than asked for", { .granted = 3, .left = 3, .ttl = WEIR_NO_TIME }, 3, 0, AT(1980) },
        { "until a window's end", { .granted = 3, .left = 3, .ttl = 100 * MS }, 3, 0, AT(99) },
        { "more than it holds", { .granted = 3, .left = 1, .ttl = 2000 * MS }, 1, 0, AT(1980) },
        { "above all numbers",
          { .granted = UINT64_MAX, .left = UINT64_MAX, .ttl = 2000 * MS },
          3,
          (UINT64_C(1) << 52) - 4,
          AT(1980) },
        { "over at once", { .granted = 3, .left = 3, .ttl = 0 }, 0, 0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct holding holding;
        uint64_t seq = 0;
        lease_init(&holding, &terms, AT(0));
        (void)lease_take(&holding, 1, false, AT(0));
        (void)lease_take(&holding, 1, false, AT(0));
        assert_int_equal(speak(&holding, &seq, false, AT(0)), 3);
        struct script_lease_answer answer = rows[i].answer;
        answer.ends_after = answer.retry_after = WEIR_NO_TIME;
        (void)lease_hear(&holding, seq, &answer, AT(1));
        expect_row(holding.have == rows[i].have, rows[i].why);
        expect_row(holding.gone == rows[i].gone, rows[i].why);
        expect_row(holding.expires_at == rows[i].expires_at, rows[i].why);
        uint64_t said = speak(&holding, &seq, true, AT(2));
        expect_row(said > 0 && said / 10000 <= (UINT64_C(1) << 52), rows[i].why);
    }
}

static void numbers_at_their_ends_do_not_overflow(void **state)
{
    (void)state;
    static const uint64_t costs[] = { 1, UINT64_C(1) << 52, UINT64_MAX };
    static const weir_ns durations[] = { 0, 1, 200 * MS, 86400 * WEIR_SECOND, WEIR_NO_TIME };
    for (size_t i = 0; i < COUNT_OF(costs); i++)
        for (size_t j = 0; j < COUNT_OF(durations); j++) {
            struct holding holding;
            const struct weir_lease lease = { UINT64_C(1) << 52, UINT64_C(1) << 52, durations[j] };
            uint64_t seq = 0;
            lease_init(&holding, &lease, AT(0));
            for (weir_ns at = 0; at < 100; at++)
                (void)lease_take(&holding, costs[i], true, AT(at));
            (void)speak(&holding, &seq, false, AT(100));
            assert_true(holding.flight.want <= lease.chunk);
            assert_true(holding.low <= lease.chunk);
            const struct script_lease_answer answer = { .granted = holding.flight.want,
                                                        .left = holding.flight.want,
                                                        .ttl = durations[j],
                                                        .ends_after = WEIR_NO_TIME - 1 };
            (void)lease_hear(&holding, seq, &answer, WEIR_NO_TIME - 2);
            assert_true(lease_due_at(&holding) <= WEIR_NO_TIME);
        }
}

/* ---- How often it speaks ------------------------------------------------------------------------------------------------- */

/* One process, a pool that always has enough, requests of one token at a steady pace. */
struct pace {
    const char *why;
    uint64_t per_second;
    struct weir_lease lease;
    weir_ns round_trip;                     /* ms */
    uint64_t messages_least, messages_most; /* a second */
    uint64_t dry_most;                      /* of 10,000 requests, those that found nothing in hand */
};

struct run {
    struct holding holding;
    uint64_t seq, left, messages, asked, dry;
    struct script_lease message;
    weir_ns answer_at; /* 0: none is under way */
};

static void speak_in_run(struct run *run, weir_ns now, weir_ns round_trip)
{
    bool is_new;
    if (run->answer_at > 0 || !lease_speak(&run->holding, run->seq + 1, false, now, &run->message, &is_new))
        return;
    run->seq += 1;
    run->messages += 1;
    run->answer_at = now + round_trip;
}

static void answer_in_run(struct run *run, weir_ns now)
{
    if (run->answer_at == 0 || now < run->answer_at)
        return;
    uint64_t room = run->message.lease.chunk - (run->left - run->message.used - run->message.give);
    uint64_t granted = run->message.want < room ? run->message.want : room;
    run->left += granted - run->message.used - run->message.give;
    const struct script_lease_answer answer = { .granted = granted,
                                                .left = run->left,
                                                .ttl = run->message.lease.duration,
                                                .remaining = 1000000,
                                                .ends_after = WEIR_NO_TIME };
    (void)lease_hear(&run->holding, run->seq, &answer, now);
    run->answer_at = 0;
}

static void request_in_run(struct run *run, weir_ns now, weir_ns round_trip)
{
    uint64_t taken = lease_take(&run->holding, 1, false, now);
    run->asked += 1;
    run->dry += taken == 0;
    if (lease_is_urgent(&run->holding, now))
        speak_in_run(run, now, round_trip);
    if (taken > 0)
        lease_keep(&run->holding, taken, run->holding.life);
}

/* In steps of a tenth of a ms from `from` to `to` (ms), with a beat every 50 ms as the lessee's. */
static void run_for(struct run *run, const struct pace *pace, weir_ns from, weir_ns to, bool is_asked)
{
    uint64_t sent = 0;
    for (weir_ns tick = 10 * from; tick < 10 * to; tick++) {
        weir_ns now = AT(0) + tick * MS / 10;
        answer_in_run(run, now);
        for (; is_asked && sent * 10000 <= (tick - 10 * from) * pace->per_second; sent++)
            request_in_run(run, now, pace->round_trip * MS);
        if (tick % 500 == 0 && lease_due_at(&run->holding) <= now)
            speak_in_run(run, now, pace->round_trip * MS);
    }
}

static void check_pace(const struct pace *pace)
{
    struct run run = { 0 };
    lease_init(&run.holding, &pace->lease, AT(0));
    run_for(&run, pace, 1, 10000, true);
    run.messages = run.asked = run.dry = 0;
    run_for(&run, pace, 10000, 30000, true);
    uint64_t messages = run.messages;
    if (messages < 20 * pace->messages_least || messages > 20 * pace->messages_most
        || run.dry * 10000 > pace->dry_most * run.asked)
        fail_msg("%s: %ju messages in 20 s, of %ju requests %ju found nothing", pace->why, (uintmax_t)messages,
                 (uintmax_t)run.asked, (uintmax_t)run.dry);
    /* Nobody asks any more: behind twice half of the lease, and a beat, all is back, and the key may be forgotten. */
    weir_ns end = 30000 + pace->lease.duration / MS + 100 + 2 * pace->round_trip;
    run_for(&run, pace, 30000, end, false);
    expect_row(run.holding.have == 0 && run.left == 0, pace->why);
    expect_row(lease_is_idle(&run.holding, AT(end)), pace->why);
    expect_row(run.messages - messages <= 3, pace->why);
}

static void it_speaks_as_often_as_it_must(void **state)
{
    (void)state;
    static const struct pace paces[] = {
        { "5 a second, the bar: about one message a second", 5, { 50, 20, 2000 * MS }, 1, 1, 2, 0 },
        { "1 a second: no more than strict decisions", 1, { 50, 20, 2000 * MS }, 1, 0, 1, 0 },
        { "1000 a second in chunks of 100: 87 tokens a message", 1000, { 500, 100, 2000 * MS }, 1, 10, 20, 0 },
        { "1000 a second, a chunk for 1.5 s: a few", 1000, { 5000, 2000, 2000 * MS }, 1, 1, 2, 0 },
        { "with a slow store it speaks earlier", 1000, { 500, 200, 2000 * MS }, 30, 5, 20, 0 },
        { "a short lease", 100, { 500, 100, 200 * MS }, 1, 5, 20, 0 },
        { "a chunk of 1 is a message a token", 100, { 10, 1, 2000 * MS }, 1, 40, 100, 5000 },
    };
    for (size_t i = 0; i < COUNT_OF(paces); i++)
        check_pace(&paces[i]);
}

static void a_key_that_becomes_hot_soon_has_what_it_needs(void **state)
{
    (void)state;
    static const struct pace hot = { .per_second = 1000, .lease = { 500, 200, 2000 * MS }, .round_trip = 1 };
    struct run run = { 0 };
    lease_init(&run.holding, &hot.lease, AT(0));
    run_for(&run, &hot, 1, 501, true);
    printf("dry %ju messages %ju\n", (uintmax_t)run.dry, (uintmax_t)run.messages);
    assert_true(run.dry <= 25);      /* each was decided strictly */
    assert_true(run.messages <= 40); /* it doubles with each, and then two a beat at most */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_portion_is_asked_for_spent_and_told),
        cmocka_unit_test(a_message_is_sent_again_as_it_was),
        cmocka_unit_test(what_ends_is_told_as_used_and_not_put_back),
        cmocka_unit_test(an_answer_behind_its_own_end_gives_nothing_and_goes_back),
        cmocka_unit_test(a_portion_that_the_store_has_forgotten_ends),
        cmocka_unit_test(an_exhausted_pool_is_not_asked_before_it_has_something),
        cmocka_unit_test(a_broken_answer_gives_no_more_than_was_wanted),
        cmocka_unit_test(numbers_at_their_ends_do_not_overflow),
        cmocka_unit_test(it_speaks_as_often_as_it_must),
        cmocka_unit_test(a_key_that_becomes_hot_soon_has_what_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
