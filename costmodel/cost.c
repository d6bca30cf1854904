/* Prices: of work on a kind of device, and of every item of a program. */
#include "costmodel/cost_cache.h"

#include <math.h>
#include <string.h>

/* ---- kinds of devices ------------------------------------------------------------------------ */

int32_t cost_find_fit(const cleave_device_kind *kind, const char *family) {
    for (int32_t i = 0; i < kind->n_fits; i++)
        if (strcmp(kind->fits[i].family, family) == 0)
            return i;
    return -1;
}

static bool is_measured(const cleave_device_kind *kind) {
    return kind->n_kernels > 0 || kind->n_fits > 0;
}

/* Where nothing was measured, or who asks says so, a framework is taken to run, in the kernels that
   it has.  What goes on in one computes while that reads and writes. */
static double price_by_data_sheet(const cleave_device_kind *kind, const cleave_work *work) {
    cleave_framework_kernels of = {1, work->bytes};
    if (work->has_kernels && (kind->framework != CLEAVE_COMPILED || !is_measured(kind)))
        of = work->kernels[kind->framework];
    double flops = of.n > 0 ? work->flops : 0;
    return kind->launch_seconds * of.n +
           fmax(flops / (cleave_device_kind_flops(kind, work->type) *
                         cleave_efficiency_of_work(kind->efficiency, work)),
                of.bytes / (kind->bytes_per_second *
                            cleave_efficiency_of_bytes(kind->efficiency, work, of.bytes)));
}

double cleave_cost_floor(const cleave_device_kind *kind, const cleave_work *work) {
    const cleave_framework_kernels *of = &work->kernels[kind->framework];
    if (is_measured(kind) || !work->has_kernels || of->n == 0)
        return 0;
    return fmax(work->flops / (cleave_device_kind_flops(kind, work->type) *
                               cleave_efficiency_bound_of_work(kind->efficiency, work)),
                of->bytes / (kind->bytes_per_second *
                             cleave_efficiency_bound_of_bytes(kind->efficiency, work)));
}

static double correct_fit(const cleave_device_kind *kind, int32_t fit, const char *key) {
    if (kind->first_likened == NULL)
        return 1;
    int32_t first = kind->first_likened[fit], n = kind->first_likened[fit + 1] - first;
    cleave_likeness likeness = cleave_likeness_read(key);
    return cleave_likeness_correction(kind->likened + first, n, &likeness);
}

double cost_find_price(const cleave_device_kind *kind, const cleave_work *work,
                       cleave_provenance *provenance, int32_t *source) {
    const cleave_kernel_time *kernel = cleave_device_kind_find_kernel(kind, work->key);
    if (kernel != NULL && kernel->seconds > 0) {
        *provenance = CLEAVE_PROVENANCE_MEASURED;
        *source = (int32_t)(kernel - kind->kernels);
        return kernel->seconds;
    }
    *source = cost_find_fit(kind, work->family);
    if (*source >= 0) {
        const cleave_family_fit *fit = &kind->fits[*source];
        *provenance = CLEAVE_PROVENANCE_PREDICTED;
        return cleave_family_fit_seconds(fit, work->flops, work->bytes) *
               correct_fit(kind, *source, work->key);
    }
    *provenance = CLEAVE_PROVENANCE_DATA_SHEET;
    return price_by_data_sheet(kind, work);
}

double cleave_cost_compute(const cleave_device_kind *kind, const cleave_work *work,
                           cleave_provenance *provenance) {
    int32_t source;
    return cost_find_price(kind, work, provenance, &source);
}

cleave_byte_price cleave_byte_price_of(const cleave_device_kind *kind, const char *family) {
    int32_t found = cost_find_fit(kind, family);
    if (found < 0)
        return (cleave_byte_price){
            .launch_seconds = kind->launch_seconds,
            .seconds_per_byte =
                1 / (kind->bytes_per_second *
                     cleave_efficiency_most(kind->efficiency, CLEAVE_EFFICIENCY_MEMORY)),
            .fit = -1};
    const cleave_family_fit *fit = &kind->fits[found];
    double far_excess = fit->far_seconds_per_byte - fit->seconds_per_byte;
    return (cleave_byte_price){.launch_seconds = fit->launch_seconds,
                               .seconds_per_byte = fit->seconds_per_byte,
                               .near_bytes = fit->near_bytes,
                               .far_excess = fit->near_bytes > 0 ? fmax(0, far_excess) : 0,
                               .fit = found};
}

cleave_byte_price cleave_sum_price_of(const cleave_device_kind *kind) {
    return cleave_byte_price_of(kind, cost_find_fit(kind, "sum") < 0 ? "copy" : "sum");
}

cleave_copy_price cleave_copy_price_of(const cleave_device_kind *kind) {
    cleave_copy_price price = {.dense = cleave_byte_price_of(kind, "copy")};
    int32_t found = cost_find_fit(kind, "copy rows");
    price.rows = found < 0 ? price.dense : cleave_byte_price_of(kind, "copy rows");
    price.seconds_per_row = found < 0 ? 0 : kind->fits[found].seconds_per_flop;
    price.sum = cleave_sum_price_of(kind);
    price.framework = kind->framework;
    price.is_measured = is_measured(kind);
    return price;
}

/* On the safe side: as much as any kernel of the family takes, and more in proportion for work that
   is larger than any known. */
