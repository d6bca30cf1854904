/* Attributes, inputs and outputs of the node being imported, with errors that name it. */
#include "base/checked.h"
#include "graph/import/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

cleave_status cleave_import_fail(cleave_importer *im, const char *format, ...) {
    char text[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (im->node == NULL)
        return cleave_fail(im->error, CLEAVE_BAD_INPUT, "%s: %s", im->file, text);
    return cleave_fail(im->error, CLEAVE_BAD_INPUT, "%s: node %s (%s): %s", im->file,
                       im->node->name, im->node->type, text);
}

cleave_status cleave_import_no_memory(cleave_importer *im) {
    return cleave_fail_memory(im->error, "importing a model");
}

cleave_status cleave_import_spend(cleave_importer *im, int64_t rows, int64_t columns) {
    int64_t n;
    if (!cleave_int64_multiply(rows, columns, &n) || n > CLEAVE_MOST_SPENT - im->spent)
        return cleave_import_fail(
            im, "constants of more than %lld elements would have to be computed up to here",
            (long long)CLEAVE_MOST_SPENT);
    im->spent += n;
    return CLEAVE_OK;
}

const cleave_onnx_attribute *cleave_import_attribute(const cleave_importer *im, const char *name) {
    for (int32_t i = 0; i < im->node->n_attributes; i++)
        if (strcmp(im->node->attributes[i].name, name) == 0)
            return &im->node->attributes[i];
    return NULL;
}

static cleave_status find_attribute(cleave_importer *im, const char *name,
                                    cleave_onnx_attribute_kind kind, const char *kind_name,
                                    const cleave_onnx_attribute **attribute) {
    *attribute = cleave_import_attribute(im, name);
    if (*attribute != NULL && (*attribute)->kind != kind)
        return cleave_import_fail(im, "attribute %s is not %s", name, kind_name);
    return CLEAVE_OK;
}

cleave_status cleave_import_integer(cleave_importer *im, const char *name, int64_t otherwise,
                                    int64_t *value) {
    const cleave_onnx_attribute *attribute;
    CLEAVE_TRY(find_attribute(im, name, CLEAVE_ONNX_ATTRIBUTE_INTEGER, "an integer", &attribute));
    *value = attribute != NULL ? attribute->integer : otherwise;
    return CLEAVE_OK;
}

cleave_status cleave_import_number(cleave_importer *im, const char *name, double otherwise,
                                   double *value) {
    const cleave_onnx_attribute *attribute;
    CLEAVE_TRY(find_attribute(im, name, CLEAVE_ONNX_ATTRIBUTE_FLOAT, "a float", &attribute));
    *value = attribute != NULL ? (double)attribute->number : otherwise;
    return CLEAVE_OK;
}

cleave_status cleave_import_string(cleave_importer *im, const char *name, const char *otherwise,
                                   const char **value) {
    const cleave_onnx_attribute *attribute;
    CLEAVE_TRY(find_attribute(im, name, CLEAVE_ONNX_ATTRIBUTE_STRING, "a string", &attribute));
    *value = attribute != NULL ? attribute->string : otherwise;
    return CLEAVE_OK;
}

cleave_status cleave_import_integers(cleave_importer *im, const char *name, int n, int64_t least,
                                     int64_t most, int64_t otherwise, int64_t *values) {
    const cleave_onnx_attribute *attribute;
    CLEAVE_TRY(
        find_attribute(im, name, CLEAVE_ONNX_ATTRIBUTE_INTEGERS, "a list of integers", &attribute));
    if (attribute != NULL && attribute->n != n)
        return cleave_import_fail(im, "attribute %s has %d values, %d are needed", name,
                                  (int)attribute->n, n);
    for (int i = 0; i < n; i++) {
        values[i] = attribute != NULL ? attribute->integers[i] : otherwise;
        if (values[i] < least || values[i] > most)
            return cleave_import_fail(im, "attribute %s has value %lld, supported are %lld to %lld",
                                      name, (long long)values[i], (long long)least,
                                      (long long)most);
    }
    return CLEAVE_OK;
}

bool cleave_import_has_input(const cleave_importer *im, int i) {
    return i < im->node->n_inputs && im->node->inputs[i][0] != '\0';
}

cleave_value *cleave_import_input(cleave_importer *im, int i) {
    return &im->values.items[cleave_name_map_find(&im->names, im->node->inputs[i])];
}

cleave_value *cleave_import_output(cleave_importer *im, int i) {
    return &im->values.items[cleave_name_map_find(&im->names, im->node->outputs[i])];
}

bool cleave_import_uses_output(const cleave_importer *im, int i) {
    if (i >= im->node->n_outputs || im->node->outputs[i][0] == '\0')
        return false;
    return im->values.items[cleave_name_map_find(&im->names, im->node->outputs[i])].n_uses > 0;
}

const cleave_onnx_tensor *cleave_import_constant(cleave_importer *im, int i) {
    if (!cleave_import_has_input(im, i))
        return NULL;
    const cleave_value *value = cleave_import_input(im, i);
    if (value->state == CLEAVE_VALUE_CONSTANT)
        return &value->constant;
    return value->state == CLEAVE_VALUE_SOURCE ? value->initializer : NULL;
}

cleave_status cleave_import_list(cleave_importer *im, const char *attribute, int i, int *n,
                                 int64_t *values) {
    const cleave_onnx_attribute *found;
    const int64_t *list = NULL;
    int64_t length = -1;
    CLEAVE_TRY(find_attribute(im, attribute, CLEAVE_ONNX_ATTRIBUTE_INTEGERS, "a list of integers",
                              &found));
    if (found != NULL) {
        list = found->integers;
        length = found->n;
    } else if (cleave_import_has_input(im, i)) {
        const cleave_onnx_tensor *constant = cleave_import_constant(im, i);
        if (constant == NULL || constant->integers == NULL || constant->rank > 1)
            return cleave_import_fail(im, "%s (input %s) has to be a constant list of integers",
                                      attribute, im->node->inputs[i]);
        list = constant->integers;
        length = constant->n;
    }
    if (length > 2 * CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "%s has %lld values, at most %d are supported", attribute,
                                  (long long)length, 2 * CLEAVE_MAX_RANK);
    *n = (int)length;
    for (int k = 0; k < *n; k++)
        values[k] = list[k];
    return CLEAVE_OK;
}

cleave_status cleave_import_scalar(cleave_importer *im, int i, double otherwise, double *value) {
    if (!cleave_import_has_input(im, i)) {
        *value = otherwise;
        return CLEAVE_OK;
    }
    const cleave_onnx_tensor *constant = cleave_import_constant(im, i);
    if (constant == NULL || constant->n != 1)
        return cleave_import_fail(im, "input %s has to be a constant scalar", im->node->inputs[i]);
    *value = constant->floats != NULL ? (double)constant->floats[0] : (double)constant->integers[0];
    return CLEAVE_OK;
}

cleave_status cleave_import_axis(cleave_importer *im, int64_t axis, int rank, int *result) {
    if (axis < -rank || axis >= rank)
        return cleave_import_fail(im, "axis %lld is outside the %d dimensions", (long long)axis,
                                  rank);
    *result = (int)(axis < 0 ? axis + rank : axis);
    return CLEAVE_OK;
}
