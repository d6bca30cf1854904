/* What `cleave validate` prints. */
#include "cli/validate/validate.h"

#include "base/accuracy.h"
#include "cli/inputs.h"
#include "cli/price_report.h"
#include "cli/table.h"

#include <string.h>

/* ---- accuracy -------------------------------------------------------------------------------- */

typedef enum quantity { STEPS, MEMORY, RESERVED, N_QUANTITIES } quantity;

static double measured_of(const validated_run *one, quantity of) {
    return of == STEPS ? one->run->step : of == MEMORY ? one->run->memory : one->run->reserved;
}
static double predicted_of(const validated_run *one, quantity of) {
    return of == STEPS ? one->step_seconds : of == MEMORY ? one->memory_bytes : one->reserved_bytes;
}

typedef struct group_accuracy {
    const char *name; /* null: all */
    int32_t n_runs, n_priced;
    cleave_accuracy of[N_QUANTITIES];
} group_accuracy;

static bool is_of(const validated_run *one, const char *group) {
    return group == NULL || strcmp(one->run->group, group) == 0;
}

/* The place of the first run of the same group. */
static int32_t group_of(const validated_table *all, int32_t i) {
    int32_t first = 0;
    while (strcmp(all->runs[first].run->group, all->runs[i].run->group) != 0)
        first++;
    return first;
}

static cleave_status agree(const validated_table *all, const char *group, cleave_arena *arena,
                           group_accuracy *found, cleave_error *error) {
    cleave_compared *compared = CLEAVE_ARENA_ARRAY(arena, cleave_compared, all->n);
    group_accuracy made = {.name = group};
    if (compared == NULL)
        return cleave_fail_memory(error, "comparing predictions");
    for (int32_t i = 0; i < all->n; i++) {
        made.n_runs += is_of(&all->runs[i], group);
        made.n_priced += is_of(&all->runs[i], group) && all->runs[i].refused == NULL;
    }
    for (int q = 0; q < N_QUANTITIES; q++) {
        int32_t n = 0;
        for (int32_t i = 0; i < all->n; i++) {
            const validated_run *one = &all->runs[i];
            if (is_of(one, group) && one->refused == NULL && measured_of(one, (quantity)q) > 0)
                compared[n++] = (cleave_compared){predicted_of(one, (quantity)q),
                                                  measured_of(one, (quantity)q), group_of(all, i)};
        }
        CLEAVE_TRY(cleave_accuracy_find(compared, n, &made.of[q], error));
    }
    *found = made;
    return CLEAVE_OK;
}

