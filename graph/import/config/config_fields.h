/* What is read from a config.json, and how: a row for each field of a family. */
#ifndef CLEAVE_GRAPH_IMPORT_CONFIG_FIELDS_H
#define CLEAVE_GRAPH_IMPORT_CONFIG_FIELDS_H

#include "base/json.h"
#include "graph/import/config/compose_layers.h"
#include "graph/import/config/config.h"

/* What sizes may be: products of three are far from overflow. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { CLEAVE_MOST_LAYERS = 8, CLEAVE_MOST_SEQUENCE = 1 << 6 };
#else
enum { CLEAVE_MOST_LAYERS = 1 << 12, CLEAVE_MOST_SEQUENCE = 1 << 18 };
#endif
enum { CLEAVE_MOST_BUCKETED = 1 << 15 }; /* texts with a bucket for each query and key */
#define CLEAVE_MOST_EXTENT (INT64_C(1) << 20)

/* Rotary positions: what turns pairs of a head's dimensions, and how quickly. */
typedef enum cleave_rotary_kind {
    CLEAVE_ROTARY_DEFAULT,
    CLEAVE_ROTARY_LINEAR,
    CLEAVE_ROTARY_DYNAMIC,
    CLEAVE_ROTARY_LLAMA3,
    CLEAVE_ROTARY_LONGROPE,
    CLEAVE_ROTARY_YARN
} cleave_rotary_kind;
typedef struct cleave_rotary {
    cleave_rotary_kind kind;
    double theta, share; /* share: of a head's dimensions that are turned */
    double factor, low_frequency, high_frequency, fast, slow; /* where the kind has them */
    double attention_factor;                                  /* 0: not given */
    double magnitude, magnitude_of_all;                       /* of yarn; 0: not given */
    int64_t original_positions;                               /* 0: not given */
    /* [n_factors] of pairs, of texts up to the original positions and of longer ones; longrope. */
    const double *short_factors, *long_factors;
    int64_t n_factors;
    double place_scale; /* by which queries grow with every so many original positions; 0: not */
    double alpha;       /* of dynamic; 0: not given */
    bool truncates;
    bool interleaved; /* pairs are neighbours, else half a head apart */
} cleave_rotary;

/* Something that some layers have. */
typedef struct cleave_of_layers {
    int32_t n; /* 0: not given */
    const bool *has;
    const char *field; /* that says so */
} cleave_of_layers;

