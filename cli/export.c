/* `cleave export`: a layout as a plan that PyTorch or JAX runs, or as the launch of Megatron-LM or
   torchtitan that comes nearest to it; and what of it they can't. */
#include "base/progress.h"
#include "cli/command.h"
#include "cli/export/launch.h"
#include "cli/inputs.h"
#include "cli/predict.h"
#include "cli/repeats.h"
#include "cli/table.h"
#include "graph/export/moves.h"
#include "graph/export/plan.h"
#include "graph/model/attention.h"

#include <string.h>

typedef struct export_values {
    common_options common;
    const char *to, *layout, *output, *read_back;
    bool strict;
} export_values;

static const option_row rows[] = {
    {"--to", "NAME", OPTION_TEXT, offsetof(export_values, to), .required = true,
     .help = "what is to run it: torch, jax, megatron or torchtitan"},
    ROW_MODEL,
    ROWS_IMPORT,
    {"--layout", "PLAN.layout.json", OPTION_TEXT, offsetof(export_values, layout), .required = true,
     .help = "the layout to export"},
    {"-o", "PLAN.json", OPTION_OUTPUT, offsetof(export_values, output), .required = true,
     .help = "write the plan here (arguments of megatron, TOML of torchtitan)"},
    {"--read-back", "BACK.layout.json", OPTION_OUTPUT, offsetof(export_values, read_back),
     .help = "write the layout that the framework will really run"},
    {"--machine", "MACHINE.json", OPTION_TEXT, offsetof(export_values, common.machine),
     .help = "say on this machine what each loss costs, and the plan as a whole"},
    {"--strict", NULL, OPTION_FLAG, offsetof(export_values, strict),
     .help = "refuse a layout of which anything is lost"},
    ROWS_OPTIMIZER,
    ROW_JSON,
    ROW_QUIET,
};

/* Losses that are priced one by one; more than these are priced together only. */
enum { MOST_PRICED = 64 };

typedef struct exported {
    cleave_model model; /* its attention is not fused, since layouts differ in that */
    cleave_layout layout, back;
    bool is_launch; /* else it is a plan */
    cleave_export_plan plan;
    cleave_launch launch;
    const char *unsaid; /* of a launch: what the file does not say of the model, or null */
    int32_t n_lost;
    const cleave_lost *lost;
    cleave_machine machine;
    int optimizer_states;
    bool priced; /* on a machine: */
    prediction planned, exported;
    bool moves; /* torch runs it, in one stage and one micro-batch, and sends this: */
    double moved_bytes;
    repeats alike;     /* of what is lost: told, and priced, together */
    double *costs;     /* [alike.n] seconds that they add, with what else their operators lose;
                          negative: not priced */
    double *cost_each; /* [n_lost] of one of them */
} exported;

static cleave_status price(const exported *e, const cleave_layout *layout, prediction *result,
                           cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_model fused;
    const cleave_pricing of = {&fused, &e->machine, layout,
                               .optimizer_states = e->optimizer_states};
    cleave_status status = cleave_model_fuse_attention(&e->model, layout, &scratch, &fused, error);
    if (status == CLEAVE_OK)
        status = predict_layout(&of, result, error);
    cleave_arena_free(&scratch);
    return status;
}

/* The layout with this one thing as the target has it, too. */
static void lose(const exported *e, const cleave_lost *lost, cleave_layout *layout) {
    if (lost->op >= 0) {
        layout->splits[lost->op] = e->back.splits[lost->op];
        layout->recompute[lost->op] = e->back.recompute[lost->op];
    }
    if (lost->tensor >= 0)
        layout->sharded[lost->tensor] = e->back.sharded[lost->tensor];
}

/* Not priced where it can't stand without the rest. */
static cleave_status price_alike(const exported *e, int32_t alike, double *cost,
                                 cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_layout without;
    prediction result;
    const cleave_lost *first = &e->lost[e->alike.items[alike].first];
    cleave_status status = cleave_layout_copy(&e->layout, &e->model, &scratch, &without, error);
    *cost = -1;
    for (int32_t i = 0; i < e->n_lost && status == CLEAVE_OK; i++)
        if (e->alike.of[i] == alike)
            lose(e, &e->lost[i], &without);
    if (status == CLEAVE_OK && (first->op >= 0 || first->tensor >= 0) &&
        cleave_layout_check(&e->model, &without, NULL) == CLEAVE_OK) {
        status = price(e, &without, &result, error);
        *cost = status == CLEAVE_OK ? result.step_seconds - e->planned.step_seconds : -1;
        *cost = *cost > 0 ? *cost : 0;
    }
    cleave_arena_free(&scratch);
    return status;
}

