// SPDX-License-Identifier: Apache-2.0
/*
 * fleet_world.c - the scheduler: commands and replies in flight, in the order of their instants.
 */
#include "support/fleet_world.h"

#include "fleet/outage.h"

static bool draws(struct world *world, unsigned thousandths)
{
    return thousandths > 0 && random_below(&world->random, 1000) < thousandths;
}

static unsigned node_of(const struct world *world, unsigned slot)
{
    return world->is_cluster ? slot * WORLD_NODES / SLOT_COUNT : 0;
}

static struct worker *worker_of(struct carrier *carrier)
{
    return (struct worker *)((char *)carrier - offsetof(struct worker, carrier));
}

static struct outage *outage_of_node(struct worker *worker, unsigned node)
{
    char address[16];
    (void)snprintf(address, sizeof address, "node%u", node);
    return outage_of(fleet_common_outages(worker->process->common), address);
}

/* ---- The carrier --------------------------------------------------------------------------------------------- */

static struct slice copy_bytes(struct slice from)
{
    char *to = malloc(from.len + 1);
    assert_non_null(to);
    if (from.len > 0)
        memcpy(to, from.at, from.len);
    return (struct slice){ to, from.len };
}

static bool contains(struct slice text, const char *word)
{
    return memmem(text.at, text.len, word, strlen(word)) != NULL;
}

static void plan(struct world *world, struct flight *flight)
{
    const struct world_faults *faults = &world->faults[flight->node];
    struct worker *worker = flight->from;
    weir_ns way = world->way + (faults->slow > 0 ? random_below(&world->random, faults->slow) : 0);
    bool is_silent = faults->answer_one_in > 0 && random_below(&world->random, faults->answer_one_in) != 0;
    flight->at = world->now + way;
    if (flight->at < worker->last_delivery[flight->node])
        flight->at = worker->last_delivery[flight->node];
    worker->last_delivery[flight->node] = flight->at;
    flight->is_lost = draws(world, faults->lose_command) || (is_silent && random_below(&world->random, 2) == 0);
    flight->loses_reply = draws(world, faults->lose_reply) || is_silent;
}

static void break_connection(struct world *world, struct worker *worker, unsigned node, bool is_executed);

static void world_send(struct carrier *carrier, struct carrier_call *call)
{
    struct worker *worker = worker_of(carrier);
    struct world *world = worker->process->world;
    unsigned node = node_of(world, call->slot);
    const struct world_faults *faults = &world->faults[node];
    call->outage = outage_of_node(worker, node);
    call->is_topology = faults->is_topology;
    if (faults->is_down || faults->is_topology) {
        call->done(call, CARRIER_REFUSED, (struct slice){ 0 });
        return;
    }
    struct flight *flight = calloc(1, sizeof *flight);
    assert_non_null(flight);
    *flight = (struct flight){
        .call = call, .from = worker, .node = node, .sent_at = world->now, .command = copy_bytes(call->command)
    };
    flight->is_probe = contains(flight->command, "}:~p");
    if (flight->is_probe) {
        worker->process->probes++;
        assert_int_equal(worker->process->probes, 1); /* P40: one at a time in a process (and here one node) */
    }
    call->held = flight;
    *world->flights_end = flight;
    world->flights_end = &flight->next;
    world->sent++;
    world->wholes += contains(flight->command, "\r\nEVAL\r\n");
    plan(world, flight);
    bool breaks_after = draws(world, faults->break_after);
    if (breaks_after || draws(world, faults->break_before))
        break_connection(world, worker, node, breaks_after);
}

static void world_abandon(struct carrier *carrier, struct carrier_call *call)
{
    (void)carrier;
    struct flight *flight = call->held;
    assert_non_null(flight);
    assert_ptr_equal(flight->call, call);
    flight->call = NULL;
    if (flight->is_probe)
        flight->from->process->probes--;
}

static struct outage *world_outage(struct carrier *carrier, unsigned slot)
{
    struct worker *worker = worker_of(carrier);
    return outage_of_node(worker, node_of(worker->process->world, slot));
}

static struct incarnation world_incarnation(struct carrier *carrier, unsigned slot)
{
    (void)carrier;
    (void)slot;
    return (struct incarnation){ 0 };
}

static bool world_is_whole(const struct carrier *carrier)
{
    return !worker_of((struct carrier *)(uintptr_t)carrier)->process->world->is_cluster;
}

static void world_close_carrier(struct carrier *carrier)
{
    (void)carrier;
}

