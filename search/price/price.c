/* Pricing: the same lowering, memory plan and simulator as everywhere else.

   A layout is lowered as far as its price needs: a few blocks of a window, a window, all devices
   (search/price/view.h).  A proposal's step is known from its estimate, so only its memory may be
   left to plan; and whoever asks for a price alone can be told by an estimate, too. */
#include "search/price/price.h"

#include "graph/lower/size.h"
#include "graph/model/ring.h"
#include "search/price/view.h"

#include <stdlib.h>

cleave_status cleave_pricer_create(const cleave_model *model, const cleave_machine *machine,
                                   int optimizer_states, int64_t memory_limit_bytes,
                                   cleave_pricer *pricer, cleave_error *error) {
    cleave_pricer result = {.model = model,
                            .machine = machine,
                            .memory_limit_bytes = memory_limit_bytes,
                            .least_peak_bytes = INT64_MAX};
    result.lower = (cleave_lower_options){.training = cleave_model_trains(model),
                                          .for_price = true,
                                          .most_records = CLEAVE_MOST_RECORDS_PRICED,
                                          .least_collective = machine->collectives.least_devices,
                                          .together_bytes = machine->collectives.together_bytes,
                                          .optimizer_states = optimizer_states,
                                          .workspace = cleave_cost_workspace,
                                          .workspace_context = (void *)(uintptr_t)machine};
    CLEAVE_TRY(cleave_cost_cache_create(model, machine, &result.cache, error));
    *pricer = result;
    return CLEAVE_OK;
}

void cleave_pricer_lower_all(cleave_pricer *pricer) {
    pricer->lowers_all = true;
    pricer->lower.most_records = 0;
}

void cleave_pricer_destroy(cleave_pricer *pricer) {
    if (pricer->cache != NULL)
        cleave_cost_cache_destroy(pricer->cache);
    cleave_arena_free(&pricer->arena);
}

static int64_t limit_of(const cleave_pricer *pricer, int32_t device) {
    const cleave_device_kind *kind = &pricer->machine->kinds[pricer->machine->device_kind[device]];
    return pricer->memory_limit_bytes > 0 ? pricer->memory_limit_bytes : kind->memory_bytes;
}

/* By how much a device is over its limit; below 0: it is not. */
static int64_t excess_of(const cleave_pricer *pricer, const cleave_program *program, int32_t device,
                         int64_t own_bytes) {
    return program->peak_bytes[device] +
           cleave_machine_runtime_bytes(pricer->machine, device, own_bytes) -
           limit_of(pricer, device);
}

void cleave_pricer_weigh(cleave_pricer *pricer, const cleave_program *program,
                         cleave_price *price) {
    int64_t own_bytes = cleave_program_own_bytes(program);
    for (int32_t d = 0; d < program->n_devices; d++) {
        int64_t excess = excess_of(pricer, program, d, own_bytes);
        int64_t bytes = excess + limit_of(pricer, d);
        if (bytes > price->peak_bytes)
            price->peak_bytes = bytes;
        if (excess > price->excess_bytes)
            price->excess_bytes = excess;
    }
    if (price->peak_bytes < pricer->least_peak_bytes)
        pricer->least_peak_bytes = price->peak_bytes;
}

cleave_status cleave_pricer_estimate(cleave_pricer *pricer, const cleave_layout *layout,
                                     bool in_steps, cleave_estimate **estimate,
                                     cleave_error *error) {
    pricer->lower.symbolic_collectives =
        !in_steps || cleave_machine_knows_collectives(pricer->machine);
    return cleave_estimate_create(pricer->model, layout, &pricer->lower, pricer->cache, estimate,
                                  error);
}

/* ---- by estimates ---------------------------------------------------------------------------- */

/* A memory plan may need so many times more than what is live in the worst slot, by holes, or less,
   since a slot counts all that it uses as if at once: beyond that nothing has to be planned to know
   whether a layout fits.  A plan by whole slots has holes, too, and is rarely below that by items:
   of random layouts by 6 % at most (tests/property/estimates_keep_times.c). */
static const double most_above = 1.5, most_below = 2, most_above_slots = 1.1;

static bool surely_fits(int64_t live, int64_t room) {
    return (double)live * most_above <= (double)room;
}

