/* Layouts in stages and micro-batches, beside those of the whole batch in one stage. */
#include "base/units.h"
#include "search/bound/micro_batches.h"
#include "search/pipeline/pipeline.h"
#include "search/problem/baselines.h"
#include "search/session.h"

#include <math.h>
#include <string.h>

static const cleave_schedule_wish open_wish = {.kind = -1, .recompute = -1};

const cleave_schedule_wish *session_wish(const session *s) {
    return s->options->schedule != NULL ? s->options->schedule : &open_wish;
}

bool session_allows(const session *s, const cleave_layout *layout) {
    cleave_schedule_wish wish = *session_wish(s);
    int sharded = wish.zero - 1; /* below 0: as it turns out best */
    wish.zero = 0;
    if (!cleave_layout_is_plain(layout))
        return true;
    bool allows = cleave_schedule_wish_allows_plain(&wish);
    for (int32_t t = 0; t < layout->n_tensors && allows && sharded >= 0; t++)
        allows = s->model->tensors[t].kind != CLEAVE_TENSOR_PARAMETER ||
                 (int)layout->sharded[t] == sharded;
    return allows;
}

bool session_is_told_otherwise(const char *baseline, const cleave_schedule_wish *wish) {
    int sharded = (int)cleave_baseline_shards(baseline);
    return sharded != CLEAVE_SHARDED_NOTHING && wish != NULL && wish->zero > 0 &&
           wish->zero != 1 + sharded;
}

/* The best of what is known and may be the result; null: nothing is. */
static const cleave_price *best_price(const session *s) {
    const cleave_price *best = NULL;
    for (int32_t i = 0; i < s->n_found; i++)
        if (best == NULL || cleave_price_better(&s->found[i].price, best))
            best = &s->found[i].price;
    for (int32_t i = 0; i < s->n_rivals; i++)
        if (best == NULL || cleave_price_better(&s->rivals[i].price, best))
            best = &s->rivals[i].price;
    for (int32_t g = 0; g < s->n_given; g++)
        if (session_is_priced(&s->given[g]) && session_allows(s, s->given[g].layout) &&
            (best == NULL || cleave_price_better(&s->given[g].price, best)))
            best = &s->given[g].price;
    return best;
}

/* Without a wish `auto` alone looks for them, on as many devices as search/reach.c says. */
static bool looks_for_them(const session *s, const cleave_schedule_wish *wish, bool is_auto) {
    bool is_open = cleave_schedule_wish_is_open(wish);
    bool only_plain = wish->micro_batches == 1 && wish->stages == 1 &&
                      wish->recompute == CLEAVE_RECOMPUTE_NONE &&
                      cleave_schedule_wish_allows_plain(wish);
    return !only_plain && (!is_open || (is_auto && s->reach.stages));
}

bool session_stages(const session *s) {
    return looks_for_them(s, session_wish(s), strcmp(s->options->method, "auto") == 0);
}

/* What a baseline is as people run it, where nothing else is said: of ZeRO's, data parallel or
   megatron's products with sharded state, in one stage; of megatron-1f1b, products within a node,
   or experts of a model that has them, and a stage for each.  With as many micro-batches as is
   best, and with the recomputation that is. */
static const char *name_baseline(const session *s, const char *name, cleave_schedule_wish *wish) {
    cleave_sharded sharded = cleave_baseline_shards(name);
    int32_t node = s->machine->devices_per_node;
    if (strcmp(name, "megatron-1f1b") == 0) {
        if (wish->tensor == 0)
            wish->neighbours = node;
        int32_t neighbours = wish->tensor > 0 ? wish->tensor : node;
        if (wish->stages == 0 && neighbours > 0)
            wish->stages = s->machine->n_devices / neighbours;
        if (wish->kind < 0 && wish->virtual_stages <= 1)
            wish->kind = CLEAVE_SCHEDULE_1F1B;
        return "megatron";
    }
    if (sharded == CLEAVE_SHARDED_NOTHING)
        return name;
    if (wish->stages == 0 && wish->virtual_stages == 0 && wish->kind < 0)
        wish->stages = 1;
    if (wish->zero == 0)
        wish->zero = 1 + (int)sharded;
    return cleave_schedule_wish_is_megatron(wish) ? "megatron" : "data-parallel";
}

