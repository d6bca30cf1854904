/* Changes ONNX files in their structure: a field anywhere in the message is changed, taken out,
   doubled or put in, and the lengths around it are right again.  Names are exchanged for others of
   the file or of the table of operators, numbers for those that readers trip over. */
#include "../support/onnx_writer.h"
#include "base/random.h"
#include "graph/import/import.h"

#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t first_size, const uint8_t *second,
                                 size_t second_size, uint8_t *out, size_t most, unsigned seed);

typedef enum message {
    NO_MESSAGE,
    MODEL,
    GRAPH,
    NODE,
    ATTRIBUTE,
    TENSOR,
    VALUE,
    TYPE,
    TENSOR_TYPE,
    SHAPE,
    DIMENSION,
    OPERATOR_SET
} message;

/* Which fields of a message are messages. */
static message child(message of, unsigned field) {
    static const struct {
        message of;
        unsigned field;
        message child;
    } rows[] = {{MODEL, 7, GRAPH},    {MODEL, 8, OPERATOR_SET}, {GRAPH, 1, NODE},
                {GRAPH, 5, TENSOR},   {GRAPH, 11, VALUE},       {GRAPH, 12, VALUE},
                {GRAPH, 13, VALUE},   {NODE, 5, ATTRIBUTE},     {ATTRIBUTE, 5, TENSOR},
                {VALUE, 2, TYPE},     {TYPE, 1, TENSOR_TYPE},   {TENSOR_TYPE, 2, SHAPE},
                {SHAPE, 1, DIMENSION}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].of == of && rows[i].field == field)
            return rows[i].child;
    return NO_MESSAGE;
}

/* ---- reading fields -------------------------------------------------------------------------- */

enum { VARINT = 0, EIGHT_BYTES = 1, LENGTH = 2, FOUR_BYTES = 5 };

typedef struct field {
    unsigned number, kind;
    uint64_t value; /* of a varint */
    const uint8_t *data;
    size_t n;                 /* of the others */
    const uint8_t *from, *to; /* all of it, tag included */
} field;

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool read_field(const uint8_t **at, const uint8_t *end, field *f) {
    uint64_t tag, n = 0;
    *f = (field){.from = *at};
    if (!read_varint(at, end, &tag) || tag >> 3 > 1000)
        return false;
    f->number = (unsigned)(tag >> 3);
    f->kind = (unsigned)(tag & 7);
    if (f->kind == VARINT ? !read_varint(at, end, &f->value)
                          : f->kind == LENGTH && !read_varint(at, end, &n))
        return false;
    n = f->kind == EIGHT_BYTES ? 8 : f->kind == FOUR_BYTES ? 4 : n;
    if (f->kind > FOUR_BYTES || n > (uint64_t)(end - *at))
        return false;
    f->data = *at;
    f->n = (size_t)n;
    f->to = *at += n;
    return true;
}

/* ---- what is put in -------------------------------------------------------------------------- */

enum { MOST_NAMES = 64, MOST_BYTES = 60000 };

typedef struct mutation {
    cleave_random random;
    int64_t target, at; /* number of the field to be changed, and of the one that comes next */
    bool counts;        /* nothing is written: fields are counted and names collected */
    int n_names;
    field names[MOST_NAMES]; /* of values */
    field extra;             /* a field of another file's graph; `from` null: none */
} mutation;

static int64_t below(mutation *m, int64_t n) { return cleave_random_below(&m->random, n); }

static int64_t a_number(mutation *m, int64_t before) {
    static const int64_t odd[] = {-1,
                                  0,
                                  1,
                                  2,
                                  3,
                                  4,
                                  5,
                                  8,
                                  16,
                                  64,
                                  255,
                                  4096,
                                  1 << 20,
                                  1 << 27,
                                  INT32_MAX,
                                  INT32_MIN,
                                  INT64_MAX,
                                  INT64_MIN,
                                  INT64_MAX / 2,
                                  INT64_C(1) << 40};
    switch (below(m, 4)) {
    case 0:
        return (int64_t)((uint64_t)before + 1);
    case 1:
        return (int64_t)((uint64_t)before - 1);
    case 2:
        return below(m, 24) - 4;
    default:
        return odd[below(m, sizeof odd / sizeof *odd)];
    }
}

