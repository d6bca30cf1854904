/* From the text of a configuration to its graph: the family, its sizes, whether they fit. */
#include "graph/import/config/config.h"

#include "graph/import/config/families.h"
#include "graph/model/box.h"

#include <math.h>

/* The width that is said may be that of a unit without a gate: a gated one, of as many parameters,
   has two thirds of it, perhaps times a number, up to a multiple. */
static cleave_status fit_inner(const cleave_json_cursor *root, cleave_config *config,
                               cleave_error *error) {
    const int64_t of = config->inner_multiple;
    if (!config->fits_inner)
        return CLEAVE_OK;
    config->inner = 2 * config->inner / 3;
    if (config->inner_scale <= 0)
        return CLEAVE_OK;
    const double inner = config->inner_scale * (double)config->inner;
    if (inner > CLEAVE_MOST_EXTENT - (double)of)
        return cleave_json_fail(root, error, "a block_ffn_dim_multiplier of %g is too large",
                                config->inner_scale);
    config->inner = ((int64_t)inner + of - 1) / of * of;
    return CLEAVE_OK;
}

/* Members that follow from others where the file has none. */
static cleave_status complete(const cleave_json_cursor *root, const cleave_family *family,
                              cleave_config *config, cleave_error *error) {
    if (config->kv_heads == 0)
        config->kv_heads = config->heads;
    if (family->skips_padding)
        config->first_position = config->padding + 1;
    if (config->inner == 0)
        config->inner = 4 * config->width;
    CLEAVE_TRY(fit_inner(root, config, error));
    if (family->embeds && config->labels == 0)
        config->labels = config->width;
    if (config->heads % config->kv_heads != 0)
        return cleave_json_fail(root, error,
                                "%lld heads of queries are no multiple of %lld heads of keys",
                                (long long)config->heads, (long long)config->kv_heads);
    if (family->parts_of_heads > 0 && config->heads % family->parts_of_heads != 0)
        return cleave_json_fail(root, error, "%lld heads are no multiple of %d",
                                (long long)config->heads, family->parts_of_heads);
    const cleave_of_layers *const lists[] = {&config->windowed, &config->routed,
                                             &config->attending};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i]->n > 0 && lists[i]->n != config->layers && lists[i]->n != CLEAVE_MOST_LAYERS)
            return cleave_json_fail(root, error, "has %d %s for %lld layers", (int)lists[i]->n,
                                    lists[i]->field, (long long)config->layers);
    if (config->turned.n > 0 && config->turned.n < config->layers)
        return cleave_json_fail(root, error, "has %d no_rope_layers for %lld layers",
                                (int)config->turned.n, (long long)config->layers);
    if (config->head > 0 && family->has_own_head)
        return CLEAVE_OK;
    if (config->head == 0 && config->width % config->heads != 0)
        return cleave_json_fail(root, error, "a width of %lld is no multiple of %lld heads",
                                (long long)config->width, (long long)config->heads);
    if (config->head == 0)
        config->head = config->width / config->heads;
    return CLEAVE_OK;
}

static cleave_status check_length(const cleave_json_cursor *root, const cleave_family *family,
                                  const cleave_config *config, cleave_error *error) {
    long long sequence = (long long)config->sequence;
    bool has_text = config->image == 0;
    if (!has_text && sequence > 0)
        return cleave_json_fail(root, error, "has no texts: --sequence %lld does not go with it",
                                sequence);
    if (has_text && sequence == 0)
        return cleave_json_fail(root, error,
                                "leaves the length of texts open: one is needed (--sequence N)");
    int most = CLEAVE_MOST_SEQUENCE;
    if (family->places_pairs && most > CLEAVE_MOST_BUCKETED)
        most = CLEAVE_MOST_BUCKETED;
    if (sequence < 0 || sequence > most)
        return cleave_json_fail(root, error, "a sequence of %lld is not in the range 1 to %d",
                                sequence, most);
    if (config->chunk > 0 && sequence > config->chunk)
        return cleave_json_fail(
            root, error,
            "a sequence of %lld is longer than %lld: attention in chunks is not "
            "supported",
            sequence, (long long)config->chunk);
    bool has_table = has_text && !family->turns && config->positions > 0;
    int64_t first = config->first_position;
    if (has_table && sequence > config->positions - first)
        return cleave_json_fail(root, error, "a sequence of %lld is longer than its %lld positions",
                                sequence, (long long)(config->positions - first));
    return CLEAVE_OK;
}

