/* The report of a run. */
#include "cli/run/report.h"

#include "cli/inputs.h"
#include "cli/table.h"
#include "simulator/report/item_label.h"
#include "simulator/scan/period.h"

cleave_status run_prediction_make(const cleave_run_result *result, const cleave_model *model,
                                  const cleave_machine *machine, cleave_arena *arena,
                                  run_prediction *prediction, cleave_error *error) {
    run_prediction made = {.machine = machine};
    cleave_cost_cache *cache;
    CLEAVE_TRY(cleave_cost_cache_create(model, machine, &cache, error));
    if (result->loads_data)
        cleave_cost_cache_load_data(cache);
    cleave_status status =
        cleave_simulated_step_make(result->program, NULL, cache, arena, &made.step, error);
    cleave_cost_cache_destroy(cache);
    CLEAVE_TRY(status);
    const cleave_timeline_pair pair = {.program = result->program,
                                       .price = made.step.problem.step.duration,
                                       .basis = made.step.prices.basis,
                                       .predicted = &made.step.timeline,
                                       .measured = &result->measured,
                                       .typical_duration = result->typical_duration};
    cleave_timeline_compare(&pair, &made.errors);
    made.step_picoseconds = made.step.timeline.step;
    *prediction = made;
    return CLEAVE_OK;
}

/* The timeline stays that of one step. */
cleave_status run_prediction_of_stream(run_prediction *prediction, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_timeline timeline;
    cleave_engine_workspace *workspace;
    const cleave_engine_problem *problem = &prediction->step.problem;
    cleave_status status = cleave_engine_workspace_create(problem, &scratch, &workspace, error);
    if (status == CLEAVE_OK)
        status = cleave_engine_timeline_create(problem, &scratch, &timeline, error);
    if (status == CLEAVE_OK)
        status =
            cleave_scan_period(problem, workspace, &timeline, &prediction->step_picoseconds, error);
    cleave_arena_free(&scratch);
    return status;
}

/* Of the last steps: each has other samples, so one alone says little. */
static double final_loss(const cleave_run_result *result, int64_t *n) {
    int64_t steps = result->n_steps;
    double sum = 0;
    *n = steps < 10 ? steps : 10;
    for (int64_t s = steps - *n; s < steps; s++)
        sum += result->loss[s];
    return sum / (double)*n;
}

static double seconds_of(int64_t picoseconds) { return 1e-12 * (double)picoseconds; }

static const char *kind_of(const cleave_item_error *e, cleave_item_label label) {
    return e->is_message ? "message" : label.kind;
}

