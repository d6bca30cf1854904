/* Functions of one value: those of the table of opcodes, and one fragment each for the rest. */
#include "graph/import/operators/functions.h"

#include <math.h>
#include <string.h>

enum { X = CLEAVE_ARGUMENT_0 };

static cleave_status apply_to_input(cleave_importer *im, const cleave_fragment *code) {
    return cleave_import_apply(im, 1, (int[]){0}, code, cleave_import_input_type(im, 0));
}

cleave_status cleave_import_unary(cleave_importer *im) {
    cleave_fragment code = {0};
    cleave_fragment_unary(&code, cleave_opcode_find(im->node->type), X);
    return apply_to_input(im, &code);
}

/* ---- rectifiers ------------------------------------------------------------------------------ */

cleave_status cleave_import_leaky_relu(cleave_importer *im) {
    double alpha;
    cleave_fragment code = {0};
    CLEAVE_TRY(cleave_import_number(im, "alpha", 0.01, &alpha));
    cleave_fragment_leaky_relu(&code, X, alpha);
    return apply_to_input(im, &code);
}

cleave_status cleave_import_elu(cleave_importer *im) {
    double alpha;
    cleave_fragment code = {0};
    CLEAVE_TRY(cleave_import_number(im, "alpha", 1, &alpha));
    cleave_fragment_exponential(&code, X, 1, alpha, 1);
    return apply_to_input(im, &code);
}

cleave_status cleave_import_selu(cleave_importer *im) {
    double alpha, gamma;
    cleave_fragment code = {0};
    CLEAVE_TRY(cleave_import_number(im, "alpha", 1.67326319217681884765625, &alpha));
    CLEAVE_TRY(cleave_import_number(im, "gamma", 1.05070102214813232421875, &gamma));
    cleave_fragment_exponential(&code, X, gamma, gamma * alpha, 1);
    return apply_to_input(im, &code);
}

cleave_status cleave_import_celu(cleave_importer *im) {
    double alpha;
    cleave_fragment code = {0};
    CLEAVE_TRY(cleave_import_number(im, "alpha", 1, &alpha));
    if (alpha == 0)
        return cleave_import_fail(im, "attribute alpha is 0, supported is anything else");
    cleave_fragment_exponential(&code, X, 1, alpha, alpha);
    return apply_to_input(im, &code);
}

cleave_status cleave_import_thresholded_relu(cleave_importer *im) {
    double alpha;
    cleave_fragment code = {0};
    CLEAVE_TRY(cleave_import_number(im, "alpha", 1, &alpha));
    cleave_fragment_threshold(&code, X, alpha);
    return apply_to_input(im, &code);
}

/* x < -lambda ? x + bias : x > lambda ? x - bias : 0 */
cleave_status cleave_import_shrink(cleave_importer *im) {
    double lambda, bias;
    cleave_fragment code = {0};
    CLEAVE_TRY(cleave_import_number(im, "lambd", 0.5, &lambda));
    CLEAVE_TRY(cleave_import_number(im, "bias", 0, &bias));
    if (!(lambda >= 0))
        return cleave_import_fail(im, "attribute lambd is %g, supported are 0 and more", lambda);
    int low = cleave_fragment_constant(&code, -lambda);
    int below = cleave_fragment_binary(&code, CLEAVE_OP_LESS, X, low);
    int raised = cleave_fragment_scale(&code, X, 1, bias);
    int left = cleave_fragment_binary(&code, CLEAVE_OP_MASK, raised, below);
    int high = cleave_fragment_constant(&code, lambda);
    int above = cleave_fragment_binary(&code, CLEAVE_OP_LESS, high, X);
    int lowered = cleave_fragment_scale(&code, X, 1, -bias);
    int right = cleave_fragment_binary(&code, CLEAVE_OP_MASK, lowered, above);
    cleave_fragment_binary(&code, CLEAVE_OP_ADD, left, right);
    return apply_to_input(im, &code);
}

/* ---- gates ----------------------------------------------------------------------------------- */

cleave_status cleave_import_hard_sigmoid(cleave_importer *im) {
    double alpha, beta;
    cleave_fragment code = {0};
    CLEAVE_TRY(cleave_import_number(im, "alpha", 0.2, &alpha));
    CLEAVE_TRY(cleave_import_number(im, "beta", 0.5, &beta));
    cleave_fragment_hard_sigmoid(&code, X, alpha, beta);
    return apply_to_input(im, &code);
}

