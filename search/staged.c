/* Layouts in stages and micro-batches, beside those of the whole batch in one stage. */
#include "search/bound/micro_batches.h"
#include "search/pipeline/pipeline.h"
#include "search/problem/baselines.h"
#include "search/session.h"

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

/* The best of what is known; null: nothing is. */
static const cleave_price *best_price(const session *s) {
    const cleave_price *best = NULL;
    for (int32_t i = 0; i < s->n_found; i++)
        if (best == NULL || cleave_price_better(&s->found[i].price, best))
            best = &s->found[i].price;
    for (int32_t g = 0; g < s->n_given; g++)
        if (s->given[g].unpriced == NULL &&
            (best == NULL || cleave_price_better(&s->given[g].price, best)))
            best = &s->given[g].price;
    return best;
}

/* Without a wish they are looked for where all devices are lowered anyway. */
static bool looks_for_them(const session *s, const cleave_schedule_wish *wish) {
    bool is_open = cleave_schedule_wish_is_open(wish);
    bool only_plain = wish->micro_batches == 1 && wish->stages == 1 &&
                      wish->recompute == CLEAVE_RECOMPUTE_NONE && wish->zero == 0;
    if (only_plain || s->model->loss < 0)
        return false;
    return is_open ? strcmp(s->options->method, "auto") == 0 && !s->reach.only_folds : true;
}

/* Of ZeRO's baselines, which are others whose state is sharded: of one stage where nothing else is
   said, and with as many micro-batches as is best. */
static const char *name_baseline(const session *s, cleave_schedule_wish *wish) {
    cleave_sharded sharded = cleave_baseline_shards(s->options->method);
    if (sharded == CLEAVE_SHARDED_NOTHING)
        return s->options->method;
    if (wish->stages == 0 && wish->virtual_stages == 0 && wish->kind < 0)
        wish->stages = 1;
    if (wish->recompute < 0)
        wish->recompute = CLEAVE_RECOMPUTE_NONE;
    if (wish->zero == 0)
        wish->zero = 1 + (int)sharded;
    return wish->tensor > 1 ? "megatron" : "data-parallel";
}

cleave_status session_stage(session *s, cleave_error *error) {
    cleave_schedule_wish wish = *session_wish(s);
    const char *baseline = session_searches(s) ? NULL : name_baseline(s, &wish);
    if (!looks_for_them(s, &wish))
        return CLEAVE_OK;
    bool allows_plain = cleave_schedule_wish_allows_plain(session_wish(s));
    const cleave_pipeline_options options = {
        .wish = wish,
        .baseline = baseline,
        .best = allows_plain ? best_price(s) : NULL,
        .constraints = s->constraints,
        .collectives = &s->collectives,
        .progress = &s->progress,
        .until_seconds =
            s->options->time_seconds > 0 ? cleave_clock_seconds() + session_seconds_left(s) : 0,
        .interrupted = s->options->interrupted};
    cleave_pipelines found;
    cleave_progress_update(&s->progress, -1, "stages and micro-batches");
    if (s->costs == NULL)
        CLEAVE_TRY(cleave_node_costs_create(s->model, s->machine, &s->costs, error));
    CLEAVE_TRY(cleave_pipeline_search(s->pricer, s->costs, &options, &s->work, &found, error));
    s->stages_tried = found.n_tried > 0;
    for (int32_t i = 0; i < found.n; i++)
        if (cleave_constraints_allow_layout(s->constraints, s->model, &found.items[i].layout))
            CLEAVE_TRY(session_add_found(s, s->options->method, &found.items[i].layout,
                                         &found.items[i].price, error));
    return CLEAVE_OK;
}

/* Of more divisors than so many, or on devices that are not looked at one by one, none is looked
   for. */
enum { MOST_DIVISORS = 40 };

/* Of all layouts with so many micro-batches; unchanged where the batch can't be cut so. */
static cleave_status bound_cut(session *s, int32_t micro_batches, double *least,
                               cleave_error *error) {
    const cleave_layout *layouts[SESSION_MAX_FOUND];
    cleave_micro_bound_options options = {.micro_batches = micro_batches,
                                          .optimizer_states = s->options->optimizer_states,
                                          .forms = CLEAVE_BOUND_STEPS,
                                          .layouts = layouts};
    cleave_error why = {""};
    double seconds;
    for (int32_t i = 0; i < s->n_found; i++)
        if (s->found[i].layout.schedule.micro_batches == micro_batches)
            layouts[options.n_layouts++] = &s->found[i].layout;
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

cleave_status session_bound_staged(session *s, cleave_error *error) {
    const cleave_schedule_wish *wish = session_wish(s);
    cleave_axis_sorts sorts;
    double least = 0;
    int32_t n = 0;
    if (!s->result.best.applies || cleave_layout_is_plain(&s->result.best.layout) ||
        s->reach.only_folds || session_is_alone(s) || session_interrupted(s))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_axis_sorts_find(s->model, &s->work, &sorts, error));
    for (int32_t m = 1; m <= sorts.batch; m++)
        n += sorts.batch % m == 0;
    cleave_progress_update(&s->progress, -1, "bounding stages and micro-batches");
    for (int32_t m = 1; (m <= sorts.batch || m == 1) && n <= MOST_DIVISORS; m++)
        if ((m == 1 || sorts.batch % m == 0) &&
            (wish->micro_batches == 0 || wish->micro_batches == m))
            CLEAVE_TRY(bound_cut(s, m, &least, error));
    if (least > s->result.lower_bound_seconds && cleave_schedule_wish_allows_plain(wish))
        least = s->result.lower_bound_seconds;
    s->result.staged_bound_seconds = least;
    return CLEAVE_OK;
}
