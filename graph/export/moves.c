/* Bytes of a plan's step as DTensor moves tensors. */
#include "graph/export/moves.h"

#include "base/list.h"

#include <string.h>

/* ---- one tensor ---- */

static bool is_cut(int32_t word) { return word >= 0; }
static bool is_alone(int32_t word) {
    return word != CLEAVE_LIE_PARTIAL && cleave_mesh_is_alone(word);
}

/* Is a dimension of the tensor cut by the same outer dimensions of the mesh before and after? */
static bool is_aligned(const cleave_lie *from, const cleave_lie *to, int i) {
    for (int k = 0; k < i; k++)
        if ((from->of[k] == to->of[i]) != (to->of[k] == to->of[i]))
            return false;
    return true;
}

/* What there is of a tensor: bytes on each of so many devices. */
typedef struct lying {
    double local, devices;
} lying;

/* One collective along a dimension of the mesh; returns what all devices send. */
static double step(int32_t size, int32_t *word, int32_t to, lying *lies) {
    int32_t from = *word;
    double n = size, all = lies->devices * lies->local, share = (n - 1) / n;
    bool shares = is_alone(from) && !is_alone(to), leaves = is_alone(to) && !is_alone(from);
    *word = to;
    lies->devices *= shares ? n : leaves ? 1 / n : 1;
    lies->local *= (is_cut(from) ? n : 1) / (is_cut(to) ? n : 1);
    if (is_alone(from))
        return is_alone(to) ? all : is_cut(to) ? share * all : (n - 1) * all;
    if (is_alone(to))
        return from == CLEAVE_LIE_WHOLE ? 0 : share * all;
    if (is_cut(from))
        return is_cut(to) ? share * all : (n - 1) * all;
    return from == CLEAVE_LIE_WHOLE ? 0 : (is_cut(to) ? 1 : 2) * share * all;
}

double cleave_lie_move_bytes(const cleave_mesh *mesh, const cleave_lie *from, const cleave_lie *to,
                             double bytes) {
    cleave_lie now = *from;
    lying lies = {bytes, 1};
    double sent = 0;
    bool any = false;
    for (int i = 0; i < mesh->n; i++) {
        bool alone = is_alone(now.of[i]);
        lies.devices *= alone ? 1 : mesh->size[i];
        lies.local /= is_cut(now.of[i]) ? mesh->size[i] : 1;
        any = any || is_cut(now.of[i]) || alone != is_alone(to->of[i]);
    }
    for (int i = mesh->n - 1; any && i >= 0; i--) {
        bool first = is_cut(to->of[i]) && !is_aligned(&now, to, i);
        int32_t target = first ? CLEAVE_LIE_WHOLE : to->of[i];
        if (now.of[i] != target && (!is_alone(now.of[i]) || is_alone(target)))
            sent += step(mesh->size[i], &now.of[i], target, &lies);
    }
    for (int i = 0; i < mesh->n; i++)
        if (now.of[i] != to->of[i])
            sent += step(mesh->size[i], &now.of[i], to->of[i], &lies);
    return sent;
}

/* ---- a step ---- */

/* A way in which a tensor is read, and how the gradient comes from there. */
typedef struct reading {
    int32_t tensor;
    cleave_lie read, gradient;
} reading;

typedef struct mover {
    const cleave_model *model;
    const cleave_export_plan *plan;
    CLEAVE_LIST(reading) readings, summed;
    bool failed; /* memory was short */
} mover;

static double bytes_of(const cleave_model *model, int32_t tensor) {
    return (double)(cleave_tensor_size(&model->tensors[tensor]) *
                    cleave_type_bytes(model->tensors[tensor].stored));
}

/* What was in parts that add up comes back whole. */
static cleave_lie whole_of(const cleave_lie *lie) {
    cleave_lie whole = *lie;
    for (int i = 0; i < CLEAVE_MAX_MESH; i++)
        if (whole.of[i] == CLEAVE_LIE_PARTIAL)
            whole.of[i] = CLEAVE_LIE_WHOLE;
    return whole;
}

/* As the operator that writes a tensor has it under this cut. */
static cleave_lie find_written(const mover *m, int32_t tensor, const cleave_mesh_cut *cut,
                               bool partial) {
    const cleave_nest *nest = &m->model->nests[m->model->writer[tensor]];
    cleave_lie lie;
    memset(lie.of, CLEAVE_LIE_WHOLE, sizeof lie.of);
    for (int i = 0; i < m->plan->mesh.n; i++) {
        int32_t axis = cut->axis[i];
        lie.of[i] = axis;
        if (axis < 0)
            continue;
        int d = cleave_frame_dimension(m->model, nest, &nest->output, axis);
        bool sums = partial && m->plan->operators[nest->op].frame.sums[axis];
        lie.of[i] = sums ? CLEAVE_LIE_PARTIAL : d >= 0 ? d : CLEAVE_LIE_WHOLE;
    }
    return lie;
}

