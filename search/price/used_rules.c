/* A rule is used where it is the first that fits a collective; the order of rules stays. */
#include "search/price/used_rules.h"

void cleave_find_used_rules(const cleave_program *program, const cleave_collective_rules *rules,
                            bool *used) {
    for (int32_t c = 0; c < program->n_collectives; c++) {
        const cleave_collective *of = &program->collectives[c];
        int32_t rule =
            cleave_collective_rules_find(rules, of->kind, of->n_devices, of->devices, of->bytes);
        if (rule >= 0)
            used[rule] = true;
    }
}

void cleave_keep_rules(const bool *used, cleave_collective_rules *rules) {
    int32_t n = 0;
    for (int32_t r = 0; r < rules->n; r++)
        if (used[r])
            rules->items[n++] = rules->items[r];
    rules->n = n;
}
