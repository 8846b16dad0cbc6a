// SPDX-License-Identifier: Apache-2.0
/*
 * waiting.pml - requests that wait under several limits, every interleaving of them (P29, P30; G2).
 *
 * Three requests, each of some of three keys, may wait; callers that cannot wait take from the same keys as fast as they
 * are let; each key's budget comes back by and by; one waiter is cancelled, and the deadline of one passes, at any time
 * or never. The waiting room has a lock, under which several steps are taken; each step touches one cell, and who takes
 * without the room gets in between. Checked at every step:
 *
 *     bound        a key's used budget never exceeds its burst; it comes back by refill only, and by undoing
 *     order        whoever charges a key is first in its queue, or nobody waits for it: nobody overtakes
 *     whole        a request that passes has charged all its keys, one that does not has charged none; one that
 *                  waits has charged none
 *     queues       no queue is longer than it may be
 *     bits         while the room is unlocked, a key says that it is queued exactly when somebody waits for it
 *     turns        first in all its queues, a request is refused by a key without a queue only
 *
 * and, when no process that can run is left out for ever (weak fairness):
 *
 *     progress     every waiter ends
 *
 * A take is one exchange, so one step: one that is lost looks again. What is undone comes back but for what refill has
 * replaced meanwhile, so it may come back or not. Retry times are not modelled: a waiter's turn has come when its keys
 * have room.
 *
 * Numbers and mutants come from proof/run:
 *
 *     W0, W1, W2     keys of each waiting request, a bit each; 0: no such request
 *     C0, C1, C2     the cost of each, of every key of it
 *     NEWCOMERS, N   callers that do not wait, and their keys
 *     WAITABLE       keys that callers may wait for
 *     BURST, QUEUE   of every key
 *     CANCELS, LATE  the waiter that may be cancelled, and the one whose deadline may pass; 9: none
 *     SEPARATE       mutant: enters its queues one after the other, each request in its own order
 *     ONE_QUEUE      mutant: enters the first of its queues only
 *     CLEAR_EARLY    mutant: the last one clears the bit, and charges then
 *     CLEAR_ANY      mutant: whoever leaves clears the bit
 *     NO_BAR         mutant: the bit is set and bars nobody
 *     APART          mutant: who does not wait reads the bit, and exchanges the rest of the cell a moment later
 *     FORGET         mutant: a cell whose budget is whole is forgotten, queued or not
 *     STUCK          mutant: who is cancelled is not served any more, and keeps its place
 *     KEEP           mutant: a request that is refused at its turn keeps what it charged
 */
#define KEYS 3
#define BIT(k) (1 << (k))
#define WANTS(w) ((w) == 0 -> W0 : ((w) == 1 -> W1 : ((w) == 2 -> W2 : N)))
#define COST(w) ((w) == 0 -> C0 : ((w) == 1 -> C1 : ((w) == 2 -> C2 : 1)))
#define NEWCOMER 3 /* and above: who does not wait */

#define NOBODY 9
#define ARRIVING 0
#define WAITING 1
#define ENDED 2

/* A cell: how much of the burst is used, and whether somebody waits. Both change in one exchange. */
byte used[KEYS];
bool queued[KEYS];

/* The room. */
bool locked;
chan queue[KEYS] = [3] of { byte };
byte state[3];

#define WAITS_FOR(w, k) ((WANTS(w) & WAITABLE & BIT(k)) != 0)
#define OTHERS_WAIT(w, k) (WAITS_FOR(w, k) && len(queue[k]) > 0)
#define IS_FULL(w, k) (WAITS_FOR(w, k) && len(queue[k]) >= QUEUE)
#define IS_FIRST(w, k) (!WAITS_FOR(w, k) || queue[k]?[w])
#define HAS_ROOM(w, k) (!WAITS_FOR(w, k) || used[k] + COST(w) <= BURST)
#ifdef ONE_QUEUE
#define LOWEST(w) (WANTS(w) & 1 -> 0 : (WANTS(w) & 2 -> 1 : 2))
#define IS_FIRST_IN_ALL(w) (queue[LOWEST(w)]?[w])
#else
#define IS_FIRST_IN_ALL(w) (IS_FIRST(w, 0) && IS_FIRST(w, 1) && IS_FIRST(w, 2))
#endif
#define IS_DUE(w) \
    (state[w] == WAITING && IS_FIRST_IN_ALL(w) && HAS_ROOM(w, 0) && HAS_ROOM(w, 1) && HAS_ROOM(w, 2))

