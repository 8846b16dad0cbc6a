// SPDX-License-Identifier: Apache-2.0
/*
 * lease.pml - quota leases of one key (src/fleet/lease.lua, lease.c, holdings.c), over a network that repeats, reorders and loses.
 *
 * Two processes hold portions that a store has taken out of the key's budget beforehand. A process spends, sends one message at a time
 * (what it spent since the last one, what it gives back, and that it wants more) and takes answers to it. Every message ever sent may
 * reach the store at any later moment, any number of times, in any order, or never; an answer too, while its message is under
 * way: later ones are not listened to. The store grants what it likes up to its bounds, which stands for all sizes and shares.
 * A process may crash: its hand is gone, and its next start is another run. The store may lose all its state.
 *
 * Time is left out: a portion may end at any moment, in the process and at the store, and budget may be refilled at any moment,
 * REFILLS times. With TIMED what clocks promise holds: a process drops a portion, which it counts from the first sending of the
 * message that renewed it, before the store forgets it; and after a loss of state refilling begins when all portions of before
 * are over. Checked after every step:
 *
 *   I1   P32   out is the sum of all records, at most MOST; no record is above CHUNK
 *   I2   P32   granted = returned + spent + lost + out, and what is left of the budget and out and strictly spent adds up to it
 *   I3   P33   what was spent out of hands and what is in them was granted and not returned
 *              TIMED, without losses of state: what is in a hand is in its record
 *   I4         out <= used <= BURST: what may be granted and what is out is at most the burst
 *        P34   spent <= BURST + refills. TIMED: what could be spent at once never exceeds BURST, so that what is spent in any interval
 *              is at most BURST + its refills
 *
 * for all that networks do (P35), with crashes (P36), and with losses of state (P37; and P44: what is granted or strictly spent after
 * one is at most what was refilled since).
 *
 * A record is an element of seq, left and last, a process one of what follows. Numbers and mutants come from proof/run:
 *
 *   RUNS0, RUNS1, REQUESTS   starts of each process (RUNS1 0: there is one), and messages of each start: 2 or 3
 *   BURST, MOST, CHUNK       of the contract, in tokens
 *   REFILLS, LOSSES          of the key's budget, by a token; of the store's state
 *   TIMED                    what clocks promise, as above
 *   STRICT                   strict decisions of the same key, and reservations of it that are cancelled
 *   WINDOWS                  TIMED, a fixed window instead of a bucket: how many more of them begin
 *   FULL                     when-state-lost: full, which adds a burst for each loss
 *
 *   RECLAIMS                 mutant: what a silent run held goes back into the budget
 *   PER_NAME                 mutant: a process has one record, and another run replaces it
 *   NO_CLAMP                 mutant: reports and returns are not bounded by what the record holds
 *   SMALLER_SEQ              mutant: a message that was overtaken is heeded
 *   REPEATS                  mutant: a message that comes again is done again
 *   REFILLS_ALL              mutant: the refill does not stop at what is out
 *   STARTS_FULL              mutant: a store that lost its state starts full, where it must not
 *   STARTS_EARLY             mutant: and one that refills at once
 *   KEEPS_GIVEN              mutant: a process may still spend what it gives back
 *   TWO_FLIGHTS              mutant: another message may leave before the last one is answered
 *   HEARS_AGAIN              mutant: an answer counts each time that it comes
 *   FORGETS_EARLY            mutant: the store forgets a portion before the process does
 *   COUNTS_FROM_ANSWER       mutant: a portion's time counts from its answer
 *   RENEWS_FORGOTTEN         mutant: an answer also renews what the store no longer knows to be out
 *   OUTLIVES_WINDOW          mutant: a portion is not over at the window's end
 *   CANCELS_BELOW_OUT        mutant: what a cancelled reservation gives back is not bounded as the refill is
 */
#ifndef STRICT
#define STRICT 0
#endif
#ifndef WINDOWS
#define WINDOWS 0
#endif
#define RUNS (RUNS0 + RUNS1)
#define NOBODY RUNS

#define MIN(a, b) ((a) < (b) -> (a) : (b))

/* ---- What the store keeps: the key's value, and a record of each run ---------------------------------------------------- */

short used, out;
byte seq[RUNS];    /* of the last message that was heeded; 0: no record */
short left[RUNS];  /* what the run may still hold */
byte last[RUNS];   /* what that message was granted */

/* ---- What a process keeps, and what is on the way ----------------------------------------------------------------------- */

