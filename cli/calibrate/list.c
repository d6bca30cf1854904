/* Lists what a framework is to time. */
#include "cli/calibrate/list.h"

#include "base/json.h"
#include "cli/calibrate/bytes.h"
#include "cli/calibrate/nests.h"
#include "cli/calibrate/works.h"
#include "graph/model/attention.h"
#include "graph/model/precision.h"
#include "graph/program/operator_work.h"
#include "search/search.h"

#include <string.h>

/* From the least that tells a latency on, and not beyond what a machine has room for. */
enum { N_KINDS = CLEAVE_ALL_TO_ALL + 1, MOST_GROUP = 64 };
static const int64_t least_collective_bytes = 1 << 12, most_collective_bytes = INT64_C(1) << 26;

typedef struct listing {
    const calibrate_values *values;
    cleave_machine machine;
    calibrate_works works;
    int64_t touched_bytes;
    int64_t collective_bytes[N_KINDS][MOST_GROUP + 1]; /* the most, by group; 0: there is none */
    CLEAVE_LIST(int64_t) freed_bytes;
    cleave_type precision;
} listing;

/* The machine to plan for: what a file says, else devices alike that are joined by a switch. */
static cleave_status get_machine(listing *l, cleave_arena *arena, cleave_error *error) {
    const calibrate_values *values = l->values;
    if (values->common.machine != NULL)
        return cleave_machine_read(values->common.machine, (int32_t)values->common.devices, arena,
                                   &l->machine, error);
    return calibrate_plain_machine(
        values->name, (int32_t)(values->common.devices > 0 ? values->common.devices : 1), arena,
        &l->machine, error);
}

/* Which collectives a layout has, and of how much. */
static cleave_status note_collectives(listing *l, const cleave_model *model,
                                      const cleave_layout *layout, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_program program;
    const cleave_lower_options options = {.training = cleave_model_trains(model),
                                          .symbolic_collectives = true,
                                          .least_collective = l->machine.collectives.least_devices};
    cleave_status status = cleave_lower(model, layout, &options, &scratch, &program, error);
    for (int32_t i = 0; status == CLEAVE_OK && i < program.n_collectives; i++) {
        const cleave_collective *of = &program.collectives[i];
        if (of->kind == CLEAVE_ALL_TO_ALL || of->n_devices > MOST_GROUP)
            continue;
        int64_t *most = &l->collective_bytes[of->kind][of->n_devices];
        *most = of->bytes > *most ? of->bytes : *most;
    }
    cleave_arena_free(&scratch);
    return status;
}

/* Two devices have no collectives of ours but messages, and those of a framework all the same. */
static void note_pairs(listing *l, const cleave_model *model) {
    for (int32_t t = 0; t < model->n_tensors && l->machine.n_devices > 1; t++) {
        int64_t bytes =
            cleave_tensor_size(&model->tensors[t]) * cleave_type_bytes(model->tensors[t].stored);
        for (int kind = 0; kind < N_KINDS; kind++)
            if (bytes > l->collective_bytes[kind][2])
                l->collective_bytes[kind][2] = bytes;
    }
}

/* Gradients of parameters, which a framework frees between steps and takes again in each. */
static cleave_status note_gradients(listing *l, const cleave_model *model, cleave_error *error) {
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        int64_t bytes = cleave_tensor_size(tensor) * cleave_type_bytes(tensor->stored);
        if (tensor->kind == CLEAVE_TENSOR_PARAMETER && tensor->needs_gradient &&
            !CLEAVE_LIST_PUSH(&l->freed_bytes, bytes))
            return cleave_fail_memory(error, "listing what to time");
    }
    return CLEAVE_OK;
}

static cleave_status add_baseline_collectives(listing *l, const cleave_model *model,
                                              cleave_arena *arena, cleave_error *error) {
    for (int b = 0; cleave_baseline_names[b] != NULL; b++) {
        cleave_layout layout;
        bool applies = false;
        CLEAVE_TRY(cleave_baseline_layout(model, &l->machine, cleave_baseline_names[b], 0, arena,
                                          &layout, &applies, error));
        if (applies)
            CLEAVE_TRY(note_collectives(l, model, &layout, error));
    }
    return CLEAVE_OK;
}

