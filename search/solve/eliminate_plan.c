#include "search/solve/eliminate_plan.h"

#include "base/checked.h"
#include "graph/model/digraph.h"

#include <stdlib.h>
#include <string.h>

/* One table that contains a variable. */
typedef struct link {
    int32_t table;
    struct link *next;
} link;

typedef struct planner {
    const cleave_additive *additive;
    cleave_arena *arena;
    int64_t most_entries;
    cleave_elimination_plan plan;
    bool *consumed;   /* [tables] */
    link **of;        /* [n_variables] tables that contain it; consumed ones are dropped when met */
    int32_t *place;   /* [n_variables] when it goes; -1: not yet */
    int64_t *size;    /* [n_variables] entries that eliminating it would make; INT64_MAX: gone */
    int32_t n_leaves; /* a power of two */
    int32_t *winner;  /* [2 n_leaves] tournament of sizes: the least below each vertex, or -1 */
    int32_t *stamp, now; /* [n_variables] */
    int32_t *near;       /* [n_variables] neighbours, of the variable at hand */
    int32_t *bucket;     /* [tables] of the variable at hand */
} planner;

static int64_t multiply(int64_t a, int64_t b) {
    int64_t product;
    return cleave_int64_multiply(a, b, &product) ? product : INT64_MAX;
}

/* ---- the tournament -------------------------------------------------------------------------- */

static int32_t least_of(const planner *p, int32_t a, int32_t b) {
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    return p->size[b] < p->size[a] ? b : a; /* a is the smaller number */
}

static void raise(planner *p, int32_t variable) {
    for (int32_t i = (p->n_leaves + variable) / 2; i >= 1; i /= 2)
        p->winner[i] = least_of(p, p->winner[2 * i], p->winner[2 * i + 1]);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static bool add_table(planner *p, int32_t n, const int32_t *scope) {
    cleave_elimination_table *table = &p->plan.tables[p->plan.n_tables];
    *table = (cleave_elimination_table){
        .n = n, .scope = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n), .n_entries = 1};
    link *links = CLEAVE_ARENA_ARRAY(p->arena, link, n);
    if (table->scope == NULL || links == NULL)
        return false;
    for (int32_t i = 0; i < n; i++) {
        table->scope[i] = scope[i];
        table->n_entries = multiply(table->n_entries, p->additive->n_values[scope[i]]);
        links[i] = (link){p->plan.n_tables, p->of[scope[i]]};
        p->of[scope[i]] = &links[i];
    }
    p->plan.n_tables++;
    return true;
}

/* Fills `near` with the variables that share a table with this one; their number. */
static int32_t find_near(planner *p, int32_t variable) {
    int32_t n = 0;
    p->stamp[variable] = ++p->now;
    for (link **at = &p->of[variable]; *at != NULL;) {
        if (p->consumed[(*at)->table]) {
            *at = (*at)->next;
            continue;
        }
        const cleave_elimination_table *table = &p->plan.tables[(*at)->table];
        for (int32_t i = 0; i < table->n; i++)
            if (p->stamp[table->scope[i]] != p->now) {
                p->stamp[table->scope[i]] = p->now;
                p->near[n++] = table->scope[i];
            }
        at = &(*at)->next;
    }
    return n;
}

static void measure(planner *p, int32_t variable) {
    int32_t n = find_near(p, variable);
    int64_t size = 1;
    for (int32_t i = 0; i < n; i++)
        size = multiply(size, p->additive->n_values[p->near[i]]);
    p->size[variable] = size;
    raise(p, variable);
}

/* ---- one variable ---------------------------------------------------------------------------- */

/* Adds a table's variables that are not stamped yet to `near`, and stamps them. */
static int32_t join_scope(planner *p, int32_t table, int32_t n) {
    const cleave_elimination_table *of = &p->plan.tables[table];
    for (int32_t i = 0; i < of->n; i++)
        if (p->stamp[of->scope[i]] != p->now) {
            p->stamp[of->scope[i]] = p->now;
            p->near[n++] = of->scope[i];
        }
    return n;
}

/* Entries of the result if a table came to those that are stamped, whose result has `entries`. */
static int64_t joined_entries(const planner *p, int32_t table, int64_t entries) {
    const cleave_elimination_table *of = &p->plan.tables[table];
    for (int32_t i = 0; i < of->n; i++)
        if (p->stamp[of->scope[i]] != p->now)
            entries = multiply(entries, p->additive->n_values[of->scope[i]]);
    return entries;
}

