#include "cli/report/spans.h"

#include "base/list.h"
#include "simulator/report/item_label.h"

#include <stdio.h>

#include <stdlib.h>
#include <string.h>

/* So many are drawn of a page's devices; and a step is so many ticks long, or a little more. */
enum { MOST_SPANS = 24000, TICKS = 1 << 24, CRITICAL = 8 };

typedef struct span {
    int64_t start, end; /* picoseconds */
    int32_t label;      /* or -n */
    uint8_t sort;
    bool is_critical;
} span;

enum { N_SIDES = 2, MOST_LANES = REPORT_MOST_ROWS * N_SIDES * CLEAVE_N_LANES };
static const char *const side_names[N_SIDES] = {"measured", "predicted"};
static const char *const lane_names[CLEAVE_N_LANES] = {"main", "communication"};

typedef struct span_lane {
    CLEAVE_LIST(span) spans;
} span_lane;

typedef struct gatherer {
    const report_step *step;
    const cleave_program *program;
    const report_rows *rows;
    const bool *is_critical;      /* [n_items] */
    int32_t *row_of;              /* [n_devices] -1: not shown */
    int32_t *label_of;            /* [n_slots x kinds] -1: it has none yet */
    CLEAVE_LIST(int32_t) labeled; /* of each label the item that had it first */
    span_lane
        lanes[MOST_LANES]; /* row by row, measured above predicted, main above communication */
} gatherer;

static bool waits(const cleave_item *item) {
    return item->kind == CLEAVE_ITEM_WAIT || item->kind == CLEAVE_ITEM_SYNC ||
           item->kind == CLEAVE_ITEM_AWAIT;
}

/* ---- gathering ---- */

/* What runs or moves in one slot has one label, by its kind. */
static bool find_label(gatherer *g, int32_t i, int32_t *label) {
    const cleave_item *item = &g->program->items[i];
    int32_t *at = &g->label_of[item->slot * (CLEAVE_ITEM_AWAIT + 1) + item->kind];
    if (*at < 0) {
        *at = g->labeled.n;
        if (!CLEAVE_LIST_PUSH(&g->labeled, i))
            return false;
    }
    *label = *at;
    return true;
}

static bool gather_item(gatherer *g, int32_t i, int side, const cleave_timeline *timeline) {
    const cleave_item *item = &g->program->items[i];
    int32_t row = g->row_of[item->device];
    if (row < 0 || timeline->end[i] <= timeline->start[i] || timeline->start[i] < 0)
        return true;
    span_lane *lane = &g->lanes[(row * N_SIDES + side) * CLEAVE_N_LANES + item->lane];
    span made = {
        .start = timeline->start[i],
        .end = timeline->end[i],
        .is_critical = side == 1 && g->is_critical[i],
        .sort = (uint8_t)(waits(item) ? EXPLAIN_WAITING : explain_sort_of_item(g->program, item))};
    if (lane->spans.n > 0 && made.start < lane->spans.items[lane->spans.n - 1].end)
        made.start = lane->spans.items[lane->spans.n - 1].end;
    return made.end <= made.start ||
           (find_label(g, i, &made.label) && CLEAVE_LIST_PUSH(&lane->spans, made));
}

static bool gather(gatherer *g) {
    const cleave_timeline *sides[N_SIDES] = {&g->step->measured, &g->step->of.simulated.timeline};
    for (int side = 0; side < N_SIDES; side++)
        for (int32_t i = 0; i < g->program->n_items && sides[side]->start != NULL; i++)
            if (!gather_item(g, i, side, sides[side]))
                return false;
    return true;
}

/* ---- drawing many as one ---- */

/* Of runs of spans that are shorter than `shortest` each, and that follow one another with gaps
   that are, too, makes spans of about that length, of the sort that takes most of each. */
static int32_t merge(span *spans, int32_t n, int64_t shortest) {
    int32_t kept = 0;
    for (int32_t i = 0; i < n;) {
        int64_t taken[EXPLAIN_N_SORTS] = {0};
        span one = spans[i];
        int32_t first = i, best = one.sort;
        for (; i < n && spans[i].end - spans[i].start < shortest &&
               spans[i].start - one.end < shortest && one.end - one.start < shortest;
             i++) {
            one.end = spans[i].end;
            one.is_critical |= spans[i].is_critical;
            taken[spans[i].sort] += spans[i].end - spans[i].start;
        }
        for (int s = 0; s < EXPLAIN_N_SORTS; s++)
            best = taken[s] > taken[best] ? s : best;
        if (i > first + 1) {
            one.sort = (uint8_t)best;
            one.label = first - i;
        }
        i += i == first;
        spans[kept++] = one;
    }
    return kept;
}

