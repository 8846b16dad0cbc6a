// SPDX-License-Identifier: Apache-2.0
/*
 * insertion.pml - the two-phase insertion of src/store/table.c, every interleaving of it (P21, P23, P24).
 *
 * A key of one token per tick, at most one at once, has two candidate cells. Threads take from it with stamps that they
 * read once and may use arbitrarily late; another key takes over cells that are empty, dead or abandoned; a clock
 * ticks. Checked at every step:
 *
 *     one FINAL   never two FINAL cells of the key
 *     one per t   never two admissions at one stamp: with one token per tick and one at once that is G1, for a
 *                 span of d ticks then holds at most d + 1
 *
 * A thread that is killed is one that is never scheduled again, so every run with a crash is the beginning of a run that
 * is searched. "Abandoned" is any time: an insertion may be overwritten the moment it is placed.
 *
 * Numbers and mutants come from proof/run:
 *
 *     THREADS, OPS, TRIES   takers, takes of each, loops before a take gives up
 *     OTHERS                steps of the other key
 *     TICKS                 the clock's last
 *     GRACE                 dead needs full_at + GRACE <= t; a reclaim at t raises the floor, if below t - GRACE,
 *                           to t - GRACE / 2
 *     NO_VERIFY             mutant: promote without the second look
 *     NO_KILL               mutant: the second look ignores other TENTs
 *     NO_FLOOR              mutant: nobody raises the floor
 *     EARLY_FLOOR           mutant: the floor is read before the second look
 *     LATE_RAISE            mutant: the floor is raised after the exchange that forgets
 *     SAME_NONCE            mutant: all placements look alike
 *     TWO_STEPS             mutant: the exchange compares, and stores a moment later
 */

/* A cell's content in one number, as the machine exchanges it: EMPTY, or key * 100 + full_at, or + 50 + nonce. */
#define EMPTY 0
#define FINAL(key, full_at) (key * 100 + full_at)
#define TENT(key, nonce) (key * 100 + 50 + nonce)
#define KEY(content) (content / 100)
#define IS_TENT(content) (content % 100 >= 50)
#define IS_FINAL(content) (content != EMPTY && content % 100 < 50)
#define FULL_AT(content) (content % 100)
#define OURS 1
#define THEIRS 2
#define IS_DEAD(content, t) (IS_FINAL(content) && FULL_AT(content) + GRACE <= t)

short cell[2];
byte clock;
byte floor;
byte admitted[TICKS + 1];

/* Count an admission at stamp t, and look at the table as it now is. */
inline admit(t)
{
    admitted[t]++;
    assert(admitted[t] <= 1);
    assert(!(IS_FINAL(cell[0]) && KEY(cell[0]) == OURS && IS_FINAL(cell[1]) && KEY(cell[1]) == OURS));
}

/* The 16-byte exchange. */
#ifdef TWO_STEPS
#define EXCHANGE(at, seen, next, then_success, then_failure) \
    if \
    :: cell[at] == seen -> atomic { cell[at] = next; then_success } \
    :: else -> then_failure \
    fi
#else
#define EXCHANGE(at, seen, next, then_success, then_failure) \
    atomic { \
        if \
        :: cell[at] == seen -> cell[at] = next; then_success \
        :: else -> then_failure \
        fi \
    }
#endif

#ifdef NO_FLOOR
#define RAISE_FLOOR(t) skip
#else
#define RAISE_FLOOR(t) \
    atomic { \
        if \
        :: t >= GRACE && floor < t - GRACE -> floor = t - GRACE / 2 \
        :: else -> skip \
        fi \
    }
#endif

#ifdef LATE_RAISE
#define RAISE_BEFORE(t) skip
#define RAISE_AFTER(t) RAISE_FLOOR(t)
#else
#define RAISE_BEFORE(t) RAISE_FLOOR(t)
#define RAISE_AFTER(t) skip
#endif

#ifdef SAME_NONCE
#define NONCE 0
#else
#define NONCE (_pid * 12 + placed)
#endif

