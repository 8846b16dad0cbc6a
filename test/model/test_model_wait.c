// SPDX-License-Identifier: Apache-2.0
/*
 * The waiting room against a list of who waits (P29, P30): arrivals of one to three limits and all algorithms, callers that do
 * not wait, cancels, refunds, resets, permits that come back, changed limits, drivers that are on time and that are late.
 *
 * The model keeps one list in the order of arrival and scans it for everything; instants are searched for, one exact account
 * (account.h) per limit and key. Every answer, every next instant and every end is compared to the nanosecond. Periods are a
 * few dozen ns, so that all that can come together does.
 */
#include "support/unit.h"

#include "model/account.h"
#include "support/random.h"

#define OPERATIONS 400000
#define KEYS 2
#define ASKS 3
#define GUESTS 64
#define PERMITS 32
#define FOREVER 100000               /* ns; beyond every wait */
#define LATE (10 * WEIR_MILLISECOND) /* a turn is decided at its own instant, unless that is longer ago */

static struct weir_limit limits[] = {
    { .name = "token", .rate = { 5, 100 }, .burst = 4, .wait = { 200, 6 } },
    { .name = "sevenths", .rate = { 7, 100 }, .burst = 3, .wait = { 150, 4 } },
    { .name = "pace", .algorithm = WEIR_LEAKY_QUEUE, .rate = { 3, 50 }, .burst = 1, .wait = { 120, 5 } },
    { .name = "fixed", .algorithm = WEIR_FIXED_WINDOW, .rate = { 4, 60 }, .wait = { 200, 5 } },
    { .name = "first",
      .algorithm = WEIR_FIXED_WINDOW,
      .align = WEIR_ALIGN_FIRST_REQUEST,
      .rate = { 3, 80 },
      .wait = { 200, 5 } },
    { .name = "sliding", .algorithm = WEIR_SLIDING_WINDOW, .rate = { 5, 64 }, .wait = { 180, 5 } },
    { .name = "log", .algorithm = WEIR_SLIDING_LOG, .rate = { 4, 90 }, .wait = { 200, 5 } },
    { .name = "impatient", .rate = { 30, 100 }, .burst = 6 },
    { .name = "permits",
      .algorithm = WEIR_CONCURRENCY,
      .at_most = 3,
      .hold = WEIR_MILLISECOND,
      .wait = { 250, 4 } },
};
#define LIMITS COUNT_OF(limits)

/* The same for account.h, to which a pace is a bucket of one. */
static struct weir_limit accounted[LIMITS];

static void account_for_limits(void)
{
    memcpy(accounted, limits, sizeof accounted);
    for (size_t i = 0; i < LIMITS; i++)
        if (limits[i].algorithm == WEIR_LEAKY_QUEUE)
            accounted[i].algorithm = WEIR_LEAKY_BUCKET;
}

/* ---- One limit and key ------------------------------------------------------------------------------------------- */

static bool is_permits(const struct account *account)
{
    return account->limit->algorithm == WEIR_CONCURRENCY;
}

/* Expired ones stay in the list: they are told apart by the instant. A late stamp sees what the newest grant saw. */
static uint64_t held(const struct account *account, weir_ns now)
{
    uint64_t sum = 0;
    weir_ns at = now > account->newest ? now : account->newest;
    for (unsigned i = 0; i < account->count; i++)
        if (account->entries[i].at + account->limit->hold > at)
            sum += account->entries[i].cost;
    return sum;
}

static uint64_t capacity(const struct account *account)
{
    return is_permits(account) ? account->limit->at_most : account_capacity(account);
}

static bool admits(const struct account *account, weir_ns now, uint64_t cost)
{
    if (is_permits(account))
        return held(account, now) + cost <= account->limit->at_most;
    return account_admits(account, now, cost);
}

