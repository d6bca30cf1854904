/* From a program to a problem of the engines: items get their prices and messages their hops. */
#include "simulator/step/simulate.h"
#include "costmodel/cost_exchange.h"
#include "costmodel/machine_fold.h"
#include "simulator/step/collective_links.h"
#include "simulator/step/prepare.h"
#include "simulator/step/settle.h"

#include <math.h>
#include <string.h>

typedef cleave_preparation builder;

static cleave_status short_of_memory(const builder *b) {
    return cleave_fail_memory(b->error, "preparing to simulate");
}

static uint8_t engine_kind(const builder *b, const cleave_item *item) {
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
        return CLEAVE_ENGINE_POST;
    case CLEAVE_ITEM_WAIT:
        return item->device == b->program->messages[item->subject].destination
                   ? CLEAVE_ENGINE_WAIT_ARRIVAL
                   : CLEAVE_ENGINE_WAIT_RELEASE;
    case CLEAVE_ITEM_SYNC:
        return CLEAVE_ENGINE_SYNC;
    case CLEAVE_ITEM_JOIN:
        return CLEAVE_ENGINE_JOIN;
    case CLEAVE_ITEM_AWAIT:
        return CLEAVE_ENGINE_AWAIT;
    default:
        return CLEAVE_ENGINE_WORK;
    }
}

cleave_status cleave_prepare_items(const cleave_preparation *b, cleave_cost_cache *cache) {
    const cleave_program *program = b->program;
    cleave_engine_problem *problem = b->problem;
    problem->n_items = program->n_items;
    problem->n_queues = program->n_devices * CLEAVE_N_LANES;
    problem->kind = CLEAVE_ARENA_ARRAY(b->arena, uint8_t, program->n_items);
    problem->queue = CLEAVE_ARENA_ARRAY(b->arena, int32_t, program->n_items);
    problem->subject = CLEAVE_ARENA_ARRAY(b->arena, int32_t, program->n_items);
    problem->duration = CLEAVE_ARENA_ARRAY(b->arena, int64_t, program->n_items);
    if (problem->kind == NULL || problem->queue == NULL || problem->subject == NULL ||
        problem->duration == NULL)
        return short_of_memory(b);
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        problem->kind[i] = engine_kind(b, item);
        problem->queue[i] = item->device * CLEAVE_N_LANES + item->lane;
        problem->subject[i] = problem->kind[i] == CLEAVE_ENGINE_WORK ? -1 : item->subject;
    }
    return cleave_cost_items(program, cache, problem->duration, b->error);
}

static cleave_status count_hops(const builder *b, cleave_cost_cache *cache, int64_t *n_hops) {
    const cleave_program *program = b->program;
    *n_hops = 0;
    for (int32_t m = 0; m < program->n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        b->problem->hop_start[m] = (int32_t)*n_hops;
        *n_hops += cleave_cost_route(cache, message->source, message->destination)->n_links;
        if (*n_hops > INT32_MAX)
            return cleave_fail(b->error, CLEAVE_FAILED,
                               "the messages of the step cross more than 2^31 links");
    }
    b->problem->hop_start[program->n_messages] = (int32_t)*n_hops;
    return CLEAVE_OK;
}

static bool takes_as_long(const cleave_link *a, const cleave_link *b) {
    return a->bytes_per_second == b->bytes_per_second &&
           a->protocol.first_bytes == b->protocol.first_bytes &&
           a->protocol.first_bytes_per_second == b->protocol.first_bytes_per_second;
}

/* Neighbours on a route are often equally fast. */
static void serialize(const cleave_machine *machine, const cleave_route_price *route, int64_t bytes,
                      int32_t *hop_link, int64_t *hop_serialization) {
    const cleave_link *before = NULL;
    int64_t serialization = 0;
    for (int32_t h = 0; h < route->n_links; h++) {
        const cleave_link *link = &machine->links[route->links[h]];
        if (before == NULL || !takes_as_long(link, before))
            serialization = cleave_link_serialization(link, bytes);
        before = link;
        hop_link[h] = route->links[h];
        hop_serialization[h] = serialization;
    }
}

/* The links of a route agree at once, each with the next. */
static double agreement_of(const cleave_machine *machine, const cleave_route_price *route,
                           int64_t bytes) {
    double seconds = 0;
    for (int32_t h = 0; h < route->n_links; h++)
        seconds = fmax(seconds, cleave_link_agreement_seconds(&machine->links[route->links[h]],
                                                              (double)bytes));
    return seconds;
}

