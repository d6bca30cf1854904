/* The work of a compute item.  A key spells out what a kernel's time can depend on, from the nest
   and the local ranges alone:

       convolution input-gradient sum / n=32 k=64 h=55 w=55 c=3 r=11 s=11 /
   f32.0231[n,c,4h+r-2,4w+s-2] f32.0231p[k,c,r,s] > f32.0231[n,k,h,w] / gradient=1

   An operand is its type, its memory order, "p" for a parameter, and its map; a dimension whose box
   sticks out of the tensor says by how much at either end ("-2+1").  Offsets are not in it: where a
   part lies makes no difference beyond its padding.  Tapes are opcodes with registers.  Work that
   is cut into pieces says into how many.  A key that would be too long ends in a hash of the whole.
 */
#include "graph/program/work.h"

#include "base/random.h"
#include "graph/model/attention.h"
#include "graph/model/filled.h"
#include "graph/model/gather.h"
#include "graph/model/precision.h"
#include "graph/program/one_kernel.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const cleave_nest_kind_names[] = {"convolution", "product", "pool",   "moments",
                                              "pointwise",   "reduce",  "gather", "attention"};
static const double piece_bytes = 0x1p25;
/* Within what sockets hold, so that a link needn't wait. */
static const double copy_piece_bytes = 0x1p20;
static const cleave_kernel_share alone = CLEAVE_KERNEL_ALONE;
static const char *const combiner_names[] = {"", " sum", " max", " moments"};

typedef cleave_work_text text;

static void append(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(t->bytes + t->n, sizeof t->bytes - t->n, format, arguments);
    va_end(arguments);
    size_t room = sizeof t->bytes - t->n - 1, wanted = length > 0 ? (size_t)length : 0;
    t->n += wanted < room ? wanted : room;
}

static void append_dimension(text *t, const cleave_nest *nest, const cleave_dimension_map *map,
                             int64_t below, int64_t above) {
    for (int i = 0; i < map->n_terms; i++) {
        append(t, i > 0 ? "+" : "");
        if (map->terms[i].stride != 1)
            append(t, "%" PRId64, map->terms[i].stride);
        append(t, "%s", nest->axes[map->terms[i].axis].name);
    }
    if (map->n_terms == 0)
        append(t, ".");
    if (below > 0 || above > 0)
        append(t, "-%" PRId64 "+%" PRId64, below, above);
}

static void append_operand(text *t, const cleave_model *model, const cleave_nest *nest,
                           const cleave_operand *operand, cleave_type type,
                           const cleave_part *part) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    cleave_box raw;
    cleave_part_raw_box(part, operand, tensor->rank, &raw);
    append(t, " %s.", cleave_precision_name(type));
    for (int d = 0; d < tensor->rank; d++)
        append(t, "%d", tensor->order[d]);
    append(t, tensor->kind == CLEAVE_TENSOR_PARAMETER ? "p[" : "[");
    for (int d = 0; d < tensor->rank; d++) {
        append(t, d > 0 ? "," : "");
        int64_t below = raw.lo[d] < 0 ? -raw.lo[d] : 0;
        int64_t above = raw.hi[d] > tensor->shape[d] ? raw.hi[d] - tensor->shape[d] : 0;
        append_dimension(t, nest, &operand->map[d], below, above);
    }
    append(t, "]");
}

static void append_tape(text *t, const cleave_nest *nest) {
    append(t, " / tape=");
    for (int i = 0; i < nest->n_instructions; i++)
        append(t, "%s%d.%d.%d", i > 0 ? "," : "", (int)nest->tape[i].opcode, nest->tape[i].a,
               nest->tape[i].b);
}

/* What is done to scores and weights, and how many of the scores are not hidden: by blocks, so that
   parts differ that lie differently under a mask. */
static void append_attention(text *t, const cleave_nest *nest, const cleave_part *part) {
    const cleave_attention *of = nest->attention;
    for (int i = 1; i <= of->n_pointwise; i++)
        append_tape(t, &of->members[i]);
    append_tape(t, &of->tail);
    append(t, " / seen=%.4f", cleave_attention_seen_share(of, part->lo, part->hi));
}