/* Groups in the order in which they come, and all of them where there are several. */
static cleave_status agree_by_group(const validated_table *all, cleave_arena *arena,
                                    group_accuracy **groups, int32_t *n, cleave_error *error) {
    group_accuracy *made = CLEAVE_ARENA_ARRAY(arena, group_accuracy, all->n + 1);
    int32_t n_made = 0;
    if (made == NULL)
        return cleave_fail_memory(error, "comparing predictions");
    for (int32_t i = 0; i < all->n; i++)
        if (group_of(all, i) == i)
            CLEAVE_TRY(agree(all, all->runs[i].run->group, arena, &made[n_made++], error));
    if (n_made > 1)
        CLEAVE_TRY(agree(all, NULL, arena, &made[n_made++], error));
    *groups = made;
    *n = n_made;
    return CLEAVE_OK;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void add_error(table *t, const validated_run *one, quantity of) {
    if (measured_of(one, of) > 0)
        table_format(t, "%+.1f %%", 100 * (predicted_of(one, of) / measured_of(one, of) - 1));
    else
        table_text(t, "-");
}

static void add_measured(table *t, const validated_run *one, quantity of) {
    if (measured_of(one, of) > 0)
        table_quantity(t, measured_of(one, of),
                       of == STEPS ? CLEAVE_UNIT_SECONDS : CLEAVE_UNIT_BYTES);
    else
        table_text(t, "-");
}

static void add_share(table *t, double share) { table_format(t, "%.0f %%", 100 * share); }

static void add_run(table *t, const validated_run *one) {
    const double *part = one->shares.part;
    double collectives = 0;
    for (int p = CLEAVE_PART_ALL_REDUCE; p <= CLEAVE_PART_MESSAGES; p++)
        collectives += part[p];
    if (one->run->name[0] != '\0')
        table_text(t, one->run->name);
    else
        table_format(t, "line %d", one->run->line);
    table_quantity(t, one->step_seconds, CLEAVE_UNIT_SECONDS);
    add_measured(t, one, STEPS);
    add_error(t, one, STEPS);
    add_share(t, part[CLEAVE_PART_PRODUCTS]);
    add_share(t, part[CLEAVE_PART_ATTENTION]);
    add_share(t, part[CLEAVE_PART_OTHER_KERNELS] + part[CLEAVE_PART_UPDATES] +
                     part[CLEAVE_PART_COPIES]);
    add_share(t, collectives);
    add_share(t, one->shares.idle);
    table_quantity(t, one->memory_bytes, CLEAVE_UNIT_BYTES);
    add_measured(t, one, MEMORY);
    add_error(t, one, MEMORY);
    table_quantity(t, one->reserved_bytes, CLEAVE_UNIT_BYTES);
    add_error(t, one, RESERVED);
}

static void print_runs(const validated_table *of, cleave_arena *arena) {
    static const char *const heading[] = {"run",       "step",    "measured", "error", "products",
                                          "attention", "kernels", "sent",     "idle",  "memory",
                                          "measured",  "error",   "reserved", "error"};
    table t = {.arena = arena, .n_columns = 14, .align = "lrrrrrrrrrrrrr"};
    for (int i = 0; i < 14; i++)
        table_text(&t, heading[i]);
    for (int32_t i = 0; i < of->n; i++)
        if (of->runs[i].refused == NULL)
            add_run(&t, &of->runs[i]);
    table_print(&t, stdout);
    for (int32_t i = 0; i < of->n; i++)
        if (of->runs[i].refused != NULL)
            printf("%s:%d is not priced: %s\n", of->file, of->runs[i].run->line,
                   of->runs[i].refused);
}

static void add_accuracy(table *t, const cleave_accuracy *of) {
    for (int i = 0; i < 3 && of->n == 0; i++)
        table_text(t, "-");
    if (of->n == 0)
        return;
    table_format(t, "%.1f %%", 100 * of->median_error);
    table_format(t, "%.1f %%", 100 * of->ninth_decile_error);
    table_format(t, "%+.1f %%", 100 * of->median_bias);
}

static void print_groups(const group_accuracy *groups, int32_t n, cleave_arena *arena) {
    static const char *const heading[] = {
        "group",          "runs", "priced", "step: median",     "90 %", "bias", "tau", "pairs",
        "memory: median", "90 %", "bias",   "reserved: median", "90 %", "bias"};
    table t = {.arena = arena, .n_columns = 14, .align = "lrrrrrrrrrrrrr"};
    for (int i = 0; i < 14; i++)
        table_text(&t, heading[i]);
    for (int32_t g = 0; g < n; g++) {
        const cleave_accuracy *steps = &groups[g].of[STEPS];
        table_text(&t, groups[g].name == NULL      ? "all"
                       : groups[g].name[0] != '\0' ? groups[g].name
                                                   : "-");
        table_format(&t, "%d", groups[g].n_runs);
        table_format(&t, "%d", groups[g].n_priced);
        add_accuracy(&t, steps);
        if (steps->n_pairs > 0)
            table_format(&t, "%.2f", steps->tau);
        else
            table_text(&t, "-");
        table_format(&t, "%lld", (long long)steps->n_pairs);
        add_accuracy(&t, &groups[g].of[MEMORY]);
        add_accuracy(&t, &groups[g].of[RESERVED]);
    }
    printf("\n");
    table_print(&t, stdout);
    printf(
        "\nShares are of the step, along its critical path; a device is idle on average.  Errors "
        "are predicted / measured - 1; tau ranks runs\nof a group that were measured %.0f %% "
        "apart.\n",
        100 * cleave_accuracy_apart);
}

cleave_status validate_print_text(const validated_table *all, cleave_arena *arena,
                                  cleave_error *error) {
    group_accuracy *groups;
    int32_t n;
    CLEAVE_TRY(agree_by_group(all, arena, &groups, &n, error));
    print_runs(all, arena);
    print_groups(groups, n, arena);
    return CLEAVE_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Null where it was not measured. */
static void put_measured(cleave_json_writer *w, const char *key, double value) {
    cleave_json_set_known(w, key, value > 0, value);
}

static void put_run(cleave_json_writer *w, const validated_run *one) {
    cleave_json_begin_object(w, false);
    cleave_json_set_integer(w, "line", one->run->line);
    cleave_json_set_string(w, "group", one->run->group);
    cleave_json_set_string(w, "name", one->run->name);
    if (one->refused != NULL) {
        cleave_json_set_string(w, "refused", one->refused);
        cleave_json_end_object(w);
        return;
    }
    cleave_json_set_number(w, "step_seconds", one->step_seconds);
    put_measured(w, "measured_step_seconds", one->run->step);
    price_report_put(w, &one->shares);
    cleave_json_open_object(w, "step_parts", false);
    for (int p = 0; p < CLEAVE_N_STEP_PARTS; p++)
        cleave_json_set_number(w, cleave_step_part_names[p], one->shares.part[p]);
    cleave_json_end_object(w);
    cleave_json_set_number(w, "idle", one->shares.idle);
    cleave_json_set_number(w, "memory_bytes", one->memory_bytes);
    cleave_json_set_number(w, "plan_bytes", one->plan_bytes);
    put_measured(w, "measured_memory_bytes", one->run->memory);
    cleave_json_set_number(w, "reserved_bytes", one->reserved_bytes);
    put_measured(w, "measured_reserved_bytes", one->run->reserved);
    cleave_json_end_object(w);
}

static void put_accuracy(cleave_json_writer *w, const char *key, const cleave_accuracy *of) {
    cleave_json_key(w, key);
    if (of->n == 0) {
        cleave_json_put_null(w);
        return;
    }
    cleave_json_begin_object(w, false);
    cleave_json_set_integer(w, "compared", of->n);
    cleave_json_set_number(w, "median_error", of->median_error);
    cleave_json_set_number(w, "ninth_decile_error", of->ninth_decile_error);
    cleave_json_set_number(w, "median_bias", of->median_bias);
    cleave_json_set_integer(w, "pairs", of->n_pairs);
    cleave_json_set_known(w, "tau", of->n_pairs > 0, of->tau);
    cleave_json_end_object(w);
}

cleave_status validate_print_json(const validated_table *all, cleave_arena *arena,
                                  cleave_error *error) {
    group_accuracy *groups;
    int32_t n;
    cleave_json_writer w = {0};
    CLEAVE_TRY(agree_by_group(all, arena, &groups, &n, error));
    cleave_json_begin_object(&w, false);
    cleave_json_open_array(&w, "runs", false);
    for (int32_t i = 0; i < all->n; i++)
        put_run(&w, &all->runs[i]);
    cleave_json_end_array(&w);
    cleave_json_open_array(&w, "groups", false);
    for (int32_t g = 0; g < n; g++) {
        cleave_json_begin_object(&w, false);
        cleave_json_key(&w, "group");
        if (groups[g].name != NULL)
            cleave_json_put_string(&w, groups[g].name);
        else
            cleave_json_put_null(&w);
        cleave_json_set_integer(&w, "runs", groups[g].n_runs);
        cleave_json_set_integer(&w, "priced", groups[g].n_priced);
        put_accuracy(&w, "step", &groups[g].of[STEPS]);
        put_accuracy(&w, "memory", &groups[g].of[MEMORY]);
        put_accuracy(&w, "reserved", &groups[g].of[RESERVED]);
        cleave_json_end_object(&w);
    }
    cleave_json_end_array(&w);
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}
