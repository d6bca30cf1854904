#include "costmodel/efficiency.h"

#include <math.h>

const char *const cleave_efficiency_names[] = {"product",
                                               "bf16 product",
                                               "bf16 weight gradient",
                                               "bf16 grouped product",
                                               "bf16 grouped weight gradient",
                                               "attention",
                                               "attention backward",
                                               "memory",
                                               "cross-entropy",
                                               NULL};

/* Whose table counts instead; itself: nobody's. */
static const cleave_efficiency_of kin[CLEAVE_N_EFFICIENCIES] = {
    [CLEAVE_EFFICIENCY_PRODUCT] = CLEAVE_EFFICIENCY_PRODUCT,
    [CLEAVE_EFFICIENCY_BF16_PRODUCT] = CLEAVE_EFFICIENCY_PRODUCT,
    [CLEAVE_EFFICIENCY_BF16_WEIGHTS] = CLEAVE_EFFICIENCY_BF16_PRODUCT,
    [CLEAVE_EFFICIENCY_BF16_GROUPED] = CLEAVE_EFFICIENCY_BF16_PRODUCT,
    [CLEAVE_EFFICIENCY_BF16_GROUPED_WEIGHTS] = CLEAVE_EFFICIENCY_BF16_WEIGHTS,
    [CLEAVE_EFFICIENCY_ATTENTION] = CLEAVE_EFFICIENCY_PRODUCT,
    [CLEAVE_EFFICIENCY_ATTENTION_BACKWARD] = CLEAVE_EFFICIENCY_ATTENTION,
    [CLEAVE_EFFICIENCY_MEMORY] = CLEAVE_EFFICIENCY_MEMORY,
    [CLEAVE_EFFICIENCY_LOSS] = CLEAVE_EFFICIENCY_MEMORY};

static double look_up(const cleave_efficiency *table, double size) {
    int i = 0;
    while (i + 1 < table->n && size > table->size[i + 1])
        i++;
    if (i + 1 >= table->n || size <= table->size[i])
        return table->share[i];
    double at = log(size / table->size[i]) / log(table->size[i + 1] / table->size[i]);
    return table->share[i] + at * (table->share[i + 1] - table->share[i]);
}

double cleave_efficiency_find(const cleave_efficiency *tables, cleave_efficiency_of of,
                              double size) {
    if (tables[of].n > 0)
        return look_up(&tables[of], size);
    if (kin[of] == of)
        return 1;
    /* Kin are told by other sizes: only that of large kernels carries over. */
    bool by_flops = of == CLEAVE_EFFICIENCY_ATTENTION;
    return cleave_efficiency_find(tables, kin[of], by_flops ? HUGE_VAL : size);
}

double cleave_efficiency_most(const cleave_efficiency *tables, cleave_efficiency_of of) {
    return cleave_efficiency_find(tables, of, HUGE_VAL);
}

static cleave_efficiency_of table_of_product(const cleave_work *work) {
    bool grouped = work->sort == CLEAVE_WORK_GROUPED_PRODUCT;
    if (!cleave_type_is_short(work->type))
        return CLEAVE_EFFICIENCY_PRODUCT;
    if (work->pass == CLEAVE_PASS_WEIGHT_GRADIENT)
        return grouped ? CLEAVE_EFFICIENCY_BF16_GROUPED_WEIGHTS : CLEAVE_EFFICIENCY_BF16_WEIGHTS;
    return grouped ? CLEAVE_EFFICIENCY_BF16_GROUPED : CLEAVE_EFFICIENCY_BF16_PRODUCT;
}

/* The table of its flops, and the size that it goes by. */
static cleave_efficiency_of table_of_work(const cleave_work *work, double *size) {
    bool forward = work->pass == CLEAVE_PASS_FORWARD;
    *size = HUGE_VAL;
    switch (work->sort) {
    case CLEAVE_WORK_PRODUCT:
    case CLEAVE_WORK_GROUPED_PRODUCT:
        *size = work->smallest;
        return table_of_product(work);
    case CLEAVE_WORK_ATTENTION:
        *size = work->flops;
        return forward ? CLEAVE_EFFICIENCY_ATTENTION : CLEAVE_EFFICIENCY_ATTENTION_BACKWARD;
    case CLEAVE_WORK_LOSS:
    case CLEAVE_WORK_OTHER:
        break;
    }
    return CLEAVE_EFFICIENCY_PRODUCT;
}

double cleave_efficiency_of_work(const cleave_efficiency *tables, const cleave_work *work) {
    double size;
    cleave_efficiency_of of = table_of_work(work, &size);
    return cleave_efficiency_find(tables, of, size);
}

static cleave_efficiency_of table_of_bytes(const cleave_work *work) {
    return work->sort == CLEAVE_WORK_LOSS ? CLEAVE_EFFICIENCY_LOSS : CLEAVE_EFFICIENCY_MEMORY;
}

double cleave_efficiency_of_bytes(const cleave_efficiency *tables, const cleave_work *work,
                                  double bytes) {
    return cleave_efficiency_find(tables, table_of_bytes(work), bytes);
}

static double bound_of(const cleave_efficiency *tables, cleave_efficiency_of of) {
    double most = 0;
    while (tables[of].n == 0 && kin[of] != of)
        of = kin[of];
    for (int i = 0; i < tables[of].n; i++)
        most = fmax(most, tables[of].share[i]);
    return tables[of].n > 0 ? most : 1;
}

double cleave_efficiency_bound_of_work(const cleave_efficiency *tables, const cleave_work *work) {
    double size;
    return bound_of(tables, table_of_work(work, &size));
}

double cleave_efficiency_bound_of_bytes(const cleave_efficiency *tables, const cleave_work *work) {
    return bound_of(tables, table_of_bytes(work));
}