typedef enum fit { FITS, IN_DOUBT, TOO_LARGE } fit;

static fit estimate_fit(const cleave_pricer *pricer, cleave_estimate *estimate,
                        cleave_price *price) {
    int64_t own_bytes = cleave_estimate_own_bytes(estimate);
    fit result = FITS;
    for (int32_t d = 0; d < pricer->machine->n_devices; d++) {
        int64_t live = cleave_estimate_live_bytes(estimate, d), limit = limit_of(pricer, d);
        int64_t beside = cleave_machine_runtime_bytes(pricer->machine, d, own_bytes);
        if ((double)live / most_below + (double)beside > (double)limit)
            result = TOO_LARGE;
        else if (!surely_fits(live, limit - beside) && result == FITS)
            result = IN_DOUBT;
        if (live + beside - limit > price->excess_bytes)
            price->excess_bytes = live + beside - limit;
        if (live + beside > limit)
            price->over += cleave_estimate_over(estimate, d, limit - beside);
        if (live + beside > price->peak_bytes)
            price->peak_bytes = live + beside;
    }
    return result;
}

/* What the limits leave for the arenas, [n_devices]; to be freed, and null where memory is short.
 */
static int64_t *list_room(const cleave_pricer *pricer, cleave_estimate *estimate) {
    int32_t n = pricer->machine->n_devices;
    int64_t own_bytes = cleave_estimate_own_bytes(estimate);
    int64_t *room = malloc((size_t)n * sizeof *room);
    for (int32_t d = 0; d < n && room != NULL; d++)
        room[d] = limit_of(pricer, d) - cleave_machine_runtime_bytes(pricer->machine, d, own_bytes);
    return room;
}

/* Does it fit even by a plan of whole slots?  Few devices are in doubt where not all do alike. */
static cleave_status fits_in_slots(const cleave_pricer *pricer, cleave_estimate *estimate,
                                   bool *fits, cleave_error *error) {
    int64_t *room = list_room(pricer, estimate);
    if (room == NULL)
        return cleave_fail_memory(error, "planning memory");
    for (int32_t d = 0; d < pricer->machine->n_devices; d++)
        room[d] = surely_fits(cleave_estimate_live_bytes(estimate, d), room[d])
                      ? INT64_MAX
                      : (int64_t)((double)room[d] / most_above_slots);
    cleave_status status = cleave_estimate_fits(estimate, room, fits, error);
    free(room);
    return status;
}

/* May an estimate be made, and is it less work than the program?  That is not so of few parts, as
   it is made for changes of any operator.  Where a step that is reported settles
   (simulator/step/settle.h) an estimate does not tell it. */
static bool may_estimate(const cleave_pricer *pricer, const cleave_price_subject *what) {
    const cleave_layout *layout = what->layout;
    bool is_reported = what->in_steps || cleave_machine_knows_collectives(pricer->machine);
    return !pricer->is_stream &&
           cleave_layout_count_parts(layout) > 2 * (int64_t)layout->n_operators &&
           cleave_layout_is_whole(layout) &&
           !(is_reported && cleave_cost_knows_neighbours(pricer->cache));
}

/* Makes an estimate where there is none, and asks whether the layout fits by it; `price` is set
   where it does. */
static cleave_status fits_by_estimate(cleave_pricer *pricer, const cleave_price_subject *what,
                                      bool *fits, cleave_price *price, cleave_error *error) {
    cleave_estimate *estimate;
    cleave_price made = {0};
    if (what->estimate != NULL)
        return fits_in_slots(pricer, what->estimate, fits, error);
    CLEAVE_TRY(cleave_pricer_estimate(pricer, what->layout, what->in_steps, &estimate, error));
    cleave_status status = cleave_estimate_run(estimate, &made.step, error);
    fit known = status == CLEAVE_OK ? estimate_fit(pricer, estimate, &made) : TOO_LARGE;
    *fits = known == FITS;
    if (known == IN_DOUBT)
        status = fits_in_slots(pricer, estimate, fits, error);
    made.bytes_sent = cleave_estimate_bytes_sent(estimate);
    cleave_estimate_destroy(estimate);
    made.excess_bytes = 0;
    if (status == CLEAVE_OK && *fits)
        *price = made;
    return status;
}

