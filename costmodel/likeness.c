#include "costmodel/likeness.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char part_ends[] = " / "; /* "convolution forward sum / n=32 k=64 / f32.0231[n, ..." */

/* How far kernels of different forms are apart, as far as that is known. */
static const float other_form = 4;

/* A kernel counts half as much for each power of two that it is further away, and one at this
   distance as much as the fit itself, which is off by nothing. */
static const double distance_of_fit = 6;

/* Does it stand behind another axis in a dimension, as "r" does in "4h+r-2": a window, or what each
   group has of its own? */
static bool is_inner(const char *name, size_t length, const char *rest) {
    for (const char *at = strchr(rest, '+'); at != NULL; at = strchr(at + 1, '+'))
        if (strncmp(at + 1, name, length) == 0 && strchr("+-,]", at[1 + length]) != NULL)
            return true;
    return false;
}

/* Reads "n=32 k=64": names count for the kin, and what is not split in general is of the form. */
static void read_axes(const char *at, const char *rest, cleave_likeness *likeness) {
    while (at < rest && likeness->n_axes < CLEAVE_MAX_AXES) {
        const char *name = at;
        for (; at < rest && *at != '='; at++)
            likeness->kin = cleave_hash_join(likeness->kin, (uint64_t)(unsigned char)*at);
        if (at == rest)
            return;
        char *after;
        double extent = strtod(at + 1, &after);
        if (is_inner(name, (size_t)(at - name), rest))
            likeness->form = cleave_hash_join(likeness->form, (uint64_t)extent);
        likeness->extents[likeness->n_axes++] = (float)log2(extent > 1 ? extent : 1);
        at = *after == ' ' ? after + 1 : after;
    }
}

static const char *skip_digits(const char *at) { return at + strspn(at, "0123456789"); }

/* After "-2+1", by how much a box sticks out of its tensor; else where it is. */
static const char *skip_padding(const char *at) {
    const char *middle = *at == '-' ? skip_digits(at + 1) : at;
    if (*middle != '+' || *at != '-')
        return at;
    const char *end = skip_digits(middle + 1);
    return *end == ',' || *end == ']' ? end : at;
}

static void read_form(const char *at, cleave_likeness *likeness) {
    static const char pieces[] = " / pieces=";
    /* A key that was too long ends in the hash of all, extents, too. */
    while (*at != '\0' && *at != '#' && strncmp(at, pieces, sizeof pieces - 1) != 0) {
        const char *next = skip_padding(at);
        if (next == at)
            likeness->form = cleave_hash_join(likeness->form, (uint64_t)(unsigned char)*next++);
        at = next;
    }
}

cleave_likeness cleave_likeness_read(const char *key) {
    cleave_likeness likeness = {0};
    const char *axes = strstr(key, part_ends);
    const char *rest = axes != NULL ? strstr(axes + 1, part_ends) : NULL;
    if (rest == NULL)
        return likeness;
    read_axes(axes + sizeof part_ends - 1, rest, &likeness);
    read_form(rest, &likeness);
    return likeness;
}

static double distance(const cleave_likeness *a, const cleave_likeness *b) {
    float sum = a->form == b->form ? 0 : other_form;
    for (int i = 0; i < a->n_axes; i++)
        sum += fabsf(a->extents[i] - b->extents[i]);
    return (double)sum;
}

double cleave_likeness_correction(const cleave_likened *kernels, int32_t n,
                                  const cleave_likeness *of) {
    double weights = exp2(-distance_of_fit), sum = 0;
    for (int32_t i = 0; i < n; i++) {
        const cleave_likeness *to = &kernels[i].of;
        if (of->n_axes == 0 || to->n_axes != of->n_axes || to->kin != of->kin)
            continue;
        double weight = exp2(-distance(to, of));
        weights += weight;
        sum += weight * kernels[i].off;
    }
    return exp(sum / weights);
}
