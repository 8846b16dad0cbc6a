// SPDX-License-Identifier: Apache-2.0
/*
 * lease_hand.pml - the hand that all workers of a process share (src/fleet/lease.c, holdings.c, lessee.c), every interleaving of them.
 *
 * THREADS workers each decide TAKES requests: a request takes tokens out of the hand, waits for what else it needs, and keeps or undoes
 * what it took. Two commands of the process carry its messages, sent by whichever worker is there: one claims the message, new
 * or the one under way again, and is answered or not. What is one step here is done under the lock of the key's shard. The portion
 * may end at any moment, in the process and, not before that, at the store; from some moment on everything is handed back.
 * What networks do beyond that is in lease.pml. Checked after every step:
 *
 *   one        there is one message under way
 *   books      have + pending + used, with what the message under way says and does, is what the store's record holds, and not more
 *              after the store forgot it
 *   P33        what was spent, and what is in the hand or taken out of it, was granted and not returned
 *   P36        after the hand is given back, and no portion ended, the store has everything but what was spent
 *
 * Numbers and mutants come from proof/run:
 *
 *   THREADS, TAKES     workers, and requests of each
 *   POOL, CHUNK        tokens of the store, and of one record at most
 *   MESSAGES, REPEATS  of the process; and how often one of them is not answered
 *   ENDS, FORGETS      portions that end in the process, and at the store
 *
 *   UNDO_ANY           mutant: what was taken from one portion is put back into another
 *   KEEP_ANY           mutant: what was taken from one portion is reported as used of another
 *   TAKE_IN_STEPS      mutant: a taker looks, and takes a moment later
 *   CLAIM_IN_STEPS     mutant: a message is claimed by looking and then marking: two are under way
 *   ANOTHER            mutant: a message that was not answered is not repeated but replaced
 *   GIVES_PENDING      mutant: what requests have taken and not yet kept is given back
 *   KEEPS_GIVEN        mutant: what is given back stays in hand
 *   CLEARS_USED        mutant: an answer clears what was spent since its message
 */
#define MIN(a, b) ((a) < (b) -> (a) : (b))

/* The hand: lease.h's struct holding, and its flight. */
short have, pending, used;
byte life;
byte stray;       /* granted by an answer that came after its own end */
byte flight;      /* the number of the message under way; 0: none */
short says_used, says_give;
bool says_want;
bool is_claimed, is_late, hands_back;
byte sent, repeats, ends;

/* The store's record of this run. */
byte seq, last, forgets;
short left, pool = POOL;

/* The truth. */
short net, spent, taken; /* granted - returned; kept by requests; taken and neither kept nor undone, whatever became of the portion */
byte commands, busy;     /* of messages under way; workers within a request */

hidden short x;

inline check()
{
    assert(commands <= 1);
    assert(have >= 0 && pending >= 0 && used >= 0 && left >= 0);
    assert(spent + taken + have <= net);
    if
    :: flight != 0 && seq == flight && forgets == 0 -> assert(left == have + pending + used - says_used + stray + last)
    :: flight != 0 && seq != flight && forgets == 0 -> assert(left == have + pending + used + stray + says_give)
    :: flight == 0 && forgets == 0 -> assert(left == have + pending + used + stray)
    :: else -> assert(have + pending <= left)
    fi
}

/* lease_expire() */
inline run_out()
{
    used = used + have + pending;
    have = 0;
    pending = 0;
    life++
}

proctype worker()
{
    byte takes, of_life;
    short mine;
    do
    :: takes == TAKES -> break
    :: else ->
        atomic { takes++; busy++ }
#ifdef TAKE_IN_STEPS
        if
        :: have >= 1 && !hands_back -> mine = 1
        :: have >= 2 && !hands_back -> mine = 2
        :: true
        fi;
        d_step { of_life = life; have = have - mine; pending = pending + mine; taken = taken + mine; check() }
#else
#define MAY_TAKE(n) (have >= n && !hands_back)
        if
        :: d_step { MAY_TAKE(1) -> mine = 1; of_life = life; have = have - 1; pending = pending + 1; taken = taken + 1; check() }
        :: d_step { MAY_TAKE(2) -> mine = 2; of_life = life; have = have - 2; pending = pending + 2; taken = taken + 2; check() }
        :: true
        fi;
#endif
        if
        :: d_step { /* lease_keep() */
#ifndef KEEP_ANY
            if
            :: of_life == life -> pending = pending - mine; used = used + mine
            :: else
            fi;
#else
            pending = pending - (of_life == life -> mine : 0);
            used = used + mine;
#endif
            spent = spent + mine;
            taken = taken - mine;
            busy--;
            mine = 0;
            of_life = 0;
            check()
        }
        :: d_step { /* lease_undo() */
#ifndef UNDO_ANY
            if
            :: of_life == life -> pending = pending - mine; have = have + mine
            :: else
            fi;
#else
            pending = pending - (of_life == life -> mine : 0);
            have = have + mine;
#endif
            taken = taken - mine;
            busy--;
            mine = 0;
            of_life = 0;
            check()
        }
        fi
    od;
    takes = 0
}