/* The first instant, not before `from`, that admits the cost. */
static weir_ns earliest(const struct account *account, weir_ns from, uint64_t cost)
{
    weir_ns low = from, high = (from > account->newest ? from : account->newest) + FOREVER;
    uint64_t wanted = cost == 0 ? 1 : cost;
    if (admits(account, from, wanted))
        return from;
    for (unsigned i = 0; is_permits(account) && i < account->count; i++) {
        weir_ns expires_at = account->entries[i].at + account->limit->hold;
        high = i == 0 || expires_at > high ? expires_at : high;
    }
    if (!admits(account, high, wanted))
        high += 2 * LATE; /* a late stamp, beside what was charged since */
    if (!admits(account, high, wanted))
        return WEIR_NO_TIME;
    while (high - low > 1) {
        weir_ns middle = low + (high - low) / 2;
        *(admits(account, middle, wanted) ? &high : &low) = middle;
    }
    return high;
}

static void charge(struct account *account, weir_ns now, uint64_t cost)
{
    if (!is_permits(account)) { /* an emptied window is none, but not forgotten by older stamps */
        bool is_late = account_is_first(account) && account->count == 0 && account->newest > now;
        account_charge(account, is_late ? account->newest : now, cost);
        return;
    }
    account->newest = now > account->newest ? now : account->newest;
    account->entries[account->count++] = (struct entry){ account->newest, cost };
}

/* As if those ahead asked one by one, each as early as it can. */
static weir_ns foresee(const struct account *account, weir_ns now, uint64_t ahead, uint64_t cost)
{
    struct account copy = *account;
    weir_ns at = now;
    for (uint64_t i = 0; i < ahead && at != WEIR_NO_TIME; i++) {
        at = earliest(&copy, at, 1);
        if (at != WEIR_NO_TIME)
            charge(&copy, at, 1);
    }
    return at == WEIR_NO_TIME ? at : earliest(&copy, at, cost);
}

static void give_back(struct account *account, weir_ns now, uint64_t amount)
{
    weir_ns period = account->limit->rate.period, from = now / period * period;
    if (account->limit->algorithm <= WEIR_LEAKY_BUCKET) {
        u128 clock = (u128)now * account->limit->rate.count, back = (u128)amount * period;
        if (account->full_at > clock)
            account->full_at = account->full_at - clock > back ? account->full_at - back : clock;
        return;
    }
    if (account->limit->algorithm == WEIR_SLIDING_LOG)
        from = now >= period ? now - period + 1 : 0;
    if (account_is_first(account))
        from = account->count > 0 && now < account->started + period ? account->started : WEIR_NO_TIME;
    for (unsigned i = account->count; i-- > 0 && amount > 0;) {
        struct entry *entry = &account->entries[i];
        uint64_t back = entry->at < from ? 0 : entry->cost < amount ? entry->cost : amount;
        entry->cost -= back;
        amount -= back;
    }
    if (account_is_first(account) && from != WEIR_NO_TIME && account_sum(account, from, from + period) == 0)
        account->count = 0; /* an empty window is none */
}

/* ---- Who waits ------------------------------------------------------------------------------------------------------ */

struct request {
    struct weir_ask asks[ASKS];
    size_t count;
    bool acquires;
};

struct guest {
    struct weir_waiter waiter;
    struct weir_waiter_part parts[ASKS];
    struct request request;
    bool queues[ASKS]; /* by ask: it stands in that queue */
    bool waits;
    weir_ns started_at, deadline, due;
    enum weir_outcome expected; /* how it ended in the model */
    weir_ns expected_retry_at, expected_waited;
    weir_ns granted[ASKS];
};

struct world {
    struct weir *weir;
    struct account accounts[LIMITS][KEYS];
    struct guest guests[GUESTS];
    struct guest *line[GUESTS]; /* who waits, in the order of arrival */
    size_t waiting;
    struct guest *ended[GUESTS]; /* in this tick, by the model; and how many were told of already */
    size_t ended_count, told;
    struct {
        struct weir_permit permit;
        struct account *account[ASKS];
        uint64_t cost[ASKS];
        size_t count;
        weir_ns given_at[ASKS];
    } permits[PERMITS];
    size_t permit_count;
    struct random random;
    weir_ns granted[ASKS]; /* by the last request that was let through, ask by ask */
    weir_ns now, resized_at[LIMITS];
    uint64_t served, denied_late, refused;
};
static struct world *the_world;

