/* The log of a training: what goes on from a checkpoint leaves the table of a run that never broke.
 */
#include "exec/training/training_log.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char header[] = "step,epoch,loss,learning_rate,gradient_norm,seconds,"
                             "samples_per_second,validation_loss,validation_accuracy\n";

static void make_name(char *path) {
    strcpy(path, "/tmp/cleave_log_XXXXXX");
    close(mkstemp(path));
}

static void write_text(const char *path, const char *text, const char *more) {
    FILE *file = fopen(path, "wb");
    fputs(text, file);
    fputs(more, file);
    fclose(file);
}

static void expect_text(const char *path, const char *more) {
    char got[4096], wanted[4096];
    FILE *file = fopen(path, "rb");
    got[fread(got, 1, sizeof got - 1, file)] = '\0';
    fclose(file);
    snprintf(wanted, sizeof wanted, "%s%s", header, more);
    cr_assert_str_eq(got, wanted);
}

static void put_step(cleave_training_log *log, int64_t step) {
    cleave_training_row row = {.step = step,
                               .epoch = 0.5,
                               .loss = 2.25,
                               .learning_rate = 0.01,
                               .gradient_norm = (double)NAN,
                               .seconds = 0.125,
                               .samples_per_second = 128,
                               .validation_loss = (double)NAN,
                               .validation_accuracy = (double)NAN};
    OK(cleave_training_log_put, log, &row);
}

Test(training_log, rows_are_written_at_once_and_what_is_not_there_is_left_empty) {
    char path[64];
    cleave_training_log log;
    make_name(path);
    OK(cleave_training_log_open, &log, path, 0);
    put_step(&log, 1);
    expect_text(path, "1,0.5,2.25,0.01,,0.125,128,,\n");
    cleave_training_log_close(&log);
    /* From the beginning: the table begins anew. */
    OK(cleave_training_log_open, &log, path, 0);
    expect_text(path, "");
    cleave_training_log_close(&log);
    unlink(path);
}

Test(training_log, steps_that_are_done_again_are_there_once) {
    const struct {
        const char *before, *after;
    } cases[] = {{"1,a\n2,b\n3,c\n4,d\n", "1,a\n2,b\n3,0.5,2.25,0.01,,0.125,128,,\n"},
                 {"1,a\n2,b", "1,a\n3,0.5,2.25,0.01,,0.125,128,,\n"}, /* torn, and so is the next */
                 {"1,a\n2", "1,a\n3,0.5,2.25,0.01,,0.125,128,,\n"},
                 {"2,b\n1,a\n", "2,b\n3,0.5,2.25,0.01,,0.125,128,,\n"},
                 {"", "3,0.5,2.25,0.01,,0.125,128,,\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64];
        cleave_training_log log;
        make_name(path);
        write_text(path, header, cases[i].before);
        OK(cleave_training_log_open, &log, path, 2);
        put_step(&log, 3);
        cleave_training_log_close(&log);
        expect_text(path, cases[i].after);
        unlink(path);
    }
}

Test(training_log, another_file_is_left_alone) {
    char path[64], got[32];
    cleave_training_log log;
    cleave_error error = {{0}};
    make_name(path);
    write_text(path, "x,y\n", "1,2\n");
    cr_assert_eq(cleave_training_log_check(path, &error), CLEAVE_BAD_INPUT);
    cr_assert_eq(cleave_training_log_open(&log, path, 2, &error), CLEAVE_BAD_INPUT);
    cr_assert(strstr(error.message, path) != NULL);
    FILE *file = fopen(path, "rb");
    got[fread(got, 1, sizeof got - 1, file)] = '\0';
    fclose(file);
    cr_assert_str_eq(got, "x,y\n1,2\n");
    unlink(path);
    OK(cleave_training_log_check, path);
}