static bool is_product(const cleave_nest *nest) {
    return nest->kind == CLEAVE_NEST_CONVOLUTION || nest->kind == CLEAVE_NEST_PRODUCT;
}

bool cleave_nest_is_grouped(const cleave_nest *nest) {
    for (int a = 0; a < nest->n_axes; a++)
        if (nest->kind == CLEAVE_NEST_CONVOLUTION && strcmp(nest->axes[a].name, "g") == 0)
            return true;
    return false;
}

/* Of parts forward writes values, or partial results; backward reads the gradient of values. */
static cleave_type output_type(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                               const cleave_part *part) {
    return pass == CLEAVE_PASS_FORWARD
               ? cleave_output_type(model, nest, part)
               : cleave_value_gradient_type(&model->tensors[nest->output.tensor]);
}

static void append_gradients(text *t, const cleave_model *model, const cleave_nest *nest,
                             cleave_pass pass, const cleave_part *part) {
    uint32_t gradients = cleave_nest_pass_inputs(model, nest, pass), exact = 0;
    for (int i = 0; i < nest->n_inputs; i++)
        if ((gradients >> i & 1) != 0 && cleave_gradient_type(model, nest, part, i) !=
                                             model->tensors[nest->inputs[i].tensor].stored)
            exact |= UINT32_C(1) << i;
    append(t, " / gradient=%" PRIx32, gradients);
    if (exact != 0) /* that are not stored as their inputs are */
        append(t, " exact=%" PRIx32, exact);
}

void cleave_work_write(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                       const cleave_part *part, cleave_work_text *t) {
    append(t, "%s %s%s /", cleave_nest_kind_names[nest->kind], cleave_pass_names[pass],
           combiner_names[nest->combiner]);
    for (int a = 0; a < nest->n_axes; a++)
        append(t, " %s=%" PRId64, nest->axes[a].name, cleave_part_extent(part, a));
    append(t, " /");
    for (int i = 0; i < nest->n_inputs; i++)
        append_operand(t, model, nest, &nest->inputs[i],
                       model->tensors[nest->inputs[i].tensor].stored, part);
    append(t, " >");
    append_operand(t, model, nest, &nest->output, output_type(model, nest, pass, part), part);
    if (pass != CLEAVE_PASS_FORWARD)
        append_gradients(t, model, nest, pass, part);
    if (nest->attention != NULL)
        append_attention(t, nest, part);
    else if (!is_product(nest))
        append_tape(t, nest);
    if (cleave_nest_filled_axis(model, nest) >= 0)
        append(t, " / filled=%.4f", cleave_filled_share(model, nest, part));
}

static void write_key(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                      const cleave_part *part, cleave_work *work) {
    text t = {.n = 0};
    cleave_work_write(model, nest, pass, part, &t);
    int32_t pieces = cleave_work_pieces(model, nest, pass, part);
    if (pieces > 1)
        append(&t, " / pieces=%" PRId32, pieces);
    if (t.n < sizeof work->key) {
        memcpy(work->key, t.bytes, t.n + 1);
        return;
    }
    size_t kept = sizeof work->key - 18;
    memcpy(work->key, t.bytes, kept);
    snprintf(work->key + kept, sizeof work->key - kept, "#%016" PRIx64,
             cleave_hash_string(t.bytes));
}

static double bytes_of(cleave_type type) { return (double)cleave_type_bytes(type); }

static double stored_bytes(const cleave_model *model, const cleave_operand *operand) {
    return bytes_of(model->tensors[operand->tensor].stored);
}

/* Does this pass read input i?  A product's gradient of one input reads the others. */
static bool reads_input(const cleave_nest *nest, cleave_pass pass, uint32_t gradients, int i) {
    if (pass == CLEAVE_PASS_FORWARD)
        return true;
    uint32_t bit = UINT32_C(1) << i;
    return is_product(nest) ? (gradients & ~bit) != 0 : (nest->kept_inputs & bit) != 0;
}

/* A look-up touches the rows of the table that it finds, as many as it writes; its backward writes
   the whole gradient of the table and adds to those rows. */
