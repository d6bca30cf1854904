/* Fuzzes the readers of hosts, of files and of Slurm's words (the list before the first line break,
   the tasks behind it): what is accepted are names that a launcher can be given, each once. */
#include "exec/world/hosts.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check(cleave_status status, const cleave_hosts *hosts, const cleave_error *error) {
    if ((status == CLEAVE_OK) != (error->message[0] == '\0') ||
        (status == CLEAVE_OK) != (hosts->n > 0))
        abort();
    for (int32_t i = 0; i < hosts->n; i++) {
        const cleave_host *host = &hosts->items[i];
        size_t n = strlen(host->name);
        if (n == 0 || n > CLEAVE_MOST_HOST_NAME || strcspn(host->name, ":, \t\n[]=@") != n ||
            host->name[0] == '-' || host->slots < 1 || host->slots > CLEAVE_MOST_SLOTS ||
            (i > 0 && strcmp(host->name, hosts->items[0].name) == 0))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cleave_arena arena = {0};
    cleave_hosts hosts = {0}, slurm = {0};
    cleave_error error = {""}, slurm_error = {""};
    char *text = calloc(size + 1, 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    check(cleave_hosts_parse(text, size, "fuzz", &arena, &hosts, &error), &hosts, &error);
    char *tasks = strchr(text, '\n');
    if (tasks != NULL)
        *tasks++ = '\0';
    check(cleave_hosts_parse_slurm(text, tasks, "fuzz", &arena, &slurm, &slurm_error), &slurm,
          &slurm_error);
    free(text);
    cleave_arena_free(&arena);
    return 0;
}
