/* Why a layout is as it is: where its step goes, and what single changes would make of it. */
#include "search/explain/explain.h"

#include "base/progress.h"
#include "simulator/step/layout_step.h"

#include <math.h>
#include <stdio.h>

static cleave_status simulate(const explain_question *asked, cleave_arena *arena,
                              explain_path *path, cleave_error *error) {
    cleave_layout_step step;
    cleave_arena scratch = {0};
    const cleave_pricing of = {asked->model, asked->machine, asked->layout,
                               .optimizer_states = asked->optimizer_states};
    cleave_status status = cleave_layout_step_make(&of, &scratch, &step, error);
    if (status == CLEAVE_OK)
        status = explain_path_find(of.model, &step.priced, &step.simulated, arena, path, error);
    cleave_layout_step_destroy(&step);
    cleave_arena_free(&scratch);
    return status;
}

/* The operators to tell about, by their share of the step; equal ones in the model's order. */
static cleave_status choose_operators(explanation *e, const char *name, cleave_arena *arena,
                                      cleave_error *error) {
    int32_t only = name != NULL ? cleave_model_find_operator(e->model, name) : -1;
    if (name != NULL && only < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%.200s has no operator \"%.128s\"; cleave show lists them",
                           e->model->file, name);
    e->order = CLEAVE_ARENA_ARRAY(arena, int32_t, e->model->n_operators);
    if (e->order == NULL)
        return cleave_fail_memory(error, "explaining a layout");
    e->is_whole = name == NULL;
    for (int32_t op = 0; op < e->model->n_operators; op++) {
        if (only >= 0 && op != only)
            continue;
        int32_t place = e->n++;
        for (; place > 0 &&
               e->path.operators[e->order[place - 1]].total < e->path.operators[op].total;
             place--)
            e->order[place] = e->order[place - 1];
        e->order[place] = op;
    }
    return CLEAVE_OK;
}

/* An operator before it in the order that is alike and split alike; -1: none. */
static int32_t find_alike(const explanation *e, const explain_changes *changes, int32_t place) {
    for (int32_t i = 0; i < place; i++)
        if (explain_changes_alike(changes, e->order[i], e->order[place]))
            return e->order[i];
    return -1;
}

static explain_extent choose_extent(const explanation *e, int64_t most) {
    return (explain_extent){
        .all_blocks = !e->is_whole, .most = most, .keep = e->is_whole ? 3 : EXPLAIN_ALTERNATIVES};
}

/* Of operators that are alike and split alike, as in blocks that repeat, the one with the largest
   share is tried in full, the others with what was best for it. */
static cleave_status try_changes(explanation *e, explain_changes *changes,
                                 const explain_question *asked, cleave_arena *arena,
                                 cleave_error *error) {
    cleave_progress progress;
    explain_choice *choices = CLEAVE_ARENA_ARRAY(arena, explain_choice, e->model->n_operators);
    const explain_extent extent = choose_extent(e, asked->most_splits), whole = choose_extent(e, 0);
    int32_t like;
    int64_t all = 0;
    if (choices == NULL)
        return cleave_fail_memory(error, "explaining a layout");
    for (int32_t i = 0; i < e->n; i++)
        all += find_alike(e, changes, i) >= 0 ? extent.keep
                                              : explain_changes_count(changes, e->order[i], extent);
    cleave_progress_begin(&progress, "trying other splits", asked->quiet);
    cleave_status status = CLEAVE_OK;
    for (int32_t i = 0; i < e->n && status == CLEAVE_OK; i++) {
        int32_t op = e->order[i];
        cleave_progress_update(&progress, fmin((double)e->tried / (double)all, 1),
                               e->model->operators[op].name);
        like = find_alike(e, changes, i);
        status =
            like >= 0
                ? explain_changes_follow(changes, op, &choices[like], arena, &choices[op], error)
                : explain_changes_choose(changes, op, extent, arena, &choices[op], error);
        e->tried += choices[op].tried;
        e->not_tried += explain_changes_count(changes, op, whole) - 1 - choices[op].tried;
    }
    cleave_progress_end(&progress);
    e->choices = choices;
    return status;
}

static cleave_status list_no_choices(explanation *e, cleave_arena *arena, cleave_error *error) {
    e->choices = CLEAVE_ARENA_ARRAY(arena, explain_choice, e->model->n_operators);
    return e->choices != NULL ? CLEAVE_OK : cleave_fail_memory(error, "explaining a layout");
}

