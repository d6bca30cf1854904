/* Laws 1 and 2 for real: `cleave run` on 1 to 6 MPI ranks under random layouts gives PyTorch's loss
   at every step and its parameters after three, and sends between every pair of devices just the
   bytes that the program says.  Usage: oracles CLEAVE SOURCE_DIR LAYOUTS [PATTERN], of a shell, of
   the models' names; batches are as large, and texts as long, as the inputs beside the model.
 */
#include "../support/drawn_schedule.h"
#include "../support/draws.h"
#include "base/json.h"
#include "exec/data/safetensors.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "graph/model/attention.h"
#include "graph/program/traffic.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INPUTS ".io.safetensors"

enum { N_STEPS = 3 };

typedef struct oracle {
    const char *command, *source, *name;
    char model[512], io[512], expect[512];
    char weights[1200]; /* options of what a configuration leaves open; "" of an ONNX file */
    cleave_arena arena;
    cleave_model imported;
    cleave_safetensors expected;
    char folder[64];
    int batch;
    /* Layouts with micro-batches, stages, recomputation, sharded gradients and weights. */
    int n_cut, n_staged, n_recomputed, n_sharded;
    double worst; /* of |got - want| / (1e-5 + 1e-4 |want|) */
} oracle;

static int fail(const oracle *test, const char *what, const char *why) {
    fprintf(stderr, "%s, %s: %s\n", test->name, what, why);
    return 1;
}

static bool close_enough(oracle *test, double got, double want) {
    double ratio = fabs(got - want) / (1e-5 + 1e-4 * fabs(want));
    if (!(ratio <= test->worst))
        test->worst = ratio;
    return ratio <= 1;
}

