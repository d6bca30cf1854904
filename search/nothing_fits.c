/* Nothing fits: how much the leanest layout found needs, which tensors hold it when its fullest
   device is fullest, and whether that had to be so. */
#include "base/order.h"
#include "graph/model/filled.h"
#include "graph/model/precision.h"
#include "graph/program/memory_plan.h"
#include "search/price/view.h"
#include "search/session.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NAMED = 4 };

static const char *const kind_names[CLEAVE_N_BUFFER_KINDS] = {
    [CLEAVE_BUFFER_PARAMETER] = "",
    [CLEAVE_BUFFER_GRADIENT] = "gradient of ",
    [CLEAVE_BUFFER_STATE] = "optimizer state of ",
    [CLEAVE_BUFFER_RUNNING] = "",
    [CLEAVE_BUFFER_CONSTANT] = "",
    [CLEAVE_BUFFER_DATA] = "",
    [CLEAVE_BUFFER_ACTIVATION] = "",
    [CLEAVE_BUFFER_ACTIVATION_GRADIENT] = "gradient of ",
    [CLEAVE_BUFFER_MESSAGE] = "messages",
    [CLEAVE_BUFFER_WORKSPACE] = "workspaces",
};

/* What one tensor, of one kind of buffer, holds. */
typedef struct holding {
    cleave_buffer_kind kind;
    int32_t tensor;
    int64_t bytes;
} holding;

/* The layout that was asked for by name; null: the method searches, or does not apply. */
static const session_given *asked_for(const session *s) {
    for (int32_t g = 0; g < s->n_given; g++)
        if (s->given[g].method != NULL && strcmp(s->given[g].method, s->options->method) == 0)
            return &s->given[g];
    return NULL;
}

/* Of those that might have been the result; null: none was priced. */
static const cleave_layout *leanest(const session *s, const cleave_price **price) {
    const cleave_layout *layout = NULL;
    for (int32_t i = 0; i < s->n_found; i++)
        if (layout == NULL || s->found[i].price.excess_bytes < (*price)->excess_bytes) {
            layout = &s->found[i].layout;
            *price = &s->found[i].price;
        }
    for (int32_t g = 0; g < s->n_given; g++) {
        const session_given *given = &s->given[g];
        bool is_wanted = session_searches(s) || given == asked_for(s);
        if (is_wanted && session_is_priced(given) && session_allows(s, given->layout) &&
            (layout == NULL || given->price.excess_bytes < (*price)->excess_bytes)) {
            layout = given->layout;
            *price = &given->price;
        }
    }
    return layout;
}

/* The item at which most memory of a device is in use. */
static cleave_status find_peak(const cleave_program *program, int32_t device, cleave_arena *arena,
                               int32_t *item, cleave_error *error) {
    int64_t *change = CLEAVE_ARENA_ARRAY(arena, int64_t, (size_t)program->n_items + 1);
    if (change == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->device != device || buffer->storage != b)
            continue;
        const cleave_life life = cleave_buffer_life(buffer);
        change[cleave_life_used_from(&life)] += life.bytes;
        change[cleave_life_used_to(&life) + 1] -= life.bytes;
    }
    int64_t live = 0, most = -1;
    for (int32_t i = 0; i < program->n_items; i++) {
        live += change[i];
        if (live > most) {
            most = live;
            *item = i;
        }
    }
    return CLEAVE_OK;
}

static int by_bytes(const void *a, const void *b) {
    const holding *x = a, *y = b;
    CLEAVE_ORDER_BY(y->bytes, x->bytes);
    CLEAVE_ORDER_BY(x->tensor, y->tensor);
    return (int)x->kind - (int)y->kind;
}

static int by_tensor(const void *a, const void *b) {
    const holding *x = a, *y = b;
    CLEAVE_ORDER_BY(x->tensor, y->tensor);
    return (int)x->kind - (int)y->kind;
}