static struct account *account_of(struct world *world, const struct weir_ask *ask)
{
    return &world->accounts[ask->limit][((const char *)ask->key)[0] - 'a'];
}

static bool is_same(const struct weir_ask *x, const struct weir_ask *y)
{
    return x->limit == y->limit && ((const char *)x->key)[0] == ((const char *)y->key)[0];
}

/* What waits for this limit and key; of those before `before`, or of all with NULL. */
struct crowd {
    uint64_t cost;
    size_t count;
};

static struct crowd crowd_before(const struct world *world, const struct weir_ask *ask,
                                 const struct guest *before)
{
    struct crowd crowd = { 0, 0 };
    for (size_t i = 0; i < world->waiting && world->line[i] != before; i++)
        for (size_t k = 0; k < world->line[i]->request.count; k++)
            if (world->line[i]->queues[k] && is_same(&world->line[i]->request.asks[k], ask)) {
                crowd.cost += world->line[i]->request.asks[k].cost;
                crowd.count++;
            }
    return crowd;
}

static bool is_first(const struct world *world, const struct guest *guest)
{
    for (size_t i = 0; i < guest->request.count; i++)
        if (guest->queues[i] && crowd_before(world, &guest->request.asks[i], guest).count > 0)
            return false;
    return true;
}

static weir_ns prospect(struct world *world, const struct guest *guest, weir_ns from)
{
    weir_ns at = from > guest->started_at ? from : guest->started_at, due = at;
    for (size_t i = 0; i < guest->request.count; i++) {
        const struct weir_ask *ask = &guest->request.asks[i];
        if (!guest->queues[i])
            continue;
        if (ask->cost > capacity(account_of(world, ask)))
            return at;
        weir_ns since = world->resized_at[ask->limit]; /* nothing is decided before its size was in force */
        weir_ns passes_at = earliest(account_of(world, ask), at > since ? at : since, ask->cost);
        due = passes_at > due ? passes_at : due;
    }
    return due;
}

static weir_ns wake_at(const struct guest *guest)
{
    return guest->due < guest->deadline ? guest->due : guest->deadline;
}

/* Out of the line. Whoever is first by that looks at `at`. */
static void leave(struct world *world, struct guest *guest, weir_ns at)
{
    bool was_first[GUESTS];
    size_t kept = 0;
    for (size_t i = 0; i < world->waiting; i++)
        was_first[i] = is_first(world, world->line[i]);
    for (size_t i = 0; i < world->waiting; i++)
        if (world->line[i] != guest) {
            was_first[kept] = was_first[i];
            world->line[kept++] = world->line[i];
        }
    world->waiting = kept;
    guest->waits = false;
    for (size_t i = 0; i < kept; i++)
        if (!was_first[i] && is_first(world, world->line[i]))
            world->line[i]->due = prospect(world, world->line[i], at);
}

/* Something was given back to this limit and key at `at`; a reset says no instant. A turn that has come stays. */
static void touched(struct world *world, const struct weir_ask *ask, weir_ns at)
{
    for (size_t i = 0; i < world->waiting; i++)
        for (size_t k = 0; k < world->line[i]->request.count; k++)
            if (world->line[i]->queues[k] && is_same(&world->line[i]->request.asks[k], ask)
                && is_first(world, world->line[i]) && world->line[i]->due > at)
                world->line[i]->due = prospect(
                    world, world->line[i], at > world->line[i]->started_at ? at : world->line[i]->started_at);
}

/* ---- Deciding -------------------------------------------------------------------------------------------------------- */