static double count_gather_bytes(const cleave_model *model, const cleave_nest *nest,
                                 cleave_pass pass, const cleave_part *part) {
    enum { IDS, TABLE };
    double rows = (double)cleave_part_size(model, part, &nest->output);
    double bytes = (double)cleave_part_size(model, part, &nest->inputs[IDS]) *
                       stored_bytes(model, &nest->inputs[IDS]) +
                   rows * bytes_of(output_type(model, nest, pass, part));
    if (pass == CLEAVE_PASS_FORWARD)
        return bytes + rows * stored_bytes(model, &nest->inputs[TABLE]);
    return bytes + (2 * rows + (double)cleave_part_size(model, part, &nest->inputs[TABLE])) *
                       bytes_of(cleave_gradient_type(model, nest, part, TABLE));
}

static double count_bytes(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                          const cleave_part *part, const cleave_kernel_share *share) {
    bool backward = pass != CLEAVE_PASS_FORWARD;
    if (nest->kind == CLEAVE_NEST_GATHER)
        return count_gather_bytes(model, nest, pass, part);
    uint32_t gradients = backward ? cleave_nest_pass_inputs(model, nest, pass) : 0;
    double bytes = (double)cleave_part_size(model, part, &nest->output) *
                   bytes_of(output_type(model, nest, pass, part));
    bytes *= !share->output ? 0 : backward && nest->kept_output ? 2 : 1;
    if (nest->attention != NULL)
        bytes += (double)cleave_part_size(model, part, &nest->statistics) *
                 stored_bytes(model, &nest->statistics);
    for (int i = 0; i < nest->n_inputs; i++) {
        double size = (double)cleave_part_size(model, part, &nest->inputs[i]);
        if (reads_input(nest, pass, gradients, i) && (share->inputs >> i & 1) != 0)
            bytes += size * stored_bytes(model, &nest->inputs[i]);
        if ((gradients & share->gradients) >> i & 1)
            bytes += size * bytes_of(cleave_gradient_type(model, nest, part, i));
    }
    return bytes;
}

/* A product's gradient of each input takes as much as its forward. */
static int count_gradients(const cleave_model *model, const cleave_nest *nest, cleave_pass pass) {
    int n = 0;
    for (uint32_t bits = cleave_nest_pass_inputs(model, nest, pass); bits != 0; bits &= bits - 1)
        n++;
    return n;
}

/* Two products forward; backward makes scores again, and gradients of them, queries, keys and
   values. */
static double count_attention_flops(const cleave_nest *nest, cleave_pass pass,
                                    const cleave_part *part) {
    const cleave_attention *of = nest->attention;
    double scores = cleave_attention_seen_share(of, part->lo, part->hi);
    double width = (double)nest->axes[of->width].extent;
    double value_width = (double)nest->axes[of->value_width].extent;
    for (int a = 0; a < nest->n_axes; a++)
        if (a != of->width && a != of->value_width)
            scores *= (double)cleave_part_extent(part, a);
    return 2 * scores *
           (pass == CLEAVE_PASS_FORWARD ? width + value_width : 3 * width + 2 * value_width);
}

static double count_flops(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                          const cleave_part *part) {
    double points = 1;
    if (nest->attention != NULL)
        return count_attention_flops(nest, pass, part);
    int table_axis = nest->kind == CLEAVE_NEST_GATHER ? cleave_gather_axis(nest) : -1;
    for (int a = 0; a < nest->n_axes; a++)
        points *= a == table_axis ? 1 : (double)cleave_part_extent(part, a);
    if (nest->kind == CLEAVE_NEST_GATHER)
        return points;
    if (is_product(nest))
        return 2 * points * cleave_filled_share(model, nest, part) *
               (pass == CLEAVE_PASS_FORWARD ? 1 : count_gradients(model, nest, pass));
    int per_point = nest->n_instructions + (nest->combiner != CLEAVE_COMBINE_NONE);
    return points * per_point * (pass == CLEAVE_PASS_FORWARD ? 1 : 2);
}

static int32_t round_pieces(double pieces) {
    return pieces < 1 ? 1 : pieces < 0x1p20 ? (int32_t)(pieces + 0.5) : 1 << 20;
}

