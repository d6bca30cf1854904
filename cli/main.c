/* The `cleave` command: finds the subcommand in one table, parses its options, runs it, and turns
   its status into the exit code and its error into one line on stderr. */
#include "base/nearest_word.h"
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

static const command *const commands[] = {&command_calibrate, &command_search, &command_simulate,
                                          &command_run,       &command_show,   &command_compare,
                                          &command_explain,   &command_report, &command_diff,
                                          &command_validate,  &command_sweep,  &command_export};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_overview(FILE *stream) {
    fprintf(stream, "usage: cleave COMMAND [OPTION]...\n\n"
                    "Finds how to split a neural network over devices, says how long a training\n"
                    "step will take and how much memory it needs, and runs the plan.\n\n"
                    "commands:\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(stream, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(stream,
            "\n`cleave COMMAND --help` explains a command, with an example.\n"
            "Results go to stdout, progress and errors to stderr.\n"
            "Exit: 0 done, 1 failed at run time, 2 bad input or usage, 3 no layout fits.\n");
}

static void print_help(const command *c) {
    options_print_usage(&c->options, c->name, stdout);
    printf("\n%s.\n\n%s\n\noptions:\n", c->summary, c->details);
    options_print_help(&c->options, stdout);
    printf("\nexample:\n%s", c->examples);
}

/* One line, whatever a file or an argument put into the message. */
static int report(const char *name, cleave_status status, cleave_error *error) {
    for (char *c = error->message; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    if (error->message[0] != '\0')
        fprintf(stderr, "cleave%s%s: %s\n", name[0] != '\0' ? " " : "", name, error->message);
    return (int)status;
}

/* Results that could not be written are a failure, as when the disk is full. */
static cleave_status flush_results(cleave_error *error) {
    if (fflush(stdout) != 0 || ferror(stdout) != 0)
        return cleave_fail(error, CLEAVE_FAILED, "stdout could not be written");
    return CLEAVE_OK;
}

static int run_command(const command *c, int n_arguments, char *const *arguments) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    void *values = calloc(1, c->value_bytes);
    if (values == NULL)
        return report(c->name, cleave_fail_memory(&error, "reading the options"), &error);
    bool help = false;
    cleave_status status = options_parse(&c->options, n_arguments - 2, arguments + 2, values,
                                         c->value_bytes, &help, &error);
    /* A rank's host need not have the folders of the one that writes. */
    if (status == CLEAVE_OK && !help && !cleave_world_is_launched())
        status = options_check_outputs(&c->options, values, &error);
    if (status == CLEAVE_OK && help)
        print_help(c);
    else if (status == CLEAVE_OK)
        status = c->run(values, arguments, &arena, &error);
    if (status == CLEAVE_OK)
        status = flush_results(&error);
    cleave_arena_free(&arena);
    free(values);
    return status == CLEAVE_OK ? 0 : report(c->name, status, &error);
}

static cleave_status fail_unknown(const char *name, cleave_error *error) {
    cleave_nearest_word nearest = {.text = name, .length = strlen(name)};
    for (int i = 0; i < N_COMMANDS; i++)
        cleave_nearest_word_offer(&nearest, commands[i]->name);
    if (name[0] == '\0')
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "a command is missing; cleave --help lists them");
    return nearest.word == NULL
               ? cleave_fail(error, CLEAVE_BAD_INPUT,
                             "unknown command \"%.200s\"; cleave --help lists them", name)
               : cleave_fail(error, CLEAVE_BAD_INPUT,
                             "unknown command \"%.200s\": is it %s? cleave --help lists them", name,
                             nearest.word);
}

static const command *find(const char *name) {
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

/* Of all, or of the command that is named behind it. */
static int help(const char *name) {
    cleave_error error = {""};
    const command *c = find(name);
    if (c == NULL && name[0] != '\0')
        return report("", fail_unknown(name, &error), &error);
    if (c == NULL)
        print_overview(stdout);
    else
        print_help(c);
    cleave_status status = flush_results(&error);
    return status == CLEAVE_OK ? 0 : report("", status, &error);
}

int main(int n_arguments, char **arguments) {
    cleave_error error = {""};
    const char *name = n_arguments > 1 ? arguments[1] : "";
    const command *c = find(name);
    if (c != NULL)
        return run_command(c, n_arguments, arguments);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return help(n_arguments > 2 ? arguments[2] : "");
    if (strcmp(name, "--version") == 0) {
        printf("cleave %d.%d.%d\n", CLEAVE_VERSION_MAJOR, CLEAVE_VERSION_MINOR,
               CLEAVE_VERSION_PATCH);
        return 0;
    }
    return report("", fail_unknown(name, &error), &error);
}
