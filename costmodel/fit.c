/* Fits of kernel families: seconds = launch + flops x seconds_per_flop + bytes x seconds_per_byte,
   where the sum of |fitted / measured - 1| is least.  Coefficients are scaled so that each has a
   largest entry of 1.  Copies, loads and updates may take more for each byte beyond those that
   caches hold; how many these are is tried out: as many as some of the measurements move. */
#include "base/least_deviations.h"
#include "base/order.h"
#include "costmodel/machine.h"

#include <math.h>
#include <string.h>

enum { LAUNCH, PER_FLOP, PER_BYTE, PER_FAR_BYTE, N_COEFFICIENTS };
enum { MAX_FOLDS = 10, FEWEST_FOR_FAR = 5, MOST_NEAR_TRIED = 16 };
/* A fit with more coefficients has to be so much nearer. */
static const double worth_a_coefficient = 0.8;

typedef struct measured_family {
    const char *name;
    int32_t n;
    const cleave_kernel_time **kernels; /* [n] */
    double near_bytes;                  /* 0: all bytes go alike */
} measured_family;

static double feature(const measured_family *family, const cleave_kernel_time *kernel,
                      int coefficient) {
    switch (coefficient) {
    case PER_FLOP:
        return kernel->flops;
    case PER_BYTE:
        return kernel->bytes;
    case PER_FAR_BYTE: /* beside those of all bytes, so never fewer */
        return fmax(0, kernel->bytes - family->near_bytes);
    default:
        return 1;
    }
}

/* Which coefficients the measurements can tell apart. */
static void choose_coefficients(const cleave_device_kind *kind, const measured_family *family,
                                bool use[N_COEFFICIENTS]) {
    double flops = 0, bytes = 0;
    for (int32_t i = 0; i < family->n; i++) {
        flops += family->kernels[i]->flops;
        bytes += family->kernels[i]->bytes;
    }
    use[LAUNCH] = family->n >= 3 || (flops <= 0 && bytes <= 0);
    use[PER_FLOP] = flops > 0;
    use[PER_BYTE] = bytes > 0;
    use[PER_FAR_BYTE] = family->near_bytes > 0;
    if (family->n < 3 && use[PER_FLOP] && use[PER_BYTE]) {
        const cleave_efficiency *of = kind->efficiency;
        bool by_flops =
            flops /
                (kind->flops_per_second * cleave_efficiency_most(of, CLEAVE_EFFICIENCY_PRODUCT)) >
            bytes / (kind->bytes_per_second * cleave_efficiency_most(of, CLEAVE_EFFICIENCY_MEMORY));
        use[by_flops ? PER_BYTE : PER_FLOP] = false;
    }
}

/* The coefficients alone; `off`: the sum that is least, may be null. */
static cleave_status solve_family(const cleave_device_kind *kind, const measured_family *family,
                                  cleave_arena *scratch, cleave_family_fit *fit, double *off,
                                  cleave_error *error) {
    const double lower[N_COEFFICIENTS] = {0};
    double upper[N_COEFFICIENTS], scale[N_COEFFICIENTS] = {0}, x[N_COEFFICIENTS];
    bool use[N_COEFFICIENTS];
    double *features = CLEAVE_ARENA_ARRAY(scratch, double, N_COEFFICIENTS *(size_t)family->n);
    if (features == NULL)
        return cleave_fail_memory(error, "fitting kernel times");
    choose_coefficients(kind, family, use);
    for (int c = 0; c < N_COEFFICIENTS; c++) {
        for (int32_t i = 0; i < family->n; i++)
            scale[c] = fmax(scale[c],
                            feature(family, family->kernels[i], c) / family->kernels[i]->seconds);
        if (scale[c] <= 0)
            scale[c] = 1;
        for (int32_t i = 0; i < family->n; i++)
            features[N_COEFFICIENTS * i + c] =
                feature(family, family->kernels[i], c) / family->kernels[i]->seconds / scale[c];
        upper[c] = use[c] ? INFINITY : 0;
    }
    const cleave_least_deviations measured = {.of = family->name,
                                              .n = family->n,
                                              .n_figures = N_COEFFICIENTS,
                                              .features = features,
                                              .lower = lower,
                                              .upper = upper};
    CLEAVE_TRY(cleave_least_deviations_solve(&measured, x, off, error));
    *fit = (cleave_family_fit){.family = family->name,
                               .launch_seconds = fmax(0, x[LAUNCH] / scale[LAUNCH]),
                               .seconds_per_flop = fmax(0, x[PER_FLOP] / scale[PER_FLOP]),
                               .seconds_per_byte = fmax(0, x[PER_BYTE] / scale[PER_BYTE]),
                               .near_bytes = family->near_bytes};
    if (family->near_bytes > 0)
        fit->far_seconds_per_byte =
            fit->seconds_per_byte + fmax(0, x[PER_FAR_BYTE] / scale[PER_FAR_BYTE]);
    return CLEAVE_OK;
}

