/* The points of a sweep. */
#include "cli/sweep/plan.h"

#include "base/file.h"
#include "base/random.h"
#include "costmodel/machine.h"
#include "costmodel/machine_figures.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- axes ------------------------------------------------------------------------------------ */

static bool is_given(const sweep_plan *plan, const char *option) {
    for (int i = 0; i < plan->n_options; i++)
        if (strcmp(plan->options[i], option) == 0)
            return true;
    return false;
}

/* Values of options are checked before anything is done for them. */
static cleave_status check_axis(const sweep_plan *plan, int32_t a, cleave_error *error) {
    const sweep_axis *axis = &plan->axes[a];
    search_request scratch = {0};
    for (int32_t b = 0; b < a; b++)
        if (strcmp(plan->axes[b].name, axis->name) == 0)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "--vary %s is given twice", axis->name);
    if (axis->option == NULL)
        return CLEAVE_OK;
    if (is_given(plan, axis->option->name))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s is given, and varied", axis->option->name);
    for (int32_t i = 0; i < axis->n; i++)
        if (options_set(axis->option, axis->texts[i], &scratch, error) != CLEAVE_OK) {
            cleave_error_prefix(error, "--vary %s", axis->name);
            return CLEAVE_BAD_INPUT;
        }
    return CLEAVE_OK;
}

static cleave_status read_axes(const option_table *searches, const option_texts *varied,
                               const cleave_json *machine, cleave_arena *arena, sweep_plan *plan,
                               cleave_error *error) {
    int64_t n_points = 1;
    if (varied->n > SWEEP_MOST_AXES)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "--vary is given %d times, but %d are the most",
                           varied->n, SWEEP_MOST_AXES);
    for (plan->n_axes = 0; plan->n_axes < varied->n; plan->n_axes++) {
        CLEAVE_TRY(sweep_axis_parse(varied->items[plan->n_axes], searches, machine, arena,
                                    &plan->axes[plan->n_axes], error));
        CLEAVE_TRY(check_axis(plan, plan->n_axes, error));
        n_points *= plan->axes[plan->n_axes].n;
        if (n_points > SWEEP_MOST_POINTS)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "--vary: these are %lld points or more, and %d are the most",
                               (long long)n_points, SWEEP_MOST_POINTS);
    }
    plan->n_points = (int32_t)n_points;
    return CLEAVE_OK;
}

/* ---- machines -------------------------------------------------------------------------------- */

static bool is_figure(const sweep_axis *axis) { return axis->option == NULL; }

/* What may stand in the name of a file: of letters, digits and a few signs, as they come. */
static void append_name(char *name, size_t bytes, const sweep_axis *axis, int32_t at) {
    size_t used = strlen(name);
    char text[160];
    snprintf(text, sizeof text, "-%s-%s%s", axis->name, axis->labels[at], axis->unit);
    for (const char *c = text; *c != '\0' && used + 1 < bytes; c++)
        if (isalnum((unsigned char)*c) || strchr("-+.", *c) != NULL)
            name[used++] = *c;
    name[used] = '\0';
}

/* The machine of a point with these values. */
static cleave_status make_machine(const sweep_plan *plan, cleave_json *document, const int32_t *at,
                                  cleave_arena *arena, sweep_machine *made, cleave_error *error) {
    char name[160] = "", words[400] = "";
    bool is_changed = false;
    for (int32_t a = 0; a < plan->n_axes; a++) {
        const sweep_axis *axis = &plan->axes[a];
        if (!is_figure(axis))
            continue;
        is_changed = true;
        CLEAVE_TRY(cleave_machine_figure_set(document, axis->name, axis->texts[at[a]], error));
        append_name(name, sizeof name, axis, at[a]);
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, ", %s %s", axis->name, axis->texts[at[a]]);
    }
    cleave_machine *machine = made->machine = CLEAVE_ARENA_ARRAY(arena, cleave_machine, 1);
    if (machine == NULL)
        return cleave_fail_memory(error, "planning a sweep");
    CLEAVE_TRY(cleave_machine_take(document, 1, arena, machine, error));
    for (int32_t t = 0; t < machine->n_node_types; t++)
        made->n_devices += machine->node_types[t].count * machine->node_types[t].n_devices;
    if (!is_changed)
        return CLEAVE_OK;
    made->name = cleave_arena_printf(arena, "%s.machine.json", name + 1);
    machine->name = cleave_arena_printf(arena, "%s%s", machine->name, words);
    return made->name != NULL && machine->name != NULL
               ? CLEAVE_OK
               : cleave_fail_memory(error, "planning a sweep");
}

/* Of all combinations of figures, numbered as points are, the last axis the quickest. */
static cleave_status make_machines(sweep_plan *plan, const char *text, size_t bytes,
                                   cleave_arena *arena, cleave_error *error) {
    plan->n_machines = 1;
    for (int32_t a = 0; a < plan->n_axes; a++)
        plan->n_machines *= is_figure(&plan->axes[a]) ? plan->axes[a].n : 1;
    plan->machines = CLEAVE_ARENA_ARRAY(arena, sweep_machine, plan->n_machines);
    if (plan->machines == NULL)
        return cleave_fail_memory(error, "planning a sweep");
    for (int32_t m = 0; m < plan->n_machines; m++) {
        int32_t at[SWEEP_MOST_AXES] = {0}, rest = m;
        for (int32_t a = plan->n_axes - 1; a >= 0; a--)
            if (is_figure(&plan->axes[a])) {
                at[a] = rest % plan->axes[a].n;
                rest /= plan->axes[a].n;
            }
        cleave_json *document;
        CLEAVE_TRY(cleave_json_parse(text, bytes, plan->request->common.machine, &document, error));
        cleave_status status = make_machine(plan, document, at, arena, &plan->machines[m], error);
        cleave_json_free(document);
        CLEAVE_TRY(status);
    }
    return CLEAVE_OK;
}

