#include "graph/model/schedule_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Orders are for trying things out: a kind says the same of more. */
enum { MOST_ORDERED = 64 };
static const char block_letters[CLEAVE_N_BLOCK_KINDS] = {'F', 'B', 'W'};

/* ---- reading --------------------------------------------------------------------------------- */

static cleave_status read_kind(const cleave_json_cursor *root, cleave_schedule *schedule,
                               cleave_error *error) {
    cleave_json_cursor at;
    int kind;
    if (!cleave_json_find(root, "kind", &at))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_word(&at, cleave_schedule_names, CLEAVE_SCHEDULE_ORDERS, &kind, error));
    schedule->kind = (cleave_schedule_kind)kind;
    return CLEAVE_OK;
}

/* The operators that stages but the first begin with. */
static cleave_status read_stages(const cleave_json_cursor *root, const cleave_model *model,
                                 cleave_arena *arena, cleave_schedule *schedule,
                                 cleave_error *error) {
    cleave_json_cursor at;
    if (!cleave_json_find(root, "stages", &at))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_expect_array(&at, error));
    int32_t n = cleave_json_count(&at);
    if (n >= model->n_operators)
        return cleave_json_fail(&at, error, "%d stages, but the model has %d operators", n + 1,
                                model->n_operators);
    schedule->n_stages = n + 1;
    schedule->first_operator = CLEAVE_ARENA_ARRAY(arena, int32_t, n + 1);
    if (schedule->first_operator == NULL)
        return cleave_fail_memory(error, "reading a schedule");
    for (int32_t s = 0; s < n; s++) {
        cleave_json_cursor element = cleave_json_element(&at, s);
        const char *name;
        CLEAVE_TRY(cleave_json_string(&element, &name, error));
        int32_t op = cleave_model_find_operator(model, name);
        if (op < 0)
            return cleave_json_fail(&element, error, "the model has no operator \"%.128s\"", name);
        if (op <= schedule->first_operator[s])
            return cleave_json_fail(
                &element, error, "operator \"%.128s\" leaves stage %d without operators", name, s);
        schedule->first_operator[s + 1] = op;
    }
    return CLEAVE_OK;
}

static cleave_status read_in_flight(const cleave_json_cursor *root, cleave_arena *arena,
                                    cleave_schedule *schedule, cleave_error *error) {
    cleave_json_cursor at;
    if (!cleave_json_find(root, "in_flight", &at))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_expect_array(&at, error));
    if (cleave_json_count(&at) != schedule->n_stages)
        return cleave_json_fail(&at, error, "%d numbers for %d stages", cleave_json_count(&at),
                                schedule->n_stages);
    schedule->in_flight = CLEAVE_ARENA_ARRAY(arena, int32_t, schedule->n_stages);
    if (schedule->in_flight == NULL)
        return cleave_fail_memory(error, "reading a schedule");
    for (int32_t s = 0; s < schedule->n_stages; s++) {
        cleave_json_cursor element = cleave_json_element(&at, s);
        int64_t value;
        CLEAVE_TRY(cleave_json_integer(&element, 1, INT32_MAX, &value, error));
        schedule->in_flight[s] = (int32_t)value;
    }
    return CLEAVE_OK;
}

static cleave_status read_sooner(const cleave_json_cursor *root, cleave_schedule *schedule,
                                 cleave_error *error) {
    cleave_json_cursor at;
    int64_t value = 0;
    if (cleave_json_find(root, "sooner", &at))
        CLEAVE_TRY(cleave_json_integer(&at, 0, INT32_MAX, &value, error));
    schedule->sooner = (int32_t)value;
    return CLEAVE_OK;
}

typedef char block_name[32];

static void name_block(const cleave_stage_block *block, block_name name) {
    snprintf(name, sizeof(block_name), "%c%d.%d", block_letters[block->kind], block->stage,
             block->micro_batch);
}

/* "F0.3" is forward of stage 0, micro-batch 3; it is written in no other way. */
static cleave_status read_block(const cleave_json_cursor *at, cleave_stage_block *block,
                                cleave_error *error) {
    const char *text;
    CLEAVE_TRY(cleave_json_string(at, &text, error));
    const char *letter = memchr(block_letters, text[0], sizeof block_letters);
    int stage, micro_batch;
    if (letter != NULL && sscanf(text + 1, "%6d.%6d", &stage, &micro_batch) == 2 && stage >= 0 &&
        micro_batch >= 0) {
        const cleave_stage_block read = {(uint8_t)(letter - block_letters), stage, micro_batch};
        block_name name;
        name_block(&read, name);
        if (strcmp(name, text) == 0) {
            *block = read;
            return CLEAVE_OK;
        }
    }
    return cleave_json_fail(
        at, error, "\"%.16s\" is no block, such as F0.3: F, B or W, stage, micro-batch", text);
}

