// SPDX-License-Identifier: Apache-2.0
/*
 * test_lease_random.c - lease.c against a store written from algorithms 4.4, over a network that loses, doubles and reorders.
 *
 * Everything is exact: a token comes back in P ns of the store's clock, so levels are whole ns. After every event hold
 *
 *   I1  out = sum of left <= most, each left <= chunk                          (of the model: it is what it says)
 *   I2  granted = returned + spent + lost + out                               (P32)
 *   I3  what a process holds and has not told is within its record            (P33)
 *   P34 what was admitted, as a bucket, and what is in hands, is within what the store counts as used: so whoever spends all at
 *       once stays within burst + rate * t. Also behind a loss of the store's state (P37).
 *   and what each process says became of its tokens adds up.
 *
 * Tokens of undecided requests whose portion ends count as admitted at that instant. Clocks drift by up to 500 ppm, each its way.
 */
#include "fleet/lease.h"
#include "support/random.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define RUNS 3
#define WIRE_MAX 12
#define TAKES_MAX 6
#define EVENTS 3000000

struct record {
    uint64_t run, seq, left, grant;
    weir_ns expires_at, ttl;
    bool is_there;
};

/* Of algorithms 4.4; one token in P ns. */
struct store {
    uint64_t burst, period, most;
    uint64_t level; /* used, in ns */
    weir_ns last;
    uint64_t out, granted, returned, spent, lost, version;
    struct record records[64];
};

/* A copy of a message, or of its answer, on its way. */
struct packet {
    bool is_there, is_answer;
    uint64_t run;
    struct script_lease message;
    struct script_lease_answer answer;
};

struct take {
    uint64_t taken;
    uint32_t life;
};

struct process {
    uint64_t run, seq;
    struct holding holding;
    struct take takes[TAKES_MAX];
    struct lease_result ledger; /* of holding since its start */
    bool is_admitted;           /* what is undecided: its portion has ended, and it does not know yet */
    int64_t ppm;
    weir_ns asleep; /* ahead of the store's */
    bool is_orphan; /* the store has forgotten its record, and it has not heard so */
    uint64_t orphan_seq;
};

enum event {
    EVENT_TIME,
    EVENT_PAUSE,
    EVENT_TAKE,
    EVENT_KEEP,
    EVENT_UNDO,
    EVENT_SPEAK,
    EVENT_BACK,
    EVENT_ARRIVE,
    EVENT_DOUBLE,
    EVENT_LOSE,
    EVENT_UNHEARD,
    EVENT_CRASH,
    EVENT_STRICT,
    EVENT_TERMS,
    EVENT_FORGET,
    EVENT_COUNT
};

struct world {
    struct random random;
    weir_ns now; /* true time, which is the store's */
    struct weir_lease lease;
    struct store store;
    struct process processes[RUNS];
    struct packet wire[WIRE_MAX];
    uint64_t admitted; /* the level of a bucket that is charged with what is admitted, in ns */
    weir_ns admitted_last;
    uint64_t runs;
    uint64_t chunk_most, most_most;
    uint64_t counts[EVENT_COUNT], grants, late, forgotten, admissions, refused;
};

static uint64_t below(struct world *world, uint64_t bound)
{
    return random_below(&world->random, bound);
}

/* ---- The store ------------------------------------------------------------------------------------------------------------- */

static void drain(uint64_t *level, weir_ns *last, weir_ns now, uint64_t floor)
{
    if (now <= *last)
        return;
    uint64_t elapsed = now - *last;
    *level = *level > floor + elapsed ? *level - elapsed : *level < floor ? *level : floor;
    *last = now;
}

static void refill(struct store *store, weir_ns now)
{
    drain(&store->level, &store->last, now, store->out * store->period);
}

static uint64_t tokens(const struct store *store)
{
    return (store->burst * store->period - store->level) / store->period;
}

static void expire_records(struct store *store, weir_ns now)
{
    for (size_t i = 0; i < COUNT_OF(store->records); i++) {
        struct record *record = &store->records[i];
        if (!record->is_there || now < record->expires_at)
            continue;
        store->lost += record->left;
        store->out -= record->left;
        *record = (struct record){ 0 };
    }
}

