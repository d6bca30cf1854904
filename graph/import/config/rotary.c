/* Rotary positions: pairs of a head's dimensions are turned by angles that grow with the position.

   Pair i of `width` / 2 turns by theta^(-2 i / width) per position.  Models that were taken to
   longer texts than they began with turn some pairs slower, by the rule of their kind. */
#include "graph/import/config/config_fields.h"

#include <math.h>
#include <string.h>

static const double two_pi = 6.283185307179586;

/* ---- reading --------------------------------------------------------------------------------- */

/* `has_images`: positions of images may be other ones; those of texts are as usual then. */
static cleave_status read_kind(const cleave_json_cursor *at, bool has_images,
                               cleave_rotary_kind *kind, cleave_error *error) {
    static const char *const names[] = {
        [CLEAVE_ROTARY_DEFAULT] = "default",   [CLEAVE_ROTARY_LINEAR] = "linear",
        [CLEAVE_ROTARY_DYNAMIC] = "dynamic",   [CLEAVE_ROTARY_LLAMA3] = "llama3",
        [CLEAVE_ROTARY_LONGROPE] = "longrope", [CLEAVE_ROTARY_YARN] = "yarn"};
    const char *name;
    CLEAVE_TRY(cleave_json_string(at, &name, error));
    if (strcmp(name, "su") == 0) /* as it was called first */
        name = names[CLEAVE_ROTARY_LONGROPE];
    if (has_images && strcmp(name, "mrope") == 0)
        name = names[CLEAVE_ROTARY_DEFAULT];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) {
            *kind = (cleave_rotary_kind)i;
            return CLEAVE_OK;
        }
    return cleave_json_fail(at, error,
                            "\"%.64s\" is not supported, but default, linear, dynamic, llama3, "
                            "longrope and yarn",
                            name);
}

/* A positive number; an absent one, or null, changes nothing. */
static cleave_status read_positive(const cleave_json_cursor *at, const char *name, double *value,
                                   cleave_error *error) {
    cleave_json_cursor member;
    if (!cleave_json_find(at, name, &member) || cleave_json_type_of(&member) == CLEAVE_JSON_NULL)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_number(&member, value, error));
    return *value > 0 && *value < 1e30
               ? CLEAVE_OK
               : cleave_json_fail(&member, error, "%g is not above 0", *value);
}

/* The same, but 0 is as if it were absent. */
static cleave_status read_magnitude(const cleave_json_cursor *at, const char *name, double *value,
                                    cleave_error *error) {
    cleave_json_cursor member;
    double given;
    if (cleave_json_find(at, name, &member) && cleave_json_type_of(&member) != CLEAVE_JSON_NULL) {
        CLEAVE_TRY(cleave_json_number(&member, &given, error));
        if (given == 0)
            return CLEAVE_OK;
    }
    return read_positive(at, name, value, error);
}

/* A list of positive numbers, as long as the other one where there is one. */
static cleave_status read_factors(const cleave_json_cursor *at, const char *name,
                                  cleave_arena *arena, const double **factors, int64_t *n,
                                  cleave_error *error) {
    cleave_json_cursor list;
    if (!cleave_json_find(at, name, &list))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_expect_array(&list, error));
    int32_t count = cleave_json_count(&list);
    double *values = CLEAVE_ARENA_ARRAY(arena, double, count);
    if (values == NULL)
        return cleave_fail_memory(error, "reading a configuration");
    if (*n > 0 && *n != count)
        return cleave_json_fail(&list, error, "has %d numbers, and short_factor %lld", (int)count,
                                (long long)*n);
    for (int32_t i = 0; i < count; i++) {
        cleave_json_cursor element = cleave_json_element(&list, i);
        CLEAVE_TRY(cleave_json_number(&element, &values[i], error));
        if (!(values[i] > 0 && values[i] < 1e30))
            return cleave_json_fail(&element, error, "%g is not above 0", values[i]);
    }
    *factors = values;
    *n = count;
    return CLEAVE_OK;
}

