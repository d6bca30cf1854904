/* `cleave diff`: in what two layouts of a model differ, and what that is worth. */
#include "cli/diff/diff.h"
#include "base/order.h"

#include "base/progress.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/split_text.h"
#include "cli/table.h"
#include "graph/model/attention.h"
#include "graph/model/schedule_file.h"
#include "search/explain/changes.h"

#include <string.h>

typedef struct diff_values {
    common_options common;
    const char *a, *b, *page;
} diff_values;

static const option_row rows[] = {
    {"A", NULL, OPTION_POSITIONAL, offsetof(diff_values, a), .required = true, .help = "a layout"},
    {"B", NULL, OPTION_POSITIONAL, offsetof(diff_values, b), .required = true,
     .help = "another layout of the same model"},
    ROW_MODEL,
    ROWS_IMPORT,
    {"--machine", "MACHINE.json", OPTION_TEXT, offsetof(diff_values, common.machine),
     .help = "also predict both, and what each operator's change alone would do to A"},
    {"--page", "OUT.html", OPTION_OUTPUT, offsetof(diff_values, page),
     .help = "with --machine: write a page with both timelines under each other"},
    ROW_FORWARD,
    ROWS_OPTIMIZER,
    ROW_JSON,
    ROW_QUIET,
};

/* ---- what differs ---- */

/* The rules in one line, whatever their order of keys in the file. */
static cleave_status collectives_text(const cleave_collective_rules *rules, cleave_arena *arena,
                                      const char **text, cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_json_begin_array(&w, true);
    cleave_collective_rules_write(&w, rules);
    cleave_json_end_array(&w);
    bool any = rules->direct || rules->n > 0;
    size_t n = !w.failed && w.n > 2 ? strcspn(w.text, "\n") : 0; /* without the brackets */
    *text = any && n > 2 ? cleave_arena_string_n(arena, w.text + 1, n - 2)
                         : cleave_arena_string(arena, "the default");
    bool failed = w.failed || *text == NULL;
    cleave_json_writer_free(&w);
    return failed ? cleave_fail_memory(error, "comparing layouts") : CLEAVE_OK;
}

static cleave_status schedule_text(const cleave_model *model, const cleave_schedule *schedule,
                                   cleave_arena *arena, const char **text, cleave_error *error) {
    static const char key[] = "\"schedule\":";
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, true);
    cleave_schedule_write(&w, model, schedule);
    cleave_json_end_object(&w);
    const char *at = w.failed ? NULL : strstr(w.text, key);
    size_t n = at != NULL ? strlen(at) : 0;
    while (n > 0 && at[n - 1] != '}') /* that of the object around it */
        n--;
    *text = n > sizeof key ? cleave_arena_string_n(arena, at + sizeof key - 1, n - sizeof key)
                           : cleave_arena_string(arena, " the whole batch in one stage");
    bool failed = w.failed || *text == NULL;
    cleave_json_writer_free(&w);
    return failed ? cleave_fail_memory(error, "comparing layouts") : CLEAVE_OK;
}

static cleave_status find_differences(diff_comparison *c, cleave_arena *arena,
                                      cleave_error *error) {
    const cleave_layout *a = &c->sides[0].layout, *b = &c->sides[1].layout;
    c->operators = CLEAVE_ARENA_ARRAY(arena, diff_one, c->model.n_operators);
    c->updates = CLEAVE_ARENA_ARRAY(arena, diff_one, c->model.n_tensors);
    if (c->operators == NULL || c->updates == NULL)
        return cleave_fail_memory(error, "comparing layouts");
    for (int32_t op = 0; op < c->model.n_operators; op++)
        if (!cleave_split_same(&a->splits[op], &b->splits[op]) ||
            cleave_layout_recomputes(a, op) != cleave_layout_recomputes(b, op))
            c->operators[c->n_operators++] = (diff_one){.id = op};
    for (int32_t t = 0; t < c->model.n_tensors; t++)
        if (a->sharded[t] != b->sharded[t])
            c->updates[c->n_updates++] = (diff_one){.id = t};
    for (int i = 0; i < 2; i++) {
        CLEAVE_TRY(collectives_text(&c->sides[i].layout.collectives, arena,
                                    &c->sides[i].collectives, error));
        CLEAVE_TRY(schedule_text(&c->model, &c->sides[i].layout.schedule, arena,
                                 &c->sides[i].schedule, error));
    }
    c->schedule = !cleave_schedule_same(&a->schedule, &b->schedule);
    c->attention = a->stores_scores != b->stores_scores;
    c->collectives = strcmp(c->sides[0].collectives, c->sides[1].collectives) != 0;
    return CLEAVE_OK;
}

