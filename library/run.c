/* Running as a rank. */
#include "exec/run.h"
#include "exec/world/ranks.h"
#include "graph/model/attention.h"
#include "graph/model/precision.h"
#include "library/objects.h"
#include "simulator/report/trace.h"

#include <stdlib.h>

typedef struct door_run {
    cleave_run_outcome outcome;
    cleave_arena arena;
} door_run;

static cleave_status set_up(const cleave_run_settings *settings, cleave_run_options *options,
                            cleave_error *error) {
    cleave_optimizer optimizer;
    CLEAVE_TRY(cleave_optimizer_find(settings->optimizer != NULL ? settings->optimizer : "sgd",
                                     &optimizer, error));
    if (settings->learning_rate > 0)
        optimizer.learning_rate = settings->learning_rate;
    optimizer.momentum = settings->momentum;
    if (settings->weight_decay != 0)
        optimizer.weight_decay = settings->weight_decay > 0 ? settings->weight_decay : 0;
    optimizer.clip_norm = settings->clip_norm;
    int64_t steps = settings->steps > 0 ? settings->steps : settings->forward ? 1 : 10;
    const cleave_rate_schedule asked = {.warmup = settings->warmup,
                                        .steps = settings->schedule_steps,
                                        .final = settings->final_rate};
    CLEAVE_TRY(cleave_rate_schedule_make(settings->rate_schedule, &asked, steps,
                                         optimizer.learning_rate, &optimizer.schedule, error));
    double stall = settings->stall_timeout_seconds;
    *options = (cleave_run_options){
        .steps = steps,
        .forward = settings->forward,
        .stream = settings->forward && settings->throughput,
        .optimizer = optimizer,
        .seed = settings->seed,
        .weights = settings->weights,
        .data = settings->data,
        .text = settings->text,
        .save = settings->save,
        .stall_timeout_seconds = stall == 0  ? 60
                                 : stall < 0 ? 0
                                             : stall,
        .from = settings->from,
        .checkpoint = settings->checkpoint,
        .checkpoint_every = settings->checkpoint_every,
        .checkpoint_seconds = settings->checkpoint_seconds,
        .keep = settings->keep == 0  ? 3
                : settings->keep < 0 ? 0
                                     : settings->keep,
        .interrupted = settings->interrupted,
        .timeline = settings->trace != NULL,
        .quiet = !settings->progress,
    };
    return CLEAVE_OK;
}

static cleave_status run(cleave_world *world, const cleave_model *model,
                         const cleave_layout *layout, const cleave_run_options *options,
                         const char *trace_file, door_run *made, cleave_error *error) {
    cleave_run_result result;
    cleave_model fused;
    CLEAVE_TRY(cleave_model_check_runs(model, error));
    CLEAVE_TRY(cleave_model_fuse_attention(model, layout, &made->arena, &fused, error));
    CLEAVE_TRY(cleave_run(world, &fused, layout, options, &made->arena, &result, error));
    made->outcome.rank = cleave_world_rank(world);
    if (made->outcome.rank != 0)
        return CLEAVE_OK;
    made->outcome = (cleave_run_outcome){
        .n_steps = result.n_steps,
        .loss = result.loss,
        .step_seconds = result.step_seconds,
        .median_step_seconds = result.median_step_seconds,
        .bytes_sent = result.bytes_sent,
        .n_devices = result.n_devices,
        .peak_bytes = result.peak_bytes,
        .resident_bytes = result.rss_peak_bytes,
    };
    const cleave_trace trace = {.program = result.program, .measured = &result.measured};
    return trace_file != NULL ? cleave_trace_write(trace_file, &trace, error) : CLEAVE_OK;
}

cleave_status cleave_layout_run(const cleave_model *model, const cleave_layout *layout,
                                const cleave_run_settings *given, cleave_run_outcome **outcome,
                                cleave_error *error) {
    cleave_run_settings settings = CLEAVE_RUN_SETTINGS_INIT;
    cleave_run_options options;
    cleave_world *world;
    cleave_error unseen;
    cleave_error *said = error != NULL ? error : &unseen;
    CLEAVE_TRY(door_take_settings(&settings, sizeof settings, given, said));
    CLEAVE_TRY(set_up(&settings, &options, said));
    CLEAVE_TRY(cleave_run_check(model, layout, &options, said));
    door_run *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(said, "preparing a run");
    cleave_status status = cleave_world_begin(&world, said);
    if (status == CLEAVE_OK) {
        status = run(world, model, layout, &options, settings.trace, made, said);
        cleave_ranks_end(world, "run", status, said);
    }
    if (status == CLEAVE_OK)
        *outcome = &made->outcome;
    else
        cleave_run_outcome_free(&made->outcome);
    return status;
}

void cleave_run_outcome_free(cleave_run_outcome *outcome) {
    door_run *made = (door_run *)outcome;
    if (made != NULL)
        cleave_arena_free(&made->arena);
    free(made);
}