/* ---- What happens to a command -------------------------------------------------------------------------------- */

static void end_call(struct flight *flight, enum carrier_result result, struct slice reply)
{
    struct carrier_call *call = flight->call;
    if (call == NULL)
        return;
    flight->call = NULL;
    if (flight->is_probe)
        flight->from->process->probes--;
    call->held = NULL;
    call->done(call, result, reply);
}

/* Everything that this connection has under way. */
static void break_connection(struct world *world, struct worker *worker, unsigned node, bool is_executed)
{
    for (struct flight *flight = world->flights; flight != NULL; flight = flight->next)
        if (flight->from == worker && flight->node == node && flight->call != NULL) {
            flight->is_lost |= !is_executed;
            flight->loses_reply = true;
            end_call(flight, CARRIER_LOST, (struct slice){ 0 });
        }
}

static void execute(struct world *world, struct flight *flight)
{
    const struct world_faults *faults = &world->faults[flight->node];
    bool is_by_hash = contains(flight->command, "\r\nEVALSHA\r\n"),
         is_whole = contains(flight->command, "\r\nEVAL\r\n");
    if (faults->is_read_only)
        flight->reply = copy_bytes(SLICE("-READONLY You can't write against a read only replica.\r\n"));
    else if (faults->is_busy)
        flight->reply = copy_bytes(SLICE("-BUSY Redis is busy running a script.\r\n"));
    else if (faults->forbids_hash && is_by_hash)
        flight->reply = copy_bytes(
            SLICE("-NOPERM this user has no permissions to run the 'evalsha' command or its subcommand\r\n"));
    else if (faults->forbids_whole && is_whole)
        flight->reply = copy_bytes(
            SLICE("-NOPERM this user has no permissions to run the 'eval' command or its subcommand\r\n"));
    else {
        flight->reply = copy_bytes(redis_ask(world->redis, flight->command));
        world->executed++;
        if (world->checks_expiry)
            assert_string_equal(redis_immortals(world->redis), "");
    }
    flight->is_executed = true;
}

static void hear(struct world *world, struct flight *flight)
{
    if (flight->call == NULL) {
        world->late_answers++;
        outage_alive(outage_of_node(flight->from, flight->node), world->now);
        return;
    }
    if (contains(flight->reply, "-READONLY")) {
        end_call(flight, CARRIER_REFUSED, (struct slice){ 0 });
        return;
    }
    if (!contains((struct slice){ flight->reply.at, 1 }, "-"))
        flight->from->process->bad_at = WEIR_NO_TIME;
    end_call(flight, CARRIER_REPLY, flight->reply);
}

static void flight_step(struct world *world, struct flight *flight)
{
    struct worker *worker = flight->from;
    const struct world_faults *faults = &world->faults[flight->node];
    if (!flight->is_executed && !flight->is_lost) {
        execute(world, flight);
        flight->at =
            world->now + world->way + (faults->slow > 0 ? random_below(&world->random, faults->slow) : 0);
        if (flight->at < worker->last_reply[flight->node])
            flight->at = worker->last_reply[flight->node];
        worker->last_reply[flight->node] = flight->at;
        if (!flight->loses_reply)
            return;
    } else if (flight->is_executed && !flight->loses_reply) {
        hear(world, flight);
    }
    flight->at = WEIR_NO_TIME; /* over; nothing is heard of it */
    if (flight->is_lost)
        flight->is_executed = flight->loses_reply = true;
}

static bool is_frozen(const struct world *world, const struct flight *flight)
{
    return world->faults[flight->node].is_frozen;
}

/* Those that are over and that nobody waits for. */
static void sweep(struct world *world)
{
    struct flight **at = &world->flights;
    while (*at != NULL) {
        struct flight *flight = *at;
        if (flight->at == WEIR_NO_TIME && flight->call == NULL) {
            *at = flight->next;
            free((void *)(uintptr_t)flight->command.at);
            free((void *)(uintptr_t)flight->reply.at);
            free(flight);
        } else {
            at = &flight->next;
        }
    }
    world->flights_end = at;
}

/* The flight that is next, of equal ones the first that was sent. */
static struct flight *next_flight(const struct world *world)
{
    struct flight *next = NULL;
    for (struct flight *flight = world->flights; flight != NULL; flight = flight->next)
        if (flight->at != WEIR_NO_TIME && !is_frozen(world, flight) && (next == NULL || flight->at < next->at))
            next = flight;
    return next;
}

