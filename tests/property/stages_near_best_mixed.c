/* Plans of a search are near the best (tests/support/near_best.h) on two kinds of devices. */
#include "../support/near_best.h"

#include <criterion/criterion.h>

static const int usual[] = {3, 5, 8, 12};

Test(stages_near_best_mixed, on_two_kinds_of_devices) {
    expect_near_best(usual, sizeof usual / sizeof usual[0], true);
}