/* A configuration.  Families use some of the members; 0 and null: the family's own rule. */
typedef struct cleave_config {
    int64_t batch, sequence;
    int64_t embedded_width; /* of embeddings; 0: the width */
    int64_t layers, width, heads, kv_heads, head, inner, vocabulary, positions;
    int64_t window, first_windowed_layer; /* keys that a query sees; 0: all */
    int64_t whole_every;    /* of so many layers the last has no window; 0: as above */
    int64_t types, padding; /* kinds of segments, the id that pads */
    int64_t first_position; /* row of the table of positions */
    int64_t decoder_layers, buckets, distance, image, patch, channels, labels;
    int64_t registers; /* rows beside patches that stand for no place */
    int64_t places;    /* that an encoder of sounds gives */
    double epsilon, dropout, attention_dropout, embedding_dropout, unit_dropout;
    /* Experts: how many, chosen for each token, how wide, and rows of each for a sample (0: enough
       for all).  Choices may be among some groups. */
    int64_t experts, choices, expert_inner, capacity, groups, group_choices;
    int64_t shared_experts, shared_inner; /* shared_inner: of one that a gate weighs */
    int64_t dense_layers, sparse_step;    /* sparse_step: of every so many layers, one */
    double expert_scale;
    int64_t chunk;                  /* texts are no longer than that; 0: any */
    double place_step, place_scale; /* by which queries grow */
    int64_t n_norms;                /* of what attention and unit read side by side; 0: as usual */
    bool groups_heads, shares_keys; /* queries that share a key, or all do */
    int64_t last_sparse;            /* layers behind it are dense; -1: none are */
    double least_sum;               /* that weights are divided by; 0: any */
    double gate_limit, gate_scale;  /* of a clipped unit */
    double router_jitter; /* what routers and experts read is multiplied by 1 - that to 1 + that */
    double capacity_factor; /* rows of each expert, in those of an even choice; 0: as above */
    double choice_norm;     /* 1: of a token's weights, each is divided by their sum; 0: none is */
    bool normalises;        /* the weights of a token's choices add up to 1 */
    /* Latent attention: widths of what queries, and keys and values, are made from (of queries 0:
       the input itself), and of the parts of a head. */
    int64_t query_rank, value_rank, plain_head, value_head;
    bool qkv_bias; /* of queries, keys and values alone */
    bool tied, attention_bias, output_bias, mlp_bias, head_bias, qk_norm, uses_window, parallel,
        scales, scales_by_layer;
    bool gated;                  /* the unit is */
    bool biases_by_layer;        /* each layer has a bias of scores of its own */
    int64_t place_buckets;       /* where scores are of places; below 1: every distance is one */
    bool scores_places;          /* places are in scores alone, not in embeddings */
    bool shares_projections;     /* of places with those of contents */
    bool drops_masked;           /* masked tokens are zeros, and the others grow by as many */
    int64_t masked;              /* the id of masked tokens */
    bool norms_before;           /* attention and unit, else behind them */
    bool norms_behind;           /* them, too */
    bool corrects;               /* routers are, where they choose */
    bool limits_groups;          /* of experts, a token's choices are in the best */
    double query_scale;          /* what scores are scaled by is 1 / sqrt of it; 0: a head's size */
    double score_scale;          /* or this itself; 0: as above */
    double score_cap, logit_cap; /* cap x tanh(x / cap); 0: none */
    double projection_clip;      /* queries, keys and values are within it; 0: not clipped */
    /* What the embedding, all that is added to the stream, and logits are scaled by; 0: not. */
    double embedding_scale, residual_scale, logit_scale;
    int64_t taps;       /* places that a short convolution reads */
    bool fits_inner;    /* the inner width is made from what is said */
    double inner_scale; /* 0: it is not rounded up to a multiple, either */
    int64_t inner_multiple;
    int64_t logit_width;    /* in widths of it logits are divided by the width */
    int64_t unturned_every; /* of so many layers the last has no rotary positions; 0: none */
    int64_t turned_width;   /* dimensions of a head that are turned; 0: as rotary[0].share says */
    bool turns_heads;       /* layers have rotary positions, else none has */
    bool turns_windowed;    /* layers with a window alone have them */
    const char *activation;
    /* Layers with a window, rotary positions, experts; with attention, and not a convolution. */
    cleave_of_layers windowed, turned, routed, attending;
    cleave_rotary rotary[2]; /* the second of layers with a window; its theta 0: as in others */
} cleave_config;

typedef enum cleave_field_kind {
    CLEAVE_FIELD_EXTENT, /* 1 or more; null: as if left out, or of heads as many as follow */
    CLEAVE_FIELD_COUNT,  /* 0 or more; null: 0 */
    CLEAVE_FIELD_ONE,    /* 1, or null: more are not supported */
    CLEAVE_FIELD_LAST,   /* 0 or more, or -1; null: -1 */
    CLEAVE_FIELD_NUMBER, /* above 0 */
    CLEAVE_FIELD_CAP,    /* above 0; null: 0 */
    CLEAVE_FIELD_RATE,   /* in [0, 1) */
    CLEAVE_FIELD_FLAG,
    CLEAVE_FIELD_YES,      /* true, or null */
    CLEAVE_FIELD_NOT,      /* false, or null: what it switches on is not supported */
    CLEAVE_FIELD_FUNCTION, /* the name of an activation, into a const char * */
    CLEAVE_FIELD_GATED,    /* the same, perhaps behind "gated-" */
    CLEAVE_FIELD_IS,       /* the text in `text`, or null: nothing else is supported */
    CLEAVE_FIELD_EITHER,   /* one of the two texts in `text`; true: the second */
    CLEAVE_FIELD_SQUARE,   /* an extent, or a list of two that are equal */
    CLEAVE_FIELD_PERIOD,   /* an extent, or a text such as "LLLG", whose last letter is another */
    CLEAVE_FIELD_ROTARY,   /* an object, which may have the member in `text`, too; null: none */
    CLEAVE_FIELD_ROTARIES, /* one for each of "full_attention" and "sliding_attention", into two */
    CLEAVE_FIELD_LAYERS,   /* a list of the two texts in `text`, one for each layer */
    CLEAVE_FIELD_SWITCHES, /* a list of 0 and 1, one for each layer */
    CLEAVE_FIELD_PLACES, /* a list of the numbers of layers: as many as there may be are said of */
    CLEAVE_FIELD_RUNS,   /* the same in runs: [[[TEXT, ...], N], ...] */
    CLEAVE_FIELD_ALIKE,  /* an extent, or a list of extents that are the same */
    CLEAVE_FIELD_EMPTY,  /* an empty list or object, or null */
    CLEAVE_FIELD_EXACT,  /* the number that is standard, or a list of it, or null: no other is
                            supported */
    CLEAVE_FIELD_IDLE,   /* anything: it changes nothing in this family */
    CLEAVE_FIELD_LABELS  /* an object with a member for each label */
} cleave_field_kind;