/* What is in use at an item, added up by tensor and kind, the largest first. */
static cleave_status list_holdings(const cleave_program *program, int32_t device, int32_t item,
                                   cleave_arena *arena, holding **holdings, int32_t *n,
                                   cleave_error *error) {
    holding *list = CLEAVE_ARENA_ARRAY(arena, holding, program->n_buffers);
    int32_t n_listed = 0, n_merged = 0;
    if (list == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        const cleave_life life = cleave_buffer_life(buffer);
        if (buffer->device == device && buffer->storage == b &&
            cleave_life_used_from(&life) <= item && item <= cleave_life_used_to(&life))
            list[n_listed++] = (holding){buffer->kind, buffer->tensor, life.bytes};
    }
    CLEAVE_SORT(list, n_listed, by_tensor);
    for (int32_t i = 0; i < n_listed; i++)
        if (n_merged > 0 && by_tensor(&list[i], &list[n_merged - 1]) == 0)
            list[n_merged - 1].bytes += list[i].bytes;
        else
            list[n_merged++] = list[i];
    CLEAVE_SORT(list, n_merged, by_bytes);
    *holdings = list;
    *n = n_merged;
    return CLEAVE_OK;
}

static void format_holdings(const cleave_model *model, const holding *holdings, int32_t n,
                            char *text, size_t bytes) {
    size_t at = 0;
    for (int32_t i = 0; i < n && i < MOST_NAMED && at < bytes; i++) {
        char size[32];
        cleave_unit_format((double)holdings[i].bytes, CLEAVE_UNIT_BYTES, size, sizeof size);
        int written = snprintf(
            text + at, bytes - at, "%s%s%s %s", i > 0 ? ", " : "", kind_names[holdings[i].kind],
            holdings[i].tensor >= 0 ? model->tensors[holdings[i].tensor].name : "", size);
        at += written > 0 ? (size_t)written : 0;
    }
}

/* The peak of a layout, and what holds it, which takes all of it lowered. */
static cleave_status describe(session *s, const cleave_layout *layout, cleave_arena *arena,
                              char *text, size_t bytes, cleave_error *error) {
    cleave_lowered lowered;
    cleave_repeats *repeats = s->pricer->repeats;
    holding *holdings = NULL;
    int32_t n = 0, fullest = 0, item = 0;
    s->pricer->repeats = NULL; /* all blocks hold memory */
    cleave_status status = cleave_lowered_closed_form(s->pricer, layout, &lowered, error);
    s->pricer->repeats = repeats;
    CLEAVE_TRY(status);
    const cleave_program program = lowered.program;
    for (int32_t d = 1; d < program.n_devices; d++)
        if (program.peak_bytes[d] > program.peak_bytes[fullest])
            fullest = d;
    CLEAVE_TRY(find_peak(&program, fullest, arena, &item, error));
    CLEAVE_TRY(list_holdings(&program, fullest, item, arena, &holdings, &n, error));
    cleave_price price = {0};
    char peak[32], held[512] = "";
    cleave_pricer_weigh(s->pricer, &program, &price);
    cleave_unit_format((double)price.peak_bytes, CLEAVE_UNIT_BYTES, peak, sizeof peak);
    format_holdings(s->model, holdings, n, held, sizeof held);
    snprintf(text, bytes, "%s, on device %d, held by %s", peak, fullest, held);
    return CLEAVE_OK;
}

