/* The only home of oneDNN's headers.

   Activations are given to oneDNN as they lie (channels last).  Weights lie in the tensor's own
   order and are brought into the format that the primitive likes best at every call, or its result
   back from it: they are small beside the convolution. */
#include "exec/kernels/onednn.h"

#if defined __x86_64__
#include <cpuid.h>
#endif
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

/* A compiled convolution of x and weights w, or product of bf16 matrices x and w; y is the result.
   Of a convolution's weights alone there is a second memory, and a reorder. */
typedef struct compiled {
    union {
        cleave_convolution convolution;
        cleave_bf16_product product;
    } key;
    size_t key_bytes; /* which of the two it is */
    bool possible;
    dnnl_primitive_t primitive, reorder; /* reorder: null where the weights are used as they lie */
    dnnl_memory_t x, y, plain_w, w, scratch, reorder_scratch;
    int64_t own_bytes; /* of the weights in the primitive's format, */
    int64_t w_bytes;   /* 0 where they are used as they lie */
    int64_t scratch_bytes, reorder_bytes;
    dnnl_memory_desc_t own;
    struct compiled *next; /* of the same bucket */
} compiled;

enum { N_BUCKETS = 256 };

struct cleave_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    compiled *buckets[N_BUCKETS];
};

/* OpenMP's own call, found where the library that oneDNN brought has it; without OpenMP there is
   nothing to set. */
static void use_one_thread(void) {
    void *program = dlopen(NULL, RTLD_NOW);
    if (program == NULL)
        return;
    void (*set_threads)(int) = NULL;
    void *found = dlsym(program, "omp_set_num_threads");
    memcpy(&set_threads, &found, sizeof found);
    if (set_threads != NULL)
        set_threads(1);
    dlclose(program);
}

cleave_status cleave_onednn_create(cleave_onednn **onednn, cleave_error *error) {
    cleave_onednn *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "starting oneDNN");
    use_one_thread();
    if (dnnl_engine_create(&made->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&made->stream, made->engine, dnnl_stream_default_flags) !=
            dnnl_success) {
        cleave_onednn_destroy(made);
        return cleave_fail(error, CLEAVE_FAILED, "oneDNN has no engine for this processor");
    }
    *onednn = made;
    return CLEAVE_OK;
}

static void destroy_compiled(compiled *one) {
    dnnl_memory_t memories[] = {one->x, one->y,       one->plain_w,
                                one->w, one->scratch, one->reorder_scratch};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i] != NULL)
            dnnl_memory_destroy(memories[i]);
    if (one->primitive != NULL)
        dnnl_primitive_destroy(one->primitive);
    if (one->reorder != NULL)
        dnnl_primitive_destroy(one->reorder);
    free(one);
}

void cleave_onednn_destroy(cleave_onednn *onednn) {
    if (onednn == NULL)
        return;
    for (int b = 0; b < N_BUCKETS; b++)
        for (compiled *one = onednn->buckets[b], *next; one != NULL; one = next) {
            next = one->next;
            destroy_compiled(one);
        }
    if (onednn->stream != NULL)
        dnnl_stream_destroy(onednn->stream);
    if (onednn->engine != NULL)
        dnnl_engine_destroy(onednn->engine);
    free(onednn);
}

static dnnl_data_type_t type_of(int64_t half) { return half ? dnnl_bf16 : dnnl_f32; }

/* The three operands as oneDNN describes them: as they lie, and weights in any format. */
typedef struct descriptions {
    dnnl_memory_desc_t x, y, plain_w, any_w;
} descriptions;

static bool describe(const cleave_convolution *c, descriptions *d) {
    int n_spatial = (int)c->n_spatial, rank = 2 + n_spatial;
    dnnl_dims_t x = {c->batch, c->groups * c->c}, y = {c->batch, c->groups * c->k},
                w = {c->groups, c->k, c->c}, x_stride = {0}, y_stride = {0}, w_stride = {0};
    for (int s = 0; s < n_spatial; s++) {
        x[2 + s] = c->in[s];
        y[2 + s] = c->out[s];
        w[3 + s] = c->window[s];
    }
    for (int i = 0; i < rank; i++) {
        x_stride[i] = c->x_stride[i];
        y_stride[i] = c->y_stride[i];
    }
    for (int i = 0; i < rank + 1; i++)
        w_stride[i] = c->w_stride[i];
    int skip = c->groups == 1 ? 1 : 0; /* ungrouped weights have no dimension of groups */
    dnnl_data_type_t x_type = type_of(c->half_x), w_type = type_of(c->half_w),
                     y_type = type_of(c->half_y);
    return dnnl_memory_desc_init_by_strides(&d->x, rank, x, x_type, x_stride) == dnnl_success &&
           dnnl_memory_desc_init_by_strides(&d->y, rank, y, y_type, y_stride) == dnnl_success &&
           dnnl_memory_desc_init_by_strides(&d->plain_w, rank + 1 - skip, w + skip, w_type,
                                            w_stride + skip) == dnnl_success &&
           dnnl_memory_desc_init_by_tag(&d->any_w, rank + 1 - skip, w + skip, w_type,
                                        dnnl_format_tag_any) == dnnl_success;
}

