/* The door from outside: this program knows include/cleave/cleave.h and nothing else of Cleave.
     usage: door TREE FOLDER
            door TREE run|fail      trains as two ranks, or fails for weights that are not there */
#include <cleave/cleave.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;
static void check(bool holds, const char *claim, int line) {
    if (!holds)
        fprintf(stderr, "door.c:%d: %s\n", line, claim);
    failures += !holds;
}
#define CHECK(claim) check((claim), #claim, __LINE__)

/* What every test begins with: LeNet-5 on two devices. */
static cleave_error error;
static cleave_model *model;
static cleave_machine *machine;
static char path[4096], machine_path[4096], folder[4096];

static const char *in(const char *at, const char *name) {
    static char joined[8200];
    snprintf(joined, sizeof joined, "%s/%s", at, name);
    return joined;
}

static void need(cleave_status status) {
    if (status == CLEAVE_OK)
        return;
    fprintf(stderr, "door.c: %s\n", error.message);
    exit(1);
}

static cleave_layout *data_parallel(void) {
    cleave_layout *layout;
    need(cleave_layout_baseline(model, machine, "data-parallel", 0, &layout, &error));
    return layout;
}

static double step_of(const cleave_layout *layout) {
    cleave_simulation *simulation;
    need(cleave_layout_simulate(model, machine, layout, NULL, &simulation, &error));
    double seconds = simulation->step_seconds;
    cleave_simulation_free(simulation);
    return seconds;
}

static void errors_are_one_line_and_write_nothing(void) {
    cleave_model *none = NULL;
    CHECK(cleave_model_load("nowhere.onnx", NULL, &none, &error) == CLEAVE_BAD_INPUT);
    CHECK(none == NULL && strstr(error.message, "nowhere.onnx") != NULL);
    CHECK(strchr(error.message, '\n') == NULL);
    CHECK(cleave_model_load("nowhere.onnx", NULL, &none, NULL) == CLEAVE_BAD_INPUT);
    cleave_layout *layout = NULL;
    CHECK(cleave_layout_baseline(model, machine, "magic", 0, &layout, &error) == CLEAVE_BAD_INPUT);
    CHECK(layout == NULL && strstr(error.message, "magic") != NULL);
    cleave_machine *broken = NULL;
    CHECK(cleave_machine_load_text("{}", 2, "mine", 0, &broken, &error) == CLEAVE_BAD_INPUT);
    CHECK(broken == NULL && strstr(error.message, "mine") != NULL);
    cleave_model_free(NULL);
    cleave_machine_free(NULL);
    cleave_layout_free(NULL);
    cleave_search_outcome_free(NULL);
    cleave_simulation_free(NULL);
    cleave_explanation_free(NULL);
    cleave_run_outcome_free(NULL);
}

/* As a program that was compiled with a later, or an earlier, version has them. */
static void settings_of_other_versions_are_read(void) {
    struct {
        cleave_model_settings known;
        int64_t later;
    } larger = {.known = CLEAVE_MODEL_SETTINGS_INIT};
    cleave_model *other = NULL;
    larger.known.size = sizeof larger;
    larger.known.batch = 16;
    CHECK(cleave_model_load(path, &larger.known, &other, &error) == CLEAVE_OK);
    cleave_model_free(other);
    other = NULL;
    larger.later = 1;
    CHECK(cleave_model_load(path, &larger.known, &other, &error) == CLEAVE_BAD_INPUT);
    CHECK(other == NULL && strstr(error.message, "later") != NULL);

    /* An earlier version had no `forward`: what lies behind its settings is not looked at. */
    cleave_model_settings smaller = {
        .size = offsetof(cleave_model_settings, forward), .batch = 16, .forward = true};
    cleave_search_outcome *found = NULL;
    CHECK(cleave_model_load(path, &smaller, &other, &error) == CLEAVE_OK);
    CHECK(cleave_layout_search(other, machine, NULL, &found, &error) == CLEAVE_OK);
    cleave_search_outcome_free(found);
    cleave_model_free(other);

    other = NULL;
    cleave_model_settings without = {.batch = 16};
    CHECK(cleave_model_load(path, &without, &other, &error) == CLEAVE_BAD_INPUT && other == NULL);
    CHECK(strstr(error.message, "_INIT") != NULL);
}