/* ---- points ---------------------------------------------------------------------------------- */

static cleave_status make_point(const sweep_plan *plan, int32_t number, cleave_arena *arena,
                                sweep_point *point, cleave_error *error) {
    int32_t rest = number, digits = snprintf(NULL, 0, "%d", plan->n_points - 1);
    char name[200];
    for (int32_t a = plan->n_axes - 1; a >= 0; a--) {
        point->at[a] = rest % plan->axes[a].n;
        rest /= plan->axes[a].n;
    }
    snprintf(name, sizeof name, "%0*d", digits, number);
    for (int32_t a = 0; a < plan->n_axes; a++) {
        const sweep_axis *axis = &plan->axes[a];
        if (is_figure(axis))
            point->machine = point->machine * axis->n + point->at[a];
        if (axis->carries)
            point->wave = (point->wave + point->at[a]) % SWEEP_N_WAVES;
        append_name(name, sizeof name, axis, point->at[a]);
    }
    search_request request;
    CLEAVE_TRY(sweep_plan_request(plan, point, &request, error));
    int32_t n_devices = plan->machines[point->machine].n_devices;
    if (request.common.devices > n_devices)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "devices: %lld are more than the %d of %s",
                           (long long)request.common.devices, n_devices,
                           plan->machines[point->machine].machine->name);
    point->n_devices = request.common.devices > 0 ? (int32_t)request.common.devices : n_devices;
    point->name = cleave_arena_printf(arena, "%s.layout.json", name);
    return point->name != NULL ? CLEAVE_OK : cleave_fail_memory(error, "planning a sweep");
}

static cleave_status create(const option_table *searches, const option_texts *varied,
                            const char *text, size_t bytes, cleave_arena *arena, sweep_plan *plan,
                            cleave_error *error) {
    cleave_json *machine;
    CLEAVE_TRY(cleave_json_parse(text, bytes, plan->request->common.machine, &machine, error));
    cleave_status status = read_axes(searches, varied, machine, arena, plan, error);
    cleave_json_free(machine);
    CLEAVE_TRY(status);
    CLEAVE_TRY(make_machines(plan, text, bytes, arena, error));
    plan->points = CLEAVE_ARENA_ARRAY(arena, sweep_point, plan->n_points);
    if (plan->points == NULL)
        return cleave_fail_memory(error, "planning a sweep");
    for (int32_t p = 0; p < plan->n_points; p++)
        CLEAVE_TRY(make_point(plan, p, arena, &plan->points[p], error));
    return CLEAVE_OK;
}

cleave_status sweep_plan_create(const option_table *searches, const option_texts *varied,
                                cleave_arena *arena, sweep_plan *plan, cleave_error *error) {
    char *text;
    size_t bytes;
    CLEAVE_TRY(cleave_file_read(plan->request->common.machine, arena, &text, &bytes, error));
    snprintf(plan->machine_hash, sizeof plan->machine_hash, "%016" PRIx64,
             cleave_hash_string(text));
    return create(searches, varied, text, bytes, arena, plan, error);
}

cleave_status sweep_plan_request(const sweep_plan *plan, const sweep_point *point,
                                 search_request *request, cleave_error *error) {
    *request = *plan->request;
    for (int32_t a = 0; a < plan->n_axes; a++)
        if (!is_figure(&plan->axes[a]))
            CLEAVE_TRY(options_set(plan->axes[a].option, plan->axes[a].texts[point->at[a]], request,
                                   error));
    return CLEAVE_OK;
}

int32_t sweep_plan_neighbours(const sweep_plan *plan, int32_t point,
                              int32_t neighbours[SWEEP_MOST_NEIGHBOURS]) {
    const sweep_point *of = &plan->points[point];
    int32_t n = 0, stride = 1;
    for (int32_t a = plan->n_axes - 1; a >= 0; stride *= plan->axes[a--].n)
        for (int32_t by = -1; by <= 1 && plan->axes[a].carries && of->wave > 0; by += 2) {
            int32_t at = of->at[a] + by, other = point + by * stride;
            if (at >= 0 && at < plan->axes[a].n && n < SWEEP_MOST_NEIGHBOURS &&
                plan->points[other].n_devices == of->n_devices)
                neighbours[n++] = other;
        }
    return n;
}

void sweep_plan_describe(const sweep_plan *plan, const sweep_point *point, int32_t but_axis,
                         char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int32_t a = 0; a < plan->n_axes && used < bytes; a++)
        if (a != but_axis)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s=%s", used > 0 ? ", " : "",
                                     plan->axes[a].name, plan->axes[a].texts[point->at[a]]);
}