static struct worker *next_worker(struct world *world, weir_ns *at)
{
    struct worker *next = NULL;
    *at = WEIR_NO_TIME;
    for (size_t i = 0; i < world->process_count; i++)
        for (size_t j = 0; j < world->processes[i].worker_count; j++) {
            struct worker *worker = &world->processes[i].workers[j];
            weir_ns due = worker->fleet == NULL ? WEIR_NO_TIME : fleet_next(worker->fleet);
            if (due < *at) {
                *at = due;
                next = worker;
            }
        }
    return next;
}

static void set_now(struct world *world, weir_ns now)
{
    if (now > world->now)
        world->now = now;
    for (size_t i = 0; i < world->process_count; i++)
        for (size_t j = 0; j < world->processes[i].worker_count; j++)
            if (world->processes[i].workers[j].fleet != NULL)
                fleet_now_set(world->processes[i].workers[j].fleet, world->now);
}

void world_run(struct world *world, weir_ns until)
{
    for (;;) {
        weir_ns due;
        struct worker *worker = next_worker(world, &due);
        struct flight *flight = next_flight(world);
        weir_ns at = flight != NULL && flight->at <= due ? flight->at : due;
        if (at > until)
            break;
        set_now(world, at);
        if (flight != NULL && flight->at <= due)
            flight_step(world, flight);
        else
            fleet_tick(worker->fleet, world->now);
        sweep(world);
    }
    set_now(world, until);
}

void world_run_for(struct world *world, weir_ns length)
{
    world_run(world, world->now + length);
}

static bool is_anything_asked(const struct world *world)
{
    for (const struct asked *asked = world->asked; asked != NULL; asked = asked->next)
        if (asked->done == 0)
            return true;
    return false;
}

void world_settle(struct world *world)
{
    for (int i = 0; i < 1000 && is_anything_asked(world); i++)
        world_run_for(world, world->deadline);
    assert_false(is_anything_asked(world));
}

/* ---- Asking ------------------------------------------------------------------------------------------------------ */

static void answered(struct fleet_decision *decision)
{
    struct asked *asked = decision->owner;
    struct world *world = asked->worker->process->world;
    asked->done++;
    assert_int_equal(asked->done, 1);
    asked->done_at = world->now;
    assert_true(world->now <= asked->asked_at + world->deadline);
    struct process *process = asked->worker->process;
    for (size_t i = 0; i < decision->count; i++)
        if (decision->met[i].decision.reason == WEIR_REASON_STORE && process->bad_at == WEIR_NO_TIME)
            process->bad_at = world->now;
    if (asked->undoes)
        fleet_undo(asked->worker->fleet, decision);
    if (world->told != NULL)
        world->told(world, asked);
}

void world_questions(struct world *world, size_t process, const char *tenant, uint64_t cost,
                     struct weir_shared *out)
{
    const struct weir_attribute attributes[] = { { "tenant", tenant, 0 },
                                                 { "path", "/", 0 },
                                                 { "request", tenant, 0 } };
    const struct weir_request request = { .attributes = attributes, .attribute_count = 3, .cost = cost };
    assert_int_equal(weir_contract_shared(world->processes[process].contract, &request, out), 0);
}

/* What was asked is overwritten as soon as it was lent. */
static struct asked *ask_shared(struct world *world, size_t process, size_t worker, const char *tenant,
                                struct weir_shared *shared, const struct fleet_decision *how)
{
    struct asked *asked = calloc(1, sizeof *asked);
    assert_non_null(asked);
    asked->worker = &world->processes[process].workers[worker];
    (void)snprintf(asked->tenant, sizeof asked->tenant, "%s", tenant);
    asked->decision = *how;
    asked->decision.now = world->now;
    asked->decision.met = asked->met;
    asked->decision.done = answered;
    asked->decision.owner = asked;
    asked->undoes = how->owner != NULL;
    asked->asked_at = world->now;
    asked->next = world->asked;
    world->asked = asked;
    fleet_decide(asked->worker->fleet, shared, &asked->decision);
    memset(shared, 0xa5, sizeof *shared);
    return asked;
}

struct asked *world_ask_as(struct world *world, size_t process, size_t worker, const char *tenant,
                           uint64_t cost, const struct fleet_decision *how)
{
    static struct weir_shared shared;
    world_questions(world, process, tenant, cost, &shared);
    return ask_shared(world, process, worker, tenant, &shared, how);
}

struct asked *world_ask(struct world *world, size_t process, size_t worker, const char *tenant, uint64_t cost)
{
    return world_ask_as(world, process, worker, tenant, cost, &(struct fleet_decision){ 0 });
}