static void put_largest_errors(cleave_json_writer *w, const cleave_program *program,
                               const cleave_timeline_errors *errors) {
    cleave_json_open_array(w, "largest_errors", false);
    for (int32_t i = 0; i < errors->n_largest; i++) {
        const cleave_item_error *e = &errors->largest[i];
        const cleave_item *item = &program->items[e->item];
        cleave_item_label label = cleave_item_label_of(program, item);
        cleave_json_begin_object(w, true);
        cleave_json_set_string(w, "item", label.name);
        cleave_json_set_string(w, "kind", kind_of(e, label));
        cleave_json_set_string(w, "pass", label.pass);
        cleave_json_set_integer(w, "device", item->device);
        cleave_json_set_number(w, "predicted_seconds", seconds_of(e->predicted));
        cleave_json_set_number(w, "measured_seconds", seconds_of(e->measured));
        cleave_json_set_number(w, "error_seconds", seconds_of(e->measured - e->predicted));
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

static void put_time_by_kind(cleave_json_writer *w, const cleave_timeline_errors *errors,
                             int32_t n_devices) {
    cleave_json_open_array(w, "time_by_kind", false);
    for (int row = 0; row < CLEAVE_N_TIME_ROWS; row++) {
        const cleave_time_total *total = &errors->totals[row];
        cleave_json_begin_object(w, true);
        cleave_json_set_string(w, "kind", cleave_time_row_names[row]);
        cleave_json_set_integer(w, "items", total->n);
        cleave_json_set_number(w, "predicted_seconds", seconds_of(total->predicted) / n_devices);
        cleave_json_set_number(w, "measured_seconds", seconds_of(total->measured) / n_devices);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

static void put_losses(cleave_json_writer *w, const run_report *report) {
    const cleave_run_result *result = report->result;
    if (report->text_entropy != NULL && result->loss != NULL) {
        int64_t n;
        cleave_json_set_number(w, "text_entropy", *report->text_entropy);
        cleave_json_set_number(w, "final_loss", final_loss(result, &n));
    }
    cleave_json_set_integer(w, "steps", result->first_step + result->n_steps);
    cleave_json_set_integer(w, "first_step", result->first_step + 1);
    cleave_json_open_array(w, "loss", true);
    for (int64_t s = 0; s < result->n_steps && result->loss != NULL; s++)
        cleave_json_put_number(w, result->loss[s]);
    cleave_json_end_array(w);
    if (result->gradient_norm == NULL)
        return;
    cleave_json_open_array(w, "gradient_norm", true);
    for (int64_t s = 0; s < result->n_steps; s++)
        cleave_json_put_number(w, result->gradient_norm[s]);
    cleave_json_end_array(w);
}

static void put_dropped(cleave_json_writer *w, const cleave_run_result *result) {
    if (result->n_choices == 0)
        return;
    cleave_json_set_integer(w, "choices", result->n_choices);
    cleave_json_open_array(w, "dropped_choices", true);
    for (int64_t s = 0; s < result->n_steps; s++)
        cleave_json_put_integer(w, result->dropped[s]);
    cleave_json_end_array(w);
}

cleave_status run_report_print_json(const run_report *report, cleave_error *error) {
    const cleave_run_result *result = report->result;
    const run_prediction *p = report->prediction;
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, false);
    cleave_json_set_number(&w, "step_seconds", result->median_step_seconds);
    if (p != NULL) {
        cleave_json_set_number(&w, "predicted_step_seconds", seconds_of(p->step_picoseconds));
        price_report_put(&w, &p->step.prices.shares);
    }
    if (result->order.n > 0) {
        cleave_json_set_integer(&w, "samples", result->order.n);
        cleave_json_set_integer(&w, "steps_of_epoch", cleave_sample_order_steps(&result->order));
    }
    put_losses(&w, report);
    put_dropped(&w, result);
    if (result->validated.n_samples > 0) {
        cleave_json_set_integer(&w, "validation_samples", result->validated.n_samples);
        cleave_json_set_number(&w, "validation_loss", result->validated.loss);
        cleave_json_set_number(&w, "validation_accuracy", result->validated.accuracy);
    }
    cleave_json_set_integer(&w, "bytes_sent", result->bytes_sent);
    inputs_put_bytes_between(&w, result->bytes_between, result->n_devices);
    inputs_put_per_device(&w, "peak_bytes", result->peak_bytes, result->n_devices);
    inputs_put_per_device(&w, "rss_peak_bytes", result->rss_peak_bytes, result->n_devices);
    cleave_json_set_integer(&w, "program_bytes", cleave_program_own_bytes(result->program));
    if (result->checkpoint_bytes > 0) {
        cleave_json_set_integer(&w, "checkpoint_bytes", result->checkpoint_bytes);
        cleave_json_set_number(&w, "checkpoint_seconds", result->checkpoint_seconds);
    }
    cleave_json_set_number(&w, "kernel_seconds", result->kernel_seconds);
    cleave_json_set_number(&w, "last_step_seconds", result->last_step_seconds);
    cleave_json_set_number(&w, "processor_seconds", result->median_processor_seconds);
    if (p != NULL) {
        put_time_by_kind(&w, &p->errors, result->n_devices);
        put_largest_errors(&w, result->program, &p->errors);
        cleave_json_set_integer(&w, "messages_compared", p->errors.n_messages_compared);
    }
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}

/* With its sign. */
static void add_error(table *t, double seconds) {
    char text[64];
    cleave_unit_format(seconds, CLEAVE_UNIT_SECONDS, text, sizeof text);
    table_format(t, "%s%s", seconds > 0 ? "+" : "", text);
}

static void print_time_by_kind(const cleave_timeline_errors *errors, int32_t n_devices,
                               cleave_arena *arena) {
    static const char *const heads[] = {"time of a device, mean", "items", "predicted", "measured",
                                        "error"};
    table t = {.arena = arena, .n_columns = 5, .align = "lrrrr"};
    table_heads(&t, heads);
    for (int row = 0; row < CLEAVE_N_TIME_ROWS; row++) {
        const cleave_time_total *total = &errors->totals[row];
        if (total->n == 0 && row != CLEAVE_TIME_WAITING)
            continue;
        table_text(&t, cleave_time_row_names[row]);
        if (row == CLEAVE_TIME_WAITING)
            table_text(&t, "-");
        else
            table_format(&t, "%d", total->n);
        table_quantity(&t, seconds_of(total->predicted) / n_devices, CLEAVE_UNIT_SECONDS);
        table_quantity(&t, seconds_of(total->measured) / n_devices, CLEAVE_UNIT_SECONDS);
        add_error(&t, seconds_of(total->measured - total->predicted) / n_devices);
    }
    printf("\n");
    table_print(&t, stdout);
}

static void print_largest_errors(const cleave_program *program,
                                 const cleave_timeline_errors *errors, cleave_arena *arena) {
    static const char *const heads[] = {"largest errors", "",         "pass", "device",
                                        "predicted",      "measured", "error"};
    if (errors->n_largest == 0)
        return;
    table t = {.arena = arena, .n_columns = 7, .align = "lllrrrr"};
    table_heads(&t, heads);
    for (int32_t i = 0; i < errors->n_largest; i++) {
        const cleave_item_error *e = &errors->largest[i];
        cleave_item_label label = cleave_item_label_of(program, &program->items[e->item]);
        table_text(&t, label.name);
        table_text(&t, kind_of(e, label));
        table_text(&t, label.pass);
        table_format(&t, "%d", program->items[e->item].device);
        table_quantity(&t, seconds_of(e->predicted), CLEAVE_UNIT_SECONDS);
        table_quantity(&t, seconds_of(e->measured), CLEAVE_UNIT_SECONDS);
        add_error(&t, seconds_of(e->measured - e->predicted));
    }
    printf("\n");
    table_print(&t, stdout);
    printf("Measured is the median over several steps; of a message, in the step of median time, "
           "from\n"
           "its later post until its receiver, which waited, had it.  The other messages are left "
           "out.\n");
}

static void add_prediction(table *t, const run_report *report) {
    const run_prediction *p = report->prediction;
    double predicted = seconds_of(p->step_picoseconds);
    char step[160], prices[256];
    price_report_format_step(predicted, &p->step.prices.shares, step, sizeof step);
    price_report_format(&p->step.prices.shares, prices, sizeof prices);
    table_text(t, "step, predicted");
    table_format(t, "%s  (%+.1f %%)", step,
                 100 * (predicted / report->result->median_step_seconds - 1));
    table_text(t, "prices");
    table_text(t, prices);
}

static void add_losses(table *t, const run_report *report) {
    const cleave_run_result *result = report->result;
    if (result->resumed[0] != '\0') {
        table_text(t, "went on from");
        table_format(t, "%s%s%s", result->resumed, result->skipped[0] != '\0' ? "; left out: " : "",
                     result->skipped);
    }
    if (result->loss == NULL || result->n_steps == 0)
        return;
    table_text(t, "loss");
    table_format(t, "%.6g at step %lld, %.6g at step %lld", result->loss[0],
                 (long long)result->first_step + 1, result->loss[result->n_steps - 1],
                 (long long)(result->first_step + result->n_steps));
    if (result->gradient_norm != NULL) {
        table_text(t, "norm of the gradients");
        table_format(t, "%.6g at step %lld, %.6g at step %lld", result->gradient_norm[0],
                     (long long)result->first_step + 1, result->gradient_norm[result->n_steps - 1],
                     (long long)(result->first_step + result->n_steps));
    }
    if (report->text_entropy != NULL) {
        int64_t n;
        double loss = final_loss(result, &n);
        table_format(t, "loss, mean of the last %lld step%s", (long long)n, n == 1 ? "" : "s");
        table_format(t, "%.2f, unigram entropy of the text %.2f nats per byte", loss,
                     *report->text_entropy);
    }
}

/* Of a step, as a share of all choices of all layers. */
static void add_dropped(table *t, const cleave_run_result *result) {
    int64_t last = result->n_steps - 1;
    double percent = 100.0 / (double)result->n_choices;
    if (result->n_choices == 0 || last < 0)
        return;
    table_text(t, "choices of experts dropped");
    table_format(t, "%.3g %% at step %lld, %.3g %% at step %lld, of %lld",
                 percent * (double)result->dropped[0], (long long)result->first_step + 1,
                 percent * (double)result->dropped[last],
                 (long long)(result->first_step + result->n_steps), (long long)result->n_choices);
}

static void add_samples(table *t, const cleave_sample_order *order) {
    if (order->n == 0)
        return;
    int64_t steps = cleave_sample_order_steps(order), left = order->n - steps * order->batch;
    table_text(t, "samples");
    table_format(t, "%lld%s, %lld step%s of %lld an epoch", (long long)order->n,
                 order->shuffled ? ", shuffled" : "", (long long)steps, steps == 1 ? "" : "s",
                 (long long)order->batch);
    if (left == 0)
        return;
    table_text(t, "samples left out of an epoch");
    table_format(t, "%lld, which fill no batch", (long long)left);
}

static void add_validation(table *t, const cleave_validated *validated) {
    if (validated->n_samples == 0)
        return;
    table_text(t, "held out, the last time");
    table_format(t, "loss %.4g, accuracy %.2f %%, of %lld samples", validated->loss,
                 100 * validated->accuracy, (long long)validated->n_samples);
}

static int64_t largest(const int64_t *bytes, int32_t n) {
    int64_t most = 0;
    for (int32_t d = 0; d < n; d++)
        most = bytes[d] > most ? bytes[d] : most;
    return most;
}

static void add_checkpoint(table *t, const cleave_run_result *result) {
    char bytes[32], seconds[32];
    if (result->checkpoint_bytes == 0)
        return;
    cleave_unit_format((double)result->checkpoint_bytes, CLEAVE_UNIT_BYTES, bytes, sizeof bytes);
    cleave_unit_format(result->checkpoint_seconds, CLEAVE_UNIT_SECONDS, seconds, sizeof seconds);
    table_text(t, "checkpoint, the last");
    table_format(t, "%s in %s", bytes, seconds);
}

void run_report_print_text(const run_report *report, cleave_arena *arena) {
    const cleave_run_result *result = report->result;
    table t = {.arena = arena, .n_columns = 2, .align = "ll"};
    add_samples(&t, &result->order);
    add_losses(&t, report);
    add_dropped(&t, result);
    add_validation(&t, &result->validated);
    table_text(&t, "step, median");
    table_quantity(&t, result->median_step_seconds, CLEAVE_UNIT_SECONDS);
    if (report->prediction != NULL)
        add_prediction(&t, report);
    table_text(&t, "arena of the fullest device");
    table_quantity(&t, (double)largest(result->peak_bytes, result->n_devices), CLEAVE_UNIT_BYTES);
    table_text(&t, "resident memory of the fullest device");
    table_quantity(&t, (double)largest(result->rss_peak_bytes, result->n_devices),
                   CLEAVE_UNIT_BYTES);
    table_text(&t, "sent a step, all devices");
    table_quantity(&t, (double)result->bytes_sent, CLEAVE_UNIT_BYTES);
    add_checkpoint(&t, result);
    table_print(&t, stdout);
    if (report->prediction != NULL) {
        print_time_by_kind(&report->prediction->errors, result->n_devices, arena);
        print_largest_errors(result->program, &report->prediction->errors, arena);
    }
}

cleave_status run_report_write_trace(const run_report *report, const char *path,
                                     cleave_error *error) {
    const run_prediction *p = report->prediction;
    cleave_trace trace = {.program = report->result->program,
                          .measured = &report->result->measured};
    cleave_trace_links links;
    if (p != NULL) {
        links = (cleave_trace_links){p->machine, &p->step.problem,
                                     cleave_engine_hop_begin(p->step.workspace)};
        trace.predicted = &p->step.timeline;
        trace.links = &links;
    }
    return cleave_trace_write(path, &trace, error);
}
