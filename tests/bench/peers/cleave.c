/* Cleave on a task graph: a line with the number of tasks, the makespan, and the processor time of
   a simulation in seconds, the median over repetitions and that of the first, which finds its
   memory new and its caches cold.  Reading the file is not in it.
     usage: bench_cleave_tasks FILE [REPETITIONS] */
#include "simulator/events/tasks.h"
#include "tests/bench/arguments.h"
#include "tests/bench/row.h"

enum { MOST_REPETITIONS = 1001 };

static cleave_status run(const char *path, int repetitions, cleave_arena *graph,
                         cleave_arena *result, cleave_error *error) {
    cleave_tasks tasks;
    cleave_tasks_timeline timeline = {0};
    double seconds[MOST_REPETITIONS];
    CLEAVE_TRY(cleave_tasks_read(path, graph, &tasks, error));
    for (int k = 0; k < repetitions; k++) {
        cleave_arena_reset(result);
        double before = bench_processor_seconds();
        CLEAVE_TRY(cleave_tasks_simulate(&tasks, result, &timeline, error));
        seconds[k] = bench_processor_seconds() - before;
    }
    double first = seconds[0];
    printf("%d %.12f %.9f %.9f\n", tasks.n_tasks, 1e-12 * (double)timeline.makespan,
           cleave_median(seconds, repetitions), first);
    return CLEAVE_OK;
}

int main(int argc, char **argv) {
    bench_arguments a = bench_begin(argc, argv);
    const char *file = bench_take(&a);
    int repetitions = (int)bench_take_integer(&a, "REPETITIONS", 1, MOST_REPETITIONS, 51);
    bench_end(&a);
    if (file == NULL)
        bench_refuse(&a, "a FILE is wanted");
    cleave_arena graph = {0}, result = {0};
    cleave_error error = {""};
    cleave_status status = run(file, repetitions, &graph, &result, &error);
    cleave_arena_free(&graph);
    cleave_arena_free(&result);
    if (status != CLEAVE_OK)
        fprintf(stderr, "bench_cleave_tasks: %s\n", error.message);
    return (int)status;
}