static int n_operators(void) {
    bool constant_only;
    int n = 0;
    while (cleave_import_operator_type(n, &constant_only) != NULL)
        n++;
    return n;
}

static const char *an_operator(mutation *m) {
    bool constant_only;
    return cleave_import_operator_type((int)below(m, n_operators()), &constant_only);
}

static const char *an_attribute(mutation *m) {
    for (;;) {
        int i = (int)below(m, n_operators()), n = 0;
        while (cleave_import_operator_attribute(i, n) != NULL)
            n++;
        if (n > 0)
            return cleave_import_operator_attribute(i, (int)below(m, n));
    }
}

static const char *a_word(mutation *m) {
    static const char *const words[] = {
        "",        "N",      "SAME_UPPER", "SAME_LOWER",    "VALID",
        "linear",  "cubic",  "nearest",    "asymmetric",    "align_corners",
        "reverse", "floor",  "ceil",       "half_pixel",    "tf_crop_and_resize",
        "reflect", "edge",   "wrap",       "constant",      "bidirectional",
        "none",    "mean",   "sum",        "ij,jk->ik",     "...ii,i->...",
        "CRD",     "Affine", "tanh",       "abcdefghijklmn"};
    return words[below(m, sizeof words / sizeof *words)];
}

/* Raw data: an element of four or eight bytes, or whatever libFuzzer does. */
static void put_changed_data(mutation *m, bytes *out, const field *f) {
    uint8_t copy[4096];
    size_t n = f->n;
    if (n > sizeof copy - 64) {
        put_data(out, f->number, f->data, f->n);
        return;
    }
    memcpy(copy, f->data, n);
    size_t width = below(m, 2) == 0 ? 4 : 8;
    if (n >= width && below(m, 4) != 0) {
        size_t at = width * (size_t)below(m, (int64_t)(n / width));
        int64_t value = 0;
        memcpy(&value, copy + at, width);
        value = a_number(m, value);
        memcpy(copy + at, &value, width);
    } else {
        n = LLVMFuzzerMutate(copy, n, sizeof copy);
    }
    put_data(out, f->number, copy, n);
}

static bool names_values(message in, unsigned number) {
    return (in == NODE && number <= 2) || (in == VALUE && number == 1) ||
           (in == TENSOR && number == 8);
}

static void put_changed(mutation *m, bytes *out, message in, const field *f) {
    if (f->kind == VARINT) {
        put_integer(out, f->number, a_number(m, (int64_t)f->value));
    } else if (f->kind != LENGTH) {
        static const float odd[] = {0, 1, -1, 0.5f, 2, 1e-30f, 1e30f};
        float value = odd[below(m, sizeof odd / sizeof *odd)];
        put_varint(out, f->number << 3 | FOUR_BYTES);
        put_raw(out, &value, sizeof value);
    } else if (in == NODE && f->number == 4) {
        put_text(out, f->number, an_operator(m));
    } else if (in == ATTRIBUTE && f->number == 1) {
        put_text(out, f->number, an_attribute(m));
    } else if (in == ATTRIBUTE) {
        put_text(out, f->number, a_word(m));
    } else if (names_values(in, f->number) && m->n_names > 0) {
        const field *name = &m->names[below(m, m->n_names)];
        put_data(out, f->number, name->data, below(m, 12) == 0 ? 0 : name->n);
    } else {
        put_changed_data(m, out, f);
    }
}

/* Something that the message may have and this one perhaps has not. */
static void put_new(mutation *m, bytes *out, message in) {
    bytes made;
    made.n = 0;
    int64_t list[6];
    int n = (int)below(m, 6);
    for (int i = 0; i < n; i++)
        list[i] = a_number(m, i);
    if (in == NODE) {
        const char *name = an_attribute(m);
        switch (below(m, 4)) {
        case 0:
            attribute_integers(out, name, n, list);
            break;
        case 1:
            attribute_text(out, name, a_word(m));
            break;
        case 2:
            attribute_float(out, name, (float)below(m, 9) / 4);
            break;
        default:
            attribute_integer(out, name, a_number(m, 0));
        }
    } else if (in == SHAPE) {
        put_integer(&made, 1, a_number(m, 2));
        put_message(out, 1, &made);
    } else if (in == GRAPH && m->extra.from != NULL) {
        put_raw(out, m->extra.from, (size_t)(m->extra.to - m->extra.from));
    } else if (in == TENSOR) {
        put_integer(out, 1, a_number(m, 2));
    }
}