/* One step with the first table of the bucket and every further one that keeps the result within
   most_entries; what is left of the bucket moves to its front.  Its number, or -1 without memory.
 */
static int32_t take_step(planner *p, int32_t variable, int32_t n_bucket) {
    cleave_elimination_step *step = &p->plan.steps[p->plan.n_steps];
    *step = (cleave_elimination_step){.variable = variable,
                                      .tables = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n_bucket)};
    if (step->tables == NULL)
        return -1;
    int32_t n_near = 0, n_left = 0;
    int64_t entries = 1;
    p->stamp[variable] = ++p->now;
    for (int32_t i = 0; i < n_bucket; i++) {
        int64_t joined = joined_entries(p, p->bucket[i], entries);
        if (step->n_tables > 0 && joined > entries && joined > p->most_entries) {
            p->bucket[n_left++] = p->bucket[i];
            continue;
        }
        entries = joined;
        n_near = join_scope(p, p->bucket[i], n_near);
        p->consumed[p->bucket[i]] = true;
        step->tables[step->n_tables++] = p->bucket[i];
    }
    step->result = p->plan.n_tables;
    if (!add_table(p, n_near, p->near))
        return -1;
    p->plan.n_steps++;
    p->plan.largest = entries > p->plan.largest ? entries : p->plan.largest;
    int64_t work = multiply(entries, p->additive->n_values[variable]);
    if (!cleave_int64_add(p->plan.work, work, &p->plan.work))
        p->plan.work = INT64_MAX;
    return n_left;
}

/* Large tables first, so that what must be split is shared out tightly; then by number. */
static void sort_bucket(planner *p, int32_t n) {
    for (int32_t i = 1; i < n; i++) {
        int32_t table = p->bucket[i], j = i;
        int64_t size = p->plan.tables[table].n_entries;
        for (; j > 0 &&
               (p->plan.tables[p->bucket[j - 1]].n_entries < size ||
                (p->plan.tables[p->bucket[j - 1]].n_entries == size && p->bucket[j - 1] > table));
             j--)
            p->bucket[j] = p->bucket[j - 1];
        p->bucket[j] = table;
    }
}

static bool eliminate(planner *p, int32_t variable) {
    int32_t n = 0, first = p->plan.n_steps;
    for (const link *at = p->of[variable]; at != NULL; at = at->next)
        if (!p->consumed[at->table])
            p->bucket[n++] = at->table;
    sort_bucket(p, n);
    do {
        n = take_step(p, variable, n);
        if (n < 0)
            return false;
    } while (n > 0);
    p->plan.exact = p->plan.exact && p->plan.n_steps == first + 1;
    p->size[variable] = INT64_MAX;
    p->winner[p->n_leaves + variable] = -1;
    raise(p, variable);
    for (int32_t s = first; s < p->plan.n_steps; s++) {
        const cleave_elimination_table *result = &p->plan.tables[p->plan.steps[s].result];
        for (int32_t i = 0; i < result->n; i++)
            measure(p, result->scope[i]);
    }
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool is_in_scopes(const cleave_additive *additive, const cleave_additive_pair *pair) {
    return additive->n_values[pair->a] > 1 && additive->n_values[pair->b] > 1;
}

static cleave_status begin(planner *p, cleave_error *error) {
    const cleave_additive *additive = p->additive;
    size_t n = (size_t)additive->n_variables, n_pairs = (size_t)additive->n_pairs;
    /* A step's result has one membership less for each table that it takes, and the step of a
       variable without tables is its only one. */
    size_t n_steps = 2 * n_pairs + n;
    for (p->n_leaves = 1; (size_t)p->n_leaves < n;)
        p->n_leaves *= 2;
    p->plan = (cleave_elimination_plan){
        .tables = CLEAVE_ARENA_ARRAY(p->arena, cleave_elimination_table, n_pairs + n_steps),
        .steps = CLEAVE_ARENA_ARRAY(p->arena, cleave_elimination_step, n_steps),
        .exact = true};
    p->consumed = CLEAVE_ARENA_ARRAY(p->arena, bool, n_pairs + n_steps);
    p->bucket = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n_pairs + n_steps);
    p->of = CLEAVE_ARENA_ARRAY(p->arena, link *, n);
    p->place = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n);
    p->size = CLEAVE_ARENA_ARRAY(p->arena, int64_t, n);
    p->winner = CLEAVE_ARENA_ARRAY(p->arena, int32_t, 2 * (size_t)p->n_leaves);
    p->stamp = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n);
    p->near = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n);
    if (p->plan.tables == NULL || p->plan.steps == NULL || p->consumed == NULL ||
        p->bucket == NULL || p->of == NULL || p->place == NULL || p->size == NULL ||
        p->winner == NULL || p->stamp == NULL || p->near == NULL)
        return cleave_fail_memory(error, "planning an elimination");
    for (int32_t i = 0; i < additive->n_pairs; i++) {
        const cleave_additive_pair *pair = &additive->pairs[i];
        if (!add_table(p, is_in_scopes(additive, pair) ? 2 : 0, (int32_t[]){pair->a, pair->b}))
            return cleave_fail_memory(error, "planning an elimination");
    }
    for (int32_t v = 0; v < 2 * p->n_leaves; v++)
        p->winner[v] =
            v < p->n_leaves || v - p->n_leaves >= additive->n_variables ? -1 : v - p->n_leaves;
    for (int32_t v = 0; v < additive->n_variables; v++)
        measure(p, v);
    return CLEAVE_OK;
}