byte current[2];
byte have[2];           /* in hand */
byte spent[2];          /* or over before it was: reported as used, until a message that says so is answered */
byte stray[2];          /* granted by an answer that came after its own end: goes back with the next message */
bool is_under_way[2];   /* the last message that was sent */
bool is_late[2];        /* whose portion would be over by now */
short answers[2];       /* to it, on the way: a bit for each pair of what was granted and what the record held then */

byte sent[RUNS];        /* messages: message n says what is in [MESSAGE(run, n)] */
byte says_used[RUNS * REQUESTS], says_give[RUNS * REQUESTS];

#define MESSAGE(k, n) ((k) * REQUESTS + (n) - 1)
#define PROCESS(k) ((k) < RUNS0 -> 0 : 1)
#define ANSWER(granted, held) (1 << ((granted) * (CHUNK + 1) + (held)))

/* ---- The truth, which nobody knows --------------------------------------------------------------------------------------- */

short net;           /* granted - returned */
short gone;          /* spent as reported, and lost */
short leased, strict; /* spent, out of hands and without them */
byte refills, losses, windows;
short before = BURST; /* what there was, beside refills, since the last loss of state */
/* Portions, and messages, of before the last loss: by the clock, whatever became of them since. */
bool is_old[2], is_old_flight[2];

hidden short x, y, room, sum, most;
hidden byte i, w;

/* What the process of record i has in hand, if it is this run of it. */
#define IN_HAND(i) (current[PROCESS(i)] == (i) -> have[PROCESS(i)] : 0)

#ifdef FULL
#define SPARE (losses * BURST)
#else
#define SPARE 0
#endif

inline check()
{
    sum = 0;
    most = BURST - used;
    i = 0;
    do
    :: i < RUNS ->
        assert(0 <= left[i] && left[i] <= CHUNK);
        sum = sum + left[i];
#if defined(TIMED) && LOSSES == 0
        assert(IN_HAND(i) <= left[i]);
#endif
        most = most + (left[i] > IN_HAND(i) -> left[i] : IN_HAND(i));
        i++
    :: else -> break
    od;
    i = 0;
    assert(out == sum && out <= MOST);                      /* I1 */
    assert(net == gone + out);                              /* I2 */
    assert(leased + have[0] + have[1] <= net);              /* I3 */
    assert(out <= used && used <= BURST);                   /* I4 */
    assert(leased + strict <= BURST + refills + SPARE);     /* P34 */
#if LOSSES == 0 && !STRICT
    assert((BURST - used) + out + gone == BURST + refills); /* nothing comes from nowhere, nothing goes */
#else
    assert((BURST - used) + net + strict - refills <= before);
#endif
#if defined(TIMED) && !defined(FULL)
    assert(most <= BURST);
#endif
    sum = 0;
    most = 0
}
/* ---- The store ----------------------------------------------------------------------------------------------------------- */

inline forget(k)
{
#ifdef RECLAIMS
    used = used - left[k];
    net = net - left[k];
#else
    gone = gone + left[k];
#endif
    out = out - left[k];
    seq[k] = 0;
    left[k] = 0;
    last[k] = 0
}

inline answer(k, n)
{
    w = PROCESS(k);
    if
    :: current[w] == k && is_under_way[w] && n == sent[k] -> answers[w] = answers[w] | ANSWER(last[k], left[k])
    :: else
    fi;
    w = 0
}

#ifdef NO_CLAMP
#define AT_MOST(a, b) (a)
#else
#define AT_MOST(a, b) MIN(a, b)
#endif
#if defined(SMALLER_SEQ)
#define IS_NEWER(n, k) (n != seq[k])
#elif defined(REPEATS)
#define IS_NEWER(n, k) (n >= seq[k])
#else
#define IS_NEWER(n, k) (n > seq[k])
#endif

/* Message n of run k arrives, and is granted up to `want`: whatever it wants, the fair split and the pool's end say. */
inline arrive(k, n, want)
{
#ifdef PER_NAME
    i = 0;
    do
    :: i < RUNS ->
        if
        :: i != k && PROCESS(i) == PROCESS(k) && seq[i] != 0 -> forget(i)
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0;
#endif
    if
    :: seq[k] != 0 && IS_NEWER(n, k) ->
        x = AT_MOST(says_used[MESSAGE(k, n)], left[k]);
        left[k] = left[k] - x;
        out = out - x;
        gone = gone + x;
        y = AT_MOST(says_give[MESSAGE(k, n)], left[k]);
        left[k] = left[k] - y;
        out = out - y;
        used = used - y;
        net = net - y;
        x = 0;
        y = 0
    :: else
    fi;
    if
    :: seq[k] == 0 || IS_NEWER(n, k) ->
        room = MIN(want, CHUNK - left[k]);
        room = MIN(room, MOST - out);
        room = MIN(room, BURST - used);
        used = used + room;
        out = out + room;
        left[k] = left[k] + room;
        net = net + room;
        seq[k] = n;
        last[k] = room;
        room = 0;
        answer(k, n)
    :: else ->
        if
        :: n == seq[k] -> answer(k, n)
        :: else /* overtaken */
        fi
    fi;
    check()
}