#define BITS_ARE_RIGHT(k) (queued[k] == (len(queue[k]) > 0))
#ifdef CLEAR_ANY
#define ROOM_IS_RIGHT true /* it must fail by what comes of it */
#else
#define ROOM_IS_RIGHT (BITS_ARE_RIGHT(0) && BITS_ARE_RIGHT(1) && BITS_ARE_RIGHT(2))
#endif

#ifdef NO_BAR
#define IS_BARRED(k) false
#else
#define IS_BARRED(k) queued[k]
#endif

/* Sets `took`. `is_turn`: that others wait behind it does not bar who is first. */
inline take(who, k, is_turn)
{
    atomic {
        if
        :: !is_turn && IS_BARRED(k) -> took = false
        :: else -> exchange(who, k, is_turn)
        fi
    }
}

inline exchange(who, k, is_turn)
{
    if
    :: used[k] + COST(who) > BURST -> took = false
    :: else ->
        assert(len(queue[k]) == 0 || (is_turn && queue[k]?[eval(who)]));
        used[k] = used[k] + COST(who);
        assert(used[k] <= BURST);
        charged = charged | BIT(k);
        took = true
    fi
}

/* Give back what this request charged: as much as it took, or less where refill was there before. */
inline undo(who)
{
    k = 0;
    do
    :: k == KEYS -> break
    :: else ->
        atomic {
            if
            :: (charged & BIT(k)) && used[k] >= COST(who) -> used[k] = used[k] - COST(who)
            :: (charged & BIT(k)) -> skip
            :: else
            fi;
            charged = charged & ~BIT(k);
            k++
        }
    od
}

/* Charge every key of a request, in one order, or none: sets `took`, and `k` to the key that refused. */
inline take_all(who, is_turn)
{
    k = 0;
    took = true;
    do
    :: k == KEYS || !took -> break
    :: else ->
        if
        :: WANTS(who) & BIT(k) ->
#ifdef APART
            if
            :: who >= NEWCOMER && queued[k] -> took = false
            :: else -> atomic { exchange(who, k, is_turn) }
            fi
#else
            take(who, k, is_turn)
#endif
        :: else
        fi;
        if
        :: took -> k++
        :: else
        fi
    od
}

/* Leave every queue; who is last in one takes its bit away. */
inline leave(who)
{
    k = 0;
    do
    :: k == KEYS -> break
    :: else ->
        atomic {
            if
            :: queue[k]??[eval(who)] ->
                queue[k]??eval(who);
                if
#ifdef CLEAR_ANY
                :: true -> queued[k] = false
#else
                :: len(queue[k]) == 0 -> queued[k] = false
                :: else
#endif
                fi
            :: else
            fi;
            k++
        }
    od
}

inline enter(who, at)
{
    atomic { queue[at]!who; queued[at] = true; assert(len(queue[at]) <= QUEUE) }
}

inline lock()
{
    atomic { !locked -> assert(ROOM_IS_RIGHT); locked = true }
}

/* A request that can wait, from the room's lock to its end. */
proctype waiter(byte me)
{
    byte k, charged;
    bool took, is_refused;

    lock();
    /* Others wait for one of its keys: behind them at once. Else it looks at all, and charges only if all let it. */
    if
    :: OTHERS_WAIT(me, 0) || OTHERS_WAIT(me, 1) || OTHERS_WAIT(me, 2) -> goto behind
    :: else
    fi;
    k = 0;
    do
    :: k == KEYS -> break
    :: k < KEYS && (WANTS(me) & BIT(k)) && used[k] + COST(me) > BURST ->
        if
        :: WAITABLE & BIT(k) -> goto behind
        :: else -> goto over /* refused by a key that nobody waits for */
        fi
    :: k < KEYS && (!(WANTS(me) & BIT(k)) || used[k] + COST(me) <= BURST) -> k++
    od;
    take_all(me, false);
    if
    :: took -> assert(charged == WANTS(me)); charged = 0; goto over
    :: else
    fi;
    is_refused = !(WAITABLE & BIT(k));
    undo(me);
    if
    :: is_refused -> goto over
    :: else
    fi;

behind:
    assert(charged == 0);
    if
    :: IS_FULL(me, 0) || IS_FULL(me, 1) || IS_FULL(me, 2) -> goto over
    :: else
    fi;
#ifdef ONE_QUEUE
    enter(me, LOWEST(me));
#else
    k = 0;
    do
    :: k == KEYS -> break
    :: else ->
#ifdef SEPARATE
        if
        :: me == 0 && WAITS_FOR(me, k) -> enter(me, k)
        :: me != 0 && WAITS_FOR(me, KEYS - 1 - k) -> enter(me, KEYS - 1 - k)
        :: else
        fi;
        locked = false;
        lock();
#else
        if
        :: WAITS_FOR(me, k) -> enter(me, k)
        :: else
        fi;
#endif
        k++
    od;
#endif
    atomic { k = 0; state[me] = WAITING; locked = false }

accept_waits:
    state[me] == ENDED;
    goto gone;

over:
    atomic { assert(charged == 0); state[me] = ENDED; locked = false; k = 0; took = false; is_refused = false }
gone:
    skip
}