static bool is_same(const diff_comparison *c) {
    return c->n_operators == 0 && c->n_updates == 0 && !c->collectives && !c->schedule &&
           !c->attention && c->sides[0].n_devices == c->sides[1].n_devices;
}

/* ---- what that is worth ---- */

/* A page draws all that happens; else a few micro-batches tell of all. */
static cleave_status predict(const cleave_pricing *of, cleave_arena *arena, diff_side *s,
                             cleave_error *error) {
    CLEAVE_TRY(report_step_make(of, arena, &s->step, error));
    s->step_seconds = 1e-12 * (double)s->step.path.step;
    s->peak_bytes = s->step.path.peak_bytes;
    s->bytes_sent = s->step.of.priced.bytes_sent;
    return CLEAVE_OK;
}

static int by_step(const void *a, const void *b) {
    const diff_one *x = a, *y = b;
    CLEAVE_ORDER_BY(x->step_seconds, y->step_seconds);
    return CLEAVE_ORDER(x->id, y->id);
}

/* A with one operator or one update as B has it, one after the other; estimates, scaled to A's
   step. */
static cleave_status try_flips(diff_comparison *c, explain_changes *changes, bool quiet,
                               cleave_error *error) {
    cleave_progress progress;
    const cleave_layout *b = &c->sides[1].layout;
    double scale = c->sides[0].step_seconds / (double)changes->price.step;
    int32_t n = c->n_operators + c->n_updates;
    cleave_progress_begin(&progress, "trying changes", quiet);
    cleave_status status = CLEAVE_OK;
    for (int32_t i = 0; i < n && status == CLEAVE_OK; i++) {
        bool is_update = i >= c->n_operators;
        diff_one *d = is_update ? &c->updates[i - c->n_operators] : &c->operators[i];
        cleave_price price = {0};
        cleave_progress_update(&progress, (double)i / n, NULL);
        status = is_update ? explain_changes_shard(changes, d->id, b->sharded[d->id], &price, error)
                           : explain_changes_try(changes, d->id, &b->splits[d->id], &price, error);
        d->step_seconds = scale * (double)price.step;
    }
    cleave_progress_end(&progress);
    CLEAVE_SORT(c->operators, c->n_operators, by_step);
    CLEAVE_SORT(c->updates, c->n_updates, by_step);
    return status;
}

/* Changes of what is in stages, recomputed or gathered on the way can't be estimated, and neither
   can those that make it so; on many devices that would take long. */
static bool can_be_tried(const diff_comparison *c) {
    bool can = cleave_layout_is_plain(&c->sides[0].layout) &&
               c->sides[0].layout.n_devices <= CLEAVE_MOST_LOWERED;
    for (int32_t i = 0; i < c->n_updates && can; i++)
        can = c->sides[1].layout.sharded[c->updates[i].id] <= CLEAVE_SHARDED_UPDATE;
    return can;
}

/* One model for A with splits of B: attention whose keys either splits is as where they are split,
   as it is where either stores scores. */
static cleave_status fuse_for_both(const diff_comparison *c, cleave_arena *arena,
                                   cleave_model *fused, cleave_error *error) {
    const cleave_layout *b = &c->sides[1].layout;
    cleave_layout both = c->sides[0].layout;
    both.stores_scores = both.stores_scores || b->stores_scores;
    both.splits = CLEAVE_ARENA_ARRAY(arena, cleave_split, both.n_operators);
    if (both.splits == NULL)
        return cleave_fail_memory(error, "comparing layouts");
    for (int32_t op = 0; op < both.n_operators; op++) {
        both.splits[op] = c->sides[0].layout.splits[op];
        for (int a = 0; a < CLEAVE_MAX_AXES; a++)
            if (b->splits[op].degree[a] > both.splits[op].degree[a])
                both.splits[op].degree[a] = b->splits[op].degree[a];
    }
    return cleave_model_fuse_attention(&c->model, &both, arena, fused, error);
}

