// SPDX-License-Identifier: Apache-2.0
/*
 * late.c - a decider for tests, which answers late and out of order.
 *
 * Idea: stores that answer later will come; the doors must be right before that. This one decides in the order
 * asked, keeps the answer for a random while and then delivers it, so replies complete in every order. Half of the
 * cancelled asks are done inside the cancel, the other half later, as a store would whose reply is under way.
 */
#include "net/ask.h"

#ifdef WEIR_TEST_HOOKS

#include <stdlib.h>

/* One answer that is kept back. */
struct kept {
    struct kept *next;
    struct ask *ask;
    weir_ns due;
    struct verdict verdict;
};

struct late {
    struct decider decider;
    const struct weir_contract *contract;
    uv_timer_t timer;
    uint64_t random;
    unsigned max_ms;
    struct kept *kept; /* in no order */
};

static uint64_t late_draw(struct late *late)
{
    /* xorshift64: any sequence will do that a seed repeats */
    late->random ^= late->random << 13;
    late->random ^= late->random >> 7;
    late->random ^= late->random << 17;
    return late->random;
}

static void on_tick(uv_timer_t *timer)
{
    struct late *late = timer->data;
    weir_ns now = weir_now();
    struct kept *due = NULL;
    for (struct kept **link = &late->kept; *link != NULL;) {
        struct kept *kept = *link;
        if (kept->due > now) {
            link = &kept->next;
            continue;
        }
        *link = kept->next;
        kept->next = due;
        due = kept;
    }
    if (late->kept == NULL)
        (void)uv_timer_stop(timer); /* always 0 */
    while (due != NULL) {
        struct kept *kept = due;
        due = kept->next;
        ask_finish(&late->decider, kept->ask, 0, &kept->verdict);
        free(kept);
    }
}

static void late_start(struct decider *decider, struct ask *ask)
{
    struct late *late = (struct late *)decider;
    struct kept *kept = malloc(sizeof *kept);
    int result = kept == NULL ? WEIR_ERR_MEMORY : ask_decide(late->contract, ask, &kept->verdict);
    if (result != 0) {
        free(kept);
        ask_finish(decider, ask, result, NULL);
        return;
    }
    ask->held = kept;
    kept->ask = ask;
    kept->due = weir_now() + late_draw(late) % (late->max_ms + 1) * WEIR_MILLISECOND;
    kept->next = late->kept;
    late->kept = kept;
    (void)uv_timer_start(&late->timer, on_tick, 1, 1); /* fails only while closing */
}

static void late_cancel(struct decider *decider, struct ask *ask, int why)
{
    struct late *late = (struct late *)decider;
    if (late_draw(late) % 2 == 0
        || ask->kind != ASK_CHECK) /* what was given already, whoever asked gives back */
        return;
    struct kept **link = &late->kept;
    while (*link != NULL && *link != ask->held)
        link = &(*link)->next;
    if (*link == NULL)
        return; /* it is being answered */
    *link = (*link)->next;
    free(ask->held);
    ask_finish(decider, ask, why, NULL);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void late_close(struct decider *decider)
{
    struct late *late = (struct late *)decider;
    uv_close((uv_handle_t *)&late->timer, on_closed);
}

struct decider *late_new(const struct weir_contract *contract, uv_loop_t *loop, uint64_t seed, unsigned max_ms)
{
    struct late *late = calloc(1, sizeof *late);
    if (late == NULL)
        return NULL;
    late->decider = (struct decider){ .start = late_start, .cancel = late_cancel, .close = late_close };
    late->contract = contract;
    late->random = seed | 1; /* xorshift never leaves 0 */
    late->max_ms = max_ms;
    (void)uv_timer_init(loop, &late->timer); /* cannot fail */
    late->timer.data = late;
    return &late->decider;
}

#endif