/* What a proposal's estimate says; `done` where nothing has to be planned.  Most proposals take
   longer than what there is, so that nobody need count their memory. */
static cleave_status price_estimate(cleave_pricer *pricer, cleave_estimate *estimate,
                                    const cleave_price_bar *bar, bool *done, cleave_price *price,
                                    cleave_error *error) {
    bool only_whether = bar != NULL && bar->step_decides && bar->only_whether;
    CLEAVE_TRY(cleave_estimate_run_below(estimate, only_whether ? bar->below : INT64_MAX,
                                         &price->step, error));
    if (bar != NULL && bar->step_decides && price->step >= bar->below) {
        price->excess_bytes = INT64_MAX;
        *done = true;
        return CLEAVE_OK;
    }
    fit fits = estimate_fit(pricer, estimate, price);
    bool is_below = bar == NULL || (price->step < bar->below &&
                                    (price->over <= 0 || price->over < bar->below_over));
    *done = fits != IN_DOUBT || !is_below;
    if (fits == IN_DOUBT)
        price->excess_bytes = is_below ? 0 : INT64_MAX;
    else if (fits == FITS)
        price->excess_bytes = 0;
    return CLEAVE_OK;
}

/* ---- by programs ----------------------------------------------------------------------------- */

/* Marks the rules that a collective of the program runs by: the first that fits it. */
static void mark_used_rules(const cleave_program *program, const cleave_collective_rules *rules,
                            bool *used) {
    for (int32_t c = 0; c < program->n_collectives; c++) {
        const cleave_collective *of = &program->collectives[c];
        int32_t rule =
            cleave_collective_rules_find(rules, of->kind, of->n_devices, of->devices, of->bytes);
        if (rule >= 0)
            used[rule] = true;
    }
}

static void note_over(const cleave_pricer *pricer, const cleave_lowered *lowered, int64_t *over) {
    const cleave_program *program = cleave_lowered_program(lowered);
    int64_t own_bytes = cleave_program_own_bytes(program);
    for (int32_t d = 0; d < program->n_devices; d++)
        over[cleave_lowered_device(lowered, d)] = excess_of(pricer, program, d, own_bytes);
}

/* Of what was lowered: memory and, unless an estimate has told it, the step. */
static cleave_status price_lowered(cleave_pricer *pricer, const cleave_price_subject *what,
                                   const cleave_lowered *lowered, cleave_price *price,
                                   cleave_error *error) {
    price->peak_bytes = 0;
    cleave_pricer_weigh(pricer, cleave_lowered_program(lowered), price);
    if (what->over != NULL)
        note_over(pricer, lowered, what->over);
    if (what->estimate != NULL || price->excess_bytes > 0)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_lowered_simulate(pricer, lowered, &price->step,
                                       what->grounds != NULL ? &what->grounds->shares : NULL,
                                       error));
    price->bytes_sent = cleave_lowered_bytes_sent(lowered);
    if (what->grounds == NULL)
        return CLEAVE_OK;
    if (!lowered->repeats && !lowered->is_few)
        CLEAVE_TRY(cleave_program_framework_memory(&lowered->program,
                                                   pricer->machine->kinds[0].framework,
                                                   &what->grounds->framework, error));
    what->grounds->known = true;
    mark_used_rules(&lowered->program, &what->layout->collectives, what->grounds->used_rules);
    return CLEAVE_OK;
}

/* What a price rests on is asked of every item, unless these are too many. */
static bool asks_all(const cleave_pricer *pricer, const cleave_price_subject *what) {
    return what->grounds != NULL && (pricer->lowers_all || !cleave_lowers_to_many(what->layout));
}

/* By a few micro-batches, where they tell of all. */
static cleave_status price_few(cleave_pricer *pricer, const cleave_price_subject *what, bool *done,
                               cleave_price *price, cleave_error *error) {
    cleave_lowered lowered;
    cleave_price made = *price;
    cleave_error why_not = {""};
    CLEAVE_TRY(cleave_lowered_few(pricer, what->layout, what->in_steps, done, &lowered, error));
    cleave_status status =
        *done ? price_lowered(pricer, what, &lowered, &made, &why_not) : CLEAVE_NO_LAYOUT;
    *done = status == CLEAVE_OK && made.step >= 0;
    if (*done)
        *price = made;
    if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT && error != NULL)
        *error = why_not;
    return status == CLEAVE_NO_LAYOUT ? CLEAVE_OK : status;
}