typedef struct cleave_field {
    const char *name; /* OBJECT.MEMBER where it is inside of an object of the file */
    cleave_field_kind kind;
    size_t offset; /* in cleave_config; several names may have one */
    bool required; /* unless another name of the same member is there */
    double standard;
    const char *text; /* of texts: what it is when left out */
} cleave_field;

typedef struct cleave_fields {
    const cleave_field *rows;
    size_t n;
} cleave_fields;

/* Puts a graph together; gives the name of its logits. */
typedef const char *cleave_composes(cleave_composer *c, const cleave_config *config);
typedef struct cleave_masked cleave_masked; /* family_masked.h */

/* A row for each `model_type`. */
typedef struct cleave_family {
    const char *model_type;
    const cleave_fields *fields;
    cleave_composes *compose; /* null: as `masked` says */
    const cleave_masked *masked;
    bool embeds;        /* gives a row for each sample, else classes of it, or of each token */
    bool turns;         /* has rotary positions; else a table of positions, or neither */
    bool turns_share;   /* of a share of each head's dimensions */
    bool has_own_head;  /* heads x size of a head need not be the width */
    bool skips_padding; /* positions begin behind the id that pads */
    bool places_pairs;  /* there is a constant for each query and key */
    int parts_of_heads; /* as many parts have as many heads each; 0: any number of heads is one */
} cleave_family;

/* Sorted by model_type. */
extern const cleave_family cleave_families[];
extern const int cleave_n_families;

/* The family of a configuration.  BAD_INPUT says what is near, or missing. */
cleave_status cleave_config_find_family(const cleave_json_cursor *root,
                                        const cleave_family **family, cleave_error *error);

/* Reads a configuration by the fields of its family.  `config` has to be zeroed but for
   `sequence`.  BAD_INPUT names the field. */
cleave_status cleave_config_read(const cleave_json_cursor *root, const cleave_family *family,
                                 cleave_arena *arena, cleave_config *config, cleave_error *error);

/* The sizes alone, whole and checked, as cleave_config_decode has them. */
cleave_status cleave_config_sizes(const cleave_config_request *from, cleave_arena *arena,
                                  const cleave_family **family, cleave_config *config,
                                  cleave_error *error);

/* ---- rotary positions; rotary.c ------------------------------------------------------------- */

/* Reads `rope_scaling`, or `rope_parameters`, into what is there already.  `own`: a member that a
   family has beside the usual ones; null: none. */
cleave_status cleave_rotary_read(const cleave_json_cursor *at, const char *own, cleave_arena *arena,
                                 cleave_rotary *rotary, cleave_error *error);
/* How many dimensions of a head are turned: as the file says, or its share, rounded down. */
int64_t cleave_rotary_width(const cleave_config *config);

/* What yarn makes of a magnitude: 1 where texts are not stretched. */
double cleave_yarn_magnitude(const cleave_rotary *r, double magnitude);

/* The tables of cosines and sines [sequence, width], NAME.cosines and NAME.sines, shared by layers.
 */
typedef struct cleave_rotary_tables {
    const char *cosines, *sines;
    int64_t width;
    bool interleaved;
} cleave_rotary_tables;
cleave_rotary_tables cleave_compose_rotary_tables(cleave_composer *c, const char *name,
                                                  const cleave_config *config);
/* Turns the first dimensions of heads [batch, heads, sequence, head].  Of pairs of neighbours the
   first halves come before the second ones then, which is the same to products of queries and keys.
 */
const char *cleave_compose_rotary(cleave_composer *c, const char *name, const char *x,
                                  const cleave_rotary_tables *tables, int64_t head);

#endif
