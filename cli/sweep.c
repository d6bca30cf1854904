/* `cleave sweep`: one search for each point of what is varied.

   A point is `cleave search` as a child with one thread, so it is what anyone gets who searches
   there alone, and as many run at once as there are workers.  A layout is moved in among the plans,
   and sweep.json written anew, when its point is done: whenever the sweep ends, what is there is
   whole, and --resume goes on from it. */
#include "base/file.h"
#include "base/process.h"
#include "base/progress.h"
#include "cli/child.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/search/options.h"
#include "cli/sweep/report.h"
#include "costmodel/machine.h"
#include "search/improve/parallel.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct sweep_values {
    search_request request;
    option_texts vary;
    const char *output;
    int64_t workers;
    double price, samples;
    bool resume;
} sweep_values;

static const option_row rows[] = {
    ROW_MODEL,
    ROW_MACHINE,
    {"--vary", "NAME=VALUES", OPTION_TEXT_LIST, offsetof(sweep_values, vary), .required = true,
     .help = "an option of search or a figure of the machine, and its values: devices=8..512, "
             "batch=64,96, network.bandwidth=10..400x4Gbit/s, optimizer=sgd,adam"},
    SEARCH_ROWS,
    {"--workers", "N", OPTION_INTEGER, offsetof(sweep_values, workers), .least = 1, .most = 256,
     .help = "points that are searched at once (default one for each core); they change nothing "
             "but the time that it takes"},
    {"--price-per-device-hour", "P", OPTION_NUMBER, offsetof(sweep_values, price), .least = 1e-9,
     .most = 1e9, .help = "what an hour of a device costs, in whatever money"},
    {"--samples", "N", OPTION_NUMBER, offsetof(sweep_values, samples), .least = 1, .most = 1e18,
     .help = "samples that are to be trained on: how many days that takes, and what it costs"},
    {"--resume", NULL, OPTION_FLAG, offsetof(sweep_values, resume),
     .help = "go on with what the folder has"},
    {"-o", "FOLDER", OPTION_TEXT, offsetof(sweep_values, output), .required = true,
     .help = "where sweep.csv, sweep.json, sweep.html and the plans are written"},
    ROW_JSON,
    ROW_QUIET,
};
static const option_row search_rows[] = {SEARCH_ROWS};
static const option_table searches = COMMAND_OPTIONS(search_rows);
static const option_table all = COMMAND_OPTIONS(rows);

/* ---- the folder ------------------------------------------------------------------------------ */

enum { PATH_BYTES = 1024 };

/* "FOLDER/plans/NAME"; an empty folder or name is left out. */
static void join(const char *output, const char *folder, const char *name, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s%s%s%s%s", output, folder[0] != '\0' ? "/" : "", folder,
             name[0] != '\0' ? "/" : "", name);
}

static cleave_status make_folder(const char *path, cleave_error *error) {
    struct stat info;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: no folder can be made: %s", path,
                           strerror(errno));
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode)
               ? CLEAVE_OK
               : cleave_fail(error, CLEAVE_BAD_INPUT, "%s: is no folder", path);
}

static bool is_of_a_point(const sweep *of, const char *file) {
    for (int32_t p = 0; p < of->plan.n_points; p++)
        if (strncmp(file, of->plan.points[p].name, strlen(of->plan.points[p].name)) == 0)
            return true;
    return false;
}

/* What points that did not end have left, and the folder of it.  A search that was ended while it
   wrote has left a file whose name has more than the point's. */
static void remove_unfinished(const sweep *of, const char *output) {
    char folder[PATH_BYTES], path[PATH_BYTES];
    join(output, "unfinished", "", folder);
    DIR *files = opendir(folder);
    for (struct dirent *file; files != NULL && (file = readdir(files)) != NULL;)
        if (is_of_a_point(of, file->d_name)) {
            join(output, "unfinished", file->d_name, path);
            unlink(path);
        }
    if (files != NULL)
        closedir(files);
    rmdir(folder);
}

