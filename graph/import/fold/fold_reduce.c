/* Reductions and scans of constants. */
#include "graph/import/fold/fold.h"
#include "graph/import/operators/reduce.h"

#include <math.h>
#include <string.h>

/* Element of the result that element i of the input goes to. */
static int64_t output_index(const cleave_onnx_tensor *data, const cleave_reduction *r, int64_t i) {
    int64_t at = 0, stride = 1;
    for (int d = data->rank - 1; d >= 0; d--) {
        if (!cleave_reduces(r, d)) {
            at += i % data->shape[d] * stride;
            stride *= data->shape[d];
        }
        i /= data->shape[d];
    }
    return at;
}

static long double start_of(cleave_reduction_kind kind) {
    switch (kind) {
    case CLEAVE_REDUCTION_MAX:
    case CLEAVE_REDUCTION_ARG_MAX:
        return -INFINITY;
    case CLEAVE_REDUCTION_MIN:
    case CLEAVE_REDUCTION_ARG_MIN:
        return INFINITY;
    case CLEAVE_REDUCTION_PROD:
        return 1;
    default:
        return 0;
    }
}

/* Exponents of long double reach so far that a logarithm of a sum of them needs no shift for most
   inputs; the ends of f32 are beyond it, so there is one, `shift`. */
static long double accumulate(cleave_reduction_kind kind, long double so_far, long double x,
                              long double shift) {
    switch (kind) {
    case CLEAVE_REDUCTION_MAX:
    case CLEAVE_REDUCTION_ARG_MAX:
        return x > so_far ? x : so_far;
    case CLEAVE_REDUCTION_MIN:
    case CLEAVE_REDUCTION_ARG_MIN:
        return x < so_far ? x : so_far;
    case CLEAVE_REDUCTION_PROD:
        return so_far * x;
    case CLEAVE_REDUCTION_L1:
        return so_far + fabsl(x);
    case CLEAVE_REDUCTION_L2:
    case CLEAVE_REDUCTION_SUM_SQUARE:
        return so_far + x * x;
    case CLEAVE_REDUCTION_LOG_SUM_EXP:
        return so_far + expl(x - shift);
    default:
        return so_far + x;
    }
}

static long double finish(const cleave_reduction *r, long double sum, long double shift) {
    switch (r->kind) {
    case CLEAVE_REDUCTION_MEAN:
        return sum / (long double)r->count;
    case CLEAVE_REDUCTION_L2:
        return sqrtl(sum);
    case CLEAVE_REDUCTION_LOG_SUM:
        return logl(sum);
    case CLEAVE_REDUCTION_LOG_SUM_EXP:
        return logl(sum) + shift;
    default:
        return sum;
    }
}

static void reduce(const cleave_onnx_tensor *data, const cleave_reduction *r,
                   cleave_reduction_kind kind, const long double *shift, int64_t n,
                   long double *result) {
    for (int64_t k = 0; k < n; k++)
        result[k] = start_of(kind);
    for (int64_t i = 0; i < data->n; i++) {
        int64_t to = output_index(data, r, i);
        result[to] = accumulate(kind, result[to], cleave_fold_read(data, i),
                                shift != NULL && isfinite(shift[to]) ? shift[to] : 0);
    }
}

cleave_status cleave_fold_reduce(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    cleave_reduction r;
    cleave_folded out;
    long double *shift = NULL;
    CLEAVE_TRY(cleave_reduction_read(im, data->rank, data->shape, &r));
    if (r.is_identity)
        return cleave_fold_deliver(im, 0, data);
    CLEAVE_TRY(cleave_fold_new(im, data->type, r.out_rank, r.out_shape, &out));
    long double *sums = CLEAVE_ARENA_ARRAY(&im->scratch, long double, out.tensor.n);
    if (sums == NULL)
        return cleave_import_no_memory(im);
    if (r.kind == CLEAVE_REDUCTION_LOG_SUM_EXP) {
        shift = CLEAVE_ARENA_ARRAY(&im->scratch, long double, out.tensor.n);
        if (shift == NULL)
            return cleave_import_no_memory(im);
        reduce(data, &r, CLEAVE_REDUCTION_MAX, NULL, out.tensor.n, shift);
    }
    reduce(data, &r, r.kind, shift, out.tensor.n, sums);
    for (int64_t k = 0; k < out.tensor.n; k++)
        CLEAVE_TRY(cleave_fold_write(
            im, &out, k, finish(&r, sums[k], shift != NULL && isfinite(shift[k]) ? shift[k] : 0)));
    return cleave_fold_deliver(im, 0, &out.tensor);
}

