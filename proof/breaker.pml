// SPDX-License-Identifier: Apache-2.0
/*
 * breaker.pml - the breaker of one node (src/fleet/outage.c), its users and their probes, over a node that comes and goes.
 *
 * WORKERS loops of one process ask a node, each with one request and one nurse. Time goes in ticks, and only when nothing that is
 * due is left undone: a nurse probes when it may, a request or probe ends at its deadline. An answer may come at any moment in
 * between. The node goes away and comes back OUTAGES times, at any moment; a worker may vanish with its probe once.
 *
 *   P40: at every moment at most one probe is under way, and a node that has been well for longer than a probe that failed just
 *        before, the longest cool-down and a probe is asked again.
 *
 * Mutants, each a way to get it wrong:
 *   TWO_STEPS      a probe is claimed by looking and then marking
 *   ANY_FAILURE    a failure while a probe is under way counts as the probe's, whoever's it is
 *   CLOSE_FORGETS  an answer that closes the breaker forgets that a probe is under way
 *   NO_EXPIRY      a probe that nobody tells of is under way for ever
 *   NO_CAP         the cool-down doubles without end
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef OUTAGES
#define OUTAGES 2
#endif
#define FAILURES 2
#define COOL 1
#ifdef NO_CAP
#define COOL_MAX 16
#else
#define COOL_MAX 4
#endif
#define DEADLINE 2
/* A probe that nobody tells of is given a tick more than those that somebody does; the longest cool-down; a probe. */
#define BOUND (DEADLINE + 1 + 4 + DEADLINE)

bool is_up = true, is_on, is_open, is_probing;
byte in_a_row, cool, probe_in, probe_left, well, gone;
byte asked[WORKERS], probed[WORKERS]; /* ticks to the deadline + 1; 0: none */
byte probes; /* under way, in truth */
bool has_vanished;

inline cool_down(length) {
    cool = (length > COOL_MAX -> COOL_MAX : length);
    if /* drawn from half of it to the whole */
    :: probe_in = cool
    :: cool > 1 -> probe_in = (cool + 1) / 2
    fi
}

inline begin() {
    if
    :: !is_on -> is_on = true; cool_down(COOL)
    :: else
    fi
}

inline close() {
    is_on = false;
    is_open = false;
    in_a_row = 0;
#ifdef CLOSE_FORGETS
    is_probing = false;
#endif
}

inline fail() {
    begin();
    if
    :: in_a_row < FAILURES -> in_a_row++
    :: else
    fi;
    if
    :: !is_open && in_a_row >= FAILURES -> is_open = true; cool_down(COOL)
    :: else
    fi;
#ifdef ANY_FAILURE
    if
    :: is_probing -> is_probing = false; cool_down(cool * 2)
    :: else
    fi
#endif
}

inline tell(is_heard) {
    is_probing = false;
    if
    :: is_heard -> close()
    :: else -> begin(); cool_down(cool * 2)
    fi
}

#define MAY_PROBE (is_on && !is_probing && probe_in == 0)
/* What was sent may be answered while the node is there; what was sent to one that has been well all the time is. */
#define MUST_ANSWER (is_up && well >= DEADLINE)

proctype worker(byte me) {
    bool may;
    do
    :: d_step { asked[me] == 0 && !is_open -> asked[me] = DEADLINE + 1 }
    :: atomic { asked[me] > 0 && is_up -> asked[me] = 0; close() }
    :: atomic { asked[me] == 1 && !MUST_ANSWER -> asked[me] = 0; fail() }
#ifdef TWO_STEPS
    :: probed[me] == 0 && MAY_PROBE -> may = true;
        atomic { may -> may = false; is_probing = true; probe_left = DEADLINE + 1; probed[me] = DEADLINE + 1; probes++ }
#else
    :: d_step { probed[me] == 0 && MAY_PROBE -> is_probing = true; probe_left = DEADLINE + 1; probed[me] = DEADLINE + 1; probes++ }
#endif
    :: atomic { probed[me] > 0 && is_up -> probed[me] = 0; probes--; tell(true) }
    :: atomic { probed[me] == 1 && !MUST_ANSWER -> probed[me] = 0; probes--; tell(false) }
    :: d_step { probed[me] > 0 && !has_vanished -> has_vanished = true; probed[me] = 0; probes--; well = 0 }
    od
}

proctype node() {
    do
    :: d_step { is_up && gone < OUTAGES -> is_up = false; gone++; well = 0 }
    :: d_step { !is_up -> is_up = true; well = 0 }
    od
}

bool is_due;
byte i;

/* A tick, when nothing is due. */
proctype clock() {
    do
    :: atomic {
        is_due = MAY_PROBE;
        i = 0;
        do
        :: i < WORKERS -> is_due = is_due || asked[i] == 1 || probed[i] == 1; i++
        :: else -> break
        od;
        if
        :: !is_due ->
            i = 0;
            do
            :: i < WORKERS ->
                asked[i] = (asked[i] > 0 -> asked[i] - 1 : 0);
                probed[i] = (probed[i] > 0 -> probed[i] - 1 : 0);
                i++
            :: else -> break
            od;
            i = 0;
            probe_in = (probe_in > 0 -> probe_in - 1 : 0);
            probe_left = (probe_left > 0 -> probe_left - 1 : 0);
            if
            :: is_probing && probe_left == 0 ->
#ifndef NO_EXPIRY
                tell(false)
#else
                skip
#endif
            :: else
            fi;
            well = (is_up && well <= BOUND -> well + 1 : well);
            assert(!(is_up && well > BOUND && is_open))
        :: else
        fi
    }
    od
}

proctype watch() {
    assert(probes <= 1) /* at whatever moment this is run */
}

init {
    atomic {
        byte n = 0;
        do
        :: n < WORKERS -> run worker(n); n++
        :: else -> break
        od;
        run node();
        run clock();
        run watch()
    }
}
