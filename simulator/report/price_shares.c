/* Shares of a step by what its prices rest on. */
#include "simulator/report/price_shares.h"

#include "simulator/report/critical_path.h"

#include <math.h>

/* Beyond these shares of what has no spread, a spread of the rest would promise too much. */
static const double most_data_sheet = 0.05, most_links = 0.25;

const char *const cleave_step_part_names[CLEAVE_N_STEP_PARTS] = {
    "products",   "attention",      "other kernels", "updates",    "copies",
    "all-reduce", "reduce-scatter", "all-gather",    "all-to-all", "messages"};

typedef struct sums {
    double by_provenance[CLEAVE_N_PROVENANCES]; /* seconds */
    double by_part[CLEAVE_N_STEP_PARTS];        /* seconds */
    double links;                               /* seconds */
    double predicted_error;                     /* sum of seconds x spread */
    double noise;                               /* measured prices: sum of its squares */
    double *by_source;                          /* [n_sources] sum of seconds x spread */
} sums;

static bool is_of_links(cleave_item_kind kind) {
    return kind != CLEAVE_ITEM_COMPUTE && kind != CLEAVE_ITEM_UPDATE && kind != CLEAVE_ITEM_LOAD &&
           kind != CLEAVE_ITEM_COPY;
}

static cleave_step_part part_of_compute(const cleave_program *program, const cleave_item *item) {
    int32_t nest = program->slots != NULL ? program->slots[item->slot].nest : -1;
    cleave_nest_kind kind = nest >= 0 ? program->model->nests[nest].kind : CLEAVE_NEST_POINTWISE;
    return kind == CLEAVE_NEST_PRODUCT || kind == CLEAVE_NEST_CONVOLUTION ? CLEAVE_PART_PRODUCTS
           : kind == CLEAVE_NEST_ATTENTION                                ? CLEAVE_PART_ATTENTION
                                           : CLEAVE_PART_OTHER_KERNELS;
}

static cleave_step_part part_of(const cleave_program *program, const cleave_item *item) {
    static const cleave_step_part collectives[] = {[CLEAVE_ALL_REDUCE] = CLEAVE_PART_ALL_REDUCE,
                                                   [CLEAVE_REDUCE_SCATTER] =
                                                       CLEAVE_PART_REDUCE_SCATTER,
                                                   [CLEAVE_ALL_GATHER] = CLEAVE_PART_ALL_GATHER,
                                                   [CLEAVE_ALL_TO_ALL] = CLEAVE_PART_ALL_TO_ALL};
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
        return part_of_compute(program, item);
    case CLEAVE_ITEM_UPDATE:
        return CLEAVE_PART_UPDATES;
    case CLEAVE_ITEM_LOAD:
    case CLEAVE_ITEM_COPY:
        return CLEAVE_PART_COPIES;
    case CLEAVE_ITEM_JOIN:
    case CLEAVE_ITEM_AWAIT:
        return collectives[program->collectives[item->subject].kind];
    default:
        return CLEAVE_PART_MESSAGES;
    }
}

/* Seconds in which the main lane of a device does something, on average. */
static double main_lane_seconds(const cleave_engine_problem *problem, const cleave_turned *turned) {
    int64_t all = 0;
    for (int32_t b = 0; b < turned->n_blocks; b++)
        for (int32_t i = turned->first_item[b]; i < turned->first_item[b + 1]; i++)
            if (problem->step.queue[i] % 2 == CLEAVE_LANE_MAIN)
                all += problem->step.duration[i] * cleave_turned_times(turned, b);
    return 1e-12 * (double)all / (problem->n_queues / 2);
}

static void add_path(const cleave_program *program, const cleave_price_basis *basis,
                     const cleave_critical_path *path, sums *s) {
    for (int32_t i = 0; i < path->n; i++) {
        int32_t item = path->segments[i].item;
        const cleave_price_basis *of = &basis[item];
        double seconds = 1e-12 * (double)path->segments[i].picoseconds;
        s->by_provenance[of->provenance] += seconds;
        s->by_part[part_of(program, &program->items[item])] += seconds;
        if (is_of_links((cleave_item_kind)program->items[item].kind))
            s->links += seconds;
        double error = seconds * of->spread;
        if (of->provenance == CLEAVE_PROVENANCE_MEASURED) {
            s->noise += error * error;
        } else if (of->provenance == CLEAVE_PROVENANCE_PREDICTED) {
            s->by_source[of->source] += error;
            s->predicted_error += error;
        }
    }
}

static cleave_price_shares conclude(const sums *s, double main_seconds, int32_t n_sources) {
    cleave_price_shares shares = {0};
    double step = 0, squares = s->noise;
    for (int p = 0; p < CLEAVE_N_PROVENANCES; p++)
        step += s->by_provenance[p];
    if (step <= 0) { /* nothing takes time: as good as measured */
        shares.share[CLEAVE_PROVENANCE_MEASURED] = 1;
        return shares;
    }
    for (int p = 0; p < CLEAVE_N_PROVENANCES; p++)
        shares.share[p] = s->by_provenance[p] / step;
    for (int p = 0; p < CLEAVE_N_STEP_PARTS; p++)
        shares.part[p] = s->by_part[p] / step;
    shares.links = s->links / step;
    shares.idle = main_seconds < step ? 1 - main_seconds / step : 0;
    if (s->by_provenance[CLEAVE_PROVENANCE_PREDICTED] > 0)
        shares.predicted_spread =
            s->predicted_error / s->by_provenance[CLEAVE_PROVENANCE_PREDICTED];
    for (int32_t i = 0; i < n_sources; i++)
        squares += s->by_source[i] * s->by_source[i];
    bool known =
        shares.share[CLEAVE_PROVENANCE_DATA_SHEET] <= most_data_sheet && shares.links <= most_links;
    shares.step_spread_seconds = known ? sqrt(squares) : -1;
    return shares;
}

cleave_status cleave_price_shares_find(const cleave_program *program,
                                       const cleave_engine_problem *problem,
                                       const cleave_turned *turned, const cleave_timeline *timeline,
                                       const cleave_price_basis *basis, int32_t n_sources,
                                       cleave_price_shares *shares, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_critical_path path;
    sums s = {.by_source = CLEAVE_ARENA_ARRAY(&scratch, double, n_sources)};
    cleave_status status =
        s.by_source == NULL
            ? cleave_fail_memory(error, "adding up prices")
            : cleave_critical_path_find(problem, turned, timeline, &scratch, &path, error);
    if (status == CLEAVE_OK) {
        add_path(program, basis, &path, &s);
        *shares = conclude(&s, main_lane_seconds(problem, turned), n_sources);
    }
    cleave_arena_free(&scratch);
    return status;
}
