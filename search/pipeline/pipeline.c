#include "search/pipeline/pipeline.h"

#include "base/progress.h"
#include "graph/model/precision.h"
#include "search/pipeline/internal.h"
#include "search/pipeline/stages.h"
#include "search/price/view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of each number of groups no more layouts of baselines than so many are simulated, or, while none
   fits yet, than so many; of plans so many in all, and each again so often where it does not fit.
 */
enum { MOST_TRIED = 6, MOST_TRIED_IN_VAIN = 16, MOST_PLANNED = 8, MOST_AGAIN = 3 };
/* Of few operators on few devices so many plans. */
enum { MOST_PLANNED_OF_SMALL = 64 };
/* Of memory that is left so much is planned for; what is then not quicker by a little is not tried.
 */
static const double most_used = 0.9, much_less = 0.99;
/* What is polished afterwards may be expected to take so much more than the best. */
static const double polished_by = 1.5;
/* Of baselines of other numbers of micro-batches, what they are expected to take is so certain. */
static const double in_doubt = 1.01;
/* The work of a layout as people run it is known so well. */
static const double far_behind = 1.2;
/* Operators x devices for which all baselines are tried even so; and for which more plans are made,
   and simulated. */
enum { LITTLE_WORK = 1024, SMALL_WORK = 64 };
/* Parts of all operators in all micro-batches, beyond which a layout is not lowered: more than a
   GiB. Those of sharded weights are gathered and reduced each by itself, which counts as so many.
 */
enum { MOST_PARTS = 16 << 16, PARTS_OF_SHARDED = 4 };
/* Parts beyond which a layout that does not fold is not lowered where nothing else is. */
enum { MOST_UNFOLDED = 1 << 15 };

cleave_status cleave_schedule_wish_begin(const char *kind, const char *recompute, const char *zero,
                                         cleave_schedule_wish *wish, cleave_error *error) {
    cleave_schedule_wish begun = {.kind = -1, .recompute = -1};
    for (int k = 0; k < CLEAVE_SCHEDULE_ORDERS && kind != NULL; k++)
        if (strcmp(kind, cleave_schedule_names[k]) == 0)
            begun.kind = k;
    for (int what = 0; what < CLEAVE_N_RECOMPUTES && recompute != NULL; what++)
        if (strcmp(recompute, cleave_recompute_names[what]) == 0)
            begun.recompute = what;
    if (kind != NULL && begun.kind < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "schedule \"%.64s\" is none of: 1f1b, gpipe, interleaved, zb-h1", kind);
    if (recompute != NULL && begun.recompute < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "recompute \"%.64s\" is none of: none, selective, alternate, full",
                           recompute);
    if (zero != NULL && (strlen(zero) != 1 || strchr("0123", *zero) == NULL))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "zero \"%.64s\" is none of: 0, 1, 2, 3", zero);
    begun.zero = zero != NULL ? 1 + (*zero - '0') : 0;
    *wish = begun;
    return CLEAVE_OK;
}

bool pipeline_is_lowered(const pipeline_finder *f, int64_t n_parts, int32_t micro_batches) {
    if (n_parts * micro_batches <= MOST_PARTS)
        return true;
    snprintf(f->found->why_none, sizeof f->found->why_none,
             "%lld parts of operators in %d micro-batches are more than are lowered (%d)",
             (long long)n_parts, micro_batches, MOST_PARTS);
    return false;
}

/* Of windows that do alike the first stands for all; where a layout does not fold there is one. */
static int32_t count_windows(const pipeline_finder *f, const cleave_layout *layout) {
    const cleave_machine *machine = f->pricer->machine;
    cleave_arena scratch = {0};
    cleave_fold fold;
    bool folds = cleave_machine_may_fold(machine, NULL) &&
                 cleave_fold_find(f->pricer->model, layout, machine->devices_per_node, &scratch,
                                  &fold, NULL) == CLEAVE_OK;
    int32_t n = folds ? fold.n_windows : 1;
    cleave_arena_free(&scratch);
    return n;
}

int32_t pipeline_window(const pipeline_finder *f, int32_t n_devices) {
    int32_t node = f->pricer->machine->devices_per_node;
    bool folds = f->options->only_folds && node > 0 && n_devices % node == 0;
    return folds ? node : n_devices;
}