int32_t cleave_work_pieces(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                           const cleave_part *part) {
    double piece_flops = is_product(nest) || nest->attention != NULL ? 0x1p29 : 0x1p27;
    return round_pieces(count_flops(model, nest, pass, part) / piece_flops +
                        count_bytes(model, nest, pass, part, &alone) / piece_bytes);
}

int32_t cleave_work_pieces_of_bytes(double bytes) { return round_pieces(bytes / piece_bytes); }

int32_t cleave_work_pieces_of_copy(int64_t bytes) {
    return round_pieces((double)bytes / copy_piece_bytes);
}

static bool takes_short(const cleave_model *model, const cleave_nest *nest) {
    bool takes = cleave_type_is_short(model->tensors[nest->output.tensor].stored);
    for (int i = 0; i < nest->n_inputs; i++)
        takes = takes || cleave_type_is_short(model->tensors[nest->inputs[i].tensor].stored);
    return takes;
}

/* Of the numbers that are multiplied, by units that products alone use. */
static cleave_type multiplied_type(const cleave_model *model, const cleave_nest *nest) {
    bool takes = is_product(nest) || nest->attention != NULL, parameter = false;
    int n = nest->attention != NULL ? 3 : nest->n_inputs; /* masks are not multiplied */
    for (int i = 0; i < n; i++) {
        takes = takes && cleave_type_is_short(model->tensors[nest->inputs[i].tensor].stored);
        parameter = parameter || cleave_tensor_sees_parameter(model, nest->inputs[i].tensor);
    }
    return !takes                                        ? CLEAVE_F32
           : model->precision == CLEAVE_F8 && !parameter ? CLEAVE_BF16
                                                         : model->precision;
}

static uint32_t axes_of(const cleave_model *model, const cleave_operand *operand) {
    uint32_t axes = 0;
    for (int r = 0; r < model->tensors[operand->tensor].rank; r++)
        for (int i = 0; i < operand->map[r].n_terms; i++)
            axes |= UINT32_C(1) << operand->map[r].terms[i].axis;
    return axes;
}

/* Rows are axes of one factor and the output, columns of the other and the output, and what is
   summed over is in both factors alone.  Gradients have the same three extents. */
static double find_smallest(const cleave_model *model, const cleave_nest *nest,
                            const cleave_part *part) {
    uint32_t left = axes_of(model, &nest->inputs[0]), right = axes_of(model, &nest->inputs[1]);
    uint32_t output = axes_of(model, &nest->output);
    const uint32_t groups[] = {left & output & ~right, right & output & ~left,
                               left & right & ~output};
    double smallest = HUGE_VAL;
    for (int g = 0; g < 3; g++) {
        double extent = 1;
        for (int a = 0; a < nest->n_axes; a++)
            extent *= (groups[g] >> a & 1) != 0 ? (double)cleave_part_extent(part, a) : 1;
        int filled = cleave_nest_filled_axis(model, nest);
        if (filled >= 0 && (groups[g] >> filled & 1) != 0)
            extent = fmax(1, extent * cleave_filled_share(model, nest, part));
        smallest = fmin(smallest, extent);
    }
    return smallest;
}

/* Has each of several products that go at once a weight of its own? */
static bool is_grouped_product(const cleave_model *model, const cleave_nest *nest,
                               const cleave_part *part) {
    if (nest->kind != CLEAVE_NEST_PRODUCT || nest->n_inputs < 2 ||
        !(cleave_tensor_sees_parameter(model, nest->inputs[0].tensor) ||
          cleave_tensor_sees_parameter(model, nest->inputs[1].tensor)))
        return false;
    uint32_t in_all = axes_of(model, &nest->inputs[0]) & axes_of(model, &nest->inputs[1]) &
                      axes_of(model, &nest->output);
    for (int a = 0; a < nest->n_axes; a++)
        if ((in_all >> a & 1) != 0 && cleave_part_extent(part, a) > 1)
            return true;
    return false;
}