static cleave_status count_moves(exported *e, cleave_error *error) {
    e->moves = !e->is_launch && e->plan.target == CLEAVE_TARGET_TORCH && e->plan.n_groups == 1 &&
               e->plan.schedule.micro_batches == 1;
    return e->moves ? cleave_export_move_bytes(&e->model, &e->plan, &e->moved_bytes, error)
                    : CLEAVE_OK;
}

static cleave_status price_losses(exported *e, bool quiet, cleave_arena *arena,
                                  cleave_error *error) {
    cleave_progress progress;
    CLEAVE_TRY(price(e, &e->layout, &e->planned, error));
    CLEAVE_TRY(price(e, &e->back, &e->exported, error));
    e->priced = true;
    e->costs = CLEAVE_ARENA_ARRAY(arena, double, e->alike.n);
    e->cost_each = CLEAVE_ARENA_ARRAY(arena, double, e->n_lost);
    if (e->costs == NULL || e->cost_each == NULL)
        return cleave_fail_memory(error, "pricing what is lost");
    cleave_status status = CLEAVE_OK;
    cleave_progress_begin(&progress, "pricing what is lost", quiet);
    for (int32_t i = 0; i < e->alike.n && status == CLEAVE_OK; i++) {
        e->costs[i] = -1;
        if (i < MOST_PRICED)
            status = price_alike(e, i, &e->costs[i], error);
        cleave_progress_update(&progress, (double)(i + 1) / e->alike.n, NULL);
    }
    cleave_progress_end(&progress);
    for (int32_t i = 0; i < e->n_lost; i++)
        e->cost_each[i] = e->costs[e->alike.of[i]] / e->alike.items[e->alike.of[i]].count;
    return status;
}

/* ---- what is said ---- */

static const char *subject(const exported *e, const cleave_lost *lost) {
    return lost->op >= 0       ? e->model.operators[lost->op].name
           : lost->tensor >= 0 ? e->model.tensors[lost->tensor].name
                               : "the whole";
}

