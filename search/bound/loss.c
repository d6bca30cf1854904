/* What follows the loss in every layout.

   A backward compute begins when the gradient of all that its part wrote is complete, so when all
   parts have contributed that read some element of that.  Where one of them follows the loss, so
   does the compute.  Of every tensor boxes are known that readers who follow the loss cover,
   however they are split; a nest follows it where every part of every split wrote some element of
   such a box.  (What nobody reads has no gradient to wait for: a recurrence has gates that its
   first step does not use.)  The last nest of the loss follows itself: backward runs after forward,
   on the same devices. */
#include "search/bound/internal.h"

#include <stdlib.h>

typedef CLEAVE_LIST(cleave_box) box_list;

static bool all_parts_touch(const cleave_model *model, const cleave_nest *nest,
                            const cleave_parts *parts, const box_list *boxes) {
    int rank = model->tensors[nest->output.tensor].rank;
    for (int32_t p = 0; p < parts->n; p++) {
        cleave_box wrote;
        bool touches = parts->items[p].empty;
        cleave_part_box(model, &parts->items[p], &nest->output, &wrote);
        for (int32_t b = 0; b < boxes->n && !touches; b++)
            touches = cleave_box_overlap(rank, &wrote, &boxes->items[b]);
        if (!touches)
            return false;
    }
    return true;
}

/* What a nest that follows the loss contributes to gradients. */
static cleave_status note_contributions(const cleave_model *model, const cleave_nest *nest,
                                        box_list *boxes, cleave_error *error) {
    uint32_t inputs = cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_INPUT_GRADIENT) |
                      cleave_nest_pass_inputs(model, nest, CLEAVE_PASS_WEIGHT_GRADIENT);
    cleave_piece_list pieces = {0};
    cleave_status status = bound_covered_pieces(model, nest, inputs, &pieces, error);
    for (int32_t p = 0; p < pieces.n && status == CLEAVE_OK; p++)
        if (!CLEAVE_LIST_PUSH(&boxes[pieces.items[p].tensor], pieces.items[p].box))
            status = cleave_fail_memory(error, "bounding the step");
    CLEAVE_LIST_FREE(&pieces);
    return status;
}

static cleave_status follow(const cleave_model *model, const int32_t *n_values,
                            cleave_split *const *values, int32_t n, box_list *boxes, bool *follows,
                            cleave_error *error) {
    const cleave_nest *nest = &model->nests[n];
    cleave_arena scratch = {0};
    cleave_status status = CLEAVE_OK;
    cleave_parts *parts = CLEAVE_ARENA_ARRAY(&scratch, cleave_parts, model->n_nests);
    if (parts == NULL)
        status = cleave_fail_memory(error, "bounding the step");
    *follows = cleave_model_trains(model) && nest->differentiable;
    for (int32_t v = 0; v < n_values[nest->op] && *follows && status == CLEAVE_OK &&
                        nest->output.tensor != model->loss;
         v++) {
        status = cleave_parts_derive_operator(model, nest->op, &values[nest->op][v], NULL, &scratch,
                                              parts, error);
        *follows = status == CLEAVE_OK &&
                   all_parts_touch(model, nest, &parts[n], &boxes[nest->output.tensor]);
    }
    cleave_arena_free(&scratch);
    return status;
}

cleave_status bound_follow_loss(const cleave_model *model, const int32_t *n_values,
                                cleave_split *const *values, bool *follows, cleave_error *error) {
    box_list *boxes = calloc((size_t)model->n_tensors + 1, sizeof *boxes);
    cleave_status status =
        boxes != NULL ? CLEAVE_OK : cleave_fail_memory(error, "bounding the step");
    for (int32_t n = model->n_nests - 1; n >= 0 && status == CLEAVE_OK; n--) {
        status = follow(model, n_values, values, n, boxes, &follows[n], error);
        if (status == CLEAVE_OK && follows[n])
            status = note_contributions(model, &model->nests[n], boxes, error);
    }
    for (int32_t t = 0; boxes != NULL && t < model->n_tensors; t++)
        CLEAVE_LIST_FREE(&boxes[t]);
    free(boxes);
    return status;
}
