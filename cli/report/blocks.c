/* The model as blocks, in its order; operators that are alike but for a number are one block.  The
   script draws on the picture of the devices which part of the chosen block each of them has. */
#include "cli/report/panels.h"

#include "cli/repeats.h"
#include "cli/split_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- blocks ---- */

/* What has to be alike of operators of one block. */
static const char *kind_of(const report *of, int32_t op) {
    const cleave_layout *layout = of->step->layout;
    char split[256], devices[160];
    split_text_degrees(&of->step->model.operators[op], &layout->splits[op], split, sizeof split);
    split_text_devices(&layout->splits[op], devices, sizeof devices);
    return cleave_arena_printf(of->arena, "%s\t%s\t%d\t%d", split, devices,
                               cleave_layout_recomputes(layout, op),
                               cleave_schedule_stage_of(&layout->schedule, op));
}

static cleave_status find_blocks(const report *of, repeats *blocks, cleave_error *error) {
    int32_t n = of->step->model.n_operators;
    const char **names = CLEAVE_ARENA_ARRAY(of->arena, const char *, n);
    const char **kinds = CLEAVE_ARENA_ARRAY(of->arena, const char *, n);
    if (names == NULL || kinds == NULL)
        return cleave_fail_memory(error, "listing blocks");
    for (int32_t op = 0; op < n; op++) {
        names[op] = of->step->model.operators[op].name;
        kinds[op] = kind_of(of, op);
        if (kinds[op] == NULL)
            return cleave_fail_memory(error, "listing blocks");
    }
    return repeats_find(names, kinds, n, of->arena, blocks, error);
}

static void put_chips(cleave_markup *page, const cleave_operator *op, const cleave_split *split,
                      bool is_recomputed) {
    bool is_whole = split->replicas <= 1;
    if (split->replicas > 1)
        cleave_markup_put(page, "<span class=\"chip\">%d replicas</span>", split->replicas);
    for (int a = 0; a < op->n_axes; a++)
        if (split->degree[a] > 1) {
            cleave_markup_put(page, "<span class=\"chip %s\" title=\"%s\">%s&nbsp;%d</span>",
                              op->roles[a], op->roles[a], op->axes[a].name, split->degree[a]);
            is_whole = false;
        }
    if (is_whole)
        cleave_markup_put(page, "<span class=\"chip\">whole</span>");
    if (is_recomputed)
        cleave_markup_put(page, "<span class=\"chip\">recomputed</span>");
}

static void put_block(cleave_markup *page, const report *of, const repeats *blocks, int32_t b) {
    const repeat *block = &blocks->items[b];
    const cleave_layout *layout = of->step->layout;
    int64_t total = 0;
    for (int32_t op = 0; op < of->step->model.n_operators; op++)
        if (blocks->of[op] == b)
            total += of->step->path.operators[op].total;
    cleave_markup_put(
        page,
        "<li><button type=\"button\" data-block=\"%d\"><span class=\"block\">%s</span>"
        "<span class=\"chips\">",
        b, block->name);
    put_chips(page, &of->step->model.operators[block->first], &layout->splits[block->first],
              cleave_layout_recomputes(layout, block->first));
    cleave_markup_put(page, "</span><span class=\"share\">%.1f&nbsp;%%</span></button></li>\n",
                      100 * (double)total / (double)of->step->path.step);
}

static void put_blocks(cleave_markup *page, const report *of, const repeats *blocks) {
    const cleave_schedule *schedule = &of->step->layout->schedule;
    int32_t stage = -1;
    cleave_markup_put(page, "<ol class=\"blocks\">\n");
    for (int32_t b = 0; b < blocks->n; b++) {
        int32_t of_block = cleave_schedule_stage_of(schedule, blocks->items[b].first);
        if (schedule->n_stages > 1 && of_block != stage)
            cleave_markup_put(page, "<li class=\"stage\">stage %d</li>\n", of_block);
        stage = of_block;
        put_block(page, of, blocks, b);
    }
    cleave_markup_put(page, "</ol>\n");
}

/* ---- their splits, for the script ---- */

static void put_split(cleave_json_writer *w, const cleave_operator *op, const cleave_split *split) {
    cleave_json_set_integer(w, "replicas", split->replicas);
    cleave_json_open_array(w, "axes", true);
    for (int a = 0; a < op->n_axes; a++)
        if (split->degree[a] > 1) {
            cleave_json_put_string(w, op->axes[a].name);
            cleave_json_put_integer(w, split->degree[a]);
        }
    cleave_json_end_array(w);
    cleave_json_key(w, "devices"); /* first and count of consecutive ones, by turns */
    cleave_json_begin_array(w, true);
    for (int32_t i = 0; i < split->n_parts;) {
        int32_t first = i++;
        while (i < split->n_parts && split->devices[i] == split->devices[i - 1] + 1)
            i++;
        cleave_json_put_integer(w, split->devices[first]);
        cleave_json_put_integer(w, i - first);
    }
    cleave_json_end_array(w);
}

static void put_data(cleave_markup *page, const report *of, const repeats *blocks) {
    cleave_json_writer w = {0};
    cleave_json_begin_array(&w, false);
    for (int32_t b = 0; b < blocks->n; b++) {
        int32_t op = blocks->items[b].first;
        cleave_json_begin_object(&w, true);
        cleave_json_set_string(&w, "name", blocks->items[b].name);
        put_split(&w, &of->step->model.operators[op], &of->step->layout->splits[op]);
        cleave_json_end_object(&w);
    }
    cleave_json_end_array(&w);
    cleave_markup_put_data(page, "model-data", &w);
}

