/* What `cleave explain` prints. */
#include "cli/explain/report.h"

#include "base/order.h"
#include "cli/inputs.h"
#include "cli/repeats.h"
#include "cli/split_text.h"
#include "cli/table.h"

#include <stdio.h>
#include <string.h>

const char *const explain_buffer_names[CLEAVE_N_BUFFER_KINDS] = {
    "parameters", "gradients",   "optimizer state",      "running statistics", "constants",
    "data",       "activations", "activation gradients", "messages",           "workspace"};

static double share(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* ---- for people ---- */

static void describe(const cleave_operator *op, const cleave_split *split, char *text,
                     size_t bytes) {
    char degrees[160], devices[48];
    split_text_degrees(op, split, degrees, sizeof degrees);
    split_text_devices(split, devices, sizeof devices);
    snprintf(text, bytes, "%s on %s", degrees, devices);
}

static void put_time(table *t, int64_t picoseconds) {
    if (picoseconds == 0)
        table_text(t, "-");
    else
        table_quantity(t, 1e-12 * (double)picoseconds, CLEAVE_UNIT_SECONDS);
}

static void put_change(table *t, const explanation *e, const explain_alternative *alternative) {
    table_format(t, "%+.2f %%", 100 * (share(alternative->step, e->estimated_step) - 1));
}

static void print_memory(const explanation *e, table *t) {
    char peak[32], limit[32], text[512];
    const explain_path *path = &e->path;
    cleave_unit_format((double)path->peak_bytes, CLEAVE_UNIT_BYTES, peak, sizeof peak);
    cleave_unit_format((double)e->memory_limit_bytes, CLEAVE_UNIT_BYTES, limit, sizeof limit);
    int used = snprintf(text, sizeof text, "device %d, %s of %s%s", path->fullest_device, peak,
                        limit, path->peak_bytes > e->memory_limit_bytes ? ": too much" : "");
    const char *gap = "; at its fullest: ";
    for (int k = 0; k < CLEAVE_N_BUFFER_KINDS; k++) {
        char bytes[32];
        if (path->held_bytes[k] * 50 < path->peak_bytes || used >= (int)sizeof text)
            continue;
        cleave_unit_format((double)path->held_bytes[k], CLEAVE_UNIT_BYTES, bytes, sizeof bytes);
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s %s", gap,
                         explain_buffer_names[k], bytes);
        gap = ", ";
    }
    table_text(t, "fullest device");
    table_text(t, text);
}

static void print_summary(const explanation *e, cleave_arena *arena) {
    const explain_path *path = &e->path;
    table t = {.arena = arena, .n_columns = 2, .align = "ll"};
    char step[64], link[160];
    cleave_unit_format(1e-12 * (double)path->step, CLEAVE_UNIT_SECONDS, step, sizeof step);
    table_text(&t, "step");
    table_format(&t, "%s on %d device%s of %s", step, e->layout->n_devices,
                 e->layout->n_devices == 1 ? "" : "s", e->machine->name);
    table_text(&t, "critical path");
    table_format(&t,
                 "compute %.1f %% (forward %.1f, gradients %.1f, updates %.1f), exchange %.1f %%, "
                 "sync %.1f %%, waiting %.1f %%",
                 100 * share(explain_computing(path->picoseconds), path->step),
                 100 * share(path->picoseconds[EXPLAIN_FORWARD], path->step),
                 100 * share(path->picoseconds[EXPLAIN_INPUT_GRADIENT] +
                                 path->picoseconds[EXPLAIN_WEIGHT_GRADIENT],
                             path->step),
                 100 * share(path->picoseconds[EXPLAIN_UPDATE], path->step),
                 100 * share(path->picoseconds[EXPLAIN_EXCHANGE], path->step),
                 100 * share(path->picoseconds[EXPLAIN_SYNC], path->step),
                 100 * share(path->picoseconds[EXPLAIN_WAITING], path->step));
    table_text(&t, "busiest device");
    table_format(&t, "device %d, %.1f %% of the step", path->busiest_device,
                 100 * share(path->device_busy, path->step));
    table_text(&t, "busiest link");
    explain_link_name(e->machine, path->busiest_link, link, sizeof link);
    if (path->busiest_link < 0)
        table_text(&t, "none, collectives apart"); /* these may be priced as a whole */
    else
        table_format(&t, "%s, %.1f %% of the step", link, 100 * share(path->link_busy, path->step));
    print_memory(e, &t);
    table_print(&t, stdout);
}

static int compare_told(const void *a, const void *b) {
    const explain_told *x = a, *y = b;
    CLEAVE_ORDER_BY(y->sum.total, x->sum.total);
    return CLEAVE_ORDER(x->first, y->first);
}