/* Of what was priced, something needs more memory than there is. */
static bool is_tight(const session *s) {
    for (int32_t g = 0; g < s->n_given; g++)
        if (session_is_priced(&s->given[g]) && s->given[g].price.excess_bytes > 0)
            return true;
    return false;
}

static cleave_pipeline_options pipeline_options(session *s, const cleave_schedule_wish *wish,
                                                const char *baseline, const cleave_price *best) {
    return (cleave_pipeline_options){
        .wish = *wish,
        .baseline = baseline,
        .best = best,
        .problem = &s->problem,
        .constraints = s->constraints,
        .collectives = &s->collectives,
        .priced = &s->priced,
        .only_folds = s->reach.only_folds,
        .is_tight = is_tight(s),
        .progress = &s->progress,
        .until_seconds =
            s->options->time_seconds > 0 ? cleave_clock_seconds() + session_seconds_left(s) : 0,
        .interrupted = s->options->interrupted};
}

/* Layouts in stages are as the framework that is asked for has them, all of them. */
static bool is_allowed(const session *s, const cleave_layout *layout) {
    if (s->constraints == NULL)
        return true;
    cleave_constraints others = *s->constraints;
    others.sayable = NULL;
    return cleave_constraints_allow_layout(&others, s->model, layout);
}

/* ---- baselines that don't fit as they are ---------------------------------------------------- */

static session_given *find_given(session *s, const char *name) {
    for (int32_t g = 0; g < s->n_given; g++)
        if (s->given[g].method != NULL && strcmp(s->given[g].method, name) == 0)
            return &s->given[g];
    return NULL;
}

/* What is asked for, and what people add to a baseline of that name; false: it has no stages. */
static bool wish_for(const session *s, const char *name, cleave_schedule_wish *wish) {
    int32_t n = s->machine->n_devices, node = s->machine->devices_per_node;
    bool shards = cleave_baseline_shards(name) != CLEAVE_SHARDED_NOTHING;
    bool is_staged = strcmp(name, "megatron-1f1b") == 0,
         is_megatron = strcmp(name, "megatron") == 0;
    *wish = *session_wish(s);
    if (is_staged)
        return node > 0 && n / node > 1;
    if (is_megatron && wish->tensor == 0)
        wish->neighbours = node > 0 && n % node == 0 ? node : n;
    if (!shards && wish->zero == 0)
        wish->zero = 1 + CLEAVE_SHARDED_NOTHING;
    if (wish->stages == 0 && wish->virtual_stages == 0 && wish->kind < 0)
        wish->stages = 1;
    return shards || is_megatron || strcmp(name, "data-parallel") == 0;
}

/* The best that fits, which takes the place of the baseline that does not. */
static cleave_status give(session *s, const char *name, session_given *given,
                          const cleave_pipelines *found, bool *fits, cleave_error *error) {
    *fits = found->n > 0 && found->items[0].price.excess_bytes == 0 &&
            is_allowed(s, &found->items[0].layout);
    if (!*fits)
        return CLEAVE_OK;
    cleave_layout *layout = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
    if (layout == NULL)
        return cleave_fail_memory(error, "searching");
    *layout = found->items[0].layout;
    if (given == NULL)
        given = &s->given[s->n_given++];
    *given = (session_given){.method = name, .layout = layout, .price = found->items[0].price};
    return CLEAVE_OK;
}

/* What has no layout without stages, and none that fits and may come near the best, is not priced.
 */