struct verdict {
    enum weir_outcome outcome;
    weir_ns retry_at; /* of a denial */
    bool waits_only;  /* nothing refuses but what can be waited for */
};

static bool lets_wait(const struct request *request, size_t i)
{
    const struct weir_limit *limit = &limits[request->asks[i].limit];
    return limit->wait.up_to > 0 && request->asks[i].cost > 0
           && (request->acquires || limit->algorithm != WEIR_CONCURRENCY);
}

/* No limit decides before the instant at which its size came into force. */
static weir_ns instant_of(const struct world *world, const struct weir_ask *ask)
{
    weir_ns since = world->resized_at[ask->limit];
    return world->now > since ? world->now : since;
}

/* What one ask answers now; `turn`: of a guest that is first in this queue. */
static struct verdict ask_one(struct world *world, const struct weir_ask *ask, bool turn)
{
    const struct account *account = account_of(world, ask);
    struct crowd crowd = crowd_before(world, ask, NULL);
    weir_ns now = instant_of(world, ask);
    if (ask->cost > capacity(account))
        return (struct verdict){ WEIR_NEVER, WEIR_NO_TIME, false };
    if (ask->cost == 0)
        return (struct verdict){ WEIR_ALLOW, 0, false };
    if (crowd.count > 0 && !turn) {
        weir_ns at = is_permits(account) ? account->newest : account_effective(account, now);
        weir_ns retry_at = foresee(account, now, crowd.cost, ask->cost);
        return (struct verdict){ WEIR_DENY, retry_at > at ? retry_at : at, false };
    }
    if (admits(account, now, ask->cost))
        return (struct verdict){ WEIR_ALLOW, now, false };
    return (struct verdict){ WEIR_DENY, earliest(account, now, ask->cost), false };
}

static void take(struct world *world, const struct request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        struct account *account = account_of(world, &request->asks[i]);
        if (request->asks[i].cost > 0 && (request->acquires || !is_permits(account)))
            charge(account, instant_of(world, &request->asks[i]), request->asks[i].cost);
        world->granted[i] = account->newest;
    }
}

/* All or nothing. */
static struct verdict decide(struct world *world, const struct request *request, const bool *turns,
                             bool is_look)
{
    struct verdict all = { WEIR_ALLOW, 0, true };
    for (size_t i = 0; i < request->count; i++) {
        struct verdict one = ask_one(world, &request->asks[i], turns != NULL && turns[i]);
        all.waits_only &= one.outcome == WEIR_ALLOW || (one.outcome == WEIR_DENY && lets_wait(request, i));
        if (one.outcome == WEIR_NEVER)
            all.outcome = WEIR_NEVER;
        if (one.outcome == WEIR_DENY) {
            all.outcome = all.outcome == WEIR_NEVER ? WEIR_NEVER : WEIR_DENY;
            all.retry_at = one.retry_at > all.retry_at ? one.retry_at : all.retry_at;
        }
    }
    if (all.outcome == WEIR_ALLOW && !is_look)
        take(world, request);
    return all;
}

static void end(struct world *world, struct guest *guest, struct verdict verdict)
{
    guest->expected = verdict.outcome;
    guest->expected_retry_at = verdict.retry_at;
    guest->expected_waited = world->now - guest->started_at;
    memcpy(guest->granted, world->granted, sizeof guest->granted);
    world->ended[world->ended_count++] = guest;
}

/* Its deadline has come: what would it be told if it came now, but for the chance to pass? */
static void expire(struct world *world, struct guest *guest, weir_ns at)
{
    bool queued[ASKS];
    memcpy(queued, guest->queues, sizeof queued);
    leave(world, guest, at);
    struct verdict verdict = decide(world, &guest->request, NULL, true);
    for (size_t i = 0; i < guest->request.count && verdict.outcome != WEIR_NEVER; i++)
        if (queued[i] && ask_one(world, &guest->request.asks[i], false).outcome == WEIR_ALLOW) {
            verdict.outcome = WEIR_DENY;
            verdict.retry_at = world->now > verdict.retry_at ? world->now : verdict.retry_at;
        }
    world->denied_late++;
    end(world, guest, verdict);
}