static cleave_status check_sense(const cleave_json_cursor *at, const cleave_rotary *r,
                                 cleave_error *error) {
    bool has_lists = r->kind == CLEAVE_ROTARY_LONGROPE;
    bool scales = r->kind != CLEAVE_ROTARY_DEFAULT && !has_lists;
    if (has_lists && (r->short_factors == NULL || r->long_factors == NULL))
        return cleave_json_fail(at, error, "has no short_factor, or no long_factor");
    if (scales && !(r->factor >= 1))
        return cleave_json_fail(at, error, "has no factor of 1 or more");
    if ((r->kind == CLEAVE_ROTARY_LLAMA3 || r->kind == CLEAVE_ROTARY_YARN || has_lists) &&
        r->original_positions == 0)
        return cleave_json_fail(at, error, "has no original_max_position_embeddings");
    if (r->kind == CLEAVE_ROTARY_LLAMA3 && !(r->high_frequency >= r->low_frequency))
        return cleave_json_fail(at, error, "high_freq_factor %g is below low_freq_factor %g",
                                r->high_frequency, r->low_frequency);
    return CLEAVE_OK;
}

cleave_status cleave_rotary_read(const cleave_json_cursor *at, const char *own, cleave_arena *arena,
                                 cleave_rotary *rotary, cleave_error *error) {
    const bool has_images = own != NULL && strcmp(own, "mrope_section") == 0;
    const bool grows = own != NULL && strcmp(own, "llama_4_scaling_beta") == 0;
    const char *const keys[] = {"type",
                                "rope_type",
                                "rope_theta",
                                "partial_rotary_factor",
                                "factor",
                                "low_freq_factor",
                                "high_freq_factor",
                                "beta_fast",
                                "beta_slow",
                                "attention_factor",
                                "original_max_position_embeddings",
                                "mscale",
                                "mscale_all_dim",
                                "truncate",
                                "short_factor",
                                "long_factor",
                                own,
                                has_images ? "mrope_interleaved"
                                : grows    ? "max_position_embeddings"
                                           : NULL,
                                NULL};
    cleave_rotary r = *rotary;
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_expect_object(at, error));
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    if (cleave_json_find(at, "rope_type", &member) || cleave_json_find(at, "type", &member))
        CLEAVE_TRY(read_kind(&member, has_images, &r.kind, error));
    r.low_frequency = r.slow = 1;
    r.high_frequency = 4;
    r.fast = 32;
    r.truncates = true;
    CLEAVE_TRY(read_positive(at, "rope_theta", &r.theta, error));
    CLEAVE_TRY(read_positive(at, "partial_rotary_factor", &r.share, error));
    CLEAVE_TRY(read_positive(at, "factor", &r.factor, error));
    CLEAVE_TRY(read_positive(at, "alpha", &r.alpha, error));
    CLEAVE_TRY(read_positive(at, "llama_4_scaling_beta", &r.place_scale, error));
    CLEAVE_TRY(read_positive(at, "low_freq_factor", &r.low_frequency, error));
    CLEAVE_TRY(read_positive(at, "high_freq_factor", &r.high_frequency, error));
    CLEAVE_TRY(read_positive(at, "beta_fast", &r.fast, error));
    CLEAVE_TRY(read_positive(at, "beta_slow", &r.slow, error));
    CLEAVE_TRY(read_positive(at, "attention_factor", &r.attention_factor, error));
    CLEAVE_TRY(read_magnitude(at, "mscale", &r.magnitude, error));
    CLEAVE_TRY(read_magnitude(at, "mscale_all_dim", &r.magnitude_of_all, error));
    if (cleave_json_find(at, "truncate", &member))
        CLEAVE_TRY(cleave_json_truth(&member, &r.truncates, error));
    if (cleave_json_find(at, "original_max_position_embeddings", &member))
        CLEAVE_TRY(cleave_json_integer(&member, 1, INT64_C(1) << 40, &r.original_positions, error));
    CLEAVE_TRY(read_factors(at, "short_factor", arena, &r.short_factors, &r.n_factors, error));
    CLEAVE_TRY(read_factors(at, "long_factor", arena, &r.long_factors, &r.n_factors, error));
    CLEAVE_TRY(check_sense(at, &r, error));
    *rotary = r;
    return CLEAVE_OK;
}

