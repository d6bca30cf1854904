/* Variable elimination: min-sum dynamic programming over the graph of the pairs.  The plan
   (search/solve/eliminate_plan.h) says which tables are made; here they get their numbers, and
   values are read back from them, the last variable first: a variable's value is the one of the
   least sum of the tables that its steps took, at the values of the variables that went after it.
   Where tables would be large messages are passed first, which leaves fewer values to each
   variable. */
#include "search/solve/additive.h"

#include "search/solve/eliminate_plan.h"
#include "search/solve/eliminate_table.h"
#include "search/solve/moves.h"
#include "search/solve/tighten.h"

#include <stdlib.h>
#include <string.h>

typedef struct run {
    const cleave_additive *additive;
    const cleave_elimination_plan *plan;
    const int64_t **cost;    /* [n_variables][n_values] with pairs of one-valued variables */
    const int64_t **entries; /* [n_tables] where they are made */
    const int64_t *no_cost;  /* zeros: further steps of a variable don't count its cost again */
    int32_t *value;          /* [n_variables] */
    int64_t bound;
    cleave_arena *tables; /* of a component */
} run;

/* ---- numbers --------------------------------------------------------------------------------- */

/* The costs of all variables, with those of pairs that have one value on the other side. */
static bool fold_costs(run *r, cleave_arena *arena) {
    const cleave_additive *additive = r->additive;
    for (int32_t v = 0; v < additive->n_variables; v++)
        r->cost[v] = additive->cost[v];
    for (int32_t i = 0; i < additive->n_pairs; i++) {
        const cleave_additive_pair *pair = &additive->pairs[i];
        if (r->plan->tables[i].n > 0)
            continue;
        int32_t to = additive->n_values[pair->a] > 1 ? pair->a : pair->b;
        int32_t n = additive->n_values[to];
        int64_t *sum = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
        if (sum == NULL)
            return false;
        for (int32_t x = 0; x < n; x++)
            sum[x] = r->cost[to][x] + pair->cost[x];
        r->cost[to] = sum;
    }
    return true;
}

/* A pair's costs with the variable that goes first innermost. */
static bool place_pair(run *r, int32_t table) {
    const cleave_additive_pair *pair = &r->additive->pairs[table];
    int32_t n_a = r->additive->n_values[pair->a], n_b = r->additive->n_values[pair->b];
    if (r->plan->tables[table].scope[0] == pair->a) {
        r->entries[table] = pair->cost;
        return true;
    }
    int64_t *turned = cleave_arena_alloc(r->tables, (size_t)n_a * (size_t)n_b, sizeof *turned);
    for (int32_t a = 0; a < n_a && turned != NULL; a++)
        for (int32_t b = 0; b < n_b; b++)
            turned[(int64_t)b * n_a + a] = pair->cost[(int64_t)a * n_b + b];
    r->entries[table] = turned;
    return turned != NULL;
}

/* Both scopes in the order of going, so the table's is a subsequence of the result's, and the
   step's variable after it. */
static bool see_operand(run *r, int32_t table, const cleave_elimination_table *result,
                        cleave_elimination_operand *operand) {
    const cleave_elimination_table *of = &r->plan->tables[table];
    int64_t *stride = CLEAVE_ARENA_ARRAY(r->tables, int64_t, result->n);
    if (stride == NULL)
        return false;
    int64_t step = r->additive->n_values[of->scope[of->n - 1]];
    *operand =
        (cleave_elimination_operand){.entries = r->entries[table], .stride = stride, .deepest = -1};
    for (int32_t d = result->n - 1, i = of->n - 2; d >= 0 && i >= 0; d--) {
        if (result->scope[d] != of->scope[i])
            continue;
        stride[d] = step;
        step *= r->additive->n_values[of->scope[i--]];
        operand->deepest = d > operand->deepest ? d : operand->deepest;
    }
    return true;
}