static void take_turn(struct world *world, struct guest *guest)
{
    weir_ns at = wake_at(guest), now = world->now;
    world->now = at + LATE > now ? at : now - LATE;
    struct verdict verdict = decide(world, &guest->request, guest->queues, false);
    bool only_queues = verdict.outcome == WEIR_DENY;
    for (size_t i = 0; i < guest->request.count; i++)
        if (!guest->queues[i] && ask_one(world, &guest->request.asks[i], false).outcome == WEIR_DENY)
            only_queues = false;
    if (verdict.outcome == WEIR_DENY && only_queues
        && (now < guest->deadline || verdict.retry_at <= guest->deadline)) {
        guest->due = verdict.retry_at;
    } else {
        leave(world, guest, at);
        world->served += verdict.outcome == WEIR_ALLOW;
        end(world, guest, verdict);
    }
    world->now = now;
}

static struct guest *next_guest(const struct world *world)
{
    struct guest *next = NULL;
    for (size_t i = 0; i < world->waiting; i++)
        if (next == NULL || wake_at(world->line[i]) < wake_at(next))
            next = world->line[i];
    return next;
}

static void model_tick(struct world *world)
{
    world->ended_count = world->told = 0;
    for (struct guest *guest; (guest = next_guest(world)) != NULL && wake_at(guest) <= world->now;) {
        if (guest->due <= guest->deadline && is_first(world, guest))
            take_turn(world, guest);
        else
            expire(world, guest, guest->deadline);
    }
}

/* ---- Comparing -------------------------------------------------------------------------------------------------------- */

static void keep_permit(struct world *world, const struct request *request, const weir_ns *granted,
                        const struct weir_permit *permit)
{
    if (permit->len == 0)
        return;
    assert_true(world->permit_count < PERMITS);
    size_t at = world->permit_count++;
    world->permits[at].permit = *permit;
    world->permits[at].count = 0;
    for (size_t i = 0; i < request->count; i++) {
        struct account *account = account_of(world, &request->asks[i]);
        if (!is_permits(account) || request->asks[i].cost == 0)
            continue;
        world->permits[at].account[world->permits[at].count] = account;
        world->permits[at].given_at[world->permits[at].count] = granted[i];
        world->permits[at].cost[world->permits[at].count++] = request->asks[i].cost;
    }
}

static void expect(const struct world *world, const struct request *request,
                   const struct weir_decision *decision, enum weir_outcome outcome, weir_ns retry_at)
{
    if (decision->outcome == outcome && (outcome != WEIR_DENY || decision->retry_at == retry_at))
        return;
    for (size_t i = 0; i < request->count; i++)
        print_error("%s of %s, key %s; ", request->acquires ? "acquires" : "asks",
                    limits[request->asks[i].limit].name, (const char *)request->asks[i].key);
    fail_msg("at %llu: outcome %d, retry at %llu; expected %d, %llu", (unsigned long long)world->now,
             (int)decision->outcome, (unsigned long long)decision->retry_at, (int)outcome,
             (unsigned long long)retry_at);
}

static void done(struct weir_waiter *waiter)
{
    struct world *world = the_world;
    struct guest *guest = waiter->owner;
    assert_true(world->told < world->ended_count);
    assert_ptr_equal(world->ended[world->told++], guest); /* in this very order */
    expect(world, &guest->request, &waiter->decision, guest->expected, guest->expected_retry_at);
    assert_int_equal(waiter->waited, guest->expected_waited);
    if (guest->expected == WEIR_ALLOW && guest->request.acquires) {
        struct weir_permit permit;
        weir_waiter_permit(world->weir, waiter, &permit);
        keep_permit(world, &guest->request, guest->granted, &permit);
    }
}