/* Each `atomic` below touches shared memory once; the rest of it is local. */
active [THREADS] proctype taker()
{
    byte op, tries, placed, t, at, i;
    short seen[2];

    do
    :: op == OPS -> break
    :: else ->
        t = clock;

    again:
        atomic {
            if
            :: tries == TRIES -> goto done /* contended: the limit's when-full answers */
            :: else -> tries++; seen[0] = cell[0]
            fi
        }
        atomic {
            seen[1] = cell[1];
            if
            :: IS_FINAL(seen[0]) && KEY(seen[0]) == OURS -> i = 0; goto charge
            :: IS_FINAL(seen[1]) && KEY(seen[1]) == OURS -> i = 1; goto charge
            :: else
            fi;
            if
            :: KEY(seen[0]) == OURS -> i = 0; goto promote
            :: KEY(seen[0]) != OURS && KEY(seen[1]) == OURS -> i = 1; goto promote
            :: else
            fi;
            /* Any free cell: the theorem does not care which. */
            if
            :: seen[0] == EMPTY || IS_DEAD(seen[0], t) || IS_TENT(seen[0]) -> i = 0
            :: seen[1] == EMPTY || IS_DEAD(seen[1], t) || IS_TENT(seen[1]) -> i = 1
            :: else -> goto done /* full */
            fi;
            seen[1 - i] = 0
        }
        if
        :: IS_DEAD(seen[i], t) -> RAISE_BEFORE(t)
        :: else
        fi;
        placed++;
        EXCHANGE(i, seen[i], TENT(OURS, NONCE), skip, goto again);
        if
        :: IS_DEAD(seen[i], t) -> RAISE_AFTER(t)
        :: else
        fi;
        goto again;

    charge:
        atomic {
            seen[1 - i] = 0;
            if
            :: FULL_AT(seen[i]) > t -> goto done /* denied, and nothing was written */
            :: else
            fi
        }
        EXCHANGE(i, seen[i], FINAL(OURS, (t + 1)), admit(t); goto done, goto again);

    promote:
#ifdef EARLY_FLOOR
        at = (t > floor -> t : floor);
#endif
#ifndef NO_VERIFY
        atomic {
            seen[1 - i] = cell[1 - i];
            if
            :: KEY(seen[1 - i]) == OURS && IS_FINAL(seen[1 - i]) -> goto again
            :: KEY(seen[1 - i]) == OURS && IS_TENT(seen[1 - i])
            :: KEY(seen[1 - i]) != OURS -> goto verified
            fi
        }
#ifndef NO_KILL
        EXCHANGE(1 - i, seen[1 - i], EMPTY, skip, goto again);
#endif
#endif
    verified:
        seen[1 - i] = 0;
#ifndef EARLY_FLOOR
        at = (t > floor -> t : floor);
#endif
        EXCHANGE(i, seen[i], FINAL(OURS, (at + 1)), admit(at); goto done, goto again);

    done:
        atomic { op++; tries = 0; t = 0; at = 0; i = 0; seen[0] = 0; seen[1] = 0 }
    od
}

/* Another key, and the sweep: whatever may be taken is taken, for an insertion or for nothing. */
active proctype others()
{
    byte steps, t, i;
    short seen, next;

    do
    :: steps == OTHERS -> break
    :: else ->
        steps++;
        t = clock;
        atomic {
            if
            :: i = 0
            :: i = 1
            fi;
            seen = cell[i];
            if
            :: next = EMPTY
            :: next = TENT(THEIRS, steps)
            :: next = FINAL(THEIRS, (t + 1)) /* as if promoted at once */
            fi
        }
        if
        :: IS_DEAD(seen, t) ->
            RAISE_BEFORE(t);
            EXCHANGE(i, seen, next, skip, skip);
            RAISE_AFTER(t)
        :: seen == EMPTY || IS_TENT(seen) -> EXCHANGE(i, seen, next, skip, skip)
        :: else -> skip
        fi;
        atomic { t = 0; i = 0; seen = 0; next = 0 }
    od
}

active proctype ticking()
{
    do
    :: clock < TICKS -> clock++
    :: clock == TICKS -> break
    od
}
