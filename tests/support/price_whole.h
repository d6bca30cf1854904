/* The price that every other is measured by: all devices lowered, planned and simulated. */
#ifndef CLEAVE_TESTS_SUPPORT_PRICE_WHOLE_H
#define CLEAVE_TESTS_SUPPORT_PRICE_WHOLE_H

#include "search/price/price.h"

static inline cleave_status price_whole(cleave_pricer *pricer, const cleave_layout *layout,
                                        bool in_steps, cleave_price *price, cleave_error *error) {
    const cleave_price_subject what = {.layout = layout, .in_steps = in_steps};
    return cleave_pricer_price(pricer, &what, NULL, price, error);
}

#endif