/* Those that read alike share what is moved, and their gradients add up before they go back. */
static void add_reading(mover *m, const reading *fresh) {
    for (int32_t i = 0; i < m->readings.n; i++) {
        reading *known = &m->readings.items[i];
        if (known->tensor != fresh->tensor ||
            memcmp(&known->read, &fresh->read, sizeof known->read) != 0)
            continue;
        for (int k = 0; k < m->plan->mesh.n; k++)
            if (fresh->gradient.of[k] == CLEAVE_LIE_PARTIAL)
                known->gradient.of[k] = CLEAVE_LIE_PARTIAL;
        return;
    }
    m->failed = !CLEAVE_LIST_PUSH(&m->readings, *fresh) || m->failed;
}

/* Is it done within the module of a layer's experts, which is given tokens and gives them? */
static bool is_within_experts(const cleave_planned_operator *planned) {
    return planned->leader >= 0 && planned->leader != planned->router;
}

/* Notes how an operand is read of the tensors behind it that other operators write. */
static void read_operand(mover *m, int32_t op, const cleave_nest *nest,
                         const cleave_operand *operand, int32_t tensor) {
    const cleave_model *model = m->model;
    const cleave_view *view = &model->tensors[tensor].view;
    const cleave_planned_operator *planned = &m->plan->operators[op];
    const cleave_mesh_cut *cut = &planned->cut;
    for (int32_t i = 0; view->kind != CLEAVE_VIEW_NONE && i < view->n_sources; i++)
        read_operand(m, op, nest, operand, view->sources[i]);
    bool written = view->kind == CLEAVE_VIEW_NONE && model->writer[tensor] >= 0;
    if (!written || model->nests[model->writer[tensor]].op == op)
        return;
    reading fresh = {.tensor = tensor};
    memset(fresh.read.of, CLEAVE_LIE_WHOLE, sizeof fresh.read.of);
    fresh.gradient = fresh.read;
    for (int i = 0; i < m->plan->mesh.n; i++) {
        int32_t axis = cut->axis[i];
        fresh.read.of[i] = fresh.gradient.of[i] = axis;
        if (axis < 0 && is_within_experts(planned) &&
            m->plan->operators[planned->leader].cut.axis[i] >= 0)
            fresh.gradient.of[i] = CLEAVE_LIE_PARTIAL;
        if (axis < 0)
            continue;
        int32_t parts = cleave_mesh_degree(&m->plan->mesh, cut, axis);
        int d = cleave_frame_dimension(model, nest, operand, axis);
        d = d >= 0 ? cleave_frame_locate(model, operand->tensor, d, parts, tensor) : d;
        fresh.read.of[i] = d >= 0 ? d : CLEAVE_LIE_WHOLE;
        fresh.gradient.of[i] = d >= 0 ? d : CLEAVE_LIE_PARTIAL;
    }
    add_reading(m, &fresh);
}

/* What the experts of a layer give, in parts that add up, to where its tokens are routed, and back.
 */
static double move_from_experts(const mover *m, int32_t op) {
    const cleave_planned_operator *combines = &m->plan->operators[op];
    const cleave_planned_operator *experts = &m->plan->operators[combines->experts];
    const cleave_operator *of = &m->model->operators[op];
    int32_t tensor = m->model->nests[of->nests[of->n_nests - 1]].output.tensor;
    cleave_lie out, then = find_written(m, tensor, &combines->cut, false);
    memset(out.of, CLEAVE_LIE_WHOLE, sizeof out.of);
    for (int i = 0; i < m->plan->mesh.n; i++) {
        int32_t axis = experts->cut.axis[i];
        out.of[i] = axis < 0                    ? CLEAVE_LIE_WHOLE
                    : experts->frame.sums[axis] ? CLEAVE_LIE_PARTIAL
                                                : 0;
    }
    cleave_lie back = whole_of(&out);
    double bytes = bytes_of(m->model, tensor);
    double sent = cleave_lie_move_bytes(&m->plan->mesh, &out, &then, bytes);
    return sent + (cleave_model_trains(m->model)
                       ? cleave_lie_move_bytes(&m->plan->mesh, &then, &back, bytes)
                       : 0);
}

/* Of a tensor that an operator writes for others: to where it goes, to those that read it, and
   back. */