/* Parameters and their states are there all the time, however the batch is cut. */
static int64_t lasting_bytes(const session *s) {
    int64_t bytes = 0;
    for (int32_t t = 0; t < s->model->n_tensors; t++)
        if (s->model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            bytes += cleave_tensor_size(&s->model->tensors[t]) *
                     cleave_lasting_bytes(&s->model->tensors[t], s->options->optimizer_states);
    return bytes;
}

/* Was nothing but the whole batch at once looked for? */
static bool is_of_whole_batches(const session *s) {
    return !s->stages_tried && !session_stages(s) && cleave_model_trains(s->model);
}

/* Of all devices, what no layout that might have been tried does without. */
static int64_t least_of_any(const session *s) {
    return s->stages_tried || session_stages(s) ? lasting_bytes(s) : s->least_bytes;
}

static void format_proof(const session *s, char *text, size_t bytes) {
    char needed[32], there[32];
    int64_t least = least_of_any(s);
    cleave_unit_format((double)least, CLEAVE_UNIT_BYTES, needed, sizeof needed);
    cleave_unit_format((double)s->most_bytes, CLEAVE_UNIT_BYTES, there, sizeof there);
    snprintf(text, bytes, "%s: any layout%s holds %s in all, and there are %s",
             least > s->most_bytes ? "proven" : "unproven",
             is_of_whole_batches(s) ? " of the whole batch at once" : "", needed, there);
}

bool session_is_hopeless(const session *s) { return s->least_bytes > s->most_bytes; }

static cleave_status fail_named(const session *s, const char *needed, const char *limit,
                                const char *under, cleave_error *error) {
    const session_given *given = asked_for(s);
    const char *method = s->options->method;
    if (given == NULL && needed[0] == '\0')
        return cleave_fail(error, CLEAVE_NO_LAYOUT, "method \"%s\" does not apply to %s%s", method,
                           s->model->file, under);
    if (given != NULL && !session_is_priced(given))
        return cleave_fail(error, CLEAVE_NO_LAYOUT, "method \"%s\" is not priced: %s", method,
                           s->unpriced[session_find_baseline(method)]);
    return cleave_fail(error, CLEAVE_NO_LAYOUT,
                       "method \"%s\" does not fit in %s of memory per device%s: it needs %s",
                       method, limit, under, needed);
}

/* Where not all that could be tried was, and might have fitted: "; why, and where more is". */
static void format_reach(const session *s, char *text, size_t bytes) {
    char reach[160];
    bool has_ended = !s->stages_tried && session_stages(s) && s->options->time_seconds > 0 &&
                     least_of_any(s) <= s->most_bytes;
    bool left_out = is_of_whole_batches(s) && cleave_constraints_allow_stages(s->constraints);
    snprintf(text, bytes, "%s",
             session_interrupted(s) ? "; the search was interrupted"
             : has_ended            ? "; no --time was left for stages and micro-batches"
             : left_out ? "; with --micro-batches, --stages or --recompute more is looked for"
                        : "");
    if (!s->reach.only_folds || session_is_hopeless(s))
        return;
    session_describe_reach(s, reach, sizeof reach);
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "; %s; %s", s->why_no_fold, reach);
}

/* "; experts have room for ..." */
static void format_room(const cleave_model *model, char *text, size_t bytes) {
    double room = cleave_model_most_room(model);
    text[0] = '\0';
    if (room >= 2)
        snprintf(text, bytes,
                 "; experts have room for %.3g x the rows of an even choice, unless a capacity "
                 "factor is given",
                 room);
}

/* "80.0 GiB", or of devices that have not all the same "10.2 GiB to 22.4 GiB". */
static void format_limit(const session *s, char *text, size_t bytes) {
    int64_t least = s->options->memory_limit_bytes, most = least;
    for (int32_t k = 0; k < s->machine->n_kinds && s->options->memory_limit_bytes <= 0; k++) {
        int64_t has = s->machine->kinds[k].memory_bytes;
        least = k == 0 || has < least ? has : least;
        most = has > most ? has : most;
    }
    char from[32], to[32];
    cleave_unit_format((double)least, CLEAVE_UNIT_BYTES, from, sizeof from);
    cleave_unit_format((double)most, CLEAVE_UNIT_BYTES, to, sizeof to);
    snprintf(text, bytes, "%s%s%s", from, least < most ? " to " : "", least < most ? to : "");
}

cleave_status session_fail_nothing_fits(session *s, cleave_error *error) {
    char least[640] = "", limit[64], under[512], proof[160], reach[512], room[128];
    const cleave_price *price = NULL;
    const cleave_layout *layout = leanest(s, &price);
    cleave_arena arena = {0};
    cleave_status status = CLEAVE_OK;
    if (layout != NULL && cleave_lowers_to_many(layout))
        cleave_unit_format((double)price->peak_bytes, CLEAVE_UNIT_BYTES, least, sizeof least);
    else if (layout != NULL)
        status = describe(s, layout, &arena, least, sizeof least, error);
    cleave_arena_free(&arena);
    CLEAVE_TRY(status);
    format_limit(s, limit, sizeof limit);
    cleave_constraints_describe(s->constraints, under, sizeof under);
    if (!session_searches(s))
        return fail_named(s, least, limit, under, error);
    format_proof(s, proof, sizeof proof);
    format_reach(s, reach, sizeof reach);
    format_room(s->model, room, sizeof room);
    if (layout == NULL)
        return cleave_fail(error, CLEAVE_NO_LAYOUT, "no layout %s%s%s",
                           s->n_given > 0 || s->stages_tried
                               ? "that was tried is as it is asked for"
                               : "was priced",
                           under, reach);
    return cleave_fail(error, CLEAVE_NO_LAYOUT,
                       "no layout fits in %s of memory per device%s: the least that any of %lld "
                       "layouts tried needs is %s (%s)%s%s",
                       limit, under, (long long)session_n_priced(s), least, proof, reach, room);
}
