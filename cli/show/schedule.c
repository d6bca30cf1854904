/* The schedule of a layout, drawn: a row per group of devices, a column per unit of time. */
#include "cli/show/show.h"

#include "graph/model/schedule_file.h"

#include <stdio.h>
#include <string.h>

/* Of forwards; a backward takes two, or one and one more for the gradients of weights. */
enum { MOST_COLUMNS = 100, LONGEST_CELL = 12 };

typedef struct drawing {
    const cleave_schedule *schedule;
    const int32_t *group; /* [n_stages] */
    int32_t n_groups, n_units, width;
    bool is_forward;             /* a step is one pass forward: what follows it is not drawn */
    char (*cells)[LONGEST_CELL]; /* [n_groups][n_units] */
} drawing;

/* The operators of a layout file, by their names alone: its order is that of the model. */
static cleave_status name_operators(const cleave_json_cursor *operators, cleave_arena *arena,
                                    cleave_model *model, cleave_error *error) {
    int32_t n = cleave_json_count(operators);
    cleave_operator *named = CLEAVE_ARENA_ARRAY(arena, cleave_operator, n);
    if (named == NULL)
        return cleave_fail_memory(error, "showing a schedule");
    for (int32_t o = 0; o < n; o++)
        cleave_json_member(operators, o, &named[o].name);
    *model = (cleave_model){.n_operators = n, .operators = named};
    return CLEAVE_OK;
}

/* The first device of each stage's group: groups have no device in common. */
static cleave_status find_groups(const cleave_json_cursor *operators,
                                 const cleave_schedule *schedule, cleave_arena *arena,
                                 int32_t **group, int32_t *n_groups, cleave_error *error) {
    int32_t S = schedule->n_stages;
    int64_t *first = CLEAVE_ARENA_ARRAY(arena, int64_t, S);
    *group = CLEAVE_ARENA_ARRAY(arena, int32_t, S);
    if (first == NULL || *group == NULL)
        return cleave_fail_memory(error, "showing a schedule");
    for (int32_t s = 0; s < S; s++)
        first[s] = INT64_MAX;
    for (int32_t o = 0; o < cleave_json_count(operators); o++) {
        const char *name;
        cleave_json_cursor op = cleave_json_member(operators, o, &name), devices;
        int32_t s = S > 1 ? cleave_schedule_stage_of(schedule, o) : 0;
        CLEAVE_TRY(cleave_json_get_array(&op, "devices", &devices, error));
        for (int32_t d = 0; d < cleave_json_count(&devices); d++) {
            cleave_json_cursor at = cleave_json_element(&devices, d);
            int64_t device;
            CLEAVE_TRY(cleave_json_integer(&at, 0, INT32_MAX, &device, error));
            first[s] = device < first[s] ? device : first[s];
        }
    }
    *n_groups = 0;
    for (int32_t s = 0; s < S; s++) {
        int32_t same = 0;
        while (first[same] != first[s])
            same++;
        (*group)[s] = same < s ? (*group)[same] : (*n_groups)++;
    }
    return CLEAVE_OK;
}

static int units_of(const cleave_schedule *schedule, const cleave_stage_block *block) {
    return block->kind == CLEAVE_BLOCK_BACKWARD && !cleave_schedule_parts_weights(schedule) ? 2 : 1;
}

static void draw_block(drawing *of, const cleave_stage_block *block, int64_t start) {
    static const char letters[CLEAVE_N_BLOCK_KINDS] = {'F', 'B', 'W'};
    for (int64_t t = start; t < start + units_of(of->schedule, block) && t < of->n_units; t++) {
        char *cell = of->cells[of->group[block->stage] * of->n_units + t];
        if (t > start)
            snprintf(cell, LONGEST_CELL, "=");
        else if (of->schedule->n_stages > of->n_groups)
            snprintf(cell, LONGEST_CELL, "%c%d.%d", letters[block->kind], block->stage,
                     block->micro_batch);
        else
            snprintf(cell, LONGEST_CELL, "%c%d", letters[block->kind], block->micro_batch);
    }
}

/* Each block begins when its group is free and what it needs is done. */
static int64_t draw_blocks(drawing *of, const cleave_stage_block *blocks, int32_t n,
                           int64_t *is_free, int64_t *done) {
    const cleave_schedule *schedule = of->schedule;
    int64_t S = schedule->n_stages, m = schedule->micro_batches, end = 0;
    for (int32_t b = 0; b < n; b++) {
        const cleave_stage_block *block = &blocks[b];
        int32_t s = block->stage, g = of->group[s];
        int64_t needs = 0, *of_kind = done + (block->kind * S) * m;
        if (block->kind == CLEAVE_BLOCK_FORWARD && s > 0)
            needs = of_kind[(s - 1) * m + block->micro_batch];
        else if (block->kind == CLEAVE_BLOCK_BACKWARD && s + 1 < S)
            needs = of_kind[(s + 1) * m + block->micro_batch];
        int64_t start = needs > is_free[g] ? needs : is_free[g];
        draw_block(of, block, start);
        is_free[g] = of_kind[s * m + block->micro_batch] = start + units_of(schedule, block);
        end = is_free[g] > end ? is_free[g] : end;
    }
    return end;
}

