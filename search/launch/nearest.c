/* The launch under which most of the work of a layout stays where it is. */
#include "search/launch/launch.h"

#include "base/list.h"
#include "graph/model/box.h"
#include "graph/model/precision.h"
#include "search/pipeline/stages.h"
#include "search/problem/baselines.h"

#include <math.h>
#include <string.h>

const char *const cleave_launcher_names[CLEAVE_N_LAUNCHERS] = {"megatron", "torchtitan"};

#define BIT(value) (1u << (value))
/* What each launcher has. */
static const struct {
    unsigned kinds, recomputes;
    unsigned sharded, piped; /* in one stage, and in a pipeline */
    bool plain_alone;        /* data whose state is not sharded goes with nothing else (DDP) */
} launchers[CLEAVE_N_LAUNCHERS] = {
    [CLEAVE_LAUNCHER_MEGATRON] = {BIT(CLEAVE_SCHEDULE_1F1B) | BIT(CLEAVE_SCHEDULE_INTERLEAVED),
                                  BIT(CLEAVE_RECOMPUTE_NONE) | BIT(CLEAVE_RECOMPUTE_SELECTIVE) |
                                      BIT(CLEAVE_RECOMPUTE_FULL),
                                  BIT(CLEAVE_N_SHARDED) - 1, BIT(CLEAVE_N_SHARDED) - 1, false},
    /* Pipelines of PyTorch (its _PipelineStageBase) add up the gradients of all
       micro-batches before they are shared out, so the state alone is sharded then. */
    [CLEAVE_LAUNCHER_TORCHTITAN] =
        {BIT(CLEAVE_SCHEDULE_1F1B) | BIT(CLEAVE_SCHEDULE_GPIPE) | BIT(CLEAVE_SCHEDULE_INTERLEAVED),
         BIT(CLEAVE_RECOMPUTE_NONE) | BIT(CLEAVE_RECOMPUTE_ALTERNATE) | BIT(CLEAVE_RECOMPUTE_FULL),
         BIT(CLEAVE_SHARDED_NOTHING) | BIT(CLEAVE_SHARDED_GRADIENT) | BIT(CLEAVE_SHARDED_WEIGHT),
         BIT(CLEAVE_SHARDED_UPDATE), true},
};

typedef struct finder {
    const cleave_model *model;
    const cleave_layout *layout;
    cleave_launch *launch; /* the nearest so far */
    cleave_arena *arena;
    cleave_arena scratch; /* of one launch that is tried */
    double *work;         /* [n_operators] points of its main nest */
    int32_t *part[2];     /* [n_devices] part there, of one operator under two splits; -1: none */
    CLEAVE_LIST(cleave_lost) lost;
    bool failed; /* memory was short */
} finder;

/* ---- how much of the work stays ---- */

static void note_parts(int32_t *part, int32_t n_devices, const cleave_split *split) {
    for (int32_t d = 0; d < n_devices; d++)
        part[d] = -1;
    for (int32_t p = 0; p < split->n_parts; p++)
        part[split->devices[p]] = p;
}

/* Points that two parts of an operator have in common, as a share of all. */
static double overlap(const cleave_operator *op, const cleave_split *a, int32_t of_a,
                      const cleave_split *b, int32_t of_b) {
    double share = 1;
    for (int axis = op->n_axes - 1; axis >= 0; axis--) {
        int64_t extent = op->axes[axis].extent, m = a->degree[axis], n = b->degree[axis];
        int64_t i = of_a % m, j = of_b % n;
        int64_t a_lo = cleave_block_start(extent, m, i), b_lo = cleave_block_start(extent, n, j);
        int64_t a_hi = cleave_block_start(extent, m, i + 1);
        int64_t b_hi = cleave_block_start(extent, n, j + 1);
        int64_t lo = a_lo > b_lo ? a_lo : b_lo, hi = a_hi < b_hi ? a_hi : b_hi;
        share *= hi > lo ? (double)(hi - lo) / (double)extent : 0;
        of_a /= (int32_t)m;
        of_b /= (int32_t)n;
    }
    return share;
}