/* On the devices of the layout that has more. */
static cleave_status predict_both(const diff_values *values, diff_comparison *c,
                                  cleave_arena *arena, cleave_error *error) {
    int32_t n_devices = c->sides[0].n_devices;
    n_devices = c->sides[1].n_devices > n_devices ? c->sides[1].n_devices : n_devices;
    int states;
    cleave_machine *machine = CLEAVE_ARENA_ARRAY(arena, cleave_machine, 1); /* of the steps */
    if (machine == NULL)
        return cleave_fail_memory(error, "comparing layouts");
    CLEAVE_TRY(inputs_optimizer_states(&values->common, &states, error));
    CLEAVE_TRY(cleave_machine_read(values->common.machine, n_devices, arena, machine, error));
    for (int i = 0; i < 2; i++) {
        c->sides[i].layout.n_devices = n_devices;
        const cleave_pricing of = {&c->model, machine, &c->sides[i].layout,
                                   .all_micro_batches = values->page != NULL,
                                   .optimizer_states = states};
        CLEAVE_TRY(predict(&of, arena, &c->sides[i], error));
    }
    c->is_predicted = true;
    if (!can_be_tried(c))
        return CLEAVE_OK;
    c->is_tried = true;
    explain_changes changes;
    cleave_model fused;
    CLEAVE_TRY(fuse_for_both(c, arena, &fused, error));
    const cleave_pricing of = {&fused, machine, &c->sides[0].layout, .optimizer_states = states};
    cleave_status status = explain_changes_create(&of, 0, arena, &changes, error);
    if (status == CLEAVE_OK)
        status = try_flips(c, &changes, values->common.quiet, error);
    explain_changes_destroy(&changes);
    return status;
}

/* ---- printing ---- */

const char *diff_update_name(const diff_side *s, int32_t tensor) {
    static const char *const names[CLEAVE_N_SHARDED] = {
        "replicated", "sharded", "sharded, with the gradient", "sharded, with gradient and weight"};
    return names[s->layout.sharded[tensor]];
}

static void print_sides(const diff_comparison *c, cleave_arena *arena) {
    table t = {.arena = arena, .n_columns = c->is_predicted ? 7 : 4, .align = "llrlrrr"};
    static const char *const heads[] = {"",     "layout", "devices",    "found by",
                                        "step", "memory", "sent a step"};
    table_heads(&t, heads);
    for (int i = 0; i < 2; i++) {
        const diff_side *s = &c->sides[i];
        table_text(&t, i == 0 ? "A" : "B");
        table_text(&t, s->file);
        table_format(&t, "%d", s->n_devices);
        table_text(&t, s->layout.method[0] != '\0' ? s->layout.method : "-");
        if (!c->is_predicted)
            continue;
        table_quantity(&t, s->step_seconds, CLEAVE_UNIT_SECONDS);
        table_quantity(&t, (double)s->peak_bytes, CLEAVE_UNIT_BYTES);
        table_quantity(&t, (double)s->bytes_sent, CLEAVE_UNIT_BYTES);
    }
    table_print(&t, stdout);
}

static void add_worth(table *t, const diff_comparison *c, const diff_one *d) {
    table_quantity(t, d->step_seconds, CLEAVE_UNIT_SECONDS);
    table_format(t, "%+.2f %%", 100 * (d->step_seconds / c->sides[0].step_seconds - 1));
}

static void print_operators(const diff_comparison *c, cleave_arena *arena) {
    table t = {.arena = arena, .n_columns = c->is_tried ? 7 : 5, .align = "lllllrr"};
    static const char *const heads[] = {"operator",   "A",          "on devices", "B",
                                        "on devices", "A with B's", "change"};
    table_heads(&t, heads);
    for (int32_t i = 0; i < c->n_operators; i++) {
        const diff_one *d = &c->operators[i];
        const cleave_operator *op = &c->model.operators[d->id];
        table_text(&t, op->name);
        for (int k = 0; k < 2; k++) {
            char text[160];
            split_text_degrees(op, &c->sides[k].layout.splits[d->id], text, sizeof text);
            table_format(&t, "%s%s", text,
                         cleave_layout_recomputes(&c->sides[k].layout, d->id) ? ", recomputed"
                                                                              : "");
            split_text_devices(&c->sides[k].layout.splits[d->id], text, 48);
            table_text(&t, text);
        }
        if (c->is_tried)
            add_worth(&t, c, d);
    }
    printf("\n");
    table_print_repeats(&t, stdout);
}