bool pipeline_is_too_large(const pipeline_finder *f, const cleave_layout *layout, int sharded) {
    int64_t n_parts = 0;
    for (int32_t op = 0; op < layout->n_operators; op++)
        n_parts += pipeline_window(f, layout->splits[op].n_parts);
    if (!f->options->only_folds &&
        n_parts * PARTS_OF_SHARDED * layout->schedule.micro_batches > MOST_PARTS)
        n_parts /= count_windows(f, layout);
    return !pipeline_is_lowered(
        f, sharded > CLEAVE_SHARDED_UPDATE ? PARTS_OF_SHARDED * n_parts : n_parts,
        layout->schedule.micro_batches);
}

static int most_sharded(const cleave_layout *layout) {
    int most = 0;
    for (int32_t t = 0; t < layout->n_tensors; t++)
        most = layout->sharded[t] > most ? layout->sharded[t] : most;
    return most;
}

int32_t pipeline_list_micro_batches(const pipeline_finder *f, int32_t most, int32_t *m) {
    int32_t wish = f->options->wish.micro_batches, n = 0;
    if (wish > 0) {
        m[0] = wish;
        return 1;
    }
    for (int32_t k = 1; k <= PIPELINE_MOST_MICRO_BATCHES && k <= f->batch && n < most; k++)
        if (f->batch % k == 0)
            m[n++] = k;
    return n;
}

static int compare_candidates(const void *a, const void *b) {
    const pipeline_candidate *x = a, *y = b;
    return (x->least_seconds > y->least_seconds) - (x->least_seconds < y->least_seconds);
}

/* ---- trying them ----------------------------------------------------------------------------- */

static cleave_status keep(pipeline_finder *f, const cleave_layout *layout,
                          const cleave_price *price, const cleave_price_grounds *grounds) {
    cleave_pipelines *found = f->found;
    int32_t place = 0;
    while (place < found->n && !cleave_price_better(price, &found->items[place].price))
        place++;
    if (place == CLEAVE_MOST_PIPELINES)
        return CLEAVE_OK;
    found->n += found->n < CLEAVE_MOST_PIPELINES;
    for (int32_t i = found->n - 1; i > place; i--)
        found->items[i] = found->items[i - 1];
    found->items[place].price = *price;
    found->items[place].grounds = *grounds;
    return cleave_layout_copy(layout, f->pricer->model, f->arena, &found->items[place].layout,
                              f->error);
}

bool pipeline_is_over(const pipeline_finder *f) {
    return (f->options->interrupted != NULL && *f->options->interrupted != 0) ||
           (f->options->until_seconds > 0 && cleave_clock_seconds() > f->options->until_seconds);
}

/* Of two baselines: the same devices do the same, in the same order of turns. */
static bool are_akin(const pipeline_candidate *a, const pipeline_candidate *b) {
    return strcmp(a->baseline, b->baseline) == 0 && a->n_groups == b->n_groups &&
           a->n_virtual == b->n_virtual && a->tensor == b->tensor && a->kind == b->kind;
}

/* Did one like it that needs no more not fit?  With twice the micro-batches what is kept for them
   halves at best, and at least the least state is left. */
static bool has_failed(const pipeline_finder *f, const pipeline_candidate *of) {
    for (int32_t i = 0; i < f->failed.n; i++) {
        const pipeline_candidate *other = &f->failed.items[i].of;
        double state = pipeline_least_state(f, of), more = of->micro_batches;
        double rest = fmax(0, (double)f->failed.items[i].peak_bytes - state);
        if (are_akin(other, of) && other->recompute >= of->recompute &&
            other->sharded >= of->sharded &&
            (more <= other->micro_batches ||
             state + rest * other->micro_batches / more > (double)pipeline_memory(f)))
            return true;
    }
    return false;
}

/* Is it slower than the best, by how many times the expected those take that differ from it by
   nothing but micro-batches?  Where there is none, by the least of those of as much sharded state.
 */
static bool is_behind(const pipeline_finder *f, const pipeline_candidate *of, double best) {
    double ratio = 0, least = INFINITY;
    for (int32_t i = 0; i < f->known_lessons.n; i++) {
        const pipeline_lesson *lesson = &f->known_lessons.items[i];
        if (lesson->of.sharded != of->sharded || lesson->of.recompute != of->recompute)
            continue;
        least = fmin(least, lesson->ratio);
        if (are_akin(&lesson->of, of))
            ratio = lesson->ratio;
    }
    if (ratio <= 0)
        ratio = of->sharded != CLEAVE_SHARDED_NOTHING && isfinite(least) ? least : 1;
    return ratio * of->least_seconds > best * in_doubt;
}

