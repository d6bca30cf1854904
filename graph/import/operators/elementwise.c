/* Element-wise operators of several inputs, and those that constants parametrise. */
#include "graph/import/operators/fragment.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { A = CLEAVE_ARGUMENT_0, B = CLEAVE_ARGUMENT_1, C = CLEAVE_ARGUMENT_2 };

static bool is_type(const cleave_importer *im, const char *type) {
    return strcmp(im->node->type, type) == 0;
}

/* ---- limits, dropout ------------------------------------------------------------------------- */

/* A limit that is a constant, or, where it varies, the position of its input. */
static cleave_status read_limit(cleave_importer *im, int i, double *limit, bool *varies) {
    *varies = cleave_import_has_input(im, i) && cleave_import_constant(im, i) == NULL;
    return *varies ? CLEAVE_OK : cleave_import_scalar(im, i, *limit, limit);
}

static int limit_register(cleave_fragment *code, bool varies, int argument, double limit) {
    return varies ? cleave_argument(argument) : cleave_fragment_constant(code, limit);
}

cleave_status cleave_import_clip(cleave_importer *im) {
    double low, high;
    bool low_varies, high_varies;
    cleave_fragment code = {0};
    int n = 1, inputs[3] = {0};
    int32_t type = cleave_import_input_type(im, 0);
    bool is_integer = cleave_onnx_type_is_integer(type);
    /* Integers have no limit that f32 could not hold. */
    CLEAVE_TRY(
        cleave_import_number(im, "min", is_integer ? -(double)INFINITY : -(double)FLT_MAX, &low));
    CLEAVE_TRY(
        cleave_import_number(im, "max", is_integer ? (double)INFINITY : (double)FLT_MAX, &high));
    CLEAVE_TRY(read_limit(im, 1, &low, &low_varies));
    CLEAVE_TRY(read_limit(im, 2, &high, &high_varies));
    if (!low_varies && !high_varies && low <= high) {
        cleave_fragment_clip(&code, A, low, high);
    } else { /* where they cross, the upper one counts */
        if (low_varies)
            inputs[n++] = 1;
        if (high_varies)
            inputs[n++] = 2;
        int floor = limit_register(&code, low_varies, 1, low);
        int raised = cleave_fragment_binary(&code, CLEAVE_OP_MAX, A, floor);
        int ceiling = limit_register(&code, high_varies, n - 1, high);
        cleave_fragment_binary(&code, CLEAVE_OP_MIN, raised, ceiling);
    }
    return cleave_import_apply(im, n, inputs, &code, type);
}

/* ---- two inputs ------------------------------------------------------------------------------ */

typedef enum rule {
    PLAIN,
    SWAPPED, /* b op a */
    LOGIC    /* of booleans */
} rule;

typedef struct binary_row {
    const char *type;
    cleave_opcode opcode;
    rule rule;
    bool gives_bool;
} binary_row;

static const binary_row *find_binary(const cleave_importer *im) {
    static const binary_row table[] = {{"Add", CLEAVE_OP_ADD, PLAIN, false},
                                       {"Sum", CLEAVE_OP_ADD, PLAIN, false},
                                       {"Mean", CLEAVE_OP_ADD, PLAIN, false},
                                       {"Sub", CLEAVE_OP_SUB, PLAIN, false},
                                       {"Mul", CLEAVE_OP_MUL, PLAIN, false},
                                       {"Div", CLEAVE_OP_DIV, PLAIN, false},
                                       {"Min", CLEAVE_OP_MIN, PLAIN, false},
                                       {"Max", CLEAVE_OP_MAX, PLAIN, false},
                                       {"Pow", CLEAVE_OP_POW, PLAIN, false},
                                       {"Mod", CLEAVE_OP_FMOD, PLAIN, false},
                                       {"Equal", CLEAVE_OP_EQUAL, PLAIN, true},
                                       {"Less", CLEAVE_OP_LESS, PLAIN, true},
                                       {"LessOrEqual", CLEAVE_OP_LESS_EQUAL, PLAIN, true},
                                       {"Greater", CLEAVE_OP_LESS, SWAPPED, true},
                                       {"GreaterOrEqual", CLEAVE_OP_LESS_EQUAL, SWAPPED, true},
                                       {"And", CLEAVE_OP_MUL, LOGIC, true},
                                       {"Or", CLEAVE_OP_MAX, LOGIC, true},
                                       {"Xor", CLEAVE_OP_EQUAL, LOGIC, true}};
    size_t at = 0;
    while (at + 1 < sizeof table / sizeof *table && !is_type(im, table[at].type))
        at++;
    return &table[at];
}

/* A scalar constant in input i, beside an input that is none and has its rank or more.  Only
   constants count here, not initializers: those are trained. */