#ifdef REFILLS_ALL
#define MAY_REFILL (used > 0)
#else
#define MAY_REFILL (used > out)
#endif
#if !defined(TIMED) || defined(STARTS_EARLY)
#define IS_LEARNING false
#else
#define IS_LEARNING (is_old[0] || is_old[1] || is_old_flight[0] || is_old_flight[1])
#endif

/* A portion is over at the store: grace after it was in the process that holds it, or would have been told of it. */
#if !defined(TIMED) || defined(FORGETS_EARLY)
#define IS_OVER(k) true
#else
#define IS_OVER(k) (current[PROCESS(k)] != k \
    || (have[PROCESS(k)] == 0 && (!is_under_way[PROCESS(k)] || seq[k] != sent[k] || is_late[PROCESS(k)])))
#endif

/* The messages of run k, each once it was sent, for ever; and its record. */
proctype network(byte k)
{
end:
    do
    :: d_step { sent[k] >= 1 -> arrive(k, 1, 0) }
    :: d_step { sent[k] >= 1 -> arrive(k, 1, 1) }
    :: d_step { sent[k] >= 2 -> arrive(k, 2, 0) }
    :: d_step { sent[k] >= 2 -> arrive(k, 2, 1) }
#if REQUESTS > 2
    :: d_step { sent[k] >= 3 -> arrive(k, 3, 0) }
    :: d_step { sent[k] >= 3 -> arrive(k, 3, 1) }
#endif
#if CHUNK > 1
    :: d_step { sent[k] >= 1 -> arrive(k, 1, 2) }
    :: d_step { sent[k] >= 2 -> arrive(k, 2, 2) }
#endif
    :: d_step { seq[k] != 0 && IS_OVER(k) -> forget(k); check() }
    od
}

inline lose()
{
    losses++;
    gone = gone + out;
    out = 0;
    i = 0;
    do
    :: i < RUNS -> seq[i] = 0; left[i] = 0; last[i] = 0; i++
    :: else -> break
    od;
    i = 0
}

#define IS_SILENT(w) (have[w] == 0 && (!is_under_way[w] || is_late[w]))

proctype store()
{
end:
    do
    :: d_step { refills < REFILLS && MAY_REFILL && !IS_LEARNING -> used--; refills++; check() }
#if LOSSES
    :: d_step {
        losses < LOSSES ->
        lose();
#if defined(FULL) || defined(STARTS_FULL)
        used = 0;
#else
        used = BURST;
#endif
#ifdef FULL
        before = before + BURST;
#else
        before = net + strict - refills;
#endif
        do
        :: i < 2 ->
            is_old[i] = (have[i] > 0);
            is_old_flight[i] = (is_under_way[i] && !is_late[i]);
            i++
        :: else -> break
        od;
        i = 0;
        check()
    }
#endif
#if STRICT
    :: d_step { strict < STRICT && used < BURST -> used++; strict++; check() }
    :: d_step {
        strict > 0 ->
        strict--;
#ifdef CANCELS_BELOW_OUT
        used = (used > 0 -> used - 1 : 0);
#else
        used = (used > out -> used - 1 : used);
#endif
        check()
    }
#endif
#if WINDOWS
    /* Nobody has anything of the old window any more. Its books are closed, and the new ones begin. */
    :: d_step {
#ifdef OUTLIVES_WINDOW
        windows < WINDOWS ->
#else
        windows < WINDOWS && IS_SILENT(0) && IS_SILENT(1) ->
#endif
        windows++;
        lose();
        losses--;
        used = 0;
        net = 0;
        gone = 0;
        leased = 0;
        strict = 0;
        check()
    }
#endif
    od
}

/* ---- A process ----------------------------------------------------------------------------------------------------------- */

/* The portion in hand is over. */
inline run_out(me)
{
    spent[me] = spent[me] + have[me];
    have[me] = 0;
    is_old[me] = false
}

