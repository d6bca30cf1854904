/* Traffic between devices as a matrix, and by link with what binds. */
#include "cli/report/panels.h"

#include <math.h>
#include <stdio.h>

enum { SIDE = 420, MOST_CELL = 60, LEFT = 52, TOP = 30, MOST_LINKS = 12, BAR = 180, N_SHADES = 9 };

/* Of a cell of the matrix: few are not drawn larger than they need be. */
static double cell_side(const report_traffic *t) {
    return fmin((double)SIDE / t->n_cells, MOST_CELL);
}

static void name_cell(const report_traffic *t, int32_t cell, int32_t n_devices, char *text,
                      size_t bytes) {
    int32_t first = cell * t->devices_per_cell, last = first + t->devices_per_cell - 1;
    last = last < n_devices ? last : n_devices - 1;
    if (last > first)
        snprintf(text, bytes, "%d-%d", first, last);
    else
        snprintf(text, bytes, "%d", first);
}

/* Nine shades by the root of the bytes, so that what is small is seen beside what is large. */
static void put_cells(cleave_markup *page, const report_traffic *t, int32_t n_devices) {
    double each = cell_side(t);
    for (int32_t row = 0; row < t->n_cells; row++)
        for (int32_t column = 0; column < t->n_cells; column++) {
            double bytes = t->bytes[(size_t)row * (size_t)t->n_cells + (size_t)column];
            char from[32], to[32];
            if (bytes <= 0)
                continue;
            name_cell(t, row, n_devices, from, sizeof from);
            name_cell(t, column, n_devices, to, sizeof to);
            cleave_markup_put(page,
                              "<rect class=\"h%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                              "height=\"%.2f\"><title>%s -> %s: %s</title></rect>\n",
                              (int)ceil(N_SHADES * sqrt(bytes / t->most_bytes)),
                              LEFT + column * each, TOP + row * each, each, each, from, to,
                              report_quantity(bytes, CLEAVE_UNIT_BYTES).text);
        }
}

static void put_matrix(cleave_markup *page, const report *of) {
    const report_traffic *t = of->traffic;
    double each = cell_side(t);
    int32_t side = (int32_t)(each * t->n_cells), stride = (int32_t)ceil(34 / each);
    char name[32];
    cleave_markup_put(
        page,
        "<figure><svg class=\"drawing matrix\" width=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" "
        "aria-label=\"Bytes from device to device\">\n<rect class=\"empty\" x=\"%d\" "
        "y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
        LEFT + side + 24, LEFT + side + 24, TOP + side + 4, (int)LEFT, (int)TOP, side, side);
    put_cells(page, t, of->step->layout->n_devices);
    for (int32_t c = 0; c < t->n_cells; c += stride) {
        snprintf(name, sizeof name, "%d", c * t->devices_per_cell);
        cleave_markup_put(page,
                          "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text><text x=\"%.1f\" "
                          "y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                          (int)LEFT - 5, TOP + (c + 0.5) * each + 4, name, LEFT + (c + 0.5) * each,
                          (int)TOP - 5, name);
    }
    cleave_markup_put(page,
                      "<text class=\"name\" x=\"%d\" y=\"11\">to device</text><text class=\"name\" "
                      "text-anchor=\"middle\" transform=\"translate(12 %d) rotate(-90)\">from "
                      "device</text></svg>\n",
                      (int)LEFT, (int)TOP + side / 2);
    cleave_markup_put(page,
                      "<figcaption>Bytes a step%s: the darkest are %s.</figcaption></figure>\n",
                      t->devices_per_cell > 1 ? ", between groups of devices" : "",
                      report_quantity(t->most_bytes, CLEAVE_UNIT_BYTES).text);
}

