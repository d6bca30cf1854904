/* All-to-alls in closed form.  Every message is a transfer of its own, so what each link carries is
   known, and the slowest one has the all-to-all take as long:

     processors  each device packs and posts its messages one after the other: before it has joined
     links       the largest time among them for all that crosses them.  Messages start while the
                 rest is packed and posted, so from the last join on there is less of it left, and
                 no less than one message
     latency     the largest among the routes */
#include "costmodel/cost_exchange.h"

#include "costmodel/cost_cache.h"
#include "graph/program/program.h"

#include <math.h>

/* Routes of all pairs of devices are more than the nearest caches hold. */
enum { TRANSFERS_AHEAD = 8 };

static double larger(double a, double b) { return a > b ? a : b; }

static void add_message(cleave_cost_cache *cache, const cleave_collective *collective,
                        const cleave_transfer *transfer, cleave_exchange_price *price) {
    const cleave_route_price *route = cleave_cost_route(
        cache, collective->devices[transfer->source], collective->devices[transfer->destination]);
    double bytes = (double)transfer->bytes, slowest = 0;
    double n_posts = transfer->bytes <= CLEAVE_MOST_MESSAGE_BYTES
                         ? 1
                         : ceil(bytes / (double)CLEAVE_MOST_MESSAGE_BYTES);
    double post = n_posts * route->overhead_seconds + bytes * route->overhead_seconds_per_byte;
    for (int32_t l = 0; l < route->n_links; l++) {
        int32_t link = route->links[l];
        double seconds = bytes * price->seconds_per_byte[link];
        if (price->load[link] == 0)
            price->links[price->n_links++] = link;
        price->load[link] += seconds;
        slowest = larger(slowest, seconds);
    }
    price->message = larger(price->message, slowest);
    price->latency = larger(price->latency, route->latency_seconds);
    price->processor[transfer->source] += post;
    price->processor[transfer->destination] += post;
    price->n_sent[transfer->source]++;
}

void cleave_exchange_price_find(cleave_cost_cache *cache, const cleave_collective *collective,
                                const cleave_copy_price *copy, cleave_exchange_price *price) {
    const cleave_machine *machine = cleave_cost_cache_machine(cache);
    price->n_links = 0;
    price->link = price->message = price->latency = 0;
    for (int32_t i = 0; i < collective->n_devices; i++) {
        const cleave_byte_price *of = &copy[machine->device_kind[collective->devices[i]]].dense;
        const cleave_packing *packing = &collective->packing[i];
        price->processor[i] =
            cleave_byte_price_seconds(of, packing->n_copies, (double)packing->bytes);
        price->n_sent[i] = 0;
    }
    for (int32_t t = 0; t < collective->n_transfers; t++) {
        if (t + TRANSFERS_AHEAD < collective->n_transfers)
            cost_cache_expect_route(
                cache, collective->devices[collective->transfers[t + TRANSFERS_AHEAD].source],
                collective->devices[collective->transfers[t + TRANSFERS_AHEAD].destination]);
        add_message(cache, collective, &collective->transfers[t], price);
    }
    for (int32_t l = 0; l < price->n_links; l++) {
        price->link = larger(price->link, price->load[price->links[l]]);
        price->load[price->links[l]] = 0;
    }
}

cleave_collective_cost cleave_exchange_price_cost(const cleave_collective *collective,
                                                  const cleave_exchange_price *price) {
    double hidden = 0;
    for (int32_t i = 0; i < collective->n_devices; i++)
        if (price->n_sent[i] > 0)
            hidden = larger(hidden, price->processor[i] * (1 - 1.0 / price->n_sent[i]));
    return (cleave_collective_cost){
        .busy = cleave_picoseconds(larger(price->message, price->link - hidden)),
        .rest = cleave_picoseconds(price->latency)};
}