static cleave_status prepare_folder(const sweep *of, const char *output, cleave_error *error) {
    char path[PATH_BYTES];
    CLEAVE_TRY(make_folder(output, error));
    join(output, "plans", "", path);
    CLEAVE_TRY(make_folder(path, error));
    join(output, "unfinished", "", path);
    CLEAVE_TRY(make_folder(path, error));
    for (int32_t m = 0; m < of->plan.n_machines; m++) {
        const sweep_machine *machine = &of->plan.machines[m];
        if (machine->name == NULL)
            continue;
        join(output, "plans", machine->name, path);
        CLEAVE_TRY(cleave_machine_write(path, machine->machine, error));
    }
    return CLEAVE_OK;
}

/* A point whose layout is gone is to be done again. */
static void forget_missing(sweep *of, const char *output) {
    char path[PATH_BYTES];
    for (int32_t p = 0; p < of->plan.n_points; p++) {
        join(output, "plans", of->plan.points[p].name, path);
        if (of->records[p].why == NULL && access(path, R_OK) != 0)
            of->records[p] = (sweep_record){0};
    }
}

/* A folder that has a sweep is not written over. */
static cleave_status read_state(sweep *of, const sweep_values *values, cleave_arena *arena,
                                cleave_error *error) {
    char path[PATH_BYTES], *text;
    size_t bytes;
    if (strlen(values->output) > PATH_BYTES - 300)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "-o: the path of the folder is too long");
    join(values->output, "", "sweep.json", path);
    if (access(path, F_OK) != 0)
        return CLEAVE_OK;
    if (!values->resume)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: a sweep is here: --resume goes on with it, or take another folder",
                           path);
    CLEAVE_TRY(cleave_file_read(path, arena, &text, &bytes, error));
    CLEAVE_TRY(sweep_parse(text, bytes, path, arena, of, error));
    forget_missing(of, values->output);
    return CLEAVE_OK;
}

/* ---- points ---------------------------------------------------------------------------------- */

typedef struct running {
    const sweep_values *values;
    sweep *of;
    cleave_arena *arena; /* of the records */
    const volatile sig_atomic_t *interrupted;
    cleave_progress progress;
    pthread_mutex_t mutex; /* of what follows, the records and their arena */
    int32_t n_done;
    int32_t n_wave, *wave; /* points of this wave that are to be done */
} running;

/* A worker on its point. */
typedef struct working {
    running *run;
    int32_t worker;
} working;

static void show(running *r) {
    char note[64];
    pthread_mutex_lock(&r->mutex);
    int32_t n = r->of->plan.n_points, n_done = r->n_done;
    pthread_mutex_unlock(&r->mutex);
    snprintf(note, sizeof note, "%d of %d points", n_done, n);
    cleave_progress_update(&r->progress, (double)n_done / n, note);
}

static bool go_on(void *context) {
    working *w = context;
    if (w->worker == 0)
        show(w->run);
    return *w->run->interrupted == 0;
}

static void wait_for_others(void *context) { show(context); }

static cleave_status fail_interrupted(const running *r, cleave_error *error) {
    return cleave_fail(
        error, CLEAVE_FAILED,
        "interrupted: %d of %d points are done, and --resume goes on with the others", r->n_done,
        r->of->plan.n_points);
}

/* `search` with all that is asked for at the point.  `paths` has room for names of files. */
typedef struct point_command {
    child_arguments child;
    char machine[PATH_BYTES], layout[PATH_BYTES], known[SWEEP_MOST_NEIGHBOURS][PATH_BYTES];
} point_command;

static void make_command(const running *r, int32_t p, point_command *c) {
    const sweep_plan *plan = &r->of->plan;
    const sweep_point *point = &plan->points[p];
    const char *output = r->values->output, *machine = plan->machines[point->machine].name;
    int32_t neighbours[SWEEP_MOST_NEIGHBOURS];
    int32_t n = sweep_plan_neighbours(plan, p, neighbours);
    join(output, "plans", machine != NULL ? machine : "", c->machine);
    join(output, "unfinished", point->name, c->layout);
    c->child =
        (child_arguments){.words = {"search", "--quiet", "--json", "--threads", "1"}, .n = 5};
    child_add_text(&c->child, "--model", r->values->request.common.model);
    child_add_text(&c->child, "--machine",
                   machine != NULL ? c->machine : r->values->request.common.machine);
    child_add_text(&c->child, "-o", c->layout);
    for (int i = 0; i < plan->n_options; i++)
        child_add(&c->child, plan->options[i]);
    for (int32_t a = 0; a < plan->n_axes; a++)
        if (plan->axes[a].option != NULL)
            child_add_text(&c->child, plan->axes[a].option->name,
                           plan->axes[a].texts[point->at[a]]);
    for (int32_t i = 0; i < n; i++)
        if (r->of->records[neighbours[i]].why == NULL) {
            join(output, "plans", plan->points[neighbours[i]].name, c->known[i]);
            child_add_text(&c->child, "--known", c->known[i]);
        }
}