static void a_model_tells_its_operators(void) {
    int64_t extent = 0;
    /* LeNet-5: 6x25+6 + 16x6x25+16 + 120x400+120 + 84x120+84 + 10x84+10. */
    CHECK(cleave_model_parameter_count(model) == 61706);
    int32_t n = cleave_operator_count(model);
    CHECK(n > 5 && cleave_operator_name(model, n) == NULL &&
          cleave_operator_name(model, -1) == NULL);
    for (int32_t op = 0; op < n; op++)
        CHECK(cleave_operator_name(model, op) != NULL);
    CHECK(strcmp(cleave_operator_axis(model, 0, 0, &extent), "n") == 0 && extent == 256);
    CHECK(cleave_operator_axis(model, 0, 100, NULL) == NULL);
}

static void a_language_model_is_loaded_by_its_configuration(const char *tree) {
    cleave_model_settings settings = CLEAVE_MODEL_SETTINGS_INIT;
    cleave_model *by_name = NULL;
    const char *gpt2 = in(tree, "configs/models/gpt2.json");
    settings.batch = 2;
    CHECK(cleave_model_load(gpt2, &settings, &by_name, &error) == CLEAVE_BAD_INPUT);
    settings.sequence = 16;
    need(cleave_model_load(gpt2, &settings, &by_name, &error));
    CHECK(cleave_model_parameter_count(by_name) == 124439808);
    cleave_model_free(by_name);
}

static void a_layout_is_read_as_it_was_written(void) {
    cleave_layout *layout = data_parallel(), *again;
    char text[65536];
    need(cleave_layout_write(in(folder, "a.layout.json"), model, layout, &error));
    need(cleave_layout_load(in(folder, "a.layout.json"), model, &again, &error));
    CHECK(cleave_layout_device_count(again) == 2);
    for (int32_t op = 0; op < cleave_operator_count(model); op++) {
        int32_t n, m;
        const int32_t *a = cleave_layout_parts(layout, op, &n);
        const int32_t *b = cleave_layout_parts(again, op, &m);
        CHECK(n == m && memcmp(a, b, (size_t)n * sizeof *a) == 0);
        CHECK(cleave_layout_degree(layout, op, 0) == cleave_layout_degree(again, op, 0));
    }
    CHECK(cleave_layout_degree(again, 0, 0) == 2);
    cleave_layout_free(again);
    FILE *file = fopen(in(folder, "a.layout.json"), "r");
    size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    need(cleave_layout_load_text(text, bytes, "text", model, &again, &error));
    CHECK(step_of(again) == step_of(layout));
    cleave_layout_free(again);
    cleave_layout_free(layout);
}

static void a_layout_can_be_changed(void) {
    cleave_layout *layout = data_parallel();
    const int32_t whole[16] = {0}, thrice[16] = {3}, on_1[] = {1}, on_both[] = {0, 1, 2};
    int32_t n;
    double before = step_of(layout);
    CHECK(cleave_layout_change(layout, model, 0, 1, thrice, on_both, &error) == CLEAVE_BAD_INPUT);
    CHECK(cleave_layout_degree(layout, 0, 0) == 2 && step_of(layout) == before);
    CHECK(cleave_layout_change(layout, model, 10000, 1, whole, on_1, &error) == CLEAVE_BAD_INPUT);
    need(cleave_layout_change(layout, model, 0, 1, whole, on_1, &error));
    CHECK(cleave_layout_parts(layout, 0, &n)[0] == 1 && n == 1);
    CHECK(cleave_layout_degree(layout, 0, 0) == 1 && step_of(layout) != before);
    cleave_layout_free(layout);
}