static void tick(struct world *world)
{
    model_tick(world);
    size_t count = 0;
    while (weir_wait_next(world->weir) <= world->now)
        count += weir_wait_tick(world->weir, world->now, 1 + random_below(&world->random, 3));
    assert_int_equal(count, world->ended_count);
    assert_int_equal(world->told, world->ended_count);
}

static void compare_next(const struct world *world)
{
    const struct guest *next = next_guest(world);
    assert_int_equal(weir_wait_next(world->weir), next == NULL ? WEIR_NO_TIME : wake_at(next));
}

/* ---- Operations --------------------------------------------------------------------------------------------------------- */

static void draw_request(struct world *world, struct request *out)
{
    static const char *const keys[KEYS] = { "a", "b" };
    static const uint64_t costs[] = { 0, 1, 1, 1, 1, 1, 2, 2, 3, 5 };
    size_t first = random_below(&world->random, LIMITS);
    out->count = random_below(&world->random, 2) == 0 ? 1 : 1 + random_below(&world->random, ASKS);
    out->acquires = random_below(&world->random, 2) == 0 && world->permit_count + world->waiting + 1 < PERMITS;
    for (size_t i = 0; i < out->count; i++)
        out->asks[i] = (struct weir_ask){
            .limit = (weir_limit_id)((first + i * (1 + random_below(&world->random, 2))) % LIMITS),
            .key = keys[random_below(&world->random, KEYS)],
            .key_len = 1,
            .cost = costs[random_below(&world->random, COUNT_OF(costs))]
        };
    for (size_t i = 1; i < out->count; i++) /* each limit and key once: what is added up is tried elsewhere */
        for (size_t k = 0; k < i; k++)
            if (is_same(&out->asks[i], &out->asks[k]))
                out->count = i;
}

static void operation_plain(struct world *world)
{
    struct request request;
    struct weir_decision decision;
    struct weir_permit permit = { .len = 0 };
    draw_request(world, &request);
    bool is_peek = random_below(&world->random, 3) == 0;
    request.acquires &= !is_peek;
    struct verdict verdict = decide(world, &request, NULL, is_peek);
    int code =
        is_peek ? weir_admit_peek(world->weir, request.asks, request.count, world->now, NULL, &decision)
        : request.acquires
            ? weir_acquire(world->weir, request.asks, request.count, world->now, NULL, &decision, &permit)
            : weir_admit(world->weir, request.asks, request.count, world->now, NULL, &decision);
    assert_int_equal(code, 0);
    expect(world, &request, &decision, verdict.outcome, verdict.retry_at);
    keep_permit(world, &request, world->granted, &permit);
}

/* The rules of arrival. True: it waits. */
static bool model_arrives(struct world *world, struct guest *guest, weir_ns patience, struct verdict *verdict)
{
    const struct request *request = &guest->request;
    *verdict = decide(world, request, NULL, false);
    if (verdict->outcome != WEIR_DENY || !verdict->waits_only || patience == 0)
        return false;
    bool is_refused = false;
    weir_ns turn = world->now, up_to = patience;
    for (size_t i = 0; i < request->count; i++) {
        const struct weir_limit *limit = &limits[request->asks[i].limit];
        guest->queues[i] = lets_wait(request, i);
        if (guest->queues[i] && limit->wait.up_to < up_to)
            up_to = limit->wait.up_to;
    }
    for (size_t i = 0; i < request->count; i++) {
        const struct weir_ask *ask = &request->asks[i];
        struct crowd crowd = crowd_before(world, ask, NULL);
        if (!guest->queues[i])
            continue;
        weir_ns at = foresee(account_of(world, ask), world->now, crowd.cost, ask->cost);
        is_refused |= crowd.count >= limits[ask->limit].wait.queue;
        is_refused |= at > world->now + up_to && !is_permits(account_of(world, ask));
        turn = at > turn ? at : turn;
    }
    verdict->retry_at = turn;
    guest->started_at = world->now;
    guest->deadline = world->now + up_to;
    guest->due = WEIR_NO_TIME;
    world->refused += is_refused;
    return !is_refused;
}

