/* Two layouts on one page: their figures, both timelines by one clock, and what each difference is
   worth. */
#include "cli/diff/diff.h"

#include "cli/repeats.h"
#include "cli/report/panels.h"
#include "cli/split_text.h"

#include <stdio.h>

static void put_sides(cleave_markup *page, const diff_comparison *c) {
    static const char *const names[] = {"A", "B"};
    cleave_page_begin_section(page, "sides", "The two layouts");
    cleave_markup_put(page, "<div class=\"scroll\"><table><thead><tr><th></th><th>layout</th><th "
                            "class=\"number\">devices</th><th>found by</th><th "
                            "class=\"number\">step</th><th class=\"number\">to A</th><th "
                            "class=\"number\">memory</th><th class=\"number\">sent a step</th></tr>"
                            "</thead><tbody>\n");
    for (int i = 0; i < 2; i++) {
        const diff_side *s = &c->sides[i];
        cleave_markup_put(
            page,
            "<tr><th scope=\"row\">%s</th><td>%s</td><td class=\"number\">%d</td><td>%s</td><td "
            "class=\"number\">%s</td><td class=\"number\">%.2f x</td><td class=\"number\">%s</td>"
            "<td class=\"number\">%s</td></tr>\n",
            names[i], s->file, s->n_devices, s->layout.method[0] != '\0' ? s->layout.method : "-",
            report_quantity(s->step_seconds, CLEAVE_UNIT_SECONDS).text,
            s->step_seconds / c->sides[0].step_seconds,
            report_quantity((double)s->peak_bytes, CLEAVE_UNIT_BYTES).text,
            report_quantity((double)s->bytes_sent, CLEAVE_UNIT_BYTES).text);
    }
    cleave_markup_put(page, "</tbody></table></div>\n");
    cleave_page_end_section(page);
}

static void put_worth(cleave_markup *page, const diff_comparison *c, const diff_one *d) {
    if (c->is_tried)
        cleave_markup_put(page, "<td class=\"number\">%s</td><td class=\"number\">%+.2f %%</td>",
                          report_quantity(d->step_seconds, CLEAVE_UNIT_SECONDS).text,
                          100 * (d->step_seconds / c->sides[0].step_seconds - 1));
    cleave_markup_put(page, "</tr>\n");
}

static void put_head(cleave_markup *page, const diff_comparison *c, const char *what) {
    cleave_markup_put(
        page, "<div class=\"scroll\"><table><thead><tr><th>%s</th><th>A</th><th>B</th>", what);
    if (c->is_tried)
        cleave_markup_put(page, "<th class=\"number\">A with B's</th><th "
                                "class=\"number\">change</th>");
    cleave_markup_put(page, "</tr></thead><tbody>\n");
}

static void describe(const diff_comparison *c, int side, int32_t op, char *text, size_t bytes) {
    const cleave_layout *layout = &c->sides[side].layout;
    char degrees[160], devices[48];
    split_text_degrees(&c->model.operators[op], &layout->splits[op], degrees, sizeof degrees);
    split_text_devices(&layout->splits[op], devices, sizeof devices);
    snprintf(text, bytes, "%s on %s%s", degrees, devices,
             cleave_layout_recomputes(layout, op) ? ", recomputed" : "");
}

static void put_operator(cleave_markup *page, const diff_comparison *c, const char *name,
                         const diff_one *d) {
    cleave_markup_put(page, "<tr><th scope=\"row\">%s</th>", name);
    for (int i = 0; i < 2; i++) {
        char text[256];
        describe(c, i, d->id, text, sizeof text);
        cleave_markup_put(page, "<td>%s</td>", text);
    }
    put_worth(page, c, d);
}

/* Those that are alike in all that is said of them, and differ in a number of their names, are one
   row. */