/* What its ends do for each message before it sets out and while it is on its way. */
static cleave_status prepare_ends(const builder *b, cleave_cost_cache *cache) {
    const cleave_program *program = b->program;
    if (!cleave_machine_ends_work(b->machine))
        return CLEAVE_OK;
    b->problem->ends = CLEAVE_ARENA_ARRAY(b->arena, cleave_message_ends, program->n_messages);
    if (b->problem->ends == NULL)
        return short_of_memory(b);
    for (int32_t m = 0; m < program->n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        const cleave_route_price *route =
            cleave_cost_route(cache, message->source, message->destination);
        b->problem->ends[m] = (cleave_message_ends){
            .work = cleave_picoseconds(route->overhead_seconds_per_byte * (double)message->bytes),
            .agreement = cleave_picoseconds(agreement_of(b->machine, route, message->bytes)),
            .source = message->source,
            .destination = message->destination};
    }
    return CLEAVE_OK;
}

cleave_status cleave_prepare_messages(const cleave_preparation *b, cleave_cost_cache *cache) {
    const cleave_program *program = b->program;
    cleave_engine_problem *problem = b->problem;
    int64_t n_hops = 0;
    problem->n_messages = program->n_messages;
    problem->hop_start = CLEAVE_ARENA_ARRAY(b->arena, int32_t, (size_t)program->n_messages + 1);
    if (problem->hop_start == NULL)
        return short_of_memory(b);
    CLEAVE_TRY(count_hops(b, cache, &n_hops));
    problem->hop_link = CLEAVE_ARENA_ARRAY(b->arena, int32_t, n_hops);
    problem->hop_serialization = CLEAVE_ARENA_ARRAY(b->arena, int64_t, n_hops);
    if (problem->hop_link == NULL || problem->hop_serialization == NULL)
        return short_of_memory(b);
    for (int32_t m = 0; m < program->n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        int32_t first = problem->hop_start[m];
        serialize(b->machine, cleave_cost_route(cache, message->source, message->destination),
                  message->bytes, problem->hop_link + first, problem->hop_serialization + first);
    }
    return prepare_ends(b, cache);
}

cleave_status cleave_prepare_links(const cleave_machine *machine, cleave_arena *arena,
                                   cleave_engine_problem *problem, cleave_error *error) {
    problem->n_links = machine->n_links;
    problem->link_latency = CLEAVE_ARENA_ARRAY(arena, int64_t, problem->n_links);
    if (problem->link_latency == NULL)
        return cleave_fail_memory(error, "preparing to simulate");
    for (int32_t l = 0; l < problem->n_links; l++)
        problem->link_latency[l] = cleave_picoseconds(machine->links[l].latency_seconds);
    return CLEAVE_OK;
}

/* Where the collectives stand in the program as messages, no item joins them.  Finds the first JOIN
   of each; they stand side by side. */
static bool is_symbolic(const cleave_program *program, int32_t *first_join) {
    bool found = false;
    for (int32_t i = program->n_items - 1; i >= 0; i--)
        if (program->items[i].kind == CLEAVE_ITEM_JOIN) {
            first_join[program->items[i].subject] = i;
            found = true;
        }
    return found;
}

/* What the JOINs take is of each device its own. */
static cleave_status price_exchange(const builder *b, cleave_cost_cache *cache, int32_t collective,
                                    int32_t first_join, cleave_collective_links *known,
                                    cleave_collective_cost *cost) {
    const cleave_collective *of = &b->program->collectives[collective];
    const cleave_exchange_price *price = cleave_cost_cache_exchange(cache, of);
    int32_t *links = CLEAVE_ARENA_ARRAY(b->arena, int32_t, price->n_links);
    if (links == NULL)
        return short_of_memory(b);
    memcpy(links, price->links, (size_t)price->n_links * sizeof *links);
    for (int32_t i = 0; i < of->n_devices; i++)
        b->problem->duration[first_join + i] = cleave_picoseconds(price->processor[i]);
    *known = (cleave_collective_links){price->n_links, links};
    *cost = cleave_exchange_price_cost(of, price);
    return CLEAVE_OK;
}

