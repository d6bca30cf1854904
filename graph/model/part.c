/* Parts of every nest: from the split of its operator, or from the owners of an earlier nest's
 * output. */
#include "graph/model/part.h"

#include "graph/model/attention.h"
#include "graph/model/filled.h"
#include "graph/model/ring.h"

void cleave_part_raw_box(const cleave_part *part, const cleave_operand *operand, int rank,
                         cleave_box *raw) {
    for (int d = 0; d < rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        int64_t lo = map->offset, last = map->offset;
        for (int t = 0; t < map->n_terms; t++) {
            lo += map->terms[t].stride * part->lo[map->terms[t].axis];
            last += map->terms[t].stride * (part->hi[map->terms[t].axis] - 1);
        }
        raw->lo[d] = lo;
        raw->hi[d] = last + 1;
    }
    for (int d = rank; d < CLEAVE_MAX_RANK; d++)
        raw->lo[d] = raw->hi[d] = 0;
}

static int64_t clamp(int64_t value, int64_t most) {
    return value < 0 ? 0 : value > most ? most : value;
}

void cleave_part_box(const cleave_model *model, const cleave_part *part,
                     const cleave_operand *operand, cleave_box *box) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    cleave_part_raw_box(part, operand, tensor->rank, box);
    for (int d = 0; d < tensor->rank; d++) {
        /* Both ends: a box may lie wholly in the padding. */
        box->lo[d] = part->empty ? 0 : clamp(box->lo[d], tensor->shape[d]);
        box->hi[d] = part->empty ? 0 : clamp(box->hi[d], tensor->shape[d]);
    }
}

int64_t cleave_part_size(const cleave_model *model, const cleave_part *part,
                         const cleave_operand *operand) {
    cleave_box box;
    cleave_part_box(model, part, operand, &box);
    return cleave_box_size(model->tensors[operand->tensor].rank, &box);
}

cleave_part cleave_part_whole(const cleave_nest *nest, int32_t device) {
    cleave_part part = {.device = device};
    for (int a = 0; a < nest->n_axes; a++)
        part.hi[a] = nest->axes[a].extent;
    return part;
}

/* The axes along which one sticks out.  Strides are positive, so no part does in another dimension
   than the whole. */
static uint32_t padded_axes_of(const cleave_model *model, const cleave_part *whole,
                               const cleave_operand *operand) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    uint32_t axes = 0;
    cleave_box raw;
    cleave_part_raw_box(whole, operand, tensor->rank, &raw);
    for (int d = 0; d < tensor->rank; d++) {
        if (raw.lo[d] >= 0 && raw.hi[d] <= tensor->shape[d])
            continue;
        for (int t = 0; t < operand->map[d].n_terms; t++)
            axes |= 1u << operand->map[d].terms[t].axis;
    }
    return axes;
}

uint32_t cleave_nest_padded_axes(const cleave_model *model, const cleave_nest *nest) {
    cleave_part whole = cleave_part_whole(nest, 0);
    uint32_t axes = padded_axes_of(model, &whole, &nest->output);
    for (int i = 0; i < nest->n_inputs; i++)
        axes |= padded_axes_of(model, &whole, &nest->inputs[i]);
    if (nest->attention != NULL && cleave_attention_hides(nest->attention))
        axes |= 1u << nest->attention->rows | 1u << nest->attention->keys;
    int filled = cleave_nest_filled_axis(model, nest);
    return filled < 0 ? axes : axes | 1u << filled;
}

bool cleave_parts_work_alike(const cleave_nest *nest, uint32_t padded_axes, const cleave_part *a,
                             const cleave_part *b) {
    for (int i = 0; i < nest->n_axes; i++)
        if (a->hi[i] - a->lo[i] != b->hi[i] - b->lo[i] ||
            ((padded_axes & (1u << i)) != 0 && a->lo[i] != b->lo[i]))
            return false;
    return true;
}

/* What the parts of an operator follow from. */
typedef struct cut {
    const cleave_split *split;
    const int32_t *cells; /* [split->n_parts]; null: all of them */
    bool alone;           /* not all members of groups of owners are there */
    const cleave_micro_batches *micro;
} cut;

/* Parts by the operator's split.  A nest may lack some of the operator's axes: parts that differ
   only in those compute the same, so they share a key like replicas do. */