static bool scalar_beside(cleave_importer *im, int i, double *scalar) {
    const cleave_value *value = cleave_import_input(im, i);
    const cleave_value *other = cleave_import_input(im, 1 - i);
    const cleave_onnx_tensor *constant = &value->constant;
    if (value->state != CLEAVE_VALUE_CONSTANT || other->state == CLEAVE_VALUE_CONSTANT ||
        constant->n != 1 || constant->rank > cleave_import_value_rank(im, other))
        return false;
    *scalar =
        constant->floats != NULL ? (double)constant->floats[0] : (double)constant->integers[0];
    return true;
}

/* x^s by products, where that is quick. */
static bool add_power(cleave_fragment *code, double s) {
    if (s == 0.5) {
        cleave_fragment_unary(code, CLEAVE_OP_SQRT, A);
        return true;
    }
    if (s != 1 && s != 2 && s != 3 && s != 4)
        return false;
    if (s == 1) {
        cleave_fragment_unary(code, CLEAVE_OP_COPY, A);
        return true;
    }
    int square = cleave_fragment_binary(code, CLEAVE_OP_MUL, A, A);
    if (s > 2)
        cleave_fragment_binary(code, CLEAVE_OP_MUL, square, s > 3 ? square : A);
    return true;
}

/* x op s, or s op x where the scalar is first, of floats, in fewer instructions than in general;
   false: it has no such form. */
static bool with_scalar(cleave_opcode opcode, double s, bool scalar_first, cleave_fragment *code) {
    switch (opcode) {
    case CLEAVE_OP_ADD:
        cleave_fragment_scale(code, A, 1, s);
        return true;
    case CLEAVE_OP_SUB:
        cleave_fragment_scale(code, A, scalar_first ? -1 : 1, scalar_first ? s : -s);
        return true;
    case CLEAVE_OP_MUL:
        cleave_fragment_scale(code, A, s, 0);
        return true;
    case CLEAVE_OP_DIV:
        if (scalar_first || !(fabs(1 / s) <= (double)FLT_MAX))
            return false;
        cleave_fragment_scale(code, A, 1 / s, 0);
        return true;
    case CLEAVE_OP_POW:
        return !scalar_first && add_power(code, s);
    default:
        return false;
    }
}

/* May input i depend on a parameter? */
static cleave_status may_be_trained(cleave_importer *im, int i, bool *trained) {
    int32_t tensor;
    CLEAVE_TRY(cleave_import_tensor(im, i, &tensor));
    cleave_tensor_kind kind = im->tensors.items[tensor].tensor.kind;
    *trained = kind != CLEAVE_TENSOR_DATA && kind != CLEAVE_TENSOR_CONSTANT;
    return CLEAVE_OK;
}

/* The remainder by a divisor that needs a gradient, which FMOD has not. */
static cleave_status spell_remainder(cleave_importer *im, cleave_fragment *code) {
    bool trained;
    CLEAVE_TRY(may_be_trained(im, 1, &trained));
    if (!trained)
        return CLEAVE_OK;
    code->n = 0;
    int ratio = cleave_fragment_binary(code, CLEAVE_OP_DIV, A, B);
    int times = cleave_fragment_unary(code, CLEAVE_OP_TRUNC, ratio);
    int whole = cleave_fragment_binary(code, CLEAVE_OP_MUL, times, B);
    cleave_fragment_binary(code, CLEAVE_OP_SUB, A, whole);
    return CLEAVE_OK;
}

/* What integers and remainders need beside the instruction itself. */
static cleave_status finish_integers(cleave_importer *im, const binary_row *row,
                                     cleave_fragment *code) {
    int64_t fmod = 0;
    int value = code->n - 1;
    int32_t type = cleave_import_input_type(im, 0);
    bool integer = cleave_onnx_type_is_integer(type);
    bool by_integer = cleave_onnx_type_is_integer(cleave_import_input_type(im, 1));
    if (is_type(im, "Mod"))
        CLEAVE_TRY(cleave_import_integer(im, "fmod", 0, &fmod));
    if (is_type(im, "Mod") && fmod == 0 && type == CLEAVE_ONNX_FLOAT)
        return cleave_import_fail(im, "attribute fmod is 0, which is for integers");
    if (is_type(im, "Mod") && fmod == 0) { /* the divisor's sign */
        int shifted = cleave_fragment_binary(code, CLEAVE_OP_ADD, value, B);
        cleave_fragment_binary(code, CLEAVE_OP_FMOD, shifted, B);
    } else if (is_type(im, "Mod") && !integer) {
        return spell_remainder(im, code);
    } else if (integer && row->opcode == CLEAVE_OP_DIV) {
        cleave_fragment_unary(code, CLEAVE_OP_TRUNC, value);
    } else if (integer && row->opcode == CLEAVE_OP_POW) {
        cleave_fragment_unary(code, by_integer ? CLEAVE_OP_ROUND : CLEAVE_OP_TRUNC, value);
    }
    return CLEAVE_OK;
}

