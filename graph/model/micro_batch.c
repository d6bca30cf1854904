/* When what is done, nest by nest. */
#include "graph/model/micro_batch.h"

#include "graph/model/axis_sort.h"

typedef struct finder {
    const cleave_model *model;
    cleave_micro_batches *of;
    bool *from_data; /* [n_tensors] follows, sample by sample, from data and constants alone */
    bool *asked;     /* [n_tensors] the prologue needs it */
    cleave_error *error;
} finder;

static cleave_status refuse(const finder *f, int32_t nest, int32_t tensor, const char *why) {
    const cleave_operator *op = &f->model->operators[f->model->nests[nest].op];
    return cleave_fail(f->error, CLEAVE_BAD_INPUT,
                       "the batch can't be cut into micro-batches: operator \"%s\" (%s) %s (tensor "
                       "%s)",
                       op->name, op->type, why, f->model->tensors[tensor].name);
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* The axis that walks over the samples, of a nest that follows the split of its operator. */
static cleave_status axis_of_samples(const finder *f, const cleave_axis_sorts *sorts, int32_t n) {
    const cleave_nest *nest = &f->model->nests[n];
    const cleave_operator *op = &f->model->operators[nest->op];
    int *axis = &f->of->sharing.nest_axis[n];
    for (int i = 0; i < nest->n_axes && *axis < 0; i++) {
        int a = nest->operator_axis[i];
        if (a < 0 || sorts->of[nest->op][a] != CLEAVE_SORT_SAMPLE)
            continue;
        if (op->axes[a].whole)
            return refuse(f, n, nest->output.tensor, "takes all samples at once");
        *axis = i;
    }
    return CLEAVE_OK;
}

static cleave_status share_out(const finder *f, const cleave_axis_sorts *sorts) {
    cleave_sharing *sharing = &f->of->sharing;
    cleave_error why = {""};
    for (int32_t n = 0; n < f->model->n_nests; n++)
        if (f->model->nests[n].derivation == CLEAVE_DERIVE_OPERATOR)
            CLEAVE_TRY(axis_of_samples(f, sorts, n));
    cleave_share_out_sources(f->model, sharing);
    for (int32_t n = 0; n < f->model->n_nests; n++) {
        const cleave_nest *nest = &f->model->nests[n];
        if (cleave_share_out_nest(f->model, n, sharing, &why) != CLEAVE_OK)
            return cleave_fail(f->error, CLEAVE_BAD_INPUT,
                               "the batch can't be cut into micro-batches at operator \"%s\" (%s): "
                               "%s",
                               f->model->operators[nest->op].name,
                               f->model->operators[nest->op].type, why.message);
    }
    /* Where it is trained, outputs are there for a pass forward beside that. */
    bool outputs = cleave_share_out_outputs(f->model, sharing, &why) == CLEAVE_OK;
    if (!outputs && !cleave_model_trains(f->model))
        return cleave_fail(f->error, CLEAVE_BAD_INPUT,
                           "the batch can't be cut into micro-batches: %s", why.message);
    if (cleave_share_out_assignments(f->model, sharing, &why) != CLEAVE_OK)
        return cleave_fail(f->error, CLEAVE_BAD_INPUT,
                           "the batch can't be cut into micro-batches: %s", why.message);
    return CLEAVE_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Of a base tensor that no nest writes, or a view, whose sources are known. */
static void value_of_given(const finder *f, int32_t t) {
    const cleave_tensor *tensor = &f->model->tensors[t];
    bool is_view = tensor->view.kind != CLEAVE_VIEW_NONE, last = false;
    bool every = !is_view && f->of->sharing.tensor_dimension[t] >= 0;
    bool from_data =
        is_view || tensor->kind == CLEAVE_TENSOR_DATA || tensor->kind == CLEAVE_TENSOR_CONSTANT;
    for (int32_t s = 0; s < tensor->view.n_sources; s++) {
        int32_t source = tensor->view.sources[s];
        every = every || f->of->value[source] == CLEAVE_WHEN_EVERY;
        last = last || f->of->value[source] == CLEAVE_WHEN_LAST;
        from_data = from_data && f->from_data[source];
    }
    f->of->value[t] = last ? CLEAVE_WHEN_LAST : every ? CLEAVE_WHEN_EVERY : CLEAVE_WHEN_FIRST;
    f->from_data[t] = from_data;
}

/* Of what a nest reads: the nests before it are known. */
static void see(const finder *f, int32_t t) {
    const cleave_tensor *tensor = &f->model->tensors[t];
    if (tensor->view.kind == CLEAVE_VIEW_NONE)
        return;
    for (int32_t s = 0; s < tensor->view.n_sources; s++)
        see(f, tensor->view.sources[s]);
    value_of_given(f, t);
}

/* A nest that walks over the samples. */
static cleave_status value_of_samples(const finder *f, int32_t n) {
    const cleave_nest *nest = &f->model->nests[n];
    int32_t output = nest->output.tensor;
    bool from_data = true;
    for (int i = 0; i < nest->n_inputs; i++) {
        if (f->of->value[nest->inputs[i].tensor] == CLEAVE_WHEN_LAST)
            return refuse(f, n, nest->inputs[i].tensor,
                          "reads for every sample what follows from the whole batch");
        from_data = from_data && f->from_data[nest->inputs[i].tensor];
    }
    bool adds_up = f->of->sharing.tensor_dimension[output] < 0;
    if (adds_up && nest->combiner != CLEAVE_COMBINE_SUM)
        return refuse(f, n, output, "takes statistics over the batch");
    f->of->value[output] = !adds_up    ? CLEAVE_WHEN_EVERY
                           : from_data ? CLEAVE_WHEN_FIRST
                                       : CLEAVE_WHEN_LAST;
    f->from_data[output] = from_data && !adds_up;
    f->asked[output] = from_data && adds_up;
    f->of->value[cleave_nest_combined(nest)->tensor] = f->of->value[output];
    return CLEAVE_OK;
}

static void value_once(const finder *f, int32_t n) {
    const cleave_nest *nest = &f->model->nests[n];
    bool last = false;
    for (int i = 0; i < nest->n_inputs; i++)
        last = last || f->of->value[nest->inputs[i].tensor] == CLEAVE_WHEN_LAST;
    f->of->value[nest->output.tensor] = last ? CLEAVE_WHEN_LAST : CLEAVE_WHEN_FIRST;
    f->from_data[nest->output.tensor] = false;
    f->of->value[cleave_nest_combined(nest)->tensor] = f->of->value[nest->output.tensor];
}

/* Views that no nest reads, too: their sources are numbered before them. */
static cleave_status find_values(const finder *f) {
    const cleave_model *model = f->model;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].view.kind == CLEAVE_VIEW_NONE && model->writer[t] < 0)
            value_of_given(f, t);
    for (int32_t n = 0; n < model->n_nests; n++) {
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            see(f, model->nests[n].inputs[i].tensor);
        if (f->of->sharing.nest_axis[n] >= 0)
            CLEAVE_TRY(value_of_samples(f, n));
        else
            value_once(f, n);
    }
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].view.kind != CLEAVE_VIEW_NONE)
            value_of_given(f, t);
    return CLEAVE_OK;
}