static cleave_status derive_from_operator(const cleave_model *model, int32_t n, const cut *by,
                                          cleave_arena *arena, cleave_parts *parts,
                                          cleave_error *error) {
    const cleave_split *split = by->split;
    const cleave_micro_batches *micro = by->micro;
    const cleave_nest *nest = &model->nests[n];
    int samples = micro != NULL ? micro->sharing.nest_axis[n] : -1;
    const cleave_operator *op = &model->operators[nest->op];
    int rows = nest->n_turns > 0 ? nest->operator_axis[nest->attention->rows] : 0;
    if (nest->n_turns > 0 && (!split->ring || split->degree[rows] != nest->n_turns))
        return cleave_fail(error, CLEAVE_FAILED,
                           "operator %s: a model with %d turns of its keys has another split",
                           op->name, nest->n_turns);
    parts->n = split->n_parts;
    parts->items = CLEAVE_ARENA_ARRAY(arena, cleave_part, split->n_parts);
    if (parts->items == NULL)
        return cleave_fail_memory(error, "cutting operators into parts");
    for (int32_t p = 0; p < split->n_parts; p++) {
        int32_t index[CLEAVE_MAX_AXES], rest = by->cells != NULL ? by->cells[p] : p;
        for (int a = op->n_axes - 1; a >= 0; a--) {
            index[a] = rest % split->degree[a];
            rest /= split->degree[a];
        }
        cleave_part *part = &parts->items[p];
        *part = (cleave_part){.device = split->devices[p], .replica = rest};
        bool has_axis[CLEAVE_MAX_AXES] = {false};
        for (int i = 0; i < nest->n_axes; i++) {
            int a = nest->operator_axis[i];
            int32_t degree = a < 0 ? 1 : split->degree[a], block = a < 0 ? 0 : index[a];
            int64_t extent = nest->axes[i].extent;
            if (i == samples)
                extent = cleave_micro_batches_step(micro, extent);
            part->lo[i] = cleave_block_start(extent, degree, block);
            part->hi[i] = cleave_block_start(extent, degree, block + 1);
            part->key = part->key * degree + block;
            part->empty = part->empty || part->lo[i] >= part->hi[i];
            if (a >= 0)
                has_axis[a] = true;
        }
        for (int a = 0; a < op->n_axes; a++)
            if (!has_axis[a])
                part->replica = part->replica * split->degree[a] + index[a];
        if (nest->n_turns > 0)
            cleave_ring_take_keys(nest, index[rows], part);
    }
    return CLEAVE_OK;
}

int cleave_box_longest(const cleave_box *box, int rank) {
    int longest = 0;
    for (int d = 1; d < rank; d++)
        if (box->hi[d] - box->lo[d] > box->hi[longest] - box->lo[longest])
            longest = d;
    return longest;
}

/* The block that one of a group of parts with the same box has of it.  Keys stay those of the
   members: they are distinct within a replica, and equal for the same member of another. */
static cleave_part cut_member(const cleave_nest *nest, int rank, const cleave_box *box,
                              const cleave_part *member, int32_t i, int32_t n_group) {
    int longest = cleave_box_longest(box, rank);
    cleave_part out = {.device = member->device, .key = member->key, .replica = member->replica};
    for (int a = 0; a < nest->n_axes; a++) {
        out.lo[a] = box->lo[a];
        out.hi[a] = box->hi[a];
    }
    if (rank == 0) {
        out.empty = i > 0;
        return out;
    }
    int64_t extent = box->hi[longest] - box->lo[longest];
    out.lo[longest] = box->lo[longest] + cleave_block_start(extent, n_group, i);
    out.hi[longest] = box->lo[longest] + cleave_block_start(extent, n_group, i + 1);
    out.empty = out.lo[longest] >= out.hi[longest];
    return out;
}

uint32_t cleave_owner_axes(const cleave_model *model, const cleave_nest *owner) {
    const cleave_operand *output = &owner->output;
    uint32_t lacking = 0;
    for (int i = 0; i < owner->n_axes; i++) {
        bool has = owner->operator_axis[i] < 0;
        for (int d = 0; d < model->tensors[output->tensor].rank; d++)
            for (int t = 0; t < output->map[d].n_terms; t++)
                has = has || output->map[d].terms[t].axis == i;
        lacking |= has ? 0 : UINT32_C(1) << owner->operator_axis[i];
    }
    return lacking;
}

/* Which of its group a cell is, and of how many: they differ along axes that the output lacks. */
static void find_member(const cleave_model *model, const cleave_nest *owner, const cut *by,
                        int32_t cell, int32_t *member, int32_t *n_group) {
    const cleave_operator *op = &model->operators[owner->op];
    uint32_t lacking = cleave_owner_axes(model, owner);
    *member = 0;
    *n_group = 1;
    for (int a = op->n_axes - 1; a >= 0; a--) {
        int32_t degree = by->split->degree[a], index = cell % degree;
        cell /= degree;
        if ((lacking >> a & 1) == 0)
            continue;
        *member += index * *n_group;
        *n_group *= degree;
    }
}