static double move_output(const mover *m, int32_t tensor) {
    int32_t op = m->model->nests[m->model->writer[tensor]].op;
    const cleave_planned_operator *planned = &m->plan->operators[op];
    if (is_within_experts(planned))
        return 0;
    cleave_lie out = find_written(m, tensor, &planned->cut, true);
    cleave_lie then = find_written(m, tensor, &planned->then, false), back = whole_of(&out);
    double bytes = bytes_of(m->model, tensor), sent = 0;
    bool has_gradient = cleave_model_trains(m->model) && m->model->tensors[tensor].needs_gradient;
    bool is_read = false;
    for (int32_t i = 0; i < m->readings.n; i++) {
        const reading *of = &m->readings.items[i];
        if (of->tensor != tensor)
            continue;
        is_read = true;
        sent += cleave_lie_move_bytes(&m->plan->mesh, &then, &of->read, bytes);
        if (has_gradient)
            sent += cleave_lie_move_bytes(&m->plan->mesh, &of->gradient, &then, bytes);
    }
    if (is_read)
        sent += cleave_lie_move_bytes(&m->plan->mesh, &out, &then, bytes);
    if (is_read && has_gradient)
        sent += cleave_lie_move_bytes(&m->plan->mesh, &then, &back, bytes);
    return sent;
}

/* What is added to sums that are split is added once they are whole, where they go. */
static const cleave_mesh_cut *find_cut(const mover *m, int32_t op,
                                       const cleave_frame_parameter *read) {
    const cleave_planned_operator *reader = &m->plan->operators[op];
    bool partial = false;
    for (int i = 0; i < m->plan->mesh.n; i++)
        partial = partial || (reader->cut.axis[i] >= 0 && reader->frame.sums[reader->cut.axis[i]]);
    return partial && !read->of_main ? &reader->then : &reader->cut;
}

/* Gradients that are but added up go together, of all that read a parameter: is this one of what is
   sent already? */
static bool goes_with_another(mover *m, int32_t tensor, const cleave_lie *gradient,
                              const cleave_lie *stored) {
    const reading fresh = {tensor, *stored, *gradient};
    for (int i = 0; i < m->plan->mesh.n; i++)
        if (gradient->of[i] != stored->of[i] &&
            (gradient->of[i] != CLEAVE_LIE_PARTIAL || stored->of[i] != CLEAVE_LIE_WHOLE))
            return false;
    for (int32_t i = 0; i < m->summed.n; i++)
        if (m->summed.items[i].tensor == tensor &&
            memcmp(&m->summed.items[i].gradient, gradient, sizeof *gradient) == 0)
            return true;
    m->failed = !CLEAVE_LIST_PUSH(&m->summed, fresh) || m->failed;
    return false;
}

static double move_parameter(mover *m, int32_t op, const cleave_frame_parameter *read) {
    const cleave_mesh_cut *cut = find_cut(m, op, read);
    const cleave_planned_parameter *parameter = &m->plan->parameters[read->tensor];
    cleave_lie stored, used, gradient;
    memset(used.of, CLEAVE_LIE_WHOLE, sizeof used.of);
    stored = gradient = used;
    for (int i = 0; i < m->plan->mesh.n; i++) {
        int32_t axis = cut->axis[i], d = axis < 0 ? axis : read->dimension[axis];
        stored.of[i] = parameter->stored[i];
        used.of[i] = axis >= 0 && d < 0 ? CLEAVE_LIE_WHOLE : d;
        gradient.of[i] = axis >= 0 && d < 0 ? CLEAVE_LIE_PARTIAL : d;
    }
    const cleave_tensor *tensor = &m->model->tensors[read->tensor];
    double bytes = bytes_of(m->model, read->tensor);
    double sent = cleave_lie_move_bytes(&m->plan->mesh, &stored, &used, bytes);
    if (cleave_model_trains(m->model) && tensor->needs_gradient &&
        !goes_with_another(m, read->tensor, &gradient, &stored))
        sent += cleave_lie_move_bytes(&m->plan->mesh, &gradient, &stored, bytes);
    return sent;
}

static double move_operator(mover *m, int32_t op) {
    const cleave_planned_operator *planned = &m->plan->operators[op];
    double sent = planned->combines ? move_from_experts(m, op) : 0;
    for (int32_t i = 0; i < planned->frame.n_parameters; i++)
        if (cleave_export_owns(m->model, planned, &planned->frame.parameters[i]))
            sent += move_parameter(m, op, &planned->frame.parameters[i]);
    for (int32_t k = 0; k < m->model->operators[op].n_nests; k++) {
        const cleave_nest *nest = &m->model->nests[m->model->operators[op].nests[k]];
        for (int i = 0; i < nest->n_inputs; i++)
            read_operand(m, op, nest, &nest->inputs[i], nest->inputs[i].tensor);
    }
    return sent;
}

cleave_status cleave_export_move_bytes(const cleave_model *model, const cleave_export_plan *plan,
                                       double *bytes, cleave_error *error) {
    mover m = {.model = model, .plan = plan};
    double sent = 0;
    for (int32_t op = 0; op < model->n_operators; op++)
        sent += move_operator(&m, op);
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].view.kind == CLEAVE_VIEW_NONE && model->writer[t] >= 0)
            sent += move_output(&m, t);
    CLEAVE_LIST_FREE(&m.readings);
    CLEAVE_LIST_FREE(&m.summed);
    if (m.failed)
        return cleave_fail_memory(error, "counting what is moved");
    *bytes = sent;
    return CLEAVE_OK;
}