/* ---- walking --------------------------------------------------------------------------------- */

static bool rewrite(mutation *m, message in, const uint8_t *data, size_t n, bytes *out);

static bool rewrite_field(mutation *m, message in, const field *f, bytes *out) {
    message inner = f->kind == LENGTH ? child(in, f->number) : NO_MESSAGE;
    bool chosen = m->at++ == m->target;
    if (m->counts && names_values(in, f->number) && m->n_names < MOST_NAMES)
        m->names[m->n_names++] = *f;
    if (chosen && below(m, 8) == 0) /* taken out */
        return true;
    if (chosen && below(m, 8) == 0) { /* one more of it */
        put_raw(out, f->from, (size_t)(f->to - f->from));
        put_new(m, out, in);
    }
    if (chosen && inner == NO_MESSAGE) {
        put_changed(m, out, in, f);
        return true;
    }
    if (inner == NO_MESSAGE) {
        if (!m->counts)
            put_raw(out, f->from, (size_t)(f->to - f->from));
        return true;
    }
    bytes made;
    made.n = 0;
    if (!rewrite(m, inner, f->data, f->n, &made))
        return false;
    if (chosen)
        put_new(m, &made, inner);
    if (!m->counts)
        put_message(out, f->number, &made);
    return true;
}

static bool rewrite(mutation *m, message in, const uint8_t *data, size_t n, bytes *out) {
    const uint8_t *at = data;
    field f;
    while (at < data + n)
        if (!read_field(&at, data + n, &f) || !rewrite_field(m, in, &f, out))
            return false;
    return true;
}

/* False where the bytes are no message, or the result is too long. */
static bool mutate(mutation *m, const uint8_t *data, size_t size, bytes *out) {
    out->n = 0;
    m->counts = true;
    m->target = -1;
    if (size > MOST_BYTES / 2 || !rewrite(m, MODEL, data, size, out) || m->at == 0)
        return false;
    m->counts = false;
    m->target = below(m, m->at);
    m->at = 0;
    return rewrite(m, MODEL, data, size, out);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    mutation m = {.random = {.key = seed}};
    bytes out;
    if (below(&m, 50) == 0)
        return LLVMFuzzerMutate(data, size, most);
    for (int64_t i = 1 + below(&m, 4); i > 0; i--) {
        m.n_names = 0;
        m.at = 0;
        if (!mutate(&m, data, size, &out) || out.n > most)
            return LLVMFuzzerMutate(data, size, most);
        memcpy(data, out.data, out.n);
        size = out.n;
    }
    return size;
}

/* A field of the other file's graph, which is a node, a weight or an input, joins this one's. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t first_size, const uint8_t *second,
                                 size_t second_size, uint8_t *out, size_t most, unsigned seed) {
    mutation m = {.random = {.key = seed}};
    bytes made;
    field f = {0}, inner;
    for (const uint8_t *at = second; at < second + second_size;) {
        if (!read_field(&at, second + second_size, &f))
            return 0;
        if (f.number != 7 || f.kind != LENGTH)
            continue;
        int64_t n = 0;
        for (const uint8_t *in = f.data;
             in < f.data + f.n && read_field(&in, f.data + f.n, &inner);)
            if (below(&m, ++n) == 0)
                m.extra = inner;
    }
    if (first_size + (size_t)(m.extra.to - m.extra.from) > MOST_BYTES / 2)
        return 0;
    made.n = 0;
    for (const uint8_t *at = first; at < first + first_size;) {
        if (!read_field(&at, first + first_size, &f))
            return 0;
        bytes graph;
        graph.n = 0;
        bool is_graph = f.number == 7 && f.kind == LENGTH;
        if (is_graph) {
            put_raw(&graph, f.data, f.n);
            put_new(&m, &graph, GRAPH);
            put_message(&made, 7, &graph);
        } else {
            put_raw(&made, f.from, (size_t)(f.to - f.from));
        }
    }
    if (made.n > most)
        return 0;
    memcpy(out, made.data, made.n);
    return made.n;
}