/* Of a layout with a schedule: changes of its splits can't be estimated. */
static cleave_status find_schedules(explanation *e, const explain_question *asked,
                                    cleave_arena *arena, cleave_error *error) {
    cleave_pricer pricer;
    cleave_progress progress;
    CLEAVE_TRY(list_no_choices(e, arena, error));
    CLEAVE_TRY(cleave_pricer_create(e->model, e->machine, asked->optimizer_states,
                                    asked->memory_limit_bytes, &pricer, error));
    cleave_progress_begin(&progress, "trying other schedules", asked->quiet);
    cleave_status status =
        explain_schedules_try(&pricer, e->layout, &progress, &e->schedules, error);
    cleave_progress_end(&progress);
    cleave_pricer_destroy(&pricer);
    return status;
}

static cleave_status find_changes(explanation *e, const explain_question *asked,
                                  cleave_arena *arena, cleave_error *error) {
    const cleave_pricing of = {e->model, e->machine, e->layout,
                               .optimizer_states = asked->optimizer_states};
    explain_changes changes = {0};
    if (asked->as_it_is)
        return list_no_choices(e, arena, error);
    if (!cleave_layout_is_plain(e->layout))
        return find_schedules(e, asked, arena, error);
    cleave_status status =
        explain_changes_create(&of, asked->memory_limit_bytes, arena, &changes, error);
    if (status == CLEAVE_OK)
        status = explain_changes_list(&changes, arena, error);
    if (status == CLEAVE_OK)
        status = try_changes(e, &changes, asked, arena, error);
    e->estimated_step = changes.price.step;
    explain_changes_destroy(&changes);
    return status;
}

cleave_status explain_layout(const explain_question *asked, cleave_arena *arena,
                             explanation *result, cleave_error *error) {
    explanation e = {.model = asked->model, .machine = asked->machine, .layout = asked->layout};
    if (asked->path != NULL)
        e.path = *asked->path;
    else
        CLEAVE_TRY(simulate(asked, arena, &e.path, error));
    int32_t fullest = e.machine->device_kind[e.path.fullest_device];
    e.memory_limit_bytes = asked->memory_limit_bytes > 0 ? asked->memory_limit_bytes
                                                         : e.machine->kinds[fullest].memory_bytes;
    CLEAVE_TRY(choose_operators(&e, asked->operator_name, arena, error));
    CLEAVE_TRY(find_changes(&e, asked, arena, error));
    *result = e;
    return CLEAVE_OK;
}

/* ---- what it says ---- */

int64_t explain_computing(const int64_t *picoseconds) {
    return picoseconds[EXPLAIN_FORWARD] + picoseconds[EXPLAIN_INPUT_GRADIENT] +
           picoseconds[EXPLAIN_WEIGHT_GRADIENT] + picoseconds[EXPLAIN_UPDATE];
}

void explain_link_name(const cleave_machine *machine, int32_t link, char *text, size_t bytes) {
    if (link < 0)
        snprintf(text, bytes, "none");
    else
        snprintf(text, bytes, "%s -> %s", machine->vertex_name[machine->links[link].from],
                 machine->vertex_name[machine->links[link].to]);
}

void explain_binds(const explanation *e, int32_t op, char *text, size_t bytes) {
    const explain_operator *of = &e->path.operators[op];
    int64_t compute = explain_computing(of->picoseconds),
            waiting = of->picoseconds[EXPLAIN_WAITING];
    int64_t moving = of->picoseconds[EXPLAIN_EXCHANGE] + of->picoseconds[EXPLAIN_SYNC];
    char link[160];
    explain_link_name(e->machine, of->link, link, sizeof link);
    if (e->choices[op].is_held_back)
        snprintf(text, bytes, "memory");
    else if (of->total == 0)
        snprintf(text, bytes, "nothing");
    else if (compute >= moving && compute >= waiting)
        snprintf(text, bytes, "compute");
    else if (waiting > moving)
        snprintf(text, bytes, "waiting");
    else if (of->link >= 0 && of->transfers * 2 >= moving)
        snprintf(text, bytes, "link %s", link);
    else
        snprintf(text, bytes, "copies"); /* packing, sums and posts rather than links */
}

double explain_step_with(const explanation *e, const explain_alternative *alternative) {
    double ratio =
        e->estimated_step > 0 ? (double)alternative->step / (double)e->estimated_step : 1;
    return 1e-12 * (double)e->path.step * ratio;
}