static cleave_status make_layout(pipeline_finder *f, const pipeline_candidate *of,
                                 cleave_arena *arena, cleave_layout *layout) {
    const cleave_machine *machine = f->pricer->machine;
    bool applies;
    if (of->plan == NULL)
        return pipeline_known_layout(f, of, arena, layout, &applies, f->error);
    CLEAVE_TRY(cleave_joint_plan_layout(f->pricer->model, of->plan, machine->n_devices, arena,
                                        layout, f->error));
    layout->collectives = *f->options->collectives;
    return CLEAVE_OK;
}

/* `tried` false: it does not fold, and is too large.  Where nothing else than layouts that fold is
   priced, it is reported as it is, so what the price rests on is asked for with it. */
static cleave_status price_layout(pipeline_finder *f, const cleave_layout *layout, bool *tried,
                                  cleave_price *price, cleave_price_grounds *grounds) {
    cleave_error why_not = {""};
    int64_t n_parts = 0;
    for (int32_t op = 0; op < layout->n_operators; op++)
        n_parts += layout->splits[op].n_parts;
    bool must_fold = f->options->only_folds && n_parts > MOST_UNFOLDED;
    *grounds = (cleave_price_grounds){
        .used_rules = CLEAVE_ARENA_ARRAY(f->arena, bool, layout->collectives.n)};
    if (grounds->used_rules == NULL)
        return cleave_fail_memory(f->error, "searching");
    const cleave_price_subject what = {.layout = layout,
                                       .view = must_fold ? CLEAVE_VIEW_WINDOW : CLEAVE_VIEW_FOLDED,
                                       .grounds = must_fold ? grounds : NULL};
    cleave_status status = cleave_pricer_price(f->pricer, &what, NULL, price, &why_not);
    *tried = status == CLEAVE_OK;
    if (must_fold && status == CLEAVE_NO_LAYOUT)
        return CLEAVE_OK;
    if (status != CLEAVE_OK && f->error != NULL)
        *f->error = why_not;
    return status;
}

static cleave_status try_said(pipeline_finder *f, const cleave_layout *layout, bool *tried,
                              cleave_price *price) {
    cleave_price_grounds grounds;
    CLEAVE_TRY(price_layout(f, layout, tried, price, &grounds));
    f->found->n_tried += *tried;
    return *tried ? keep(f, layout, price, &grounds) : CLEAVE_OK;
}

cleave_status pipeline_try_layout(pipeline_finder *f, const cleave_layout *layout, bool *tried,
                                  cleave_price *price) {
    cleave_arena scratch = {0};
    cleave_layout said;
    if (!cleave_constraints_take_all(f->options->constraints))
        return try_said(f, layout, tried, price);
    cleave_status status = pipeline_say(f, layout, &scratch, &said, tried);
    if (status == CLEAVE_OK && *tried)
        status = try_said(f, &said, tried, price);
    cleave_arena_free(&scratch);
    return status;
}

/* `tried` false: it is not legal, or too large. */
static cleave_status try_one(pipeline_finder *f, const pipeline_candidate *of, bool *tried,
                             cleave_price *price) {
    cleave_arena scratch = {0};
    cleave_layout layout;
    *price = (cleave_price){0};
    cleave_status status = make_layout(f, of, &scratch, &layout);
    *tried = status == CLEAVE_OK && !pipeline_is_too_large(f, &layout, most_sharded(&layout)) &&
             cleave_layout_check(f->pricer->model, &layout, NULL) == CLEAVE_OK;
    if (*tried)
        status = pipeline_try_layout(f, &layout, tried, price);
    if (status == CLEAVE_OK && *tried && f->is_small)
        status = pipeline_note_start(f, of->n_groups, &layout, price);
    cleave_arena_free(&scratch);
    return status;
}

const cleave_price *pipeline_best(const pipeline_finder *f) {
    const cleave_price *best = f->options->best;
    return f->found->n > 0 && (best == NULL || cleave_price_better(&f->found->items[0].price, best))
               ? &f->found->items[0].price
               : best;
}

