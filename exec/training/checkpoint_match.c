/* What a checkpoint says of its training, set against a run's own. */
#include "exec/training/checkpoint_match.h"

#include "base/file.h"
#include "exec/data/identity.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(cleave_type precision) {
    return precision == CLEAVE_BF16 ? "bf16" : "f32";
}

cleave_manifest checkpoint_describe(const cleave_model *model, const cleave_run_options *options,
                                    int64_t step) {
    return (cleave_manifest){.step = step,
                             .seed = options->seed,
                             .shuffled = options->shuffle,
                             .model_file = cleave_file_name(model->file),
                             .model_hash = model->hash,
                             .precision = name_of(model->precision),
                             .reduce_precision = name_of(model->reduce_precision),
                             .optimizer = options->optimizer,
                             .no_decay = options->no_decay};
}

static cleave_status fail_to_match(const char *folder, const char *what, const char *there,
                                   const char *here, cleave_error *error) {
    return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the checkpoint is of another %s: %s, not %s",
                       folder, what, there, here);
}

static cleave_status fail_unless_overridden(const char *folder, const char *what, const char *there,
                                            const char *here, cleave_error *error) {
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "%s: the checkpoint was made with another %s: %s, not %s (--override goes "
                       "on with what is said here)",
                       folder, what, there, here);
}

/* The numbers that it is told; the first that differs. */
static cleave_status check_figures(const char *folder, const cleave_manifest *there,
                                   const cleave_manifest *here, cleave_error *error) {
    cleave_optimizer was = there->optimizer, is = here->optimizer;
    char was_text[128], is_text[128];
    for (int i = 0; i < CLEAVE_N_OPTIMIZER_FIGURES; i++) {
        const cleave_optimizer_figure *figure = &cleave_optimizer_figures[i];
        const double *a = cleave_optimizer_figure_of(&was, figure),
                     *b = cleave_optimizer_figure_of(&is, figure);
        if (a == NULL || *a == *b)
            continue;
        snprintf(was_text, sizeof was_text, "%.9g", *a);
        snprintf(is_text, sizeof is_text, "%.9g", *b);
        return fail_unless_overridden(folder, figure->words, was_text, is_text, error);
    }
    if (!cleave_rate_schedule_equal(&was.schedule, &is.schedule)) {
        cleave_rate_schedule_format(&was.schedule, was_text, sizeof was_text);
        cleave_rate_schedule_format(&is.schedule, is_text, sizeof is_text);
        return fail_unless_overridden(folder, "schedule of the learning rate", was_text, is_text,
                                      error);
    }
    const char *a = there->no_decay != NULL ? there->no_decay : "none",
               *b = here->no_decay != NULL ? here->no_decay : "none";
    return strcmp(a, b) == 0 ? CLEAVE_OK
                             : fail_unless_overridden(folder, "--no-decay", a, b, error);
}

static cleave_status check_optimizer(const char *folder, const cleave_manifest *there,
                                     const cleave_manifest *here, bool overrides,
                                     cleave_error *error) {
    const char *was = cleave_optimizer_name(&there->optimizer),
               *is = cleave_optimizer_name(&here->optimizer);
    int n_states = cleave_optimizer_states(&there->optimizer);
    if (strcmp(was, is) != 0)
        return fail_to_match(folder, "optimizer", was, is, error);
    if (n_states != cleave_optimizer_states(&here->optimizer))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the checkpoint was made %s momentum",
                           folder, n_states > 0 ? "with" : "without");
    return overrides ? CLEAVE_OK : check_figures(folder, there, here, error);
}

static cleave_status check_data(const char *folder, const cleave_manifest_file *there,
                                const cleave_run_options *options, cleave_arena *arena,
                                cleave_error *error) {
    cleave_manifest_file here;
    CLEAVE_TRY(cleave_data_identify(options, arena, &here, error));
    if ((there->name == NULL) != (here.name == NULL))
        return fail_to_match(folder, "data", there->name != NULL ? there->name : "made up",
                             here.name != NULL ? here.name : "made up", error);
    if (here.name != NULL && (here.bytes != there->bytes || here.checksum != there->checksum))
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "%s: the data %s are not those of the checkpoint, %s of %lld bytes: they "
            "were changed",
            folder, here.name, there->name, (long long)there->bytes);
    return CLEAVE_OK;
}

cleave_status checkpoint_check_matches(const char *folder, const cleave_manifest *there,
                                       const cleave_model *model, const cleave_run_options *options,
                                       cleave_arena *arena, cleave_error *error) {
    const cleave_manifest here = checkpoint_describe(model, options, 0);
    if (strcmp(there->model_hash, here.model_hash) != 0)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "%s: the checkpoint is of another model, or of another batch: %s with hash "
            "%s, not %s with %s",
            folder, there->model_file, there->model_hash, here.model_file, here.model_hash);
    if (strcmp(there->precision, here.precision) != 0)
        return fail_to_match(folder, "precision", there->precision, here.precision, error);
    if (strcmp(there->reduce_precision, here.reduce_precision) != 0)
        return fail_to_match(folder, "precision of sums", there->reduce_precision,
                             here.reduce_precision, error);
    CLEAVE_TRY(check_optimizer(folder, there, &here, options->overrides, error));
    if (there->seed != here.seed)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the checkpoint was made with --seed %llu",
                           folder, (unsigned long long)there->seed);
    if (there->step > options->steps)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: %lld steps are done there already, which --steps %lld counts, too",
                           folder, (long long)there->step, (long long)options->steps);
    if (there->shuffled != here.shuffled)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the checkpoint was made %s --shuffle",
                           folder, there->shuffled ? "with" : "without");
    return check_data(folder, &there->data, options, arena, error);
}