static cleave_work_sort sort_of(const cleave_model *model, const cleave_nest *nest,
                                const cleave_part *part) {
    if (nest->attention != NULL)
        return CLEAVE_WORK_ATTENTION;
    if (is_product(nest) && nest->n_inputs >= 2)
        return is_grouped_product(model, nest, part) ? CLEAVE_WORK_GROUPED_PRODUCT
                                                     : CLEAVE_WORK_PRODUCT;
    return cleave_nest_is_of_loss(model, nest) ? CLEAVE_WORK_LOSS : CLEAVE_WORK_OTHER;
}

/* The gradients of both factors of a product are a kernel each, which reads that of the product. */
static cleave_framework_kernels count_second(const cleave_model *model, const cleave_nest *nest,
                                             cleave_pass pass, const cleave_part *part) {
    uint32_t factors = pass == CLEAVE_PASS_FORWARD || !is_product(nest)
                           ? 0
                           : cleave_nest_pass_inputs(model, nest, pass) & 3;
    if (factors != 3)
        return (cleave_framework_kernels){0};
    return (cleave_framework_kernels){1, (double)cleave_part_size(model, part, &nest->output) *
                                             bytes_of(output_type(model, nest, pass, part))};
}

/* What is not spelled out depends on nothing but whether there is a compiler. */
static void count_kernels(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                          const cleave_part *part, cleave_work *work) {
    cleave_framework_kernels plain[2], second = count_second(model, nest, pass, part);
    for (int e = 0; e < 2; e++) {
        cleave_kernel_share share = cleave_kernel_share_of(model, nest, pass, part, e == 1);
        plain[e] = (cleave_framework_kernels){
            share.launches + second.n, count_bytes(model, nest, pass, part, &share) + second.bytes};
    }
    for (int f = 0; f < CLEAVE_N_FRAMEWORKS; f++)
        if (!cleave_kernels_spelled_out(model, nest, pass, part, &cleave_frameworks[f],
                                        &work->kernels[f]))
            work->kernels[f] = plain[cleave_frameworks[f].is_eager];
    work->has_kernels = true;
}

void cleave_work_measure(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                         const cleave_part *part, cleave_work *work) {
    work->key[0] = work->family[0] = '\0';
    work->type = multiplied_type(model, nest);
    work->pass = pass;
    work->sort = sort_of(model, nest, part);
    bool multiplies =
        work->sort == CLEAVE_WORK_PRODUCT || work->sort == CLEAVE_WORK_GROUPED_PRODUCT;
    work->smallest = multiplies ? find_smallest(model, nest, part) : 0;
    work->flops = count_flops(model, nest, pass, part);
    work->bytes = count_bytes(model, nest, pass, part, &alone);
    count_kernels(model, nest, pass, part, work);
}

void cleave_work_describe(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                          const cleave_part *part, cleave_work *work) {
    *work = (cleave_work){0};
    cleave_work_measure(model, nest, pass, part, work);
    bool is_short = takes_short(model, nest);
    snprintf(work->family, sizeof work->family, "%s%s%s%s%s %s",
             is_short ? cleave_precision_name(model->precision) : "", is_short ? " " : "",
             cleave_nest_is_grouped(nest) ? "grouped " : "", cleave_nest_kind_names[nest->kind],
             is_product(nest) || nest->attention != NULL ? "" : combiner_names[nest->combiner],
             cleave_pass_names[pass]);
    write_key(model, nest, pass, part, work);
}

void cleave_work_describe_bytes(const char *family, double bytes, cleave_work *work) {
    *work = (cleave_work){.bytes = bytes};
    snprintf(work->family, sizeof work->family, "%s", family);
    snprintf(work->key, sizeof work->key, "%s bytes=%.0f", family, bytes);
}

void cleave_work_describe_rows(double bytes, double n_rows, cleave_work *work) {
    *work = (cleave_work){.bytes = bytes, .flops = n_rows};
    snprintf(work->family, sizeof work->family, "copy rows");
    snprintf(work->key, sizeof work->key, "copy rows=%.0f bytes=%.0f", n_rows, bytes);
}

double cleave_work_bytes_of_update(int64_t parameter_bytes, int n_states) {
    return (double)parameter_bytes * (3 + 2 * n_states);
}
