#include "search/improve/draw.h"

typedef cleave_status move_function(cleave_drawing *d, cleave_random *random, cleave_chain *chain,
                                    cleave_error *error);

cleave_status cleave_drawing_create(const cleave_sweep_source *source, cleave_arena *arena,
                                    cleave_drawing *drawing, cleave_error *error) {
    cleave_drawing d = {.source = source};
    d.ops = CLEAVE_ARENA_ARRAY(arena, int32_t, source->model->n_operators);
    d.seen = CLEAVE_ARENA_ARRAY(arena, bool, source->model->n_operators);
    if (d.ops == NULL || d.seen == NULL)
        return cleave_fail_memory(error, "searching");
    *drawing = d;
    return CLEAVE_OK;
}

/* ---- choices --------------------------------------------------------------------------------- */

static int32_t draw_operator(const cleave_drawing *d, cleave_random *random) {
    return (int32_t)cleave_random_below(random, d->source->model->n_operators);
}

static int32_t draw_neighbor(const cleave_drawing *d, cleave_random *random, int32_t op) {
    const cleave_structure *s = d->source->structure;
    int32_t n = s->first_neighbor[op + 1] - s->first_neighbor[op];
    if (n == 0)
        return op;
    return s->neighbors[s->first_neighbor[op] + (int32_t)cleave_random_below(random, n)];
}

/* The block that a neighbour begins in, or any. */
static int32_t draw_start(const cleave_drawing *d, cleave_random *random, int32_t op,
                          const cleave_candidate *c, const cleave_chain *chain) {
    if (c->n_starts > 1 && cleave_random_below(random, 2) == 0) {
        int32_t near = draw_neighbor(d, random, op);
        cleave_choice there = chain->choices.of[near];
        const cleave_candidate *its =
            &cleave_list_of(d->source->candidates, near)->items[there.candidate];
        int32_t start = there.start * its->n_parts / c->n_parts;
        if (start < c->n_starts)
            return start;
    }
    return (int32_t)cleave_random_below(random, c->n_starts);
}

/* What a neighbour has, or a candidate of which those are likelier that cost less by themselves. */
static cleave_choice draw_choice(const cleave_drawing *d, cleave_random *random, int32_t op,
                                 const cleave_chain *chain) {
    const cleave_candidates *candidates = d->source->candidates;
    const cleave_candidate_list *list = cleave_list_of(candidates, op);
    if (cleave_random_below(random, 3) == 0) {
        int32_t near = draw_neighbor(d, random, op);
        cleave_choice alike;
        if (cleave_choice_alike(d->source->model, candidates, near, chain->choices.of[near], op,
                                &alike))
            return alike;
    }
    double u = cleave_random_next_uniform(random);
    int32_t rank = (int32_t)((double)list->n * u * u * u);
    int32_t candidate = d->source->structure->by_cost[candidates->list_of[op]][rank];
    return (cleave_choice){candidate, draw_start(d, random, op, &list->items[candidate], chain)};
}

/* Gives an operator the kind of split that another has got. */
static cleave_status follow(const cleave_drawing *d, cleave_chain *chain, int32_t from,
                            cleave_choice choice, int32_t op, cleave_error *error) {
    cleave_choice alike;
    if (!cleave_choice_alike(d->source->model, d->source->candidates, from, choice, op, &alike))
        return CLEAVE_OK;
    return cleave_chain_change(chain, op, alike, error);
}

/* ---- moves ----------------------------------------------------------------------------------- */

static cleave_status single(cleave_drawing *d, cleave_random *random, cleave_chain *chain,
                            cleave_error *error) {
    int32_t op = draw_operator(d, random);
    return cleave_chain_change(chain, op, draw_choice(d, random, op, chain), error);
}

static cleave_status group(cleave_drawing *d, cleave_random *random, cleave_chain *chain,
                           cleave_error *error) {
    int32_t op = draw_operator(d, random);
    cleave_choice choice = draw_choice(d, random, op, chain);
    int32_t n = cleave_sweep_members(d->source, &chain->choices, op, CLEAVE_MOVE_GROUP, d->ops);
    for (int32_t i = 0; i < n; i++)
        CLEAVE_TRY(cleave_chain_change(chain, d->ops[i], choice, error));
    return CLEAVE_OK;
}