/* How the window moves. */
typedef struct movement {
    dnnl_dims_t stride, dilation, pad_lo, pad_hi;
} movement;

static movement describe_movement(const cleave_convolution *c) {
    movement m = {{0}, {0}, {0}, {0}};
    for (int s = 0; s < CLEAVE_MAX_SPATIAL; s++) {
        m.stride[s] = c->stride[s];
        m.dilation[s] = c->dilation[s] - 1; /* oneDNN counts the holes */
        m.pad_lo[s] = c->pad_lo[s];
        m.pad_hi[s] = c->pad_hi[s];
    }
    return m;
}

/* The forward that a backward belongs to, whose operands are all of one type. */
static descriptions forward_of(const cleave_convolution *c, const descriptions *d) {
    descriptions of = *d;
    if (c->half_x || c->half_w || c->half_y)
        of.x.data_type = of.y.data_type = of.any_w.data_type = dnnl_bf16;
    return of;
}

/* Backward is described beside a forward that it belongs to. */
static dnnl_primitive_desc_t describe_convolution(const cleave_onednn *onednn,
                                                  const cleave_convolution *c,
                                                  const descriptions *d,
                                                  dnnl_primitive_attr_t attributes) {
    movement m = describe_movement(c);
    bool forward = c->pass == CLEAVE_CONVOLUTION_FORWARD;
    descriptions hint = forward ? *d : forward_of(c, d);
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t first = NULL, result = NULL;
    if (dnnl_dilated_convolution_forward_desc_init(
            &desc, forward ? dnnl_forward_inference : dnnl_forward_training,
            dnnl_convolution_direct, &hint.x, &hint.any_w, NULL, &hint.y, m.stride, m.dilation,
            m.pad_lo, m.pad_hi) != dnnl_success ||
        dnnl_primitive_desc_create(&first, &desc, attributes, onednn->engine, NULL) != dnnl_success)
        return NULL;
    if (forward)
        return first;
    dnnl_status_t status = c->pass == CLEAVE_CONVOLUTION_BACKWARD_DATA
                               ? dnnl_dilated_convolution_backward_data_desc_init(
                                     &desc, dnnl_convolution_direct, &d->x, &d->any_w, &d->y,
                                     m.stride, m.dilation, m.pad_lo, m.pad_hi)
                               : dnnl_dilated_convolution_backward_weights_desc_init(
                                     &desc, dnnl_convolution_direct, &d->x, &d->any_w, NULL, &d->y,
                                     m.stride, m.dilation, m.pad_lo, m.pad_hi);
    if (status != dnnl_success || dnnl_primitive_desc_create(&result, &desc, attributes,
                                                             onednn->engine, first) != dnnl_success)
        result = NULL;
    dnnl_primitive_desc_destroy(first);
    return result;
}

/* A memory object without memory: that is given at every call. */
static bool make_memory(const cleave_onednn *onednn, const dnnl_memory_desc_t *desc,
                        dnnl_memory_t *memory) {
    return dnnl_memory_create(memory, desc, onednn->engine, DNNL_MEMORY_NONE) == dnnl_success;
}