/* How far a fit of the others is off at the kernels of one fold: every n_folds-th, from `fold`. */
static cleave_status try_fold(const cleave_device_kind *kind, const measured_family *family,
                              int32_t n_folds, int32_t fold, double *deviation,
                              cleave_error *error) {
    cleave_arena scratch = {0};
    measured_family others = *family;
    others.n = 0;
    others.kernels = CLEAVE_ARENA_ARRAY(&scratch, const cleave_kernel_time *, family->n);
    cleave_likened *likened = CLEAVE_ARENA_ARRAY(&scratch, cleave_likened, family->n);
    cleave_family_fit fit;
    if (others.kernels == NULL || likened == NULL)
        return cleave_fail_memory(error, "fitting kernel times");
    for (int32_t i = 0; i < family->n; i++)
        if (i % n_folds != fold)
            others.kernels[others.n++] = family->kernels[i];
    cleave_status status = solve_family(kind, &others, &scratch, &fit, NULL, error);
    for (int32_t i = 0; i < others.n && status == CLEAVE_OK; i++)
        likened[i] = cleave_liken(others.kernels[i], &fit);
    for (int32_t i = fold; i < family->n && status == CLEAVE_OK; i += n_folds) {
        const cleave_kernel_time *kernel = family->kernels[i];
        cleave_likeness of = cleave_likeness_read(kernel->key);
        double fitted = cleave_family_fit_seconds(&fit, kernel->flops, kernel->bytes) *
                        cleave_likeness_correction(likened, others.n, &of);
        deviation[i] = fabs(fitted / kernel->seconds - 1);
    }
    cleave_arena_free(&scratch);
    return status;
}

/* By cross-validation: at the kernels that it was made of a fit is nearer than at any other, and at
   three or fewer it is exact. */
static cleave_status find_spread(const cleave_device_kind *kind, const measured_family *family,
                                 cleave_arena *scratch, double *spread, cleave_error *error) {
    int32_t n_folds = family->n < MAX_FOLDS ? family->n : MAX_FOLDS;
    double *deviation = CLEAVE_ARENA_ARRAY(scratch, double, family->n);
    if (deviation == NULL)
        return cleave_fail_memory(error, "fitting kernel times");
    *spread = 1;
    if (family->n == 1)
        return CLEAVE_OK;
    for (int32_t fold = 0; fold < n_folds; fold++)
        CLEAVE_TRY(try_fold(kind, family, n_folds, fold, deviation, error));
    *spread = cleave_median(deviation, family->n);
    return CLEAVE_OK;
}

/* Copies and their kin are one thing at several sizes. */
static bool moves_bytes(const measured_family *family) {
    double flops = 0;
    for (int32_t i = 0; i < family->n; i++)
        flops += family->kernels[i]->flops;
    return flops <= 0 || strcmp(family->name, "copy rows") == 0;
}

/* How much of its time a kernel takes alone. */
typedef struct alone_share {
    double share;
    double seconds, spread; /* beside others */
} alone_share;

static int compare_shares(const void *a, const void *b) {
    const alone_share *x = a, *y = b;
    return CLEAVE_ORDER(x->share, y->share);
}

/* The median of n shares in order.  Measuring finds some kernels slower alone, which none is; so
   where that is noise alone the median is below 1 as often as not, and what it is below is counted
   only as far as it is more than the median's standard error, of sqrt(n) / 2 places among n. */
static double share_by_number(const alone_share *of, int32_t n) {
    int32_t place = (int32_t)ceil((n - 1) / 2.0 + sqrt(n) / 2);
    return of[place < n ? place : n - 1].share;
}

/* The share below which half of the time is spent, as far as it is below 1 by more than kernels
   vary from repeat to repeat.  Half of the sizes at which bytes are moved take next to no time and
   find all in a cache, where nobody is in their way, so that the median of their number says
   nothing of the others; nor is there more than one of the largest. */
static double share_by_time(const alone_share *of, int32_t n) {
    double all = 0, squares = 0, below = 0;
    for (int32_t i = 0; i < n; i++) {
        double varies = of[i].seconds * of[i].spread;
        all += of[i].seconds;
        squares += varies * varies;
    }
    int32_t at = 0;
    for (; at + 1 < n && below + of[at].seconds < all / 2; at++)
        below += of[at].seconds;
    return of[at].share + sqrt(squares) / all;
}

/* How much quicker the family's kernels are alone: over those of which it is known, since one of
   them says little. */