/* ---- plans ---- */

/* How much two shapes have in common: splits and devices, or how groups take turns. */
static int likeness(const pipeline_candidate *a, const pipeline_candidate *b) {
    int splits = a->family == b->family && a->n_groups == b->n_groups;
    int turns = a->kind == b->kind && a->n_virtual == b->n_virtual && a->n_groups == b->n_groups;
    return 2 * splits + 2 * turns + (a->micro_batches == b->micro_batches);
}

/* What a plan is expected to take, by how far off it was with the one that is most like it of those
   that were simulated; the last of several. */
static double expect(const pipeline_finder *f, const pipeline_candidate *of) {
    double ratio = 1;
    int best = 2;
    for (int32_t i = 0; i < f->lessons.n; i++) {
        int like = likeness(of, &f->lessons.items[i].of);
        if (like >= best) {
            best = like;
            ratio = f->lessons.items[i].ratio;
        }
    }
    return of->least_seconds * ratio;
}

static int32_t most_promising(const pipeline_finder *f) {
    int32_t best = -1;
    double least = 0;
    for (int32_t i = 0; i < f->planned.n; i++) {
        double seconds = expect(f, &f->planned.items[i]);
        if (!f->planned.items[i].is_done && (best < 0 || seconds < least)) {
            best = i;
            least = seconds;
        }
    }
    return best;
}

/* Once more for the memory that has turned out to be too much, or to be left: as long as there is a
   plan, which in the latter case has to be quicker.  It waits for its turn. */
static cleave_status plan_again(pipeline_finder *f, const cleave_price *price,
                                pipeline_candidate *of) {
    bool fits = false;
    pipeline_candidate again = *of;
    int64_t over = price->excess_bytes;
    if (over == 0)
        over = (int64_t)(most_used * (double)(price->peak_bytes - pipeline_memory(f)));
    if (of->tries < MOST_AGAIN)
        CLEAVE_TRY(pipeline_plan_again(f, over, &again, &fits));
    of->is_done = true;
    if (fits && (price->excess_bytes > 0 || again.least_seconds < of->least_seconds * much_less))
        *of = again;
    return CLEAVE_OK;
}

static cleave_status learn(pipeline_finder *f, const pipeline_candidate *of,
                           const cleave_price *price, pipeline_lessons *lessons) {
    const pipeline_lesson lesson = {*of, (double)price->step * 1e-12 / of->least_seconds,
                                    price->peak_bytes};
    return CLEAVE_LIST_PUSH(lessons, lesson) ? CLEAVE_OK
                                             : cleave_fail_memory(f->error, "searching");
}

/* Always the one that is expected to be quickest, as long as it may be the best. */
static cleave_status try_planned(pipeline_finder *f) {
    const int32_t most = f->is_small ? MOST_PLANNED_OF_SMALL : MOST_PLANNED;
    const double behind = f->is_small ? polished_by : 1;
    while (f->lessons.n < most && !pipeline_is_over(f)) {
        const cleave_price *best = pipeline_best(f);
        int32_t i = most_promising(f);
        cleave_price price;
        bool tried;
        if (i < 0 || (best != NULL && best->excess_bytes == 0 &&
                      expect(f, &f->planned.items[i]) > (double)best->step * 1e-12 * behind))
            break;
        pipeline_candidate *of = &f->planned.items[i];
        pipeline_progress(f, (double)f->lessons.n / most, "simulating stages");
        CLEAVE_TRY(try_one(f, of, &tried, &price));
        of->is_done = !tried;
        if (tried && price.excess_bytes == 0)
            CLEAVE_TRY(learn(f, of, &price, &f->lessons));
        if (tried)
            CLEAVE_TRY(plan_again(f, &price, of));
    }
    return CLEAVE_OK;
}

/* ---- baselines ---- */

/* Then so are all that come after it. */
static bool is_hopeless(const pipeline_finder *f, const pipeline_candidate *of) {
    bool is =
        f->options->rival_seconds > 0 && of->least_seconds > far_behind * f->options->rival_seconds;
    if (is && f->found->n == 0)
        f->found->behind_seconds = of->least_seconds;
    return is;
}

