/* What sharding updates costs and saves, over random layouts: no device keeps more, bytes grow only
   where replicas had the whole gradient without any, and shares cover each element once. */
#include "../support/deep_transformer.h"
#include "../support/draws.h"
#include "../support/models.h"
#include "../support/ok.h"
#include "../support/perceptron.h"
#include "graph/lower/lower.h"
#include "graph/model/view.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_DEVICES = 6, N_LAYOUTS = 120 };

typedef struct subject {
    const cleave_model *model;
    cleave_layout layout;
    cleave_arena *arena;
    char what[64];
} subject;

static void lower(subject *s, bool sharded, int states, cleave_program *program) {
    cleave_error error = {""};
    cleave_lower_options options = {.training = true, .optimizer_states = states};
    for (int32_t t = 0; t < s->model->n_tensors; t++)
        s->layout.sharded[t] = sharded && s->model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER;
    cr_assert_eq(cleave_lower(s->model, &s->layout, &options, s->arena, program, &error), CLEAVE_OK,
                 "%s: %s", s->what, error.message);
    cr_assert_eq(cleave_program_check(program, &error), CLEAVE_OK, "%s: %s", s->what,
                 error.message);
}

static int64_t bytes_sent(const cleave_program *program) {
    int64_t bytes = 0;
    for (int32_t m = 0; m < program->n_messages; m++)
        bytes += program->messages[m].bytes;
    return bytes;
}

static int64_t bytes_kept(const cleave_program *program, int32_t device) {
    int64_t bytes = 0;
    for (int32_t b = 0; b < program->n_buffers; b++)
        if (program->buffers[b].device == device && program->buffers[b].persistent)
            bytes += program->buffers[b].bytes;
    return bytes;
}

/* ---- What replicas make of it, element by element
 * ------------------------------------------------ */

typedef struct element {
    uint32_t users;    /* bit d: device d */
    int32_t nest, key; /* the last that was met */
    bool partial;      /* parts of one nest give partial results */
} element;

/* Calls `visit` for every element of a box. */
static void each_element(const cleave_tensor *tensor, const cleave_box *box, void *context,
                         void (*visit)(void *context, int64_t index)) {
    int64_t n = cleave_box_size(tensor->rank, box);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, index = 0, stride = 1;
        for (int d = tensor->rank - 1; d >= 0; d--) {
            int64_t extent = box->hi[d] - box->lo[d];
            index += (box->lo[d] + rest % extent) * stride;
            rest /= extent;
            stride *= tensor->shape[d];
        }
        visit(context, index);
    }
}

typedef struct use {
    element *elements;
    int32_t nest, key, device;
} use;

static void note_use(void *context, int64_t index) {
    const use *u = context;
    element *e = &u->elements[index];
    e->users |= 1u << u->device;
    e->partial = e->partial || (e->nest == u->nest && e->key != u->key);
    e->nest = u->nest;
    e->key = u->key;
}

/* Where each nest has one key the gradient is known to all users; sharded, one of them alone has
   the new value, and the others get it. */
static int64_t bytes_of_replicas(const subject *s, const cleave_program *program, int32_t t) {
    const cleave_model *model = s->model;
    int64_t n = cleave_tensor_size(&model->tensors[t]), bytes = 0;
    element *elements = calloc((size_t)n, sizeof *elements);
    cleave_piece_list pieces = {0};
    for (int64_t i = 0; i < n; i++)
        elements[i].nest = -1;
    for (int32_t k = 0; k < model->n_nests * CLEAVE_MAX_INPUTS; k++) {
        const cleave_nest *nest = &model->nests[k / CLEAVE_MAX_INPUTS];
        const cleave_parts *parts = &program->parts[k / CLEAVE_MAX_INPUTS];
        if (k % CLEAVE_MAX_INPUTS >= nest->n_inputs)
            continue;
        const cleave_operand *input = &nest->inputs[k % CLEAVE_MAX_INPUTS];
        for (int32_t p = 0; p < parts->n; p++) {
            cleave_box box;
            if (parts->items[p].empty)
                continue;
            cleave_part_box(model, &parts->items[p], input, &box);
            pieces.n = 0;
            OK(cleave_view_pull, model, input->tensor, &box, &pieces);
            use u = {elements, k, parts->items[p].key, parts->items[p].device};
            for (int32_t i = 0; i < pieces.n; i++)
                if (pieces.items[i].tensor == t)
                    each_element(&model->tensors[t], &pieces.items[i].box, &u, note_use);
        }
    }
    for (int64_t i = 0; i < n; i++)
        if (elements[i].users != 0 && !elements[i].partial)
            bytes += 4 * (__builtin_popcount(elements[i].users) - 1);
    CLEAVE_LIST_FREE(&pieces);
    free(elements);
    return bytes;
}

/* ---- Shares ------------------------------------------------------------------------------------
 */

static void count_one(void *context, int64_t index) { ++((int32_t *)context)[index]; }

