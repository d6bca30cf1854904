/* Memory over the step, by what it holds: on the fullest device, item by item in the order of its
   program, by which buffers live, drawn at the times when the items begin. */
#include "cli/report/panels.h"

#include "cli/explain/report.h"
#include "graph/program/memory_plan.h"
#include "page/scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 960, HEIGHT = 300, LEFT = 64, RIGHT = 944, TOP = 12, BOTTOM = 256, COLUMNS = 880 };

/* What is in use, in each column of the drawing where most is. */
typedef struct profile {
    int64_t bytes[COLUMNS][CLEAVE_N_BUFFER_KINDS];
    int64_t total[COLUMNS]; /* -1: nothing began there */
    int64_t most;
    bool is_used[CLEAVE_N_BUFFER_KINDS];
} profile;

/* By position in the program what each kind grows by there; [n_items + 1][kinds] would be large, so
   kind by kind, the columns being chosen before by the total. */
static void add_changes(const report_step *step, int kind, int64_t *change) {
    const cleave_program *program = &step->of.priced.program;
    memset(change, 0, ((size_t)program->n_items + 1) * sizeof *change);
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->device != step->path.fullest_device || buffer->storage != b ||
            (kind >= 0 && (int)buffer->kind != kind))
            continue;
        const cleave_life life = cleave_buffer_life(buffer);
        change[cleave_life_used_from(&life)] += life.bytes;
        change[cleave_life_used_to(&life) + 1] -= life.bytes;
    }
}

/* In which column an item of the device begins, never before one that stands before it; -1: it is
   of another device. */
static int32_t column_of(const report_step *step, int32_t item, int32_t before) {
    const cleave_timeline *timeline = &step->of.simulated.timeline;
    if (step->of.priced.program.items[item].device != step->path.fullest_device)
        return -1;
    double share = (double)timeline->start[item] / (double)timeline->step;
    int32_t column = (int32_t)(share * (COLUMNS - 1));
    return column > before ? column : before;
}

static void find_columns(const report_step *step, int64_t *change, int32_t *item_of, profile *p) {
    int64_t in_use = 0;
    int32_t last = 0;
    add_changes(step, -1, change);
    for (int32_t c = 0; c < COLUMNS; c++)
        p->total[c] = -1;
    for (int32_t i = 0; i < step->of.priced.program.n_items; i++) {
        in_use += change[i];
        int32_t column = column_of(step, i, last);
        if (column < 0)
            continue;
        last = column;
        if (in_use > p->total[column]) {
            p->total[column] = in_use;
            item_of[column] = i;
        }
        p->most = in_use > p->most ? in_use : p->most;
    }
}

/* Columns in which nothing begins hold what is held before. */
static void fill_kind(const report_step *step, int kind, int64_t *change, const int32_t *item_of,
                      profile *p) {
    int64_t in_use = 0;
    int32_t at = 0;
    add_changes(step, kind, change);
    for (int32_t c = 0; c < COLUMNS; c++) {
        if (p->total[c] < 0) {
            p->bytes[c][kind] = c > 0 ? p->bytes[c - 1][kind] : 0;
            continue;
        }
        for (; at <= item_of[c]; at++)
            in_use += change[at];
        p->bytes[c][kind] = in_use;
        p->is_used[kind] |= in_use > 0;
    }
}

static cleave_status find_profile(const report_step *step, profile *p, cleave_error *error) {
    int64_t *change = calloc((size_t)step->of.priced.program.n_items + 1, sizeof *change);
    int32_t *item_of = calloc(COLUMNS, sizeof *item_of);
    bool done = change != NULL && item_of != NULL;
    if (done)
        find_columns(step, change, item_of, p);
    for (int k = 0; k < CLEAVE_N_BUFFER_KINDS && done; k++)
        fill_kind(step, k, change, item_of, p);
    free(change);
    free(item_of);
    return done ? CLEAVE_OK : cleave_fail_memory(error, "drawing memory");
}

/* ---- drawing ---- */

/* From the left along the upper edge, and back along the lower one; edges that stay are not said.
 */
static void put_kind(cleave_markup *page, const profile *p, int kind, const cleave_scale *y) {
    cleave_markup_put(page, "<path class=\"m%d\" d=\"", kind);
    for (int side = 0; side < 2; side++) {
        double before = -1;
        for (int32_t i = 0; i < COLUMNS; i++) {
            int32_t c = side == 0 ? i : COLUMNS - 1 - i;
            double sum = 0;
            for (int k = 0; k < kind + 1 - side; k++)
                sum += (double)p->bytes[c][k];
            double at = round(10 * cleave_scale_place(y, sum)) / 10;
            int32_t x = LEFT + c + side;
            if (i == 0)
                cleave_markup_put(page, side == 0 ? "M%d %g" : "L%d %g", x, at);
            else if (fabs(at - before) > 0.05)
                cleave_markup_put(page, "H%dV%g", x, at);
            before = at;
        }
        cleave_markup_put(page, "H%d", side == 0 ? RIGHT : LEFT);
    }
    cleave_markup_put(page, "Z\"><title>%s</title></path>\n", explain_buffer_names[kind]);
}

