// SPDX-License-Identifier: Apache-2.0
/*
 * history.h - what threads were answered, and whether one thread could have been (P22) within the bound (G1).
 *
 * The model is written from the definition, on plain numbers: a bucket of one token per second, or a log of so
 * many in any second. It knows nothing of cells: a key that was forgotten is one whose bucket was full at the
 * stamp reported.
 */
#ifndef WEIR_TEST_HISTORY_H
#define WEIR_TEST_HISTORY_H

#include "store/kit.h"

enum op_kind { OP_TAKE, OP_PEEK, OP_UNDO };

struct op {
    enum op_kind kind;
    unsigned key;
    weir_ns stamp;
    uint64_t cost;
    uint64_t called, returned;  /* in schedule.time; returned 0: never */
    struct store_answer answer; /* of an undo: the one that is given back */
    bool is_undone;
};

#define OPS_MAX 16 /* of all fibers together */

/* What a run is about: a bucket of 1 token per second, or a log of so many per second. */
struct model {
    bool is_log;
    uint64_t burst;
};

/* A key's whole state by definition: the instant at which its bucket is full, or its stamps. */
struct truth {
    weir_ns full_at;
    weir_ns stamps[OPS_MAX * 4];
    unsigned count;
};

static inline weir_ns at_least(weir_ns x, weir_ns y)
{
    return x > y ? x : y;
}

/*
 * Apply an op to the truth at the stamp that its answer says; whether the answer is what the definition gives.
 */
static inline bool applies_bucket(const struct model *model, struct truth *truth, const struct op *op)
{
    if (op->kind == OP_UNDO) {
        weir_ns now = at_least(op->stamp, op->answer.at), passed = now - op->answer.at, charged = op->cost * S;
        if (truth->full_at > now && passed < charged) {
            uint64_t used = truth->full_at - now, back = charged - passed;
            truth->full_at = now + (used > back ? used - back : 0);
        }
        return true;
    }
    weir_ns at = op->answer.at, base = at_least(truth->full_at, at);
    bool passes = base + op->cost * S - at <= model->burst * S;
    if (at < op->stamp || passes != (op->answer.outcome == WEIR_ALLOW))
        return false;
    if (passes && op->kind == OP_TAKE)
        truth->full_at = base + op->cost * S;
    uint64_t used = truth->full_at > at ? truth->full_at - at : 0;
    uint64_t left = used >= model->burst * S ? 0 : (model->burst * S - used) / S;
    return op->answer.report.remaining == left;
}

static inline bool applies_log(const struct model *model, struct truth *truth, const struct op *op)
{
    if (op->kind == OP_UNDO) {
        uint64_t left = op->cost;
        for (unsigned i = truth->count; i-- > 0 && left > 0;) {
            if (truth->stamps[i] != op->answer.at)
                continue;
            truth->stamps[i] = truth->stamps[--truth->count];
            left--;
        }
        return true;
    }
    weir_ns at = op->answer.at;
    uint64_t live = 0;
    for (unsigned i = 0; i < truth->count; i++) {
        if (truth->stamps[i] > at)
            return false; /* decided before a stamp that it should have seen */
        live += at < S || truth->stamps[i] > at - S;
    }
    bool passes = live + op->cost <= model->burst;
    if (at < op->stamp || passes != (op->answer.outcome == WEIR_ALLOW))
        return false;
    if (passes && op->kind == OP_TAKE) {
        for (uint64_t i = 0; i < op->cost; i++)
            truth->stamps[truth->count++] = at;
        live += op->cost;
    }
    return op->answer.report.remaining == model->burst - live;
}

/*
 * Wing and Gong: some order of the ops, true to which returned before which was called, gives every answer. A
 * search over which op took effect first; short histories need no memory of failures.
 */
static inline bool is_linearizable(const struct model *model, const struct op *const *ops, unsigned count,
                                   uint32_t done, const struct truth *truth)
{
    if (done == (UINT32_C(1) << count) - 1)
        return true;
    uint64_t first_return = UINT64_MAX;
    for (unsigned i = 0; i < count; i++)
        if ((done & UINT32_C(1) << i) == 0 && ops[i]->returned < first_return)
            first_return = ops[i]->returned;
    for (unsigned i = 0; i < count; i++) {
        if ((done & UINT32_C(1) << i) != 0 || ops[i]->called > first_return)
            continue;
        struct truth next = *truth;
        if ((model->is_log ? applies_log : applies_bucket)(model, &next, ops[i])
            && is_linearizable(model, ops, count, done | UINT32_C(1) << i, &next))
            return true;
    }
    return false;
}

/* G1 in stamps: for every two admitted stamps, what was admitted between them stays within the bound. */
static inline bool is_within_bound(const struct model *model, const struct op *ops, unsigned count,
                                   unsigned key)
{
    for (unsigned i = 0; i < count; i++) {
        for (unsigned j = 0; j < count; j++) {
            weir_ns from = ops[i].answer.at, to = ops[j].answer.at;
            uint64_t admitted = 0;
            if (from > to)
                continue;
            for (unsigned k = 0; k < count; k++)
                if (ops[k].kind == OP_TAKE && ops[k].key == key && ops[k].answer.outcome == WEIR_ALLOW
                    && !ops[k].is_undone && ops[k].answer.at >= from && ops[k].answer.at <= to)
                    admitted += ops[k].cost;
            uint64_t bound =
                model->is_log ? model->burst * (1 + (to - from) / S) : model->burst + (to - from) / S;
            if (admitted > bound)
                return false;
        }
    }
    return true;
}

#endif