static void format_mesh(const cleave_mesh *mesh, char *text, size_t bytes) {
    size_t at = 0;
    snprintf(text, bytes, "1");
    for (int i = 0; i < mesh->n && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%d", i > 0 ? " x " : "", mesh->size[i]);
}

/* What is lost of repeated layers is one row. */
static cleave_status find_alike(exported *e, cleave_arena *arena, cleave_error *error) {
    const char **names = CLEAVE_ARENA_ARRAY(arena, const char *, e->n_lost);
    const char **kinds = CLEAVE_ARENA_ARRAY(arena, const char *, e->n_lost);
    bool made = names != NULL && kinds != NULL;
    for (int32_t i = 0; i < e->n_lost && made; i++) {
        names[i] = subject(e, &e->lost[i]);
        kinds[i] = cleave_arena_printf(arena, "%s\t%s", e->lost[i].what, e->lost[i].why);
        made = kinds[i] != NULL;
    }
    return made ? repeats_find(names, kinds, e->n_lost, arena, &e->alike, error)
                : cleave_fail_memory(error, "listing what is lost");
}

static int32_t count_named(const exported *e, cleave_named named) {
    int32_t n = 0;
    for (int32_t op = 0; op < e->model.n_operators; op++)
        n += e->plan.operators[op].name.named == named;
    return n;
}

/* What costs most; -1: nothing costs anything. */
static int32_t find_worst(const exported *e) {
    int32_t worst = -1;
    for (int32_t i = 0; e->priced && i < e->alike.n; i++)
        if (e->costs[i] > (worst < 0 ? 0 : e->costs[worst]))
            worst = i;
    return worst;
}

static void print_lost(const exported *e, cleave_arena *arena) {
    table t = {.arena = arena, .n_columns = 4, .align = "lllr"};
    if (e->n_lost == 0)
        return;
    table_heads(&t, (const char *const[]){"lost of", "what", "since", e->priced ? "adds" : ""});
    for (int32_t i = 0; i < e->alike.n; i++) {
        const cleave_lost *lost = &e->lost[e->alike.items[i].first];
        table_text(&t, e->alike.items[i].name);
        table_text(&t, lost->what);
        table_text(&t, lost->why);
        if (e->priced && e->costs[i] >= 0)
            table_quantity(&t, e->costs[i], CLEAVE_UNIT_SECONDS);
        else
            table_text(&t, "");
    }
    printf("\n");
    table_print(&t, stdout);
}

static void print_plan(const exported *e) {
    char mesh[128];
    format_mesh(&e->plan.mesh, mesh, sizeof mesh);
    printf("mesh %s: %d of %d operators are modules with a name, %d follow what they read, %d have "
           "parameters and no name\n",
           mesh, count_named(e, CLEAVE_NAMED_MODULE), e->model.n_operators,
           count_named(e, CLEAVE_NAMED_NOTHING), count_named(e, CLEAVE_NAMED_UNKNOWN));
}

static bool is_too_large(const exported *e) {
    int64_t room = INT64_MAX;
    for (int32_t k = 0; k < e->machine.n_kinds; k++)
        room = e->machine.kinds[k].memory_bytes < room ? e->machine.kinds[k].memory_bytes : room;
    return e->exported.peak_bytes > room;
}

static void print_text(const exported *e, cleave_arena *arena) {
    char planned[64], real[64];
    int32_t worst = find_worst(e);
    if (e->is_launch)
        export_print_launch(&e->launch, e->unsaid);
    else
        print_plan(e);
    print_lost(e, arena);
    if (!e->priced)
        return;
    cleave_unit_format(e->planned.step_seconds, CLEAVE_UNIT_SECONDS, planned, sizeof planned);
    cleave_unit_format(e->exported.step_seconds, CLEAVE_UNIT_SECONDS, real, sizeof real);
    printf("\nplan %s, exported %s: %.2f x the plan", planned, real,
           e->exported.step_seconds / e->planned.step_seconds);
    if (worst >= 0)
        printf(", most by %s of %s", e->lost[e->alike.items[worst].first].what,
               e->alike.items[worst].name);
    cleave_unit_format((double)e->planned.peak_bytes, CLEAVE_UNIT_BYTES, planned, sizeof planned);
    cleave_unit_format((double)e->exported.peak_bytes, CLEAVE_UNIT_BYTES, real, sizeof real);
    printf("\nmemory of the fullest device: plan %s, exported %s%s\n", planned, real,
           is_too_large(e) ? ", for which it has no room: take a plan that needs less" : "");
    if (e->moves && e->plan.mesh.n > 1 && e->exported.bytes_sent > 0) {
        cleave_unit_format(e->moved_bytes, CLEAVE_UNIT_BYTES, real, sizeof real);
        printf("DTensor moves one dimension of the mesh after the other: %s are sent, %.2f x what "
               "the program sends\n",
               real, e->moved_bytes / (double)e->exported.bytes_sent);
    }
}

static void put_prediction(cleave_json_writer *w, const char *key, const prediction *p) {
    cleave_json_open_object(w, key, true);
    cleave_json_set_number(w, "step_seconds", p->step_seconds);
    cleave_json_set_integer(w, "bytes_sent", p->bytes_sent);
    cleave_json_set_integer(w, "peak_bytes", p->peak_bytes);
    cleave_json_end_object(w);
}

static void put_plan(const exported *e, cleave_json_writer *w) {
    static const char *const keys[] = {"modules", "functions", "loss", "following", "unknown"};
    cleave_json_open_array(w, "mesh", true);
    for (int i = 0; i < e->plan.mesh.n; i++)
        cleave_json_put_integer(w, e->plan.mesh.size[i]);
    cleave_json_end_array(w);
    for (int named = CLEAVE_NAMED_MODULE; named <= CLEAVE_NAMED_UNKNOWN; named++)
        cleave_json_set_integer(w, keys[named], count_named(e, (cleave_named)named));
}

static cleave_status print_json(const exported *e, cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, false);
    if (e->is_launch)
        export_put_launch(&e->launch, &w);
    else
        put_plan(e, &w);
    cleave_json_set_integer(&w, "lost", e->n_lost);
    if (e->moves)
        cleave_json_set_number(&w, "moved_bytes", e->moved_bytes);
    if (e->priced) {
        put_prediction(&w, "planned", &e->planned);
        put_prediction(&w, "exported", &e->exported);
    }
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}