/* What both do on the same devices, of what the one that repeats more does. */
static double alike(finder *f, int32_t op, const cleave_split *a, const cleave_split *b) {
    double common = 0;
    note_parts(f->part[0], f->layout->n_devices, a);
    note_parts(f->part[1], f->layout->n_devices, b);
    for (int32_t d = 0; d < f->layout->n_devices; d++)
        if (f->part[0][d] >= 0 && f->part[1][d] >= 0)
            common += overlap(&f->model->operators[op], a, f->part[0][d], b, f->part[1][d]);
    return common / (a->replicas > b->replicas ? a->replicas : b->replicas);
}

static double weigh(finder *f, const cleave_layout *tried) {
    double stays = 0, all = 0;
    for (int32_t op = 0; op < f->model->n_operators; op++) {
        const cleave_split *a = &f->layout->splits[op], *b = &tried->splits[op];
        bool same = cleave_split_same(a, b);
        stays += f->work[op] * (same ? 1 : alike(f, op, a, b));
        all += f->work[op];
    }
    return stays / all;
}

/* ---- one launch ---- */

/* Uneven by more than a hundredth, or on fewer devices than there are: a launcher would not start
   (or, of vocabularies, it fills up, which is less than that). */
static bool is_even(const finder *f, const cleave_launch *of, const cleave_layout *tried) {
    int32_t n = f->layout->n_devices / of->pipeline;
    for (int32_t op = 0; op < f->model->n_operators; op++)
        for (int a = 0; a < f->model->operators[op].n_axes; a++) {
            int64_t extent = f->model->operators[op].axes[a].extent;
            int64_t degree = tried->splits[op].degree[a];
            if (tried->splits[op].n_parts != n ||
                ((extent + degree - 1) / degree * degree - extent) * 100 > extent)
                return false;
        }
    return true;
}

/* Stages of a launch are cut between layers: as many of them as have their middle there. */
static cleave_status count_layers(finder *f, cleave_launch *of, cleave_schedule *schedule,
                                  cleave_arena *arena, cleave_error *error) {
    int32_t n = schedule->n_stages;
    int32_t *layers = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    schedule->first_operator = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    if (layers == NULL || schedule->first_operator == NULL)
        return cleave_fail_memory(error, "finding a launch");
    cleave_stages_count_layers(f->model, &f->layout->schedule, layers);
    of->layers = layers;
    return cleave_stages_of_layers(f->model, layers, n, schedule->first_operator, error);
}

/* The layout of a launch; BAD_INPUT where it has none. */
static cleave_status lay_out(finder *f, cleave_launch *of, cleave_arena *arena,
                             cleave_error *error) {
    bool applies;
    const cleave_machine devices = {.name = "", .n_devices = f->layout->n_devices};
    cleave_schedule schedule = {.micro_batches = of->micro_batches,
                                .n_stages = of->pipeline * of->virtual_stages,
                                .kind = of->kind};
    if (schedule.n_stages > 1)
        CLEAVE_TRY(count_layers(f, of, &schedule, arena, error));
    const cleave_baseline_shape shape = {.schedule = &schedule,
                                         .n_groups = of->pipeline,
                                         .tensor = of->tensor,
                                         .sharded = of->sharded};
    const char *baseline = of->tensor > 1 ? "megatron" : "data-parallel";
    CLEAVE_TRY(cleave_baseline_in_stages(f->model, &devices, baseline, &shape, arena, &of->layout,
                                         &applies, error));
    CLEAVE_TRY(cleave_recompute_mark(f->model, of->recompute, &of->layout, error));
    of->layout.collectives = f->layout->collectives;
    of->layout.stores_scores = f->layout->stores_scores;
    CLEAVE_TRY(cleave_layout_check(f->model, &of->layout, error));
    return is_even(f, of, &of->layout)
               ? CLEAVE_OK
               : cleave_fail(error, CLEAVE_BAD_INPUT, "parts would be uneven");
}