cleave_status cleave_fold_arg(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    cleave_reduction r;
    cleave_folded out;
    CLEAVE_TRY(cleave_reduction_read(im, data->rank, data->shape, &r));
    CLEAVE_TRY(cleave_fold_new(im, CLEAVE_ONNX_INT64, r.out_rank, r.out_shape, &out));
    long double *best = CLEAVE_ARENA_ARRAY(&im->scratch, long double, out.tensor.n);
    if (best == NULL)
        return cleave_import_no_memory(im);
    int axis = 0;
    while (!cleave_reduces(&r, axis))
        axis++;
    int64_t stride = cleave_shape_size(data->rank - axis - 1, data->shape + axis + 1);
    reduce(data, &r, r.kind, NULL, out.tensor.n, best);
    for (int64_t k = 0; k < data->n; k++) {
        int64_t i = r.last ? k : data->n - 1 - k; /* so that the one that counts comes last */
        int64_t to = output_index(data, &r, i);
        if (cleave_fold_read(data, i) == best[to])
            out.integers[to] = i / stride % data->shape[axis];
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}

cleave_status cleave_fold_cumsum(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    int64_t exclusive, reverse;
    double wanted;
    int axis;
    cleave_folded out;
    CLEAVE_TRY(cleave_import_integer(im, "exclusive", 0, &exclusive));
    CLEAVE_TRY(cleave_import_integer(im, "reverse", 0, &reverse));
    CLEAVE_TRY(cleave_import_scalar(im, 1, 0, &wanted));
    if (!(fabs(wanted) <= CLEAVE_MAX_RANK))
        return cleave_import_fail(im, "axis %g is outside the %d dimensions", wanted, data->rank);
    CLEAVE_TRY(cleave_import_axis(im, (int64_t)wanted, data->rank, &axis));
    CLEAVE_TRY(cleave_fold_new(im, data->type, data->rank, data->shape, &out));
    int64_t extent = data->shape[axis], rows = extent > 0 ? data->n / extent : 0;
    int64_t stride = cleave_shape_size(data->rank - axis - 1, data->shape + axis + 1);
    for (int64_t row = 0; row < rows; row++) {
        long double sum = 0;
        for (int64_t k = 0; k < extent; k++) {
            int64_t place = reverse != 0 ? extent - 1 - k : k;
            int64_t at = (row / stride * extent + place) * stride + row % stride;
            long double with = sum + cleave_fold_read(data, at);
            CLEAVE_TRY(cleave_fold_write(im, &out, at, exclusive != 0 ? sum : with));
            sum = with;
        }
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}

cleave_status cleave_fold_trilu(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    int64_t upper;
    double k;
    cleave_folded out;
    CLEAVE_TRY(cleave_import_integer(im, "upper", 1, &upper));
    CLEAVE_TRY(cleave_import_scalar(im, 1, 0, &k));
    if (data->rank < 2)
        return cleave_import_fail(im, "its input has rank %d, at least 2 is needed", data->rank);
    CLEAVE_TRY(cleave_fold_new(im, data->type, data->rank, data->shape, &out));
    int64_t columns = data->shape[data->rank - 1], rows = data->shape[data->rank - 2];
    for (int64_t i = 0; i < data->n; i++) {
        double beyond = (double)(i % columns - i / columns % rows) - k;
        if (upper != 0 ? beyond >= 0 : beyond <= 0)
            cleave_fold_copy(&out, i, data, i);
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}

/* [rank, n]: the indices of the elements that are not 0, in row-major order. */
cleave_status cleave_fold_nonzero(cleave_importer *im) {
    const cleave_onnx_tensor *data = cleave_import_constant(im, 0);
    int64_t shape[2] = {data->rank, 0}, at = 0;
    cleave_folded out;
    for (int64_t i = 0; i < data->n; i++)
        shape[1] += cleave_fold_read(data, i) != 0;
    CLEAVE_TRY(cleave_fold_new(im, CLEAVE_ONNX_INT64, 2, shape, &out));
    for (int64_t i = 0; i < data->n; i++) {
        int64_t rest = i;
        if (!(cleave_fold_read(data, i) != 0))
            continue;
        for (int d = data->rank - 1; d >= 0; d--) {
            out.integers[d * shape[1] + at] = rest % data->shape[d];
            rest /= data->shape[d];
        }
        at++;
    }
    return cleave_fold_deliver(im, 0, &out.tensor);
}