static cleave_fragment binary_fragment(const binary_row *row) {
    bool swapped = row->rule == SWAPPED;
    cleave_fragment code = {0};
    cleave_fragment_binary(&code, row->opcode, swapped ? B : A, swapped ? A : B);
    code.initial = row->opcode == CLEAVE_OP_MUL || row->opcode == CLEAVE_OP_DIV ? 1 : 0;
    return code;
}

cleave_status cleave_import_binary(cleave_importer *im) {
    const binary_row *row = find_binary(im);
    int32_t type = cleave_import_input_type(im, 0);
    bool is_float = !cleave_onnx_type_is_integer(type) && row->rule == PLAIN && !row->gives_bool;
    for (int i = 0; i < 2 && is_float; i++) {
        double s;
        cleave_fragment code = {0};
        if (scalar_beside(im, i, &s) && with_scalar(row->opcode, s, i == 0, &code))
            return cleave_import_apply(im, 1, (int[]){1 - i}, &code, type);
    }
    cleave_fragment code = binary_fragment(row);
    CLEAVE_TRY(finish_integers(im, row, &code));
    if (is_type(im, "Xor"))
        cleave_fragment_scale(&code, 0, -1, 1);
    return cleave_import_apply(im, 2, (int[]){0, 1}, &code,
                               row->gives_bool ? (int32_t)CLEAVE_ONNX_BOOL : type);
}

/* ---- any number of inputs -------------------------------------------------------------------- */

/* Folded from the left. */
cleave_status cleave_import_variadic(cleave_importer *im) {
    const binary_row *row = find_binary(im);
    int inputs[CLEAVE_MOST_ARGUMENTS] = {0}, n = im->node->n_inputs;
    bool is_mean = is_type(im, "Mean");
    if (n == 1)
        return cleave_import_identity(im);
    if (n == 2 && !is_mean)
        return cleave_import_binary(im);
    if (n > CLEAVE_MOST_ARGUMENTS)
        return cleave_import_fail(im, "has %d inputs, at most %d are supported", n,
                                  CLEAVE_MOST_ARGUMENTS);
    cleave_fragment code = {0};
    int value = A;
    for (int i = 1; i < n; i++) {
        inputs[i] = i;
        value = cleave_fragment_binary(&code, row->opcode, value, cleave_argument(i));
    }
    if (is_mean)
        cleave_fragment_scale(&code, value, 1 / (double)n, 0);
    return cleave_import_apply(im, n, inputs, &code, cleave_import_input_type(im, 0));
}

/* ---- selections ------------------------------------------------------------------------------ */

/* What is not selected does not count, whatever it is: -inf x 0 would. */
cleave_status cleave_import_where(cleave_importer *im) {
    cleave_fragment code = {0};
    int chosen = cleave_fragment_binary(&code, CLEAVE_OP_MASK, B, A);
    int zero = cleave_fragment_constant(&code, 0);
    int otherwise = cleave_fragment_binary(&code, CLEAVE_OP_EQUAL, A, zero);
    int rest = cleave_fragment_binary(&code, CLEAVE_OP_MASK, C, otherwise);
    cleave_fragment_binary(&code, CLEAVE_OP_ADD, chosen, rest);
    return cleave_import_apply(im, 3, (int[]){0, 1, 2}, &code, cleave_import_input_type(im, 1));
}

/* x, or 0 where that is no number: it alone differs from itself. */
cleave_status cleave_import_without_nan(cleave_importer *im) {
    cleave_fragment code = {0};
    int is_number = cleave_fragment_binary(&code, CLEAVE_OP_EQUAL, A, A);
    cleave_fragment_binary(&code, CLEAVE_OP_MASK, A, is_number);
    return cleave_import_apply(im, 1, (int[]){0}, &code, cleave_import_input_type(im, 0));
}

/* x > 0 ? x : slope x */
cleave_status cleave_import_prelu(cleave_importer *im) {
    cleave_fragment code = {.initial = 0.25f};
    int below = cleave_fragment_clip(&code, A, -INFINITY, 0);
    int sloped = cleave_fragment_binary(&code, CLEAVE_OP_MUL, below, B);
    int above = cleave_fragment_unary(&code, CLEAVE_OP_RELU, A);
    cleave_fragment_binary(&code, CLEAVE_OP_ADD, above, sloped);
    int32_t type = cleave_import_input_type(im, 0);
    return cleave_import_apply(im, 2, (int[]){0, 1}, &code, type);
}