static cleave_status read_expected(oracle *test, const char *name, float **values, int64_t *n,
                                   cleave_error *error) {
    const cleave_safetensors_entry *entry = cleave_safetensors_find(&test->expected, name);
    if (entry == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s has no %s", test->expect, name);
    *n = entry->n_elements;
    *values = CLEAVE_ARENA_ARRAY(&test->arena, float, entry->n_elements);
    return cleave_safetensors_read(&test->expected, entry, 0, entry->n_elements, *values, error);
}

/* Parameters that were saved, and what is kept beside them, against those of PyTorch. */
static int compare_parameters(oracle *test, const char *saved_path, const char *what) {
    cleave_error error = {""};
    cleave_arena scratch = {0};
    cleave_safetensors saved;
    if (cleave_safetensors_open(saved_path, &scratch, &saved, &error) != CLEAVE_OK)
        return fail(test, what, error.message);
    int bad = 0, compared = 0;
    for (int32_t t = 0; t < test->imported.n_tensors && !bad; t++) {
        const cleave_tensor *tensor = &test->imported.tensors[t];
        char name[256], message[512];
        snprintf(name, sizeof name, "after3/%s", tensor->name);
        bool kept = tensor->kind == CLEAVE_TENSOR_BUFFER &&
                    cleave_safetensors_find(&test->expected, name) != NULL;
        if ((tensor->kind != CLEAVE_TENSOR_PARAMETER && !kept) ||
            tensor->view.kind != CLEAVE_VIEW_NONE)
            continue;
        float *want = NULL;
        int64_t n = 0;
        const cleave_safetensors_entry *entry = cleave_safetensors_find(&saved, tensor->name);
        float *got = entry != NULL ? CLEAVE_ARENA_ARRAY(&scratch, float, entry->n_elements) : NULL;
        if (read_expected(test, name, &want, &n, &error) != CLEAVE_OK || entry == NULL ||
            entry->n_elements != n ||
            cleave_safetensors_read(&saved, entry, 0, n, got, &error) != CLEAVE_OK) {
            snprintf(message, sizeof message, "%s: not saved as it should be. %s", tensor->name,
                     error.message);
            bad = fail(test, what, message);
            break;
        }
        for (int64_t i = 0; i < n && !bad; i++)
            if (!close_enough(test, (double)got[i], (double)want[i])) {
                snprintf(message, sizeof message, "%s[%lld] is %g, PyTorch has %g", tensor->name,
                         (long long)i, (double)got[i], (double)want[i]);
                bad = fail(test, what, message);
            }
        compared++;
    }
    if (!bad && compared == 0)
        bad = fail(test, what, "no parameter was compared");
    cleave_safetensors_close(&saved);
    cleave_arena_free(&scratch);
    return bad;
}

static int compare_losses(oracle *test, const cleave_json_cursor *root, const char *what) {
    cleave_error error = {""};
    float *want = NULL;
    int64_t n = 0;
    cleave_json_cursor losses;
    if (read_expected(test, "loss_steps", &want, &n, &error) != CLEAVE_OK ||
        cleave_json_get(root, "loss", &losses, &error) != CLEAVE_OK)
        return fail(test, what, error.message);
    if (n != N_STEPS || cleave_json_count(&losses) != N_STEPS)
        return fail(test, what, "not as many losses as steps");
    for (int i = 0; i < N_STEPS; i++) {
        cleave_json_cursor at = cleave_json_element(&losses, i);
        double got = 0;
        char message[128];
        if (cleave_json_number(&at, &got, &error) != CLEAVE_OK)
            return fail(test, what, error.message);
        snprintf(message, sizeof message, "loss %d is %g, PyTorch has %g", i, got, (double)want[i]);
        if (!close_enough(test, got, (double)want[i]))
            return fail(test, what, message);
    }
    return 0;
}

/* The program that another process lowers from the same layout says how many bytes go where. */
static int compare_bytes(oracle *test, const cleave_layout *layout, const cleave_json_cursor *root,
                         const char *what) {
    cleave_error error = {""};
    cleave_arena scratch = {0};
    cleave_program program;
    cleave_model model;
    int64_t *bytes = NULL;
    cleave_lower_options options = {.training = true};
    cleave_json_cursor rows;
    if (cleave_model_fuse_attention(&test->imported, layout, &scratch, &model, &error) !=
            CLEAVE_OK ||
        cleave_lower(&model, layout, &options, &scratch, &program, &error) != CLEAVE_OK ||
        cleave_program_check(&program, &error) != CLEAVE_OK ||
        cleave_program_bytes_between(&program, NULL, &scratch, &bytes, &error) != CLEAVE_OK ||
        cleave_json_get(root, "bytes_between", &rows, &error) != CLEAVE_OK)
        return fail(test, what, error.message);
    int bad = 0;
    for (int32_t s = 0; s < layout->n_devices && !bad; s++) {
        cleave_json_cursor row = cleave_json_element(&rows, s);
        for (int32_t d = 0; d < layout->n_devices && !bad; d++) {
            cleave_json_cursor at = cleave_json_element(&row, d);
            int64_t counted = -1, said = bytes[s * layout->n_devices + d];
            char message[160];
            if (cleave_json_integer(&at, 0, INT64_MAX, &counted, &error) != CLEAVE_OK ||
                counted != said) {
                snprintf(message, sizeof message, "%lld bytes from %d to %d, the program says %lld",
                         (long long)counted, s, d, (long long)said);
                bad = fail(test, what, message);
            }
        }
    }
    cleave_arena_free(&scratch);
    return bad;
}

static int run_layout(oracle *test, uint64_t seed, int32_t n_devices) {
    cleave_error error = {""};
    cleave_arena scratch = {0};
    cleave_layout layout;
    char what[128], layout_path[160], saved[160], json[160], command[4096];
    snprintf(what, sizeof what, "layout %d on %d ranks", (int)seed, n_devices);
    snprintf(layout_path, sizeof layout_path, "%s/layout.json", test->folder);
    snprintf(saved, sizeof saved, "%s/saved.safetensors", test->folder);
    snprintf(json, sizeof json, "%s/run.json", test->folder);
    if (cleave_layout_random(&test->imported, n_devices, seed, &scratch, &layout, &error) !=
        CLEAVE_OK)
        return fail(test, what, error.message);
    if (draw_schedule(&test->imported, seed, test->batch, &scratch, &layout)) {
        test->n_cut += layout.schedule.micro_batches > 1;
        test->n_staged += layout.schedule.n_stages > 1;
        for (int32_t op = 0; op < layout.n_operators; op++)
            if (layout.recompute[op]) {
                test->n_recomputed++;
                break;
            }
        for (int32_t t = 0; t < layout.n_tensors; t++)
            if (layout.sharded[t] > CLEAVE_SHARDED_UPDATE) {
                test->n_sharded++;
                break;
            }
        snprintf(what + strlen(what), sizeof what - strlen(what),
                 ", %s of %d stages, %d micro-batches", cleave_schedule_names[layout.schedule.kind],
                 layout.schedule.n_stages, layout.schedule.micro_batches);
    }
    layout.stores_scores = seed % 4 == 3; /* of models with attention: as the five nests */
    if (cleave_layout_write(layout_path, &test->imported, &layout, &error) != CLEAVE_OK)
        return fail(test, what, error.message);
    snprintf(command, sizeof command,
             "'%s' run --model '%s' --batch %d %s --layout '%s' --data '%s' --steps %d --lr 0.1 "
             "--save '%s' --json "
             "--quiet > '%s'",
             test->command, test->model, test->batch, test->weights, layout_path, test->io, N_STEPS,
             saved, json);
    int status = system(command);
    if (status != 0)
        return fail(test, what, "cleave run failed");
    cleave_json *document = NULL;
    if (cleave_json_read(json, &document, &error) != CLEAVE_OK)
        return fail(test, what, error.message);
    cleave_json_cursor root = cleave_json_root(document);
    int bad = compare_losses(test, &root, what) || compare_parameters(test, saved, what) ||
              compare_bytes(test, &layout, &root, what);
    cleave_json_free(document);
    cleave_arena_free(&scratch);
    return bad;
}

/* Of entry `name` of the inputs along a dimension; 0: there is none. */
static int64_t extent_of(const cleave_safetensors *inputs, const char *name, int dimension) {
    const cleave_safetensors_entry *entry = cleave_safetensors_find(inputs, name);
    return entry != NULL && dimension < entry->rank ? entry->shape[dimension] : 0;
}

/* A model that is a configuration starts from weights beside it, and leaves open how long its texts
   are; those of a decoder that reads another side are its own. */
static cleave_status set_up(oracle *test, bool is_config, cleave_error *error) {
    cleave_safetensors inputs;
    CLEAVE_TRY(cleave_safetensors_open(test->io, &test->arena, &inputs, error));
    test->batch = (int)extent_of(&inputs, "targets", 0);
    int64_t sequence = extent_of(&inputs, "decoder_input_ids", 1);
    sequence = sequence > 0 ? sequence : extent_of(&inputs, "input_ids", 1);
    cleave_safetensors_close(&inputs);
    cleave_import_request request = {.file = test->model, .batch = test->batch, .with_loss = true};
    if (is_config) {
        request.sequence = sequence;
        snprintf(test->weights, sizeof test->weights,
                 "%s%.0lld --weights '%s/tests/data/oracles/%s.weights.safetensors'",
                 sequence > 0 ? "--sequence " : "", (long long)sequence, test->source, test->name);
    }
    CLEAVE_TRY(cleave_model_import_as(&request, &test->arena, &test->imported, error));
    return cleave_safetensors_open(test->expect, &test->arena, &test->expected, error);
}

static int run_oracle(const char *command, const char *source, const char *name, int n_layouts) {
    oracle test = {.command = command, .source = source, .name = name};
    bool is_config = strncmp(name, "family_", 7) == 0;
    cleave_error error = {""};
    snprintf(test.model, sizeof test.model, "%s/tests/data/oracles/%s.%s", source, name,
             is_config ? "json" : "onnx");
    snprintf(test.io, sizeof test.io, "%s/tests/data/oracles/%s" INPUTS, source, name);
    snprintf(test.expect, sizeof test.expect, "%s/tests/data/oracles/%s.expect.safetensors", source,
             name);
    strcpy(test.folder, "/tmp/cleave-oracle-XXXXXX");
    if (mkdtemp(test.folder) == NULL || set_up(&test, is_config, &error) != CLEAVE_OK)
        return fail(&test, "set-up", error.message);
    int failed = 0;
    for (uint64_t seed = seed_from(0); seed < seed_from((uint64_t)n_layouts); seed++)
        failed += run_layout(&test, seed, 1 + (int32_t)(seed % 6));
    printf("%s: %d of %d layouts, %d in micro-batches, %d in stages, %d recomputing, %d sharding "
           "gradients or weights, equal PyTorch; largest deviation %.3f of the tolerance\n",
           name, n_layouts - failed, n_layouts, test.n_cut, test.n_staged, test.n_recomputed,
           test.n_sharded, test.worst);
    cleave_safetensors_close(&test.expected);
    cleave_arena_free(&test.arena);
    char remove[128];
    snprintf(remove, sizeof remove, "rm -r '%s'", test.folder);
    return failed + (system(remove) != 0);
}

int main(int n_arguments, char **arguments) {
    if (n_arguments < 4) {
        fprintf(stderr, "usage: oracles CLEAVE SOURCE_DIR LAYOUTS [PATTERN]\n");
        return 2;
    }
    char pattern[512];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/tests/data/oracles/%s" INPUTS, arguments[2],
             n_arguments < 5 ? "*" : arguments[4]);
    if (glob(pattern, 0, NULL, &found) != 0) {
        fprintf(stderr, "no %s\n", pattern);
        return 1;
    }
    int failed = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *name = strrchr(found.gl_pathv[i], '/') + 1;
        name[strlen(name) - strlen(INPUTS)] = '\0';
        failed += run_oracle(arguments[1], arguments[2], name, n_draws(atoi(arguments[3])));
    }
    globfree(&found);
    return failed > 0;
}