cleave_status cleave_import_swish(cleave_importer *im) {
    double alpha;
    cleave_fragment code = {0};
    CLEAVE_TRY(cleave_import_number(im, "alpha", 1, &alpha));
    int line = alpha < 1 || alpha > 1 ? cleave_fragment_scale(&code, X, alpha, 0) : X;
    int gate = cleave_fragment_unary(&code, CLEAVE_OP_SIGMOID, line);
    cleave_fragment_binary(&code, CLEAVE_OP_MUL, X, gate);
    return apply_to_input(im, &code);
}

cleave_status cleave_import_hard_swish(cleave_importer *im) {
    cleave_fragment code = {0};
    int gate = cleave_fragment_hard_sigmoid(&code, X, 1.0 / 6, 0.5);
    cleave_fragment_binary(&code, CLEAVE_OP_MUL, X, gate);
    return apply_to_input(im, &code);
}

cleave_status cleave_import_softplus(cleave_importer *im) {
    cleave_fragment code = {0};
    cleave_fragment_softplus(&code, X);
    return apply_to_input(im, &code);
}

/* alpha x^2 + x / 2 above 0, and beta (exp(x) - 1 - x) + x / 2 below (Huang and Schlag, 2024). */
cleave_status cleave_import_xielu(cleave_importer *im) {
    enum { ALPHA = CLEAVE_ARGUMENT_1, BETA = CLEAVE_ARGUMENT_2 };
    cleave_fragment code = {0};
    int above = cleave_fragment_unary(&code, CLEAVE_OP_RELU, X);
    int square = cleave_fragment_binary(&code, CLEAVE_OP_MUL, above, above);
    int right = cleave_fragment_binary(&code, CLEAVE_OP_MUL, ALPHA, square);
    int below = cleave_fragment_clip(&code, X, -INFINITY, 0);
    int power = cleave_fragment_unary(&code, CLEAVE_OP_EXP, below);
    int bent = cleave_fragment_binary(&code, CLEAVE_OP_SUB, power, below);
    bent = cleave_fragment_scale(&code, bent, 1, -1);
    int left = cleave_fragment_binary(&code, CLEAVE_OP_MUL, BETA, bent);
    int both = cleave_fragment_binary(&code, CLEAVE_OP_ADD, right, left);
    int half = cleave_fragment_scale(&code, X, 0.5, 0);
    cleave_fragment_binary(&code, CLEAVE_OP_ADD, both, half);
    return cleave_import_apply(im, 3, (int[]){0, 1, 2}, &code, cleave_import_input_type(im, 0));
}

cleave_status cleave_import_mish(cleave_importer *im) {
    cleave_fragment code = {0};
    int gate = cleave_fragment_unary(&code, CLEAVE_OP_TANH, cleave_fragment_softplus(&code, X));
    cleave_fragment_binary(&code, CLEAVE_OP_MUL, X, gate);
    return apply_to_input(im, &code);
}

cleave_status cleave_import_softsign(cleave_importer *im) {
    cleave_fragment code = {0};
    cleave_fragment_softsign(&code, X);
    return apply_to_input(im, &code);
}

/* x (1 + erf(x / sqrt 2)) / 2, or x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
cleave_status cleave_import_gelu(cleave_importer *im) {
    const char *approximate;
    cleave_fragment code = {0};
    int bent;
    CLEAVE_TRY(cleave_import_string(im, "approximate", "none", &approximate));
    bool tanh = strcmp(approximate, "tanh") == 0;
    if (!tanh && strcmp(approximate, "none") != 0)
        return cleave_import_fail(im, "attribute approximate is %s, supported are none and tanh",
                                  approximate);
    if (tanh) {
        int square = cleave_fragment_binary(&code, CLEAVE_OP_MUL, X, X);
        int factor =
            cleave_fragment_scale(&code, square, sqrt(2 / M_PI) * 0.044715, sqrt(2 / M_PI));
        int inner = cleave_fragment_binary(&code, CLEAVE_OP_MUL, X, factor);
        bent = cleave_fragment_unary(&code, CLEAVE_OP_TANH, inner);
    } else {
        int inner = cleave_fragment_scale(&code, X, sqrt(0.5), 0);
        bent = cleave_fragment_unary(&code, CLEAVE_OP_ERF, inner);
    }
    int gate = cleave_fragment_scale(&code, bent, 0.5, 0.5);
    cleave_fragment_binary(&code, CLEAVE_OP_MUL, X, gate);
    return apply_to_input(im, &code);
}