static cleave_status add_layout(listing *l, const cleave_model *model, const cleave_layout *layout,
                                cleave_error *error) {
    int64_t touched_bytes;
    CLEAVE_TRY(
        calibrate_works_add_layout(&l->works, model, &l->machine, layout, &touched_bytes, error));
    return note_collectives(l, model, layout, error);
}

/* The best that is found as far as prices are known by now. */
static cleave_status add_found(listing *l, const cleave_model *model, cleave_arena *arena,
                               cleave_error *error) {
    cleave_search_result found;
    cleave_constraints constraints = {0};
    if (!cleave_model_trains(model) || l->machine.n_devices < 2)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_constraints_for(&constraints, CLEAVE_TARGET_TORCH, model,
                                      l->machine.n_devices, arena, error));
    const cleave_search_options options = {.method = "auto",
                                           .n_threads = 1,
                                           .constraints = &constraints,
                                           .quiet = l->values->common.quiet};
    cleave_status status = cleave_search(model, &l->machine, &options, arena, &found, error);
    if (status ==
        CLEAVE_NO_LAYOUT) /* it fits in no way here: the baselines are listed all the same */
        return CLEAVE_OK;
    CLEAVE_TRY(status);
    return add_layout(l, model, &found.best.layout, error);
}

static cleave_status add_model(listing *l, int i, cleave_arena *arena, cleave_error *error) {
    cleave_model *model = CLEAVE_ARENA_ARRAY(arena, cleave_model, 1);
    cleave_model *fused = CLEAVE_ARENA_ARRAY(arena, cleave_model, 1);
    int64_t touched_bytes = 0;
    if (model == NULL || fused == NULL)
        return cleave_fail_memory(error, "listing what to time");
    CLEAVE_TRY(calibrate_import(l->values, i, arena, model, error));
    CLEAVE_TRY(cleave_model_fuse_attention(model, NULL, arena, fused, error));
    l->precision = model->precision;
    CLEAVE_TRY(calibrate_works_add(&l->works, fused, &l->machine, &touched_bytes, error));
    note_pairs(l, fused);
    l->freed_bytes.n = 0; /* of the last model */
    CLEAVE_TRY(note_gradients(l, fused, error));
    CLEAVE_TRY(add_baseline_collectives(l, fused, arena, error));
    CLEAVE_TRY(add_found(l, fused, arena, error));
    for (int k = 0; k < l->values->layouts.n; k++) {
        cleave_layout layout;
        cleave_model *as_it_has = CLEAVE_ARENA_ARRAY(arena, cleave_model, 1);
        if (as_it_has == NULL)
            return cleave_fail_memory(error, "listing what to time");
        CLEAVE_TRY(cleave_layout_read(l->values->layouts.items[k], model, arena, &layout, error));
        CLEAVE_TRY(cleave_model_fuse_attention(model, &layout, arena, as_it_has, error));
        CLEAVE_TRY(add_layout(l, as_it_has, &layout, error));
    }
    l->touched_bytes = touched_bytes > l->touched_bytes ? touched_bytes : l->touched_bytes;
    return CLEAVE_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void put_work(cleave_json_writer *w, const cleave_work *work) {
    cleave_json_set_string(w, "key", work->key);
    cleave_json_set_string(w, "family", work->family);
    cleave_json_set_number(w, "flops", work->flops);
    cleave_json_set_number(w, "bytes", work->bytes);
}

static void put_views(cleave_json_writer *w, const cleave_model *model, int32_t op) {
    int64_t views[CLEAVE_MOST_VIEWED];
    int n = cleave_operator_views(model, op, views);
    if (n == 0)
        return;
    cleave_json_open_array(w, "views", true);
    for (int i = 0; i < n; i++)
        cleave_json_put_integer(w, views[i]);
    cleave_json_end_array(w);
}

static void put_operators(cleave_json_writer *w, const calibrate_works *works) {
    cleave_json_open_array(w, "operators", false);
    for (int32_t i = 0; i < works->n; i++) {
        const calibrate_work *work = &works->items[i];
        const cleave_operator *op = &work->model->operators[work->nest->op];
        cleave_json_begin_object(w, false);
        put_work(w, &work->work);
        cleave_json_set_string(w, "name", op->name);
        cleave_json_set_string(w, "type", op->type);
        cleave_json_set_truth(w, "backward", work->pass != CLEAVE_PASS_FORWARD);
        cleave_json_set_truth(w, "wanted", work->wanted);
        put_views(w, work->model, work->nest->op);
        calibrate_put_nests(w, work->model, work->nest, &work->part);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

static void put_byte_works(cleave_json_writer *w) {
    calibrate_byte_works bytes;
    calibrate_byte_works_list(&bytes);
    cleave_json_open_array(w, "copies", false);
    for (int32_t i = 0; i < bytes.n; i++) {
        cleave_work work;
        calibrate_byte_work_describe(&bytes.items[i], &work);
        cleave_json_begin_object(w, true);
        put_work(w, &work);
        cleave_json_set_integer(w, "size", bytes.items[i].bytes);
        cleave_json_set_integer(w, "row", bytes.items[i].row_bytes);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

static void put_collectives(cleave_json_writer *w, const listing *l) {
    cleave_json_open_array(w, "collectives", false);
    for (int n = 2; n <= MOST_GROUP; n++)
        for (int kind = 0; kind < N_KINDS; kind++) {
            int64_t most = l->collective_bytes[kind][n];
            most = most < most_collective_bytes ? most : most_collective_bytes;
            for (int64_t bytes = least_collective_bytes; l->collective_bytes[kind][n] > 0;
                 bytes *= 4) {
                cleave_json_begin_object(w, true);
                cleave_json_set_string(w, "kind", cleave_collective_names[kind]);
                cleave_json_set_integer(w, "devices", n);
                cleave_json_set_integer(w, "bytes", bytes);
                cleave_json_end_object(w);
                if (bytes >= most)
                    break;
            }
        }
    cleave_json_end_array(w);
}

static cleave_status write_list(const listing *l, cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, false);
    cleave_json_set_integer(&w, "cleave_kernels", 1);
    cleave_json_set_string(&w, "precision", cleave_precision_name(l->precision));
    cleave_json_set_integer(&w, "devices", l->machine.n_devices);
    cleave_json_set_integer(&w, "touched_bytes", l->touched_bytes);
    cleave_json_open_array(&w, "freed_bytes", true);
    for (int32_t i = 0; i < l->freed_bytes.n; i++)
        cleave_json_put_integer(&w, l->freed_bytes.items[i]);
    cleave_json_end_array(&w);
    put_operators(&w, &l->works);
    put_byte_works(&w);
    put_collectives(&w, l);
    cleave_json_end_object(&w);
    return cleave_json_write_file(&w, l->values->list, "listing what to time", error);
}

static cleave_status print_json(const listing *l, int32_t n_wanted, cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, false);
    cleave_json_set_integer(&w, "passes", l->works.n);
    cleave_json_set_integer(&w, "passes_near_the_best", n_wanted);
    cleave_json_set_string(&w, "kernels", l->values->list);
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}

cleave_status calibrate_list(const calibrate_values *values, cleave_arena *arena,
                             cleave_error *error) {
    listing l = {.values = values, .works = {.whole_operators = true}};
    cleave_status status = get_machine(&l, arena, error);
    for (int i = 0; i < values->models.n && status == CLEAVE_OK; i++)
        status = add_model(&l, i, arena, error);
    if (status == CLEAVE_OK) {
        calibrate_works_order(&l.works);
        status = write_list(&l, error);
    }
    int32_t n_wanted = 0;
    for (int32_t i = 0; i < l.works.n; i++)
        n_wanted += l.works.items[i].wanted;
    if (status == CLEAVE_OK && !values->common.json)
        printf("%d passes of operators, %d of them of baselines and of layouts near the best, "
               "listed in %s\n",
               l.works.n, n_wanted, values->list);
    else if (status == CLEAVE_OK && values->through == NULL)
        status = print_json(&l, n_wanted, error);
    CLEAVE_LIST_FREE(&l.works);
    CLEAVE_LIST_FREE(&l.freed_bytes);
    return status;
}