static cleave_status leave_out(session *s, const char *name, double seconds, cleave_error *error) {
    char takes[32], best[32];
    const char *why;
    if (seconds <= 0)
        return CLEAVE_OK;
    cleave_unit_format(seconds, CLEAVE_UNIT_SECONDS, takes, sizeof takes);
    cleave_unit_format((double)best_price(s)->step * 1e-12, CLEAVE_UNIT_SECONDS, best, sizeof best);
    why = cleave_arena_printf(s->arena, "its work alone takes %s, the best known %s in all", takes,
                              best);
    s->unpriced[session_find_baseline(name)] = why;
    return why != NULL ? CLEAVE_OK : cleave_fail_memory(error, "searching");
}

/* On many devices what is known to fit tells what is not worth being priced. */
static double rival_seconds(const session *s) {
    const cleave_price *best = s->reach.only_folds ? best_price(s) : NULL;
    return best != NULL && best->excess_bytes == 0 ? (double)best->step * 1e-12 : 0;
}

/* Nothing where the baseline has no such layout. */
static cleave_status search_named(session *s, const char *name,
                                  const cleave_pipeline_options *options, cleave_pipelines *found,
                                  cleave_error *error) {
    cleave_error why = {""};
    cleave_progress_update(&s->progress, -1, name);
    cleave_status status =
        cleave_pipeline_search(s->pricer, s->costs, options, &s->work, found, &why);
    if (status == CLEAVE_BAD_INPUT) {
        found->n = 0;
        return CLEAVE_OK;
    }
    if (status != CLEAVE_OK && error != NULL)
        *error = why;
    return status;
}

static bool has_stages_alone(const char *name) { return strcmp(name, "megatron-1f1b") == 0; }

/* One that has stages alone, or does not fit as it is, is given the micro-batches and the
   recomputation with which it is quickest. */
static cleave_status stage_baseline(session *s, const char *name, cleave_error *error) {
    session_given *given = find_given(s, name);
    cleave_schedule_wish wish;
    cleave_pipelines found;
    bool fits = false, needs_stages = has_stages_alone(name);
    if (given == NULL && !needs_stages)
        return CLEAVE_OK; /* it does not apply, or breaks a constraint */
    if (given != NULL && (!session_is_priced(given) || given->price.excess_bytes == 0))
        return CLEAVE_OK;
    if (!wish_for(s, name, &wish) || session_interrupted(s))
        return CLEAVE_OK;
    const char *baseline = name_baseline(s, name, &wish);
    cleave_pipeline_options options =
        pipeline_options(s, &wish, baseline, given != NULL ? &given->price : NULL);
    options.only_fitting = true;
    options.rival_seconds = rival_seconds(s);
    CLEAVE_TRY(search_named(s, name, &options, &found, error));
    s->looked_for[session_find_baseline(name)] =
        needs_stages || cleave_baseline_shards(name) != CLEAVE_SHARDED_NOTHING;
    CLEAVE_TRY(give(s, name, given, &found, &fits, error));
    return fits || given != NULL ? CLEAVE_OK : leave_out(s, name, found.behind_seconds, error);
}

/* Stages of many devices take long to price, so where what is far behind is left out, those that
   have them alone come when all else has been found. */
static cleave_status stage_baselines(session *s, bool late, cleave_error *error) {
    for (int32_t i = 0; cleave_baseline_names[i] != NULL; i++)
        if ((s->reach.only_folds && has_stages_alone(cleave_baseline_names[i])) == late)
            CLEAVE_TRY(stage_baseline(s, cleave_baseline_names[i], error));
    return CLEAVE_OK;
}

/* ---- what a baseline is where it is asked for ------------------------------------------------ */

/* What `--method name` would look at, as far as it may come out better than what is known: law 7
   holds for baselines with the best number of micro-batches, too.  It is held against the best in
   full, whatever else was found. */