/* Whoever ticks: ends who is due, and who is late. */
active proctype driver()
{
    byte who, k, charged;
    bool took, is_late;

end:
    do
    :: atomic {
        if
        :: !locked && IS_DUE(0) -> who = 0
        :: !locked && IS_DUE(1) -> who = 1
        :: !locked && IS_DUE(2) -> who = 2
#if LATE < 3
        :: !locked && state[LATE] == WAITING -> who = LATE; is_late = true
#endif
        fi;
        assert(ROOM_IS_RIGHT);
        locked = true
    };
        if
        :: is_late
        :: else ->
#ifdef CLEAR_EARLY
            k = 0;
            do
            :: k == KEYS -> break
            :: else ->
                atomic {
                    if
                    :: len(queue[k]) == 1 && queue[k]?[eval(who)] -> queued[k] = false
                    :: else
                    fi;
                    k++
                }
            od;
#endif
            take_all(who, true);
            if
            :: took -> assert(charged == WANTS(who)); charged = 0
#ifdef ONE_QUEUE
            :: !took && (WAITABLE & BIT(k)) -> undo(who); goto not_yet
#endif
            :: else ->
                assert(!(WAITABLE & BIT(k)));
#ifndef KEEP
                undo(who)
#endif
            fi
        fi;
        assert(charged == 0);
        leave(who);
        state[who] = ENDED;
    not_yet:
        atomic { locked = false; who = 0; k = 0; took = false; is_late = false }
    od
}

active proctype canceller()
{
    byte k;

#if CANCELS < 3
    if
    :: true -> skip /* or never */
    :: atomic { !locked && state[CANCELS] == WAITING -> locked = true };
#ifndef STUCK
        leave(CANCELS);
#endif
        atomic { state[CANCELS] = ENDED; locked = false; k = 0 }
    fi
#endif
}

/* Who does not wait: looks at all its keys, charges them, and comes back for ever. */
proctype newcomer()
{
    byte k, charged;
    bool took;

end:
    do
    :: true ->
        k = 0;
        do
        :: k == KEYS -> break
        :: k < KEYS && (N & BIT(k)) && IS_BARRED(k) ->
            /* It asks the room, which may find that the queue is gone: then it decides again. */
            atomic {
                !locked -> assert(ROOM_IS_RIGHT);
                if
                :: len(queue[k]) == 0
                :: else -> goto denied
                fi
            }
        :: k < KEYS && (N & BIT(k)) && !IS_BARRED(k) && used[k] == BURST -> goto denied
        :: k < KEYS && (!(N & BIT(k)) || (!IS_BARRED(k) && used[k] < BURST)) -> k++
        od;
        take_all(NEWCOMER, false);
        if
        :: took -> assert(charged == N); charged = 0
        :: else -> undo(NEWCOMER)
        fi;
    denied:
        atomic { assert(charged == 0); k = 0; took = false }
    od
}

/* A process each, so that fairness reaches every key. */
proctype refill(byte k)
{
end:
    do
    :: atomic { used[k] > 0 -> used[k]-- }
    od
}

#ifdef FORGET
active proctype sweep()
{
end:
    do
    :: atomic { used[0] == 0 && queued[0] -> queued[0] = false }
    od
}
#endif

init
{
    atomic {
        run refill(0);
        run refill(1);
        run refill(2);
#if NEWCOMERS > 0
        run newcomer();
#endif
#if NEWCOMERS > 1
        run newcomer();
#endif
#if W0
        run waiter(0);
#endif
#if W1
        run waiter(1);
#endif
#if W2
        run waiter(2);
#endif
    }
}