static void a_simulation_has_its_timeline(void) {
    cleave_layout *layout = data_parallel();
    cleave_simulation *simulation;
    cleave_simulation_settings settings = CLEAVE_SIMULATION_SETTINGS_INIT;
    char trace[8200];
    snprintf(trace, sizeof trace, "%s/trace.json", folder);
    settings.timeline = true;
    settings.trace = trace;
    need(cleave_layout_simulate(model, machine, layout, &settings, &simulation, &error));
    double last = 0, lane_end[2][2] = {{0}};
    for (int32_t i = 0; i < simulation->n_items; i++) {
        const cleave_timed_item *item = &simulation->items[i];
        double *end = &lane_end[item->device][item->lane];
        CHECK(item->start_seconds >= *end && item->end_seconds >= item->start_seconds);
        CHECK(item->label[0] != '\0');
        CHECK(i == 0 || item->device >= item[-1].device);
        *end = item->end_seconds;
        last = fmax(last, item->end_seconds);
    }
    CHECK(simulation->n_items > 100 && last == simulation->step_seconds);
    CHECK(simulation->n_devices == 2 && simulation->bytes_sent > 4 * 61706);
    CHECK(simulation->peak_bytes[0] > 61706 * 4 && simulation->peak_bytes[1] > 61706 * 4);
    CHECK(fabs(simulation->measured + simulation->predicted + simulation->data_sheet - 1) < 1e-9);
    FILE *file = fopen(trace, "r");
    CHECK(file != NULL);
    fclose(file);
    cleave_simulation_free(simulation);
    cleave_machine *one;
    need(cleave_machine_load(machine_path, 1, &one, &error));
    CHECK(cleave_layout_simulate(model, one, layout, NULL, &simulation, &error) ==
          CLEAVE_BAD_INPUT);
    CHECK(strstr(error.message, "for 2 devices, but 1 ") != NULL);
    cleave_machine_free(one);
    cleave_layout_free(layout);

    need(cleave_layout_baseline(model, machine, "single", 0, &layout, &error));
    need(cleave_layout_simulate(model, machine, layout, &settings, &simulation, &error));
    for (int32_t i = 0; i < simulation->n_items; i++)
        CHECK(simulation->items[i].device == 0);
    CHECK(simulation->n_items > 10 && simulation->bytes_sent == 0);
    cleave_simulation_free(simulation);
    cleave_layout_free(layout);
}

/* 16 devices in 4 nodes, which all do the same. */
static void some_devices_stand_for_all(char *tree) {
    char k80[4200];
    cleave_simulation_settings settings = CLEAVE_SIMULATION_SETTINGS_INIT;
    cleave_simulation *folded, *whole;
    cleave_machine *many;
    cleave_layout *layout;
    snprintf(k80, sizeof k80, "%s/configs/machines/k80-16x4.json", tree);
    need(cleave_machine_load(k80, 16, &many, &error));
    need(cleave_layout_baseline(model, many, "data-parallel", 0, &layout, &error));
    settings.closed_form = true;
    need(cleave_layout_simulate(model, many, layout, &settings, &folded, &error));
    settings.timeline = true;
    need(cleave_layout_simulate(model, many, layout, &settings, &whole, &error));
    CHECK(folded->step_seconds == whole->step_seconds && folded->n_devices == 16);
    CHECK(memcmp(folded->peak_bytes, whole->peak_bytes, 16 * sizeof(int64_t)) == 0);
    CHECK(whole->n_items > 0 && whole->items[whole->n_items - 1].device == 15);
    cleave_simulation_free(folded);
    cleave_simulation_free(whole);
    cleave_layout_free(layout);
    need(cleave_layout_baseline(model, many, "layer-per-device", 0, &layout, &error));
    settings.timeline = false; /* that one does not fold */
    need(cleave_layout_simulate(model, many, layout, &settings, &whole, &error));
    CHECK(whole->step_seconds > 0);
    cleave_simulation_free(whole);
    cleave_layout_free(layout);
    cleave_machine_free(many);
}

static double sum_of(const cleave_critical_time *time) {
    return time->compute_seconds + time->exchange_seconds + time->sync_seconds +
           time->waiting_seconds;
}

static void an_explanation_adds_up(void) {
    cleave_layout *layout = data_parallel();
    cleave_explanation *why;
    need(cleave_layout_explain(model, machine, layout, NULL, &why, &error));
    double step = step_of(layout), sum = 0;
    CHECK(why->step_seconds == step && fabs(sum_of(&why->critical) - step) < 1e-9 * step);
    CHECK(why->n_operators == cleave_operator_count(model));
    for (int32_t i = 0; i < why->n_operators; i++) {
        const cleave_explained_operator *of = &why->operators[i];
        sum += sum_of(&of->critical);
        CHECK(of->bound_by[0] != '\0');
        if (of->other_step_seconds > 0)
            CHECK(cleave_layout_change(layout, model, of->op, of->other_replicas, of->other_degree,
                                       of->other_devices, &error) == CLEAVE_OK);
    }
    CHECK(sum > 0 && sum <= step * (1 + 1e-9));
    cleave_explanation_free(why);
    cleave_layout_free(layout);
}

/* Is any operator split along an axis of this name? */
static bool splits(const cleave_layout *layout, const char *name) {
    for (int32_t op = 0; op < cleave_operator_count(model); op++)
        for (int32_t a = 0; cleave_operator_axis(model, op, a, NULL) != NULL; a++)
            if (strcmp(cleave_operator_axis(model, op, a, NULL), name) == 0 &&
                cleave_layout_degree(layout, op, a) > 1)
                return true;
    return false;
}