/* Factors of each pair, where positions have them. */
static cleave_status check_factors(const cleave_json_cursor *root, const cleave_config *config,
                                   cleave_error *error) {
    for (int i = 0; i < 2; i++) {
        cleave_config of = *config;
        of.rotary[0] = config->rotary[i];
        const long long pairs = (long long)cleave_rotary_width(&of) / 2;
        if (of.rotary[0].kind != CLEAVE_ROTARY_LONGROPE)
            continue;
        if (of.rotary[0].n_factors != pairs)
            return cleave_json_fail(root, error, "has %lld factors for %lld pairs that are turned",
                                    (long long)of.rotary[0].n_factors, pairs);
        if (of.rotary[0].original_positions < 2)
            return cleave_json_fail(root, error,
                                    "an original_max_position_embeddings of 1 is less "
                                    "than 2");
    }
    return CLEAVE_OK;
}

static cleave_status check_sizes(const cleave_json_cursor *root, const cleave_family *family,
                                 const cleave_config *config, cleave_error *error) {
    double share = config->rotary[0].share;
    int64_t turned = family->turns ? cleave_rotary_width(config) : 2;
    if (config->layers > CLEAVE_MOST_LAYERS || config->decoder_layers > CLEAVE_MOST_LAYERS)
        return cleave_json_fail(root, error, "%lld layers are more than %d",
                                (long long)config->layers, CLEAVE_MOST_LAYERS);
    if (config->heads * config->head > CLEAVE_MOST_EXTENT)
        return cleave_json_fail(root, error, "%lld heads of %lld are more than %lld in all",
                                (long long)config->heads, (long long)config->head,
                                (long long)CLEAVE_MOST_EXTENT);
    if (family->turns && !family->turns_share && (share < 1 || share > 1))
        return cleave_json_fail(root, error, "a partial_rotary_factor of %g is nothing that %s has",
                                share, family->model_type);
    if (turned < 2 || turned % 2 != 0 || (family->turns && turned > config->head))
        return cleave_json_fail(root, error,
                                "rotary positions would turn %lld of a head's %lld dimensions, "
                                "which are no pairs",
                                (long long)turned, (long long)config->head);
    if (family->turns && config->rotary[0].kind == CLEAVE_ROTARY_YARN &&
        config->rotary[0].theta <= 1)
        return cleave_json_fail(root, error, "a rope_theta of %g is not above 1",
                                config->rotary[0].theta);
    return CLEAVE_OK;
}

/* Rows that each expert has for a sample, by what the file says of them. */
static cleave_status find_capacity(const cleave_json_cursor *root, cleave_config *config,
                                   cleave_error *error) {
    if (config->capacity_factor > 0) {
        double even = (double)config->sequence * (double)config->choices / (double)config->experts;
        double rows = fmax(1, ceil(config->capacity_factor * even));
        if (config->capacity > 0)
            return cleave_json_fail(root, error,
                                    "has an expert_capacity and a capacity_factor: one of them is "
                                    "enough");
        config->capacity = (int64_t)fmin(rows, (double)config->sequence);
    }
    int64_t rows = config->capacity > 0 ? config->capacity : config->sequence;
    double room = (double)config->batch * (double)config->experts * (double)rows;
    if (room * (double)config->width > (double)CLEAVE_MOST_ELEMENTS)
        return cleave_json_fail(
            root, error,
            "%lld experts with %lld rows each for a text, and %lld texts, are more than 2^46 "
            "numbers; with --capacity-factor 1.25 an expert has 1.25 x the rows of an even choice, "
            "and what finds no room is dropped",
            (long long)config->experts, (long long)rows, (long long)config->batch);
    return CLEAVE_OK;
}