/* ---- angles ---------------------------------------------------------------------------------- */

int64_t cleave_rotary_width(const cleave_config *config) {
    return config->turned_width > 0 ? config->turned_width
                                    : (int64_t)((double)config->head * config->rotary[0].share);
}

/* Long waves are stretched by the factor, short ones stay, those between are mixed. */
static double llama3_frequency(const cleave_rotary *r, double frequency) {
    double turns = (double)r->original_positions * frequency / two_pi;
    double between = r->high_frequency - r->low_frequency;
    double mix = between > 0 ? (turns - r->low_frequency) / between : turns >= r->low_frequency;
    mix = fmin(fmax(mix, 0), 1);
    return mix * frequency + (1 - mix) * frequency / r->factor;
}

/* The pair that turns this many times over the original positions. */
static double yarn_pair(const cleave_rotary *r, double width, double turns) {
    return width * log((double)r->original_positions / (turns * two_pi)) / (2 * log(r->theta));
}

static double yarn_frequency(const cleave_rotary *r, double width, double pair, double frequency) {
    double low = yarn_pair(r, width, r->fast), high = yarn_pair(r, width, r->slow);
    if (r->truncates) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, width - 1);
    high += high == low ? 0.001 : 0;
    double slowed = fmin(fmax((pair - low) / (high - low), 0), 1);
    return slowed * frequency / r->factor + (1 - slowed) * frequency;
}

/* Radians per position. */
static double frequency_of(const cleave_config *config, int64_t pair) {
    const cleave_rotary *r = &config->rotary[0];
    double width = (double)cleave_rotary_width(config), theta = r->theta;
    if (r->kind == CLEAVE_ROTARY_DYNAMIC && r->alpha > 0 && width > 2)
        theta *= pow(r->alpha, width / (width - 2)); /* of texts of any length */
    else if (r->kind == CLEAVE_ROTARY_DYNAMIC && config->sequence > config->positions && width > 2)
        theta *=
            pow(r->factor * (double)config->sequence / (double)config->positions - (r->factor - 1),
                width / (width - 2));
    double frequency = pow(theta, -2 * (double)pair / width);
    switch (r->kind) {
    case CLEAVE_ROTARY_DEFAULT:
    case CLEAVE_ROTARY_DYNAMIC:
        break;
    case CLEAVE_ROTARY_LINEAR:
        return frequency / r->factor;
    case CLEAVE_ROTARY_LLAMA3:
        return llama3_frequency(r, frequency);
    case CLEAVE_ROTARY_LONGROPE:
        return frequency / (config->sequence > r->original_positions ? r->long_factors
                                                                     : r->short_factors)[pair];
    case CLEAVE_ROTARY_YARN:
        return yarn_frequency(r, width, (double)pair, frequency);
    }
    return frequency;
}

double cleave_yarn_magnitude(const cleave_rotary *r, double magnitude) {
    return 0.1 * magnitude * log(r->factor) + 1;
}

/* Of cosines and sines. */
static double scale_of(const cleave_config *config) {
    const cleave_rotary *r = &config->rotary[0];
    const bool is_long = r->kind == CLEAVE_ROTARY_LONGROPE;
    if (!is_long && r->kind != CLEAVE_ROTARY_YARN)
        return 1;
    if (r->attention_factor > 0)
        return r->attention_factor;
    if (is_long) {
        double original = (double)r->original_positions;
        double factor = r->factor > 0 ? r->factor : (double)config->positions / original;
        return factor > 1 ? sqrt(1 + log(factor) / log(original)) : 1;
    }
    return r->magnitude > 0 && r->magnitude_of_all > 0
               ? cleave_yarn_magnitude(r, r->magnitude) /
                     cleave_yarn_magnitude(r, r->magnitude_of_all)
               : cleave_yarn_magnitude(r, 1);
}