static cleave_status try_launch(finder *f, cleave_launch of, cleave_error *error) {
    cleave_error why = {""};
    cleave_arena_reset(&f->scratch);
    if (of.batch % ((int64_t)of.micro_batches * of.data) != 0)
        return CLEAVE_OK;
    of.micro_batch = of.batch / of.micro_batches / of.data;
    cleave_status status = lay_out(f, &of, &f->scratch, &why);
    if (status == CLEAVE_BAD_INPUT)
        return CLEAVE_OK;
    if (status != CLEAVE_OK) {
        *error = why;
        return status;
    }
    of.alike = weigh(f, &of.layout);
    if (of.alike > f->launch->alike)
        *f->launch = of; /* its layout is made again */
    return CLEAVE_OK;
}

/* ---- what all operators have alike ---- */

/* Bytes that operators which are not recomputed write. */
static double kept_bytes(const cleave_model *model, const bool *recompute) {
    double bytes = 0;
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_tensor *output = &model->tensors[model->nests[n].output.tensor];
        if (recompute == NULL || !recompute[model->nests[n].op])
            bytes += (double)cleave_tensor_size(output) * (double)cleave_stored_bytes(output);
    }
    return bytes;
}

/* Of what keeps no more than the layout does, since it may have no room for more: the recomputing
   that does most of the work as often.  Where all keep more, the one that keeps least. */
static cleave_status choose_recompute(finder *f, cleave_launch *of, cleave_error *error) {
    double most = -1, room = kept_bytes(f->model, f->layout->recompute), least = INFINITY;
    cleave_layout marked = {.recompute = CLEAVE_ARENA_ARRAY(f->arena, bool, f->model->n_operators)};
    if (marked.recompute == NULL)
        return cleave_fail_memory(error, "finding a launch");
    for (int what = 0; what < CLEAVE_N_RECOMPUTES; what++) {
        double same = 0;
        if ((launchers[of->launcher].recomputes & BIT(what)) == 0)
            continue;
        CLEAVE_TRY(cleave_recompute_mark(f->model, (cleave_recompute)what, &marked, error));
        for (int32_t op = 0; op < f->model->n_operators; op++)
            if (marked.recompute[op] == cleave_layout_recomputes(f->layout, op))
                same += f->work[op];
        double kept = kept_bytes(f->model, marked.recompute);
        if (kept <= room ? least > room || same > most : kept < least) {
            most = same;
            least = kept;
            of->recompute = (cleave_recompute)what;
        }
    }
    return CLEAVE_OK;
}

/* Most elements of parameters have so much of their state sharded; or the next more that there is,
   or the most. */
static void choose_sharded(const finder *f, cleave_launch *of) {
    int64_t elements[CLEAVE_N_SHARDED] = {0};
    unsigned has =
        of->pipeline > 1 ? launchers[of->launcher].piped : launchers[of->launcher].sharded;
    bool alone = of->tensor == 1 && of->pipeline == 1;
    int most = 0;
    for (int32_t t = 0; t < f->model->n_tensors; t++)
        if (f->model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER && f->model->tensors[t].rank > 1)
            elements[f->layout->sharded[t]] += cleave_tensor_size(&f->model->tensors[t]);
    for (int s = 1; s < CLEAVE_N_SHARDED; s++)
        most = elements[s] > elements[most] ? s : most;
    if (launchers[of->launcher].plain_alone && !alone)
        has &= ~BIT(CLEAVE_SHARDED_NOTHING);
    while (has >> most == 0)
        most--;
    while ((has & BIT(most)) == 0)
        most++;
    of->sharded = of->data == 1 ? CLEAVE_SHARDED_NOTHING : (cleave_sharded)most;
}

/* ---- all of them ---- */

static bool choose_schedule(const finder *f, cleave_launch *of) {
    const cleave_schedule *schedule = &f->layout->schedule;
    of->virtual_stages = 1;
    of->kind = CLEAVE_SCHEDULE_1F1B;
    if (of->pipeline == 1)
        return true;
    if (schedule->n_stages % of->pipeline != 0)
        return false;
    of->virtual_stages = schedule->n_stages / of->pipeline;
    if (of->virtual_stages > 1)
        of->kind = CLEAVE_SCHEDULE_INTERLEAVED;
    else if ((launchers[of->launcher].kinds & BIT(schedule->kind)) != 0 &&
             !cleave_schedule_kind_goes_round(schedule->kind))
        of->kind = schedule->kind;
    return true;
}