/* What has a name is held against the best in the end, with collectives in their steps. */
double pipeline_seconds_to_beat(const pipeline_finder *f) {
    const cleave_price *best = pipeline_best(f);
    if (best == NULL || best->excess_bytes > 0)
        return (double)INFINITY;
    bool is_held_in_steps = f->options->baseline != NULL && !f->options->only_folds;
    return 1e-12 * (is_held_in_steps ? cleave_price_far_behind(best) : (double)best->step);
}

/* Of each number of groups, those that were simulated and fit, and those that did not. */
typedef struct known_tries {
    int32_t fit, failed;
} known_tries;

/* So many of those that fit; the others only teach what does not. */
static bool is_enough(const known_tries *tried) {
    return tried->fit >= MOST_TRIED || tried->failed >= MOST_TRIED_IN_VAIN;
}

/* In the order of the times that they may take; those that may not be the best are left out. */
static cleave_status try_known(pipeline_finder *f) {
    known_tries *tried = /* by groups */
        CLEAVE_ARENA_ARRAY(&f->work, known_tries, f->pricer->machine->n_devices + 1);
    if (tried == NULL)
        return cleave_fail_memory(f->error, "searching");
    if (f->known.n > 0)
        qsort(f->known.items, (size_t)f->known.n, sizeof *f->known.items, compare_candidates);
    for (int32_t i = 0; i < f->known.n && !pipeline_is_over(f); i++) {
        const pipeline_candidate *of = &f->known.items[i];
        double to_beat = pipeline_seconds_to_beat(f);
        cleave_price price;
        bool is_tried;
        if (of->least_seconds > to_beat || is_hopeless(f, of))
            break;
        if (is_enough(&tried[of->n_groups]) || has_failed(f, of) ||
            ((pipeline_best(f) != NULL || f->options->only_fitting) &&
             pipeline_least_state(f, of) + of->least_kept > (double)pipeline_memory(f)) ||
            is_behind(f, of, to_beat))
            continue;
        CLEAVE_TRY(try_one(f, of, &is_tried, &price));
        if (!is_tried)
            continue;
        bool fits = price.excess_bytes == 0;
        *(fits ? &tried[of->n_groups].fit : &tried[of->n_groups].failed) += 1;
        CLEAVE_TRY(learn(f, of, &price, fits ? &f->known_lessons : &f->failed));
    }
    return CLEAVE_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* A parameter under what an operator reads is counted there, and no longer where it was. */
static void note_parameter(pipeline_finder *f, int32_t tensor, int32_t op) {
    const cleave_tensor *of = &f->pricer->model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        note_parameter(f, of->view.sources[s], op);
    if (of->kind != CLEAVE_TENSOR_PARAMETER || of->view.kind != CLEAVE_VIEW_NONE)
        return;
    int64_t bytes = cleave_tensor_size(of) * cleave_stored_bytes(of);
    if (f->reader[tensor] > 0)
        f->parameters[f->reader[tensor] - 1] -= bytes;
    f->parameters[op] += bytes;
    f->reader[tensor] = op + 1;
}

/* What backward reads of a tensor, or of those that it is a view of. */
static void note_kept(pipeline_finder *f, int32_t tensor, bool *known) {
    const cleave_model *model = f->pricer->model;
    const cleave_tensor *of = &model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        note_kept(f, of->view.sources[s], known);
    if (model->writer[tensor] >= 0 && !known[tensor])
        f->kept[model->nests[model->writer[tensor]].op] +=
            cleave_tensor_size(of) * cleave_stored_bytes(of);
    known[tensor] = true;
}

static cleave_status weigh_kept(pipeline_finder *f) {
    const cleave_model *model = f->pricer->model;
    bool *known = CLEAVE_ARENA_ARRAY(&f->work, bool, model->n_tensors);
    f->kept = CLEAVE_ARENA_ARRAY(&f->work, int64_t, model->n_operators);
    if (known == NULL || f->kept == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t n = 0; n < model->n_nests && cleave_model_trains(model); n++) {
        if (model->nests[n].kept_output)
            note_kept(f, model->nests[n].output.tensor, known);
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            if (model->nests[n].kept_inputs & (1u << i))
                note_kept(f, model->nests[n].inputs[i].tensor, known);
    }
    return CLEAVE_OK;
}

/* What it takes to send on where no stage may begin: so long that none does. */
static const int64_t never = INT64_C(1) << 60;

/* Work of operators, and what it takes to send on what is written before each cut, there and back.
 */
static cleave_status weigh(pipeline_finder *f) {
    const cleave_model *model = f->pricer->model;
    const cleave_machine *machine = f->pricer->machine;
    int64_t *bytes;
    f->op_work = CLEAVE_ARENA_ARRAY(&f->work, int64_t, model->n_operators);
    f->parameters = CLEAVE_ARENA_ARRAY(&f->work, int64_t, model->n_operators);
    f->reader = CLEAVE_ARENA_ARRAY(&f->work, int32_t, model->n_tensors);
    if (f->op_work == NULL || f->parameters == NULL || f->reader == NULL)
        return cleave_fail_memory(f->error, "searching");
    CLEAVE_TRY(cleave_stage_bytes(model, &f->work, &bytes, f->error));
    for (int32_t l = 0; l < machine->n_links; l++) {
        double rate = machine->links[l].bytes_per_second;
        f->slowest = f->slowest <= 0 || rate < f->slowest ? rate : f->slowest;
        f->quickest = rate > f->quickest ? rate : f->quickest;
    }
    for (int32_t op = 0; op < model->n_operators; op++) {
        cleave_node_cost cost = {0};
        CLEAVE_TRY(cleave_node_cost_whole(f->costs, op, &cost, f->error));
        f->op_work[op] = cost.total;
        f->all_work += (double)cost.total * 1e-12;
        if (f->slowest > 0)
            bytes[op] = (int64_t)((double)bytes[op] * 2 / f->slowest * 1e12);
        if (op + 1 < model->n_operators &&
            !cleave_constraints_allow_stage(f->options->constraints, op + 1))
            bytes[op] = never;
    }
    for (int32_t n = model->n_nests - 1; n >= 0; n--) /* the first reader comes last */
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            note_parameter(f, model->nests[n].inputs[i].tensor, model->nests[n].op);
    f->sends = bytes;
    return CLEAVE_OK;
}

static cleave_status find(pipeline_finder *f) {
    const cleave_model *model = f->pricer->model;
    CLEAVE_TRY(weigh(f));
    CLEAVE_TRY(weigh_kept(f));
    CLEAVE_TRY(cleave_axis_sorts_find(model, &f->work, &f->sorts, f->error));
    f->batch = f->sorts.batch;
    const int64_t size = (int64_t)model->n_operators * f->pricer->machine->n_devices;
    f->is_small = size <= SMALL_WORK;
    if (pipeline_may_plan(f))
        CLEAVE_TRY(pipeline_add_planned(f));
    CLEAVE_TRY(try_planned(f));
    /* Plans have what baselines have, and more, as far as formulas can tell. */
    if (f->planned.n == 0 || size <= LITTLE_WORK)
        CLEAVE_TRY(pipeline_add_known(f));
    CLEAVE_TRY(try_known(f));
    return f->is_small && pipeline_may_plan(f) ? pipeline_polish(f) : CLEAVE_OK;
}

cleave_status cleave_pipeline_search(cleave_pricer *pricer, cleave_node_costs *costs,
                                     const cleave_pipeline_options *options, cleave_arena *arena,
                                     cleave_pipelines *found, cleave_error *error) {
    *found = (cleave_pipelines){0};
    pipeline_finder f = {.pricer = pricer,
                         .costs = costs,
                         .options = options,
                         .arena = arena,
                         .found = found,
                         .error = error};
    cleave_status status = find(&f);
    bool none = (f.known.n == 0 && f.planned.n == 0) ||
                (cleave_constraints_take_all(options->constraints) && found->n_tried == 0);
    CLEAVE_LIST_FREE(&f.known);
    CLEAVE_LIST_FREE(&f.planned);
    CLEAVE_LIST_FREE(&f.starts);
    CLEAVE_LIST_FREE(&f.lessons);
    CLEAVE_LIST_FREE(&f.failed);
    CLEAVE_LIST_FREE(&f.known_lessons);
    CLEAVE_LIST_FREE(&f.cuts);
    cleave_arena_free(&f.work);
    CLEAVE_TRY(status);
    if (none && !cleave_schedule_wish_allows_plain(&options->wish))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "no layout has the stages and micro-batches that "
                           "are asked for%s%s",
                           found->why_none[0] != '\0' ? ": " : "", found->why_none);
    return CLEAVE_OK;
}