static void add_to(explain_told *of, const explanation *e, int32_t op) {
    const explain_operator *path = &e->path.operators[op];
    const explain_choice *choices = e->choices;
    of->count++;
    of->sum.total += path->total;
    of->sum.memory_bytes += path->memory_bytes;
    for (int s = 0; s < EXPLAIN_N_SORTS; s++)
        of->sum.picoseconds[s] += path->picoseconds[s];
    if (choices[op].n > 0 &&
        (of->best < 0 || choices[op].best[0].step < choices[of->best].best[0].step))
        of->best = op;
}

const char *explain_why_no_other(const explanation *e, const explain_told *of) {
    return e->choices[of->first].tried > 0     ? "none fits"
           : cleave_layout_is_plain(e->layout) ? "there is none"
                                               : "not tried";
}

static void add_operators(const explanation *e, const explain_told *of, table *t) {
    const cleave_operator *op = &e->model->operators[of->first];
    const cleave_split *split = &e->layout->splits[of->first];
    char text[256];
    table_text(t, of->name);
    split_text_degrees(op, split, text, sizeof text);
    table_text(t, text);
    split_text_devices(split, text, 48);
    table_text(t, text);
    table_format(t, "%.1f %%", 100 * share(of->sum.total, e->path.step));
    put_time(t, explain_computing(of->sum.picoseconds));
    put_time(t, of->sum.picoseconds[EXPLAIN_EXCHANGE]);
    put_time(t, of->sum.picoseconds[EXPLAIN_SYNC]);
    put_time(t, of->sum.picoseconds[EXPLAIN_WAITING]);
    table_quantity(t, (double)of->sum.memory_bytes, CLEAVE_UNIT_BYTES);
    explain_binds(e, of->first, text, sizeof text);
    table_text(t, text);
    if (of->best >= 0) {
        const explain_alternative *next = &e->choices[of->best].best[0];
        describe(&e->model->operators[of->best], &next->split, text, sizeof text);
        put_change(t, e, next);
        table_text(t, text);
    } else {
        table_text(t, "-");
        table_text(t, explain_why_no_other(e, of));
    }
}

/* What has to be equal for operators to be told as one. */
static const char *kind_of(const explanation *e, int32_t op, cleave_arena *arena) {
    char split[256], binds[192];
    describe(&e->model->operators[op], &e->layout->splits[op], split, sizeof split);
    explain_binds(e, op, binds, sizeof binds);
    return cleave_arena_printf(arena, "%s\t%s\t%d", split, binds, e->choices[op].n > 0);
}

explain_told *explain_tell(const explanation *e, cleave_arena *arena, int32_t *n) {
    const char **names = CLEAVE_ARENA_ARRAY(arena, const char *, e->n);
    const char **kinds = CLEAVE_ARENA_ARRAY(arena, const char *, e->n);
    repeats found;
    if (names == NULL || kinds == NULL)
        return NULL;
    for (int32_t i = 0; i < e->n; i++) {
        names[i] = e->model->operators[e->order[i]].name;
        kinds[i] = kind_of(e, e->order[i], arena);
        if (kinds[i] == NULL)
            return NULL;
    }
    if (repeats_find(names, kinds, e->n, arena, &found, NULL) != CLEAVE_OK)
        return NULL;
    explain_told *all = CLEAVE_ARENA_ARRAY(arena, explain_told, found.n);
    if (all == NULL)
        return NULL;
    for (int32_t i = 0; i < found.n; i++)
        all[i] = (explain_told){
            .name = found.items[i].name, .first = e->order[found.items[i].first], .best = -1};
    for (int32_t i = 0; i < e->n; i++)
        add_to(&all[found.of[i]], e, e->order[i]);
    CLEAVE_SORT(all, found.n, compare_told);
    *n = found.n;
    return all;
}

static void print_operators(const explanation *e, cleave_arena *arena) {
    static const char *const heads[] = {"operator", "split",    "devices", "of step",
                                        "compute",  "exchange", "sync",    "waiting",
                                        "memory",   "bound by", "change",  "with the next best"};
    table t = {.arena = arena, .n_columns = 12, .align = "lllrrrrrrlrl"};
    int32_t n = 0;
    const explain_told *all = explain_tell(e, arena, &n);
    table_heads(&t, heads);
    for (int32_t i = 0; all != NULL && i < n; i++)
        add_operators(e, &all[i], &t);
    table_print(&t, stdout);
}

