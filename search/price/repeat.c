/* Blocks 0 and 1 are as they are in the whole model, since they are as far from its beginning, and
   so are the last ones; between them block 2 stands for itself and for all that are left out. */
#include "search/price/repeat.h"

#include "costmodel/machine_fold.h"
#include "simulator/step/simulate.h"

#include <stdlib.h>

enum { KEPT_BLOCKS = 6, MIDDLE_BLOCK = 2, NO_BLOCK = -1, UNREAD = -2 };

struct cleave_repeats {
    const cleave_model *whole;
    cleave_blocks blocks;     /* of the whole model */
    cleave_model model;       /* of KEPT_BLOCKS blocks */
    cleave_pricer pricer;     /* of it */
    int32_t *of_whole;        /* [n_operators] an operator of the whole model that it stands for */
    int32_t *tensor_of_whole; /* [n_tensors] likewise, of what operators read */
    int32_t *block_of_tensor; /* [n_tensors] of base tensors; NO_BLOCK: of none, or of several */
    cleave_layout layout;
    cleave_arena arena, extended;
};

/* ---- the short model ------------------------------------------------------------------------- */

static int32_t block_of_operator(const cleave_repeats *r, int32_t op) {
    int32_t b = op < r->blocks.first ? NO_BLOCK : (op - r->blocks.first) / r->blocks.period;
    return b < KEPT_BLOCKS ? b : NO_BLOCK;
}

/* Notes that an operator of a block reads a tensor, or what lies under it. */
static void read_tensor(cleave_repeats *r, int32_t tensor, int32_t block) {
    const cleave_tensor *of = &r->model.tensors[tensor];
    int32_t *known = &r->block_of_tensor[tensor];
    for (int32_t i = 0; of->view.kind != CLEAVE_VIEW_NONE && i < of->view.n_sources; i++)
        read_tensor(r, of->view.sources[i], block);
    if (r->model.writer[tensor] < 0)
        *known = *known == UNREAD || *known == block ? block : NO_BLOCK;
}

static void find_blocks_of_tensors(cleave_repeats *r) {
    const cleave_model *model = &r->model;
    for (int32_t t = 0; t < model->n_tensors; t++)
        r->block_of_tensor[t] = UNREAD;
    for (int32_t n = 0; n < model->n_nests; n++) {
        int32_t block = block_of_operator(r, model->nests[n].op);
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            read_tensor(r, model->nests[n].inputs[i].tensor, block);
        r->block_of_tensor[model->nests[n].output.tensor] = block;
    }
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (r->block_of_tensor[t] == UNREAD)
            r->block_of_tensor[t] = NO_BLOCK;
}

static void pair_tensors(cleave_repeats *r, int32_t tensor, int32_t of_whole) {
    const cleave_tensor *of = &r->model.tensors[tensor], *whole = &r->whole->tensors[of_whole];
    r->tensor_of_whole[tensor] = of_whole;
    for (int32_t s = 0; s < of->view.n_sources; s++)
        pair_tensors(r, of->view.sources[s], whole->view.sources[s]);
}

static void pair_all_tensors(cleave_repeats *r) {
    for (int32_t op = 0; op < r->model.n_operators; op++) {
        const cleave_operator *of = &r->model.operators[op],
                              *whole = &r->whole->operators[r->of_whole[op]];
        for (int32_t k = 0; k < of->n_nests; k++) {
            const cleave_nest *nest = &r->model.nests[of->nests[k]];
            for (int i = 0; i < nest->n_inputs; i++)
                pair_tensors(r, nest->inputs[i].tensor,
                             r->whole->nests[whole->nests[k]].inputs[i].tensor);
        }
    }
}

static cleave_status shorten(cleave_repeats *r, const cleave_pricer *of, bool *shortens,
                             cleave_error *error) {
    int32_t *stands_for = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, r->whole->n_operators);
    if (stands_for == NULL)
        return cleave_fail_memory(error, "repeating blocks");
    cleave_status status = cleave_blocks_shorten(r->whole, &r->blocks, KEPT_BLOCKS, &r->arena,
                                                 &r->model, stands_for, error);
    *shortens = status == CLEAVE_OK;
    if (status != CLEAVE_OK)
        return status == CLEAVE_NO_LAYOUT ? CLEAVE_OK : status;
    r->of_whole = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, r->model.n_operators);
    r->block_of_tensor = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, r->model.n_tensors);
    r->tensor_of_whole = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, r->model.n_tensors);
    if (r->of_whole == NULL || r->block_of_tensor == NULL || r->tensor_of_whole == NULL)
        return cleave_fail_memory(error, "repeating blocks");
    for (int32_t op = r->whole->n_operators - 1; op >= 0; op--)
        r->of_whole[stands_for[op]] = op;
    find_blocks_of_tensors(r);
    pair_all_tensors(r);
    CLEAVE_TRY(
        cleave_layout_create(&r->model, of->machine->n_devices, &r->arena, &r->layout, error));
    CLEAVE_TRY(cleave_pricer_create(&r->model, of->machine, of->lower.optimizer_states,
                                    of->memory_limit_bytes, &r->pricer, error));
    cleave_cost_cache_stand_for(r->pricer.cache, of->cache, r->tensor_of_whole);
    return CLEAVE_OK;
}