static void run_until_done(struct world *world, const unsigned *done)
{
    for (int i = 0; i < 100000 && *done == 0; i++)
        world_run_for(world, i == 0 ? 0 : 10 * WEIR_MICROSECOND);
    assert_int_equal(*done, 1);
}

struct asked *world_decide_as(struct world *world, size_t process, const char *tenant, uint64_t cost,
                              const struct fleet_decision *how)
{
    struct asked *asked = world_ask_as(world, process, 0, tenant, cost, how);
    run_until_done(world, &asked->done);
    return asked;
}

struct asked *world_decide(struct world *world, size_t process, const char *tenant, uint64_t cost)
{
    return world_decide_as(world, process, tenant, cost, &(struct fleet_decision){ 0 });
}

struct asked *world_decide_request(struct world *world, size_t process, const struct weir_request *request)
{
    static struct weir_shared shared;
    const struct fleet_decision how = { .is_peek = weir_request_is_peek(request) };
    assert_int_equal(weir_contract_shared(world->processes[process].contract, request, &shared), 0);
    struct asked *asked = ask_shared(world, process, 0, "", &shared, &how);
    run_until_done(world, &asked->done);
    return asked;
}

static void operated(struct fleet_operation *operation)
{
    unsigned *done = operation->owner;
    (*done)++;
}

void world_operate(struct world *world, size_t process, struct fleet_operation *operation)
{
    unsigned done = 0;
    operation->now = world->now;
    operation->done = operated;
    operation->owner = &done;
    fleet_operate(world->processes[process].workers[0].fleet, operation);
    run_until_done(world, &done);
}

const struct weir_decision *asked_met(const struct asked *asked, weir_limit_id limit)
{
    for (size_t i = 0; i < asked->decision.count; i++)
        if (asked->met[i].limit == limit)
            return &asked->met[i].decision;
    fail_msg("limit %d is not in the answer", (int)limit);
    return NULL;
}

/* ---- The world ------------------------------------------------------------------------------------------------------- */

static void log_line(void *context, const char *line)
{
    struct worker *worker = context;
    struct process *process = worker->process;
    int len =
        snprintf(process->lines + process->lines_len, sizeof process->lines - process->lines_len, "%s\n", line);
    assert_true(len > 0 && (size_t)len < sizeof process->lines - process->lines_len);
    process->lines_len += (size_t)len;
}

static weir_ns read_clock(void *context)
{
    const struct worker *worker = context;
    return worker->process->world->now;
}

static weir_ns read_asleep(void *context)
{
    const struct worker *worker = context;
    return worker->process->asleep;
}

static void open_worker(struct world *world, struct process *process, struct worker *worker, uint64_t seed)
{
    *worker = (struct worker){ .process = process,
                               .carrier = { world_send, world_abandon, world_outage, world_incarnation,
                                            world_is_whole, world_close_carrier } };
    const struct fleet_options options = { .common = process->common,
                                           .carrier = &worker->carrier,
                                           .contract = process->contract,
                                           .deadline = world->deadline,
                                           .seed = seed,
                                           .has_seed = true,
                                           .injects_time = !world->has_clocks,
                                           .now = read_clock,
                                           .asleep = read_asleep,
                                           .wall_offset = WORLD_WALL,
                                           .log = log_line,
                                           .context = worker };
    assert_int_equal(fleet_new(&worker->fleet, &options), 0);
}

static void open_process(struct world *world, struct process *process, const char *text, size_t workers)
{
    static const uint8_t secret[16] = "sixteen bytes ..";
    struct weir_diagnostics *diagnostics = NULL;
    const struct weir_contract_options options = { .wall_offset = WORLD_WALL,
                                                   .has_wall_offset = true,
                                                   .secret = secret,
                                                   .fleet = WEIR_FLEET_SHARED,
                                                   .has_store = true };
    *process = (struct process){ .world = world, .worker_count = workers, .bad_at = WEIR_NO_TIME };
    int code = weir_contract_parse(&process->contract, text, strlen(text), "test", &options, &diagnostics);
    if (code != 0)
        weir_diagnostics_print(diagnostics, stderr, false);
    weir_diagnostics_free(diagnostics);
    assert_int_equal(code, 0);
    assert_int_equal(fleet_common_new_seeded(&process->common, random_u64(&world->random)), 0);
    char label[16];
    uint64_t run = 1 + (uint64_t)(process - world->processes);
    (void)snprintf(label, sizeof label, "replica-%llu", (unsigned long long)run);
    fleet_common_name(process->common, run, label);
    for (size_t i = 0; i < workers; i++)
        open_worker(world, process, &process->workers[i], random_u64(&world->random));
}