static void print_passes(const explanation *e, int32_t op, cleave_arena *arena) {
    const explain_operator *path = &e->path.operators[op];
    table t = {.arena = arena, .n_columns = 3, .align = "lrr"};
    table_heads(&t, (const char *const[]){"on the critical path", "time", "of step"});
    for (int s = 0; s < EXPLAIN_N_SORTS; s++) {
        table_text(&t, explain_sort_names[s]);
        put_time(&t, path->picoseconds[s]);
        table_format(&t, "%.1f %%", 100 * share(path->picoseconds[s], e->path.step));
    }
    table_print(&t, stdout);
}

/* The alternatives of one operator, the best first. */
static void print_choice(const explanation *e, int32_t op, cleave_arena *arena) {
    const cleave_operator *of = &e->model->operators[op];
    const explain_choice *choice = &e->choices[op];
    table t = {.arena = arena, .n_columns = 4, .align = "llrr"};
    char text[256];
    table_heads(&t, (const char *const[]){"another split", "devices", "step", "change"});
    for (int32_t i = -1; i < choice->n; i++) {
        if (i < 0 && !choice->is_held_back)
            continue;
        const explain_alternative *a = i < 0 ? &choice->held_back : &choice->best[i];
        char degrees[160];
        split_text_degrees(of, &a->split, degrees, sizeof degrees);
        table_format(&t, "%s%s", degrees, i < 0 ? " (does not fit in memory)" : "");
        split_text_devices(&a->split, text, 48);
        table_text(&t, text);
        table_quantity(&t, explain_step_with(e, a), CLEAVE_UNIT_SECONDS);
        put_change(&t, e, a);
    }
    printf("\n");
    table_print(&t, stdout);
}

/* What each decision of the schedule is worth. */
static void print_schedules(const explanation *e, cleave_arena *arena) {
    table t = {.arena = arena, .n_columns = 4, .align = "lrrr"};
    table_heads(&t, (const char *const[]){"the schedule otherwise", "step", "change", "memory"});
    for (int32_t i = 0; i < e->schedules.n; i++) {
        const explain_schedule *other = &e->schedules.items[i];
        bool fits = other->price.excess_bytes == 0;
        double ratio = share(other->price.step, e->schedules.price.step);
        table_text(&t, other->decision);
        if (fits && e->schedules.price.excess_bytes == 0) {
            table_quantity(&t, 1e-12 * (double)e->path.step * ratio, CLEAVE_UNIT_SECONDS);
            table_format(&t, "%+.2f %%", 100 * (ratio - 1));
        } else {
            table_text(&t, fits ? "-" : "does not fit");
            table_text(&t, "-");
        }
        table_quantity(&t, (double)other->price.peak_bytes, CLEAVE_UNIT_BYTES);
    }
    printf("\n");
    table_print(&t, stdout);
    printf("\nEach alone, with splits and stages as they are; of a layout with a schedule no other "
           "splits are tried.\n");
}

static void print_verdict(const explanation *e) {
    int32_t better = 0, best = -1;
    for (int32_t i = 0; i < e->n; i++) {
        const explain_choice *choice = &e->choices[e->order[i]];
        if (choice->n == 0 || choice->best[0].step >= e->estimated_step)
            continue;
        better++;
        if (best < 0 || choice->best[0].step < e->choices[best].best[0].step)
            best = e->order[i];
    }
    printf("\n%lld other splits tried, each alone%s; their steps are estimates, scaled to the step "
           "above.\n",
           (long long)e->tried, e->is_whole ? ", near the devices that the operator has" : "");
    if (e->not_tried > 0)
        printf(
            "%lld more were not: those with higher costs of their own (--splits 0 tries all), and, "
            "of operators that are alike and split alike, what was not best for the first.\n",
            (long long)e->not_tried);
    if (better == 0) {
        printf("None of them would be quicker.\n");
        return;
    }
    char text[256];
    describe(&e->model->operators[best], &e->choices[best].best[0].split, text, sizeof text);
    printf("%d operator%s would be quicker otherwise, most of all %s: %s, %+.2f %%.\n", better,
           better == 1 ? "" : "s", e->model->operators[best].name, text,
           100 * (share(e->choices[best].best[0].step, e->estimated_step) - 1));
}

void explain_print(const explanation *e, cleave_arena *arena) {
    print_summary(e, arena);
    printf("\n");
    print_operators(e, arena);
    if (!e->is_whole && e->n == 1) {
        printf("\n");
        print_passes(e, e->order[0], arena);
        print_choice(e, e->order[0], arena);
    }
    if (cleave_layout_is_plain(e->layout))
        print_verdict(e);
    else
        print_schedules(e, arena);
    const char *note = inputs_provenance_note(e->machine);
    if (note[0] != '\0')
        printf("%s\n", note);
}

