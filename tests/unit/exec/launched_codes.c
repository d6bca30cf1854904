/* What is made of how the ranks of a launch end. */
#include "exec/world/launch.h"

#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Ranks that say with which code they end, and end with 1, as launchers may report it. */
Test(launched_codes, the_code_is_the_one_that_ranks_say) {
    char path[] = "/tmp/cleave-launch-XXXXXX", *arguments[] = {path, NULL};
    int file = mkstemp(path), code = 0;
    cr_assert_geq(file, 0);
    dprintf(file, "#!/bin/sh\necho cleave run: the reason >&2\necho '%s2' >&2\nexit 1\n",
            CLEAVE_ENDS_WITH);
    fchmod(file, S_IRWXU);
    close(file);
    bool told_to_end = true;
    const cleave_launch how = {.n_ranks = 2};
    OK(cleave_launch_ranks, &how, arguments, &code, &told_to_end);
    unlink(path);
    cr_expect_eq(code, 2);
    cr_expect_not(told_to_end);
}
