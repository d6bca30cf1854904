/* Whole operators: their leads, their parts, and the sum of what their nests do. */
#include "graph/program/operator_work.h"

#include "base/random.h"
#include "graph/model/precision.h"

#include <inttypes.h>
#include <stdio.h>

static bool has_gradients(const cleave_model *model, const cleave_nest *nest) {
    return cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_INPUT_GRADIENT) != 0 ||
           cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_WEIGHT_GRADIENT) != 0;
}

int32_t cleave_operator_lead(const cleave_model *model, int32_t op, bool backward) {
    const cleave_operator *of = &model->operators[op];
    if (!backward || has_gradients(model, &model->nests[of->main_nest]))
        return of->main_nest;
    for (int32_t i = 0; i < of->n_nests; i++)
        if (has_gradients(model, &model->nests[of->nests[i]]))
            return of->nests[i];
    return -1;
}

/* The axis of a nest that is this axis of its operator, or -1. */
static int find_axis(const cleave_nest *nest, int operator_axis) {
    for (int a = 0; a < nest->n_axes && nest->derivation == CLEAVE_DERIVE_OPERATOR; a++)
        if (nest->operator_axis[a] == operator_axis)
            return a;
    return -1;
}

cleave_part cleave_operator_part(const cleave_model *model, const cleave_nest *lead,
                                 const cleave_part *part, const cleave_nest *nest) {
    cleave_part made = cleave_part_whole(nest, part->device);
    cleave_box box;
    if (nest == lead)
        return *part;
    if (nest->derivation == CLEAVE_DERIVE_OWNERS) {
        const cleave_nest *owner = &model->nests[nest->owners_of];
        cleave_part of_owner = cleave_operator_part(model, lead, part, owner);
        cleave_part_box(model, &of_owner, &owner->output, &box);
        for (int a = 0; a < nest->n_axes; a++)
            made.hi[a] = box.hi[a] - box.lo[a];
        return made;
    }
    /* From 0 on, since it is by extents that prices are remembered. */
    for (int a = 0; a < nest->n_axes; a++) {
        int same = nest->operator_axis[a] >= 0 ? find_axis(lead, nest->operator_axis[a]) : -1;
        if (same >= 0)
            made.hi[a] = cleave_part_extent(part, same);
    }
    return made;
}

void cleave_operator_family(const cleave_model *model, int32_t op, bool backward, char *family,
                            size_t bytes) {
    const cleave_operator *of = &model->operators[op];
    bool is_short = cleave_type_is_short(model->precision);
    snprintf(family, bytes, "%s%soperator %s %s%s",
             is_short ? cleave_precision_name(model->precision) : "", is_short ? " " : "",
             backward ? "backward" : "forward",
             cleave_nest_is_grouped(&model->nests[of->main_nest]) ? "grouped " : "", of->type);
}

/* Views from this tensor to what other operators gave; none of what the operator wrote, of data and
   of parameters, which modules read as they are. */
static int64_t count_views(const cleave_model *model, int32_t op, int32_t tensor) {
    const cleave_view *view = &model->tensors[tensor].view;
    int64_t n = 0;
    bool is_moved = false;
    if (view->kind == CLEAVE_VIEW_NONE)
        return 0;
    for (int32_t i = 0; i < view->n_sources; i++) {
        int32_t source = view->sources[i], nest = model->writer[source];
        int64_t before = count_views(model, op, source);
        n += before;
        is_moved = is_moved || before > 0 || (nest >= 0 && model->nests[nest].op != op);
    }
    return is_moved ? n + 1 : 0;
}

int cleave_operator_views(const cleave_model *model, int32_t op, int64_t *views) {
    const cleave_operator *of = &model->operators[op];
    int32_t seen[CLEAVE_MOST_VIEWED];
    int n = 0;
    for (int32_t i = 0; i < of->n_nests; i++) {
        const cleave_nest *nest = &model->nests[of->nests[i]];
        for (int k = 0; k < nest->n_inputs && n < CLEAVE_MOST_VIEWED; k++) {
            int32_t tensor = nest->inputs[k].tensor;
            bool is_new = true;
            for (int j = 0; j < n; j++)
                is_new = is_new && seen[j] != tensor;
            int64_t found = is_new ? count_views(model, op, tensor) : 0;
            if (found > 0) {
                seen[n] = tensor;
                views[n++] = found;
            }
        }
    }
    return n;
}

/* Adds a pass of a nest to the work, and what its time depends on to the hash. */
static void add_pass(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                     const cleave_part *part, cleave_work *work, uint64_t *hash) {
    cleave_work_text text = {.n = 0};
    cleave_work of;
    cleave_work_measure(model, nest, pass, part, &of);
    cleave_work_write(model, nest, pass, part, &text);
    work->flops += of.flops;
    work->bytes += of.bytes;
    *hash = cleave_hash_join(*hash, cleave_hash_string(text.bytes));
}

static void write_key(const cleave_operator *of, const cleave_nest *lead, bool backward,
                      const cleave_part *part, uint64_t hash, cleave_work *work) {
    size_t room = sizeof work->key - 18;
    size_t n = (size_t)snprintf(work->key, room, "operator %s %s",
                                backward ? "backward" : "forward", of->type);
    for (int a = 0; a < lead->n_axes && n < room; a++)
        n += (size_t)snprintf(work->key + n, room - n, " %s=%" PRId64, lead->axes[a].name,
                              cleave_part_extent(part, a));
    n = n < room ? n : room - 1;
    snprintf(work->key + n, sizeof work->key - n, " #%016" PRIx64, hash);
}

void cleave_operator_work_describe(const cleave_model *model, int32_t op, bool backward,
                                   const cleave_part *part, cleave_work *work) {
    const cleave_operator *of = &model->operators[op];
    const cleave_nest *lead = &model->nests[cleave_operator_lead(model, op, backward)];
    uint64_t hash = 0;
    *work = (cleave_work){.type = CLEAVE_F32};
    for (int32_t i = 0; i < of->n_nests; i++) {
        const cleave_nest *nest = &model->nests[of->nests[i]];
        if (nest->turn > 0)
            continue; /* a work of its own */
        cleave_part own = cleave_operator_part(model, lead, part, nest);
        if (!backward)
            add_pass(model, nest, CLEAVE_PASS_FORWARD, &own, work, &hash);
        for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT;
             backward && pass <= CLEAVE_PASS_WEIGHT_GRADIENT; pass++)
            if (cleave_nest_pass_inputs(model, nest, pass) != 0)
                add_pass(model, nest, pass, &own, work, &hash);
    }
    int64_t views[CLEAVE_MOST_VIEWED];
    int n_views = cleave_operator_views(model, op, views);
    for (int i = 0; i < n_views; i++)
        hash = cleave_hash_join(hash, (uint64_t)views[i]);
    cleave_operator_family(model, op, backward, work->family, sizeof work->family);
    write_key(of, lead, backward, part, hash, work);
}

bool cleave_operator_begins(const cleave_model *model, const cleave_nest *lead, cleave_pass pass) {
    return pass != CLEAVE_PASS_WEIGHT_GRADIENT ||
           cleave_nest_pass_inputs(model, lead, CLEAVE_PASS_INPUT_GRADIENT) == 0;
}