/* ---- in JSON ---- */

static void put_sorts(cleave_json_writer *w, const int64_t *picoseconds) {
    cleave_json_begin_object(w, true);
    for (int s = 0; s < EXPLAIN_N_SORTS; s++)
        cleave_json_set_number(w, explain_sort_names[s], 1e-12 * (double)picoseconds[s]);
    cleave_json_end_object(w);
}

static void put_alternative(cleave_json_writer *w, const explanation *e, int32_t op,
                            const explain_alternative *alternative) {
    cleave_json_begin_object(w, true);
    split_text_put(w, &e->model->operators[op], &alternative->split);
    cleave_json_set_number(w, "step_seconds", explain_step_with(e, alternative));
    cleave_json_end_object(w);
}

static void put_operator(cleave_json_writer *w, const explanation *e, int32_t op) {
    const explain_operator *path = &e->path.operators[op];
    const explain_choice *choice = &e->choices[op];
    char text[192];
    cleave_json_begin_object(w, false);
    cleave_json_set_string(w, "name", e->model->operators[op].name);
    split_text_put(w, &e->model->operators[op], &e->layout->splits[op]);
    cleave_json_set_number(w, "share", share(path->total, e->path.step));
    cleave_json_key(w, "critical_seconds");
    put_sorts(w, path->picoseconds);
    cleave_json_set_integer(w, "memory_bytes", path->memory_bytes);
    cleave_json_key(w, "bound_by");
    explain_binds(e, op, text, sizeof text);
    cleave_json_put_string(w, text);
    cleave_json_set_integer(w, "tried", choice->tried);
    cleave_json_open_array(w, "alternatives", false);
    for (int32_t i = 0; i < choice->n; i++)
        put_alternative(w, e, op, &choice->best[i]);
    cleave_json_end_array(w);
    cleave_json_key(w, "held_back_by_memory");
    if (choice->is_held_back)
        put_alternative(w, e, op, &choice->held_back);
    else
        cleave_json_put_null(w);
    cleave_json_end_object(w);
}

static void put_schedules(cleave_json_writer *w, const explanation *e) {
    cleave_json_open_array(w, "schedules", false);
    for (int32_t i = 0; i < e->schedules.n; i++) {
        const explain_schedule *other = &e->schedules.items[i];
        bool fits = other->price.excess_bytes == 0 && e->schedules.price.excess_bytes == 0;
        cleave_json_begin_object(w, true);
        cleave_json_set_string(w, "decision", other->decision);
        cleave_json_set_known(w, "step_seconds", fits,
                              1e-12 * (double)e->path.step *
                                  share(other->price.step, e->schedules.price.step));
        cleave_json_set_integer(w, "peak_bytes", other->price.peak_bytes);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

void explain_put_critical(cleave_json_writer *w, const explain_path *path) {
    cleave_json_key(w, "critical_seconds");
    put_sorts(w, path->picoseconds);
}

cleave_status explain_print_json(const explanation *e, cleave_error *error) {
    cleave_json_writer w = {0};
    const explain_path *path = &e->path;
    char link[160];
    cleave_json_begin_object(&w, false);
    cleave_json_set_number(&w, "step_seconds", 1e-12 * (double)path->step);
    cleave_json_set_number(&w, "estimated_step_seconds", 1e-12 * (double)e->estimated_step);
    explain_put_critical(&w, path);
    cleave_json_set_integer(&w, "busiest_device", path->busiest_device);
    cleave_json_set_number(&w, "busiest_device_seconds", 1e-12 * (double)path->device_busy);
    cleave_json_key(&w, "busiest_link");
    explain_link_name(e->machine, path->busiest_link, link, sizeof link);
    cleave_json_put_string(&w, link);
    cleave_json_set_number(&w, "busiest_link_seconds", 1e-12 * (double)path->link_busy);
    cleave_json_set_integer(&w, "fullest_device", path->fullest_device);
    cleave_json_set_integer(&w, "peak_bytes", path->peak_bytes);
    cleave_json_open_object(&w, "held_bytes", true);
    for (int k = 0; k < CLEAVE_N_BUFFER_KINDS; k++)
        cleave_json_set_integer(&w, explain_buffer_names[k], path->held_bytes[k]);
    cleave_json_end_object(&w);
    put_schedules(&w, e);
    cleave_json_open_array(&w, "operators", false);
    for (int32_t i = 0; i < e->n; i++)
        put_operator(&w, e, e->order[i]);
    cleave_json_end_array(&w);
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}