static cleave_status write_state(const running *r, cleave_error *error) {
    char path[PATH_BYTES];
    cleave_json_writer w = {0};
    sweep_put(r->of, &w);
    join(r->values->output, "", "sweep.json", path);
    return cleave_json_write_file(&w, path, "writing down a sweep", error);
}

/* Keeps what came of a point; others wait. */
static cleave_status keep(running *r, int32_t p, cleave_status searched,
                          const cleave_json *document, const char *message, cleave_error *error) {
    sweep_record *record = &r->of->records[p];
    char from[PATH_BYTES], to[PATH_BYTES];
    if (searched == CLEAVE_NO_LAYOUT) {
        *record = (sweep_record){.is_done = true, .why = cleave_arena_string(r->arena, message)};
        if (record->why == NULL)
            return cleave_fail_memory(error, "sweeping");
    } else {
        join(r->values->output, "unfinished", r->of->plan.points[p].name, from);
        join(r->values->output, "plans", r->of->plan.points[p].name, to);
        CLEAVE_TRY(sweep_record_take(document, r->arena, record, error));
        if (rename(from, to) != 0)
            return cleave_fail(error, CLEAVE_FAILED, "%s: can't be moved to %s: %s", from, to,
                               strerror(errno));
    }
    r->n_done++;
    return write_state(r, error);
}

static cleave_status do_point(running *r, int32_t worker, int32_t p, cleave_error *error) {
    working w = {r, worker};
    const child_watch watch = {go_on, &w};
    point_command asked;
    cleave_json *document = NULL;
    cleave_error why = {""};
    make_command(r, p, &asked);
    cleave_status status = child_watch_json(asked.child.words, &watch, &document, &why);
    if (*r->interrupted == 0 && (status == CLEAVE_OK || status == CLEAVE_NO_LAYOUT)) {
        pthread_mutex_lock(&r->mutex);
        cleave_status kept = keep(r, p, status, document, why.message, error);
        pthread_mutex_unlock(&r->mutex);
        cleave_json_free(document);
        return kept;
    }
    cleave_json_free(document);
    if (*r->interrupted != 0)
        return fail_interrupted(r, error);
    char at[256];
    sweep_plan_describe(&r->of->plan, &r->of->plan.points[p], -1, at, sizeof at);
    return cleave_fail(error, status, "%s: %s", at, why.message);
}

static cleave_status run_task(void *context, int32_t worker, int32_t task, cleave_error *error) {
    running *r = context;
    if (*r->interrupted != 0)
        return fail_interrupted(r, error);
    return do_point(r, worker, r->wave[task], error);
}

static cleave_status run_waves(running *r, cleave_error *error) {
    const sweep_plan *plan = &r->of->plan;
    int64_t workers = r->values->workers;
    for (int32_t wave = 0; wave < SWEEP_N_WAVES; wave++) {
        r->n_wave = 0;
        for (int32_t p = 0; p < plan->n_points; p++)
            if (plan->points[p].wave == wave && !r->of->records[p].is_done)
                r->wave[r->n_wave++] = p;
        const cleave_parallel parallel = {.n_threads = workers > 0 ? (int32_t)workers
                                                                   : cleave_process_cores(),
                                          .n_tasks = r->n_wave,
                                          .task = run_task,
                                          .wait = wait_for_others,
                                          .context = r};
        CLEAVE_TRY(cleave_parallel_run(&parallel, error));
    }
    return CLEAVE_OK;
}