static cleave_status find_alone(const measured_family *family, cleave_arena *scratch, double *alone,
                                cleave_error *error) {
    int32_t n = 0;
    alone_share *shares = CLEAVE_ARENA_ARRAY(scratch, alone_share, family->n);
    if (shares == NULL)
        return cleave_fail_memory(error, "fitting kernel times");
    for (int32_t i = 0; i < family->n; i++) {
        const cleave_kernel_time *of = family->kernels[i];
        if (of->alone_seconds > 0)
            shares[n++] = (alone_share){of->alone_seconds / of->seconds, of->seconds, of->spread};
    }
    if (n == 0)
        return CLEAVE_OK;
    CLEAVE_SORT(shares, n, compare_shares);
    *alone = fmin(1, moves_bytes(family) ? share_by_time(shares, n) : share_by_number(shares, n));
    return CLEAVE_OK;
}

/* Sets how many bytes are near, where telling them from the rest is worth it. */
static cleave_status find_near(const cleave_device_kind *kind, measured_family *family,
                               cleave_arena *scratch, cleave_error *error) {
    double least, near_bytes = 0, most = 0;
    cleave_family_fit tried;
    for (int32_t i = 0; i < family->n; i++)
        most = fmax(most, family->kernels[i]->bytes);
    if (family->n < FEWEST_FOR_FAR || !moves_bytes(family))
        return CLEAVE_OK;
    CLEAVE_TRY(solve_family(kind, family, scratch, &tried, &least, error));
    least *= worth_a_coefficient;
    for (int32_t i = 0; i < family->n; i += 1 + family->n / MOST_NEAR_TRIED) {
        double off;
        family->near_bytes = family->kernels[i]->bytes;
        if (family->near_bytes <= 0 || family->near_bytes >= most)
            continue;
        CLEAVE_TRY(solve_family(kind, family, scratch, &tried, &off, error));
        if (off < least) {
            least = off;
            near_bytes = family->near_bytes;
        }
    }
    family->near_bytes = near_bytes;
    return CLEAVE_OK;
}

static cleave_status fit_family(const cleave_device_kind *kind, measured_family *family,
                                cleave_arena *scratch, cleave_family_fit *fit,
                                cleave_error *error) {
    CLEAVE_TRY(find_near(kind, family, scratch, error));
    CLEAVE_TRY(solve_family(kind, family, scratch, fit, NULL, error));
    CLEAVE_TRY(find_spread(kind, family, scratch, &fit->spread, error));
    CLEAVE_TRY(find_alone(family, scratch, &fit->alone, error));
    for (int32_t k = 0; k < kind->n_kernels; k++) {
        const cleave_kernel_time *kernel = &kind->kernels[k];
        if (strcmp(kernel->family, family->name) != 0)
            continue;
        fit->largest_bytes = fmax(fit->largest_bytes, kernel->bytes);
        if (kernel->workspace_bytes > fit->workspace_bytes)
            fit->workspace_bytes = kernel->workspace_bytes;
    }
    return CLEAVE_OK;
}

static int compare_families(const void *a, const void *b) {
    const cleave_kernel_time *x = *(const cleave_kernel_time *const *)a;
    const cleave_kernel_time *y = *(const cleave_kernel_time *const *)b;
    int order = strcmp(x->family, y->family);
    return order != 0 ? order : strcmp(x->key, y->key);
}

/* `sorted`: the n timed kernels, by family. */
static cleave_status fit_all(cleave_device_kind *kind, const cleave_kernel_time **sorted, int32_t n,
                             cleave_arena *arena, cleave_arena *scratch, cleave_error *error) {
    cleave_family_fit *fits = CLEAVE_ARENA_ARRAY(arena, cleave_family_fit, n);
    if (fits == NULL)
        return cleave_fail_memory(error, "fitting kernel times");
    int32_t n_fits = 0;
    for (int32_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n; end++)
            if (strcmp(sorted[end]->family, sorted[first]->family) != 0)
                break;
        measured_family family = {sorted[first]->family, end - first, sorted + first, 0};
        CLEAVE_TRY(fit_family(kind, &family, scratch, &fits[n_fits], error));
        n_fits++;
    }
    kind->fits = fits;
    kind->n_fits = n_fits;
    return cleave_device_kind_liken(kind, arena, error);
}

cleave_status cleave_device_kind_fit(cleave_device_kind *kind, cleave_arena *arena,
                                     cleave_error *error) {
    cleave_arena scratch = {0};
    const cleave_kernel_time **sorted =
        CLEAVE_ARENA_ARRAY(&scratch, const cleave_kernel_time *, kind->n_kernels);
    cleave_status status;
    if (sorted == NULL) {
        status = cleave_fail_memory(error, "fitting kernel times");
    } else {
        int32_t n = 0;
        for (int32_t i = 0; i < kind->n_kernels; i++)
            if (kind->kernels[i].seconds > 0)
                sorted[n++] = &kind->kernels[i];
        CLEAVE_SORT(sorted, n, compare_families);
        status = fit_all(kind, sorted, n, arena, &scratch, error);
    }
    cleave_arena_free(&scratch);
    return status;
}