/* Beyond MESSAGES only to give back. */
#define IS_OWING (have > 0 || used > 0 || stray > 0)
#define MAY_SPEAK (flight != 0 || (hands_back -> IS_OWING && sent < MESSAGES + 4 : sent < MESSAGES))
#define MAY_CLAIM (!is_claimed && MAY_SPEAK)

/* lease_speak(): the message under way again, or a new one that gives back `amount` of the hand. */
inline claim(amount)
{
    is_claimed = true;
    if
    :: flight != 0 -> skip
    :: else ->
        x = amount;
        sent++;
        flight = sent;
        says_used = used;
        says_give = stray + x;
        says_want = !hands_back;
        stray = 0;
#ifdef GIVES_PENDING
        says_give = says_give + pending;
#endif
#ifndef KEEPS_GIVEN
        have = have - x;
#endif
        is_late = false;
        x = 0
    fi;
    mine = flight;
    u = says_used;
    y = says_give;
    wants = says_want;
    commands++;
    check()
}

inline arrive()
{
    if
    :: seq != 0 && mine <= seq -> skip /* overtaken, or again */
    :: else ->
        if
        :: seq != 0 ->
            x = MIN(u, left);
            left = left - x;
            x = MIN(y, left);
            left = left - x;
            pool = pool + x;
            net = net - x
        :: else
        fi;
        x = (wants -> MIN(CHUNK - left, pool) : 0);
        left = left + x;
        pool = pool - x;
        net = net + x;
        last = x;
        seq = mine;
        x = 0
    fi;
    granted = last;
    held = left
}

/* lease_hear() */
inline hear()
{
    if
    :: mine == flight && seq >= mine ->
#ifdef CLEARS_USED
        used = 0;
#else
        used = used - MIN(u, used);
#endif
        if
        :: have + pending + used + stray + granted > held -> run_out(); used = 0; stray = 0
        :: else
        fi;
        if
        :: is_late -> run_out(); stray = stray + granted
        :: else -> have = have + granted
        fi;
        flight = 0;
        says_used = 0;
        says_give = 0;
        says_want = false;
        is_late = false;
        is_claimed = false
    :: else
    fi;
    settle()
}

/* lease_unheard(): nothing is known of what the store did. */
inline unheard()
{
    repeats++;
    is_claimed = false;
#ifdef ANOTHER
    flight = 0;
#endif
    settle()
}

inline settle()
{
    commands--;
    step = 0;
    mine = 0;
    u = 0;
    y = 0;
    wants = false;
    granted = 0;
    held = 0;
    check()
}

/* A message: once claimed it is sent, done by the store or not, and answered or not. */
proctype command()
{
    byte step, mine, granted;
    short u, y, held;
    bool wants;
end:
    do
#ifdef CLAIM_IN_STEPS
    :: d_step { step == 0 && MAY_CLAIM -> step = 3 }
    :: d_step { step == 3 && (flight != 0 || sent < MESSAGES + 4) -> flight = 0; claim(0); step = 1 }
#else
    :: d_step { step == 0 && MAY_CLAIM && !hands_back -> claim(0); step = 1 }
    :: d_step { step == 0 && MAY_CLAIM && !hands_back && have > 0 -> claim(1); step = 1 }
    :: d_step { step == 0 && MAY_CLAIM && hands_back -> claim(have); step = 1 }
#endif
    :: d_step { step == 1 -> arrive(); step = 2 }
    :: d_step { step == 2 -> hear() }
    :: d_step { (step == 1 || step == 2) && repeats < REPEATS -> unheard() }
    od
}

#define IS_SILENT (have == 0 && pending == 0 && (flight == 0 || seq != flight || is_late))

proctype clocks()
{
end:
    do
    :: d_step { ends < ENDS && have + pending > 0 -> ends++; run_out(); check() }
    :: d_step { ends < ENDS && flight != 0 && !is_late -> ends++; run_out(); is_late = true; check() }
    :: d_step { forgets < FORGETS && seq != 0 && IS_SILENT -> forgets++; seq = 0; left = 0; last = 0; check() }
    :: d_step { !hands_back -> hands_back = true }
    /* All is given back: nothing is left to say. */
    :: hands_back && busy == 0 && flight == 0 && !IS_OWING -> assert(ends > 0 || forgets > 0 || POOL == pool + spent)
    od
}

init
{
    atomic {
        byte n;
        do
        :: n < THREADS -> run worker(); n++
        :: else -> break
        od;
        n = 0;
        run command();
        run command();
        run clocks()
    }
}
