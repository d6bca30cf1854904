#include "cli/export/launch.h"

#include "base/file.h"

#include <stdio.h>

void export_print_launch(const cleave_launch *of, const char *unsaid) {
    printf("%s: data %d x tensor %d x pipeline %d", cleave_launcher_names[of->launcher], of->data,
           of->tensor, of->pipeline);
    if (of->pipeline > 1)
        printf(" (%s, %d stage%s each)", cleave_schedule_names[of->kind], of->virtual_stages,
               of->virtual_stages == 1 ? "" : "s");
    printf(", %d micro-batch%s of %lld, recompute %s, sharded %s: %.0f %% of the work stays where "
           "the plan has it\n",
           of->micro_batches, of->micro_batches == 1 ? "" : "es", (long long)of->micro_batch,
           cleave_recompute_names[of->recompute], cleave_sharded_names[of->sharded],
           100 * of->alike);
    if (unsaid != NULL)
        printf("the file does not say %s\n", unsaid);
}

void export_put_launch(const cleave_launch *of, cleave_json_writer *w) {
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"data", of->data},
                   {"tensor", of->tensor},
                   {"pipeline", of->pipeline},
                   {"virtual", of->virtual_stages},
                   {"micro_batches", of->micro_batches},
                   {"micro_batch", of->micro_batch}};
    const struct {
        const char *key, *value;
    } words[] = {{"schedule", cleave_schedule_names[of->kind]},
                 {"recompute", cleave_recompute_names[of->recompute]},
                 {"sharded", cleave_sharded_names[of->sharded]}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cleave_json_set_integer(w, numbers[i].key, numbers[i].value);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cleave_json_set_string(w, words[i].key, words[i].value);
    cleave_json_set_number(w, "alike", of->alike);
}

static cleave_status read_sizes(const common_options *common, cleave_arena *arena,
                                cleave_launch_sizes *sizes, cleave_error *error) {
    char *text;
    size_t bytes;
    const cleave_family *family;
    *sizes = (cleave_launch_sizes){.family = NULL};
    CLEAVE_TRY(cleave_file_read(common->model, arena, &text, &bytes, error));
    if (!cleave_json_begins(text, bytes))
        return CLEAVE_OK;
    const cleave_config_request request = {.file = common->model,
                                           .data = text,
                                           .bytes = bytes,
                                           .sequence = common->sequence,
                                           .capacity_factor = common->capacity_factor,
                                           .trains = true};
    CLEAVE_TRY(cleave_config_sizes(&request, arena, &family, &sizes->config, error));
    sizes->family = family->model_type;
    return CLEAVE_OK;
}

cleave_status export_write_launch(const char *path, const common_options *common,
                                  const cleave_launch *launch, cleave_arena *arena,
                                  const char **unsaid, cleave_error *error) {
    cleave_launch_sizes sizes;
    CLEAVE_TRY(read_sizes(common, arena, &sizes, error));
    return cleave_launch_write(path, launch, &sizes, unsaid, error);
}