/* ---- what is done when ----------------------------------------------------------------------- */

static void ask(const finder *f, int32_t t) {
    const cleave_tensor *tensor = &f->model->tensors[t];
    f->asked[t] = true;
    for (int32_t s = 0; s < tensor->view.n_sources; s++)
        ask(f, tensor->view.sources[s]);
}

/* What adds up over data, and all that it follows from. */
static void find_prologue(const finder *f) {
    for (int32_t n = f->model->n_nests - 1; n >= 0; n--) {
        const cleave_nest *nest = &f->model->nests[n];
        f->of->in_prologue[n] = f->asked[nest->output.tensor];
        for (int i = 0; i < nest->n_inputs && f->of->in_prologue[n]; i++)
            ask(f, nest->inputs[i].tensor);
    }
}

/* Backward of what follows from a sum over the batch runs before that sum is there. */
static cleave_status check_backward(const finder *f, int32_t n) {
    const cleave_nest *nest = &f->model->nests[n];
    const char *why = "is not linear in what adds up over the batch";
    if (!nest->differentiable || f->of->value[nest->output.tensor] != CLEAVE_WHEN_LAST)
        return CLEAVE_OK;
    if (nest->kept_combined || nest->kept_output)
        return refuse(f, n, nest->output.tensor, why);
    for (int i = 0; i < nest->n_inputs; i++)
        if ((nest->kept_inputs >> i & 1) != 0 &&
            f->of->value[nest->inputs[i].tensor] == CLEAVE_WHEN_LAST)
            return refuse(f, n, nest->inputs[i].tensor, why);
    return CLEAVE_OK;
}

static cleave_status find_into(finder *f, const cleave_axis_sorts *sorts) {
    CLEAVE_TRY(share_out(f, sorts));
    CLEAVE_TRY(find_values(f));
    find_prologue(f);
    for (int32_t n = 0; n < f->model->n_nests; n++)
        CLEAVE_TRY(check_backward(f, n));
    return CLEAVE_OK;
}

cleave_status cleave_micro_batches_find(const cleave_model *model, int32_t n, cleave_arena *arena,
                                        cleave_micro_batches *found, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_axis_sorts sorts;
    cleave_micro_batches result = {.n = n,
                                   .sharing = {.window = "sample", .in_time = true},
                                   .value = CLEAVE_ARENA_ARRAY(arena, uint8_t, model->n_tensors),
                                   .in_prologue = CLEAVE_ARENA_ARRAY(arena, bool, model->n_nests)};
    finder f = {.model = model,
                .of = &result,
                .from_data = CLEAVE_ARENA_ARRAY(&scratch, bool, model->n_tensors),
                .asked = CLEAVE_ARENA_ARRAY(&scratch, bool, model->n_tensors),
                .error = error};
    cleave_status status =
        result.value == NULL || result.in_prologue == NULL || f.from_data == NULL || f.asked == NULL
            ? cleave_fail_memory(error, "cutting the batch into micro-batches")
            : cleave_axis_sorts_find(model, &scratch, &sorts, error);
    if (status == CLEAVE_OK && (n < 1 || sorts.batch % n != 0))
        status = cleave_fail(error, CLEAVE_BAD_INPUT,
                             "a batch of %lld can't be cut into %d equal micro-batches",
                             (long long)sorts.batch, n);
    if (status == CLEAVE_OK) {
        result.sharing.n_windows = sorts.batch;
        status = cleave_sharing_create(model, arena, &result.sharing, error);
    }
    if (status == CLEAVE_OK)
        status = find_into(&f, &sorts);
    cleave_arena_free(&scratch);
    if (status == CLEAVE_OK)
        *found = result;
    return status;
}

cleave_when cleave_micro_batches_when(const cleave_micro_batches *micro, const cleave_model *model,
                                      int32_t nest, cleave_pass pass) {
    if (micro == NULL || micro->sharing.nest_axis[nest] >= 0)
        return CLEAVE_WHEN_EVERY;
    cleave_when value = (cleave_when)micro->value[model->nests[nest].output.tensor];
    return pass == CLEAVE_PASS_FORWARD ? value : cleave_when_gradient(value);
}