static void a_search_finds_what_it_says(void) {
    cleave_search_outcome *found;
    cleave_search_settings settings = CLEAVE_SEARCH_SETTINGS_INIT;
    need(cleave_layout_search(model, machine, NULL, &found, &error));
    CHECK(step_of(found->layout) == found->step_seconds);
    CHECK(found->lower_bound_seconds > 0 && found->lower_bound_seconds <= found->step_seconds);
    int32_t n = 0;
    for (; cleave_baseline_name(n) != NULL; n++) {
        CHECK(strcmp(found->baselines[n].name, cleave_baseline_name(n)) == 0);
        CHECK(!found->baselines[n].applies ||
              found->baselines[n].step_seconds >= found->step_seconds);
    }
    CHECK(n == found->n_baselines && found->baselines[0].applies);
    CHECK(splits(found->layout, "n"));
    cleave_search_outcome_free(found);

    settings.only = "parameter";
    settings.leave_malloc = true;
    need(cleave_layout_search(model, machine, &settings, &found, &error));
    CHECK(!splits(found->layout, "n"));
    cleave_search_outcome_free(found);
    settings.memory_limit_bytes = 1000;
    CHECK(cleave_layout_search(model, machine, &settings, &found, &error) == CLEAVE_NO_LAYOUT);
    settings = (cleave_search_settings)CLEAVE_SEARCH_SETTINGS_INIT;
    settings.stages = 2;
    settings.micro_batches = 4;
    settings.schedule = "gpipe";
    settings.recompute = "none"; /* a chain has nothing to gain */
    settings.zero = "2";
    need(cleave_layout_search(model, machine, &settings, &found, &error));
    CHECK(cleave_layout_micro_batch_count(found->layout) == 4);
    CHECK(cleave_layout_stage_count(found->layout) == 2);
    CHECK(strcmp(cleave_layout_schedule(found->layout), "gpipe") == 0);
    int32_t last = cleave_operator_count(model) - 1, n_recomputed = 0;
    CHECK(cleave_layout_stage(found->layout, 0) == 0);
    CHECK(cleave_layout_stage(found->layout, last) == 1);
    CHECK(cleave_layout_stage(found->layout, last + 1) == -1);
    for (int32_t op = 0; op <= last; op++)
        n_recomputed += cleave_layout_is_recomputed(found->layout, op);
    CHECK(n_recomputed == 0);
    cleave_search_outcome_free(found);
    settings.zero = "4";
    CHECK(cleave_layout_search(model, machine, &settings, &found, &error) == CLEAVE_BAD_INPUT);
    CHECK(strstr(error.message, "0, 1, 2, 3") != NULL);
    settings = (cleave_search_settings)CLEAVE_SEARCH_SETTINGS_INIT;
    settings.method = "magic";
    CHECK(cleave_layout_search(model, machine, &settings, &found, &error) == CLEAVE_BAD_INPUT);

    cleave_model_settings forward = CLEAVE_MODEL_SETTINGS_INIT;
    cleave_model *without_loss;
    forward.batch = 16;
    forward.forward = true;
    need(cleave_model_load(path, &forward, &without_loss, &error));
    settings = (cleave_search_settings)CLEAVE_SEARCH_SETTINGS_INIT;
    settings.throughput = true;
    CHECK(cleave_layout_search(model, machine, &settings, &found, &error) == CLEAVE_BAD_INPUT);
    need(cleave_layout_search(without_loss, machine, &settings, &found, &error));
    double apart = found->step_seconds;
    CHECK(found->lower_bound_seconds > 0 && found->lower_bound_seconds <= apart);
    cleave_search_outcome_free(found);
    need(cleave_layout_search(without_loss, machine, NULL, &found, &error));
    CHECK(found->step_seconds >= apart && found->lower_bound_seconds <= found->step_seconds);
    cleave_search_outcome_free(found);
    settings.zero = "1";
    CHECK(cleave_layout_search(without_loss, machine, &settings, &found, &error) ==
          CLEAVE_BAD_INPUT);
    cleave_model_free(without_loss);
}

