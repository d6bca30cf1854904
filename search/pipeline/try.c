/* One layout tried: whether it is small enough to be lowered, what it is priced at, and whether it
   is one of the best. */
#include "search/pipeline/internal.h"

#include "costmodel/machine_fold.h"
#include "graph/lower/lower.h"
#include "graph/lower/size.h"
#include "search/price/view.h"

#include <math.h>
#include <stdio.h>

/* Parts with sharded weights are gathered and reduced each by itself, which counts as so many, and
   are lowered for every micro-batch. */
enum { PARTS_OF_SHARDED = 4 };
/* Parts beyond which a layout that does not fold is not lowered where nothing else is. */
enum { MOST_UNFOLDED = 9 << 12 };

/* Parts that are lowered of all micro-batches. */
static int64_t count_lowered(int64_t n_parts, int32_t micro_batches, int sharded) {
    bool is_few = sharded <= CLEAVE_SHARDED_UPDATE && micro_batches > CLEAVE_FEW_MICRO_BATCHES;
    int32_t lowered = is_few ? CLEAVE_FEW_MICRO_BATCHES : micro_batches;
    return (sharded > CLEAVE_SHARDED_UPDATE ? PARTS_OF_SHARDED : 1) * n_parts * lowered;
}

bool pipeline_is_lowered(const pipeline_finder *f, int64_t n_parts, int32_t micro_batches,
                         int sharded) {
    if (count_lowered(n_parts, micro_batches, sharded) <= CLEAVE_MOST_PARTS_TRIED)
        return true;
    snprintf(f->found->why_none, sizeof f->found->why_none,
             "%lld parts of operators in %d micro-batches are more than are lowered (%d)",
             (long long)n_parts, micro_batches, CLEAVE_MOST_PARTS_TRIED);
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

static bool must_fold(const pipeline_finder *f, int64_t n_parts) {
    return f->options->only_folds && n_parts > MOST_UNFOLDED;
}

int32_t pipeline_neighbours(const pipeline_finder *f, int32_t n_groups) {
    const cleave_machine *machine = f->pricer->machine;
    int32_t n = machine->n_devices / n_groups, node = machine->devices_per_node;
    int64_t n_parts = (int64_t)f->pricer->model->n_operators * n;
    bool may_part = !cleave_constraints_have_target(f->options->constraints);
    cleave_error why = {"they are no whole nodes"};
    if (!must_fold(f, n_parts))
        return n;
    if (n % node == 0 &&
        cleave_machine_fold_groups(machine, node, n / node, n_groups, false, &why) == CLEAVE_OK)
        return n;
    if (n % node == 0 && may_part &&
        cleave_machine_fold_groups(machine, node, n / node, n_groups, true, &why) == CLEAVE_OK)
        return node;
    if (f->found->why_none[0] == '\0')
        snprintf(f->found->why_none, sizeof f->found->why_none,
                 "%d groups of %d devices don't fold (%s) and have %lld parts, too many to price "
                 "them all",
                 n_groups, n, why.message, (long long)n_parts * n_groups);
    return 0;
}

bool pipeline_is_too_large(const pipeline_finder *f, const cleave_layout *layout, int sharded) {
    int64_t n_parts = 0;
    for (int32_t op = 0; op < layout->n_operators; op++)
        n_parts += pipeline_window(f, layout->splits[op].n_parts);
    if (!f->options->only_folds &&
        n_parts * PARTS_OF_SHARDED * layout->schedule.micro_batches > CLEAVE_MOST_PARTS_TRIED)
        n_parts /= count_windows(f, layout);
    return !pipeline_is_lowered(f, n_parts, layout->schedule.micro_batches, sharded);
}

int pipeline_most_sharded(const cleave_layout *layout) {
    int most = 0;
    for (int32_t t = 0; t < layout->n_tensors; t++)
        most = layout->sharded[t] > most ? layout->sharded[t] : most;
    return most;
}

/* Two that are told apart by what does nothing, as shares of state that no two devices have. */
static bool is_alike(const cleave_price *a, const cleave_price *b) {
    return a->excess_bytes == 0 && b->excess_bytes == 0 && a->step == b->step &&
           a->peak_bytes == b->peak_bytes && a->bytes_sent == b->bytes_sent;
}

static cleave_status keep(pipeline_finder *f, const cleave_layout *layout,
                          const cleave_price *price, const cleave_price_grounds *grounds) {
    cleave_pipelines *found = f->found;
    int32_t place = 0;
    while (place < found->n && !cleave_price_better(price, &found->items[place].price))
        place++;
    if (place == CLEAVE_MOST_PIPELINES ||
        (place > 0 && is_alike(price, &found->items[place - 1].price)))
        return CLEAVE_OK;
    found->n += found->n < CLEAVE_MOST_PIPELINES;
    for (int32_t i = found->n - 1; i > place; i--)
        found->items[i] = found->items[i - 1];
    found->items[place].price = *price;
    found->items[place].grounds = *grounds;
    return cleave_layout_copy(layout, f->pricer->model, f->arena, &found->items[place].layout,
                              f->error);
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

/* Where nothing else than layouts that fold is priced, one is reported as it is, so what the price
   rests on is asked for with it. */
static cleave_status price_new(pipeline_finder *f, const cleave_layout *layout, bool must,
                               cleave_priced_layout *made) {
    cleave_error why_not = {""};
    int32_t n_devices = f->pricer->machine->n_devices;
    made->grounds = (cleave_price_grounds){
        .used_rules = CLEAVE_ARENA_ARRAY(f->arena, bool, layout->collectives.n)};
    made->over = CLEAVE_ARENA_ARRAY(f->arena, int64_t, n_devices);
    if (made->grounds.used_rules == NULL || made->over == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t d = 0; d < n_devices; d++)
        made->over[d] = INT64_MIN;
    const cleave_price_subject what = {.layout = layout,
                                       .view = must ? CLEAVE_VIEW_WINDOW : CLEAVE_VIEW_FOLDED,
                                       .grounds = must ? &made->grounds : NULL,
                                       .over = made->over};
    cleave_status status = cleave_pricer_price(f->pricer, &what, NULL, &made->price, &why_not);
    if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT && f->error != NULL)
        *f->error = why_not;
    if (status == CLEAVE_NO_LAYOUT)
        made->why_not = cleave_arena_printf(f->arena, "%s", why_not.message);
    if (status == CLEAVE_NO_LAYOUT && made->why_not != NULL)
        status = CLEAVE_OK;
    bool kept = status != CLEAVE_OK || CLEAVE_LIST_PUSH(f->options->priced, *made);
    return kept ? status : cleave_fail_memory(f->error, "searching");
}

/* `tried` false: it is too large, or does not fold and is. */
static cleave_status price_layout(pipeline_finder *f, const cleave_layout *layout, bool *tried,
                                  cleave_price *price, cleave_price_grounds *grounds) {
    bool must = must_fold(f, cleave_layout_count_parts(layout));
    cleave_priced_layout made = {.key = cleave_layout_digest(layout)};
    const cleave_priced_layout *known = cleave_priced_find(f->options->priced, &made.key);
    if (known != NULL)
        made = *known;
    else
        CLEAVE_TRY(price_new(f, layout, must, &made));
    *tried = made.why_not == NULL;
    *price = made.price;
    *grounds = made.grounds;
    f->over = made.over;
    if (*tried)
        return CLEAVE_OK;
    f->lacks_fold = must && count_windows(f, layout) == 1;
    snprintf(f->found->why_none, sizeof f->found->why_none, "%s", made.why_not);
    return CLEAVE_OK;
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
    if (!cleave_constraints_have_target(f->options->constraints))
        return try_said(f, layout, tried, price);
    cleave_status status = pipeline_say(f, layout, &scratch, &said, tried);
    if (status == CLEAVE_OK && *tried)
        status = try_said(f, &said, tried, price);
    cleave_arena_free(&scratch);
    return status;
}

/* Parts that are lowered of a layout. */
static int64_t count_lowered_of(const cleave_layout *layout) {
    return count_lowered(cleave_layout_count_parts(layout), layout->schedule.micro_batches,
                         pipeline_most_sharded(layout));
}

/* Small enough, for what may still be lowered, too, and legal; that takes longest to tell. */
static bool may_try(pipeline_finder *f, const cleave_layout *layout) {
    bool is_small = !pipeline_is_too_large(f, layout, pipeline_most_sharded(layout));
    f->lacks_lowering = is_small && count_lowered_of(layout) > f->most_lowered;
    return is_small && !f->lacks_lowering &&
           cleave_layout_check(f->pricer->model, layout, NULL) == CLEAVE_OK;
}

cleave_status pipeline_try_candidate(pipeline_finder *f, const pipeline_candidate *of, bool *tried,
                                     cleave_price *price) {
    cleave_arena scratch = {0};
    cleave_layout layout;
    *price = (cleave_price){0};
    f->lacks_fold = f->lacks_lowering = false;
    cleave_status status = make_layout(f, of, &scratch, &layout);
    *tried = status == CLEAVE_OK && may_try(f, &layout);
    if (*tried) {
        f->most_lowered -= count_lowered_of(&layout);
        status = pipeline_try_layout(f, &layout, tried, price);
    }
    if (status == CLEAVE_OK && *tried && f->is_small)
        status = pipeline_note_start(f, of, &layout, price);
    cleave_arena_free(&scratch);
    return status;
}

const cleave_price *pipeline_best(const pipeline_finder *f) {
    const cleave_price *best = f->options->best;
    return f->found->n > 0 && (best == NULL || cleave_price_better(&f->found->items[0].price, best))
               ? &f->found->items[0].price
               : best;
}

/* What has a name is held against the best in the end, with collectives in their steps. */
double pipeline_seconds_to_beat(const pipeline_finder *f) {
    const cleave_price *best = pipeline_best(f);
    if (best == NULL || best->excess_bytes > 0)
        return (double)INFINITY;
    bool is_held_in_steps = f->options->baseline != NULL && !f->options->only_folds;
    return 1e-12 * (is_held_in_steps ? cleave_price_far_behind(best) : (double)best->step);
}