static cleave_status check_strict(const exported *e, const export_values *values,
                                  cleave_error *error) {
    if (!values->strict || e->n_lost == 0)
        return CLEAVE_OK;
    const cleave_lost *first = &e->lost[0];
    return cleave_fail(
        error, CLEAVE_BAD_INPUT,
        "%s: %s can't have it as it is: %d %s lost, the first being %.32s of %.128s: "
        "%s (without --strict the nearest is exported)",
        values->layout, values->to, e->n_lost, e->n_lost == 1 ? "thing is" : "things are",
        first->what, subject(e, first), first->why);
}

/* ---- making it ---- */

static cleave_status find_target(exported *e, const char *to, cleave_error *error) {
    for (int i = 0; i < CLEAVE_N_LAUNCHERS; i++)
        if (strcmp(to, cleave_launcher_names[i]) == 0) {
            e->is_launch = true;
            e->launch.launcher = (cleave_launcher)i;
            return CLEAVE_OK;
        }
    if (inputs_target("--to", to, &e->plan.target, NULL) != CLEAVE_OK)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--to %s: torch, jax, megatron and torchtitan are known", to);
    return CLEAVE_OK;
}

static cleave_status make(exported *e, cleave_arena *arena, cleave_error *error) {
    cleave_model fused;
    if (e->is_launch) {
        CLEAVE_TRY(cleave_model_fuse_attention(&e->model, &e->layout, arena, &fused, error));
        CLEAVE_TRY(
            cleave_launch_find(&fused, &e->layout, e->launch.launcher, arena, &e->launch, error));
        e->back = e->launch.layout;
        e->lost = e->launch.lost;
        e->n_lost = e->launch.n_lost;
        return CLEAVE_OK;
    }
    CLEAVE_TRY(cleave_export_make(&e->model, &e->layout, e->plan.target, arena, &e->plan, error));
    e->lost = e->plan.lost;
    e->n_lost = e->plan.n_lost;
    return cleave_export_read_back(&e->model, &e->layout, &e->plan, arena, &e->back, error);
}

static cleave_status export_layout(const void *any, char *const *arguments, cleave_arena *arena,
                                   cleave_error *error) {
    const export_values *values = any;
    (void)arguments;
    exported e = {.priced = false};
    CLEAVE_TRY(find_target(&e, values->to, error));
    CLEAVE_TRY(inputs_optimizer_states(&values->common, &e.optimizer_states, error));
    CLEAVE_TRY(inputs_model(&values->common, arena, &e.model, error));
    CLEAVE_TRY(cleave_layout_read(values->layout, &e.model, arena, &e.layout, error));
    CLEAVE_TRY(make(&e, arena, error));
    CLEAVE_TRY(check_strict(&e, values, error));
    CLEAVE_TRY(find_alike(&e, arena, error));
    CLEAVE_TRY(count_moves(&e, error));
    if (values->common.machine != NULL) {
        CLEAVE_TRY(cleave_machine_read(values->common.machine, e.layout.n_devices, arena,
                                       &e.machine, error));
        CLEAVE_TRY(price_losses(&e, values->common.quiet, arena, error));
        e.back.predicted_step_seconds = e.exported.step_seconds;
    }
    if (values->read_back != NULL)
        CLEAVE_TRY(cleave_layout_write(values->read_back, &e.model, &e.back, error));
    if (e.is_launch)
        CLEAVE_TRY(export_write_launch(values->output, &values->common, &e.launch, arena, &e.unsaid,
                                       error));
    else
        CLEAVE_TRY(cleave_export_write(values->output, &e.model, &e.plan, e.cost_each, error));
    if (values->common.json)
        return print_json(&e, error);
    print_text(&e, arena);
    return CLEAVE_OK;
}

const command command_export = {
    .name = "export",
    .summary = "write a layout as a plan for PyTorch or JAX, or as a launch",
    .details = "The plan says by the names of the framework how each module's input, parameters\n"
               "and output lie on one mesh of devices; Cleave's Python package applies it to\n"
               "your own model.  What a framework can't say (operators on some devices alone,\n"
               "rows and columns of images, of JAX stages) is left out and listed, and with\n"
               "--machine priced: the plan is turned back into a layout, and both are simulated.\n"
               "For megatron and torchtitan the file has arguments, or a configuration, of the\n"
               "launch under which most of the work stays where the layout has it.",
    .examples = "  cleave export --to torch --model configs/models/alexnet.onnx --batch 32 \\\n"
                "      --layout configs/layouts/alexnet-32-two-cores.layout.json \\\n"
                "      --machine configs/machines/two-cores.json -o alexnet.plan.json\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(export_values),
    .run = export_layout,
};