/* Objects outlive what they were made of. */
static void results_stand_alone(void) {
    cleave_model_settings settings = CLEAVE_MODEL_SETTINGS_INIT;
    cleave_simulation_settings with = CLEAVE_SIMULATION_SETTINGS_INIT;
    cleave_model *other;
    cleave_machine *on;
    cleave_search_outcome *found;
    cleave_simulation *simulation;
    cleave_explanation *why;
    settings.batch = 16;
    with.timeline = true;
    need(cleave_model_load(path, &settings, &other, &error));
    need(cleave_machine_load(machine_path, 0, &on, &error));
    need(cleave_layout_search(other, on, NULL, &found, &error));
    need(cleave_layout_simulate(other, on, found->layout, &with, &simulation, &error));
    need(cleave_layout_explain(other, on, found->layout, NULL, &why, &error));
    cleave_model_free(other);
    cleave_machine_free(on);
    size_t letters = strlen(found->method) + strlen(why->busiest_link);
    for (int32_t i = 0; i < simulation->n_items; i++)
        letters += strlen(simulation->items[i].label);
    for (int32_t i = 0; i < why->n_operators; i++)
        letters += strlen(why->operators[i].bound_by) + (size_t)(why->operators[i].op < 0);
    CHECK(letters > 100 && cleave_layout_device_count(found->layout) == 2);
    cleave_search_outcome_free(found);
    cleave_simulation_free(simulation);
    cleave_explanation_free(why);
}

static void check_run(const cleave_run_outcome *run, const char *trace) {
    FILE *file = fopen(trace, "r");
    CHECK(run->n_steps == 3 && run->n_devices == 2 && run->median_step_seconds > 0);
    for (int64_t i = 0; i < 3; i++)
        CHECK(run->loss[i] > 0 && run->step_seconds[i] > 0);
    CHECK(run->loss[2] < run->loss[0]);
    /* Every gradient is summed over both, and all but the inputs' are sent. */
    CHECK(run->bytes_sent >= 2 * 4 * 61706);
    for (int d = 0; d < 2; d++)
        CHECK(run->peak_bytes[d] > 4 * 61706 && run->resident_bytes[d] > run->peak_bytes[d]);
    CHECK(file != NULL);
    if (file != NULL)
        fclose(file);
    remove(trace);
    if (failures == 0)
        printf("door: trained\n");
}

/* Starts itself as ranks, which train, or are to fail. */
static int run(char **arguments, bool fails) {
    cleave_run_settings settings = CLEAVE_RUN_SETTINGS_INIT;
    cleave_run_outcome *outcome;
    cleave_layout *layout = data_parallel();
    char trace[64];
    snprintf(trace, sizeof trace, "/tmp/cleave-door-%ld.json", (long)getppid());
    settings.weights = fails ? "nowhere.safetensors" : NULL;
    settings.steps = 3;
    settings.trace = trace;
    cleave_status status = cleave_world_is_launched()
                               ? cleave_layout_run(model, layout, &settings, &outcome, &error)
                               : cleave_world_launch_self(2, arguments, &error);
    if (status != CLEAVE_OK && error.message[0] != '\0')
        fprintf(stderr, "door: %s\n", error.message);
    if (status == CLEAVE_OK && cleave_world_is_launched()) {
        if (outcome->rank == 0)
            check_run(outcome, trace);
        cleave_run_outcome_free(outcome);
    }
    return (int)status + failures;
}

int main(int argc, char **argv) {
    cleave_model_settings settings = CLEAVE_MODEL_SETTINGS_INIT;
    char version[64];
    if (argc != 3)
        return 2;
    snprintf(folder, sizeof folder, "%s", argv[2]);
    snprintf(path, sizeof path, "%s/configs/models/lenet5.onnx", argv[1]);
    snprintf(machine_path, sizeof machine_path, "%s/configs/machines/two-cores.json", argv[1]);
    snprintf(version, sizeof version, "%d.%d.%d", CLEAVE_VERSION_MAJOR, CLEAVE_VERSION_MINOR,
             CLEAVE_VERSION_PATCH);
    CHECK(strcmp(cleave_version(), version) == 0);
    settings.batch = 256;
    need(cleave_model_load(path, &settings, &model, &error));
    need(cleave_machine_load(machine_path, 0, &machine, &error));
    CHECK(cleave_machine_device_count(machine) == 2);
    if (strcmp(folder, "fail") == 0 || strcmp(folder, "run") == 0)
        return run(argv, folder[0] == 'f');
    errors_are_one_line_and_write_nothing();
    settings_of_other_versions_are_read();
    a_model_tells_its_operators();
    a_language_model_is_loaded_by_its_configuration(argv[1]);
    a_layout_is_read_as_it_was_written();
    a_layout_can_be_changed();
    a_simulation_has_its_timeline();
    some_devices_stand_for_all(argv[1]);
    an_explanation_adds_up();
    a_search_finds_what_it_says();
    results_stand_alone();
    cleave_machine_free(machine);
    cleave_model_free(model);
    return failures > 0;
}