/* Of cells each of which tells of itself alone. */
static void derive_alone(const cleave_model *model, const cleave_nest *nest,
                         const cleave_parts *source, const cut *by, cleave_parts *parts) {
    const cleave_nest *owner = &model->nests[nest->owners_of];
    int rank = model->tensors[owner->output.tensor].rank;
    for (int32_t p = 0; p < source->n; p++) {
        cleave_box box;
        int32_t member, n_group;
        cleave_part_box(model, &source->items[p], &owner->output, &box);
        find_member(model, owner, by, by->cells[p], &member, &n_group);
        parts->items[p] = cut_member(nest, rank, &box, &source->items[p], member, n_group);
    }
    parts->n = source->n;
}

/* Parts that own an earlier output.  Groups are found in the order of parts, which is the same in
   every replica, so that equal blocks get equal keys. */
static cleave_status derive_from_owners(const cleave_model *model, const cleave_nest *nest,
                                        const cleave_parts *source, const cut *by,
                                        cleave_arena *arena, cleave_parts *parts,
                                        cleave_error *error) {
    const cleave_operand *output = &model->nests[nest->owners_of].output;
    int rank = model->tensors[output->tensor].rank;
    parts->items = CLEAVE_ARENA_ARRAY(arena, cleave_part, source->n);
    cleave_box *boxes = CLEAVE_ARENA_ARRAY(arena, cleave_box, source->n);
    int32_t *group = CLEAVE_ARENA_ARRAY(arena, int32_t, source->n);
    bool *taken = CLEAVE_ARENA_ARRAY(arena, bool, source->n);
    if (parts->items == NULL || boxes == NULL || group == NULL || taken == NULL)
        return cleave_fail_memory(error, "cutting operators into parts");
    if (by->alone) {
        derive_alone(model, nest, source, by, parts);
        return CLEAVE_OK;
    }
    for (int32_t p = 0; p < source->n; p++)
        cleave_part_box(model, &source->items[p], output, &boxes[p]);
    parts->n = 0;
    for (int32_t p = 0; p < source->n; p++) {
        if (taken[p] || source->items[p].empty)
            continue;
        int32_t n_group = 0;
        for (int32_t q = p; q < source->n; q++) {
            const cleave_part *other = &source->items[q];
            if (!taken[q] && !other->empty && other->replica == source->items[p].replica &&
                cleave_box_equal(rank, &boxes[p], &boxes[q])) {
                taken[q] = true;
                group[n_group++] = q;
            }
        }
        for (int32_t i = 0; i < n_group; i++)
            parts->items[parts->n++] =
                cut_member(nest, rank, &boxes[p], &source->items[group[i]], i, n_group);
    }
    return CLEAVE_OK;
}

static cleave_status derive_all(const cleave_model *model, int32_t op, const cut *by,
                                cleave_arena *arena, cleave_parts *all, cleave_error *error) {
    for (int32_t k = 0; k < model->operators[op].n_nests; k++) {
        int32_t n = model->operators[op].nests[k];
        const cleave_nest *nest = &model->nests[n];
        if (nest->derivation == CLEAVE_DERIVE_OPERATOR)
            CLEAVE_TRY(derive_from_operator(model, n, by, arena, &all[n], error));
        else
            CLEAVE_TRY(
                derive_from_owners(model, nest, &all[nest->owners_of], by, arena, &all[n], error));
    }
    return CLEAVE_OK;
}

cleave_status cleave_parts_derive_operator(const cleave_model *model, int32_t op,
                                           const cleave_split *split,
                                           const cleave_micro_batches *micro, cleave_arena *arena,
                                           cleave_parts *all, cleave_error *error) {
    const cut by = {.split = split, .micro = micro};
    return derive_all(model, op, &by, arena, all, error);
}

cleave_status cleave_parts_derive_cells(const cleave_model *model, int32_t op,
                                        const cleave_split *split, const int32_t *cells, bool alone,
                                        cleave_arena *arena, cleave_parts *all,
                                        cleave_error *error) {
    const cut by = {.split = split, .cells = cells, .alone = alone};
    return derive_all(model, op, &by, arena, all, error);
}

cleave_status cleave_parts_derive(const cleave_model *model, const cleave_layout *layout,
                                  const cleave_micro_batches *micro, cleave_arena *arena,
                                  cleave_parts **parts, cleave_error *error) {
    cleave_parts *all = CLEAVE_ARENA_ARRAY(arena, cleave_parts, model->n_nests);
    if (all == NULL)
        return cleave_fail_memory(error, "cutting operators into parts");
    for (int32_t op = 0; op < model->n_operators; op++)
        CLEAVE_TRY(
            cleave_parts_derive_operator(model, op, &layout->splits[op], micro, arena, all, error));
    *parts = all;
    return CLEAVE_OK;
}