static int64_t rounded(size_t bytes) {
    return (int64_t)((bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

/* The primitive of a description, and memory for its scratch. */
static bool make_primitive(const cleave_onednn *onednn, dnnl_primitive_desc_t desc,
                           dnnl_primitive_t *primitive, dnnl_memory_t *scratch, int64_t *bytes) {
    const dnnl_memory_desc_t *of = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    *bytes = rounded(dnnl_memory_desc_get_size(of));
    return make_memory(onednn, of, scratch) &&
           dnnl_primitive_create(primitive, desc) == dnnl_success;
}

/* Between the weights as they lie and the primitive's own format, where the two differ. */
static bool compile_reorder(const cleave_onednn *onednn, compiled *one,
                            const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *own,
                            dnnl_primitive_attr_t attributes) {
    one->own = *own;
    one->own_bytes = rounded(dnnl_memory_desc_get_size(own));
    if (!make_memory(onednn, own, &one->w))
        return false;
    if (dnnl_memory_desc_equal(plain, own))
        return true;
    bool back = one->key.convolution.pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS;
    dnnl_primitive_desc_t desc = NULL;
    if (!make_memory(onednn, plain, &one->plain_w) ||
        dnnl_reorder_primitive_desc_create(&desc, back ? own : plain, onednn->engine,
                                           back ? plain : own, onednn->engine,
                                           attributes) != dnnl_success)
        return false;
    one->w_bytes = one->own_bytes;
    bool done =
        make_primitive(onednn, desc, &one->reorder, &one->reorder_scratch, &one->reorder_bytes);
    dnnl_primitive_desc_destroy(desc);
    return done;
}

static bool compile_convolution(const cleave_onednn *onednn, compiled *one) {
    const cleave_convolution *c = &one->key.convolution;
    bool back = c->pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS;
    descriptions d;
    dnnl_primitive_attr_t attributes = NULL;
    if (!describe(c, &d) || dnnl_primitive_attr_create(&attributes) != dnnl_success)
        return false;
    dnnl_primitive_desc_t desc = NULL;
    if (dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user) ==
        dnnl_success)
        desc = describe_convolution(onednn, c, &d, attributes);
    bool done =
        desc != NULL && make_memory(onednn, &d.x, &one->x) && make_memory(onednn, &d.y, &one->y) &&
        compile_reorder(onednn, one, &d.plain_w,
                        dnnl_primitive_desc_query_md(
                            desc, back ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0),
                        attributes) &&
        make_primitive(onednn, desc, &one->primitive, &one->scratch, &one->scratch_bytes);
    if (desc != NULL)
        dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_attr_destroy(attributes);
    return done;
}

/* FNV-1a over the bytes of the key. */
static uint32_t bucket_of(const void *key, size_t n) {
    const unsigned char *bytes = key;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)(hash >> 32) % N_BUCKETS;
}

/* What is compiled for this key, by `compile` if it is not there yet; null where oneDNN has none of
   this shape, or memory is short. */
static compiled *find(cleave_onednn *onednn, const void *key, size_t key_bytes,
                      bool (*compile)(const cleave_onednn *, compiled *)) {
    compiled **bucket = &onednn->buckets[bucket_of(key, key_bytes)], *one = *bucket;
    while (one != NULL && (one->key_bytes != key_bytes || memcmp(&one->key, key, key_bytes) != 0))
        one = one->next;
    if (one == NULL && (one = calloc(1, sizeof *one)) != NULL) {
        memcpy(&one->key, key, key_bytes);
        one->key_bytes = key_bytes;
        one->possible = compile(onednn, one);
        one->next = *bucket;
        *bucket = one;
    }
    return one != NULL && one->possible ? one : NULL;
}

static compiled *find_convolution(cleave_onednn *onednn, const cleave_convolution *key) {
    return find(onednn, key, sizeof *key, compile_convolution);
}

/* The workspace: weights in the primitive's format, where they don't lie so; what one piece adds to
   their gradient; scratch.  That of the reorder and that of the convolution are never needed at
   once. */
static int64_t bytes_of_piece(const compiled *one, bool cut) {
    return cut && one->key.convolution.pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS ? one->own_bytes
                                                                                   : 0;
}

int64_t cleave_onednn_convolution_workspace(cleave_onednn *onednn,
                                            const cleave_convolution *convolution, bool cut) {
    const compiled *one = find_convolution(onednn, convolution);
    if (one == NULL)
        return -1;
    int64_t scratch =
        one->scratch_bytes > one->reorder_bytes ? one->scratch_bytes : one->reorder_bytes;
    return one->w_bytes + bytes_of_piece(one, cut) + scratch;
}

bool cleave_onednn_same_weights(cleave_onednn *onednn, const cleave_convolution *a,
                                const cleave_convolution *b) {
    const compiled *x = find_convolution(onednn, a), *y = find_convolution(onednn, b);
    return x != NULL && y != NULL && dnnl_memory_desc_equal(&x->own, &y->own) != 0;
}

static cleave_status fail(cleave_error *error) {
    return cleave_fail(error, CLEAVE_FAILED, "oneDNN failed in a convolution");
}

cleave_status cleave_onednn_convolution_reorder(cleave_onednn *onednn,
                                                const cleave_convolution *convolution, void *w,
                                                void *workspace, cleave_error *error) {
    const compiled *one = find_convolution(onednn, convolution);
    if (one == NULL)
        return fail(error);
    if (one->reorder == NULL)
        return CLEAVE_OK;
    bool back = convolution->pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS;
    dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, back ? one->w : one->plain_w},
                                   {DNNL_ARG_TO, back ? one->plain_w : one->w},
                                   {DNNL_ARG_SCRATCHPAD, one->reorder_scratch}};
    bool done =
        dnnl_memory_set_data_handle(one->w, workspace) == dnnl_success &&
        dnnl_memory_set_data_handle(one->plain_w, w) == dnnl_success &&
        dnnl_memory_set_data_handle(one->reorder_scratch, (char *)workspace + one->w_bytes) ==
            dnnl_success &&
        dnnl_primitive_execute(one->reorder, onednn->stream, 3, arguments) == dnnl_success &&
        dnnl_stream_wait(onednn->stream) == dnnl_success;
    return done ? CLEAVE_OK : fail(error);
}