static void print_updates(const diff_comparison *c, cleave_arena *arena) {
    table t = {.arena = arena, .n_columns = c->is_tried ? 5 : 3, .align = "lllrr"};
    static const char *const heads[] = {"update of", "A", "B", "A with B's", "change"};
    table_heads(&t, heads);
    for (int32_t i = 0; i < c->n_updates; i++) {
        const diff_one *d = &c->updates[i];
        table_text(&t, c->model.tensors[d->id].name);
        table_text(&t, diff_update_name(&c->sides[0], d->id));
        table_text(&t, diff_update_name(&c->sides[1], d->id));
        if (c->is_tried)
            add_worth(&t, c, d);
    }
    printf("\n");
    table_print_repeats(&t, stdout);
}

static void print_text(const diff_comparison *c, cleave_arena *arena) {
    print_sides(c, arena);
    if (c->n_operators > 0)
        print_operators(c, arena);
    if (c->n_updates > 0)
        print_updates(c, arena);
    if (c->collectives)
        printf("\ncollectives of A: %s\ncollectives of B: %s\n", c->sides[0].collectives,
               c->sides[1].collectives);
    if (c->schedule)
        printf("\nschedule of A:%s\nschedule of B:%s\n", c->sides[0].schedule,
               c->sides[1].schedule);
    if (c->attention)
        printf("\nattention of %s: stores its scores\n",
               c->sides[0].layout.stores_scores ? "A" : "B");
    if (is_same(c))
        printf("\nThe layouts are the same.\n");
    else
        printf("\n%d of %d operators and %d update%s differ%s%s%s.\n", c->n_operators,
               c->model.n_operators, c->n_updates, c->n_updates == 1 ? "" : "s",
               c->collectives ? ", and the collectives do" : "",
               c->schedule ? ", and the schedule does" : "",
               c->attention ? ", and what attention stores does" : "");
    if (c->is_tried && c->n_operators + c->n_updates > 0)
        printf("\"A with B's\" is an estimate of A's step with that one alone as in B; together "
               "they do more or less than added up.\n");
}

static void put_side(cleave_json_writer *w, const char *key, const diff_comparison *c,
                     const diff_side *s) {
    cleave_json_open_object(w, key, false);
    cleave_json_set_string(w, "layout", s->file);
    cleave_json_set_integer(w, "devices", s->n_devices);
    cleave_json_set_string(w, "method", s->layout.method);
    if (c->is_predicted) {
        cleave_json_set_number(w, "step_seconds", s->step_seconds);
        cleave_json_set_integer(w, "peak_bytes", s->peak_bytes);
        cleave_json_set_integer(w, "bytes_sent", s->bytes_sent);
    }
    if (s->layout.collectives.direct || s->layout.collectives.n > 0) {
        cleave_json_key(w, "collectives");
        cleave_collective_rules_write(w, &s->layout.collectives);
    }
    if (s->layout.stores_scores)
        cleave_json_set_string(w, "attention", "stored");
    cleave_schedule_write(w, &c->model, &s->layout.schedule);
    cleave_json_end_object(w);
}

static void put_operator(cleave_json_writer *w, const diff_comparison *c, const diff_one *d) {
    static const char *const keys[] = {"a", "b"};
    cleave_json_begin_object(w, true);
    cleave_json_set_string(w, "name", c->model.operators[d->id].name);
    for (int k = 0; k < 2; k++) {
        cleave_json_open_object(w, keys[k], true);
        split_text_put(w, &c->model.operators[d->id], &c->sides[k].layout.splits[d->id]);
        if (cleave_layout_recomputes(&c->sides[k].layout, d->id))
            cleave_json_set_truth(w, "recompute", true);
        cleave_json_end_object(w);
    }
    if (c->is_tried)
        cleave_json_set_number(w, "step_seconds_with_b", d->step_seconds);
    cleave_json_end_object(w);
}

