/* Hosts of files and of batch systems: what people have is taken, and what is none of it is told.
 */
#include "exec/world/hosts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cleave_arena arena;
static cleave_error error;
static cleave_hosts hosts;

static void empty(void) { cleave_arena_free(&arena); }

/* "alpha:4 beta:1" of what was read, or the error. */
static const char *words(cleave_status status) {
    char *all = CLEAVE_ARENA_ARRAY(&arena, char, 4096);
    if (status != CLEAVE_OK) {
        cr_expect_eq(status, CLEAVE_BAD_INPUT);
        return error.message;
    }
    for (int32_t i = 0; i < hosts.n; i++)
        snprintf(all + strlen(all), 4096 - strlen(all), "%s%s:%d", i > 0 ? " " : "",
                 hosts.items[i].name, hosts.items[i].slots);
    return all;
}

static const char *file(const char *text) {
    return words(cleave_hosts_parse(text, strlen(text), "my.hosts", &arena, &hosts, &error));
}

static const char *slurm(const char *nodes, const char *tasks) {
    return words(cleave_hosts_parse_slurm(nodes, tasks, "Slurm", &arena, &hosts, &error));
}

Test(hosts, files_of_mpich_open_mpi_and_pbs_are_taken, .fini = empty) {
    cr_expect_str_eq(file("alpha:4\nbeta:2"), "alpha:4 beta:2");
    cr_expect_str_eq(file("# mine\n\n alpha slots=4 max_slots=8 # old\r\nbeta\tslots=1\nc-1.d_e\n"),
                     "alpha:4 beta:1 c-1.d_e:1");
    cr_expect_str_eq(file("node2\nnode1\nnode2\nnode1\nnode1\n"), "node2:2 node1:3");
}

Test(hosts, what_is_no_host_is_named_with_its_line, .fini = empty) {
    cr_expect_str_eq(file("# nobody\n\n"), "my.hosts: has no host");
    cr_expect(strstr(file("a:1\nb:0\n"), "my.hosts: line 2: \"b:0\" is no host with its slots") !=
              NULL);
    cr_expect(strstr(file("a:1048577"), "\"a:1048577\"") != NULL);
    cr_expect(strstr(file("a:"), "\"a:\"") != NULL);
    cr_expect(strstr(file("a ifname=eth1"), "line 1: \"ifname=eth1\" is not known") != NULL);
    cr_expect(strstr(file("a slots=x"), "\"slots=x\" is not known") != NULL);
    cr_expect(strstr(file("me@a"), "\"me@a\" is no name of a host") != NULL);
    cr_expect(strstr(file("-x"), "\"-x\" is no name of a host") != NULL);
    cr_expect(strstr(file("a slots=1048576\na"), "\"a\" has too many slots") != NULL);
}

Test(hosts, brackets_of_slurm_are_ranges_with_their_zeros, .fini = empty) {
    cr_expect_str_eq(slurm("gpu[01-03,07],login1", NULL),
                     "gpu01:1 gpu02:1 gpu03:1 gpu07:1 login1:1");
    cr_expect_str_eq(slurm("n[9-11]-ib", "2"), "n9-ib:2 n10-ib:2 n11-ib:2");
    cr_expect_str_eq(slurm("r[0-1]n[1,3]", "4(x2),3,1"), "r0n1:4 r0n3:4 r1n1:3 r1n3:1");
}

Test(hosts, what_slurm_would_never_say_is_refused, .fini = empty) {
    static const char *const nodes[] = {
        "",      "a,",  "n[",           "n[]", "n[3-1]", "n[1-", "n[1,]", "n[x]", "n[0-999999999]",
        "n[1]]", "a b", "n[0000000001]"};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        cr_expect(strncmp(slurm(nodes[i], NULL), "Slurm: \"", 8) == 0, "%s: %s", nodes[i],
                  slurm(nodes[i], NULL));
    static const char *const tasks[] = {"",      "x",       "0",     "1,",    "1(x",    "1(x2",
                                        "1(x3)", "1(x2),1", "1,1,1", "2(x1)", "1048577"};
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        cr_expect(strstr(slurm("a,b", tasks[i]), "tasks for") != NULL ||
                      strstr(error.message, "number of tasks") != NULL,
                  "%s: %s", tasks[i], slurm("a,b", tasks[i]));
}

static void leave_batch(void) {
    static const char *const names[] = {"SLURM_JOB_NODELIST",      "SLURM_NODELIST",
                                        "SLURM_TASKS_PER_NODE",    "SLURM_NTASKS_PER_NODE",
                                        "SLURM_JOB_CPUS_PER_NODE", "PBS_NODEFILE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

Test(hosts, a_batch_system_is_found_by_its_variables, .init = leave_batch, .fini = empty) {
    cr_expect_str_eq(words(cleave_hosts_find(&arena, &hosts, &error)), "");
    char path[] = "/tmp/cleave-hosts-XXXXXX";
    FILE *pbs = fdopen(mkstemp(path), "w");
    fputs("x1\nx1\nx2\n", pbs);
    fclose(pbs);
    setenv("PBS_NODEFILE", path, 1);
    cr_expect_str_eq(words(cleave_hosts_find(&arena, &hosts, &error)), "x1:2 x2:1");
    remove(path);
    setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
    setenv("SLURM_JOB_CPUS_PER_NODE", "16(x2)", 1);
    cr_expect_str_eq(words(cleave_hosts_find(&arena, &hosts, &error)), "n1:16 n2:16");
    setenv("SLURM_NTASKS_PER_NODE", "4", 1);
    cr_expect_str_eq(words(cleave_hosts_find(&arena, &hosts, &error)), "n1:4 n2:4");
    setenv("SLURM_TASKS_PER_NODE", "2,1", 1);
    cr_expect_str_eq(words(cleave_hosts_find(&arena, &hosts, &error)), "n1:2 n2:1");
}
