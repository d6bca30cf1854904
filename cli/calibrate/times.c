/* The reader of TIMES.json; docs/formats.md has the format. */
#include "cli/calibrate/times.h"

#include "base/json.h"
#include "base/order.h"
#include "graph/model/collective_steps.h"

#include <string.h>

static const char *const root_keys[] = {"cleave_times", "measured_by", "kernels", "collectives",
                                        "together",     "failed",      NULL};
static const char *const by_keys[] = {"framework", "device",       "precision", "threads",
                                      "compiled",  "memory_bytes", NULL};
static const char *const kernel_keys[] = {"key",     "family", "flops", "bytes",
                                          "seconds", "spread", NULL};
static const char *const collective_keys[] = {"kind",   "devices", "bytes", "seconds",
                                              "beside", "spread",  NULL};

typedef struct reader {
    cleave_arena *arena;
    cleave_error *error;
} reader;

static cleave_status no_memory(const reader *r) {
    return cleave_fail_memory(r->error, "reading times");
}

static cleave_status get_string(const reader *r, const cleave_json_cursor *at, const char *key,
                                const char **value) {
    const char *text;
    CLEAVE_TRY(cleave_json_get_string(at, key, &text, r->error));
    *value = cleave_arena_string(r->arena, text);
    return *value != NULL ? CLEAVE_OK : no_memory(r);
}

/* Beyond these nothing was measured, and rates of them would be no numbers. */
static const double least_seconds = 1e-12, most_seconds = 1e6, most_work = 1e24;

static cleave_status get_number(const reader *r, const cleave_json_cursor *at, const char *key,
                                double least, double most, double *value) {
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_get(at, key, &member, r->error));
    CLEAVE_TRY(cleave_json_number(&member, value, r->error));
    if (!(*value >= least && *value <= most))
        return cleave_json_fail(&member, r->error, "%g is not in the range %g to %g", *value, least,
                                most);
    return CLEAVE_OK;
}

static cleave_status read_by(const reader *r, const cleave_json_cursor *root,
                             calibrate_times *times) {
    cleave_json_cursor at;
    CLEAVE_TRY(cleave_json_get(root, "measured_by", &at, r->error));
    CLEAVE_TRY(cleave_json_expect_object(&at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(&at, by_keys, r->error));
    CLEAVE_TRY(get_string(r, &at, "framework", &times->framework));
    CLEAVE_TRY(get_string(r, &at, "device", &times->device));
    CLEAVE_TRY(get_string(r, &at, "precision", &times->precision));
    CLEAVE_TRY(cleave_json_get_integer(&at, "threads", 1, 1 << 20, &times->threads, r->error));
    CLEAVE_TRY(cleave_json_get_integer(&at, "memory_bytes", 1, INT64_C(1) << 60,
                                       &times->memory_bytes, r->error));
    return cleave_json_get_truth(&at, "compiled", &times->compiled, r->error);
}

static cleave_status read_kernel(const reader *r, const cleave_json_cursor *at,
                                 cleave_kernel_time *kernel) {
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, kernel_keys, r->error));
    CLEAVE_TRY(get_string(r, at, "key", &kernel->key));
    CLEAVE_TRY(get_string(r, at, "family", &kernel->family));
    CLEAVE_TRY(get_number(r, at, "flops", 0, most_work, &kernel->flops));
    CLEAVE_TRY(get_number(r, at, "bytes", 0, most_work, &kernel->bytes));
    CLEAVE_TRY(get_number(r, at, "seconds", least_seconds, most_seconds, &kernel->seconds));
    return get_number(r, at, "spread", 0, most_seconds, &kernel->spread);
}

static cleave_status read_kernels(const reader *r, const cleave_json_cursor *root,
                                  calibrate_times *times) {
    cleave_json_cursor at;
    CLEAVE_TRY(cleave_json_get_array(root, "kernels", &at, r->error));
    int32_t n = cleave_json_count(&at);
    times->kernels = CLEAVE_ARENA_ARRAY(r->arena, cleave_kernel_time, n);
    if (times->kernels == NULL)
        return no_memory(r);
    for (int32_t i = 0; i < n; i++) {
        cleave_json_cursor element = cleave_json_element(&at, i);
        CLEAVE_TRY(read_kernel(r, &element, &times->kernels[i]));
    }
    times->n_kernels = n;
    CLEAVE_SORT(times->kernels, n, cleave_order_strings);
    for (int32_t i = 1; i < n; i++)
        if (strcmp(times->kernels[i - 1].key, times->kernels[i].key) == 0)
            return cleave_json_fail(&at, r->error, "\"%s\" is there twice", times->kernels[i].key);
    return CLEAVE_OK;
}

