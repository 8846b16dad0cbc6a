// SPDX-License-Identifier: Apache-2.0
/*
 * journal.h - what `when-store-fails: { local }` let through, to be charged to the store when it is heard again.
 *
 * Idea: the share that a process spends by itself is an overshoot that the contract states; told afterwards it is not handed out
 * a second time (B59). One entry for each key of the store, which says what a store that had been charged all along would still
 * count: a bucket's entry drains at the limit's rate, a fixed window's is forgotten with the window. Logs and windows that begin
 * with a first request keep theirs for a period after the newest spending, since only the store knows when they began; sliding
 * windows to the end of the window after, whose count they still weigh on. (Calendar windows are kept until told: an outage across their edge charges the new window with at most the old one's share.)
 *
 * What a told batch's fate is unknown for counts as told: telling it again could take from the key what nobody spent, again and
 * again with a store that flaps, while forgetting it stays within the overshoot that is stated anyway, which counts everything
 * spent locally as not charged at all. For the same reason a request whose command may have been executed is not entered.
 *
 * A reload changes nothing of it: an entry is told under the limit of its name, if there still is one. Where a key's size was changed
 * what was spent before counts on under the new one.
 *
 * JOURNAL_ENTRIES keys at most, in the order in which they were first spent; one more is not kept (counted as lost).
 *
 * Words:     all under one lock, which is taken only while the store is away or just back; `count` is also read without.
 */
#ifndef WEIR_FLEET_JOURNAL_H
#define WEIR_FLEET_JOURNAL_H

#include "base/bytes.h"
#include "weir_contract.h"

#define JOURNAL_ENTRIES 65536
/* Bytes of their names together. */
#define JOURNAL_BYTES_MAX ((size_t)16 << 20)

struct journal;

struct journal_entry {
    struct journal_entry *next, *newer; /* the journal's: of its bucket, and in the order of age */
    weir_limit_id limit;                /* where it stood; its name is in the key's */
    enum weir_algorithm algorithm;
    struct weir_shared_size size; /* as of the last spending */
    uint64_t cost;
    uint64_t carry; /* buckets: what drained of the next token, in parts of `period` */
    weir_ns at;     /* up to when it has drained */
    weir_ns until;  /* windows and logs: when nothing of it counts any more */
    uint64_t hash;
    size_t name_len;
    char name[];
};

/* 0, WEIR_ERR_MEMORY. */
int journal_new(struct journal **out, const uint8_t secret[16]);
void journal_free(struct journal *journal);

/* What was spent at `now`, which is `wall_ns` Unix time. */
struct journal_spent {
    struct slice name;
    weir_limit_id limit;
    enum weir_algorithm algorithm;
    struct weir_shared_size size;
    uint64_t cost;
    bool is_first_request; /* a fixed window that begins with a key's first request */
};

/* Enter it. False: there is no room, it is lost. */
bool journal_spend(struct journal *journal, const struct journal_spent *spent, weir_ns now, uint64_t wall_ns);

/* Take out the oldest entry, drained to now; NULL: none. Entries of which nothing is left are freed on the way. */
struct journal_entry *journal_take(struct journal *journal, weir_ns now);
/* Back in, as the newest; merged with what was spent meanwhile. False: lost. The entry is the journal's again. */
bool journal_put_back(struct journal *journal, struct journal_entry *entry, weir_ns now);
void journal_entry_free(struct journal_entry *entry);

/* Entries, without the lock. */
size_t journal_count(const struct journal *journal);
/* Tokens in all of them, as last drained. */
uint64_t journal_tokens(struct journal *journal);

#endif
