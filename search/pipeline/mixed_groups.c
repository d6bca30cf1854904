/* Devices of several kinds: the kinds, how they may be arranged along a pipeline, and what groups
   of each make of a share of the model. */
#include "search/pipeline/mixed_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- devices --------------------------------------------------------------------------------- */

static double work_of(const pipeline_finder *f, int32_t kind) {
    double sum = 0;
    for (int32_t op = 0; op < f->pricer->model->n_operators; op++)
        sum +=
            (double)f->kind_work[(size_t)kind * (size_t)f->pricer->model->n_operators + (size_t)op];
    return sum * 1e-12;
}

static int64_t memory_of(const pipeline_finder *f, int32_t kind) {
    const cleave_machine *machine = f->pricer->machine;
    int64_t limit = f->pricer->memory_limit_bytes;
    int32_t d = 0;
    while (machine->device_kind[d] != kind)
        d++;
    return (limit > 0 ? limit : machine->kinds[kind].memory_bytes) -
           cleave_machine_runtime_bytes(machine, d, 0);
}

cleave_status mixed_make_pools(mixing *x, bool *made) {
    pipeline_finder *f = x->f;
    const cleave_machine *machine = f->pricer->machine;
    pool all = {.n_devices = machine->n_devices, .memory_bytes = INT64_MAX};
    *made = f->n_used_kinds <= MOST_POOLS;
    for (int32_t k = 0; k < machine->n_kinds && *made; k++) {
        pool *of = &x->pools[x->n_kinds];
        if (f->n_of_kind[k] == 0)
            continue;
        *of = (pool){.n_devices = f->n_of_kind[k],
                     .devices = CLEAVE_ARENA_ARRAY(&f->work, int32_t, f->n_of_kind[k]),
                     .memory_bytes = memory_of(f, k),
                     .seconds = work_of(f, k)};
        if (of->devices == NULL)
            return short_of_memory(x);
        CLEAVE_TRY(cleave_machine_of_kind(machine, k, &f->work, &of->machine, of->devices, made,
                                          f->error));
        if (of->memory_bytes < all.memory_bytes)
            all.memory_bytes = of->memory_bytes;
        if (of->seconds > all.seconds) {
            all.seconds = of->seconds;
            CLEAVE_TRY(cleave_machine_as_kind(machine, k, &f->work, &all.machine, f->error));
        }
        x->n_kinds++;
    }
    all.devices = CLEAVE_ARENA_ARRAY(&f->work, int32_t, all.n_devices);
    for (int32_t d = 0; d < all.n_devices && all.devices != NULL; d++)
        all.devices[d] = d;
    x->pools[x->n_kinds] = all;
    return all.devices != NULL ? CLEAVE_OK : short_of_memory(x);
}

/* ---- arrangements ---------------------------------------------------------------------------- */

int32_t mixed_group_size(const mixing *x, const run *of) {
    return x->pools[of->pool].n_devices / of->n_groups;
}

const int32_t *mixed_devices_of(const mixing *x, const arrangement *a, int32_t g, int32_t *n) {
    const run *of = a->runs;
    for (; g >= of->n_groups; of++)
        g -= of->n_groups;
    *n = mixed_group_size(x, of);
    return x->pools[of->pool].devices + g * *n;
}

/* What one group sends to another, each device its share to those that are as far along, takes so
   many times what it would over the slowest link of all, in one. */
static double slowness_between(const mixing *x, const arrangement *a, int32_t from, int32_t to,
                               double *load) {
    const cleave_machine *machine = x->f->pricer->machine;
    int32_t n, m, links[CLEAVE_MAX_ROUTE];
    const int32_t *senders = mixed_devices_of(x, a, from, &n),
                  *readers = mixed_devices_of(x, a, to, &m);
    int32_t pairs = n > m ? n : m;
    double most = 0;
    memset(load, 0, (size_t)machine->n_links * sizeof *load);
    for (int32_t i = 0; i < pairs; i++) {
        int32_t sender = senders[(int64_t)i * n / pairs], reader = readers[(int64_t)i * m / pairs];
        int32_t hops = sender == reader ? 0 : cleave_machine_route(machine, sender, reader, links);
        for (int32_t l = 0; l < hops; l++) {
            load[links[l]] += 1.0 / pairs;
            most = fmax(most,
                        load[links[l]] * x->f->slowest / machine->links[links[l]].bytes_per_second);
        }
    }
    return most;
}

static cleave_status find_slowness(mixing *x, arrangement *a) {
    cleave_arena scratch = {0};
    double *load = CLEAVE_ARENA_ARRAY(&scratch, double, x->f->pricer->machine->n_links);
    a->slowness = CLEAVE_ARENA_ARRAY(&x->f->work, double, a->n_groups);
    bool ready = load != NULL && a->slowness != NULL;
    for (int32_t g = 0; g < a->n_groups && ready; g++)
        a->slowness[g] = slowness_between(x, a, g, (g + 1) % a->n_groups, load);
    cleave_arena_free(&scratch);
    return ready ? CLEAVE_OK : short_of_memory(x);
}

static cleave_status add_arrangement(mixing *x, const run *runs, int32_t n_runs) {
    int32_t wish = x->f->options->wish.stages;
    arrangement a = {.n_runs = n_runs};
    double pace = 0;
    for (int32_t r = 0; r < n_runs; r++) {
        a.runs[r] = runs[r];
        a.n_groups += runs[r].n_groups;
        pace += x->pools[runs[r].pool].n_devices / x->pools[runs[r].pool].seconds;
    }
    if ((wish > 0 && wish % a.n_groups != 0) || a.n_groups > x->f->pricer->model->n_operators)
        return CLEAVE_OK;
    a.work = 1 / pace;
    a.place = x->arrangements.n;
    return CLEAVE_LIST_PUSH(&x->arrangements, a) ? CLEAVE_OK : short_of_memory(x);
}