static cleave_status add_rivals(session *s, const char *name, cleave_error *error) {
    cleave_schedule_wish wish = *session_wish(s);
    const char *baseline = name_baseline(s, name, &wish);
    const cleave_price *best = best_price(s);
    cleave_pipelines found;
    if (!looks_for_them(s, &wish, false) || s->looked_for[session_find_baseline(name)] ||
        session_is_told_otherwise(name, session_wish(s)))
        return CLEAVE_OK;
    const cleave_pipeline_options options = pipeline_options(s, &wish, baseline, best);
    CLEAVE_TRY(search_named(s, name, &options, &found, error));
    for (int32_t i = 0; i < found.n && i < SESSION_MAX_RIVALS_EACH; i++) {
        const session_found rival = {
            .method = name, .layout = found.items[i].layout, .price = found.items[i].price};
        cleave_price known;
        if (rival.price.excess_bytes == 0 && !session_knows_price(s, &rival.layout, &known) &&
            (best == NULL || !cleave_price_is_far_behind(&rival.price, best)) &&
            is_allowed(s, &rival.layout))
            s->rivals[s->n_rivals++] = rival;
    }
    return CLEAVE_OK;
}

static cleave_status add_all_rivals(session *s, cleave_error *error) {
    for (int32_t i = 0; cleave_baseline_names[i] != NULL && session_searches(s); i++)
        CLEAVE_TRY(add_rivals(s, cleave_baseline_names[i], error));
    return CLEAVE_OK;
}

/* ---- by chance ------------------------------------------------------------------------------- */