static void put_links(cleave_markup *page, const report *of) {
    const report_traffic *t = of->traffic;
    double step = 1e-12 * (double)of->step->of.simulated.timeline.step;
    cleave_markup_put(page, "<div class=\"scroll\"><table><thead><tr><th>link</th><th>busy</th><th "
                            "class=\"number\">of step</th><th class=\"number\">bytes</th><th "
                            "class=\"number\">bandwidth</th></tr></thead><tbody>\n");
    for (int32_t i = 0; i < t->n_links && i < MOST_LINKS; i++) {
        const report_link *l = &t->links[i];
        char name[160];
        explain_link_name(of->step->machine, l->link, name, sizeof name);
        double share = l->busy_seconds / step;
        cleave_markup_put(
            page,
            "<tr><th scope=\"row\">%s</th><td><svg class=\"bar\" width=\"%d\" height=\"14\" "
            "aria-hidden=\"true\"><rect class=\"track\" width=\"%d\" height=\"14\"/><rect "
            "class=\"s4\" width=\"%.1f\" height=\"14\"/></svg></td><td class=\"number\">%.1f "
            "%%</td>"
            "<td class=\"number\">%s</td><td class=\"number\">%s</td></tr>\n",
            name, (int)BAR, (int)BAR, BAR * fmin(1, share), 100 * share,
            report_quantity(l->bytes, CLEAVE_UNIT_BYTES).text,
            report_quantity(of->step->machine->links[l->link].bytes_per_second,
                            CLEAVE_UNIT_BYTES_PER_SECOND)
                .text);
    }
    cleave_markup_put(page, "</tbody></table></div>\n");
    if (t->n_links > MOST_LINKS)
        cleave_markup_put(page, "<p class=\"note\">The busiest %d of %d links that are used.</p>\n",
                          (int)MOST_LINKS, t->n_links);
}

/* Time along the critical path by sort of work: what there is to gain by quicker links. */
static void put_parts(cleave_markup *page, const report *of) {
    const cleave_price_shares *shares = &of->step->of.simulated.prices.shares;
    cleave_markup_put(page,
                      "<h3>What the step is made of</h3><div class=\"scroll\"><table><tbody>\n");
    for (int p = 0; p < CLEAVE_N_STEP_PARTS; p++)
        if (shares->part[p] >= 0.0005)
            cleave_markup_put(page,
                              "<tr><th scope=\"row\">%s</th><td><svg class=\"bar\" width=\"%d\" "
                              "height=\"14\" aria-hidden=\"true\"><rect class=\"s%d\" "
                              "width=\"%.1f\" height=\"14\"/></svg></td><td class=\"number\">%.1f "
                              "%%</td></tr>\n",
                              cleave_step_part_names[p], (int)BAR,
                              p >= CLEAVE_PART_ALL_REDUCE ? EXPLAIN_EXCHANGE : EXPLAIN_FORWARD,
                              BAR * shares->part[p], 100 * shares->part[p]);
    cleave_markup_put(
        page,
        "</tbody></table></div>\n<p class=\"note\">Links are %.0f %% of the step along "
        "its critical path.</p>\n",
        100 * shares->links);
}

cleave_status report_put_traffic(cleave_markup *page, const report *of, cleave_error *error) {
    (void)error;
    cleave_page_begin_section(page, "traffic", "Traffic");
    cleave_markup_put(page, "<p>%s are sent a step, by all devices.</p>\n<div class=\"two\">\n",
                      report_quantity(of->traffic->total_bytes, CLEAVE_UNIT_BYTES).text);
    if (of->traffic->total_bytes > 0)
        put_matrix(page, of);
    cleave_markup_put(page, "<div>\n");
    if (of->traffic->n_links > 0)
        put_links(page, of);
    put_parts(page, of);
    cleave_markup_put(page, "</div></div>\n");
    if (of->step->of.priced.program.symbolic)
        cleave_page_put_note(page,
                             "Of collectives in closed form: what their steps would send, and "
                             "how long a link takes for that. More than 100 % says that "
                             "several of them meet on it, which closed forms, each by "
                             "itself, don't see: the step is optimistic there.");
    cleave_page_end_section(page);
    return CLEAVE_OK;
}