static cleave_status try_all(finder *f, cleave_launch of, cleave_error *error) {
    int32_t n = f->layout->n_devices;
    for (of.pipeline = 1; of.pipeline <= n; of.pipeline++)
        for (of.tensor = 1; of.tensor <= n / of.pipeline; of.tensor++) {
            of.data = n / of.pipeline / of.tensor;
            if (of.data * of.tensor * of.pipeline != n || !choose_schedule(f, &of))
                continue;
            choose_sharded(f, &of);
            CLEAVE_TRY(try_launch(f, of, error));
        }
    return CLEAVE_OK;
}

/* ---- what is lost ---- */

static void lose(finder *f, int32_t op, int32_t tensor, const char *what, const char *why) {
    const cleave_lost lost = {op, tensor, what, why};
    bool kept = what != NULL && why != NULL && CLEAVE_LIST_PUSH(&f->lost, lost);
    f->failed = f->failed || !kept;
}

/* "h 4, n 2", "nothing" */
static const char *describe(finder *f, int32_t op, const cleave_split *split) {
    const char *text = "";
    for (int a = 0; a < f->model->operators[op].n_axes && text != NULL; a++)
        if (split->degree[a] > 1)
            text = cleave_arena_printf(f->arena, "%s%s%s %d", text, text[0] == '\0' ? "" : ", ",
                                       f->model->operators[op].axes[a].name, split->degree[a]);
    return text != NULL && text[0] == '\0' ? "nothing" : text;
}

static void lose_split(finder *f, int32_t op) {
    const cleave_split *a = &f->layout->splits[op], *b = &f->launch->layout.splits[op];
    if (cleave_split_same(a, b))
        return;
    const char *before = describe(f, op, a), *after = describe(f, op, b);
    if (before == NULL || after == NULL)
        f->failed = true;
    else if (strcmp(before, after) == 0)
        lose(f, op, -1, "devices", "its parts are on other devices");
    else
        lose(f, op, -1, before, cleave_arena_printf(f->arena, "%s is split instead", after));
}

static void lose_schedule(finder *f) {
    const cleave_schedule *a = &f->layout->schedule, *b = &f->launch->layout.schedule;
    if (a->n_stages != b->n_stages)
        lose(f, -1, -1, "stages", cleave_arena_printf(f->arena, "there are %d", b->n_stages));
    else if (a->n_stages > 1 && memcmp(a->first_operator, b->first_operator,
                                       (size_t)a->n_stages * sizeof *a->first_operator) != 0)
        lose(f, -1, -1, "stages", "they are cut between layers");
    if (a->n_stages > 1 && a->kind != b->kind)
        lose(f, -1, -1, cleave_schedule_names[a->kind],
             cleave_arena_printf(f->arena, "the schedule is %s", cleave_schedule_names[b->kind]));
    else if (a->n_stages > 1 && a->in_flight != NULL)
        lose(f, -1, -1, "in_flight", "the launcher has its own");
    if (a->n_stages > 1 && a->kind == b->kind && a->sooner != b->sooner)
        lose(f, -1, -1, "sooner", "the launcher puts off gradients of weights");
}

static void list_lost(finder *f) {
    const cleave_layout *a = f->layout, *b = &f->launch->layout;
    lose_schedule(f);
    for (int32_t op = 0; op < f->model->n_operators; op++) {
        lose_split(f, op);
        if (cleave_layout_recomputes(a, op) != cleave_layout_recomputes(b, op))
            lose(f, op, -1, "recompute",
                 cleave_layout_recomputes(b, op) ? "it is, too" : "what backward reads is kept");
    }
    for (int32_t t = 0; t < f->model->n_tensors; t++)
        if (f->launch->data > 1 && a->sharded[t] != b->sharded[t])
            lose(f, -1, t, cleave_sharded_names[a->sharded[t]],
                 b->sharded[t] == CLEAVE_SHARDED_NOTHING
                     ? "its state is not sharded"
                     : cleave_arena_printf(f->arena, "it is sharded by %s",
                                           cleave_sharded_names[b->sharded[t]]));
    if (f->launch->launcher == CLEAVE_LAUNCHER_TORCHTITAN && f->model->precision != CLEAVE_F32 &&
        f->model->precision != CLEAVE_BF16)
        lose(f, -1, -1, "precision", "it is bf16");
}