static int64_t merge_until_few(gatherer *g) {
    int64_t n = 0, shortest = g->step->of.simulated.timeline.step / 100000;
    for (int l = 0; l < MOST_LANES; l++)
        n += g->lanes[l].spans.n;
    if (n <= MOST_SPANS)
        return 0;
    do {
        n = 0;
        shortest = 2 * shortest + 1;
        for (int l = 0; l < MOST_LANES; l++) {
            g->lanes[l].spans.n = merge(g->lanes[l].spans.items, g->lanes[l].spans.n, shortest);
            n += g->lanes[l].spans.n;
        }
    } while (n > MOST_SPANS);
    return shortest;
}

/* ---- writing ---- */

static void put_labels(cleave_json_writer *w, const gatherer *g) {
    cleave_json_open_array(w, "labels", true);
    for (int32_t l = 0; l < g->labeled.n; l++) {
        const cleave_item *item = &g->program->items[g->labeled.items[l]];
        cleave_item_label label = cleave_item_label_of(g->program, item);
        char text[400];
        snprintf(text, sizeof text, "%s %.300s %s", label.kind,
                 cleave_item_label_slot(g->program, item->slot), label.pass);
        cleave_json_put_string(w, text);
    }
    cleave_json_end_array(w);
}

static void put_lane(cleave_json_writer *w, const gatherer *g, int l, int64_t tick) {
    const span_lane *lane = &g->lanes[l];
    int row = l / (N_SIDES * CLEAVE_N_LANES);
    int64_t before = 0;
    cleave_json_begin_object(w, true);
    cleave_json_set_integer(w, "device", cleave_program_device(g->program, g->rows->device[row]));
    cleave_json_set_integer(w, "alike",
                            (int64_t)g->rows->alike[row] * report_step_windows(g->step));
    cleave_json_set_string(w, "side", side_names[l / CLEAVE_N_LANES % N_SIDES]);
    cleave_json_set_string(w, "lane", lane_names[l % CLEAVE_N_LANES]);
    cleave_json_open_array(w, "spans", true);
    for (int32_t i = 0; i < lane->spans.n; i++) {
        const span *s = &lane->spans.items[i];
        cleave_json_put_integer(w, s->start / tick - before);
        cleave_json_put_integer(w, s->end / tick - s->start / tick);
        cleave_json_put_integer(w, s->sort + (s->is_critical ? CRITICAL : 0));
        cleave_json_put_integer(w, s->label);
        before = s->end / tick;
    }
    cleave_json_end_array(w);
    cleave_json_end_object(w);
}

static void put(cleave_json_writer *w, const gatherer *g) {
    const report_step *step = g->step;
    int64_t tick = step->of.simulated.timeline.step / TICKS + 1;
    cleave_json_begin_object(w, true);
    cleave_json_set_number(w, "step_seconds", 1e-12 * (double)step->of.simulated.timeline.step);
    if (step->measured.start != NULL)
        cleave_json_set_number(w, "measured_step_seconds", 1e-12 * (double)step->measured.step);
    cleave_json_set_number(w, "tick_seconds", 1e-12 * (double)tick);
    put_labels(w, g);
    cleave_json_open_array(w, "lanes", true);
    for (int l = 0; l < g->rows->n * N_SIDES * CLEAVE_N_LANES; l++)
        if (step->measured.start != NULL || l / CLEAVE_N_LANES % N_SIDES == 1)
            put_lane(w, g, l, tick);
    cleave_json_end_array(w);
    cleave_json_end_object(w);
}

/* ---- all of it ---- */

static bool prepare(gatherer *g, cleave_arena *scratch) {
    const cleave_program *program = g->program;
    size_t n_labels = (size_t)program->n_slots * (CLEAVE_ITEM_AWAIT + 1);
    bool *is_critical = CLEAVE_ARENA_ARRAY(scratch, bool, program->n_items);
    g->row_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, program->n_devices);
    g->label_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_labels);
    if (is_critical == NULL || g->row_of == NULL || g->label_of == NULL)
        return false;
    memset(g->row_of, -1, (size_t)program->n_devices * sizeof *g->row_of);
    memset(g->label_of, -1, n_labels * sizeof *g->label_of);
    for (int32_t r = 0; r < g->rows->n; r++)
        g->row_of[g->rows->device[r]] = r;
    for (int32_t i = 0; i < g->step->critical.n; i++)
        is_critical[g->step->critical.segments[i].item] = true;
    g->is_critical = is_critical;
    return true;
}

cleave_status report_spans_put(cleave_json_writer *writer, const char *key, const report_step *step,
                               const report_rows *rows, int64_t *shortest, cleave_error *error) {
    cleave_arena scratch = {0};
    gatherer g = {.step = step, .program = &step->of.priced.program, .rows = rows};
    bool done = prepare(&g, &scratch) && gather(&g);
    if (done) {
        *shortest = merge_until_few(&g);
        cleave_json_key(writer, key);
        put(writer, &g);
    }
    for (int l = 0; l < MOST_LANES; l++)
        CLEAVE_LIST_FREE(&g.lanes[l].spans);
    CLEAVE_LIST_FREE(&g.labeled);
    cleave_arena_free(&scratch);
    return done ? CLEAVE_OK : cleave_fail_memory(error, "drawing a timeline");
}