static void operation_arrive(struct world *world)
{
    struct guest *guest = NULL;
    struct weir_decision decision;
    struct verdict verdict;
    for (size_t i = 0; i < GUESTS && guest == NULL; i++)
        if (!world->guests[i].waits)
            guest = &world->guests[i];
    if (guest == NULL)
        return;
    memset(guest, 0, sizeof *guest);
    draw_request(world, &guest->request);
    weir_ns patience = random_below(&world->random, 4) == 0 ? 100000 : random_below(&world->random, 260);
    guest->waiter = (struct weir_waiter){ .parts = guest->parts,
                                          .part_room = ASKS,
                                          .acquires = guest->request.acquires,
                                          .done = done,
                                          .owner = guest };
    bool waits = model_arrives(world, guest, patience, &verdict);
    assert_int_equal(weir_wait_start(world->weir, &guest->waiter, guest->request.asks, guest->request.count,
                                     patience, world->now, &decision),
                     0);
    if (waits) {
        assert_int_equal(decision.outcome, WEIR_WAIT);
        assert_int_equal(decision.retry_at, verdict.retry_at);
        guest->waits = true;
        world->line[world->waiting++] = guest;
        if (is_first(world, guest))
            guest->due = prospect(world, guest, world->now);
        return;
    }
    expect(world, &guest->request, &decision, verdict.outcome, verdict.retry_at);
    if (verdict.outcome == WEIR_ALLOW && guest->request.acquires) {
        struct weir_permit permit;
        weir_waiter_permit(world->weir, &guest->waiter, &permit);
        keep_permit(world, &guest->request, world->granted, &permit);
    }
}

static void operation_cancel(struct world *world)
{
    if (world->waiting == 0)
        return;
    struct guest *guest = world->line[random_below(&world->random, world->waiting)];
    assert_true(weir_wait_cancel(world->weir, &guest->waiter, world->now));
    assert_false(weir_wait_cancel(world->weir, &guest->waiter, world->now));
    leave(world, guest, world->now);
}

static void operation_give_back(struct world *world)
{
    struct request request;
    struct weir_settlement settlement;
    draw_request(world, &request);
    const struct weir_ask *ask = &request.asks[0];
    if (is_permits(account_of(world, ask)))
        return;
    if (random_below(&world->random, 4) == 0) {
        struct account *account = account_of(world, ask);
        *account = (struct account){ .limit = account->limit };
        assert_int_equal(weir_reset(world->weir, ask->limit, ask->key, 1), 0);
        touched(world, ask, 0);
    } else {
        give_back(account_of(world, ask), world->now, ask->cost);
        assert_int_equal(weir_refund(world->weir, ask, 1, world->now, &settlement), 0);
        if (settlement.returned > 0)
            touched(world, ask, world->now);
    }
}

static void operation_release(struct world *world)
{
    if (world->permit_count == 0)
        return;
    bool was_held;
    size_t at = random_below(&world->random, world->permit_count);
    assert_int_equal(weir_release(world->weir, world->permits[at].permit.bytes, world->permits[at].permit.len,
                                  world->now, &was_held),
                     0);
    bool any = false, held[ASKS];
    for (size_t i = 0; i < world->permits[at].count; i++) {
        struct account *account = world->permits[at].account[i];
        unsigned k = 0;
        while (account->entries[k].cost != world->permits[at].cost[i]
               || account->entries[k].at != world->permits[at].given_at[i])
            k++;
        weir_ns latest = world->now > account->newest ? world->now : account->newest;
        held[i] = account->entries[k].at + account->limit->hold > latest;
        any |= held[i];
        account->entries[k] = account->entries[--account->count];
    }
    assert_int_equal(was_held, any);
    for (size_t i = 0; i < world->permits[at].count; i++) {
        struct account *account = world->permits[at].account[i];
        if (!held[i])
            continue; /* it had come back by itself */
        size_t limit = (size_t)(account - world->accounts[0]) / KEYS;
        char key = (char)('a' + (size_t)(account - world->accounts[0]) % KEYS);
        touched(world, &(struct weir_ask){ .limit = (weir_limit_id)limit, .key = &key }, world->now);
    }
    world->permits[at] = world->permits[--world->permit_count];
}