/* Rows in the order that the steps read them: the variable that goes first is the last. */
static void sort_scopes(planner *p) {
    for (int32_t t = 0; t < p->plan.n_tables; t++) {
        cleave_elimination_table *table = &p->plan.tables[t];
        for (int32_t i = 1; i < table->n; i++) {
            int32_t variable = table->scope[i], j = i;
            for (; j > 0 && p->place[table->scope[j - 1]] < p->place[variable]; j--)
                table->scope[j] = table->scope[j - 1];
            table->scope[j] = variable;
        }
    }
}

/* Sorts the steps by component, each component's in the order in which they were taken. */
static cleave_status sort_steps(planner *p, cleave_error *error) {
    const cleave_additive *additive = p->additive;
    size_t n = (size_t)additive->n_variables, n_pairs = (size_t)additive->n_pairs;
    int32_t *component = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n), n_edges = 0;
    int32_t *from = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n_pairs);
    int32_t *to = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n_pairs);
    cleave_elimination_step *sorted =
        CLEAVE_ARENA_ARRAY(p->arena, cleave_elimination_step, p->plan.n_steps);
    int32_t *start = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n + 2);
    if (component == NULL || from == NULL || to == NULL || sorted == NULL || start == NULL)
        return cleave_fail_memory(error, "planning an elimination");
    for (int32_t i = 0; i < additive->n_pairs; i++)
        if (is_in_scopes(additive, &additive->pairs[i])) {
            from[n_edges] = additive->pairs[i].a;
            to[n_edges++] = additive->pairs[i].b;
        }
    CLEAVE_TRY(cleave_digraph_components(additive->n_variables, n_edges, from, to, component,
                                         &p->plan.n_components, error));
    /* start[c + 1] is first how many come before c, then where the next step of c goes. */
    for (int32_t s = 0; s < p->plan.n_steps; s++)
        start[component[p->plan.steps[s].variable] + 2]++;
    for (int32_t c = 0; c < p->plan.n_components; c++)
        start[c + 2] += start[c + 1];
    for (int32_t s = 0; s < p->plan.n_steps; s++)
        sorted[start[component[p->plan.steps[s].variable] + 1]++] = p->plan.steps[s];
    p->plan.steps = sorted;
    p->plan.component_start = start;
    return CLEAVE_OK;
}

cleave_status cleave_elimination_plan_create(const cleave_additive *additive, int64_t most_entries,
                                             cleave_arena *arena, cleave_elimination_plan *plan,
                                             cleave_error *error) {
    planner p = {.additive = additive, .arena = arena, .most_entries = most_entries};
    CLEAVE_TRY(begin(&p, error));
    for (int32_t i = 0; i < additive->n_variables; i++) {
        int32_t variable = p.winner[1];
        p.place[variable] = i;
        if (!eliminate(&p, variable))
            return cleave_fail_memory(error, "planning an elimination");
    }
    sort_scopes(&p);
    CLEAVE_TRY(sort_steps(&p, error));
    *plan = p.plan;
    return CLEAVE_OK;
}