static cleave_status print_json(const diff_comparison *c, cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, false);
    put_side(&w, "a", c, &c->sides[0]);
    put_side(&w, "b", c, &c->sides[1]);
    cleave_json_key(&w, "differences"); /* of all sorts; devices of the files count as one */
    cleave_json_put_integer(&w, c->n_operators + c->n_updates + c->collectives + c->schedule +
                                    c->attention +
                                    (c->sides[0].n_devices != c->sides[1].n_devices));
    cleave_json_open_array(&w, "operators", false);
    for (int32_t i = 0; i < c->n_operators; i++)
        put_operator(&w, c, &c->operators[i]);
    cleave_json_end_array(&w);
    cleave_json_open_array(&w, "updates", false);
    for (int32_t i = 0; i < c->n_updates; i++) {
        cleave_json_begin_object(&w, true);
        cleave_json_set_string(&w, "parameter", c->model.tensors[c->updates[i].id].name);
        cleave_json_set_string(&w, "a", diff_update_name(&c->sides[0], c->updates[i].id));
        cleave_json_set_string(&w, "b", diff_update_name(&c->sides[1], c->updates[i].id));
        if (c->is_tried)
            cleave_json_set_number(&w, "step_seconds_with_b", c->updates[i].step_seconds);
        cleave_json_end_object(&w);
    }
    cleave_json_end_array(&w);
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}

/* ---- the command ---- */

static cleave_status print(const diff_values *values, const diff_comparison *c, cleave_arena *arena,
                           cleave_error *error) {
    if (values->page != NULL)
        CLEAVE_TRY(diff_write_page(values->page, c, arena, error));
    if (values->common.json)
        CLEAVE_TRY(print_json(c, error));
    else
        print_text(c, arena);
    if (fflush(stdout) != 0)
        return cleave_fail(error, CLEAVE_FAILED, "stdout could not be written");
    return is_same(c) ? CLEAVE_OK : CLEAVE_FAILED; /* without a message: exit 1, as of diff */
}

static cleave_status diff(const diff_values *values, diff_comparison *c, cleave_arena *arena,
                          cleave_error *error) {
    if (values->page != NULL && values->common.machine == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--page shows what is predicted: it goes with --machine");
    CLEAVE_TRY(inputs_model(&values->common, arena, &c->model, error));
    for (int i = 0; i < 2; i++) {
        diff_side *s = &c->sides[i];
        CLEAVE_TRY(cleave_layout_read(s->file, &c->model, arena, &s->layout, error));
        s->n_devices = s->layout.n_devices;
    }
    CLEAVE_TRY(find_differences(c, arena, error));
    if (values->common.machine != NULL)
        CLEAVE_TRY(predict_both(values, c, arena, error));
    return print(values, c, arena, error);
}

static cleave_status run(const void *any, char *const *arguments, cleave_arena *arena,
                         cleave_error *error) {
    const diff_values *values = any;
    (void)arguments;
    diff_comparison c = {.sides = {{.file = values->a}, {.file = values->b}}};
    cleave_status status = diff(values, &c, arena, error);
    for (int i = 0; i < 2; i++)
        report_step_destroy(&c.sides[i].step);
    return status;
}

const command command_diff = {
    .name = "diff",
    .summary = "say in what two layouts differ, and what each difference is worth",
    .details = "Operators that are split otherwise, parameters that are updated otherwise, and\n"
               "the rules of collectives, and the schedule; the layouts may be for different\n"
               "numbers of devices.\n"
               "Exit, as of diff(1): 0 the layouts are the same, 1 they differ (or, with a\n"
               "message on stderr, it failed), 2 bad input.",
    .examples = "  cleave diff configs/layouts/alexnet-32-data-parallel.layout.json \\\n"
                "      configs/layouts/alexnet-32-two-cores.layout.json \\\n"
                "      --model configs/models/alexnet.onnx --batch 32 \\\n"
                "      --machine configs/machines/two-cores.json\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(diff_values),
    .run = run,
};