/* Another burst, another queue: who waits keeps its place, and looks again. */
static void operation_change(struct world *world)
{
    struct weir_change *change;
    weir_limit_id id;
    size_t which = random_below(&world->random, 3) * 3;
    struct weir_limit before = limits[which];
    if (which == 0)
        limits[0].burst = 2 + random_below(&world->random, 4);
    if (which == 3)
        limits[3].wait.queue = 1 + (uint32_t)random_below(&world->random, 5);
    if (memcmp(&before, &limits[which], sizeof before) != 0)
        world->resized_at[which] = world->now;
    account_for_limits();
    assert_int_equal(weir_change_new(&change, world->weir), 0);
    for (size_t i = 0; i < LIMITS; i++)
        assert_int_equal(weir_change_limit(change, &limits[i], &id), 0);
    assert_int_equal(weir_change_commit(change, world->now, NULL, NULL), 0);
    for (size_t i = 0; i < world->waiting; i++)
        if (is_first(world, world->line[i]) && world->line[i]->due > world->now)
            world->line[i]->due = prospect(world, world->line[i], world->now);
    if (random_below(&world->random, 2) == 0)
        compare_next(world);
    weir_quiesce(world->weir, world->now);
}

static void operation(struct world *world)
{
    uint64_t kind = random_below(&world->random, 1000);
    if (kind < 640)
        operation_arrive(world);
    else if (kind < 840)
        operation_plain(world);
    else if (kind < 880)
        operation_cancel(world);
    else if (kind < 920)
        operation_give_back(world);
    else if (kind < 998)
        operation_release(world);
    else
        operation_change(world);
}

/* On time: every instant of its own. Late: whatever was due meanwhile is looked at now. */
static void pass_time(struct world *world)
{
    weir_ns until = world->now + random_below(&world->random, random_below(&world->random, 16) == 0 ? 40 : 2);
    bool is_late = random_below(&world->random, 8) == 0;
    for (weir_ns at; !is_late && (at = weir_wait_next(world->weir)) <= until;) {
        world->now = at > world->now ? at : world->now;
        tick(world);
        compare_next(world);
    }
    world->now = until;
    if (random_below(&world->random, 4000) == 0) /* a driver that was stopped */
        world->now += random_below(&world->random, 2 * LATE);
    if (random_below(&world->random, 8) != 0)
        tick(world);
}

static void the_room_is_a_list(void **state)
{
    (void)state;
    static const uint8_t secret[16] = { 4, 5, 6 };
    struct world *world = the_world = calloc(1, sizeof *world);
    world->random.state = random_seed(29030);
    account_for_limits();
    assert_int_equal(weir_new(&world->weir, &(struct weir_options){ .keys = 1000, .secret = secret }), 0);
    for (size_t i = 0; i < LIMITS; i++) {
        weir_limit_id id;
        assert_int_equal(weir_limit_add(world->weir, &limits[i], &id), 0);
        for (size_t key = 0; key < KEYS; key++)
            world->accounts[i][key].limit = &accounted[i];
    }
    world->now = 1000;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        operation(world);
        compare_next(world);
        pass_time(world);
        compare_next(world);
    }
    printf("%u operations: %llu served after a wait, %llu denied at their deadline, %llu refused on arrival\n",
           OPERATIONS, (unsigned long long)world->served, (unsigned long long)world->denied_late,
           (unsigned long long)world->refused);
    assert_true(world->served > OPERATIONS / 20 && world->denied_late > OPERATIONS / 1000
                && world->refused > OPERATIONS / 50);
    weir_free(world->weir);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_room_is_a_list) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