/* ---- the whole ---- */

/* Of texts: the last dimension of the first ids. */
static int64_t find_sequence(const cleave_model *model) {
    for (int32_t i = 0; i < model->n_inputs; i++) {
        int32_t t = model->inputs[i].tensor;
        if (t >= 0 && model->tensors[t].below > 0 && model->tensors[t].rank == 2)
            return model->tensors[t].shape[1];
    }
    return 0;
}

static cleave_status begin(finder *f, cleave_error *error) {
    int32_t n = f->model->n_operators;
    f->work = CLEAVE_ARENA_ARRAY(f->arena, double, n);
    for (int i = 0; i < 2; i++)
        f->part[i] = CLEAVE_ARENA_ARRAY(f->arena, int32_t, f->layout->n_devices);
    if (f->work == NULL || f->part[0] == NULL || f->part[1] == NULL)
        return cleave_fail_memory(error, "finding a launch");
    for (int32_t op = 0; op < n; op++) {
        const cleave_nest *nest = &f->model->nests[f->model->operators[op].main_nest];
        f->work[op] = 1;
        for (int a = 0; a < nest->n_axes; a++)
            f->work[op] *= (double)nest->axes[a].extent;
    }
    return CLEAVE_OK;
}

/* Launchers have transformers: what has attention by heads. */
static cleave_status check_model(finder *f, cleave_launcher launcher, cleave_error *error) {
    const cleave_machine one = {.name = "", .n_devices = 1};
    cleave_layout layout;
    bool applies;
    CLEAVE_TRY(cleave_baseline_layout(f->model, &one, "megatron", 0, &f->scratch, &layout, &applies,
                                      error));
    if (!applies || !cleave_model_trains(f->model) || f->model->batch <= 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: %s trains transformers, and this has no %s", f->model->file,
                           cleave_launcher_names[launcher],
                           !applies                        ? "attention by heads"
                           : cleave_model_trains(f->model) ? "batch of its own"
                                                           : "loss");
    return CLEAVE_OK;
}

static cleave_status find(finder *f, cleave_launcher launcher, cleave_error *error) {
    cleave_launch of = {.launcher = launcher,
                        .micro_batches = f->layout->schedule.micro_batches,
                        .batch = f->model->batch,
                        .sequence = find_sequence(f->model),
                        .precision = f->model->precision};
    CLEAVE_TRY(begin(f, error));
    CLEAVE_TRY(check_model(f, launcher, error));
    CLEAVE_TRY(choose_recompute(f, &of, error));
    CLEAVE_TRY(try_all(f, of, error));
    if (f->launch->alike < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s has no launch of %s: %lld samples in %d micro-batches on %d devices "
                           "can't be shared out evenly",
                           cleave_launcher_names[launcher], f->model->file,
                           (long long)f->model->batch, of.micro_batches, f->layout->n_devices);
    CLEAVE_TRY(lay_out(f, f->launch, f->arena, error));
    list_lost(f);
    cleave_lost *lost = CLEAVE_ARENA_ARRAY(f->arena, cleave_lost, f->lost.n);
    if (lost == NULL || f->failed)
        return cleave_fail_memory(error, "finding a launch");
    if (f->lost.n > 0)
        memcpy(lost, f->lost.items, (size_t)f->lost.n * sizeof *lost);
    f->launch->lost = lost;
    f->launch->n_lost = f->lost.n;
    return CLEAVE_OK;
}

cleave_status cleave_launch_find(const cleave_model *model, const cleave_layout *layout,
                                 cleave_launcher launcher, cleave_arena *arena,
                                 cleave_launch *launch, cleave_error *error) {
    cleave_launch nearest = {.alike = -1};
    finder f = {.model = model, .layout = layout, .launch = &nearest, .arena = arena};
    cleave_status status = find(&f, launcher, error);
    CLEAVE_LIST_FREE(&f.lost);
    cleave_arena_free(&f.scratch);
    if (status == CLEAVE_OK)
        *launch = nearest;
    return status;
}
