#include "graph/model/ring.h"

#include <stdio.h>
#include <string.h>

/* ---- parts ----------------------------------------------------------------------------------- */

static void set_block(const cleave_nest *nest, int axis, int32_t n, int32_t block,
                      cleave_part *part) {
    part->lo[axis] = cleave_block_start(nest->axes[axis].extent, n, block);
    part->hi[axis] = cleave_block_start(nest->axes[axis].extent, n, block + 1);
}

/* Does the block of keys that the part has go to anybody in this turn, or later?  All see some
   where hidden scores might count. */
static bool is_seen(const cleave_nest *nest, int32_t from, int32_t block, cleave_part part) {
    const cleave_attention *of = nest->attention;
    int32_t n = nest->n_turns, turn = from;
    for (bool seen = !of->shows_all; turn < n && !seen; turn += !seen) {
        set_block(nest, of->rows, n, (block + turn) % n, &part);
        seen = cleave_attention_sees(of, part.lo, part.hi);
    }
    return turn < n;
}

bool cleave_ring_ends(const cleave_nest *nest, const cleave_part *part) {
    int keys = nest->attention->keys;
    int32_t block = 0;
    while (cleave_block_start(nest->axes[keys].extent, nest->n_turns, block) < part->lo[keys])
        block++;
    return !is_seen(nest, nest->turn + 1, block, *part);
}

void cleave_ring_take_keys(const cleave_nest *nest, int32_t i, cleave_part *part) {
    const cleave_attention *of = nest->attention;
    int32_t n = nest->n_turns, block = (i - nest->turn + n) % n;
    set_block(nest, of->keys, n, block, part);
    if (nest->turn > 0 && !is_seen(nest, nest->turn, block, *part))
        part->empty = true;
}

/* ---- the model ------------------------------------------------------------------------------- */

bool cleave_model_has_turns(const cleave_model *model) {
    bool has = false;
    for (int32_t n = 0; n < model->n_nests && !has; n++)
        has = model->nests[n].n_turns > 0;
    return has;
}

bool cleave_ring_fits(const cleave_model *model, int32_t op, const cleave_split *split) {
    const cleave_operator *of = &model->operators[op];
    const cleave_nest *nest = &model->nests[of->main_nest];
    if (nest->attention == NULL)
        return false;
    int rows = nest->operator_axis[nest->attention->rows],
        keys = nest->operator_axis[nest->attention->keys];
    return split->degree[keys] == 1 && split->degree[rows] > 1 &&
           split->degree[rows] <= of->axes[keys].extent;
}

/* How many turns an operator takes under its split; 0: its keys stay. */
static cleave_status count_turns(const cleave_model *model, int32_t op, const cleave_split *split,
                                 int32_t *n, cleave_error *error) {
    const cleave_operator *of = &model->operators[op];
    const cleave_nest *nest = &model->nests[of->main_nest];
    *n = 0;
    if (!split->ring || nest->n_turns > 0) /* or they are made already */
        return CLEAVE_OK;
    if (nest->attention == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "operator \"%s\": keys go round (\"ring\") in attention that stores no "
                           "scores alone",
                           of->name);
    int rows = nest->operator_axis[nest->attention->rows],
        keys = nest->operator_axis[nest->attention->keys];
    if (!cleave_ring_fits(model, op, split))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "operator \"%s\": keys go round (\"ring\") where %s is split, into at "
                           "most %lld, and %s is not",
                           of->name, of->axes[rows].name, (long long)of->axes[keys].extent,
                           of->axes[keys].name);
    *n = split->degree[rows];
    return CLEAVE_OK;
}

static cleave_status put_turns(const cleave_model *model, const cleave_nest *lead, int32_t n,
                               cleave_nest *turns, cleave_error *error) {
    size_t room = strlen(lead->name) + 16;
    for (int32_t turn = 0; turn < n; turn++) {
        turns[turn] = *lead;
        turns[turn].turn = turn;
        turns[turn].n_turns = n;
        char *name = turn == 0 ? NULL : CLEAVE_ARENA_ARRAY(model->arena, char, room);
        if (turn > 0 && name == NULL)
            return cleave_fail_memory(error, "making turns of attention");
        if (turn > 0) {
            snprintf(name, room, "%s@turn%d", lead->name, turn);
            turns[turn].name = name;
        }
    }
    return CLEAVE_OK;
}

/* The nests with turns in place of some, and where each of those before now is. */
static cleave_status put_in_place(cleave_model *model, const int32_t *n_turns, int32_t n_nests,
                                  cleave_error *error) {
    cleave_nest *nests = CLEAVE_ARENA_ARRAY(model->arena, cleave_nest, n_nests);
    int32_t *id = CLEAVE_ARENA_ARRAY(model->arena, int32_t, model->n_nests), n = 0, n_listed = 0;
    int32_t *writer = CLEAVE_ARENA_ARRAY(model->arena, int32_t, model->n_tensors);
    int32_t *lists = CLEAVE_ARENA_ARRAY(model->arena, int32_t, n_nests);
    cleave_operator *operators =
        CLEAVE_ARENA_ARRAY(model->arena, cleave_operator, model->n_operators);
    if (nests == NULL || id == NULL || writer == NULL || lists == NULL || operators == NULL)
        return cleave_fail_memory(error, "making turns of attention");
    for (int32_t i = 0; i < model->n_nests; i++) {
        const cleave_nest *was = &model->nests[i];
        int32_t turns = n_turns[was->op];
        id[i] = n;
        nests[n] = *was;
        if (turns > 0)
            CLEAVE_TRY(put_turns(model, was, turns, &nests[n], error));
        if (was->derivation == CLEAVE_DERIVE_OWNERS)
            nests[n].owners_of = id[was->owners_of];
        n += turns > 0 ? turns : 1;
    }
    for (int32_t t = 0; t < model->n_tensors; t++)
        writer[t] = model->writer[t] < 0 ? -1 : id[model->writer[t]];
    memcpy(operators, model->operators, (size_t)model->n_operators * sizeof *operators);
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_operator *was = &model->operators[op];
        operators[op].main_nest = id[was->main_nest];
        operators[op].nests = &lists[n_listed];
        operators[op].n_nests = n_turns[op] > 0 ? n_turns[op] : was->n_nests;
        for (int32_t k = 0; k < operators[op].n_nests; k++)
            lists[n_listed++] = n_turns[op] > 0 ? id[was->main_nest] + k : id[was->nests[k]];
    }
    model->nests = nests;
    model->n_nests = n_nests;
    model->operators = operators;
    model->writer = writer;
    return cleave_model_check(model, error);
}

cleave_status cleave_model_take_turns(cleave_model *model, const cleave_layout *layout,
                                      cleave_error *error) {
    int32_t *n_turns = CLEAVE_ARENA_ARRAY(model->arena, int32_t, model->n_operators);
    int32_t n_nests = model->n_nests;
    if (n_turns == NULL)
        return cleave_fail_memory(error, "making turns of attention");
    for (int32_t op = 0; op < model->n_operators; op++) {
        CLEAVE_TRY(count_turns(model, op, &layout->splits[op], &n_turns[op], error));
        n_nests += n_turns[op] > 0 ? n_turns[op] - 1 : 0;
    }
    return n_nests > model->n_nests ? put_in_place(model, n_turns, n_nests, error) : CLEAVE_OK;
}