static cleave_status put_operators(cleave_markup *page, const diff_comparison *c,
                                   cleave_arena *arena, cleave_error *error) {
    const char **names = CLEAVE_ARENA_ARRAY(arena, const char *, c->n_operators);
    const char **kinds = CLEAVE_ARENA_ARRAY(arena, const char *, c->n_operators);
    repeats rows;
    for (int32_t i = 0; names != NULL && kinds != NULL && i < c->n_operators; i++) {
        char a[256], b[256];
        describe(c, 0, c->operators[i].id, a, sizeof a);
        describe(c, 1, c->operators[i].id, b, sizeof b);
        names[i] = c->model.operators[c->operators[i].id].name;
        kinds[i] = cleave_arena_printf(
            arena, "%s\t%s\t%s", a, b,
            report_quantity(c->operators[i].step_seconds, CLEAVE_UNIT_SECONDS).text);
        if (kinds[i] == NULL)
            return cleave_fail_memory(error, "comparing layouts");
    }
    if (names == NULL || kinds == NULL)
        return cleave_fail_memory(error, "comparing layouts");
    CLEAVE_TRY(repeats_find(names, kinds, c->n_operators, arena, &rows, error));
    put_head(page, c, "operator");
    for (int32_t r = 0; r < rows.n; r++)
        put_operator(page, c, rows.items[r].name, &c->operators[rows.items[r].first]);
    cleave_markup_put(page, "</tbody></table></div>\n");
    return CLEAVE_OK;
}

static void put_updates(cleave_markup *page, const diff_comparison *c) {
    put_head(page, c, "update of");
    for (int32_t i = 0; i < c->n_updates; i++) {
        int32_t tensor = c->updates[i].id;
        cleave_markup_put(page, "<tr><th scope=\"row\">%s</th><td>%s</td><td>%s</td>",
                          c->model.tensors[tensor].name, diff_update_name(&c->sides[0], tensor),
                          diff_update_name(&c->sides[1], tensor));
        put_worth(page, c, &c->updates[i]);
    }
    cleave_markup_put(page, "</tbody></table></div>\n");
}

static cleave_status put_differences(cleave_markup *page, const diff_comparison *c,
                                     cleave_arena *arena, cleave_error *error) {
    cleave_page_begin_section(page, "differences", "What differs");
    if (c->n_operators > 0)
        CLEAVE_TRY(put_operators(page, c, arena, error));
    if (c->n_updates > 0)
        put_updates(page, c);
    for (int i = 0; i < 2 && c->schedule; i++)
        cleave_markup_put(page, "<p>Schedule of %s: %s</p>\n", i == 0 ? "A" : "B",
                          c->sides[i].schedule);
    for (int i = 0; i < 2 && c->collectives; i++)
        cleave_markup_put(page, "<p>Collectives of %s: %s</p>\n", i == 0 ? "A" : "B",
                          c->sides[i].collectives);
    if (c->attention)
        cleave_markup_put(page, "<p>Attention of %s stores its scores.</p>\n",
                          c->sides[0].layout.stores_scores ? "A" : "B");
    cleave_markup_put(page, "<p class=\"note\">%d of %d operators and %d updates differ.%s</p>\n",
                      c->n_operators, c->model.n_operators, c->n_updates,
                      c->is_tried
                          ? " \"A with B's\" is an estimate of A's step with that one alone "
                            "as in B; together they do more or less than added up."
                          : "");
    cleave_page_end_section(page);
    return CLEAVE_OK;
}

cleave_status diff_write_page(const char *path, const diff_comparison *c, cleave_arena *arena,
                              cleave_error *error) {
    const report_step *const steps[] = {&c->sides[0].step, &c->sides[1].step};
    cleave_markup page = {0};
    char about[400];
    snprintf(about, sizeof about, "%.300s on %s", c->model.file, c->sides[0].step.machine->name);
    cleave_page_begin(&page, "Two layouts compared", about);
    report_put_patterns(&page);
    put_sides(&page, c);
    cleave_status status = report_put_timeline(&page, steps, 2, error);
    if (status == CLEAVE_OK)
        status = put_differences(&page, c, arena, error);
    if (status == CLEAVE_OK) {
        cleave_page_end(&page);
        return cleave_markup_write(&page, path, error);
    }
    cleave_markup_free(&page);
    return status;
}