/* Does what is held cover every element that a device uses once? */
static bool each_has_one_share(const subject *s, const cleave_program *plain,
                               const cleave_program *sharded, int32_t t) {
    const cleave_tensor *tensor = &s->model->tensors[t];
    int64_t n = cleave_tensor_size(tensor);
    int32_t *used = calloc((size_t)n, sizeof *used), *held = calloc((size_t)n, sizeof *held);
    bool once = true;
    for (int32_t h = 0; h < plain->n_held; h++)
        if (plain->held[h].tensor == t)
            each_element(tensor, &plain->held[h].box, used, count_one);
    for (int32_t h = 0; h < sharded->n_held; h++)
        if (sharded->held[h].tensor == t)
            each_element(tensor, &sharded->held[h].box, held, count_one);
    for (int64_t i = 0; i < n; i++) {
        cr_assert_eq(held[i] > 0, used[i] > 0, "%s: %s[%lld]", s->what, tensor->name, (long long)i);
        once = once && held[i] == (used[i] > 0);
    }
    free(used);
    free(held);
    return once;
}

typedef struct counts {
    int32_t parameters, shared;       /* where each element has one share */
    int64_t plain, sharded, replicas; /* bytes */
} counts;

static void check_layout(subject *s, int states, counts *n) {
    cleave_program plain, sharded;
    lower(s, false, states, &plain);
    lower(s, true, states, &sharded);
    int64_t replicas = 0;
    for (int32_t t = 0; t < s->model->n_tensors; t++) {
        if (s->model->tensors[t].kind != CLEAVE_TENSOR_PARAMETER)
            continue;
        replicas += bytes_of_replicas(s, &plain, t);
        n->parameters++;
        n->shared += each_has_one_share(s, &plain, &sharded, t);
    }
    for (int32_t d = 0; d < N_DEVICES; d++)
        cr_expect_leq(bytes_kept(&sharded, d), bytes_kept(&plain, d), "%s, %d states, device %d",
                      s->what, states, d);
    cr_expect_leq(bytes_sent(&sharded), bytes_sent(&plain) + replicas, "%s, %d states", s->what,
                  states);
    n->plain += bytes_sent(&plain);
    n->sharded += bytes_sent(&sharded);
    n->replicas += replicas;
}

static void draw_layout(subject *s, uint64_t seed) {
    snprintf(s->what, sizeof s->what, "%s, layout seed %d", s->model->file, (int)seed);
    OK(cleave_layout_random, s->model, N_DEVICES, seed, s->arena, &s->layout);
    s->layout.collectives = (cleave_collective_rules){0}; /* that all move the same bytes */
}

static void check_model(const cleave_model *model, int n_layouts) {
    counts n = {0};
    for (int i = 0; i < n_draws(n_layouts); i++) {
        cleave_arena arena = {0};
        subject s = {.model = model, .arena = &arena};
        draw_layout(&s, seed_from((uint64_t)i));
        check_layout(&s, i % 3, &n);
        cleave_arena_free(&arena);
    }
    printf("%s: %d of %d parameters shared out, %lld bytes become %lld, %lld of them replicas'\n",
           model->file, n.shared, n.parameters, (long long)n.plain, (long long)n.sharded,
           (long long)n.replicas);
    cr_expect_geq(n.shared * 10, n.parameters * 9);
}

static void check_hand_model(int which) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    cr_assert(hand_model(which, &arena, &model, &error), "%s", error.message);
    check_model(&model, N_LAYOUTS);
    cleave_arena_free(&arena);
}

Test(sharded_updates, of_a_perceptron_follow_its_splits) { check_hand_model(MODEL_MLP); }
Test(sharded_updates, of_a_convolutional_network_follow_its_splits) { check_hand_model(MODEL_CNN); }
Test(sharded_updates, of_tied_parameters_follow_the_smaller_pieces) {
    check_hand_model(MODEL_TIED);
    check_hand_model(MODEL_EMBEDDING);
}

Test(sharded_updates, of_a_transformer_follow_its_splits) {
    cleave_arena arena = {0};
    cleave_model model;
    const deep_transformer shape = {
        .layers = 1, .width = 12, .heads = 3, .tokens = 6, .vocabulary = 10};
    OK(deep_transformer_import, &shape, 4, &arena, &model);
    check_model(&model, N_LAYOUTS / 2);
    cleave_arena_free(&arena);
}

/* Samples over all devices: each gives a gradient of each whole weight, which is added up where it
   arose, so nothing that is sent is packed into as much memory once more. */
Test(sharded_updates, add_up_gradients_where_they_arise) {
    cleave_arena arena = {0};
    cleave_error error = {""};
    cleave_program program;
    cleave_lower_options options = {
        .training = true, .optimizer_states = 1, .symbolic_collectives = true};
    cleave_model model = make_perceptron(&arena, 2, 24, 48);
    cleave_layout layout;
    int32_t degree[CLEAVE_MAX_AXES] = {N_DEVICES}, devices[N_DEVICES], n_received = 0;
    for (int32_t d = 0; d < N_DEVICES; d++)
        devices[d] = d;
    cleave_layout_create(&model, N_DEVICES, &arena, &layout, &error);
    for (int32_t op = 0; op < model.n_operators; op++)
        cleave_layout_set(&layout, op, 1, degree, devices, &arena, &error);
    for (int32_t t = 0; t < model.n_tensors; t++)
        layout.sharded[t] = model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER;
    OK(cleave_lower, &model, &layout, &options, &arena, &program);
    for (int32_t b = 0; b < program.n_buffers; b++) {
        if (program.buffers[b].kind != CLEAVE_BUFFER_MESSAGE)
            continue;
        n_received += program.buffers[b].bytes == 48 * 48 * 4 / N_DEVICES; /* shares to be added */
        cr_expect_lt(program.buffers[b].bytes, 48 * 48 * 4);
    }
    cr_expect_eq(n_received, 2 * N_DEVICES);
    cleave_arena_free(&arena);
}