/* All that begin as these do. */
static cleave_status add_runs(mixing *x, run *runs, int32_t n_runs) {
    if (n_runs > 0)
        CLEAVE_TRY(add_arrangement(x, runs, n_runs));
    for (int32_t k = 0; k < x->n_kinds && n_runs < MOST_POOLS; k++) {
        bool is_there = false;
        for (int32_t r = 0; r < n_runs; r++)
            is_there = is_there || runs[r].pool == k;
        for (int32_t g = 1; g <= x->pools[k].n_devices && !is_there; g++)
            if (x->pools[k].n_devices % g == 0) {
                runs[n_runs] = (run){k, g};
                CLEAVE_TRY(add_runs(x, runs, n_runs + 1));
            }
    }
    return CLEAVE_OK;
}

static int by_groups(const void *a, const void *b) {
    const arrangement *x = a, *y = b;
    return x->n_groups != y->n_groups ? x->n_groups - y->n_groups : x->place - y->place;
}

cleave_status mixed_list_arrangements(mixing *x) {
    run runs[MOST_POOLS];
    CLEAVE_TRY(add_runs(x, runs, 0));
    runs[0] = (run){x->n_kinds, 1};
    CLEAVE_TRY(add_arrangement(x, runs, 1));
    if (x->arrangements.n > 0)
        qsort(x->arrangements.items, (size_t)x->arrangements.n, sizeof *x->arrangements.items,
              by_groups);
    if (x->arrangements.n > MOST_ARRANGEMENTS)
        x->arrangements.n = MOST_ARRANGEMENTS;
    for (int32_t i = 0; i < x->arrangements.n; i++)
        CLEAVE_TRY(find_slowness(x, &x->arrangements.items[i]));
    return CLEAVE_OK;
}

/* ---- plans of groups ------------------------------------------------------------------------- */

static cleave_status sum_plans(mixing *x, pool_group *of) {
    const cleave_group *group = of->group;
    of->sums = cleave_arena_alloc(&x->f->work, (size_t)group->n_families, sizeof *of->sums);
    if (of->sums == NULL)
        return short_of_memory(x);
    for (int32_t i = 0; i < group->n_families; i++)
        for (int32_t p = 0; p < group->families[i].n_plans; p++) {
            const cleave_group_plan *plan = &group->families[i].plans[p];
            plan_sums *sums = &of->sums[i][p];
            double beside = 0;
            for (int32_t op = 0; op < x->f->pricer->model->n_operators; op++) {
                int32_t few = group->stands_for[op];
                sums->time += (double)plan->time[few];
                sums->stays += (double)plan->stays[few];
                sums->kept += (double)plan->kept[few];
                beside += (double)plan->beside[few];
            }
            sums->time += pipeline_left_of(beside, pipeline_hides * sums->time);
        }
    return CLEAVE_OK;
}

/* Made once, whatever pipeline it is in: as if all were of such groups. */
static cleave_status make_group(mixing *x, pool_group *of, bool only_updates) {
    pipeline_finder *f = x->f;
    const pool *devices = &x->pools[of->pool];
    cleave_error why = {""};
    int32_t n_groups = (f->pricer->machine->n_devices + of->n_devices - 1) / of->n_devices;
    int32_t in_flight = n_groups < of->micro_batches ? n_groups : of->micro_batches;
    const cleave_group_problem problem = {.model = f->pricer->model,
                                          .few = &x->few,
                                          .machine = &devices->machine,
                                          .constraints = f->options->constraints,
                                          .optimizer_states = f->pricer->lower.optimizer_states,
                                          .recompute = f->options->wish.recompute,
                                          .sharded = f->options->wish.zero - 1,
                                          .only_updates = only_updates,
                                          .n_groups = n_groups,
                                          .memory_bytes = devices->memory_bytes};
    cleave_group *group = CLEAVE_ARENA_ARRAY(&f->work, cleave_group, 1);
    if (group == NULL)
        return short_of_memory(x);
    cleave_status status = cleave_group_create(&problem, of->n_devices, of->micro_batches,
                                               in_flight, of->is_free, &f->work, group, &why);
    if (status == CLEAVE_BAD_INPUT || status == CLEAVE_NO_LAYOUT) {
        memcpy(f->found->why_none, why.message, sizeof why.message);
        return CLEAVE_OK;
    }
    if (status != CLEAVE_OK && f->error != NULL)
        *f->error = why;
    CLEAVE_TRY(status);
    of->group = group;
    return sum_plans(x, of);
}

cleave_status mixed_find_group(mixing *x, const run *of, int32_t micro_batches, bool is_free,
                               bool only_updates, int32_t *found) {
    pool_group made = {.pool = of->pool,
                       .n_devices = mixed_group_size(x, of),
                       .micro_batches = micro_batches,
                       .is_free = is_free};
    for (int32_t i = 0; i < x->groups.n; i++) {
        const pool_group *known = &x->groups.items[i];
        if (known->pool == made.pool && known->n_devices == made.n_devices &&
            known->micro_batches == micro_batches && known->is_free == is_free) {
            *found = i;
            return CLEAVE_OK;
        }
    }
    CLEAVE_TRY(make_group(x, &made, only_updates));
    *found = x->groups.n;
    return CLEAVE_LIST_PUSH(&x->groups, made) ? CLEAVE_OK : short_of_memory(x);
}