/* Experts and latents, where a family has them. */
static cleave_status check_experts(const cleave_json_cursor *root, const cleave_config *config,
                                   cleave_error *error) {
    enum { MOST_EXPERTS = 1 << 12 };
    int64_t groups = config->groups > 0 ? config->groups : 1;
    int64_t open = config->groups > 0 ? config->group_choices : 1;
    if (config->experts > MOST_EXPERTS)
        return cleave_json_fail(root, error, "%lld experts are more than %d",
                                (long long)config->experts, MOST_EXPERTS);
    if (config->experts % groups != 0 || open > groups)
        return cleave_json_fail(root, error,
                                "can't choose among %lld of %lld groups of %lld experts",
                                (long long)open, (long long)groups, (long long)config->experts);
    if (config->experts > 0 && config->choices > config->experts / groups * open)
        return cleave_json_fail(root, error, "%lld experts for each token are more than %lld",
                                (long long)config->choices,
                                (long long)(config->experts / groups * open));
    if (config->choice_norm > 0 && (config->choice_norm < 1 || config->choice_norm > 1))
        return cleave_json_fail(root, error, "weights by their %g-norm are not supported, but by 1",
                                config->choice_norm);
    if (config->shared_experts * config->expert_inner > CLEAVE_MOST_EXTENT)
        return cleave_json_fail(root, error,
                                "%lld shared experts of %lld are more than %lld in all",
                                (long long)config->shared_experts, (long long)config->expert_inner,
                                (long long)CLEAVE_MOST_EXTENT);
    if (config->value_rank == 0)
        return CLEAVE_OK;
    if (config->heads != config->kv_heads)
        return cleave_json_fail(root, error, "has %lld heads of queries and %lld of keys",
                                (long long)config->heads, (long long)config->kv_heads);
    if (config->heads * (config->plain_head + config->head) > CLEAVE_MOST_EXTENT ||
        config->heads * (config->plain_head + config->value_head) > CLEAVE_MOST_EXTENT)
        return cleave_json_fail(root, error, "%lld heads are too wide: more than %lld in all",
                                (long long)config->heads, (long long)CLEAVE_MOST_EXTENT);
    return CLEAVE_OK;
}

/* Buckets of which half or less have a distance each, and the others several. */
static cleave_status check_buckets(const cleave_json_cursor *root, int64_t buckets,
                                   int64_t distance, cleave_error *error) {
    if (buckets > 0 && (buckets < 4 || distance - 1 < buckets / 2))
        return cleave_json_fail(root, error,
                                "%lld buckets up to a distance of %lld are too few, or too many",
                                (long long)buckets, (long long)distance);
    return CLEAVE_OK;
}

/* Patches and buckets, where a family has them. */
static cleave_status check_tables(const cleave_json_cursor *root, const cleave_config *config,
                                  cleave_error *error) {
    if (config->image > 0) {
        int64_t side = config->image / config->patch;
        if (side == 0)
            return cleave_json_fail(root, error, "an image of %lld has no patch of %lld",
                                    (long long)config->image, (long long)config->patch);
        if (side * side + config->registers >= CLEAVE_MOST_SEQUENCE)
            return cleave_json_fail(root, error,
                                    "%lld x %lld patches and %lld registers are more than %d",
                                    (long long)side, (long long)side, (long long)config->registers,
                                    CLEAVE_MOST_SEQUENCE - 1);
        if (config->labels == 0)
            return cleave_json_fail(root, error, "has no labels");
    }
    if (config->places > CLEAVE_MOST_SEQUENCE)
        return cleave_json_fail(root, error, "%lld max_source_positions are more than %d",
                                (long long)config->places, CLEAVE_MOST_SEQUENCE);
    CLEAVE_TRY(check_buckets(root, config->buckets, config->distance, error));
    CLEAVE_TRY(check_buckets(root, config->place_buckets,
                             (config->distance < 1 ? config->positions : config->distance) - 1,
                             error));
    return CLEAVE_OK;
}