cleave_status cleave_repeats_create(const cleave_pricer *pricer, const cleave_blocks *blocks,
                                    cleave_repeats **repeats, cleave_error *error) {
    bool shortens = false;
    *repeats = NULL;
    if (blocks->n <= KEPT_BLOCKS || pricer->lower.together_bytes > 0)
        return CLEAVE_OK;
    cleave_repeats *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "repeating blocks");
    made->whole = pricer->model;
    made->blocks = *blocks;
    cleave_status status = shorten(made, pricer, &shortens, error);
    if (status == CLEAVE_OK && shortens)
        *repeats = made;
    else
        cleave_repeats_destroy(made);
    return status;
}

void cleave_repeats_destroy(cleave_repeats *r) {
    if (r == NULL)
        return;
    cleave_pricer_destroy(&r->pricer);
    cleave_arena_free(&r->extended);
    cleave_arena_free(&r->arena);
    free(r);
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* Is as much of the state of two tensors sharded, or of those that they are views of? */
static bool shard_alike(const cleave_model *model, const cleave_layout *layout, int32_t a,
                        int32_t b) {
    const cleave_tensor *x = &model->tensors[a], *y = &model->tensors[b];
    bool alike = layout->sharded[a] == layout->sharded[b] && x->view.n_sources == y->view.n_sources;
    for (int32_t s = 0; s < x->view.n_sources && alike; s++)
        alike = shard_alike(model, layout, x->view.sources[s], y->view.sources[s]);
    return alike;
}

static bool operators_alike(const cleave_model *model, const cleave_layout *layout, int32_t a,
                            int32_t b) {
    const cleave_operator *x = &model->operators[a], *y = &model->operators[b];
    bool alike = cleave_split_same(&layout->splits[a], &layout->splits[b]) &&
                 layout->recompute[a] == layout->recompute[b];
    for (int32_t k = 0; k < x->n_nests && alike; k++) {
        const cleave_nest *nest = &model->nests[x->nests[k]];
        for (int i = 0; i < nest->n_inputs && alike; i++)
            alike = shard_alike(model, layout, nest->inputs[i].tensor,
                                model->nests[y->nests[k]].inputs[i].tensor);
    }
    return alike;
}

/* Are all blocks split, recomputed and sharded alike? */
static bool repeats(const cleave_repeats *r, const cleave_layout *layout) {
    int32_t end = r->blocks.first + r->blocks.n * r->blocks.period;
    for (int32_t op = r->blocks.first + r->blocks.period; op < end; op++)
        if (!operators_alike(r->whole, layout, op, op - r->blocks.period))
            return false;
    return true;
}

static void take_layout(cleave_repeats *r, const cleave_layout *layout) {
    for (int32_t op = 0; op < r->model.n_operators; op++) {
        r->layout.splits[op] = layout->splits[r->of_whole[op]];
        r->layout.recompute[op] = layout->recompute[r->of_whole[op]];
    }
    for (int32_t t = 0; t < r->model.n_tensors; t++)
        r->layout.sharded[t] = layout->sharded[r->tensor_of_whole[t]];
    r->layout.collectives = layout->collectives;
}

cleave_status cleave_repeats_lower(cleave_repeats *r, const cleave_layout *layout, bool folded,
                                   bool *known, cleave_program *program, cleave_error *error) {
    cleave_pricer *p = &r->pricer;
    cleave_fold fold;
    *known = false;
    if (!repeats(r, layout))
        return CLEAVE_OK;
    take_layout(r, layout);
    cleave_arena_reset(&p->arena);
    p->lower.symbolic_collectives = true;
    cleave_status status = CLEAVE_OK;
    if (!folded) {
        status = cleave_lower(&r->model, &r->layout, &p->lower, &p->arena, program, error);
    } else {
        status = cleave_fold_find(&r->model, &r->layout, p->machine->devices_per_node, &p->arena,
                                  &fold, error);
        if (status == CLEAVE_OK)
            status = cleave_machine_fold_check(p->machine, fold.n_devices, error);
        if (status == CLEAVE_OK)
            status = cleave_lower_window(&r->model, &fold, &p->lower, &p->arena, program, error);
    }
    *known = status == CLEAVE_OK;
    return status == CLEAVE_NO_LAYOUT ? CLEAVE_OK : status;
}

/* ---- programs -------------------------------------------------------------------------------- */

static cleave_status find_blocks_of_slots(cleave_repeats *r, const cleave_program *program,
                                          int32_t **blocks, cleave_error *error) {
    int32_t *made = CLEAVE_ARENA_ARRAY(&r->extended, int32_t, program->n_slots);
    if (made == NULL)
        return cleave_fail_memory(error, "repeating blocks");
    for (int32_t s = 0; s < program->n_slots; s++) {
        const cleave_slot *slot = &program->slots[s];
        made[s] = slot->nest >= 0 ? block_of_operator(r, r->model.nests[slot->nest].op)
                                  : r->block_of_tensor[slot->tensor];
    }
    *blocks = made;
    return CLEAVE_OK;
}

cleave_status cleave_repeats_extend(cleave_repeats *r, const cleave_layout *layout, bool folded,
                                    bool *known, cleave_repeated *repeated, cleave_error *error) {
    cleave_engine_problem problem;
    int32_t *block_of_slot = NULL;
    cleave_repeated made = {.cache = r->pricer.cache, .arena = &r->extended};
    CLEAVE_TRY(cleave_repeats_lower(r, layout, folded, known, &made.few, error));
    if (*known && !folded && cleave_cost_knows_neighbours(made.cache))
        *known = false;
    if (!*known)
        return CLEAVE_OK;
    cleave_arena_reset(made.arena);
    CLEAVE_TRY(cleave_simulate_prepare(&made.few, made.cache, made.arena, &problem, error));
    CLEAVE_TRY(find_blocks_of_slots(r, &made.few, &block_of_slot, error));
    const cleave_extension by = {.program = &made.few,
                                 .problem = &problem,
                                 .block_of_slot = block_of_slot,
                                 .block_of_tensor = r->block_of_tensor,
                                 .middle = MIDDLE_BLOCK,
                                 .more = r->blocks.n - KEPT_BLOCKS};
    CLEAVE_TRY(cleave_program_extend(&by, made.arena, known, &made.whole, error));
    if (*known)
        *repeated = made;
    return CLEAVE_OK;
}

/* ---- simulation ------------------------------------------------------------------------------ */

/* Copies have the price of what they are copies of, and so its basis. */
static cleave_status find_shares(const cleave_repeated *repeated, const cleave_timeline *timeline,
                                 cleave_price_shares *shares, cleave_error *error) {
    cleave_program whole = repeated->whole.program;
    int32_t n = whole.n_items;
    cleave_price_basis *few =
        CLEAVE_ARENA_ARRAY(repeated->arena, cleave_price_basis, repeated->few.n_items);
    cleave_price_basis *basis = CLEAVE_ARENA_ARRAY(repeated->arena, cleave_price_basis, n);
    whole.items = CLEAVE_ARENA_ARRAY(repeated->arena, cleave_item, n);
    if (few == NULL || basis == NULL || whole.items == NULL)
        return cleave_fail_memory(error, "adding up prices");
    whole.model = repeated->few.model; /* what its items are about is among the few */
    whole.slots = repeated->few.slots;
    whole.collectives = repeated->few.collectives;
    CLEAVE_TRY(cleave_cost_basis(&repeated->few, repeated->cache, few, error));
    for (int32_t i = 0; i < n; i++) {
        basis[i] = few[repeated->whole.origin[i]];
        whole.items[i] = repeated->few.items[repeated->whole.origin[i]];
    }
    cleave_turned turned;
    CLEAVE_TRY(cleave_turned_make(n, NULL, repeated->arena, &turned, error));
    return cleave_price_shares_find(&whole, &repeated->whole.problem, &turned, timeline, basis,
                                    cleave_cost_n_sources(repeated->cache), shares, error);
}

cleave_status cleave_repeated_simulate(const cleave_repeated *repeated, int64_t *step,
                                       cleave_price_shares *shares, cleave_error *error) {
    const cleave_engine_problem *problem = &repeated->whole.problem;
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
    CLEAVE_TRY(cleave_engine_workspace_create(problem, repeated->arena, &workspace, error));
    CLEAVE_TRY(cleave_engine_timeline_create(problem, repeated->arena, &timeline, error));
    CLEAVE_TRY(cleave_engine_run_scan(problem, workspace, &timeline, error));
    *step = timeline.step;
    return shares == NULL ? CLEAVE_OK : find_shares(repeated, &timeline, shares, error);
}
