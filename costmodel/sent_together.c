#include "costmodel/sent_together.h"

#include "graph/model/layer_name.h"
#include "graph/program/framework.h"

#include <math.h>

static const double ddp_bucket_bytes = 25 << 20, megatron_bucket_elements = 40e6;

static void set_bucket(cleave_sent_together *made, cleave_buckets buckets) {
    if (buckets == CLEAVE_BUCKETS_KEPT)
        made->most_bytes = ddp_bucket_bytes;
    else
        made->most_elements =
            buckets == CLEAVE_BUCKETS_NONE ? megatron_bucket_elements : CLEAVE_MOST_AT_ONCE;
}

/* The base tensors that a concatenation alone reads, as they are or as views of one source; their
   sums, but for a forward pass's own, are of its gradient. */
static void find_pieces(const cleave_model *model, const int32_t *readers,
                        double *whole_over_piece) {
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_view *whole = &model->tensors[t].view;
        for (int32_t s = 0; whole->kind == CLEAVE_VIEW_CONCAT && s < whole->n_sources; s++) {
            int32_t piece = whole->sources[s];
            double size = (double)cleave_tensor_size(&model->tensors[piece]);
            while (readers[piece] == 1 && model->tensors[piece].view.n_sources == 1)
                piece = model->tensors[piece].view.sources[0];
            if (readers[piece] == 1 && model->tensors[piece].kind == CLEAVE_TENSOR_ACTIVATION &&
                model->tensors[piece].view.kind == CLEAVE_VIEW_NONE)
                whole_over_piece[piece] = (double)cleave_tensor_size(&model->tensors[t]) / size;
        }
    }
}

cleave_status cleave_sent_together_create(const cleave_model *model, const cleave_machine *machine,
                                          cleave_arena *arena, cleave_sent_together *made,
                                          cleave_error *error) {
    const cleave_framework_row *framework = &cleave_frameworks[machine->kinds[0].framework];
    *made = (cleave_sent_together){.model = model, .by_layers = framework->gathers.by_layers};
    if (!cleave_machine_knows_collectives(machine) || !cleave_model_trains(model))
        return CLEAVE_OK;
    cleave_arena scratch = {0};
    int32_t *layer = CLEAVE_ARENA_ARRAY(&scratch, int32_t, model->n_tensors);
    double *all = CLEAVE_ARENA_ARRAY(&scratch, double, model->n_tensors + 1);
    double *elements = CLEAVE_ARENA_ARRAY(arena, double, model->n_tensors);
    double *whole_over_piece = CLEAVE_ARENA_ARRAY(arena, double, model->n_tensors);
    int32_t *readers = CLEAVE_ARENA_ARRAY(&scratch, int32_t, model->n_tensors);
    bool enough = layer != NULL && all != NULL && elements != NULL && whole_over_piece != NULL &&
                  readers != NULL;
    if (enough)
        cleave_layers_number(model, layer);
    for (int32_t t = 0; t < model->n_tensors && enough; t++)
        if (layer[t] >= 0)
            all[layer[t]] += (double)cleave_tensor_size(&model->tensors[t]);
    for (int32_t t = 0; t < model->n_tensors && enough; t++)
        if (layer[t] >= 0) {
            elements[t] = all[layer[t]];
            made->all_elements += (double)cleave_tensor_size(&model->tensors[t]);
        }
    made->elements = elements;
    made->sums_only = machine->collectives.together_bytes > 0;
    if (made->sums_only && enough) {
        made->most_bytes = (double)machine->collectives.together_bytes;
        made->whole_over_piece = whole_over_piece;
        cleave_model_count_readers(model, readers);
        find_pieces(model, readers, whole_over_piece);
    } else
        set_bucket(made, framework->buckets);
    cleave_arena_free(&scratch);
    return enough ? CLEAVE_OK : cleave_fail_memory(error, "preparing costs");
}

int64_t cleave_sent_together_bytes(const cleave_sent_together *of, cleave_collective_kind kind,
                                   int32_t tensor, int64_t bytes) {
    bool sums = kind == CLEAVE_ALL_REDUCE || kind == CLEAVE_REDUCE_SCATTER;
    if (of->whole_over_piece != NULL && tensor >= 0 && of->whole_over_piece[tensor] > 0 && sums)
        return (int64_t)((double)bytes * of->whole_over_piece[tensor]);
    if (of->elements == NULL || tensor < 0 || of->elements[tensor] <= 0)
        return bytes;
    if (of->sums_only && kind != CLEAVE_ALL_REDUCE)
        return bytes;
    double own = (double)cleave_tensor_size(&of->model->tensors[tensor]), each = (double)bytes;
    if (of->by_layers && kind != CLEAVE_ALL_REDUCE)
        return (int64_t)(each * (of->elements[tensor] / own));
    double most = of->most_bytes > 0 ? of->most_bytes : of->most_elements * (each / own);
    return (int64_t)fmax(each, fmin(most, each * (of->all_elements / own)));
}