void world_open(struct world *world, struct redis_server *redis, uint64_t seed, const char *text,
                size_t processes, size_t workers)
{
    assert_true(processes <= WORLD_PROCESSES && workers <= WORLD_WORKERS);
    const bool has_clocks = world->has_clocks;
    const weir_ns deadline = world->wanted_deadline > 0 ? world->wanted_deadline : 5 * WEIR_MILLISECOND;
    *world = (struct world){ .redis = redis,
                             .has_clocks = has_clocks,
                             .way = 20 * WEIR_MICROSECOND,
                             .random = { seed },
                             .now = WORLD_START,

                             .deadline = deadline,
                             .process_count = processes,
                             .checks_expiry = true };
    world->flights_end = &world->flights;
    (void)redis_say(redis, "FLUSHALL", NULL);
    (void)redis_say(redis, "SCRIPT", "FLUSH", NULL);
    for (size_t i = 0; i < processes; i++)
        open_process(world, &world->processes[i], text, workers);
    set_now(world, world->now);
}

void world_open_cluster(struct world *world, struct redis_server *redis, uint64_t seed, const char *text,
                        size_t processes, size_t workers)
{
    world_open(world, redis, seed, text, processes, workers);
    world->is_cluster = true;
}

void world_stop_worker(struct world *world, size_t process, size_t worker)
{
    struct worker *stopped = &world->processes[process].workers[worker];
    fleet_drain(stopped->fleet, world->now);
    assert_int_equal(fleet_under_way(stopped->fleet), 0);
    fleet_free(stopped->fleet);
    stopped->fleet = NULL;
}

static void close_process(struct process *process)
{
    for (size_t i = 0; i < process->worker_count; i++)
        if (process->workers[i].fleet != NULL)
            world_stop_worker(process->world, (size_t)(process - process->world->processes), i);
    assert_int_equal(process->probes, 0);
    fleet_common_free(process->common);
    weir_contract_free(process->contract);
}

void world_close(struct world *world)
{
    for (size_t i = 0; i < world->process_count; i++)
        close_process(&world->processes[i]);
    for (struct flight *flight = world->flights; flight != NULL; flight = flight->next) {
        assert_null(flight->call); /* every call is done or abandoned */
        flight->at = WEIR_NO_TIME;
    }
    sweep(world);
    assert_null(world->flights);
    for (struct asked *asked = world->asked, *next; asked != NULL; asked = next) {
        next = asked->next;
        assert_int_equal(asked->done, 1);
        free(asked->decision.handle);
        free(asked);
    }
}

void world_faults_set(struct world *world, const struct world_faults *faults)
{
    bool was_frozen = world->faults[0].is_frozen && !faults->is_frozen;
    for (size_t i = 0; i < WORLD_NODES; i++)
        world->faults[i] = *faults;
    if (!was_frozen)
        return;
    for (struct flight *flight = world->flights; flight != NULL; flight = flight->next)
        if (flight->at < world->now)
            flight->at = world->now; /* in the order in which they came */
}

void world_heal(struct world *world)
{
    world_faults_set(world, &(struct world_faults){ 0 });
}

void world_wipe(struct world *world)
{
    assert_true(world->wiped < COUNT_OF(world->wiped_at));
    world->wiped_at[world->wiped++] = world->now;
    (void)redis_say(world->redis, "FLUSHALL", NULL);
    (void)redis_say(world->redis, "SCRIPT", "FLUSH", NULL);
}

size_t process_lines(const struct process *process, const char *beginning)
{
    size_t count = 0, len = strlen(beginning);
    for (const char *at = process->lines; at[0] != '\0'; at = strchr(at, '\n') + 1)
        count += strncmp(at, beginning, len) == 0;
    return count;
}

void world_reload(struct world *world, size_t process, const char *text)
{
    struct process *changed = &world->processes[process];
    struct weir_reload done;
    assert_int_equal(
        weir_contract_reload(changed->contract, text, strlen(text), "test", world->now, &done, NULL), 0);
    weir_contract_quiesce(changed->contract, world->now);
    fleet_common_changed(changed->common);
}

uint64_t process_held(const struct process *process)
{
    uint64_t held, keys;
    fleet_count_held(process->common, &held, &keys);
    return held;
}

void process_count_up(const struct process *process, struct fleet_counters *out)
{
    fleet_count(process->common, out);
}
