/* Changes of two neighbours at once.  Where a tensor between two operators costs much, each of them
   alone is worse off with any other split, and no sweep of single changes gets away.  What a tensor
   costs between all splits of both the additive model knows, so to every value of one it gives that
   of the other that goes with it best: as many moves as there are values, not as their square. */
#include "search/improve/sweep_internal.h"

/* One end of a pair. */
typedef struct end {
    int32_t op, n, present; /* values; the one it has in the base */
    int64_t *rest; /* [n] what each costs by itself and with other neighbours than the one of the
                      pair, as they are in the base */
} end;

static int64_t cost_of(const cleave_additive *additive, const cleave_additive_pair *pair, int32_t v,
                       int32_t value, int32_t other_value) {
    int32_t row = pair->a == v ? value : other_value, column = pair->a == v ? other_value : value;
    return pair->cost[(int64_t)row * additive->n_values[pair->b] + column];
}

static int32_t present_of(const sweep_builder *b, int32_t op) {
    return b->value_of[op][b->base->of[op].candidate];
}

/* False: memory is short. */
static bool make_end(const sweep_builder *b, int32_t op, int32_t other, cleave_arena *arena,
                     end *e) {
    const cleave_additive *additive = &b->source->additive->additive;
    *e = (end){.op = op, .n = additive->n_values[op], .present = present_of(b, op)};
    e->rest = CLEAVE_ARENA_ARRAY(arena, int64_t, e->n);
    for (int32_t i = 0; i < e->n && e->rest != NULL; i++)
        e->rest[i] = additive->cost[op][i];
    for (int32_t p = b->first_pair[op]; p < b->first_pair[op + 1] && e->rest != NULL; p++) {
        const cleave_additive_pair *pair = &additive->pairs[b->pairs[p]];
        int32_t beside = pair->a == op ? pair->b : pair->a, at = present_of(b, beside);
        for (int32_t i = 0; i < e->n && at >= 0 && beside != other; i++)
            e->rest[i] += cost_of(additive, pair, op, i, at);
    }
    return e->rest != NULL;
}

static int64_t between(const sweep_builder *b, const end *x, const end *y, int32_t i, int32_t j) {
    const cleave_additive *additive = &b->source->additive->additive;
    int64_t cost = 0;
    for (int32_t p = b->first_pair[x->op]; p < b->first_pair[x->op + 1]; p++) {
        const cleave_additive_pair *pair = &additive->pairs[b->pairs[p]];
        if ((pair->a == x->op ? pair->b : pair->a) == y->op)
            cost += cost_of(additive, pair, x->op, i, j);
    }
    return cost;
}

/* Of y's values, but the present one, that which goes best with x's i-th; -1: there is none. */
static int32_t best_with(const sweep_builder *b, const end *x, const end *y, int32_t i,
                         int64_t *total) {
    int32_t best = -1;
    for (int32_t j = 0; j < y->n; j++) {
        int64_t sum = x->rest[i] + y->rest[j] + between(b, x, y, i, j);
        if (j == y->present || (best >= 0 && sum >= *total))
            continue;
        best = j;
        *total = sum;
    }
    return best;
}

/* At the block that has the device where the operator begins now, where there is one. */
static cleave_choice choice_of(const sweep_builder *b, const end *e, int32_t value) {
    int32_t candidate = b->source->additive->candidates[e->op][value];
    const cleave_candidate *c = &cleave_list_of(b->source->candidates, e->op)->items[candidate];
    int32_t start = sweep_first_device(b, e->op) / c->n_parts;
    return (cleave_choice){candidate, start < c->n_starts ? start : 0};
}

/* To every value of x the best of y; once, where it is best the other way round, too. */
static void add_best(sweep_builder *b, const end *x, const end *y) {
    int64_t before =
        x->rest[x->present] + y->rest[y->present] + between(b, x, y, x->present, y->present);
    for (int32_t i = 0; i < x->n; i++) {
        int64_t total = 0, back = 0;
        int32_t j = i == x->present ? -1 : best_with(b, x, y, i, &total);
        if (j < 0 || (x->op > y->op && best_with(b, y, x, j, &back) == i))
            continue;
        sweep_add(b, (cleave_move){.promise = total - before,
                                   .op = x->op,
                                   .tensor = -1,
                                   .choice = choice_of(b, x, i),
                                   .with = y->op,
                                   .with_choice = choice_of(b, y, j)});
    }
}

bool sweep_add_pairs(sweep_builder *b, cleave_arena *arena) {
    const cleave_structure *s = b->source->structure;
    for (int32_t op = 0; op < b->source->model->n_operators; op++)
        for (int32_t i = s->first_neighbor[op]; i < s->first_neighbor[op + 1]; i++) {
            int32_t other = s->neighbors[i];
            end x, y;
            if (other <= op)
                continue;
            if (!make_end(b, op, other, arena, &x) || !make_end(b, other, op, arena, &y))
                return false;
            if (x.present < 0 || y.present < 0)
                continue;
            add_best(b, &x, &y);
            add_best(b, &y, &x);
        }
    return true;
}
