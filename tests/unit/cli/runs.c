/* Tables of measured runs. */
#include "cli/validate/runs.h"

#include <criterion/criterion.h>
#include <string.h>

static cleave_arena arena;
static cleave_error error;
static run_table table;

static cleave_status parse(const char *text) {
    return runs_parse(text, strlen(text), "in/runs.csv", &arena, &table, &error);
}

static void expect_refused(const char *text, const char *what) {
    cr_expect_eq(parse(text), CLEAVE_BAD_INPUT, "%s", text);
    cr_expect_not_null(strstr(error.message, what), "no \"%s\" in: %s", what, error.message);
}

/* 16 devices / (tensor 2 x pipeline 2) = 4 shares; 64 / (4 x 2) = 8 micro-batches. */
Test(runs, what_is_left_out_follows) {
    cr_assert_eq(
        parse("model,machine,devices,tensor,pipeline,virtual,batch,micro_batch,step,layers\n"
              "m.json,/a.json,16,2,2,3,64,2,1.5 s,13|11\n"
              "\"{\"\"model_type\"\": 1}\",b.json,,,,,8,,20 ms,\n"),
        CLEAVE_OK, "%s", error.message);
    cr_assert_eq(table.n, 2);
    const run_record *run = &table.rows[0];
    cr_expect_eq(run->line, 2);
    cr_expect_str_eq(run->model, "in/m.json");
    cr_expect_str_eq(run->machine, "/a.json");
    cr_expect_eq(run->data, 4);
    cr_expect_eq(run->micro_batches, 8);
    cr_expect_str_eq(run->schedule, "interleaved");
    cr_expect_str_eq(run->recompute, "none");
    cr_expect_str_eq(run->optimizer, "adam");
    cr_expect_float_eq(run->step, 1.5, 1e-12);
    cr_expect_str_eq(run->layers, "13|11");
    run = &table.rows[1];
    cr_expect_str_eq(run->model, "{\"model_type\": 1}");
    cr_expect_str_eq(run->schedule, "1f1b");
    cr_expect_eq(run->devices, 1);
    cr_expect_eq(run->micro_batches, 1);
    cr_expect_eq(run->micro_batch, 8);
}

Test(runs, what_is_wrong_is_named_with_its_place) {
    expect_refused("", "in/runs.csv:1: a heading");
    expect_refused("model,machine,batch,step\n", "has no run");
    expect_refused("model,batch,step\nm,8,1\n", "no column \"machine\"");
    expect_refused("model,machine,batch,steps\nm,a,8,1\n", "in/runs.csv:1:21: no column is called");
    expect_refused("model,machine,batch,batch\nm,a,8,1\n", "in/runs.csv:1:21: column \"batch\"");
    expect_refused("model,machine,batch,step\nm,a,eight,1\n", "in/runs.csv:2:5: batch: \"eight\"");
    expect_refused("model,machine,batch,step\nm,a,8,1 GiB\n", "in/runs.csv:2:7: step");
    expect_refused("model,machine,batch,step\nm,a,8\n", "in/runs.csv:2:5: 3 fields for 4 columns");
    expect_refused("model,machine,batch,step\nm,a,8,1,\n", "in/runs.csv:2:9: 5 fields");
    expect_refused("model,machine,batch,step\nm,,8,1\n", "in/runs.csv:2:3: machine is missing");
    expect_refused("model,machine,batch,step\nm,a,8,\n", "in/runs.csv:2: neither step nor memory");
}

/* 8 devices are not 3 x 2; 8 samples are not 2 x 3 x anything. */
Test(runs, numbers_that_contradict_each_other_are_refused) {
    expect_refused("model,machine,batch,devices,data,tensor,step\nm,a,8,8,3,2,1\n",
                   "8 devices are not data 3 x tensor 2");
    expect_refused("model,machine,batch,data,expert,step\nm,a,8,4,3,1\n",
                   "in/runs.csv:2: expert, which shares data's devices, does not divide data");
    expect_refused("model,machine,batch,sequence_parallel,step\nm,a,8,maybe,1\n",
                   "sequence_parallel is neither yes nor no");
    expect_refused("model,machine,batch,data,micro_batch,step\nm,a,8,2,3,1\n",
                   "a batch of 8 is not data 2 x micro_batch 3");
    expect_refused("model,machine,batch,data,tensor,pipeline,step\nm,a,8,1000000,60000,4000,1\n",
                   "devices are not data");
}