/* What the request says of experts, in place of what the file does. */
static cleave_status take_capacity(const cleave_json_cursor *root, double factor,
                                   cleave_config *config, cleave_error *error) {
    if (factor <= 0)
        return CLEAVE_OK;
    if (config->experts == 0)
        return cleave_json_fail(root, error, "has no experts, of which --capacity-factor %g is",
                                factor);
    config->capacity = 0;
    config->capacity_factor = factor;
    return CLEAVE_OK;
}

static cleave_status read_config(const cleave_json_cursor *root, const cleave_family *family,
                                 const cleave_config_request *from, cleave_arena *arena,
                                 cleave_config *config, cleave_error *error) {
    config->rotary[0].share = config->rotary[1].share = 1;
    CLEAVE_TRY(cleave_config_read(root, family, arena, config, error));
    CLEAVE_TRY(take_capacity(root, from->capacity_factor, config, error));
    CLEAVE_TRY(complete(root, family, config, error));
    CLEAVE_TRY(check_length(root, family, config, error));
    CLEAVE_TRY(check_sizes(root, family, config, error));
    CLEAVE_TRY(check_factors(root, config, error));
    CLEAVE_TRY(check_experts(root, config, error));
    if (config->experts > 0)
        CLEAVE_TRY(find_capacity(root, config, error));
    return check_tables(root, config, error);
}

cleave_status cleave_config_sizes(const cleave_config_request *from, cleave_arena *arena,
                                  const cleave_family **family, cleave_config *config,
                                  cleave_error *error) {
    cleave_json *document;
    *config = (cleave_config){.batch = from->batch, .sequence = from->sequence};
    CLEAVE_TRY(cleave_json_parse(from->data, from->bytes, from->file, &document, error));
    cleave_json_cursor root = cleave_json_root(document);
    cleave_status status = cleave_config_find_family(&root, family, error);
    if (status == CLEAVE_OK)
        status = read_config(&root, *family, from, arena, config, error);
    cleave_json_free(document);
    return status;
}

static cleave_status compose(const cleave_json_cursor *root, const cleave_config_request *from,
                             cleave_arena *arena, cleave_onnx_graph *graph, cleave_error *error) {
    const cleave_family *family = NULL;
    cleave_config config = {.batch = from->batch, .sequence = from->sequence};
    cleave_composer c = {.trains = from->trains, .arena = arena, .error = error};
    CLEAVE_TRY(cleave_config_find_family(root, &family, error));
    CLEAVE_TRY(read_config(root, family, from, arena, &config, error));
    const char *logits = family->compose != NULL
                             ? family->compose(&c, &config)
                             : cleave_compose_masked(&c, &config, family->masked);
    return config.labels == 0
               ? cleave_compose_finish(&c, logits, 2,
                                       (int64_t[]){config.sequence, config.vocabulary}, graph)
               : cleave_compose_finish(&c, logits, 1, &config.labels, graph);
}

cleave_status cleave_config_decode(const cleave_config_request *from, cleave_arena *arena,
                                   cleave_onnx_graph *graph, cleave_error *error) {
    cleave_json *document;
    CLEAVE_TRY(cleave_json_parse(from->data, from->bytes, from->file, &document, error));
    cleave_json_cursor root = cleave_json_root(document);
    cleave_status status = compose(&root, from, arena, graph, error);
    cleave_json_free(document);
    return status;
}