static cleave_status add_drawn(session *s, cleave_error *error) {
    cleave_layout layout;
    cleave_price price;
    if (s->constraints != NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "method random keeps to no --only, --fix or --for where it draws stages "
                           "and micro-batches");
    CLEAVE_TRY(cleave_pipeline_draw(s->model, s->machine->n_devices, session_wish(s),
                                    s->options->seed, &s->work, &layout, error));
    const cleave_price_subject what = {.layout = &layout, .view = CLEAVE_VIEW_FOLDED};
    CLEAVE_TRY(cleave_pricer_price(s->pricer, &what, NULL, &price, error));
    return session_add_found(s, s->options->method, &layout, &price, error);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Of what is left of the time, so much at most for plans, and the rest for rivals. */
static const double share_of_plans = 0.7;

cleave_status session_stage(session *s, cleave_error *error) {
    cleave_schedule_wish wish = *session_wish(s);
    const char *baseline = session_searches(s) ? NULL : name_baseline(s, s->options->method, &wish);
    cleave_pipelines found;
    /* Nothing is asked of it but its name. */
    bool is_named = baseline != NULL && !looks_for_them(s, &wish, false);
    if (baseline == NULL && !session_stages(s))
        return CLEAVE_OK;
    if (strcmp(s->options->method, "random") == 0)
        return is_named || cleave_schedule_wish_allows_plain(&wish) ? CLEAVE_OK
                                                                    : add_drawn(s, error);
    if (s->costs == NULL)
        CLEAVE_TRY(cleave_node_costs_create(s->model, s->machine, &s->costs, error));
    if (is_named)
        return stage_baseline(s, s->options->method, error);
    if (baseline == NULL)
        CLEAVE_TRY(stage_baselines(s, false, error));
    /* What is asked for by its name is the answer, whatever is quicker. */
    bool may_be_other = baseline == NULL && cleave_schedule_wish_allows_plain(session_wish(s));
    cleave_pipeline_options options =
        pipeline_options(s, &wish, baseline, may_be_other ? best_price(s) : NULL);
    if (baseline == NULL && s->options->time_seconds > 0)
        options.until_seconds -= (1 - share_of_plans) * session_seconds_left(s);
    cleave_progress_update(&s->progress, -1, "stages and micro-batches");
    CLEAVE_TRY(cleave_pipeline_search(s->pricer, s->costs, &options, &s->work, &found, error));
    s->stages_tried = found.n_tried > 0;
    for (int32_t i = 0; i < found.n; i++) {
        if (!is_allowed(s, &found.items[i].layout))
            continue;
        CLEAVE_TRY(session_add_found(s, s->options->method, &found.items[i].layout,
                                     &found.items[i].price, error));
        if (found.items[i].grounds.known)
            session_note_grounds(s, &found.items[i].layout, &found.items[i].grounds);
    }
    if (baseline == NULL)
        CLEAVE_TRY(stage_baselines(s, true, error));
    return add_all_rivals(s, error);
}

/* Of more divisors than so many, or on devices that are not looked at one by one, none is looked
   for. */
enum { MOST_DIVISORS = 40 };

/* Of all layouts with so many micro-batches; unchanged where the batch can't be cut so. */
static cleave_status bound_cut(session *s, int32_t micro_batches, cleave_node_costs *costs,
                               int64_t *least_work, double *least, cleave_error *error) {
    const cleave_layout *layouts[SESSION_MAX_FOUND + SESSION_MAX_RIVALS];
    cleave_micro_bound_options options = {.micro_batches = micro_batches,
                                          .optimizer_states = s->options->optimizer_states,
                                          .forms = session_reported_forms(s),
                                          .costs = costs,
                                          .least = least_work,
                                          .enough_seconds = *least,
                                          .work_alone = s->options->throughput,
                                          .layouts = layouts};
    cleave_error why = {""};
    double seconds;
    for (int32_t i = 0; i < s->n_found; i++)
        if (s->found[i].layout.schedule.micro_batches == micro_batches)
            layouts[options.n_layouts++] = &s->found[i].layout;
    for (int32_t i = 0; i < s->n_rivals; i++)
        if (s->rivals[i].layout.schedule.micro_batches == micro_batches)
            layouts[options.n_layouts++] = &s->rivals[i].layout;
    cleave_status status =
        cleave_lower_bound_in_micro_batches(&s->problem, &options, &seconds, &why);
    if (status == CLEAVE_BAD_INPUT)
        return CLEAVE_OK;
    if (status != CLEAVE_OK && error != NULL)
        *error = why;
    if (status == CLEAVE_OK && (*least <= 0 || seconds < *least))
        *least = seconds;
    return status;
}

static cleave_status bound_cuts(session *s, int64_t batch, cleave_node_costs *costs, double *least,
                                cleave_error *error) {
    int32_t asked = session_wish(s)->micro_batches, n = 0;
    int64_t *least_work = CLEAVE_ARENA_ARRAY(&s->work, int64_t, s->model->n_operators);
    if (least_work == NULL)
        return cleave_fail_memory(error, "bounding the step");
    for (int32_t op = 0; op < s->model->n_operators; op++)
        least_work[op] = INT64_MAX;
    for (int32_t m = 1; m <= batch; m++)
        n += batch % m == 0;
    for (int32_t m = 1; (m <= batch || m == 1) && n <= MOST_DIVISORS; m++)
        if ((m == 1 || batch % m == 0) && (asked == 0 || asked == m))
            CLEAVE_TRY(bound_cut(s, m, costs, least_work, least, error));
    return CLEAVE_OK;
}

cleave_status session_bound_staged(session *s, cleave_error *error) {
    const cleave_schedule_wish *wish = session_wish(s);
    cleave_axis_sorts sorts;
    cleave_node_costs *costs;
    double least = 0;
    bool is_plain = s->result.best.applies && cleave_layout_is_plain(&s->result.best.layout);
    if (s->options->throughput)
        s->result.lower_bound_seconds = 0;
    if (!s->result.best.applies || (is_plain && !s->options->throughput) || !s->reach.stages ||
        session_is_alone(s) || session_interrupted(s))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_axis_sorts_find(s->model, &s->work, &sorts, error));
    cleave_progress_update(&s->progress, -1, "bounding stages and micro-batches");
    CLEAVE_TRY(cleave_node_costs_create(s->model, s->machine, &costs, error));
    cleave_status status = bound_cuts(s, sorts.batch, costs, &least, error);
    cleave_node_costs_destroy(costs);
    CLEAVE_TRY(status);
    if (least > s->result.lower_bound_seconds && cleave_schedule_wish_allows_plain(wish) &&
        !s->options->throughput)
        least = s->result.lower_bound_seconds;
    s->result.staged_bound_seconds = least;
    if (s->options->throughput)
        s->result.lower_bound_seconds = least;
    return CLEAVE_OK;
}