static cleave_status run_points(const sweep_values *values, sweep *of, cleave_arena *arena,
                                cleave_error *error) {
    running r = {.values = values,
                 .of = of,
                 .arena = arena,
                 .interrupted = interrupt_watch(),
                 .mutex = PTHREAD_MUTEX_INITIALIZER,
                 .wave = CLEAVE_ARENA_ARRAY(arena, int32_t, of->plan.n_points)};
    if (r.wave == NULL)
        return cleave_fail_memory(error, "sweeping");
    for (int32_t p = 0; p < of->plan.n_points; p++)
        r.n_done += of->records[p].is_done;
    cleave_progress_begin(&r.progress, "sweeping", values->request.common.quiet);
    cleave_status status = run_waves(&r, error);
    cleave_progress_end(&r.progress);
    remove_unfinished(of, values->output);
    interrupt_ignore();
    return status == CLEAVE_OK ? write_state(&r, error) : status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The model of the first point: what is wrong with it is wrong for all, mostly. */
static cleave_status hash_model(const sweep *of, cleave_arena *arena, const char **hash,
                                cleave_error *error) {
    search_request request;
    cleave_model model;
    cleave_arena scratch = {0};
    CLEAVE_TRY(sweep_plan_request(&of->plan, &of->plan.points[0], &request, error));
    request.common.forward = false;
    cleave_status status = inputs_model(&request.common, &scratch, &model, error);
    if (status == CLEAVE_OK) {
        *hash = cleave_arena_string(arena, model.hash);
        status = *hash != NULL ? CLEAVE_OK : cleave_fail_memory(error, "sweeping");
    }
    cleave_arena_free(&scratch);
    return status;
}

static cleave_status report(const sweep_values *values, const sweep *of, cleave_arena *arena,
                            cleave_error *error) {
    char path[PATH_BYTES];
    join(values->output, "", "sweep.csv", path);
    CLEAVE_TRY(sweep_write_csv(of, path, arena, error));
    join(values->output, "", "sweep.html", path);
    CLEAVE_TRY(sweep_write_page(of, path, arena, error));
    if (values->request.common.json) {
        cleave_json_writer w = {0};
        sweep_put(of, &w);
        return inputs_print_json(&w, error);
    }
    sweep_print_text(of, arena);
    printf(
        "Written to %s: sweep.csv, sweep.json, sweep.html, and a layout of each point in plans.\n",
        values->output);
    return CLEAVE_OK;
}

static cleave_status sweep_all(const void *any, char *const *arguments, cleave_arena *arena,
                               cleave_error *error) {
    const sweep_values *values = any;
    sweep of = {.plan.request = &values->request, .question = {values->price, values->samples}};
    int n_arguments = 0;
    while (arguments[n_arguments] != NULL)
        n_arguments++;
    of.plan.n_options = options_repeat(&all, &searches, n_arguments - 2, arguments + 2,
                                       of.plan.options, SWEEP_MOST_OPTIONS);
    CLEAVE_TRY(sweep_plan_create(&searches, &values->vary, arena, &of.plan, error));
    CLEAVE_TRY(hash_model(&of, arena, &of.model_hash, error));
    of.records = CLEAVE_ARENA_ARRAY(arena, sweep_record, of.plan.n_points);
    if (of.records == NULL)
        return cleave_fail_memory(error, "sweeping");
    CLEAVE_TRY(read_state(&of, values, arena, error));
    CLEAVE_TRY(prepare_folder(&of, values->output, error));
    CLEAVE_TRY(run_points(values, &of, arena, error));
    return report(values, &of, arena, error);
}

const command command_sweep = {
    .name = "sweep",
    .summary = "search at every point of what is varied",
    .details = "Searches once for each combination of the values: tables, a page with curves,\n"
               "and the plan of each point.  The result depends on no number of workers.\n"
               "Ctrl-C keeps the points that are done, and --resume goes on with the others.",
    .examples = "  cleave sweep --model configs/models/alexnet.onnx --batch 256 \\\n"
                "      --machine configs/machines/p100-4x4.json --method data-parallel \\\n"
                "      --vary devices=1..16 --vary network.bandwidth=10..100Gbit/s -o what-if\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(sweep_values),
    .run = sweep_all,
};