/* By a window, and, if `is_few`, three micro-batches of it, where these tell of all. */
static cleave_status price_folded(cleave_pricer *pricer, const cleave_price_subject *what,
                                  bool is_few, bool *done, cleave_price *price,
                                  cleave_error *error) {
    cleave_lowered lowered;
    cleave_price made = *price;
    cleave_error why_not = {""};
    bool must = what->view == CLEAVE_VIEW_WINDOW;
    CLEAVE_TRY(cleave_lowered_fold(pricer, what->layout, is_few, must, done, &lowered, error));
    if (!*done)
        return CLEAVE_OK;
    pricer->n_devices_planned += lowered.program.n_devices;
    cleave_status status = price_lowered(pricer, what, &lowered, &made, &why_not);
    *done = status == CLEAVE_OK && made.step >= 0;
    if (*done)
        *price = made;
    if (status == CLEAVE_NO_LAYOUT && !must)
        return CLEAVE_OK;
    if (status != CLEAVE_OK && error != NULL)
        *error = why_not;
    return status;
}

/* Of a proposal it is asked whether it fits, not how small it may be. */
static cleave_status lower_proposal(cleave_pricer *pricer, const cleave_price_subject *what,
                                    cleave_lowered *lowered, cleave_error *error) {
    int64_t *room = list_room(pricer, what->estimate);
    if (room == NULL)
        return cleave_fail_memory(error, "planning memory");
    pricer->lower.enough_bytes = room;
    cleave_status status =
        cleave_lowered_whole(pricer, what->layout, what->in_steps, lowered, error);
    pricer->lower.enough_bytes = NULL;
    free(room);
    return status;
}

static cleave_status price_whole(cleave_pricer *pricer, const cleave_price_subject *what,
                                 cleave_price *price, cleave_error *error) {
    cleave_lowered lowered;
    CLEAVE_TRY(what->estimate != NULL
                   ? lower_proposal(pricer, what, &lowered, error)
                   : cleave_lowered_whole(pricer, what->layout, what->in_steps, &lowered, error));
    return price_lowered(pricer, what, &lowered, price, error);
}

/* How many items there are is known when one micro-batch has been lowered. */
static cleave_status price_whole_or_few(cleave_pricer *pricer, const cleave_price_subject *what,
                                        cleave_price *price, cleave_error *error) {
    bool all = asks_all(pricer, what), done = false;
    cleave_error why_not = {""};
    if (!all)
        CLEAVE_TRY(price_few(pricer, what, &done, price, error));
    if (done)
        return CLEAVE_OK;
    cleave_status status = price_whole(pricer, what, price, &why_not);
    if (status == CLEAVE_NO_LAYOUT && all)
        CLEAVE_TRY(price_few(pricer, what, &done, price, error));
    if (!done && status != CLEAVE_OK && error != NULL)
        *error = why_not;
    return done ? CLEAVE_OK : status;
}

static cleave_status price_without_estimate(cleave_pricer *pricer, const cleave_price_subject *what,
                                            cleave_price *price, cleave_error *error) {
    bool done = false, folds = what->view != CLEAVE_VIEW_ALL && !what->in_steps;
    bool is_few = cleave_few_tell(what->layout) && !(what->grounds != NULL && pricer->lowers_all);
    if (folds && is_few)
        CLEAVE_TRY(price_folded(pricer, what, true, &done, price, error));
    if (folds && !done)
        CLEAVE_TRY(price_folded(pricer, what, false, &done, price, error));
    if (done)
        return CLEAVE_OK;
    if (what->estimate != NULL ||
        (what->memory == CLEAVE_MEMORY_IN_DOUBT && may_estimate(pricer, what)))
        CLEAVE_TRY(fits_by_estimate(pricer, what, &done, price, error));
    pricer->n_devices_planned += what->layout->n_devices;
    return done ? CLEAVE_OK : price_whole_or_few(pricer, what, price, error);
}