static bool take_step(run *r, const cleave_elimination_step *step, bool counts_cost) {
    const cleave_elimination_table *result = &r->plan->tables[step->result];
    int32_t n_values = r->additive->n_values[step->variable];
    cleave_elimination_operand *operands =
        CLEAVE_ARENA_ARRAY(r->tables, cleave_elimination_operand, step->n_tables);
    int32_t *extent = CLEAVE_ARENA_ARRAY(r->tables, int32_t, result->n);
    int64_t *rows =
        cleave_arena_alloc(r->tables, (size_t)(result->n + 1) * (size_t)n_values, sizeof *rows);
    int64_t *entries = cleave_arena_alloc(r->tables, (size_t)result->n_entries, sizeof *entries);
    if (operands == NULL || extent == NULL || rows == NULL || entries == NULL)
        return false;
    for (int32_t d = 0; d < result->n; d++)
        extent[d] = r->additive->n_values[result->scope[d]];
    for (int32_t i = 0; i < step->n_tables; i++) {
        int32_t table = step->tables[i];
        if (table < r->additive->n_pairs && !place_pair(r, table))
            return false;
        cleave_elimination_operand operand;
        if (!see_operand(r, table, result, &operand))
            return false;
        int32_t at = i;
        for (; at > 0 && operands[at - 1].deepest > operand.deepest; at--)
            operands[at] = operands[at - 1];
        operands[at] = operand;
    }
    cleave_elimination_sum sum = {
        n_values,       counts_cost ? r->cost[step->variable] : r->no_cost,
        result->n,      extent,
        step->n_tables, operands};
    cleave_elimination_fill(&sum, rows, entries);
    r->entries[step->result] = entries;
    if (result->n == 0)
        r->bound += entries[0];
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The row of a table where all variables but the innermost have their values. */
static const int64_t *row_at_values(const run *r, int32_t table) {
    const cleave_elimination_table *of = &r->plan->tables[table];
    int64_t index = 0;
    for (int32_t i = 0; i < of->n - 1; i++)
        index = index * r->additive->n_values[of->scope[i]] + r->value[of->scope[i]];
    return r->entries[table] + index * r->additive->n_values[of->scope[of->n - 1]];
}

static int32_t place_of_least(int32_t n, const int64_t *row) {
    int32_t least = 0;
    for (int32_t x = 1; x < n; x++)
        if (row[x] < row[least])
            least = x;
    return least;
}

/* The value of the variable of the steps first..last. */
static void choose(run *r, int32_t first, int32_t last, int64_t *sums) {
    int32_t variable = r->plan->steps[first].variable, n = r->additive->n_values[variable];
    memcpy(sums, r->cost[variable], (size_t)n * sizeof *sums);
    for (int32_t s = first; s <= last; s++)
        for (int32_t i = 0; i < r->plan->steps[s].n_tables; i++) {
            const int64_t *row = row_at_values(r, r->plan->steps[s].tables[i]);
            for (int32_t x = 0; x < n; x++)
                sums[x] += row[x];
        }
    r->value[variable] = place_of_least(n, sums);
}

static bool solve_component(run *r, int32_t component, int64_t *sums) {
    const cleave_elimination_step *steps = r->plan->steps;
    int32_t start = r->plan->component_start[component];
    int32_t end = r->plan->component_start[component + 1];
    cleave_arena_reset(r->tables);
    for (int32_t s = start; s < end; s++)
        if (!take_step(r, &steps[s], s == start || steps[s - 1].variable != steps[s].variable))
            return false;
    for (int32_t last = end - 1, first; last >= start; last = first - 1) {
        for (first = last; first > start && steps[first - 1].variable == steps[last].variable;)
            first--;
        choose(r, first, last, sums);
    }
    return true;
}

/* ---- wide models ------------------------------------------------------------------------------
 */

enum { TIMES = 8, MOST_ROUNDS = 12 };

/* A model that shrinks: messages are passed for as long as that is quick beside the elimination. */
typedef struct shrinking {
    cleave_additive additive; /* what is left */
    int32_t **kept;           /* [n_variables][n_values] the first model's value; null: all */
    cleave_arena arenas[2];   /* of the last two models, in turn */
    int32_t *value;           /* [n_variables] of the first model, where found */
    bool found;
    int64_t total, bound;
} shrinking;

/* In each round TIMES messages each way, and what goes with them. */
static bool is_worth_it(const cleave_additive *additive, const cleave_elimination_plan *plan) {
    double entries = 0;
    for (int32_t i = 0; i < additive->n_pairs; i++)
        entries += (double)additive->n_values[additive->pairs[i].a] *
                   additive->n_values[additive->pairs[i].b];
    return (double)plan->work > 4 * 5 * TIMES * entries;
}

static bool take_round(shrinking *s, const cleave_additive_tightened *made, cleave_arena *arena) {
    int32_t n = s->additive.n_variables;
    int32_t **kept = CLEAVE_ARENA_ARRAY(arena, int32_t *, n);
    for (int32_t v = 0; v < n && kept != NULL; v++) {
        kept[v] = CLEAVE_ARENA_ARRAY(arena, int32_t, made->additive.n_values[v]);
        if (kept[v] == NULL)
            return false;
        for (int32_t x = 0; x < made->additive.n_values[v]; x++)
            kept[v][x] = s->kept == NULL ? made->kept[v][x] : s->kept[v][made->kept[v][x]];
    }
    for (int32_t v = 0; v < n && (!s->found || made->total < s->total); v++)
        s->value[v] = s->kept == NULL ? made->value[v] : s->kept[v][made->value[v]];
    s->total = !s->found || made->total < s->total ? made->total : s->total;
    s->bound = !s->found || made->bound > s->bound ? made->bound : s->bound;
    s->found = true;
    s->additive = made->additive;
    s->kept = kept;
    return kept != NULL;
}

/* Ends with the plan for what is left, or with a bound that equals the total. */
static cleave_status shrink(shrinking *s, int64_t most_entries, cleave_arena *arena,
                            cleave_elimination_plan *plan, cleave_error *error) {
    CLEAVE_TRY(cleave_elimination_plan_create(&s->additive, most_entries, arena, plan, error));
    if (!is_worth_it(&s->additive, plan) || !cleave_additive_can_tighten(&s->additive))
        return CLEAVE_OK;
    for (int32_t round = 0; round < MOST_ROUNDS && is_worth_it(&s->additive, plan); round++) {
        cleave_additive_tightened made;
        int64_t before = s->bound, work = plan->work;
        cleave_arena_reset(&s->arenas[round % 2]);
        CLEAVE_TRY(
            cleave_additive_tighten(&s->additive, TIMES, &s->arenas[round % 2], &made, error));
        if (!take_round(s, &made, arena))
            return cleave_fail_memory(error, "eliminating variables");
        if (s->bound >= s->total)
            break;
        CLEAVE_TRY(cleave_elimination_plan_create(&s->additive, most_entries, arena, plan, error));
        if (round > 0 && plan->work > work / 10 * 9 &&
            s->bound - before < (s->total - s->bound) / 20)
            break;
    }
    return CLEAVE_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The least total of a model by its plan; values are in `value`. */
static cleave_status run_plan(const cleave_additive *additive, const cleave_elimination_plan *plan,
                              cleave_arena *arena, int32_t *value, int64_t *bound,
                              cleave_error *error) {
    int32_t most_values = 1;
    for (int32_t v = 0; v < additive->n_variables; v++)
        most_values = additive->n_values[v] > most_values ? additive->n_values[v] : most_values;
    int64_t *sums = CLEAVE_ARENA_ARRAY(arena, int64_t, most_values);
    cleave_arena tables = {0};
    run r = {.additive = additive,
             .plan = plan,
             .cost = CLEAVE_ARENA_ARRAY(arena, const int64_t *, additive->n_variables),
             .entries = CLEAVE_ARENA_ARRAY(arena, const int64_t *, plan->n_tables),
             .no_cost = CLEAVE_ARENA_ARRAY(arena, int64_t, most_values),
             .value = value,
             .tables = &tables};
    bool done = sums != NULL && r.cost != NULL && r.entries != NULL && r.no_cost != NULL &&
                fold_costs(&r, arena);
    for (int32_t c = 0; c < plan->n_components && done; c++)
        done = solve_component(&r, c, sums);
    cleave_arena_free(&tables);
    if (!done)
        return cleave_fail_memory(error, "eliminating variables");
    if (!plan->exact) {
        cleave_additive_moves moves;
        CLEAVE_TRY(cleave_additive_moves_create(additive, 0, NULL, arena, &moves, error));
        cleave_additive_improve(&moves, value);
    }
    *bound = r.bound;
    return CLEAVE_OK;
}

static cleave_status eliminate(const cleave_additive *additive, int64_t most_entries,
                               cleave_arena *arena, shrinking *s, cleave_error *error) {
    cleave_elimination_plan plan;
    CLEAVE_TRY(shrink(s, most_entries, arena, &plan, error));
    if (s->found && s->bound >= s->total)
        return CLEAVE_OK;
    int32_t *value = CLEAVE_ARENA_ARRAY(arena, int32_t, additive->n_variables);
    int64_t bound = 0;
    if (value == NULL)
        return cleave_fail_memory(error, "eliminating variables");
    CLEAVE_TRY(run_plan(&s->additive, &plan, arena, value, &bound, error));
    int64_t total = cleave_additive_total(&s->additive, value);
    s->bound = s->found && s->bound > bound ? s->bound : bound;
    if (s->found && s->total <= total)
        return CLEAVE_OK;
    for (int32_t v = 0; v < additive->n_variables; v++)
        s->value[v] = s->kept == NULL ? value[v] : s->kept[v][value[v]];
    s->total = total;
    return CLEAVE_OK;
}

cleave_status cleave_additive_eliminate(const cleave_additive *additive, int64_t most_entries,
                                        cleave_arena *arena, cleave_additive_solution *solution,
                                        cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_additive_fitted fitted = {0};
    shrinking s = {.value = CLEAVE_ARENA_ARRAY(arena, int32_t, additive->n_variables)};
    cleave_status status = s.value == NULL
                               ? cleave_fail_memory(error, "eliminating variables")
                               : cleave_additive_fit(additive, 0, NULL, &scratch, &fitted, error);
    s.additive = fitted.additive;
    if (status == CLEAVE_OK)
        status = eliminate(additive, most_entries, &scratch, &s, error);
    if (status == CLEAVE_OK)
        *solution = (cleave_additive_solution){
            .outcome = s.bound >= s.total ? CLEAVE_ADDITIVE_OPTIMAL : CLEAVE_ADDITIVE_FEASIBLE,
            .value = s.value,
            .total = s.total + fitted.common,
            .bound = s.bound + fitted.common};
    cleave_arena_free(&s.arenas[0]);
    cleave_arena_free(&s.arenas[1]);
    cleave_arena_free(&scratch);
    return status;
}