static cleave_status read_collective(const reader *r, const cleave_json_cursor *at,
                                     calibrate_collective *of) {
    const char *kind;
    int64_t n;
    double spread;
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, collective_keys, r->error));
    CLEAVE_TRY(cleave_json_get(at, "kind", &member, r->error));
    CLEAVE_TRY(cleave_json_string(&member, &kind, r->error));
    for (of->kind = 0; cleave_collective_names[of->kind] != NULL; of->kind++)
        if (strcmp(cleave_collective_names[of->kind], kind) == 0)
            break;
    if (cleave_collective_names[of->kind] == NULL)
        return cleave_json_fail(
            &member, r->error,
            "\"%s\" is none of all-reduce, reduce-scatter, all-gather and all-to-all", kind);
    CLEAVE_TRY(cleave_json_get_integer(at, "devices", 2, CLEAVE_MAX_NODE_DEVICES, &n, r->error));
    of->n_devices = (int32_t)n;
    CLEAVE_TRY(cleave_json_get_integer(at, "bytes", 1, INT64_C(1) << 50, &of->bytes, r->error));
    CLEAVE_TRY(get_number(r, at, "seconds", least_seconds, most_seconds, &of->seconds));
    of->beside = 0;
    if (cleave_json_find(at, "beside", &member))
        CLEAVE_TRY(get_number(r, at, "beside", least_seconds, most_seconds, &of->beside));
    return get_number(r, at, "spread", 0, most_seconds, &spread);
}

static cleave_status read_collectives(const reader *r, const cleave_json_cursor *root,
                                      calibrate_times *times) {
    cleave_json_cursor at;
    CLEAVE_TRY(cleave_json_get_array(root, "collectives", &at, r->error));
    int32_t n = cleave_json_count(&at);
    times->collectives = CLEAVE_ARENA_ARRAY(r->arena, calibrate_collective, n);
    if (times->collectives == NULL)
        return no_memory(r);
    for (int32_t i = 0; i < n; i++) {
        cleave_json_cursor element = cleave_json_element(&at, i);
        CLEAVE_TRY(read_collective(r, &element, &times->collectives[i]));
    }
    times->n_collectives = n;
    return CLEAVE_OK;
}

static cleave_status read_times(const cleave_json *document, cleave_arena *arena,
                                calibrate_times *times, cleave_error *error) {
    const reader r = {arena, error};
    cleave_json_cursor root = cleave_json_root(document), at;
    int64_t version;
    *times = (calibrate_times){0};
    CLEAVE_TRY(cleave_json_expect_object(&root, error));
    if (!cleave_json_find(&root, "cleave_times", &at))
        return cleave_json_fail(&root, error,
                                "this is no file of times, which python3 -m cleave.torch.calibrate "
                                "writes: it has no \"cleave_times\"");
    CLEAVE_TRY(cleave_json_integer(&at, 1, 1, &version, error));
    CLEAVE_TRY(cleave_json_expect_keys(&root, root_keys, error));
    CLEAVE_TRY(read_by(&r, &root, times));
    CLEAVE_TRY(read_kernels(&r, &root, times));
    CLEAVE_TRY(read_collectives(&r, &root, times));
    if (cleave_json_find(&root, "together", &at))
        CLEAVE_TRY(cleave_json_get_integer(&root, "together", 1, INT64_C(1) << 50,
                                           &times->together_bytes, error));
    if (cleave_json_find(&root, "failed", &at)) {
        CLEAVE_TRY(cleave_json_expect_array(&at, error));
        times->n_failed = cleave_json_count(&at);
    }
    return CLEAVE_OK;
}

cleave_status calibrate_times_read(const char *path, cleave_arena *arena, calibrate_times *times,
                                   cleave_error *error) {
    cleave_json *document = NULL;
    CLEAVE_TRY(cleave_json_read(path, &document, error));
    cleave_status status = read_times(document, arena, times, error);
    cleave_json_free(document);
    return status;
}

cleave_status calibrate_times_parse(const char *text, size_t bytes, const char *name,
                                    cleave_arena *arena, calibrate_times *times,
                                    cleave_error *error) {
    cleave_json *document = NULL;
    CLEAVE_TRY(cleave_json_parse(text, bytes, name, &document, error));
    cleave_status status = read_times(document, arena, times, error);
    cleave_json_free(document);
    return status;
}