/* An operator and those that are reached from it by exchanging tensors, some of them. */
static cleave_status neighbors(cleave_drawing *d, cleave_random *random, cleave_chain *chain,
                               cleave_error *error) {
    const cleave_structure *s = d->source->structure;
    int32_t first = draw_operator(d, random), n = 0;
    int32_t wanted = 2 + (int32_t)cleave_random_below(random, 7);
    cleave_choice choice = draw_choice(d, random, first, chain);
    d->ops[n++] = first;
    d->seen[first] = true;
    for (int32_t at = 0; at < n && n < wanted; at++)
        for (int32_t i = s->first_neighbor[d->ops[at]];
             i < s->first_neighbor[d->ops[at] + 1] && n < wanted; i++)
            if (!d->seen[s->neighbors[i]]) {
                d->seen[s->neighbors[i]] = true;
                d->ops[n++] = s->neighbors[i];
            }
    for (int32_t i = 0; i < n; i++)
        d->seen[d->ops[i]] = false;
    for (int32_t i = 0; i < n; i++)
        CLEAVE_TRY(follow(d, chain, first, choice, d->ops[i], error));
    return CLEAVE_OK;
}

/* Two cut points not far from each other, in operators. */
static void draw_segment(const cleave_drawing *d, cleave_random *random, int32_t *first,
                         int32_t *end) {
    const cleave_structure *s = d->source->structure;
    int32_t a = (int32_t)cleave_random_below(random, s->n_cuts - 1);
    int32_t most = s->n_cuts - 1 - a < 8 ? s->n_cuts - 1 - a : 8;
    *first = s->cuts[a];
    *end = s->cuts[a + 1 + (int32_t)cleave_random_below(random, most)];
}

static cleave_status segment(cleave_drawing *d, cleave_random *random, cleave_chain *chain,
                             cleave_error *error) {
    int32_t first, end;
    draw_segment(d, random, &first, &end);
    int32_t op = first + (int32_t)cleave_random_below(random, end - first);
    cleave_choice choice = draw_choice(d, random, op, chain);
    for (int32_t i = first; i < end; i++)
        CLEAVE_TRY(follow(d, chain, op, choice, i, error));
    return CLEAVE_OK;
}

/* What operators of a segment, or all, have within two blocks of devices changes places. */
static cleave_status swap(cleave_drawing *d, cleave_random *random, cleave_chain *chain,
                          cleave_error *error) {
    int32_t n_devices = chain->layout.n_devices, first, end, size = 1;
    draw_segment(d, random, &first, &end);
    while (2 * size < n_devices && cleave_random_below(random, 2) == 0)
        size *= 2;
    int32_t n_blocks = n_devices / size;
    if (n_blocks < 2)
        return CLEAVE_OK;
    int32_t a = (int32_t)cleave_random_below(random, n_blocks);
    int32_t b = (a + 1 + (int32_t)cleave_random_below(random, n_blocks - 1)) % n_blocks;
    for (int32_t op = first; op < end; op++) {
        cleave_choice choice = chain->choices.of[op];
        int32_t parts = cleave_list_of(d->source->candidates, op)->items[choice.candidate].n_parts;
        int32_t block = choice.start * parts / size;
        if (parts > size || size % parts != 0 || (block != a && block != b))
            continue;
        choice.start += (block == a ? b - a : a - b) * (size / parts);
        if (choice.start <
            cleave_list_of(d->source->candidates, op)->items[choice.candidate].n_starts)
            CLEAVE_TRY(cleave_chain_change(chain, op, choice, error));
    }
    return CLEAVE_OK;
}

static cleave_status shard(cleave_drawing *d, cleave_random *random, cleave_chain *chain,
                           cleave_error *error) {
    const cleave_structure *s = d->source->structure;
    if (s->n_parameters == 0)
        return CLEAVE_OK;
    int32_t tensor = s->parameters[cleave_random_below(random, s->n_parameters)];
    return cleave_chain_shard(chain, tensor, !chain->choices.sharded[tensor], error);
}

cleave_status cleave_draw_move(cleave_drawing *drawing, cleave_random *random, cleave_chain *chain,
                               cleave_error *error) {
    static const struct {
        int64_t weight;
        move_function *move;
    } kinds[] = {{8, single}, {5, group}, {3, neighbors}, {2, segment}, {1, swap}, {1, shard}};
    enum { N_KINDS = sizeof kinds / sizeof kinds[0] };
    int64_t sum = 0;
    for (int k = 0; k < N_KINDS; k++)
        sum += kinds[k].weight;
    int64_t drawn = cleave_random_below(random, sum);
    int k = 0;
    for (; drawn >= kinds[k].weight; k++)
        drawn -= kinds[k].weight;
    return kinds[k].move(drawing, random, chain, error);
}
