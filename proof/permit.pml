// SPDX-License-Identifier: Apache-2.0
/*
 * permit.pml - permits of one key, every interleaving of their holders (P28).
 *
 * Holders acquire, renew and release permits of one record with stamps that they read once and may use late; any of them
 * may die at any time, and come back long after its permit expired. A record has a lock, under which a call is one
 * step. Checked at every step:
 *
 *     bound        the costs of permits that are unexpired, as their holders know them, never exceed AT_MOST
 *     own          nobody's permit ends before it expires, but by its own release
 *     refusals     who is refused was refused by permits that had not expired at its stamp: one that a dead holder left
 *                  blocks nobody for longer
 *
 * Numbers and mutants come from proof/run:
 *
 *     AT_MOST, HOLD        of the limit; stamps are ticks
 *     TICKS                the clock's last
 *     C0, C1, C2           the cost of each holder's permit; 0: no such holder
 *     TAKES                permits that each holder acquires, one after the other
 *     UNCHECKED_RELEASE    mutant: a release frees its place, whoever has it
 *     UNCHECKED_RENEW      mutant: a renewal writes its place, whoever has it
 *     SAME_FENCE           mutant: all permits of a place look alike
 *     NO_SWEEP             mutant: what expired is not dropped
 *     EARLY_SWEEP          mutant: a permit is dropped a tick before it expires
 *     ONE_BY_ONE           mutant: a cost of two is claimed in two steps
 */
#define COST(h) ((h) == 0 -> C0 : ((h) == 1 -> C1 : C2))

byte clock;

/* The record: entries in places that are used again. */
byte fence[AT_MOST]; /* 0: nobody's */
byte cost[AT_MOST], expires_at[AT_MOST];
byte last_fence;

/* What each holder knows: until when its permit holds; 0: it has none. */
byte until[3];

#define UNEXPIRED(h, t) (until[h] > t -> COST(h) : 0)
#define HELD(t) (UNEXPIRED(0, t) + UNEXPIRED(1, t) + UNEXPIRED(2, t))

#ifdef SAME_FENCE
#define NEXT_FENCE 1
#else
#define NEXT_FENCE (last_fence + 1)
#endif

#ifdef EARLY_SWEEP
#define IS_OVER(i, t) (expires_at[i] <= t + 1)
#else
#define IS_OVER(i, t) (expires_at[i] <= t)
#endif

inline sweep(t)
{
    i = 0;
    held = 0;
    do
    :: i == AT_MOST -> break
    :: else ->
#ifndef NO_SWEEP
        if
        :: fence[i] != 0 && IS_OVER(i, t) -> fence[i] = 0; cost[i] = 0; expires_at[i] = 0
        :: else
        fi;
#endif
        held = held + (fence[i] != 0 -> cost[i] : 0);
        i++
    od;
    i = 0
}

/* The first free place, which there is: each permit costs at least one. */
inline find_free()
{
    place = 0;
    do
    :: place < AT_MOST && fence[place] != 0 -> place++
    :: else -> break
    od
}

#ifdef UNCHECKED_RELEASE
#define IS_MINE_TO_RELEASE true
#else
#define IS_MINE_TO_RELEASE (fence[place] == mine)
#endif
#ifdef UNCHECKED_RENEW
#define IS_MINE_TO_RENEW true
#else
#define IS_MINE_TO_RENEW (fence[place] == mine)
#endif

proctype holder(byte me)
{
    byte t, i, held, place, mine, takes;

    do
    :: takes == TAKES -> break
    :: else ->
        atomic { takes++; t = clock }
#ifdef ONE_BY_ONE
        if
        :: COST(me) == 2 ->
            atomic {
                sweep(t);
                if
                :: held + 1 > AT_MOST -> assert(HELD(t) + COST(me) > AT_MOST); goto refused
                :: else -> find_free(); fence[place] = 100 + me; cost[place] = 1; expires_at[place] = t + HOLD
                fi
            }
            atomic {
                sweep(t);
                if
                :: held + 1 > AT_MOST -> assert(HELD(t) + COST(me) > AT_MOST); fence[place] = 0; goto refused
                :: else -> fence[place] = NEXT_FENCE; cost[place] = 2; goto taken
                fi
            }
        :: else
        fi;
#endif
        atomic {
            sweep(t);
            if
            :: held + COST(me) > AT_MOST -> assert(HELD(t) + COST(me) > AT_MOST); goto refused
            :: else ->
                find_free();
                fence[place] = NEXT_FENCE;
                cost[place] = COST(me);
                expires_at[place] = t + HOLD;
#ifdef ONE_BY_ONE
            taken:
#endif
                last_fence = NEXT_FENCE;
                mine = fence[place];
                until[me] = expires_at[place];
                assert(HELD(clock) <= AT_MOST);
                t = 0;
                held = 0
            fi
        }

        do
        :: t = clock;
            if
            :: atomic {
                sweep(t);
                if
                :: IS_MINE_TO_RENEW ->
                    expires_at[place] = t + HOLD;
                    until[me] = t + HOLD;
                    assert(HELD(clock) <= AT_MOST);
                    t = 0;
                    held = 0
                :: else -> assert(until[me] <= clock); until[me] = 0; goto refused
                fi
            }
            :: atomic {
                sweep(t);
                if
                :: IS_MINE_TO_RELEASE -> fence[place] = 0; cost[place] = 0; expires_at[place] = 0
                :: else -> assert(until[me] <= clock)
                fi;
                until[me] = 0;
                goto refused
            }
            fi
        :: true -> goto dead
        od;

    refused:
        atomic { t = 0; place = 0; mine = 0; held = 0 }
    od;
dead:
    atomic { t = 0; place = 0; mine = 0; held = 0; takes = 0 } /* until[me] stays: it may still be working */
}

active proctype ticking()
{
    do
    :: clock < TICKS -> clock++
    :: clock == TICKS -> break
    od
}

init
{
    atomic {
#if C0
        run holder(0);
#endif
#if C1
        run holder(1);
#endif
#if C2
        run holder(2);
#endif
    }
}
