/* Shuffling without a list: a Feistel network permutes the numbers of an even number of bits, and
   one that lands at n or above is sent on until it lands below, which keeps it a permutation (Black
   and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). */
#include "exec/data/sample_order.h"

#include "base/random.h"

enum { ROUNDS = 6 };

int64_t cleave_permute(uint64_t key, int64_t n, int64_t i) {
    int half = 1;
    while (half < 31 && INT64_C(1) << 2 * half < n)
        half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t at = (uint64_t)i;
    do {
        uint64_t left = at >> half, right = at & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t next = left ^ (cleave_hash_join(cleave_hash_join(key, round), right) & mask);
            left = right;
            right = next;
        }
        at = left << half | right;
    } while (at >= (uint64_t)n);
    return (int64_t)at;
}

int64_t cleave_sample_order_steps(const cleave_sample_order *order) {
    return order->n / order->batch + (order->whole && order->n % order->batch > 0);
}

int64_t cleave_sample_order_at(const cleave_sample_order *order, int64_t step, int64_t place) {
    int64_t steps = cleave_sample_order_steps(order), epoch = step / steps;
    int64_t i = (step % steps * order->batch + place) % order->n;
    if (!order->shuffled)
        return i;
    uint64_t key = cleave_hash_join(order->seed, cleave_hash_string("order of samples"));
    return cleave_permute(cleave_hash_join(key, (uint64_t)epoch), order->n, i);
}