static int64_t predict_workspace(const cleave_device_kind *kind, const cleave_work *work) {
    int32_t known = cost_find_fit(kind, work->family);
    if (known < 0)
        return 0;
    const cleave_family_fit *fit = &kind->fits[known];
    double growth = work->bytes > fit->largest_bytes && fit->largest_bytes > 0
                        ? work->bytes / fit->largest_bytes
                        : 1;
    return (int64_t)fmin(ceil(growth * (double)fit->workspace_bytes), 0x1p62);
}

int64_t cleave_cost_workspace(void *machine, const cleave_model *model, const cleave_nest *nest,
                              cleave_pass pass, const cleave_part *part) {
    const cleave_machine *m = machine;
    if (part->device < 0 || part->device >= m->n_devices)
        return 0;
    const cleave_device_kind *kind = &m->kinds[m->device_kind[part->device]];
    if (kind->n_kernels == 0)
        return 0;
    cleave_work work;
    cleave_work_describe(model, nest, pass, part, &work);
    const cleave_kernel_time *kernel = cleave_device_kind_find_kernel(kind, work.key);
    return kernel != NULL ? kernel->workspace_bytes : predict_workspace(kind, &work);
}

/* ---- items ----------------------------------------------------------------------------------- */

static int64_t bytes_picoseconds(cleave_byte_price price, double bytes) {
    return cleave_picoseconds(cleave_byte_price_seconds(&price, 1, bytes));
}

/* Where our kernels were measured none is theirs, unless who asks names a framework. */
int64_t cleave_cost_chore(const cleave_copy_price *price, const cleave_copy *copy) {
    const cleave_framework_row *framework = &cleave_frameworks[price->framework];
    bool is_added = framework->is_eager ? copy->additions.eager : copy->additions.compiled;
    if ((price->is_measured && price->framework == CLEAVE_COMPILED) ||
        (copy->chore == CLEAVE_CHORE_ADD && !is_added) ||
        (copy->chore == CLEAVE_CHORE_ACCUMULATE && copy->carries))
        return 0;
    cleave_chore_kernels of = framework->chores[copy->chore];
    return cleave_picoseconds(of.n * price->dense.launch_seconds +
                              of.passes * (double)copy->chore_bytes *
                                  price->dense.seconds_per_byte);
}

static int64_t price_copy(const cleave_copy_price *price, const cleave_copy *copy) {
    if (copy->chore != CLEAVE_CHORE_NONE)
        return cleave_cost_chore(price, copy);
    double n = copy->n_copies > 1 ? copy->n_copies : 1;
    return cleave_picoseconds(cleave_copy_price_seconds(
        price, n, (double)copy->bytes, (double)copy->summed_bytes, (double)copy->n_rows));
}

static int64_t price_update(const cleave_cost_cache *cache, const cleave_program *program,
                            const cleave_update *update, int32_t kind) {
    return bytes_picoseconds(cache->update[kind], cleave_update_bytes(program, update));
}

/* Read once, written once. */
static int64_t price_load(const cleave_cost_cache *cache, const cleave_program *program,
                          const cleave_load *load, int32_t kind) {
    return bytes_picoseconds(cache->load[kind], 2 * (double)program->buffers[load->buffer].bytes);
}

static int64_t price_post(cleave_cost_cache *cache, const cleave_message *message) {
    const cleave_route_price *route =
        cleave_cost_route(cache, message->source, message->destination);
    return cleave_picoseconds(route->overhead_seconds);
}

static cleave_status price_join(cleave_cost_cache *cache, const cleave_collective *collective,
                                cleave_collective_cost *join, cleave_error *error) {
    *join = (cleave_collective_cost){0};
    return collective->kind == CLEAVE_ALL_TO_ALL
               ? CLEAVE_OK
               : cleave_cost_cache_collective(cache, collective, join, error);
}

cleave_status cleave_cost_items(const cleave_program *program, cleave_cost_cache *cache,
                                int64_t *duration, cleave_error *error) {
    CLEAVE_TRY(cost_cache_check(cache, program, error));
    int32_t joined = -1; /* the JOIN items of a collective come together: price it once */
    cleave_collective_cost join = {0};
    cost_cursor at = {0};
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        int32_t kind = cache->machine->device_kind[item->device];
        duration[i] = 0;
        switch ((cleave_item_kind)item->kind) {
        case CLEAVE_ITEM_COMPUTE:
            CLEAVE_TRY(cost_cache_next(cache, &at, &program->computes[item->subject], error));
            duration[i] = at.price->picoseconds;
            break;
        case CLEAVE_ITEM_UPDATE:
            duration[i] = price_update(cache, program, &program->updates[item->subject], kind);
            break;
        case CLEAVE_ITEM_LOAD:
            if (cache->loads_data)
                duration[i] = price_load(cache, program, &program->loads[item->subject], kind);
            break;
        case CLEAVE_ITEM_COPY:
            duration[i] = price_copy(&cache->copy[kind], &program->copies[item->subject]);
            break;
        case CLEAVE_ITEM_SEND:
        case CLEAVE_ITEM_RECEIVE:
            duration[i] = price_post(cache, &program->messages[item->subject]);
            break;
        case CLEAVE_ITEM_JOIN:
            if (item->subject != joined)
                CLEAVE_TRY(price_join(cache, &program->collectives[item->subject], &join, error));
            joined = item->subject;
            duration[i] = join.processor;
            break;
        case CLEAVE_ITEM_WAIT:
        case CLEAVE_ITEM_SYNC:
        case CLEAVE_ITEM_AWAIT:
            break;
        }
    }
    return CLEAVE_OK;
}
