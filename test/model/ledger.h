// SPDX-License-Identifier: Apache-2.0
/*
 * ledger.h - what one bucket has used, exactly, through charges, refunds and changes of its size, and a book of what was
 * admitted in which no interval may hold more than the promises P11, P13 and P14 allow.
 *
 * Idea: tokens are counted in such small units that one nanosecond of every rate used here is a whole number of them. So
 * nothing is rounded, and no line is shared with src/limit.
 */
#ifndef WEIR_TEST_LEDGER_H
#define WEIR_TEST_LEDGER_H

#include <assert.h>
#include <string.h>

#include "support/unit.h"
#include "weir.h"

__extension__ typedef __int128 i128;

/* Units of a token: seconds, minutes, hours and days of nanoseconds divide it. */
#define LEDGER_TOKEN ((i128)86400 * WEIR_SECOND)

struct size {
    struct weir_quota rate;
    uint64_t burst, debt;
};

static inline i128 size_rate(const struct size *size)
{
    assert(LEDGER_TOKEN % size->rate.period == 0);
    return size->rate.count * (LEDGER_TOKEN / size->rate.period);
}

/* ---- One bucket -------------------------------------------------------------------------------------------- */

struct ledger {
    const struct size *size;
    i128 full_at; /* units, on the clock of the size in force, which runs at its rate */
};

static inline i128 ledger_clock(const struct ledger *ledger, weir_ns now)
{
    return now * size_rate(ledger->size);
}

static inline i128 ledger_used(const struct ledger *ledger, weir_ns now)
{
    i128 used = ledger->full_at - ledger_clock(ledger, now);
    return used > 0 ? used : 0;
}

static inline void ledger_set(struct ledger *ledger, weir_ns now, i128 used)
{
    ledger->full_at = ledger_clock(ledger, now) + used;
}

/* Left for `cost` more, negative when it does not fit. */
static inline i128 ledger_room(const struct ledger *ledger, weir_ns now, uint64_t cost)
{
    return ((i128)ledger->size->burst - (i128)cost) * LEDGER_TOKEN - ledger_used(ledger, now);
}

/* Raise what is used, but not above `most` tokens; never lower it. */
static inline void ledger_raise(struct ledger *ledger, weir_ns now, uint64_t tokens, uint64_t most)
{
    i128 used = ledger_used(ledger, now), raised = used + (i128)tokens * LEDGER_TOKEN;
    i128 cap = (i128)most * LEDGER_TOKEN;
    if (raised > cap)
        raised = cap > used ? cap : used;
    if (raised > used)
        ledger_set(ledger, now, raised);
}

static inline void ledger_give_back(struct ledger *ledger, weir_ns now, uint64_t tokens)
{
    i128 used = ledger_used(ledger, now), back = (i128)tokens * LEDGER_TOKEN;
    if (used > 0)
        ledger_set(ledger, now, used > back ? used - back : 0);
}

/* Another size from `at` on: what is used stays used. */
static inline void ledger_change(struct ledger *ledger, const struct size *size, weir_ns at)
{
    i128 used = ledger_used(ledger, at);
    ledger->size = size;
    ledger_set(ledger, at, used);
}

/* ---- The book ---------------------------------------------------------------------------------------------- */

#define BOOK_ENTRIES 96

struct entry_of_book {
    weir_ns at;                             /* the stamp it was decided for */
    uint64_t admitted, charged, given_back; /* tokens; `charged` without asking */
    uint64_t burst, debt;                   /* in force */
    i128 refilled;                          /* units, from 0 to `at`, by the rates in force */
};

/* In the order in which it happened. */
struct book {
    struct entry_of_book entries[BOOK_ENTRIES];
    unsigned count;
    const struct size *size; /* in force */
    weir_ns since;
    i128 refilled; /* to `since` */
};

static inline void book_init(struct book *book, const struct size *size)
{
    *book = (struct book){ .size = size };
}

static inline void book_add(struct book *book, weir_ns at, uint64_t admitted, uint64_t charged,
                            uint64_t given_back)
{
    assert(book->count < BOOK_ENTRIES);
    assert(at >= book->since);
    book->entries[book->count++] =
        (struct entry_of_book){ at,
                                admitted,
                                charged,
                                given_back,
                                book->size->burst,
                                book->size->debt,
                                book->refilled + (at - book->since) * size_rate(book->size) };
}

/* Not before any stamp that was used. */
static inline void book_change(struct book *book, const struct size *size, weir_ns at)
{
    book->refilled += (at - book->since) * size_rate(book->size);
    book->since = at;
    book->size = size;
}

/*
 * Every interval that begins and ends with an entry: what was admitted in it stays within the largest burst, the refill and
 * what was given back meanwhile (P11, P14); with what was charged, within the largest burst with its debt (P13).
 */
static inline void book_check(const struct book *book)
{
    for (unsigned i = 0; i < book->count; i++)
        for (unsigned j = 0; j < book->count; j++) {
            const struct entry_of_book *begin = &book->entries[i], *end = &book->entries[j];
            i128 admitted = 0, charged = 0, back = 0, back_before = 0, burst = 0, reach = 0;
            bool has_begun = false;
            if (begin->at > end->at)
                continue;
            for (unsigned k = 0; k < book->count; k++) {
                const struct entry_of_book *entry = &book->entries[k];
                back += has_begun ? entry->given_back : 0;
                if (entry->at < begin->at || entry->at > end->at || entry->admitted + entry->charged == 0)
                    continue;
                has_begun = true;
                admitted += entry->admitted;
                charged += entry->charged;
                back_before = back; /* what comes back behind the last of them raises nothing */
                burst = burst > (i128)entry->burst ? burst : (i128)entry->burst;
                reach = reach > (i128)(entry->burst + entry->debt) ? reach : (i128)(entry->burst + entry->debt);
            }
            i128 refilled = end->refilled - begin->refilled;
            assert_true(admitted * LEDGER_TOKEN <= (burst + back_before) * LEDGER_TOKEN + refilled);
            assert_true((admitted + charged) * LEDGER_TOKEN <= (reach + back_before) * LEDGER_TOKEN + refilled);
        }
}

#endif