cleave_status cleave_prepare_collectives(const cleave_preparation *b, cleave_cost_cache *cache) {
    const cleave_program *program = b->program;
    cleave_engine_problem *problem = b->problem;
    int32_t *first_join = CLEAVE_ARENA_ARRAY(b->arena, int32_t, program->n_collectives);
    cleave_collective_links *known =
        CLEAVE_ARENA_ARRAY(b->arena, cleave_collective_links, program->n_collectives);
    if (program->n_collectives > 0 && (first_join == NULL || known == NULL))
        return short_of_memory(b);
    int32_t n = is_symbolic(program, first_join) ? program->n_collectives : 0;
    problem->n_collectives = n;
    problem->collective_joins = CLEAVE_ARENA_ARRAY(b->arena, int32_t, n);
    problem->collective_busy = CLEAVE_ARENA_ARRAY(b->arena, int64_t, n);
    problem->collective_rest = CLEAVE_ARENA_ARRAY(b->arena, int64_t, n);
    problem->collective_link_start = CLEAVE_ARENA_ARRAY(b->arena, int32_t, (size_t)n + 1);
    if (problem->collective_link_start == NULL ||
        (n > 0 && (problem->collective_joins == NULL || problem->collective_busy == NULL ||
                   problem->collective_rest == NULL)))
        return short_of_memory(b);
    for (int32_t c = 0; c < n; c++) {
        const cleave_collective *collective = &program->collectives[c];
        cleave_collective_cost cost;
        if (collective->kind == CLEAVE_ALL_TO_ALL)
            CLEAVE_TRY(price_exchange(b, cache, c, first_join[c], &known[c], &cost));
        else
            CLEAVE_TRY(cleave_cost_cache_collective(cache, collective, &cost, b->error));
        problem->collective_busy[c] = cost.busy;
        problem->collective_rest[c] = cost.rest;
        int32_t *joins = &problem->collective_joins[c]; /* those of a window come first */
        while (*joins < collective->n_devices && collective->devices[*joins] < program->n_devices)
            ++*joins;
    }
    return n > 0 ? cleave_prepare_collective_links(b, known) : CLEAVE_OK;
}

/* What a fold needs of the machine. */
static cleave_status fold_machine(builder *b) {
    int32_t window = b->program->n_devices;
    if (b->program->n_windows < 2)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_machine_fold_check(b->machine, window, b->error));
    return cleave_machine_fold_links(b->machine, window, b->arena, &b->image, b->error);
}

cleave_status cleave_simulate_prepare(const cleave_program *program, cleave_cost_cache *cache,
                                      cleave_arena *arena, cleave_engine_problem *problem,
                                      cleave_error *error) {
    cleave_engine_problem made = {0};
    builder b = {program, cleave_cost_cache_machine(cache), arena, &made, error, NULL, false};
    CLEAVE_TRY(fold_machine(&b));
    CLEAVE_TRY(cleave_prepare_items(&b, cache));
    CLEAVE_TRY(cleave_prepare_messages(&b, cache));
    CLEAVE_TRY(cleave_prepare_links(b.machine, arena, &made, error));
    CLEAVE_TRY(cleave_prepare_collectives(&b, cache));
    CLEAVE_TRY(cleave_engine_finish(&made, arena, error));
    *problem = made;
    return CLEAVE_OK;
}

cleave_status cleave_simulate_run(const cleave_engine_problem *problem, cleave_rule rule,
                                  cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                  cleave_error *error) {
    return rule == CLEAVE_RULE_SCAN ? cleave_engine_run_scan(problem, workspace, timeline, error)
                                    : cleave_engine_run_events(problem, workspace, timeline, error);
}

cleave_status cleave_simulate(const cleave_program *program, cleave_cost_cache *cache,
                              cleave_rule rule, cleave_arena *arena, cleave_timeline *timeline,
                              cleave_error *error) {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_settling *settling;
    CLEAVE_TRY(cleave_simulate_prepare(program, cache, arena, &problem, error));
    CLEAVE_TRY(cleave_engine_workspace_create(&problem, arena, &workspace, error));
    CLEAVE_TRY(cleave_engine_timeline_create(&problem, arena, timeline, error));
    CLEAVE_TRY(cleave_settling_create(program, cache, &problem, arena, &settling, error));
    CLEAVE_TRY(cleave_settling_apply(settling, rule, &problem, workspace, timeline, error));
    return cleave_simulate_run(&problem, rule, workspace, timeline, error);
}