static bool run_convolution(const cleave_onednn *onednn, const compiled *one) {
    const int64_t pass = one->key.convolution.pass;
    bool forward = pass == CLEAVE_CONVOLUTION_FORWARD,
         back = pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS;
    dnnl_exec_arg_t arguments[] = {{forward || back ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC, one->x},
                                   {back ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, one->w},
                                   {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, one->y},
                                   {DNNL_ARG_SCRATCHPAD, one->scratch}};
    return dnnl_primitive_execute(one->primitive, onednn->stream, 4, arguments) == dnnl_success &&
           dnnl_stream_wait(onednn->stream) == dnnl_success;
}

/* A convolution that needs no workspace may have none. */
static char *place_behind(void *from, int64_t bytes) {
    return bytes > 0 ? (char *)from + bytes : from;
}

cleave_status cleave_onednn_convolution_run(cleave_onednn *onednn,
                                            const cleave_convolution *convolution,
                                            cleave_convolution_arrays arrays,
                                            cleave_convolution_place place, cleave_error *error) {
    const compiled *one = find_convolution(onednn, convolution);
    if (one == NULL)
        return cleave_fail(error, CLEAVE_FAILED, "oneDNN has no convolution of this shape");
    char *own = one->w_bytes > 0 ? arrays.workspace : arrays.w;
    char *piece = place_behind(arrays.workspace, one->w_bytes);
    char *scratch = place_behind(piece, bytes_of_piece(one, place != CLEAVE_CONVOLUTION_WHOLE));
    bool adds = place == CLEAVE_CONVOLUTION_LATER_PIECE &&
                convolution->pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS;
    bool done = dnnl_memory_set_data_handle(one->x, arrays.x) == dnnl_success &&
                dnnl_memory_set_data_handle(one->y, arrays.y) == dnnl_success &&
                dnnl_memory_set_data_handle(one->w, adds ? piece : own) == dnnl_success &&
                dnnl_memory_set_data_handle(one->scratch, scratch) == dnnl_success &&
                run_convolution(onednn, one);
    if (!done)
        return fail(error);
    float *restrict sum = (float *)(void *)own;
    const float *restrict part = (const float *)(const void *)piece;
    size_t n = dnnl_memory_desc_get_size(&one->own) / sizeof(float);
    for (size_t i = 0; adds && i < n; i++)
        sum[i] += part[i];
    return CLEAVE_OK;
}

cleave_status cleave_onednn_multiply(const cleave_blas_product *p, cleave_error *error) {
    dnnl_status_t status =
        dnnl_sgemm(p->a_transposed ? 'T' : 'N', p->b_transposed ? 'T' : 'N', p->m, p->n, p->k,
                   p->alpha, p->a, p->a_row, p->b, p->b_row, p->beta, p->c, p->c_row);
    return status == dnnl_success
               ? CLEAVE_OK
               : cleave_fail(error, CLEAVE_FAILED,
                             "oneDNN failed in a matrix product of %lld x %lld x %lld",
                             (long long)p->m, (long long)p->n, (long long)p->k);
}

/* Intel's cores from AVX512_FP16 on have AMX for bf16, and do the products of AVX512_BF16 at a
   quarter of the rate of FMA, which is half of its flops. */
static bool has_slow_avx512_bf16(void) {
#if defined __x86_64__
    enum { FEATURES = 7, AVX512_FP16 = 1 << 23 };
    unsigned a, b, c, d; /* not every compiler knows the feature by name */
    return __builtin_cpu_is("intel") && __get_cpuid_count(FEATURES, 0, &a, &b, &c, &d) != 0 &&
           (d & AVX512_FP16) != 0;
#else
    return false;
#endif
}