/* ---- the devices ---- */

enum { WIDTH = 560, MOST_HEIGHT = 440, GAP = 6, TITLE = 14, NAMED_FROM = 22 };

/* Nodes side by side, each a rectangle of its devices: as large as all of them allow. */
typedef struct picture {
    int32_t n_nodes, node_devices; /* the most of a node */
    int32_t columns, rows;         /* of devices in a node, */
    int32_t nodes_across;          /* and of nodes in the picture */
    double cell;
    double node_width, node_height;
    double height;
} picture;

static int32_t node_begins(const cleave_machine *machine, int32_t device) {
    return device == 0 || !cleave_machine_same_node(machine, device - 1, device);
}

static bool try_cell(picture *p, double cell) {
    double title = cell >= NAMED_FROM ? TITLE : 0;
    double gap = cell >= 9 ? GAP : 3;
    p->cell = cell;
    p->node_width = p->columns * cell + gap;
    p->node_height = p->rows * cell + gap + title;
    p->nodes_across = (int32_t)(WIDTH / p->node_width);
    if (p->nodes_across < 1)
        return false;
    p->height = p->node_height * ((p->n_nodes + p->nodes_across - 1) / p->nodes_across);
    return p->height <= MOST_HEIGHT;
}

static picture choose_picture(const cleave_machine *machine) {
    static const double cells[] = {44, 34, 26, 18, 13, 9, 6, 4, 2.5};
    picture p = {0};
    int32_t in_node = 0;
    for (int32_t d = 0; d < machine->n_devices; d++) {
        p.n_nodes += node_begins(machine, d);
        in_node = node_begins(machine, d) ? 1 : in_node + 1;
        p.node_devices = in_node > p.node_devices ? in_node : p.node_devices;
    }
    p.rows = (int32_t)sqrt((double)p.node_devices);
    p.columns = (p.node_devices + p.rows - 1) / p.rows;
    for (size_t i = 0; i < sizeof cells / sizeof cells[0] && !try_cell(&p, cells[i]); i++)
        ;
    return p;
}

static void put_device(cleave_markup *page, const picture *p, int32_t device, double x, double y) {
    double side = p->cell > 8 ? p->cell - 2 : p->cell * 0.88;
    cleave_markup_put(
        page, "<rect class=\"device\" x=\"%.5g\" y=\"%.5g\" width=\"%.3g\" height=\"%.3g\"/>", x, y,
        side, side);
    if (p->cell >= NAMED_FROM)
        cleave_markup_put(page, "<text class=\"part\" x=\"%.5g\" y=\"%.5g\"></text>", x + side / 2,
                          y + side / 2 + 3.5);
    if (device % 8 == 7)
        cleave_markup_put(page, "\n");
}

static void put_devices(cleave_markup *page, const cleave_machine *machine) {
    picture p = choose_picture(machine);
    double title = p.cell >= NAMED_FROM ? TITLE : 0;
    int32_t node = -1, in_node = 0;
    cleave_markup_put(page,
                      "<svg class=\"drawing devices\" viewBox=\"0 0 %d %.0f\" role=\"img\" "
                      "aria-label=\"Devices\">\n",
                      (int)WIDTH, p.height);
    for (int32_t d = 0; d < machine->n_devices; d++, in_node++) {
        if (node_begins(machine, d)) {
            node++;
            in_node = 0;
        }
        double x = node % p.nodes_across * p.node_width, y = node / p.nodes_across * p.node_height;
        if (in_node == 0 && title > 0)
            cleave_markup_put(page, "<text x=\"%.5g\" y=\"%.5g\">node %d</text>", x, y + 10, node);
        put_device(page, &p, d, x + in_node % p.columns * p.cell,
                   y + title + in_node / p.columns * p.cell);
    }
    cleave_markup_put(page, "</svg>\n");
}

cleave_status report_put_model(cleave_markup *page, const report *of, cleave_error *error) {
    repeats blocks;
    CLEAVE_TRY(find_blocks(of, &blocks, error));
    const cleave_schedule *schedule = &of->step->layout->schedule;
    cleave_page_begin_section(page, "model", "The model and its splits");
    if (!cleave_schedule_is_plain(schedule))
        cleave_markup_put(page, "<p>%d micro-batch%s, %d stage%s, %s.</p>\n",
                          schedule->micro_batches, schedule->micro_batches == 1 ? "" : "es",
                          schedule->n_stages, schedule->n_stages == 1 ? "" : "s",
                          cleave_schedule_names[schedule->kind]);
    cleave_markup_put(page, "<div class=\"two model\">\n");
    put_blocks(page, of, &blocks);
    cleave_markup_put(page, "<figure class=\"sticky\">\n");
    put_devices(page, of->step->machine);
    cleave_markup_put(page,
                      "<figcaption class=\"chosen\" role=\"status\">Choose a block to see which "
                      "part of it each device has.</figcaption></figure></div>\n");
    cleave_markup_put(page,
                      "<p class=\"note\">Axes that are split, and into how many parts: of "
                      "<span class=\"chip sample\">samples</span> <span class=\"chip "
                      "attribute\">attributes</span> <span class=\"chip parameter\">parameters"
                      "</span> <span class=\"chip reduction\">what is summed</span>. The share "
                      "is of the critical path, of all operators of a block.</p>\n");
    put_data(page, of, &blocks);
    cleave_page_end_section(page);
    return CLEAVE_OK;
}