static void put_frame(cleave_markup *page, const cleave_scale *x, const cleave_scale *y) {
    char text[32];
    for (int i = 0; i < y->n_ticks; i++) {
        double at = cleave_scale_place(y, y->ticks[i]);
        cleave_scale_format(y, y->ticks[i], text, sizeof text);
        cleave_markup_put(page,
                          "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                          "text-anchor=\"end\">%s%s%s</text>\n",
                          (int)LEFT, at, (int)RIGHT, (int)LEFT - 6, at + 4, text,
                          i + 1 == y->n_ticks ? " " : "", i + 1 == y->n_ticks ? y->unit : "");
    }
    for (int i = 0; i < x->n_ticks; i++) {
        double at = cleave_scale_place(x, x->ticks[i]);
        cleave_scale_format(x, x->ticks[i], text, sizeof text);
        if (at <= RIGHT + 1)
            cleave_markup_put(page,
                              "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s%s%s</text>\n",
                              at, (int)BOTTOM + 17, text, i == 0 ? " " : "", i == 0 ? x->unit : "");
    }
}

static void put_drawing(cleave_markup *page, const report *of, const profile *p) {
    cleave_scale x = cleave_scale_make(0, 1e-12 * (double)of->step->of.simulated.timeline.step,
                                       CLEAVE_UNIT_SECONDS, 0);
    cleave_scale y = cleave_scale_make(0, (double)p->most, CLEAVE_UNIT_BYTES, 0);
    double step = 1e-12 * (double)of->step->of.simulated.timeline.step;
    x.from = LEFT;
    x.to = LEFT + (RIGHT - LEFT) * x.most / step;
    y.from = BOTTOM;
    y.to = TOP;
    cleave_markup_put(page,
                      "<figure class=\"wide\"><svg class=\"drawing full\" viewBox=\"0 0 %d %d\" "
                      "role=\"img\" aria-label=\"Memory in use over the step\">\n",
                      (int)WIDTH, (int)HEIGHT - 16);
    put_frame(page, &x, &y);
    for (int k = 0; k < CLEAVE_N_BUFFER_KINDS; k++)
        if (p->is_used[k])
            put_kind(page, p, k, &y);
    cleave_markup_put(page, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/></svg></figure>\n", (int)LEFT,
                      (int)TOP, (int)BOTTOM, (int)RIGHT);
}

/* What is held at the fullest moment, the largest first as the drawing stacks it. */
static void put_held(cleave_markup *page, const report *of, const profile *p) {
    const explain_path *path = &of->step->path;
    cleave_markup_put(page, "<div class=\"scroll\"><table><thead><tr><th>At the fullest "
                            "moment</th><th class=\"number\">bytes</th><th class=\"number\">share"
                            "</th></tr></thead><tbody>\n");
    for (int k = 0; k < CLEAVE_N_BUFFER_KINDS; k++)
        if (p->is_used[k])
            cleave_markup_put(page,
                              "<tr><th scope=\"row\"><svg width=\"14\" height=\"14\" "
                              "aria-hidden=\"true\"><rect class=\"m%d\" width=\"14\" "
                              "height=\"14\"/></svg> %s</th><td class=\"number\">%s</td><td "
                              "class=\"number\">%.1f %%</td></tr>\n",
                              k, explain_buffer_names[k],
                              report_quantity((double)path->held_bytes[k], CLEAVE_UNIT_BYTES).text,
                              100 * (double)path->held_bytes[k] / (double)p->most);
    cleave_markup_put(page, "</tbody></table></div>\n");
}

cleave_status report_put_memory(cleave_markup *page, const report *of, cleave_error *error) {
    profile *p = calloc(1, sizeof *p);
    if (p == NULL)
        return cleave_fail_memory(error, "drawing memory");
    cleave_status status = find_profile(of->step, p, error);
    if (status == CLEAVE_OK) {
        const explain_path *path = &of->step->path;
        cleave_page_begin_section(page, "memory", "Memory over the step");
        cleave_markup_put(page, "<div class=\"beside\">\n");
        put_drawing(page, of, p);
        put_held(page, of, p);
        cleave_markup_put(page, "</div>\n");
        cleave_markup_put(
            page,
            "<p class=\"note\">Device %d, the fullest: at most %s are in use at once, and it takes "
            "%s with what lies between buffers and what the runtime needs.</p>\n",
            cleave_program_device(&of->step->of.priced.program, path->fullest_device),
            report_quantity((double)p->most, CLEAVE_UNIT_BYTES).text,
            report_quantity((double)path->peak_bytes, CLEAVE_UNIT_BYTES).text);
        cleave_page_end_section(page);
    }
    free(p);
    return status;
}