static bool has_isa(dnnl_cpu_isa_t isa) { return (dnnl_get_effective_cpu_isa() & isa) == isa; }

bool cleave_onednn_multiplies_bf16(void) {
    return has_isa(dnnl_cpu_isa_avx512_core_amx) ||
           (has_isa(dnnl_cpu_isa_avx512_core_bf16) && !has_slow_avx512_bf16());
}

/* A matrix as it lies, or as it lies transposed. */
static bool describe_matrix(int64_t rows, int64_t columns, int64_t row, bool transposed,
                            dnnl_data_type_t type, dnnl_memory_desc_t *desc) {
    dnnl_dims_t dims = {rows, columns}, strides = {transposed ? 1 : row, transposed ? row : 1};
    return dnnl_memory_desc_init_by_strides(desc, 2, dims, type, strides) == dnnl_success;
}

static bool set_attributes(const cleave_bf16_product *key, dnnl_primitive_attr_t attributes) {
    float alpha = (float)key->alpha;
    dnnl_post_ops_t after;
    if (dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user) !=
            dnnl_success ||
        dnnl_primitive_attr_set_output_scales(attributes, 1, 0, &alpha) != dnnl_success ||
        dnnl_post_ops_create(&after) != dnnl_success)
        return false;
    bool done = (!key->adds || dnnl_post_ops_append_sum(after, 1) == dnnl_success) &&
                dnnl_primitive_attr_set_post_ops(attributes, after) == dnnl_success;
    dnnl_post_ops_destroy(after);
    return done;
}

static bool compile_product(const cleave_onednn *onednn, compiled *one) {
    const cleave_bf16_product *p = &one->key.product;
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t desc = NULL;
    if (!describe_matrix(p->m, p->k, p->a_row, p->a_transposed != 0, dnnl_bf16, &a) ||
        !describe_matrix(p->k, p->n, p->b_row, p->b_transposed != 0, dnnl_bf16, &b) ||
        !describe_matrix(p->m, p->n, p->c_row, false, type_of(!p->exact), &c) ||
        dnnl_matmul_desc_init(&matmul, &a, &b, NULL, &c) != dnnl_success ||
        dnnl_primitive_attr_create(&attributes) != dnnl_success)
        return false;
    bool done = make_memory(onednn, &a, &one->x) && make_memory(onednn, &b, &one->w) &&
                make_memory(onednn, &c, &one->y) && set_attributes(p, attributes) &&
                dnnl_primitive_desc_create(&desc, &matmul, attributes, onednn->engine, NULL) ==
                    dnnl_success &&
                make_primitive(onednn, desc, &one->primitive, &one->scratch, &one->scratch_bytes);
    if (desc != NULL)
        dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_attr_destroy(attributes);
    return done;
}

static compiled *find_product(cleave_onednn *onednn, const cleave_bf16_product *key) {
    return find(onednn, key, sizeof *key, compile_product);
}

int64_t cleave_onednn_bf16_workspace(cleave_onednn *onednn, const cleave_bf16_product *product) {
    const compiled *one = find_product(onednn, product);
    return one != NULL ? one->scratch_bytes : -1;
}

cleave_status cleave_onednn_bf16_multiply(cleave_onednn *onednn, const cleave_bf16_product *product,
                                          const void *a, const void *b, void *c, void *workspace,
                                          cleave_error *error) {
    const compiled *one = find_product(onednn, product);
    bool done = one != NULL;
    if (done) {
        dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, one->x},
                                       {DNNL_ARG_WEIGHTS, one->w},
                                       {DNNL_ARG_DST, one->y},
                                       {DNNL_ARG_SCRATCHPAD, one->scratch}};
        /* It reads the first two, and its handles are of what may be written. */
        done =
            dnnl_memory_set_data_handle(one->x, (void *)(uintptr_t)a) == dnnl_success &&
            dnnl_memory_set_data_handle(one->w, (void *)(uintptr_t)b) == dnnl_success &&
            dnnl_memory_set_data_handle(one->y, c) == dnnl_success &&
            dnnl_memory_set_data_handle(one->scratch, workspace) == dnnl_success &&
            dnnl_primitive_execute(one->primitive, onednn->stream, 4, arguments) == dnnl_success &&
            dnnl_stream_wait(onednn->stream) == dnnl_success;
    }
    return done ? CLEAVE_OK
                : cleave_fail(error, CLEAVE_FAILED,
                              "oneDNN failed in a bf16 product of %lld x %lld x %lld",
                              (long long)product->m, (long long)product->n, (long long)product->k);
}
