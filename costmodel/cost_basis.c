/* What prices rest on, and how much of them is the neighbours' doing. */
#include "costmodel/cost_cache.h"

/* Sources are numbered over all kinds: the kernels of a kind, then its fits, then the next kind. */
static int32_t number_source(const cleave_machine *machine, int32_t kind,
                             cleave_provenance provenance, int32_t source) {
    if (source < 0)
        return -1;
    for (int32_t k = 0; k < kind; k++)
        source += machine->kinds[k].n_kernels + machine->kinds[k].n_fits;
    return provenance == CLEAVE_PROVENANCE_PREDICTED ? source + machine->kinds[kind].n_kernels
                                                     : source;
}

int32_t cleave_cost_n_sources(const cleave_cost_cache *cache) {
    int64_t n = 0;
    for (int32_t k = 0; k < cache->machine->n_kinds; k++)
        n += cache->machine->kinds[k].n_kernels + cache->machine->kinds[k].n_fits;
    return (int32_t)n;
}

static cleave_price_basis basis_of_compute(const cleave_cost_cache *cache, const cost_entry *price,
                                           int32_t kind) {
    const cleave_device_kind *k = &cache->machine->kinds[kind];
    double spread =
        price->provenance == CLEAVE_PROVENANCE_MEASURED    ? k->kernels[price->source].spread
        : price->provenance == CLEAVE_PROVENANCE_PREDICTED ? k->fits[price->source].spread
                                                           : 0;
    return (cleave_price_basis){
        price->provenance, number_source(cache->machine, kind, price->provenance, price->source),
        spread};
}

static cleave_price_basis basis_of_bytes(const cleave_cost_cache *cache, cleave_byte_price price,
                                         int32_t kind) {
    if (price.fit < 0)
        return (cleave_price_basis){CLEAVE_PROVENANCE_DATA_SHEET, -1, 0};
    return (cleave_price_basis){
        CLEAVE_PROVENANCE_PREDICTED,
        number_source(cache->machine, kind, CLEAVE_PROVENANCE_PREDICTED, price.fit),
        cache->machine->kinds[kind].fits[price.fit].spread};
}

/* That which it is priced by, for the most part. */
static cleave_byte_price price_of_copy(const cleave_copy_price *price, const cleave_copy *copy) {
    double n = copy->n_copies > 1 ? copy->n_copies : 1, bytes = (double)copy->bytes;
    bool in_rows = (double)copy->n_rows > n && copy->summed_bytes < copy->bytes &&
                   cleave_copy_price_of_rows(price, n, bytes, (double)copy->n_rows) >
                       cleave_copy_price_of_dense(price, n, bytes, (double)copy->summed_bytes);
    return in_rows ? price->rows : 2 * copy->summed_bytes > copy->bytes ? price->sum : price->dense;
}

/* A machine file does not say where the figures of a link come from; calibration measures links
   together with the kernels of the devices that they join. */
/* Links count as measured where the devices at both ends were calibrated, else as data sheet. */
static cleave_provenance link_provenance(const cleave_machine *machine, int32_t source,
                                         int32_t destination) {
    const int32_t *kind = machine->device_kind;
    bool calibrated =
        machine->kinds[kind[source]].n_fits > 0 && machine->kinds[kind[destination]].n_fits > 0;
    return calibrated ? CLEAVE_PROVENANCE_MEASURED : CLEAVE_PROVENANCE_DATA_SHEET;
}

static cleave_price_basis basis_of_links(const cleave_cost_cache *cache, int32_t source,
                                         int32_t destination) {
    return (cleave_price_basis){link_provenance(cache->machine, source, destination), -1, 0};
}

cleave_status cleave_cost_basis(const cleave_program *program, cleave_cost_cache *cache,
                                cleave_price_basis *basis, cleave_error *error) {
    CLEAVE_TRY(cost_cache_check(cache, program, error));
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        int32_t kind = cache->machine->device_kind[item->device];
        const cleave_message *message;
        const cost_entry *price;
        switch ((cleave_item_kind)item->kind) {
        case CLEAVE_ITEM_COMPUTE:
            price = cost_cache_compute(cache, &program->computes[item->subject]);
            if (price == NULL)
                return cleave_fail_memory(error, "pricing a program");
            basis[i] = basis_of_compute(cache, price, kind);
            break;
        case CLEAVE_ITEM_UPDATE:
            basis[i] = basis_of_bytes(cache, cache->update[kind], kind);
            break;
        case CLEAVE_ITEM_LOAD:
            basis[i] = basis_of_bytes(cache, cache->load[kind], kind);
            break;
        case CLEAVE_ITEM_COPY:
            basis[i] = basis_of_bytes(
                cache, price_of_copy(&cache->copy[kind], &program->copies[item->subject]), kind);
            break;
        case CLEAVE_ITEM_SEND:
        case CLEAVE_ITEM_RECEIVE:
        case CLEAVE_ITEM_WAIT:
            message = &program->messages[item->subject];
            basis[i] = basis_of_links(cache, message->source, message->destination);
            break;
        case CLEAVE_ITEM_JOIN:
        case CLEAVE_ITEM_AWAIT:
        case CLEAVE_ITEM_SYNC:
            basis[i] = basis_of_links(cache, item->device, item->device);
        }
    }
    return CLEAVE_OK;
}

bool cleave_cost_knows_neighbours(const cleave_cost_cache *cache) {
    const cleave_machine *machine = cache->machine;
    for (int32_t l = 0; l < machine->n_links; l++) {
        const cleave_polls *receiving = &machine->links[l].protocol.receiving;
        if (receiving->small > 0 || receiving->large > 0 || receiving->per_byte > 0)
            return true;
    }
    for (int32_t k = 0; k < machine->n_kinds; k++)
        for (int32_t f = 0; f < machine->kinds[k].n_fits; f++)
            if (machine->kinds[k].fits[f].alone > 0)
                return true;
    return false;
}

static float alone_of_fit(const cleave_device_kind *kind, int32_t fit) {
    return fit >= 0 && kind->fits[fit].alone > 0 ? (float)kind->fits[fit].alone : 1;
}

cleave_status cleave_cost_alone(const cleave_program *program, cleave_cost_cache *cache,
                                float *alone, cleave_error *error) {
    CLEAVE_TRY(cost_cache_check(cache, program, error));
    cost_cursor at = {0};
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        int32_t kind_id = cache->machine->device_kind[item->device];
        const cleave_device_kind *kind = &cache->machine->kinds[kind_id];
        const cleave_copy *copy;
        const cleave_copy_price *price;
        alone[i] = 1;
        switch ((cleave_item_kind)item->kind) {
        case CLEAVE_ITEM_COMPUTE:
            CLEAVE_TRY(cost_cache_next(cache, &at, &program->computes[item->subject], error));
            alone[i] = alone_of_fit(kind, at.price->family_fit);
            break;
        case CLEAVE_ITEM_UPDATE:
            alone[i] = alone_of_fit(kind, cache->update[kind_id].fit);
            break;
        case CLEAVE_ITEM_COPY:
            copy = &program->copies[item->subject];
            price = &cache->copy[kind_id];
            alone[i] = alone_of_fit(kind, 2 * copy->summed_bytes > copy->bytes ? price->sum.fit
                                                                               : price->dense.fit);
            break;
        default:
            break;
        }
    }
    return CLEAVE_OK;
}