cleave_rotary_tables cleave_compose_rotary_tables(cleave_composer *c, const char *name,
                                                  const cleave_config *config) {
    const cleave_rotary *r = &config->rotary[0];
    cleave_rotary_tables tables = {.width = cleave_rotary_width(config),
                                   .interleaved = r->interleaved};
    int64_t width = tables.width, half = width / 2;
    const int64_t shape[] = {config->sequence, width};
    float *cosines = CLEAVE_ARENA_ARRAY(c->arena, float, shape[0] * width);
    float *sines = CLEAVE_ARENA_ARRAY(c->arena, float, shape[0] * width);
    if (cosines == NULL || sines == NULL) {
        c->failed = true;
        return tables;
    }
    double scale = scale_of(config);
    for (int64_t i = 0; i < half; i++) {
        double frequency = frequency_of(config, i);
        for (int64_t t = 0; t < config->sequence; t++) {
            double angle = (double)t * frequency;
            cosines[t * width + i] = cosines[t * width + half + i] = (float)(scale * cos(angle));
            sines[t * width + i] = sines[t * width + half + i] = (float)(scale * sin(angle));
        }
    }
    tables.cosines =
        cleave_compose_floats(c, cleave_compose_name(c, "%s.cosines", name), 2, shape, cosines);
    tables.sines =
        cleave_compose_floats(c, cleave_compose_name(c, "%s.sines", name), 2, shape, sines);
    return tables;
}

/* The first elements of all pairs of neighbours in the last dimension, then the second ones. */
static const char *part_pairs(cleave_composer *c, const char *name, const char *x, int64_t width) {
    x = cleave_compose_reshape(c, cleave_compose_name(c, "%s.pairs", name), x, 5,
                               (int64_t[]){0, 0, 0, width / 2, 2});
    x = cleave_compose_transpose(c, cleave_compose_name(c, "%s.apart", name), x, 5,
                                 (int64_t[]){0, 1, 2, 4, 3});
    return cleave_compose_reshape(c, name, x, 4, (int64_t[]){0, 0, 0, width});
}

const char *cleave_compose_rotary(cleave_composer *c, const char *name, const char *x,
                                  const cleave_rotary_tables *tables, int64_t head) {
    const int64_t half = tables->width / 2;
    bool is_partial = tables->width < head;
    const char *turned = name, *rest = NULL;
    if (is_partial) {
        rest = cleave_compose_slice(c, cleave_compose_name(c, "%s.rest", name), x, -1,
                                    tables->width, head);
        x = cleave_compose_slice(c, cleave_compose_name(c, "%s.first", name), x, -1, 0,
                                 tables->width);
        turned = cleave_compose_name(c, "%s.turned", name);
    }
    if (tables->interleaved)
        x = part_pairs(c, cleave_compose_name(c, "%s.parted", name), x, tables->width);
    const char *left =
        cleave_compose_slice(c, cleave_compose_name(c, "%s.left", name), x, -1, 0, half);
    const char *right = cleave_compose_slice(c, cleave_compose_name(c, "%s.right", name), x, -1,
                                             half, tables->width);
    right = CLEAVE_COMPOSE(c, "Neg", cleave_compose_name(c, "%s.negative", name), right);
    const char *other =
        cleave_compose_concat(c, cleave_compose_name(c, "%s.other", name), -1, right, left);
    const char *a =
        CLEAVE_COMPOSE(c, "Mul", cleave_compose_name(c, "%s.cosine", name), x, tables->cosines);
    const char *b =
        CLEAVE_COMPOSE(c, "Mul", cleave_compose_name(c, "%s.sine", name), other, tables->sines);
    const char *y = CLEAVE_COMPOSE(c, "Add", turned, a, b);
    return is_partial ? cleave_compose_concat(c, name, -1, y, rest) : y;
}