inline send(me, amount)
{
    sent[current[me]]++;
    says_used[MESSAGE(current[me], sent[current[me]])] = spent[me];
    says_give[MESSAGE(current[me], sent[current[me]])] = stray[me] + amount;
    stray[me] = 0;
#ifndef KEEPS_GIVEN
    have[me] = have[me] - amount;
#endif
    is_old[me] = is_old[me] && have[me] > 0;
    is_under_way[me] = true;
    is_late[me] = false;
    is_old_flight[me] = false;
    answers[me] = 0;
    check()
}

#ifdef RENEWS_FORGOTTEN
#define IS_FORGOTTEN(me, granted, held) false
#else
#define IS_FORGOTTEN(me, granted, held) (have[me] + spent[me] + granted > held)
#endif

/* Granted so much, and the record held so much then: less than is here means that it is another record. */
inline hear(me, granted, held)
{
    x = says_used[MESSAGE(current[me], sent[current[me]])];
    spent[me] = spent[me] - MIN(x, spent[me]);
    x = 0;
    if
    :: IS_FORGOTTEN(me, granted, held) -> have[me] = 0; spent[me] = 0
    :: else
    fi;
    if
#ifdef COUNTS_FROM_ANSWER
    :: true -> have[me] = have[me] + granted
#else
    :: is_late[me] -> run_out(me); stray[me] = granted
    :: else -> have[me] = have[me] + granted
#endif
    fi;
    is_old[me] = is_old_flight[me] && have[me] > 0;
    is_under_way[me] = false;
    is_late[me] = false;
    is_old_flight[me] = false;
#ifndef HEARS_AGAIN
    answers[me] = 0;
#endif
    check()
}

#ifdef HEARS_AGAIN
#define LISTENS(me) true
#else
#define LISTENS(me) is_under_way[me]
#endif
#ifdef TWO_FLIGHTS
#define MAY_SEND(me) (current[me] != NOBODY && sent[current[me]] < REQUESTS)
#else
#define MAY_SEND(me) (current[me] != NOBODY && sent[current[me]] < REQUESTS && !is_under_way[me])
#endif
#define COMES(me, granted, held) (current[me] != NOBODY && LISTENS(me) && (answers[me] & ANSWER(granted, held)))

proctype process(byte me)
{
end:
    do
    :: d_step {
        have[me] > 0 ->
        have[me]--;
        spent[me]++;
        leased++;
        is_old[me] = is_old[me] && have[me] > 0;
        check()
    }
    :: d_step { MAY_SEND(me) -> send(me, 0) }
    :: d_step { MAY_SEND(me) && have[me] >= 1 -> send(me, 1) }
    :: d_step { COMES(me, 0, 0) -> hear(me, 0, 0) }
    :: d_step { COMES(me, 0, 1) -> hear(me, 0, 1) }
    :: d_step { COMES(me, 1, 1) -> hear(me, 1, 1) }
#if CHUNK > 1
    :: d_step { MAY_SEND(me) && have[me] >= 2 -> send(me, 2) }
    :: d_step { COMES(me, 0, 2) -> hear(me, 0, 2) }
    :: d_step { COMES(me, 1, 2) -> hear(me, 1, 2) }
    :: d_step { COMES(me, 2, 2) -> hear(me, 2, 2) }
#endif
    /* The portion is over; or the one that the message under way will bring, and so what was in hand before. */
    :: d_step { have[me] > 0 -> run_out(me); check() }
    :: d_step {
        is_under_way[me] && !is_late[me] ->
        run_out(me);
        is_late[me] = true;
        is_old_flight[me] = false
    }
    /* It crashes, and is started again while it has starts. */
    :: d_step {
        current[me] != NOBODY ->
        have[me] = 0;
        spent[me] = 0;
        stray[me] = 0;
        is_under_way[me] = false;
        is_late[me] = false;
        is_old[me] = false;
        is_old_flight[me] = false;
        answers[me] = 0;
        current[me] = (current[me] == RUNS0 - 1 || current[me] == RUNS - 1 -> NOBODY : current[me] + 1)
    }
    od
}

init
{
    atomic {
        current[1] = RUNS0;
        run network(0);
#if RUNS0 + RUNS1 > 1
        run network(1);
#endif
#if RUNS0 + RUNS1 > 2
        run network(2);
#endif
#if RUNS0 + RUNS1 > 3
        run network(3);
#endif
        run store();
        run process(0);
        run process(1)
    }
}
