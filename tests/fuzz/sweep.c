/* Fuzzes what `sweep` reads: files that it goes on from (--resume), and what is varied.  What is
   accepted is written the same once it is read; what is refused has a message. */
#include "cli/sweep/record.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static const option_row rows[] = {SEARCH_ROWS};
static const option_table options = COMMAND_OPTIONS(rows);
static const search_request request = {.common.model = "m.onnx",
                                       .common.machine =
                                           CLEAVE_SOURCE_DIR "/configs/machines/p100-4x4.json",
                                       .common.batch = 64};

static void begin(const char *varied, cleave_arena *arena, sweep *of) {
    const option_texts texts = {.n = 2, .items = {"devices=2,4", varied}};
    *of = (sweep){.plan.request = &request, .model_hash = "f00d"};
    if (sweep_plan_create(&options, &texts, arena, &of->plan, NULL) != CLEAVE_OK)
        abort();
    of->records = CLEAVE_ARENA_ARRAY(arena, sweep_record, of->plan.n_points);
}

static char *write_all(const sweep *of, cleave_arena *arena) {
    cleave_json_writer w = {0};
    sweep_put(of, &w);
    char *text = w.failed ? NULL : cleave_arena_string(arena, w.text);
    cleave_json_writer_free(&w);
    if (text == NULL)
        abort();
    return text;
}

static void read_file(const char *text, size_t size, cleave_arena *arena) {
    sweep first, second;
    cleave_error error = {""};
    begin("optimizer=sgd,adam", arena, &first);
    begin("optimizer=sgd,adam", arena, &second);
    cleave_status status = sweep_parse(text, size, "fuzz/sweep.json", arena, &first, &error);
    if ((status == CLEAVE_OK) != (error.message[0] == '\0'))
        abort();
    if (status != CLEAVE_OK)
        return;
    const char *written = write_all(&first, arena);
    if (sweep_parse(written, strlen(written), "again", arena, &second, &error) != CLEAVE_OK ||
        strcmp(write_all(&second, arena), written) != 0)
        abort();
}

static void read_axis(const char *text, cleave_arena *arena) {
    static const char machine_text[] = "{\"network\": {\"bandwidth\": \"1 GB/s\"}}";
    cleave_json *machine;
    cleave_error error = {""};
    sweep_axis axis;
    if (cleave_json_parse(machine_text, sizeof machine_text - 1, "m", &machine, NULL) != CLEAVE_OK)
        abort();
    cleave_status status = sweep_axis_parse(text, &options, machine, arena, &axis, &error);
    cleave_json_free(machine);
    if ((status == CLEAVE_OK) != (error.message[0] == '\0'))
        abort();
    for (int32_t i = 1; status == CLEAVE_OK && i < axis.n; i++)
        if (!(axis.numbers[i] > axis.numbers[i - 1]))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cleave_arena arena = {0};
    char *text = cleave_arena_string_n(&arena, (const char *)data, size);
    if (text == NULL)
        abort();
    read_file((const char *)data, size, &arena);
    read_axis(text, &arena);
    cleave_arena_free(&arena);
    return 0;
}