static const char *units_said(const drawing *of) {
    return of->is_forward                                ? ""
           : cleave_schedule_parts_weights(of->schedule) ? ", a backward and gradients of weights "
                                                           "taking one each"
                                                         : ", a backward taking two";
}

/* Keeps the forward blocks; gives how many they are. */
static int32_t leave_backwards_out(cleave_stage_block *blocks, int32_t n) {
    int32_t kept = 0;
    for (int32_t b = 0; b < n; b++)
        if (blocks[b].kind == CLEAVE_BLOCK_FORWARD)
            blocks[kept++] = blocks[b];
    return kept;
}

static cleave_status draw(drawing *of, cleave_arena *arena, cleave_error *error) {
    int64_t S = of->schedule->n_stages, m = of->schedule->micro_batches;
    cleave_stage_block *blocks;
    int32_t n;
    CLEAVE_TRY(cleave_schedule_sequence(of->schedule, of->group, arena, &blocks, &n, error));
    if (of->is_forward)
        n = leave_backwards_out(blocks, n);
    char last[LONGEST_CELL];
    snprintf(last, sizeof last, "%d", of->schedule->micro_batches - 1);
    of->width = (int)strlen(last) + (S > of->n_groups ? (S > 10 ? 5 : 4) : 2);
    of->n_units = MOST_COLUMNS / of->width;
    of->cells = cleave_arena_alloc(arena, (size_t)of->n_groups * (size_t)of->n_units, LONGEST_CELL);
    int64_t *is_free = CLEAVE_ARENA_ARRAY(arena, int64_t, of->n_groups);
    int64_t *done = CLEAVE_ARENA_ARRAY(arena, int64_t, CLEAVE_N_BLOCK_KINDS * S * m);
    if (of->cells == NULL || is_free == NULL || done == NULL)
        return cleave_fail_memory(error, "showing a schedule");
    int64_t end = draw_blocks(of, blocks, n, is_free, done);
    int64_t shown = end < of->n_units ? end : of->n_units;
    printf("in units of a forward%s%s:\n", units_said(of), shown < end ? ", the beginning" : "");
    for (int32_t g = 0; g < of->n_groups; g++) {
        printf("group %-3d ", g);
        for (int64_t t = 0; t < shown; t++) {
            const char *cell = of->cells[g * of->n_units + t];
            printf(" %-*s", t + 1 < shown ? of->width - 1 : 0, cell[0] != '\0' ? cell : ".");
        }
        printf("%s\n", shown < end ? " ..." : "");
    }
    return CLEAVE_OK;
}

cleave_status show_schedule(const cleave_json_cursor *layout, const cleave_json_cursor *operators,
                            cleave_arena *arena, cleave_error *error) {
    cleave_json_cursor schedule, step;
    const char *what = "";
    if (!cleave_json_find(layout, "schedule", &schedule))
        return CLEAVE_OK;
    if (cleave_json_find(layout, "step", &step))
        CLEAVE_TRY(cleave_json_string(&step, &what, error));
    cleave_model names;
    cleave_schedule read;
    int32_t *group;
    drawing of = {.schedule = &read, .is_forward = strcmp(what, "forward") == 0};
    CLEAVE_TRY(name_operators(operators, arena, &names, error));
    CLEAVE_TRY(cleave_schedule_read(&schedule, &names, arena, &read, error));
    CLEAVE_TRY(find_groups(operators, &read, arena, &group, &of.n_groups, error));
    printf("micro-batches: %d\n", read.micro_batches);
    if (read.n_stages == 1)
        return CLEAVE_OK;
    printf("stages: %d (%s), on %d group%s of devices\n", read.n_stages,
           cleave_schedule_names[read.kind], of.n_groups, of.n_groups == 1 ? "" : "s");
    for (int32_t s = 1; s < read.n_stages; s++)
        printf("stage %d begins with %s\n", s, names.operators[read.first_operator[s]].name);
    of.group = group;
    int64_t enough = (int64_t)of.n_groups * (MOST_COLUMNS / of.n_groups + 1);
    if (read.kind != CLEAVE_SCHEDULE_ORDERS && read.micro_batches > enough)
        read.micro_batches = (int32_t)enough; /* later ones begin later */
    return draw(&of, arena, error);
}