static cleave_status price_turned(const cleave_pricer *pricer, const cleave_model *model,
                                  const cleave_price_subject *what, cleave_price *price,
                                  cleave_error *error) {
    cleave_pricer own;
    CLEAVE_TRY(cleave_pricer_create(model, pricer->machine, pricer->lower.optimizer_states,
                                    pricer->memory_limit_bytes, &own, error));
    own.is_stream = pricer->is_stream;
    cleave_status status = cleave_pricer_price(&own, what, NULL, price, error);
    cleave_pricer_destroy(&own);
    return status;
}

/* Of a layout in which keys go round: by the model with their turns, and prices of its nests. */
static cleave_status price_in_turns(const cleave_pricer *pricer, const cleave_price_subject *what,
                                    cleave_price *price, cleave_error *error) {
    cleave_arena arena = {0};
    cleave_model model = *pricer->model;
    model.arena = &arena;
    cleave_status status = cleave_model_take_turns(&model, what->layout, error);
    if (status == CLEAVE_OK)
        status = price_turned(pricer, &model, what, price, error);
    cleave_arena_free(&arena);
    return status;
}

cleave_status cleave_pricer_price(cleave_pricer *pricer, const cleave_price_subject *subject,
                                  const cleave_price_bar *bar, cleave_price *price,
                                  cleave_error *error) {
    if (cleave_layout_rings(subject->layout) && !cleave_model_has_turns(pricer->model)) {
        pricer->n_priced++;
        return price_in_turns(pricer, subject, price, error);
    }
    cleave_price made = {0};
    cleave_price_subject known = *subject; /* collectives of a library have no steps of ours */
    const cleave_price_subject *what = &known;
    bool done = false;
    known.in_steps = known.in_steps && !cleave_machine_knows_collectives(pricer->machine);
    if (what->estimate != NULL)
        CLEAVE_TRY(price_estimate(pricer, what->estimate, bar, &done, &made, error));
    if (!done)
        CLEAVE_TRY(price_without_estimate(pricer, what, &made, error));
    if (made.excess_bytes == 0)
        made.over = 0;
    pricer->n_priced++;
    *price = made;
    return CLEAVE_OK;
}

/* ---- of two prices --------------------------------------------------------------------------- */

/* Collectives in closed form are within some percent of their steps. */
static const double far_behind = 1.25;
/* Nor do they change most of what a layout holds: one that needs so many times the memory, even so,
   never fits. */
static const double far_too_large = 1.5;

double cleave_price_far_behind(const cleave_price *best) { return far_behind * (double)best->step; }

bool cleave_price_is_far_behind(const cleave_price *price, const cleave_price *best) {
    if (best->excess_bytes > 0)
        return false;
    int64_t limit = price->peak_bytes - price->excess_bytes; /* about: of some device */
    return price->excess_bytes > 0 ? (double)price->peak_bytes > far_too_large * (double)limit
                                   : (double)price->step > cleave_price_far_behind(best);
}

bool cleave_price_better(const cleave_price *a, const cleave_price *b) {
    if (a->excess_bytes != b->excess_bytes)
        return a->excess_bytes < b->excess_bytes;
    return a->excess_bytes == 0 && a->step < b->step;
}

bool cleave_price_nearer(const cleave_price *a, const cleave_price *b) {
    if (a->excess_bytes == 0 || b->excess_bytes == 0)
        return a->excess_bytes == 0 && (b->excess_bytes > 0 || a->step < b->step);
    if (a->over < b->over || a->over > b->over)
        return a->over < b->over;
    return a->excess_bytes < b->excess_bytes;
}

bool cleave_pricer_state_is_large(const cleave_pricer *pricer, double share) {
    const cleave_model *model = pricer->model;
    const cleave_machine *machine = pricer->machine;
    double bytes = 0, least = (double)pricer->memory_limit_bytes;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER &&
            model->tensors[t].view.kind == CLEAVE_VIEW_NONE)
            bytes += (double)cleave_tensor_size(&model->tensors[t]) *
                     (double)cleave_type_bytes(model->tensors[t].type) *
                     (model->tensors[t].needs_gradient ? 2 + pricer->lower.optimizer_states : 1);
    for (int32_t k = 0; k < machine->n_kinds && pricer->memory_limit_bytes == 0; k++) {
        double memory = (double)machine->kinds[k].memory_bytes;
        least = k == 0 || memory < least ? memory : least;
    }
    return 2 * share * bytes > least;
}