static struct record *record_of(struct store *store, uint64_t run)
{
    for (size_t i = 0; i < COUNT_OF(store->records); i++)
        if (store->records[i].is_there && store->records[i].run == run)
            return &store->records[i];
    return NULL;
}

static struct record *add_record(struct store *store, uint64_t run)
{
    for (size_t i = 0; i < COUNT_OF(store->records); i++)
        if (!store->records[i].is_there) {
            store->records[i] = (struct record){ .run = run, .is_there = true };
            return &store->records[i];
        }
    fail_msg("more runs at once than the model has room for");
    return NULL;
}

static uint64_t least(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

static uint64_t grant(struct store *store, struct record *record, const struct script_lease *message)
{
    uint64_t room = message->lease.chunk > record->left ? message->lease.chunk - record->left : 0;
    uint64_t all = message->lease.most > store->out ? message->lease.most - store->out : 0;
    uint64_t active = 0, pool = tokens(store);
    for (size_t i = 0; i < COUNT_OF(store->records); i++)
        active += store->records[i].is_there;
    uint64_t part = pool / (2 * active) > 1 ? pool / (2 * active) : 1;
    uint64_t granted = least(least(message->want, room), least(least(all, pool), part));
    record->left += granted;
    store->out += granted;
    store->granted += granted;
    store->level += granted * store->period;
    return granted;
}

static struct script_lease_answer serve(struct store *store, uint64_t run, const struct script_lease *message,
                                        weir_ns now)
{
    expire_records(store, now);
    refill(store, now);
    struct script_lease_answer answer = { .ends_after = WEIR_NO_TIME };
    struct record *record = record_of(store, run);
    if (record != NULL && message->seq < record->seq)
        return (struct script_lease_answer){ .is_stale = true };
    answer.is_repeated = record != NULL && message->seq == record->seq;
    if (record == NULL)
        record = add_record(store, run);
    else if (!answer.is_repeated) {
        uint64_t used = least(message->used, record->left);
        uint64_t given = least(message->give, record->left - used);
        record->left -= used + given;
        store->out -= used + given;
        store->spent += used;
        store->returned += given;
        store->level -= given * store->period;
    }
    if (!answer.is_repeated) {
        record->seq = message->seq;
        record->grant = grant(store, record, message);
        record->ttl = message->lease.duration;
        record->expires_at = now + record->ttl + SCRIPT_LEASE_GRACE_NS(record->ttl);
        store->version += 1;
    }
    answer.granted = record->grant;
    answer.left = record->left;
    answer.ttl = record->ttl;
    answer.remaining = tokens(store);
    answer.retry_after = answer.remaining > 0 ? 0 : store->level + store->period - store->burst * store->period;
    answer.seen = (struct script_seen){ store->version, 0, now };
    return answer;
}

/* ---- Processes ------------------------------------------------------------------------------------------------------------- */

static weir_ns clock_of(const struct world *world, const struct process *process)
{
    int64_t drift = (int64_t)(world->now / 1000000) * process->ppm;
    return (weir_ns)((int64_t)world->now + drift) + process->asleep;
}

static void admit(struct world *world, uint64_t cost)
{
    drain(&world->admitted, &world->admitted_last, world->now, 0);
    world->admitted += cost * world->store.period;
    world->admissions += cost;
}

/* A portion ended: of what there was before it, what was undecided is admitted. */
static void note_end(struct world *world, struct process *process, const struct holding *before)
{
    process->ledger.lost += before->have + before->pending;
    if (!process->is_admitted)
        admit(world, before->pending);
    process->is_admitted = false;
}

/* To be called before whatever may end a portion without saying so. */
static void expire(struct world *world, struct process *process)
{
    struct holding before = process->holding;
    uint64_t ended = lease_expire(&process->holding, clock_of(world, process));
    if (process->holding.life == before.life)
        return;
    assert_int_equal(ended, before.have + before.pending);
    note_end(world, process, &before);
}

/* Time goes on in steps that are short beside the grace, so what is undecided at a portion's end is admitted when it ends. */
static void pass(struct world *world, weir_ns time)
{
    weir_ns step = world->lease.duration / 400;
    while (time > 0) {
        weir_ns part = time < step ? time : step;
        world->now += part;
        time -= part;
        for (size_t i = 0; i < RUNS; i++) {
            struct process *process = &world->processes[i];
            if (process->is_admitted || process->holding.pending == 0
                || clock_of(world, process) < process->holding.expires_at)
                continue;
            admit(world, process->holding.pending);
            process->is_admitted = true;
        }
    }
}

static void start(struct world *world, struct process *process)
{
    *process = (struct process){ .run = ++world->runs,
                                 .ppm = (int64_t)below(world, 1001) - 500,
                                 .asleep = below(world, 100) * WEIR_SECOND };
    /* The store's clock and the processes' are each up to 500 ppm off: the grace is for both. */
    lease_init(&process->holding, &world->lease, clock_of(world, process));
}

/* Takes without expire() before it: what is over is not spent all the same. */
static void take(struct world *world, struct process *process)
{
    struct holding *holding = &process->holding, before = *holding;
    uint64_t cost = 1 + below(world, below(world, 8) == 0 ? 8 : 2);
    bool is_partial = below(world, 2) == 0;
    struct take *slot = &process->takes[below(world, TAKES_MAX)];
    if (slot->taken > 0)
        return;
    weir_ns now = clock_of(world, process);
    uint64_t have = now < before.expires_at ? before.have : 0;
    uint64_t taken = lease_take(holding, cost, is_partial, now);
    assert_int_equal(taken, have >= cost ? cost : is_partial ? have : 0);
    *slot = (struct take){ taken, holding->life };
    if (holding->life != before.life)
        note_end(world, process, &before);
}

static void decide(struct world *world, struct process *process, bool is_kept)
{
    expire(world, process);
    struct take *take = &process->takes[below(world, TAKES_MAX)];
    if (take->taken == 0)
        return;
    if (is_kept)
        lease_keep(&process->holding, take->taken, take->life);
    else
        lease_undo(&process->holding, take->taken, take->life);
    if (is_kept && take->life == process->holding.life)
        admit(world, take->taken);
    take->taken = 0;
}

static void post(struct world *world, const struct packet *packet)
{
    struct packet copy = *packet;
    world->wire[below(world, WIRE_MAX)] = copy; /* where there was one it is lost */
}

static void speak(struct world *world, struct process *process, bool hands_back)
{
    expire(world, process);
    struct packet packet = { .is_there = true, .run = process->run };
    struct lease_flight before = process->holding.flight;
    bool is_new;
    if (!lease_speak(&process->holding, process->seq + 1, hands_back, clock_of(world, process), &packet.message,
                     &is_new))
        return;
    process->seq += is_new;
    assert_int_equal(packet.message.seq, process->seq);
    assert_true(is_new == (before.seq == 0));
    assert_true(is_new
                || (before.used == packet.message.used && before.give == packet.message.give
                    && before.want == packet.message.want));
    post(world, &packet);
    if (below(world, 8) == 0)
        post(world, &packet);
}

static struct process *process_of(struct world *world, uint64_t run)
{
    for (size_t i = 0; i < RUNS; i++)
        if (world->processes[i].run == run)
            return &world->processes[i];
    return NULL;
}

static void hear(struct world *world, const struct packet *packet)
{
    struct process *process = process_of(world, packet->run);
    if (process == NULL)
        return;
    expire(world, process);
    struct holding before = process->holding;
    uint64_t seq = packet->message.seq;
    struct lease_result result = lease_hear(&process->holding, seq, &packet->answer, clock_of(world, process));
    if (before.flight.seq != seq) {
        assert_memory_equal(&before, &process->holding, sizeof before);
        return;
    }
    process->ledger.granted += result.granted;
    process->ledger.returned += result.returned;
    process->ledger.spent += result.spent;
    process->ledger.lost += result.lost;
    assert_int_equal(process->holding.flight.seq, 0);
    if (process->holding.life != before.life)
        admit(world, before.pending);
    world->grants += result.granted > 0;
    world->late += process->holding.stray > before.stray;
    world->forgotten += process->is_orphan && process->holding.life != before.life;
    /* It has heard of the loss when the answer was given after it, which is when less is left than there was. */
    process->is_orphan =
        process->is_orphan && seq <= process->orphan_seq && packet->answer.left >= before.have + before.pending;
}

/* ---- Events ---------------------------------------------------------------------------------------------------------------- */

/* Any that is on its way; NULL: none. */
static struct packet *pick(struct world *world)
{
    size_t start = below(world, WIRE_MAX);
    for (size_t i = 0; i < WIRE_MAX; i++) {
        struct packet *packet = &world->wire[(start + i) % WIRE_MAX];
        if (packet->is_there)
            return packet;
    }
    return NULL;
}

static void arrive(struct world *world)
{
    struct packet *packet = pick(world);
    if (packet == NULL)
        return;
    struct packet copy = *packet;
    packet->is_there = false;
    if (copy.is_answer) {
        hear(world, &copy);
        return;
    }
    copy.answer = serve(&world->store, copy.run, &copy.message, world->now);
    copy.is_answer = true;
    post(world, &copy);
}

static void decide_strictly(struct world *world)
{
    struct store *store = &world->store;
    expire_records(store, world->now);
    refill(store, world->now);
    uint64_t cost = 1 + below(world, 4);
    if (tokens(store) < cost) {
        world->refused += 1;
        return;
    }
    store->level += cost * store->period;
    admit(world, cost);
}

/* Algorithms 4.5: nothing is granted until every portion of before is over, and then it fills up from empty. */
static void lose_state(struct world *world)
{
    struct store *store = &world->store;
    weir_ns longest = 2 * world->lease.duration;
    *store = (struct store){ .burst = store->burst, .period = store->period, .most = store->most };
    store->level = store->burst * store->period;
    store->last = world->now + longest + SCRIPT_LEASE_GRACE_NS(longest);
    for (size_t i = 0; i < RUNS; i++) {
        world->processes[i].is_orphan = true;
        world->processes[i].orphan_seq = world->processes[i].seq;
    }
}

static void change_terms(struct world *world, struct process *process)
{
    struct weir_lease lease = world->lease;
    lease.chunk = 1 + below(world, lease.chunk);
    lease.duration = lease.duration / 2 + below(world, lease.duration);
    lease_change(&process->holding, below(world, 2) == 0 ? &lease : &world->lease);
}

static void happen(struct world *world, enum event event)
{
    struct process *process = &world->processes[below(world, RUNS)];
    struct packet *packet;
    switch (event) {
    case EVENT_TIME:
        pass(world, below(world, world->lease.duration / 32));
        break;
    case EVENT_PAUSE:
        pass(world, below(world, below(world, 4) == 0 ? 2 * world->lease.duration : world->lease.duration / 4));
        break;
    case EVENT_TAKE:
        take(world, process);
        break;
    case EVENT_KEEP:
    case EVENT_UNDO:
        decide(world, process, event == EVENT_KEEP);
        break;
    case EVENT_SPEAK:
    case EVENT_BACK:
        speak(world, process, event == EVENT_BACK);
        break;
    case EVENT_ARRIVE:
        arrive(world);
        break;
    case EVENT_DOUBLE:
        packet = pick(world);
        if (packet != NULL)
            post(world, packet);
        break;
    case EVENT_LOSE:
        packet = pick(world);
        if (packet != NULL)
            packet->is_there = false;
        break;
    case EVENT_UNHEARD:
        lease_unheard(&process->holding, process->seq, below(world, 20) * MS, clock_of(world, process));
        break;
    case EVENT_CRASH:
        start(world, process);
        break;
    case EVENT_STRICT:
        decide_strictly(world);
        break;
    case EVENT_TERMS:
        change_terms(world, process);
        break;
    case EVENT_FORGET:
        lose_state(world);
        break;
    case EVENT_COUNT:
        break;
    }
}

/* Of 1000; the rest is time. */
static const unsigned odds[EVENT_COUNT] = {
    [EVENT_PAUSE] = 15, [EVENT_TAKE] = 200,   [EVENT_KEEP] = 200,  [EVENT_UNDO] = 25,  [EVENT_SPEAK] = 130,
    [EVENT_BACK] = 5,   [EVENT_ARRIVE] = 200, [EVENT_DOUBLE] = 15, [EVENT_LOSE] = 10,  [EVENT_UNHEARD] = 40,
    [EVENT_CRASH] = 1,  [EVENT_STRICT] = 20,  [EVENT_TERMS] = 10,  [EVENT_FORGET] = 0,
};

static enum event draw(struct world *world)
{
    uint64_t at = below(world, 1000);
    for (int event = 0; event < EVENT_COUNT; event++) {
        if (at < odds[event])
            return (enum event)event;
        at -= odds[event];
    }
    return below(world, 1000) == 0 ? EVENT_FORGET : EVENT_TIME;
}

/* ---- What holds after each ------------------------------------------------------------------------------------------------- */

static void check_store(struct world *world)
{
    const struct store *store = &world->store;
    uint64_t out = 0;
    for (size_t i = 0; i < COUNT_OF(store->records); i++) {
        out += store->records[i].left;
        assert_true(store->records[i].left <= world->lease.chunk);
    }
    assert_int_equal(store->out, out);
    assert_true(out <= world->lease.most);
    assert_int_equal(store->granted, store->returned + store->spent + store->lost + out);
    assert_true(store->level <= store->burst * store->period);
    assert_true(store->level >= out * store->period);
}

/* Gives what is in its hands, those of undecided requests included. */
static uint64_t check_process(struct world *world, const struct process *process)
{
    const struct holding *holding = &process->holding;
    const struct lease_result *ledger = &process->ledger;
    assert_int_equal(ledger->granted, ledger->returned + ledger->spent + ledger->lost + holding->have
                                          + holding->pending + holding->used + holding->stray
                                          + holding->flight.give + holding->flight.used - holding->flight.gone);
    if (clock_of(world, process) >= holding->expires_at)
        return 0; /* what is undecided counts as admitted: pass() */
    uint64_t hands = holding->have + holding->pending;
    struct record *record = record_of(&world->store, process->run);
    uint64_t left = record == NULL ? 0 : record->left;
    if (hands > 0 && !process->is_orphan)
        assert_true(hands + holding->used + holding->gone + holding->stray <= left);
    return hands;
}

static void check(struct world *world)
{
    check_store(world);
    uint64_t hands = 0;
    for (size_t i = 0; i < RUNS; i++)
        hands += check_process(world, &world->processes[i]);
    refill(&world->store, world->now);
    drain(&world->admitted, &world->admitted_last, world->now, 0);
    assert_true(world->admitted + hands * world->store.period <= world->store.level);
}

static void begin(struct world *world, uint64_t seed)
{
    *world = (struct world){ .random = { seed }, .now = 1000 * WEIR_SECOND };
    uint64_t burst = 1 + below(world, 40), most = 1 + below(world, burst);
    world->lease = (struct weir_lease){ most, 1 + below(world, most), (200 + below(world, 2000)) * MS };
    world->store = (struct store){ .burst = burst, .period = (1 + below(world, 60)) * MS, .most = most };
    world->store.last = world->admitted_last = world->now;
    for (size_t i = 0; i < RUNS; i++)
        start(world, &world->processes[i]);
}

static void tokens_are_spent_within_the_bound_whatever_happens(void **state)
{
    (void)state;
    uint64_t seed = random_seed(20260711), done = 0, grants = 0, late = 0, forgotten = 0, admissions = 0;
    uint64_t counts[EVENT_COUNT] = { 0 };
    static struct world world;
    for (uint64_t run = 0; done < EVENTS; run++) {
        begin(&world, seed + run);
        for (size_t i = 0; i < 3000; i++, done++) {
            enum event event = draw(&world);
            counts[event] += 1;
            happen(&world, event);
            check(&world);
        }
        grants += world.grants;
        late += world.late;
        forgotten += world.forgotten;
        admissions += world.admissions;
    }
    printf("events %ju, grants %ju, late %ju, forgotten %ju, tokens admitted %ju\n", (uintmax_t)done,
           (uintmax_t)grants, (uintmax_t)late, (uintmax_t)forgotten, (uintmax_t)admissions);
    for (int event = 0; event < EVENT_COUNT; event++)
        assert_true(counts[event] >= 100);
    assert_true(grants > 20000);
    assert_true(late > 1000);
    assert_true(forgotten > 100);
    assert_true(admissions > 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(tokens_are_spent_within_the_bound_whatever_happens) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