static cleave_status read_orders(const cleave_json_cursor *root, cleave_arena *arena,
                                 cleave_schedule *schedule, cleave_error *error) {
    cleave_json_cursor at, kind;
    if (!cleave_json_find(root, "orders", &at))
        return CLEAVE_OK;
    if (cleave_json_find(root, "kind", &kind) || schedule->in_flight != NULL ||
        schedule->sooner > 0)
        return cleave_json_fail(&at, error, "orders stand alone, without kind, in_flight, sooner");
    CLEAVE_TRY(cleave_json_expect_array(&at, error));
    if (schedule->micro_batches > MOST_ORDERED)
        return cleave_json_fail(&at, error, "orders are for at most %d micro-batches",
                                MOST_ORDERED);
    int32_t n = cleave_json_count(&at);
    if (n < 1 || n > schedule->n_stages)
        return cleave_json_fail(&at, error, "%d orders for %d stages", n, schedule->n_stages);
    schedule->kind = CLEAVE_SCHEDULE_ORDERS;
    schedule->n_orders = n;
    schedule->n_blocks = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    schedule->orders = cleave_arena_alloc(arena, (size_t)n, sizeof(cleave_stage_block *));
    if (schedule->n_blocks == NULL || schedule->orders == NULL)
        return cleave_fail_memory(error, "reading a schedule");
    for (int32_t g = 0; g < n; g++) {
        cleave_json_cursor order = cleave_json_element(&at, g);
        CLEAVE_TRY(cleave_json_expect_array(&order, error));
        int32_t n_blocks = schedule->n_blocks[g] = cleave_json_count(&order);
        int64_t most = (int64_t)CLEAVE_N_BLOCK_KINDS * schedule->n_stages * schedule->micro_batches;
        if (n_blocks > most)
            return cleave_json_fail(&order, error, "%d blocks, at most there are %lld", n_blocks,
                                    (long long)most);
        schedule->orders[g] = CLEAVE_ARENA_ARRAY(arena, cleave_stage_block, n_blocks);
        if (schedule->orders[g] == NULL)
            return cleave_fail_memory(error, "reading a schedule");
        for (int32_t b = 0; b < n_blocks; b++) {
            cleave_json_cursor block = cleave_json_element(&order, b);
            CLEAVE_TRY(read_block(&block, &schedule->orders[g][b], error));
        }
    }
    return CLEAVE_OK;
}

cleave_status cleave_schedule_read(const cleave_json_cursor *at, const cleave_model *model,
                                   cleave_arena *arena, cleave_schedule *schedule,
                                   cleave_error *error) {
    static const char *const keys[] = {"micro_batches", "kind",   "stages", "in_flight",
                                       "sooner",        "orders", NULL};
    cleave_json_cursor micro_batches;
    cleave_schedule result = {.micro_batches = 1, .n_stages = 1};
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    if (cleave_json_find(at, "micro_batches", &micro_batches)) {
        int64_t value;
        CLEAVE_TRY(cleave_json_integer(&micro_batches, 1, INT32_MAX, &value, error));
        result.micro_batches = (int32_t)value;
    }
    CLEAVE_TRY(read_kind(at, &result, error));
    CLEAVE_TRY(read_stages(at, model, arena, &result, error));
    CLEAVE_TRY(read_in_flight(at, arena, &result, error));
    CLEAVE_TRY(read_sooner(at, &result, error));
    CLEAVE_TRY(read_orders(at, arena, &result, error));
    *schedule = result;
    return CLEAVE_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_orders(cleave_json_writer *out, const cleave_schedule *schedule) {
    cleave_json_open_array(out, "orders", false);
    for (int32_t g = 0; g < schedule->n_orders; g++) {
        cleave_json_begin_array(out, true);
        for (int32_t b = 0; b < schedule->n_blocks[g]; b++) {
            block_name name;
            name_block(&schedule->orders[g][b], name);
            cleave_json_put_string(out, name);
        }
        cleave_json_end_array(out);
    }
    cleave_json_end_array(out);
}

void cleave_schedule_write(cleave_json_writer *out, const cleave_model *model,
                           const cleave_schedule *schedule) {
    if (cleave_schedule_is_plain(schedule))
        return;
    cleave_json_open_object(out, "schedule", schedule->kind != CLEAVE_SCHEDULE_ORDERS);
    cleave_json_set_integer(out, "micro_batches", schedule->micro_batches);
    if (schedule->kind != CLEAVE_SCHEDULE_ORDERS)
        cleave_json_set_string(out, "kind", cleave_schedule_names[schedule->kind]);
    if (schedule->n_stages > 1) {
        cleave_json_open_array(out, "stages", true);
        for (int32_t s = 1; s < schedule->n_stages; s++)
            cleave_json_put_string(out, model->operators[schedule->first_operator[s]].name);
        cleave_json_end_array(out);
    }
    if (schedule->in_flight != NULL) {
        cleave_json_open_array(out, "in_flight", true);
        for (int32_t s = 0; s < schedule->n_stages; s++)
            cleave_json_put_integer(out, schedule->in_flight[s]);
        cleave_json_end_array(out);
    }
    if (schedule->sooner > 0)
        cleave_json_set_integer(out, "sooner", schedule->sooner);
    if (schedule->kind == CLEAVE_SCHEDULE_ORDERS)
        put_orders(out, schedule);
    cleave_json_end_object(out);
}
